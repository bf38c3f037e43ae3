//! Documents, pairs and clusters of stages for tables and the report, from records on disk. They are in the same order
//! and have the same names as those of a run in memory. A bounded part of them is in memory.

use super::Budget;
use super::cluster::{assignments_of, of_document};
use super::join::source;
use super::layout::{Column, share_of, words};
use super::lookup::Lookup;
use super::record::{Assignment, DOCUMENT, Edge, document_bytes, document_of};
use super::sketches::Folder;
use super::sorter::{Merge, Sorter};
use crate::boilerplate::{BoilerplateShare, GroupBy, Grouped};
use crate::error::Result;
use crate::format::Body;
use crate::hash::text_digest;
use crate::pipeline::documents::NamedDocument;
use crate::pipeline::listing::{DocumentAssignment, Listing};
use crate::pipeline::samples::ShownDocument;
use crate::report::model::{BoilerplateReport, SourceRow, Sources};
use simflip_core::dedup::{Pair, PairKind};
use simflip_core::id::{Cluster, Document, Id};
use simflip_core::settings::Settings;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A folder of sketches whose documents are clustered, with all that tables need. It is a [`Listing`].
pub struct Tables<'a> {
    pub folder: &'a Folder,
    /// The settings of the run, for the least number of features of a document that is compared.
    pub settings: &'a Settings,
    /// The body of the file of pairs.
    pub pairs: &'a Body,
    /// The body of the file of assignments.
    pub assignments: &'a Body,
    /// The names and places of documents.
    pub lookup: RefCell<Lookup<'a>>,
    /// Bytes to sort in.
    pub budget: Budget,
    /// The folder for what does not fit into memory.
    pub work: &'a Path,
}

/// Counts over new documents, for the report.
#[derive(Clone, Debug, Default)]
pub struct DocumentCounts {
    /// Of each of [`Folder::inputs`], the number of kept documents; 0 for reference inputs.
    pub kept: Vec<u64>,
    /// New documents with too few features to be compared.
    pub few: u64,
    /// Bytes of the texts of removed documents.
    pub removed_text_bytes: u64,
    /// The numbers of documents, and of removed ones, of hosts, and of the values of the field that groups documents. A
    /// kind of origin that no document has is left out.
    pub origins: Vec<Sources>,
    /// The boilerplate that was left out, if some was, of reference documents as well.
    pub boilerplate: Option<BoilerplateReport>,
}

/// The document of a number, as results in memory have it; a join has fewer than 2³² of them.
fn document_numbered(number: u64) -> Document {
    Document::new(number as u32)
}

/// The pair of a record, as results in memory have it.
fn pair_of(record: &[u8]) -> Pair {
    let Edge { later, earlier, distance, similarity, .. } = Edge::of(record);
    let kind = if distance.is_some() { PairKind::Near } else { PairKind::Exact };
    let [a, b] = [earlier.min(later), earlier.max(later)].map(document_numbered);
    Pair { a, b, distance: distance.unwrap_or(0), similarity, kind }
}

