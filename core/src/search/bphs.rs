//! Block-permuted Hamming search (Manku, Jain & Das Sarma 2007): exact, with one table per choice of blocks.
//!
//! Cut 64 bits into B blocks. Hashes within h bits of each other agree in at least B − h blocks. So one table for
//! each choice of B − h blocks, grouped by the bits of these blocks, finds every match. The 16 tables of their
//! paper cut twice: h + 1 blocks, and the bits outside of the chosen one into h + 1 blocks again.
//!
//! A directory replaces the interpolation search. A table holds the hashes as they are, grouped but not
//! permuted, so a hash is compared without being rearranged. The first table is the ascending list of hashes itself:
//! the slot of a hash is its place there. The directories of several tables, then their groups, are read together.

use serde::{Deserialize, Serialize};

use super::buckets::{Buckets, Course, Probe};
use super::table::{KeyBits, Table, log2};
use super::{Cost, HammingIndex, Match, Mode, Query, Reach, Scratch, TableSet};
use crate::hash::fmix64;
use crate::kernel::Level;
use crate::simhash::BITS;
use crate::{Error, Result};
use rayon::prelude::*;

/// The most tables of one index.
const MAX_TABLES: usize = TableSet::BITS as usize;

/// The parameters of a BPHS index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BphsParams {
    /// h: the largest distance of a match, below 64.
    pub radius: u32,
    /// Number of tables: C(B, h) for some number B > h of blocks, or (h + 1)² for the cut in two steps; at
    /// most 64. For h = 3: 4, 10, 16, 20, 35 or 56. More tables have longer keys, and so fewer candidates.
    pub tables: u32,
}

impl Default for BphsParams {
    fn default() -> Self {
        Self { radius: 3, tables: 10 }
    }
}

impl BphsParams {
    /// The usual number of tables for a radius: that of h + 2 blocks if it is at most 64, else that of h + 1 blocks.
    #[doc(hidden)]
    pub fn usual_tables(radius: u32) -> u32 {
        match (radius + 1) * (radius + 2) / 2 {
            tables @ ..=64 => tables,
            _ => radius + 1,
        }
    }

    /// The key of every table, as masks over the bits of a hash.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is no such number of tables for this radius.
    fn keys(self) -> Result<Vec<u64>> {
        let h = self.radius;
        if h >= BITS as u32 {
            return Err(Error::parameter("radius", h, "below 64"));
        }
        for blocks in h + 1..=BITS as u32 {
            match choices(blocks, h) {
                count if count == self.tables => {
                    let blocks = cut(u64::MAX, blocks);
                    return Ok(choose(&blocks, blocks.len() - h as usize));
                }
                count if count > self.tables => break,
                _ => {}
            }
        }
        if self.tables == (h + 1) * (h + 1) && self.tables as usize <= MAX_TABLES {
            let twice = |first: u64| cut(!first, h + 1).into_iter().map(move |second| first | second);
            return Ok(cut(u64::MAX, h + 1).into_iter().flat_map(twice).collect());
        }
        let mut possible: Vec<u32> = (h + 1..=BITS as u32)
            .map(|blocks| choices(blocks, h))
            .chain([(h + 1) * (h + 1)])
            .filter(|&count| count as usize <= MAX_TABLES)
            .collect();
        possible.sort_unstable();
        possible.dedup();
        let possible: Vec<String> = possible.iter().map(u32::to_string).collect();
        let expected = format!("{} for distance {h}", possible.join(" or "));
        Err(Error::parameter("tables", self.tables, expected))
    }

    /// Checks that some cut of the bits has this number of tables for this radius.
    ///
    /// # Errors
    /// [`Error::Parameter`] if none has.
    pub(crate) fn check(self) -> Result<()> {
        self.keys().map(|_| ())
    }
}

/// The keys of documents by the tables of a BPHS index, for joins without an index: SimHashes within the radius have an
/// equal key in at least one table.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct BlockKeys {
    /// The bits of each table's key.
    masks: Vec<u64>,
}

