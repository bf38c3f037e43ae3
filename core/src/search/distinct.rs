//! The distinct hashes of some documents, so that identical hashes are stored and compared once.

use crate::id::{Document, Id, Lists, Slot};

/// The distinct values of a list of hashes in ascending order, and the members of each: the ids of type `K` that have
/// the hash, such as documents or texts. The slot of a hash is its place in this order.
#[derive(Clone, Debug)]
pub struct DistinctHashes<K = Document> {
    hashes: Vec<u64>,
    members: Lists<Slot, K>,
}

impl DistinctHashes {
    /// The distinct ones of `hashes`, where `hashes[i]` is the hash of document `i`.
    ///
    /// # Panics
    /// If there are 2³² hashes or more; a run is split into parts well before.
    pub fn new(hashes: &[u64]) -> Self {
        assert!(u32::try_from(hashes.len()).is_ok(), "more than 2^32 hashes in one index");
        Self::with_ids(hashes.iter().copied().zip(Document::all(hashes.len())))
    }
}

impl<K: Copy + Ord + Send> DistinctHashes<K> {
    /// The distinct hashes of a list of pairs, each of a hash and the id that has it.
    ///
    /// ```
    /// use simflip_core::search::distinct::DistinctHashes;
    ///
    /// let pages = [(0x5eed, "example.org/a"), (0x1dea, "example.org/b"), (0x5eed, "example.org/c")];
    /// let distinct = DistinctHashes::with_ids(pages);
    /// assert_eq!(distinct.hashes(), [0x1dea, 0x5eed]);
    /// assert_eq!(distinct.members(simflip_core::id::Slot(1)), ["example.org/a", "example.org/c"]);
    /// ```
    ///
    /// # Panics
    /// If there are 2³² or more; a run is split into parts well before.
    pub fn with_ids(hashed: impl IntoIterator<Item = (u64, K)>) -> Self {
        let mut order: Vec<(u64, K)> = hashed.into_iter().collect();
        rayon::slice::ParallelSliceMut::par_sort_unstable(&mut order[..]);
        let mut hashes = Vec::new();
        let mut members = Lists::with_capacity(0, order.len());
        for same in order.chunk_by(|a, b| a.0 == b.0) {
            hashes.push(same[0].0);
            members.push(same.iter().map(|&(_, member)| member));
        }
        Self { hashes, members }
    }

    /// The distinct hashes, ascending.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The hash of a slot.
    #[doc(hidden)]
    pub fn hash(&self, slot: Slot) -> u64 {
        self.hashes[slot.index()]
    }

    /// The members that have the hash of a slot, ascending.
    pub fn members(&self, slot: Slot) -> &[K] {
        self.members.get(slot)
    }

    /// The members of every slot, as lists by slot.
    #[doc(hidden)]
    pub fn groups(&self) -> &Lists<Slot, K> {
        &self.members
    }

    /// Drops the hashes, and gives the members of every slot.
    pub(crate) fn into_groups(self) -> Lists<Slot, K> {
        self.members
    }

    /// All slots, ascending.
    #[doc(hidden)]
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Slot> + use<K> {
        Slot::all(self.len())
    }

    /// Number of distinct hashes.
    #[doc(hidden)]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// True if there is no hash at all.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn everyone_is_found_under_his_hash_once(hashes in prop::collection::vec(0u64..20, 0..100)) {
            let distinct = DistinctHashes::new(&hashes);
            prop_assert!(distinct.hashes().is_sorted_by(|a, b| a < b));
            let mut seen = vec![0; hashes.len()];
            for slot in distinct.slots() {
                prop_assert!(!distinct.members(slot).is_empty());
                prop_assert!(distinct.members(slot).is_sorted());
                for &member in distinct.members(slot) {
                    prop_assert_eq!(hashes[member.index()], distinct.hash(slot));
                    seen[member.index()] += 1;
                }
            }
            prop_assert!(seen.iter().all(|&n| n == 1));
        }
    }
}
