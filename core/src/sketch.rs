//! The sketch of a document, and the one place where it is made. A [`Sketch`] has facts about the text, and one of two
//! values: a SimHash with its weights, or two sketches made together. The two are a hash of 64 bits, and bits that
//! estimate the Jaccard similarity. Band hashes come with them.
//!
//! ```
//! use simflip_core::sketch::{Frequencies, Sketch};
//! use simflip_core::{Deduper, Settings, Sketcher, settings::FeatureKind};
//! use std::sync::Arc;
//!
//! // The document frequencies of a corpus of two documents, in which no feature of the text occurs.
//! let frequencies = Arc::new(Frequencies::from_entries(FeatureKind::Words, 2, []));
//! for settings in [Settings::default(), Settings::simhash()] {
//!     let mut sketcher = Sketcher::new(&settings, Some(Arc::clone(&frequencies)))?;
//!     let sketch: Sketch = sketcher.sketch("ships of the harbour carry grain and wine");
//!     // A sketch is sent to where documents are compared; its text is not needed there.
//!     let mut deduper = Deduper::new(settings)?;
//!     deduper.push_sketch(&sketch)?;
//!     assert_eq!(deduper.run()?.kept().count(), 1);
//! }
//! # Ok::<(), simflip_core::Error>(())
//! ```

use crate::edits;
use crate::error::{Error, Result};
use crate::hash::{fmix64, text_digest};
use crate::jaccard::{self, BitSketcher};
use crate::lists::sorted_hashes;
use crate::minhash::{Family, MinHashParams, MinHasher, one_bit};
use crate::search::bands::Banding;
use crate::settings::{Forms, Settings, Sketches};
use crate::simhash::SimHash;
use crate::simhash::hasher::SimHasher;
use crate::simhash::quantised::QuantisedWeights;
// An extraction has the kind of the features, with the length of runs, and their hash. It has no other options.
#[doc(hidden)]
pub use crate::text::Extraction;
#[doc(inline)]
pub use crate::text::FeatureExtractor;
#[doc(inline)]
pub use crate::weight::frequencies::Frequencies;
use crate::weight::set::FeatureSet;
use crate::weight::vocabulary::Vocabulary;
use crate::weight::{FIXED_POINT_BITS, Weigher, Weighting};
use std::sync::Arc;

/// The sketch of a document: facts, 28 bytes that every document has, and the bits or hashes by which it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// The facts of the text.
    #[doc(hidden)]
    pub facts: Facts,
    /// The sketch itself.
    #[doc(hidden)]
    pub value: SketchValue,
}

impl Sketch {
    /// True if the sketch has this extra list, by its length. A sketch that was made by other settings may lack it.
    pub(crate) fn has(&self, extra: Extra) -> bool {
        match (extra, &self.value) {
            (Extra::Nothing, _) => true,
            (Extra::FeatureHashes, SketchValue::Both(two)) => two.extra.len() == self.facts.features as usize,
            // The number of words comes first, also of a text without any.
            (Extra::Words, SketchValue::Both(two)) => !two.extra.is_empty(),
            _ => false,
        }
    }
}

/// The facts about a document's text that are kept besides any sketch.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The [`text_digest`] of the text: documents with the same digest are exact duplicates.
    pub digest: u128,
    /// Length of the text in bytes.
    pub text_bytes: u64,
    /// Number of its distinct features.
    pub features: u32,
}

/// The part of a sketch by which documents are compared, of one of two kinds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[doc(hidden)]
pub enum SketchValue {
    /// A hash of 64 bits, and the weights behind them in 64 bytes: the sums whose signs are the bits.
    SimHash(Hashed),
    /// Bits, band hashes and a SimHash.
    Both(TwoSketches),
}

impl SketchValue {
    /// Describes the kind and the length, for errors about a sketch that does not fit.
    pub fn kind(&self) -> String {
        match self {
            Self::SimHash(_) => "SimHash".to_owned(),
            Self::Both(two) => {
                format!("both, of {} bits and {} keys", two.bits.len() * u64::BITS as usize, two.keys.len())
            }
        }
    }
}

