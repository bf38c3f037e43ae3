//! `simflip evaluate`

use super::arguments::{FieldArgs, parsed, refuse};
use super::{Done, print_json, print_text};
use anyhow::Context;
use simflip::corpus::{DiscoverOptions, ReadOptions, discover};
use simflip::display::{counted, printable_path};
use simflip::evaluate::corpus::record_names;
use simflip::evaluate::found::{Found, ListedPairs, RecordNames};
use simflip::evaluate::interval::Bootstrap;
use simflip::evaluate::judged::{PrecisionEstimate, estimate_precision, read_judgements};
use simflip::evaluate::truth::{Rule, Scope, TruthFile, TruthParams};
use simflip::evaluate::{self, Evaluation};
use simflip::report::model::{FileRow, Report};
use std::fs;
use std::path::PathBuf;

/// Score a result against labels: precision, recall and F1.
///
/// The truth is CSV, plain or gzip. It lists pairs by record number (columns a,b; conversion records or
/// lines, counted from 0 through the sorted files) or by id (a_id,b_id), with a label, a score or neither;
/// or clusters (record or id, and cluster). Precision alone needs no truth: judge a sample of the result's
/// pairs with `simflip review` and pass the judgements.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip evaluate result --truth truth.csv
  simflip evaluate result --truth scores.csv.gz --min-score 0.8 --json
  simflip review result && simflip evaluate result --judged judged.csv")]
pub(crate) struct EvaluateArgs {
    /// Folder that `simflip dedup` wrote; run it with --all-pairs for the recall of its list of pairs, too
    #[arg(required_unless_present = "judged")]
    result: Option<PathBuf>,

    /// CSV of the true pairs or clusters
    #[arg(long, value_name = "FILE", required_unless_present = "judged", conflicts_with = "judged")]
    truth: Option<PathBuf>,

    /// Estimate precision from the judgements that the page of `simflip review` saved; if a result is named,
    /// they are checked to be of it
    #[arg(long, value_name = "FILE")]
    judged: Option<PathBuf>,

    /// Where the corpus is now [default: where the result's report says it was]
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    corpus: Vec<PathBuf>,

    /// Truth with scores: pairs with at least this score are duplicates [default: every listed pair]
    #[arg(long, value_name = "SCORE", value_parser = finite)]
    min_score: Option<f64>,

    /// Truth with labels: pairs with at least this label are duplicates [default: 1]
    #[arg(long, value_name = "LABEL", value_parser = finite)]
    min_label: Option<f64>,

    /// Which pairs the truth covers: corpus, labelled-documents or labelled-pairs [default:
    /// labelled-pairs for pairs with labels, labelled-documents for clusters, corpus for other pairs]
    #[arg(long, value_parser = parsed::<Scope>)]
    scope: Option<Scope>,

    /// Number of resamples for the bootstrap intervals; 0 omits the intervals [default: 1000]
    #[arg(long, value_name = "N")]
    resamples: Option<u32>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    names: FieldArgs,
}

/// A number, and not one that no score could reach or that compares with none.
fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a number".to_owned())
}

impl EvaluateArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let json = self.json;
        match self.scores()? {
            scores if json => print_json(&scores),
            ResultScores::Judged(estimate) => print_text(&estimate.to_string()),
            ResultScores::Held(evaluation) => print_text(&evaluation.to_string()),
        }
    }

    /// Reads the result and its truth or judgements, and gives the scores.
    pub(super) fn scores(self) -> anyhow::Result<ResultScores> {
        let usual = TruthParams::default();
        let min_label = self.min_label.unwrap_or(usual.min_label);
        if let Some(judged) = &self.judged {
            let why = "judgements speak of listed pairs alone. Leave it out, or give a --truth instead";
            let unused = [
                ("corpus", !self.corpus.is_empty()),
                ("min-score", self.min_score.is_some()),
                ("scope", self.scope.is_some()),
                ("resamples", self.resamples.is_some()),
            ];
            refuse(&unused, "with --judged", why)?;
            refuse(&self.names.given(), "with --judged", why)?;
            let listed = self.result.as_deref().map(ListedPairs::read).transpose()?;
            let judgements = read_judgements(judged, min_label, listed.as_ref())?;
            return Ok(ResultScores::Judged(estimate_precision(&judgements)));
        }
        let (Some(result), Some(truth)) = (&self.result, &self.truth) else {
            anyhow::bail!("a result and --truth are needed, or --judged");
        };
        // Before the corpus is read, which takes longer.
        fs::metadata(truth).map_err(|error| simflip::Error::io(truth, error))?;
        let report = Report::read_json(&result.join("report.json"))
            .with_context(|| format!("{} is no folder of results", printable_path(result)))?;
        let corpus = match &self.corpus[..] {
            [] if report.files.iter().any(|file| file.path == "-") => anyhow::bail!(
                "the documents came by standard input, which is gone; --corpus names files that hold the same ones"
            ),
            [] => {
                let needed = report.files.iter().filter(|file| !file.is_dispensable());
                needed.map(|file| PathBuf::from(&file.path)).collect()
            }
            corpus => corpus.to_vec(),
        };
        let fields = report.fields(self.names.fields());
        let options = ReadOptions::new(fields.clone(), self.names.longest_document(), self.names.rules());
        let discovery = DiscoverOptions { fields, ..DiscoverOptions::default() };
        let (names, files) =
            discover(&corpus, &discovery).and_then(|inputs| record_names(&inputs, &options)).context(
                "the corpus of this result cannot be found; --corpus names it (relative paths begin in the folder in which \
                 dedup was run)",
            )?;
        let read: u64 = report.files.iter().map(|file| file.documents).sum();
        // Records that were skipped have a number, and no name.
        let documents = names.iter().filter(|name| !name.is_empty()).count();
        let (has, shown) = (counted(documents as u64, "document", "documents"), printable_path(result));
        anyhow::ensure!(
            documents as u64 == read,
            "the corpus has {has}, and {shown} was made from {read}; if the input has changed since, run dedup again, and if it was \
             read with --text-field or --longest-document, give them"
        );
        let named = files.iter().map(|file| (file.path.to_string_lossy(), file));
        if let Some(other) = FileRow::changed(&report.files, named) {
            let other = printable_path(&other.path);
            anyhow::bail!(
                "{other} has other texts than {shown} was made from, or the same in another order; run dedup again"
            );
        }
        let records = RecordNames::new(&names)?;
        let params = TruthParams { min_score: self.min_score, min_label, scope: self.scope };
        let truth = TruthFile::read(truth, &records, &params)?;
        let labelled = matches!(truth.rule, Rule::Label(_));
        let why = "it has no labels. Leave it out";
        refuse(&[("min-label", self.min_label.is_some() && !labelled)], "on this truth", why)?;
        let found = Found::read(result, &records)?;
        let bootstrap = self
            .resamples
            .map_or_else(Bootstrap::default, |resamples| Bootstrap { resamples, ..Bootstrap::default() });
        let mut evaluation = evaluate::evaluate(&truth, &found, records.count(), bootstrap)?;
        if report.lists_removals() || report.outcome.pairs_written < report.outcome.pairs_found {
            evaluation.keep_precision_of_removals();
        }
        Ok(ResultScores::Held(Box::new(evaluation)))
    }
}

/// The scores of a result.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum ResultScores {
    /// The precision, estimated from judgements of some of its pairs.
    Judged(PrecisionEstimate),
    /// The scores against a truth.
    Held(Box<Evaluation>),
}
