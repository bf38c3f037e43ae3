//! The Unicode data behind the tokenizer: letters, marks, full decompositions with the case folded, and compositions.
//!
//! `unicode.txt` holds it, so that neither the compiler nor a dependency decides what a text's features are. A test
//! compares that file with ICU4X's data, and another writes it:
//!
//! ```text
//! cargo test -p simflip-core --lib text::unicode::tests::write_the_file -- --ignored
//! ```

/// The data, of Unicode 18.0.
const FILE: &str = include_str!("unicode.txt");

/// The first code points of Hangul's syllables and of their parts: leading consonants, vowels and trailing consonants.
/// `_COUNT` says how many of each there are. Section 3.12 of the standard names them so; the absence of a trailing
/// consonant counts as the first.
pub(super) mod hangul {
    pub const SYLLABLES: u32 = 0xac00;
    pub const LEADING: u32 = 0x1100;
    pub const VOWELS: u32 = 0x1161;
    pub const TRAILING: u32 = 0x11a7;
    pub const LEADING_COUNT: u32 = 19;
    pub const VOWEL_COUNT: u32 = 21;
    pub const TRAILING_COUNT: u32 = 28;
    pub const SYLLABLE_COUNT: u32 = LEADING_COUNT * VOWEL_COUNT * TRAILING_COUNT;
}

/// The code point of the iota below: a mark while marks are ordered, and a letter afterwards.
pub(super) const IOTA_BELOW: u32 = 0x0345;
const IOTA: u32 = 0x03b9;

/// An inclusive range of code points.
pub(super) type Range = (u32, u32);

/// The parsed data.
#[derive(Debug, Default)]
pub(super) struct Unicode {
    /// Alphabetic characters and numbers.
    pub letters: Vec<Range>,
    /// Combining marks, each range with its combining class (0 for many).
    pub marks: Vec<(Range, u8)>,
    /// Characters that do not fold to themselves, and where their decompositions stand in `folded`.
    folds: Vec<(u32, u32, u32)>,
    folded: Vec<u32>,
    /// Pairs of characters, each with the character that they compose to. Hangul is left out.
    pub pairs: Vec<((u32, u32), u32)>,
}

impl Unicode {
    /// Reads the file. `pairs` are added to its pairs. `others`, by ascending code point, replace its folds of single
    /// characters: each folds to one character, or to nothing (`None`), also inside of decompositions.
    pub(super) fn new(pairs: &[((u32, u32), u32)], others: &[(u32, Option<u32>)]) -> Self {
        let mut all = Self::default();
        let other = |code| others.binary_search_by_key(&code, |&(code, _)| code).ok().map(|at| others[at].1);
        let lines = FILE.lines().filter_map(|line| line.split_once(' '));
        for (section, items) in lines.filter(|&(section, _)| section != "#") {
            for item in items.split(' ') {
                let (left, right) = item.split_once(':').unwrap_or((item, ""));
                let (low, high) = left.split_once('-').unwrap_or((left, left));
                let (low, high) = (number(low), number(high));
                match section {
                    "letters" => all.letters.push((low, high)),
                    "marks" => all.marks.push(((low, high), number(right) as u8)),
                    "folds" => {
                        let to = right.split('.').filter(|to| !to.is_empty()).map(number);
                        for code in low..=high {
                            let to = to.clone().map(|to| to + code - low);
                            all.add_fold(code, to.filter_map(|to| other(to).unwrap_or(Some(to))));
                        }
                    }
                    _ => {
                        let (first, second) = right.split_once('.').expect("a pair");
                        all.pairs.push(((number(first), number(second)), low));
                    }
                }
            }
        }
        all.folds.retain(|&(code, ..)| other(code).is_none());
        others.iter().for_each(|&(code, to)| all.add_fold(code, to));
        all.folds.sort_unstable();
        all.pairs.extend(pairs);
        all.pairs.sort_unstable();
        all
    }

