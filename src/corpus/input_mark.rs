//! The mark by which a later run knows that an input is the same file with the same content.

use super::{Input, Object};
use crate::error::{Error, Result};
use crate::hash::murmur3_x64_128;
use serde::{Deserialize, Serialize};
use std::io::Read;

/// The name, length and hash of an input. Inputs with equal marks count as the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputMark {
    /// The name of the input in files that runs make of it: its real path or address, or `stream:` and a name.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// A 128-bit hash in hexadecimal digits, of the length and all bytes of up to 256 KiB, or 64 pieces of 4 KiB at
    /// even distances. Of an object that has a version, of the length and the version.
    pub mark: String,
}

impl InputMark {
    /// The mark of an input as it is now; an error if it cannot be read.
    pub fn of(input: &Input) -> Result<Self> {
        /// Pieces that are looked at.
        const PIECES: u64 = 64;
        const PIECE: u64 = 4096;
        let path = input.known_by();
        let io = |error| Error::io(&input.path, error);
        let mut file = input.storage.open().map_err(io)?;
        let bytes = file.length().map_err(io)?;
        // Room for all of it, so that a small file is read in one step.
        let mut seen = Vec::with_capacity(8 + bytes.min(PIECES * PIECE) as usize);
        seen.extend_from_slice(&bytes.to_le_bytes());
        if let Some(version) = input.object().and_then(Object::version) {
            seen.extend_from_slice(version.as_bytes());
        } else if bytes <= PIECES * PIECE {
            (&mut file).take(bytes).read_to_end(&mut seen).map_err(io)?;
        } else {
            for at in 0..PIECES {
                // Evenly, the last one at the end.
                let from = u128::from(bytes - PIECE) * u128::from(at) / u128::from(PIECES - 1);
                file.move_to(from as u64).map_err(io)?;
                (&mut file).take(PIECE).read_to_end(&mut seen).map_err(io)?;
            }
        }
        let (low, high) = murmur3_x64_128(&seen, 0);
        let mark = format!("{high:016x}{low:016x}");
        Ok(Self { path: path.to_string_lossy().into_owned(), bytes, mark })
    }
}
