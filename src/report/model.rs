//! The report as plain data: what `report.json` holds, and what the page is drawn from.
//!
//! Counts are `u64`, times are seconds as `f64`, sizes are bytes, shares and probabilities lie in
//! 0..=1. Every floating-point number must be finite, as JSON knows no other. Lists are in the order
//! in which they are shown.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use super::snippet::Piece;
use super::snippet::{differences, opening};
use crate::boilerplate::{Boilerplate, BoilerplateShare, GroupBy};
use crate::corpus::{self, FileReading, JsonlFields, NotRead, TextSum};
use crate::format::wrong;
use crate::search::bands::Banding;
use crate::{Error, Result};
pub use simflip_core::dedup::PairKind;
use simflip_core::dedup::{Searched, Verified};
use simflip_core::recall_estimate::{Estimated, RecallEstimate};
use simflip_core::settings::{Generator, Settings};

const OPENING_CHARS: usize = 200;

/// The version of the form of reports.
pub const SCHEMA: u32 = 1;

/// Everything that one run of `simflip dedup` has to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// The program that ran.
    pub tool: Tool,
    /// When the run ended, RFC 3339.
    pub created: String,
    /// The command as typed, one argument each.
    pub command_line: Vec<String>,
    /// A hash of the settings, of how files were read, and of the files as they were; none where they were not known
    /// before they were read, and of a result to which `simflip rethreshold` gave a higher threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The settings that decided the result: a run with these settings over the same pages has the same result.
    pub settings: Option<Settings>,
    /// The file of document frequencies that weights were made with; none if they were counted in the
    /// corpus, or none were needed.
    pub frequencies: Option<PathBuf>,
    /// The boilerplate that was left out, if some was.
    pub boilerplate: Option<BoilerplateReport>,
    /// The input, without reference documents.
    pub corpus: Corpus,
    /// The reference set that the new documents were compared with, if there was one.
    pub against: Option<AgainstReport>,
    /// The outcome.
    pub outcome: Outcome,
    /// The method, in words.
    pub method: Method,
    /// The recall, where it was measured.
    pub recall: Option<Recall>,
    /// Which pairs a banded MinHash index compares, where there is one.
    pub s_curve: Option<SCurve>,
    /// Scores of the pairs that each table or band generated.
    pub histograms: Vec<Histogram>,
    /// The number of clusters of each size, sizes ascending.
    pub cluster_sizes: Vec<ClusterSizes>,
    /// The largest clusters, largest first.
    pub largest_clusters: Vec<ClusterSample>,
    /// Pairs to be judged by a person.
    pub sample_pairs: Vec<PairSample>,
    /// Time per stage, in the order of the run.
    pub stages: Vec<Stage>,
    /// Largest resident set of the process, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The memory that was expected, and the disk that was used; none in earlier reports.
    pub memory: Option<MemoryReport>,
    /// The counted work of the search.
    pub search_cost: SearchCost,
    /// The search and its counts, as data.
    pub searched: Option<Searched>,
    /// The counts of verification, if there was one.
    pub verified: Option<Verified>,
    /// The estimate of recall by a sample of the documents; none for runs of one sketch.
    pub recall_estimate: Option<RecallEstimate>,
    /// The share of the features of the removed near-duplicates that the documents kept for them lack, 0 to 1. It
    /// follows from the similarity and the sizes of each two. None without such a document, and where similarity does
    /// not give it.
    pub missing: Option<f64>,
    /// Input that could not be read.
    pub corruption: CorruptionReport,
    /// The warnings, a sentence each.
    pub warnings: Vec<String>,
    /// One row per input file.
    pub files: Vec<FileRow>,
    /// The losses of each source: folders, files, hosts, values of a field; empty in earlier reports.
    pub lost_by_source: Vec<Sources>,
    /// Entries of folders among the inputs that were not read; empty in earlier reports.
    pub not_read: Vec<NotRead>,
    /// The other files of the folder but the pages, as they were written; empty in earlier reports.
    pub written: Vec<WrittenFile>,
}

