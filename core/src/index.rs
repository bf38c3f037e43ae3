//! Has this page been seen before, or one that is near it? The question of a crawler, asked document by document of an
//! index that grows and shrinks.
//!
//! An index finds documents in one of two ways: by *keys*, the band hashes of both sketches, or by *hashes*, SimHashes
//! that a dial searches. A dial is a few small tables that are probed. Documents with the same SimHash share a *slot*
//! there.
//!
//! The index calls the same documents near as a run over all documents ([`crate::dedup`]): by the same sketches, the
//! same keys, and the same verification with the same threshold. Asked for each document of a corpus in order, it gives
//! the pairs between a document and those before it that such a run lists, by keys with [`Settings::all_pairs`]. The
//! two differ where more than 256 documents share a key, or where very many share a SimHash: the run compares some
//! pairs. The index looks at the first and the latest documents of such a key ([`lsh::MOST`]), and says how many it
//! passed over. They also differ where not all probes are made.
//!
//! ```
//! use simflip_core::Sketcher;
//! use simflip_core::index::{Answer, Index, IndexSettings, NearDuplicate};
//! use std::collections::HashMap;
//!
//! let settings = IndexSettings::both(0.8);
//! let (mut index, mut sketcher) = (Index::new(&settings)?, Sketcher::new(&settings, None)?);
//! let story: Vec<String> = (0..80).map(|word| format!("word{}", word * word)).collect();
//! let [first, again] = [story.join(" "), story.join(" ") + " today"].map(|text| sketcher.sketch(&text));
//! assert!(index.ask(&first)?.near.is_empty());
//!
//! // The index numbers documents; names of one's own stand beside it.
//! let urls = HashMap::from([(index.add(&first)?, "https://example.org/story")]);
//! let Answer { same, near, .. } = index.ask(&again)?;
//! let NearDuplicate { document, similarity, .. } = near[0];
//! assert!(same.is_none() && similarity > 0.9);
//! assert_eq!(urls[&document], "https://example.org/story");
//! assert_eq!(index.ask(&first)?.same, Some(document));
//!
//! index.remove(&[document]);
//! assert_eq!(index.len(), 0);
//! # Ok::<(), simflip_core::Error>(())
//! ```

mod columns;
mod settings;
mod stored;

#[doc(hidden)]
pub use columns::{Columns, Rows};
pub use settings::IndexSettings;
#[doc(hidden)]
pub use stored::{StoredTables, table_part};

use crate::bits::Bits;
use crate::calibrate::{Calibration, SampleParams, calibrate};
use crate::error::{Error, Result};
use crate::hash::fmix64;
use crate::id::{Document, Id, Slot};
use crate::jaccard::SetBits;
use crate::kernel::prefetch;
use crate::search::Query;
use crate::search::bucket_table::BucketTable;
use crate::search::dial::DialParams;
use crate::search::keys::{self, Keys};
use crate::search::lsh::{self, LshIndex};
use crate::search::online::Online;
use crate::search::selfjoin::cosine_of_distance;
use crate::settings::{Generator, Measure, Recall, Settings, Sketches, Verification};
use crate::simhash::BITS;
use crate::similarity::{Anchor, ComparedDocument};
use crate::sketch::{Facts, Hashed, Sketch, SketchValue, TwoSketches};
use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;
use std::ops::Range;

/// An index of documents, by their sketches. Documents are numbered from 0; the number of a removed document is given
/// again.
#[derive(Clone, Debug)]
pub struct Index {
    settings: Settings,
    /// The digest of every document's text, by document.
    digests: Vec<u128>,
    features: Vec<u32>,
    /// The numbers of documents that are stored; other numbers are free.
    stored: Bits,
    /// The number of documents that were stored before each. It is empty until a number is given again; until then that
    /// number is the document's.
    born: Vec<u64>,
    /// Number of documents stored so far, removed ones among them.
    births: u64,
    /// Documents by hashes of digests.
    by_digest: BucketTable,
    free: Vec<u32>,
    generator: Grown,
}

#[derive(Clone, Debug)]
enum Grown {
    Keys(ByKeys),
    Hashes(Box<ByHashes>),
}

/// Documents with both sketches.
#[derive(Clone, Debug)]
struct ByKeys {
    lsh: LshIndex,
    /// Words of a document's bits.
    words: usize,
    hashes: Vec<u64>,
    bits: Vec<u64>,
}

/// Documents with a SimHash.
#[derive(Clone, Debug)]
struct ByHashes {
    distance: u32,
    recall: Recall,
    online: Online,
    /// The documents of each slot; none where all are removed.
    documents: SlotDocuments,
    /// By document; none for a document without a sketch, and for a number without a document.
    hashed: Vec<Option<Hashed>>,
    /// Number of slots without a document.
    empty: usize,
    measured: Option<Calibration>,
    /// Different hashes at the last measurement.
    measured_at: usize,
}

/// The documents of each slot, most of which have one.
#[derive(Clone, Debug, Default)]
struct SlotDocuments {
    /// The first document of each, or [`NOBODY`].
    first: Vec<u32>,
    /// By slot, the documents behind the first.
    others: HashMap<u32, Vec<u32>>,
}

