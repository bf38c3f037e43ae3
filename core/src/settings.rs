//! The settings that decide a result. Three enums name the sketch of a document, the generator of candidate pairs, and
//! the verification that decides about them. [`Deduper::new`](crate::Deduper::new) and the other constructors check the
//! numbers, and refuse a combination that nothing runs.

#[doc(inline)]
pub use crate::clusters::{Keep, Linkage, Quota, Source};
use crate::error::{Error, Result, check_share};
#[doc(inline)]
pub use crate::hash::FeatureHash;
use crate::minhash::{Family, MinHashParams};
use crate::search::bands::Banding;
use crate::search::bphs::BphsParams;
use crate::search::hash_bands;
use crate::search::psm::{self, FlippedBits};
use crate::simhash::BITS;
use crate::text::Extraction;
#[doc(inline)]
pub use crate::text::FeatureKind;
#[doc(inline)]
pub use crate::weight::Weighting;
use serde::{Deserialize, Serialize};

/// The settings of a run. Nothing else changes the result for the same documents.
///
/// Begin with [`Settings::simhash`], [`Settings::minhash`] or [`Settings::paper`], and change what differs:
///
/// ```
/// use simflip_core::Deduper;
/// use simflip_core::settings::{Generator, Recall, Settings};
///
/// let generator = Generator::Dial { distance: 6, recall: Recall::AtLeast(0.99), key_bits: None };
/// let settings = Settings::simhash().with(|settings| settings.generator = generator);
/// let deduper = Deduper::new(settings)?;
/// assert_eq!(deduper.len(), 0);
/// # Ok::<(), simflip_core::Error>(())
/// ```
///
/// Short texts of one's own, by the features that they share:
///
/// ```
/// use simflip_core::Deduper;
/// use simflip_core::settings::{FeatureHash, FeatureKind, Keep, Linkage, Quota};
/// use simflip_core::settings::{Settings, Sketches, Source, Verification, Weighting};
///
/// let settings = Settings::minhash(0.7).with(|settings| {
///     settings.features = FeatureKind::Characters(5);
///     settings.feature_hash = FeatureHash::Product;
///     settings.min_features = 1;
///     settings.verification = Verification::Cosine { at_least: 0.7, weighting: Weighting::Tf };
///     settings.linkage = Linkage::Connected;
///     settings.keep = Keep::Longest;
///     settings.quota = Quota { count: 2, each: Some(Source::Host) };
/// });
/// assert!(matches!(settings.sketches, Sketches::MinHash { .. }));
/// let deduper = Deduper::new(settings)?;
/// assert_eq!(deduper.len(), 0);
/// # Ok::<(), simflip_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The kind of a document's features.
    pub features: FeatureKind,
    /// The hash by which features are known.
    pub feature_hash: FeatureHash,
    /// The fewest distinct features of a document that gets a sketch; others are compared by their exact text only. 0
    /// is taken as 1.
    pub min_features: usize,
    /// The sketch of each document.
    pub sketches: Sketches,
    /// The source of candidate pairs.
    pub generator: Generator,
    /// The verification of candidate pairs.
    pub verification: Verification,
    /// The linkage of pairs into clusters.
    pub linkage: Linkage,
    /// The rule for the document of a cluster that is kept.
    pub keep: Keep,
    /// The number of documents that are kept of a cluster, or of each source in it.
    #[serde(default, skip_serializing_if = "Quota::is_one")]
    pub quota: Quota,
    /// True if every near pair of documents is looked for and listed, not only enough pairs to connect each cluster.
    pub all_pairs: bool,
    /// The seed of all that is random: samples, and MinHash's functions.
    pub seed: u64,
}

/// The sketch of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sketches {
    /// A SimHash of 64 bits, and the 64 weights behind it in a byte each.
    SimHash {
        /// The weighting of features.
        weighting: Weighting,
    },
    /// A MinHash signature: the value of each position. A key is the hash of a band of these values. The hash of such a
    /// document is one bit of each of its first 64 positions.
    MinHash {
        /// Positions of a signature, 32 bits each: an even number.
        permutations: usize,
        /// The bands of the positions that keys are made of. A key has four bytes.
        banding: Banding,
    },
    /// Two sketches of one set of features, made together: a SimHash of 64 bits without the weights behind it, and bits
    /// that estimate the Jaccard similarity of two sets ([`jaccard`](crate::jaccard)). Keys come with them, each the
    /// hash of a band of MinHash values: documents that share a key are candidates.
    Both {
        /// The number of bits: a multiple of 64.
        bits: usize,
        /// The bands of the MinHash positions that keys are made of. A key has four bytes.
        banding: Banding,
    },
    /// One bit of each MinHash position (Li & König 2010), in place of the 32 of [`MinHash`](Self::MinHash); and keys
    /// made of other positions. The hash of such a document is its first 64 bits.
    OneBit {
        /// The number of MinHash positions, and so of bits: a multiple of 64.
        bits: usize,
        /// The bands of the MinHash positions that keys are made of. A key has four bytes.
        banding: Banding,
    },
}

