//! The near pairs of a whole list of distinct hashes: by a query for each hash (`self_join`), or by one exact join
//! (`join_exactly`). Both bound the number of pairs of dense groups, such as documents of one template. A slot is the
//! place of a hash in the list.

use super::dense::{self, DENSE, SHOWN, SampledHash};
use super::distinct::DistinctHashes;
use super::join::{self, Limits};
use super::{Cost, HammingIndex, Hit, Mode, NearPair, Query, Scratch};
use crate::error::Result;
use crate::id::{Id, Slot};
use crate::simhash::BITS;
use crate::simhash::quantised::QuantisedWeights;
use hashbrown::HashMap;
use rayon::prelude::*;

/// Two slots that are near each other, or two ids of another kind that such slots stand for, with their similarity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SimilarPair<K> {
    /// The lesser id.
    pub a: K,
    /// The greater id.
    pub b: K,
    /// Hamming distance of the SimHashes, or the number of positions in which the signatures differ.
    pub distance: u32,
    /// The estimated cosine (SimHash) or Jaccard similarity (MinHash); after verification, its measure. At most 1.
    pub similarity: f32,
}

impl<K: Id> SimilarPair<K> {
    /// The pair of two ids that come in any order.
    pub fn new(one: K, other: K, distance: u32, similarity: f32) -> Self {
        Self { a: one.min(other), b: one.max(other), distance, similarity }
    }
}

/// Two slots that are near, with their similarity.
pub(crate) type SlotPair = SimilarPair<Slot>;

/// The outcome of a self-join.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotJoin {
    /// Pairs of different slots within the radius, each once, ascending by (a, b).
    pub pairs: Vec<NearPair>,
    /// The counted work.
    pub cost: Cost,
    /// The number of slots with more neighbours than [`MOST_NEIGHBOURS`]; with [`Capping::BySample`] they are not
    /// capped and do not count. If dense groups were sub-sampled, all their slots count as well.
    pub capped: u64,
    /// Neighbours that capped slots did not bring in, even if the other slot did; a pair of two capped slots may count
    /// twice. Of slots of sub-sampled dense groups, only neighbours in the sample count.
    pub passed_over: u64,
    /// If dense groups were sub-sampled ([`join_exactly`]), the number of hashes in the sample; otherwise 0.
    pub sampled: u64,
}

/// The most neighbours that a slot brings into a join. A slot with more is capped: it brings the nearest ones, and of
/// equally near ones the lesser slots. It is most likely one of thousands of documents of one template.
pub const MOST_NEIGHBOURS: usize = 256;

/// The cosine similarity that a Hamming distance of 0 to 64 bits stands for. The hashes of two vectors at angle θ
/// differ in a share θ/π of their bits (Charikar 2002).
pub fn cosine_of_distance(distance: u32) -> f32 {
    (std::f64::consts::PI * f64::from(distance) / BITS as f64).cos() as f32
}

