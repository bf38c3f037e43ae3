//! Cuts text into tokens: words, and units, which are the characters of scripts without spaces. It works on a stretch
//! of some kilobytes of text at a time, which stays in the nearest cache. The stretch is folded into a buffer with two
//! bits per byte, "inside a token" and "a token begins here", and is then cut where these bits change. To fold is to
//! replace characters by their normal form without case, 64 bytes at a time. Where the folded form of a character has
//! another length, or depends on its neighbours, a few characters around it are folded together.

use super::fold::{Class, Classes};
use crate::hash::{ShortKey, WordHash};
use crate::kernel::Level;
use crate::kernel::fold::{BLOCK, ByteClasses, Characters, WINDOW, entry, interact};

/// A word or a unit of a text, folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// The folded text of the token.
    pub bytes: Bytes<'a>,
    /// The kind of the token.
    pub kind: TokenKind,
}

/// The folded text of a token, in UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes<'a> {
    /// At most [`ShortKey::MAX`] bytes, ready to be hashed.
    Short(ShortKey),
    /// More bytes than that.
    Long(&'a [u8]),
}

impl Bytes<'_> {
    /// Calls `show` with the bytes, and returns its result.
    #[inline(always)]
    pub fn with<R>(self, show: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Short(word) => {
                let (bytes, length) = word.bytes();
                show(&bytes[..length])
            }
            Self::Long(word) => show(word),
        }
    }

    /// The hash of the bytes as those of a word.
    #[inline(always)]
    pub fn hash<H: WordHash>(self) -> u64 {
        match self {
            Self::Short(word) => H::short(word),
            Self::Long(word) => H::long(word),
        }
    }
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A word.
    Word,
    /// A character of a script without spaces, with its marks.
    Unit {
        /// True if the token before is a unit too, and nothing stands between them.
        joined: bool,
    },
}

/// Bytes of text that are folded before they are cut. Tests have short stretches, so that more of them meet.
const STRETCH: usize = if cfg!(test) { 1 << 10 } else { 1 << 13 };

/// Cuts texts into tokens. A tokenizer holds buffers; make one per thread.
#[derive(Clone, Debug, Default)]
pub struct Tokenizer {
    classes: Classes,
    /// The folded stretch, and at least a block to write to and a window of a short word to read behind it.
    folded: Vec<u8>,
    /// Folded bytes.
    end: usize,
    /// The class of the last character, which tells where a mark or a unit belongs.
    before: Class,
    /// True if the text has had a character of three bytes or more, as units are.
    wide: bool,
    inside: ByteBits,
    begins: ByteBits,
    starts: Vec<u32>,
    ends: Vec<u32>,
    /// The normal form of a few characters, with combining classes.
    normal: Vec<(u32, u8)>,
}

/// A bit for each folded byte since the stretch began.
#[derive(Clone, Debug, Default)]
struct ByteBits {
    words: Vec<u64>,
    last: u64,
    /// Bits of `last`, fewer than 64.
    filled: u32,
}

impl ByteBits {
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

    fn len(&self) -> usize {
        self.words.len() * u64::BITS as usize + self.filled as usize
    }

    fn get(&self, at: usize) -> bool {
        let bits = u64::BITS as usize;
        self.words.get(at / bits).unwrap_or(&self.last) >> (at % bits) & 1 == 1
    }

    /// Keeps only the first bits.
    fn truncate(&mut self, length: usize) {
        let bits = u64::BITS as usize;
        if let Some(&last) = self.words.get(length / bits) {
            self.last = last;
            self.words.truncate(length / bits);
        }
        self.filled = (length % bits) as u32;
        self.last &= (1 << self.filled) - 1;
    }

    /// The words, the last of them filled up with zeros, of which there is one at least.
    fn finish(&mut self) -> &mut [u64] {
        self.words.push(self.last);
        &mut self.words
    }
}

/// The token before the one that is cut: where it ends, and whether it is a unit.
struct Before {
    end: usize,
    unit: bool,
}

