//! A snapshot read as a whole, by many threads, each page straight to its place in memory. If anything is wrong with
//! the file, nothing comes of it. Then [`log::read`](super::log::read) reads the file, and passes over what is corrupt.

use super::SeenParams;
use super::log::{self, Part, Passed, read_full, whole_at};
use super::places::LogPlace;
use super::record::{HEAD, Record, frame_of, part_in, put_page};
use crate::error::{Error, Result};
use crate::settings::Sketches;
use rayon::prelude::*;
use simflip_core::index::{Columns, Rows, StoredTables};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes of a snapshot that are read by one thread at a time: what a near cache holds.
const BLOCK: usize = 1 << 19;

/// The content of a snapshot.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) params: SeenParams,
    /// Its pages; by page the hash of its name, the time at which it was last seen, and where its record begins.
    pub(super) columns: Columns,
    pub(super) names: Vec<u32>,
    pub(super) seen: Vec<u64>,
    pub(super) places: Vec<LogPlace>,
    /// The tables that pages are found by, as they stand in the file. With them the columns have no keys; `None` if
    /// they have keys, of which tables can be made.
    pub(super) tables: Option<SnapshotTables>,
    /// Remembered answers, and the end.
    pub(super) others: Vec<Record>,
    /// The outcome of reading: nothing is corrupt, cut or missing.
    pub(super) passed: Passed,
}

/// The tables of a snapshot, which are read from its file when they are asked for.
#[derive(Debug)]
pub(super) struct SnapshotTables {
    path: PathBuf,
    /// The byte at which the parts of each table begin, and that at which those of the last end.
    offsets: Vec<u64>,
}

impl StoredTables for SnapshotTables {
    fn read(&self, table: usize, take: &mut dyn FnMut(&[u8]) -> Option<()>) -> Option<()> {
        let (&start, &end) = (self.offsets.get(table)?, self.offsets.get(table + 1)?);
        let mut file = File::open(&self.path).ok()?;
        file.seek(SeekFrom::Start(start)).ok()?;
        let (mut file, mut rest, mut bytes) = (file.take(end.checked_sub(start)?), Vec::new(), Vec::new());
        while file.limit() > 0 || !rest.is_empty() {
            cut(&mut file, &mut rest, &mut bytes).ok().filter(|_| !bytes.is_empty())?;
            let mut at = 0;
            while at < bytes.len() {
                let end = whole_at(&bytes, at)?;
                let (of, part) = part_in(&bytes[at + HEAD..end])?;
                take(part).filter(|()| of as usize == table)?;
                at = end;
            }
        }
        Some(())
    }
}

/// The parts of the columns that some pages go to.
struct PageSlices<'p> {
    rows: Rows<'p>,
    names: &'p mut [u32],
    seen: &'p mut [u64],
    places: &'p mut [LogPlace],
}

impl PageSlices<'_> {
    /// Takes off the first `pages` of them; `None` if there are fewer.
    fn split(&mut self, pages: usize) -> Option<Self> {
        Some(Self {
            names: self.names.split_off_mut(..pages)?,
            seen: self.seen.split_off_mut(..pages)?,
            places: self.places.split_off_mut(..pages)?,
            rows: self.rows.split(pages),
        })
    }
}

/// Whole frames in the order in which they stand in the file, from byte `offset` on, the pages among them first.
struct FrameBlock<'p> {
    number: usize,
    offset: u64,
    bytes: Vec<u8>,
    pages: PageSlices<'p>,
}

/// The outcome of a block whose pages are in their columns: how much it had, and its other records.
#[derive(Default)]
struct Rest {
    number: usize,
    bytes: u64,
    records: u64,
    pages: usize,
    others: Vec<Record>,
}

/// The fields of a snapshot's [`Record::End`], of an index with so many tables: the number of pages, and where tables
/// stand. `None` if the file has no such record at its end.
pub(super) fn end_of(path: &Path, sketches: Sketches, tables: usize) -> Result<Option<(u64, Vec<u64>)>> {
    let mut tail = Vec::new();
    Record::End { pages: 0, tables: vec![0; tables + 1] }.frame(&mut tail);
    let read = File::open(path).and_then(|mut file| {
        let length = file.metadata()?.len();
        let longest = length.min(tail.len() as u64);
        file.seek(SeekFrom::Start(length - longest))?;
        tail.clear();
        file.take(longest).read_to_end(&mut tail)
    });
    read.map_err(|error| Error::io(path, error))?;
    // Without tables the end is shorter.
    Ok((0..tail.len()).find_map(|at| {
        let whole = whole_at(&tail, at).filter(|&end| end == tail.len())?;
        match Record::read(&tail[at + HEAD..whole], sketches) {
            Some(Record::End { pages, tables }) => Some((pages, tables)),
            _ => None,
        }
    }))
}