/// Lists the pairs of distinct hashes that `index`, which is built over them, finds by a query for each hash. One of
/// the two queries has to find a pair. A slot with more than [`MOST_NEIGHBOURS`] neighbours is capped.
///
/// `weights[slot]` are the weights behind the slot's hash. `progress` gets how many more slots are done.
pub(crate) fn self_join<K: Copy + Ord + Send + Sync>(
    index: &dyn HammingIndex,
    distinct: &DistinctHashes<K>,
    weights: &[QuantisedWeights],
    progress: &(dyn Fn(u64) + Sync),
) -> SlotJoin {
    /// The number of slots that one task queries, with the same buffers.
    const TASK: usize = 1024;
    let starts: Vec<usize> = (0..distinct.len()).step_by(TASK).collect();
    let parts: Vec<(Vec<NearPair>, Cost, [u64; 2])> = starts
        .into_par_iter()
        .map(|start| {
            let (mut scratch, mut hits, mut found, mut cost) =
                (Scratch::default(), Vec::<(u32, Hit)>::new(), Vec::new(), Cost::default());
            let [mut capped, mut passed_over] = [0, 0];
            let slots = start..distinct.len().min(start + TASK);
            let weights: Vec<_> = weights[slots.clone()].iter().map(QuantisedWeights::weights).collect();
            let hashes = &distinct.hashes()[slots];
            let queries: Vec<Query<'_>> =
                hashes.iter().zip(&weights).map(|(&hash, weights)| Query { hash, weights }).collect();
            cost += index.answer(&queries, Mode::All, false, &mut scratch, &mut |found| {
                hits.push((found.query, found.hit))
            });
            hits.retain(|(number, hit)| hit.slot != Slot(start as u32 + number));
            hits.sort_unstable_by_key(|(number, hit)| (*number, hit.distance, hit.slot));
            for near in hits.chunk_by(|a, b| a.0 == b.0) {
                let slot = Slot(start as u32 + near[0].0);
                let passed = near.len().saturating_sub(MOST_NEIGHBOURS) as u64;
                capped += u64::from(passed > 0);
                passed_over += passed;
                let nearest = near.iter().take(MOST_NEIGHBOURS);
                found.extend(nearest.map(|(_, hit)| NearPair {
                    a: slot.min(hit.slot),
                    b: slot.max(hit.slot),
                    distance: u32::from(hit.distance),
                }));
            }
            progress((distinct.len().min(start + TASK) - start) as u64);
            (found, cost, [capped, passed_over])
        })
        .collect();
    let mut cost = Cost::default();
    let [mut capped, mut passed_over] = [0, 0];
    let mut found = Vec::with_capacity(parts.iter().map(|(found, ..)| found.len()).sum());
    for (part, part_cost, [part_capped, part_passed_over]) in parts {
        found.extend(part);
        cost += part_cost;
        capped += part_capped;
        passed_over += part_passed_over;
    }
    found.par_sort_unstable();
    found.dedup();
    SlotJoin { pairs: found, cost, capped, passed_over, sampled: 0 }
}

