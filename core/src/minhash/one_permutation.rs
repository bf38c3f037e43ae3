//! One permutation hashing with optimal densification.

use super::EMPTY;
use crate::hash::{SplitMix64, fmix64};

/// The hash that spreads features over bins, and the order in which each empty bin asks the others.
#[derive(Clone, Debug)]
pub(super) struct OnePermutation {
    key: u64,
    orders: Vec<BinOrder>,
    /// Bins are numbered below `mask + 1`, the next power of two; the numbers beyond the
    /// last bin are passed over.
    mask: u32,
    /// Half the bits of `mask`, rounded up.
    shift: u32,
}

/// A random order of all bins that can be read in both directions: the bin at a place, and the place of a
/// bin.
#[derive(Clone, Debug)]
struct BinOrder {
    flip: u32,
    factors: [u32; 2],
    inverses: [u32; 2],
    summand: u32,
}

impl OnePermutation {
    pub(super) fn new(bins: usize, rng: &mut SplitMix64) -> Self {
        let mask = (bins.next_power_of_two() - 1) as u32;
        let key = rng.next_u64();
        let mut order = || {
            let (random, factors) = (rng.next_u64(), rng.next_u64());
            let factors = [factors as u32 | 1, (factors >> 32) as u32 | 1];
            BinOrder {
                flip: random as u32 & mask,
                factors,
                inverses: factors.map(inverse),
                summand: (random >> 32) as u32,
            }
        };
        let orders = (0..bins).map(|_| order()).collect();
        Self { key, orders, mask, shift: mask.count_ones().div_ceil(2).max(1) }
    }

    pub(super) fn sign(&self, features: &[u64], signature: &mut [u32]) {
        signature.fill(EMPTY);
        let bins = signature.len() as u64;
        for &x in features {
            let hash = fmix64(x ^ self.key);
            let bin = (((hash >> 32) * bins) >> 32) as usize;
            // The last value is left to the empty bin.
            signature[bin] = signature[bin].min((hash as u32).min(EMPTY - 1));
        }
        self.densify(signature);
    }

    /// Fills every empty bin with the value of the first bin in its own order that is not empty.
    fn densify(&self, signature: &mut [u32]) {
        let empty = signature.iter().filter(|&&v| v == EMPTY).count();
        let occupied = signature.len() - empty;
        if occupied == 0 || empty == 0 {
            return;
        }
        // All sources are found before the first bin is filled: what is borrowed is not lent on.
        let mut borrowed: Vec<(u32, u32)> = Vec::with_capacity(empty);
        let bins = (0u32..).zip(&self.orders).filter(|&(bin, _)| signature[bin as usize] == EMPTY);
        let mut borrow = |bin, source: Option<u32>| {
            borrowed.extend(source.map(|source| (bin, signature[source as usize])));
        };
        // Looking for the first place takes about all/occupied steps, asking all for their place as many as
        // are occupied. The answers are the same.
        if occupied * occupied > self.mask as usize {
            bins.for_each(|(bin, order)| borrow(bin, self.first(order, signature)));
        } else {
            let occupied: Vec<u32> =
                (0u32..).zip(&*signature).filter(|&(_, &v)| v != EMPTY).map(|(bin, _)| bin).collect();
            bins.for_each(|(bin, order)| borrow(bin, self.first_of(order, &occupied)));
        }
        for (bin, value) in borrowed {
            signature[bin as usize] = value;
        }
    }

    /// The first occupied bin, found by walking along the order.
    fn first(&self, order: &BinOrder, signature: &[u32]) -> Option<u32> {
        (0..=self.mask)
            .map(|place| self.bin(order, place))
            .find(|&bin| signature.get(bin as usize).is_some_and(|&v| v != EMPTY))
    }

    /// The first of the bins given.
    fn first_of(&self, order: &BinOrder, occupied: &[u32]) -> Option<u32> {
        occupied.iter().copied().min_by_key(|&bin| self.place(order, bin))
    }

    /// The bin at a place of the order: each step is a bijection of the numbers up to the mask.
    fn bin(&self, order: &BinOrder, place: u32) -> u32 {
        let mut v = (place ^ order.flip).wrapping_mul(order.factors[0]) & self.mask;
        v ^= v >> self.shift;
        v = v.wrapping_mul(order.factors[1]) & self.mask;
        v ^= v >> self.shift;
        v.wrapping_add(order.summand) & self.mask
    }

