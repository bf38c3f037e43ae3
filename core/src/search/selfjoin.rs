//! The near pairs of a whole list of distinct hashes: by a query for each hash, or by one exact join, with
//! the crowds of templates kept in bounds.

use super::distinct::DistinctHashes;
use super::join::{self, Limits};
use super::{Cost, HammingIndex, Hit, Mode, NearPair, Query, Scratch};
use crate::error::{Error, Result};
use crate::hash::fmix64;
use crate::id::{Id, Slot};
use crate::kernel::Level;
use crate::simhash::BITS;
use crate::simhash::quantised::QuantisedWeights;
use hashbrown::HashMap;
use rayon::prelude::*;
use std::ops::ControlFlow;

/// Two slots that are near, with how similar they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlotPair {
    /// The lesser slot.
    pub a: Slot,
    /// The greater slot.
    pub b: Slot,
    /// Hamming distance of hashes, or number of differing positions of signatures.
    pub distance: u32,
    /// The cosine (SimHash) or the Jaccard coefficient (MinHash), estimated or measured.
    pub similarity: f32,
}

/// What a self-join found.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotJoin {
    /// Pairs of different slots within the radius, each once, ascending by (a, b).
    pub pairs: Vec<SlotPair>,
    /// Counted work.
    pub cost: Cost,
    /// Slots with more neighbours than [`MOST_NEIGHBOURS`].
    pub crowded: u64,
    /// Neighbours of those that were passed over, those found from both sides twice.
    pub passed_over: u64,
    /// Where crowds had to be thinned ([`join_exactly`]): the number of hashes in the sample that crowded
    /// slots were compared with. Those are then the slots with dozens of neighbours in it, and passed over
    /// means: in the sample. 0 otherwise.
    pub sampled: u64,
}

/// The most neighbours that a slot brings into a join. A slot with more is one of thousands of pages of one
/// template, whose pairs grow with the square of their number and say nothing more: it brings the nearest
/// ones (the lesser slots among equals).
pub const MOST_NEIGHBOURS: usize = 256;

/// The cosine that a Hamming distance stands for: two vectors at angle θ differ in a fraction θ/π of
/// the bits (Charikar 2002).
pub fn cosine_of_distance(distance: u32) -> f32 {
    (std::f64::consts::PI * f64::from(distance) / BITS as f64).cos() as f32
}

/// Finds every pair of distinct hashes that the index finds from one side or from the other.
///
/// `weights[slot]` are those of one document with that hash. An exact index finds a pair from both sides; a
/// budgeted one may find it from one only, and that is enough. `progress` hears of slots done.
pub(crate) fn self_join<K: Copy + Ord + Send + Sync>(
    index: &dyn HammingIndex,
    distinct: &DistinctHashes<K>,
    weights: &[QuantisedWeights],
    progress: &(dyn Fn(u64) + Sync),
) -> SlotJoin {
    /// Slots a task works through with the same buffers.
    const TASK: usize = 1024;
    let starts: Vec<usize> = (0..distinct.len()).step_by(TASK).collect();
    let parts: Vec<(Vec<NearPair>, Cost, [u64; 2])> = starts
        .into_par_iter()
        .map(|start| {
            let (mut scratch, mut hits, mut found, mut cost) =
                (Scratch::default(), Vec::<(u32, Hit)>::new(), Vec::new(), Cost::default());
            let [mut crowded, mut passed_over] = [0, 0];
            let slots = start..distinct.len().min(start + TASK);
            let weights: Vec<_> = weights[slots.clone()].iter().map(QuantisedWeights::weights).collect();
            let hashes = &distinct.hashes()[slots];
            let queries: Vec<Query<'_>> =
                hashes.iter().zip(&weights).map(|(&hash, weights)| Query { hash, weights }).collect();
            cost += index.search_many(&queries, Mode::All, &mut scratch, &mut hits);
            hits.retain(|(number, hit)| hit.slot != Slot(start as u32 + number));
            hits.sort_unstable_by_key(|(number, hit)| (*number, hit.distance, hit.slot));
            for near in hits.chunk_by(|a, b| a.0 == b.0) {
                let slot = Slot(start as u32 + near[0].0);
                let passed = near.len().saturating_sub(MOST_NEIGHBOURS) as u64;
                crowded += u64::from(passed > 0);
                passed_over += passed;
                let nearest = near.iter().take(MOST_NEIGHBOURS);
                found.extend(nearest.map(|(_, hit)| NearPair {
                    a: slot.min(hit.slot),
                    b: slot.max(hit.slot),
                    distance: u32::from(hit.distance),
                }));
            }
            progress((distinct.len().min(start + TASK) - start) as u64);
            (found, cost, [crowded, passed_over])
        })
        .collect();
    let mut cost = Cost::default();
    let [mut crowded, mut passed_over] = [0, 0];
    let mut found = Vec::with_capacity(parts.iter().map(|(found, ..)| found.len()).sum());
    for (part, part_cost, [part_crowded, part_passed_over]) in parts {
        found.extend(part);
        cost += part_cost;
        crowded += part_crowded;
        passed_over += part_passed_over;
    }
    found.par_sort_unstable();
    found.dedup();
    SlotJoin { pairs: as_slot_pairs(found), cost, crowded, passed_over, sampled: 0 }
}

