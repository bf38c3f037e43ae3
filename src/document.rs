//! Names of documents inside a run: the id of a document, the place where its record is stored, and a table of both for
//! all documents. The functions `put_…` and `take_…` write them as bytes, and read these back.

use serde::{Deserialize, Serialize};
use simflip_core::id::{Document, Id, Places};
use std::ops::Range;

/// A document's place in the corpus: which input file, and which document of that file.
///
/// Both parts count from 0. `shard` is the position of the file in the *sorted* list of inputs, so ids do not
/// depend on the order in which files were named or read. `row` counts the records of that file that may be
/// documents, in file order: a corrupt one has a row, too. Ids are in order of files and then of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocId {
    /// Position of the file in the sorted list of inputs, in which files of a reference set come last.
    pub shard: u32,
    /// Position of the document among the records of its file that may be documents.
    pub row: u32,
}

impl DocId {
    /// The id of document `row` of file `shard`.
    pub const fn new(shard: u32, row: u32) -> Self {
        Self { shard, row }
    }
}

/// The place where a record or line is stored, so that it can be read again on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The byte of the stored file where decoding has to start: at the gzip member or Zstandard frame that the record
    /// starts in. In a plain file it is that of the record; in a Parquet file, that of the texts of its row group, and
    /// in Arrow that of its record batch.
    pub offset: u64,
    /// Decoded bytes from there to the record: 0 if the record starts its member, and in plain
    /// files. In Parquet and Arrow, the number of rows before it in its row group or record batch.
    pub within: u64,
    /// Decoded bytes of the record: header block and text, or the line without its end. In
    /// Parquet and Arrow, bytes of the text.
    pub length: u64,
    /// Stored bytes of the gzip member at `offset`, if it holds this record alone, as WARC wants it, and can
    /// be copied as it is; otherwise 0.
    pub member: u64,
}

impl Place {
    /// Appends the place to `out`: its four fields by [`put_number`].
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        let Self { offset, within, length, member } = self;
        [offset, within, length, member].into_iter().for_each(|number| put_number(out, number));
    }

    /// Reads a place from the start of `bytes`, and moves `bytes` behind it. `None` as for [`take_number`].
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut number = || take_number(bytes);
        Some(Self { offset: number()?, within: number()?, length: number()?, member: number()? })
    }
}

/// Appends a number to `out`: seven bits to a byte, the lowest first. The highest bit of a byte says that more follow.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number of [`put_number`] from the start of `bytes`, and moves `bytes` behind it. `None` if the bytes end
/// within it, or it goes on after ten bytes.
pub(crate) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Appends a name to `out`, or a mark that there is none.
pub(crate) fn put_name(out: &mut Vec<u8>, name: Option<&str>) {
    put_number(out, name.map_or(0, |name| name.len() as u64 + 1));
    out.extend_from_slice(name.unwrap_or_default().as_bytes());
}

