//! Arguments that several commands share, and their one way into the library's settings. A struct of arguments is
//! flattened into that of each command which has them. The comments of its fields are the texts of `--help`.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use simflip::Error;
use simflip::boilerplate::GroupBy;
use simflip::clusters::{Keep, Linkage, Quota, Source};
use simflip::corpus::{JsonlFields, KeptFiles, LONGEST_WINDOW, NamedBy, ReadOptions, ReadRules};
use simflip::hash::FeatureHash;
use simflip::pipeline::Ignored;
use simflip::search::bands::Banding;
use simflip::search::psm::FlippedBits;
use simflip::settings::{
    FARTHEST_JOINED, Generator, Measure, NOISY, PAPER_DISTANCE, Recall, Settings, Sketches, USUAL_BITS,
    USUAL_DISTANCE, USUAL_HASH_BANDS, USUAL_RECALL, USUAL_SIMILARITY, Verification,
};
use simflip::text::FeatureKind;
use simflip::weight::Weighting;
use std::path::PathBuf;
use std::str::FromStr;

/// The input files, and the options by which they are read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// WET, JSONL, CSV, Parquet, Arrow or WARC: files, folders, patterns, or - (stdin)
    ///
    /// WET, JSONL and CSV are plain, .gz or .zst; WARC takes the feature html; a pattern is quoted, as 'crawl/*.jsonl'.
    /// With the feature stores also s3://bucket/key, gs://, az:// and https://, and s3://bucket/prefix/ as a folder
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,

    #[command(flatten)]
    pub names: FieldArgs,
}

/// The options by which documents are read: names of fields and columns, the longest document, rules for odd input.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FieldArgs {
    /// Field with the text; a.b is nested, a,b joins two [default: text]
    #[arg(long, value_name = "NAME", display_order = 3)]
    text_field: Option<String>,

    /// Field or column with the ID [default: id]
    #[arg(long, value_name = "NAME", help_heading = "Input", hide_short_help = true)]
    id_field: Option<String>,

    /// Field or column with the URL [default: url]
    #[arg(long, value_name = "NAME", help_heading = "Input", hide_short_help = true)]
    url_field: Option<String>,

    /// Skip documents above this size, in MB, and report them [default: 128]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=4000), help_heading = "Input", hide_short_help = true)]
    longest_document: Option<u32>,

    /// Skip and report documents whose text is null or not UTF-8, instead of putting U+FFFD for invalid bytes
    #[arg(long, help_heading = "Input", hide_short_help = true)]
    strict: bool,

    /// Largest window of a Zstandard frame to accept, in bits, as zstd --long=BITS writes it [default: 27]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(10..=i64::from(LONGEST_WINDOW)), help_heading = "Input", hide_short_help = true)]
    longest_window: Option<u32>,
}

impl FieldArgs {
    /// The bytes of the longest document that is read; `None` if the option was not given.
    pub(crate) fn longest_document(&self) -> Option<usize> {
        self.longest_document.map(|megabytes| megabytes as usize * 1_000_000)
    }

    /// The rules for odd input.
    pub(crate) fn rules(&self) -> ReadRules {
        let usual = ReadRules::default();
        ReadRules { strict: self.strict, longest_window: self.longest_window.unwrap_or(usual.longest_window) }
    }

    /// These options; for each that was not given, the one of an earlier run, if there was such a run.
    pub(crate) fn or(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        Self {
            text_field: self.text_field.or(earlier.text_field),
            id_field: self.id_field.or(earlier.id_field),
            url_field: self.url_field.or(earlier.url_field),
            longest_document: self.longest_document.or(earlier.longest_document),
            strict: self.strict || earlier.strict,
            longest_window: self.longest_window.or(earlier.longest_window),
        }
    }

    /// These options, with this text field unless one was given.
    pub(crate) fn or_text_field(self, text_field: Option<String>) -> Self {
        Self { text_field: self.text_field.or(text_field), ..self }
    }

    /// The names of fields and columns, and of the options that were given. A field that a user names must be there.
    pub(crate) fn fields(&self) -> JsonlFields {
        let usual = JsonlFields::default();
        JsonlFields {
            text: self.text_field.clone().unwrap_or(usual.text),
            id: self.id_field.clone().unwrap_or(usual.id),
            url: self.url_field.clone().unwrap_or(usual.url),
            named: NamedBy(
                self.given().into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect(),
            ),
            ..JsonlFields::default()
        }
    }

    /// The options of reading by these arguments.
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions::new(self.fields(), self.longest_document(), self.rules())
    }

    /// The options, each with whether it was given, by which a command that reads no documents [`refuse`]s them.
    pub(crate) fn given(&self) -> [(&'static str, bool); 6] {
        [
            ("text-field", self.text_field.is_some()),
            ("id-field", self.id_field.is_some()),
            ("url-field", self.url_field.is_some()),
            ("longest-document", self.longest_document.is_some()),
            ("strict", self.strict),
            ("longest-window", self.longest_window.is_some()),
        ]
    }
}