/// The entry of a slot without a document.
const NOBODY: u32 = u32::MAX;

impl SlotDocuments {
    /// Number of slots.
    fn len(&self) -> usize {
        self.first.len()
    }

    fn first(&self, slot: usize) -> Option<u32> {
        Some(self.first[slot]).filter(|&document| document != NOBODY)
    }

    fn of(&self, slot: usize) -> impl Iterator<Item = u32> {
        self.first(slot).into_iter().chain(self.others.get(&(slot as u32)).into_iter().flatten().copied())
    }

    /// Puts a document behind those of a slot; the next slot begins with it.
    fn push(&mut self, slot: usize, document: u32) {
        if slot == self.first.len() {
            self.first.push(NOBODY);
        }
        match self.first[slot] {
            NOBODY => self.first[slot] = document,
            _ => self.others.entry(slot as u32).or_default().push(document),
        }
    }

    /// Takes documents out of a slot.
    fn retain(&mut self, slot: usize, keep: impl Fn(u32) -> bool) {
        let Some(first) = self.first(slot) else { return };
        if keep(first) {
            if let Some(others) = self.others.get_mut(&(slot as u32)) {
                others.retain(|&document| keep(document));
            }
            return;
        }
        let kept: Vec<u32> = self.of(slot).filter(|&document| keep(document)).collect();
        self.first[slot] = NOBODY;
        self.others.remove(&(slot as u32));
        kept.into_iter().for_each(|document| self.push(slot, document));
    }

    /// The documents of the slots that have any, by new slots.
    fn without_empty(&self) -> Self {
        let mut groups = Self::default();
        for slot in (0..self.len()).filter(|&slot| self.first(slot).is_some()) {
            let new = groups.len();
            self.of(slot).for_each(|document| groups.push(new, document));
        }
        groups
    }

    fn bytes(&self) -> usize {
        let others = self.others.values().map(|list| list.capacity() * size_of::<u32>());
        self.first.capacity() * size_of::<u32>() + others.sum::<usize>() + self.others.allocation_size()
    }
}

/// The answer of an index about a document that it is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The stored document with the same text, byte for byte. If there is one, [`Index::ask`] looks for no others.
    pub same: Option<Document>,
    /// The stored documents near it: the most similar first, of equally similar ones the one of less distance, and then
    /// the one stored first.
    pub near: Vec<NearDuplicate>,
    /// Number of stored documents that it was compared with.
    pub compared: u64,
    /// Number of entries of keys, or of documents with near hashes, that were passed over because there are too many.
    /// If it is not 0, `near` may lack documents.
    pub passed_over: u64,
}

/// A stored document near the one that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearDuplicate {
    /// The stored document.
    pub document: Document,
    /// Number of bits in which the SimHashes differ, 0 to 64.
    pub distance: u32,
    /// The similarity by verification's measure, at most 1; without verification, cos(π·distance/64).
    pub similarity: f32,
}

/// Words of a cache line.
const LINE: usize = 8;

/// The fewest distinct hashes that an index is laid out for.
const FEWEST_EXPECTED: usize = 1 << 20;

/// The number of distinct hashes from which on the number of probes is measured; fewer are searched with all probes.
const FEWEST_MEASURED: usize = 4096;

/// The most documents that are verified for one question to an index of hashes: the nearest ones.
const MOST_VERIFIED: usize = 4096;

impl Index {
    /// An index without documents. The settings say how documents are sketched, which of them are candidates, and which
    /// are near.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a number out of its range.
    pub fn new(settings: &IndexSettings) -> Result<Self> {
        Self::of(settings)
    }

    /// An index without documents, by any of these settings:
    ///
    /// - [`Sketches::Both`] with [`Generator::Keys`] and [`Verification::Estimate`], as [`Settings::both`] has them;
    /// - [`Sketches::SimHash`] with [`Generator::Dial`] without key bits of its own, and verification
    ///   [`Verification::Weights`], [`Verification::Mismatch`] or [`Verification::None`].
    ///
    /// # Errors
    /// [`Error::Parameter`] for settings without meaning, and for others than these.
    #[doc(hidden)]
    pub fn of(settings: &Settings) -> Result<Self> {
        settings.check()?;
        let generator = match (settings.sketches, settings.generator, settings.verification) {
            (Sketches::Both { bits, banding }, Generator::Keys, Verification::Estimate(_)) => {
                Grown::Keys(ByKeys {
                    lsh: LshIndex::new(banding.bands),
                    words: bits / u64::BITS as usize,
                    hashes: Vec::new(),
                    bits: Vec::new(),
                })
            }
            (
                Sketches::SimHash { .. },
                Generator::Dial { distance, recall, key_bits: None },
                Verification::Weights(_) | Verification::Mismatch(_) | Verification::None,
            ) => Grown::Hashes(Box::new(ByHashes::new(distance, recall)?)),
            _ => {
                let got = format!("{} with {}", settings.generator.name(), settings.verification.name());
                let expected =
                    "keys with estimate, or the dial with weights, mismatch or none, in an index that grows";
                return Err(Error::parameter("search", got, expected));
            }
        };
        Ok(Self {
            settings: settings.clone(),
            digests: Vec::new(),
            features: Vec::new(),
            stored: Bits::default(),
            born: Vec::new(),
            births: 0,
            by_digest: BucketTable::default(),
            free: Vec::new(),
            generator,
        })
    }

