//! Short excerpts of texts for a person: the beginning of a document, and the first differences of two documents.
//!
//! The work is bounded for any texts. The bytes that two texts share at both ends are stripped first. Of the rest, only
//! a window of some kilobytes is cut into words and compared. Two texts always have the same excerpts.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use similar::{DiffTag, DiffableStr};

use crate::evaluate::diff::{Numbers, changes};

/// A part of an excerpt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its text.
    pub text: String,
    /// True if it is marked: the other document of the pair has other words here, or a benchmark's item stands here.
    pub differs: bool,
}

/// Bytes of each text that are compared word by word, from shortly before the first difference.
const WINDOW_BYTES: usize = 6 << 10;
/// Bytes that are compared first: they most often show enough, in a fraction of the time.
const FIRST_BYTES: usize = WINDOW_BYTES / 4;
/// Characters of common text shown on either side of a difference.
const CONTEXT_CHARS: usize = 60;
/// Characters shown of one difference.
const CHANGE_CHARS: usize = 160;
/// Characters shown of a passage, and on either side of it.
const PASSAGE_CHARS: usize = 600;
const AROUND_CHARS: usize = 120;
/// Differences shown.
const CHANGES: usize = 4;

/// The first words of a text on one line, in at most `max_chars` characters, then an ellipsis if the text is longer.
pub fn opening(text: &str, max_chars: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let space = usize::from(used > 0);
        let chars = word.chars().take(max_chars + 1).count();
        if used + space + chars > max_chars {
            // A script without spaces is one long word: cut it, rather than show nothing.
            if used < max_chars / 2 {
                out.extend((space > 0).then_some(' '));
                out.extend(word.chars().take(max_chars - used - space));
            }
            out.push('…');
            return out;
        }
        out.extend((space > 0).then_some(' '));
        out.push_str(word);
        used += space + chars;
    }
    out
}

/// The passage of a text in this range of bytes, marked, with some of the text before and behind it. Long passages are
/// cut, and bytes beyond the text are ignored.
pub fn passage(text: &str, bytes: Range<usize>) -> Vec<Piece> {
    let [start, end] = [bytes.start, bytes.end].map(|at| text.floor_char_boundary(at));
    let (before, after) = (&text[..start], &text[end.max(start)..]);
    let from = before.char_indices().rev().nth(AROUND_CHARS).map_or(0, |(at, c)| at + c.len_utf8());
    let to = after.char_indices().nth(AROUND_CHARS).map_or(after.len(), |(at, _)| at);
    let ellipsis = |is_cut: bool| if is_cut { "…" } else { "" };
    let pieces = [
        (format!("{}{}", ellipsis(from > 0), &before[from..]), false),
        (opening(&text[start..end.max(start)], PASSAGE_CHARS), true),
        (format!("{}{}", &after[..to], ellipsis(to < after.len())), false),
    ];
    pieces
        .into_iter()
        .map(|(text, differs)| Piece { text, differs })
        .filter(|it| !it.text.is_empty())
        .collect()
}

/// Excerpts of `a` and `b` around their first differences, with what differs marked.
///
/// White space is shown as single spaces and does not count as a difference. Both excerpts are empty if the texts are
/// equal, and if their words do not differ within the window that is compared.
pub fn differences(a: &str, b: &str) -> (Vec<Piece>, Vec<Piece>) {
    if a == b {
        return (Vec::new(), Vec::new());
    }
    let (start, end) = common_ends(a, b);
    let from = back_up(a, start);
    let (first, is_enough) = differences_within(a, b, from, end, FIRST_BYTES);
    if is_enough { first } else { differences_within(a, b, from, end, WINDOW_BYTES).0 }
}

/// The excerpts of `bytes` bytes of either text from byte `from` on; the last `common_end` bytes are common. Also gives
/// true if more bytes would show no more.
fn differences_within(
    a: &str,
    b: &str,
    from: usize,
    common_end: usize,
    bytes: usize,
) -> ((Vec<Piece>, Vec<Piece>), bool) {
    let (window_a, window_b) = (window(a, from, common_end, bytes), window(b, from, common_end, bytes));
    let (words_a, words_b) = (window_a.tokenize_unicode_words(), window_b.tokenize_unicode_words());
    let mut stretches = stretches(&words_a, &words_b);
    // Where a window was cut short of a text's last difference, its last stretch differs by accident.
    let cut = |text: &str, window: &str| from + window.len() < text.len() - common_end;
    let is_cut = cut(a, window_a) || cut(b, window_b);
    if is_cut && stretches.len() > 2 {
        stretches.pop_if(|last| last.differs);
    }
    let shown = shown(&stretches);
    let ends = |text: &str, window: &str| (from > 0, from + window.len() < text.len());
    let excerpts = (
        excerpt(&words_a, shown, ends(a, window_a), |stretch| stretch.a.clone()),
        excerpt(&words_b, shown, ends(b, window_b), |stretch| stretch.b.clone()),
    );
    (excerpts, !is_cut || shown.len() < stretches.len())
}

