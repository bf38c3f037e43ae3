//! The envelope of every binary file that we write: magic, kind, version, a JSON header with hash
//! names, seed and parameters, the body, and a checksum. A file that does not fit is refused by the
//! name of the field that does not.
//!
//! ```text
//! 8 bytes   "simflip" and a zero byte
//! 4 bytes   kind, ASCII
//! u32       version of the kind's header and body
//! u32       length of the header in bytes
//! header    JSON object
//! u64       length of the body in bytes
//! body
//! u32       CRC-32 of everything before it
//! ```
//! Numbers are little-endian.

use crate::atomic_write::NewFile;
use crate::error::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"simflip\0";

/// Longest header that is written, and believed: the note on what was written names all inputs of a file.
const MAX_HEADER: u32 = 1 << 26;

/// A kind of file: its tag and its version, which stand behind the magic, and its name for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Four ASCII bytes.
    pub tag: [u8; 4],
    /// Version of header and body.
    pub version: u32,
    /// The kind's name in messages.
    pub name: &'static str,
}

/// Document frequencies.
pub const FREQUENCIES: Kind = Kind { tag: *b"FREQ", version: 1, name: "document frequencies" };

/// A file of the folder that an index of seen pages is: a header that a checksum follows, then records up to
/// the end of the file ([`open_head`]).
pub const SEEN_LOG: Kind = Kind { tag: *b"SLOG", version: 2, name: "log of an index of seen pages" };

/// Lines that are boilerplate.
pub const BOILERPLATE: Kind = Kind { tag: *b"BOIL", version: 1, name: "boilerplate" };

/// The sketches of the documents of an input file, or of several small ones together.
pub const SKETCHES: Kind = Kind { tag: *b"SKET", version: 2, name: "sketches of a file" };

/// The names and places of the documents of such a file of sketches.
pub const NAMES: Kind = Kind { tag: *b"NAME", version: 2, name: "names of a file's documents" };

/// The edges of a band: documents that share its band hash with a leader, and may be removed for it.
pub const EDGES: Kind = Kind { tag: *b"EDGE", version: 3, name: "edges of a band" };

/// Pairs of documents that results list.
pub const PAIRS: Kind = Kind { tag: *b"PAIR", version: 2, name: "pairs of documents" };

/// The cluster of each document that is in one, and the document that is kept for it.
pub const ASSIGNMENTS: Kind = Kind { tag: *b"ASGN", version: 2, name: "clusters of documents" };

/// A note of the files that `simflip apply` wrote for an input file or for several together, and the note of its
/// folder, [`NOTE`].
pub const APPLIED: Kind = Kind { tag: *b"APPL", version: 1, name: "note of what was written" };

/// The outcome of reading the inputs of a file of sketches, for a run on disk that resumes.
pub const READING: Kind = Kind { tag: *b"READ", version: 1, name: "note of what was read" };

/// The mark of a working folder: the job that it is of.
pub const WORKING: Kind = Kind { tag: *b"WORK", version: 1, name: "mark of a working folder" };

/// Every kind but [`SEEN_LOG`]: files that are whole when they are written, with the length of the body in front of it.
pub const KINDS: [Kind; 10] =
    [FREQUENCIES, BOILERPLATE, SKETCHES, NAMES, EDGES, PAIRS, ASSIGNMENTS, APPLIED, READING, WORKING];

/// The ending of the name of a working folder, behind the name of the results. A run on disk keeps its files there.
pub(crate) const WORKING_ENDING: &str = ".stages";

/// The name of the file in a working folder that marks it as one.
pub(crate) const WORKING_MARK: &str = "simflip.working";

/// True if a folder is the working folder of a run on disk, by its name and its mark. The run is at work, was
/// interrupted, or has kept its sketches there.
pub fn is_working_folder(folder: &Path) -> bool {
    is_working_by(folder, || Ok::<_, Infallible>(std::fs::read(folder.join(WORKING_MARK)).ok()))
        .unwrap_or_default()
}

/// The name of the file that marks a folder as one of kept documents that `simflip apply` wrote.
pub const NOTE: &str = "simflip.note";

/// The name of the report of a folder of results.
pub(crate) const REPORT: &str = "report.json";

/// The kind of a folder of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results {
    /// A whole run, which has written a `report.json`.
    Whole,
    /// `simflip apply`, the last of several stages, which has written a [`NOTE`].
    OfStages,
}

