//! The interface by which the functions `step` and `seek` of a format say where records begin and end in decoded bytes.
//!
//! The *bytes at hand* are those that are decoded and not yet cut. Positions count from the first of them.

use std::collections::VecDeque;

use super::corruption::CorruptionKind;
use super::feed::Start;

/// The reason why the bytes at hand end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing ends them yet: more of the file can be decoded.
    Unknown,
    /// The file ends.
    File,
    /// Bytes behind them are missing, since they do not decode.
    Gap,
}

/// The starts of gzip members or Zstandard frames, as positions in the bytes at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberStarts<'a> {
    starts: &'a VecDeque<Start>,
    /// Decoded offset of the first byte at hand.
    origin: u64,
    /// True if the first byte at hand stands at the start of a line.
    pub line_start: bool,
}

impl<'a> MemberStarts<'a> {
    /// The starts of a feed, for bytes at hand of which the first has the decoded offset `origin`.
    pub fn new(starts: &'a VecDeque<Start>, origin: u64, line_start: bool) -> Self {
        Self { starts, origin, line_start }
    }

    /// No starts, for bytes that begin a line.
    pub fn none() -> Self {
        Self { starts: const { &VecDeque::new() }, origin: 0, line_start: true }
    }

    /// The starts at positions from `from` up to, but without, `to`.
    pub fn between(&self, from: usize, to: usize) -> impl Iterator<Item = usize> + use<'a> {
        let origin = self.origin;
        let (from, to) = (origin + from as u64, origin + to as u64);
        let first = self.starts.partition_point(|s| s.decoded < from);
        let within = self.starts.range(first..).take_while(move |s| s.decoded < to);
        within.map(move |s| (s.decoded - origin) as usize)
    }
}

/// The finding at the start of the bytes at hand. All numbers are positions in them.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing can be said before this many bytes are at hand, or the end.
    Need(usize),
    /// So many bytes belong to no record: line ends, blanks or zeros.
    Skip(usize),
    /// A whole record.
    Record {
        /// The end of its header (WARC); 0 for other formats.
        content_start: usize,
        /// The end of its content, before the line ends.
        content_end: usize,
        /// The start of what follows, behind the line ends.
        end: usize,
        /// True if it may be a document, and so has a row.
        document: bool,
        /// True if it is what a server sent, from which no text was taken yet.
        raw: bool,
    },
    /// Corruption, of a record if `record` is true. The next record is to be looked for from `at` on.
    Flaw { kind: CorruptionKind, at: usize, record: bool, detail: String },
}

impl Step {
    /// Corruption that costs a record.
    pub fn flaw(kind: CorruptionKind, at: usize, detail: impl Into<String>) -> Self {
        Self::Flaw { kind, at, record: true, detail: detail.into() }
    }
}
