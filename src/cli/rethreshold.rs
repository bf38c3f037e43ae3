//! `simflip rethreshold`

use super::arguments::{FieldArgs, WorkArgs};
use super::dedup::{DedupArgs, now};
use super::progress::Bars;
use super::{Done, print_text};
use simflip::pipeline::{RethresholdJob, least_similar, rethreshold};
use simflip::report::{Report, messages::closing};
use simflip::wording::{printable, printable_path};
use std::path::PathBuf;

/// Apply a higher threshold to a result, without comparing documents again.
///
/// A document is kept as well if it is less similar than the new threshold to the one that was kept for it. A new run
/// with that threshold chooses anew, and may keep other documents, more or fewer of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip rethreshold result --least-similar 20                   # look at the borderline first
  simflip rethreshold result --similarity 0.9 --out stricter      # pairs, clusters, removed documents, report
  simflip rethreshold result --similarity 0.9 --out stricter --write kept")]
pub(crate) struct RethresholdArgs {
    /// Folder that `simflip dedup` wrote
    result: PathBuf,

    /// The new threshold, at least the one of the result and at most 1
    #[arg(long, value_name = "SHARE", required_unless_present = "least_similar", requires = "out")]
    similarity: Option<f64>,

    /// Folder to create for the new result
    #[arg(long, value_name = "DIR", requires = "similarity")]
    out: Option<PathBuf>,

    /// Print this many pairs of different texts, the least similar first
    #[arg(long, value_name = "N", conflicts_with_all = ["similarity", "out", "write", "force"])]
    least_similar: Option<usize>,

    /// kept: also copy the kept documents from the input, which is read once for that and must be where it was
    #[arg(long, value_enum, value_name = "WHAT")]
    write: Option<KeptOutput>,

    /// Replace an earlier result in DIR
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    names: FieldArgs,

    #[command(flatten)]
    work: WorkArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KeptOutput {
    /// The kept documents, in the format of the input
    Kept,
}

impl RethresholdArgs {
    pub(crate) fn run(self, command_line: Vec<String>) -> anyhow::Result<Done> {
        if let Some(number) = self.least_similar {
            let least = least_similar(&self.result, number)?;
            let line = |(alike, [a, b]): &(f64, [String; 2])| {
                format!("{alike:.4}  {}  {}\n", printable(a), printable(b))
            };
            return print_text(&least.iter().map(line).collect::<String>());
        }
        let quiet = self.work.quiet;
        let job = self.job(command_line);
        let report = rethreshold(&job, &Bars::new(quiet))?;
        print_text(&format!("{}\n{}\n", closing(&report), printable_path(&job.out.join("report.html"))))
    }

    /// The job that is asked for. Documents are read as the run of the result read them, where nothing else is said.
    pub(super) fn job(self, command_line: Vec<String>) -> RethresholdJob {
        let earlier = Report::of_result(&self.result).ok();
        let earlier = earlier.and_then(|report| super::dedup_of(&report.command_line));
        let names = self.names.or(earlier.map(DedupArgs::names));
        RethresholdJob {
            result: self.result,
            similarity: self.similarity.unwrap_or_default(),
            out: self.out.unwrap_or_default(),
            force: self.force,
            kept: self.write == Some(KeptOutput::Kept),
            options: names.options(),
            threads: self.work.threads,
            command_line,
            created: now(),
        }
    }
}
