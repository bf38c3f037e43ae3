//! The report as plain data: the content of `report.json`, from which the HTML page is drawn.
//!
//! Counts are `u64`, times are seconds as `f64`, sizes are bytes, shares and probabilities lie in 0..=1. Every
//! floating-point number must be finite, as JSON knows no other. Lists are in the order in which they are shown.
//! "Earlier reports" are those of earlier versions of simflip, which lack some fields. Documents of `--against` are
//! reference documents, and all others are new.

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

/// Characters of [`DocumentSample::opening`].
const OPENING_CHARS: usize = 200;

/// The version of the fields of reports. [`Report::read_json`] refuses any other.
pub const SCHEMA: u32 = 1;

/// The report of one run of `simflip dedup`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// The program that ran.
    pub tool: Tool,
    /// When the run began, RFC 3339.
    pub created: String,
    /// The command as typed, one argument each.
    pub command_line: Vec<String>,
    /// A hash of the settings, of the options of reading, and of the files as they were. By it, a later run of the same
    /// command recognises that its result is there already. None if the files were not found before the run, and for a
    /// result of `simflip rethreshold` with a higher threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The settings that decided the result: a run with these settings over the same documents has the same result.
    /// This version always sets them.
    pub settings: Option<Settings>,
    /// The file of document frequencies that features were weighed by; none if the run counted them, or needed none.
    pub frequencies: Option<PathBuf>,
    /// The boilerplate that was left out; none if the run was not to leave any out.
    pub boilerplate: Option<BoilerplateReport>,
    /// The input, without reference documents.
    pub corpus: Corpus,
    /// The reference set that the new documents were compared with, if there was one.
    pub against: Option<AgainstReport>,
    /// The numbers of kept and removed documents, pairs and clusters.
    pub outcome: Outcome,
    /// The method, in words.
    pub method: Method,
    /// The recall that a search by probes measured on a sample, to choose their number. None unless the settings ask
    /// for a share of the pairs.
    pub recall: Option<Recall>,
    /// The probability that band hashes compare a pair. None without bands of MinHash values, and for band hashes if
    /// pairs are verified by another measure than a Jaccard similarity.
    pub s_curve: Option<SCurve>,
    /// The scores of the pairs that each table or band generated, or those of all pairs together.
    pub histograms: Vec<Histogram>,
    /// The number of clusters of each size, sizes ascending.
    pub cluster_sizes: Vec<ClusterSizes>,
    /// The largest clusters, largest first, at most 10.
    pub largest_clusters: Vec<ClusterSample>,
    /// At most 24 sampled pairs, for a person to look at.
    pub sample_pairs: Vec<PairSample>,
    /// The stages of the run, in order, with their times.
    pub stages: Vec<Stage>,
    /// The largest resident memory of the process, in bytes; none if the system does not tell.
    pub peak_memory_bytes: Option<u64>,
    /// The memory that was expected, and the disk that was used; none if nobody estimated them, and in earlier reports.
    pub memory: Option<MemoryReport>,
    /// The counted work of the search.
    pub search_cost: SearchCost,
    /// The search for candidates and its counts, as the core gives them. This version always sets them.
    pub searched: Option<Searched>,
    /// The counts of verification; none if nothing was verified.
    pub verified: Option<Verified>,
    /// The recall that the run estimated by comparing a sample of its documents with all. None where settings do not
    /// allow that, such as those without the bits that estimate a Jaccard similarity, and without a document to sample.
    pub recall_estimate: Option<RecallEstimate>,
    /// The share of the features of the removed near-duplicates that the documents kept for them lack, 0 to 1. It
    /// follows from the similarity and the sizes of each two. None without such a document, and if pairs are verified
    /// by another measure than a Jaccard similarity or containment.
    pub missing: Option<f64>,
    /// The corrupt sections of the input, those of reference files among them, which were skipped.
    pub corruption: CorruptionReport,
    /// The warnings, a sentence each.
    pub warnings: Vec<String>,
    /// One row per new input file.
    pub files: Vec<FileRow>,
    /// The documents that sources lose, by kind: folders, files, hosts, values of a field. Empty in earlier reports.
    pub lost_by_source: Vec<Sources>,
    /// Entries of folders among the inputs that were not read; empty in earlier reports.
    pub not_read: Vec<NotRead>,
    /// The files of the result except `report.json` and the pages; empty in earlier reports.
    pub written: Vec<WrittenFile>,
}

