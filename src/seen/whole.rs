//! A snapshot read as a whole, by many threads, each page straight to its place in memory. If anything is wrong with it,
//! nothing comes of it, and [`log::read`](super::log::read) passes over what is.

use super::SeenParams;
use super::log::{self, Part, Passed, read_full, whole_at};
use super::places::Place;
use super::record::{HEAD, Record, frame_of, put_page, table_part};
use crate::error::{Error, Result};
use crate::settings::Sketches;
use flipside_core::index::{Columns, Rows, TablePart};
use rayon::prelude::*;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes of a snapshot that are read by one thread at a time: pages, of which a nearest cache holds so many, and tables,
/// which stay in memory until they are taken over.
const BLOCK: usize = 1 << 19;
const TABLES: usize = 1 << 22;

/// A snapshot.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) params: SeenParams,
    /// Its pages, and of each the hash of its name, when it was last seen, and where its record begins.
    pub(super) columns: Columns,
    pub(super) names: Vec<u32>,
    pub(super) seen: Vec<u64>,
    pub(super) places: Vec<Place>,
    /// The tables, if pages are without keys.
    pub(super) tables: Tables,
    /// The other records, with the bytes at which they begin.
    pub(super) others: Vec<(u64, Record)>,
    pub(super) passed: Passed,
}

/// The parts of tables.
#[derive(Debug, Default)]
pub(super) struct Tables(Vec<Parts>);

/// Those of a block: its bytes, and where in them the parts of which tables stand.
#[derive(Debug)]
struct Parts {
    bytes: Vec<u8>,
    parts: Vec<(u32, Range<usize>)>,
}

impl Tables {
    /// The parts, in their order.
    pub(super) fn parts(&self) -> Vec<TablePart<'_>> {
        let mut all = Vec::new();
        for Parts { bytes, parts } in &self.0 {
            let part = |(table, place): &(u32, Range<usize>)| (*table as usize, &bytes[place.clone()]);
            all.extend(parts.iter().map(part).map(|(table, bytes)| TablePart { table, bytes }));
        }
        all
    }
}

/// Where some pages go.
struct Pages<'p> {
    rows: Rows<'p>,
    names: &'p mut [u32],
    seen: &'p mut [u64],
    places: &'p mut [Place],
}

impl Pages<'_> {
    /// Takes off the first so many; none if there are fewer.
    fn split(&mut self, pages: usize) -> Option<Self> {
        Some(Self {
            names: self.names.split_off_mut(..pages)?,
            seen: self.seen.split_off_mut(..pages)?,
            places: self.places.split_off_mut(..pages)?,
            rows: self.rows.split(pages),
        })
    }
}

/// Whole frames in the order in which they stand in the file, the pages among them first.
struct Block<'p> {
    number: usize,
    offset: u64,
    bytes: Vec<u8>,
    pages: Pages<'p>,
}

/// What else stands in a block.
#[derive(Default)]
struct Rest {
    number: usize,
    bytes: u64,
    records: u64,
    pages: usize,
    /// With the block's bytes.
    parts: Option<Parts>,
    others: Vec<(u64, Record)>,
}

/// The pages that stand in a snapshot, and the tables that do as a whole, as its end has them; none if it has no end.
///
/// # Errors
/// If it cannot be read.
pub(super) fn end_of(path: &Path, sketches: Sketches) -> Result<Option<(u64, u32)>> {
    let mut frame = Vec::new();
    Record::End { pages: 0, tables: 0 }.frame(&mut frame);
    let read = File::open(path).and_then(|mut file| {
        let length = file.metadata()?.len();
        let tail = length.min(frame.len() as u64);
        file.seek(SeekFrom::Start(length - tail))?;
        frame.clear();
        file.take(tail).read_to_end(&mut frame)
    });
    read.map_err(|error| Error::io(path, error))?;
    // The end of the first version is shorter.
    Ok((0..frame.len()).find_map(|at| {
        let whole = whole_at(&frame, at).filter(|&end| end == frame.len())?;
        match Record::read(&frame[at + HEAD..whole], sketches) {
            Some(Record::End { pages, tables }) => Some((pages, tables)),
            _ => None,
        }
    }))
}

