//! The page of a decontamination.

use super::super::decontamination::{Benchmark, DecontaminationReport, FoundItem, Removal, SHOWN_ITEMS};
use super::super::model::Tool;
use super::parts::{Cut, PageView, command};
use super::{ADDRESS_CHARS, NAME_CHARS, page};
use crate::Result;
use crate::wording::clip;
use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;
use simflip_core::contamination::Rules;

/// Most benchmarks that a page lists.
const BENCHMARKS: usize = 100;

/// The page of a decontamination.
///
/// # Errors
/// [`crate::Error::Render`], which no report should be able to cause.
pub fn render_decontamination(report: &DecontaminationReport) -> Result<String> {
    let sum = |of: fn(&Benchmark) -> u64| report.benchmarks.iter().map(of).fold(0, u64::saturating_add);
    let view = DecontaminationView {
        report: PageHead { tool: &report.tool, created: &report.created },
        command: command(&report.command_line),
        documents: report.documents,
        with_items: report.with_items,
        without: report.documents.saturating_sub(report.with_items),
        what: match report.removal {
            Removal::Documents => "left out of what is kept",
            Removal::Passages => "kept in cut.jsonl.gz without the passages",
            Removal::Nothing => "nothing was written but tables",
        },
        matches: report.matches,
        damaged: report.damaged,
        items: sum(|it| it.items),
        too_short: sum(|it| it.too_short),
        found: sum(|it| it.found),
        rules: report.rules,
        benchmarks: Cut::new(&report.benchmarks, BENCHMARKS, BenchmarkView::new),
    };
    page("decontamination.html", Value::from(Serde(view)))
}

/// The view for the template.
#[derive(Serialize)]
struct DecontaminationView<'a> {
    report: PageHead<'a>,
    command: String,
    documents: u64,
    with_items: u64,
    without: u64,
    /// The treatment of the documents with items.
    what: &'static str,
    matches: u64,
    damaged: u64,
    items: u64,
    too_short: u64,
    found: u64,
    rules: Rules,
    benchmarks: Cut<BenchmarkView>,
}

/// The head of a page on a report.
#[derive(Serialize)]
struct PageHead<'a> {
    tool: &'a Tool,
    created: &'a str,
}

#[derive(Serialize)]
struct BenchmarkView {
    file: String,
    items: u64,
    too_short: u64,
    found: u64,
    documents: u64,
    most: Vec<ItemView>,
}

impl BenchmarkView {
    fn new(benchmark: &Benchmark) -> Self {
        let Benchmark { file, items, too_short, found, documents, most } = benchmark;
        Self {
            file: clip(file, ADDRESS_CHARS),
            items: *items,
            too_short: *too_short,
            found: *found,
            documents: *documents,
            most: most.iter().take(SHOWN_ITEMS).map(ItemView::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct ItemView {
    item: String,
    words: u64,
    documents: u64,
    share: f64,
    example: Option<PageView>,
}

impl ItemView {
    fn new(found: &FoundItem) -> Self {
        Self {
            item: clip(&found.item, NAME_CHARS),
            words: found.words,
            documents: found.documents,
            share: found.share,
            example: found.example.as_ref().map(PageView::new),
        }
    }
}
