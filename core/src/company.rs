//! Near pairs of pages that share a key, from the pages of that key alone: what a join on disk asks of each
//! group of records, so that it brings up and judges the very pairs that [`Net::Keys`] does in memory.
//!
//! Which pairs are compared depends on the group's pages, not on their order nor on other groups: a sketch
//! that many texts share stands in every group with all of them, and a crowd is thinned by the sketches in it.

use crate::audit;
use crate::collection::Two;
use crate::error::{Error, Result};
use crate::id::Document;
use crate::judge::{BESIDE, BETWEEN, WITHIN, behind, shares};
use crate::net::{Crowds, Ran, Scores, Searched};
use crate::resemblance::{Bits, Sieve, Test};
use crate::search::Cost;
use crate::search::bands::{Banding, JoinParams};
use crate::search::join::BYTES_PER_HASH;
use crate::settings::{Judge, Measure, Net, Settings, Sketches};
use crate::similarity::{Anchor, Page};
use crate::sketch::{Facts, Hashed};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

/// What a stage has kept of a page with a text of its own: the first of its copies.
#[derive(Clone, Copy, Debug)]
pub struct Companion<'a> {
    /// Its number among all pages.
    pub page: u64,
    /// What is known of its text.
    pub facts: Facts,
    /// Its sketches.
    pub two: Two<'a>,
}

/// Two pages that are near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// The greater number.
    pub later: u64,
    /// The lesser number.
    pub earlier: u64,
    /// Hamming distance of their hashes.
    pub distance: u32,
    /// What the judge measured.
    pub similarity: f32,
}

/// What meetings have cost, and what was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Met {
    /// Groups of two pages or more.
    pub groups: u64,
    /// Pages of the largest group.
    pub largest: u64,
    /// Pairs of texts that were compared.
    pub compared: u64,
    /// Of these, below the threshold.
    pub refused: u64,
    /// Pairs of different sketches that were not compared in this group, because too many share the key.
    pub crowded: u64,
    /// Pairs of texts that were not compared, because too many share a sketch.
    pub skipped: u64,
    /// Groups of two different sketches or more.
    #[serde(default)]
    pub buckets: u64,
    /// Pairs of different sketches that met in a group, whether or not they had met in one of an earlier band.
    #[serde(default)]
    pub candidates: u64,
    /// Pages whose whole sketch a page before them has; counted in the first band.
    #[serde(default)]
    pub repeats: u64,
    /// Pairs of texts that met, by the distance of the hashes of their sketches, which are those of the texts with the
    /// least digests; those of one sketch at distance 0, counted in the first band.
    #[serde(default)]
    pub distances: Distances,
    /// Hashes of crowds, of which an exact join has found what a sample of all hashes shows.
    #[serde(default)]
    pub thinned: u64,
    /// Hashes of that sample.
    #[serde(default)]
    pub sampled: u64,
}

/// Numbers of pairs by Hamming distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distances([u64; DISTANCES]);

/// 0 to 64 bits.
const DISTANCES: usize = u64::BITS as usize + 1;

impl Default for Distances {
    fn default() -> Self {
        Self([0; DISTANCES])
    }
}

impl Distances {
    fn add(&mut self, a: u64, b: u64, pairs: u64) {
        self.0[(a ^ b).count_ones() as usize] += pairs;
    }

    /// Counts pairs of so many bits.
    ///
    /// # Panics
    /// For more than 64 bits.
    pub fn count(&mut self, distance: u32, pairs: u64) {
        self.0[distance as usize] += pairs;
    }

    /// The distances that there are, ascending, each with its number of pairs.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, u64)> {
        (0..).zip(self.0).filter(|&(_, pairs)| pairs > 0).collect::<Vec<_>>().into_iter()
    }
}

impl Serialize for Distances {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Distances {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mut distances = Self::default();
        for (distance, pairs) in Vec::<(u32, u64)>::deserialize(deserializer)? {
            let number = distances.0.get_mut(distance as usize);
            *number.ok_or_else(|| serde::de::Error::custom("more than 64 bits differ"))? = pairs;
        }
        Ok(distances)
    }
}

