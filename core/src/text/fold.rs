//! Classes of characters, the forms that they fold to, and the normal form of characters side by side. To fold is to
//! decompose, to remove the case and to compose again. An *entry* holds the class, the form and flags of a code point;
//! [`entry`] says in which bits.

use super::unicode::{IOTA_BELOW, Range, Unicode, hangul, within};
use crate::kernel::fold::{TABLE, entry};
use std::sync::LazyLock;

/// The class of a character: its effect on words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Class {
    /// Parts words.
    #[default]
    Separator = entry::SEPARATOR,
    /// A letter or digit: starts or continues a word.
    Letter = entry::LETTER,
    /// A combining mark: continues the word or unit before it, and starts nothing.
    Mark = entry::MARK,
    /// A character of a script without spaces: a unit of its own.
    Unspaced = entry::UNSPACED,
}

/// Scripts written without spaces between words: Han, Hiragana, Katakana, Bopomofo, Yi; Thai, Lao, Khmer,
/// Myanmar, Tai Le, New Tai Lue, Tai Tham, Tai Viet, Tibetan; Javanese, Balinese, whose lines break between any two
/// syllables.
///
/// Hangul stays with the words, as Korean has spaces. In 168 Korean documents, syllables as units made 2.4 times as
/// many features, a shingle of less than two words instead of five, and 89 pairs at .8 instead of 85. Where a tenth of
/// the spaces was lost, they kept a similarity of 1.0 instead of .56; runs of characters do so, too.
pub(super) const UNSPACED: [Range; 29] = [
    (0x0E01, 0x0E3A),
    (0x0E40, 0x0E4E),
    (0x0E81, 0x0ECE),
    (0x0EDC, 0x0EDF),
    (0x0F40, 0x0FBC),
    (0x1000, 0x103F),
    (0x1050, 0x108F),
    (0x1780, 0x17D3),
    (0x1950, 0x19DF),
    (0x1A20, 0x1A7F),
    (0x1B00, 0x1B4C),
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3021, 0x302F),
    (0x3031, 0x303C),
    (0x3041, 0x30FF),
    (0x3105, 0x312F),
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA000, 0xA48C),
    (0xA980, 0xA9C0),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAADF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x1AFF0, 0x1B16F),
    (0x20000, 0x3FFFF),
];

/// Marks inside the ranges of unspaced scripts: vowel signs, tone marks, viramas, voicing marks.
const UNSPACED_MARKS: [Range; 25] = [
    (0x0E31, 0x0E31),
    (0x0E34, 0x0E3A),
    (0x0E47, 0x0E4E),
    (0x0EB1, 0x0EB1),
    (0x0EB4, 0x0EBC),
    (0x0EC8, 0x0ECE),
    (0x0F71, 0x0FBC),
    (0x102B, 0x103E),
    (0x1056, 0x1059),
    (0x105E, 0x1060),
    (0x1062, 0x1064),
    (0x1067, 0x106D),
    (0x1071, 0x1074),
    (0x1082, 0x108D),
    (0x17B4, 0x17D3),
    (0x19B0, 0x19C0),
    (0x1A55, 0x1A7F),
    (0x1B00, 0x1B04),
    (0x1B34, 0x1B44),
    (0x302A, 0x302F),
    (0x3099, 0x309A),
    (0xA980, 0xA983),
    (0xA9B3, 0xA9C0),
    (0xAAB0, 0xAABF),
    (0xAAC1, 0xAAC1),
];

/// Marks that readers do without: vowel signs and reading marks of Arabic and Hebrew, and the stroke that makes an
/// Arabic word longer. Hamza and madda stay: they make other letters.
pub(super) const OPTIONAL: [Range; 16] = [
    (0x0591, 0x05BD),
    (0x05BF, 0x05BF),
    (0x05C1, 0x05C2),
    (0x05C4, 0x05C5),
    (0x05C7, 0x05C7),
    (0x0610, 0x061A),
    (0x0640, 0x0640),
    (0x064B, 0x0652),
    (0x0656, 0x065F),
    (0x0670, 0x0670),
    (0x06D6, 0x06DC),
    (0x06DF, 0x06E4),
    (0x06E7, 0x06E8),
    (0x06EA, 0x06ED),
    (0x0897, 0x089F),
    (0x08CA, 0x08FF),
];

