//! An estimate of a run's recall, measured on its own documents.
//!
//! Some texts are sampled and compared with all others by the bits that verification looks at, without their band
//! hashes. So all near-duplicates of these texts are known. Two shares follow: of the near pairs, those that the run
//! could compare; and of the documents with a near-duplicate that is kept before them, those that the run removed.
//!
//! Where verification counts features or edits, it decides about the pairs that the bits propose. Where
//! [containment](crate::containment) decides, only kept texts are sampled, and no pairs are counted.
//!
//! Bits estimate a similarity, so that a pair just below the threshold may belong above it, and the other way round.
//! The interval of documents holds what that changes, besides the error of the sample.

use crate::collection::Two;
use crate::edits;
use crate::hash::fmix64;
use crate::id::{Id, Rank, Text};
use crate::jaccard::{self, SetBits, Sieve};
use crate::settings::{Forms, Measure, Verification};
use crate::verification::{Evidence, TextPair};
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BinaryHeap;
use std::ops::Range;

/// The estimate of a run's recall from a sample of texts that were compared with all others.
///
/// ```
/// use simflip_core::dedup::{Estimated, RecallEstimate, Removed};
/// use simflip_core::{Deduper, Settings};
///
/// let story = |number: u64| (0..80).map(|word| format!("{} ", number * 997 + word * word)).collect::<String>();
/// let mut deduper = Deduper::new(Settings::default())?;
/// (0..50).for_each(|number| {
///     deduper.extend(&[story(number), story(number) + "today"]);
/// });
/// let estimate: RecallEstimate = deduper.run()?.recall_estimate.expect("the default compares a sample");
/// let Some(Removed { removed, missed, recall, .. }) = estimate.documents else { panic!("enough were removed") };
/// let Estimated { share, low, high } = recall;
/// assert!((removed, missed, share) == (50, 0, 1.0) && low > 0.9 && high == 1.0);
/// # Ok::<(), simflip_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecallEstimate {
    /// Number of texts that were sampled and compared.
    pub sampled: u64,
    /// Number of texts that each of them was compared with.
    pub compared: u64,
    /// Number of sampled texts that are near another. Where containment decides, it is 0, as are `pairs` and `found`.
    pub with_pairs: u64,
    /// Number of near pairs, by verification, of a sampled text and another, sampled or not.
    pub pairs: u64,
    /// Number of these pairs that share a band hash, or, if the run does not join by band hashes, that it found.
    pub found: u64,
    /// The share of found pairs in near pairs, and the interval that holds that of all texts in 95 of 100 samples. None
    /// where there are fewer than [`FEWEST`] pairs.
    pub recall: Option<Estimated>,
    /// The share of documents that the run removed among those that a complete search would have removed. None where
    /// there are no such documents, or the run does not assign documents.
    pub documents: Option<Removed>,
    /// The documents that a lower threshold would remove as well. None where the run does not assign documents, or
    /// where bits do not decide.
    #[serde(default)]
    #[doc(hidden)]
    pub lower: Option<Lower>,
}

/// Documents that a run keeps, and that have an earlier kept near-duplicate at a lower threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct Lower {
    /// The lower threshold.
    pub similarity: f64,
    /// Number of such documents in the sample, without those that the run missed at its own threshold.
    pub more: u64,
    /// The share of such documents in all distinct texts, with the interval of 95 of 100 samples.
    pub share: Estimated,
}

/// The least share that a lower threshold must surely add before a run reports it.
const WORTH_REPORTING: f64 = 0.01;

impl Lower {
    /// `more` documents of a sample of `sampled` from `all`; none without a sample, or for a threshold of 0 or less.
    fn of(similarity: f64, more: u64, [sampled, all]: [u64; 2]) -> Option<Self> {
        if sampled == 0 || similarity <= 0.0 {
            return None;
        }
        let share = more as f64 / sampled as f64;
        let [low, high] = sampling_interval(share, [sampled as f64, all as f64]);
        Some(Self { similarity, more, share: Estimated { share, low, high } })
    }

    /// True if the lower end of the interval is at least 1 %.
    pub fn is_worth_reporting(&self) -> bool {
        self.share.low >= WORTH_REPORTING
    }
}

