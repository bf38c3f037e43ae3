//! A table groups hashes by some of their bits, the key. A cell is the hashes whose keys begin with the same bits. The
//! directory has the start of every cell, and so leads to the cell of a key in one step. A cell may hold several keys.
//! Probabilistic SimHash matching (PSM) has one table. Block-permuted Hamming search (BPHS) has several, each with a
//! key of its own.

use std::ops::Range;

use crate::kernel::{huge_pages::HugeList, prefetch};
use crate::{Error, Result};

/// A cell of at most this many hashes is scanned whole. In a larger one a binary search selects the hashes of the
/// wanted key beforehand. It is left out if the directory has all bits of the key, as the cell then holds one key.
const SCAN_WHOLE: usize = 32;

/// The most runs of neighbouring bits that a key consists of.
const MAX_RUNS: usize = 4;

/// The bits of a hash that form the key of a table.
///
/// A key is a number of 64 bits, left-aligned: the runs of chosen bits are moved to the top, in their order. The table
/// stores hashes as they are, and computes their keys when it needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBits {
    mask: u64,
    /// Bits of a run, and the left rotation that brings them to their place.
    runs: [(u64, u32); MAX_RUNS],
    /// Number of runs.
    count: usize,
}

impl KeyBits {
    /// A key of the bits set in `mask`; `None` if they form more than four runs.
    pub fn new(mask: u64) -> Option<Self> {
        let mut runs = [(0, 0); MAX_RUNS];
        let mut rest = mask;
        let (mut placed, mut count) = (0, 0);
        for run in &mut runs {
            if rest == 0 {
                break;
            }
            let above = rest.leading_zeros();
            let width = (rest << above).leading_ones();
            let bits = (u64::MAX << (64 - width)) >> above;
            *run = (bits, above - placed);
            placed += width;
            rest &= !bits;
            count += 1;
        }
        (rest == 0).then_some(Self { mask, runs, count })
    }

    /// The key consists of the `bits` most significant bits; more than 64 count as 64. A table with such a key keeps
    /// the ascending order of its hashes. [`Table::find`] needs this order.
    pub fn leading(bits: u32) -> Self {
        let mask = if bits == 0 { 0 } else { u64::MAX << (64 - bits.min(64)) };
        Self { mask, runs: [(mask, 0), (0, 0), (0, 0), (0, 0)], count: usize::from(mask != 0) }
    }

    /// The mask has the chosen bits set, at their places in a hash. If PSM flips bits of the key, it flips these bits
    /// alone.
    #[inline]
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Number of chosen bits.
    pub fn len(&self) -> u32 {
        self.mask.count_ones()
    }

    /// The key of a hash, left-aligned.
    #[inline]
    pub fn of(&self, hash: u64) -> u64 {
        let runs = self.runs[..self.count].iter();
        runs.fold(0, |key, &(bits, rotation)| key | (hash & bits).rotate_left(rotation))
    }

    fn is_leading(&self) -> bool {
        self.mask.leading_ones() == self.len()
    }
}

/// Hashes in the order of their cells, with a directory over the first bits of the key.
#[derive(Clone, Debug)]
pub struct Table {
    key: KeyBits,
    hashes: HugeList<u64>,
    /// `starts[c]..starts[c + 1]` is the part of `hashes` whose keys begin with the bits `c`;
    /// 2^`cell_bits` + 1 entries.
    starts: HugeList<u32>,
    cell_bits: u32,
}

impl Table {
    /// The table groups the hashes `sorted`, which must ascend strictly. Its directory is over the first `cell_bits`
    /// bits of the key, or over all if it has fewer. The directory takes 4 bytes for each of its 2^`cell_bits` cells.
    /// Nothing else bounds `cell_bits`, so callers choose it by the number of hashes.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the list does not ascend or has 2³² entries or more.
    pub fn new(sorted: &[u64], key: KeyBits, cell_bits: u32) -> Result<Self> {
        super::check_number("hashes", sorted.len())?;
        if !sorted.is_sorted_by(|a, b| a < b) {
            return Err(Error::parameter("hashes", "an unsorted list", "distinct hashes in ascending order"));
        }
        let cell_bits = cell_bits.min(key.len());
        let mut table = Self {
            key,
            hashes: HugeList::default(),
            starts: HugeList::filled((1usize << cell_bits) + 1, 0),
            cell_bits,
        };
        for &hash in sorted {
            let cell = table.cell(hash);
            table.starts[cell + 1] += 1;
        }
        let mut sum = 0;
        for start in table.starts.iter_mut() {
            sum += *start;
            *start = sum;
        }
        if key.is_leading() {
            table.hashes = HugeList::of(sorted);
        } else {
            table.hashes = HugeList::filled(sorted.len(), 0);
            for &hash in sorted {
                let cell = table.cell(hash);
                table.hashes[table.starts[cell] as usize] = hash;
                table.starts[cell] += 1;
            }
            // Every start has moved to the end of its cell, the start of the next one.
            table.starts.copy_within(..1 << cell_bits, 1);
            table.starts[0] = 0;
            table.sort_large_cells();
        }
        Ok(table)
    }