/// A SimHash, bits that estimate the Jaccard similarity, and keys: the sketch of [`Sketches::Both`],
/// [`Sketches::OneBit`] and [`Sketches::MinHash`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct TwoSketches {
    /// The SimHash, for which all features weigh the same. With MinHash it is one bit of each of the first 64
    /// positions, so that two documents have a Hamming distance as well.
    pub hash: u64,
    /// The bits, 64 to a word. With [`Sketches::Both`] their form depends on [`Facts::features`]: a few features are
    /// kept as hashes. With [`Sketches::MinHash`] they are the values, two to a word. So bits of two documents are
    /// compared by [`jaccard::estimate`](crate::jaccard::estimate), not by counting those that differ.
    pub bits: Vec<u64>,
    /// The band hash of each band, its key. Documents that share a key are candidates.
    pub keys: Vec<u32>,
    /// The extra list that verification looks at; empty if it needs none. Containment needs [32 bits of the hash of
    /// each feature](crate::lists::feature_hash), ascending. Edits need the number of words, a 32-bit hash of each,
    /// ascending, and the words in order, as text of four bytes to an item (`edits::packed`).
    pub extra: Vec<u32>,
}

impl TwoSketches {
    /// The sketch of a MinHash signature, without an extra list.
    pub fn of_signature(signature: &[u32], banding: Banding) -> Self {
        let [hash] = one_bit::pack_first(signature.iter().copied());
        let bits = signature
            .chunks(2)
            .map(|pair| pair.iter().rev().fold(0, |word, &value| word << 32 | u64::from(value)));
        let keys = banding.keys(signature).collect();
        Self { hash, bits: bits.collect(), keys, extra: Vec::new() }
    }

    /// The MinHash signature of which [`of_signature`](Self::of_signature) made the sketch.
    pub fn signature(&self) -> impl Iterator<Item = u32> {
        jaccard::values(&self.bits)
    }
}

/// The kind of the [extra list](TwoSketches::extra) beside both sketches, which verification looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Extra {
    /// No list.
    Nothing,
    /// 32 bits of the hash of each feature, for containment.
    FeatureHashes,
    /// The words of the text, for edits.
    Words,
}

impl Extra {
    /// The list that verification by these settings looks at.
    pub(crate) fn of(settings: &Settings) -> Self {
        if settings.keeps_feature_hashes() {
            Self::FeatureHashes
        } else if settings.keeps_words() {
            Self::Words
        } else {
            Self::Nothing
        }
    }
}

/// A SimHash as it is kept: 64 bits, and a byte for the weight behind each.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct Hashed {
    /// The 64 bits.
    pub hash: u64,
    /// The weights behind them, rounded to a byte each. A weight is the sum of the weights of features whose hash has
    /// the bit, less the sum of the others, over the L2 norm of all. A bit of a weight near 0 is uncertain.
    pub weights: QuantisedWeights,
}

impl From<&SimHash> for Hashed {
    fn from(simhash: &SimHash) -> Self {
        Self { hash: simhash.hash, weights: QuantisedWeights::new(&simhash.weights) }
    }
}

/// The weight of each feature where all weigh the same, in fixed point.
const ONE: i64 = 1 << FIXED_POINT_BITS;

/// Makes sketches of texts. It holds buffers: make one for each thread.
///
/// ```
/// use simflip_core::settings::Settings;
/// use simflip_core::sketch::Sketcher;
///
/// let mut sketcher = Sketcher::new(&Settings::simhash(), None)?;
/// let texts = ["one document about near-duplicates", "One document, about near-duplicates!"];
/// let [a, b] = texts.map(|text| (sketcher.sketch(text), sketcher.simhash(text).0));
/// assert_eq!(a.1.hash, b.1.hash);
/// assert_ne!(a.0.facts.digest, b.0.facts.digest);
/// # Ok::<(), simflip_core::Error>(())
/// ```
pub struct Sketcher {
    counts: Counts,
    maker: Maker,
    frequencies: Option<Arc<Frequencies>>,
}

/// The counter of a document's features.
enum Counts {
    /// The set of distinct features.
    Set { extractor: Box<FeatureExtractor>, set: FeatureSet },
    /// The distinct features with their numbers of occurrences.
    Occurrences(Box<Counter>),
}