/// The number of documents that were removed as near-duplicates, and of those that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Removed {
    /// Number of distinct texts that the run removed for another text.
    pub removed: u64,
    /// Number of sampled texts that are kept, though verification would remove them for an earlier kept document.
    pub missed: u64,
    /// The share of the removed texts in the removed and the missed of all texts, with the interval of 95 of 100
    /// samples.
    pub recall: Estimated,
}

/// A share, 0 to 1, with an interval that holds the true share in 95 of 100 samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    /// The share.
    pub share: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The fewest pairs for which a recall is estimated.
pub const FEWEST: u64 = 20;

/// The most texts that are sampled.
pub(crate) const MOST_SAMPLED: usize = 4096;

/// The fewest texts that are sampled, if there are as many.
const LEAST_SAMPLED: usize = 160;

/// Comparisons that any run has time for.
const FREE_COMPARISONS: u64 = 1 << 24;

/// Sampled texts whose pairs with the other sampled ones tell how many are compared with all texts.
const FIRST: usize = 160;

/// Pairs that say enough: no more texts are compared than are expected to show this number, or [`FIRST`]. Each document
/// of a large template is near all others of it, and what more of them would show takes longer than the run.
const ENOUGH: u64 = 1 << 16;

/// Number of texts that a run in memory compares with the sample at a time. They fill the blocks of a sieve evenly, and
/// take little memory.
const SHOWN_AT_ONCE: usize = 64 * Sieve::BLOCK;

/// A sampled text, or one that is compared with sampled texts: its bits and its band hashes.
#[derive(Clone, Copy, Debug)]
pub struct SampledText<'a> {
    /// Its rank in keep order, or its number among the texts of a run in memory.
    pub rank: Rank,
    /// The bits that estimate the Jaccard similarity.
    pub bits: SetBits<'a>,
    /// The band hashes.
    pub keys: &'a [u32],
}

impl<'a> SampledText<'a> {
    /// A text with these sketches, the forms of their bits, and its number of distinct features.
    pub fn new(rank: Rank, two: Two<'a>, forms: Forms, features: u32) -> Self {
        Self { rank, bits: SetBits { words: two.bits, size: features, forms }, keys: two.keys }
    }
}

/// The near pairs of a sampled text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    /// Pairs with another text.
    pairs: u32,
    /// Of these, found.
    found: u32,
    /// Of these, pairs with a kept text for which the sampled one would be removed.
    missed: u32,
    /// Of pairs with a kept text, the one that is most likely near: how many standard errors its estimate is above the
    /// threshold, and the error.
    likeliest: Option<(f32, f32)>,
    /// The greatest estimate of these pairs.
    nearest: f32,
    /// Pairs, found or not, whose estimate is at most [`NEXT_TO`] above the threshold, and below it.
    next_to: [u32; 2],
}

/// A similarity that is no farther from the threshold is next to it.
const NEXT_TO: f32 = 0.05;

/// The amount by which the threshold of [`Lower`] is below that of the run.
const LOWER_BY: f64 = 0.1;

/// The threshold of [`Lower`], in thousandths, so that it can be typed.
fn lower(threshold: f32) -> f64 {
    ((f64::from(threshold) - LOWER_BY) * 1000.0).round() / 1000.0
}

impl Count {
    fn add(&mut self, is_found: bool, is_missed: bool) {
        self.pairs += 1;
        self.found += u32::from(is_found);
        self.missed += u32::from(is_missed);
    }

    fn with(self, other: Self) -> Self {
        Self {
            pairs: self.pairs + other.pairs,
            found: self.found + other.found,
            missed: self.missed + other.missed,
            likeliest: match (self.likeliest, other.likeliest) {
                (Some(a), Some(b)) => Some(if a.0 >= b.0 { a } else { b }),
                (a, b) => a.or(b),
            },
            nearest: self.nearest.max(other.nearest),
            next_to: [0, 1].map(|side| self.next_to[side] + other.next_to[side]),
        }
    }
}

/// The probability that a similarity is at least a threshold, by its distance from it in standard errors: the normal
/// distribution, as Abramowitz & Stegun (1964, 26.2.17) approximate it.
fn probability(errors: f64) -> f64 {
    const FACTORS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * errors.abs());
    let series = FACTORS.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = libm::exp(-errors * errors / 2.0) / libm::sqrt(std::f64::consts::TAU) * series;
    if errors < 0.0 { tail } else { 1.0 - tail }
}