/// The memory and disk that a run was expected to take, by the sizes of its files and their first documents, and the
/// disk that it took. The memory that it took is [`Report::peak_memory_bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryReport {
    /// Bytes of memory that the run was not to exceed.
    pub limit_bytes: u64,
    /// Documents that were expected.
    pub expected_documents: u64,
    /// Bytes that a run in memory was expected to hold for the documents, also if the run went on disk.
    pub expected_bytes: u64,
    /// Bytes of memory that near pairs took besides, whose number is not known before documents are compared. None for
    /// a run on disk, which holds pairs there, and in earlier reports.
    pub pair_bytes: Option<u64>,
    /// True if the run went in stages on disk.
    pub on_disk: bool,
    /// Bytes that its working folder was expected to take; none for a run in memory.
    pub expected_disk_bytes: Option<u64>,
    /// The most bytes that its working folder was seen to take; none for a run in memory.
    pub disk_bytes: Option<u64>,
}

/// The boilerplate that was left out of documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoilerplateReport {
    /// The kind of groups whose lines were counted together.
    pub by: GroupBy,
    /// The file of boilerplate that was given; none if it was counted in the corpus.
    pub from: Option<PathBuf>,
    /// The share of boilerplate in the documents of all groups that have three different contents or more. Other groups
    /// have no boilerplate.
    pub all: BoilerplateShare,
    /// Number of these groups.
    pub groups: u64,
    /// The groups with the most bytes of boilerplate, most first, at most 50.
    pub most: Vec<GroupBoilerplate>,
    /// The share of other lines that were taken for boilerplate because the table of counts is full; 0 as long as
    /// each line was counted for itself.
    pub mistaken: f64,
}

impl BoilerplateReport {
    /// Groups that are listed.
    const LISTED: usize = 50;

    /// The report on boilerplate before any group is added.
    pub(crate) fn of(boilerplate: &Boilerplate) -> Self {
        Self { by: boilerplate.by.clone(), mistaken: boilerplate.mistaken(), ..Self::default() }
    }

    /// Adds a group, with the share of boilerplate in its documents.
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

    /// The report once all groups are added: with the groups in order, and those cut that are not listed.
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
    /// The host, file, folder or value of a field; empty if all documents are one group.
    pub group: String,
    /// The share in its documents.
    #[serde(flatten)]
    pub share: BoilerplateShare,
}

/// The reference set that new documents were compared with. Elsewhere, a report counts its documents among pairs, in
/// clusters and in boilerplate, and its corrupt sections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgainstReport {
    /// The inputs that were named for it, in the order in which they were named.
    pub named: Vec<PathBuf>,
    /// Reference documents.
    pub documents: u64,
    /// New documents that are removed for a reference document, and whose very text a reference document has.
    pub exact: u64,
    /// Other new documents that are removed for a reference document.
    pub near: u64,
    /// Clusters with a reference document.
    pub clusters: u64,
    /// Reference documents in these clusters.
    pub documents_in_clusters: u64,
    /// Files that were named as both new and reference files; they are reference files.
    pub both: u64,
    /// One row per reference file.
    pub files: Vec<FileRow>,
}

