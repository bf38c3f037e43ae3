//! Reports of runs: as data ([`model`]), as an HTML page for a person ([`html`]), and as a page on which a person
//! judges pairs ([`review`]).
//!
//! Nothing is measured here: [`messages`] puts the core's numbers into words, and the other modules write them down.
//! The HTML page shows the beginning of long lists and says so; the JSON has what it was given.

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
