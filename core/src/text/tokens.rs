//! Cuts text into words and units, in two sweeps: fold into a buffer with one bit per byte that says "inside
//! a word", then cut at the edges of the runs of ones. ASCII goes 64 bytes at a time.

use super::fold::{Class, Classes};
use crate::hash::ShortKey;
use crate::kernel::Level;

/// A piece of folded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A word of at most [`ShortKey::MAX`] bytes, ready to be hashed.
    ShortWord(ShortKey),
    /// A longer word, as folded UTF-8.
    Word(&'a [u8]),
    /// A character of a script without spaces, with its marks.
    Unit {
        /// The character, as folded UTF-8.
        bytes: &'a [u8],
        /// Whether the token before was a unit too, with nothing between.
        joined: bool,
    },
}

/// After so many ASCII characters in a row, more are likely to follow.
const ASCII_RUN: usize = 4;

/// Stands before a unit that follows a unit without a gap.
const JOIN: u8 = 1;
/// Stands for everything that parts words.
const GAP: u8 = b' ';

/// Cuts texts into tokens. Holds buffers; make one per thread.
#[derive(Clone, Debug, Default)]
pub struct Tokenizer {
    classes: Classes,
    /// The folded text, one gap byte between tokens, and [`ShortKey::MAX`] bytes of slack for
    /// reading past a short word.
    folded: Vec<u8>,
    /// Bit `i % 64` of word `i / 64` says whether byte `i` of `folded` is inside a token.
    inside: Vec<u64>,
}