/// The forms of a document's bits ([`jaccard`](crate::jaccard)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub enum Forms {
    /// By the size of the set: hashes or odd sketches of small sets, one bit of each MinHash position of large ones.
    #[default]
    BySize,
    /// One bit of each MinHash position, of sets of any size, as [`Sketches::OneBit`] has them.
    Minima,
    /// The 32 bits of each MinHash position, two positions to a word, as [`Sketches::MinHash`] has them.
    Values,
}

/// The source of candidate pairs. Distances are of SimHashes, in bits, and inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Generator {
    /// An exact join of all hashes with each other, without an index.
    Join {
        /// h: hashes that differ in at most this number of bits are candidates.
        distance: u32,
    },
    /// A query for each hash: few tables with disjoint keys, one flip or two in a key, the
    /// likeliest probes first. Ours.
    Dial {
        /// h: the largest distance of a candidate pair.
        distance: u32,
        /// The share of the pairs within the distance to find.
        recall: Recall,
        /// Bits of a key; none if the number of hashes chooses them.
        key_bits: Option<u32>,
    },
    /// A query for each hash: one table, the likeliest sets of flips first (Sood & Loguinov 2011,
    /// in two readings of ours).
    Psm {
        /// h: the largest distance of a candidate pair.
        distance: u32,
        /// The share of the pairs within the distance to find.
        recall: Recall,
        /// The bits that are flipped.
        flipped_bits: FlippedBits,
    },
    /// Block-permuted tables (Manku, Jain & Das Sarma 2007). Up to 3 bits, documents that share a key of a table are
    /// compared. At larger distances, or if [all pairs](Settings::all_pairs) are listed, each hash is a query, and
    /// the search is exact.
    Bphs {
        /// h: the largest distance of a candidate pair.
        distance: u32,
        /// Number of tables; none for the number that h + 2 blocks take.
        tables: Option<u32>,
    },
    /// A query for each hash: hashes that agree in all bits of a band. Pairs within the distance that agree in
    /// no band are missed; there are none if there are more bands than bits may differ.
    HashBands {
        /// h: the largest distance of a candidate pair.
        distance: u32,
        /// The bands of hashes, `rows` being bits.
        banding: Banding,
    },
    /// Documents that share a key, the hash of a band of MinHash values (Broder 1997; Indyk & Motwani 1998). With
    /// [`Sketches::Both`] and [`Sketches::OneBit`], keys are made of other positions than bits. A document is mostly
    /// compared with the [leaders](crate::buckets) among them alone. SimHashes have no keys.
    Keys,
}

/// The share of the pairs within a distance that a probing search is to find.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum Recall {
    /// All pairs within the distance.
    Exact,
    /// At least this share, above 0 and below 1. The run measures on the corpus how many probes that takes.
    AtLeast(f64),
    /// The share that this number of probes for each query finds.
    Probes(u32),
}

/// The verification of a candidate pair. Every measure is at most 1, and 1 for equal texts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum Verification {
    /// None: every candidate pair is near.
    None,
    /// The cosine of the two weight vectors behind the hashes is at least this.
    Weights(f64),
    /// The share of both weight vectors' weight that stands behind equal bits is at least this.
    Mismatch(f64),
    /// The Jaccard similarity of the sets of features, as MinHash estimates it, is at least this.
    Estimate(f64),
    /// The Jaccard similarity of the sets of features is at least this.
    Jaccard(f64),
    /// The share of the smaller set of features that the larger one has is at least this. With both sketches and
    /// [keys](Generator::Keys), documents of any sizes are [found](crate::containment), not only those that share a
    /// key.
    Containment(f64),
    /// The share of characters or words that stay when a text is edited to be the other is at least this, 0.8 or more:
    /// for copies that were damaged. With both sketches and [keys](Generator::Keys).
    Edits(f64),
    /// The cosine of the features' weights is at least this.
    Cosine {
        /// The least cosine.
        at_least: f64,
        /// The weighting of features.
        weighting: Weighting,
    },
}

/// The measure of a [`Verification`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
#[doc(hidden)]
pub enum Measure {
    /// Cosine of the weight vectors behind two SimHashes.
    Weights,
    /// Share of both vectors' weight that stands behind equal bits.
    Mismatch,
    /// Jaccard similarity as MinHash estimates it, from the share of equal positions or from equal bits. It is at most
    /// the ratio of the sizes of both sets, which no Jaccard similarity exceeds.
    Estimate,
    /// Jaccard similarity of two sets of features, counted.
    Jaccard,
    /// Share of the smaller set of features that the larger one has, counted.
    Containment,
    /// Cosine of the features' weights, counted.
    Cosine,
    /// The greater of two shares ([`edits`](crate::edits)): of the bytes that stay when one text is edited to be the
    /// other, and of the words that both have, wherever they stand.
    Edits,
}

/// The cosine of weight vectors below which a document is unlike the kept one of its cluster, in a result without
/// verification.
const UNLIKE: f64 = 0.8;

/// The most MinHash positions, and the most bits, of a sketch that settings may have.
pub(crate) const MOST_PERMUTATIONS: usize = 1 << 16;

