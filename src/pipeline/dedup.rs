//! Runs one method in memory, from files to a folder of results. [`Findings`] gathers what a run has found for the
//! report, also for runs on disk. A *shard* is an input file by its place in the list of files.

use super::documents::ReadDocuments;
use super::finished::fingerprint;
use super::listing::{HeldListing, write_tables};
use super::output::{self, OutputFolder};
use super::samples::{Shown, ShownDocument, sample_pairs};
use super::sources::{Scores, SourceNumbers, lost_by_file, lost_by_origin};
use super::stages::{Progress, Stages};
use super::upload::Upload;
use super::{Against, Job, Summary, read_files, save_frequencies};
use crate::corpus::{self, EachKept, Input, JsonlFields, KeptDocuments, KeptJob, Languages};
use crate::display::{counted, printable};
use crate::document::DocumentTable;
use crate::error::{Error, Result};
use crate::kernel::memory::give_back;
use crate::report::model::{
    AgainstReport, BoilerplateReport, ClusterSample, ClusterSizes, Corpus, FileRow, MemoryReport,
    Outcome as Counts, PairSample, Report, SCHEMA, SourceRow, Sources, Tool, write_json,
};
use crate::report::{html, messages};
use crate::resources::peak_memory_bytes;
use hashbrown::HashSet;
use rayon::prelude::*;
use simflip_core::collection::Collection;
use simflip_core::dedup::{
    Cohesion, Context, Lost, Outcome, PAIR_BYTES, Pair, PairKind, Prepared, Searched, Verified,
};
use simflip_core::id::{Cluster, Document, Id};
use simflip_core::recall_estimate::RecallEstimate;
use simflip_core::settings::Measure;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Pairs that a report samples; then the largest clusters that it shows, and the removed documents of each.
pub(crate) const SHOWN_PAIRS: usize = 24;
const SHOWN_CLUSTERS: usize = 10;
const SHOWN_MEMBERS: usize = 4;

/// Finds the near-duplicates of a corpus in memory, and writes a report and the outputs that the job asks for into a
/// new folder. `progress` hears of each stage.
///
/// # Errors
/// If no document could be read, if a setting has no meaning, if more would be removed than the job allows, or if the
/// results cannot be written. Then there is no folder. If the upload fails, the folder stays.
pub fn dedup(job: &Job, progress: &dyn Progress) -> Result<Summary> {
    dedup_files(job, None, None, progress)
}

/// Runs [`dedup`] with `files` if the job's files were found before, and in `folder` if the folder of results is begun.
pub(crate) fn dedup_files(
    job: &Job,
    files: Option<Against>,
    folder: Option<OutputFolder>,
    progress: &dyn Progress,
) -> Result<Summary> {
    let folder = folder.map_or_else(|| OutputFolder::begin(&job.out, job.force), Ok)?;
    let upload = Upload::of(job)?;
    // This comes before reading: a file that changes from here on makes another result.
    let fingerprint = files.as_ref().and_then(|files| fingerprint(job, files).ok());
    let summary = job.with_threads(|| {
        let stages = Stages::new(progress);
        let (read, frequencies, _) = read_files(job, &job.settings, None, files, &stages)?;
        // The lists that threads filled have left free memory as they grew, which goes back to the system.
        give_back();
        let url = |document| read.url(document);
        let scores = Scores::new(job, &read)?;
        let score = |document| scores.of(&read, document);
        let sources = SourceNumbers::new(&job.settings, &read);
        let source = |document| sources.of(document);
        let context =
            Context::new(&url, &stages).scored(&score).from_sources(&source).against(read.new_documents());
        let outcome = {
            // The memory of the search is free again before anything is written.
            let prepared = Prepared::new(&read.collection, &job.settings, frequencies, &stages);
            save_frequencies(job, &read, prepared.frequencies(), &stages)?;
            prepared.find(&job.settings, &context)?.outcome()?
        };
        let mut findings = write(job, &read, &outcome, &folder, &stages)?;
        findings.files.fingerprint = fingerprint;
        findings.write_report(job, &read.inputs, Shown::of(&read, findings.shown()), &folder, &stages)
    })??;
    folder.finish()?;
    upload.map_or(Ok(()), |upload| upload.put(&job.out, progress))?;
    Ok(summary)
}