/// The document of a record of a cluster with its assignment, as results in memory have them.
fn assignment_of(record: Assignment) -> (Document, DocumentAssignment) {
    let Assignment { document, representative, cluster, size, similarity, .. } = record;
    let assignment = DocumentAssignment {
        cluster: Some(Cluster::new(cluster as u32)),
        size: size as u32,
        representative: document_numbered(representative),
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
            let representative = document_numbered(document);
            let alone = DocumentAssignment { cluster: None, size: 1, representative, similarity: None };
            let assigned = of_document(&mut assignments, document)?.map(assignment_of);
            Ok(assigned.unwrap_or((representative, alone)))
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

    /// The names, places and digests of some documents, which the report shows.
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

    /// Counts all new documents. Where boilerplate was left out, `left_out` is its report, still without counts.
    pub fn counts(&self, left_out: Option<BoilerplateReport>) -> Result<DocumentCounts> {
        let inputs = &self.folder.inputs;
        let mut counts = DocumentCounts { kept: vec![0; inputs.len()], ..DocumentCounts::default() };
        let mut input = 0;
        let least = self.settings.min_features.max(1);
        let by = left_out.as_ref().map(|left_out| &left_out.by);
        let mut origins = vec![(&GroupBy::Host, self.sorter("hosts"))];
        origins.extend(by.filter(|by| by.field().is_some()).map(|by| (by, self.sorter("values"))));
        let mut groups = self.sorter("groups");
        let mut assignments = assignments_of(self.assignments, 0..u64::MAX)?.peekable();
        let (mut lengths, mut features, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        self.folder.scan(|columns, document, from, count| {
            columns.read(Column::Lengths, from, count, &mut lengths)?;
            if let Some(by) = by {
                columns.read(Column::Shares, from, count, &mut shares)?;
                for (document, (length, share)) in (document..).zip(words(&lengths).zip(shares.as_chunks().0))
                {
                    if share_of(share, length).is_some()
                        && let Some(group) = self.group(document, by)?
                    {
                        let of_document = [&share[..], &length.to_le_bytes()].concat();
                        groups.push(&of_group(&group, document, &of_document))?;
                    }
                }
            }
            if self.folder.is_reference(document) {
                return Ok(());
            }
            columns.read(Column::Features, from, count, &mut features)?;
            for (document, (length, features)) in (document..).zip(words(&lengths).zip(words(&features))) {
                let assignment = of_document(&mut assignments, document)?;
                let is_kept = assignment.is_none_or(|assignment| assignment.representative == document);
                while inputs[input].documents.end <= document {
                    input += 1;
                }
                counts.kept[input] += u64::from(is_kept);
                counts.few += u64::from((features as usize) < least);
                if !is_kept {
                    counts.removed_text_bytes += u64::from(length);
                }
                for (kind, origins) in &mut origins {
                    if let Some(origin) = self.group(document, kind)? {
                        origins.push(&of_group(&origin, document, &[u8::from(is_kept)]))?;
                    }
                }
            }
            Ok(())
        })?;
        for (kind, origins) in origins {
            let mut all = Sources::of(&kind.to_string());
            let count = |row: &mut SourceRow, is_kept: &[u8]| row.count(is_kept == [1]);
            each_group(origins.finish()?, count, |document, row| {
                all.add(SourceRow { source: self.group(document, kind)?.unwrap_or_default(), ..row });
                Ok(())
            })?;
            counts.origins.extend((all.number > 0).then(|| all.settled()));
        }
        if let Some(mut report) = left_out.clone() {
            let count = |sum: &mut BoilerplateShare, of_document: &[u8]| {
                if let Some((share, length)) = of_document.split_first_chunk()
                    && let Some(share) = share_of(share, words(length).sum())
                {
                    sum.add(&share);
                }
            };
            each_group(groups.finish()?, count, |document, share| {
                report.add(self.group(document, &report.by)?.unwrap_or_default(), share);
                Ok(())
            })?;
            counts.boilerplate = Some(report.settled());
        }
        Ok(counts)
    }

    /// The name of the group that a document is in; `None` if it is in no group.
    fn group(&self, document: u64, by: &GroupBy) -> Result<Option<String>> {
        let NamedDocument { file, url, .. } = self.named(document_numbered(document))?;
        let group = if by.field().is_some() { self.lookup.borrow_mut().group(document)? } else { None };
        let group = by.of(file, Grouped { url: url.as_deref(), group: group.as_deref() });
        Ok(group.map(Cow::into_owned))
    }
}

/// A record of a document of a group: a hash of the group, the document's number, and `rest`. Sorting brings groups
/// together, each in order of documents.
fn of_group(group: &str, document: u64, rest: &[u8]) -> Vec<u8> {
    [&text_digest(group).to_be_bytes()[..], &document_bytes(document), rest].concat()
}

/// Calls `each` for every group of sorted records, with its first document and the sum that `count` made of the rest of
/// its records.
fn each_group<T: Default>(
    mut sorted: Merge,
    count: impl Fn(&mut T, &[u8]),
    mut each: impl FnMut(u64, T) -> Result<()>,
) -> Result<()> {
    let mut open: Option<([u8; 16], u64, T)> = None;
    while let Some((&group, rest)) = sorted.next()?.and_then(<[u8]>::split_first_chunk) {
        if let Some((_, first, counted)) = open.take_if(|(of, ..)| *of != group) {
            each(first, counted)?;
        }
        let (.., counted) = open.get_or_insert_with(|| (group, document_of(rest), T::default()));
        count(counted, &rest[DOCUMENT..]);
    }
    open.map_or(Ok(()), |(_, first, counted)| each(first, counted))
}

/// Bytes of memory that tables take for `documents` documents, beside what is known of files.
pub fn held_of(documents: u64) -> u64 {
    // Three bits of each.
    3 * documents.div_ceil(8)
}
