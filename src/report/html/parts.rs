//! Parts that several pages have: cut lists, documents and pairs, stages, corruption. Templates take each [`Value`].

use super::super::figures;
use super::super::messages::corruption_cost;
use super::super::model::{CorruptionReport, DocumentSample, PairKind, PairSample, Stage};
use super::{ADDRESS_CHARS, DETAIL_CHARS, NAME_CHARS};
use crate::display::{clip, link, plural};
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

/// A page shows at most so many methods of a comparison. Of a pair it shows at most so many other similarities.
pub(super) const METHODS: usize = 12;
/// A page shows at most so many languages of documents.
pub(super) const LANGUAGES: usize = 12;
/// A page shows at most so many warnings.
pub(super) const WARNINGS: usize = 30;
/// A page shows at most so many parameters of each method.
pub(super) const METHOD_PARAMETERS: usize = 80;
const CORRUPT: usize = 50;
const CORRUPTION_KINDS: usize = 30;
const STAGES: usize = 40;

/// A page shows about so many characters of an excerpt of a document, and half as many of the document's opening.
const TEXT_CHARS: usize = 900;

/// Makes a value of data of a report, unchanged, for a template to read its fields. Data that does not serialize makes
/// an invalid value, on which the template fails.
pub(super) fn data<T: Serialize>(data: &T) -> Value {
    Value::from(Serde(data))
}

/// The first `most` items of a list, each as `view` makes it, with the numbers of all items and of those left out.
pub(super) fn cut<S>(list: &[S], most: usize, view: impl Fn(&S) -> Value) -> Value {
    let shown: Vec<Value> = list.iter().take(most).map(view).collect();
    context! { total => list.len(), left_out => list.len() - shown.len(), shown }
}

/// Makes a value of the corrupt sections of an input: records, or stretches of a file, that were skipped. `total` is
/// the number of sections. `cost` is a clause with the number of lost documents, as far as it is known. `kinds` has
/// the number of sections of each kind. `listed` has the sections that the report lists, which may be fewer than all.
pub(super) fn corruption(corruption: &CorruptionReport) -> Value {
    context! {
        total => corruption.total,
        cost => corruption_cost(corruption),
        kinds => cut(&corruption.by_kind, CORRUPTION_KINDS, data),
        listed => cut(&corruption.listed, CORRUPT, data),
    }
}

/// Makes a value of a document, with its id, its URL, and an excerpt of its text in pieces. `link` is the URL if
/// [`link`] lets a page link to it, and none for any other. `opening` is empty if the excerpt begins where the document
/// begins. `differs` marks a piece where the other document of a pair has other words, or a benchmark's item stands.
/// `reference` is true for a document of the reference set.
pub(super) fn document(sample: &DocumentSample) -> Value {
    let mut left = TEXT_CHARS;
    let mut excerpt = Vec::new();
    for piece in &sample.excerpt {
        if left == 0 {
            break;
        }
        let text = clip(&piece.text, left);
        // Each piece counts as ten characters at least, so that there are few pieces.
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

/// Makes a value of a pair of documents. `distance` is the Hamming distance of the SimHashes in bits. It is none for
/// methods without SimHash. `similarity` is always a number, by the measure of the method that found the pair. `exact`
/// is true if the texts are equal. In a comparison, `others` has at most [`METHODS`] similarities by other methods that
/// found the pair, where they differ from `similarity`. Elsewhere it is empty.
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

/// Makes a value of the first [`STAGES`] stages of a run. Each has its seconds on the clock and of processor time.
/// `share` is its part of the seconds on the clock of all stages, in percent. `item_rate` has the items per second on
/// the clock, and `megabyte_rate` the megabytes. A dash stands for a rate that is not above 0.
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
    ("distinct sketch", "distinct sketches"),
    ("text", "texts"),
];

/// The singular of a stage's unit; a unit that is none of [`UNITS`] stays as it is.
fn one_of(unit: &str) -> &str {
    UNITS.iter().find(|(_, many)| *many == unit).map_or(unit, |&(one, _)| one)
}

/// Sums the seconds on the clock, and those of processor time, of all stages, for the last row of their table.
pub(super) fn total(stages: &[Stage]) -> Value {
    let sum = |of: fn(&Stage) -> f64| stages.iter().map(of).sum::<f64>();
    context! { wall => sum(|stage| stage.wall_seconds), cpu => sum(|stage| stage.cpu_seconds) }
}

/// Gives the name of a method as a page shows it. `both` and `minhash` are written out. A dash stands for an empty
/// name, which a report without a method has. Any other name stays as it is, and a very long one is cut.
pub(super) fn method_name(name: &str) -> String {
    match name {
        "both" => "MinHash and SimHash".to_string(),
        "minhash" => "MinHash with bands".to_string(),
        "" => "–".to_string(),
        other => clip(other, NAME_CHARS),
    }
}

/// Gives the command line of a run as a POSIX shell takes it, with single quotes where it needs them. A very long one
/// is cut. White space becomes spaces, and U+FFFD stands for characters that control a terminal.
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
