//! The core of flipside: near-duplicates of texts in memory. It knows no files and tells no stories.

pub mod calibrate;
pub mod clusters;
pub mod error;
pub mod features;
#[doc(hidden)]
pub mod generate;
pub mod hash;
pub mod id;
pub mod kernel;
pub mod minhash;
pub mod plan;
pub mod search;
pub mod simhash;
pub mod text;
pub mod weight;

pub use error::{Error, Result};
