//! Sampled pairs, and the documents that a report shows. Runs keep no texts, so [`Shown::fetch`] reads those of shown
//! documents from the input files again. A file may have changed meanwhile; then its documents are shown without texts.

use super::documents::{NamedDocument, ReadDocuments, cut};
use crate::corpus::{self, Input, ReadOptions};
use crate::document::{DocId, Place};
use crate::hash::{fmix64, text_digest};
use crate::report::model::{DocumentSample, PairSample};
use simflip_core::dedup::{Pair, PairKind};
use simflip_core::id::Document;
use std::collections::BTreeMap;

/// Bytes of a text that are fetched for showing, at most; of a longer text, these are the first.
pub const LONGEST: usize = 200_000;

/// A document that a report shows, or that a warning names.
pub struct ShownDocument {
    /// Its id in results.
    pub id: String,
    /// Its URL, empty where it has none.
    pub url: String,
    /// Its name in warnings: its URL, or its file and number; of texts in memory, the name that their job gives.
    pub name: String,
    /// True if it is of the reference set.
    pub is_reference: bool,
    /// Where it stands, where it is stored, and the digest of its text.
    at: (DocId, Place),
    digest: u128,
    /// Its text, at most [`LONGEST`] bytes, and the value that groups it; none until it was fetched.
    fetched: Option<(String, Option<String>)>,
}

impl ShownDocument {
    /// A document whose text is still to be fetched. `digest` is that of its text when the run read it.
    pub fn new(named: &NamedDocument<'_>, digest: u128) -> Self {
        /// Characters of an id or a URL: those who read a report look at no more, and it is in memory whole.
        const LONGEST_NAME: usize = 4096;
        Self {
            id: cut(named.id.to_string(), LONGEST_NAME),
            url: cut(named.url.as_deref().unwrap_or_default().to_owned(), LONGEST_NAME),
            name: named.shown_name(),
            is_reference: named.is_reference,
            at: (named.at, named.place),
            digest,
            fetched: None,
        }
    }

    /// A document of texts in memory; `name` is its id and its name in warnings. Nothing is to be fetched.
    pub fn of_text(name: String, url: &str, text: &str, is_reference: bool) -> Self {
        let (id, url, at) = (name.clone(), url.to_owned(), Default::default());
        let text = text[..text.floor_char_boundary(LONGEST)].to_owned();
        Self { id, url, name, is_reference, at, digest: 0, fetched: Some((text, None)) }
    }
}

/// Documents that are shown or named, by number, with the texts of those that could be read again.
pub struct Shown(pub BTreeMap<Document, ShownDocument>);

impl Shown {
    /// The names and places of some documents that a run in memory has read, for [`Shown::fetch`].
    pub fn of(
        read: &ReadDocuments,
        documents: impl IntoIterator<Item = Document>,
    ) -> BTreeMap<Document, ShownDocument> {
        let digest = |document| read.collection.facts(document).digest;
        let shown = |document| (document, ShownDocument::new(&read.named(document), digest(document)));
        documents.into_iter().map(shown).collect()
    }

    /// Fetches the texts of the documents from the inputs. One that cannot be read any more, or has another text now,
    /// stays without.
    pub fn fetch(
        inputs: &[Input],
        options: &ReadOptions,
        mut documents: BTreeMap<Document, ShownDocument>,
    ) -> Self {
        let wanted: Vec<_> = documents.values().map(|document| document.at).collect();
        let mut by_id: BTreeMap<_, _> =
            documents.values_mut().map(|document| (document.at.0, document)).collect();
        let mut rest = &wanted[..];
        loop {
            let mut handed = 0;
            let done = corpus::fetch(inputs, options, rest, |document| {
                handed += 1;
                if let Some(shown) = by_id.get_mut(&document.id)
                    && shown.digest == text_digest(document.text)
                {
                    let end = document.text.floor_char_boundary(LONGEST);
                    let group = document.group.map(str::to_owned);
                    shown.fetched = Some((document.text[..end].to_owned(), group));
                }
            });
            // On behind the one that cannot be read; samples are few.
            match (done, rest.get(handed + 1..)) {
                (Err(_), Some(behind)) => rest = behind,
                _ => break,
            }
        }
        Self(documents)
    }

    fn fetched(&self, document: Document) -> Option<&(String, Option<String>)> {
        self.0.get(&document)?.fetched.as_ref()
    }

    /// True if a document's text could be fetched.
    pub fn holds(&self, document: Document) -> bool {
        self.fetched(document).is_some()
    }

    /// A document's text, at most [`LONGEST`] bytes; empty if it could not be fetched.
    pub fn text(&self, document: Document) -> &str {
        self.fetched(document).map_or("", |(text, _)| text)
    }

    /// The value of the field by which documents are grouped for boilerplate. None if there is no such field or value,
    /// or no text was fetched.
    pub fn group(&self, document: Document) -> Option<&str> {
        self.fetched(document)?.1.as_deref()
    }

    /// A document as a report shows it outside of a pair: with the first words of its text.
    pub fn document(&self, document: Document) -> DocumentSample {
        let ShownDocument { id, url, is_reference, .. } = &self.0[&document];
        let sample = DocumentSample::new(id.clone(), url.clone(), self.text(document));
        DocumentSample { reference: *is_reference, ..sample }
    }

    /// A pair as a report shows it: with the places where its texts differ.
    pub fn pair(&self, pair: &Pair) -> PairSample {
        let of_pair = pair.documents();
        // Of very long texts only the beginnings were fetched, so the kind is the pair's own.
        let (samples, texts) =
            (of_pair.map(|document| self.document(document)), of_pair.map(|document| self.text(document)));
        let sample = PairSample::new(samples, texts, Some(pair.distance), f64::from(pair.similarity));
        PairSample { kind: pair.kind, ..sample }
    }
}

/// A random sample of at most `most` pairs. Each round draws one pair of every [distance](Pair::distance), by a hash of
/// its two documents and the seed, until there are enough; at most two are exact duplicates. Near-duplicates come
/// first, and distances ascend. A set of pairs and a seed always give one sample.
pub fn sample_pairs(pairs: &[Pair], most: usize, seed: u64) -> Vec<Pair> {
    let mut sampler = Sampler::new(most, seed);
    pairs.iter().for_each(|pair| sampler.add(pair));
    sampler.sample()
}

/// Draws the sample of [`sample_pairs`] from pairs that come one by one, in any order, and holds few of them.
pub struct Sampler {
    most: usize,
    seed: u64,
    /// For each kind and distance, pairs with the least hashes so far, each with its hash.
    strata: BTreeMap<(PairKind, u32), Vec<(u64, Pair)>>,
}

impl Sampler {
    /// A sampler of at most `most` pairs, without a pair yet.
    pub fn new(most: usize, seed: u64) -> Self {
        Self { most, seed, strata: BTreeMap::new() }
    }

    /// Adds a pair to those that the sample is drawn from.
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

    /// The sample of the pairs that were added.
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