/// Writes the tables and the kept documents at the same time, as these wait for the disk. Gives the findings.
fn write(
    job: &Job,
    read: &ReadDocuments,
    outcome: &Outcome,
    folder: &OutputFolder,
    stages: &Stages<'_>,
) -> Result<Findings> {
    let mut is_kept = outcome.kept_mask();
    // Reference documents are neither kept nor removed.
    is_kept.truncate(outcome.new);
    let mut kept_of_files = vec![0; read.new_files];
    let [mut kept_bytes, mut removed_text_bytes] = [0, 0];
    for (document, &is_kept) in Document::all(is_kept.len()).zip(&is_kept) {
        let bytes = if is_kept { &mut kept_bytes } else { &mut removed_text_bytes };
        *bytes += read.collection.facts(document).text_bytes;
        kept_of_files[read.shard_of(document)] += u64::from(is_kept);
    }
    let write_kept = || {
        if !job.writes.kept {
            return Ok(corpus::Kept::default());
        }
        let is_same = |id, text: &str| read.is_same(id, text);
        let (files, inputs, options) = (job.kept_files, &read.inputs[..read.new_files], &job.read_options());
        let kept = &HeldKept { documents: &read.documents, is_kept: &is_kept };
        KeptJob { files, inputs, options, kept, is_same: &is_same }.write(folder.path())
    };
    let write_tables = || {
        let listing = HeldListing { read, outcome, assignments: OnceCell::new() };
        (write_tables(job, &listing, folder.path()), lost_by_origin(read, &is_kept))
    };
    let bytes = if job.writes.kept { kept_bytes.max(1) } else { 0 };
    let (kept_in, (tables, origins)) =
        stages.run("write results", kept_of_files.iter().sum(), "documents", bytes, |_| {
            rayon::join(write_kept, write_tables)
        });
    tables?;
    let files = FileFindings::new(&read.inputs, read.files.clone(), &kept_of_files, origins, kept_in?);
    files.report_lost(stages.progress());
    let files = files.against(job, read.both, || against(&read.collection, outcome));
    let near = outcome.pairs.iter().filter(|pair| pair.kind == PairKind::Near).count() as u64;
    let files = FileFindings {
        languages: read.languages.clone(),
        not_read: read.not_read.clone(),
        repeated: read.repeated_ids.iter().filter(|&&document| !read.is_reference(document)).count() as u64,
        boilerplate: read
            .left_out
            .clone()
            .map(|left_out| BoilerplateReport { from: job.ignored.file().cloned(), ..left_out }),
        scores: Scores::new(job, read)?.warning(&job.settings.keep, read.new_documents()),
        memory: job
            .expected
            .as_ref()
            .map(|memory| MemoryReport { pair_bytes: Some(PAIR_BYTES * near), ..memory.clone() }),
        ..files
    };
    Ok(Findings { files, ..Findings::of(outcome, removed_text_bytes, job.settings.seed) })
}

/// The kept documents of a run in memory. Those of a file are listed when they are asked for.
struct HeldKept<'a> {
    documents: &'a DocumentTable,
    /// True of each new document that is kept.
    is_kept: &'a [bool],
}

impl HeldKept<'_> {
    /// The kept documents of a file.
    fn of(&self, shard: u32) -> impl Iterator<Item = Document> {
        let [from, to] = [shard, shard + 1].map(|shard| self.documents.before(shard));
        (from..to).filter(move |&at| self.is_kept[at]).map(Document::at)
    }
}

impl KeptDocuments for HeldKept<'_> {
    fn each_of(&self, shard: u32) -> Result<EachKept<'_>> {
        let kept = move |document| Ok((self.documents.id(document), self.documents.place(document)));
        Ok(Box::new(self.of(shard).map(kept)))
    }

    fn number(&self, shard: u32) -> Result<u64> {
        Ok(self.of(shard).count() as u64)
    }
}

