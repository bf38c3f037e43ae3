//! Parquet files: row groups in turn, of each only the columns that are wanted, in batches of rows.
//!
//! Values are read column by column as the file stores them, without a table in between. A file is not believed:
//! [`claims`] and [`pages`] hold its numbers against its bytes, and should the reader behind panic on what is left,
//! that ends the row group, not the run ([`guarded`]).

mod claims;
mod copy;
mod pages;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::ColumnDescriptor;

use super::damage::{Damage, DamageKind, FileReading, Tally};
use super::document::Document;
use super::filetype::PARQUET_MAGIC;
use super::inputs::Input;
use super::options::ReadOptions;
use crate::document::{DocId, Place};
use crate::{Error, Result};
pub(crate) use copy::write_kept;
use pages::{Pages, Stored, Turn};

/// How a file ends whose footer is encrypted.
const MAGIC_ENCRYPTED: [u8; 4] = *b"PARE";
/// The longest footer that is read.
const FOOTER_CAP: u64 = 256 << 20;
/// Most rows in a batch.
const BATCH_ROWS: usize = 1024;
/// The longest id, address or language.
const NAME_CAP: usize = 64 << 10;
/// Row groups up to this size are left to one thread each; larger ones are decoded under the file's lock, so that
/// several threads share the work on their rows.
const OWN_GROUP: i64 = 64 << 20;

/// The sort of damage and what was found.
type Flaw = (DamageKind, String);

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// See [`super::panic_is_damage`].
pub(crate) fn panic_is_damage() -> bool {
    GUARDED.get()
}

/// Runs what the file can lead astray.
fn guarded<T>(kind: DamageKind, run: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Flaw> {
    // Whatever was half done is dropped by the caller, who goes on with the next row group.
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(before);
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(error))) => Err((kind, error.to_string())),
        Ok(Err(ParquetError::General(error))) => Err((kind, error)),
        Ok(Err(error)) => Err((kind, error.to_string())),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            Err((kind, format!("the decoder gave up: {said}")))
        }
    }
}

/// A column that is read.
#[derive(Clone, Debug)]
struct Column {
    index: usize,
    descriptor: Arc<ColumnDescriptor>,
}

/// What a file holds, and which of it is wanted.
#[derive(Debug)]
struct Layout {
    metadata: ParquetMetaData,
    text: Column,
    /// Id, URL and language.
    names: [Option<Column>; 3],
    /// The row at which each row group begins, and the row behind the last.
    starts: Vec<u64>,
}

/// Reads a footer.
fn read_metadata(stored: &Stored) -> Result<ParquetMetaData, Flaw> {
    let io = |error: std::io::Error| (DamageKind::ReadError, error.to_string());
    let length = stored.length();
    let lost =
        "the footer is missing, and without it nothing of a Parquet file can be read; copy the file again";
    let truncated = || (DamageKind::Truncated, lost.to_owned());
    let tail = stored.bytes(length.saturating_sub(8), 8).map_err(io)?.ok_or_else(truncated)?;
    let (size, magic) = tail.split_first_chunk::<4>().ok_or_else(truncated)?;
    if magic == MAGIC_ENCRYPTED {
        return Err((DamageKind::BadFooter, "the file is encrypted; decrypt it first".into()));
    }
    if magic != PARQUET_MAGIC {
        return Err(truncated());
    }
    let size = u64::from(u32::from_le_bytes(*size));
    if size > FOOTER_CAP || size + 12 > length {
        let detail = format!("a footer of {size} bytes in a file of {length}");
        return Err((DamageKind::BadFooter, detail));
    }
    let footer = stored.bytes(length - 8 - size, size).map_err(io)?.ok_or_else(truncated)?;
    let bad = |refusal| (DamageKind::BadFooter, format!("the footer does not decode: {refusal}"));
    claims::check_footer(&footer).map_err(bad)?;
    guarded(DamageKind::BadFooter, || ParquetMetaDataReader::decode_metadata(&footer))
        .map_err(|(kind, detail)| (kind, format!("the footer does not decode: {detail}")))
}