/// Reads a snapshot of an index with so many tables; `None` if anything is wrong with it. If tables are `wanted` and
/// stand in it, they come with pages without keys; otherwise pages come with keys.
pub(super) fn read(path: &Path, part: Part, tables: usize, wanted: bool) -> Result<Option<Whole>> {
    let io = |error| Error::io(path, error);
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let (header, start) = log::header(path, &mut BufReader::with_capacity(1 << 16, &file))?;
    let sketches = header.settings.sketches;
    let Some((promised, offsets)) = end_of(path, sketches, tables)? else { return Ok(None) };
    // A page's record is longer than its head, its digest and its times.
    let Some(pages) = usize::try_from(promised).ok().filter(|_| promised < length / 32) else {
        return Ok(None);
    };
    // Pages end where tables begin; other records come behind the tables.
    let (pages_end, others_start) = match &offsets[..] {
        [] => (length, length),
        [first, .., last] if first <= last && *first >= start && *last <= length => (*first, *last),
        _ => return Ok(None),
    };
    let keyed = !wanted || offsets.len() != tables + 1;
    let mut columns = Columns::new(&header.settings, pages, keyed);
    let (mut names, mut seen, mut places) =
        (vec![0; pages], vec![0; pages], vec![LogPlace::default(); pages]);
    let mut left =
        PageSlices { rows: columns.rows(), names: &mut names, seen: &mut seen, places: &mut places };
    let mut others = File::open(path).map_err(io)?;
    file.seek(SeekFrom::Start(start)).and_then(|_| others.seek(SeekFrom::Start(others_start))).map_err(io)?;
    let mut file = file.take(pages_end - start).chain(others);
    let end = length - (others_start - pages_end);
    // Memory of blocks that have been read, to be used again.
    let used: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let free = || used.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
    let (mut at, mut rest, mut number) = (start, Vec::new(), 0);
    let blocks = std::iter::from_fn(|| {
        if at + rest.len() as u64 >= end {
            return None;
        }
        let mut bytes = free();
        let cut = match cut(&mut file, &mut rest, &mut bytes) {
            // A block that holds no frame, at the end of the file, is what is wrong.
            Ok((_, got)) if bytes.is_empty() && got == 0 => return None,
            Ok((pages, _)) => left.split(pages),
            Err(error) => return Some(Err(error)),
        };
        let (offset, this) = (at, number);
        (number, at) = (number + 1, at + bytes.len() as u64);
        Some(Ok(cut.map(|pages| FrameBlock { number: this, offset, bytes, pages })))
    });
    let decoded = blocks.par_bridge().map(|block| {
        let Some(mut block) = block? else { return Ok(None) };
        let rest = decoded(&mut block, part, sketches);
        used.lock().unwrap_or_else(PoisonError::into_inner).push(block.bytes);
        Ok(rest)
    });
    let decoded: io::Result<Option<Vec<Rest>>> = decoded.collect();
    let Some(mut blocks) = decoded.map_err(io)? else { return Ok(None) };
    blocks.sort_unstable_by_key(|block| block.number);
    let (mut others, mut whole) = (Vec::new(), start);
    let mut passed = Passed { whole: length, promised: Some(promised), ..Passed::default() };
    let mut read = 0;
    for block in blocks {
        // Other records come when all pages have come.
        if block.pages > 0 && passed.records > read {
            return Ok(None);
        }
        read += block.pages as u64;
        passed.records += block.records;
        whole += block.bytes;
        others.extend(block.others);
    }
    let ended = matches!(others.last(), Some(Record::End { .. }));
    let whole = ended && read == promised && whole == end;
    let tables = (!keyed).then(|| SnapshotTables { path: path.to_path_buf(), offsets });
    let params = log::params(header);
    Ok(whole.then_some(Whole { params, columns, names, seen, places, tables, others, passed }))
}

/// Reads whole frames into `bytes`; what is left over stays in `rest`, for the next call. Gives the number of frames
/// that are pages, and the number of bytes read.
fn cut(file: &mut impl Read, rest: &mut Vec<u8>, bytes: &mut Vec<u8>) -> io::Result<(usize, usize)> {
    let filled = rest.len();
    bytes.resize(BLOCK.max(2 * filled), 0);
    bytes[..filled].copy_from_slice(rest);
    let got = read_full(file, &mut bytes[filled..])?;
    bytes.truncate(filled + got);
    let (mut end, mut pages) = (0, 0);
    while let Some((length, _)) = bytes.get(end..end + HEAD).and_then(frame_of) {
        if end + HEAD + length > bytes.len() {
            break;
        }
        pages += usize::from(bytes.get(end + HEAD) == Some(&1));
        end += HEAD + length;
    }
    rest.clear();
    rest.extend_from_slice(&bytes[end..]);
    bytes.truncate(end);
    Ok((pages, got))
}

/// Puts the pages of a block into their columns. `None` if something is wrong with a record, or a page comes behind
/// another record.
fn decoded(block: &mut FrameBlock<'_>, part: Part, sketches: Sketches) -> Option<Rest> {
    let FrameBlock { number, offset, bytes, pages } = block;
    let mut rest =
        Rest { number: *number, bytes: bytes.len() as u64, pages: pages.places.len(), ..Rest::default() };
    let mut at = 0;
    while at < bytes.len() {
        let end = whole_at(bytes, at)?;
        let body = &bytes[at + HEAD..end];
        let row = rest.records as usize;
        if row < rest.pages {
            (pages.names[row], pages.seen[row]) = put_page(body, sketches, &mut pages.rows, row)?;
            pages.places[row] = LogPlace::new(part, *offset + at as u64);
        } else {
            match Record::read(body, sketches)? {
                other @ (Record::Request(_) | Record::End { .. }) => rest.others.push(other),
                // Not all of them were written: they are made from keys.
                Record::Table { .. } => {}
                _ => return None,
            }
        }
        rest.records += 1;
        at = end;
    }
    Some(rest)
}