/// All that a run has found out for its report, and for the summary.
pub(crate) struct Findings {
    /// The findings that come from files.
    pub files: FileFindings,
    /// The number of all documents, then that of new ones.
    pub documents: [u64; 2],
    /// New documents with too few features for a sketch.
    pub few: u64,
    /// The numbers of kept and removed documents, pairs and clusters.
    pub counts: Counts,
    /// The sizes of clusters, and the largest ones.
    pub clusters: ClusterFindings,
    /// Sampled pairs that the report shows.
    pub sample: Vec<Pair>,
    /// The search for candidates, and its cost.
    pub searched: Searched,
    /// The counts of verification; none where nothing was verified.
    pub verified: Option<Verified>,
    /// The recall that the run estimated on a sample of its documents; none where it estimates none.
    pub recall_estimate: Option<RecallEstimate>,
}

/// The findings that come from reading and writing files; of texts in memory, most are empty.
#[derive(Default)]
pub(crate) struct FileFindings {
    /// The outcome of reading each file, new files first.
    pub read: Vec<corpus::FileReading>,
    /// Number of files that are new.
    pub new_files: usize,
    /// Number of new documents by language.
    pub languages: Languages,
    /// Entries of folders that were not read.
    pub not_read: corpus::PassedOver,
    /// New documents whose record id an earlier document has already.
    pub repeated: u64,
    /// The documents that each source loses: folders, files, hosts, and values of a field.
    pub lost_by_source: Vec<Sources>,
    /// The counts of each new file.
    pub rows: Vec<FileRow>,
    /// Kept documents that could not be copied, because their input was gone, changed or corrupt by then.
    pub lost: Vec<corpus::Corruption>,
    /// The boilerplate that was left out, if some was.
    pub boilerplate: Option<BoilerplateReport>,
    /// The reference set and its effect on new documents; none without one.
    pub against: Option<AgainstReport>,
    /// A warning of documents without a score, if there are such.
    pub scores: Option<String>,
    /// The memory that was expected, and the disk that was used; none if nobody estimated them.
    pub memory: Option<MemoryReport>,
    /// The [`fingerprint`] of the job, if its files were found before the run.
    pub fingerprint: Option<String>,
}

impl FileFindings {
    /// The findings of files. `inputs` and `read` have new files and then reference files, and `kept` has the number of
    /// kept documents of each new file. `others` are the losses of sources other than files and folders, and `written`
    /// is what writing the kept documents came to.
    pub fn new(
        inputs: &[Input],
        read: Vec<corpus::FileReading>,
        kept: &[u64],
        others: impl IntoIterator<Item = Sources>,
        written: corpus::Kept,
    ) -> Self {
        let corpus::Kept { lost, files } = written;
        let mut rows: Vec<FileRow> =
            read.iter().zip(kept).map(|(file, &kept)| file_row(file, kept)).collect();
        rows_kept_in(&mut rows, &files);
        let new = inputs.iter().zip(&rows).map(|(input, row)| (&*input.path, row.documents, row.kept));
        let lost_by_source = lost_by_file(new).into_iter().chain(others).collect();
        Self { read, new_files: kept.len(), lost_by_source, rows, lost, ..Self::default() }
    }

    /// Reports the kept documents that could not be copied.
    pub fn report_lost(&self, progress: &dyn Progress) {
        first_messages(&self.lost).for_each(|line| progress.note(&line));
    }

    /// Adds the reference set, if the job has one. `both` is the number of its files that were named as new, too, and
    /// `counts` gives its effect on new documents.
    pub fn against(self, job: &Job, both: u64, counts: impl FnOnce() -> AgainstReport) -> Self {
        let reference =
            || self.read[self.new_files..].iter().map(|file| file_row(file, file.documents)).collect();
        let against = (!job.against.is_empty()).then(|| AgainstReport {
            named: job.against.clone(),
            both,
            files: reference(),
            ..counts()
        });
        Self { against, ..self }
    }
}

/// Clusters as a report counts and shows them.
pub(crate) struct ClusterFindings {
    /// The number of clusters of each size, in documents.
    sizes: BTreeMap<u64, u64>,
    /// At most [`SHOWN_CLUSTERS`] of the largest clusters, the largest first.
    largest: Vec<Large>,
    /// The documents that are unlike the kept one of their cluster.
    chaining: messages::Chaining,
    /// The features of removed near-duplicates, and those that are lost.
    lost: Lost,
}

