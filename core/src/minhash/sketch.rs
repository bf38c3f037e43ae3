//! Sketches that sample a set instead of ordering it: shingles that are 0 modulo m, and supershingles of them
//! (Broder, Glassman, Manasse & Zweig 1997, "Syntactic clustering of the Web").
//!
//! A sampled sketch grows with its set, which is its price, but unlike a MinHash signature it estimates containment
//! as well as resemblance. The supershingles of later work, hashes of fixed groups of MinHash positions (84 positions
//! in 6 groups of 14: Fetterly, Manasse & Najork 2003; Henzinger 2006), are [banding](crate::search::bands).

use crate::error::{Error, Result};
use crate::hash::{SHINGLE_START, extend_shingle};
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
    /// [`Error::Parameter`] if the modulus is 0.
    pub fn new(features: &[u64], modulus: u64) -> Result<Self> {
        if modulus == 0 {
            return Err(Error::parameter("modulus", 0, "at least 1"));
        }
        let mut values: Vec<u64> = features.iter().copied().filter(|x| x.is_multiple_of(modulus)).collect();
        values.sort_unstable();
        values.dedup();
        Ok(Self { modulus, values })
    }

    /// What the sampled features are multiples of.
    pub fn modulus(&self) -> u64 {
        self.modulus
    }

    /// The sampled features, ascending.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// The sketch of the same set for a multiple of the modulus: how a long document's sketch is kept short, and how
    /// sketches of different moduli are made comparable.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the new modulus is no multiple of the old.
    pub fn coarsen(&self, modulus: u64) -> Result<Self> {
        if modulus == 0 || !modulus.is_multiple_of(self.modulus) {
            let expected = format!("a multiple of {}, the sketch's own modulus", self.modulus);
            return Err(Error::parameter("modulus", modulus, expected));
        }
        Self::new(&self.values, modulus)
    }

    /// Estimates the resemblance |A ∩ B| / |A ∪ B|. Unbiased, given that there is a sample; `None` without one.
    ///
    /// With k of the union's f features sampled the variance is J(1 − J)/k · (f − k)/(f − 1).
    ///
    /// # Errors
    /// [`Error::Parameter`] if the moduli differ.
    pub fn resemblance(&self, other: &Self) -> Result<Option<f64>> {
        let common = self.common(other)?;
        let union = self.values.len() + other.values.len() - common;
        Ok((union > 0).then(|| common as f64 / union as f64))
    }

    /// Estimates the containment of this set in the other, |A ∩ B| / |A|. Unbiased, given that there is a sample of
    /// this set; `None` without one.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the moduli differ.
    pub fn containment(&self, other: &Self) -> Result<Option<f64>> {
        let common = self.common(other)?;
        Ok((!self.values.is_empty()).then(|| common as f64 / self.values.len() as f64))
    }

    /// Number of features that both samples hold.
    fn common(&self, other: &Self) -> Result<usize> {
        if self.modulus != other.modulus {
            let expected = format!("{}, as in the other sketch", self.modulus);
            return Err(Error::parameter("modulus", other.modulus, expected));
        }
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

    /// The supershingles: one hash for each run of `width` successive values of the sketch; ascending, each once.
    ///
    /// Two sketches with a supershingle in common share `width` values that nothing else lies between. A sketch of
    /// fewer values has none, so short documents are not found this way; and a set contained in a larger one may
    /// share none with it, since the other's values break up its runs.
    pub fn supershingles(&self, width: usize) -> Vec<u64> {
        if width == 0 {
            return Vec::new();
        }
        let hash = |run: &[u64]| run.iter().copied().fold(SHINGLE_START, extend_shingle);
        let mut hashes: Vec<u64> = self.values.windows(width).map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;
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
        assert!(ModuloSketch::new(&[], 0).is_err() && a.coarsen(3).is_err() && a.coarsen(0).is_err());
        let none = ModuloSketch::new(&[1], 2).unwrap();
        assert_eq!((none.resemblance(&none).unwrap(), none.containment(&a).unwrap()), (None, None));
        assert_eq!((none.resemblance(&a).unwrap(), a.containment(&none).unwrap()), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_contained_set_may_share_no_supershingle() {
        let small = ModuloSketch::new(&[10, 20, 30], 1).unwrap();
        let large = ModuloSketch::new(&[10, 15, 20, 25, 30], 1).unwrap();
        assert_eq!(small.containment(&large).unwrap(), Some(1.0));
        assert!(small.supershingles(2).iter().all(|s| !large.supershingles(2).contains(s)));
        assert!(small.supershingles(4).is_empty() && small.supershingles(0).is_empty());
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

        #[test]
        fn coarsening_is_sampling_anew(features in prop::collection::vec(0u64..1000, 0..60), m in 1u64..6, factor in 1u64..6) {
            let coarse = ModuloSketch::new(&features, m).unwrap().coarsen(m * factor).unwrap();
            prop_assert_eq!(coarse, ModuloSketch::new(&features, m * factor).unwrap());
        }

        #[test]
        fn a_shared_supershingle_is_a_shared_run(a in prop::collection::vec(0u64..12, 0..12), b in prop::collection::vec(0u64..12, 0..12), width in 1usize..5) {
            let (a, b) = (ModuloSketch::new(&a, 1).unwrap(), ModuloSketch::new(&b, 1).unwrap());
            let naive = a.values().windows(width).any(|run| b.values().windows(width).any(|other| run == other));
            let others = b.supershingles(width);
            prop_assert_eq!(a.supershingles(width).iter().any(|s| others.contains(s)), naive);
        }
    }
}
