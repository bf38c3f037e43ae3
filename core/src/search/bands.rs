//! Banding: which MinHash signatures to compare (Indyk & Motwani 1998; Leskovec, Rajaraman & Ullman, section
//! 3.4).
//!
//! A signature is a list of MinHash values, one at each position. It is cut into `bands` bands of `rows` positions. Two
//! signatures are a candidate pair if all values of at least one band are equal. At Jaccard similarity s that happens
//! with probability 1 − (1 − sʳ)ᵇ, the S-curve. A band hash is a hash of the values of one band.
//!
//! ```
//! use simflip_core::search::bands::Banding;
//!
//! let banding = Banding::choose(128, 0.8, 0.95)?;
//! assert_eq!(banding.to_string(), "13 bands x 7 rows");
//! assert!(banding.probability(0.8) > 0.95 && banding.probability(0.4) < 0.03);
//! # Ok::<(), simflip_core::Error>(())
//! ```
//!
//! [`LshIndex`](super::lsh::LshIndex) is the index of band hashes; a [`Deduper`](crate::Deduper) compares all documents
//! that share one.

use crate::error::{Error, Result, check_share};
use crate::minhash::{check_permutations, hash_positions};
use serde::{Deserialize, Serialize};

/// The shape of the bands of a signature. Positions beyond the last band are in no band: they count only where whole
/// signatures are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Banding {
    /// Number of bands (`b`), at least 1.
    pub bands: usize,
    /// Positions of each band (`r`), at least 1.
    pub rows: usize,
}

impl std::fmt::Display for Banding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bands x {} rows", self.bands, self.rows)
    }
}

impl Banding {
    /// The cut of signatures of `permutations` positions with the fewest false candidates that still finds pairs at
    /// `similarity` with probability `recall`.
    ///
    /// The rule: of all cuts with `bands · rows ≤ permutations` whose S-curve is at least `recall` at
    /// `similarity`, the one with the least area under the curve below `similarity`. The area is the
    /// probability that a pair whose similarity is uniform in 0..1 is a false candidate. Real pairs
    /// are mostly far below, where a steep curve gains even more. Of cuts with equal area the one
    /// with fewer rows is taken.
    ///
    /// `recall` is that of the candidates. If verification then estimates their similarity, it loses some pairs near
    /// the threshold as well.
    ///
    /// # Errors
    /// [`Error::Parameter`] if `similarity` or `recall` is not above 0 and at most 1, or `permutations` not 1 to 2²⁰.
    /// Also if no cut of so few positions reaches the recall. The message then says what could be reached.
    pub fn choose(permutations: usize, similarity: f64, recall: f64) -> Result<Self> {
        check_permutations(permutations)?;
        check_share("similarity", similarity)?;
        check_share("recall", recall)?;
        if recall == 1.0 && similarity < 1.0 {
            let expected =
                format!("a share below 1, as the similarity ({similarity}) is below 1: bands miss some pair");
            return Err(Error::parameter("recall", recall, expected));
        }
        let mut best: Option<(f64, Self)> = None;
        for rows in 1..=permutations {
            // With the same rows fewer bands mean a lower curve everywhere, so only the
            // fewest come into question.
            let Some(cut) = Self::fewest_bands(rows, permutations / rows, similarity, recall) else {
                // More rows agree less often, and no more bands of them fit.
                break;
            };
            let area = cut.false_candidates(similarity);
            if best.is_none_or(|(least, _)| area < least) {
                best = Some((area, cut));
            }
        }
        best.map(|(_, cut)| cut).ok_or_else(|| {
            // One row a band is the curve that is highest everywhere.
            let reachable = Self { bands: permutations, rows: 1 }.probability(similarity);
            let expected = format!(
                "at most {reachable:.6}, which is what {permutations} positions reach at similarity {similarity}"
            );
            Error::parameter("recall", recall, expected)
        })
    }

