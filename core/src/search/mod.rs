//! Hamming search: finds the stored hashes within h bits of a hash, behind one trait ([`HammingIndex`]), and counts
//! the cost of every answer.
//!
//! An index is built over a list of *distinct* hashes (see [`distinct::DistinctHashes`]). A slot is the place of a hash
//! in that list. All radii are inclusive: "within h" means distance ≤ h.
//!
//! A table groups hashes by some of their bits, its key. A probe is one look-up in a table, with the query's key as it
//! is or with a set of bits flipped. A budget is the most probes that a query makes. An exact index finds every hash
//! within the radius.

pub mod bands;
pub mod batch;
pub mod bphs;
pub(crate) mod bucket_table;
mod buckets;
mod dense;
pub mod dial;
pub mod distinct;
pub(crate) mod hash_bands;
#[doc(hidden)]
pub mod join;
pub(crate) mod keys;
pub mod linear;
pub mod lsh;
pub(crate) mod online;
pub mod psm;
#[doc(hidden)]
pub mod selfjoin;
pub(crate) mod table;

use std::ops::ControlFlow;

use buckets::{Buckets, Course, Lane, ProbeRun, Unplaced};

use crate::error::{Error, Result};
use crate::id::Slot;
use crate::kernel::kept::NearList;
use crate::simhash::BITS;

/// A query: a hash and, for the probabilistic indexes, the weights behind it.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The hash whose neighbours are wanted.
    pub hash: u64,
    /// The 64 sums of weights whose signs are the bits of `hash`. Searches read only their magnitudes; [`linear`] and
    /// [`bphs`] read none.
    pub weights: &'a [f32; BITS],
}

/// The matches that a search wants: every one, or any one (A and F in Table 2 of Sood & Loguinov 2011).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All matches that the probes find (`A`).
    All,
    /// At most one match: the search stops at the first that it finds (`F`), which need not be the nearest.
    First,
}

impl Mode {
    /// Says whether a search goes on after a match.
    #[inline]
    fn after_hit(self) -> ControlFlow<()> {
        match self {
            Self::All => ControlFlow::Continue(()),
            Self::First => ControlFlow::Break(()),
        }
    }
}

/// A match: a stored hash within the radius of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// The place of the hash in the list of distinct hashes that the index was built over.
    pub slot: Slot,
    /// Hamming distance to the query, at most the radius.
    pub distance: u8,
}

/// Two distinct hashes, or two distinct signatures, that are near each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(hidden)]
pub struct NearPair {
    /// The lesser slot.
    pub a: Slot,
    /// The greater slot.
    pub b: Slot,
    /// Hamming distance of the hashes, or the number of positions in which the signatures differ.
    pub distance: u32,
}

/// The counted work of a search or a join. Costs of several can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cost {
    /// Look-ups in tables. In a join, groups of hashes or buckets whose members were compared.
    pub probes: u64,
    /// Comparisons of a stored hash with the query. In a join, compared pairs.
    pub candidates: u64,
    /// Comparisons that found a match. A match that several probes find counts once for each.
    pub verified: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.probes += other.probes;
        self.candidates += other.candidates;
        self.verified += other.verified;
    }
}

/// Converts a number of things to 32 bits. `what` names the things in the error.
///
/// # Errors
/// [`Error::Parameter`] for 2³² or more.
fn check_number(what: &'static str, number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::parameter(what, number, "fewer than 2^32 at once"))
}

/// A match of one of several queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// Place of the query among those that were asked together, from 0.
    pub query: u32,
    /// The stored hash that matches.
    pub hit: Hit,
    /// The number, from 1, of the query's probe that found it. It has a meaning only where the search is traced.
    /// For BPHS a probe is a table.
    pub probe: u32,
}

/// A set of tables of one index: bit `t` stands for table `t`. No index has more than 64.
pub(crate) type TableSet = u64;

