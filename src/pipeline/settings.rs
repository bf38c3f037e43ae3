//! Everything that decides a run's result, in one plain struct that is filled by the command line and printed in reports.

use crate::clusters::{Keep, Linkage};
use crate::error::{Error, Result};
use crate::minhash::Family;
use crate::search::TableSet;
use crate::search::bands::Banding;
use crate::search::bphs::{Bphs, BphsParams};
use crate::simhash::BITS;
use crate::simhash::volatility::FlipCost;
use crate::text::FeatureKind;
use crate::weight::Weighting;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How near-duplicates are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// SimHash, probabilistic matching by the likeliest flips (Sood & Loguinov 2011).
    #[default]
    Psm,
    /// SimHash, exact block-permuted Hamming search (Manku et al. 2007).
    Bphs,
    /// MinHash signatures in bands (Broder 1997; Indyk & Motwani 1998).
    Minhash,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Psm, Self::Bphs, Self::Minhash];

    /// The command line's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Psm => "psm",
            Self::Bphs => "bphs",
            Self::Minhash => "minhash",
        }
    }
}

/// Where psm flips bits and looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PsmIndex {
    /// Few tables with disjoint keys, one flip in a key or two at most: exact at full budget. Ours.
    #[default]
    #[serde(alias = "half")]
    Dial,
    /// One table, flips in the leading bits (our reading P of the paper).
    OneTable,
    /// One table, flips in all 64 bits, whole hashes looked up (our reading X of the paper).
    AllBits,
}

impl PsmIndex {
    /// The command line's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dial => "dial",
            Self::OneTable => "one-table",
            Self::AllBits => "all-bits",
        }
    }
}

/// How the Jaccard coefficient of a MinHash candidate is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JaccardCheck {
    /// Estimated from the share of equal positions of the signatures.
    #[default]
    Estimated,
    /// Counted on the sets of features.
    Exact,
}

/// How a candidate is checked beyond its sketch. All measures are at most 1, and 1 for equal texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Not at all.
    #[default]
    None,
    /// Cosine of the two weight vectors behind the hashes (64 bytes a page).
    Weights,
    /// Share of both vectors' weight that stands behind bits that agree.
    Mismatch,
    /// Share of one vector's weight that stands behind bits that agree: the later page's, as of a query against stored
    /// hashes. The page that came before needs its hash only.
    QueryMismatch,
    /// Jaccard coefficient of the sets of features.
    Jaccard,
    /// Share of the smaller set of features that is in the larger.
    Containment,
    /// Cosine of the features' weights.
    Cosine,
}

impl Verify {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Weights,
        Self::Mismatch,
        Self::QueryMismatch,
        Self::Jaccard,
        Self::Containment,
        Self::Cosine,
    ];

    /// The command line's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Weights => "weights",
            Self::Mismatch => "mismatch",
            Self::QueryMismatch => "query-mismatch",
            Self::Jaccard => "jaccard",
            Self::Containment => "containment",
            Self::Cosine => "cosine",
        }
    }

    /// Whether it looks at the weight vectors behind SimHashes.
    pub fn needs_weights(self) -> bool {
        matches!(self, Self::Weights | Self::Mismatch | Self::QueryMismatch)
    }

    /// What it measures, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Weights => "cosine of the weight vectors behind the pages' hashes",
            Self::Mismatch => "share of the weight behind the pages' hashes that stands behind equal bits",
            Self::QueryMismatch => {
                "share of the weight behind the later page's hash that stands behind bits equal in the earlier page's hash"
            }
            Self::Jaccard => "Jaccard coefficient of the pages' sets of features, counted",
            Self::Containment => {
                "share of the smaller page's set of features that the larger one has, counted"
            }
            Self::Cosine => "cosine of the pages' feature weights, counted",
        }
    }

    /// The threshold where none is given.
    pub fn default_threshold(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Weights => 0.93,
            Self::Mismatch | Self::QueryMismatch => 0.97,
            Self::Jaccard => 0.8,
            Self::Containment | Self::Cosine => 0.9,
        }
    }
}

