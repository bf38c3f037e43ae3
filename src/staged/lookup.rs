//! The names and places of documents, looked up by their numbers in a folder of sketches. They are on disk, with a
//! bounded part of them in memory.

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
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An input of a folder of sketches, as results call it.
#[derive(Clone, Debug)]
pub struct InputName {
    /// The path of the input file in results.
    pub name: PathBuf,
    /// Its position in the list of inputs of the run.
    pub shard: u32,
}

/// The names of all documents of a folder of sketches, new ones and reference documents.
pub struct Lookup<'a> {
    folder: &'a Folder,
    /// The name of each of [`Folder::inputs`].
    inputs: &'a [InputName],
    /// Documents whose record id an earlier document has.
    repeated: Bits,
    /// Where each document's names begin, 8 bytes a document and 8 more.
    starts: BlockCache,
    names: BlockCache,
    bytes: Vec<u8>,
}

impl<'a> Lookup<'a> {
    /// Writes the names of all documents into two files of the folder `work`, from which they are looked up, and takes
    /// about `memory` bytes. `inputs` has the name of each of [`Folder::inputs`].
    pub fn new(folder: &'a Folder, inputs: &'a [InputName], work: &Path, memory: u64) -> Result<Self> {
        let (starts, names) = (work.join("names.starts"), work.join("names.all"));
        let mut ids = Sorter::new(memory / 2, work, "ids");
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
        let room = memory / 4;
        let (starts, names) = (BlockCache::open(starts, room)?, BlockCache::open(names, room)?);
        Ok(Self { folder, inputs, repeated, starts, names, bytes: Vec::new() })
    }

    /// The number of new documents whose record id an earlier document has.
    pub fn repeated(&self) -> u64 {
        (0..self.folder.new_documents()).filter(|&document| self.repeated.get(document)).count() as u64
    }

    /// Gives back the memory that makes looking up faster; the next look-up takes memory again.
    pub fn release(&mut self) {
        self.starts.release();
        self.names.release();
    }

    /// Reads the names of a document.
    fn read(&mut self, document: u64) -> Result<Named<&str>> {
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
        Named::take(&mut &self.bytes[..]).ok_or_else(broken)
    }

    /// The value of a document in the field that groups documents; `None` without a field or a value.
    pub fn group(&mut self, document: u64) -> Result<Option<String>> {
        Ok(self.read(document)?.group.map(str::to_owned))
    }

    /// The names and the place of a document as results have them. Its id is its file and row if its record has none,
    /// or an earlier document has the same one.
    pub fn document(&mut self, document: u64) -> Result<NamedDocument<'a>> {
        let Named { row, place, id, url, .. } = self.read(document)?.owned();
        let inputs: &'a [InputName] = self.inputs;
        let InputName { name, shard } = &inputs[self.folder.input_of(document)];
        Ok(NamedDocument {
            id: Cow::Owned(match id {
                Some(id) if !self.repeated.get(document) => id,
                _ => format!("{}:{row}", name.display()),
            }),
            url: url.map(Cow::Owned),
            file: name,
            at: DocId::new(*shard, row),
            place,
            is_reference: self.folder.is_reference(document),
        })
    }
}

/// A file of which some blocks are in memory, each in the only place where it may be.
struct BlockCache {
    path: PathBuf,
    file: File,
    /// Which block is in which place.
    held: Vec<(u64, Vec<u8>)>,
}

const BLOCK: u64 = 1 << 14;

impl BlockCache {
    fn open(path: PathBuf, memory: u64) -> Result<Self> {
        let file = File::open(&path).map_err(|error| Error::io(&path, error))?;
        let places = (memory / BLOCK).clamp(16, 1 << 20) as usize;
        Ok(Self { path, file, held: vec![(u64::MAX, Vec::new()); places] })
    }

    /// Fills `bytes` from a place on.
    fn read(&mut self, mut at: u64, mut bytes: &mut [u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (block, within) = (at / BLOCK, (at % BLOCK) as usize);
            let held = self.block(block)?;
            let n = held.len().saturating_sub(within).min(bytes.len());
            if n == 0 {
                return Err(Error::io(&self.path, std::io::ErrorKind::UnexpectedEof.into()));
            }
            bytes[..n].copy_from_slice(&held[within..within + n]);
            bytes = &mut bytes[n..];
            at += n as u64;
        }
        Ok(())
    }

    /// Gives back the memory of all blocks.
    fn release(&mut self) {
        self.held.fill_with(|| (u64::MAX, Vec::new()));
    }

    fn block(&mut self, block: u64) -> Result<&[u8]> {
        let places = self.held.len() as u64;
        let (held, bytes) = &mut self.held[(block % places) as usize];
        if *held != block {
            let io = |error| Error::io(&self.path, error);
            *held = u64::MAX;
            bytes.clear();
            self.file.seek(SeekFrom::Start(block * BLOCK)).map_err(io)?;
            (&mut self.file).take(BLOCK).read_to_end(bytes).map_err(io)?;
            *held = block;
        }
        Ok(bytes)
    }
}
