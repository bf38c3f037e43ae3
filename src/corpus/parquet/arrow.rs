//! Arrow files and streams: the list of their messages, and the arrays of a record batch.
//!
//! A message has a head, which says what it is, and a body with values: a record batch of some rows, or a dictionary of
//! values that rows refer to. A file is a stream of messages between a magic number and a footer, which says where they
//! are (<https://arrow.apache.org/docs/format/Columnar.html>). Without a footer it is read as a stream, message by
//! message, so that the batches before a cut are used. The heads of all messages are read first, like the footer of
//! Parquet.

use std::fmt::Display;
use std::io;
use std::ops::Range;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{
    Block, CompressionType, Endianness, Message, MetadataVersion, convert, root_as_footer, root_as_message,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use parquet::errors::ParquetError;

use super::columns::{ValueColumn, ValueKind};
use super::footer::FOOTER_CAP;
use super::guard::guarded;
use super::stored::Stored;
use crate::corpus::corruption::{CorruptionCause, CorruptionKind, unreadable};
use crate::corpus::filetype::ARROW_MAGIC;

/// The place of a message, and the number of bytes of its head and of its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessagePlace {
    /// Offset of the head in the stored file; the body follows it.
    pub offset: u64,
    head: u64,
    body: u64,
}

/// A record batch, as the head of its message describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrowBatch {
    pub place: MessagePlace,
    /// The number of its rows.
    pub rows: u64,
    /// The number of dictionaries that it may need, from the first of the file on.
    dictionaries: usize,
}

/// The messages of a file or stream.
#[derive(Debug)]
pub(super) struct Messages {
    /// The columns and their types.
    pub schema: SchemaRef,
    version: MetadataVersion,
    /// The record batches in file order.
    pub batches: Vec<ArrowBatch>,
    dictionaries: Vec<MessagePlace>,
    /// The compression of the first record batch that is compressed, in file order; `None` if none is. Kept rows of the
    /// file are written with it.
    pub compression: Option<CompressionType>,
    /// The offset from which on nothing is read, the reason, and the rows that are lost, if that is known. `None` if
    /// all is read.
    pub end: Option<(u64, CorruptionCause, Option<u64>)>,
}

fn corrupt(what: impl ToString) -> ParquetError {
    ParquetError::General(what.to_string())
}

fn undecoded(why: impl Display) -> CorruptionCause {
    (CorruptionKind::Undecodable, format!("a message does not decode: {why}"))
}

/// The message that stands in bytes behind its length.
fn message(head: &[u8]) -> Result<Message<'_>, String> {
    let behind = if head.starts_with(&[0xff; 4]) { 8 } else { 4 };
    root_as_message(head.get(behind..).unwrap_or_default())
        .map_err(|error| error.to_string().trim().to_owned())
}

/// Bytes of a message's body.
fn body_of(message: &Message<'_>) -> Result<u64, CorruptionCause> {
    u64::try_from(message.bodyLength()).map_err(|_| undecoded("a body of less than no bytes"))
}

/// The bytes of the head of the message at an offset, with its length in front. `None` at the end of the file, and at
/// the mark that ends a stream.
fn head_at(stored: &Stored, at: u64) -> Result<Option<Vec<u8>>, CorruptionCause> {
    let end = stored.length;
    let cut = || (CorruptionKind::Truncated, "the file ends inside a message".to_owned());
    let start = stored.bytes(at, end.saturating_sub(at).min(8)).map_err(unreadable)?.ok_or_else(cut)?;
    // Before version 0.15 of Arrow nothing stood before the length.
    let (length, before) = match *start {
        [] => return Ok(None),
        [0xff, 0xff, 0xff, 0xff, a, b, c, d] => ([a, b, c, d], 8),
        [a, b, c, d, ..] if [a, b, c, d] != [0xff; 4] => ([a, b, c, d], 4),
        _ => return Err(cut()),
    };
    let length = before + u64::from(u32::from_le_bytes(length));
    if length == before {
        return Ok(None);
    }
    if length > FOOTER_CAP {
        return Err((CorruptionKind::Undecodable, format!("the head of a message of {length} bytes")));
    }
    if length > end - at {
        return Err(cut());
    }
    stored.bytes(at, length).map_err(unreadable)?.ok_or_else(cut).map(Some)
}