/// The memory and disk that a run was expected to take, by the sizes of its files and their first documents, and the
/// disk that it took. The memory that it took is [`Report::peak_memory_bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryReport {
    /// Bytes that were not to be exceeded.
    pub limit_bytes: u64,
    /// Documents that were expected.
    pub expected_documents: u64,
    /// Bytes that the run was expected to hold in memory, for its documents.
    pub expected_bytes: u64,
    /// Bytes that near pairs took besides, in memory: how many there are is known when documents are compared, and not
    /// before. None in earlier reports, and where it went on disk, which holds them.
    pub pair_bytes: Option<u64>,
    /// True if it went in stages on disk.
    pub on_disk: bool,
    /// If so, bytes that its working folder was expected to take,
    pub expected_disk_bytes: Option<u64>,
    /// and the most that it was seen to take.
    pub disk_bytes: Option<u64>,
}

/// The boilerplate that was left out of documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoilerplateReport {
    /// The kind of groups.
    pub by: GroupBy,
    /// The file of boilerplate that was given; none if it was counted in the corpus.
    pub from: Option<PathBuf>,
    /// The share of boilerplate in all documents of groups with three different contents or more; others have none.
    pub all: BoilerplateShare,
    /// Number of these groups.
    pub groups: u64,
    /// Groups with the most bytes of boilerplate, most first.
    pub most: Vec<GroupBoilerplate>,
    /// The share of other lines that were taken for boilerplate because the table of counts is full; 0 as long as
    /// each line was counted for itself.
    pub mistaken: f64,
}

impl BoilerplateReport {
    /// Groups that are listed.
    const LISTED: usize = 50;

    /// The report on some boilerplate before any group.
    pub(crate) fn of(boilerplate: &Boilerplate) -> Self {
        Self { by: boilerplate.by.clone(), mistaken: boilerplate.mistaken(), ..Self::default() }
    }

    /// Adds a group.
    pub(crate) fn add(&mut self, group: String, share: BoilerplateShare) {
        self.groups += 1;
        self.all.add(&share);
        if share.boilerplate_lines > 0 {
            self.most.push(GroupBoilerplate { group, share });
        }
        if self.most.len() >= 8 * Self::LISTED {
            self.cut();
        }
    }

    /// With the groups in order, and as many as are listed.
    pub(crate) fn settled(mut self) -> Self {
        self.cut();
        self
    }

    fn cut(&mut self) {
        self.most.sort_by(|a, b| {
            b.share.boilerplate_bytes.cmp(&a.share.boilerplate_bytes).then_with(|| a.group.cmp(&b.group))
        });
        self.most.truncate(Self::LISTED);
    }
}

/// The share of boilerplate in a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupBoilerplate {
    /// The host, file or folder; empty where all documents are one group.
    pub group: String,
    /// The share in its documents.
    #[serde(flatten)]
    pub share: BoilerplateShare,
}

/// The reference set that new documents were compared with. It is counted nowhere else but among pairs and in clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgainstReport {
    /// The inputs that were named for it, in the order in which they were named.
    pub named: Vec<PathBuf>,
    /// Reference documents.
    pub documents: u64,
    /// New documents that can go and whose very text a reference document has.
    pub exact: u64,
    /// Other new documents that can go because a reference document stays for them.
    pub near: u64,
    /// Clusters with a reference document.
    pub clusters: u64,
    /// Reference documents in them.
    pub documents_in_clusters: u64,
    /// Files that were named as new ones, too; they are of the reference set.
    pub both: u64,
    /// One row per file.
    pub files: Vec<FileRow>,
}

/// The losses of the sources of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sources {
    /// The kind: `folder`, `file`, `host`, or `field:` and the name of a field whose values group documents.
    pub kind: String,
    /// Number of sources.
    pub number: u64,
    /// Documents of all of them; others have no source of the kind.
    pub documents: u64,
    /// The number of sources that have [`Sources::LEAST`] documents or more and lose [`Sources::NEARLY_ALL`] of them or
    /// more.
    pub nearly_removed: u64,
    /// The sources that lose the most documents, most first, at most [`Sources::LISTED`].
    pub most: Vec<SourceRow>,
    /// The sources that lose nearly all their documents, largest first, at most [`Sources::LISTED`].
    pub removed: Vec<SourceRow>,
    /// Of those that have [`Sources::LEAST`] documents or more, the one that loses the largest share.
    #[serde(default)]
    pub worst: Option<SourceRow>,
}

