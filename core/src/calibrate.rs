//! Calibration: the number of probes that a wanted recall takes, measured on a sample of the very data that is
//! searched.
//!
//! [`recall`] answers for an index and its hashes. A *slot* is a distinct stored hash.
//!
//! For a sample of stored hashes an exhaustive search finds all neighbours within the radius. For each pair the
//! number of the probe by which a search finds it is noted. The budget is the smallest whose recall on one half of the
//! duplicate clusters is *surely* enough: the lower end of the interval is at least the wanted recall. The other
//! half says what recall that budget reaches. Where no budget is sure, because the pairs are too few, the search is
//! exhaustive. (The method is ours; the paper fixes its flips by experiment.)

use crate::clusters::Partition;
use crate::error::{Error, Result, check_share};
use crate::hash::fmix64;
use crate::id::{Id, Slot};
use crate::plan::exact;
use crate::search::{HammingIndex, Hit, Mode, Probing, Query, Scratch};
use crate::simhash::BITS;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The sample that a calibration measures on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleParams {
    /// The number of pairs at which no further hashes are sampled, looked at after every 256 hashes. Without `join` a
    /// pair counts from each side. More pairs make the interval narrower.
    pub pairs: usize,
    /// The most hashes that are sampled, even if they give fewer pairs.
    pub searches: usize,
    /// True for a join, which searches for every stored hash: a pair is found if either side finds the other. If false,
    /// each side has to find the other, as new documents have to find stored ones.
    pub join: bool,
    /// Seed of the sample.
    pub seed: u64,
}

impl Default for SampleParams {
    fn default() -> Self {
        Self { pairs: 4_000, searches: 20_000, join: false, seed: 0 }
    }
}

/// The budget, a number of probes for each query, and the recall that it reached on pairs that had no part in choosing
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Probes of a query; none where the search has to be exhaustive: for recall 1, or if no number of probes is surely
    /// enough. Then `reached`, `low` and `high` are 1.
    pub budget: Option<u32>,
    /// Share of the held-out pairs that the budget finds.
    pub reached: f64,
    /// Lower end of the 95 % interval of `reached`, by resampling duplicate clusters.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of pairs that the budget was chosen on, counted as by [`SampleParams::pairs`].
    pub chosen_on: u64,
    /// Number of held-out pairs: the denominator of `reached`.
    pub held_out: u64,
    /// Number of duplicate clusters that the held-out pairs belong to: hashes connected by sampled pairs.
    pub held_out_clusters: u64,
    /// Number of searches: for each sampled hash, and for each of its neighbours that was looked at.
    pub searches: u64,
}

/// The number in place of a probe for a pair that a trace of bounded length did not find; no budget reaches it.
#[doc(hidden)]
pub const NEVER: u32 = u32::MAX;

/// Fewer pairs than this on either side measure nothing.
const FEWEST_PAIRS: u64 = 30;

/// Neighbours of a sampled hash that are searched for in their turn.
const MOST_NEIGHBOURS: usize = 256;

/// Gives the stored hashes within the radius of a slot's hash, that hash among them. Each comes with the number, from
/// 1, of the probe by which a search for the slot's hash finds it, or [`NEVER`].
pub(crate) type Trace<'a> = &'a (dyn Fn(Slot) -> Vec<(Hit, u32)> + Sync);

/// A pair of slots and the probe at which a search for `a` finds `b`, or in a join either the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Traced {
    a: Slot,
    b: Slot,
    probe: u32,
}

