//! The documents of stages, as tables and the report have them, from their records: in the same order and with the same
//! names as those of a run in memory. A bounded part of them is in memory.

use super::Budget;
use super::cluster::{assignments_of, of_document};
use super::join::source;
use super::layout::{Column, words};
use super::lookup::Lookup;
use super::record::{Assignment, DOCUMENT, Edge, document_bytes, document_of};
use super::sketches::Folder;
use super::sorter::{Merge, Sorter};
use crate::boilerplate::host_of;
use crate::error::Result;
use crate::format::Body;
use crate::hash::text_digest;
use crate::pipeline::documents::NamedDocument;
use crate::pipeline::listing::{DocumentAssignment, Listing};
use crate::pipeline::samples::ShownDocument;
use crate::report::model::{SourceRow, Sources};
use simflip_core::dedup::{Pair, PairKind};
use simflip_core::id::{Cluster, Document, Id};
use simflip_core::settings::Settings;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A folder of sketches whose documents are clustered, with all that results call them.
pub struct Tables<'a> {
    pub folder: &'a Folder,
    pub settings: &'a Settings,
    /// All pairs that are listed.
    pub pairs: &'a Body,
    pub assignments: &'a Body,
    pub lookup: RefCell<Lookup<'a>>,
    pub budget: Budget,
    /// Where what does not fit into memory goes.
    pub work: &'a Path,
}

/// The counts of all documents.
#[derive(Clone, Debug, Default)]
pub struct DocumentCounts {
    /// Of each input, the documents that stay.
    pub kept: Vec<u64>,
    /// Documents with too few features.
    pub few: u64,
    /// Bytes of the texts that go.
    pub removed_text_bytes: u64,
    /// The losses of hosts; none where no document has one.
    pub hosts: Option<Sources>,
}

/// The document of a number, as results in memory have it; there are at most 2³² of them.
fn document_numbered(number: u64) -> Document {
    Document::new(number as u32)
}

/// A record of a pair, as results in memory have it.
fn pair_of(record: &[u8]) -> Pair {
    let Edge { later, earlier, distance, similarity, .. } = Edge::of(record);
    let kind = if distance.is_some() { PairKind::Near } else { PairKind::Exact };
    let [a, b] = [earlier.min(later), earlier.max(later)].map(document_numbered);
    Pair { a, b, distance: distance.unwrap_or(0), similarity, kind }
}

/// A record of a document of a cluster, as results in memory have it.
fn assignment_of(record: Assignment) -> (Document, DocumentAssignment) {
    let Assignment { document, stays, cluster, size, similarity, .. } = record;
    let assignment = DocumentAssignment {
        cluster: Some(Cluster::new(cluster as u32)),
        size: size as u32,
        stays: document_numbered(stays),
        similarity,
    };
    (document_numbered(document), assignment)
}

/// The items that are made of sorted records, one after the other.
fn each<T>(mut sorted: Merge, of: impl Fn(&[u8]) -> T) -> impl Iterator<Item = Result<T>> {
    std::iter::from_fn(move || sorted.next().map(|record| record.map(&of)).transpose())
}

impl Listing for Tables<'_> {
    fn pairs(&self) -> Result<impl Iterator<Item = Result<Pair>>> {
        let mut listed = self.sorter("pairs");
        let mut pairs = Merge::of(Edge::WIDTH, vec![source(self.pairs)?])?;
        while let Some(record) = pairs.next()? {
            let edge = Edge::of(record);
            listed.push(&Edge { later: edge.earlier, earlier: edge.later, ..edge }.bytes())?;
        }
        Ok(each(listed.finish()?, pair_of))
    }

    fn members(&self) -> Result<impl Iterator<Item = Result<(Document, DocumentAssignment)>>> {
        let mut by_cluster = self.sorter("clusters");
        for assignment in assignments_of(self.assignments, 0..u64::MAX)? {
            let assignment = assignment?;
            by_cluster.push(&[&document_bytes(assignment.cluster)[..], &assignment.bytes()].concat())?;
        }
        Ok(each(by_cluster.finish()?, |record| assignment_of(Assignment::of(&record[DOCUMENT..]))))
    }

    fn documents(&self) -> Result<impl Iterator<Item = Result<(Document, DocumentAssignment)>>> {
        let mut assignments = assignments_of(self.assignments, 0..u64::MAX)?.peekable();
        let of = move |document| {
            let stays = document_numbered(document);
            let alone = DocumentAssignment { cluster: None, size: 1, stays, similarity: None };
            let assigned = of_document(&mut assignments, document)?.map(assignment_of);
            Ok(assigned.unwrap_or((stays, alone)))
        };
        Ok((0..self.folder.new_documents()).map(of))
    }

    fn named(&self, document: Document) -> Result<NamedDocument<'_>> {
        self.lookup.borrow_mut().document(document.number().into())
    }
}

