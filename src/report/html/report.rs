//! The page of one run of `dedup`. The constants are the most items of each list that it shows.

use super::super::charts::{self, Bar, FIRST, REST, SECOND};
use super::super::figures;
use super::super::messages;
use super::super::model::{ClusterSample, ClusterSizes, Histogram, Report, SourceRow, Sources};
use super::parts::{
    LANGUAGES, METHOD_PARAMETERS, WARNINGS, command, corruption, cut, data, document, method_name, pair,
    stages, total,
};
use super::{NAME_CHARS, page};
use crate::Result;
use crate::display::clip;
use minijinja::{Value, context};

const PAIRS: usize = 30;
/// Pairs that are shown unfolded.
const OPEN_PAIRS: usize = 6;
const OPEN_CLUSTERS: usize = 4;
const CLUSTERS: usize = 15;
const MEMBERS: usize = 5;
const CHARTS: usize = 12;
const HISTOGRAM_ROWS: usize = 1_200;
const FILES: usize = 100;
const GROUPS: usize = 50;
const SOURCES: usize = 4;
/// Sources of a kind that are shown unfolded.
const OPEN_SOURCES: usize = 8;

/// The HTML text of the page of one run of `dedup`.
///
/// # Errors
/// [`crate::Error::Render`], which no report should be able to cause.
pub fn render(report: &Report) -> Result<String> {
    let documents = report.corpus.documents;
    let outcome = &report.outcome;
    let parts = [(SECOND, outcome.exact_duplicates), (FIRST, outcome.near_duplicates), (REST, outcome.kept)];
    let split = charts::split("Documents, by what became of them", &parts)?;
    let charted: Vec<&Histogram> =
        report.histograms.iter().filter(|histogram| histogram.total() > 0).collect();
    let drawn = &charted[..charted.len().min(CHARTS)];
    let least = report.settings.as_ref().and_then(|settings| settings.verification.threshold());
    let titles = drawn.iter().map(|histogram| clip(&histogram.title, NAME_CHARS));
    let histograms: Value = titles.zip(charts::histograms(drawn, least)?).collect();
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
    let estimated_recall = report.recall_estimate.as_ref().zip(report.settings.as_ref());
    // Where the histogram is one of similarities.
    let least = least
        .filter(|_| report.histograms.first().is_some_and(|histogram| histogram.unit == messages::PERCENT));
    // The report goes in without its long lists, which are cut beside it.
    let view = context! {
        report => context! {
            tool => data(&report.tool),
            created => &report.created,
            corpus => data(&report.corpus),
            peak_memory_bytes => report.peak_memory_bytes,
            memory => data(&report.memory),
            outcome => data(outcome),
            search_cost => data(&report.search_cost),
            recall => data(&report.recall),
            s_curve => data(&report.s_curve),
            similarity => &report.method.similarity,
            hash => &report.method.hash,
        },
        // In words, as a template's numbers may be signed.
        seed => report.method.seed.to_string(),
        promise => messages::promise(report).unwrap_or("This was not measured."),
        estimated_recall => estimated_recall.map(|(estimate, settings)| {
            let of_pairs = estimate.recall.map(|recall| ("Estimated recall of pairs", recall.share));
            let of_documents = estimate.documents.map(|found| ("Estimated recall", found.recall.share));
            let is_of_all = estimate.sampled > estimate.compared;
            context! {
                text => messages::recall_sentence(estimate, settings.verification),
                share => of_documents.or(of_pairs),
                from => if is_of_all { "all were compared" } else { "from a sample" },
            }
        }),
        missing => report.missing.map(messages::missing_sentence),
        reference_message => report.against.as_ref().map(messages::reference_message),
        method => method_name(&report.method.name),
        command => command(&report.command_line),
        headline => headline(documents, outcome.removed, outcome.clusters),
        split,
        languages => cut(&report.corpus.languages, LANGUAGES, data),
        parameters => cut(&report.method.parameters, METHOD_PARAMETERS, data),
        pairs => cut(&sampled, PAIRS, pair),
        open_pairs => OPEN_PAIRS,
        open_clusters => OPEN_CLUSTERS,
        funnel => funnel(report),
        pair_counts => pair_counts(report),
        clusters => cut(&report.largest_clusters, CLUSTERS, cluster),
        sizes,
        histograms,
        histograms_left_out => charted.len() - drawn.len(),
        least => least.map(figures::round_percent),
        tables,
        table_rows_left_out => rows.saturating_sub(HISTOGRAM_ROWS),
        recall_chart => report.recall.as_ref().map(charts::recall).transpose()?,
        s_curve_chart => report.s_curve.as_ref().map(charts::s_curve).transpose()?,
        stages => stages(&report.stages),
        total => total(&report.stages),
        corruption => corruption(&report.corruption),
        warnings => cut(&report.warnings, WARNINGS, data),
        boilerplate_of => report.boilerplate.as_ref().map(|boilerplate| boilerplate.by.one()),
        boilerplate => cut(most_boilerplate, GROUPS, data),
        files => cut(&report.files, FILES, data),
        // A kind of one source loses what the input loses.
        sources => report
            .lost_by_source
            .iter()
            .filter(|sources| sources.number > 1 && !sources.most.is_empty())
            .take(SOURCES)
            .map(sources)
            .collect::<Value>(),
        open_sources => OPEN_SOURCES,
        not_read => cut(&report.not_read, FILES, |it| {
            Value::from((it.path.display().to_string(), it.reason.one()))
        }),
    };
    page("report.html", view)
}

