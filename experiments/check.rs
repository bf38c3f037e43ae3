//! The judge: what was published, what we see, and why they differ.

use crate::results::{expected, read_all};
use crate::{Experiment, Options};
use anyhow::{Context, Result};
use std::fmt::Write;

/// What became of one published figure.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Which figure, on which data.
    pub item: String,
    /// What was published.
    pub paper: String,
    /// What we measured.
    pub ours: String,
    /// Whether we call it the same; none where nothing was published to compare with.
    pub agrees: Option<bool>,
    /// Why they differ, or what makes them agree.
    pub because: String,
}

/// Prints the verdicts, and writes them beside the results.
pub fn check(options: &Options, experiments: &[&Experiment]) -> Result<()> {
    let mut page = String::from(
        "# Verdicts\n\nMade by `cargo run --release -p flipside-experiments -- check` from the files in this folder and in `experiments/expected`.\n",
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
            let Verdict { item, paper, ours, agrees, because } = verdict;
            let word = match agrees {
                Some(true) => "agrees",
                Some(false) => "differs",
                None => "new",
            };
            writeln!(page, "| {item} | {paper} | {ours} | {word} | {because} |")?;
        }
    }
    print!("{page}");
    // Verdicts on one experiment alone are for the eye; the page is of all.
    if options.only.is_none() {
        let path = options.results().join("VERDICTS.md");
        std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