    fn add_fold(&mut self, code: u32, to: impl IntoIterator<Item = u32>) {
        let from = self.folded.len() as u32;
        self.folded.extend(to);
        self.folds.push((code, from, self.folded.len() as u32));
    }

    /// Every character that does not fold to itself, with what [`fold`](Self::fold) returns for it.
    pub(super) fn folds(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.folds.iter().map(|&(code, from, to)| (code, &self.folded[from as usize..to as usize]))
    }

    /// The full decomposition of a character with the case folded. It is `None` if that is the character itself, and
    /// empty if the character is removed. Syllables of Hangul are left out.
    pub(super) fn fold(&self, code: u32) -> Option<&[u32]> {
        let at = self.folds.binary_search_by_key(&code, |&(code, ..)| code).ok()?;
        let (_, from, to) = self.folds[at];
        Some(&self.folded[from as usize..to as usize])
    }

    /// The combining class of a character: its place in the order of marks. It is 0 for all characters that stay where
    /// they are.
    pub(super) fn order(&self, code: u32) -> u8 {
        let at = self.marks.partition_point(|&((_, high), _)| high < code);
        self.marks.get(at).filter(|&&((low, _), _)| low <= code).map_or(0, |&(_, class)| class)
    }

    /// Replaces `normal` by the normal form of a sequence of code points, each with its combining class: decomposed,
    /// the case folded, the marks ordered, and composed.
    pub(super) fn normalise(&self, codes: impl Iterator<Item = u32>, normal: &mut Vec<(u32, u8)>) {
        normal.clear();
        for code in codes {
            let mut push = |code| normal.push((code, self.order(code)));
            match self.fold(code) {
                Some(folded) => folded.iter().copied().for_each(push),
                None => match jamo(code) {
                    Some((jamo, count)) => jamo[..count].iter().copied().for_each(push),
                    None => push(code),
                },
            }
        }
        // The sort keeps the order of equals.
        normal
            .chunk_by_mut(|a, b| a.1 > 0 && b.1 > 0)
            .for_each(|marks| marks.sort_by_key(|&(_, order)| order));
        let (mut kept, mut starter) = (0, None::<usize>);
        for at in 0..normal.len() {
            let (code, order) = match normal[at] {
                (IOTA_BELOW, _) => (IOTA, 0),
                character => character,
            };
            if let Some(starter) = starter
                && (kept == starter + 1 || normal[kept - 1].1 < order)
                && let Some(composed) = self.compose(normal[starter].0, code)
            {
                normal[starter].0 = composed;
                continue;
            }
            if order == 0 {
                starter = Some(kept);
            }
            normal[kept] = (code, order);
            kept += 1;
        }
        normal.truncate(kept);
    }

    /// The character that two compose to.
    fn compose(&self, first: u32, second: u32) -> Option<u32> {
        use hangul::*;
        let number =
            |code: u32, from: u32, count: u32| Some(code.wrapping_sub(from)).filter(|&at| at < count);
        if let Some(leading) = number(first, LEADING, LEADING_COUNT)
            && let Some(vowel) = number(second, VOWELS, VOWEL_COUNT)
        {
            return Some(SYLLABLES + (leading * VOWEL_COUNT + vowel) * TRAILING_COUNT);
        }
        if let Some(syllable) = number(first, SYLLABLES, SYLLABLE_COUNT)
            && syllable.is_multiple_of(TRAILING_COUNT)
            && let Some(trailing @ 1..) = number(second, TRAILING, TRAILING_COUNT)
        {
            return Some(first + trailing);
        }
        let at = self.pairs.binary_search_by_key(&(first, second), |&(pair, _)| pair).ok()?;
        Some(self.pairs[at].1)
    }
}