    /// This sorts the hashes of large cells by key, if keys have bits beyond the directory's. The search in
    /// [`narrow`](Self::narrow) needs this order. In all other cells hashes keep their ascending order. A key of
    /// leading bits needs no sorting, since ascending hashes have ascending keys.
    fn sort_large_cells(&mut self) {
        if self.key.len() == self.cell_bits {
            return;
        }
        let mut rest = &mut self.hashes[..];
        for cell in self.starts.windows(2) {
            let (hashes, after) = rest.split_at_mut((cell[1] - cell[0]) as usize);
            if hashes.len() > SCAN_WHOLE {
                hashes.sort_unstable_by_key(|&hash| (self.key.of(hash), hash));
            }
            rest = after;
        }
    }

    /// The directory has this cell for a hash, stored or not. A search prefetches the cells of several probes, and then
    /// passes them to [`range_of_cell`](Self::range_of_cell).
    #[inline]
    pub fn cell(&self, hash: u64) -> usize {
        // Two shifts, since a shift by 64 has no meaning.
        (self.key.of(hash) >> 1 >> (63 - self.cell_bits)) as usize
    }

    /// All hashes, by cells. With a key of leading bits they ascend.
    #[inline]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Prefetches the directory's entry of a cell.
    #[inline]
    pub fn prefetch_cell(&self, cell: usize) {
        prefetch::read(&self.starts, cell);
    }

    /// This prefetches the first, the middle and the last hash of a range of [`hashes`](Self::hashes). A scan of the
    /// whole range reads all three, and a binary search begins in the middle. The range may be empty.
    #[inline]
    pub fn prefetch_hashes(&self, range: &Range<usize>) {
        prefetch::read(&self.hashes, range.start);
        prefetch::read(&self.hashes, range.start.midpoint(range.end));
        prefetch::read(&self.hashes, range.end.saturating_sub(1));
    }

    /// This range of [`hashes`](Self::hashes) has all that have the key of `hash`. If the cell has at most `SCAN_WHOLE`
    /// hashes, the range is the whole cell, which may hold other keys. In a larger cell the range has no other key.
    #[inline]
    pub fn range(&self, hash: u64) -> Range<usize> {
        self.range_of_cell(self.cell(hash), hash)
    }

    /// [`range`](Self::range) for a hash whose cell is known.
    #[inline]
    pub fn range_of_cell(&self, cell: usize, hash: u64) -> Range<usize> {
        let range = self.starts[cell] as usize..self.starts[cell + 1] as usize;
        if range.len() > SCAN_WHOLE && self.key.len() > self.cell_bits {
            return self.narrow(range, self.key.of(hash));
        }
        range
    }

    /// The part of a cell's range whose hashes have this key.
    #[cold]
    fn narrow(&self, range: Range<usize>, key: u64) -> Range<usize> {
        let hashes = &self.hashes[range.clone()];
        let from = hashes.partition_point(|&hash| self.key.of(hash) < key);
        let to = from + hashes[from..].partition_point(|&hash| self.key.of(hash) == key);
        range.start + from..range.start + to
    }

