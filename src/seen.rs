//! Has this page been seen before, or one that is nearly the same? The question of a crawler, asked page by page while the
//! index grows, over [`crate::search::online`].
//!
//! A page is the same as an earlier one if its text is, byte for byte, and near it if their SimHashes differ in at most h
//! bits. How features are weighted is frozen when the index is made: with TF-IDF the document frequencies are those of a
//! file, because a page's hash may not depend on what came after it.
//!
//! Every page within the distance is found whatever the keys of the index are; good ones compare less. They are chosen
//! ([`crate::search::keys`]) by a sample of all hashes when the index is saved for the first time with
//! [`FEWEST_SAMPLED`](keys::FEWEST_SAMPLED) different ones or more, stand in the file's header, and stay. An index of
//! fewer hashes has keys of leading bits. Asked within another distance, which takes another number of tables, it is
//! given keys anew.

use crate::Id;
use crate::error::{Error, Result};
use crate::format;
use crate::hash::{FEATURE_HASH, text_digest};
use crate::search::dial::DialParams;
use crate::search::keys::{self, Keys};
use crate::search::online::Online;
use crate::search::{HammingIndex, Hit, Mode, Query, Scratch};
use crate::simhash::BITS;
use crate::simhash::hasher::SimHasher;
use crate::text::{FeatureExtractor, FeatureKind, TOKENIZER};
use crate::weight::frequencies::Frequencies;
use crate::weight::{Weigher, Weighting};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How the pages of an index are sketched: all of them in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenParams {
    /// What a page's features are.
    pub features: FeatureKind,
    /// How they are weighted.
    pub weighting: Weighting,
    /// Pages with fewer distinct features are compared by their exact text only.
    pub min_features: usize,
    /// [`format::checksum`] of the file of document frequencies, if the weighting needs one.
    pub frequencies: Option<String>,
}

/// Turns texts into pages. Holds buffers; make one per thread.
#[derive(Clone, Debug)]
pub struct Sketcher<'a> {
    params: &'a SeenParams,
    frequencies: &'a Frequencies,
    weigher: Weigher,
    extractor: FeatureExtractor,
    hasher: SimHasher,
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page {
    /// [`text_digest`] of its text.
    pub digest: u128,
    /// Its SimHash; none for a page with too few features.
    pub hash: Option<u64>,
}

impl<'a> Sketcher<'a> {
    /// A sketcher for pages of an index with these parameters, with the frequencies that they name.
    pub fn new(params: &'a SeenParams, frequencies: &'a Frequencies) -> Self {
        Self {
            params,
            frequencies,
            weigher: Weigher::new(params.weighting),
            extractor: FeatureExtractor::new(params.features),
            hasher: SimHasher::default(),
        }
    }

