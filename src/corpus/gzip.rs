//! gzip files member by member.
//!
//! A member is inflated whole with libdeflate. One that is larger than [`MEMBER_CAP`], or that libdeflate
//! refuses, is inflated as a stream, which yields what stands before the corruption. After corruption the next
//! member is looked for: bytes that look like a gzip header and inflate to the start of a record, or
//! inflate without fault. Neither the length at the end of a member nor anything else in the file is
//! trusted for the size of a buffer.

use flate2::{Decompress, DecompressError, FlushDecompress, Status};

use super::ahead::{AHEAD, InflatedMembers, MEMBER_CAP};
use super::corruption::CorruptionKind;
use super::feed::{Feed, STEP};
use super::filetype::Format;
use super::gzip_header::{GZIP_MAGIC, GzipHeader, HEADER_CAP, header};
use super::storage::StoredFile;
use super::window::{Window, search_from};
use crate::display::counted;
use crate::kernel::inflate::{InflateError, Inflater};

/// Members above so many are not tried whole where records are lines. There one is most often a whole file, and what
/// is inflated of it before it turns out to be too large is inflated in vain. No line can be copied as stored.
const LINES_TRY: usize = 1 << 20;
/// No member is stored in so many bytes more than it has decoded: stored blocks cost 5 bytes in 65535.
const STORED_MORE: usize = 1 << 20;
/// Stored bytes to have at hand before the first member is tried, instead of [`AHEAD`].
const FIRST_AHEAD: usize = 32 << 10;
/// The number of possible members in a file that are inflated whole when the next member is looked for. Later ones
/// count only if they start like a record. This bounds the time that a hostile file takes.
const FULL_PROBES: u32 = 10_000;
/// Decoded bytes of such a member that are inflated at a time.
const PROBED: usize = 64 << 10;

/// A member being inflated as a stream.
#[derive(Debug)]
struct MemberStream {
    crc: crc32fast::Hasher,
    /// Stored offset of the member.
    start: u64,
    /// libdeflate refused it, or gave it up below [`MEMBER_CAP`]: it is inflated up to the corruption, or to that size,
    /// before anything of it is used.
    suspect: bool,
}

/// A gzip file being decoded.
#[derive(Debug)]
pub(crate) struct GzipSource {
    /// The stored bytes that come next.
    pub window: Window,
    format: Format,
    inflater: Inflater,
    raw: Decompress,
    stream: Option<MemberStream>,
    full_probes: u32,
    ahead: usize,
    ready: Option<Ready>,
}

/// Members that were inflated ahead, from the next one on.
#[derive(Debug)]
struct Ready {
    inflated: InflatedMembers,
    /// Where the bytes of the next member stand: in `inflated`, or in the feed, if they were put there at once.
    at: usize,
    in_place: bool,
    /// True if one has been used.
    used: bool,
}

impl GzipSource {
    /// A decoder of a file from where it stands. The format of its records tells members from other bytes.
    pub fn new(file: StoredFile, format: Format) -> Self {
        Self {
            window: Window::new(file),
            format,
            inflater: Inflater::new(),
            raw: Decompress::new(false),
            stream: None,
            full_probes: 0,
            ahead: FIRST_AHEAD,
            ready: None,
        }
    }

    /// Takes over what was inflated ahead for a block, and returns the buffer of the block. Its first `carry` bytes are
    /// for those left over from the block before. Behind them stand the bytes of all members, if the first of these is
    /// the next one of the file.
    pub fn take_over(&mut self, mut inflated: InflatedMembers, carry: usize) -> Vec<u8> {
        let offset = self.window.offset();
        let in_place =
            self.stream.is_none() && inflated.members.front().is_some_and(|member| member.stored.0 == offset);
        let mut bytes = Vec::new();
        if in_place || inflated.members.is_empty() {
            bytes = std::mem::take(&mut inflated.bytes);
        }
        let mut at = 0;
        if in_place && carry > 0 {
            let length: usize = inflated.members.iter().map(|member| member.length).sum();
            bytes.resize(bytes.len().max(length + carry), 0);
            bytes.copy_within(..length, carry);
            at = carry;
        }
        self.ready = Some(Ready { inflated, at, in_place, used: false });
        bytes
    }

