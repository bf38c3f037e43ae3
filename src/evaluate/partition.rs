//! A clustering gives each document the label of its cluster. It is made from pairs or from keys of the documents.
//! [`Contingency`] counts the documents that clusters of two clusterings share. Scores are computed from these counts.

use crate::clusters;
use crate::id::{Document, Id};
use hashbrown::HashMap;

/// A clustering of documents 0..n: `labels()[i]` is the cluster of document i.
///
/// The label of a cluster is its smallest document, so equal clusterings have equal labels. This clustering does not
/// change any more. [`clusters::Partition`] is the one that joins sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    labels: Vec<u32>,
}

impl Partition {
    /// `documents` clusters of one document each.
    pub fn singletons(documents: u32) -> Self {
        Self { labels: (0..documents).collect() }
    }

    /// This joins the two documents of every pair. Each connected component is a cluster.
    ///
    /// # Panics
    /// It panics if a pair has a document that is not below `documents`.
    pub fn from_pairs(documents: u32, pairs: impl IntoIterator<Item = (Document, Document)>) -> Self {
        let mut joined = clusters::Partition::singletons(documents as usize);
        for (a, b) in pairs {
            joined.join(a, b);
        }
        Self { labels: (0..documents).map(|document| joined.find(Document(document)).number()).collect() }
    }

    /// Documents with equal keys are in one cluster. The i-th key is that of document i. Keys may be the labels of
    /// another clustering, of which some documents are left out.
    pub fn from_keys<K: std::hash::Hash + Eq>(keys: impl IntoIterator<Item = K>) -> Self {
        let mut first: HashMap<K, u32> = HashMap::new();
        Self { labels: keys.into_iter().zip(0..).map(|(key, i)| *first.entry(key).or_insert(i)).collect() }
    }

    /// The cluster of every document.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Each document makes a pair with the smallest document of its cluster, which is paired with itself. The pairs are
    /// in ascending order. [`from_pairs`](Self::from_pairs) makes this clustering of them again. From the pairs of two
    /// clusterings it makes the groups that either connects.
    pub fn joins(&self) -> impl Iterator<Item = (Document, Document)> {
        Document::all(self.labels.len()).zip(self.labels.iter().copied().map(Document))
    }

    /// True if two documents are in one cluster.
    pub fn together(&self, a: Document, b: Document) -> bool {
        self.labels[a.index()] == self.labels[b.index()]
    }

    /// Entry i of the list is the number of documents in the cluster of label i. The entry is 0 if no cluster has this
    /// label. The list has an entry for each document.
    pub fn sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.labels.len()];
        for &label in &self.labels {
            sizes[label as usize] += 1;
        }
        sizes
    }
}

/// The contingency table of two clusterings of the same documents. Its cell (t, f) is the number of documents that are
/// in cluster t of the truth and in cluster f of the result. Only cells with documents are held, in ascending order.
#[derive(Clone, Debug)]
pub struct Contingency {
    /// (cluster of the truth, cluster of the result, documents in both).
    pub cells: Vec<(u32, u32, u64)>,
    /// Entry i is the number of documents in the truth's cluster of label i. It is 0 if no cluster has this label.
    pub truth: Vec<u32>,
    /// Entry i is the number of documents in the result's cluster of label i. It is 0 if no cluster has this label.
    pub found: Vec<u32>,
}

impl Contingency {
    /// The table of a truth and a result, `found`.
    ///
    /// # Panics
    /// If the two are not clusterings of equally many documents.
    pub fn new(truth: &Partition, found: &Partition) -> Self {
        assert_eq!(truth.labels.len(), found.labels.len(), "clusterings of the same documents");
        let mut both: Vec<(u32, u32)> =
            truth.labels.iter().copied().zip(found.labels.iter().copied()).collect();
        both.sort_unstable();
        let cells = both.chunk_by(PartialEq::eq).map(|same| (same[0].0, same[0].1, same.len() as u64));
        Self { cells: cells.collect(), truth: truth.sizes(), found: found.sizes() }
    }

    /// Both clusterings have this number of documents.
    pub fn documents(&self) -> u64 {
        self.truth.len() as u64
    }
}

/// There are n(n−1)/2 pairs of n documents. Scores call this with the sizes of clusters and cells, and with the number
/// of all documents.
pub fn pairs_of(n: u64) -> u64 {
    (u128::from(n) * u128::from(n.saturating_sub(1)) / 2) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn components_agree_with_spreading_labels(pairs in prop::collection::vec((0u32..30, 0u32..30), 0..40)) {
            let got = Partition::from_pairs(30, pairs.iter().map(|&(a, b)| (Document(a), Document(b))));
            let mut labels: Vec<u32> = (0..30).collect();
            for _ in 0..30 {
                for &(a, b) in &pairs {
                    let low = labels[a as usize].min(labels[b as usize]);
                    labels[a as usize] = low;
                    labels[b as usize] = low;
                }
            }
            prop_assert_eq!(got.labels(), &labels[..]);
            prop_assert_eq!(Partition::from_keys(labels.iter().map(|l| l * 7)), got);
        }

        #[test]
        fn cells_count_documents(keys in prop::collection::vec((0u8..4, 0u8..4), 0..40)) {
            let truth = Partition::from_keys(keys.iter().map(|k| k.0));
            let found = Partition::from_keys(keys.iter().map(|k| k.1));
            let table = Contingency::new(&truth, &found);
            prop_assert_eq!(table.cells.iter().map(|c| c.2).sum::<u64>(), keys.len() as u64);
            for &(t, f, n) in &table.cells {
                let same = keys.iter().filter(|&&k| k == (keys[t as usize].0, keys[f as usize].1)).count();
                prop_assert_eq!(n, same as u64);
            }
        }
    }

    #[test]
    fn numbers_of_pairs() {
        assert_eq!([0, 1, 2, 3, 1000].map(pairs_of), [0, 0, 1, 3, 499_500]);
    }
}