/// The losses of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceRow {
    /// The source.
    pub source: String,
    /// Its documents.
    pub documents: u64,
    /// Kept documents among them.
    pub kept: u64,
}

impl SourceRow {
    /// Counts a document.
    pub fn count(&mut self, is_kept: bool) {
        self.documents += 1;
        self.kept += u64::from(is_kept);
    }

    /// Documents that can go.
    pub fn lost(&self) -> u64 {
        self.documents.saturating_sub(self.kept)
    }

    /// The share of its documents that can go, 0 to 1.
    pub fn share_lost(&self) -> f64 {
        self.lost() as f64 / self.documents.max(1) as f64
    }

    fn is_nearly_all_removed(&self) -> bool {
        self.documents >= Sources::LEAST && self.lost() as f64 >= Sources::NEARLY_ALL * self.documents as f64
    }
}

impl Sources {
    /// Sources that are listed.
    pub const LISTED: usize = 50;
    /// The share of a source's documents that is nearly all.
    pub const NEARLY_ALL: f64 = 0.95;
    /// The fewest documents of a source of which that is said.
    pub const LEAST: u64 = 20;

    /// All sources of a kind.
    pub fn new(kind: &str, rows: Vec<SourceRow>) -> Self {
        let mut all = Self::of(kind);
        rows.into_iter().for_each(|row| all.add(row));
        all.settled()
    }

    /// No source yet of a kind.
    pub fn of(kind: &str) -> Self {
        Self { kind: kind.to_owned(), ..Self::default() }
    }

    /// Adds a source.
    pub fn add(&mut self, row: SourceRow) {
        self.number += 1;
        self.documents += row.documents;
        if row.documents >= Self::LEAST {
            let is_worse = |worst: &SourceRow| {
                let order = row.share_lost().total_cmp(&worst.share_lost());
                order
                    .then(row.documents.cmp(&worst.documents))
                    .then_with(|| worst.source.cmp(&row.source))
                    .is_gt()
            };
            if self.worst.as_ref().is_none_or(is_worse) {
                self.worst = Some(row.clone());
            }
        }
        if row.is_nearly_all_removed() {
            self.nearly_removed += 1;
            self.removed.push(row.clone());
        }
        if row.lost() > 0 {
            self.most.push(row);
        }
        if self.most.len().max(self.removed.len()) >= 8 * Self::LISTED {
            self.cut();
        }
    }

    /// Cuts the lists once all sources are added.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.cut();
        self
    }

    /// Leaves those that are listed.
    fn cut(&mut self) {
        self.removed.sort_by(|a, b| b.documents.cmp(&a.documents).then_with(|| a.source.cmp(&b.source)));
        self.removed.truncate(Self::LISTED);
        self.most.sort_by(|a, b| b.lost().cmp(&a.lost()).then_with(|| a.source.cmp(&b.source)));
        self.most.truncate(Self::LISTED);
    }
}

/// Everything that one run of `simflip compare` has to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompareReport {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// The program that ran.
    pub tool: Tool,
    /// When the run ended, RFC 3339.
    pub created: String,
    /// The command as typed, one argument each.
    pub command_line: Vec<String>,
    /// The input, read once for all methods.
    pub corpus: Corpus,
    /// Each method with its result.
    pub methods: Vec<MethodResult>,
    /// Who found what: one entry for each set of methods that found a pair which no other method found.
    pub agreement: Vec<Agreement>,
    /// Time of the stages that all methods share.
    pub shared_stages: Vec<Stage>,
    /// Largest resident set of the process, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// Input that could not be read.
    pub corruption: CorruptionReport,
    /// The warnings, a sentence each.
    pub warnings: Vec<String>,
}

