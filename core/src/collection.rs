//! Documents without their texts: the facts, and the features or the sketch that are kept of each.
//!
//! A [`Collection`] consists of *parts*, each filled by one thread. A part that keeps features numbers its distinct
//! ones from 0; such a number is a *term*. A sketch may have an *extra list*: hashes of all features, by which
//! containment is counted, or the words, to count edits.

use crate::error::{Error, Result};
use crate::id::{Document, Id, LedLists, Places, Text};
use crate::settings::{Settings, Sketches};
use crate::sketch::{Counter, Extra, Facts, Hashed, Sketch, SketchValue, Sketcher, TwoSketches};
use crate::text::Extraction;
use crate::weight::Weigher;
use crate::weight::frequencies::Frequencies;
use crate::weight::vocabulary::{Term, Terms};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// The part of each document that is kept besides its [`Facts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keeping {
    /// The document's features with their numbers of occurrences, from which any sketch can be made later. They take
    /// six bytes for each feature of a document, and 28 for each feature of the part.
    Features,
    /// The document's sketch, made at once. Without an extra list the memory does not grow with the length of
    /// documents.
    Sketches {
        /// The kind of sketch.
        sketches: Sketches,
        /// Seed of MinHash's functions.
        seed: u64,
        /// The extra list that is kept with each sketch.
        extra: Extra,
    },
}

impl Keeping {
    /// The part of each document that a run with these settings must keep: features where something weighs or compares
    /// them, and otherwise sketches.
    pub fn of(settings: &Settings) -> Self {
        if settings.needs_features() {
            Self::Features
        } else {
            let extra = Extra::of(settings);
            Self::Sketches { sketches: settings.sketches, seed: settings.seed, extra }
        }
    }

    /// The extra list that is kept with sketches.
    fn extra(self) -> Extra {
        match self {
            Self::Features => Extra::Nothing,
            Self::Sketches { extra, .. } => extra,
        }
    }
}

/// Documents in order, without their texts.
///
/// A collection is made by one thread. Collections of several threads, files or machines are put together with
/// [`merge`](Self::merge) or [`gather`](Self::gather). The result of a run does not depend on how documents were cut
/// into collections.
pub struct Collection {
    extraction: Extraction,
    keeping: Keeping,
    /// The part in which each document stands, and its place there. Documents are added to part 0.
    places: Places,
    /// Makes the sketches, where these are what is kept.
    sketcher: Option<Box<Sketcher>>,
    parts: Vec<CollectionPart>,
}

/// Documents that one thread has added.
struct CollectionPart {
    facts: Vec<HeldFacts>,
    kept: KeptPart,
}

impl CollectionPart {
    /// The part, to which nothing is added any more: without the room for more.
    fn finished(mut self) -> Self {
        self.facts.shrink_to_fit();
        Self { kept: self.kept.finished(), ..self }
    }
}

/// [`Facts`] without the four bytes that a digest's alignment would cost each.
#[derive(Clone, Copy)]
#[repr(Rust, packed(4))]
struct HeldFacts {
    digest: u128,
    text_bytes: u64,
    features: u32,
}

impl From<Facts> for HeldFacts {
    fn from(Facts { digest, text_bytes, features }: Facts) -> Self {
        Self { digest, text_bytes, features }
    }
}

impl From<HeldFacts> for Facts {
    fn from(HeldFacts { digest, text_bytes, features }: HeldFacts) -> Self {
        Self { digest, text_bytes, features }
    }
}

/// The kept features or sketches of some documents. `Counting` takes more documents; `Features` is finished.
enum KeptPart {
    Counting { counter: Box<Counter>, lists: TermLists },
    Features { terms: Terms, lists: TermLists },
    SimHashes(Vec<Hashed>),
    Both(TwoSketchesList),
}

/// The [`TwoSketches`] of some documents.
#[derive(Default)]
struct TwoSketchesList {
    hashes: Vec<u64>,
    /// The number of words of bits for each document.
    words: usize,
    bits: Vec<u64>,
    /// The number of keys for each document.
    bands: usize,
    keys: Vec<u32>,
    /// The extra lists of the documents, one after the other, and where each ends; both empty where none is kept.
    extra: Vec<u32>,
    ends: Option<Vec<usize>>,
}