fn schema_of(schema: arrow_ipc::Schema<'_>) -> Result<Schema, ParquetError> {
    if schema.endianness() == Endianness::Big {
        return Err(corrupt("numbers with the greatest byte first; write the file anew on a usual machine"));
    }
    if schema.fields().is_none() {
        return Err(corrupt("a schema without columns"));
    }
    Ok(convert::fb_to_schema(schema))
}

/// The footer of a file; none of a stream, or of a file that is cut.
fn footer_of(stored: &Stored) -> io::Result<Option<Vec<u8>>> {
    let end = stored.length.saturating_sub(10);
    let tail = stored.bytes(end, 10)?.unwrap_or_default();
    let tail = tail.split_first_chunk::<4>().filter(|(_, magic)| *magic == ARROW_MAGIC);
    let Some((&size, _)) = tail else { return Ok(None) };
    let size = u64::from(u32::from_le_bytes(size)).min(FOOTER_CAP);
    stored.bytes(end.saturating_sub(size), size)
}

impl Messages {
    /// Reads the heads of all messages.
    ///
    /// # Errors
    /// The corruption that keeps the file from being read.
    pub fn of(stored: &Stored) -> Result<Self, CorruptionCause> {
        let magic = stored.bytes(0, stored.length.min(6)).map_err(unreadable)?.unwrap_or_default();
        // A file that is cut may end inside its magic number.
        if magic.is_empty() || !ARROW_MAGIC.starts_with(&magic) {
            return Self::of_stream(stored, 0);
        }
        let listed = footer_of(stored).map_err(unreadable)?.and_then(|bytes| {
            let listed = guarded(|| {
                let footer = root_as_footer(&bytes).map_err(|error| corrupt(error.to_string().trim()))?;
                let schema = schema_of(footer.schema().ok_or_else(|| corrupt("no schema"))?)?;
                let (dictionaries, batches) = (footer.dictionaries(), footer.recordBatches());
                let blocks = dictionaries.into_iter().flatten().chain(batches.into_iter().flatten());
                let offsets = blocks.map(|block| u64::try_from(block.offset()).unwrap_or(u64::MAX));
                Ok((Self::new(schema, footer.version()), offsets.collect::<Vec<_>>()))
            });
            listed.ok()
        });
        let Some((mut messages, mut offsets)) = listed else {
            // Zeros stand behind the magic number, up to 64 bytes in all.
            let head = stored.bytes(0, stored.length.min(64)).map_err(unreadable)?.unwrap_or_default();
            let starts = |at: &usize| head.get(*at..at + 4).is_none_or(|word| word != [0; 4]);
            return Self::of_stream(stored, (8..64).step_by(8).find(starts).unwrap_or(64) as u64);
        };
        offsets.sort_unstable();
        offsets.dedup();
        let mut behind = 0;
        for offset in offsets {
            let mut at = offset;
            let taken = match offset < behind {
                // A footer could list overlapping record batches any number of times, to have bytes read again.
                true => Err((CorruptionKind::Undecodable, "record batches within one another".to_owned())),
                false => messages.next(stored, &mut at),
            };
            let why = match taken {
                Ok(true) => {
                    behind = at;
                    continue;
                }
                Ok(false) => "no record batch where the footer has one".to_owned(),
                Err((_, why)) => why,
            };
            messages.end = Some((offset, (CorruptionKind::Undecodable, why), None));
            break;
        }
        // Dictionaries may stand behind the batches that they are for.
        let all = messages.dictionaries.len();
        messages.batches.iter_mut().for_each(|batch| batch.dictionaries = all);
        Ok(messages)
    }

    fn new(schema: Schema, version: MetadataVersion) -> Self {
        let (batches, dictionaries) = (Vec::new(), Vec::new());
        Self { schema: schema.into(), version, batches, dictionaries, compression: None, end: None }
    }

