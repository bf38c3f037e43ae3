//! Finds items of a benchmark, such as questions, that stand in longer documents, complete or nearly so.
//!
//! The items are held in memory by their n-grams, and documents are streamed past them. An item is in a document if a
//! window of the document, half as long again as the item and 8 words more, has enough of the item's n-grams. Which
//! n-grams count:
//!
//! - Those that many items have do not: they are the benchmark's instructions, and not its questions.
//! - Nor do those that many documents have, which are set phrases and licences. How many have each is known when all
//!   documents have been read, so that [`Items::share`] decides then.
//!
//! An item that has hardly any other n-grams is compared by all of them.
//!
//! One changed word takes half of the n-grams of an item of eight words. So an item below [`FULL`] words needs more of
//! its n-grams than a long one, unless its words are there as well, in order, all but one in ten.

use crate::error::{Error, Result, check_share};
use crate::hash::FeatureHash;
use crate::lists::{HashTable, feature_hash};
use crate::text::{Extraction, FeatureExtractor, FeatureKind, MAX_SHINGLE};
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// The rules by which an item counts as found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The number of words of an n-gram.
    pub ngram: usize,
    /// Share of an item's n-grams that a document must have, above 0 and at most 1. Of items below [`FULL`] words it
    /// must have more, the fewer words they have, unless nearly all words of the item are there in order. An item of
    /// 8 words needs half of the rest besides.
    pub share: f64,
    /// The fewest words of an item that is looked for.
    pub min_words: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self { ngram: 3, share: 0.5, min_words: 8 }
    }
}

/// The number of words from which on an item needs no more than [`Rules::share`] of its n-grams.
pub const FULL: usize = 16;

/// The fewest n-grams of an item that count; an item with fewer is compared by all its n-grams.
const LEAST: usize = 4;

impl Rules {
    /// Checks the rules.
    ///
    /// # Errors
    /// [`Error::Parameter`] for the first rule that has no meaning.
    pub fn check(&self) -> Result<()> {
        if !(1..=MAX_SHINGLE).contains(&self.ngram) {
            return Err(Error::parameter("ngram", self.ngram, format!("1 to {MAX_SHINGLE} words")));
        }
        check_share("share", self.share)?;
        if self.min_words < self.ngram {
            let expected = format!("at least {}, the words of an n-gram", self.ngram);
            return Err(Error::parameter("min-words", self.min_words, expected));
        }
        Ok(())
    }

    /// The share of the n-grams of an item of `words` words that a document must have. It is less if nearly all words
    /// of the item are there in order.
    fn needed(&self, words: usize, in_order: bool) -> f64 {
        let missing = if in_order { 0 } else { FULL.saturating_sub(words) };
        let short = missing as f64 / FULL as f64;
        self.share + (1.0 - self.share) * short
    }
}

/// An extractor of n-grams of `words` words. With one, these are single words: [`FeatureKind::Words`] would add pairs
/// of neighbouring Chinese characters.
fn extractor(words: usize) -> FeatureExtractor {
    FeatureExtractor::new(Extraction { kind: FeatureKind::Shingles(words), hash: FeatureHash::Product })
}

/// True if a stretch of a document, no longer than a short item and one word, has all but a tenth of the item's words
/// in order: all but one of 8 to 14. The stretch holds these places of the document.
fn is_in_order(item: &[u32], document: &[u32], places: &Range<u32>) -> bool {
    let (length, changed) = (item.len() + 1, (item.len() + 5) / 10);
    let [start, end] = [places.start, places.end].map(|place| place as usize);
    let mut common = Vec::new();
    (end.saturating_sub(length)..=start).any(|from| {
        // The longest common subsequence, a row for each word of the document.
        common.clear();
        common.resize(length, 0);
        for word in &document[from..document.len().min(from + length)] {
            let mut before = 0;
            for (at, own) in item.iter().enumerate() {
                let above = common[at + 1];
                common[at + 1] = if own == word { before + 1 } else { above.max(common[at]) };
                before = above;
            }
        }
        common[item.len()] + changed >= item.len()
    })
}

