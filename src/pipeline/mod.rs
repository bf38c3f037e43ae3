//! The path from files to a folder of results: reading, the core's run, and the report on it.
//!
//! A [`Job`] names inputs, settings and outputs. [`dedup()`] runs it in memory; `staged` runs it on disk. Documents of
//! [`Job::inputs`] are *new*: they are kept or removed. Documents of [`Job::against`] are reference documents. Where a
//! list has both, new files and new documents come first.

mod calibrate;
mod compare;
pub(crate) mod dedup;
#[doc(hidden)]
pub mod documents;
mod explain;
pub(crate) mod finished;
mod least_similar;
pub(crate) mod listing;
pub(crate) mod output;
mod plan;
mod review;
pub(crate) mod samples;
pub(crate) mod sources;
#[doc(hidden)]
pub mod stages;
mod texts;
mod upload;

#[doc(hidden)]
pub use calibrate::{ProbeTable, calibrate};
#[doc(hidden)]
pub use compare::{Contender, compare};
pub use dedup::dedup;
#[doc(hidden)]
pub use explain::{explain, explain_texts};
#[doc(hidden)]
pub use least_similar::least_similar;
#[doc(hidden)]
pub use listing::{Assignments, DocumentAssignment};
#[doc(hidden)]
pub use plan::{Plan, PlanRow, Purpose, plan};
#[doc(hidden)]
pub use review::{ReviewJob, ReviewSummary, SIMILARITY_CUTS, review};
#[doc(inline)]
pub use stages::{Progress, Silent};
#[doc(hidden)]
pub use texts::{TextCollector, TextJob, dedup_texts};
#[doc(hidden)]
pub use upload::{Upload, upload};

use crate::atomic_write::check_file;
#[doc(inline)]
pub use crate::boilerplate::GroupBy;
use crate::boilerplate::{self, Boilerplate, host_of};
use crate::corpus::{
    self, DiscoverOptions, Discovered, FileReading, Input, JsonlFields, KeptFiles, Needed, PassedOver,
    ReadOptions, ReadRules, discover_all,
};
use crate::error::{Error, Result};
use crate::format::{self, Kind};
use crate::frequencies;
use crate::report::messages;
use crate::report::model::{MemoryReport, Report, WrittenFile};
use crate::seen;
use crate::weight::frequencies::Frequencies;
use documents::{ReadDocuments, Wanted, count_boilerplate};
use serde::{Deserialize, Serialize};
use simflip_core::clusters::{Keep, Source};
use simflip_core::collection::Keeping;
use simflip_core::settings::Settings;
use stages::Stages;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The outputs of [`dedup()`] beside the report: a field is true if its output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// `pairs.csv` and `clusters.csv`.
    pub pairs: bool,
    /// The kept documents, in the format of the input.
    pub kept: bool,
    /// `removed.csv`: the removed documents, each with the kept document that it is removed for.
    pub removed: bool,
    /// `documents.csv`: all new documents, kept and removed.
    pub documents: bool,
    /// `documents.jsonl`: the rows of `documents.csv`, a JSON object a line.
    pub documents_jsonl: bool,
    /// `documents.parquet`: the rows of `documents.csv`, in columns.
    pub documents_parquet: bool,
}

/// The kept documents, pairs and clusters are written, and nothing else.
impl Default for Writes {
    fn default() -> Self {
        Self {
            pairs: true,
            kept: true,
            removed: false,
            documents: false,
            documents_jsonl: false,
            documents_parquet: false,
        }
    }
}