impl Tables<'_> {
    fn sorter(&self, name: &'static str) -> Sorter {
        Sorter::new(self.budget.bytes / 4, self.work, name)
    }

    /// All pairs that are listed, in no order.
    pub fn each_pair(&self) -> Result<impl Iterator<Item = Result<Pair>>> {
        Ok(each(Merge::of(Edge::WIDTH, vec![source(self.pairs)?])?, pair_of))
    }

    /// These documents, to be shown or named.
    pub fn shown(&self, documents: &BTreeSet<Document>) -> Result<BTreeMap<Document, ShownDocument>> {
        let mut bytes = Vec::new();
        let shown = documents.iter().map(|&document| {
            let (file, at) = self.folder.place(document.number().into());
            self.folder.files[file].reader()?.read(Column::Digests, at, 1, &mut bytes)?;
            let digest = bytes.first_chunk().map_or(0, |&digest| u128::from_le_bytes(digest));
            Ok((document, ShownDocument::new(&self.named(document)?, digest)))
        });
        shown.collect()
    }

    /// Counts all new documents.
    pub fn counts(&self) -> Result<DocumentCounts> {
        let inputs = &self.folder.inputs;
        let mut counts = DocumentCounts { kept: vec![0; inputs.len()], ..DocumentCounts::default() };
        let mut input = 0;
        let least = self.settings.min_features.max(1);
        let mut hosts = self.sorter("hosts");
        let mut assignments = assignments_of(self.assignments, 0..u64::MAX)?.peekable();
        let (mut lengths, mut features) = (Vec::new(), Vec::new());
        self.folder.scan(|columns, document, from, count| {
            if self.folder.is_old(document) {
                return Ok(());
            }
            columns.read(Column::Lengths, from, count, &mut lengths)?;
            columns.read(Column::Features, from, count, &mut features)?;
            for (document, (length, features)) in (document..).zip(words(&lengths).zip(words(&features))) {
                let assignment = of_document(&mut assignments, document)?;
                let stays = assignment.is_none_or(|assignment| assignment.stays == document);
                while inputs[input].documents.end <= document {
                    input += 1;
                }
                counts.kept[input] += u64::from(stays);
                counts.few += u64::from((features as usize) < least);
                if !stays {
                    counts.removed_text_bytes += u64::from(length);
                }
                if let Some(host) = self.host(document)? {
                    let mut record = [0; 16 + DOCUMENT + 1];
                    record[..16].copy_from_slice(&text_digest(&host).to_be_bytes());
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
                all.add(SourceRow { source: self.host(document)?.unwrap_or_default(), ..counted });
            }
            let Some((host, document, stays)) = host else { break };
            row.get_or_insert_with(|| (host, document, SourceRow::default())).2.count(stays);
        }
        counts.hosts = (all.number > 0).then(|| all.settled());
        Ok(counts)
    }

    fn host(&self, document: u64) -> Result<Option<String>> {
        Ok(self.named(document_numbered(document))?.url.and_then(|url| host_of(&url)))
    }
}

/// The memory that stages and tables take for so many documents, beside what is known of files.
pub fn held_of(documents: u64) -> u64 {
    // Three bits of each.
    3 * documents.div_ceil(8)
}
