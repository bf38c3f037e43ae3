//! Probabilistic SimHash matching (Sood & Loguinov 2011): one table, looked up again and again with the bits
//! flipped that are likeliest to differ.
//!
//! The paper's description of the online search leaves open where bits are flipped. Both readings are ours:
//!
//! - [`FlippedBits::All`]: over all 64 bits. A flipped hash is looked up for equality; a bit array, indexed by a
//!   hash of the hash, ends most probes that find nothing.
//! - [`FlippedBits::Key`]: over the leading p bits, the key. All hashes with the flipped key are
//!   compared with the query.
//!
//! Flips come in one order over all sizes from 0 to h. With a budget for every set of at most h
//! flips the search is exact. [`calibrate::recall`](crate::calibrate::recall) measures which budget finds which share.
//! Many queries at once are a [`Batch`](super::batch::Batch).

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::buckets::{Buckets, Course, Probe};
use super::table::{KeyBits, Table, log2};
use super::{Cost, HammingIndex, Hit, Match, Mode, Probing, Query, Reach, Scratch};
use crate::hash::fmix64;
use crate::id::Slot;
use crate::kernel::{Level, prefetch};
use crate::simhash::BITS;
use crate::simhash::volatility::{FlipCost, Volatility};
use crate::simhash::vosh::{Ranks, Vosh};
use crate::{Error, Result};

/// The bits that a PSM index flips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlippedBits {
    /// Any of the 64 bits.
    All {
        /// Bits of a filter for each stored hash, at most 64; 0 for no filter. It ends most probes that find nothing.
        filter_bits: u32,
    },
    /// The leading bits alone.
    Key {
        /// p: number of leading bits, 1 to 64. By default ⌊log₂ n⌋ − 2, but at least 1, so that four to eight
        /// of n evenly spread hashes share a key.
        key_bits: Option<u32>,
    },
}

/// The parameters of a PSM index.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PsmParams {
    /// h: the largest distance of a match, at most 64.
    pub radius: u32,
    /// The bits that are flipped.
    pub flipped_bits: FlippedBits,
    /// The cost of flipping a bit. A query makes its probes in order of the cost of their flips, the cheapest first.
    pub cost: FlipCost,
    /// The most probes of a query, the one without flips included; `None` for all, which makes the search exact.
    pub budget: Option<u32>,
}

impl Default for PsmParams {
    fn default() -> Self {
        Self {
            radius: 3,
            flipped_bits: FlippedBits::Key { key_bits: None },
            cost: FlipCost::Abs,
            budget: None,
        }
    }
}

/// Refuses an exhaustive search of one table that would take too many sets of flips. Any recall may come to it, unless
/// a number of probes is given.
pub(crate) fn check_sets(distance: u32, flipped_bits: FlippedBits, recall: f64) -> Result<()> {
    /// Sets of flips a query: at distance 5 all 64 bits have 8.3 million.
    const MOST: u128 = 1 << 24;
    // A key of the default length has fewer bits than this in any corpus that fits a machine.
    let bits = match flipped_bits {
        FlippedBits::All { .. } => BITS as u32,
        FlippedBits::Key { key_bits } => key_bits.unwrap_or(24).min(BITS as u32),
    };
    let all = number_of_sets(bits, distance);
    if all <= MOST {
        return Ok(());
    }
    let expected = format!(
        "a number of probes (budget) instead: a share may take one probe for each of the {all} sets of at most {distance} \
         flips in {bits} bits, for each document; dial and join find it in fewer"
    );
    Err(Error::parameter("recall", recall, expected))
}

/// The number of key bits of an index over `n` hashes, unless another is given.
pub(super) fn usual_key_bits(n: usize) -> u32 {
    log2(n).saturating_sub(2).max(1)
}

/// The number of sets of at most `most` of `bits` bits, the empty set included.
pub(crate) fn number_of_sets(bits: u32, most: u32) -> u128 {
    let (mut sets, mut sum) = (1u128, 1u128);
    for k in 0..u128::from(most.min(bits)) {
        sets = sets * (u128::from(bits) - k) / (k + 1);
        sum += sets;
    }
    sum
}

