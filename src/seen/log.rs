//! Files of records: a snapshot holds all pages of an index, a log what has changed since. Files are numbered: what
//! was stored before log N was begun is in snapshot N, or where there is none, in the snapshot and logs before.
//!
//! Both begin like every binary file of ours, with magic, kind, version and a header, whose checksum follows.
//! Then come records up to the end of the file, as a log grows, each in a *frame* with its length and checksum. A
//! file that ends within a record was being written when its process or its machine ended; that record is lost, and
//! nothing else. A corrupt record is passed over, and the next whole one looked for.

use super::SeenParams;
use super::record::{HEAD, MARK, Record, checksum, frame_of};
use crate::atomic_write;
use crate::error::{Error, Result};
use crate::format::{self, SEEN_LOG};
use crate::settings::Settings;
use crate::text::TOKENIZER;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The header in front of the records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LogHeader {
    hash: String,
    tokenizer: String,
    /// The kind of file, `snapshot` or `log`.
    holds: String,
    number: u64,
    pub(super) settings: Settings,
    frequencies: Option<String>,
}

/// A file of an index, by its kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Snapshot(u64),
    Log(u64),
}

impl Part {
    pub(super) fn number(self) -> u64 {
        let (Self::Snapshot(number) | Self::Log(number)) = self;
        number
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Snapshot(_) => "snapshot",
            Self::Log(_) => "log",
        }
    }

    /// The file's name in the folder, such as `log-00000007`.
    pub(super) fn name(self) -> String {
        format!("{}-{:08}", self.kind(), self.number())
    }

    /// The part that a file of this name is; `None` for another file.
    pub(super) fn of(name: &str) -> Option<Self> {
        let number = name.split_once('-')?.1.parse().ok()?;
        [Self::Snapshot(number), Self::Log(number)].into_iter().find(|part| part.name() == name)
    }

    /// The bytes of such a file before its records.
    pub(super) fn head(self, params: &SeenParams) -> Vec<u8> {
        let header = LogHeader {
            hash: params.settings.feature_hash.name().to_owned(),
            tokenizer: TOKENIZER.to_owned(),
            holds: self.kind().to_owned(),
            number: self.number(),
            settings: params.settings.clone(),
            frequencies: params.frequencies.clone(),
        };
        format::open_head(SEEN_LOG, &header)
    }
}

/// The outcome of reading a file of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Bytes up to the end of the last whole record.
    pub(super) whole: u64,
    /// Bytes behind it, of a record that was being written.
    pub(super) cut: u64,
    /// Bytes at which corrupt records begin, each with the number of bytes that were passed over.
    pub(super) corrupt: Vec<(u64, u64)>,
    /// Records read.
    pub(super) records: u64,
    /// The number of pages that the end of a snapshot states; `None` if no such end was read.
    pub(super) promised: Option<u64>,
    /// Bytes that a log had and has not any more, at the least, by [`Length::noted`]. [`read`] leaves it 0, and the
    /// caller compares the lengths.
    pub(super) missing: u64,
}

/// The file that says how long the log is.
pub(super) const LENGTH: &str = "length";

/// Bytes that a log grows by until its length is noted anew.
const NOTED: u64 = 1 << 16;

/// The length that the log had at the least, in a file of its own, so that a truncated log is found out. The file is
/// written after the log, so that it never says too much while the machine runs.
#[derive(Debug)]
pub(super) struct Length {
    file: File,
    noted: u64,
}

impl Length {
    /// Opens or makes the file in an index's folder, and notes the length of a log, in bytes.
    pub(super) fn open(folder: &Path, part: Part, length: u64) -> Result<Self> {
        let path = folder.join(LENGTH);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let mut own = Self { file: file.map_err(|e| Error::io(&path, e))?, noted: 0 };
        own.note(part, length);
        Ok(own)
    }

    /// The log and its length that the file of an index's folder has, if they can be read.
    pub(super) fn noted(folder: &Path) -> Option<(Part, u64)> {
        let line = std::fs::read_to_string(folder.join(LENGTH)).ok()?;
        let mut words = line.strip_prefix(WORDS)?.split_whitespace();
        Some((Part::of(words.next()?)?, words.next()?.parse().ok()?))
    }

