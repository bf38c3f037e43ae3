//! How much a net missed, measured on the documents of the run itself.
//!
//! Some texts are drawn and compared with all others by the bits that judge, which no key shows: whatever the
//! judge would have called near is known for these texts, and how much of it the net brought up is a sample
//! of what it brings up in all.

use crate::hash::fmix64;
use crate::id::Text;
use crate::judge::{Evidence, TextPair};
use crate::resemblance::{self, Bits, Sieve, Test};
use crate::settings::Judge;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What drawing texts and comparing them with all others has shown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Audit {
    /// Texts that were drawn and compared.
    pub drawn: u64,
    /// Texts that each of them was compared with.
    pub compared: u64,
    /// Drawn texts that are near another.
    pub with_pairs: u64,
    /// Pairs of a drawn text and another, drawn or not, that the judge calls near.
    pub pairs: u64,
    /// Of these, pairs that the run found.
    pub found: u64,
    /// The recall, and the interval that holds that of all texts in 95 of 100 samples; none where there are
    /// fewer than [`FEWEST`] pairs.
    pub recall: Option<Estimated>,
}

/// A share with an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    /// The share.
    pub share: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

/// Pairs from which on a recall is told.
pub const FEWEST: u64 = 20;

/// Texts that are drawn, at most.
pub(crate) const MOST_DRAWN: usize = 4096;

/// Comparisons that an audit may take: at some nanoseconds each, a few percent of reading that many pages.
const MOST_COMPARISONS: usize = 1 << 32;

/// Texts that are drawn of however many.
const LEAST_DRAWN: usize = 1000;

/// Drawn texts that are compared first. Where they have [`ENOUGH`] pairs no other is: each page of a large template is
/// near all others of it, and what more of them would show takes longer than the run.
const FIRST: usize = 256;

/// Pairs of the [`FIRST`] drawn texts that say enough.
const ENOUGH: u64 = 1 << 18;

struct Candidate<'a> {
    text: Text,
    bits: Bits<'a>,
}

/// Near pairs, and those of them that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    pairs: u32,
    found: u32,
}

impl Count {
    fn add(&mut self, is_found: bool) {
        self.pairs += 1;
        self.found += u32::from(is_found);
    }

    fn with(self, other: Self) -> Self {
        Self { pairs: self.pairs + other.pairs, found: self.found + other.found }
    }
}