impl Counts {
    fn set(extraction: Extraction) -> Self {
        Self::Set { extractor: Box::new(FeatureExtractor::new(extraction)), set: FeatureSet::default() }
    }

    /// Gives `take` the features of a text, each once, and their numbers of occurrences, if these are counted.
    fn take<R>(&mut self, text: &str, take: impl FnOnce(&[u64], Option<&[u16]>) -> R) -> R {
        match self {
            Self::Set { extractor, set } => {
                set.begin(text.len());
                extractor.lists(text, |features| set.add_all(features));
                take(set.features(), None)
            }
            Self::Occurrences(counter) => {
                counter.count(text);
                counter
                    .vocabulary
                    .finish_and_forget(|features, occurrences| take(features, Some(occurrences)))
            }
        }
    }
}

enum Maker {
    SimHash { weigher: Weigher, hasher: SimHasher },
    Both(Box<TwoSketcher>),
}

impl Sketcher {
    /// A sketcher for these settings. Where weights depend on document frequencies and none are given, every feature
    /// counts as equally rare.
    ///
    /// # Errors
    /// [`Error::Parameter`] for sketches that cannot be made, such as ones without bits.
    pub fn new(settings: &Settings, frequencies: Option<Arc<Frequencies>>) -> Result<Self> {
        Self::of(settings.extraction(), settings.sketches, settings.seed, Extra::of(settings), frequencies)
    }

    /// A sketcher from its parameters: the extraction of features, the kind of sketch, the seed of MinHash's functions,
    /// and the [extra list](TwoSketches::extra).
    pub(crate) fn of(
        features: impl Into<Extraction>,
        sketches: Sketches,
        seed: u64,
        extra: Extra,
        frequencies: Option<Arc<Frequencies>>,
    ) -> Result<Self> {
        let maker = match sketches {
            Sketches::SimHash { weighting } => return Ok(Self::of_simhash(features, weighting, frequencies)),
            Sketches::Both { .. } | Sketches::OneBit { .. } | Sketches::MinHash { .. } => {
                Maker::Both(Box::new(TwoSketcher::of(sketches, seed, extra)?))
            }
        };
        Ok(Self { counts: Counts::set(features.into()), maker, frequencies })
    }

    /// A sketcher of SimHashes, with the weighting of features that the hashes are made by.
    #[doc(hidden)]
    pub fn of_simhash(
        features: impl Into<Extraction>,
        weighting: Weighting,
        frequencies: Option<Arc<Frequencies>>,
    ) -> Self {
        let maker = Maker::SimHash { weigher: Weigher::new(weighting), hasher: SimHasher::default() };
        let counts = match weighting {
            Weighting::Binary => Counts::set(features.into()),
            Weighting::Tf | Weighting::TfIdf => Counts::Occurrences(Box::new(Counter::new(features.into()))),
        };
        Self { counts, maker, frequencies }
    }

    /// Sketches a text, however few features it has. [`Settings::min_features`] is left to what compares sketches.
    pub fn sketch(&mut self, text: &str) -> Sketch {
        self.sketch_part(text, text)
    }

    /// Sketches a text by the features of `part` alone: what is left of it without its boilerplate, say. Its digest
    /// and length are the whole text's.
    #[doc(hidden)]
    pub fn sketch_part(&mut self, text: &str, part: &str) -> Sketch {
        let Self { counts, maker, frequencies } = self;
        let (features, mut value) = counts.take(part, |features, occurrences| {
            let value = match maker {
                Maker::SimHash { weigher, hasher } => {
                    let simhash =
                        weigh_and_hash(features, occurrences, weigher, hasher, frequencies.as_deref());
                    SketchValue::SimHash(Hashed::from(&simhash))
                }
                Maker::Both(maker) => SketchValue::Both(maker.sketch(features)),
            };
            (features.len(), value)
        });
        if let (Maker::Both(maker), SketchValue::Both(two), Counts::Set { extractor, .. }) =
            (&*maker, &mut value, counts)
            && maker.extra == Extra::Words
        {
            two.extra = edits::packed(&mut extractor.tokenizer, part);
        }
        Sketch { facts: Facts::new(text, features), value }
    }

