//! Document frequencies: in how many documents each feature occurs. They can be merged, saved and loaded.

use super::vocabulary::Terms;
use crate::error::{Error, Result};
use crate::format::{self, FREQUENCIES};
use crate::hash::FEATURE_HASH;
use crate::text::{FeatureKind, TOKENIZER};
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

/// Passes a feature through: it is a good hash already.
#[derive(Clone, Copy, Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        // hashbrown takes its tag from the top bits and the place from the bottom ones; the top bits chose the shard.
        self.0.rotate_left(SHARD_BITS)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u64(&mut self, feature: u64) {
        self.0 = feature;
    }
}

type Map = HashMap<u64, u32, BuildHasherDefault<Same>>;

/// Features are parted by their leading bits, so that parts can be summed at the same time.
const SHARD_BITS: u32 = 6;

fn shard_of(feature: u64) -> usize {
    (feature >> (64 - SHARD_BITS)) as usize
}

/// In how many documents each feature occurs, and how many documents there are.
#[derive(Clone, Debug)]
pub struct Frequencies {
    documents: u64,
    kind: FeatureKind,
    shards: Vec<Map>,
}

/// What stands in front of a file of frequencies.
#[derive(Serialize, Deserialize)]
struct Header {
    hash: String,
    tokenizer: String,
    features: FeatureKind,
    documents: u64,
    distinct: u64,
}

impl Frequencies {
    /// The frequencies of no documents.
    pub fn new(kind: FeatureKind) -> Self {
        Self { documents: 0, kind, shards: vec![Map::default(); 1 << SHARD_BITS] }
    }

    /// The sum over the threads' terms.
    pub fn sum(kind: FeatureKind, documents: u64, parts: &[&Terms]) -> Self {
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
        Self { documents, kind, shards }
    }

    /// Adds the frequencies of another corpus.
    ///
    /// # Errors
    /// If the two count different kinds of features.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.kind != other.kind {
            return Err(Error::parameter(
                "features",
                other.kind,
                format!("{} as in the other part", self.kind),
            ));
        }
        self.documents += other.documents;
        for (mine, theirs) in self.shards.iter_mut().zip(&other.shards) {
            for (&feature, &n) in theirs {
                let sum = mine.entry(feature).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        Ok(())
    }

    /// The number of documents with the feature.
    pub fn get(&self, feature: u64) -> u32 {
        self.shards[shard_of(feature)].get(&feature).copied().unwrap_or(0)
    }

    /// The number of documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// What kind of features is counted.
    pub fn kind(&self) -> FeatureKind {
        self.kind
    }

    /// The number of distinct features.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Map::len).sum()
    }

    /// Whether no feature is counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the frequencies to a file; the same frequencies give the same bytes.
    ///
    /// # Errors
    /// If the file cannot be written; then there is none.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut entries: Vec<(u64, u32)> = self.shards.iter().flatten().map(|(&f, &n)| (f, n)).collect();
        entries.par_sort_unstable();
        let features: Vec<u8> = entries.iter().flat_map(|(f, _)| f.to_le_bytes()).collect();
        let counts: Vec<u8> = entries.iter().flat_map(|(_, n)| n.to_le_bytes()).collect();
        let header = Header {
            hash: FEATURE_HASH.to_owned(),
            tokenizer: TOKENIZER.to_owned(),
            features: self.kind,
            documents: self.documents,
            distinct: entries.len() as u64,
        };
        format::write(path, FREQUENCIES, &header, &[&features, &counts])
    }

    /// Reads frequencies of features of `kind` from a file.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or was made with another hash, other tokenising rules or another kind of
    /// features.
    pub fn load(path: &Path, kind: FeatureKind) -> Result<Self> {
        let (header, body): (Header, _) = format::read(path, FREQUENCIES)?;
        let must = |field, expected: String, got: String| {
            if expected == got {
                return Ok(());
            }
            let advice = "count the frequencies again with the settings of this run";
            Err(Error::Format { path: path.to_path_buf(), field, expected, got, advice })
        };
        must("the feature hash", FEATURE_HASH.to_owned(), header.hash)?;
        must("the tokenizer", TOKENIZER.to_owned(), header.tokenizer)?;
        must("the kind of features", kind.to_string(), header.features.to_string())?;
        must("the body's length", header.distinct.saturating_mul(12).to_string(), body.len().to_string())?;
        let (features, counts) = body.split_at(body.len() / 12 * 8);
        let mut frequencies = Self { documents: header.documents, ..Self::new(kind) };
        for (feature, n) in features.chunks_exact(8).zip(counts.chunks_exact(4)) {
            let feature = u64::from_le_bytes(feature.try_into().expect("8 bytes"));
            let n = u32::from_le_bytes(n.try_into().expect("4 bytes"));
            frequencies.shards[shard_of(feature)].insert(feature, n);
        }
        Ok(frequencies)
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
    fn saved_and_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frequencies");
        let kind = FeatureKind::Shingles(3);
        let saved = Frequencies::sum(kind, 2, &[&terms(&[vec![1, 2, u64::MAX], vec![2, 2]])]);
        saved.save(&path).unwrap();
        let loaded = Frequencies::load(&path, kind).unwrap();
        assert_eq!((loaded.documents(), loaded.len()), (2, 3));
        assert_eq!([1, 2, u64::MAX, 3].map(|f| loaded.get(f)), [1, 2, 1, 0]);
        let message = Frequencies::load(&path, FeatureKind::Words).unwrap_err().to_string();
        assert!(message.contains("the kind of features is shingles:3, but words is needed"), "{message}");
    }
}
