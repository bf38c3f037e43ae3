//! The third stage: which documents are kept, and which are removed for which, by the edges of all bands. It writes a
//! file of assignments, of the documents that are in clusters, and a file of the pairs that results list.
//!
//! Documents are assigned in keep order, and further rounds compare those that are left open. Exact duplicates are then
//! assigned like the best document of their text, the first in keep order. A *rank* is a place in keep order.

use super::grouping::Grouping;
use super::join::{ClusterJob, Edges, Joining};
use super::keep_order::{OfFiles, sources};
use super::record::{Assignment, Edge};
use super::sketches::Folder;
use super::{belongs_to, odd_length, unless_corrupt};
use crate::atomic_write::sweep;
use crate::error::{Error, Result};
use crate::format::{self, ASSIGNMENTS, Body, Kind, NewBinary, PAIRS};
use crate::inspection::Inspection;
use crate::pipeline::{Progress, with_threads};
use serde::{Deserialize, Serialize};
use simflip_core::bits::Bits;
use simflip_core::buckets::{self, Joined, Statistics};
use simflip_core::clusters::{Linkage, Quota};
use simflip_core::containment;
use simflip_core::dedup::check_listed;
use simflip_core::id::{Id, Rank};
use simflip_core::recall_estimate::RecallEstimate;
use simflip_core::settings::Settings;
use std::io::{BufReader, Read, Write};
use std::iter::{self, Peekable};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The outcome of the stage, in numbers of documents where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clustered {
    /// Documents of all sketches, reference documents left out.
    pub documents: u64,
    /// Reference documents.
    #[serde(default)]
    pub reference_documents: u64,
    /// Clusters of two documents or more, with a new one among them.
    pub clusters: u64,
    /// Documents in these clusters, reference documents among them.
    pub in_clusters: u64,
    /// Documents of the largest cluster.
    pub largest: u64,
    /// New documents that are removed.
    pub removed: u64,
    /// Of these, exact duplicates. Of a text of which no document is kept, all but one count.
    pub exact_duplicates: u64,
    /// Of the exact duplicates, those whose text a reference document has.
    pub duplicates_of_reference: u64,
    /// Different texts with enough features to be compared, those of reference documents among them.
    pub compared: u64,
    /// The work of the join and of further rounds, and the number of pairs that were left out.
    pub statistics: Statistics,
    /// The estimate of recall; `None` for SimHashes, and where there is no new document to sample.
    pub recall_estimate: Option<RecallEstimate>,
}

/// The header of a file of assignments, and of a file of pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterHeader {
    /// The id of the sketches, [`Folder::id`].
    pub sketches: String,
    settings: Settings,
    #[serde(flatten)]
    grouping: Grouping,
    /// The outcome of the stage.
    pub counts: Clustered,
}

/// The path of the file of assignments of some sketches.
pub fn place(folder: &Folder, grouping: &Grouping) -> PathBuf {
    folder.joined(grouping).join(format!("{}.assignments", grouping.name()))
}

/// The path of the file of pairs beside it.
fn pairs_place(folder: &Folder, grouping: &Grouping) -> PathBuf {
    place(folder, grouping).with_extension("pairs")
}

/// Clusters the documents whose edges are in a folder of sketches, unless that was done.
///
/// # Errors
/// If a band is not joined yet, or a file of sketches is corrupt. If the memory is too little, or the grouping does not
/// go with the sketches. If all pairs are to be listed, and there are more than 2²⁸.
pub fn cluster(job: &ClusterJob, progress: &dyn Progress) -> Result<Clustered> {
    let (folder, files, memory) = job.open(progress)?;
    with_threads(job.threads, || cluster_folder(&folder, &job.grouping, &files, memory, progress))?
}

/// Clusters the documents of a folder that is open, unless that was done. It takes the threads of the caller's pool.
pub(super) fn cluster_folder(
    folder: &Folder,
    grouping: &Grouping,
    files: &OfFiles,
    memory: u64,
    progress: &dyn Progress,
) -> Result<Clustered> {
    sweep(&folder.joined(grouping));
    match clustered(folder, grouping, progress)? {
        Some(counts) => Ok(counts),
        None => assign(&Joining::new(folder, grouping, files, memory, progress)?, grouping, files),
    }
}

/// Clusters the documents of a join that is open, unless that was done.
pub(super) fn cluster_joined(
    joining: &Joining<'_>,
    grouping: &Grouping,
    files: &OfFiles,
) -> Result<Clustered> {
    match clustered(joining.folder, grouping, joining.progress)? {
        Some(counts) => Ok(counts),
        None => assign(joining, grouping, files),
    }
}