/// The counts of near pairs of sampled texts with some others, which [`TextSample::add`] takes.
#[derive(Clone, Debug)]
pub struct SampleCounts {
    /// The counts of each sampled text.
    sampled: Vec<Count>,
    /// Pairs of two sampled texts, which count for both.
    twice: Count,
}

/// A question about a pair: the sampled text comes first, and the other second.
pub type Decide<'a> = &'a (dyn Fn(&SampledText<'_>, &SampledText<'_>) -> bool + Sync);

/// The threshold, and the questions that are asked about each pair of a sampled text and another.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    /// The least Jaccard similarity of two near texts.
    pub threshold: f32,
    /// True if two texts are near, where features or edits are counted; `None` where bits decide.
    pub is_near: Option<Decide<'a>>,
    /// True if the run could find a near pair: it shares a band hash, say.
    pub is_found: Decide<'a>,
    /// True if the run missed to remove the sampled text for the other one, supposing that both are near.
    pub is_missed: Decide<'a>,
}

/// Sampled texts, in the order in which they are compared, and what comparisons with others have counted so far.
pub struct TextSample<'a> {
    sampled: Vec<SampledText<'a>>,
    /// The place of each by its number.
    places: HashMap<Rank, usize>,
    counts: Vec<Count>,
    twice: Count,
    /// Pairs whose estimate is below the threshold by no more than this are looked at, too.
    doubt: f32,
}

impl<'a> TextSample<'a> {
    /// A sample of these texts, none of which is compared yet. Pairs whose estimate is below the threshold by at most
    /// `doubt`, as the [function](doubt) gives it, are looked at, too.
    pub fn new(sampled: Vec<SampledText<'a>>, doubt: f32) -> Self {
        let places = sampled.iter().map(|shown| shown.rank).zip(0..).collect();
        let counts = vec![Count::default(); sampled.len()];
        Self { sampled, places, counts, twice: Count::default(), doubt }
    }

    /// The sample with fewer texts, if comparing all of them with `others` other texts would give more pairs than
    /// needed.
    #[must_use]
    pub fn limited(mut self, others: u64, by: Comparison<'_>) -> Self {
        let (first, sampled) = (FIRST.min(self.sampled.len()), self.sampled.len() as u64);
        let counts = self.compare_some(0..first, &mut self.sampled.clone(), by);
        let pairs = counts.sampled.iter().map(|count| u64::from(count.pairs)).sum::<u64>();
        let most = ENOUGH * first as u64 * sampled.saturating_sub(1) / (pairs * others).max(1);
        self.sampled.truncate(most.clamp(first as u64, sampled) as usize);
        Self::new(self.sampled, self.doubt)
    }