/// Lists the pairs of distinct hashes at distance 1 to `radius` by an exact join, without an index. `progress` gets how
/// many more slots are done.
///
/// Where thousands of documents of one template lie near one another, their pairs would take time and memory
/// that grow with the square of their number. Such a join is given up, and dense groups are sub-sampled: a hash with
/// many neighbours in a sample of all hashes is paired with a few hashes alone ([`SlotJoin::sampled`]). Pairs of two
/// other hashes are listed as before. A join that is not given up lists all pairs, or those that `capping` leaves.
/// Which pairs are left out depends on the hashes alone.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter) for 2³² distinct hashes or more.
pub(crate) fn join_exactly<K: Copy + Ord + Send>(
    distinct: &DistinctHashes<K>,
    radius: u32,
    capping: Capping,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SlotJoin> {
    /// The near pairs that a join may come upon, repeats included, before it is given up: so many for each hash, and
    /// `PAIRS` more. Real corpora without a dense group had 190 for each hash at distance 10.
    const PAIRS_PER_HASH: u64 = 512;
    const PAIRS: u64 = 1 << 25;
    let n = distinct.len() as u64;
    // At 12 bytes a pair: 200 MB, and 400 bytes for each hash.
    let most = dense::most_pairs(n);
    let limits = match capping {
        Capping::ByNeighbours => Limits { hits: n * PAIRS_PER_HASH + PAIRS, found: u64::MAX, buffered: most },
        Capping::BySample => Limits { hits: u64::MAX, found: most, buffered: most },
    };
    BoundedJoin { radius, limits, capping }.run(distinct.hashes(), progress)
}

/// A join without an index, and the bounds of its work.
#[derive(Clone, Copy)]
struct BoundedJoin {
    radius: u32,
    limits: Limits,
    capping: Capping,
}

impl BoundedJoin {
    /// Joins the hashes, without the pairs of dense groups if these exceed the limits.
    ///
    /// # Errors
    /// As [`join_exactly`].
    fn run(self, hashes: &[u64], progress: &(dyn Fn(u64) + Sync)) -> Result<SlotJoin> {
        let radius = self.radius;
        if let Some(join) = self.within_limits(hashes, progress)? {
            return Ok(join);
        }
        let dense = SampledDense::find(hashes, radius);
        for least in DENSE {
            let is_dense = |slot: Slot| dense.neighbours[slot.index()] >= least;
            let others: Vec<Slot> = Slot::all(hashes.len()).filter(|&slot| !is_dense(slot)).collect();
            let rest: Vec<u64> = others.iter().map(|&slot| hashes[slot.index()]).collect();
            // With the last number no other hash is left to join.
            let join = match rest.is_empty() {
                true => Some(SlotJoin::default()),
                false => self.within_limits(&rest, &|_| ())?,
            };
            if let Some(mut join) = join {
                for pair in &mut join.pairs {
                    (pair.a, pair.b) = (others[pair.a.index()], others[pair.b.index()]);
                }
                return Ok(dense.joined(hashes, radius, is_dense, join));
            }
        }
        unreachable!("the last of them leaves nothing to join")
    }

    /// Joins the hashes; none if a limit is passed.
    fn within_limits(self, hashes: &[u64], progress: &(dyn Fn(u64) + Sync)) -> Result<Option<SlotJoin>> {
        match self.capping {
            Capping::ByNeighbours => self.nearest(hashes, progress),
            Capping::BySample => self.whole(hashes, progress),
        }
    }

    /// Joins each slot with its [`MOST_NEIGHBOURS`] nearest at most; none if the join is given up.
    fn nearest(self, hashes: &[u64], progress: &(dyn Fn(u64) + Sync)) -> Result<Option<SlotJoin>> {
        let mut nearest = Nearest::new(hashes.len(), MOST_LISTED);
        let add = |pairs: &[NearPair]| nearest.add(pairs);
        let Some(cost) = join::join_unless(hashes, self.radius, self.limits, progress, add)? else {
            return Ok(None);
        };
        let (pairs, capped, passed_over) = nearest.finish();
        Ok(Some(SlotJoin { pairs, cost, capped, passed_over, sampled: 0 }))
    }

    /// A join of all pairs; none if it is given up.
    fn whole(self, hashes: &[u64], progress: &(dyn Fn(u64) + Sync)) -> Result<Option<SlotJoin>> {
        let mut pairs = Vec::new();
        let add = |found: &[NearPair]| pairs.extend_from_slice(found);
        let Some(cost) = join::join_unless(hashes, self.radius, self.limits, progress, add)? else {
            return Ok(None);
        };
        pairs.par_sort_unstable();
        Ok(Some(SlotJoin { pairs, cost, ..SlotJoin::default() }))
    }
}

/// Adds to pairs of SimHashes the cosines that their distances stand for.
pub(crate) fn as_slot_pairs(pairs: Vec<NearPair>) -> Vec<SlotPair> {
    let of =
        |NearPair { a, b, distance }| SlotPair { a, b, distance, similarity: cosine_of_distance(distance) };
    pairs.into_par_iter().map(of).collect()
}

/// The facts that a sample of the hashes shows of all.
struct SampledDense {
    /// Hashes of the sample.
    sampled: u64,
    /// For each slot, its neighbours in the sample.
    neighbours: Vec<u32>,
    /// For each slot its nearest neighbours in the sample; a pair may be here twice.
    shown: Vec<NearPair>,
    cost: Cost,
}

impl SampledDense {
    fn find(hashes: &[u64], radius: u32) -> Self {
        let slots = dense::sample(hashes);
        let sample: Vec<u64> = slots.iter().map(|slot| hashes[slot.index()]).collect();
        let seen: Vec<(u32, Vec<NearPair>, u64)> = (0..hashes.len())
            .into_par_iter()
            .map(|at| {
                let own = Slot(at as u32);
                let SampledHash { neighbours, nearest, compared } =
                    SampledHash::new(&sample, hashes[at], radius);
                let pair = |&(distance, at): &(u32, usize)| {
                    let other = slots[at];
                    NearPair { a: own.min(other), b: own.max(other), distance }
                };
                (neighbours, nearest.iter().map(pair).collect(), compared)
            })
            .collect();
        let cost = Cost {
            probes: hashes.len() as u64,
            candidates: seen.iter().map(|(.., compared)| compared).sum(),
            verified: seen.iter().map(|(count, ..)| u64::from(*count)).sum(),
        };
        let neighbours = seen.iter().map(|(count, ..)| *count).collect();
        let shown = seen.into_iter().flat_map(|(_, pairs, _)| pairs).collect();
        Self { sampled: slots.len() as u64, neighbours, shown, cost }
    }

    /// Adds to the pairs of other hashes those of dense groups that the sample shows, and those that stand together.
    fn joined(
        &self,
        hashes: &[u64],
        radius: u32,
        is_dense: impl Fn(Slot) -> bool + Sync,
        rest: SlotJoin,
    ) -> SlotJoin {
        let SlotJoin { mut pairs, mut cost, mut capped, mut passed_over, .. } = rest;
        cost += self.cost;
        pairs.extend(self.shown.iter().filter(|pair| is_dense(pair.a) || is_dense(pair.b)));
        let of_dense: Vec<Slot> = Slot::all(hashes.len()).filter(|&slot| is_dense(slot)).collect();
        // In several orders: each has other bits in front.
        let orders = (0..u64::BITS / 8).into_par_iter().map(|order| 8 * order);
        pairs.par_extend(orders.flat_map_iter(|from| dense::beside(hashes, &of_dense, from, radius)));
        pairs.par_sort_unstable();
        pairs.dedup();
        let of_dense = (0..).zip(&self.neighbours).filter(|&(slot, _)| is_dense(Slot(slot)));
        passed_over += of_dense.clone().map(|(_, &n)| (n as usize).saturating_sub(SHOWN) as u64).sum::<u64>();
        capped += of_dense.count() as u64;
        SlotJoin { pairs, cost, capped, passed_over, sampled: self.sampled }
    }
}

/// Pairs that are listed before those that no capped slot brings in are struck out.
const MOST_LISTED: usize = 1 << 24;

/// The pairs that [`join_exactly`] lists where a hash has very many neighbours. A run with both sketches takes
/// [`BySample`](Self::BySample), and one with SimHashes alone [`ByNeighbours`](Self::ByNeighbours).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capping {
    /// Each slot brings in no more than its [`MOST_NEIGHBOURS`] nearest. If the join has to be given up even so, dense
    /// groups are sub-sampled.
    ByNeighbours,
    /// All pairs are listed. If they are more than [`dense::most_pairs`], dense groups are sub-sampled.
    BySample,
}