/// The kind of results in a folder; `None` if it is no folder of results.
pub fn results_of(folder: &Path) -> Option<Results> {
    results_by(|name| Ok::<_, Infallible>(std::fs::read(folder.join(name)).ok())).unwrap_or_default()
}

/// The kind of results in a folder; `None` if it is no folder of results. `read` gives the content of a file of the
/// folder by its name, and `None` for one that is not there.
///
/// # Errors
/// As `read`.
pub(crate) fn results_by<E>(read: impl Fn(&str) -> Result<Option<Vec<u8>>, E>) -> Result<Option<Results>, E> {
    for (name, results) in [(NOTE, Results::OfStages), (REPORT, Results::Whole)] {
        if read(name)?.is_some_and(|content| marks_result(name, &content)) {
            return Ok(Some(results));
        }
    }
    Ok(None)
}

/// True if a folder is one of results.
pub fn is_result_folder(folder: &Path) -> bool {
    results_of(folder).is_some()
}

/// True if a file of this name and content makes its folder one of results.
pub(crate) fn marks_result(name: &str, content: &[u8]) -> bool {
    match name {
        NOTE => begins_as(content, APPLIED),
        REPORT => {
            let report = serde_json::from_slice::<serde_json::Value>(content).ok();
            report.is_some_and(|report| report["tool"]["name"] == env!("CARGO_PKG_NAME"))
        }
        _ => false,
    }
}

/// True if a folder is a working folder, as [`is_working_folder`] says. `mark` reads its mark, and gives `None` if it
/// has none.
///
/// # Errors
/// As `mark`.
pub(crate) fn is_working_by<E>(
    folder: &Path,
    mark: impl FnOnce() -> Result<Option<Vec<u8>>, E>,
) -> Result<bool, E> {
    let called = folder.file_name().unwrap_or_default().to_string_lossy();
    Ok(called.ends_with(WORKING_ENDING) && mark()?.is_some_and(|mark| begins_as(&mark, WORKING)))
}

/// True if a file begins as one of `kind`, of whatever version.
pub fn is_of_kind(path: &Path, kind: Kind) -> bool {
    let mut head = [0; 12];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && begins_as(&head, kind)
}

fn begins_as(bytes: &[u8], kind: Kind) -> bool {
    bytes.strip_prefix(&MAGIC).is_some_and(|rest| rest.starts_with(&kind.tag))
}

/// Writes a file of `kind` whole or not at all. Its body is the pieces of `body`, one behind the other.
pub fn write(path: &Path, kind: Kind, header: &impl Serialize, body: &[&[u8]]) -> Result<()> {
    let mut file = NewBinary::begin(path, kind, header)?;
    body.iter().try_for_each(|part| file.write_all(part)).map_err(|error| Error::io(path, error))?;
    file.finish()
}

/// A file of a kind while its body is written piece by piece. It appears at its path when it is finished, and otherwise
/// not at all.
#[derive(Debug)]
pub struct NewBinary {
    new: NewFile,
    path: PathBuf,
    /// The bytes before the length of the body.
    head: Vec<u8>,
    buffer: Vec<u8>,
    body: crc32fast::Hasher,
    length: u64,
}

/// Bytes of a body that are written, or read, at once.
const PIECE: usize = 1 << 18;

impl NewBinary {
    /// Begins a file that will be at `path`.
    ///
    /// # Errors
    /// If it cannot be made, or the header has more than 2²⁶ bytes.
    pub fn begin(path: &Path, kind: Kind, header: &impl Serialize) -> Result<Self> {
        let io = |source| Error::io(path, source);
        let header = serde_json::to_vec(header).map_err(|e| io(e.into()))?;
        let mut new = NewFile::begin(path)?;
        if header.len() > MAX_HEADER as usize {
            return Err(io(io::Error::other(format!("{} bytes are too many for a header", header.len()))));
        }
        let head = head_of(kind, &header);
        // The length is known at the end.
        new.file().write_all(&head).and_then(|()| new.file().write_all(&[0; 8])).map_err(io)?;
        let (buffer, body) = (Vec::with_capacity(PIECE), crc32fast::Hasher::new());
        Ok(Self { new, path: path.to_path_buf(), head, buffer, body, length: 0 })
    }

