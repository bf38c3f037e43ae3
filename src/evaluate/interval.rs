//! Intervals: Wilson's for a proportion of independent trials, and the bootstrap over
//! clusters where they are not.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// The 97.5 % quantile of the normal distribution: intervals are two-sided, of 95 %.
pub const Z95: f64 = 1.959_963_984_540_054;

/// An interval that covers the true value in 95 of 100 samples, as nearly as its method can.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Wilson's score interval (Wilson 1927) of `successes` of `trials` independent trials; `None` without
/// trials.
///
/// With p = x/n: (p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n). It stays within [0, 1] and has a width
/// above 0 at p = 0 and p = 1, where the normal interval has none. `trials` need not be whole: an
/// effective sample size will do.
pub fn wilson(successes: f64, trials: f64) -> Option<Interval> {
    if trials.is_nan() || trials <= 0.0 {
        return None;
    }
    let p = (successes / trials).clamp(0.0, 1.0);
    let z2 = Z95 * Z95 / trials;
    let middle = p + z2 / 2.0;
    let half = Z95 * (p * (1.0 - p) / trials + z2 / (4.0 * trials)).sqrt();
    // At p = 0 and p = 1 the end is p itself; rounding must not move it past.
    Some(Interval {
        low: if p == 0.0 { 0.0 } else { ((middle - half) / (1.0 + z2)).clamp(0.0, p) },
        high: if p == 1.0 { 1.0 } else { ((middle + half) / (1.0 + z2)).clamp(p, 1.0) },
    })
}

/// The interval of a share Σxᵢ / Σnᵢ whose trials come in clusters. `units` gives (xᵢ, nᵢ): xᵢ successes of nᵢ trials
/// in cluster i. Clusters are independent of each other, and the trials of one are not: m near-duplicates give m(m−1)/2
/// pairs.
///
/// Wilson's interval at an effective number of trials (Korn and Graubard 1998, with Wilson's in place of the exact
/// interval) has n* = p(1−p) / v trials. Here v = k/(k−1) · Σ(xᵢ − p·nᵢ)² / (Σnᵢ)² is the linearised variance of a
/// ratio over k clusters. At p = 0 or 1 there is no variance to measure. Then trials of one cluster are taken to stand
/// or fall together, n* = (Σnᵢ)² / Σnᵢ². n* is at most Σnᵢ. `None` with fewer than two clusters that have trials.
pub fn clustered(units: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Interval> {
    let units = units.filter(|u| u.1 > 0.0);
    let (k, x, n, squares) = units
        .clone()
        .fold((0.0, 0.0, 0.0, 0.0), |(k, x, n, squares), u| (k + 1.0, x + u.0, n + u.1, squares + u.1 * u.1));
    if k < 2.0 {
        return None;
    }
    let p = x / n;
    let residues: f64 = units.map(|(x, n)| (x - p * n) * (x - p * n)).sum();
    let variance = k / (k - 1.0) * residues / (n * n);
    let kish = n * n / squares;
    let effective = if p <= 0.0 || p >= 1.0 || variance <= 0.0 { kish } else { p * (1.0 - p) / variance };
    let effective = effective.min(n);
    wilson(p * effective, effective)
}

/// Parameters of a bootstrap, which makes intervals by drawing the data anew many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bootstrap {
    /// Number of resamples; 0 turns the bootstrap off.
    pub resamples: u32,
    /// Seed of the random draws.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { resamples: 1000, seed: 0 }
    }
}

/// Above this many units a bootstrap resamples groups of them.
const MOST_UNITS: usize = 20_000;