    /// Compares the sampled texts with `others`, which come in any order and are sorted by size. [`add`](Self::add)
    /// takes the counts.
    pub fn compare(&self, others: &mut [SampledText<'_>], by: Comparison<'_>) -> SampleCounts {
        self.compare_some(0..self.sampled.len(), others, by)
    }

    fn compare_some(
        &self,
        places: Range<usize>,
        others: &mut [SampledText<'_>],
        by: Comparison<'_>,
    ) -> SampleCounts {
        // Sizes are few, so that a stable sort by them is faster than one by ranks as well.
        others.sort_by_key(|other| other.bits.size);
        let nothing =
            || SampleCounts { sampled: vec![Count::default(); places.len()], twice: Count::default() };
        let in_doubt = by.threshold - self.doubt;
        let least = if by.is_near.is_some() { in_doubt } else { in_doubt.min(lower(by.threshold) as f32) };

        let counted = others.par_chunks(Sieve::BLOCK).fold(nothing, |mut counts, block| {
            let sieve = Sieve::new(block.iter().map(|other| other.bits).collect());
            let mut near = Vec::new();
            for (at, count) in places.clone().zip(&mut counts.sampled) {
                let sampled = &self.sampled[at];
                sieve.near(sampled.bits, least, &mut near);
                let near = near.iter().map(|&at| &block[at as usize]);
                for other in near.filter(|other| other.rank != sampled.rank) {
                    let is_near = match by.is_near {
                        Some(is_near) => is_near(sampled, other),
                        None => {
                            let estimate = jaccard::estimate(sampled.bits, other.bits);
                            if estimate > count.nearest && (by.is_missed)(sampled, other) {
                                count.nearest = estimate;
                            }
                            if estimate < in_doubt {
                                continue;
                            }
                            let above = f64::from(estimate - by.threshold);
                            let error = jaccard::error(sampled.bits, other.bits, f64::from(by.threshold));
                            let errors = match error > 0.0 {
                                true => (above / error) as f32,
                                false if above >= 0.0 => f32::INFINITY,
                                false => f32::NEG_INFINITY,
                            };
                            if count.likeliest.is_none_or(|(most, _)| errors > most)
                                && (by.is_missed)(sampled, other)
                            {
                                count.likeliest = Some((errors, error as f32));
                            }
                            if above.abs() <= f64::from(NEXT_TO.min(self.doubt)) {
                                count.next_to[usize::from(above < 0.0)] += 1;
                            }
                            estimate >= by.threshold
                        }
                    };
                    if !is_near {
                        continue;
                    }
                    let (is_found, is_missed) =
                        ((by.is_found)(sampled, other), (by.is_missed)(sampled, other));
                    count.add(is_found, is_missed);
                    if self.places.get(&other.rank).is_some_and(|&other| other < at) {
                        counts.twice.add(is_found, false);
                    }
                }
            }
            counts
        });
        counted.reduce(nothing, sum)
    }

    /// Adds the counts of a comparison with some others.
    pub fn add(&mut self, counts: SampleCounts) {
        self.counts.iter_mut().zip(counts.sampled).for_each(|(sum, count)| *sum = sum.with(count));
        self.twice = self.twice.with(counts.twice);
    }

    /// The slope at which the logarithm of the number of pairs falls with their similarity, next to the threshold.
    /// Where more pairs are below it than above, a pair with an estimate at the threshold is likely one of those below.
    fn slope(&self) -> f64 {
        let sum = |side: usize| self.counts.iter().map(|count| f64::from(count.next_to[side])).sum::<f64>();
        let [above, below] = [0, 1].map(|side| sum(side) + 1.0);
        (libm::log(below / above) / f64::from(NEXT_TO.min(self.doubt))).clamp(0.0, 60.0)
    }

    /// The estimate, once the texts are compared with all others. The sample is from `sampled_from` texts, each
    /// compared with `others`. `threshold` is the least similarity of near ones, or none where bits do not decide.
    /// `removed` is the number of texts that the run removed for another, or none if it does not assign them.
    pub fn estimate(
        &self,
        [sampled_from, others]: [u64; 2],
        threshold: Option<f32>,
        removed: Option<u64>,
    ) -> RecallEstimate {
        let mut recall_estimate = RecallEstimate::of(&self.counts, self.twice, sampled_from as usize);
        recall_estimate.compared = others;
        let missed = self.counts.iter().filter(|count| count.missed > 0).count() as u64;
        let range = match self.counts.iter().any(|count| count.likeliest.is_some()) {
            false => [missed as f64; 2],
            true => {
                let slope = self.slope();
                let likely =
                    |&(errors, error): &(f32, f32)| probability(f64::from(errors) - slope * f64::from(error));
                let likely = self.counts.iter().filter_map(|count| count.likeliest.as_ref().map(likely));
                may_be_missed(likely, missed as f64)
            }
        };
        recall_estimate.documents = removed.and_then(|removed| {
            Removed::within(removed, missed, range, [recall_estimate.sampled, sampled_from])
        });
        recall_estimate.lower = removed.and(threshold).and_then(|threshold| {
            let lower = lower(threshold);
            let between = lower as f32..threshold;
            let more = self.counts.iter().filter(|count| between.contains(&count.nearest)).count();
            Lower::of(lower, more as u64, [recall_estimate.sampled, sampled_from])
        });
        recall_estimate
    }
}

/// The least and the greatest number of sampled texts that may be missed, from the probability of each: the expected
/// number, less and plus two standard deviations. The range holds the number that was counted.
fn may_be_missed(probabilities: impl Iterator<Item = f64>, counted: f64) -> [f64; 2] {
    /// A text with this probability counts as missed for sure; one with the rest of it, as not missed.
    const SURE: f64 = 0.995;
    let (mut expected, mut variance, mut least, mut most) = (0.0, 0.0, 0.0, 0.0);
    for probability in probabilities {
        expected += probability;
        variance += probability * (1.0 - probability);
        least += f64::from(probability >= SURE);
        most += f64::from(probability > 1.0 - SURE);
    }
    let deviation = 2.0 * variance.sqrt();
    [(expected - deviation).max(least).min(counted), (expected + deviation).min(most).max(counted)]
}

/// Sums the counts of sampled texts over some others and over more of them.
fn sum(mut sums: SampleCounts, more: SampleCounts) -> SampleCounts {
    sums.sampled.iter_mut().zip(more.sampled).for_each(|(sum, count)| *sum = sum.with(count));
    SampleCounts { twice: sums.twice.with(more.twice), ..sums }
}

/// The facts about a run that its estimate depends on.
pub(crate) struct Known<'a> {
    /// True if the run could find a near pair.
    pub is_found: Decide<'a>,
    /// True if the run missed to remove the first of two near texts for the second.
    pub is_missed: Decide<'a>,
    /// Number of texts that the run removed for another; none if it does not assign them.
    pub removed: Option<u64>,
    /// The number of the first reference document. A text that a reference document has is not sampled.
    pub first_reference: usize,
}

impl Default for Known<'_> {
    fn default() -> Self {
        Self { is_found: &|_, _| false, is_missed: &|_, _| false, removed: None, first_reference: usize::MAX }
    }
}