    fn pour(&mut self) -> io::Result<()> {
        self.new.file().write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// If it cannot be written; then nothing of it remains.
    pub fn finish(mut self) -> Result<()> {
        let length = self.length.to_le_bytes();
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.head);
        sum.update(&length);
        sum.combine(&self.body);
        let at = self.head.len() as u64;
        self.pour()
            .and_then(|()| {
                let file = self.new.file();
                file.write_all(&sum.finalize().to_le_bytes())?;
                file.seek(SeekFrom::Start(at))?;
                file.write_all(&length)
            })
            .map_err(|error| Error::io(&self.path, error))?;
        self.new.finish()
    }
}

impl Write for NewBinary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > PIECE {
            self.pour()?;
        }
        if bytes.len() >= PIECE {
            self.new.file().write_all(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.body.update(bytes);
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pour()
    }
}

/// The body of a file of ours on disk, to be read in pieces: the path, and the bytes of the file that are its body.
#[derive(Clone, Debug)]
pub struct Body {
    path: PathBuf,
    start: u64,
    length: u64,
}

impl Body {
    /// Number of bytes of the body.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True if the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file, to read from the body's beginning.
    ///
    /// # Errors
    /// If it cannot be opened any more.
    pub fn reader(&self) -> Result<BodyReader> {
        let io = |error| Error::io(&self.path, error);
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start(self.start)).map_err(io)?;
        Ok(BodyReader { file: file.take(self.length), body: self.clone() })
    }

    /// Reads all of it and compares the file's checksum.
    ///
    /// # Errors
    /// If the file cannot be read or is not as it was written.
    pub fn check(&self) -> Result<()> {
        let io = |error| Error::io(&self.path, error);
        let file = File::open(&self.path).map_err(io)?;
        let mut file = Summing::new(BufReader::with_capacity(PIECE, file));
        io::copy(&mut file.by_ref().take(self.start + self.length), &mut io::sink()).map_err(io)?;
        check_sum(&self.path, &mut file, FILE)
    }
}

/// Reads a [`Body`].
#[derive(Debug)]
pub struct BodyReader {
    file: io::Take<File>,
    body: Body,
}

impl BodyReader {
    /// The body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Moves to the byte `at` of the body.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn seek(&mut self, at: u64) -> Result<()> {
        let to = SeekFrom::Start(self.body.start + at);
        self.file.set_limit(self.body.length.saturating_sub(at));
        self.file.get_mut().seek(to).map(drop).map_err(|error| Error::io(&self.body.path, error))
    }

    /// Fills `bytes` with the next bytes of the body.
    ///
    /// # Errors
    /// If the file cannot be read, or the body has fewer.
    pub fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.read_exact(bytes).map_err(|error| Error::io(&self.body.path, error))
    }
}

impl Read for BodyReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes)
    }
}

/// Opens a file of `kind` without reading its body: magic, kind, version, header and lengths are right. What
/// is in the body is for [`Body::check`].
///
/// # Errors
/// If it cannot be read, is of another kind or version, or is longer or shorter than it says.
pub fn open<H: DeserializeOwned>(path: &Path, kind: Kind) -> Result<(H, Body)> {
    let file = File::open(path).map_err(|error| Error::io(path, error))?;
    let size = file.metadata().map_err(|error| Error::io(path, error))?.len();
    let mut file = BufReader::new(file);
    let (_, header) = read_head(path, &mut file, &[kind])?;
    let length = u64::from_le_bytes(take(path, &mut file, FILE)?);
    let start = file.stream_position().map_err(|error| Error::io(path, error))?;
    let whole = start.checked_add(length).and_then(|end| end.checked_add(4));
    if whole != Some(size) {
        let expected = whole.map_or_else(|| "less".to_owned(), |whole| format!("{whole} bytes"));
        return Err(wrong(path, "the length", expected, format!("{size} bytes"), AGAIN));
    }
    Ok((header_of(path, kind, &header)?, Body { path: path.to_path_buf(), start, length }))
}

/// The bytes in front of every file of ours: magic, kind, version, and the header with its length.
fn head_of(kind: Kind, header: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    [&MAGIC[..], &kind.tag, &kind.version.to_le_bytes(), &length, header].concat()
}