/// Numbers of bytes that two texts share at their beginnings, and at the ends of the rests, cut at characters.
fn common_ends(a: &str, b: &str) -> (usize, usize) {
    let start = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let start = a.floor_char_boundary(start);
    let (rest_a, rest_b) = (&a[start..], &b[start..]);
    let end = rest_a.bytes().rev().zip(rest_b.bytes().rev()).take_while(|(x, y)| x == y).count();
    (start, rest_a.len() - rest_a.ceil_char_boundary(rest_a.len() - end))
}

/// A byte before `start`, at the beginning of a word, that leaves room for context.
fn back_up(text: &str, start: usize) -> usize {
    let head = &text[..start];
    let near = head.char_indices().rev().take(2 * CONTEXT_CHARS).last().map_or(0, |(at, _)| at);
    if near == 0 {
        return 0;
    }
    head[near..].char_indices().find(|(_, c)| c.is_whitespace()).map_or(near, |(at, _)| near + at)
}

/// The part of a text that is compared, see [`differences_within`].
fn window(text: &str, from: usize, common_end: usize, bytes: usize) -> &str {
    // Some of the common end is kept as context.
    let to = (text.len() - common_end + 8 * CONTEXT_CHARS).min(text.len()).min(from + bytes);
    &text[from..text.floor_char_boundary(to)]
}

/// Some words of one text that stand against some words of the other.
#[derive(Debug)]
struct WordStretch {
    a: Range<usize>,
    b: Range<usize>,
    differs: bool,
}

/// The texts, cut into words and blanks, as common and different stretches by turns. Only words are compared; a blank
/// between a common word and one that differs is common.
fn stretches<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<WordStretch> {
    let mut numbers = Numbers::default();
    let (mut side_a, mut side_b) = (SnippetSide::new(a, &mut numbers), SnippetSide::new(b, &mut numbers));
    let ops = changes(&side_a.words, &side_b.words);
    let mut out: Vec<WordStretch> = Vec::new();
    for op in ops {
        let (tag, in_a, in_b) = op.as_tag_tuple();
        let differs = tag != DiffTag::Equal || {
            // A comma between two differences does not part them.
            let is_last = in_a.end == side_a.words.len() || in_b.end == side_b.words.len();
            let joins = |o: &WordStretch| o.differs && !is_last && !side_a.has_letters(in_a.clone());
            out.last().is_some_and(joins)
        };
        let (a, b) = (side_a.take(in_a, differs), side_b.take(in_b, differs));
        match out.last_mut() {
            Some(last) if last.differs == differs => (last.a.end, last.b.end) = (a.end, b.end),
            _ => out.push(WordStretch { a, b, differs }),
        }
    }
    out
}

/// A text whose words are parted into stretches.
struct SnippetSide<'p, 't> {
    pieces: &'p [&'t str],
    /// Where the words are among the pieces; the others are blanks.
    places: Vec<usize>,
    /// Numbers that stand for the words.
    words: Vec<usize>,
    /// Pieces of the stretches so far.
    taken: usize,
}

impl<'p, 't> SnippetSide<'p, 't> {
    fn new(pieces: &'p [&'t str], numbers: &mut Numbers<'t>) -> Self {
        let is_word = |&at: &usize| !pieces[at].trim().is_empty();
        let places: Vec<usize> = (0..pieces.len()).filter(is_word).collect();
        let words = numbers.of(places.iter().map(|&at| pieces[at]));
        Self { pieces, places, words, taken: 0 }
    }

    fn has_letters(&self, words: Range<usize>) -> bool {
        let mut words = self.places[words].iter().map(|&at| self.pieces[at]);
        words.any(|word| word.chars().any(char::is_alphanumeric))
    }

    /// The pieces of the next words, with the blanks around them that belong to their stretch.
    fn take(&mut self, words: Range<usize>, differs: bool) -> Range<usize> {
        let from = self.taken;
        self.taken = match self.places.get(words.end) {
            _ if words.is_empty() => from,
            Some(_) if differs => self.places[words.end - 1] + 1,
            Some(&next) => next,
            None => self.pieces.len(),
        };
        from..self.taken
    }
}