/// The pairs that are left when each slot brings in its [`MOST_NEIGHBOURS`] nearest, out of a stream of any number of
/// pairs.
struct Nearest {
    /// Neighbours of each slot so far.
    neighbours: Vec<u32>,
    pairs: Vec<NearPair>,
    /// The number that may be listed.
    most: usize,
}

impl Nearest {
    fn new(slots: usize, most: usize) -> Self {
        Self { neighbours: vec![0; slots], pairs: Vec::new(), most }
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
            self.strike();
            // The pairs left must be few beside those that may come, or striking out would take longer than finding.
            self.most = self.most.max(2 * self.pairs.len());
        }
    }

    /// Strikes out pairs that are among the nearest of neither slot. What comes later can
    /// only push them farther back.
    fn strike(&mut self) {
        let capped = |slot: Slot| self.neighbours[slot.index()] as usize > MOST_NEIGHBOURS;
        let mut near: HashMap<Slot, Vec<(u32, Slot)>> = HashMap::new();
        for pair in &self.pairs {
            for (slot, other) in [(pair.a, pair.b), (pair.b, pair.a)] {
                if capped(slot) {
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

    /// The pairs, ascending; how many slots are capped; and how many neighbours they passed over.
    fn finish(mut self) -> (Vec<NearPair>, u64, u64) {
        let beyond = |&n: &u32| (n as usize).saturating_sub(MOST_NEIGHBOURS) as u64;
        let capped = self.neighbours.iter().filter(|n| beyond(n) > 0).count() as u64;
        let passed_over = self.neighbours.iter().map(beyond).sum();
        if capped > 0 {
            self.strike();
        }
        self.pairs.par_sort_unstable();
        (self.pairs, capped, passed_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::Partition;
    use crate::hash::{SplitMix64, fmix64};
    use crate::search::linear::Linear;
    use proptest::prelude::*;

    /// Both joins of the same hashes, which must be the same.
    fn joined(hashes: &[u64], radius: u32) -> SlotJoin {
        let distinct = DistinctHashes::new(hashes);
        let index = Linear::new(distinct.hashes(), radius).unwrap();
        let weights = vec![QuantisedWeights::new(&[1.0; BITS]); distinct.len()];
        let by_queries = self_join(&index, &distinct, &weights, &|_| ());
        let join = join_exactly(&distinct, radius, Capping::ByNeighbours, &|_| ()).unwrap();
        assert_eq!(join.pairs, by_queries.pairs);
        assert_eq!((join.capped, join.passed_over), (by_queries.capped, by_queries.passed_over));
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
        fn what_is_capped_follows_from_the_hashes_alone(
            seed: u64, n in 0usize..700, spread in 1u32..6, hits in prop::sample::select(&[u64::MAX, 20_000, 0][..]), turn: prop::sample::Index,
        ) {
            let mut rng = SplitMix64::new(seed);
            let hashes: Vec<u64> = (0..n).map(|_| (0..spread).fold(seed, |hash, _| hash ^ 1 << rng.below(64))).collect();
            // The same pages in another order: some rotated to the front, the rest reversed.
            let mut other = hashes.clone();
            other.rotate_left(if n > 0 { turn.index(n) } else { 0 });
            other[n / 2..].reverse();
            let of = |hashes: &[u64]| {
                let distinct = DistinctHashes::new(hashes);
                let limits = Limits { hits, ..Limits::NONE };
                let join = BoundedJoin { radius: 7, limits, capping: Capping::ByNeighbours }.run(distinct.hashes(), &|_| ()).unwrap();
                let pairs: Vec<_> = join.pairs.iter().map(|p| (distinct.hash(p.a), distinct.hash(p.b))).collect();
                (pairs, join.cost, join.capped, join.passed_over, join.sampled)
            };
            prop_assert_eq!(of(&hashes), of(&other));
        }
    }

    #[test]
    fn too_many_neighbours_are_bounded_and_counted() {
        // All within two bits of one another.
        let mut hashes: Vec<u64> =
            (0..64).flat_map(|i| (0..i).map(move |j| 1u64 << i ^ 1 << j)).take(1000).collect();
        hashes.push(0);
        let join = joined(&hashes, 4);
        assert_eq!(join.capped, 1001);
        assert_eq!(join.passed_over, 1001 * (1000 - MOST_NEIGHBOURS as u64));
        assert!(join.pairs.len() <= 1001 * MOST_NEIGHBOURS && join.pairs.len() >= 1001 * MOST_NEIGHBOURS / 2);
        assert!(join.pairs.is_sorted_by(|p, q| (p.a, p.b) < (q.a, q.b)));
        let mut partition = Partition::singletons(hashes.len());
        join.pairs.iter().for_each(|pair| {
            partition.join(pair.a, pair.b);
        });
        assert_eq!(partition.clusters().len(), 1);
        // They stay whole where no more are capped than must be.
        let distinct = DistinctHashes::new(&hashes);
        let whole = join_exactly(&distinct, 4, Capping::BySample, &|_| ()).unwrap();
        assert_eq!((whole.pairs.len(), whole.capped, whole.passed_over), (1001 * 1000 / 2, 0, 0));
    }

    #[test]
    fn dense_groups_are_sub_sampled_and_nothing_else_is_lost() {
        // A dense group of 3,000 hashes within 8 bits of one another, and 1,500 pairs of others.
        let mut rng = SplitMix64::new(9);
        let mut flips = |hash: u64, n: u32| (0..n).fold(hash, |hash, _| hash ^ 1 << rng.below(64));
        let mut hashes: Vec<u64> = (0..3000).map(|_| flips(0xfeed_f00d_dead_beef, 4)).collect();
        let others: Vec<u64> = (0..1500u64).map(|i| fmix64(i + 1)).collect();
        hashes.extend(others.iter().flat_map(|&hash| [hash, flips(hash, 3)]));
        hashes.sort_unstable();
        hashes.dedup();
        let in_group = |slot: Slot| (hashes[slot.index()] ^ 0xfeed_f00d_dead_beef).count_ones() <= 4;
        // Pairs of others are all there.
        let exact = BoundedJoin { radius: 8, limits: Limits::NONE, capping: Capping::ByNeighbours }
            .run(&hashes, &|_| ())
            .unwrap();
        assert_eq!(exact.sampled, 0);
        let of_others = |join: &SlotJoin| {
            let pairs = join.pairs.iter().filter(|pair| !in_group(pair.a) && !in_group(pair.b));
            pairs.map(|pair| (pair.a, pair.b, pair.distance)).collect::<Vec<_>>()
        };
        assert!(of_others(&exact).len() > 1000);
        let group = Slot::all(hashes.len()).filter(|&slot| in_group(slot)).count() as u64;
        let by_hits = BoundedJoin {
            radius: 8,
            limits: Limits { hits: 400_000, ..Limits::NONE },
            capping: Capping::ByNeighbours,
        };
        let by_found = BoundedJoin {
            radius: 8,
            limits: Limits { found: 400_000, ..Limits::NONE },
            capping: Capping::BySample,
        };
        let [join, same] = [by_hits, by_found].map(|join| join.run(&hashes, &|_| ()).unwrap());
        assert_eq!((&join.pairs, join.capped), (&same.pairs, same.capped));
        assert_eq!((join.sampled, join.capped), (1024, group));
        assert!(join.pairs.is_sorted_by(|p, q| (p.a, p.b) < (q.a, q.b)));
        assert_eq!(of_others(&exact), of_others(&join));
        // What is there of the group is near, and hangs together.
        assert!(join.pairs.len() as u64 <= group * (SHOWN as u64 + 128) + 3000);
        let mut partition = Partition::singletons(hashes.len());
        for pair in &join.pairs {
            assert_eq!(
                pair.distance,
                (hashes[pair.a.index()] ^ hashes[pair.b.index()]).count_ones(),
                "{pair:?}"
            );
            partition.join(pair.a, pair.b);
        }
        assert!(partition.clusters().iter().any(|members| members.len() as u64 >= group));
        // Too dense for any threshold: what the sample shows.
        let least = Limits { hits: 0, buffered: 0, ..Limits::NONE };
        let least = BoundedJoin { radius: 8, limits: least, capping: Capping::ByNeighbours }
            .run(&hashes, &|_| ())
            .unwrap();
        assert!(least.sampled == 1024 && !least.pairs.is_empty());
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let again = one.install(|| by_hits.run(&hashes, &|_| ())).unwrap();
        assert_eq!(again.pairs, join.pairs);
        // Beside the dense group, hashes with more neighbours than are listed, few of which the sample has.
        hashes.extend((0..300).map(|_| flips(0x0123_4567_89ab_cdef, 4)));
        hashes.extend((10_000..20_000).map(fmix64));
        hashes.sort_unstable();
        hashes.dedup();
        let within = |centre: u64| hashes.iter().filter(|&&hash| (hash ^ centre).count_ones() <= 4).count();
        let least = (within(0xfeed_f00d_dead_beef) + within(0x0123_4567_89ab_cdef)) as u64;
        let capped = by_hits.run(&hashes, &|_| ()).unwrap().capped;
        assert!(capped >= least, "{capped} capped, at least {least}");
    }

    #[test]
    fn distances_as_cosines() {
        assert_eq!(cosine_of_distance(0), 1.0);
        assert!((cosine_of_distance(3) - 0.989_18).abs() < 1e-5);
        assert!(cosine_of_distance(32).abs() < 1e-6);
    }
}