/// The hashes that the tables of an index can find when a query makes all its probes. By it the histograms of a run
/// count the pairs of each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Reach<'a> {
    /// For each table a mask of its key. The table finds a hash that differs from the query in at most `flips` bits of
    /// the key. A mask of no bits stands for a table that finds every hash.
    pub keys: &'a [u64],
    /// The most bits that a probe flips in a key.
    pub flips: u32,
    /// h: the largest distance of a match.
    pub radius: u32,
}

impl Reach<'_> {
    /// The tables in which `query` finds the stored hash `hit`. None if they differ in more bits than the radius.
    pub(crate) fn tables_of(&self, query: u64, hit: u64) -> TableSet {
        let differing = query ^ hit;
        if differing.count_ones() > self.radius {
            return 0;
        }
        let reaches = |&key: &u64| (differing & key).count_ones() <= self.flips;
        (0..).zip(self.keys).fold(0, |set, (t, key)| set | TableSet::from(reaches(key)) << t)
    }
}

/// An index over distinct hashes that answers: which of them are within the radius of this hash?
///
/// Answers are the same on every processor and in every thread. An exact index finds every such hash. So does a
/// [`Probing`] one without a budget, unless it was built with too few flips. Identical hashes are one slot.
///
/// The indexes of this crate implement it; methods that are hidden may change.
///
/// ```
/// use simflip_core::id::Slot;
/// use simflip_core::search::bphs::{Bphs, BphsParams};
/// use simflip_core::search::{Cost, HammingIndex, Hit, Match, Mode, Query, Scratch, linear::Linear};
///
/// let hashes = [0b0001, 0b0111, u64::MAX];
/// let query = Query { hash: 0b0011, weights: &[1.0; 64] };
/// let (linear, bphs) = (Linear::new(&hashes, 2)?, Bphs::new(&hashes, BphsParams { radius: 2, tables: 6 })?);
/// for index in [&linear as &dyn HammingIndex, &bphs] {
///     let (mut scratch, mut hits): (_, Vec<Hit>) = (Scratch::default(), Vec::new());
///     let cost: Cost = index.search(query, Mode::All, &mut scratch, &mut hits);
///     assert!(hits.len() == 2 && cost.verified >= 2 && hits.iter().all(|hit| hit.slot < Slot(2)));
///     // Several queries at once.
///     let mut queries = Vec::new();
///     index.answer(&[query; 3], Mode::First, false, &mut scratch, &mut |found: Match| queries.push(found.query));
///     queries.sort_unstable();
///     assert_eq!(queries, [0, 1, 2]);
/// }
/// # Ok::<(), simflip_core::Error>(())
/// ```
pub trait HammingIndex: Send + Sync {
    /// A short name, for errors and measurements, with the parameters that matter most, such as `bphs-10` or
    /// `psm-all-bits/8`.
    fn name(&self) -> String;

    /// The hashes that the tables can find.
    #[doc(hidden)]
    fn reach(&self) -> Reach<'_>;

    /// Memory in bytes of the index: its tables of hashes, their directories, and bit arrays. The documents behind a
    /// slot are no part of it.
    fn bytes(&self) -> usize;

    /// Answers fewer than 2³² queries, and returns the cost of all. `found` gets the matches, each slot once for
    /// each query ([`Mode::First`]: at most one for each), in an order that is not specified, but always the
    /// same. [`Match::probe`] has a meaning only if `traced`, because it may take time.
    ///
    /// Neither matches nor cost depend on which queries are asked together. Most indexes are faster with several at
    /// once, whose reads of memory overlap.
    fn answer(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        traced: bool,
        scratch: &mut Scratch,
        found: &mut dyn FnMut(Match),
    ) -> Cost;

    /// The radius h: a hash at distance h is a match.
    fn radius(&self) -> u32 {
        self.reach().radius
    }

    /// Number of tables.
    #[doc(hidden)]
    fn tables(&self) -> usize {
        self.reach().keys.len()
    }

