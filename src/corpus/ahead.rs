//! Members of a gzip file inflated ahead of their turn, by threads that do not hold the file.
//!
//! Where a member begins is known only once the one before it is inflated. But its first bytes can be looked for,
//! and what inflates from there on with a checksum that fits is a member. So a thread claims a stretch of the stored
//! bytes, inflates what it finds there, and hands it over when the stretch's turn comes. Members that do not begin
//! where the file was read to are not used: nothing depends on what was found ahead, but how long it takes.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use memchr::memmem;

use super::feed::STEP;
use super::gzip_header::{GZIP_MAGIC, behind_header};
use crate::kernel::inflate::{InflateError, Inflater};

/// Decoded bytes above which a member is not inflated whole, but as a stream, step by step.
pub(crate) const MEMBER_CAP: usize = 8 << 20;
/// Stored bytes that are read before a member is inflated.
pub(crate) const AHEAD: usize = 256 << 10;
/// Stored bytes that are read behind a stretch, for its last member, before it is known to be longer.
const BEHIND: usize = 16 << 10;

/// Places that look like the start of a member and are tried, before a stretch is given up.
const TRIES: usize = 16;

/// Stretches in a row of which nothing was used, before no more are claimed.
const MISSES: u32 = 4;

/// The stretches of a gzip file, which threads claim one after the other.
#[derive(Debug)]
pub(crate) struct Claims {
    file: Arc<File>,
    length: u64,
    /// Stored offset at which the next one begins.
    next: u64,
    /// Stored bytes of one.
    stretch: u64,
    /// Decoded bytes of one, behind which no further member is inflated.
    most: usize,
    /// Stretches in a row of which nothing was used.
    misses: u32,
}

impl Claims {
    /// The stretches of a file, each of `block_bytes / 4` stored bytes, which decode to about one block.
    ///
    /// # Errors
    /// If the length of the file is not known.
    pub fn new(file: File, block_bytes: usize) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let stretch = (block_bytes as u64 / 4).max(1);
        let most = block_bytes.saturating_mul(4);
        Ok(Self { file: Arc::new(file), length, next: 0, stretch, most, misses: 0 })
    }

    /// The next stretch at or behind the stored offset `from`. `None` at the end of the file, or if nothing was used of
    /// the last stretches. Members of more than `member_cap` decoded bytes are not inflated ahead; less than [`STEP`]
    /// counts as that, and more than [`MEMBER_CAP`] as that.
    pub fn claim(&mut self, from: u64, member_cap: usize) -> Option<Claim> {
        let from = self.next.max(from);
        if from >= self.length || self.misses >= MISSES {
            return None;
        }
        self.next = from + self.stretch;
        let member_cap = member_cap.clamp(STEP, MEMBER_CAP);
        Some(Claim { file: self.file.clone(), from, to: self.next, most: self.most, member_cap })
    }

    /// Notes whether any member of a stretch was used.
    pub fn note(&mut self, used: bool) {
        self.misses = if used { 0 } else { self.misses + 1 };
    }
}

/// A stretch of stored bytes: one thread inflates all members that begin in it.
#[derive(Debug)]
pub(crate) struct Claim {
    file: Arc<File>,
    from: u64,
    to: u64,
    most: usize,
    member_cap: usize,
}

/// A member that was inflated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InflatedMember {
    /// The stored offsets at which it begins and ends.
    pub stored: (u64, u64),
    /// Decoded bytes.
    pub length: usize,
}

/// Members that follow on each other, and their decoded bytes; none if nothing was found.
#[derive(Debug, Default)]
pub(crate) struct InflatedMembers {
    /// The members that are not used yet, in order.
    pub members: VecDeque<InflatedMember>,
    /// Decoded bytes of all members, one behind the other, with room behind. Empty if the reader of the file took them
    /// over.
    pub bytes: Vec<u8>,
}

