//! The output of `simflip seen`, a table or a JSON object a line, and the check of a file of it.

use crate::error::{Error, Result};
use crate::inspection::Inspection;
use crate::simhash::BITS;
use crate::tables::table::Table;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The columns of the table, which has a row for each page that was asked about.
pub const COLUMNS: [&str; 7] =
    ["page", "answer", "distance", "earlier", "similarity", "last_seen", "near_pages"];

/// The number of first [`COLUMNS`] that every table of answers has. A check knows a table by them, and reads no others.
pub(crate) const LEAST: usize = 4;

/// Answers of `simflip seen` in a file, counted by what they say.
struct Answers<'p> {
    path: &'p Path,
    inspection: Inspection,
    counts: BTreeMap<String, u64>,
}

impl<'p> Answers<'p> {
    fn of(path: &'p Path) -> Self {
        Self { path, inspection: Inspection::of("answers of simflip seen"), counts: BTreeMap::new() }
    }

    /// Counts the answer on a line and notes what is wrong with it.
    fn add(&mut self, line: u64, page: &str, answer: &str, distance: Option<u32>, earlier: &str) {
        *self.counts.entry(answer.to_owned()).or_default() += 1;
        let fits = match (answer, distance) {
            ("new", None) => earlier.is_empty(),
            ("same", Some(0)) => true,
            ("near" | "stale", Some(distance)) => distance <= BITS as u32,
            // A line that could not be read as a page.
            ("error", None) => true,
            _ => false,
        };
        if !fits {
            let wrong = "no answer of simflip seen: new, error, near or stale with a distance, or same with a distance of 0";
            self.inspection.problem_at(self.path, line, wrong);
        } else if page.is_empty() {
            self.inspection.problem_at(self.path, line, "an answer about no page");
        }
    }

    fn inspected(mut self) -> Result<Inspection> {
        self.inspection.check_end(self.path)?;
        self.inspection.fact("answers", self.counts.values().sum::<u64>());
        for (answer, count) in self.counts {
            self.inspection.fact(format!("of these {answer}"), count);
        }
        let unknown = "whether answers are missing at the end: nothing says how many there were";
        self.inspection.fact("not known", unknown);
        Ok(self.inspection)
    }
}

/// Checks a file of answers in a table. A line that is no answer is a problem of the result, not an error.
pub(crate) fn check(path: &Path) -> Result<Inspection> {
    let mut table = Table::open_ours(path)?;
    table.begins_with(&COLUMNS[..LEAST])?;
    let (mut answers, mut row) = (Answers::of(path), csv::StringRecord::new());
    while let Some(line) = answers.inspection.row(table.next(&mut row)) {
        let [page, answer, distance, earlier] = [0, 1, 2, 3].map(|column| &row[column]);
        answers.add(line, page, answer, distance.parse().ok(), earlier.trim_end_matches('\r'));
    }
    answers.inspected()
}

/// Checks a file of answers in JSON, one on each line. A line that is no answer is a problem of the result.
pub(crate) fn check_lines(path: &Path) -> Result<Inspection> {
    #[derive(Deserialize)]
    struct AnswerLine {
        page: String,
        answer: String,
        distance: Option<u32>,
        earlier: Option<String>,
    }
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut answers = Answers::of(path);
    for (line, number) in BufReader::new(file).lines().zip(1..) {
        match serde_json::from_str(&line.map_err(|e| Error::io(path, e))?) {
            Ok(AnswerLine { page, answer, distance, earlier }) => {
                answers.add(number, &page, &answer, distance, earlier.as_deref().unwrap_or_default());
            }
            Err(error) => answers.inspection.problem_at(path, number, &error.to_string()),
        }
    }
    answers.inspected()
}
