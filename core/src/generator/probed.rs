//! The probing indexes of a run, over its distinct SimHashes: this module chooses their shape, and measures how many
//! probes a recall takes.

use crate::calibrate::{Sample, SampleParams, near_pairs, trace};
use crate::error::{Error, Result};
use crate::hash::fmix64;
use crate::id::{Slot, Text};
use crate::plan::{self, IndexKind, Model, PairMargins, Task, exact};
use crate::progress::{Progress, Step, run};
use crate::search::dial::{Dial, DialParams};
use crate::search::distinct::DistinctHashes;
use crate::search::psm::{Psm, PsmParams};
use crate::search::{HammingIndex, Hit, Mode, Probing, Query, Scratch};
use crate::settings::{Generator, Recall, USUAL_RECALL};
use crate::simhash::BITS;
use crate::verification::Evidence;
use rayon::prelude::*;

/// The distinct SimHashes of a run, with the texts that have each.
pub struct Hashes<'a> {
    /// The hashes by slot, each with its texts.
    pub(super) distinct: DistinctHashes<Text>,
    evidence: &'a Evidence<'a>,
}

impl<'a> Hashes<'a> {
    /// Groups the texts of `evidence` that have a SimHash by it.
    pub fn new(evidence: &'a Evidence<'a>, progress: &dyn Progress) -> Self {
        let texts = evidence.texts;
        let distinct = run(progress, Step::Group, texts.sketched.len(), |_| {
            let hashed = |&text: &Text| Some((evidence.hash(text)?, text));
            DistinctHashes::with_ids(texts.sketched.iter().filter_map(hashed))
        });
        Self { distinct, evidence }
    }

    /// The distinct hashes, ascending.
    pub fn hashes(&self) -> &[u64] {
        self.distinct.hashes()
    }

    /// The weights behind the hash of a slot: those of the first text that has it. Other texts with the hash have
    /// slightly different ones.
    fn weights(&self, slot: Slot) -> [f32; BITS] {
        let first = self.distinct.members(slot)[0];
        self.evidence.hashed(first).map_or([0.0; BITS], |hashed| hashed.weights.weights())
    }
}

/// A probing index without a budget, and an exact index of the same hashes. Both serve to measure the budget for a
/// recall, and to find the probe of a pair. A run then searches by the probing index.
pub struct Probed {
    /// The probing index.
    pub(super) index: Box<dyn Probing>,
    /// None if `index` is exact without a budget.
    exact: Option<Box<dyn HammingIndex>>,
}

impl Probed {
    /// Builds the index of a generator, the dial or PSM, over distinct hashes, which must ascend.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the generator is another, or for parameters without meaning.
    pub fn new(hashes: &[u64], generator: &Generator) -> Result<Self> {
        match *generator {
            Generator::Dial { distance, key_bits, .. } => {
                // Where the number of probes is given, the shape of the index is chosen for the usual recall.
                let recall = generator.recall().and_then(Recall::share).unwrap_or(USUAL_RECALL);
                let dial = Dial::new(hashes, dial_params(hashes.len(), distance, recall, key_bits)?)?;
                Ok(Self { index: Box::new(dial), exact: None })
            }
            Generator::Psm { distance, flipped_bits, .. } => {
                let psm =
                    Psm::new(hashes, PsmParams { radius: distance, flipped_bits, ..PsmParams::default() })?;
                Ok(Self { index: Box::new(psm), exact: Some(exact(hashes, distance)?) })
            }
            _ => {
                let expected = "dial or psm; the others make no probes to count";
                Err(Error::parameter("search", generator.name(), expected))
            }
        }
    }

    /// Number of probes that a query makes without a budget; it finds all hashes within the radius.
    pub fn all_probes(&self) -> u64 {
        self.index.all_probes()
    }

    /// All hashes within the radius of a query, each with the number, from 1, of the probe that finds it, or
    /// [`NEVER`](crate::calibrate::NEVER) if that takes more than 16,384. `hashes` are those that the index is over.
    pub fn trace(&self, hashes: &[u64], query: Query<'_>) -> Vec<(Hit, u32)> {
        let exact: &dyn HammingIndex = self.exact.as_deref().unwrap_or(&*self.index);
        trace(&*self.index, exact, hashes, query)
    }

    /// Finds the near pairs with a hash of a sample, each with the earlier of the probes by which either hash finds the
    /// other. [`Sample::budget`] then gives the budget for any recall. `seed` draws the sample.
    pub fn sample(&self, hashes: &Hashes<'_>, seed: u64, progress: &dyn Progress) -> Sample {
        let params = SampleParams { join: true, seed, ..SampleParams::default() };
        run(progress, Step::Calibrate, hashes.distinct.len(), |_| {
            Sample::take(hashes.hashes(), params, &|slot| {
                let query = Query { hash: hashes.distinct.hash(slot), weights: &hashes.weights(slot) };
                self.trace(hashes.hashes(), query)
            })
        })
    }
}

/// The number of near pairs of the built-in model by which the shape of an index is chosen. More would change little,
/// as the budget is chosen by pairs of the corpus.
const MODEL_PAIRS: usize = 400;

/// The shape of the dial for so many hashes, as [`plan::choose`] gives it with the built-in model, and no budget.
fn dial_params(hashes: usize, distance: u32, recall: f64, key_bits: Option<u32>) -> Result<DialParams> {
    let kind = Some(IndexKind::Dial);
    let task = Task { kind, key_bits, join: true, ..Task::new(hashes.max(1) as u64, distance, recall) };
    let choice = plan::choose(&task, &Model::built_in(distance, MODEL_PAIRS))?;
    let none = || Error::parameter("distance", distance, "a distance that the dial index reaches");
    Ok(DialParams { budget: None, ..choice.ok_or_else(none)?.params(distance) })
}

/// The model of a corpus for [`plan::choose`]: pairs within `distance` bits of which one hash is in a random sample,
/// and the hashes in random order. `seed` draws both.
///
/// # Errors
/// [`Error::Parameter`] for a distance above 64.
pub fn model(hashes: &Hashes<'_>, distance: u32, seed: u64) -> Result<Model> {
    let all = hashes.hashes();
    let exact = exact(all, distance)?;
    let pairs = near_pairs(all, SampleParams { seed, ..SampleParams::default() }, &|slot| {
        let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
        let query = Query { hash: hashes.distinct.hash(slot), weights: &hashes.weights(slot) };
        exact.search(query, Mode::All, &mut scratch, &mut hits);
        // Any number will do for the probe: the model finds out which probe finds a pair.
        hits.into_iter().map(|hit| (hit, 1)).collect()
    });
    let of = |(a, b): (Slot, Slot)| {
        let weights = [hashes.weights(a), hashes.weights(b)];
        PairMargins::new(hashes.distinct.hash(a) ^ hashes.distinct.hash(b), weights.each_ref())
    };
    let mut sample = all.to_vec();
    sample.par_sort_unstable_by_key(|&hash| fmix64(hash ^ seed));
    Ok(Model::of_sample(pairs.into_iter().map(of).collect(), sample))
}