    /// Number of documents stored.
    pub fn len(&self) -> usize {
        self.numbers() - self.free.len()
    }

    /// True if the document of this number is stored.
    pub fn contains(&self, document: Document) -> bool {
        self.stored.get(u64::from(document.number()))
    }

    /// The answer about a document, which is not stored by that. A document with fewer features than
    /// [`Settings::min_features`] has no near ones.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a sketch of another kind or length.
    pub fn ask(&self, sketch: &Sketch) -> Result<Answer> {
        match self.find(sketch.facts.digest) {
            None => self.near(sketch),
            same => {
                self.fitting(&sketch.facts, Some(&sketch.value)).map(|_| Answer { same, ..Answer::default() })
            }
        }
    }

    /// Stores a document, and gives its number. If a document with the same text is stored, it gives the number of that
    /// one and stores nothing.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a sketch of another kind or length, and if there are 2³¹ documents already.
    pub fn add(&mut self, sketch: &Sketch) -> Result<Document> {
        self.restore(&sketch.facts, Some(&sketch.value))
    }

    /// Removes documents, and all that is kept of them. Numbers that are not stored are passed over. Gives the number
    /// of removed documents. With keys the work is linear in the whole index.
    pub fn remove(&mut self, documents: &[Document]) -> usize {
        self.remove_by_keys(documents.iter().map(|&document| (document, &[][..])))
    }
}

#[doc(hidden)]
impl Index {
    /// The settings that the index was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// True if no document is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stored documents, in the order in which they were stored.
    pub fn documents(&self) -> Vec<Document> {
        let mut documents: Vec<Document> =
            Document::all(self.numbers()).filter(|&document| self.contains(document)).collect();
        if !self.born.is_empty() {
            documents.sort_unstable_by_key(|&document| self.born(document));
        }
        documents
    }

