//! Records in order of their bytes, more than memory holds: sorted in memory as far as they fit, and otherwise in
//! runs on disk that are merged.

use crate::error::{Error, Result};
use rayon::prelude::*;
use simflip_core::internal::memory::{prefetch, with_room};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Runs that are merged at once; with more of them, some are merged beforehand.
const MOST_RUNS: usize = 128;
/// Bytes that are read of a run at once.
const RUN_BUFFER: usize = 1 << 16;
/// The least that is sorted in memory at once.
pub const LEAST_MEMORY: u64 = 1 << 20;

/// The memory of a merge.
pub const MERGE_MEMORY: u64 = (MOST_RUNS * RUN_BUFFER) as u64;

/// Where a record stands, behind its first bytes, which mostly decide.
pub type RecordPlace = (u64, u32, u32);

/// The first bytes of a record as its [`RecordPlace`] has them; zeros for one that has not as many.
pub fn begins(record: &[u8]) -> (u64, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *record.first_chunk().unwrap_or(&[0; 12]);
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes([i, j, k, l]))
}

/// Sorts places by what [`begins`] says of the records, and by `compare` where that is the same.
pub fn put_in_order(places: &mut [RecordPlace], compare: impl Fn(u32, u32) -> Ordering + Sync) {
    places.par_sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| compare(a.2, b.2)));
}

/// Records that wait to be sorted.
enum WaitingRecords {
    /// Of at most [`NARROW`] bytes: numbers, the first byte highest.
    Narrow(Vec<u128>),
    /// One behind the other.
    Wide(Vec<u8>),
}

/// Bytes of a number.
const NARROW: usize = size_of::<u128>();

/// Sorts records of `width` bytes.
pub struct Sorter {
    width: usize,
    /// Records that are sorted in memory at once.
    room: usize,
    records: WaitingRecords,
    runs: Runs,
}

impl Sorter {
    /// A sorter that holds about `memory` bytes and puts what is more into files of `folder`, named after
    /// `name`. Records that are equal in all bytes come out once.
    pub fn new(width: usize, memory: u64, folder: &Path, name: &'static str) -> Self {
        let is_narrow = width <= NARROW;
        let each = if is_narrow { NARROW } else { width + size_of::<RecordPlace>() };
        let room = (memory.max(LEAST_MEMORY) as usize / each).min(u32::MAX as usize);
        Self {
            width,
            room,
            records: if is_narrow {
                WaitingRecords::Narrow(Vec::new())
            } else {
                WaitingRecords::Wide(Vec::new())
            },
            runs: Runs::new(Width::Of(width), folder, name),
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If a run cannot be written.
    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        debug_assert_eq!(record.len(), self.width);
        let held = self.held();
        if held >= self.room {
            self.spill()?;
        }
        // Doubling would take twice the memory just before it is full.
        let more = (self.room - held.min(self.room)).min(held.max(1024));
        match &mut self.records {
            WaitingRecords::Narrow(numbers) => {
                if numbers.len() == numbers.capacity() {
                    numbers.reserve_exact(more);
                }
                let mut number = [0; NARROW];
                number[..record.len()].copy_from_slice(record);
                numbers.push(u128::from_be_bytes(number));
            }
            WaitingRecords::Wide(bytes) => {
                if bytes.len() == bytes.capacity() {
                    bytes.reserve_exact(more * self.width);
                }
                bytes.extend_from_slice(record);
            }
        }
        Ok(())
    }

    /// Records that wait.
    fn held(&self) -> usize {
        match &self.records {
            WaitingRecords::Narrow(numbers) => numbers.len(),
            WaitingRecords::Wide(bytes) => bytes.len() / self.width,
        }
    }

    /// Takes what waits, in order.
    fn ordered(&mut self) -> Ordered {
        let (width, records) = (self.width, &mut self.records);
        let ordered = match records {
            WaitingRecords::Narrow(numbers) => {
                let mut numbers = std::mem::take(numbers);
                numbers.par_sort_unstable();
                numbers.dedup();
                HeldRecords::Narrow(numbers)
            }
            WaitingRecords::Wide(bytes) => {
                let bytes = std::mem::take(bytes);
                HeldRecords::Wide(order_of(&bytes, width), bytes)
            }
        };
        Ordered { width, held: ordered, next: 0, last: [0; NARROW] }
    }

    fn spill(&mut self) -> Result<()> {
        let mut ordered = self.ordered();
        self.runs.add(|put| {
            while let Some(record) = ordered.next() {
                put(record)?;
            }
            Ok(())
        })?;
        self.records = ordered.emptied();
        Ok(())
    }

    /// All records, ascending, each once.
    ///
    /// # Errors
    /// If a run cannot be written or read.
    pub fn finish(mut self) -> Result<Sorted> {
        if self.runs.paths.is_empty() {
            return Ok(Sorted::InMemory(self.ordered()));
        }
        if self.held() > 0 {
            self.spill()?;
        }
        drop(self.records);
        Ok(Sorted::Merged(self.runs.merge()?))
    }
}

/// Files of sorted records.
struct Runs {
    width: Width,
    folder: PathBuf,
    name: &'static str,
    paths: Vec<PathBuf>,
    made: usize,
}

impl Runs {
    fn new(width: Width, folder: &Path, name: &'static str) -> Self {
        Self { width, folder: folder.to_path_buf(), name, paths: Vec::new(), made: 0 }
    }

