//! The distinct features of one document, where nothing is counted: a table of nothing but features, as large as
//! the document calls for.

use crate::kernel::Level;
use crate::kernel::distinct::{Bucket, FREE, PLACES};

/// Buckets of the smallest table.
const LEAST: usize = 8;

/// Buckets of the largest table that the length of a text alone calls for; a longer one grows as features
/// come.
const MOST: usize = 1 << 13;

/// The set of a document's features, in order of first occurrence.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeatureSet {
    /// The first buckets are in use, a power of two; the others are left over from larger documents.
    table: Vec<Bucket>,
    buckets: usize,
    features: Vec<u64>,
    /// Whether the feature came that looks like none in the table, where it never stands.
    has_free: bool,
}

impl FeatureSet {
    /// Begins a document of so many bytes.
    pub(crate) fn begin(&mut self, text_bytes: usize) {
        // Words have some six bytes with what parts them, so that most features find a place in their bucket.
        self.buckets = (text_bytes / 4 / PLACES).next_power_of_two().clamp(LEAST, MOST);
        if self.table.len() > MOST {
            // One huge document must not keep its memory.
            self.table = Vec::new();
            self.features = Vec::new();
        }
        self.features.clear();
        self.has_free = false;
        self.clear();
    }

    fn clear(&mut self) {
        let buckets = self.buckets;
        if self.table.len() < buckets {
            self.table.resize(buckets, Bucket::EMPTY);
        }
        self.table[..buckets].fill(Bucket::EMPTY);
    }

    /// Adds features, some of which may be there.
    pub(crate) fn add_all(&mut self, features: &[u64]) {
        self.make_room(features.len());
        let kernel = Level::in_use();
        let table = &mut self.table[..self.buckets];
        let mut rest = features;
        while let Some(at) = rest.iter().position(|&feature| feature == FREE) {
            kernel.add_distinct(table, &rest[..at], &mut self.features);
            if !self.has_free {
                self.features.push(FREE);
                self.has_free = true;
            }
            rest = &rest[at + 1..];
        }
        kernel.add_distinct(table, rest, &mut self.features);
    }

    /// Three quarters full at most, even if all are new.
    fn make_room(&mut self, more: usize) {
        let wanted = self.features.len() + more;
        if wanted <= self.buckets * PLACES / 4 * 3 {
            return;
        }
        while wanted > self.buckets * PLACES / 4 * 3 {
            self.buckets *= 2;
        }
        self.clear();
        let features = std::mem::take(&mut self.features);
        self.features.reserve(wanted);
        self.has_free = false;
        self.add_all(&features);
    }

    /// The features of the document, in order of first occurrence.
    pub(crate) fn features(&self) -> &[u64] {
        &self.features
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn a_set_holds_what_a_hash_set_holds(
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
                let mut known = HashSet::new();
                let naive: Vec<u64> = features.iter().copied().filter(|&feature| known.insert(feature)).collect();
                prop_assert_eq!(set.features(), naive);
            }
        }
    }

    #[test]
    fn a_huge_document_leaves_nothing_behind() {
        let mut set = FeatureSet::default();
        let features: Vec<u64> = (0..200_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        set.begin(1_000);
        features.chunks(1000).for_each(|list| set.add_all(list));
        assert_eq!(set.features(), features);
        set.begin(10);
        set.add_all(&features[..9]);
        assert_eq!(set.features(), &features[..9]);
        assert!(set.table.len() <= MOST && set.features.capacity() < 1_000);
    }
}
