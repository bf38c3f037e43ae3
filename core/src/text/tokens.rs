//! Cuts text into words and units, a stretch of some kilobytes at a time, which stays in the nearest cache: fold
//! into a buffer with two bits per byte, "inside a token" and "a token begins here", then cut where these bits
//! change. Text goes 64 bytes at a time, with whatever is not ASCII classed in its place.

use super::fold::{Class, Classes};
use crate::hash::{ShortKey, WordHash};
use crate::kernel::Level;
use crate::kernel::fold::{BLOCK, Bytes as Block, Characters, WINDOW};

/// A piece of folded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// Its bytes.
    pub bytes: Bytes<'a>,
    /// What it is.
    pub kind: TokenKind,
}

/// Folded UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes<'a> {
    /// At most [`ShortKey::MAX`] bytes, ready to be hashed.
    Short(ShortKey),
    /// More.
    Long(&'a [u8]),
}

impl Bytes<'_> {
    /// Their hash.
    #[inline(always)]
    pub fn hash<H: WordHash>(self) -> u64 {
        match self {
            Self::Short(word) => H::short(word),
            Self::Long(word) => H::long(word),
        }
    }
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A word.
    Word,
    /// A character of a script without spaces, with its marks.
    Unit {
        /// Whether the token before was a unit too, with nothing between.
        joined: bool,
    },
}

/// Bytes of text that are folded before they are cut.
const STRETCH: usize = 1 << 13;

/// Cuts texts into tokens. Holds buffers; make one per thread.
#[derive(Clone, Debug, Default)]
pub struct Tokenizer {
    classes: Classes,
    /// The folded stretch, and at least a block to write to and a window of a short word to read behind it.
    folded: Vec<u8>,
    /// Folded bytes.
    end: usize,
    /// What the last character was, to know what a mark or a unit belongs to.
    before: Class,
    /// Whether the text has had a character of three bytes or more, as units are.
    wide: bool,
    inside: Bits,
    begins: Bits,
    starts: Vec<u32>,
    ends: Vec<u32>,
}

/// A bit for each folded byte since the stretch began.
#[derive(Clone, Debug, Default)]
struct Bits {
    words: Vec<u64>,
    last: u64,
    /// Bits of `last`, fewer than 64.
    filled: u32,
}

impl Bits {
    fn clear(&mut self) {
        self.words.clear();
        (self.last, self.filled) = (0, 0);
    }

    /// Appends the low `count` bits of `new`, at most 64; the others are 0.
    #[inline(always)]
    fn push(&mut self, new: u64, count: u32) {
        self.last |= new << self.filled;
        self.filled += count;
        if self.filled >= u64::BITS {
            self.words.push(self.last);
            self.filled -= u64::BITS;
            self.last = if self.filled == 0 { 0 } else { new >> (count - self.filled) };
        }
    }

    /// The words, the last of them filled up with zeros, of which there is one at least.
    fn finish(&mut self) -> &mut [u64] {
        self.words.push(self.last);
        &mut self.words
    }
}

/// What comes before a token that is cut.
struct Before {
    end: usize,
    unit: bool,
}

/// The tokens that end in a stretch of text.
pub(crate) struct Stretch<'a> {
    folded: &'a [u8],
    classes: Classes,
    wide: bool,
    /// Whether the first token began before the stretch; it then stands at the front of what is folded.
    open: bool,
    /// Where the stretch begins in what is folded, from where on the places of its tokens are counted.
    base: usize,
    starts: &'a [u32],
    ends: &'a [u32],
    before: &'a mut Before,
}

