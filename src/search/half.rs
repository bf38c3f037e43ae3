//! Half tables: few tables, each keyed on one part of the hash, looked into with few bits of the key flipped, in order of
//! likelihood. Ours, not the paper's.
//!
//! Cut the hash into t parts. Of hashes within h bits of each other, some part differs in at most ⌊h/t⌋ bits. So t
//! tables, each keyed on the first bits of its part, with every set of at most f flips in the key, find every match if
//! h < t(f + 1): for two halves and h = 3 that is one flip, and 2(p + 1) looks for keys of p bits. The looks of all
//! tables are taken in one order of likelihood under the query's weights, so a budget buys the best of them, and a
//! budget for all of them makes the search exact: one structure from fast to complete.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::buckets::{Buckets, Course, Look};
use super::directory::{KeyBits, Table, log2};
use super::{Cost, HammingIndex, Hit, Mode, Query, Scratch, TableSet};
use crate::kernel::hamming::Kernel;
use crate::simhash::volatility::{FixedCost, FlipCost, Volatility};
use crate::simhash::vosh::{Flip, Vosh};
use crate::{Error, Result};

/// What an index of half tables is built with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HalfParams {
    /// h: the largest distance of a match, at most 64.
    pub radius: u32,
    /// t: number of parts and tables, 1 to 16.
    pub tables: u32,
    /// p: bits of each key, 1 to 64/t; by default about log₂ of the number of hashes, if a part has as many.
    pub key_bits: Option<u32>,
    /// f: most bits flipped in a key; by default ⌊h/t⌋, the fewest for which the search can be exact.
    pub flips: Option<u32>,
    /// What a flip costs. With [`FlipCost::LogOdds`] the looks of different tables are weighed against each other by
    /// the likelihood that the rest of the key agrees: slightly fewer looks, each query somewhat slower. Other costs
    /// treat all tables alike.
    pub cost: FlipCost,
    /// Looks per query; `None` for all.
    pub budget: Option<u32>,
}

impl Default for HalfParams {
    fn default() -> Self {
        Self { radius: 3, tables: 2, key_bits: None, flips: None, cost: FlipCost::Abs, budget: None }
    }
}

/// Where a query stands in the flips of one table.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    vosh: Vosh,
    next: Option<Flip>,
    /// The cost of the table itself: that the bits of the key agree.
    base: FixedCost,
}

/// The cost of flips in an order; beyond all others for bits that were not ranked, because the budget does not reach
/// them.
fn cost_of(order: &Volatility, mask: u64) -> Option<FixedCost> {
    let mut rest = mask;
    let mut sum = 0;
    for (&bit, cost) in order.bits().iter().zip(order.costs()) {
        if rest >> bit & 1 == 1 {
            sum += cost;
            rest ^= 1 << bit;
        }
    }
    (rest == 0).then_some(sum)
}

/// Half tables over distinct hashes.
#[derive(Clone, Debug)]
pub struct Half {
    params: HalfParams,
    flips: u32,
    /// Table 0 has a key of leading bits: it is the ascending list that slots refer to.
    tables: Vec<Table>,
    kernel: Kernel,
}

impl Half {
    /// Builds the tables over `hashes`, which must ascend strictly, on all threads of the current pool.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning and for hashes that do not ascend.
    pub fn new(hashes: &[u64], params: HalfParams) -> Result<Self> {
        params.cost.check()?;
        if params.radius > 64 {
            return Err(Error::parameter("radius", params.radius, "at most 64"));
        }
        if !(1..=16).contains(&params.tables) {
            return Err(Error::parameter("tables", params.tables, "1 to 16"));
        }
        let part = 64 / params.tables;
        let cells = log2(hashes.len()).saturating_sub(1);
        let key_bits = params.key_bits.unwrap_or(cells.clamp(1, part));
        if !(1..=part).contains(&key_bits) {
            return Err(Error::parameter("key-bits", key_bits, format!("1 to {part}, the bits of one part")));
        }
        let flips = params.flips.unwrap_or(params.radius / params.tables);
        let tables = (0..params.tables)
            .into_par_iter()
            .map(|t| {
                let key = KeyBits::new(KeyBits::leading(key_bits).mask() >> (t * part));
                Table::new(hashes, key.expect("one run of bits"), cells)
            })
            .collect::<Result<_>>()?;
        Ok(Self { params, flips, tables, kernel: Kernel::best() })
    }