/// The description of a run of `dedup`: its inputs, its settings and its outputs.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Files and folders of the new documents; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// Files, folders and earlier results whose documents are the reference set: see
    /// [`Context::against`](simflip_core::dedup::Context::against). Of an earlier result, these are the documents that
    /// it kept. Empty for a run without a reference set.
    pub against: Vec<PathBuf>,
    /// Names of the JSONL fields and Parquet columns that hold a document's text, id, URL and language.
    pub fields: JsonlFields,
    /// The longest document that is read, in bytes; `None` for the default of [`ReadOptions`].
    pub longest_document: Option<usize>,
    /// The rules for odd input, such as bytes that are not UTF-8.
    pub rules: ReadRules,
    /// The folder of results to make.
    pub out: PathBuf,
    /// True if an earlier result at `out`, or at `upload`, is replaced; without, the run is refused.
    pub force: bool,
    /// The address in an object store to which the folder is copied once it is whole; see [`Upload`].
    pub upload: Option<PathBuf>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// A file of document frequencies that weigh features; `None`: the run counts its own documents', if needed.
    pub frequencies: Option<PathBuf>,
    /// The file to which the run saves the document frequencies.
    pub save_frequencies: Option<PathBuf>,
    /// The boilerplate that is left out of documents, see [`crate::boilerplate`].
    pub ignored: Ignored,
    /// The file to which the run saves that boilerplate.
    pub save_boilerplate: Option<PathBuf>,
    /// The outputs beside the report.
    pub writes: Writes,
    /// In how many files the kept documents are written.
    pub kept_files: KeptFiles,
    /// The largest share, 0 to 1, of the new documents that may be removed. It also holds for each file, folder, host
    /// and value of a field with [20 documents or more](crate::report::model::Sources::LEAST). If more would be
    /// removed, nothing is written. `None` for any share.
    pub max_removed: Option<f64>,
    /// The settings that decide the result.
    pub settings: Settings,
    /// The command as typed, for the report.
    pub command_line: Vec<String>,
    /// When the run began, RFC 3339, for the report.
    pub created: String,
    /// Bytes of memory that [`staged::dedup`](crate::staged::dedup()) keeps to; with `Some`, it runs on disk if it
    /// can. `None` for half of what the machine has, or what is free, if that is less. [`dedup()`] takes what it needs.
    pub memory: Option<u64>,
    /// True if [`staged::dedup`](crate::staged::dedup()) runs on disk and leaves its sketches beside `out`, for
    /// [`staged::rethreshold`](crate::staged::rethreshold). [`dedup()`] has none to leave.
    pub keep_sketches: bool,
    /// The memory that the run is expected to take, for the report; `None` if nobody estimated it.
    pub expected: Option<MemoryReport>,
}

/// Which lines are left out of documents as boilerplate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ignored {
    /// None.
    #[default]
    None,
    /// The boilerplate that the run counts itself, in these groups of its documents.
    Counted(GroupBy),
    /// The boilerplate in a file, which an earlier run has saved.
    OfFile(PathBuf),
}

impl Ignored {
    /// The file of [`Ignored::OfFile`].
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::OfFile(path) => Some(path),
            Self::None | Self::Counted(_) => None,
        }
    }
}

impl Job {
    /// Runs `work` on a pool of this job's number of threads.
    pub(crate) fn with_threads<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R> {
        with_threads(self.threads, work)
    }

    /// The options by which the job's inputs are read. They take the number of threads of the current pool, so this is
    /// to be called within [`Job::with_threads`]. A field that groups documents is among them for
    /// [`Ignored::Counted`] alone; for a file of boilerplate, [`grouped`] adds it.
    pub(crate) fn read_options(&self) -> ReadOptions {
        let score = self.settings.keep.score_field().map(str::to_owned);
        let fields = JsonlFields { score, ..self.fields.clone() };
        let options = ReadOptions {
            threads: rayon::current_num_threads(),
            ..ReadOptions::new(fields, self.longest_document, self.rules)
        };
        match &self.ignored {
            Ignored::Counted(by) => grouped(options, Some(by)),
            Ignored::None | Ignored::OfFile(_) => options,
        }
    }
}

/// `options` that also read the field by which `by` groups documents, if it groups them by a field.
pub(crate) fn grouped(mut options: ReadOptions, by: Option<&GroupBy>) -> ReadOptions {
    if let Some(field) = by.and_then(GroupBy::field) {
        options.fields.group = Some(field.to_owned());
    }
    options
}

/// Runs `work` on a pool of so many threads, 0 for as many as the machine has. Fails if they cannot be started.
pub(crate) fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    Ok(corpus::pool(threads)?.install(work))
}

