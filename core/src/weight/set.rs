//! The distinct features of one document, for sketches that take no counts of features: a hash table of features alone,
//! as large as the length of the document calls for.

use crate::kernel::distinct::{Distinct, SPREAD};

/// Places of the smallest table.
const LEAST: usize = 1 << 6;

/// Places of the largest table that the length of a text alone calls for; a longer one grows as features come.
const MOST: usize = 1 << 20;

/// The set of the features of one document at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeatureSet(Distinct);

impl FeatureSet {
    /// Begins a document, whose text has `text_bytes` bytes: removes all features, and chooses the size of the table.
    pub(crate) fn begin(&mut self, text_bytes: usize) {
        if self.0.places() > MOST {
            // One huge document must not keep its memory.
            self.0 = Distinct::default();
        }
        // Words have some six bytes with what parts them, so that most features have three places or more.
        self.0.clear((text_bytes / 2).next_power_of_two().clamp(LEAST, MOST));
    }

    /// Adds features; one that is there already changes nothing.
    pub(crate) fn add_all(&mut self, features: &[u64]) {
        let wanted = (self.features().len() + features.len()) * SPREAD;
        if wanted > self.0.places() {
            self.0.grow(wanted.next_power_of_two());
        }
        self.0.add_all(features);
    }

    /// The features of the document, each once, in an order that depends on the order of adding and on the length.
    pub(crate) fn features(&self) -> &[u64] {
        self.0.hashes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn sorted(set: &FeatureSet) -> Vec<u64> {
        let mut features = set.features().to_vec();
        features.sort_unstable();
        features
    }

    proptest! {
        #[test]
        fn a_set_holds_what_a_tree_holds(
            documents in prop::collection::vec(
                (prop::collection::vec(prop_oneof![0u64..9, any::<u64>(), (0u64..40).prop_map(|f| f << 58)], 0..700), 0usize..9_000),
                1..6,
            ),
            list in 1usize..300,
        ) {
            let mut set = FeatureSet::default();
            for (features, bytes) in &documents {
                set.begin(*bytes);
                features.chunks(list).for_each(|list| set.add_all(list));
                let naive: BTreeSet<u64> = features.iter().copied().collect();
                prop_assert_eq!(sorted(&set), naive.into_iter().collect::<Vec<u64>>());
            }
        }
    }

    #[test]
    fn a_huge_document_leaves_nothing_behind() {
        let mut set = FeatureSet::default();
        let mut features: Vec<u64> = (0..200_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        set.begin(1_000);
        features.chunks(1000).for_each(|list| set.add_all(list));
        features.sort_unstable();
        assert_eq!(sorted(&set), features);
        set.begin(10);
        set.add_all(&features[..9]);
        assert_eq!(sorted(&set), &features[..9]);
        assert!(set.0.places() <= MOST);
    }
}
