//! Plans an index of SimHashes for a number of documents: its kind, memory, and speed on this machine. In the fields,
//! *h* is the largest Hamming distance, in bits, of hashes that are near. Documents count by distinct hashes.

use super::stages::{Progress, Stages};
use super::{Job, read_files};
use crate::error::{Error, Result};
use crate::plan::{Choice, Machine, Model, Task, choose, smallest};
use serde::{Deserialize, Serialize};
use simflip_core::dedup::Prepared;
use simflip_core::internal::{Hashes, model};
use simflip_core::settings::{Generator, Recall};

/// The purpose of an index that is to be planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Purpose {
    /// Number of documents to plan for first; `None` for the number of distinct hashes of the job's inputs.
    pub documents: Option<u64>,
    /// Other numbers of documents to plan for.
    pub sizes: Vec<u64>,
    /// Most bytes that the index may take; `None` for any number.
    pub memory: Option<u64>,
    /// h: hashes that differ in at most this many bits are near.
    pub distance: u32,
    /// The wanted recall, above 0 and at most 1: the share of the pairs at distance 1 to h that is found.
    pub recall: f64,
    /// Bits of a table's key; `None`: the plan chooses them.
    pub key_bits: Option<u32>,
    /// Number of queries from outside. `None`: every stored document is searched for among all, so that a pair is found
    /// from either of its documents.
    pub queries: Option<u64>,
}

/// The indexes that serve a purpose, with their costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// h.
    pub distance: u32,
    /// The wanted recall.
    pub recall: f64,
    /// True if recall and candidates were measured on the job's inputs; false if they come from the built-in model.
    pub measured: bool,
    /// Documents of the job's inputs; 0 without inputs.
    pub sampled_documents: u64,
    /// Pairs at distance 1 to h that recall is counted on.
    pub pairs: u64,
    /// Corrupt sections of the inputs.
    pub corrupt: u64,
    /// The time that each step of a search takes on this machine, as measured now.
    pub machine: Machine,
    /// Threads that [`PlanRow::seconds`] counts with.
    pub threads: u64,
    /// A row for each number of documents: [`Purpose::documents`] first, then [`Purpose::sizes`].
    pub rows: Vec<PlanRow>,
}

/// The plan for one number of documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    /// Number of documents with distinct hashes.
    pub documents: u64,
    /// The index that is chosen; none if no index fits the memory.
    pub choice: Option<Choice>,
    /// The index with the fewest bytes; none if one was chosen.
    pub smallest: Option<Choice>,
    /// Queries per second of one thread, without the time for noting matches; 0 if no index fits.
    pub queries_per_second: f64,
    /// Seconds that all queries take on all threads; 0 if no index fits.
    pub seconds: f64,
}

/// Pairs of the built-in model.
const MODEL_PAIRS: usize = 2_000;

/// Plans an index for `purpose`. Nothing is written. Near pairs are measured on the job's inputs; without inputs, they
/// are those of [`Model::built_in`]. `progress` hears of the stages.
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
