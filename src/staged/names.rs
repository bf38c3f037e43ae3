//! Files of names: the ids, URLs and places of the documents of a file of sketches, in the same order. They are
//! compressed in blocks. A file of its own has them, as the sketches alone decide about documents.

use super::spilled::{Scratch, SpilledBytes};
use crate::document::{Place, put_name, put_number, take_name, take_number};
use crate::error::{Error, Result};
use crate::format::{self, Body, NAMES, NewBinary, wrong};
use crate::inspection::Inspection;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The most documents of a block.
const BLOCK: usize = 4096;
/// Compression: beyond it, little is gained for much time.
const LEVEL: i32 = 3;
/// Bytes of a block before it is compressed, from which on no more documents are put into it.
const FULL: usize = 1 << 20;
/// Bytes of whole blocks that are held in memory while names are gathered.
const HELD: u64 = 1 << 20;

/// The header of a file of names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamesHeader {
    /// The real paths of the input files.
    pub inputs: Vec<String>,
    /// Number of their documents.
    pub documents: u64,
    /// Where each block ends in the body.
    ends: Vec<u64>,
}

/// A document's names and its place. `S` is the type of a name: `&str` for names in other bytes, or `String`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named<S = String> {
    /// Its place among the records of its input that may be documents, counted from 0. Files of names do not have it,
    /// as it follows from the sketches.
    pub row: u32,
    /// The place where its record is stored.
    pub place: Place,
    /// The record's own id.
    pub id: Option<S>,
    /// The URL.
    pub url: Option<S>,
    /// The value of the field that groups documents for boilerplate, where one does.
    pub group: Option<S>,
}

impl<S: AsRef<str>> Named<S> {
    /// Appends the document to `out`, in a form that is read without other documents.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.row.into());
        self.place.put(out);
        self.put_names(out);
    }

    fn put_names(&self, out: &mut Vec<u8>) {
        let names = [&self.id, &self.url, &self.group];
        names.into_iter().for_each(|name| put_name(out, name.as_ref().map(AsRef::as_ref)));
    }
}

impl<'a> Named<&'a str> {
    /// Reads a document of [`put`](Named::put) from the start of `bytes`, and moves `bytes` behind it. `None` if the
    /// bytes end within it or are corrupt.
    pub fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let row = u32::try_from(take_number(bytes)?).ok()?;
        let place = Place::take(bytes)?;
        let (id, url, group) = (take_name(bytes)?, take_name(bytes)?, take_name(bytes)?);
        Some(Self { row, place, id, url, group })
    }

    /// The document with copies of its names.
    pub fn owned(self) -> Named {
        let Self { row, place, id, url, group } = self;
        let [id, url, group] = [id, url, group].map(|name| name.map(str::to_owned));
        Named { row, place, id, url, group }
    }
}

/// The names of documents while they are gathered for a file.
pub struct Names<'a> {
    scratch: &'a Scratch,
    documents: u64,
    block: Vec<u8>,
    in_block: usize,
    before: u64,
    /// Whole blocks.
    body: SpilledBytes<'a>,
    ends: Vec<u64>,
}

impl<'a> Names<'a> {
    /// No names yet; blocks of names beyond a few go to `scratch`.
    pub fn new(scratch: &'a Scratch) -> Self {
        let (block, body, ends) = (Vec::new(), SpilledBytes::new(scratch), Vec::new());
        Self { scratch, documents: 0, block, in_block: 0, before: 0, body, ends }
    }

    /// Adds the names and the place of a document behind the others; its row is not stored.
    pub fn push(&mut self, named: &Named<&str>) -> Result<()> {
        let place = named.place;
        // Places mostly ascend.
        let step = place.offset.wrapping_sub(self.before) as i64;
        self.before = place.offset;
        Place { offset: (step << 1 ^ step >> 63) as u64, ..place }.put(&mut self.block);
        named.put_names(&mut self.block);
        self.documents += 1;
        self.in_block += 1;
        if self.in_block == BLOCK || self.block.len() >= FULL {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        let packed = zstd::bulk::compress(&self.block, LEVEL);
        self.body.push(&packed.map_err(|error| Error::io(self.scratch.place(), error))?, HELD)?;
        self.ends.push(self.body.len());
        self.block.clear();
        (self.in_block, self.before) = (0, 0);
        Ok(())
    }

    /// Writes all names to a file at `path`, for input files with the paths `inputs`.
    pub fn write(mut self, path: &Path, inputs: Vec<String>) -> Result<()> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let header = NamesHeader { inputs, documents: self.documents, ends: self.ends };
        let mut file = NewBinary::begin(path, NAMES, &header)?;
        io::copy(&mut self.body.reader()?, &mut file).map_err(|error| Error::io(path, error))?;
        file.finish()
    }
}

/// The names of a file one after the other, with a block in memory at a time. Their rows are 0.
///
/// # Errors
/// If the file cannot be read or is corrupt, or is not of the input files `inputs` with `documents` documents. A block
/// that cannot be decompressed is an error when the iterator comes to it.
pub fn each(
    path: &Path,
    inputs: &[String],
    documents: u64,
) -> Result<impl Iterator<Item = Result<Named>> + use<>> {
    let (header, body) = open(path, inputs, documents)?;
    body.check()?;
    blocks(header, &body)
}

