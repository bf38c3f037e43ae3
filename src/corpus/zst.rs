//! Zstandard files: frames decoded as a stream; after damage, on with the next frame.

use std::fs::File;

use memchr::memmem;
use zstd::stream::raw::{Decoder, Operation};

use super::damage::DamageKind;
use super::feed::{Feed, STEP};
use super::filetype::ZSTD_MAGIC;
use super::window::{Window, keep};
use crate::wording::counted;

/// A Zstandard file being decoded.
pub(crate) struct ZstdSource {
    window: Window,
    decoder: Decoder<'static>,
    /// Stored offset of the frame being decoded.
    frame: Option<u64>,
    done: bool,
}

impl std::fmt::Debug for ZstdSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZstdSource")
            .field("frame", &self.frame)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

fn starts_frame(bytes: &[u8]) -> bool {
    // The second form is a frame to be skipped (RFC 8878, 3.1.2).
    bytes.starts_with(&ZSTD_MAGIC)
        || (bytes.len() >= 4 && bytes[0] & 0xf0 == 0x50 && bytes[1..4] == [0x2a, 0x4d, 0x18])
}

impl ZstdSource {
    pub fn new(file: File) -> std::io::Result<Self> {
        Ok(Self { window: Window::new(file), decoder: Decoder::new()?, frame: None, done: false })
    }

    pub fn stored(&self) -> u64 {
        self.window.offset()
    }

    /// Moves to the next frame, or to the end.
    fn seek_frame(&mut self) {
        loop {
            self.window.ensure(4);
            if let Some(i) = memmem::find(self.window.bytes(), &ZSTD_MAGIC) {
                return self.window.consume(i);
            }
            let left = self.window.bytes().len();
            if self.window.complete() {
                return self.window.consume(left);
            }
            self.window.consume(left.saturating_sub(3));
            self.window.ensure(4);
        }
    }

    pub fn fill(&mut self, feed: &mut Feed) -> bool {
        if self.done {
            return false;
        }
        self.window.ensure(1);
        if self.window.bytes().is_empty() {
            self.done = true;
            if let Some(error) = self.window.failure.take() {
                feed.gap(self.window.offset(), DamageKind::ReadError, false, error.to_string());
            }
            if let Some(frame) = self.frame.take() {
                feed.gap(frame, DamageKind::Truncated, true, "the file ends inside a Zstandard frame".into());
            }
            return true;
        }
        let frame = match self.frame {
            Some(frame) => frame,
            None => {
                self.window.ensure(4);
                let zeros = self.window.bytes().iter().take_while(|&&b| b == 0).count();
                if zeros > 0 {
                    self.window.consume(zeros);
                    return true;
                }
                let offset = self.window.offset();
                if !starts_frame(self.window.bytes()) {
                    self.seek_frame();
                    let n = self.window.offset() - offset;
                    feed.gap(
                        offset,
                        DamageKind::Junk,
                        false,
                        format!("{} of no Zstandard frame", counted(n, "byte", "bytes")),
                    );
                    return true;
                }
                if let Err(error) = self.decoder.reinit() {
                    self.done = true;
                    feed.gap(offset, DamageKind::ReadError, false, error.to_string());
                    return true;
                }
                feed.start(offset, None);
                self.frame = Some(offset);
                offset
            }
        };
        match self.decoder.run_on_buffers(self.window.bytes(), &mut feed.room(STEP)[..STEP]) {
            Ok(status) => {
                feed.filled += status.bytes_written;
                let now = self.window.offset() + status.bytes_read as u64;
                if status.remaining == 0 {
                    self.frame = None;
                    self.window.consume(status.bytes_read);
                } else {
                    self.window.consume_keeping(status.bytes_read, keep(frame, now));
                }
                if status.bytes_read == 0 && status.bytes_written == 0 && self.frame.is_some() {
                    // Everything at hand is used up by contract; a decoder that stands
                    // still must not hang the run.
                    let left = self.window.bytes().len();
                    self.window.consume(left);
                }
            }
            Err(error) => {
                self.frame = None;
                let from = keep(frame, self.window.offset()).max(frame + 1);
                self.window.go_back(from);
                self.seek_frame();
                let n = self.window.offset() - frame;
                let detail = format!(
                    "{error}; {} up to the next frame or the end of the file",
                    counted(n, "byte", "bytes")
                );
                feed.gap(frame, DamageKind::CorruptMember, true, detail);
            }
        }
        true
    }
}
