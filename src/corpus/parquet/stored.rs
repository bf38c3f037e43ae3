//! A stored file in the form that the decoders of Parquet and Arrow read: any bytes of it, by their offset.

use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::corpus::input::Input;
use crate::corpus::storage::StoredFile;

/// A stored file. Clones share it, and one of them reads at a time.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    file: Arc<Mutex<StoredFile>>,
    /// The number of its bytes.
    pub length: u64,
}

impl Stored {
    /// Opens the file or object of an input.
    pub fn open(input: &Input) -> io::Result<Self> {
        let file = input.storage.open()?;
        let length = file.length()?;
        Ok(Self { file: Arc::new(Mutex::new(file)), length })
    }

    fn file(&self) -> MutexGuard<'_, StoredFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This file, for a reader of the bytes from `from` to `end` alone: of an object, these are read ahead.
    pub fn within(&self, from: u64, end: u64) -> io::Result<Self> {
        let file = match &*self.file() {
            StoredFile::File(_) => return Ok(self.clone()),
            StoredFile::Object(reader) => StoredFile::Object(reader.within(from, end)),
        };
        Ok(Self { file: Arc::new(Mutex::new(file)), length: self.length })
    }

    /// The `length` bytes from the offset `start` on; `None` if there are not as many.
    pub fn bytes(&self, start: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        if start.checked_add(length).is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(length as usize);
        let mut file = self.file();
        file.move_to(start)?;
        (&mut *file).take(length).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 == length).then_some(bytes))
    }
}

impl Length for Stored {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Stored {
    type T = BufReader<Tail>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        // For the header of a page, which has some dozen bytes.
        Ok(BufReader::with_capacity(512, Tail { stored: self.clone(), start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.bytes(start, length as u64)?;
        bytes.map(Bytes::from).ok_or_else(|| {
            ParquetError::EOF(format!("{length} bytes at offset {start} of a file of {}", self.length))
        })
    }
}

/// A reader of the bytes of a file from an offset on. To read at the end of the file is an error.
#[derive(Debug)]
pub(super) struct Tail {
    stored: Stored,
    start: u64,
}

impl Read for Tail {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut file = self.stored.file();
        file.move_to(self.start)?;
        let n = file.read(into)?;
        if n == 0 && !into.is_empty() {
            // The decoder does not notice an end: it would pass over as many elements as a damaged list says it has.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.start += n as u64;
        Ok(n)
    }
}
