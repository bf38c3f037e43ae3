//! Features as lists of 32-bit hashes: how many of them two lists share, and a table of the documents that have each.
//! Documents that a fuller one contains are found and counted by them.

use crate::kernel::prefetch;
use rayon::prelude::*;
use std::ops::Range;

/// Shortens the 64-bit hash of a feature to the 32 bits by which lists of features are compared.
pub fn feature_hash(feature: u64) -> u32 {
    (crate::hash::fmix64(feature) >> 32) as u32
}

/// The [32-bit hashes](feature_hash) of features, ascending, repeats included. It sorts by their first bits, as hashes
/// are spread evenly.
pub(crate) fn sorted_hashes(features: &[u64]) -> Vec<u32> {
    /// The most hashes that are compared one by one.
    const FEW: usize = 128;
    let mut hashes: Vec<u32> = features.iter().map(|&feature| feature_hash(feature)).collect();
    if hashes.len() < FEW {
        hashes.sort_unstable();
        return hashes;
    }
    // By the first bits in two passes, after which hardly any two neighbours change places.
    let bits = ((hashes.len().ilog2() + 4) / 2).clamp(8, 11);
    let (mut others, mut starts) = (vec![0; hashes.len()], vec![0u32; 1 << bits]);
    for shift in [u32::BITS - 2 * bits, u32::BITS - bits] {
        let digit = |hash: u32| (hash >> shift) as usize & ((1 << bits) - 1);
        starts.fill(0);
        hashes.iter().for_each(|&hash| starts[digit(hash)] += 1);
        let mut before = 0;
        starts.iter_mut().for_each(|start| before += std::mem::replace(start, before));
        for &hash in &hashes {
            let next = &mut starts[digit(hash)];
            others[*next as usize] = hash;
            *next += 1;
        }
        std::mem::swap(&mut hashes, &mut others);
    }
    let mut moves = 0;
    for from in 1..hashes.len() {
        let (hash, mut at) = (hashes[from], from);
        while at > 0 && hashes[at - 1] > hash {
            hashes[at] = hashes[at - 1];
            at -= 1;
        }
        hashes[at] = hash;
        moves += from - at;
        // Many hashes begin alike.
        if moves > 4 * hashes.len() {
            hashes.sort_unstable();
            break;
        }
    }
    hashes
}

/// The number of hashes that two ascending lists share, each as often as both have it; none if it is below `least`.
/// Most lists that are compared share too few, which shows before their ends.
pub(crate) fn shared_of(own: &[u32], mut others: &[u32], least: usize) -> Option<usize> {
    /// Steps between two looks at the number that is missing.
    const STEPS: usize = 64;
    let may_lack = own.len().checked_sub(least)?;
    if others.len() / 16 > own.len() {
        let is_shared = |hash: &&u32| {
            others = &others[others.partition_point(|other| other < *hash)..];
            let is_first = others.first() == Some(*hash);
            others = &others[usize::from(is_first)..];
            is_first
        };
        let shared = own.iter().filter(is_shared).count();
        return (shared >= least).then_some(shared);
    }
    let (mut at, mut other, mut shared) = (0, 0, 0);
    while at < own.len() && other < others.len() && at - shared <= may_lack {
        // Without a branch, as nothing foretells which of two hashes is less.
        for _ in 0..STEPS.min(own.len() - at).min(others.len() - other) {
            let (a, b) = (own[at], others[other]);
            shared += usize::from(a == b);
            at += usize::from(a <= b);
            other += usize::from(b <= a);
        }
    }
    (shared >= least).then_some(shared)
}

/// A table from hashes to the documents that have them, for many look-ups of hashes that mostly no document has.
///
/// An *entry* is a hash and the number of one document that has it; the caller may number other things than documents.
/// A *place* is the number of an entry from 0. The entries of a hash have neighbouring places.
pub(crate) struct HashTable {
    /// The entries, ascending, each hash mixed.
    entries: Vec<(u32, u32)>,
    /// Where the entries begin whose hash has these first bits.
    starts: Vec<u32>,
    shift: u32,
    /// Sixteen bits for each entry, one of which is set, by the hash before mixing. They stay in a processor's cache
    /// when entries do not. Where least hashes are entries, nearly all bits of greater ones are clear.
    filter: Vec<u64>,
    filter_shift: u32,
}

impl HashTable {
    /// Makes the table of these entries, in any order: each a hash and a document. A repeated entry counts once.
    pub fn new(mut entries: Vec<(u32, u32)>) -> Self {
        let number = entries.len().max(64).next_power_of_two().min(1 << 27);
        let (bits, filter_bits) = (number.ilog2(), number.ilog2() + 4);
        let (shift, filter_shift) = (u32::BITS - bits, u32::BITS - filter_bits);
        let mut starts = vec![0; number + 1];
        let mut filter = vec![0; number * 16 / 64];
        for (hash, _) in &mut entries {
            let bit = *hash >> filter_shift;
            filter[bit as usize / 64] |= 1 << (bit % 64);
            *hash = Self::mix(*hash);
        }
        entries.par_sort_unstable();
        entries.dedup();
        entries.iter().for_each(|&(hash, _)| starts[(hash >> shift) as usize + 1] += 1);
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        Self { entries, starts, shift, filter, filter_shift }
    }

