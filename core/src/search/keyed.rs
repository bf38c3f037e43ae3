//! Pages by their keys, one by one: which stored pages have a key in common with this one? What
//! [`bands::join`](super::bands::join) is for a list that is whole, for one that grows and shrinks. Ours.
//!
//! For each band there is a table from keys to the slots that have them, in 256 parts, so that no insertion
//! waits for all of a band to be laid out anew. Most keys belong to one page, whose slot stands in the table
//! itself; slots that share a key are a list.
//!
//! A key that thousands of pages share, as those of one template do, is not looked through: the first pages
//! and the latest that have it are, [`MOST`] together. A question so looks at no more than that for each of
//! its keys, whatever has been stored, and says how many it passed over.

use crate::error::{Error, Result};
use crate::hash::fmix64;
use hashbrown::{HashSet, HashTable};
use rayon::prelude::*;
use std::ops::Range;

/// Pages that a question looks at for one key: as many as [`bands::JoinParams`](super::bands::JoinParams)
/// compares in full.
pub const MOST: usize = 256;

/// Parts of a band's table: one for each first byte of a key.
const PARTS: usize = 256;

/// Marks an entry that is a list; the other bits are its place.
const LIST: u32 = 1 << 31;

/// A growing index of pages by their keys. Slots are the caller's, who may give one again that was removed.
#[derive(Clone, Debug, Default)]
pub struct Keyed {
    bands: usize,
    /// The keys of each slot, one after the other.
    keys: Vec<u32>,
    /// Whether there is a page in a slot.
    filled: Vec<bool>,
    len: usize,
    tables: Vec<Band>,
}

/// The table of a band.
#[derive(Clone, Debug)]
struct Band {
    /// By the first byte of a key; an entry is a slot or a list.
    parts: Vec<HashTable<u32>>,
    lists: Lists,
}

/// Slots of equal keys, in the order in which they came; empty where a list is not in use.
#[derive(Clone, Debug, Default)]
struct Lists {
    lists: Vec<Vec<u32>>,
    unused: Vec<u32>,
}

impl Lists {
    /// Puts a slot under an entry that has its key.
    fn push(&mut self, entry: &mut u32, slot: u32) {
        if *entry & LIST != 0 {
            return self.lists[(*entry ^ LIST) as usize].push(slot);
        }
        let place = self.unused.pop().unwrap_or_else(|| {
            self.lists.push(Vec::new());
            self.lists.len() as u32 - 1
        });
        self.lists[place as usize] = vec![*entry, slot];
        *entry = place | LIST;
    }

    /// A slot that has the key of an entry.
    #[inline]
    fn representative(&self, entry: u32) -> u32 {
        if entry & LIST == 0 { entry } else { self.lists[(entry ^ LIST) as usize][0] }
    }
}

impl Band {
    fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect(), lists: Lists::default() }
    }

    /// The table over entries that are sorted by parts, and within a part in the order in which they came: so many of
    /// each part, each a key and its slot.
    fn filled(entries: &[(u32, u32)], counts: &[usize], key_of: impl Fn(u32) -> u32) -> Self {
        let (mut lists, mut rest) = (Lists::default(), entries);
        let parts = counts.iter().map(|&count| {
            let (entries, others) = rest.split_at(count);
            rest = others;
            let mut table = HashTable::with_capacity(count);
            for &(key, slot) in entries {
                // The table tells most other keys by itself, so that few pages' keys are looked at.
                match table.find_mut(hash(key), |&entry| key_of(lists.representative(entry)) == key) {
                    Some(entry) => lists.push(entry, slot),
                    None => {
                        let hash_of = |&entry: &u32| hash(key_of(lists.representative(entry)));
                        table.insert_unique(hash(key), slot, hash_of);
                    }
                }
            }
            table
        });
        let parts = parts.collect();
        Self { parts, lists }
    }
}

/// Bands whose entries are sorted together: a page's keys stand side by side.
const TOGETHER: usize = 3;

/// The tables of some bands over slots from 0 up: whether there is a page in each, and its keys, `bands` for each slot.
fn tables(chosen: Range<usize>, bands: usize, filled: &[bool], keys: &[u32]) -> Vec<Band> {
    let mut counts = vec![[0; PARTS]; chosen.len()];
    let rows = || (0u32..).zip(keys.chunks_exact(bands)).filter(|(slot, _)| filled[*slot as usize]);
    for (_, row) in rows() {
        counts.iter_mut().zip(&row[chosen.clone()]).for_each(|(counts, &key)| counts[part(key)] += 1);
    }
    let pages: usize = counts.first().map_or(0, |counts| counts.iter().sum());
    let mut entries = vec![vec![(0, 0); pages]; chosen.len()];
    let mut next: Vec<[usize; PARTS]> = counts.clone();
    for next in &mut next {
        let mut sum = 0;
        next.iter_mut().for_each(|next| sum += std::mem::replace(next, sum));
    }
    for (slot, row) in rows() {
        for ((entries, next), &key) in entries.iter_mut().zip(&mut next).zip(&row[chosen.clone()]) {
            let at = &mut next[part(key)];
            entries[*at] = (key, slot);
            *at += 1;
        }
    }
    let band = |((entries, counts), band): ((&Vec<(u32, u32)>, &[usize; PARTS]), usize)| {
        Band::filled(entries, counts, |slot| keys[slot as usize * bands + band])
    };
    entries.iter().zip(&counts).zip(chosen).map(band).collect()
}

