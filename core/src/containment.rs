//! Removes documents that a fuller one contains, of any sizes: it has nearly all of their features.
//!
//! Band hashes find sets of similar size. So a short document in a long one is found in another way, once
//! near-duplicates are removed ([`buckets`](crate::buckets)):
//!
//! 1. Each document that is left has [`KEYS`] features with the least hashes for its keys, a bottom-k sketch (Broder
//!    1997). The keys are looked up among *all* features of the other documents that are left. Keys that more than
//!    [`COMMON`] of these have are passed over.
//! 2. At most [`CANDIDATES`] documents that come before it in keep order and share the most keys are its candidates, if
//!    the share of keys is compatible with the threshold.
//! 3. The features of the document that each candidate has are counted. A sample proposes; it never decides.
//!
//! A document that represents others is removed only if its leader contains all of these as well, which it represents
//! from then on.

use crate::bits::Bits;
use crate::buckets::{Assignments, Edge, Statistics};
use crate::id::{Id, Rank};
use crate::lists::{HashTable, shared_of};
use crate::recall_estimate::{RecallEstimate, Removed};
use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The number of least feature hashes that a document is looked up by: its keys.
pub const KEYS: usize = 32;

/// The most documents that a key may be a feature of; a key of more documents is passed over.
pub const COMMON: u32 = 64;

/// The most candidates that a document is compared with.
pub const CANDIDATES: usize = 16;

/// Documents whose keys are looked up at once, at most.
const AT_ONCE: usize = 1 << 18;

/// The fewest documents that are sampled.
const LEAST_SAMPLED: usize = 256;

/// Further documents are sampled while those sampled have at most one in this number of all features.
const SAMPLED_OF: u64 = 12;

/// The number of their features that any run has time for.
const FREE: u64 = 1 << 20;

/// A document with a hash of each of its features, ascending.
pub type Listed<'a> = (Rank, &'a [u32]);

/// A store of documents, each with a 32-bit hash of each of its features, in memory or on disk.
pub trait FeatureLists: Sync {
    /// The error of reading.
    type Error: Send;
    /// Documents whose hashes are in memory.
    type Held<'a>: FeatureHashes
    where
        Self: 'a;

    /// Number of all documents, compared or not. Ranks are below it.
    fn ranks(&self) -> usize;

