//! From the order of stages, which have old pages first, to that of results, which have new ones first.

use super::Budget;
use super::cluster::{self, AssignmentReader, Grouping};
use super::record::{Assignment, PAGE, page_bytes, page_of};
use super::sketches::Folder;
use super::sorter::{Sorted, Sorter};
use crate::error::{Error, Result};
use crate::format::{self, ASSIGNMENTS, Body, NewBinary};
use std::io::Write;
use std::path::Path;

/// The order of the pages of stages in results.
#[derive(Clone, Copy, Debug)]
pub struct ResultOrder {
    old: u64,
    new: u64,
}

impl ResultOrder {
    /// Of a folder as stages have it.
    pub fn of(folder: &Folder) -> Self {
        let old = folder.first_new();
        Self { old, new: folder.pages() - old }
    }

    /// Pages that are new.
    pub fn new_pages(self) -> u64 {
        self.new
    }

    /// Pages that are old.
    pub fn old_pages(self) -> u64 {
        self.old
    }

    /// The number that results give a page of stages.
    pub fn in_results(self, page: u64) -> u64 {
        if page < self.old { page + self.new } else { page - self.old }
    }

    /// The number that stages give a page of results.
    pub fn in_stages(self, page: u64) -> u64 {
        if page < self.new { page + self.old } else { page - self.new }
    }

    /// True if a page of results is an old one.
    pub fn is_old(self, page: u64) -> bool {
        page >= self.new
    }
}

/// The assignments of all pages in clusters, with pages and clusters as results number them: a cluster by its first
/// page. Where pages are old, that is another file, in the folder `work`.
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
        let [page, stays] = [assignment.page, assignment.stays].map(|page| order.in_results(page));
        Assignment { page, stays, ..assignment }
    };
    let mut by_page = by_first_page(|| Ok(assignments.take()?.map(renumbered)), work, budget)?;
    let path = work.join("results.assignments");
    let mut file = NewBinary::begin(&path, ASSIGNMENTS, &header)?;
    while let Some(assignment) = by_page.next()? {
        file.write_all(assignment).map_err(|error| Error::io(&path, error))?;
    }
    file.finish()?;
    let (_, body): (cluster::ClusterHeader, Body) = format::open(&path, ASSIGNMENTS)?;
    Ok(body)
}

/// These assignments by their pages, with clusters numbered in order of their first pages.
///
/// # Errors
/// If `next` fails, or the folder cannot be written to.
pub fn by_first_page(
    mut next: impl FnMut() -> Result<Option<Assignment>>,
    work: &Path,
    budget: &Budget,
) -> Result<Sorted> {
    let sorter = |name| Sorter::new(Assignment::WIDTH, budget.bytes / 4, work, name);
    // Cluster and page first, so that the first page of a cluster is known when the others come.
    let mut by_cluster = sorter("fates by cluster");
    while let Some(assignment) = next()? {
        by_cluster.push(
            &Assignment {
                page: assignment.cluster,
                stays: assignment.page,
                cluster: assignment.stays,
                ..assignment
            }
            .bytes(),
        )?;
    }
    let (mut by_cluster, mut by_first) = (by_cluster.finish()?, sorter("fates by first"));
    let (mut last, mut first) = (None, [0; PAGE]);
    while let Some(record) = by_cluster.next()? {
        if last.replace(page_of(record)) != Some(page_of(record)) {
            first.copy_from_slice(&record[PAGE..2 * PAGE]);
        }
        by_first.push(&[&first, &record[PAGE..]].concat())?;
    }
    drop(by_cluster);
    let (mut by_first, mut by_page) = (by_first.finish()?, sorter("fates by page"));
    let (mut last, mut cluster) = (None, 0);
    while let Some(record) = by_first.next()? {
        if let Some(before) = last.replace(page_of(record)) {
            cluster += u64::from(before != page_of(record));
        }
        let [page, stays] = [1, 2].map(|at| &record[at * PAGE..][..PAGE]);
        by_page.push(&[page, stays, &page_bytes(cluster), &record[3 * PAGE..]].concat())?;
    }
    drop(by_first);
    by_page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_there_and_back() {
        let order = ResultOrder { old: 3, new: 4 };
        let there: Vec<u64> = (0..7).map(|page| order.in_results(page)).collect();
        assert_eq!(there, [4, 5, 6, 0, 1, 2, 3]);
        assert!((0..7).all(|page| order.in_stages(order.in_results(page)) == page));
        assert!((0..7).all(|page| order.is_old(order.in_results(page)) == (page < 3)));
    }
}