impl Met {
    /// The two together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut distances = self.distances;
        distances.0.iter_mut().zip(other.distances.0).for_each(|(sum, pairs)| *sum += pairs);
        Self {
            buckets: self.buckets + other.buckets,
            candidates: self.candidates + other.candidates,
            repeats: self.repeats + other.repeats,
            distances,
            groups: self.groups + other.groups,
            largest: self.largest.max(other.largest),
            compared: self.compared + other.compared,
            refused: self.refused + other.refused,
            crowded: self.crowded + other.crowded,
            skipped: self.skipped + other.skipped,
            thinned: self.thinned + other.thinned,
            sampled: self.sampled.max(other.sampled),
        }
    }

    /// What a search in memory tells of the same pages: `texts` different ones with features enough, of so many
    /// `keys` and `words` of bits, with examples of crowds. Where keys are crowded, a pair counts in each band
    /// that it met in.
    pub fn searched(&self, texts: u64, keys: usize, words: usize, examples: Vec<Document>) -> Searched {
        let distinct = texts - self.repeats.min(texts);
        let params = JoinParams::new(Banding { bands: keys, rows: 1 }, 1);
        let score = |(distance, pairs)| (u64::BITS - distance, pairs);
        let counts = self.distances.iter().rev().map(score).collect();
        Searched {
            ran: Ran::Keys { keys: if texts > 0 { keys as u32 } else { 0 } },
            cost: Cost { probes: self.buckets, candidates: self.candidates, verified: self.candidates },
            index_bytes: distinct * 4 * (keys + 2 * words) as u64,
            distinct,
            recall: None,
            crowds: (self.crowded > 0).then_some(Crowds::Bands {
                skipped: self.crowded,
                full_bucket: params.full_bucket as u32,
                neighbours: params.neighbours as u32,
                examples,
            }),
            scores: if texts > 0 { vec![Scores { table: None, counts }] } else { Vec::new() },
        }
    }

    /// What an exact join in memory tells of the same pages, `texts` different ones with features enough, with examples
    /// of crowds, but for the work, which depends on the parts that memory held at a time and is not counted.
    pub fn joined(&self, texts: u64, distance: u32, examples: Vec<Document>) -> Searched {
        let distinct = texts - self.repeats.min(texts);
        // Every score that there may be, as a join lists them.
        let pairs = self.distances.0.into_iter().take(distance as usize + 1).rev();
        let counts = (u64::BITS - distance..).zip(pairs).collect();
        Searched {
            ran: Ran::Join { distance },
            cost: Cost::default(),
            index_bytes: distinct * BYTES_PER_HASH as u64,
            distinct,
            recall: None,
            crowds: (self.thinned > 0).then_some(Crowds::Sampled {
                hashes: self.thinned,
                sampled: self.sampled,
                examples,
            }),
            scores: vec![Scores { table: None, counts }],
        }
    }
}

/// Judges groups of pages that share a key.
#[derive(Clone, Copy, Debug)]
pub struct Company {
    measure: Measure,
    threshold: f32,
    params: JoinParams,
}

impl Page for &Companion<'_> {
    fn digest(&self) -> u128 {
        self.facts.digest
    }

    fn hashed(&self) -> Option<&Hashed> {
        None
    }

    fn signature(&self) -> Option<&[u32]> {
        None
    }

    fn bits(&self) -> Option<Bits<'_>> {
        Some(Bits::by_size(self.two.bits, self.facts.features))
    }

    fn size(&self) -> u32 {
        self.facts.features
    }

    fn features(&self, _: impl FnMut(u64, i64)) {}
}

impl Companion<'_> {
    /// Orders sketches by the keys behind a band, the bits, and the keys up to it: as the join in memory
    /// orders a crowd.
    pub fn compare_after(&self, other: &Self, band: usize) -> Ordering {
        let from = band + 1;
        let (a, b) = (self.two, other.two);
        let words = |bits: &[u64]| bits.iter().map(|word| word.rotate_left(32)).collect::<Vec<_>>();
        a.keys[from..]
            .cmp(&b.keys[from..])
            .then_with(|| match a.bits == b.bits {
                true => Ordering::Equal,
                // The low half of a word comes first.
                false => words(a.bits).cmp(&words(b.bits)),
            })
            .then_with(|| a.keys[..from].cmp(&b.keys[..from]))
    }

    fn has_sketch_of(&self, other: &Self) -> bool {
        self.two.keys == other.two.keys && self.two.bits == other.two.bits
    }
}

impl Company {
    /// A judge of groups, as the settings want it.
    ///
    /// # Errors
    /// [`Error::Parameter`] for settings under which near pairs do not show in the sketches of pages that
    /// share a key.
    pub fn new(settings: &Settings) -> Result<Self> {
        let (Sketches::Both { banding, .. }, Net::Keys) = (settings.sketches, settings.net) else {
            let expected = "keys, with both sketches";
            return Err(Error::parameter("search", settings.net.name(), expected));
        };
        Self::of(settings, banding.bands)
    }

    /// A judge of pairs, as the settings want it, that an exact join brings up.
    ///
    /// # Errors
    /// [`Error::Parameter`] for settings with another search, or under which near pairs do not show in sketches.
    pub fn of_pairs(settings: &Settings) -> Result<Self> {
        let (Sketches::Both { banding, .. }, Net::Join { .. }) = (settings.sketches, settings.net) else {
            return Err(Error::parameter("search", settings.net.name(), "join, with both sketches"));
        };
        Self::of(settings, banding.bands)
    }