/// The most threads that are started: more than any machine has cores, and few enough to start at once.
const MOST_THREADS: u64 = 1024;

/// The parser of a number of threads, 0 to [`MOST_THREADS`].
pub(crate) fn threads() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=MOST_THREADS)
}

/// The threads of a command, and its progress.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// Number of threads (0 = one per core); results are identical
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    pub threads: usize,

    /// Show no progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

/// Parses a number of bytes above 0, such as `4GiB`, `8GB` or a plain number; `K` to `T` mean the same as `KiB` to
/// `TiB`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        _ => 0,
    };
    let bytes = text[..digits].parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| "expected bytes, such as 512MiB or 4GiB".to_owned())
}

/// Parses a value of a type of the library. The error says what is expected; clap names the option and the value.
pub(crate) fn parsed<T: FromStr<Err: Into<Error>>>(text: &str) -> Result<T, String> {
    text.parse::<T>().map_err(|error| match error.into() {
        Error::Core(simflip_core::Error::Parameter { expected, .. }) => format!("expected {expected}"),
        other => other.to_string(),
    })
}

/// Values of the library's: each with its name on the command line and the text of the help on it, empty for none.
pub(crate) type NamedValues<T> = [(&'static str, &'static str, T)];

/// The parser of an option that takes one of these values by its name.
pub(crate) fn named<T>(values: &'static NamedValues<T>) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let names = values.iter().map(|&(name, help, _)| match help {
        "" => PossibleValue::new(name),
        help => PossibleValue::new(name).help(help),
    });
    PossibleValuesParser::new(names).try_map(move |typed| {
        let value = values.iter().find(|(name, ..)| *name == typed);
        value.map(|&(.., value)| value).ok_or("expected one of the names")
    })
}

/// The spelling of a value on the command line.
pub(crate) fn name_of(name: &impl ValueEnum) -> String {
    name.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Refuses the first of `options`, names without their dashes, that was given: it would change nothing.
///
/// # Errors
/// Names the option, the arguments `with` which it has no effect, and `why`, which ends with what to do.
pub(crate) fn refuse(options: &[(&str, bool)], with: &str, why: &str) -> anyhow::Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((name, _)) => anyhow::bail!("--{name} has no effect {with}: {why}"),
        None => Ok(()),
    }
}

/// Where results go, and how the machine is used.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Result folder to create; it appears only if the run succeeds
    #[arg(long, value_name = "DIR", display_order = 1)]
    pub out: PathBuf,

    /// Replace an earlier result
    #[arg(long, display_order = 13)]
    pub force: bool,

    /// Number of threads; 0 uses all cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads(), display_order = 12)]
    pub threads: usize,

    /// Hide the progress
    #[arg(long, short, display_order = 14)]
    pub quiet: bool,

    /// Save the document frequencies of the corpus to a file, for a later --frequencies
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub save_frequencies: Option<PathBuf>,
}

/// The boilerplate to ignore.
#[derive(Debug, clap::Args)]
pub(crate) struct BoilerplateArgs {
    /// Ignore lines that three different documents of a group share: host (by URL), file, folder, all or field:NAME
    #[arg(long, value_name = "GROUP", value_parser = parsed::<GroupBy>, display_order = 10)]
    boilerplate_by: Option<GroupBy>,

    /// Ignore the boilerplate of a file that --save-boilerplate wrote, by the groups that are named there
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "boilerplate_by",
        help_heading = "Method",
        hide_short_help = true
    )]
    boilerplate: Option<PathBuf>,
}

impl BoilerplateArgs {
    /// Each option by its name, and true if it was given.
    pub(super) fn given(&self) -> [(&'static str, bool); 2] {
        [("boilerplate-by", self.boilerplate_by.is_some()), ("boilerplate", self.boilerplate.is_some())]
    }

    /// The source of the boilerplate that is left out of documents: a file, or a count over groups of documents.
    /// [`Ignored::None`] if neither option was given.
    pub(super) fn ignored(&self) -> Ignored {
        match (&self.boilerplate, &self.boilerplate_by) {
            (Some(path), _) => Ignored::OfFile(path.clone()),
            (None, Some(by)) => Ignored::Counted(by.clone()),
            (None, None) => Ignored::None,
        }
    }
}

/// The features of a document, and their weights.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FeatureArgs {
    /// Features of a document: words, shingles:N (word N-grams) or characters:N [default: shingles:5]
    #[arg(long, value_name = "KIND", value_parser = parsed::<FeatureKind>, display_order = 4)]
    features: Option<FeatureKind>,

    /// Hash function for features [default: product; murmur3 where SimHash is the only sketch]
    #[arg(long, value_parser = named(&HASHES), help_heading = "Method", hide_short_help = true)]
    feature_hash: Option<FeatureHash>,