/// Reads what [`put_name`] wrote from the start of `bytes`, and moves `bytes` behind it. The inner `None` says that
/// there is no name, the outer one that the bytes are corrupt.
pub(crate) fn take_name<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a str>> {
    let Some(length) = take_number(bytes)?.checked_sub(1) else { return Some(None) };
    let (name, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    std::str::from_utf8(name).ok().map(Some)
}

/// The ids, places, record ids and URLs of documents, packed: some fifteen bytes a document beside its names. A
/// `Document` is a number here: the position in the table.
#[derive(Clone, Debug, Default)]
pub struct DocumentTable {
    blocks: Vec<RowBlock>,
    /// The block of each document, and its position there.
    places: Places,
    /// The id of each document: shard and row.
    ids: Places,
}

/// The place, the record id and the URL of one document after the other.
#[derive(Clone, Debug, Default)]
struct RowBlock {
    bytes: Vec<u8>,
    /// Where each document begins.
    starts: Vec<u32>,
}

impl DocumentTable {
    /// Adds a document at the end, in whatever order of ids.
    pub fn push(&mut self, id: DocId, place: Place, record_id: Option<&str>, url: Option<&str>) {
        // In a block, 32 bits say where a document begins.
        if self.blocks.last().is_none_or(|block| u32::try_from(block.bytes.len()).is_err()) {
            self.blocks.push(RowBlock::default());
        }
        let last = self.blocks.len() - 1;
        let RowBlock { bytes, starts } = &mut self.blocks[last];
        self.places.push(last as u32, starts.len() as u32);
        starts.push(bytes.len() as u32);
        place.put(bytes);
        [record_id, url].into_iter().for_each(|name| put_name(bytes, name));
        self.ids.push(id.shard, id.row);
    }

    /// Merges the tables of several threads into one whose ids ascend; names and places are not copied. Also gives, for
    /// one run of documents after the other in the merged table, the table that they come from and their numbers there.
    pub fn merge(tables: Vec<Self>) -> (Self, Vec<(u32, Range<u32>)>) {
        let mut runs = Vec::new();
        for (table, number) in tables.iter().zip(0..) {
            runs.extend(
                table.ids.runs().map(|(shard, row, documents)| (DocId { shard, row }, number, documents)),
            );
        }
        runs.sort_unstable_by_key(|&(id, ..)| id);
        let (mut before, mut blocks) = (Vec::new(), 0);
        for table in &tables {
            before.push(blocks);
            blocks += table.blocks.len() as u32;
        }
        let mut merged = Self::default();
        for (id, number, documents) in &runs {
            for (document, row) in documents.clone().zip(id.row..) {
                let (block, at) = tables[*number as usize].places.get(Document(document));
                merged.places.push(before[*number as usize] + block, at);
                merged.ids.push(id.shard, row);
            }
        }
        merged.blocks = tables.into_iter().flat_map(|table| table.blocks).collect();
        (merged, runs.into_iter().map(|(_, number, documents)| (number, documents)).collect())
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there is no document.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A document's id.
    pub fn id(&self, document: Document) -> DocId {
        let (shard, row) = self.ids.get(document);
        DocId { shard, row }
    }

    /// The ids of all documents, ascending in a merged table.
    pub fn ids(&self) -> impl Iterator<Item = DocId> {
        Document::all(self.len()).map(|document| self.id(document))
    }

    /// The document with an id in a merged table; `None` if there is none.
    pub fn find(&self, id: DocId) -> Option<Document> {
        let document = Document::at(self.ids.before(id.shard, id.row));
        (document.index() < self.len() && self.id(document) == id).then_some(document)
    }

    /// Number of documents in the files before file `shard`, in a merged table.
    pub fn before(&self, shard: u32) -> usize {
        self.ids.before(shard, 0)
    }

    /// Where a document is stored.
    pub fn place(&self, document: Document) -> Place {
        Place::take(&mut self.row(document)).unwrap_or_default()
    }

    /// The record's own id, if it has one.
    pub fn record_id(&self, document: Document) -> Option<&str> {
        self.names(document)?[0]
    }

    /// The URL, if there is one.
    pub fn url(&self, document: Document) -> Option<&str> {
        self.names(document)?[1]
    }

    fn names(&self, document: Document) -> Option<[Option<&str>; 2]> {
        let mut bytes = self.row(document);
        Place::take(&mut bytes)?;
        Some([take_name(&mut bytes)?, take_name(&mut bytes)?])
    }

    /// The bytes of a document, and those behind it.
    fn row(&self, document: Document) -> &[u8] {
        let (block, at) = self.places.get(document);
        let RowBlock { bytes, starts } = &self.blocks[block as usize];
        &bytes[starts[at as usize] as usize..]
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
        let (table, order) = DocumentTable::merge(parts);
        assert_eq!(table.len(), 6);
        let mut origins = order.into_iter().flat_map(|(part, run)| run.map(move |at| (part, at)));
        for n in 0..6 {
            let (document, id) = (Document(n), DocId::new(n / 2, n % 2));
            assert_eq!((table.id(document), table.place(document).offset), (id, u64::from(n)));
            assert_eq!((table.find(id), table.before(id.shard)), (Some(document), (n / 2 * 2) as usize));
            assert_eq!(table.record_id(document), (n >= 2).then(|| name(n)).as_deref());
            assert_eq!(table.url(document), (n == 1 || n > 2).then(|| format!("url {n}")).as_deref());
            let at = [5, 0, 3, 1, 4, 2]
                .into_iter()
                .filter(|pushed| pushed % 2 == n % 2)
                .position(|pushed| pushed == n);
            assert_eq!(origins.next(), at.map(|at| (n % 2, at as u32)));
        }
        assert_eq!(
            (table.before(3), table.find(DocId::new(1, 2)), table.find(DocId::new(3, 0))),
            (6, None, None)
        );
    }

    #[test]
    fn numbers_take_the_bytes_they_need_and_no_more_are_read() {
        for (number, length) in [(0, 1), (127, 1), (128, 2), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            assert_eq!((bytes.len(), take_number(&mut &bytes[..])), (length, Some(number)));
            assert_eq!(take_number(&mut &bytes[..length - 1]), None);
        }
        assert_eq!(take_number(&mut &[0x80; 11][..]), None);
    }
}
