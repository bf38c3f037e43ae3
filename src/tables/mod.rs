//! `pairs.csv`, `clusters.csv` and tables of documents: written and read here, and nowhere else, row by row, so that
//! their size is no matter of memory.
//!
//! UTF-8, comma, quotes where needed, one header line, lines end in a line feed. Rows stand in the order
//! given; the caller gives them sorted by document id. Similarities have four decimals. What a spreadsheet would
//! take for a formula is guarded ([`cell`]).
//!
//! [`write()`] writes them, each by its [`TableRow`], [`PairsReader`] and [`ClustersReader`] read. Readers
//! find columns by name, so that they take those that a person has cut to a few
//! columns; plain or gzip'd.

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

/// The table of all documents.
pub(crate) const DOCUMENTS: &str = "documents.csv";

/// The table of all documents, an object a line.
pub(crate) const DOCUMENTS_JSONL: &str = "documents.jsonl";

/// The table of all documents in columns.
pub(crate) const DOCUMENTS_PARQUET: &str = "documents.parquet";

/// The table of the documents that can go.
pub(crate) const REMOVED: &str = "removed.csv";

/// The place of a document: its file, its row, and its side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct At<'a> {
    /// The file, as it was found.
    pub file: Cow<'a, str>,
    /// Which document of that file, counted from 0.
    pub row: u32,
    /// The side: a document to be kept or removed, or one of the reference set.
    pub side: Side,
}

/// Which of two sets a document belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The documents that a run is about.
    #[default]
    New,
    /// A document of the reference set; it stays.
    Reference,
}

/// A row of `pairs.csv`.
#[derive(Clone, Debug, Serialize)]
pub struct PairRow<'a> {
    /// Id of the first document.
    pub a_id: Cow<'a, str>,
    /// Id of the second document.
    pub b_id: Cow<'a, str>,
    /// Address of the first document.
    pub a_url: Cow<'a, str>,
    /// Address of the second document.
    pub b_url: Cow<'a, str>,
    /// Hamming distance in bits; empty for methods that have none.
    pub distance: Option<u32>,
    /// Similarity in 0..=1.
    #[serde(serialize_with = "four_decimals")]
    pub similarity: f64,
    /// The kind of the pair: equal texts or not.
    pub kind: PairKind,
    /// Which similarity it is, such as `hash-cosine`; `text` where the texts are the same.
    pub measure: &'a str,
    /// Where the first document stands.
    pub a_at: At<'a>,
    /// Where the second one stands.
    pub b_at: At<'a>,
}

/// A row of `clusters.csv`.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterRow<'a> {
    /// Id of the document.
    pub id: Cow<'a, str>,
    /// Its address.
    pub url: Cow<'a, str>,
    /// Name of its cluster.
    pub cluster: Cow<'a, str>,
    /// Documents in that cluster, at least 2.
    pub size: u64,
    /// True if this document stays.
    pub kept: bool,
    /// Where it stands.
    pub at: At<'a>,
}

/// A row of `documents.csv` and `removed.csv`.
#[derive(Clone, Debug, Serialize)]
pub struct DocumentRow<'a> {
    /// The file that the document stands in, as it was found.
    pub file: Cow<'a, str>,
    /// Which document of that file, counted from 0.
    pub row: u32,
    /// Id of the document.
    pub id: Cow<'a, str>,
    /// Its address.
    pub url: Cow<'a, str>,
    /// Number of its cluster; none where nothing is near it.
    pub cluster: Option<u32>,
    /// Documents in that cluster, itself included.
    pub size: u64,
    /// True if the document stays.
    pub kept: bool,
    /// Id of the document that stays for it; its own, if it stays.
    pub representative: Cow<'a, str>,
    /// Similarity to that document in 0..=1; none for itself, and where the two were not compared.
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

/// The number that stands in a table of text for a similarity.
fn rounded(similarity: f64) -> f64 {
    format!("{similarity:.4}").parse().unwrap_or(similarity)
}
