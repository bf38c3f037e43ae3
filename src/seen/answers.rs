//! The output of `simflip seen`: a table, or a JSON object a line.

use crate::error::{Error, Result};
use crate::inspection::Inspection;
use crate::simhash::BITS;
use crate::tables::table::Table;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The columns of the table.
pub const COLUMNS: [&str; 7] =
    ["page", "answer", "distance", "earlier", "similarity", "last_seen", "near_pages"];

/// Columns that every table has.
pub(crate) const LEAST: usize = 4;

/// Answers of `simflip seen`, counted by what they say.
#[derive(Default)]
struct Answers(BTreeMap<String, u64>);

impl Answers {
    /// Counts an answer and tells what is wrong with it.
    fn add(
        &mut self,
        page: &str,
        answer: &str,
        distance: Option<u32>,
        earlier: &str,
    ) -> Option<&'static str> {
        *self.0.entry(answer.to_owned()).or_default() += 1;
        let fits = match (answer, distance) {
            ("new", None) => earlier.is_empty(),
            ("same", Some(0)) => true,
            ("near" | "stale", Some(distance)) => distance <= BITS as u32,
            // A line that could not be read as a page.
            ("error", None) => true,
            _ => false,
        };
        match (fits, page.is_empty()) {
            (false, _) => Some(
                "no answer of simflip seen: new, error, near or stale with a distance, or same with a distance of 0",
            ),
            (true, true) => Some("an answer about no page"),
            (true, false) => None,
        }
    }

    fn report(self, inspection: &mut Inspection) {
        inspection.fact("answers", self.0.values().sum::<u64>());
        for (answer, count) in self.0 {
            inspection.fact(format!("of these {answer}"), count);
        }
        inspection
            .fact("not known", "whether answers are missing at the end: nothing says how many there were");
    }
}

/// Checks answers that stand in a table.
///
/// # Errors
/// If the file cannot be read, or has not the header of such a table.
pub(crate) fn check(path: &Path) -> Result<Inspection> {
    let mut inspection = Inspection::of("answers of simflip seen");
    let mut table = Table::open_ours(path)?;
    table.begins_with(&COLUMNS[..LEAST])?;
    let mut answers = Answers::default();
    let mut row = csv::StringRecord::new();
    while let Some(line) = inspection.row(table.next(&mut row)) {
        let [page, answer, distance, earlier] = [0, 1, 2, 3].map(|column| &row[column]);
        if let Some(wrong) = answers.add(page, answer, distance.parse().ok(), earlier.trim_end_matches('\r'))
        {
            inspection.problem_at(path, line, wrong);
        }
    }
    inspection.check_end(path)?;
    answers.report(&mut inspection);
    Ok(inspection)
}

/// Checks answers in JSON, one on each line.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn check_lines(path: &Path) -> Result<Inspection> {
    #[derive(Deserialize)]
    struct AnswerLine {
        page: String,
        answer: String,
        distance: Option<u32>,
        earlier: Option<String>,
    }
    let mut inspection = Inspection::of("answers of simflip seen");
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut answers = Answers::default();
    for (line, number) in BufReader::new(file).lines().zip(1..) {
        let line = line.map_err(|e| Error::io(path, e))?;
        let wrong = match serde_json::from_str::<AnswerLine>(&line) {
            Ok(AnswerLine { page, answer, distance, earlier }) => answers
                .add(&page, &answer, distance, earlier.as_deref().unwrap_or_default())
                .map(str::to_owned),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            inspection.problem_at(path, number, &wrong);
        }
    }
    inspection.check_end(path)?;
    answers.report(&mut inspection);
    Ok(inspection)
}
