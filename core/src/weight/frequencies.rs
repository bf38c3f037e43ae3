//! Document frequencies: in how many documents of a corpus each feature occurs. Those of several corpora can be merged.

use super::vocabulary::Terms;
use crate::error::Result;
use crate::text::{Extraction, FeatureKind};
use hashbrown::HashMap;
use rayon::prelude::*;
use std::hash::{BuildHasherDefault, Hasher};

/// Passes a feature through: it is a good hash already.
#[derive(Clone, Copy, Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        // hashbrown takes its tag from the top bits and the place from the bottom ones; the
        // top bits chose the shard.
        self.0.rotate_left(SHARD_BITS)
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("features are numbers of 64 bits");
    }

    fn write_u64(&mut self, feature: u64) {
        self.0 = feature;
    }
}

type Map = HashMap<u64, u32, BuildHasherDefault<Same>>;

/// The number of leading bits of a feature that choose its shard. A shard is one of 64 maps, which threads sum at the
/// same time.
const SHARD_BITS: u32 = 6;

fn shard_of(feature: u64) -> usize {
    (feature >> (64 - SHARD_BITS)) as usize
}

/// The number of documents in which each feature occurs, and the number of all documents of a corpus.
#[derive(Clone, Debug)]
pub struct Frequencies {
    documents: u64,
    extraction: Extraction,
    shards: Vec<Map>,
}

impl Frequencies {
    /// The frequencies of a corpus of `documents` documents, whose [`entries`](Self::entries) are these: a feature and
    /// the number of documents that have it. `extraction` says how the features were made.
    pub fn from_entries(
        extraction: impl Into<Extraction>,
        documents: u64,
        entries: impl IntoIterator<Item = (u64, u32)>,
    ) -> Self {
        let mut frequencies = Self { documents, ..Self::new(extraction) };
        for (feature, n) in entries {
            frequencies.shards[shard_of(feature)].insert(feature, n);
        }
        frequencies
    }
}

#[doc(hidden)]
impl Frequencies {
    /// The frequencies of no documents. A kind of features alone is hashed by MurmurHash3.
    pub fn new(extraction: impl Into<Extraction>) -> Self {
        Self { documents: 0, extraction: extraction.into(), shards: vec![Map::default(); 1 << SHARD_BITS] }
    }

    /// The frequencies of a corpus of `documents` documents, of which each thread counted a part.
    pub(crate) fn sum(extraction: impl Into<Extraction>, documents: u64, parts: &[&Terms]) -> Self {
        // Each part's terms in order of shard: (shard, term) needs no look at other threads' shards.
        let by_shard: Vec<Vec<Vec<u32>>> = parts
            .par_iter()
            .map(|terms| {
                let mut shards = vec![Vec::new(); 1 << SHARD_BITS];
                for (&feature, term) in terms.features.iter().zip(0..) {
                    shards[shard_of(feature)].push(term);
                }
                shards
            })
            .collect();
        let shards = (0..1 << SHARD_BITS)
            .into_par_iter()
            .map(|shard: usize| {
                let largest = by_shard.iter().map(|part| part[shard].len()).max().unwrap_or(0);
                let mut map = Map::with_capacity_and_hasher(largest, BuildHasherDefault::default());
                for (terms, part) in parts.iter().zip(&by_shard) {
                    for &term in &part[shard] {
                        let sum: &mut u32 = map.entry(terms.features[term as usize]).or_default();
                        *sum = sum.saturating_add(terms.frequencies[term as usize]);
                    }
                }
                map
            })
            .collect();
        Self { documents, extraction: extraction.into(), shards }
    }

    /// Adds the frequencies of another corpus.
    ///
    /// # Errors
    /// If the two count features of different kinds or of different hashes.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.extraction.fits(other.extraction)?;
        self.documents += other.documents;
        for (mine, theirs) in self.shards.iter_mut().zip(&other.shards) {
            for (&feature, &n) in theirs {
                let sum = mine.entry(feature).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        Ok(())
    }

    /// The number of documents with the feature, 0 if there are none.
    pub fn get(&self, feature: u64) -> u32 {
        self.shards[shard_of(feature)].get(&feature).copied().unwrap_or(0)
    }

    /// The number of documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The kind of features that is counted.
    pub fn kind(&self) -> FeatureKind {
        self.extraction.kind
    }

    /// The kind of the features that are counted, and their hash.
    pub fn extraction(&self) -> Extraction {
        self.extraction
    }

    /// The number of distinct features.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Map::len).sum()
    }

    /// True if no feature is counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every feature that occurs, with the number of documents that have it, by ascending feature.
    pub fn entries(&self) -> Vec<(u64, u32)> {
        let mut entries: Vec<(u64, u32)> = self.shards.iter().flatten().map(|(&f, &n)| (f, n)).collect();
        entries.par_sort_unstable();
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight::vocabulary::Vocabulary;
    use proptest::prelude::*;

    fn terms(documents: &[Vec<u64>]) -> Terms {
        let mut vocabulary = Vocabulary::default();
        for document in documents {
            document.iter().for_each(|&f| vocabulary.add(f));
            vocabulary.finish(|_, _| ());
        }
        vocabulary.into_terms()
    }

    fn features() -> impl Strategy<Value = Vec<Vec<u64>>> {
        prop::collection::vec(
            prop::collection::vec((0u64..40).prop_map(|f| f.wrapping_mul(0x0765_4321_1234_5678)), 0..20),
            0..20,
        )
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole_however_they_are_cut(documents in features(), cut in 0usize..20) {
            let kind = FeatureKind::Words;
            let (a, b) = documents.split_at(cut.min(documents.len()));
            let whole = Frequencies::sum(kind, documents.len() as u64, &[&terms(&documents)]);
            let summed = Frequencies::sum(kind, documents.len() as u64, &[&terms(a), &terms(b)]);
            let mut merged = Frequencies::sum(kind, a.len() as u64, &[&terms(a)]);
            merged.merge(&Frequencies::sum(kind, b.len() as u64, &[&terms(b)])).unwrap();
            for f in documents.iter().flatten() {
                let naive = documents.iter().filter(|d| d.contains(f)).count() as u32;
                prop_assert_eq!([whole.get(*f), summed.get(*f), merged.get(*f)], [naive; 3]);
            }
            prop_assert_eq!([whole.len(), summed.len()], [merged.len(); 2]);
            prop_assert_eq!(merged.documents(), documents.len() as u64);
        }
    }

    #[test]
    fn entries_are_the_whole_of_it() {
        let kind = FeatureKind::Shingles(3);
        let counted = Frequencies::sum(kind, 2, &[&terms(&[vec![1, 2, u64::MAX], vec![2, 2]])]);
        let entries = counted.entries();
        assert_eq!(entries, [(1, 1), (2, 2), (u64::MAX, 1)]);
        let again = Frequencies::from_entries(kind, 2, entries);
        assert_eq!((again.kind(), again.documents(), again.len()), (kind, 2, 3));
        assert_eq!([1, 2, u64::MAX, 3].map(|f| again.get(f)), [1, 2, 1, 0]);
    }
}
