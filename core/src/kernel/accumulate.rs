//! SimHash's inner loop: for each of the 64 bits, the sum of the weights of the features whose hash has that
//! bit. Where all weigh the same, these features are counted.

use super::cpu::{Isa, Level};

impl Level {
    /// Adds to each `sums[j]` the total of `weights[i]` over all features `i` whose `hashes[i]` has bit `j`. The sums
    /// are integers, so every level and every order of features gives the same.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn accumulate(self, hashes: &[u64], weights: &[i64], sums: &mut [i64; 64]) {
        assert_eq!(hashes.len(), weights.len(), "one weight a feature");
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::avx2(hashes, weights, sums) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::avx512(hashes, weights, sums) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::neon(hashes, weights, sums) },
            _ => scalar(hashes, weights, sums),
        }
    }

    /// Adds to each `counts[j]` the number of `hashes` that have bit `j`.
    #[inline]
    pub fn count_bits(self, hashes: &[u64], counts: &mut [i64; 64]) {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::count_avx2(hashes, counts) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::count_avx512(hashes, counts) },
            _ => count_scalar(hashes, counts),
        }
    }
}

/// The twin: eight bytes, each the count of a bit, in a general register, for up to 255 features.
fn count_scalar(hashes: &[u64], counts: &mut [i64; 64]) {
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    for hashes in hashes.chunks(255) {
        let mut sums = [0u64; 8];
        for &hash in hashes {
            for (bit, sum) in sums.iter_mut().enumerate() {
                // Bit `bit` of each byte.
                *sum += hash >> bit & LOWEST;
            }
        }
        for (bit, sum) in sums.into_iter().enumerate() {
            for (byte, count) in sum.to_le_bytes().into_iter().enumerate() {
                counts[8 * byte + bit] += i64::from(count);
            }
        }
    }
}