/// The first names of columns, for a person.
fn listed(metadata: &ParquetMetaData) -> String {
    const LISTED: usize = 40;
    let columns = metadata.file_metadata().schema_descr().columns();
    let mut names: Vec<String> = columns.iter().take(LISTED).map(|c| c.path().string()).collect();
    if columns.len() > LISTED {
        names.push(format!("and {} more", columns.len() - LISTED));
    }
    names.join(", ")
}

fn find_column(metadata: &ParquetMetaData, name: &str) -> Option<Column> {
    let columns = metadata.file_metadata().schema_descr().columns();
    let index = columns.iter().position(|column| column.path().string() == name)?;
    Some(Column { index, descriptor: columns[index].clone() })
}

/// The column of the text.
fn text_column(metadata: &ParquetMetaData, name: &str) -> Result<Column, Flaw> {
    let advice = || format!("name the column of the text with --text-field; there are: {}", listed(metadata));
    let Some(column) = find_column(metadata, name) else {
        return Err((DamageKind::NoText, format!("no column {name:?}; {}", advice())));
    };
    let descriptor = &column.descriptor;
    let what = match descriptor.physical_type() {
        _ if descriptor.max_rep_level() > 0 => "a list".to_owned(),
        Type::BYTE_ARRAY => return Ok(column),
        other => other.to_string(),
    };
    Err((DamageKind::TextNotString, format!("column {name:?} is {what}, not strings; {}", advice())))
}

/// A column that may hold names: strings or numbers.
fn name_column(metadata: &ParquetMetaData, name: &str) -> Option<Column> {
    let named = |column: &Column| {
        let descriptor = &column.descriptor;
        let plain = matches!(descriptor.logical_type_ref(), None | Some(LogicalType::Integer { .. }));
        descriptor.max_rep_level() == 0
            && match descriptor.physical_type() {
                Type::BYTE_ARRAY => true,
                Type::INT32 | Type::INT64 => plain,
                Type::FLOAT | Type::DOUBLE => true,
                _ => false,
            }
    };
    find_column(metadata, name).filter(named)
}

impl Layout {
    fn of(stored: &Stored, options: &ReadOptions) -> Result<Self, Flaw> {
        let metadata = read_metadata(stored)?;
        let fields = &options.fields;
        let text = text_column(&metadata, &fields.text)?;
        let names = [&fields.id, &fields.url, &fields.language].map(|name| name_column(&metadata, name));
        let mut starts = vec![0];
        for group in metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).ok();
            let next = rows.and_then(|rows| starts.last().and_then(|&start: &u64| start.checked_add(rows)));
            let next = next.ok_or_else(|| {
                (DamageKind::BadFooter, format!("a row group of {} rows", group.num_rows()))
            })?;
            starts.push(next);
        }
        Ok(Self { metadata, text, names, starts })
    }

    /// Where the text of a row group stands in the file.
    fn offset(&self, group: usize) -> u64 {
        let chunk = self.metadata.row_group(group).column(self.text.index);
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        u64::try_from(start).unwrap_or(0)
    }

    /// The row group that a row stands in.
    fn group_of(&self, row: u32) -> Option<usize> {
        let group = self.starts.partition_point(|&start| start <= u64::from(row)) - 1;
        (group < self.metadata.num_row_groups()).then_some(group)
    }
}