    /// Weights of features, for SimHash and --verify cosine [default: binary]
    #[arg(long, value_parser = named(&WEIGHTINGS), help_heading = "SimHash", hide_short_help = true)]
    weighting: Option<Weighting>,

    /// Document frequencies for --weighting tf-idf, instead of those of the corpus
    #[arg(long, value_name = "FILE", help_heading = "SimHash", hide_short_help = true)]
    pub frequencies: Option<PathBuf>,
}

impl FeatureArgs {
    /// The kind of features; the library's default if none was given.
    pub(crate) fn features(&self) -> FeatureKind {
        self.features.unwrap_or(Settings::default().features)
    }

    /// The hash that features are known by, `usual` if none was given.
    pub(crate) fn hash_or(&self, usual: FeatureHash) -> FeatureHash {
        self.feature_hash.unwrap_or(usual)
    }

    /// The weights of features, binary if none were given.
    pub(crate) fn weighting(&self) -> Weighting {
        self.weighting.unwrap_or(Weighting::Binary)
    }

    /// The options, each with whether it was given, by which a command that makes no features [`refuse`]s them.
    pub(crate) fn given(&self) -> [(&'static str, bool); 4] {
        [
            ("features", self.features.is_some()),
            ("feature-hash", self.feature_hash.is_some()),
            ("weighting", self.weighting.is_some()),
            ("frequencies", self.frequencies.is_some()),
        ]
    }

    /// Checks these options against each other.
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

/// The definition of near-duplicates, and the search for them.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// Match documents with fewer distinct features by exact text only [default: 1; 8 for the methods of one
    /// sketch]
    #[arg(long, value_name = "N", help_heading = "Method", hide_short_help = true)]
    min_features: Option<usize>,

    /// Candidate search over SimHashes [default: auto]
    #[arg(long, value_enum, help_heading = "SimHash", hide_short_help = true)]
    search: Option<SearchName>,

    /// Largest Hamming distance of two near hashes, in bits of 64; search time grows steeply with it [default: 10;
    /// psm and bphs 3]
    #[arg(long, value_name = "BITS", help_heading = "SimHash", hide_short_help = true)]
    pub(crate) distance: Option<u32>,

    /// Target recall at the threshold, 0 to 1: bands (both, minhash) or probes (psm, dial) are chosen to reach it
    /// [default: 0.95; both 0.97]
    #[arg(long, value_name = "SHARE", help_heading = "Method", hide_short_help = true)]
    pub(crate) recall: Option<f64>,

    /// Least Jaccard similarity of near-duplicates, 0 to 1 [default: 0.8]
    #[arg(long, value_name = "SHARE", display_order = 2)]
    similarity: Option<f64>,

    /// Bits that psm flips [default: one-table]
    #[arg(long, value_enum, help_heading = "SimHash", hide_short_help = true)]
    index: Option<IndexName>,

    /// Probes per document of psm and dial, instead of those that --recall takes
    #[arg(long, value_name = "PROBES", help_heading = "SimHash", hide_short_help = true)]
    pub(crate) budget: Option<u32>,

    /// Bits of a key of psm and dial [default: chosen by the number of hashes]
    #[arg(long, value_name = "BITS", help_heading = "SimHash", hide_short_help = true)]
    pub(crate) key_bits: Option<u32>,

    /// Tables of bphs, such as 4, 10, 16 or 20 at distance 3 [default: those of distance + 2 blocks]
    #[arg(long, value_name = "N", help_heading = "SimHash", hide_short_help = true)]
    pub(crate) tables: Option<u32>,

    /// Values of a MinHash signature, 4 bytes each, with --method minhash [default: 128]
    #[arg(long, value_name = "N", help_heading = "Method", hide_short_help = true)]
    permutations: Option<usize>,

    /// Bytes of a document that estimate its similarity, more for a smaller error on long documents; with minhash, 8
    /// values of one bit a byte [default: 128]
    #[arg(long, value_name = "N", help_heading = "Method", hide_short_help = true)]
    sketch_bytes: Option<usize>,

    /// Bands x rows of MinHash, such as 16x8, or with --search bands bands x bits of SimHash [default: chosen from
    /// --similarity and --recall; 4x16 of SimHash]
    #[arg(long, value_name = "BxR", value_parser = parse_bands, help_heading = "Method", hide_short_help = true)]
    bands: Option<(usize, usize)>,

    /// Seed of samples and of hash functions
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Method", hide_short_help = true)]
    seed: u64,

    /// Settings for documents that another one contains, or for damaged copies
    #[arg(long, value_enum, display_order = 9)]
    preset: Option<PresetName>,
}

impl SearchArgs {
    /// The method, and its search if it has a choice, in the words of messages: `with --method psm`.
    pub(crate) fn said(&self, method: MethodName) -> String {
        match (method, self.search.unwrap_or(SearchName::Auto)) {
            (MethodName::Simhash, search) => {
                format!("with --method simhash and --search {}", name_of(&search))
            }
            (method, _) => format!("with --method {}", name_of(&method)),
        }
    }
}

/// The check that a candidate pair must pass.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// How candidate pairs are verified [default: estimate; edits with --preset noisy, weights for simhash]
    #[arg(long, value_enum, help_heading = "Method", hide_short_help = true)]
    verify: Option<VerifyName>,

