//! `simflip rethreshold`

use super::arguments::WorkArgs;
use super::dedup::{WriteName, now, writes};
use super::progress::Bars;
use super::{Done, print_text};
use simflip::Error;
use simflip::display::{printable, printable_path};
use simflip::pipeline::{Job, least_similar};
use simflip::report::Report;
use simflip::staged;
use std::path::PathBuf;

/// Apply a higher threshold to a result of dedup --keep-sketches.
///
/// No text is sketched again. The result is that of a new run with that threshold and the bands of the earlier run,
/// byte for byte. It is made where the earlier run was, of the same input; kept documents are copied from there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip dedup crawl --out result --keep-sketches
  simflip rethreshold result --least-similar 20                   # look at the borderline first
  simflip rethreshold result --similarity 0.9 --out stricter")]
pub(crate) struct RethresholdArgs {
    /// Folder that `simflip dedup` wrote
    result: PathBuf,

    /// The new threshold, at least the one of the result and at most 1
    #[arg(long, value_name = "SHARE", required_unless_present = "least_similar", requires = "out")]
    similarity: Option<f64>,

    /// Folder to create for the new result
    #[arg(long, value_name = "DIR", requires = "similarity")]
    out: Option<PathBuf>,

    /// Print this many pairs of different texts, the least similar first; this works for any result
    #[arg(long, value_name = "N", conflicts_with_all = ["similarity", "out", "write", "force"])]
    least_similar: Option<usize>,

    /// Outputs beside the report, as of dedup [default: those of the result]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    write: Vec<WriteName>,

    /// Replace an earlier result in DIR
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    work: WorkArgs,
}

impl RethresholdArgs {
    /// Runs the command. Its report notes `command_line`, the words that were typed.
    pub(crate) fn run(self, command_line: Vec<String>) -> anyhow::Result<Done> {
        if let Some(number) = self.least_similar {
            let least = least_similar(&self.result, number)?;
            let line = |(alike, [a, b]): &(f64, [String; 2])| {
                format!("{alike:.4}  {}  {}\n", printable(a), printable(b))
            };
            return print_text(&least.iter().map(line).collect::<String>());
        }
        let bars = Bars::new(self.work.quiet);
        let [earlier, job] = self.jobs(command_line)?;
        let summary = staged::rethreshold(&earlier, &job, &bars)?;
        print_text(&format!("{}\n{}\n", summary.text, printable_path(&job.out.join("report.html"))))?;
        Ok(if summary.corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }

    /// The arguments of the `simflip dedup` that made the earlier result. `None` if its report cannot be read, or names
    /// another command.
    pub(super) fn of_result(self) -> Option<super::dedup::DedupArgs> {
        super::dedup_of(&Report::of_result(&self.result).ok()?.command_line)
    }

    /// Two jobs: that by which the result was made, and the new one. A result that was not made with --keep-sketches is
    /// an error. `command_line` is noted in the new report.
    pub(super) fn jobs(self, command_line: Vec<String>) -> anyhow::Result<[Job; 2]> {
        let report = Report::of_result(&self.result)?;
        let args = super::dedup_of(&report.command_line).filter(|args| args.keep_sketches);
        let Some((args, settings)) = args.zip(report.settings) else {
            let expected = "one of dedup --keep-sketches. Run dedup with the new threshold";
            return Err(Error::parameter("result", self.result.display(), expected).into());
        };
        let earlier = Job { settings, out: self.result, ..args.job(report.command_line)? };
        let mut job = Job {
            out: self.out.unwrap_or_default(),
            force: self.force,
            threads: self.work.threads,
            upload: None,
            save_boilerplate: None,
            command_line,
            created: now(),
            ..earlier.clone()
        };
        if !self.write.is_empty() {
            job.writes = writes(&self.write)?;
        }
        let verification = job.settings.verification;
        job.settings.verification = verification.with_threshold(self.similarity.unwrap_or_default());
        Ok([earlier, job])
    }
}