    /// The place of a bin: the steps backwards. A shift by at least half the bits undoes itself.
    fn place(&self, order: &BinOrder, bin: u32) -> u32 {
        let mut v = bin.wrapping_sub(order.summand) & self.mask;
        v ^= v >> self.shift;
        v = v.wrapping_mul(order.inverses[1]) & self.mask;
        v ^= v >> self.shift;
        (v.wrapping_mul(order.inverses[0]) & self.mask) ^ order.flip
    }
}

/// The number whose product with an odd number is 1 modulo 2³² (Newton's iteration; each step doubles the
/// bits).
fn inverse(odd: u32) -> u32 {
    // An odd number is its own inverse modulo 8.
    (0..4).fold(odd, |x, _| x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x))))
}

/// The probability of each number of occupied bins after `balls` have been thrown;
/// improbable ones are left out.
pub(super) fn occupied_bins(bins: usize, balls: usize) -> Vec<(usize, f64)> {
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
    use proptest::prelude::*;

    #[test]
    fn inverses_are_inverse() {
        let mut rng = SplitMix64::new(3);
        for odd in (0..1000).map(|_| rng.next_u64() as u32 | 1).chain([1, 3, u32::MAX]) {
            assert_eq!(odd.wrapping_mul(inverse(odd)), 1, "{odd}");
        }
    }

    #[test]
    fn an_order_holds_every_bin_once_and_reads_both_ways() {
        for bins in [1, 2, 3, 5, 8, 100, 128, 1000] {
            let permutation = OnePermutation::new(bins, &mut SplitMix64::new(bins as u64));
            for order in &permutation.orders {
                let mut seen = vec![false; permutation.mask as usize + 1];
                for place in 0..=permutation.mask {
                    let bin = permutation.bin(order, place);
                    assert!(!std::mem::replace(&mut seen[bin as usize], true));
                    assert_eq!(permutation.place(order, bin), place);
                }
            }
        }
    }

    /// The definition: bins by the hash, then each empty bin walks along its order.
    fn naive(permutation: &OnePermutation, features: &[u64], m: usize) -> Vec<u32> {
        let hashes: Vec<u64> = features.iter().map(|&x| fmix64(x ^ permutation.key)).collect();
        let least = |bin: usize| {
            hashes.iter().filter(|&&h| ((h >> 32) * m as u64) >> 32 == bin as u64).map(|&h| h as u32).min()
        };
        let bins: Vec<Option<u32>> = (0..m).map(least).collect();
        if features.is_empty() {
            return vec![EMPTY; m];
        }
        (0..m)
            .map(|i| {
                let order = &permutation.orders[i];
                bins[i].unwrap_or_else(|| {
                    let mut places =
                        (0..=permutation.mask).map(|place| permutation.bin(order, place) as usize);
                    places.find_map(|bin| bins.get(bin).copied().flatten()).unwrap()
                })
            })
            .collect()
    }

    proptest! {
        #[test]
        fn walking_and_asking_find_the_same_bin(features in prop::collection::vec(any::<u64>(), 0..60), m in 1usize..200, seed: u64) {
            let permutation = OnePermutation::new(m, &mut SplitMix64::new(seed));
            let mut signature = vec![0; m];
            permutation.sign(&features, &mut signature);
            prop_assert_eq!(signature, naive(&permutation, &features, m));
        }
    }

    #[test]
    fn occupied_bins_agree_with_the_expectation() {
        for (bins, balls) in [(1, 1), (2, 2), (128, 1), (128, 5), (128, 128), (128, 1000), (128, 100_000)] {
            let distribution = occupied_bins(bins, balls);
            let total: f64 = distribution.iter().map(|&(_, p)| p).sum();
            let mean: f64 = distribution.iter().map(|&(n, p)| n as f64 * p).sum();
            let m = bins as f64;
            let expected = m * (1.0 - (1.0 - 1.0 / m).powi(balls as i32));
            assert!(
                (total - 1.0).abs() < 1e-9 && (mean - expected).abs() < 1e-6 * m,
                "{bins} {balls}: {mean} {expected}"
            );
        }
    }
}
