//! The second stage: near-duplicates among the documents that share a band hash, band by band.
//!
//! Each document has one band hash for each *band*. Of exact duplicates only the best one, the first in keep order, is
//! compared. The members of a bucket are visited in keep order. A member that no earlier leader is near is a *leader*;
//! another one gets an *edge* to a near leader, for which it may be removed.
//!
//! The edges of a band are written to a file of its own. They name documents by their *ranks*, the places in keep
//! order. So keep order, and how clusters are formed, belong to the join: other ones have another folder of edges.

use super::grouping::Grouping;
use super::keep_order::{OfFiles, Order, check_keep, unscored};
use super::record::{DOCUMENT, Edge};
use super::sketch::Shard;
use super::sketches::Folder;
use super::sorter::Merge;
use super::store::{ExactDuplicates, SketchStore, held};
use super::{Budget, belongs_to, odd_length, unless_corrupt, workplace};
use crate::atomic_write::sweep;
use crate::error::{Error, Result};
use crate::format::{self, Body, EDGES, NewBinary, wrong};
use crate::inspection::Inspection;
use crate::pipeline::{Progress, with_threads};
use crate::resources::memory_share;
use serde::{Deserialize, Serialize};
use simflip_core::buckets::{self, Round, Rule, Statistics, Store};
use simflip_core::dedup::check_listed;
use simflip_core::id::{Id, Rank};
use simflip_core::settings::Settings;
use std::fs;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// The sketches to join and to cluster, and the rules: the job of both stages.
#[derive(Clone, Debug)]
pub struct ClusterJob {
    /// The folder of sketches.
    pub sketches: PathBuf,
    /// Folders of the sketches of reference documents, with the same settings. Near-duplicates of these are removed,
    /// and they are kept. All stages from `join` on are given the same ones.
    pub against: Vec<PathBuf>,
    /// The linkage of pairs into clusters, and the rules by which documents are kept. A join does not use the quota.
    pub grouping: Grouping,
    /// Bytes of memory that are not exceeded; `None` for a share of what the machine has.
    pub memory: Option<u64>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
}

impl ClusterJob {
    /// Opens the sketches, and checks that they have what the grouping needs. Gives them, the facts of their inputs,
    /// and the bytes of memory.
    pub(super) fn open(&self, progress: &dyn Progress) -> Result<(Folder, OfFiles, u64)> {
        let folder = Folder::open_against(&self.sketches, &self.against)?;
        check_keep(&folder, &self.grouping)?;
        unscored(&folder, &self.grouping.keep)?.iter().for_each(|message| progress.note(message));
        let files = OfFiles::of(&folder, &self.grouping);
        Ok((folder, files, self.memory.unwrap_or_else(memory_share)))
    }
}

/// The outcome of the stage for one shard of the bands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joined {
    /// Documents of all sketches, reference documents left out.
    pub documents: u64,
    /// Reference documents.
    pub reference_documents: u64,
    /// New documents whose text an earlier document in keep order has.
    pub exact_duplicates: u64,
    /// Bands of this shard.
    pub bands: u64,
    /// Of these, those that were joined already.
    pub there: u64,
    /// Edges of these bands; a pair may be in several.
    pub pairs: u64,
    /// The work that these bands took, and the number of candidates that were left out.
    pub statistics: Statistics,
}

/// The header of a file of edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct EdgesHeader {
    /// The id of the sketches.
    sketches: String,
    settings: Settings,
    grouping: Grouping,
    documents: u64,
    band: usize,
    statistics: Statistics,
}

/// Finds the near-duplicates among all documents whose sketches are in a folder, in a shard of the bands; passes over
/// bands that are joined already.
///
/// # Errors
/// If a file of sketches is corrupt, or they are of different settings, or the grouping does not go with them. If the
/// memory is too little for so many documents, or they are 2³² or more. If all pairs are to be listed and a band has
/// more than 2²⁸, or a file cannot be written. What was finished before stays.
pub fn join(job: &ClusterJob, shard: Shard, progress: &dyn Progress) -> Result<Joined> {
    let (folder, files, memory) = job.open(progress)?;
    with_threads(job.threads, || Joining::new(&folder, &job.grouping, &files, memory, progress)?.run(shard))?
}

/// A folder of sketches that is open for joining and clustering, with keep order and exact duplicates in memory.
pub(super) struct Joining<'a> {
    pub folder: &'a Folder,
    /// The grouping without its quota.
    pub grouping: Grouping,
    /// The rule by which documents of a bucket are compared.
    pub rule: Rule,
    /// Bytes to sort in, and for sketches that are compared.
    pub budget: Budget,
    pub order: Order,
    pub exact_duplicates: ExactDuplicates,
    /// The folder of the files of edges.
    place: PathBuf,
    pub progress: &'a dyn Progress,
}

