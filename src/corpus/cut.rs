//! The words in which a format tells where records begin and end.

use std::collections::VecDeque;

use super::corruption::CorruptionKind;
use super::feed::Start;

/// The end of the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// More can be had.
    Unknown,
    /// The end of the file.
    File,
    /// Bytes are missing.
    Gap,
}

/// The starts of members or frames, seen from the bytes at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberStarts<'a> {
    starts: &'a VecDeque<Start>,
    /// Decoded offset of the first byte at hand.
    origin: u64,
    /// The first byte at hand stands at the start of a line.
    pub line_start: bool,
}

impl<'a> MemberStarts<'a> {
    pub fn new(starts: &'a VecDeque<Start>, origin: u64, line_start: bool) -> Self {
        Self { starts, origin, line_start }
    }

    /// No members.
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

/// The next piece at the start of the bytes at hand. All numbers are bytes from there.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing can be said before there are this many bytes, or the end.
    Need(usize),
    /// Nothing of interest.
    Skip(usize),
    /// A whole record.
    Record {
        content_start: usize,
        content_end: usize,
        /// Where to go on, behind the line ends.
        end: usize,
        /// True if it may be a document.
        document: bool,
        /// True if it is what a server sent, from which no text was taken yet.
        raw: bool,
    },
    /// Corruption; the next record is to be looked for from `at` on.
    Flaw { kind: CorruptionKind, at: usize, record: bool, detail: String },
}

impl Step {
    /// Corruption that costs a record.
    pub fn flaw(kind: CorruptionKind, at: usize, detail: impl Into<String>) -> Self {
        Self::Flaw { kind, at, record: true, detail: detail.into() }
    }
}