/// The outcome that is in files already; `None` if a file is missing or corrupt.
fn clustered(folder: &Folder, grouping: &Grouping, progress: &dyn Progress) -> Result<Option<Clustered>> {
    let read = || {
        let counts = open(folder, grouping)?.0.counts;
        pairs(folder, grouping).map(|_| counts)
    };
    unless_corrupt(read(), progress)
}

/// The file of assignments of some sketches, checked: its header, and its body of [`Assignment`]s, ascending by
/// document.
pub fn open(folder: &Folder, grouping: &Grouping) -> Result<(ClusterHeader, Body)> {
    let (header, body) = open_kind(&place(folder, grouping), ASSIGNMENTS, folder, grouping)?;
    check_length(&header, &body)?;
    Ok((header, body))
}

/// A file of assignments or pairs of some sketches, checked.
fn open_kind(path: &Path, kind: Kind, folder: &Folder, grouping: &Grouping) -> Result<(ClusterHeader, Body)> {
    let (header, body): (ClusterHeader, Body) = format::open(path, kind)?;
    belongs_to(path, header.sketches == folder.id && header.grouping == *grouping)?;
    body.check()?;
    Ok((header, body))
}

fn check_length(header: &ClusterHeader, body: &Body) -> Result<()> {
    match header.counts.in_clusters.checked_mul(Assignment::WIDTH as u64) == Some(body.len()) {
        true => Ok(()),
        false => Err(odd_length(body.path(), ASSIGNMENTS, body.len())),
    }
}

/// The pairs that results list, each once, in no order: a body of [`Edge`]s of document numbers, the greater one first.
pub fn pairs(folder: &Folder, grouping: &Grouping) -> Result<Body> {
    Ok(open_kind(&pairs_place(folder, grouping), PAIRS, folder, grouping)?.1)
}

/// The name under which progress shows the step of the recall estimate.
pub(super) const ESTIMATE_STEP: &str = "recall estimate";

/// The assignments of documents, all by rank.
struct AssignedRanks {
    /// Of each document, the document that is kept for it.
    kept: Vec<Rank>,
    /// Number of documents of each cluster, at its kept document.
    sizes: Vec<u32>,
    /// Clusters with a new document, each at its kept document.
    has_new: Bits,
    /// Documents that are kept besides, by a quota.
    also: Bits,
}