/// Reads a snapshot. Where so many tables stand in it as a whole, they come, and pages without keys; with 0 pages always
/// have their keys.
///
/// # Errors
/// If it cannot be read or is not such a file.
pub(super) fn read(path: &Path, part: Part, tables: usize) -> Result<Option<Whole>> {
    let io = |error| Error::io(path, error);
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let (header, start) = log::header(path, &mut BufReader::with_capacity(1 << 16, &file))?;
    let sketches = header.settings.sketches;
    let Some((promised, stored)) = end_of(path, sketches)? else { return Ok(None) };
    let keyed = tables == 0 || stored as usize != tables;
    // A page's record is longer than its head, its digest and its times.
    let Some(pages) = usize::try_from(promised).ok().filter(|_| promised < length / 32) else {
        return Ok(None);
    };
    let mut columns = Columns::new(&header.settings, pages, keyed);
    let (mut names, mut seen, mut places) = (vec![0; pages], vec![0; pages], vec![Place::default(); pages]);
    let mut left = Pages { rows: columns.rows(), names: &mut names, seen: &mut seen, places: &mut places };
    file.seek(SeekFrom::Start(start)).map_err(io)?;
    // Memory of blocks that have been read, to be used again.
    let used: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let free = || used.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
    let (mut at, mut rest, mut number) = (start, Vec::new(), 0);
    let blocks = std::iter::from_fn(|| {
        if at + rest.len() as u64 >= length {
            return None;
        }
        let mut bytes = free();
        let block = if left.places.is_empty() { TABLES } else { BLOCK };
        let cut = match cut(&mut file, &mut rest, &mut bytes, block) {
            // A block that holds no frame, at the end of the file, is what is wrong.
            Ok((_, got)) if bytes.is_empty() && got == 0 => return None,
            Ok((pages, _)) => left.split(pages),
            Err(error) => return Some(Err(error)),
        };
        let (offset, this) = (at, number);
        (number, at) = (number + 1, at + bytes.len() as u64);
        Some(Ok(cut.map(|pages| Block { number: this, offset, bytes, pages })))
    });
    let decoded = blocks.par_bridge().map(|block| {
        let Some(mut block) = block? else { return Ok(None) };
        let rest = decoded(&mut block, part, sketches, keyed);
        if !block.bytes.is_empty() {
            used.lock().unwrap_or_else(PoisonError::into_inner).push(block.bytes);
        }
        Ok(rest)
    });
    let decoded: io::Result<Option<Vec<Rest>>> = decoded.collect();
    let Some(mut blocks) = decoded.map_err(io)? else { return Ok(None) };
    blocks.sort_unstable_by_key(|block| block.number);
    let (mut tables, mut others) = (Tables::default(), Vec::new());
    let mut passed = Passed { whole: start, promised: Some(promised), ..Passed::default() };
    let mut read = 0;
    for block in blocks {
        // Other records come when all pages have come.
        if block.pages > 0 && passed.records > read {
            return Ok(None);
        }
        read += block.pages as u64;
        passed.records += block.records;
        passed.whole += block.bytes;
        tables.0.extend(block.parts);
        others.extend(block.others);
    }
    let ended = matches!(others.last(), Some((_, Record::End { .. })));
    let whole = ended && read == promised && passed.whole == length;
    let params = log::params(header);
    Ok(whole.then_some(Whole { params, columns, names, seen, places, tables, others, passed }))
}

/// Reads whole frames into a block; what is left over goes in front of the next one. Gives how many of them are pages,
/// and how many bytes were read.
fn cut(file: &mut File, rest: &mut Vec<u8>, bytes: &mut Vec<u8>, block: usize) -> io::Result<(usize, usize)> {
    let filled = rest.len();
    bytes.resize(block.max(2 * filled), 0);
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

/// Puts the pages of a block where they go; none if something is wrong with a record, or pages come behind others.
fn decoded(block: &mut Block<'_>, part: Part, sketches: Sketches, keyed: bool) -> Option<Rest> {
    let Block { number, offset, bytes, pages } = block;
    let mut rest =
        Rest { number: *number, bytes: bytes.len() as u64, pages: pages.places.len(), ..Rest::default() };
    let (mut at, mut parts) = (0, Vec::new());
    while at < bytes.len() {
        let end = whole_at(bytes, at)?;
        let (body, offset) = (&bytes[at + HEAD..end], *offset + at as u64);
        let row = rest.records as usize;
        if row < rest.pages {
            (pages.names[row], pages.seen[row]) = put_page(body, sketches, &mut pages.rows, row)?;
            pages.places[row] = Place::new(part, offset);
        } else if let Some((table, part)) = table_part(body) {
            parts.push((table, part.start + at + HEAD..end));
        } else {
            match Record::read(body, sketches)? {
                other @ (Record::Request(_) | Record::End { .. }) => rest.others.push((offset, other)),
                _ => return None,
            }
        }
        rest.records += 1;
        at = end;
    }
    // Where pages have their keys, tables are made from them.
    if !keyed && !parts.is_empty() {
        rest.parts = Some(Parts { bytes: std::mem::take(bytes), parts });
    }
    Some(rest)
}
