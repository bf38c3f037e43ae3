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
    /// Makes a decoder of a file from where it stands. By `format` a gzip decoder tells members from other bytes.
    /// `dictionary` holds the decoded bytes of [`dictionary_of`]; it is empty if Zstandard frames need none. Only a
    /// Zstandard decoder uses `rules`, of which it takes the longest window.
    ///
    /// # Errors
    /// An error says that Zstandard refuses the dictionary or [`ReadRules::longest_window`].
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

    /// Decodes a step more into the feed. A step adds at most [`STEP`] bytes, or about 8 MiB of a gzip member.
    /// Corruption is noted as a gap in the feed, and decoding goes on behind it. After an error of reading, which is a
    /// gap too, the file counts as ended. Returns false at the end of the file. A step may add nothing, as for zeros
    /// between members. No step may follow one that sets [`Feed::too_long`].
    pub fn fill(&mut self, feed: &mut Feed) -> bool {
        match self {
            Self::Plain(source) => source.fill(feed),
            Self::Gzip(source) => source.fill(feed),
            Self::Zstd(source) => source.fill(feed),
        }
    }

    /// Returns true if the next gzip member was inflated ahead of its turn, by a thread that did not hold the file. A
    /// block of records then goes on beyond its size in bytes, for its end drops the members that are left.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Gzip(source) if source.is_ready())
    }

    /// Returns true if this block of records was handed a list of gzip members inflated ahead, and none is left. The
    /// list may have been empty. The block then ends, unless a long record is not whole. The next block may get a
    /// list of its own. Returns false if the block was handed no list.
    pub fn is_used_up(&self) -> bool {
        matches!(self, Self::Gzip(source) if source.is_used_up())
    }

    /// Returns the number of stored bytes that are decoded or passed over, from where the file stood when the decoder
    /// was made. Members that were inflated ahead count once they are in the feed.
    pub fn stored(&self) -> u64 {
        match self {
            Self::Plain(source) => source.read,
            Self::Gzip(source) => source.window.offset(),
            Self::Zstd(source) => source.window.offset(),
        }
    }
}

/// Looks for something at the start of a file, such as the names of columns, and decodes no more than that takes.
/// After each step `find` gets all bytes that are decoded so far, and true if none follow. The first `Some` of `find`
/// ends the search. `None` says that the file ended without one. Corruption is passed over.
///
/// # Errors
/// An error says that the file cannot be opened, or that its dictionary cannot be read, decoded or used.
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