/// A large cluster.
struct Large {
    cluster: Cluster,
    /// Its documents.
    size: u64,
    /// The kept document, then some of the others.
    shown: Vec<Document>,
    /// The similarities of its documents to the kept one.
    cohesion: Cohesion,
}

impl ClusterFindings {
    /// No cluster yet. `by` is the measure of similarity, and the value below which a document is unlike the kept one.
    pub fn new(by: (Measure, f64)) -> Self {
        let (sizes, chaining) = (BTreeMap::new(), messages::Chaining::new(by));
        Self { sizes, largest: Vec::new(), chaining, lost: Lost::default() }
    }

    fn of(outcome: &Outcome) -> Self {
        let (mut found, mut others) = (Self::new(outcome.cohesion_by), Vec::new());
        for (cluster, &kept) in Cluster::all(outcome.clusters.len()).zip(&outcome.representatives) {
            others.clear();
            others.extend(outcome.clusters.get(cluster).iter().filter(|&&member| member != kept));
            found.add(cluster, kept, &others, outcome.cohesion[cluster.index()]);
        }
        found
    }

    /// Adds the next cluster: its kept document, its others in order, and their similarities to the kept one.
    pub fn add(&mut self, cluster: Cluster, kept: Document, others: &[Document], cohesion: Cohesion) {
        let size = others.len() as u64 + 1;
        *self.sizes.entry(size).or_default() += 1;
        self.chaining.add(cluster, &cohesion, kept);
        self.lost = self.lost.with(cohesion.lost);
        let place = self.largest.partition_point(|other| other.size >= size);
        if place < SHOWN_CLUSTERS {
            // Evenly from the whole cluster: neighbours in the file are the likeliest to be alike.
            let step = others.len().div_ceil(SHOWN_MEMBERS).max(1);
            let shown = std::iter::once(kept).chain(others.iter().copied().rev().step_by(step)).collect();
            self.largest.insert(place, Large { cluster, size, shown, cohesion });
            self.largest.truncate(SHOWN_CLUSTERS);
        }
    }
}

/// The pairs and the clusters that a report shows.
type Samples = (Vec<PairSample>, Vec<ClusterSample>);

impl Findings {
    /// The findings of an outcome, without those that come from files. `seed` is that of the sample of pairs.
    pub fn of(outcome: &Outcome, removed_text_bytes: u64, seed: u64) -> Self {
        Self {
            files: FileFindings::default(),
            documents: [outcome.documents as u64, outcome.new as u64],
            few: outcome.documents_with_few_features,
            counts: messages::counts(outcome, removed_text_bytes),
            clusters: ClusterFindings::of(outcome),
            sample: sample_pairs(&outcome.pairs, SHOWN_PAIRS, seed),
            searched: outcome.searched.clone(),
            verified: outcome.verified,
            recall_estimate: outcome.recall_estimate,
        }
    }

    /// The documents that the report shows or names.
    pub fn shown(&self) -> BTreeSet<Document> {
        let named = self.searched.capped.iter().flat_map(|capped| capped.examples()).copied();
        self.sample
            .iter()
            .flat_map(Pair::documents)
            .chain(self.clusters.largest.iter().flat_map(|large| large.shown.iter().copied()))
            .chain(self.clusters.chaining.named())
            .chain(named)
            .collect()
    }

    /// Writes `report.json` and `report.html` into the folder, prints the report's warnings, and gives the summary.
    /// `documents` are those that [`Findings::shown`] names; their texts are read from `inputs`. Fails if more
    /// documents are removed than the job allows.
    pub fn write_report(
        &self,
        job: &Job,
        inputs: &[Input],
        documents: BTreeMap<Document, ShownDocument>,
        folder: &OutputFolder,
        stages: &Stages<'_>,
    ) -> Result<Summary> {
        check_removed(job, self)?;
        let (shown, samples) = stages.run("samples", SHOWN_PAIRS as u64, "pairs", 0, |_| {
            let shown = Shown::fetch(inputs, &job.read_options(), documents);
            let samples = self.samples(&shown);
            (shown, samples)
        });
        let report = self.report(job, &shown, samples, stages);
        let report = Report { written: output::manifest(folder.path())?, ..report };
        write_json(&report, &folder.path().join("report.json"))?;
        html::write(&html::render(&report)?, &folder.path().join("report.html"))?;
        // Warnings of the input were printed while it was read.
        let FileFindings { read, lost, not_read, .. } = &self.files;
        let mut printed: Vec<String> = first_messages(lost).collect();
        printed.extend(messages::odd_input_warnings(read));
        printed.extend(not_read.message());
        let others = report.warnings.iter().filter(|warning| !printed.contains(warning));
        others.for_each(|warning| stages.progress().note(warning));
        Ok(Summary::of(&report))
    }

