//! `simflip dedup`

use super::arguments::{
    BoilerplateArgs, CheckArgs, FeatureArgs, FieldArgs, Given, GroupArgs, InputArgs, MethodName, RunArgs,
    SearchArgs, bytes, kept_files, refuse,
};
use super::progress::Bars;
use super::{Done, print_text};
use simflip::Error;
use simflip::corpus::{KeptFiles, expand_patterns};
use simflip::display::{printable, printable_path};
use simflip::pipeline::{Ignored, Job, Writes};
use simflip::report::Report;
use simflip::report::model::BoilerplateReport;
use simflip::settings::Settings;
use simflip::staged;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Remove exact and near-duplicates from a corpus, and report what was removed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:
  simflip dedup crawl/*.warc.wet.gz --out result
  simflip dedup data.jsonl --out result --text-field content --url-field metadata.url
  simflip dedup november --against october --out result
  zcat documents.jsonl.gz | simflip dedup - --out result

All options, and the exit codes: simflip dedup --help",
    after_long_help = "Examples:
  simflip dedup crawl/*.warc.wet.gz --out result
  simflip dedup data.jsonl --out result --text-field content --url-field metadata.url
  simflip dedup november --against october --against results/september --out result
  simflip dedup crawl --out result --preset removable
  simflip dedup crawl --out result --method minhash --similarity 0.8
  simflip dedup crawl --out result --method psm --features words --weighting tf-idf --verify none   # as in the paper
  zcat documents.jsonl.gz | simflip dedup - --out result --method dial --distance 6 --recall 0.99

Exit code: 0 done; 1 done, but corrupt input was skipped; 2 failed."
)]
pub(crate) struct DedupArgs {
    #[command(flatten)]
    input: InputArgs,

    /// Also remove duplicates of OLD: a file, folder or result; repeatable
    #[arg(long, value_name = "OLD", display_order = 5)]
    against: Vec<PathBuf>,

    #[command(flatten)]
    run: RunArgs,

    /// Memory limit of a run on disk, such as 4GiB; the result is the same [default: in memory up to a quarter of what
    /// is free]
    #[arg(long, value_name = "BYTES", value_parser = bytes, display_order = 11)]
    memory: Option<u64>,

    /// Sketches to use, and how candidates are found
    #[arg(long, value_enum, default_value_t = MethodName::Both, help_heading = "Method", hide_short_help = true)]
    method: MethodName,

    /// Take the settings and reading options of an earlier run from its report.json
    #[arg(long, value_name = "REPORT", conflicts_with_all = [
        "method", "search", "distance", "recall", "similarity", "index", "budget", "key_bits", "tables", "permutations", "bands",
        "seed", "preset", "sketch_bytes", "min_features", "verify", "verify_threshold", "clusters", "keep", "all_pairs", "features", "weighting",
        "frequencies", "boilerplate_by", "boilerplate",
    ], help_heading = "Method", hide_short_help = true)]
    settings: Option<PathBuf>,

    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    check: CheckArgs,

    #[command(flatten)]
    groups: GroupArgs,

    /// List every confirmed pair, also those of exact duplicates
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    all_pairs: bool,

    /// Outputs beside the report, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "WHAT",
        default_value = "kept",
        display_order = 7
    )]
    write: Vec<WriteName>,

    /// Files of kept documents: one for each format, each for one per input, or a largest size, such as 256MiB
    /// [default: one]
    #[arg(long, value_name = "one|each|BYTES", value_parser = kept_files, help_heading = "Output", hide_short_help = true)]
    kept_files: Option<KeptFiles>,

    /// Fail, and write nothing, if a larger share than this, 0 to 1, would be removed of the corpus, or of a file,
    /// folder, host or value of --boilerplate-by field:NAME with at least 20 documents
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Output", hide_short_help = true)]
    max_removed: Option<f64>,

    /// Keep the sketches beside DIR, in DIR.stages, for simflip rethreshold; the run is on disk then
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub(super) keep_sketches: bool,

    /// Copy the finished result to s3://bucket/prefix/, gs:// or az:// (with the feature stores), to which write access
    /// is checked first
    #[arg(long, value_name = "ADDRESS", help_heading = "Output", hide_short_help = true)]
    upload: Option<PathBuf>,

    #[command(flatten)]
    features: FeatureArgs,

    #[command(flatten)]
    boilerplate: BoilerplateArgs,

    /// Save the boilerplate that --boilerplate-by found to a file, for a later --boilerplate
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    save_boilerplate: Option<PathBuf>,
}

/// The values of --write: outputs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum WriteName {
    /// pairs.csv and clusters.csv alone
    Pairs,
    /// The kept documents, in the format of the input
    Kept,
    /// removed.csv: each removed document, and the one kept for it
    Removed,
    /// documents.csv: every document, its cluster, whether it is kept, and the one kept for it
    Documents,
    /// documents.jsonl: the same, an object a line
    #[value(name = "documents.jsonl")]
    DocumentsJsonl,
    /// documents.parquet: the same in columns
    #[value(name = "documents.parquet")]
    DocumentsParquet,
    /// The report alone
    None,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share from 0 to 1, such as 0.1".to_owned())
}

impl DedupArgs {
    /// The options by which documents are read.
    pub(super) fn names(self) -> FieldArgs {
        self.input.names
    }

    /// Runs the command. Its report notes `command_line`, the words that were typed.
    pub(crate) fn run(self, command_line: Vec<String>) -> anyhow::Result<Done> {
        let job = self.job(command_line)?;
        let summary = staged::dedup(&job, &Bars::new(self.run.quiet))?;
        let uploaded = job.upload.iter().map(|address| format!("{}\n", printable_path(address)));
        let page = printable_path(&job.out.join("report.html"));
        print_text(&format!("{}\n{page}\n{}", summary.text, uploaded.collect::<String>()))?;
        Ok(if summary.corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }

    /// The job that the arguments describe. Arguments that contradict each other, or change nothing, are an error.
    /// `command_line` is noted in the report.
    pub(super) fn job(&self, command_line: Vec<String>) -> anyhow::Result<Job> {
        let given = Given {
            check: Some(&self.check),
            groups: Some(&self.groups),
            all_pairs: self.all_pairs,
            saves_frequencies: self.run.save_frequencies.is_some(),
            ..Given::new(&self.search, &self.features)
        };
        let mut input = self.input.clone();
        let Repeated { settings, frequencies, ignored, names, text_field } = match &self.settings {
            Some(path) => repeated(path)?,
            None => Repeated {
                settings: given.settings(self.method, &self.search.said(self.method))?,
                frequencies: self.features.frequencies.clone(),
                ignored: self.boilerplate.ignored(),
                names: None,
                text_field: None,
            },
        };
        input.names = input.names.or(names).or_text_field(text_field);
        let is_idle = self.save_boilerplate.is_some() && !matches!(ignored, Ignored::Counted(_));
        let with = if ignored == Ignored::None { "without --boilerplate-by" } else { "with --boilerplate" };
        let why = "no boilerplate is counted then. Leave it out, or give --boilerplate-by";
        refuse(&[("save-boilerplate", is_idle)], with, why)?;
        let writes = writes(&self.write)?;
        let is_idle = self.kept_files.is_some() && !writes.kept;
        let why = "leave it out, or name kept in --write";
        refuse(&[("kept-files", is_idle)], "where no kept documents are written", why)?;
        Ok(Job {
            against: expand_patterns(&self.against)?,
            writes,
            kept_files: self.kept_files.unwrap_or_default(),
            max_removed: self.max_removed,
            upload: self.upload.clone(),
            ignored,
            save_boilerplate: self.save_boilerplate.clone(),
            memory: self.memory,
            keep_sketches: self.keep_sketches,
            ..job(&input, &self.run, settings, frequencies, command_line)?
        })
    }
}

/// The outputs that these values of --write name. `None` beside others is an error.
pub(super) fn writes(names: &[WriteName]) -> anyhow::Result<Writes> {
    let is_asked = |name| names.contains(&name);
    anyhow::ensure!(
        !is_asked(WriteName::None) || names.len() == 1,
        "--write none stands alone: leave it out, or leave out the others"
    );
    Ok(Writes {
        pairs: !is_asked(WriteName::None),
        kept: is_asked(WriteName::Kept),
        removed: is_asked(WriteName::Removed),
        documents: is_asked(WriteName::Documents),
        documents_jsonl: is_asked(WriteName::DocumentsJsonl),
        documents_parquet: is_asked(WriteName::DocumentsParquet),
    })
}

/// The arguments that a run takes from an earlier one with --settings, or else has itself.
struct Repeated {
    settings: Settings,
    frequencies: Option<PathBuf>,
    ignored: Ignored,
    /// The reading options of the earlier run's command line; `None` if it has none that can be parsed.
    names: Option<FieldArgs>,
    text_field: Option<String>,
}

fn repeated(report: &Path) -> anyhow::Result<Repeated> {
    const TAKES: &str = "--settings takes the report.json that an earlier dedup wrote";
    let shown = printable_path(report);
    if report.is_dir() {
        let inside = report.join("report.json");
        let advice = match inside.is_file() {
            true => format!("give {}", printable_path(&inside)),
            false => "there is none in it".to_owned(),
        };
        anyhow::bail!("{shown} is a folder, but {TAKES}; {advice}");
    }
    let Report { settings, frequencies, boilerplate, command_line, corpus, .. } =
        Report::read_json(report).map_err(|error| match error {
            Error::Format { field: "content", got, .. } => {
                anyhow::anyhow!("{shown} is no report ({}), but {TAKES}", printable(&got))
            }
            other => other.into(),
        })?;
    let Some(settings) = settings else {
        anyhow::bail!("{shown}: it has no settings; give them as options");
    };
    let ignored = match boilerplate {
        None => Ignored::None,
        Some(BoilerplateReport { from: Some(path), .. }) => Ignored::OfFile(path),
        Some(BoilerplateReport { by, .. }) => Ignored::Counted(by),
    };
    let names = super::dedup_behind(&command_line).map(DedupArgs::names);
    Ok(Repeated { settings, frequencies, ignored, names, text_field: corpus.text_field })
}

/// The present time as reports have it, such as `2026-11-01T12:00:00Z`.
pub(super) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The job with these inputs, settings and options of a run. All else is as a job has it by default.
///
/// # Errors
/// For an input that is taken for a pattern, and is not a valid one.
pub(super) fn job(
    input: &InputArgs,
    run: &RunArgs,
    settings: Settings,
    frequencies: Option<PathBuf>,
    command_line: Vec<String>,
) -> simflip::Result<Job> {
    Ok(Job {
        inputs: expand_patterns(&input.inputs)?,
        fields: input.names.fields(),
        longest_document: input.names.longest_document(),
        rules: input.names.rules(),
        out: run.out.clone(),
        force: run.force,
        threads: run.threads,
        frequencies,
        save_frequencies: run.save_frequencies.clone(),
        settings,
        command_line,
        created: now(),
        ..Job::default()
    })
}
