//! Which hashes of a list are new? A hash table of nothing but hashes, in buckets of one cache line, which are looked
//! at whole: whether a hash is known, and where the next free place is, takes no branch that cannot be foreseen.

use super::cpu::{Isa, Level};
use super::prefetch;

/// Hashes of a bucket.
pub const PLACES: usize = 8;

/// A place that is free; no hash may be this number.
pub const FREE: u64 = 0;

/// Buckets are asked for so many hashes ahead, as the table of a long text is larger than the nearest cache.
const AHEAD: usize = 12;

/// Hashes side by side, and free places.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Bucket([u64; PLACES]);

impl Bucket {
    /// A bucket without a hash.
    pub const EMPTY: Self = Self([FREE; PLACES]);
}

impl Level {
    /// Puts hashes into a table, and those that were not there behind `distinct`, in their order. Hashes are to be
    /// evenly spread. The number of buckets is a power of two, 2 at the least, and there must be more places than
    /// there will be hashes. One level fills a table from beginning to end: another would look in other places.
    ///
    /// # Panics
    /// For another number of buckets.
    #[inline]
    pub fn add_distinct(self, table: &mut [Bucket], hashes: &[u64], distinct: &mut Vec<u64>) {
        assert!(table.len() > 1 && table.len().is_power_of_two(), "{} buckets", table.len());
        debug_assert!(!hashes.contains(&FREE));
        let known = distinct.len();
        // Each is written whether it is new or not, and counted if it is: whether it is cannot be foreseen.
        distinct.resize(known + hashes.len(), FREE);
        let new = match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 | Isa::Avx512Popcnt | Isa::Avx512Vbmi => unsafe {
                x86::avx2(table, hashes, &mut distinct[known..])
            },
            _ => portable(table, hashes, &mut distinct[known..]),
        };
        distinct.truncate(known + new);
    }
}

/// One place after the other from where the leading bits of a hash say, across buckets. `new` has as many places as
/// there are hashes. Gives the number of new ones.
fn portable(table: &mut [Bucket], hashes: &[u64], new: &mut [u64]) -> usize {
    let places = table.len() * PLACES;
    let (shift, mask) = (u64::BITS - places.trailing_zeros(), places - 1);
    let mut found = 0;
    for (next, &hash) in hashes.iter().enumerate() {
        if let Some(&next) = hashes.get(next + AHEAD) {
            prefetch::read(table, (next >> shift) as usize / PLACES);
        }
        let mut at = (hash >> shift) as usize;
        let place = loop {
            let place = &mut table[at / PLACES].0[at % PLACES];
            // One question, not two: free or taken by itself, it goes on in the same way.
            if (*place == FREE) | (*place == hash) {
                break place;
            }
            at = (at + 1) & mask;
        };
        new[found] = hash;
        found += usize::from(*place == FREE);
        *place = hash;
    }
    found
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{AHEAD, Bucket, FREE, PLACES, prefetch};
    use std::arch::x86_64::*;

    /// The bucket that the leading bits of a hash name, and those after it while they are full of others.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn avx2(table: &mut [Bucket], hashes: &[u64], new: &mut [u64]) -> usize {
        let (shift, mask) = (u64::BITS - table.len().trailing_zeros(), table.len() - 1);
        let free = _mm256_set1_epi64x(FREE as i64);
        let mut found = 0;
        for (next, &hash) in hashes.iter().enumerate() {
            if let Some(&next) = hashes.get(next + AHEAD) {
                prefetch::read(table, (next >> shift) as usize);
            }
            let wanted = _mm256_set1_epi64x(hash as i64);
            let mut at = (hash >> shift) as usize;
            let (same, frees) = loop {
                let halves = table[at & mask].0.as_chunks::<{ PLACES / 2 }>().0;
                // SAFETY: the chunk has 32 bytes, and the load may be unaligned.
                let [low, high] =
                    [0, 1].map(|half| unsafe { _mm256_loadu_si256(halves[half].as_ptr().cast()) });
                let equal = |to| {
                    let [low, high] = [low, high].map(|half| {
                        _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(half, to))) as u32
                    });
                    low | high << (PLACES / 2)
                };
                let (same, frees) = (equal(wanted), equal(free));
                if same | frees != 0 {
                    break (same, frees);
                }
                at += 1;
            };
            // Its own place if it is known, else the first that is free, without a branch between them.
            let unknown = u32::from(same == 0);
            let place = same | frees & unknown.wrapping_neg();
            table[at & mask].0[place.trailing_zeros() as usize % PLACES] = hash;
            new[found] = hash;
            found += unknown as usize;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn every_level_knows_what_a_hash_set_knows(
            lists in prop::collection::vec(
                prop::collection::vec(
                    prop_oneof![1u64..9, any::<u64>(), (1u64..40).prop_map(|f| f << 58), (1u64..40).prop_map(|f| !f)],
                    0..200,
                ),
                0..5,
            ),
            spare in 0u32..3,
        ) {
            let hashes: Vec<Vec<u64>> =
                lists.iter().map(|list| list.iter().copied().filter(|&hash| hash != FREE).collect()).collect();
            let mut known = HashSet::new();
            let naive: Vec<u64> = hashes.concat().into_iter().filter(|&hash| known.insert(hash)).collect();
            let buckets = ((naive.len() + PLACES) / PLACES).next_power_of_two().max(2) << spare;
            for level in Level::available() {
                let mut table = vec![Bucket::EMPTY; buckets];
                let mut distinct = Vec::new();
                for hashes in &hashes {
                    level.add_distinct(&mut table, hashes, &mut distinct);
                }
                prop_assert_eq!(&distinct, &naive, "{}", level.name());
            }
        }
    }
}
