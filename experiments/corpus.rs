//! A corpus as the experiments need it: features with their true weights, and hashes with whole weight
//! vectors.

use crate::progress::Progress;
use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use simflip::Document;
use simflip::corpus::{ReadOptions, discover};
use simflip::hash::fmix64;
use simflip::pipeline::documents::{ReadDocuments, Wanted};
use simflip::simhash::SimHash;
use simflip::simhash::hasher::SimHasher;
use simflip::text::FeatureKind;
use simflip::weight::frequencies::Frequencies;
use simflip::weight::{Weigher, Weighting};
use simflip_core::collection::{Counted, Keeping, Texts};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Documents with fewer distinct features are left out, as the tool does by default.
pub const MIN_FEATURES: usize = 8;

/// The documents of some files, cut into one kind of feature.
pub struct Corpus {
    /// Name in results: that of the file or folder.
    pub name: String,
    /// Hash over the texts of all documents, in order.
    pub digest: String,
    read: ReadDocuments,
    texts: Texts,
    frequencies: Arc<Frequencies>,
}

/// A file's or folder's name without the endings of formats.
pub fn name_of(path: &Path) -> String {
    let name = path.file_name().map_or("corpus".into(), |name| name.to_string_lossy());
    name.split(".warc").next().unwrap_or_default().split(".jsonl").next().unwrap_or_default().to_owned()
}

impl Corpus {
    /// Reads the files at `path`. Corruption and texts of few features are left out, which `progress` hears of.
    pub fn load(progress: &Progress, path: &Path, features: FeatureKind) -> Result<Self> {
        let paths = [PathBuf::from(path)];
        let inputs = discover(&paths, &Default::default())
            .with_context(|| format!("looking for {}", path.display()))?;
        let options = ReadOptions { threads: rayon::current_num_threads(), ..ReadOptions::default() };
        let all = inputs.len();
        let read =
            ReadDocuments::read(inputs, all, &options, &Wanted::new(features, Keeping::Features), &|_| {})?;
        ensure!(!read.documents.is_empty(), "{}: no documents", path.display());
        let facts = read.collection.all_facts();
        let digest = facts.fold(0, |sum, facts| fmix64(sum ^ facts.digest as u64));
        let texts = Texts::new(&read.collection, MIN_FEATURES);
        let documents = read.documents.len();
        ensure!(
            !texts.sketched.is_empty(),
            "{}: expected documents of {MIN_FEATURES} different {features} or more, and none of its {documents} is one",
            path.display()
        );
        let name = name_of(path);
        let (short, all) = (texts.unsketched.len(), texts.sketched.len() + texts.unsketched.len());
        if short > 0 {
            progress.omit(format!(
                "{name}: {short} of {all} distinct texts, with fewer than {MIN_FEATURES} different {features}"
            ));
        }
        let corrupt: u64 = read.files.iter().map(|file| file.corrupt).sum();
        if corrupt > 0 {
            progress.omit(format!("{name}: corrupt sections of its files, {corrupt} in all"));
        }
        let frequencies = Arc::new(read.collection.frequencies());
        Ok(Self { name, digest: format!("{digest:016x}"), read, texts, frequencies })
    }

    /// Number of distinct texts with enough features; they are numbered from 0.
    pub fn len(&self) -> usize {
        self.texts.sketched.len()
    }

    /// Number of documents, copies included.
    pub fn documents(&self) -> usize {
        self.read.len()
    }

    /// The number of a text's first document, the same whatever the features are.
    pub fn document(&self, text: usize) -> u32 {
        self.texts.first(self.texts.sketched[text]).0
    }

    /// Number of documents with the text.
    pub fn copies(&self, text: usize) -> usize {
        self.copies_of(text).len()
    }

    /// The documents that have a text.
    pub fn copies_of(&self, text: usize) -> &[Document] {
        self.texts.copies(self.texts.sketched[text])
    }

    /// What the tool's own runs work on.
    pub fn parts(&self) -> (&ReadDocuments, &Texts, &Arc<Frequencies>) {
        (&self.read, &self.texts, &self.frequencies)
    }

    fn counted(&self, text: usize) -> Counted<'_> {
        let document = self.texts.first(self.texts.sketched[text]);
        self.read.collection.counted(document).expect("features are what was kept")
    }

    /// The distinct features of a text in order of first occurrence, each with its weight before
    /// normalisation.
    pub fn features(&self, text: usize, weigher: &Weigher) -> Vec<(u64, i64)> {
        let documents = self.frequencies.documents();
        let of = |(feature, n): (u64, u32)| {
            let idf = weigher.idf(self.frequencies.get(feature), documents);
            (feature, weigher.weight(n, idf))
        };
        self.counted(text).counts().map(of).collect()
    }

    /// The distinct features of a text, ascending, each with its number of occurrences.
    pub fn counts(&self, text: usize) -> Vec<(u64, u32)> {
        let mut counts: Vec<(u64, u32)> = self.counted(text).counts().collect();
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