/// Reads the job's documents, from `files` if its files were found before. Keeps of each `keeping`, or, with `None`,
/// what the run needs. Also gives the document frequencies of a file, if the job names one and `settings` weigh by it,
/// and the boilerplate that was left out. Refuses, before it reads, to replace one of its inputs.
fn read_files(
    job: &Job,
    settings: &Settings,
    keeping: Option<Keeping>,
    files: Option<Against>,
    stages: &Stages<'_>,
) -> Result<(ReadDocuments, Option<Arc<Frequencies>>, Option<Boilerplate>)> {
    settings.check()?;
    check_saved(job)?;
    let named = job.ignored.file().map(|path| boilerplate::load(path)).transpose()?;
    // A file of frequencies that does not fit is refused before hours of reading.
    let loaded = match &job.frequencies {
        Some(path) if settings.needs_frequencies() => {
            Some(Arc::new(frequencies::load(path, settings.extraction())?))
        }
        _ => None,
    };
    let keeping = match (keeping, &job.save_frequencies) {
        (Some(keeping), _) => keeping,
        (None, Some(_)) => Keeping::Features,
        (None, None) => Keeping::of(settings),
    };
    let Against { inputs, new_files, both, passed_over } = match files {
        Some(files) => files,
        None => all_inputs(job)?,
    };
    spare_inputs(job, &inputs)?;
    let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
    let options = grouped(job.read_options(), named.as_ref().map(|boilerplate| &boilerplate.by));
    let boilerplate = match &job.ignored {
        Ignored::Counted(by) => Some(count_boilerplate(&inputs, by.clone(), &options, u64::MAX, stages)?.0),
        Ignored::None | Ignored::OfFile(_) => named,
    };
    if let (Some(path), Some(boilerplate)) = (&job.save_boilerplate, &boilerplate) {
        boilerplate::save(boilerplate, path)?;
    }
    let mut read = stages.run("read", 0, "documents", stored.max(1), |progress| {
        let (extraction, frequencies, boilerplate) =
            (settings.extraction(), loaded.clone(), boilerplate.as_ref());
        let wanted = Wanted { extraction, keeping, frequencies, boilerplate };
        ReadDocuments::read(inputs, new_files, &options, &wanted, progress)
    })?;
    stages.amend(read.len() as u64, read.collection.text_bytes());
    passed_over.message().iter().for_each(|message| stages.progress().note(message));
    read.not_read = passed_over;
    // The first corrupt sections of each file; the report lists more.
    let corruption = read.files.iter().flat_map(FileReading::corruption_messages);
    corruption.for_each(|line| stages.progress().note(&line));
    read.both = both;
    check_documents(&read.files, new_files, stages.progress())?;
    Ok((read, loaded, boilerplate))
}

/// The files that a job saves beside its results. Each has its option, its path, its format, and the name in words of
/// an earlier file that it may replace.
fn saved(job: &Job) -> impl Iterator<Item = (&'static str, &PathBuf, Kind, &'static str)> {
    let (frequencies, boilerplate) =
        ("an earlier file of document frequencies", "an earlier file of boilerplate");
    [
        ("save-frequencies", &job.save_frequencies, format::FREQUENCIES, frequencies),
        ("save-boilerplate", &job.save_boilerplate, format::BOILERPLATE, boilerplate),
    ]
    .into_iter()
    .filter_map(|(option, path, kind, what)| Some((option, path.as_ref()?, kind, what)))
}

/// Refuses a job that saves document frequencies or boilerplate in place of any other file than an earlier one of that
/// kind. Also refuses one whose results would replace a folder with a table that it reads or saves.
pub(crate) fn check_saved(job: &Job) -> Result<()> {
    for (option, path, kind, what) in saved(job) {
        check_file(option, path, what, |path| format::is_of_kind(path, kind))?;
    }
    let tables = job.frequencies.iter().chain(job.ignored.file()).chain(saved(job).map(|(_, path, ..)| path));
    output::spare(&job.out, tables.map(PathBuf::as_path))
}

/// Refuses a job whose results would replace a folder that holds one of `inputs`, or that saves a file in place of one.
pub(crate) fn spare_inputs(job: &Job, inputs: &[Input]) -> Result<()> {
    output::spare(&job.out, inputs.iter().filter(|input| !input.is_stream()).map(Input::stored))?;
    saved(job).try_for_each(|(option, path, ..)| output::spare_inputs(option, path, inputs))
}

