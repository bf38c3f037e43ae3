//! The quality of a result: compared with a truth, or, without one, by a sample that a person judges.
//!
//! A *truth* says which pairs of documents are near-duplicates, or which clusters they form. A *result* is the pairs
//! and clusters that a run found. Both name a document by its record number, its place in the corpus, counted from 0
//! through the sorted files.
//!
//! Each metric stands in its own file with its formula. Every figure comes with the counts it was made of, its
//! denominator and an interval of 95 %.

pub mod bcubed;
pub mod corpus;
pub mod diff;
pub mod found;
pub mod interval;
pub mod judged;
pub mod pair_score;
pub mod partition;
pub mod rand_index;
pub mod truth;

use crate::display::counted;
use crate::error::{Error, Result};
use crate::id::{Document, Id};
use bcubed::{BCubed, BCubedScore};
use found::Found;
use interval::{Bootstrap, Interval};
use pair_score::{PairScore, Relation, Share};
use partition::{Contingency, Partition};
use rand_index::RandIndex;
use serde::{Deserialize, Serialize};
use std::fmt;
use truth::{Judged, PairLabel, Scope, Truth, TruthCounts, TruthFile};

/// The sets over which a comparison was made: every figure is relative to these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Denominators {
    /// All documents of the corpus.
    pub corpus: u64,
    /// Documents whose pairs count, by the scope: with [`Scope::LabelledPairs`], those of a pair that is listed as
    /// duplicate or distinct.
    pub documents: u64,
    /// The pairs about which the truth speaks.
    pub scope: Scope,
    /// The rule by which a pair counts as duplicate, in words.
    pub rule: String,
    /// Pairs of documents that count and are duplicates by the truth.
    pub duplicates: u64,
    /// Pairs that the truth says are distinct one by one. For other scopes than labelled pairs, unlisted
    /// pairs are distinct as well.
    pub listed_distinct: u64,
    /// Pairs that the truth lists as unknown; they are ignored where the result has them.
    pub listed_unknown: u64,
    /// The counts of reading the truth.
    pub truth: TruthCounts,
}

/// The counts of a result's pairs before they were scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundCounts {
    /// Pairs that the result lists.
    pub listed: u64,
    /// Of these, ignored because the truth does not speak about them: a document that does not count, or an
    /// unlisted pair where only listed ones count.
    pub outside: u64,
    /// Of these, ignored because the truth lists them as unknown.
    pub unknown: u64,
}

/// Scores of the clusters of a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterScore {
    /// Chance-adjusted agreement on pairs.
    pub rand: RandIndex,
    /// Agreement document by document.
    pub b_cubed: BCubed,
}

/// The quality of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The sets over which the figures are.
    pub denominators: Denominators,
    /// The counts of the result's pairs. `None` if it has no list of pairs.
    pub found: Option<FoundCounts>,
    /// The score of the pairs that the result lists. `None` if it has no list of pairs.
    pub pairs: Option<PairScore>,
    /// The score of the pairs that are in one cluster of the result. `None` if it has neither clusters nor pairs.
    pub cluster_pairs: Option<PairScore>,
    /// The scores of the clusters of the result. `None` as for `cluster_pairs`, and where the truth judges single pairs
    /// only.
    pub clusters: Option<ClusterScore>,
    /// The parameters of the bootstrap.
    pub bootstrap: Bootstrap,
    /// Notes that a reader needs to understand the figures.
    pub notes: Vec<String>,
}

const ONLY_LISTED: &str = "only listed pairs count: precision and recall are those of the listed pairs, and hold for the \
                           corpus only as far as these were drawn from it at random; clusters cannot be judged";

const NONE_DISTINCT: &str = "the truth lists no distinct pair, so nothing found could be wrong: there is no precision and \
                             no F1; if it lists all duplicates of the corpus, say so with the scope corpus";

const LISTS_REMOVALS: &str = "pairs.csv lists the pairs by which documents are removed, so their precision is that of the removals; \
                              recall and F1 of pairs take a run with --all-pairs, and those of clusters do not";

