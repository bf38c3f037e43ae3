//! The first pass: every document read, cut into features and counted.

use crate::corpus::{self, Document, FileReading, Input, ReadOptions};
use crate::document::DocumentTable;
use crate::text::{FeatureExtractor, FeatureKind};
use crate::weight::vocabulary::{Term, Terms, Vocabulary};
use std::collections::BTreeMap;

/// The documents of a corpus without their texts: names and places, and features with their numbers of occurrences.
pub struct Collection {
    /// The files, in the order that numbers them.
    pub inputs: Vec<Input>,
    /// What reading each file came to.
    pub files: Vec<FileReading>,
    /// All documents, in order of files and rows.
    pub documents: DocumentTable,
    /// Number of documents by the first language that their record names.
    pub languages: BTreeMap<String, u64>,
    parts: Vec<Part>,
    /// For each document, the part that holds its features and its place there.
    origins: Vec<(u32, u32)>,
}

/// What one thread has collected.
struct Part {
    terms: Terms,
    /// The terms of one document after the other, and how often each occurs there.
    term_lists: Vec<Term>,
    occurrences: Vec<u16>,
    /// `starts[d]..starts[d + 1]` is document `d`'s part of both lists.
    starts: Vec<usize>,
}

/// What a thread works with.
struct Worker {
    extractor: FeatureExtractor,
    /// Some features of the document at hand, repeats included.
    features: Vec<u64>,
    vocabulary: Vocabulary,
    documents: DocumentTable,
    languages: BTreeMap<String, u64>,
    term_lists: Vec<Term>,
    occurrences: Vec<u16>,
    starts: Vec<usize>,
}

/// Features that are counted at a time.
const LIST: usize = 1 << 16;

impl Worker {
    fn new(features: FeatureKind) -> Self {
        Self {
            extractor: FeatureExtractor::new(features),
            features: Vec::new(),
            vocabulary: Vocabulary::default(),
            documents: DocumentTable::default(),
            languages: BTreeMap::new(),
            term_lists: Vec::new(),
            occurrences: Vec::new(),
            starts: vec![0],
        }
    }

    fn add(&mut self, document: &Document<'_>) {
        self.documents.push(document.id, document.place, (document.record_id, document.url), document.text);
        let language =
            document.language.and_then(|languages| languages.split(',').next()).unwrap_or("").trim();
        match self.languages.get_mut(language) {
            Some(count) => *count += 1,
            None => {
                self.languages.insert(language.to_owned(), 1);
            }
        }
        // A list at a time, so that a page of 100 MB does not need eight times as much.
        let Self { extractor, features, vocabulary, .. } = self;
        features.clear();
        extractor.extract(document.text, |feature| {
            features.push(feature);
            if features.len() == LIST {
                vocabulary.add_all(features);
                features.clear();
            }
        });
        self.vocabulary.add_all(&self.features);
        self.vocabulary.finish(|terms, occurrences| {
            self.term_lists.extend_from_slice(terms);
            self.occurrences.extend_from_slice(occurrences);
        });
        self.starts.push(self.term_lists.len());
    }
}

/// Reads all documents of the inputs. `progress` hears of stored bytes as they are read.
pub fn collect(
    inputs: Vec<Input>,
    options: &ReadOptions,
    features: FeatureKind,
    progress: &(dyn Fn(u64) + Sync),
) -> Collection {
    let reading = corpus::read(
        &inputs,
        options,
        || Worker::new(features),
        |worker, document| worker.add(&document),
        progress,
    );
    let mut languages: BTreeMap<String, u64> = BTreeMap::new();
    let (mut tables, mut parts) = (Vec::new(), Vec::new());
    for worker in reading.workers {
        for (language, count) in worker.languages {
            *languages.entry(language).or_default() += count;
        }
        tables.push(worker.documents);
        parts.push(Part {
            terms: worker.vocabulary.into_terms(),
            term_lists: worker.term_lists,
            occurrences: worker.occurrences,
            starts: worker.starts,
        });
    }
    let (documents, origins) = DocumentTable::merge(tables);
    Collection { inputs, files: reading.files, documents, languages, parts, origins }
}

impl Collection {
    /// The features of each thread's documents with their document frequencies.
    pub fn terms(&self) -> Vec<&Terms> {
        self.parts.iter().map(|part| &part.terms).collect()
    }

    /// A document's part, its terms there, and how often each occurs.
    pub fn terms_of(&self, document: u32) -> (usize, &[Term], &[u16]) {
        let (part_number, at) = self.origins[document as usize];
        let part = &self.parts[part_number as usize];
        let range = part.starts[at as usize]..part.starts[at as usize + 1];
        (part_number as usize, &part.term_lists[range.clone()], &part.occurrences[range])
    }

    /// Number of distinct features of a document.
    pub fn features(&self, document: u32) -> usize {
        self.terms_of(document).1.len()
    }

    /// A document's distinct features, in order of first occurrence.
    pub fn features_of(&self, document: u32) -> impl ExactSizeIterator<Item = u64> {
        let (part, terms, _) = self.terms_of(document);
        let features = &self.parts[part].terms.features;
        terms.iter().map(|&term| features[term as usize])
    }

    /// Bytes of all texts.
    pub fn text_bytes(&self) -> u64 {
        self.documents.rows().iter().map(|row| row.text_bytes).sum()
    }
}
