//! The inner loops of MinHash: throwing a set into bins, the least value of many affine functions over a set, and
//! counting equal values. A set is a list of features, which are 64-bit hashes. A signature is the list of its MinHash
//! values, 32 bits at each position; where features are thrown, the positions are the bins.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use super::cpu::{Isa, Level};
use crate::hash::folded;

/// The number of functions that are evaluated together: their minima fit the registers of every level.
pub const BLOCK: usize = 32;

/// [`BLOCK`] functions `x → a·x + b mod 2³²`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// The factors.
    pub a: [u32; BLOCK],
    /// The summands.
    pub b: [u32; BLOCK],
}

/// The lower bits of a bin's value, which come from the hash of a feature. The round stands above them, so that a value
/// of an earlier round is less.
pub const VALUE_BITS: u32 = 28;

/// Features from which on it pays to look first which bins are empty: for 20 it takes 1.7 times as long as to throw
/// all of them.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 128;

/// The value of a bin that no feature was thrown into.
pub const EMPTY: u32 = u32::MAX;

/// The hash by which one round throws features into bins. It says the bin of a feature, and its value there. Both come
/// from one multiplication, whose product's halves are put together by exclusive or.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throw {
    /// The key that a feature is combined with by exclusive or.
    pub key: u64,
    /// The factor that multiplies the result.
    pub factor: u64,
}

impl Throw {
    /// The hash of a feature.
    #[inline(always)]
    fn hash(self, feature: u64) -> u64 {
        folded(feature ^ self.key, self.factor)
    }

    /// The bin of a feature, and its value there.
    #[cfg(test)]
    pub fn place(self, feature: u64, bins: usize) -> (usize, u32) {
        place(self.hash(feature), bins)
    }
}

#[inline(always)]
fn place(hash: u64, bins: usize) -> (usize, u32) {
    ((((hash >> 32) * bins as u64) >> 32) as usize, hash as u32 & ((1 << VALUE_BITS) - 1))
}

/// Puts hashes into the bins of a signature: each bin falls to the least value, with the round's bits in `before`.
#[inline(always)]
fn put(hashes: impl Iterator<Item = u64>, before: u32, signature: &mut [u32]) {
    for hash in hashes {
        let (bin, value) = place(hash, signature.len());
        let least = &mut signature[bin];
        *least = (*least).min(before | value);
    }
}

impl Level {
    /// Throws all features into the bins of `signature`. Each [`EMPTY`] bin gets the least
    /// `round << VALUE_BITS | value` of the features that fall into it, and stays empty without any. The other bins
    /// must have values of earlier rounds.
    ///
    /// # Panics
    /// For a signature of no bins, unless there is no feature.
    pub(crate) fn throw(self, throw: Throw, round: u32, features: &[u64], signature: &mut [u32]) {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi if features.len() >= MANY => unsafe {
                x86_64::avx512::throw(throw, round, features, signature)
            },
            _ => portable::throw(throw, round, features, signature),
        }
    }

    /// The least `a·x + b mod 2³²` over all features, where `x` is the low half of one; `u32::MAX` without features. A
    /// block of functions takes longer than a few of these.
    pub fn minimum32(self, a: u32, b: u32, features: &[u64]) -> u32 {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512Vbmi => unsafe { x86_64::avx2::minimum32(a, b, features) },
            _ => minimum32(a, b, features),
        }
    }

    /// Sets `minima[i]` to the least `a·x + b mod 2³²` of function `i` over all features, where `x` is the low half of
    /// one. Functions are counted through the blocks.
    ///
    /// No features give `u32::MAX`. Positions beyond the functions are left alone.
    pub(crate) fn minima32(self, functions: &[Affine], features: &[u64], minima: &mut [u32]) {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86_64::avx2::minima32(functions, features, minima) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86_64::avx512::minima32(functions, features, minima) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::minima32(functions, features, minima) },
            _ => portable::minima32(functions, features, minima),
        }
    }

    /// Counts the positions at which two signatures are equal. Positions that only the longer one has do not count.
    #[inline]
    pub fn matches(self, a: &[u32], b: &[u32]) -> usize {
        match self.isa() {
            // Signatures are short: adding up the longer vectors at the end costs more than they save.
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512Vbmi => unsafe { x86_64::avx2::matches(a, b) },
            _ => portable::matches(a, b),
        }
    }
}

mod portable {
    use super::{Affine, BLOCK, Throw, VALUE_BITS, put};

    pub(super) fn throw(throw: Throw, round: u32, features: &[u64], signature: &mut [u32]) {
        let hashes = features.iter().map(|&feature| throw.hash(feature));
        put(hashes, round << VALUE_BITS, signature);
    }

    pub(super) fn minima32(functions: &[Affine], features: &[u64], minima: &mut [u32]) {
        for (Affine { a, b }, out) in functions.iter().zip(minima.chunks_mut(BLOCK)) {
            // A block's minima stay in registers while the features pass by.
            let mut least = [u32::MAX; BLOCK];
            for &x in features {
                for i in 0..BLOCK {
                    least[i] = least[i].min(a[i].wrapping_mul(x as u32).wrapping_add(b[i]));
                }
            }
            out.copy_from_slice(&least[..out.len()]);
        }
    }

