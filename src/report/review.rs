//! The HTML page on which a person judges a sample of pairs. It needs no other file, and the browser keeps the
//! judgements. Sampled pairs come from *strata*, the bands of distance or similarity.
//!
//! Texts of the corpus are in the page as JSON in a data block, in which no `<` is left. The page's script puts them
//! into text nodes, so no text can become markup. The script runs by a nonce that depends on all data, which no text
//! can name.

use std::path::Path;

use minijinja::{Value, context};
use rayon::prelude::*;
use serde::Serialize;

use super::html::{ADDRESS_CHARS, NAME_CHARS, fill};
use super::model::Tool;
use crate::boilerplate::OwnText;
use crate::display::{clip, counted, link, moment, printable_json, visible};
use crate::evaluate::diff::{Alignment, Stretch};
use crate::evaluate::judged::{ReviewSample, Stratum};
use crate::hash::text_digest;
use crate::inspection::Inspection;
use crate::{Error, Result};

/// The title of every such page, by which simflip recognises one.
pub const TITLE: &str = "simflip: pairs to judge";

/// Characters of common text shown on either side of a difference.
const CONTEXT_CHARS: usize = 320;
/// Lines of common text shown on either side of a difference, at most.
const CONTEXT_LINES: usize = 5;
/// Common text is folded only where that hides at least this many characters.
const LEAST_FOLD: usize = 200;
/// Characters shown of the start of one difference, and of its end.
const CHANGE_HEAD: usize = 1_500;
const CHANGE_TAIL: usize = 400;
/// Characters shown of a pair, about; the page reports the length of the rest.
const SHOWN_CHARS: usize = 40_000;
/// Characters of a pair that can be unfolded.
const FOLDED_CHARS: usize = 20_000;

/// The facts in the head of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewHead {
    /// The program that wrote the page.
    pub tool: Tool,
    /// When the page was made, RFC 3339.
    pub created: String,
    /// The folder of results, as the user named it.
    pub result: String,
    /// The meaning of a pair's similarity, in words.
    pub similarity: String,
    /// Listed pairs of different texts: those that the sample stands for.
    pub pairs: u64,
    /// Listed pairs of one text, which nobody needs to judge.
    pub copies: u64,
    /// Pairs that were found, listed or not.
    pub found: u64,
    /// Seed of the sample.
    pub seed: u64,
}

/// A document of a sampled pair: one side of the pair on the HTML page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewPage {
    /// Its id in results.
    pub id: String,
    /// Its URL, or an empty string.
    pub url: String,
    /// Its text, or the beginning of it, parted into compared text and boilerplate.
    pub text: OwnText,
    /// Bytes of its whole text.
    pub text_bytes: u64,
}

/// The data block of the page.
#[derive(Serialize)]
struct Data<'a> {
    header: String,
    strata: &'a [Stratum],
    pairs: Vec<ReviewPairView>,
}

#[derive(Serialize)]
struct ReviewPairView {
    stratum: usize,
    distance: Option<u32>,
    similarity: Option<f64>,
    /// Its row of the CSV, all but the label, which is the last.
    csv: String,
    sides: [SideView; 2],
    parts: Vec<TextPart>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct SideView {
    id: String,
    url: String,
    link: Option<String>,
    bytes: u64,
}

/// A part of two texts side by side.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum TextPart {
    Same(String),
    /// Words of the first text in place of words of the second.
    Differs(String, String),
    /// Common text that is folded: its number of characters, the number of those that the page lacks, and the others.
    Folded(usize, usize, String),
    /// The rests that the page lacks: characters of the beginning of either text, and bytes behind that beginning.
    Rest([usize; 2], [u64; 2]),
    /// Lines of either document that are boilerplate, and were not compared.
    Boilerplate(String, String),
}