/// Compares a result with a truth about a corpus of `records` documents.
///
/// Pairs of the result that the truth does not know about are ignored, and counted in [`FoundCounts`]. If the result
/// has no clusters, those that follow from its pairs are scored. If the truth has pairs, its clusters are those that
/// follow from its duplicates.
///
/// # Errors
/// If a clustering is not of `records` documents, if a pair has a record number of `records` or more, or if a truth of
/// clusters has the scope [`Scope::LabelledPairs`].
pub fn evaluate(truth: &TruthFile, found: &Found, records: u32, bootstrap: Bootstrap) -> Result<Evaluation> {
    check(truth, found, records)?;
    let mut notes = Vec::new();
    let universe = Universe::new(truth, records);

    let judged: &[Judged] = if let Truth::Pairs(pairs) = &truth.truth { pairs } else { &[] };
    let [duplicates, distinct, unknown] = [PairLabel::Duplicate, PairLabel::Distinct, PairLabel::Unknown]
        .map(|judgement| {
            universe.pairs(judged.iter().filter(|p| p.judgement == judgement).map(|p| (p.a, p.b)))
        });
    let truth_clusters = match &truth.truth {
        Truth::Pairs(_) => Partition::from_pairs(universe.documents, duplicates.iter().copied()),
        Truth::Clusters { clusters, .. } => universe.partition(clusters),
    };
    let truth_relation = match &truth.truth {
        Truth::Pairs(_) => Relation::Pairs(&duplicates),
        Truth::Clusters { .. } => Relation::Clusters(&truth_clusters),
    };

    let judged_only = truth.scope == Scope::LabelledPairs;
    let mut found_counts = None;
    let mut pairs = found.pairs.as_ref().map(|pairs| {
        let mut kept = universe.pairs(pairs.iter().map(|p| (p.a, p.b)));
        let is_unknown = |pair: &(Document, Document)| unknown.binary_search(pair).is_ok();
        let unknown_found = kept.iter().filter(|p| is_unknown(p)).count() as u64;
        kept.retain(|p| !is_unknown(p));
        if judged_only {
            kept.retain(|p| duplicates.binary_search(p).is_ok() || distinct.binary_search(p).is_ok());
        }
        let all = pairs.len() as u64;
        found_counts = Some(FoundCounts {
            listed: all,
            outside: all - unknown_found - kept.len() as u64,
            unknown: unknown_found,
        });
        PairScore::new(universe.documents, &truth_relation, &Relation::Pairs(&kept), &[], &bootstrap)
    });

    let found_clusters = match (&found.clusters, &found.pairs) {
        (Some(clusters), _) => Some(universe.partition(clusters)),
        (None, Some(pairs)) => {
            notes.push("the result has no clusters; judged are those that follow from its pairs".to_string());
            let joined = Partition::from_pairs(records, pairs.iter().map(|p| (p.a, p.b)));
            Some(universe.partition(&joined))
        }
        (None, None) => None,
    };
    let mut cluster_pairs = found_clusters.as_ref().map(|clusters| {
        if judged_only {
            let mut together: Vec<(Document, Document)> =
                duplicates.iter().chain(&distinct).copied().filter(|p| clusters.together(p.0, p.1)).collect();
            together.sort_unstable();
            let found = Relation::Pairs(&together);
            PairScore::new(universe.documents, &truth_relation, &found, &[], &bootstrap)
        } else {
            let found = Relation::Clusters(clusters);
            PairScore::new(universe.documents, &truth_relation, &found, &unknown, &bootstrap)
        }
    });
    let clusters = found_clusters.as_ref().filter(|_| !judged_only).map(|clusters| {
        let table = Contingency::new(&truth_clusters, clusters);
        let (t, f) = (Relation::Clusters(&truth_clusters), Relation::Clusters(clusters));
        let groups = pair_score::groups(universe.documents, &t, &f);
        ClusterScore { rand: RandIndex::new(&table), b_cubed: BCubed::new(&table, &groups, &bootstrap) }
    });

    if judged_only {
        notes.push(ONLY_LISTED.to_string());
        if distinct.is_empty() {
            pairs.iter_mut().chain(&mut cluster_pairs).for_each(PairScore::withdraw_precision);
            notes.push(NONE_DISTINCT.to_string());
        }
    } else if matches!(truth.truth, Truth::Pairs(_)) && clusters.is_some() {
        notes.push("the truth's clusters are those that follow from its duplicate pairs".to_string());
        if !unknown.is_empty() {
            notes.push("pairs of unknown label join nothing in the truth's clusters".to_string());
        }
    }
    if let Some(lowest) =
        truth.counts.lowest_score.filter(|&low| truth.min_score.is_none_or(|least| least < low))
    {
        notes.push(format!(
            "the lowest score that the truth lists is {lowest}; pairs that it left out count as distinct"
        ));
    }
    let groups = pairs.as_ref().or(cluster_pairs.as_ref()).map_or(0, |score| score.groups);
    if (1..30).contains(&groups) {
        let groups = counted(groups, "group of documents", "groups of documents");
        notes.push(format!("only {groups}: the intervals are rough"));
    }

    let duplicate_pairs = match &truth_relation {
        Relation::Pairs(pairs) => pairs.len() as u64,
        Relation::Clusters(p) => p.sizes().iter().map(|&n| partition::pairs_of(u64::from(n))).sum(),
    };
    let documents = if judged_only {
        let mut named: Vec<Document> =
            duplicates.iter().chain(&distinct).flat_map(|&(a, b)| [a, b]).collect();
        named.sort_unstable();
        named.dedup();
        named.len() as u64
    } else {
        u64::from(universe.documents)
    };
    Ok(Evaluation {
        denominators: Denominators {
            corpus: u64::from(records),
            documents,
            scope: truth.scope,
            rule: truth.rule.to_string(),
            duplicates: duplicate_pairs,
            listed_distinct: distinct.len() as u64,
            listed_unknown: unknown.len() as u64,
            truth: truth.counts,
        },
        found: found_counts,
        pairs,
        cluster_pairs,
        clusters,
        bootstrap,
        notes,
    })
}