    /// Appends the matches of one query to `hits`, and returns the cost. [`answer`](Self::answer) takes several queries
    /// at once.
    fn search(&self, query: Query<'_>, mode: Mode, scratch: &mut Scratch, hits: &mut Vec<Hit>) -> Cost {
        self.answer(&[query], mode, false, scratch, &mut |found| hits.push(found.hit))
    }
}

/// An index that makes its probes in the order of a query's weights, the likeliest first, so that a budget of probes
/// finds a share of the matches. [`calibrate::recall`](crate::calibrate::recall) says which budget finds which share.
pub trait Probing: HammingIndex {
    /// Number of bits of each table's key, among which flips are made.
    #[doc(hidden)]
    fn key_bits(&self) -> u32;

    /// The most bits that a probe flips.
    #[doc(hidden)]
    fn flips(&self) -> u32;

    /// Number of probes that a query makes without a budget; `u64::MAX` if there are as many or more.
    fn all_probes(&self) -> u64;

    /// True if all probes together find every hash within the radius.
    #[doc(hidden)]
    fn is_complete(&self) -> bool;

    /// The number, from 1, of the first probe that finds a hash, for a query with these weights that differs from the
    /// hash in the bits `differing`. None if none of the first `most` probes finds it, or if it lies beyond the radius.
    /// The budget plays no part.
    #[doc(hidden)]
    fn probe_of(&self, differing: u64, weights: &[f32; BITS], most: u32) -> Option<u32>;

    /// Sets the most probes of a query; `None` for all.
    fn set_budget(&mut self, budget: Option<u32>);
}

/// The buffers of a search. A caller passes one to all its searches, so that they need not allocate memory anew.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    lanes: Vec<Lane>,
    unplaced: Unplaced,
    near: NearList,
    dial: dial::DialScratch,
}

impl Scratch {
    /// The buffer for the sequence of probes of a single query.
    fn course(&mut self) -> &mut Course {
        if self.lanes.is_empty() {
            self.lanes.push(Lane::default());
        }
        &mut self.lanes[0].course
    }

    /// Answers queries by the search of [`buckets`], several at a time.
    fn answer<B: Buckets>(
        &mut self,
        index: &B,
        queries: &[Query<'_>],
        mode: Mode,
        found: &mut dyn FnMut(Match),
    ) -> Cost {
        let Self { lanes, unplaced, near, .. } = self;
        index.kernel().compiled_for(ProbeRun { index, queries, mode, lanes, unplaced, near, found })
    }
}

#[cfg(test)]
mod tests {
    //! One suite for all indexes: with an unlimited budget, each agrees with the definition.

    use super::bphs::{Bphs, BphsParams};
    use super::dial::{Dial, DialParams};
    use super::linear::Linear;
    use super::psm::{FlippedBits, Psm, PsmParams};
    use super::*;
    use crate::hash::SplitMix64;
    use crate::id::Id;
    use crate::simhash::distance;
    use crate::simhash::volatility::{FlipCost, Volatility};
    use crate::simhash::vosh::Vosh;
    use proptest::prelude::*;

    /// The definition: all slots within the radius.
    fn expected(hashes: &[u64], query: u64, radius: u32) -> Vec<Hit> {
        (0..)
            .zip(hashes)
            .filter(|&(_, &hash)| distance(hash, query) <= radius)
            .map(|(slot, &hash)| Hit { slot: Slot(slot), distance: distance(hash, query) as u8 })
            .collect()
    }

    /// A PSM index whose flips come in the order of the query's weights, or in one order of ranks for all queries.
    fn psm_of(hashes: &[u64], params: PsmParams, fixed: bool) -> Psm {
        let index = Psm::new(hashes, params).unwrap();
        if !fixed {
            return index;
        }
        let bits = index.key_bits();
        let weights: [f32; BITS] = std::array::from_fn(|bit| 1.0 + bit as f32);
        let order = Volatility::new(&weights, u64::MAX >> (BITS as u32 - bits), FlipCost::Abs);
        let sets: Vec<u64> = Vosh::new(order, 0..=params.radius).map(|flip| flip.ranks).collect();
        index.with_rank_sets(sets)
    }