/// The items of benchmarks, ready to be looked for.
///
/// ```
/// use simflip_core::contamination::{Finder, Items, Rules};
///
/// let question = "Which river flows through the town where the second of the old bridges was built?";
/// let items = Items::new(&[question], Rules::default())?;
/// let document = format!("Quiz night. {question} Answers are on the back of the sheet.");
/// let found = Finder::new(&items).find(&document);
/// assert_eq!(&document[found[0].bytes.clone()], question.trim_end_matches('?'));
/// assert_eq!(items.share(&found[0], 1), Some(1.0));
/// # Ok::<(), simflip_core::Error>(())
/// ```
pub struct Items {
    rules: Rules,
    /// The n-grams that are looked for, by their numbers.
    table: HashTable,
    /// The number of documents that have each, at the place of its first entry in the table.
    documents: Vec<AtomicU32>,
    /// The item of each n-gram.
    item: Vec<u32>,
    /// The place in the table of each n-gram.
    place: Vec<u32>,
    /// Where the n-grams of each item begin; those of one item lie together.
    starts: Vec<u32>,
    /// Words of each item.
    words: Vec<u32>,
    /// The hashes of the words of each short item.
    short: HashMap<u32, Vec<u32>>,
}

impl Items {
    /// Prepares items by their texts. An item is known by its place in `texts`, from 0.
    ///
    /// # Errors
    /// [`Error::Parameter`] for rules that have no meaning, and for 2³² n-grams or more.
    pub fn new<T: AsRef<str> + Sync>(texts: &[T], rules: Rules) -> Result<Self> {
        rules.check()?;
        let of = |[of_ngrams, of_words]: &mut [FeatureExtractor; 2], text: &T| {
            let (mut hashes, mut ngrams, mut words) = (Vec::new(), 0, 0);
            of_ngrams.extract(text.as_ref(), |feature| {
                ngrams += 1;
                hashes.push(feature_hash(feature));
            });
            hashes.sort_unstable();
            hashes.dedup();
            match ngrams {
                // A text of fewer words than an n-gram makes one n-gram as well.
                0 | 1 => of_words.extract(text.as_ref(), |_| words += 1),
                _ => words = ngrams + rules.ngram - 1,
            }
            (hashes, words)
        };
        let lists: Vec<(Vec<u32>, usize)> =
            texts.par_iter().map_init(|| [rules.ngram, 1].map(extractor), of).collect();
        let is_asked = |words: usize| words >= rules.min_words;
        let mut having: HashMap<u32, u32> = HashMap::new();
        for hash in lists.iter().filter(|(_, words)| is_asked(*words)).flat_map(|(hashes, _)| hashes) {
            *having.entry(*hash).or_default() += 1;
        }
        let common = (texts.len() / 100).clamp(4, 64) as u32;
        let (mut entries, mut item, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for (number, (hashes, words)) in (0u32..).zip(&lists) {
            if is_asked(*words) {
                let own = hashes.iter().filter(|hash| having[*hash] <= common).count();
                let is_own = |hash: &&u32| own < LEAST || having[*hash] <= common;
                for &hash in hashes.iter().filter(is_own) {
                    let ngram = u32::try_from(item.len());
                    let ngram = ngram
                        .map_err(|_| Error::parameter("items", texts.len(), "fewer n-grams than 2^32"))?;
                    entries.push((hash, ngram));
                    item.push(number);
                }
            }
            starts.push(item.len() as u32);
        }
        let table = HashTable::new(entries);
        let mut place = vec![0; item.len()];
        for (first, ngrams) in table.runs() {
            ngrams.for_each(|ngram| place[ngram as usize] = first as u32);
        }
        let documents = item.iter().map(|_| AtomicU32::new(0)).collect();
        let words: Vec<u32> = lists.iter().map(|&(_, words)| words as u32).collect();
        let mut extractor = extractor(1);
        let is_short = |words: u32| is_asked(words as usize) && (words as usize) < FULL;
        let numbered = (0u32..).zip(texts).filter(|(number, _)| is_short(words[*number as usize]));
        let short = numbered.map(|(number, text)| {
            let mut words = Vec::new();
            extractor.extract(text.as_ref(), |word| words.push(feature_hash(word)));
            (number, words)
        });
        let short = short.collect();
        Ok(Self { rules, table, documents, item, place, starts, words, short })
    }

    /// The rules that the items were prepared with.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Number of items, those that are too short to be looked for among them.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True if there is no item.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The number of words of an item. Fewer words than [`Rules::ngram`] count as that many, but none as 0.
    pub fn words(&self, item: usize) -> usize {
        self.words[item] as usize
    }

    /// True if an item is long enough to be looked for.
    pub fn is_looked_for(&self, item: usize) -> bool {
        self.words(item) >= self.rules.min_words
    }

    fn ngrams(&self, item: u32) -> Range<u32> {
        self.starts[item as usize]..self.starts[item as usize + 1]
    }

    /// The number of n-grams of an item that a document must have, which may have its words in order.
    fn needed(&self, item: u32, of: usize, in_order: bool) -> usize {
        (self.rules.needed(self.words(item as usize), in_order) * of as f64).ceil().max(1.0) as usize
    }

    /// Decides if an item stands in a document, by a passage that [`Finder::find`] gave, once all `documents` documents
    /// were read. Gives the share of the item's n-grams that the passage has, above 0 and at most 1; none if it is too
    /// little. N-grams that many documents have do not count, unless the item has hardly any others.
    pub fn share(&self, found: &FoundPassage, documents: u64) -> Option<f64> {
        let most = 100 + documents / 1_000;
        let is_rare = |ngram: &u32| {
            let place = self.place[*ngram as usize] as usize;
            u64::from(self.documents[place].load(Ordering::Relaxed)) <= most
        };
        let all = self.ngrams(found.item);
        let rare = all.clone().filter(is_rare).count();
        let (has, of) = match rare >= LEAST.max(all.len() / 5) {
            true => (found.ngrams.iter().filter(|ngram| is_rare(ngram)).count(), rare),
            false => (found.ngrams.len(), all.len()),
        };
        (has >= self.needed(found.item, of, found.in_order)).then(|| has as f64 / of as f64)
    }
}

/// A passage of a document in which an item may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPassage {
    /// The item, by its place among the texts of [`Items::new`].
    pub item: u32,
    /// The words of the passage, numbered from 0 in the document; the end is exclusive.
    pub words: Range<u32>,
    /// The bytes of the passage in the document's text.
    pub bytes: Range<usize>,
    /// The n-grams of the item that the passage has, ascending.
    ngrams: Vec<u32>,
    /// True if the item is short, and nearly all of its words are there in order.
    in_order: bool,
}

