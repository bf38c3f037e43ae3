//! `simflip inspect`

use super::{Done, print_json, print_text};
use anyhow::bail;
use simflip::display::{printable, printable_path};
use std::fmt::Write;
use std::path::PathBuf;

/// Show and check a file or folder that simflip wrote.
///
/// Knows folders of results and each file in them, judged.csv, the output of `simflip seen`, files of
/// document frequencies and of seen pages, and what sketch, join, cluster and apply write. Fails if something
/// is inconsistent: counts, checksums, a report.html that does not follow from its report.json, a line
/// without an end. A single table or file of documents cannot show that its last rows or documents are missing; the
/// folder can.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip inspect result
  simflip inspect judged.csv
  simflip inspect result/kept.warc.wet.gz")]
pub(crate) struct InspectArgs {
    /// The file or folder
    file: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl InspectArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let inspection = simflip::inspect::inspect(&self.file)?;
        if self.json {
            print_json(&inspection)?;
        } else {
            let mut text = String::new();
            writeln!(text, "{}: {}", printable_path(&self.file), inspection.what)?;
            let width = inspection.facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            for (name, value) in &inspection.facts {
                writeln!(text, "  {name:<width$}  {}", printable(value))?;
            }
            print_text(&text)?;
        }
        match &inspection.problems[..] {
            [] => Ok(Done::Well),
            problems => bail!("{}: not in order:\n  {}", printable_path(&self.file), problems.join("\n  ")),
        }
    }
}