impl Bootstrap {
    /// The intervals, one for each of `S` statistics, from the same resamples (percentile bootstrap, Efron 1979;
    /// resampling whole clusters: Field and Welsh 2007).
    ///
    /// `units` are the clusters, each with `K` totals. A resample draws as many units as there are, with
    /// replacement, and adds their totals up; `statistic(totals)` gives `S` values, `None` where one has
    /// no meaning. The interval of a statistic goes from its 2.5 % to its 97.5 % quantile over the
    /// resamples in which it has one.
    ///
    /// With more than 20,000 units, these are first put together at random into 20,000 groups (random groups:
    /// Wolter 2007, chapter 2), which leaves the variance as it is and bounds the work.
    ///
    /// All are `None` with fewer than two units, for one cluster says nothing about another, or without resamples.
    pub fn intervals<const K: usize, const S: usize>(
        &self,
        units: &[[f64; K]],
        statistic: impl Fn(&[f64; K]) -> [Option<f64>; S],
    ) -> [Option<Interval>; S] {
        if units.len() < 2 || self.resamples == 0 {
            return [None; S];
        }
        // Units with equal totals are exchangeable; in a fixed order the result depends on the units alone.
        let mut units = units.to_vec();
        units.sort_unstable_by(|a, b| {
            a.iter()
                .zip(b)
                .map(|(x, y)| x.total_cmp(y))
                .find(|o| o.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        if units.len() > MOST_UNITS {
            for i in (1..units.len()).rev() {
                units.swap(i, random.random_range(0..=i));
            }
            let mut groups = vec![[0.0; K]; MOST_UNITS];
            for (unit, i) in units.iter().zip((0..MOST_UNITS).cycle()) {
                groups[i].iter_mut().zip(unit).for_each(|(sum, x)| *sum += x);
            }
            units = groups;
        }
        let mut values: [Vec<f64>; S] = std::array::from_fn(|_| Vec::with_capacity(self.resamples as usize));
        for _ in 0..self.resamples {
            let mut totals = [0.0; K];
            for _ in 0..units.len() {
                let unit = &units[random.random_range(0..units.len())];
                totals.iter_mut().zip(unit).for_each(|(sum, x)| *sum += x);
            }
            for (list, value) in values.iter_mut().zip(statistic(&totals)) {
                list.extend(value);
            }
        }
        values.map(|mut list| {
            list.sort_unstable_by(f64::total_cmp);
            let at = |q: f64| list.get(((list.len().saturating_sub(1)) as f64 * q).round() as usize).copied();
            Some(Interval { low: at(0.025)?, high: at(0.975)? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wilson_by_published_values() {
        // Newcombe 1998, Table I (method 3): 81/263, 15/148, 0/20, 1/29.
        for (x, n, low, high) in [
            (81., 263., 0.2553, 0.3662),
            (15., 148., 0.0624, 0.1605),
            (0., 20., 0.0, 0.1611),
            (1., 29., 0.0061, 0.1718),
        ] {
            let got = wilson(x, n).unwrap();
            assert!((got.low - low).abs() < 6e-5 && (got.high - high).abs() < 6e-5, "{x}/{n}: {got:?}");
        }
        assert_eq!(wilson(0.0, 0.0), None);
        assert_eq!(wilson(20.0, 20.0).unwrap().high, 1.0);
        assert!(wilson(20.0, 20.0).unwrap().low < 0.85);
    }

    fn ratio(t: &[f64; 2]) -> [Option<f64>; 1] {
        [(t[1] > 0.0).then(|| t[0] / t[1])]
    }

    #[test]
    fn bootstrap_is_repeatable_and_needs_two_units() {
        let boot = Bootstrap::default();
        assert_eq!(boot.intervals(&[[1.0, 2.0]], ratio), [None]);
        let mut units: Vec<[f64; 2]> = (0..40).map(|i| [f64::from(i * i % 7), 7.0]).collect();
        let first = boot.intervals(&units, ratio);
        units.reverse();
        assert_eq!(boot.intervals(&units, ratio), first, "the order of the units does not matter");
        assert_ne!(Bootstrap { seed: 1, ..boot }.intervals(&units, ratio), first);
        assert_eq!(Bootstrap { resamples: 0, seed: 0 }.intervals(&units, ratio), [None]);
        assert_eq!(boot.intervals(&[[0.0, 0.0], [0.0, 0.0]], ratio), [None], "a statistic without meaning");
    }

    #[test]
    fn bootstrap_covers_where_pairs_are_dependent_and_wilson_does_not() {
        // Clusters of 2 to 9 copies, each found whole or not at all: m(m-1)/2 pairs stand or fall together.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let (truth, trials) = (0.8, 1000);
        let (mut boot_covers, mut wilson_covers, mut clustered_covers) = (0, 0, 0);
        for seed in 0..trials {
            let units: Vec<[f64; 2]> = (0..80)
                .map(|_| {
                    let m = f64::from(random.random_range(2..10u8));
                    let pairs = m * (m - 1.0) / 2.0;
                    [if random.random_bool(truth) { pairs } else { 0.0 }, pairs]
                })
                .collect();
            let covers = |i: Interval| i.low <= truth && truth <= i.high;
            let [boot] = Bootstrap { resamples: 200, seed }.intervals(&units, ratio);
            boot_covers += u32::from(covers(boot.unwrap()));
            clustered_covers += u32::from(covers(clustered(units.iter().map(|u| (u[0], u[1]))).unwrap()));
            let (x, n) = units.iter().fold((0.0, 0.0), |(x, n), u| (x + u[0], n + u[1]));
            wilson_covers += u32::from(covers(wilson(x, n).unwrap()));
        }
        assert!(boot_covers >= 910, "{boot_covers} of {trials}");
        assert!(clustered_covers >= 925, "{clustered_covers} of {trials}");
        assert!(wilson_covers < 400, "pairs taken as independent would do: {wilson_covers} of {trials}");
    }

    #[test]
    fn groups_of_units_leave_the_interval_as_it_is() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        let units: Vec<[f64; 2]> =
            (0..3 * MOST_UNITS).map(|_| [f64::from(u8::from(random.random_bool(0.7))), 1.0]).collect();
        let successes: f64 = units.iter().map(|u| u[0]).sum();
        let [got] = Bootstrap { resamples: 300, seed: 0 }.intervals(&units, ratio);
        let (got, want) = (got.unwrap(), wilson(successes, units.len() as f64).unwrap());
        let widths = (got.high - got.low) / (want.high - want.low);
        assert!((0.85..1.15).contains(&widths), "{got:?} {want:?}");
    }

    #[test]
    fn clusters_of_one_trial_are_wilson() {
        let units: Vec<(f64, f64)> = (0..50).map(|i| (f64::from(u8::from(i % 5 == 0)), 1.0)).collect();
        let got = clustered(units.iter().copied()).unwrap();
        // n* = (k - 1)/k of n: the variance of a sample takes one degree of freedom.
        let want = wilson(0.2 * 49.0, 49.0).unwrap();
        assert!(
            (got.low - want.low).abs() < 1e-12 && (got.high - want.high).abs() < 1e-12,
            "{got:?} {want:?}"
        );
        let all = clustered((0..10).map(|_| (45.0, 45.0))).unwrap();
        assert_eq!(Some(all), wilson(10.0, 10.0), "450 pairs of 10 clusters, all found, weigh as 10 trials");
        assert_eq!(clustered([(3.0, 4.0), (0.0, 0.0)].into_iter()), None, "one cluster with trials");
    }

    proptest! {
        #[test]
        fn wilson_holds_its_proportion(n in 1u32..10_000, share in 0.0f64..=1.0) {
            let x = (f64::from(n) * share).floor();
            let got = wilson(x, f64::from(n)).unwrap();
            let p = x / f64::from(n);
            prop_assert!(0.0 <= got.low && got.low <= p && p <= got.high && got.high <= 1.0);
        }
    }
}
