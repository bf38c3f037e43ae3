//! Finds near-duplicates among texts in memory. By default documents that share a hash of MinHash values are
//! candidates, and stored bits verify them; SimHash with the weights behind it and several searches are there as well.
//! Each run estimates its recall. Texts or sketches in, numbers out: no files, no sentences, no C code.
//!
//! # Near-duplicates of some texts
//!
//! ```
//! use simflip_core::{Deduper, Settings};
//!
//! let texts = vec![
//!     "Opening hours: Monday to Friday from nine to five, Saturday from ten to two. Closed on Sunday.",
//!     "The harbour is deep enough for ships of every size, and open to them all year round.",
//!     "Opening hours: Monday to Friday from nine to five, Saturday from ten to two; closed on Sunday!",
//! ];
//! let mut deduper = Deduper::new(Settings::both(0.8))?;
//! deduper.extend(&texts);
//! let outcome = deduper.run()?;
//! let pairs: Vec<_> = outcome.pairs.iter().map(|pair| (pair.a.0, pair.b.0)).collect();
//! assert_eq!(pairs, [(0, 2)]);
//! assert_eq!(outcome.kept().map(|kept| kept.0).collect::<Vec<_>>(), [0, 1]);
//! # Ok::<(), simflip_core::Error>(())
//! ```
//!
//! [`Settings`] say which sketch a document gets, where candidate pairs come from, and which verification decides about
//! them. The [`Outcome`] has pairs, clusters, the documents that are kept, and the cost of the search.
//!
//! # The neighbours of a hash
//!
//! A SimHash is the signs of 64 sums. A sum near zero says that its bit is about to flip, so a search that
//! keeps the sums looks first where the likeliest flips lead:
//!
//! ```
//! use simflip_core::search::dial::{Dial, DialParams};
//! use simflip_core::search::{HammingIndex, Mode, Query, Scratch};
//! use simflip_core::{Settings, Sketcher};
//!
//! let mut sketcher = Sketcher::new(&Settings::simhash(), None)?;
//! let texts = ["a document on near-duplicates of texts", "a document about near-duplicates of texts"];
//! let [stored, asked] = texts.map(|text| sketcher.simhash(text).0);
//! let index = Dial::new(&[stored.hash], DialParams { radius: 15, tables: 6, ..DialParams::default() })?;
//! let mut hits = Vec::new();
//! let query = Query { hash: asked.hash, weights: &asked.weights };
//! index.search(query, Mode::All, &mut Scratch::default(), &mut hits);
//! let near = (stored.hash ^ asked.hash).count_ones() <= 15;
//! assert_eq!(hits.len(), usize::from(near));
//! # Ok::<(), simflip_core::Error>(())
//! ```
//!
//! [`calibrate::recall`] measures how many probes find a wanted share of the neighbours. Many queries at once are a
//! [`search::batch::Batch`], which the stored hashes pass without an index of their own. An index of documents
//! that grows is [`index::Index`]. The examples of this crate show all of them at work.
//!
//! # Which module answers which question?
//!
//! - [`settings`]: which sketch, which candidates, which verification?
//! - [`sketch`], [`simhash`], [`minhash`]: what is kept of a document?
//! - [`search`]: which stored hashes or signatures are near this one?
//! - [`calibrate`]: how many probes does a wanted recall take?
//! - [`paper`]: which parts are the method of Sood & Loguinov (2011)?
//! - [`index`]: has this document, or one near it, been seen before?
//! - [`dedup`]: which documents are near-duplicates, and which are kept?
//!
//! Modules and functions that are hidden here are the tool's; they change without notice.
//!
//! Results do not depend on threads, on how documents were cut into batches, or on the processor.

#![warn(unnameable_types)]

// Modules that the head does not list:
// - `bits`, `lists`: sets of documents; lists of feature hashes, and a table of the documents that have each.
// - `buckets`, `containment`: documents that share a band hash; documents that a fuller one contains.
// - `clusters`, `groups`: linkage of near pairs; pairs and clusters of documents.
// - `collection`, `contamination`: documents without their texts; items of benchmarks in documents.
// - `edits`, `features`, `jaccard`, `similarity`: similarities of texts, of features, of bits, and by any measure.
// - `generate`, `generator`: random near pairs for benchmarks; the search for candidates.
// - `hash`, `text`, `weight`: hashes, features and weights. `id`: numbers of documents, texts and slots.
// - `kernel`, `plan`: loops for each processor, and their choice; the choice of an index by its cost.
// - `error`, `progress`: the error; the steps of a run.
// - `recall_estimate`, `verification`: recall on a sample; the check of candidates.
#[doc(hidden)]
pub mod bits;
#[doc(hidden)]
pub mod buckets;
pub mod calibrate;
#[doc(hidden)]
pub mod clusters;
#[doc(hidden)]
pub mod collection;
#[doc(hidden)]
pub mod containment;
#[doc(hidden)]
pub mod contamination;
pub mod dedup;
#[doc(hidden)]
pub mod edits;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod features;
mod generate;
mod generator;
mod groups;
#[doc(hidden)]
pub mod hash;
pub mod id;
pub mod index;
#[doc(hidden)]
pub mod jaccard;
#[allow(unsafe_code)]
pub(crate) mod kernel;
mod lists;
pub mod minhash;
pub mod paper;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod progress;
#[doc(hidden)]
pub mod recall_estimate;
pub mod search;
pub mod settings;
pub mod simhash;
#[doc(hidden)]
pub mod similarity;
pub mod sketch;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod verification;
#[doc(hidden)]
pub mod weight;

/// Items for the benchmarks, the experiments and the tool of this workspace, which change without notice.
#[doc(hidden)]
pub mod internal {
    pub use crate::generate::NearPairs;
    pub use crate::generator::probed::{Hashes, Probed, model};
    pub use crate::kernel::Level;
    pub use crate::weight::vocabulary::Vocabulary;

    /// Memory for large lists that are read at random places, and prefetching of such reads.
    pub mod memory {
        pub use crate::kernel::huge_pages::{untouched, with_room};
        pub use crate::kernel::prefetch::read as prefetch;
    }
}

pub use dedup::{Deduper, Outcome};
pub use error::{Error, Result};
pub use index::Index;
#[doc(hidden)]
pub use kernel::cpu::{KERNEL_VARIABLE, KernelChoice, kernel_choice};
pub use minhash::MinHasher;
pub use search::{HammingIndex, bphs::Bphs, dial::Dial, psm::Psm};
pub use settings::Settings;
pub use sketch::Sketcher;

// The code of this page runs with that in comments.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
