//! The difference of two texts, word by word: the number of words that are inserted or deleted, and the changes, with
//! bounded work.

use serde::{Deserialize, Serialize};
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag, DiffableStr};
use std::collections::HashMap;
use std::ops::Range;

/// The most words of a text that are compared; the others are cut off.
const MOST_WORDS: usize = 20_000;

/// The most bytes of a text that are read, for each word that may be compared.
const MOST_BYTES_A_WORD: usize = 64;

/// The texts, of two, that have a run of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Both texts have the words.
    Same,
    /// The first text alone has the words.
    Deleted,
    /// The second text alone has the words.
    Inserted,
}

/// Some consecutive words of one text, and those of another that they are aligned with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// True if the words are the same; white space between them may differ.
    pub same: bool,
    /// The bytes of the words in the first text, white space between them included; empty where it has none.
    pub a: Range<usize>,
    /// The bytes of the words in the second text, likewise.
    pub b: Range<usize>,
}

/// Two texts side by side, in words as Unicode parts them (UAX #29). Punctuation marks are words too, and so is every
/// character of a script without spaces; white space is not.
///
/// The changes come from Myers' algorithm (1986) with the bounded search of the `similar` crate. On texts
/// with little in common it takes a good path, not always the shortest, so that the work is about
/// proportional to the length. The distance is therefore an upper bound, and the same on every machine:
/// there is no clock in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Same and different words by turns, in the order of the texts.
    pub stretches: Vec<Stretch>,
    /// Words deleted plus words inserted that lead from the first text to the second (the indel distance: a
    /// word replaced counts as two).
    pub distance: u64,
    /// The numbers of words compared, of the first and of the second text.
    pub words: (u64, u64),
    /// True if a text was longer than is compared: 20,000 words, or 64 bytes for each of them. The figures are then
    /// those of the beginnings.
    pub cut: bool,
}

impl Alignment {
    /// Aligns two texts.
    pub fn new(a: &str, b: &str) -> Self {
        let ((old, old_cut), (new, new_cut)) = (words(a, MOST_WORDS), words(b, MOST_WORDS));
        let mut numbers = Numbers::default();
        let mut numbered = |text, words: &[Range<usize>]| numbers.of(slices(text, words));
        let ops = changes(&numbered(a, &old), &numbered(b, &new));
        let (mut distance, mut stretches) = (0u64, Vec::<Stretch>::new());
        let (mut end_a, mut end_b) = (0, 0);
        // From the first word to the end of the last; without words, the place after the words before.
        let range = |words: &[Range<usize>], end: &mut usize| {
            let range = match words {
                [first, .., last] => first.start..last.end,
                [only] => only.clone(),
                [] => *end..*end,
            };
            *end = range.end;
            range
        };
        for op in ops {
            let (from, to) = (&old[op.old_range()], &new[op.new_range()]);
            let same = op.tag() == DiffTag::Equal;
            distance += if same { 0 } else { (from.len() + to.len()) as u64 };
            let (in_a, in_b) = (range(from, &mut end_a), range(to, &mut end_b));
            match stretches.last_mut() {
                Some(last) if last.same == same => {
                    // An empty side has no place of its own yet.
                    for (side, part) in [(&mut last.a, in_a), (&mut last.b, in_b)] {
                        *side = if side.start == side.end { part } else { side.start..part.end };
                    }
                }
                _ => stretches.push(Stretch { same, a: in_a, b: in_b }),
            }
        }
        Self { stretches, distance, words: (old.len() as u64, new.len() as u64), cut: old_cut || new_cut }
    }

    /// The changes in the order of the two texts, which must be those that were aligned.
    pub fn runs(&self, a: &str, b: &str) -> Vec<WordRun> {
        let run = |change: Change, text: &str| WordRun { change, text: text.to_string() };
        let of = |stretch: &Stretch| {
            let (in_a, in_b) = (&a[stretch.a.clone()], &b[stretch.b.clone()]);
            match stretch.same {
                true => vec![run(Change::Same, in_a)],
                false => vec![run(Change::Deleted, in_a), run(Change::Inserted, in_b)],
            }
        };
        self.stretches.iter().flat_map(of).filter(|run| !run.text.is_empty()).collect()
    }
}

/// A run of words that are in both texts, or in one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordRun {
    /// The texts that have the words.
    pub change: Change,
    /// The words with the white space between them, as in the text that has them, or in the first of both.
    pub text: String,
}