impl Evaluation {
    /// Withdraws the recall and F1 of the listed pairs, and adds a note that says so. It is for a result that lists
    /// only the pairs by which documents are removed.
    pub(crate) fn keep_precision_of_removals(&mut self) {
        self.pairs.iter_mut().for_each(PairScore::withdraw_recall);
        self.notes.push(LISTS_REMOVALS.to_string());
    }
}

/// Truth and result must be about the same documents.
fn check(truth: &TruthFile, found: &Found, records: u32) -> Result<()> {
    if truth.scope == Scope::LabelledPairs && matches!(truth.truth, Truth::Clusters { .. }) {
        return Err(Error::parameter("scope", truth.scope, truth::SCOPE_OF_CLUSTERS));
    }
    let clusterings = if let Truth::Clusters { clusters, .. } = &truth.truth { Some(clusters) } else { None };
    for clusters in clusterings.into_iter().chain(&found.clusters) {
        if clusters.labels().len() != records as usize {
            let got = format!("a clustering of {} documents", clusters.labels().len());
            return Err(Error::parameter("truth", got, format!("one of the {records} of the corpus")));
        }
    }
    let judged = match &truth.truth {
        Truth::Pairs(pairs) => pairs.iter().map(|p| p.a.max(p.b)).max(),
        Truth::Clusters { named, .. } => named.iter().copied().max(),
    };
    match judged.max(found.pairs.iter().flatten().map(|p| p.a.max(p.b)).max()) {
        Some(record) if record.0 >= records => {
            Err(Error::parameter("truth", format!("record {record}"), format!("a number below {records}")))
        }
        _ => Ok(()),
    }
}

/// The documents whose pairs count, numbered anew without gaps, in their order.
struct Universe {
    documents: u32,
    /// The new number of every record that counts.
    numbers: Vec<Option<Document>>,
}

impl Universe {
    fn new(truth: &TruthFile, records: u32) -> Self {
        let mut counts = vec![truth.scope != Scope::LabelledDocuments; records as usize];
        let mut count = |record: Document| counts[record.index()] = true;
        match &truth.truth {
            Truth::Pairs(pairs) => pairs.iter().for_each(|p| [p.a, p.b].into_iter().for_each(&mut count)),
            Truth::Clusters { named, .. } => named.iter().copied().for_each(count),
        }
        let mut documents = 0;
        let number = |counts: bool| {
            documents += u32::from(counts);
            counts.then(|| Document(documents - 1))
        };
        let numbers = counts.into_iter().map(number).collect();
        Self { documents, numbers }
    }

    /// The pairs that count, in the new numbers. Order is kept: the numbers are.
    fn pairs(&self, pairs: impl Iterator<Item = (Document, Document)>) -> Vec<(Document, Document)> {
        pairs.filter_map(|(a, b)| self.numbers[a.index()].zip(self.numbers[b.index()])).collect()
    }

