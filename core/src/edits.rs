//! The similarity of damaged copies: of two texts in which characters are wrong, or words are lost or have moved.
//!
//! It is the greater of two numbers:
//!
//! - the share of characters that stay when one text is edited to be the other: 1 − edits / bytes of the longer text,
//!   edits being the least number of bytes that are inserted, deleted or replaced (Levenshtein 1966);
//! - the share of words that both have, wherever these stand: 2c / (a + b), if c of a and b words are in both, each as
//!   often as both have it (Dice 1945).
//!
//! Either number alone refuses some copies: a few wrong characters spoil many words, and a few words that moved take
//! many edits. Documents of one table differ by both numbers, because other numbers and names are other words. A
//! Jaccard coefficient of short runs of characters does not tell such documents from damaged copies.
//!
//! The texts are the words of features, folded (without case), with a blank between. Long texts are compared by their
//! first 32 KiB.

use crate::hash::{Product, WordHash};
use crate::lists::{shared_of, sorted_hashes};
use crate::text::{TokenKind, Tokenizer};
use std::sync::OnceLock;

/// The most bytes of a text's folded words that are compared.
pub const COMPARED: usize = 1 << 15;

/// The Jaccard similarity of the character 5-grams of two texts whose similarity by edits is `similarity`, if the edits
/// stand apart. Sketches estimate it, so it tells which texts need not be compared by edits.
pub(crate) fn coefficient(similarity: f64) -> f64 {
    let runs = similarity.powi(5);
    runs / (2.0 - runs)
}

/// The similarity of two texts, 0 to 1, as the module defines it; 1 if neither has a word.
pub fn similarity(a: &str, b: &str) -> f32 {
    let mut tokenizer = Tokenizer::default();
    let [a, b] = [a, b].map(|text| packed(&mut tokenizer, text));
    Pattern::new(Words::of(&a)).similarity(Words::of(&b), 0.0)
}

/// The folded words of a text, as they are kept with its sketch: their number, a 32-bit hash of each, ascending, and
/// the words themselves. The words are UTF-8, four bytes to an item, with a blank between and zeros behind, which no
/// word has.
pub(crate) fn packed(tokenizer: &mut Tokenizer, text: &str) -> Vec<u32> {
    let mut bytes = Vec::new();
    tokenizer.tokens(text, |token| {
        if bytes.len() < COMPARED {
            if !bytes.is_empty() && token.kind != (TokenKind::Unit { joined: true }) {
                bytes.push(b' ');
            }
            token.bytes.with(|own| bytes.extend_from_slice(own));
        }
    });
    bytes.truncate(COMPARED);
    let words = bytes.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let mut packed = sorted_hashes(&words.map(Product::word).collect::<Vec<u64>>());
    packed.insert(0, packed.len() as u32);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    packed.extend(bytes.as_chunks().0.iter().map(|&four| u32::from_ne_bytes(four)));
    packed
}

/// The words of a text, borrowed from its [`packed`] form.
#[derive(Clone, Copy, Default)]
pub(crate) struct Words<'a> {
    /// The hash of each, ascending.
    hashes: &'a [u32],
    /// The words with blanks between.
    text: &'a [u8],
}

impl<'a> Words<'a> {
    /// Reads words that were [`packed`]; none from a list that is empty or too short.
    pub fn of(packed: &'a [u32]) -> Self {
        let Some((&number, rest)) = packed.split_first() else { return Self::default() };
        let Some((hashes, text)) = rest.split_at_checked(number as usize) else { return Self::default() };
        let text: &[u8] = bytemuck::cast_slice(text);
        let zeros = text.iter().rev().take_while(|&&byte| byte == 0).count();
        Self { hashes, text: &text[..text.len() - zeros] }
    }
}

/// The words of a text that many others are compared with.
#[derive(Default)]
pub(crate) struct Pattern {
    hashes: Vec<u32>,
    text: Vec<u8>,
    /// A bit for each of 64 bytes, by the value of the byte: one table for each 64 bytes of the text.
    places: OnceLock<Vec<[u64; 256]>>,
}