    /// True if the next member was inflated ahead.
    pub fn is_ready(&self) -> bool {
        let next = self.ready.as_ref().and_then(|ready| ready.inflated.members.front());
        self.stream.is_none() && next.is_some_and(|member| member.stored.0 == self.window.offset())
    }

    /// Returns true if a list of members was [taken over](Self::take_over), and none of it is left, or it was empty.
    /// Returns false if no list was taken over since the last [`let_go`](Self::let_go).
    pub fn is_used_up(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.inflated.members.is_empty())
    }

    /// Drops what is left of the members that were inflated ahead. Returns whether any of them was used; `None` if none
    /// were taken over.
    pub fn let_go(&mut self) -> Option<bool> {
        self.ready.take().map(|ready| ready.used)
    }

    /// Adds the next member to the feed, if it was inflated ahead; false if it was not.
    fn fill_ready(&mut self, feed: &mut Feed) -> bool {
        let offset = self.window.offset();
        let Some(Ready { inflated: InflatedMembers { members, bytes }, at, in_place, used }) =
            &mut self.ready
        else {
            return false;
        };
        while let Some(&member) = members.front().filter(|member| member.stored.0 <= offset) {
            members.pop_front();
            let from = *at;
            *at += member.length;
            let (start, end) = member.stored;
            if start == offset {
                if !*in_place {
                    feed.room(member.length)[..member.length].copy_from_slice(&bytes[from..*at]);
                }
                *used = true;
                feed.start(start, Some((feed.decoded() + member.length as u64, end)));
                feed.filled += member.length;
                self.window.move_to(end);
                return true;
            }
        }
        false
    }

    /// Decodes the next member, or a step of a long one, into the feed, or notes corruption; false at the file's end.
    pub fn fill(&mut self, feed: &mut Feed) -> bool {
        if self.stream.is_some() {
            self.inflate_stream(feed);
            return true;
        }
        if self.fill_ready(feed) {
            return true;
        }
        self.window.ensure(self.ahead);
        self.ahead = AHEAD;
        let start = self.window.offset();
        let bytes = self.window.bytes();
        if bytes.is_empty() {
            if let Some(error) = self.window.failure.take() {
                feed.gap(start, CorruptionKind::Unreadable, false, error.to_string());
                return true;
            }
            return false;
        }
        let zeros = bytes.iter().take_while(|&&b| b == 0).count();
        if zeros > 0 {
            // Padding behind the last member, or between two: no data, and not corrupt.
            self.window.consume(zeros);
            return true;
        }
        if !bytes.starts_with(&GZIP_MAGIC[..bytes.len().min(3)]) {
            self.seek_member();
            let n = counted(self.window.offset() - start, "byte", "bytes");
            feed.gap(start, CorruptionKind::Malformed, false, format!("{n} of no gzip member"));
            return true;
        }
        self.inflate_member(feed);
        true
    }

    /// Inflates the member at hand whole, or starts it as a stream.
    fn inflate_member(&mut self, feed: &mut Feed) {
        let start = self.window.offset();
        // Headers are read by one rule, ours: of the two decoders below each takes some that the other refuses.
        let length = match self.header() {
            GzipHeader::Length(n) => n,
            GzipHeader::Short => {
                let detail = "the file ends inside a gzip header".into();
                return self.lose(feed, start, CorruptionKind::Truncated, true, detail);
            }
            GzipHeader::Bad => {
                return self.lose(feed, start, CorruptionKind::Undecodable, true, "no gzip header".into());
            }
        };
        let most = if self.format == Format::Wet { MEMBER_CAP } else { LINES_TRY };
        let most = most.min(feed.most);
        let input = most + STORED_MORE;
        let mut room = STEP;
        let suspect = loop {
            let bytes = self.window.bytes();
            let output = feed.room(room);
            // Which members are taken whole depends on no buffer.
            let had = output.len().min(most);
            match self.inflater.gzip_member(bytes, &mut output[..had]) {
                Ok(done) => {
                    let end = (feed.decoded() + done.produced as u64, start + done.consumed as u64);
                    feed.start(start, Some(end));
                    feed.filled += done.produced;
                    return self.window.consume(done.consumed);
                }
                Err(InflateError::InsufficientSpace) => {
                    if had == feed.most {
                        return feed.too_long = Some(had + 1);
                    }
                    if had == most {
                        break most < MEMBER_CAP;
                    }
                    room = (had * 4).min(most);
                }
                Err(InflateError::BadData) => {
                    if self.window.complete() || bytes.len() >= input {
                        break true;
                    }
                    let more = (bytes.len() * 4).min(input);
                    self.window.ensure(more);
                }
            }
        };
        feed.start(start, None);
        self.raw.reset(false);
        self.window.consume(length);
        self.stream = Some(MemberStream { crc: crc32fast::Hasher::new(), start, suspect });
        self.inflate_stream(feed);
    }

    /// The header at hand, with as many bytes read ahead as it needs.
    fn header(&mut self) -> GzipHeader {
        loop {
            match header(self.window.bytes()) {
                GzipHeader::Short if !self.window.complete() => {
                    let more = (self.window.bytes().len() * 2).clamp(64, HEADER_CAP + 1);
                    if self.window.ensure(more) > HEADER_CAP {
                        return header(self.window.bytes());
                    }
                }
                other => return other,
            }
        }
    }

    /// Inflates a step of the member at hand, or a suspect member whole.
    fn inflate_stream(&mut self, feed: &mut Feed) {
        let Some(mut stream) = self.stream.take() else { return };
        loop {
            let available = self.window.ensure(1);
            let output = &mut feed.room(STEP)[..STEP];
            let (result, consumed, produced) = self.decompress(output);
            stream.crc.update(&output[..produced]);
            feed.filled += produced;
            let (kind, what) = match result {
                Ok(Status::StreamEnd) => return self.end_member(feed, stream),
                Ok(_) if available == 0 && produced == 0 => {
                    (CorruptionKind::Truncated, "the file ends inside a gzip member".to_owned())
                }
                Ok(_) if consumed == 0 && produced == 0 => {
                    (CorruptionKind::Undecodable, "the deflate stream stands still".to_owned())
                }
                Ok(_) if stream.suspect && self.raw.total_out() > feed.most as u64 => {
                    return feed.too_long = Some(self.raw.total_out() as usize);
                }
                Ok(_) if stream.suspect && self.raw.total_out() <= MEMBER_CAP as u64 => continue,
                Ok(_) => {
                    stream.suspect = false;
                    self.stream = Some(stream);
                    return;
                }
                Err(error) => (CorruptionKind::Undecodable, error.to_string()),
            };
            let detail = format!("{what} after {} decoded bytes", self.raw.total_out());
            return self.lose(feed, stream.start, kind, true, detail);
        }
    }

    /// Inflates some of what is at hand; says how many bytes went in and came out.
    fn decompress(&mut self, into: &mut [u8]) -> (Result<Status, DecompressError>, usize, usize) {
        let (before_in, before_out) = (self.raw.total_in(), self.raw.total_out());
        let result = self.raw.decompress(self.window.bytes(), into, FlushDecompress::None);
        let consumed = (self.raw.total_in() - before_in) as usize;
        self.window.consume(consumed);
        (result, consumed, (self.raw.total_out() - before_out) as usize)
    }

    /// Checksum and length at the end of a member; none where the file ends before.
    fn trailer(&mut self) -> Option<(u32, u32)> {
        self.window.ensure(8);
        let (trailer, _) = self.window.bytes().as_chunks::<4>();
        let &[crc, length, ..] = trailer else { return None };
        Some((u32::from_le_bytes(crc), u32::from_le_bytes(length)))
    }

    /// Compares the trailer of a member with what was decoded.
    fn end_member(&mut self, feed: &mut Feed, stream: MemberStream) {
        let found = stream.crc.finalize();
        let Some((crc, length)) = self.trailer() else {
            // The deflate stream is whole, and nothing speaks against it: no record is lost.
            let detail = "the file ends inside the checksum of a gzip member".into();
            return self.lose(feed, stream.start, CorruptionKind::Truncated, false, detail);
        };
        let decoded = self.raw.total_out() as u32;
        if crc == found && length == decoded {
            return self.window.consume(8);
        }
        let detail =
            format!("CRC-32 {found:08x} and length {decoded} decoded, {crc:08x} and {length} stored");
        // A suspect member is here as a whole: if it is one record, that record is wrong.
        let from = feed.filled.saturating_sub(self.raw.total_out() as usize);
        let lost = stream.suspect && !self.format.holds_several(&feed.bytes[from..feed.filled]);
        if lost {
            feed.filled = from;
        }
        // The deflate stream found its end, but perhaps not its own: what follows decides where to go on.
        if self.window.bytes().get(8..11).is_none_or(|next| next == GZIP_MAGIC) {
            self.window.consume(8);
            feed.gap(stream.start, CorruptionKind::Checksum, lost, detail);
        } else {
            self.lose(feed, stream.start, CorruptionKind::Checksum, lost, detail);
        }
    }

    /// Notes a corrupt member and goes on with the next one, which may start inside what this one seemed to
    /// be.
    fn lose(&mut self, feed: &mut Feed, start: u64, kind: CorruptionKind, lost: bool, detail: String) {
        self.window.move_to(search_from(start, self.window.offset()));
        self.seek_member();
        let n = counted(self.window.offset() - start, "byte", "bytes");
        let detail = format!("{detail}; {n} up to the next member or the end of the file");
        feed.gap(start, kind, lost, detail);
    }

    /// Moves to the next plausible member at or after this place, or to the end of the file.
    fn seek_member(&mut self) {
        while self.window.seek(&GZIP_MAGIC) && !self.plausible() {
            self.window.consume(1);
        }
    }

    /// True if the bytes at hand look like a member of this file.
    fn plausible(&mut self) -> bool {
        let GzipHeader::Length(n) = self.header() else { return false };
        self.window.ensure(n + AHEAD);
        let mut prefix = [0; 64];
        self.raw.reset(false);
        let _ = self.raw.decompress(&self.window.bytes()[n..], &mut prefix, FlushDecompress::None);
        let got = (self.raw.total_out() as usize).min(prefix.len());
        if self.format.looks_like_start(&prefix[..got]) {
            return true;
        }
        if self.full_probes >= FULL_PROBES {
            return false;
        }
        self.full_probes += 1;
        let start = self.window.offset();
        self.window.consume(n);
        let is_member = self.inflates();
        self.window.move_to(start);
        is_member
    }

    /// True if what is at hand is the deflate stream of a member: its checksum fits, or there are 8 MiB without a
    /// fault, which are no accident either.
    fn inflates(&mut self) -> bool {
        let mut piece = vec![0; PROBED];
        let mut crc = crc32fast::Hasher::new();
        self.raw.reset(false);
        loop {
            self.window.ensure(1);
            let (result, consumed, produced) = self.decompress(&mut piece);
            crc.update(&piece[..produced]);
            let length = self.raw.total_out();
            match result {
                _ if length > MEMBER_CAP as u64 => return true,
                Ok(Status::StreamEnd) => return self.trailer() == Some((crc.finalize(), length as u32)),
                Ok(_) if consumed > 0 || produced > 0 => {}
                _ => return false,
            }
        }
    }
}