    /// The place is that of this hash in [`hashes`](Self::hashes), or `None` if it is not stored. The number beside it
    /// counts comparisons, for [`Cost::candidates`](super::Cost::candidates). For a scan it is exact. For a binary
    /// search of n hashes it is ⌊log₂ n⌋ + 1. Narrowing a large cell to the hashes of one key does not count.
    ///
    /// The table must have a key of leading bits.
    #[inline]
    pub fn find(&self, hash: u64) -> (Option<usize>, u64) {
        debug_assert!(self.key.is_leading());
        let range = self.range(hash);
        let hashes = &self.hashes[range.clone()];
        if hashes.len() <= SCAN_WHOLE {
            let at = hashes.iter().position(|&stored| stored >= hash);
            let compared = at.map_or(hashes.len(), |at| at + 1) as u64;
            (at.filter(|&at| hashes[at] == hash).map(|at| range.start + at), compared)
        } else {
            let steps = u64::from(usize::BITS - hashes.len().leading_zeros());
            (hashes.binary_search(&hash).ok().map(|at| range.start + at), steps)
        }
    }

    /// The table takes 8 bytes for each hash, and 4 for each of the 2^`cell_bits` + 1 entries of the directory. Unused
    /// ends of memory pages do not count.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.hashes[..]) + size_of_val(&self.starts[..])
    }
}

/// The logarithm is ⌊log₂ n⌋, and 0 for n = 0. Indexes of n hashes choose the bits of their directories and keys by it.
pub fn log2(n: usize) -> u32 {
    n.checked_ilog2().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The chosen bits gathered one by one.
    fn gather(mask: u64, hash: u64) -> u64 {
        let (mut key, mut place) = (0, 63);
        for bit in (0..64).rev().filter(|bit| mask >> bit & 1 == 1) {
            key |= (hash >> bit & 1) << place;
            place -= 1;
        }
        key
    }

    #[test]
    fn edges_of_the_key() {
        assert_eq!(KeyBits::new(0).unwrap().of(u64::MAX), 0);
        assert_eq!(KeyBits::new(u64::MAX).unwrap().of(0x1234), 0x1234);
        assert_eq!(KeyBits::leading(0), KeyBits::new(0).unwrap());
        assert_eq!(KeyBits::leading(64), KeyBits::new(u64::MAX).unwrap());
        assert_eq!(KeyBits::leading(7).mask(), 0xfe << 56);
        assert!(KeyBits::new(0b1_0101_0101).is_none());
        assert!(KeyBits::new(0b101_0101).is_some());
        assert!(Table::new(&[2, 1], KeyBits::leading(1), 1).is_err());
        assert!(Table::new(&[1, 1], KeyBits::leading(1), 1).is_err());
    }

    proptest! {
        #[test]
        fn keys_are_the_chosen_bits(cuts in prop::collection::btree_set(0u32..64, 0..8), hash: u64) {
            let cuts: Vec<u32> = cuts.into_iter().collect();
            let mask = cuts.chunks_exact(2).fold(0u64, |mask, cut| mask | ((1 << cut[1]) - (1 << cut[0])));
            let key = KeyBits::new(mask).expect("at most four runs");
            prop_assert_eq!(key.of(hash), gather(mask, hash));
            prop_assert_eq!(key.len(), mask.count_ones());
        }

        #[test]
        fn a_range_holds_whatever_agrees_in_the_key(
            low in prop::collection::btree_set(prop_oneof![0u64..200, any::<u64>()], 0..300),
            key in prop_oneof![
                (0u32..=64).prop_map(KeyBits::leading),
                Just(KeyBits::new(0x0000_0fff_0000_00f0).unwrap()),
                Just(KeyBits::new(0xff).unwrap()),
            ],
            cell_bits in 0u32..10,
            query in prop_oneof![0u64..200, any::<u64>()],
        ) {
            let sorted: Vec<u64> = low.iter().copied().collect();
            let table = Table::new(&sorted, key, cell_bits).unwrap();
            let mut stored = table.hashes().to_vec();
            stored.sort_unstable();
            prop_assert_eq!(&stored, &sorted);
            for &wanted in low.iter().chain([&query]) {
                let range = table.range(wanted);
                let inside = &table.hashes()[range.clone()];
                for hash in &sorted {
                    prop_assert!((hash ^ wanted) & key.mask() != 0 || inside.contains(hash));
                }
                // What is large is exact.
                prop_assert!(inside.len() <= SCAN_WHOLE || inside.iter().all(|h| (h ^ wanted) & key.mask() == 0));
                if key.is_leading() {
                    prop_assert_eq!(table.hashes(), &sorted[..]);
                    prop_assert_eq!(table.find(wanted).0, sorted.binary_search(&wanted).ok());
                }
            }
        }
    }
}
