//! A plan for a run over a number of documents: its stages, hours, memory and disk, from rates that are measured now.

use super::apply::{ApplyJob, Outputs, apply};
use super::cluster::cluster;
use super::estimate::{Disk, Estimate, HELD_ANYWAY, is_large, sketch_bytes, usual};
use super::grouping::Grouping;
use super::join::{ClusterJob, join};
use super::sketch::{Shard, SketchJob, sketch};
use super::store::{can_be_joined, held as held_each};
use super::{Budget, printed_bytes};
use crate::corpus::{DiscoverOptions, KeptFiles, ReadOptions, check_fields, discover_all};
use crate::error::{Error, Result};
use crate::pipeline::{Progress, Silent};
use crate::resources::{cpu_seconds, memory_share};
use serde::{Deserialize, Serialize};
use simflip_core::clusters::Linkage;
use simflip_core::hash::SplitMix64;
use simflip_core::recall_estimate::most_sampled;
use simflip_core::settings::Settings;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A job to be planned.
#[derive(Clone, Debug)]
pub struct PlanJob {
    /// Files of documents like those of the job, whose names and texts are measured. Without them, these are taken to
    /// be as long as those of Common Crawl.
    pub inputs: Vec<PathBuf>,
    /// The options of reading.
    pub options: ReadOptions,
    /// Number of documents; `None` for the estimate of those of the inputs.
    pub documents: Option<u64>,
    /// Bytes of memory that may be taken; `None` for a share of what the machine has.
    pub memory: Option<u64>,
    /// Bytes of disk that may be taken; `None` for what it takes.
    pub disk: Option<u64>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// The settings that decide the result.
    pub settings: Settings,
}

/// The plan of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    /// Number of documents.
    pub documents: u64,
    /// Bytes of a document's id and URL, on average.
    pub name_bytes: f64,
    /// Bytes of a document's text, on average.
    pub text_bytes: f64,
    /// True if the bytes of names and texts are measured on inputs, and false if they are taken to be as usual.
    pub sampled: bool,
    /// Bytes of memory that may be taken.
    pub memory: u64,
    /// Bytes of disk that may be taken; `None` for no limit.
    pub disk: Option<u64>,
    /// The number of threads that the hours are for.
    pub threads: u64,
    /// Bytes of memory that a run in memory takes.
    pub held_bytes: u64,
    /// True if it goes on disk: the memory was named, or a run in memory takes more than a quarter of it.
    pub on_disk: bool,
    /// The least bytes of memory for a run on disk.
    pub least_memory: u64,
    /// The bytes of disk that a run on disk takes.
    pub disk_bytes: Disk,
    /// The most bytes that are on disk at once; 0 for a run in memory.
    pub most_disk_bytes: u64,
    /// The stages in order; a run in memory is one stage.
    pub stages: Vec<StagePlan>,
    /// Processor seconds of all stages.
    pub cpu_seconds: f64,
    /// The resource that does not suffice, in words; `None` if all do.
    pub too_little: Option<String>,
    /// The rates that were measured on this machine.
    pub rates: Rates,
}

/// The plan of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagePlan {
    /// Its name: `sketch`, `join`, `cluster` or `apply`, or `dedup` for a run in memory.
    pub name: String,
    /// The kind of files that it reads: `input`, `sketches`, or `pairs`, which are files of edges.
    pub reads: String,
    /// The number of times that it reads them.
    pub passes: u64,
    /// Bytes that it reads, in all passes: of texts, or of files that earlier stages wrote.
    pub read_bytes: f64,
    /// Processor seconds.
    pub cpu_seconds: f64,
    /// Hours on the clock, if all threads share the work.
    pub hours: f64,
    /// Bytes of memory that it is expected to take.
    pub memory_bytes: u64,
    /// Bytes that it leaves on disk. Kept documents count by their texts, not compressed.
    pub disk_bytes: f64,
}

/// Processor seconds for a unit of work, which are measured by running all stages over generated documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Documents that were generated.
    pub documents: u64,
    /// Seconds to sketch a byte of text.
    pub sketch: f64,
    /// Seconds to join a document.
    pub join: f64,
    /// Seconds to compare a document with one that is sampled.
    pub recall_estimate: f64,
    /// Seconds to cluster a document, without the recall estimate.
    pub cluster: f64,
    /// Seconds of the last stage for a byte of text, which is copied or passed over.
    pub apply: f64,
}

