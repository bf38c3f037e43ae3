//! B-cubed precision, recall and F1: clusters judged document by document.

use super::interval::{Bootstrap, Interval, wilson};
use super::partition::{Contingency, Partition};
use serde::{Deserialize, Serialize};

/// B-cubed scores over a set of documents. A figure is `None` without documents. An interval is `None` as well with
/// fewer than two groups of documents (see [`BCubed`]), or without resamples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BCubedScore {
    /// The number of documents of the set: the denominator of precision and recall.
    pub documents: u64,
    /// Mean over documents of the share of their result cluster that is of their truth cluster.
    pub precision: Option<f64>,
    /// Interval of 95 % of the precision.
    pub precision_interval: Option<Interval>,
    /// Mean over documents of the share of their truth cluster that is in their result cluster.
    pub recall: Option<f64>,
    /// Interval of 95 % of the recall.
    pub recall_interval: Option<Interval>,
    /// Harmonic mean of precision and recall.
    pub f1: Option<f64>,
    /// Interval of 95 % of F1.
    pub f1_interval: Option<Interval>,
}

/// B-cubed (Bagga and Baldwin 1998; named so in Amigó and others 2009), over two sets of documents.
///
/// For a document d with truth cluster t(d) and result cluster f(d): precision(d) = |t(d) ∩ f(d)| / |f(d)|,
/// recall(d) = |t(d) ∩ f(d)| / |t(d)|; d itself is in all of them.
///
/// Intervals are a percentile bootstrap over groups of documents that clusters of truth or result connect. Documents
/// that are alone in both are not resampled. Where all resamples agree (all groups are right), intervals are Wilson's.
/// The trials are then (Σ n)² / Σ n² for groups of n documents, as if each group were right or wrong as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BCubed {
    /// Over all documents. Documents that are alone in both count as right, so it is near 1
    /// for any document collection.
    pub all: BCubedScore,
    /// Over the documents that have a partner in the truth or in the result: the figure to look at.
    pub clustered: BCubedScore,
}

/// Sums over documents that have a partner: documents, precisions, recalls.
type Sums = [f64; 3];

fn ratios([documents, precision, recall]: Sums) -> [Option<f64>; 3] {
    if documents <= 0.0 {
        return [None; 3];
    }
    let (p, r) = (precision / documents, recall / documents);
    // Both are above 0: every document is in its own clusters.
    [Some(p), Some(r), Some(2.0 * p * r / (p + r))]
}

