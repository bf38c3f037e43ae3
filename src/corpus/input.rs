//! A file to read: where its bytes are, its format, and the facts that were found before it is read.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use std::{fs, io};

use super::corruption::{CorruptionCause, CorruptionKind};
use super::csv::CsvHeader;
use super::filetype::{Compression, Format};
use super::object::Object;
use super::options::ReadOptions;
use super::storage::{Stamp, Storage};
use crate::atomic_write::Unfinished;

/// One file to read. Its position in the list of inputs is the shard of its documents.
#[derive(Clone, Debug)]
pub struct Input {
    /// The path that messages show: as the user gave it, or below a folder that the user gave; `-` for standard input.
    pub path: PathBuf,
    /// The format of its records.
    pub format: Format,
    /// The compression, by its content; by its name only if the first bytes are of nothing known.
    pub compression: Compression,
    /// Where the bytes are read: the file or object, or the temporary copy of a stream or of a file in UTF-16.
    pub(crate) storage: Storage,
    /// The temporary copy, if there is one. It is deleted with the last clone of this value, or when the run is ended.
    pub(super) spool: Option<Arc<Unfinished>>,
    /// The real path or address of a file in UTF-16 whose copy is read; `None` for a stream, or without a copy.
    pub(super) original: Option<PathBuf>,
    /// The reason why it cannot be read, if that is known beforehand. Reading it yields this corruption alone.
    pub(crate) problem: Option<CorruptionCause>,
    /// Length, time and identity of `storage` when it was found.
    found: Option<Stamp>,
    /// The header that names the columns of CSV. `None` for other formats, an empty file, or one without.
    pub(crate) header: Option<Arc<CsvHeader>>,
    /// Bytes of memory that a reader needs to decompress it, or for the footer of Parquet and the like.
    pub(super) decoding: u64,
    /// True for a gzip file of short members, as far as its first bytes tell: [`Compression::has_short_members`]. Then
    /// a member for which there is too little memory ends the reading, as such a record does.
    pub(crate) has_short_members: bool,
    /// The dictionary of its Zstandard frames; empty if they need none.
    pub(crate) dictionary: Arc<[u8]>,
}

/// An input of a run, its position in the list of inputs, and the options by which it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadInput<'a> {
    pub shard: u32,
    pub input: &'a Input,
    pub options: &'a ReadOptions,
}

impl Input {
    /// The name in results of the document in this row, `PATH:ROW`, where it has no ID of its own.
    pub fn name_of(&self, row: u32) -> String {
        format!("{}:{row}", self.path.display())
    }

    /// Size of the stored file, or of the copy that is read, in bytes when it was found; 0 if it is not known.
    pub fn stored_bytes(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.length)
    }

    /// The time when the file was last written; of a copy, that of the original. `None` for an object or a stream. It
    /// shows changes that an [`InputMark`](super::InputMark) of a large file does not.
    pub(crate) fn written(&self) -> Option<SystemTime> {
        match self.spool {
            Some(_) => fs::metadata(self.known_by()).and_then(|found| found.modified()).ok(),
            None => self.found.as_ref()?.modified,
        }
    }

    /// True if the file has the length, time and identity, or the object the version, that were found. No content is
    /// read for this.
    pub(crate) fn is_as_found(&self) -> bool {
        self.storage.is_as_found(self.found.as_ref())
    }

    /// The real path of the file, the address of the object, or the path of the copy of a stream. No output may replace
    /// what is there.
    pub fn stored(&self) -> &Path {
        self.original.as_deref().unwrap_or(self.storage.path())
    }

    /// The object that holds its bytes; `None` if a file does.
    pub(super) fn object(&self) -> Option<&Object> {
        match &self.storage {
            Storage::File(_) => None,
            Storage::Object(object) => Some(object),
        }
    }

    /// The error of the store, if some reader of the object failed. The object is not corrupt, and may be read later.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.object()?.failure()
    }

    /// Bytes of memory that a reader holds beyond those for a plain file: read ahead of an object, and to decompress.
    pub(crate) fn read_ahead(&self) -> u64 {
        self.object().map_or(0, Object::read_ahead) + self.decoding
    }

    /// The name of the input in files that runs make of it, such as sketches: its real path or its address. For a
    /// stream, `stream:` and the user's name, which sorts behind all of these.
    pub(crate) fn known_by(&self) -> Cow<'_, Path> {
        match self.is_stream() {
            true => Cow::Owned(PathBuf::from(format!("stream:{}", self.path.display()))),
            false => Cow::Borrowed(self.stored()),
        }
    }

    /// The error, if it cannot be opened, such as a link that leads nowhere. `None` also where it can be opened and has
    /// another problem.
    pub(crate) fn cannot_open(&self) -> Option<&str> {
        match &self.problem {
            Some((CorruptionKind::Unreadable, error)) => Some(error),
            _ => None,
        }
    }

    /// True for standard input or another stream, of which a copy is read.
    pub fn is_stream(&self) -> bool {
        self.spool.is_some() && self.original.is_none()
    }

    /// An input that messages call `path` and whose bytes are in `storage`; nothing else is known of it yet.
    pub(super) fn new(path: &Path, storage: &Storage, format: Format, compression: Compression) -> Self {
        Self {
            path: path.to_path_buf(),
            format,
            compression,
            storage: storage.clone(),
            spool: None,
            original: None,
            problem: None,
            found: storage.stamp(),
            header: None,
            decoding: 0,
            has_short_members: false,
            dictionary: Arc::default(),
        }
    }
}
