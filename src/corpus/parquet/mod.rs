//! Parquet files: row groups in turn, of each only the columns that are wanted, in batches of rows.
//!
//! Values are read column by column as the file stores them, without a table in between. A file is not
//! believed: [`claims`] and [`pages`] hold its numbers against its bytes, and should the reader behind panic
//! on what is left, that ends the row group, not the run ([`guard`]).

mod claims;
mod columns;
mod copy;
mod footer;
mod guard;
mod pages;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use super::damage::{Damage, DamageKind, FileReading, Tally, TooLong};
use super::document::Document;
use super::inputs::Input;
use super::jsonl::number;
use super::options::ReadOptions;
use super::records::readable;
use crate::document::{DocId, Place};
use crate::{Error, Result};
use columns::{BATCH_ROWS, Cursor, Name, joined};
pub(crate) use copy::{largest_page, write_kept};
use footer::{Column, Layout, NAMES};
pub(crate) use footer::{column_names, footer_bytes};
pub(crate) use guard::panic_is_damage;
use guard::{Flaw, guarded};
use pages::{Limit, Stored};

/// Row groups up to this size are left to one thread each; larger ones are decoded under the file's lock, so
/// that several threads share the work on their rows.
const OWN_GROUP: u64 = 64 << 20;

/// A row as it was read.
#[derive(Clone, Debug)]
struct Row {
    row: u32,
    offset: u64,
    within: u64,
    text: Option<ByteArray>,
    names: [Name; NAMES],
}

impl Row {
    /// Bytes of its text and names.
    fn bytes(&self) -> u64 {
        let names = self.names.iter().map(|name| match name {
            Name::Text(name) => name.len(),
            _ => 0,
        });
        (self.text.as_ref().map_or(0, ByteArray::len) + names.sum::<usize>()) as u64
    }

    /// What becomes of it: a document, or damage. So many bytes are in memory with it.
    fn document<T>(
        &self,
        shard: u32,
        held: u64,
        options: &ReadOptions,
        damage: &mut dyn FnMut(DamageKind, String),
        each: impl FnOnce(Document<'_>) -> T,
    ) -> Option<T> {
        let Some(text) = &self.text else {
            if options.rules.strict {
                damage(DamageKind::TextNotString, format!("column {:?} is null", options.fields.text));
            }
            return None;
        };
        let bytes = text.data();
        if bytes.len() > options.record_cap {
            let detail = format!("a text above {} bytes (--longest-page)", options.record_cap);
            damage(DamageKind::TooLong, detail);
            return None;
        }
        let text = readable(bytes, options.rules.strict, damage)?;
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
        let score = match &self.names[3] {
            Name::Text(score) => number(score),
            _ => None,
        };
        let length = bytes.len() as u64;
        let place = Place { offset: self.offset, within: self.within, length, member: 0 };
        let id = DocId::new(shard, self.row);
        // A text stands in its page, and is no copy of a record, as it counts.
        let beside = held.saturating_sub(2 * length);
        let mended = matches!(text, Cow::Owned(_));
        let truncated = false;
        Some(each(Document {
            id,
            record_id,
            url,
            language,
            score,
            text: &text,
            place,
            mended,
            truncated,
            beside,
        }))
    }
}

/// Rows as they were read, or a row group that whoever works on them is to read first, bit by bit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: Vec<Row>,
    /// Bytes that are in memory with each of them: all of them, and pages.
    held: u64,
    group: Option<Group>,
}

