//! The tables of pairs, clusters and documents from the records of stages: in the same order and with the same names as
//! those of a run in memory, and with a bounded part in memory.

use super::Budget;
use super::cluster::{AssignmentReader, List, RecordReader};
use super::join::bits_bytes;
use super::lookup::Lookup;
use super::record::{Assignment, DOCUMENT, Edge, document_bytes, document_of};
use super::renumber::ResultOrder;
use super::sketches::{Column, Folder, weights_of};
use super::sorter::Sorter;
use crate::boilerplate::host_of;
use crate::error::{Error, Result};
use crate::format::Body;
use crate::pipeline::dedup::{Large, SHOWN_CLUSTERS, SHOWN_MEMBERS};
use crate::report::messages;
use crate::report::model::{ClusterSizes, SourceRow, Sources};
use crate::tables::{self, ClusterRow, DocumentRow, PairRow};
use simflip_core::dedup::{Cohesion, Pair, PairKind};
use simflip_core::id::{Cluster, Document, Id};
use simflip_core::resemblance::SetBits;
use simflip_core::settings::{Settings, Sketches};
use simflip_core::similarity::{Anchor, ComparedDocument};
use simflip_core::sketch::Hashed;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;

/// A folder of sketches whose documents are clustered, with all that results call them. Documents have the numbers that
/// results give them, where nothing else is said.
pub struct Tables<'a> {
    /// With the files of new documents first.
    pub folder: &'a Folder,
    pub order: ResultOrder,
    pub settings: &'a Settings,
    /// All pairs that are listed, as stages number documents.
    pub pairs: &'a Body,
    /// As results number documents and clusters.
    pub assignments: &'a Body,
    pub lookup: RefCell<Lookup<'a>>,
    pub budget: Budget,
    /// Where what does not fit into memory goes.
    pub work: &'a Path,
}

/// The number of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// The pairs of the table.
    pub written: u64,
}

/// The counts of clusters.
#[derive(Clone, Debug, Default)]
pub struct ClusterCounts {
    pub sizes: Vec<ClusterSizes>,
    pub clusters: u64,
    pub documents: u64,
    pub largest: Vec<Large>,
    pub old: OldCounts,
}

/// The effect of old documents in clusters.
#[derive(Clone, Copy, Debug, Default)]
pub struct OldCounts {
    /// Clusters with an old document.
    pub clusters: u64,
    /// Old documents in them.
    pub members: u64,
    /// New documents that go for an old one.
    pub gone: u64,
}

/// The counts of all documents.
#[derive(Clone, Debug, Default)]
pub struct DocumentCounts {
    /// Of each file of sketches, the documents that stay.
    pub kept: Vec<u64>,
    /// Documents with too few features.
    pub few: u64,
    /// Bytes of the texts that go.
    pub removed_text_bytes: u64,
    /// The losses of hosts; none where no document has one.
    pub hosts: Option<Sources>,
}

/// The document of a number, as results in memory have it; there are at most 2³² of them.
pub fn document_numbered(number: u64) -> Document {
    Document::new(number as u32)
}