impl BCubed {
    /// The scores of the clusterings that `table` compares. `groups` is the clustering by the documents that are
    /// together in truth or result, and `bootstrap` says how the intervals are made.
    pub fn new(table: &Contingency, groups: &Partition, bootstrap: &Bootstrap) -> Self {
        let mut by_group: Vec<(u32, Sums)> = Vec::new();
        let mut alone = 0u64;
        for &(t, f, n) in &table.cells {
            let (truth, found) = (table.truth[t as usize], table.found[f as usize]);
            if truth == 1 && found == 1 {
                alone += 1;
                continue;
            }
            let n = n as f64;
            // t is a document of the group: labels are documents.
            by_group
                .push((groups.labels()[t as usize], [n, n * n / f64::from(found), n * n / f64::from(truth)]));
        }
        by_group.sort_by_key(|x| x.0);
        let units: Vec<Sums> = by_group
            .chunk_by(|a, b| a.0 == b.0)
            .map(|cells| cells.iter().fold([0.0; 3], |sum, (_, x)| std::array::from_fn(|i| sum[i] + x[i])))
            .collect();
        let sums = units.iter().fold([0.0; 3], |sum: Sums, x| std::array::from_fn(|i| sum[i] + x[i]));
        let both = |s: &Sums| {
            let [a, b, c] = ratios(s.map(|x| x + alone as f64));
            let [d, e, f] = ratios(*s);
            [a, b, c, d, e, f]
        };
        let values = both(&sums);
        let mut intervals = bootstrap.intervals(&units, both);
        let squares: f64 = units.iter().map(|u| u[0] * u[0]).sum();
        let trials = sums[0] * sums[0] / squares;
        let share = sums[0] / (sums[0] + alone as f64);
        for i in 0..3 {
            if let Some((value, _)) = values[3 + i].zip(intervals[3 + i]).filter(|(_, i)| i.low == i.high) {
                let wide = wilson(value * trials, trials);
                // Documents that are alone are right: they pull both ends towards 1.
                let lift = |x: f64| share * x + (1.0 - share);
                intervals[i] = wide.map(|w| Interval { low: lift(w.low), high: lift(w.high) });
                intervals[3 + i] = wide;
            }
        }
        let score = |documents: u64, at: usize| BCubedScore {
            documents,
            precision: values[at],
            precision_interval: intervals[at],
            recall: values[at + 1],
            recall_interval: intervals[at + 1],
            f1: values[at + 2],
            f1_interval: intervals[at + 2],
        };
        Self { all: score(table.documents(), 0), clustered: score(table.documents() - alone, 3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn score(truth: &[u8], found: &[u8]) -> BCubed {
        let (t, f) = (Partition::from_keys(truth), Partition::from_keys(found));
        let joins = t.joins().chain(f.joins());
        let groups = Partition::from_pairs(truth.len() as u32, joins);
        BCubed::new(&Contingency::new(&t, &f), &groups, &Bootstrap { resamples: 50, seed: 1 })
    }

    /// The twin, by the definition: document by document, with all others.
    fn naive(truth: &[u8], found: &[u8], counts: impl Fn(usize) -> bool) -> [Option<f64>; 3] {
        let (mut sums, n) = ([0.0; 3], truth.len());
        for d in (0..n).filter(|&d| counts(d)) {
            let both = (0..n).filter(|&e| truth[d] == truth[e] && found[d] == found[e]).count() as f64;
            sums[0] += 1.0;
            sums[1] += both / (0..n).filter(|&e| found[d] == found[e]).count() as f64;
            sums[2] += both / (0..n).filter(|&e| truth[d] == truth[e]).count() as f64;
        }
        let [n, p, r] = [sums[0], sums[1] / sums[0], sums[2] / sums[0]];
        if n == 0.0 { [None; 3] } else { [Some(p), Some(r), Some(2.0 / (1.0 / p + 1.0 / r))] }
    }

    #[test]
    fn by_hand() {
        // Truth {0,1,2} {3,4}, found {0,1} {2,3,4}: precision (1+1+1/3+2/3+2/3)/5, recall
        // (2/3+2/3+1/3+1+1)/5.
        let got = score(&[0, 0, 0, 1, 1], &[0, 0, 1, 1, 1]).all;
        assert!((got.precision.unwrap() - 11.0 / 15.0).abs() < 1e-12);
        assert!((got.recall.unwrap() - 11.0 / 15.0).abs() < 1e-12);
        let equal = score(&[0, 0, 1, 2, 2], &[5, 5, 3, 1, 1]);
        assert_eq!((equal.all.f1, equal.clustered.f1, equal.clustered.documents), (Some(1.0), Some(1.0), 4));
        let interval = equal.clustered.f1_interval.unwrap();
        assert!(interval.low < 0.5 && interval.high == 1.0, "two right clusters are no proof: {interval:?}");
        assert!(equal.all.f1_interval.unwrap().low > interval.low);
        let alone = score(&[0, 1], &[0, 1]);
        assert_eq!((alone.all.f1, alone.clustered.f1), (Some(1.0), None));
        assert_eq!(score(&[], &[]).all.f1, None);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(keys in prop_oneof![
            prop::collection::vec((0u8..3, 0u8..3), 0..40),
            prop::collection::vec((0u8..40, 0u8..40), 0..40),
            prop::collection::vec((0u8..1, 0u8..9), 0..40),
        ]) {
            let (truth, found): (Vec<u8>, Vec<u8>) = keys.into_iter().unzip();
            let got = score(&truth, &found);
            let paired = |d: usize| {
                (0..truth.len()).any(|e| e != d && (truth[d] == truth[e] || found[d] == found[e]))
            };
            for (got, want) in [
                (got.all, naive(&truth, &found, |_| true)),
                (got.clustered, naive(&truth, &found, paired)),
            ] {
                for (x, y) in [got.precision, got.recall, got.f1].into_iter().zip(want) {
                    prop_assert_eq!(x.is_some(), y.is_some());
                    prop_assert!((x.unwrap_or(0.0) - y.unwrap_or(0.0)).abs() < 1e-12);
                }
            }
        }
    }
}
