//! What a document is called inside a run.

use serde::{Deserialize, Serialize};

/// A document's place in the corpus: which input file, and which document of that file.
///
/// Both parts count from 0. `shard` is the position of the file in the *sorted* list of inputs, so ids do not
/// depend on the order in which files were named or read; `row` counts the documents of that file in file order.
/// Ordering ids orders documents by file and then by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocId {
    /// Position of the file in the sorted list of inputs.
    pub shard: u32,
    /// Position of the document among the documents of its file.
    pub row: u32,
}

impl DocId {
    /// The id of document `row` of file `shard`.
    pub const fn new(shard: u32, row: u32) -> Self {
        Self { shard, row }
    }
}
