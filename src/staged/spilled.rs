//! Bytes and columns that are gathered for a file, and go to files of a scratch folder where they outgrow memory.

use super::layout::BodyLayout;
use super::workplace;
use crate::atomic_write::Unfinished;
use crate::error::{Error, Result};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::NamedTempFile;

/// A folder for what does not fit into memory. It is made when it is needed, and dropping it removes it.
pub struct Scratch {
    place: PathBuf,
    folder: Mutex<Option<Unfinished>>,
}

impl Scratch {
    /// A scratch folder for the file that is made at `place`, beside that; it is not made yet.
    pub fn beside(place: &Path) -> Self {
        Self { place: place.to_path_buf(), folder: Mutex::default() }
    }

    /// The path of the file that it is for.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The file that is open, or else a new one in the folder, to write and to read. Dropping it removes it.
    fn file<'f>(&self, open: &'f mut Option<NamedTempFile>) -> Result<&'f mut NamedTempFile> {
        if let Some(file) = open {
            return Ok(file);
        }
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match &mut *folder {
            Some(folder) => folder,
            none => none.insert(workplace(&self.place)?),
        };
        let file = tempfile::Builder::new().suffix(".part").tempfile_in(folder.path());
        Ok(open.insert(file.map_err(|error| Error::io(folder.path(), error))?))
    }
}

/// A reader of a file of [`Scratch`], from its beginning.
fn from_start(mut file: NamedTempFile) -> Result<Box<dyn Read + Send>> {
    file.seek(SeekFrom::Start(0)).map_err(|error| Error::io(file.path(), error))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// Bytes that are gathered one behind the other, on disk where they outgrow memory.
pub struct SpilledBytes<'a> {
    scratch: &'a Scratch,
    on_disk: Option<NamedTempFile>,
    spilled: u64,
    held: Vec<u8>,
}

impl<'a> SpilledBytes<'a> {
    /// No bytes.
    pub fn new(scratch: &'a Scratch) -> Self {
        Self { scratch, on_disk: None, spilled: 0, held: Vec::new() }
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.spilled + self.held.len() as u64
    }

    /// Adds bytes behind the others. Those in memory go to disk if there are `room` of them or more.
    pub fn push(&mut self, bytes: &[u8], room: u64) -> Result<()> {
        self.held.extend_from_slice(bytes);
        if (self.held.len() as u64) < room {
            return Ok(());
        }
        let file = self.scratch.file(&mut self.on_disk)?;
        file.write_all(&self.held).map_err(|error| Error::io(file.path(), error))?;
        self.spilled += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    /// If some bytes are on disk, puts the others there as well, which frees their memory. It is called behind the
    /// last.
    pub fn end(&mut self) -> Result<()> {
        if self.on_disk.is_some() {
            self.push(&[], 0)?;
            self.held = Vec::new();
        }
        Ok(())
    }

    /// Reads all bytes, from the first one on.
    pub fn reader(self) -> Result<Box<dyn Read + Send>> {
        let held = Cursor::new(self.held);
        match self.on_disk {
            Some(file) => Ok(Box::new(from_start(file)?.chain(held))),
            None => Ok(Box::new(held)),
        }
    }
}

/// The columns of a known number of documents, which come document by document. They are in memory if they are short,
/// and otherwise in one file on disk.
pub struct SpilledColumns<'a> {
    scratch: &'a Scratch,
    on_disk: Option<NamedTempFile>,
    columns: Vec<SpilledColumn>,
}

/// A column of such documents.
struct SpilledColumn {
    /// Bytes of a document.
    width: usize,
    /// Where on disk its next bytes belong.
    place: u64,
    held: Vec<u8>,
}

impl<'a> SpilledColumns<'a> {
    /// Bytes of a column that are held.
    const HELD: usize = 1 << 16;

    /// Columns of this layout, with no documents yet.
    pub fn new(layout: &BodyLayout, scratch: &'a Scratch) -> Self {
        let column = |column| {
            let (place, width) = layout.place(column);
            SpilledColumn { width, place, held: Vec::new() }
        };
        Self { scratch, on_disk: None, columns: layout.columns().map(column).collect() }
    }

    /// Adds the next document, whose values in all columns are the first of `bytes`, and gives the bytes behind them.
    /// `None` if there are too few.
    pub fn push<'b>(&mut self, mut bytes: &'b [u8]) -> Result<Option<&'b [u8]>> {
        for column in &mut self.columns {
            let Some((of_column, rest)) = bytes.split_at_checked(column.width) else { return Ok(None) };
            bytes = rest;
            column.held.extend_from_slice(of_column);
            if column.held.len() >= Self::HELD {
                column.spill(&mut self.on_disk, self.scratch)?;
            }
        }
        Ok(Some(bytes))
    }

    /// Reads all columns, one behind the other, each with the values of all documents.
    pub fn reader(mut self) -> Result<Box<dyn Read + Send>> {
        if self.on_disk.is_none() {
            let held: Vec<u8> = self.columns.into_iter().flat_map(|column| column.held).collect();
            return Ok(Box::new(Cursor::new(held)));
        }
        for column in &mut self.columns {
            column.spill(&mut self.on_disk, self.scratch)?;
        }
        self.on_disk.map_or_else(|| Ok(Box::new(io::empty()) as _), from_start)
    }
}

impl SpilledColumn {
    fn spill(&mut self, on_disk: &mut Option<NamedTempFile>, scratch: &Scratch) -> Result<()> {
        let file = scratch.file(on_disk)?;
        let written = file.seek(SeekFrom::Start(self.place)).and_then(|_| file.write_all(&self.held));
        written.map_err(|error| Error::io(file.path(), error))?;
        self.place += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }
}
