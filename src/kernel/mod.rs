//! What depends on the processor: the only place with `unsafe` and SIMD, behind a safe face, chosen at run time.

pub mod hamming;
pub mod prefetch;
pub mod rank;
