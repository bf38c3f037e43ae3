//! Verification of candidate pairs of sketches: it compares pairs of their texts, and keeps those that are near.
//!
//! The decision about a pair depends on its two texts alone. The choice of pairs depends on the candidates and on the
//! texts, never on the order of documents, on shards or on threads. Where there are too many pairs, digests of the
//! texts decide.

use crate::collection::{Collection, Texts, Two};
use crate::id::{Document, Id, Lists, Slot, Text};
use crate::jaccard::SetBits;
use crate::search::selfjoin::{SimilarPair, SlotPair};
use crate::settings::{Forms, Measure, Verification};
use crate::similarity::{Anchor, ComparedDocument};
use crate::sketch::{Facts, Hashed, TwoSketches};
use crate::weight::frequencies::Frequencies;
use crate::weight::{Weigher, Weighting};
use rayon::prelude::*;

/// The sketches and features by which the texts of a run can be compared.
pub struct Evidence<'a> {
    /// The documents of the run.
    pub(crate) collection: &'a Collection,
    /// The distinct texts of these documents.
    pub(crate) texts: &'a Texts,
    /// The sketches of each text, where they were made of kept features; otherwise empty.
    hashed: &'a [Option<Hashed>],
    two: &'a [Option<TwoSketches>],
    /// The forms of the bits in these sketches.
    forms: Forms,
    /// The weights of features, where something weighs them: the weigher, and by part and term the inverse document
    /// frequencies.
    weights: Option<(Weigher, Vec<Vec<f32>>)>,
}

impl<'a> Evidence<'a> {
    /// The evidence of what `collection` keeps. `hashed` and `two` are the sketches of each text that were made of kept
    /// features, or empty.
    pub(crate) fn new(
        collection: &'a Collection,
        texts: &'a Texts,
        hashed: &'a [Option<Hashed>],
        two: &'a [Option<TwoSketches>],
        forms: Forms,
    ) -> Self {
        Self { collection, texts, hashed, two, forms, weights: None }
    }

    /// Adds the weights of features, for [`Measure::Cosine`]. Without frequencies every feature counts as equally rare.
    pub(crate) fn weighed(mut self, weighting: Weighting, frequencies: Option<&Frequencies>) -> Self {
        self.weights = Some((Weigher::new(weighting), idf_by_part(self.collection, weighting, frequencies)));
        self
    }

    /// The SimHash of a text with its weights; none if it has none.
    pub fn hashed(&self, text: Text) -> Option<&Hashed> {
        match self.hashed.get(text.index()) {
            Some(hashed) => hashed.as_ref(),
            None => self.collection.hashed(self.texts.first(text)),
        }
    }

    /// The 64 bits of a text's SimHash, with or without weights behind it, or its [`TwoSketches::hash`]; none if it has
    /// neither.
    pub fn hash(&self, text: Text) -> Option<u64> {
        match self.hashed(text) {
            Some(hashed) => Some(hashed.hash),
            None => self.two(text).map(|two| two.hash),
        }
    }

    /// The bits and keys of a text; none if it has none.
    pub(crate) fn two(&self, text: Text) -> Option<Two<'a>> {
        match self.two.get(text.index()) {
            Some(made) => made.as_ref().map(Two::from),
            None => self.collection.two(self.texts.first(text)),
        }
    }

    /// The bits of a text that estimate the Jaccard similarity; none if it has none.
    pub(crate) fn bits(&self, text: Text) -> Option<SetBits<'a>> {
        let words = self.two(text)?.bits;
        Some(SetBits { words, size: self.facts(text).features, forms: self.forms })
    }

    /// The Hamming distance of the hashes of two texts with bits and keys; none for other texts.
    fn distance(&self, a: Text, b: Text) -> Option<u32> {
        let (a, b) = (self.two(a)?, self.two(b)?);
        Some((a.hash ^ b.hash).count_ones())
    }

    /// The facts of a text.
    pub(crate) fn facts(&self, text: Text) -> Facts {
        self.collection.facts(self.texts.first(text))
    }

    /// A text as a measure sees it.
    pub(crate) fn compared(&self, text: Text) -> ComparedText<'_> {
        ComparedText { evidence: self, text, document: self.texts.first(text) }
    }

    /// A text that is prepared for comparisons with many by a measure.
    pub(crate) fn anchor(&self, measure: Measure, text: Text) -> Anchor<ComparedText<'_>> {
        Anchor::new(measure, self.compared(text))
    }
}

