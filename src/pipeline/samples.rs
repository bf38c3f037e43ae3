//! Pairs and clusters for a person to look at, with the texts fetched from the files again.

use super::documents::{ReadDocuments, reported};
use crate::corpus::{self, Input, ReadOptions};
use crate::document::{DocId, Place};
use crate::hash::fmix64;
use crate::report::model::{DocumentSample, PairSample};
use simflip_core::dedup::{Pair, PairKind};
use simflip_core::id::Document;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Longest text that is fetched for showing; a longer one is cut.
pub const LONGEST: usize = 200_000;

/// Documents that can be shown: what they are called, and where they stand.
pub trait Catalogue {
    /// All files, in the order that numbers them.
    fn inputs(&self) -> &[Input];

    /// Where a document stands, and where it is stored.
    fn place(&self, document: Document) -> (DocId, Place);

    /// True if a text is the one that was read of a document.
    fn is_same(&self, id: DocId, text: &str) -> bool;

    /// A document's id in results, and its URL, empty where it has none.
    fn names(&self, document: Document) -> (Cow<'_, str>, &str);

    /// True if a document is an old one.
    fn is_old(&self, document: Document) -> bool;

    /// The name of a document in warnings.
    fn shown_name(&self, document: Document) -> String;
}

impl Catalogue for ReadDocuments {
    fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    fn place(&self, document: Document) -> (DocId, Place) {
        let row = self.documents.row(document);
        (row.id, row.place)
    }

    fn is_same(&self, id: DocId, text: &str) -> bool {
        Self::is_same(self, id, text)
    }

    fn names(&self, document: Document) -> (Cow<'_, str>, &str) {
        (self.id_of(document), self.url(document).unwrap_or_default())
    }

    fn is_old(&self, document: Document) -> bool {
        Self::is_old(self, document)
    }

    fn shown_name(&self, document: Document) -> String {
        Self::shown_name(self, document)
    }
}

/// Texts of the documents that are shown, and the values that group them, if these are asked for.
pub struct Shown(BTreeMap<Document, (String, Option<String>)>);

impl Shown {
    /// Fetches the texts of the documents. One that cannot be read any more is shown empty.
    pub fn fetch(read: &impl Catalogue, options: &ReadOptions, documents: BTreeSet<Document>) -> Self {
        let wanted: Vec<_> = documents.iter().map(|&document| read.place(document)).collect();
        let by_id: BTreeMap<_, Document> =
            documents.iter().map(|&document| (read.place(document).0, document)).collect();
        let mut texts = BTreeMap::new();
        let mut rest = &wanted[..];
        loop {
            let mut handed = 0;
            let done = corpus::fetch(read.inputs(), options, rest, |document| {
                handed += 1;
                if let Some(&number) = by_id.get(&document.id)
                    && read.is_same(document.id, document.text)
                {
                    let end = document.text.floor_char_boundary(LONGEST);
                    let group = document.group.map(str::to_owned);
                    texts.insert(number, (document.text[..end].to_owned(), group));
                }
            });
            // On behind the one that cannot be read; samples are few.
            match (done, rest.get(handed + 1..)) {
                (Err(_), Some(behind)) => rest = behind,
                _ => break,
            }
        }
        Self(texts)
    }

    /// True if a document's text could be fetched.
    pub fn holds(&self, document: Document) -> bool {
        self.0.contains_key(&document)
    }

    /// A document's text, as far as it was fetched.
    pub fn text(&self, document: Document) -> &str {
        self.0.get(&document).map_or("", |(text, _)| text)
    }

    /// The value that groups a document.
    pub fn group(&self, document: Document) -> Option<&str> {
        self.0.get(&document)?.1.as_deref()
    }

    /// A document with its first words.
    pub fn document(&self, read: &impl Catalogue, document: Document) -> DocumentSample {
        let (id, url) = read.names(document);
        let [id, url] = [id.into_owned(), url.to_owned()].map(reported);
        let sample = DocumentSample::new(id, url, self.text(document));
        DocumentSample { old: read.is_old(document), ..sample }
    }

