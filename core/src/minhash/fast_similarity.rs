//! Fast similarity sketching (Dahlgaard, Knudsen & Thorup 2017), with an ending of ours.

use super::EMPTY;
use crate::hash::SplitMix64;
use crate::kernel::Level;
use crate::kernel::minhash::{Affine, BLOCK, Throw};

/// Rounds in which every feature is thrown into a bin.
const ROUNDS: usize = 6;

/// The most bins that are left over at the end of a signature and get their values one by one.
const FEW: usize = 6;

/// The first value of the bins that no round has filled.
const LATE: u32 = 1 << 31;

/// The hash of each round, and for each bin an order of features of its own, for a bin that no round has filled. A bin
/// is a position of the signature.
#[derive(Clone, Debug)]
pub(super) struct FastSimilarity {
    rounds: [Throw; ROUNDS],
    orders: Vec<Affine>,
}

impl FastSimilarity {
    /// Draws the hashes and the orders for signatures of `bins` positions.
    pub(super) fn new(bins: usize, rng: &mut SplitMix64) -> Self {
        let rounds = std::array::from_fn(|_| Throw { key: rng.next_u64(), factor: rng.next_u64() | 1 });
        Self { rounds, orders: super::affine32(bins, rng) }
    }

    /// Writes the signature of a set to `signature`, [`EMPTY`] at every position for the empty set.
    pub(super) fn sign(&self, kernel: Level, features: &[u64], signature: &mut [u32]) {
        signature.fill(EMPTY);
        if features.is_empty() {
            return;
        }
        for (round, throw) in (0u32..).zip(self.rounds) {
            kernel.throw(throw, round, features, signature);
            // No later round can put anything below what all bins have.
            if !signature.contains(&EMPTY) {
                return;
            }
        }
        self.fill(kernel, features, signature);
    }

    /// Gives every empty bin the least value of a feature in the bin's own order.
    fn fill(&self, kernel: Level, features: &[u64], signature: &mut [u32]) {
        let mut functions = Affine { a: [0; BLOCK], b: [0; BLOCK] };
        let (mut waiting, mut count) = ([0; BLOCK], 0);
        let flush = |functions: &Affine, waiting: &[usize], signature: &mut [u32]| {
            let mut minima = [EMPTY; BLOCK];
            kernel.minima32(std::slice::from_ref(functions), features, &mut minima);
            for (&bin, least) in waiting.iter().zip(minima) {
                // The last value is left to the empty set.
                signature[bin] = (LATE | least >> 1).min(EMPTY - 1);
            }
        };
        for bin in 0..signature.len() {
            if signature[bin] != EMPTY {
                continue;
            }
            let (block, at) = (&self.orders[bin / BLOCK], bin % BLOCK);
            (functions.a[count], functions.b[count], waiting[count]) = (block.a[at], block.b[at], bin);
            count += 1;
            if count == BLOCK {
                flush(&functions, &waiting, signature);
                count = 0;
            }
        }
        // A block for a few takes as long as a full one.
        if count > FEW {
            flush(&functions, &waiting[..count], signature);
            return;
        }
        for at in 0..count {
            let least = kernel.minimum32(functions.a[at], functions.b[at], features);
            signature[waiting[at]] = (LATE | least >> 1).min(EMPTY - 1);
        }
    }
}

/// The probability that two bins were filled in the same round, for a set of `features`: their features are
/// then different ones, where features of different rounds may be the same.
#[cfg(test)]
pub(super) fn same_round(bins: usize, features: usize) -> f64 {
    let (m, f) = (bins as f64, features as f64);
    let (one_empty, both_empty) = ((1.0 - 1.0 / m).powf(f), (1.0 - 2.0 / m).powf(f));
    let both_filled = 1.0 - 2.0 * one_empty + both_empty;
    // The geometric sum over the rounds: both were empty in all before.
    if both_empty >= 1.0 {
        0.0
    } else {
        both_filled * (1.0 - both_empty.powi(ROUNDS as i32)) / (1.0 - both_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::minhash::VALUE_BITS;
    use proptest::prelude::*;

    /// The definition, bin by bin: the first round that throws a feature there decides, else the bin's order.
    fn naive(sketch: &FastSimilarity, features: &[u64], bins: usize) -> Vec<u32> {
        let of = |bin: usize| {
            let thrown = (0u32..).zip(sketch.rounds).find_map(|(round, throw)| {
                let places = features.iter().map(|&feature| throw.place(feature, bins));
                let least = places.filter(|&(at, _)| at == bin).map(|(_, value)| value).min()?;
                Some(round << VALUE_BITS | least)
            });
            let (a, b) =
                (sketch.orders[bin / BLOCK].a[bin % BLOCK], sketch.orders[bin / BLOCK].b[bin % BLOCK]);
            let late = features.iter().map(|&x| a.wrapping_mul(x as u32).wrapping_add(b)).min();
            thrown.or_else(|| Some((LATE | late? >> 1).min(EMPTY - 1))).unwrap_or(EMPTY)
        };
        (0..bins).map(of).collect()
    }

    proptest! {
        #[test]
        fn signatures_are_those_of_the_definition(
            features in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..4], 0..300), bins in 1usize..200, seed: u64,
        ) {
            let sketch = FastSimilarity::new(bins, &mut SplitMix64::new(seed));
            for kernel in Level::available() {
                let mut signature = vec![7; bins];
                sketch.sign(kernel, &features, &mut signature);
                prop_assert_eq!(&signature, &naive(&sketch, &features, bins), "{}", kernel.name());
            }
        }

        #[test]
        fn the_signature_of_a_union_is_the_least_of_both(
            a in prop::collection::vec(any::<u64>(), 1..200), b in prop::collection::vec(any::<u64>(), 1..200), bins in 1usize..200,
        ) {
            let sketch = FastSimilarity::new(bins, &mut SplitMix64::new(bins as u64));
            let sign = |features: &[u64]| {
                let mut signature = vec![0; bins];
                sketch.sign(Level::in_use(), features, &mut signature);
                signature
            };
            let least: Vec<u32> = sign(&a).into_iter().zip(sign(&b)).map(|(a, b)| a.min(b)).collect();
            prop_assert_eq!(sign(&[a, b].concat()), least);
        }
    }

    #[test]
    fn bins_share_a_round_as_often_as_computed() {
        const BINS: usize = 64;
        let mut rng = SplitMix64::new(5);
        for features in [1, 3, 20, 64, 300, 2_000] {
            let (mut same, mut pairs) = (0, 0);
            for seed in 0..400 {
                let sketch = FastSimilarity::new(BINS, &mut SplitMix64::new(seed));
                let set: Vec<u64> = (0..features).map(|_| rng.next_u64()).collect();
                let mut signature = vec![0; BINS];
                sketch.sign(Level::in_use(), &set, &mut signature);
                for pair in signature.chunks(2) {
                    pairs += 1;
                    same += usize::from(pair[0] < LATE && pair[0] >> VALUE_BITS == pair[1] >> VALUE_BITS);
                }
            }
            let (theory, share) = (same_round(BINS, features), f64::from(same as u32) / f64::from(pairs));
            assert!((share - theory).abs() < 0.02, "{features}: {share} {theory}");
        }
    }
}
