//! Reads and writes Parquet and Arrow. Row groups are read one after the other, only the columns that are wanted, in
//! batches of rows. Record batches of Arrow are called row groups here, too.
//!
//! The crates `parquet` and `arrow-ipc` decode into arrays of values as they are stored. The meaning that a schema
//! gives them matters only for names: id, URL, language, score and group. If a decoder panics, that ends the row group,
//! not the run ([`guard`]).

mod arrow;
mod arrow_copy;
mod columns;
mod copy;
mod depth;
mod footer;
mod guard;
mod layout;
mod stored;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::ArrayRef;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::errors::ParquetError;

use super::corruption::{Corruption, CorruptionCause, CorruptionKind, FileReading, RecordPosition, TooLong};
use super::document::{Document, RecordContent};
use super::input::{Input, ReadInput};
use super::jsonl::number;
use super::options::ReadOptions;
use super::records::readable;
use crate::document::{DocId, Place};
use crate::{Error, Result};
use arrow::Messages;
pub(crate) use arrow_copy::write_arrow;
use columns::{BATCH_ROWS, ValueColumn, Values, joined, reader};
pub(crate) use copy::{GROUP_BYTES, columns_of, write_parquet};
use footer::Footer;
use guard::guarded;
use layout::{Contents, GroupHead, Layout, NAMES};
pub(crate) use layout::{column_names, held};
use stored::Stored;

/// Row groups up to this size are left to one thread each; larger ones are decoded under the file's lock, so
/// that several threads share the work on their rows.
const OWN_GROUP: u64 = 64 << 20;

/// The values of a column of names: none if the file has no such column, or why they cannot be used.
type NameValues = Result<Option<Values>, &'static str>;

/// Rows that were read at once.
#[derive(Debug)]
struct ReadRows {
    /// The first of them, in the file and in its row group.
    first: u64,
    within: u64,
    /// Where the texts of the row group are stored.
    offset: u64,
    rows: usize,
    /// Of each column that the texts are joined of.
    texts: Vec<Values>,
    names: [NameValues; NAMES],
    /// Bytes of memory that they take.
    bytes: u64,
}

impl ReadRows {
    /// The content of a row and its place, or corruption; none where its text is null. A text of several parts is
    /// joined in the buffer.
    fn content<'b>(
        &'b self,
        row: usize,
        options: &ReadOptions,
        joined_in: &'b mut Vec<u8>,
    ) -> Result<Option<(RecordContent<'b>, Place)>, CorruptionCause> {
        let ReadOptions { fields, record_cap: cap, rules, .. } = options;
        let texts = self.texts.iter().flat_map(|texts| texts.texts(row));
        let Some(bytes) = joined(texts, joined_in) else {
            return match rules.strict {
                true => Err((CorruptionKind::NoText, format!("column {:?} is null", fields.text))),
                false => Ok(None),
            };
        };
        if bytes.len() > *cap {
            return Err((CorruptionKind::TooLarge, format!("a text above {cap} bytes (--longest-document)")));
        }
        let text = readable(bytes, rules.strict)?;
        let (called, mut bad_names) = ([&fields.id, &fields.url, &fields.language], Vec::new());
        let [id, url, language, score, group] = std::array::from_fn(|at| {
            let name = match &self.names[at] {
                Ok(values) => values.as_ref().map_or(Ok(None), |values| values.name(row)),
                Err(why) => Err(*why),
            };
            name.unwrap_or_else(|why| {
                bad_names.extend(called.get(at).map(|field| format!("{field} {why}")));
                None
            })
        });
        let length = bytes.len() as u64;
        let place = Place { offset: self.offset, within: self.within + row as u64, length, member: 0 };
        let content = RecordContent {
            id,
            url,
            language,
            score: score.as_deref().and_then(number),
            group,
            repaired: matches!(text, Cow::Owned(_)),
            text,
            // A text stands among the rows, and is no copy of a record, as it counts.
            beside: self.bytes.saturating_sub(2 * length),
            bad_names,
            ..RecordContent::default()
        };
        Ok(Some((content, place)))
    }
}

/// Rows that are read, a row group that is still to be read, or nothing. Whoever works on the batch reads the row
/// group, some rows at a time, without the file's lock.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    piece: Option<ReadRows>,
    group: Option<RowGroup>,
}