    fn partition(&self, clusters: &Partition) -> Partition {
        if self.documents as usize == self.numbers.len() {
            return clusters.clone();
        }
        let labels = clusters.labels().iter().zip(&self.numbers);
        Partition::from_keys(labels.filter(|(_, number)| number.is_some()).map(|(&label, _)| label))
    }
}

/// A figure with its interval, or a dash.
struct Figure(Option<f64>, Option<Interval>);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (None, _) => f.write_str("-"),
            (Some(value), None) => write!(f, "{value:.4}  (no interval)"),
            (Some(value), Some(i)) => write!(f, "{value:.4}  [{:.4}, {:.4}]", i.low, i.high),
        }
    }
}

fn show_pairs(f: &mut fmt::Formatter<'_>, title: &str, score: &PairScore) -> fmt::Result {
    let share = |f: &mut fmt::Formatter<'_>, name: &str, whole: &str, s: &Share| {
        let figure = Figure(s.value, s.interval).to_string();
        writeln!(f, "  {name:<10} {figure:<26} {} of {} {whole}", s.numerator, s.denominator)
    };
    let (tp, fp, missed) = (score.true_positives, score.false_positives, score.false_negatives);
    writeln!(f, "{title}: TP {tp}, FP {fp}, FN {missed}; {} independent groups", score.groups)?;
    share(f, "precision", "pairs found", &score.precision)?;
    share(f, "recall", "pairs to be found", &score.recall)?;
    writeln!(f, "  {:<10} {}", "F1", Figure(score.f1.value, score.f1.interval))
}

