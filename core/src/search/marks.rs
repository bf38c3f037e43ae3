//! Which slots have a document, in a bit each.

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    words: Vec<u64>,
    count: usize,
}

impl Marks {
    /// The first so many numbers.
    pub(crate) fn first(count: usize) -> Self {
        let mut words = vec![u64::MAX; count.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last = (1 << (count % 64)) - 1;
        }
        Self { words, count }
    }

    /// True if a number is in the set.
    #[inline]
    pub(crate) fn has(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Takes a number in, or out.
    pub(crate) fn set(&mut self, number: usize, is_in: bool) {
        if self.has(number) == is_in {
            return;
        }
        if self.words.len() <= number / 64 {
            self.words.resize(number / 64 + 1, 0);
        }
        self.words[number / 64] ^= 1 << (number % 64);
        self.count = if is_in { self.count + 1 } else { self.count - 1 };
    }

    /// The number of marks.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set() {
        let mut rng = SplitMix64::new(2);
        for n in [0, 1, 63, 64, 65, 1_000] {
            let (mut marks, mut set) = (Marks::first(n), (0..n).collect::<BTreeSet<_>>());
            for _ in 0..2_000 {
                let (number, is_in) = (rng.below(1_100) as usize, rng.below(2) == 0);
                marks.set(number, is_in);
                if is_in {
                    set.insert(number)
                } else {
                    set.remove(&number)
                };
                assert_eq!(marks.count(), set.len());
            }
            assert!((0..1_200).all(|number| marks.has(number) == set.contains(&number)));
        }
    }
}
