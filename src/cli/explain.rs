//! `simflip explain`

use super::arguments::{
    BoilerplateArgs, CheckArgs, FeatureArgs, FieldArgs, Given, MethodName, SearchArgs, refuse,
};
use super::progress::Bars;
use super::{Done, print_json, print_text};
use simflip::corpus::expand_patterns;
use simflip::pipeline::{Job, explain};
use simflip::report::explanation::Methods;
use std::path::PathBuf;

/// Explain why two documents are near-duplicates, or are not.
///
/// Shows the distance, the bits that differ and the features that pushed them, which probe finds the pair,
/// the exact similarities, each method's outcome and the setting that would change it, and a diff. With
/// INPUT, A and B are documents of that corpus, weighted by it; without, they are text files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip explain http://a.example/ http://b.example/ crawl/*.warc.wet.gz
  simflip explain 17 42 crawl/part.warc.wet.gz --distance 6 --json
  simflip explain one.txt two.txt --weighting tf-idf --frequencies frequencies.bin")]
pub(crate) struct ExplainArgs {
    /// First document: its id, its URL, or its number (counted from 0); without INPUT, a plain text file
    a: String,

    /// Second document, named likewise
    b: String,

    /// The corpus that holds the documents: files and folders as for `dedup`
    #[arg(value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    names: FieldArgs,

    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    check: CheckArgs,

    #[command(flatten)]
    features: FeatureArgs,

    #[command(flatten)]
    boilerplate: BoilerplateArgs,

    /// Show no progress on standard error
    #[arg(long, short)]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ExplainArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        if self.inputs.is_empty() {
            let why = "A and B are files of plain text then. Leave it out, or name the corpus that the documents are of";
            refuse(&self.names.given(), "without INPUT", why)?;
            let given =
                [("budget", self.search.budget.is_some()), ("key-bits", self.search.key_bits.is_some())];
            let why = "what is boilerplate, the documents of a host tell. Leave it out, or name the corpus that the documents are of";
            refuse(&self.boilerplate.given(), "without INPUT", why)?;
            let why = "two files alone are not searched. Leave it out, or name the corpus that the documents are of";
            refuse(&given, "without INPUT", why)?;
        }
        let methods = methods(&self.search, &self.check, &self.features)?;
        let job = Job {
            inputs: expand_patterns(&self.inputs)?,
            fields: self.names.fields(),
            longest_document: self.names.longest_document(),
            rules: self.names.rules(),
            frequencies: self.features.frequencies.clone(),
            ignored: self.boilerplate.ignored(),
            ..Job::default()
        };
        let explanation = explain(&job, &methods, &self.a, &self.b, &Bars::new(self.quiet))?;
        if self.json { print_json(&explanation) } else { print_text(&explanation.to_string()) }
    }
}

/// The settings of each method by which a pair is explained. An argument that has an effect on none of them is an
/// error.
pub(super) fn methods(
    search: &SearchArgs,
    check: &CheckArgs,
    features: &FeatureArgs,
) -> anyhow::Result<Methods> {
    let given = Given { check: Some(check), ..Given::new(search, features) };
    let why = "with any number of tables bphs finds the same. Leave it out";
    refuse(&[("tables", search.tables.is_some())], "on simflip explain", why)?;
    let all = [MethodName::Both, MethodName::Simhash, MethodName::Psm, MethodName::Minhash];
    let [both, simhash, probing, minhash] = given
        .settings_of_all(&all, "on simflip explain")?
        .try_into()
        .map_err(|_| anyhow::anyhow!("settings of four methods"))?;
    Ok(Methods { both, simhash, probing, minhash })
}