    /// Adds a run of the records that `write` puts into it.
    fn write(&mut self, write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>) -> Result<()> {
        self.made += 1;
        let path = self.folder.join(format!("{}-{}.run", self.name, self.made));
        let io = |error| Error::io(&path, error);
        let mut run = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(io)?);
        write(&mut |record| self.width.write(record, &mut run).map_err(io))?;
        run.flush().map_err(io)?;
        self.paths.push(path);
        Ok(())
    }

    /// Adds a run, and makes one run of all if there are too many.
    fn add(&mut self, write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>) -> Result<()> {
        self.write(write)?;
        if self.paths.len() < MOST_RUNS {
            return Ok(());
        }
        let mut all = self.merge()?;
        let merged = std::mem::take(&mut self.paths);
        self.write(|put| {
            while let Some(record) = all.next()? {
                put(record)?;
            }
            Ok(())
        })?;
        drop(all);
        merged.iter().try_for_each(|run| std::fs::remove_file(run).map_err(|error| Error::io(run, error)))
    }

    /// All records of them, ascending, each once.
    fn merge(&self) -> Result<Merge> {
        Merge::of_files(self.width, &self.paths)
    }
}

/// Sorts records of any lengths, none of which is the beginning of another.
pub struct LongSorter {
    /// The first eight bytes of each record that waits, where it begins, and its length.
    places: Vec<(u64, usize, usize)>,
    bytes: Vec<u8>,
    /// Bytes that may wait.
    room: usize,
    runs: Runs,
}

impl LongSorter {
    /// As [`Sorter::new`].
    pub fn new(memory: u64, folder: &Path, name: &'static str) -> Self {
        // What grows is held twice for a moment.
        let room = memory.max(LEAST_MEMORY) as usize / 2;
        Self { places: Vec::new(), bytes: Vec::new(), room, runs: Runs::new(Width::Reported, folder, name) }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If a run cannot be written.
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        let waiting = self.bytes.len() + self.places.len() * size_of::<(u64, usize, usize)>();
        if waiting >= self.room {
            self.spill()?;
        }
        let mut head = [0; 8];
        let known = record.len().min(8);
        head[..known].copy_from_slice(&record[..known]);
        self.places.push((u64::from_be_bytes(head), self.bytes.len(), record.len()));
        self.bytes.extend_from_slice(record);
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let bytes = &self.bytes;
        let record = |&(_, at, length): &(u64, usize, usize)| &bytes[at..at + length];
        self.places.par_sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| record(a).cmp(record(b))));
        self.runs.add(|put| self.places.iter().try_for_each(|place| put(record(place))))?;
        self.places.clear();
        self.bytes.clear();
        Ok(())
    }

    /// All records, ascending, each once.
    ///
    /// # Errors
    /// If a run cannot be written or read.
    pub fn finish(mut self) -> Result<Merge> {
        self.spill()?;
        self.runs.merge()
    }
}

/// The places of records of `width` bytes in ascending order, of equal ones the first place.
fn order_of(bytes: &[u8], width: usize) -> Vec<u32> {
    let record = |at: u32| &bytes[at as usize * width..][..width];
    let place = |at: usize| {
        let (first, second) = begins(record(at as u32));
        (first, second, at as u32)
    };
    let mut places: Vec<RecordPlace> = with_room(bytes.len() / width);
    places.par_extend((0..bytes.len() / width).into_par_iter().map(place));
    put_in_order(&mut places, |a, b| record(a).cmp(record(b)));
    places.dedup_by(|a, b| (a.0, a.1) == (b.0, b.1) && record(a.2) == record(b.2));
    places.into_iter().map(|place| place.2).collect()
}

