//! The dial: one index from fast to exact. Few compact tables, each keyed on its own bits of the hash, probed
//! with at most one or two bits of the key flipped, the lowest-margin bits first. Ours, not the paper's.
//!
//! Give t tables disjoint sets of bits as keys. Of two hashes within h < t(f + 1) bits of each other, some
//! key differs in at most f bits. So probes of each key as it is, and with each set of at most f of its bits
//! flipped, find every match. For keys of p bits and one flip these are t(p + 1) probes. As every bit lies in one key
//! at most, a probe with one flip *is* a bit, and the likeliest probes are those of the lowest-margin bits. They are
//! chosen without a heap or a sort (`kernel::lowest_margin`). With two flips a probe costs the sum of both bits' |W|
//! (`kernel::flips`). A budget pays for the keys as they are, then for the likeliest flips. With a budget for all
//! probes the search is exact.
//!
//! Hashes of equal keys stand in a group. Of each hash a table holds the rest alone, its bits outside of the key, as
//! many to a cache line as fit (`kernel::packed`). The directory of a table has a cell of two bytes for each key, which
//! leads to the key's group. Slots are places in the first table.
//!
//! A probe costs two reads that no cache predicts. A query goes through three stages: choose the probes and
//! prefetch the directory; read it and prefetch the groups; compare. While one query is compared, the groups of
//! the next few and the directory entries of the few after them are on their way. Comparing makes a list of possible
//! matches, and settling makes of that a list of matches, for several queries together. Neither takes a branch
//! that depends on what is found (`kernel::kept`). The slot of a match in a later table is looked up in further stages.

mod directory;
mod engine;
mod params;
mod probes;

use rayon::prelude::*;

use super::{Cost, HammingIndex, Match, Mode, Probing, Query, Reach, Scratch};
use crate::id::Slot;
use crate::kernel::Level;
use crate::kernel::packed::{Packed, WIDTHS};
use crate::simhash::BITS;
use crate::{Error, Result};
use directory::{CELLS, Directory};
pub(super) use engine::DialScratch;
pub use params::DialParams;
pub(crate) use params::{MOST_FLIPS, MOST_TABLES, key_widths, most_hashes};
pub(crate) use probes::Probes;

/// The number by which hashes, and so slots, are ordered in the first table: the bits of `first_key`, the mask of the
/// key, above the other bits of the hash. For a key of leading bits it is the hash itself. [`Dial::new`] takes hashes
/// in this order.
pub(crate) fn order_of(hash: u64, first_key: u64) -> u64 {
    order_with(Level::in_use(), hash, first_key)
}

#[inline]
fn order_with(kernel: Level, hash: u64, key: u64) -> u64 {
    // A mask of no bits or of all is not one of a key; the shift is below 64 for all that are.
    kernel.extract(hash, key) << (!key).count_ones().min(63) | kernel.extract(hash, !key)
}

/// The dial index over distinct hashes.
#[derive(Clone, Debug)]
pub struct Dial {
    params: DialParams,
    probes: Probes,
    /// For each bit of the hash that is in a key, the number of that table, and a mask of the bit among the bits of the
    /// key alone. Bits in no key are never flipped.
    places: [(u32, u32); BITS],
    /// Cells of a table, those included that fill its last line of the directory.
    cells: u32,
    directory: Directory,
    /// The rests of all hashes in order of their keys, for one table after the other.
    rests: Packed,
    kernel: Level,
}

impl Dial {
    /// Builds the tables over `hashes`, in parallel on the current pool. The hashes must ascend strictly by the bits of
    /// the first key, then by their other bits; for default keys they must simply ascend.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning, and for hashes in another order or too many.
    pub fn new(hashes: &[u64], params: DialParams) -> Result<Self> {
        let masks = params.masks(hashes.len())?;
        if hashes.len() > most_hashes(params.tables) as usize {
            let expected = format!("fewer than 2^32 in {} tables, in one index", masks.len());
            return Err(Error::parameter("distinct hashes", hashes.len(), expected));
        }
        let kernel = Level::in_use();
        let p = masks[0].count_ones();
        let width = 64 - p;
        let cells = 1usize << p;
        let mut directory = Directory::new(masks.len(), cells);
        let mut rests = Packed::with_room(hashes.len() * masks.len(), width);
        for (t, &mask) in masks.iter().enumerate() {
            let mut sorted: Vec<u64> =
                hashes.par_iter().map(|&hash| order_with(kernel, hash, mask)).collect();
            if t > 0 {
                sorted.par_sort_unstable();
            } else if !sorted.is_sorted_by(|a, b| a < b) {
                return Err(Error::parameter(
                    "hashes",
                    "a list in another order",
                    "distinct hashes, ascending by the bits of the first key, then by the others",
                ));
            }
            directory.fill(t, cells, &sorted, width, rests.len());
            rests.extend(sorted.into_iter());
        }
        let cells = cells.next_multiple_of(CELLS) as u32;
        let flips = params.flips.unwrap_or(params.radius / params.tables);
        let mut places = [(0, 0); BITS];
        for (t, &mask) in (0..).zip(&masks) {
            for (bit, place) in (0..).zip(&mut places) {
                if mask >> bit & 1 == 1 {
                    *place = (t, 1 << (mask & ((1 << bit) - 1)).count_ones());
                }
            }
        }
        Ok(Self { params, probes: Probes::new(masks, flips), places, cells, directory, rests, kernel })
    }

