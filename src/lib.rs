//! flipside finds near-duplicate pages in web text and measures how many of them it found.
//!
//! A document goes down one road: [`corpus`] reads it, [`text`] cuts it into features, [`weight`] says how much
//! each counts, [`simhash`] and [`minhash`] sketch it, [`search`] finds what is near, [`pairs`] and [`clusters`]
//! say what belongs together, [`report`] tells a person. [`pipeline`] is the only module that knows all the stops.

pub mod calibrate;
pub mod clusters;
pub mod corpus;
pub mod document;
pub mod error;
pub mod evaluate;
pub mod features;
pub mod format;
pub mod hash;
pub mod inspect;
pub mod kernel;
pub mod minhash;
pub mod pairs;
pub mod pipeline;
pub mod plan;
pub mod report;
pub mod resources;
pub mod search;
pub mod seen;
pub mod simhash;
pub mod text;
pub mod weight;
pub mod wording;

pub use error::{Error, Result};
