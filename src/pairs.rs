//! Near-duplicate pairs: what near pairs of sketches mean for documents.

use crate::Id;
use crate::clusters::{Keep, Linkage, Partition};
use crate::document::DocumentTable;
use crate::error::{Error, Result};
use crate::search::selfjoin::SlotPair;
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

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
        within + joined.iter().map(|pair| size(pair.a.number()) * size(pair.b.number())).sum::<u64>()
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
            let (a, b) = (self.documents(pair.a.number())[0], self.documents(pair.b.number())[0]);
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
            for &a in self.documents(pair.a.number()) {
                for &b in self.documents(pair.b.number()) {
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
    let edges: Vec<(u32, u32, f32)> =
        joined.iter().map(|pair| (pair.a.number(), pair.b.number(), pair.similarity)).collect();
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
    use crate::Slot;
    use crate::document::{DocId, Place};
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
        SlotPair { a: Slot(a), b: Slot(b), distance: 2, similarity: 0.9 }
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
}