/// Opens a file of names, and checks that it is of the input files `inputs` with `documents` documents. Its body is not
/// read.
pub fn open(path: &Path, inputs: &[String], documents: u64) -> Result<(NamesHeader, Body)> {
    let (header, body): (NamesHeader, Body) = format::open(path, NAMES)?;
    let advice = "it does not belong to the sketches beside it; sketch the file again";
    if header.inputs != inputs {
        let [expected, got] = [inputs, &header.inputs].map(|paths| paths.join(", "));
        return Err(wrong(path, "the input files", expected, got, advice));
    }
    if header.documents != documents {
        return Err(wrong(
            path,
            "the number of documents",
            documents.to_string(),
            header.documents.to_string(),
            advice,
        ));
    }
    Ok((header, body))
}

/// The names of the documents of a body that was checked, in order, of which a block is in memory at a time. They have
/// no rows yet.
fn blocks(header: NamesHeader, body: &Body) -> Result<impl Iterator<Item = Result<Named>> + use<>> {
    let (path, length, mut reader) = (body.path().to_path_buf(), body.len(), body.reader()?);
    let broken = move || {
        let (expected, got) =
            ("names of as many documents as the header says".to_owned(), "others".to_owned());
        wrong(&path, "the body", expected, got, "the file is corrupt; sketch the input again")
    };
    let (mut ends, mut start, mut documents) = (header.ends.into_iter(), 0, 0);
    let mut next = move || {
        let Some(end) = ends.next() else {
            let is_whole = documents == header.documents && start == length;
            return if is_whole { Ok(None) } else { Err(broken()) };
        };
        if end < start || end > length {
            return Err(broken());
        }
        let mut packed = vec![0; (end - start) as usize];
        reader.fill(&mut packed)?;
        let block = zstd::decode_all(&packed[..]).map_err(|_| broken())?;
        let names = read_block(&block).ok_or_else(&broken)?;
        documents += names.len() as u64;
        start = end;
        Ok(Some(names))
    };
    // Nothing comes behind what is broken.
    let mut is_broken = false;
    let blocks = std::iter::from_fn(move || {
        let block = if is_broken { Ok(None) } else { next() };
        is_broken |= block.is_err();
        block.transpose()
    });
    Ok(blocks.flat_map(|block| {
        let (names, error) = block.map_or_else(|error| (Vec::new(), Some(error)), |names| (names, None));
        names.into_iter().map(Ok).chain(error.map(Err))
    }))
}

fn read_block(mut block: &[u8]) -> Option<Vec<Named>> {
    let (mut names, mut before) = (Vec::new(), 0u64);
    while !block.is_empty() {
        let stored = Place::take(&mut block)?;
        let step = stored.offset;
        before = before.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg());
        let place = Place { offset: before, ..stored };
        let (id, url, group) = (take_name(&mut block)?, take_name(&mut block)?, take_name(&mut block)?);
        names.push(Named { row: 0, place, id, url, group }.owned());
    }
    Some(names)
}

/// Adds the paths of inputs as facts: one path, or the number of them with the first and the last.
pub fn show_inputs(inspection: &mut Inspection, paths: &[String]) {
    match paths {
        [path] => inspection.fact("input", path),
        _ => {
            inspection.fact("inputs", paths.len());
            paths.first().iter().for_each(|path| inspection.fact("first input", path));
            paths.last().iter().for_each(|path| inspection.fact("last input", path));
        }
    }
}

/// Checks a file of names for [`inspect`](crate::inspect).
pub fn check(path: &Path) -> Result<Inspection> {
    let (header, body): (NamesHeader, Body) = format::open(path, NAMES)?;
    body.check()?;
    let mut inspection = Inspection::of(NAMES.name);
    show_inputs(&mut inspection, &header.inputs);
    inspection.fact("documents", header.documents);
    if let Some(error) = blocks(header, &body)?.find_map(Result::err) {
        inspection.problem(error.to_string());
    }
    Ok(inspection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn names_are_read_as_they_were_written(
            documents in prop::collection::vec(
                (any::<[u64; 4]>(), prop::option::of(".{0,9}"), prop::option::of(".{0,30}")), 0..30
            ),
            times in prop::sample::select(vec![1usize, 300]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("names");
            let scratch = Scratch::beside(&path);
            let (mut names, mut expected) = (Names::new(&scratch), Vec::new());
            for ([offset, within, length, member], id, url) in documents.iter().cycle().take(documents.len() * times) {
                let place = Place { offset: *offset, within: *within, length: *length, member: *member };
                let [id, url, group] = [id, url, url].map(|name| name.as_deref());
                let named = Named { row: 0, place, id, url, group: group.filter(|_| *within % 2 == 0) };
                names.push(&named).unwrap();
                expected.push(named.owned());
                let (one, mut bytes) = (Named { row: *within as u32, ..expected[0].clone() }, Vec::new());
                one.put(&mut bytes);
                prop_assert_eq!(Named::take(&mut &bytes[..]).map(Named::owned), Some(one));
                prop_assert_eq!(Named::take(&mut &bytes[..bytes.len() - 1]), None);
            }
            let [input, other] = ["input", "other"].map(|name| vec![name.to_owned()]);
            names.write(&path, input.clone()).unwrap();
            let n = expected.len() as u64;
            prop_assert_eq!(each(&path, &input, n).unwrap().collect::<Result<Vec<_>>>().unwrap(), expected);
            prop_assert!(check(&path).unwrap().problems.is_empty());
            prop_assert!(each(&path, &other, n).is_err() && each(&path, &input, n + 1).is_err());
        }
    }
}