    /// Reads the heads of the messages from `start` on. It is 0 for a stream. For a file whose footer is missing or
    /// corrupt, it is the offset behind the magic number and its zeros.
    fn of_stream(stored: &Stored, start: u64) -> Result<Self, CorruptionCause> {
        let (mut at, end) = (start, stored.length);
        let first = if at < end { head_at(stored, at)? } else { None };
        let first =
            first.ok_or_else(|| (CorruptionKind::Truncated, "the file ends before its schema".to_owned()))?;
        let message = message(&first).map_err(undecoded)?;
        let Some(schema) = message.header_as_schema() else {
            return Err((CorruptionKind::Undecodable, "the first message is not a schema".to_owned()));
        };
        let schema = guarded(|| schema_of(schema)).map_err(|(_, why)| undecoded(why))?;
        at = at.saturating_add(first.len() as u64).saturating_add(body_of(&message)?);
        let mut messages = Self::new(schema, message.version());
        while messages.end.is_none() {
            match messages.next(stored, &mut at) {
                Ok(true) => {}
                Ok(false) if start > 0 => {
                    let why =
                        "the footer is missing or corrupt; the record batches before it are read".to_owned();
                    // If the mark of the end is there, no record batch is missing, and no row is lost.
                    messages.end = Some((at, (CorruptionKind::Truncated, why), (at < end).then_some(0)));
                }
                Ok(false) if at.saturating_add(8) < end => {
                    let why = "bytes behind the end of the stream; cut the file into its streams".to_owned();
                    messages.end = Some((at, (CorruptionKind::Malformed, why), None));
                }
                Ok(false) => break,
                Err(flaw) => messages.end = Some((at, flaw, None)),
            }
        }
        Ok(messages)
    }

    /// Takes the next message; false behind the last one.
    fn next(&mut self, stored: &Stored, at: &mut u64) -> Result<bool, CorruptionCause> {
        let Some(head) = head_at(stored, *at)? else { return Ok(false) };
        let message = message(&head).map_err(undecoded)?;
        let place = MessagePlace { offset: *at, head: head.len() as u64, body: body_of(&message)? };
        if place.body > stored.length - *at - place.head {
            return Err((CorruptionKind::Truncated, "the file ends inside a record batch".to_owned()));
        }
        if let Some(batch) = message.header_as_record_batch() {
            let rows =
                u64::try_from(batch.length()).map_err(|_| undecoded("a batch of less than no rows"))?;
            self.compression = self.compression.or(batch.compression().map(|how| how.codec()));
            self.batches.push(ArrowBatch { place, rows, dictionaries: self.dictionaries.len() });
        } else if message.header_as_dictionary_batch().is_some() {
            self.dictionaries.push(place);
        } else if message.header_as_schema().is_some() {
            let why = "a second schema; cut the file into its streams".to_owned();
            return Err((CorruptionKind::Malformed, why));
        }
        *at += place.bytes();
        Ok(true)
    }

    /// An estimate of the memory, in bytes, that reading or copying the largest record batch takes. It is held as
    /// stored bytes, as arrays, and as the rows that are kept. Decompressed arrays are larger, for which 8 times the
    /// stored bytes are counted, in place of 3. The budget of memory for reading counts it.
    pub fn held(&self) -> u64 {
        let largest = self.batches.iter().map(|batch| batch.place.bytes()).max().unwrap_or(0);
        largest.saturating_mul(if self.compression.is_some() { 8 } else { 3 })
    }

    /// The columns of values, those in structs, lists and maps among them. The columns of texts and names are chosen
    /// out of them.
    pub fn columns(&self) -> Vec<ValueColumn> {
        let mut columns = Vec::new();
        for (root, field) in self.schema.fields().iter().enumerate() {
            let (children, path, kind) = (Vec::new(), field.name().clone(), ValueKind::Plain);
            let column = ValueColumn { root, children, path, kind, is_list: false, other: None };
            push_columns(&mut columns, column, field);
        }
        columns
    }

    /// A decoder of record batches. It decodes the columns of the table at these positions, which ascend.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn decoder(&self, columns: &[usize]) -> Result<Decoder<'_>, ParquetError> {
        let decoder = FileDecoder::new(self.schema.clone(), self.version).with_projection(columns.to_vec());
        let schema = self.schema.project(columns)?;
        let is_dictionary = |field: &&Field| matches!(field.data_type(), DataType::Dictionary(..));
        let needs = schema.flattened_fields().iter().any(is_dictionary);
        Ok(Decoder { messages: self, decoder, read: if needs { 0 } else { usize::MAX } })
    }
}