impl<'a> Joining<'a> {
    /// Checks the files of a folder, puts its documents in keep order, and finds the exact duplicates. `memory` is in
    /// bytes.
    pub fn new(
        folder: &'a Folder,
        grouping: &Grouping,
        files: &OfFiles,
        memory: u64,
        progress: &'a dyn Progress,
    ) -> Result<Self> {
        if u32::try_from(folder.documents()).is_err() {
            return Err(Error::parameter("documents", folder.documents(), "fewer than 2^32 in one join"));
        }
        let grouping = grouping.of_join();
        let rule = Rule::new(&grouping.settings(&folder.settings))?;
        let budget =
            Budget::beside(memory, held(&folder.settings) * folder.documents() + folder.files_bytes())?;
        let place = folder.joined(&grouping);
        fs::create_dir_all(&place).map_err(|error| Error::io(&place, error))?;
        sweep(&place);
        let documents = folder.documents();
        progress.during("check sketches", documents, "documents", |advance| {
            let mut files = folder.files.iter();
            files.try_for_each(|file| file.check().map(|()| advance(file.header.documents)))
        })?;
        let work = workplace(&place.join("order"))?;
        let order = Order::of(folder, &grouping, files, work.path(), &budget)?;
        drop(work);
        let exact_duplicates = progress.during("exact duplicates", documents, "documents", |advance| {
            ExactDuplicates::of(folder, &order, advance)
        })?;
        Ok(Self { folder, grouping, rule, budget, order, exact_duplicates, place, progress })
    }

    /// The sketches, to be compared.
    pub fn store(&self) -> Result<SketchStore<'_>> {
        SketchStore::new(self.folder, &self.order, &self.exact_duplicates, &self.budget)
    }

    /// The number of reference documents, which have the ranks below it.
    pub fn reference(&self) -> u32 {
        self.folder.reference_documents() as u32
    }

    fn edges_path(&self, band: usize) -> PathBuf {
        self.place.join(format!("band-{band:03}.edges"))
    }

    /// Joins the bands of a shard that have no file of edges yet.
    pub fn run(&self, shard: Shard) -> Result<Joined> {
        let store = self.store()?;
        let mut joined = Joined {
            documents: self.folder.new_documents(),
            reference_documents: self.folder.reference_documents(),
            exact_duplicates: self.exact_duplicates.of_new(self.reference()),
            bands: 0,
            there: 0,
            pairs: 0,
            statistics: Statistics::default(),
        };
        let mut add = |(edges, statistics): (u64, Statistics)| {
            joined.bands += 1;
            joined.pairs += edges;
            joined.statistics = joined.statistics.and(statistics);
        };
        let mut missing = Vec::new();
        let bands: Vec<usize> = (0..store.bands()).filter(|&band| shard.has(band)).collect();
        for &band in &bands {
            match self.edges_there(band)? {
                Some((statistics, body)) => add((edges_of(&body)?, statistics)),
                None => missing.push(band),
            }
        }
        let there = (bands.len() - missing.len()) as u64;
        if missing.is_empty() {
            return Ok(Joined { there, ..joined });
        }
        let documents = self.folder.documents();
        self.progress.during("join", documents * missing.len() as u64, "documents", |advance| {
            let round = Round::first(self.reference());
            buckets::join(&store, &self.rule, &round, &missing, |band, edges, statistics| {
                if self.grouping.all_pairs {
                    check_listed(edges.len() as u64)?;
                }
                self.write_edges(band, &edges, statistics)?;
                add((edges.len() as u64, statistics));
                advance(documents);
                Ok(())
            })
        })?;
        Ok(Joined { there, ..joined })
    }

    fn header(&self, band: usize, statistics: Statistics) -> EdgesHeader {
        EdgesHeader {
            sketches: self.folder.id.clone(),
            settings: self.folder.settings.clone(),
            grouping: self.grouping.clone(),
            documents: self.folder.documents(),
            band,
            statistics,
        }
    }

    fn write_edges(&self, band: usize, edges: &[buckets::Edge], statistics: Statistics) -> Result<()> {
        let path = self.edges_path(band);
        let mut file = NewBinary::begin(&path, EDGES, &self.header(band, statistics))?;
        for edge in edges {
            file.write_all(&Edge::from(*edge).bytes()).map_err(|error| Error::io(&path, error))?;
        }
        file.finish()
    }

    /// The file of edges of a band, checked; `None` if it is missing or corrupt.
    fn edges_there(&self, band: usize) -> Result<Option<(Statistics, Body)>> {
        let path = self.edges_path(band);
        let read = || {
            let (header, body): (EdgesHeader, Body) = format::open(&path, EDGES)?;
            belongs_to(&path, header == self.header(band, header.statistics))?;
            edges_of(&body)?;
            body.check()?;
            Ok((header.statistics, body))
        };
        unless_corrupt(read(), self.progress)
    }

    /// The edges of all bands, checked, and the work that they took.
    ///
    /// # Errors
    /// If a band is not joined yet.
    pub fn edges(&self) -> Result<(Edges, Statistics)> {
        let (mut bodies, mut statistics) = (Vec::new(), Statistics::default());
        for band in 0..self.store()?.bands() {
            let Some((of_band, body)) = self.edges_there(band)? else {
                let message = format!(
                    "{}: simflip join has not made it yet; it makes what is missing, and takes --keep, --clusters, \
                     --all-pairs and --against as they are given here",
                    self.edges_path(band).display()
                );
                return Err(Error::Missing(message));
            };
            statistics = statistics.and(of_band);
            bodies.push(body);
        }
        Ok((Edges { bodies, documents: self.folder.documents() }, statistics))
    }
}