/// Probes that are prepared together, so that their memory accesses overlap.
const GROUP: usize = 16;

/// A bit array over hashes of hashes: a Bloom filter with one function.
#[derive(Clone, Debug)]
struct Filter {
    words: Vec<u64>,
}

impl Filter {
    fn new(hashes: &[u64], bits_per_hash: u32) -> Self {
        let bits = hashes.len() as u64 * u64::from(bits_per_hash);
        let mut filter = Self { words: vec![0; bits.div_ceil(64) as usize] };
        for &hash in hashes {
            let (word, bit) = filter.place(hash);
            filter.words[word] |= bit;
        }
        filter
    }

    /// The word and the bit of a hash. SimHashes of real text are not uniform, so they are mixed first.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u64) {
        let mixed = fmix64(hash);
        let word = (u128::from(mixed) * self.words.len() as u128) >> 64;
        (word as usize, 1 << (mixed & 63))
    }
}

/// An index of distinct hashes by probabilistic SimHash matching.
#[derive(Clone, Debug)]
pub struct Psm {
    params: PsmParams,
    table: Table,
    /// A mask of the bits that may be flipped.
    among: u64,
    filter: Option<Filter>,
    /// The sets of ranks to flip for every query, in this order. If none, a query's weights order the sets of bits.
    fixed: Option<Arc<[Ranks]>>,
    kernel: Level,
}

impl Psm {
    /// Builds the table over `hashes`, which must ascend strictly.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning and for hashes that do not ascend.
    pub fn new(hashes: &[u64], params: PsmParams) -> Result<Self> {
        params.cost.check()?;
        if params.radius > BITS as u32 {
            return Err(Error::parameter("radius", params.radius, "at most 64"));
        }
        let cells = log2(hashes.len());
        let (key_bits, among, filter_bits) = match params.flipped_bits {
            FlippedBits::All { filter_bits: bits @ 65.. } => {
                return Err(Error::parameter("filter-bits", bits, "0 to 64"));
            }
            FlippedBits::All { filter_bits } => (BITS as u32, u64::MAX, filter_bits),
            FlippedBits::Key { key_bits } => match key_bits.unwrap_or_else(|| usual_key_bits(hashes.len())) {
                bits @ 1..=64 => (bits, KeyBits::leading(bits).mask(), 0),
                bits => return Err(Error::parameter("key-bits", bits, "1 to 64")),
            },
        };
        let table = Table::new(hashes, KeyBits::leading(key_bits), cells)?;
        let filter = (filter_bits > 0 && !hashes.is_empty()).then(|| Filter::new(hashes, filter_bits));
        Ok(Self { params, table, among, filter, fixed: None, kernel: Level::in_use() })
    }

    /// The parameters that the index was built with.
    #[doc(hidden)]
    pub fn params(&self) -> PsmParams {
        self.params
    }

    /// Gives the index with a fixed order of flips: every query flips these sets of ranks in this order. A query's
    /// weights say only which bit has which rank. Bit r of a set stands for the bit of the hash that has r bits of
    /// lower margin before it. The search is exact if every set of at most h ranks is there once. No run searches so:
    /// it is for experiments.
    #[doc(hidden)]
    pub fn with_rank_sets(mut self, sets: impl Into<Arc<[Ranks]>>) -> Self {
        self.fixed = Some(sets.into());
        self
    }

    /// The number of sets of at most h of the bits that may be flipped; saturates.
    fn all_sets(&self) -> u64 {
        u64::try_from(number_of_sets(self.key_bits(), self.params.radius)).unwrap_or(u64::MAX)
    }

    /// The most probes of a query.
    fn budget(&self) -> u64 {
        self.params.budget.filter(|&budget| budget < u32::MAX).map_or(u64::MAX, u64::from)
    }

    /// Begins the sequence of flips for a query.
    fn start(&self, query: Query<'_>, course: &mut Course) {
        match &self.fixed {
            None => {
                let limit = usize::try_from(self.budget()).unwrap_or(usize::MAX);
                let sizes = 0..=self.params.radius;
                course.vosh.start(query.weights, self.among, self.params.cost, sizes, limit);
            }
            Some(_) => course.order.rank(query.weights, self.among, self.params.cost, BITS),
        }
    }

