//! `simflip review`

use super::arguments::FieldArgs;
use super::dedup::now;
use super::progress::Bars;
use super::{Done, print_text};
use clap::ValueEnum;
use simflip::display::{counted, printable_path};
use simflip::evaluate::judged::Bands;
use simflip::pipeline::{ReviewJob, SIMILARITY_CUTS, review};
use std::path::PathBuf;

/// Judge a random sample of the pairs in a browser, and measure the precision.
///
/// The page is one HTML file that loads nothing else. It shows each pair side by side with the differences
/// marked; you judge with one key per pair. It saves the judgements as CSV for `simflip evaluate --judged`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip review result                  # then open result/review.html
  simflip review result --sample 200 --seed 7 --page second.html
  simflip evaluate result --judged judged.csv")]
pub(crate) struct ReviewArgs {
    /// Folder that `simflip dedup` wrote
    result: PathBuf,

    /// Number of pairs to judge
    #[arg(long, value_name = "N", default_value_t = 100)]
    sample: usize,

    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// How to divide the pairs into bands; the same number is drawn from each [default: distance; similarity
    /// for checked results]
    #[arg(long, value_enum)]
    by: Option<By>,

    /// The page to write [default: review.html in the folder of results]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,

    /// Where the corpus is now [default: where the result's report says it was]
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    corpus: Vec<PathBuf>,

    /// Show no progress on standard error
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    names: FieldArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Distance,
    Similarity,
}

impl ReviewArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let job = ReviewJob {
            page: self.page.unwrap_or_else(|| self.result.join("review.html")),
            result: self.result,
            corpus: self.corpus,
            options: self.names.options(),
            size: self.sample,
            seed: self.seed,
            bands: self.by.map(|by| match by {
                By::Distance => Bands::Distance,
                By::Similarity => Bands::Similarity(SIMILARITY_CUTS.to_vec()),
            }),
            created: now(),
        };
        let summary = review(&job, &Bars::new(self.quiet))?;
        let (sampled, pairs) = (summary.sampled, counted(summary.pairs, "pair", "pairs"));
        let (bands, page) = (counted(summary.bands, "band", "bands"), printable_path(&job.page));
        print_text(&format!("{sampled} of {pairs} of different texts to judge, from {bands}.\n{page}\n"))
    }
}
