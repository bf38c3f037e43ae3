//! Sketches that sample a set instead of ordering it: shingles that are 0 modulo m (Broder, Glassman, Manasse
//! & Zweig 1997, "Syntactic clustering of the Web").
//!
//! A sampled sketch grows with its set, which is its price, but unlike a MinHash signature it estimates
//! containment as well as resemblance.

use anyhow::{Result, ensure};
use std::cmp::Ordering;

/// The features of a set that are 0 modulo a number: on average one in `modulus`, the same ones in every set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuloSketch {
    modulus: u64,
    /// Ascending, each once.
    values: Vec<u64>,
}

impl ModuloSketch {
    /// Samples a set of good 64-bit hashes; repeated features count once.
    ///
    /// # Errors
    /// If the modulus is 0.
    pub fn new(features: &[u64], modulus: u64) -> Result<Self> {
        ensure!(modulus > 0, "no feature is 0 modulo 0");
        let mut values: Vec<u64> = features.iter().copied().filter(|x| x.is_multiple_of(modulus)).collect();
        values.sort_unstable();
        values.dedup();
        Ok(Self { modulus, values })
    }

    /// The sampled features, ascending.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Estimates the resemblance |A ∩ B| / |A ∪ B|. Unbiased, given that there is a
    /// sample; `None` without one.
    ///
    /// With k of the union's f features sampled the variance is J(1 − J)/k · (f − k)/(f − 1).
    ///
    /// # Errors
    /// If the moduli differ.
    pub fn resemblance(&self, other: &Self) -> Result<Option<f64>> {
        let common = self.common(other)?;
        let union = self.values.len() + other.values.len() - common;
        Ok((union > 0).then(|| common as f64 / union as f64))
    }

    /// Estimates the containment of this set in the other, |A ∩ B| / |A|. Unbiased, given that there is a
    /// sample of this set; `None` without one.
    ///
    /// # Errors
    /// If the moduli differ.
    pub fn containment(&self, other: &Self) -> Result<Option<f64>> {
        let common = self.common(other)?;
        Ok((!self.values.is_empty()).then(|| common as f64 / self.values.len() as f64))
    }

    /// Number of features that both samples hold.
    fn common(&self, other: &Self) -> Result<usize> {
        let (own, others) = (self.modulus, other.modulus);
        ensure!(own == others, "sketches modulo {own} and modulo {others} cannot be compared");
        let (mut a, mut b, mut common) = (self.values.as_slice(), other.values.as_slice(), 0);
        while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
            let order = x.cmp(y);
            common += usize::from(order == Ordering::Equal);
            if order != Ordering::Greater {
                a = rest_a;
            }
            if order != Ordering::Less {
                b = rest_b;
            }
        }
        Ok(common)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use simflip::hash::SplitMix64;
    use std::collections::BTreeSet;

    #[test]
    fn the_estimates_have_no_bias_and_the_variance_of_theory() {
        // 60 features in both sets, 30 more in the first, 10 more in the second.
        const PAIRS: usize = 4000;
        let mut rng = SplitMix64::new(1);
        let (mut resemblance, mut containment) = (vec![], vec![]);
        for _ in 0..PAIRS {
            let features: Vec<u64> = (0..100).map(|_| rng.next_u64()).collect();
            let a = ModuloSketch::new(&features[..90], 5).unwrap();
            let b = ModuloSketch::new(&features[30..], 5).unwrap();
            let union = a.values().iter().chain(b.values()).collect::<BTreeSet<_>>().len() as f64;
            // Each error in standard deviations of its own sample size.
            let deviation = |j: f64, k: f64, f: f64| (j * (1.0 - j) / k * (f - k) / (f - 1.0)).sqrt();
            resemblance.extend(a.resemblance(&b).unwrap().map(|r| (r - 0.6) / deviation(0.6, union, 100.0)));
            let k = a.values().len() as f64;
            containment
                .extend(a.containment(&b).unwrap().map(|c| (c - 2.0 / 3.0) / deviation(2.0 / 3.0, k, 90.0)));
        }
        for errors in [resemblance, containment] {
            let n = errors.len() as f64;
            assert!(n > 0.99 * PAIRS as f64);
            let mean = errors.iter().sum::<f64>() / n;
            let squares = errors.iter().map(|e| e * e).sum::<f64>() / n;
            assert!(mean.abs() < 4.0 / n.sqrt(), "bias {mean}");
            assert!((squares - 1.0).abs() < 4.0 * (2.0 / n).sqrt(), "variance {squares}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let (a, b) = (ModuloSketch::new(&[6, 12], 2).unwrap(), ModuloSketch::new(&[6, 12], 3).unwrap());
        assert!(a.resemblance(&b).is_err() && a.containment(&b).is_err());
        assert!(ModuloSketch::new(&[], 0).is_err());
        let none = ModuloSketch::new(&[1], 2).unwrap();
        assert_eq!((none.resemblance(&none).unwrap(), none.containment(&a).unwrap()), (None, None));
        assert_eq!((none.resemblance(&a).unwrap(), a.containment(&none).unwrap()), (Some(0.0), Some(0.0)));
    }

    proptest! {
        #[test]
        fn with_modulus_one_everything_is_exact(a in prop::collection::vec(0u64..40, 0..40), b in prop::collection::vec(0u64..40, 0..40)) {
            let sets = [&a, &b].map(|s| s.iter().copied().collect::<BTreeSet<u64>>());
            let common = sets[0].intersection(&sets[1]).count() as f64;
            let union = sets[0].union(&sets[1]).count() as f64;
            let (a, b) = (ModuloSketch::new(&a, 1).unwrap(), ModuloSketch::new(&b, 1).unwrap());
            prop_assert_eq!(a.resemblance(&b).unwrap(), (union > 0.0).then(|| common / union));
            let size = sets[0].len() as f64;
            prop_assert_eq!(a.containment(&b).unwrap(), (size > 0.0).then(|| common / size));
        }
    }
}
