//! The first pass: every document read, cut into features and counted; sketched at once where that is all that is wanted.

use crate::corpus::{self, Document, FileReading, Input, ReadOptions};
use crate::document::DocumentTable;
use crate::simhash::hasher::SimHasher;
use crate::simhash::quantised::QuantisedWeights;
use crate::text::{FeatureExtractor, FeatureKind};
use crate::weight::vocabulary::{Term, Terms, Vocabulary};
use crate::weight::{Weigher, Weighting};
use std::collections::BTreeMap;

/// What is kept of each document besides its name and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Its features with their numbers of occurrences.
    Features,
    /// Its SimHash with the weight vector, by a scheme that needs no document frequencies. Takes a small part of the memory,
    /// which does not grow with the length of documents.
    SimHashes(Weighting),
}

/// The documents of a corpus without their texts: names and places, and what was to be kept of each.
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
enum Part {
    Features { terms: Terms, lists: Lists },
    SimHashes(Vec<Sketched>),
}

/// Documents as lists of terms.
struct Lists {
    /// The terms of one document after the other, and how often each occurs there.
    terms: Vec<Term>,
    occurrences: Vec<u16>,
    /// `starts[d]..starts[d + 1]` is document `d`'s part of both lists.
    starts: Vec<usize>,
}

/// A document of which only the sketch was kept.
#[derive(Clone, Copy)]
struct Sketched {
    /// Number of its distinct features.
    features: u32,
    hash: u64,
    weights: QuantisedWeights,
}

/// What a thread works with.
struct Worker {
    extractor: FeatureExtractor,
    /// Some features of the document at hand, repeats included.
    features: Vec<u64>,
    vocabulary: Vocabulary,
    documents: DocumentTable,
    languages: BTreeMap<String, u64>,
    kept: Kept,
}

/// What a thread keeps.
enum Kept {
    Features(Lists),
    SimHashes { weigher: Weigher, hasher: SimHasher, sketched: Vec<Sketched> },
}

/// Features that are counted at a time.
const LIST: usize = 1 << 16;

impl Worker {
    fn new(features: FeatureKind, keeping: Keeping) -> Self {
        let kept = match keeping {
            Keeping::Features => {
                Kept::Features(Lists { terms: Vec::new(), occurrences: Vec::new(), starts: vec![0] })
            }
            Keeping::SimHashes(weighting) => Kept::SimHashes {
                weigher: Weigher::new(weighting),
                hasher: SimHasher::default(),
                sketched: Vec::new(),
            },
        };
        Self {
            extractor: FeatureExtractor::new(features),
            features: Vec::new(),
            vocabulary: Vocabulary::default(),
            documents: DocumentTable::default(),
            languages: BTreeMap::new(),
            kept,
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
        match &mut self.kept {
            Kept::Features(lists) => {
                self.vocabulary.finish(|terms, occurrences| {
                    lists.terms.extend_from_slice(terms);
                    lists.occurrences.extend_from_slice(occurrences);
                });
                lists.starts.push(lists.terms.len());
            }
            Kept::SimHashes { weigher, hasher, sketched } => {
                let sketch = self.vocabulary.finish_and_forget(|features, occurrences| {
                    let idf = weigher.idf(0, 0);
                    let weights = occurrences.iter().map(|&n| weigher.weight(u32::from(n), idf));
                    let simhash = hasher.hash(features.iter().copied().zip(weights));
                    Sketched {
                        features: u32::try_from(features.len()).unwrap_or(u32::MAX),
                        hash: simhash.hash,
                        weights: QuantisedWeights::new(&simhash.weights),
                    }
                });
                sketched.push(sketch);
            }
        }
    }
}

/// Reads all documents of the inputs. `progress` hears of stored bytes as they are read.
pub fn collect(
    inputs: Vec<Input>,
    options: &ReadOptions,
    features: FeatureKind,
    keeping: Keeping,
    progress: &(dyn Fn(u64) + Sync),
) -> Collection {
    let reading = corpus::read(
        &inputs,
        options,
        || Worker::new(features, keeping),
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
        parts.push(match worker.kept {
            Kept::Features(lists) => Part::Features { terms: worker.vocabulary.into_terms(), lists },
            Kept::SimHashes { sketched, .. } => Part::SimHashes(sketched),
        });
    }
    let (documents, origins) = DocumentTable::merge(tables);
    Collection { inputs, files: reading.files, documents, languages, parts, origins }
}

impl Collection {
    /// The features of each thread's documents with their document frequencies; none where features were not kept.
    pub fn terms(&self) -> Vec<&Terms> {
        let terms = self.parts.iter().filter_map(|part| match part {
            Part::Features { terms, .. } => Some(terms),
            Part::SimHashes(_) => None,
        });
        terms.collect()
    }

