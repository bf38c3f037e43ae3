//! Many queries at once: a batch is an index of the queries, and the stored hashes are compared with it in one pass,
//! block by block.
//!
//! The stored hashes need no index and no memory beyond one block, so they may come from a file. A slot is the number
//! of a stored hash in the order in which they pass, from 0. Two methods answer a batch:
//!
//! - [`Batch::psm`] makes the probes of all queries, sorts them by key, and merges them with the ascending stored
//!   hashes. The abstract and the slides of Sood & Loguinov (2011) name a batch mode of PSM and plot its speed. They
//!   do not describe it; this is our reading. Flips are made in the leading p bits, as in
//!   [`FlippedBits::Key`](super::psm::FlippedBits::Key).
//! - [`Batch::bphs`] is the batch mode of Manku, Jain & Das Sarma (2007): tables over the queries, in which every
//!   stored hash is looked up. It is exact.
//!
//! Neither text says how a batch ends a search at its first match. Our reading of [`Mode::First`]: a query takes the
//! first stored hash that matches. PSM then skips the query; BPHS looks every stored hash up all the same.

mod bphs;
mod psm;

use super::bphs::BphsParams;
use super::{Cost, Hit, Mode, Query, check_number};
use crate::id::Slot;
use crate::{Error, Result};
pub use psm::PsmBatchParams;

/// An index of queries, with which stored hashes are compared in a [`Pass`].
///
/// ```
/// use simflip_core::search::batch::{Batch, Pass, PsmBatchParams};
/// use simflip_core::search::{Mode, Query};
///
/// let (stored, weights) = ([0b0001, 0b0111, 0b1111 << 60], [1.0; 64]);
/// let queries = [Query { hash: 0b0011, weights: &weights }];
/// let batch = Batch::psm(&queries, PsmBatchParams::new(3, stored.len()))?;
/// let (mut pass, mut hits): (Pass<'_>, _) = (batch.pass(Mode::All), Vec::new());
/// for block in stored.chunks(2) {
///     pass.block(block, &mut hits)?;
/// }
/// assert_eq!(hits.iter().map(|(query, hit)| (*query, hit.slot.0)).collect::<Vec<_>>(), [(0, 0), (0, 1)]);
/// # Ok::<(), simflip_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    method: Method,
    queries: usize,
}

#[derive(Clone, Debug)]
enum Method {
    Psm(psm::BatchProbes),
    Bphs(bphs::Tables),
}

impl Batch {
    /// A batch that is answered by PSM. This makes the probes of all queries and sorts them, on all threads of the
    /// current pool.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning, and for 2³² queries or more.
    pub fn psm(queries: &[Query<'_>], params: PsmBatchParams) -> Result<Self> {
        check_number("queries", queries.len())?;
        Ok(Self { method: Method::Psm(psm::BatchProbes::new(queries, params)?), queries: queries.len() })
    }

    /// A batch that is answered by BPHS. This builds the tables over the distinct hashes of the queries, on all threads
    /// of the current pool, and does not read their weights.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning, and for 2³² queries or more.
    pub fn bphs(queries: &[Query<'_>], params: BphsParams) -> Result<Self> {
        check_number("queries", queries.len())?;
        Ok(Self { method: Method::Bphs(bphs::Tables::new(queries, params)?), queries: queries.len() })
    }

    /// Number of queries.
    #[doc(hidden)]
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// Memory in bytes: of PSM 8 for each probe and 8 for each query, of BPHS the tables and the queries behind each
    /// hash.
    pub fn bytes(&self) -> usize {
        match &self.method {
            Method::Psm(probes) => probes.bytes(),
            Method::Bphs(tables) => tables.bytes(),
        }
    }

    /// Begins a pass of stored hashes at slot 0. Several passes may run in several threads, each over a part of the
    /// hashes ([`Pass::starting_at`]). `mode` says whether a query gets all its matches in the pass or the first.
    pub fn pass(&self, mode: Mode) -> Pass<'_> {
        let answered = match mode {
            Mode::All => Vec::new(),
            Mode::First => vec![false; self.queries],
        };
        Pass { batch: self, next: 0, answered, cost: Cost::default(), scratch: bphs::BlockScratch::default() }
    }
}

/// A pass of stored hashes over a batch: the slot that it has reached, and its cost so far.
#[derive(Clone, Debug)]
pub struct Pass<'b> {
    batch: &'b Batch,
    /// The slot of the next stored hash.
    next: u64,
    /// With [`Mode::First`] the queries that have an answer; otherwise empty.
    answered: Vec<bool>,
    cost: Cost,
    scratch: bphs::BlockScratch,
}