fn show_b_cubed(f: &mut fmt::Formatter<'_>, title: &str, score: &BCubedScore) -> fmt::Result {
    writeln!(f, "B-cubed, over {} {title}", score.documents)?;
    writeln!(f, "  precision  {}", Figure(score.precision, score.precision_interval))?;
    writeln!(f, "  recall     {}", Figure(score.recall, score.recall_interval))?;
    writeln!(f, "  F1         {}", Figure(score.f1, score.f1_interval))
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = &self.denominators;
        let duplicates = counted(d.duplicates, "duplicate pair", "duplicate pairs");
        writeln!(f, "truth: {duplicates} ({}), scope {}", d.rule, d.scope)?;
        let Denominators { listed_distinct, listed_unknown, documents, corpus, truth: t, .. } = d;
        writeln!(f, "       pairs listed as distinct: {listed_distinct}, as unknown: {listed_unknown}")?;
        writeln!(f, "documents that count: {documents} of {corpus} of the corpus")?;
        if t.rows_not_in_corpus > 0 {
            let names = counted(t.names_not_in_corpus, "name", "names");
            let (left_out, rows) = (t.rows_not_in_corpus, t.rows);
            writeln!(f, "rows of the truth left out: {left_out} of {rows} ({names} that the corpus lacks)")?;
        }
        if t.self_pairs + t.repeats + t.conflicts > 0 {
            let own = counted(t.self_pairs, "self pair", "self pairs");
            let repeats = counted(t.repeats, "repeat", "repeats");
            let conflicts = counted(t.conflicts, "conflict", "conflicts");
            writeln!(f, "in the truth: {own}, {repeats}, {conflicts}")?;
        }
        if let Some(FoundCounts { listed, outside, unknown }) = self.found {
            write!(f, "pairs of the result: {listed}; ignored: {outside} outside the truth's scope, ")?;
            writeln!(f, "{unknown} unknown")?;
        }
        let scores = [("pairs listed", &self.pairs), ("pairs within clusters", &self.cluster_pairs)];
        for (title, score) in scores {
            if let Some(score) = score {
                writeln!(f)?;
                show_pairs(f, title, score)?;
            }
        }
        if let Some(score) = &self.clusters {
            writeln!(f)?;
            show_b_cubed(f, "documents with a partner in truth or result", &score.b_cubed.clustered)?;
            show_b_cubed(f, "documents, lone ones too", &score.b_cubed.all)?;
            let adjusted = score.rand.adjusted.map_or_else(|| "-".to_string(), |value| format!("{value:.4}"));
            let pairs = counted(score.rand.pairs, "pair of documents", "pairs of documents");
            writeln!(f, "adjusted Rand index {adjusted}, over {pairs}")?;
        }
        writeln!(f, "\nintervals: 95 %")?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::found::FoundPair;
    use super::*;
    use proptest::prelude::*;

    fn truth(scope: Scope, pairs: &[(u32, u32, PairLabel)]) -> TruthFile {
        let mut judged: Vec<Judged> = pairs
            .iter()
            .map(|&(a, b, judgement)| Judged { a: Document(a), b: Document(b), judgement })
            .collect();
        judged.sort_unstable();
        TruthFile {
            truth: Truth::Pairs(judged),
            scope,
            counts: TruthCounts::default(),
            min_score: None,
            rule: truth::Rule::Label(1.0),
        }
    }

    fn found(pairs: &[(u32, u32)]) -> Found {
        let pair = |&(a, b)| FoundPair { a: Document(a), b: Document(b), distance: None, similarity: None };
        Found { pairs: Some(found::in_order(pairs.iter().map(pair).collect())), clusters: None }
    }

    fn counts(score: &PairScore) -> (u64, u64, u64) {
        (score.true_positives, score.false_positives, score.false_negatives)
    }

    use PairLabel::{Distinct, Duplicate, Unknown};

    #[test]
    fn scopes_decide_what_is_wrong() {
        let judged = [(0, 1, Duplicate), (2, 3, Distinct), (4, 5, Unknown), (6, 7, Duplicate)];
        // Right, wrong, unknown, unlisted among named documents, unlisted with an unnamed one.
        let result = found(&[(0, 1), (2, 3), (4, 5), (0, 2), (0, 9)]);
        for (scope, want, left, documents) in [
            (Scope::Corpus, (1, 3, 1), (0, 1), 10),
            (Scope::LabelledDocuments, (1, 2, 1), (1, 1), 8),
            (Scope::LabelledPairs, (1, 1, 1), (2, 1), 6),
        ] {
            let got = evaluate(&truth(scope, &judged), &result, 10, Bootstrap::default()).unwrap();
            assert_eq!(counts(&got.pairs.unwrap()), want, "{scope}");
            assert_eq!(
                got.found,
                Some(FoundCounts { listed: 5, outside: left.0, unknown: left.1 }),
                "{scope}"
            );
            assert_eq!(got.denominators.documents, documents, "{scope}");
            assert_eq!(got.clusters.is_none(), scope == Scope::LabelledPairs);
        }
    }

    #[test]
    fn clusters_are_judged_by_the_pairs_within() {
        // Found: {0,1,2,3,9}, {4,5}; truth: 0-1, 6-7; 2-3 distinct, 4-5 unknown.
        let judged = [(0, 1, Duplicate), (2, 3, Distinct), (4, 5, Unknown), (6, 7, Duplicate)];
        let result = found(&[(0, 1), (0, 2), (2, 3), (0, 9), (4, 5)]);
        let score = |scope| {
            let got = evaluate(&truth(scope, &judged), &result, 10, Bootstrap::default()).unwrap();
            counts(&got.cluster_pairs.unwrap())
        };
        assert_eq!(
            score(Scope::Corpus),
            (1, 9, 1),
            "10 pairs of 5 documents, one right; 4-5 is not held against"
        );
        assert_eq!(score(Scope::LabelledDocuments), (1, 5, 1), "6 pairs of the 4 documents named");
        assert_eq!(score(Scope::LabelledPairs), (1, 1, 1));
    }

    #[test]
    fn precision_is_not_claimed_where_nothing_can_be_wrong() {
        let planted = [(0, 1, Duplicate), (2, 3, Duplicate)];
        let result = found(&[(0, 1), (4, 5)]);
        let got =
            evaluate(&truth(Scope::LabelledPairs, &planted), &result, 10, Bootstrap::default()).unwrap();
        assert!(got.notes.iter().any(|n| n.contains("no distinct pair")), "{:?}", got.notes);
        let score = got.pairs.unwrap();
        assert_eq!((score.precision.value, score.f1.value, score.recall.value), (None, None, Some(0.5)));
        let got = evaluate(&truth(Scope::Corpus, &planted), &result, 10, Bootstrap::default()).unwrap();
        assert_eq!(counts(&got.pairs.unwrap()), (1, 1, 1));
    }

    #[test]
    fn table_and_json_hold_the_counts() {
        let judged = [(0, 1, Duplicate), (2, 3, Duplicate), (0, 5, Duplicate)];
        let result = found(&[(0, 1), (2, 3), (4, 9)]);
        let got = evaluate(&truth(Scope::Corpus, &judged), &result, 10, Bootstrap::default()).unwrap();
        let text = got.to_string();
        for part in [
            "TP 2, FP 1, FN 1",
            "2 of 3 pairs found",
            "2 of 3 pairs to be found",
            "F1         0.6667",
            "10 of 10",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        let json = serde_json::to_string(&got).unwrap();
        // Not the whole: the JSON reader may be off by the last bit of a fraction.
        let back: Evaluation = serde_json::from_str(&json).unwrap();
        assert_eq!((back.denominators, back.found, back.notes), (got.denominators, got.found, got.notes));
        assert_eq!(back.pairs.map(|p| counts(&p)), Some((2, 1, 1)));
    }

    #[test]
    fn refuses_documents_beyond_the_corpus() {
        let judged = truth(Scope::LabelledDocuments, &[(0, 12, Duplicate)]);
        assert!(evaluate(&judged, &found(&[]), 10, Bootstrap::default()).is_err());
        assert!(evaluate(&truth(Scope::Corpus, &[]), &found(&[(3, 10)]), 10, Bootstrap::default()).is_err());
        let lone =
            Truth::Clusters { clusters: Partition::singletons(10), named: vec![Document(0), Document(1)] };
        assert!(
            evaluate(
                &TruthFile { truth: lone, ..truth(Scope::LabelledPairs, &[]) },
                &found(&[]),
                10,
                Bootstrap::default()
            )
            .is_err()
        );
        let clusters = Found { pairs: None, clusters: Some(Partition::singletons(9)) };
        assert!(evaluate(&truth(Scope::Corpus, &[]), &clusters, 10, Bootstrap::default()).is_err());
    }

    proptest! {
        /// The twin: every pair of records asked one by one whether it counts, is right, is found.
        #[test]
        fn agrees_with_all_pairs(
            judgements in prop::collection::btree_map((0u32..9, 0u32..9).prop_filter("a < b", |(a, b)| a < b), 0u8..3, 0..20),
            result in prop::collection::btree_set((0u32..9, 0u32..9).prop_filter("a < b", |(a, b)| a < b), 0..20),
            scope in prop_oneof![Just(Scope::Corpus), Just(Scope::LabelledDocuments), Just(Scope::LabelledPairs)],
        ) {
            let judgement = |v: u8| [Duplicate, Distinct, Unknown][v as usize];
            let judged: Vec<_> = judgements.iter().map(|(&(a, b), &v)| (a, b, judgement(v))).collect();
            let named = |d: u32| judgements.keys().any(|&(a, b)| a == d || b == d);
            let pairs: Vec<(u32, u32)> = result.iter().copied().collect();
            let joined = Partition::from_pairs(9, pairs.iter().map(|&(a, b)| (Document(a), Document(b))));
            let mut want = [(0, 0, 0), (0, 0, 0)];
            for a in 0..9 {
                for b in a + 1..9 {
                    let known = judgements.get(&(a, b)).map(|&v| judgement(v));
                    let counts = match scope {
                        Scope::Corpus => true,
                        Scope::LabelledDocuments => named(a) && named(b),
                        Scope::LabelledPairs => known.is_some(),
                    };
                    if !counts || known == Some(Unknown) {
                        continue;
                    }
                    for (i, found) in [result.contains(&(a, b)), joined.together(Document(a), Document(b))].into_iter().enumerate() {
                        match (known == Some(Duplicate), found) {
                            (true, true) => want[i].0 += 1,
                            (false, true) => want[i].1 += 1,
                            (true, false) => want[i].2 += 1,
                            (false, false) => {}
                        }
                    }
                }
            }
            let bootstrap = Bootstrap { resamples: 10, seed: 0 };
            let got = evaluate(&truth(scope, &judged), &found(&pairs), 9, bootstrap).unwrap();
            prop_assert_eq!(counts(&got.pairs.unwrap()), want[0]);
            prop_assert_eq!(counts(&got.cluster_pairs.unwrap()), want[1]);
            let left = got.found.unwrap();
            prop_assert_eq!(left.listed - left.outside - left.unknown, want[0].0 + want[0].1);
        }
    }
}