/// A name as it is stored.
#[derive(Clone, Debug)]
enum Name {
    Absent,
    Text(Box<str>),
    /// It is there but cannot be used.
    Unfit(&'static str),
}

/// A row as it was read.
#[derive(Clone, Debug)]
struct Row {
    row: u32,
    offset: u64,
    within: u64,
    text: Option<ByteArray>,
    names: [Name; 3],
}

impl Row {
    /// What becomes of it: a document, or damage.
    fn document<T>(
        &self,
        shard: u32,
        options: &ReadOptions,
        damage: &mut dyn FnMut(DamageKind, String),
        each: impl FnOnce(Document<'_>) -> T,
    ) -> Option<T> {
        let Some(text) = &self.text else {
            damage(DamageKind::TextNotString, format!("column {:?} is null", options.fields.text));
            return None;
        };
        let bytes = text.data();
        if bytes.len() > options.record_cap {
            let detail = format!("a text above {} bytes (--longest-page)", options.record_cap);
            damage(DamageKind::TooLong, detail);
            return None;
        }
        let text = match simdutf8::basic::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => {
                let valid = simdutf8::compat::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
                damage(DamageKind::InvalidUtf8, format!("byte {valid} of the text is not UTF-8"));
                return None;
            }
        };
        let fields = &options.fields;
        let mut names = [&fields.id, &fields.url, &fields.language].into_iter().zip(&self.names);
        let mut next = || match names.next() {
            Some((_, Name::Text(name))) => Some(&**name),
            Some((field, Name::Unfit(why))) => {
                damage(DamageKind::HeaderCharset, format!("{field} {why} and was left out"));
                None
            }
            _ => None,
        };
        let (record_id, url, language) = (next(), next(), next());
        let length = bytes.len() as u64;
        let place = Place { offset: self.offset, within: self.within, length, member: 0 };
        let id = DocId::new(shard, self.row);
        Some(each(Document { id, record_id, url, language, text, place }))
    }
}

/// Whether levels are none but those from 0 up to the greatest.
fn in_range(levels: &[i16], greatest: i16) -> bool {
    levels.iter().all(|level| (0..=greatest).contains(level))
}

/// Reads the next values of a column that is not repeated; fewer than wanted only at its end, or when their pages
/// are large. Absent values have no place in `values` but a level below the greatest in `levels`.
fn next_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    turn: &Turn,
    wanted: usize,
    (levels, greatest): (&mut Vec<i16>, i16),
    values: &mut Vec<T::T>,
) -> Result<usize, ParquetError> {
    levels.clear();
    values.clear();
    loop {
        let wanted = turn.begin(wanted);
        let (records, _, _) = reader.read_records(wanted, Some(levels), None, values)?;
        if !in_range(levels, greatest) {
            return Err(ParquetError::General("levels that make no rows".to_owned()));
        }
        if records > 0 || turn.ended() || wanted == 0 {
            return Ok(records);
        }
    }
}

