//! Sorts records by their bytes, more than memory holds. They are sorted in memory if they fit, and otherwise in
//! *runs*: sorted files on disk that are merged.

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
/// The least bytes of memory of a sorter.
pub const LEAST_MEMORY: u64 = 1 << 20;

/// Bytes of memory of a merge of as many runs as are merged at once.
pub const MERGE_MEMORY: u64 = (MOST_RUNS * RUN_BUFFER) as u64;

/// The length of a record, which stands before it in a run. A record of 4 GiB or more is an error.
pub fn length_of(record: &[u8]) -> Result<u32> {
    u32::try_from(record.len()).map_err(|_| {
        Error::parameter("record", format!("of {} bytes", record.len()), "one of less than 4 GiB")
    })
}

/// Records that are held.
#[derive(Default)]
struct HeldRecords {
    /// Of each record its first eight bytes, which mostly decide, where it begins, and its length.
    places: Vec<(u64, usize, u32)>,
    bytes: Vec<u8>,
}

impl HeldRecords {
    fn push(&mut self, record: &[u8]) -> Result<()> {
        let mut head = [0; 8];
        let known = record.len().min(8);
        head[..known].copy_from_slice(&record[..known]);
        self.places.push((u64::from_be_bytes(head), self.bytes.len(), length_of(record)?));
        self.bytes.extend_from_slice(record);
        Ok(())
    }

    /// The record in a place.
    fn get(&self, place: usize) -> Option<&[u8]> {
        self.places.get(place).map(|&(_, at, length)| &self.bytes[at..][..length as usize])
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let record = |&(_, at, length): &(u64, usize, u32)| &bytes[at..][..length as usize];
        self.places.par_sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| record(a).cmp(record(b))));
    }
}

/// Sorts records: all of one length, or of any lengths where none is the beginning of another. Records that are equal
/// in all bytes come out once.
pub struct Sorter {
    held: HeldRecords,
    /// Bytes that may be held.
    room: usize,
    folder: PathBuf,
    name: &'static str,
    /// Files of sorted records.
    runs: Vec<PathBuf>,
    made: usize,
}

impl Sorter {
    /// A sorter that holds about `memory` bytes, and puts the rest into files in `folder` whose names begin with
    /// `name`. Sorters of one folder need names of their own.
    pub fn new(memory: u64, folder: &Path, name: &'static str) -> Self {
        // What grows is held twice for a moment.
        let (held, room) = (HeldRecords::default(), memory.max(LEAST_MEMORY) as usize / 2);
        Self { held, room, folder: folder.to_path_buf(), name, runs: Vec::new(), made: 0 }
    }

    /// Adds a record, in any order.
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        if self.held.bytes.len() + size_of_val(&self.held.places[..]) >= self.room {
            self.spill()?;
        }
        self.held.push(record)
    }

    /// Puts what is held into a run, and makes one run of all if there are too many.
    fn spill(&mut self) -> Result<()> {
        let mut held = std::mem::take(&mut self.held);
        held.sort();
        self.write(|put| (0..).map_while(|place| held.get(place)).try_for_each(put))?;
        held.places.clear();
        held.bytes.clear();
        self.held = held;
        if self.runs.len() < MOST_RUNS {
            return Ok(());
        }
        let (mut all, merged) = (self.merge()?, std::mem::take(&mut self.runs));
        self.write(|put| {
            while let Some(record) = all.next()? {
                put(record)?;
            }
            Ok(())
        })?;
        drop(all);
        merged.iter().try_for_each(|run| std::fs::remove_file(run).map_err(|error| Error::io(run, error)))
    }

    /// Adds a run of the records that `write` puts into it, each behind its length in four bytes.
    fn write(&mut self, write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>) -> Result<()> {
        self.made += 1;
        let path = self.folder.join(format!("{}-{}.run", self.name, self.made));
        let io = |error| Error::io(&path, error);
        let mut run = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(io)?);
        write(&mut |record| {
            run.write_all(&(record.len() as u32).to_le_bytes())
                .and_then(|()| run.write_all(record))
                .map_err(io)
        })?;
        run.flush().map_err(io)?;
        self.runs.push(path);
        Ok(())
    }

    fn merge(&self) -> Result<Merge> {
        let open = |path: &PathBuf| {
            let file = File::open(path).map_err(|error| Error::io(path, error))?;
            let file = Box::new(BufReader::with_capacity(RUN_BUFFER, file)) as Box<dyn Read + Send>;
            Ok((path.clone(), file))
        };
        Merge::of_any_length(self.runs.iter().map(open).collect::<Result<_>>()?)
    }

    /// All records, ascending, each once.
    pub fn finish(mut self) -> Result<Merge> {
        if self.runs.is_empty() {
            self.held.sort();
            let source = RecordSource::Held(self.held, 0);
            return Merge::of_runs(vec![SortedRun { path: self.folder, record: Vec::new(), source }]);
        }
        self.spill()?;
        self.held = HeldRecords::default();
        self.merge()
    }
}

