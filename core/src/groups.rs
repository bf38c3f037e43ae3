//! Turns near pairs of sketches or texts into pairs and clusters of documents.
//!
//! A near pair joins two *groups*. A group is the copies of a text, or, without verification, all documents of one
//! sketch.

use crate::clusters::{Linkage, Partition, Quota, same_pairs};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::id::{Cluster, Document, Group, Id, LedLists, Lists};
use crate::search::selfjoin::SimilarPair;
use crate::settings::Verification;
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The kind of a pair: exact duplicates, or near-duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairKind {
    /// Documents with the same text, byte for byte.
    Exact,
    /// Documents whose texts differ.
    #[default]
    Near,
}

/// A pair of near-duplicate documents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The document with the lesser number.
    pub a: Document,
    /// The document with the greater number.
    pub b: Document,
    /// Hamming distance of the SimHashes in bits, or of the first 64 bits of one-bit MinHash, or number of differing
    /// positions of the signatures; 0 for equal texts.
    pub distance: u32,
    /// The similarity by verification's measure, or, without verification, as the sketches estimate it; 1 for equal
    /// texts.
    pub similarity: f32,
    /// The kind of the pair.
    pub kind: PairKind,
}

/// Two groups that are near.
pub(crate) type GroupPair = SimilarPair<Group>;

/// Orders two documents: the lesser one is the better one to keep.
pub(crate) type Better<'a> = &'a (dyn Fn(Document, Document) -> Ordering + Sync);

/// All documents of a run, in groups, numbered in the order of texts, or of slots with unsketched texts behind.
pub(crate) struct Groups<'a> {
    collection: &'a Collection,
    /// Within a group by text, and among equal texts the one to keep first; the group's own one to keep
    /// leads.
    members: LedLists<Group, Document>,
    /// Documents from this number on are the reference set, see [`crate::dedup::Context::against`].
    pub(crate) first_reference: usize,
}

/// The number of pairs that may be listed; beyond it listing all is refused before memory is taken.
const MOST_PAIRS: u64 = 1 << 28;

impl<'a> Groups<'a> {
    /// Makes groups of these documents. It puts each group in order: the best document to keep comes first, among the
    /// copies of each text and in the group. No group is empty.
    pub(crate) fn new(
        groups: impl IntoIterator<Item = Vec<Document>>,
        collection: &'a Collection,
        better: Better<'_>,
    ) -> Self {
        let mut all = LedLists::default();
        for mut members in groups {
            if members.len() > 1 {
                members.sort_unstable_by(|&a, &b| better(a, b));
                // The best copy of each text, best first; a stable sort keeps the order among copies.
                let mut rank = HashMap::new();
                for (at, &document) in members.iter().enumerate() {
                    rank.entry(collection.facts(document).digest).or_insert(at);
                }
                if rank.len() > 1 {
                    members.sort_by_key(|&document| rank[&collection.facts(document).digest]);
                }
            }
            all.push(members[0], &members);
        }
        Self { collection, members: all, first_reference: usize::MAX }
    }

    /// The groups with documents from this number on as the reference set. The `better` of [`new`](Self::new) must put
    /// these before others.
    pub(crate) fn against(self, first_reference: usize) -> Self {
        Self { first_reference, ..self }
    }

    fn is_reference(&self, document: Document) -> bool {
        document.index() >= self.first_reference
    }

    /// True if a group has a reference document, which then leads it.
    pub(crate) fn holds_reference(&self, group: Group) -> bool {
        self.is_reference(self.leader(group))
    }

    /// True if both documents of a pair are of the reference set; such pairs are left out.
    fn are_references(&self, a: Document, b: Document) -> bool {
        self.is_reference(a) && self.is_reference(b)
    }

    /// The new documents of all clusters that are kept by a quota besides `representatives`, the kept one of each
    /// cluster; ascending. `source` numbers the sources of documents.
    pub(crate) fn also_kept(
        &self,
        quota: Quota,
        clusters: &Lists<Cluster, Document>,
        representatives: &[Document],
        better: Better<'_>,
        source: &(dyn Fn(Document) -> u64 + Sync),
    ) -> Vec<Document> {
        let lists: Vec<(&[Document], Document)> =
            clusters.iter().zip(representatives.iter().copied()).collect();
        let of = |&(members, first): &(&[Document], Document)| -> Vec<Document> {
            let mut members = members.to_vec();
            members.sort_unstable_by(|&a, &b| (a != first).cmp(&(b != first)).then_with(|| better(a, b)));
            let is_reference = |place: usize| self.is_reference(members[place]);
            let stay = quota.choose(members.len(), |place| source(members[place]), is_reference);
            // The first is the best one.
            stay.filter(|&place| place > 0 && !is_reference(place)).map(|place| members[place]).collect()
        };
        let mut also: Vec<Document> = lists.par_iter().flat_map_iter(of).collect();
        also.sort_unstable();
        also
    }

