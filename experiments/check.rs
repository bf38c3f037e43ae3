//! Verification: what was published, what we see, and why they differ.

use crate::progress::say;
use crate::results::{Row, distinct, expected, read_all};
use crate::{Experiment, Options};
use anyhow::{Context, Result};
use std::fmt::Write;

/// How what we measured compares with what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// We call it the same.
    Agrees,
    /// We do not.
    Differs,
    /// Nothing was published to compare with.
    New,
    /// What was published contradicts itself, so that a nearness of ours would mean nothing.
    NoComparison,
    /// The committed rows do not have it.
    NotMeasured,
}

impl From<bool> for Finding {
    fn from(agrees: bool) -> Self {
        if agrees { Self::Agrees } else { Self::Differs }
    }
}

impl Finding {
    fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::New => "new",
            Self::NoComparison => "no comparison",
            Self::NotMeasured => "not measured",
        }
    }
}

/// What became of one published figure.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Which figure, on which data.
    pub item: String,
    /// What was published.
    pub paper: String,
    /// What we measured.
    pub ours: String,
    /// How the two compare.
    pub finding: Finding,
    /// Why they differ, or what makes them agree.
    pub because: String,
}

/// The folder of the results that were measured with AVX2 alone, within that of the others.
const AVX2: &str = "avx2";

/// The options with the results of the other level of kernels.
fn other_level(options: &Options) -> Options {
    let results = options.results();
    let other = match results.parent().filter(|_| results.ends_with(AVX2)) {
        Some(around) => around.to_path_buf(),
        None => results.join(AVX2),
    };
    Options { results: Some(other), ..options.clone() }
}

/// The levels of kernels and the processors that rows of a figure were measured with; of all rows where the figure does
/// not begin with the name of a corpus. Empty where no row has the level.
fn kernels(rows: &[Row], figure: &str) -> String {
    let named: Vec<&Row> = rows.iter().filter(|row| !row.text("kernel").is_empty()).collect();
    let own: Vec<&Row> = named.iter().copied().filter(|row| figure.starts_with(row.text("corpus"))).collect();
    let rows = if own.is_empty() { named } else { own };
    let of = |field: &str| distinct(rows.iter().copied(), field).join(", ");
    if rows.is_empty() { String::new() } else { format!("{} on {}", of("kernel"), of("machine")) }
}

/// Prints the verdicts, and writes them beside the results.
pub fn check(options: &Options, experiments: &[&Experiment]) -> Result<()> {
    let mut page = String::from(
        "# Verdicts\n\nMade by `cargo run --release -p simflip-experiments -- check` from the files in this folder and in `experiments/expected`.\n",
    );
    for experiment in experiments {
        let rows = read_all(options, experiment.name)?;
        let expected = expected(experiment.name)?;
        writeln!(page, "\n## {}\n", experiment.name)?;
        if rows.is_empty() {
            writeln!(page, "No results.")?;
            continue;
        }
        let other = other_level(options);
        let at_other = read_all(&other, experiment.name)?;
        let own = kernels(&rows, "");
        if !own.is_empty() {
            writeln!(page, "Kernels: {own}.\n")?;
        }
        let others = match at_other.is_empty() {
            true => Vec::new(),
            false => (experiment.verdicts)(&other, &at_other, &expected)?,
        };
        writeln!(page, "| figure | published | we see | verdict | because |\n|---|---|---|---|---|")?;
        for verdict in (experiment.verdicts)(options, &rows, &expected)? {
            let Verdict { item, paper, ours, finding, because } = verdict;
            let word = finding.word();
            // The ratio alone: its parts stand in the verdicts of that level.
            let at_other = others.iter().find(|other| other.item == item).map_or(String::new(), |other| {
                let ratio = other.ours.split(" (").next().unwrap_or_default();
                format!("; with {}: {ratio}", kernels(&at_other, &item))
            });
            writeln!(page, "| {item} | {paper} | {ours} | {word} | {because}{at_other} |")?;
        }
    }
    say(page.trim_end())?;
    // Verdicts on one experiment alone are for the eye; the page is of all.
    if options.only.is_none() {
        let path = options.results().join("VERDICTS.md");
        std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