/// The twin, and the kernel of processors without vectors.
fn scalar(hashes: &[u64], weights: &[i64], sums: &mut [i64; 64]) {
    for (&hash, &weight) in hashes.iter().zip(weights) {
        for (j, sum) in sums.iter_mut().enumerate() {
            // All ones where the bit is set.
            *sum += weight & ((hash >> j & 1) as i64).wrapping_neg();
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Hashes whose bits are added up before they are counted.
    const BLOCK: usize = 128;

    /// Adds up each bit over sixteen registers of eight hashes, by full adders (Harley & Seal, in Warren, *Hacker's
    /// Delight*). Every carry to sixteen is counted as it comes, and the sums below sixteen at the end.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn count_avx512(hashes: &[u64], counts: &mut [i64; 64]) {
        // One block is not worth what is counted of its sums at the end.
        let (blocks, rest) =
            if hashes.len() < 2 * BLOCK { (&[][..], hashes) } else { hashes.as_chunks::<BLOCK>() };
        few_avx512(rest, 1, counts);
        // Ones, twos, fours and eights.
        let mut sums = [_mm512_setzero_si512(); 4];
        for blocks in blocks.chunks(MOST_AT_ONCE / 8) {
            let mut carried = [[0u64; 8]; MOST_AT_ONCE / 8];
            for (block, carried) in blocks.iter().zip(&mut carried) {
                let hashes = block.as_chunks::<8>().0;
                // SAFETY: there are 64 bytes, and the load may be unaligned.
                let load = |at: usize| unsafe { _mm512_loadu_si512(hashes[at].as_ptr().cast()) };
                let mut eights = [_mm512_setzero_si512(); 2];
                for (half, eights) in eights.iter_mut().enumerate() {
                    let mut fours = [_mm512_setzero_si512(); 2];
                    for (quarter, fours) in fours.iter_mut().enumerate() {
                        let mut twos = [_mm512_setzero_si512(); 2];
                        for (eighth, twos) in twos.iter_mut().enumerate() {
                            let first = 8 * half + 4 * quarter + 2 * eighth;
                            (sums[0], *twos) = add(sums[0], load(first), load(first + 1));
                        }
                        (sums[1], *fours) = add(sums[1], twos[0], twos[1]);
                    }
                    (sums[2], *eights) = add(sums[2], fours[0], fours[1]);
                }
                let sixteens;
                (sums[3], sixteens) = add(sums[3], eights[0], eights[1]);
                // SAFETY: there are 64 bytes, and the store may be unaligned.
                unsafe { _mm512_storeu_si512(carried.as_mut_ptr().cast(), sixteens) };
            }
            few_avx512(carried[..blocks.len()].as_flattened(), 16, counts);
        }
        if !blocks.is_empty() {
            for (power, sum) in sums.into_iter().enumerate() {
                let mut left = [0u64; 8];
                // SAFETY: there are 64 bytes, and the store may be unaligned.
                unsafe { _mm512_storeu_si512(left.as_mut_ptr().cast(), sum) };
                few_avx512(&left, 1 << power, counts);
            }
        }
    }

    /// The sums of three bits each, and what they carry.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn add(a: __m512i, b: __m512i, c: __m512i) -> (__m512i, __m512i) {
        const ODD: i32 = 0x96;
        const MOST: i32 = 0xe8;
        (_mm512_ternarylogic_epi64::<ODD>(a, b, c), _mm512_ternarylogic_epi64::<MOST>(a, b, c))
    }

    /// The sums that fit a byte, in whole registers of eight hashes.
    const MOST_AT_ONCE: usize = 248;

    /// Counts in 64 bytes, each added to under a mask that is the hash itself, and widened before one is full. Each
    /// hash counts for `worth`.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn few_avx512(hashes: &[u64], worth: i64, counts: &mut [i64; 64]) {
        let one = _mm512_set1_epi8(1);
        for hashes in hashes.chunks(MOST_AT_ONCE) {
            let mut sums = _mm512_setzero_si512();
            for &hash in hashes {
                sums = _mm512_mask_add_epi8(sums, hash, sums, one);
            }
            let mut bytes = [0u8; 64];
            // SAFETY: `bytes` has 64 bytes that we hold; the store may be unaligned.
            unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), sums) };
            counts.iter_mut().zip(bytes).for_each(|(count, sum)| *count += worth * i64::from(sum));
        }
    }

    /// Counts with two registers of 32 bytes. Each byte of the hash is copied to the eight counts of its bits, where
    /// the bit makes it all ones, which is −1.
    #[target_feature(enable = "avx2")]
    pub(super) fn count_avx2(hashes: &[u64], counts: &mut [i64; 64]) {
        let eight = |a: i64, b: i64, c: i64, d: i64| {
            const EACH: i64 = 0x0101_0101_0101_0101;
            _mm256_set_epi64x(d * EACH, c * EACH, b * EACH, a * EACH)
        };
        let copies = [eight(0, 1, 2, 3), eight(4, 5, 6, 7)];
        let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
        for hashes in hashes.chunks(255) {
            let mut sums = [_mm256_setzero_si256(); 2];
            for &hash in hashes {
                let hash = _mm256_set1_epi64x(hash as i64);
                for (sum, copy) in sums.iter_mut().zip(copies) {
                    let own = _mm256_and_si256(_mm256_shuffle_epi8(hash, copy), bits);
                    *sum = _mm256_sub_epi8(*sum, _mm256_cmpeq_epi8(own, bits));
                }
            }
            for (sum, counts) in sums.into_iter().zip(counts.as_chunks_mut::<32>().0) {
                let mut bytes = [0u8; 32];
                // SAFETY: `bytes` has 32 bytes that we hold; the store may be unaligned.
                unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), sum) };
                counts.iter_mut().zip(bytes).for_each(|(count, sum)| *count += i64::from(sum));
            }
        }
    }

    /// Eight sums a register, added under a mask that is a byte of the hash.
    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(hashes: &[u64], weights: &[i64], sums: &mut [i64; 64]) {
        let mut lanes = [_mm512_setzero_si512(); 8];
        for (&hash, &weight) in hashes.iter().zip(weights) {
            let weight = _mm512_set1_epi64(weight);
            for (byte, lane) in hash.to_le_bytes().into_iter().zip(&mut lanes) {
                *lane = _mm512_mask_add_epi64(*lane, byte, *lane, weight);
            }
        }
        for (lane, sums) in lanes.into_iter().zip(sums.as_chunks_mut::<8>().0) {
            let sums: *mut [i64; 8] = sums;
            // SAFETY: `sums` points to 64 bytes that we hold exclusively; unaligned access is asked for.
            unsafe {
                let old = _mm512_loadu_si512(sums.cast());
                _mm512_storeu_si512(sums.cast(), _mm512_add_epi64(old, lane));
            }
        }
    }

    /// Four sums a register; a lane's mask is the comparison of the hash with the lane's bit. In four sweeps
    /// of four registers each, so that sums and bits stay in registers.
    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(hashes: &[u64], weights: &[i64], sums: &mut [i64; 64]) {
        for (sweep, sums) in sums.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let bit = |lane: usize| {
                let first = 16 * sweep + 4 * lane;
                _mm256_set_epi64x(1 << (first + 3), 1 << (first + 2), 1 << (first + 1), 1 << first)
            };
            let bits = [bit(0), bit(1), bit(2), bit(3)];
            let mut lanes = [_mm256_setzero_si256(); 4];
            for (&hash, &weight) in hashes.iter().zip(weights) {
                let hash = _mm256_set1_epi64x(hash as i64);
                let weight = _mm256_set1_epi64x(weight);
                for (lane, &bit) in lanes.iter_mut().zip(&bits) {
                    let mask = _mm256_cmpeq_epi64(_mm256_and_si256(hash, bit), bit);
                    *lane = _mm256_add_epi64(*lane, _mm256_and_si256(mask, weight));
                }
            }
            for (lane, sums) in lanes.into_iter().zip(sums.as_chunks_mut::<4>().0) {
                let sums: *mut [i64; 4] = sums;
                // SAFETY: `sums` points to 32 bytes that we hold exclusively; unaligned access is asked for.
                unsafe {
                    let old = _mm256_loadu_si256(sums.cast());
                    _mm256_storeu_si256(sums.cast(), _mm256_add_epi64(old, lane));
                }
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;

    /// The weights' lower halves, and where they have any, the upper halves.
    #[target_feature(enable = "neon")]
    pub(super) fn neon(hashes: &[u64], weights: &[i64], sums: &mut [i64; 64]) {
        half::<0>(hashes, weights, sums);
        if weights.iter().any(|weight| weight >> 32 != 0) {
            half::<32>(hashes, weights, sums);
        }
    }

    /// Adds the 32 bits of the weights from bit `SHIFT` on, as numbers without sign: modulo 2⁶⁴ the upper
    /// half's sign makes no difference.
    ///
    /// Four masks a register, which are added to sums of twice the width. In a sweep for each half of the
    /// hash, so that sums and bits stay in registers; the compiler keeps the sums of the scalar loop in
    /// memory.
    #[target_feature(enable = "neon")]
    fn half<const SHIFT: i32>(hashes: &[u64], weights: &[i64], sums: &mut [i64; 64]) {
        let bits: [uint32x4_t; 8] = std::array::from_fn(|i| {
            let pair = |first: usize| vcreate_u32(1 << (first + 1) << 32 | 1 << first);
            vcombine_u32(pair(4 * i), pair(4 * i + 2))
        });
        for (sweep, sums) in sums.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let mut lanes = [vdupq_n_u64(0); 16];
            for (&hash, &weight) in hashes.iter().zip(weights) {
                let hash = vdupq_n_u32((hash >> (32 * sweep)) as u32);
                let weight = vdupq_n_u32((weight >> SHIFT) as u32);
                for (lanes, &bits) in lanes.as_chunks_mut::<2>().0.iter_mut().zip(&bits) {
                    let added = vandq_u32(vtstq_u32(hash, bits), weight);
                    *lanes = [vaddw_u32(lanes[0], vget_low_u32(added)), vaddw_high_u32(lanes[1], added)];
                }
            }
            for (lane, sums) in lanes.into_iter().zip(sums.as_chunks_mut::<2>().0) {
                let (sums, added) = (sums.as_mut_ptr(), vreinterpretq_s64_u64(vshlq_n_u64::<SHIFT>(lane)));
                // SAFETY: `sums` points to two numbers that we hold exclusively; access may be unaligned.
                unsafe { vst1q_s64(sums, vaddq_s64(vld1q_s64(sums), added)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_kernel_counts_bits_as_sums_of_ones(
            hashes in prop_oneof![0usize..900, 3_800usize..4_300].prop_flat_map(|length| {
                prop::collection::vec(prop_oneof![Just(u64::MAX), any::<u64>()], length)
            }),
            start in -9i64..9,
        ) {
            let mut want = [start; 64];
            scalar(&hashes, &vec![1; hashes.len()], &mut want);
            let mut got = [start; 64];
            count_scalar(&hashes, &mut got);
            prop_assert_eq!(got, want);
            for level in Level::available() {
                let mut got = [start; 64];
                level.count_bits(&hashes, &mut got);
                prop_assert_eq!(got, want, "{:?}", level);
            }
        }

        #[test]
        fn every_kernel_gives_the_sums_of_the_scalar_one(
            mut features in prop::collection::vec((any::<u64>(), -(1i64 << 45)..1 << 45), 0..80),
            kept in prop::sample::select(&[-1i64, 0xffff_ffff, 0x1_ffff_ffff][..]),
            start in -1000i64..1000,
        ) {
            features.iter_mut().for_each(|(_, weight)| *weight &= kept);
            let (hashes, weights): (Vec<u64>, Vec<i64>) = features.into_iter().unzip();
            let mut want = [start; 64];
            scalar(&hashes, &weights, &mut want);
            for level in Level::available() {
                let mut got = [start; 64];
                level.accumulate(&hashes, &weights, &mut got);
                prop_assert_eq!(got, want, "{:?}", level);
            }
        }
    }
}