/// The page for a sample, as HTML. `ids` has the id of each document by number, and `sides` has the two documents of
/// each pair, in the order of the sample.
///
/// # Errors
/// If `ids` or `sides` are not those of the sample; [`Error::Render`], which no text should be able to cause.
pub fn render(
    head: &ReviewHead,
    sample: &ReviewSample,
    ids: &[String],
    sides: &[[ReviewPage; 2]],
) -> Result<String> {
    if sides.len() != sample.pairs.len() {
        let expected = format!("{} pairs of texts", sample.pairs.len());
        return Err(Error::parameter("sample", sides.len(), expected));
    }
    let mut csv = Vec::new();
    sample.write_csv(ids, Path::new("the page"), &mut csv)?;
    let csv = String::from_utf8(csv).map_err(|e| Error::Render(e.to_string()))?;
    let mut rows = records(&csv).into_iter().map(str::to_owned);
    let header = rows.next().unwrap_or_default();
    let aligned: Vec<(Vec<TextPart>, Vec<String>)> = sides.par_iter().map(|[a, b]| parts(a, b)).collect();
    let pairs = sample
        .pairs
        .iter()
        .zip(sides)
        .zip(aligned)
        .map(|((sampled, [a, b]), (parts, notes))| ReviewPairView {
            stratum: sampled.stratum,
            distance: sampled.pair.distance,
            similarity: sampled.pair.similarity,
            csv: rows.next().unwrap_or_default(),
            sides: [a, b].map(|side| SideView {
                id: clip(&side.id, NAME_CHARS),
                url: clip(&side.url, ADDRESS_CHARS),
                link: link(&side.url),
                bytes: side.text_bytes,
            }),
            parts,
            notes,
        })
        .collect();
    let data = Data { header, strata: &sample.strata, pairs };
    let data = escape(&serde_json::to_string(&data).map_err(|e| Error::Render(e.to_string()))?);
    let templates = [
        ("style.css", include_str!("templates/style.css")),
        ("review.css", include_str!("templates/review.css")),
        ("review.js", include_str!("templates/review.js")),
        ("review.html", include_str!("templates/review.html")),
    ];
    let id = format!("{:032x}", text_digest(&data));
    let view = context! {
        id,
        title => TITLE,
        data => Value::from_safe_string(data),
        tool => format!("{} {}", head.tool.name, head.tool.version),
        created => clip(&moment(&head.created), NAME_CHARS),
        result => clip(&head.result, ADDRESS_CHARS),
        similarity => clip(&head.similarity, ADDRESS_CHARS),
        listed => head.pairs,
        copies => head.copies,
        unlisted => head.found.saturating_sub(head.pairs + head.copies),
        sampled => sample.pairs.len(),
        strata => sample.strata.len(),
        seed => head.seed.to_string(),
    };
    fill(&templates, "review.html", false, view)
}

/// JSON without a "<", and without characters that are no text: all of these stand in strings only.
fn escape(json: &str) -> String {
    printable_json(json).replace('<', "\\u003c")
}

