//! Near-duplicate pairs: the self-join over an index of distinct hashes, and what it means for documents.

use crate::clusters::{Keep, Linkage, Partition};
use crate::document::DocumentTable;
use crate::error::{Error, Result};
use crate::hash::fmix64;
use crate::search::distinct::DistinctHashes;
use crate::search::join::{self, Limits, NearPair};
use crate::search::{Cost, HammingIndex, Hit, Mode, Query, Scratch};
use crate::simhash::BITS;
use crate::simhash::quantised::QuantisedWeights;
use flipside_core::kernel::hamming;
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Two slots that are near: groups of documents that share a sketch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotPair {
    /// The lesser slot.
    pub a: u32,
    /// The greater slot.
    pub b: u32,
    /// Hamming distance of hashes, or number of differing positions of signatures.
    pub distance: u32,
    /// Estimated cosine (SimHash) or Jaccard coefficient (MinHash).
    pub similarity: f32,
}

/// What a self-join found.
#[derive(Clone, Debug, Default)]
pub struct SlotJoin {
    /// Pairs of different slots within the radius, each once, ascending by (a, b).
    pub pairs: Vec<SlotPair>,
    /// Counted work.
    pub cost: Cost,
    /// Slots with more neighbours than [`MOST_NEIGHBOURS`].
    pub crowded: u64,
    /// Neighbours of those that were passed over, those found from both sides twice.
    pub passed_over: u64,
    /// Where crowds had to be thinned ([`join_exactly`]): the number of hashes in the sample that crowded slots were compared
    /// with. Those are then the slots with dozens of neighbours in it, and passed over means: in the sample. 0 otherwise.
    pub sampled: u64,
}

/// The most neighbours that a slot brings into a join. A slot with more is one of thousands of pages of one template,
/// whose pairs grow with the square of their number and say nothing more: it brings the nearest ones (the lesser slots
/// among equals).
pub const MOST_NEIGHBOURS: usize = 256;

/// The cosine that a Hamming distance stands for: two vectors at angle θ differ in a fraction θ/π of the bits (Charikar 2002).
pub fn cosine_of_distance(distance: u32) -> f32 {
    (std::f64::consts::PI * f64::from(distance) / BITS as f64).cos() as f32
}

/// Finds every pair of distinct hashes that the index finds from one side or from the other.
///
/// `weights[slot]` are those of one document with that hash. An exact index finds a pair from both sides; a budgeted one
/// may find it from one only, and that is enough. `progress` hears of slots done.
pub fn self_join(
    index: &dyn HammingIndex,
    distinct: &DistinctHashes,
    weights: &[QuantisedWeights],
    progress: &(dyn Fn(u64) + Sync),
) -> SlotJoin {
    /// Slots a task works through with the same buffers.
    const TASK: usize = 1024;
    let starts: Vec<usize> = (0..distinct.len()).step_by(TASK).collect();
    let parts: Vec<(Vec<NearPair>, Cost, [u64; 2])> = starts
        .into_par_iter()
        .map(|start| {
            let (mut scratch, mut hits, mut found, mut cost) =
                (Scratch::default(), Vec::<(u32, Hit)>::new(), Vec::new(), Cost::default());
            let [mut crowded, mut passed_over] = [0, 0];
            let slots = start..distinct.len().min(start + TASK);
            let weights: Vec<_> = weights[slots.clone()].iter().map(QuantisedWeights::weights).collect();
            let hashes = &distinct.hashes()[slots];
            let queries: Vec<Query<'_>> =
                hashes.iter().zip(&weights).map(|(&hash, weights)| Query { hash, weights }).collect();
            cost += index.search_many(&queries, Mode::All, &mut scratch, &mut hits);
            hits.retain(|(number, hit)| hit.slot != start as u32 + number);
            hits.sort_unstable_by_key(|(number, hit)| (*number, hit.distance, hit.slot));
            for near in hits.chunk_by(|a, b| a.0 == b.0) {
                let slot = start as u32 + near[0].0;
                let passed = near.len().saturating_sub(MOST_NEIGHBOURS) as u64;
                crowded += u64::from(passed > 0);
                passed_over += passed;
                let nearest = near.iter().take(MOST_NEIGHBOURS);
                found.extend(nearest.map(|(_, hit)| NearPair {
                    a: slot.min(hit.slot),
                    b: slot.max(hit.slot),
                    distance: hit.distance,
                }));
            }
            progress((distinct.len().min(start + TASK) - start) as u64);
            (found, cost, [crowded, passed_over])
        })
        .collect();
    let mut cost = Cost::default();
    let [mut crowded, mut passed_over] = [0, 0];
    let mut found = Vec::with_capacity(parts.iter().map(|(found, ..)| found.len()).sum());
    for (part, part_cost, [part_crowded, part_passed_over]) in parts {
        found.extend(part);
        cost += part_cost;
        crowded += part_crowded;
        passed_over += part_passed_over;
    }
    found.par_sort_unstable();
    found.dedup();
    SlotJoin { pairs: as_slot_pairs(found), cost, crowded, passed_over, sampled: 0 }
}