    /// The sampled pairs and the largest clusters, with the texts of their documents.
    pub fn samples(&self, shown: &Shown) -> Samples {
        let pairs = self.sample.par_iter().map(|pair| shown.pair(pair)).collect();
        let clusters = self.clusters.largest.iter().map(|large| ClusterSample {
            cluster: large.cluster.to_string(),
            size: large.size,
            kept: shown.document(large.shown[0]),
            members: large.shown[1..].iter().map(|&member| shown.document(member)).collect(),
            lowest_similarity: Some(f64::from(large.cohesion.lowest)),
            median_similarity: Some(f64::from(large.cohesion.median)),
        });
        (pairs, clusters.collect())
    }

    /// The report, without the list of files of the result, which [`Findings::write_report`] adds.
    pub fn report(&self, job: &Job, shown: &Shown, samples: Samples, stages: &Stages<'_>) -> Report {
        let settings = &job.settings;
        let (sample_pairs, largest_clusters) = samples;
        let name = |document| shown.0[&document].name.clone();
        let Self { searched, verified, clusters, .. } = self;
        let FileFindings { read, lost, boilerplate, memory, .. } = &self.files;
        // Losses first.
        let mut warnings: Vec<String> = first_messages(lost).collect();
        warnings.extend(messages::sources_warnings(&self.files.lost_by_source));
        warnings.extend(messages::search_warnings(searched, verified.as_ref(), &name));
        warnings.extend(messages::few_features_warning(self.few, settings));
        let (recall, s_curve) = (messages::recall(searched), messages::s_curve(settings, searched));
        warnings.extend(messages::recall_warning(
            recall.as_ref(),
            s_curve.as_ref(),
            self.recall_estimate.as_ref(),
        ));
        warnings.extend(messages::odd_input_warnings(read));
        warnings.extend(messages::languages_warning(&self.files.languages));
        warnings.extend(messages::repeated_ids_warning(self.files.repeated));
        warnings.extend(messages::chaining_warning(&clusters.chaining, settings.linkage, &name));
        let [documents, new] = self.documents;
        let largest = clusters.sizes.last_key_value().map_or(0, |(&size, _)| size);
        warnings.extend(messages::largest_warning(largest, documents, settings.linkage));
        let peak = peak_memory_bytes();
        warnings.extend(memory.as_ref().and_then(|memory| messages::memory_warning(memory, peak, documents)));
        warnings.extend(self.files.scores.clone());
        warnings.extend(boilerplate.as_ref().and_then(messages::boilerplate_warning));
        // Last, as it is no loss.
        warnings.extend(self.files.not_read.message());
        let frequencies = job.frequencies.as_deref().filter(|_| settings.needs_frequencies());
        Report {
            schema: SCHEMA,
            tool: Tool::this(),
            created: job.created.clone(),
            command_line: job.command_line.clone(),
            fingerprint: self.files.fingerprint.clone(),
            settings: Some(settings.clone()),
            frequencies: frequencies.map(Path::to_path_buf),
            boilerplate: boilerplate.clone(),
            corpus: Corpus {
                text_field: (job.fields.text != JsonlFields::default().text).then(|| job.fields.text.clone()),
                ..messages::corpus(&read[..self.files.new_files], new, self.few, &self.files.languages)
            },
            against: self.files.against.clone(),
            outcome: self.counts.clone(),
            method: messages::method(settings, frequencies, searched, verified.as_ref()),
            recall,
            s_curve,
            histograms: messages::histograms(searched),
            cluster_sizes: clusters
                .sizes
                .iter()
                .map(|(&size, &clusters)| ClusterSizes { size, clusters })
                .collect(),
            largest_clusters,
            sample_pairs,
            stages: stages.done(),
            peak_memory_bytes: peak,
            memory: memory.clone(),
            search_cost: messages::cost(searched),
            searched: Some(searched.clone()),
            verified: *verified,
            recall_estimate: self.recall_estimate,
            missing: messages::missing(clusters.lost),
            corruption: messages::corruption(read, lost),
            warnings,
            files: self.files.rows.clone(),
            lost_by_source: self.files.lost_by_source.clone(),
            not_read: self.files.not_read.list.clone(),
            written: Vec::new(),
        }
    }
}