    /// Number of entries: places are below it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Spreads hashes evenly: tables are often made of the least hashes alone.
    fn mix(hash: u32) -> u32 {
        hash.wrapping_mul(0x9e37_79b1)
    }

    /// The places of the entries of a hash; empty if there are none.
    pub fn places(&self, hash: u32) -> Range<usize> {
        if self.may_have(hash) { self.entries_of(Self::mix(hash)) } else { 0..0 }
    }

    /// Calls `each` with the [places](Self::places) of each of these hashes that has entries, in the order of `hashes`.
    /// Many are looked up at once, so that they wait for memory together.
    pub fn each_place(&self, hashes: &[u32], mut each: impl FnMut(Range<usize>)) {
        /// Hashes that are looked up at once.
        const AT_ONCE: usize = 32;
        let (mut found, mut number) = ([0; AT_ONCE], 0);
        let mut look_up = |found: &[u32]| {
            found.iter().for_each(|hash| prefetch::read(&self.starts, (hash >> self.shift) as usize));
            for hash in found {
                prefetch::read(&self.entries, self.starts[(hash >> self.shift) as usize] as usize);
            }
            found.iter().map(|&hash| self.entries_of(hash)).filter(|run| !run.is_empty()).for_each(&mut each);
        };
        for &hash in hashes {
            found[number] = Self::mix(hash);
            number += usize::from(self.may_have(hash));
            if number == AT_ONCE {
                look_up(&found);
                number = 0;
            }
        }
        look_up(&found[..number]);
    }

    /// True if a hash may have entries, by the filter; false if it has none.
    fn may_have(&self, hash: u32) -> bool {
        let bit = hash >> self.filter_shift;
        self.filter[bit as usize / 64] >> (bit % 64) & 1 == 1
    }

    /// The places of the entries of a mixed hash.
    fn entries_of(&self, hash: u32) -> Range<usize> {
        let bucket = (hash >> self.shift) as usize;
        let (from, to) = (self.starts[bucket] as usize, self.starts[bucket + 1] as usize);
        let of_bucket = &self.entries[from..to];
        let before = of_bucket.iter().take_while(|(other, _)| *other < hash).count();
        let same = of_bucket[before..].iter().take_while(|(other, _)| *other == hash).count();
        from + before..from + before + same
    }

    /// The places of all entries of a hash, from `first`, the place of its first entry.
    pub fn run(&self, first: usize) -> Range<usize> {
        let hash = self.entries[first].0;
        first..first + self.entries[first..].iter().take_while(|(other, _)| *other == hash).count()
    }

    /// For each hash the place of its first entry and its documents, by ascending place.
    pub fn runs(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = u32>)> {
        let mut first = 0;
        self.entries.chunk_by(|a, b| a.0 == b.0).map(move |run| {
            let at = first;
            first += run.len();
            (at, run.iter().map(|&(_, document)| document))
        })
    }

    /// The documents of the entries at these places.
    pub fn documents(&self, places: Range<usize>) -> impl Iterator<Item = u32> {
        self.entries[places].iter().map(|&(_, document)| document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn lists_share_what_sets_share(a in prop::collection::btree_set(0u32..400, 0..90), b in prop::collection::btree_set(0u32..400, 0..90)) {
            let [x, y]: [Vec<u32>; 2] = [&a, &b].map(|set| set.iter().copied().collect());
            let few: Vec<u32> = x.iter().copied().take(2).collect();
            for own in [&x, &few] {
                let shared = own.iter().filter(|hash| b.contains(hash)).count();
                for least in 0..own.len() + 2 {
                    prop_assert_eq!(shared_of(own, &y, least), (shared >= least).then_some(shared));
                }
            }
        }

        #[test]
        fn a_table_knows_the_documents_of_each_hash(entries in prop::collection::vec((0u32..300, 0u32..9), 0..200)) {
            let table = HashTable::new(entries.clone());
            for hash in 0..300 {
                let naive: BTreeSet<u32> = entries.iter().filter(|&&(of, _)| of == hash).map(|&(_, document)| document).collect();
                prop_assert!(table.documents(table.places(hash)).eq(naive));
            }
            let hashes: Vec<u32> = (0..300).rev().collect();
            let mut places = Vec::new();
            table.each_place(&hashes, |some| places.push(some));
            let each = hashes.iter().map(|&hash| table.places(hash)).filter(|places| !places.is_empty());
            prop_assert!(each.eq(places));
        }

        #[test]
        fn hashes_are_sorted(features in prop::collection::vec(any::<u64>(), 0..2_000), alike: bool) {
            // Some that begin alike, one after the other and mixed.
            let begins_alike = |feature: &u64| feature_hash(*feature) >> 20 == 77;
            let features = if alike { (0..2_000_000).filter(begins_alike).chain(features).collect() } else { features };
            let mut expected: Vec<u32> = features.iter().map(|&feature| feature_hash(feature)).collect();
            expected.sort_unstable();
            prop_assert_eq!(sorted_hashes(&features), expected);
        }
    }
}