    /// The parameters that the index was built with.
    #[inline]
    #[doc(hidden)]
    pub fn params(&self) -> &DialParams {
        &self.params
    }

    /// The mask of each table's key.
    #[inline]
    #[doc(hidden)]
    pub fn masks(&self) -> &[u64] {
        self.probes.masks()
    }

    /// Memory in bytes of an index over `n` hashes with keys of `key_bits` bits, if no 30 neighbouring keys have 65,535
    /// hashes or more.
    pub(crate) fn bytes_for(n: u64, tables: u32, key_bits: u32) -> u64 {
        let (cells, width) = (1u64 << key_bits.min(63), 64 - key_bits.clamp(64 - WIDTHS.end(), 32));
        let rests = Packed::bytes_for((u64::from(tables) * n) as usize, width) as u64;
        64 * u64::from(tables) * cells.div_ceil(CELLS as u64) + rests
    }

    /// True if the probes of the budget find every match.
    #[cfg(test)]
    pub(crate) fn is_exact(&self) -> bool {
        self.probes.reach(self.params.radius) && self.budget() >= self.probes.all()
    }

    /// The number of probes that a query makes.
    fn budget(&self) -> u32 {
        self.params.budget.unwrap_or(u32::MAX).min(self.probes.all())
    }

    /// The slot of a hash; none if it is not stored.
    #[doc(hidden)]
    pub fn find(&self, hash: u64) -> Option<Slot> {
        let cell = self.kernel.extract(hash, self.masks()[0]) as u32;
        self.slot(hash, self.directory.range(cell)).map(Slot)
    }

    /// The slot of a hash that stands, if it is stored, in this run of the first table.
    #[inline(always)]
    fn slot(&self, hash: u64, (start, len): (u32, u32)) -> Option<u32> {
        let rest = self.kernel.extract(hash, !self.masks()[0]);
        let run = (start as usize, len as usize);
        self.rests.find_in_ascending(run, rest).map(|position| position as u32)
    }
}

impl HammingIndex for Dial {
    fn name(&self) -> String {
        format!("dial-{}x{}/{}", self.masks().len(), self.key_bits(), self.flips())
    }

    fn reach(&self) -> Reach<'_> {
        Reach { keys: self.masks(), flips: self.flips(), radius: self.params.radius }
    }

    fn bytes(&self) -> usize {
        self.directory.bytes() + self.rests.bytes()
    }

    fn answer(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        traced: bool,
        scratch: &mut Scratch,
        found: &mut dyn FnMut(Match),
    ) -> Cost {
        self.run(queries, mode, &mut scratch.dial, |number, hit, differing| {
            let probe = traced.then(|| {
                let margins = self.kernel.margins(queries[number as usize].weights);
                self.probes.first(differing, &margins).expect("a probe has found it")
            });
            found(Match { query: number, hit, probe: probe.unwrap_or_default() });
        })
    }
}

impl Probing for Dial {
    fn key_bits(&self) -> u32 {
        self.masks()[0].count_ones()
    }

    fn flips(&self) -> u32 {
        self.probes.flips()
    }

    fn all_probes(&self) -> u64 {
        u64::from(self.probes.all())
    }

    fn is_complete(&self) -> bool {
        self.probes.reach(self.params.radius)
    }

    fn probe_of(&self, differing: u64, weights: &[f32; BITS], most: u32) -> Option<u32> {
        if differing.count_ones() > self.params.radius {
            return None;
        }
        self.probes.first(differing, &self.kernel.margins(weights)).filter(|&probe| probe <= most)
    }

