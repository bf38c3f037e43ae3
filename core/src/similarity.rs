//! The similarity of two documents, by any measure, in one place.
//!
//! A measure looks at what a [`ComparedDocument`] can show: weighted features, a SimHash with its weights, bits, or an
//! extra list of feature hashes or words. Every measure is symmetric to the last bit, so
//! that it depends on the two documents and on nothing else. It is 1 for equal texts, and at most 1 for others.

use crate::edits::{self, Pattern, Words};
use crate::jaccard::{self, SetBits};
use crate::lists;
use crate::settings::Measure;
use crate::sketch::Hashed;
use hashbrown::HashMap;

/// The parts of a document that a measure can look at.
pub trait ComparedDocument {
    /// [`text_digest`](crate::hash::text_digest) of the text.
    fn digest(&self) -> u128;

    /// The SimHash with its weights; none for a document with too few features, or where no weights are kept.
    fn hashed(&self) -> Option<&Hashed> {
        None
    }

    /// The bits that estimate the Jaccard similarity ([`jaccard`]); none for a document with too few features, or where
    /// documents have no bits.
    fn bits(&self) -> Option<SetBits<'_>> {
        None
    }

    /// Number of distinct features.
    fn size(&self) -> u32;

    /// Calls the function with each distinct feature once and its weight; never where features are not kept. The weight
    /// matters to [`Measure::Cosine`] alone.
    fn features(&self, _: impl FnMut(u64, i64)) {}

    /// The [extra list](crate::sketch::TwoSketches::extra) beside two sketches, if one is kept.
    fn extra(&self) -> Option<&[u32]> {
        None
    }
}

/// A document that many others are compared with by one measure; what the measure needs of it is prepared once.
pub struct Anchor<P> {
    measure: Measure,
    document: P,
    /// The document's features with their weights, where the measure looks at them.
    features: HashMap<u64, i64>,
    /// The sum of the squares of the weights.
    square: i128,
    /// The document's words, where edits are counted.
    pattern: Pattern,
    /// The least similarity that matters: one below it may be given as 0.
    least: f64,
}

impl<P: ComparedDocument> Anchor<P> {
    /// Prepares a document for comparisons by a measure.
    pub fn new(measure: Measure, document: P) -> Self {
        let pattern = match measure {
            Measure::Edits => Pattern::new(Words::of(document.extra().unwrap_or_default())),
            _ => Pattern::default(),
        };
        let mut anchor = Self { measure, document, features: HashMap::new(), square: 0, pattern, least: 0.0 };
        if measure.needs_features() && anchor.document.extra().is_none() {
            let Self { document, features, square, .. } = &mut anchor;
            document.features(|feature, weight| {
                *square += i128::from(weight) * i128::from(weight);
                features.insert(feature, weight);
            });
        }
        anchor
    }

    /// An anchor that may give 0 for a similarity below `least`. Edits take less work then.
    #[must_use]
    pub fn at_least(self, least: f64) -> Self {
        Self { least, ..self }
    }

    /// The similarity with another document, at most 1. It is 0 for different texts if one document lacks the sketch
    /// that the measure looks at. An empty set of features has containment 1 with any set, and Jaccard similarity 1
    /// with another empty one.
    pub fn with(&self, other: &impl ComparedDocument) -> f32 {
        if self.document.digest() == other.digest() {
            return 1.0;
        }
        match self.measure {
            Measure::Weights => self.of_hashes(other, |a, b| a.weights.cosine(&b.weights)),
            Measure::Mismatch => self.of_hashes(other, |a, b| a.weights.agreement(&b.weights)),
            Measure::Estimate => self.estimate(other),
            Measure::Jaccard => self.of_sets(other, |a, b, shared| a + b - shared),
            Measure::Containment => self.of_sets(other, |a, b, _| a.min(b)),
            Measure::Cosine => self.of_weights(other),
            Measure::Edits => self.of_edits(other),
        }
    }

    /// The similarity by edits; 0 if the estimated Jaccard similarity shows that it is below the least.
    fn of_edits(&self, other: &impl ComparedDocument) -> f32 {
        /// Three standard errors of the usual sketch.
        const DOUBT: f64 = 0.1;
        if f64::from(self.estimate(other)) < edits::coefficient(self.least) - DOUBT {
            return 0.0;
        }
        other.extra().map_or(0.0, |words| self.pattern.similarity(Words::of(words), self.least))
    }

    /// The Jaccard similarity as bits estimate it.
    fn estimate(&self, other: &impl ComparedDocument) -> f32 {
        self.document.bits().zip(other.bits()).map_or(0.0, |(a, b)| jaccard::estimate(a, b))
    }

    fn of_hashes(&self, other: &impl ComparedDocument, of: impl FnOnce(&Hashed, &Hashed) -> f32) -> f32 {
        self.document.hashed().zip(other.hashed()).map_or(0.0, |(a, b)| of(a, b))
    }

