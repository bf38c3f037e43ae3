//! Parts that the NEON kernels share. NEON is part of every aarch64 that Rust's standard library runs on; the kernels
//! need little-endian lanes.

use std::arch::aarch64::*;

/// True if the NEON kernels can run here.
#[inline]
pub(super) fn available() -> bool {
    cfg!(target_endian = "little") && std::arch::is_aarch64_feature_detected!("neon")
}

/// One bit for each of 64 bytes, each of which must be 255 (a one) or 0 (a zero). x86 has an instruction for it; here
/// it takes three rounds of adding neighbours.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn mask(bytes: [uint8x16_t; 4]) -> u64 {
    let bits = vreinterpretq_u8_u64(vdupq_n_u64(PLACES));
    let [a, b, c, d] = bytes.map(|bytes| vandq_u8(bytes, bits));
    let fours = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
    vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(fours, fours)))
}

/// The reverse of [`mask`]: a byte for each bit, 255 where it is set, and 0 elsewhere.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn spread(mask: u64) -> [uint8x16_t; 4] {
    let bits = vreinterpretq_u8_u64(vdupq_n_u64(PLACES));
    let mask = vreinterpretq_u8_u64(vdupq_n_u64(mask));
    let first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    std::array::from_fn(|i| vtstq_u8(vqtbl1q_u8(mask, vaddq_u8(first, vdupq_n_u8(2 * i as u8))), bits))
}

/// A mask that has bit i set in byte i.
const PLACES: u64 = 0x8040_2010_0804_0201;

/// The Hamming distances of eight hashes from the one that fills both lanes of `wanted`, a byte for each.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn distances(hashes: &[u64; 8], wanted: uint64x2_t) -> uint8x8_t {
    sums(std::array::from_fn(|i| {
        // SAFETY: two of the eight hashes; the load may be unaligned.
        let two = unsafe { vld1q_u64(hashes.as_ptr().add(2 * i)) };
        vcntq_u8(vreinterpretq_u8_u64(veorq_u64(two, wanted)))
    }))
}

/// The sum of each eight bytes in order, which must be below 256.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn sums([a, b, c, d]: [uint8x16_t; 4]) -> uint8x8_t {
    let two_for_each = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
    vpadd_u8(vget_low_u8(two_for_each), vget_high_u8(two_for_each))
}

/// A byte for each of eight distances, whose lowest bit is set if the distance is at most the radius of `radii`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn within(distances: uint8x8_t, radii: uint8x8_t) -> u64 {
    let lowest = vdup_n_u8(1);
    vget_lane_u64::<0>(vreinterpret_u64_u8(vand_u8(vcle_u8(distances, radii), lowest)))
}

/// A radius in bits, in the form that [`within`] takes. One above 64 counts as 64, the largest distance of two hashes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn radii(radius: u32) -> uint8x8_t {
    vdup_n_u8(radius.min(64) as u8)
}