/// The inverse document frequency of each term of each part of a collection, by part and term. A term is the number of
/// a feature in a part, which has counted its features by itself. A part that keeps none has an empty list.
pub(crate) fn idf_by_part(
    collection: &Collection,
    weighting: Weighting,
    frequencies: Option<&Frequencies>,
) -> Vec<Vec<f32>> {
    let weigher = Weigher::new(weighting);
    let none = Frequencies::new(collection.extraction());
    let known = frequencies.unwrap_or(&none);
    let mut idf = Vec::new();
    for (part, terms) in collection.terms() {
        let of = |&feature: &u64| weigher.idf(known.get(feature), known.documents());
        idf.resize_with(part, Vec::new);
        idf.push(terms.features.par_iter().map(of).collect());
    }
    idf
}

/// A text, as a measure sees it.
#[derive(Clone, Copy)]
pub(crate) struct ComparedText<'a> {
    evidence: &'a Evidence<'a>,
    text: Text,
    document: Document,
}

impl ComparedDocument for ComparedText<'_> {
    fn digest(&self) -> u128 {
        self.evidence.collection.facts(self.document).digest
    }

    fn hashed(&self) -> Option<&Hashed> {
        self.evidence.hashed(self.text)
    }

    fn bits(&self) -> Option<SetBits<'_>> {
        self.evidence.bits(self.text)
    }

    fn size(&self) -> u32 {
        self.evidence.collection.facts(self.document).features
    }

    fn extra(&self) -> Option<&[u32]> {
        self.evidence.two(self.text).map(|two| two.extra).filter(|extra| !extra.is_empty())
    }

    fn features(&self, mut each: impl FnMut(u64, i64)) {
        let Some(counted) = self.evidence.collection.counted(self.document) else { return };
        match &self.evidence.weights {
            None => counted.counts().for_each(|(feature, n)| each(feature, i64::from(n))),
            Some((weigher, idf)) => {
                counted.weighed(weigher, idf).for_each(|(feature, weight)| each(feature, weight));
            }
        }
    }
}

/// Two near texts, with their similarity by verification's measure.
pub(crate) type TextPair = SimilarPair<Text>;

/// The outcome of verification.
#[derive(Clone, Debug, Default)]
pub(crate) struct VerifiedPairs {
    /// The near pairs, each once, ascending.
    pub pairs: Vec<TextPair>,
    /// Number of comparisons.
    pub compared: u64,
    /// Number of compared pairs below the threshold.
    pub refused: u64,
    /// Number of pairs that were not compared, because too many texts share a sketch.
    pub skipped: u64,
}

/// The number of texts of one sketch that all others of that sketch are compared with. Texts of one sketch are nearly
/// always alike, so that the first ones represent all.
pub(crate) const FIRST_REPRESENTATIVES: usize = 32;

/// The number of texts of that sketch before it, in the order of digests, that each text is compared with besides.
/// With the first texts alone, few would be near a kept one.
pub(crate) const WINDOW: usize = 16;

/// The most pairs of texts that are compared for a pair of sketches.
pub(crate) const PAIRS_OF_TWO: usize = 16;

/// Sketches whose texts are compared before near pairs are put together.
const AT_ONCE: usize = 1 << 10;