/// The documents that the sources of one kind lose. A source loses those of its new documents that are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sources {
    /// The kind: `folder`, `file`, `host`, or `field:` and the name of a field whose values group documents.
    pub kind: String,
    /// Number of sources.
    pub number: u64,
    /// New documents that have a source of the kind.
    pub documents: u64,
    /// The number of sources that have [`Sources::LEAST`] documents or more and lose [`Sources::NEARLY_ALL`] of them or
    /// more.
    pub nearly_removed: u64,
    /// The sources that lose the most documents, most first, at most [`Sources::LISTED`].
    pub most: Vec<SourceRow>,
    /// The sources that `nearly_removed` counts, those with the most documents first, at most [`Sources::LISTED`].
    pub removed: Vec<SourceRow>,
    /// Of the sources with [`Sources::LEAST`] documents or more, the one that loses the largest share, which
    /// `--max-removed` limits. None if there are no such sources.
    #[serde(default)]
    pub worst: Option<SourceRow>,
}

/// The numbers of new documents and of kept documents of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceRow {
    /// The host, the path of the file or folder, or the value of the field.
    pub source: String,
    /// Number of its new documents.
    pub documents: u64,
    /// Number of kept documents among them.
    pub kept: u64,
}

impl SourceRow {
    /// Adds a document to the counts.
    pub fn count(&mut self, is_kept: bool) {
        self.documents += 1;
        self.kept += u64::from(is_kept);
    }

    /// Number of its documents that are removed.
    pub fn lost(&self) -> u64 {
        self.documents.saturating_sub(self.kept)
    }

    /// The share of its documents that are removed, 0 to 1.
    pub fn share_lost(&self) -> f64 {
        self.lost() as f64 / self.documents.max(1) as f64
    }

    fn is_nearly_all_removed(&self) -> bool {
        self.documents >= Sources::LEAST && self.lost() as f64 >= Sources::NEARLY_ALL * self.documents as f64
    }
}

impl Sources {
    /// Most sources that a list has.
    pub const LISTED: usize = 50;
    /// The share of a source's documents, 0 to 1, that counts as nearly all.
    pub const NEARLY_ALL: f64 = 0.95;
    /// The fewest documents of a source whose share counts.
    pub const LEAST: u64 = 20;

    /// The sources of a kind from a row for each.
    pub fn new(kind: &str, rows: Vec<SourceRow>) -> Self {
        let mut all = Self::of(kind);
        rows.into_iter().for_each(|row| all.add(row));
        all.settled()
    }

    /// The sources of a kind before any is added.
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

    /// The sources once all are added: with the lists in order, and cut to [`Sources::LISTED`].
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.cut();
        self
    }

    /// Sorts the lists, and cuts them to [`Sources::LISTED`].
    fn cut(&mut self) {
        self.removed.sort_by(|a, b| b.documents.cmp(&a.documents).then_with(|| a.source.cmp(&b.source)));
        self.removed.truncate(Self::LISTED);
        self.most.sort_by(|a, b| b.lost().cmp(&a.lost()).then_with(|| a.source.cmp(&b.source)));
        self.most.truncate(Self::LISTED);
    }
}

/// The report of one run of `simflip compare`: several methods on one input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompareReport {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// The program that ran.
    pub tool: Tool,
    /// When the run began, RFC 3339.
    pub created: String,
    /// The command as typed, one argument each.
    pub command_line: Vec<String>,
    /// The input of all methods.
    pub corpus: Corpus,
    /// Each method with its result.
    pub methods: Vec<MethodResult>,
    /// One entry for each set of methods, with the pairs that exactly these methods found; some have none.
    pub agreement: Vec<Agreement>,
    /// The stages that several methods share, such as reading, with their times.
    pub shared_stages: Vec<Stage>,
    /// The largest resident memory of the process, in bytes; none if the system does not tell.
    pub peak_memory_bytes: Option<u64>,
    /// The corrupt sections of the input, which were skipped.
    pub corruption: CorruptionReport,
    /// The warnings, a sentence each.
    pub warnings: Vec<String>,
}

/// The program that wrote a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name, `simflip`.
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

