//! BPHS in batches: tables over the queries, in which every stored hash is looked up.

use super::super::bphs::{Bphs, BphsParams};
use super::super::distinct::DistinctHashes;
use crate::Result;
use crate::id::{Document, Id, Slot};
use crate::search::{self, Cost, HammingIndex, Hit, Mode, Query};
use crate::simhash::BITS;

/// The number of stored hashes that are looked up together.
const TOGETHER: usize = 1 << 16;

/// Tables over the distinct hashes of the queries.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    /// The queries that have each hash. A [`Document`] is the number of a query here.
    distinct: DistinctHashes<Document>,
    index: Bphs,
}

/// Buffers of a block's look-ups.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockScratch {
    search: search::Scratch,
    /// Of each match, the place of the stored hash among those looked up together, and the hash of queries that it
    /// matches.
    found: Vec<(u32, Hit)>,
}

impl Tables {
    /// Builds the tables over the hashes of `queries`.
    ///
    /// # Errors
    /// As [`Bphs::new`].
    pub fn new(queries: &[Query<'_>], params: BphsParams) -> Result<Self> {
        let hashes = queries.iter().map(|query| query.hash);
        let distinct = DistinctHashes::with_ids(hashes.zip(Document::all(queries.len())));
        Ok(Self { index: Bphs::new(distinct.hashes(), params)?, distinct })
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        let groups = self.distinct.groups();
        self.index.bytes() + size_of_val(groups.values()) + groups.len() * size_of::<u32>()
    }

    /// Looks up each stored hash, and appends to `hits` the number of each query near it, with the stored hash. `first`
    /// is the slot of `stored[0]`. `answered`, unless it is empty, has an entry for each query: queries whose entry is
    /// true get no match, and the entry of one that gets a match becomes true.
    pub fn block(
        &self,
        stored: &[u64],
        first: u32,
        answered: &mut [bool],
        scratch: &mut BlockScratch,
        hits: &mut Vec<(u32, Hit)>,
    ) -> Cost {
        let mut cost = Cost::default();
        for (part, at) in stored.chunks(TOGETHER).zip((first..).step_by(TOGETHER)) {
            scratch.found.clear();
            // An exact search asks for no weights.
            let asked: Vec<Query<'_>> =
                part.iter().map(|&hash| Query { hash, weights: &[0.0; BITS] }).collect();
            cost += self.index.answer(&asked, Mode::All, false, &mut scratch.search, &mut |found| {
                scratch.found.push((found.query, found.hit))
            });
            if !answered.is_empty() {
                // Matches in later tables come late; a query takes the first stored hash that matches.
                scratch.found.sort_unstable();
            }
            for &(place, Hit { slot, distance }) in &scratch.found {
                for query in self.distinct.members(slot) {
                    if let Some(answered) = answered.get_mut(query.index())
                        && std::mem::replace(answered, true)
                    {
                        continue;
                    }
                    hits.push((query.0, Hit { slot: Slot(at + place), distance }));
                }
            }
        }
        cost
    }
}