/// Reports what was odd in the files that were read, and checks that they have documents. The first `new_files` of them
/// are new, and the others are of the reference set.
///
/// # Errors
/// If there is no new document, or no document in the files of the reference set.
pub(crate) fn check_documents(read: &[FileReading], new_files: usize, progress: &dyn Progress) -> Result<()> {
    messages::odd_input_warnings(read).iter().for_each(|line| progress.note(line));
    let (new, old) = read.split_at(new_files);
    let has_none = |files: &[FileReading]| files.iter().all(|file| file.documents == 0);
    if has_none(new) {
        return Err(Error::NoDocuments(messages::why_none(new)));
    }
    if !old.is_empty() && has_none(old) {
        return Err(Error::NoDocuments(format!("--against: {}", messages::why_none(old))));
    }
    Ok(())
}

/// The files of a job as they were found on disk or in a store: new files, and reference files if there are any.
#[derive(Clone, Debug)]
pub(crate) struct Against {
    /// The new files, then those of the reference set.
    pub inputs: Vec<Input>,
    /// Number of new files in `inputs`.
    pub new_files: usize,
    /// Files that were named as both new and reference files; they are reference files.
    pub both: u64,
    /// Entries of folders that are not read, each with the reason.
    pub passed_over: PassedOver,
}

/// Finds the files of a job, new ones and those of the reference set, and checks that they have the fields it needs.
///
/// # Errors
/// If one that was named does not exist, if there are no new ones, or none of a reference set that is asked for. Also
/// if none of the first documents has a text, or a field that an option needs.
pub(crate) fn all_inputs(job: &Job) -> Result<Against> {
    corpus::check_exist(job.inputs.iter().chain(&job.against))?;
    let options = DiscoverOptions { fields: job.fields.clone(), ..DiscoverOptions::default() };
    let Discovered { inputs, passed_over } = discover_all(&job.inputs, &options)?;
    check_fields(job, &inputs)?;
    add_reference_set(job, inputs, passed_over, &options)
}

/// The demand that some of the first documents have a URL with a host, for [`corpus::check_fields`]. `options` are
/// those that need it, as an error names them.
pub(crate) fn host_needed(fields: &JsonlFields, options: &str) -> Needed {
    let why = format!(", which {options} needs, with a host, as in https://a.example/b");
    Needed::url(&fields.url, &why, |document| document.url.and_then(host_of).is_some())
}

/// Checks that some of the first new documents have a text, and the fields that the job's options need.
fn check_fields(job: &Job, inputs: &[Input]) -> Result<()> {
    let Settings { keep, quota, .. } = &job.settings;
    // The kind of groups in which boilerplate is counted now, or was when its file was made.
    let (by, option, value) = match &job.ignored {
        Ignored::None => (None, "", String::new()),
        Ignored::Counted(by) => (Some(by.clone()), "boilerplate-by", by.to_string()),
        Ignored::OfFile(path) => {
            (Some(boilerplate::groups_of(path)?), "boilerplate", path.display().to_string())
        }
    };
    let of_hosts = [
        (quota.each == Some(Source::Host)).then(|| "--keep-each host".to_owned()),
        (by == Some(GroupBy::Host)).then(|| format!("--{option} {value}")),
    ];
    let of_hosts: Vec<String> = of_hosts.into_iter().flatten().collect();
    let host = (!of_hosts.is_empty()).then(|| host_needed(&job.fields, &of_hosts.join(" and ")));
    let shortest = (*keep == Keep::ShortestUrl).then(|| {
        let why = ", which --keep shortest-url needs";
        Needed::url(&job.fields.url, why, |document| document.url.is_some())
    });
    let score = keep.score_field().map(|_| Needed::score("keep", keep.to_string()));
    let group = by.as_ref().and_then(GroupBy::field).map(|field| Needed::group(option, value, field));
    let others: Vec<Needed> = [host, shortest, score, group].into_iter().flatten().collect();
    corpus::check_fields(inputs, &grouped(job.read_options(), by.as_ref()), &others)
}