impl Batch {
    /// Takes each row out of the batch: hands the documents to `each`, and counts them and corruption in `part`.
    /// Returns the first row of more than `most` bytes, as [`Document::bytes`] counts them; nothing behind it is taken.
    pub fn process(
        &mut self,
        read: ReadInput<'_>,
        most: u64,
        part: &mut FileReading,
        each: &mut impl FnMut(Document<'_>),
    ) -> Option<TooLong> {
        let ReadInput { shard, input, options } = read;
        let (mut piece, mut group, mut joined) = (self.piece.take(), self.group.take(), Vec::new());
        loop {
            let piece = match piece.take() {
                Some(piece) => piece,
                None => {
                    let group = group.as_mut()?;
                    let before = Instant::now();
                    let piece = group.next(part);
                    part.decoding += before.elapsed();
                    piece?
                }
            };
            for row in 0..piece.rows {
                let record = piece.first + row as u64;
                let (id, content) =
                    (DocId::new(shard, record as u32), piece.content(row, options, &mut joined));
                if let Ok(Some((content, place))) = &content {
                    let bytes = content.document(id, *place).bytes();
                    if bytes > most {
                        return Some(TooLong { record, bytes });
                    }
                }
                let place = Place { offset: piece.offset, ..Place::default() };
                part.take(RecordPosition { path: &input.path, id, record, place, raw: false }, content, each);
            }
        }
    }
}

/// A column of a row group, being read.
#[derive(Debug)]
enum OpenColumn {
    Parquet(Box<ParquetRecordBatchReader>),
    /// All of it, decoded.
    Arrow(ArrayRef),
    /// A column of names that cannot be opened, and why.
    Unreadable(String),
}

impl OpenColumn {
    /// Reads these rows, which are the next.
    fn next(&mut self, rows: &Range<usize>, column: &ValueColumn) -> Result<Values, ParquetError> {
        match self {
            Self::Parquet(reader) => Values::next_of(reader, rows.len(), column),
            Self::Arrow(array) => Ok(Values::of(array.slice(rows.start, rows.len()), column)),
            Self::Unreadable(why) => Err(ParquetError::General(why.clone())),
        }
    }
}

/// The columns of texts and of names; none where a name is not there or cannot be used.
type OpenGroup = (Vec<OpenColumn>, [Option<OpenColumn>; NAMES]);

/// Rows of a row group, in order: all of them, or some.
#[derive(Debug)]
struct RowGroup {
    input: Input,
    layout: Arc<Layout>,
    index: usize,
    /// The wanted rows, counted from the start of the row group; `None` for all.
    selection: Option<Vec<Range<usize>>>,
    rows: usize,
    done: usize,
    /// Rows that are asked for at once.
    batch: usize,
    /// Opened with the first batch, by the thread that reads it.
    open: Option<OpenGroup>,
}

impl RowGroup {
    fn new(input: &Input, layout: &Arc<Layout>, index: usize, block_bytes: usize) -> Self {
        let head = &layout.groups[index];
        let rows = usize::try_from(head.rows.end - head.rows.start).unwrap_or(0);
        let bytes = usize::try_from(head.wanted).unwrap_or(usize::MAX);
        let batch = block_bytes / (bytes / rows.max(1)).max(1);
        let (input, layout, batch) = (input.clone(), layout.clone(), batch.clamp(1, BATCH_ROWS));
        Self { input, layout, index, selection: None, rows, done: 0, batch, open: None }
    }

    /// Restricts the row group to these rows.
    fn only(self, rows: Vec<Range<usize>>) -> Self {
        Self { rows: rows.iter().map(Range::len).sum(), selection: Some(rows), ..self }
    }

    /// Reads on. Before corruption rows come one by one, from the first one on, so that what is read does not depend on
    /// how many were asked for.
    fn read(&mut self) -> Result<ReadRows, CorruptionCause> {
        match self.read_batch() {
            // A batch of Arrow is decoded as a whole.
            Err(_) if self.batch > 1 && matches!(self.layout.contents, Contents::Parquet(_)) => {
                self.batch = 1;
                let done = std::mem::take(&mut self.done);
                while self.done < done {
                    self.read_batch()?;
                }
                self.read_batch()
            }
            outcome => outcome,
        }
    }

    fn open(&self) -> Result<OpenGroup, CorruptionCause> {
        match &self.layout.contents {
            Contents::Parquet(footer) => guarded(|| self.open_parquet(footer)),
            Contents::Arrow(messages) => guarded(|| self.open_arrow(messages)),
        }
    }

