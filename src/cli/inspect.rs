//! `flipside inspect`

use super::{Done, tell, tell_json};
use anyhow::bail;
use flipside::wording::{printable, printable_path};
use std::fmt::Write;
use std::path::PathBuf;

/// Show and check a file or folder that flipside wrote.
///
/// Knows folders of results, each file in them, judged.csv, what flipside seen prints, and files of document
/// frequencies and of seen pages. Fails if something does not fit together: sums, checksums, a page that its
/// report.json does not make, a line without an end. A table or a file of pages by itself cannot show that
/// rows or pages are missing at its end; the folder can.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  flipside inspect result
  flipside inspect judged.csv
  flipside inspect result/kept.warc.wet.gz")]
pub(crate) struct Args {
    /// The file or folder
    file: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let inspection = flipside::inspect::inspect(&self.file)?;
        if self.json {
            tell_json(&inspection)?;
        } else {
            let mut text = String::new();
            writeln!(text, "{}: {}", printable_path(&self.file), inspection.what)?;
            let width = inspection.facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            for (name, value) in &inspection.facts {
                writeln!(text, "  {name:<width$}  {}", printable(value))?;
            }
            tell(&text)?;
        }
        match &inspection.problems[..] {
            [] => Ok(Done::Well),
            problems => bail!("{}: not in order:\n  {}", printable_path(&self.file), problems.join("\n  ")),
        }
    }
}