    /// Least similarity that --verify confirms, 0 to 1 [default: estimate and jaccard --similarity, weights 0.889,
    /// mismatch 0.97, containment 0.82, cosine 0.9, edits 0.95]
    #[arg(long, value_name = "SHARE", help_heading = "Method", hide_short_help = true)]
    verify_threshold: Option<f64>,
}

/// The rules for clusters and for the documents that are kept.
#[derive(Debug, clap::Args)]
pub(crate) struct GroupArgs {
    /// How confirmed pairs form clusters
    #[arg(long, value_parser = named(&LINKAGES), default_value = Settings::default().linkage.name(), display_order = 8)]
    clusters: Linkage,

    /// Document to keep: first, longest, fullest, shortest-url, score:FIELD or input-order [default: first; with
    /// containment fullest, and no other]
    #[arg(long, value_name = "RULE", value_parser = parsed::<Keep>, display_order = 6)]
    keep: Option<Keep>,

    #[command(flatten)]
    quota: QuotaArgs,
}

/// Parses the option that says how many files kept documents are written to: `one`, `each`, or the size of a file. A
/// size without a unit is refused, as it may be meant as a number of files.
pub(crate) fn kept_files(text: &str) -> Result<KeptFiles, String> {
    let has_unit = text.ends_with(|last: char| !last.is_ascii_digit());
    match text {
        "one" => Ok(KeptFiles::One),
        "each" => Ok(KeptFiles::Each),
        size => bytes(size).ok().filter(|_| has_unit).map(KeptFiles::OfSize).ok_or_else(|| {
            "expected one, each, or the size of a file with its unit, such as 256MiB".to_owned()
        }),
    }
}

/// The number of documents that are kept of a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct QuotaArgs {
    /// Documents to keep of each cluster, the best by --keep
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Output", hide_short_help = true)]
    keep_count: u32,

    /// Keep --keep-count documents of each source in a cluster, instead of each cluster: of each host (by URL),
    /// input file or folder
    #[arg(long, value_parser = named(&SOURCES), value_name = "SOURCE", help_heading = "Output", hide_short_help = true)]
    keep_each: Option<Source>,
}

impl QuotaArgs {
    /// The library's form of these options.
    pub(crate) fn quota(&self) -> Quota {
        Quota { count: self.keep_count, each: self.keep_each }
    }
}

/// The arguments of a command that looks for near-duplicates; `None` for those that the command does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub search: &'a SearchArgs,
    pub features: &'a FeatureArgs,
    pub check: Option<&'a CheckArgs>,
    pub groups: Option<&'a GroupArgs>,
    /// True if psm, dial and bphs search the hashes of [`Settings::paper`], where no argument says otherwise.
    pub as_published: bool,
    /// True if every confirmed pair is listed ([`Settings::all_pairs`]).
    pub all_pairs: bool,
    /// True if --save-frequencies was given, which --frequencies contradicts.
    pub saves_frequencies: bool,
}

impl<'a> Given<'a> {
    /// The arguments that all of these commands have, without the others.
    pub(crate) fn new(search: &'a SearchArgs, features: &'a FeatureArgs) -> Self {
        Self {
            search,
            features,
            check: None,
            groups: None,
            as_published: false,
            all_pairs: false,
            saves_frequencies: false,
        }
    }

    /// The library's settings for one method: the only place where arguments become settings. `said` is how
    /// messages name the method, such as `with --method psm`.
    ///
    /// # Errors
    /// If an argument was given that would change nothing beside the others, or that contradicts another. Also for a
    /// similarity or sketch bytes out of range, and for a recall that no bands reach. The caller has the library check
    /// the rest ([`Settings::check`]).
    pub(crate) fn settings(&self, method: MethodName, said: &str) -> anyhow::Result<Settings> {
        Ok(self.settings_of_all(&[method], said)?.remove(0))
    }

    /// The settings of several methods that share these arguments, in their order. An argument must have an effect
    /// on one of them at least.
    ///
    /// # Errors
    /// As [`settings`](Self::settings).
    pub(crate) fn settings_of_all(
        &self,
        methods: &[MethodName],
        said: &str,
    ) -> anyhow::Result<Vec<Settings>> {
        let alone = methods.len() == 1;
        let generators =
            methods.iter().map(|&method| self.generator(method)).collect::<anyhow::Result<Vec<_>>>()?;
        let idle =
            methods.iter().zip(&generators).map(|(&method, &generator)| self.idle(generator, method, alone));
        let of_all = idle.reduce(|mut idle, other| {
            idle.retain(|(name, ..)| other.iter().any(|(other, ..)| other == name));
            idle
        });
        for (name, given, why) in of_all.unwrap_or_default() {
            refuse(&[(name, given)], said, why)?;
        }
        self.refuse_contradictions(methods)?;
        methods.iter().zip(generators).map(|(&method, generator)| self.of(method, generator, alone)).collect()
    }

