//! A [`Model`] stands for the data in a plan, by near pairs and by a sample of the stored hashes. A plan chooses an
//! index for a search, with its tables and probes, before any index is built.

use rayon::prelude::*;

use crate::generate::NearPairs;
use crate::kernel::{Level, lowest_margin::Margins};
use crate::search::dial::Probes;
use crate::simhash::BITS;

/// A `PairMargins` stands for two near hashes. It has the bits in which they differ, and the margins of the bits of
/// each. The margin of a bit is the distance from zero of the weighted sum whose sign the bit is. It is kept in a byte,
/// relative to the largest of the hash. A query flips bits of small margins first.
#[derive(Clone, Debug)]
pub struct PairMargins {
    differing: u64,
    /// The margins of the first hash, which is searched from, and of the second.
    margins: [Margins; 2],
}

impl PairMargins {
    /// Makes the pair of two hashes that differ in the bits of the mask `differing`. `weights` has, for each hash, the
    /// weighted sums whose signs are its bits. If [`Task::join`](super::Task::join) is false, each query has the first
    /// hash of a pair. The weights of the second hash then have no effect.
    pub fn new(differing: u64, weights: [&[f32; BITS]; 2]) -> Self {
        Self { differing, margins: weights.map(|weights| Level::in_use().margins(weights)) }
    }
}

/// The data that a plan is made for: near pairs, which say how many probes a recall takes, and a sample of hashes,
/// which says how many share a key.
#[derive(Clone, Debug)]
pub struct Model {
    pairs: Vec<PairMargins>,
    /// A sample of the stored hashes; empty if hashes are taken to be spread evenly.
    hashes: Vec<u64>,
    /// False for the built-in model.
    measured: bool,
}

/// The most hashes of a sample.
const MOST_SAMPLED: usize = 1 << 16;
/// Seed of the built-in model, so that a plan without data is always the same.
const SEED: u64 = 0x706c_616e;

impl Model {
    /// The model of a sample of data: near pairs at the distances that are searched for, and distinct stored hashes in
    /// random order, of which the first 65,536 are used.
    pub fn of_sample(pairs: Vec<PairMargins>, mut hashes: Vec<u64>) -> Self {
        hashes.truncate(MOST_SAMPLED);
        Self { pairs, hashes, measured: true }
    }

    /// Makes the built-in model, which needs no data. It has `pairs` made-up [near pairs](NearPairs) at distance 1 to
    /// `distance_at_most`, which counts as 1 if it is less, and as 32 if it is more. Its hashes are spread evenly.
    pub fn built_in(distance_at_most: u32, pairs: usize) -> Self {
        let made = NearPairs::new(distance_at_most, SEED)
            .take(pairs)
            .map(|[one, other]| PairMargins::new(one.hash ^ other.hash, [&one.weights, &other.weights]));
        Self { pairs: made.collect(), hashes: Vec::new(), measured: false }
    }

    /// True for the model of a sample, false for the built-in one.
    pub fn is_measured(&self) -> bool {
        self.measured
    }

    /// Number of near pairs.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Returns the fewest probes that find at least the share `recall` of the pairs, and the share that they find. A
    /// probe looks up one key of the query's hash, as it is or with flips. A query makes its probes in the order that
    /// `order` gives. The query has the first hash of a pair, and finds the second. If `join` is true, there is a query
    /// from each hash, and the one that needs fewer probes counts. Without pairs the answer is all probes and 1. It is
    /// also that if all probes find too few, as they may of pairs beyond their [reach](Probes::reach).
    pub(super) fn budget(&self, order: &Probes, recall: f64, join: bool) -> (u32, f64) {
        let probe_of = |pair: &PairMargins| {
            // The bits that differ decide whether any probe finds the pair, so both sides are none, or neither is.
            let [one, other] = [0, 1].map(|side| order.first(pair.differing, &pair.margins[side]));
            match (one, other) {
                (Some(one), Some(other)) if join => one.min(other),
                (Some(probe), _) => probe,
                (None, _) => u32::MAX,
            }
        };
        let mut probes: Vec<u32> = self.pairs.iter().map(probe_of).collect();
        probes.sort_unstable();
        let wanted = (recall * probes.len() as f64).ceil().max(1.0) as usize;
        match probes.get(wanted - 1).filter(|&&probe| probe <= order.all()) {
            Some(&probe) => {
                (probe, probes.partition_point(|&other| other <= probe) as f64 / probes.len() as f64)
            }
            None => (order.all(), 1.0),
        }
    }