    /// The next mask of bits to flip, within the budget.
    #[inline]
    fn next_mask(&self, course: &mut Course) -> Option<u64> {
        if course.taken >= self.budget() || self.table.hashes().is_empty() {
            return None;
        }
        match &self.fixed {
            None => course.vosh.next().map(|flip| flip.mask),
            Some(fixed) => {
                let ranks = fixed.get(course.taken as usize)?;
                Some(course.order.mask(*ranks))
            }
        }
    }

    /// Looks hashes up in which any of the 64 bits are flipped, in groups whose memory accesses overlap.
    fn run_equal(
        &self,
        query: Query<'_>,
        mode: Mode,
        course: &mut Course,
        found: &mut impl FnMut(Hit, u32),
    ) -> Cost {
        course.taken = 0;
        self.start(query, course);
        let mut cost = Cost::default();
        let mut group = [0u64; GROUP];
        // A search for the first match begins with a small group: it may not need the rest.
        let mut room = match mode {
            Mode::All => GROUP,
            Mode::First => GROUP / 4,
        };
        loop {
            let mut n = 0;
            while n < room {
                let Some(mask) = self.next_mask(course) else { break };
                course.taken += 1;
                group[n] = mask;
                n += 1;
            }
            let any = self.probe_equal(query.hash, &group[..n], mode, &mut cost, found);
            if n < room || any && mode == Mode::First {
                return cost;
            }
            room = GROUP;
        }
    }

    /// Looks up the query with each of these masks flipped; true if one is stored.
    fn probe_equal(
        &self,
        query: u64,
        masks: &[u64],
        mode: Mode,
        cost: &mut Cost,
        found: &mut impl FnMut(Hit, u32),
    ) -> bool {
        // Numbers of the masks in the group that pass the filter.
        let mut passed = [0u8; GROUP];
        let mut n = 0;
        let mut places = [(0usize, 0u64); GROUP];
        if let Some(filter) = &self.filter {
            for (place, mask) in places.iter_mut().zip(masks) {
                *place = filter.place(query ^ mask);
                prefetch::read(&filter.words, place.0);
            }
        }
        for (number, &(word, bit)) in places[..masks.len()].iter().enumerate() {
            passed[n] = number as u8;
            n += usize::from(self.filter.as_ref().is_none_or(|filter| filter.words[word] & bit != 0));
        }
        let passed = passed[..n].iter().map(|&number| usize::from(number));
        for number in passed.clone() {
            self.table.prefetch_cell(self.table.cell(query ^ masks[number]));
        }
        let before = cost.probes;
        cost.probes += masks.len() as u64;
        let mut any = false;
        for number in passed {
            let mask = masks[number];
            let (slot, compared) = self.table.find(query ^ mask);
            cost.candidates += compared;
            let Some(slot) = slot else { continue };
            any = true;
            cost.verified += 1;
            let probe = before + number as u64 + 1;
            found(Hit { slot: Slot(slot as u32), distance: mask.count_ones() as u8 }, probe as u32);
            if mode == Mode::First {
                cost.probes = probe;
                break;
            }
        }
        any
    }
}

impl Buckets for Psm {
    fn tables(&self) -> &[Table] {
        std::slice::from_ref(&self.table)
    }

    fn search_radius(&self) -> u32 {
        self.params.radius
    }

    fn kernel(&self) -> Level {
        self.kernel
    }

    fn begin(&self, query: Query<'_>, course: &mut Course) {
        self.start(query, course);
    }

    #[inline]
    fn next(&self, course: &mut Course) -> Option<Probe> {
        self.next_mask(course).map(|mask| Probe { table: 0, mask })
    }

    #[inline]
    fn ask_ahead(&self, query: &Query<'_>) {
        for line in (0..BITS).step_by(64 / size_of::<f32>()) {
            prefetch::read(query.weights, line);
        }
    }

