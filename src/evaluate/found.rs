//! The pairs and clusters of a result folder, to be compared with a truth or sampled. A record number is the place of a
//! document in the corpus, counted from 0.

use super::partition::Partition;
use crate::error::{Error, Result};
use crate::id::{Document, Id};
use crate::tables::{ClustersReader, PairLine, PairsReader};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use simflip_core::dedup::PairKind;
use std::path::{Path, PathBuf};

/// A pair that a run found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundPair {
    /// The document of the lesser number: its record number, or its place in [`ListedPairs::ids`].
    pub a: Document,
    /// The document of the greater number.
    pub b: Document,
    /// Hamming distance in bits, if the result has it.
    pub distance: Option<u32>,
    /// Similarity by the measure of the run, if the result has it.
    pub similarity: Option<f64>,
}

/// The pairs and clusters of a result, by record number. A part that the run did not write is `None`.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The pairs, each once, in ascending order.
    pub pairs: Option<Vec<FoundPair>>,
    /// The clusters; a record that no cluster names is alone.
    pub clusters: Option<Partition>,
}

/// The record numbers of a corpus by id.
pub struct RecordNames<'a> {
    count: u32,
    /// `None`: more than one record has this id.
    by_id: HashMap<&'a str, Option<Document>>,
}

impl<'a> RecordNames<'a> {
    /// `ids[i]` is the id of record i, counted from 0 over the documents of the corpus; empty for a record that could
    /// not be read.
    ///
    /// # Errors
    /// With 2³² records or more.
    pub fn new(ids: &'a [String]) -> Result<Self> {
        let too_many =
            |_| Error::parameter("input", format!("{} records", ids.len()), "fewer than 2^32 of them");
        let count = u32::try_from(ids.len()).map_err(too_many)?;
        let mut by_id = HashMap::with_capacity(ids.len());
        // A record that could not be read has no id.
        let named = ids.iter().zip(Document::all(ids.len())).filter(|(id, _)| !id.is_empty());
        for (id, record) in named {
            by_id.entry(id.as_str()).and_modify(|known| *known = None).or_insert(Some(record));
        }
        Ok(Self { count, by_id })
    }

    /// Number of records.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The record of this id; `None` if there is none. An error, if several records have the id, is two parts of a
    /// message: the wrong value, and what is expected.
    pub(super) fn find(&self, id: &str) -> Result<Option<Document>, (String, &'static str)> {
        match self.by_id.get(id) {
            Some(None) => Err((format!("the id {id:?}"), "an id that only one record of the corpus has")),
            known => Ok(known.copied().flatten()),
        }
    }
}

/// The pairs that a result lists, by their own numbering of documents, so that they can be
/// read without the corpus.
#[derive(Clone, Debug, Default)]
pub struct ListedPairs {
    /// The ids that pairs name, in order of appearance; a document's number is its place here.
    pub ids: Vec<String>,
    /// Pairs of near-duplicates with different texts, each once, in ascending order.
    pub near: Vec<FoundPair>,
    /// Pairs of exact duplicates, each once, in ascending order.
    pub copies: Vec<FoundPair>,
}

impl ListedPairs {
    /// Reads `pairs.csv` of a result folder, plain or gzip'd. Without a column `kind` all
    /// pairs are of different texts.
    ///
    /// # Errors
    /// If it is not there, or if a row is broken.
    pub fn read(folder: &Path) -> Result<Self> {
        let Some(path) = part(folder, "pairs.csv") else {
            return Err(Error::parameter("result", folder.display(), "a folder with pairs.csv"));
        };
        let mut reader = PairsReader::open(&path)?;
        let mut numbers: HashMap<String, Document> = HashMap::new();
        let (mut near, mut copies) = (Vec::new(), Vec::new());
        while let Some(row) = reader.next_row()? {
            let pair = found_pair(row, |id| {
                let next = u32::try_from(numbers.len())
                    .map(Document)
                    .map_err(|_| row.error("one id more", "fewer than 2^32 ids"))?;
                Ok(*numbers.entry_ref(id).or_insert(next))
            })?;
            match row.kind() {
                PairKind::Exact => copies.push(pair),
                PairKind::Near => near.push(pair),
            }
        }
        let mut ids = vec![String::new(); numbers.len()];
        for (id, number) in numbers {
            ids[number.index()] = id;
        }
        Ok(Self { ids, near: in_order(near), copies: in_order(copies) })
    }

    /// The number of each id.
    pub(super) fn numbers(&self) -> HashMap<&str, Document> {
        self.ids.iter().map(String::as_str).zip(Document::all(self.ids.len())).collect()
    }
}

impl Found {
    /// Reads `pairs.csv` (columns `a_id`, `b_id`, and `distance` and `similarity` if it has them) and
    /// `clusters.csv` (columns `id` and `cluster`) of the result folder, each plain or gzip'd (`.gz`).
    ///
    /// # Errors
    /// If neither is there, if a row is broken, or if clusters name a record twice. If an id is not one record's of the
    /// corpus: then the result is of another corpus.
    pub fn read(folder: &Path, records: &RecordNames<'_>) -> Result<Self> {
        let (pairs, clusters) = (part(folder, "pairs.csv"), part(folder, "clusters.csv"));
        if pairs.is_none() && clusters.is_none() {
            let expected = "a folder with pairs.csv or clusters.csv";
            return Err(Error::parameter("result", folder.display(), expected));
        }
        Ok(Self {
            pairs: pairs.map(|path| read_pairs(&path, records)).transpose()?,
            clusters: clusters.map(|path| read_clusters(&path, records)).transpose()?,
        })
    }
}

