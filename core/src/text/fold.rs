//! What a character is to the tokeniser, and what it folds to.

use crate::kernel::fold::{TABLE, class};
use std::sync::LazyLock;

/// What a character does to words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Class {
    /// Parts words.
    #[default]
    Separator = class::SEPARATOR,
    /// A letter or digit: starts or continues a word.
    Letter = class::LETTER,
    /// A combining mark or joiner: continues what stands before it, and starts nothing.
    Mark = class::MARK,
    /// A character of a script without spaces: a unit of its own.
    Unspaced = class::UNSPACED,
}

/// Scripts written without spaces between words: Han, Hiragana, Katakana, Bopomofo, Yi; Thai, Lao, Khmer,
/// Myanmar, Tai Le, New Tai Lue, Tai Tham, Tai Viet, Tibetan. Inclusive ranges of code points.
const UNSPACED: [(u32, u32); 27] = [
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
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAADF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x1AFF0, 0x1B16F),
    (0x20000, 0x3FFFF),
];

/// Combining marks and joiners that `char::is_alphanumeric` leaves out although they stand inside words:
/// accents of decomposed text, viramas and tone marks of Indic and South-East Asian scripts, points of
/// Hebrew and Arabic, joiners.
const MARKS: [(u32, u32); 38] = [
    (0x00AD, 0x00AD),
    (0x0300, 0x036F),
    (0x0483, 0x0487),
    (0x0591, 0x05BD),
    (0x05BF, 0x05BF),
    (0x05C1, 0x05C2),
    (0x05C4, 0x05C5),
    (0x05C7, 0x05C7),
    (0x0610, 0x061A),
    (0x0640, 0x0640),
    (0x064B, 0x065F),
    (0x0670, 0x0670),
    (0x06D6, 0x06DC),
    (0x06DF, 0x06E4),
    (0x06E7, 0x06E8),
    (0x06EA, 0x06ED),
    (0x0711, 0x0711),
    (0x0730, 0x074A),
    (0x07A6, 0x07B0),
    (0x07EB, 0x07F3),
    (0x093C, 0x093C),
    (0x094D, 0x094D),
    (0x09BC, 0x09BC),
    (0x09CD, 0x09CD),
    (0x0A3C, 0x0A3C),
    (0x0A4D, 0x0A4D),
    (0x0ABC, 0x0ABC),
    (0x0ACD, 0x0ACD),
    (0x0B3C, 0x0B3C),
    (0x0B4D, 0x0B4D),
    (0x0BCD, 0x0BCD),
    (0x0C4D, 0x0C4D),
    (0x0CBC, 0x0CCD),
    (0x0D4D, 0x0D4D),
    (0x0DCA, 0x0DCA),
    (0x1DC0, 0x1DFF),
    (0x200C, 0x200D),
    (0xFE00, 0xFE0F),
];

/// Marks inside the ranges of unspaced scripts: vowel signs, tone marks, viramas, voicing marks.
const UNSPACED_MARKS: [(u32, u32); 20] = [
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
    (0x302A, 0x302F),
    (0x3099, 0x309A),
    (0xAAB0, 0xAABF),
];

