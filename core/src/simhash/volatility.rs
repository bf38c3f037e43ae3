//! Volatility: how easily each bit of a hash flips when the document is edited a little.
//!
//! A bit is the sign of a component W of the weight vector, so the nearer the component is to zero, the smaller
//! the edit that flips it. Ranking the bits by |W| ascending is the paper's (Sood & Loguinov 2011); the costs
//! beside [`FlipCost::Abs`] are derived from a Gaussian model of the edit.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::kernel::Level;
use crate::simhash::BITS;
use crate::{Error, Result};

/// The cost of flipping a bit whose component of the weight vector is `w`. Sets of flips are tried in order of their
/// summed cost, cheapest first.
///
/// Every cost is zero or more and never falls as |w| grows, so all of them rank the single bits alike. They
/// differ in how they weigh one large weight against several small ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlipCost {
    /// |w|.
    #[default]
    Abs,
    /// w².
    Square,
    /// ln((1 − p) / p) with p = Φ(−|w| · cot θ): the log-odds that the bit does *not* flip between two unit
    /// vectors at angle θ. With it, the order of the sums is exactly the order of likelihood under the
    /// Gaussian model (derived, not in the paper's slides).
    LogOdds {
        /// cot θ, above zero: 4.9 for a cosine of .98, 70 for .9999.
        cot_theta: f64,
    },
}

#[doc(hidden)]
impl FlipCost {
    /// The cost of flipping a bit of weight `weight`; infinite for a weight that is not a number.
    pub fn of(self, weight: f32) -> f64 {
        let w = f64::from(weight.abs());
        if w.is_nan() {
            return f64::INFINITY;
        }
        match self {
            Self::Abs => w,
            Self::Square => w * w,
            Self::LogOdds { cot_theta } => log_odds(w * cot_theta),
        }
    }

    /// Refuses an angle that has no meaning: [`Error::Parameter`] unless `cot_theta` is finite and above 0.
    pub fn check(self) -> Result<()> {
        match self {
            Self::LogOdds { cot_theta } if !(cot_theta.is_finite() && cot_theta > 0.0) => {
                Err(Error::parameter("cot-theta", cot_theta, "a finite number above 0"))
            }
            _ => Ok(()),
        }
    }
}

/// Steps per unit of x of the table of [`log_odds`], which is small enough to stay in the nearest cache.
const STEPS: usize = 16;
/// Where the table ends: Φ(x) is 1 from here on, and Φ(−x) follows its asymptotic series.
const END: usize = 16;

/// ln(Φ(x) / Φ(−x)) for x ≥ 0, with an error below 10⁻³: what a flip costs.
#[inline]
fn log_odds(x: f64) -> f64 {
    static TABLE: OnceLock<[f64; END * STEPS + 2]> = OnceLock::new();
    if x >= END as f64 {
        return 0.5 * x * x + libm::log(x * (2.0 * std::f64::consts::PI).sqrt()) + 1.0 / (x * x);
    }
    let table = TABLE.get_or_init(|| {
        let tail =
            |step: usize| 0.5 * libm::erfc(step as f64 / STEPS as f64 * std::f64::consts::FRAC_1_SQRT_2);
        std::array::from_fn(|step| libm::log1p(-tail(step)) - libm::log(tail(step)))
    });
    let place = x * STEPS as f64;
    // Without a branch: whether x is near or far is a coin toss that the processor would lose.
    let step = (place as usize).min(table.len() - 2);
    table[step] + (place - step as f64) * (table[step + 1] - table[step])
}

/// A cost as a whole number, in a unit that is the same for all bits of one query. Sums are exact, so the order of
/// flips does not depend on the order of additions.
///
/// The cost of the document's largest finite weight lies in [2³⁹, 2⁴⁰), an infinite cost is 2⁴¹, and a sum
/// over 128 bits stays below 2⁴⁹.
#[doc(hidden)]
pub type FixedCost = u64;

const INFINITE: FixedCost = 1 << 41;

/// The bit pattern of an infinite f32; those of larger magnitude are no numbers.
const INFINITE_BITS: i32 = f32::INFINITY.to_bits() as i32;