/// The records of a CSV text, each of which ends with "\n"; a quoted field may have line feeds, too.
fn records(csv: &str) -> Vec<&str> {
    let (mut records, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, byte) in csv.bytes().enumerate() {
        match byte {
            // A quote within a field is doubled, and turns twice.
            b'"' => quoted = !quoted,
            b'\n' if !quoted => {
                records.push(&csv[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    records
}

/// The parts of two documents side by side, and notes on them for the reader.
fn parts(a: &ReviewPage, b: &ReviewPage) -> (Vec<TextPart>, Vec<String>) {
    let (own_a, own_b) = (&a.text.own, &b.text.own);
    let alignment = Alignment::new(own_a, own_b);
    let mut notes = Vec::new();
    let whole = [a, b].iter().all(|side| side.text.len() as u64 >= side.text_bytes);
    if [a, b].iter().any(|side| !side.text.boilerplate.is_empty()) {
        notes.push("Grey is boilerplate, which was not compared.".to_owned());
    }
    let cut = alignment.cut || !whole;
    if cut {
        let (x, y) = alignment.words;
        notes.push(format!(
            "These are long: only their beginnings were compared, {} of the left page and {y} of the right.",
            counted(x, "word", "words")
        ));
    }
    if alignment.distance == 0 {
        notes.push(if cut {
            "There they are the same; what differs comes later and is not on this page.".to_owned()
        } else if own_a == own_b {
            "The texts are the same, byte for byte.".to_owned()
        } else {
            "The words are the same; only white space differs.".to_owned()
        });
    }
    let boilerplate = [a, b].map(|side| side.text.boilerplate.as_slice());
    let layout = PartLayout { parts: Vec::new(), shown: SHOWN_CHARS, folded: FOLDED_CHARS, boilerplate };
    let unread = [a, b].map(|side| side.text_bytes.saturating_sub(side.text.len() as u64));
    (layout.lay_out(&alignment.stretches, own_a, own_b, unread), notes)
}

/// The parts of two texts while they are laid out, within bounds of length.
struct PartLayout<'a> {
    parts: Vec<TextPart>,
    /// Characters that may still be shown, and those that may still be in folded text.
    shown: usize,
    folded: usize,
    /// The boilerplate of either document that is not laid out yet.
    boilerplate: [&'a [(usize, String)]; 2],
}

impl PartLayout<'_> {
    /// Lays out two texts, of which `unread` bytes more are not there.
    fn lay_out(mut self, stretches: &[Stretch], a: &str, b: &str, unread: [u64; 2]) -> Vec<TextPart> {
        // White space before a stretch belongs to it.
        let (mut from_a, mut from_b) = (0, 0);
        for (at, stretch) in stretches.iter().enumerate() {
            if self.shown == 0 {
                break;
            }
            self.boilerplate_before([stretch.a.end, stretch.b.end]);
            let (in_a, in_b) = (clean(&a[from_a..stretch.a.end]), clean(&b[from_b..stretch.b.end]));
            (from_a, from_b) = (stretch.a.end, stretch.b.end);
            if stretch.same {
                self.same(&in_a, at + 1 == stretches.len());
            } else {
                self.differs(&in_a, &in_b);
            }
        }
        if self.shown > 0 {
            self.boilerplate_before([usize::MAX; 2]);
        }
        let left = [a[from_a..].trim(), b[from_b..].trim()].map(|rest| rest.chars().count());
        if left != [0, 0] || unread != [0, 0] {
            self.parts.push(TextPart::Rest(left, unread));
        }
        self.parts
    }

    /// Lays out the boilerplate that stood before these bytes of the compared texts.
    fn boilerplate_before(&mut self, ends: [usize; 2]) {
        let [left, right] = [0, 1].map(|side: usize| {
            let boilerplate = self.boilerplate[side];
            let (here, later) = boilerplate.split_at(boilerplate.partition_point(|&(at, _)| at < ends[side]));
            self.boilerplate[side] = later;
            shorten(clean(&here.iter().map(|(_, lines)| lines.as_str()).collect::<String>()).trim())
        });
        if !left.is_empty() || !right.is_empty() {
            let chars = left.chars().count() + right.chars().count();
            self.show(TextPart::Boilerplate(left, right), chars);
        }
    }

    fn show(&mut self, part: TextPart, chars: usize) {
        self.shown = self.shown.saturating_sub(chars.max(1));
        self.parts.push(part);
    }

    fn same(&mut self, text: &str, last: bool) {
        let (head, rest) = text.split_at(head_of(text));
        let (middle, tail) = rest.split_at(if last { rest.len() } else { tail_of(rest) });
        let hidden = middle.trim().chars().count();
        if hidden < LEAST_FOLD {
            return self.show(TextPart::Same(text.to_owned()), text.chars().count());
        }
        let (kept, _) = split_at_char(middle.trim(), hidden.min(self.folded));
        let missing = hidden.saturating_sub(self.folded);
        self.folded = self.folded.saturating_sub(hidden);
        self.show(TextPart::Same(head.trim_end().to_owned()), head.chars().count());
        self.parts.push(TextPart::Folded(hidden, missing, kept.to_owned()));
        let tail = tail.trim_start();
        if !tail.is_empty() {
            self.show(TextPart::Same(tail.to_owned()), tail.chars().count());
        }
    }

    fn differs(&mut self, a: &str, b: &str) {
        let (a, b) = (shorten(a), shorten(b));
        let chars = a.chars().count() + b.chars().count();
        self.show(TextPart::Differs(a, b), chars);
    }
}

/// A difference, or its start and its end if it is long.
fn shorten(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= CHANGE_HEAD + CHANGE_TAIL + LEAST_FOLD {
        return text.to_owned();
    }
    let (head, rest) = split_near(text, CHANGE_HEAD);
    let (middle, tail) = split_near(rest, rest.chars().count() - CHANGE_TAIL);
    format!("{head} … [{} characters left out] … {tail}", middle.chars().count())
}

/// Bytes of the beginning of a common text that stays in view after a difference.
fn head_of(text: &str) -> usize {
    let lines = text.match_indices('\n').nth(CONTEXT_LINES).map_or(text.len(), |(at, _)| at);
    lines.min(split_near(text, CONTEXT_CHARS).0.len())
}

/// The place from which on a common text stays in view before a difference.
fn tail_of(text: &str) -> usize {
    let lines = text.rmatch_indices('\n').nth(CONTEXT_LINES).map_or(0, |(at, _)| at);
    let chars = text.chars().count().saturating_sub(CONTEXT_CHARS);
    lines.max(split_near(text, chars).0.len())
}

fn split_at_char(text: &str, chars: usize) -> (&str, &str) {
    text.split_at(text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at))
}

/// Splits after about so many characters, at white space if there is some near.
fn split_near(text: &str, chars: usize) -> (&str, &str) {
    let (head, rest) = split_at_char(text, chars);
    match rest.char_indices().take(40).find(|(_, c)| c.is_whitespace()) {
        Some((at, _)) => text.split_at(head.len() + at),
        None => (head, rest),
    }
}

/// A text that can be shown: with white space in single blanks and line ends. A mark stands for a character that is not
/// text, or that turns the direction of the text behind it.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut blank, mut lines) = (false, 0);
    for c in text.chars() {
        if c.is_whitespace() {
            blank = true;
            lines += usize::from(c == '\n');
            continue;
        }
        if blank {
            out.push_str(["", "\n", "\n\n"][lines.min(2)]);
            out.push_str(if lines == 0 { " " } else { "" });
            (blank, lines) = (false, 0);
        }
        out.push(visible(c));
    }
    out
}

/// The part of a text between the first `from` and the first `to` behind it; none if one of them is missing.
pub(super) fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    text.split_once(from)?.1.split_once(to).map(|(inner, _)| inner)
}

/// Checks, by their checksum, that the pairs on the review page at `path` are those that it was written with. `page` is
/// its content; facts and problems go to `inspection`.
pub(super) fn check(path: &Path, page: &str, inspection: &mut Inspection) {
    let data = between(page, "<script type=\"application/json\" id=\"data\">", "</script>");
    let (Some(data), Some(id)) = (data, between(page, "data-id=\"", "\"")) else {
        return inspection.problem(format!("{}: its pairs are not there", path.display()));
    };
    if format!("{:032x}", text_digest(data)) != id {
        inspection.problem(format!("{}: its pairs do not fit their checksum", path.display()));
    }
    match serde_json::from_str::<serde_json::Value>(data) {
        Ok(data) => {
            let count = |name: &str| data[name].as_array().map_or(0, Vec::len);
            inspection.fact("pairs to judge", count("pairs"));
            inspection.fact("bands", count("strata"));
        }
        Err(error) => inspection.problem(format!("{}: its pairs are no JSON: {error}", path.display())),
    }
    inspection.fact("not here", "judgements: the browser keeps them, and saves them as judged.csv");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::found::FoundPair;
    use crate::evaluate::judged::{Bands, read_judgements};
    use crate::id::Document;
    use crate::report::fixtures::EVIL;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    fn side(id: &str, text: &str) -> ReviewPage {
        let text = OwnText { own: text.into(), boilerplate: Vec::new() };
        ReviewPage { id: id.into(), url: id.into(), text_bytes: text.len() as u64, text }
    }

    fn page_of(ids: [&str; 2], texts: [&str; 2]) -> String {
        let pairs = [FoundPair { a: Document(0), b: Document(1), distance: Some(2), similarity: Some(0.5) }];
        let ids = ids.map(str::to_owned);
        let sample = ReviewSample::draw(&pairs, &ids, &Bands::Distance, 200, 0).unwrap();
        let sides = [[side(&ids[0], texts[0]), side(&ids[1], texts[1])]];
        let head = ReviewHead {
            result: EVIL.into(),
            similarity: EVIL.into(),
            created: EVIL.into(),
            ..Default::default()
        };
        render(&head, &sample, &ids, &sides).unwrap()
    }

    fn data(page: &str) -> Json {
        let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    fn laid_out(a: &str, b: &str) -> Vec<TextPart> {
        parts(&side("a", a), &side("b", b)).0
    }

    #[test]
    fn hostile_text_stays_text() {
        let url = format!("javascript:{EVIL}");
        let page = page_of([&url, EVIL], [&format!("{EVIL} <!--<script>"), "--> ]]> \u{2028} </SCRIPT\n>"]);
        assert_eq!(page.matches("<script").count(), 2, "the data, and what shows it");
        assert_eq!(page.to_lowercase().matches("</script").count(), 2);
        assert!(!page.contains("<img") && !page.contains("<!--") && !page.contains("href=\"javascript"));
        assert!(!page.contains('\u{202e}') && !page.contains('\u{0}'));
        let (data, shell) = (data(&page), page.split_once("</script>").unwrap().1);
        assert!(!shell.contains("src=") && !page.contains("http://") && !page.contains("https://"));
        assert_eq!(data["pairs"][0]["sides"][0]["link"], Json::Null);
        assert!(data["pairs"][0]["parts"].to_string().contains("alert"), "shown, as text");
    }

    #[test]
    fn the_nonce_depends_on_the_texts() {
        let nonce = |page: &str| page.split("nonce-").nth(1).unwrap()[..32].to_owned();
        let (one, two) = (page_of(["a", "b"], ["x", "y"]), page_of(["a", "b"], ["x", "z"]));
        assert!(one.contains(&format!("<script nonce=\"{}\"", nonce(&one))));
        assert_ne!(nonce(&one), nonce(&two));
    }

    #[test]
    fn rows_with_labels_are_judgements() {
        let names = ["say \"hi\"\nthere", "a,b"];
        let page = page_of(names, ["x", "y"]);
        let data = data(&page);
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        let csv = format!("{}\n{}duplicate\n", text(&data["header"]), text(&data["pairs"][0]["csv"]));
        let row = csv::Reader::from_reader(csv.as_bytes()).records().next().unwrap().unwrap();
        assert_eq!(
            row.iter().collect::<Vec<_>>(),
            [names[0], names[1], "distance 2", "1", "1", "2", "0.5", "duplicate"]
        );
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, csv.as_bytes()).unwrap();
        assert_eq!(read_judgements(file.path(), 1.0, None).unwrap()[0].right, 1);
    }

    #[test]
    fn changes_are_marked_and_what_lies_far_away_is_folded() {
        assert_eq!(
            laid_out("the  price\n is 20", "the price is 25 euro"),
            [TextPart::Same("the price\nis".into()), TextPart::Differs(" 20".into(), " 25 euro".into())]
        );
        let filler = "lorem ipsum dolor sit amet ".repeat(100);
        let got = laid_out(&format!("{filler}one {filler}"), &format!("{filler}two {filler}"));
        let kinds: Vec<&str> = got
            .iter()
            .map(|part| match part {
                TextPart::Same(text) => {
                    assert!(text.chars().count() <= CONTEXT_CHARS + 40);
                    "same"
                }
                TextPart::Differs(..) => "differs",
                TextPart::Folded(chars, 0, text) => {
                    assert_eq!(*chars, text.chars().count());
                    "folded"
                }
                _ => "other",
            })
            .collect();
        assert_eq!(kinds, ["same", "folded", "same", "differs", "same", "folded"]);
        let lines = laid_out(&format!("{} x", "a\n".repeat(500)), &format!("{} y", "a\n".repeat(500)));
        assert!(
            matches!(&lines[0], TextPart::Same(text) if text.lines().count() <= CONTEXT_LINES + 1),
            "{lines:?}"
        );
        assert!(matches!(lines[1], TextPart::Folded(..)));
    }

    #[test]
    fn sameness_is_reported() {
        let notes = |a: &str, b: &str| parts(&side("a", a), &side("b", b)).1.concat();
        assert!(notes("x y", "x y").contains("byte for byte"));
        assert!(notes("x y", "x  y").contains("white space"));
        assert_eq!(notes("x y", "x z"), "");
        let cut = ReviewPage { text_bytes: 1_000, ..side("a", "x") };
        let notes = parts(&cut, &cut).1.concat();
        assert!(notes.contains("1 word of the left") && notes.contains("comes later"), "{notes}");
        // Where the text ends, the page says how much was never read.
        let (shown, _) = parts(&cut, &side("b", "x y"));
        assert_eq!(shown.last(), Some(&TextPart::Rest([0, 0], [999, 0])), "{shown:?}");
        assert!(parts(&side("a", ""), &side("b", "")).0.is_empty());
    }

    #[test]
    fn boilerplate_stands_where_it_stood_and_counts_for_nothing() {
        let boilerplate =
            |pieces: &[(usize, &str)]| pieces.iter().map(|&(at, text)| (at, text.to_owned())).collect();
        let own_text = |own: &str, pieces: &[(usize, &str)]| {
            let text = OwnText { own: own.to_owned(), boilerplate: boilerplate(pieces) };
            ReviewPage { text_bytes: text.len() as u64, text, ..side("p", "") }
        };
        let left = own_text("one two\n", &[(0, "Home\nShop\n"), (8, "Imprint\n")]);
        let right = own_text("one three\n", &[(0, "Start\n"), (10, "Imprint\n")]);
        let (shown, notes) = parts(&left, &right);
        assert_eq!(notes, ["Grey is boilerplate, which was not compared."]);
        let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let ((home, start), (two, three), (imprint, same)) =
            (both("Home\nShop", "Start"), both(" two", " three"), both("Imprint", "Imprint"));
        assert_eq!(
            shown,
            [
                TextPart::Boilerplate(home, start),
                TextPart::Same("one".to_owned()),
                TextPart::Differs(two, three),
                TextPart::Boilerplate(imprint, same)
            ]
        );
    }

    #[test]
    fn a_page_is_bounded_whatever_the_texts_are() {
        let mut random = crate::hash::SplitMix64::new(3);
        let mut words = || (0..60_000).map(|_| format!("w{} ", random.below(5_000))).collect::<String>();
        let long_word = |c: &str| c.repeat(1_000_000);
        for (a, b) in [
            (words(), words()),
            (long_word("x"), long_word("y")),
            (long_word("<"), format!("{}.", long_word("<"))),
            ("x ".repeat(100_000), "\n".repeat(100_000)),
        ] {
            let (parts, _) = parts(&side("a", &a), &side("b", &b));
            let chars: usize = parts
                .iter()
                .map(|part| match part {
                    TextPart::Same(text) | TextPart::Folded(_, _, text) => text.chars().count(),
                    TextPart::Differs(a, b) | TextPart::Boilerplate(a, b) => {
                        a.chars().count() + b.chars().count()
                    }
                    TextPart::Rest(..) => 0,
                })
                .sum();
            assert!(chars <= SHOWN_CHARS + FOLDED_CHARS + 3 * (CHANGE_HEAD + CHANGE_TAIL), "{chars}");
            assert!(parts.len() <= SHOWN_CHARS + 100);
        }
    }

    proptest! {
        /// The twin: without bounds in the way, both sides read as the texts do.
        #[test]
        fn both_texts_can_be_read_off(a in "[a-c \n]{0,60}", b in "[a-c \n\u{202e}]{0,60}") {
            let (mut left, mut right) = (String::new(), String::new());
            for part in laid_out(&a, &b) {
                let (a, b) = match part {
                    TextPart::Same(text) | TextPart::Folded(_, 0, text) => (text.clone(), text),
                    TextPart::Differs(a, b) => (a, b),
                    other => panic!("{other:?}"),
                };
                left += &a;
                right += &b;
            }
            let plain = |text: &str| text.replace('\u{202e}', "\u{fffd}").split_whitespace().collect::<String>();
            prop_assert_eq!(plain(&left), plain(&a));
            prop_assert_eq!(plain(&right), plain(&b));
        }
    }
}