    fn of(settings: &Settings, bands: usize) -> Result<Self> {
        settings.check()?;
        let (Judge::Estimate(threshold) | Judge::EstimatedContainment(threshold)) = settings.judge else {
            let expected =
                "estimate or estimated-containment: no features are kept that another could look at";
            return Err(Error::parameter("verify", settings.judge.name(), expected));
        };
        let measure = settings.judge.measure().unwrap_or(Measure::Estimate);
        let params = JoinParams::new(Banding { bands, rows: 1 }, 1);
        Ok(Self { measure, threshold: threshold as f32, params })
    }

    /// Of the pages with one hash, those with the least digests stand for the others: all are compared with the first
    /// so many of them.
    pub const WITHIN: usize = WITHIN;
    /// And with so many that stand just before them, in the order of digests.
    pub const BESIDE: usize = BESIDE;
    /// Pages of a hash of which any are compared with those of another, at most; those with the least digests.
    pub const BETWEEN: usize = BETWEEN;

    /// How many of the pages of one hash, and of another, are compared with each other.
    pub fn shares(first: usize, second: usize) -> [usize; 2] {
        shares(first, second)
    }

    /// Compares one page with others, and hands on those that are near.
    pub fn compare(
        &self,
        first: &Companion<'_>,
        others: &[Companion<'_>],
        met: &mut Met,
        mut found: impl FnMut(Near),
    ) {
        let anchor = Anchor::new(self.measure, first);
        others.iter().for_each(|second| self.judge(&anchor, first, second, met, &mut found));
    }

    /// Pages of one key from which on it may be that not all of them are compared with each other.
    pub fn crowd(&self) -> usize {
        self.params.full_bucket + 1
    }

    /// Compares the pages of one key of a band, sorting them, and hands on those that are near. What it takes is added
    /// to `met`.
    ///
    /// `is_crowded` says whether an earlier band's key may have [`crowd`](Self::crowd) pages: a pair that shares
    /// a key without a crowd in an earlier band has met there, and is not compared again.
    ///
    /// # Panics
    /// If pages have fewer keys than the settings say.
    pub fn meet(
        &self,
        band: usize,
        pages: &mut [Companion<'_>],
        is_crowded: impl Fn(usize, u32) -> bool,
        met: &mut Met,
        mut found: impl FnMut(Near),
    ) {
        met.largest = met.largest.max(pages.len() as u64);
        if pages.len() < 2 {
            return;
        }
        met.groups += 1;
        pages.sort_unstable_by(|a, b| {
            a.compare_after(b, band).then_with(|| (a.facts.digest, a.page).cmp(&(b.facts.digest, b.page)))
        });
        let sketches: Vec<&[Companion<'_>]> = pages.chunk_by(|a, b| a.has_sketch_of(b)).collect();
        // Pages of one sketch stand together in every band.
        if band == 0 {
            for texts in sketches.iter().filter(|texts| texts.len() > 1) {
                let before = met.compared;
                for (at, first) in texts.iter().enumerate() {
                    let anchor = Anchor::new(self.measure, first);
                    behind(texts, at)
                        .iter()
                        .for_each(|second| self.judge(&anchor, first, second, met, &mut found));
                }
                met.skipped += pairs_of(texts.len()) - (met.compared - before);
                met.repeats += texts.len() as u64 - 1;
                met.distances.add(0, 0, pairs_of(texts.len()));
            }
        }
        let n = sketches.len();
        let JoinParams { full_bucket, neighbours, .. } = self.params;
        let is_crowd = n > full_bucket && n - 1 > neighbours;
        let followers = if is_crowd { neighbours } else { n };
        met.buckets += u64::from(n > 1);
        let candidates = match is_crowd {
            true => (n - neighbours) as u64 * neighbours as u64 + pairs_of(neighbours),
            false => pairs_of(n),
        };
        met.candidates += candidates;
        met.crowded += pairs_of(n) - candidates;
        // The one with the least digest stands for all.
        let hashes: Vec<u64> = sketches.iter().map(|texts| texts[0].two.hash).collect();
        for (at, firsts) in sketches.iter().enumerate() {
            for (other, seconds) in sketches.iter().enumerate().skip(at + 1).take(followers) {
                let (a, b) = (&firsts[0].two, &seconds[0].two);
                if (0..band).any(|k| a.keys[k] == b.keys[k] && !is_crowded(k, a.keys[k])) {
                    continue;
                }
                let [most_first, most_second] = shares(firsts.len(), seconds.len());
                for first in &firsts[..most_first] {
                    let anchor = Anchor::new(self.measure, first);
                    for second in &seconds[..most_second] {
                        self.judge(&anchor, first, second, met, &mut found);
                    }
                }
                let pairs = (firsts.len() * seconds.len()) as u64;
                met.distances.add(hashes[at], hashes[other], pairs);
                met.skipped += pairs - (most_first * most_second) as u64;
            }
        }
    }

    /// Begins to compare the pages of one key that come one by one, however many they are: in the order in which
    /// [`meet`](Self::meet) compares them, which is that of [`Companion::compare_after`], and for equal sketches
    /// that of digests and pages. It comes to the same.
    ///
    /// So many different `sketches` are among them; `is_crowded` is as in [`meet`](Self::meet).
    pub fn meeting<C: Fn(usize, u32) -> bool>(
        &self,
        band: usize,
        sketches: u64,
        is_crowded: C,
    ) -> Meeting<C> {
        let JoinParams { full_bucket, neighbours, .. } = self.params;
        let is_crowd = sketches > full_bucket as u64 && sketches - 1 > neighbours as u64;
        let mut met = Met::default();
        if is_crowd {
            let neighbours = neighbours as u64;
            let compared = (sketches - neighbours) * neighbours + neighbours * (neighbours - 1) / 2;
            met.crowded = (u128::from(sketches) * u128::from(sketches - 1) / 2) as u64 - compared;
        }
        met.buckets = u64::from(sketches > 1);
        let followers = if is_crowd { neighbours } else { full_bucket };
        let (window, within, pages) = (VecDeque::new(), StandIns::default(), 0);
        Meeting { company: *self, band, followers, is_crowded, window, within, pages, met }
    }

    fn judge<'c>(
        &self,
        anchor: &Anchor<&'c Companion<'c>>,
        first: &Companion<'_>,
        second: &Companion<'_>,
        met: &mut Met,
        found: &mut impl FnMut(Near),
    ) {
        met.compared += 1;
        let similarity = anchor.with(&second);
        if similarity < self.threshold {
            met.refused += 1;
            return;
        }
        let (later, earlier) = (first.page.max(second.page), first.page.min(second.page));
        found(Near { later, earlier, distance: (first.two.hash ^ second.two.hash).count_ones(), similarity });
    }
}

/// A page that was in a group, by itself.
struct Owned {
    page: u64,
    facts: Facts,
    hash: u64,
    keys: Box<[u32]>,
    bits: Box<[u64]>,
}

impl Owned {
    fn of(&Companion { page, facts, two }: &Companion<'_>) -> Self {
        Self { page, facts, hash: two.hash, keys: two.keys.into(), bits: two.bits.into() }
    }

    fn companion(&self) -> Companion<'_> {
        let Self { page, facts, hash, keys, bits } = self;
        Companion { page: *page, facts: *facts, two: Two { hash: *hash, bits, keys } }
    }
}

/// The pages of one sketch: as many of them as are compared with those of others, and how many there are.
struct Together {
    texts: Vec<Owned>,
    number: usize,
}

/// Those of the pages of one sketch or hash, which come in the order of their digests, that the next one is compared
/// with: the first [`Company::WITHIN`], and of those behind them the last [`Company::BESIDE`].
#[derive(Clone, Debug)]
pub struct StandIns<T> {
    first: Vec<T>,
    last: VecDeque<T>,
}

impl<T> Default for StandIns<T> {
    fn default() -> Self {
        Self { first: Vec::new(), last: VecDeque::new() }
    }
}

impl<T> StandIns<T> {
    /// The pages that the next one is compared with.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.last)
    }

