//! The tables of a result: `pairs.csv`, `clusters.csv` and tables of documents. They are written and read here alone,
//! row by row, so that a table of any size needs little memory.
//!
//! A table of CSV is UTF-8 with commas, quotes where needed, one header line, and a line feed at the end of each line.
//! Rows stand in the order in which the caller gives them. Similarities have four decimals. A cell that a spreadsheet
//! would take for a formula is guarded ([`cell`]).
//!
//! [`write()`] writes tables of any [`TableRow`]. [`PairsReader`] and [`ClustersReader`] read them, plain or gzip'd.
//! They find columns by name, so that a person may have deleted or moved columns.

pub mod cell;
pub(crate) mod check;
mod parquet;
mod read;
pub(crate) mod table;
mod write;

pub use parquet::write_documents_parquet;
pub use read::{ClusterLine, ClustersReader, PairLine, PairsReader};
pub(crate) use write::guard;
pub use write::{TableRow, write, write_documents_jsonl};

use crate::Result;
use serde::{Serialize, Serializer};
use simflip_core::dedup::PairKind;
use std::borrow::Cow;

/// The file name of the table of all new documents.
pub(crate) const DOCUMENTS: &str = "documents.csv";

/// The file name of the table of all new documents with a JSON object on each line.
pub(crate) const DOCUMENTS_JSONL: &str = "documents.jsonl";

/// The file name of the table of all new documents as Parquet.
pub(crate) const DOCUMENTS_PARQUET: &str = "documents.parquet";

/// The file name of the table of removed documents.
pub(crate) const REMOVED: &str = "removed.csv";

/// The place of a document: its file, its row, and its side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct At<'a> {
    /// The path of the file, as it was found.
    pub file: Cow<'a, str>,
    /// The number of the document among the records of that file that may be documents, counted from 0. Corrupt records
    /// count.
    pub row: u32,
    /// The set that the document is of: the new documents, or the reference set.
    pub side: Side,
}

/// The two sets that a document may be of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// A new document, which a run keeps or removes.
    #[default]
    New,
    /// A document of the reference set, which stays unchanged.
    Reference,
}

/// A row of `pairs.csv`: two documents of equal or near texts. Of these, *a* comes first in the input, where reference
/// documents come last.
#[derive(Clone, Debug, Serialize)]
pub struct PairRow<'a> {
    /// Id of the first document.
    pub a_id: Cow<'a, str>,
    /// Id of the second document.
    pub b_id: Cow<'a, str>,
    /// URL of the first document; empty if it has none.
    pub a_url: Cow<'a, str>,
    /// URL of the second document; empty if it has none.
    pub b_url: Cow<'a, str>,
    /// Hamming distance of the SimHashes in bits; none for methods without SimHash.
    pub distance: Option<u32>,
    /// Similarity in 0..=1.
    #[serde(serialize_with = "four_decimals")]
    pub similarity: f64,
    /// The kind of the pair: equal texts or not.
    pub kind: PairKind,
    /// The name of the measure of that similarity, such as `hash-cosine`; `text` if the texts are the same.
    pub measure: &'a str,
    /// The place of the first document.
    pub a_at: At<'a>,
    /// The place of the second document.
    pub b_at: At<'a>,
}

/// A row of `clusters.csv`: a document that is in a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterRow<'a> {
    /// Id of the document.
    pub id: Cow<'a, str>,
    /// URL of the document; empty if it has none.
    pub url: Cow<'a, str>,
    /// The number of its cluster, in decimal digits.
    pub cluster: Cow<'a, str>,
    /// Number of documents in that cluster, at least 2.
    pub size: u64,
    /// True if the document is kept, or is a reference document.
    pub kept: bool,
    /// The place of the document.
    pub at: At<'a>,
}

/// A row of `documents.csv` and `removed.csv`: a new document.
#[derive(Clone, Debug, Serialize)]
pub struct DocumentRow<'a> {
    /// The path of the file that the document stands in, as it was found.
    pub file: Cow<'a, str>,
    /// The number of the document in that file, as [`At::row`].
    pub row: u32,
    /// Id of the document.
    pub id: Cow<'a, str>,
    /// URL of the document; empty if it has none.
    pub url: Cow<'a, str>,
    /// Number of its cluster; none if it is in no cluster of two documents or more.
    pub cluster: Option<u32>,
    /// Number of documents in that cluster, itself included; 1 without a cluster.
    pub size: u64,
    /// True if the document is kept, false if it is removed.
    pub kept: bool,
    /// Id of the kept document that it is removed for; its own, if it is kept.
    pub representative: Cow<'a, str>,
    /// Similarity to that document in 0..=1; none if it is itself, and if the two were not compared.
    #[serde(serialize_with = "perhaps_four_decimals")]
    pub similarity: Option<f64>,
}

fn perhaps_four_decimals<S: Serializer>(similarity: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match similarity {
        Some(similarity) => four_decimals(similarity, to),
        None => to.serialize_none(),
    }
}

fn four_decimals<S: Serializer>(similarity: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{similarity:.4}"))
}

/// A similarity with four decimals, so that tables of all formats have one number.
fn rounded(similarity: f64) -> f64 {
    format!("{similarity:.4}").parse().unwrap_or(similarity)
}
