//! Plans: which index so many documents call for, what it costs, and how fast it is here.

use super::stages::{Progress, Stages};
use super::{Job, read_files};
use crate::error::{Error, Result};
use crate::plan::{Choice, Machine, Model, Task, choose, smallest};
use serde::{Deserialize, Serialize};
use simflip_core::dedup::Prepared;
use simflip_core::internal::{Hashes, model};
use simflip_core::settings::{Generator, Recall};

/// The purpose of an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Purpose {
    /// Number of documents; the corpus's own number of distinct hashes where there is a corpus, else none.
    pub documents: Option<u64>,
    /// Numbers of documents to plan for besides.
    pub sizes: Vec<u64>,
    /// Most bytes for the index.
    pub memory: Option<u64>,
    /// h: hashes that differ in at most this many bits are near.
    pub distance: u32,
    /// Wanted share of the pairs at distance 1 to h.
    pub recall: f64,
    /// Bits of a key; by default chosen.
    pub key_bits: Option<u32>,
    /// Number of queries; without it, every document is searched for among all, and either
    /// side of a pair may find it.
    pub queries: Option<u64>,
}

/// The indexes that serve a purpose, with their costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// h.
    pub distance: u32,
    /// The recall that is wanted.
    pub recall: f64,
    /// True if recall and candidates come from a sample of documents; else from made-up weights, normally distributed.
    pub measured: bool,
    /// Documents of the corpus, 0 without one.
    pub sampled_documents: u64,
    /// Pairs at distance 1 to h that recall is counted on.
    pub pairs: u64,
    /// Corrupt sections met.
    pub corrupt: u64,
    /// The cost of a search's steps on this machine.
    pub machine: Machine,
    /// Threads that the last column counts on.
    pub threads: u64,
    /// A row for each number of documents, the wanted one first.
    pub rows: Vec<PlanRow>,
}

/// The plan for one number of documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    /// Documents with distinct hashes.
    pub documents: u64,
    /// The index; none if nothing fits the memory.
    pub choice: Option<Choice>,
    /// The index with the fewest bytes, if nothing fits.
    pub smallest: Option<Choice>,
    /// Queries a second on one thread, besides writing down matches.
    pub queries_per_second: f64,
    /// Seconds that all queries take on all threads.
    pub seconds: f64,
}

/// Pairs of the built-in model.
const MODEL_PAIRS: usize = 2_000;

/// Plans an index. Nothing is written. Without inputs the model is [`Model::built_in`].
///
/// # Errors
/// If no document could be read, or if a setting has no meaning.
pub fn plan(job: &Job, purpose: &Purpose, progress: &dyn Progress) -> Result<Plan> {
    let generator = Generator::Dial {
        distance: purpose.distance,
        recall: Recall::of(purpose.recall),
        key_bits: purpose.key_bits,
    };
    let mut settings = job.settings.clone();
    settings.generator = generator;
    settings.check()?;
    if let Some(zero) = purpose.documents.iter().chain(&purpose.sizes).find(|&&n| n == 0) {
        return Err(Error::parameter("documents", zero, "at least 1"));
    }
    if purpose.queries == Some(0) {
        return Err(Error::parameter("queries", 0, "at least 1"));
    }
    job.with_threads(|| {
        let settings = &settings;
        let stages = Stages::new(progress);
        let (mut sampled, mut stored, mut corrupt) = (0, None, 0);
        let model = if job.inputs.is_empty() {
            Model::built_in(purpose.distance, MODEL_PAIRS)
        } else {
            let (read, frequencies, _) = read_files(job, settings, None, None, &stages)?;
            let prepared = Prepared::new(&read.collection, settings, frequencies, &stages);
            (sampled, corrupt) = (read.len() as u64, read.corrupt());
            let evidence = prepared.evidence(settings);
            let hashes = Hashes::new(&evidence, &stages);
            stored = Some(hashes.hashes().len() as u64).filter(|&n| n > 0);
            stages.run("near pairs", sampled, "documents", 0, |_| {
                model(&hashes, purpose.distance, settings.seed)
            })?
        };
        let machine =
            stages.run("machine", 1, "second", 0, |_| Machine::measure(crate::resources::thread_seconds));
        let threads = rayon::current_num_threads() as u64;
        let sizes = purpose.documents.or(stored).into_iter().chain(purpose.sizes.iter().copied());
        let row = |documents: u64| -> Result<PlanRow> {
            let task = Task::new(documents, purpose.distance, purpose.recall).with(|task| {
                task.memory = purpose.memory;
                task.key_bits = purpose.key_bits;
                task.join = purpose.queries.is_none();
            });
            let choice = choose(&task, &model)?;
            let smallest = if choice.is_none() { smallest(&task, &model)? } else { None };
            let nanoseconds = choice.as_ref().map_or(f64::INFINITY, |choice| machine.nanoseconds(choice));
            let queries = purpose.queries.unwrap_or(documents) as f64;
            Ok(PlanRow {
                documents,
                choice,
                smallest,
                queries_per_second: 1e9 / nanoseconds,
                seconds: if choice.is_some() { queries * nanoseconds * 1e-9 / threads as f64 } else { 0.0 },
            })
        };
        Ok(Plan {
            distance: purpose.distance,
            recall: purpose.recall,
            measured: model.is_measured(),
            sampled_documents: sampled,
            pairs: model.pairs() as u64,
            corrupt,
            machine,
            threads,
            rows: sizes.map(row).collect::<Result<_>>()?,
        })
    })?
}