/// Assigns all documents, and writes the files of assignments and of pairs.
fn assign(joining: &Joining<'_>, grouping: &Grouping, files: &OfFiles) -> Result<Clustered> {
    let Joining { folder, order, exact_duplicates, progress, .. } = joining;
    let (store, reference) = (joining.store()?, joining.reference());
    let (edges, statistics) = joining.edges()?;
    let assigned = progress.during("cluster", edges.number(), "pairs", |_| {
        buckets::assign(&store, &joining.rule, reference, edges.iter()?)
    });
    let Joined { mut assignments, mut later, statistics: mut more } = assigned?;
    let documents = folder.documents();
    if let Some(threshold) = joining.rule.contained() {
        let (edges, statistics) = progress.during("containment", documents, "documents", |_| {
            containment::remove(&store, threshold, &mut assignments)
        })?;
        buckets::merge_later(&mut later, edges);
        more = more.and(statistics);
    }
    let recall_estimate = progress.during(ESTIMATE_STEP, documents, "documents", |advance| {
        store.estimate(&joining.rule, &assignments, reference, advance)
    })?;
    let documents = documents as usize;
    let mut kept: Vec<Rank> = Rank::all(documents).map(|rank| assignments.leader(rank)).collect();
    exact_duplicates.iter().for_each(|(copy, best)| kept[copy.index()] = assignments.leader(best));
    let (mut sizes, mut has_new) = (vec![0u32; documents], Bits::new(folder.documents()));
    for (rank, &kept) in Rank::all(documents).zip(&kept) {
        sizes[kept.index()] += 1;
        if rank.number() >= reference {
            has_new.set(u64::from(kept.number()));
        }
    }
    let mut assigned = AssignedRanks { kept, sizes, has_new, also: Bits::new(folder.documents()) };
    if !grouping.quota.is_one() {
        assigned.keep_more(joining, grouping.quota, files)?;
    }
    let mut counts = Clustered {
        documents: folder.new_documents(),
        reference_documents: folder.reference_documents(),
        compared: store.compared(),
        statistics: statistics.and(more),
        recall_estimate,
        ..Clustered::default()
    };
    let similarity = |rank: Rank| {
        let best = exact_duplicates.best(rank);
        let text = best.unwrap_or(rank);
        // A copy of a kept text is as like it as can be.
        match assignments.is_kept(text) {
            true => best.map(|_| 1.0),
            false => assignments.edge(text).map(|edge| edge.similarity),
        }
    };
    let is_kept = |rank: Rank| {
        rank.number() < reference
            || assigned.kept[rank.index()] == rank
            || assigned.also.get(u64::from(rank.number()))
    };
    let mut clusters = vec![u32::MAX; documents];
    let mut records = Vec::new();
    for document in 0..folder.documents() {
        let rank = order.rank(document);
        let (kept, size) = (assigned.kept[rank.index()], assigned.sizes[assigned.kept[rank.index()].index()]);
        if size < 2 || !assigned.has_new.get(u64::from(kept.number())) {
            continue;
        }
        let cluster = &mut clusters[kept.index()];
        if *cluster == u32::MAX {
            *cluster = counts.clusters as u32;
            counts.clusters += 1;
            counts.largest = counts.largest.max(u64::from(size));
        }
        let is_kept = is_kept(rank);
        counts.in_clusters += 1;
        counts.removed += u64::from(!is_kept);
        let assignment = Assignment {
            document,
            representative: if is_kept { document } else { order.document(kept) },
            cluster: u64::from(*cluster),
            size: u64::from(size),
            similarity: if is_kept { None } else { similarity(rank) },
            also_kept: is_kept && rank != kept,
        };
        records.extend_from_slice(&assignment.bytes());
    }
    let by_text = exact_duplicates.by_text();
    for of_text in by_text.chunk_by(|a, b| a.0 == b.0) {
        let best = of_text[0].0;
        let all = || of_text.iter().map(|&(_, copy)| copy).chain([best]);
        let removed = all().filter(|&rank| !is_kept(rank)).count() as u64;
        // Of a text of which nothing is kept, one was removed for another text.
        let exact = removed.saturating_sub(u64::from(!all().any(is_kept)));
        counts.exact_duplicates += exact;
        counts.duplicates_of_reference += if best.number() < reference { exact } else { 0 };
    }
    let header = ClusterHeader {
        sketches: folder.id.clone(),
        settings: folder.settings.clone(),
        grouping: grouping.clone(),
        counts,
    };
    let path = pairs_place(folder, grouping);
    let mut file = NewBinary::begin(&path, PAIRS, &header)?;
    let mut put = |a: Rank, b: Rank, distance: Option<u32>, similarity: f32| {
        let [a, b] = [a, b].map(|rank| order.document(rank));
        if folder.is_reference(a.min(b)) {
            return Ok(());
        }
        let edge = Edge { later: a.max(b), earlier: a.min(b), distance, similarity, decides: true };
        file.write_all(&edge.bytes()).map_err(|error| Error::io(&path, error))
    };
    let near = |edge: &buckets::Edge| (Some(u32::from(edge.distance)), edge.similarity);
    if grouping.all_pairs {
        let texts = Texts { by_text: &by_text, reference };
        check_listed(texts.pairs(found(&edges, &later)?)?)?;
        for best in texts.copied() {
            let all: Vec<Rank> = texts.documents(best).collect();
            for (at, &a) in all.iter().enumerate() {
                all[at + 1..].iter().try_for_each(|&b| put(a, b, None, 1.0))?;
            }
        }
        for edge in found(&edges, &later)? {
            let edge = edge?;
            let (distance, similarity) = near(&edge);
            for a in texts.documents(edge.document) {
                texts.documents(edge.leader).try_for_each(|b| put(a, b, distance, similarity))?;
            }
        }
    } else {
        exact_duplicates.iter().try_for_each(|(copy, best)| put(copy, best, None, 1.0))?;
        let mut put_near = |edge: buckets::Edge| {
            let (distance, similarity) = near(&edge);
            put(edge.document, edge.leader, distance, similarity)
        };
        match grouping.linkage {
            Linkage::Star => {
                Rank::all(documents).filter_map(|rank| assignments.edge(rank)).try_for_each(put_near)?;
            }
            Linkage::Connected => found(&edges, &later)?.try_for_each(|edge| put_near(edge?))?,
        }
    }
    file.finish()?;
    format::write(&place(folder, grouping), ASSIGNMENTS, &header, &[&records])?;
    Ok(counts)
}