    /// The fewest bands of `rows` positions, at most `most`, whose curve reaches `recall` at `similarity`. None if
    /// `most` bands do not reach it.
    fn fewest_bands(rows: usize, most: usize, similarity: f64, recall: f64) -> Option<Self> {
        let reaches = |bands| Self { bands, rows }.probability(similarity) >= recall;
        if !reaches(most) {
            return None;
        }
        let (mut too_few, mut enough) = (0, most);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if reaches(middle) { enough = middle } else { too_few = middle }
        }
        Some(Self { bands: enough, rows })
    }

    /// Checks that these bands fit a signature of `permutations` positions.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there are no bands, no rows, or more positions in bands than the signature has.
    #[doc(hidden)]
    pub fn check(&self, permutations: usize) -> Result<()> {
        check_permutations(permutations)?;
        let positions = self.bands.checked_mul(self.rows);
        if positions.is_none_or(|n| n == 0 || n > permutations) {
            let expected = format!("bands × rows of 1 to {permutations}, the positions of a signature");
            return Err(Error::parameter("bands", format!("{}x{}", self.bands, self.rows), expected));
        }
        Ok(())
    }

    /// Number of positions of all bands together.
    #[doc(hidden)]
    pub fn positions(&self) -> usize {
        self.bands * self.rows
    }

    /// The band hashes of a signature, one for each band in order: the upper 32 bits of the hash of its values.
    ///
    /// # Panics
    /// If the signature has fewer positions than the bands.
    pub fn keys(&self, signature: &[u32]) -> impl ExactSizeIterator<Item = u32> {
        (0..self.bands).map(|band| (self.key(band, signature) >> 32) as u32)
    }

    /// The hash of a signature's values in a band, and of the band's number.
    fn key(&self, band: usize, signature: &[u32]) -> u64 {
        hash_positions(band as u64 + 1, &signature[band * self.rows..(band + 1) * self.rows])
    }

    /// The probability that two sets of this Jaccard similarity are a candidate pair: 1 − (1 − sʳ)ᵇ.
    pub fn probability(&self, similarity: f64) -> f64 {
        let band = libm::pow(similarity.clamp(0.0, 1.0), self.rows as f64);
        // The same without losing small probabilities: −(e^(b·ln(1 − sʳ)) − 1).
        if band >= 1.0 { 1.0 } else { -libm::expm1(self.bands as f64 * libm::log1p(-band)) }
    }

    /// The S-curve, for a chart: `points` similarities from 0 to 1 at equal distances, both ends included, each with
    /// its probability.
    #[doc(hidden)]
    pub fn curve(&self, points: usize) -> Vec<(f64, f64)> {
        let last = points.saturating_sub(1).max(1) as f64;
        (0..points).map(|i| i as f64 / last).map(|s| (s, self.probability(s))).collect()
    }

    /// The area under the S-curve from 0 to `similarity`: the probability that a pair is less similar than that and a
    /// candidate, if similarities are uniform in 0..1.
    ///
    /// With D(b) = ∫₀ᵗ 1 − (1 − xʳ)ᵇ dx, integration by parts gives D(b)·(rb + 1) = t·(1 −
    /// (1 − tʳ)ᵇ) + rb·D(b − 1).
    pub(crate) fn false_candidates(&self, similarity: f64) -> f64 {
        let t = similarity.clamp(0.0, 1.0);
        (1..=self.bands).fold(0.0, |area, bands| {
            let rb = (self.rows * bands) as f64;
            (t * Self { bands, rows: self.rows }.probability(t) + rb * area) / (rb + 1.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The area by the midpoint rule, finely enough for curves of a hundred rows.
    fn naive_area(cut: Banding, t: f64) -> f64 {
        const STEPS: usize = 2000;
        let step = t / STEPS as f64;
        let curve = |x: f64| 1.0 - (1.0 - x.powi(cut.rows as i32)).powi(cut.bands as i32);
        (0..STEPS).map(|i| curve((i as f64 + 0.5) * step) * step).sum()
    }

    #[test]
    fn the_curve_is_the_formula() {
        let cut = Banding { bands: 16, rows: 8 };
        for i in 0..=100 {
            let s = f64::from(i) / 100.0;
            let formula = 1.0 - (1.0 - s.powi(8)).powi(16);
            assert!((cut.probability(s) - formula).abs() < 1e-12, "{s}");
        }
        // Below what 1 − (1 − x) can show.
        assert!((Banding { bands: 4, rows: 32 }.probability(0.1) / 4e-32 - 1.0).abs() < 1e-9);
        assert_eq!((cut.probability(-1.0), cut.probability(2.0)), (0.0, 1.0));
    }

    #[test]
    fn the_curve_has_both_ends() {
        let cut = Banding { bands: 4, rows: 5 };
        let curve = cut.curve(5);
        assert_eq!(curve.iter().map(|p| p.0).collect::<Vec<_>>(), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert!(curve.iter().all(|&(s, p)| p == cut.probability(s)));
        assert_eq!((cut.curve(0), cut.curve(1)), (vec![], vec![(0.0, 0.0)]));
    }

    #[test]
    fn the_choice_is_the_best_of_all_cuts() {
        for m in [1, 2, 7, 20, 64, 128] {
            for similarity in [0.1, 0.5, 0.7, 0.8, 0.95, 1.0] {
                for recall in [0.1, 0.5, 0.9, 0.99] {
                    let cuts =
                        (1..=m).flat_map(|rows| (1..=m / rows).map(move |bands| Banding { bands, rows }));
                    let reaching: Vec<Banding> =
                        cuts.filter(|cut| cut.probability(similarity) >= recall).collect();
                    let Ok(chosen) = Banding::choose(m, similarity, recall) else {
                        assert!(reaching.is_empty(), "{m} {similarity} {recall}: {:?}", reaching[0]);
                        continue;
                    };
                    assert!(reaching.contains(&chosen), "{m} {similarity} {recall}: {chosen}");
                    let least = reaching.iter().map(|&c| naive_area(c, similarity)).fold(1.0, f64::min);
                    let area = naive_area(chosen, similarity);
                    assert!(area < least + 1e-6, "{m} {similarity} {recall}: {chosen}, {area} {least}");
                }
            }
        }
    }

    #[test]
    fn the_usual_choices() {
        // The default length at the similarity and recall that are usual for web text.
        let chosen = Banding::choose(128, 0.8, 0.95).unwrap();
        assert!(chosen.probability(0.8) >= 0.95 && chosen.bands * chosen.rows <= 128, "{chosen}");
        assert_eq!(chosen, Banding { bands: 13, rows: 7 });
        assert_eq!(Banding::choose(128, 1.0, 1.0).unwrap(), Banding { bands: 1, rows: 128 });
        assert_eq!(chosen.to_string(), "13 bands x 7 rows");
    }

    #[test]
    fn what_cannot_be_reached_is_refused_and_says_what_can() {
        let error = Banding::choose(10, 0.1, 0.99).unwrap_err().to_string();
        assert!(error.contains("0.651322"), "{error}");
        for (similarity, recall) in
            [(0.0, 0.9), (1.1, 0.9), (0.5, 0.0), (0.5, 1.1), (f64::NAN, 0.9), (0.5, f64::NAN)]
        {
            assert!(Banding::choose(128, similarity, recall).is_err(), "{similarity} {recall}");
        }
        assert!(Banding::choose(128, 0.9, 1.0).is_err());
        assert!(Banding::choose(0, 0.5, 0.5).is_err());
        for (bands, rows) in [(0, 1), (1, 0), (3, 43), (usize::MAX, 2), (129, 1)] {
            assert!(Banding { bands, rows }.check(128).is_err(), "{bands} {rows}");
        }
        assert!(Banding { bands: 16, rows: 8 }.check(128).is_ok());
    }

    proptest! {
        #[test]
        fn the_area_is_the_integral(bands in 1usize..40, rows in 1usize..40, t in 0.01f64..1.0) {
            let cut = Banding { bands, rows };
            prop_assert!((cut.false_candidates(t) - naive_area(cut, t)).abs() < 1e-5);
        }
    }
}
