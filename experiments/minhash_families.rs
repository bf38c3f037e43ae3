//! Families of MinHash functions beside the tool's own: the textbook's, and one permutation hashing.

use rayon::prelude::*;
use serde::Deserialize;
use simflip::Result;
use simflip::hash::{SplitMix64, fmix64};
use simflip::minhash::{EMPTY, MinHashParams, MinHasher, Signatures};

/// A family of random orders of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// The tool's [`Multiply32`](simflip::minhash::Family::Multiply32).
    Multiply32,
    /// `(a·x + b) mod (2⁶¹ − 1)`, pairwise independent. Values are the low 32 bits of the minimum; the high ones would
    /// all be alike in a large set.
    Prime61,
    /// One permutation (Li, Owen & Zhang 2012): each feature falls into one of `m` bins, each bin keeps its minimum,
    /// and an empty bin borrows from a random other one (optimal densification, Shrivastava 2017). For sets much
    /// smaller than `m` the variance is larger than that of the other families, for larger ones smaller.
    OnePermutation,
}

impl Family {
    /// The name in the table of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Multiply32 => "multiply32",
            Self::Prime61 => "prime61",
            Self::OnePermutation => "one-permutation",
        }
    }

    /// Signatures of `permutations` values, in the order of the sets.
    pub fn sign_all(self, sets: &[Vec<u64>], permutations: usize, seed: u64) -> Result<Signatures> {
        let mut rng = SplitMix64::new(seed);
        let signed: Vec<Vec<u32>> = match self {
            Self::Multiply32 => {
                let params = MinHashParams { permutations, seed, ..MinHashParams::default() };
                return Ok(MinHasher::new(params)?.sign_all(sets));
            }
            Self::Prime61 => {
                let functions: Vec<Affine61> = (0..permutations).map(|_| Affine61::draw(&mut rng)).collect();
                let sign = |set: &Vec<u64>| functions.iter().map(|function| function.minimum(set)).collect();
                sets.par_iter().map(sign).collect()
            }
            Self::OnePermutation => {
                let permutation = OnePermutation::new(permutations, &mut rng);
                sets.par_iter().map(|set| permutation.sign(set)).collect()
            }
        };
        let mut signatures = Signatures::new(permutations)?;
        signed.iter().try_for_each(|signature| signatures.push(signature))?;
        Ok(signatures)
    }

    /// Variance of the estimate for two sets of this Jaccard similarity, whose union has `union` features.
    ///
    /// With independent orders the number of equal values is binomial, and the variance is J(1 − J)/m. For one
    /// permutation the derivation is ours. Given that N bins of the union are not empty, their minima are a random N of
    /// the union's `f` features. Two values show the same feature unless both bins are their own: with probability q =
    /// (1 − N(N−1)/(m(m−1)))/N. Then E\[estimate²\] = J/m + (1 − 1/m)(qJ + (1 − q)·J(Jf − 1)/(f − 1)), averaged over N
    /// (balls in bins).
    pub fn variance(self, permutations: usize, similarity: f64, union: usize) -> f64 {
        let (m, f, j) = (permutations as f64, union as f64, similarity);
        // One feature or one bin: no two different features at two different places.
        if self != Self::OnePermutation || union <= 1 || permutations <= 1 {
            return j * (1.0 - j) / m;
        }
        let second_moment = |n: f64| {
            let q = (1.0 - n * (n - 1.0) / (m * (m - 1.0))) / n;
            j / m + (1.0 - 1.0 / m) * j * (q + (1.0 - q) * (j * f - 1.0) / (f - 1.0))
        };
        occupied_bins(permutations, union)
            .into_iter()
            .map(|(n, probability)| probability * (second_moment(n as f64) - j * j))
            .sum()
    }
}

/// 2⁶¹ − 1, a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// A function `x → (a·x + b) mod (2⁶¹ − 1)`.
struct Affine61 {
    a: u64,
    b: u64,
}

impl Affine61 {
    fn draw(rng: &mut SplitMix64) -> Self {
        Self { a: 1 + rng.below(PRIME - 1), b: rng.below(PRIME) }
    }

    /// The low half of the minimum; [`EMPTY`] for the empty set.
    fn minimum(&self, features: &[u64]) -> u32 {
        let value = |x: u64| {
            let product = u128::from(self.a) * u128::from(x % PRIME) + u128::from(self.b);
            (product % u128::from(PRIME)) as u64
        };
        features.iter().map(|&x| value(x)).min().map_or(EMPTY, |least| least as u32)
    }
}

/// The hash that spreads features over bins, and for each bin a random order of all bins.
struct OnePermutation {
    key: u64,
    orders: Vec<BinOrder>,
    /// Orders are of the numbers up to this one; numbers beyond the last bin are skipped.
    mask: u32,
}

/// A bijection of the numbers up to a mask.
struct BinOrder {
    flip: u32,
    factors: [u32; 2],
    summand: u32,
}

