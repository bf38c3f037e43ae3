//! Ranks a few dozen numbers by counting, which vector units do faster than any sort. The bits of a hash are ordered so
//! by volatility, with the bits of the floating-point |W| as keys.

use super::cpu::{Isa, Level};

/// The most numbers that can be ranked at once.
pub const MAX: usize = 64;

/// Up to this number of keys AVX2 is as fast as AVX-512 or faster, because masks take time.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 32;

impl Level {
    /// Writes to `ranks[i]`, for each of the first `n` keys, how many of them come before key `i`: smaller
    /// ones, and equal ones at an earlier place. Keys must not be negative; `n` above [`MAX`] counts as
    /// [`MAX`]. What is written beyond the first `n` ranks has no meaning.
    #[inline]
    pub fn ranks(self, keys: &[i32; MAX], n: usize, ranks: &mut [i32; MAX]) {
        let n = n.min(MAX);
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi if n > FEW => unsafe { x86::ranks_avx512(keys, n, ranks) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512Vbmi => unsafe { x86::ranks_avx2(keys, n, ranks) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::ranks_neon(keys, n, ranks) },
            _ => ranks_portable(keys, n, ranks),
        }
    }
}

fn ranks_portable(keys: &[i32; MAX], n: usize, ranks: &mut [i32; MAX]) {
    for (place, rank) in ranks[..n].iter_mut().enumerate() {
        let (earlier, later) = keys[..n].split_at(place);
        *rank = earlier.iter().map(|&key| i32::from(key <= keys[place])).sum::<i32>()
            + later.iter().map(|&key| i32::from(key < keys[place])).sum::<i32>();
    }
}

/// For each place i, with j over all places: key i > key j, or, where i > j, key i > key j − 1.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::MAX;

    #[target_feature(enable = "avx512f")]
    pub fn ranks_avx512(keys: &[i32; MAX], n: usize, ranks: &mut [i32; MAX]) {
        let one = _mm512_set1_epi32(1);
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let blocks = keys.as_chunks::<16>().0.iter().zip(ranks.as_chunks_mut::<16>().0);
        for ((mine, ranks), first) in blocks.zip((0..n as i32).step_by(16)) {
            // SAFETY: the chunk has sixteen numbers; the load may be unaligned.
            let mine = unsafe { _mm512_loadu_si512(mine.as_ptr().cast()) };
            let places = _mm512_add_epi32(lanes, _mm512_set1_epi32(first));
            let mut before = _mm512_setzero_si512();
            for (place, &key) in (0..).zip(&keys[..n]) {
                let key = _mm512_set1_epi32(key);
                let after = _mm512_cmpgt_epi32_mask(places, _mm512_set1_epi32(place));
                let bound = _mm512_mask_sub_epi32(key, after, key, one);
                before = _mm512_mask_add_epi32(before, _mm512_cmpgt_epi32_mask(mine, bound), before, one);
            }
            // SAFETY: as above, for the store.
            unsafe { _mm512_storeu_si512(ranks.as_mut_ptr().cast(), before) };
        }
    }

    #[target_feature(enable = "avx2")]
    pub fn ranks_avx2(keys: &[i32; MAX], n: usize, ranks: &mut [i32; MAX]) {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let blocks = keys.as_chunks::<8>().0.iter().zip(ranks.as_chunks_mut::<8>().0);
        for ((mine, ranks), first) in blocks.zip((0..n as i32).step_by(8)) {
            // SAFETY: the chunk has eight numbers; the load may be unaligned.
            let mine = unsafe { _mm256_loadu_si256(mine.as_ptr().cast()) };
            let places = _mm256_add_epi32(lanes, _mm256_set1_epi32(first));
            let mut before = _mm256_setzero_si256();
            for (place, &key) in (0..).zip(&keys[..n]) {
                // A comparison that holds gives −1.
                let after = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(place));
                let bound = _mm256_add_epi32(_mm256_set1_epi32(key), after);
                before = _mm256_sub_epi32(before, _mm256_cmpgt_epi32(mine, bound));
            }
            // SAFETY: as above, for the store.
            unsafe { _mm256_storeu_si256(ranks.as_mut_ptr().cast(), before) };
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;

    use super::MAX;

    /// Sixteen places at a time against all keys; the compiler's own vector code takes one place at a time.
    #[target_feature(enable = "neon")]
    pub fn ranks_neon(keys: &[i32; MAX], n: usize, ranks: &mut [i32; MAX]) {
        let blocks = keys.as_chunks::<16>().0.iter().zip(ranks.as_chunks_mut::<16>().0);
        for ((block, ranks), first) in blocks.zip((0..n).step_by(16)) {
            let mine: [int32x4_t; 4] = std::array::from_fn(|i| {
                // SAFETY: four of the block's sixteen numbers; the load may be unaligned.
                unsafe { vld1q_s32(block.as_ptr().add(4 * i)) }
            });
            let mut before = [vdupq_n_u32(0); 4];
            // A comparison that holds gives −1.
            for &key in &keys[..first] {
                for i in 0..4 {
                    before[i] = vsubq_u32(before[i], vcgeq_s32(mine[i], vdupq_n_s32(key)));
                }
            }
            for (place, &key) in (0u32..).zip(&block[..(n - first).min(16)]) {
                for i in 0..4 {
                    let places = vaddq_u32(lanes(), vdupq_n_u32(4 * i as u32));
                    let after = vreinterpretq_s32_u32(vcgtq_u32(places, vdupq_n_u32(place)));
                    let bound = vaddq_s32(vdupq_n_s32(key), after);
                    before[i] = vsubq_u32(before[i], vcgtq_s32(mine[i], bound));
                }
            }
            for &key in keys[..n].iter().skip(first + 16) {
                for i in 0..4 {
                    before[i] = vsubq_u32(before[i], vcgtq_s32(mine[i], vdupq_n_s32(key)));
                }
            }
            for (ranks, before) in ranks.as_chunks_mut::<4>().0.iter_mut().zip(before) {
                // SAFETY: four numbers; the store may be unaligned.
                unsafe { vst1q_s32(ranks.as_mut_ptr(), vreinterpretq_s32_u32(before)) };
            }
        }
    }

    /// 0, 1, 2 and 3.
    #[inline]
    #[target_feature(enable = "neon")]
    fn lanes() -> uint32x4_t {
        vcombine_u32(vcreate_u32(1 << 32), vcreate_u32(3 << 32 | 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_sorting(keys: &[i32]) -> Vec<i32> {
        let mut places: Vec<usize> = (0..keys.len()).collect();
        places.sort_by_key(|&place| (keys[place], place));
        let mut ranks = vec![0; keys.len()];
        for (rank, place) in (0..).zip(places) {
            ranks[place] = rank;
        }
        ranks
    }

    proptest! {
        #[test]
        fn counting_agrees_with_sorting(
            keys in prop::collection::vec(prop_oneof![0i32..4, 0..=i32::MAX, Just(i32::MAX)], 0..=MAX),
        ) {
            let mut padded = [0; MAX];
            padded[..keys.len()].copy_from_slice(&keys);
            let expected = by_sorting(&keys);
            let mut got = [0; MAX];
            for level in Level::available() {
                level.ranks(&padded, keys.len(), &mut got);
                prop_assert_eq!(&got[..keys.len()], &expected[..], "{:?}", level);
            }
        }
    }
}
