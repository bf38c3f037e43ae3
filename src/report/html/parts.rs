//! The parts that both pages have: lists cut to a bound, documents and pairs, stages, damage.

use super::super::figures;
use super::super::messages::damage_cost;
use super::super::model::{
    CompareReport, Corpus, DamageCount, DamageReport, DamagedRecord, DocumentSample, MemoryReport,
    OtherScore, Outcome, PairKind, PairSample, Piece, Recall, Report, SCurve, SearchCost, Stage, Tool,
};
use super::{ADDRESS_CHARS, DETAIL_CHARS, NAME_CHARS};
use crate::wording::{clip, link, plural};
use serde::Serialize;

/// Most methods, languages, warnings and parameters of a method that a page shows.
pub(super) const METHODS: usize = 12;
pub(super) const LANGUAGES: usize = 12;
pub(super) const WARNINGS: usize = 30;
pub(super) const METHOD_PARAMETERS: usize = 80;
const DAMAGED: usize = 50;
const DAMAGE_KINDS: usize = 30;
const STAGES: usize = 40;

/// Characters shown of a page's text, in the opening and again in the excerpt.
const TEXT_CHARS: usize = 900;

/// The parts of a report that need no cutting.
#[derive(Serialize)]
pub(super) struct Heads<'a> {
    tool: &'a Tool,
    created: &'a str,
    corpus: &'a Corpus,
    peak_memory_bytes: Option<u64>,
    memory: Option<&'a MemoryReport>,
    outcome: Option<&'a Outcome>,
    search_cost: Option<&'a SearchCost>,
    recall: Option<&'a Recall>,
    s_curve: Option<&'a SCurve>,
    similarity: &'a str,
    hash: &'a str,
}

impl<'a> Heads<'a> {
    pub(super) fn of_report(report: &'a Report) -> Self {
        Self {
            tool: &report.tool,
            created: &report.created,
            corpus: &report.corpus,
            peak_memory_bytes: report.peak_memory_bytes,
            memory: report.memory.as_ref(),
            outcome: Some(&report.outcome),
            search_cost: Some(&report.search_cost),
            recall: report.recall.as_ref(),
            s_curve: report.s_curve.as_ref(),
            similarity: &report.method.similarity,
            hash: &report.method.hash,
        }
    }

    pub(super) fn of_compare(report: &'a CompareReport) -> Self {
        Self {
            tool: &report.tool,
            created: &report.created,
            corpus: &report.corpus,
            peak_memory_bytes: report.peak_memory_bytes,
            memory: None,
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
pub(super) struct DamageView {
    total: u64,
    /// The number of documents that are lost.
    cost: String,
    kinds: Cut<DamageCount>,
    listed: Cut<DamagedRecord>,
}

impl DamageView {
    pub(super) fn new(damage: &DamageReport) -> Self {
        Self {
            total: damage.total,
            cost: damage_cost(damage),
            kinds: Cut::new(&damage.by_kind, DAMAGE_KINDS, Clone::clone),
            listed: Cut::new(&damage.listed, DAMAGED, Clone::clone),
        }
    }
}

/// The start of a list, and how much was left out.
#[derive(Serialize)]
pub(super) struct Cut<T> {
    shown: Vec<T>,
    total: usize,
    left_out: usize,
}

impl<T> Cut<T> {
    pub(super) fn new<S>(list: &[S], most: usize, view: impl Fn(&S) -> T) -> Self {
        let shown: Vec<T> = list.iter().take(most).map(view).collect();
        Self { total: list.len(), left_out: list.len() - shown.len(), shown }
    }
}

#[derive(Serialize)]
pub(super) struct PageView {
    id: String,
    url: String,
    link: Option<String>,
    opening: String,
    excerpt: Vec<Piece>,
    old: bool,
}

impl PageView {
    pub(super) fn new(page: &DocumentSample) -> Self {
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
            old: page.old,
        }
    }
}

#[derive(Serialize)]
pub(super) struct PairView {
    a: PageView,
    b: PageView,
    distance: Option<u32>,
    similarity: f64,
    exact: bool,
    others: Vec<OtherScore>,
}

impl PairView {
    pub(super) fn new(pair: &PairSample) -> Self {
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
pub(super) struct StageView {
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

pub(super) fn stages(stages: &[Stage]) -> Cut<StageView> {
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

/// The units of stages, one and many.
const UNITS: [(&str, &str); 5] = [
    ("document", "documents"),
    ("pair", "pairs"),
    ("pair of sketches", "pairs of sketches"),
    ("distinct hash", "distinct hashes"),
    ("distinct signature", "distinct signatures"),
];

/// The singular of a stage's unit; a unit that is none of [`UNITS`] stays as it is.
fn one_of(unit: &str) -> &str {
    UNITS.iter().find(|(_, many)| *many == unit).map_or(unit, |&(one, _)| one)
}

/// Wall and processor time of all stages.
#[derive(Serialize)]
pub(super) struct Total {
    wall: f64,
    cpu: f64,
}

impl Total {
    pub(super) fn new(stages: &[Stage]) -> Self {
        Self {
            wall: stages.iter().map(|stage| stage.wall_seconds).sum(),
            cpu: stages.iter().map(|stage| stage.cpu_seconds).sum(),
        }
    }
}

pub(super) fn method_name(name: &str) -> String {
    match name {
        "psm" => "PSM, probabilistic SimHash matching".to_string(),
        "bphs" => "BPHS, block-permuted Hamming search".to_string(),
        "minhash" => "MinHash with bands".to_string(),
        "" => "–".to_string(),
        other => clip(other, NAME_CHARS),
    }
}

/// The command line as a shell would take it.
pub(super) fn command(arguments: &[String]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_as_a_shell_needs() {
        let words = ["simflip", "dedup", "a b.wet.gz", "--out=x", "it's", ""].map(str::to_string);
        assert_eq!(command(&words), r"simflip dedup 'a b.wet.gz' --out=x 'it'\''s' ''");
    }
}
