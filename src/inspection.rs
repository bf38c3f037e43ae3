//! The result of checking a file or folder: facts and problems.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The outcome of checking a file or folder. Without problems, it is in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// The kind of the file or folder, in words.
    pub what: String,
    /// Facts as name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
    /// Its problems; empty if it is in order.
    pub problems: Vec<String>,
}

/// The most problems that are listed.
const MOST_PROBLEMS: usize = 100;

/// The fact, name and value, that each table gets that is checked by itself: rows that are missing are not noticed.
pub(crate) const OF_TABLES: (&str, &str) =
    ("not known", "whether rows are missing: inspect the folder of results for that");

impl Inspection {
    /// An inspection of something of this kind, without facts and problems yet.
    pub(crate) fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    /// Adds a fact.
    pub(crate) fn fact(&mut self, name: impl Into<String>, value: impl ToString) {
        self.facts.push((name.into(), value.to_string()));
    }

    /// Adds a field of the JSON header of a binary file as a fact.
    pub(crate) fn header_field(&mut self, name: String, value: &serde_json::Value) {
        self.fact(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }

    /// Notes a problem if the count `got` of `what` is not `expected`, the one in the report.
    pub(crate) fn same(&mut self, what: &str, expected: u64, got: u64) {
        if expected != got {
            self.problem(format!("{what}: {got}, but the report says {expected}"));
        }
    }

    /// Notes a problem. Behind the first 100, a last one says that more are not listed.
    pub(crate) fn problem(&mut self, problem: String) {
        match self.problems.len() {
            0..MOST_PROBLEMS => self.problems.push(problem),
            MOST_PROBLEMS => self.problems.push("more problems are not listed".to_owned()),
            _ => {}
        }
    }

    /// Notes a problem of a line of a file, counted from 1.
    pub(crate) fn problem_at(&mut self, path: &Path, line: u64, problem: &str) {
        self.problem(format!("{}, line {line}: {problem}", path.display()));
    }

    /// A row of a table, or `None` at its end. A row that cannot be read is a problem, and ends the table.
    pub(crate) fn row<R>(&mut self, row: Result<Option<R>>) -> Option<R> {
        row.unwrap_or_else(|error| {
            self.problem(error.to_string());
            None
        })
    }

    /// Notes the problems of the inspection of a part; its facts are dropped.
    pub(crate) fn problems_of(&mut self, part: Self) {
        part.problems.into_iter().for_each(|problem| self.problem(problem));
    }

    /// Notes a problem if a file of lines ends within one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn check_end(&mut self, path: &Path) -> Result<()> {
        let mut last = [0];
        let read = |mut file: File| {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)
        };
        File::open(path).and_then(read).map_err(|e| Error::io(path, e))?;
        if last != *b"\n" {
            self.problem(format!("{}: the last line has no end; the file was cut", path.display()));
        }
        Ok(())
    }
}

/// The error for something that this program did not write, and that is `got`.
pub(crate) fn nothing_of_ours(path: &Path, got: String) -> Error {
    Error::Format {
        path: path.to_path_buf(),
        field: "the content",
        expected: "something that simflip writes".to_owned(),
        got,
        advice: "that is a folder of results, a table or document of one, judged.csv, what simflip seen prints, a file of documents, a \
                 file of document frequencies, boilerplate or seen pages, or of a stage",
    }
}
