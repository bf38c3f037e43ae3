//! The report as one HTML page that needs no other file: no script, and no font or picture from elsewhere.
//!
//! Long lists are cut so that any page stays well below 2 MB. The page reports each cut, and the place of the rest. The
//! template engine escapes all text from the corpus, and only `http` and `https` addresses become links.

pub(crate) mod check;

mod compare;
mod decontamination;
mod parts;
mod report;

pub(crate) use check::{TITLE_WITHIN, title_in, title_of};
pub use compare::render_compare;
pub use decontamination::render_decontamination;
pub use report::render;

use super::figures;
use crate::display::{clip, moment, plural};
use crate::{Error, Result};
use minijinja::{Environment, UndefinedBehavior, Value, syntax::SyntaxConfig};
use std::fs;
use std::path::Path;

/// Characters shown of an address or a path.
pub(super) const ADDRESS_CHARS: usize = 240;
/// Characters shown of an id or a name.
pub(super) const NAME_CHARS: usize = 120;
/// Characters shown of a parameter or a detail.
const DETAIL_CHARS: usize = 400;
/// Characters shown of a warning, which may name examples.
const WARNING_CHARS: usize = 1_200;

/// Writes the HTML text `page` to the file `path`.
///
/// # Errors
/// If the file cannot be written.
pub fn write(page: &str, path: &Path) -> Result<()> {
    fs::write(path, page).map_err(|e| Error::io(path, e))
}

/// The HTML text of a report's page: the template of this name, filled with `content`.
fn page(template: &str, content: Value) -> Result<String> {
    let templates = [
        ("style.css", include_str!("../templates/style.css")),
        ("parts.html", include_str!("../templates/parts.html")),
        ("page.html", include_str!("../templates/page.html")),
        ("report.html", include_str!("../templates/report.html")),
        ("compare.html", include_str!("../templates/compare.html")),
        ("decontamination.html", include_str!("../templates/decontamination.html")),
    ];
    fill(&templates, template, true, content)
}

/// The HTML text of a template: the one of `templates` with this name, filled with `content`. With `trims`, white space
/// around the template's blocks is removed.
pub(super) fn fill(
    templates: &[(&'static str, &'static str)],
    template: &str,
    trims: bool,
    content: Value,
) -> Result<String> {
    let fail = |e: minijinja::Error| Error::Render(format!("{e:#}"));
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(trims).lstrip_blocks(trims).build().map_err(fail)?;
    env.set_syntax(syntax);
    for &(name, source) in templates {
        env.add_template(name, source).map_err(fail)?;
    }
    // Counts with their nouns, `{{ n|counted("document", "documents") }}`, and the noun alone.
    let word = |n: u64, one: &str, many: &str| plural(n, one, many).to_owned();
    env.add_filter("plural", word);
    env.add_filter("counted", move |n: u64, one: &str, many: &str| {
        format!("{} {}", figures::count(n), word(n, one, many))
    });
    env.add_filter("count", figures::count);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::decontamination::{Benchmark, DecontaminationReport, FoundItem, SHOWN_ITEMS};
    use crate::report::fixtures;
    use crate::report::model::{
        Agreement, CompareReport, Corpus, CorruptionReport, MethodResult, Outcome, Recall, Report, SCurve,
        SearchCost, Stage,
    };

    const LIMIT: usize = 2_000_000;

    #[test]
    fn sample_pages_say_the_figures() {
        let page = render(&fixtures::psm()).expect("renders");
        for figure in
            ["58,213", "of 120,004 documents are duplicates.", "<mark>", "41,002", "table 0", "--method psm"]
        {
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
            corruption: CorruptionReport { total: 1, documents_lost: 1, ..CorruptionReport::default() },
            stages: ["documents", "pairs of sketches", "distinct sketches", "texts"].map(stage).to_vec(),
            ..Report::default()
        };
        let page = render(&report).expect("renders");
        for said in [
            "1 document is kept (",
            "2 documents in them",
            "2 documents form 1 cluster;",
            "1 pair was found",
            "with 1 probe a document",
            "1 band of 1 row make",
            "1 pair of sketches<",
            "1 distinct sketch<",
            "1 text<",
            "record could not be read and was skipped: 1 document is lost.",
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
            page.contains("1 document ·") && page.contains("of 1 pair.") && page.contains(": 1 pair<"),
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
        assert!(page.contains("The input holds no documents."));
        assert!(!page.contains("NaN") && !page.contains("inf "));
        let page = render_compare(&CompareReport::default()).expect("renders");
        assert!(page.contains("No documents were found"));
        let page = render(&fixtures::one_document()).expect("renders");
        assert!(page.contains("The only document is kept.") && page.contains("Every record could be read."));
    }

    #[test]
    fn a_report_whose_counts_contradict_each_other_is_a_page() {
        let verified =
            serde_json::from_str(r#"{"compared": 1, "refused": 2, "skipped": 0}"#).expect("counts");
        let report = Report { verified: Some(verified), ..fixtures::one_document() };
        assert!(render(&report).expect("renders").contains("Of these confirmed"));
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
    fn a_decontamination_adds_up_and_is_escaped() {
        let empty = render_decontamination(&DecontaminationReport::default()).expect("renders");
        assert!(empty.contains("No document has an item") && empty.contains("No item was found."), "{empty}");
        let item = FoundItem {
            item: fixtures::EVIL.to_string(),
            words: 9,
            documents: 1,
            share: 0.5,
            example: Some(fixtures::hostile().sample_pairs[0].a.clone()),
        };
        let benchmark = |items| Benchmark {
            file: fixtures::EVIL.to_string(),
            items,
            too_short: 10,
            found: 30,
            documents: 40,
            most: vec![item.clone(); SHOWN_ITEMS],
        };
        let report = DecontaminationReport {
            command_line: vec![fixtures::EVIL.to_string()],
            documents: 1_000,
            with_items: 60,
            matches: 90,
            benchmarks: vec![benchmark(100), benchmark(200)],
            ..DecontaminationReport::default()
        };
        let page = render_decontamination(&report).expect("renders");
        assert!(
            !page.contains(fixtures::EVIL)
                && !page.contains("<script")
                && !page.contains("href=\"javascript:")
        );
        for said in [
            "<b>60</b> of 1,000 documents",
            "940<small>94.0 %",
            "60<small>of 280 that were looked for",
            "90<small>the rows",
            "The 20 of 30 items",
            "All</th><td class=\"n\">300</td><td class=\"n\">20</td><td class=\"n\">60</td><td class=\"n\">220</td>",
        ] {
            assert!(page.contains(said), "{said}");
        }
        let large = DecontaminationReport { benchmarks: vec![benchmark(100); 1_000], ..report };
        let page = render_decontamination(&large).expect("renders");
        assert!(page.len() < LIMIT && page.contains("The first 100 of 1,000 benchmarks"), "{}", page.len());
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
            corruption: large.corruption,
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
}