/// The leading consonant, the vowel and the trailing consonant of a syllable of Hangul, and whether there are two or
/// three of them.
fn jamo(code: u32) -> Option<([u32; 3], usize)> {
    use hangul::*;
    let at = Some(code.wrapping_sub(SYLLABLES)).filter(|&at| at < SYLLABLE_COUNT)?;
    let (open, trailing) = (at / TRAILING_COUNT, at % TRAILING_COUNT);
    let jamo = [LEADING + open / VOWEL_COUNT, VOWELS + open % VOWEL_COUNT, TRAILING + trailing];
    Some((jamo, if trailing == 0 { 2 } else { 3 }))
}

fn number(text: &str) -> u32 {
    u32::from_str_radix(text, 16).expect("a number of base 16")
}

/// True if a code point is in one of these ranges, which ascend.
pub(super) fn within(ranges: &[Range], code: u32) -> bool {
    let at = ranges.partition_point(|&(_, high)| high < code);
    ranges.get(at).is_some_and(|&(low, _)| low <= code)
}

#[cfg(test)]
mod tests {
    use super::super::fold::UNSPACED;
    use super::*;
    use icu_casemap::CaseMapper;
    use icu_normalizer::DecomposingNormalizerBorrowed;
    use icu_normalizer::properties::{
        CanonicalCombiningClassMapBorrowed, CanonicalCompositionBorrowed, CanonicalDecompositionBorrowed,
        Decomposed,
    };
    use icu_properties::props::{
        Alphabetic, DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup,
    };
    use icu_properties::{CodePointMapData, CodePointSetData};
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Write;

    /// The characters of all planes that have some, but for those of private use.
    fn characters() -> impl Iterator<Item = char> {
        ('\0'..='\u{3ffff}').chain('\u{e0000}'..='\u{effff}')
    }

    fn is_letter(c: char) -> bool {
        let category = CodePointMapData::<GeneralCategory>::new().get(c);
        CodePointSetData::new::<Alphabetic>().contains(c) || GeneralCategoryGroup::Number.contains(category)
    }

    fn is_mark(c: char) -> bool {
        GeneralCategoryGroup::Mark.contains(CodePointMapData::<GeneralCategory>::new().get(c))
    }

    /// The compatibility decomposition with the case folded, repeated until nothing changes. The iota below stays a
    /// mark, so that it is ordered among marks. Fractions stay themselves, since their slash parts words.
    fn folded(c: char) -> String {
        let (nfkd, cases) = (DecomposingNormalizerBorrowed::new_nfkd(), CaseMapper::new());
        let mut folded = c.to_string();
        loop {
            let mut next = String::new();
            for c in nfkd.normalize(&folded).chars() {
                match c as u32 {
                    IOTA_BELOW => next.push(c),
                    _ => next.push_str(&cases.fold_string(c.encode_utf8(&mut [0; 4]))),
                }
            }
            if next == folded {
                return if folded.contains('\u{2044}') { c.into() } else { folded };
            }
            folded = next;
        }
    }

    /// Runs of code points that follow one another, each with the value of its first; `goes_on` compares that with
    /// the value of another, so many behind it.
    fn runs<T>(
        items: impl Iterator<Item = (u32, T)>,
        goes_on: impl Fn(u32, &T, &T) -> bool,
    ) -> Vec<(Range, T)> {
        let mut runs: Vec<(Range, T)> = Vec::new();
        for (code, value) in items {
            match runs.last_mut() {
                Some(((low, high), first)) if *high + 1 == code && goes_on(code - *low, first, &value) => {
                    *high = code;
                }
                _ => runs.push(((code, code), value)),
            }
        }
        runs
    }

