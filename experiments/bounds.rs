//! How many positions an estimate needs: the exact lower tail of the binomial, and the Chernoff bound of it,
//! which is easier to solve (Mitzenmacher & Upfal, Theorem 4.5).
//!
//! With m independent positions the number of equal ones, X, is binomial with mean μ = m·J, and for 0 < δ ≤ 1
//!
//! Pr\[X ≤ (1 − δ)μ\] ≤ e^(−μδ²/2).
//!
//! Lecture notes are seen to take J for the mean of X, and to put δ = 0.1 into the bound as e^(−m·J/0.02). It
//! is e^(−m·J/200): a hundred positions do *not* make an error of a tenth of J unlikely, some thousands do.

/// Bounds the probability that X is at most `(1 - delta)` times its mean.
pub fn chernoff_below(mean: f64, delta: f64) -> f64 {
    let delta = delta.clamp(0.0, 1.0);
    libm::exp(-mean * delta * delta / 2.0)
}

/// The exact probability that at most `matches` of `permutations` independent positions are equal.
pub fn at_most(permutations: usize, matches: usize, similarity: f64) -> f64 {
    let (m, j) = (permutations as f64, similarity.clamp(0.0, 1.0));
    if matches >= permutations || j == 0.0 {
        return 1.0;
    }
    if j == 1.0 {
        return 0.0;
    }
    let term = |k: usize| {
        let k = k as f64;
        let ways = libm::lgamma(m + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(m - k + 1.0);
        libm::exp(ways + k * libm::log(j) + (m - k) * libm::log1p(-j))
    };
    (0..=matches).map(term).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_sum_of_the_binomial() {
        // Pascal's triangle, position by position.
        for (m, j) in [(1, 0.3), (10, 0.5), (128, 0.8)] {
            let mut probability = vec![1.0f64];
            for _ in 0..m {
                let mut next = vec![0.0; probability.len() + 1];
                for (k, p) in probability.iter().enumerate() {
                    next[k] += p * (1.0 - j);
                    next[k + 1] += p * j;
                }
                probability = next;
            }
            let mut sum = 0.0;
            for (k, p) in probability.iter().enumerate() {
                sum += p;
                assert!((at_most(m, k, j) - sum).abs() < 1e-10, "{m} {j} {k}");
            }
        }
        assert_eq!((at_most(10, 3, 0.0), at_most(10, 9, 1.0), at_most(10, 10, 1.0)), (1.0, 0.0, 1.0));
    }

    #[test]
    fn the_bounds_hold_and_the_misprinted_ones_do_not() {
        for m in [20usize, 100, 128, 1000] {
            for j in [0.1, 0.5, 0.8, 0.9] {
                for delta in [0.05, 0.1, 0.3, 0.9] {
                    let mean = m as f64 * j;
                    let below = at_most(m, ((1.0 - delta) * mean).floor() as usize, j);
                    assert!(below <= chernoff_below(mean, delta) + 1e-12, "{m} {j} {delta}");
                }
            }
        }
        // A hundred positions, J = 0.5, a tenth too low: it happens in one case of five, not one in 10^1085.
        let below = at_most(100, 45, 0.5);
        assert!((0.18..0.19).contains(&below) && below > (-100.0f64 * 0.5 / 0.02).exp());
    }
}