/// Looks for items in documents. It holds buffers: make one for each thread.
pub struct Finder<'a> {
    items: &'a Items,
    extractor: FeatureExtractor,
    /// Places in the table, each with the n-gram's place in the document.
    hits: Vec<(u32, u32)>,
    places: Vec<u32>,
    /// Items, each with a place in the document and an n-gram.
    of_items: Vec<(u32, u32, u32)>,
    counts: Vec<u32>,
    word_extractor: FeatureExtractor,
    /// The words of the document, once they are asked for.
    words: Vec<u32>,
}

impl<'a> Finder<'a> {
    /// A finder of these items.
    pub fn new(items: &'a Items) -> Self {
        Self {
            items,
            extractor: extractor(items.rules.ngram),
            hits: Vec::new(),
            places: Vec::new(),
            of_items: Vec::new(),
            counts: Vec::new(),
            word_extractor: extractor(1),
            words: Vec::new(),
        }
    }

    /// The items that may stand in a document, ascending, each with the passage that has most of it; an item is there
    /// once. [`Items::share`] decides once all documents have been read. It needs the counts of n-grams that each call
    /// adds to the items, so that each document is to be searched once.
    pub fn find(&mut self, text: &str) -> Vec<FoundPassage> {
        let Self { items, extractor, hits, places, of_items, .. } = self;
        hits.clear();
        self.words.clear();
        let mut position = 0;
        extractor.lists(text, |features| {
            for &feature in features {
                let entries = items.table.places(feature_hash(feature));
                if !entries.is_empty() {
                    hits.push((entries.start as u32, position));
                }
                position += 1;
            }
        });
        if hits.is_empty() {
            return Vec::new();
        }
        places.clear();
        places.extend(hits.iter().map(|&(place, _)| place));
        places.sort_unstable();
        places.dedup();
        for &place in &*places {
            items.documents[place as usize].fetch_add(1, Ordering::Relaxed);
        }
        of_items.clear();
        for &(place, position) in &*hits {
            let ngrams = items.table.documents(items.table.run(place as usize));
            of_items.extend(ngrams.map(|ngram| (items.item[ngram as usize], position, ngram)));
        }
        of_items.sort_unstable();
        let of_items = std::mem::take(&mut self.of_items);
        let found =
            of_items.chunk_by(|a, b| a.0 == b.0).filter_map(|hits| self.of_item(hits, text)).collect();
        self.of_items = of_items;
        found
    }