/// Shortens every long run that is in both texts: `context` words stay at each end that borders on a change, with "…"
/// in place of the others.
pub fn shortened(runs: &[WordRun], context: usize) -> Vec<WordRun> {
    let last = runs.len().saturating_sub(1);
    let shorten = |(i, run): (usize, &WordRun)| {
        let (words, _) = words(&run.text, usize::MAX);
        let (head, tail) = (if i == 0 { 0 } else { context }, if i == last { 0 } else { context });
        if run.change != Change::Same || words.len() <= head + tail {
            return run.clone();
        }
        let first = if head == 0 { "" } else { &run.text[..words[head - 1].end] };
        let end = if tail == 0 { "" } else { &run.text[words[words.len() - tail].start..] };
        let parts: Vec<&str> = [first, "…", end].into_iter().filter(|part| !part.is_empty()).collect();
        WordRun { change: run.change, text: parts.join(" ") }
    };
    runs.iter().enumerate().map(shorten).collect()
}

/// The places of the first `most` words of a text, and whether there are more.
fn words(text: &str, most: usize) -> (Vec<Range<usize>>, bool) {
    // A text far beyond the cap is not cut into words to its end.
    let limit = most.saturating_mul(MOST_BYTES_A_WORD).min(text.len());
    let kept = (0..=limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let (mut words, mut at) = (Vec::new(), 0);
    for token in text[..kept].tokenize_unicode_words() {
        let word = at..at + token.len();
        at = word.end;
        if token.chars().all(char::is_whitespace) {
            continue;
        }
        if words.len() == most {
            return (words, true);
        }
        words.push(word);
    }
    (words, kept < text.len())
}

fn slices<'t>(text: &'t str, words: &[Range<usize>]) -> impl Iterator<Item = &'t str> {
    words.iter().map(|word| &text[word.clone()])
}

/// Numbers that stand for words, because numbers are compared faster.
#[derive(Default)]
pub struct Numbers<'t>(HashMap<&'t str, usize>);

impl<'t> Numbers<'t> {
    /// The number of each of these words; equal words, of earlier calls too, have equal numbers.
    pub fn of(&mut self, words: impl Iterator<Item = &'t str>) -> Vec<usize> {
        let number = |word| {
            let next = self.0.len();
            *self.0.entry(word).or_insert(next)
        };
        words.map(number).collect()
    }
}

/// The changes from the first of two lists of numbered words to the second, by Myers' algorithm. An operation covers
/// ranges of indexes in both lists, and together they cover all.
pub fn changes(old: &[usize], new: &[usize]) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut found, old, 0..old.len(), new, 0..new.len());
    let ops = found.into_inner().into_inner().into_ops();
    debug_assert!(covers(&ops, old.len(), new.len()));
    ops
}

