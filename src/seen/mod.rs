//! Has this page been seen before, or one that is nearly the same? The question of a crawler, asked page by
//! page while the index grows, over [`crate::search::online`].
//!
//! A page is the same as an earlier one if its text is, byte for byte, and near it if their SimHashes differ
//! in at most h bits. How features are weighted is frozen when the index is made: with TF-IDF the document
//! frequencies are those of a file, because a page's hash may not depend on what came after it.
//!
//! Every page within the distance is found whatever the keys of the index are; good ones compare less. They
//! are chosen (`flipside_core::search::keys`) by a sample of all hashes when the index is saved for the first time
//! with [`FEWEST_SAMPLED`](keys::FEWEST_SAMPLED) different ones or more, stand in the file's header, and
//! stay. An index of fewer hashes has keys of leading bits. Asked within another distance, which takes
//! another number of tables, it is given keys anew.

pub(crate) mod answers;
pub(crate) mod format;

pub use answers::COLUMNS;

use crate::error::{Error, Result};
use crate::hash::FeatureHash;
use crate::search::dial::DialParams;
use crate::search::online::Online;
use crate::search::{HammingIndex, Hit, Mode, Query, Scratch};
use crate::simhash::BITS;
use crate::sketch::{Sketch, SketchValue, Sketcher};
use crate::text::{Extraction, FeatureKind};
use crate::weight::Weighting;
use crate::weight::frequencies::Frequencies;
use flipside_core::id::Id;
use flipside_core::internal::keys::{self, Keys};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How the pages of an index are sketched: all of them in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenParams {
    /// What a page's features are.
    pub features: FeatureKind,
    /// What they are known by. Files of before there was a choice do not say, and mean MurmurHash3.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub feature_hash: FeatureHash,
    /// How they are weighted.
    pub weighting: Weighting,
    /// Pages with fewer distinct features are compared by their exact text only.
    pub min_features: usize,
    /// [`crate::format::checksum`] of the file of document frequencies, if the weighting needs one.
    pub frequencies: Option<String>,
}

fn is_usual(hash: &FeatureHash) -> bool {
    *hash == FeatureHash::default()
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page {
    /// [`text_digest`](crate::hash::text_digest) of its text.
    pub digest: u128,
    /// Its SimHash; none for a page with too few features.
    pub hash: Option<u64>,
}

impl SeenParams {
    /// How a page becomes features.
    pub fn extraction(&self) -> Extraction {
        Extraction { kind: self.features, hash: self.feature_hash }
    }

    /// What makes the sketches of an index with these parameters, weighed by the frequencies that they name.
    pub fn sketcher(&self, frequencies: &Arc<Frequencies>) -> Sketcher {
        Sketcher::of_simhash(self.extraction(), self.weighting, Some(Arc::clone(frequencies)))
    }

    /// What is known of a page by its sketch.
    pub fn page(&self, sketch: &Sketch) -> Page {
        let enough = sketch.facts.features as usize >= self.min_features.max(1);
        let hash = match &sketch.value {
            SketchValue::SimHash(hashed) if enough => Some(hashed.hash),
            _ => None,
        };
        Page { digest: sketch.facts.digest, hash }
    }
}

/// Whether a page has been seen. Documents are numbered from 0 in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Neither the page nor one near it.
    New,
    /// A page near it: the nearest, and of several equally near ones the one added first.
    Near {
        /// The earlier page.
        document: u32,
        /// Hamming distance of the hashes; 0 if they are equal, though the texts are not.
        distance: u32,
    },
    /// A page with the same text.
    Same {
        /// The earlier page.
        document: u32,
    },
}

/// The pages that have been seen.
#[derive(Clone, Debug)]
pub struct Seen {
    params: SeenParams,
    /// The keys that are recorded with the index; none before it is saved with hashes enough.
    keys: Option<Keys>,
    index: Online,
    /// For each distinct hash, the first document that has it.
    first: Vec<u32>,
    /// For each document, the slot of its hash, or `NO_HASH`.
    slots: Vec<u32>,
    digests: Vec<u128>,
    by_digest: HashMap<u128, u32>,
    /// The names of all documents, one after the other, and where each ends.
    names: String,
    ends: Vec<u64>,
    scratch: Scratch,
    hits: Vec<Hit>,
}

const NO_HASH: u32 = u32::MAX;

/// The dial that finds everything within `distance`.
fn exact(distance: u32) -> DialParams {
    DialParams::new(distance, (distance / 2 + 1).max(2))
}

/// Keys for so many tables by the hashes that they are for; none if these are too few.
fn chosen(hashes: &[u64], tables: u32) -> Result<Option<Keys>> {
    Ok(keys::sample(hashes).map(|sample| Keys::choose(&sample, tables)).transpose()?)
}

/// Hashes that an index is laid out for at the least.
const FEWEST_EXPECTED: usize = 1 << 20;

impl Seen {
    /// An index of no pages, which will look for pages within `distance` bits, exactly.
    ///
    /// # Errors
    /// [`Error::Core`] for a distance above 15.
    pub fn new(params: SeenParams, distance: u32) -> Result<Self> {
        Ok(Self::of(params, None, Online::new(exact(distance), FEWEST_EXPECTED)?))
    }

    fn of(params: SeenParams, keys: Option<Keys>, index: Online) -> Self {
        Self {
            params,
            keys,
            index,
            first: Vec::new(),
            slots: Vec::new(),
            digests: Vec::new(),
            by_digest: HashMap::new(),
            names: String::new(),
            ends: Vec::new(),
            scratch: Scratch::default(),
            hits: Vec::new(),
        }
    }

    /// How pages are sketched.
    pub fn params(&self) -> &SeenParams {
        &self.params
    }

