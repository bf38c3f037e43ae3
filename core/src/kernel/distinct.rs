//! A set of hashes: a list in which each stands once, and a hash table of indexes into that list. An entry of the table
//! has two bytes as long as these suffice, so that the table of a common document fits in the nearest cache. No branch
//! of the loop depends on its data: a hash whose place in the table another one has is put off to the end of its list.

use std::hint::select_unpredictable;

/// The least number of places of a table for each hash. In a fuller table more hashes would be put off.
pub const SPREAD: usize = 2;

/// The most places of a table whose entries have two bytes. It takes [`SPREAD`] times fewer hashes.
const NARROW: usize = 1 << 16;

/// The hash at index 0 of the list, which belongs to no entry.
const NOBODY: u64 = 0;

/// A set of 64-bit hashes, whose table the caller enlarges ([`grow`](Self::grow)).
#[derive(Clone, Debug)]
pub struct Distinct {
    /// The table of at most [`NARROW`] places, and that of more. The first `places` are in use, a power of two; the
    /// others are left over from larger lists. Each is 0, which is free, or a number below that of `hashes`.
    narrow: Vec<u16>,
    wide: Vec<u32>,
    places: usize,
    /// The first `count` are known, behind one that stands for no hash; the others are room.
    hashes: Vec<u64>,
    count: usize,
    waiting: Vec<u64>,
}

impl Default for Distinct {
    fn default() -> Self {
        Self {
            narrow: vec![0; 2],
            wide: Vec::new(),
            places: 2,
            hashes: vec![NOBODY],
            count: 1,
            waiting: Vec::new(),
        }
    }
}

impl Distinct {
    /// Removes all hashes, and gives the table `places` places: a power of two from 2 to 2³¹.
    ///
    /// # Panics
    /// For another number of places.
    pub fn clear(&mut self, places: usize) {
        assert!(places > 1 && places.is_power_of_two() && places <= 1 << 31, "{places} places");
        match places <= NARROW {
            true => clear(&mut self.narrow, places),
            false => clear(&mut self.wide, places),
        }
        self.places = places;
        self.count = 1;
    }

    /// Puts the hashes of the set into a table of `places` places.
    ///
    /// # Panics
    /// As [`clear`](Self::clear) and [`add_all`](Self::add_all) do.
    pub fn grow(&mut self, places: usize) {
        let known = std::mem::replace(&mut self.hashes, vec![NOBODY]);
        let count = self.count;
        self.clear(places);
        self.add_all(&known[1..count]);
    }

    /// The number of places of the table.
    pub fn places(&self) -> usize {
        self.places
    }

    /// The hashes, each once. Their order depends on the order of adding and on the size of the table.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes[1..self.count]
    }

    /// Adds hashes; one that is there already changes nothing. Their highest bits choose the places, so these should be
    /// random.
    ///
    /// # Panics
    /// If the table would have fewer than [`SPREAD`] places a hash if all of them were new.
    pub fn add_all(&mut self, hashes: &[u64]) {
        let (places, count) = (self.places, self.count);
        assert!((count + hashes.len()) * SPREAD <= places + SPREAD, "{count} and {} hashes", hashes.len());
        let (known, waiting) = (&mut self.hashes, &mut self.waiting);
        self.count = match places <= NARROW {
            true => add_all(&mut self.narrow[..places], known, waiting, count, hashes),
            false => add_all(&mut self.wide[..places], known, waiting, count, hashes),
        };
    }
}

/// A number below that of the hashes a table takes.
trait EntryIndex: Copy + Default {
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

impl EntryIndex for u16 {
    #[inline(always)]
    fn new(index: usize) -> Self {
        index as Self
    }

    #[inline(always)]
    fn index(self) -> usize {
        self.into()
    }
}

impl EntryIndex for u32 {
    #[inline(always)]
    fn new(index: usize) -> Self {
        index as Self
    }