    /// The stored documents among these numbers, ascending, each with the number of documents that had been stored
    /// before it. It gives [`documents`](Self::documents) some at a time.
    pub fn births(&self, numbers: Range<usize>) -> impl Iterator<Item = (Document, u64)> + '_ {
        let numbers = numbers.start.min(self.numbers())..numbers.end.min(self.numbers());
        let documents = numbers.map(|number| Document(number as u32));
        let stored = documents.filter(|&document| self.contains(document));
        stored.map(|document| (document, self.born(document)))
    }

    /// The number of documents that had been stored before one.
    fn born(&self, document: Document) -> u64 {
        self.born.get(document.index()).copied().unwrap_or(u64::from(document.number()))
    }

    /// The number below which all document numbers are that were ever given.
    pub fn numbers(&self) -> usize {
        self.digests.len()
    }

    /// The digest of a document's text; none if the document is not stored.
    pub fn digest(&self, document: Document) -> Option<u128> {
        self.contains(document).then(|| self.digests[document.index()])
    }

    /// The stored document with a text, by the text's digest; none if no document has it.
    pub fn find(&self, digest: u128) -> Option<Document> {
        let found = self.by_digest.get(digest_hash(digest));
        found.slots().iter().find(|&&at| self.digests[at as usize] == digest).map(|&at| Document(at))
    }

    /// True if a document is stored with a sketch, as it has enough features.
    pub fn is_sketched(&self, document: Document) -> bool {
        match &self.generator {
            Grown::Keys(by_keys) => by_keys.lsh.contains(document.number()),
            Grown::Hashes(by_hashes) => by_hashes.hashed.get(document.index()).is_some_and(Option::is_some),
        }
    }

    /// The stored parts of a document; none if it is not stored. They are the digest of its text, its number of
    /// features, and its sketch, or none if the features are too few for one. The length of the text is not kept, and 0
    /// here. With keys the work is linear in the whole index, as keys are kept only in the tables that documents are
    /// found by.
    pub fn kept(&self, document: Document) -> Option<(Facts, Option<SketchValue>)> {
        if !self.contains(document) {
            return None;
        }
        let at = document.index();
        let value = match &self.generator {
            Grown::Keys(by_keys) => by_keys.lsh.keys(document.number()).map(|keys| {
                let bits = by_keys.bits(at).to_vec();
                SketchValue::Both(TwoSketches { hash: by_keys.hashes[at], bits, keys, extra: Vec::new() })
            }),
            Grown::Hashes(by_hashes) => by_hashes.hashed[at].map(SketchValue::SimHash),
        };
        let (digest, features) = (self.digests[at], self.features[at]);
        Some((Facts { digest, features, text_bytes: 0 }, value))
    }

    /// The answer about a document as [`ask`](Self::ask) gives it, but without `same`. A document with the same text is
    /// among those near, unless its features are too few or it was passed over.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn near(&self, sketch: &Sketch) -> Result<Answer> {
        let value = self.fitting(&sketch.facts, Some(&sketch.value))?;
        let Facts { digest, features, .. } = sketch.facts;
        let asked = ShownDocument { digest, features, bits: None, hashed: None };
        let mut answer = match (&self.generator, value) {
            (Grown::Keys(by_keys), Some(SketchValue::Both(two))) => self.by_keys(by_keys, asked, two),
            (Grown::Hashes(by_hashes), Some(SketchValue::SimHash(hashed))) => {
                self.by_hashes(by_hashes, asked, hashed)
            }
            _ => Answer::default(),
        };
        answer.near.sort_unstable_by(|a, b| {
            let order = b.similarity.total_cmp(&a.similarity).then(a.distance.cmp(&b.distance));
            let born = |near: &NearDuplicate| self.born(near.document);
            order.then(born(a).cmp(&born(b)))
        });
        Ok(answer)
    }

    /// Stores a document from the parts that [`kept`](Self::kept) gives, and gives its number, as [`add`](Self::add)
    /// does.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn restore(&mut self, facts: &Facts, value: Option<&SketchValue>) -> Result<Document> {
        let value = self.fitting(facts, value)?;
        if let Some(same) = self.find(facts.digest) {
            return Ok(same);
        }
        let at = self.free.last().map_or(self.numbers(), |&free| free as usize);
        let document = u32::try_from(at).ok().filter(|&document| document < 1 << 31);
        let document =
            document.ok_or_else(|| Error::parameter("document", at, "fewer than 2^31 in one index"))?;
        match &mut self.generator {
            Grown::Keys(by_keys) => by_keys.put(document, value)?,
            Grown::Hashes(by_hashes) => by_hashes.put(document, value)?,
        }
        let Facts { digest, features, .. } = *facts;
        if self.free.pop().is_some() && self.born.is_empty() {
            self.born = (0..self.numbers() as u64).collect();
        }
        let numbers = self.numbers().max(at + 1);
        lengthen(&mut self.digests, numbers, 0);
        lengthen(&mut self.features, numbers, 0);
        (self.digests[at], self.features[at]) = (digest, features);
        self.stored.reach(numbers as u64);
        self.stored.set(at as u64);
        if !self.born.is_empty() {
            lengthen(&mut self.born, numbers, 0);
            self.born[at] = self.births;
        }
        self.births += 1;
        self.by_digest.insert(digest_hash(digest), document);
        if let Grown::Hashes(by_hashes) = &mut self.generator {
            by_hashes.measure(self.settings.seed);
        }
        Ok(Document(document))
    }

    /// Stores many documents at once in an index that never had one, in their order: documents are numbered from 0. The
    /// [tables](Self::tables) of the index are `stored`, or else are made from the documents' keys. False if the index
    /// had documents, two documents have the same text, the columns are of other settings, or the tables do not fit
    /// them. Then nothing is stored, and the caller has to [restore](Self::restore) the documents one by one.
    ///
    /// # Errors
    /// [`Error::Parameter`] for 2³¹ documents or more.
    pub fn fill(&mut self, columns: Columns, stored: Option<&dyn StoredTables>) -> Result<bool> {
        let n = columns.len();
        if self.numbers() > 0 {
            return Ok(false);
        }
        if n >= 1 << 31 {
            return Err(Error::parameter("document", n, "fewer than 2^31 in one index"));
        }
        let least = self.settings.min_features.max(1);
        let Columns { digests, features, sketched, words, hashes, bits, keys, hashed } = columns;
        let enough = |at: &usize| sketched[*at] && features[*at] as usize >= least;
        let by_digest = || by_digest(&digests, stored);
        let (by_digest, generator) = match &self.generator {
            Grown::Keys(by_keys) => {
                let bands = by_keys.lsh.bands();
                let has_keys = if stored.is_none() { keys.len() == bands } else { keys.is_empty() };
                if words != by_keys.words || hashes.len() != n || !has_keys {
                    return Ok(false);
                }
                let slots: Vec<u32> = (0..n).filter(enough).map(|at| at as u32).collect();
                let (by_digest, lsh) = rayon::join(by_digest, || lsh(bands, n, &slots, keys, stored));
                (by_digest, lsh.map(|lsh| Grown::Keys(ByKeys { lsh, words, hashes, bits })))
            }
            Grown::Hashes(by_hashes) => {
                if hashed.len() != n {
                    return Ok(false);
                }
                let empty = ByHashes::new(by_hashes.distance, by_hashes.recall)?;
                rayon::join(by_digest, || Some(empty.filled(hashed, enough)))
            }
        };
        let (Some(by_digest), Some(generator)) = (by_digest, generator) else { return Ok(false) };
        (self.digests, self.features) = (digests, features);
        self.stored.reach(n as u64);
        (0..n as u64).for_each(|at| self.stored.set(at));
        (self.births, self.by_digest, self.generator) = (n as u64, by_digest, generator);
        if let Grown::Hashes(by_hashes) = &mut self.generator {
            by_hashes.measure(self.settings.seed);
        }
        Ok(true)
    }

    /// Number of tables whose [`entries`](Self::entries) can be stored: table 0 of digests, and one for each key of a
    /// document. It is 0 for an index of hashes.
    pub fn tables(&self) -> usize {
        match &self.generator {
            Grown::Keys(by_keys) => 1 + by_keys.lsh.bands(),
            Grown::Hashes(_) => 0,
        }
    }

    /// Appends some of a table's entries to `entries`, ascending: in the upper half of each is the mixed key, and in
    /// the lower half the document. In table 0 the key is 32 bits of the digest's hash. They begin at the mixed key
    /// `from`, 0 at first. At least `most` are appended, or all that are left. Gives the mixed key of the next call, or
    /// none after the last entry. Between calls documents may be added, but not removed.
    pub fn entries(&self, table: usize, from: u32, most: usize, entries: &mut Vec<u64>) -> Option<u32> {
        let table = match (&self.generator, table.checked_sub(1)) {
            (_, None) => &self.by_digest,
            (Grown::Keys(by_keys), Some(band)) => by_keys.lsh.table(band)?,
            (Grown::Hashes(_), Some(_)) => return None,
        };
        table.entries(from, most, entries)
    }

    /// Removes documents whose sketches the caller knows, as [`kept`](Self::kept) gives them, and gives the number of
    /// removed documents. The work is then linear in their number. Sketches other than the stored ones cost time and
    /// nothing else.
    pub fn remove_known(&mut self, documents: &[(Document, Option<SketchValue>)]) -> usize {
        self.remove_by_keys(documents.iter().map(|(document, value)| match value {
            Some(SketchValue::Both(two)) => (*document, &two.keys[..]),
            _ => (*document, &[][..]),
        }))
    }

    /// Removes documents, each with its keys or with none.
    fn remove_by_keys<'k>(
        &mut self,
        documents: impl Iterator<Item = (Document, &'k [u32])> + Clone,
    ) -> usize {
        let documents = documents.map(|(document, keys)| (document.number(), keys));
        let is_stored = |&number: &u32| self.stored.get(u64::from(number));
        let mut gone: Vec<u32> = documents.clone().map(|(number, _)| number).filter(is_stored).collect();
        // Once and descending: the least number is the next to be given.
        gone.sort_unstable_by(|a, b| b.cmp(a));
        gone.dedup();
        if let Grown::Keys(by_keys) = &mut self.generator {
            by_keys.lsh.remove_known(documents);
        }
        let hashes: Vec<(u32, u32)> =
            gone.iter().map(|&document| (digest_hash(self.digests[document as usize]), document)).collect();
        for &document in &gone {
            let at = document as usize;
            (self.digests[at], self.features[at]) = (0, 0);
            self.stored.clear(u64::from(document));
        }
        self.by_digest.remove(hashes.into_iter(), |document| !self.stored.get(u64::from(document)));
        match &mut self.generator {
            Grown::Keys(by_keys) => by_keys.clear(&gone),
            Grown::Hashes(by_hashes) => by_hashes.remove(&gone),
        }
        let count = gone.len();
        self.free.extend(gone);
        count
    }

    /// Builds the dial of an index of hashes anew, as is worth while after many were added. Hashes without documents
    /// are dropped. Where all probes are made, the stored hashes choose the key bits, and answers stay the same. Where
    /// fewer are made, keys may become longer, which changes some answers. An index of keys does not change.
    pub fn lay_out(&mut self) {
        if let Grown::Hashes(by_hashes) = &mut self.generator {
            by_hashes.forget_empty();
        }
    }

    /// Bytes that the index takes in memory, and bytes of the stored documents' sketches among them, without keys. The
    /// room of lists for more documents has not been touched, and is not counted.
    pub fn bytes(&self) -> (usize, usize) {
        let (generator, sketches) = match &self.generator {
            Grown::Keys(ByKeys { lsh, hashes, bits, words }) => {
                let sketches = self.len() * (size_of::<u64>() * (1 + words));
                (lsh.bytes() + (hashes.len() + bits.len()) * size_of::<u64>(), sketches)
            }
            Grown::Hashes(by_hashes) => {
                let ByHashes { online, documents, hashed, .. } = &**by_hashes;
                let sketches = hashed.len() * size_of::<Option<Hashed>>();
                (online.bytes() + documents.bytes() + sketches, self.len() * size_of::<Hashed>())
            }
        };
        let facts = self.digests.len() * size_of::<u128>()
            + self.features.len() * size_of::<u32>()
            + self.born.len() * size_of::<u64>()
            + self.stored.bytes();
        (generator + facts + self.by_digest.bytes() + self.free.capacity() * size_of::<u32>(), sketches)
    }

    /// The average number of stored documents that are called near to a document unrelated to all of them. For both
    /// sketches it is their number times the probability that a key and enough bits are equal by chance. For hashes it
    /// is their number times the probability that a hash lies within the distance, before verification.
    pub fn expected_by_chance(&self) -> f64 {
        let documents = self.len() as f64;
        match (&self.generator, self.settings.verification, self.settings.sketches) {
            (Grown::Keys(_), verification, Sketches::Both { bits, banding }) => {
                let key = -f64::exp_m1(banding.bands as f64 * f64::ln_1p(-(0.5f64.powi(32))));
                let alike = match verification {
                    Verification::Estimate(threshold) => {
                        within(bits, ((1.0 - threshold) / 2.0 * bits as f64) as usize)
                    }
                    _ => 1.0,
                };
                documents * key * alike
            }
            (Grown::Hashes(by_hashes), ..) => documents * within(BITS, by_hashes.distance as usize),
            _ => 0.0,
        }
    }

    /// The last measurement of the number of probes that the wanted recall takes. None for an index of keys, for a
    /// recall other than [`Recall::AtLeast`], and before the first measurement.
    pub fn measured(&self) -> Option<&Calibration> {
        match &self.generator {
            Grown::Hashes(by_hashes) => by_hashes.measured.as_ref(),
            Grown::Keys(_) => None,
        }
    }

    /// Checks that a sketch is of the settings' kind, and gives it; none if there is none or the features are too few.
    fn fitting<'a>(&self, facts: &Facts, value: Option<&'a SketchValue>) -> Result<Option<&'a SketchValue>> {
        let Some(value) = value else { return Ok(None) };
        let fits = match (&self.generator, self.settings.sketches, value) {
            (Grown::Keys(by_keys), Sketches::Both { banding, .. }, SketchValue::Both(two)) => {
                two.bits.len() == by_keys.words && two.keys.len() == banding.bands
            }
            (Grown::Hashes(_), _, SketchValue::SimHash(_)) => true,
            _ => false,
        };
        if !fits {
            return Err(Error::parameter(
                "sketch",
                value.kind(),
                "a sketch of the kind and length of the index",
            ));
        }
        Ok((facts.features as usize >= self.settings.min_features.max(1)).then_some(value))
    }

    /// The measure of verification and its threshold; none without verification.
    fn verified(&self) -> Option<(Measure, f32)> {
        let verification = self.settings.verification;
        verification.measure().zip(verification.threshold().map(|threshold| threshold as f32))
    }

    fn stored_document(&self, at: usize) -> ShownDocument<'_> {
        ShownDocument { digest: self.digests[at], features: self.features[at], bits: None, hashed: None }
    }

    /// Has the processor fetch what documents are compared by, of all at once.
    fn fetch(&self, by_keys: &ByKeys, documents: &[u32]) {
        for at in documents.iter().map(|&document| document as usize) {
            let bits = by_keys.bits(at);
            // A row may begin within a line, so its end is in one more.
            (0..bits.len()).step_by(LINE).chain([bits.len() - 1]).for_each(|word| prefetch::read(bits, word));
            prefetch::read(&self.digests, at);
            prefetch::read(&self.features, at);
        }
    }

    fn by_keys(&self, by_keys: &ByKeys, asked: ShownDocument<'_>, two: &TwoSketches) -> Answer {
        let mut answer = Answer::default();
        let Some((measure, threshold)) = self.verified() else { return answer };
        // Most questions have fewer than one key may add.
        let mut candidates = Vec::with_capacity(lsh::MOST);
        answer.passed_over = by_keys.lsh.candidates(&two.keys, &mut candidates);
        answer.compared = candidates.len() as u64;
        let anchor = Anchor::new(measure, ShownDocument { bits: Some(&two.bits), ..asked });
        self.fetch(by_keys, &candidates);
        for document in candidates {
            let at = document as usize;
            let stored = ShownDocument { bits: Some(by_keys.bits(at)), ..self.stored_document(at) };
            let similarity = anchor.with(&stored);
            if similarity >= threshold {
                let distance = (by_keys.hashes[at] ^ two.hash).count_ones();
                answer.near.push(NearDuplicate { document: Document(document), distance, similarity });
            }
        }
        answer
    }

    fn by_hashes(&self, by_hashes: &ByHashes, asked: ShownDocument<'_>, hashed: &Hashed) -> Answer {
        let mut answer = Answer::default();
        let query = Query { hash: hashed.hash, weights: &hashed.weights.weights() };
        let mut hits = by_hashes.online.search(query);
        hits.sort_unstable_by_key(|(hit, _)| (hit.distance, hit.slot));
        let asked = ShownDocument { hashed: Some(hashed), ..asked };
        let anchor = self.verified().map(|(measure, threshold)| (Anchor::new(measure, asked), threshold));
        for (hit, _) in hits {
            for document in by_hashes.documents.of(hit.slot.index()) {
                if answer.compared as usize == MOST_VERIFIED {
                    answer.passed_over += 1;
                    continue;
                }
                answer.compared += 1;
                let at = document as usize;
                let hashed = by_hashes.hashed[at].as_ref();
                let distance = u32::from(hit.distance);
                let similarity = match &anchor {
                    None => cosine_of_distance(distance),
                    Some((anchor, threshold)) => {
                        let stored = ShownDocument { hashed, ..self.stored_document(at) };
                        let similarity = anchor.with(&stored);
                        if similarity < *threshold {
                            continue;
                        }
                        similarity
                    }
                };
                answer.near.push(NearDuplicate { document: Document(document), distance, similarity });
            }
        }
        answer
    }
}

