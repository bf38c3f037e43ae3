//! The library's error type. Every variant carries the facts; the text says what to do.

use crate::display::{printable, printable_path};
use std::path::{Path, PathBuf};

/// An error of the library.
///
/// Corrupt *records* are no errors: they are counted and skipped, see [`crate::corpus::Corruption`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read or write.
    #[error("{path}: {source}", path = printable_path(path))]
    Io {
        /// The file or folder concerned.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file of ours does not fit: another kind, version, hash, seed or parameter, or a broken checksum.
    #[error("{path}: {field} is {got}, but {expected} is needed; {advice}", path = printable_path(path), got = printable(got))]
    Format {
        /// The file or folder concerned.
        path: PathBuf,
        /// Which part of the file does not fit.
        field: &'static str,
        /// The value that would have fitted.
        expected: String,
        /// The value that the file has.
        got: String,
        /// The advice to the user.
        advice: &'static str,
    },
    /// The core refused what it was asked for, or a [parameter](Error::parameter) has a value without a meaning.
    #[error(transparent)]
    Core(#[from] simflip_core::Error),
    /// A chart or a document of the report could not be made: a fault of the program, not of the input.
    #[error("the report could not be drawn: {0}")]
    Render(String),
    /// A row of a table (CSV) that cannot be used.
    #[error("{path}, line {line}: {got}, but {expected} is needed", path = printable_path(path), got = printable(got))]
    Table {
        /// The file concerned.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The value that would have fitted.
        expected: String,
        /// The value that the line has.
        got: String,
    },
    /// No document was found in the input, for the reason that the text gives.
    #[error("no documents to work on: {}", printable(.0))]
    NoDocuments(String),
    /// More documents would have been removed than [`Job::max_removed`](crate::pipeline::Job::max_removed) allows.
    #[error(
        "--max-removed {allowed}: {of} would lose {removed} of {documents} documents, {:.1} %. Nothing was written; to see what goes, \
         leave --max-removed out",
        100.0 * *removed as f64 / *documents as f64
    )]
    TooManyRemoved {
        /// The share that may be removed, 0 to 1.
        allowed: f64,
        /// All documents, or those of a source.
        of: String,
        /// The number that would be removed.
        removed: u64,
        /// The number of documents of `of`.
        documents: u64,
    },
    /// Inputs were named that do not exist.
    #[error(
        "no such file or folder: {}. Nothing was read; correct the names of these inputs, or leave them out",
        .0.iter().map(|path| printable_path(path)).collect::<Vec<_>>().join(", ")
    )]
    NoSuchInput(Vec<PathBuf>),
    /// The output of an earlier stage is not there. The text names it, and the command that makes it.
    #[error("{}", printable(.0))]
    Missing(String),
}

impl Error {
    /// Wraps an operating-system error with the path it concerns.
    pub fn io(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Io { path: path.as_ref().to_path_buf(), source }
    }

    /// The error of a parameter: the value `got` that has no meaning for it, and the values that would have one.
    pub fn parameter(parameter: &'static str, got: impl ToString, expected: impl Into<String>) -> Self {
        simflip_core::Error::parameter(parameter, got, expected).into()
    }

    /// The parameter of an error of [`parameter`](Self::parameter); `None` for other errors.
    pub fn parameter_name(&self) -> Option<&'static str> {
        match self {
            Self::Core(simflip_core::Error::Parameter { parameter, .. }) => Some(parameter),
            _ => None,
        }
    }
}

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_input_give_no_orders_to_a_terminal() {
        let evil = "a\n\u{1b}[2J";
        let source = || std::io::Error::other("no");
        let (expected, advice) = (String::new(), "");
        for error in [
            Error::io(evil, source()),
            Error::Format {
                path: evil.into(),
                field: "the id",
                expected: expected.clone(),
                got: evil.into(),
                advice,
            },
            Error::parameter("document", evil, evil),
            Error::Table { path: evil.into(), line: 1, expected, got: evil.into() },
            Error::NoDocuments(evil.into()),
            Error::NoSuchInput(vec![evil.into()]),
            Error::Missing(evil.into()),
        ] {
            let message = error.to_string();
            assert!(
                message.contains(r"a\n\u{1b}[2J") && !message.chars().any(char::is_control),
                "{message:?}"
            );
        }
    }
}
