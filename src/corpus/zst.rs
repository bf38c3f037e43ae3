//! Zstandard files: frames decoded as a stream; after corruption, on with the next frame.

use std::io;

use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::corruption::CorruptionKind;
use super::feed::{Feed, STEP};
use super::storage::StoredFile;
use super::window::{Window, search_from};
use crate::display::counted;

/// The first bytes of a Zstandard frame (RFC 8878, 3.1.1).
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The longest window that a Zstandard frame can ask for, in bits. RFC 8878 allows more, the library does not.
pub const LONGEST_WINDOW: u32 = 31;

/// A Zstandard file being decoded.
pub(crate) struct ZstdSource {
    /// The stored bytes that come next.
    pub window: Window,
    decoder: Decoder<'static>,
    /// In bits.
    longest_window: u32,
    /// Stored offset of the frame being decoded.
    frame: Option<u64>,
    done: bool,
}

/// True if bytes begin as a frame does, also one that is to be skipped.
pub(crate) fn starts_frame(bytes: &[u8]) -> bool {
    // The second form is a frame to be skipped (RFC 8878, 3.1.2).
    bytes.starts_with(&ZSTD_MAGIC)
        || (bytes.len() >= 4 && bytes[0] & 0xf0 == 0x50 && bytes[1..4] == [0x2a, 0x4d, 0x18])
}

/// The bits of the window that a frame asks for (RFC 8878, 3.1.1.1); `None` if the bytes are too few, or start
/// no frame.
pub(crate) fn window_bits(bytes: &[u8]) -> Option<u32> {
    let &descriptor = bytes.get(4).filter(|_| bytes.starts_with(&ZSTD_MAGIC))?;
    if descriptor & 0x20 == 0 {
        let &window = bytes.get(5)?;
        // Eighths are added to the power of two.
        return Some(10 + u32::from(window >> 3) + u32::from(window & 7 != 0));
    }
    // A single segment: the window is as long as the content, which stands behind the dictionary's number.
    let at = 5 + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut content = [0; 8];
    content[..length].copy_from_slice(bytes.get(at..at + length)?);
    let content = u64::from_le_bytes(content) + if length == 2 { 256 } else { 0 };
    Some(64 - content.saturating_sub(1).leading_zeros())
}

/// The dictionary of a file's frames, which stands in its first frame, one to be skipped, as it is or compressed
/// (the format of `.warc.zst`); empty if there is none. `head` gives the first bytes of the file, at most so many.
///
/// # Errors
/// If the file cannot be read, or its dictionary does not decode.
pub(crate) fn dictionary_of(head: impl Fn(u64) -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    let length = dictionary_length(&head(8)?)?;
    if length == 0 {
        return Ok(Vec::new());
    }
    let mut dictionary = head(8 + length)?.split_off(8);
    if dictionary.starts_with(&ZSTD_MAGIC) {
        dictionary = zstd::bulk::decompress(&dictionary, LONGEST)?;
    }
    Ok(dictionary)
}

/// The longest dictionary that is read, stored and decoded.
const LONGEST: usize = 64 << 20;

/// Stored bytes of the dictionary of a file that begins like this; 0 if it has none.
///
/// # Errors
/// If it is too long.
pub(crate) fn dictionary_length(head: &[u8]) -> io::Result<u64> {
    const MAGIC: [u8; 4] = [0x5d, 0x2a, 0x4d, 0x18];
    let length = head.strip_prefix(&MAGIC).and_then(|length| length.first_chunk::<4>());
    match length.map_or(0, |&length| u32::from_le_bytes(length).into()) {
        length if length > LONGEST as u64 => Err(io::Error::other(format!("a dictionary of {length} bytes"))),
        length => Ok(length),
    }
}

impl ZstdSource {
    /// A decoder of a file from where it stands, by its [`dictionary_of`]. A frame whose window has more bits than
    /// `longest_window` is corrupt.
    pub fn new(file: StoredFile, dictionary: &[u8], longest_window: u32) -> io::Result<Self> {
        let mut decoder = Decoder::with_dictionary(dictionary)?;
        decoder.set_parameter(DParameter::WindowLogMax(longest_window))?;
        Ok(Self { window: Window::new(file), decoder, longest_window, frame: None, done: false })
    }

    /// Decodes a step of a frame into the feed, or notes corruption; false at the end of the file.
    pub fn fill(&mut self, feed: &mut Feed) -> bool {
        if self.done {
            return false;
        }
        self.window.ensure(1);
        if self.window.bytes().is_empty() {
            self.done = true;
            if let Some(error) = self.window.failure.take() {
                feed.gap(self.window.offset(), CorruptionKind::Unreadable, false, error.to_string());
            }
            if let Some(frame) = self.frame.take() {
                let detail = "the file ends inside a Zstandard frame".into();
                feed.gap(frame, CorruptionKind::Truncated, true, detail);
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
                    self.window.seek(&ZSTD_MAGIC);
                    let n = counted(self.window.offset() - offset, "byte", "bytes");
                    feed.gap(offset, CorruptionKind::Malformed, false, format!("{n} of no Zstandard frame"));
                    return true;
                }
                if let Err(error) = self.decoder.reinit() {
                    self.done = true;
                    feed.gap(offset, CorruptionKind::Unreadable, false, error.to_string());
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
                self.window.consume(status.bytes_read);
                if status.remaining == 0 {
                    self.frame = None;
                }
            }
            Err(error) => {
                let bits = window_bits(self.window.bytes()).filter(|_| self.window.offset() == frame);
                let what = match bits.filter(|&bits| bits > self.longest_window) {
                    Some(bits @ ..=LONGEST_WINDOW) => {
                        format!("a window of {bits} bits (--longest-window {bits} reads it)")
                    }
                    _ => error.to_string(),
                };
                self.frame = None;
                self.window.move_to(search_from(frame, self.window.offset()));
                self.window.seek(&ZSTD_MAGIC);
                let n = counted(self.window.offset() - frame, "byte", "bytes");
                let detail = format!("{what}; {n} up to the next frame or the end of the file");
                feed.gap(frame, CorruptionKind::Undecodable, true, detail);
            }
        }
        true
    }
}