impl BlockKeys {
    /// The keys of an index with these parameters.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is no such number of tables for this radius.
    pub fn new(params: BphsParams) -> Result<Self> {
        Ok(Self { masks: params.keys()? })
    }

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.masks.len()
    }

    /// The key of a SimHash in a table, counted from 0: 32 bits of a hash of the SimHash's bits in that table's key.
    /// Unequal bits may give equal keys.
    pub fn key(&self, hash: u64, table: usize) -> u32 {
        (fmix64(hash & self.masks[table]) >> 32) as u32
    }

    /// The keys of a SimHash in all tables, in order.
    pub fn keys(&self, hash: u64) -> impl Iterator<Item = u32> {
        (0..self.tables()).map(move |table| self.key(hash, table))
    }
}

/// C(n, k), or `u32::MAX` if that is more than 64.
fn choices(n: u32, k: u32) -> u32 {
    let mut count = 1u64;
    for i in 0..u64::from(k.min(n - k)) {
        count = count * (u64::from(n) - i) / (i + 1);
        if count > MAX_TABLES as u64 {
            return u32::MAX;
        }
    }
    count as u32
}

/// Cuts the bits of `mask`, from the most significant on, into `parts` blocks whose sizes differ by at most
/// one, the larger ones first.
fn cut(mask: u64, parts: u32) -> Vec<u64> {
    let bits = mask.count_ones();
    let mut rest = mask;
    (0..parts)
        .map(|part| {
            let size = bits / parts + u32::from(part < bits % parts);
            let mut block = 0;
            for _ in 0..size {
                let highest = (1u64 << 63) >> rest.leading_zeros();
                block |= highest;
                rest ^= highest;
            }
            block
        })
        .collect()
}

/// The unions of `k` of the blocks, in lexicographic order of the choice.
fn choose(blocks: &[u64], k: usize) -> Vec<u64> {
    if k == 0 {
        return vec![0];
    }
    (0..=blocks.len() - k)
        .flat_map(|i| choose(&blocks[i + 1..], k - 1).into_iter().map(move |rest| blocks[i] | rest))
        .collect()
}

/// An index of distinct hashes by block-permuted Hamming search, or by bands of their bits (`banded`).
#[derive(Clone, Debug)]
pub struct Bphs {
    name: String,
    radius: u32,
    /// The mask of each table's key.
    keys: Vec<u64>,
    /// Table 0 has a key of leading bits: it is the ascending list in which slots are places.
    tables: Vec<Table>,
    kernel: Level,
}

impl Bphs {
    /// Builds the tables over `hashes`, which must ascend strictly, on all threads of the current pool.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning and for hashes that do not ascend.
    pub fn new(hashes: &[u64], params: BphsParams) -> Result<Self> {
        let BphsParams { radius, tables } = params;
        Self::with_keys(hashes, format!("bphs-{tables}"), radius, params.keys()?)
    }

    /// Builds a table over `hashes` for each of `keys`, masks of the bits of a key. The first must be of leading bits.
    /// `name` is that of [`HammingIndex::name`].
    ///
    /// # Errors
    /// [`Error::Parameter`] for hashes that do not ascend, and for 2³² or more.
    ///
    /// # Panics
    /// If the bits of a mask form more than four runs.
    pub(super) fn with_keys(hashes: &[u64], name: String, radius: u32, keys: Vec<u64>) -> Result<Self> {
        // Two to four hashes to a cell: a cell is one cache line, and the directory stays small beside the
        // table.
        let cell_bits = log2(hashes.len()).saturating_sub(1);
        let tables = keys
            .par_iter()
            .map(|&mask| {
                let key =
                    KeyBits::new(mask).expect("at most h + 1 or B − h runs, and 64 tables leave at most 4");
                Table::new(hashes, key, cell_bits)
            })
            .collect::<Result<_>>()?;
        Ok(Self { name, radius, keys, tables, kernel: Level::in_use() })
    }

    /// The first table in whose key two hashes with these differing bits agree.
    #[inline]
    fn first_agreeing(&self, differing: u64) -> usize {
        self.keys.iter().position(|key| differing & key == 0).unwrap_or(self.keys.len())
    }
}

impl Buckets for Bphs {
    fn tables(&self) -> &[Table] {
        &self.tables
    }

