//! The kernel of MinHash in NEON. It gives the result of the method of [`Level`](crate::kernel::Level) that has its
//! name.
//!
//! The compiler makes vector code of the portable loop too, but that code takes many features for one function and runs
//! out of registers.

use std::arch::aarch64::*;

use super::{Affine, BLOCK};

/// Eight registers each of factors, summands and minima.
#[target_feature(enable = "neon")]
pub(super) fn minima32(functions: &[Affine], features: &[u64], minima: &mut [u32]) {
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