/// Says what time, memory and disk a job will take. The rates are measured, which takes a second or two; shares of
/// documents that are near others are assumed.
///
/// # Errors
/// If no number of documents is known or it is 0, the settings cannot go on disk, or inputs or a temporary folder
/// cannot be used. Too little memory or disk is no error: [`JobPlan::too_little`] says it.
pub fn plan(job: &PlanJob, progress: &dyn Progress) -> Result<JobPlan> {
    /// Of Common Crawl's WET files, about.
    const NAMES: [f64; 2] = [120.0, 48.0];
    const TEXT: f64 = 6_700.0;
    let settings = &job.settings;
    can_be_joined(settings)?;
    let tables = settings.block_tables().map(|blocks| u64::from(blocks.tables));
    let bands = tables.or(settings.sketches.keyed().map(|(_, banding)| banding.bands as u64)).unwrap_or(0);
    if job.documents == Some(0) {
        return Err(Error::parameter("documents", 0, "at least 1"));
    }
    let mut names = NAMES;
    let (mut text, mut counted) = (TEXT, None);
    if !job.inputs.is_empty() {
        let discovery = DiscoverOptions { fields: job.options.fields.clone(), ..DiscoverOptions::default() };
        let found = discover_all(&job.inputs, &discovery)?;
        found.passed_over.message().iter().for_each(|message| progress.note(message));
        check_fields(&found.inputs, &job.options, &[])?;
        let sample = Estimate::of(&found.inputs, &job.options);
        if sample.documents == 0 {
            return Err(Error::NoDocuments("no document in the first files of INPUT".to_owned()));
        }
        (names, text) = ([sample.names, sample.packed_names], sample.text);
        counted = Some(sample.documents);
    }
    let Some(documents) = job.documents.or(counted) else {
        return Err(Error::parameter("documents", "missing", "a number of documents, or INPUT to count on"));
    };
    let threads = match job.threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    let rates = progress.during("rates", 0, "documents", |_| Rates::measure(settings))?;
    let memory = job.memory.unwrap_or_else(memory_share);
    let expected = Estimate::new(documents, names, text, threads);
    let held_bytes = expected.in_memory(settings);
    let on_disk = job.memory.is_some() || is_large(held_bytes, memory);
    let n = documents as f64;
    let disk_bytes = expected.disk(settings);
    let width = sketch_bytes(settings) as f64;
    let hours = |cpu: f64| cpu / threads as f64 / 3600.0;
    let stage =
        |name: &str, reads: &str, passes, read_bytes, cpu_seconds, memory_bytes: u64, disk_bytes| StagePlan {
            name: name.to_owned(),
            reads: reads.to_owned(),
            passes,
            read_bytes,
            cpu_seconds,
            hours: hours(cpu_seconds),
            memory_bytes,
            disk_bytes,
        };
    let held = |least: u64, sorted: u64| (least + sorted).min(memory.max(least));
    let texts = n * text;
    let recall_estimate = rates.recall_estimate * most_sampled(documents, texts as u64) as f64;
    let join = rates.join * (1.0 + EACH_DOUBLING * (n / rates.documents.max(1) as f64).log2().max(0.0));
    // Sketches of the documents that share a band hash in any band, if memory holds them; else those of one band.
    let together = n * usual::SHARED_IN_ANY * width <= memory as f64 / 2.0;
    let (sketches, readings) = match together {
        true => (n * usual::SHARED_IN_ANY * width, 1),
        false => (n * usual::SHARED * width, bands),
    };
    let stages = match on_disk {
        true => vec![
            stage(
                "sketch",
                "input",
                1,
                texts,
                texts * rates.sketch,
                expected.sketching(settings, memory),
                disk_bytes.sketches + disk_bytes.names,
            ),
            stage(
                "join",
                "sketches",
                readings,
                n * (32.0 + bands as f64 * 8.0 + readings as f64 * width + width),
                n * join,
                held(HELD_ANYWAY + held_each(settings) * documents, sketches as u64),
                disk_bytes.joined,
            ),
            stage(
                "cluster",
                "pairs",
                1,
                n * (16.0 * usual::PAIRS + width),
                n * (rates.cluster + recall_estimate),
                held(HELD_ANYWAY + held_each(settings) * documents, 0),
                n * usual::SHARED * 24.0,
            ),
            stage(
                "apply",
                "input",
                1,
                texts,
                texts * rates.apply,
                expected.writing(held_each(settings) * documents),
                texts * (1.0 - usual::REMOVED),
            ),
        ],
        false => {
            let cpu = texts * (rates.sketch + rates.apply) + n * (join + rates.cluster);
            vec![stage("dedup", "input", 2, 2.0 * texts, cpu, held_bytes, texts * (1.0 - usual::REMOVED))]
        }
    };
    let least_memory =
        Budget::least(held_each(settings) * documents).max(expected.room(0).unwrap_or_else(|least| least));
    let most_disk_bytes = if on_disk { disk_bytes.most() as u64 } else { 0 };
    let too_little = match job.disk {
        _ if on_disk && memory < least_memory => Some(format!(
            "{} of memory is too little: it takes {} at least",
            printed_bytes(memory),
            printed_bytes(least_memory)
        )),
        Some(disk) if disk < most_disk_bytes => Some(format!(
            "{} of disk is too little: it takes {}",
            printed_bytes(disk),
            printed_bytes(most_disk_bytes)
        )),
        _ => None,
    };
    Ok(JobPlan {
        documents,
        name_bytes: names[0],
        text_bytes: text,
        sampled: !job.inputs.is_empty(),
        memory,
        disk: job.disk,
        threads: threads as u64,
        held_bytes,
        on_disk,
        least_memory,
        disk_bytes,
        most_disk_bytes,
        cpu_seconds: stages.iter().map(|stage| stage.cpu_seconds).sum(),
        stages,
        too_little,
        rates,
    })
}