impl TwoSketchesList {
    fn new(bits: usize, bands: usize, extra: Extra) -> Self {
        let ends = (extra != Extra::Nothing).then(Vec::new);
        Self { words: bits / u64::BITS as usize, bands, ends, ..Self::default() }
    }

    fn push(&mut self, TwoSketches { hash, bits, keys, extra }: &TwoSketches) -> bool {
        let fits = bits.len() == self.words && keys.len() == self.bands;
        if fits {
            self.hashes.push(*hash);
            self.bits.extend_from_slice(bits);
            self.keys.extend_from_slice(keys);
            if let Some(ends) = &mut self.ends {
                self.extra.extend_from_slice(extra);
                ends.push(self.extra.len());
            }
        }
        fits
    }

    fn get(&self, at: usize) -> Two<'_> {
        let Self { hashes, words, bits, bands, keys, extra, ends } = self;
        Two {
            hash: hashes[at],
            bits: &bits[at * words..(at + 1) * words],
            keys: &keys[at * bands..(at + 1) * bands],
            extra: match ends {
                Some(ends) => &extra[at.checked_sub(1).map_or(0, |before| ends[before])..ends[at]],
                None => &[],
            },
        }
    }
}

/// The sketch of a document with bits and keys, borrowed ([`TwoSketches`]). With keys of block-permuted tables, `bits`
/// is the SimHash alone.
#[derive(Clone, Copy, Debug)]
pub struct Two<'a> {
    /// The SimHash, or with MinHash one bit of each of the first 64 positions.
    pub hash: u64,
    /// The bits that estimate the Jaccard similarity, 64 to a word.
    pub bits: &'a [u64],
    /// The band hash of each band, or the key of each block-permuted table.
    pub keys: &'a [u32],
    /// The [extra list](TwoSketches::extra); empty if it stays on disk.
    pub extra: &'a [u32],
}

impl<'a> From<&'a TwoSketches> for Two<'a> {
    fn from(TwoSketches { hash, bits, keys, extra }: &'a TwoSketches) -> Self {
        Self { hash: *hash, bits, keys, extra }
    }
}

/// Documents as lists of terms.
#[derive(Default)]
struct TermLists {
    /// The terms of one document after the other, and how often each occurs there.
    terms: Vec<Term>,
    occurrences: Vec<u16>,
    /// Where each document ends in both lists.
    ends: Vec<usize>,
}

impl TermLists {
    fn range(&self, at: usize) -> Range<usize> {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        start..self.ends[at]
    }
}

/// The features of a document by the terms of its part.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    /// The number of the part.
    pub part: usize,
    /// The feature, a 64-bit hash, of each term of the part.
    pub features: &'a [u64],
    /// The document's terms, in order of first occurrence.
    pub terms: &'a [Term],
    /// The number of occurrences of each of these terms in the document, at most 65,535.
    pub occurrences: &'a [u16],
}

impl Counted<'_> {
    /// The document's distinct features with their numbers of occurrences, in order of first occurrence.
    pub fn counts(&self) -> impl ExactSizeIterator<Item = (u64, u32)> {
        self.terms
            .iter()
            .zip(self.occurrences)
            .map(|(&term, &n)| (self.features[term as usize], u32::from(n)))
    }

    /// The document's distinct features with their weights in multiples of 2⁻²⁴. `idf` has inverse document frequencies
    /// by part and term.
    pub(crate) fn weighed(&self, weigher: &Weigher, idf: &[Vec<f32>]) -> impl Iterator<Item = (u64, i64)> {
        let idf = &idf[self.part];
        self.terms.iter().zip(self.occurrences).map(move |(&term, &n)| {
            let term = term as usize;
            (self.features[term], weigher.weight(u32::from(n), idf[term]))
        })
    }
}

