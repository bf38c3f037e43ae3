//! The page of a comparison.

use super::super::charts::{self, FIRST, REST, SECOND};
use super::super::figures;
use super::super::model::{Agreement, CompareReport, MethodResult};
use super::parts::{
    LANGUAGES, METHOD_PARAMETERS, METHODS, WARNINGS, command, corruption, cut, data, method_name, pair,
    stages, total,
};
use super::{NAME_CHARS, page};
use crate::Result;
use crate::display::clip;
use minijinja::{Value, context};

const AGREEMENTS: usize = 20;
const EXAMPLES: usize = 5;

/// The HTML text of a comparison's page.
///
/// # Errors
/// [`crate::Error::Render`], which no report should be able to cause.
pub fn render_compare(report: &CompareReport) -> Result<String> {
    let found: u64 = report.agreement.iter().fold(0, |sum, a| sum.saturating_add(a.pairs));
    let all = |a: &&Agreement| a.found_by.len() == report.methods.len();
    let agreed = report.agreement.iter().find(all).map_or(0, |a| a.pairs);
    let view = context! {
        report => context! {
            tool => data(&report.tool),
            created => &report.created,
            corpus => data(&report.corpus),
            peak_memory_bytes => report.peak_memory_bytes,
        },
        command => command(&report.command_line),
        found,
        agreed,
        split => agreement_split(report)?,
        methods => cut(&report.methods, METHODS, method),
        agreement => cut(&report.agreement, AGREEMENTS, |a| agreement(a, &report.methods, found)),
        stages => stages(&report.shared_stages),
        total => total(&report.shared_stages),
        corruption => corruption(&report.corruption),
        warnings => cut(&report.warnings, WARNINGS, data),
        languages => cut(&report.corpus.languages, LANGUAGES, data),
    };
    page("compare.html", view)
}

fn method(result: &MethodResult) -> Value {
    let speed = result.speed;
    context! {
        label => clip(&result.label, NAME_CHARS),
        name => method_name(&result.method.name),
        similarity => clip(&result.method.similarity, NAME_CHARS),
        parameters => result.method.parameters.iter().take(METHOD_PARAMETERS).map(data).collect::<Value>(),
        seed => result.method.seed.to_string(),
        hash => clip(&result.method.hash, NAME_CHARS),
        pairs => result.pairs,
        clusters => result.clusters,
        kept => result.kept,
        wall => result.wall_seconds,
        cpu => result.cpu_seconds,
        cost => data(&result.cost),
        recall => data(&result.recall),
        exact => data(&result.exact),
        // A dash where no speed was measured.
        queries => speed.map_or("–".to_owned(), |it| figures::rate(it.queries as f64, it.cpu_seconds)),
        look_ups => figures::rate(result.cost.probes as f64, result.cost.distinct_hashes as f64),
    }
}

fn agreement(agreement: &Agreement, methods: &[MethodResult], found: u64) -> Value {
    let names: Vec<String> = agreement.found_by.iter().map(|label| clip(label, NAME_CHARS)).collect();
    let title = match &names[..] {
        [] => "Found by none".to_string(),
        names if names.len() == methods.len() && names.len() == 2 => "Found by both".to_string(),
        names if names.len() == methods.len() => format!("Found by all {}", names.len()),
        [one] => format!("Only {one}"),
        [rest @ .., last] => format!("Only {} and {last}", rest.join(", ")),
    };
    let share = if found == 0 { 0.0 } else { agreement.pairs as f64 / found as f64 };
    context! {
        title,
        pairs => agreement.pairs,
        share => figures::percent(share),
        width => format!("{:.2}%", share * 100.0),
        examples => cut(&agreement.examples, EXAMPLES, pair),
    }
}

/// For two methods: pairs only of the first, of both, only of the second, as one bar with its legend.
fn agreement_split(report: &CompareReport) -> Result<Option<Value>> {
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
        &[(FIRST, only_a), (REST, both), (SECOND, only_b)],
    )?;
    Ok(Some(context! {
        bar,
        first => clip(a, NAME_CHARS),
        second => clip(b, NAME_CHARS),
        only_first => only_a,
        both,
        only_second => only_b,
    }))
}
