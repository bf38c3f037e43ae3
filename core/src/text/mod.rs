//! From text to features: fold the case, cut into words, take the words themselves, runs of W of them, or runs of
//! N of their characters.
//!
//! A *word* is a maximal run of Unicode letters, digits and the marks that belong to them; everything else,
//! `_` too, parts words. Words are in a normal form: NFKC with full case folding, so that canonical equivalents,
//! compatibility forms (full and half width, ligatures) and cases are equal. These rules differ from NFKC:
//!
//! - Symbols part words, and have no compatibility form (`™`, `㎏`). A fraction is a character of a word (`½`).
//! - Invisible characters are removed (`Default_Ignorable_Code_Point`: soft hyphen, zero-width space, joiners,
//!   direction marks, variation selectors), and so are marks that readers do without: vowel signs and reading marks of
//!   Arabic and Hebrew, and tatweel. Vowel signs of other scripts stay.
//! - Letters that are written for an apostrophe part words, as apostrophes do.
//!
//! Scripts written without spaces (Han, kana, Thai, Lao, Khmer, Burmese, Javanese, Balinese and their like)
//! have no such runs. There every character with its marks is a unit, [`FeatureKind::Words`] takes the
//! overlapping *pairs* of neighbouring units (a lone unit stands for itself), and [`FeatureKind::Shingles`]
//! counts a unit as a word. [`FeatureKind::Characters`] sets one blank between words, and none between units.

mod difference;
mod fold;
mod tokens;
mod unicode;

pub use difference::Difference;
pub(crate) use tokens::TokenKind;
pub use tokens::Tokenizer;

use crate::error::{Error, Result};
use crate::hash::{FeatureHash, Murmur3, Product, WordHash};
use crate::kernel::Level;
use crate::kernel::words::polynomial;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The name of the rules that cut text into features. It is written into every file that depends on them.
pub const TOKENIZER: &str = "unicode-words-v2";

/// The largest length of a run that can be chosen, in words or in characters.
pub(crate) const MAX_SHINGLE: usize = 64;

/// The kind of a document's features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FeatureKind {
    /// Words: the paper's choice.
    #[default]
    Words,
    /// Runs of W consecutive words (Broder's w-shingles). A text of fewer than W words is one shingle.
    Shingles(usize),
    /// Runs of N consecutive characters of the folded words, with one blank between words: for short texts, and for
    /// spellings that differ. A text of fewer than N characters is one run.
    Characters(usize),
}

impl fmt::Display for FeatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words => f.write_str("words"),
            Self::Shingles(w) => write!(f, "shingles:{w}"),
            Self::Characters(n) => write!(f, "characters:{n}"),
        }
    }
}

