//! MinHash: signatures whose share of equal positions estimates the Jaccard similarity of two sets. A signature is a
//! list of MinHash values; its positions are also called permutations.
//!
//! For a random order of all features, the probability that two sets have the same first feature is their
//! Jaccard similarity |A ∩ B| / |A ∪ B| (Broder 1997; Broder, Charikar, Frieze & Mitzenmacher 1998). A
//! signature holds the first feature under each of `m` orders. The estimate is the share of equal positions.
//!
//! Features must be good 64-bit hashes (see [`crate::hash`]): the cheap functions below are sound on
//! random-looking input only. Repeated features change nothing.
//!
//! **The empty set** has the signature of all [`EMPTY`]; no other set gets it. Two empty sets thus have an
//! estimate of 1, and an empty and another set an estimate near 0. Whether two documents without features are
//! duplicates is for the caller to say; the Jaccard similarity of two empty sets is 0/0.
//!
//! **Positions have 32 bits.** [`Family::Multiply32`] looks at the low 32 bits of a feature, on which its
//! functions are bijections: positions are equal by accident only if two different features share those bits.
//! Two disjoint sets of n features each are expected to share n²/2³², which moves the estimate by about n/2³³
//! (10⁻⁶ for ten thousand features).

mod fast_similarity;
#[cfg(test)]
mod golden;
#[doc(hidden)]
pub mod one_bit;
mod signatures;

use crate::error::{Error, Result};
use crate::hash::SplitMix64;
use crate::kernel::Level;
use crate::kernel::minhash::{Affine, BLOCK};
use fast_similarity::FastSimilarity;
use serde::{Deserialize, Serialize};
#[doc(hidden)]
pub use signatures::Signatures;
pub(crate) use signatures::hash_positions;

/// The value at every position of the empty set's signature.
#[doc(hidden)]
pub const EMPTY: u32 = crate::kernel::minhash::EMPTY;

/// The longest signature: a mistyped length must not ask for all the memory there is.
#[doc(hidden)]
pub const MAX_PERMUTATIONS: usize = 1 << 20;

/// The family of random orders of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `a·x + b mod 2³²` with odd `a`, on the low 32 bits of a feature. The fastest independent orders.
    #[default]
    Multiply32,
    /// Fast similarity sketching (Dahlgaard, Knudsen & Thorup 2017), ended in a way of ours. In each of six rounds
    /// every feature falls into one of `m` bins. A bin keeps the least of the first round that reaches it, and a bin
    /// that no round reaches has an order of its own, as in [`Multiply32`](Self::Multiply32). The work per feature
    /// hardly grows with `m`, and the variance is that of independent orders for small sets, and less for large ones.
    FastSimilarity,
}

/// The parameters of a signature. Signatures can be compared only if all of them are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MinHashParams {
    /// Positions of a signature (`m`), 1 to [`MAX_PERMUTATIONS`].
    pub permutations: usize,
    /// The family of orders.
    pub family: Family,
    /// Seed of the random orders.
    pub seed: u64,
}

impl Default for MinHashParams {
    fn default() -> Self {
        Self { permutations: 128, family: Family::default(), seed: 0 }
    }
}

/// Makes the signatures of sets of features. Threads can share one hasher.
#[derive(Clone, Debug)]
pub struct MinHasher {
    params: MinHashParams,
    functions: Functions,
    kernel: Level,
}

#[derive(Clone, Debug)]
enum Functions {
    Multiply32(Vec<Affine>),
    FastSimilarity(FastSimilarity),
}

impl MinHasher {
    /// A hasher with random orders of features, which follow from the parameters alone.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the number of permutations is 0 or above [`MAX_PERMUTATIONS`].
    pub fn new(params: MinHashParams) -> Result<Self> {
        Self::with_kernel(params, Level::in_use())
    }

    /// A hasher with a kernel of the caller's choice; signatures do not depend on it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[doc(hidden)]
    pub fn with_kernel(params: MinHashParams, kernel: Level) -> Result<Self> {
        let m = params.permutations;
        check_permutations(m)?;
        let mut rng = SplitMix64::new(params.seed);
        // Function by function, so that a longer signature begins with the shorter one of the same seed.
        let functions = match params.family {
            Family::Multiply32 => Functions::Multiply32(affine32(m, &mut rng)),
            Family::FastSimilarity => Functions::FastSimilarity(FastSimilarity::new(m, &mut rng)),
        };
        Ok(Self { params, functions, kernel })
    }

    /// The parameters of this hasher.
    #[doc(hidden)]
    pub fn params(&self) -> MinHashParams {
        self.params
    }

    /// Writes the signature of a set of features, in any order, to `signature`.
    ///
    /// # Panics
    /// If `signature` does not have as many positions as the parameters say.
    pub fn sign(&self, features: &[u64], signature: &mut [u32]) {
        assert_eq!(signature.len(), self.params.permutations, "positions of the signature");
        match &self.functions {
            Functions::Multiply32(functions) => self.kernel.minima32(functions, features, signature),
            Functions::FastSimilarity(sketch) => sketch.sign(self.kernel, features, signature),
        }
    }

