//! The calls of C functions that the package makes. All its `unsafe` code is in this folder; the core has its own in a
//! folder of the same name.

pub mod inflate;
pub mod memory;
