//! A window that slides over a stored file: read ahead when asked, forget what is behind.

use std::io::{self, Seek, SeekFrom};

use super::storage::StoredFile;

/// How many bytes are asked of the operating system at once: few at first, for those who want one record
/// only.
const FIRST_READ: usize = 64 << 10;
/// The same for those who go on.
const READ: usize = 1 << 20;

/// Stored bytes of a member or frame that are kept, to look for another one in them should this one be
/// damaged.
pub(crate) const KEPT: u64 = 16 << 20;
/// The same for a longer one: only this much before the damage.
const KEPT_BEHIND: u64 = 64 << 10;

/// From which stored offset on a search for the next member or frame may be wanted.
pub(crate) fn keep(start: u64, now: u64) -> u64 {
    if now - start <= KEPT { start } else { now - KEPT_BEHIND }
}

/// The bytes of a file from `keep` to wherever was read, of which the user stands at [`Window::offset`].
#[derive(Debug)]
pub(crate) struct Window {
    file: StoredFile,
    buffer: Vec<u8>,
    /// Stored offset of `buffer[0]`.
    base: u64,
    /// Where the user stands, as a position in `buffer`.
    at: usize,
    /// Bytes before this offset will not be asked for again.
    keep: u64,
    eof: bool,
    /// The file stands elsewhere than at the end of `buffer`, to where it is to be moved before it is read again.
    is_moved: bool,
    read: usize,
    /// What the operating system said when it stopped reading; the file counts as ended there.
    pub failure: Option<io::Error>,
}

impl Window {
    pub fn new(file: StoredFile) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            base: 0,
            at: 0,
            keep: 0,
            eof: false,
            is_moved: false,
            read: FIRST_READ,
            failure: None,
        }
    }

    /// The stored offset of the first byte of [`Window::bytes`].
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// What is read and not yet consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// True when [`Window::bytes`] goes to the end of the file.
    pub fn complete(&self) -> bool {
        self.eof
    }

    /// Moves on by `n` bytes, at most to the end of [`Window::bytes`]; what lies behind may be forgotten.
    pub fn consume(&mut self, n: usize) {
        self.at = (self.at + n).min(self.buffer.len());
        self.keep = self.offset();
    }

    /// Moves on by `n` bytes but keeps what lies behind from offset `keep` on, for [`Window::go_back`].
    pub fn consume_keeping(&mut self, n: usize, keep: u64) {
        self.at = (self.at + n).min(self.buffer.len());
        self.keep = keep.min(self.offset());
    }

    /// Moves on to an offset, without a look at what lies before it.
    pub fn skip_to(&mut self, offset: u64) {
        let ahead = offset.saturating_sub(self.offset());
        if ahead <= self.bytes().len() as u64 {
            return self.consume(ahead as usize);
        }
        self.buffer.clear();
        (self.base, self.at, self.keep) = (offset, 0, offset);
        self.is_moved = true;
    }

    /// Stands at `offset` again, or at the first later byte that was kept.
    pub fn go_back(&mut self, offset: u64) {
        let end = self.base + self.buffer.len() as u64;
        let offset = offset.clamp(self.base.max(self.keep), end);
        self.at = (offset - self.base) as usize;
        self.keep = offset;
    }

    /// Reads until `n` bytes stand ready or the file ends; returns how many do.
    pub fn ensure(&mut self, n: usize) -> usize {
        while self.bytes().len() < n && !self.eof {
            if std::mem::take(&mut self.is_moved)
                && let Err(error) = self.file.seek(SeekFrom::Start(self.base))
            {
                self.eof = true;
                self.failure = Some(error);
                break;
            }
            let dead = (self.keep - self.base) as usize;
            if dead > 0 {
                self.buffer.drain(..dead);
                self.base += dead as u64;
                self.at -= dead;
            }
            let end = self.buffer.len();
            let want = self.read.max(n - self.bytes().len());
            self.read = (self.read * 2).min(READ);
            self.failure = self.file.append(&mut self.buffer, want as u64).err();
            // Short of the wish: the end, or a failure, unless something is added, which is not waited for.
            self.eof |= self.buffer.len() - end < want;
        }
        self.bytes().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn slides_and_goes_back() {
        let bytes: Vec<u8> = (0..3 * READ + 17).map(|i| (i / 7 % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("temp file");
        file.write_all(&bytes).expect("writes");
        file.rewind().expect("rewinds");
        let mut window = Window::new(StoredFile::File(file));
        assert_eq!(window.ensure(0), 0);
        let mut seen = Vec::new();
        let mut step = 1;
        while window.ensure(step) > 0 {
            let n = step.min(window.bytes().len());
            seen.extend_from_slice(&window.bytes()[..n]);
            window.consume_keeping(n, window.offset().saturating_sub(100));
            step = step * 2 + 1;
        }
        assert!(seen == bytes);
        assert!(window.complete() && window.failure.is_none());
        let end = window.offset();
        window.go_back(end - 50);
        assert_eq!(window.bytes(), &bytes[bytes.len() - 50..]);
        window.go_back(0);
        assert!(window.offset() >= end - 50, "what is forgotten cannot be had again");
    }

    #[test]
    fn skips_what_others_have_read() {
        let bytes: Vec<u8> = (0..3 * READ).map(|i| (i / 7 % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("temp file");
        file.write_all(&bytes).expect("writes");
        file.rewind().expect("rewinds");
        let mut window = Window::new(StoredFile::File(file));
        for offset in [0, 10, 2 * READ + 5, 2 * READ + 6, 3 * READ - 1, 3 * READ] {
            window.skip_to(offset as u64);
            assert_eq!(window.offset(), offset as u64);
            window.ensure(9);
            let n = window.bytes().len().min(9);
            assert_eq!(window.bytes()[..n], bytes[offset..(offset + 9).min(bytes.len())]);
        }
        assert!(window.complete() && window.failure.is_none());
    }
}
