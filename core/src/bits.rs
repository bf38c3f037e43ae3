//! Sets of documents, one bit for each. A document is a number from 0 here: its rank in keep order, or its number in an
//! index.

/// A set of documents: a bit for each number from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

const WORD: u64 = u64::BITS as u64;

impl Bits {
    /// Makes a bit for each document from 0 to `documents` − 1, all unset.
    pub fn new(documents: u64) -> Self {
        Self { words: vec![0; documents.div_ceil(WORD) as usize] }
    }

    /// Lengthens the list to `documents` bits, if it is shorter. New bits are unset.
    pub(crate) fn reach(&mut self, documents: u64) {
        let words = documents.div_ceil(WORD) as usize;
        self.words.resize(self.words.len().max(words), 0);
    }

    /// Bytes of memory, spare room included.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The bits, 64 to a word. Document 0 has the lowest bit of the first word.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// True if a document's bit is set; false for a document beyond the last.
    #[inline]
    pub fn get(&self, document: u64) -> bool {
        self.words.get((document / WORD) as usize).is_some_and(|word| word >> (document % WORD) & 1 == 1)
    }

    /// Sets a document's bit.
    ///
    /// # Panics
    /// If the document is beyond the last word.
    #[inline]
    pub fn set(&mut self, document: u64) {
        self.words[(document / WORD) as usize] |= 1 << (document % WORD);
    }

    /// Unsets a document's bit.
    ///
    /// # Panics
    /// If the document is beyond the last word.
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

    /// The number of documents whose bits are set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Sets each bit that is set in `others`, too: the union.
    ///
    /// # Panics
    /// If the two have different numbers of words.
    pub fn add(&mut self, others: &Self) {
        assert_eq!(self.words.len(), others.words.len(), "bits of as many documents");
        self.words.iter_mut().zip(&others.words).for_each(|(word, other)| *word |= other);
    }
}

/// A set of documents that tells the place of each member among the members, for lists of members alone. It takes a
/// seventh of a byte for each document, member or not.
#[derive(Clone, Debug)]
pub struct Subset {
    members: Bits,
    /// The number of bits that are set before each block of words.
    before: Vec<u32>,
}

/// Words whose bits are counted anew for each place.
const BLOCK: usize = 8;

impl Subset {
    /// The set of the documents whose bits are set: fewer than 2³².
    pub fn new(members: Bits) -> Self {
        let (mut before, mut sum) = (Vec::with_capacity(members.words.len().div_ceil(BLOCK)), 0);
        for block in members.words.chunks(BLOCK) {
            before.push(sum);
            sum += block.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        Self { members, before }
    }

    /// The place of a member from 0: the number of members with lesser numbers.
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
