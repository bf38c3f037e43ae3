//! From the order of stages, which have old documents first, to that of results, which have new ones first.

use super::Budget;
use super::cluster::{self, AssignmentReader, Grouping};
use super::record::{Assignment, DOCUMENT, document_bytes, document_of};
use super::sketches::Folder;
use super::sorter::{Sorted, Sorter};
use crate::error::{Error, Result};
use crate::format::{self, ASSIGNMENTS, Body, NewBinary};
use std::io::Write;
use std::path::Path;

/// The order of the documents of stages in results.
#[derive(Clone, Copy, Debug)]
pub struct ResultOrder {
    old: u64,
    new: u64,
}

impl ResultOrder {
    /// Of a folder as stages have it.
    pub fn of(folder: &Folder) -> Self {
        let old = folder.first_new();
        Self { old, new: folder.documents() - old }
    }

    /// Documents that are new.
    pub fn new_documents(self) -> u64 {
        self.new
    }

    /// Documents that are old.
    pub fn old_documents(self) -> u64 {
        self.old
    }

    /// The number that results give a document of stages.
    pub fn in_results(self, document: u64) -> u64 {
        if document < self.old { document + self.new } else { document - self.old }
    }

    /// The number that stages give a document of results.
    pub fn in_stages(self, document: u64) -> u64 {
        if document < self.new { document + self.old } else { document - self.new }
    }

    /// True if a document of results is an old one.
    pub fn is_old(self, document: u64) -> bool {
        document >= self.new
    }
}

/// The assignments of all documents in clusters, with documents and clusters as results number them: a cluster by its
/// first document. Where documents are old, that is another file, in the folder `work`.
///
/// # Errors
/// If there are no clusters yet, they are damaged, or the file cannot be written.
pub fn assignments(folder: &Folder, grouping: &Grouping, work: &Path, budget: &Budget) -> Result<Body> {
    let (header, body) = cluster::open(folder, grouping)?;
    if folder.old_files == 0 {
        return Ok(body);
    }
    let (order, mut assignments) = (ResultOrder::of(folder), AssignmentReader::open(&body)?);
    let renumbered = |assignment: Assignment| {
        let [document, stays] =
            [assignment.document, assignment.stays].map(|document| order.in_results(document));
        Assignment { document, stays, ..assignment }
    };
    let mut by_document = by_first_document(|| Ok(assignments.take()?.map(renumbered)), work, budget)?;
    let path = work.join("results.assignments");
    let mut file = NewBinary::begin(&path, ASSIGNMENTS, &header)?;
    while let Some(assignment) = by_document.next()? {
        file.write_all(assignment).map_err(|error| Error::io(&path, error))?;
    }
    file.finish()?;
    let (_, body): (cluster::ClusterHeader, Body) = format::open(&path, ASSIGNMENTS)?;
    Ok(body)
}

/// These assignments by their documents, with clusters numbered in order of their first documents.
///
/// # Errors
/// If `next` fails, or the folder cannot be written to.
pub fn by_first_document(
    mut next: impl FnMut() -> Result<Option<Assignment>>,
    work: &Path,
    budget: &Budget,
) -> Result<Sorted> {
    let sorter = |name| Sorter::new(Assignment::WIDTH, budget.bytes / 4, work, name);
    // Cluster and document first, so that the first document of a cluster is known when the others come.
    let mut by_cluster = sorter("assignments by cluster");
    while let Some(assignment) = next()? {
        by_cluster.push(
            &Assignment {
                document: assignment.cluster,
                stays: assignment.document,
                cluster: assignment.stays,
                ..assignment
            }
            .bytes(),
        )?;
    }
    let (mut by_cluster, mut by_first) = (by_cluster.finish()?, sorter("assignments by first"));
    let (mut last, mut first) = (None, [0; DOCUMENT]);
    while let Some(record) = by_cluster.next()? {
        if last.replace(document_of(record)) != Some(document_of(record)) {
            first.copy_from_slice(&record[DOCUMENT..2 * DOCUMENT]);
        }
        by_first.push(&[&first, &record[DOCUMENT..]].concat())?;
    }
    drop(by_cluster);
    let (mut by_first, mut by_document) = (by_first.finish()?, sorter("assignments by document"));
    let (mut last, mut cluster) = (None, 0);
    while let Some(record) = by_first.next()? {
        if let Some(before) = last.replace(document_of(record)) {
            cluster += u64::from(before != document_of(record));
        }
        let [document, stays] = [1, 2].map(|at| &record[at * DOCUMENT..][..DOCUMENT]);
        by_document.push(&[document, stays, &document_bytes(cluster), &record[3 * DOCUMENT..]].concat())?;
    }
    drop(by_first);
    by_document.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_there_and_back() {
        let order = ResultOrder { old: 3, new: 4 };
        let there: Vec<u64> = (0..7).map(|document| order.in_results(document)).collect();
        assert_eq!(there, [4, 5, 6, 0, 1, 2, 3]);
        assert!((0..7).all(|document| order.in_stages(order.in_results(document)) == document));
        assert!((0..7).all(|document| order.is_old(order.in_results(document)) == (document < 3)));
    }
}