    /// How many they are.
    pub fn number(&self) -> usize {
        self.first.len() + self.last.len()
    }

    /// The pages that came first, which are all if they are no more than [`Company::WITHIN`].
    pub fn first(&self) -> &[T] {
        &self.first
    }

    /// The next one.
    pub fn push(&mut self, page: T) {
        if self.first.len() < WITHIN {
            return self.first.push(page);
        }
        if self.last.len() == BESIDE {
            self.last.pop_front();
        }
        self.last.push_back(page);
    }

    /// Begins with another sketch.
    pub fn clear(&mut self) {
        self.first.clear();
        self.last.clear();
    }
}

/// The pages of one key while they come one by one, see [`Company::meeting`]. It holds the last sketches, and of
/// each a few pages.
pub struct Meeting<C> {
    company: Company,
    band: usize,
    /// Sketches that each is compared with.
    followers: usize,
    is_crowded: C,
    /// The last sketches; the last one is being added to.
    window: VecDeque<Together>,
    /// The pages of the last sketch that the next one of it is compared with.
    within: StandIns<Owned>,
    pages: u64,
    met: Met,
}

impl<C: Fn(usize, u32) -> bool> Meeting<C> {
    /// Adds the next page, and hands on which others are near.
    pub fn add(&mut self, page: &Companion<'_>, mut found: impl FnMut(Near)) {
        self.pages += 1;
        let is_next =
            |last: &Together| last.texts.first().is_some_and(|text| text.companion().has_sketch_of(page));
        if !self.window.back().is_some_and(is_next) {
            self.end_sketch(&mut found);
            if self.window.len() > self.followers {
                self.window.pop_front();
            }
            self.window.push_back(Together { texts: Vec::new(), number: 0 });
            self.within.clear();
        }
        let Some(last) = self.window.back_mut() else { return };
        if self.band == 0 {
            // Each with those before it: in the end, all pairs.
            self.met.distances.add(0, 0, last.number as u64);
            self.met.repeats += u64::from(last.number > 0);
            let company = self.company;
            for first in self.within.iter() {
                let first = first.companion();
                company.judge(&Anchor::new(company.measure, &first), &first, page, &mut self.met, &mut found);
            }
            self.met.skipped += (last.number - self.within.number()) as u64;
            self.within.push(Owned::of(page));
        }
        if last.texts.len() < BETWEEN {
            last.texts.push(Owned::of(page));
        }
        last.number += 1;
    }

