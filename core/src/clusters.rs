//! Clusters of near-duplicates, and the choice of the document that each of them keeps.

use crate::error::{Error, Result};
use crate::id::{Cluster, Document, Id, Lists};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Disjoint sets of ids of type `K`, joined by union-find with path halving.
///
/// A set is named by its smallest member, so the partition and its names depend on the joins
/// alone, not on their order.
#[derive(Clone, Debug, Default)]
pub struct Partition<K = Document> {
    parents: Vec<K>,
}

impl<K: Id> Partition<K> {
    /// The first `n` ids, each alone.
    ///
    /// # Panics
    /// If `n` is above 2³².
    pub fn singletons(n: usize) -> Self {
        Self { parents: K::all(n).collect() }
    }

    /// The smallest member of the set that `member` is in.
    ///
    /// # Panics
    /// If `member` is not among those that the partition was made of.
    pub fn find(&mut self, member: K) -> K {
        let mut at = member;
        loop {
            let parent = self.parents[at.index()];
            let grandparent = self.parents[parent.index()];
            if parent == grandparent {
                return parent;
            }
            self.parents[at.index()] = grandparent;
            at = grandparent;
        }
    }

    /// Joins the sets of two members. True if they were in different sets before.
    ///
    /// # Panics
    /// If one of them is not among those that the partition was made of.
    pub fn join(&mut self, a: K, b: K) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        let (low, high) = (a.min(b), a.max(b));
        self.parents[high.index()] = low;
        a != b
    }

    /// Number of members of all sets.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// True if there is no member at all.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The sets of two members or more, in order of their smallest members, members ascending.
    pub fn clusters(&mut self) -> Lists<Cluster, K> {
        /// In place of where members go, for a set of one.
        const ALONE: u32 = u32::MAX;
        let n = self.len();
        let roots: Vec<K> = K::all(n).map(|member| self.find(member)).collect();
        // The size of each root's set; then where the next member of its cluster goes.
        let mut next = vec![0u32; n];
        roots.iter().for_each(|root| next[root.index()] += 1);
        let (mut ends, mut total) = (Vec::new(), 0);
        for next in &mut next {
            let size = *next;
            *next = if size >= 2 { total } else { ALONE };
            if size >= 2 {
                total += size;
                ends.push(total);
            }
        }
        let mut members = vec![K::new(0); total as usize];
        for (member, root) in K::all(n).zip(&roots) {
            let place = &mut next[root.index()];
            if *place != ALONE {
                members[*place as usize] = member;
                *place += 1;
            }
        }
        Lists::from_parts(ends, members)
    }
}

/// The linkage of near pairs into clusters. Being near is not transitive: A may be near B, and B near C, with A and C
/// far apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Linkage {
    /// A cluster is all documents that are connected by chains of pairs that were compared and found near. Nothing
    /// bounds the length of a chain.
    Connected,
    /// A cluster is a star around the kept document: every other member is near that very document. It is the default,
    /// since it removes nothing but documents that are near a kept one. By most measures documents of similarity 1 are
    /// the same ([`ones_are_same`](crate::settings::Verification::ones_are_same)). Of very many such documents not all
    /// pairs are compared: one that no leader was compared with joins the cluster of one that is the same.
    #[default]
    Star,
}

/// The similarity from which on verification takes two documents for the same.
pub(crate) const SAME: f32 = 1.0;

/// Pairs of nodes that are the same, but were not compared. Nodes of similarity 1 are the same; of very many such nodes
/// each is compared with a few alone. `edges` are the compared near pairs with their similarity.
///
/// Each node is paired, with similarity 1, with the earliest node in `order` that is the same as one that is the same
/// as it. A node gets no pair if it was compared with one as early.
pub(crate) fn same_pairs<N: Id>(
    order: &[N],
    edges: impl Iterator<Item = (N, N, f32)> + Clone,
) -> Vec<(N, N, f32)> {
    let same = edges.filter(|&(.., similarity)| similarity == SAME).map(|(a, b, _)| (a, b));
    if same.clone().next().is_none() {
        return Vec::new();
    }
    let mut rank = vec![0u32; order.len()];
    (0..).zip(order).for_each(|(place, node)| rank[node.index()] = place);
    // The earliest that each node knows of, from what those know that are the same.
    let from_others = |known: &[u32]| {
        let mut earliest = known.to_vec();
        for (a, b) in same.clone() {
            let [a, b] = [a.index(), b.index()];
            earliest[a] = earliest[a].min(known[b]);
            earliest[b] = earliest[b].min(known[a]);
        }
        earliest
    };
    let first = from_others(&rank);
    let second = from_others(&first);
    let later = N::all(order.len()).filter(|node| second[node.index()] < first[node.index()]);
    later.map(|node| (order[second[node.index()] as usize], node, SAME)).collect()
}