impl Stretch<'_> {
    /// Whether every token is a word: the text has had no character of three bytes so far, as units have.
    pub(crate) fn is_of_words(&self) -> bool {
        !self.wide
    }

    /// Appends the hash of every token in order, words and units alike.
    #[inline(always)]
    pub(crate) fn hashes<H: WordHash>(&self, hashes: &mut Vec<u64>) {
        let (first, starts, ends) = self.places();
        hashes.extend(first.map(|to| self.bytes(0, to).hash::<H>()));
        Level::in_use().hash_words::<H>(&self.folded[self.base..], starts, ends, hashes);
    }

    /// Calls `each` with every token in order.
    #[inline(always)]
    pub(crate) fn tokens(self, mut each: impl FnMut(Token<'_>)) {
        let (first, starts, ends) = self.places();
        let others = starts.iter().zip(ends);
        let others = others.map(|(&from, &to)| (self.base + from as usize, self.base + to as usize));
        let mut before = Before { ..*self.before };
        for (from, to) in first.map(|to| (0, to)).into_iter().chain(others) {
            let unit = self.wide && self.folded[from] >= 0xe0 && self.is_unit(from);
            let kind = match unit {
                true => TokenKind::Unit { joined: before.unit && before.end == from },
                false => TokenKind::Word,
            };
            each(Token { bytes: self.bytes(from, to), kind });
            before = Before { end: to, unit };
        }
        *self.before = before;
    }

    /// Where the token ends that was open, and where the others begin and end, counted from the base on.
    #[inline(always)]
    fn places(&self) -> (Option<usize>, &[u32], &[u32]) {
        let (first, ends) = match self.ends.split_first() {
            Some((first, others)) if self.open => (Some(self.base + *first as usize), others),
            _ => (None, self.ends),
        };
        (first, &self.starts[..ends.len()], ends)
    }

    #[inline(always)]
    fn bytes(&self, from: usize, to: usize) -> Bytes<'_> {
        if to - from <= ShortKey::MAX {
            let window = self.folded[from..from + ShortKey::MAX].first_chunk().expect("room behind the text");
            Bytes::Short(ShortKey::new(window, to - from))
        } else {
            Bytes::Long(&self.folded[from..to])
        }
    }

    /// Whether the character that begins here, of three bytes or four, is of a script without spaces.
    #[inline]
    fn is_unit(&self, from: usize) -> bool {
        let window: &[u8; 4] = self.folded[from..].first_chunk().expect("room behind the text");
        let (code, _) = decoded(window);
        self.classes.of_code(code).0 == Class::Unspaced
    }
}