/// Sorts pairs: the lesser record first in each, the pairs ascending, each once. Pairs of a record with itself go.
pub(super) fn in_order(mut pairs: Vec<FoundPair>) -> Vec<FoundPair> {
    for pair in &mut pairs {
        (pair.a, pair.b) = (pair.a.min(pair.b), pair.a.max(pair.b));
    }
    pairs.retain(|pair| pair.a != pair.b);
    pairs.sort_by_key(|pair| (pair.a, pair.b));
    pairs.dedup_by_key(|pair| (pair.a, pair.b));
    pairs
}

/// The record of this id, or what is wrong with the id and what would be right.
fn record(id: &str, records: &RecordNames<'_>) -> Result<Document, (String, &'static str)> {
    records.find(id)?.ok_or_else(|| (format!("the id {id:?}"), "the id of a record of the corpus"))
}

/// A table of a result folder, plain or gzip'd.
fn part(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(name), folder.join(format!("{name}.gz"))].into_iter().find(|path| path.exists())
}

/// The pair of a row, its documents numbered by `number`.
fn found_pair(row: PairLine<'_>, mut number: impl FnMut(&str) -> Result<Document>) -> Result<FoundPair> {
    let (distance, similarity) = (row.distance()?, row.similarity()?);
    Ok(FoundPair { a: number(row.a_id())?, b: number(row.b_id())?, distance, similarity })
}

fn read_pairs(path: &Path, records: &RecordNames<'_>) -> Result<Vec<FoundPair>> {
    let mut reader = PairsReader::open(path)?;
    let mut pairs = Vec::new();
    while let Some(row) = reader.next_row()? {
        pairs.push(found_pair(row, |id| {
            record(id, records).map_err(|(got, expected)| row.error(got, expected))
        })?);
    }
    Ok(in_order(pairs))
}

fn read_clusters(path: &Path, records: &RecordNames<'_>) -> Result<Partition> {
    let mut reader = ClustersReader::open(path)?;
    let mut first: HashMap<String, Document> = HashMap::new();
    let mut named = vec![false; records.count() as usize];
    let mut joins = Vec::new();
    while let Some(row) = reader.next_row()? {
        let record = record(row.id(), records).map_err(|(got, expected)| row.error(got, expected))?;
        if std::mem::replace(&mut named[record.index()], true) {
            return Err(row.error(format!("the id {:?} again", row.id()), "one cluster for each record"));
        }
        joins.push((record, *first.entry_ref(row.cluster()).or_insert(record)));
    }
    Ok(Partition::from_pairs(records.count(), joins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn ids() -> Vec<String> {
        ["w", "x", "y", "z", "twin", "twin"].map(str::to_owned).to_vec()
    }

    fn read(pairs: Option<&str>, clusters: Option<&str>) -> Result<Found> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("pairs.csv", pairs), ("clusters.csv", clusters)] {
            if let Some(text) = text {
                fs::write(folder.path().join(name), text).unwrap();
            }
        }
        Found::read(folder.path(), &RecordNames::new(&ids())?)
    }

    #[test]
    fn reads_pairs_and_clusters() {
        let found = read(
            Some("a_id,b_id,a_url,b_url,distance,similarity,more\nz,w,u,v,3,0.5,\nx,x,u,v,0,1,\nw,z,u,v,3,0.5,\nx,y,u,v,,,\n"),
            Some("id,url,cluster,size,kept\nw,u,7,2,true\nz,u,7,2,false\nx,u,8,1,true\n"),
        )
        .unwrap();
        let pairs = found.pairs.unwrap();
        assert_eq!(pairs.len(), 2, "the self pair and the repeat are gone");
        assert_eq!(
            pairs[0],
            FoundPair { a: Document(0), b: Document(3), distance: Some(3), similarity: Some(0.5) }
        );
        assert_eq!(pairs[1], FoundPair { a: Document(1), b: Document(2), distance: None, similarity: None });
        assert_eq!(found.clusters.unwrap().labels(), [0, 1, 2, 0, 4, 5]);
        assert!(read(Some("a_id,b_id\n"), None).unwrap().clusters.is_none());
    }

    #[test]
    fn listed_pairs_need_no_corpus() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ListedPairs::read(folder.path()).is_err());
        let text = "a_id,b_id,a_url,b_url,distance,similarity,kind\nz,w,u,v,3,0.5,near\nx,z,u,v,0,1,exact\nw,z,u,v,3,0.5,near\n";
        fs::write(folder.path().join("pairs.csv"), text).unwrap();
        let listed = ListedPairs::read(folder.path()).unwrap();
        assert_eq!(listed.ids, ["z", "w", "x"]);
        assert_eq!(
            listed.near,
            [FoundPair { a: Document(0), b: Document(1), distance: Some(3), similarity: Some(0.5) }]
        );
        assert_eq!(
            listed.copies,
            [FoundPair { a: Document(0), b: Document(2), distance: Some(0), similarity: Some(1.0) }]
        );
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let line = |result: Result<Found>| match result {
            Err(Error::Table { line, expected, .. }) => (line, expected),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(None, None).unwrap_err().parameter_name(), Some("result"));
        assert_eq!(line(read(Some("a,b\n1,2\n"), None)).0, 1);
        assert_eq!(
            line(read(Some("a_id,b_id\nw,x\nw,other\n"), None)),
            (3, "the id of a record of the corpus".into())
        );
        assert_eq!(line(read(Some("a_id,b_id\nw,twin\n"), None)).0, 2);
        assert_eq!(line(read(Some("a_id,b_id,distance\nw,x,three\n"), None)), (2, "a whole number".into()));
        assert_eq!(line(read(Some("a_id,b_id,similarity\nw,x,NaN\n"), None)), (2, "a number".into()));
        assert_eq!(line(read(None, Some("id,cluster\nw,1\nw,2\n"))).0, 3);
    }
}
