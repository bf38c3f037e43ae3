//! The pages of stages that stay, file by file, as they are written.

use super::cluster::goes_of;
use super::names::Named;
use super::record::Assignment;
use super::sketches::{Column, Folder};
use crate::corpus::{EachKept, KeptPages, Place};
use crate::document::DocId;
use crate::error::Result;
use crate::format::Body;
use crate::hash::text_digest;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// The pages that stay, file by file.
pub struct StagedKept<'a> {
    folder: &'a Folder,
    /// The file of sketches of each input, if it has one.
    files: Vec<Option<usize>>,
    assignments: &'a Body,
    /// The number for each input.
    numbers: &'a [u64],
    /// Rows and digests of the file that was asked for last.
    last: Mutex<Option<Digests>>,
}

/// Rows of the pages of a file, and the digests of their texts, 16 bytes each.
struct Digests {
    shard: u32,
    rows: Vec<u32>,
    digests: Vec<u8>,
}

impl<'a> StagedKept<'a> {
    /// Of inputs that have these files of sketches, if they have one, and so many pages that stay.
    pub fn new(
        folder: &'a Folder,
        files: Vec<Option<usize>>,
        assignments: &'a Body,
        numbers: &'a [u64],
    ) -> Self {
        Self { folder, files, assignments, numbers, last: Mutex::default() }
    }

    /// True if a text is the one that was read of a page.
    pub fn is_same(&self, id: DocId, text: &str) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|last| last.shard != id.shard) {
            *last = self.digests(id.shard).ok().flatten();
        }
        let Some(Digests { rows, digests, .. }) = &*last else { return false };
        let at = rows.binary_search(&id.row);
        at.is_ok_and(|at| digests[16 * at..].starts_with(&text_digest(text).to_le_bytes()))
    }

    fn digests(&self, shard: u32) -> Result<Option<Digests>> {
        let Some(at) = self.files[shard as usize] else { return Ok(None) };
        let file = &self.folder.files[at];
        let rows = file.each_name()?.map(|named| Ok(named?.row)).collect::<Result<Vec<u32>>>()?;
        let mut digests = Vec::new();
        file.reader()?.read(Column::Digests, 0, rows.len(), &mut digests)?;
        Ok(Some(Digests { shard, rows, digests }))
    }
}

impl KeptPages for StagedKept<'_> {
    fn of_file(&self, shard: u32) -> Result<Cow<'_, [(DocId, Place)]>> {
        self.each_of(shard)?.collect::<Result<_>>().map(Cow::Owned)
    }

    fn each_of(&self, shard: u32) -> Result<EachKept<'_>> {
        let Some(at) = self.files[shard as usize] else { return Ok(Box::new(std::iter::empty())) };
        let (file, start) = (&self.folder.files[at], self.folder.starts[at]);
        let mut goes = goes_of(self.assignments, start..start + file.header.pages)?.peekable();
        let stays = move |(page, named): (u64, Result<Named>)| {
            let is_next = |assignment: &Result<Assignment>| {
                assignment.as_ref().map_or(true, |assignment| assignment.page == page)
            };
            match goes.next_if(is_next) {
                Some(Ok(_)) => None,
                Some(Err(error)) => Some(Err(error)),
                None => Some(named.map(|named| (DocId::new(shard, named.row), named.place))),
            }
        };
        Ok(Box::new((start..).zip(file.each_name()?).filter_map(stays)))
    }

    fn number(&self, shard: u32) -> Result<u64> {
        Ok(self.numbers[shard as usize])
    }
}