    /// A group may hold several keys; each is another probe's.
    #[inline]
    fn owns(&self, _: &Course, probe: Probe, differing: u64, _: Mode) -> bool {
        differing & self.among == probe.mask
    }
}

impl HammingIndex for Psm {
    fn name(&self) -> String {
        match self.params.flipped_bits {
            FlippedBits::All { filter_bits } => format!("psm-all-bits/{filter_bits}"),
            FlippedBits::Key { .. } => format!("psm-key-bits/{}", self.key_bits()),
        }
    }

    fn reach(&self) -> Reach<'_> {
        // Up to h flips reach every hash of the table.
        Reach { keys: &[0], flips: 0, radius: self.params.radius }
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
            + self.filter.as_ref().map_or(0, |filter| size_of_val(&filter.words[..]))
            + self.fixed.as_ref().map_or(0, |sets| size_of_val(&sets[..]))
    }

    fn answer(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        _: bool,
        scratch: &mut Scratch,
        found: &mut dyn FnMut(Match),
    ) -> Cost {
        if let FlippedBits::Key { .. } = self.params.flipped_bits {
            return scratch.answer(self, queries, mode, found);
        }
        let mut cost = Cost::default();
        for (number, &query) in (0..).zip(queries) {
            cost += self.run_equal(query, mode, scratch.course(), &mut |hit, probe| {
                found(Match { query: number, hit, probe });
            });
        }
        cost
    }
}

impl Probing for Psm {
    fn key_bits(&self) -> u32 {
        self.among.count_ones()
    }

    fn flips(&self) -> u32 {
        self.params.radius
    }

    /// The number of sets of at most h flips; of a fixed order, the sets that it has.
    fn all_probes(&self) -> u64 {
        self.fixed.as_ref().map_or_else(|| self.all_sets(), |fixed| fixed.len() as u64)
    }

    fn is_complete(&self) -> bool {
        self.all_probes() >= self.all_sets()
    }

    fn probe_of(&self, differing: u64, weights: &[f32; BITS], most: u32) -> Option<u32> {
        if differing.count_ones() > self.params.radius {
            return None;
        }
        let (wanted, most) = (differing & self.among, most as usize);
        let place = match &self.fixed {
            None => {
                let mut vosh = Vosh::default();
                vosh.start(weights, self.among, self.params.cost, 0..=self.params.radius, most);
                vosh.take(most).position(|flip| flip.mask == wanted)
            }
            Some(fixed) => {
                let order = Volatility::new(weights, self.among, self.params.cost);
                fixed.iter().take(most).position(|&ranks| order.mask(ranks) == wanted)
            }
        };
        place.map(|place| place as u32 + 1)
    }

    fn set_budget(&mut self, budget: Option<u32>) {
        self.params.budget = budget;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_all_probes() {
        let probes = |radius, flipped_bits| {
            Psm::new(&[1], PsmParams { radius, flipped_bits, ..PsmParams::default() }).unwrap().all_probes()
        };
        assert_eq!(probes(3, FlippedBits::All { filter_bits: 4 }), 1 + 64 + 2_016 + 41_664);
        assert_eq!(probes(1, FlippedBits::Key { key_bits: Some(24) }), 25);
        assert_eq!(probes(9, FlippedBits::Key { key_bits: Some(3) }), 8);
        assert_eq!(probes(64, FlippedBits::Key { key_bits: Some(64) }), u64::MAX);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let default = PsmParams::default();
        for params in [
            PsmParams { radius: 65, ..default },
            PsmParams { flipped_bits: FlippedBits::All { filter_bits: 65 }, ..default },
            PsmParams { flipped_bits: FlippedBits::Key { key_bits: Some(0) }, ..default },
            PsmParams { flipped_bits: FlippedBits::Key { key_bits: Some(65) }, ..default },
            PsmParams { cost: FlipCost::LogOdds { cot_theta: -1.0 }, ..default },
        ] {
            assert!(Psm::new(&[1], params).is_err(), "{params:?}");
        }
        assert!(Psm::new(&[1, 1], default).is_err());
    }
}
