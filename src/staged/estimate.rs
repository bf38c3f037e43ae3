//! An estimate of the memory and disk that a run takes, before it begins: from the sizes of its files and their first
//! documents. All sizes are in bytes.

use super::layout::BodyLayout;
use crate::corpus::{self, IN_MEMORY, Input, Peeked, ReadOptions, peek};
use crate::pipeline::Ignored;
use serde::{Deserialize, Serialize};
use simflip_core::collection::Keeping;
use simflip_core::edits;
use simflip_core::settings::Settings;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// The expected number of documents of some files, and their mean sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Number of documents.
    pub documents: u64,
    /// Documents for each stored byte.
    density: f64,
    /// Bytes of a document's id and URL, on average.
    pub names: f64,
    /// Their bytes when compressed.
    pub packed_names: f64,
    /// Bytes of a document's text, on average.
    pub text: f64,
    /// Threads that work on them.
    threads: usize,
    /// Bytes of memory that readers of the files hold.
    read_ahead: u64,
    /// Number of files.
    files: u64,
    /// Bytes of memory of the boilerplate, while it is counted or read.
    boilerplate: u64,
}

/// The bytes that the stages of a run take on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Files of sketches.
    pub sketches: f64,
    /// Files of names.
    pub names: f64,
    /// Edges, pairs and assignments.
    pub joined: f64,
    /// The names in the form in which tables look them up, once all is clustered.
    pub looked_up: f64,
}

impl Disk {
    /// The most bytes that are on disk at once.
    pub fn most(&self) -> f64 {
        self.sketches + self.names + self.joined + self.looked_up
    }
}

/// Assumptions about documents that are not known before they are joined. The generated crawl whose rows are in
/// `experiments/results/stages` has 0.19 pairs a document, and a fifth of its documents are removed.
pub mod usual {
    /// Of all documents, the share of those that have the hash of one band in common with others.
    pub const SHARED: f64 = 0.2;
    /// Of all documents, the share of those that have the hash of any band in common with others.
    pub const SHARED_IN_ANY: f64 = 0.6;
    /// Edges a document, over all bands.
    pub const PAIRS: f64 = 0.25;
    /// The share of the text that is removed.
    pub const REMOVED: f64 = 0.2;
}

/// Bytes of memory that a run of any size takes.
pub const HELD_ANYWAY: u64 = 12 << 20;
/// Bytes that a thread takes besides, if records are short: its buffers, and memory that it keeps.
const HELD_BY_THREAD: u64 = 4 << 20;
/// Bytes that a thread takes beside a long record, which is in memory several times.
const BUFFERS: u64 = 3 << 20;
/// Bytes of memory of an input file: its path, the outcome of reading it, and its row in the report.
const FILE: u64 = 1 << 10;
/// Bytes of memory of an input of a run on disk, which also has a mark.
const SKETCHED_INPUT: u64 = 3 << 9;
/// Bytes of memory of a file of sketches: its header and its layout.
const SKETCHED_FILE: u64 = 2 << 10;

/// Bytes of memory of `files` files of sketches, of `inputs` inputs.
pub fn sketched_bytes(files: usize, inputs: usize) -> u64 {
    files as u64 * SKETCHED_FILE + inputs as u64 * SKETCHED_INPUT
}

/// Bytes of a feature of a document that is kept: its number, its count and its hash. The hash is reckoned as if no
/// other document had it: in the lists of each thread, in the merged list, and in the tables by which it is found.
const FEATURE: f64 = 62.0;
/// Bytes of the least tables of features.
const FEATURE_TABLES: u64 = 12 << 20;
/// Bytes of a line that is counted for boilerplate, of some dozen bytes itself, and of all of them at most.
const BOILERPLATE: (f64, u64) = (40.0 / 12.0, 640 << 20);
/// The number of copies of a record that is only copied: it has no features.
const WHILE_COPIED: u64 = 4;
/// Bytes of a document's row in a table of documents, beside its names.
const ROW: f64 = 16.0;
/// Bytes of a document while it is sketched, beside its sketches and names: its row and its place.
const NAMED: f64 = 24.0;
/// Bytes of memory of each kept document of a Parquet or Arrow file while these are written: their list may have grown
/// by half.
pub const KEPT: f64 = 60.0;
/// The least bytes of documents that each thread holds while it sketches.
pub const LEAST_ROOM: u64 = 1 << 20;
/// Bytes of what is known of a document's text.
const FACTS: f64 = 28.0;

