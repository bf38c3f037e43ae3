//! Parquet files: row groups in turn, of each only the columns that are wanted, in batches of rows.
//!
//! The `parquet` crate decodes, into arrays of values as they are stored: what a schema says that they mean is looked
//! at only for ids. Should the crate panic on a file, that ends the row group, not the run ([`guard`]).

mod columns;
mod copy;
mod depth;
mod footer;
mod guard;
mod stored;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::errors::ParquetError;

use super::damage::{Damage, DamageKind, FileReading, Tally, TooLong};
use super::document::Document;
use super::inputs::Input;
use super::jsonl::number;
use super::options::ReadOptions;
use super::records::readable;
use crate::document::{DocId, Place};
use crate::{Error, Result};
use columns::{BATCH_ROWS, Kind, Name, Values, joined, reader};
pub(crate) use copy::{GROUP_BYTES, write_kept};
use footer::{Column, Layout, NAMES};
pub(crate) use footer::{column_names, footer_bytes};
pub(crate) use guard::panic_is_damage;
use guard::{Flaw, guarded};
use stored::Stored;

/// Row groups up to this size are left to one thread each; larger ones are decoded under the file's lock, so
/// that several threads share the work on their rows.
const OWN_GROUP: u64 = 64 << 20;

/// What was read of a column of names.
#[derive(Debug)]
enum Names {
    Absent,
    Read(Values, Kind),
    Unfit(&'static str),
}

impl Names {
    /// Bytes of memory that the values take.
    fn bytes(&self) -> u64 {
        match self {
            Self::Read(values, _) => values.bytes(),
            Self::Absent | Self::Unfit(_) => 0,
        }
    }

    fn of_row(&self, row: usize) -> Name<'_> {
        match self {
            Self::Absent => Name::Absent,
            Self::Read(values, kind) => values.name(row, *kind),
            Self::Unfit(why) => Name::Unfit(why),
        }
    }
}

/// Rows that were read at once.
#[derive(Debug)]
struct Piece {
    /// The first of them, in the file and in its row group.
    first: u64,
    within: u64,
    /// Where the texts of the row group are stored.
    offset: u64,
    rows: usize,
    /// Of each column that the texts are joined of.
    texts: Vec<Values>,
    names: [Names; NAMES],
    /// Bytes of memory that they take.
    bytes: u64,
}

impl Piece {
    /// What becomes of a row: the document `id`, or damage.
    fn document<T>(
        &self,
        row: usize,
        id: DocId,
        options: &ReadOptions,
        damage: &mut dyn FnMut(DamageKind, String),
        each: impl FnOnce(Document<'_>) -> T,
    ) -> Option<T> {
        let Some(bytes) = joined(self.texts.iter().flat_map(|texts| texts.texts(row))) else {
            if options.rules.strict {
                damage(DamageKind::NoText, format!("column {:?} is null", options.fields.text));
            }
            return None;
        };
        if bytes.len() > options.record_cap {
            let detail = format!("a text above {} bytes (--longest-page)", options.record_cap);
            damage(DamageKind::TooLarge, detail);
            return None;
        }
        let text = readable(&bytes, options.rules.strict, damage)?;
        let fields = &options.fields;
        let names = self.names.each_ref().map(|names| names.of_row(row));
        let mut named = [&fields.id, &fields.url, &fields.language].into_iter().zip(&names);
        let mut next = || match named.next() {
            Some((_, Name::Text(name))) => Some(&**name),
            Some((field, Name::Unfit(why))) => {
                damage(DamageKind::BadName, format!("{field} {why} and was left out"));
                None
            }
            _ => None,
        };
        let (record_id, url, language) = (next(), next(), next());
        let score = match &names[3] {
            Name::Text(score) => number(score),
            _ => None,
        };
        let length = bytes.len() as u64;
        let place = Place { offset: self.offset, within: self.within + row as u64, length, member: 0 };
        Some(each(Document {
            id,
            record_id,
            url,
            language,
            score,
            text: &text,
            place,
            mended: matches!(text, Cow::Owned(_)),
            truncated: false,
            // A text stands among the rows, and is no copy of a record, as it counts.
            beside: self.bytes.saturating_sub(2 * length),
        }))
    }
}

/// Rows as they were read, or a row group that whoever works on them is to read first, bit by bit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    piece: Option<Piece>,
    group: Option<Group>,
}

