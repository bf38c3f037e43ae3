//! Checks tables for `simflip inspect`: each by itself, and pairs against the clusters of the same result. Problems go
//! into an [`Inspection`]; an `Err` means that a file cannot be read or is no such table.

use super::read::{ClustersReader, PairsReader};
use super::{ClusterRow, DocumentRow, PairRow, TableRow};
use crate::Result;
use crate::hash::feature;
use crate::inspection::{Inspection, OF_TABLES};
use crate::search::selfjoin::cosine_of_distance;
use crate::simhash::BITS;
use crate::tables::table::Table;
use csv::StringRecord;
use hashbrown::HashMap;
use simflip_core::clusters::Quota;
use simflip_core::dedup::PairKind;
use std::collections::BTreeMap;
use std::path::Path;

/// The facts of a result that its pairs must fit.
pub(crate) struct Together {
    /// The number of the cluster of each document that is in one, by the hash of its id.
    pub(crate) cluster_of: HashMap<u64, u32>,
    /// True if both documents of every pair must be in one cluster, as connected linkage has it.
    pub(crate) connected: bool,
    /// The threshold that pairs of different texts must reach; none if the run verified nothing.
    pub(crate) passing: Option<f64>,
}

impl Together {
    /// The problem of a pair with these ids and this similarity, if it has one. `near` is true for different texts.
    fn problem(&self, [a, b]: [&str; 2], similarity: Option<f64>, near: bool) -> Option<&'static str> {
        /// Similarities are written with four decimals.
        const ROUNDED: f64 = 5.1e-5;
        let [a, b] = [a, b].map(|id| self.cluster_of.get(&feature(id.as_bytes())));
        // With stars, a kept document without a cluster may be near one that was removed for a third.
        if a.is_none() && b.is_none() || self.connected && a.is_none() | b.is_none() {
            return Some("a document that is in no cluster of clusters.csv");
        }
        if self.connected && a != b {
            return Some("documents of two clusters of clusters.csv");
        }
        let below = near && self.passing.zip(similarity).is_some_and(|(least, s)| s < least - ROUNDED);
        below.then_some("a similarity below the threshold of the check")
    }
}

/// Checks a `pairs.csv`, against the rest of its result if that is given, and counts its rows.
pub(crate) fn pairs(path: &Path, together: Option<&Together>) -> Result<(Inspection, u64)> {
    let mut inspection = Inspection::of("table of pairs");
    Table::open_ours(path)?.begins_with(&PairRow::COLUMNS[..6])?;
    let mut reader = PairsReader::open(path)?;
    let mut measures: BTreeMap<String, u64> = BTreeMap::new();
    let (mut rows, mut least) = (0, f64::INFINITY);
    while let Some(row) = inspection.row(reader.next_row()) {
        rows += 1;
        let mut wrong = |what: &str| inspection.problem_at(path, row.line, what);
        let measure = row.measure();
        if let Some(name) = measure {
            *measures.entry(name.to_owned()).or_default() += 1;
        }
        let similarity = row.similarity().ok().flatten().filter(|share| (0.0..=1.0).contains(share));
        match similarity {
            Some(similarity) => least = least.min(similarity),
            None => wrong("no similarity from 0 to 1"),
        }
        let distance = match row.distance() {
            Ok(distance) if distance.is_none_or(|bits| bits <= BITS as u32) => distance,
            _ => {
                wrong("no distance of 64 bits");
                None
            }
        };
        let exact = row.kind() == PairKind::Exact;
        // Without the column `measure`, the kind alone says which pairs are of one text.
        let copies = measure.map_or(exact, |measure| measure == "text");
        if copies != exact || (copies && similarity != Some(1.0)) {
            wrong("a pair of kind exact has the measure text and a similarity of 1, and no other pair has");
        }
        if let (Some("hash-cosine"), Some(distance), Some(similarity)) = (measure, distance, similarity)
            && (f64::from(cosine_of_distance(distance)) - similarity).abs() > 1e-4
        {
            wrong("the similarity is not that of the distance");
        }
        let ids = [row.a_id(), row.b_id()];
        if ids[0] == ids[1] {
            wrong("a document paired with itself");
        } else if let Some(problem) = together.and_then(|t| t.problem(ids, similarity, !copies)) {
            wrong(problem);
        }
    }
    inspection.check_end(path)?;
    inspection.fact("pairs", rows);
    if rows > 0 {
        inspection.fact("least similarity", least);
    }
    for (name, pairs) in measures {
        inspection.fact(format!("pairs by similarity {name}"), pairs);
    }
    inspection.fact(OF_TABLES.0, OF_TABLES.1);
    Ok((inspection, rows))
}

/// The counts of a `clusters.csv`.
pub(crate) struct CheckedClusters {
    /// Number of rows: documents that are in a cluster.
    pub(crate) documents: u64,
    /// Number of clusters.
    pub(crate) clusters: u64,
    /// The number of the cluster of each document, by the hash of its id.
    pub(crate) cluster_of: HashMap<u64, u32>,
}