/// Finds every pair of distinct hashes at distance 1 to `radius` by an exact join, without an index.
/// `progress` hears of slots done.
///
/// Where thousands of pages of one template lie near one another, their pairs would take time and memory
/// that grow with the square of their number. Such a join is given up, and crowds are thinned: a hash with
/// more than some dozens of neighbours in a sample of all hashes is joined with the nearest of those alone
/// ([`SlotJoin::sampled`]). Every pair of two others is found as before. Whether and what is thinned
/// depends on the hashes alone. When it is not given up, `thinning` says whether a hash with very many neighbours
/// brings in the nearest of them alone.
///
/// # Errors
/// For 2³² distinct hashes or more; and for more than `most_pairs`, if crowds are to stay whole.
pub(crate) fn join_exactly<K: Copy + Ord + Send>(
    distinct: &DistinctHashes<K>,
    radius: u32,
    thinning: Thinning,
    most_pairs: u64,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SlotJoin> {
    /// Pairs that may be met for each hash, and besides; real corpora without a crowd met 190 at distance 10.
    const MET_A_HASH: u64 = 512;
    const MET: u64 = 1 << 25;
    /// Pairs that may wait at once, likewise: 200 MB and 400 bytes a hash.
    const WAITING_A_HASH: u64 = 32;
    const WAITING: u64 = 1 << 24;
    let n = distinct.len() as u64;
    let mut limits = Limits { met: n * MET_A_HASH + MET, waiting: n * WAITING_A_HASH + WAITING };
    // Where crowds stay whole, all pairs are held.
    let most = if thinning == Thinning::OfTooMany { most_pairs } else { u64::MAX };
    limits.waiting = limits.waiting.min(most);
    join_within(distinct.hashes(), radius, limits, thinning, most, progress)
}

fn join_within(
    hashes: &[u64],
    radius: u32,
    limits: Limits,
    thinning: Thinning,
    most_pairs: u64,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SlotJoin> {
    let mut nearest = Nearest { thinning, ..Nearest::new(hashes.len(), MOST_LISTED) };
    // What is struck out is not held, and does not count.
    let mut held = 0;
    let add = |pairs: &[NearPair]| {
        if held <= most_pairs {
            nearest.add(pairs);
            held = nearest.pairs.len() as u64;
        }
    };
    let cost = join::join_unless(hashes, radius, limits, progress, add)?;
    // A join that is given up has at least so many.
    let are_many = cost.is_none() && limits.waiting == most_pairs && most_pairs < u64::MAX;
    if held > most_pairs || are_many {
        return Err(Error::TooManyPairs { pairs: held.max(most_pairs.saturating_add(1)), most: most_pairs });
    }
    if let Some(cost) = cost {
        let (pairs, crowded, passed_over) = nearest.finish();
        return Ok(SlotJoin { pairs: as_slot_pairs(pairs), cost, crowded, passed_over, sampled: 0 });
    }
    drop(nearest);
    let crowds = Crowds::find(hashes, radius);
    for threshold in CROWDED {
        if let Some(join) = crowds.join(hashes, radius, threshold, limits)? {
            return Ok(join);
        }
    }
    // Denser than any crowd should be: what the sample shows is what is joined.
    Ok(crowds.joined(|_| true, Vec::new(), Cost::default(), 0))
}

fn as_slot_pairs(pairs: Vec<NearPair>) -> Vec<SlotPair> {
    let of =
        |NearPair { a, b, distance }| SlotPair { a, b, distance, similarity: cosine_of_distance(distance) };
    pairs.into_par_iter().map(of).collect()
}

/// Neighbours in the sample from which on a hash is of a crowd: the first number with which
/// what is left can be joined.
const CROWDED: [u32; 3] = [32, 8, 1];
/// Neighbours in the sample that a hash of a crowd is joined with.
const SHOWN: usize = 32;
/// Neighbours in the sample that these are the nearest of: more are not seen for.
const SEEN: usize = 1024;

/// What a sample of the hashes shows of all.
struct Crowds {
    /// Number of hashes in the sample.
    sampled: usize,
    /// For each slot, its neighbours in the sample, at most [`SEEN`].
    neighbours: Vec<u32>,
    /// For each slot its nearest neighbours in the sample, at most [`SHOWN`]; a pair may be here twice.
    pairs: Vec<NearPair>,
    cost: Cost,
}

impl Crowds {
    fn find(hashes: &[u64], radius: u32) -> Self {
        /// Bounds of the sample.
        const LEAST: usize = 1 << 10;
        const MOST: usize = 1 << 16;
        let size = (hashes.len() / 16).clamp(LEAST, MOST).min(hashes.len());
        let mut sample: Vec<(u64, Slot)> =
            hashes.iter().zip(0..).map(|(&h, slot)| (fmix64(h), Slot(slot))).collect();
        if size < sample.len() {
            sample.select_nth_unstable(size);
            sample.truncate(size);
        }
        let slots: Vec<Slot> = sample.iter().map(|&(_, slot)| slot).collect();
        let drawn: Vec<u64> = slots.iter().map(|&slot| hashes[slot.index()]).collect();
        let kernel = Level::in_use();
        let seen: Vec<(u32, Vec<NearPair>, u64)> = (0..hashes.len())
            .into_par_iter()
            .map(|own| {
                let (hash, own) = (hashes[own], Slot(own as u32));
                let mut near: Vec<(u32, Slot)> = Vec::new();
                let compared = kernel.scan(&drawn, hash, radius, |at, distance| {
                    if slots[at] != own {
                        near.push((distance, slots[at]));
                    }
                    if near.len() < SEEN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                let count = near.len() as u32;
                near.sort_unstable();
                near.truncate(SHOWN);
                let pair =
                    |(distance, slot): (u32, Slot)| NearPair { a: own.min(slot), b: own.max(slot), distance };
                (count, near.into_iter().map(pair).collect(), compared as u64)
            })
            .collect();
        let cost = Cost {
            probes: hashes.len() as u64,
            candidates: seen.iter().map(|(.., compared)| compared).sum(),
            verified: seen.iter().map(|(count, ..)| u64::from(*count)).sum(),
        };
        let neighbours = seen.iter().map(|(count, ..)| *count).collect();
        let pairs = seen.into_iter().flat_map(|(_, pairs, _)| pairs).collect();
        Self { sampled: size, neighbours, pairs, cost }
    }

    /// All pairs of hashes that are of no crowd, and of the others those that the sample shows. None
    /// if even that is too much.
    fn join(&self, hashes: &[u64], radius: u32, threshold: u32, limits: Limits) -> Result<Option<SlotJoin>> {
        let crowded = |slot: Slot| self.neighbours[slot.index()] > threshold;
        let others: Vec<Slot> = Slot::all(hashes.len()).filter(|&slot| !crowded(slot)).collect();
        let rest: Vec<u64> = others.iter().map(|&slot| hashes[slot.index()]).collect();
        let mut nearest = Nearest::new(rest.len(), MOST_LISTED);
        let Some(cost) = join::join_unless(&rest, radius, limits, &|_| (), |pairs| nearest.add(pairs))?
        else {
            return Ok(None);
        };
        let (mut pairs, _, passed_over) = nearest.finish();
        for pair in &mut pairs {
            (pair.a, pair.b) = (others[pair.a.index()], others[pair.b.index()]);
        }
        Ok(Some(self.joined(crowded, pairs, cost, passed_over)))
    }

    fn joined(
        &self,
        crowded: impl Fn(Slot) -> bool,
        mut pairs: Vec<NearPair>,
        mut cost: Cost,
        mut passed_over: u64,
    ) -> SlotJoin {
        cost += self.cost;
        pairs.extend(self.pairs.iter().filter(|pair| crowded(pair.a) || crowded(pair.b)));
        pairs.par_sort_unstable();
        pairs.dedup();
        let of_crowds = (0..).zip(&self.neighbours).filter(|&(slot, _)| crowded(Slot(slot)));
        passed_over +=
            of_crowds.clone().map(|(_, &n)| (n as usize).saturating_sub(SHOWN) as u64).sum::<u64>();
        let crowded = of_crowds.count() as u64;
        let sampled = self.sampled as u64;
        SlotJoin { pairs: as_slot_pairs(pairs), cost, crowded, passed_over, sampled }
    }
}

/// Pairs that are listed before those that no crowded slot brings in are struck out.
const MOST_LISTED: usize = 1 << 24;

/// When a slot brings in no more than its [`MOST_NEIGHBOURS`] nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinning {
    /// Always.
    Always,
    /// If all pairs are more than can be listed ([`MOST_LISTED`]).
    OfTooMany,
}

/// The pairs that stay when each slot brings in its [`MOST_NEIGHBOURS`] nearest, out of a stream of any
/// length.
struct Nearest {
    /// Neighbours of each slot so far.
    neighbours: Vec<u32>,
    pairs: Vec<NearPair>,
    /// How many may be listed.
    most: usize,
    thinning: Thinning,
    /// Whether there were more.
    were_too_many: bool,
}

impl Nearest {
    fn new(slots: usize, most: usize) -> Self {
        let thinning = Thinning::Always;
        Self { neighbours: vec![0; slots], pairs: Vec::new(), most, thinning, were_too_many: false }
    }

    fn add(&mut self, pairs: &[NearPair]) {
        for pair in pairs {
            for slot in [pair.a, pair.b] {
                let count = &mut self.neighbours[slot.index()];
                *count = count.saturating_add(1);
            }
        }
        self.pairs.extend_from_slice(pairs);
        if self.pairs.len() > self.most {
            self.were_too_many = true;
            self.strike();
            // What is left must be little beside what may come, or striking would take longer than finding.
            self.most = self.most.max(2 * self.pairs.len());
        }
    }

    /// Strikes out pairs that are among the nearest of neither slot. What comes later can
    /// only push them farther back.
    fn strike(&mut self) {
        let crowded = |slot: Slot| self.neighbours[slot.index()] as usize > MOST_NEIGHBOURS;
        let mut near: HashMap<Slot, Vec<(u32, Slot)>> = HashMap::new();
        for pair in &self.pairs {
            for (slot, other) in [(pair.a, pair.b), (pair.b, pair.a)] {
                if crowded(slot) {
                    near.entry(slot).or_default().push((pair.distance, other));
                }
            }
        }
        let last: HashMap<Slot, (u32, Slot)> = near
            .into_iter()
            .filter(|(_, near)| near.len() > MOST_NEIGHBOURS)
            .map(|(slot, mut near)| (slot, *near.select_nth_unstable(MOST_NEIGHBOURS - 1).1))
            .collect();
        let brings = |slot, other, distance| last.get(&slot).is_none_or(|&last| (distance, other) <= last);
        self.pairs
            .retain(|pair| brings(pair.a, pair.b, pair.distance) || brings(pair.b, pair.a, pair.distance));
    }

    /// The pairs, ascending; how many slots are crowded; and how many neighbours they passed over.
    fn finish(mut self) -> (Vec<NearPair>, u64, u64) {
        if self.thinning == Thinning::OfTooMany && !self.were_too_many {
            self.pairs.par_sort_unstable();
            return (self.pairs, 0, 0);
        }
        let beyond = |&n: &u32| (n as usize).saturating_sub(MOST_NEIGHBOURS) as u64;
        let crowded = self.neighbours.iter().filter(|n| beyond(n) > 0).count() as u64;
        let passed_over = self.neighbours.iter().map(beyond).sum();
        if crowded > 0 {
            self.strike();
        }
        self.pairs.par_sort_unstable();
        (self.pairs, crowded, passed_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::Partition;
    use crate::hash::SplitMix64;
    use crate::search::linear::Linear;
    use proptest::prelude::*;

    /// Both joins of the same hashes, which must be the same.
    fn joined(hashes: &[u64], radius: u32) -> SlotJoin {
        let distinct = DistinctHashes::new(hashes);
        let index = Linear::new(distinct.hashes(), radius).unwrap();
        let weights = vec![QuantisedWeights::new(&[1.0; BITS]); distinct.len()];
        let by_queries = self_join(&index, &distinct, &weights, &|_| ());
        let join = join_exactly(&distinct, radius, Thinning::Always, u64::MAX, &|_| ()).unwrap();
        assert_eq!(join.pairs, by_queries.pairs);
        assert_eq!((join.crowded, join.passed_over), (by_queries.crowded, by_queries.passed_over));
        // Struck out now and then, as for pairs that do not fit the memory.
        let mut nearest = Nearest::new(distinct.len(), 500);
        join::join(distinct.hashes(), radius, &|_| (), |pairs| {
            pairs.chunks(7).for_each(|pairs| nearest.add(pairs));
        })
        .unwrap();
        let listed = nearest.finish().0;
        assert!(listed.iter().map(|p| (p.a, p.b)).eq(join.pairs.iter().map(|p| (p.a, p.b))));
        join
    }

    proptest! {
        #[test]
        fn a_join_is_what_queries_find(seeds in prop::collection::vec(any::<u64>(), 1..9), n in 0usize..300, radius in 0u32..9) {
            let flip = |i: usize| (0..i % 7).fold(seeds[i % seeds.len()], |hash, k| hash ^ 1 << ((i * (k + 3)) % 64));
            joined(&(0..n).map(flip).collect::<Vec<_>>(), radius);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_is_thinned_follows_from_the_hashes_alone(
            seed: u64, n in 0usize..700, spread in 1u32..6, met in prop::sample::select(&[u64::MAX, 20_000, 0][..]), turn: prop::sample::Index,
        ) {
            let mut rng = SplitMix64::new(seed);
            let hashes: Vec<u64> = (0..n).map(|_| (0..spread).fold(seed, |hash, _| hash ^ 1 << rng.below(64))).collect();
            // The same pages in another order: some rotated to the front, the rest reversed.
            let mut other = hashes.clone();
            other.rotate_left(if n > 0 { turn.index(n) } else { 0 });
            other[n / 2..].reverse();
            let of = |hashes: &[u64]| {
                let distinct = DistinctHashes::new(hashes);
                let limits = Limits { met, waiting: u64::MAX };
                let join = join_within(distinct.hashes(), 7, limits, Thinning::Always, u64::MAX, &|_| ()).unwrap();
                let pairs: Vec<_> = join.pairs.iter().map(|p| (distinct.hash(p.a), distinct.hash(p.b))).collect();
                (pairs, join.cost, join.crowded, join.passed_over, join.sampled)
            };
            prop_assert_eq!(of(&hashes), of(&other));
        }
    }

    #[test]
    fn a_crowd_of_neighbours_is_bounded_and_told() {
        // All within two bits of one another.
        let mut hashes: Vec<u64> =
            (0..64).flat_map(|i| (0..i).map(move |j| 1u64 << i ^ 1 << j)).take(1000).collect();
        hashes.push(0);
        let join = joined(&hashes, 4);
        assert_eq!(join.crowded, 1001);
        assert_eq!(join.passed_over, 1001 * (1000 - MOST_NEIGHBOURS as u64));
        assert!(join.pairs.len() <= 1001 * MOST_NEIGHBOURS && join.pairs.len() >= 1001 * MOST_NEIGHBOURS / 2);
        assert!(join.pairs.is_sorted_by(|p, q| (p.a, p.b) < (q.a, q.b)));
        let mut partition = Partition::singletons(hashes.len());
        join.pairs.iter().for_each(|pair| {
            partition.join(pair.a, pair.b);
        });
        assert_eq!(partition.clusters().len(), 1);
        // They stay whole where no more are thinned than must be.
        let distinct = DistinctHashes::new(&hashes);
        let whole = join_exactly(&distinct, 4, Thinning::OfTooMany, u64::MAX, &|_| ()).unwrap();
        assert_eq!((whole.pairs.len(), whole.crowded, whole.passed_over), (1001 * 1000 / 2, 0, 0));
        let of_at_most = |most| {
            join_exactly(&distinct, 4, Thinning::OfTooMany, most, &|_| ()).map(|join| join.pairs.len())
        };
        assert_eq!(of_at_most(1001 * 1000 / 2), Ok(1001 * 1000 / 2));
        for most in [0, 1, 1001 * 1000 / 2 - 1] {
            assert!(matches!(of_at_most(most), Err(Error::TooManyPairs { .. })), "{most}");
        }
        for most in [1001 * 1000 / 2, 1001 * 1000 / 2 - 1] {
            let mut nearest = Nearest { thinning: Thinning::OfTooMany, ..Nearest::new(hashes.len(), most) };
            join::join(distinct.hashes(), 4, &|_| (), |pairs| nearest.add(pairs)).unwrap();
            let expected = if most < 1001 * 1000 / 2 { &join } else { &whole };
            let (pairs, crowded, passed_over) = nearest.finish();
            assert_eq!((crowded, passed_over), (expected.crowded, expected.passed_over));
            assert!(pairs.iter().map(|p| (p.a, p.b)).eq(expected.pairs.iter().map(|p| (p.a, p.b))), "{most}");
        }
    }

    #[test]
    fn crowds_are_thinned_and_nothing_else_is_lost() {
        // A crowd of 3,000 hashes within 8 bits of one another, and 1,500 pairs of others.
        let mut rng = SplitMix64::new(9);
        let mut flips = |hash: u64, n: u32| (0..n).fold(hash, |hash, _| hash ^ 1 << rng.below(64));
        let mut hashes: Vec<u64> = (0..3000).map(|_| flips(0xfeed_f00d_dead_beef, 4)).collect();
        let others: Vec<u64> = (0..1500u64).map(|i| fmix64(i + 1)).collect();
        hashes.extend(others.iter().flat_map(|&hash| [hash, flips(hash, 3)]));
        hashes.sort_unstable();
        hashes.dedup();
        let in_crowd = |slot: Slot| (hashes[slot.index()] ^ 0xfeed_f00d_dead_beef).count_ones() <= 4;
        let limits = Limits { met: 400_000, waiting: u64::MAX };
        let join = join_within(&hashes, 8, limits, Thinning::Always, u64::MAX, &|_| ()).unwrap();
        let crowd = Slot::all(hashes.len()).filter(|&slot| in_crowd(slot)).count() as u64;
        assert_eq!((join.sampled, join.crowded), (1024, crowd));
        assert!(join.pairs.is_sorted_by(|p, q| (p.a, p.b) < (q.a, q.b)));
        // Pairs of others are all there.
        let exact = join_within(&hashes, 8, Limits::NONE, Thinning::Always, u64::MAX, &|_| ()).unwrap();
        assert_eq!(exact.sampled, 0);
        let of_others = |join: &SlotJoin| {
            let pairs = join.pairs.iter().filter(|pair| !in_crowd(pair.a) && !in_crowd(pair.b));
            pairs.map(|pair| (pair.a, pair.b, pair.distance)).collect::<Vec<_>>()
        };
        assert!(of_others(&exact).len() > 1000);
        assert_eq!(of_others(&exact), of_others(&join));
        // What is there of the crowd is near, and hangs together.
        assert!(join.pairs.len() as u64 <= crowd * SHOWN as u64 + 3000);
        let mut partition = Partition::singletons(hashes.len());
        for pair in &join.pairs {
            assert_eq!(
                pair.distance,
                (hashes[pair.a.index()] ^ hashes[pair.b.index()]).count_ones(),
                "{pair:?}"
            );
            partition.join(pair.a, pair.b);
        }
        assert!(partition.clusters().iter().any(|members| members.len() as u64 >= crowd));
        // Too dense for any threshold: what the sample shows.
        let least =
            join_within(&hashes, 8, Limits { met: 0, waiting: 0 }, Thinning::Always, u64::MAX, &|_| ())
                .unwrap();
        assert!(least.sampled == 1024 && !least.pairs.is_empty());
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let again =
            one.install(|| join_within(&hashes, 8, limits, Thinning::Always, u64::MAX, &|_| ())).unwrap();
        assert_eq!(again.pairs, join.pairs);
    }

    #[test]
    fn distances_as_cosines() {
        assert_eq!(cosine_of_distance(0), 1.0);
        assert!((cosine_of_distance(3) - 0.989_18).abs() < 1e-5);
        assert!(cosine_of_distance(32).abs() < 1e-6);
    }
}