/// The buffers of a thread that inflates.
#[derive(Debug, Default)]
pub(crate) struct InflateScratch {
    stored: Vec<u8>,
    inflater: Inflater,
}

impl Claim {
    /// Inflates the members of the stretch, up to bytes that cannot be read or are no whole member. `bytes` is a buffer
    /// that is used again, unless it is too large.
    pub fn inflate(&self, scratch: &mut InflateScratch, mut bytes: Vec<u8>) -> InflatedMembers {
        if bytes.len() > 2 * self.most {
            bytes = Vec::new();
        }
        let mut inflated = InflatedMembers { members: VecDeque::new(), bytes };
        let mut stored = StoredClaim { claim: self, bytes: &mut scratch.stored, read: 0 };
        let stretch = (self.to - self.from) as usize;
        // The last member begins in the stretch and ends behind it.
        if stored.read_to(stretch + BEHIND).is_err() {
            return inflated;
        }
        let starts = &stored.read()[..stored.read.min(stretch + GZIP_MAGIC.len() - 1)];
        let starts: Vec<usize> = memmem::find_iter(starts, &GZIP_MAGIC).take(TRIES).collect();
        for start in starts {
            self.members(start, &mut stored, &mut scratch.inflater, &mut inflated);
            if !inflated.members.is_empty() {
                break;
            }
        }
        inflated
    }

    /// The members from this place in the stretch on, as long as they begin there.
    fn members(
        &self,
        mut at: usize,
        stored: &mut StoredClaim<'_>,
        inflater: &mut Inflater,
        InflatedMembers { members, bytes }: &mut InflatedMembers,
    ) {
        let stretch = (self.to - self.from) as usize;
        let (mut filled, mut room) = (0, STEP);
        while at < stretch && filled < self.most && behind_header(&stored.read()[at..]).is_some() {
            if bytes.len() < filled + room {
                bytes.resize(filled + room, 0);
            }
            let had = (bytes.len() - filled).min(self.member_cap);
            match inflater.gzip_member(&stored.read()[at..], &mut bytes[filled..][..had]) {
                Ok(member) => {
                    let end = at + member.consumed;
                    let stored = (self.from + at as u64, self.from + end as u64);
                    members.push_back(InflatedMember { stored, length: member.produced });
                    filled += member.produced;
                    (at, room) = (end, STEP);
                }
                Err(InflateError::InsufficientSpace) if had < self.member_cap => {
                    room = (had * 4).min(self.member_cap);
                }
                // It may go on behind what was read.
                Err(InflateError::BadData)
                    if stored.read < stretch + AHEAD
                        && stored.read_to(stretch + AHEAD).is_ok_and(|more| more > 0) => {}
                Err(InflateError::InsufficientSpace | InflateError::BadData) => return,
            }
        }
    }
}

/// Stored bytes of a claim, as far as they were read.
struct StoredClaim<'a> {
    claim: &'a Claim,
    bytes: &'a mut Vec<u8>,
    read: usize,
}

impl StoredClaim<'_> {
    fn read(&self) -> &[u8] {
        &self.bytes[..self.read]
    }

    /// Reads up to so many bytes from the claim's first on, or as many as there are; says how many came to it.
    fn read_to(&mut self, length: usize) -> io::Result<usize> {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        let more = &mut self.bytes[self.read..length.max(self.read)];
        let read = read_at(&self.claim.file, more, self.claim.from + self.read as u64)?;
        self.read += read;
        Ok(read)
    }
}

/// Reads from an offset on until the buffer is full or the file ends; others may read the file at the same time.
fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(file, &mut into[filled..], offset + filled as u64);
        #[cfg(windows)]
        let read =
            std::os::windows::fs::FileExt::seek_read(file, &mut into[filled..], offset + filled as u64);
        #[cfg(not(any(unix, windows)))]
        let read: io::Result<usize> = Err(io::ErrorKind::Unsupported.into());
        match read {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