impl Keyed {
    /// An index of no pages, for pages of so many keys each.
    pub fn new(bands: usize) -> Self {
        Self { bands, tables: (0..bands).map(|_| Band::new()).collect(), ..Self::default() }
    }

    /// An index of many pages at once, by slots from 0 up: whether there is a page in each, and the keys, so many for
    /// each slot one after the other.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another number of keys, and for slots from 2³¹ on.
    pub fn filled(bands: usize, filled: Vec<bool>, keys: Vec<u32>) -> Result<Self> {
        if keys.len() != filled.len() * bands {
            return Err(Error::parameter("keys", keys.len(), format!("{bands} keys for each slot")));
        }
        if filled.len() > LIST as usize {
            return Err(Error::parameter("slot", filled.len(), "fewer than 2^31 pages in one index"));
        }
        let chosen: Vec<Range<usize>> =
            (0..bands).step_by(TOGETHER).map(|from| from..bands.min(from + TOGETHER)).collect();
        let tables =
            chosen.into_par_iter().flat_map_iter(|chosen| tables(chosen, bands, &filled, &keys)).collect();
        let len = filled.iter().filter(|&&filled| filled).count();
        Ok(Self { bands, keys, filled, len, tables })
    }

    /// Keys of each page.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// Number of pages stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no page is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The keys of a page that is stored.
    pub fn keys(&self, slot: u32) -> Option<&[u32]> {
        let at = slot as usize;
        self.filled.get(at).copied().unwrap_or_default().then(|| &self.keys[at * self.bands..][..self.bands])
    }

    /// Stores a page.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another number of keys, for a slot that has a page, and for slots from 2³¹ on.
    pub fn insert(&mut self, slot: u32, keys: &[u32]) -> Result<()> {
        if keys.len() != self.bands {
            return Err(Error::parameter("keys", keys.len(), format!("{} keys for each page", self.bands)));
        }
        if slot >= LIST {
            return Err(Error::parameter("slot", slot, "fewer than 2^31 pages in one index"));
        }
        let at = slot as usize;
        if self.keys(slot).is_some() {
            return Err(Error::parameter("slot", slot, "one without a page"));
        }
        if self.filled.len() <= at {
            self.filled.resize(at + 1, false);
            self.keys.resize((at + 1) * self.bands, 0);
        }
        self.keys[at * self.bands..][..self.bands].copy_from_slice(keys);
        self.filled[at] = true;
        self.len += 1;
        for (band, &key) in keys.iter().enumerate() {
            self.file(band, key, slot);
        }
        Ok(())
    }

    /// Files a slot under a key of a band.
    fn file(&mut self, band: usize, key: u32, slot: u32) {
        let Self { bands, keys, tables, .. } = self;
        let Band { parts, lists } = &mut tables[band];
        let key_of = |lists: &Lists, entry: u32| keys[lists.representative(entry) as usize * *bands + band];
        let table = &mut parts[part(key)];
        match table.find_mut(hash(key), |&entry| key_of(lists, entry) == key) {
            None => {
                table.insert_unique(hash(key), slot, |&entry| hash(key_of(lists, entry)));
            }
            Some(entry) => lists.push(entry, slot),
        }
    }

    /// Removes pages; slots without one are passed over. The work is linear in the pages and in the lists that
    /// they stand in, each of which is gone through once.
    pub fn remove(&mut self, slots: &[u32]) {
        let gone: HashSet<u32> = slots.iter().copied().filter(|&slot| self.keys(slot).is_some()).collect();
        for band in 0..self.bands {
            let mut shortened: HashSet<u32> = HashSet::new();
            for &slot in &gone {
                let key = self.keys[slot as usize * self.bands + band];
                let Self { bands, keys, tables, .. } = self;
                let Band { parts, lists } = &mut tables[band];
                // A list whose first slots are gone already is known by its last ones all the same.
                let same = |&entry: &u32| keys[lists.representative(entry) as usize * *bands + band] == key;
                let Ok(entry) = parts[part(key)].find_entry(hash(key), same) else { continue };
                if *entry.get() & LIST == 0 {
                    entry.remove();
                } else {
                    shortened.insert(*entry.get());
                }
            }
            for entry in shortened {
                self.shorten(band, entry, &gone);
            }
        }
        for &slot in &gone {
            self.filled[slot as usize] = false;
            self.keys[slot as usize * self.bands..][..self.bands].fill(0);
        }
        self.len -= gone.len();
    }

