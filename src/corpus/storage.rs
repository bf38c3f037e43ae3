//! The place of an input's bytes: a file of this machine, or an object in a store.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::object::{Object, ObjectReader};

/// The place of stored bytes.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// A file of this machine, by its path.
    File(PathBuf),
    /// An object in a store or on a web server, in the version that was found.
    Object(Arc<Object>),
}

impl Storage {
    /// The file's path, or the object's address.
    pub fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Object(object) => object.address(),
        }
    }

    /// Opens the stored bytes for reading from their start. A store is asked for nothing yet.
    pub fn open(&self) -> io::Result<StoredFile> {
        Ok(match self {
            Self::File(path) => StoredFile::File(File::open(path)?),
            Self::Object(object) => StoredFile::Object(object.open()),
        })
    }

    /// The first bytes, at most `length`.
    pub fn head(&self, length: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::File(path) => {
                // Room for all of it: without, a short file is read in a dozen steps.
                let mut head = Vec::with_capacity(length.min(64 << 10) as usize);
                File::open(path)?.take(length).read_to_end(&mut head)?;
                Ok(head)
            }
            // A reader would ask for more, and go on asking.
            Self::Object(object) => object.head(length),
        }
    }

    /// The stamp of the file as it is now, or of the object as it was found; `None` if no file is there.
    pub fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::File(path) => Stamp::of(path),
            Self::Object(object) => Some(Stamp { length: object.length(), modified: None, identity: None }),
        }
    }

    /// True if the file still has the stamp `found`, or the object the version in which it was found.
    pub fn is_as_found(&self, found: Option<&Stamp>) -> bool {
        match self {
            Self::File(path) => found.is_some() && Stamp::of(path).as_ref() == found,
            Self::Object(object) => object.is_as_found(),
        }
    }
}

/// The facts by which a file is known to be the same as before. An object needs none but its length: each answer of a
/// store names a version, and bytes of another version are not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The number of bytes.
    pub length: u64,
    /// The time when the file was last written; `None` for an object, or where the system does not say.
    pub modified: Option<SystemTime>,
    /// The device and the number on it (Unix).
    identity: Option<(u64, u64)>,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt;
            Some((found.dev(), found.ino()))
        };
        #[cfg(not(unix))]
        let identity = None;
        Some(Self { length: found.len(), modified: found.modified().ok(), identity })
    }
}

/// Stored bytes being read.
#[derive(Debug)]
pub(crate) enum StoredFile {
    File(File),
    Object(Box<ObjectReader>),
}

impl StoredFile {
    /// The number of bytes.
    pub fn length(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Object(reader) => Ok(reader.length()),
        }
    }

    /// Moves to an offset from the start, from which the next bytes are read.
    pub fn move_to(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.seek(SeekFrom::Start(offset)).map(drop),
            Self::Object(reader) => {
                reader.move_to(offset);
                Ok(())
            }
        }
    }

    /// Appends `most` bytes to a list, or as many as there are. Those that came before an error stay there.
    pub fn append(&mut self, into: &mut Vec<u8>, most: u64) -> io::Result<()> {
        self.take(most).read_to_end(into).map(drop)
    }
}

impl Read for StoredFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(into),
            Self::Object(reader) => reader.read(into),
        }
    }
}