/// The program that ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The level of vector instructions that it used. Times depend on it, results do not.
    #[serde(default)]
    pub kernel: String,
}

impl Tool {
    /// This program.
    pub fn this() -> Self {
        Self {
            name: env!("CARGO_PKG_NAME").to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            kernel: simflip_core::kernel_choice().level.to_string(),
        }
    }
}

/// The input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Corpus {
    /// Input files.
    pub files: u64,
    /// Bytes of the files as stored, usually compressed.
    pub stored_bytes: u64,
    /// Bytes of the documents' text, UTF-8.
    pub text_bytes: u64,
    /// Records met, of any kind.
    pub records: u64,
    /// Records that are documents with text.
    pub documents: u64,
    /// Documents among them whose text was extracted from a server's response (WARC responses).
    pub extracted: u64,
    /// The extractor and its version; none if nothing was extracted.
    pub extractor: Option<String>,
    /// The field or column of the text, where a name was given for it.
    pub text_field: Option<String>,
    /// Documents with too few features for a sketch to mean much.
    pub documents_with_few_features: u64,
    /// The commonest languages, most documents first.
    pub languages: Vec<LanguageCount>,
}

/// Documents in one language.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanguageCount {
    /// The language as the corpus names it, such as `eng`.
    pub language: String,
    /// Documents that name it.
    pub documents: u64,
}

/// The outcome of a run. `exact_duplicates + near_duplicates = removed` and `kept + removed` is the number of
/// documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// Documents whose text, byte for byte, an earlier document has: all copies of a text but one.
    /// All of them are removed.
    pub exact_duplicates: u64,
    /// Removed documents that are no exact duplicates.
    pub near_duplicates: u64,
    /// Documents that stay.
    pub kept: u64,
    /// Documents that can go.
    pub removed: u64,
    /// Bytes of text of the removed documents.
    pub removed_text_bytes: u64,
    /// Pairs within the threshold.
    pub pairs_found: u64,
    /// Rows of `pairs.csv`, fewer than the pairs found where large groups are cut.
    pub pairs_written: u64,
    /// Clusters of two or more documents.
    pub clusters: u64,
    /// Documents in them, those of the reference set among them.
    pub documents_in_clusters: u64,
}

/// The method by which duplicates were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Method {
    /// `simhash` or `minhash`.
    pub name: String,
    /// The meaning of `similarity` in pairs, such as "Jaccard similarity of 5-word shingles".
    pub similarity: String,
    /// Every parameter, in the order in which they are shown.
    pub parameters: Vec<Parameter>,
    /// The seed of everything random.
    pub seed: u64,
    /// Name of the feature hash.
    pub hash: String,
}

/// A parameter and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name as the command line spells it.
    pub name: String,
    /// Its value with its unit.
    pub value: String,
}

/// The share of existing pairs that were found, measured on a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recall {
    /// The recall asked for.
    pub wanted: f64,
    /// The recall measured.
    pub reached: f64,
    /// Lower end of the confidence interval.
    pub low: f64,
    /// Upper end of the confidence interval.
    pub high: f64,
    /// Probability that the interval holds the true recall, such as 0.95.
    pub confidence: f64,
    /// Recall of what: the pairs that count as 100 %, in words.
    pub denominator: String,
    /// Probes allowed per query.
    pub budget_probes: u64,
    /// Pairs of the sample on which recall was measured.
    pub sample_pairs: u64,
}

/// Probability that a pair of a given Jaccard similarity shares a band: 1 − (1 − sʳ)ᵇ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SCurve {
    /// Bands b.
    pub bands: u32,
    /// Positions per band r.
    pub rows: u32,
    /// The similarity from which a pair counts as near.
    pub threshold: f64,
    /// The curve at the threshold.
    pub probability_at_threshold: f64,
    /// The curve as (similarity, probability), similarity ascending from 0 to 1.
    pub points: Vec<(f64, f64)>,
}

