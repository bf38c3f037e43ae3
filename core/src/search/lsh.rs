//! The LSH index of documents that come and go: which stored documents share a band hash, their key, with this one?
//! Ours.
//!
//! For each band there is a table from keys to the slots of documents (`search::bucket_table`). The keys are stored in
//! the tables alone: to find the keys of a slot, all tables have to be read.
//!
//! Of a key that thousands of documents share, as those of one template do, a question looks at the first and the
//! latest documents alone, [`MOST`] together. So its work for a key is bounded. It counts those that it passed over.

use super::bucket_table::{BucketTable, KeySlots};
use crate::bits::Bits;
use crate::error::{Error, Result};
use hashbrown::HashSet;
use rayon::prelude::*;

/// The most documents that a question looks at for one key.
#[doc(hidden)]
pub const MOST: usize = 256;

/// All slots are below this number.
const SLOTS: u32 = 1 << 31;

/// A growing LSH index: it finds documents by their band hashes, the keys. A slot is a number that the caller gives to
/// a document. The slot of a removed document may be given to another.
///
/// ```
/// use simflip_core::minhash::{Family, MinHashParams, MinHasher, matches};
/// use simflip_core::search::{bands::Banding, lsh::LshIndex};
/// use simflip_core::{settings::FeatureKind, sketch::FeatureExtractor};
///
/// let mut extractor = FeatureExtractor::new(FeatureKind::Words);
/// let hasher = MinHasher::new(MinHashParams { family: Family::Multiply32, ..MinHashParams::default() })?;
/// let texts = ["ships of the harbour carry grain and wine", "Ships of the harbour carry grain and oil"];
/// let [stored, asked] = texts.map(|text| {
///     let (mut features, mut signature) = (Vec::new(), vec![0; 128]);
///     extractor.extract(text, |feature| features.push(feature));
///     hasher.sign(&features, &mut signature);
///     signature
/// });
///
/// let banding = Banding::choose(128, 0.6, 0.95)?;
/// let mut index = LshIndex::new(banding.bands);
/// index.insert(0, &banding.keys(&stored).collect::<Vec<_>>())?;
/// let mut found = Vec::new();
/// index.candidates(&banding.keys(&asked).collect::<Vec<_>>(), &mut found);
/// assert_eq!(found, [0]);
/// assert!(matches(&stored, &asked) > 64, "7 of 9 words are in both");
/// # Ok::<(), simflip_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LshIndex {
    /// The slots that have a document.
    filled: Bits,
    /// The number of these slots.
    len: usize,
    tables: Vec<BucketTable>,
}

impl LshIndex {
    /// An index of no documents, for documents of `bands` keys each.
    pub fn new(bands: usize) -> Self {
        Self { filled: Bits::default(), len: 0, tables: vec![BucketTable::default(); bands] }
    }

    /// Stores a document by its keys, one for each band in order.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another number of keys, for a slot that has a document, and for slots from 2³¹ on.
    pub fn insert(&mut self, slot: u32, keys: &[u32]) -> Result<()> {
        if keys.len() != self.bands() {
            return Err(Error::parameter(
                "keys",
                keys.len(),
                format!("{} keys for each document", self.bands()),
            ));
        }
        if slot >= SLOTS {
            return Err(Error::parameter("slot", slot, "fewer than 2^31 documents in one index"));
        }
        if self.contains(slot) {
            return Err(Error::parameter("slot", slot, "one without a document"));
        }
        self.fill(slot);
        self.fetch(keys);
        for (table, &key) in self.tables.iter_mut().zip(keys) {
            table.insert(key, slot);
        }
        Ok(())
    }

    /// Removes documents; slots without one are passed over. The work is linear in the whole index.
    pub fn remove(&mut self, slots: &[u32]) {
        self.remove_known(slots.iter().map(|&slot| (slot, &[][..])));
    }

