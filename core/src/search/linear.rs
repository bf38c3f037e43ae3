//! The linear scan: it compares every stored hash. Tests hold all other indexes against it, and for a few thousand
//! hashes it is the fastest.

use super::{Cost, HammingIndex, Hit, Match, Mode, Query, Reach, Scratch};
use crate::Result;
use crate::id::Slot;
use crate::kernel::Level;

/// An index that compares all hashes one after the other. It counts as one table, and a query as one probe.
#[derive(Clone, Debug)]
pub struct Linear {
    hashes: Vec<u64>,
    radius: u32,
    kernel: Level,
}

impl Linear {
    /// Copies distinct hashes, in any order: slots are places in `hashes`. Matches lie within `radius` bits of a query.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for 2³² hashes or more.
    pub fn new(hashes: &[u64], radius: u32) -> Result<Self> {
        super::check_number("hashes", hashes.len())?;
        Ok(Self { hashes: hashes.to_vec(), radius, kernel: Level::in_use() })
    }
}

impl HammingIndex for Linear {
    fn name(&self) -> String {
        "linear".into()
    }

    fn reach(&self) -> Reach<'_> {
        Reach { keys: &[0], flips: 0, radius: self.radius }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.hashes[..])
    }

    fn answer(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        _: bool,
        _: &mut Scratch,
        found: &mut dyn FnMut(Match),
    ) -> Cost {
        let mut cost = Cost::default();
        for (number, query) in (0..).zip(queries) {
            let mut verified = 0;
            let compared = self.kernel.scan(&self.hashes, query.hash, self.radius, |at, distance| {
                verified += 1;
                let hit = Hit { slot: Slot(at as u32), distance: distance as u8 };
                found(Match { query: number, hit, probe: 1 });
                mode.after_hit()
            });
            cost += Cost { probes: 1, candidates: compared as u64, verified };
        }
        cost
    }
}
