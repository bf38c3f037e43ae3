//! Near-duplicates of texts in memory: SimHash with the weights behind it, MinHash, the searches
//! over both, and how many of the pairs they found. Texts or sketches in, numbers out: no files,
//! no sentences, no C code.
//!
//! # Near-duplicates of some texts
//!
//! ```
//! use simflip_core::{dedup::Deduper, settings::Settings};
//!
//! let texts = vec![
//!     "Opening hours: Monday to Friday from nine to five, Saturday from ten to two. Closed on Sunday.",
//!     "The harbour is deep enough for ships of every size, and open to them all year round.",
//!     "Opening hours: Monday to Friday from nine to five, Saturday from ten to two; closed on Sunday!",
//! ];
//! let mut deduper = Deduper::new(Settings::simhash())?;
//! deduper.extend(&texts);
//! let outcome = deduper.run()?;
//! let pairs: Vec<_> = outcome.pairs.iter().map(|pair| (pair.a.0, pair.b.0)).collect();
//! assert_eq!(pairs, [(0, 2)]);
//! assert_eq!(outcome.kept().map(|kept| kept.0).collect::<Vec<_>>(), [0, 1]);
//! # Ok::<(), simflip_core::Error>(())
//! ```
//!
//! [`Settings`](settings::Settings) say which sketch a document gets, which generator brings up pairs and which
//! verification decides about them; the [`Outcome`](dedup::Outcome) has pairs, clusters, the documents that stay,
//! and what the search cost and found.
//!
//! # The neighbours of a hash
//!
//! A SimHash is the signs of 64 sums. A sum near zero says that its bit is about to flip, so a search that
//! keeps the sums looks first where the likeliest flips lead:
//!
//! ```
//! use simflip_core::search::dial::{Dial, DialParams};
//! use simflip_core::search::{HammingIndex, Mode, Query, Scratch};
//! use simflip_core::{settings::Settings, sketch::Sketcher};
//!
//! let mut sketcher = Sketcher::new(&Settings::simhash(), None)?;
//! let [stored, asked] = ["a page on near-duplicates of web pages", "a page about near-duplicates of web pages"]
//!     .map(|text| sketcher.simhash(text).0);
//! let index = Dial::new(&[stored.hash], DialParams::new(15, 6))?;
//! let mut hits = Vec::new();
//! let query = Query { hash: asked.hash, weights: &asked.weights };
//! index.search(query, Mode::All, &mut Scratch::default(), &mut hits);
//! let near = (stored.hash ^ asked.hash).count_ones() <= 15;
//! assert_eq!(hits.len(), usize::from(near));
//! # Ok::<(), simflip_core::Error>(())
//! ```
//!
//! [`calibrate::recall`] measures how many probes find a wanted share of the neighbours. Many queries at once are a
//! [`search::batch::Batch`], which the stored hashes pass without an index of their own. An index of hashes that
//! grows is [`search::online::Online`], one of documents [`index::Index`]. The examples of this crate show all of
//! them at work.
//!
//! # Which module answers which question?
//!
//! - [`text`] and [`features`]: what is in a document?
//! - [`sketch`], [`simhash`], [`minhash`], [`weight`]: what stays of it?
//! - [`search`]: which sketches meet?
//! - [`verification`] and [`similarity`]: are these two near?
//! - [`index`]: has this page, or one near it, been seen before?
//! - [`clusters`]: who belongs together?
//! - [`buckets`]: which documents are compared, and what is each removed for?
//! - [`calibrate`] and [`plan`]: how many probes, and what will it cost?
//! - [`dedup`]: all of it.
//!
//! Results do not depend on threads, on how documents were cut into batches, or on the processor.

#![warn(unnameable_types)]

pub mod bits;
pub mod buckets;
pub mod calibrate;
pub mod clusters;
pub mod collection;
pub mod containment;
pub mod contamination;
pub mod dedup;
pub mod error;
pub mod features;
mod generate;
pub mod generator;
mod groups;
pub mod hash;
pub mod id;
pub mod index;
#[allow(unsafe_code)]
pub(crate) mod kernel;
pub mod lists;
pub mod minhash;
pub mod plan;
pub mod progress;
pub mod recall_estimate;
pub mod resemblance;
pub mod search;
pub mod settings;
pub mod simhash;
pub mod similarity;
pub mod sketch;
pub mod text;
pub mod verification;
pub mod weight;

/// Items for the benchmarks, the experiments and the pipeline of this workspace. They are no part of the stable
/// interface: any release may change or remove them.
#[doc(hidden)]
pub mod internal {
    pub use crate::generate::NearPairs;
    pub use crate::generator::probed::{Hashes, Probed, model};
    pub use crate::kernel::Level;
    pub use crate::weight::vocabulary::Vocabulary;

    /// Large lists that are read at random places.
    pub mod memory {
        pub use crate::kernel::huge_pages::{untouched, with_room};
        pub use crate::kernel::prefetch::read as prefetch;
    }

    /// Keys of a dial that are chosen by the data.
    pub mod keys {
        pub use crate::search::keys::{FEWEST_SAMPLED, Keys, sample};
    }
}

pub use error::{Error, Result};
pub use kernel::cpu::{KERNEL_VARIABLE, KernelChoice, kernel_choice};