    /// The signatures of many sets, made in parallel, in the order of the sets.
    #[doc(hidden)]
    pub fn sign_all<S: AsRef<[u64]> + Sync>(&self, sets: &[S]) -> Signatures {
        use rayon::prelude::*;
        let mut values = vec![EMPTY; sets.len() * self.params.permutations];
        values
            .par_chunks_mut(self.params.permutations)
            .zip(sets)
            .for_each(|(signature, features)| self.sign(features.as_ref(), signature));
        Signatures::from_values(self.params.permutations, values).expect("whole signatures")
    }
}

/// Refuses a number of positions that is not 1 to [`MAX_PERMUTATIONS`].
pub(crate) fn check_permutations(permutations: usize) -> Result<()> {
    match (1..=MAX_PERMUTATIONS).contains(&permutations) {
        true => Ok(()),
        false => Err(Error::parameter("permutations", permutations, format!("1 to {MAX_PERMUTATIONS}"))),
    }
}

/// Draws `functions` random functions `a·x + b mod 2³²` with odd `a`, and more up to the end of the last block.
fn affine32(functions: usize, rng: &mut SplitMix64) -> Vec<Affine> {
    let mut block = || {
        let mut functions = Affine { a: [0; BLOCK], b: [0; BLOCK] };
        for (a, b) in functions.a.iter_mut().zip(&mut functions.b) {
            let random = rng.next_u64();
            (*a, *b) = (random as u32 | 1, (random >> 32) as u32);
        }
        functions
    };
    (0..functions.div_ceil(BLOCK)).map(|_| block()).collect()
}

