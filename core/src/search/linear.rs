//! The linear scan: the oracle of all indexes, and the fastest of them for a few thousand hashes.

use super::{Cost, HammingIndex, Hit, Mode, Query, Scratch, Sink, TableSet};
use crate::kernel::Level;
use crate::{Error, Result};

/// All hashes, compared one after the other. One table, one probe.
#[derive(Clone, Debug)]
pub struct Linear {
    hashes: Vec<u64>,
    radius: u32,
    kernel: Level,
}

impl Linear {
    /// Copies the distinct hashes. Their order does not matter for the search, but slots are positions in it.
    ///
    /// # Errors
    /// [`Error::Parameter`] for 2³² hashes or more.
    pub fn new(hashes: &[u64], radius: u32) -> Result<Self> {
        if u32::try_from(hashes.len()).is_err() {
            return Err(Error::parameter(
                "hashes",
                hashes.len(),
                "fewer than 2^32 distinct hashes in one index",
            ));
        }
        Ok(Self { hashes: hashes.to_vec(), radius, kernel: Level::in_use() })
    }

    fn run(&self, query: Query<'_>, mode: Mode, sink: &mut impl Sink) -> Cost {
        let mut verified = 0;
        let compared = self.kernel.scan(&self.hashes, query.hash, self.radius, |at, distance| {
            verified += 1;
            sink.push(Hit { slot: at as u32, distance: distance as u8 }, 1);
            mode.after_hit()
        });
        Cost { probes: 1, candidates: compared as u64, verified }
    }
}

impl HammingIndex for Linear {
    fn name(&self) -> String {
        "linear".into()
    }

    fn radius(&self) -> u32 {
        self.radius
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.hashes[..])
    }

    fn search(&self, query: Query<'_>, mode: Mode, _: &mut Scratch, hits: &mut Vec<Hit>) -> Cost {
        self.run(query, mode, hits)
    }

    fn search_traced(
        &self,
        query: Query<'_>,
        mode: Mode,
        _: &mut Scratch,
        hits: &mut Vec<(Hit, u32)>,
    ) -> Cost {
        self.run(query, mode, hits)
    }

    fn tables(&self) -> usize {
        1
    }

    fn tables_of(&self, query: u64, hit: u64) -> TableSet {
        TableSet::from((query ^ hit).count_ones() <= self.radius)
    }
}
