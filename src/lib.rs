//! simflip finds near-duplicate pages in web text and measures how many of them it found.
//!
//! This crate reads files and writes folders of results: [`corpus`] reads pages, [`pipeline`] runs the core
//! over them, [`report`] tells what came of it, [`seen`] keeps an index that grows. Texts that are in memory
//! need none of it; they go to the core, which is here as [`core`]:
//!
//! ```
//! use simflip::core::{dedup::Deduper, settings::Settings};
//!
//! let texts = vec![
//!     "Opening hours: Monday to Friday from nine to five, Saturday from ten to two. Closed on Sunday.",
//!     "The harbour is deep enough for ships of every size, and open to them all year round.",
//!     "Opening hours: Monday to Friday from nine to five, Saturday from ten to two; closed on Sunday!",
//! ];
//! let mut deduper = Deduper::new(Settings::simhash())?;
//! deduper.extend(&texts);
//! let outcome = deduper.run()?;
//! assert_eq!(outcome.pairs[0].documents().map(|document| document.0), [0, 2]);
//! # Ok::<(), simflip::core::Error>(())
//! ```
//!
//! Files go through [`pipeline::dedup`], as on the command line:
//!
//! ```no_run
//! use simflip::pipeline::{Job, Silent, dedup};
//!
//! let job = Job { inputs: vec!["crawl/".into()], out: "result".into(), ..Job::default() };
//! println!("{}", dedup(&job, &Silent)?.text);
//! # Ok::<(), simflip::Error>(())
//! ```

#![warn(unnameable_types)]

pub mod boilerplate;
#[cfg(feature = "cli")]
pub mod cli;
pub mod contamination;
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
pub mod making;
pub mod mark;
pub mod pipeline;
pub mod report;
pub mod resources;
pub mod seen;
pub mod staged;
pub mod tables;
pub mod terminal;
pub mod wording;

#[cfg(feature = "cli")]
extern crate self as simflip;

pub use simflip_core::{
    calibrate, clusters, features, hash, minhash, plan, search, settings, simhash, sketch, text, weight,
};

pub use error::{Error, Result};
pub use simflip_core as core;
pub use simflip_core::id::{self, Document, Id, Lists, Slot, Text};