    /// Sketches a text.
    pub fn page(&mut self, text: &str) -> Page {
        let counts = self.extractor.counts(text);
        let (weigher, frequencies) = (&self.weigher, self.frequencies);
        let documents = frequencies.documents().max(1);
        let weighted = counts.iter().map(|&(feature, n)| {
            (feature, weigher.weight(n, weigher.idf(frequencies.get(feature), documents)))
        });
        let enough = counts.len() >= self.params.min_features.max(1);
        Page { digest: text_digest(text), hash: enough.then(|| self.hasher.hash(weighted).hash) }
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

/// The columns of the answers that `flipside seen` prints.
pub const COLUMNS: [&str; 4] = ["page", "answer", "distance", "earlier"];

/// What stands in front of a file of seen pages.
#[derive(Serialize, Deserialize)]
struct Header {
    hash: String,
    tokenizer: String,
    #[serde(flatten)]
    params: SeenParams,
    documents: u64,
    distinct_hashes: u64,
    name_bytes: u64,
    /// None, or nothing in files of version 1: leading bits.
    #[serde(default)]
    keys: Option<Keys>,
}

/// The dial that finds everything within `distance`.
fn exact(distance: u32) -> DialParams {
    DialParams { radius: distance, tables: (distance / 2 + 1).max(2), ..DialParams::default() }
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
    /// [`Error::Parameter`] for a distance above 15.
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
        // All probes are made, so their order does not matter.
        let query = Query { hash, weights: &[0.0; BITS] };
        self.index.search(query, Mode::All, &mut self.scratch, &mut self.hits);
        let nearest = self.hits.iter().min_by_key(|hit| (hit.distance, self.first[hit.slot.index()]));
        nearest.map_or(Answer::New, |hit| Answer::Near {
            document: self.first[hit.slot.index()],
            distance: u32::from(hit.distance),
        })
    }

    /// Adds a page under a name, unless one with its text is there already. Gives the document that stands for it.
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

    /// Writes the index to a file, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let keys = match &self.keys {
            Some(keys) => Some(keys.clone()),
            None => chosen(self.index.hashes(), self.index.params().tables)?,
        };
        let header = Header {
            hash: FEATURE_HASH.to_owned(),
            tokenizer: TOKENIZER.to_owned(),
            params: self.params.clone(),
            documents: self.slots.len() as u64,
            distinct_hashes: self.index.len() as u64,
            name_bytes: self.names.len() as u64,
            keys,
        };
        let hashes: Vec<u8> = self.index.hashes().iter().flat_map(|hash| hash.to_le_bytes()).collect();
        let digests: Vec<u8> = self.digests.iter().flat_map(|digest| digest.to_le_bytes()).collect();
        let ends: Vec<u8> = self.ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let slots: Vec<u8> = self.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        format::write(path, format::SEEN, &header, &[&hashes, &digests, &ends, &slots, self.names.as_bytes()])
    }

    /// How the pages of an index in a file are sketched.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn params_of(path: &Path) -> Result<SeenParams> {
        let (header, _): (Header, Vec<u8>) = format::read(path, format::SEEN)?;
        Ok(header.params)
    }

    /// Reads an index of pages that were sketched with `params`, to look for pages within `distance` bits.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or holds pages sketched in another way; and for a distance above 15.
    pub fn load(path: &Path, params: &SeenParams, distance: u32) -> Result<Self> {
        let wrong = |field, expected: String, got: String, advice| Error::Format {
            path: path.to_path_buf(),
            field,
            expected,
            got,
            advice,
        };
        let (header, body): (Header, Vec<u8>) = format::read(path, format::SEEN)?;
        let fits = |field, expected: String, got: String| match expected == got {
            true => Ok(()),
            false => Err(wrong(field, expected, got, "ask with the settings that the index was made with")),
        };
        let (wanted, made) = (params, &header.params);
        let frequencies =
            |params: &SeenParams| params.frequencies.clone().unwrap_or_else(|| "none".to_owned());
        fits("the feature hash", FEATURE_HASH.to_owned(), header.hash)?;
        fits("the tokenizer", TOKENIZER.to_owned(), header.tokenizer)?;
        fits("the kind of features", wanted.features.to_string(), made.features.to_string())?;
        fits("the weighting", wanted.weighting.name().to_owned(), made.weighting.name().to_owned())?;
        fits("the least number of features", wanted.min_features.to_string(), made.min_features.to_string())?;
        fits("the checksum of the document frequencies", frequencies(wanted), frequencies(made))?;
        let damaged = |field, expected: &str, got: String| {
            wrong(field, expected.to_owned(), got, "the file is not one that flipside made; make it again")
        };
        // Each count is at most the body's length, or the sum is another.
        let (n, distinct) = (header.documents, header.distinct_hashes);
        let length = (distinct.saturating_mul(8))
            .saturating_add(n.saturating_mul(16 + 8 + 4))
            .saturating_add(header.name_bytes);
        if length != body.len() as u64 {
            return Err(damaged("the body's length", &length.to_string(), body.len().to_string()));
        }
        let (hashes, rest) = body.split_at(distinct as usize * 8);
        let (digests, rest) = rest.split_at(n as usize * 16);
        let (ends, rest) = rest.split_at(n as usize * 8);
        let (slots, names) = rest.split_at(n as usize * 4);
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect()
        };
        let (hashes, dial) = (words(hashes), exact(distance));
        let keys = match header.keys.filter(|keys| keys.tables() == dial.tables) {
            Some(keys) => Some(keys),
            None => chosen(&hashes, dial.tables)?,
        };
        let expected = FEWEST_EXPECTED.max(2 * distinct as usize);
        let index = match &keys {
            Some(keys) => Online::with_keys(dial, keys.clone(), expected)?,
            None => Online::new(dial, expected)?,
        };
        let mut seen = Self::of(header.params, keys, index.filled(hashes)?);
        seen.digests = digests.as_chunks().0.iter().map(|&bytes| u128::from_le_bytes(bytes)).collect();
        seen.ends = words(ends);
        seen.slots = slots.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        seen.names = String::from_utf8(names.to_vec())
            .map_err(|e| damaged("the names", "UTF-8", e.utf8_error().to_string()))?;
        let mut start = 0;
        for &end in &seen.ends {
            if end < start || !seen.names.is_char_boundary(end as usize) {
                return Err(damaged("the end of a name", "one after the other", end.to_string()));
            }
            start = end;
        }
        for (document, &slot) in (0..).zip(&seen.slots) {
            // Slots are given to hashes as documents bring them.
            match slot as usize {
                _ if slot == NO_HASH => {}
                slot if slot < seen.first.len() => {}
                slot if slot == seen.first.len() && slot < seen.index.len() => seen.first.push(document),
                slot => return Err(damaged("a document's hash", "one of those listed", slot.to_string())),
            }
        }
        if seen.first.len() != seen.index.len() {
            let (expected, got) = (seen.index.len().to_string(), seen.first.len().to_string());
            return Err(damaged("the number of hashes with documents", &expected, got));
        }
        seen.by_digest = seen.digests.iter().copied().zip(0..).collect();
        if seen.by_digest.len() != seen.digests.len() {
            let got = seen.by_digest.len().to_string();
            return Err(damaged("the number of different texts", &seen.digests.len().to_string(), got));
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::simhash::distance;
    use proptest::prelude::*;

    fn params() -> SeenParams {
        SeenParams {
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
    fn naive(before: &[Page], page: &Page, radius: u32) -> Answer {
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

    /// Pages of uneven hashes: the first byte is the same in most, the last two are equal in all. Some are near others.
    fn uneven(n: usize, seed: u64) -> Vec<Page> {
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

    fn filled(pages: &[Page], radius: u32) -> Seen {
        let mut seen = Seen::new(params(), radius).unwrap();
        for (i, page) in pages.iter().enumerate() {
            seen.add(page, &i.to_string()).unwrap();
        }
        seen
    }

    #[test]
    fn keys_are_chosen_once_and_answers_do_not_depend_on_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let header_keys = || format::read::<Header>(&path, format::SEEN).unwrap().0.keys;
        let pages = uneven(12_000, 7);
        let (before, after) = pages.split_at(8_000);
        for radius in [3, 10] {
            let mut leading = filled(before, radius);
            leading.save(&path).unwrap();
            let keys = header_keys().expect("hashes enough");
            assert_eq!(keys.tables(), exact(radius).tables);
            // The order of the pages does not matter.
            let mut backwards = before.to_vec();
            backwards.reverse();
            filled(&backwards, radius).save(&path).unwrap();
            assert_eq!(header_keys().as_ref(), Some(&keys));

            leading.save(&path).unwrap();
            let mut seen = Seen::load(&path, &params(), radius).unwrap();
            let used = seen.index.params();
            let p = used.key_bits.unwrap();
            assert_eq!((used.keys.clone(), &leading.index.params().keys), (keys.masks(p).ok(), &None));
            let mut near = 0;
            for (i, page) in after.iter().enumerate() {
                let answer = seen.ask(page);
                near += usize::from(matches!(answer, Answer::Near { .. }));
                assert_eq!(answer, leading.ask(page));
                if i % 400 == 0 {
                    assert_eq!(answer, naive(&pages[..before.len() + i], page, radius));
                }
                for seen in [&mut seen, &mut leading] {
                    seen.add(page, "later").unwrap();
                }
            }
            assert!(near > 1_000, "{near}");
            // More pages change nothing.
            seen.save(&path).unwrap();
            assert_eq!(header_keys().as_ref(), Some(&keys));
            // Within another distance there are other tables, and other keys.
            let mut wider = Seen::load(&path, &params(), 6).unwrap();
            assert_eq!(wider.keys.as_ref().map(Keys::tables), Some(4));
            for page in after.iter().step_by(500) {
                assert_eq!(
                    wider.ask(&Page { digest: 0, ..*page }),
                    naive(&pages, &Page { digest: 0, ..*page }, 6)
                );
            }
        }
    }

    #[test]
    fn few_hashes_have_leading_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let (mut pages, mut hashes) = (Vec::new(), std::collections::HashSet::new());
        for page in uneven(9_000, 3) {
            if hashes.insert(page.hash) {
                pages.push(page);
            }
        }
        let keys = |n: usize| {
            filled(&pages[..n], 3).save(&path).unwrap();
            Seen::load(&path, &params(), 3).unwrap().keys
        };
        assert!(keys(keys::FEWEST_SAMPLED - 1).is_none());
        assert!(keys(keys::FEWEST_SAMPLED).is_some());
    }

    /// Writes a saved index again with another header, and as another version.
    fn rewrite(
        path: &Path,
        version: u32,
        change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>),
    ) {
        let (envelope, body) = format::read_any(path).unwrap();
        let serde_json::Value::Object(mut header) = envelope.header else { panic!("an object") };
        change(&mut header);
        format::write(path, format::Kind { version, ..format::SEEN }, &header, &[&body]).unwrap();
    }

    #[test]
    fn files_of_version_1_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let pages = uneven(500, 5);
        filled(&pages, 3).save(&path).unwrap();
        rewrite(&path, 1, |header| drop(header.remove("keys")));
        let mut seen = Seen::load(&path, &params(), 3).unwrap();
        assert!(seen.keys.is_none());
        assert_eq!(seen.ask(&pages[77]), Answer::Same { document: 77 });
        seen.save(&path).unwrap();
        assert_eq!(format::read_any(&path).unwrap().0.version, 2);
    }

    #[test]
    fn keys_that_cannot_be_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let seen = filled(&uneven(5_000, 5), 3);
        let refused = |change: fn(&mut Vec<Vec<u32>>), told: &str| {
            seen.save(&path).unwrap();
            rewrite(&path, 2, |header| {
                let mut bits = serde_json::from_value(header["keys"].clone()).unwrap();
                change(&mut bits);
                header["keys"] = serde_json::json!(bits);
            });
            // Within another distance, too, where they are not used.
            for distance in [3, 10] {
                let message = Seen::load(&path, &params(), distance).unwrap_err().to_string();
                assert!(message.contains("the header") && message.contains(told), "{message}");
            }
            assert!(
                crate::inspect::inspect(&path).is_err()
                    || !crate::inspect::inspect(&path).unwrap().problems.is_empty()
            );
        };
        refused(|bits| bits[0][0] = bits[1][0], "twice");
        refused(|bits| bits[0][0] = 64, "bit 64 of a key");
        refused(|bits| bits[0].truncate(18), "a key of 18 bits: expected 32 for 2 tables");
        refused(|bits| bits.truncate(1), "a key of 32 bits: expected 64 for 1 table");
        refused(|bits| bits.clear(), "0 keys");
    }

    #[test]
    fn inspect_tells_the_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let told = |pages: usize| {
            let seen = filled(&uneven(pages, 5), 3);
            seen.save(&path).unwrap();
            let inspection = crate::inspect::inspect(&path).unwrap();
            assert!(inspection.problems.is_empty(), "{inspection:?}");
            let facts = inspection.facts.into_iter().filter(|(name, _)| name.starts_with("key"));
            facts.collect::<Vec<_>>()
        };
        assert_eq!(told(50), [("keys".to_owned(), "leading bits".to_owned())]);
        let facts = told(5_000);
        let keys = Seen::load(&path, &params(), 3).unwrap().keys.unwrap();
        let bits: Vec<String> = keys.bits()[1].iter().map(u32::to_string).collect();
        assert_eq!(facts.len(), 2);
        assert_eq!(facts[1], ("key 2, bits as they were chosen".to_owned(), bits.join(" ")));
    }

    #[test]
    fn an_index_of_other_pages_is_refused_by_what_differs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let mut seen = Seen::new(params(), 3).unwrap();
        seen.add(&Page { digest: 1, hash: Some(5) }, "a").unwrap();
        seen.save(&path).unwrap();
        let refused = |params: SeenParams, field: &str| {
            let message = Seen::load(&path, &params, 3).unwrap_err().to_string();
            assert!(message.contains(field), "{message}");
        };
        refused(SeenParams { features: FeatureKind::Shingles(3), ..params() }, "shingles:3");
        refused(SeenParams { weighting: Weighting::Tf, ..params() }, "the weighting is binary");
        refused(SeenParams { min_features: 4, ..params() }, "the least number of features");
        refused(
            SeenParams { frequencies: Some("0a".into()), ..params() },
            "the document frequencies is none",
        );
        assert!(Seen::load(&path, &params(), 16).is_err());
        let inspection = crate::inspect::inspect(&path).unwrap();
        assert_eq!(inspection.what, "index of seen pages");
        assert!(inspection.facts.contains(&("documents".to_owned(), "1".to_owned())), "{inspection:?}");
    }

    #[test]
    fn bodies_that_do_not_hang_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let load = |documents: u64,
                    distinct: u64,
                    hashes: &[u64],
                    ends: [u64; 2],
                    slots: [u32; 2],
                    digests: [u128; 2]| {
            let header = Header {
                hash: FEATURE_HASH.to_owned(),
                tokenizer: TOKENIZER.to_owned(),
                params: params(),
                documents,
                distinct_hashes: distinct,
                name_bytes: 3,
                keys: None,
            };
            let bytes: Vec<u8> = hashes
                .iter()
                .flat_map(|h| h.to_le_bytes())
                .chain(digests.iter().flat_map(|d| d.to_le_bytes()))
                .chain(ends.iter().flat_map(|e| e.to_le_bytes()))
                .chain(slots.iter().flat_map(|s| s.to_le_bytes()))
                .chain("éx".bytes())
                .collect();
            format::write(&path, format::SEEN, &header, &[&bytes]).unwrap();
            Seen::load(&path, &params(), 3).map(|seen| seen.len()).map_err(|e| e.to_string())
        };
        assert_eq!(load(2, 2, &[5, 9], [2, 3], [0, 1], [1, 2]), Ok(2));
        assert_eq!(load(2, 2, &[5, 9], [0, 3], [0, 1], [1, 2]), Ok(2));
        for refused in [
            load(3, 2, &[5, 9], [2, 3], [0, 1], [1, 2]),
            load(u64::MAX, 2, &[5, 9], [2, 3], [0, 1], [1, 2]),
            load(2, 2, &[5, 5], [2, 3], [0, 1], [1, 2]),
            load(2, 2, &[5, 9], [1, 3], [0, 1], [1, 2]),
            load(2, 2, &[5, 9], [3, 2], [0, 1], [1, 2]),
            load(2, 2, &[5, 9], [2, 4], [0, 1], [1, 2]),
            load(2, 2, &[5, 9], [2, 3], [1, 0], [1, 2]),
            load(2, 2, &[5, 9], [2, 3], [0, 0], [1, 2]),
            load(2, 2, &[5, 9], [2, 3], [0, 7], [1, 2]),
            load(2, 2, &[5, 9], [2, 3], [0, 1], [1, 1]),
        ] {
            assert!(refused.is_err());
        }
    }
}