/// True if the operations walk through both texts from end to end.
fn covers(ops: &[DiffOp], old: usize, new: usize) -> bool {
    let end = ops.iter().try_fold((0, 0), |(i, j), op| {
        ((op.old_range().start, op.new_range().start) == (i, j))
            .then(|| (op.old_range().end, op.new_range().end))
    });
    end == Some((old, new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn diff(a: &str, b: &str) -> Alignment {
        Alignment::new(a, b)
    }

    /// The distance by the words of both texts: 0 for equal ones, 1 for those without a common word.
    fn normalised(diff: &Alignment) -> f64 {
        let both = diff.words.0 + diff.words.1;
        if both == 0 { 0.0 } else { diff.distance as f64 / both as f64 }
    }

    /// The twin: the whole table of the longest common subsequence.
    fn naive(a: &[&str], b: &[&str]) -> u64 {
        let mut table = vec![vec![0u64; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] = if a[i - 1] == b[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        (a.len() + b.len()) as u64 - 2 * table[a.len()][b.len()]
    }

    #[test]
    fn by_hand() {
        let (a, b) = ("the cat sat  on the mat", "the dog sat on\nmat");
        let got = diff(a, b);
        assert_eq!((got.distance, got.words, got.cut), (3, (6, 5), false));
        assert!((normalised(&got) - 3.0 / 11.0).abs() < 1e-12);
        let runs = got.runs(a, b);
        let runs: Vec<(Change, &str)> = runs.iter().map(|r| (r.change, &*r.text)).collect();
        use Change::{Deleted, Inserted, Same};
        assert_eq!(
            runs,
            [
                (Same, "the"),
                (Deleted, "cat"),
                (Inserted, "dog"),
                (Same, "sat  on"),
                (Deleted, "the"),
                (Same, "mat")
            ]
        );
        assert_eq!(
            (normalised(&diff("", "")), normalised(&diff("", "x")), normalised(&diff("x y", "z"))),
            (0.0, 1.0, 1.0)
        );
        assert_eq!(diff("a b", " a\tb ").distance, 0);
        // No spaces: one character of five differs. And a mark is a word of its own.
        assert_eq!(diff("近似重複頁", "近似重複文").distance, 2);
        assert_eq!(diff("yes, and no", "yes and no").distance, 1);
    }

    #[test]
    fn long_texts_are_cut_and_bounded() {
        let long = |word: &str| (0..50_000).map(|i| format!("{word}{} ", i % 977)).collect::<String>();
        let got = diff(&long("a"), &long("b"));
        assert_eq!((got.words, got.cut, normalised(&got)), ((20_000, 20_000), true, 1.0));
        let (one, cut) = words(&"x".repeat(1000), 3);
        assert_eq!((one.len(), cut), (1, true), "a word without end");
        assert_eq!(words("a b", 0), (Vec::new(), true));
        // Few words in another order: hard for Myers.
        let mut random = crate::hash::SplitMix64::new(5);
        let mut shuffled = || (0..20_000).map(|_| format!("w{} ", random.below(20))).collect::<String>();
        let got = diff(&shuffled(), &shuffled());
        assert!(normalised(&got) > 0.3 && normalised(&got) < 1.0);
    }

    #[test]
    fn context_is_shortened() {
        let text = |runs: &[WordRun]| runs.iter().map(|r| &*r.text).collect::<Vec<_>>().join("|");
        let (a, b) = ("a b c d x e f g h i y j k l", "a b c d e f g h i j k l");
        let got = |context| text(&shortened(&diff(a, b).runs(a, b), context));
        assert_eq!(got(2), "… c d|x|e f … h i|y|j k …");
        assert_eq!(got(0), "…|x|…|y|…");
        assert_eq!(got(50), "a b c d|x|e f g h i|y|j k l");
        assert_eq!(text(&shortened(&diff("a b", "a b").runs("a b", "a b"), 1)), "…");
        assert_eq!(shortened(&diff("", "").runs("", ""), 3), []);
    }

    proptest! {
        #[test]
        fn stretches_hold_every_word_of_both_texts(a in "[a-d \n]{0,80}", b in "[a-d \n]{0,80}") {
            let got = diff(&a, &b);
            let of = |text: &str, side: fn(&Stretch) -> &Range<usize>| {
                let parts = got.stretches.iter().map(|s| &text[side(s).clone()]);
                parts.flat_map(str::split_whitespace).map(str::to_owned).collect::<Vec<_>>().concat()
            };
            let plain = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(of(&a, |s| &s.a), plain(&a));
            prop_assert_eq!(of(&b, |s| &s.b), plain(&b));
            prop_assert!(got.stretches.windows(2).all(|w| w[0].same != w[1].same
                && w[0].a.end <= w[1].a.start && w[0].b.end <= w[1].b.start));
            for s in got.stretches.iter().filter(|s| s.same) {
                prop_assert_eq!(plain(&a[s.a.clone()]), plain(&b[s.b.clone()]));
            }
        }

        #[test]
        fn short_texts_have_the_shortest_distance(
            a in prop::collection::vec("[a-c]", 0..12), b in prop::collection::vec("[a-c]", 0..12),
        ) {
            let (a, b): (Vec<&str>, Vec<&str>) = (a.iter().map(|s| &**s).collect(), b.iter().map(|s| &**s).collect());
            prop_assert_eq!(diff(&a.join(" "), &b.join(" ")).distance, naive(&a, &b));
        }

        #[test]
        fn runs_give_both_texts_back(a in "[a-d ]{0,200}", b in "[a-d ]{0,200}") {
            let got = diff(&a, &b);
            let runs = got.runs(&a, &b);
            let side = |without: Change| {
                let words: Vec<&str> = runs.iter().filter(|r| r.change != without).flat_map(|r| r.text.split_whitespace()).collect();
                words.join(" ")
            };
            let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(side(Change::Inserted), plain(&a));
            prop_assert_eq!(side(Change::Deleted), plain(&b));
            let (a, b): (Vec<&str>, Vec<&str>) = (a.split_whitespace().collect(), b.split_whitespace().collect());
            prop_assert!(got.distance >= naive(&a, &b));
            prop_assert!(0.0 <= normalised(&got) && normalised(&got) <= 1.0);
        }
    }
}
