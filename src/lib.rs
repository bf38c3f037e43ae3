//! simflip finds near-duplicate documents in web text and measures how many of them it found.
//!
//! This crate reads files and writes folders of results: [`corpus`] reads documents, [`pipeline`] runs the core
//! over them, [`seen`] keeps an index that grows. Modules and functions that are hidden here are those of the command
//! line and of the Python package; they change without notice. Texts that are in memory need none of it; they go to
//! the core, which is here as [`core`]:
//!
//! ```
//! use simflip::core::{Deduper, Settings};
//!
//! let texts = vec![
//!     "Opening hours: Monday to Friday from nine to five, Saturday from ten to two. Closed on Sunday.",
//!     "The harbour is deep enough for ships of every size, and open to them all year round.",
//!     "Opening hours: Monday to Friday from nine to five, Saturday from ten to two; closed on Sunday!",
//! ];
//! let mut deduper = Deduper::new(Settings::both(0.8))?;
//! deduper.extend(&texts);
//! let outcome = deduper.run()?;
//! assert_eq!((outcome.pairs[0].a.0, outcome.pairs[0].b.0), (0, 2));
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

// Of the hidden modules, `boilerplate` finds lines that many documents share, `frequencies` keeps files of document
// frequencies, and `document` has names of documents. `format` is the envelope of binary files. `tables` has pairs.csv
// and clusters.csv, and `report` has report.json and the pages. `staged` runs on disk. `evaluate` compares a result
// with a truth, and `inspect` checks files of ours. `kernel` calls C functions, `resources` asks the system for time
// and memory, and `terminal` writes lines.
mod atomic_write;
#[doc(hidden)]
pub mod boilerplate;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod contamination;
pub mod corpus;
mod display;
#[doc(hidden)]
pub mod document;
mod error;
#[doc(hidden)]
pub mod evaluate;
#[doc(hidden)]
pub mod format;
#[doc(hidden)]
pub mod frequencies;
#[doc(hidden)]
pub mod inspect;
mod inspection;
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod kernel;
mod mark;
pub mod pipeline;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod resources;
pub mod seen;
#[doc(hidden)]
pub mod staged;
#[doc(hidden)]
pub mod tables;
#[doc(hidden)]
pub mod terminal;

#[cfg(feature = "cli")]
extern crate self as simflip;

#[doc(hidden)]
pub use simflip_core::{
    calibrate, clusters, features, hash, minhash, plan, search, settings, simhash, sketch, text, weight,
};

pub use error::{Error, Result};
pub use simflip_core as core;
#[doc(hidden)]
pub use simflip_core::id::{self, Document, Id, Lists, Slot, Text};
