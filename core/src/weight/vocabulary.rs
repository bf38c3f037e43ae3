//! Counts features while documents stream by. One open-addressing table gives each feature a small number, counts it
//! within the document, and counts the documents that it occurs in, with one look-up for each feature.

use crate::kernel::prefetch;

/// The number of a feature in one vocabulary, counted from 0 in the order in which features first come.
pub type Term = u32;

/// An entry of the table, of sixteen bytes, so that none lies across two cache lines.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Entry {
    feature: u64,
    /// `FREE` where nothing is stored.
    term: Term,
    /// Where the feature stands in the list of the last document that had it, counted through all documents'
    /// lists: from `Vocabulary::begin` on, that document is the one at hand.
    place: u32,
}

/// Places are counted anew from here, long before they would wrap around.
const LAST_BEGIN: u32 = u32::MAX / 4 * 3;

const FREE: Term = Term::MAX;
const EMPTY: Entry = Entry { feature: 0, term: FREE, place: 0 };

/// All features of the documents so far, numbered, with document frequencies, and the counts within the document at
/// hand. [`add`](Self::add) counts a feature of that document, and [`finish`](Self::finish) ends it. Each thread has a
/// vocabulary; see [`super::frequencies`] for the sum.
pub struct Vocabulary {
    entries: Vec<Entry>,
    /// The table's size is 2^(64 − shift): a feature's home is its leading bits, as features are hashes.
    shift: u32,
    /// The features by term, and in how many finished documents they occurred.
    known: Terms,
    /// Length of all lists before that of the document at hand, plus one.
    begin: u32,
    /// The document at hand: its terms in order of first occurrence, and how often each occurs.
    terms: Vec<Term>,
    occurrences: Vec<u16>,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self {
            entries: vec![EMPTY; 1 << 12],
            shift: 64 - 12,
            known: Terms::default(),
            begin: 1,
            terms: Vec::new(),
            occurrences: Vec::new(),
        }
    }
}

impl Vocabulary {
    /// Counts one occurrence of a feature in the document at hand.
    #[inline]
    pub fn add(&mut self, feature: u64) {
        let mask = self.entries.len() - 1;
        let mut at = (feature >> self.shift) as usize;
        loop {
            let entry = &mut self.entries[at];
            if entry.feature == feature && entry.term != FREE {
                // Places before `begin` wrap around to beyond the list.
                match self.occurrences.get_mut(entry.place.wrapping_sub(self.begin) as usize) {
                    Some(count) => *count = count.saturating_add(1),
                    None => {
                        entry.place = self.begin.wrapping_add(self.terms.len() as u32);
                        self.terms.push(entry.term);
                        self.occurrences.push(1);
                    }
                }
                return;
            }
            if entry.term == FREE {
                break;
            }
            at = (at + 1) & mask;
        }
        self.insert(feature, at);
    }

    /// Counts an occurrence of each of these features, as [`add`](Self::add) does. The table is larger than a
    /// processor's caches, so the entries of later features are prefetched.
    pub fn add_all(&mut self, features: &[u64]) {
        const AHEAD: usize = 12;
        for (at, &feature) in features.iter().enumerate() {
            if let Some(&next) = features.get(at + AHEAD) {
                prefetch::read(&self.entries, (next >> self.shift) as usize);
            }
            self.add(feature);
        }
    }

