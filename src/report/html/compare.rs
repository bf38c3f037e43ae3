//! The page of a comparison.

use super::super::charts::{self, BarPart};
use super::super::figures;
use super::super::model::{
    Agreement, CompareReport, ExactRecall, LanguageCount, MethodResult, Parameter, Recall, SearchCost,
};
use super::parts::{
    Cut, DamageView, Heads, LANGUAGES, METHOD_PARAMETERS, METHODS, PairView, StageView, Total, WARNINGS,
    command, method_name, stages,
};
use super::{NAME_CHARS, page};
use crate::Result;
use crate::wording::clip;
use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;

const AGREEMENTS: usize = 20;
const EXAMPLES: usize = 5;

/// The page of a comparison.
///
/// # Errors
/// [`crate::Error::Render`], which no report should be able to cause.
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

/// The view of a comparison for its template.
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
    exact: Option<ExactRecall>,
    queries: String,
    look_ups: String,
}

impl MethodView {
    fn new(result: &MethodResult) -> Self {
        Self {
            label: clip(&result.label, NAME_CHARS),
            name: method_name(&result.method.name),
            similarity: clip(&result.method.similarity, NAME_CHARS),
            parameters: result.method.parameters.iter().take(METHOD_PARAMETERS).cloned().collect(),
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
            exact: result.exact.clone(),
            queries: result.speed.map_or_else(
                || "–".to_owned(),
                |speed| figures::rate(speed.queries as f64, speed.cpu_seconds),
            ),
            look_ups: figures::rate(result.cost.probes as f64, result.cost.distinct_hashes as f64),
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
        &[(BarPart::First, only_a), (BarPart::Rest, both), (BarPart::Second, only_b)],
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