impl Estimate {
    /// The estimate for some files, by the first documents of up to eight of them. Parquet and Arrow files say how many
    /// rows they have.
    pub fn of(inputs: &[Input], options: &ReadOptions) -> Self {
        let Peeked { documents, stored_bytes, name_bytes, packed_name_bytes, text_bytes } =
            peek(inputs, options);
        let each = |bytes: u64| bytes as f64 / documents.max(1) as f64;
        let density = documents as f64 / stored_bytes.max(1) as f64;
        let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
        let [names, packed_names, text] = [name_bytes, packed_name_bytes, text_bytes].map(each);
        Self {
            density,
            read_ahead: read_ahead(inputs.iter(), options.threads),
            files: inputs.len() as u64,
            ..Self::new((stored as f64 * density) as u64, [names, packed_names], text, options.threads)
        }
    }

    /// The estimate for `documents` documents and `threads` threads. On average, the ID and the URL of a document have
    /// `names` bytes, `packed_names` when compressed, and its text has `text`.
    pub fn new(documents: u64, [names, packed_names]: [f64; 2], text: f64, threads: usize) -> Self {
        let (density, read_ahead, files, boilerplate) = (0.0, 0, 0, 0);
        Self { documents, density, names, packed_names, text, threads, read_ahead, files, boilerplate }
    }

    /// The estimate with the memory of boilerplate: of lines while they are counted, or of a file as it is read and as
    /// it is held.
    #[must_use]
    pub fn with_boilerplate(self, ignored: &Ignored) -> Self {
        let (each, most) = BOILERPLATE;
        let boilerplate = match ignored {
            Ignored::None => 0,
            Ignored::Counted(_) => ((self.documents as f64 * self.text * each) as u64).min(most),
            Ignored::OfFile(path) => 4 * fs::metadata(path).map_or(0, |found| found.len()),
        };
        Self { boilerplate, ..self }
    }

    /// Bytes of documents that each thread may hold when files are sketched in `memory` bytes. The error is the least
    /// memory, if that is too little: a plan asks with 0 for it. Boilerplate does not count here.
    pub fn room(&self, memory: u64) -> Result<u64, u64> {
        room(memory, self.threads, self.read_ahead, 0)
    }

    /// The memory of threads for documents while these files are sketched in `memory` bytes; see [`Rooms::new`].
    ///
    /// # Errors
    /// The least bytes of memory, if that is too little.
    pub fn rooms(&self, memory: u64, is_promised: bool) -> Result<Rooms, u64> {
        Rooms::new(memory, self.threads, self.read_ahead + self.boilerplate, is_promised)
    }

    /// Bytes of memory that sketching these files is expected to take, of `memory` bytes that it may take.
    pub fn sketching(&self, settings: &Settings, memory: u64) -> u64 {
        let sketches = sketch_bytes(settings) as f64 + self.hash_bytes(settings);
        let documents = self.documents as f64 * (sketches + NAMED + self.names);
        let held = beside_documents(self.threads, held_by_thread(0, IN_MEMORY), self.read_ahead);
        let room = self.room(memory).unwrap_or(LEAST_ROOM);
        held + (documents as u64).min(self.threads as u64 * room)
    }

    /// Bytes of memory that writing kept documents takes, which are copied one after the other, and `held` bytes
    /// besides.
    pub fn writing(&self, held: u64) -> u64 {
        writing_bytes(self.threads, 0, self.read_ahead) + held
    }