/// The input of a run in numbers, without the reference set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Corpus {
    /// Input files.
    pub files: u64,
    /// Bytes of the files as stored, usually compressed.
    pub stored_bytes: u64,
    /// Bytes of the documents' text, UTF-8, boilerplate included.
    pub text_bytes: u64,
    /// Records of any kind, documents or not, corrupt ones included.
    pub records: u64,
    /// Records that are documents with text.
    pub documents: u64,
    /// Documents among them whose text was extracted from HTML or plain text that a server sent (WARC responses).
    pub extracted: u64,
    /// The extractor and its version; none if nothing was extracted.
    pub extractor: Option<String>,
    /// The field or column of the text; none if it has the usual name.
    pub text_field: Option<String>,
    /// Documents with too few features for a sketch, which are compared by their exact text alone. In a comparison,
    /// they are those of the method that ran last.
    pub documents_with_few_features: u64,
    /// The 20 commonest languages, most documents first.
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
    /// Removed documents whose text, byte for byte, another document has. If no document with the text is kept, or is a
    /// reference document, one of them counts as a near-duplicate.
    pub exact_duplicates: u64,
    /// All other removed documents.
    pub near_duplicates: u64,
    /// New documents that are kept.
    pub kept: u64,
    /// New documents that are removed.
    pub removed: u64,
    /// Bytes of text of the removed documents.
    pub removed_text_bytes: u64,
    /// Pairs of equal or near texts that the run found, listed or not.
    pub pairs_found: u64,
    /// Pairs that are listed: rows of `pairs.csv`, if that is written.
    pub pairs_written: u64,
    /// Number of clusters of two or more documents.
    pub clusters: u64,
    /// Documents in them, those of the reference set among them.
    pub documents_in_clusters: u64,
}

/// The method by which duplicates were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Method {
    /// `both`, `simhash` or `minhash`.
    pub name: String,
    /// The meaning of `similarity` in pairs, such as "Jaccard similarity of 5-word shingles".
    pub similarity: String,
    /// Every parameter, and some figures of the search, in the order in which they are shown.
    pub parameters: Vec<Parameter>,
    /// The seed of everything random.
    pub seed: u64,
    /// Name of the feature hash.
    pub hash: String,
}

/// A parameter of a method, or a figure of its search, and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name in words, such as `min features` or `verified candidates`.
    pub name: String,
    /// Its value, with its unit if it has one.
    pub value: String,
}

/// The recall of a search by probes, measured on a sample: the share of near pairs that it finds. If the sample has too
/// few pairs, all probes are made, and `reached`, `low` and `high` are 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recall {
    /// The recall that was asked for.
    pub wanted: f64,
    /// The recall that was measured.
    pub reached: f64,
    /// Lower end of the confidence interval.
    pub low: f64,
    /// Upper end of the confidence interval.
    pub high: f64,
    /// Probability that the interval holds the true recall, such as 0.95.
    pub confidence: f64,
    /// The pairs that count as 100 %, in words.
    pub denominator: String,
    /// Probes that a query makes.
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
    /// MinHash values per band r.
    pub rows: u32,
    /// The least Jaccard similarity of near-duplicates.
    pub threshold: f64,
    /// The probability of a pair whose similarity is the threshold.
    pub probability_at_threshold: f64,
    /// The curve as pairs of similarity and probability, similarity ascending from 0 to 1.
    pub points: Vec<(f64, f64)>,
}

impl SCurve {
    /// The curve of `bands` bands of `rows` positions at 101 points. `threshold` is the least similarity of near pairs.
    pub fn new(bands: u32, rows: u32, threshold: f64) -> Self {
        let banding = Banding { bands: bands as usize, rows: rows as usize };
        let probability_at_threshold = banding.probability(threshold);
        Self { bands, rows, threshold, probability_at_threshold, points: banding.curve(101) }
    }
}

/// The pairs that one table or band generated, or all pairs, by score. A score is a whole number that grows with
/// similarity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The table or band: `table 0`, `band 0`; or `all pairs`.
    pub title: String,
    /// The unit of scores: `64 − distance`, `matching positions`, or a similarity in percent.
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
    /// The histogram of `counts`: each a score and its number of pairs, scores ascending.
    pub fn new(title: impl Into<String>, unit: impl Into<String>, counts: &[(u32, u64)]) -> Self {
        let total = counts.iter().fold(0u64, |sum, &(_, number)| sum.saturating_add(number));
        let portion = |number: u64| if total == 0 { 0.0 } else { number as f64 / total as f64 };
        let rows = counts
            .iter()
            .map(|&(score, number)| HistogramRow { score, number, portion: portion(number) })
            .collect();
        Self { title: title.into(), unit: unit.into(), rows }
    }

    /// Number of pairs of all scores.
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

