//! The similarity of damaged copies: of two texts in which characters are wrong, or words are lost or have moved.
//!
//! It is the greater of two numbers:
//!
//! - the share of characters that stay when one text is edited to be the other: 1 − edits / bytes of the longer text,
//!   edits being the least number of bytes that are inserted, deleted or replaced (Levenshtein 1966);
//! - the share of words that both have, wherever these stand: 2c / (a + b), if c of a and b words are in both, each as
//!   often as both have it (Dice 1945).
//!
//! A few wrong characters spoil many words, and a few words that moved take many edits; so either number alone refuses
//! copies. Pages of one table or of one template differ in both: in other numbers and names, which are other words.
//! That is where it is more than a Jaccard coefficient of short runs of characters, which knows the two apart badly.
//!
//! Compared are the words as features have them, folded, with a blank between, and of long texts the first 32 KiB.

use crate::hash::{Product, WordHash};
use crate::text::{TokenKind, Tokenizer};
use std::cmp::Ordering;

/// Bytes of a text that are compared.
pub const COMPARED: usize = 1 << 15;

/// The words of a text, four bytes to an item: a blank between, and zeros behind, which no word has.
pub(crate) fn packed(tokenizer: &mut Tokenizer, text: &str) -> Vec<u32> {
    let mut bytes = Vec::new();
    tokenizer.tokens(text, |token| {
        if bytes.len() < COMPARED {
            if !bytes.is_empty() && token.kind != (TokenKind::Unit { joined: true }) {
                bytes.push(b' ');
            }
            token.bytes.add_to(&mut bytes);
        }
    });
    bytes.truncate(COMPARED);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.as_chunks().0.iter().map(|&four| u32::from_ne_bytes(four)).collect()
}

/// The words that were packed.
pub(crate) fn unpacked(packed: &[u32]) -> &[u8] {
    let bytes: &[u8] = bytemuck::cast_slice(packed);
    &bytes[..bytes.len() - bytes.iter().rev().take_while(|&&byte| byte == 0).count()]
}

/// The Jaccard coefficient of runs of five characters where so many characters stay, and wrong ones stand apart.
pub(crate) fn coefficient(similarity: f64) -> f64 {
    let runs = similarity.powi(5);
    runs / (2.0 - runs)
}

/// The similarity of two texts.
pub fn similarity(a: &str, b: &str) -> f32 {
    let mut tokenizer = Tokenizer::default();
    let [a, b] = [a, b].map(|text| packed(&mut tokenizer, text));
    Pattern::new(unpacked(&a)).similarity(unpacked(&b), 0.0)
}

/// A text that others are compared with.
#[derive(Default)]
pub(crate) struct Pattern {
    bytes: usize,
    /// For each 64 bytes and each value of a byte, where it stands among them.
    places: Vec<[u64; 256]>,
    words: Vec<u64>,
}

/// The hashes of a text's words, ascending.
fn words(text: &[u8]) -> Vec<u64> {
    let words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let mut words: Vec<u64> = words.map(Product::word).collect();
    words.sort_unstable();
    words
}

impl Pattern {
    pub fn new(text: &[u8]) -> Self {
        let mut places = vec![[0; 256]; text.len().div_ceil(64)];
        for (at, &byte) in text.iter().enumerate() {
            places[at / 64][usize::from(byte)] |= 1 << (at % 64);
        }
        Self { bytes: text.len(), places, words: words(text) }
    }

    /// The similarity with another text, 0 to 1; 0 if it is below `least`.
    pub fn similarity(&self, other: &[u8], least: f64) -> f32 {
        let longer = self.bytes.max(other.len());
        if longer == 0 {
            return 1.0;
        }
        let by_words = self.by_words(&words(other));
        let least = least.max(by_words);
        let most = ((1.0 - least) * longer as f64).ceil() as usize;
        let by_edits = self.edits(other, most).map_or(0.0, |edits| 1.0 - edits as f64 / longer as f64);
        match by_edits.max(by_words) {
            similarity if similarity >= least => similarity as f32,
            _ => 0.0,
        }
    }