    /// Calls `each` with all documents that are compared with others, some at a time and in any order, each with its
    /// feature hashes, ascending. Documents without a sketch, and exact duplicates of others, are not among them.
    ///
    /// # Errors
    /// If they cannot be read.
    fn each_list(&self, each: &mut dyn FnMut(&[Listed<'_>])) -> Result<(), Self::Error>;

    /// Loads the feature hashes of the documents whose bits are set.
    ///
    /// # Errors
    /// If they cannot be read.
    fn lists(&self, ranks: &Bits) -> Result<Self::Held<'_>, Self::Error>;

    /// The number of feature hashes that may be in memory at once.
    fn hashes_at_once(&self) -> usize;
}

/// Some documents, whose feature hashes are in memory.
pub trait FeatureHashes: Sync {
    /// The feature hashes of a document, ascending.
    fn list(&self, rank: Rank) -> &[u32];

    /// The hash of a document ([`Two::hash`](crate::collection::Two::hash)), for the distance of an edge.
    fn hash(&self, rank: Rank) -> u64;
}

/// A document and one that may contain it.
type RankPair = (Rank, Rank);

/// Documents that are left, with the number of features of each; 0 for all others.
struct Left<'a, S> {
    store: &'a S,
    sizes: Vec<u32>,
    threshold: f64,
}

impl<'a, S: FeatureLists> Left<'a, S> {
    fn new(store: &'a S, assignments: &Assignments, threshold: f32) -> Result<Self, S::Error> {
        let mut sizes = vec![0; store.ranks()];
        store.each_list(&mut |batch| {
            for (rank, list) in batch.iter().filter(|(rank, _)| assignments.is_kept(*rank)) {
                sizes[rank.index()] = list.len() as u32;
            }
        })?;
        Ok(Self { store, sizes, threshold: f64::from(threshold) })
    }

    fn is_left(&self, rank: Rank) -> bool {
        self.sizes[rank.index()] > 0
    }

    fn size(&self, rank: Rank) -> usize {
        self.sizes[rank.index()] as usize
    }

    /// The number of features of a document of this size that another one must have to contain it.
    fn needed(&self, size: usize) -> usize {
        (self.threshold * size as f64).ceil() as usize
    }

    /// The candidates of some documents, which ascend.
    fn candidates(&self, queries: &[Rank]) -> Result<Vec<RankPair>, S::Error> {
        let mut own: Vec<(u32, u32)> = Vec::with_capacity(queries.len() * KEYS);
        self.store.each_list(&mut |batch| {
            for &(rank, list) in batch {
                if queries.binary_search(&rank).is_ok() {
                    own.extend(list.iter().take(KEYS).map(|&hash| (hash, rank.number())));
                }
            }
        })?;
        let table = HashTable::new(own);
        // A key is known by the place of its first entry.
        let having: Vec<AtomicU32> = (0..table.len()).map(|_| AtomicU32::new(0)).collect();
        let mut postings: Vec<u64> = Vec::new();
        self.store.each_list(&mut |batch| {
            let of = |batch: &[Listed<'_>]| {
                let mut postings = Vec::new();
                for &(rank, list) in batch.iter().filter(|(rank, _)| self.is_left(*rank)) {
                    table.each_place(list, |key| {
                        let having = &having[key.start];
                        // Once a key is common it is only read.
                        if having.load(Ordering::Relaxed) <= COMMON {
                            having.fetch_add(1, Ordering::Relaxed);
                            postings.push((key.start as u64) << 32 | u64::from(rank.number()));
                        }
                    });
                }
                postings
            };
            let parts: Vec<Vec<u64>> = batch.par_chunks(1 << 9).map(of).collect();
            parts.into_iter().for_each(|part| postings.extend(part));
        })?;
        let having: Vec<u32> = having.into_iter().map(AtomicU32::into_inner).collect();
        let is_shared = |key: u32| (2..=COMMON).contains(&having[key as usize]);
        // How many keys of each document are not common, and those that other documents have.
        let mut usable = vec![0u8; self.sizes.len()];
        let mut by_query = Vec::new();
        for (key, ranks) in table.runs() {
            for rank in ranks {
                usable[rank as usize] += u8::from(having[key] <= COMMON);
                if is_shared(key as u32) {
                    by_query.push((Rank::new(rank), key as u32));
                }
            }
        }
        drop(table);
        by_query.par_sort_unstable();
        postings.retain(|posting| is_shared((posting >> 32) as u32));
        postings.par_sort_unstable();
        postings.dedup();
        // The documents of a key begin at its place in `starts`.
        let mut starts = vec![0; having.len() + 1];
        postings.iter().for_each(|posting| starts[(posting >> 32) as usize + 1] += 1);
        (1..starts.len()).for_each(|slot| starts[slot] += starts[slot - 1]);
        let of_query = |keys: &[(Rank, u32)]| {
            let (query, mut met) = (keys[0].0, Vec::new());
            for slot in keys.iter().map(|&(_, slot)| slot as usize) {
                let documents = &postings[starts[slot]..starts[slot + 1]];
                met.extend(
                    documents.iter().map(|&posting| posting as u32).filter(|&rank| rank < query.number()),
                );
            }
            met.sort_unstable();
            let least = self.least_shared(usable[query.index()]);
            let needed = self.needed(self.size(query));
            let mut found: Vec<(Reverse<usize>, Rank)> = met
                .chunk_by(|a, b| a == b)
                .map(|same| (Reverse(same.len()), Rank::new(same[0])))
                .filter(|&(Reverse(keys), rank)| keys as f64 >= least && self.size(rank) >= needed)
                .collect();
            found.sort_unstable();
            found.truncate(CANDIDATES);
            found.into_iter().map(move |(_, rank)| (query, rank)).collect::<Vec<_>>()
        };
        let lists: Vec<&[(Rank, u32)]> = by_query.chunk_by(|a, b| a.0 == b.0).collect();
        Ok(lists.into_par_iter().flat_map_iter(of_query).collect())
    }

    /// The least number of a document's `keys` keys that one that contains it has: three standard deviations below the
    /// expectation.
    fn least_shared(&self, keys: u8) -> f64 {
        let (keys, share) = (f64::from(keys), self.threshold);
        (keys * share - 3.0 * (keys * share * (1.0 - share)).sqrt()).max(1.0)
    }

    /// Counts the features that the documents of each pair share. Gives, by pair, an edge if the second document
    /// contains the first. `size` gives the number of features of a document.
    fn count(
        &self,
        pairs: &[RankPair],
        size: &(dyn Fn(Rank) -> usize + Sync),
    ) -> Result<Vec<Option<Edge>>, S::Error> {
        let (mut edges, mut from) = (Vec::with_capacity(pairs.len()), 0);
        while from < pairs.len() {
            let (mut ranks, mut held, mut to) = (Bits::new(self.sizes.len() as u64), 0, from);
            for &(document, other) in &pairs[from..] {
                let new = [document, other].into_iter().filter(|rank| !ranks.get(u64::from(rank.number())));
                held += new.map(size).sum::<usize>();
                if to > from && held > self.store.hashes_at_once() {
                    break;
                }
                [document, other].iter().for_each(|rank| ranks.set(u64::from(rank.number())));
                to += 1;
            }
            let lists = self.store.lists(&ranks)?;
            let edge = |&(document, leader): &RankPair| {
                let (own, others) = (lists.list(document), lists.list(leader));
                let shared = shared_of(own, others, self.needed(own.len()).max(1))?;
                let similarity = (shared as f64 / own.len().min(others.len()).max(1) as f64) as f32;
                let distance = (lists.hash(document) ^ lists.hash(leader)).count_ones() as u8;
                Some(Edge { document, leader, similarity, distance, decides: true })
            };
            edges.par_extend(pairs[from..to].par_iter().map(edge));
            from = to;
        }
        Ok(edges)
    }
}

/// Removes kept documents of which a candidate, earlier and kept, has a share of the features of at least `threshold`.
/// Reference documents stay. `assignments` are those of near-duplicates, and change. Gives the edge of each pair that
/// was found contained, sorted by document and leader, and the counts of comparisons.
///
/// # Errors
/// If the store cannot be read.
pub fn remove<S: FeatureLists>(
    store: &S,
    threshold: f32,
    assignments: &mut Assignments,
) -> Result<(Vec<Edge>, Statistics), S::Error> {
    let left = Left::new(store, assignments, threshold)?;
    let is_query = |rank: &Rank| left.is_left(*rank) && !assignments.is_reference(*rank);
    let queries: Vec<Rank> = Rank::all(store.ranks()).filter(is_query).collect();
    let (mut edges, mut statistics) = (Vec::new(), Statistics::default());
    let mut count = |pairs: &[RankPair], size: &(dyn Fn(Rank) -> usize + Sync)| {
        let counted = left.count(pairs, size)?;
        statistics.compared += counted.len() as u64;
        statistics.refused += counted.iter().filter(|edge| edge.is_none()).count() as u64;
        Ok::<_, S::Error>(counted)
    };
    let at_once = (store.hashes_at_once() / (4 * KEYS)).clamp(1 << 10, AT_ONCE);
    for queries in queries.chunks(at_once) {
        let pairs = left.candidates(queries)?;
        edges.extend(count(&pairs, &|rank| left.size(rank))?.into_iter().flatten());
    }
    // Those that a document represents have to be contained as well.
    let representing: HashSet<Rank> =
        edges.iter().map(|edge| edge.document).filter(|&rank| assignments.represents(rank)).collect();
    let mut represented: HashMap<Rank, Vec<Rank>> = HashMap::new();
    for rank in Rank::all(store.ranks()).filter(|&rank| !assignments.is_kept(rank)) {
        if representing.contains(&assignments.leader(rank)) {
            represented.entry(assignments.leader(rank)).or_default().push(rank);
        }
    }
    let of = |rank: Rank| represented.get(&rank).map_or(&[][..], Vec::as_slice);
    let pairs: Vec<RankPair> = edges
        .iter()
        .flat_map(|edge| of(edge.document).iter().map(|&document| (document, edge.leader)))
        .collect();
    // Near-duplicates are of the size of the document that represents them.
    let size = |rank: Rank| match left.size(rank) {
        0 => left.size(assignments.leader(rank)),
        size => size,
    };
    let counted = count(&pairs, &size)?;
    let contained: HashMap<RankPair, Edge> =
        counted.into_iter().flatten().map(|edge| ((edge.document, edge.leader), edge)).collect();
    // The best leader first.
    edges.sort_unstable_by(|a, b| {
        a.document.cmp(&b.document).then(b.similarity.total_cmp(&a.similarity)).then(a.leader.cmp(&b.leader))
    });
    for of_document in edges.chunk_by(|a, b| a.document == b.document) {
        for edge in of_document.iter().filter(|edge| left.is_left(edge.leader)) {
            let others: Option<Vec<Edge>> = of(edge.document)
                .iter()
                .map(|&document| contained.get(&(document, edge.leader)).copied())
                .collect();
            let Some(others) = others.filter(|_| assignments.is_kept(edge.leader)) else { continue };
            assignments.remove(*edge);
            others.into_iter().for_each(|edge| assignments.remove(edge));
            break;
        }
    }
    edges.extend(contained.into_values());
    edges.sort_unstable_by_key(|edge| (edge.document, edge.leader));
    Ok((edges, statistics))
}

/// Estimates the share of documents contained in a kept one that were removed, near-duplicates among them. `sampled` is
/// a sample of the `sampled_from` kept new documents in random order; each is compared with all documents that are kept
/// before it, by counting. Where all would take too long, the first of them are compared.
///
/// A document that contains another has enough of any of its features. So the rarest features of each sampled document
/// generate those that may, twice as many as may be missing and one more.
///
/// # Errors
/// If the store cannot be read.
pub fn estimate<S: FeatureLists>(
    store: &S,
    threshold: f32,
    assignments: &Assignments,
    sampled: &[Rank],
    sampled_from: u64,
) -> Result<RecallEstimate, S::Error> {
    let left = Left::new(store, assignments, threshold)?;
    // A feature of a sampled document takes as long as a few others.
    let all: u64 = left.sizes.iter().map(|&size| u64::from(size)).sum();
    let mut features = 0;
    let enough = (0..).zip(sampled).take_while(|&(at, &rank)| {
        features += left.size(rank) as u64;
        at < LEAST_SAMPLED || features <= (all / SAMPLED_OF).max(FREE)
    });
    let sampled = &sampled[..enough.count()];
    let mut ranks = Bits::new(store.ranks() as u64);
    sampled.iter().for_each(|rank| ranks.set(u64::from(rank.number())));
    let lists = store.lists(&ranks)?;
    // The number of sampled documents that have a feature; those whose hashes begin alike count together.
    let features: usize = sampled.iter().map(|&rank| lists.list(rank).len()).sum();
    let shift = u32::BITS - (4 * features.max(16)).ilog2().min(24);
    let mut having = vec![0u16; 1 << (u32::BITS - shift)];
    for hash in sampled.iter().flat_map(|&rank| lists.list(rank)) {
        let having = &mut having[(hash >> shift) as usize];
        *having = having.saturating_add(1);
    }
    let rarest = |&rank: &Rank| {
        let own = lists.list(rank);
        let missing = own.len() - left.needed(own.len());
        let rarity = |&hash: &u32| u64::from(having[(hash >> shift) as usize]) << 32 | u64::from(hash);
        let mut own: Vec<u64> = own.iter().map(rarity).collect();
        if own.len() > 2 * missing + 1 {
            own.select_nth_unstable(2 * missing);
            own.truncate(2 * missing + 1);
        }
        (own, missing)
    };
    let rare: Vec<(Vec<u64>, usize)> = sampled.par_iter().map(rarest).collect();
    drop(having);
    let needed: Vec<u32> =
        rare.iter().map(|(own, missing)| (own.len() - missing.min(&own.len())).max(1) as u32).collect();
    let mut entries = Vec::with_capacity(rare.iter().map(|(own, _)| own.len()).sum());
    for (at, (own, _)) in (0..).zip(rare) {
        entries.extend(own.into_iter().map(|hash| (hash as u32, at)));
    }
    let table = HashTable::new(entries);
    let missed: Vec<AtomicBool> = sampled.iter().map(|_| AtomicBool::new(false)).collect();
    store.each_list(&mut |batch| {
        let none = || (vec![0u32; sampled.len()], Vec::new());
        batch.par_iter().filter(|(rank, _)| left.is_left(*rank)).for_each_init(
            none,
            |(counts, met), &(rank, list)| {
                table.each_place(list, |places| {
                    for at in table.documents(places) {
                        if counts[at as usize] == 0 {
                            met.push(at);
                        }
                        counts[at as usize] += 1;
                    }
                });
                for at in met.drain(..).map(|at| at as usize) {
                    let own = sampled[at];
                    let may_contain = std::mem::take(&mut counts[at]) >= needed[at];
                    if may_contain && rank < own {
                        let own = lists.list(own);
                        if shared_of(own, list, left.needed(own.len()).max(1)).is_some() {
                            missed[at].store(true, Ordering::Relaxed);
                        }
                    }
                }
            },
        );
    })?;
    let missed = missed.into_iter().filter(|missed| missed.load(Ordering::Relaxed)).count() as u64;
    let all = left.sizes.iter().filter(|&&size| size > 0).count() as u64;
    Ok(RecallEstimate::of_documents(
        [sampled.len() as u64, all.saturating_sub(1)],
        Removed::of(assignments.removed(), missed, sampled.len() as u64, sampled_from),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::Linkage;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Sets of hashes, fuller ones first.
    struct Sets {
        sets: Vec<Vec<u32>>,
        at_once: usize,
    }

    impl FeatureLists for Sets {
        type Error = ();
        type Held<'s> = &'s Self;

        fn ranks(&self) -> usize {
            self.sets.len()
        }

        fn each_list(&self, each: &mut dyn FnMut(&[Listed<'_>])) -> Result<(), ()> {
            let lists: Vec<_> =
                Rank::all(self.sets.len()).zip(&self.sets).map(|(rank, set)| (rank, &set[..])).collect();
            lists.chunks(7).for_each(each);
            Ok(())
        }

        fn lists(&self, ranks: &Bits) -> Result<&Self, ()> {
            let held: usize = ranks.iter().map(|rank| self.sets[rank as usize].len()).sum();
            assert!(ranks.count() <= 2 || held <= self.at_once);
            Ok(self)
        }

        fn hashes_at_once(&self) -> usize {
            self.at_once
        }
    }

    impl FeatureHashes for &Sets {
        fn list(&self, rank: Rank) -> &[u32] {
            &self.sets[rank.index()]
        }

        fn hash(&self, _: Rank) -> u64 {
            0
        }
    }

    /// Sets, some of them parts of others with a few elements of their own.
    fn parts(seed: u64, documents: usize, largest: u64) -> Vec<Vec<u32>> {
        let mut rng = SplitMix64::new(seed);
        let mut sets: Vec<Vec<u32>> = Vec::new();
        for _ in 0..documents {
            let size = 1 + rng.below(largest);
            let mut set: BTreeSet<u32> = match sets.len() {
                0 => BTreeSet::new(),
                some => {
                    let whole = &sets[rng.below(some as u64) as usize];
                    let from = rng.below(whole.len() as u64) as usize;
                    whole[from..].iter().take(size as usize).copied().collect()
                }
            };
            let own = if rng.below(2) == 0 { set.len() as u64 / 4 } else { 0 };
            let missing = (size - set.len().min(size as usize) as u64) * rng.below(2);
            (0..own.max(missing).max(u64::from(set.is_empty())))
                .for_each(|_| _ = set.insert(rng.next_u64() as u32));
            sets.push(set.into_iter().collect());
        }
        sets.sort_by_key(|set| Reverse(set.len()));
        sets
    }

    /// The definition.
    fn contains(whole: &[u32], part: &[u32], threshold: f32) -> bool {
        let whole: BTreeSet<&u32> = whole.iter().collect();
        let shared = part.iter().filter(|hash| whole.contains(hash)).count();
        shared > 0 && shared as f64 >= f64::from(threshold) * part.len() as f64
    }

    fn removed(sets: &Sets, threshold: f32, reference: u32) -> (Assignments, Vec<Edge>) {
        let mut assignments = Assignments::new(sets.sets.len(), reference, Linkage::Star);
        let (edges, _) = remove(sets, threshold, &mut assignments).unwrap();
        (assignments, edges)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn small_sets_are_removed_as_by_the_definition(
            seed: u64, n in 0usize..60, threshold in 0.3f32..1.0, reference in 0usize..9,
        ) {
            // All of their elements are keys, and none is common.
            let sets = Sets { sets: parts(seed, n, KEYS as u64), at_once: usize::MAX };
            let reference = reference.min(n);
            let (assignments, edges) = removed(&sets, threshold, reference as u32);
            prop_assert!(edges.is_sorted_by_key(|edge| (edge.document, edge.leader)));
            for rank in Rank::all(n) {
                let leader = assignments.leader(rank);
                let may_go = |other: &usize| {
                    assignments.is_kept(Rank::at(*other)) && contains(&sets.sets[*other], &sets.sets[rank.index()], threshold)
                };
                match leader == rank {
                    // Sixteen candidates are looked at.
                    true => prop_assert!(
                        rank.index() < reference || n > CANDIDATES || !(0..rank.index()).any(|other| may_go(&other))
                    ),
                    false => prop_assert!(
                        rank.index() >= reference && leader < rank && assignments.is_kept(leader) && may_go(&leader.index())
                    ),
                }
            }
            for (at_once, edges) in [1, 500].map(|at_once| (at_once, &edges)) {
                let part = Sets { sets: sets.sets.clone(), at_once };
                let (same, again) = removed(&part, threshold, reference as u32);
                prop_assert!(&again == edges && Rank::all(n).all(|rank| same.leader(rank) == assignments.leader(rank)));
            }
        }

        #[test]
        fn what_was_missed_is_counted_as_by_the_definition(seed: u64, n in 1usize..80, threshold in 0.3f32..1.0) {
            let sets = Sets { sets: parts(seed, n, 300), at_once: usize::MAX };
            // Nothing is removed, so that all that can go is missed.
            let assignments = Assignments::new(n, 0, Linkage::Star);
            let all: Vec<Rank> = Rank::all(n).collect();
            let recall_estimate = estimate(&sets, threshold, &assignments, &all, n as u64).unwrap();
            let can_go = |&at: &usize| (0..at).any(|other| contains(&sets.sets[other], &sets.sets[at], threshold));
            let missed = (0..n).filter(can_go).count() as u64;
            prop_assert_eq!(recall_estimate.documents.map_or(0, |documents| documents.missed), missed);
        }
    }

    #[test]
    fn of_large_sets_nearly_all_that_are_contained_are_found() {
        let mut all: Vec<Vec<u32>> = (0..60).flat_map(|family| parts(family, 8, 2_000)).collect();
        all.sort_by_key(|set| Reverse(set.len()));
        let sets = Sets { sets: all, at_once: usize::MAX };
        let threshold = 0.82;
        let (assignments, _) = removed(&sets, threshold, 0);
        let kept: Vec<usize> = (0..sets.sets.len()).filter(|&at| assignments.is_kept(Rank::at(at))).collect();
        let needed = |at: usize| (f64::from(threshold) * sets.sets[at].len() as f64).ceil() as usize;
        let is_missed = |&&at: &&usize| {
            let before = kept.iter().take_while(|&&other| other < at);
            before.copied().any(|other| shared_of(&sets.sets[at], &sets.sets[other], needed(at)).is_some())
        };
        let missed = kept.iter().filter(is_missed).count();
        assert!(missed * 20 <= assignments.removed() as usize, "{missed}, {} removed", assignments.removed());
    }

    #[test]
    fn a_document_that_represents_others_goes_with_all_of_them_or_stays() {
        let part: Vec<u32> = (0..100).collect();
        let near: Vec<u32> = (0..95).chain(1_000..1_005).collect();
        let other: Vec<u32> = (0..80).chain(2_000..2_020).collect();
        let whole: Vec<u32> = (0..300).collect();
        for (follower, goes) in [(near, true), (other, false)] {
            let sets = Sets { sets: vec![whole.clone(), part.clone(), follower], at_once: usize::MAX };
            let mut assignments = Assignments::new(3, 0, Linkage::Star);
            let [document, leader] = [2, 1].map(Rank::new);
            assignments.remove(Edge { document, leader, similarity: 0.9, distance: 3, decides: true });
            remove(&sets, 0.85, &mut assignments).unwrap();
            let expected = if goes { [0, 0, 0] } else { [0, 1, 1] };
            assert_eq!(
                Rank::all(3).map(|rank| assignments.leader(rank).number()).collect::<Vec<_>>(),
                expected
            );
        }
    }

    #[test]
    fn common_features_bring_up_nothing() {
        // A template of many documents, and a text in each that is its own.
        let of = |at: u32| (0..40).chain(1_000 * (at + 1)..1_000 * (at + 1) + 60).collect::<Vec<u32>>();
        let sets = Sets { sets: (0..3_000).map(of).collect(), at_once: usize::MAX };
        let (assignments, edges) = removed(&sets, 0.5, 0);
        assert_eq!((assignments.removed(), edges.len()), (0, 0));
    }
}