impl Collection {
    /// A collection without documents. Sketches weigh features by `frequencies`, if the weighting needs any.
    ///
    /// # Errors
    /// [`Error::Parameter`] for sketches that cannot be made.
    pub fn new(
        extraction: impl Into<Extraction>,
        keeping: Keeping,
        frequencies: Option<Arc<Frequencies>>,
    ) -> Result<Self> {
        let extraction = extraction.into();
        let (sketcher, part) = match keeping {
            Keeping::Features => {
                let (counter, lists) = (Box::new(Counter::new(extraction)), TermLists::default());
                (None, KeptPart::Counting { counter, lists })
            }
            Keeping::Sketches { sketches, seed, extra } => {
                let sketcher = Sketcher::of(extraction, sketches, seed, extra, frequencies)?;
                let part = match sketches {
                    Sketches::SimHash { .. } => KeptPart::SimHashes(Vec::new()),
                    keyed => {
                        let (bits, bands) = keyed.keyed().map_or((0, 0), |(bits, of)| (bits, of.bands));
                        KeptPart::Both(TwoSketchesList::new(bits, bands, extra))
                    }
                };
                (Some(Box::new(sketcher)), part)
            }
        };
        let parts = vec![CollectionPart { facts: Vec::new(), kept: part }];
        Ok(Self { extraction, keeping, places: Places::default(), sketcher, parts })
    }

    /// Adds a document by its text, and gives its number.
    ///
    /// # Panics
    /// If there are 2³² documents already.
    pub fn push(&mut self, text: &str) -> Document {
        self.push_part(text, text)
    }

    /// Adds a document of which `part` alone is compared: its text without boilerplate, say. Exact duplicates are those
    /// of the whole text. Of exact duplicates that differ in `part` the one with the most features is compared.
    ///
    /// # Panics
    /// If there are 2³² documents already.
    pub fn push_part(&mut self, text: &str, part: &str) -> Document {
        let facts = match &mut self.parts[0].kept {
            KeptPart::Counting { counter, lists } => {
                counter.count(part);
                let features = counter.vocabulary.finish(|terms, occurrences| {
                    lists.terms.extend_from_slice(terms);
                    lists.occurrences.extend_from_slice(occurrences);
                    terms.len()
                });
                lists.ends.push(lists.terms.len());
                Facts::new(text, features)
            }
            kept => {
                let sketcher = self.sketcher.as_mut().expect("what is not counted is sketched");
                let Sketch { facts, value } = sketcher.sketch_part(text, part);
                kept.push(&value);
                facts
            }
        };
        self.put(facts)
    }

    /// Adds a document by its sketch, and gives its number.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the sketch is of another kind or length, or the collection keeps features.
    ///
    /// # Panics
    /// If there are 2³² documents already.
    pub fn push_sketch(&mut self, sketch: &Sketch) -> Result<Document> {
        let expected = match &mut self.parts[0].kept {
            KeptPart::Counting { .. } => {
                "a text, as these settings look at features and not at sketches alone"
            }
            _ if !sketch.has(self.keeping.extra()) => {
                "a sketch with the list that verification looks at: hashes of features, or words"
            }
            kept => {
                if kept.push(&sketch.value) {
                    return Ok(self.put(sketch.facts));
                }
                "a sketch of the kind and length of the settings"
            }
        };
        Err(Error::parameter("sketch", sketch.value.kind(), expected))
    }

    fn put(&mut self, facts: Facts) -> Document {
        let own = &mut self.parts[0].facts;
        own.push(facts.into());
        self.places.push(0, own.len() as u32 - 1)
    }