/// The default distance, in bits, within which SimHashes are joined for verification.
#[doc(hidden)]
pub const USUAL_DISTANCE: u32 = 10;

/// The distance that the paper uses, in bits.
#[doc(hidden)]
pub const PAPER_DISTANCE: u32 = 3;

/// The default Jaccard similarity from which on documents are near by MinHash.
#[doc(hidden)]
pub const USUAL_SIMILARITY: f64 = 0.8;

/// The default number of bits of [`Sketches::Both`].
#[doc(hidden)]
pub const USUAL_BITS: usize = 1024;

/// The most MinHash positions that the keys of both sketches are made of.
const KEY_POSITIONS: usize = 128;

/// The default share of the pairs at the threshold that share a key, and so are candidates.
#[doc(hidden)]
pub const USUAL_KEY_RECALL: f64 = 0.97;

/// The containment from which on [`Settings::removable`] removes a document.
const REMOVABLE: f64 = 0.82;

/// The default `similarity` of [`Settings::noisy`].
#[doc(hidden)]
pub const NOISY: f64 = 0.5;

/// The share of characters or words from which on a text is a damaged copy of another. It was chosen on texts with 5 %
/// of damage (docs/quality.md).
const DAMAGED: f64 = 0.95;

/// The least threshold of [`Verification::Edits`]: texts that are less alike hardly share a key of character 5-grams.
const LEAST_EDITS: f64 = 0.8;

/// The default recall of a search that does not find all pairs.
#[doc(hidden)]
pub const USUAL_RECALL: f64 = 0.95;

/// The largest distance that settings may have, in bits: unrelated hashes differ in 32 of 64 bits on average.
pub(crate) const MAX_DISTANCE: u32 = 15;

/// The default bands of [`Generator::HashBands`]: all 64 bits, 16 in a band.
#[doc(hidden)]
pub const USUAL_HASH_BANDS: Banding = Banding { bands: 4, rows: 16 };

/// The largest distance, in bits, for which keys of block-permuted tables serve as band hashes
/// ([`Settings::block_tables`]): for farther hashes these keys have too few bits.
#[doc(hidden)]
pub const FARTHEST_KEYED: u32 = 3;

/// The largest distance, in bits, at which an exact join of all hashes takes less time than the probes that find 95 %
/// of the pairs. On 1.4 million hashes of real documents the join takes a third of that time at distance 3, and four
/// fifths at distance 10. With more hashes it gains more.
#[doc(hidden)]
pub const FARTHEST_JOINED: u32 = 10;

/// Both sketches, near from a Jaccard similarity of 0.8 on.
impl Default for Settings {
    fn default() -> Self {
        Self::both(USUAL_SIMILARITY)
    }
}

impl Settings {
    /// The default: both sketches of the 5-word shingles of every document. Documents that share a key are near from a
    /// Jaccard similarity of `similarity` on, as 1,024 bits estimate it.
    pub fn both(similarity: f64) -> Self {
        // What no bands reach is refused by the similarity.
        let banding =
            Self::keyed(similarity, USUAL_KEY_RECALL).unwrap_or(Banding { bands: KEY_POSITIONS, rows: 1 });
        Self {
            features: FeatureKind::Shingles(5),
            feature_hash: FeatureHash::Product,
            min_features: 1,
            sketches: Sketches::Both { bits: USUAL_BITS, banding },
            generator: Generator::Keys,
            verification: Verification::Estimate(similarity),
            ..Self::simhash()
        }
    }

    /// Settings for removing what a careful reader would: the smaller document's 3-word shingles are nearly all in the
    /// other document, and the fuller one is kept. Chosen on pairs that were read (docs/quality.md).
    pub fn removable() -> Self {
        Self {
            features: FeatureKind::Shingles(3),
            verification: Verification::Containment(REMOVABLE),
            keep: Keep::Fullest,
            ..Self::both(USUAL_SIMILARITY)
        }
    }

    /// Settings for copies that were damaged by recognition of characters, by typing, or by lost spaces or words. Runs
    /// of five characters make texts candidates from a Jaccard similarity of `similarity` on, usually 0.5. Then the
    /// texts themselves are compared. They are near if 95 % of the characters stay when one is edited to be the other,
    /// or if both have 95 % of the words, wherever these stand. Memory holds up to 32 KiB of the words of each text,
    /// and a hash of each word.
    pub fn noisy(similarity: f64) -> Self {
        Self {
            features: FeatureKind::Characters(5),
            verification: Verification::Edits(DAMAGED),
            ..Self::both(similarity)
        }
    }