#[doc(hidden)]
impl Linkage {
    /// The command line's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Star => "star",
        }
    }

    /// Gives, by node, the leader of the node's cluster; a leader has itself. The leader is the first in `order` of its
    /// cluster. `order` holds every node once, the best to keep first; `edges` are near pairs with their similarity,
    /// each once.
    ///
    /// Star takes the nodes in that order. A node that is near leaders joins the most similar one, the earlier one
    /// among equals; any other node leads. The result depends on the graph and on `order` alone.
    ///
    /// # Panics
    /// If an edge names a node that `order` does not have.
    pub fn link<N: Id>(self, order: &[N], edges: &[(N, N, f32)]) -> Vec<N> {
        self.link_all(order, edges.iter().copied(), false)
    }

    /// [`link`](Self::link) for edges that need not be in a list: they are gone through twice at most. If
    /// `ones_are_same`, nodes of similarity 1 are the same, and a node near one of them is near the other. Then a node
    /// of a star that is near no leader joins the cluster of the earliest node that it is the same as.
    pub(crate) fn link_all<N: Id>(
        self,
        order: &[N],
        edges: impl Iterator<Item = (N, N, f32)> + Clone,
        ones_are_same: bool,
    ) -> Vec<N> {
        let n = order.len();
        if self == Self::Connected {
            let mut partition = Partition::singletons(n);
            for (a, b, _) in edges {
                partition.join(a, b);
            }
            let mut leaders: Vec<N> = N::all(n).collect();
            // Backwards, so that the first of the order has the last word.
            for &node in order.iter().rev() {
                leaders[partition.find(node).index()] = node;
            }
            return N::all(n).map(|node| leaders[partition.find(node).index()]).collect();
        }
        let mut rank = vec![0u32; n];
        (0..).zip(order).for_each(|(place, node)| rank[node.index()] = place);
        // For each node its neighbours of lower rank, in lists one after the other.
        let later = |a: N, b: N| if rank[a.index()] > rank[b.index()] { (a, b) } else { (b, a) };
        let mut starts = vec![0usize; n + 1];
        edges.clone().for_each(|(a, b, _)| starts[later(a, b).0.index() + 1] += 1);
        for node in 0..n {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut before = vec![(N::new(0), 0f32); starts[n]];
        for (a, b, similarity) in edges {
            let (node, neighbour) = later(a, b);
            before[next[node.index()]] = (neighbour, similarity);
            next[node.index()] += 1;
        }
        let mut leader: Vec<N> = N::all(n).collect();
        for &node in order {
            let neighbours = &before[starts[node.index()]..starts[node.index() + 1]];
            let leaders = neighbours.iter().filter(|&&(other, _)| leader[other.index()] == other);
            let best =
                leaders.max_by(|a, b| a.1.total_cmp(&b.1).then(rank[b.0.index()].cmp(&rank[a.0.index()])));
            let of_same = || {
                let same = neighbours.iter().filter(|&&(_, similarity)| ones_are_same && similarity == SAME);
                let (first, _) = same.min_by_key(|(other, _)| rank[other.index()])?;
                Some(leader[first.index()])
            };
            if let Some(chosen) = best.map(|&(other, _)| other).or_else(of_same) {
                leader[node.index()] = chosen;
            }
        }
        leader
    }
}