    /// Returns the number of hashes that share the key of a stored hash, divided by the number if hashes were spread
    /// evenly. The key has the bits of the hash that are set in one of `masks`, and the quotients of all masks are
    /// averaged. A plan multiplies the candidates of a probe by it. It is 1 for hashes that are spread evenly.
    pub(super) fn sharing(&self, masks: &[u64]) -> f64 {
        let n = self.hashes.len();
        // True if more than about 32 pairs of sampled hashes share a key by chance. Fewer are too few to be counted.
        let enough = |mask: u64| n as f64 * n as f64 > 64.0 * (1u64 << mask.count_ones().min(63)) as f64;
        if n < 2 || !masks.iter().all(|&mask| enough(mask)) {
            return self.few_bits_sharing(masks);
        }
        let of = |&mask: &u64| {
            let mut keys: Vec<u64> = self.hashes.iter().map(|hash| hash & mask).collect();
            keys.sort_unstable();
            let same: f64 = keys
                .chunk_by(|a, b| a == b)
                .map(|group| group.len() as f64 * (group.len() as f64 - 1.0))
                .sum();
            same / (n as f64 * (n as f64 - 1.0)) * (1u64 << mask.count_ones().min(63)) as f64
        };
        (masks.iter().map(of).sum::<f64>() / masks.len().max(1) as f64).max(1.0)
    }

    /// Estimates [`sharing`](Self::sharing) for a sample in which too few hashes share a key of one of the masks. Bits
    /// count as independent. If the share q of the sample has a bit set, two hashes agree in it with probability
    /// q² + (1 − q)². A sample of fewer than two hashes counts as spread evenly.
    fn few_bits_sharing(&self, masks: &[u64]) -> f64 {
        let n = self.hashes.len();
        if n < 2 {
            return 1.0;
        }
        let factor = |bit: usize| {
            let q = self.hashes.iter().filter(|&&hash| hash >> bit & 1 == 1).count() as f64 / n as f64;
            2.0 * (q * q + (1.0 - q) * (1.0 - q))
        };
        let factors: Vec<f64> = (0..BITS).into_par_iter().map(factor).collect();
        let of = |mask: &u64| {
            (0..BITS).filter(|bit| mask >> bit & 1 == 1).map(|bit| factors[bit]).product::<f64>()
        };
        masks.iter().map(of).sum::<f64>() / masks.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::search::dial::{Dial, DialParams};
    use crate::search::{HammingIndex, Mode, Query, Scratch};
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn budgets_hold_on_a_real_index() {
        // Queries whose partners are stored: the share that the budget finds is what the model says.
        let (mut pairs, mut queries, mut partners) = (Vec::new(), Vec::new(), Vec::new());
        for [one, other] in NearPairs::new(5, 3).take(400) {
            pairs.push(PairMargins::new(one.hash ^ other.hash, [&one.weights, &other.weights]));
            queries.push(one);
            partners.push(other.hash);
        }
        let model = Model::of_sample(pairs, Vec::new());
        let mut hashes = partners.clone();
        hashes.sort_unstable();
        hashes.dedup();
        for (tables, flips, recall) in [(2, 2, 0.9), (3, 1, 0.8), (3, 1, 1.0)] {
            let params = DialParams {
                radius: 5,
                tables,
                flips: Some(flips),
                key_bits: Some(12),
                ..DialParams::default()
            };
            let order = Probes::new(params.masks(hashes.len()).unwrap(), flips);
            let (probes, reached) = model.budget(&order, recall, false);
            let index = Dial::new(&hashes, DialParams { budget: Some(probes), ..params }).unwrap();
            let mut scratch = Scratch::default();
            let found = queries.iter().zip(&partners).filter(|(query, partner)| {
                let mut hits = Vec::new();
                let query = Query { hash: query.hash, weights: &query.weights };
                index.search(query, Mode::All, &mut scratch, &mut hits);
                hits.iter().any(|hit| hashes[hit.slot.index()] == **partner)
            });
            assert!(reached >= recall && (found.count() as f64 / 400.0 - reached).abs() < 1e-9);
        }
    }

    #[test]
    fn sharing_counts_who_shares_a_key() {
        let rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let even: Vec<u64> = rng.random_iter().take(4_000).collect();
        let masks = [0xff, 0xff00];
        let of = |hashes: &[u64], masks: &[u64]| Model::of_sample(Vec::new(), hashes.to_vec()).sharing(masks);
        assert!((of(&even, &masks) - 1.0).abs() < 0.02);
        // One bit that is always set: twice as many share a key that has it.
        let skewed: Vec<u64> = even.iter().map(|hash| hash | 1).collect();
        assert!((of(&skewed, &masks) - 1.5).abs() < 0.05);
        assert!((of(&skewed[..400], &[0xfffff]) - 2.0).abs() < 0.3, "too few to see");
        assert_eq!(Model::built_in(3, 1).sharing(&masks), 1.0);
    }
}