/// A cluster as a report shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSample {
    /// Its number, as `clusters.csv` has it.
    pub cluster: String,
    /// Documents in it.
    pub size: u64,
    /// The kept document.
    pub kept: DocumentSample,
    /// At most four of the others.
    pub members: Vec<DocumentSample>,
    /// Lowest similarity of all others with the kept document, if it is known. With band hashes and verification
    /// by containment, only the removed ones count.
    pub lowest_similarity: Option<f64>,
    /// Median similarity of these documents with the kept one, if it is known.
    pub median_similarity: Option<f64>,
}

/// A document as a report shows it: id, URL, and excerpts of its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentSample {
    /// Its id in results.
    pub id: String,
    /// Its URL, or an empty string.
    pub url: String,
    /// The first words of its text, see [`opening`].
    pub opening: String,
    /// For a document of a pair, the places where it differs from the other, see [`differences`]. For one with an item
    /// of a benchmark, the passage of the item. Otherwise empty.
    pub excerpt: Vec<Piece>,
    /// True for a document of the reference set.
    pub reference: bool,
}

/// A pair as a report shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PairSample {
    /// The document that comes first in the input.
    pub a: DocumentSample,
    /// The other document.
    pub b: DocumentSample,
    /// Hamming distance of the SimHashes in bits; none for methods without SimHash. In a comparison, also none if no
    /// method that found the pair searches by distance.
    pub distance: Option<u32>,
    /// Similarity in 0..=1, 1 for equal texts; [`Method::similarity`] says which. In a comparison, it is that of the
    /// first method that found the pair, and methods that search by distance come first.
    pub similarity: f64,
    /// The kind of the pair: equal texts or not.
    pub kind: PairKind,
    /// In a comparison, the similarities of other methods that found the pair, if they differ. Otherwise empty.
    pub others: Vec<OtherScore>,
}

/// The similarity that another method gives a pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherScore {
    /// The label of the method.
    pub by: String,
    /// The similarity of the pair by that method's measure, 0 to 1.
    pub similarity: f64,
}

/// The time of one stage of a run, and the amount that it worked through. A stage is any step that is timed by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stage {
    /// Its name, such as `read` or `join`.
    pub name: String,
    /// Seconds on the clock.
    pub wall_seconds: f64,
    /// Seconds of processor time over all threads; 0 if the system does not tell.
    pub cpu_seconds: f64,
    /// The number of items that it worked through.
    pub items: u64,
    /// The unit of `items`, in the plural: `documents`, `pairs`.
    pub item_unit: String,
    /// The number of bytes that it worked through; 0 if that has no meaning.
    pub bytes: u64,
}

/// The counted work of a search; [`crate::search::Cost`] with the size of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchCost {
    /// Places that were looked up: buckets, ranges of tables, or flipped hashes. In a join, groups or buckets whose
    /// members were compared.
    pub probes: u64,
    /// Comparisons of a stored sketch with a query. In a join, compared pairs.
    pub candidates: u64,
    /// Comparisons whose distance or similarity was within the search's limit. With band hashes, all comparisons.
    pub verified: u64,
    /// Bytes of the index. Without one, those of the hashes, signatures or sketches that were compared.
    pub index_bytes: u64,
    /// Distinct hashes or signatures that were searched; with band hashes, distinct texts.
    pub distinct_hashes: u64,
}

