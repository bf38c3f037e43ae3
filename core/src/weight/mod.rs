//! The weight of a feature: TF-IDF, TF or binary, in fixed point, so that sums do not depend on their order.

pub mod frequencies;
pub(crate) mod set;
pub(crate) mod vocabulary;

use serde::{Deserialize, Serialize};

/// The weight of a feature as a function of its number of occurrences and its document frequency.
///
/// The weights of a document are used at unit L2 norm (the paper's "normalised TF-IDF", in our reading).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    /// (1 + ln tf) · ln((N + 1) / df): sublinear term frequency times inverse document frequency.
    #[default]
    TfIdf,
    /// tf, the bare number of occurrences.
    Tf,
    /// 1 for every feature that occurs.
    Binary,
}

#[doc(hidden)]
impl Weighting {
    /// True if document frequencies are needed.
    pub fn needs_frequencies(self) -> bool {
        self == Self::TfIdf
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::TfIdf => "tf-idf",
            Self::Tf => "tf",
            Self::Binary => "binary",
        }
    }
}

/// The number of fractional bits of a stored weight, an integer multiple of 2⁻²⁴. Sums of integers are exact: the same
/// SimHash on every machine, in whatever order features come.
pub const FIXED_POINT_BITS: u32 = 24;

/// The largest number of occurrences that is distinguished; a feature that occurs more often counts as this
/// often.
pub(crate) const MAX_OCCURRENCES: u32 = u16::MAX as u32;

/// Computes the weights of features in fixed point, before normalisation.
#[derive(Clone, Debug)]
pub struct Weigher {
    weighting: Weighting,
    /// 1 + ln tf, or tf, or 1, for small tf.
    by_occurrences: Vec<f64>,
}

impl Weigher {
    /// The weigher of this weighting.
    pub fn new(weighting: Weighting) -> Self {
        Self { weighting, by_occurrences: (0..256).map(|tf| occurrences_part(weighting, tf)).collect() }
    }

    /// Inverse document frequency of a feature that occurs in `frequency` of `documents` documents; 1 where
    /// the weighting uses none. A frequency of 0 (a feature that the frequencies have never seen) counts as 1.
    pub fn idf(&self, frequency: u32, documents: u64) -> f32 {
        if self.weighting.needs_frequencies() {
            // ln((N + 1) / df) and not ln(N / df): a corpus of one document still has weights above 0.
            libm::log((documents.max(u64::from(frequency)) + 1) as f64 / f64::from(frequency.max(1))) as f32
        } else {
            1.0
        }
    }

    /// The weight, in multiples of 2⁻²⁴, of a feature that occurs `occurrences` times in a document and whose inverse
    /// document frequency is `idf`.
    #[inline]
    pub fn weight(&self, occurrences: u32, idf: f32) -> i64 {
        let part = match self.by_occurrences.get(occurrences as usize) {
            Some(&part) => part,
            None => occurrences_part(self.weighting, occurrences.min(MAX_OCCURRENCES)),
        };
        (part * f64::from(idf) * f64::from(1 << FIXED_POINT_BITS)).round_ties_even() as i64
    }

    /// The features of a document, each with its weight in multiples of 2⁻²⁴. `counts` says how often each occurs in
    /// the document; `frequency` gives the number of documents, of `documents` in all, that have a feature.
    pub fn weights(
        &self,
        counts: &[(u64, u32)],
        documents: u64,
        frequency: impl Fn(u64) -> u32,
    ) -> Vec<(u64, i64)> {
        let weight = |n, feature| self.weight(n, self.idf(frequency(feature), documents));
        counts.iter().map(|&(feature, n)| (feature, weight(n, feature))).collect()
    }
}

fn occurrences_part(weighting: Weighting, occurrences: u32) -> f64 {
    match (weighting, occurrences) {
        (_, 0) => 0.0,
        (Weighting::TfIdf, tf) => 1.0 + libm::log(f64::from(tf)),
        (Weighting::Tf, tf) => f64::from(tf),
        (Weighting::Binary, _) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes() {
        let unit = f64::from(1 << FIXED_POINT_BITS);
        let weight = |scheme, tf, df, n| {
            let weigher = Weigher::new(scheme);
            weigher.weight(tf, weigher.idf(df, n)) as f64 / unit
        };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
        near(weight(Weighting::TfIdf, 1, 10, 99), (100f64 / 10.0).ln());
        near(weight(Weighting::TfIdf, 7, 10, 99), (1.0 + 7f64.ln()) * 10f64.ln());
        near(weight(Weighting::TfIdf, 300, 1, 99), (1.0 + 300f64.ln()) * 100f64.ln());
        near(weight(Weighting::TfIdf, 1, 0, 99), 100f64.ln());
        near(weight(Weighting::Tf, 7, 10, 99), 7.0);
        near(weight(Weighting::Tf, 70_000, 10, 99), 65_535.0);
        near(weight(Weighting::Binary, 7, 10, 99), 1.0);
        near(weight(Weighting::Binary, 0, 10, 99), 0.0);
    }

    #[test]
    fn a_word_of_every_document_still_counts() {
        let weigher = Weigher::new(Weighting::TfIdf);
        assert!(weigher.weight(1, weigher.idf(1_000_000, 1_000_000)) > 0);
        assert!(weigher.weight(1, weigher.idf(1, 1)) > 0);
        assert!(weigher.weight(1, weigher.idf(5, 3)) > 0, "frequencies of another corpus may exceed N");
    }
}