/// The head of a file that grows: magic, kind, version, the length of the header, the header, and a CRC-32 of all of
/// these. Anything behind it is the kind's own.
pub fn open_head(kind: Kind, header: &impl Serialize) -> Vec<u8> {
    let mut head = head_of(kind, &serde_json::to_vec(header).unwrap_or_default());
    let sum = crc32fast::hash(&head);
    head.extend_from_slice(&sum.to_le_bytes());
    head
}

/// Reads what [`open_head`] made from the beginning of a file: the header, and the number of bytes of the whole head.
///
/// # Errors
/// If it cannot be read, is of another kind or version, or is corrupt.
pub fn read_open_head<H: DeserializeOwned>(
    path: &Path,
    kind: Kind,
    file: &mut impl Read,
) -> Result<(H, u64)> {
    let mut file = Summing::new(file);
    let (_, header) = read_head(path, &mut file, &[kind])?;
    check_sum(path, &mut file, HEADER)?;
    Ok((header_of(path, kind, &header)?, 24 + header.len() as u64))
}

/// Reads a header of a kind.
fn header_of<H: DeserializeOwned>(path: &Path, kind: Kind, header: &[u8]) -> Result<H> {
    serde_json::from_slice(header)
        .map_err(|e| wrong(path, "the header", format!("that of {}", kind.name), e.to_string(), AGAIN))
}

/// Reads a file of any of the [`KINDS`] into memory, and checks magic, kind, version and checksum. Gives its kind, its
/// header and its body.
///
/// # Errors
/// If it cannot be read, is of none of these kinds, or is corrupt.
pub fn read_any(path: &Path) -> Result<(Kind, serde_json::Value, Vec<u8>)> {
    let (kind, header, body) = read_whole(path)?;
    let header = serde_json::from_slice(&header)
        .map_err(|e| wrong(path, "the header", "JSON", e.to_string(), AGAIN))?;
    Ok((kind, header, body))
}

/// Reads such a file, its header as it stands there.
fn read_whole(path: &Path) -> Result<(Kind, Vec<u8>, Vec<u8>)> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let size = file.metadata().map_err(|e| Error::io(path, e))?.len();
    let mut file = Summing::new(BufReader::new(file));
    let (kind, header) = read_head(path, &mut file, &KINDS)?;
    let length = u64::from_le_bytes(take(path, &mut file, FILE)?);
    if length > size {
        let expected = format!("at most the file's {size} bytes");
        return Err(wrong(path, "the body's length", expected, length.to_string(), AGAIN));
    }
    let mut body = vec![0; length as usize];
    file.read_exact(&mut body).map_err(|e| io(path, e, FILE))?;
    check_sum(path, &mut file, FILE)?;
    if file.read(&mut [0]).map_err(|e| io(path, e, FILE))? != 0 {
        let advice = "something was added to the file; make it again";
        return Err(wrong(path, "the end", "the end of the file", "more bytes", advice));
    }
    Ok((kind, header, body))
}

/// Reads a file of `kind` as [`read_any`] does: its header and its body. A file of another kind is an error.
pub fn read<H: DeserializeOwned>(path: &Path, kind: Kind) -> Result<(H, Vec<u8>)> {
    let (found, header, body) = read_whole(path)?;
    if found != kind {
        return Err(wrong(path, "the kind", kind.name, found.name, "name another file"));
    }
    Ok((header_of(path, kind, &header)?, body))
}

const AGAIN: &str = "make the file again";

/// The error of a file that does not fit: its field, the value that the field should have and the one that it has, and
/// the advice to the user.
pub(crate) fn wrong(
    path: &Path,
    field: &'static str,
    expected: impl Into<String>,
    got: impl Into<String>,
    advice: &'static str,
) -> Error {
    Error::Format { path: path.to_path_buf(), field, expected: expected.into(), got: got.into(), advice }
}

/// The expectation for a header that is cut.
const HEADER: &str = "a whole header";
const FILE: &str = "a whole file";

fn io(path: &Path, source: io::Error, whole: &str) -> Error {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => wrong(path, "the length", whole, "a shorter one", AGAIN),
        _ => Error::io(path, source),
    }
}

fn take<const N: usize>(path: &Path, file: &mut impl Read, whole: &str) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes).map_err(|e| io(path, e, whole))?;
    Ok(bytes)
}

