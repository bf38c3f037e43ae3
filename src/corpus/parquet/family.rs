//! Inputs with the same columns, whose kept rows go to one file.

use std::borrow::Cow;

use arrow_schema::Fields;
use parquet::schema::types::TypePtr;

use crate::corpus::fetch::read_otherwise;
use crate::corpus::input::Input;
use crate::corpus::write::KeptJob;
use crate::document::{DocId, Place};
use crate::{Error, Result};

/// Row groups that a file of ours has at most; the format ends at 2¹⁵.
pub(super) const GROUPS: u64 = 30_000;

/// Stored bytes of a row group of ours, about: it is in memory until it is written.
pub(crate) const GROUP_BYTES: u64 = 16 << 20;

/// The columns of a file.
#[derive(PartialEq)]
pub(super) enum FileColumns {
    Parquet(TypePtr),
    Arrow(Fields),
}

/// Inputs with the same columns, whose rows go to one file.
pub(super) struct Family<'a> {
    pub columns: FileColumns,
    pub inputs: Vec<FamilyInput<'a>>,
    /// Rows of the largest row group.
    pub largest: u64,
    pub rows: u64,
    pub kept: u64,
}

/// An input with its number.
pub(super) struct FamilyInput<'a> {
    pub shard: u32,
    pub input: &'a Input,
    /// The kept documents that are still there, if the file has changed.
    pub there: Option<Vec<(DocId, Place)>>,
}

impl FamilyInput<'_> {
    /// The kept documents, without those that are gone.
    pub fn kept<'k>(&'k self, job: &KeptJob<'k>) -> Result<Cow<'k, [(DocId, Place)]>> {
        match &self.there {
            Some(there) => Ok(there.into()),
            None => job.kept.of_file(self.shard),
        }
    }
}

impl Family<'_> {
    pub fn shards(&self) -> Vec<u32> {
        self.inputs.iter().map(|it| it.shard).collect()
    }

    /// Rows of a row group. Where files are to be of a size, some row groups make a file, as far as the stored
    /// bytes of all rows tell.
    pub fn rows_of_group(&self, size: Option<u64>) -> u64 {
        let bytes = size.map_or(GROUP_BYTES, |size| GROUP_BYTES.min(size / 4));
        let stored = self.inputs.iter().map(|it| u128::from(it.input.stored_bytes())).sum::<u128>();
        let rows = u128::from(bytes) * u128::from(self.rows) / stored.max(1);
        let rows = u64::try_from(rows).unwrap_or(u64::MAX).min(self.largest).max(1);
        if size.is_some() { rows } else { rows.max(self.kept / GROUPS) }
    }
}

/// An error for a file that read otherwise before.
pub(super) fn changed(input: &Input, got: impl Into<String>) -> Error {
    read_otherwise(input, "a file read before", "the same content".to_owned(), got.into())
}