/// Checks a `clusters.csv`, and counts its documents and clusters. With `quota`, that of the run, also checks the
/// number of kept documents of each cluster.
pub(crate) fn clusters(path: &Path, quota: Option<Quota>) -> Result<(Inspection, CheckedClusters)> {
    /// The counts of a cluster by its rows.
    struct ClusterRows {
        number: u32,
        /// The size that its first row says.
        size: Option<u64>,
        members: u64,
        kept: u64,
        /// Members that are reference documents; all of them count as kept.
        references: u64,
    }
    let mut inspection = Inspection::of("table of clusters");
    Table::open_ours(path)?.begins_with(&ClusterRow::COLUMNS[..5])?;
    let mut reader = ClustersReader::open(path)?;
    let mut by_cluster: BTreeMap<String, ClusterRows> = BTreeMap::new();
    let mut cluster_of = HashMap::new();
    let mut documents = 0;
    while let Some(row) = inspection.row(reader.next_row()) {
        let number = by_cluster.len() as u32;
        let entry = by_cluster.entry(row.cluster().to_owned()).or_insert_with(|| ClusterRows {
            number,
            size: row.size(),
            members: 0,
            kept: 0,
            references: 0,
        });
        entry.members += 1;
        entry.kept += u64::from(row.kept() == Some(true));
        entry.references += u64::from(row.is_reference());
        documents += 1;
        let mut wrong = |what: &str| inspection.problem_at(path, row.line, what);
        if row.size() != entry.size {
            wrong("another size than the rows before say of the cluster");
        }
        match row.kept() {
            None => wrong("kept is neither true nor false"),
            Some(false) if row.is_reference() => wrong("a reference document that does not stay"),
            Some(_) => {}
        }
        if cluster_of.insert(feature(row.id().as_bytes()), entry.number).is_some() {
            wrong("a document that is there already");
        }
    }
    for (cluster, ClusterRows { size, members, kept, references, .. }) in &by_cluster {
        let least = (*references).max(1);
        let stay = match quota {
            Some(Quota { count, each: None }) => {
                let stay = least.max((*members).min(u64::from(count)));
                stay..=stay
            }
            _ => least..=*members,
        };
        if *size != Some(*members) || !stay.contains(kept) || *members < 2 {
            let size = size.map_or_else(|| "no number of".to_owned(), |size| size.to_string());
            inspection.problem(format!(
                "{}: cluster {cluster} says {size} documents, has {members}, and keeps {kept}",
                path.display()
            ));
        }
    }
    inspection.check_end(path)?;
    let clusters = by_cluster.len() as u64;
    inspection.fact("clusters", clusters);
    inspection.fact("documents", documents);
    inspection.fact(OF_TABLES.0, OF_TABLES.1);
    Ok((inspection, CheckedClusters { documents, clusters, cluster_of }))
}

/// Checks a `documents.csv` or `removed.csv`. Gives the number of its rows, then that of kept documents among them.
pub(crate) fn documents(path: &Path) -> Result<(Inspection, [u64; 2])> {
    let mut inspection = Inspection::of("table of documents");
    let mut table = Table::open_ours(path)?;
    table.begins_with(DocumentRow::COLUMNS)?;
    let mut row = StringRecord::new();
    let (mut rows, mut kept, mut last) = (0, 0, None);
    while let Some(line) = inspection.row(table.next(&mut row)) {
        rows += 1;
        let mut wrong = |what: &str| inspection.problem_at(path, line, what);
        let is_kept = match &row[6] {
            "true" => true,
            "false" => false,
            _ => {
                wrong("kept is neither true nor false");
                continue;
            }
        };
        kept += u64::from(is_kept);
        if is_kept != (row[2] == row[7]) {
            wrong("a document stays exactly where it stays for itself");
        }
        if row[4].is_empty() != (&row[5] == "1") {
            wrong("a cluster has two documents or more, and a document without one is alone");
        }
        if !row[8].is_empty() && !row[8].parse().is_ok_and(|share: f64| (0.0..=1.0).contains(&share)) {
            wrong("no similarity from 0 to 1");
        }
        // Documents stand in the order of their files.
        let place = row[1].parse::<u64>().ok().map(|number| (row[0].to_owned(), number));
        match (&place, &last) {
            (None, _) => wrong("no number of a document"),
            (Some((file, number)), Some((other, before))) if file == other && number <= before => {
                wrong("a document that stands behind a later one of its file");
            }
            _ => {}
        }
        last = place.or(last);
    }
    inspection.check_end(path)?;
    inspection.fact("documents", rows);
    inspection.fact("of these kept", kept);
    inspection.fact(OF_TABLES.0, OF_TABLES.1);
    Ok((inspection, [rows, kept]))
}