impl Tokenizer {
    /// Calls `each` with every token of `text` in order.
    pub(crate) fn tokens(&mut self, text: &str, mut each: impl FnMut(Token<'_>)) {
        self.fold(text);
        let end = self.folded.len() - ShortKey::MAX;
        let mut start = None;
        // One edge after the other: the next byte whose bit differs from the state that we are in.
        for (w, &bits) in self.inside.iter().enumerate() {
            let mut edges = bits ^ (bits << 1 | u64::from(start.is_some()));
            while edges != 0 {
                let at = w * 64 + edges.trailing_zeros() as usize;
                edges &= edges - 1;
                match start.take() {
                    None => start = Some(at),
                    Some(from) => self.token(from, at, &mut each),
                }
            }
        }
        if let Some(from) = start {
            self.token(from, end, &mut each);
        }
    }

    /// The folded words and units of `text`, for tests and for showing.
    pub fn words(&mut self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        self.tokens(text, |token| {
            let bytes = match &token {
                Token::ShortWord(key) => key.to_vec(),
                Token::Word(bytes) | Token::Unit { bytes, .. } => bytes.to_vec(),
            };
            words.push(String::from_utf8_lossy(&bytes).into_owned());
        });
        words
    }

    #[inline]
    fn token(&self, from: usize, to: usize, each: &mut impl FnMut(Token<'_>)) {
        let first = self.folded[from];
        if first >= 0xe0 && self.is_unit(from, to) {
            let joined = from > 0 && self.folded[from - 1] == JOIN;
            each(Token::Unit { bytes: &self.folded[from..to], joined });
        } else if to - from <= ShortKey::MAX {
            let window = self.folded[from..from + ShortKey::MAX].first_chunk().expect("slack after the text");
            each(Token::ShortWord(ShortKey::new(window, to - from)));
        } else {
            each(Token::Word(&self.folded[from..to]));
        }
    }

    #[cold]
    fn is_unit(&self, from: usize, to: usize) -> bool {
        let text = std::str::from_utf8(&self.folded[from..to]).unwrap_or_default();
        text.chars().next().is_some_and(|c| self.classes.of(c).0 == Class::Unspaced)
    }

    /// Fills `folded` and `inside`.
    fn fold(&mut self, text: &str) {
        self.folded.clear();
        self.inside.clear();
        // Folding may lengthen a character by a byte (Ⱥ to ⱥ), and a joined unit takes a byte for the join.
        self.folded.reserve(text.len() + text.len() / 2 + 64);
        let kernel = Level::in_use();
        let (mut bits, mut filled) = (0u64, 0u32);
        let mut rest = text;
        // What the last character was, to know what a mark or a unit belongs to.
        let mut before = Class::Separator;
        while !rest.is_empty() {
            let mut folded = [0; 64];
            while let Some(chunk) = rest.as_bytes().first_chunk::<64>() {
                let bytes = kernel.fold_ascii(chunk, &mut folded);
                // As far as the first byte that is not ASCII.
                let length = bytes.other.trailing_zeros() as usize;
                if length == 0 {
                    break;
                }
                if before == Class::Unspaced {
                    // A unit must not run into an ASCII word.
                    self.folded.push(GAP);
                    push_bits(&mut self.inside, &mut bits, &mut filled, 0, 1);
                }
                let alphanumeric = bytes.alphanumeric & (u64::MAX >> (64 - length));
                self.folded.extend_from_slice(&folded[..length]);
                push_bits(&mut self.inside, &mut bits, &mut filled, alphanumeric, length as u32);
                let last_is_letter = alphanumeric >> (length - 1) & 1 == 1;
                before = if last_is_letter { Class::Letter } else { Class::Separator };
                rest = &rest[length..];
            }
            // A stretch with other characters, or the last few: one at a time until a run of ASCII is met.
            let mut chars = rest.chars();
            let mut ascii = 0;
            for c in chars.by_ref() {
                let (class, folded) = self.classes.of(c);
                before = match class {
                    Class::Mark if before == Class::Separator => before,
                    // A mark belongs to the word or unit that it stands on.
                    Class::Mark => {
                        self.push(folded, &mut bits, &mut filled);
                        before
                    }
                    Class::Letter => {
                        if before == Class::Unspaced {
                            self.folded.push(GAP);
                            push_bits(&mut self.inside, &mut bits, &mut filled, 0, 1);
                        }
                        self.push(folded, &mut bits, &mut filled);
                        class
                    }
                    Class::Unspaced => {
                        if before != Class::Separator {
                            self.folded.push(if before == Class::Unspaced { JOIN } else { GAP });
                            push_bits(&mut self.inside, &mut bits, &mut filled, 0, 1);
                        }
                        self.push(folded, &mut bits, &mut filled);
                        class
                    }
                    Class::Separator => {
                        self.folded.push(GAP);
                        push_bits(&mut self.inside, &mut bits, &mut filled, 0, 1);
                        class
                    }
                };
                ascii = if c.is_ascii() { ascii + 1 } else { 0 };
                if ascii == ASCII_RUN {
                    break;
                }
            }
            rest = chars.as_str();
        }
        self.inside.push(bits);
        self.folded.extend_from_slice(&[GAP; ShortKey::MAX]);
    }

    #[inline]
    fn push(&mut self, c: char, bits: &mut u64, filled: &mut u32) {
        let mut utf8 = [0; 4];
        let utf8 = c.encode_utf8(&mut utf8).as_bytes();
        self.folded.extend_from_slice(utf8);
        push_bits(&mut self.inside, bits, filled, (1 << utf8.len()) - 1, utf8.len() as u32);
    }
}

/// Appends the low `count` bits of `new`.
#[inline]
fn push_bits(words: &mut Vec<u64>, bits: &mut u64, filled: &mut u32, new: u64, count: u32) {
    *bits |= new << *filled;
    *filled += count;
    if *filled >= 64 {
        words.push(*bits);
        *filled -= 64;
        *bits = if *filled == 0 { 0 } else { new >> (count - *filled) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_segmentation::UnicodeSegmentation;

    fn words(text: &str) -> Vec<String> {
        Tokenizer::default().words(text)
    }

    /// The twin: one character after the other, a `String` per word. Units carry `joined`.
    fn naive(text: &str) -> Vec<(String, Option<bool>)> {
        let classes = Classes::default();
        let mut tokens: Vec<(String, Option<bool>)> = Vec::new();
        let mut before = Class::Separator;
        for c in text.chars() {
            let (class, folded) = classes.of(c);
            match class {
                Class::Separator => before = class,
                Class::Mark if before == Class::Separator => {}
                Class::Mark => tokens.last_mut().unwrap().0.push(folded),
                Class::Letter if before == Class::Letter => tokens.last_mut().unwrap().0.push(folded),
                Class::Letter => tokens.push((folded.to_string(), None)),
                Class::Unspaced => tokens.push((folded.to_string(), Some(before == Class::Unspaced))),
            }
            if matches!(class, Class::Letter | Class::Unspaced) {
                before = class;
            }
        }
        tokens
    }

    fn tokens(text: &str) -> Vec<(String, Option<bool>)> {
        let mut all = Vec::new();
        Tokenizer::default().tokens(text, |token| {
            all.push(match token {
                Token::ShortWord(key) => (String::from_utf8(key.to_vec()).unwrap(), None),
                Token::Word(bytes) => (String::from_utf8(bytes.to_vec()).unwrap(), None),
                Token::Unit { bytes, joined } => (String::from_utf8(bytes.to_vec()).unwrap(), Some(joined)),
            });
        });
        all
    }

    #[test]
    fn words_of_many_scripts() {
        assert_eq!(
            words("It's 2024: snake_case, e-mail!"),
            ["it", "s", "2024", "snake", "case", "e", "mail"]
        );
        assert_eq!(words("ΟΔΟΣ οδός Straße"), ["οδοσ", "οδόσ", "straße"]);
        assert_eq!(words("Привет, МИР"), ["привет", "мир"]);
        assert_eq!(words("cafe\u{301} naïve"), ["cafe\u{301}", "naïve"]);
        assert_eq!(words("हिन्दी में"), ["हिन्दी", "में"]);
        assert_eq!(words("한국어 문서"), ["한국어", "문서"]);
        assert_eq!(words("東京2024年"), ["東", "京", "2024", "年"]);
        assert_eq!(words("ภาษาไทย").len(), 7, "units with their marks, not one giant token");
        assert_eq!(words("が").concat(), "が");
        assert_eq!(words(""), [] as [&str; 0]);
        assert_eq!(words(" \u{301} "), [] as [&str; 0]);
    }

    #[test]
    fn every_length_and_offset_around_the_eight_and_sixty_four_byte_steps() {
        for before in 0..70 {
            for length in [1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 130] {
                let text = format!("{}{} é{}", " ".repeat(before), "X".repeat(length), "y".repeat(length));
                assert_eq!(
                    words(&text),
                    ["x".repeat(length), format!("é{}", "y".repeat(length))],
                    "{before} {length}"
                );
            }
        }
    }

    #[test]
    fn on_spaced_scripts_words_are_those_of_unicode() {
        // UAX 29 also joins letters by apostrophes, points and underscores, so the sample has none inside
        // words.
        let text =
            "The quick brown Fox, 42 times; Съешь же ещё этих мягких булок. Αλφάβητο — größer (ELVEN).";
        let theirs: Vec<String> = text.unicode_words().map(str::to_lowercase).collect();
        assert_eq!(words(text), theirs);
    }

    proptest! {
        #[test]
        fn any_text_equals_the_twin(text: String) {
            prop_assert_eq!(tokens(&text), naive(&text));
        }

        #[test]
        fn mixed_scripts_equal_the_twin(text in "[a-zA-Z0-9_ .éÉßςΣжЖ日本カกั้한\u{301}\u{94d}न]{0,200}") {
            prop_assert_eq!(tokens(&text), naive(&text));
        }
    }
}
