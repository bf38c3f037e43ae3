//! Precision, recall and F1 on pairs of documents.

use super::interval::{self, Bootstrap, Interval};
use super::partition::{Contingency, Partition, pairs_of};
use crate::id::{Document, Id};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

/// A relation of documents 0..n: the pairs that are near-duplicates by a truth, or by a result.
pub enum Relation<'a> {
    /// These, each once, with a < b, in ascending order.
    Pairs(&'a [(Document, Document)]),
    /// The pairs that are in one cluster. Never written out: a cluster of m documents stands for m(m−1)/2 pairs.
    Clusters(&'a Partition),
}

impl Relation<'_> {
    /// Enough pairs of the relation to connect all documents that it connects.
    fn joins(&self) -> Box<dyn Iterator<Item = (Document, Document)> + '_> {
        match self {
            Self::Pairs(pairs) => Box::new(pairs.iter().copied()),
            Self::Clusters(partition) => Box::new(partition.joins()),
        }
    }

    /// Calls `add` with labels of groups and numbers of pairs, whose sum for a label is the pairs of that group.
    fn count(&self, groups: &Partition, mut add: impl FnMut(u32, u64)) {
        match self {
            Self::Pairs(pairs) => pairs.iter().for_each(|p| add(groups.labels()[p.0.index()], 1)),
            Self::Clusters(partition) => {
                for (label, &size) in (0..).zip(&partition.sizes()) {
                    if size > 1 {
                        add(groups.labels()[label as usize], pairs_of(u64::from(size)));
                    }
                }
            }
        }
    }
}

/// The groups of documents that either relation connects: no pair of either goes from one group to another.
pub fn groups(documents: u32, truth: &Relation<'_>, found: &Relation<'_>) -> Partition {
    Partition::from_pairs(documents, truth.joins().chain(found.joins()))
}

/// The pairs of one group, or of all: those in both relations, in the result, in the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RelationCounts {
    both: u64,
    found: u64,
    truth: u64,
}

/// Counts every group that has a pair. Pairs in `ignored` (in order, none of them in the
/// truth) do not count as found.
fn count(
    groups: &Partition,
    truth: &Relation<'_>,
    found: &Relation<'_>,
    ignored: &[(Document, Document)],
) -> Vec<RelationCounts> {
    let mut by_group: HashMap<u32, RelationCounts> = HashMap::new();
    truth.count(groups, |group, n| by_group.entry(group).or_default().truth += n);
    found.count(groups, |group, n| by_group.entry(group).or_default().found += n);
    let of_pair = |pair: &(Document, Document)| groups.labels()[pair.0.index()];
    let has = |relation: &Relation<'_>, pair: &(Document, Document)| match relation {
        Relation::Pairs(pairs) => pairs.binary_search(pair).is_ok(),
        Relation::Clusters(partition) => partition.together(pair.0, pair.1),
    };
    match (truth, found) {
        (Relation::Clusters(t), Relation::Clusters(f)) => {
            for (cluster, _, n) in Contingency::new(t, f).cells {
                if n > 1 {
                    by_group.entry(groups.labels()[cluster as usize]).or_default().both += pairs_of(n);
                }
            }
        }
        (Relation::Pairs(pairs), other) | (other, Relation::Pairs(pairs)) => {
            for pair in pairs.iter().filter(|pair| has(other, pair)) {
                by_group.entry(of_pair(pair)).or_default().both += 1;
            }
        }
    }
    for pair in ignored.iter().filter(|pair| has(found, pair)) {
        by_group.entry(of_pair(pair)).or_default().found -= 1;
    }
    let mut counts: Vec<(u32, RelationCounts)> = by_group.into_iter().collect();
    counts.sort_unstable_by_key(|c| c.0);
    counts.into_iter().map(|c| c.1).collect()
}

/// A proportion of pairs: a precision or a recall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// numerator / denominator; `None` if the denominator is 0, or the truth or the result lists too little for it.
    pub value: Option<f64>,
    /// Pairs in both the truth and the result (TP).
    pub numerator: u64,
    /// Pairs of the result, for a precision, or of the truth, for a recall.
    pub denominator: u64,
    /// The interval to quote: [`interval::clustered`] over groups of documents that pairs of truth or result connect.
    /// `None` with fewer than two groups that have pairs of the denominator.
    pub interval: Option<Interval>,
    /// Wilson's interval as if pairs were independent: too narrow where clusters are large.
    pub interval_if_independent: Option<Interval>,
}