    pub(super) fn matches(a: &[u32], b: &[u32]) -> usize {
        // Counted in 32 bits, as wide as the numbers compared, so that the loop is vectorised without
        // conversions.
        a.iter().zip(b).map(|(x, y)| u32::from(x == y)).sum::<u32>() as usize
    }
}

/// The definition. Inlined where there are vectors, it uses them.
#[inline(always)]
fn minimum32(a: u32, b: u32, features: &[u64]) -> u32 {
    features.iter().map(|&x| a.wrapping_mul(x as u32).wrapping_add(b)).min().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;

    fn functions(blocks: usize, seed: u64) -> Vec<Affine> {
        let mut rng = SplitMix64::new(seed);
        let mut draw = || std::array::from_fn(|_| rng.next_u64() as u32);
        (0..blocks).map(|_| Affine { a: draw(), b: draw() }).collect()
    }

    /// The definition, one function and one feature at a time.
    fn naive(f: &[Affine], features: &[u64], i: usize) -> u32 {
        let (a, b) = (u64::from(f[i / BLOCK].a[i % BLOCK]), u64::from(f[i / BLOCK].b[i % BLOCK]));
        let value = |x: u64| ((u128::from(a) * u128::from(x) + u128::from(b)) % (1 << 32)) as u32;
        features.iter().map(|&x| value(x)).min().unwrap_or(u32::MAX)
    }

    fn features() -> impl Strategy<Value = Vec<u64>> {
        let extreme = prop_oneof![
            any::<u64>(),
            prop::sample::select(vec![0, 1, u64::MAX, 1 << 31, (1 << 32) - 1, 1 << 32]),
        ];
        prop::collection::vec(extreme, 0..20)
    }

    /// The definition: bin by bin the least of what lands there.
    fn naive_throw(throw: Throw, round: u32, features: &[u64], signature: &[u32]) -> Vec<u32> {
        let bins = signature.len();
        let least = |bin| {
            let places = features.iter().map(|&feature| throw.place(feature, bins));
            places.filter(|&(at, _)| at == bin).map(|(_, value)| round << VALUE_BITS | value).min()
        };
        let of = |(bin, &had)| if had == EMPTY { least(bin).unwrap_or(EMPTY) } else { had };
        signature.iter().enumerate().map(of).collect()
    }

    proptest! {
        #[test]
        fn every_kernel_throws_into_empty_bins(
            features in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..4, (0u64..4).prop_map(|x| !x)], 0..700),
            bins in prop_oneof![1usize..1200, Just(64), Just(512), Just(1024), Just(1025)],
            filled in 0u64..=8,
            round in 1u32..6,
            keys: (u64, u64),
            seed: u64,
        ) {
            let throw = Throw { key: keys.0, factor: keys.1 };
            let mut rng = SplitMix64::new(seed);
            let earlier: Vec<u32> = (0..bins)
                .map(|_| if rng.below(8) < filled { rng.below(1 << VALUE_BITS) as u32 } else { EMPTY })
                .collect();
            let expected = naive_throw(throw, round, &features, &earlier);
            for kernel in Level::available() {
                let mut signature = earlier.clone();
                kernel.throw(throw, round, &features, &mut signature);
                prop_assert_eq!(&signature, &expected, "{}", kernel.name());
            }
        }

        #[test]
        fn every_kernel_computes_the_definition(seed: u64, features in features(), m in 0usize..300) {
            let functions = functions(m.div_ceil(BLOCK), seed);
            for kernel in Level::available() {
                let mut minima = vec![7; m];
                kernel.minima32(&functions, &features, &mut minima);
                for (i, &value) in minima.iter().enumerate() {
                    prop_assert_eq!(value, naive(&functions, &features, i), "{} {}", kernel.name(), i);
                    let (a, b) = (functions[i / BLOCK].a[i % BLOCK], functions[i / BLOCK].b[i % BLOCK]);
                    prop_assert_eq!(kernel.minimum32(a, b, &features), value, "{} {}", kernel.name(), i);
                }
            }
        }

        #[test]
        fn every_kernel_counts_equal_positions(a in prop::collection::vec(0u32..3, 0..200), seed: u64) {
            let mut rng = SplitMix64::new(seed);
            let b: Vec<u32> = a.iter().map(|_| rng.below(3) as u32).collect();
            let naive = (0..a.len()).filter(|&i| a[i] == b[i]).count();
            for kernel in Level::available() {
                prop_assert_eq!(kernel.matches(&a, &b), naive, "{}", kernel.name());
                prop_assert_eq!(kernel.matches(&a, &a), a.len());
                prop_assert_eq!(kernel.matches(&a, &b[..a.len() / 2]), kernel.matches(&a[..a.len() / 2], &b));
            }
        }
    }

    #[test]
    fn positions_beyond_the_functions_are_left_alone() {
        for kernel in Level::available() {
            let mut minima = [7; BLOCK + 1];
            kernel.minima32(&functions(1, 1), &[5], &mut minima);
            assert_eq!(minima[BLOCK], 7, "{}", kernel.name());
        }
    }
}