/// Puts the reference files of a job behind its new ones. A file that is named as both is a reference file.
fn add_reference_set(
    job: &Job,
    mut inputs: Vec<Input>,
    mut passed_over: PassedOver,
    options: &DiscoverOptions,
) -> Result<Against> {
    if job.against.is_empty() {
        let new_files = inputs.len();
        return Ok(Against { inputs, new_files, both: 0, passed_over });
    }
    let is_stream = |path: &PathBuf| path == Path::new("-");
    if job.against.iter().any(is_stream) && job.inputs.iter().any(is_stream) {
        return Err(Error::parameter(
            "against",
            "-",
            "files; standard input is read once, for the new documents",
        ));
    }
    let mut paths = Vec::new();
    for path in &job.against {
        if seen::is_index(path) {
            let expected = "files of documents, or a folder of results; simflip seen asks an index";
            return Err(Error::parameter("against", path.display(), expected));
        }
        if format::is_result_folder(path) {
            let kept = corpus::kept_files(path)?;
            let written = WrittenFile::listed_in(&path.join("report.json")).unwrap_or_default();
            let is_kept = |file: &&WrittenFile| corpus::is_kept_name(&file.name);
            for WrittenFile { name, bytes, .. } in written.iter().filter(is_kept) {
                let file = path.join(name);
                let why = match fs::metadata(&file) {
                    Ok(found) if found.len() == *bytes => continue,
                    Ok(found) => format!(
                        "{name} has {} bytes, and {bytes} were written. To take it as it is, name the file",
                        found.len()
                    ),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => format!("{name} is gone"),
                    Err(error) => return Err(Error::io(&file, error)),
                };
                let expected = format!("all kept documents of that result; {why}");
                return Err(Error::parameter("against", path.display(), expected));
            }
            if kept.is_empty() {
                let expected =
                    "a result with its kept documents (--write kept), or the files that they are in";
                return Err(Error::parameter("against", path.display(), expected));
            }
            paths.extend(kept);
        } else {
            paths.push(path.clone());
        }
    }
    let old = discover_all(&paths, options)?;
    let whose =
        "documents of --against (simflip sketch takes each side with its own --text-field, for simflip join)";
    corpus::check_texts(&old.inputs, &job.read_options(), whose)?;
    passed_over.add(old.passed_over);
    let all = inputs.len();
    let is_reference: HashSet<PathBuf> =
        old.inputs.iter().map(|input| input.stored().to_path_buf()).collect();
    inputs.retain(|new| !is_reference.contains(new.stored()));
    let (new_files, both) = (inputs.len(), (all - inputs.len()) as u64);
    if new_files == 0 {
        return Err(Error::parameter(
            "against",
            job.against.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" "),
            "other files than the new ones; each of these is named as both",
        ));
    }
    inputs.extend(old.inputs);
    Ok(Against { inputs, new_files, both, passed_over })
}

/// Saves the document frequencies, if the job says where: those `used` for weights, or else those of the documents
/// that were `read`, counted now.
fn save_frequencies(
    job: &Job,
    read: &ReadDocuments,
    used: Option<&Arc<Frequencies>>,
    stages: &Stages<'_>,
) -> Result<()> {
    let Some(path) = &job.save_frequencies else { return Ok(()) };
    match used {
        Some(used) => frequencies::save(used, path),
        None => {
            let n = read.len() as u64;
            let counted = stages.run("frequencies", n, "documents", 0, |_| read.collection.frequencies());
            frequencies::save(&counted, path)
        }
    }
}

/// The summary of a run, for the program that called it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// New documents that were read.
    pub documents: u64,
    /// New documents that were removed; 0 for a comparison of methods.
    pub removed: u64,
    /// Corrupt sections of all files.
    pub corrupt: u64,
    /// A few sentences for a person: what the command prints.
    pub text: String,
}

impl Summary {
    fn of(report: &Report) -> Self {
        Self {
            documents: report.corpus.documents,
            removed: report.outcome.removed,
            corrupt: report.corruption.total,
            text: messages::closing(report),
        }
    }
}