    /// True if one bit of each MinHash value is asked for. `alone` is true if no other method shares the arguments.
    fn one_bit(&self, method: MethodName, alone: bool) -> bool {
        alone && method == MethodName::Minhash && self.search.sketch_bytes.is_some()
    }

    fn similarity(&self) -> f64 {
        let usual = if self.search.preset == Some(PresetName::Noisy) { NOISY } else { USUAL_SIMILARITY };
        self.search.similarity.unwrap_or(usual)
    }

    fn generator(&self, method: MethodName) -> anyhow::Result<Generator> {
        let SearchArgs { search, index, bands, tables, budget, key_bits, .. } = self.search;
        let within = |usual: u32| self.search.distance.unwrap_or(usual);
        let banding = bands.map(|(bands, rows)| Banding { bands, rows });
        let share = self.search.recall.unwrap_or(USUAL_RECALL);
        if matches!(method, MethodName::Both | MethodName::Minhash) {
            return Ok(match search {
                None | Some(SearchName::Auto | SearchName::Keys) => Generator::Keys,
                Some(SearchName::Join) => Generator::Join { distance: within(USUAL_DISTANCE) },
                Some(search) => anyhow::bail!(
                    "--search {} has no effect with --method {}, which keeps no weights to probe by: keys and join are its searches. \
                     Give --method simhash, or leave one of the two out",
                    name_of(search),
                    name_of(&method)
                ),
            });
        }
        anyhow::ensure!(
            *search != Some(SearchName::Keys),
            "--search keys has no effect with --method {}: documents of --method both and minhash alone have keys. Drop one of the two",
            name_of(&method)
        );
        let own = method.search();
        if let (Some(own), Some(search)) = (own, search)
            && own != *search
        {
            let (own, search) = (name_of(&own), name_of(search));
            anyhow::bail!(
                "--search {search} beside --method {own}, which is short for --method simhash --search {own}. Leave one of the two \
                 out, or give --method simhash --search {search}"
            );
        }
        let published = within(PAPER_DISTANCE);
        let distance = if self.is_published(method) { published } else { within(USUAL_DISTANCE) };
        let recall = budget.map_or_else(|| Recall::of(share), Recall::Probes);
        let (join, dial) =
            (Generator::Join { distance }, Generator::Dial { distance, recall, key_bits: *key_bits });
        Ok(match own.or(*search) {
            Some(SearchName::Psm) => {
                let flipped_bits = match index {
                    Some(IndexName::AllBits) => FlippedBits::All { filter_bits: 8 },
                    None | Some(IndexName::OneTable) => FlippedBits::Key { key_bits: *key_bits },
                };
                Generator::Psm { distance: published, recall, flipped_bits }
            }
            Some(SearchName::Dial) => dial,
            Some(SearchName::Bphs) => Generator::Bphs { distance: published, tables: *tables },
            Some(SearchName::Join) => join,
            Some(SearchName::Bands) => {
                Generator::HashBands { distance, banding: banding.unwrap_or(USUAL_HASH_BANDS) }
            }
            Some(SearchName::Auto | SearchName::Keys) | None if distance > FARTHEST_JOINED => dial,
            Some(SearchName::Auto | SearchName::Keys) | None => join,
        })
    }

    /// True if the method searches the hashes of [`Settings::paper`].
    fn is_published(&self, method: MethodName) -> bool {
        self.as_published && method.search().is_some()
    }

