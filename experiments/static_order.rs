//! PSM with one order of flips for all queries: ours, and measured beside the order of the query's own
//! weights.

use serde::Deserialize;
use simflip::simhash::BITS;
use simflip::simhash::volatility::{FlipCost, Volatility};
use simflip::simhash::vosh::{Ranks, Vosh};
use std::ops::RangeInclusive;

/// Where the order of flips comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlipOrder {
    /// From the query's weights, by the volatility-ordered set heap.
    #[default]
    Vosh,
    /// One order of rank sets for all queries ([`StaticOrder`]); the weights say only
    /// which bit has which rank.
    Static,
}

/// A fixed order of rank sets: the order that VOSH would take for a document whose ranked weights are exactly
/// the expected order statistics of |N(0, 1)|. Ours, not the paper's.
///
/// It is computed once. A query then needs only its volatility order and no heap, and pays
/// with somewhat more probes.
#[derive(Clone, Debug)]
pub struct StaticOrder {
    sets: Vec<Ranks>,
}

impl StaticOrder {
    /// The first `limit` sets of the given sizes over `bits` ranks (at most 64).
    pub fn new(bits: usize, sizes: RangeInclusive<u32>, cost: FlipCost, limit: usize) -> Self {
        let bits = bits.min(BITS);
        let mut weights = [0f32; BITS];
        for (weight, expected) in weights.iter_mut().zip(expected_order_statistics(bits)) {
            *weight = expected as f32;
        }
        let among = if bits == 0 { 0 } else { u64::MAX >> (BITS - bits) };
        let vosh = Vosh::new(Volatility::new(&weights, among, cost), sizes);
        Self { sets: vosh.take(limit).map(|flip| flip.ranks).collect() }
    }

    /// The rank sets in order.
    pub fn ranks(&self) -> &[Ranks] {
        &self.sets
    }
}

/// E|X| for the `n` order statistics of |N(0, 1)|, ascending: what the ranked |W| of a
/// random document look like.
///
/// The gap between neighbours is C(n, i) ∫ F(x)^i (1 − F(x))^(n−i) dx with F the distribution of |N(0, 1)|;
/// the integral is taken by the trapezoid rule.
fn expected_order_statistics(n: usize) -> Vec<f64> {
    const STEP: f64 = 1.0 / 256.0;
    const END: f64 = 9.0;
    let mut binomial = 1.0;
    let mut sum = 0.0;
    (0..n)
        .map(|i| {
            let integral: f64 = (0..(END / STEP) as usize)
                .map(|step| {
                    let upper = libm::erfc(step as f64 * STEP * std::f64::consts::FRAC_1_SQRT_2);
                    let weight = if step == 0 { 0.5 } else { 1.0 };
                    weight * libm::pow(1.0 - upper, i as f64) * libm::pow(upper, (n - i) as f64)
                })
                .sum();
            sum += binomial * integral * STEP;
            binomial = binomial * (n - i) as f64 / (i + 1) as f64;
            sum
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip::search::linear::Linear;
    use simflip::search::psm::{FlippedBits, Psm, PsmParams};
    use simflip::search::{HammingIndex, Mode, Query, Scratch};
    use simflip_core::internal::NearPairs;
    use std::collections::HashSet;

    #[test]
    fn order_statistics_of_the_half_normal() {
        // n = 1: the mean √(2/π). n = 2: the smallest of two has mean 2(√2 − 1)/√π, the sum is 2√(2/π).
        let mean = (2.0 / std::f64::consts::PI).sqrt();
        assert!((expected_order_statistics(1)[0] - mean).abs() < 1e-5);
        let two = expected_order_statistics(2);
        let least = 2.0 * (2f64.sqrt() - 1.0) / std::f64::consts::PI.sqrt();
        assert!((two[0] - least).abs() < 1e-5, "{two:?}");
        assert!((two[0] + two[1] - 2.0 * mean).abs() < 1e-5);
        let all = expected_order_statistics(64);
        assert!(all.is_sorted_by(|a, b| a < b));
        assert!((all.iter().sum::<f64>() - 64.0 * mean).abs() < 1e-3);
    }

    #[test]
    fn the_static_order_is_vosh_on_expected_weights() {
        let order = StaticOrder::new(64, 1..=3, FlipCost::Abs, 2_000);
        assert_eq!(order.ranks().len(), 2_000);
        assert_eq!(order.ranks()[0], 1);
        assert_eq!(order.ranks().iter().collect::<HashSet<_>>().len(), 2_000);
        let all = StaticOrder::new(5, 0..=5, FlipCost::Square, usize::MAX);
        assert_eq!(all.ranks().len(), 32);
        assert!(StaticOrder::new(0, 0..=3, FlipCost::Abs, 10).ranks() == [0]);
        // A query's own ranking is put behind the fixed rank sets.
        let weights = std::array::from_fn(|bit| [3.0, 1.0, 2.0].get(bit).copied().unwrap_or(0.0));
        let query = Volatility::new(&weights, 0b111, FlipCost::Abs);
        let order = StaticOrder::new(3, 1..=1, FlipCost::Abs, 9);
        let masks: Vec<u64> = order.ranks().iter().map(|&ranks| query.mask(ranks)).collect();
        assert_eq!(masks, [0b010, 0b100, 0b001]);
    }

    #[test]
    fn with_all_sets_a_static_order_is_exact_and_with_fewer_it_finds_their_part() {
        let pairs: Vec<_> = NearPairs::new(3, 7).take(500).collect();
        let mut hashes: Vec<u64> = pairs.iter().map(|[_, stored]| stored.hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let linear = Linear::new(&hashes, 3).unwrap();
        let flipped_bits = FlippedBits::Key { key_bits: Some(9) };
        let index = |budget| {
            let psm = Psm::new(&hashes, PsmParams { flipped_bits, budget, ..PsmParams::default() }).unwrap();
            let sets = StaticOrder::new(9, 0..=3, FlipCost::Abs, usize::MAX);
            psm.with_rank_sets(sets.ranks())
        };
        let (whole, few) = (index(None), index(Some(20)));
        let mut scratch = Scratch::default();
        for [query, _] in &pairs {
            let query = Query { hash: query.hash, weights: &query.weights };
            let (mut exact, mut traced, mut part) = (Vec::new(), Vec::new(), Vec::new());
            linear.search(query, Mode::All, &mut scratch, &mut exact);
            whole.answer(&[query], Mode::All, true, &mut scratch, &mut |found| {
                traced.push((found.hit, found.probe))
            });
            few.search(query, Mode::All, &mut scratch, &mut part);
            let mut found: Vec<_> = traced.iter().map(|&(hit, _)| hit).collect();
            found.sort_unstable();
            exact.sort_unstable();
            assert_eq!(found, exact);
            assert!(
                part.iter().copied().eq(traced.iter().filter(|(_, probe)| *probe <= 20).map(|&(hit, _)| hit))
            );
        }
    }
}
