//! The kept documents of stages, input by input, for the writer of kept documents. They are read from sketches, names
//! and assignments when they are asked for.

use super::cluster::{of_document, removals_of};
use super::layout::Column;
use super::names::Named;
use super::record::Assignment;
use super::sketches::{Folder, FolderInput};
use crate::corpus::{EachKept, KeptDocuments};
use crate::document::DocId;
use crate::error::Result;
use crate::format::Body;
use crate::hash::text_digest;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The kept documents of some inputs, in the order in which the writer has these: `shard` is a position there.
pub struct StagedKept<'a> {
    /// The place of each input in [`Folder::inputs`], if it has sketches.
    inputs: Vec<Option<usize>>,
    /// The number of kept documents of each input.
    numbers: &'a [u64],
    documents: &'a InputDocuments<'a>,
}

impl<'a> StagedKept<'a> {
    /// The kept documents of inputs. Each input has its place in [`Folder::inputs`], or `None` without sketches, and
    /// the number of its kept documents in `numbers`.
    pub fn new(documents: &'a InputDocuments<'a>, inputs: Vec<Option<usize>>, numbers: &'a [u64]) -> Self {
        Self { inputs, numbers, documents }
    }

    /// True if `text` is the text that was sketched of a document, by its digest: of an input that has changed, only
    /// such documents are written. False if there are no sketches of it, or they cannot be read.
    pub fn is_same(&self, id: DocId, text: &str) -> bool {
        self.inputs[id.shard as usize].is_some_and(|input| self.documents.is_same(input, id.row, text))
    }
}

/// The documents of a folder's inputs, asked for one input after the other. Inputs have their places in
/// [`Folder::inputs`].
pub struct InputDocuments<'a> {
    folder: &'a Folder,
    assignments: &'a Body,
    /// The bundle that was asked for last, and the place of its file in [`Folder::files`].
    bundle: Mutex<Option<(usize, Arc<BundleDocuments>)>>,
    /// Digests of the file of sketches that was asked for last.
    digests: Mutex<Option<Digests>>,
}

/// The documents of the small inputs of a bundle, which are read once.
struct BundleDocuments {
    names: Vec<Named>,
    removals: Vec<Assignment>,
}

/// Rows of the documents of a file of sketches, and the digests of their texts, 16 bytes each.
struct Digests {
    /// The place of the file in [`Folder::files`].
    file: usize,
    rows: Vec<u32>,
    digests: Vec<u8>,
}

/// Some items that are read one by one.
type Each<'a, T> = Box<dyn Iterator<Item = Result<T>> + 'a>;

impl<'a> InputDocuments<'a> {
    /// The documents of a folder's inputs; nothing is read yet. `assignments` is the body of a file of assignments.
    pub fn new(folder: &'a Folder, assignments: &'a Body) -> Self {
        Self { folder, assignments, bundle: Mutex::default(), digests: Mutex::default() }
    }

    /// The names of the documents of an input.
    pub fn names(&self, input: usize) -> Result<Each<'_, Named>> {
        let file = self.folder.inputs[input].file;
        let Some(bundle) = self.bundle(file)? else {
            return Ok(Box::new(self.folder.files[file].each_name()?));
        };
        Ok(Box::new(self.places(input).map(move |place| Ok(bundle.names[place].clone()))))
    }

    /// The assignments of the removed documents of an input, in their order.
    pub fn removals(&self, input: usize) -> Result<Each<'_, Assignment>> {
        let FolderInput { file, ref documents, .. } = self.folder.inputs[input];
        let Some(bundle) = self.bundle(file)? else {
            return Ok(Box::new(removals_of(self.assignments, documents.clone())?));
        };
        let place = |number| bundle.removals.partition_point(|removal| removal.document < number);
        let places = place(documents.start)..place(documents.end);
        Ok(Box::new(places.map(move |place| Ok(bundle.removals[place]))))
    }

    /// The documents of the bundle that is in a file of sketches; `None` if the file is of one input, which may be
    /// large.
    fn bundle(&self, file: usize) -> Result<Option<Arc<BundleDocuments>>> {
        let of_file = &self.folder.files[file];
        if of_file.header.inputs.len() == 1 {
            return Ok(None);
        }
        let mut last = self.bundle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, bundle)) = &*last
            && *of == file
        {
            return Ok(Some(Arc::clone(bundle)));
        }
        let (names, start) = (of_file.names()?, self.folder.starts[file]);
        let removals = removals_of(self.assignments, start..start + names.len() as u64)?;
        let bundle = Arc::new(BundleDocuments { names, removals: removals.collect::<Result<_>>()? });
        Ok(Some(Arc::clone(&last.insert((file, bundle)).1)))
    }

    /// The places of an input's documents in their file of sketches.
    fn places(&self, input: usize) -> Range<usize> {
        let FolderInput { file, ref documents, .. } = self.folder.inputs[input];
        let start = self.folder.starts[file];
        (documents.start - start) as usize..(documents.end - start) as usize
    }

    /// True if `text` is the text that was sketched of the document in a row of an input.
    fn is_same(&self, input: usize, row: u32, text: &str) -> bool {
        let (file, places) = (self.folder.inputs[input].file, self.places(input));
        let mut last = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|last| last.file != file) {
            *last = self.digests(file).ok();
        }
        let Some(Digests { rows, digests, .. }) = &*last else { return false };
        let from = places.start;
        let at = rows.get(places).and_then(|rows| rows.binary_search(&row).ok());
        at.is_some_and(|at| digests[16 * (from + at)..].starts_with(&text_digest(text).to_le_bytes()))
    }

    fn digests(&self, file: usize) -> Result<Digests> {
        let of_file = &self.folder.files[file];
        let rows = of_file.each_name()?.map(|named| Ok(named?.row)).collect::<Result<Vec<u32>>>()?;
        let mut digests = Vec::new();
        of_file.reader()?.read(Column::Digests, 0, rows.len(), &mut digests)?;
        Ok(Digests { file, rows, digests })
    }
}

impl KeptDocuments for StagedKept<'_> {
    fn each_of(&self, shard: u32) -> Result<EachKept<'_>> {
        let Some(at) = self.inputs[shard as usize] else { return Ok(Box::new(std::iter::empty())) };
        let documents = self.documents.folder.inputs[at].documents.clone();
        let mut removals = self.documents.removals(at)?.peekable();
        let kept = move |(document, named): (u64, Result<Named>)| match of_document(&mut removals, document) {
            Ok(Some(_)) => None,
            Ok(None) => Some(named.map(|named| (DocId::new(shard, named.row), named.place))),
            Err(error) => Some(Err(error)),
        };
        Ok(Box::new(documents.zip(self.documents.names(at)?).filter_map(kept)))
    }

    fn number(&self, shard: u32) -> Result<u64> {
        Ok(self.numbers[shard as usize])
    }
}
