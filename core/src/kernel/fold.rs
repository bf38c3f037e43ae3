//! The tokeniser's inner loop: 64 bytes folded and classed at once, as far as they are ASCII.

use super::cpu::{Isa, Level};

/// What 64 bytes are; bit `i` speaks of byte `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// ASCII letters and digits.
    pub alphanumeric: u64,
    /// Bytes that are not ASCII.
    pub other: u64,
}

impl Level {
    /// Copies 64 bytes to `folded`, where ASCII capital letters become small ones, and says what they are.
    #[inline]
    pub fn fold_ascii(self, bytes: &[u8; 64], folded: &mut [u8; 64]) -> Bytes {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 | Isa::Avx512Popcnt | Isa::Avx512Vbmi => unsafe {
                x86::avx2(bytes, folded)
            },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::neon(bytes, folded) },
            _ => portable(bytes, folded),
        }
    }
}

/// Eight bytes at a time in a general register.
fn portable(bytes: &[u8; 64], folded: &mut [u8; 64]) -> Bytes {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // A byte b < 0x80 plus (0x80 − low) has its high bit set iff b ≥ low, and does not reach the next byte.
    let at_least = |bytes: u64, low: u8| bytes + (0x80 - u64::from(low)) * ONES;
    let between = |bytes: u64, low: u8, high: u8| at_least(bytes, low) & !at_least(bytes, high + 1) & HIGH;
    // Gathers the high bits of eight bytes in one byte, the first byte's lowest.
    let gather = |high: u64| (high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let mut what = Bytes { alphanumeric: 0, other: 0 };
    for (at, (from, to)) in bytes.as_chunks::<8>().0.iter().zip(folded.as_chunks_mut::<8>().0).enumerate() {
        let word = u64::from_le_bytes(*from);
        let (other, low) = (word & HIGH, word & !HIGH);
        let letters = between(low | (0x20 * ONES), b'a', b'z') & !other;
        let digits = between(low, b'0', b'9') & !other;
        *to = (word | letters >> 2).to_le_bytes();
        what.alphanumeric |= gather(letters | digits) << (8 * at);
        what.other |= gather(other) << (8 * at);
    }
    what
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Bytes;
    use std::arch::x86_64::*;

    /// Two registers of 32 bytes. Bytes are compared as signed numbers: those beyond ASCII are negative, and
    /// so in no range.
    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(bytes: &[u8; 64], folded: &mut [u8; 64]) -> Bytes {
        let mut what = Bytes { alphanumeric: 0, other: 0 };
        for (at, (from, to)) in
            bytes.as_chunks::<32>().0.iter().zip(folded.as_chunks_mut::<32>().0).enumerate()
        {
            // SAFETY: the chunk has 32 bytes, and the load may be unaligned.
            let word = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
            let above = |word, low: u8| _mm256_cmpgt_epi8(word, _mm256_set1_epi8(low as i8 - 1));
            let between = |word, low, high: u8| _mm256_andnot_si256(above(word, high + 1), above(word, low));
            let space = _mm256_set1_epi8(0x20);
            let letters = between(_mm256_or_si256(word, space), b'a', b'z');
            let digits = between(word, b'0', b'9');
            let small = _mm256_or_si256(word, _mm256_and_si256(letters, space));
            // SAFETY: as above, for the store.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), small) };
            let mask = |bytes| u64::from(_mm256_movemask_epi8(bytes) as u32) << (32 * at);
            what.alphanumeric |= mask(_mm256_or_si256(letters, digits));
            what.other |= mask(word);
        }
        what
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::Bytes;
    use crate::kernel::neon;
    use std::arch::aarch64::*;

    /// Four registers of 16 bytes.
    #[target_feature(enable = "neon")]
    pub(super) fn neon(bytes: &[u8; 64], folded: &mut [u8; 64]) -> Bytes {
        let (mut alphanumeric, mut other) = ([vdupq_n_u8(0); 4], [vdupq_n_u8(0); 4]);
        let chunks = bytes.as_chunks::<16>().0.iter().zip(folded.as_chunks_mut::<16>().0);
        for (at, (from, to)) in chunks.enumerate() {
            // SAFETY: the chunk has 16 bytes, and the load may be unaligned.
            let word = unsafe { vld1q_u8(from.as_ptr()) };
            // What is below `low` wraps to a great number.
            let between =
                |word, low: u8, high: u8| vcleq_u8(vsubq_u8(word, vdupq_n_u8(low)), vdupq_n_u8(high - low));
            let space = vdupq_n_u8(0x20);
            let small = vorrq_u8(word, space);
            let letters = between(small, b'a', b'z');
            // SAFETY: as above, for the store.
            unsafe { vst1q_u8(to.as_mut_ptr(), vbslq_u8(letters, small, word)) };
            alphanumeric[at] = vorrq_u8(letters, between(word, b'0', b'9'));
            other[at] = vcltzq_s8(vreinterpretq_s8_u8(word));
        }
        Bytes { alphanumeric: neon::mask(alphanumeric), other: neon::mask(other) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The twin: what the standard library says of each byte.
    fn naive(bytes: &[u8; 64]) -> ([u8; 64], Bytes) {
        let mask = |is: fn(&u8) -> bool| bytes.iter().enumerate().map(|(i, b)| u64::from(is(b)) << i).sum();
        let what = Bytes { alphanumeric: mask(u8::is_ascii_alphanumeric), other: mask(|b| !b.is_ascii()) };
        (bytes.map(|b| b.to_ascii_lowercase()), what)
    }

    fn check(bytes: &[u8; 64]) {
        for level in Level::available() {
            let mut folded = [0; 64];
            let what = level.fold_ascii(bytes, &mut folded);
            assert_eq!((folded, what), naive(bytes), "{level:?} {bytes:?}");
        }
    }

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=255u8 {
            for place in 0..64 {
                let mut bytes = [b' '; 64];
                bytes[place] = byte;
                check(&bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 64)) {
            check(&bytes.try_into().unwrap());
        }
    }
}