    fn search_radius(&self) -> u32 {
        self.radius
    }

    fn kernel(&self) -> Level {
        self.kernel
    }

    fn begin(&self, _: Query<'_>, _: &mut Course) {}

    #[inline]
    fn next(&self, course: &mut Course) -> Option<Probe> {
        let table = course.taken as usize;
        (table < self.tables.len()).then_some(Probe { table: table as u32, mask: 0 })
    }

    /// All tables are asked, so the first one that must find a match reports it. A search that ends with its
    /// first match takes it from wherever it turns up.
    #[inline]
    fn owns(&self, _: &Course, probe: Probe, differing: u64, mode: Mode) -> bool {
        mode == Mode::First || self.first_agreeing(differing) == probe.table as usize
    }
}

impl HammingIndex for Bphs {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn reach(&self) -> Reach<'_> {
        Reach { keys: &self.keys, flips: 0, radius: self.radius }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.keys[..]) + self.tables.iter().map(Table::bytes).sum::<usize>()
    }

    fn answer(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        _: bool,
        scratch: &mut Scratch,
        found: &mut dyn FnMut(Match),
    ) -> Cost {
        // Tables are taken in order, so a probe's number is its table's.
        scratch.answer(self, queries, mode, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hashes_within_the_radius_have_an_equal_key(
            hash: u64, radius in 0u32..4, which in 0usize..3, flips in prop::collection::vec(0u32..64, 0..4),
        ) {
            let tables = [radius + 1, (radius + 1) * (radius + 2) / 2, (radius + 1) * (radius + 1)][which];
            let keys = BlockKeys::new(BphsParams { radius, tables }).unwrap();
            let other = flips.iter().take(radius as usize).fold(hash, |hash, &bit| hash ^ 1 << bit);
            prop_assert!(keys.keys(hash).zip(keys.keys(other)).any(|(a, b)| a == b));
            // Each table looks at its own bits alone.
            for table in 0..keys.tables() {
                let flipped = hash ^ !keys.masks[table];
                prop_assert_eq!(keys.key(hash, table), keys.key(flipped, table));
            }
        }
    }

    fn sizes(params: BphsParams) -> Vec<u32> {
        let mut sizes: Vec<u32> = params.keys().unwrap().iter().map(|k| k.count_ones()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    #[test]
    fn blocks_of_the_published_layouts() {
        let blocks: Vec<u32> = cut(u64::MAX, 5).iter().map(|b| b.count_ones()).collect();
        assert_eq!(blocks, [13, 13, 13, 13, 12]);
        assert_eq!(sizes(BphsParams { radius: 3, tables: 4 }), [16]);
        assert_eq!(sizes(BphsParams { radius: 3, tables: 10 }), [25, 26]);
        assert_eq!(sizes(BphsParams { radius: 3, tables: 16 }), [28]);
        assert_eq!(sizes(BphsParams { radius: 3, tables: 20 }), [31, 32, 33]);
        assert_eq!(sizes(BphsParams { radius: 0, tables: 1 }), [64]);
        assert_eq!(sizes(BphsParams { radius: 63, tables: 64 }), [1]);
    }

    #[test]
    fn every_possible_number_of_tables_has_its_keys() {
        for radius in 0..64 {
            for tables in 1..=64 {
                let params = BphsParams { radius, tables };
                let Ok(keys) = params.keys() else { continue };
                assert_eq!(keys.len(), tables as usize, "{params:?}");
                assert!(keys.iter().all(|&k| KeyBits::new(k).is_some()), "{params:?}");
                assert_eq!(keys[0].leading_ones(), keys[0].count_ones(), "{params:?}");
                assert!(Bphs::new(&[1, 2], params).is_ok());
            }
        }
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for (radius, tables) in [(3, 0), (3, 5), (3, 55), (64, 1), (u32::MAX, 1), (9, 100), (2, 4)] {
            assert!(Bphs::new(&[1], BphsParams { radius, tables }).is_err(), "{radius} {tables}");
        }
        assert!(Bphs::new(&[2, 1], BphsParams::default()).is_err());
    }
}