    /// The share of the features of both documents in a whole, computed from the sizes of both
    /// sets and of what they share.
    fn of_sets(
        &self,
        other: &impl ComparedDocument,
        whole: impl FnOnce(usize, usize, usize) -> usize,
    ) -> f32 {
        let [own, others, shared] = match (self.document.extra(), other.extra()) {
            (Some(own), Some(others)) => {
                [own.len(), others.len(), lists::shared_of(own, others, 0).unwrap_or(0)]
            }
            _ => {
                let (mut size, mut shared) = (0, 0);
                other.features(|feature, _| {
                    size += 1;
                    shared += usize::from(self.features.contains_key(&feature));
                });
                [self.features.len(), size, shared]
            }
        };
        let whole = whole(own, others, shared);
        if whole == 0 { 1.0 } else { (shared as f64 / whole as f64) as f32 }
    }

    fn of_weights(&self, other: &impl ComparedDocument) -> f32 {
        // Whole numbers, so that no order of adding changes a bit.
        let (mut dot, mut square) = (0i128, 0i128);
        other.features(|feature, weight| {
            square += i128::from(weight) * i128::from(weight);
            if let Some(&own) = self.features.get(&feature) {
                dot += i128::from(own) * i128::from(weight);
            }
        });
        let norms = (square as f64 * self.square as f64).sqrt();
        if norms > 0.0 { (dot as f64 / norms).min(1.0) as f32 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features;
    use crate::settings::{Forms, Settings};
    use crate::simhash::hasher::SimHasher;
    use crate::sketch::{TwoSketcher, TwoSketches};
    use proptest::prelude::*;

    /// A document by the weights of its features.
    #[derive(Clone)]
    struct Plain {
        weights: Vec<(u64, i64)>,
        hashed: Hashed,
        two: TwoSketches,
    }

    impl Plain {
        fn new(weights: &[(u64, i64)]) -> Self {
            let features: Vec<u64> = weights.iter().map(|&(feature, _)| feature).collect();
            let two = TwoSketcher::new(&Settings::minhash(0.8)).unwrap().sketch(&features);
            let hashed = Hashed::from(&SimHasher::default().hash(weights.iter().copied()));
            Self { weights: weights.to_vec(), hashed, two }
        }
    }

    impl ComparedDocument for &Plain {
        fn digest(&self) -> u128 {
            std::ptr::from_ref::<Plain>(self) as usize as u128
        }

        fn hashed(&self) -> Option<&Hashed> {
            Some(&self.hashed)
        }

        fn bits(&self) -> Option<SetBits<'_>> {
            Some(SetBits { words: &self.two.bits, size: self.size(), forms: Forms::Values })
        }

        fn size(&self) -> u32 {
            self.weights.len() as u32
        }

        fn features(&self, mut each: impl FnMut(u64, i64)) {
            self.weights.iter().for_each(|&(feature, weight)| each(feature, weight));
        }
    }

    fn document() -> impl Strategy<Value = Vec<(u64, i64)>> {
        prop::collection::btree_map(0u64..30, 1i64..1 << 36, 0..20).prop_map(|document| {
            document.into_iter().map(|(feature, weight)| (crate::hash::fmix64(feature), weight)).collect()
        })
    }

    proptest! {
        #[test]
        fn measures_are_their_definitions_and_symmetric(a in document(), b in document()) {
            let (mut x, mut y) = (Plain::new(&a), Plain::new(&b));
            let with = |measure, x: &Plain, y: &Plain| Anchor::new(measure, x).with(&y);
            let near = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-6;
            let sorted = |document: &[(u64, i64)]| {
                let mut sorted = document.to_vec();
                sorted.sort_unstable();
                sorted
            };
            let (a, b) = (sorted(&a), sorted(&b));
            let sets = [&a, &b].map(|document| document.iter().map(|&(feature, _)| (feature, 1)).collect::<Vec<(u64, u32)>>());
            let overlap = features::overlap(&sets[0], &sets[1]);
            let smaller = overlap.shared + overlap.only_a.min(overlap.only_b);
            let containment = if smaller == 0 { 1.0 } else { overlap.shared as f64 / smaller as f64 };
            prop_assert!(near(with(Measure::Jaccard, &x, &y), overlap.jaccard()));
            prop_assert!(near(with(Measure::Containment, &x, &y), containment));
            if !a.is_empty() && !b.is_empty() {
                prop_assert!(near(with(Measure::Cosine, &x, &y), features::cosine(&a, &b)));
            }
            for measure in [Measure::Weights, Measure::Mismatch, Measure::Estimate, Measure::Jaccard, Measure::Containment, Measure::Cosine] {
                let there = with(measure, &x, &y);
                prop_assert_eq!(there.to_bits(), with(measure, &y, &x).to_bits());
                prop_assert_eq!(with(measure, &x, &x), 1.0);
                prop_assert!(there <= 1.0 + 1e-6);
                // Nor does the order of features matter.
                x.weights.reverse();
                let third = y.weights.len() / 3;
                y.weights.rotate_left(third);
                prop_assert_eq!(there.to_bits(), with(measure, &x, &y).to_bits());
            }
        }
    }
}