    /// The file that ICU's data make.
    fn made() -> String {
        let range = |(low, high): Range| match low == high {
            true => format!("{low:x}"),
            false => format!("{low:x}-{high:x}"),
        };
        let hex = |codes: &[u32]| codes.iter().map(|code| format!("{code:x}")).collect::<Vec<_>>().join(".");
        let letters: Vec<char> = characters().filter(|&c| is_letter(c)).collect();
        let marks: Vec<char> = characters().filter(|&c| is_mark(c)).collect();
        let invisible = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        let invisible = characters().filter(|&c| invisible.contains(c)).map(|c| (c, String::new()));
        // A character that is not assigned folds to itself.
        let category = CodePointMapData::<GeneralCategory>::new();
        let unspaced = UNSPACED.iter().flat_map(|&(low, high)| low..=high).filter_map(char::from_u32);
        let unspaced = unspaced.filter(|&c| category.get(c) != GeneralCategory::Unassigned);
        let all = letters.iter().chain(&marks).copied().chain(unspaced);
        let known: BTreeSet<char> = all.filter(|&c| jamo(c as u32).is_none()).collect();
        // Behind the others, so that nothing is left of those that nobody sees.
        let folded: BTreeMap<char, String> = known.iter().map(|&c| (c, folded(c))).chain(invisible).collect();
        let letters = runs(letters.iter().map(|&c| (c as u32, ())), |_, (), ()| true);
        let class = CanonicalCombiningClassMapBorrowed::new();
        let marks =
            runs(marks.iter().map(|&c| (c as u32, class.get_u8(c))), |_, first, class| first == class);
        let folds = folded.iter().filter_map(|(&c, folded)| {
            let codes: Vec<u32> = folded.chars().map(u32::from).collect();
            (codes != [u32::from(c)]).then_some((c as u32, codes))
        });
        let folds = runs(folds, |at, first, next| match (&first[..], &next[..]) {
            ([], []) => true,
            (&[first], &[next]) => first + at == next,
            _ => false,
        });
        let (parts, composition) =
            (CanonicalDecompositionBorrowed::new(), CanonicalCompositionBorrowed::new());
        let nfd = DecomposingNormalizerBorrowed::new_nfd();
        // An invisible character is in no pair.
        let pairs = known.iter().filter_map(|&c| match parts.decompose(c) {
            Decomposed::Expansion(first, second)
                if composition.compose(first, second) == Some(c)
                    && folded[&c] == nfd.normalize(c.encode_utf8(&mut [0; 4]))
                    && second as u32 != IOTA_BELOW =>
            {
                Some(format!("{:x}:{}", c as u32, hex(&[first as u32, second as u32])))
            }
            _ => None,
        });
        let mut file = String::from(
            "# Unicode 18.0, written by the test write_the_file of unicode.rs from ICU4X. Numbers are of base 16.\n\
             # letters: alphabetic characters and numbers. marks: combining marks and their combining class.\n\
             # folds: the compatibility decomposition with the case folded, of letters, marks and scripts without spaces;\n\
             # nothing for invisible characters (Default_Ignorable_Code_Point). In a range, each folds to one more.\n\
             # pairs: compositions of two characters that fold to themselves.\n",
        );
        let mut section = |name: &str, items: &mut dyn Iterator<Item = String>| {
            let mut line = String::from(name);
            for item in items {
                if line.len() + item.len() >= 119 {
                    writeln!(file, "{line}").unwrap();
                    line = name.into();
                }
                write!(line, " {item}").unwrap();
            }
            writeln!(file, "{line}").unwrap();
        };
        section("letters", &mut letters.iter().map(|&(letters, ())| range(letters)));
        section("marks", &mut marks.iter().map(|&(marks, class)| format!("{}:{class:x}", range(marks))));
        section("folds", &mut folds.iter().map(|(from, to)| format!("{}:{}", range(*from), hex(to))));
        section("pairs", &mut { pairs });
        file
    }

    #[test]
    fn the_file_is_what_icu_makes() {
        assert!(made() == FILE, "other data make another tokenizer: see the comment of this module");
    }

    #[test]
    #[ignore = "writes the file"]
    fn write_the_file() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/text/unicode.txt"), made()).unwrap();
    }
}