    /// SimHash of binary 5-word shingles, joined exactly within 10 bits, verified by the weight vectors.
    ///
    /// Documents with fewer than 8 distinct features, such as titles of up to eleven words, are compared by their exact
    /// text only. [`Outcome::documents_with_few_features`](crate::Outcome::documents_with_few_features) counts them,
    /// and `min_features = 1` compares them.
    pub fn simhash() -> Self {
        Self {
            features: FeatureKind::Shingles(5),
            feature_hash: FeatureHash::Murmur3,
            min_features: 8,
            sketches: Sketches::SimHash { weighting: Weighting::Binary },
            generator: Generator::Join { distance: USUAL_DISTANCE },
            verification: Verification::Weights(Measure::Weights.usual_threshold()),
            linkage: Linkage::default(),
            keep: Keep::default(),
            quota: Quota::default(),
            all_pairs: false,
            seed: 0,
        }
    }

    /// MinHash: signatures of 128 positions. Documents that share a key are near from a Jaccard similarity of
    /// `similarity` on, as the signatures estimate it. Documents with few features are compared as by
    /// [`simhash`](Self::simhash).
    pub fn minhash(similarity: f64) -> Self {
        const PERMUTATIONS: usize = 128;
        // What no bands reach is refused by the similarity.
        let banding = Banding::choose(PERMUTATIONS, similarity, USUAL_RECALL)
            .unwrap_or(Banding { bands: PERMUTATIONS, rows: 1 });
        Self {
            feature_hash: FeatureHash::Product,
            sketches: Sketches::MinHash { permutations: PERMUTATIONS, banding },
            generator: Generator::Keys,
            verification: Verification::Estimate(similarity),
            ..Self::simhash()
        }
    }

    /// The settings of the paper, as we read it: words, TF-IDF, hashes within 3 bits found by probing, and no
    /// verification.
    pub fn paper() -> Self {
        Self {
            features: FeatureKind::Words,
            sketches: Sketches::SimHash { weighting: Weighting::TfIdf },
            generator: Generator::Psm {
                distance: PAPER_DISTANCE,
                recall: Recall::AtLeast(USUAL_RECALL),
                flipped_bits: FlippedBits::Key { key_bits: None },
            },
            verification: Verification::None,
            ..Self::simhash()
        }
    }

    /// Gives these settings with some of them changed.
    ///
    /// ```
    /// use simflip_core::settings::{Linkage, Settings};
    ///
    /// let settings = Settings::minhash(0.7).with(|settings| settings.linkage = Linkage::Star);
    /// assert_eq!(settings.linkage, Linkage::Star);
    /// ```
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

#[doc(hidden)]
impl Settings {
    /// Chooses the bands of the keys of [`both`](Self::both), so that a share of `recall` of the pairs at this Jaccard
    /// similarity share a key.
    ///
    /// # Errors
    /// [`Error::Parameter`] if no bands reach the share.
    pub fn keyed(similarity: f64, recall: f64) -> Result<Banding> {
        Banding::choose(KEY_POSITIONS, similarity, recall)
    }

    /// MinHash with one bit of each of `bits` positions. Documents that share a key are near from a Jaccard similarity
    /// of `similarity` on, as the bits estimate it.
    pub fn one_bit(bits: usize, similarity: f64) -> Self {
        let both = Self::both(similarity);
        let Sketches::Both { banding, .. } = both.sketches else { return both };
        both.with(|settings| settings.sketches = Sketches::OneBit { bits, banding })
    }

    /// True if a weight of features depends on document frequencies: the number of documents that have a feature.
    pub fn needs_frequencies(&self) -> bool {
        let weighs = |weighting: Weighting| weighting.needs_frequencies();
        matches!(self.sketches, Sketches::SimHash { weighting } if weighs(weighting))
            || matches!(self.verification, Verification::Cosine { weighting, .. } if weighs(weighting))
    }

    /// The block-permuted tables whose keys serve as band hashes; none for settings that use no such keys. Settings for
    /// BPHS use them up to [`FARTHEST_KEYED`] bits, unless all pairs are to be listed: then an index finds these.
    pub fn block_tables(&self) -> Option<BphsParams> {
        match (self.sketches, self.generator) {
            (Sketches::SimHash { .. }, Generator::Bphs { distance, tables })
                if distance <= FARTHEST_KEYED && !self.all_pairs =>
            {
                let tables = tables.unwrap_or_else(|| BphsParams::usual_tables(distance));
                Some(BphsParams { radius: distance, tables })
            }
            _ => None,
        }
    }

    /// True if documents must be kept as features with their occurrences, and not as sketches: document frequencies are
    /// counted first, or verification counts features.
    pub(crate) fn needs_features(&self) -> bool {
        let counts = self.verification.measure().is_some_and(Measure::needs_features);
        self.needs_frequencies() || counts && !self.keeps_feature_hashes()
    }

    /// True if each sketch comes with the words of the text, in which edits are counted.
    pub fn keeps_words(&self) -> bool {
        matches!(self.verification, Verification::Edits(_))
    }

    /// True if each sketch comes with a hash of each feature, by which containment is counted.
    pub fn keeps_feature_hashes(&self) -> bool {
        matches!(self.verification, Verification::Containment(_))
            && self.sketches.keyed().is_some()
            && self.generator == Generator::Keys
    }

    /// The kind of features, and their hash.
    pub fn extraction(&self) -> Extraction {
        Extraction { kind: self.features, hash: self.feature_hash }
    }