    /// Takes slots out of a list, which goes where fewer than two stay.
    fn shorten(&mut self, band: usize, entry: u32, gone: &HashSet<u32>) {
        let place = (entry ^ LIST) as usize;
        let Band { parts, lists: Lists { lists, unused } } = &mut self.tables[band];
        let key = self.keys[lists[place][0] as usize * self.bands + band];
        let left: Vec<u32> = lists[place].iter().copied().filter(|slot| !gone.contains(slot)).collect();
        let found = parts[part(key)].find_entry(hash(key), |&other| other == entry);
        match (&left[..], found) {
            ([], Ok(found)) => {
                found.remove();
            }
            (&[slot], Ok(mut found)) => *found.get_mut() = slot,
            _ => {
                lists[place] = left;
                return;
            }
        }
        lists[place] = Vec::new();
        unused.push(place as u32);
    }

    /// Writes the slots that have a key in common with these, ascending and each once, in place of what
    /// `found` holds. Gives the number of entries passed over because [`MOST`] others have the same key.
    pub fn candidates(&self, keys: &[u32], found: &mut Vec<u32>) -> u64 {
        found.clear();
        let mut passed_over = 0;
        for (band, &key) in keys.iter().enumerate().take(self.bands) {
            let Band { parts, lists } = &self.tables[band];
            let same =
                |&entry: &u32| self.keys[lists.representative(entry) as usize * self.bands + band] == key;
            match parts[part(key)].find(hash(key), same) {
                None => {}
                Some(&slot) if slot & LIST == 0 => found.push(slot),
                Some(&entry) => {
                    let list = &lists.lists[(entry ^ LIST) as usize];
                    if list.len() <= MOST {
                        found.extend_from_slice(list);
                    } else {
                        found.extend_from_slice(&list[..MOST / 2]);
                        found.extend_from_slice(&list[list.len() - MOST / 2..]);
                        passed_over += (list.len() - MOST) as u64;
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        passed_over
    }

    /// Bytes of the keys, of the tables and of the lists, as they are laid out.
    pub fn bytes(&self) -> usize {
        let band = |band: &Band| {
            let parts = band.parts.iter().map(|part| part.allocation_size() + size_of::<HashTable<u32>>());
            let lists = &band.lists.lists;
            let held = lists.iter().map(|list| list.capacity() * size_of::<u32>()).sum::<usize>();
            let unused = band.lists.unused.capacity() * size_of::<u32>();
            parts.sum::<usize>() + held + lists.capacity() * size_of::<Vec<u32>>() + unused
        };
        let keys = self.keys.capacity() * size_of::<u32>() + self.filled.capacity();
        keys + self.tables.iter().map(band).sum::<usize>()
    }
}

#[inline]
fn part(key: u32) -> usize {
    (key >> 24) as usize
}

#[inline]
fn hash(key: u32) -> u64 {
    fmix64(u64::from(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;

    /// The definition: all stored pages in the order in which they came, each with its keys.
    #[derive(Default)]
    struct Naive(Vec<(u32, Vec<u32>)>);

    impl Naive {
        fn candidates(&self, keys: &[u32]) -> (Vec<u32>, u64) {
            let (mut found, mut passed_over) = (Vec::new(), 0);
            for (band, key) in keys.iter().enumerate() {
                let with: Vec<u32> =
                    self.0.iter().filter(|(_, keys)| keys[band] == *key).map(|&(slot, _)| slot).collect();
                if with.len() > MOST {
                    found.extend(&with[..MOST / 2]);
                    found.extend(&with[with.len() - MOST / 2..]);
                    passed_over += (with.len() - MOST) as u64;
                } else {
                    found.extend(with);
                }
            }
            found.sort_unstable();
            found.dedup();
            (found, passed_over)
        }
    }

    /// Keys drawn from so many values in each band: few make crowds.
    fn page(rng: &mut SplitMix64, bands: usize, values: &[u64]) -> Vec<u32> {
        (0..bands)
            .map(|band| {
                let value = rng.below(values[band % values.len()]) as u32;
                // Some in one part of the table, some in all of them.
                if band % 2 == 0 { value } else { (fmix64(u64::from(value)) >> 32) as u32 }
            })
            .collect()
    }

    /// Inserts, removes and asks at random; slots that were removed are given again.
    fn check(seed: u64, steps: u64, bands: usize, values: &[u64], removed: u64) {
        let mut rng = SplitMix64::new(seed);
        let (mut index, mut naive) = (Keyed::new(bands), Naive::default());
        let (mut free, mut next, mut found) = (Vec::new(), 0, Vec::new());
        for step in 0..steps {
            let keys = page(&mut rng, bands, values);
            let expected = naive.candidates(&keys);
            let passed_over = index.candidates(&keys, &mut found);
            assert_eq!((&found, passed_over), (&expected.0, expected.1));
            let slot = free.pop().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            index.insert(slot, &keys).unwrap();
            assert_eq!(index.keys(slot), Some(&keys[..]));
            naive.0.push((slot, keys));
            if step % 7 == 0 {
                let mut gone: Vec<u32> =
                    (0..removed).map(|_| naive.0[rng.below(naive.0.len() as u64) as usize].0).collect();
                gone.push(next + 5);
                index.remove(&gone);
                naive.0.retain(|(slot, _)| !gone.contains(slot));
                gone.pop();
                gone.sort_unstable();
                gone.dedup();
                assert!(gone.iter().all(|&slot| index.keys(slot).is_none()));
                free.extend(gone);
            }
            assert_eq!(index.len(), naive.0.len());
        }
        // Made at once, it is the same, and goes on like the one that grew.
        let mut order: Vec<u32> = (0..next).collect();
        order.sort_by_key(|slot| naive.0.iter().position(|(other, _)| other == slot));
        let row = |slot: &u32| index.keys(*slot).map_or_else(|| vec![0; bands], <[u32]>::to_vec);
        let keys: Vec<u32> = order.iter().flat_map(row).collect();
        let filled = order.iter().map(|&slot| index.keys(slot).is_some()).collect();
        let mut again = Keyed::filled(bands, filled, keys).unwrap();
        assert_eq!(again.len(), naive.0.len());
        let naive = Naive(
            (0..).zip(&order).filter_map(|(at, &slot)| Some((at, index.keys(slot)?.to_vec()))).collect(),
        );
        let ask = |again: &Keyed, naive: &Naive, rng: &mut SplitMix64| {
            let (keys, mut found) = (page(rng, bands, values), Vec::new());
            let passed_over = again.candidates(&keys, &mut found);
            assert_eq!((found, passed_over), naive.candidates(&keys));
        };
        (0..50).for_each(|_| ask(&again, &naive, &mut rng));
        let gone: Vec<u32> = (0..next).filter(|slot| slot % 3 == 0).collect();
        again.remove(&gone);
        let naive = Naive(naive.0.into_iter().filter(|(slot, _)| slot % 3 != 0).collect());
        (0..50).for_each(|_| ask(&again, &naive, &mut rng));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn candidates_are_those_of_a_scan(
            seed: u64, bands in 0usize..6, values in prop::collection::vec(prop_oneof![Just(1u64), 2u64..6, 50u64..5_000], 1..4),
            removed in 0u64..9,
        ) {
            check(seed, 700, bands, &values, removed);
        }
    }

    #[test]
    fn everything_can_go_and_come_back() {
        let mut rng = SplitMix64::new(1);
        let mut index = Keyed::new(3);
        for _ in 0..3 {
            for slot in 0..2_000 {
                index.insert(slot, &page(&mut rng, 3, &[1, 40, 1 << 30])).unwrap();
            }
            index.remove(&(0..2_000).collect::<Vec<_>>());
            assert!(index.is_empty());
            for Band { parts, lists: Lists { lists, unused } } in &index.tables {
                assert!(parts.iter().all(HashTable::is_empty) && lists.iter().all(Vec::is_empty));
                assert_eq!(unused.len(), lists.len());
            }
        }
    }

    #[test]
    fn a_question_about_a_template_looks_at_so_many_and_no_more() {
        let mut index = Keyed::new(15);
        let mut keys: Vec<u32> = (0..15).collect();
        for slot in 0..100_000 {
            keys[14] = slot;
            index.insert(slot, &keys).unwrap();
        }
        let mut found = Vec::new();
        let passed_over = index.candidates(&keys, &mut found);
        assert_eq!(found.len(), MOST, "the same ones in every band");
        assert_eq!(passed_over, 14 * (100_000 - MOST as u64));
        // Removing all of them goes through each list once.
        index.remove(&(0..100_000).collect::<Vec<_>>());
        assert!(index.is_empty());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut index = Keyed::new(2);
        index.insert(0, &[1, 2]).unwrap();
        assert!(index.insert(0, &[1, 2]).is_err() && index.insert(1, &[1]).is_err());
        assert!(index.insert(LIST, &[1, 2]).is_err());
        assert!(Keyed::filled(2, vec![true], vec![1]).is_err());
        assert_eq!(index.len(), 1);
    }
}