/// Compares the texts of each sketch with each other, and those of the two sketches of each candidate pair, and keeps
/// the near pairs. None if the settings have no verification. `groups` has the texts of each sketch, and `joined` the
/// candidate pairs.
///
/// Of a sketch with many texts, those with the least digests represent the others. All are compared with the
/// first [`FIRST_REPRESENTATIVES`] of them and the last [`WINDOW`] before them, and at most [`PAIRS_OF_TWO`] pairs are
/// compared for two sketches.
pub(crate) fn verification(
    verification: Verification,
    evidence: &Evidence<'_>,
    groups: &Lists<Slot, Text>,
    joined: &[SlotPair],
) -> Option<VerifiedPairs> {
    let (measure, threshold) = (verification.measure()?, verification.threshold()? as f32);
    let digest = |text: &Text| evidence.collection.facts(evidence.texts.first(*text)).digest;
    let ordered: Vec<Vec<Text>> = (0..groups.len())
        .into_par_iter()
        .map(|slot| {
            let mut texts = groups.get(Slot::at(slot)).to_vec();
            texts.sort_unstable_by_key(digest);
            texts
        })
        .collect();
    let of = |slot: Slot| &ordered[slot.index()][..];
    let within = |texts: &[Text]| {
        let mut part = VerifiedPairs::default();
        for (at, &first) in texts.iter().enumerate() {
            let anchor = evidence.anchor(measure, first);
            for &second in behind(texts, at) {
                let distance = evidence.distance(first, second).unwrap_or(0);
                part.compare(first, second, distance, anchor.with(&evidence.compared(second)), threshold);
            }
        }
        let all = texts.len() as u64;
        part.skipped = all * (all - 1) / 2 - part.compared;
        part
    };
    let between = |pairs: &[SlotPair]| {
        let mut part = VerifiedPairs::default();
        let firsts = of(pairs[0].a);
        for (at, &first) in firsts.iter().enumerate().take(PAIRS_OF_TWO) {
            let anchor = evidence.anchor(measure, first);
            for pair in pairs {
                let seconds = of(pair.b);
                let [most_first, most_second] = shares(firsts.len(), seconds.len());
                if at < most_first {
                    for &second in &seconds[..most_second] {
                        let distance = evidence.distance(first, second).unwrap_or(pair.distance);
                        let similarity = anchor.with(&evidence.compared(second));
                        part.compare(first, second, distance, similarity, threshold);
                    }
                }
            }
        }
        let all: u64 = pairs.iter().map(|pair| (firsts.len() * of(pair.b).len()) as u64).sum();
        part.skipped = all - part.compared;
        part
    };
    // Of room that is not used nothing is taken, and a list that grows is copied.
    let mut all = VerifiedPairs { pairs: Vec::with_capacity(joined.len()), ..VerifiedPairs::default() };
    let several: Vec<&[Text]> = ordered.iter().map(Vec::as_slice).filter(|texts| texts.len() > 1).collect();
    // Pairs ascend by their lesser slot, so that one slot's pairs lie together and share its anchors.
    let by_slot: Vec<&[SlotPair]> = joined.chunk_by(|p, q| p.a == q.a).collect();
    let mut add = |parts: Vec<VerifiedPairs>| {
        for part in parts {
            all.pairs.extend(part.pairs);
            all.compared += part.compared;
            all.refused += part.refused;
            all.skipped += part.skipped;
        }
    };
    // By and by, so that the lists of parts are no second copy of all pairs.
    several.chunks(AT_ONCE).for_each(|texts| add(texts.par_iter().map(|texts| within(texts)).collect()));
    by_slot.chunks(AT_ONCE).for_each(|pairs| add(pairs.par_iter().map(|pairs| between(pairs)).collect()));
    all.pairs.par_sort_unstable_by_key(|pair| (pair.a, pair.b));
    Some(all)
}

/// Of the texts of a sketch, in the order of digests, those behind the one at place `at` that are compared with it.
pub(crate) fn behind<T>(texts: &[T], at: usize) -> &[T] {
    let rest = &texts[at + 1..];
    if at < FIRST_REPRESENTATIVES { rest } else { &rest[..rest.len().min(WINDOW)] }
}

/// The numbers of texts of two sketches, which have `first` and `second` texts, that are compared with each other: at
/// most [`PAIRS_OF_TWO`] pairs.
pub(crate) fn shares(first: usize, second: usize) -> [usize; 2] {
    const SIDE: usize = PAIRS_OF_TWO.isqrt();
    match (first.min(SIDE), second.min(SIDE)) {
        (few, _) if few < SIDE => [few, second.min(PAIRS_OF_TWO / few.max(1))],
        (_, few) => [first.min(PAIRS_OF_TWO / few.max(1)), few],
    }
}

impl VerifiedPairs {
    fn compare(&mut self, a: Text, b: Text, distance: u32, similarity: f32, threshold: f32) {
        self.compared += 1;
        if similarity >= threshold {
            self.pairs.push(TextPair::new(a, b, distance, similarity));
        } else {
            self.refused += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_so_many_pairs_of_two_sketches_are_compared() {
        for first in 1..40 {
            for second in 1..40 {
                let [a, b] = shares(first, second);
                assert!(
                    a <= first && b <= second && a * b <= PAIRS_OF_TWO && a >= 1 && b >= 1,
                    "{first} {second}"
                );
                assert_eq!(shares(second, first), [b, a], "{first} {second}");
                if first * second <= PAIRS_OF_TWO {
                    assert_eq!([a, b], [first, second]);
                }
            }
        }
    }
}
