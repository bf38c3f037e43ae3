//! The page of one run.

use super::super::charts::{self, Bar, BarPart};
use super::super::figures;
use super::super::messages;
use super::super::model::{
    ClusterSample, ClusterSizes, FileRow, GroupBoilerplate, Histogram, LanguageCount, Parameter, Report,
    SourceRow, Sources,
};
use super::parts::{
    Cut, DamageView, Heads, LANGUAGES, METHOD_PARAMETERS, PageView, PairView, StageView, Total, WARNINGS,
    command, method_name, stages,
};
use super::{NAME_CHARS, page};
use crate::Result;
use crate::wording::clip;
use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;

const PAIRS: usize = 30;
/// Pairs that are shown at once; the others are folded.
const OPEN_PAIRS: usize = 6;
/// The number of clusters that are open at first.
const OPEN_CLUSTERS: usize = 4;
const CLUSTERS: usize = 15;
const MEMBERS: usize = 5;
const CHARTS: usize = 12;
const HISTOGRAM_ROWS: usize = 1_200;
const FILES: usize = 100;
const GROUPS: usize = 50;
const SOURCES: usize = 3;

/// The page of one run.
///
/// # Errors
/// [`crate::Error::Render`], which no report should be able to cause.
pub fn render(report: &Report) -> Result<String> {
    let documents = report.corpus.documents;
    let outcome = &report.outcome;
    let split = charts::split(
        "Documents, by what became of them",
        &[
            (BarPart::Second, outcome.exact_duplicates),
            (BarPart::First, outcome.near_duplicates),
            (BarPart::Rest, outcome.kept),
        ],
    )?;
    let charted: Vec<&Histogram> =
        report.histograms.iter().filter(|histogram| histogram.total() > 0).collect();
    let drawn = &charted[..charted.len().min(CHARTS)];
    let titles = drawn.iter().map(|histogram| clip(&histogram.title, NAME_CHARS));
    let histograms =
        titles.zip(charts::histograms(drawn)?.into_iter().map(Value::from_safe_string)).collect();
    let sizes = match &report.cluster_sizes[..] {
        [] => None,
        sizes => Some([
            charts::bars("Cluster sizes", "documents", "clusters", &size_bars(sizes, |_| 1))?,
            charts::bars("Duplicates", "cluster of", "documents", &size_bars(sizes, |size| size - 1))?,
        ]),
    };
    // Those near the threshold first, for they tell most.
    let mut sampled = report.sample_pairs.clone();
    sampled.sort_by(|a, b| a.similarity.total_cmp(&b.similarity));
    let most_boilerplate = report.boilerplate.as_ref().map_or(&[][..], |boilerplate| &boilerplate.most);
    let (rows, tables) = histogram_tables(&report.histograms);
    let view = ReportView {
        report: Heads::of_report(report),
        seed: report.method.seed.to_string(),
        promise: report.promise().unwrap_or("This was not measured."),
        estimated_recall: report.recall_estimate.as_ref().zip(report.settings.as_ref()).map(
            |(recall_estimate, settings)| {
                let of_pairs =
                    recall_estimate.recall.map(|recall| ("Estimated recall of pairs", recall.share));
                let of_documents =
                    recall_estimate.documents.map(|found| ("Estimated recall", found.recall.share));
                let from = if recall_estimate.drawn > recall_estimate.compared {
                    "all were compared"
                } else {
                    "from a sample"
                };
                EstimatedRecall {
                    text: messages::recall_sentence(recall_estimate, settings.verification),
                    share: of_documents.or(of_pairs),
                    from,
                }
            },
        ),
        held_against: report.against.as_ref().map(messages::held_against),
        method: method_name(&report.method.name),
        command: command(&report.command_line),
        headline: headline(documents, outcome.removed, outcome.clusters),
        split: Value::from_safe_string(split),
        languages: Cut::new(&report.corpus.languages, LANGUAGES, Clone::clone),
        parameters: Cut::new(&report.method.parameters, METHOD_PARAMETERS, Clone::clone),
        pairs: Cut::new(&sampled, PAIRS, PairView::new),
        open_pairs: OPEN_PAIRS,
        open_clusters: OPEN_CLUSTERS,
        steps: steps(report),
        clusters: Cut::new(&report.largest_clusters, CLUSTERS, ClusterView::new),
        sizes: sizes.map(|charts| charts.map(Value::from_safe_string)),
        histograms,
        histograms_left_out: charted.len() - drawn.len(),
        least: report
            .settings
            .as_ref()
            .and_then(|settings| settings.verification.threshold())
            .filter(|_| {
                report.histograms.first().is_some_and(|histogram| histogram.unit == messages::PERCENT)
            })
            .map(|threshold| format!("{} %", (10_000.0 * threshold).round() / 100.0)),
        tables,
        table_rows_left_out: rows.saturating_sub(HISTOGRAM_ROWS),
        recall_chart: report.recall.as_ref().map(safe(charts::recall)).transpose()?,
        s_curve_chart: report.s_curve.as_ref().map(safe(charts::s_curve)).transpose()?,
        stages: stages(&report.stages),
        total: Total::new(&report.stages),
        damage: DamageView::new(&report.damage),
        warnings: Cut::new(&report.warnings, WARNINGS, Clone::clone),
        boilerplate_of: report.boilerplate.as_ref().map(|boilerplate| boilerplate.by.one()),
        boilerplate: Cut::new(most_boilerplate, GROUPS, Clone::clone),
        files: Cut::new(&report.files, FILES, Clone::clone),
        sources: report.lost_by_source.iter().take(SOURCES).map(SourcesView::new).collect(),
        not_read: Cut::new(&report.not_read, FILES, |it| (it.path.display().to_string(), it.reason.one())),
    };
    page("report.html", Value::from(Serde(view)))
}