/// Letters that look like an apostrophe, and that texts exchange with one.
pub(super) const APOSTROPHES: [Range; 4] =
    [(0x02B9, 0x02BF), (0x02EE, 0x02EE), (0x07F4, 0x07F5), (0xA78B, 0xA78C)];

/// Vowels of Thai and Lao that only normalised text writes in two characters.
const VOWELS: [((u32, u32), u32); 2] = [((0x0E4D, 0x0E32), 0x0E33), ((0x0ECD, 0x0EB2), 0x0EB3)];

/// The first combining class of marks around a letter; below are viramas, voicing marks and vowel signs.
const ACCENTS: u8 = 200;

/// The rules for all characters.
#[derive(Debug)]
struct FoldRules {
    /// The entry of each code point of the first two planes.
    table: Box<[u32; TABLE]>,
    unicode: Unicode,
}

static RULES: LazyLock<FoldRules> = LazyLock::new(FoldRules::new);

/// A handle to the rules of all characters, which are made at the first use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes(&'static FoldRules);

impl Default for Classes {
    fn default() -> Self {
        Self(&RULES)
    }
}

impl Classes {
    /// The entry of each code point of the first two planes.
    #[inline(always)]
    pub(super) fn table(self) -> &'static [u32; TABLE] {
        &self.0.table
    }

    /// The entry of a code point.
    #[inline(always)]
    pub(super) fn entry(self, code: u32) -> u32 {
        self.0.table.get(code as usize).copied().unwrap_or_else(|| self.0.rare(code))
    }

    /// True if a character keeps its form and its class, whichever character stands before it.
    #[inline(always)]
    pub(super) fn is_apart(self, c: char) -> bool {
        let entry = self.entry(c as u32);
        entry & (entry::SPECIAL | entry::SECOND) == 0 && Class::of(entry) != Class::Mark
    }

    /// True if a reader does not see a character.
    pub(super) fn is_invisible(self, c: char) -> bool {
        self.0.unicode.fold(c as u32).is_some_and(<[u32]>::is_empty) && !within(&OPTIONAL, c as u32)
    }

    /// The code points of a folded word, decomposed and without the marks above and below letters.
    pub(super) fn without_accents(self, word: &str) -> impl Iterator<Item = u32> {
        let unicode = &self.0.unicode;
        let parts = move |c: char| {
            let parts = unicode.fold(c as u32).map(<[u32]>::to_vec);
            parts.unwrap_or_else(|| vec![c as u32])
        };
        word.chars().flat_map(parts).filter(|&code| unicode.order(code) < ACCENTS)
    }

    /// Replaces `normal` by the normal form of `text`: code points, each with its combining class.
    pub(super) fn normalise(self, text: &str, normal: &mut Vec<(u32, u8)>) {
        self.0.unicode.normalise(text.chars().map(u32::from), normal);
    }
}

impl Class {
    /// The class in an entry.
    #[inline(always)]
    pub(super) fn of(entry: u32) -> Self {
        match entry >> entry::CLASS {
            entry::SEPARATOR => Self::Separator,
            entry::LETTER => Self::Letter,
            entry::MARK => Self::Mark,
            _ => Self::Unspaced,
        }
    }
}

