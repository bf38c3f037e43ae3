//! Arguments that several commands share, and their one way into the library's settings.

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use flipside::Error;
use flipside::clusters::{Keep, Linkage};
use flipside::corpus::JsonlFields;
use flipside::minhash::Family;
use flipside::pipeline::settings::{JaccardCheck, Method, PsmIndex, Settings, Verify};
use flipside::simhash::volatility::FlipCost;
use flipside::text::FeatureKind;
use flipside::weight::Weighting;
use std::path::PathBuf;
use std::str::FromStr;

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
    /// JSONL field or Parquet column that holds the text [default: text]
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    text_field: Option<String>,

    /// JSONL field or Parquet column that holds the id [default: id]
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    id_field: Option<String>,

    /// JSONL field or Parquet column that holds the URL [default: url]
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    url_field: Option<String>,

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
        let usual = JsonlFields::default();
        JsonlFields {
            text: self.text_field.clone().unwrap_or(usual.text),
            id: self.id_field.clone().unwrap_or(usual.id),
            url: self.url_field.clone().unwrap_or(usual.url),
            ..JsonlFields::default()
        }
    }

    /// Which of them were given, for a command that may read no pages.
    pub(crate) fn given(&self) -> [(&'static str, bool); 4] {
        [
            ("text-field", self.text_field.is_some()),
            ("id-field", self.id_field.is_some()),
            ("url-field", self.url_field.is_some()),
            ("longest-page", self.longest_page.is_some()),
        ]
    }
}

/// The most threads that are started: more than any machine has cores, and few enough to start at once.
const MOST_THREADS: u64 = 1024;

/// Parses a number of threads.
pub(crate) fn threads() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=MOST_THREADS)
}

/// Parses a value of the library's; clap names the option and the value, the library what is expected.
pub(crate) fn parsed<T: FromStr<Err: Into<Error>>>(text: &str) -> Result<T, String> {
    text.parse::<T>().map_err(|error| match error.into() {
        Error::Core(flipside_core::Error::Parameter { expected, .. }) => format!("expected {expected}"),
        other => other.to_string(),
    })
}

/// Refuses the first of `options` that was given: it would be taken in silence and change nothing.
///
/// # Errors
/// Naming the option, `with` what it has no effect, `why`, and what to do.
pub(crate) fn refuse(options: &[(&str, bool)], with: &str, why: &str) -> anyhow::Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((name, _)) => anyhow::bail!("--{name} has no effect {with}: {why}"),
        None => Ok(()),
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
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
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
    /// words, or shingles:W for runs of W words [default: shingles:3]
    #[arg(long, value_name = "KIND", value_parser = parsed::<FeatureKind>, help_heading = "Features")]
    features: Option<FeatureKind>,

    /// How a feature is weighted in a SimHash [default: binary]
    #[arg(long, value_enum, help_heading = "Features")]
    weighting: Option<WeightingName>,

    /// tf-idf: use these document frequencies instead of the corpus's own
    #[arg(long, value_name = "FILE", help_heading = "Features")]
    pub frequencies: Option<PathBuf>,
}

impl FeatureArgs {
    /// What a feature is.
    pub(crate) fn features(&self) -> FeatureKind {
        self.features.unwrap_or(Settings::default().features)
    }

    /// The scheme of weights.
    pub(crate) fn weighting(&self) -> Weighting {
        self.weighting.map_or(Settings::default().weighting, Into::into)
    }

    /// Which of them were given, for a command that may have nothing to make features of.
    pub(crate) fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("features", self.features.is_some()),
            ("weighting", self.weighting.is_some()),
            ("frequencies", self.frequencies.is_some()),
        ]
    }

    /// Checks them against each other.
    ///
    /// # Errors
    /// For frequencies that no weight depends on.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let weighting = self.weighting();
        refuse(
            &[("frequencies", self.frequencies.is_some() && !weighting.needs_frequencies())],
            &format!("with --weighting {}", weighting.name()),
            "its weights do not depend on document frequencies. Give --weighting tf-idf, or leave it out",
        )
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
    /// similarity [default: 0.95]
    #[arg(long, value_name = "SHARE", help_heading = "Search")]
    recall: Option<f64>,

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
    #[arg(long, value_name = "COST", value_parser = parsed::<FlipCost>, help_heading = "Search")]
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

    /// Seed of samples and of MinHash's functions
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    seed: u64,
}