impl SCurve {
    /// The curve of `bands` bands of `rows` positions at 101 points.
    pub fn new(bands: u32, rows: u32, threshold: f64) -> Self {
        let banding = Banding { bands: bands as usize, rows: rows as usize };
        let probability_at_threshold = banding.probability(threshold);
        Self { bands, rows, threshold, probability_at_threshold, points: banding.curve(101) }
    }
}

/// Scores of the pairs that one table or band generated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Which table or band: `table 0`, `band 0`.
    pub title: String,
    /// The unit of scores: `64 − distance`, `matching positions`.
    pub unit: String,
    /// One row per score, scores ascending.
    pub rows: Vec<HistogramRow>,
}

/// The pairs of one score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramRow {
    /// The score.
    pub score: u32,
    /// Pairs that have it.
    pub number: u64,
    /// Their share of all pairs of this histogram; the shares of a histogram sum to 1, or are
    /// all 0 if it has no pair.
    pub portion: f64,
}

impl Histogram {
    /// The histogram of `(score, number)` in ascending order of scores.
    pub fn new(title: impl Into<String>, unit: impl Into<String>, counts: &[(u32, u64)]) -> Self {
        let total = counts.iter().fold(0u64, |sum, &(_, number)| sum.saturating_add(number));
        let portion = |number: u64| if total == 0 { 0.0 } else { number as f64 / total as f64 };
        let rows = counts
            .iter()
            .map(|&(score, number)| HistogramRow { score, number, portion: portion(number) })
            .collect();
        Self { title: title.into(), unit: unit.into(), rows }
    }

    /// Pairs of all scores.
    pub fn total(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.number))
    }
}

/// The number of clusters of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSizes {
    /// Documents in the cluster, at least 2.
    pub size: u64,
    /// Clusters of that size.
    pub clusters: u64,
}

/// A cluster to look at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSample {
    /// Its name in `clusters.csv`.
    pub cluster: String,
    /// Documents in it.
    pub size: u64,
    /// The document that stays.
    pub kept: DocumentSample,
    /// Some of the others.
    pub members: Vec<DocumentSample>,
    /// Lowest similarity of a member with the document that stays, where known.
    pub lowest_similarity: Option<f64>,
    /// Median similarity of the members with the document that stays, where known.
    pub median_similarity: Option<f64>,
}

/// A document as a person sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentSample {
    /// Its id.
    pub id: String,
    /// Its address, or an empty string.
    pub url: String,
    /// Its first words, see [`opening`].
    pub opening: String,
    /// In a pair: where it differs from the other, see [`differences`]; of a benchmark's item: its passage.
    pub excerpt: Vec<Piece>,
    /// True for a document of the reference set.
    pub reference: bool,
}

/// A pair to look at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PairSample {
    /// The document with the lower id.
    pub a: DocumentSample,
    /// The other.
    pub b: DocumentSample,
    /// Hamming distance of the hashes, for methods that have one.
    pub distance: Option<u32>,
    /// Similarity in 0..=1; [`Method::similarity`] says which.
    pub similarity: f64,
    /// The kind of the pair: equal texts or not.
    pub kind: PairKind,
    /// In a comparison: what other methods say of the pair, where it is another similarity.
    pub others: Vec<OtherScore>,
}

/// The score that another method gives a pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherScore {
    /// The method.
    pub by: String,
    /// Its similarity of the pair.
    pub similarity: f64,
}

/// Time and amount of one stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Time on the clock.
    pub wall_seconds: f64,
    /// Processor time over all threads.
    pub cpu_seconds: f64,
    /// The number of items.
    pub items: u64,
    /// The unit of `items`, in the plural: `documents`, `pairs`.
    pub item_unit: String,
    /// Bytes it worked through, 0 where that has no meaning.
    pub bytes: u64,
}

/// The counted work of a search; [`crate::search::Cost`] with the size of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchCost {
    /// Places looked up.
    pub probes: u64,
    /// Stored sketches compared with a query.
    pub candidates: u64,
    /// Comparisons that ended within the threshold.
    pub verified: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Distinct hashes, or signatures, in it.
    pub distinct_hashes: u64,
}

