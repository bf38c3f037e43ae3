//! Which slots have a page, in a bit each.

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    words: Vec<u64>,
    count: usize,
}

impl Marks {
    /// Whether a number is in the set.
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

    /// How many numbers are in it.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

impl FromIterator<bool> for Marks {
    fn from_iter<I: IntoIterator<Item = bool>>(is_in: I) -> Self {
        let mut marks = Self::default();
        is_in.into_iter().enumerate().for_each(|(number, is_in)| marks.set(number, is_in));
        marks
    }
}