    fn digest(&self, document: Document) -> u128 {
        self.collection.facts(document).digest
    }

    /// The documents of a group; the first is the best to keep.
    pub(crate) fn documents(&self, group: Group) -> &[Document] {
        self.members.get(group)
    }

    /// The best document of a group to keep.
    pub(crate) fn leader(&self, group: Group) -> Document {
        self.members.leader(group)
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Number of all pairs of documents within groups and between near groups, `joined`, without pairs of two reference
    /// documents.
    pub(crate) fn count_pairs(&self, joined: &[GroupPair]) -> u64 {
        let size = |group: Group| self.documents(group).len() as u64;
        let old_of =
            |documents: &[Document]| documents.iter().filter(|&&it| self.is_reference(it)).count() as u64;
        let old: Vec<u64> = self.members.iter().map(old_of).collect();
        let old = |group: Group| old[group.index()];
        let pairs = |n: u64| n * n.saturating_sub(1) / 2;
        let within: u64 = Group::all(self.len()).map(|group| pairs(size(group)) - pairs(old(group))).sum();
        let between = |pair: &GroupPair| size(pair.a) * size(pair.b) - old(pair.a) * old(pair.b);
        within + joined.iter().map(between).sum::<u64>()
    }

    /// The pair of two documents of a group.
    fn within(&self, a: Document, b: Document) -> Pair {
        let kind = if self.digest(a) == self.digest(b) { PairKind::Exact } else { PairKind::Near };
        Pair { a: a.min(b), b: a.max(b), distance: 0, similarity: 1.0, kind }
    }

    /// Pairs that connect all near documents, ascending. They are every copy with the best copy of its text, every text
    /// of a group with the group's leader, and the leaders of near groups.
    pub(crate) fn star_pairs(&self, joined: &[GroupPair]) -> Vec<Pair> {
        let within: usize = self.members.iter().map(|members| members.len().saturating_sub(1)).sum();
        let mut pairs = Vec::with_capacity(within + joined.len());
        for members in self.members.iter() {
            let leader = members[0];
            let mut copy_leader = leader;
            for &member in &members[1..] {
                let copies = self.digest(member) == self.digest(copy_leader);
                let centre = if copies { copy_leader } else { leader };
                if !copies {
                    copy_leader = member;
                }
                pairs.push(self.within(centre, member));
            }
        }
        for pair in joined {
            let (a, b) = (self.leader(pair.a), self.leader(pair.b));
            pairs.push(between(a, b, pair));
        }
        pairs.retain(|pair| !self.are_references(pair.a, pair.b));
        pairs.par_sort_unstable_by_key(|pair| (pair.a, pair.b));
        pairs
    }

    /// Every pair of different texts of a group or of near groups, each text by its best copy, ascending.
    ///
    /// # Errors
    /// [`Error::Parameter`] for more than [`MOST_PAIRS`].
    pub(crate) fn text_pairs(&self, joined: &[GroupPair]) -> Result<Vec<Pair>> {
        let leaders = |members: &[Document]| {
            let copies = members.chunk_by(|&a, &b| self.digest(a) == self.digest(b));
            copies.map(|copies| copies[0]).collect::<Vec<_>>()
        };
        let mut members = LedLists::default();
        for leaders in self.members.iter().map(leaders) {
            members.push(leaders[0], &leaders);
        }
        Groups { members, ..*self }.all_pairs(joined)
    }

    /// Every pair of documents of a group or of near groups, ascending, but none of two reference documents.
    ///
    /// # Errors
    /// [`Error::Parameter`] for more than [`MOST_PAIRS`].
    pub(crate) fn all_pairs(&self, joined: &[GroupPair]) -> Result<Vec<Pair>> {
        let count = self.count_pairs(joined);
        check_listed(count)?;
        let mut pairs = Vec::with_capacity(count as usize);
        for members in self.members.iter() {
            for (at, &a) in members.iter().enumerate() {
                for &b in &members[at + 1..] {
                    if self.are_references(a, b) {
                        continue;
                    }
                    pairs.push(self.within(a, b));
                }
            }
        }
        for pair in joined {
            for &a in self.documents(pair.a) {
                for &b in self.documents(pair.b).iter().filter(|&&b| !self.are_references(a, b)) {
                    pairs.push(between(a, b, pair));
                }
            }
        }
        pairs.par_sort_unstable_by_key(|pair| (pair.a, pair.b));
        Ok(pairs)
    }

    /// The clusters of documents, where `assigned` has, by group, the group that it is removed for, or itself.
    pub(crate) fn partition_of(&self, assigned: &[Group]) -> Partition {
        let mut partition = Partition::singletons(self.collection.len());
        for (members, &leader) in self.members.iter().zip(assigned) {
            for &document in members {
                partition.join(self.leader(leader), document);
            }
        }
        partition
    }

    /// The clusters of documents that near groups make. The documents of a group are in one cluster, and groups are
    /// linked by `linkage`, those with the better leader first.
    ///
    /// Groups with reference documents are kept, so pairs of them are left out, and each leads. They are taken first,
    /// so that nothing near one of them leads in a star. A pair is left out if, by `verification`, the worse of its
    /// groups may not be removed in favour of the better one.
    pub(crate) fn partition(
        &self,
        joined: &[GroupPair],
        linkage: Linkage,
        verification: Verification,
        better: Better<'_>,
    ) -> Partition {
        let mut order: Vec<Group> = Group::all(self.len()).collect();
        order.par_sort_unstable_by(|&a, &b| better(self.leader(a), self.leader(b)));
        let ones_are_same = verification.ones_are_same();
        let features = |group: Group| self.collection.facts(self.leader(group)).features;
        let may_replace = |pair: &GroupPair| {
            let is_better = better(self.leader(pair.a), self.leader(pair.b)).is_lt();
            let [kept, removed] = if is_better { [pair.a, pair.b] } else { [pair.b, pair.a] };
            verification.may_replace(pair.similarity, features(kept), features(removed))
        };
        let edges =
            joined.iter().filter(|pair| !(self.holds_reference(pair.a) && self.holds_reference(pair.b)));
        let edges = edges.filter(|pair| ones_are_same || may_replace(pair));
        let edges = edges.map(|pair| (pair.a, pair.b, pair.similarity));
        // Of reference documents none goes.
        let same = match ones_are_same && linkage == Linkage::Star {
            true => same_pairs(&order, edges.clone()),
            false => Vec::new(),
        };
        let same =
            same.iter().copied().filter(|&(a, b, _)| !(self.holds_reference(a) && self.holds_reference(b)));
        let edges = edges.chain(same);
        let centres = linkage.link_all(&order, edges, ones_are_same);
        self.partition_of(&centres)
    }
}

/// Checks that a list of `pairs` pairs is not too long.
///
/// # Errors
/// [`Error::Parameter`] for more than 2²⁸ pairs.
pub fn check_listed(pairs: u64) -> Result<()> {
    if pairs <= MOST_PAIRS {
        return Ok(());
    }
    let advice = format!(
        "at most {MOST_PAIRS} pairs, but there are {pairs}; leave it out, and every copy is listed once"
    );
    Err(Error::parameter("all-pairs", "true", advice))
}

/// The pair of documents of two near groups.
fn between(a: Document, b: Document, pair: &GroupPair) -> Pair {
    let GroupPair { distance, similarity, .. } = *pair;
    Pair { a: a.min(b), b: a.max(b), distance, similarity, kind: PairKind::Near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::{Keep, Merits};
    use crate::collection::Keeping;
    use crate::sketch::Facts;
    use crate::text::FeatureKind;
    use proptest::prelude::*;

    /// Documents whose text and URL follow from a number each.
    fn documents(texts: &[u8]) -> (Collection, Vec<String>) {
        let mut collection = Collection::new(FeatureKind::Words, Keeping::Features, None).unwrap();
        let url = |i: usize| "u".repeat(1 + (texts.len() - i) % 5);
        texts.iter().for_each(|&text| {
            collection.push(&"x".repeat(text as usize));
        });
        (collection, (0..texts.len()).map(url).collect())
    }

    fn better<'a>(
        keep: Keep,
        collection: &'a Collection,
        urls: &'a [String],
    ) -> impl Fn(Document, Document) -> Ordering + Sync + 'a {
        let of = |document: Document| {
            let Facts { features, text_bytes, .. } = collection.facts(document);
            Merits { features, text_bytes, url: Some(&urls[document.index()][..]) }
        };
        move |a, b| keep.compare(of(a), of(b)).then(a.cmp(&b))
    }