/// The edges of all bands.
pub(super) struct Edges {
    bodies: Vec<Body>,
    documents: u64,
}

impl Edges {
    /// The number of edges; a pair counts in each of its bands.
    pub fn number(&self) -> u64 {
        self.bodies.iter().map(|body| body.len() / Edge::WIDTH as u64).sum()
    }

    /// All edges, in order of the ranks of the document and then of the leader. Equal ones come once.
    pub fn iter(&self) -> Result<impl Iterator<Item = Result<buckets::Edge>> + use<>> {
        let sources = self.bodies.iter().map(source).collect::<Result<Vec<_>>>()?;
        let (mut merge, documents) = (Merge::of(Edge::WIDTH, sources)?, self.documents);
        let mut next = move || {
            let Some(edge) = merge.next()?.map(Edge::of) else { return Ok(None) };
            in_range(Path::new("edges"), edge.later.max(edge.earlier), documents)?;
            Ok(Some(buckets::Edge {
                document: Rank::new(edge.later as u32),
                leader: Rank::new(edge.earlier as u32),
                similarity: edge.similarity,
                distance: edge.distance.unwrap_or(0) as u8,
                decides: edge.decides,
            }))
        };
        Ok(std::iter::from_fn(move || next().transpose()))
    }
}

/// Gives `document` back if it is below `documents`; otherwise the file at `path`, which has the number, is corrupt.
pub fn in_range(path: &Path, document: u64, documents: u64) -> Result<u64> {
    if document < documents {
        return Ok(document);
    }
    let (expected, got) = (format!("below {documents}"), document.to_string());
    Err(wrong(path, "a document's number", expected, got, "the file is corrupt; make it again"))
}

/// A body as a source of records for [`Merge::of`].
pub fn source(body: &Body) -> Result<(PathBuf, Box<dyn Read + Send>)> {
    let reader = BufReader::with_capacity(1 << 16, body.reader()?);
    Ok((body.path().to_path_buf(), Box::new(reader)))
}

/// The number of edges in a body.
fn edges_of(body: &Body) -> Result<u64> {
    match body.len() % Edge::WIDTH as u64 {
        0 => Ok(body.len() / Edge::WIDTH as u64),
        _ => Err(odd_length(body.path(), EDGES, body.len())),
    }
}

/// Checks a file of edges for [`inspect`](crate::inspect).
pub fn check_edge_file(path: &Path) -> Result<Inspection> {
    let (header, body): (EdgesHeader, Body) = format::open(path, EDGES)?;
    body.check()?;
    let edges = edges_of(&body)?;
    let mut inspection = Inspection::of(EDGES.name);
    inspection.fact("band", header.band);
    inspection.fact("sketches", &header.sketches);
    inspection.fact("clusters", header.grouping.linkage.name());
    inspection.fact("keep", &header.grouping.keep);
    inspection.fact("documents", header.documents);
    inspection.fact("edges", edges);
    inspection.fact("buckets", header.statistics.buckets);
    inspection.fact("largest bucket", header.statistics.largest);
    inspection.fact("compared", header.statistics.compared);
    inspection.fact("not compared in large buckets", header.statistics.left_out);
    let mut reader = body.reader()?;
    let (mut before, mut record) = ([0; Edge::WIDTH], [0; Edge::WIDTH]);
    for at in 0..edges {
        reader.fill(&mut record)?;
        let edge = Edge::of(&record);
        let is_right = edge.earlier < edge.later
            && edge.later < header.documents
            && edge.distance.is_some()
            && (0.0..=1.0).contains(&edge.similarity);
        if !is_right || at > 0 && record[..2 * DOCUMENT] <= before[..2 * DOCUMENT] {
            inspection.problem(format!("edge {at} is none, or stands in the wrong place"));
            break;
        }
        before = record;
    }
    Ok(inspection)
}