    /// Replaces the contents of `found` by the slots that share a key of the same band with `keys`, ascending and each
    /// once. Gives the number of table entries that it passed over because more than [`MOST`] slots have the key. A
    /// band without a key finds nothing.
    pub fn candidates(&self, keys: &[u32], found: &mut Vec<u32>) -> u64 {
        found.clear();
        self.fetch(keys);
        let mut passed_over = 0;
        for (table, &key) in self.tables.iter().zip(keys) {
            match table.get(key) {
                KeySlots::Oversized(slots) if slots.len() > MOST => {
                    found.extend_from_slice(&slots[..MOST / 2]);
                    found.extend_from_slice(&slots[slots.len() - MOST / 2..]);
                    passed_over += (slots.len() - MOST) as u64;
                }
                some => found.extend_from_slice(some.slots()),
            }
        }
        found.sort_unstable();
        found.dedup();
        passed_over
    }
}

#[doc(hidden)]
impl LshIndex {
    /// An index that gets all its documents at once, with these slots, from a table for each band. Each table must hold
    /// each slot once.
    pub(crate) fn of_tables(tables: Vec<BucketTable>, slots: &[u32]) -> Self {
        let mut index = Self { tables, ..Self::default() };
        slots.iter().for_each(|&slot| index.fill(slot));
        index
    }

    /// The table of a band, counted from 0, for its entries to be stored; none if there is no such band.
    pub(crate) fn table(&self, band: usize) -> Option<&BucketTable> {
        self.tables.get(band)
    }

    /// Number of keys of each document.
    pub fn bands(&self) -> usize {
        self.tables.len()
    }

    /// Number of documents stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no document is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if there is a document in a slot.
    pub fn contains(&self, slot: u32) -> bool {
        self.filled.get(u64::from(slot))
    }

    /// The keys of a document, one for each band; none if the slot has no document. The work is linear in the whole
    /// index.
    pub fn keys(&self, slot: u32) -> Option<Vec<u32>> {
        self.contains(slot).then(|| self.tables.par_iter().map(|table| table.key_of(slot)).collect())?
    }