    /// A pair with the places where the two differ.
    pub fn pair(&self, read: &impl Catalogue, pair: &Pair, has_distance: bool) -> PairSample {
        let (of_pair, distance) = (pair.documents(), has_distance.then_some(pair.distance));
        let (samples, texts) = (
            of_pair.map(|document| self.document(read, document)),
            of_pair.map(|document| self.text(document)),
        );
        let sample = PairSample::new(samples, texts, distance, f64::from(pair.similarity));
        // Only the beginnings of very long texts are at hand.
        PairSample { kind: pair.kind, ..sample }
    }
}

/// A random sample of at most `most` pairs that has its share of every distance, near pairs before copies:
/// rounds over the distances, and within a distance in the order of a hash of the two documents. The same
/// pairs and seed give the same sample.
pub fn sample_pairs(pairs: &[Pair], most: usize, seed: u64) -> Vec<Pair> {
    let mut sampler = Sampler::new(most, seed);
    pairs.iter().for_each(|pair| sampler.add(pair));
    sampler.sample()
}

/// Takes such a sample of pairs that come one by one, in any order.
pub struct Sampler {
    most: usize,
    seed: u64,
    strata: BTreeMap<(PairKind, u32), Vec<(u64, Pair)>>,
}

impl Sampler {
    /// No pair yet.
    pub fn new(most: usize, seed: u64) -> Self {
        Self { most, seed, strata: BTreeMap::new() }
    }

    /// Adds a pair.
    pub fn add(&mut self, pair: &Pair) {
        let key = fmix64((u64::from(pair.a.0) << 32 | u64::from(pair.b.0)) ^ fmix64(self.seed));
        let stratum = self.strata.entry((pair.kind, pair.distance)).or_default();
        // Only the `most` least keys of each stratum can be drawn.
        stratum.push((key, *pair));
        if stratum.len() >= 4 * self.most.max(1) {
            stratum.sort_unstable_by_key(|&(key, _)| key);
            stratum.truncate(self.most);
        }
    }

    /// The sample.
    pub fn sample(mut self) -> Vec<Pair> {
        let strata = &mut self.strata;
        for stratum in strata.values_mut() {
            stratum.sort_unstable_by_key(|&(key, _)| std::cmp::Reverse(key));
        }
        // Two copies of the same text tell a person as much as twenty.
        for (&(kind, _), stratum) in strata.iter_mut() {
            if kind == PairKind::Exact {
                stratum.drain(..stratum.len().saturating_sub(2));
            }
        }
        let mut sample = Vec::new();
        while sample.len() < self.most {
            let before = sample.len();
            for stratum in strata.values_mut() {
                if let Some((_, pair)) = stratum.pop()
                    && sample.len() < self.most
                {
                    sample.push(pair);
                }
            }
            if sample.len() == before {
                break;
            }
        }
        sample.sort_by_key(|pair| (std::cmp::Reverse(pair.kind), pair.distance, pair.a, pair.b));
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_has_its_share() {
        let pairs: Vec<Pair> = (0..10_000)
            .map(|i| Pair {
                a: Document(i),
                b: Document(i + 1),
                distance: if i < 3 { 7 } else { i % 3 },
                similarity: 1.0,
                kind: if i % 3 == 0 && i >= 3 { PairKind::Exact } else { PairKind::Near },
            })
            .collect();
        let sample = sample_pairs(&pairs, 20, 1);
        assert_eq!(sample.len(), 20);
        let of = |distance| sample.iter().filter(|pair| pair.distance == distance).count();
        assert_eq!((of(0), of(1), of(2), of(7)), (2, 8, 7, 3));
        assert_eq!(sample_pairs(&pairs, 20, 1), sample);
        assert_ne!(sample_pairs(&pairs, 20, 2), sample);
        let mut reversed = pairs.clone();
        reversed.reverse();
        assert_eq!(sample_pairs(&reversed, 20, 1), sample);
        assert_eq!(sample_pairs(&pairs[..2], 20, 1).len(), 2);
        assert_eq!(sample_pairs(&[], 20, 1).len(), 0);
    }
}
