//! Decoded bytes, with the places where decoding can start and where bytes are missing.
//!
//! The decoded stream is all that a file decodes to; of a plain file, the file itself. Bytes that do not decode leave a
//! gap in it, which has no length there.

use std::collections::VecDeque;

use super::corruption::CorruptionKind;
use crate::document::Place;

/// The number of decoded bytes that a streaming source adds at once.
pub(crate) const STEP: usize = 256 << 10;

/// The start of a gzip member or Zstandard frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Offset in the decoded stream.
    pub decoded: u64,
    /// Offset in the stored file.
    pub stored: u64,
    /// The decoded and the stored offset of its end, if it is known already.
    pub end: Option<(u64, u64)>,
}

/// A place in the decoded stream at which bytes are missing.
#[derive(Clone, Debug)]
pub(crate) struct Break {
    /// Offset in the decoded stream.
    pub decoded: u64,
    /// Offset in the stored file of the corrupt member or frame, or of the missing bytes.
    pub offset: u64,
    pub kind: CorruptionKind,
    /// The finding, in words.
    pub detail: String,
    /// True if a record is lost by it.
    pub lost: bool,
}

/// The buffer that sources decode into.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    /// Decoded bytes up to `filled`, room for more behind.
    pub bytes: Vec<u8>,
    /// The number of decoded bytes in `bytes`.
    pub filled: usize,
    /// Offset of `bytes[0]` in the decoded stream.
    pub base: u64,
    /// The members and frames in order of both offsets; the first one may lie before `base`.
    pub starts: VecDeque<Start>,
    /// The gaps that are not passed yet, in order.
    pub breaks: VecDeque<Break>,
    /// True if the file is not compressed: offsets in it and in the decoded stream are the same.
    pub plain: bool,
    /// Decoded bytes that a gzip member may have, as memory allows, where members are short; `usize::MAX` elsewhere.
    pub most: usize,
    /// Decoded bytes that a member above `most` has at least. Once it is set, reading ends.
    pub too_long: Option<usize>,
}

impl Feed {
    /// An empty buffer at the start of a stream; `plain` says that the file is not compressed.
    pub fn new(plain: bool) -> Self {
        Self { plain, most: usize::MAX, ..Self::default() }
    }

    /// The decoded offset behind the last decoded byte.
    pub fn decoded(&self) -> u64 {
        self.base + self.filled as u64
    }

    /// Room for at least `n` bytes behind the decoded ones; who fills it adds to `filled`.
    pub fn room(&mut self, n: usize) -> &mut [u8] {
        if self.bytes.len() < self.filled + n {
            self.bytes.resize(self.filled + n, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Notes that a member or frame starts behind the decoded bytes, and where it ends, if that is known.
    pub fn start(&mut self, stored: u64, end: Option<(u64, u64)>) {
        self.starts.push_back(Start { decoded: self.decoded(), stored, end });
    }

    /// Notes that bytes are missing behind the decoded ones; `lost` says that they cost a record.
    pub fn gap(&mut self, offset: u64, kind: CorruptionKind, lost: bool, detail: String) {
        self.breaks.push_back(Break { decoded: self.decoded(), offset, kind, detail, lost });
    }

    /// The member or frame that holds the decoded offset; `None` if the file is not compressed.
    pub fn start_of(&self, decoded: u64) -> Option<Start> {
        let next = self.starts.partition_point(|s| s.decoded <= decoded);
        next.checked_sub(1).map(|i| self.starts[i])
    }

    /// The place of a decoded offset: the stored offset at which decoding must start, and the decoded bytes between.
    /// Length and member are left 0.
    pub fn place(&self, decoded: u64) -> Place {
        let (offset, within) = match self.start_of(decoded) {
            Some(start) if !self.plain => (start.stored, decoded - start.decoded),
            _ => (decoded, 0),
        };
        Place { offset, within, ..Place::default() }
    }
}
