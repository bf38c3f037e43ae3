//! The calls of C that the package makes. All its `unsafe` is in this folder; the core has its own in a
//! folder of the same name.

pub mod inflate;
pub mod memory;
