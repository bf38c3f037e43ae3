//! The distinct features of one document, where nothing is counted: a table of nothing but features, as large as
//! the document calls for.

use crate::kernel::prefetch;

/// No feature; the one that has this hash is known apart.
const FREE: u64 = 0;

/// Places of the smallest table.
const LEAST: usize = 64;

/// Places of the largest table that the length of a text alone calls for; a longer one grows as features
/// come.
const MOST: usize = 1 << 16;

/// Places are asked for so many features ahead: whether a place was free cannot be foreseen, so that the
/// processor would not get far ahead by itself.
const AHEAD: usize = 12;

/// The set of a document's features, in order of first occurrence.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeatureSet {
    /// The first places are in use, a power of two; the others are left over from larger documents.
    table: Vec<u64>,
    places: usize,
    features: Vec<u64>,
    has_free: bool,
}

impl FeatureSet {
    /// Begins a document of so many bytes.
    pub(crate) fn begin(&mut self, text_bytes: usize) {
        // Words have some six bytes with what parts them, so that most features find their place free.
        self.places = (text_bytes / 4).next_power_of_two().clamp(LEAST, MOST);
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
        let places = self.places;
        if self.table.len() < places {
            self.table.resize(places, FREE);
        }
        self.table[..places].fill(FREE);
    }

    /// Adds features, some of which may be there.
    pub(crate) fn add_all(&mut self, features: &[u64]) {
        self.make_room(features.len());
        let shift = u64::BITS - self.places.trailing_zeros();
        let mask = self.places - 1;
        let table = &mut self.table[..self.places];
        let mut known = self.features.len();
        // Written whether the feature is new or not, and counted if it is: whether it is cannot be foreseen.
        self.features.resize(known + features.len(), FREE);
        for (next, &feature) in features.iter().enumerate() {
            if let Some(&next) = features.get(next + AHEAD) {
                prefetch::read(table, (next >> shift) as usize);
            }
            if feature == FREE {
                // The one feature that looks like none.
                self.features[known] = feature;
                known += usize::from(!self.has_free);
                self.has_free = true;
                continue;
            }
            // Features are hashes: the leading bits are a place.
            let mut at = (feature >> shift) as usize;
            let mut there = table[at & mask];
            // One question, not two: free or taken by itself, it goes on in the same way.
            while (there != FREE) & (there != feature) {
                at += 1;
                there = table[at & mask];
            }
            table[at & mask] = feature;
            self.features[known] = feature;
            known += usize::from(there == FREE);
        }
        self.features.truncate(known);
    }

    /// Three quarters full at most, even if all are new.
    fn make_room(&mut self, more: usize) {
        let wanted = self.features.len() + more;
        if wanted <= self.places / 4 * 3 {
            return;
        }
        while wanted > self.places / 4 * 3 {
            self.places *= 2;
        }
        self.clear();
        let (shift, mask) = (u64::BITS - self.places.trailing_zeros(), self.places - 1);
        for &feature in &self.features {
            let mut at = (feature >> shift) as usize;
            while self.table[at & mask] != FREE {
                at += 1;
            }
            self.table[at & mask] = feature;
        }
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