/// The share by which joining a document takes longer when there are twice as many: more is sorted, and less of it is
/// in the processor's caches. By `experiments/results/stages/rows.csv`, between a million documents and 50.
const EACH_DOUBLING: f64 = 0.06;

impl Rates {
    /// Runs all stages over few documents and over more: the difference is what documents take, without what a stage
    /// takes however few there are.
    fn measure(settings: &Settings) -> Result<Self> {
        const FEW: u64 = 1_000;
        let (few, few_bytes) = Self::taken(settings, FEW)?;
        // A slow machine, and code that is not optimised, take as long for fewer.
        let sizes = [FEW, if few.sketch < 0.015 { 30_000 } else { 4_000 }];
        let (many, many_bytes) = Self::taken(settings, sizes[1])?;
        let (documents, bytes) = ((sizes[1] - sizes[0]) as f64, (many_bytes - few_bytes) as f64);
        let sampled = |documents, bytes| documents as f64 * most_sampled(documents, bytes) as f64;
        let sampled = sampled(sizes[1], many_bytes) - sampled(sizes[0], few_bytes);
        let each = |of: fn(&Self) -> f64, more: f64| (of(&many) - of(&few)).max(0.0) / more;
        Ok(Self {
            documents: sizes.iter().sum(),
            sketch: each(|taken| taken.sketch, bytes),
            join: each(|taken| taken.join, documents),
            recall_estimate: each(|taken| taken.recall_estimate, sampled),
            cluster: each(|taken| taken.cluster, documents),
            apply: each(|taken| taken.apply, bytes),
        })
    }