    /// The arguments without an effect on a generator: each with whether it was given, and why it has none.
    fn idle(
        &self,
        generator: Generator,
        method: MethodName,
        alone: bool,
    ) -> Vec<(&'static str, bool, &'static str)> {
        const JOINED: &str = "the search is exact. Drop it, or use --search dial, which probes";
        const ALL: &str = "candidates share a band hash, and are not probed for. Drop it, or use --method simhash --search dial";
        const PROBING: &str = "it applies to searches that probe. Drop it, or use --method psm or dial";
        const WHOLE: &str = "whole hashes are looked up there. Drop it, or give --index one-table";
        const PSM: &str = "it applies to psm only. Drop it, or use --method psm";
        const BPHS: &str = "it applies to bphs only. Drop it, or use --method bphs";
        const CHECKED: &str = "--verify and --verify-threshold decide. Drop it, or leave them out";
        const MINHASH: &str = "it applies to minhash only. Drop it, or use --method minhash";
        const BANDED: &str =
            "it applies to bands only. Drop it, or use --method both or minhash, or --search bands";
        const BOTH: &str = "it applies to --method both only. Drop it, or use --method both";
        const BYTES: &str = "it applies to --method both and minhash only. Drop it, or use --method both";
        const BITS: &str =
            "--sketch-bytes says how many positions there are, of which one bit is kept. Drop one of the two";
        const SIMHASH: &str =
            "it applies to SimHash only. Drop it (--similarity is the threshold), or use --method simhash";
        const SETS: &str = "sets of features are compared without weights. Leave it out, let --verify cosine compare weights, or \
                            give --method simhash";
        let (both, one_bit) = (method == MethodName::Both, self.one_bit(method, alone));
        let keyed = both || method == MethodName::Minhash;
        let psm = matches!(generator, Generator::Psm { .. });
        let probes = psm || matches!(generator, Generator::Dial { .. });
        let no_probes = match generator {
            _ if keyed => ALL,
            Generator::Join { .. } => JOINED,
            _ => PROBING,
        };
        let verify = self.check.and_then(|check| check.verify);
        let threshold = self.check.is_some_and(|check| check.verify_threshold.is_some());
        let weighs = !keyed || verify == Some(VerifyName::Cosine);
        let bands = generator == Generator::Keys;
        let whole = matches!(generator, Generator::Psm { flipped_bits: FlippedBits::All { .. }, .. });
        let resembles = keyed
            || matches!(verify, Some(VerifyName::Weights | VerifyName::Jaccard))
            || verify.is_none() && !self.is_published(method);
        let permutations = if one_bit { BITS } else { MINHASH };
        let search = self.search;
        let all = [
            ("recall", search.recall.is_some(), !probes && !bands, no_probes),
            ("budget", search.budget.is_some(), !probes, no_probes),
            ("key-bits", search.key_bits.is_some(), !probes, no_probes),
            ("key-bits", search.key_bits.is_some(), whole, WHOLE),
            ("distance", search.distance.is_some(), bands, SIMHASH),
            ("index", search.index.is_some(), !psm, PSM),
            ("tables", search.tables.is_some(), !matches!(generator, Generator::Bphs { .. }), BPHS),
            ("similarity", search.similarity.is_some(), !resembles || threshold && !bands, CHECKED),
            (
                "permutations",
                search.permutations.is_some(),
                method != MethodName::Minhash || one_bit,
                permutations,
            ),
            (
                "bands",
                search.bands.is_some(),
                !bands && !matches!(generator, Generator::HashBands { .. }),
                BANDED,
            ),
            ("sketch-bytes", search.sketch_bytes.is_some(), !both && !one_bit, BYTES),
            ("preset", search.preset.is_some(), !both, BOTH),
            ("weighting", self.features.weighting.is_some(), !weighs, SETS),
        ];
        let idle = all.into_iter().filter(|(_, _, is_idle, _)| *is_idle);
        idle.map(|(name, given, _, why)| (name, given, why)).collect()
    }

    fn refuse_contradictions(&self, methods: &[MethodName]) -> anyhow::Result<()> {
        let Self { search, features, check, .. } = self;
        let verify = check.and_then(|check| check.verify);
        // The paper's hashes weigh features by document frequencies.
        if features.weighting.is_some() || !methods.iter().any(|&method| self.is_published(method)) {
            features.check()?;
        }
        let is_idle = search.similarity.is_some() && search.preset == Some(PresetName::Removable);
        let why =
            "it has a threshold of its own, of containment. Drop one of the two, or give --verify-threshold";
        refuse(&[("similarity", is_idle)], "with --preset removable", why)?;
        if let Some(similarity) = search.similarity {
            let is_share = similarity > 0.0 && similarity <= 1.0;
            anyhow::ensure!(is_share, "--similarity {similarity}: expected a share above 0 and at most 1");
        }
        if let Some(bytes) = search.sketch_bytes {
            anyhow::ensure!(bytes > 0 && bytes % 8 == 0, "--sketch-bytes {bytes}: expected a multiple of 8");
        }
        let is_idle = self.saves_frequencies && features.frequencies.is_some();
        let why =
            "the corpus's own are not counted then, and that file is there already. Drop one of the two";
        refuse(&[("save-frequencies", is_idle)], "with --frequencies", why)?;
        let of_bands = |&method: &MethodName| matches!(method, MethodName::Minhash | MethodName::Both);
        let only_bands = methods.iter().all(of_bands);
        let checked = match verify {
            Some(verify) => verify != VerifyName::None,
            None => !methods.iter().all(|&method| self.is_published(method)),
        };
        let threshold = check.and_then(|check| check.verify_threshold);
        let why = "nothing is checked then. Drop it, or name a check with --verify";
        refuse(&[("verify-threshold", threshold.is_some() && !checked)], "with --verify none", why)?;
        let is_idle = search.recall.is_some() && search.bands.is_some() && only_bands;
        let why = "it serves to choose the bands, and they are given. Drop one of the two";
        refuse(&[("recall", is_idle)], "with --bands", why)?;
        let minhash = methods.iter().any(of_bands);
        let is_idle = search.recall.is_some() && search.budget.is_some() && !minhash;
        let why =
            "it serves to measure how many probes are made, and their number is given. Drop one of the two";
        refuse(&[("recall", is_idle)], "with --budget", why)?;
        Ok(())
    }

