//! How input is read.

use serde::{Deserialize, Serialize};

use super::jsonl::JsonlFields;

/// How input is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// Threads that decode and work; at least 1.
    pub threads: usize,
    /// Decoded bytes a thread takes at once. No result depends on it.
    pub block_bytes: usize,
    /// The longest text of a WET record or Parquet row, and the longest line of JSON, that is read, in bytes.
    /// What is longer is damage. This much memory may be needed per thread and per open file.
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