/// Samples texts of a run in memory and compares them with all. None where there are no bits to compare, or
/// verification does not go by a Jaccard similarity. The rank of a [`SampledText`] is its text's number here.
pub(crate) fn estimate(
    verification: Verification,
    seed: u64,
    evidence: &Evidence<'_>,
    known: &Known<'_>,
) -> Option<RecallEstimate> {
    let least = verification.threshold()?;
    // The Jaccard similarity of near texts.
    let threshold = match verification {
        Verification::Estimate(_) | Verification::Jaccard(_) => least,
        Verification::Edits(_) => edits::coefficient(least),
        _ => return None,
    } as f32;
    let measure = verification.measure()?;
    let text = |shown: &SampledText<'_>| Text(shown.rank.0);
    let shown = |text: Text| {
        Some(SampledText { rank: Rank(text.0), bits: evidence.bits(text)?, keys: evidence.two(text)?.keys })
    };
    let all = || evidence.texts.sketched.iter().copied().filter(|&text| evidence.two(text).is_some());
    let bits = shown(all().next()?)?.bits;
    let number = all().count() as u64;
    let is_reference = |text: Text| {
        evidence.texts.copies(text).last().is_some_and(|copy| copy.index() >= known.first_reference)
    };
    let bytes = evidence.texts.sketched.iter().map(|&text| evidence.facts(text).text_bytes).sum();
    let mut sampler = DocumentSampler::new(seed, most_sampled(number, bytes));
    for text in all().filter(|&text| !is_reference(text)) {
        sampler.add(Rank(text.0), evidence.facts(text).digest);
    }
    let (sampled, sampled_from) = sampler.finish();
    if sampled.is_empty() {
        return None;
    }
    let sampled: Vec<SampledText<'_>> = sampled.into_iter().filter_map(|rank| shown(Text(rank.0))).collect();
    let is_near = |a: &SampledText<'_>, b: &SampledText<'_>| {
        let anchor = evidence.anchor(measure, text(a)).at_least(least);
        anchor.with(&evidence.compared(text(b))) >= least as f32
    };
    let by = Comparison {
        threshold,
        is_near: (measure != Measure::Estimate).then_some(&is_near),
        is_found: known.is_found,
        is_missed: known.is_missed,
    };
    let others = number.saturating_sub(1);
    let mut sample =
        TextSample::new(sampled, doubt(threshold, bits.words.len(), bits.forms)).limited(others, by);
    for some in evidence.texts.sketched.chunks(SHOWN_AT_ONCE) {
        let mut some: Vec<SampledText<'_>> = some.iter().filter_map(|&text| shown(text)).collect();
        let counted = sample.compare(&mut some, by);
        sample.add(counted);
    }
    Some(sample.estimate([sampled_from, others], by.is_near.is_none().then_some(threshold), known.removed))
}

