//! Arguments that several commands share, and their one way into the library's settings.

use clap::{ArgAction, ValueEnum};
use flipside::clusters::{Keep, Linkage};
use flipside::corpus::JsonlFields;
use flipside::minhash::Family;
use flipside::pipeline::settings::{JaccardCheck, Method, PsmIndex, Settings, Verify};
use flipside::simhash::volatility::FlipCost;
use flipside::text::FeatureKind;
use flipside::weight::Weighting;
use std::path::PathBuf;

/// What is read.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// WET files (.wet, .warc.wet, .warc; plain or .gz), JSONL files (plain, .gz or .zst) and Parquet files, folders of
    /// them, or - for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,

    #[command(flatten)]
    pub names: FieldArgs,
}

/// How pages are read: what the fields of JSONL and the columns of Parquet are called, and how long a page may be.
#[derive(Debug, clap::Args)]
pub(crate) struct FieldArgs {
    /// JSONL field or Parquet column that holds the text
    #[arg(long, value_name = "NAME", default_value = "text", help_heading = "Input")]
    text_field: String,

    /// JSONL field or Parquet column that holds the id
    #[arg(long, value_name = "NAME", default_value = "id", help_heading = "Input")]
    id_field: String,

    /// JSONL field or Parquet column that holds the URL
    #[arg(long, value_name = "NAME", default_value = "url", help_heading = "Input")]
    url_field: String,

    /// Longest page that is read, in MB; a longer one is skipped as damage. Such a page takes four times its length of memory,
    /// and with shingles twelve times [default: 128]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=4000), help_heading = "Input")]
    longest_page: Option<u32>,
}

impl FieldArgs {
    /// The longest page that is read, in bytes, if it was given.
    pub(crate) fn longest_page(&self) -> Option<usize> {
        self.longest_page.map(|megabytes| megabytes as usize * 1_000_000)
    }

    /// The names of the JSONL fields and Parquet columns.
    pub(crate) fn fields(&self) -> JsonlFields {
        JsonlFields {
            text: self.text_field.clone(),
            id: self.id_field.clone(),
            url: self.url_field.clone(),
            ..JsonlFields::default()
        }
    }
}

/// Where results go, and how the machine is used.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Folder to make for the results; it appears whole or not at all
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Replace the folder if it holds earlier results
    #[arg(long)]
    pub force: bool,

    /// Threads; 0 for one a core. Results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,

    /// Show no progress on standard error
    #[arg(long, short)]
    pub quiet: bool,

    /// Save the document frequencies to a file
    #[arg(long, value_name = "FILE", help_heading = "Features")]
    pub save_frequencies: Option<PathBuf>,
}

/// How features are made.
#[derive(Debug, clap::Args)]
pub(crate) struct FeatureArgs {
    /// words, or shingles:W for runs of W words
    #[arg(long, value_name = "KIND", default_value_t = Settings::default().features, help_heading = "Features")]
    pub features: FeatureKind,

    /// How a feature is weighted in a SimHash
    #[arg(long, value_enum, default_value_t = WeightingName::from(Settings::default().weighting), help_heading = "Features")]
    weighting: WeightingName,

    /// tf-idf: use these document frequencies instead of the corpus's own
    #[arg(long, value_name = "FILE", help_heading = "Features")]
    pub frequencies: Option<PathBuf>,
}

impl FeatureArgs {
    /// The scheme of weights.
    pub(crate) fn weighting(&self) -> Weighting {
        self.weighting.into()
    }
}