/// The table of documents by the digests of their texts; none if two have the same, or the stored table does not fit.
fn by_digest(digests: &[u128], stored: Option<&dyn StoredTables>) -> Option<BucketTable> {
    let table = match stored {
        Some(stored) => stored::table(stored, 0, digests.len(), digests.len())?,
        None => {
            let hashes: Vec<u32> = digests.iter().map(|&digest| digest_hash(digest)).collect();
            let documents: Vec<u32> = (0..).take(digests.len()).collect();
            BucketTable::filled(&hashes, &documents)
        }
    };
    let mut same: HashSet<u128> = HashSet::new();
    let alone = table.shared().all(|document| same.insert(digests[document as usize]));
    alone.then_some(table)
}

/// Lengthens a list to `len` values, with room for an eighth more: doubling would take twice the memory.
fn lengthen<T: Clone>(list: &mut Vec<T>, len: usize, value: T) {
    if list.capacity() < len {
        list.reserve_exact(room(len) - list.len());
    }
    list.resize(len, value);
}

/// The index of keys of `slots`, which are some of `n` documents. It is made of `keys`, by band of all documents, or of
/// stored tables; none if these do not fit.
fn lsh(
    bands: usize,
    n: usize,
    slots: &[u32],
    keys: Vec<Vec<u32>>,
    stored: Option<&dyn StoredTables>,
) -> Option<LshIndex> {
    let made = |mut keys: Vec<u32>| {
        if slots.len() < n {
            keys = slots.iter().map(|&slot| keys[slot as usize]).collect();
        }
        BucketTable::filled(&keys, slots)
    };
    let tables: Option<Vec<BucketTable>> = match stored {
        Some(stored) => {
            let table = |band| stored::table(stored, 1 + band, slots.len(), n);
            (0..bands).into_par_iter().map(table).collect()
        }
        None => Some(keys.into_par_iter().map(made).collect()),
    };
    tables.map(|tables| LshIndex::of_tables(tables, slots))
}