    /// The parameters of MinHash signatures, or of the MinHash positions that keys are made of; none for SimHash.
    pub fn minhash_params(&self) -> Option<MinHashParams> {
        self.sketches.minhash_params(self.seed)
    }

    /// The measure by which the members of a cluster are compared with the kept document, and the similarity below
    /// which they are unlike it. Both are verification's own, or else those of the sketches.
    pub fn cohesion(&self) -> (Measure, f64) {
        match (self.verification.measure(), self.verification.threshold()) {
            (Some(measure), Some(threshold)) => (measure, threshold),
            _ => (Measure::Weights, UNLIKE),
        }
    }

    /// Checks each setting, and that they fit together.
    ///
    /// # Errors
    /// [`Error::Parameter`] naming the first setting that has no meaning.
    pub fn check(&self) -> Result<()> {
        self.features.check()?;
        self.sketches.check()?;
        let fits = match self.generator {
            Generator::Keys => self.sketches.keyed().is_some(),
            Generator::Join { .. } => true,
            Generator::Dial { .. }
            | Generator::Psm { .. }
            | Generator::Bphs { .. }
            | Generator::HashBands { .. } => matches!(self.sketches, Sketches::SimHash { .. }),
        };
        if !fits {
            let expected = match self.sketches {
                Sketches::Both { .. } => "keys or join with both sketches, which keep no weights to probe by",
                Sketches::MinHash { .. } | Sketches::OneBit { .. } => {
                    "keys or join with MinHash, which keeps no weights to probe by"
                }
                Sketches::SimHash { .. } => {
                    "join, dial, psm, bphs or bands of hashes with SimHash, which has no keys"
                }
            };
            return Err(Error::parameter("search", self.generator.name(), expected));
        }
        let weights = matches!(self.verification, Verification::Weights(_) | Verification::Mismatch(_));
        let estimates = matches!(self.verification, Verification::Estimate(_));
        let expected = match self.sketches {
            // Documents that share a key may be strangers.
            Sketches::Both { .. } if weights || self.verification == Verification::None => {
                Some("estimate, jaccard, containment or cosine with both sketches")
            }
            Sketches::MinHash { .. } | Sketches::OneBit { .. }
                if weights || self.verification == Verification::None =>
            {
                Some("estimate, jaccard, containment or cosine with minhash")
            }
            Sketches::SimHash { .. } if estimates => Some(
                "weights, mismatch, jaccard, containment or cosine with SimHash, which estimates no coefficient",
            ),
            _ => None,
        };
        if let Some(expected) = expected {
            return Err(Error::parameter("verify", self.verification.name(), expected));
        }
        if self.keeps_words() && (self.sketches.keyed().is_none() || self.generator != Generator::Keys) {
            let expected =
                "another check: edits are counted where keys of both sketches bring texts together";
            return Err(Error::parameter("verify", self.verification.name(), expected));
        }
        if let Verification::Edits(share) = self.verification
            && !(LEAST_EDITS..=1.0).contains(&share)
        {
            let expected = format!("a share of {LEAST_EDITS} to 1 with --verify edits");
            return Err(Error::parameter("verify-threshold", share, expected));
        }
        if let Some(share) = self.verification.threshold() {
            check_share("verify-threshold", share)?;
        }
        if self.linkage == Linkage::Connected && !self.verification.ones_are_same() {
            let expected = format!(
                "star with --verify {}: a short document that stands in two long ones would connect these, \
                 and one of them would be removed",
                self.verification.name()
            );
            return Err(Error::parameter("clusters", self.linkage.name(), expected));
        }
        if !self.verification.ones_are_same() && self.keep != self.verification.usual_keep() {
            let expected = format!(
                "fullest with --verify {}: a document is removed for one that contains it, so the one with the most \
                 features comes first",
                self.verification.name()
            );
            return Err(Error::parameter("keep", &self.keep, expected));
        }
        if self.quota.count == 0 {
            return Err(Error::parameter(
                "keep-count",
                0,
                "1 or more: a cluster without its last document is lost",
            ));
        }
        self.generator.check()
    }
}

#[doc(hidden)]
impl Sketches {
    /// The parameters of [`Settings::minhash_params`], for a seed.
    pub(crate) fn minhash_params(self, seed: u64) -> Option<MinHashParams> {
        match self {
            Self::MinHash { permutations, .. } => {
                Some(MinHashParams { permutations, seed, ..MinHashParams::default() })
            }
            // Of the keys alone.
            Self::Both { banding, .. } | Self::OneBit { banding, .. } => Some(MinHashParams {
                permutations: banding.positions(),
                family: Family::FastSimilarity,
                seed,
            }),
            Self::SimHash { .. } => None,
        }
    }

    /// The number of bits that estimate similarity, and the bands of the keys; none for SimHashes, which have no keys.
    pub fn keyed(self) -> Option<(usize, Banding)> {
        match self {
            Self::Both { bits, banding } | Self::OneBit { bits, banding } => Some((bits, banding)),
            Self::MinHash { permutations, banding } => Some((permutations.saturating_mul(32), banding)),
            Self::SimHash { .. } => None,
        }
    }