    fn by_words(&self, others: &[u64]) -> f64 {
        let (mut own, mut other, mut shared) = (self.words.iter(), others.iter(), 0);
        let (mut a, mut b) = (own.next(), other.next());
        while let (Some(x), Some(y)) = (a, b) {
            match x.cmp(y) {
                Ordering::Less => a = own.next(),
                Ordering::Greater => b = other.next(),
                Ordering::Equal => {
                    shared += 2;
                    (a, b) = (own.next(), other.next());
                }
            }
        }
        f64::from(shared) / (self.words.len() + others.len()).max(1) as f64
    }

    /// The number of edits that make one text of the other, if they are at most so many.
    ///
    /// The bit-parallel algorithm of Myers (1999) in blocks of 64 rows, as Hyyrö (2003) has it, of which only those that
    /// few enough edits can reach are computed (Ukkonen 1985).
    fn edits(&self, other: &[u8], most: usize) -> Option<usize> {
        let rows = self.bytes;
        if rows.abs_diff(other.len()) > most {
            return None;
        }
        let last = self.places.len();
        // The last row of a block, counted from 1.
        let end = |block: usize| rows.min((block + 1) * 64);
        // Of each block the rows that are one more than the row above, and those that are one less.
        let mut rises = vec![(u64::MAX, 0u64); last];
        let mut reached = end(most / 64).div_ceil(64).min(last);
        let mut edits = reached.checked_sub(1).map_or(0, end);
        if last == 0 {
            return Some(other.len());
        }
        for (column, &byte) in other.iter().enumerate() {
            if reached < last && (column + 1 + most) / 64 >= reached {
                edits += end(reached) - end(reached - 1);
                reached += 1;
            }
            let first = ((column + 1).saturating_sub(most + 1) / 64).min(reached - 1);
            // The row above the first is one more than in the column before; of those that are left out that is the most.
            let (mut more, mut less) = (1, 0);
            for block in first..reached {
                let (up, down) = rises[block];
                let found = self.places[block][usize::from(byte)];
                let vertical = found | down;
                let found = found | less;
                let horizontal = (((found & up).wrapping_add(up)) ^ up) | found;
                let (plus, minus) = (down | !(horizontal | up), up & horizontal);
                let bottom = 1 << ((end(block) - 1) % 64);
                let (below, under) = (u64::from(plus & bottom != 0), u64::from(minus & bottom != 0));
                let (plus, minus) = (plus << 1 | more, minus << 1 | less);
                rises[block] = (minus | !(vertical | plus), plus & vertical);
                (more, less) = (below, under);
            }
            edits = edits + more as usize - less as usize;
        }
        Some(edits).filter(|&edits| edits <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let found = Pattern::new(&a).edits(&b, most);
            prop_assert_eq!(found, Some(expected).filter(|&edits| edits <= most));
        }

        #[test]
        fn any_two_texts_are_as_near_as_the_definition_says(a in "[ab ]{0,200}", b in "[ab ]{0,200}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let pattern = Pattern::new(a);
            prop_assert_eq!(pattern.edits(b, 200), Some(naive(a, b)));
            let similarity = pattern.similarity(b, 0.0);
            prop_assert_eq!(similarity, Pattern::new(b).similarity(a, 0.0));
            prop_assert_eq!(Pattern::new(a).similarity(a, 0.0), 1.0);
            for least in [0.5, 0.9, 0.95] {
                let cut = pattern.similarity(b, least);
                prop_assert_eq!(cut, if f64::from(similarity) >= least { similarity } else { 0.0 });
            }
        }
    }

    #[test]
    fn words_may_move_and_letters_may_be_wrong() {
        let of = |a: &str, b: &str| Pattern::new(a.as_bytes()).similarity(b.as_bytes(), 0.0);
        assert_eq!(of("ships carry grain and wine", "and wine ships carry grain"), 1.0);
        assert_eq!(of("ships carry grain and wine", "sh1ps carry graln and wine"), (1.0 - 2.0 / 26.0_f64) as f32);
        assert_eq!(of("", ""), 1.0);
        assert!(of("ships carry grain", "clocks tell the time") < 0.6);
    }
}
