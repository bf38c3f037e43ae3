//! PSM in batches: the probes of many queries, sorted by key, are merged with the ascending stored hashes.

use super::super::psm::usual_key_bits;
use super::super::{Cost, Hit, Query};
use crate::id::Slot;
use crate::simhash::BITS;
use crate::simhash::volatility::FlipCost;
use crate::simhash::vosh::Vosh;
use crate::{Error, Result};
use rayon::prelude::*;

/// Parameters of a batch of PSM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PsmBatchParams {
    /// h: the largest distance of a match, at most 64.
    pub radius: u32,
    /// p: number of leading bits among which flips are made, 1 to 32.
    pub key_bits: u32,
    /// The cost of flipping a bit. A query makes its probes in order of the cost of their flips, the cheapest first.
    pub cost: FlipCost,
    /// The most probes of a query, the one without flips included; `None` for all, which makes the search exact.
    pub budget: Option<u32>,
}

/// The most bits of a key: a key and the number of a query share 64 bits.
const MOST_KEY_BITS: u32 = 32;

impl PsmBatchParams {
    /// Parameters of an exact search for matches within `radius` bits among about `stored` hashes. A key has
    /// ⌊log₂ n⌋ − 2 bits, at least 1 and at most 32, as [`Psm`](super::super::psm::Psm) has by default.
    pub fn new(radius: u32, stored: usize) -> Self {
        let key_bits = usual_key_bits(stored).min(MOST_KEY_BITS);
        Self { radius, key_bits, cost: FlipCost::Abs, budget: None }
    }
}

/// The probes of many queries.
#[derive(Clone, Debug)]
pub(super) struct BatchProbes {
    params: PsmBatchParams,
    /// The queries' hashes.
    hashes: Vec<u64>,
    /// Each probe's key in the upper half, and the number of its query in the lower; ascending.
    probes: Vec<u64>,
}

impl BatchProbes {
    /// Makes the probes of `queries`, at most `params.budget` each, and sorts them.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning.
    pub fn new(queries: &[Query<'_>], params: PsmBatchParams) -> Result<Self> {
        let PsmBatchParams { radius, key_bits, cost, budget } = params;
        cost.check()?;
        if radius > BITS as u32 {
            return Err(Error::parameter("radius", radius, "at most 64"));
        }
        if !(1..=MOST_KEY_BITS).contains(&key_bits) {
            return Err(Error::parameter("key-bits", key_bits, "1 to 32 in a batch"));
        }
        let among = u64::MAX << (64 - key_bits);
        let limit = budget.map_or(usize::MAX, |budget| budget as usize);
        /// The number of queries that one task makes the probes of, with the same heap.
        const TASK: usize = 4096;
        let mut probes: Vec<u64> = queries
            .par_chunks(TASK)
            .enumerate()
            .flat_map_iter(|(task, queries)| {
                let mut vosh = Vosh::default();
                let mut probes = Vec::with_capacity(queries.len() * limit.min(64));
                for (query, number) in queries.iter().zip((task * TASK) as u64..) {
                    vosh.start(query.weights, among, cost, 0..=radius, limit);
                    let keys = vosh.by_ref().take(limit).map(|flip| (query.hash ^ flip.mask) & among);
                    probes.extend(keys.map(|key| key >> (64 - key_bits) << 32 | number));
                }
                probes
            })
            .collect();
        probes.par_sort_unstable();
        Ok(Self { params, hashes: queries.iter().map(|query| query.hash).collect(), probes })
    }

    /// Number of probes of all queries together.
    pub fn number(&self) -> usize {
        self.probes.len()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.probes[..]) + size_of_val(&self.hashes[..])
    }

    /// Compares ascending stored hashes with the queries that have a probe of their key, and appends the matches to
    /// `hits`: the number of the query, and the stored hash. A match comes once, as a query has one probe of a key.
    /// `first` is the slot of `stored[0]`. `answered`, unless it is empty, has an entry for each query: queries whose
    /// entry is true are passed over, and the entry of one that gets a match becomes true. The cost has no probes,
    /// which [`number`](Self::number) counts.
    ///
    /// # Errors
    /// [`Error::Parameter`] if `stored` does not ascend.
    pub fn block(
        &self,
        stored: &[u64],
        first: u32,
        answered: &mut [bool],
        hits: &mut Vec<(u32, Hit)>,
    ) -> Result<Cost> {
        if !stored.is_sorted() {
            return Err(Error::parameter("stored hashes", "an unsorted block", "ascending hashes"));
        }
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
                        if answered.get(query as usize).is_some_and(|&answered| answered) {
                            continue;
                        }
                        cost.candidates += 1;
                        let distance = (self.hashes[query as usize] ^ stored[j]).count_ones();
                        if distance <= self.params.radius {
                            let slot = Slot(first + j as u32);
                            hits.push((query, Hit { slot, distance: distance as u8 }));
                            cost.verified += 1;
                            if let Some(answered) = answered.get_mut(query as usize) {
                                *answered = true;
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

/// The first place from `from` on whose value, shifted right by `shift` bits, is at least `key`; the length of the list
/// if there is none. Steps double and then halve, so that a near place takes few of them.
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