/// Some bits of one document's hash in order of volatility, least |W| first, each with the cost of flipping it.
///
/// The rank of a bit is its place in this order: rank 0 is the lowest-margin bit (the paper counts from 1). Bits of
/// equal |W| are ranked by position, so the order is the same everywhere.
#[derive(Clone, Debug)]
pub struct Volatility {
    bits: [u8; BITS],
    costs: [FixedCost; BITS],
    len: usize,
    /// The number 1 in the unit of the costs.
    unit: f64,
}

impl Default for Volatility {
    fn default() -> Self {
        Self { bits: [0; BITS], costs: [0; BITS], len: 0, unit: 1.0 }
    }
}

impl Volatility {
    /// Ranks the bits that are set in `among` by |`weights`|, which has a weight for each of the 64 bits.
    pub fn new(weights: &[f32; BITS], among: u64, cost: FlipCost) -> Self {
        let mut volatility = Self::default();
        volatility.rank(weights, among, cost, BITS);
        volatility
    }

    /// Ranks anew, reusing the space, and keeps the `limit` lowest-margin bits; see [`new`](Self::new).
    #[doc(hidden)]
    pub fn rank(&mut self, weights: &[f32; BITS], among: u64, cost: FlipCost, limit: usize) {
        // |W| as an integer: the bit patterns of non-negative floats are ordered like the
        // floats, and a NaN comes last.
        let mut keys = [0i32; BITS];
        let mut places = [0u8; BITS];
        let mut n = 0;
        let mut rest = among;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            keys[n] = weights[bit as usize].abs().to_bits() as i32;
            places[n] = bit as u8;
            n += 1;
            rest &= rest - 1;
        }
        let mut ranks = [0i32; BITS];
        Level::in_use().ranks(&keys, n, &mut ranks);
        for (&rank, &place) in ranks[..n].iter().zip(&places) {
            self.bits[rank as usize % BITS] = place;
        }
        self.len = n.min(limit);

        // The unit depends on all weights, so that it is the same however many bits are ranked.
        let magnitudes = weights.iter().map(|w| w.abs().to_bits() as i32);
        let finite = magnitudes.map(|bits| if bits < INFINITE_BITS { bits } else { 0 });
        let largest = finite.fold(0, i32::max) as u32;
        self.unit = match cost.of(f32::from_bits(largest)) {
            cost if cost.is_finite() => power_of_two(39 - exponent(cost)),
            _ => 1.0,
        };
        let mut before = 0;
        for (fixed, &bit) in self.costs.iter_mut().zip(&self.bits[..self.len]) {
            let raw = cost.of(weights[usize::from(bit)]);
            let scaled = if raw.is_finite() { (raw * self.unit) as FixedCost } else { INFINITE };
            // Rounding inside a cost function must not make a bit cheaper than one of smaller margin.
            before = scaled.clamp(before, INFINITE);
            *fixed = before;
        }
    }

    /// The positions in the hash, 0 to 63, of the ranked bits, least |W| first.
    pub fn bits(&self) -> &[u8] {
        &self.bits[..self.len]
    }

    /// The cost of flipping each bit, in the order of [`bits`](Self::bits): it never falls.
    pub(crate) fn costs(&self) -> &[FixedCost] {
        &self.costs[..self.len]
    }

    /// Turns a set of ranks (bit `r` set: rank `r` flips) into a mask over bit positions.
    ///
    /// Ranks that do not exist are ignored.
    #[inline]
    #[doc(hidden)]
    pub fn mask(&self, ranks: u64) -> u64 {
        let mut mask = 0;
        let mut rest = ranks;
        while rest != 0 {
            if let Some(&bit) = self.bits().get(rest.trailing_zeros() as usize) {
                mask |= 1 << bit;
            }
            rest &= rest - 1;
        }
        mask
    }
}

/// The exponent e of a finite x > 0 with 2^e ≤ x < 2^(e+1), kept in a range whose powers are normal numbers.
fn exponent(x: f64) -> i64 {
    ((x.to_bits() >> 52) as i64 - 1023).clamp(-900, 1000)
}