/// The most by which the estimate for two near texts may be below a threshold, for bits of `words` words and of these
/// forms: three standard errors.
pub fn doubt(threshold: f32, words: usize, forms: Forms) -> f32 {
    3.0 * jaccard::largest_error(f64::from(threshold), words, forms) as f32
}

/// Makes a question that is true for pairs among the near pairs that a run found.
pub(crate) fn is_among(found: &[TextPair]) -> impl Fn(&SampledText<'_>, &SampledText<'_>) -> bool + Sync {
    let mut found: Vec<(u32, u32)> = found.iter().map(|pair| (pair.a.0, pair.b.0)).collect();
    found.sort_unstable();
    move |a, b| found.binary_search(&(a.rank.0.min(b.rank.0), a.rank.0.max(b.rank.0))).is_ok()
}

/// True if two texts have the same hash of a band: then they are in one bucket, and the run could compare them.
pub fn share_a_key(a: &SampledText<'_>, b: &SampledText<'_>) -> bool {
    a.keys.iter().zip(b.keys).any(|(a, b)| a == b)
}

/// The number of texts to sample from `all` texts with `bytes` bytes together, 160 to 4,096. Comparing them takes a
/// twentieth of the time of a run, at a nanosecond a comparison and seven nanoseconds a byte. A small run takes more.
pub fn most_sampled(all: u64, bytes: u64) -> usize {
    let most = (bytes / 3).max(FREE_COMPARISONS) / all.max(1);
    usize::try_from(most).unwrap_or(MOST_SAMPLED).clamp(LEAST_SAMPLED, MOST_SAMPLED)
}

/// Samples documents at random: those whose digests, hashed with the seed, are least. The order in which documents come
/// does not matter.
pub struct DocumentSampler {
    seed: u64,
    most: usize,
    /// The greatest of the least leaves first.
    least: BinaryHeap<((u64, u128), Rank)>,
    from: u64,
}

impl DocumentSampler {
    /// A sampler of at most `most` documents.
    pub fn new(seed: u64, most: usize) -> Self {
        Self { seed, most, least: BinaryHeap::new(), from: 0 }
    }

    /// Adds a document that may be sampled, by its rank and the digest of its text.
    pub fn add(&mut self, rank: Rank, digest: u128) {
        self.from += 1;
        let one = (sampling_key(digest, self.seed), rank);
        // Nearly all documents come behind those that are sampled so far.
        if self.least.len() < self.most {
            self.least.push(one);
        } else if let Some(mut greatest) = self.least.peek_mut()
            && one < *greatest
        {
            *greatest = one;
        }
    }

    /// The sampled documents, in random order, and the number of documents that they were sampled from.
    pub fn finish(self) -> (Vec<Rank>, u64) {
        (self.least.into_sorted_vec().into_iter().map(|(_, rank)| rank).collect(), self.from)
    }
}

/// The key by which texts are sampled: those with the least keys are.
pub(crate) fn sampling_key(digest: u128, seed: u64) -> (u64, u128) {
    (fmix64(digest as u64 ^ seed), digest)
}

impl Removed {
    /// Estimates from the number of removed texts, and of missed ones in a sample of `sampled` from `all`. None without
    /// a sample, or if no text was removed or missed.
    pub(crate) fn of(removed: u64, missed: u64, sampled: u64, all: u64) -> Option<Self> {
        Self::within(removed, missed, [missed as f64; 2], [sampled, all])
    }

    /// The interval where the number of missed texts in the sample is only known to lie in a range.
    fn within(removed: u64, missed: u64, [least, most]: [f64; 2], [sampled, all]: [u64; 2]) -> Option<Self> {
        if sampled == 0 || removed as f64 + most == 0.0 {
            return None;
        }
        let (sampled, all) = (sampled as f64, all as f64);
        let recall = |missed: f64| removed as f64 / (removed as f64 + missed * all);
        let share = if removed + missed == 0 { 0.0 } else { recall(missed as f64 / sampled) };
        // Where nothing is missed in the sample, something may be missed elsewhere.
        let bounds = |missed: f64| sampling_interval(missed / sampled, [sampled, all]);
        let (low, high) = (recall(bounds(most)[1]), recall(bounds(least)[0]));
        Some(Self {
            removed,
            missed,
            recall: Estimated { share, low: low.min(share), high: high.max(share) },
        })
    }
}

