//! The name of a document inside a run.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use simflip_core::id::{Document, Id};

/// A document's place in the corpus: which input file, and which document of that file.
///
/// Both parts count from 0. `shard` is the position of the file in the *sorted* list of inputs, so ids do not
/// depend on the order in which files were named or read. `row` counts the documents of that file in file
/// order. Ordering ids orders documents by file and then by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocId {
    /// Position of the file in the sorted list of inputs.
    pub shard: u32,
    /// Position of the document among the documents of its file.
    pub row: u32,
}

impl DocId {
    /// The id of document `row` of file `shard`.
    pub const fn new(shard: u32, row: u32) -> Self {
        Self { shard, row }
    }
}

/// Where a record or line is stored, so that it can be read again on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Where decoding has to start, in the stored file: at the gzip member or Zstandard frame that the record
    /// starts in; in a plain file, at the record; in a Parquet file, at the text of its row group.
    pub offset: u64,
    /// Decoded bytes from there to the record. 0 if the record starts its member, and in plain
    /// files. In Parquet, rows.
    pub within: u64,
    /// Decoded bytes of the record: header block and text, or the line without its end. In
    /// Parquet, bytes of the text.
    pub length: u64,
    /// Stored bytes of the gzip member at `offset`, if it holds this record alone, as WARC wants it, and can
    /// be copied as it is; otherwise 0.
    pub member: u64,
}

/// The names, lengths and places of all documents, the strings of each thread in one block of memory.
#[derive(Clone, Debug, Default)]
pub struct DocumentTable {
    rows: Vec<Row>,
    /// Record id and URL of one document after the other.
    strings: Vec<String>,
}

/// A document without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which file, and which document of it.
    pub id: DocId,
    /// Where it is stored.
    pub place: Place,
    /// Where the strings of the row begin: which block, then where in it.
    start: u64,
    /// Lengths of record id and URL; `NONE` where there is none.
    record_id: u32,
    url: u32,
}

const NONE: u32 = u32::MAX;
/// Bits of a place in a block of strings.
const IN_BLOCK: u32 = 48;

impl DocumentTable {
    /// Adds a document.
    pub fn push(&mut self, id: DocId, place: Place, record_id: Option<&str>, url: Option<&str>) {
        if self.strings.is_empty() {
            self.strings.push(String::new());
        }
        // Once tables were put together, none of their blocks grows.
        let block = self.strings.len() - 1;
        let strings = &mut self.strings[block];
        let start = (block as u64) << IN_BLOCK | strings.len() as u64;
        let mut put = |string: Option<&str>| match string {
            // Names of 4 GiB are no names.
            Some(string) if string.len() < NONE as usize => {
                strings.push_str(string);
                string.len() as u32
            }
            _ => NONE,
        };
        let (record_id, url) = (put(record_id), put(url));
        self.rows.push(Row { id, place, start, record_id, url });
    }

    /// Puts the tables of several threads together, in order of ids. Also gives, for each document, the table
    /// that it came from and its place there.
    pub fn merge(parts: Vec<Self>) -> (Self, Vec<(u32, Document)>) {
        let mut origins: Vec<(u32, Document)> = (0..)
            .zip(&parts)
            .flat_map(|(part, table)| Document::all(table.rows.len()).map(move |at| (part, at)))
            .collect();
        // Each table is in order, or nearly: a stable sort merges what it finds so.
        origins.sort_by_key(|&(part, at)| parts[part as usize].rows[at.index()].id);
        let mut strings = Vec::with_capacity(parts.len());
        let (blocks, rows): (Vec<u64>, Vec<Vec<Row>>) = parts
            .into_iter()
            .map(|part| {
                let before = strings.len() as u64;
                strings.extend(part.strings);
                (before << IN_BLOCK, part.rows)
            })
            .unzip();
        let row = |&(part, at): &(u32, Document)| {
            let row = rows[part as usize][at.index()];
            Row { start: row.start + blocks[part as usize], ..row }
        };
        (Self { rows: origins.par_iter().map(row).collect(), strings }, origins)
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there is no document.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All documents in order of ids.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// A document.
    pub fn row(&self, document: Document) -> &Row {
        &self.rows[document.index()]
    }

    /// The record's own id, if it has one.
    pub fn record_id(&self, document: Document) -> Option<&str> {
        let row = self.row(document);
        (row.record_id != NONE).then(|| &self.behind(row)[..row.record_id as usize])
    }

    /// The URL, if there is one.
    pub fn url(&self, document: Document) -> Option<&str> {
        let row = self.row(document);
        let id = if row.record_id == NONE { 0 } else { row.record_id as usize };
        (row.url != NONE).then(|| &self.behind(row)[id..][..row.url as usize])
    }

    /// The strings of a row, and those behind it.
    fn behind(&self, row: &Row) -> &str {
        let (block, at) = (row.start >> IN_BLOCK, row.start & ((1 << IN_BLOCK) - 1));
        &self.strings[block as usize][at as usize..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_tables_are_in_order_and_keep_their_strings() {
        let mut parts = vec![DocumentTable::default(), DocumentTable::default()];
        let name = |n: u32| format!("name {n}");
        for n in [5u32, 0, 3, 1, 4, 2] {
            let (id, url) = (name(n), format!("url {n}"));
            let (id, url) = match n {
                0 => (None, None),
                1 => (None, Some(&url[..])),
                2 => (Some(&id[..]), None),
                _ => (Some(&id[..]), Some(&url[..])),
            };
            let place = Place { offset: u64::from(n), ..Place::default() };
            parts[n as usize % 2].push(DocId::new(n / 2, n % 2), place, id, url);
        }
        let (table, origins) = DocumentTable::merge(parts);
        assert_eq!(table.len(), 6);
        for n in 0..6 {
            let row = &table.rows()[n as usize];
            assert_eq!((row.id, row.place.offset), (DocId::new(n / 2, n % 2), u64::from(n)));
            assert_eq!(table.record_id(Document(n)), (n >= 2).then(|| name(n)).as_deref());
            assert_eq!(table.url(Document(n)), (n == 1 || n > 2).then(|| format!("url {n}")).as_deref());
            assert_eq!(origins[n as usize].0, n % 2);
        }
    }
}