/// F1 and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct F1 {
    /// 2·TP / (2·TP + FP + FN), the harmonic mean of precision and recall; `None` if there is no pair at all.
    pub value: Option<f64>,
    /// The percentile bootstrap over groups of documents that pairs of truth or result connect. Where every group has
    /// the same F1 (and the bootstrap no width), it is [`interval::clustered`] on the formula above. `None` with fewer
    /// than two groups, or without resamples.
    pub interval: Option<Interval>,
}

/// Precision, recall and F1 of the pairs of a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairScore {
    /// Pairs of the result that are pairs of the truth (TP).
    pub true_positives: u64,
    /// Pairs of the result that are not pairs of the truth (FP).
    pub false_positives: u64,
    /// Pairs of the truth that the result lacks (FN).
    pub false_negatives: u64,
    /// Groups of documents that pairs of truth or result connect. The intervals resample groups, so their number is the
    /// real sample size.
    pub groups: u64,
    /// TP / (TP + FP).
    pub precision: Share,
    /// TP / (TP + FN).
    pub recall: Share,
    /// The harmonic mean of precision and recall.
    pub f1: F1,
}

fn f1(both: f64, found: f64, truth: f64) -> Option<f64> {
    (found + truth > 0.0).then(|| 2.0 * both / (found + truth))
}

impl PairScore {
    /// Compares two relations over documents 0..`documents`. `ignored` are pairs without a judgement: in
    /// ascending order, not in the truth; they do not count as found.
    pub fn new(
        documents: u32,
        truth: &Relation<'_>,
        found: &Relation<'_>,
        ignored: &[(Document, Document)],
        bootstrap: &Bootstrap,
    ) -> Self {
        let counts = count(&groups(documents, truth, found), truth, found, ignored);
        let total = counts.iter().fold(RelationCounts::default(), |sum, c| RelationCounts {
            both: sum.both + c.both,
            found: sum.found + c.found,
            truth: sum.truth + c.truth,
        });
        let share = |whole: fn(&RelationCounts) -> u64| Share {
            value: (whole(&total) > 0).then(|| total.both as f64 / whole(&total) as f64),
            numerator: total.both,
            denominator: whole(&total),
            interval: interval::clustered(counts.iter().map(|c| (c.both as f64, whole(c) as f64))),
            interval_if_independent: interval::wilson(total.both as f64, whole(&total) as f64),
        };
        let units: Vec<[f64; 3]> =
            counts.iter().map(|c| [c.both as f64, c.found as f64, c.truth as f64]).collect();
        let [drawn] = bootstrap.intervals(&units, |&[both, found, truth]| [f1(both, found, truth)]);
        let f1 = F1 {
            value: f1(total.both as f64, total.found as f64, total.truth as f64),
            interval: drawn.and_then(|i| {
                if i.low < i.high {
                    Some(i)
                } else {
                    interval::clustered(units.iter().map(|&[both, found, truth]| (2.0 * both, found + truth)))
                }
            }),
        };
        Self {
            true_positives: total.both,
            false_positives: total.found - total.both,
            false_negatives: total.truth - total.both,
            groups: counts.iter().filter(|c| c.found + c.truth > 0).count() as u64,
            precision: share(|c| c.found),
            recall: share(|c| c.truth),
            f1,
        }
    }

    /// Sets precision and F1 to `None`, where no pair could have been wrong. The counts stay.
    pub(super) fn withdraw_precision(&mut self) {
        self.precision =
            Share { value: None, interval: None, interval_if_independent: None, ..self.precision };
        self.f1 = F1 { value: None, interval: None };
    }