    /// The forms of the bits of these sketches.
    pub fn forms(self) -> Forms {
        match self {
            Self::OneBit { .. } => Forms::Minima,
            Self::MinHash { .. } => Forms::Values,
            Self::Both { .. } | Self::SimHash { .. } => Forms::BySize,
        }
    }

    /// Checks the numbers of bits or positions and of bands; SimHashes pass.
    pub(crate) fn check(self) -> Result<()> {
        let Some((bits, banding)) = self.keyed() else { return Ok(()) };
        if let Self::MinHash { permutations, .. } = self {
            if permutations == 0 || !permutations.is_multiple_of(2) || permutations > MOST_PERMUTATIONS {
                let expected = format!("an even number up to {MOST_PERMUTATIONS}");
                return Err(Error::parameter("permutations", permutations, expected));
            }
            return banding.check(permutations);
        }
        if bits == 0 || !bits.is_multiple_of(64) || bits > MOST_PERMUTATIONS {
            let expected = format!("a multiple of 64 up to {MOST_PERMUTATIONS} bits");
            return Err(Error::parameter("bits", bits, expected));
        }
        banding.check(MOST_PERMUTATIONS)
    }
}

#[doc(hidden)]
impl Generator {
    /// The cheapest search for the pairs of hashes within a distance: an exact join up to [`FARTHEST_JOINED`] bits, and
    /// the dial with this recall beyond.
    pub fn cheapest(distance: u32, recall: Recall) -> Self {
        if distance <= FARTHEST_JOINED {
            Self::Join { distance }
        } else {
            Self::Dial { distance, recall, key_bits: None }
        }
    }

    /// The kind, as the command line's `--search` spells it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Join { .. } => "join",
            Self::Dial { .. } => "dial",
            Self::Psm { .. } => "psm",
            Self::Bphs { .. } => "bphs",
            Self::HashBands { .. } => "bands",
            Self::Keys => "keys",
        }
    }

    /// h, the largest distance of a generator over SimHashes, in bits; none for other generators.
    pub fn distance(&self) -> Option<u32> {
        match *self {
            Self::Join { distance }
            | Self::Dial { distance, .. }
            | Self::Psm { distance, .. }
            | Self::Bphs { distance, .. }
            | Self::HashBands { distance, .. } => Some(distance),
            Self::Keys => None,
        }
    }

    /// The recall that a probing search is asked for; none for searches that do not probe.
    pub fn recall(&self) -> Option<Recall> {
        match *self {
            Self::Dial { recall, .. } | Self::Psm { recall, .. } => Some(recall),
            _ => None,
        }
    }

    fn check(&self) -> Result<()> {
        if let Some(distance) = self.distance().filter(|&distance| distance > MAX_DISTANCE) {
            let expected = format!("at most {MAX_DISTANCE} of 64 bits; farther hashes are alike by chance");
            return Err(Error::parameter("distance", distance, expected));
        }
        match self.recall() {
            Some(Recall::AtLeast(share)) => check_share("recall", share)?,
            Some(Recall::Probes(0)) => return Err(Error::parameter("budget", 0, "at least 1 probe")),
            _ => {}
        }
        if let (&Self::Psm { distance, flipped_bits, .. }, Some(share)) =
            (self, self.recall().and_then(Recall::share))
        {
            psm::check_sets(distance, flipped_bits, share)?;
        }
        let bits = match *self {
            Self::Dial { key_bits, .. } | Self::Psm { flipped_bits: FlippedBits::Key { key_bits }, .. } => {
                key_bits
            }
            _ => None,
        };
        if let Some(bits) = bits.filter(|bits| !(1..=BITS as u32).contains(bits)) {
            return Err(Error::parameter("key-bits", bits, format!("1 to {BITS}")));
        }
        match *self {
            Self::Bphs { distance, tables: Some(tables) } => BphsParams { radius: distance, tables }.check(),
            Self::HashBands { banding, .. } => hash_bands::check_bands(banding),
            _ => Ok(()),
        }
    }
}

#[doc(hidden)]
impl Recall {
    /// The recall of this share; 1 is exact. A number that is not a share is taken as it is, and [`Settings::check`]
    /// refuses it.
    pub fn of(share: f64) -> Self {
        if share == 1.0 { Self::Exact } else { Self::AtLeast(share) }
    }

    /// The share that is wanted; none where the number of probes is given instead.
    pub fn share(self) -> Option<f64> {
        match self {
            Self::Exact => Some(1.0),
            Self::AtLeast(share) => Some(share),
            Self::Probes(_) => None,
        }
    }
}

#[doc(hidden)]
impl Verification {
    /// The measure; none without verification.
    pub fn measure(self) -> Option<Measure> {
        match self {
            Self::None => None,
            Self::Weights(_) => Some(Measure::Weights),
            Self::Mismatch(_) => Some(Measure::Mismatch),
            Self::Estimate(_) => Some(Measure::Estimate),
            Self::Jaccard(_) => Some(Measure::Jaccard),
            Self::Containment(_) => Some(Measure::Containment),
            Self::Cosine { .. } => Some(Measure::Cosine),
            Self::Edits(_) => Some(Measure::Edits),
        }
    }

