//! The one call of C that the package makes. All its `unsafe` is in this folder; the loops of the core have theirs in
//! [`flipside_core::kernel`].

pub mod inflate;
