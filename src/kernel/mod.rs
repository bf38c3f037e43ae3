//! The loops that a compiler does not make fast enough by itself. All `unsafe` of the crate is in this folder, behind safe
//! functions that choose at run time what the processor can do; each kernel is tested against its scalar twin.

pub mod accumulate;
pub mod flips;
pub mod fold;
pub mod hamming;
pub mod huge_pages;
pub mod inflate;
pub mod minhash;
pub mod near;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod packed;
pub mod prefetch;
pub mod rank;
pub mod weakest;