impl Batch {
    /// Takes a close look at each row, and takes it out: hands on the documents, counts them, and notes
    /// damage. A row that takes more than `most` bytes ends it, and is given back.
    pub fn process(
        &mut self,
        shard: u32,
        input: &Input,
        options: &ReadOptions,
        most: u64,
        part: &mut FileReading,
        each: &mut impl FnMut(Document<'_>),
    ) -> Option<TooLong> {
        let mut too_long = None;
        loop {
            let piece = self.piece.take();
            for row in 0..piece.as_ref().map_or(0, |piece| piece.rows) {
                let piece = piece.as_ref()?;
                let number = piece.first + row as u64;
                part.take(&input.path, false, (number, piece.offset, 0), each, |found, each| {
                    let id = DocId::new(shard, number as u32);
                    piece.document(row, id, options, found, |document| match document.bytes() {
                        bytes if bytes > most => {
                            too_long = Some(TooLong { record: number, bytes });
                            0
                        }
                        _ => each(document),
                    })
                });
                if too_long.is_some() {
                    self.group = None;
                    return too_long;
                }
            }
            let group = self.group.as_mut()?;
            let (before, mut tally) = (Instant::now(), Tally::default());
            self.piece = group.next(&mut tally);
            if self.piece.is_none() {
                self.group = None;
            }
            part.decoding += before.elapsed();
            part.count(tally);
        }
    }
}

/// Rows of a row group, in order: all of them, or some.
struct Group {
    input: Input,
    layout: Arc<Layout>,
    index: usize,
    selection: Option<RowSelection>,
    rows: usize,
    done: usize,
    /// Rows that are asked for at once.
    batch: usize,
    /// Readers of texts and of names; opened with the first batch, by the thread that reads it.
    open: Option<(Vec<ParquetRecordBatchReader>, [Option<ParquetRecordBatchReader>; NAMES])>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("index", &self.index).field("done", &self.done).finish_non_exhaustive()
    }
}

impl Group {
    fn new(input: &Input, layout: &Arc<Layout>, index: usize, block_bytes: usize) -> Self {
        let group = layout.group(index);
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let columns = layout.names.iter().flatten().chain(&layout.texts);
        let bytes = columns.map(|column| group.column(column.index).uncompressed_size().max(0) as usize);
        let batch = block_bytes / (bytes.sum::<usize>() / rows.max(1)).max(1);
        let (input, layout, batch) = (input.clone(), layout.clone(), batch.clamp(1, BATCH_ROWS));
        Self { input, layout, index, selection: None, rows, done: 0, batch, open: None }
    }

    /// Of the row group, only these rows.
    fn only(self, rows: &[Range<usize>]) -> Self {
        let selection = RowSelection::from_consecutive_ranges(rows.iter().cloned(), self.rows);
        Self { rows: rows.iter().map(Range::len).sum(), selection: Some(selection), ..self }
    }

    fn opened(
        &mut self,
    ) -> Result<&mut (Vec<ParquetRecordBatchReader>, [Option<ParquetRecordBatchReader>; NAMES]), ParquetError>
    {
        if self.open.is_none() {
            let stored = Stored::new(self.input.open()?)?;
            let Layout { metadata, texts, names, .. } = &*self.layout;
            let open = |column: &Column| {
                let place = (self.index, column.index..column.index + 1);
                reader(&stored, metadata, place, self.batch, self.selection.clone())
            };
            let texts = texts.iter().map(open).collect::<Result<_, _>>()?;
            // A name that cannot be read shows when it is asked for.
            let names = names.each_ref().map(|name| name.as_ref().and_then(|column| open(column).ok()));
            self.open = Some((texts, names));
        }
        Ok(self.open.as_mut().expect("opened above"))
    }

    /// Reads on. Before damage rows come one by one, from the first one on, so that what is read does not depend on
    /// how many were asked for.
    fn read(&mut self) -> Result<Piece, Flaw> {
        match self.read_batch() {
            Err(_) if self.batch > 1 => {
                self.batch = 1;
                self.open = None;
                let done = std::mem::take(&mut self.done);
                while self.done < done {
                    self.read_batch()?;
                }
                self.read_batch()
            }
            outcome => outcome,
        }
    }

    fn read_batch(&mut self) -> Result<Piece, Flaw> {
        let rows = self.batch.min(self.rows - self.done);
        let texts = guarded(DamageKind::Corrupt, || {
            let (texts, _) = self.opened()?;
            texts.iter_mut().map(|text| Values::next_of(text, rows)).collect::<Result<Vec<_>, _>>()
        })?;
        let mut names = [const { Names::Absent }; NAMES];
        for (at, found) in names.iter_mut().enumerate() {
            let Some(column) = &self.layout.names[at] else { continue };
            let kind = Kind::of(&column.descriptor);
            let Some(slot) = self.open.as_mut().map(|(_, names)| &mut names[at]) else { continue };
            let Some(name) = slot else { continue };
            match guarded(DamageKind::Corrupt, || Values::next_of(name, rows)) {
                Ok(values) => *found = Names::Read(values, kind),
                Err(flaw) if self.batch > 1 => return Err(flaw),
                Err(_) => {
                    *found = Names::Unfit("does not decode from here to the end of its row group");
                    *slot = None;
                }
            }
        }
        let (first, within) = (self.layout.starts[self.index] + self.done as u64, self.done as u64);
        let offset = self.layout.offset(self.index);
        self.done += rows;
        let bytes = texts.iter().map(Values::bytes).chain(names.iter().map(Names::bytes)).sum();
        Ok(Piece { first, within, offset, rows, texts, names, bytes })
    }