    /// A document's part, its terms there, and how often each occurs.
    ///
    /// # Panics
    /// If only SimHashes were kept ([`Keeping`]).
    pub fn terms_of(&self, document: u32) -> (usize, &[Term], &[u16]) {
        let (part, at) = self.origins[document as usize];
        let Part::Features { lists, .. } = &self.parts[part as usize] else {
            panic!("features are wanted of a collection that kept SimHashes only")
        };
        let range = lists.starts[at as usize]..lists.starts[at as usize + 1];
        (part as usize, &lists.terms[range.clone()], &lists.occurrences[range])
    }

    /// Number of distinct features of a document.
    pub fn features(&self, document: u32) -> usize {
        match self.sketch_of(document) {
            Some(sketched) => sketched.features as usize,
            None => self.terms_of(document).1.len(),
        }
    }

    /// A document's distinct features, in order of first occurrence.
    ///
    /// # Panics
    /// If only SimHashes were kept ([`Keeping`]).
    pub fn features_of(&self, document: u32) -> impl ExactSizeIterator<Item = u64> {
        let (part, list, _) = self.terms_of(document);
        let features: &[u64] = match &self.parts[part] {
            Part::Features { terms, .. } => &terms.features,
            Part::SimHashes(_) => &[],
        };
        list.iter().map(|&term| features[term as usize])
    }

    fn sketch_of(&self, document: u32) -> Option<&Sketched> {
        let (part, at) = self.origins[document as usize];
        match &self.parts[part as usize] {
            Part::SimHashes(sketched) => Some(&sketched[at as usize]),
            Part::Features { .. } => None,
        }
    }

    /// A document's SimHash with its weights, if that is what was kept.
    pub fn simhash_of(&self, document: u32) -> Option<(u64, QuantisedWeights)> {
        self.sketch_of(document).map(|sketched| (sketched.hash, sketched.weights))
    }

    /// Bytes of all texts.
    pub fn text_bytes(&self) -> u64 {
        self.documents.rows().iter().map(|row| row.text_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::discover;
    use crate::hash::SplitMix64;
    use crate::pipeline::settings::Settings;
    use crate::pipeline::sketch::{Texts, simhashes};
    use crate::weight::frequencies::Frequencies;

    #[test]
    fn sketches_made_while_reading_are_those_of_kept_features() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages.jsonl");
        let mut rng = SplitMix64::new(5);
        let lines: Vec<String> = [0, 1, 3, 9, 40, 8_000, 2, 300, 300]
            .iter()
            .map(|&words| {
                let text: Vec<String> = (0..words).map(|_| format!("w{}", rng.below(words / 2 + 1))).collect();
                serde_json::json!({ "text": text.join(" ") }).to_string()
            })
            .collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        for (features, weighting) in
            [(FeatureKind::Words, Weighting::Tf), (FeatureKind::Shingles(3), Weighting::Binary)]
        {
            let settings = Settings { features, weighting, min_features: 2, ..Settings::default() };
            let read = |keeping| {
                let inputs = discover(std::slice::from_ref(&path), &Default::default()).unwrap();
                let collection = collect(inputs, &ReadOptions::default(), features, keeping, &|_| ());
                let texts = Texts::new(&collection, settings.min_features);
                let frequencies = Frequencies::new(features);
                let sketches = simhashes(&collection, &texts, &settings, &frequencies, &|_| ());
                (texts.sketched, sketches.hashes, sketches.weights)
            };
            let kept = read(Keeping::Features);
            assert!(kept.1.len() >= 5);
            assert_eq!(kept, read(Keeping::SimHashes(weighting)));
        }
    }
}