    /// The partition that the pairs make.
    fn connect(documents: usize, pairs: &[Pair]) -> Partition {
        let mut partition = Partition::singletons(documents);
        pairs.iter().for_each(|pair| {
            partition.join(pair.a, pair.b);
        });
        partition
    }

    proptest! {
        #[test]
        fn stars_connect_what_all_pairs_connect(
            texts in prop::collection::vec(0u8..6, 1..30),
            groups in prop::collection::vec(0u32..8, 30),
            joined in prop::collection::btree_set((0u32..8, 0u32..8), 0..8),
            keep in prop::sample::select(vec![Keep::First, Keep::Longest, Keep::ShortestUrl]),
        ) {
            let (collection, urls) = documents(&texts);
            let better = better(keep, &collection, &urls);
            let n = texts.len();
            let lists: Vec<Vec<Document>> = (0..8)
                .map(|group| Document::all(n).filter(|d| groups[d.index()] == group).collect())
                .filter(|list: &Vec<Document>| !list.is_empty())
                .collect();
            let number = lists.len();
            let groups = Groups::new(lists, &collection, &better);
            let joined: Vec<GroupPair> = joined
                .into_iter()
                .filter(|&(a, b)| a < b && (b as usize) < number)
                .map(|(a, b)| GroupPair { a: Group(a), b: Group(b), distance: 2, similarity: 0.9 })
                .collect();
            let all = groups.all_pairs(&joined).unwrap();
            let star = groups.star_pairs(&joined);
            prop_assert_eq!(all.len() as u64, groups.count_pairs(&joined));
            prop_assert!(star.len() <= n + joined.len());
            let connected = groups.partition(&joined, Linkage::Connected, Verification::None, &better).clusters();
            prop_assert_eq!(connected, connect(n, &star).clusters());
            for pairs in [&all, &star] {
                prop_assert!(pairs.iter().all(|p| p.a < p.b));
                prop_assert!(pairs.is_sorted_by(|p, q| (p.a, p.b) < (q.a, q.b)));
                let same = |p: &Pair| texts[p.a.index()] == texts[p.b.index()];
                prop_assert!(pairs.iter().all(|p| p.distance == 2 || (p.kind == PairKind::Exact) == same(p)));
            }
            prop_assert!(star.iter().all(|p| all.contains(p)));
            prop_assert_eq!(connect(n, &star).clusters(), connect(n, &all).clusters());
            let different: Vec<Pair> = groups.text_pairs(&joined).unwrap();
            prop_assert!(different.iter().all(|p| all.contains(p) && p.kind == PairKind::Near));
        }
    }

    #[test]
    fn the_leader_is_the_copy_to_keep() {
        let (collection, urls) = documents(&[3, 5, 5, 1]);
        let of = |keep| {
            let all = Document::all(4).collect();
            Groups::new([all], &collection, &better(keep, &collection, &urls)).documents(Group(0)).to_vec()
        };
        assert_eq!(of(Keep::First), [0, 1, 2, 3].map(Document));
        assert_eq!(of(Keep::Longest), [1, 2, 0, 3].map(Document));
        // URL lengths are 5, 4, 3, 2.
        assert_eq!(of(Keep::ShortestUrl), [3, 2, 1, 0].map(Document));
    }

    #[test]
    fn many_copies_make_a_star_and_are_refused_as_pairs() {
        let (collection, urls) = documents(&vec![1u8; 30_000]);
        let all = Document::all(30_000).collect();
        let groups = Groups::new([all], &collection, &better(Keep::First, &collection, &urls));
        assert_eq!(groups.count_pairs(&[]), 30_000 * 29_999 / 2);
        assert_eq!(groups.star_pairs(&[]).len(), 29_999);
        assert!(groups.all_pairs(&[]).is_err());
    }
}