/// The capacity of a list of `len` numbers.
fn room(len: usize) -> usize {
    len + len / 8
}

impl ByKeys {
    fn bits(&self, at: usize) -> &[u64] {
        &self.bits[at * self.words..][..self.words]
    }

    fn put(&mut self, document: u32, value: Option<&SketchValue>) -> Result<()> {
        let Some(SketchValue::Both(two)) = value else { return Ok(()) };
        self.lsh.insert(document, &two.keys)?;
        let at = document as usize;
        let numbers = self.hashes.len().max(at + 1);
        lengthen(&mut self.hashes, numbers, 0);
        lengthen(&mut self.bits, numbers * self.words, 0);
        self.hashes[at] = two.hash;
        self.bits[at * self.words..][..self.words].copy_from_slice(&two.bits);
        Ok(())
    }

    /// Removes hashes and bits.
    fn clear(&mut self, gone: &[u32]) {
        for at in gone.iter().map(|&document| document as usize) {
            if let Some(hash) = self.hashes.get_mut(at) {
                *hash = 0;
                self.bits[at * self.words..][..self.words].fill(0);
            }
        }
    }
}

impl ByHashes {
    fn new(distance: u32, recall: Recall) -> Result<Self> {
        let online = Online::new(exact(distance, recall), None, FEWEST_EXPECTED)?;
        Ok(Self {
            distance,
            recall,
            online,
            documents: SlotDocuments::default(),
            hashed: Vec::new(),
            empty: 0,
            measured: None,
            measured_at: 0,
        })
    }