/// What makes two pages near-duplicates, and how they are looked for.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// Pages with fewer distinct features are compared by their exact text only
    #[arg(long, value_name = "N", default_value_t = Settings::default().min_features, help_heading = "Features")]
    min_features: usize,

    /// psm, bphs: hashes that differ in at most this many of 64 bits are near, if they pass the check. The time of a search
    /// grows steeply with it: for tens of millions of pages in one run 8 is cheaper, for bphs always [default: 10]
    #[arg(long, value_name = "BITS", help_heading = "Search")]
    distance: Option<u32>,

    /// psm: share of the pairs within the distance to find, at the least; 1 is exact. minhash: share of the pairs at the wanted
    /// similarity
    #[arg(long, value_name = "SHARE", default_value_t = Settings::default().recall, help_heading = "Search")]
    recall: f64,

    /// minhash: Jaccard coefficient from which pages are near [default: 0.8]
    #[arg(long, value_name = "SHARE", help_heading = "Search")]
    similarity: Option<f64>,

    /// psm: dial: few tables, one flip in a key or two at most. one-table: flips in the leading bits (reading P of the paper).
    /// all-bits: flips in all 64 bits (reading X) [default: dial]
    #[arg(long, value_enum, help_heading = "Search")]
    index: Option<IndexName>,

    /// psm: probes a page, instead of measuring how many the recall takes
    #[arg(long, value_name = "PROBES", help_heading = "Search")]
    budget: Option<u32>,

    /// psm: bits of a key [default: chosen by the number of hashes]
    #[arg(long, value_name = "BITS", help_heading = "Search")]
    key_bits: Option<u32>,

    /// psm one-table, all-bits: what flipping a bit of weight w is taken to cost: abs (|w|), square, or log-odds:COT [default: abs]
    #[arg(long, value_name = "COST", help_heading = "Search")]
    flip_cost: Option<FlipCost>,

    /// bphs: number of tables, such as 4, 10, 16 or 20 at distance 3
    #[arg(long, value_name = "N", help_heading = "Search")]
    tables: Option<u32>,

    /// minhash: length of a signature [default: 128]
    #[arg(long, value_name = "N", help_heading = "Search")]
    permutations: Option<usize>,

    /// minhash: family of hash functions [default: multiply32]
    #[arg(long, value_enum, help_heading = "Search")]
    family: Option<FamilyName>,

    /// minhash: bands and rows, such as 16x8 [default: chosen from similarity and recall]
    #[arg(long, value_name = "BxR", value_parser = parse_bands, help_heading = "Search")]
    bands: Option<(usize, usize)>,

    /// minhash: count the Jaccard coefficient of candidates on their features instead of estimating it
    #[arg(long, help_heading = "Search")]
    exact_jaccard: bool,

    /// Check candidates by more than their sketches [default: weights for psm and bphs, none for minhash]
    #[arg(long, value_enum, help_heading = "Search")]
    verify: Option<VerifyName>,

    /// Similarity from which a candidate passes the check [default: weights 0.93, mismatch and query-mismatch
    /// 0.97, jaccard 0.8, containment 0.9, cosine 0.9]
    #[arg(long, value_name = "SHARE", help_heading = "Search")]
    verify_threshold: Option<f64>,

    /// Seed of samples and of MinHash's functions
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    seed: u64,

    /// How pairs make clusters
    #[arg(long, value_enum, default_value_t = LinkageName::from(Settings::default().linkage), help_heading = "Results")]
    clusters: LinkageName,

    /// Which copy of a cluster stays: first, longest or shortest-url
    #[arg(long, value_name = "RULE", default_value_t, help_heading = "Results")]
    keep: Keep,

    /// List every pair of pages, not just each copy with the one that leads its group
    #[arg(long, action = ArgAction::SetTrue, help_heading = "Results")]
    all_pairs: bool,
}

impl SearchArgs {
    /// The library's settings: the only place where arguments become settings.
    ///
    /// # Errors
    /// If an argument is given that none of the methods knows: it would be ignored, and its giver misled.
    pub(crate) fn settings(
        &self,
        features: &FeatureArgs,
        methods: &[MethodName],
    ) -> anyhow::Result<Settings> {
        use MethodName::{Bphs, Minhash, Psm};
        let of_methods: [(&str, bool, &[MethodName]); 11] = [
            ("index", self.index.is_some(), &[Psm]),
            ("distance", self.distance.is_some(), &[Psm, Bphs]),
            ("budget", self.budget.is_some(), &[Psm]),
            ("key-bits", self.key_bits.is_some(), &[Psm]),
            ("flip-cost", self.flip_cost.is_some(), &[Psm]),
            ("tables", self.tables.is_some(), &[Bphs]),
            ("similarity", self.similarity.is_some(), &[Minhash]),
            ("permutations", self.permutations.is_some(), &[Minhash]),
            ("family", self.family.is_some(), &[Minhash]),
            ("bands", self.bands.is_some(), &[Minhash]),
            ("exact-jaccard", self.exact_jaccard, &[Minhash]),
        ];
        for (name, given, known_to) in of_methods {
            if given && !known_to.iter().any(|method| methods.contains(method)) {
                let known: Vec<&str> = known_to.iter().map(|&method| Method::from(method).name()).collect();
                anyhow::bail!("--{name} has a meaning for {} only", known.join(" and "));
            }
        }
        let usual = methods.first().map_or_else(Settings::default, |&method| Settings::of(method.into()));
        if features.frequencies.is_some() && !features.weighting().needs_frequencies() {
            anyhow::bail!("--frequencies has a meaning for --weighting tf-idf only");
        }
        let index = self.index.map_or(usual.index, Into::into);
        if self.flip_cost.is_some() && index == PsmIndex::Dial && methods.contains(&Psm) {
            anyhow::bail!("--flip-cost has a meaning for --index one-table and all-bits only");
        }
        Ok(Settings {
            method: usual.method,
            features: features.features,
            weighting: features.weighting(),
            min_features: self.min_features,
            frequencies: features.frequencies.clone(),
            distance: self.distance.unwrap_or(usual.distance),
            recall: self.recall,
            index,
            budget: self.budget,
            key_bits: self.key_bits,
            flip_cost: self.flip_cost.unwrap_or(usual.flip_cost),
            tables: self.tables,
            similarity: self.similarity.unwrap_or(usual.similarity),
            permutations: self.permutations.unwrap_or(usual.permutations),
            family: self.family.map_or(usual.family, Into::into),
            bands: self.bands,
            jaccard: if self.exact_jaccard { JaccardCheck::Exact } else { JaccardCheck::Estimated },
            verify: self.verify.map_or(usual.verify, Into::into),
            verify_threshold: self.verify_threshold,
            linkage: self.clusters.into(),
            keep: self.keep,
            all_pairs: self.all_pairs,
            seed: self.seed,
        })
    }
}