    /// Bytes of memory that writing the kept documents of `files` Parquet or Arrow files at once is expected to take,
    /// and `held` bytes besides. `largest` is the largest of them. The documents of a file are gathered before they are
    /// written.
    pub fn keeping(&self, largest: &Input, files: usize, held: u64) -> u64 {
        let files = files.clamp(1, self.threads.max(1)) as u64;
        let documents = largest.stored_bytes() as f64 * self.density * files as f64;
        self.writing(held) + (documents * KEPT) as u64 + self.threads as u64 * copied_by_thread(largest)
    }

    /// The bytes on disk that stages take for these documents.
    pub fn disk(&self, settings: &Settings) -> Disk {
        /// Bytes of a document's place, compressed, and as it is.
        const PLACE: [f64; 2] = [4.0, 20.0];
        let documents = self.documents as f64;
        Disk {
            sketches: documents * (sketch_bytes(settings) as f64 + self.hash_bytes(settings)),
            names: documents * (self.packed_names + PLACE[0]),
            joined: documents * 16.0 * usual::PAIRS,
            looked_up: documents * (self.names + PLACE[1]),
        }
    }

    /// Bytes that a run in memory is expected to hold at most. Near pairs count as few as ordinary documents have them:
    /// nothing says beforehand how many documents are of one template.
    pub fn in_memory(&self, settings: &Settings) -> u64 {
        let keeping = Keeping::of(settings);
        let tables = if keeping == Keeping::Features { FEATURE_TABLES } else { 0 };
        let kept = match keeping {
            Keeping::Features => FEATURE * self.features(),
            _ if settings.sketches.keyed().is_some() => {
                // The words, and a hash of each.
                let words =
                    if settings.keeps_words() { 1.7 * self.text.min(edits::COMPARED as f64) } else { 0.0 };
                sketch_bytes(settings) as f64 + self.hash_bytes(settings) + words
            }
            _ => 80.0,
        };
        // Later, what is joined: order, buckets and edges; of others hashes.
        let joined = match settings.sketches.keyed() {
            Some(_) => 40.0,
            // Order, buckets and edges, and the keys that follow from hashes.
            None => settings.block_tables().map_or(250.0, |blocks| 80.0 + 4.0 * f64::from(blocks.tables)),
        };
        let read = ROW + self.names + FACTS + kept;
        let documents = |each: f64| (self.documents as f64 * each) as u64;
        let most = (self.read_ahead + documents(read)).max(documents(read + joined));
        let beside = self.files * FILE + self.boilerplate;
        beside_documents(self.threads, held_by_thread(0, IN_MEMORY), beside) + tables + most
    }

    /// Features of a document: a word has six bytes.
    fn features(&self) -> f64 {
        self.text / 6.0
    }

    /// Bytes of the hashes of a document's features, on average; 0 where they are not kept.
    pub fn hash_bytes(&self, settings: &Settings) -> f64 {
        if settings.keeps_feature_hashes() { 4.0 * self.features() } else { 0.0 }
    }
}

/// Bytes of memory that these files take while `threads` threads read them: each has one file open at most, and
/// something is known of all.
pub fn read_ahead<'a>(inputs: impl ExactSizeIterator<Item = &'a Input>, threads: usize) -> u64 {
    let (open, files) = (threads.min(inputs.len()) as u64, inputs.len() as u64);
    open * inputs.map(Input::read_ahead).max().unwrap_or(0) + files * FILE
}

/// True if a record of `record` bytes is so long that a thread holds more memory for it than for short ones.
pub fn is_long(record: u64) -> bool {
    held_by_thread(record, IN_MEMORY) > HELD_BY_THREAD
}

/// True if a run that would hold `held` bytes in memory goes on disk: if that is more than a quarter of the `memory`
/// bytes that it may take. It decides where the user names no memory. The first documents of a file may say little of
/// the rest, and a large run is as fast on disk.
pub fn is_large(held: u64, memory: u64) -> bool {
    held > memory / 4
}