    /// Adds the documents of another collection behind those of this one.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the two keep different parts of documents, or have other features.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        self.fits(&other)?;
        let moved = self.parts.len() as u32;
        for document in Document::all(other.len()) {
            let (part, at) = other.places.get(document);
            self.places.push(part + moved, at);
        }
        self.parts.extend(other.parts.into_iter().map(CollectionPart::finished));
        Ok(())
    }

    /// Puts the documents of collections together; this collection must be empty. `order` lists runs of documents in
    /// their new order: each names a collection by its place in `collections`, and the numbers of documents there.
    /// Nothing of a document is copied.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    ///
    /// # Panics
    /// If `order` names a document that is not there.
    pub fn gather(mut self, collections: Vec<Self>, order: &[(u32, Range<u32>)]) -> Result<Self> {
        let mut starts = Vec::new();
        for other in collections {
            starts.push(self.len() as u32);
            self.merge(other)?;
        }
        let mut places = Places::default();
        for (from, documents) in order {
            for document in documents.clone() {
                let (part, at) = self.places.get(Document(starts[*from as usize] + document));
                places.push(part, at);
            }
        }
        Ok(Self { places, ..self })
    }

    fn fits(&self, other: &Self) -> Result<()> {
        self.extraction.fits(other.extraction)?;
        if self.keeping != other.keeping {
            let expected = format!("{:?} as in the other part", self.keeping);
            return Err(Error::parameter("sketch", format!("{:?}", other.keeping), expected));
        }
        Ok(())
    }

    /// The kind of features, and their hash.
    pub fn extraction(&self) -> Extraction {
        self.extraction
    }

    /// The part of each document that is kept.
    pub fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there is no document.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The facts of a document.
    #[inline]
    pub fn facts(&self, document: Document) -> Facts {
        let (part, at) = self.place(document);
        part.facts[at].into()
    }

    /// The facts of each document, in order.
    pub fn all_facts(&self) -> impl Iterator<Item = Facts> {
        Document::all(self.len()).map(|document| self.facts(document))
    }

    /// Bytes of the texts of all documents, exact duplicates among them.
    pub fn text_bytes(&self) -> u64 {
        self.all_facts().map(|facts| facts.text_bytes).sum()
    }

    /// The part that a document stands in, and its place there.
    #[inline]
    fn place(&self, document: Document) -> (&CollectionPart, usize) {
        let (part, at) = self.places.get(document);
        (&self.parts[part as usize], at as usize)
    }

    /// Counts the documents in which each feature occurs. Where only sketches are kept, no feature has a count.
    pub fn frequencies(&self) -> Frequencies {
        let terms: Vec<&Terms> = self.terms().into_iter().map(|(_, terms)| terms).collect();
        Frequencies::sum(self.extraction, self.len() as u64, &terms)
    }

    /// The features of each part that keeps features, with the part's number.
    pub(crate) fn terms(&self) -> Vec<(usize, &Terms)> {
        let parts = self.parts.iter().enumerate();
        parts.filter_map(|(number, part)| Some((number, part.kept.features()?.0))).collect()
    }

    /// A document's features; none where only sketches are kept.
    pub fn counted(&self, document: Document) -> Option<Counted<'_>> {
        let (part, at) = self.places.get(document);
        let (terms, lists) = self.parts[part as usize].kept.features()?;
        let range = lists.range(at as usize);
        Some(Counted {
            part: part as usize,
            features: &terms.features,
            terms: &lists.terms[range.clone()],
            occurrences: &lists.occurrences[range],
        })
    }

    fn kept(&self, document: Document) -> (&KeptPart, usize) {
        let (part, at) = self.place(document);
        (&part.kept, at)
    }

    /// A document's SimHash; none where another sketch or features are kept.
    pub fn hashed(&self, document: Document) -> Option<&Hashed> {
        match self.kept(document) {
            (KeptPart::SimHashes(hashes), at) => Some(&hashes[at]),
            _ => None,
        }
    }

    /// A document's bits and keys; none where another sketch or features are kept.
    pub fn two(&self, document: Document) -> Option<Two<'_>> {
        match self.kept(document) {
            (KeptPart::Both(list), at) => Some(list.get(at)),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Collection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collection")
            .field("documents", &self.len())
            .field("features", &self.extraction.kind)
            .field("keeping", &self.keeping)
            .field("hash", &self.extraction.hash.name())
            .finish_non_exhaustive()
    }
}

impl KeptPart {
    /// The part, to which nothing is added any more.
    fn finished(self) -> Self {
        match self {
            Self::Counting { counter, lists } => {
                Self::Features { terms: counter.vocabulary.into_terms(), lists }
            }
            Self::Both(mut list) => {
                list.hashes.shrink_to_fit();
                list.bits.shrink_to_fit();
                list.keys.shrink_to_fit();
                list.extra.shrink_to_fit();
                list.ends.iter_mut().for_each(Vec::shrink_to_fit);
                Self::Both(list)
            }
            others => others,
        }
    }