/// The rule for the document of a cluster that is kept, and so for keep order. Among equals by `Fullest`, `Longest`,
/// `ShortestUrl` and `Score`, the least digest of the text decides, then the URL, then the document's number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// The first in the order in which documents were added: that of the sorted input files.
    #[default]
    First,
    /// The one with the most distinct features, then the longest text: no other member holds more of it. The default
    /// where containment decides.
    Fullest,
    /// The one with the longest text, in bytes.
    Longest,
    /// The one with the shortest URL, in bytes, then the first in the order of URLs; those without one come
    /// last.
    ShortestUrl,
    /// The one with the highest score, a number that a field or column of this name gives; those without a
    /// number come last. [`Context::scored`](crate::dedup::Context::scored) gives the scores.
    Score(String),
    /// The document whose input was named first: the caller gives documents of earlier inputs higher
    /// [scores](crate::dedup::Context::scored).
    InputOrder,
}

/// The number of documents of a cluster that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The most documents that are kept, the best by [`Keep`]: 1 or more.
    pub count: u32,
    /// The kind of source, if `count` documents of each source in a cluster are kept; none if `count` documents of the
    /// whole cluster are.
    pub each: Option<Source>,
}

impl Default for Quota {
    fn default() -> Self {
        Self { count: 1, each: None }
    }
}

#[doc(hidden)]
impl Quota {
    /// True if one document of each cluster is kept, which is the default.
    pub fn is_one(&self) -> bool {
        *self == Self::default()
    }

    /// Chooses the documents of one cluster that are kept. The cluster is a list of `documents` documents, best first,
    /// and the result is their places in it, ascending. `source` gives the number of a place's source. `is_reference`
    /// is true for the place of a reference document, which is always kept, and counts.
    ///
    /// ```
    /// use simflip_core::clusters::{Quota, Source};
    ///
    /// let hosts = [7, 7, 9, 7];
    /// let stay = |quota: Quota| quota.choose(4, |place| hosts[place], |_| false).collect::<Vec<_>>();
    /// assert_eq!(stay(Quota { count: 2, each: None }), [0, 1]);
    /// assert_eq!(stay(Quota { count: 1, each: Some(Source::Host) }), [0, 2]);
    /// ```
    pub fn choose(
        self,
        documents: usize,
        source: impl Fn(usize) -> u64,
        is_reference: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = usize> {
        let mut stay: hashbrown::HashMap<u64, u32> = hashbrown::HashMap::new();
        (0..documents).filter(move |&place| {
            let stay = stay.entry(self.each.map_or(0, |_| source(place))).or_default();
            let is_kept = is_reference(place) || *stay < self.count;
            *stay = stay.saturating_add(u32::from(is_kept));
            is_kept
        })
    }
}

/// A kind of sources of documents, for [`Quota::each`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The host of the URL; documents without one are of one source.
    Host,
    /// The input file.
    File,
    /// The folder that the input file is in.
    Folder,
}

impl Source {
    /// The command line's spelling.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::File => "file",
            Self::Folder => "folder",
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.each {
            None => write!(f, "{} of each cluster", self.count),
            Some(source) => write!(f, "{} of each {} in a cluster", self.count, source.name()),
        }
    }
}

/// The prefix of the rule [`Keep::Score`], before the field's name.
const SCORE: &str = "score:";

/// Facts of a document by which a [`Keep`] prefers one to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merits<'a> {
    /// Number of distinct features.
    pub features: u32,
    /// Length of the text in bytes.
    pub text_bytes: u64,
    /// The URL; none, or an empty one, for a document without.
    pub url: Option<&'a str>,
}

#[doc(hidden)]
impl Keep {
    /// Orders two documents; the lesser one is the better one to keep.
    ///
    /// [`First`](Self::First) and the rules by [scores](Self::by_score) find all documents equal, as their order
    /// depends on more than merits.
    pub fn compare(&self, a: Merits<'_>, b: Merits<'_>) -> Ordering {
        match self {
            Self::First | Self::Score(_) | Self::InputOrder => Ordering::Equal,
            Self::Fullest => (b.features, b.text_bytes).cmp(&(a.features, a.text_bytes)),
            Self::Longest => b.text_bytes.cmp(&a.text_bytes),
            Self::ShortestUrl => {
                // An empty one is none.
                let [a, b] = [a.url, b.url].map(|url| url.filter(|url| !url.is_empty()));
                let rank = |url: Option<&str>| url.map_or(usize::MAX, str::len);
                rank(a).cmp(&rank(b)).then_with(|| a.cmp(&b))
            }
        }
    }