impl Pattern {
    /// Copies the words.
    pub fn new(Words { hashes, text }: Words<'_>) -> Self {
        Self { hashes: hashes.to_vec(), text: text.to_vec(), places: OnceLock::new() }
    }

    /// The similarity with another text, 0 to 1, as the module defines it; 0 if it is below `least`.
    pub fn similarity(&self, other: Words<'_>, least: f64) -> f32 {
        let longer = self.text.len().max(other.text.len());
        if longer == 0 {
            return 1.0;
        }
        let by_words = self.by_words(other.hashes);
        let least = least.max(by_words);
        let most = ((1.0 - least) * longer as f64).ceil() as usize;
        let by_edits = self.edits(other.text, most).map_or(0.0, |edits| 1.0 - edits as f64 / longer as f64);
        match by_edits.max(by_words) {
            similarity if similarity >= least => similarity as f32,
            _ => 0.0,
        }
    }

    fn by_words(&self, others: &[u32]) -> f64 {
        let shared = shared_of(&self.hashes, others, 0).unwrap_or(0);
        (2 * shared) as f64 / (self.hashes.len() + others.len()).max(1) as f64
    }

    fn places(&self) -> &[[u64; 256]] {
        self.places.get_or_init(|| {
            let mut places = vec![[0; 256]; self.text.len().div_ceil(64)];
            for (at, &byte) in self.text.iter().enumerate() {
                places[at / 64][usize::from(byte)] |= 1 << (at % 64);
            }
            places
        })
    }

    /// The number of edits, in bytes, that make one text of the other; none if there are more than `most`.
    ///
    /// This is the bit-parallel algorithm of Myers (1999) in blocks of 64 rows (Hyyrö 2003). It computes only the
    /// blocks that a path of so few edits can reach (Ukkonen 1985).
    fn edits(&self, other: &[u8], most: usize) -> Option<usize> {
        /// The number of columns after which it looks if there are too many edits already.
        const LOOK: usize = 64;
        let (rows, columns) = (self.text.len(), other.len());
        if rows.abs_diff(columns) > most {
            return None;
        }
        if rows == 0 {
            return Some(columns);
        }
        // A path goes so many rows beyond its column, and stays so many behind it. A path that strays farther needs too
        // many edits to reach the last row.
        let beyond = (most + rows - columns) / 2;
        let before = (most + columns - rows) / 2;
        let places = self.places();
        // The last row of a block, counted from 1.
        let end = |block: usize| rows.min((block + 1) * 64);
        // Each block has a bit for each row that is one more than the row above, and one for each that is one less.
        let mut rises = vec![(u64::MAX, 0u64); places.len()];
        let mut reached = (beyond / 64 + 1).min(places.len());
        let mut edits = end(reached - 1);
        for (column, &byte) in other.iter().enumerate() {
            if reached < places.len() && (column + 1 + beyond) / 64 >= reached {
                edits += end(reached) - end(reached - 1);
                reached += 1;
            }
            let first = (column.saturating_sub(before) / 64).min(reached - 1);
            // A row that is left out grows by one at most; it is taken to grow by one.
            let (mut more, mut less) = (1, 0);
            let blocks = rises.iter_mut().zip(places).enumerate();
            for (block, (rises, places)) in blocks.take(reached).skip(first) {
                let ((up, down), found) = (*rises, places[usize::from(byte)]);
                let vertical = found | down;
                let found = found | less;
                let horizontal = (((found & up).wrapping_add(up)) ^ up) | found;
                let (plus, minus) = (down | !(horizontal | up), up & horizontal);
                let bottom = 1 << ((end(block) - 1) % 64);
                let (below, under) = (u64::from(plus & bottom != 0), u64::from(minus & bottom != 0));
                let (plus, minus) = (plus << 1 | more, minus << 1 | less);
                *rises = (minus | !(vertical | plus), plus & vertical);
                (more, less) = (below, under);
            }
            edits = edits + more as usize - less as usize;
            if column % LOOK == LOOK - 1 {
                // A row is less than the last row of its block by no more than the block rises.
                let (mut last, mut least) = (edits as i64, i64::MAX);
                for &(up, down) in rises[first..reached].iter().rev() {
                    let (up, down) = (i64::from(up.count_ones()), i64::from(down.count_ones()));
                    least = least.min(last - up);
                    last += down - up;
                }
                if least > most as i64 {
                    return None;
                }
            }
        }
        Some(edits).filter(|&edits| edits <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A pattern of any bytes.
    fn plain(text: &[u8]) -> Pattern {
        Pattern::new(Words { hashes: &[], text })
    }

    /// The definition.
    fn naive(a: &[u8], b: &[u8]) -> usize {
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut corner = row[0];
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let above = row[j + 1];
                row[j + 1] = (corner + usize::from(x != y)).min(row[j] + 1).min(above + 1);
                corner = above;
            }
        }
        row[b.len()]
    }