    /// The SimHash of a text with its weights unrounded, and the number of distinct features. Settings without a
    /// weighting for SimHash weigh all features the same.
    pub fn simhash(&mut self, text: &str) -> (SimHash, usize) {
        let Self { counts, maker, frequencies } = self;
        counts.take(text, |features, occurrences| {
            let simhash = match maker {
                Maker::SimHash { weigher, hasher } => {
                    weigh_and_hash(features, occurrences, weigher, hasher, frequencies.as_deref())
                }
                Maker::Both(_) => SimHasher::of_set(features, ONE),
            };
            (simhash, features.len())
        })
    }
}

/// Makes the [`TwoSketches`] of sets of features. It holds buffers: make one for each thread.
#[doc(hidden)]
pub struct TwoSketcher {
    forms: Forms,
    minima: MinHasher,
    banding: Banding,
    signature: Vec<u32>,
    /// None where the signature that keys are made of is the bits, too.
    bits: Option<BitSketcher>,
    extra: Extra,
}

impl TwoSketcher {
    /// Makes a sketcher for these settings, without extra lists.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the settings want another kind of sketch, or one that cannot be made.
    pub fn new(settings: &Settings) -> Result<Self> {
        Self::of(settings.sketches, settings.seed, Extra::Nothing)
    }

    fn of(sketches: Sketches, seed: u64, extra: Extra) -> Result<Self> {
        sketches.check()?;
        let (Some((bits, banding)), Some(params)) = (sketches.keyed(), sketches.minhash_params(seed)) else {
            return Err(Error::parameter("sketches", format!("{sketches:?}"), "sketches with keys"));
        };
        let forms = sketches.forms();
        let bits = match forms {
            Forms::Values => None,
            Forms::BySize | Forms::Minima => {
                // Bits get another seed than keys, which find candidates, so that the errors of both are independent.
                let seed = fmix64(!seed);
                let judging = MinHashParams { permutations: bits, family: Family::FastSimilarity, seed };
                Some(BitSketcher::new(forms, MinHasher::new(judging)?, fmix64(seed)))
            }
        };
        let (minima, signature) = (MinHasher::new(params)?, vec![0; params.permutations]);
        Ok(Self { forms, minima, banding, signature, bits, extra })
    }

    /// The sketches of a set of features, each of which is given once.
    pub fn sketch(&mut self, features: &[u64]) -> TwoSketches {
        let Self { forms, minima, banding, signature, bits, extra } = self;
        minima.sign(features, signature);
        let extra = match extra {
            Extra::FeatureHashes => sorted_hashes(features),
            _ => Vec::new(),
        };
        let Some(bits) = bits.as_mut().map(|bits| bits.sketch(features)) else {
            return TwoSketches { extra, ..TwoSketches::of_signature(signature, *banding) };
        };
        let hash = match forms {
            Forms::BySize => SimHasher::hash_of_set(features),
            _ => bits[0],
        };
        TwoSketches { hash, bits, keys: banding.keys(signature).collect(), extra }
    }
}

impl Facts {
    /// The facts of a text with this number of distinct features.
    pub fn new(text: &str, features: usize) -> Self {
        let features = u32::try_from(features).unwrap_or(u32::MAX);
        Self { digest: text_digest(text), text_bytes: text.len() as u64, features }
    }
}

fn weigh_and_hash(
    features: &[u64],
    occurrences: Option<&[u16]>,
    weigher: &Weigher,
    hasher: &mut SimHasher,
    frequencies: Option<&Frequencies>,
) -> SimHash {
    let Some(occurrences) = occurrences else { return SimHasher::of_set(features, ONE) };
    let flat = weigher.idf(0, 1);
    let documents = frequencies.map_or(1, |frequencies| frequencies.documents().max(1));
    hasher.hash(features.iter().zip(occurrences).map(|(&feature, &n)| {
        // Of 0 documents, every feature would have the IDF 0. So the document at hand counts as one at least.
        let idf = frequencies.map_or(flat, |known| weigher.idf(known.get(feature), documents));
        (feature, weigher.weight(u32::from(n), idf))
    }))
}

/// Counts the features of texts, one document after the other: for SimHashes, and for collections that keep features.
pub(crate) struct Counter {
    extractor: FeatureExtractor,
    /// The vocabulary in which features are counted.
    pub(crate) vocabulary: Vocabulary,
}