/// A number of bands and a number of rows, as in `16x8`.
fn parse_bands(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("{text:?} is no number"));
    let (bands, rows) = text.split_once(['x', '×']).ok_or("bands and rows, such as 16x8")?;
    Ok((number(bands)?, number(rows)?))
}

/// The command line's names of the methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodName {
    /// SimHash, the likeliest flips first
    Psm,
    /// SimHash, exact block-permuted tables
    Bphs,
    /// MinHash signatures in bands
    Minhash,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Psm => Self::Psm,
            MethodName::Bphs => Self::Bphs,
            MethodName::Minhash => Self::Minhash,
        }
    }
}

/// The command line's names of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VerifyName {
    /// No check
    None,
    /// Cosine of the two weight vectors behind the hashes
    Weights,
    /// Share of the weight behind the hashes that stands behind equal bits
    Mismatch,
    /// That share of the later page's weight alone, against the bits of the earlier page's hash
    QueryMismatch,
    /// Jaccard coefficient of the sets of features
    Jaccard,
    /// Share of the smaller set of features that is in the larger
    Containment,
    /// Cosine of the features' weights
    Cosine,
}

impl From<VerifyName> for Verify {
    fn from(name: VerifyName) -> Self {
        match name {
            VerifyName::None => Self::None,
            VerifyName::Weights => Self::Weights,
            VerifyName::Mismatch => Self::Mismatch,
            VerifyName::QueryMismatch => Self::QueryMismatch,
            VerifyName::Jaccard => Self::Jaccard,
            VerifyName::Containment => Self::Containment,
            VerifyName::Cosine => Self::Cosine,
        }
    }
}

/// The command line's names of the linkages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LinkageName {
    /// All that hang together by any chain of pairs
    Connected,
    /// Every page near the one that stays: no chain is longer than two steps
    Star,
    /// All pages near one another: no chain at all
    Complete,
}

impl From<LinkageName> for Linkage {
    fn from(name: LinkageName) -> Self {
        match name {
            LinkageName::Connected => Self::Connected,
            LinkageName::Star => Self::Star,
            LinkageName::Complete => Self::Complete,
        }
    }
}

impl From<Linkage> for LinkageName {
    fn from(linkage: Linkage) -> Self {
        match linkage {
            Linkage::Connected => Self::Connected,
            Linkage::Star => Self::Star,
            Linkage::Complete => Self::Complete,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IndexName {
    #[value(alias = "half")]
    Dial,
    OneTable,
    AllBits,
}

impl From<IndexName> for PsmIndex {
    fn from(name: IndexName) -> Self {
        match name {
            IndexName::Dial => Self::Dial,
            IndexName::OneTable => Self::OneTable,
            IndexName::AllBits => Self::AllBits,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WeightingName {
    TfIdf,
    Tf,
    Binary,
}

impl From<WeightingName> for Weighting {
    fn from(name: WeightingName) -> Self {
        match name {
            WeightingName::TfIdf => Self::TfIdf,
            WeightingName::Tf => Self::Tf,
            WeightingName::Binary => Self::Binary,
        }
    }
}

impl From<Weighting> for WeightingName {
    fn from(weighting: Weighting) -> Self {
        match weighting {
            Weighting::TfIdf => Self::TfIdf,
            Weighting::Tf => Self::Tf,
            Weighting::Binary => Self::Binary,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FamilyName {
    /// a·x + b modulo 2³²: the fastest sound one
    Multiply32,
    /// (a·x + b) mod p with p = 2⁶¹ − 1
    Prime61,
    /// one permutation, densified
    OnePermutation,
}

impl From<FamilyName> for Family {
    fn from(name: FamilyName) -> Self {
        match name {
            FamilyName::Multiply32 => Self::Multiply32,
            FamilyName::Prime61 => Self::Prime61,
            FamilyName::OnePermutation => Self::OnePermutation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_read_as_they_are_written() {
        assert_eq!(parse_bands("16x8"), Ok((16, 8)));
        assert_eq!(parse_bands("4 × 5"), Ok((4, 5)));
        assert!(parse_bands("16").is_err());
        assert!(parse_bands("ax5").is_err());
    }
}
