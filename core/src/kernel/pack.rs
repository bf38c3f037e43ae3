//! Packs bits, 64 to a word, the first in the lowest bit: one of each byte, or one that all bits of a number decide.

use super::cpu::{Isa, Level};

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

impl Level {
    /// Writes the lowest bit of each byte to `words`, in order.
    ///
    /// # Panics
    /// If there are not as many bytes as bits.
    #[inline]
    pub fn pack_bytes(self, bytes: &[u8], words: &mut [u64]) {
        assert_eq!(bytes.len(), words.len() * WORD, "a bit for each byte");
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512Vbmi => unsafe { x86::bytes(bytes, words) },
            _ => pack_bytes(bytes, words),
        }
    }

    /// Writes one bit for each number to `words`, in order. All bits of a number decide it, as in a hash.
    ///
    /// # Panics
    /// If there are not as many numbers as bits.
    #[inline]
    pub fn pack_mixed(self, numbers: &[u32], words: &mut [u64]) {
        assert_eq!(numbers.len(), words.len() * WORD, "a bit for each number");
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512Vbmi => unsafe { x86::mixed(numbers, words) },
            _ => pack_mixed(numbers, words),
        }
    }
}

/// Eight bytes at a time in a general register.
fn pack_bytes(bytes: &[u8], words: &mut [u64]) {
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<WORD>().0) {
        let eight = |bytes: &[u8; 8]| {
            (u64::from_le_bytes(*bytes) & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56
        };
        *word = bytes.as_chunks::<8>().0.iter().rev().fold(0, |word, bytes| word << 8 | eight(bytes));
    }
}

fn pack_mixed(numbers: &[u32], words: &mut [u64]) {
    for (word, numbers) in words.iter_mut().zip(numbers.as_chunks::<WORD>().0) {
        *word = numbers.iter().rev().fold(0, |word, &number| word << 1 | u64::from(mixed(number)));
    }
}

/// The factors by which a number is mixed.
const MIX: [u32; 2] = [0x2c1b_3c6d, 0x297a_2d39];

/// A bit of a number that all of its bits decide.
#[inline]
fn mixed(number: u32) -> u32 {
    let mixed = (number ^ number >> 15).wrapping_mul(MIX[0]);
    (mixed ^ mixed >> 12).wrapping_mul(MIX[1]) >> 31
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{MIX, WORD};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    pub(super) fn bytes(bytes: &[u8], words: &mut [u64]) {
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<WORD>().0) {
            let half = |bytes: &[u8; 32]| {
                // SAFETY: there are 32 bytes, and the load may be unaligned.
                let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
                // The lowest bit of each byte becomes its highest, whatever comes into it from the byte before.
                u64::from(_mm256_movemask_epi8(_mm256_slli_epi16::<7>(bytes)) as u32)
            };
            *word = bytes.as_chunks::<32>().0.iter().rev().fold(0, |word, bytes| word << 32 | half(bytes));
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn mixed(numbers: &[u32], words: &mut [u64]) {
        let factors = MIX.map(|factor| _mm256_set1_epi32(factor as i32));
        for (word, numbers) in words.iter_mut().zip(numbers.as_chunks::<WORD>().0) {
            let eight = |numbers: &[u32; 8]| {
                // SAFETY: there are 32 bytes, and the load may be unaligned.
                let numbers = unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
                let mixed = _mm256_xor_si256(numbers, _mm256_srli_epi32::<15>(numbers));
                let mixed = _mm256_mullo_epi32(mixed, factors[0]);
                let mixed = _mm256_xor_si256(mixed, _mm256_srli_epi32::<12>(mixed));
                let mixed = _mm256_mullo_epi32(mixed, factors[1]);
                _mm256_movemask_ps(_mm256_castsi256_ps(mixed)) as u64
            };
            *word =
                numbers.as_chunks::<8>().0.iter().rev().fold(0, |word, numbers| word << 8 | eight(numbers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_level_packs_the_bits_of_the_definition(words in 0usize..20, seed: u64) {
            let mut rng = SplitMix64::new(seed);
            let numbers: Vec<u32> = (0..words * WORD).map(|_| rng.next_u64() as u32).collect();
            let bytes: Vec<u8> = numbers.iter().map(|&number| number as u8).collect();
            let naive = |bit: &dyn Fn(usize) -> u32| -> Vec<u64> {
                (0..words).map(|word| (0..WORD).map(|at| u64::from(bit(word * WORD + at)) << at).sum()).collect()
            };
            let (of_bytes, of_numbers) = (naive(&|at| u32::from(bytes[at] & 1)), naive(&|at| mixed(numbers[at])));
            for level in Level::available() {
                let mut packed = vec![7; words];
                level.pack_bytes(&bytes, &mut packed);
                prop_assert_eq!(&packed, &of_bytes, "{}", level.name());
                level.pack_mixed(&numbers, &mut packed);
                prop_assert_eq!(&packed, &of_numbers, "{}", level.name());
            }
        }
    }
}