/// Input that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CorruptionReport {
    /// Corrupt sections.
    pub total: u64,
    /// Documents that are lost by them, where that can be known; 0 in earlier reports.
    pub documents_lost: u64,
    /// Corrupt sections whose cost in documents is not known; 0 in earlier reports.
    pub unknown_losses: u64,
    /// The number of each kind, most first.
    pub by_kind: Vec<CorruptionCount>,
    /// The first of them.
    pub listed: Vec<CorruptRecord>,
}

/// Corrupt records of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorruptionCount {
    /// The kind in words.
    pub kind: String,
    /// Records of that kind.
    pub records: u64,
}

/// One corrupt record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CorruptRecord {
    /// The file.
    pub file: String,
    /// Position of the record in the file, counted from 0, where known.
    pub record: Option<u64>,
    /// Byte offset in the file as stored, where known.
    pub offset: Option<u64>,
    /// Documents that are lost by it, where that can be known.
    pub documents: Option<u64>,
    /// The kind in words.
    pub kind: String,
    /// The expectation, and the finding.
    pub detail: String,
}

/// A file of a folder of results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its name in the folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl WrittenFile {
    /// The files that a report lists; none where it lists none.
    pub(crate) fn listed_in(report: &Path) -> Option<Vec<Self>> {
        Self::listed(&fs::read(report).ok()?)
    }

    /// The files that a report lists, which was read already.
    pub(crate) fn listed(report: &[u8]) -> Option<Vec<Self>> {
        let report: serde_json::Value = serde_json::from_slice(report).ok()?;
        serde_json::from_value(report["written"].clone()).ok()
    }
}

/// The counts of one input file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRow {
    /// The file.
    pub path: String,
    /// Its size.
    pub stored_bytes: u64,
    /// Bytes of text in it.
    pub text_bytes: u64,
    /// [`TextSum`] of its documents, by which it can be known later whether it is still the
    /// same; none where its documents were not read whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<TextSum>,
    /// Records in it.
    pub records: u64,
    /// Documents in it.
    pub documents: u64,
    /// Documents of it that stay.
    pub kept: u64,
    /// The file of the folder that these are in, or the first of several; none where they were not written.
    pub kept_in: Option<String>,
    /// The last file that these are in, where they are in several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_to: Option<String>,
    /// Corrupt records in it.
    pub corrupt: u64,
    /// Records in it that hold a document in a form that is not read.
    pub unread: u64,
}

impl FileRow {
    /// True of a file that gave no document and does not exist now, so that nobody needs it.
    pub(crate) fn is_dispensable(&self) -> bool {
        self.documents == 0 && corpus::gone(Path::new(&self.path)).is_some()
    }

    /// True if a file that was read again has as many documents with the same texts, as far as the report and reading
    /// tell.
    pub fn is_same(&self, now: &FileReading) -> bool {
        let other_texts = self.texts.zip(now.texts).is_some_and(|(before, now)| before != now);
        (self.documents, self.text_bytes) == (now.documents, now.text_bytes) && !other_texts
    }

    /// The first file that was read again, each with the name that it has in `rows`, and is [not the
    /// same](Self::is_same). Files that no row names are passed over.
    pub fn changed<'a, N: AsRef<str>>(
        rows: &[Self],
        now: impl IntoIterator<Item = (N, &'a FileReading)>,
    ) -> Option<&'a FileReading> {
        let rows: HashMap<&str, &Self> = rows.iter().map(|row| (&row.path[..], row)).collect();
        let is_other =
            |(name, file): &(N, &FileReading)| rows.get(name.as_ref()).is_some_and(|row| !row.is_same(file));
        now.into_iter().find(is_other).map(|(_, file)| file)
    }
}