/// The edges of the first round and of later ones, each pair once. What was counted later is exact.
fn found(edges: &Edges, later: &[buckets::Edge]) -> Result<impl Iterator<Item = Result<buckets::Edge>>> {
    let mut last = None;
    let is_new = move |edge: &Result<buckets::Edge>| {
        let Ok(edge) = edge else { return true };
        // A pair may come of several bands.
        last.replace(edge.key()) != Some(edge.key()) && !buckets::has_pair(later, edge)
    };
    Ok(edges.iter()?.filter(is_new).chain(later.iter().copied().map(Ok)))
}

/// The documents of each text.
struct Texts<'a> {
    /// Exact duplicates, each behind the best document of its text, ascending.
    by_text: &'a [(Rank, Rank)],
    /// The number of reference documents, which have the first ranks.
    reference: u32,
}

impl<'a> Texts<'a> {
    /// The best document of each text that has copies.
    fn copied(&self) -> impl Iterator<Item = Rank> + use<'a> {
        self.by_text.chunk_by(|a, b| a.0 == b.0).map(|copies| copies[0].0)
    }

    /// The copies of a text, of which this is the best document.
    fn copies(&self, best: Rank) -> &'a [(Rank, Rank)] {
        let from = self.by_text.partition_point(|&(of, _)| of < best);
        let copies = &self.by_text[from..];
        &copies[..copies.partition_point(|&(of, _)| of == best)]
    }

    /// All documents of a text, of which this is the best one.
    fn documents(&self, best: Rank) -> impl Iterator<Item = Rank> + use<'a> {
        iter::once(best).chain(self.copies(best).iter().map(|&(_, copy)| copy))
    }

    /// The number of documents of a text, and of reference documents among them, which come first.
    fn sizes(&self, best: Rank) -> [u64; 2] {
        let copies = self.copies(best);
        let references = copies.partition_point(|&(_, copy)| copy.number() < self.reference);
        [1 + copies.len() as u64, u64::from(best.number() < self.reference) + references as u64]
    }

    /// The number of pairs of documents that are not both reference documents: of each text, and of texts that are
    /// near.
    fn pairs(&self, mut near: impl Iterator<Item = Result<buckets::Edge>>) -> Result<u64> {
        let pairs =
            |[all, references]: [u64; 2]| (all * (all - 1) - references * references.saturating_sub(1)) / 2;
        let within: u64 = self.copied().map(|best| pairs(self.sizes(best))).sum();
        near.try_fold(within, |sum, edge| {
            let [a, b] = edge.map(|edge| [edge.document, edge.leader])?.map(|best| self.sizes(best));
            Ok(sum + a[0] * b[0] - a[1] * b[1])
        })
    }
}

impl AssignedRanks {
    /// Keeps more documents of clusters, as a quota has it.
    fn keep_more(&mut self, joining: &Joining<'_>, quota: Quota, files: &OfFiles) -> Result<()> {
        let (order, reference) = (&joining.order, joining.reference());
        let sources = quota.each.map(|each| sources(joining.folder, each, files)).transpose()?;
        let source =
            |rank: Rank| sources.as_ref().map_or(0, |sources| sources[order.document(rank) as usize]);
        let clustered = |&(_, kept): &(Rank, Rank)| self.sizes[kept.index()] > 1;
        let members = Rank::all(self.kept.len()).zip(self.kept.iter().copied()).filter(clustered);
        // The one that is kept anyway comes first, and then the others in keep order.
        let mut members: Vec<(Rank, bool, Rank)> =
            members.map(|(rank, kept)| (kept, rank != kept, rank)).collect();
        members.sort_unstable();
        for cluster in members.chunk_by(|a, b| a.0 == b.0) {
            let rank = |place: usize| cluster[place].2;
            let is_reference = |place: usize| rank(place).number() < reference;
            for place in quota
                .choose(cluster.len(), |place| source(rank(place)), is_reference)
                .filter(|&place| place > 0)
            {
                self.also.set(u64::from(rank(place).number()));
            }
        }
        Ok(())
    }
}

/// The assignments of those of `documents` that are in a cluster, in their order. `body` is that of a file of
/// assignments, of which little is in memory at a time.
pub fn assignments_of(
    body: &Body,
    documents: Range<u64>,
) -> Result<impl Iterator<Item = Result<Assignment>> + use<>> {
    let number = body.len() / Assignment::WIDTH as u64;
    let mut reader = body.reader()?;
    let mut record = [0; Assignment::WIDTH];
    let (mut low, mut high) = (0, number);
    while low < high {
        let middle = low + (high - low) / 2;
        reader.seek(middle * Assignment::WIDTH as u64)?;
        reader.fill(&mut record)?;
        if Assignment::of(&record).document < documents.start { low = middle + 1 } else { high = middle }
    }
    reader.seek(low * Assignment::WIDTH as u64)?;
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let path = body.path().to_path_buf();
    let assignments = (low..number).map(move |_| {
        let read = reader.read_exact(&mut record);
        read.map(|()| Assignment::of(&record)).map_err(|error| Error::io(&path, error))
    });
    Ok(assignments.take_while(move |assignment| {
        assignment.as_ref().map_or(true, |assignment| assignment.document < documents.end)
    }))
}