    /// The features of the part's documents; none where sketches are kept.
    fn features(&self) -> Option<(&Terms, &TermLists)> {
        match self {
            Self::Counting { counter, lists } => Some((counter.vocabulary.terms(), lists)),
            Self::Features { terms, lists } => Some((terms, lists)),
            _ => None,
        }
    }

    /// Adds a sketch. False if it is of another kind or length, and so was not added.
    fn push(&mut self, value: &SketchValue) -> bool {
        match (self, value) {
            (Self::SimHashes(hashes), SketchValue::SimHash(hashed)) => {
                hashes.push(*hashed);
                true
            }
            (Self::Both(list), SketchValue::Both(two)) => list.push(two),
            _ => false,
        }
    }
}

/// The distinct texts of a collection, numbered in the order of their first documents.
#[derive(Clone, Debug)]
pub struct Texts {
    /// The copies of each text, led by the one that is compared.
    copies: LedLists<Text, Document>,
    /// The text of each document.
    of: Vec<Text>,
    /// Texts with enough features to be sketched and compared, ascending.
    pub sketched: Vec<Text>,
    /// Texts with too few features, ascending, which only exact duplicates share a cluster with.
    pub unsketched: Vec<Text>,
}

impl Texts {
    /// Groups the documents of a collection by text. A text is sketched if it has at least `min_features` distinct
    /// features, and one.
    pub fn new(collection: &Collection, min_features: usize) -> Self {
        let digest = |document: Document| collection.facts(document).digest;
        /// The text of a document before it has a number.
        const UNNUMBERED: Text = Text(u32::MAX);
        // Half of a digest tells nearly all texts apart.
        let mut order: Vec<(u64, Document)> =
            Document::all(collection.len()).map(|document| (digest(document) as u64, document)).collect();
        order.par_sort_unstable();
        for alike in order.chunk_by_mut(|a, b| a.0 == b.0).filter(|alike| alike.len() > 1) {
            alike.sort_by_key(|&(_, document)| digest(document));
        }
        let are_copies = |a: &(u64, Document), b: &(u64, Document)| a.0 == b.0 && digest(a.1) == digest(b.1);
        let mut several: Vec<&[(u64, Document)]> =
            order.chunk_by(are_copies).filter(|copies| copies.len() > 1).collect();
        several.sort_unstable_by_key(|copies| copies[0].1);
        let mut several = several.into_iter().peekable();
        let (copies, of) = (LedLists::default(), vec![UNNUMBERED; order.len()]);
        let mut texts = Self { copies, of, sketched: Vec::new(), unsketched: Vec::new() };
        let mut copies = Vec::new();
        for document in Document::all(order.len()) {
            if texts.of[document.index()] != UNNUMBERED {
                continue;
            }
            copies.clear();
            match several.next_if(|copies| copies[0].1 == document) {
                Some(several) => copies.extend(several.iter().map(|&(_, document)| document)),
                None => copies.push(document),
            }
            // Copies have the same features, unless only parts of them are looked at.
            let features = |document: Document| collection.facts(document).features;
            let fuller = |a, b| if features(b) > features(a) { b } else { a };
            let compared = copies.iter().copied().fold(document, fuller);
            let text = texts.copies.push(compared, &copies);
            copies.iter().for_each(|copy| texts.of[copy.index()] = text);
            let enough = features(compared) as usize >= min_features.max(1);
            if enough { &mut texts.sketched } else { &mut texts.unsketched }.push(text);
        }
        texts
    }

    /// The documents that have the text, ascending.
    pub fn copies(&self, text: Text) -> &[Document] {
        self.copies.get(text)
    }

    /// The document that is compared for the text: of those that have it, the first with the most features. All have
    /// the same, unless only parts of them are compared.
    pub fn first(&self, text: Text) -> Document {
        self.copies.leader(text)
    }

    /// The text of a document.
    pub fn text_of(&self, document: Document) -> Text {
        self.of[document.index()]
    }

    /// The numbers of all texts, ascending.
    pub fn all(&self) -> impl ExactSizeIterator<Item = Text> + use<> {
        Text::all(self.len())
    }

    /// Number of distinct texts.
    pub fn len(&self) -> usize {
        self.copies.len()
    }

    /// True if there is no text.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }
}