    /// The window that has most of an item.
    fn of_item(&mut self, hits: &[(u32, u32, u32)], text: &str) -> Option<FoundPassage> {
        let (items, counts) = (self.items, &mut self.counts);
        let (item, ngrams) = (hits[0].0, items.ngrams(hits[0].0));
        let (width, words) = (items.rules.ngram as u32, items.words[item as usize]);
        let least = items.needed(item, ngrams.len(), items.short.contains_key(&item));
        if hits.len() < least {
            return None;
        }
        let window = words + words / 2 + 8;
        counts.clear();
        counts.resize(ngrams.len(), 0);
        let (mut from, mut distinct, mut best) = (0, 0, (0, 0..0));
        for (to, &(_, position, ngram)) in hits.iter().enumerate() {
            let count = &mut counts[(ngram - ngrams.start) as usize];
            distinct += usize::from(*count == 0);
            *count += 1;
            while position + width - hits[from].1 > window {
                let count = &mut counts[(hits[from].2 - ngrams.start) as usize];
                *count -= 1;
                distinct -= usize::from(*count == 0);
                from += 1;
            }
            // What comes again behind is not needed here.
            while counts[(hits[from].2 - ngrams.start) as usize] > 1 {
                counts[(hits[from].2 - ngrams.start) as usize] -= 1;
                from += 1;
            }
            if distinct > best.0 {
                best = (distinct, from..to + 1);
            }
        }
        if best.0 < least {
            return None;
        }
        let hits = &hits[best.1];
        let words = hits[0].1..hits[hits.len() - 1].1 + width;
        let in_order = best.0 < ngrams.len() && self.is_in_order(item, text, &words);
        if best.0 < items.needed(item, ngrams.len(), in_order) {
            return None;
        }
        let mut ngrams: Vec<u32> = hits.iter().map(|&(.., ngram)| ngram).collect();
        ngrams.sort_unstable();
        ngrams.dedup();
        let bytes = self.bytes(text, &words);
        Some(FoundPassage { item, words, bytes, ngrams, in_order })
    }

    /// True if an item is short, and nearly all of its words are in order about these words of the document.
    fn is_in_order(&mut self, item: u32, text: &str, words: &Range<u32>) -> bool {
        let Some(own) = self.items.short.get(&item) else { return false };
        if self.words.is_empty() {
            self.word_extractor.extract(text, |word| self.words.push(feature_hash(word)));
        }
        is_in_order(own, &self.words, words)
    }