impl RecallEstimate {
    /// The recall estimate of a run that counts documents and no pairs. `sampled` documents were each compared with
    /// `compared` others.
    pub(crate) fn of_documents([sampled, compared]: [u64; 2], documents: Option<Removed>) -> Self {
        Self { sampled, compared, with_pairs: 0, pairs: 0, found: 0, recall: None, documents, lower: None }
    }

    /// Estimates from the pairs of each sampled text, and those of them that show twice, of `all` texts.
    fn of(counts: &[Count], twice: Count, all: usize) -> Self {
        let sum = |of: fn(&Count) -> u32| counts.iter().map(|count| u64::from(of(count))).sum::<u64>();
        let (pairs, found) = (sum(|count| count.pairs), sum(|count| count.found));
        let with_pairs = counts.iter().filter(|count| count.pairs > 0).count() as u64;
        let distinct = pairs - u64::from(twice.pairs);
        let recall = (distinct >= FEWEST).then(|| interval(counts, pairs, found, with_pairs, all));
        Self {
            sampled: counts.len() as u64,
            compared: all.saturating_sub(1) as u64,
            with_pairs,
            pairs: distinct,
            found: found - u64::from(twice.found),
            recall,
            documents: None,
            lower: None,
        }
    }
}

/// The recall of a sample of texts, whose pairs come in families: Wilson's interval (1927) for as many
/// independent pairs as the sample is worth, by the variance of a ratio of sums (Cochran 1977, chapter 6),
/// with the correction for sampling without replacement.
fn interval(counts: &[Count], pairs: u64, found: u64, with_pairs: u64, all: usize) -> Estimated {
    let (n, share) = (pairs as f64, found as f64 / pairs as f64);
    let squares: f64 =
        counts.iter().map(|count| (f64::from(count.found) - share * f64::from(count.pairs)).powi(2)).sum();
    let not_sampled = 1.0 - counts.len() as f64 / all as f64;
    if not_sampled <= 0.0 {
        return Estimated { share, low: share, high: share };
    }
    // Texts with pairs are what was sampled; however alike their pairs turn out, they are no more than these.
    let independent = match squares > 0.0 {
        true => (share * (1.0 - share) * n * n / squares).min(n).min(with_pairs as f64),
        false => with_pairs as f64,
    };
    let [low, high] = wilson(share, independent / not_sampled);
    Estimated { share, low, high }
}

/// The interval of a share in a sample of `sampled` from `all`.
fn sampling_interval(share: f64, [sampled, all]: [f64; 2]) -> [f64; 2] {
    let not_sampled = 1.0 - sampled / all;
    if not_sampled <= 0.0 { [share; 2] } else { wilson(share, sampled / not_sampled) }
}