/// The settings of a run. What is not here does not change the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How near-duplicates are looked for.
    pub method: Method,
    /// What a document's features are.
    pub features: FeatureKind,
    /// How features are weighted in a SimHash.
    pub weighting: Weighting,
    /// Documents with fewer distinct features are compared by their exact text only.
    pub min_features: usize,
    /// Document frequencies to use instead of the corpus's own.
    pub frequencies: Option<PathBuf>,
    /// h: hashes that differ in at most this many bits are near (psm, bphs).
    pub distance: u32,
    /// Wanted share of the pairs at distance 1 to h that psm finds; of the pairs at the wanted similarity, for minhash.
    pub recall: f64,
    /// Where psm flips bits and looks.
    pub index: PsmIndex,
    /// Probes of a psm query, instead of measuring how many the wanted recall takes.
    pub budget: Option<u32>,
    /// p: bits that psm uses as key; by default chosen by the number of hashes.
    pub key_bits: Option<u32>,
    /// What psm with one table assumes that flipping a bit costs.
    pub flip_cost: FlipCost,
    /// Number of bphs tables; by default that of h + 2 blocks.
    pub tables: Option<u32>,
    /// Jaccard coefficient from which minhash calls two documents near.
    pub similarity: f64,
    /// Length of a MinHash signature.
    pub permutations: usize,
    /// Family of hash functions of a MinHash signature.
    pub family: Family,
    /// Bands and rows of minhash, instead of choosing them from similarity and recall.
    pub bands: Option<(usize, usize)>,
    /// How the Jaccard coefficient of a candidate is found.
    pub jaccard: JaccardCheck,
    /// How a candidate is checked beyond its sketch.
    pub verify: Verify,
    /// From what on a candidate passes the check; by default [`Verify::default_threshold`].
    pub verify_threshold: Option<f64>,
    /// How pairs make clusters.
    pub linkage: Linkage,
    /// Which copy of a cluster stays.
    pub keep: Keep,
    /// Whether every pair of documents is listed, and not just enough to connect each cluster.
    pub all_pairs: bool,
    /// Seed of whatever is random: samples, and MinHash's functions.
    pub seed: u64,
}

/// Near the best of what `experiments -- quality` measured, for its cost: binary 3-word shingles, a radius wide enough for
/// pages that a reader would call the same, and a check by the weight vectors that the hashes come from. The paper's own
/// settings are words, TF-IDF, distance 3 and no check.
impl Default for Settings {
    fn default() -> Self {
        Self {
            method: Method::Psm,
            features: FeatureKind::Shingles(3),
            weighting: Weighting::Binary,
            min_features: 8,
            frequencies: None,
            distance: 10,
            recall: 0.95,
            index: PsmIndex::default(),
            budget: None,
            key_bits: None,
            flip_cost: FlipCost::Abs,
            tables: None,
            similarity: 0.8,
            permutations: 128,
            family: Family::default(),
            bands: None,
            jaccard: JaccardCheck::Estimated,
            verify: Verify::Weights,
            verify_threshold: None,
            linkage: Linkage::default(),
            keep: Keep::First,
            all_pairs: false,
            seed: 0,
        }
    }
}

/// The largest distance that can be asked for: at 32 of 64 bits, unrelated hashes are near.
pub const MAX_DISTANCE: u32 = 15;

impl Settings {
    /// What is usual for a method: minhash has no weight vectors that could be checked.
    pub fn of(method: Method) -> Self {
        let usual = Self::default();
        let verify = if method == Method::Minhash { Verify::None } else { usual.verify };
        Self { method, verify, ..usual }
    }

    /// Checks each setting and their combinations.
    ///
    /// # Errors
    /// [`Error::Parameter`] naming the first setting that has no meaning.
    pub fn check(&self) -> Result<()> {
        if self.distance > MAX_DISTANCE {
            let expected = format!("at most {MAX_DISTANCE} of 64 bits; farther hashes are alike by chance");
            return Err(Error::parameter("distance", self.distance, expected));
        }
        if !(self.recall > 0.0 && self.recall <= 1.0) {
            return Err(Error::parameter("recall", self.recall, "a share above 0 and at most 1"));
        }
        if !(self.similarity > 0.0 && self.similarity <= 1.0) {
            return Err(Error::parameter("similarity", self.similarity, "a share above 0 and at most 1"));
        }
        if self.budget == Some(0) {
            return Err(Error::parameter("budget", 0, "at least 1 probe"));
        }
        if let Some(bits) = self.key_bits.filter(|bits| !(1..=BITS as u32).contains(bits)) {
            return Err(Error::parameter("key-bits", bits, format!("1 to {BITS}")));
        }
        self.check_tables()?;
        if self.method == Method::Minhash && self.verify.needs_weights() {
            let expected = "jaccard, containment or cosine with minhash, which has no weight vectors";
            return Err(Error::parameter("verify", self.verify.name(), expected));
        }
        if let Some(threshold) = self.verify_threshold {
            if !(threshold > 0.0 && threshold <= 1.0) {
                return Err(Error::parameter("verify-threshold", threshold, "a share above 0 and at most 1"));
            }
            if self.verify == Verify::None {
                let expected = "none where no check (verify) is made";
                return Err(Error::parameter("verify-threshold", threshold, expected));
            }
        }
        if self.permutations == 0 || self.permutations > 1 << 16 {
            return Err(Error::parameter("permutations", self.permutations, "1 to 65536"));
        }
        if let Some((bands, rows)) = self.bands
            && (bands == 0 || rows == 0 || bands.saturating_mul(rows) > self.permutations)
        {
            let expected = format!("bands × rows of 1 to the {} permutations", self.permutations);
            return Err(Error::parameter("bands", format!("{bands}x{rows}"), expected));
        }
        self.check_reachable()
    }