    /// Removes documents, given by their slots and keys; slots without a document are passed over. The work is linear
    /// in these documents and in the oversized buckets that they are in. With other keys than the stored ones, or none,
    /// the documents are removed as well, but the work is that of [`remove`](Self::remove).
    pub fn remove_known<'k>(&mut self, documents: impl IntoIterator<Item = (u32, &'k [u32])>) {
        let mut gone: HashSet<u32> = HashSet::new();
        let documents = documents.into_iter().filter(|&(slot, _)| self.contains(slot) && gone.insert(slot));
        let known: Vec<(u32, &[u32])> = documents.filter(|(_, keys)| keys.len() == self.bands()).collect();
        self.tables.par_iter_mut().enumerate().for_each(|(band, table)| {
            let is_gone = |slot: u32| gone.contains(&slot);
            if table.remove(known.iter().map(|&(slot, keys)| (keys[band], slot)), is_gone) != gone.len() {
                table.sweep(is_gone);
            }
        });
        gone.iter().for_each(|&slot| self.filled.clear(u64::from(slot)));
        self.len -= gone.len();
        if self.is_empty() {
            *self = Self::new(self.bands());
        }
    }

    /// Notes that there is a document in a slot.
    fn fill(&mut self, slot: u32) {
        self.filled.reach(u64::from(slot) + 1);
        self.filled.set(u64::from(slot));
        self.len += 1;
    }

    /// Has the processor fetch the memory of these keys' entries, in all bands at once.
    #[inline]
    fn fetch(&self, keys: &[u32]) {
        self.tables.iter().zip(keys).for_each(|(table, &key)| table.prefetch(key));
        let fetched = self.tables.iter().zip(keys).fold(0, |sum, (table, &key)| sum ^ table.fetch(key));
        std::hint::black_box(fetched);
    }

    /// Memory in bytes of the tables and of the set of slots.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(BucketTable::bytes).sum::<usize>() + self.filled.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{SplitMix64, fmix64};
    use proptest::prelude::*;

    /// The definition: all stored documents in the order in which they came, each with its keys.
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

    /// Keys drawn from so many values in each band: few make oversized buckets.
    fn document(rng: &mut SplitMix64, bands: usize, values: &[u64]) -> Vec<u32> {
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
        let (mut index, mut naive) = (LshIndex::new(bands), Naive::default());
        let (mut free, mut next, mut found) = (Vec::new(), 0, Vec::new());
        for step in 0..steps {
            let keys = document(&mut rng, bands, values);
            let expected = naive.candidates(&keys);
            let passed_over = index.candidates(&keys, &mut found);
            assert_eq!((&found, passed_over), (&expected.0, expected.1));
            let slot = free.pop().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            index.insert(slot, &keys).unwrap();
            assert_eq!(index.keys(slot).as_ref(), Some(&keys));
            naive.0.push((slot, keys));
            if step % 7 == 0 {
                let mut gone: Vec<u32> =
                    (0..removed).map(|_| naive.0[rng.below(naive.0.len() as u64) as usize].0).collect();
                gone.push(next + 5);
                if step % 2 == 0 {
                    index.remove(&gone);
                } else {
                    // Now and then with other keys than those of the document.
                    let keys_of = |slot: &u32| match naive.0.iter().find(|(other, _)| other == slot) {
                        Some((_, keys)) if !slot.is_multiple_of(5) => keys.clone(),
                        _ => document(&mut SplitMix64::new(step), bands, values),
                    };
                    let known: Vec<(u32, Vec<u32>)> =
                        gone.iter().map(|slot| (*slot, keys_of(slot))).collect();
                    index.remove_known(known.iter().map(|(slot, keys)| (*slot, &keys[..])));
                }
                naive.0.retain(|(slot, _)| !gone.contains(slot));
                gone.pop();
                gone.sort_unstable();
                gone.dedup();
                assert!(gone.iter().all(|&slot| index.keys(slot).is_none()));
                free.extend(gone);
            }
            assert_eq!(index.len(), naive.0.len());
        }
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
        let mut index = LshIndex::new(3);
        for _ in 0..3 {
            for slot in 0..2_000 {
                index.insert(slot, &document(&mut rng, 3, &[1, 40, 1 << 30])).unwrap();
            }
            index.remove(&(0..2_000).collect::<Vec<_>>());
            assert!(index.is_empty());
            assert_eq!(index.bytes(), LshIndex::new(3).bytes());
        }
    }

    #[test]
    fn a_question_about_a_template_looks_at_so_many_and_no_more() {
        let mut index = LshIndex::new(15);
        let mut keys: Vec<u32> = (0..15).collect();
        for slot in 0..100_000 {
            keys[14] = slot;
            index.insert(slot, &keys).unwrap();
        }
        let mut found = Vec::new();
        let passed_over = index.candidates(&keys, &mut found);
        assert_eq!(found.len(), MOST, "the same ones in every band");
        assert_eq!(passed_over, 14 * (100_000 - MOST as u64));
        // Removing most of them goes through each oversized bucket once.
        let gone: Vec<(u32, Vec<u32>)> =
            (1..100_000).map(|slot| (slot, (0..14).chain([slot]).collect())).collect();
        index.remove_known(gone.iter().map(|(slot, keys)| (*slot, &keys[..])));
        assert_eq!((index.len(), index.keys(0)), (1, Some((0..14).chain([0]).collect())));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut index = LshIndex::new(2);
        index.insert(0, &[1, 2]).unwrap();
        assert!(index.insert(0, &[1, 2]).is_err() && index.insert(1, &[1]).is_err());
        assert!(index.insert(SLOTS, &[1, 2]).is_err());
        assert_eq!(index.len(), 1);
    }
}