/// The tokens that end in one stretch of a text. Their order is that of the text.
pub(crate) struct Stretch<'a> {
    folded: &'a [u8],
    classes: Classes,
    wide: bool,
    /// True if the first token began before the stretch; it then stands at the front of what is folded.
    open: bool,
    /// Where the stretch begins in what is folded, from where on the places of its tokens are counted.
    base: usize,
    starts: &'a [u32],
    ends: &'a [u32],
    before: &'a mut Before,
}

impl Stretch<'_> {
    /// True if every token is a word: the text has had no character of three bytes so far, as units have.
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

    /// The end of the token that was open, and the beginnings and ends of the others, counted from the base on.
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

    /// True if the character that begins here, of three bytes or four, is of a script without spaces.
    #[inline]
    fn is_unit(&self, from: usize) -> bool {
        let window: &[u8; 4] = self.folded[from..].first_chunk().expect("room behind the text");
        Class::of(self.classes.entry(decoded(window))) == Class::Unspaced
    }
}

impl Tokenizer {
    /// Calls `each` with every token of `text` in order.
    #[inline]
    pub(crate) fn tokens(&mut self, text: &str, mut each: impl FnMut(Token<'_>)) {
        self.stretches(text, |stretch| stretch.tokens(&mut each));
    }

    /// Calls `each` with every stretch of `text` in order. Together they have every token of the text once.
    #[inline]
    pub(crate) fn stretches(&mut self, text: &str, mut each: impl FnMut(Stretch<'_>)) {
        (self.end, self.before, self.wide) = (0, Class::Separator, false);
        // Whether a token reached the end of the stretch before; it then begins the buffer.
        let mut open = false;
        let mut before = Before { end: 0, unit: false };
        let mut rest = text;
        while open || !rest.is_empty() {
            let (stretch, after) = rest.split_at(self.next_stretch(rest));
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

    /// The folded words and units of `text`, in order.
    pub fn words(&mut self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        self.tokens(text, |token| {
            words.push(token.bytes.with(|bytes| String::from_utf8_lossy(bytes).into_owned()));
        });
        words
    }

    /// Lists where the tokens of the stretch, of `length` folded bytes, begin and end. A token that reaches its end may
    /// go on, and has no end yet. `open` is true if one reached the end of the stretch before.
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

    /// The length of the next stretch, which ends in front of a character that no other changes.
    fn next_stretch(&self, rest: &str) -> usize {
        let end = rest.floor_char_boundary(STRETCH);
        let is_apart = |&(_, c): &(usize, char)| self.classes.is_apart(c);
        let behind = || rest[end..].char_indices().find(is_apart).map(|(at, _)| end + at);
        match rest[end..].chars().next() {
            Some(c) if !self.classes.is_apart(c) => {
                let before = rest[..end].char_indices().rfind(is_apart).map(|(at, _)| at);
                before.filter(|&at| at > 0).or_else(behind).unwrap_or(rest.len())
            }
            _ => end,
        }
    }

    /// Folds a stretch of text behind the bytes in the buffer, and sets the two bits of each folded byte.
    fn fold(&mut self, stretch: &str) {
        self.inside.clear();
        self.begins.clear();
        let (kernel, classes) = (Level::in_use(), self.classes);
        let before_stretch = self.before;
        let mut last = [b' '; WINDOW];
        // From `apart` on, the folded bytes are those of the text in number and place.
        let (mut at, mut apart) = (0, 0);
        while at < stretch.len() {
            let rest = &stretch.as_bytes()[at..];
            let window = rest.first_chunk().unwrap_or_else(|| {
                last[..rest.len()].copy_from_slice(rest);
                last[rest.len()..].fill(b' ');
                &last
            });
            self.make_room();
            let target = self.folded[self.end..].first_chunk_mut::<BLOCK>().expect("room behind the text");
            let length = rest.len().min(BLOCK);
            let block = window.first_chunk().expect("a block is shorter than a window");
            let bytes = kernel.fold_ascii(block, target);
            if bytes.other == 0 && length == BLOCK {
                // Most blocks of most texts: what is constant here is left out when this is inlined.
                let letters = bytes.alphanumeric;
                at += self.add(Characters { length: BLOCK, letters, ..Characters::default() }, BLOCK);
                continue;
            }
            let neighbour = match stretch[..at].chars().next_back() {
                Some(c) if bytes.other & 1 == 1 && !c.is_ascii() => classes.entry(c as u32),
                _ => 0,
            };
            let characters = kernel
                .fold_others(classes.table(), window, bytes, neighbour, target)
                .unwrap_or_else(|| self.fold_one_by_one(window, bytes, neighbour));
            at += self.add(characters, length);
            if characters.is_special {
                at = self.fold_anew(stretch, apart, at, before_stretch);
                apart = at;
            }
        }
    }

    /// Folds the characters of a block that are not ASCII, one after the other, and returns the classes of all. It does
    /// what [`Level::fold_others`] does, for any block.
    fn fold_one_by_one(
        &mut self,
        text: &[u8; WINDOW],
        ByteClasses { alphanumeric, mut other }: ByteClasses,
        mut neighbour: u32,
    ) -> Characters {
        let target = self.folded[self.end..].first_chunk_mut::<BLOCK>().expect("room behind the text");
        let mut found = Characters { length: BLOCK, ..Characters::default() };
        // Where the last character that is not ASCII ended.
        let mut seen = 0;
        while other != 0 {
            let at = other.trailing_zeros() as usize;
            // The first byte of a character begins with as many ones as the character has bytes.
            let bytes = text[at].leading_ones() as usize;
            if at > seen {
                neighbour = 0;
            }
            if at + bytes > BLOCK {
                found.length = at;
                break;
            }
            let code = decoded(text[at..].first_chunk().expect("a window is longer than a block"));
            let entry = self.classes.entry(code);
            if entry & entry::SPECIAL != 0 || interact(neighbour, entry) {
                (found.length, found.is_special) = (at, true);
                break;
            }
            neighbour = entry;
            found.wide |= bytes > 2;
            let (class, form) = (Class::of(entry), entry & entry::FORM);
            if form != code && class != Class::Separator {
                let form = char::from_u32(form).unwrap_or(char::REPLACEMENT_CHARACTER);
                form.encode_utf8(&mut target[at..at + bytes]);
            }
            let ones = ((1u64 << bytes) - 1) << at;
            match class {
                Class::Separator => {}
                Class::Letter => found.letters |= ones,
                Class::Mark => found.marks |= ones,
                Class::Unspaced => {
                    found.units |= ones;
                    found.unit_starts |= 1 << at;
                }
            }
            other &= !ones;
            seen = at + bytes;
        }
        let looked_at = if found.length == 0 { 0 } else { u64::MAX >> (BLOCK - found.length) };
        found.letters |= alphanumeric & looked_at;
        found
    }

    /// Adds the characters of a block that has `text` bytes of text. Returns how many bytes it added.
    #[inline(always)]
    fn add(&mut self, characters: Characters, text: usize) -> usize {
        let Characters { length, mut letters, marks, mut units, unit_starts, wide, .. } = characters;
        let length = length.min(text);
        let carry = u64::from(self.before == Class::Letter);
        if marks != 0 {
            // Marks belong to what stands before them: an addition carries it through each run of marks.
            let through = |class: u64, carry: u64| {
                let first = (class << 1 | carry) & marks;
                class | (first.wrapping_add(marks) ^ marks) & marks
            };
            letters = through(letters, carry);
            units = through(units, u64::from(self.before == Class::Unspaced));
        }
        self.wide |= wide;
        self.inside.push(letters | units, length as u32);
        self.begins.push(letters & !(letters << 1 | carry) | unit_starts, length as u32);
        self.before = match length.checked_sub(1) {
            None => self.before,
            Some(last) if letters >> last & 1 == 1 => Class::Letter,
            Some(last) if units >> last & 1 == 1 => Class::Unspaced,
            Some(_) => Class::Separator,
        };
        self.end += length;
        length
    }

    fn make_room(&mut self) {
        if self.folded.len() < self.end + 2 * BLOCK {
            self.folded.resize((self.folded.len() * 2).max(2 * STRETCH), 0);
        }
    }

    /// Folds the characters around the one at `at` by their normal form: from the last one that no other changes,
    /// though not from before `apart`, up to two that no other changes, whose place it returns. What was folded of
    /// them is replaced. `before_stretch` is the class of what stands before the stretch.
    #[inline(never)]
    fn fold_anew(&mut self, stretch: &str, apart: usize, at: usize, before_stretch: Class) -> usize {
        let classes = self.classes;
        let from = stretch[apart..at].char_indices().rfind(|&(_, c)| classes.is_apart(c));
        let from = apart + from.map_or(0, |(from, _)| from);
        let (mut to, mut was_apart) = (at, false);
        let mut rest = stretch[at..].char_indices().map(|(place, c)| (at + place, classes.is_apart(c)));
        let end = rest.find_map(|(place, is_apart)| {
            let is_end = is_apart && was_apart;
            if !is_end {
                (to, was_apart) = (place, is_apart);
            }
            is_end.then_some(to)
        });
        let end = end.unwrap_or(stretch.len());
        let kept = self.inside.len() - (at - from);
        if from < at {
            // The first character that goes is no mark, so that only a letter asks for what stands before.
            self.before = match self.inside.get(kept) && !self.begins.get(kept) {
                _ if from == 0 => before_stretch,
                true => Class::Letter,
                false => Class::Separator,
            };
        }
        self.inside.truncate(kept);
        self.begins.truncate(kept);
        self.end -= at - from;
        let mut normal = std::mem::take(&mut self.normal);
        classes.normalise(&stretch[from..end], &mut normal);
        normal.iter().filter_map(|&(code, _)| char::from_u32(code)).for_each(|c| self.push(c));
        self.normal = normal;
        end
    }

    /// Appends a folded character.
    fn push(&mut self, c: char) {
        self.make_room();
        let length = c.encode_utf8(&mut self.folded[self.end..]).len();
        let class = Class::of(self.classes.entry(c as u32));
        let (is_inside, begins) = match class {
            Class::Separator => (false, false),
            Class::Letter => (true, self.before != Class::Letter),
            Class::Mark => (self.before != Class::Separator, false),
            Class::Unspaced => (true, true),
        };
        self.inside.push(if is_inside { (1 << length) - 1 } else { 0 }, length as u32);
        self.begins.push(begins.into(), length as u32);
        if class != Class::Mark {
            self.before = class;
        }
        self.wide |= length > 2;
        self.end += length;
    }
}

/// The code point that four bytes begin with; not an ASCII one.
#[inline(always)]
fn decoded(&[a, b, c, d]: &[u8; 4]) -> u32 {
    let low = |byte: u8| u32::from(byte & 0x3f);
    match a {
        0..0xe0 => u32::from(a & 0x1f) << 6 | low(b),
        0xe0..0xf0 => u32::from(a & 0x0f) << 12 | low(b) << 6 | low(c),
        _ => u32::from(a & 0x07) << 18 | low(b) << 12 | low(c) << 6 | low(d),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold::{APOSTROPHES, OPTIONAL};
    use super::super::unicode::within;
    use super::*;
    use icu_casemap::CaseMapper;
    use icu_properties::CodePointSetData;
    use icu_properties::props::DefaultIgnorableCodePoint;
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;
    use unicode_normalization::char::is_combining_mark;
    use unicode_segmentation::UnicodeSegmentation;

    fn words(text: &str) -> Vec<String> {
        Tokenizer::default().words(text)
    }

    /// The twin: the whole text normalised by other libraries, then one character after the other, a `String` per
    /// word. Units carry `joined`.
    fn naive(text: &str) -> Vec<(String, Option<bool>)> {
        let classes = Classes::default();
        let class = |c: char| Class::of(classes.entry(c as u32));
        let invisible = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        let is_seen = |c: &char| !invisible.contains(*c) && !within(&OPTIONAL, *c as u32);
        let mut decomposed = String::new();
        for c in text.chars().filter(is_seen) {
            match !c.is_ascii() && is_decomposed(c) {
                true => decomposed.extend(std::iter::once(c).nfkd().filter(is_seen)),
                false => decomposed.push(c),
            }
        }
        let ordered: String = decomposed.nfd().collect();
        let folded = CaseMapper::new().fold_string(&ordered);
        let apostrophe = |c| if within(&APOSTROPHES, c as u32) { '\'' } else { c };
        let composed: String = folded.chars().map(apostrophe).nfc().collect();
        let composed = composed.replace("\u{e4d}\u{e32}", "\u{e33}").replace("\u{ecd}\u{eb2}", "\u{eb3}");
        let mut tokens: Vec<(String, Option<bool>)> = Vec::new();
        let mut before = Class::Separator;
        for c in composed.chars() {
            let class = class(c);
            match class {
                Class::Separator => {}
                Class::Mark if before == Class::Separator => {}
                Class::Mark => tokens.last_mut().unwrap().0.push(c),
                Class::Letter if before == Class::Letter => tokens.last_mut().unwrap().0.push(c),
                Class::Letter => tokens.push((c.into(), None)),
                Class::Unspaced => tokens.push((c.into(), Some(before == Class::Unspaced))),
            }
            if class != Class::Mark {
                before = class;
            }
        }
        tokens
    }

    /// True if compatibility forms of a character are equal: of all but symbols and fractions.
    fn is_decomposed(c: char) -> bool {
        let class = Class::of(Classes::default().entry(c as u32));
        class != Class::Separator && !std::iter::once(c).nfkd().any(|c| c == '\u{2044}')
    }

    fn tokens(text: &str) -> Vec<(String, Option<bool>)> {
        let mut all = Vec::new();
        Tokenizer::default().tokens(text, |token| {
            let bytes = token.bytes.with(<[u8]>::to_vec);
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
        assert_eq!(words("ΟΔΟΣ οδός Straße"), ["οδοσ", "οδόσ", "strasse"]);
        assert_eq!(words("Привет, МИР"), ["привет", "мир"]);
        assert_eq!(words("cafe\u{301} naïve"), ["café", "naïve"]);
        assert_eq!(words("हिन्दी में"), ["हिन्दी", "में"]);
        assert_eq!(words("한국어 문서"), ["한국어", "문서"]);
        assert_eq!(words("東京2024年"), ["東", "京", "2024", "年"]);
        assert_eq!(words("ภาษาไทย").len(), 7, "units with their marks, not one giant token");
        assert_eq!(words("が").concat(), "が");
        assert_eq!(words(""), [] as [&str; 0]);
        assert_eq!(words(" \u{301} "), [] as [&str; 0]);
    }

    #[test]
    fn words_are_those_that_a_reader_sees() {
        for (text, same) in [
            // Canonical equivalents.
            ("Ange\u{301}lique", "angélique"),
            ("Vie\u{323}\u{302}t", "việt"),
            ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}", "한국"),
            ("ज़िला", "ज\u{93c}िला"),
            ("か\u{3099}", "が"),
            ("\u{f9d0}", "類"),
            // Compatibility forms.
            ("Ｆｕｌｌ１２", "full12"),
            ("ｶﾞｷﾞ", "ガギ"),
            ("eﬃcient ﬁle", "efficient file"),
            ("น\u{e49}\u{e4d}\u{e32}", "น\u{e49}ำ"),
            ("\u{fefb}", "لا"),
            // Invisible characters.
            ("exam\u{ad}ple", "example"),
            ("zero\u{200b}width", "zerowidth"),
            ("می\u{200c}خواهم", "میخواهم"),
            ("word\u{2060}joiner\u{200e}", "wordjoiner"),
            ("葛\u{e0100}", "葛"),
            ("كتـــاب", "كتاب"),
            // Apostrophes.
            ("м\u{2bc}яч", "м'яч"),
            ("Hawai\u{2bb}i", "hawai’i"),
            // Full case folding.
            ("STRASSE", "straße"),
            ("İ", "i\u{307}"),
            ("ΜΆΪΟΣ", "μάϊος"),
            ("ᾳ\u{301}", "ᾴ"),
            // Optional marks.
            ("كِتَابٌ", "كتاب"),
            ("שָׁלוֹם", "שלום"),
            ("\u{fb2a}", "ש"),
        ] {
            assert_eq!(words(text), words(same), "{text} {same}");
        }
        for (text, other) in [("é", "e"), ("न\u{93f}", "न"), ("が", "か"), ("\u{622}", "\u{627}"), ("ı", "i")]
        {
            assert_ne!(words(text), words(other), "{text} {other}");
        }
        // Symbols part words, and fractions are words.
        assert_eq!(words("Windows™ 1½ m² ㎏"), ["windows", "1½", "m2"]);
    }

    #[test]
    fn equivalents_of_every_character_are_equal() {
        let mut tokenizer = Tokenizer::default();
        let changes = |c: &char| !std::iter::once(*c).nfkd().eq([*c]) || is_combining_mark(*c);
        let jamo = '\u{1100}'..='\u{11ff}';
        for c in ('\0'..=char::MAX).filter(changes).chain(jamo) {
            // What stands before shows whether a mark goes on.
            let text: String = ["", "a", "e\u{323}", "カ", "\u{1100}\u{1161}"]
                .map(|before| format!("{before}{c}\u{301}z "))
                .concat();
            let expected = tokenizer.words(&text);
            assert_eq!(tokenizer.words(&text.nfc().collect::<String>()), expected, "{c:?}");
            assert_eq!(tokenizer.words(&text.nfd().collect::<String>()), expected, "{c:?}");
            if is_decomposed(c) {
                assert_eq!(tokenizer.words(&text.nfkc().collect::<String>()), expected, "{c:?}");
                assert_eq!(tokenizer.words(&text.nfkd().collect::<String>()), expected, "{c:?}");
            }
        }
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
        // words; nor has it an ß, which folds to ss.
        let text = "The quick brown Fox, 42 times; Съешь же ещё этих мягких булок. Αλφάβητο — höher (ELVEN).";
        let theirs: Vec<String> = text.unicode_words().map(str::to_lowercase).collect();
        assert_eq!(words(text), theirs);
    }

    /// Characters of every length and kind, and such as fold to another length.
    const PIECES: &[&str] = &[
        "a", "Zz", " ", "word, ", "Ünï ", "é", "Ж", "ж.", "Ⱥ", "ſ", "ẞ", "K", "\u{212a}", "Ω", "ᏸ", "ﬀ",
        "日", "本 ", "カ", "ก", "กั", "한", "न्", "\u{301}", "\u{94d}", "\u{3099}", "\u{200d}", "😀", "𝒜",
        "𠀀", "𐐀", "_", "\0", "ı", "İ", "ß", "\u{ad}", "が", "\u{64b}", "ｱ１", "Ꭰ",
    ];

    #[test]
    fn every_character_between_any_two_equals_the_twin() {
        let (around, classes) = (["", "a", " ", "日", "é", "\u{301}"], Classes::default());
        let is_tried = |c: &char| match *c as u32 {
            0..0x3000 => true,
            // Here no character is assigned, or all are for private use.
            code @ (0x30000..0xe0000 | 0xf0000..) => code.is_multiple_of(997),
            code => code.is_multiple_of(37),
        };
        for c in ('\0'..=char::MAX).filter(is_tried) {
            // Characters that change no other meet each neighbour, and each two neighbours meet some of them.
            let entry = classes.entry(c as u32);
            let is_plain = entry & !(entry::FORM | 3 << entry::CLASS) == 0 && Class::of(entry) != Class::Mark;
            let mut text = String::new();
            for (at, before) in around.iter().enumerate() {
                for (turn, after) in around.iter().enumerate() {
                    if !is_plain || (at + turn + c as usize).is_multiple_of(around.len()) {
                        text.extend([before, &*c.encode_utf8(&mut [0; 4]), after, "  "]);
                    }
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

    /// Text with many marks that are ordered and composed, of scripts that have some.
    fn marked() -> impl Strategy<Value = String> {
        const SETS: &[&str] = &[
            "aeE\u{300}\u{301}\u{323}\u{327}\u{345}\u{336}é ế.",
            "αᾳΐ\u{300}\u{301}\u{308}\u{313}\u{342}\u{345} ",
            "\u{1100}\u{1112}\u{1161}\u{1162}\u{11a8}\u{11ab}\u{3131}\u{314f}가각\u{a960}",
            "\u{928}\u{930}\u{915}\u{958}\u{93c}\u{94d}\u{93f}\u{951}\u{952}\u{929} ",
            "\u{9a1}\u{9c7}\u{9be}\u{9d7}\u{9bc}\u{9cd}\u{9cb} \u{200d}",
            "\u{dd9}\u{dcf}\u{dca}\u{ddf}\u{ddc}\u{ddd}\u{d9a}\u{93c}",
            "\u{e01}\u{e38}\u{e39}\u{e3a}\u{e48}\u{e4d}\u{e32}\u{e33} \u{eb2}\u{ecd}\u{eb3}",
            "\u{1000}\u{1025}\u{102e}\u{1037}\u{1039}\u{103a}\u{200b}\u{1026}",
            "\u{627}\u{623}\u{64b}\u{650}\u{651}\u{653}\u{654}\u{655}\u{640}\u{fefb}\u{fdfa}",
            "\u{f40}\u{f43}\u{f71}\u{f72}\u{f74}\u{f80}\u{f73}\u{f90}\u{fb7}\u{301}",
            "かｶﾞが\u{3099}\u{309a}\u{ff9e}\u{309b}漢\u{fe00}\u{302a}\u{302b}",
            "\u{1b05}\u{1b06}\u{1b35}\u{1b44}\u{a984}\u{a9b3}\u{a9c0}a",
            "\u{11099}\u{110ba}\u{1109a}\u{1d15e}\u{1d165}\u{10400}\u{2f800}😀\u{fe0f}",
            "\u{5d0}\u{5b0}\u{5b7}\u{5c1}\u{fb2a}\u{fb1d}\u{34f}\u{ad}",
        ];
        let character = prop::sample::select(SETS).prop_flat_map(|set: &str| {
            let all: Vec<char> = set.chars().collect();
            prop::collection::vec(prop::sample::select(all), 1..40)
        });
        prop::collection::vec(character, 1..6).prop_map(|runs| runs.concat().into_iter().collect())
    }

    proptest! {
        #[test]
        fn any_text_equals_the_twin(text: String) {
            prop_assert_eq!(tokens(&text), naive(&text));
        }

        #[test]
        fn marked_text_equals_the_twin(text in marked()) {
            prop_assert_eq!(tokens(&text), naive(&text));
            prop_assert_eq!(tokens(&text.nfd().collect::<String>()), naive(&text));
            prop_assert_eq!(tokens(&text.nfc().collect::<String>()), naive(&text));
        }

        #[test]
        fn long_text_equals_the_twin(
            parts in prop::collection::vec((prop::sample::select([PIECES, &["か\u{3099}"]].concat()), 1usize..50), 0..120), shift in 0usize..70,
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