impl Counter {
    /// A counter of features of the kind of `extraction`, with its hash for each feature.
    pub(crate) fn new(extraction: Extraction) -> Self {
        Self { extractor: FeatureExtractor::new(extraction), vocabulary: Vocabulary::default() }
    }

    /// Adds a text's features to the current document of the vocabulary. The caller ends that document by
    /// [`Vocabulary::finish`], or by [`Vocabulary::finish_and_forget`] if no document frequencies are wanted. Until
    /// then a further text adds to it.
    pub(crate) fn count(&mut self, text: &str) {
        let Self { extractor, vocabulary } = self;
        extractor.lists(text, |features| vocabulary.add_all(features));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::settings::{Settings, Sketches};
    use crate::text::FeatureKind;

    /// The definition: features counted one by one, weighed, and summed.
    fn naive(text: &str, kind: FeatureKind, weighting: Weighting, frequencies: &Frequencies) -> SimHash {
        let weigher = Weigher::new(weighting);
        let counts = FeatureExtractor::new(kind).counts(text);
        let documents = frequencies.documents().max(1);
        let weight =
            |&(feature, n)| (feature, weigher.weight(n, weigher.idf(frequencies.get(feature), documents)));
        SimHasher::default().hash(counts.iter().map(weight))
    }

    #[test]
    fn sketches_are_those_of_the_definition() {
        let mut rng = SplitMix64::new(3);
        for words in [0u64, 1, 2, 3, 9, 300, 8_000, 2] {
            let text: Vec<String> = (0..words).map(|_| format!("w{}", rng.below(words / 2 + 1))).collect();
            let text = text.join(" ");
            for (kind, weighting) in [
                (FeatureKind::Words, Weighting::Tf),
                (FeatureKind::Words, Weighting::TfIdf),
                (FeatureKind::Shingles(3), Weighting::Binary),
            ] {
                let sketches = Sketches::SimHash { weighting };
                let known = Frequencies::from_entries(kind, 7, [(crate::hash::feature(b"w1"), 5)]);
                for frequencies in [Frequencies::new(kind), known] {
                    let expected = naive(&text, kind, weighting, &frequencies);
                    let mut sketcher =
                        Sketcher::of(kind, sketches, 0, Extra::Nothing, Some(Arc::new(frequencies))).unwrap();
                    let sketch = sketcher.sketch(&text);
                    assert_eq!(sketch.value, SketchValue::SimHash(Hashed::from(&expected)));
                    assert_eq!(sketch.facts.text_bytes, text.len() as u64);
                    let (simhash, features) = sketcher.simhash(&text);
                    assert_eq!(
                        (simhash, features),
                        (expected, FeatureExtractor::new(kind).counts(&text).len())
                    );
                    assert_eq!(features, sketch.facts.features as usize);
                }
            }
        }
    }

    #[test]
    fn signatures_are_those_of_the_set_of_features() {
        let settings = Settings::minhash(0.8);
        let text = "a rose is a rose is a rose and nothing else than a rose";
        let features: Vec<u64> = FeatureExtractor::new(settings.extraction())
            .counts(text)
            .into_iter()
            .map(|(feature, _)| feature)
            .collect();
        let hasher = MinHasher::new(settings.minhash_params().unwrap()).unwrap();
        let mut expected = vec![0; 128];
        hasher.sign(&features, &mut expected);
        let sketch = Sketcher::new(&settings, None).unwrap().sketch(text);
        let SketchValue::Both(two) = sketch.value else { panic!("values and keys") };
        assert_eq!(two.signature().collect::<Vec<_>>(), expected);
        let Some((_, banding)) = settings.sketches.keyed() else { panic!("keys") };
        assert_eq!(two.keys, banding.keys(&expected).collect::<Vec<_>>());
        assert_eq!(two, TwoSketches::of_signature(&expected, banding));
        // A bit of each of the first positions.
        let mut packed = [0; 2];
        one_bit::pack(&expected, &mut packed);
        assert_eq!(two.hash, packed[0]);
        let few = TwoSketches::of_signature(&[7, 9], Banding { bands: 1, rows: 2 });
        assert_eq!((few.bits, few.keys.len()), (vec![9 << 32 | 7], 1));
    }
}
