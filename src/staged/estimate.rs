//! What a run will take, before it begins: from the sizes of its files and their first pages.

use crate::corpus::{Input, Peeked, ReadOptions, peek};
use flipside_core::collection::Keeping;
use flipside_core::settings::{Settings, Sketches};

/// What is expected of the pages of some files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Pages.
    pub pages: u64,
    /// Pages for each stored byte.
    density: f64,
    /// Bytes of a page's id and URL.
    pub names: f64,
    /// Bytes of a page's text.
    pub text: f64,
}

/// What a process holds whatever it works on, reading by some threads included.
const HELD_ANYWAY: u64 = 24 << 20;

impl Estimate {
    /// That of some files.
    pub fn of(inputs: &[Input], options: &ReadOptions) -> Self {
        let Peeked { pages, stored_bytes, name_bytes, text_bytes } = peek(inputs, options);
        let each = |bytes: u64| bytes as f64 / pages.max(1) as f64;
        let density = pages as f64 / stored_bytes.max(1) as f64;
        let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
        let (names, text) = (each(name_bytes), each(text_bytes));
        Self { pages: (stored as f64 * density) as u64, density, names, text }
    }

    /// Bytes that are held while a file is sketched.
    pub fn held_of_file(&self, file: &Input, settings: &Settings) -> u64 {
        let pages = file.stored_bytes() as f64 * self.density;
        HELD_ANYWAY + (pages * (2.0 * (sketch_bytes(settings) as f64 + ROW + self.names) + self.names)) as u64
    }

    /// Bytes that the working folder of a run on disk takes at most.
    pub fn disk(&self, settings: &Settings) -> u64 {
        let disk = super::plan::disk_bytes(self.pages as f64, self.names, settings);
        disk.most() as u64
    }
}

/// Bytes of a page's place and of where its names are.
const ROW: f64 = 80.0;

/// Bytes of a page in a file of sketches.
pub fn sketch_bytes(settings: &Settings) -> u64 {
    match settings.sketches {
        Sketches::Both { bits, banding } => 32 + bits as u64 / 8 + 4 * banding.bands as u64,
        _ => 0,
    }
}

/// Bytes that a run in memory is expected to hold at most.
pub fn in_memory(expected: &Estimate, settings: &Settings) -> u64 {
    let words = expected.text / 6.0;
    // Rows and names are there twice while the parts of threads are put together.
    let table = 2.0 * (ROW + expected.names);
    let kept = match Keeping::of(settings) {
        Keeping::Features => 12.0 * words + 600.0,
        _ => match settings.sketches {
            Sketches::MinHash { permutations, .. } => 2.0 * 4.0 * permutations as f64 + 200.0,
            Sketches::Both { .. } => 2.0 * sketch_bytes(settings) as f64 + 200.0,
            _ => 400.0,
        },
    };
    HELD_ANYWAY + (expected.pages as f64 * (table + kept)) as u64
}