impl Tables<'_> {
    fn sorter(&self, width: usize, name: &'static str) -> Sorter {
        Sorter::new(width, self.budget.bytes / 4, self.work, name)
    }

    /// Goes through all pairs, ascending, and writes them to a table, if one is named. Pairs of old documents are none.
    ///
    /// # Errors
    /// If what is there cannot be read, or the table cannot be written.
    pub fn pairs(&self, path: Option<&Path>, mut each: impl FnMut(&Pair)) -> Result<PairCounts> {
        let (mut listed, mut edges) = (self.sorter(Edge::WIDTH, "pairs"), self.pairs.reader()?);
        let (mut record, mut counts) = ([0; Edge::WIDTH], PairCounts::default());
        for _ in 0..self.pairs.len() / Edge::WIDTH as u64 {
            edges.fill(&mut record)?;
            let edge = Edge::of(&record);
            let [a, b] = [edge.earlier, edge.later].map(|document| self.order.in_results(document));
            listed.push(&Edge { later: a.min(b), earlier: a.max(b), ..edge }.bytes())?;
        }
        let mut listed = listed.finish()?;
        let mut next = || -> Result<Option<Pair>> {
            let Some(record) = listed.next()? else { return Ok(None) };
            let Edge { later: a, earlier: b, distance, similarity } = Edge::of(record);
            counts.written += 1;
            let kind = if distance.is_some() { PairKind::Near } else { PairKind::Exact };
            let (a, b, distance) = (document_numbered(a), document_numbered(b), distance.unwrap_or(0));
            let pair = Pair { a, b, distance, similarity, kind };
            each(&pair);
            Ok(Some(pair))
        };
        match path {
            Some(path) => {
                let row = |pair: Pair| self.pair_row(&pair);
                let rows = std::iter::from_fn(|| next().transpose());
                tables::write(path, rows.map(|pair| pair.and_then(row)))?;
            }
            None => while next()?.is_some() {},
        }
        Ok(counts)
    }

    fn pair_row(&self, pair: &Pair) -> Result<PairRow<'_>> {
        let mut lookup = self.lookup.borrow_mut();
        let [a, b] = pair.documents().map(|document| u64::from(document.number()));
        let (first, second) = (lookup.document(a)?, lookup.document(b)?);
        let has_distance = self.settings.sketches.has_hash();
        Ok(PairRow {
            a_id: first.id(),
            b_id: second.id(),
            a_url: first.url(),
            b_url: second.url(),
            distance: has_distance.then_some(pair.distance),
            similarity: f64::from(pair.similarity),
            kind: pair.kind,
            measure: messages::measure_name(self.settings, pair.kind),
            a_at: lookup.standing(a, &first),
            b_at: lookup.standing(b, &second),
        })
    }

    /// Goes through all clusters in their order, and writes their documents to a table, if one is named.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn clusters(&self, path: Option<&Path>) -> Result<ClusterCounts> {
        const WIDTH: usize = 4 * DOCUMENT + 1;
        let mut by_cluster = self.sorter(WIDTH, "clusters");
        let mut assignments = AssignmentReader::open(self.assignments)?;
        while let Some(Assignment { document, stays, cluster, size, beside, .. }) = assignments.take()? {
            by_cluster.push(
                &[&[cluster, document, stays, size].map(document_bytes).concat()[..], &[u8::from(beside)]]
                    .concat(),
            )?;
        }
        let mut by_cluster = by_cluster.finish()?;
        let (mut sizes, mut counts): (BTreeMap<u64, u64>, _) = (BTreeMap::new(), ClusterCounts::default());
        // Of its cluster, how many documents other than the one that stays are still to come, once that one was there.
        let (mut last, mut others) = (None, 0);
        let (largest, old) = (&mut counts.largest, &mut counts.old);
        let mut next = || -> Result<Option<[u64; 4]>> {
            let Some(record) = by_cluster.next()? else { return Ok(None) };
            let member = [0, 1, 2, 3].map(|at| document_of(&record[at * DOCUMENT..]));
            let ([cluster, document, stays, size], beside) = (member, record[4 * DOCUMENT] == 1);
            if last.replace(cluster) != Some(cluster) {
                others = size - 1;
                *sizes.entry(size).or_default() += 1;
                counts.clusters += 1;
                counts.documents += size;
                let place = largest.partition_point(|other: &Large| other.size >= size);
                let of = Cluster::new(cluster as u32);
                largest.insert(place, Large { cluster: of, size, shown: Vec::new(), cohesion: None });
                largest.truncate(SHOWN_CLUSTERS);
            }
            let is_kept = document == stays && !beside;
            old.members += u64::from(self.order.is_old(document));
            old.clusters += u64::from(is_kept && self.order.is_old(document));
            old.gone += u64::from(document != stays && self.order.is_old(stays));
            others -= u64::from(!is_kept);
            // Of the others, evenly from the last one on.
            let step = (size as usize - 1).div_ceil(SHOWN_MEMBERS).max(1) as u64;
            if let Some(large) = largest.iter_mut().find(|large| u64::from(large.cluster.number()) == cluster)
            {
                if is_kept {
                    large.shown.insert(0, document_numbered(document));
                } else if others.is_multiple_of(step) {
                    large.shown.push(document_numbered(document));
                }
            }
            Ok(Some(member))
        };
        match path {
            Some(path) => {
                let row = |[cluster, document, stays, size]: [u64; 4]| {
                    let mut lookup = self.lookup.borrow_mut();
                    let found = lookup.document(document)?;
                    Ok(ClusterRow {
                        id: found.id(),
                        url: found.url(),
                        cluster: Cow::Owned(cluster.to_string()),
                        size,
                        kept: document == stays,
                        at: lookup.standing(document, &found),
                    })
                };
                let rows = std::iter::from_fn(|| next().transpose());
                tables::write(path, rows.map(|member| member.and_then(row)))?;
            }
            None => while next()?.is_some() {},
        }
        // The others of a cluster are shown from the last one on.
        largest.iter_mut().for_each(|large| large.shown[1..].reverse());
        counts.sizes = sizes.into_iter().map(|(size, clusters)| ClusterSizes { size, clusters }).collect();
        Ok(counts)
    }

    /// Tells the similarities of each cluster's documents to the one that stays, in the order of clusters.
    ///
    /// # Errors
    /// If what is there cannot be read.
    pub fn cohesion(&self, each: impl FnMut(Cluster, Cohesion, Document)) -> Result<()> {
        let (measure, floor) = self.settings.cohesion();
        let words = self.folder.files.first().map_or(0, |file| file.layout.words);
        let width = 2 * DOCUMENT + 1 + 16 + 4 + 8 * words;
        // Cluster, similarity with the document that stays, document, the document that stays.
        let mut by_similarity = self.sorter(3 * DOCUMENT + 4, "similarities");
        let mut put = |cluster, similarity, document, stays| {
            let record = [
                &document_bytes(cluster)[..],
                &ordered(similarity),
                &document_bytes(self.order.in_results(document)),
                &document_bytes(self.order.in_results(stays)),
            ];
            by_similarity.push(&record.concat())
        };
        if self.settings.keeps_feature_hashes() {
            // Where containment decides, what documents are removed for was measured.
            let mut assignments = AssignmentReader::open(self.assignments)?;
            while let Some(assignment) = assignments.take()? {
                if assignment.stays != assignment.document {
                    let [document, stays] = [assignment.document, assignment.stays]
                        .map(|document| self.order.in_stages(document));
                    put(assignment.cluster, assignment.similarity.unwrap_or(1.0), document, stays)?;
                }
            }
            return self.report_cohesion(by_similarity, floor as f32, each);
        }
        let mut by_cluster = self.sorter(width, "cohesion");
        let mut assignments = AssignmentReader::open(self.assignments)?;
        let mut next = assignments.take()?;
        let (mut digests, mut features, mut bits, mut record) = (vec![], vec![], vec![], vec![]);
        self.folder.scan(&|_| (), |columns, start, from, count| {
            let end = start + count as u64;
            if next.is_none_or(|assignment| assignment.document >= end) {
                return Ok(());
            }
            columns.read(Column::Digests, from, count, &mut digests)?;
            columns.read(Column::Features, from, count, &mut features)?;
            columns.read(Column::Bits, from, count, &mut bits)?;
            while let Some(assignment) = next.filter(|assignment| assignment.document < end) {
                let at = (assignment.document - start) as usize;
                record.clear();
                // The document that others are removed for comes first.
                let document = self.order.in_stages(assignment.document);
                record.extend(document_bytes(assignment.cluster));
                record.push(u8::from(assignment.stays != assignment.document || assignment.beside));
                record.extend(document_bytes(document));
                record.extend_from_slice(&digests[16 * at..][..16]);
                record.extend_from_slice(&features[4 * at..][..4]);
                record.extend_from_slice(&bits[8 * words * at..][..8 * words]);
                by_cluster.push(&record)?;
                next = assignments.take()?;
            }
            Ok(())
        })?;
        let (mut by_cluster, mut kept): (_, Option<(u64, u64, Owned)>) = (by_cluster.finish()?, None);
        while let Some(record) = by_cluster.next()? {
            let (cluster, document) = (document_of(record), document_of(&record[DOCUMENT + 1..]));
            let sketch = Owned::of(&record[2 * DOCUMENT + 1..], self.settings.sketches);
            match &kept {
                Some((of, stays, first)) if *of == cluster => {
                    put(cluster, Anchor::new(measure, first).with(&&sketch), document, *stays)?;
                }
                _ => kept = Some((cluster, document, sketch)),
            }
        }
        drop(by_cluster);
        self.report_cohesion(by_similarity, floor as f32, each)
    }

    /// Tells how alike the documents of each cluster are, from records of similarities.
    fn report_cohesion(
        &self,
        by_similarity: Sorter,
        floor: f32,
        mut each: impl FnMut(Cluster, Cohesion, Document),
    ) -> Result<()> {
        // One list to count and one to tell by: a cluster may be larger than memory.
        let list = List::of(self.work.join("alike"), by_similarity.finish()?)?;
        let (mut ahead, mut behind) = (Similar::open(&list)?, Similar::open(&list)?);
        while let Some((cluster, ..)) = ahead.next {
            let mut number = 0;
            while ahead.next.is_some_and(|(of, ..)| of == cluster) {
                ahead.take()?;
                number += 1;
            }
            let (mut cohesion, mut kept) = (Cohesion::default(), document_numbered(0));
            for at in 0..number {
                let Some((_, similarity, document, stays)) = behind.take()? else { break };
                if at == 0 {
                    (cohesion.lowest, cohesion.farthest, kept) =
                        (similarity, document_numbered(document), document_numbered(stays));
                }
                if at == number / 2 {
                    cohesion.median = similarity;
                }
                cohesion.unlike += u64::from(similarity < floor);
            }
            each(Cluster::new(cluster as u32), cohesion, kept);
        }
        Ok(())
    }

    /// Every new document with what becomes of it, in order.
    fn rows(&self) -> Result<impl Iterator<Item = Result<DocumentRow<'_>>>> {
        let (mut assignments, documents) =
            (AssignmentReader::open(self.assignments)?, self.order.new_documents());
        let mut next = assignments.take()?;
        let row = move |document: u64| {
            let assignment = next.filter(|assignment| assignment.document == document);
            if assignment.is_some() {
                next = assignments.take()?;
            }
            let mut lookup = self.lookup.borrow_mut();
            let found = lookup.document(document)?;
            let at = lookup.standing(document, &found);
            let stays = assignment.map_or(document, |assignment| assignment.stays);
            Ok(DocumentRow {
                file: at.file,
                row: at.row,
                id: found.id(),
                url: found.url(),
                cluster: assignment.and_then(|assignment| u32::try_from(assignment.cluster).ok()),
                size: assignment.map_or(1, |assignment| assignment.size),
                kept: stays == document,
                stays: if stays == document { found.id() } else { lookup.document(stays)?.id() },
                similarity: assignment.and_then(|assignment| assignment.similarity).map(f64::from),
            })
        };
        Ok((0..documents).map(row))
    }

    /// Writes every new document to a table.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn documents(&self, path: &Path) -> Result<u64> {
        tables::write(path, self.rows()?)
    }

    /// Writes the documents that go to a table.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn removed(&self, path: &Path) -> Result<u64> {
        tables::write(path, self.rows()?.filter(|row| row.as_ref().map_or(true, |row| !row.kept)))
    }

    /// Hands every new document to a table that takes no errors.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn documents_by(
        &self,
        write: impl FnOnce(&mut dyn Iterator<Item = DocumentRow<'_>>) -> Result<u64>,
    ) -> Result<u64> {
        let failed = Cell::new(None);
        let mut rows = self.rows()?.map_while(|row| row.map_err(|error| failed.set(Some(error))).ok());
        let written = write(&mut rows);
        match failed.take() {
            Some(error) => Err(error),
            None => written,
        }
    }

    /// Counts all new documents.
    ///
    /// # Errors
    /// If what is there cannot be read.
    pub fn counts(&self) -> Result<DocumentCounts> {
        let inputs = &self.folder.inputs;
        let mut counts = DocumentCounts { kept: vec![0; inputs.len()], ..DocumentCounts::default() };
        let mut input = 0;
        let least = self.settings.min_features.max(1);
        let mut hosts = self.sorter(16 + DOCUMENT + 1, "hosts");
        let mut assignments = AssignmentReader::open(self.assignments)?;
        let mut next = assignments.take()?;
        let (mut lengths, mut features) = (Vec::new(), Vec::new());
        let words = super::join::words;
        self.folder.scan(&|_| (), |columns, document, from, count| {
            if self.order.is_old(document) {
                return Ok(());
            }
            columns.read(Column::Lengths, from, count, &mut lengths)?;
            columns.read(Column::Features, from, count, &mut features)?;
            for (document, (length, features)) in (document..).zip(words(&lengths).zip(words(&features))) {
                let assignment = next.filter(|assignment| assignment.document == document);
                if assignment.is_some() {
                    next = assignments.take()?;
                }
                let stays = assignment.is_none_or(|assignment| assignment.stays == document);
                while inputs[input].documents.end <= document {
                    input += 1;
                }
                counts.kept[input] += u64::from(stays);
                counts.few += u64::from((features as usize) < least);
                if !stays {
                    counts.removed_text_bytes += u64::from(length);
                }
                if let Some(host) = host_of(&self.lookup.borrow_mut().document(document)?.url) {
                    let mut record = [0; 16 + DOCUMENT + 1];
                    record[..16].copy_from_slice(&crate::hash::text_digest(&host).to_be_bytes());
                    record[16..16 + DOCUMENT].copy_from_slice(&document_bytes(document));
                    record[16 + DOCUMENT] = u8::from(stays);
                    hosts.push(&record)?;
                }
            }
            Ok(())
        })?;
        let (mut hosts, mut all) = (hosts.finish()?, Sources::of("host"));
        let mut row: Option<([u8; 16], u64, SourceRow)> = None;
        loop {
            let record = hosts.next()?;
            let host = record.map(|record| {
                let mut host = [0; 16];
                host.copy_from_slice(&record[..16]);
                (host, document_of(&record[16..]), record[16 + DOCUMENT] == 1)
            });
            if let Some((_, document, counted)) =
                row.take_if(|row| host.is_none_or(|(host, ..)| host != row.0))
            {
                let source = host_of(&self.lookup.borrow_mut().document(document)?.url).unwrap_or_default();
                all.add(SourceRow { source, ..counted });
            }
            let Some((host, document, stays)) = host else { break };
            row.get_or_insert_with(|| (host, document, SourceRow::default())).2.count(stays);
        }
        counts.hosts = (all.number > 0).then(|| all.settled());
        Ok(counts)
    }
}