/// Wilson's interval (1927) of a share in `n` independent observations, for 95 of 100 samples.
fn wilson(share: f64, n: f64) -> [f64; 2] {
    const Z: f64 = 1.96;
    let centre = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    [(centre - half).max(0.0), (centre + half).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;

    /// Families of texts, of which each pair is found or not: often all of a family's alike.
    fn families(rng: &mut SplitMix64, texts: usize, missed: f64, alike: f64) -> Vec<Count> {
        let mut counts = Vec::new();
        while counts.len() < texts {
            let size = [1, 1, 1, 1, 2, 2, 2, 3, 5, 9][rng.below(10) as usize];
            let all_missed = rng.unit() < missed;
            let mut family = vec![Count::default(); size];
            for a in 0..size {
                for b in a + 1..size {
                    let found = if rng.unit() < alike { !all_missed } else { rng.unit() >= missed };
                    for at in [a, b] {
                        family[at].add(found, false);
                    }
                }
            }
            counts.extend(family);
        }
        counts
    }

    #[test]
    fn intervals_cover_the_recall_of_all_texts() {
        let mut rng = SplitMix64::new(11);
        for (texts, sampled, missed, alike) in [
            (20_000, 2_000, 0.03, 0.3),
            (20_000, 1_000, 0.1, 0.0),
            (6_000, 3_000, 0.02, 0.5),
            (50_000, 1_000, 0.3, 0.5),
        ] {
            let all = families(&mut rng, texts, missed, alike);
            let truth = {
                let of = |f: fn(&Count) -> u32| all.iter().map(|c| f64::from(f(c))).sum::<f64>();
                of(|c| c.found) / of(|c| c.pairs)
            };
            let mut covered = 0;
            for _ in 0..400 {
                let mut order: Vec<usize> = (0..all.len()).collect();
                for at in 0..sampled {
                    let other = at + rng.below((all.len() - at) as u64) as usize;
                    order.swap(at, other);
                }
                let sample: Vec<Count> = order[..sampled].iter().map(|&at| all[at]).collect();
                let recall = RecallEstimate::of(&sample, Count::default(), all.len()).recall.unwrap();
                covered += usize::from((recall.low..=recall.high).contains(&truth));
            }
            assert!(covered >= 372, "{texts} {sampled} {missed} {alike}: {covered} of 400");
        }
    }

    #[test]
    fn what_bits_may_be_wrong_by_is_in_the_interval() {
        // Values of tables of the normal distribution.
        for (errors, expected) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.0, 0.158_655_3), (-3.0, 0.001_349_9)] {
            assert!((probability(errors) - expected).abs() < 1e-6, "{errors}");
        }
        assert_eq!(may_be_missed([1.0, 0.0, 0.0].into_iter(), 1.0), [1.0, 1.0]);
        let [least, most] = may_be_missed([0.5; 100].into_iter(), 52.0);
        assert!((least - 40.0).abs() < 1e-9 && (most - 60.0).abs() < 1e-9);
        // One that was not counted, and one that was, may each be either.
        assert_eq!(may_be_missed([0.4, 0.6].into_iter(), 1.0)[1], 2.0);
        let all = Removed::within(9, 0, [0.0, 1.0], [50, 50]).unwrap().recall;
        assert_eq!((all.share, all.low, all.high), (1.0, 0.9, 1.0));
        let sampled = Removed::within(90, 1, [0.5, 2.0], [100, 1_000]).unwrap().recall;
        let known = Removed::of(90, 1, 100, 1_000).unwrap().recall;
        assert!(sampled.low < known.low && known.high < sampled.high && sampled.share == known.share);
    }

    #[test]
    fn fewer_texts_are_sampled_where_comparisons_or_pairs_are_many() {
        let sampled = [(1_000, 240_000), (120_000, 28_800_000), (1_000_000, 1_000_000_000), (9, 1 << 40)];
        assert_eq!(sampled.map(|(all, bytes)| most_sampled(all, bytes)), [4_096, 160, 333, 4_096]);

        let mut rng = SplitMix64::new(5);
        let strangers: Vec<[u64; 16]> = (0..1_000).map(|_| [(); 16].map(|()| rng.next_u64())).collect();
        let near = |_: &SampledText<'_>, _: &SampledText<'_>| true;
        let by = Comparison { threshold: 0.8, is_near: None, is_found: &near, is_missed: &near };
        let limited = |texts: &[[u64; 16]], others| {
            let shown = |(words, at): (_, usize)| {
                let bits = SetBits::by_size(words, 900);
                SampledText { rank: Rank::at(at), bits, keys: &[] }
            };
            let texts = texts.iter().map(|words| &words[..]).zip(0..).map(shown).collect();
            TextSample::new(texts, 0.1).limited(others, by).sampled.len() as u64
        };
        assert_eq!(limited(&strangers, 1 << 30), 1_000);
        let alike = vec![strangers[0]; 1_000];
        assert_eq!(
            [50, 300, 1 << 30].map(|others| limited(&alike, others)),
            [1_000, ENOUGH / 300, FIRST as u64]
        );
    }

    #[test]
    fn few_pairs_tell_nothing_and_all_texts_tell_all() {
        let recall_estimate = |pairs, found, texts, all| {
            RecallEstimate::of(
                &vec![Count { pairs, found, ..Count::default() }; texts],
                Count::default(),
                all,
            )
        };
        assert_eq!(recall_estimate(1, 1, 19, 1000).recall, None);
        let all = recall_estimate(2, 1, 50, 50).recall.unwrap();
        assert_eq!((all.share, all.low, all.high), (0.5, 0.5, 0.5));
        let none_missed = recall_estimate(1, 1, 50, 1000).recall.unwrap();
        assert!(none_missed.high == 1.0 && (0.9..0.95).contains(&none_missed.low), "{none_missed:?}");
    }
}