    /// True if two documents of similarity 1 are as similar to any other, so that verification takes them for the same.
    /// With containment, similarity 1 says that one holds the other.
    pub fn ones_are_same(self) -> bool {
        !matches!(self, Self::Containment(_))
    }

    /// The default rule for the document that is kept. Where containment decides, no other rule is accepted.
    pub fn usual_keep(self) -> Keep {
        if self.ones_are_same() { Keep::First } else { Keep::Fullest }
    }

    /// True if a document with `removed` distinct features may be removed for a near-duplicate with `kept` distinct
    /// features. Where containment decides, the kept document must hold enough of the removed one.
    ///
    /// Containment is the share of the *smaller* set that the larger one has. So the kept document holds similarity ·
    /// min / removed of the removed one. Every other measure says the same of both documents.
    pub(crate) fn may_replace(self, similarity: f32, kept: u32, removed: u32) -> bool {
        let held = |threshold| f64::from(similarity) * f64::from(kept) >= threshold * f64::from(removed);
        match self {
            Self::Containment(threshold) => removed <= kept || held(threshold),
            _ => true,
        }
    }

    fn threshold_mut(&mut self) -> Option<&mut f64> {
        match self {
            Self::None => None,
            Self::Weights(threshold)
            | Self::Mismatch(threshold)
            | Self::Estimate(threshold)
            | Self::Jaccard(threshold)
            | Self::Containment(threshold)
            | Self::Edits(threshold)
            | Self::Cosine { at_least: threshold, .. } => Some(threshold),
        }
    }

    /// The similarity from which on two documents are near; none without verification.
    pub fn threshold(mut self) -> Option<f64> {
        self.threshold_mut().copied()
    }

    /// The verification with another threshold, where it has one.
    #[must_use]
    pub fn with_threshold(mut self, to: f64) -> Self {
        if let Some(threshold) = self.threshold_mut() {
            *threshold = to;
        }
        self
    }

    /// The command line's spelling: that of the measure, or `none`.
    pub fn name(self) -> &'static str {
        self.measure().map_or("none", Measure::name)
    }
}

impl Measure {
    /// The measures that a [`Verification`] can go by.
    pub const VERIFYING: [Self; 7] = [
        Self::Weights,
        Self::Mismatch,
        Self::Estimate,
        Self::Jaccard,
        Self::Containment,
        Self::Cosine,
        Self::Edits,
    ];

