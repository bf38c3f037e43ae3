//! The loops that a compiler does not make fast enough by itself. A *kernel* is such a loop: a method of [`Level`] with
//! a version for each level of the processor. All `unsafe` of the crate is in this folder, behind these safe methods.
//! The level is found once ([`cpu`]), and a lower one can be forced; callers of many kernels keep a copy of it. The
//! scalar version, the *twin*, defines the result, and tests compare the others with it. The benchmark `kernels` of the
//! workspace fails where a level is slower than the one below it on a shape in use.
//!
//! # aarch64
//!
//! NEON is part of every aarch64, so the compiler uses it in the portable loops too. Where that was found
//! wanting there is a NEON kernel. In instructions executed, which emulation counts exactly:
//!
//! | loop | portable | NEON |
//! |---|---:|---:|
//! | [`hamming`], a hash of a long run | 11 to 14 | 3.6 |
//! | [`near`], all pairs of 100 hashes | 56,492 | 24,510 |
//! | [`lowest_margin`], some of 32 bits | 1,747 | 250 |
//! | [`flips`], the 12 least of four keys | 12,308 | 3,898 |
//! | [`fold`], 64 bytes | 215 | 88 |
//! | [`accumulate`], a feature | 196 | 102 |
//! | [`rank`], 64 keys | 8,969 | 3,883 |
//! | [`minhash`], a feature for 32 functions, 32 bits | 78 | 31 |
//!
//! The scale of margins (3 instructions a weight) and the count of equal MinHash values (1.25 a value) are left to the
//! compiler. The NEON kernels are tested against their twins too, with qemu-user 11.1 and rustc 1.97. No times were
//! taken: there was no ARM processor, and instructions are not times.

pub mod accumulate;
pub mod cpu;
pub mod differing;
pub mod distinct;
pub mod flips;
pub mod fold;
pub mod hamming;
pub mod huge_pages;
pub mod kept;
pub mod lowest_margin;
pub mod minhash;
pub mod near;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod ones;
pub mod pack;
pub mod packed;
pub mod prefetch;
pub mod rank;
pub mod words;

pub use cpu::Level;