impl Batch {
    /// Takes a close look at each row, and takes it out: hands on the documents, counts them, and notes
    /// damage. A row in a page that is too large for `most` bytes is given back.
    pub fn process(
        &mut self,
        shard: u32,
        input: &Input,
        options: &ReadOptions,
        most: u64,
        part: &mut FileReading,
        each: &mut impl FnMut(Document<'_>),
    ) -> Option<TooLong> {
        loop {
            for row in self.rows.drain(..) {
                part.take(&input.path, false, (u64::from(row.row), row.offset, 0), each, |found, each| {
                    row.document(shard, self.held, options, found, each)
                });
            }
            let group = self.group.as_mut()?;
            let (before, mut tally) = (Instant::now(), Tally::default());
            let more = group.next(&mut self.rows, &mut self.held, &mut tally, most);
            part.decoding += before.elapsed();
            if tally.too_long.is_some() {
                self.group = None;
                return tally.too_long;
            }
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
    /// How large pages may be.
    limit: Arc<Limit>,
    /// Texts and names; opened with the first batch, by the thread that reads it.
    open: Option<(Vec<Cursor>, [Option<Cursor>; NAMES])>,
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
        let columns = layout.names.iter().flatten().chain(&layout.texts);
        let bytes = columns.map(|column| group.column(column.index).uncompressed_size().max(0) as usize);
        let batch = (block_bytes / (bytes.sum::<usize>() / rows.max(1)).max(1)).clamp(16, BATCH_ROWS);
        let (input, layout, limit) = (input.clone(), layout.clone(), Arc::default());
        Self { input, layout, index, rows, done: 0, batch, limit, open: None }
    }

    /// The file's row that comes next.
    fn row(&self) -> u64 {
        self.layout.starts[self.index] + self.done as u64
    }

    fn open(&mut self) -> Result<&mut (Vec<Cursor>, [Option<Cursor>; NAMES]), ParquetError> {
        if self.open.is_none() {
            let stored = Arc::new(Stored::within_limit(self.input.open()?, &self.limit)?);
            let Layout { metadata, texts, names, .. } = &*self.layout;
            let open = |column: &Column| Cursor::open(&stored, metadata, self.index, column);
            let texts = texts.iter().map(open).collect::<Result<_, _>>()?;
            // A name that cannot be read shows when it is asked for.
            let names = names.each_ref().map(|name| name.as_ref().and_then(|column| open(column).ok()));
            self.open = Some((texts, names));
        }
        Ok(self.open.as_mut().expect("opened above"))
    }

    /// Reads on. At most `self.batch` rows come at once. Before damage they come one by one, so that what is
    /// read does not depend on how many were asked for.
    fn read(&mut self, rows: &mut Vec<Row>) -> Result<usize, Flaw> {
        let from = rows.len();
        match self.read_batch(rows) {
            Err(_) if self.batch > 1 => {
                rows.truncate(from);
                self.batch = 1;
                let done = std::mem::take(&mut self.done);
                self.open = None;
                self.skip_by_reading(done)?;
                self.read_batch(rows)
            }
            outcome => outcome,
        }
    }

    /// Stands behind the first rows again, all of which were read before; a reader that had damage in front of
    /// it is not used any more.
    fn skip_by_reading(&mut self, rows: usize) -> Result<(), Flaw> {
        guarded(DamageKind::CorruptMember, || {
            let (texts, names) = self.open()?;
            for text in texts {
                read_past(rows, |wanted| text.texts(wanted, |_| ()))?;
            }
            for slot in names {
                let passed = slot.as_mut().map(|name| read_past(rows, |wanted| name.names(wanted, |_| ())));
                if passed.is_some_and(|passed| passed.is_err()) {
                    *slot = None;
                }
            }
            Ok(())
        })?;
        self.done = rows;
        Ok(())
    }

    /// A column of names again, behind the first rows.
    fn reopen_name(&self, at: usize, rows: usize) -> Result<Cursor, Flaw> {
        guarded(DamageKind::CorruptMember, || {
            let stored = Arc::new(Stored::within_limit(self.input.open()?, &self.limit)?);
            let column = self.layout.names[at].as_ref().ok_or_else(|| ParquetError::EOF(String::new()))?;
            let mut name = Cursor::open(&stored, &self.layout.metadata, self.index, column)?;
            read_past(rows, |wanted| name.names(wanted, |_| ()))?;
            Ok(name)
        })
    }

    fn read_batch(&mut self, rows: &mut Vec<Row>) -> Result<usize, Flaw> {
        let wanted = self.batch.min(self.rows - self.done);
        let (first, within) = (self.row() as u32, self.done as u64);
        let offset = self.layout.offset(self.index);
        let from = rows.len();
        let n = guarded(DamageKind::CorruptMember, || {
            let (texts, _) = self.open()?;
            let Some((text, others)) = texts.split_first_mut() else { return Ok(0) };
            let n = text.texts(wanted, |text| {
                let at = (rows.len() - from) as u32;
                let names = [const { Name::Absent }; NAMES];
                rows.push(Row { row: first + at, offset, within: within + u64::from(at), text, names });
            })?;
            join_others(&mut rows[from..], others)?;
            Ok(n)
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
        let before = self.done;
        self.done += n;
        let rows = &mut rows[from..];
        for at in 0..NAMES {
            let mut found = Vec::with_capacity(n);
            let Some(cursor) = self.open.as_mut().and_then(|(_, names)| names[at].as_mut()) else { continue };
            let mut read = names_of(cursor, n, n, &mut found);
            if read.is_err() {
                // One by one, as texts.
                found.clear();
                read = self.reopen_name(at, before).and_then(|mut cursor| {
                    let read = names_of(&mut cursor, n, 1, &mut found);
                    if let Some((_, names)) = &mut self.open {
                        names[at] = Some(cursor);
                    }
                    read
                });
            }
            if read.is_err() {
                found.truncate(n - 1);
                found.push(Name::Unfit("does not decode from here to the end of its row group"));
                if let Some((_, names)) = &mut self.open {
                    names[at] = None;
                }
            }
            rows.iter_mut().zip(found).for_each(|(row, name)| row.names[at] = name);
        }
        Ok(n)
    }

    /// Adds the next rows, and tells how many bytes are in memory with each of them; false when there are none. Of a
    /// record `most` bytes are read.
    fn next(&mut self, rows: &mut Vec<Row>, held: &mut u64, tally: &mut Tally, most: u64) -> bool {
        if self.done >= self.rows {
            return false;
        }
        self.limit.set(most);
        let read = self.read(rows);
        if let Some(bytes) = self.limit.exceeded() {
            tally.too_long = Some(TooLong { record: self.row(), bytes });
            self.done = self.rows;
            self.open = None;
            return true;
        }
        match read {
            Ok(n) => {
                tally.records += n as u64;
                let bytes = rows[rows.len() - n..].iter().map(Row::bytes).sum::<u64>();
                tally.decoded += bytes;
                *held = bytes + self.limit.held();
            }
            Err((kind, detail)) => {
                let lost = (self.rows - self.done) as u64;
                let (group, text) = (self.index, self.layout.texts[0].descriptor.path().string());
                let detail = format!("row group {group}, column {text:?}: {detail}; {lost} rows lost");
                let place = (self.layout.offset(group), 0);
                tally.damage.push(Damage {
                    pages: Some(lost),
                    ..Damage::new(&self.input.path, Some(self.row()), place, kind, detail)
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
            let (texts, _) = self.open()?;
            for text in texts {
                if !text.skip(rows)? {
                    return Err(ParquetError::EOF("the column ends before".into()));
                }
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

/// Joins the texts of other columns to those of the first.
fn join_others(rows: &mut [Row], others: &mut [Cursor]) -> Result<(), ParquetError> {
    if others.is_empty() {
        return Ok(());
    }
    let mut texts: Vec<Vec<ByteArray>> =
        rows.iter_mut().map(|row| row.text.take().into_iter().collect()).collect();
    for other in others {
        let mut at = 0;
        while at < rows.len() {
            let n = other.texts(rows.len() - at, |text| {
                texts[at].extend(text);
                at += 1;
            })?;
            if n == 0 {
                return Err(ParquetError::EOF("a column of texts ends before".into()));
            }
        }
    }
    for (row, texts) in rows.iter_mut().zip(texts) {
        row.text = joined(texts.into_iter());
    }
    Ok(())
}

/// Reads on to the row behind so many.
fn read_past(
    rows: usize,
    mut read: impl FnMut(usize) -> Result<usize, ParquetError>,
) -> Result<(), ParquetError> {
    let mut left = rows;
    while left > 0 {
        match read(left.min(BATCH_ROWS))? {
            0 => return Err(ParquetError::EOF("the column ends before".into())),
            n => left -= n,
        }
    }
    Ok(())
}

/// The next `n` names, at most `batch` at once.
fn names_of(cursor: &mut Cursor, n: usize, batch: usize, found: &mut Vec<Name>) -> Result<(), Flaw> {
    guarded(DamageKind::CorruptMember, || {
        while found.len() < n {
            let wanted = batch.min(n - found.len());
            if cursor.names(wanted, |name| found.push(name))? == 0 {
                return Err(ParquetError::EOF(String::new()));
            }
        }
        Ok(())
    })
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

    /// Rows, and bytes of their texts, as the footer says.
    pub fn claimed(&self) -> (u64, u64) {
        let groups = 0..self.layout.metadata.num_row_groups();
        (
            self.layout.starts.last().copied().unwrap_or(0),
            groups.map(|group| self.layout.text_bytes(group)).sum(),
        )
    }

    /// Makes the next batch, which may be a row group for the caller to read; false when there are none. It is the last
    /// one where a page is too large for records of `most` bytes.
    pub fn next_block(&mut self, batch: &mut Batch, tally: &mut Tally, most: u64) -> bool {
        batch.rows.clear();
        batch.group = None;
        if self.finished {
            return false;
        }
        if let Some(group) = &mut self.group {
            if group.next(&mut batch.rows, &mut batch.held, tally, most) {
                self.finished = tally.too_long.is_some();
                return true;
            }
            self.group = None;
        }
        let (index, starts) = (self.next, &self.layout.starts);
        let rest = starts.get(index).zip(starts.get(index + 1)).map(|(&start, &end)| (start, end));
        let last = match rest {
            None => None,
            Some((start, end)) if end > u64::from(u32::MAX) => {
                let detail = "the rest of the file is not read";
                Some((Some(start), DamageKind::TooManyDocuments, detail))
            }
            Some(_) => {
                let group = self.layout.metadata.row_group(index);
                let text = self.layout.text_bytes(index);
                let size = u64::try_from(group.compressed_size()).unwrap_or(0).min(self.stored);
                self.next += 1;
                self.stored -= size;
                tally.stored = size;
                let mut group = Group::new(&self.input, &self.layout, index, self.block_bytes);
                if text <= OWN_GROUP {
                    batch.group = Some(group);
                } else {
                    group.next(&mut batch.rows, &mut batch.held, tally, most);
                    self.finished = tally.too_long.is_some();
                    self.group = Some(group);
                }
                return true;
            }
        };
        if let Some((record, kind, detail)) = last {
            tally.damage.push(Damage::new(&self.input.path, record, (0, 0), kind, detail));
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
            row.document(id.shard, 0, options, &mut damage, |document| each(Document { place, ..document }))
        });
        if done.is_none() {
            return Err(wrong(place, flaw.unwrap_or_else(|| "a text of another length".to_owned())));
        }
    }
    Ok(())
}