/// Reads what stands in front of every file of ours: magic, one of these kinds, version, and the header.
fn read_head(path: &Path, file: &mut impl Read, kinds: &[Kind]) -> Result<(Kind, Vec<u8>)> {
    let mut magic = [0; 8];
    if file.read_exact(&mut magic).is_err() || magic != MAGIC {
        let got = format!("{:?}", String::from_utf8_lossy(&magic));
        return Err(wrong(path, "the magic", "\"simflip\" and a zero", got, "this is no file of simflip's"));
    }
    let tag = take(path, file, HEADER)?;
    let Some(&kind) = kinds.iter().find(|kind| kind.tag == tag) else {
        let got = format!("{:?}", String::from_utf8_lossy(&tag));
        return Err(match kinds {
            [kind] => wrong(path, "the kind", kind.name, got, "name another file"),
            _ => wrong(path, "the kind", "one that is known", got, "a newer simflip may read it"),
        });
    };
    let version = u32::from_le_bytes(take(path, file, HEADER)?);
    if version != kind.version {
        let advice = match version > kind.version {
            true => "a newer simflip may read it",
            false => "make the file again with this simflip",
        };
        return Err(wrong(path, "the version", kind.version.to_string(), version.to_string(), advice));
    }
    let length = u32::from_le_bytes(take(path, file, HEADER)?);
    if length > MAX_HEADER {
        return Err(wrong(path, "the header's length", "at most 2^26", length.to_string(), AGAIN));
    }
    // As much memory as there is header, whatever its length is said to be.
    let mut header = Vec::new();
    let read = file.take(u64::from(length)).read_to_end(&mut header);
    let whole = read.and_then(|read| match read == length as usize {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    });
    whole.map_err(|e| io(path, e, HEADER))?;
    Ok((kind, header))
}

/// Reads a checksum and compares it with that of all bytes that were read before it.
fn check_sum<R: Read>(path: &Path, file: &mut Summing<R>, whole: &str) -> Result<()> {
    let expected = file.sum.clone().finalize();
    let got = u32::from_le_bytes(take(path, file, whole)?);
    if got != expected {
        let advice = "the file is corrupt; make it again";
        return Err(wrong(path, "the checksum", format!("{expected:08x}"), format!("{got:08x}"), advice));
    }
    Ok(())
}

/// The checksum that ends a file of ours, in hexadecimal: a short name for its content.
///
/// # Errors
/// If the file cannot be read.
pub fn checksum(path: &Path) -> Result<String> {
    let mut last = [0; 4];
    let read = |mut file: File| {
        file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut last)
    };
    File::open(path).and_then(read).map_err(|e| Error::io(path, e))?;
    Ok(format!("{:08x}", u32::from_le_bytes(last)))
}

/// A reader that sums the CRC-32 of all bytes that pass.
struct Summing<T> {
    inner: T,
    sum: crc32fast::Hasher,
}

impl<T> Summing<T> {
    fn new(inner: T) -> Self {
        Self { inner, sum: crc32fast::Hasher::new() }
    }
}