/// Counts the positions at which two signatures are equal. The estimate of the Jaccard similarity is this number
/// divided by that of all positions.
#[inline]
pub fn matches(a: &[u32], b: &[u32]) -> usize {
    Level::in_use().matches(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const FAMILIES: [Family; 2] = [Family::Multiply32, Family::FastSimilarity];

    /// The variance of the estimate for two sets of this Jaccard similarity, whose union has `union` features.
    ///
    /// With independent orders the number of equal positions is binomial and the variance is J(1 − J)/m. For
    /// [`Family::FastSimilarity`] two positions show the same feature with probability q = (1 − P(both were filled in
    /// one round))/f, of the union's `f` features. Hence E\[estimate²\] = J/m + (1 − 1/m)(qJ + (1 − q)·J(Jf − 1)/(f −
    /// 1)).
    fn variance(params: MinHashParams, similarity: f64, union: usize) -> f64 {
        let (m, f, j) = (params.permutations as f64, union as f64, similarity);
        // Of one feature or one bin there are no two different features at two different positions.
        if params.family == Family::Multiply32 || union <= 1 || params.permutations <= 1 {
            return j * (1.0 - j) / m;
        }
        let q = (1.0 - fast_similarity::same_round(params.permutations, union)) / f;
        j / m + (1.0 - 1.0 / m) * j * (q + (1.0 - q) * (j * f - 1.0) / (f - 1.0)) - j * j
    }

    /// Two random sets with `common` shared features of `union` in all; the others go to either side in turn.
    fn random_sets(rng: &mut SplitMix64, common: usize, union: usize) -> [Vec<u64>; 2] {
        let mut sets = [vec![], vec![]];
        for i in 0..union {
            let feature = rng.next_u64();
            if i < common || i % 2 == 0 {
                sets[0].push(feature);
            }
            if i < common || i % 2 == 1 {
                sets[1].push(feature);
            }
        }
        sets
    }

    /// The deviation of an estimator from theory over many random pairs of sets.
    struct Deviation {
        /// Mean error in standard errors, given the variance of theory.
        bias: f64,
        /// Mean squared error minus the variance of theory, in standard errors as estimated from the sample:
        /// with few bins shared by two features the squared errors are far from normal.
        variance: f64,
    }

    fn deviation(
        common: usize,
        union: usize,
        pairs: usize,
        variance: f64,
        mut estimate: impl FnMut(usize, &[Vec<u64>; 2]) -> f64,
    ) -> Deviation {
        let mut rng = SplitMix64::new(union as u64 * 1000 + common as u64);
        let similarity = common as f64 / union as f64;
        let errors: Vec<f64> = (0..pairs)
            .map(|pair| estimate(pair, &random_sets(&mut rng, common, union)) - similarity)
            .collect();
        let n = pairs as f64;
        let mean = |power: i32| errors.iter().map(|e| e.powi(power)).sum::<f64>() / n;
        let squares = mean(2);
        Deviation {
            bias: mean(1) / (variance / n).sqrt(),
            variance: (squares - variance) / ((mean(4) - squares * squares) / n).sqrt(),
        }
    }

    /// (common, union, pairs): tiny sets, sets around the signature's length, and larger ones.
    const CASES: [(usize, usize, usize); 13] = [
        (1, 2, 4000),
        (1, 3, 4000),
        (2, 3, 4000),
        (4, 5, 3000),
        (1, 10, 3000),
        (9, 10, 3000),
        (20, 40, 2000),
        (90, 100, 2000),
        (100, 128, 2000),
        (30, 300, 1000),
        (150, 300, 1000),
        (270, 300, 1000),
        (700, 1000, 600),
    ];

    #[test]
    fn the_estimate_has_the_bias_and_variance_of_theory() {
        for family in FAMILIES {
            for (common, union, pairs) in CASES {
                // One hasher for all pairs, as in a run; and a new one for each pair, as in the theory.
                for one_for_all in [true, false] {
                    let params = MinHashParams { family, seed: 7, ..MinHashParams::default() };
                    let mut hasher = MinHasher::new(params).unwrap();
                    let mut signatures = [vec![0; params.permutations], vec![0; params.permutations]];
                    let variance = variance(params, common as f64 / union as f64, union);
                    let found = deviation(common, union, pairs, variance, |pair, sets| {
                        if !one_for_all {
                            hasher = MinHasher::new(MinHashParams { seed: pair as u64, ..params }).unwrap();
                        }
                        hasher.sign(&sets[0], &mut signatures[0]);
                        hasher.sign(&sets[1], &mut signatures[1]);
                        matches(&signatures[0], &signatures[1]) as f64 / params.permutations as f64
                    });
                    let Deviation { bias, variance, .. } = found;
                    let case = format!("{family:?}, J = {common}/{union}, one hasher for all: {one_for_all}");
                    assert!(bias.abs() < 4.0, "{case}: bias of {bias} standard errors");
                    assert!(variance.abs() < 4.0, "{case}: variance {variance} standard errors off theory");
                }
            }
        }
    }

    #[test]
    fn the_empty_set_is_all_empty_and_no_other_set_is() {
        for family in FAMILIES {
            let hasher = MinHasher::new(MinHashParams { family, ..MinHashParams::default() }).unwrap();
            let mut signature = vec![7; 128];
            hasher.sign(&[], &mut signature);
            assert_eq!(signature, [EMPTY; 128], "{family:?}");
            for x in [0, 1, u64::MAX, (1 << 32) - 1] {
                hasher.sign(&[x], &mut signature);
                assert_ne!(signature, [EMPTY; 128], "{family:?} {x}");
            }
        }
    }

    #[test]
    fn any_length_works_and_repeats_and_order_change_nothing() {
        let mut rng = SplitMix64::new(9);
        let set: Vec<u64> = (0..50).map(|_| rng.next_u64()).collect();
        let mut other = set.clone();
        other.extend_from_within(10..30);
        other.reverse();
        for family in FAMILIES {
            for permutations in [1, 2, 20, 31, 32, 33, 127, 128, 129, 256, 1000] {
                let params = MinHashParams { permutations, family, seed: 1 };
                let hasher = MinHasher::new(params).unwrap();
                let signatures = hasher.sign_all(&[&set, &other]);
                assert_eq!((signatures.permutations(), signatures.len()), (permutations, 2));
                assert_eq!(signatures.get(0), signatures.get(1), "{params:?}");
                for kernel in Level::available() {
                    let mut again = vec![0; permutations];
                    MinHasher::with_kernel(params, kernel).unwrap().sign(&set, &mut again);
                    assert_eq!(again, signatures.get(0), "{params:?} {}", kernel.name());
                }
            }
        }
    }

    #[test]
    fn positions_are_made_by_different_functions() {
        let mut rng = SplitMix64::new(11);
        let set: Vec<u64> = (0..100).map(|_| rng.next_u64()).collect();
        let params = MinHashParams { permutations: 1000, ..MinHashParams::default() };
        let signatures = MinHasher::new(params).unwrap().sign_all(&[&set]);
        let distinct: HashSet<u32> = signatures.get(0).iter().copied().collect();
        assert!(distinct.len() > 990, "{}", distinct.len());
    }

    #[test]
    fn signatures_mean_the_same_for_ever() {
        // From a second implementation, in Python; stored signatures depend on them.
        let params = MinHashParams { permutations: 3, seed: 42, ..MinHashParams::default() };
        let signatures = MinHasher::new(params).unwrap().sign_all(&[[1, 2, 3, u64::MAX]]);
        assert_eq!(signatures.values(), [497_946_448, 1_076_147_772, 876_791_812]);
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for permutations in [0, MAX_PERMUTATIONS + 1] {
            let params = MinHashParams { permutations, ..MinHashParams::default() };
            assert!(MinHasher::new(params).unwrap_err().to_string().contains("permutations"));
        }
    }
}
