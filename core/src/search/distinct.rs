//! Distinct hashes, each with its documents, so that identical hashes are stored and compared once.

/// The distinct values of a list of hashes in ascending order, and for each the documents that have it.
///
/// `slot` is a position in [`hashes`](Self::hashes); `documents(slot)` are positions in the original list, ascending.
#[derive(Clone, Debug, Default)]
pub struct DistinctHashes {
    hashes: Vec<u64>,
    /// `starts[s]..starts[s + 1]` is slot `s`'s part of `documents`; one entry more than `hashes`.
    starts: Vec<u32>,
    documents: Vec<u32>,
}

impl DistinctHashes {
    /// Groups `hashes[i]`, the hash of document `i`.
    ///
    /// # Panics
    /// If there are 2³² documents or more; a run is split into parts well before.
    pub fn new(hashes: &[u64]) -> Self {
        assert!(u32::try_from(hashes.len()).is_ok(), "more than 2^32 documents in one index");
        let mut order: Vec<(u64, u32)> = hashes.iter().zip(0..).map(|(&h, i)| (h, i)).collect();
        rayon::slice::ParallelSliceMut::par_sort_unstable(&mut order[..]);
        let mut distinct = Self { documents: Vec::with_capacity(order.len()), ..Self::default() };
        for (hash, document) in order {
            if distinct.hashes.last() != Some(&hash) {
                distinct.hashes.push(hash);
                distinct.starts.push(distinct.documents.len() as u32);
            }
            distinct.documents.push(document);
        }
        distinct.starts.push(distinct.documents.len() as u32);
        distinct
    }

    /// The distinct hashes, ascending.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The documents whose hash is `hashes()[slot]`, ascending.
    pub fn documents(&self, slot: u32) -> &[u32] {
        let slot = slot as usize;
        &self.documents[self.starts[slot] as usize..self.starts[slot + 1] as usize]
    }

    /// Number of distinct hashes.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there is no hash at all.
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
        fn every_document_is_found_under_its_hash_once(hashes in prop::collection::vec(0u64..20, 0..100)) {
            let distinct = DistinctHashes::new(&hashes);
            prop_assert!(distinct.hashes().is_sorted_by(|a, b| a < b));
            let mut seen = vec![0; hashes.len()];
            for slot in 0..distinct.len() as u32 {
                prop_assert!(!distinct.documents(slot).is_empty());
                prop_assert!(distinct.documents(slot).is_sorted());
                for &d in distinct.documents(slot) {
                    prop_assert_eq!(hashes[d as usize], distinct.hashes()[slot as usize]);
                    seen[d as usize] += 1;
                }
            }
            prop_assert!(seen.iter().all(|&n| n == 1));
        }
    }
}