/// A similarity as bytes that ascend with it.
fn ordered(similarity: f32) -> [u8; 4] {
    let bits = similarity.to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 };
    ordered.to_be_bytes()
}

/// Reads such similarities.
struct Similar {
    list: RecordReader,
    next: Option<(u64, f32, u64, u64)>,
}

impl Similar {
    fn open(path: &Path) -> Result<Self> {
        let mut similar = Self { list: RecordReader::open(path, 3 * DOCUMENT + 4)?, next: None };
        similar.take()?;
        Ok(similar)
    }

    /// Takes the next one: cluster, similarity, document, and the document that stays.
    fn take(&mut self) -> Result<Option<(u64, f32, u64, u64)>> {
        let next = self.list.next()?.map(|record| {
            let ordered = u32::from_be_bytes([record[5], record[6], record[7], record[8]]);
            let bits = if ordered >> 31 == 1 { ordered ^ 1 << 31 } else { !ordered };
            (document_of(record), f32::from_bits(bits), document_of(&record[9..]), document_of(&record[14..]))
        });
        Ok(std::mem::replace(&mut self.next, next))
    }
}

/// The parts of a document by which similarity is measured.
struct Owned {
    digest: u128,
    features: u32,
    bits: Vec<u64>,
    hashed: Option<Hashed>,
}