impl<T: Read> Read for Summing<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(bytes)?;
        self.sum.update(&bytes[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, FREQUENCIES, &serde_json::json!({"n": 7}), &[b"bo", b"dy"]).unwrap();
        (folder, path)
    }

    #[test]
    fn kinds_are_known_by_their_first_bytes() {
        let (folder, path) = sample();
        assert!(is_of_kind(&path, FREQUENCIES) && !is_of_kind(&path, BOILERPLATE));
        assert!(!is_of_kind(&folder.path().join("none"), FREQUENCIES));
        let heads =
            [("simflip\0FREQ", true), ("simflopsFREQ", false), ("simflip\0FRE", false), ("years", false)];
        for (head, is) in heads {
            std::fs::write(&path, head).unwrap();
            assert_eq!(is_of_kind(&path, FREQUENCIES), is, "{head}");
        }
    }

    #[test]
    fn a_folder_of_results_has_our_report_or_our_note() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, content: &str| std::fs::write(folder.path().join(name), content).unwrap();
        assert!(!is_result_folder(folder.path()));
        for (report, is) in [
            (r#"{"tool": {"name": "simflip"}}"#, true),
            (r#"{"tool": {"name": "another"}}"#, false),
            (r#"{"name": "simflip"}"#, false),
            ("simflip", false),
        ] {
            put("report.json", report);
            assert_eq!(is_result_folder(folder.path()), is, "{report}");
        }
        put(NOTE, "a note of somebody else's");
        assert!(!is_result_folder(folder.path()));
        write(&folder.path().join(NOTE), APPLIED, &serde_json::json!({}), &[]).unwrap();
        assert!(is_result_folder(folder.path()));
    }

    /// The field, the expectation and the advice of a refusal.
    fn refusal<T: std::fmt::Debug>(read: Result<T>) -> (&'static str, String, &'static str) {
        match read.unwrap_err() {
            Error::Format { field, expected, advice, .. } => (field, expected, advice),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_would() {
        let (_folder, path) = sample();
        let whole = std::fs::read(&path).unwrap();
        let changed = |at: usize, to: &[u8]| {
            let mut bytes = whole.clone();
            bytes[at..at + to.len()].copy_from_slice(to);
            std::fs::write(&path, bytes).unwrap();
        };
        changed(0, b"SIMFLIPS");
        assert_eq!(refusal(read_any(&path)).0, "the magic");
        let newer = "a newer simflip may read it";
        changed(8, b"NEVR");
        assert_eq!(refusal(read_any(&path)), ("the kind", "one that is known".into(), newer));
        let one = refusal(open::<serde_json::Value>(&path, FREQUENCIES));
        assert_eq!(one, ("the kind", "document frequencies".into(), "name another file"));
        changed(8, b"BOIL");
        assert_eq!(refusal(read_any(&path)).0, "the checksum");
        write(&path, BOILERPLATE, &serde_json::json!({}), &[]).unwrap();
        let other = refusal(read::<serde_json::Value>(&path, FREQUENCIES));
        assert_eq!(other, ("the kind", "document frequencies".into(), "name another file"));
        let older = "make the file again with this simflip";
        for (kind, version, expected, advice) in [
            (FREQUENCIES, 0, "1", older),
            (FREQUENCIES, 2, "1", newer),
            (BOILERPLATE, 0, "1", older),
            (BOILERPLATE, u32::MAX, "1", newer),
        ] {
            write(&path, Kind { version, ..kind }, &serde_json::json!({}), &[]).unwrap();
            assert_eq!(refusal(read_any(&path)), ("the version", expected.into(), advice));
        }
        // Where the body's length stands: before the body of four bytes and its checksum.
        let at = whole.len() - 16;
        let size = whole.len() as u64;
        for (claimed, field) in [
            (3, "the checksum"),
            (5, "the length"),
            (size, "the length"),
            (size + 1, "the body's length"),
            (u64::MAX, "the body's length"),
        ] {
            changed(at, &claimed.to_le_bytes());
            assert_eq!(refusal(read_any(&path)).0, field, "{claimed}");
            assert_eq!(refusal(open::<serde_json::Value>(&path, FREQUENCIES)).0, "the length", "{claimed}");
        }
        std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(refusal(read_any(&path)).0, "the end");
    }

    #[test]
    fn a_header_may_be_as_long_as_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // Quotation marks make two bytes of it.
        let longest = "x".repeat(MAX_HEADER as usize - 2);
        write(&path, BOILERPLATE, &longest, &[]).unwrap();
        assert!(read::<String>(&path, BOILERPLATE).is_ok_and(|(header, _)| header == longest));
        let before = std::fs::read(&path).unwrap();
        let message = write(&path, BOILERPLATE, &(longest + "x"), &[]).unwrap_err().to_string();
        assert!(message.contains("67108865 bytes are too many for a header"), "{message}");
        assert!(std::fs::read(&path).unwrap() == before);
        for (length, field) in [(MAX_HEADER + 1, "the header's length"), (MAX_HEADER, "the length")] {
            let mut bytes = before[..1000].to_vec();
            bytes[16..20].copy_from_slice(&length.to_le_bytes());
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(refusal(read_any(&path)).0, field);
        }
    }

    #[test]
    fn a_file_that_grows_begins_with_a_head_of_its_own() {
        let (path, header) = (Path::new("log"), serde_json::json!({"n": 7}));
        let head = open_head(SEEN_LOG, &header);
        let file = [&head[..], b"records"].concat();
        let mut rest = &file[..];
        let (read, bytes) = read_open_head::<serde_json::Value>(path, SEEN_LOG, &mut rest).unwrap();
        assert_eq!((read, bytes, rest), (header, head.len() as u64, &b"records"[..]));
        for at in 0..head.len() {
            let mut changed = head.clone();
            changed[at] ^= 0x10;
            for corrupt in [&changed[..], &head[..at]] {
                let read = read_open_head::<serde_json::Value>(path, SEEN_LOG, &mut &corrupt[..]);
                assert!(matches!(read, Err(Error::Format { .. })), "{at}");
            }
        }
    }

    #[test]
    fn the_checksum_names_the_content() {
        let (_folder, path) = sample();
        let first = checksum(&path).unwrap();
        write(&path, FREQUENCIES, &serde_json::json!({"n": 7}), &[b"bo", b"dies"]).unwrap();
        assert!(first.len() == 8 && checksum(&path).unwrap() != first);
        let missing = checksum(Path::new("no/such/file")).unwrap_err().to_string();
        assert!(missing.contains("no/such/file"), "{missing}");
    }

    #[test]
    fn a_changed_or_cut_file_is_refused_wherever_it_is_changed_or_cut() {
        let (_folder, path) = sample();
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(matches!(read_any(&path), Err(Error::Format { .. })), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            std::fs::write(&path, &changed).unwrap();
            assert!(matches!(read_any(&path), Err(Error::Format { .. })), "changed at {at}");
        }
    }

    #[test]
    fn a_body_is_read_in_pieces_and_its_checksum_is_that_of_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..3 * PIECE as u32 + 5).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for pieces in [1, 1000, PIECE, bytes.len()] {
            let mut new = NewBinary::begin(&path, EDGES, &serde_json::json!({"n": 7})).unwrap();
            bytes.chunks(pieces).for_each(|piece| new.write_all(piece).unwrap());
            assert!(pieces > 1 || !path.exists());
            new.finish().unwrap();
            assert!(read_any(&path).unwrap().2 == bytes);
            let (header, body): (serde_json::Value, _) = open(&path, EDGES).unwrap();
            assert_eq!(
                (header["n"].as_i64(), body.len(), body.is_empty()),
                (Some(7), bytes.len() as u64, false)
            );
            body.check().unwrap();
            let mut reader = body.reader().unwrap();
            let mut piece = [0; 100];
            reader.seek(70_000).unwrap();
            reader.fill(&mut piece).unwrap();
            assert!(piece[..] == bytes[70_000..70_100]);
            reader.seek(bytes.len() as u64 - 99).unwrap();
            assert!(reader.fill(&mut piece).is_err(), "the checksum is no part of the body");
        }
        assert!(open::<serde_json::Value>(&path, ASSIGNMENTS).is_err());
        let mut whole = std::fs::read(&path).unwrap();
        whole[PIECE] ^= 1;
        std::fs::write(&path, &whole).unwrap();
        assert!(open::<serde_json::Value>(&path, EDGES).unwrap().1.check().is_err());
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(open::<serde_json::Value>(&path, EDGES).is_err());
    }

    #[test]
    fn pieces_of_every_length_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // A short piece waits; a long one, which need not, comes behind it all the same.
        for lengths in [&[1, PIECE, 1][..], &[10, 2 * PIECE, 10], &[PIECE - 1, 1, 1], &[0, PIECE, 0], &[]] {
            let mut new = NewBinary::begin(&path, EDGES, &serde_json::json!({})).unwrap();
            let mut bytes = Vec::new();
            for (&length, byte) in lengths.iter().zip(1u8..) {
                let piece = vec![byte; length];
                new.write_all(&piece).unwrap();
                bytes.extend(piece);
            }
            new.finish().unwrap();
            assert!(read_any(&path).unwrap().2 == bytes, "{lengths:?}");
            let (_, body) = open::<serde_json::Value>(&path, EDGES).unwrap();
            assert_eq!((body.len(), body.is_empty()), (bytes.len() as u64, bytes.is_empty()));
            body.check().unwrap();
            // A reader ends where the body does.
            let mut read = Vec::new();
            body.reader().unwrap().read_to_end(&mut read).unwrap();
            assert!(read == bytes, "{lengths:?}");
        }
        let mut new = NewBinary::begin(&path, EDGES, &serde_json::json!({})).unwrap();
        let before = new.new.file().metadata().unwrap().len();
        new.write_all(b"body").unwrap();
        new.flush().unwrap();
        assert_eq!(new.new.file().metadata().unwrap().len(), before + 4);
    }
}