/// Adds the columns of values of a field. `column` has the path of the field and its place in the table.
fn push_columns(columns: &mut Vec<ValueColumn>, column: ValueColumn, field: &Field) {
    match field.data_type() {
        DataType::Struct(fields) => {
            for (at, field) in fields.iter().enumerate() {
                let mut column = column.clone();
                column.children.push(at);
                column.path += &format!(".{}", field.name());
                push_columns(columns, column, field);
            }
        }
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            push_columns(columns, ValueColumn { is_list: true, ..column }, field);
        }
        data_type => {
            use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
            let values = if let DataType::Dictionary(_, values) = data_type { values } else { data_type };
            let is_text = matches!(values, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView);
            let other = (!is_text).then(|| data_type.to_string());
            columns.push(ValueColumn { kind: ValueKind::of_field(field, values), other, ..column });
        }
    }
}

/// A decoder of record batches, which are to be decoded in file order.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    messages: &'a Messages,
    decoder: FileDecoder,
    /// Dictionaries that it knows.
    read: usize,
}

impl Decoder<'_> {
    /// Decodes a record batch, by its number in [`Messages::batches`], and keeps these of its rows, or all. It must not
    /// come before one that was decoded already: a later dictionary may have replaced one that it needs.
    ///
    /// # Errors
    /// If the record batch, or a dictionary that it may need, does not decode.
    pub fn batch(
        &mut self,
        stored: &Stored,
        batch: usize,
        rows: Option<&[Range<usize>]>,
    ) -> Result<RecordBatch, ParquetError> {
        let ArrowBatch { place, dictionaries, .. } = self.messages.batches[batch];
        while self.read < dictionaries {
            let place = self.messages.dictionaries[self.read];
            self.decoder.read_dictionary(&place.block(), &place.read(stored)?)?;
            self.read += 1;
        }
        let decoded = self.decoder.read_record_batch(&place.block(), &place.read(stored)?)?;
        let decoded = decoded.ok_or_else(|| corrupt("a message without a record batch"))?;
        let Some(rows) = rows else { return Ok(decoded) };
        let mut is_wanted = vec![false; decoded.num_rows()];
        rows.iter().for_each(|rows| is_wanted[rows.clone()].fill(true));
        Ok(filter_record_batch(&decoded, &BooleanArray::from(is_wanted))?)
    }
}

impl MessagePlace {
    /// Bytes of head and body together.
    pub fn bytes(&self) -> u64 {
        self.head + self.body
    }

    /// The place as the decoder has it. The conversions lose nothing, as a head is no longer than [`FOOTER_CAP`], and a
    /// file is shorter than `i64::MAX` bytes.
    fn block(&self) -> Block {
        Block::new(self.offset as i64, self.head as i32, self.body as i64)
    }

    /// Reads the bytes. It is an error if they say that they decompress to more than the bound: the decoder would
    /// allocate so much.
    fn read(&self, stored: &Stored) -> Result<Buffer, ParquetError> {
        /// The bound of decompressed bytes: so many, and so many more for each stored byte of the body.
        const MOST: [u64; 2] = [16 << 20, 1000];
        let bytes = stored.bytes(self.offset, self.bytes())?;
        let bytes =
            bytes.ok_or_else(|| ParquetError::EOF("the file ends inside a record batch".to_owned()))?;
        let (head, body) = bytes.split_at(self.head as usize);
        let message = message(head).map_err(corrupt)?;
        let of_dictionary = || message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
        let batch = message.header_as_record_batch().or_else(of_dictionary);
        if let Some(batch) = batch.filter(|batch| batch.compression().is_some()) {
            let length = |at: i64| {
                let prefix = body.get(usize::try_from(at).ok()?..)?.first_chunk()?;
                u64::try_from(i64::from_le_bytes(*prefix)).ok()
            };
            let buffers = batch.buffers().into_iter().flatten().filter(|buffer| buffer.length() > 0);
            let all = buffers.filter_map(|buffer| length(buffer.offset())).fold(0, u64::saturating_add);
            if all > MOST[0].saturating_add(MOST[1].saturating_mul(self.body)) {
                return Err(corrupt(format!("{} bytes that would decompress to {all}", self.body)));
            }
        }
        Ok(Buffer::from_vec(bytes))
    }
}