    /// Notes a length, if the log has grown by 64 KiB since the last note.
    pub(super) fn grown(&mut self, part: Part, length: u64) {
        if length >= self.noted + NOTED {
            self.note(part, length);
        }
    }

    /// Notes a length. An error is passed over: a truncated log is not found out then, and nothing else depends on it.
    pub(super) fn note(&mut self, part: Part, length: u64) {
        let line = format!("{WORDS}{} {length:020}\n", part.name());
        let write = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(line.as_bytes()));
        if write.is_ok() {
            self.noted = length;
        }
    }
}

/// The first words of the file: its kind, and its version.
const WORDS: &str = "simflip length 1 ";

/// The settings of a file's pages, from its header.
pub(super) fn params_of(path: &Path) -> Result<SeenParams> {
    let mut file = BufReader::new(File::open(path).map_err(|e| Error::io(path, e))?);
    header(path, &mut file).map(|(header, _)| params(header))
}

/// True if a file is an export: a snapshot with the number 0, which no index has.
pub(super) fn is_export(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| {
        header(path, &mut BufReader::new(file))
            .is_ok_and(|(header, _)| header.holds == Part::Snapshot(0).kind() && header.number == 0)
    })
}

/// The settings of pages that a header states.
pub(super) fn params(header: LogHeader) -> SeenParams {
    SeenParams { settings: header.settings, frequencies: header.frequencies }
}

/// Reads the header, and gives it with the byte at which records begin. A hash or tokenizer that is not ours is an
/// error. `path` is for messages.
pub(super) fn header(path: &Path, file: &mut impl Read) -> Result<(LogHeader, u64)> {
    let (header, length): (LogHeader, u64) = format::read_open_head(path, SEEN_LOG, file)?;
    let fits = |field, expected: &str, got: &str| match expected == got {
        true => Ok(()),
        false => Err(format::wrong(path, field, expected, got, "make the index again with this simflip")),
    };
    fits("the feature hash", header.settings.feature_hash.name(), &header.hash)?;
    fits("the tokenizer", TOKENIZER, &header.tokenizer)?;
    Ok((header, length))
}

/// Reads a file from its beginning, and hands over its records in order, each with the byte at which its frame begins.
/// Corrupt records are passed over and reported in [`Passed`]. An error of `each` ends it.
pub(super) fn read(
    path: &Path,
    mut each: impl FnMut(Record, u64) -> Result<()>,
) -> Result<(SeenParams, Passed)> {
    let io = |error| Error::io(path, error);
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(io)?);
    let (header, start) = header(path, &mut file)?;
    let sketches = header.settings.sketches;
    let mut passed = Passed { whole: start, ..Passed::default() };
    let mut take = |body: &[u8], at: u64, passed: &mut Passed| -> Result<bool> {
        let Some(record) = Record::read(body, sketches) else { return Ok(false) };
        passed.records += 1;
        if let Record::End { pages, .. } = record {
            passed.promised = Some(pages);
        }
        each(record, at).map(|()| true)
    };
    let mut body = Vec::new();
    loop {
        let mut head = [0; HEAD];
        let got = read_full(&mut file, &mut head).map_err(io)?;
        if got == 0 {
            break;
        }
        let mut rest = head[..got].to_vec();
        if let Some((length, sum)) = frame_of(&head[..got]) {
            body.resize(length, 0);
            let filled = read_full(&mut file, &mut body).map_err(io)?;
            let length_bytes = (length as u32).to_le_bytes();
            let at = passed.whole;
            if filled == length && checksum(length_bytes, &body) == sum && take(&body, at, &mut passed)? {
                passed.whole += (HEAD + length) as u64;
                continue;
            }
            rest.extend_from_slice(&body[..filled]);
        }
        // Something is wrong here: the next whole record is looked for in all that is left.
        file.read_to_end(&mut rest).map_err(io)?;
        let (first, mut at, mut good) = (passed.whole, 0, 0);
        while let Some(found) = (at..rest.len()).find(|&at| whole_at(&rest, at).is_some()) {
            let Some(end) = whole_at(&rest, found) else { break };
            if !take(&rest[found + HEAD..end], first + found as u64, &mut passed)? {
                at = found + 1;
                continue;
            }
            if found > good {
                passed.corrupt.push((passed.whole, (found - good) as u64));
            }
            passed.whole += (end - good) as u64;
            (at, good) = (end, end);
        }
        let left = &rest[good..];
        match begins_a_frame(left) {
            true => passed.cut = left.len() as u64,
            // What a process that ends leaves is the beginning of what it wrote.
            false => passed.corrupt.push((passed.whole, left.len() as u64)),
        }
        break;
    }
    Ok((params(header), passed))
}