/// The stretches up to the last difference that is shown, and the common one after it; none if nothing differs.
fn shown(stretches: &[WordStretch]) -> &[WordStretch] {
    let differing = stretches.iter().enumerate().filter(|(_, stretch)| stretch.differs);
    let end = differing.take(CHANGES).last().map_or(0, |(at, _)| (at + 2).min(stretches.len()));
    &stretches[..end]
}

/// The stretches of one text as pieces of bounded length. `goes_on` is true if the text goes on before `words`, and
/// behind them.
fn excerpt(
    words: &[&str],
    stretches: &[WordStretch],
    goes_on: (bool, bool),
    side: fn(&WordStretch) -> Range<usize>,
) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (at, stretch) in stretches.iter().enumerate() {
        let range = side(stretch);
        let text = one_line(&words[range.clone()]);
        if text.is_empty() {
            continue;
        }
        let is_last = at + 1 == stretches.len();
        let text = match (stretch.differs, at == 0, is_last) {
            (true, ..) => keep(&text, CHANGE_CHARS, 0, false),
            (false, true, true) => text,
            (false, true, false) => keep_end(&text, CONTEXT_CHARS, goes_on.0),
            (false, false, true) => keep(&text, CONTEXT_CHARS, 0, goes_on.1 || range.end < words.len()),
            (false, false, false) => keep(&text, CONTEXT_CHARS, CONTEXT_CHARS, false),
        };
        pieces.push(Piece { text, differs: stretch.differs });
    }
    pieces
}

