//! Who belongs together, and which copy stays.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Disjoint sets of documents, joined by union-find with path halving.
///
/// A set is named by its smallest member, so the partition and its names depend on the joins alone, not on their order.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    parents: Vec<u32>,
}

impl Partition {
    /// `n` documents, each alone.
    ///
    /// # Panics
    /// If `n` is above 2³².
    pub fn singletons(n: usize) -> Self {
        Self { parents: (0..u32::try_from(n).expect("at most 2^32 documents")).collect() }
    }

    /// The smallest member of the document's set.
    pub fn find(&mut self, document: u32) -> u32 {
        let mut at = document;
        loop {
            let parent = self.parents[at as usize];
            let grandparent = self.parents[parent as usize];
            if parent == grandparent {
                return parent;
            }
            self.parents[at as usize] = grandparent;
            at = grandparent;
        }
    }

    /// Joins the sets of two documents; says whether they were apart.
    pub fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        let (low, high) = (a.min(b), a.max(b));
        self.parents[high as usize] = low;
        a != b
    }

    /// Joins whatever `other`, a partition of the same documents, joins.
    ///
    /// # Panics
    /// If the numbers of documents differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.parents.len(), other.parents.len(), "partitions of the same documents");
        for (document, &parent) in (0..).zip(&other.parents) {
            self.join(document, parent);
        }
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The sets of two members or more, in order of their smallest members, members ascending.
    pub fn clusters(&mut self) -> Clusters {
        let n = self.len() as u32;
        let roots: Vec<u32> = (0..n).map(|document| self.find(document)).collect();
        let mut sizes = vec![0u32; roots.len()];
        roots.iter().for_each(|&root| sizes[root as usize] += 1);
        let mut clusters = Clusters { starts: vec![0], members: Vec::new() };
        // Where the next member of each root's cluster goes.
        let mut next = vec![0u32; roots.len()];
        let mut total = 0;
        for (root, &size) in sizes.iter().enumerate() {
            if size >= 2 {
                next[root] = total;
                total += size;
                clusters.starts.push(total);
            }
        }
        clusters.members = vec![0; total as usize];
        for (document, &root) in (0..).zip(&roots) {
            if sizes[root as usize] >= 2 {
                let place = &mut next[root as usize];
                clusters.members[*place as usize] = document;
                *place += 1;
            }
        }
        clusters
    }
}

/// Clusters of two documents or more, numbered from 0 in order of their smallest members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clusters {
    /// `starts[c]..starts[c + 1]` is cluster `c`'s part of `members`.
    starts: Vec<u32>,
    members: Vec<u32>,
}

impl Clusters {
    /// The members of every cluster, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.starts.windows(2).map(|range| &self.members[range[0] as usize..range[1] as usize])
    }

    /// Number of clusters.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there is no cluster.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of documents in clusters.
    pub fn documents(&self) -> usize {
        self.members.len()
    }
}

/// Which document of a cluster stays. Ties go to the first, so it is always the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// The first in the order of the sorted input files.
    #[default]
    First,
    /// The one with the longest text, in bytes.
    Longest,
    /// The one with the shortest URL, in bytes, then the first in the order of URLs; those without one come last.
    ShortestUrl,
}

impl Keep {
    /// Orders two documents, given as text length and URL; the lesser one is the better one to keep.
    pub fn compare(self, a: (u64, Option<&str>), b: (u64, Option<&str>)) -> Ordering {
        match self {
            Self::First => Ordering::Equal,
            Self::Longest => b.0.cmp(&a.0),
            Self::ShortestUrl => {
                let rank = |url: Option<&str>| url.map_or(usize::MAX, str::len);
                rank(a.1).cmp(&rank(b.1)).then_with(|| a.1.cmp(&b.1))
            }
        }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Longest => "longest",
            Self::ShortestUrl => "shortest-url",
        })
    }
}

impl FromStr for Keep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::First, Self::Longest, Self::ShortestUrl]
            .into_iter()
            .find(|rule| rule.to_string() == text)
            .ok_or_else(|| Error::parameter("keep", text, "first, longest or shortest-url"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                prop_assert_eq!(partition.join(a, b), graph.union(a, b));
            }
            let names = naive(30, &pairs);
            prop_assert_eq!((0..30).map(|d| partition.find(d)).collect::<Vec<_>>(), names.clone());

            let clusters = partition.clusters();
            let mut want: Vec<Vec<u32>> = (0..30)
                .map(|root| (0..30).filter(|&d| names[d as usize] == root).collect())
                .collect();
            want.retain(|members: &Vec<u32>| members.len() >= 2);
            prop_assert_eq!(clusters.iter().map(<[u32]>::to_vec).collect::<Vec<_>>(), want.clone());
            prop_assert_eq!(clusters.len(), want.len());
            prop_assert_eq!(clusters.documents(), want.iter().map(Vec::len).sum::<usize>());
        }

        #[test]
        fn merging_is_joining_both(
            a in prop::collection::vec((0u32..20, 0u32..20), 0..15),
            b in prop::collection::vec((0u32..20, 0u32..20), 0..15),
        ) {
            let of = |pairs: &[(u32, u32)]| {
                let mut partition = Partition::singletons(20);
                pairs.iter().for_each(|&(a, b)| { partition.join(a, b); });
                partition
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged.clusters(), of(&[a, b].concat()).clusters());
        }
    }

    #[test]
    fn no_documents() {
        let clusters = Partition::singletons(0).clusters();
        assert_eq!((clusters.len(), clusters.iter().len(), clusters.is_empty()), (0, 0, true));
    }

    #[test]
    fn which_copy_stays() {
        let less = |rule: Keep, a, b| rule.compare(a, b) == Ordering::Less;
        assert!(less(Keep::Longest, (9, None), (3, Some("a"))));
        assert!(less(Keep::ShortestUrl, (1, Some("bb")), (9, Some("aaa"))));
        assert!(less(Keep::ShortestUrl, (1, Some("aa")), (9, Some("bb"))));
        assert!(less(Keep::ShortestUrl, (1, Some("aaaa")), (9, None)));
        assert_eq!(Keep::First.compare((1, Some("b")), (9, Some("a"))), Ordering::Equal);
        for rule in [Keep::First, Keep::Longest, Keep::ShortestUrl] {
            assert_eq!(rule.to_string().parse::<Keep>().unwrap(), rule);
        }
        assert!("best".parse::<Keep>().is_err());
    }
}
