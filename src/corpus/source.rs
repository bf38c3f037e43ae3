//! A stored file, plain or compressed, that is decoded into a [`Feed`] step by step.

use std::io::Read;

use super::corruption::CorruptionKind;
use super::feed::{Feed, STEP};
use super::filetype::{Compression, Format};
use super::gzip::GzipSource;
use super::options::ReadRules;
use super::storage::{Storage, StoredFile};
use super::zst::{ZstdSource, dictionary_of};

/// A stored file being decoded.
pub(crate) enum Source {
    Plain(PlainSource),
    Gzip(Box<GzipSource>),
    Zstd(Box<ZstdSource>),
}

impl Source {
    /// A decoder of a file from where it stands. `dictionary` is that of its Zstandard frames, empty without one.
    ///
    /// # Errors
    /// If Zstandard refuses the dictionary or the longest window.
    pub fn new(
        file: StoredFile,
        compression: Compression,
        format: Format,
        dictionary: &[u8],
        rules: &ReadRules,
    ) -> std::io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(PlainSource { file, read: 0, done: false }),
            Compression::Gzip => Self::Gzip(Box::new(GzipSource::new(file, format))),
            Compression::Zstd => {
                Self::Zstd(Box::new(ZstdSource::new(file, dictionary, rules.longest_window)?))
            }
        })
    }

    /// Decodes some more bytes into the feed, or notes a gap there; false at the end of the file.
    pub fn fill(&mut self, feed: &mut Feed) -> bool {
        match self {
            Self::Plain(source) => source.fill(feed),
            Self::Gzip(source) => source.fill(feed),
            Self::Zstd(source) => source.fill(feed),
        }
    }

    /// True if the next gzip member was inflated ahead.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Gzip(source) if source.is_ready())
    }

    /// True if gzip members were inflated ahead, and none of them is left; false if none were.
    pub fn is_used_up(&self) -> bool {
        matches!(self, Self::Gzip(source) if source.is_used_up())
    }

    /// Stored bytes that are decoded so far, from where the file stood.
    pub fn stored(&self) -> u64 {
        match self {
            Self::Plain(source) => source.read,
            Self::Gzip(source) => source.window.offset(),
            Self::Zstd(source) => source.window.offset(),
        }
    }
}

/// Decodes a file from its start on, until `find` returns something, or the file ends. `find` gets all bytes that are
/// decoded so far, and true if none follow. `None` if it found nothing.
///
/// # Errors
/// If the file cannot be opened, or its dictionary does not decode.
pub(crate) fn find_at_start<T>(
    storage: &Storage,
    compression: Compression,
    format: Format,
    mut find: impl FnMut(&[u8], bool) -> Option<T>,
) -> std::io::Result<Option<T>> {
    let dictionary = dictionary_of(|length| storage.head(length))?;
    let mut source = Source::new(storage.open()?, compression, format, &dictionary, &ReadRules::default())?;
    let mut feed = Feed::new(compression == Compression::None);
    loop {
        let more = source.fill(&mut feed);
        let found = find(&feed.bytes[..feed.filled], !more);
        if found.is_some() || !more {
            return Ok(found);
        }
    }
}

/// A file that is not compressed.
#[derive(Debug)]
pub(crate) struct PlainSource {
    file: StoredFile,
    read: u64,
    done: bool,
}

impl PlainSource {
    fn fill(&mut self, feed: &mut Feed) -> bool {
        while !self.done {
            match self.file.read(&mut feed.room(STEP)[..STEP]) {
                Ok(0) => self.done = true,
                Ok(n) => {
                    feed.filled += n;
                    self.read += n as u64;
                    return true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.done = true;
                    feed.gap(self.read, CorruptionKind::Unreadable, false, error.to_string());
                    return true;
                }
            }
        }
        false
    }
}
