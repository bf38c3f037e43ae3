//! `simflip calibrate`

use super::arguments::{FeatureArgs, Given, InputArgs, MethodName, SearchArgs, WorkArgs, name_of, refuse};
use super::progress::Bars;
use super::{Done, print_json, print_text};
use simflip::corpus::expand_patterns;
use simflip::display::counted;
use simflip::pipeline::{self, Job, ProbeTable};
use std::fmt::Write;

/// Measure the probes that each recall takes, for psm and dial.
///
/// Finds all near pairs of a sample exactly and notes which probe finds each. One half of the duplicate
/// clusters chooses the smallest budget of probes that reaches a recall; the other half measures what
/// recall it reaches.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip calibrate crawl
  simflip calibrate crawl --distance 6 --recalls 0.9,0.99 --json
  simflip calibrate crawl --method psm --index all-bits --features words --weighting tf-idf   # as in the paper

Exit code: 0 done; 1 done, but corrupt input was skipped; 2 failed.")]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    input: InputArgs,

    /// The recalls, shares of 1 separated by commas
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = [0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999])]
    recalls: Vec<f64>,

    /// The search whose probes are counted: psm or dial
    #[arg(long, value_enum, default_value_t = MethodName::Dial)]
    method: MethodName,

    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    features: FeatureArgs,

    #[command(flatten)]
    work: WorkArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CalibrateArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let given = [("budget", self.search.budget.is_some()), ("recall", self.search.recall.is_some())];
        let why = "how many probes a recall takes is what it measures. Leave it out; --recalls says for which recalls";
        refuse(&given, "on simflip calibrate", why)?;
        anyhow::ensure!(
            matches!(self.method, MethodName::Psm | MethodName::Dial),
            "--method {} makes no probes to count. Give --method psm or dial",
            name_of(&self.method)
        );
        let said = format!("on simflip calibrate, which measures {}", name_of(&self.method));
        let settings = Given::new(&self.search, &self.features).settings(self.method, &said)?;
        let distance = settings.generator.distance().unwrap_or_default();
        let job = Job {
            inputs: expand_patterns(&self.input.inputs)?,
            fields: self.input.names.fields(),
            longest_document: self.input.names.longest_document(),
            rules: self.input.names.rules(),
            threads: self.work.threads,
            settings,
            frequencies: self.features.frequencies.clone(),
            ..Job::default()
        };
        let table = pipeline::calibrate(&job, &self.recalls, &Bars::new(self.work.quiet))?;
        if self.json {
            print_json(&table)?
        } else {
            print_text(&show(&table, distance))?
        };
        Ok(if table.corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }
}

fn show(table: &ProbeTable, distance: u32) -> String {
    let mut text = String::new();
    if let Some((_, first)) = table.rows.first() {
        let documents = counted(table.documents, "document", "documents");
        let clusters = counted(first.held_out_clusters, "cluster", "clusters");
        let (chosen_on, held_out) = (first.chosen_on, first.held_out);
        text += &format!("{documents}; pairs of distinct hashes at distance 1 to {distance}: ");
        text += &format!("{chosen_on} to choose budgets on, {held_out} in {clusters} held out\n");
    }
    let _ = writeln!(text, "wanted   probes a document   reached   95 % interval");
    for (recall, row) in &table.rows {
        let probes = row.budget.map_or_else(|| format!("{} (all)", table.all_probes), |b| b.to_string());
        let measured = match row.held_out {
            0 => "-         -".to_owned(),
            _ => format!("{:.4}    {:.4} to {:.4}", row.reached, row.low, row.high),
        };
        let _ = writeln!(text, "{recall:<8} {probes:>13}   {measured}");
    }
    if table.rows.iter().any(|(_, row)| row.held_out == 0) {
        text.push_str("No pairs to measure on, so all probes are made.\n");
    }
    text
}
