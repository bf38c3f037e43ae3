//! A file of any format that is read block by block. One thread at a time makes the next block; any thread then works
//! on the block.

use super::ahead::{Claim, InflatedMembers};
use super::corruption::{Corruption, FileReading, TooLong, unreadable};
use super::document::Document;
use super::input::ReadInput;
use super::parquet;
use super::records::Records;
use super::stream::StreamReader;

/// A block that was read at once: whole records of a stream, or rows of Parquet or Arrow.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The records; empty for rows.
    pub records: Records,
    /// The rows; empty for records.
    pub rows: parquet::Batch,
    /// The outcome of reading the block, and of working on it.
    pub part: FileReading,
}

impl Block {
    /// Takes a close look at each record or row: hands the documents to `each`, and counts them and corruption in
    /// `part`. Returns a record that turned out to have more than `most` bytes, by [`Document::bytes`]; nothing behind
    /// it is taken.
    pub fn process(
        &mut self,
        read: ReadInput<'_>,
        most: u64,
        mut each: impl FnMut(Document<'_>),
    ) -> Option<TooLong> {
        match read.input.format.is_columnar() {
            true => self.rows.process(read, most, &mut self.part, &mut each),
            false => self.records.process(read, most, &mut self.part, &mut each),
        }
    }
}

/// A file being read.
pub(crate) enum Reader {
    /// Cuts records off a stream of bytes.
    Stream(Box<StreamReader>),
    /// Reads rows.
    Rows(Box<parquet::Rows>),
    /// A file that cannot be read, and the corruption that says why, until the first block has it.
    Closed(Option<Corruption>),
}

impl Reader {
    /// Opens an input. One that cannot be opened is a file with one corrupt section.
    pub fn open(read: ReadInput<'_>) -> Self {
        let ReadInput { input, options, .. } = read;
        let opened = match &input.problem {
            Some(problem) => Err(problem.clone()),
            None if input.format.is_columnar() => {
                parquet::Rows::open(input, options).map(|rows| Self::Rows(Box::new(rows)))
            }
            None => StreamReader::open(read).map(|reader| Self::Stream(Box::new(reader))).map_err(unreadable),
        };
        opened.unwrap_or_else(|(kind, detail)| {
            Self::Closed(Some(Corruption::of_file(&input.path, 0, kind, detail)))
        })
    }

    /// The number of rows and the bytes of their texts, as Parquet states them; for Arrow the bytes are estimated.
    /// `None` for other formats.
    pub fn rows(&self) -> Option<(u64, u64)> {
        let Self::Rows(rows) = self else { return None };
        Some(rows.claimed())
    }

    /// Decoded bytes that stand in no block yet, of which an estimate of stored bytes takes account.
    pub fn decoded_ahead(&self) -> u64 {
        if let Self::Stream(stream) = self { stream.carry.len() as u64 } else { 0 }
    }

    /// A stretch of a gzip file for a thread to inflate ahead, but for members of more than `most` decoded bytes.
    /// [`next_block_of`](Self::next_block_of) takes the outcomes, in the order of the claims. `None` if nothing is
    /// inflated ahead, or nothing is left.
    pub fn claim(&mut self, most: u64) -> Option<Claim> {
        if let Self::Stream(stream) = self { stream.claim(most) } else { None }
    }

    /// Reads the next block into `block`, whose buffers are used again; false if there is none.
    pub fn next_block(&mut self, block: &mut Block) -> bool {
        self.next_block_of(None, u64::MAX, block)
    }

    /// Reads the next block, of the members that were inflated ahead for it, if any were; false if there is none. A
    /// record of more than `most` bytes ends the reading.
    pub fn next_block_of(&mut self, ahead: Option<InflatedMembers>, most: u64, block: &mut Block) -> bool {
        block.part = FileReading::default();
        match self {
            Self::Stream(stream) => stream.next_block(&mut block.records, &mut block.part, ahead, most),
            Self::Rows(rows) => rows.next_block(&mut block.rows, &mut block.part),
            Self::Closed(corruption) => {
                block.records.clear();
                corruption.take().map(|corruption| block.part.add(corruption)).is_some()
            }
        }
    }
}