/// What a near pair must pass besides.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Check candidates by more than their sketches [default: weights for psm and bphs, none for minhash]
    #[arg(long, value_enum, help_heading = "Search")]
    verify: Option<VerifyName>,

    /// Similarity from which a candidate passes the check [default: weights 0.93, mismatch and query-mismatch
    /// 0.97, jaccard 0.8, containment 0.9, cosine 0.9]
    #[arg(long, value_name = "SHARE", help_heading = "Search")]
    verify_threshold: Option<f64>,
}

/// What becomes of the pairs.
#[derive(Debug, clap::Args)]
pub(crate) struct GroupArgs {
    /// How pairs make clusters
    #[arg(long, value_enum, default_value_t = LinkageName::from(Settings::default().linkage), help_heading = "Results")]
    clusters: LinkageName,

    /// Which copy of a cluster stays: first, longest or shortest-url
    #[arg(long, value_name = "RULE", default_value_t, value_parser = parsed::<Keep>, help_heading = "Results")]
    keep: Keep,
}

/// Which command the arguments are of: what has an effect depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use<'a> {
    /// One method.
    Dedup(MethodName),
    /// Several.
    Compare(&'a [MethodName]),
    /// The budgets of psm.
    Calibrate,
    /// All methods, on pages of a corpus.
    ExplainPages,
    /// All methods, on two files alone.
    ExplainFiles,
}

impl Use<'_> {
    fn methods(&self) -> &[MethodName] {
        use MethodName::{Bphs, Minhash, Psm};
        match self {
            Self::Dedup(method) => std::slice::from_ref(method),
            Self::Compare(methods) => methods,
            Self::Calibrate => &[Psm],
            Self::ExplainPages | Self::ExplainFiles => &[Psm, Bphs, Minhash],
        }
    }

    /// How the command line says so.
    fn said(&self) -> String {
        match self {
            Self::Dedup(method) => format!("with --method {}", Method::from(*method).name()),
            Self::Compare(methods) => {
                let names: Vec<&str> = methods.iter().map(|&method| Method::from(method).name()).collect();
                format!("with --methods {}", names.join(","))
            }
            Self::Calibrate => "on flipside calibrate, which measures psm alone".to_owned(),
            Self::ExplainPages | Self::ExplainFiles => "on flipside explain".to_owned(),
        }
    }
}

/// The arguments of a command that looks for near-duplicates, as far as it has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub search: &'a SearchArgs,
    pub features: &'a FeatureArgs,
    pub check: Option<&'a CheckArgs>,
    pub groups: Option<&'a GroupArgs>,
    pub all_pairs: bool,
    pub saves_frequencies: bool,
}