    /// A text and what became of it: a byte here and there is another, gone or new, and a stretch has moved.
    fn damaged() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let text = prop::collection::vec(b'a'..b'e', 0..400);
        let changes = prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, b'a'..b'e'), 0..30);
        (text, changes).prop_map(|(text, changes)| {
            let mut other = text.clone();
            for (at, kind, byte) in changes {
                let at = at.index(other.len() + 1);
                match kind {
                    0 => other.insert(at, byte),
                    1 if at < other.len() => drop(other.remove(at)),
                    2 if at < other.len() => other[at] = byte,
                    _ => other.rotate_left(at.min(3)),
                }
            }
            (text, other)
        })
    }

    proptest! {
        #[test]
        fn edits_are_those_of_the_definition((a, b) in damaged(), most in 0usize..450) {
            let expected = naive(&a, &b);
            let found = plain(&a).edits(&b, most);
            prop_assert_eq!(found, Some(expected).filter(|&edits| edits <= most));
        }

        #[test]
        fn any_two_texts_are_as_near_as_the_definition_says(a in "[ab ]{0,200}", b in "[ab ]{0,200}") {
            prop_assert_eq!(plain(a.as_bytes()).edits(b.as_bytes(), 200), Some(naive(a.as_bytes(), b.as_bytes())));
            let [a, b] = [a, b].map(|text| packed(&mut Tokenizer::default(), &text));
            let (a, b) = (Words::of(&a), Words::of(&b));
            let pattern = Pattern::new(a);
            let edits = 1.0 - naive(a.text, b.text) as f64 / a.text.len().max(b.text.len()).max(1) as f64;
            let similarity = pattern.similarity(b, 0.0);
            prop_assert!(f64::from(similarity) + 1e-6 >= edits);
            prop_assert_eq!(similarity, Pattern::new(b).similarity(a, 0.0));
            prop_assert_eq!(pattern.similarity(a, 0.0), 1.0);
            let mut left = b.hashes.to_vec();
            let is_shared = |hash: &&u32| left.iter().position(|other| other == *hash).map(|at| left.swap_remove(at)).is_some();
            let shared = 2 * a.hashes.iter().filter(is_shared).count();
            prop_assert_eq!(pattern.by_words(b.hashes), shared as f64 / (a.hashes.len() + b.hashes.len()).max(1) as f64);
            for least in [0.5, 0.9, 0.95] {
                let cut = pattern.similarity(b, least);
                prop_assert_eq!(cut, if f64::from(similarity) >= least { similarity } else { 0.0 });
            }
        }
    }

    #[test]
    fn words_may_move_and_letters_may_be_wrong() {
        assert_eq!(similarity("ships carry grain and wine", "and wine ships carry grain"), 1.0);
        assert_eq!(
            similarity("ships carry grain and wine", "sh1ps carry graln and wine"),
            (1.0 - 2.0 / 26.0_f64) as f32
        );
        assert_eq!(similarity("", ""), 1.0);
        assert!(similarity("ships carry grain", "clocks tell the time") < 0.6);
    }
}