    /// Compares the last sketch, of which all pages are there, with those before it.
    fn end_sketch(&mut self, found: &mut impl FnMut(Near)) {
        let Self { company, band, window, is_crowded, met, .. } = self;
        let Some((last, before)) = window.make_contiguous().split_last() else { return };
        met.candidates += before.len() as u64;
        for other in before {
            let keys = other.texts[0].keys.iter().zip(&last.texts[0].keys[..*band]);
            if keys.enumerate().any(|(k, (a, b))| a == b && !is_crowded(k, *a)) {
                continue;
            }
            let [most_first, most_second] = shares(other.number, last.number);
            for first in &other.texts[..most_first] {
                let first = first.companion();
                let anchor = Anchor::new(company.measure, &first);
                for second in &last.texts[..most_second] {
                    company.judge(&anchor, &first, &second.companion(), met, found);
                }
            }
            let pairs = other.number as u64 * last.number as u64;
            met.distances.add(other.texts[0].hash, last.texts[0].hash, pairs);
            met.skipped += pairs - (most_first * most_second) as u64;
        }
    }

    /// No page is left; hands on what is near, and tells what it took.
    pub fn end(mut self, mut found: impl FnMut(Near)) -> Met {
        self.end_sketch(&mut found);
        Met { groups: u64::from(self.pages > 1), largest: self.pages, ..self.met }
    }
}

/// Pages that were drawn to be compared with all others by their bits: a sample of what a join should have found.
pub struct Drawn {
    company: Company,
    pages: Vec<Owned>,
}

impl Drawn {
    /// The most pages that are drawn, however few there are.
    pub const MOST: usize = audit::MOST_DRAWN;

    /// What a page is drawn by, of its text and the settings' seed: of all pages with a text of their own and features
    /// enough, those with the least.
    pub fn key(digest: u128, seed: u64) -> (u64, u128) {
        audit::drawing_key(digest, seed)
    }

    /// How many are drawn of so many pages.
    pub fn number(all: u64) -> usize {
        audit::most_drawn(all)
    }

    /// Which of so many drawn pages, in the order of their keys, are compared one step after the other. After a step
    /// that [is enough](Self::is_enough) no other follows.
    pub fn steps(drawn: usize) -> impl Iterator<Item = Range<usize>> {
        audit::steps(drawn)
    }

    /// Whether the pairs that [`near`](Self::near) has told in all steps so far are enough.
    pub fn is_enough(pairs: u64) -> bool {
        audit::is_enough(pairs)
    }