/// Bytes of memory of a thread that copies rows of the Parquet or Arrow file `input`: a row group as it is written, and
/// values as they are read.
pub fn copied_by_thread(input: &Input) -> u64 {
    2 * input.stored_bytes().min(corpus::GROUP_BYTES)
}

/// Bytes of memory that `threads` threads take while they write the kept documents of files. The longest record has
/// `longest` bytes, and readers hold `read_ahead` bytes.
pub fn writing_bytes(threads: usize, longest: u64, read_ahead: u64) -> u64 {
    beside_documents(threads, held_by_thread(longest, WHILE_COPIED), read_ahead)
}

/// Bytes of memory of a run beside documents: of threads that hold `by_thread` bytes each, and of readers.
fn beside_documents(threads: usize, by_thread: u64, read_ahead: u64) -> u64 {
    HELD_ANYWAY + threads as u64 * by_thread + read_ahead
}

/// Bytes of memory of a thread where the longest record has `longest` bytes and is in memory `times` times.
fn held_by_thread(longest: u64, times: u64) -> u64 {
    longest.saturating_mul(times).saturating_add(BUFFERS).max(HELD_BY_THREAD)
}

/// The memory of threads for documents that they sketch: *room*. The buffers that records are read in take the rest, so
/// a longer record leaves less room to all threads.
#[derive(Debug)]
pub struct Rooms {
    memory: u64,
    threads: usize,
    read_ahead: u64,
    is_promised: bool,
    /// Bytes that a record may have.
    most: u64,
    /// Bytes of the longest record so far.
    longest: AtomicU64,
    /// Bytes of documents that each thread may hold.
    room: AtomicU64,
}

impl Rooms {
    /// Shares `memory` bytes among threads, and `read_ahead` bytes that readers hold, where no record was long yet.
    /// Memory that the user names is promised: it is not exceeded. Otherwise each thread has [`LEAST_ROOM`] at least.
    ///
    /// # Errors
    /// The least bytes of memory, if it is promised and too little.
    pub fn new(memory: u64, threads: usize, read_ahead: u64, is_promised: bool) -> Result<Self, u64> {
        let longest = (HELD_BY_THREAD - BUFFERS) / IN_MEMORY;
        let rooms = Self {
            memory,
            threads,
            read_ahead,
            is_promised,
            most: if is_promised { longest_of(memory, threads, read_ahead) } else { u64::MAX },
            longest: longest.into(),
            room: AtomicU64::new(u64::MAX),
        };
        rooms.make(longest)?;
        Ok(rooms)
    }

    /// Gives each thread `bytes` bytes, however long records are.
    #[cfg(test)]
    pub fn of(bytes: u64) -> Self {
        let (longest, room) = (u64::MAX.into(), bytes.into());
        Self { memory: 0, threads: 1, read_ahead: 0, is_promised: false, most: u64::MAX, longest, room }
    }

    /// Bytes of documents that each thread may hold.
    pub fn bytes(&self) -> u64 {
        self.room.load(Ordering::Relaxed)
    }

    /// The bytes of memory that are shared.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes that a record may have: for longer ones [`hear`](Self::hear) is an error.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Takes notice of a record of `record` bytes, which leaves less room if none was as long before.
    ///
    /// # Errors
    /// The bytes of memory that such records take, if it is more than there is.
    pub fn hear(&self, record: u64) -> Result<(), u64> {
        // Nearly all records are no longer than one before.
        if record <= self.longest.load(Ordering::Relaxed)
            || self.longest.fetch_max(record, Ordering::Relaxed) >= record
        {
            return Ok(());
        }
        self.make(record)
    }

    fn make(&self, longest: u64) -> Result<(), u64> {
        let room = match room(self.memory, self.threads, self.read_ahead, longest) {
            Err(_) if !self.is_promised => LEAST_ROOM,
            room => room?,
        };
        // Another thread may have made room for a longer one meanwhile.
        self.room.fetch_min(room, Ordering::Relaxed);
        Ok(())
    }
}