/// Passes over values; false if there are not as many.
fn skip_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    turn: &Turn,
    values: usize,
) -> Result<bool, ParquetError> {
    let mut left = values;
    while left > 0 {
        turn.begin(left);
        let skipped = reader.skip_records(left)?;
        left -= skipped.min(left);
        if skipped == 0 && turn.ended() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Does the same to a column's reader whatever its type.
macro_rules! of_any_type {
    ($column:expr, $reader:ident => $do:expr) => {
        match $column {
            ColumnReader::BoolColumnReader($reader) => $do,
            ColumnReader::Int32ColumnReader($reader) => $do,
            ColumnReader::Int64ColumnReader($reader) => $do,
            ColumnReader::Int96ColumnReader($reader) => $do,
            ColumnReader::FloatColumnReader($reader) => $do,
            ColumnReader::DoubleColumnReader($reader) => $do,
            ColumnReader::ByteArrayColumnReader($reader) => $do,
            ColumnReader::FixedLenByteArrayColumnReader($reader) => $do,
        }
    };
}
use of_any_type;

/// A column of a row group being read.
struct Cursor {
    reader: ColumnReader,
    turn: Arc<Turn>,
    present: i16,
    levels: Vec<i16>,
    /// Integers are read as unsigned.
    unsigned: bool,
}

impl Cursor {
    fn open(
        stored: &Arc<Stored>,
        metadata: &ParquetMetaData,
        group: usize,
        column: &Column,
    ) -> Result<Self, ParquetError> {
        let group = metadata.row_group(group);
        let rows = usize::try_from(group.num_rows())?;
        let descriptor = &column.descriptor;
        let (pages, turn) = Pages::open(stored, group.column(column.index), descriptor.clone(), rows)?;
        let reader = get_column_reader(descriptor.clone(), Box::new(pages));
        let unsigned = matches!(descriptor.logical_type_ref(), Some(LogicalType::Integer(int)) if !int.is_signed)
            || matches!(descriptor.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64);
        Ok(Self { reader, turn, present: descriptor.max_def_level(), levels: Vec::new(), unsigned })
    }

    fn skip(&mut self, rows: usize) -> Result<bool, ParquetError> {
        of_any_type!(&mut self.reader, reader => skip_values(reader, &self.turn, rows))
    }

    /// The next texts.
    fn texts(
        &mut self,
        wanted: usize,
        mut each: impl FnMut(Option<ByteArray>),
    ) -> Result<usize, ParquetError> {
        let ColumnReader::ByteArrayColumnReader(reader) = &mut self.reader else { return Ok(0) };
        let mut values = Vec::new();
        let n = next_values(reader, &self.turn, wanted, (&mut self.levels, self.present), &mut values)?;
        let mut values = values.into_iter();
        for at in 0..n {
            let present = self.present == 0 || self.levels.get(at) == Some(&self.present);
            let text = present.then(|| values.next()).flatten();
            // An entry of a dictionary that was not stored has no bytes, and asking for its length panics: here.
            text.as_ref().map(ByteArray::len);
            each(text);
        }
        Ok(n)
    }

    /// The next names.
    fn names(&mut self, wanted: usize, mut each: impl FnMut(Name)) -> Result<usize, ParquetError> {
        fn number(value: impl ToString) -> Name {
            Name::Text(value.to_string().into())
        }
        fn text(value: ByteArray) -> Name {
            if value.len() > NAME_CAP {
                return Name::Unfit("is too long");
            }
            let text = simdutf8::basic::from_utf8(value.data());
            text.map_or(Name::Unfit("is not UTF-8"), |text| Name::Text(text.into()))
        }
        let Self { reader, turn, present, levels, unsigned } = self;
        let unsigned = *unsigned;
        macro_rules! read {
            ($reader:ident, $name:expr) => {{
                let mut values = Vec::new();
                let n = next_values($reader, turn, wanted, (levels, *present), &mut values)?;
                let mut values = values.into_iter();
                for at in 0..n {
                    let here = *present == 0 || levels.get(at) == Some(present);
                    each(here.then(|| values.next()).flatten().map_or(Name::Absent, $name));
                }
                Ok(n)
            }};
        }
        match reader {
            ColumnReader::ByteArrayColumnReader(reader) => read!(reader, text),
            ColumnReader::Int32ColumnReader(reader) => {
                read!(reader, |n| if unsigned { number(n as u32) } else { number(n) })
            }
            ColumnReader::Int64ColumnReader(reader) => {
                read!(reader, |n| if unsigned { number(n as u64) } else { number(n) })
            }
            ColumnReader::FloatColumnReader(reader) => read!(reader, number),
            ColumnReader::DoubleColumnReader(reader) => read!(reader, number),
            _ => Ok(0),
        }
    }
}

/// Rows as they were read, or a row group that whoever works on them is to read first, bit by bit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: Vec<Row>,
    group: Option<Group>,
}

impl Batch {
    /// Takes a close look at each row, and takes it out: hands on the documents, counts them, and notes damage.
    pub fn process(
        &mut self,
        shard: u32,
        input: &Input,
        options: &ReadOptions,
        part: &mut FileReading,
        each: &mut impl FnMut(Document<'_>),
    ) {
        loop {
            for row in self.rows.drain(..) {
                part.take(&input.path, (u64::from(row.row), row.offset, 0), each, |found, each| {
                    row.document(shard, options, found, each)
                });
            }
            let Some(group) = &mut self.group else { return };
            let (before, mut tally) = (Instant::now(), Tally::default());
            let more = group.next(&mut self.rows, &mut tally);
            part.decoding += before.elapsed();
            part.count(tally);
            if !more {
                self.group = None;
            }
        }
    }
}

/// Rows of a row group, in order.
struct Group {
    input: Input,
    layout: Arc<Layout>,
    index: usize,
    rows: usize,
    done: usize,
    /// Rows that are asked for at once.
    batch: usize,
    /// Text and names; opened with the first batch, by the thread that reads it.
    open: Option<(Cursor, [Option<Cursor>; 3])>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("index", &self.index).field("done", &self.done).finish_non_exhaustive()
    }
}

impl Group {
    fn new(input: &Input, layout: &Arc<Layout>, index: usize, block_bytes: usize) -> Self {
        let group = layout.metadata.row_group(index);
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let text = usize::try_from(group.column(layout.text.index).uncompressed_size()).unwrap_or(0);
        let batch = (block_bytes / (text / rows.max(1)).max(1)).clamp(16, BATCH_ROWS);
        Self { input: input.clone(), layout: layout.clone(), index, rows, done: 0, batch, open: None }
    }

    /// The file's row that comes next.
    fn row(&self) -> u64 {
        self.layout.starts[self.index] + self.done as u64
    }

    fn open(&mut self) -> Result<&mut (Cursor, [Option<Cursor>; 3]), ParquetError> {
        if self.open.is_none() {
            let stored = Arc::new(Stored::new(self.input.open()?)?);
            let Layout { metadata, text, names, .. } = &*self.layout;
            let open = |column: &Column| Cursor::open(&stored, metadata, self.index, column);
            let text = open(text)?;
            // A name that cannot be read shows when it is asked for.
            let names = names.each_ref().map(|name| name.as_ref().and_then(|column| open(column).ok()));
            self.open = Some((text, names));
        }
        Ok(self.open.as_mut().expect("opened above"))
    }

    /// Reads on. At most `self.batch` rows come at once.
    fn read(&mut self, rows: &mut Vec<Row>) -> Result<usize, Flaw> {
        let wanted = self.batch.min(self.rows - self.done);
        let (first, within) = (self.row() as u32, self.done as u64);
        let offset = self.layout.offset(self.index);
        let from = rows.len();
        let n = guarded(DamageKind::CorruptMember, || {
            let (text, _) = self.open()?;
            text.texts(wanted, |text| {
                let at = (rows.len() - from) as u32;
                let names = [Name::Absent, Name::Absent, Name::Absent];
                rows.push(Row { row: first + at, offset, within: within + u64::from(at), text, names });
            })
        });
        let n = match n {
            Ok(n) => n,
            Err(flaw) => {
                rows.truncate(from);
                return Err(flaw);
            }
        };
        if n == 0 {
            let detail = format!("the column ends after {} of {} rows", self.done, self.rows);
            return Err((DamageKind::Truncated, detail));
        }
        self.done += n;
        let rows = &mut rows[from..];
        let Some((_, names)) = &mut self.open else { return Ok(n) };
        for (at, slot) in names.iter_mut().enumerate() {
            let Some(cursor) = slot else { continue };
            let mut filled = 0;
            let read = guarded(DamageKind::CorruptMember, || {
                while filled < n {
                    let more = cursor.names(n - filled, |name| {
                        rows[filled].names[at] = name;
                        filled += 1;
                    })?;
                    if more == 0 {
                        return Err(ParquetError::EOF(String::new()));
                    }
                }
                Ok(())
            });
            if read.is_err() {
                *slot = None;
                rows[filled.min(n - 1)].names[at] =
                    Name::Unfit("does not decode from here to the end of its row group");
            }
        }
        Ok(n)
    }

    /// Adds the next rows; false when there are none.
    fn next(&mut self, rows: &mut Vec<Row>, tally: &mut Tally) -> bool {
        if self.done >= self.rows {
            return false;
        }
        match self.read(rows) {
            Ok(n) => {
                tally.records += n as u64;
                let bytes = |row: &Row| {
                    let names = row.names.iter().map(|name| match name {
                        Name::Text(name) => name.len(),
                        _ => 0,
                    });
                    row.text.as_ref().map_or(0, ByteArray::len) + names.sum::<usize>()
                };
                tally.decoded += rows[rows.len() - n..].iter().map(bytes).sum::<usize>() as u64;
            }
            Err((kind, detail)) => {
                let lost = (self.rows - self.done) as u64;
                let (group, text) = (self.index, self.layout.text.descriptor.path().string());
                tally.damage.push(Damage {
                    path: self.input.path.clone(),
                    record: Some(self.row()),
                    offset: self.layout.offset(group),
                    within: 0,
                    kind,
                    detail: format!("row group {group}, column {text:?}: {detail}; {lost} rows lost"),
                });
                tally.records += lost;
                self.done = self.rows;
                self.open = None;
            }
        }
        true
    }

    /// Passes over rows.
    fn skip(&mut self, rows: usize) -> Result<(), Flaw> {
        guarded(DamageKind::CorruptMember, || {
            let (text, _) = self.open()?;
            if !text.skip(rows)? {
                return Err(ParquetError::EOF("the column ends before".into()));
            }
            Ok(())
        })?;
        for slot in self.open.iter_mut().flat_map(|(_, names)| names) {
            let Some(name) = slot else { continue };
            if guarded(DamageKind::CorruptMember, || name.skip(rows)) != Ok(true) {
                *slot = None;
            }
        }
        self.done += rows;
        Ok(())
    }
}

/// A Parquet file being read, row group by row group.
#[derive(Debug)]
pub(crate) struct Rows {
    input: Input,
    layout: Arc<Layout>,
    block_bytes: usize,
    next: usize,
    group: Option<Group>,
    /// Stored bytes not yet accounted for.
    stored: u64,
    finished: bool,
}

impl Rows {
    /// Reads the footer.
    ///
    /// # Errors
    /// The damage that keeps the file from being read.
    pub fn open(input: &Input, options: &ReadOptions) -> Result<Self, Flaw> {
        let open = || Stored::new(input.open()?);
        let stored = open().map_err(|error| (DamageKind::CannotOpen, error.to_string()))?;
        let layout = Arc::new(Layout::of(&stored, options)?);
        let (block_bytes, stored) = (options.block_bytes, stored.length());
        Ok(Self { input: input.clone(), layout, block_bytes, next: 0, group: None, stored, finished: false })
    }

    /// Makes the next batch, which may be a row group for the caller to read; false when there are none.
    pub fn next_block(&mut self, batch: &mut Batch, tally: &mut Tally) -> bool {
        batch.rows.clear();
        batch.group = None;
        if self.finished {
            return false;
        }
        if let Some(group) = &mut self.group {
            if group.next(&mut batch.rows, tally) {
                return true;
            }
            self.group = None;
        }
        let (index, starts) = (self.next, &self.layout.starts);
        let rest = starts.get(index).zip(starts.get(index + 1)).map(|(&start, &end)| (start, end));
        let last = match rest {
            None if starts.last() == Some(&0) => Some((None, DamageKind::EmptyFile, "no rows")),
            None => None,
            Some((start, end)) if end > u64::from(u32::MAX) => {
                let detail = "the rest of the file is not read";
                Some((Some(start), DamageKind::TooManyDocuments, detail))
            }
            Some(_) => {
                let group = self.layout.metadata.row_group(index);
                let text = group.column(self.layout.text.index).uncompressed_size();
                let size = u64::try_from(group.compressed_size()).unwrap_or(0).min(self.stored);
                self.next += 1;
                self.stored -= size;
                tally.stored = size;
                let mut group = Group::new(&self.input, &self.layout, index, self.block_bytes);
                if text <= OWN_GROUP {
                    batch.group = Some(group);
                } else {
                    group.next(&mut batch.rows, tally);
                    self.group = Some(group);
                }
                return true;
            }
        };
        if let Some((record, kind, detail)) = last {
            let (path, detail) = (self.input.path.clone(), detail.to_owned());
            tally.damage.push(Damage { path, record, offset: 0, within: 0, kind, detail });
        }
        self.finished = true;
        tally.stored = std::mem::take(&mut self.stored);
        true
    }
}

/// Reads rows again, all of one file, as [`super::fetch`] does.
///
/// # Errors
/// As there.
pub(crate) fn fetch(
    input: &Input,
    options: &ReadOptions,
    wanted: &[(DocId, Place)],
    mut each: impl FnMut(Document<'_>),
    wrong: impl Fn(Place, String) -> Error,
) -> Result<()> {
    let Some(&(_, first)) = wanted.first() else { return Ok(()) };
    let rows = Rows::open(input, options).map_err(|(_, detail)| wrong(first, detail))?;
    let mut open: Option<Group> = None;
    for &(id, place) in wanted {
        let index = rows.layout.group_of(id.row).ok_or_else(|| wrong(place, "fewer rows".to_owned()))?;
        let group = match &mut open {
            Some(group) if group.index == index && group.row() <= u64::from(id.row) => group,
            slot => slot.insert(Group { batch: 1, ..Group::new(input, &rows.layout, index, 1) }),
        };
        let ahead = (u64::from(id.row) - group.row()) as usize;
        let mut found = Vec::new();
        group
            .skip(ahead)
            .and_then(|()| group.read(&mut found))
            .map_err(|(_, detail)| wrong(place, detail))?;
        let mut flaw = None;
        let mut damage = |kind, detail: String| flaw = (kind != DamageKind::HeaderCharset).then_some(detail);
        let same = |row: &Row| row.text.as_ref().is_some_and(|text| text.len() as u64 == place.length);
        let done = found.first().filter(|row| same(row)).and_then(|row| {
            row.document(id.shard, options, &mut damage, |document| each(Document { place, ..document }))
        });
        if done.is_none() {
            return Err(wrong(place, flaw.unwrap_or_else(|| "a text of another length".to_owned())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::ByteArrayType;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::io::Write;

    #[test]
    fn a_column_that_ends_early_is_passed_over_to_its_end_and_no_further() {
        let schema = parse_message_type("message rows { optional binary text (STRING); }").expect("a schema");
        let mut bytes = Vec::new();
        let mut writer =
            SerializedFileWriter::new(&mut bytes, schema.into(), Default::default()).expect("memory");
        let mut group = writer.next_row_group().expect("memory");
        let mut column = group.next_column().expect("memory").expect("a column");
        let values = ["a", "b", "c"].map(ByteArray::from);
        column.typed::<ByteArrayType>().write_batch(&values, Some(&[1, 0, 1, 1]), None).expect("memory");
        column.close().expect("memory");
        group.close().expect("memory");
        writer.close().expect("memory");
        let mut file = tempfile::tempfile().expect("temp file");
        file.write_all(&bytes).expect("writes");
        let stored = Arc::new(Stored::new(file).expect("a size"));
        let layout = Layout::of(&stored, &ReadOptions::default()).expect("a footer");
        let open = || Cursor::open(&stored, &layout.metadata, 0, &layout.text).expect("a column");
        let texts = |cursor: &mut Cursor| {
            let mut texts = Vec::new();
            let n = cursor.texts(9, |text| texts.push(text.map(|text| text.data().to_vec())));
            (n.expect("pages"), texts)
        };
        let mut cursor = open();
        assert!(cursor.skip(3).expect("pages"));
        assert_eq!(texts(&mut cursor), (1, vec![Some(b"c".to_vec())]));
        assert_eq!(texts(&mut cursor), (0, vec![]));
        assert!(!cursor.skip(1).expect("pages"));
        let mut cursor = open();
        assert!(cursor.skip(4).expect("pages"));
        assert!(!cursor.skip(1).expect("pages"));
        assert!(!open().skip(1000).expect("pages"));
    }
}