/// A chart function whose result the template takes as it is.
fn safe<T>(chart: impl Fn(&T) -> Result<String>) -> impl Fn(&T) -> Result<Value> {
    move |data| chart(data).map(Value::from_safe_string)
}

/// The view of a report for its template. The report itself goes in without its long lists, which are cut beside it.
#[derive(Serialize)]
struct ReportView<'a> {
    report: Heads<'a>,
    /// In words, as a template's numbers may be signed.
    seed: String,
    promise: &'static str,
    /// The effect of reference documents on new ones, in words.
    held_against: Option<String>,
    /// The estimate of recall, in words, and the share alone.
    estimated_recall: Option<EstimatedRecall>,
    method: String,
    command: String,
    headline: (String, String),
    split: Value,
    languages: Cut<LanguageCount>,
    parameters: Cut<Parameter>,
    pairs: Cut<PairView>,
    open_pairs: usize,
    open_clusters: usize,
    /// The counts of the run, each derived from those before.
    steps: Vec<CountStep>,
    clusters: Cut<ClusterView>,
    sizes: Option<[Value; 2]>,
    histograms: Vec<(String, Value)>,
    histograms_left_out: usize,
    tables: Vec<TableView>,
    /// The least similarity that is confirmed, where the histogram is one of similarities.
    least: Option<String>,
    table_rows_left_out: usize,
    recall_chart: Option<Value>,
    s_curve_chart: Option<Value>,
    stages: Cut<StageView>,
    total: Total,
    damage: DamageView,
    warnings: Cut<String>,
    boilerplate_of: Option<&'static str>,
    boilerplate: Cut<GroupBoilerplate>,
    files: Cut<FileRow>,
    sources: Vec<SourcesView>,
    not_read: Cut<(String, &'static str)>,
}

