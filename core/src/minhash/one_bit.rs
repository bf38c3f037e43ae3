//! One bit of each MinHash value of a signature (b-bit minwise hashing with b = 1; Li & König 2010). Where the values
//! of two sets differ, half of these bits are still equal. So the Jaccard similarity is twice the share of equal bits,
//! less one. A value of 32 bits takes the memory of 32 values of one bit, whose estimate is better.

use crate::kernel::Level;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Writes one bit of each value of a signature to `bits`, 64 to a word. All bits of the value decide it, for values of
/// the same few features differ in some bits alone.
///
/// # Panics
/// If `signature` does not have as many positions as `bits` has bits.
pub fn pack(signature: &[u32], bits: &mut [u64]) {
    Level::in_use().pack_mixed(signature, bits);
}

/// One bit of each of the first values of a signature, as [`pack`] gives them. Positions that a shorter signature does
/// not have count as 0.
pub(crate) fn pack_first<const WORDS: usize>(signature: impl IntoIterator<Item = u32>) -> [u64; WORDS] {
    let (mut first, mut bits) = ([[0; WORD]; WORDS], [0; WORDS]);
    first.as_flattened_mut().iter_mut().zip(signature).for_each(|(to, value)| *to = value);
    pack(first.as_flattened(), &mut bits);
    bits
}

/// The Jaccard similarity, 0 to 1, that the packed bits of two signatures of one length estimate. It is 0 without bits.
#[inline]
pub fn estimate(a: &[u64], b: &[u64]) -> f32 {
    estimate_of(Level::in_use().differing(a, b), a.len())
}

/// The estimate from the number of bits that differ, of all bits of `words` words.
#[inline]
pub(crate) fn estimate_of(differing: u32, words: usize) -> f32 {
    match words {
        0 => 0.0,
        _ => (1.0 - 2.0 * differing as f32 / (words * WORD) as f32).max(0.0),
    }
}

/// The standard error of [`estimate`] from `bits` bits, at a Jaccard similarity J: √((1 − J²) / bits).
pub fn standard_error(similarity: f64, bits: usize) -> f64 {
    ((1.0 - similarity * similarity) / bits as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::minhash::{Family, MinHashParams, MinHasher};

    /// The bit of a position.
    fn bit(position: u32) -> u32 {
        let mut word = [0];
        pack(&[position; WORD], &mut word);
        word[0] as u32 & 1
    }

    #[test]
    fn bits_estimate_the_coefficient_with_the_error_of_theory() {
        const BITS: usize = 512;
        let mut rng = SplitMix64::new(3);
        // (shared, all): tiny, short and longer sets.
        for (shared, all, pairs) in [
            (1u32, 2u32, 3_000),
            (4, 5, 3_000),
            (9, 10, 2_000),
            (40, 50, 2_000),
            (240, 300, 1_000),
            (4_000, 5_000, 200),
        ] {
            let similarity = f64::from(shared) / f64::from(all);
            let mut errors = Vec::new();
            for seed in 0..pairs {
                let params = MinHashParams { permutations: BITS, family: Family::FastSimilarity, seed };
                let hasher = MinHasher::new(params).unwrap();
                let features: Vec<u64> = (0..all).map(|_| rng.next_u64()).collect();
                let middle = (shared + (all - shared) / 2) as usize;
                let other = [&features[..shared as usize], &features[middle..]].concat();
                let bits = [&features[..middle], &other[..]].map(|set| {
                    let (mut signature, mut bits) = (vec![0; BITS], [0; BITS / WORD]);
                    hasher.sign(set, &mut signature);
                    pack(&signature, &mut bits);
                    bits
                });
                // Unclamped, which the estimate at these coefficients hardly ever is.
                errors.push(f64::from(estimate(&bits[0], &bits[1])) - similarity);
            }
            let n = errors.len() as f64;
            let mean = errors.iter().sum::<f64>() / n;
            let deviation = (errors.iter().map(|e| e * e).sum::<f64>() / n).sqrt();
            let theory = standard_error(similarity, BITS);
            assert!(mean.abs() < 4.0 * theory / n.sqrt(), "{shared}/{all}: bias {mean}");
            // The signature itself errs, too, and large sets draw without replacement, so a little less.
            assert!((0.85..1.08).contains(&(deviation / theory)), "{shared}/{all}: {deviation} {theory}");
        }
    }

    #[test]
    fn every_position_has_its_bit() {
        let mut signature = [5u32; 128];
        let (mut before, mut after) = ([0; 2], [0; 2]);
        pack(&signature, &mut before);
        for at in 0..128 {
            // Some other position has the other bit.
            signature[at] = (6..).find(|&position| bit(position) != bit(5)).unwrap();
            pack(&signature, &mut after);
            assert_eq!(after[at / 64] ^ before[at / 64], 1 << (at % 64));
            before = after;
        }
    }

    #[test]
    fn bits_fall_either_way() {
        let ones: u32 = (0..10_000).map(|i| bit(i << 7)).sum();
        assert!((4_800..5_200).contains(&ones), "{ones}");
        assert_eq!(estimate(&[], &[]), 0.0);
        assert_eq!(estimate(&[u64::MAX, 7], &[u64::MAX, 7]), 1.0);
        assert_eq!(estimate(&[0], &[u64::MAX]), 0.0);
    }
}
