//! A window that slides over a stored file: read ahead when asked, forget what is behind, read it again if it must be.

use std::io;

use memchr::memmem;

use super::storage::StoredFile;

/// The number of bytes that are asked of the operating system at once: few at first, for a reader that wants one record
/// only.
const FIRST_READ: usize = 64 << 10;
/// The number for a reader that goes on.
const READ: usize = 1 << 20;

/// The number of bytes in which others are looked for at once.
const LOOKED_AT: usize = 256 << 10;

/// Stored bytes of a corrupt member or frame in which another one is looked for from the first on.
const LOOKED_THROUGH: u64 = 16 << 20;
/// Of a longer one, the bytes before the corruption in which that is done.
const LOOKED_BEHIND: u64 = 64 << 10;

/// The stored offset from which on the next member or frame is looked for, where one that starts at the stored offset
/// `start` turned out to be corrupt at `corruption`.
pub(crate) fn search_from(start: u64, corruption: u64) -> u64 {
    let from = if corruption - start <= LOOKED_THROUGH { start } else { corruption - LOOKED_BEHIND };
    from.max(start + 1)
}

/// The bytes of a stored file from [`Window::offset`] on, as far as they are read. [`Window::consume`] and
/// [`Window::move_to`] change that offset.
#[derive(Debug)]
pub(crate) struct Window {
    file: StoredFile,
    buffer: Vec<u8>,
    /// Stored offset of `buffer[0]`.
    base: u64,
    /// The position in `buffer` of [`Window::offset`].
    at: usize,
    eof: bool,
    /// The file stands elsewhere than at the end of `buffer`, to where it is to be moved before it is read again.
    is_moved: bool,
    read: usize,
    /// The error of the operating system when it stopped reading; the file counts as ended there.
    pub failure: Option<io::Error>,
}

impl Window {
    /// A window over a file from where it stands, which is offset 0 of the window.
    pub fn new(file: StoredFile) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            base: 0,
            at: 0,
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

    /// Bytes that are read and not yet consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// True when [`Window::bytes`] goes to the end of the file.
    pub fn complete(&self) -> bool {
        self.eof
    }

    /// Moves on by `n` bytes, at most to the end of [`Window::bytes`].
    pub fn consume(&mut self, n: usize) {
        self.at = (self.at + n).min(self.buffer.len());
    }

    /// Moves to a stored offset, before or behind. Bytes that are not in the window are read when they are asked for.
    pub fn move_to(&mut self, offset: u64) {
        let at = offset.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        if let Some(at) = at.filter(|&at| at <= self.buffer.len()) {
            return self.at = at;
        }
        self.buffer.clear();
        (self.base, self.at) = (offset, 0);
        (self.eof, self.is_moved) = (false, true);
    }

    /// Moves to the next place at which these bytes stand; false if there is none up to the end, which is moved to.
    pub fn seek(&mut self, bytes: &[u8]) -> bool {
        let finder = memmem::Finder::new(bytes);
        loop {
            self.ensure(LOOKED_AT);
            let found = finder.find(self.bytes());
            // The first of them may be the last that were read.
            let kept = if self.eof { 0 } else { bytes.len() - 1 };
            self.consume(found.unwrap_or(self.bytes().len() - kept));
            if found.is_some() || self.eof {
                return found.is_some();
            }
        }
    }

    /// Reads until `n` bytes stand ready or the file ends; returns how many do.
    pub fn ensure(&mut self, n: usize) -> usize {
        while self.bytes().len() < n && !self.eof {
            if std::mem::take(&mut self.is_moved)
                && let Err(error) = self.file.move_to(self.base)
            {
                self.eof = true;
                self.failure = Some(error);
                break;
            }
            self.base += self.at as u64;
            self.buffer.drain(..std::mem::take(&mut self.at));
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
    use std::io::{Seek, Write};

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
            window.consume(n);
            assert!(window.buffer.len() <= step + READ, "what is behind is forgotten");
            step = step * 2 + 1;
        }
        assert!(seen == bytes);
        assert!(window.complete() && window.failure.is_none());
        let end = window.offset();
        for from in [50, 2 * READ + 9, bytes.len(), 1, 0] {
            window.move_to(end - from as u64);
            assert_eq!(window.ensure(usize::MAX), from);
            assert!(window.bytes() == &bytes[bytes.len() - from..] && window.complete());
        }
    }

    #[test]
    fn skips_what_others_have_read() {
        let bytes: Vec<u8> = (0..3 * READ).map(|i| (i / 7 % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("temp file");
        file.write_all(&bytes).expect("writes");
        file.rewind().expect("rewinds");
        let mut window = Window::new(StoredFile::File(file));
        for offset in [0, 10, 2 * READ + 5, 2 * READ + 6, 3 * READ - 1, 3 * READ] {
            window.move_to(offset as u64);
            assert_eq!(window.offset(), offset as u64);
            window.ensure(9);
            let n = window.bytes().len().min(9);
            assert_eq!(window.bytes()[..n], bytes[offset..(offset + 9).min(bytes.len())]);
        }
        assert!(window.complete() && window.failure.is_none());
    }
}
