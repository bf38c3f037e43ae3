//! The indexes that make probes, over the distinct SimHashes of a run, and the shape and number of probes that they
//! get.

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

/// The distinct SimHashes of a run.
pub struct Hashes<'a> {
    pub(super) distinct: DistinctHashes<Text>,
    evidence: &'a Evidence<'a>,
}

impl<'a> Hashes<'a> {
    /// Groups the texts that have a SimHash by it.
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

    /// The weights behind a slot's hash: those of the first text that has it; copies of a hash
    /// differ a little in theirs.
    fn weights(&self, slot: Slot) -> [f32; BITS] {
        let first = self.distinct.members(slot)[0];
        self.evidence.hashed(first).map_or([0.0; BITS], |hashed| hashed.weights.weights())
    }
}

/// An index whose number of probes is still open, and an exact one that tells how many a wanted recall takes.
pub struct Probed {
    pub(super) index: Box<dyn Probing>,
    /// None where `index` is exact itself.
    exact: Option<Box<dyn HammingIndex>>,
}

impl Probed {
    /// The index of a generator over these distinct hashes, ascending.
    ///
    /// # Errors
    /// If the generator has no index that probes, or it cannot be built.
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

    /// Number of probes of a query that finds everything.
    pub fn all_probes(&self) -> u64 {
        self.index.all_probes()
    }

    /// All of `hashes`, over which the index is, within the radius of a query, each with the number of the probe that
    /// finds it, or [`NEVER`](crate::calibrate::NEVER).
    pub fn trace(&self, hashes: &[u64], query: Query<'_>) -> Vec<(Hit, u32)> {
        let exact: &dyn HammingIndex = self.exact.as_deref().unwrap_or(&*self.index);
        trace(&*self.index, exact, hashes, query)
    }

    /// Traces the pairs of a sample of the hashes, on which the number of probes for any recall can be read
    /// off.
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

/// Near pairs of the built-in model that the shape of an index is chosen on. More would change little: the
/// number of probes is chosen on the pairs of the corpus.
const MODEL_PAIRS: usize = 400;

/// The shape of the dial for so many hashes, as [`plan::choose`] gives it without a sample. The
/// number of probes comes later.
fn dial_params(hashes: usize, distance: u32, recall: f64, key_bits: Option<u32>) -> Result<DialParams> {
    let kind = Some(IndexKind::Dial);
    let task = Task { kind, key_bits, join: true, ..Task::new(hashes.max(1) as u64, distance, recall) };
    let choice = plan::choose(&task, &Model::built_in(distance, MODEL_PAIRS))?;
    let none = || Error::parameter("distance", distance, "a distance that the dial index reaches");
    Ok(DialParams { budget: None, ..choice.ok_or_else(none)?.params(distance) })
}

/// A model for plans from a corpus: near pairs within the distance around a random sample of texts, and
/// hashes.
///
/// # Errors
/// For a distance above 64.
pub fn model(hashes: &Hashes<'_>, distance: u32, seed: u64) -> Result<Model> {
    let all = hashes.hashes();
    let exact = exact(all, distance)?;
    let pairs = near_pairs(all, SampleParams { seed, ..SampleParams::default() }, &|slot| {
        let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
        let query = Query { hash: hashes.distinct.hash(slot), weights: &hashes.weights(slot) };
        exact.search(query, Mode::All, &mut scratch, &mut hits);
        // The plan works out which probe finds them.
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