    /// Sets recall and F1 to `None`, where a result lists only some of its pairs. The counts stay.
    pub(crate) fn withdraw_recall(&mut self) {
        self.recall = Share { value: None, interval: None, interval_if_independent: None, ..self.recall };
        self.f1 = F1 { value: None, interval: None };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const N: u32 = 14;

    type Pairs = BTreeSet<(Document, Document)>;

    fn pairs() -> impl Strategy<Value = Pairs> {
        let document = || (0..N).prop_map(Document);
        prop::collection::btree_set((document(), document()).prop_filter("a < b", |(a, b)| a < b), 0..40)
    }

    fn partition() -> impl Strategy<Value = Partition> {
        prop_oneof![
            prop::collection::vec(0u8..3, N as usize),
            prop::collection::vec(0u8..14, N as usize),
            prop::collection::vec(0u8..1, N as usize),
        ]
        .prop_map(Partition::from_keys)
    }

    /// The twin: all n² pairs, each asked for.
    fn check(truth: &Relation<'_>, found: &Relation<'_>, ignored: &Pairs) -> Result<(), TestCaseError> {
        let has = |r: &Relation<'_>, a: Document, b: Document| match r {
            Relation::Pairs(pairs) => pairs.contains(&(a, b)),
            Relation::Clusters(p) => p.labels()[a.index()] == p.labels()[b.index()],
        };
        let (mut tp, mut fp, mut r#fn) = (0u64, 0u64, 0u64);
        let mut ignore = Vec::new();
        for a in Document::all(N as usize) {
            for b in Document::all(N as usize).filter(|&b| a < b) {
                let known = !ignored.contains(&(a, b)) || has(truth, a, b);
                if !known {
                    ignore.push((a, b));
                }
                match (has(truth, a, b), has(found, a, b)) {
                    (true, true) => tp += 1,
                    (true, false) => r#fn += 1,
                    (false, true) if known => fp += 1,
                    _ => {}
                }
            }
        }
        let got = PairScore::new(N, truth, found, &ignore, &Bootstrap { resamples: 20, seed: 3 });
        prop_assert_eq!((got.true_positives, got.false_positives, got.false_negatives), (tp, fp, r#fn));
        let ratio = |x: u64, n: u64| (n > 0).then(|| x as f64 / n as f64);
        prop_assert_eq!(got.precision.value, ratio(tp, tp + fp));
        prop_assert_eq!(got.recall.value, ratio(tp, tp + r#fn));
        if let (Some(p), Some(r), Some(f1)) = (got.precision.value, got.recall.value, got.f1.value) {
            let harmonic = if p + r > 0.0 { 2.0 * p * r / (p + r) } else { 0.0 };
            prop_assert!((f1 - harmonic).abs() < 1e-12);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn agrees_with_all_pairs(tp in pairs(), fp in pairs(), t in partition(), f in partition(), ignored in pairs()) {
            let (tp, fp): (Vec<_>, Vec<_>) = (tp.into_iter().collect(), fp.into_iter().collect());
            for truth in [Relation::Pairs(&tp), Relation::Clusters(&t)] {
                for found in [Relation::Pairs(&fp), Relation::Clusters(&f)] {
                    check(&truth, &found, &ignored)?;
                    check(&truth, &found, &Pairs::new())?;
                }
            }
        }
    }

    #[test]
    fn nothing_found_and_nothing_to_find() {
        let score = |t: &[(u32, u32)], f: &[(u32, u32)]| {
            let [t, f] = [t, f]
                .map(|pairs| -> Vec<_> { pairs.iter().map(|&(a, b)| (Document(a), Document(b))).collect() });
            PairScore::new(4, &Relation::Pairs(&t), &Relation::Pairs(&f), &[], &Bootstrap::default())
        };
        let none = score(&[], &[]);
        assert_eq!((none.precision.value, none.recall.value, none.f1.value), (None, None, None));
        let blind = score(&[(0, 1)], &[]);
        assert_eq!((blind.precision.value, blind.recall.value, blind.f1.value), (None, Some(0.0), Some(0.0)));
        let right = score(&[(0, 1), (2, 3)], &[(0, 1), (2, 3)]);
        assert_eq!((right.f1.value, right.groups), (Some(1.0), 2));
        let interval = right.f1.interval.unwrap();
        assert!(interval.low < 0.5 && interval.high == 1.0, "two groups prove little: {interval:?}");
    }

    #[test]
    fn one_big_cluster_is_one_observation() {
        let truth = Partition::from_keys((0..100).map(|i| i / 50));
        let score = PairScore::new(
            100,
            &Relation::Clusters(&truth),
            &Relation::Clusters(&truth),
            &[],
            &Bootstrap::default(),
        );
        assert_eq!((score.true_positives, score.groups), (2 * 1225, 2));
        let recall = score.recall;
        assert!(recall.interval_if_independent.unwrap().low > 0.99);
        assert!(recall.interval.unwrap().low < 0.5);
    }
}