impl OnePermutation {
    fn new(bins: usize, rng: &mut SplitMix64) -> Self {
        let mask = (bins.next_power_of_two() - 1) as u32;
        let key = rng.next_u64();
        let mut order = || {
            let (random, factors) = (rng.next_u64(), rng.next_u64());
            let factors = [factors as u32 | 1, (factors >> 32) as u32 | 1];
            BinOrder { flip: random as u32 & mask, factors, summand: (random >> 32) as u32 }
        };
        Self { key, orders: (0..bins).map(|_| order()).collect(), mask }
    }

    fn sign(&self, features: &[u64]) -> Vec<u32> {
        let bins = self.orders.len();
        let mut least = vec![EMPTY; bins];
        for &x in features {
            let hash = fmix64(x ^ self.key);
            let bin = (((hash >> 32) * bins as u64) >> 32) as usize;
            // The highest value is that of the empty bin.
            least[bin] = least[bin].min((hash as u32).min(EMPTY - 1));
        }
        if features.is_empty() {
            return least;
        }
        // A bin borrows what other bins have of their own: the first in its own order that is not empty.
        let borrowed = |order: &BinOrder| {
            let mut bins = (0..=self.mask).map(|place| self.bin(order, place) as usize);
            bins.find_map(|bin| least.get(bin).copied().filter(|&value| value != EMPTY)).unwrap_or(EMPTY)
        };
        let value = |(&own, order)| if own == EMPTY { borrowed(order) } else { own };
        least.iter().zip(&self.orders).map(value).collect()
    }

    /// The bin at a place of an order.
    fn bin(&self, order: &BinOrder, place: u32) -> u32 {
        let shift = self.mask.count_ones().div_ceil(2).max(1);
        let mut v = (place ^ order.flip).wrapping_mul(order.factors[0]) & self.mask;
        v ^= v >> shift;
        v = v.wrapping_mul(order.factors[1]) & self.mask;
        v ^= v >> shift;
        v.wrapping_add(order.summand) & self.mask
    }
}

/// The probability of each number of occupied bins after `balls` have been thrown; improbable ones are left out.
fn occupied_bins(bins: usize, balls: usize) -> Vec<(usize, f64)> {
    let m = bins as f64;
    // The chance that any bin is empty is at most m·e^(−f/m): nothing beyond this many balls.
    if balls as f64 > m * (m.ln() + 40.0) {
        return vec![(bins, 1.0)];
    }
    let mut probability = vec![0.0; bins + 1];
    probability[0] = 1.0;
    for thrown in 0..balls {
        for n in (0..=bins.min(thrown + 1)).rev() {
            let from_below = if n == 0 { 0.0 } else { probability[n - 1] * (m - (n as f64 - 1.0)) / m };
            probability[n] = probability[n] * n as f64 / m + from_below;
        }
    }
    probability.into_iter().enumerate().filter(|&(_, p)| p > 1e-15).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_committed_rows() {
        // From a second implementation, in Python.
        let golden = |family: Family, permutations| {
            family.sign_all(&[vec![1, 2, 3, u64::MAX]], permutations, 42).unwrap().values().to_vec()
        };
        assert_eq!(golden(Family::Prime61, 3), [3_761_954_531, 2_297_378_865, 659_503_833]);
        let borrowed = [
            2_967_169_386,
            3_993_653_775,
            2_696_782_355,
            3_993_653_775,
            2_967_169_386,
            3_177_838_700,
            2_967_169_386,
            3_177_838_700,
            2_696_782_355,
        ];
        assert_eq!(golden(Family::OnePermutation, 9), borrowed);
    }

    #[test]
    fn an_order_has_every_bin_once() {
        for bins in [1, 2, 3, 5, 8, 100, 128, 1000] {
            let permutation = OnePermutation::new(bins, &mut SplitMix64::new(bins as u64));
            for order in &permutation.orders {
                let mut there = vec![false; permutation.mask as usize + 1];
                for place in 0..=permutation.mask {
                    assert!(!std::mem::replace(&mut there[permutation.bin(order, place) as usize], true));
                }
            }
        }
    }

    #[test]
    fn the_variance_of_one_permutation_has_the_known_limits() {
        let variance = |similarity, union| Family::OnePermutation.variance(128, similarity, union);
        // All bins occupied: drawing m of f features without replacement (hypergeometric).
        let without_replacement = 0.5 * 0.5 / 128.0 * (1e5 - 128.0) / (1e5 - 1.0);
        assert!((variance(0.5, 100_000) / without_replacement - 1.0).abs() < 1e-9);
        // Two features, one shared: in one bin (1 in 128) the estimate is 0 or 1; else 126 other bins toss coins.
        let tossed = 126.0 * 0.25 / (128.0 * 128.0);
        let expected = 0.25 / 128.0 + 127.0 / 128.0 * tossed;
        assert!((variance(0.5, 2) - expected).abs() < 1e-12);
        assert_eq!(variance(1.0, 1), 0.0);
    }
}