impl Given<'_> {
    /// The library's settings: the only place where arguments become settings.
    ///
    /// # Errors
    /// If an argument is given that would change nothing beside the others: its giver would be misled.
    pub(crate) fn settings(&self, of: Use<'_>) -> anyhow::Result<Settings> {
        let Self { search, features, .. } = self;
        let methods = of.methods();
        let usual = methods.first().map_or_else(Settings::default, |&method| Settings::of(method.into()));
        let verify = self.check.and_then(|check| check.verify).map_or(usual.verify, Into::into);
        let threshold = self.check.and_then(|check| check.verify_threshold);
        let index = search.index.map_or(usual.index, Into::into);
        self.refuse_what_no_method_knows(of)?;
        features.check()?;
        let only = |method| methods.iter().all(|&other| other == method);
        refuse(
            &[(
                "weighting",
                features.weighting.is_some() && only(MethodName::Minhash) && verify != Verify::Cosine,
            )],
            &of.said(),
            "MinHash compares sets of features without weights. Leave it out, or let --verify cosine compare weights",
        )?;
        refuse(
            &[("save-frequencies", self.saves_frequencies && features.frequencies.is_some())],
            "with --frequencies",
            "the corpus's own are not counted then, and that file is there already. Leave one of the two out",
        )?;
        refuse(
            &[("verify-threshold", threshold.is_some() && verify == Verify::None)],
            "with --verify none",
            "nothing is checked then. Leave it out, or name a check with --verify",
        )?;
        if let Use::ExplainPages | Use::ExplainFiles = of {
            refuse(
                &[("tables", search.tables.is_some()), ("exact-jaccard", search.exact_jaccard)],
                &of.said(),
                "with any number of tables bphs finds the same, and both coefficients are shown. Leave it out",
            )?;
        }
        let flips_in_keys = index == PsmIndex::Dial && methods.contains(&MethodName::Psm);
        refuse(
            &[("flip-cost", search.flip_cost.is_some() && flips_in_keys)],
            "with --index dial",
            "its probes are in order of |w|. Leave it out, or give --index one-table or all-bits",
        )?;
        refuse(
            &[("key-bits", search.key_bits.is_some() && index == PsmIndex::AllBits)],
            "with --index all-bits",
            "whole hashes are looked up there. Leave it out, or give --index dial or one-table",
        )?;
        match of {
            Use::Calibrate => refuse(
                &[("budget", search.budget.is_some())],
                "on flipside calibrate",
                "budgets are what it measures. Leave it out; --recalls says for which recalls",
            )?,
            Use::ExplainPages => {}
            Use::ExplainFiles => refuse(
                &[("budget", search.budget.is_some()), ("key-bits", search.key_bits.is_some())],
                "without INPUT",
                "two files alone are not searched. Leave it out, or name the corpus that the pages are of",
            )?,
            Use::Dedup(_) | Use::Compare(_) => {}
        }
        let chosen = search.bands.is_some() && only(MethodName::Minhash);
        refuse(
            &[("recall", search.recall.is_some() && chosen)],
            "with --bands",
            "it serves to choose the bands, and they are given. Leave one of the two out",
        )?;
        let psm_alone = methods.contains(&MethodName::Psm) && !methods.contains(&MethodName::Minhash);
        refuse(
            &[("recall", search.recall.is_some() && search.budget.is_some() && psm_alone)],
            "with --budget",
            "it serves to measure how many probes are made, and their number is given. Leave one of the two out",
        )?;
        Ok(Settings {
            method: usual.method,
            features: features.features(),
            weighting: features.weighting(),
            min_features: search.min_features,
            frequencies: features.frequencies.clone(),
            distance: search.distance.unwrap_or(usual.distance),
            recall: search.recall.unwrap_or(usual.recall),
            index,
            budget: search.budget,
            key_bits: search.key_bits,
            flip_cost: search.flip_cost.unwrap_or(usual.flip_cost),
            tables: search.tables,
            similarity: search.similarity.unwrap_or(usual.similarity),
            permutations: search.permutations.unwrap_or(usual.permutations),
            family: search.family.map_or(usual.family, Into::into),
            bands: search.bands,
            jaccard: if search.exact_jaccard { JaccardCheck::Exact } else { JaccardCheck::Estimated },
            verify,
            verify_threshold: threshold,
            linkage: self.groups.map_or(usual.linkage, |groups| groups.clusters.into()),
            keep: self.groups.map_or(usual.keep, |groups| groups.keep),
            all_pairs: self.all_pairs,
            seed: search.seed,
        })
    }

    fn refuse_what_no_method_knows(&self, of: Use<'_>) -> anyhow::Result<()> {
        use MethodName::{Bphs, Minhash, Psm};
        let search = self.search;
        let of_methods: [(&str, bool, &[MethodName]); 12] = [
            ("index", search.index.is_some(), &[Psm]),
            ("distance", search.distance.is_some(), &[Psm, Bphs]),
            ("recall", search.recall.is_some(), &[Psm, Minhash]),
            ("budget", search.budget.is_some(), &[Psm]),
            ("key-bits", search.key_bits.is_some(), &[Psm]),
            ("flip-cost", search.flip_cost.is_some(), &[Psm]),
            ("tables", search.tables.is_some(), &[Bphs]),
            ("similarity", search.similarity.is_some(), &[Minhash]),
            ("permutations", search.permutations.is_some(), &[Minhash]),
            ("family", search.family.is_some(), &[Minhash]),
            ("bands", search.bands.is_some(), &[Minhash]),
            ("exact-jaccard", search.exact_jaccard, &[Minhash]),
        ];
        for (name, given, known_to) in of_methods {
            let known = known_to.iter().any(|method| of.methods().contains(method));
            let names: Vec<&str> = known_to.iter().map(|&method| Method::from(method).name()).collect();
            let why = format!(
                "it has a meaning for {} only. Leave it out, or take another method",
                names.join(" and ")
            );
            refuse(&[(name, given && !known)], &of.said(), &why)?;
        }
        Ok(())
    }
}

/// A number of bands and a number of rows, as in `16x8`.
fn parse_bands(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| {
        text.trim()
            .parse()
            .map_err(|_| format!("{text:?} is no number; expected bands and rows, such as 16x8"))
    };
    let (bands, rows) = text.split_once(['x', '×']).ok_or("expected bands and rows, such as 16x8")?;
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