impl FeatureKind {
    /// Refuses runs of a length that is not 1 to 64 words or characters.
    ///
    /// # Errors
    /// [`Error::Parameter`] for such a length.
    #[doc(hidden)]
    pub fn check(self) -> Result<()> {
        match self {
            Self::Shingles(width) | Self::Characters(width) if !(1..=MAX_SHINGLE).contains(&width) => {
                Err(Self::wrong(&self.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn wrong(got: &str) -> Error {
        Error::parameter(
            "features",
            got,
            format!("words, shingles:N or characters:N with N from 1 to {MAX_SHINGLE}"),
        )
    }
}

impl FromStr for FeatureKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let kind = match text.split_once(':') {
            None if text == "words" => Self::Words,
            Some(("shingles", width)) => Self::Shingles(width.parse().map_err(|_| Self::wrong(text))?),
            Some(("characters", width)) => Self::Characters(width.parse().map_err(|_| Self::wrong(text))?),
            _ => return Err(Self::wrong(text)),
        };
        kind.check().map(|()| kind)
    }
}

impl TryFrom<String> for FeatureKind {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<FeatureKind> for String {
    fn from(kind: FeatureKind) -> Self {
        kind.to_string()
    }
}

/// The extraction of features from a text: their kind, and the hash that stands for them. A kind alone is hashed by
/// MurmurHash3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct Extraction {
    /// The kind of the features.
    pub kind: FeatureKind,
    /// The hash that stands for a feature.
    pub hash: FeatureHash,
}

impl Extraction {
    /// Checks that features made in another way can be compared with these.
    ///
    /// # Errors
    /// [`Error::Parameter`] if they are of another kind or have another hash.
    pub fn fits(self, other: Self) -> Result<()> {
        if self.kind != other.kind {
            let expected = format!("{} as elsewhere", self.kind);
            return Err(Error::parameter("features", other.kind, expected));
        }
        if self.hash != other.hash {
            let expected = format!("{} as elsewhere", self.hash);
            return Err(Error::parameter("feature-hash", other.hash, expected));
        }
        Ok(())
    }
}

impl From<FeatureKind> for Extraction {
    fn from(kind: FeatureKind) -> Self {
        Self { kind, hash: FeatureHash::Murmur3 }
    }
}

/// Turns texts into feature hashes. An extractor holds buffers; make one per thread.
#[derive(Clone, Debug, Default)]
pub struct FeatureExtractor {
    extraction: Extraction,
    /// The tokenizer, for callers that need words besides features.
    pub(crate) tokenizer: Tokenizer,
    words: Vec<u64>,
    features: Vec<u64>,
}

/// The most words, and the most features, that are listed at a time.
const LIST: usize = 1 << 10;

impl FeatureExtractor {
    /// An extractor of features of this kind and hash; a kind alone is hashed by MurmurHash3.
    pub fn new(extraction: impl Into<Extraction>) -> Self {
        Self { extraction: extraction.into(), ..Self::default() }
    }

    /// The kind of features, and their hash.
    #[doc(hidden)]
    pub fn extraction(&self) -> Extraction {
        self.extraction
    }

    /// Calls `each` with the hash of every feature of `text`, in order and with repeats.
    pub fn extract(&mut self, text: &str, mut each: impl FnMut(u64)) {
        self.lists(text, |features| features.iter().for_each(|&feature| each(feature)));
    }

    /// Calls `each` with lists of features which together are those of [`extract`](Self::extract), in order.
    pub(crate) fn lists(&mut self, text: &str, each: impl FnMut(&[u64])) {
        self.words.clear();
        self.features.clear();
        match self.extraction.hash {
            FeatureHash::Murmur3 => self.hashed_lists::<Murmur3>(text, each),
            FeatureHash::Product => self.hashed_lists::<Product>(text, each),
        }
    }

    fn hashed_lists<H: WordHash>(&mut self, text: &str, each: impl FnMut(&[u64])) {
        match self.extraction.kind {
            FeatureKind::Words => self.of_words::<H>(text, each),
            FeatureKind::Shingles(w) => self.of_shingles::<H>(w, text, each),
            FeatureKind::Characters(n) => self.of_characters::<H>(n, text, each),
        }
    }

    /// The set of features of `text`: distinct hashes with their numbers of occurrences, by ascending hash.
    pub fn counts(&mut self, text: &str) -> Vec<(u64, u32)> {
        let mut all = Vec::new();
        self.extract(text, |feature| all.push(feature));
        all.sort_unstable();
        let mut counts: Vec<(u64, u32)> = Vec::new();
        for feature in all {
            match counts.last_mut() {
                Some((last, n)) if *last == feature => *n = n.saturating_add(1),
                _ => counts.push((feature, 1)),
            }
        }
        counts
    }

    /// Words, and pairs of units.
    fn of_words<H: WordHash>(&mut self, text: &str, mut each: impl FnMut(&[u64])) {
        let Self { tokenizer, words, features, .. } = self;
        // The last unit of the unspaced run that we are in, and whether it already stands in a pair.
        let mut last: Option<(u64, bool)> = None;
        tokenizer.stretches(text, |stretch| {
            if stretch.is_of_words() {
                stretch.hashes::<H>(words);
                features.extend(words.drain(..).map(H::feature));
            } else {
                stretch.tokens(|token| {
                    let hash = token.bytes.hash::<H>();
                    match (token.kind, last) {
                        (TokenKind::Unit { joined: true }, Some((before, _))) => {
                            features.push(H::shingle(polynomial(&[before, hash])));
                            last = Some((hash, true));
                        }
                        (kind, before) => {
                            if let Some((lone, false)) = before {
                                features.push(H::feature(lone));
                            }
                            last = None;
                            match kind {
                                TokenKind::Unit { .. } => last = Some((hash, false)),
                                TokenKind::Word => features.push(H::feature(hash)),
                            }
                        }
                    }
                });
            }
            features.chunks(LIST).for_each(&mut each);
            features.clear();
        });
        if let Some((lone, false)) = last {
            each(&[H::feature(lone)]);
        }
    }

    /// Runs of `w` words.
    fn of_shingles<H: WordHash>(&mut self, w: usize, text: &str, mut each: impl FnMut(&[u64])) {
        let Self { tokenizer, words, features, .. } = self;
        let mut runs = Runs { width: w, any: false, items: words, features };
        tokenizer.stretches(text, |stretch| {
            stretch.hashes::<H>(runs.items);
            runs.flush::<H>(&mut each);
        });
        runs.finish::<H>(&mut each);
    }

    /// Runs of `n` characters.
    fn of_characters<H: WordHash>(&mut self, n: usize, text: &str, mut each: impl FnMut(&[u64])) {
        let Self { tokenizer, words, features, .. } = self;
        let mut runs = Runs { width: n, any: false, items: words, features };
        let blank = H::word(b" ");
        let mut is_first = true;
        tokenizer.tokens(text, |token| {
            if !is_first && token.kind != (TokenKind::Unit { joined: true }) {
                runs.push::<H>(blank, &mut each);
            }
            is_first = false;
            // A character is a byte that begins one, and those that continue it.
            let continues = |byte: &u8| byte & 0xc0 == 0x80;
            token.bytes.with(|bytes| {
                let characters = bytes.chunk_by(|_, next| continues(next));
                characters.for_each(|character| runs.push::<H>(H::word(character), &mut each));
            });
        });
        runs.finish::<H>(&mut each);
    }
}

/// The runs of a text's words or characters while these come, by their hashes.
struct Runs<'a> {
    width: usize,
    /// True if there has been a run.
    any: bool,
    /// The hashes that no run has ended with, behind as many of the ones before as the next run begins with.
    items: &'a mut Vec<u64>,
    features: &'a mut Vec<u64>,
}

impl Runs<'_> {
    #[inline(always)]
    fn push<H: WordHash>(&mut self, item: u64, each: &mut impl FnMut(&[u64])) {
        self.items.push(item);
        if self.items.len() == LIST {
            self.flush::<H>(each);
        }
    }

    /// Calls `each` with the hashes of the runs that the items complete.
    fn flush<H: WordHash>(&mut self, each: &mut impl FnMut(&[u64])) {
        let mut next = 0;
        while self.items.len() - next >= self.width {
            let runs = (self.items.len() - next - (self.width - 1)).min(LIST);
            let items = &self.items[next..next + runs + self.width - 1];
            Level::in_use().hash_runs::<H>(items, self.width, self.features);
            each(self.features);
            self.features.clear();
            self.any = true;
            next += runs;
        }
        self.items.drain(..next);
    }

    fn finish<H: WordHash>(mut self, each: &mut impl FnMut(&[u64])) {
        self.flush::<H>(each);
        if !self.any && !self.items.is_empty() {
            each(&[H::shingle(polynomial(self.items))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn features(extraction: impl Into<Extraction>, text: &str) -> Vec<u64> {
        let mut all = Vec::new();
        FeatureExtractor::new(extraction).extract(text, |f| all.push(f));
        all
    }

    fn product(kind: FeatureKind) -> Extraction {
        Extraction { kind, hash: FeatureHash::Product }
    }

    /// The twin: every shingle hashed from its words, one by one.
    fn naive_shingles<H: WordHash>(text: &str, w: usize) -> Vec<u64> {
        let words: Vec<u64> =
            Tokenizer::default().words(text).iter().map(|word| H::word(word.as_bytes())).collect();
        let one = |words: &[u64]| {
            H::shingle(words.iter().fold(0u64, |sum, &t| sum.wrapping_mul(hash::BASE).wrapping_add(t)))
        };
        if words.is_empty() {
            return Vec::new();
        }
        if words.len() < w {
            return vec![one(&words)];
        }
        words.windows(w).map(one).collect()
    }

    #[test]
    fn kinds_are_spelled_as_on_the_command_line() {
        for text in ["words", "shingles:1", "shingles:5", "shingles:64"] {
            assert_eq!(text.parse::<FeatureKind>().unwrap().to_string(), text);
        }
        for text in ["", "word", "shingles", "shingles:0", "shingles:65", "shingles:x", "words:2"] {
            assert!(text.parse::<FeatureKind>().is_err(), "{text}");
        }
    }

    #[test]
    fn words_are_hashed_by_the_feature_hash() {
        let want: Vec<u64> =
            ["near", "duplicate", "pages"].iter().map(|w| hash::feature(w.as_bytes())).collect();
        assert_eq!(features(FeatureKind::Words, "Near-duplicate PAGES."), want);
    }

    #[test]
    fn unspaced_scripts_give_pairs_and_lone_units() {
        let count = |text| features(FeatureKind::Words, text).len();
        assert_eq!(count("日本語"), 2, "two overlapping pairs");
        assert_eq!(count("日 本 語"), 3, "three lone units");
        assert_eq!(count("日本 語"), 2, "a pair and a lone unit");
        assert_eq!(count("日a本"), 3, "the word parts two lone units");
        let pair = features(FeatureKind::Words, "日本");
        assert_eq!(features(FeatureKind::Words, "本日本")[1..], pair[..]);
        assert_ne!(features(FeatureKind::Words, "本日"), pair);
    }

    #[test]
    fn the_product_tells_words_and_where_they_end_apart() {
        let words = |text| features(product(FeatureKind::Words), text);
        assert_eq!(
            words("Near pages"),
            ["near", "pages"].map(|word| Product::feature(Product::word(word.as_bytes())))
        );
        let texts = [
            "ab c", "a bc", "abc", "c ab", "a b c", "", "a", "aa", "a a", "日本", "日 本", "本日", "a\u{301}",
        ];
        for kind in
            [FeatureKind::Words, FeatureKind::Shingles(1), FeatureKind::Shingles(2), FeatureKind::Shingles(5)]
        {
            // All sequences of features differ, and so do those of one feature.
            let all: HashSet<Vec<u64>> = texts.iter().map(|text| features(product(kind), text)).collect();
            // Shingles count a unit as a word, whatever stands between.
            let same = usize::from(kind != FeatureKind::Words);
            assert_eq!(all.len(), texts.len() - same, "{kind}");
        }
    }

    #[test]
    fn a_short_text_is_one_shingle() {
        assert_eq!(features(FeatureKind::Shingles(5), "only three words").len(), 1);
        assert_eq!(features(FeatureKind::Shingles(5), "").len(), 0);
        // Broder's rose example: 4-shingles of an 8-word line, three distinct of five.
        let rose = FeatureExtractor::new(FeatureKind::Shingles(4)).counts("a rose is a rose is a rose");
        assert_eq!(rose.iter().map(|&(_, n)| n).sum::<u32>(), 5);
        assert_eq!(rose.len(), 3);
    }

    /// The twin: the characters of the text as it is cut, and every run of them hashed by itself.
    fn naive_characters<H: WordHash>(text: &str, n: usize) -> Vec<u64> {
        let mut cut = String::new();
        Tokenizer::default().tokens(text, |token| {
            if !cut.is_empty() && token.kind != (TokenKind::Unit { joined: true }) {
                cut.push(' ');
            }
            token.bytes.with(|bytes| cut.push_str(std::str::from_utf8(bytes).unwrap()));
        });
        let characters: Vec<u64> =
            cut.chars().map(|c| H::word(c.encode_utf8(&mut [0; 4]).as_bytes())).collect();
        let one = |run: &[u64]| {
            let sum = run.iter().fold(0u64, |sum, &c| sum.wrapping_mul(hash::BASE).wrapping_add(c));
            H::shingle(sum)
        };
        match characters.len() {
            0 => Vec::new(),
            length if length < n => vec![one(&characters)],
            _ => characters.windows(n).map(one).collect(),
        }
    }

    #[test]
    fn characters_are_those_of_words_with_one_blank_between() {
        let of = |text: &str| features(FeatureKind::Characters(3), text);
        assert_eq!(of("Ab, c!"), of("ab c"));
        assert_eq!(of("ab c").len(), 2);
        assert_eq!((of("a").len(), of(" - ").len()), (1, 0));
        assert_ne!(of("abc"), of("ab c"));
        // Scripts without spaces have none between their characters, but one at what parts them.
        assert_eq!(of("\u{6f22}\u{5b57}\u{8a9e}").len(), 1);
        assert_eq!(of("\u{6f22}\u{5b57}\u{3002}\u{8a9e}").len(), 2);
        assert_eq!("characters:4".parse::<FeatureKind>().unwrap(), FeatureKind::Characters(4));
        assert_eq!(FeatureKind::Characters(4).to_string(), "characters:4");
        for wrong in ["characters", "characters:0", "characters:65", "characters:x"] {
            assert!(wrong.parse::<FeatureKind>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn runs_of_characters_are_those_of_the_twin(text in "(?s)[a-c \\u{6f22}\\u{301}\\u{e9}A.]{0,300}|.{0,200}", n in 1usize..9) {
            prop_assert_eq!(features(FeatureKind::Characters(n), &text), naive_characters::<Murmur3>(&text, n));
            prop_assert_eq!(features(product(FeatureKind::Characters(n)), &text), naive_characters::<Product>(&text, n));
        }
    }

    proptest! {
        #[test]
        fn rolling_shingles_equal_the_twin(text in "[a-cA-C日 é]{0,80}", w in 1usize..9) {
            let kind = FeatureKind::Shingles(w);
            prop_assert_eq!(features(kind, &text), naive_shingles::<Murmur3>(&text, w));
            prop_assert_eq!(features(product(kind), &text), naive_shingles::<Product>(&text, w));
        }

        #[test]
        fn long_texts_have_the_shingles_of_the_twin(words in 0usize..5_000, w in 1usize..=MAX_SHINGLE, seed: u64) {
            let mut rng = hash::SplitMix64::new(seed);
            let text: String = (0..words).map(|_| ["a ", "be ", "日", "é "][rng.below(4) as usize]).collect();
            prop_assert_eq!(features(FeatureKind::Shingles(w), &text), naive_shingles::<Murmur3>(&text, w));
        }

        #[test]
        fn counts_hold_every_feature(text in "[a-d ]{0,60}") {
            let counts = FeatureExtractor::new(FeatureKind::Words).counts(&text);
            prop_assert!(counts.is_sorted_by(|a, b| a.0 < b.0));
            let mut all = features(FeatureKind::Words, &text);
            all.sort_unstable();
            let expanded: Vec<u64> = counts.iter().flat_map(|&(f, n)| std::iter::repeat_n(f, n as usize)).collect();
            prop_assert_eq!(all, expanded);
        }
    }
}