fn within(ranges: &[(u32, u32)], c: u32) -> bool {
    ranges
        .binary_search_by(|&(low, high)| {
            if high < c {
                std::cmp::Ordering::Less
            } else if low > c {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        })
        .is_ok()
}

/// Simple case folding: the lower case of the upper case, where both are one character. So Σ, σ and ς are one
/// letter, and ſ is s; ß and İ stay as they are, and the dotless ı is not made an i.
fn fold(c: char) -> char {
    fn single(mut chars: impl Iterator<Item = char>) -> Option<char> {
        chars.next().filter(|_| chars.next().is_none())
    }
    if c == 'ı' {
        return c;
    }
    let upper = single(c.to_uppercase()).unwrap_or(c);
    single(upper.to_lowercase()).unwrap_or(c)
}

/// Class and folded form, worked out from Unicode's properties.
fn classify_slowly(c: char) -> (Class, char) {
    let code = c as u32;
    if within(&UNSPACED, code) {
        let class = if within(&UNSPACED_MARKS, code) { Class::Mark } else { Class::Unspaced };
        return (class, c);
    }
    if within(&MARKS, code) {
        return (Class::Mark, c);
    }
    if c.is_alphanumeric() { (Class::Letter, fold(c)) } else { (Class::Separator, c) }
}

/// For each code point of the basic plane, its class in the top two bits and its folded form in the rest. The rest of
/// the planes is rare in text.
static CLASSES: LazyLock<Box<[u32; TABLE]>> = LazyLock::new(|| {
    let mut entries = vec![0; TABLE].into_boxed_slice();
    for (code, entry) in (0..).zip(&mut entries) {
        if let Some(c) = char::from_u32(code) {
            let (class, folded) = classify_slowly(c);
            *entry = (class as u32) << 30 | folded as u32;
        }
    }
    entries.try_into().expect("as many as the table has")
});

/// The classification of every character; a handle to the table, so that the table is found once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes(pub(super) &'static [u32; TABLE]);

impl Default for Classes {
    fn default() -> Self {
        Self(&CLASSES)
    }
}

impl Classes {
    /// The class of a code point, and the code point that it folds to.
    #[inline(always)]
    pub(super) fn of_code(self, code: u32) -> (Class, u32) {
        match self.0.get(code as usize) {
            Some(&entry) => {
                let class = match entry >> 30 {
                    class::SEPARATOR => Class::Separator,
                    class::LETTER => Class::Letter,
                    class::MARK => Class::Mark,
                    _ => Class::Unspaced,
                };
                (class, entry & 0x3fff_ffff)
            }
            None => of_rare(code),
        }
    }
}

#[cold]
fn of_rare(code: u32) -> (Class, u32) {
    let (class, folded) = char::from_u32(code).map_or((Class::Separator, '\0'), classify_slowly);
    (class, folded as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Classes {
        /// The class of a character and what it folds to.
        pub(in super::super) fn of(self, c: char) -> (Class, char) {
            let (class, folded) = self.of_code(c as u32);
            (class, char::from_u32(folded).unwrap())
        }
    }

    #[test]
    fn ranges_are_sorted_and_apart() {
        for ranges in [&UNSPACED[..], &MARKS, &UNSPACED_MARKS] {
            assert!(ranges.iter().all(|&(low, high)| low <= high));
            assert!(ranges.is_sorted_by(|a, b| a.1 < b.0));
        }
    }

    #[test]
    fn the_table_says_what_the_rules_say() {
        let classes = Classes::default();
        for c in '\0'..=char::MAX {
            assert_eq!(classes.of(c), classify_slowly(c), "{c:?}");
        }
    }

    #[test]
    fn characters_of_every_kind() {
        let classes = Classes::default();
        for (c, want) in [
            ('a', (Class::Letter, 'a')),
            ('Q', (Class::Letter, 'q')),
            ('7', (Class::Letter, '7')),
            ('_', (Class::Separator, '_')),
            ('É', (Class::Letter, 'é')),
            ('ς', (Class::Letter, 'σ')),
            ('ß', (Class::Letter, 'ß')),
            ('ı', (Class::Letter, 'ı')),
            ('Ж', (Class::Letter, 'ж')),
            ('한', (Class::Letter, '한')),
            ('न', (Class::Letter, 'न')),
            ('\u{94d}', (Class::Mark, '\u{94d}')),
            ('\u{301}', (Class::Mark, '\u{301}')),
            ('漢', (Class::Unspaced, '漢')),
            ('カ', (Class::Unspaced, 'カ')),
            ('ก', (Class::Unspaced, 'ก')),
            ('\u{e48}', (Class::Mark, '\u{e48}')),
            ('、', (Class::Separator, '、')),
            ('\u{20000}', (Class::Unspaced, '\u{20000}')),
            ('𝒜', (Class::Letter, '𝒜')),
            ('😀', (Class::Separator, '😀')),
        ] {
            assert_eq!(classes.of(c), want, "{c:?}");
        }
    }
}
