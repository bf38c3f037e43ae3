//! The kept documents of stages, input by input, for the writer of kept documents. They are read from sketches, names
//! and assignments when they are asked for.

use super::cluster::{of_document, removals_of};
use super::layout::Column;
use super::names::Named;
use super::sketches::{Folder, FolderInput};
use crate::corpus::{EachKept, KeptDocuments};
use crate::document::DocId;
use crate::error::Result;
use crate::format::Body;
use crate::hash::text_digest;
use std::sync::{Arc, Mutex, PoisonError};

/// The kept documents of some inputs, in the order in which the writer has these: `shard` is a position there.
pub struct StagedKept<'a> {
    folder: &'a Folder,
    /// The place of each input in [`Folder::inputs`], if it has sketches.
    inputs: Vec<Option<usize>>,
    assignments: &'a Body,
    /// The number of kept documents of each input.
    numbers: &'a [u64],
    names: InputNames<'a>,
    /// Rows and digests of the input that was asked for last.
    last: Mutex<Option<Digests>>,
}

/// Rows of the documents of an input, and the digests of their texts, 16 bytes each.
struct Digests {
    shard: u32,
    rows: Vec<u32>,
    digests: Vec<u8>,
}

impl<'a> StagedKept<'a> {
    /// The kept documents of inputs. Each input has its place in [`Folder::inputs`], or `None` without sketches, and
    /// the number of its kept documents in `numbers`. `assignments` is the body of a file of assignments.
    pub fn new(
        folder: &'a Folder,
        inputs: Vec<Option<usize>>,
        assignments: &'a Body,
        numbers: &'a [u64],
    ) -> Self {
        Self { folder, inputs, assignments, numbers, names: InputNames::new(folder), last: Mutex::default() }
    }

    /// True if `text` is the text that was sketched of a document, by its digest: of an input that has changed, only
    /// such documents are written. False if there are no sketches of it, or they cannot be read.
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
        let Some(at) = self.inputs[shard as usize] else { return Ok(None) };
        let FolderInput { file, documents, .. } = &self.folder.inputs[at];
        let rows = self.names.of(at)?.map(|named| Ok(named?.row)).collect::<Result<Vec<u32>>>()?;
        let (mut digests, from) = (Vec::new(), documents.start - self.folder.starts[*file]);
        self.folder.files[*file].reader()?.read(Column::Digests, from, rows.len(), &mut digests)?;
        Ok(Some(Digests { shard, rows, digests }))
    }
}

/// The names of the documents of inputs, one input after the other.
pub struct InputNames<'a> {
    folder: &'a Folder,
    /// The names of the small inputs that are in one file of sketches, which are read once.
    bundle: Mutex<Option<(usize, Arc<Vec<Named>>)>>,
}

impl<'a> InputNames<'a> {
    /// The names of a folder's inputs; nothing is read yet.
    pub fn new(folder: &'a Folder) -> Self {
        Self { folder, bundle: Mutex::default() }
    }

    /// The names of the documents of the input at this place in [`Folder::inputs`].
    pub fn of(&self, input: usize) -> Result<Box<dyn Iterator<Item = Result<Named>> + '_>> {
        let FolderInput { file: at, documents, .. } = &self.folder.inputs[input];
        let file = &self.folder.files[*at];
        if file.header.inputs.len() == 1 {
            return Ok(Box::new(file.each_name()?));
        }
        let mut bundle = self.bundle.lock().unwrap_or_else(PoisonError::into_inner);
        let names = match &*bundle {
            Some((of, names)) if of == at => Arc::clone(names),
            _ => Arc::clone(&bundle.insert((*at, Arc::new(file.names()?))).1),
        };
        let start = self.folder.starts[*at];
        let places = (documents.start - start) as usize..(documents.end - start) as usize;
        Ok(Box::new(places.map(move |place| Ok(names[place].clone()))))
    }
}

impl KeptDocuments for StagedKept<'_> {
    fn each_of(&self, shard: u32) -> Result<EachKept<'_>> {
        let Some(at) = self.inputs[shard as usize] else { return Ok(Box::new(std::iter::empty())) };
        let documents = self.folder.inputs[at].documents.clone();
        let mut removals = removals_of(self.assignments, documents.clone())?.peekable();
        let kept = move |(document, named): (u64, Result<Named>)| match of_document(&mut removals, document) {
            Ok(Some(_)) => None,
            Ok(None) => Some(named.map(|named| (DocId::new(shard, named.row), named.place))),
            Err(error) => Some(Err(error)),
        };
        Ok(Box::new(documents.zip(self.names.of(at)?).filter_map(kept)))
    }

    fn number(&self, shard: u32) -> Result<u64> {
        Ok(self.numbers[shard as usize])
    }
}