impl Pass<'_> {
    /// Gives this pass with `slot` as the slot of the next stored hash.
    #[must_use]
    pub fn starting_at(mut self, slot: Slot) -> Self {
        self.next = u64::from(slot.0);
        self
    }

    /// Compares the next block of stored hashes with the queries, and appends the matches to `hits`: the place of the
    /// query in the batch, and the stored hash. Their order is not specified, but always the same. Blocks may be cut
    /// anywhere: the matches and the comparisons are those of one block with all hashes.
    ///
    /// # Errors
    /// [`Error::Parameter`] if slots would reach 2³², and with PSM for a block that does not ascend. The pass stays as
    /// it was then.
    pub fn block(&mut self, stored: &[u64], hits: &mut Vec<(u32, Hit)>) -> Result<()> {
        let end = self.next + stored.len() as u64;
        if end > 1 << 32 {
            return Err(Error::parameter("stored hashes", end, "at most 2^32 in one pass"));
        }
        let first = self.next as u32;
        self.cost += match &self.batch.method {
            Method::Psm(probes) => probes.block(stored, first, &mut self.answered, hits)?,
            Method::Bphs(tables) => tables.block(stored, first, &mut self.answered, &mut self.scratch, hits),
        };
        self.next = end;
        Ok(())
    }

    /// The counted work of the pass so far. The probes of PSM are those of the whole batch, however many hashes have
    /// passed, and each of several passes counts them. BPHS makes one probe in each table for each stored hash.
    pub fn cost(&self) -> Cost {
        match &self.batch.method {
            Method::Psm(probes) => Cost { probes: probes.number() as u64, ..self.cost },
            Method::Bphs(_) => self.cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::distinct::DistinctHashes;
    use super::*;
    use crate::hash::SplitMix64;
    use crate::simhash::volatility::FlipCost;
    use crate::simhash::vosh::Vosh;
    use crate::simhash::{BITS, distance};
    use proptest::prelude::*;

    /// Every stored hash within the radius of every query, ascending.
    fn linear_scan(stored: &[u64], queries: &[u64], radius: u32) -> Vec<(u32, Hit)> {
        let matching = |(query, number): (&u64, u32)| {
            let near = (0..).zip(stored).filter(|&(_, &hash)| distance(hash, *query) <= radius);
            let hit =
                |(slot, &hash)| (number, Hit { slot: Slot(slot), distance: distance(hash, *query) as u8 });
            near.map(hit).collect::<Vec<_>>()
        };
        queries.iter().zip(0..).flat_map(matching).collect()
    }

    /// Of these matches, those whose differing bits among the key's are one of the first sets of flips.
    fn within_budget(
        all: Vec<(u32, Hit)>,
        stored: &[u64],
        queries: &[Query<'_>],
        params: PsmBatchParams,
    ) -> Vec<(u32, Hit)> {
        let among = u64::MAX << (64 - params.key_bits);
        let limit = params.budget.map_or(usize::MAX, |budget| budget as usize);
        let masks = queries.iter().map(|query| {
            let mut vosh = Vosh::default();
            vosh.start(query.weights, among, params.cost, 0..=params.radius, usize::MAX);
            vosh.take(limit).map(|flip| flip.mask).collect::<Vec<u64>>()
        });
        let masks: Vec<Vec<u64>> = masks.collect();
        let reached = |&(query, hit): &(u32, Hit)| {
            let differing = queries[query as usize].hash ^ stored[hit.slot.0 as usize];
            masks[query as usize].contains(&(differing & among))
        };
        all.into_iter().filter(reached).collect()
    }

    /// The matches of a pass of blocks of `block` hashes, ascending.
    fn passed(batch: &Batch, mode: Mode, stored: &[u64], block: usize) -> (Vec<(u32, Hit)>, Cost) {
        let (mut pass, mut hits) = (batch.pass(mode), Vec::new());
        stored.chunks(block).for_each(|block| pass.block(block, &mut hits).unwrap());
        hits.sort_unstable();
        (hits, pass.cost())
    }

    /// The first match of each query.
    fn firsts(all: &[(u32, Hit)]) -> Vec<(u32, Hit)> {
        all.chunk_by(|a, b| a.0 == b.0).map(|of| of[0]).collect()
    }

    /// A batch in either mode finds `wanted`, however its hashes are cut into blocks and its passes into threads.
    fn check(batch: &Batch, stored: &[u64], wanted: &[(u32, Hit)], block: usize) {
        let (all, cost) = passed(batch, Mode::All, stored, block);
        assert_eq!(all, wanted);
        assert!(cost.verified <= cost.candidates);
        let (first, _) = passed(batch, Mode::First, stored, block);
        assert_eq!(first, firsts(wanted));
        let half = stored.len() / 2;
        let (mut hits, mut late) = (Vec::new(), batch.pass(Mode::All).starting_at(Slot(half as u32)));
        late.block(&stored[half..], &mut hits).unwrap();
        batch.pass(Mode::All).block(&stored[..half], &mut hits).unwrap();
        hits.sort_unstable();
        assert_eq!(hits, wanted);
    }

    /// Hashes in a few tight groups, so that there are matches at every distance and keys with many hashes.
    fn near(rng: &mut SplitMix64, n: usize, centres: &[u64]) -> Vec<u64> {
        let one = |_| {
            let centre = centres[rng.below(centres.len() as u64) as usize];
            (0..rng.below(6)).fold(centre, |hash, _| hash ^ 1 << rng.below(64))
        };
        (0..n).map(one).collect()
    }

    proptest! {
        #[test]
        fn batches_find_what_a_linear_scan_finds(
            seed: u64, n in 0usize..150, m in 0usize..30, key_bits in 1u32..=32, radius in 0u32..5,
            budget in proptest::option::of(0u32..60), block in 1usize..200, degenerate in 0u32..4,
        ) {
            let mut rng = SplitMix64::new(seed);
            let centres: Vec<u64> = match degenerate {
                // All hashes near one, with the key all ones or all zeros.
                0 => vec![u64::MAX],
                1 => vec![0],
                _ => [0, u64::MAX].into_iter().chain((0..4).map(|_| rng.next_u64())).collect(),
            };
            let stored = DistinctHashes::new(&near(&mut rng, n, &centres));
            let stored = stored.hashes();
            let hashes = near(&mut rng, m, &centres);
            // Weights with many ties, all alike where hashes are degenerate.
            let weight = |rng: &mut SplitMix64| if degenerate == 0 { 0.0 } else { rng.below(5) as f32 - 2.0 };
            let weights: Vec<[f32; BITS]> =
                hashes.iter().map(|_| std::array::from_fn(|_| weight(&mut rng))).collect();
            let queries: Vec<Query<'_>> =
                hashes.iter().zip(&weights).map(|(&hash, weights)| Query { hash, weights }).collect();
            let all = linear_scan(stored, &hashes, radius);
            for tables in [radius + 1, BphsParams::usual_tables(radius)] {
                check(&Batch::bphs(&queries, BphsParams { radius, tables }).unwrap(), stored, &all, block);
            }
            // All sets of 4 of 32 bits are too many for a test to try for each query.
            let radius = if budget.is_none() { radius.min(2) } else { radius };
            let all = linear_scan(stored, &hashes, radius);
            let params = PsmBatchParams { radius, key_bits, cost: FlipCost::Abs, budget };
            let wanted = within_budget(all.clone(), stored, &queries, params);
            prop_assert!(budget.is_some() || wanted == all);
            check(&Batch::psm(&queries, params).unwrap(), stored, &wanted, block);
        }
    }

    #[test]
    fn psm_compares_a_query_no_more_once_it_has_its_match_and_costs_do_not_depend_on_blocks() {
        let mut rng = SplitMix64::new(21);
        let centres: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        let stored = DistinctHashes::new(&near(&mut rng, 400, &centres));
        let weights = [0.5; BITS];
        let queries: Vec<Query<'_>> =
            near(&mut rng, 60, &centres).into_iter().map(|hash| Query { hash, weights: &weights }).collect();
        let params = PsmBatchParams { key_bits: 12, ..PsmBatchParams::new(3, 400) };
        let psm = Batch::psm(&queries, params).unwrap();
        let bphs = Batch::bphs(&queries, BphsParams { radius: 3, tables: 4 }).unwrap();
        let ((all, many), (first, few)) =
            (passed(&psm, Mode::All, stored.hashes(), 50), passed(&psm, Mode::First, stored.hashes(), 50));
        assert!(first.len() > 30 && all.len() > 2 * first.len());
        assert!(few.candidates < many.candidates && few.verified == first.len() as u64);
        // 1 + 12 + 66 + 220 sets of at most three of twelve bits.
        assert_eq!((many.probes, few.probes), (60 * 299, 60 * 299));
        for (batch, probes) in [(&psm, 60 * 299), (&bphs, 4 * stored.len() as u64)] {
            let whole = passed(batch, Mode::All, stored.hashes(), usize::MAX).1;
            assert_eq!(passed(batch, Mode::All, stored.hashes(), 7).1, whole);
            assert_eq!(whole.probes, probes);
        }
        assert_eq!((psm.queries(), psm.bytes()), (60, 8 * (60 + 60 * 299)));
    }

    #[test]
    fn the_usual_key_is_that_of_the_index_and_fits_beside_the_number_of_a_query() {
        let bits = |stored| PsmBatchParams::new(3, stored).key_bits;
        assert_eq!([0, 1, 1 << 10, 1 << 24].map(bits), [1, 1, 8, 22]);
        assert_eq!(bits(usize::MAX), 32);
    }

    #[test]
    fn parameters_without_meaning_and_unsorted_hashes_are_refused() {
        let usual = || PsmBatchParams::new(3, 9);
        let refused = |params| Batch::psm(&[], params).unwrap_err().to_string();
        assert_eq!(
            refused(PsmBatchParams { key_bits: 0, ..usual() }),
            "key-bits 0: expected 1 to 32 in a batch"
        );
        assert_eq!(
            refused(PsmBatchParams { key_bits: 33, ..usual() }),
            "key-bits 33: expected 1 to 32 in a batch"
        );
        assert_eq!(refused(PsmBatchParams { radius: 65, ..usual() }), "radius 65: expected at most 64");
        assert!(
            refused(PsmBatchParams { cost: FlipCost::LogOdds { cot_theta: 0.0 }, ..usual() })
                .starts_with("cot-theta")
        );
        assert!(Batch::bphs(&[], BphsParams { radius: 3, tables: 5 }).is_err());
        let weights = [1.0; BITS];
        let batch = Batch::psm(&[Query { hash: 1, weights: &weights }], PsmBatchParams::new(0, 2)).unwrap();
        let mut hits = Vec::new();
        let mut pass = batch.pass(Mode::All);
        assert!(pass.block(&[2, 1], &mut hits).is_err());
        assert_eq!((pass.cost().candidates, hits.len()), (0, 0));
        pass.block(&[1, 1], &mut hits).unwrap();
        assert_eq!(hits.iter().map(|(_, hit)| hit.slot.0).collect::<Vec<_>>(), [0, 1]);
        let mut last = batch.pass(Mode::All).starting_at(Slot(u32::MAX));
        assert!(last.block(&[1, 1], &mut hits).is_err());
        last.block(&[1], &mut hits).unwrap();
        assert_eq!(hits.last().map(|(_, hit)| hit.slot), Some(Slot(u32::MAX)));
        assert!(last.block(&[1], &mut hits).is_err());
        assert!(last.block(&[], &mut hits).is_ok());
    }
}
