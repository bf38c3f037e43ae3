//! Makes a SimHash of weighted features.

use super::{BITS, SimHash};
use crate::kernel::Level;

/// Makes the SimHash of a document from its features and their weights. A hasher holds buffers; make one per thread.
#[derive(Clone, Debug, Default)]
pub struct SimHasher {
    features: Vec<u64>,
    weights: Vec<i64>,
}

impl SimHasher {
    /// The SimHash of distinct features that all have this weight, in multiples of 2⁻²⁴, as [`hash`](Self::hash) gives
    /// it.
    #[doc(hidden)]
    pub fn of_set(features: &[u64], weight: i64) -> SimHash {
        let mut counts = [0; BITS];
        Level::in_use().count_bits(features, &mut counts);
        let n = features.len() as i64;
        let square = u128::from(weight.unsigned_abs()) * u128::from(weight.unsigned_abs());
        finished(counts.map(|count| count * weight), n * weight, n as u128 * square)
    }

    /// The bits alone of the SimHash of distinct features that all have one weight above 0.
    #[doc(hidden)]
    pub fn hash_of_set(features: &[u64]) -> u64 {
        let mut counts = [0; BITS];
        Level::in_use().count_bits(features, &mut counts);
        let n = features.len() as i64;
        (0..).zip(counts).fold(0, |hash, (bit, count)| hash | u64::from(2 * count > n) << bit)
    }

    /// The SimHash of a document: feature hashes, each with its weight in multiples of 2⁻²⁴
    /// ([`crate::weight::Weigher`]), in any order.
    ///
    /// Component `j` is the sum of the weights whose hash has bit `j`, minus the sum of the others, over
    /// the L2 norm of the weights (section 3 of the paper). A document without weight gives
    /// the zero vector and hash 0.
    pub fn hash(&mut self, features: impl Iterator<Item = (u64, i64)>) -> SimHash {
        self.features.clear();
        self.weights.clear();
        let (mut total, mut squares) = (0i64, 0u128);
        for (feature, weight) in features {
            self.features.push(feature);
            self.weights.push(weight);
            total += weight;
            squares += u128::from(weight.unsigned_abs()) * u128::from(weight.unsigned_abs());
        }
        let mut sums = [0; BITS];
        Level::in_use().accumulate(&self.features, &self.weights, &mut sums);
        finished(sums, total, squares)
    }
}

/// Makes the SimHash from each bit's sum of weights, the sum of all weights, and that of their squares.
fn finished(sums: [i64; BITS], total: i64, squares: u128) -> SimHash {
    let norm = (squares as f64).sqrt().max(f64::MIN_POSITIVE);
    // What has the bit, minus what has not, is twice what has it, minus all. The sign is that of the
    // integer: a quotient of a non-zero integer by the norm is far from rounding to zero.
    SimHash::from_weights(sums.map(|sum| ((2 * sum - total) as f64 / norm) as f32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight::FIXED_POINT_BITS;
    use proptest::prelude::*;

    /// The slides' example: 4 bits, written left to right, which we keep in the low four bits.
    const EXAMPLE: [(u64, f64); 6] =
        [(0b0101, 0.05), (0b1101, 0.02), (0b0001, 0.01), (0b1110, 0.03), (0b0100, 0.05), (0b0011, 0.09)];

    /// The hash's four bits, and the weights left to right with the norm taken out.
    fn hash_without(left_out: &[u64]) -> (u64, [f64; 4]) {
        let features: Vec<(u64, f64)> =
            EXAMPLE.iter().copied().filter(|(hash, _)| !left_out.contains(hash)).collect();
        let norm = features.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
        let fixed = features.iter().map(|&(h, w)| (h, (w * f64::from(1 << FIXED_POINT_BITS)).round() as i64));
        let simhash = SimHasher::default().hash(fixed);
        (simhash.hash & 0xf, [3, 2, 1, 0].map(|j: usize| f64::from(simhash.weights[j]) * norm))
    }

    fn assert_near(got: [f64; 4], want: [f64; 4]) {
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6), "{got:?} {want:?}");
    }

    #[test]
    fn the_golden_example() {
        let (hash, weights) = hash_without(&[]);
        assert_eq!(hash, 0b0101);
        assert_near(weights, [-0.15, 0.05, -0.01, 0.09]);

        let (hash, weights) = hash_without(&[0b1101, 0b0001]);
        assert_eq!(hash, 0b0111, "only the weakest bit flips");
        assert_near(weights, [-0.16, 0.04, 0.02, 0.06]);

        let (hash, weights) = hash_without(&[0b0101, 0b0100]);
        assert_eq!(hash, 0b0011, "the two weakest bits flip");
        assert_near(weights, [-0.05, -0.05, 0.09, 0.09]);
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(SimHasher::default().hash(std::iter::empty()), SimHash { hash: 0, weights: [0.0; BITS] });
        assert_eq!(SimHasher::default().hash([(u64::MAX, 0)].into_iter()).hash, 0);
    }

    #[test]
    fn opposite_features_cancel_to_a_zero_bit() {
        let simhash = SimHasher::default().hash([(0b01, 5), (0b10, 5)].into_iter());
        assert_eq!((simhash.hash, simhash.weights[0], simhash.weights[1]), (0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn a_set_is_hashed_like_features_of_one_weight(
            features in prop::collection::vec(any::<u64>(), 0..700), weight in prop_oneof![Just(1i64 << FIXED_POINT_BITS), 0i64..1 << 30],
        ) {
            let weighed = SimHasher::default().hash(features.iter().map(|&feature| (feature, weight)));
            prop_assert_eq!(SimHasher::of_set(&features, weight), weighed);
            if weight > 0 {
                prop_assert_eq!(SimHasher::hash_of_set(&features), weighed.hash);
            }
        }

        #[test]
        fn the_order_and_the_scale_of_features_do_not_matter(
            mut features in prop::collection::vec((any::<u64>(), 1i64..1 << 30), 1..100), seed: u64,
        ) {
            let hash = |f: &[(u64, i64)]| SimHasher::default().hash(f.iter().copied());
            let before = hash(&features);
            let mut rng = crate::hash::SplitMix64::new(seed);
            for i in (1..features.len()).rev() {
                features.swap(i, rng.below(i as u64 + 1) as usize);
            }
            prop_assert_eq!(hash(&features), before);
            features.iter_mut().for_each(|(_, w)| *w *= 3);
            prop_assert_eq!(hash(&features).hash, before.hash);
        }

        #[test]
        fn the_sums_are_those_of_the_definition(features in prop::collection::vec((any::<u64>(), 1i64..1 << 30), 1..60)) {
            let simhash = SimHasher::default().hash(features.iter().copied());
            let norm = features.iter().map(|&(_, w)| (w as f64).powi(2)).sum::<f64>().sqrt();
            for j in 0..BITS {
                let sum: i64 = features.iter().map(|&(h, w)| if h >> j & 1 == 1 { w } else { -w }).sum();
                prop_assert_eq!(simhash.hash >> j & 1 == 1, sum > 0);
                prop_assert!((f64::from(simhash.weights[j]) - sum as f64 / norm).abs() < 1e-5);
            }
        }
    }
}
