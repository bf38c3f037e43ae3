//! A bit for each of many documents.

/// A bit for each document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

const WORD: u64 = u64::BITS as u64;

impl Bits {
    /// Makes `documents` bits, all unset.
    pub fn new(documents: u64) -> Self {
        Self { words: vec![0; documents.div_ceil(WORD) as usize] }
    }

    /// Makes room for documents up to a number, whose bits are unset if they are new.
    pub(crate) fn reach(&mut self, documents: u64) {
        let words = documents.div_ceil(WORD) as usize;
        self.words.resize(self.words.len().max(words), 0);
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The bits, 64 to a word, the first one lowest.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// True if a document's bit is set; documents beyond the last have none.
    #[inline]
    pub fn get(&self, document: u64) -> bool {
        self.words.get((document / WORD) as usize).is_some_and(|word| word >> (document % WORD) & 1 == 1)
    }

    /// Sets a document's bit.
    ///
    /// # Panics
    /// If there is no such document.
    #[inline]
    pub fn set(&mut self, document: u64) {
        self.words[(document / WORD) as usize] |= 1 << (document % WORD);
    }

    /// Unsets a document's bit.
    ///
    /// # Panics
    /// If there is no such document.
    #[inline]
    pub fn clear(&mut self, document: u64) {
        self.words[(document / WORD) as usize] &= !(1 << (document % WORD));
    }

    /// The documents whose bits are set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        (0..).zip(&self.words).flat_map(|(at, &word)| {
            let rest = std::iter::successors(Some(word), |&left| Some(left & left.wrapping_sub(1)));
            rest.take_while(|&left| left != 0).map(move |left| at * WORD + u64::from(left.trailing_zeros()))
        })
    }

    /// The number of bits that are set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Sets the bits that are set in others.
    ///
    /// # Panics
    /// If there are not as many of them.
    pub fn add(&mut self, others: &Self) {
        assert_eq!(self.words.len(), others.words.len(), "bits of as many documents");
        self.words.iter_mut().zip(&others.words).for_each(|(word, other)| *word |= other);
    }
}

/// Some documents of all, each with its place among them: a fifth of a byte for every document.
#[derive(Clone, Debug)]
pub struct Subset {
    members: Bits,
    /// The number of bits that are set before each block of words.
    before: Vec<u32>,
}

/// Words whose bits are counted anew for each place.
const BLOCK: usize = 8;

impl Subset {
    /// The documents whose bits are set, of which there are fewer than 2³².
    pub fn new(members: Bits) -> Self {
        let (mut before, mut sum) = (Vec::with_capacity(members.words.len().div_ceil(BLOCK)), 0);
        for block in members.words.chunks(BLOCK) {
            before.push(sum);
            sum += block.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        Self { members, before }
    }

    /// The place of a member.
    #[inline]
    pub fn place(&self, member: u64) -> usize {
        let word = (member / WORD) as usize;
        let block = word / BLOCK;
        let words = &self.members.words;
        let between = words[block * BLOCK..word].iter().map(|word| word.count_ones()).sum::<u32>();
        let within = words[word] & ((1 << (member % WORD)) - 1);
        (self.before[block] + between + within.count_ones()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_of_another_list_are_added() {
        let mut bits = Bits::new(200);
        [0, 3, 63, 64, 127, 128, 199].into_iter().for_each(|document| bits.set(document));
        let mut others = Bits::new(9);
        others.set(5);
        others.reach(200);
        others.reach(7);
        others.add(&bits);
        assert!((0..200).all(|document| others.get(document) == (document == 5 || bits.get(document))));
    }

    proptest! {
        #[test]
        fn members_have_their_places(members in prop::collection::btree_set(0u64..3_000, 0..900)) {
            let mut bits = Bits::new(3_000);
            members.iter().for_each(|&member| bits.set(member));
            prop_assert!(bits.iter().eq(members.iter().copied()));
            let subset = Subset::new(bits.clone());
            for (place, &member) in members.iter().enumerate() {
                prop_assert_eq!(subset.place(member), place);
                bits.clear(member);
                prop_assert!(!bits.get(member));
            }
            prop_assert_eq!(bits.count(), 0);
        }
    }
}