/// The corrupt sections of an input: those that could not be read and were skipped, also when kept documents were
/// copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CorruptionReport {
    /// Number of corrupt sections.
    pub total: u64,
    /// Documents that are lost by sections of which that number is known; 0 in earlier reports.
    pub documents_lost: u64,
    /// Corrupt sections of which the number of lost documents is not known; 0 in earlier reports.
    pub unknown_losses: u64,
    /// The number of sections of each kind, most first. Sections beyond the first 1,000 of a file are a kind of their
    /// own.
    pub by_kind: Vec<CorruptionCount>,
    /// The first 200 sections, those that showed when kept documents were copied before all others.
    pub listed: Vec<CorruptRecord>,
}

/// The number of corrupt sections of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorruptionCount {
    /// The kind in words.
    pub kind: String,
    /// Number of sections of that kind.
    pub records: u64,
}

/// One corrupt section: a record, or a stretch of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CorruptRecord {
    /// The path of the file.
    pub file: String,
    /// Position of the record in the file, counted from 0; none if the section is not a record.
    pub record: Option<u64>,
    /// Byte offset in the file as stored, if it is known: of the place, or of the compressed member or group of rows
    /// that it is in.
    pub offset: Option<u64>,
    /// Documents that are lost by it; none if that is not known.
    pub documents: Option<u64>,
    /// The kind in words.
    pub kind: String,
    /// The finding, in words.
    pub detail: String,
}

/// A file of a folder of results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its name in the folder.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

impl WrittenFile {
    /// The files that the `report.json` at this path lists; none if it cannot be read, or has no such list.
    pub(crate) fn listed_in(report: &Path) -> Option<Vec<Self>> {
        Self::listed(&fs::read(report).ok()?)
    }

    /// The files that a `report.json` with this content lists; none if it has no such list.
    pub(crate) fn listed(report: &[u8]) -> Option<Vec<Self>> {
        let report: serde_json::Value = serde_json::from_slice(report).ok()?;
        serde_json::from_value(report["written"].clone()).ok()
    }
}

/// The counts of one input file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRow {
    /// The path of the file, as it was found.
    pub path: String,
    /// Bytes of the file that were read.
    pub stored_bytes: u64,
    /// Bytes of the texts of its documents, in UTF-8.
    pub text_bytes: u64,
    /// A sum over its texts that shows later whether they are still the same. This version always sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<TextSum>,
    /// Number of its records of any kind.
    pub records: u64,
    /// Number of its documents.
    pub documents: u64,
    /// Number of its documents that are kept; all for a reference file.
    pub kept: u64,
    /// The file of the result that its kept documents are in, or the first of several; none if they were not written.
    pub kept_in: Option<String>,
    /// The last file that its kept documents are in; none if they are in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_to: Option<String>,
    /// Number of its corrupt sections.
    pub corrupt: u64,
    /// Number of its WARC records that hold an answer of a server in a form that is not read, such as an image.
    pub unread: u64,
}

impl FileRow {
    /// True if the file gave no document and does not exist now, so that nothing is missed without it.
    pub(crate) fn is_dispensable(&self) -> bool {
        self.documents == 0 && corpus::gone(Path::new(&self.path)).is_some()
    }

    /// True if the file, read again with the result `now`, has as many documents with the same texts, as far as the
    /// report and the reading tell.
    pub fn is_same(&self, now: &FileReading) -> bool {
        let other_texts = self.texts.zip(now.texts).is_some_and(|(before, now)| before != now);
        (self.documents, self.text_bytes) == (now.documents, now.text_bytes) && !other_texts
    }

    /// The first of the files that were read again that is [not the same](Self::is_same); none if all are. Each comes
    /// with the name that it has in `rows`; files that no row names are passed over.
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
    /// The name of the method in the comparison; unique, so that one sketch can run with different parameters.
    pub label: String,
    /// The settings that decided the result, as [`Report::settings`].
    pub settings: Option<Settings>,
    /// The file of document frequencies, as [`Report::frequencies`].
    pub frequencies: Option<PathBuf>,
    /// The method, in words.
    pub method: Method,
    /// Pairs of different texts that it found.
    pub pairs: u64,
    /// Number of clusters of two or more documents.
    pub clusters: u64,
    /// Documents that it would keep.
    pub kept: u64,
    /// Seconds on the clock of the steps that only this method needs.
    pub wall_seconds: f64,
    /// Seconds of processor time of those steps.
    pub cpu_seconds: f64,
    /// The counted work, and the size of the index.
    pub cost: SearchCost,
    /// The recall that its search by probes measured; none as for [`Report::recall`].
    pub recall: Option<Recall>,
    /// The recall against an exact answer; none if there is no such answer.
    pub exact: Option<ExactRecall>,
    /// The speed of the search for candidates; none if it took no measurable time.
    pub speed: Option<Speed>,
}