    fn psm(hashes: &[u64], radius: u32, flipped_bits: FlippedBits, fixed: bool) -> Box<dyn HammingIndex> {
        Box::new(psm_of(hashes, PsmParams { radius, flipped_bits, ..PsmParams::default() }, fixed))
    }

    /// Every kind of index that is exact at this radius and quick enough for a test.
    fn exact_indexes(hashes: &[u64], radius: u32) -> Vec<Box<dyn HammingIndex>> {
        let mut indexes: Vec<Box<dyn HammingIndex>> = vec![Box::new(Linear::new(hashes, radius).unwrap())];
        for tables in 1..=64 {
            match Bphs::new(hashes, BphsParams { radius, tables }) {
                Ok(index) if tables <= 20 => indexes.push(Box::new(index)),
                _ => {}
            }
        }
        for fixed in [false, true] {
            for key_bits in [None, Some(1), Some(9)] {
                indexes.push(psm(hashes, radius, FlippedBits::Key { key_bits }, fixed));
            }
        }
        for (tables, key_bits) in [(1, None), (2, None), (2, Some(14)), (3, Some(9)), (8, None)] {
            if radius < 3 * tables {
                let index =
                    Dial::new(hashes, DialParams { radius, tables, key_bits, ..DialParams::default() })
                        .unwrap();
                assert!(index.is_exact());
                indexes.push(Box::new(index));
            }
        }
        if radius <= 1 {
            indexes.push(psm(hashes, radius, FlippedBits::Key { key_bits: Some(64) }, false));
            for filter_bits in [0, 4, 64] {
                indexes.push(psm(hashes, radius, FlippedBits::All { filter_bits }, false));
            }
        }
        indexes
    }

    fn check(index: &dyn HammingIndex, hashes: &[u64], query: Query<'_>, scratch: &mut Scratch) {
        let wanted = expected(hashes, query.hash, index.radius());
        let name = index.name();
        let mut hits = Vec::new();
        let cost = index.search(query, Mode::All, scratch, &mut hits);
        let mut sorted = hits.clone();
        sorted.sort();
        assert_eq!(sorted, wanted, "{name}, query {:#x}", query.hash);
        assert!(cost.verified >= hits.len() as u64 && cost.candidates >= cost.verified, "{name}: {cost:?}");

        let mut traced = Vec::new();
        assert_eq!(
            index.answer(&[query], Mode::All, true, scratch, &mut |found| traced
                .push((found.hit, found.probe))),
            cost,
            "{name}"
        );
        assert!(traced.iter().map(|&(hit, _)| hit).eq(hits.iter().copied()), "{name}");
        for &(hit, step) in &traced {
            let tables = index.reach().tables_of(query.hash, hashes[hit.slot.index()]);
            assert!(tables != 0 && tables.checked_shr(index.tables() as u32).unwrap_or(0) == 0, "{name}");
            if name.starts_with("bphs") {
                assert_eq!(step, tables.trailing_zeros() + 1, "{name}: reported by the first table");
            }
            assert!(step >= 1 && u64::from(step) <= cost.probes, "{name}");
        }

        hits.clear();
        let first = index.search(query, Mode::First, scratch, &mut hits);
        assert_eq!(hits.len(), wanted.len().min(1), "{name}");
        assert!(hits.iter().all(|hit| wanted.contains(hit)), "{name}");
        assert!(first.probes <= cost.probes && first.candidates <= cost.candidates, "{name}");
    }