    /// The command line's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Mismatch => "mismatch",
            Self::Estimate => "estimate",
            Self::Jaccard => "jaccard",
            Self::Containment => "containment",
            Self::Cosine => "cosine",
            Self::Edits => "edits",
        }
    }

    /// True if the measure is an estimate from MinHash positions or bits of sets.
    pub fn is_estimated(self) -> bool {
        matches!(self, Self::Estimate)
    }

    /// True if the measure looks at features, and not at sketches alone. Edits look at the words beside a sketch.
    pub(crate) fn needs_features(self) -> bool {
        matches!(self, Self::Jaccard | Self::Containment | Self::Cosine)
    }

    /// The threshold where none is given.
    pub fn usual_threshold(self) -> f64 {
        match self {
            // A Jaccard similarity of 0.8, of two sets of equal size.
            Self::Weights => 0.889,
            Self::Mismatch => 0.97,
            Self::Estimate | Self::Jaccard => 0.8,
            Self::Containment => REMOVABLE,
            Self::Cosine => 0.9,
            Self::Edits => DAMAGED,
        }
    }

    /// Verification by this measure at a threshold. [`Cosine`](Self::Cosine) alone uses the weighting of features.
    pub fn at_least(self, threshold: f64, weighting: Weighting) -> Verification {
        match self {
            Self::Weights => Verification::Weights(threshold),
            Self::Mismatch => Verification::Mismatch(threshold),
            Self::Estimate => Verification::Estimate(threshold),
            Self::Jaccard => Verification::Jaccard(threshold),
            Self::Containment => Verification::Containment(threshold),
            Self::Cosine => Verification::Cosine { at_least: threshold, weighting },
            Self::Edits => Verification::Edits(threshold),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: &Settings) -> &'static str {
        match settings.check() {
            Err(Error::Parameter { parameter, .. }) => parameter,
            other => other.map_or("another error", |()| ""),
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused_by_name() {
        for usual in [Settings::simhash(), Settings::minhash(0.8), Settings::paper()] {
            assert_eq!(refused(&usual), "");
        }
        let simhash = |generator| refused(&Settings { generator, ..Settings::simhash() });
        assert_eq!(simhash(Generator::Join { distance: 16 }), "distance");
        let dial = |recall, key_bits| Generator::Dial { distance: 3, recall, key_bits };
        assert_eq!(simhash(dial(Recall::AtLeast(1.5), None)), "recall");
        assert_eq!(simhash(dial(Recall::Probes(0), None)), "budget");
        assert_eq!(simhash(dial(Recall::Exact, Some(65))), "key-bits");
        assert_eq!(simhash(Generator::Bphs { distance: 3, tables: Some(5) }), "tables");
        let bands =
            |bands, rows| simhash(Generator::HashBands { distance: 8, banding: Banding { bands, rows } });
        assert_eq!([bands(4, 16), bands(64, 1), bands(1, 64), bands(3, 5)], [""; 4]);
        assert_eq!([bands(0, 16), bands(4, 0), bands(5, 13), bands(usize::MAX, 2)], ["bands"; 4]);
        let of_hashes = Generator::HashBands { distance: 16, banding: USUAL_HASH_BANDS };
        assert_eq!(simhash(of_hashes), "distance");
        for without in [Settings::minhash(0.8), Settings::both(0.8), Settings::one_bit(64, 0.8)] {
            assert_eq!(refused(&Settings { generator: of_hashes, ..without }), "search");
        }
        let psm = |distance, recall, flipped_bits| Generator::Psm { distance, recall, flipped_bits };
        let (whole, leading) = (FlippedBits::All { filter_bits: 8 }, FlippedBits::Key { key_bits: None });
        assert_eq!(simhash(psm(15, Recall::Exact, FlippedBits::Key { key_bits: Some(64) })), "recall");
        assert_eq!(simhash(psm(6, Recall::AtLeast(0.5), whole)), "recall");
        assert_eq!(simhash(psm(15, Recall::Probes(1_000), whole)), "");
        assert_eq!(
            [simhash(psm(5, Recall::Exact, whole)), simhash(psm(15, Recall::Exact, leading))],
            ["", ""]
        );
        let shingles =
            |width| refused(&Settings { features: FeatureKind::Shingles(width), ..Settings::simhash() });
        assert_eq!([0, 1, 64, 65, 1 << 40].map(shingles), ["features", "", "", "features", "features"]);
        assert_eq!(simhash(Generator::Keys), "search");
        let minhash = |permutations, bands, rows| {
            let sketches = Sketches::MinHash { permutations, banding: Banding { bands, rows } };
            refused(&Settings { sketches, ..Settings::minhash(0.8) })
        };
        assert_eq!([minhash(128, 43, 3), minhash(128, 0, 3), minhash(2, 1, 2)], ["bands", "bands", ""]);
        assert_eq!([0, 7, 1 << 17].map(|permutations| minhash(permutations, 1, 1)), ["permutations"; 3]);
        assert_eq!(refused(&Settings::minhash(0.0)), "verify-threshold");
        let one_bit = |bits| refused(&Settings::one_bit(bits, 0.8));
        assert_eq!([0, 64, 100, 512, 1 << 17].map(one_bit), ["bits", "", "bits", "", "bits"]);
        for keyed in [Settings::one_bit(64, 0.8), Settings::minhash(0.8), Settings::both(0.8)] {
            assert_eq!(refused(&Settings { verification: Verification::None, ..keyed }), "verify");
        }
        let verified = |verification| refused(&Settings { verification, ..Settings::minhash(0.8) });
        assert_eq!(verified(Verification::Weights(0.9)), "verify");
        assert_eq!(
            verified(Verification::Cosine { at_least: f64::NAN, weighting: Weighting::Tf }),
            "verify-threshold"
        );
    }

    #[test]
    fn settings_are_data() {
        let mut all = vec![Settings::simhash(), Settings::minhash(0.7), Settings::paper()];
        all.extend([Settings::both(0.6), Settings::removable(), Settings::one_bit(512, 0.7)]);
        for measure in Measure::VERIFYING {
            let verification = measure.at_least(measure.usual_threshold(), Weighting::TfIdf);
            all.push(Settings { verification, ..Settings::simhash() });
        }
        for generator in [
            Generator::Dial { distance: 12, recall: Recall::Probes(40), key_bits: Some(14) },
            Generator::Psm {
                distance: 3,
                recall: Recall::Exact,
                flipped_bits: FlippedBits::All { filter_bits: 8 },
            },
            Generator::Bphs { distance: 4, tables: None },
            Generator::HashBands { distance: 8, banding: USUAL_HASH_BANDS },
        ] {
            all.push(Settings { generator, ..Settings::simhash() });
        }
        for settings in all {
            let json = serde_json::to_string(&settings).unwrap();
            assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings, "{json}");
            // Settings say which hash they mean.
            let mut unnamed = serde_json::to_value(&settings).unwrap();
            assert_eq!(unnamed["feature_hash"], settings.feature_hash.word());
            unnamed.as_object_mut().unwrap().remove("feature_hash");
            assert!(
                serde_json::from_value::<Settings>(unnamed).unwrap_err().to_string().contains("feature_hash")
            );
        }
        let json = serde_json::to_value(Settings::simhash()).unwrap();
        assert_eq!(json["generator"], serde_json::json!({ "join": { "distance": 10 } }));
        assert_eq!(json["verification"], serde_json::json!({ "weights": 0.889 }));
    }
}
