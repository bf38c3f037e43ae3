//! A file of kept documents: what is known of it and how it may be called.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::damage::Damage;
use super::filetype::Format;

/// A file of kept documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Where it is.
    pub path: PathBuf,
    /// What its records are.
    pub format: Format,
    /// Documents in it.
    pub documents: u64,
    /// Its size.
    pub stored_bytes: u64,
    /// What could not be copied, because parts of it that were not read before are damaged (Parquet).
    pub lost: Vec<Damage>,
}

/// Whether a file of kept documents may be called so.
pub(crate) fn is_kept_file(name: &str) -> bool {
    let number = name.strip_prefix("kept-").and_then(|rest| rest.strip_suffix(".parquet"));
    matches!(name, "kept.warc.wet.gz" | "kept.jsonl.gz" | "kept.parquet")
        || number.is_some_and(|number| number.parse::<u32>().is_ok_and(|number| number > 1))
}