/// Measures how many probes an index takes to find each wanted share of the pairs at distance 1 to its radius.
///
/// `hashes` are the distinct hashes of the index, ascending; `weights(slot)` are the weights behind `hashes[slot]`, as
/// any document with that hash has them. The budget of the index plays no part; [`Probing::set_budget`] takes the one
/// that comes out. The result has one for each of `wanted`, in order.
///
/// ```
/// use simflip_core::calibrate::{Calibration, SampleParams, recall};
/// use simflip_core::search::Probing;
/// use simflip_core::search::distinct::DistinctHashes;
/// use simflip_core::search::psm::{Psm, PsmParams, FlippedBits};
/// use simflip_core::{Settings, Sketcher};
///
/// let mut sketcher = Sketcher::new(&Settings::simhash(), None)?;
/// let texts = (0..100).map(|i| format!("page {i} of a catalogue of ships that call at this harbour all year round"));
/// let sketches: Vec<_> = texts.map(|text| sketcher.simhash(&text).0).collect();
/// let hashes: Vec<u64> = sketches.iter().map(|sketch| sketch.hash).collect();
/// let distinct = DistinctHashes::new(&hashes);
/// let params = PsmParams { radius: 3, flipped_bits: FlippedBits::Key { key_bits: None }, ..PsmParams::default() };
/// let mut index = Psm::new(distinct.hashes(), params)?;
/// let weights = |slot| sketches[distinct.members(slot)[0].0 as usize].weights;
/// let shares = [0.9, 0.95];
/// let measured: Vec<Calibration> = recall(&index, distinct.hashes(), weights, &shares, SampleParams::default())?;
/// index.set_budget(measured[1].budget);
/// # Ok::<(), simflip_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::Parameter`] for a recall not above 0 and at most 1, for an index that misses matches even with all its
/// probes, and for hashes that do not ascend.
pub fn recall(
    index: &dyn Probing,
    hashes: &[u64],
    weights: impl Fn(Slot) -> [f32; BITS] + Sync,
    wanted: &[f64],
    params: SampleParams,
) -> Result<Vec<Calibration>> {
    wanted.iter().try_for_each(|&wanted| check_share("recall", wanted))?;
    if !index.is_complete() {
        let expected = format!("an index that finds all within {} bits by all its probes", index.radius());
        return Err(Error::parameter("index", index.name(), expected));
    }
    let exact = exact(hashes, index.radius())?;
    let trace = |slot: Slot| {
        let query = Query { hash: hashes[slot.index()], weights: &weights(slot) };
        trace(index, &*exact, hashes, query)
    };
    // All probes find everything: there is nothing to measure.
    let sample = match wanted.iter().all(|&wanted| wanted == 1.0) {
        true => Sample::default(),
        false => Sample::take(hashes, params, &trace),
    };
    Ok(wanted.iter().map(|&wanted| sample.budget(wanted)).collect())
}

/// The most probes that a calibration traces for a pair. A pair that takes more is beyond any number of probes that
/// would be faster than an exhaustive search.
const LONGEST_TRACE: u32 = 1 << 14;

/// All hashes within the radius of a query, each with the number, from 1, of the probe of `index` that finds it, or
/// [`NEVER`]. `exact` finds the hashes; both indexes are over `hashes`.
pub(crate) fn trace(
    index: &dyn Probing,
    exact: &dyn HammingIndex,
    hashes: &[u64],
    query: Query<'_>,
) -> Vec<(Hit, u32)> {
    let mut hits = Vec::new();
    exact.search(query, Mode::All, &mut Scratch::default(), &mut hits);
    let probe_of = |hit: Hit| {
        let differing = query.hash ^ hashes[hit.slot.index()];
        (hit, index.probe_of(differing, query.weights, LONGEST_TRACE).unwrap_or(NEVER))
    };
    hits.into_iter().map(probe_of).collect()
}

/// Measures the budget for a wanted recall, from the distinct hashes of an index by slot and from searches of it.
pub(crate) fn calibrate(hashes: &[u64], recall: f64, params: SampleParams, trace: Trace<'_>) -> Calibration {
    let sample = if recall < 1.0 { Sample::take(hashes, params, trace) } else { Sample::default() };
    sample.budget(recall)
}

/// A sample of traced pairs, from which the budget of any recall can be computed.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct Sample {
    /// The probes of the pairs of each duplicate cluster that budgets are chosen on.
    chosen_on: Vec<Vec<u32>>,
    /// The clusters on which the recall of a budget is measured.
    held_out: Vec<Vec<u32>>,
    searches: u64,
    seed: u64,
}

impl Sample {
    /// Samples pairs and traces them; the arguments are those of [`calibrate`].
    pub(crate) fn take(hashes: &[u64], params: SampleParams, trace: Trace<'_>) -> Self {
        let (pairs, searches) = sample_pairs(hashes, params, trace);
        let mut chosen_on = cluster_probes(hashes, &pairs, params.seed);
        let held_out = chosen_on.split_off(chosen_on.len() / 2);
        Self { chosen_on, held_out, searches, seed: params.seed }
    }

    /// The smallest budget that surely reaches a recall, and the recall that it reaches on the held-out pairs.
    pub fn budget(&self, recall: f64) -> Calibration {
        let count = |clusters: &[Vec<u32>]| clusters.iter().map(Vec::len).sum::<usize>() as u64;
        let exhaustive = Calibration {
            budget: None,
            reached: 1.0,
            low: 1.0,
            high: 1.0,
            chosen_on: count(&self.chosen_on),
            held_out: count(&self.held_out),
            held_out_clusters: self.held_out.len() as u64,
            searches: self.searches,
        };
        if recall >= 1.0 || exhaustive.chosen_on < FEWEST_PAIRS || exhaustive.held_out < FEWEST_PAIRS {
            return exhaustive;
        }
        let Some(budget) = smallest_sure_budget(&self.chosen_on, recall, self.seed) else {
            return exhaustive;
        };
        let (low, high) = resampled_interval(&self.held_out, budget, self.seed);
        let found = self.held_out.iter().flatten().filter(|&&probe| probe <= budget).count();
        Calibration {
            budget: Some(budget),
            reached: found as f64 / exhaustive.held_out as f64,
            low,
            high,
            ..exhaustive
        }
    }
}