    /// Runs all stages over so many documents of about 1 kB, three in ten of which are like others. Gives the processor
    /// seconds that all documents take together, and the bytes of their texts.
    fn taken(settings: &Settings, documents: u64) -> Result<(Self, u64)> {
        const WORDS: u64 = 150;
        const JOINS: usize = 5;
        /// Processor seconds after which no further join is measured.
        const LONG_ENOUGH: f64 = 0.5;
        let io = |error| Error::io("a temporary folder", error);
        let folder = tempfile::tempdir().map_err(io)?;
        let path = folder.path().join("documents.jsonl");
        let (mut lines, mut text_bytes) = (String::new(), 0u64);
        for document in 0..documents {
            let family = if document % 10 < 3 { document / 30 } else { document };
            let (mut draws, mut own) = (SplitMix64::new(family), SplitMix64::new(!document));
            let changed = own.below(WORDS);
            let before = lines.len();
            lines.push_str("{\"text\":\"");
            for word in 0..WORDS {
                let draw = draws.below(40_000);
                let word = if word == changed { own.below(40_000) } else { draw };
                lines.push_str(&format!("{:x} ", word * 0x9e37));
            }
            lines.push_str("\"}\n");
            text_bytes += (lines.len() - before) as u64;
        }
        std::fs::write(&path, &lines).map_err(|error| Error::io(&path, error))?;
        let (sketches, inputs) = (folder.path().join("sketches"), vec![path]);
        let seconds = || cpu_seconds().unwrap_or(0.0);
        let (threads, memory) = (1, Some(1 << 30));
        let begun = seconds();
        let (out, settings) = (sketches.clone(), settings.clone());
        let sketch_job = SketchJob { inputs: inputs.clone(), out, threads, settings, ..SketchJob::default() };
        sketch(&sketch_job, &Silent)?;
        let sketch_seconds = seconds() - begun;
        let keep = sketch_job.settings.verification.usual_keep();
        let grouping = Grouping { keep, ..Grouping::of(Linkage::Star) };
        // A time this short often comes out half as long again; the least of several does not.
        let [mut join_seconds, mut estimate_seconds, mut cluster_seconds] = [f64::INFINITY; 3];
        let (mut joined, begun_joins) = (sketches.clone(), seconds());
        for time in 0..JOINS {
            if time > 0 && seconds() - begun_joins > LONG_ENOUGH {
                break;
            }
            joined = folder.path().join(format!("joined {time}"));
            copy_files(&sketches, &joined)?;
            let (steps, begun, against) = (Steps::default(), seconds(), Vec::new());
            let grouping = grouping.clone();
            let job = ClusterJob { sketches: joined.clone(), against, grouping, memory, threads };
            join(&job, Shard::default(), &Silent)?;
            let begun_cluster = seconds();
            cluster(&job, &steps)?;
            let recall_estimate = steps.taken();
            join_seconds = join_seconds.min(begun_cluster - begun);
            estimate_seconds = estimate_seconds.min(recall_estimate);
            cluster_seconds = cluster_seconds.min(seconds() - begun_cluster - recall_estimate);
        }
        let (sketches, begun) = (joined, seconds());
        let (out, writes) = (folder.path().join("kept"), Outputs { kept: true, removed: true });
        let kept_files = KeptFiles::Each;
        let apply_job =
            ApplyJob { sketches, inputs, out, grouping, writes, kept_files, threads, ..ApplyJob::default() };
        apply(&apply_job, &Silent)?;
        let taken = Self {
            documents,
            sketch: sketch_seconds,
            join: join_seconds,
            recall_estimate: estimate_seconds,
            cluster: cluster_seconds,
            apply: seconds() - begun,
        };
        Ok((taken, text_bytes))
    }
}

/// Copies the files of a folder to a new one.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let io = |error| Error::io(from, error);
    std::fs::create_dir(to).map_err(io)?;
    for entry in std::fs::read_dir(from).map_err(io)? {
        let entry = entry.map_err(io)?;
        std::fs::copy(entry.path(), to.join(entry.file_name())).map_err(io)?;
    }
    Ok(())
}

/// Takes the processor time of the recall estimate.
#[derive(Default)]
struct Steps {
    begun: Mutex<Option<f64>>,
    taken: Mutex<f64>,
}

impl Steps {
    fn taken(&self) -> f64 {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Steps {
    fn begin(&self, stage: &str, _: u64, _: &str) {
        let begun = (stage == super::cluster::ESTIMATE_STEP).then(|| cpu_seconds().unwrap_or(0.0));
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    fn advance(&self, _: u64) {}

    fn end(&self) {
        if let Some(begun) = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let taken = cpu_seconds().unwrap_or(0.0) - begun;
            *self.taken.lock().unwrap_or_else(PoisonError::into_inner) += taken;
        }
    }

    fn note(&self, _: &str) {}
}
