//! The core of flipside: near-duplicates of texts in memory. It knows no files and tells no stories.

pub mod calibrate;
pub mod clusters;
pub mod collection;
pub mod dedup;
pub mod error;
pub mod features;
mod groups;
pub mod hash;
pub mod id;
pub mod judge;
pub mod kernel;
pub mod minhash;
pub mod net;
pub mod plan;
pub mod progress;
pub mod search;
pub mod settings;
pub mod similarity;
pub mod simhash;
pub mod sketch;
pub mod text;
pub mod weight;

pub use error::{Error, Result};
