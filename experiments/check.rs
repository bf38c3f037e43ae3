//! Verification: what was published, what we see, and why they differ.

use crate::progress::say;
use crate::results::{expected, read_all};
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
        writeln!(page, "| figure | published | we see | verdict | because |\n|---|---|---|---|---|")?;
        for verdict in (experiment.verdicts)(options, &rows, &expected)? {
            let Verdict { item, paper, ours, finding, because } = verdict;
            let word = finding.word();
            writeln!(page, "| {item} | {paper} | {ours} | {word} | {because} |")?;
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