/// Words joined, with every run of white space a single blank.
fn one_line(words: &[&str]) -> String {
    let mut out = String::new();
    for c in words.iter().flat_map(|word| word.chars()) {
        if !c.is_whitespace() {
            out.push(c);
        } else if !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out
}

/// The first `head` and the last `tail` characters, with an ellipsis for what is left out between them, or at
/// the end if the text `goes_on`.
fn keep(text: &str, head: usize, tail: usize, goes_on: bool) -> String {
    let chars = text.chars().count();
    let end_of = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    if chars <= head + tail + 3 {
        return if goes_on { format!("{} …", text.trim_end()) } else { text.to_string() };
    }
    let (mut first, last) = (&text[..end_of(head)], &text[end_of(chars - tail)..]);
    // Cut at a blank if there is one near.
    if let Some(at) = first.rfind(' ').filter(|&at| 2 * at > first.len()) {
        first = &first[..at];
    }
    let last = last.find(' ').filter(|&at| 2 * at < last.len()).map_or(last, |at| &last[at..]);
    if tail == 0 {
        format!("{} …", first.trim_end())
    } else {
        format!("{} … {}", first.trim_end(), last.trim_start())
    }
}

/// The last `tail` characters, with an ellipsis if there is more before them.
fn keep_end(text: &str, tail: usize, goes_on: bool) -> String {
    let chars = text.chars().count();
    if chars <= tail {
        return if goes_on { format!("… {}", text.trim_start()) } else { text.to_string() };
    }
    let at = text.char_indices().nth(chars - tail).map_or(0, |(at, _)| at);
    let last = &text[at..];
    let last = last.find(' ').filter(|&at| 2 * at < last.len()).map_or(last, |at| &last[at..]);
    format!("… {}", last.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marked(pieces: &[Piece]) -> String {
        let show = |p: &Piece| if p.differs { format!("[{}]", p.text) } else { p.text.clone() };
        pieces.iter().map(show).collect()
    }

    fn both(a: &str, b: &str) -> (String, String) {
        let (a, b) = differences(a, b);
        (marked(&a), marked(&b))
    }

    #[test]
    fn differing_words_are_marked_and_white_space_is_no_difference() {
        for (a, b, marked_a, marked_b) in [
            ("It is 20 euro now.", "It is 25 euro now.", "It is [20] euro now.", "It is [25] euro now."),
            ("one two four", "one two three four", "one two four", "one two [three] four"),
            // Neighbouring differences are one.
            (
                "seen by Ann, Bob and Cy",
                "seen by Dora, Emil and Cy",
                "seen by [Ann, Bob] and Cy",
                "seen by [Dora, Emil] and Cy",
            ),
            ("a  b\nc x", "a b c y", "a b c [x]", "a b c [y]"),
            ("a  b\nc", "a b c", "", ""),
            ("same", "same", "", ""),
            ("السعر اليوم عشرون", "السعر غدا عشرون", "السعر [اليوم] عشرون", "السعر [غدا] عشرون"),
        ] {
            assert_eq!(both(a, b), (marked_a.to_owned(), marked_b.to_owned()));
        }
        let (a, b) = both("今日は天気がいいです", "今日は気分がいいです");
        assert!(a.contains("[天") && b.contains("分]"), "{a} {b}");
    }

    #[test]
    fn far_away_text_is_cut_and_the_difference_stays() {
        let filler = "lorem ipsum dolor sit amet ".repeat(20_000);
        let a = format!("{filler} version 1.2 {filler}");
        let b = format!("{filler} version 1.3 {filler}");
        let (a, b) = both(&a, &b);
        assert!(a.starts_with('…') && a.ends_with('…') && a.contains("[1.2]"), "{a}");
        assert!(b.contains("[1.3]") && b.chars().count() < 300, "{b}");
    }

    #[test]
    fn a_cut_window_invents_no_difference() {
        let filler = "lorem ipsum dolor sit amet ".repeat(2_000);
        let (a, b) = both(&format!("{filler}x{filler}end one"), &format!("{filler}x yz{filler}end two"));
        assert_eq!(a.matches('[').count(), 1, "{a}");
        assert_eq!(b.matches('[').count(), 1, "{b}");
    }

    #[test]
    fn long_texts_with_nothing_in_common_give_short_excerpts() {
        let text = |seed| {
            let mut random = crate::hash::SplitMix64::new(seed);
            (0..200_000).map(|_| char::from(b' ' + random.below(90) as u8)).collect::<String>()
        };
        let (a, b) = both(&text(1), &text(2));
        assert!(!a.is_empty() && a.chars().count() < 1_600 && b.chars().count() < 1_600, "{a}");
    }

    #[test]
    fn openings_are_cut_at_words() {
        assert_eq!(opening("  one\n two  three ", 100), "one two three");
        assert_eq!(opening("one two three", 9), "one two…");
        assert_eq!(opening("", 9), "");
        assert_eq!(opening("今日は天気がいいですね", 5), "今日は天気…");
    }

    proptest! {
        #[test]
        fn short_texts_are_shown_whole_and_common_parts_are_common(
            a in prop::collection::vec("[a-d]", 1..6),
            b in prop::collection::vec("[a-d]", 1..6),
        ) {
            let (left, right) = differences(&a.join(" "), &b.join("  "));
            let text = |pieces: &[Piece]| pieces.iter().map(|p| p.text.as_str()).collect::<String>();
            let common = |pieces: &[Piece]| -> Vec<String> {
                let shared = pieces.iter().filter(|p| !p.differs).map(|p| p.text.trim().to_string());
                shared.filter(|text| !text.is_empty()).collect()
            };
            if a == b {
                prop_assert_eq!((left, right), (vec![], vec![]));
            } else {
                prop_assert_eq!(text(&left), a.join(" "));
                prop_assert_eq!(text(&right), b.join(" "));
                prop_assert_eq!(common(&left), common(&right));
                prop_assert!(left.iter().chain(&right).any(|piece| piece.differs));
            }
        }

        #[test]
        fn any_two_texts_give_short_excerpts(a in "\\PC{0,40}", b in "\\PC{0,40}", c in "[ab é本]{0,400}") {
            for (a, b) in [(a.clone(), b.clone()), (format!("{a}{c}{b}"), format!("{c}{a}{b}"))] {
                let (left, right) = differences(&a, &b);
                for pieces in [left, right] {
                    prop_assert!(marked(&pieces).chars().count() <= 1_600);
                }
                prop_assert!(opening(&a, 50).chars().count() <= 51);
            }
        }
    }

    #[test]
    fn a_passage_is_marked_and_its_ends_are_cut() {
        let said = |text: &str, bytes| {
            passage(text, bytes)
                .into_iter()
                .map(|it| if it.differs { format!("[{}]", it.text) } else { it.text })
                .collect::<String>()
        };
        assert_eq!(said("a é b", 2..4), "a [é] b");
        assert_eq!(said("a é b", 3..90), "a [é b]");
        assert_eq!(said("a é b", 90..95), "a é b");
        let long = "é".repeat(1_000);
        let cut = |chars| format!("{}…", "é".repeat(chars));
        assert_eq!(said(&long, 0..2_000), format!("[{}]", cut(PASSAGE_CHARS)));
        let around = "é".repeat(AROUND_CHARS);
        assert_eq!(said(&long, 1_000..1_002), format!("…{around}[é]{around}…"));
    }
}
