//! Probabilistic SimHash matching in batches: the probes of many queries, sorted by key, meet the stored
//! hashes in one sequential pass.
//!
//! The paper's abstract and slides name a batch mode and its speed but do not describe it; indexing the
//! flipped queries and streaming the stored hashes past them is our reading. Flips are made among the leading
//! p bits (reading P of [`flipside::search::psm`]), so what a stored hash meets are the queries that have its
//! key flipped to; each is compared in full. The stored hashes need no index at all: they only have to
//! ascend, and may come in chunks from a file.

use anyhow::{Result, ensure};
use flipside::Slot;
use flipside::search::{Cost, Hit, Query};
use flipside::simhash::BITS;
use flipside::simhash::volatility::FlipCost;
use flipside::simhash::vosh::Vosh;
use rayon::prelude::*;

/// What a batch is matched with.
#[derive(Clone, Copy, Debug)]
pub struct BatchParams {
    /// h: the largest distance of a match, at most 64.
    pub radius: u32,
    /// p: number of leading bits among which flips are made, 1 to 32. About log₂ of the number
    /// of stored hashes is good.
    pub key_bits: u32,
    /// What a flip costs.
    pub cost: FlipCost,
    /// Probes per query, the one without flips included; `None` for all, which makes the search exact.
    pub budget: Option<u32>,
}

impl Default for BatchParams {
    fn default() -> Self {
        Self { radius: 3, key_bits: 22, cost: FlipCost::Abs, budget: None }
    }
}

/// The probes of many queries, ready to meet stored hashes.
#[derive(Clone, Debug)]
pub struct Batch {
    params: BatchParams,
    /// The queries' hashes.
    hashes: Vec<u64>,
    /// Key in the upper half, number of the query in the lower; ascending.
    probes: Vec<u64>,
}

impl Batch {
    /// Makes the probes of all queries and sorts them, on all threads of the current pool.
    ///
    /// # Errors
    /// For parameters without meaning, and for 2³² queries or more.
    pub fn new(queries: &[Query<'_>], params: BatchParams) -> Result<Self> {
        params.cost.check()?;
        ensure!(params.radius <= BITS as u32, "a radius of {}, above 64", params.radius);
        ensure!((1..=32).contains(&params.key_bits), "a key of {} bits, not 1 to 32", params.key_bits);
        ensure!(u32::try_from(queries.len()).is_ok(), "{} queries are too many for one batch", queries.len());
        let among = u64::MAX << (64 - params.key_bits);
        let limit = params.budget.map_or(usize::MAX, |budget| budget as usize);
        /// Queries a task works through with the same heap.
        const TASK: usize = 4096;
        let mut probes: Vec<u64> = queries
            .par_chunks(TASK)
            .enumerate()
            .flat_map_iter(|(task, queries)| {
                let mut vosh = Vosh::default();
                let mut probes = Vec::with_capacity(queries.len() * limit.min(64));
                for (query, number) in queries.iter().zip((task * TASK) as u64..) {
                    vosh.start(query.weights, among, params.cost, 0..=params.radius, limit);
                    let keys = vosh.by_ref().take(limit).map(|flip| (query.hash ^ flip.mask) & among);
                    probes.extend(keys.map(|key| key >> (64 - params.key_bits) << 32 | number));
                }
                probes
            })
            .collect();
        probes.par_sort_unstable();
        Ok(Self { params, hashes: queries.iter().map(|query| query.hash).collect(), probes })
    }

    /// Number of probes of all queries together.
    pub fn probes(&self) -> usize {
        self.probes.len()
    }

    /// Memory in bytes: 8 per probe and 8 per query.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.probes[..]) + size_of_val(&self.hashes[..])
    }

    /// Lets stored hashes pass and appends the matches, each with the number of its query, in the order
    /// of the hashes. Every pair that the probes reach comes once. `stored` must ascend; it may be a
    /// part of all hashes, whose first has the slot `first_slot`, and parts may be streamed in any
    /// order, from several threads.
    ///
    /// Only comparisons are counted; the number of probes is [`probes`](Self::probes),
    /// however many parts there are.
    ///
    /// # Errors
    /// For hashes that do not ascend, and for slots of 2³² or more.
    pub fn stream(&self, stored: &[u64], first_slot: u32, hits: &mut Vec<(u32, Hit)>) -> Result<Cost> {
        self.pass::<false>(stored, first_slot, &mut [], hits)
    }