impl FoldRules {
    fn new() -> Self {
        let all = |ranges: &'static [Range], to| {
            let codes = ranges.iter().flat_map(|&(low, high)| low..=high);
            codes.map(move |code| (code, to))
        };
        let apostrophes = all(&APOSTROPHES, Some(u32::from('\'')));
        let mut others: Vec<_> = all(&OPTIONAL, None).chain(apostrophes).collect();
        others.sort_unstable();
        let unicode = Unicode::new(&VOWELS, &others);
        let table = vec![0; TABLE].into_boxed_slice().try_into().expect("as many as the table has");
        let mut rules = Self { table, unicode };
        rules.set_classes();
        rules.set_forms();
        rules.set_pairs();
        rules
    }

    /// Sets the class of each character, and the combining class of each mark.
    fn set_classes(&mut self) {
        let Self { table, unicode } = self;
        (0..).zip(&mut table[..]).for_each(|(code, entry)| *entry = code);
        let mut set = |(low, high): Range, class: Class, order: u8| {
            for (code, entry) in (low..=high).zip(table.iter_mut().skip(low as usize)) {
                *entry = (class as u32) << entry::CLASS | u32::from(order) << entry::ORDER | code;
            }
        };
        unicode.letters.iter().for_each(|&letters| set(letters, Class::Letter, 0));
        for &((low, high), order) in &unicode.marks {
            let marks = (low..=high).filter(|&code| order > 0 || !within(&unicode.letters, code));
            marks.for_each(|code| set((code, code), Class::Mark, order));
        }
        UNSPACED.iter().for_each(|&unspaced| set(unspaced, Class::Unspaced, 0));
        let marks = UNSPACED_MARKS.iter().flat_map(|&(low, high)| low..=high);
        marks.for_each(|code| set((code, code), Class::Mark, unicode.order(code)));
    }

    /// Sets the form of each character that folds to one of its length, and which others are special.
    fn set_forms(&mut self) {
        let Self { table, unicode } = self;
        let mut normal = Vec::new();
        let length = |code: u32| char::from_u32(code).map_or(0, char::len_utf8);
        for (code, folded) in unicode.folds().filter(|&(code, _)| (code as usize) < TABLE) {
            unicode.normalise(std::iter::once(code), &mut normal);
            let entry = &table[code as usize];
            table[code as usize] = match (&normal[..], folded) {
                (&[(form, _)], [.., last])
                    if length(form) == length(code)
                        && Class::of(*entry) == Class::of(table[form as usize]) =>
                {
                    let class = entry >> entry::CLASS << entry::CLASS;
                    class | u32::from(unicode.order(*last)) << entry::ORDER | form
                }
                _ => entry | entry::SPECIAL,
            };
        }
    }

    /// Sets which characters change beside others.
    fn set_pairs(&mut self) {
        use hangul::*;
        let Self { table, unicode } = self;
        let mut set = |code: u32, bit: u32| table[code as usize] |= bit;
        set(IOTA_BELOW, entry::SPECIAL);
        for &((first, second), _) in &unicode.pairs {
            set(first, entry::FIRST);
            // ASCII is folded without the table.
            set(second, if first < 0x80 { entry::SPECIAL } else { entry::SECOND });
        }
        (LEADING..LEADING + LEADING_COUNT).for_each(|code| set(code, entry::FIRST));
        (VOWELS..VOWELS + VOWEL_COUNT).for_each(|code| set(code, entry::SECOND));
        (TRAILING + 1..TRAILING + TRAILING_COUNT).for_each(|code| set(code, entry::SECOND));
        let syllables = SYLLABLES..SYLLABLES + SYLLABLE_COUNT;
        syllables.step_by(TRAILING_COUNT as usize).for_each(|code| set(code, entry::FIRST));
        for (code, folded) in unicode.folds().filter(|&(code, _)| (code as usize) < TABLE) {
            let entry = table[code as usize];
            if entry & entry::SPECIAL == 0 {
                let form = table[(entry & entry::FORM) as usize];
                let begin = table[folded[0] as usize];
                table[code as usize] |= form & entry::FIRST | begin & (entry::SECOND | entry::SPECIAL);
            }
        }
    }

    /// The entry of a code point beyond the table, where all letters are of Han.
    #[cold]
    fn rare(&self, code: u32) -> u32 {
        let form = code & entry::FORM;
        match self.unicode.fold(code) {
            Some(_) => entry::UNSPACED << entry::CLASS | entry::SPECIAL | form,
            None if within(&UNSPACED, code) => entry::UNSPACED << entry::CLASS | form,
            None => form,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icu_properties::CodePointMapData;
    use icu_properties::props::LineBreak;

    #[test]
    fn ranges_are_sorted_and_apart() {
        for ranges in [&UNSPACED[..], &UNSPACED_MARKS, &OPTIONAL, &APOSTROPHES] {
            assert!(ranges.iter().all(|&(low, high)| low <= high));
            assert!(ranges.is_sorted_by(|a, b| a.1 < b.0));
        }
    }

    #[test]
    fn lines_of_javanese_and_balinese_break_between_syllables() {
        let breaks = CodePointMapData::<LineBreak>::new();
        for code in (0x1B05..=0x1B33).chain(0x1B45..=0x1B4C).chain(0xA984..=0xA9B2) {
            assert_eq!(breaks.get32(code), LineBreak::Aksara, "{code:x}");
            assert!(within(&UNSPACED, code) && !within(&UNSPACED_MARKS, code), "{code:x}");
        }
    }

    #[test]
    fn what_is_not_special_keeps_its_length_and_class() {
        let classes = Classes::default();
        let mut special = 0;
        for c in '\0'..=char::MAX {
            let entry = classes.entry(c as u32);
            if entry & entry::SPECIAL != 0 {
                special += 1;
                continue;
            }
            let class = Class::of(entry);
            // What is ordered among marks is a mark.
            assert!(classes.0.unicode.order(c as u32) == 0 || class == Class::Mark, "{c:?}");
            if class != Class::Separator {
                let form = char::from_u32(entry & entry::FORM).unwrap();
                assert_eq!(form.len_utf8(), c.len_utf8(), "{c:?}");
                assert_eq!(Class::of(classes.entry(form as u32)), class, "{c:?}");
            }
            assert!(class != Class::Separator || c as u32 & entry::FORM == entry & entry::FORM, "{c:?}");
        }
        assert!((5_000..12_000).contains(&special), "{special}");
    }

    #[test]
    fn characters_of_every_kind() {
        let classes = Classes::default();
        let special = |class| (class, None);
        for (c, want) in [
            ('a', (Class::Letter, Some('a'))),
            ('Q', (Class::Letter, Some('q'))),
            ('7', (Class::Letter, Some('7'))),
            ('_', (Class::Separator, Some('_'))),
            ('É', (Class::Letter, Some('é'))),
            ('ς', (Class::Letter, Some('σ'))),
            ('ß', special(Class::Letter)),
            ('ı', (Class::Letter, Some('ı'))),
            ('Ж', (Class::Letter, Some('ж'))),
            ('한', (Class::Letter, Some('한'))),
            ('न', (Class::Letter, Some('न'))),
            ('\u{94d}', (Class::Mark, Some('\u{94d}'))),
            ('\u{301}', special(Class::Mark)),
            ('漢', (Class::Unspaced, Some('漢'))),
            ('カ', (Class::Unspaced, Some('カ'))),
            ('ก', (Class::Unspaced, Some('ก'))),
            ('\u{e33}', (Class::Unspaced, Some('\u{e33}'))),
            ('\u{e48}', (Class::Mark, Some('\u{e48}'))),
            ('、', (Class::Separator, Some('、'))),
            ('\u{20000}', (Class::Unspaced, Some('\u{20000}'))),
            ('\u{2f800}', special(Class::Unspaced)),
            ('𝒜', special(Class::Letter)),
            ('\u{10400}', (Class::Letter, Some('\u{10428}'))),
            ('½', (Class::Letter, Some('½'))),
            ('™', (Class::Separator, Some('™'))),
            ('😀', (Class::Separator, Some('😀'))),
        ] {
            let entry = classes.entry(c as u32);
            let form = char::from_u32(entry & entry::FORM).filter(|_| entry & entry::SPECIAL == 0);
            assert_eq!((Class::of(entry), form), want, "{c:?}");
        }
    }
}