enum HeldRecords {
    Narrow(Vec<u128>),
    /// The places of the records, and these.
    Wide(Vec<u32>, Vec<u8>),
}

/// Records that are held, in order.
pub struct Ordered {
    width: usize,
    held: HeldRecords,
    /// The place of the next one in the order.
    next: usize,
    /// The last one, if it is narrow.
    last: [u8; NARROW],
}

impl Ordered {
    /// The next one.
    #[inline]
    fn next(&mut self) -> Option<&[u8]> {
        /// Records that are asked for ahead.
        const AHEAD: usize = 16;
        let at = self.next;
        self.next += 1;
        match &self.held {
            HeldRecords::Narrow(numbers) => {
                self.last = numbers.get(at)?.to_be_bytes();
                Some(&self.last[..self.width])
            }
            HeldRecords::Wide(order, bytes) => {
                if let Some(&ahead) = order.get(at + AHEAD) {
                    let start = ahead as usize * self.width;
                    prefetch(bytes, start);
                    prefetch(bytes, start + self.width - 1);
                }
                Some(&bytes[*order.get(at)? as usize * self.width..][..self.width])
            }
        }
    }

    /// The memory that held them.
    fn emptied(self) -> WaitingRecords {
        match self.held {
            HeldRecords::Narrow(mut numbers) => {
                numbers.clear();
                WaitingRecords::Narrow(numbers)
            }
            HeldRecords::Wide(_, mut bytes) => {
                bytes.clear();
                WaitingRecords::Wide(bytes)
            }
        }
    }
}

/// Records in order.
pub enum Sorted {
    /// All of them fitted.
    InMemory(Ordered),
    /// They come from runs.
    Merged(Merge),
}

impl Sorted {
    /// The next record.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        match self {
            Self::InMemory(ordered) => Ok(ordered.next()),
            Self::Merged(merge) => merge.next(),
        }
    }
}

/// The length of a run's records.
#[derive(Clone, Copy)]
enum Width {
    /// All as long.
    Of(usize),
    /// In four bytes before each.
    Reported,
}

impl Width {
    fn write(self, record: &[u8], to: &mut impl Write) -> std::io::Result<()> {
        if matches!(self, Self::Reported) {
            let length = u32::try_from(record.len()).map_err(|_| std::io::ErrorKind::InvalidData)?;
            to.write_all(&length.to_le_bytes())?;
        }
        to.write_all(record)
    }
}

/// A list of records that is read from its beginning.
struct SortedRun {
    width: Width,
    record: Vec<u8>,
    source: Box<dyn Read + Send>,
    path: PathBuf,
}

impl SortedRun {
    /// Reads the next record; false at the end.
    fn advance(&mut self) -> Result<bool> {
        if matches!(self.width, Width::Reported) {
            let mut length = [0; 4];
            if !fill(&mut length, &mut *self.source, &self.path)? {
                return Ok(false);
            }
            self.record.resize(u32::from_le_bytes(length) as usize, 0);
        }
        fill(&mut self.record, &mut *self.source, &self.path)
    }
}