/// The assignments of those of `documents` that are removed; see [`assignments_of`].
pub fn removals_of(
    body: &Body,
    documents: Range<u64>,
) -> Result<impl Iterator<Item = Result<Assignment>> + use<>> {
    let is_removal = |assignment: &Result<Assignment>| {
        assignment.as_ref().map_or(true, |assignment| assignment.representative != assignment.document)
    };
    Ok(assignments_of(body, documents)?.filter(is_removal))
}

/// Takes the assignment of a document from `assignments`, if it is the next one; `None` where the document is in no
/// cluster. It is called for each document in order.
pub fn of_document(
    assignments: &mut Peekable<impl Iterator<Item = Result<Assignment>>>,
    document: u64,
) -> Result<Option<Assignment>> {
    let is_of = |next: &Result<Assignment>| next.as_ref().map_or(true, |next| next.document == document);
    assignments.next_if(is_of).transpose()
}

/// Checks a file of pairs for [`inspect`](crate::inspect).
pub fn check_pairs(path: &Path) -> Result<Inspection> {
    let (header, body): (ClusterHeader, Body) = format::open(path, PAIRS)?;
    body.check()?;
    if !body.len().is_multiple_of(Edge::WIDTH as u64) {
        return Err(odd_length(path, PAIRS, body.len()));
    }
    let pairs = body.len() / Edge::WIDTH as u64;
    let mut inspection = Inspection::of(PAIRS.name);
    inspection.fact("clusters", header.grouping.linkage.name());
    inspection.fact("sketches", &header.sketches);
    inspection.fact("pairs", pairs);
    let (mut reader, mut record) = (body.reader()?, [0; Edge::WIDTH]);
    let documents = header.counts.reference_documents.saturating_add(header.counts.documents);
    for at in 0..pairs {
        reader.fill(&mut record)?;
        let Edge { later, earlier, similarity, .. } = Edge::of(&record);
        if earlier >= later || later >= documents || !(0.0..=1.0).contains(&similarity) {
            inspection.problem(format!("pair {at} is none"));
            break;
        }
    }
    Ok(inspection)
}

/// Checks a file of assignments for [`inspect`](crate::inspect).
pub fn check(path: &Path) -> Result<Inspection> {
    let (header, body): (ClusterHeader, Body) = format::open(path, ASSIGNMENTS)?;
    body.check()?;
    check_length(&header, &body)?;
    let counts = header.counts;
    let mut inspection = Inspection::of(ASSIGNMENTS.name);
    inspection.fact("clusters", header.grouping.linkage.name());
    inspection.fact("kept documents", header.grouping.keep_rule());
    inspection.fact("sketches", &header.sketches);
    inspection.fact("documents", counts.documents);
    if counts.reference_documents > 0 {
        inspection.fact("reference documents", counts.reference_documents);
    }
    inspection.fact("clusters of two documents or more", counts.clusters);
    inspection.fact("documents in clusters", counts.in_clusters);
    inspection.fact("largest cluster", counts.largest);
    inspection.fact("documents that can go", counts.removed);
    let mut reader = BufReader::with_capacity(1 << 16, body.reader()?);
    let (mut before, mut record, mut removed) = (None, [0; Assignment::WIDTH], 0);
    for at in 0..counts.in_clusters {
        reader.read_exact(&mut record).map_err(|error| Error::io(path, error))?;
        let assignment = Assignment::of(&record);
        removed += u64::from(assignment.representative != assignment.document);
        let documents = counts.reference_documents.saturating_add(counts.documents);
        let is_right = assignment.document.max(assignment.representative) < documents
            && (!assignment.also_kept || assignment.representative == assignment.document)
            && (assignment.document < counts.documents || assignment.representative == assignment.document)
            && assignment.cluster < counts.clusters
            && (2..=counts.largest).contains(&assignment.size)
            && before.is_none_or(|before| before < assignment.document);
        if !is_right {
            inspection.problem(format!("row {at} is none, or stands in the wrong place"));
            break;
        }
        before = Some(assignment.document);
    }
    if inspection.problems.is_empty() && removed != counts.removed {
        inspection.problem(format!("{removed} documents go, but {} are counted", counts.removed));
    }
    Ok(inspection)
}