/// Draws texts and compares them with all. None where there are no bits to judge by, or the judge does not go
/// by a Jaccard coefficient.
pub(crate) fn audit(judge: Judge, seed: u64, evidence: &Evidence<'_>, found: &[TextPair]) -> Option<Audit> {
    let threshold = judge.threshold()? as f32;
    let measure = match judge {
        Judge::Estimate(_) | Judge::EstimatedContainment(_) | Judge::Jaccard(_) => judge.measure()?,
        _ => return None,
    };
    let mut all: Vec<Candidate<'_>> = evidence
        .texts
        .sketched
        .iter()
        .filter_map(|&text| Some(Candidate { text, bits: evidence.bits(text)? }))
        .collect();
    // What two sizes rule out needs no bits, and by size it lies at both ends.
    all.sort_unstable_by_key(|candidate| (candidate.bits.size, candidate.text));
    let words = all.first()?.bits.words.len();
    let most = most_drawn(all.len() as u64);
    let mut drawn: Vec<&Candidate<'_>> = all.iter().collect();
    let key = |candidate: &&Candidate<'_>| drawing_key(evidence.facts(candidate.text).digest, seed);
    if drawn.len() > most {
        drawn.select_nth_unstable_by_key(most, key);
        drawn.truncate(most);
    }
    drawn.sort_unstable_by_key(key);
    let mut ranks: Vec<(Text, usize)> = drawn.iter().map(|candidate| candidate.text).zip(0..).collect();
    ranks.sort_unstable();
    let rank = |text: Text| ranks.binary_search_by_key(&text, |&(text, _)| text).ok().map(|at| ranks[at].1);
    // With whom each drawn text was found to be near, ascending, as the pairs are.
    let mut partners = vec![Vec::new(); drawn.len()];
    for pair in found {
        for (text, other) in [(pair.a, pair.b), (pair.b, pair.a)] {
            if let Some(rank) = rank(text) {
                partners[rank].push(other);
            }
        }
    }
    let doubt = match measure.needs_features() {
        // What counts features is not asked below what the bits can be wrong by.
        true => 4.0 * resemblance::standard_error(f64::from(threshold), words * 64, u32::MAX) as f32,
        false => 0.0,
    };
    let test = Test::of(measure, threshold - doubt);
    let keys = |text: Text| evidence.two(text).map(|two| two.keys);
    // What passes the test is near, unless chance would do as well, or features have to be counted.
    let is_near = |a: &Candidate<'_>, b: &Candidate<'_>| match measure.needs_features() {
        true => evidence.anchor(measure, a.text).with(&evidence.page(b.text)) >= threshold,
        false => test.is_near(a.bits, b.bits, || keys(a.text) == keys(b.text)),
    };
    // For each of these drawn texts what it has of pairs; and what of it shows from another drawn text as well.
    let count = |ranks: Range<usize>| {
        let counted = all.par_chunks(Sieve::BLOCK).fold(
            || (vec![Count::default(); ranks.len()], Count::default()),
            |(mut counts, mut twice), block| {
                let sieve = Sieve::new(block.iter().map(|candidate| candidate.bits).collect());
                let mut near = Vec::new();
                for (at, count) in ranks.clone().zip(&mut counts) {
                    let a = drawn[at];
                    sieve.near(a.bits, test, &mut near);
                    let near = near.iter().map(|&at| &block[at as usize]);
                    for b in near.filter(|b| b.text != a.text && is_near(a, b)) {
                        let is_found = partners[at].binary_search(&b.text).is_ok();
                        count.add(is_found);
                        if rank(b.text).is_some_and(|other| other < at) {
                            twice.add(is_found);
                        }
                    }
                }
                (counts, twice)
            },
        );
        counted.reduce(Default::default, |(mut sums, twice), (counts, more)| {
            sums.resize(counts.len().max(sums.len()), Count::default());
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.with(count));
            (sums, twice.with(more))
        })
    };
    let (mut counts, mut twice) = (Vec::new(), Count::default());
    for ranks in steps(drawn.len()) {
        let (of_step, twice_in_step) = count(ranks);
        counts.extend(of_step);
        twice = twice.with(twice_in_step);
        if is_enough(counts.iter().map(|count| u64::from(count.pairs)).sum()) {
            break;
        }
    }
    Some(Audit::of(&counts, twice, all.len()))
}

/// How many of so many texts are drawn.
pub(crate) fn most_drawn(all: u64) -> usize {
    usize::try_from(MOST_COMPARISONS as u64 / all.max(1)).unwrap_or(MOST_DRAWN).clamp(LEAST_DRAWN, MOST_DRAWN)
}

/// The drawn texts, by the order in which they are drawn, that are compared one step after the other, while what the
/// steps have shown is not [enough](is_enough).
pub(crate) fn steps(drawn: usize) -> impl Iterator<Item = Range<usize>> {
    let first = drawn.min(FIRST);
    [0..first, first..drawn].into_iter().filter(|ranks| !ranks.is_empty())
}

/// Whether so many pairs, those of two drawn texts counted from both, say enough.
pub(crate) fn is_enough(pairs: u64) -> bool {
    pairs >= ENOUGH
}

/// Texts with the least of these are drawn: the same ones in whatever order they come.
pub(crate) fn drawing_key(digest: u128, seed: u64) -> (u64, u128) {
    (fmix64(digest as u64 ^ seed), digest)
}

/// Pairs of drawn pages and others while they are told one by one.
pub struct Tally {
    /// Ascending.
    drawn: Vec<u64>,
    counts: Vec<Count>,
    twice: Count,
    all: u64,
}

impl Tally {
    /// Of these drawn pages, of so many in all.
    pub fn new(mut drawn: Vec<u64>, all: u64) -> Self {
        drawn.sort_unstable();
        Self { counts: vec![Count::default(); drawn.len()], drawn, twice: Count::default(), all }
    }