    /// The generator over these documents, where `self` is empty. Documents for which `enough` is false lose the hash.
    fn filled(mut self, mut hashed: Vec<Option<Hashed>>, enough: impl Fn(&usize) -> bool) -> Grown {
        let mut slots: HashMap<u64, u32> = HashMap::with_capacity(hashed.len());
        for (document, hashed) in hashed.iter_mut().enumerate() {
            *hashed = hashed.filter(|_| enough(&document));
            if let Some(Hashed { hash, .. }) = hashed {
                let slot = *slots.entry(*hash).or_insert(self.documents.len() as u32) as usize;
                self.documents.push(slot, document as u32);
            }
        }
        drop(slots);
        self.hashed = hashed;
        self.forget_empty();
        Grown::Hashes(Box::new(self))
    }

    fn put(&mut self, document: u32, value: Option<&SketchValue>) -> Result<()> {
        if self.hashed.len() <= document as usize {
            self.hashed.resize(document as usize + 1, None);
        }
        let Some(&SketchValue::SimHash(hashed)) = value else { return Ok(()) };
        self.hashed[document as usize] = Some(hashed);
        let (slot, new) = self.online.insert(hashed.hash)?;
        if !new && self.documents.first(slot.index()).is_none() {
            self.empty -= 1;
        }
        self.documents.push(slot.index(), document);
        Ok(())
    }