    /// The settings of a method with its generator. `alone` is true if no other method shares the arguments.
    ///
    /// # Errors
    /// If no bands reach the recall that is asked for.
    fn of(&self, method: MethodName, generator: Generator, alone: bool) -> anyhow::Result<Settings> {
        let Self { search, features, check, groups, .. } = self;
        let similarity = self.similarity();
        let mut settings = match (method, search.preset) {
            (MethodName::Both, Some(PresetName::Noisy)) => Settings::noisy(similarity),
            (MethodName::Both, Some(PresetName::Removable)) => Settings::removable(),
            (MethodName::Both, _) => Settings::both(similarity),
            _ if self.one_bit(method, alone) => Settings::one_bit(USUAL_BITS, similarity),
            (MethodName::Minhash, _) => Settings::minhash(similarity),
            _ if self.is_published(method) => Settings::paper(),
            _ => Settings::simhash(),
        };
        let weighting = match (features.weighting, settings.sketches) {
            (None, Sketches::SimHash { weighting }) => weighting,
            _ => features.weighting(),
        };
        settings.features = features.features.unwrap_or(settings.features);
        settings.feature_hash = features.hash_or(settings.feature_hash);
        settings.min_features = search.min_features.unwrap_or(settings.min_features);
        settings.sketches = match settings.sketches {
            Sketches::MinHash { permutations: usual, .. } => {
                let permutations = search.permutations.unwrap_or(usual);
                let recall = search.recall.unwrap_or(USUAL_RECALL);
                let banding = match search.bands {
                    Some((bands, rows)) => Banding { bands, rows },
                    None => Banding::choose(permutations, similarity, recall)?,
                };
                Sketches::MinHash { permutations, banding }
            }
            Sketches::Both { bits, banding } => {
                Sketches::Both { bits: self.bits_or(bits), banding: self.banding_or(banding, similarity)? }
            }
            Sketches::OneBit { bits, banding } => {
                Sketches::OneBit { bits: self.bits_or(bits), banding: self.banding_or(banding, similarity)? }
            }
            _ => Sketches::SimHash { weighting },
        };
        settings.generator = generator;
        settings.verification =
            match check.and_then(|check| check.verify) {
                // Weight vectors are of SimHash alone. The others verify by their bits, which SimHash does not have.
                Some(
                    VerifyName::Weights | VerifyName::Mismatch | VerifyName::Estimate | VerifyName::None,
                ) if !alone && !self.judges(method) => settings.verification,
                Some(verify) => self.verification(verify.measure(), similarity, weighting),
                // A preset has a threshold of its own.
                None if search.preset == Some(PresetName::Removable)
                    && self.check.is_none_or(|check| check.verify_threshold.is_none()) =>
                {
                    settings.verification
                }
                None => self.verification(settings.verification.measure(), similarity, weighting),
            };
        settings.keep = settings.verification.usual_keep();
        if let Some(groups) = groups {
            settings.linkage = groups.clusters;
            settings.keep = groups.keep.clone().unwrap_or(settings.keep);
            settings.quota = groups.quota.quota();
        }
        settings.all_pairs = self.all_pairs;
        settings.seed = search.seed;
        Ok(settings)
    }

    fn bits_or(&self, usual: usize) -> usize {
        self.search.sketch_bytes.map_or(usual, |bytes| bytes.saturating_mul(8))
    }

    /// The bands of keys that are asked for.
    ///
    /// # Errors
    /// If no bands reach the recall.
    fn banding_or(&self, usual: Banding, similarity: f64) -> anyhow::Result<Banding> {
        match (self.search.bands, self.search.recall) {
            (Some((bands, rows)), _) => Ok(Banding { bands, rows }),
            (None, Some(recall)) => Ok(Settings::keyed(similarity, recall)?),
            (None, None) => Ok(usual),
        }
    }

    /// True if the check that is asked for is one that a method has.
    fn judges(&self, method: MethodName) -> bool {
        use VerifyName::{Estimate, Mismatch, None as Nothing, Weights};
        match self.check.and_then(|check| check.verify) {
            Some(Weights | Mismatch) => !matches!(method, MethodName::Both | MethodName::Minhash),
            Some(Estimate) => matches!(method, MethodName::Both | MethodName::Minhash),
            Some(Nothing) => !matches!(method, MethodName::Both | MethodName::Minhash),
            _ => true,
        }
    }

    fn verification(&self, measure: Option<Measure>, similarity: f64, weighting: Weighting) -> Verification {
        let Some(measure) = measure else { return Verification::None };
        let usual = match measure {
            Measure::Jaccard | Measure::Estimate => similarity,
            // The cosine of two sets of equal size with this coefficient, to three digits.
            Measure::Weights => (2000.0 * similarity / (1.0 + similarity)).round() / 1000.0,
            _ => measure.usual_threshold(),
        };
        let threshold = self.check.and_then(|check| check.verify_threshold);
        measure.at_least(threshold.unwrap_or(usual), weighting)
    }
}