    /// The parameters that the index was built with.
    pub fn params(&self) -> HalfParams {
        self.params
    }

    /// Number of all looks: the budget from which on nothing more is found. Saturates.
    pub fn all_looks(&self) -> u64 {
        let bits = u128::from(self.tables[0].key().len());
        let (mut sets, mut sum) = (1u128, 1u128);
        for k in 0..u128::from(self.flips).min(bits) {
            sets = sets * (bits - k) / (k + 1);
            sum += sets;
        }
        u64::try_from(sum * self.tables.len() as u128).unwrap_or(u64::MAX)
    }

    /// Whether all looks together find every match.
    pub fn is_exact(&self) -> bool {
        let exact = u64::from(self.params.radius) < self.tables.len() as u64 * (u64::from(self.flips) + 1);
        exact && self.budget() >= self.all_looks()
    }

    fn budget(&self) -> u64 {
        match self.params.budget {
            None | Some(u32::MAX) => u64::MAX,
            Some(budget) => u64::from(budget),
        }
    }

    /// The set of bits that must be flipped for table `t` to find a hash with these differing bits.
    #[inline]
    fn mask(&self, t: usize, differing: u64) -> Option<u64> {
        let mask = differing & self.tables[t].key().mask();
        (mask.count_ones() <= self.flips).then_some(mask)
    }
}

impl Buckets for Half {
    fn tables(&self) -> &[Table] {
        &self.tables
    }

    fn search_radius(&self) -> u32 {
        self.params.radius
    }

    fn kernel(&self) -> Kernel {
        self.kernel
    }

    fn begin(&self, query: Query<'_>, course: &mut Course) {
        let limit = usize::try_from(self.budget()).unwrap_or(usize::MAX);
        course.parts.resize_with(self.tables.len(), Part::default);
        for (part, table) in course.parts.iter_mut().zip(&self.tables) {
            let key = table.key().mask();
            part.vosh.start(query.weights, key, self.params.cost, 0..=self.flips, limit);
            part.base = part.vosh.order().cost_of_agreement(query.weights, key, self.params.cost);
            part.next = part.vosh.next();
        }
    }

    #[inline]
    fn next(&self, course: &mut Course) -> Option<Look> {
        if course.taken >= self.budget() {
            return None;
        }
        let mut best: Option<(FixedCost, usize)> = None;
        for (t, part) in course.parts.iter().enumerate() {
            let Some(flip) = part.next else { continue };
            // Of equal costs, the first table's.
            let cost = part.base + flip.cost;
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, t));
            }
        }
        let (_, t) = best?;
        let part = &mut course.parts[t];
        let flip = part.next?;
        part.next = part.vosh.next();
        Some(Look { table: t as u32, mask: flip.mask })
    }

    /// A group may hold several keys, and several tables may find the same match: it belongs to the earliest look that
    /// finds it.
    fn owns(&self, course: &Course, look: Look, differing: u64, mode: Mode) -> bool {
        let own = look.table as usize;
        if self.mask(own, differing) != Some(look.mask) {
            return false;
        }
        if mode == Mode::First {
            return true;
        }
        let turn = |t: usize, mask: u64| {
            let part = &course.parts[t];
            cost_of(part.vosh.order(), mask).map(|cost| (part.base + cost, t))
        };
        let mine = turn(own, look.mask);
        (0..self.tables.len()).filter(|&t| t != own).all(|t| {
            let theirs = self.mask(t, differing).and_then(|mask| turn(t, mask));
            theirs.is_none() || theirs > mine
        })
    }

    #[inline]
    fn slot(&self, table: u32, position: usize) -> u32 {
        let slot = match table {
            0 => Some(position),
            _ => self.tables[0].find(self.tables[table as usize].hashes()[position]).0,
        };
        slot.expect("every table holds the same hashes") as u32
    }
}

