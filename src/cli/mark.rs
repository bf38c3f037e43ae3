//! `simflip mark`

use super::arguments::{FieldArgs, WorkArgs, named};
use super::progress::Bars;
use super::{Done, print_text};
use simflip::display::{counted, printable_path};
use simflip::mark::{Filter, MarkJob, mark};
use std::path::PathBuf;

/// Export the removals for datatrove, Dolma or NumPy.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip mark result --for datatrove --out remove   # then MinhashDedupFilter(\"remove\")
  simflip mark result --for dolma --out marks        # marks/attributes/simflip, for dolma mix
  simflip mark result --for numpy --out stays        # then numpy.load(\"stays/000000.npy\")

The files that the result was made of are read once more, and must be where they were, as they were.")]
pub(crate) struct MarkArgs {
    /// Folder that simflip dedup wrote
    result: PathBuf,

    /// Whose filter
    #[arg(long = "for", value_parser = named(&FILTERS), value_name = "PROGRAM")]
    filter: Filter,

    /// Folder to create for the marks
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    names: FieldArgs,

    #[command(flatten)]
    work: WorkArgs,
}

const FILTERS: [(&str, &str, Filter); 3] = [
    ("datatrove", "MinhashDedupFilter: a task for each file, as tasks.csv says", Filter::Datatrove),
    ("dolma", "dolma mix: the attribute simflip_duplicate of files of JSONL", Filter::Dolma),
    (
        "numpy",
        "An array of truth values for each file, whether each row stays; files as tasks.csv says",
        Filter::Numpy,
    ),
];

impl MarkArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let job = MarkJob {
            result: self.result,
            filter: self.filter,
            options: self.names.options(),
            out: self.out,
            threads: self.work.threads,
        };
        let marked = mark(&job, &Bars::new(self.work.quiet))?;
        let (removed, documents) = (marked.removed, counted(marked.documents, "document", "documents"));
        let (files, out) = (counted(marked.files, "file", "files"), printable_path(&job.out));
        print_text(&format!("Marked {removed} of {documents} in {files} for removal.\n{out}\n"))
    }
}
