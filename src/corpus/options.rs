//! Options of reading.

use serde::{Deserialize, Serialize};

use super::jsonl::JsonlFields;
use crate::{Error, Result};

/// The rules for input that is odd and can still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRules {
    /// True if text that is not UTF-8, or holds half a surrogate pair, is corrupt, and so is a text that is null. If
    /// false, U+FFFD stands for such bytes, as in browsers, and the document counts as repaired. A null is skipped.
    pub strict: bool,
    /// The longest window of a Zstandard frame, in bits, 10 to [`LONGEST_WINDOW`](super::LONGEST_WINDOW). A window of n
    /// bits takes 2ⁿ bytes of memory for each open file. A frame with a longer one is corrupt.
    pub longest_window: u32,
}

impl Default for ReadRules {
    fn default() -> Self {
        Self { strict: false, longest_window: 27 }
    }
}

/// A pool of so many threads; 0 for as many as the machine has.
///
/// # Errors
/// If they cannot be started.
pub(crate) fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Error::parameter("threads", threads, format!("fewer, for the system says: {error}")))
}

/// Options of reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// Threads that decode and work; at least 1.
    pub threads: usize,
    /// Decoded bytes a thread takes at once. No result depends on it.
    pub block_bytes: usize,
    /// The longest content of a WARC record, text of a row of Parquet or Arrow, line of JSON, or record of CSV that is
    /// read, in bytes. A longer one counts as corrupt. This much memory may be needed per thread and per open file.
    pub record_cap: usize,
    /// The names of the JSON fields, and of the columns of tables; a column in a group is named `group.column`.
    pub fields: JsonlFields,
    /// The rules for odd input.
    pub rules: ReadRules,
}

impl ReadOptions {
    /// Makes options with these fields and rules, and the usual values of the others; so for a `record_cap` of `None`.
    pub fn new(fields: JsonlFields, record_cap: Option<usize>, rules: ReadRules) -> Self {
        let usual = Self::default();
        Self { fields, record_cap: record_cap.unwrap_or(usual.record_cap), rules, ..usual }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            block_bytes: 1 << 20,
            record_cap: 128_000_000,
            fields: JsonlFields::default(),
            rules: ReadRules::default(),
        }
    }
}