    /// A batch answers as its queries do one by one; it is made long enough for several groups of lanes.
    fn check_batch(index: &dyn HammingIndex, queries: &[Query<'_>], scratch: &mut Scratch) {
        let queries: Vec<Query<'_>> = queries.iter().copied().cycle().take(2 * queries.len() + 7).collect();
        for mode in [Mode::All, Mode::First] {
            let mut one_by_one = Vec::new();
            let mut cost = Cost::default();
            for (number, &query) in (0..).zip(&queries) {
                let mut hits = Vec::new();
                cost += index.search(query, mode, scratch, &mut hits);
                one_by_one.extend(hits.into_iter().map(|hit| (number, hit)));
            }
            let mut batch = Vec::new();
            assert_eq!(
                index.answer(&queries, mode, false, scratch, &mut |found| batch
                    .push((found.query, found.hit))),
                cost,
                "{}",
                index.name()
            );
            batch.sort();
            one_by_one.sort();
            assert_eq!(batch, one_by_one, "{} {mode:?}", index.name());
        }
    }

    fn distinct(mut hashes: Vec<u64>) -> Vec<u64> {
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    fn check_all(hashes: Vec<u64>, queries: &[u64], weights: &[f32; BITS], radius: u32) {
        let hashes = distinct(hashes);
        let mut scratch = Scratch::default();
        for index in exact_indexes(&hashes, radius) {
            // The dial's key bits are implied by the place.
            let least =
                if index.name().starts_with("dial") { hashes.len() * 4 } else { size_of_val(&hashes[..]) };
            assert!(index.bytes() >= least, "{}", index.name());
            let queries: Vec<Query<'_>> = queries.iter().map(|&hash| Query { hash, weights }).collect();
            for &query in &queries {
                check(&*index, &hashes, query, &mut scratch);
            }
            check_batch(&*index, &queries, &mut scratch);
        }
    }

    fn flip(hash: u64, bits: &[u32]) -> u64 {
        bits.iter().fold(hash, |hash, bit| hash ^ 1 << (bit % 64))
    }

    fn weights(seed: u64) -> [f32; BITS] {
        let mut rng = SplitMix64::new(seed);
        std::array::from_fn(|_| rng.unit() as f32 * 4.0 - 2.0)
    }

    #[test]
    fn the_edge_of_the_radius() {
        // Differing bits bunched at the top, at the bottom, and spread over all blocks.
        for radius in 0..=4u32 {
            let mut hashes = Vec::new();
            for distance in radius.saturating_sub(1)..=radius + 1 {
                let bits: Vec<u32> = (0..distance).collect();
                hashes.push(flip(0xfeed, &bits));
                hashes.push(flip(0xfeed, &bits.iter().map(|b| 63 - b).collect::<Vec<_>>()));
                hashes.push(flip(0xfeed, &bits.iter().map(|b| b * 13 + 5).collect::<Vec<_>>()));
            }
            check_all(hashes, &[0xfeed], &weights(1), radius);
        }
    }

    #[test]
    fn none_one_and_two_hashes() {
        for radius in 0..=3 {
            for hashes in [vec![], vec![0], vec![u64::MAX], vec![0, u64::MAX], vec![6, 7]] {
                check_all(hashes, &[0, 1, 7, u64::MAX, 1 << 63], &[0.0; BITS], radius);
            }
        }
    }

    #[test]
    fn skewed_hashes() {
        let mut rng = SplitMix64::new(7);
        let prefix = 0xdead_beef_u64 << 32;
        let shared_top: Vec<u64> = (0..2_000).map(|_| prefix | rng.next_u64() >> 40).collect();
        let shared_low: Vec<u64> = (0..2_000).map(|_| rng.next_u64() << 40).collect();
        let consecutive: Vec<u64> = (0..2_000).collect();
        let equal = vec![42; 2_000];
        // Half of everything in one directory cell, the rest anywhere.
        let mixed = shared_top.iter().copied().chain((0..2_000).map(|_| rng.next_u64())).collect();
        for hashes in [shared_top, shared_low, consecutive, equal, mixed] {
            let queries =
                [hashes[0], flip(hashes[hashes.len() / 2], &[3]), flip(hashes[9], &[2, 25, 60]), 0, !0];
            for radius in [0, 1, 3] {
                check_all(hashes.clone(), &queries, &weights(3), radius);
            }
        }
    }

    #[test]
    fn psm_x_is_exact_at_radius_3() {
        let mut rng = SplitMix64::new(11);
        let mut hashes: Vec<u64> = (0..500).map(|_| rng.next_u64()).collect();
        let query = hashes[0];
        hashes.extend([
            flip(query, &[63]),
            flip(query, &[0, 31]),
            flip(query, &[0, 1, 2]),
            flip(query, &[9, 33, 62]),
        ]);
        hashes.push(flip(query, &[1, 2, 3, 4]));
        let hashes = distinct(hashes);
        let index = psm(&hashes, 3, FlippedBits::All { filter_bits: 8 }, false);
        let weights = weights(5);
        check(&*index, &hashes, Query { hash: query, weights: &weights }, &mut Scratch::default());
        let mut hits = Vec::new();
        index.search(Query { hash: query, weights: &weights }, Mode::All, &mut Scratch::default(), &mut hits);
        assert_eq!(hits.len(), 5);
    }

    #[test]
    fn a_budget_cuts_the_trace() {
        // What a budget of b finds is what the unlimited search finds in its first b probes:
        // calibration rests on it.
        let mut rng = SplitMix64::new(13);
        let query = rng.next_u64();
        let hashes =
            distinct((0..3_000).map(|_| flip(query, &[0; 3].map(|_: u32| rng.below(64) as u32))).collect());
        let weights = weights(17);
        let query = Query { hash: query, weights: &weights };
        let mut scratch = Scratch::default();
        for flipped_bits in [FlippedBits::All { filter_bits: 4 }, FlippedBits::Key { key_bits: Some(10) }] {
            for fixed in [false, true] {
                let params = PsmParams { flipped_bits, ..PsmParams::default() };
                let mut trace = Vec::new();
                psm_of(&hashes, params, fixed).answer(
                    &[query],
                    Mode::All,
                    true,
                    &mut scratch,
                    &mut |found| trace.push((found.hit, found.probe)),
                );
                assert_eq!(trace.len(), hashes.len());
                let index = psm_of(&hashes, params, fixed);
                for &(hit, probe) in trace.iter().step_by(40) {
                    let differing = hashes[hit.slot.index()] ^ query.hash;
                    let probe_of = |most| index.probe_of(differing, &weights, most);
                    assert_eq!(
                        (probe_of(u32::MAX), probe_of(probe), probe_of(probe - 1)),
                        (Some(probe), Some(probe), None)
                    );
                }
                assert_eq!(index.probe_of(0b1111, &weights, u32::MAX), None, "beyond the radius");
                for budget in [0, 1, 2, 7, 16, 17, 40, 100, u32::MAX] {
                    let index = psm_of(&hashes, PsmParams { budget: Some(budget), ..params }, fixed);
                    let mut hits = Vec::new();
                    let cost = index.search(query, Mode::All, &mut scratch, &mut hits);
                    let within = trace.iter().filter(|(_, step)| *step <= budget).map(|(hit, _)| *hit);
                    assert!(hits.iter().copied().eq(within), "{flipped_bits:?} {fixed} {budget}");
                    assert_eq!(cost.probes, index.all_probes().min(u64::from(budget)));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn all_indexes_agree_with_the_definition(
            seeds in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..64, Just(0), Just(!0)], 1..60),
            planted in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0u32..64, 0..7)), 0..60),
            asked in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0u32..64, 0..5)), 1..4),
            weights in prop::array::uniform32(prop_oneof![
                4 => Just(0f32),
                8 => -2f32..2.0,
                1 => prop::sample::select(&[f32::NAN, f32::INFINITY, f32::MAX, 1e-42][..]),
            ]),
            radius in 0u32..=4,
        ) {
            let near = |(index, bits): &(prop::sample::Index, Vec<u32>)| flip(*index.get(&seeds), bits);
            let mut hashes = seeds.clone();
            hashes.extend(planted.iter().map(near));
            let queries: Vec<u64> = asked.iter().map(near).collect();
            let weights = std::array::from_fn(|j| weights[(j * 7) % 32]);
            check_all(hashes, &queries, &weights, radius);
        }
    }
}
