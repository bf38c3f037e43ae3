//! Records of one width in order of their bytes, more than memory holds: sorted in memory as far as they fit,
//! and otherwise in runs on disk that are merged.

use crate::error::{Error, Result};
use rayon::prelude::*;
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

/// What a merge holds in memory besides.
pub const MERGE_MEMORY: u64 = (MOST_RUNS * RUN_BUFFER) as u64;

/// Where a record stands, with its first bytes, which mostly decide.
type Place = (u64, u32, u32);

/// Sorts records of `width` bytes.
pub struct Sorter {
    width: usize,
    /// Records that are sorted in memory at once.
    room: usize,
    records: Vec<u8>,
    folder: PathBuf,
    name: &'static str,
    runs: Vec<PathBuf>,
    made: usize,
}

impl Sorter {
    /// A sorter that holds about `memory` bytes and puts what is more into files of `folder`, named after
    /// `name`. Records that are equal in all bytes come out once.
    pub fn new(width: usize, memory: u64, folder: &Path, name: &'static str) -> Self {
        let each = width + size_of::<Place>();
        let room = (memory.max(LEAST_MEMORY) as usize / each).min(u32::MAX as usize);
        Self {
            width,
            room,
            records: Vec::new(),
            folder: folder.to_path_buf(),
            name,
            runs: Vec::new(),
            made: 0,
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If a run cannot be written.
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        debug_assert_eq!(record.len(), self.width);
        if self.records.len() / self.width >= self.room {
            self.spill()?;
        }
        // Doubling would take twice the memory just before it is full.
        if self.records.len() == self.records.capacity() {
            let now = self.records.len() / self.width;
            self.records.reserve_exact((self.room - now).min(now.max(1024)) * self.width);
        }
        self.records.extend_from_slice(record);
        Ok(())
    }

    /// Puts what is in memory in order.
    fn order(&self) -> Vec<u32> {
        let head = |at: usize| {
            let record = &self.records[at * self.width..][..self.width];
            let mut first = [0; 12];
            let n = record.len().min(12);
            first[..n].copy_from_slice(&record[..n]);
            let [a, b, c, d, e, f, g, h, i, j, k, l] = first;
            (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes([i, j, k, l]), at as u32)
        };
        let mut places: Vec<Place> = (0..self.records.len() / self.width).into_par_iter().map(head).collect();
        let rest = |place: &Place| &self.records[place.2 as usize * self.width..][..self.width];
        places.par_sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| rest(a).cmp(rest(b))));
        places.dedup_by(|a, b| (a.0, a.1) == (b.0, b.1) && rest(a) == rest(b));
        places.into_iter().map(|place| place.2).collect()
    }

    fn record(&self, at: u32) -> &[u8] {
        &self.records[at as usize * self.width..][..self.width]
    }

    fn next_run(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.join(format!("{}-{}.run", self.name, self.made))
    }

    fn spill(&mut self) -> Result<()> {
        let path = self.next_run();
        let io = |error| Error::io(&path, error);
        let order = self.order();
        let mut run = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(io)?);
        order.into_iter().try_for_each(|at| run.write_all(self.record(at))).map_err(io)?;
        run.flush().map_err(io)?;
        self.records.clear();
        self.runs.push(path);
        if self.runs.len() >= MOST_RUNS {
            let path = self.next_run();
            let io = |error| Error::io(&path, error);
            let runs = std::mem::take(&mut self.runs);
            let mut merged = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(io)?);
            let mut all = Merge::of_files(self.width, &runs)?;
            while let Some(record) = all.next()? {
                merged.write_all(record).map_err(io)?;
            }
            merged.flush().map_err(io)?;
            drop(all);
            for run in runs {
                std::fs::remove_file(&run).map_err(|error| Error::io(&run, error))?;
            }
            self.runs.push(path);
        }
        Ok(())
    }

    /// All records, ascending, each once.
    ///
    /// # Errors
    /// If a run cannot be written or read.
    pub fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            let order = self.order();
            return Ok(Sorted::InMemory { sorter: self, order, next: 0 });
        }
        if !self.records.is_empty() {
            self.spill()?;
        }
        self.records = Vec::new();
        Ok(Sorted::Merged(Merge::of_files(self.width, &self.runs)?))
    }
}

/// Records in order.
pub enum Sorted {
    /// All of them fitted.
    InMemory {
        /// What holds them.
        sorter: Sorter,
        /// Their order.
        order: Vec<u32>,
        /// The next one.
        next: usize,
    },
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
            Self::InMemory { sorter, order, next } => {
                let Some(&at) = order.get(*next) else { return Ok(None) };
                *next += 1;
                Ok(Some(sorter.record(at)))
            }
            Self::Merged(merge) => merge.next(),
        }
    }
}

/// A list of records that is read from its beginning.
struct Run {
    record: Vec<u8>,
    source: Box<dyn Read + Send>,
    path: PathBuf,
}

impl Run {
    /// Reads the next record; false at the end.
    fn advance(&mut self) -> Result<bool> {
        let mut filled = 0;
        while filled < self.record.len() {
            match self.source.read(&mut self.record[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(Error::io(&self.path, std::io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => filled += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&self.path, error)),
            }
        }
        Ok(true)
    }
}

impl Ord for Run {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives its greatest.
        other.record.cmp(&self.record)
    }
}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.record == other.record
    }
}

impl Eq for Run {}

/// Merges lists of records that ascend.
pub struct Merge {
    heap: BinaryHeap<Run>,
    last: Vec<u8>,
    begun: bool,
}

impl Merge {
    fn of_files(width: usize, paths: &[PathBuf]) -> Result<Self> {
        let open = |path: &PathBuf| {
            let file = File::open(path).map_err(|error| Error::io(path, error))?;
            Ok((path.clone(), Box::new(BufReader::with_capacity(RUN_BUFFER, file)) as Box<dyn Read + Send>))
        };
        Self::of(width, paths.iter().map(open).collect::<Result<Vec<_>>>()?)
    }

    /// Merges what these sources hold, each ascending, of `width` bytes a record; the paths are for messages.
    ///
    /// # Errors
    /// If a source cannot be read.
    pub fn of(width: usize, sources: Vec<(PathBuf, Box<dyn Read + Send>)>) -> Result<Self> {
        let mut heap = BinaryHeap::with_capacity(sources.len());
        for (path, source) in sources {
            let mut run = Run { record: vec![0; width], source, path };
            if run.advance()? {
                heap.push(run);
            }
        }
        Ok(Self { heap, last: vec![0; width], begun: false })
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
                self.last.copy_from_slice(&first.record);
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
    use flipside_core::hash::SplitMix64;

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
}