    /// Number of documents added.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing has been added.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The name under which a document was added.
    pub fn name(&self, document: u32) -> &str {
        let document = document as usize;
        let start = if document == 0 { 0 } else { self.ends[document - 1] as usize };
        &self.names[start..self.ends[document] as usize]
    }

    /// Whether a page has been seen. Nothing is added.
    pub fn ask(&mut self, page: &Page) -> Answer {
        if let Some(&document) = self.by_digest.get(&page.digest) {
            return Answer::Same { document };
        }
        let Some(hash) = page.hash else { return Answer::New };
        self.hits.clear();
        // All looks are made, so their order does not matter.
        let query = Query { hash, weights: &[0.0; BITS] };
        self.index.search(query, Mode::All, &mut self.scratch, &mut self.hits);
        let nearest = self.hits.iter().min_by_key(|hit| (hit.distance, self.first[hit.slot.index()]));
        nearest.map_or(Answer::New, |hit| Answer::Near {
            document: self.first[hit.slot.index()],
            distance: u32::from(hit.distance),
        })
    }

    /// Adds a page under a name, unless one with its text is there already. Gives the
    /// document that stands for it.
    ///
    /// # Errors
    /// If there are 2³² − 1 documents already.
    pub fn add(&mut self, page: &Page, name: &str) -> Result<u32> {
        if let Some(&document) = self.by_digest.get(&page.digest) {
            return Ok(document);
        }
        let document = u32::try_from(self.slots.len()).ok().filter(|&document| document < u32::MAX);
        let document = document.ok_or_else(|| {
            Error::parameter("index", self.slots.len(), "fewer than 2^32 documents in one index")
        })?;
        let slot = match page.hash {
            Some(hash) => {
                let (slot, new) = self.index.insert(hash)?;
                if new {
                    self.first.push(document);
                }
                slot.number()
            }
            None => NO_HASH,
        };
        self.slots.push(slot);
        self.digests.push(page.digest);
        self.by_digest.insert(page.digest, document);
        self.names.push_str(name);
        self.ends.push(self.names.len() as u64);
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::simhash::distance;
    use proptest::prelude::*;

    pub(super) fn params() -> SeenParams {
        SeenParams {
            feature_hash: FeatureHash::default(),
            features: FeatureKind::Words,
            weighting: Weighting::Binary,
            min_features: 3,
            frequencies: None,
        }
    }

    /// Pages near each other, some with the same hash, some with the same text, some with none.
    fn pages(n: usize, seed: u64) -> Vec<Page> {
        let mut rng = SplitMix64::new(seed);
        (0..n)
            .map(|_| {
                let digest = u128::from(rng.below(n as u64));
                let centre = SplitMix64::new(digest as u64 % 7).next_u64();
                let hash = (digest % 11 != 0).then(|| centre ^ 1 << (digest % 5) ^ 1 << (digest % 60));
                Page { digest, hash }
            })
            .collect()
    }

    /// The definition: all earlier documents, one by one.
    pub(super) fn naive(before: &[Page], page: &Page, radius: u32) -> Answer {
        if let Some(same) = before.iter().position(|earlier| earlier.digest == page.digest) {
            return Answer::Same { document: same as u32 };
        }
        let near = before.iter().zip(0..).filter_map(|(earlier, document)| {
            let distance = distance(earlier.hash?, page.hash?);
            (distance <= radius).then_some((distance, document))
        });
        near.min().map_or(Answer::New, |(distance, document)| Answer::Near { document, distance })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn answers_are_those_of_a_search_through_all_earlier_pages(seed: u64, n in 1usize..200, radius in 0u32..6) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("seen");
            let mut seen = Seen::new(params(), radius).unwrap();
            let mut before: Vec<Page> = Vec::new();
            for (i, page) in pages(n, seed).iter().enumerate() {
                let expected = naive(&before, page, radius);
                prop_assert_eq!(seen.ask(page), expected);
                let document = seen.add(page, &format!("page {i} é")).unwrap();
                match expected {
                    Answer::Same { document: same } => prop_assert_eq!(document, same),
                    _ => {
                        before.push(*page);
                        prop_assert_eq!(document as usize, before.len() - 1);
                        let name = format!("page {i} é");
                        prop_assert_eq!(seen.name(document), name.as_str());
                    }
                }
                // Left and taken up again.
                if i == n / 2 {
                    seen.save(&path).unwrap();
                    let again = Seen::load(&path, &params(), radius).unwrap();
                    prop_assert_eq!(again.len(), seen.len());
                    seen = again;
                }
            }
            prop_assert_eq!(seen.len(), before.len());
        }
    }

    /// Pages of uneven hashes: the first byte is the same in most, the last two are equal in
    /// all. Some are near others.
    pub(super) fn uneven(n: usize, seed: u64) -> Vec<Page> {
        let mut rng = SplitMix64::new(seed);
        (0..n as u128)
            .map(|i| {
                let drawn = SplitMix64::new(rng.below(n as u64)).next_u64();
                let first = if drawn & 0xf0_0000 == 0 { 0 } else { 0xff << 56 };
                let hash = first | (drawn & 0x00ff_ffff_ffff_0000) | ((drawn & 0xff) * 0x101);
                Page { digest: i | u128::from(seed) << 64, hash: Some(hash ^ 1 << rng.below(64)) }
            })
            .collect()
    }

    pub(super) fn filled(pages: &[Page], radius: u32) -> Seen {
        let mut seen = Seen::new(params(), radius).unwrap();
        for (i, page) in pages.iter().enumerate() {
            seen.add(page, &i.to_string()).unwrap();
        }
        seen
    }
}
