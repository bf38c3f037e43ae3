//! The names and places of documents on disk, looked up by their numbers.

use super::names::Named;
use super::record::{DOCUMENT, document_bytes, document_of};
use super::sketches::Folder;
use super::sorter::Sorter;
use crate::document::DocId;
use crate::error::{Error, Result};
use crate::hash::text_digest;
use crate::pipeline::documents::NamedDocument;
use simflip_core::bits::Bits;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// An input of a folder of sketches, as results call it.
#[derive(Clone, Debug)]
pub struct Called {
    /// The input file.
    pub name: PathBuf,
    /// Its number among the inputs of the run.
    pub shard: u32,
}

/// The names of all documents of a folder of sketches, in the order of its files.
pub struct Lookup<'a> {
    folder: &'a Folder,
    /// Of each input.
    called: &'a [Called],
    /// Documents whose record id an earlier document has.
    repeated: Bits,
    /// Where each document's names begin, 8 bytes a document and 8 more.
    starts: LookupFile,
    names: LookupFile,
    bytes: Vec<u8>,
}

impl<'a> Lookup<'a> {
    /// Puts the names of all documents into a folder, using about `memory` bytes meanwhile.
    ///
    /// # Errors
    /// If names are damaged, or the folder cannot be written to.
    pub fn new(folder: &'a Folder, called: &'a [Called], work: &Path, memory: u64) -> Result<Self> {
        let (starts, names) = (work.join("names.starts"), work.join("names.all"));
        let mut ids = Sorter::new(memory, work, "ids");
        let create = |path: &Path| {
            let file = File::create(path).map_err(|error| Error::io(path, error))?;
            Ok::<_, Error>(BufWriter::with_capacity(1 << 18, file))
        };
        let (mut to_starts, mut to_names) = (create(&starts)?, create(&names)?);
        let (mut at, mut document, mut bytes) = (0u64, 0u64, Vec::new());
        for file in &folder.files {
            for named in file.each_name()? {
                let named = named?;
                bytes.clear();
                named.put(&mut bytes);
                to_starts.write_all(&at.to_le_bytes()).map_err(|error| Error::io(&starts, error))?;
                to_names.write_all(&bytes).map_err(|error| Error::io(&names, error))?;
                at += bytes.len() as u64;
                if let Some(id) = &named.id {
                    let mut record = [0; 16 + DOCUMENT];
                    record[..16].copy_from_slice(&text_digest(id).to_be_bytes());
                    record[16..].copy_from_slice(&document_bytes(document));
                    ids.push(&record)?;
                }
                document += 1;
            }
        }
        let ended = to_starts.write_all(&at.to_le_bytes()).and_then(|()| to_starts.flush());
        ended.map_err(|error| Error::io(&starts, error))?;
        to_names.flush().map_err(|error| Error::io(&names, error))?;
        let (mut ids, mut repeated, mut last) = (ids.finish()?, Bits::new(folder.documents()), None);
        while let Some(record) = ids.next()? {
            let mut id = [0; 16];
            id.copy_from_slice(&record[..16]);
            if last.replace(id) == Some(id) {
                repeated.set(document_of(&record[16..]));
            }
        }
        let (starts, names) = (LookupFile::open(starts)?, LookupFile::open(names)?);
        Ok(Self { folder, called, repeated, starts, names, bytes: Vec::new() })
    }

    /// New documents whose record id an earlier document has.
    pub fn repeated(&self) -> u64 {
        (0..self.folder.new_documents()).filter(|&document| self.repeated.get(document)).count() as u64
    }

    /// The names and the place of a document in results.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn document(&mut self, document: u64) -> Result<NamedDocument<'a>> {
        let mut range = [0; 16];
        self.starts.read(document * 8, &mut range)?;
        let [from, to] = [0, 8].map(|at| {
            let mut number = [0; 8];
            number.copy_from_slice(&range[at..at + 8]);
            u64::from_le_bytes(number)
        });
        self.bytes.resize(to.saturating_sub(from) as usize, 0);
        self.names.read(from, &mut self.bytes)?;
        let broken = || Error::io(&self.names.path, std::io::ErrorKind::InvalidData.into());
        let Named { row, place, id, url } = Named::take(&mut &self.bytes[..]).ok_or_else(broken)?;
        let called: &'a [Called] = self.called;
        let Called { name, shard } = &called[self.folder.input_of(document)];
        Ok(NamedDocument {
            id: Cow::Owned(match id {
                Some(id) if !self.repeated.get(document) => id.to_owned(),
                _ => format!("{}:{row}", name.display()),
            }),
            url: url.map(|url| Cow::Owned(url.to_owned())),
            file: name,
            at: DocId::new(*shard, row),
            place,
            is_old: self.folder.is_old(document),
        })
    }
}

/// A file that is read in places.
struct LookupFile {
    path: PathBuf,
    file: BufReader<File>,
    /// Where it was read to.
    at: u64,
}

impl LookupFile {
    fn open(path: PathBuf) -> Result<Self> {
        let file = File::open(&path).map_err(|error| Error::io(&path, error))?;
        Ok(Self { path, file: BufReader::with_capacity(1 << 12, file), at: 0 })
    }

    /// Fills `bytes` from a place on. Of what is near the last place, much is in memory.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let step = at.wrapping_sub(self.at).cast_signed();
        self.at = at + bytes.len() as u64;
        let read = self.file.seek_relative(step).and_then(|()| self.file.read_exact(bytes));
        read.map_err(|error| Error::io(&self.path, error))
    }
}