/// 2^e for a normal exponent.
fn power_of_two(e: i64) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COSTS: [FlipCost; 4] = [
        FlipCost::Abs,
        FlipCost::Square,
        FlipCost::LogOdds { cot_theta: 4.9 },
        FlipCost::LogOdds { cot_theta: 70.0 },
    ];

    #[test]
    fn log_odds_follow_the_normal_distribution() {
        // From the definition, with Φ(−1) = 0.158655253931457 and Φ(−3) = 0.001349898031630.
        assert_eq!(log_odds(0.0), 0.0);
        assert!((log_odds(1.0) - 1.6682679).abs() < 1e-6, "{}", log_odds(1.0));
        assert!((log_odds(3.0) - 6.6063754).abs() < 1e-6, "{}", log_odds(3.0));
        // Between steps, near 0 and further on, against the definition.
        for x in [0.003, 0.51, 1.2345, 4.999] {
            let tail = 0.5 * libm::erfc(x / 2f64.sqrt());
            assert!((log_odds(x) - ((1.0 - tail) / tail).ln()).abs() < 1e-3, "{x}");
        }
        // The two branches meet.
        assert!((log_odds(16.0 - 1e-9) - log_odds(16.0)).abs() < 1e-3);
        assert!(log_odds(1e6).is_finite());
    }

    #[test]
    fn equal_weights_are_ranked_by_position() {
        let v = Volatility::new(&[0.0; BITS], u64::MAX, FlipCost::Abs);
        assert!(v.bits().iter().copied().eq(0..64));
        assert!(v.costs().iter().all(|&c| c == 0));
        let v = Volatility::new(&[-2.5; BITS], 0b1011_0000, FlipCost::Square);
        assert_eq!(v.bits(), [4, 5, 7]);
        assert!(Volatility::new(&[1.0; BITS], 0, FlipCost::Abs).bits().is_empty());
    }

    #[test]
    fn odd_weights_come_last_and_break_nothing() {
        let mut weights = [1.0f32; BITS];
        weights[3] = f32::NAN;
        weights[5] = f32::NEG_INFINITY;
        weights[7] = -f32::MAX;
        weights[9] = f32::MIN_POSITIVE / 8.0;
        for cost in COSTS {
            let v = Volatility::new(&weights, u64::MAX, cost);
            assert_eq!(v.bits()[0], 9);
            assert_eq!(v.bits()[61..], [7, 5, 3]);
            assert!(v.costs().is_sorted());
        }
    }

    #[test]
    fn angles_without_meaning_are_refused() {
        for cot_theta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(FlipCost::LogOdds { cot_theta }.check().is_err());
        }
        assert!(COSTS.iter().all(|c| c.check().is_ok()));
    }

    proptest! {
        #[test]
        fn bits_and_costs_follow_the_weights(weights in prop::array::uniform32(-3f32..3.0), among: u64) {
            let weights: [f32; BITS] = std::array::from_fn(|j| weights[j % 32]);
            for cost in COSTS {
                let v = Volatility::new(&weights, among, cost);
                prop_assert_eq!(v.bits().iter().fold(0u64, |m, b| m | 1 << b), among);
                prop_assert_eq!(v.mask(u64::MAX), among);
                let ranked = v.bits().is_sorted_by(|&a, &b| {
                    let (a, b) = (usize::from(a), usize::from(b));
                    (weights[a].abs(), a) < (weights[b].abs(), b)
                });
                prop_assert!(ranked);
                // The whole numbers are the costs, but for the common unit and the rounding.
                if let Some(&last) = v.costs().last() {
                    let largest = cost.of(weights[usize::from(*v.bits().last().unwrap())]);
                    for (&fixed, &bit) in v.costs().iter().zip(v.bits()) {
                        let share = cost.of(weights[usize::from(bit)]) / largest.max(f64::MIN_POSITIVE);
                        prop_assert!((fixed as f64 / last.max(1) as f64 - share).abs() < 1e-6);
                    }
                }
                // Fewer bits, fewer of them among others: the same costs.
                let mut few = Volatility::default();
                few.rank(&weights, among, cost, 5);
                prop_assert_eq!(few.bits(), &v.bits()[..v.bits().len().min(5)]);
                prop_assert_eq!(few.costs(), &v.costs()[..v.bits().len().min(5)]);
            }
        }
    }
}
