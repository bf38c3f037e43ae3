//! Counts the bits in which two rows of words differ.

use super::cpu::{Isa, Level};

impl Level {
    /// Number of bits in which two rows differ; the longer one's surplus is not looked at.
    #[inline]
    pub fn differing(self, a: &[u64], b: &[u64]) -> u32 {
        match self.isa() {
            Isa::Portable => portable(a, b),
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt | Isa::Avx2 | Isa::Avx512 => unsafe { x86::popcnt(a, b) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Popcnt | Isa::Avx512Vbmi => unsafe { x86::avx512(a, b) },
            // NEON counts bits as the compiler uses it.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => portable(a, b),
        }
    }
}

/// The definition. Inlined where hardware counting is allowed, it uses it.
#[inline(always)]
fn portable(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "popcnt")]
    pub fn popcnt(a: &[u64], b: &[u64]) -> u32 {
        super::portable(a, b)
    }

    /// Eight words at a time, the last few one by one.
    #[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
    pub fn avx512(a: &[u64], b: &[u64]) -> u32 {
        let words = a.len().min(b.len());
        let ((a, last_a), (b, last_b)) = (a[..words].as_chunks::<8>(), b[..words].as_chunks::<8>());
        let mut sums = _mm512_setzero_si512();
        for (a, b) in a.iter().zip(b) {
            // SAFETY: both are eight words; the loads may be unaligned.
            let (a, b) =
                unsafe { (_mm512_loadu_epi64(a.as_ptr().cast()), _mm512_loadu_epi64(b.as_ptr().cast())) };
            sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(_mm512_xor_si512(a, b)));
        }
        _mm512_reduce_add_epi64(sums) as u32 + super::portable(last_a, last_b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_level_counts_alike(a in prop::collection::vec(any::<u64>(), 0..40), seed: u64, longer in 0usize..3) {
            let mut b: Vec<u64> = a.iter().map(|word| word ^ seed).collect();
            b.extend(std::iter::repeat_n(seed, longer));
            let naive: u32 = a.iter().zip(&b).map(|(a, b)| (0..64).filter(|i| (a ^ b) >> i & 1 == 1).count() as u32).sum();
            for level in Level::available() {
                prop_assert_eq!(level.differing(&a, &b), naive, "{}", level.name());
                prop_assert_eq!(level.differing(&b, &a), naive, "{}", level.name());
            }
        }
    }
}