impl Owned {
    /// From digest, number of features and bits.
    fn of(record: &[u8], sketches: Sketches) -> Self {
        let digest = record[..16].iter().rev().fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
        let features = u32::from_le_bytes([record[16], record[17], record[18], record[19]]);
        match sketches {
            // Measures of SimHashes look at the weights alone.
            Sketches::SimHash { .. } => {
                let hashed = Some(Hashed { hash: 0, weights: weights_of(&record[20..]) });
                Self { digest, features, bits: Vec::new(), hashed }
            }
            _ => {
                let bits = super::join::longs(&record[20..]).collect();
                Self { digest, features, bits, hashed: None }
            }
        }
    }
}

impl ComparedDocument for &Owned {
    fn digest(&self) -> u128 {
        self.digest
    }

    fn hashed(&self) -> Option<&Hashed> {
        self.hashed.as_ref()
    }

    fn bits(&self) -> Option<SetBits<'_>> {
        self.hashed.is_none().then(|| SetBits::by_size(&self.bits, self.features))
    }

    fn size(&self) -> u32 {
        self.features
    }
}

/// The memory that stages and tables take for so many documents, beside what is known of files.
pub fn held_of(documents: u64) -> u64 {
    3 * bits_bytes(documents)
}

/// An error where a run has more documents than results can number.
pub fn check_number(documents: u64) -> Result<()> {
    match u32::try_from(documents) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::parameter("documents", documents, "at most 2^32 - 1 documents in one run with tables"))
        }
    }
}
