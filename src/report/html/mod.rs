//! The report as one self-contained page: no script, no font and no picture from elsewhere.
//!
//! Long lists are cut so that the page stays well below 2 MB whatever was found; each cut is told on the page, with
//! where the rest is. All text from the corpus is escaped by the template engine, and only `http` and `https`
//! addresses become links.

pub(crate) mod check;

use std::fs;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value, syntax::SyntaxConfig};
use serde::Serialize;

use super::charts::{self, Bar, Part};
use super::figures;
use super::model::{
    Agreement, ClusterSample, ClusterSizes, CompareReport, Corpus, DamageCount, DamageReport, DamagedRecord,
    FileRow, Histogram, LanguageCount, MethodResult, OtherScore, Outcome, PageSample, PairKind, PairSample,
    Parameter, Piece, Recall, Report, SCurve, SearchCost, Stage, Tool,
};
use crate::wording::{clip, link, moment, plural};
use crate::{Error, Result};

const PAIRS: usize = 30;
const CLUSTERS: usize = 15;
const MEMBERS: usize = 5;
const CHARTS: usize = 12;
const HISTOGRAM_ROWS: usize = 1_200;
const FILES: usize = 100;
const DAMAGED: usize = 50;
const DAMAGE_KINDS: usize = 30;
const LANGUAGES: usize = 12;
const PARAMETERS: usize = 80;
const STAGES: usize = 40;
const WARNINGS: usize = 30;
const METHODS: usize = 12;
const AGREEMENTS: usize = 20;
const EXAMPLES: usize = 5;

/// Characters shown of an address or a path.
pub(super) const ADDRESS_CHARS: usize = 240;
/// Characters shown of an id or a name.
pub(super) const NAME_CHARS: usize = 120;
/// Characters shown of a page's text, in the opening and again in the excerpt.
const TEXT_CHARS: usize = 900;
/// Characters shown of a parameter or a detail.
const DETAIL_CHARS: usize = 400;
/// Characters shown of a warning, which may name examples.
const WARNING_CHARS: usize = 1_200;

/// The page of one run.
///
/// # Errors
/// [`Error::Render`], which no report should be able to cause.
pub fn render(report: &Report) -> Result<String> {
    let documents = report.corpus.documents;
    let outcome = &report.outcome;
    let split = charts::split(
        "Pages by what happens to them",
        &[
            (Part::Second, outcome.exact_duplicates),
            (Part::First, outcome.near_duplicates),
            (Part::Rest, outcome.kept),
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
            charts::bars("Cluster sizes", "pages", "clusters", &size_bars(sizes, |_| 1))?,
            charts::bars("Pages that can go", "cluster of", "pages", &size_bars(sizes, |size| size - 1))?,
        ]),
    };
    let (rows, tables) = histogram_tables(&report.histograms);
    let view = ReportView {
        report: Heads::of_report(report),
        seed: report.method.seed.to_string(),
        promise: report.promise().unwrap_or("This was not measured."),
        method: method_name(&report.method.name),
        command: command(&report.command_line),
        headline: headline(documents, outcome.removed),
        split: Value::from_safe_string(split),
        languages: Cut::new(&report.corpus.languages, LANGUAGES, Clone::clone),
        parameters: Cut::new(&report.method.parameters, PARAMETERS, Clone::clone),
        pairs: Cut::new(&report.sample_pairs, PAIRS, PairView::new),
        clusters: Cut::new(&report.largest_clusters, CLUSTERS, ClusterView::new),
        sizes: sizes.map(|charts| charts.map(Value::from_safe_string)),
        histograms,
        histograms_left_out: charted.len() - drawn.len(),
        tables,
        table_rows_left_out: rows.saturating_sub(HISTOGRAM_ROWS),
        recall_chart: report.recall.as_ref().map(safe(charts::recall)).transpose()?,
        s_curve_chart: report.s_curve.as_ref().map(safe(charts::s_curve)).transpose()?,
        stages: stages(&report.stages),
        total: Total::new(&report.stages),
        damage: DamageView::new(&report.damage),
        warnings: Cut::new(&report.warnings, WARNINGS, Clone::clone),
        files: Cut::new(&report.files, FILES, Clone::clone),
    };
    page("report.html", Value::from(Serde(view)))
}