impl Tokenizer {
    /// Calls `each` with every token of `text` in order.
    #[inline]
    pub(crate) fn tokens(&mut self, text: &str, mut each: impl FnMut(Token<'_>)) {
        self.stretches(text, |stretch| stretch.tokens(&mut each));
    }

    /// Calls `each` with the tokens of `text`, those of a stretch at a time.
    #[inline]
    pub(crate) fn stretches(&mut self, text: &str, mut each: impl FnMut(Stretch<'_>)) {
        (self.end, self.before, self.wide) = (0, Class::Separator, false);
        // Whether a token reached the end of the stretch before; it then begins the buffer.
        let mut open = false;
        let mut before = Before { end: 0, unit: false };
        let mut rest = text;
        while open || !rest.is_empty() {
            let (stretch, after) = rest.split_at(rest.floor_char_boundary(STRETCH));
            let base = self.end;
            if stretch.is_empty() {
                // What is open ends with the text.
                self.starts.clear();
                self.ends.clear();
                self.ends.push(0);
            } else {
                self.fold(stretch);
                self.cut(open, self.end - base);
            }
            rest = after;
            let Self { folded, classes, wide, starts, ends, .. } = &*self;
            let (classes, wide) = (*classes, *wide);
            each(Stretch { folded, classes, wide, open, base, starts, ends, before: &mut before });
            // What is open goes to the front, unless it stands there: a page of one token is never moved.
            let from = match starts.last() {
                _ if starts.len() + usize::from(open) == ends.len() => self.end,
                Some(&start) => base + start as usize,
                None => 0,
            };
            open = starts.len() + usize::from(open) > ends.len();
            if from > 0 {
                self.folded.copy_within(from..self.end, 0);
                self.end -= from;
                // A unit that is joined ends where the next begins, at 0; what does not is farther away.
                before.end = if before.end == from { 0 } else { usize::MAX };
            }
        }
    }

    /// The folded words and units of `text`, for tests and for showing.
    pub fn words(&mut self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        self.tokens(text, |token| {
            let bytes = match token.bytes {
                Bytes::Short(key) => key.to_vec(),
                Bytes::Long(bytes) => bytes.to_vec(),
            };
            words.push(String::from_utf8_lossy(&bytes).into_owned());
        });
        words
    }

    /// Where the tokens of the stretch of so many folded bytes begin and end; one that reaches its end may go
    /// on. `open` says whether one reached the end of the stretch before.
    fn cut(&mut self, open: bool, length: usize) {
        let Self { inside, begins, starts, ends, .. } = self;
        let (inside, begins) = (inside.finish(), begins.finish());
        let kernel = Level::in_use();
        kernel.ones(begins, starts);
        let mut carry = u64::from(open);
        for (inside, &begins) in inside.iter_mut().zip(&*begins) {
            let was_inside = *inside << 1 | carry;
            carry = *inside >> 63;
            *inside = was_inside & (!*inside | begins);
        }
        kernel.ones(inside, ends);
        ends.pop_if(|end| *end as usize == length);
    }

    /// Folds a stretch of text behind what is there, and says of each of its bytes what it is to a token.
    fn fold(&mut self, stretch: &str) {
        self.inside.clear();
        self.begins.clear();
        let (kernel, classes) = (Level::in_use(), self.classes);
        let mut rest = stretch.as_bytes();
        let mut last = [b' '; WINDOW];
        while !rest.is_empty() {
            let window = rest.first_chunk().unwrap_or_else(|| {
                last[..rest.len()].copy_from_slice(rest);
                last[rest.len()..].fill(b' ');
                &last
            });
            if self.folded.len() < self.end + 2 * BLOCK {
                self.folded.resize((self.folded.len() * 2).max(2 * STRETCH), 0);
            }
            let target = self.folded[self.end..].first_chunk_mut::<BLOCK>().expect("room behind the text");
            let length = rest.len().min(BLOCK);
            let block = window.first_chunk().expect("a block is shorter than a window");
            let bytes = kernel.fold_ascii(block, target);
            let carry = u64::from(self.before == Class::Letter);
            if bytes.other == 0 && length == BLOCK {
                let letters = bytes.alphanumeric;
                self.inside.push(letters, BLOCK as u32);
                self.begins.push(letters & !(letters << 1 | carry), BLOCK as u32);
                self.before = letter_or_not(letters >> (BLOCK - 1));
                self.end += BLOCK;
                rest = &rest[BLOCK..];
                continue;
            }
            let found = match kernel.fold_others(classes.0, window, bytes, target) {
                Some(characters) => Found::of(characters, length, self.before),
                None => others(classes, window, target, length, bytes, self.before),
            };
            let Found { length, letters, units, unit_starts, before, wide, longer } = found;
            self.wide |= wide;
            self.inside.push(letters | units, length as u32);
            self.begins.push(letters & !(letters << 1 | carry) | unit_starts, length as u32);
            self.before = before;
            self.end += length;
            rest = &rest[length..];
            if let Some((bytes, c)) = longer {
                // A letter whose folded form has another length: its room is behind what was folded.
                let mut utf8 = [0; 4];
                let folded = c.encode_utf8(&mut utf8).as_bytes();
                self.folded[self.end..self.end + folded.len()].copy_from_slice(folded);
                let ones = (1 << folded.len()) - 1;
                self.inside.push(ones, folded.len() as u32);
                self.begins.push(u64::from(self.before != Class::Letter), folded.len() as u32);
                self.before = Class::Letter;
                self.wide |= folded.len() > 2;
                self.end += folded.len();
                rest = &rest[bytes..];
            }
        }
    }
}

#[inline(always)]
fn letter_or_not(bit: u64) -> Class {
    if bit & 1 == 1 { Class::Letter } else { Class::Separator }
}

/// The code point that four bytes begin with, and how many bytes it has; not an ASCII one.
#[inline(always)]
fn decoded(&[a, b, c, d]: &[u8; 4]) -> (u32, usize) {
    let low = |byte: u8| u32::from(byte & 0x3f);
    match a {
        0..0xe0 => (u32::from(a & 0x1f) << 6 | low(b), 2),
        0xe0..0xf0 => (u32::from(a & 0x0f) << 12 | low(b) << 6 | low(c), 3),
        _ => (u32::from(a & 0x07) << 18 | low(b) << 12 | low(c) << 6 | low(d), 4),
    }
}

/// What a block comes to.
struct Found {
    /// Bytes of it that were looked at: up to a character that the block cuts, or one that gets longer or
    /// shorter.
    length: usize,
    letters: u64,
    units: u64,
    unit_starts: u64,
    /// What the last character was.
    before: Class,
    /// Whether there is one of three bytes or more.
    wide: bool,
    /// The character that follows, in so many bytes, folds to this one of another number of bytes.
    longer: Option<(usize, char)>,
}

impl Found {
    /// The characters of a block of which so many bytes are text, behind a character of this class.
    #[inline(always)]
    fn of(characters: Characters, text: usize, before: Class) -> Self {
        let Characters { length, mut letters, marks, mut units, unit_starts, wide } = characters;
        let length = length.min(text);
        if marks != 0 {
            // Marks belong to what stands before them: an addition carries it through each run of marks.
            let through = |class: u64, carry: bool| {
                let first = (class << 1 | u64::from(carry)) & marks;
                class | (first.wrapping_add(marks) ^ marks) & marks
            };
            letters = through(letters, before == Class::Letter);
            units = through(units, before == Class::Unspaced);
        }
        let last = length - 1;
        let before = match () {
            () if letters >> last & 1 == 1 => Class::Letter,
            () if units >> last & 1 == 1 => Class::Unspaced,
            () => Class::Separator,
        };
        Self { length, letters, units, unit_starts, before, wide, longer: None }
    }
}

/// Classes the characters of a block that are not ASCII and folds them in their place.
fn others(
    classes: Classes,
    block: &[u8; WINDOW],
    target: &mut [u8; BLOCK],
    length: usize,
    Block { alphanumeric: ascii, mut other }: Block,
    before: Class,
) -> Found {
    let mut found =
        Found { length, letters: ascii, units: 0, unit_starts: 0, before, wide: false, longer: None };
    // Where the last character that is not ASCII ended.
    let mut seen = 0;
    while other != 0 {
        let at = other.trailing_zeros() as usize;
        let bytes = match block[at] {
            0..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        found.wide |= bytes > 2;
        if at > seen {
            found.before = letter_or_not(ascii >> (at - 1));
        }
        seen = at;
        if at + bytes > length {
            found.length = at;
            break;
        }
        let window = match block[at..].first_chunk::<4>() {
            Some(window) => *window,
            None => std::array::from_fn(|i| block.get(at + i).copied().unwrap_or(0)),
        };
        let (code, _) = decoded(&window);
        let (class, folded) = classes.of_code(code);
        let ones = ((1u64 << bytes) - 1) << at;
        match class {
            Class::Separator => found.before = class,
            Class::Letter => {
                if folded != code {
                    let c = char::from_u32(folded).unwrap_or(char::REPLACEMENT_CHARACTER);
                    if c.len_utf8() != bytes {
                        found.length = at;
                        found.longer = Some((bytes, c));
                        break;
                    }
                    c.encode_utf8(&mut target[at..at + bytes]);
                }
                found.letters |= ones;
                found.before = class;
            }
            Class::Mark => match found.before {
                Class::Letter => found.letters |= ones,
                Class::Unspaced => found.units |= ones,
                _ => {}
            },
            Class::Unspaced => {
                found.units |= ones;
                found.unit_starts |= 1 << at;
                found.before = class;
            }
        }
        other &= !ones;
        seen = at + bytes;
    }
    let length = found.length;
    if length > seen {
        found.before = letter_or_not(ascii >> (length - 1));
    }
    let looked_at = if length == 0 { 0 } else { u64::MAX >> (BLOCK - length) };
    found.letters &= looked_at;
    found
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
            let bytes = match token.bytes {
                Bytes::Short(key) => key.to_vec(),
                Bytes::Long(bytes) => bytes.to_vec(),
            };
            let joined = match token.kind {
                TokenKind::Word => None,
                TokenKind::Unit { joined } => Some(joined),
            };
            all.push((String::from_utf8(bytes).unwrap(), joined));
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

    /// Characters of every length and kind, and such as fold to another length.
    const PIECES: &[&str] = &[
        "a",
        "Zz",
        " ",
        "word, ",
        "Ünï ",
        "é",
        "Ж",
        "ж.",
        "Ⱥ",
        "ſ",
        "ẞ",
        "K",
        "Ω",
        "ᏸ",
        "ﬀ",
        "日",
        "本 ",
        "カ",
        "ก",
        "กั",
        "한",
        "न्",
        "\u{301}",
        "\u{94d}",
        "\u{3099}",
        "\u{200d}",
        "😀",
        "𝒜",
        "\u{20000}",
        "\u{10400}",
        "_",
        "\0",
        "ı",
        "İ",
        "Ꭰ",
    ];

    #[test]
    fn every_character_between_any_two_equals_the_twin() {
        let around = ["", "a", " ", "日", "é", "\u{301}"];
        for c in ('\0'..=char::MAX).filter(|c| (*c as u32) < 0x3000 || (*c as u32).is_multiple_of(37)) {
            let mut text = String::new();
            for before in around {
                for after in around {
                    text.extend([before, c.encode_utf8(&mut [0; 4]), after, "  "]);
                }
            }
            assert_eq!(tokens(&text), naive(&text), "{c:?}");
        }
    }

    #[test]
    fn tokens_longer_than_a_stretch_equal_the_twin() {
        for length in [STRETCH - 1, STRETCH, STRETCH + 1, 3 * STRETCH + 7] {
            for piece in ["a", "é", "Ⱥ", "本", "한"] {
                for before in ["", "b ", "本"] {
                    let text = format!("{before}{}{} c", " ".repeat(length % 9), piece.repeat(length));
                    assert_eq!(tokens(&text), naive(&text), "{length} {piece} {before}");
                    let marks = format!("{before}{piece}{}", "\u{301}".repeat(length));
                    assert_eq!(tokens(&marks), naive(&marks), "{length} {piece} {before}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_equals_the_twin(text: String) {
            prop_assert_eq!(tokens(&text), naive(&text));
        }

        #[test]
        fn long_text_equals_the_twin(
            parts in prop::collection::vec((prop::sample::select(PIECES), 1usize..400), 0..120), shift in 0usize..70,
        ) {
            let mut text = "x".repeat(shift);
            parts.iter().for_each(|(piece, times)| text.push_str(&piece.repeat(*times)));
            prop_assert_eq!(tokens(&text), naive(&text));
        }

        #[test]
        fn mixed_scripts_equal_the_twin(text in "[a-zA-Z0-9_ .éÉßςΣжЖ日本カกั้한\u{301}\u{94d}न]{0,200}") {
            prop_assert_eq!(tokens(&text), naive(&text));
        }
    }
}
