//! `simflip decontaminate`

use super::arguments::{InputArgs, WorkArgs, kept_files, named};
use super::dedup::now;
use super::progress::Bars;
use super::{Done, print_text};
use simflip::contamination::{DecontaminateJob, decontaminate};
use simflip::core::contamination::Rules;
use simflip::corpus::{KeptFiles, expand_patterns};
use simflip::display::printable_path;
use simflip::report::decontamination::Removal;
use std::path::PathBuf;

/// Remove documents that hold items of a benchmark, or the passages that do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip decontaminate documents.jsonl.gz --against benchmark.jsonl --item-field question --out clean
  simflip decontaminate crawl --against benchmarks --out cut --remove passages
  simflip decontaminate crawl --against benchmarks --out look --remove nothing

An item is in a document if a passage of it, half as long again as the item, has enough of the item's n-grams. N-grams
that many items or many documents have do not count: they are instructions and set phrases. In the folder: matches.csv
(each item in each document, with the bytes of the passage), items.csv, report.html, report.json, and the kept
documents.

Exit code: 0 done; 1 done, but corrupt input was skipped; 2 failed.")]
pub(crate) struct DecontaminateArgs {
    #[command(flatten)]
    input: InputArgs,

    /// Files and folders of items, in the formats of INPUT; repeatable
    #[arg(long, value_name = "ITEMS", required = true)]
    against: Vec<PathBuf>,

    /// JSONL field or CSV or Parquet column that holds the text of an item [default: that of documents]
    #[arg(long, value_name = "NAME")]
    item_field: Option<String>,

    /// Folder to create for the results; it appears only if the run succeeds
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// What becomes of a document that has an item
    #[arg(long, value_parser = named(&REMOVALS), default_value = "documents")]
    remove: Removal,

    /// Words of an n-gram
    #[arg(long, value_name = "WORDS", default_value_t = Rules::default().ngram)]
    ngram: usize,

    /// Share of an item's n-grams that a passage must have, above 0 and at most 1; of items below 16 words more
    #[arg(long, value_name = "SHARE", default_value_t = Rules::default().share)]
    share: f64,

    /// Items with fewer words are not looked for
    #[arg(long, value_name = "WORDS", default_value_t = Rules::default().min_words)]
    min_words: usize,

    /// In how many files the kept documents are written: `one`, `each` for one an input, or a size such as 256MiB
    /// [default: one]
    #[arg(long, value_name = "one|each|BYTES", value_parser = kept_files)]
    kept_files: Option<KeptFiles>,

    #[command(flatten)]
    work: WorkArgs,
}

const REMOVALS: [(&str, &str, Removal); 3] = [
    ("documents", "It is left out", Removal::Documents),
    ("passages", "It is kept without the passages, in cut.jsonl.gz", Removal::Passages),
    ("nothing", "Only the tables are written", Removal::Nothing),
];

impl DecontaminateArgs {
    /// Runs the command. Its report notes `command_line`, the words that were typed.
    pub(crate) fn run(self, command_line: Vec<String>) -> anyhow::Result<Done> {
        let job = DecontaminateJob {
            inputs: expand_patterns(&self.input.inputs)?,
            against: expand_patterns(&self.against)?,
            options: self.input.names.options(),
            item_field: self.item_field,
            out: self.out,
            rules: Rules { ngram: self.ngram, share: self.share, min_words: self.min_words },
            removal: self.remove,
            kept_files: self.kept_files.unwrap_or_default(),
            threads: self.work.threads,
            command_line,
            created: now(),
        };
        let report = decontaminate(&job, &Bars::new(self.work.quiet))?;
        let [table, page] = ["matches.csv", "report.html"].map(|name| printable_path(&job.out.join(name)));
        print_text(&format!("{}\n{table}\n{page}\n", report.text()))?;
        Ok(if report.corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }
}