/// One method of a comparison with its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MethodResult {
    /// The name in the comparison; unique, so that a method can run twice with different parameters.
    pub label: String,
    /// The settings that decided the result: a run with these settings over the same pages has the same result.
    pub settings: Option<Settings>,
    /// The file of document frequencies that weights were made with; none if they were counted in the
    /// corpus, or none were needed.
    pub frequencies: Option<PathBuf>,
    /// The method, in words.
    pub method: Method,
    /// Pairs within the threshold.
    pub pairs: u64,
    /// Clusters of two or more documents.
    pub clusters: u64,
    /// Documents that stay.
    pub kept: u64,
    /// Time on the clock of the steps that only this method needs.
    pub wall_seconds: f64,
    /// Processor time of those steps.
    pub cpu_seconds: f64,
    /// Peak memory of those steps, where measured.
    pub peak_memory_bytes: Option<u64>,
    /// The counted work, and the size of the index.
    pub cost: SearchCost,
    /// Recall that the search itself measured, if it did.
    pub recall: Option<Recall>,
    /// Recall against an exact answer; none where there is none to compare with.
    pub exact: Option<ExactRecall>,
    /// Speed of the search for candidates.
    pub speed: Option<Speed>,
}

/// Recall of a method against an exact answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExactRecall {
    /// Pairs of the exact answer, or of a sample of it.
    pub pairs: u64,
    /// Of these, pairs that the method found.
    pub found: u64,
    /// The recall; none of too few pairs. Its interval has no width where all pairs are known.
    pub recall: Option<Estimated>,
    /// The exact answer, in words.
    pub of: String,
}

/// Speed of a search for candidates: the index is there, and nothing is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Speed {
    /// Distinct sketches that were searched for, those of all rounds.
    pub queries: u64,
    /// Number of searches for all of them.
    pub rounds: u64,
    /// Processor time that took.
    pub cpu_seconds: f64,
    /// Queries per second of processor time.
    pub queries_per_second: f64,
}

/// The pairs that exactly these methods found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Agreement {
    /// Labels of the methods that found the pairs.
    pub found_by: Vec<String>,
    /// The number of pairs.
    pub pairs: u64,
    /// Some of them.
    pub examples: Vec<PairSample>,
}

impl DocumentSample {
    /// The document as it is shown outside of a pair.
    pub fn new(id: impl Into<String>, url: impl Into<String>, text: &str) -> Self {
        Self { id: id.into(), url: url.into(), opening: opening(text, OPENING_CHARS), ..Self::default() }
    }
}

impl PairSample {
    /// The pair with its differences marked, of two documents and their texts.
    pub fn new(
        documents: [DocumentSample; 2],
        texts: [&str; 2],
        distance: Option<u32>,
        similarity: f64,
    ) -> Self {
        let ([mut a, mut b], [text_a, text_b]) = (documents, texts);
        (a.excerpt, b.excerpt) = differences(text_a, text_b);
        let kind = if text_a == text_b { PairKind::Exact } else { PairKind::Near };
        Self { a, b, distance, similarity, kind, others: Vec::new() }
    }
}

impl Report {
    /// The report of a folder of results, as the option `result` names one.
    ///
    /// # Errors
    /// If the folder has none, or it cannot be read.
    pub fn of_result(folder: &Path) -> Result<Self> {
        let path = folder.join("report.json");
        if !path.exists() {
            let expected = "a folder of results, with the report.json that dedup writes";
            return Err(Error::parameter("result", folder.display(), expected));
        }
        Self::read_json(&path)
    }

    /// The rows of all files that were read, new ones and those of the reference set.
    pub fn all_files(&self) -> Vec<FileRow> {
        let reference = self.against.iter().flat_map(|against| &against.files);
        self.files.iter().chain(reference).cloned().collect()
    }

    /// The fields that documents were read from, of which the report has that of texts, where `given` names no other.
    pub fn fields(&self, given: JsonlFields) -> JsonlFields {
        match &self.corpus.text_field {
            Some(text) if given.text == JsonlFields::default().text => {
                JsonlFields { text: text.clone(), ..given }
            }
            _ => given,
        }
    }

    /// The settings and the search of the run; none where the report lacks one of the two.
    pub fn searched(&self) -> Option<(&Settings, &Searched)> {
        self.settings.as_ref().zip(self.searched.as_ref())
    }