/// The recall of a method against an exact answer: all pairs that it should have found, or those of a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExactRecall {
    /// Pairs of the exact answer, or of a sample of it.
    pub pairs: u64,
    /// Of these, pairs that the method found.
    pub found: u64,
    /// The recall; none if there are too few pairs. Its interval has no width if all pairs are known.
    pub recall: Option<Estimated>,
    /// The exact answer, in words.
    pub of: String,
}

/// The speed of a search for candidates, without the time for building the index and for verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Speed {
    /// Distinct sketches that were searched for, summed over all rounds.
    pub queries: u64,
    /// Number of rounds: short searches are repeated to be timed.
    pub rounds: u64,
    /// Seconds of processor time of the searches of all rounds.
    pub cpu_seconds: f64,
    /// Queries per second of processor time.
    pub queries_per_second: f64,
}

/// The pairs of different texts that one set of methods found, all of them and no other method.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Agreement {
    /// The labels of these methods.
    pub found_by: Vec<String>,
    /// The number of pairs.
    pub pairs: u64,
    /// At most six of the pairs.
    pub examples: Vec<PairSample>,
}

impl DocumentSample {
    /// A document with the first words of `text`, without an excerpt.
    pub fn new(id: impl Into<String>, url: impl Into<String>, text: &str) -> Self {
        Self { id: id.into(), url: url.into(), opening: opening(text, OPENING_CHARS), ..Self::default() }
    }
}

impl PairSample {
    /// A pair of two documents, with excerpts of their `texts` in which the differences are marked.
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
    /// The report of a folder of results. Errors name the option `result`.
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

    /// `given`, with the text field of the report if `given` has the usual one. The report has no other field.
    pub fn fields(&self, given: JsonlFields) -> JsonlFields {
        match &self.corpus.text_field {
            Some(text) if given.text == JsonlFields::default().text => {
                JsonlFields { text: text.clone(), ..given }
            }
            _ => given,
        }
    }

    /// The settings and the search of the run; none if the report lacks one of the two.
    pub fn searched(&self) -> Option<(&Settings, &Searched)> {
        self.settings.as_ref().zip(self.searched.as_ref())
    }

    /// True if the result has a file of this name besides report and pages.
    pub fn wrote(&self, name: &str) -> bool {
        self.written.iter().any(|file| file.name == name)
    }

    /// Reads the `report.json` of a run of `dedup`.
    ///
    /// # Errors
    /// If the file cannot be read, is no report of this program, or has another [`SCHEMA`].
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

    /// True if the pairs that the run lists are those by which it removed documents, and not all near pairs. An
    /// evaluation then gives no recall of pairs.
    pub fn lists_removals(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| {
            let has_leaders = settings.generator == Generator::Keys || settings.block_tables().is_some();
            has_leaders && !settings.all_pairs
        })
    }
}

/// Writes a report of any kind as JSON to `path`.
///
/// # Errors
/// If the file cannot be written.
pub fn write_json<T: Serialize>(report: &T, path: &Path) -> Result<()> {
    let mut out = BufWriter::new(File::create(path).map_err(|e| Error::io(path, e))?);
    serde_json::to_writer_pretty(&mut out, report).map_err(|e| Error::io(path, e.into()))?;
    out.write_all(b"\n").and_then(|()| out.flush()).map_err(|e| Error::io(path, e))
}

/// Reads a report of any kind from JSON. [`Report::read_json`] also checks that it is one of a run of `dedup`.
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
