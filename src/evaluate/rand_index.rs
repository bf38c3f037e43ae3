//! The adjusted Rand index: agreement of two clusterings, less what chance would give.

use super::partition::{Contingency, pairs_of};
use serde::{Deserialize, Serialize};

/// The Rand index, bare and adjusted, with the counts behind both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandIndex {
    /// Documents compared.
    pub documents: u64,
    /// All pairs of these documents: the denominator of the bare index.
    pub pairs: u64,
    /// Pairs that are in one cluster of the truth and in one of the result.
    pub together_in_both: u64,
    /// Pairs that are in one cluster of the truth.
    pub together_in_truth: u64,
    /// Pairs that are in one cluster of the result.
    pub together_in_result: u64,
    /// The bare index: the share of pairs on which both agree (Rand 1971). Near 1 for any two clusterings into small
    /// clusters, because nearly all pairs are apart in both: a figure to distrust on web pages.
    pub rand: Option<f64>,
    /// The adjusted index (Hubert and Arabie 1985): 1 for equal clusterings, 0 on average by
    /// chance, below 0 for worse.
    pub adjusted: Option<f64>,
}

impl RandIndex {
    /// Both indices of the clusterings that `table` compares. Let S = Σ C(n_tf, 2) over the cells, T and F the same
    /// sums over the clusters of truth and result, and N = C(n, 2). Then:
    ///
    /// - adjusted = (S − T·F/N) / ((T + F)/2 − T·F/N),
    /// - bare = (N + 2S − T − F) / N.
    ///
    /// Where the denominator of the adjusted index is 0 (both clusterings are all clusters of one, or both
    /// one cluster) they are equal, and it is 1. Both are `None` for fewer than two documents.
    pub fn new(table: &Contingency) -> Self {
        let sum = |sizes: &[u32]| sizes.iter().map(|&n| pairs_of(u64::from(n))).sum::<u64>();
        let (truth, result) = (sum(&table.truth), sum(&table.found));
        let both = table.cells.iter().map(|c| pairs_of(c.2)).sum::<u64>();
        let pairs = pairs_of(table.documents());
        let (s, t, f, n) = (both as f64, truth as f64, result as f64, pairs as f64);
        let indices = (pairs > 0).then(|| {
            let chance = t * f / n;
            let room = (t + f) / 2.0 - chance;
            // Exact: T·F/N is the mean only if T = F = 0 or T = F = N.
            let equal = truth == result && (truth == 0 || truth == pairs);
            ((n + 2.0 * s - t - f) / n, if equal { 1.0 } else { (s - chance) / room })
        });
        Self {
            documents: table.documents(),
            pairs,
            together_in_both: both,
            together_in_truth: truth,
            together_in_result: result,
            rand: indices.map(|i| i.0),
            adjusted: indices.map(|i| i.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::partition::Partition;
    use proptest::prelude::*;

    fn index(truth: &[u8], found: &[u8]) -> RandIndex {
        RandIndex::new(&Contingency::new(&Partition::from_keys(truth), &Partition::from_keys(found)))
    }

    /// The twin: all pairs, one by one, and the formula in the counts of agreement (Steinley 2004).
    fn naive(truth: &[u8], found: &[u8]) -> Option<(f64, f64)> {
        let (mut a, mut b, mut c, mut d) = (0.0, 0.0, 0.0, 0.0);
        for i in 0..truth.len() {
            for j in 0..i {
                match (truth[i] == truth[j], found[i] == found[j]) {
                    (true, true) => a += 1.0,
                    (true, false) => b += 1.0,
                    (false, true) => c += 1.0,
                    (false, false) => d += 1.0,
                }
            }
        }
        let n: f64 = a + b + c + d;
        let chance = (a + b) * (a + c) + (c + d) * (b + d);
        let adjusted = if n * n == chance { 1.0 } else { (n * (a + d) - chance) / (n * n - chance) };
        (n > 0.0).then(|| ((a + d) / n, adjusted))
    }

    #[test]
    fn known_values() {
        // scikit-learn's documentation of adjusted_rand_score.
        assert!((index(&[0, 0, 1, 2], &[0, 0, 1, 1]).adjusted.unwrap() - 0.571_428).abs() < 1e-5);
        assert_eq!(index(&[0, 0, 1, 1], &[1, 1, 0, 0]).adjusted, Some(1.0));
        assert_eq!(index(&[0, 0, 0, 0], &[0, 1, 2, 3]).adjusted, Some(0.0));
        assert!((index(&[0, 0, 1, 1], &[0, 1, 0, 1]).adjusted.unwrap() + 0.5).abs() < 1e-12);
        assert_eq!(index(&[], &[]).adjusted, None);
        assert_eq!(index(&[0], &[0]).rand, None);
        assert_eq!(index(&[0, 1], &[0, 1]).adjusted, Some(1.0));
    }

    proptest! {
        #[test]
        fn agrees_with_all_pairs(keys in prop_oneof![
            prop::collection::vec((0u8..3, 0u8..3), 0..40),
            prop::collection::vec((0u8..40, 0u8..40), 0..40),
            prop::collection::vec((0u8..1, 0u8..9), 0..40),
        ]) {
            let (truth, found): (Vec<u8>, Vec<u8>) = keys.into_iter().unzip();
            let got = index(&truth, &found);
            match naive(&truth, &found) {
                None => prop_assert!(got.rand.is_none() && got.adjusted.is_none()),
                Some((rand, adjusted)) => {
                    prop_assert!((got.rand.unwrap() - rand).abs() < 1e-12);
                    prop_assert!((got.adjusted.unwrap() - adjusted).abs() < 1e-9, "{:?} {}", got, adjusted);
                }
            }
        }
    }
}