/// A source of ascending records.
enum RecordSource {
    /// Records in memory, and the place of the next one.
    Held(HeldRecords, usize),
    /// A list of records of one length.
    Fixed(Box<dyn Read + Send>),
    /// A list of records, each behind its length.
    Behind(Box<dyn Read + Send>),
}

/// A list of records that is read from its beginning.
struct SortedRun {
    path: PathBuf,
    record: Vec<u8>,
    source: RecordSource,
}

impl SortedRun {
    /// Reads the next record; false at the end.
    fn advance(&mut self) -> Result<bool> {
        let Self { path, record, source } = self;
        match source {
            RecordSource::Held(held, next) => {
                let Some(found) = held.get(*next) else { return Ok(false) };
                record.clear();
                record.extend_from_slice(found);
                *next += 1;
                Ok(true)
            }
            RecordSource::Fixed(list) => fill(record, &mut **list, path),
            RecordSource::Behind(list) => {
                let mut length = [0; 4];
                if !fill(&mut length, &mut **list, path)? {
                    return Ok(false);
                }
                record.resize(u32::from_le_bytes(length) as usize, 0);
                fill(record, &mut **list, path)
            }
        }
    }
}

/// Fills `bytes` from `source`; false if the source is at its end.
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
        // The heap gives its greatest, and the least record is wanted.
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

/// Records to merge, which ascend, and the path of their file for messages.
pub type MergeSource = (PathBuf, Box<dyn Read + Send>);

/// The records of several sources, merged: they ascend, and equal ones come once. A single source may be in any order,
/// and keeps it.
pub struct Merge {
    heap: BinaryHeap<SortedRun>,
    last: Vec<u8>,
    begun: bool,
}

impl Merge {
    /// Merges sources whose records have `width` bytes.
    pub fn of(width: usize, sources: Vec<MergeSource>) -> Result<Self> {
        let run =
            |(path, list)| SortedRun { path, record: vec![0; width], source: RecordSource::Fixed(list) };
        Self::of_runs(sources.into_iter().map(run).collect())
    }

    /// Merges sources whose records have any lengths, each behind its length in four bytes, the least byte first.
    pub fn of_any_length(sources: Vec<MergeSource>) -> Result<Self> {
        let run = |(path, list)| SortedRun { path, record: Vec::new(), source: RecordSource::Behind(list) };
        Self::of_runs(sources.into_iter().map(run).collect())
    }

    fn of_runs(runs: Vec<SortedRun>) -> Result<Self> {
        let mut heap = BinaryHeap::with_capacity(runs.len());
        for mut run in runs {
            if run.advance()? {
                heap.push(run);
            }
        }
        Ok(Self { heap, last: Vec::new(), begun: false })
    }

    /// The next record; `None` behind the last one.
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

    #[test]
    fn any_memory_gives_the_same_order() {
        let mut rng = SplitMix64::new(5);
        let folder = tempfile::tempdir().unwrap();
        let mut lists: Vec<Vec<Vec<u8>>> = Vec::new();
        for (width, n, range) in [(9, 0, 256), (1, 70, 256), (9, 4000, 3), (14, 3000, 256), (25, 3000, 2)] {
            let mut record = |_| (0..width).map(|_| rng.below(range) as u8).collect();
            lists.push((0..n).map(&mut record).collect());
        }
        // Ended by a zero, none begins another.
        let of_any_length = |_| (0..rng.below(30)).map(|_| 1 + rng.below(3) as u8).chain([0]).collect();
        lists.push((0..3000).map(of_any_length).collect());
        for records in lists {
            let mut expected = records.clone();
            expected.sort();
            expected.dedup();
            // From all in memory to so many runs that some are merged beforehand.
            for room in [usize::MAX, 9999, 300] {
                let mut sorter = Sorter::new(1 << 30, folder.path(), "test");
                sorter.room = room;
                records.iter().for_each(|record| sorter.push(record).unwrap());
                let (mut merge, mut got) = (sorter.finish().unwrap(), Vec::new());
                while let Some(record) = merge.next().unwrap() {
                    got.push(record.to_vec());
                }
                assert!(got == expected, "{} records, {room}", records.len());
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
