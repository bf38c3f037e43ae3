//! The mark by which an input file is known to be the same.

use super::{Input, Object};
use crate::error::{Error, Result};
use crate::hash::murmur3_x64_128;
use serde::{Deserialize, Serialize};
use std::io::Read;

/// An input file, as far as it must stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputMark {
    /// Its real path.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// A hash of its length, its beginning, its end, and pieces between: of all of it up to 256 KiB. Of an object
    /// in a store: of its length and its version, where the store tells one.
    pub mark: String,
}

impl InputMark {
    /// The mark of a file.
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