    /// The pages of a step.
    pub fn new(company: Company, pages: &[Companion<'_>]) -> Self {
        Self { company, pages: pages.iter().map(Owned::of).collect() }
    }

    /// Which of these pages, put in order of their sizes, are near which drawn ones: the drawn one and the other.
    pub fn near(&self, pages: &mut [Companion<'_>]) -> Vec<(u64, u64)> {
        pages.sort_unstable_by_key(|page| (page.facts.features, page.page));
        let Company { measure, threshold, .. } = self.company;
        let test = Test::of(measure, threshold);
        let of_block = |block: &[Companion<'_>]| {
            let bits_of = |page| -> Bits<'_> {
                let Companion { facts, two, .. } = page;
                Bits::by_size(two.bits, facts.features)
            };
            let sieve = Sieve::new(block.iter().copied().map(bits_of).collect());
            let (mut found, mut places) = (Vec::new(), Vec::new());
            for drawn in &self.pages {
                let bits = Bits::by_size(&drawn.bits, drawn.facts.features);
                sieve.near(bits, test, &mut places);
                let others = places.iter().map(|&at| &block[at as usize]);
                let near = others.filter(|other| {
                    let have_equal_keys = || *other.two.keys == *drawn.keys;
                    other.page != drawn.page && test.is_near(bits, bits_of(**other), have_equal_keys)
                });
                found.extend(near.map(|other| (drawn.page, other.page)));
            }
            found
        };
        pages.par_chunks(Sieve::BLOCK).flat_map_iter(of_block).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// Number of pairs of `n` things.
fn pairs_of(n: usize) -> u64 {
    let n = n as u64;
    n * n.saturating_sub(1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Tally;
    use crate::dedup::{Deduper, Kind};
    use crate::hash::SplitMix64;
    use crate::sketch::{Sketch, SketchValue, Sketcher, TwoSketches};
    use crate::text::FeatureKind;
    use hashbrown::{HashMap, HashSet};

    /// Sketches of few values each, so that keys meet, sketches are shared, and templates crowd.
    fn sketches(n: u64, rng: &mut SplitMix64, crowd: bool, settings: &Settings) -> Vec<Sketch> {
        let Sketches::Both { bits, banding } = settings.sketches else { unreachable!() };
        let templates = 1 + rng.below(if crowd { 2 } else { 5 });
        (0..n)
            .map(|page| {
                let template = rng.below(templates);
                let mut draws = SplitMix64::new(template);
                let mut words: Vec<u64> = (0..bits / 64).map(|_| draws.next_u64()).collect();
                for _ in 0..rng.below(if crowd { 9 } else { 4 }) {
                    words[rng.below(bits as u64 / 64) as usize] ^= 1 << rng.below(64);
                }
                let key = |band: u64, rng: &mut SplitMix64| {
                    let own = rng.below(3) == 0;
                    (template * 1000 + band * 10 + if own { rng.below(4) } else { 0 }) as u32
                };
                let keys: Vec<u32> = (0..banding.bands as u64).map(|band| key(band, rng)).collect();
                let hash = draws.next_u64() ^ rng.below(8);
                let value = SketchValue::Both(TwoSketches { hash, bits: words, keys });
                let features = 90 + rng.below(20) as u32;
                // Some have one text; those have all in common, as the first sketch of it says.
                let digest =
                    if rng.below(6) == 0 { 1 + u128::from(rng.below(n)) } else { u128::from(page) << 64 | 7 };
                Sketch { facts: Facts { digest, text_bytes: 500, features }, value }
            })
            .collect()
    }

    fn in_order_of_drawing<'a>(pages: &[Companion<'a>], settings: &Settings) -> Vec<Companion<'a>> {
        let mut pages = pages.to_vec();
        pages.sort_by_key(|page| Drawn::key(page.facts.digest, settings.seed));
        pages
    }

    #[test]
    fn of_a_large_template_few_pages_are_compared() {
        let settings = Settings::default();
        let Sketches::Both { bits, banding } = settings.sketches else { unreachable!() };
        let mut rng = SplitMix64::new(5);
        let keys: Vec<u32> = (0..banding.bands).map(|_| rng.next_u64() as u32).collect();
        let pages: Vec<Sketch> = (0..1_100u64)
            .map(|page| {
                let mut words = vec![u64::MAX / 3; bits / 64];
                words[0] ^= 1 << rng.below(20);
                let value = SketchValue::Both(TwoSketches { hash: page, bits: words, keys: keys.clone() });
                let digest = u128::from(rng.next_u64()) << 64 | u128::from(page);
                Sketch { facts: Facts { digest, text_bytes: 500, features: 100 }, value }
            })
            .collect();
        let mut deduper = Deduper::new(settings.clone()).unwrap();
        pages.iter().for_each(|page| {
            deduper.push_sketch(page).unwrap();
        });
        let outcome = deduper.run().unwrap();
        let found: HashSet<[u64; 2]> =
            outcome.pairs.iter().map(|p| [p.a, p.b].map(|page| u64::from(page.0))).collect();
        let audit = outcome.audit.unwrap();

        let company = Company::new(&settings).unwrap();
        let all: Vec<Companion<'_>> = (0..)
            .zip(&pages)
            .map(|(page, sketch)| {
                let SketchValue::Both(two) = &sketch.value else { unreachable!() };
                Companion { page, facts: sketch.facts, two: Two::from(two) }
            })
            .collect();
        let in_order = in_order_of_drawing(&all, &settings);
        let first = Drawn::steps(in_order.len()).next().unwrap();
        let drawn: HashSet<u64> = in_order[first.clone()].iter().map(|page| page.page).collect();
        let near: Vec<(u64, u64)> =
            Drawn::new(company, &in_order[first]).near(&mut all.clone()).into_iter().collect();
        assert!(Drawn::is_enough(near.len() as u64), "{}", near.len());
        // All are near all, and each pair counts once.
        let n = drawn.len() as u64;
        assert_eq!((audit.drawn, audit.pairs), (n, n * (1_100 - n) + n * (n - 1) / 2));
        let pairs: HashSet<[u64; 2]> = near.into_iter().map(|(a, b)| [a.min(b), a.max(b)]).collect();
        assert_eq!(audit.found, pairs.intersection(&found).count() as u64);
        assert!(audit.found > 1_000 && audit.found < audit.pairs, "{audit:?}");
    }

    #[test]
    fn groups_bring_up_and_judge_what_the_net_in_memory_does() {
        let mut rng = SplitMix64::new(11);
        let both = |bands| Sketches::Both { bits: 128, banding: Banding { bands, rows: 3 } };
        let (mut crowds, mut audited) = (0, 0);
        for round in 0..20 {
            let crowd = round % 5 == 0;
            let settings = match round % 3 {
                0 => Settings::both(0.85),
                1 => Settings::removable(),
                _ => Settings::both(0.7),
            };
            let settings = settings.with(|settings| settings.sketches = both(if crowd { 2 } else { 5 }));
            let mut pages = sketches(if crowd { 900 } else { 120 }, &mut rng, crowd, &settings);
            let mut first_of: HashMap<u128, usize> = HashMap::new();
            for at in 0..pages.len() {
                let first = *first_of.entry(pages[at].facts.digest).or_insert(at);
                pages[at] = pages[first].clone();
            }
            let mut deduper = Deduper::new(settings.clone()).unwrap();
            pages.iter().for_each(|page| {
                deduper.push_sketch(page).unwrap();
            });
            let outcome = deduper.run().unwrap();
            let mut expected: Vec<Near> = outcome
                .pairs
                .iter()
                .filter(|pair| pair.kind == Kind::Near)
                .map(|p| Near {
                    later: u64::from(p.b.0),
                    earlier: u64::from(p.a.0),
                    distance: p.distance,
                    similarity: p.similarity,
                })
                .collect();
            expected.sort_by_key(|near| (near.later, near.earlier));

            let company = Company::new(&settings).unwrap();
            let Sketches::Both { banding, .. } = settings.sketches else { unreachable!() };
            let firsts: Vec<Companion<'_>> = (0..pages.len())
                .filter(|&at| first_of[&pages[at].facts.digest] == at)
                .map(|at| {
                    let SketchValue::Both(two) = &pages[at].value else { unreachable!() };
                    Companion { page: at as u64, facts: pages[at].facts, two: Two::from(two) }
                })
                .collect();
            let mut groups: Vec<HashMap<u32, Vec<Companion<'_>>>> = vec![HashMap::new(); banding.bands];
            for page in &firsts {
                for (band, &key) in page.two.keys.iter().enumerate() {
                    groups[band].entry(key).or_default().push(*page);
                }
            }
            let crowded: Vec<HashSet<u32>> = groups
                .iter()
                .map(|groups| {
                    groups
                        .iter()
                        .filter(|(_, pages)| pages.len() >= company.crowd())
                        .map(|(&key, _)| key)
                        .collect()
                })
                .collect();
            let (mut got, mut met) = (Vec::new(), Met::default());
            for (band, groups) in groups.iter_mut().enumerate() {
                for pages in groups.values_mut() {
                    pages.reverse();
                    let is_crowded = |band: usize, key| crowded[band].contains(&key);
                    let from = got.len();
                    let mut part = Met::default();
                    company.meet(band, pages, is_crowded, &mut part, |near| got.push(near));
                    // The same one by one.
                    let sketches = pages.chunk_by(|a, b| a.has_sketch_of(b)).count() as u64;
                    let mut one_by_one = Vec::new();
                    let mut meeting = company.meeting(band, sketches, is_crowded);
                    pages.iter().for_each(|page| meeting.add(page, |near| one_by_one.push(near)));
                    assert_eq!(meeting.end(|near| one_by_one.push(near)), part);
                    let order = |near: &Near| (near.later, near.earlier);
                    one_by_one.sort_by_key(order);
                    got[from..].sort_by_key(order);
                    assert_eq!(one_by_one, got[from..]);
                    met = met.and(part);
                }
            }
            got.sort_by_key(|near| (near.later, near.earlier));
            got.dedup();
            assert_eq!(got, expected, "round {round}");

            let audit = outcome.audit.unwrap();
            let found = |a: u64, b: u64| {
                got.binary_search_by_key(&(a.max(b), a.min(b)), |near| (near.later, near.earlier)).is_ok()
            };
            let mut tally = Tally::new(firsts.iter().map(|page| page.page).collect(), firsts.len() as u64);
            for ranks in Drawn::steps(firsts.len()) {
                let drawn = Drawn::new(company, &in_order_of_drawing(&firsts, &settings)[ranks]);
                for pages in firsts.clone().chunks_mut(50) {
                    drawn.near(pages).into_iter().for_each(|(a, b)| tally.add(a, b, found(a, b)));
                }
            }
            assert_eq!(tally.audit(), audit);
            audited += audit.pairs;
            crowds += u64::from(met.crowded > 0 && outcome.searched.crowds.is_some());
        }
        assert!(audited > 1000, "the audit saw hardly anything: {audited}");
        assert!(crowds > 2, "the guard against crowds was hardly looked at: {crowds}");
    }

    /// Texts in families: a text, and others with some of its words changed.
    fn families(n: usize, largest: u64, changes: u64, seed: u64) -> Vec<String> {
        let mut rng = SplitMix64::new(seed);
        let mut texts = Vec::new();
        while texts.len() < n {
            let first: Vec<u64> = (0..50 + rng.below(100)).map(|_| rng.below(5_000)).collect();
            let most = 1 + rng.below(largest);
            for _ in 0..1 + rng.below(most) {
                let mut words = first.clone();
                for _ in 0..rng.below(changes) {
                    let at = rng.below(words.len() as u64) as usize;
                    words[at] = rng.below(5_000);
                }
                texts.push(words.iter().map(|word| format!("w{word} ")).collect());
            }
        }
        texts
    }

    #[test]
    fn the_audit_s_interval_holds_the_recall_in_most_draws() {
        for (largest, changes, drawn) in [(6, 6, 1_000), (30, 5, 500), (3, 8, 2_000)] {
            // Keys that miss a part.
            let settings = Settings::both(0.8).with(|settings| {
                settings.features = FeatureKind::Words;
                settings.sketches = Sketches::Both { bits: 512, banding: Banding { bands: 5, rows: 6 } };
            });
            let texts = families(5_000, largest, changes, largest);
            let mut deduper = Deduper::new(settings.clone()).unwrap();
            deduper.extend(&texts);
            let outcome = deduper.run().unwrap();
            let found: HashSet<(u64, u64)> =
                outcome.pairs.iter().map(|pair| (u64::from(pair.a.0), u64::from(pair.b.0))).collect();

            let mut sketcher = Sketcher::new(&settings, None).unwrap();
            let sketches: Vec<Sketch> = texts.iter().map(|text| sketcher.sketch(text)).collect();
            let mut seen = HashSet::new();
            let pages: Vec<Companion<'_>> = (0..)
                .zip(&sketches)
                .filter(|(_, sketch)| seen.insert(sketch.facts.digest))
                .map(|(page, sketch)| {
                    let SketchValue::Both(two) = &sketch.value else { unreachable!() };
                    Companion { page, facts: sketch.facts, two: Two::from(two) }
                })
                .collect();
            // All that is near, from both sides.
            let company = Company::new(&settings).unwrap();
            let near = Drawn::new(company, &pages).near(&mut pages.clone());
            let is_found = |a: u64, b: u64| found.contains(&(a.min(b), a.max(b)));
            let truth = near.iter().filter(|&&(a, b)| is_found(a, b)).count() as f64 / near.len() as f64;
            assert!((0.5..0.99).contains(&truth), "{truth}");

            let covered = (0..100).filter(|&seed| {
                let settings = settings.clone().with(|settings| settings.seed = seed);
                let in_order = in_order_of_drawing(&pages, &settings);
                let of_draw: HashSet<u64> = in_order[..drawn].iter().map(|page| page.page).collect();
                let mut tally = Tally::new(of_draw.iter().copied().collect(), pages.len() as u64);
                let of_draw = near.iter().filter(|(a, _)| of_draw.contains(a));
                of_draw.for_each(|&(a, b)| tally.add(a, b, is_found(a, b)));
                let recall = tally.audit().recall.unwrap();
                (recall.low..=recall.high).contains(&truth)
            });
            let covered = covered.count();
            assert!(covered >= 93, "families of up to {largest}: {covered} of 100 intervals hold {truth}");
        }
    }

    #[test]
    fn what_no_group_shows_is_refused() {
        let refused = |settings: Settings| match Company::new(&settings) {
            Err(Error::Parameter { parameter, .. }) => parameter,
            other => other.map_or("another error", |_| ""),
        };
        assert_eq!([Settings::default(), Settings::removable()].map(refused), ["", ""]);
        let others = [Settings::simhash(), Settings::minhash(0.8), Settings::one_bit(512, 0.8)];
        assert_eq!(others.map(refused), ["search"; 3]);
        assert_eq!(refused(Settings::default().with(|s| s.judge = Judge::Jaccard(0.8))), "verify");
    }
}