    fn open_parquet(&self, footer: &Footer) -> Result<OpenGroup, ParquetError> {
        let stored = Stored::open(&self.input)?;
        let all = usize::try_from(footer.group(self.index).num_rows())?;
        let selection = self.selection.as_ref();
        let selection =
            selection.map(|rows| RowSelection::from_consecutive_ranges(rows.iter().cloned(), all));
        let open = |column: &ValueColumn| -> Result<OpenColumn, ParquetError> {
            let columns = column.root..column.root + 1;
            let reader = reader(&stored, &footer.metadata, self.index, columns, selection.clone())?;
            Ok(OpenColumn::Parquet(Box::new(reader.with_batch_size(self.batch).build()?)))
        };
        let texts = self.layout.texts.iter().map(open).collect::<Result<_, _>>()?;
        // The rows are read without a name that cannot be, and say so.
        let name = |column| open(column).unwrap_or_else(|error| OpenColumn::Unreadable(error.to_string()));
        Ok((texts, self.layout.names.each_ref().map(|column| column.as_ref().map(name))))
    }

    /// Decodes the wanted columns of a record batch.
    fn open_arrow(&self, messages: &Messages) -> Result<OpenGroup, ParquetError> {
        let Layout { texts, names, .. } = &*self.layout;
        let mut columns: Vec<usize> = texts.iter().chain(names.iter().flatten()).map(|it| it.root).collect();
        columns.sort_unstable();
        columns.dedup();
        let stored = Stored::open(&self.input)?;
        let decoded = messages.decoder(&columns)?.batch(&stored, self.index, self.selection.as_deref())?;
        let open = |column: &ValueColumn| {
            let at = columns.binary_search(&column.root).ok()?;
            Some(OpenColumn::Arrow(decoded.column(at).clone()))
        };
        let names = names.each_ref().map(|column| column.as_ref().and_then(open));
        Ok((texts.iter().filter_map(open).collect(), names))
    }

    /// Reads as many rows as are asked for at once. Behind corruption the columns are opened anew.
    fn read_batch(&mut self) -> Result<ReadRows, CorruptionCause> {
        let layout = self.layout.clone();
        let next = self.done..self.rows.min(self.done + self.batch);
        let (mut open_texts, mut open_names) = self.open.take().map_or_else(|| self.open(), Ok)?;
        let texts = guarded(|| {
            let columns = open_texts.iter_mut().zip(&layout.texts);
            columns.map(|(open, column)| open.next(&next, column)).collect::<Result<Vec<_>, _>>()
        })?;
        let mut names = [const { NameValues::Ok(None) }; NAMES];
        for ((names, open), column) in names.iter_mut().zip(&mut open_names).zip(&layout.names) {
            let (Some(name), Some(column)) = (&mut *open, column) else { continue };
            match guarded(|| name.next(&next, column)) {
                Ok(values) => *names = Ok(Some(values)),
                Err(flaw) if self.batch > 1 => return Err(flaw),
                Err(_) => {
                    *names = Err("does not decode from here to the end of its row group");
                    *open = None;
                }
            }
        }
        self.open = Some((open_texts, open_names));
        self.done = next.end;
        let GroupHead { rows: ref of_group, offset, .. } = layout.groups[self.index];
        let within = next.start as u64;
        let first = of_group.start + within;
        let bytes = texts.iter().chain(names.iter().flatten().flatten()).map(|values| values.bytes).sum();
        Ok(ReadRows { first, within, offset, rows: next.len(), texts, names, bytes })
    }

    /// The next rows; none behind the last one or behind corruption, which is reported.
    fn next(&mut self, part: &mut FileReading) -> Option<ReadRows> {
        if self.done >= self.rows {
            return None;
        }
        match self.read() {
            Ok(piece) => {
                part.records += piece.rows as u64;
                part.decoded_bytes += piece.bytes;
                Some(piece)
            }
            Err((kind, detail)) => {
                let lost = (self.rows - self.done) as u64;
                let (group, text) = (self.index, &self.layout.texts[0].path);
                let called = self.layout.group_called();
                let detail = format!("{called} {group}, column {text:?}: {detail}; {lost} rows lost");
                let row = self.layout.groups[group].rows.start + self.done as u64;
                part.add(self.layout.lost_rows(group, row, lost, (kind, detail)));
                part.records += lost;
                self.done = self.rows;
                None
            }
        }
    }
}

/// A Parquet or Arrow file being read, row group by row group.
#[derive(Debug)]
pub(crate) struct Rows {
    input: Input,
    layout: Arc<Layout>,
    block_bytes: usize,
    next: usize,
    group: Option<RowGroup>,
    /// Stored bytes not yet accounted for.
    stored: u64,
    finished: bool,
}

impl Rows {
    /// Reads the layout of a file.
    ///
    /// # Errors
    /// The corruption that keeps the file from being read.
    pub fn open(input: &Input, options: &ReadOptions) -> Result<Self, CorruptionCause> {
        let layout = Arc::new(Layout::of(input, options)?);
        let (input, block_bytes, stored) = (input.clone(), options.block_bytes, input.stored_bytes());
        Ok(Self { input, layout, block_bytes, next: 0, group: None, stored, finished: false })
    }