    /// True if a file of this name was written with it.
    pub fn wrote(&self, name: &str) -> bool {
        self.written.iter().any(|file| file.name == name)
    }

    /// Reads a `report.json`.
    ///
    /// # Errors
    /// If the file cannot be read, is no report of this program, or is one of another form.
    pub fn read_json(path: &Path) -> Result<Self> {
        let report: Self = read_json(path)?;
        let refused = |field, expected: String, got: String| {
            Err(wrong(path, field, expected, got, "run simflip dedup again"))
        };
        let this = Tool::this().name;
        if report.tool.name != this {
            let got = if report.tool.name.is_empty() { "none".to_string() } else { report.tool.name };
            return refused("the tool", this, got);
        }
        if report.schema != SCHEMA {
            return refused("the schema", SCHEMA.to_string(), report.schema.to_string());
        }
        Ok(report)
    }

    /// True if the pairs that the run lists are those of documents that it removed, and not all near pairs.
    pub fn lists_removals(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| {
            let has_leaders = settings.generator == Generator::Keys || settings.block_tables().is_some();
            has_leaders && !settings.all_pairs
        })
    }
}

/// Writes a `report.json` of any kind.
///
/// # Errors
/// If the file cannot be written.
pub fn write_json<T: Serialize>(report: &T, path: &Path) -> Result<()> {
    let mut out = BufWriter::new(File::create(path).map_err(|e| Error::io(path, e))?);
    serde_json::to_writer_pretty(&mut out, report).map_err(|e| Error::io(path, e.into()))?;
    out.write_all(b"\n").and_then(|()| out.flush()).map_err(|e| Error::io(path, e))
}

/// Reads a `report.json` of a kind, as [`Report::read_json`] reads and checks that of a run of `dedup`.
///
/// # Errors
/// If the file cannot be read, or is no such report.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).map_err(|e| Error::io(path, e))?;
    serde_json::from_slice(&bytes)
        .map_err(|e| wrong(path, "content", "a report in JSON", e.to_string(), "write the report anew"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;
    use proptest::prelude::*;

    #[test]
    fn json_round_trip() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("report.json");
        let empty = Report { schema: SCHEMA, tool: Tool::this(), ..Report::default() };
        for report in [fixtures::psm(), fixtures::minhash(), empty] {
            write_json(&report, &path).expect("writes");
            assert_eq!(Report::read_json(&path).expect("reads"), report);
        }
        let report = fixtures::compare();
        write_json(&report, &path).expect("writes");
        assert_eq!(read_json::<CompareReport>(&path).expect("reads"), report);
    }

    #[test]
    fn no_report_is_a_format_error_with_its_place() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("report.json");
        fs::write(&path, "{\"outcome\": 3}").expect("writes");
        let error = Report::read_json(&path).expect_err("3 is no outcome").to_string();
        assert!(error.contains("report.json") && error.contains("line 1"), "{error}");
        assert!(matches!(Report::read_json(&folder.path().join("none")), Err(Error::Io { .. })));
    }

    #[test]
    fn the_s_curve_starts_at_0_ends_at_1_and_rises() {
        let curve = SCurve::new(20, 5, 0.8);
        assert_eq!(curve.points[0], (0.0, 0.0));
        assert_eq!(curve.points[100], (1.0, 1.0));
        assert!(curve.points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        // 1 − (1 − .8⁵)²⁰, computed apart.
        assert!((curve.probability_at_threshold - 0.999_644).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn portions_sum_to_1(counts in prop::collection::vec(0u64..1_000_000_000, 0..80)) {
            let counts: Vec<(u32, u64)> = (0..).zip(counts).collect();
            let histogram = Histogram::new("band 0", "matching positions", &counts);
            let sum: f64 = histogram.rows.iter().map(|row| row.portion).sum();
            let expected = if histogram.total() == 0 { 0.0 } else { 1.0 };
            prop_assert!((sum - expected).abs() < 1e-9);
        }
    }
}
