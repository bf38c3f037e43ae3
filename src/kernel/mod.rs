//! Placeholder.

pub mod minhash;