    #[inline(always)]
    fn index(self) -> usize {
        self as usize
    }
}

/// Frees `places` places, old and new ones, by writing to them. The system gives memory out twice that is read first
/// and written to later, and the second time all threads wait.
fn clear<E: EntryIndex>(table: &mut Vec<E>, places: usize) {
    let old = table.len().min(places);
    table[..old].fill(E::default());
    table.resize(table.len().max(places), E::default());
}

/// Adds hashes to the `count` that are known in a table that has room for them. Returns the new count.
fn add_all<E: EntryIndex>(
    table: &mut [E],
    known: &mut Vec<u64>,
    waiting: &mut Vec<u64>,
    mut count: usize,
    hashes: &[u64],
) -> usize {
    let (mask, shift) = (table.len() - 1, u64::BITS - table.len().trailing_zeros());
    // Each is written in both lists, and counted where it belongs.
    for (list, length) in [(&mut *known, count + hashes.len()), (&mut *waiting, hashes.len())] {
        if list.len() < length {
            list.resize(length, NOBODY);
        }
    }
    let mut put_off = 0;
    for &hash in hashes {
        let at = (hash >> shift) as usize;
        // SAFETY: a number of as many bits as the table has places for is one of its places.
        let place = unsafe { table.get_unchecked_mut(at) };
        let index = place.index();
        // SAFETY: what stands in the table is less than `count`, and both counts have risen by less than the
        // number of hashes, by which both lists are longer than they were.
        unsafe {
            let (free, same) = (index == 0, *known.get_unchecked(index) == hash);
            *known.get_unchecked_mut(count) = hash;
            *place = E::new(select_unpredictable(free, count, index));
            count += usize::from(free);
            *waiting.get_unchecked_mut(put_off) = hash;
            put_off += usize::from(!free & !same);
        }
    }
    for &hash in &waiting[..put_off] {
        let mut at = (hash >> shift) as usize;
        let index = loop {
            at = (at + 1) & mask;
            let index = table[at].index();
            if index == 0 || known[index] == hash {
                break index;
            }
        };
        if index == 0 {
            known[count] = hash;
            table[at] = E::new(count);
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::fmix64;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "takes very long there")]
        fn hashes_are_known_as_a_hash_set_knows_them(
            documents in prop::collection::vec(
                prop::collection::vec(
                    prop::collection::vec(
                        prop_oneof![0u64..9, any::<u64>(), (0u64..40).prop_map(|f| f << 58), (0u64..40).prop_map(|f| !f)],
                        0..200,
                    ),
                    0..5,
                ),
                1..4,
            ),
            spare in 0u32..3,
        ) {
            let mut distinct = Distinct::default();
            for lists in &documents {
                let all: usize = lists.iter().map(Vec::len).sum();
                distinct.clear((all * SPREAD).next_power_of_two().max(2) << spare);
                let mut naive = HashSet::new();
                for list in lists {
                    distinct.add_all(list);
                    naive.extend(list);
                    prop_assert_eq!(distinct.hashes().len(), naive.len());
                    prop_assert_eq!(&distinct.hashes().iter().copied().collect::<HashSet<u64>>(), &naive);
                }
                let few = distinct.clone();
                distinct.grow(2 * few.places());
                prop_assert_eq!(distinct.hashes().iter().collect::<HashSet<_>>(), few.hashes().iter().collect());
            }
        }
    }

    #[test]
    fn full_tables_of_two_bytes_and_of_four() {
        let mut distinct = Distinct::default();
        // Miri is slow, and watches the same code in a table of any size.
        let narrow = if cfg!(miri) { 1 << 8 } else { NARROW };
        for places in [narrow, 2 * narrow, narrow] {
            let hashes: Vec<u64> = (0..(places / SPREAD) as u64).map(fmix64).collect();
            distinct.clear(places);
            distinct.add_all(&hashes);
            assert!(distinct.hashes().iter().collect::<HashSet<_>>() == hashes.iter().collect());
            distinct.grow(2 * places);
            distinct.add_all(&hashes[hashes.len() / 2..]);
            assert!(distinct.hashes().len() == hashes.len());
            assert!(distinct.hashes().iter().collect::<HashSet<_>>() == hashes.iter().collect());
        }
    }

    #[test]
    #[should_panic(expected = "hashes")]
    fn a_table_that_is_too_small_takes_none() {
        Distinct::default().add_all(&[1, 2]);
    }
}