/// A number of bands and a number of rows, as in `16x8`.
fn parse_bands(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.trim().parse().ok();
    let both = text.split_once(['x', '×']).and_then(|(bands, rows)| number(bands).zip(number(rows)));
    both.ok_or_else(|| "expected bands and rows, such as 16x8".to_owned())
}

/// The values of --method: the sketches that documents get. `Psm`, `Dial` and `Bphs` are SimHash with that search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodName {
    /// MinHash bands generate candidates, a sketch of 128 bytes verifies them, and a sample estimates the recall
    Both,
    /// SimHash of 64 bits, with its weights; --search names the search
    Simhash,
    /// MinHash signatures of --permutations values, in bands
    Minhash,
    /// simhash with --search psm: one table, the most likely flips first, within 3 bits (Sood & Loguinov 2011,
    /// as we read it; --index selects our other reading)
    Psm,
    /// simhash with --search dial: a few small tables, the most likely flips of their keys first (ours)
    Dial,
    /// simhash with --search bphs: block-permuted tables, within 3 bits; exact (Manku et al. 2007)
    Bphs,
}

impl MethodName {
    /// The search over SimHashes that the method's name includes; `None` for a name that includes none.
    pub(crate) fn search(self) -> Option<SearchName> {
        match self {
            Self::Psm => Some(SearchName::Psm),
            Self::Dial => Some(SearchName::Dial),
            Self::Bphs => Some(SearchName::Bphs),
            Self::Both | Self::Simhash | Self::Minhash => None,
        }
    }
}

/// The values of --search: the ways to find candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchName {
    /// both: keys. simhash: join up to distance 10, dial beyond
    Auto,
    /// Compare documents that share a band hash of MinHash
    Keys,
    /// Join all hashes with each other; exact
    Join,
    /// Probe a few small tables, the likeliest flips first (ours)
    Dial,
    /// Probe one table, the likeliest sets of flips first (Sood & Loguinov, as we read them)
    Psm,
    /// Look hashes up in block-permuted tables; exact (Manku et al.)
    Bphs,
    /// Compare hashes that agree in a whole band of their bits; exact only up to fewer bits than bands
    Bands,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VerifyName {
    /// No check
    None,
    /// Cosine of the two weight vectors behind the hashes
    Weights,
    /// Share of the two vectors' |weight| on bits where the hashes agree
    Mismatch,
    /// Jaccard coefficient of the two sets of features, as MinHash estimates it
    Estimate,
    /// Jaccard coefficient of the two sets of features
    Jaccard,
    /// Share of the removed document's features that is also in the kept one, counted
    Containment,
    /// Cosine of the two documents' feature weights
    Cosine,
    /// Share of the characters that stay if one text is edited to be the other, or of the words, wherever they stand
    Edits,
}

impl VerifyName {
    /// The measure of this name; none for no check.
    fn measure(self) -> Option<Measure> {
        match self {
            Self::None => None,
            Self::Weights => Some(Measure::Weights),
            Self::Mismatch => Some(Measure::Mismatch),
            Self::Estimate => Some(Measure::Estimate),
            Self::Jaccard => Some(Measure::Jaccard),
            Self::Containment => Some(Measure::Containment),
            Self::Cosine => Some(Measure::Cosine),
            Self::Edits => Some(Measure::Edits),
        }
    }
}

const LINKAGES: [(&str, &str, Linkage); 2] = [
    ("star", "Every removed document is near the kept one", Linkage::Star),
    ("connected", "All documents that a chain of compared pairs links", Linkage::Connected),
];

const SOURCES: [(&str, &str, Source); 3] =
    [("host", "", Source::Host), ("file", "", Source::File), ("folder", "", Source::Folder)];

const WEIGHTINGS: [(&str, &str, Weighting); 3] = [
    ("tf-idf", "Term frequency (sublinear) times inverse document frequency", Weighting::TfIdf),
    ("tf", "Term frequency: the number of occurrences", Weighting::Tf),
    ("binary", "1 for each feature of a document", Weighting::Binary),
];

const HASHES: [(&str, &str, FeatureHash); 2] = [
    ("murmur3", "MurmurHash3 x64_128, low 64 bits", FeatureHash::Murmur3),
    (
        "product",
        "A folded product of 64 by 64 bits a word, and one more a feature: faster",
        FeatureHash::Product,
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PresetName {
    /// Documents of which a fuller one contains nearly all (3-word shingles, containment 0.82)
    Removable,
    /// Copies damaged by OCR, typing errors, lost spaces or words (character 5-grams, edits 0.95)
    Noisy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IndexName {
    /// Flip bits in the key of one table (our first reading of the paper)
    OneTable,
    /// Flip any of the 64 bits (our other reading)
    AllBits,
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
