//! Which findings does a run have? As data ([`model`]), as a page for a person ([`html`]), and as a page on which a
//! person judges them ([`review`]).
//!
//! Nothing is measured here: [`messages`] puts the core's numbers into words, and the other modules write them
//! down. The page shows a bounded part of long lists and says so; the JSON holds what it was given.

mod charts;
pub(crate) mod check;
pub mod decontamination;
pub mod explanation;
pub mod figures;
#[cfg(test)]
mod fixtures;
pub mod html;
pub mod messages;
pub mod model;
pub mod review;
pub mod snippet;

pub use model::Report;