/// The recall that a run estimated of itself.
#[derive(Serialize)]
struct EstimatedRecall {
    /// In words.
    text: String,
    /// The object of the recall, and the recall.
    share: Option<(&'static str, f64)>,
    from: &'static str,
}

/// A count of the run, and what it is of.
#[derive(Serialize)]
struct CountStep {
    sign: &'static str,
    number: u64,
    what: &'static str,
}

/// The counts from the documents that were read to those that are kept, and the work in between.
fn steps(report: &Report) -> Vec<CountStep> {
    let outcome = &report.outcome;
    let documents = report.corpus.documents;
    let step = |sign, number, what| CountStep { sign, number, what };
    let mut steps = vec![
        step("", documents, "documents were read"),
        step("−", outcome.exact_duplicates, "have the text of another one: exact duplicates, removed"),
        step("=", documents.saturating_sub(outcome.exact_duplicates), "are left"),
    ];
    if let Some(verified) = report.verified {
        steps.push(step(
            "",
            verified.compared,
            "candidate pairs were compared (a pair counts in each band that it shares)",
        ));
        steps.push(step("", verified.compared - verified.refused, "of these were confirmed"));
    }
    steps.push(step("−", outcome.near_duplicates, "are near-duplicates of a kept one, removed"));
    steps.push(step("=", outcome.kept, "are kept"));
    if outcome.pairs_found > outcome.pairs_written {
        steps.push(step(
            "",
            outcome.pairs_found,
            "pairs are in the clusters, also of exact duplicates with each other",
        ));
    }
    // Texts in memory have no files.
    if report.corpus.files == 0 || report.wrote("pairs.csv") {
        let listed =
            if report.corpus.files > 0 { "pairs are listed in pairs.csv" } else { "pairs are listed" };
        steps.push(step("", outcome.pairs_written, listed));
    }
    steps
}

/// The losses of the sources of one kind.
#[derive(Serialize)]
struct SourcesView {
    kind: String,
    number: u64,
    /// Source, documents, removed documents.
    most: Cut<(String, u64, u64)>,
}

impl SourcesView {
    fn new(sources: &Sources) -> Self {
        let row = |row: &SourceRow| (row.source.clone(), row.documents, row.lost());
        Self {
            kind: clip(&sources.kind, NAME_CHARS),
            number: sources.number,
            most: Cut::new(&sources.most, GROUPS, row),
        }
    }
}

#[derive(Serialize)]
struct ClusterView {
    cluster: String,
    size: u64,
    kept: PageView,
    members: Vec<PageView>,
    not_shown: u64,
    lowest: Option<f64>,
    median: Option<f64>,
}

impl ClusterView {
    fn new(cluster: &ClusterSample) -> Self {
        let members: Vec<_> = cluster.members.iter().take(MEMBERS).map(PageView::new).collect();
        Self {
            cluster: clip(&cluster.cluster, NAME_CHARS),
            size: cluster.size,
            kept: PageView::new(&cluster.kept),
            not_shown: cluster.size.saturating_sub(1 + members.len() as u64),
            members,
            lowest: cluster.lowest_similarity,
            median: cluster.median_similarity,
        }
    }
}

#[derive(Serialize)]
struct TableView {
    title: String,
    unit: String,
    rows: Vec<(u32, u64, f64)>,
    total: u64,
}

/// All rows of the histograms up to the cap, and how many rows there are.
fn histogram_tables(histograms: &[Histogram]) -> (usize, Vec<TableView>) {
    let rows = histograms.iter().map(|histogram| histogram.rows.len()).sum();
    let mut left = HISTOGRAM_ROWS;
    let mut tables = Vec::new();
    for histogram in histograms.iter().take(HISTOGRAM_ROWS) {
        let rows: Vec<_> = histogram.rows.iter().take(left).map(|r| (r.score, r.number, r.portion)).collect();
        left -= rows.len();
        if !rows.is_empty() {
            tables.push(TableView {
                title: clip(&histogram.title, NAME_CHARS),
                unit: clip(&histogram.unit, NAME_CHARS),
                rows,
                total: histogram.total(),
            });
        }
    }
    (rows, tables)
}

/// Clusters by size: 2, 3 and 4 by themselves, then sizes up to each power of two. A cluster counts for what
/// `worth` says of its size.
fn size_bars(sizes: &[ClusterSizes], worth: fn(u64) -> u64) -> Vec<Bar> {
    let range = |size: u64| match size {
        0..=4 => (size, size),
        _ => {
            let last = size.checked_next_power_of_two().unwrap_or(u64::MAX);
            (last / 2 + 1, last)
        }
    };
    let mut bars = std::collections::BTreeMap::<(u64, u64), u64>::new();
    for row in sizes.iter().filter(|row| row.clusters > 0 && row.size > 1) {
        let bar = bars.entry(range(row.size)).or_default();
        *bar = bar.saturating_add(row.clusters.saturating_mul(worth(row.size)));
    }
    let label = |(first, last): (u64, u64)| {
        if first == last {
            figures::count(first)
        } else if last < 10_000 {
            format!("{first}–{last}")
        } else {
            format!("{}–{}", figures::short_count(first), figures::short_count(last))
        }
    };
    bars.into_iter().map(|(range, number)| Bar { label: label(range), number }).collect()
}

/// The one sentence, as `(figure, words)`.
fn headline(documents: u64, removed: u64, clusters: u64) -> (String, String) {
    let count = figures::count;
    let kept = || format!("All {} documents are kept", count(documents));
    match (documents, removed) {
        (0, _) => (String::new(), "The input holds no documents.".to_string()),
        (1, 0) => (String::new(), "The only document is kept.".to_string()),
        (_, 0) if clusters > 0 => (String::new(), kept() + ", as asked for."),
        (_, 0) => (String::new(), kept() + ": none is a duplicate."),
        (n, 1) => ("1".to_string(), format!("of {} documents is a duplicate.", count(n))),
        (n, r) => (count(r), format!("of {} documents are duplicates.", count(n))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_sizes_are_joined_and_none_is_lost() {
        let sizes: Vec<_> = (2..=5_000).map(|size| ClusterSizes { size, clusters: 1 }).collect();
        let bars = size_bars(&sizes, |_| 1);
        assert_eq!(bars.iter().map(|bar| bar.number).sum::<u64>(), 4_999);
        let labels: Vec<_> = bars.iter().take(5).map(|bar| bar.label.as_str()).collect();
        assert_eq!(labels, ["2", "3", "4", "5–8", "9–16"]);
        assert_eq!(size_bars(&[ClusterSizes { size: u64::MAX, clusters: u64::MAX }], |n| n).len(), 1);
    }
}
