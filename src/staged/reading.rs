//! The outcome of reading input files, which a run on disk keeps beside their sketches. A later run that resumes
//! reports it without reading the files.

use super::names::show_inputs;
use super::parts::Parts;
use crate::corpus::{FileReading, Languages};
use crate::error::{Error, Result};
use crate::format::{self, READING};
use crate::inspection::Inspection;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The outcome of reading input files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The outcome of each file, in their order.
    pub files: Vec<FileReading>,
    /// The number of documents of all files by language.
    pub languages: Languages,
}

impl Read {
    /// The outcome of reading the files of these parts.
    pub fn of(parts: &Parts<'_>) -> Self {
        Self { files: parts.files.clone(), languages: parts.languages.clone() }
    }
}

/// The path at which the outcome of reading is kept, beside the file of sketches at `sketches`.
pub fn reading_of(sketches: &Path) -> PathBuf {
    sketches.with_extension("reading")
}

/// Writes the outcome of reading the inputs of the file of sketches at `sketches`.
pub fn write_reading(sketches: &Path, read: &Read) -> Result<()> {
    let path = reading_of(sketches);
    let bytes = serde_json::to_vec(read).map_err(|error| Error::io(&path, error.into()))?;
    format::write(&path, READING, &(), &[&bytes])
}

/// Reads the outcome that [`write_reading`] wrote for the same file of sketches.
pub fn read_reading(sketches: &Path) -> Result<Read> {
    of_reading(&reading_of(sketches))
}

fn of_reading(path: &Path) -> Result<Read> {
    let ((), bytes) = format::read::<()>(path, READING)?;
    serde_json::from_slice(&bytes).map_err(|error| Error::io(path, error.into()))
}

/// Checks a kept outcome of reading for [`inspect`](crate::inspect).
pub fn check_reading(path: &Path) -> Result<Inspection> {
    let Read { files, languages } = of_reading(path)?;
    let mut inspection = Inspection::of(READING.name);
    let paths: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    show_inputs(&mut inspection, &paths);
    inspection.fact("documents", files.iter().map(|file| file.documents).sum::<u64>());
    inspection.fact("corrupt sections", files.iter().map(|file| file.corrupt).sum::<u64>());
    inspection.fact("languages", languages.each().count());
    Ok(inspection)
}