    /// Whether bphs can have so many tables; better told before the corpus is read than after.
    fn check_tables(&self) -> Result<()> {
        let fits = |&tables: &u32| Bphs::new(&[], BphsParams { radius: self.distance, tables }).is_ok();
        let Some(tables) = self.tables.filter(|tables| self.method == Method::Bphs && !fits(tables)) else {
            return Ok(());
        };
        let possible: Vec<String> =
            (1..=TableSet::BITS).filter(fits).map(|tables| tables.to_string()).collect();
        let expected = format!("{} for distance {}", possible.join(" or "), self.distance);
        Err(Error::parameter("tables", tables, expected))
    }

    /// Whether any bands of so long a signature reach the recall; likewise.
    fn check_reachable(&self) -> Result<()> {
        let (m, similarity) = (self.permutations, self.similarity);
        let chosen = self.method != Method::Minhash || self.bands.is_some();
        if chosen || Banding::choose(m, similarity, self.recall).is_ok() {
            return Ok(());
        }
        let most = Banding { bands: m, rows: 1 }.probability(similarity);
        let expected = if self.recall == 1.0 {
            format!("a share below 1 where the similarity ({similarity}) is below 1: bands miss some pair")
        } else {
            format!("at most {most:.6}, which is what {m} permutations reach at similarity {similarity}")
        };
        Err(Error::parameter("recall", self.recall, expected))
    }

    /// The name, in pairs.csv, of the similarity that a pair of different texts has.
    pub fn measure_name(&self) -> &'static str {
        match (self.verify, self.method, self.jaccard) {
            (Verify::None, Method::Psm | Method::Bphs, _) => "hash-cosine",
            (Verify::None, Method::Minhash, JaccardCheck::Estimated) => "signature-jaccard",
            (Verify::None, Method::Minhash, JaccardCheck::Exact) => Verify::Jaccard.name(),
            (verify, ..) => verify.name(),
        }
    }

    /// From what on a candidate passes the check.
    pub fn passing(&self) -> f64 {
        self.verify_threshold.unwrap_or_else(|| self.verify.default_threshold())
    }

    /// Number of bphs tables: the chosen one, or that of h + 2 blocks while an index can have as many, else of h + 1.
    pub fn bphs_tables(&self) -> u32 {
        let h = self.distance;
        self.tables.unwrap_or(match (h + 1) * (h + 2) / 2 {
            tables @ ..=64 => tables,
            _ => h + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_has_a_bphs() {
        for distance in 0..=MAX_DISTANCE {
            let settings = Settings { distance, ..Settings::default() };
            settings.check().unwrap();
            Bphs::new(&[1, 2], BphsParams { radius: distance, tables: settings.bphs_tables() }).unwrap();
        }
    }

    #[test]
    fn what_is_usual_for_a_method_has_a_meaning() {
        assert_eq!(Settings::of(Method::Psm), Settings::default());
        for method in Method::ALL {
            Settings::of(method).check().unwrap();
        }
    }

    #[test]
    fn settings_without_meaning_are_named() {
        let wrong = |settings: Settings, name| {
            let message = settings.check().unwrap_err().to_string();
            assert!(message.starts_with(name), "{message}");
        };
        let ok = Settings::default;
        wrong(Settings { distance: 16, ..ok() }, "distance");
        wrong(Settings { recall: 0.0, ..ok() }, "recall");
        wrong(Settings { recall: f64::NAN, ..ok() }, "recall");
        wrong(Settings { similarity: 1.5, ..ok() }, "similarity");
        wrong(Settings { budget: Some(0), ..ok() }, "budget");
        wrong(Settings { key_bits: Some(65), ..ok() }, "key-bits");
        wrong(Settings { tables: Some(7), method: Method::Bphs, ..ok() }, "tables");
        Settings { tables: Some(7), ..ok() }.check().unwrap();
        wrong(Settings { recall: 1.0, ..Settings::of(Method::Minhash) }, "recall");
        wrong(Settings { permutations: 0, ..ok() }, "permutations");
        wrong(Settings { verify: Verify::None, verify_threshold: Some(0.5), ..ok() }, "verify-threshold");
        wrong(Settings { verify_threshold: Some(1.5), verify: Verify::Cosine, ..ok() }, "verify-threshold");
        wrong(Settings { method: Method::Minhash, verify: Verify::Weights, ..ok() }, "verify");
        wrong(Settings { bands: Some((20, 7)), ..ok() }, "bands");
    }

    #[test]
    fn what_is_possible_is_told() {
        let told = |settings: Settings| settings.check().unwrap_err().to_string();
        let bphs = Settings { method: Method::Bphs, distance: 3, tables: Some(7), ..Settings::default() };
        assert_eq!(told(bphs), "tables 7: expected 4 or 10 or 16 or 20 or 35 or 56 for distance 3");
        let minhash = Settings { recall: 0.99, permutations: 2, ..Settings::of(Method::Minhash) };
        assert_eq!(
            told(minhash),
            "recall 0.99: expected at most 0.960000, which is what 2 permutations reach at similarity 0.8"
        );
    }

    #[test]
    fn settings_survive_json() {
        let settings =
            Settings { features: FeatureKind::Shingles(3), bands: Some((4, 5)), ..Settings::default() };
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
        assert!(serde_json::from_str::<Settings>(r#"{"distanze": 3}"#).is_err());
    }
}