    fn remove(&mut self, gone: &[u32]) {
        let mut slots: HashSet<Slot> = HashSet::new();
        for &document in gone {
            let hashed = self.hashed.get_mut(document as usize).and_then(Option::take);
            slots.extend(hashed.and_then(|hashed| self.online.find(hashed.hash)));
        }
        for slot in slots {
            self.documents.retain(slot.index(), |document| self.hashed[document as usize].is_some());
            self.empty += usize::from(self.documents.first(slot.index()).is_none());
        }
        if 2 * self.empty > self.documents.len() {
            self.forget_empty();
        }
    }

    /// Lays the index out anew without the hashes of which no document is left.
    fn forget_empty(&mut self) {
        // Keys may be longer then, and more probes needed. The next document that is stored has them measured.
        (self.measured, self.measured_at) = (None, 0);
        let documents = self.documents.without_empty();
        let hash = |slot| Some(self.hashed[documents.first(slot)? as usize].as_ref()?.hash);
        let hashes = (0..documents.len()).filter_map(hash).collect();
        if let Ok(online) = self.laid_out(hashes) {
            (self.online, self.documents, self.empty) = (online, documents, 0);
        }
    }

    /// An index over these hashes. Where all probes are made, the keys are chosen by the hashes, which changes
    /// the work and no answer.
    fn laid_out(&self, hashes: Vec<u64>) -> Result<Online> {
        let (params, expected) = (exact(self.distance, self.recall), FEWEST_EXPECTED.max(2 * hashes.len()));
        let sample = keys::sample(&hashes).filter(|_| self.recall == Recall::Exact);
        let keys = sample.map(|sample| Keys::choose(&sample, params.tables)).transpose()?;
        let mut online = Online::new(params, keys, expected)?.filled(hashes)?;
        online.set_budget(self.budget());
        Ok(online)
    }

    fn budget(&self) -> Option<u32> {
        match self.recall {
            Recall::Probes(probes) => Some(probes),
            _ => self.measured.as_ref().and_then(|measured| measured.budget),
        }
    }

    /// Measures how many probes the wanted recall takes, if that is due.
    fn measure(&mut self, seed: u64) {
        let hashes = self.online.hashes().len();
        let Recall::AtLeast(recall) = self.recall else { return };
        if hashes < FEWEST_MEASURED.max(2 * self.measured_at) {
            return;
        }
        self.measured_at = hashes;
        self.online.set_budget(None);
        let params = SampleParams { join: true, seed, ..SampleParams::default() };
        let measured = calibrate(self.online.hashes(), recall, params, &|slot| {
            let first = self.documents.first(slot.index());
            let Some(hashed) = first.and_then(|first| self.hashed[first as usize].as_ref()) else {
                return Vec::new();
            };
            let query = Query { hash: hashed.hash, weights: &hashed.weights.weights() };
            let mut traced = self.online.search(query);
            traced.retain(|(hit, _)| self.documents.first(hit.slot.index()).is_some());
            traced
        });
        self.measured = Some(measured);
        self.online.set_budget(self.budget());
    }
}

/// The dial that finds everything within `distance` when it makes all its probes.
fn exact(distance: u32, recall: Recall) -> DialParams {
    let params = DialParams { radius: distance, tables: (distance / 2 + 1).max(2), ..DialParams::default() };
    match recall {
        Recall::Probes(probes) => DialParams { budget: Some(probes), ..params },
        _ => params,
    }
}

/// The probability that two random rows of `bits` bits differ in at most `differing`.
fn within(bits: usize, differing: usize) -> f64 {
    let ln_choose = |k: usize| {
        libm::lgamma(bits as f64 + 1.0) - libm::lgamma(k as f64 + 1.0) - libm::lgamma((bits - k) as f64 + 1.0)
    };
    let ln_all = bits as f64 * std::f64::consts::LN_2;
    (0..=differing.min(bits)).map(|k| (ln_choose(k) - ln_all).exp()).sum::<f64>().min(1.0)
}

#[inline]
fn digest_hash(digest: u128) -> u32 {
    fmix64(digest as u64 ^ (digest >> 64) as u64) as u32
}

/// A document that is stored or asked about, as a measure sees it.
#[derive(Clone, Copy)]
struct ShownDocument<'a> {
    digest: u128,
    features: u32,
    bits: Option<&'a [u64]>,
    hashed: Option<&'a Hashed>,
}

impl ComparedDocument for ShownDocument<'_> {
    fn digest(&self) -> u128 {
        self.digest
    }

    fn hashed(&self) -> Option<&Hashed> {
        self.hashed
    }

    fn bits(&self) -> Option<SetBits<'_>> {
        Some(SetBits::by_size(self.bits?, self.features))
    }

    fn size(&self) -> u32 {
        self.features
    }
}

#[cfg(test)]
mod tests;