impl HammingIndex for Half {
    fn name(&self) -> String {
        format!("half-{}x{}/{}", self.tables.len(), self.tables[0].key().len(), self.flips)
    }

    fn radius(&self) -> u32 {
        self.params.radius
    }

    fn bytes(&self) -> usize {
        self.tables.iter().map(Table::bytes).sum()
    }

    fn search(&self, query: Query<'_>, mode: Mode, scratch: &mut Scratch, hits: &mut Vec<Hit>) -> Cost {
        scratch.answer(self, query, mode, |hit, _, _| hits.push(hit))
    }

    fn search_traced(
        &self,
        query: Query<'_>,
        mode: Mode,
        scratch: &mut Scratch,
        hits: &mut Vec<(Hit, u32)>,
    ) -> Cost {
        scratch.answer(self, query, mode, |hit, step, _| hits.push((hit, step as u32)))
    }

    fn search_many(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        scratch: &mut Scratch,
        hits: &mut Vec<(u32, Hit)>,
    ) -> Cost {
        scratch.answer_many(self, queries, mode, hits)
    }

    fn tables(&self) -> usize {
        self.tables.len()
    }

    fn tables_of(&self, query: u64, hit: u64) -> TableSet {
        let differing = query ^ hit;
        if differing.count_ones() > self.params.radius {
            return 0;
        }
        (0..self.tables.len()).fold(0, |set, t| set | TableSet::from(self.mask(t, differing).is_some()) << t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_and_exactness() {
        let index = |params| Half::new(&[1, 5], params).unwrap();
        let two = index(HalfParams { key_bits: Some(24), ..HalfParams::default() });
        assert_eq!((two.all_looks(), two.is_exact()), (50, true));
        let cut = HalfParams { budget: Some(49), ..two.params() };
        assert!(!index(cut).is_exact());
        assert!(!index(HalfParams { radius: 4, flips: Some(1), ..HalfParams::default() }).is_exact());
        let three = index(HalfParams { radius: 8, tables: 3, key_bits: Some(21), ..HalfParams::default() });
        assert_eq!((three.all_looks(), three.is_exact()), (3 * (1 + 21 + 210), true));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let default = HalfParams::default();
        for params in [
            HalfParams { radius: 65, ..default },
            HalfParams { tables: 0, ..default },
            HalfParams { tables: 17, ..default },
            HalfParams { key_bits: Some(33), ..default },
            HalfParams { key_bits: Some(0), ..default },
            HalfParams { cost: FlipCost::LogOdds { cot_theta: 0.0 }, ..default },
        ] {
            assert!(Half::new(&[1], params).is_err(), "{params:?}");
        }
    }

    #[test]
    fn the_likelier_table_is_asked_first() {
        // All bits of the upper half are weak, those of the lower half strong: the lower half's key very likely agrees.
        let weights = std::array::from_fn(|j| if j < 32 { 3.0 } else { 0.05 });
        let cost = FlipCost::LogOdds { cot_theta: 10.0 };
        let params = HalfParams { key_bits: Some(2), cost, ..HalfParams::default() };
        let index = Half::new(&[0, 1, 2, 3], params).unwrap();
        let mut course = Course::default();
        index.begin(Query { hash: 0, weights: &weights }, &mut course);
        let tables: Vec<u32> =
            std::iter::from_fn(|| index.next(&mut course)).map(|look| look.table).collect();
        assert_eq!(tables, [1, 0, 0, 0, 1, 1]);
    }
}