/// The page of a comparison.
///
/// # Errors
/// [`Error::Render`], which no report should be able to cause.
pub fn render_compare(report: &CompareReport) -> Result<String> {
    let found: u64 = report.agreement.iter().fold(0, |sum, a| sum.saturating_add(a.pairs));
    let all = |a: &&Agreement| a.found_by.len() == report.methods.len();
    let agreed = report.agreement.iter().find(all).map_or(0, |a| a.pairs);
    let view = CompareView {
        report: Heads::of_compare(report),
        command: command(&report.command_line),
        found,
        agreed,
        split: agreement_split(report)?,
        methods: Cut::new(&report.methods, METHODS, MethodView::new),
        agreement: Cut::new(&report.agreement, AGREEMENTS, |a| AgreementView::new(a, &report.methods, found)),
        stages: stages(&report.shared_stages),
        total: Total::new(&report.shared_stages),
        damage: DamageView::new(&report.damage),
        warnings: Cut::new(&report.warnings, WARNINGS, Clone::clone),
        languages: Cut::new(&report.corpus.languages, LANGUAGES, Clone::clone),
    };
    page("compare.html", Value::from(Serde(view)))
}

/// Writes [`render`]'s page.
///
/// # Errors
/// If the file cannot be written.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    fs::write(path, render(report)?).map_err(|e| Error::io(path, e))
}

/// Writes [`render_compare`]'s page.
///
/// # Errors
/// If the file cannot be written.
pub fn write_compare(report: &CompareReport, path: &Path) -> Result<()> {
    fs::write(path, render_compare(report)?).map_err(|e| Error::io(path, e))
}

fn page(template: &str, content: Value) -> Result<String> {
    let fail = |e: minijinja::Error| Error::Render(format!("{e:#}"));
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(fail)?;
    env.set_syntax(syntax);
    for (name, source) in [
        ("style.css", include_str!("../templates/style.css")),
        ("parts.html", include_str!("../templates/parts.html")),
        ("page.html", include_str!("../templates/page.html")),
        ("report.html", include_str!("../templates/report.html")),
        ("compare.html", include_str!("../templates/compare.html")),
    ] {
        env.add_template(name, source).map_err(fail)?;
    }
    env.add_filter("count", figures::count);
    add_words(&mut env);
    env.add_filter("bytes", figures::bytes);
    env.add_filter("seconds", figures::seconds);
    env.add_filter("percent", figures::percent);
    env.add_filter("round_percent", figures::round_percent);
    env.add_filter("of", figures::percent_of);
    env.add_filter("decimals", |value: f64, decimals: usize| format!("{value:.decimals$}"));
    env.add_filter("address", |text: &str| clip(text, ADDRESS_CHARS));
    env.add_filter("moment", |rfc3339: &str| clip(&moment(rfc3339), NAME_CHARS));
    env.add_filter("name", |text: &str| clip(text, NAME_CHARS));
    env.add_filter("warning", |text: &str| clip(text, WARNING_CHARS));
    env.add_filter("detail", |text: &str| clip(text, DETAIL_CHARS));
    env.get_template(template).and_then(|t| t.render(content)).map_err(fail)
}

/// Filters for counts with their nouns: `{{ n|counted("page", "pages") }}`, and the noun alone.
pub(super) fn add_words(env: &mut Environment<'_>) {
    let word = |n: u64, one: &str, many: &str| plural(n, one, many).to_owned();
    env.add_filter("plural", word);
    env.add_filter("counted", move |n: u64, one: &str, many: &str| {
        format!("{} {}", figures::count(n), word(n, one, many))
    });
}

/// A chart function whose result the template takes as it is.
fn safe<T>(chart: impl Fn(&T) -> Result<String>) -> impl Fn(&T) -> Result<Value> {
    move |data| chart(data).map(Value::from_safe_string)
}

/// What the template of a report sees. The report itself goes in without its long lists, which are cut beside it.
#[derive(Serialize)]
struct ReportView<'a> {
    report: Heads<'a>,
    /// In words, as a template's numbers may be signed.
    seed: String,
    promise: &'static str,
    method: String,
    command: String,
    headline: (String, String),
    split: Value,
    languages: Cut<LanguageCount>,
    parameters: Cut<Parameter>,
    pairs: Cut<PairView>,
    clusters: Cut<ClusterView>,
    sizes: Option<[Value; 2]>,
    histograms: Vec<(String, Value)>,
    histograms_left_out: usize,
    tables: Vec<TableView>,
    table_rows_left_out: usize,
    recall_chart: Option<Value>,
    s_curve_chart: Option<Value>,
    stages: Cut<StageView>,
    total: Total,
    damage: DamageView,
    warnings: Cut<String>,
    files: Cut<FileRow>,
}