/// The counts from the records that were read to the documents that are kept: each line takes some away from the one
/// before it, or says how many are left.
fn funnel(report: &Report) -> Vec<Value> {
    let (outcome, corpus) = (&report.outcome, &report.corpus);
    let step = |sign: &str, number: u64, what: &str| context! { sign, number, what };
    let mut steps = Vec::new();
    if corpus.records > corpus.documents {
        steps.push(step("", corpus.records, "records were read"));
        steps.push(step("−", corpus.records - corpus.documents, "are no documents with text"));
    }
    steps.extend([
        step(if steps.is_empty() { "" } else { "=" }, corpus.documents, "documents were read"),
        step("−", outcome.exact_duplicates, "have the text of another one: exact duplicates, removed"),
        step("−", outcome.near_duplicates, "are near-duplicates of a kept one, removed"),
        step("=", outcome.kept, "are kept"),
    ]);
    steps
}

/// The numbers of pairs behind the removals: the comparisons, and the lists of near pairs.
fn pair_counts(report: &Report) -> Vec<(&'static str, u64)> {
    let outcome = &report.outcome;
    let mut counts = Vec::new();
    if let Some(verified) = report.verified {
        counts.push(("Candidate pairs compared, each in every band that it shares", verified.compared));
        counts.push(("Of these confirmed", verified.confirmed()));
    }
    if outcome.pairs_found > outcome.pairs_written {
        counts.push(("Pairs in clusters, also of exact duplicates with each other", outcome.pairs_found));
    }
    // Texts in memory have no files.
    if report.corpus.files == 0 {
        counts.push(("Pairs listed", outcome.pairs_written));
    } else if report.wrote("pairs.csv") {
        counts.push(("Pairs listed in pairs.csv", outcome.pairs_written));
    }
    counts
}

/// The losses of the sources of one kind: of each its name, its documents, and those that are removed.
fn sources(sources: &Sources) -> Value {
    let row = |row: &SourceRow| Value::from((row.source.clone(), row.documents, row.lost()));
    context! {
        kind => clip(&sources.kind, NAME_CHARS),
        number => sources.number,
        most => cut(&sources.most, GROUPS, row),
    }
}

fn cluster(cluster: &ClusterSample) -> Value {
    let members: Vec<Value> = cluster.members.iter().take(MEMBERS).map(document).collect();
    context! {
        cluster => clip(&cluster.cluster, NAME_CHARS),
        size => cluster.size,
        kept => document(&cluster.kept),
        not_shown => cluster.size.saturating_sub(1 + members.len() as u64),
        members,
        lowest => cluster.lowest_similarity,
        median => cluster.median_similarity,
    }
}

/// The number of rows of all histograms, and the tables of the first [`HISTOGRAM_ROWS`] of them.
fn histogram_tables(histograms: &[Histogram]) -> (usize, Vec<Value>) {
    let rows: usize = histograms.iter().map(|histogram| histogram.rows.len()).sum();
    let mut left = HISTOGRAM_ROWS;
    let mut tables = Vec::new();
    for histogram in histograms.iter().take(HISTOGRAM_ROWS) {
        let rows: Vec<_> = histogram.rows.iter().take(left).map(|r| (r.score, r.number, r.portion)).collect();
        left -= rows.len();
        if !rows.is_empty() {
            tables.push(context! {
                title => clip(&histogram.title, NAME_CHARS),
                unit => clip(&histogram.unit, NAME_CHARS),
                rows,
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

/// The first sentence of the page: its figure, which may be empty, and its words.
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
    use super::super::super::fixtures;
    use super::*;

    #[test]
    fn every_line_of_the_funnel_follows_from_those_before_it() {
        let reports = [fixtures::psm(), fixtures::minhash(), fixtures::one_document(), Report::default()];
        for report in reports {
            let steps = funnel(&report);
            let field = |step: &Value, name: &str| step.get_attr(name).expect("a field");
            let number = |step: &Value| u64::try_from(field(step, "number")).expect("a number");
            let mut left = number(&steps[0]);
            for step in &steps[1..] {
                match field(step, "sign").as_str() {
                    Some("−") => left -= number(step),
                    sign => assert_eq!((sign, number(step)), (Some("="), left)),
                }
            }
            assert_eq!(left, report.outcome.kept);
        }
    }

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
