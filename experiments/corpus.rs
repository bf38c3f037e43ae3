//! A corpus as the experiments need it: features with their true weights, and hashes with whole weight vectors.

use anyhow::{Context, Result, ensure};
use flipside::corpus::{ReadOptions, discover};
use flipside::hash::fmix64;
use flipside::pipeline::collect::{Collection, Keeping, collect};
use flipside::pipeline::sketch::Texts;
use flipside::simhash::SimHash;
use flipside::simhash::hasher::SimHasher;
use flipside::text::FeatureKind;
use flipside::weight::frequencies::Frequencies;
use flipside::weight::{Weigher, Weighting};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// Documents with fewer distinct features are left out, as the tool does by default.
pub const MIN_FEATURES: usize = 8;

/// The documents of some files, cut into one kind of feature.
pub struct Corpus {
    /// Name in results: that of the file or folder.
    pub name: String,
    /// Hash over the texts of all documents, in order.
    pub digest: String,
    collection: Collection,
    texts: Texts,
    frequencies: Frequencies,
}

/// A file's or folder's name without the endings of formats.
pub fn name_of(path: &Path) -> String {
    let name = path.file_name().map_or("corpus".into(), |name| name.to_string_lossy());
    name.split(".warc").next().unwrap_or_default().split(".jsonl").next().unwrap_or_default().to_owned()
}

impl Corpus {
    /// Reads the files at `path`.
    pub fn load(path: &Path, features: FeatureKind) -> Result<Self> {
        let paths = [PathBuf::from(path)];
        let inputs = discover(&paths, &Default::default())
            .with_context(|| format!("looking for {}", path.display()))?;
        let options = ReadOptions { threads: rayon::current_num_threads(), ..ReadOptions::default() };
        let collection = collect(inputs, &options, features, Keeping::Features, &|_| {});
        ensure!(!collection.documents.is_empty(), "{}: no documents", path.display());
        let digest = collection.documents.rows().iter().fold(0, |sum, row| fmix64(sum ^ row.digest as u64));
        let texts = Texts::new(&collection, MIN_FEATURES);
        let frequencies = Frequencies::sum(features, collection.documents.len() as u64, &collection.terms());
        let name = name_of(path);
        Ok(Self { name, digest: format!("{digest:016x}"), collection, texts, frequencies })
    }

    /// Number of distinct texts with enough features; they are numbered from 0.
    pub fn len(&self) -> usize {
        self.texts.sketched.len()
    }

    /// Number of documents, copies included.
    pub fn documents(&self) -> usize {
        self.collection.documents.len()
    }

    /// The number of a text's first document, the same whatever the features are.
    pub fn document(&self, text: usize) -> u32 {
        self.texts.copies(self.texts.sketched[text])[0]
    }

    /// Number of documents with the text.
    pub fn copies(&self, text: usize) -> usize {
        self.copies_of(text).len()
    }

    /// The documents that have a text.
    pub fn copies_of(&self, text: usize) -> &[u32] {
        self.texts.copies(self.texts.sketched[text])
    }

    /// What the stages of the tool's own pipeline work on.
    pub fn parts(&self) -> (&Collection, &Texts, &Frequencies) {
        (&self.collection, &self.texts, &self.frequencies)
    }

    /// The distinct features of a text in order of first occurrence, each with its weight before normalisation.
    pub fn features(&self, text: usize, weigher: &Weigher) -> Vec<(u64, i64)> {
        let document = self.document(text);
        let (_, _, occurrences) = self.collection.terms_of(document);
        let documents = self.frequencies.documents();
        let of = |(feature, &n): (u64, &u16)| {
            let idf = weigher.idf(self.frequencies.get(feature), documents);
            (feature, weigher.weight(u32::from(n), idf))
        };
        self.collection.features_of(document).zip(occurrences).map(of).collect()
    }

    /// The distinct features of a text, ascending, each with its number of occurrences.
    pub fn counts(&self, text: usize) -> Vec<(u64, u32)> {
        let document = self.document(text);
        let (_, _, occurrences) = self.collection.terms_of(document);
        let mut counts: Vec<(u64, u32)> = self
            .collection
            .features_of(document)
            .zip(occurrences)
            .map(|(feature, &n)| (feature, u32::from(n)))
            .collect();
        counts.sort_unstable();
        counts
    }

    /// The SimHash of every text, with the weights in full.
    pub fn simhashes(&self, weighting: Weighting) -> Vec<SimHash> {
        let weigher = Weigher::new(weighting);
        (0..self.len())
            .into_par_iter()
            .map_init(SimHasher::default, |hasher, text| {
                hasher.hash(self.features(text, &weigher).into_iter())
            })
            .collect()
    }
}