/// The smallest budget whose interval lies at or above the wanted recall.
fn smallest_sure_budget(clusters: &[Vec<u32>], recall: f64, seed: u64) -> Option<u32> {
    let mut budgets: Vec<u32> = clusters.iter().flatten().copied().filter(|&probe| probe < NEVER).collect();
    budgets.sort_unstable();
    budgets.dedup();
    // The resamples are the same for every budget, so that their shares can only rise with it.
    let sure = |budget: u32| resampled_interval(clusters, budget, seed).0 >= recall;
    let place = budgets.partition_point(|&budget| !sure(budget));
    budgets.get(place).copied()
}

/// Near pairs of which one slot is in a random sample, each once, the lesser slot first, for a plan's
/// [`Model`](crate::plan::Model). The arguments are those of [`calibrate`].
pub(crate) fn near_pairs(hashes: &[u64], params: SampleParams, trace: Trace<'_>) -> Vec<(Slot, Slot)> {
    let params = SampleParams { join: true, ..params };
    sample_pairs(hashes, params, trace).0.into_iter().map(|pair| (pair.a, pair.b)).collect()
}

/// Pairs that touch a random sample of slots, each once in a join and else once from each side, and the number of
/// searches made.
fn sample_pairs(hashes: &[u64], params: SampleParams, trace: Trace<'_>) -> (Vec<Traced>, u64) {
    let mut order: Vec<Slot> = Slot::all(hashes.len()).collect();
    order.sort_unstable_by_key(|&slot| fmix64(hashes[slot.index()] ^ params.seed.wrapping_add(0x6361_6c69)));
    let mut pairs: Vec<Traced> = Vec::new();
    let mut searches = 0;
    // In batches, so that the sample ends at the same place for any number of threads.
    for batch in order[..order.len().min(params.searches)].chunks(256) {
        let traced: Vec<(Vec<Traced>, u64)> = batch
            .par_iter()
            .map(|&slot| {
                let mut near: Vec<_> = trace(slot).into_iter().filter(|(hit, _)| hit.distance > 0).collect();
                // Of a dense group, as documents of one template make it, a random part says as much.
                if near.len() > MOST_NEIGHBOURS {
                    near.sort_unstable_by_key(|(hit, _)| fmix64(hashes[hit.slot.index()] ^ params.seed));
                    near.truncate(MOST_NEIGHBOURS);
                }
                let searches = 1 + near.len() as u64;
                let both_sides = near.into_iter().flat_map(|(hit, there)| {
                    let back = trace(hit.slot).into_iter().find(|(other, _)| other.slot == slot);
                    let (other, back) = (hit.slot, back.map_or(NEVER, |(_, probe)| probe));
                    let side = |a, b, probe| Traced { a, b, probe };
                    match params.join {
                        true => vec![side(slot.min(other), slot.max(other), there.min(back))],
                        false => vec![side(slot, other, there), side(other, slot, back)],
                    }
                });
                (both_sides.collect(), searches)
            })
            .collect();
        for (found, n) in traced {
            pairs.extend(found);
            searches += n;
        }
        if pairs.len() >= params.pairs {
            break;
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    (pairs, searches)
}

/// The probes of the pairs of each duplicate cluster, clusters in random order.
fn cluster_probes(hashes: &[u64], pairs: &[Traced], seed: u64) -> Vec<Vec<u32>> {
    let mut partition = Partition::singletons(hashes.len());
    for pair in pairs {
        partition.join(pair.a, pair.b);
    }
    let mut clusters: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for pair in pairs {
        let name = partition.find(pair.a);
        clusters.entry(fmix64(hashes[name.index()] ^ seed)).or_default().push(pair.probe);
    }
    clusters.into_values().collect()
}

/// A 95 % interval of the share of pairs within the budget: percentiles over 1,000 resamples of whole
/// clusters, because pairs of one cluster are found or missed together.
fn resampled_interval(clusters: &[Vec<u32>], budget: u32, seed: u64) -> (f64, f64) {
    const RESAMPLES: usize = 1_000;
    let counts: Vec<(u64, u64)> = clusters
        .iter()
        .map(|probes| (probes.iter().filter(|&&probe| probe <= budget).count() as u64, probes.len() as u64))
        .collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x626f_6f74);
    let mut shares: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let (mut found, mut all) = (0, 0);
            for _ in 0..counts.len() {
                let (f, n) = counts[rng.random_range(0..counts.len())];
                found += f;
                all += n;
            }
            found as f64 / all as f64
        })
        .collect();
    shares.sort_unstable_by(f64::total_cmp);
    // Where every resample is all right, n clusters still tell no more than this (the exact binomial bound).
    let certain = 0.025f64.powf(1.0 / clusters.len().max(1) as f64);
    (shares[RESAMPLES / 40].min(certain), shares[RESAMPLES - 1 - RESAMPLES / 40])
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOIN: SampleParams = SampleParams { pairs: 4_000, searches: 20_000, join: true, seed: 0 };

    /// Slots 2i and 2i+1 are a pair, found at probe `probe(i)` from the even side and one later from the odd
    /// one.
    fn pairs_of(
        n: u32,
        probe: impl Fn(u32) -> u32 + Sync,
    ) -> (Vec<u64>, impl Fn(Slot) -> Vec<(Hit, u32)> + Sync) {
        let hashes = (0..n).map(|i| fmix64(u64::from(i) + 1)).collect();
        let trace = move |slot: Slot| {
            let itself = Hit { slot, distance: 0 };
            let other = Slot(slot.0 ^ 1);
            vec![(itself, 1), (Hit { slot: other, distance: 2 }, probe(slot.0 / 2) + slot.0 % 2)]
        };
        (hashes, trace)
    }

    #[test]
    fn the_budget_is_the_quantile_and_holds_on_the_other_half() {
        let (hashes, trace) = pairs_of(20_000, |i| 1 + fmix64(u64::from(i)) as u32 % 100);
        for recall in [0.5, 0.9, 0.95, 0.99] {
            let got = calibrate(&hashes, recall, JOIN, &trace);
            let budget = f64::from(got.budget.unwrap());
            // Above the quantile by about two standard errors of some 2,000 pairs.
            assert!((-1.0..=7.0).contains(&(budget - 100.0 * recall)), "{recall}: {got:?}");
            assert!((-0.01..0.06).contains(&(got.reached - recall)), "{recall}: {got:?}");
            assert!(got.low <= got.reached && got.reached <= got.high, "{got:?}");
            assert!(got.low <= recall + 0.05 && recall <= got.high, "{got:?}");
        }
    }

    #[test]
    fn few_pairs_make_a_careful_budget() {
        // Of 80 pairs, 78 are found at probe 3 and two later: the point estimate would be content with 95 %
        // at 3.
        let (hashes, trace) = pairs_of(160, |i| if i % 40 == 7 { 40 } else { 3 });
        let got = calibrate(&hashes, 0.95, JOIN, &trace);
        assert_eq!((got.budget, got.reached), (None, 1.0), "40 pairs prove no 95 %");
        let got = calibrate(&hashes, 0.8, JOIN, &trace);
        assert!(got.budget.is_some_and(|budget| budget <= 41), "{got:?}");
        // What no trace reaches cannot be bought.
        let (hashes, trace) = pairs_of(4_000, |i| if i % 5 == 0 { NEVER - 1 } else { 3 });
        let trace =
            |slot| trace(slot).into_iter().map(|(hit, p)| (hit, if p > 9 { NEVER } else { p })).collect();
        assert_eq!(calibrate(&hashes, 0.95, JOIN, &trace).budget, None);
    }

    #[test]
    fn the_sooner_side_counts() {
        let (hashes, trace) = pairs_of(2_000, |_| 7);
        let got = calibrate(&hashes, 0.95, JOIN, &trace);
        assert_eq!((got.budget, got.reached), (Some(7), 1.0));
    }

    #[test]
    fn nothing_to_measure_on_means_an_exhaustive_search() {
        let (hashes, trace) = pairs_of(40, |_| 7);
        assert_eq!(calibrate(&hashes, 0.95, JOIN, &trace).budget, None);
        assert_eq!(calibrate(&[], 0.95, JOIN, &|_| Vec::new()).budget, None);
        let (hashes, trace) = pairs_of(20_000, |_| 7);
        assert_eq!(calibrate(&hashes, 1.0, JOIN, &trace).budget, None);
    }

    #[test]
    fn a_large_cluster_does_not_stand_on_both_sides() {
        // One cluster of 200 slots, all near each other at probe 50, and 300 pairs at probe 2.
        let hashes: Vec<u64> = (0..800).map(|i| fmix64(i + 1)).collect();
        let trace = |slot: Slot| -> Vec<(Hit, u32)> {
            if slot < Slot(200) {
                let near = |other| (Hit { slot: other, distance: u8::from(other != slot) }, 50);
                Slot::all(200).map(near).collect()
            } else {
                vec![(Hit { slot: Slot(slot.0 ^ 1), distance: 1 }, 2)]
            }
        };
        let got = calibrate(&hashes, 0.95, SampleParams { pairs: usize::MAX, ..JOIN }, &trace);
        let cluster = 200 * 199 / 2;
        assert!(got.chosen_on < cluster || got.held_out < cluster, "{got:?}");
        assert_eq!(got.chosen_on + got.held_out, cluster + 300);
    }
}
