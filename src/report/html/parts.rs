//! Parts that several pages have: cut lists, documents and pairs, stages, corruption. Templates take each [`Value`].

use super::super::figures;
use super::super::messages::corruption_cost;
use super::super::model::{CorruptionReport, DocumentSample, PairKind, PairSample, Stage};
use super::{ADDRESS_CHARS, DETAIL_CHARS, NAME_CHARS};
use crate::display::{clip, link, plural};
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

/// Most methods, languages, warnings and parameters of a method that a page shows.
pub(super) const METHODS: usize = 12;
pub(super) const LANGUAGES: usize = 12;
pub(super) const WARNINGS: usize = 30;
pub(super) const METHOD_PARAMETERS: usize = 80;
const CORRUPT: usize = 50;
const CORRUPTION_KINDS: usize = 30;
const STAGES: usize = 40;

/// Characters shown of an excerpt of a document's text; its opening has half as many.
const TEXT_CHARS: usize = 900;

/// Data of a report, unchanged, for a template.
pub(super) fn data<T: Serialize>(data: &T) -> Value {
    Value::from(Serde(data))
}

/// The first `most` items of a list, each as `view` makes it, with the numbers of all items and of those left out.
pub(super) fn cut<S>(list: &[S], most: usize, view: impl Fn(&S) -> Value) -> Value {
    let shown: Vec<Value> = list.iter().take(most).map(view).collect();
    context! { total => list.len(), left_out => list.len() - shown.len(), shown }
}

/// The corrupt sections of an input, with the number of documents that they cost, in words.
pub(super) fn corruption(corruption: &CorruptionReport) -> Value {
    context! {
        total => corruption.total,
        cost => corruption_cost(corruption),
        kinds => cut(&corruption.by_kind, CORRUPTION_KINDS, data),
        listed => cut(&corruption.listed, CORRUPT, data),
    }
}

/// A document: id, URL, a link if a browser may go there, and opening and excerpt of its text.
pub(super) fn document(sample: &DocumentSample) -> Value {
    let mut left = TEXT_CHARS;
    let mut excerpt = Vec::new();
    for piece in &sample.excerpt {
        if left == 0 {
            break;
        }
        let text = clip(&piece.text, left);
        left = left.saturating_sub(text.chars().count().max(10));
        excerpt.push(context! { text, differs => piece.differs });
    }
    // An excerpt without an ellipsis in front begins where the document begins.
    let shows_opening = sample.excerpt.first().is_some_and(|piece| !piece.text.starts_with('…'));
    context! {
        id => clip(&sample.id, NAME_CHARS),
        url => clip(&sample.url, ADDRESS_CHARS),
        link => link(&sample.url),
        opening => if shows_opening { String::new() } else { clip(&sample.opening, TEXT_CHARS / 2) },
        excerpt,
        reference => sample.reference,
    }
}

/// A pair of documents, with its distance and its similarities by all methods that found it.
pub(super) fn pair(pair: &PairSample) -> Value {
    let others = pair.others.iter().take(METHODS);
    let others = others.map(|it| context! { by => clip(&it.by, NAME_CHARS), similarity => it.similarity });
    context! {
        a => document(&pair.a),
        b => document(&pair.b),
        distance => pair.distance,
        similarity => pair.similarity,
        exact => pair.kind == PairKind::Exact,
        others => others.collect::<Value>(),
    }
}

/// The stages of a run, each with its times, its share of the time of all, and its rates per second.
pub(super) fn stages(stages: &[Stage]) -> Value {
    let total: f64 = stages.iter().map(|stage| stage.wall_seconds).sum();
    cut(stages, STAGES, |stage| {
        let share = if total > 0.0 { stage.wall_seconds / total } else { 0.0 };
        context! {
            name => &stage.name,
            wall => stage.wall_seconds,
            cpu => stage.cpu_seconds,
            share => figures::percent(share),
            // As a CSS length.
            width => format!("{:.2}%", (share * 100.0).clamp(0.0, 100.0)),
            items => stage.items,
            unit => plural(stage.items, one_of(&stage.item_unit), &stage.item_unit),
            item_rate => figures::rate(stage.items as f64, stage.wall_seconds),
            megabyte_rate => figures::rate(stage.bytes as f64 / 1e6, stage.wall_seconds),
        }
    })
}

/// The units of stages, in the singular and in the plural.
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

/// The sums of the seconds on the clock, and of processor time, of all stages.
pub(super) fn total(stages: &[Stage]) -> Value {
    let sum = |of: fn(&Stage) -> f64| stages.iter().map(of).sum::<f64>();
    context! { wall => sum(|stage| stage.wall_seconds), cpu => sum(|stage| stage.cpu_seconds) }
}

/// The name of a method as a page shows it: `psm`, `bphs` and `minhash` written out, a dash for an empty name.
pub(super) fn method_name(name: &str) -> String {
    match name {
        "psm" => "PSM, probabilistic SimHash matching".to_string(),
        "bphs" => "BPHS, block-permuted Hamming search".to_string(),
        "minhash" => "MinHash with bands".to_string(),
        "" => "–".to_string(),
        other => clip(other, NAME_CHARS),
    }
}

/// A command line as a shell takes it, with quotes where needed; a very long one is cut.
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