    /// The same for one match of each query. `answered` has a place for each query: those that have an answer are
    /// compared no more, and those that get one are added.
    ///
    /// # Errors
    /// As [`stream`](Self::stream), and for another number of places.
    pub fn stream_first(
        &self,
        stored: &[u64],
        first_slot: u32,
        answered: &mut [bool],
        hits: &mut Vec<(u32, Hit)>,
    ) -> Result<Cost> {
        ensure!(
            answered.len() == self.hashes.len(),
            "{} places for {} queries",
            answered.len(),
            self.hashes.len()
        );
        self.pass::<true>(stored, first_slot, answered, hits)
    }

    fn pass<const FIRST: bool>(
        &self,
        stored: &[u64],
        first_slot: u32,
        answered: &mut [bool],
        hits: &mut Vec<(u32, Hit)>,
    ) -> Result<Cost> {
        ensure!(stored.is_sorted(), "stored hashes that do not ascend");
        let end = u64::from(first_slot) + stored.len() as u64;
        ensure!(end <= 1 << 32, "{end} stored hashes are too many");
        let shift = 64 - self.params.key_bits;
        let mut cost = Cost::default();
        let (mut i, mut j) = (0, 0);
        while i < self.probes.len() && j < stored.len() {
            let (wanted, key) = (self.probes[i] >> 32, stored[j] >> shift);
            if wanted < key {
                i = gallop(&self.probes, i, key, 32);
            } else if key < wanted {
                j = gallop(stored, j, wanted, shift);
            } else {
                let (from, to) = (i, gallop(&self.probes, i, key + 1, 32));
                while j < stored.len() && stored[j] >> shift == key {
                    for &probe in &self.probes[from..to] {
                        let query = probe as u32;
                        if FIRST && answered[query as usize] {
                            continue;
                        }
                        cost.candidates += 1;
                        let distance = (self.hashes[query as usize] ^ stored[j]).count_ones();
                        if distance <= self.params.radius {
                            let slot = Slot(first_slot + j as u32);
                            hits.push((query, Hit { slot, distance: distance as u8 }));
                            cost.verified += 1;
                            if FIRST {
                                answered[query as usize] = true;
                            }
                        }
                    }
                    j += 1;
                }
                i = to;
            }
        }
        Ok(cost)
    }
}