    /// The number of rows of the file, and the bytes of their texts: as the footer of Parquet states them, or of Arrow
    /// estimated by some rows in the middle.
    pub fn claimed(&self) -> (u64, u64) {
        let rows = self.layout.rows();
        if let (Contents::Arrow(_), Some(middle)) = (&self.layout.contents, self.layout.group_of(rows / 2)) {
            let piece = RowGroup::new(&self.input, &self.layout, middle, self.block_bytes).read();
            let of_texts = |piece: &ReadRows| piece.texts.iter().map(|texts| texts.bytes).sum::<u64>();
            let (bytes, of) = piece.map_or((0, 1), |piece| (of_texts(&piece), piece.rows as u64));
            return (rows, bytes.saturating_mul(rows) / of.max(1));
        }
        (rows, self.layout.groups.iter().map(|group| group.texts).sum())
    }

    /// Puts the next rows, or a row group that is still to be read, into `batch`, and the outcome so far into `part`.
    /// False if there is nothing left.
    pub fn next_block(&mut self, batch: &mut Batch, part: &mut FileReading) -> bool {
        *batch = Batch::default();
        if self.finished {
            return false;
        }
        if let Some(group) = &mut self.group {
            batch.piece = group.next(part);
            if batch.piece.is_some() || part.corrupt > 0 {
                return true;
            }
            self.group = None;
        }
        let index = self.next;
        match self.layout.groups.get(index) {
            None => self.layout.corruption_at_end().into_iter().for_each(|corruption| part.add(corruption)),
            Some(head) if head.rows.end > u64::from(u32::MAX) => {
                let kind = CorruptionKind::TooLarge;
                let detail = "the rest of the file is not read";
                part.add(Corruption::of_file(&self.input.path, 0, kind, detail));
            }
            Some(head) => {
                let size = head.stored.min(self.stored);
                self.next += 1;
                self.stored -= size;
                part.stored_bytes = size;
                let mut group = RowGroup::new(&self.input, &self.layout, index, self.block_bytes);
                if head.texts <= OWN_GROUP {
                    batch.group = Some(group);
                } else {
                    batch.piece = group.next(part);
                    self.group = Some(group);
                }
                return true;
            }
        }
        self.finished = true;
        part.stored_bytes = std::mem::take(&mut self.stored);
        true
    }
}

/// Reads rows of one file again, by the ids and places in `wanted`, and hands them to `each`, as [`super::fetch`] does.
///
/// # Errors
/// `wrong` makes the error, of the place that holds no such document and what was found, in words.
pub(crate) fn fetch(
    input: &Input,
    options: &ReadOptions,
    wanted: &[(DocId, Place)],
    mut each: impl FnMut(Document<'_>),
    wrong: impl Fn(Place, String) -> Error,
) -> Result<()> {
    let Some(&(_, first)) = wanted.first() else { return Ok(()) };
    let rows = Rows::open(input, options).map_err(|(_, detail)| wrong(first, detail))?;
    for (index, of_group) in rows.layout.by_group(wanted) {
        let index = index.ok_or_else(|| wrong(of_group[0].1, "fewer rows".to_owned()))?;
        let group = RowGroup::new(input, &rows.layout, index, options.block_bytes);
        let start = rows.layout.groups[index].rows.start;
        let mut group = group.only(ranges(of_group.iter().map(|(id, _)| id.row), start));
        let (mut left, mut joined) = (of_group.iter(), Vec::new());
        while let Some(&(_, place)) = left.as_slice().first() {
            let piece = group.read().map_err(|(_, detail)| wrong(place, detail))?;
            for (row, &(id, place)) in (0..piece.rows).zip(&mut left) {
                let why = match piece.content(row, options, &mut joined) {
                    Ok(Some((content, found))) if found.length == place.length => {
                        each(content.document(id, place));
                        continue;
                    }
                    Ok(_) => "a text of another length".to_owned(),
                    Err((_, why)) => why,
                };
                return Err(wrong(place, why));
            }
        }
    }
    Ok(())
}

/// Rows as ranges, counted from the start of their row group.
fn ranges(rows: impl Iterator<Item = u32>, start: u64) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for row in rows {
        let row = (u64::from(row) - start) as usize;
        match ranges.last_mut() {
            Some(range) if range.end == row => range.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}
