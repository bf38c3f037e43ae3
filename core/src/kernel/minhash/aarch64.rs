//! The loops in NEON.
//!
//! Of the portable loops the compiler makes vector code too, but it takes many features for one function and
//! runs out of registers (32 bits), or multiplies in general registers and carries the products over (61
//! bits).

use std::arch::aarch64::*;

use super::{Affine, BLOCK, PRIME, reduce61};

/// Eight registers each of factors, summands and minima.
#[target_feature(enable = "neon")]
pub(super) fn minima32(functions: &[Affine<u32>], features: &[u64], minima: &mut [u32]) {
    const N: usize = BLOCK / 4;
    for (function, out) in functions.iter().zip(minima.chunks_mut(BLOCK)) {
        let load = |from: &[u32; BLOCK]| -> [uint32x4_t; N] {
            std::array::from_fn(|i| {
                // SAFETY: four of the block's numbers; the load may be unaligned.
                unsafe { vld1q_u32(from.as_ptr().add(4 * i)) }
            })
        };
        let (a, b) = (load(&function.a), load(&function.b));
        let mut least = [vdupq_n_u32(u32::MAX); N];
        for &x in features {
            let x = vdupq_n_u32(x as u32);
            for i in 0..N {
                least[i] = vminq_u32(least[i], vmlaq_u32(b[i], a[i], x));
            }
        }
        let mut minima = [0; BLOCK];
        for (minima, least) in minima.as_chunks_mut::<4>().0.iter_mut().zip(least) {
            // SAFETY: four numbers; the store may be unaligned.
            unsafe { vst1q_u32(minima.as_mut_ptr(), least) };
        }
        out.copy_from_slice(&minima[..out.len()]);
    }
}

/// Two functions a register, with the product put together from 32-bit halves. With a = a₁2³² + a₀ and x =
/// x₁2³² + x₀, both below 2⁶¹, and 2⁶⁴ ≡ 8, the sum of b, a₁·8x₁, the upper and the lower part of a₁x₀ + a₀x₁
/// at 2³² and of a₀x₀ is congruent to a·x + b and below 2⁶³; 8x₁ still fits 32 bits.
#[target_feature(enable = "neon")]
pub(super) fn minima61(functions: &[Affine<u64>], features: &[u64], minima: &mut [u32]) {
    /// Functions of which factors, summands and minima stay in registers.
    const PART: usize = 8;
    const N: usize = PART / 2;
    let (prime, one) = (vdupq_n_u64(PRIME), vdupq_n_u64(1));
    for (function, out) in functions.iter().zip(minima.chunks_mut(BLOCK)) {
        let parts = function.a.as_chunks::<PART>().0.iter().zip(function.b.as_chunks::<PART>().0);
        for ((a, b), out) in parts.zip(out.chunks_mut(PART)) {
            let load = |from: &[u64; PART]| -> [uint64x2_t; N] {
                std::array::from_fn(|i| {
                    // SAFETY: two of the part's numbers; the load may be unaligned.
                    unsafe { vld1q_u64(from.as_ptr().add(2 * i)) }
                })
            };
            let (a, b) = (load(a), load(b));
            let (a0, a1) = (a.map(|a| vmovn_u64(a)), a.map(|a| vshrn_n_u64::<32>(a)));
            let mut least = [vdupq_n_u64(u64::MAX); N];
            for &x in features {
                let x = reduce61(x);
                let (x0, x1) = (vdup_n_u32(x as u32), vdup_n_u32((x >> 32) as u32));
                let high = vdup_n_u32((x >> 32 << 3) as u32);
                for i in 0..N {
                    let low = vmull_u32(a0[i], x0);
                    let middle = vmlal_u32(vmull_u32(a1[i], x0), a0[i], x1);
                    let sum = vmlal_u32(b[i], a1[i], high);
                    let sum = vsraq_n_u64::<61>(vaddq_u64(sum, vandq_u64(low, prime)), low);
                    // The lower 29 bits of the middle product stay below 2⁶¹ when moved up by 32.
                    let sum = vsraq_n_u64::<29>(sum, middle);
                    let sum = vsraq_n_u64::<3>(sum, vshlq_n_u64::<35>(middle));
                    // At most the prime and three more, so that one more tells by bit 61 whether to subtract
                    // it.
                    let folded = vsraq_n_u64::<61>(vandq_u64(sum, prime), sum);
                    let value = vandq_u64(vsraq_n_u64::<61>(folded, vaddq_u64(folded, one)), prime);
                    least[i] = vbslq_u64(vcltq_u64(value, least[i]), value, least[i]);
                }
            }
            let mut minima = [0; PART];
            for (minima, least) in minima.as_chunks_mut::<2>().0.iter_mut().zip(least) {
                // SAFETY: two numbers; the store may be unaligned.
                unsafe { vst1_u32(minima.as_mut_ptr(), vmovn_u64(least)) };
            }
            out.copy_from_slice(&minima[..out.len()]);
        }
    }
}