    fn set_budget(&mut self, budget: Option<u32>) {
        self.params.budget = budget;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Hit;
    use super::*;
    use crate::hash::SplitMix64;
    use crate::id::Id;
    use crate::simhash::distance;
    use proptest::prelude::*;

    #[test]
    fn probes_and_exactness() {
        let index = |params| Dial::new(&[1, 5], params).unwrap();
        let two = index(DialParams { key_bits: Some(14), ..DialParams::default() });
        assert_eq!((two.all_probes(), two.is_exact()), (30, true));
        assert_eq!((two.name().as_str(), two.key_bits()), ("dial-2x14/1", 14));
        let mut set = two;
        for (budget, is_exact) in [(Some(29), false), (Some(30), true), (Some(0), false), (None, true)] {
            set.set_budget(budget);
            assert_eq!((set.is_exact(), set.params().budget), (is_exact, budget));
        }
        assert!(!index(DialParams { radius: 4, flips: Some(1), ..DialParams::default() }).is_exact());
        assert!(index(DialParams { radius: 5, ..DialParams::default() }).is_exact());
        let plain = index(DialParams { radius: 1, ..DialParams::default() });
        assert_eq!((plain.all_probes(), plain.is_exact()), (2, true));
        let four = index(DialParams { radius: 7, tables: 4, key_bits: Some(14), ..DialParams::default() });
        assert_eq!((four.all_probes(), four.is_exact()), (4 * 15, true));
        let more = DialParams { radius: 8, tables: 3, key_bits: Some(14), ..DialParams::default() };
        let mut three = index(more.clone());
        assert_eq!((three.all_probes(), three.is_exact(), three.flips()), (3 * (1 + 14 + 91), true, 2));
        three.set_budget(Some(317));
        assert!(!three.is_exact());
        assert!(!index(DialParams { flips: Some(1), ..more.clone() }).is_exact());
        assert!(!index(DialParams { radius: 9, ..more }).is_exact());
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let default = DialParams::default;
        for params in [
            DialParams { radius: 65, ..default() },
            DialParams { tables: 0, ..default() },
            DialParams { tables: 9, ..default() },
            DialParams { flips: Some(3), ..default() },
            DialParams { key_bits: Some(15), ..default() },
            DialParams { key_bits: Some(7), ..default() },
            DialParams { keys: Some(vec![]), ..default() },
            DialParams { keys: Some(vec![0xff, 0x1ff00]), ..default() },
            DialParams { keys: Some(vec![0xff, 0xff0]), ..default() },
            DialParams { keys: Some(vec![0xff, 0xff00, 0xff_0000]), ..default() },
        ] {
            assert!(Dial::new(&[1], params.clone()).is_err(), "{params:?}");
        }
        assert!(Dial::new(&[2, 1], default()).is_err());
        assert!(Dial::new(&[1, 1], default()).is_err());
    }

    #[test]
    fn bytes_are_known_before() {
        let mut rng = SplitMix64::new(5);
        let mut hashes: Vec<u64> = (0..5_000).map(|_| rng.next_u64()).collect();
        hashes.sort_unstable();
        for (tables, p) in [(1, 8), (2, 14), (3, 11)] {
            let index = Dial::new(&hashes, DialParams { tables, key_bits: Some(p), ..DialParams::default() })
                .unwrap();
            assert_eq!(index.bytes() as u64, Dial::bytes_for(5_000, tables, p));
        }
    }

    #[test]
    fn bytes_are_few() {
        let mut rng = SplitMix64::new(1);
        let mut hashes: Vec<u64> = (0..1 << 18).map(|_| rng.next_u64()).collect();
        hashes.sort_unstable();
        let bytes = |tables| {
            let index = Dial::new(&hashes, DialParams { tables, ..DialParams::default() }).unwrap();
            index.bytes() as f64 / hashes.len() as f64 / 8.0
        };
        // Keys of 16 bits save less than those of larger lists.
        assert!(bytes(1) < 0.87 && bytes(2) < 1.74, "{} {}", bytes(1), bytes(2));
    }

    #[test]
    fn a_search_for_one_match_ends_with_the_round_of_its_probe() {
        let mut rng = SplitMix64::new(2);
        let weights: [f32; BITS] = std::array::from_fn(|_| rng.unit() as f32 - 0.5);
        let stored = rng.next_u64();
        for flips in [1, 2] {
            let (radius, key_bits) = (2 * flips + 1, Some(14));
            let params = DialParams { radius, key_bits, flips: Some(flips), ..DialParams::default() };
            let index = Dial::new(&[stored], params).unwrap();
            let margins = index.kernel.margins(&weights);
            let mut scratch = Scratch::default();
            for _ in 0..300 {
                // Bits of either key, so that none finds it as it is.
                let any = (0..2 * flips).map(|at| 1 << (63 - 32 * u64::from(at % 2) - rng.below(14)));
                let differing: u64 = any.fold(0, |all, bit: u64| all | bit);
                let first = index.probes.first(differing, &margins).unwrap();
                let round = [4, 16, 64, 256].into_iter().find(|&end| end >= first).unwrap();
                let query = Query { hash: stored ^ differing, weights: &weights };
                let mut hits = Vec::new();
                let cost = index.search(query, Mode::First, &mut scratch, &mut hits);
                assert_eq!(hits, [Hit { slot: Slot(0), distance: differing.count_ones() as u8 }], "{first}");
                assert_eq!(cost.probes, u64::from(round).min(index.all_probes()), "{first}");
            }
        }
    }

    /// Disjoint masks of `p` bits, from a seed.
    fn any_keys(tables: u32, p: u32, seed: u64) -> Vec<u64> {
        let mut rng = SplitMix64::new(seed);
        let mut bits: Vec<u32> = (0..64).collect();
        for i in (1..64).rev() {
            bits.swap(i, rng.below(i as u64 + 1) as usize);
        }
        bits.chunks(p as usize)
            .take(tables as usize)
            .map(|key| key.iter().fold(0, |mask, bit| mask | 1 << bit))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_disjoint_keys_are_exact(
            seeds in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..64, Just(0), Just(!0)], 1..40),
            planted in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0u32..64, 0..9)), 0..80),
            weights in prop::array::uniform32(prop_oneof![4 => Just(0f32), 8 => -2f32..2.0, 1 => Just(f32::NAN)]),
            (tables, p) in prop::sample::select(&[(1u32, 8u32), (1, 14), (2, 13), (3, 12), (4, 14), (8, 8)][..]),
            flips in 0u32..=2, radius in 0u32..16, seed: u64, budget in 0u32..200,
        ) {
            let radius = radius.min((flips + 1) * tables - 1);
            let keys = any_keys(tables, p, seed);
            let mut hashes = seeds.clone();
            hashes.extend(planted.iter().map(|(at, bits)| bits.iter().fold(*at.get(&seeds), |hash, bit| hash ^ 1 << bit)));
            hashes.sort_unstable_by_key(|&hash| order_of(hash, keys[0]));
            hashes.dedup();
            let params = DialParams { radius, tables, flips: Some(flips), keys: Some(keys), ..DialParams::default() };
            let index = Dial::new(&hashes, params).unwrap();
            prop_assert!(index.is_exact());
            for (slot, &stored) in (0..).zip(&hashes) {
                prop_assert_eq!(index.find(stored), Some(Slot(slot)));
                let other = stored ^ 1;
                let place = hashes.iter().position(|&hash| hash == other);
                prop_assert_eq!(index.find(other), place.map(|at| Slot(at as u32)));
            }
            let mut cut = index.clone();
            cut.set_budget(Some(budget));
            let weights = std::array::from_fn(|j| weights[(j * 7) % 32]);
            let mut scratch = Scratch::default();
            for &hash in &seeds {
                let query = Query { hash, weights: &weights };
                let expected: Vec<Hit> = (0..)
                    .zip(&hashes)
                    .map(|(slot, &stored)| Hit { slot: Slot(slot), distance: distance(hash, stored) as u8 })
                    .filter(|hit| u32::from(hit.distance) <= radius)
                    .collect();
                let mut traced = Vec::new();
                let cost = index.answer(&[query], Mode::All, true, &mut scratch, &mut |found| traced.push((found.hit, found.probe)));
                prop_assert_eq!(cost.probes, index.all_probes());
                // A hash that agrees with a key but for the flips is compared once for that table.
                let met = |within: u32| -> u64 {
                    let near = hashes.iter().map(|stored| hash ^ stored).filter(|d| d.count_ones() <= within);
                    let tables = |d: u64| index.masks().iter().filter(move |&mask| (d & mask).count_ones() <= flips);
                    near.map(|differing| tables(differing).count() as u64).sum()
                };
                prop_assert_eq!((cost.candidates, cost.verified), (met(64), met(radius)));
                let mut found: Vec<Hit> = traced.iter().map(|&(hit, _)| hit).collect();
                found.sort();
                prop_assert_eq!(found, expected);
                for (hit, probe) in &traced {
                    let differing = hash ^ hashes[hit.slot.index()];
                    let margins = index.kernel.margins(&weights);
                    prop_assert_eq!(index.probes.first(differing, &margins), Some(*probe));
                }
                // A budget finds what the trace says.
                let mut hits = Vec::new();
                cut.search(query, Mode::All, &mut scratch, &mut hits);
                let mut within: Vec<Hit> = traced.iter().filter(|(_, probe)| *probe <= budget).map(|&(hit, _)| hit).collect();
                hits.sort();
                within.sort();
                prop_assert_eq!(&hits, &within);
                // The first match is one of the earliest round that has any.
                let mut first = Vec::new();
                cut.search(query, Mode::First, &mut scratch, &mut first);
                prop_assert!(first.len() == within.len().min(1) && first.iter().all(|hit| within.contains(hit)));
            }
        }
    }
}