/// True if bytes are the beginning of one frame, and no more of it is missing than its end.
fn begins_a_frame(bytes: &[u8]) -> bool {
    match bytes.get(..HEAD).and_then(frame_of) {
        Some((length, _)) => bytes.len() < HEAD + length,
        None => bytes.len() < HEAD && bytes.iter().zip(MARK).all(|(byte, mark)| *byte == mark),
    }
}

/// The end of the frame that begins at byte `at`, if it is whole and its checksum is right.
pub(super) fn whole_at(bytes: &[u8], at: usize) -> Option<usize> {
    let (length, sum) = frame_of(bytes.get(at..at + HEAD)?)?;
    let end = at + HEAD + length;
    let record = bytes.get(at + HEAD..end)?;
    (checksum((length as u32).to_le_bytes(), record) == sum).then_some(end)
}

/// Fills as much of a buffer as the file has bytes for, and gives the number of filled bytes.
pub(super) fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes a file without records, in place of one that is there, and gives its length in bytes.
pub(super) fn begin(path: &Path, part: Part, params: &SeenParams) -> Result<u64> {
    let head = part.head(params);
    atomic_write::write(path, &head)?;
    Ok(head.len() as u64)
}

/// A log that is written to.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    fsync: bool,
}

/// Bytes that were written to a log and may not be on the disk yet.
#[derive(Clone, Debug)]
pub struct Unsynced {
    path: PathBuf,
    file: Arc<File>,
}

impl Unsynced {
    /// Waits until these bytes are on the disk, and all that were written to the same log before.
    ///
    /// # Errors
    /// If they cannot be brought there; nobody knows then what of the log is on the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io(&self.path, e))
    }

    /// True if both are of one log, so that it is enough to [`sync`](Self::sync) the later one.
    pub fn is_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }
}

impl Log {
    /// Opens a log to write behind its first `length` bytes. Those after them are cut off. With `fsync`, each
    /// [`append`](Self::append) waits for the disk.
    pub(super) fn open(path: &Path, length: u64, fsync: bool) -> Result<Self> {
        let open = || {
            let file = File::options().append(true).open(path)?;
            if file.metadata()?.len() != length {
                file.set_len(length)?;
                file.sync_all()?;
            }
            Ok(file)
        };
        let file: File = open().map_err(|e| Error::io(path, e))?;
        Ok(Self { path: path.to_path_buf(), file: Arc::new(file), length, fsync })
    }

    /// The number of bytes of the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Appends frames, all of them or none, and with `fsync` waits until they are on the disk.
    pub(super) fn append(&mut self, frames: &[u8]) -> Result<()> {
        let fsync = self.fsync;
        self.put(frames, fsync)
    }

    /// Appends frames without waiting for the disk. With `fsync`, gives the bytes for which the caller must wait.
    pub(super) fn append_unsynced(&mut self, frames: &[u8]) -> Result<Option<Unsynced>> {
        self.put(frames, false)?;
        let unsynced = || Unsynced { path: self.path.clone(), file: Arc::clone(&self.file) };
        Ok(self.fsync.then(unsynced))
    }

    fn put(&mut self, frames: &[u8], fsync: bool) -> Result<()> {
        let stored = (&*self.file).write_all(frames).and_then(|()| match fsync {
            true => self.file.sync_data(),
            false => Ok(()),
        });
        match stored {
            Ok(()) => {
                self.length += frames.len() as u64;
                Ok(())
            }
            Err(error) => {
                // If that fails as well, the part of a record at the end is passed over by the next start.
                let _ = self.file.set_len(self.length);
                Err(Error::io(&self.path, error))
            }
        }
    }
}