/// Bytes of documents that each thread may hold when files are sketched in `memory` bytes. They leave room for readers
/// and for buffers of the longest record. The error is the least memory, if there is too little.
fn room(memory: u64, threads: usize, read_ahead: u64, longest: u64) -> Result<u64, u64> {
    let held = beside_documents(threads.max(1), held_by_thread(longest, IN_MEMORY), read_ahead);
    let threads = threads.max(1) as u64;
    // Lists grow in parts of memory of their own, which leave gaps: seen up to a third.
    match memory.saturating_sub(held) / threads * 2 / 3 {
        room @ LEAST_ROOM.. => Ok(room),
        _ => Err(held + threads * LEAST_WITH_GAPS),
    }
}

/// Bytes of memory that must be left for [`LEAST_ROOM`], with gaps between lists.
const LEAST_WITH_GAPS: u64 = LEAST_ROOM.div_ceil(2) * 3;

/// Bytes of the longest record for which [`room`] is enough.
fn longest_of(memory: u64, threads: usize, read_ahead: u64) -> u64 {
    let left = memory.saturating_sub(HELD_ANYWAY + read_ahead) / threads.max(1) as u64;
    left.saturating_sub(LEAST_WITH_GAPS + BUFFERS) / IN_MEMORY
}

/// Bytes of a document in a file of sketches with these settings; 0 if there is no such file.
pub fn sketch_bytes(settings: &Settings) -> u64 {
    let scored = settings.keep.score_field().is_some();
    BodyLayout::new(settings, 0, scored).map_or(0, |layout| layout.width())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_to_be_the_least_is_enough_and_less_is_not() {
        for (threads, read_ahead) in [(1, 0), (2, 0), (3, 1), (64, 8 << 20)] {
            for longest in [0, 1 << 20, 9 << 20] {
                let room_of = |memory, longest| room(memory, threads, read_ahead, longest);
                let room = |memory| room_of(memory, longest);
                let least = room(0).unwrap_err();
                assert!(room(least).is_ok_and(|room| room >= LEAST_ROOM));
                assert_eq!(room(least - 8 * threads as u64), Err(least));
                // The longest record is the one that just fits.
                let most = longest_of(least, threads, read_ahead);
                assert!(most >= longest && room_of(least, most).is_ok() && room_of(least, most + 2).is_err());
                let most = room(1 << 40).unwrap();
                assert!(most * threads as u64 + HELD_ANYWAY < 1 << 40);
            }
        }
    }

    #[test]
    fn a_longer_record_leaves_less_room_to_all() {
        let least = room(0, 2, 0, 0).unwrap_err();
        assert_eq!(Rooms::new(least - (1 << 20), 2, 0, true).unwrap_err(), least);
        let rooms = Rooms::new(least + (24 << 20), 2, 0, true).unwrap();
        let before = rooms.bytes();
        assert_eq!((rooms.hear(170 << 10), rooms.bytes()), (Ok(()), before));
        assert_eq!(rooms.hear(2 << 20), Ok(()));
        // Each thread holds it six times, and three MiB, instead of four, and of what is left two thirds for documents.
        assert!(
            rooms.bytes().abs_diff(before - (12 + 3 - 4) * (1 << 20) * 2 / 3) < 9,
            "{before} {}",
            rooms.bytes()
        );
        assert_eq!((rooms.hear(1 << 20), rooms.hear(2 << 20)), (Ok(()), Ok(())));
        assert!(rooms.hear(9 << 20).is_err_and(|needed| needed > rooms.memory()));
        // Nothing was promised.
        let rooms = Rooms::new(0, 2, 0, false).unwrap();
        assert_eq!((rooms.hear(9 << 20), rooms.bytes()), (Ok(()), LEAST_ROOM));
    }
}