/// Reads as many bytes; false at the end of the source.
fn fill(bytes: &mut [u8], source: &mut dyn Read, path: &Path) -> Result<bool> {
    let mut filled = 0;
    while filled < bytes.len() {
        match source.read(&mut bytes[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(Error::io(path, std::io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => filled += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(path, error)),
        }
    }
    Ok(true)
}

impl Ord for SortedRun {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives its greatest.
        other.record.cmp(&self.record)
    }
}

impl PartialOrd for SortedRun {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortedRun {
    fn eq(&self, other: &Self) -> bool {
        self.record == other.record
    }
}

impl Eq for SortedRun {}

/// A run to merge, and its path for messages.
pub type MergeSource = (PathBuf, Box<dyn Read + Send>);

/// Merges lists of records that ascend.
pub struct Merge {
    heap: BinaryHeap<SortedRun>,
    last: Vec<u8>,
    begun: bool,
}

impl Merge {
    fn of_files(width: Width, paths: &[PathBuf]) -> Result<Self> {
        let open = |path: &PathBuf| {
            let file = File::open(path).map_err(|error| Error::io(path, error))?;
            Ok((path.clone(), Box::new(BufReader::with_capacity(RUN_BUFFER, file)) as Box<dyn Read + Send>))
        };
        Self::of_runs(width, paths.iter().map(open).collect::<Result<Vec<_>>>()?)
    }

    /// Merges what these sources hold, each ascending, of `width` bytes a record; the paths are for messages.
    ///
    /// # Errors
    /// If a source cannot be read.
    pub fn of(width: usize, sources: Vec<MergeSource>) -> Result<Self> {
        Self::of_runs(Width::Of(width), sources)
    }

    fn of_runs(width: Width, sources: Vec<MergeSource>) -> Result<Self> {
        let mut heap = BinaryHeap::with_capacity(sources.len());
        for (path, source) in sources {
            let record = vec![0; if let Width::Of(width) = width { width } else { 0 }];
            let mut run = SortedRun { width, record, source, path };
            if run.advance()? {
                heap.push(run);
            }
        }
        Ok(Self { heap, last: Vec::new(), begun: false })
    }

    /// The next record; equal ones come once.
    ///
    /// # Errors
    /// If a source cannot be read.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        loop {
            let Some(mut first) = self.heap.peek_mut() else { return Ok(None) };
            let is_new = !self.begun || first.record != self.last;
            if is_new {
                self.last.clear();
                self.last.extend_from_slice(&first.record);
                self.begun = true;
            }
            if !first.advance()? {
                PeekMut::pop(first);
            }
            if is_new {
                break;
            }
        }
        Ok(Some(&self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip_core::hash::SplitMix64;

    fn all(mut sorted: Sorted) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        while let Some(record) = sorted.next().unwrap() {
            records.push(record.to_vec());
        }
        records
    }

    #[test]
    fn any_memory_gives_the_same_order() {
        let mut rng = SplitMix64::new(5);
        let folder = tempfile::tempdir().unwrap();
        for (width, n, range) in [(9, 0, 256), (1, 70, 256), (9, 4000, 3), (14, 3000, 256), (25, 3000, 2)] {
            let records: Vec<Vec<u8>> =
                (0..n).map(|_| (0..width).map(|_| rng.below(range) as u8).collect()).collect();
            let mut expected = records.clone();
            expected.sort();
            expected.dedup();
            // From all in memory to so many runs that some are merged beforehand.
            for room in [usize::MAX, 999, 17] {
                let mut sorter = Sorter::new(width, 1 << 30, folder.path(), "test");
                sorter.room = room.min(sorter.room);
                records.iter().for_each(|record| sorter.push(record).unwrap());
                assert!(all(sorter.finish().unwrap()) == expected, "width {width}, {room}");
            }
        }
    }

    #[test]
    fn a_list_that_ends_within_a_record_is_an_error() {
        let sources: Vec<(PathBuf, Box<dyn Read + Send>)> =
            vec![("a".into(), Box::new(&[1u8, 2, 3, 4][..])), ("b".into(), Box::new(&[1u8, 3, 9][..]))];
        let mut merge = Merge::of(2, sources).unwrap();
        assert_eq!(merge.next().unwrap(), Some(&[1, 2][..]));
        assert!(merge.next().is_err());
    }

    #[test]
    fn records_of_any_lengths_ascend() {
        let mut rng = SplitMix64::new(6);
        let folder = tempfile::tempdir().unwrap();
        // Ended by a zero, none begins another.
        let record = |_| (0..rng.below(30)).map(|_| 1 + rng.below(3) as u8).chain([0]).collect();
        let records: Vec<Vec<u8>> = (0..3000).map(record).collect();
        let mut expected = records.clone();
        expected.sort();
        expected.dedup();
        // From one run to so many that some are merged beforehand.
        for room in [usize::MAX, 9999, 300] {
            let mut sorter = LongSorter::new(1 << 20, folder.path(), "test");
            sorter.room = room;
            records.iter().for_each(|record| sorter.push(record).unwrap());
            let (mut merge, mut got) = (sorter.finish().unwrap(), Vec::new());
            while let Some(record) = merge.next().unwrap() {
                got.push(record.to_vec());
            }
            assert!(got == expected, "{room}");
        }
        let mut none = LongSorter::new(1 << 20, folder.path(), "none").finish().unwrap();
        assert_eq!(none.next().unwrap(), None);
    }
}