/// What the template of a comparison sees.
#[derive(Serialize)]
struct CompareView<'a> {
    report: Heads<'a>,
    command: String,
    found: u64,
    agreed: u64,
    split: Option<SplitView>,
    methods: Cut<MethodView>,
    agreement: Cut<AgreementView>,
    stages: Cut<StageView>,
    total: Total,
    damage: DamageView,
    warnings: Cut<String>,
    languages: Cut<LanguageCount>,
}

/// The parts of a report that need no cutting.
#[derive(Serialize)]
struct Heads<'a> {
    tool: &'a Tool,
    created: &'a str,
    corpus: &'a Corpus,
    peak_memory_bytes: Option<u64>,
    outcome: Option<&'a Outcome>,
    search_cost: Option<&'a SearchCost>,
    recall: Option<&'a Recall>,
    s_curve: Option<&'a SCurve>,
    similarity: &'a str,
    hash: &'a str,
}

impl<'a> Heads<'a> {
    fn of_report(report: &'a Report) -> Self {
        Self {
            tool: &report.tool,
            created: &report.created,
            corpus: &report.corpus,
            peak_memory_bytes: report.peak_memory_bytes,
            outcome: Some(&report.outcome),
            search_cost: Some(&report.search_cost),
            recall: report.recall.as_ref(),
            s_curve: report.s_curve.as_ref(),
            similarity: &report.method.similarity,
            hash: &report.method.hash,
        }
    }

    fn of_compare(report: &'a CompareReport) -> Self {
        Self {
            tool: &report.tool,
            created: &report.created,
            corpus: &report.corpus,
            peak_memory_bytes: report.peak_memory_bytes,
            outcome: None,
            search_cost: None,
            recall: None,
            s_curve: None,
            similarity: "",
            hash: "",
        }
    }
}

#[derive(Serialize)]
struct DamageView {
    total: u64,
    kinds: Cut<DamageCount>,
    listed: Cut<DamagedRecord>,
}

impl DamageView {
    fn new(damage: &DamageReport) -> Self {
        Self {
            total: damage.total,
            kinds: Cut::new(&damage.by_kind, DAMAGE_KINDS, Clone::clone),
            listed: Cut::new(&damage.listed, DAMAGED, Clone::clone),
        }
    }
}

/// The start of a list, and how much was left out.
#[derive(Serialize)]
struct Cut<T> {
    shown: Vec<T>,
    total: usize,
    left_out: usize,
}

impl<T> Cut<T> {
    fn new<S>(list: &[S], most: usize, view: impl Fn(&S) -> T) -> Self {
        let shown: Vec<T> = list.iter().take(most).map(view).collect();
        Self { total: list.len(), left_out: list.len() - shown.len(), shown }
    }
}

#[derive(Serialize)]
struct PageView {
    id: String,
    url: String,
    link: Option<String>,
    opening: String,
    excerpt: Vec<Piece>,
}

impl PageView {
    fn new(page: &PageSample) -> Self {
        let mut left = TEXT_CHARS;
        let mut excerpt = Vec::new();
        for piece in &page.excerpt {
            if left == 0 {
                break;
            }
            let text = clip(&piece.text, left);
            left = left.saturating_sub(text.chars().count().max(10));
            excerpt.push(Piece { text, differs: piece.differs });
        }
        // An excerpt without an ellipsis in front begins where the page begins.
        let shows_opening = page.excerpt.first().is_some_and(|piece| !piece.text.starts_with('…'));
        Self {
            id: clip(&page.id, NAME_CHARS),
            url: clip(&page.url, ADDRESS_CHARS),
            link: link(&page.url),
            opening: if shows_opening { String::new() } else { clip(&page.opening, TEXT_CHARS / 2) },
            excerpt,
        }
    }
}

#[derive(Serialize)]
struct PairView {
    a: PageView,
    b: PageView,
    distance: Option<u32>,
    similarity: f64,
    exact: bool,
    others: Vec<OtherScore>,
}

