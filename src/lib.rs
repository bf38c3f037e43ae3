//! flipside finds near-duplicate pages in web text and measures how many of them it found.
//!
//! A document goes down one road: [`corpus`] reads it, [`text`] cuts it into features, [`weight`] says
//! how much each counts, [`simhash`] and [`minhash`] sketch it, [`search`] finds what is near, [`pairs`]
//! and [`clusters`] say what belongs together, [`report`] tells a person. [`pipeline`] is the only module
//! that knows all the stops.

#![deny(unsafe_code)]

pub mod corpus;
pub mod document;
pub mod error;
pub mod evaluate;
pub mod format;
pub mod frequencies;
pub mod inspect;
mod inspection;
#[allow(unsafe_code)]
pub mod kernel;
pub mod pipeline;
pub mod report;
pub mod resources;
pub mod seen;
pub mod tables;
pub mod wording;

pub use flipside_core::{
    calibrate, clusters, features, hash, minhash, plan, search, settings, simhash, sketch, text, weight,
};

pub use error::{Error, Result};
pub use flipside_core::id::{self, Document, Id, Lists, Slot, Text};