    #[cold]
    fn insert(&mut self, feature: u64, at: usize) {
        let term = self.known.features.len() as Term;
        let place = self.begin.wrapping_add(self.terms.len() as u32);
        self.entries[at] = Entry { feature, term, place };
        self.known.features.push(feature);
        self.known.frequencies.push(0);
        self.terms.push(term);
        self.occurrences.push(1);
        // Three quarters full at most.
        if self.known.features.len() * 4 > self.entries.len() * 3 {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let mut entries = vec![EMPTY; self.entries.len() * 2];
        self.shift -= 1;
        let mask = entries.len() - 1;
        for entry in self.entries.iter().filter(|entry| entry.term != FREE) {
            let mut at = (entry.feature >> self.shift) as usize;
            while entries[at].term != FREE {
                at = (at + 1) & mask;
            }
            entries[at] = *entry;
        }
        self.entries = entries;
    }

    /// Ends the document at hand, and counts its features into the frequencies. Calls `take` with its terms, in order
    /// of first occurrence, and their numbers of occurrences (at most [`super::MAX_OCCURRENCES`]); returns what `take`
    /// does.
    pub fn finish<R>(&mut self, take: impl FnOnce(&[Term], &[u16]) -> R) -> R {
        for &term in &self.terms {
            self.known.frequencies[term as usize] += 1;
        }
        let result = take(&self.terms, &self.occurrences);
        let length = self.terms.len() as u32;
        self.terms.clear();
        self.occurrences.clear();
        // A quarter of the range is left for the next list.
        self.begin = match self.begin.checked_add(length) {
            Some(begin) if begin < LAST_BEGIN => begin,
            _ => {
                self.entries.iter_mut().for_each(|entry| entry.place = 0);
                1
            }
        };
        result
    }

    /// Ends the document at hand without document frequencies. Calls `take` with its features, in order of first
    /// occurrence, and their numbers of occurrences; then empties the vocabulary, and returns what `take` does.
    /// A vocabulary ends all its documents in this way, or all by [`finish`](Self::finish).
    pub(crate) fn finish_and_forget<R>(&mut self, take: impl FnOnce(&[u64], &[u16]) -> R) -> R {
        /// Entries that are always kept.
        const LEAST: usize = 1 << 12;
        debug_assert_eq!(self.begin, 1, "a vocabulary either keeps all documents or forgets each");
        let result = take(&self.known.features, &self.occurrences);
        // One huge page must not make every later one clear a huge table.
        let enough = (self.known.features.len() * 8).next_power_of_two().max(LEAST);
        if self.entries.len() > enough {
            self.entries = vec![EMPTY; enough];
            self.shift = 64 - enough.trailing_zeros();
        } else {
            self.entries.fill(EMPTY);
        }
        self.known.features.clear();
        self.known.frequencies.clear();
        self.terms.clear();
        self.occurrences.clear();
        result
    }

    /// The features by term, and in how many finished documents each occurred.
    pub(crate) fn terms(&self) -> &Terms {
        &self.known
    }

    /// The features and frequencies by term, without the look-up table, once no more documents come.
    pub(crate) fn into_terms(self) -> Terms {
        self.known
    }
}

/// Features and document frequencies by term.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The feature of each term.
    pub features: Vec<u64>,
    /// The number of finished documents that each term occurred in.
    pub frequencies: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn the_feature_zero_is_a_feature() {
        let mut vocabulary = Vocabulary::default();
        vocabulary.add(0);
        vocabulary.add(0);
        vocabulary.finish(|terms, occurrences| assert_eq!((terms, occurrences), (&[0][..], &[2][..])));
        assert_eq!((&vocabulary.known.features[..], &vocabulary.known.frequencies[..]), (&[0][..], &[1][..]));
    }

    proptest! {
        #[test]
        fn a_forgetful_one_knows_nothing_of_earlier_documents(
            documents in prop::collection::vec(
                prop_oneof![
                    8 => prop::collection::vec(prop_oneof![0u64..8, any::<u64>()], 0..60),
                    1 => prop::collection::vec(any::<u64>(), 4_000..9_000),
                ],
                1..12,
            ),
        ) {
            let mut forgetful = Vocabulary::default();
            for document in &documents {
                let mut fresh = Vocabulary::default();
                fresh.add_all(document);
                let expected = fresh.finish(|terms, occurrences| (terms.len(), occurrences.to_vec()));
                forgetful.add_all(document);
                let (features, occurrences) =
                    forgetful.finish_and_forget(|features, occurrences| (features.to_vec(), occurrences.to_vec()));
                prop_assert_eq!(&features, &fresh.terms().features);
                prop_assert_eq!((features.len(), occurrences), expected);
            }
        }
    }

    #[test]
    fn places_are_counted_anew_in_time() {
        let mut vocabulary = Vocabulary { begin: LAST_BEGIN - 2, ..Vocabulary::default() };
        for _ in 0..3 {
            vocabulary.add_all(&[7, 8, 7]);
            vocabulary.finish(|_, occurrences| assert_eq!(occurrences, [2, 1]));
        }
        assert!(vocabulary.begin < 10);
        assert_eq!(vocabulary.known.frequencies, [3, 3]);
    }

    #[test]
    fn occurrences_stop_at_the_largest_number() {
        let mut vocabulary = Vocabulary::default();
        (0..70_000).for_each(|_| vocabulary.add(5));
        vocabulary.finish(|_, occurrences| assert_eq!(occurrences, [u16::MAX]));
    }

    proptest! {
        #[test]
        fn counts_equal_a_hash_map(
            documents in prop::collection::vec(prop::collection::vec(0u64..5_000, 0..600), 0..30),
            spread in prop::sample::select(vec![1u64, 0x9e37_79b9_7f4a_7c15, 1 << 50]),
        ) {
            let mut vocabulary = Vocabulary::default();
            let mut frequencies: HashMap<u64, u32> = HashMap::new();
            for document in &documents {
                let mut counts: HashMap<u64, u16> = HashMap::new();
                let features: Vec<u64> = document.iter().map(|f| f.wrapping_mul(spread)).collect();
                vocabulary.add_all(&features);
                for feature in features {
                    *counts.entry(feature).or_default() += 1;
                }
                counts.keys().for_each(|&feature| *frequencies.entry(feature).or_default() += 1);
                let (terms, occurrences) = vocabulary.finish(|t, o| (t.to_vec(), o.to_vec()));
                let got: HashMap<u64, u16> = terms
                    .iter()
                    .zip(&occurrences)
                    .map(|(&term, &n)| (vocabulary.known.features[term as usize], n))
                    .collect();
                prop_assert_eq!(got.len(), terms.len());
                prop_assert_eq!(got, counts);
            }
            let got: HashMap<u64, u32> =
                vocabulary.known.features.iter().copied().zip(vocabulary.known.frequencies.iter().copied()).collect();
            prop_assert_eq!(got, frequencies);
        }
    }
}
