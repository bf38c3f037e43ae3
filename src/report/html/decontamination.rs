//! The page of a decontamination.

use super::super::decontamination::{Benchmark, DecontaminationReport, FoundItem, Removal, SHOWN_ITEMS};
use super::parts::{command, cut, data, document};
use super::{ADDRESS_CHARS, NAME_CHARS, page};
use crate::Result;
use crate::display::clip;
use minijinja::{Value, context};

/// Most benchmarks that a page lists.
const BENCHMARKS: usize = 100;

/// The HTML text of a decontamination's page.
///
/// # Errors
/// [`crate::Error::Render`], which no report should be able to cause.
pub fn render_decontamination(report: &DecontaminationReport) -> Result<String> {
    let sum = |of: fn(&Benchmark) -> u64| report.benchmarks.iter().map(of).fold(0, u64::saturating_add);
    let view = context! {
        report => context! { tool => data(&report.tool), created => &report.created },
        command => command(&report.command_line),
        documents => report.documents,
        with_items => report.with_items,
        without => report.documents.saturating_sub(report.with_items),
        what => match report.removal {
            Removal::Documents => "left out of what is kept",
            Removal::Passages => "kept in cut.jsonl.gz without the passages",
            Removal::Nothing => "nothing was written but tables",
        },
        matches => report.matches,
        corrupt => report.corrupt,
        items => sum(|it| it.items),
        too_short => sum(|it| it.too_short),
        found => sum(|it| it.found),
        rules => data(&report.rules),
        benchmarks => cut(&report.benchmarks, BENCHMARKS, benchmark),
    };
    page("decontamination.html", view)
}

fn benchmark(benchmark: &Benchmark) -> Value {
    context! {
        file => clip(&benchmark.file, ADDRESS_CHARS),
        items => benchmark.items,
        too_short => benchmark.too_short,
        found => benchmark.found,
        documents => benchmark.documents,
        most => benchmark.most.iter().take(SHOWN_ITEMS).map(item).collect::<Value>(),
    }
}

fn item(found: &FoundItem) -> Value {
    context! {
        item => clip(&found.item, NAME_CHARS),
        words => found.words,
        documents => found.documents,
        share => found.share,
        example => found.example.as_ref().map(document),
    }
}
