//! Texts of made-up documents, each of about 1 kB, by their numbers.

use simflip::hash::SplitMix64;

/// Words of a document.
const WORDS: usize = 160;
/// Words there are.
const VOCABULARY: u64 = 60_000;

/// The words of all documents.
pub struct Vocabulary(Vec<String>);

impl Vocabulary {
    /// The same ones each time.
    pub fn new() -> Self {
        let mut draws = SplitMix64::new(7);
        let word = |_| {
            let length = 2 + draws.below(8);
            (0..length).map(|_| char::from(b'a' + draws.below(26) as u8)).collect()
        };
        Self((0..VOCABULARY).map(word).collect())
    }

    /// Appends the text of a document: that of its family, with up to so many words of its own in place of others.
    pub fn write(&self, document: u64, family: u64, own: u64, text: &mut String) {
        let (mut draws, mut edits) = (SplitMix64::new(family ^ 0xf11b), SplitMix64::new(document ^ 0x51de));
        // Few words make most of a text.
        let word = |draws: &mut SplitMix64| {
            let share = draws.unit();
            (share * share * share * VOCABULARY as f64) as usize
        };
        let mut words: [usize; WORDS] = std::array::from_fn(|_| word(&mut draws));
        for _ in 0..own {
            words[edits.below(WORDS as u64) as usize] = word(&mut edits);
        }
        for word in words {
            text.push_str(&self.0[word]);
            text.push(' ');
        }
    }
}