impl PairView {
    fn new(pair: &PairSample) -> Self {
        Self {
            a: PageView::new(&pair.a),
            b: PageView::new(&pair.b),
            distance: pair.distance,
            similarity: pair.similarity,
            exact: pair.kind == PairKind::Exact,
            others: pair
                .others
                .iter()
                .take(METHODS)
                .map(|other| OtherScore { by: clip(&other.by, NAME_CHARS), ..*other })
                .collect(),
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
struct StageView {
    name: String,
    wall: f64,
    cpu: f64,
    share: String,
    /// The share as a CSS length.
    width: String,
    items: u64,
    unit: String,
    item_rate: String,
    megabyte_rate: String,
}

fn stages(stages: &[Stage]) -> Cut<StageView> {
    let total: f64 = stages.iter().map(|stage| stage.wall_seconds).sum();
    Cut::new(stages, STAGES, |stage| {
        let share = if total > 0.0 { stage.wall_seconds / total } else { 0.0 };
        StageView {
            name: stage.name.clone(),
            wall: stage.wall_seconds,
            cpu: stage.cpu_seconds,
            share: figures::percent(share),
            width: format!("{:.2}%", (share * 100.0).clamp(0.0, 100.0)),
            items: stage.items,
            unit: plural(stage.items, one_of(&stage.item_unit), &stage.item_unit).to_owned(),
            item_rate: figures::rate(stage.items as f64, stage.wall_seconds),
            megabyte_rate: figures::rate(stage.bytes as f64 / 1e6, stage.wall_seconds),
        }
    })
}

/// What a stage counts, in the singular.
fn one_of(unit: &str) -> &str {
    match unit {
        "pairs of sketches" => "pair of sketches",
        "distinct hashes" => "distinct hash",
        unit => unit.strip_suffix('s').unwrap_or(unit),
    }
}

/// Wall and processor time of all stages.
#[derive(Serialize)]
struct Total {
    wall: f64,
    cpu: f64,
}

impl Total {
    fn new(stages: &[Stage]) -> Self {
        Self {
            wall: stages.iter().map(|stage| stage.wall_seconds).sum(),
            cpu: stages.iter().map(|stage| stage.cpu_seconds).sum(),
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

/// Clusters by size: 2, 3 and 4 by themselves, then sizes up to each power of two. A cluster counts for what `worth`
/// says of its size.
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
fn headline(documents: u64, removed: u64) -> (String, String) {
    let count = figures::count;
    match (documents, removed) {
        (0, _) => (String::new(), "No pages were found in the input.".to_string()),
        (1, 0) => (String::new(), "The only page stays.".to_string()),
        (n, 0) => (String::new(), format!("All {} pages stay: no page repeats another.", count(n))),
        (n, 1) => ("1".to_string(), format!("of {} pages can go.", count(n))),
        (n, r) => (count(r), format!("of {} pages can go.", count(n))),
    }
}

fn method_name(name: &str) -> String {
    match name {
        "psm" => "PSM, probabilistic SimHash matching".to_string(),
        "bphs" => "BPHS, block-permuted Hamming search".to_string(),
        "minhash" => "MinHash with bands".to_string(),
        "" => "–".to_string(),
        other => clip(other, NAME_CHARS),
    }
}

/// The command line as a shell would take it.
fn command(arguments: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = arguments.iter().map(|argument| {
        if !argument.is_empty() && argument.chars().all(plain) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    });
    clip(&quoted.collect::<Vec<_>>().join(" "), 4 * DETAIL_CHARS)
}

#[derive(Serialize)]
struct MethodView {
    label: String,
    name: String,
    similarity: String,
    parameters: Vec<Parameter>,
    seed: String,
    hash: String,
    pairs: u64,
    clusters: u64,
    kept: u64,
    wall: f64,
    cpu: f64,
    peak: Option<u64>,
    cost: SearchCost,
    recall: Option<Recall>,
}

impl MethodView {
    fn new(result: &MethodResult) -> Self {
        Self {
            label: clip(&result.label, NAME_CHARS),
            name: method_name(&result.method.name),
            similarity: clip(&result.method.similarity, NAME_CHARS),
            parameters: result.method.parameters.iter().take(PARAMETERS).cloned().collect(),
            seed: result.method.seed.to_string(),
            hash: clip(&result.method.hash, NAME_CHARS),
            pairs: result.pairs,
            clusters: result.clusters,
            kept: result.kept,
            wall: result.wall_seconds,
            cpu: result.cpu_seconds,
            peak: result.peak_memory_bytes,
            cost: result.cost,
            recall: result.recall.clone(),
        }
    }
}

#[derive(Serialize)]
struct AgreementView {
    title: String,
    pairs: u64,
    share: String,
    width: String,
    examples: Cut<PairView>,
}

impl AgreementView {
    fn new(agreement: &Agreement, methods: &[MethodResult], found: u64) -> Self {
        let names: Vec<String> = agreement.found_by.iter().map(|label| clip(label, NAME_CHARS)).collect();
        let title = match &names[..] {
            [] => "Found by none".to_string(),
            names if names.len() == methods.len() && names.len() == 2 => "Found by both".to_string(),
            names if names.len() == methods.len() => format!("Found by all {}", names.len()),
            [one] => format!("Only {one}"),
            [rest @ .., last] => format!("Only {} and {last}", rest.join(", ")),
        };
        let share = if found == 0 { 0.0 } else { agreement.pairs as f64 / found as f64 };
        Self {
            title,
            pairs: agreement.pairs,
            share: figures::percent(share),
            width: format!("{:.2}%", share * 100.0),
            examples: Cut::new(&agreement.examples, EXAMPLES, PairView::new),
        }
    }
}

/// Two methods' pairs as one bar with its legend.
#[derive(Serialize)]
struct SplitView {
    bar: Value,
    first: String,
    second: String,
    only_first: u64,
    both: u64,
    only_second: u64,
}

/// For two methods: pairs only of the first, of both, only of the second, as one bar.
fn agreement_split(report: &CompareReport) -> Result<Option<SplitView>> {
    let [first, second] = &report.methods[..] else { return Ok(None) };
    let of = |labels: &[&str]| {
        let same = |a: &&Agreement| {
            a.found_by.len() == labels.len() && labels.iter().all(|l| a.found_by.iter().any(|f| f == l))
        };
        report.agreement.iter().filter(same).fold(0u64, |sum, a| sum.saturating_add(a.pairs))
    };
    let (a, b) = (first.label.as_str(), second.label.as_str());
    let (only_a, both, only_b) = (of(&[a]), of(&[a, b]), of(&[b]));
    if only_a == 0 && both == 0 && only_b == 0 {
        return Ok(None);
    }
    let bar = charts::split(
        &format!("Pairs found by {a} only, by both, by {b} only"),
        &[(Part::First, only_a), (Part::Rest, both), (Part::Second, only_b)],
    )?;
    Ok(Some(SplitView {
        bar: Value::from_safe_string(bar),
        first: clip(a, NAME_CHARS),
        second: clip(b, NAME_CHARS),
        only_first: only_a,
        both,
        only_second: only_b,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    /// The page's size limit in bytes.
    const LIMIT: usize = 2_000_000;

    #[test]
    fn sample_pages_say_the_figures() {
        let page = render(&fixtures::psm()).expect("renders");
        for figure in ["58,213", "of 120,004 pages can go.", "<mark>", "41,002", "table 0", "--method psm"] {
            assert!(page.contains(figure), "{figure}");
        }
        let page = render(&fixtures::minhash()).expect("renders");
        for figure in ["6,396,799", "0.860731", "band 3", "Jaccard similarity of the pair"] {
            assert!(page.contains(figure), "{figure}");
        }
        let page = render_compare(&fixtures::compare()).expect("renders");
        for figure in ["Found by both", "Only psm", "Only minhash", "<mark>"] {
            assert!(page.contains(figure), "{figure}");
        }
        // For a person to look at: FLIPSIDE_SAMPLES=folder cargo test sample_pages
        if let Some(folder) = std::env::var_os("FLIPSIDE_SAMPLES") {
            let folder = Path::new(&folder);
            fs::create_dir_all(folder).expect("makes the folder");
            write(&fixtures::psm(), &folder.join("psm.html")).expect("writes");
            write(&fixtures::minhash(), &folder.join("minhash.html")).expect("writes");
            write(&Report::default(), &folder.join("empty.html")).expect("writes");
            write(&fixtures::one_page(), &folder.join("one.html")).expect("writes");
            write(&fixtures::large(), &folder.join("large.html")).expect("writes");
            write(&fixtures::hostile(), &folder.join("hostile.html")).expect("writes");
            write_compare(&fixtures::compare(), &folder.join("compare.html")).expect("writes");
        }
    }

    #[test]
    fn one_of_each_is_in_the_singular() {
        let outcome = Outcome {
            exact_duplicates: 0,
            near_duplicates: 1,
            kept: 1,
            removed: 1,
            pairs_found: 1,
            pairs_written: 1,
            clusters: 1,
            documents_in_clusters: 2,
            ..Outcome::default()
        };
        let stage = |item_unit: &str| Stage { items: 1, item_unit: item_unit.to_owned(), ..Stage::default() };
        let report = Report {
            corpus: Corpus { files: 1, documents: 2, ..Corpus::default() },
            outcome,
            recall: Some(Recall { sample_pairs: 1, budget_probes: 1, ..Recall::default() }),
            s_curve: Some(SCurve::new(1, 1, 0.8)),
            search_cost: SearchCost { distinct_hashes: 1, ..SearchCost::default() },
            damage: DamageReport { total: 1, ..DamageReport::default() },
            stages: ["pages", "pairs of sketches", "distinct hashes", "distinct signatures"]
                .map(stage)
                .to_vec(),
            ..Report::default()
        };
        let page = render(&report).expect("renders");
        for said in [
            "1 page remains (",
            "2 pages in them",
            "2 pages form 1 cluster of",
            "1 pair was found",
            "1 probe per page was",
            "1 band of 1 row bring up",
            "1 pair of sketches<",
            "1 distinct hash<",
            "1 distinct signature<",
            "1 distinct sketch<",
            "record could not be read and was",
        ] {
            assert!(page.contains(said), "{said}");
        }
        let compared = CompareReport {
            corpus: Corpus { documents: 1, ..Corpus::default() },
            agreement: vec![Agreement { pairs: 1, ..Agreement::default() }],
            ..CompareReport::default()
        };
        let page = render_compare(&compared).expect("renders");
        assert!(
            page.contains("1 page ·") && page.contains("of 1 pair.") && page.contains(": 1 pair<"),
            "{page}"
        );
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        for page in [
            render(&fixtures::psm()).expect("renders"),
            render_compare(&fixtures::compare()).expect("renders"),
        ] {
            for tag in ["<script", "<iframe", "<img", "src=", "@import", "url("] {
                assert!(!page.contains(tag), "{tag}");
            }
            let links = page.matches("<link ").count();
            assert_eq!(links, page.matches("<link rel=\"icon\" href=\"data:,\">").count());
        }
    }

    #[test]
    fn empty_reports_render() {
        let page = render(&Report::default()).expect("renders");
        assert!(page.contains("No pages were found"));
        assert!(!page.contains("NaN") && !page.contains("inf "));
        let page = render_compare(&CompareReport::default()).expect("renders");
        assert!(page.contains("No pages were found"));
        let page = render(&fixtures::one_page()).expect("renders");
        assert!(page.contains("The only page stays.") && page.contains("Every record could be read."));
    }

    #[test]
    fn input_is_escaped_everywhere() {
        let report = fixtures::hostile();
        let page = render(&report).expect("renders");
        assert!(!page.contains(fixtures::EVIL) && !page.contains("<script") && !page.contains("onerror=\""));
        assert!(!page.contains("href=\"javascript:"));
        // One closing tag for each chart, and none from the input.
        assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
        let compare = CompareReport {
            command_line: vec![fixtures::EVIL.to_string()],
            methods: vec![MethodResult { label: fixtures::EVIL.to_string(), ..MethodResult::default() }],
            agreement: vec![Agreement {
                found_by: vec![fixtures::EVIL.to_string()],
                pairs: 1,
                examples: report.sample_pairs.clone(),
            }],
            warnings: vec![fixtures::EVIL.to_string()],
            ..CompareReport::default()
        };
        let page = render_compare(&compare).expect("renders");
        assert!(!page.contains(fixtures::EVIL) && !page.contains("<script"));
    }

    #[test]
    fn a_large_comparison_is_cut() {
        let large = fixtures::large();
        let method = MethodResult { method: large.method.clone(), ..MethodResult::default() };
        let agreement =
            Agreement { examples: large.sample_pairs[..40].to_vec(), pairs: 9, ..Agreement::default() };
        let report = CompareReport {
            methods: vec![method; 3],
            agreement: vec![agreement; 7],
            warnings: large.warnings,
            damage: large.damage,
            ..CompareReport::default()
        };
        let page = render_compare(&report).expect("renders");
        assert!(page.len() < LIMIT, "{}", page.len());
    }

    #[test]
    fn a_large_report_is_cut_and_says_so() {
        let page = render(&fixtures::large()).expect("renders");
        assert!(page.len() < LIMIT, "{}", page.len());
        assert!(page.contains("15 of 100,000 clusters are shown"));
        assert!(page.contains("The first 30 of 10,000 sampled pairs are shown"));
        assert!(page.contains("The first 100 of 90,000 files are shown"));
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

    #[test]
    fn commands_are_quoted_as_a_shell_needs() {
        let words = ["flipside", "dedup", "a b.wet.gz", "--out=x", "it's", ""].map(str::to_string);
        assert_eq!(command(&words), r"flipside dedup 'a b.wet.gz' --out=x 'it'\''s' ''");
    }
}