    /// A drawn page and another that are near, and whether the pair was found. A pair of two drawn pages comes
    /// twice.
    pub fn add(&mut self, page: u64, other: u64, is_found: bool) {
        let Ok(at) = self.drawn.binary_search(&page) else { return };
        self.counts[at].add(is_found);
        if other < page && self.drawn.binary_search(&other).is_ok() {
            self.twice.add(is_found);
        }
    }

    /// What came of it.
    pub fn audit(&self) -> Audit {
        Audit::of(&self.counts, self.twice, usize::try_from(self.all).unwrap_or(usize::MAX))
    }
}

impl Audit {
    /// From what each drawn text has of pairs and what of that shows twice, of so many texts in all.
    fn of(counts: &[Count], twice: Count, all: usize) -> Self {
        let sum = |of: fn(&Count) -> u32| counts.iter().map(|count| u64::from(of(count))).sum::<u64>();
        let (pairs, found) = (sum(|count| count.pairs), sum(|count| count.found));
        let with_pairs = counts.iter().filter(|count| count.pairs > 0).count() as u64;
        let distinct = pairs - u64::from(twice.pairs);
        let recall = (distinct >= FEWEST).then(|| interval(counts, pairs, found, with_pairs, all));
        Self {
            drawn: counts.len() as u64,
            compared: all.saturating_sub(1) as u64,
            with_pairs,
            pairs: distinct,
            found: found - u64::from(twice.found),
            recall,
        }
    }
}

/// The recall of a sample of texts, whose pairs come in families: Wilson's interval (1927) for as many
/// independent pairs as the sample is worth, by the variance of a ratio of sums (Cochran 1977, chapter 6),
/// with the correction for drawing without replacement.
fn interval(counts: &[Count], pairs: u64, found: u64, with_pairs: u64, all: usize) -> Estimated {
    const Z: f64 = 1.96;
    let (n, share) = (pairs as f64, found as f64 / pairs as f64);
    let squares: f64 =
        counts.iter().map(|count| (f64::from(count.found) - share * f64::from(count.pairs)).powi(2)).sum();
    let not_drawn = 1.0 - counts.len() as f64 / all as f64;
    if not_drawn <= 0.0 {
        return Estimated { share, low: share, high: share };
    }
    // Texts with pairs are what was drawn; however alike their pairs turn out, they are no more than these.
    let independent = match squares > 0.0 {
        true => (share * (1.0 - share) * n * n / squares).min(n).min(with_pairs as f64),
        false => with_pairs as f64,
    };
    let n = independent / not_drawn;
    let centre = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Estimated { share, low: (centre - half).max(0.0), high: (centre + half).min(1.0) }
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
                        family[at].add(found);
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
        for (texts, drawn, missed, alike) in [
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
                for at in 0..drawn {
                    let other = at + rng.below((all.len() - at) as u64) as usize;
                    order.swap(at, other);
                }
                let sample: Vec<Count> = order[..drawn].iter().map(|&at| all[at]).collect();
                let recall = Audit::of(&sample, Count::default(), all.len()).recall.unwrap();
                covered += usize::from((recall.low..=recall.high).contains(&truth));
            }
            assert!(covered >= 372, "{texts} {drawn} {missed} {alike}: {covered} of 400");
        }
    }

    #[test]
    fn few_pairs_tell_nothing_and_all_texts_tell_all() {
        let audit =
            |pairs, found, texts, all| Audit::of(&vec![Count { pairs, found }; texts], Count::default(), all);
        assert_eq!(audit(1, 1, 19, 1000).recall, None);
        let all = audit(2, 1, 50, 50).recall.unwrap();
        assert_eq!((all.share, all.low, all.high), (0.5, 0.5, 0.5));
        let none_missed = audit(1, 1, 50, 1000).recall.unwrap();
        assert!(none_missed.high == 1.0 && (0.9..0.95).contains(&none_missed.low), "{none_missed:?}");
    }
}