    /// True if the rule goes by scores ([`Context::scored`](crate::dedup::Context::scored)).
    pub fn by_score(&self) -> bool {
        matches!(self, Self::Score(_) | Self::InputOrder)
    }

    /// The field whose numbers are the scores; none for rules other than [`Score`](Self::Score).
    pub fn score_field(&self) -> Option<&str> {
        match self {
            Self::Score(field) => Some(field),
            _ => None,
        }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("first"),
            Self::Fullest => f.write_str("fullest"),
            Self::Longest => f.write_str("longest"),
            Self::ShortestUrl => f.write_str("shortest-url"),
            Self::Score(field) => write!(f, "{SCORE}{field}"),
            Self::InputOrder => f.write_str("input-order"),
        }
    }
}

impl FromStr for Keep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(field) = text.strip_prefix(SCORE).filter(|field| !field.is_empty()) {
            return Ok(Self::Score(field.to_owned()));
        }
        [Self::First, Self::Fullest, Self::Longest, Self::ShortestUrl, Self::InputOrder]
            .into_iter()
            .find(|rule| rule.to_string() == text)
            .ok_or_else(|| {
                let expected = "first, fullest, longest, shortest-url, score:FIELD or input-order";
                Error::parameter("keep", text, expected)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Group;
    use proptest::prelude::*;

    /// The twin: names spread along the pairs until nothing changes.
    fn naive(n: u32, pairs: &[(u32, u32)]) -> Vec<u32> {
        let mut names: Vec<u32> = (0..n).collect();
        loop {
            let before = names.clone();
            for &(a, b) in pairs {
                let name = names[a as usize].min(names[b as usize]);
                (names[a as usize], names[b as usize]) = (name, name);
            }
            if names == before {
                return names;
            }
        }
    }

    proptest! {
        #[test]
        fn sets_are_the_connected_components(pairs in prop::collection::vec((0u32..30, 0u32..30), 0..40)) {
            let mut partition = Partition::singletons(30);
            let mut graph = petgraph::unionfind::UnionFind::<u32>::new(30);
            for &(a, b) in &pairs {
                prop_assert_eq!(partition.join(Document(a), Document(b)), graph.union(a, b));
            }
            let names = naive(30, &pairs);
            prop_assert_eq!(Document::all(30).map(|d| partition.find(d).0).collect::<Vec<_>>(), names.clone());

            let clusters = partition.clusters();
            let mut want: Vec<Vec<Document>> = (0..30)
                .map(|root| Document::all(30).filter(|d| names[d.index()] == root).collect())
                .collect();
            want.retain(|members: &Vec<Document>| members.len() >= 2);
            prop_assert_eq!(clusters.iter().map(<[Document]>::to_vec).collect::<Vec<_>>(), want);
        }
    }

    /// The twin of star, as its rule is stated: node by node in the order, from all that lead so far.
    fn leaders_by_the_rule(
        order: &[Group],
        edges: &[(Group, Group, f32)],
        ones_are_same: bool,
    ) -> Vec<Group> {
        let near = |a: Group, b: Group| {
            edges.iter().find(|e| (e.0, e.1) == (a, b) || (e.0, e.1) == (b, a)).map(|e| e.2)
        };
        let mut clusters: Vec<Vec<Group>> = Vec::new();
        for &node in order {
            // The cluster of the first node that is the same.
            let of_same = || {
                let mut placed = order.iter().take_while(|&&other| other != node);
                let first = placed.find(|&&other| near(node, other) == Some(1.0))?;
                clusters.iter().position(|members| members.contains(first)).map(|at| (1.0, at))
            };
            let mut best: Option<(f32, usize)> = None;
            for (at, members) in clusters.iter().enumerate() {
                let joins = near(node, members[0]);
                if let Some(similarity) = joins.filter(|&s| best.is_none_or(|(most, _)| s > most)) {
                    best = Some((similarity, at));
                }
            }
            if ones_are_same {
                best = best.or_else(of_same);
            }
            match best {
                Some((_, at)) => clusters[at].push(node),
                None => clusters.push(vec![node]),
            }
        }
        let mut leaders = order.to_vec();
        for members in &clusters {
            members.iter().for_each(|member| leaders[member.index()] = members[0]);
        }
        leaders
    }

    proptest! {
        #[test]
        fn linkages_take_nodes_as_their_rules_say(
            // Dense, and of few similarities: many ties.
            pairs in prop::collection::btree_map((0u32..9, 0u32..9), 0u8..3, 0..60),
            order in Just(Group::all(9).collect::<Vec<Group>>()).prop_shuffle(),
        ) {
            let edges: Vec<(Group, Group, f32)> = pairs
                .iter()
                .filter(|((a, b), _)| a < b)
                .map(|(&(a, b), &s)| (Group(a), Group(b), f32::from(s) / 2.0))
                .collect();
            let mut shuffled = edges.clone();
            shuffled.reverse();
            let mut partition = Partition::singletons(9);
            edges.iter().for_each(|&(a, b, _)| { partition.join(a, b); });
            let first = |node| *order.iter().find(|&&other| partition.find(other) == partition.find(node)).unwrap();
            let connected: Vec<Group> = Group::all(9).map(first).collect();
            for edges in [&edges, &shuffled] {
                prop_assert_eq!(&Linkage::Connected.link(&order, edges), &connected);
            }
            for ones_are_same in [false, true] {
                let want = leaders_by_the_rule(&order, &edges, ones_are_same);
                for edges in [&edges, &shuffled] {
                    let got = Linkage::Star.link_all(&order, edges.iter().copied(), ones_are_same);
                    prop_assert_eq!(&got, &want, "{}", ones_are_same);
                }
            }
        }
    }

    proptest! {
        /// As texts of one sketch are compared: all with a few of them.
        #[test]
        fn of_those_that_are_the_same_one_stays(
            n in 2usize..90,
            few in prop::collection::btree_set(0u32..90, 1..9),
            order in Just(Group::all(90).collect::<Vec<Group>>()).prop_shuffle(),
            near in prop::collection::vec((0u32..90, 0u32..90), 0..9),
        ) {
            let mut edges: Vec<(Group, Group, f32)> = Vec::new();
            let with: Vec<u32> = few.into_iter().map(|at| at % n as u32).collect();
            for a in 0..n as u32 {
                edges.extend(with.iter().filter(|&&b| a != b).map(|&b| (Group(a), Group(b), SAME)));
            }
            // Some others, which may lead.
            let others = near.into_iter().filter(|&(a, b)| (a as usize) < n && b as usize >= n);
            edges.extend(others.map(|(a, b)| (Group(a), Group(b), 0.9)));
            let same = same_pairs(&order, edges.iter().copied());
            prop_assert!(same.len() < n);
            let all = edges.iter().copied().chain(same.iter().copied());
            let leaders = Linkage::Star.link_all(&order, all, true);
            let of_them = leaders.iter().enumerate().take(n);
            let stay = of_them.filter(|&(at, leader)| leader.index() == at).count();
            prop_assert!(stay <= 1, "{stay} of {n} stay");
        }
    }

    #[test]
    fn a_chain_by_each_linkage() {
        let chain: Vec<(Group, Group, f32)> = (0..5).map(|i| (Group(i), Group(i + 1), 0.9)).collect();
        let link = |linkage: Linkage, order: [u32; 6]| {
            linkage.link(&order.map(Group), &chain).iter().map(|leader| leader.0).collect::<Vec<_>>()
        };
        let order = [0, 1, 2, 3, 4, 5];
        assert_eq!(link(Linkage::Connected, order), [0; 6]);
        assert_eq!(link(Linkage::Connected, [3, 0, 2, 1, 4, 5]), [3; 6]);
        assert_eq!(link(Linkage::Star, order), [0, 0, 2, 2, 4, 4]);
        assert_eq!(link(Linkage::Star, [1, 0, 2, 3, 4, 5]), [1, 1, 1, 3, 3, 5]);
    }

    #[test]
    fn no_documents() {
        let clusters = Partition::<Document>::singletons(0).clusters();
        assert_eq!((clusters.len(), clusters.iter().len(), clusters.is_empty()), (0, 0, true));
        let sizes = |n| {
            let partition = Partition::<Document>::singletons(n);
            (partition.len(), partition.is_empty())
        };
        assert_eq!((sizes(0), sizes(1), sizes(2)), ((0, true), (1, false), (2, false)));
    }

    #[test]
    fn names_of_linkages_are_what_serde_writes() {
        for linkage in [Linkage::Connected, Linkage::Star] {
            assert_eq!(serde_json::to_string(&linkage).unwrap(), format!("\"{}\"", linkage.name()));
        }
    }

    #[test]
    fn how_many_stay() {
        let hosts = [7, 7, 9, 7, 9];
        let stay = |quota: Quota, old: &[usize]| -> Vec<usize> {
            quota.choose(5, |place| hosts[place], |place| old.contains(&place)).collect()
        };
        for (count, each, old, expected) in [
            (1, None, &[][..], &[0][..]),
            (2, None, &[], &[0, 1]),
            (9, None, &[], &[0, 1, 2, 3, 4]),
            (1, Some(Source::Host), &[], &[0, 2]),
            (2, Some(Source::File), &[], &[0, 1, 2, 4]),
            // Old ones stay, and count for those that come behind them.
            (1, None, &[0, 3], &[0, 3]),
            (1, None, &[3], &[0, 3]),
            (2, Some(Source::Folder), &[0, 1, 3], &[0, 1, 2, 3, 4]),
        ] {
            assert_eq!(stay(Quota { count, each }, old), expected, "{count} {each:?} {old:?}");
        }
        assert!(Quota::default().is_one());
        assert!(!Quota { count: 2, each: None }.is_one());
        assert_eq!(Quota { count: 3, each: None }.to_string(), "3 of each cluster");
        for source in [Source::Host, Source::File, Source::Folder] {
            let quota = Quota { count: 1, each: Some(source) };
            assert!(!quota.is_one());
            assert_eq!(quota.to_string(), format!("1 of each {} in a cluster", source.name()));
            assert_eq!(serde_json::to_string(&source).unwrap(), format!("\"{}\"", source.name()));
        }
    }

    #[test]
    fn which_copy_stays() {
        let merits = |(text_bytes, url)| Merits { features: 7, text_bytes, url };
        let less = |rule: Keep, a, b| rule.compare(merits(a), merits(b)) == Ordering::Less;
        let short = Merits { features: 8, ..merits((3, None)) };
        assert_eq!(Keep::Fullest.compare(short, merits((9, None))), Ordering::Less);
        assert!(less(Keep::Fullest, (9, None), (3, Some("a"))));
        assert!(less(Keep::Longest, (9, None), (3, Some("a"))));
        assert!(less(Keep::ShortestUrl, (1, Some("bb")), (9, Some("aaa"))));
        assert!(less(Keep::ShortestUrl, (1, Some("aa")), (9, Some("bb"))));
        assert!(less(Keep::ShortestUrl, (1, Some("aaaa")), (9, None)));
        assert_eq!(Keep::First.compare(merits((1, Some("b"))), merits((9, Some("a")))), Ordering::Equal);
        let by_score = Keep::Score("a:b".to_owned());
        let rules =
            [Keep::First, Keep::Fullest, Keep::Longest, Keep::ShortestUrl, Keep::InputOrder, by_score];
        for rule in rules {
            assert_eq!(rule.to_string().parse::<Keep>().unwrap(), rule);
        }
        assert_eq!(Keep::Score("votes".to_owned()).score_field(), Some("votes"));
        for (rule, by_score) in [(Keep::First, false), (Keep::Longest, false), (Keep::InputOrder, true)] {
            assert_eq!((rule.by_score(), rule.score_field()), (by_score, None));
        }
        assert!(Keep::Score("votes".to_owned()).by_score());
        assert!("best".parse::<Keep>().is_err() && "score:".parse::<Keep>().is_err());
    }
}
