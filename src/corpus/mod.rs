//! Documents out of stored files: WET as Common Crawl writes it, and lines of JSON; plain, gzip or Zstandard; and
//! Parquet.
//!
//! How do many cores read one file? [`read`] lets one thread after the other decode the next block of a file while
//! the others work on the blocks before. What happens to damage? It is counted, skipped and named
//! ([`Damage`]), and never ends a run; [`damage::DamageKind`] says what is lost by each kind.
//! How is a document found again? By its [`Place`]; [`fetch`] reads single documents, [`write_kept`] copies those
//! to be kept.

mod block;
mod cut;
pub mod damage;
mod fetch;
mod gzip;
pub mod inputs;
pub mod jsonl;
mod kept;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet;
mod read;
mod source;
pub mod wet;
mod window;
mod zst;

use serde::{Deserialize, Serialize};

use crate::document::DocId;
pub use crate::document::Place;

pub use damage::{Damage, DamageKind, FileReading};
pub use fetch::fetch;
pub use inputs::{Compression, DiscoverOptions, Format, Input, discover};
pub use jsonl::JsonlFields;
pub(crate) use kept::is_kept_file;
pub use kept::{KeptFile, write_kept};
pub use read::{Reading, read};

/// Whether a panic of this thread would be caught and become damage, so that a panic hook may keep silent about it: the
/// decoder of Parquet panics on some damaged files.
pub fn panic_is_damage() -> bool {
    parquet::panic_is_damage()
}

/// A document as it was read. It borrows from the block it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// Its file and its row.
    ///
    /// Rows count the *candidates* of a file in file order: whole `conversion` records, or lines that are not blank; in Parquet,
    /// rows.
    /// A candidate that turns out to be damaged later (text that is not UTF-8, a line that is not JSON) keeps its
    /// row, so rows have gaps there.
    pub id: DocId,
    /// `WARC-Record-ID` as written, with its angle brackets; or the id field of a line or row.
    pub record_id: Option<&'a str>,
    /// `WARC-Target-URI`, or the URL field of a line or row.
    pub url: Option<&'a str>,
    /// `WARC-Identified-Content-Language` (may name several, with commas), or the language field of a line
    /// or row.
    pub language: Option<&'a str>,
    /// The text, verbatim; may be empty.
    pub text: &'a str,
    /// Where it is stored.
    pub place: Place,
}

/// How input is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// Threads that decode and work; at least 1.
    pub threads: usize,
    /// Decoded bytes a thread takes at once. No result depends on it.
    pub block_bytes: usize,
    /// The longest text of a WET record or Parquet row, and the longest line of JSON, that is read, in bytes. What is longer is
    /// damage. This much memory may be needed per thread and per open file.
    pub record_cap: usize,
    /// The names of the JSON fields, and of the Parquet columns; a column in a group is named `group.column`.
    pub fields: JsonlFields,
}

impl ReadOptions {
    /// With these names of fields, and with this cap if there is one.
    pub fn new(fields: JsonlFields, record_cap: Option<usize>) -> Self {
        let usual = Self::default();
        Self { fields, record_cap: record_cap.unwrap_or(usual.record_cap), ..usual }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            block_bytes: 1 << 20,
            record_cap: 128_000_000,
            fields: JsonlFields::default(),
        }
    }
}