/// Finds every pair of distinct hashes at distance 1 to `radius` by an exact join, without an index. `progress` hears of
/// slots done.
///
/// Where thousands of pages of one template lie near one another, their pairs would take time and memory that grow with the
/// square of their number. Such a join is given up, and crowds are thinned: a hash with more than some dozens of
/// neighbours in a sample of all hashes is joined with the nearest of those alone ([`SlotJoin::sampled`]). Every pair of two
/// others is found as before. Whether and what is thinned depends on the hashes alone.
///
/// # Errors
/// For 2³² distinct hashes or more.
pub fn join_exactly(
    distinct: &DistinctHashes,
    radius: u32,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SlotJoin> {
    /// Pairs that may be met for each hash, and besides; real corpora without a crowd met 190 at distance 10.
    const MET_A_HASH: u64 = 512;
    const MET: u64 = 1 << 25;
    /// Pairs that may wait at once, likewise: 200 MB and 400 bytes a hash.
    const WAITING_A_HASH: u64 = 32;
    const WAITING: u64 = 1 << 24;
    let n = distinct.len() as u64;
    let limits = Limits { met: n * MET_A_HASH + MET, waiting: n * WAITING_A_HASH + WAITING };
    join_within(distinct.hashes(), radius, limits, progress)
}

fn join_within(
    hashes: &[u64],
    radius: u32,
    limits: Limits,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SlotJoin> {
    let mut nearest = Nearest::new(hashes.len(), MOST_LISTED);
    let cost = join::join_unless(hashes, radius, limits, progress, |pairs| nearest.add(pairs))?;
    if let Some(cost) = cost {
        let (pairs, crowded, passed_over) = nearest.finish();
        return Ok(SlotJoin { pairs: as_slot_pairs(pairs), cost, crowded, passed_over, sampled: 0 });
    }
    drop(nearest);
    let crowds = Crowds::find(hashes, radius);
    for threshold in CROWDED {
        if let Some(join) = crowds.join(hashes, radius, threshold, limits)? {
            return Ok(join);
        }
    }
    // Denser than any crowd should be: what the sample shows is what is joined.
    Ok(crowds.joined(|_| true, Vec::new(), Cost::default(), 0))
}

fn as_slot_pairs(pairs: Vec<NearPair>) -> Vec<SlotPair> {
    let of = |NearPair { a, b, distance }| {
        let distance = u32::from(distance);
        SlotPair { a, b, distance, similarity: cosine_of_distance(distance) }
    };
    pairs.into_par_iter().map(of).collect()
}

/// Neighbours in the sample from which on a hash is of a crowd: the first number with which what is left can be joined.
const CROWDED: [u32; 3] = [32, 8, 1];
/// Neighbours in the sample that a hash of a crowd is joined with.
const SHOWN: usize = 32;
/// Neighbours in the sample that these are the nearest of: more are not looked for.
const SEEN: usize = 1024;

/// What a sample of the hashes shows of all.
struct Crowds {
    /// Number of hashes in the sample.
    sampled: usize,
    /// For each slot, its neighbours in the sample, at most [`SEEN`].
    neighbours: Vec<u32>,
    /// For each slot its nearest neighbours in the sample, at most [`SHOWN`]; a pair may be here twice.
    pairs: Vec<NearPair>,
    cost: Cost,
}

impl Crowds {
    fn find(hashes: &[u64], radius: u32) -> Self {
        /// Bounds of the sample.
        const LEAST: usize = 1 << 10;
        const MOST: usize = 1 << 16;
        let size = (hashes.len() / 16).clamp(LEAST, MOST).min(hashes.len());
        let mut sample: Vec<(u64, u32)> =
            hashes.iter().zip(0..).map(|(&h, slot)| (fmix64(h), slot)).collect();
        if size < sample.len() {
            sample.select_nth_unstable(size);
            sample.truncate(size);
        }
        let slots: Vec<u32> = sample.iter().map(|&(_, slot)| slot).collect();
        let drawn: Vec<u64> = slots.iter().map(|&slot| hashes[slot as usize]).collect();
        let kernel = hamming::Kernel::best();
        let looked: Vec<(u32, Vec<NearPair>, u64)> = (0..hashes.len() as u32)
            .into_par_iter()
            .map(|own| {
                let mut near: Vec<(u8, u32)> = Vec::new();
                let compared = kernel.scan(&drawn, hashes[own as usize], radius, |at, distance| {
                    if slots[at] != own {
                        near.push((distance as u8, slots[at]));
                    }
                    if near.len() < SEEN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                let count = near.len() as u32;
                near.sort_unstable();
                near.truncate(SHOWN);
                let pair =
                    |(distance, slot): (u8, u32)| NearPair { a: own.min(slot), b: own.max(slot), distance };
                (count, near.into_iter().map(pair).collect(), compared as u64)
            })
            .collect();
        let cost = Cost {
            probes: hashes.len() as u64,
            candidates: looked.iter().map(|(.., compared)| compared).sum(),
            verified: looked.iter().map(|(count, ..)| u64::from(*count)).sum(),
        };
        let neighbours = looked.iter().map(|(count, ..)| *count).collect();
        let pairs = looked.into_iter().flat_map(|(_, pairs, _)| pairs).collect();
        Self { sampled: size, neighbours, pairs, cost }
    }

    /// All pairs of hashes that are of no crowd, and of the others those that the sample shows. None if even that is too
    /// much.
    fn join(&self, hashes: &[u64], radius: u32, threshold: u32, limits: Limits) -> Result<Option<SlotJoin>> {
        let crowded = |slot: u32| self.neighbours[slot as usize] > threshold;
        let others: Vec<u32> = (0..hashes.len() as u32).filter(|&slot| !crowded(slot)).collect();
        let rest: Vec<u64> = others.iter().map(|&slot| hashes[slot as usize]).collect();
        let mut nearest = Nearest::new(rest.len(), MOST_LISTED);
        let Some(cost) = join::join_unless(&rest, radius, limits, &|_| (), |pairs| nearest.add(pairs))?
        else {
            return Ok(None);
        };
        let (mut pairs, _, passed_over) = nearest.finish();
        for pair in &mut pairs {
            (pair.a, pair.b) = (others[pair.a as usize], others[pair.b as usize]);
        }
        Ok(Some(self.joined(crowded, pairs, cost, passed_over)))
    }

    fn joined(
        &self,
        crowded: impl Fn(u32) -> bool,
        mut pairs: Vec<NearPair>,
        mut cost: Cost,
        mut passed_over: u64,
    ) -> SlotJoin {
        cost += self.cost;
        pairs.extend(self.pairs.iter().filter(|pair| crowded(pair.a) || crowded(pair.b)));
        pairs.par_sort_unstable();
        pairs.dedup();
        let of_crowds = (0..).zip(&self.neighbours).filter(|&(slot, _)| crowded(slot));
        passed_over +=
            of_crowds.clone().map(|(_, &n)| (n as usize).saturating_sub(SHOWN) as u64).sum::<u64>();
        let crowded = of_crowds.count() as u64;
        let sampled = self.sampled as u64;
        SlotJoin { pairs: as_slot_pairs(pairs), cost, crowded, passed_over, sampled }
    }
}

/// Pairs that are listed before those that no crowded slot brings in are struck out.
const MOST_LISTED: usize = 1 << 24;

/// The pairs that stay when each slot brings in its [`MOST_NEIGHBOURS`] nearest, out of a stream of any length.
struct Nearest {
    /// Neighbours of each slot so far.
    neighbours: Vec<u32>,
    pairs: Vec<NearPair>,
    /// How many may be listed.
    most: usize,
}

impl Nearest {
    fn new(slots: usize, most: usize) -> Self {
        Self { neighbours: vec![0; slots], pairs: Vec::new(), most }
    }

    fn add(&mut self, pairs: &[NearPair]) {
        for pair in pairs {
            for slot in [pair.a, pair.b] {
                let count = &mut self.neighbours[slot as usize];
                *count = count.saturating_add(1);
            }
        }
        self.pairs.extend_from_slice(pairs);
        if self.pairs.len() > self.most {
            self.strike();
            // What is left must be little beside what may come, or striking would take longer than finding.
            self.most = self.most.max(2 * self.pairs.len());
        }
    }

    /// Strikes out pairs that are among the nearest of neither slot. What comes later can only push them farther back.
    fn strike(&mut self) {
        let crowded = |slot: u32| self.neighbours[slot as usize] as usize > MOST_NEIGHBOURS;
        let mut near: HashMap<u32, Vec<(u8, u32)>> = HashMap::new();
        for pair in &self.pairs {
            for (slot, other) in [(pair.a, pair.b), (pair.b, pair.a)] {
                if crowded(slot) {
                    near.entry(slot).or_default().push((pair.distance, other));
                }
            }
        }
        let last: HashMap<u32, (u8, u32)> = near
            .into_iter()
            .filter(|(_, near)| near.len() > MOST_NEIGHBOURS)
            .map(|(slot, mut near)| (slot, *near.select_nth_unstable(MOST_NEIGHBOURS - 1).1))
            .collect();
        let brings = |slot, other, distance| last.get(&slot).is_none_or(|&last| (distance, other) <= last);
        self.pairs
            .retain(|pair| brings(pair.a, pair.b, pair.distance) || brings(pair.b, pair.a, pair.distance));
    }

    /// The pairs, ascending; how many slots are crowded; and how many neighbours they passed over.
    fn finish(mut self) -> (Vec<NearPair>, u64, u64) {
        let beyond = |&n: &u32| (n as usize).saturating_sub(MOST_NEIGHBOURS) as u64;
        let crowded = self.neighbours.iter().filter(|n| beyond(n) > 0).count() as u64;
        let passed_over = self.neighbours.iter().map(beyond).sum();
        if crowded > 0 {
            self.strike();
        }
        self.pairs.par_sort_unstable();
        (self.pairs, crowded, passed_over)
    }
}

/// How two documents of a pair are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The same text, byte for byte.
    Exact,
    /// Alike by the method's measure.
    Near,
}

/// Two documents that are duplicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The lesser document.
    pub a: u32,
    /// The greater document.
    pub b: u32,
    /// Hamming distance of hashes, or number of differing positions of signatures; 0 for equal texts.
    pub distance: u32,
    /// Estimated cosine (SimHash) or Jaccard coefficient (MinHash); 1 for equal texts.
    pub similarity: f32,
    /// How they are alike.
    pub kind: Kind,
}

/// Groups of documents that share a sketch (or, where they have none, their text), by slot.
#[derive(Clone, Debug)]
pub struct Groups {
    /// `starts[s]..starts[s + 1]` is slot `s`'s part of `members`.
    starts: Vec<u32>,
    /// Within a group by text, and among equal texts the one to keep first; the group's own one to keep leads.
    members: Vec<u32>,
}

/// How many pairs may be listed; beyond it `--all-pairs` is refused before memory is.
pub const MOST_PAIRS: u64 = 1 << 28;

impl Groups {
    /// Puts groups in order: whatever is to stay of equal texts, and of the group, comes first.
    pub fn new<'a>(groups: impl Iterator<Item = &'a [u32]>, documents: &DocumentTable, keep: Keep) -> Self {
        let better = |&a: &u32, &b: &u32| {
            let of =
                |document: u32| (documents.rows()[document as usize].text_bytes, documents.url(document));
            keep.compare(of(a), of(b)).then(a.cmp(&b))
        };
        let digest = |document: u32| documents.rows()[document as usize].digest;
        let mut all = Self { starts: vec![0], members: Vec::new() };
        for group in groups {
            let begin = all.members.len();
            all.members.extend_from_slice(group);
            let members = &mut all.members[begin..];
            if members.len() > 1 {
                members.sort_unstable_by(better);
                // The best copy of each text, best first; a stable sort keeps the order among copies.
                let mut rank = HashMap::new();
                for (at, &document) in members.iter().enumerate() {
                    rank.entry(digest(document)).or_insert(at);
                }
                members.sort_by_key(|&document| rank[&digest(document)]);
            }
            all.starts.push(all.members.len() as u32);
        }
        all
    }

    /// The documents of a slot; the first is the one to keep.
    pub fn documents(&self, slot: u32) -> &[u32] {
        &self.members[self.starts[slot as usize] as usize..self.starts[slot as usize + 1] as usize]
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of pairs of documents: within slots, and between the slots of the given pairs.
    pub fn count_pairs(&self, joined: &[SlotPair]) -> u64 {
        let size = |slot: u32| self.documents(slot).len() as u64;
        let within: u64 = (0..self.len() as u32).map(|slot| size(slot) * (size(slot) - 1) / 2).sum();
        within + joined.iter().map(|pair| size(pair.a) * size(pair.b)).sum::<u64>()
    }

    /// The pairs that say it all, ascending: every copy with the copy of its text that leads, every text of a slot with the
    /// slot's leader, and the leaders of slots that were joined. Their number grows with the number of documents, never
    /// with its square.
    pub fn star_pairs(&self, joined: &[SlotPair], documents: &DocumentTable) -> Vec<Pair> {
        let digest = |document: u32| documents.rows()[document as usize].digest;
        let mut pairs = Vec::new();
        for slot in 0..self.len() as u32 {
            let members = self.documents(slot);
            let Some(&leader) = members.first() else { continue };
            let mut copy_leader = leader;
            for &member in &members[1..] {
                let kind = if digest(member) == digest(copy_leader) { Kind::Exact } else { Kind::Near };
                let centre = if kind == Kind::Exact { copy_leader } else { leader };
                if kind == Kind::Near {
                    copy_leader = member;
                }
                pairs.push(pair_of(centre, member, 0, 1.0, kind));
            }
        }
        for pair in joined {
            let (a, b) = (self.documents(pair.a)[0], self.documents(pair.b)[0]);
            pairs.push(pair_of(a, b, pair.distance, pair.similarity, Kind::Near));
        }
        pairs.par_sort_unstable_by_key(|pair| (pair.a, pair.b));
        pairs
    }

    /// Every pair of different texts, each text by the copy that leads, ascending.
    ///
    /// # Errors
    /// If there are more than [`MOST_PAIRS`].
    pub fn text_pairs(&self, joined: &[SlotPair], documents: &DocumentTable) -> Result<Vec<Pair>> {
        let digest = |document: u32| documents.rows()[document as usize].digest;
        let leaders = |members: &[u32]| {
            members.chunk_by(|&a, &b| digest(a) == digest(b)).map(|copies| copies[0]).collect::<Vec<u32>>()
        };
        let lists: Vec<Vec<u32>> = (0..self.len() as u32).map(|slot| leaders(self.documents(slot))).collect();
        let leading = Self {
            starts: std::iter::once(0)
                .chain(lists.iter().scan(0, |end, list| {
                    *end += list.len() as u32;
                    Some(*end)
                }))
                .collect(),
            members: lists.concat(),
        };
        leading.all_pairs(joined, documents)
    }

    /// Every pair of documents, ascending.
    ///
    /// # Errors
    /// If there are more than [`MOST_PAIRS`].
    pub fn all_pairs(&self, joined: &[SlotPair], documents: &DocumentTable) -> Result<Vec<Pair>> {
        let count = self.count_pairs(joined);
        if count > MOST_PAIRS {
            let advice = format!(
                "at most {MOST_PAIRS} pairs, but there are {count}; leave it out, and every copy is listed once"
            );
            return Err(Error::parameter("all-pairs", "true", advice));
        }
        let digest = |document: u32| documents.rows()[document as usize].digest;
        let mut pairs = Vec::with_capacity(count as usize);
        for slot in 0..self.len() as u32 {
            let members = self.documents(slot);
            for (at, &a) in members.iter().enumerate() {
                for &b in &members[at + 1..] {
                    let kind = if digest(a) == digest(b) { Kind::Exact } else { Kind::Near };
                    pairs.push(pair_of(a, b, 0, 1.0, kind));
                }
            }
        }
        for pair in joined {
            for &a in self.documents(pair.a) {
                for &b in self.documents(pair.b) {
                    pairs.push(pair_of(a, b, pair.distance, pair.similarity, Kind::Near));
                }
            }
        }
        pairs.par_sort_unstable_by_key(|pair| (pair.a, pair.b));
        Ok(pairs)
    }
}

fn pair_of(a: u32, b: u32, distance: u32, similarity: f32, kind: Kind) -> Pair {
    Pair { a: a.min(b), b: a.max(b), distance, similarity, kind }
}

/// The clusters that joined groups make: the documents of a group belong together, and groups as `linkage` says, those whose
/// first document is the better one to keep being taken first.
pub fn partition(
    documents: &DocumentTable,
    groups: &Groups,
    joined: &[SlotPair],
    linkage: Linkage,
    keep: Keep,
) -> Partition {
    let leader = |slot: u32| groups.documents(slot)[0];
    let of = |slot: u32| {
        let document = leader(slot);
        (documents.rows()[document as usize].text_bytes, documents.url(document))
    };
    let mut order: Vec<u32> = (0..groups.len() as u32).collect();
    order.par_sort_unstable_by(|&a, &b| keep.compare(of(a), of(b)).then(leader(a).cmp(&leader(b))));
    let edges: Vec<(u32, u32, f32)> = joined.iter().map(|pair| (pair.a, pair.b, pair.similarity)).collect();
    let centres = linkage.link(&order, &edges);
    let mut partition = Partition::singletons(documents.len());
    for (slot, &centre) in (0..).zip(&centres) {
        groups.documents(slot).iter().for_each(|&document| {
            partition.join(leader(centre), document);
        });
    }
    partition
}

/// The partition that the pairs make of `documents` documents.
pub fn connect(documents: usize, pairs: &[Pair]) -> Partition {
    let mut partition = Partition::singletons(documents);
    for pair in pairs {
        partition.join(pair.a, pair.b);
    }
    partition
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{DocId, Place};
    use crate::hash::SplitMix64;
    use crate::search::linear::Linear;
    use proptest::prelude::*;

    /// Documents whose text and URL follow from a number each.
    fn table(texts: &[u8]) -> DocumentTable {
        let mut table = DocumentTable::default();
        for (i, &text) in (0..).zip(texts) {
            let url = "u".repeat(1 + (texts.len() - i as usize) % 5);
            table.push(DocId::new(0, i), Place::default(), (None, Some(&url)), &"x".repeat(text as usize));
        }
        table
    }

    fn slot_pair(a: u32, b: u32) -> SlotPair {
        SlotPair { a, b, distance: 2, similarity: 0.9 }
    }

    proptest! {
        #[test]
        fn stars_connect_what_all_pairs_connect(
            texts in prop::collection::vec(0u8..6, 1..30),
            slots in prop::collection::vec(0u32..8, 30),
            joined in prop::collection::btree_set((0u32..8, 0u32..8), 0..8),
            keep in prop::sample::select(vec![Keep::First, Keep::Longest, Keep::ShortestUrl]),
        ) {
            let documents = table(&texts);
            let n = texts.len();
            let lists: Vec<Vec<u32>> = (0..8)
                .map(|slot| (0..n as u32).filter(|&d| slots[d as usize] == slot).collect())
                .filter(|list: &Vec<u32>| !list.is_empty())
                .collect();
            let groups = Groups::new(lists.iter().map(Vec::as_slice), &documents, keep);
            let joined: Vec<SlotPair> = joined
                .into_iter()
                .filter(|&(a, b)| a < b && (b as usize) < lists.len())
                .map(|(a, b)| slot_pair(a, b))
                .collect();
            let all = groups.all_pairs(&joined, &documents).unwrap();
            let star = groups.star_pairs(&joined, &documents);
            prop_assert_eq!(all.len() as u64, groups.count_pairs(&joined));
            prop_assert!(star.len() <= n + joined.len());
            let connected = partition(&documents, &groups, &joined, Linkage::Connected, keep).clusters();
            prop_assert_eq!(connected, connect(n, &star).clusters());
            for pairs in [&all, &star] {
                prop_assert!(pairs.iter().all(|p| p.a < p.b));
                prop_assert!(pairs.is_sorted_by(|p, q| (p.a, p.b) < (q.a, q.b)));
                let same = |p: &Pair| texts[p.a as usize] == texts[p.b as usize];
                prop_assert!(pairs.iter().all(|p| p.distance == 2 || (p.kind == Kind::Exact) == same(p)));
            }
            prop_assert!(star.iter().all(|p| all.contains(p)));
            prop_assert_eq!(connect(n, &star).clusters(), connect(n, &all).clusters());
            let different: Vec<Pair> = groups.text_pairs(&joined, &documents).unwrap();
            prop_assert!(different.iter().all(|p| all.contains(p) && p.kind == Kind::Near));
        }
    }

    #[test]
    fn the_leader_is_the_copy_to_keep() {
        let documents = table(&[3, 5, 5, 1]);
        let of =
            |keep| Groups::new([&[0u32, 1, 2, 3][..]].into_iter(), &documents, keep).documents(0).to_vec();
        assert_eq!(of(Keep::First), [0, 1, 2, 3]);
        assert_eq!(of(Keep::Longest), [1, 2, 0, 3]);
        // URL lengths are 5, 4, 3, 2.
        assert_eq!(of(Keep::ShortestUrl), [3, 2, 1, 0]);
    }

    #[test]
    fn many_copies_make_a_star_and_are_refused_as_pairs() {
        let texts = vec![1u8; 30_000];
        let documents = table(&texts);
        let list: Vec<u32> = (0..30_000).collect();
        let groups = Groups::new([&list[..]].into_iter(), &documents, Keep::First);
        assert_eq!(groups.count_pairs(&[]), 30_000 * 29_999 / 2);
        assert_eq!(groups.star_pairs(&[], &documents).len(), 29_999);
        assert!(groups.all_pairs(&[], &documents).is_err());
    }

    /// Both joins of the same hashes, which must be the same.
    fn joined(hashes: &[u64], radius: u32) -> SlotJoin {
        let distinct = DistinctHashes::new(hashes);
        let index = Linear::new(distinct.hashes(), radius).unwrap();
        let weights = vec![QuantisedWeights::new(&[1.0; BITS]); distinct.len()];
        let by_queries = self_join(&index, &distinct, &weights, &|_| ());
        let join = join_exactly(&distinct, radius, &|_| ()).unwrap();
        assert_eq!(join.pairs, by_queries.pairs);
        assert_eq!((join.crowded, join.passed_over), (by_queries.crowded, by_queries.passed_over));
        // Struck out now and then, as for pairs that do not fit the memory.
        let mut nearest = Nearest::new(distinct.len(), 500);
        join::join(distinct.hashes(), radius, &|_| (), |pairs| {
            pairs.chunks(7).for_each(|pairs| nearest.add(pairs));
        })
        .unwrap();
        let listed = nearest.finish().0;
        assert!(listed.iter().map(|p| (p.a, p.b)).eq(join.pairs.iter().map(|p| (p.a, p.b))));
        join
    }

    proptest! {
        #[test]
        fn a_join_is_what_queries_find(seeds in prop::collection::vec(any::<u64>(), 1..9), n in 0usize..300, radius in 0u32..9) {
            let flip = |i: usize| (0..i % 7).fold(seeds[i % seeds.len()], |hash, k| hash ^ 1 << ((i * (k + 3)) % 64));
            joined(&(0..n).map(flip).collect::<Vec<_>>(), radius);
        }
    }

    #[test]
    fn a_crowd_of_neighbours_is_bounded_and_told() {
        // All within two bits of one another.
        let mut hashes: Vec<u64> =
            (0..64).flat_map(|i| (0..i).map(move |j| 1u64 << i ^ 1 << j)).take(1000).collect();
        hashes.push(0);
        let join = joined(&hashes, 4);
        assert_eq!(join.crowded, 1001);
        assert_eq!(join.passed_over, 1001 * (1000 - MOST_NEIGHBOURS as u64));
        assert!(join.pairs.len() <= 1001 * MOST_NEIGHBOURS && join.pairs.len() >= 1001 * MOST_NEIGHBOURS / 2);
        assert!(join.pairs.is_sorted_by(|p, q| (p.a, p.b) < (q.a, q.b)));
        let mut partition = Partition::singletons(hashes.len());
        join.pairs.iter().for_each(|pair| {
            partition.join(pair.a, pair.b);
        });
        assert_eq!(partition.clusters().len(), 1);
    }

    #[test]
    fn crowds_are_thinned_and_nothing_else_is_lost() {
        // A crowd of 3,000 hashes within 8 bits of one another, and 1,500 pairs of others.
        let mut rng = SplitMix64::new(9);
        let mut flips = |hash: u64, n: u32| (0..n).fold(hash, |hash, _| hash ^ 1 << rng.below(64));
        let mut hashes: Vec<u64> = (0..3000).map(|_| flips(0xfeed_f00d_dead_beef, 4)).collect();
        let others: Vec<u64> = (0..1500u64).map(|i| fmix64(i + 1)).collect();
        hashes.extend(others.iter().flat_map(|&hash| [hash, flips(hash, 3)]));
        hashes.sort_unstable();
        hashes.dedup();
        let in_crowd = |slot: u32| (hashes[slot as usize] ^ 0xfeed_f00d_dead_beef).count_ones() <= 4;
        let limits = Limits { met: 400_000, waiting: u64::MAX };
        let join = join_within(&hashes, 8, limits, &|_| ()).unwrap();
        let crowd = (0..hashes.len() as u32).filter(|&slot| in_crowd(slot)).count() as u64;
        assert_eq!((join.sampled, join.crowded), (1024, crowd));
        assert!(join.pairs.is_sorted_by(|p, q| (p.a, p.b) < (q.a, q.b)));
        // Pairs of others are all there.
        let exact = join_within(&hashes, 8, Limits::NONE, &|_| ()).unwrap();
        assert_eq!(exact.sampled, 0);
        let of_others = |join: &SlotJoin| {
            let pairs = join.pairs.iter().filter(|pair| !in_crowd(pair.a) && !in_crowd(pair.b));
            pairs.map(|pair| (pair.a, pair.b, pair.distance)).collect::<Vec<_>>()
        };
        assert!(of_others(&exact).len() > 1000);
        assert_eq!(of_others(&exact), of_others(&join));
        // What is there of the crowd is near, and hangs together.
        assert!(join.pairs.len() as u64 <= crowd * SHOWN as u64 + 3000);
        let mut partition = Partition::singletons(hashes.len());
        for pair in &join.pairs {
            assert_eq!(
                pair.distance,
                (hashes[pair.a as usize] ^ hashes[pair.b as usize]).count_ones(),
                "{pair:?}"
            );
            partition.join(pair.a, pair.b);
        }
        assert!(partition.clusters().iter().any(|members| members.len() as u64 >= crowd));
        // Too dense for any threshold: what the sample shows.
        let least = join_within(&hashes, 8, Limits { met: 0, waiting: 0 }, &|_| ()).unwrap();
        assert!(least.sampled == 1024 && !least.pairs.is_empty());
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let again = one.install(|| join_within(&hashes, 8, limits, &|_| ())).unwrap();
        assert_eq!(again.pairs, join.pairs);
    }

    #[test]
    fn distances_as_cosines() {
        assert_eq!(cosine_of_distance(0), 1.0);
        assert!((cosine_of_distance(3) - 0.989_18).abs() < 1e-5);
        assert!(cosine_of_distance(32).abs() < 1e-6);
    }
}
