//! The core of flipside: near-duplicates of texts in memory. It knows no files and tells no stories.

#![deny(unsafe_code)]

pub mod calibrate;
pub mod clusters;
pub mod error;
pub mod features;
pub mod hash;
pub mod id;
pub mod minhash;
pub mod plan;
pub mod search;
pub mod simhash;
pub mod text;
pub mod weight;

#[allow(unsafe_code)]
pub(crate) mod kernel;

/// What the benchmarks, the experiments and the pipeline of this workspace use besides. It is no part of the stable
/// interface: it may change or go with any release.
#[doc(hidden)]
pub mod internal {
    pub use crate::kernel::Level;
}

pub use error::{Error, Result};
pub use kernel::cpu::{KERNEL_VARIABLE, KernelChoice, kernel_choice};