/// Refuses a result that removes a larger share than the job allows of the new documents, or of those of a source.
fn check_removed(job: &Job, findings: &Findings) -> Result<()> {
    let Some(allowed) = job.max_removed else { return Ok(()) };
    let [_, new] = findings.documents;
    let all = SourceRow { source: String::new(), documents: new, kept: new - findings.counts.removed };
    let worst = |sources: &Sources| {
        sources.worst.clone().map(|row| (format!("{} {}", sources.kind, printable(&row.source)), row))
    };
    let of_sources = findings.files.lost_by_source.iter().filter_map(worst);
    for (of, row) in std::iter::once(("the input".to_owned(), all)).chain(of_sources) {
        if row.share_lost() > allowed {
            return Err(Error::TooManyRemoved { allowed, of, removed: row.lost(), documents: row.documents });
        }
    }
    Ok(())
}

/// Messages on the first kept documents that could not be copied, and one on how many more there are.
pub(crate) fn first_messages(lost: &[corpus::Corruption]) -> impl Iterator<Item = String> + '_ {
    const LISTED: usize = 20;
    let more = (lost.len() > LISTED).then(|| {
        let more = counted((lost.len() - LISTED) as u64, "more document", "more documents");
        format!("{more} that were to be kept cannot be read any more")
    });
    lost.iter().take(LISTED).map(ToString::to_string).chain(more)
}

/// Counts the reference documents, their clusters, and the new documents removed for them; other fields stay empty.
pub(super) fn against(collection: &Collection, outcome: &Outcome) -> AgainstReport {
    let digest = |document| collection.facts(document).digest;
    let reference_texts: HashSet<u128> =
        (outcome.new..outcome.documents).map(|at| digest(Document::at(at))).collect();
    let new =
        |members: &[Document]| members.iter().take_while(|&&member| !outcome.is_reference(member)).count();
    let by_reference = outcome
        .clusters
        .iter()
        .zip(&outcome.representatives)
        .filter(|(_, kept)| outcome.is_reference(**kept));
    let (mut exact, mut all, mut clusters, mut documents_in_clusters) = (0, 0, 0, 0);
    for (members, _) in by_reference {
        let (members, references) = members.split_at(new(members));
        clusters += 1;
        documents_in_clusters += references.len() as u64;
        let go = || members.iter().filter(|&&member| !outcome.is_also_kept(member));
        all += go().count() as u64;
        exact += go().filter(|&&member| reference_texts.contains(&digest(member))).count() as u64;
    }
    AgainstReport {
        documents: (outcome.documents - outcome.new) as u64,
        exact,
        near: all - exact,
        clusters,
        documents_in_clusters,
        ..AgainstReport::default()
    }
}

/// Notes in the row of each input file the first and the last of the `files` that its kept documents were written to.
fn rows_kept_in(rows: &mut [FileRow], files: &[corpus::KeptFile]) {
    for file in files {
        let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
        for &shard in &file.shards {
            let row = &mut rows[shard as usize];
            match row.kept_in {
                None => row.kept_in.clone_from(&name),
                Some(_) => row.kept_to.clone_from(&name),
            }
        }
    }
}

fn file_row(file: &corpus::FileReading, kept: u64) -> FileRow {
    FileRow {
        path: file.path.display().to_string(),
        stored_bytes: file.stored_bytes,
        text_bytes: file.text_bytes,
        texts: file.texts,
        records: file.records,
        documents: file.documents,
        kept,
        corrupt: file.corrupt,
        unread: file.unread,
        kept_in: None,
        kept_to: None,
    }
}