/// The first place after `from` whose value, shifted, is at least `key`: steps that double, then halving.
/// Cheap for a near place, logarithmic for a far one.
#[inline]
fn gallop(list: &[u64], from: usize, key: u64, shift: u32) -> usize {
    let (mut low, mut step) = (from, 1);
    while low + step < list.len() && list[low + step] >> shift < key {
        low += step;
        step *= 2;
    }
    let high = (low + step + 1).min(list.len());
    low + list[low..high].partition_point(|&value| value >> shift < key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipside::hash::SplitMix64;
    use flipside::search::distinct::DistinctHashes;
    use proptest::prelude::*;

    /// Every query against every stored hash; a match counts if its differing bits among the key's are one of
    /// the first sets of flips in order of cost, found by sorting all sets of them.
    fn naive(stored: &[u64], queries: &[Query<'_>], params: BatchParams) -> Vec<(u32, Hit)> {
        let among = u64::MAX << (64 - params.key_bits);
        let limit = params.budget.map_or(usize::MAX, |budget| budget as usize);
        let mut found = Vec::new();
        for (query, number) in queries.iter().zip(0..) {
            let mut vosh = Vosh::default();
            vosh.start(query.weights, among, params.cost, 0..=params.radius, usize::MAX);
            let masks: Vec<u64> = vosh.take(limit).map(|flip| flip.mask).collect();
            for (&hash, slot) in stored.iter().zip(0..) {
                let distance = (hash ^ query.hash).count_ones();
                if distance <= params.radius && masks.contains(&((hash ^ query.hash) & among)) {
                    found.push((number, Hit { slot: Slot(slot), distance: distance as u8 }));
                }
            }
        }
        found.sort_unstable();
        found
    }

    fn streamed(stored: &[u64], queries: &[Query<'_>], params: BatchParams, chunk: usize) -> Vec<(u32, Hit)> {
        let batch = Batch::new(queries, params).unwrap();
        let mut hits = Vec::new();
        for (part, at) in stored.chunks(chunk).zip(0..) {
            let cost = batch.stream(part, at * chunk as u32, &mut hits).unwrap();
            assert!(cost.verified <= cost.candidates);
        }
        hits.sort_unstable();
        hits
    }

    /// Hashes in a few tight groups, so that there are matches at every distance and keys with many hashes.
    fn near(rng: &mut SplitMix64, n: usize, centres: &[u64]) -> Vec<u64> {
        (0..n)
            .map(|_| {
                let centre = centres[rng.below(centres.len() as u64) as usize];
                (0..rng.below(6)).fold(centre, |hash, _| hash ^ 1 << rng.below(64))
            })
            .collect()
    }

    proptest! {
        #[test]
        fn batch_finds_what_comparing_everything_finds(
            seed: u64, n in 0usize..120, m in 0usize..30, key_bits in 1u32..=32, radius in 0u32..5,
            budget in proptest::option::of(0u32..60), chunk in 1usize..50,
        ) {
            let mut rng = SplitMix64::new(seed);
            let centres: Vec<u64> = [0, u64::MAX].into_iter().chain((0..4).map(|_| rng.next_u64())).collect();
            let stored = DistinctHashes::new(&near(&mut rng, n, &centres));
            let hashes = near(&mut rng, m, &centres);
            let weights: Vec<[f32; BITS]> =
                hashes.iter().map(|_| std::array::from_fn(|_| rng.unit() as f32 - 0.5)).collect();
            let queries: Vec<Query<'_>> =
                hashes.iter().zip(&weights).map(|(&hash, weights)| Query { hash, weights }).collect();
            // All sets of 4 of 32 bits are too many for a test to try for each query.
            let radius = if budget.is_none() { radius.min(2) } else { radius };
            let params = BatchParams { radius, key_bits, cost: FlipCost::Abs, budget };
            let found = streamed(stored.hashes(), &queries, params, chunk);
            prop_assert_eq!(found, naive(stored.hashes(), &queries, params));
        }
    }

    #[test]
    fn the_first_match_answers_every_query_that_has_one_and_compares_less() {
        let mut rng = SplitMix64::new(21);
        let centres: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        let stored = DistinctHashes::new(&near(&mut rng, 400, &centres));
        let hashes = near(&mut rng, 60, &centres);
        let weights = [0.5; BITS];
        let queries: Vec<Query<'_>> = hashes.iter().map(|&hash| Query { hash, weights: &weights }).collect();
        let params = BatchParams { radius: 3, key_bits: 12, ..BatchParams::default() };
        let batch = Batch::new(&queries, params).unwrap();
        let (mut every, mut first, mut answered) = (Vec::new(), Vec::new(), vec![false; queries.len()]);
        let (mut all, mut few) = (Cost::default(), Cost::default());
        for (part, at) in stored.hashes().chunks(50).zip(0..) {
            all += batch.stream(part, at * 50, &mut every).unwrap();
            few += batch.stream_first(part, at * 50, &mut answered, &mut first).unwrap();
        }
        let of = |hits: &[(u32, Hit)]| {
            hits.iter().map(|&(query, _)| query).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(of(&every), of(&first));
        assert_eq!(of(&first).len(), first.len(), "one answer each");
        assert!(first.len() > 30 && first.iter().all(|hit| every.contains(hit)));
        assert!(few.candidates < all.candidates && few.verified < all.verified);
        assert_eq!(answered.iter().filter(|&&answered| answered).count(), first.len());
        assert!(batch.stream_first(&[], 0, &mut [], &mut first).is_err());
    }

    #[test]
    fn without_a_budget_everything_within_the_radius_is_found_and_nothing_beyond() {
        let mut rng = SplitMix64::new(9);
        let query = rng.next_u64();
        let weights = [0.5; BITS];
        for radius in 0..=3 {
            let mut stored: Vec<u64> = (0..64)
                .map(|bit| (0..radius + 1).fold(query, |h, k| h ^ 1 << ((bit + 7 * k) % 64)))
                .collect();
            stored.extend((0..64).map(|bit| (0..radius).fold(query, |h, k| h ^ 1 << ((bit + 9 * k) % 64))));
            stored.sort_unstable();
            stored.dedup();
            let params = BatchParams { radius, key_bits: 16, ..BatchParams::default() };
            let found = streamed(&stored, &[Query { hash: query, weights: &weights }], params, 1000);
            let within = stored.iter().filter(|&&hash| (hash ^ query).count_ones() <= radius).count();
            assert_eq!(found.len(), within);
            assert!(found.iter().all(|(_, hit)| u32::from(hit.distance) <= radius));
        }
    }

    #[test]
    fn parameters_without_meaning_and_unsorted_hashes_are_refused() {
        let refused = |params: BatchParams| Batch::new(&[], params).is_err();
        assert!(refused(BatchParams { key_bits: 0, ..BatchParams::default() }));
        assert!(refused(BatchParams { key_bits: 33, ..BatchParams::default() }));
        assert!(refused(BatchParams { radius: 65, ..BatchParams::default() }));
        let batch = Batch::new(&[], BatchParams::default()).unwrap();
        assert!(batch.stream(&[2, 1], 0, &mut Vec::new()).is_err());
        assert!(batch.stream(&[1, 2], u32::MAX, &mut Vec::new()).is_err());
        assert!(batch.stream(&[1, 2], u32::MAX - 1, &mut Vec::new()).is_ok());
    }
}