    /// The next rows; none behind the last one or behind damage, which is told.
    fn next(&mut self, tally: &mut Tally) -> Option<Piece> {
        if self.done >= self.rows {
            return None;
        }
        match self.read() {
            Ok(piece) => {
                tally.records += piece.rows as u64;
                tally.decoded += piece.bytes;
                Some(piece)
            }
            Err((kind, detail)) => {
                let lost = (self.rows - self.done) as u64;
                let (group, text) = (self.index, self.layout.texts[0].descriptor.path().string());
                let detail = format!("row group {group}, column {text:?}: {detail}; {lost} rows lost");
                let place = (self.layout.offset(group), 0);
                let row = self.layout.starts[group] + self.done as u64;
                tally.damage.push(Damage {
                    pages: Some(lost),
                    ..Damage::new(&self.input.path, Some(row), place, kind, detail)
                });
                tally.records += lost;
                self.done = self.rows;
                None
            }
        }
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
        let stored = open().map_err(|error| (DamageKind::Unreadable, error.to_string()))?;
        let layout = Arc::new(Layout::of(&stored, options)?);
        let (block_bytes, stored) = (options.block_bytes, stored.length());
        Ok(Self { input: input.clone(), layout, block_bytes, next: 0, group: None, stored, finished: false })
    }

    /// Rows, and bytes of their texts, as the footer says.
    pub fn claimed(&self) -> (u64, u64) {
        let starts = &self.layout.starts;
        let texts = (0..starts.len() - 1).map(|group| self.layout.text_bytes(group));
        (starts.last().copied().unwrap_or(0), texts.sum())
    }

    /// Makes the next batch, which may be a row group for the caller to read; false when there are none.
    pub fn next_block(&mut self, batch: &mut Batch, tally: &mut Tally) -> bool {
        *batch = Batch::default();
        if self.finished {
            return false;
        }
        if let Some(group) = &mut self.group {
            batch.piece = group.next(tally);
            if batch.piece.is_some() || !tally.damage.is_empty() {
                return true;
            }
            self.group = None;
        }
        let (index, starts) = (self.next, &self.layout.starts);
        match starts.get(index + 1) {
            None => {}
            Some(&end) if end > u64::from(u32::MAX) => {
                let kind = DamageKind::TooLarge;
                let detail = "the rest of the file is not read";
                tally.damage.push(Damage::new(&self.input.path, None, (0, 0), kind, detail));
            }
            Some(_) => {
                let size = u64::try_from(self.layout.group(index).compressed_size()).unwrap_or(0);
                let size = size.min(self.stored);
                self.next += 1;
                self.stored -= size;
                tally.stored = size;
                let mut group = Group::new(&self.input, &self.layout, index, self.block_bytes);
                if self.layout.text_bytes(index) <= OWN_GROUP {
                    batch.group = Some(group);
                } else {
                    batch.piece = group.next(tally);
                    self.group = Some(group);
                }
                return true;
            }
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
    let starts = &rows.layout.starts;
    let is_of_one_group = |before: &(DocId, Place), next: &(DocId, Place)| {
        before.0.row < next.0.row && rows.layout.group_of(before.0.row) == rows.layout.group_of(next.0.row)
    };
    for of_group in wanted.chunk_by(is_of_one_group) {
        let (id, place) = of_group[0];
        let index = rows.layout.group_of(id.row).ok_or_else(|| wrong(place, "fewer rows".to_owned()))?;
        let group = Group::new(input, &rows.layout, index, options.block_bytes);
        let mut group = group.only(&ranges(of_group, starts[index]));
        let mut left = of_group.iter();
        while let Some(&(_, place)) = left.as_slice().first() {
            let piece = group.read().map_err(|(_, detail)| wrong(place, detail))?;
            for (row, &(id, place)) in (0..piece.rows).zip(&mut left) {
                let mut flaw = None;
                let mut damage =
                    |kind, detail: String| flaw = (kind != DamageKind::BadName).then_some(detail);
                let done = piece.document(row, id, options, &mut damage, |document| {
                    let is_same = document.place.length == place.length;
                    if is_same {
                        each(Document { place, ..document });
                    }
                    is_same
                });
                if done != Some(true) {
                    return Err(wrong(place, flaw.unwrap_or_else(|| "a text of another length".to_owned())));
                }
            }
        }
    }
    Ok(())
}

/// Rows as ranges, counted from the start of their row group.
fn ranges(rows: &[(DocId, Place)], start: u64) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (id, _) in rows {
        let row = (u64::from(id.row) - start) as usize;
        match ranges.last_mut() {
            Some(range) if range.end == row => range.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}
