//! The road from files to a folder of results: reading, the core's run, and what is told of it.

mod calibrate;
mod compare;
mod dedup;
mod explain;
mod listing;
mod output;
pub mod pages;
mod plan;
mod review;
mod samples;
pub mod stages;
mod texts;

pub use calibrate::{ProbeTable, calibrate};
pub use compare::{Contender, compare};
pub use dedup::dedup;
pub use explain::{explain, explain_texts};
pub use plan::{Plan, PlanRow, Purpose, plan};
pub use review::{ReviewJob, ReviewSummary, SIMILARITY_CUTS, review};
pub use stages::{Progress, Silent};
pub use texts::{TextJob, dedup_texts};

use crate::corpus::{
    self, DiscoverOptions, Discovered, Input, JsonlFields, ReadOptions, ReadRules, discover_all,
};
use crate::error::{Error, Result};
use crate::format;
use crate::frames;
use crate::frequencies;
use crate::making::check_file;
use crate::report::tell;
use crate::weight::frequencies::Frequencies;
use flipside_core::collection::Keeping;
use flipside_core::settings::Settings;
use pages::{Pages, count_frames};
use serde::{Deserialize, Serialize};
use stages::Stages;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What [`dedup()`] writes beside pairs, clusters and the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// The pages that stay, in the format of the input.
    pub kept: bool,
    /// `removed.csv`: the pages that can go, each with the page that stays for it.
    pub removed: bool,
    /// `pages.csv`: all pages.
    pub pages: bool,
}

/// The pages that stay.
impl Default for Writes {
    fn default() -> Self {
        Self { kept: true, removed: false, pages: false }
    }
}

/// What is to be done, and where the results go.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Files and folders; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// Names of the JSONL fields and Parquet columns.
    pub fields: JsonlFields,
    /// The longest page that is read, in bytes; `None` for the default of [`ReadOptions`].
    pub longest_page: Option<usize>,
    /// What becomes of odd input.
    pub rules: ReadRules,
    /// The folder to make.
    pub out: PathBuf,
    /// Whether a folder of that name is replaced.
    pub force: bool,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// Document frequencies to use instead of the corpus's own.
    pub frequencies: Option<PathBuf>,
    /// Where to save the document frequencies.
    pub save_frequencies: Option<PathBuf>,
    /// Whether the lines that are frame are left out, see [`crate::frames`].
    pub without_frames: bool,
    /// A file of frames to leave out instead of the corpus's own.
    pub frames: Option<PathBuf>,
    /// Where to save the frames.
    pub save_frames: Option<PathBuf>,
    /// What is written beside pairs, clusters and the report.
    pub writes: Writes,
    /// What decides the result.
    pub settings: Settings,
    /// The command as typed, for the report.
    pub command_line: Vec<String>,
    /// When the run began, RFC 3339, for the report.
    pub created: String,
}

impl Job {
    /// Runs `work` with this job's number of threads.
    fn with_threads<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R> {
        with_threads(self.threads, work)
    }

    /// How files are read. Within [`Job::with_threads`].
    fn read_options(&self) -> ReadOptions {
        ReadOptions {
            threads: rayon::current_num_threads(),
            ..ReadOptions::new(self.fields.clone(), self.longest_page, self.rules)
        }
    }
}

/// Runs `work` with a number of threads, 0 for as many as the machine has.
pub(crate) fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| Error::parameter("threads", threads, e.to_string()))?;
    Ok(pool.install(work))
}

/// Reads the job's input, and the document frequencies if a file of them is named and `settings`, one of
/// those that the pages are for, weigh features by them. What would be lost by writing the results is told
/// before.
fn read(
    job: &Job,
    settings: &Settings,
    keeping: Option<Keeping>,
    stages: &Stages<'_>,
) -> Result<(Pages, Option<Arc<Frequencies>>)> {
    settings.check()?;
    if let Some(path) = &job.save_frequencies {
        let is_ours = |path: &Path| format::is_of_kind(path, format::FREQUENCIES);
        check_file("save-frequencies", path, "an earlier file of document frequencies", is_ours)?;
    }
    if let Some(path) = &job.save_frames {
        let is_ours = |path: &Path| format::is_of_kind(path, format::FRAMES);
        check_file("save-frames", path, "an earlier file of frames", is_ours)?;
    }
    let tables = [&job.frequencies, &job.save_frequencies, &job.frames, &job.save_frames];
    output::spare(&job.out, tables.into_iter().flatten().map(PathBuf::as_path))?;
    let named = job.frames.as_deref().filter(|_| job.without_frames).map(frames::load).transpose()?;
    // A file of frequencies that does not fit is told before hours of reading.
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
    let options = DiscoverOptions { fields: job.fields.clone(), ..DiscoverOptions::default() };
    let Discovered { inputs, passed_over } = discover_all(&job.inputs, &options)?;
    output::spare(&job.out, inputs.iter().filter(|input| !input.is_stream()).map(Input::stored))?;
    if let Some(path) = &job.save_frequencies {
        output::spare_inputs("save-frequencies", path, &inputs)?;
    }
    if let Some(path) = &job.save_frames {
        output::spare_inputs("save-frames", path, &inputs)?;
    }
    let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
    let options = job.read_options();
    let frames =
        match named {
            Some(named) => Some(named),
            None if job.without_frames => Some(stages.run("frames", 0, "pages", stored.max(1), |progress| {
                count_frames(&inputs, &options, progress)
            })),
            None => None,
        };
    if let (Some(path), Some(frames)) = (&job.save_frames, &frames) {
        frames::save(frames, path)?;
    }
    let mut pages = stages.run("read", 0, "pages", stored.max(1), |progress| {
        Pages::read(
            inputs,
            &options,
            settings.extraction(),
            keeping,
            loaded.clone(),
            frames.as_ref(),
            progress,
        )
    })?;
    stages.amend(pages.len() as u64, pages.collection.text_bytes());
    pages.not_read = passed_over.told();
    pages.not_read.iter().for_each(|told| stages.progress().note(told));
    tell_damage(&pages, stages.progress());
    if pages.is_empty() {
        return Err(Error::NoDocuments(tell::why_none(&pages.files)));
    }
    Ok((pages, loaded))
}

/// Saves the document frequencies, if the job says where: those that weights depended on, or else counted
/// now.
fn save_frequencies(
    job: &Job,
    pages: &Pages,
    used: Option<&Arc<Frequencies>>,
    stages: &Stages<'_>,
) -> Result<()> {
    let Some(path) = &job.save_frequencies else { return Ok(()) };
    match used {
        Some(used) => frequencies::save(used, path),
        None => {
            let n = pages.len() as u64;
            let counted = stages.run("frequencies", n, "pages", 0, |_| pages.collection.frequencies());
            frequencies::save(&counted, path)
        }
    }
}

/// Tells the first pieces of damage of each file at once; the report lists more.
fn tell_damage(pages: &Pages, progress: &dyn Progress) {
    pages.files.iter().flat_map(corpus::FileReading::damage_told).for_each(|line| progress.note(&line));
}

/// What a run came to, for the program that called it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Documents read.
    pub documents: u64,
    /// Documents that can go.
    pub removed: u64,
    /// Pieces of damage met.
    pub damaged: u64,
    /// A few sentences for a person.
    pub text: String,
}
