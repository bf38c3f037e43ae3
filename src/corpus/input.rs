//! A file to read.

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
    /// The name for people, as the user gave it; `-` for standard input.
    pub path: PathBuf,
    /// The format of its records.
    pub format: Format,
    /// The compression, by its content, whatever its name says.
    pub compression: Compression,
    /// Where the bytes are: the same file or object, or the copy of a stream.
    pub(crate) storage: Storage,
    /// Keeps a copy until the last clone is gone, or the run is ended.
    pub(super) spool: Option<Arc<Unfinished>>,
    /// The original of the copy, if it is no stream: a file in UTF-16.
    pub(super) original: Option<PathBuf>,
    /// Why it cannot be read, if that is known; reading it yields this corruption.
    pub(crate) problem: Option<CorruptionCause>,
    /// The file when it was found.
    found: Option<Stamp>,
    /// The columns (CSV).
    pub(crate) header: Option<Arc<CsvHeader>>,
    /// Bytes that decompressing it holds.
    pub(super) decoding: u64,
    /// True if it is of short gzip members, as far as its head tells.
    pub(crate) has_short_members: bool,
    /// The dictionary of its Zstandard frames; empty if they need none.
    pub(crate) dictionary: Arc<[u8]>,
}

/// An input of a run, its number among the inputs, and the options by which it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadInput<'a> {
    pub shard: u32,
    pub input: &'a Input,
    pub options: &'a ReadOptions,
}

impl Input {
    /// The name in results of a document that has no ID for itself alone: the file and the row of the document.
    pub fn name_of(&self, row: u32) -> String {
        format!("{}:{row}", self.path.display())
    }

    /// Size of the stored file in bytes when it was found, 0 if it is not known.
    pub fn stored_bytes(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.length)
    }

    /// The time when the file that was found was written, not a copy of it; none of an object or a stream.
    pub(crate) fn written(&self) -> Option<SystemTime> {
        match self.spool {
            Some(_) => fs::metadata(self.known_by()).and_then(|found| found.modified()).ok(),
            None => self.found.as_ref()?.modified,
        }
    }

    /// True if the file is the one that was found, as far as that shows from without.
    pub(crate) fn is_as_found(&self) -> bool {
        self.storage.is_as_found(self.found.as_ref())
    }

    /// The place of the bytes: the file behind any link, the address of the object, or the copy of a stream.
    pub fn stored(&self) -> &Path {
        self.original.as_deref().unwrap_or(self.storage.path())
    }

    pub(super) fn object(&self) -> Option<&Object> {
        match &self.storage {
            Storage::File(_) => None,
            Storage::Object(object) => Some(object),
        }
    }

    /// Why bytes of an object could not be had, if some could not: another time they may.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.object()?.failure()
    }

    /// Bytes that a reader of it holds beside what one of a plain file does: of a store, and to decompress.
    pub(crate) fn read_ahead(&self) -> u64 {
        self.object().map_or(0, Object::read_ahead) + self.decoding
    }

    /// The name by which files made from it know it: its real path or its address; for a stream the user's name, in a
    /// form that sorts behind all of these.
    pub(crate) fn known_by(&self) -> Cow<'_, Path> {
        match self.is_stream() {
            true => Cow::Owned(PathBuf::from(format!("stream:{}", self.path.display()))),
            false => Cow::Borrowed(self.stored()),
        }
    }

    /// Why it cannot be opened, if so: a link in a folder that leads nowhere, for example.
    pub(crate) fn cannot_open(&self) -> Option<&str> {
        match &self.problem {
            Some((CorruptionKind::Unreadable, error)) => Some(error),
            _ => None,
        }
    }

    /// True for the copy of standard input or of another stream.
    pub fn is_stream(&self) -> bool {
        self.spool.is_some() && self.original.is_none()
    }

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