    /// The bytes of some words of a text, without what parts them from others.
    fn bytes(&mut self, text: &str, words: &Range<u32>) -> Range<usize> {
        // The text before the word that comes after so many.
        let mut before = |words: u32| {
            let (mut least, mut most) = (0, text.len());
            while least < most {
                let middle = text.ceil_char_boundary(least + (most - least).div_ceil(2));
                let mut number = 0;
                self.extractor.tokenizer.tokens(&text[..middle], |_| number += 1);
                match number > words {
                    true => most = text.floor_char_boundary(middle - 1),
                    false => least = middle,
                }
            }
            least
        };
        let (begin, end) = (before(words.start), before(words.end));
        begin..begin + text[begin..end].trim_end_matches(|c: char| !c.is_alphanumeric()).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;

    fn words(seed: u64, number: usize) -> Vec<String> {
        let mut rng = SplitMix64::new(seed);
        (0..number).map(|_| format!("w{}", rng.below(5_000))).collect()
    }

    fn found(items: &Items, texts: &[String]) -> Vec<Vec<(u32, f64, Range<usize>)>> {
        let mut finder = Finder::new(items);
        let all: Vec<Vec<FoundPassage>> = texts.iter().map(|text| finder.find(text)).collect();
        let share = |found: FoundPassage| {
            items.share(&found, texts.len() as u64).map(|share| (found.item, share, found.bytes))
        };
        all.into_iter().map(|found| found.into_iter().filter_map(share).collect()).collect()
    }

    #[test]
    fn an_item_has_the_words_that_it_has() {
        let items =
            Items::new(&["", "yes", "yes or", "yes or no", "yes or no yes"], Rules::default()).unwrap();
        assert_eq!((0..5).map(|item| items.words(item)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn items_are_found_where_they_are_and_nowhere_else() {
        let items: Vec<String> = (0..200).map(|seed| words(seed, 8 + seed as usize % 60).join(" ")).collect();
        let document = |seed: u64| words(1_000 + seed, 400).join(" ");
        let with = |at: usize| {
            format!("{}, {}. {}", document(at as u64), items[at].to_uppercase(), document(500 + at as u64))
        };
        let texts: Vec<String> = (0..200).map(with).chain((0..200).map(document)).collect();
        let looked_for = Items::new(&items, Rules::default()).unwrap();
        let found = found(&looked_for, &texts);
        for (at, found) in found.iter().enumerate() {
            match items.get(at) {
                None => assert!(found.is_empty()),
                Some(item) => {
                    assert_eq!((found.len(), found[0].0, found[0].1), (1, at as u32, 1.0));
                    assert_eq!(texts[at][found[0].2.clone()].to_lowercase(), *item);
                }
            }
        }
    }

    #[test]
    fn items_whose_words_were_changed_are_found() {
        let mut rng = SplitMix64::new(3);
        let items: Vec<String> = (0..500).map(|seed| words(seed, 48).join(" ")).collect();
        let change = |item: &String| {
            let changed = item.split(' ').map(|word| if rng.below(10) == 0 { "changed" } else { word });
            let changed = changed.collect::<Vec<_>>().join(" ");
            format!(
                "{} {changed} {}",
                words(rng.next_u64(), 300).join(" "),
                words(rng.next_u64(), 300).join(" ")
            )
        };
        let texts: Vec<String> = items.iter().map(change).collect();
        let looked_for = Items::new(&items, Rules::default()).unwrap();
        let found = found(&looked_for, &texts);
        let right =
            found.iter().enumerate().filter(|(at, found)| found.iter().any(|found| found.0 as usize == *at));
        assert!(right.count() >= 485);
        assert!(found.iter().all(|found| found.len() <= 1));
    }

    #[test]
    fn short_items_with_a_changed_word_are_found_where_the_others_are_in_order() {
        let item = words(1, 8);
        let items = Items::new(&[item.join(" ")], Rules::default()).unwrap();
        let is_found = |part: &[&str]| {
            let (before, after) = (words(2, 90).join(" "), words(3, 90).join(" "));
            let text = format!("{before} {} {after}", part.join(" "));
            let found = found(&items, &[text]);
            !found[0].is_empty()
        };
        let item: Vec<&str> = item.iter().map(String::as_str).collect();
        for at in 0..8 {
            let mut one = item.clone();
            one[at] = "changed";
            assert!(is_found(&one), "{at}");
            let mut lost = item.clone();
            lost.remove(at);
            assert!(is_found(&lost), "{at}");
            let mut more = item.clone();
            more.insert(at, "changed");
            assert!(is_found(&more), "{at}");
            let mut two = one;
            two[(at + 3) % 8] = "changed";
            assert!(!is_found(&two), "{at}");
        }
        // Behind Chinese, where every character is a word.
        let one = format!(
            "{} {} changed {} {}",
            "中文文本".repeat(300),
            item[..3].join(" "),
            item[4..].join(" "),
            "文".repeat(99)
        );
        assert_eq!(found(&items, &[one])[0].len(), 1);
        // Half of its n-grams are no item by themselves.
        assert!(!is_found(&item[..5]) && !is_found(&item[3..]));
        let mut moved = item.clone();
        moved.rotate_left(3);
        assert!(!is_found(&moved));
        assert!(
            is_in_order(&[1, 2, 3], &[9, 1, 2, 3], &(1..3))
                && !is_in_order(&[1, 2, 3], &[1, 2, 9, 9, 3], &(0..2))
        );
    }

    #[test]
    fn instructions_and_set_phrases_do_not_count() {
        let instruction = words(77, 30).join(" ");
        let licence = words(78, 60).join(" ");
        let item = |seed: u64| format!("{instruction} {} {licence}", words(seed, 20).join(" "));
        let items: Vec<String> = (0..40).map(item).collect();
        let document = |seed: u64| {
            format!("{} {licence} {}", words(900 + seed, 50).join(" "), words(8_000 + seed, 50).join(" "))
        };
        let mut texts: Vec<String> = (0..300).map(document).collect();
        texts.push(format!("{instruction} {}", words(70_005, 300).join(" ")));
        // The whole of an item, and its own part alone.
        texts.push(format!("{} {}", items[7], words(70_006, 99).join(" ")));
        texts.push(format!("{} {}", words(9, 20).join(" "), words(4_321, 99).join(" ")));
        let looked_for = Items::new(&items, Rules::default()).unwrap();
        let found = found(&looked_for, &texts);
        assert!(found[..300].iter().all(Vec::is_empty) && found[300].is_empty());
        let only = |at: usize| found[at].iter().map(|found| found.0).collect::<Vec<_>>();
        assert_eq!((only(301), only(302)), (vec![7], vec![9]));
        // A text that all documents have is found where it is complete.
        let known = Items::new(&[licence], Rules::default()).unwrap();
        assert_eq!(self::found(&known, &texts).iter().filter(|found| !found.is_empty()).count(), 301);
    }

    #[test]
    fn items_of_few_words_are_not_looked_for_and_rules_without_meaning_are_refused() {
        let items = Items::new(
            &["seven words are too few for this", "", "eight words are not too few for this"],
            Rules::default(),
        );
        let items = items.unwrap();
        assert_eq!(
            [0, 1, 2].map(|item| (items.words(item), items.is_looked_for(item))),
            [(7, false), (0, false), (8, true)]
        );
        assert!(Finder::new(&items).find("seven words are too few for this").is_empty());
        for rules in [
            Rules { ngram: 0, ..Rules::default() },
            Rules { share: 0.0, ..Rules::default() },
            Rules { share: f64::NAN, ..Rules::default() },
            Rules { min_words: 2, ..Rules::default() },
        ] {
            assert!(Items::new(&["some words"], rules).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn no_text_is_too_odd(item in "\\PC{0,60}", text in "\\PC{0,200}", at in 0usize..200) {
            let at = text.floor_char_boundary(at.min(text.len()));
            let text = format!("{} {item} {}", &text[..at], &text[at..]);
            let items = Items::new(&[&item], Rules { ngram: 2, min_words: 2, ..Rules::default() }).unwrap();
            for found in Finder::new(&items).find(&text) {
                prop_assert!(text.is_char_boundary(found.bytes.start) && text.is_char_boundary(found.bytes.end));
                prop_assert!(found.words.start < found.words.end && found.bytes.start < found.bytes.end);
                prop_assert!(items.share(&found, 1).is_some());
            }
        }
    }
}
