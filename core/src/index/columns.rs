//! Many documents in columns, which an empty index takes over without copying.

use crate::kernel::huge_pages;
use crate::settings::{Settings, Sketches};
use crate::sketch::{Facts, Hashed};

/// Documents in columns for [`Index::fill`](super::Index::fill): the parts of each that
/// [`Index::kept`](super::Index::kept) gives, by the document's number. Columns get their final length first; then
/// threads write [rows](Self::rows), each a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// The digest of each document's text.
    pub(super) digests: Vec<u128>,
    /// The number of each document's features.
    pub(super) features: Vec<u32>,
    /// True for each document that has a sketch.
    pub(super) sketched: Vec<bool>,
    /// Words of 64 bits of each document's odd sketch; 0 for documents with a SimHash alone.
    pub(super) words: usize,
    /// The SimHash of each document with both sketches; empty for documents with a SimHash alone.
    pub(super) hashes: Vec<u64>,
    /// The odd sketches of all documents, `words` words each.
    pub(super) bits: Vec<u64>,
    /// For each band, the key of each document; no bands if stored tables come with the documents.
    pub(super) keys: Vec<Vec<u32>>,
    /// The sketch of each document with a SimHash alone, unless it has none; empty for documents with both sketches.
    pub(super) hashed: Vec<Option<Hashed>>,
}

impl Columns {
    /// Columns for so many documents of an index with these settings, whose rows are still to be written. They have
    /// room for keys if `keyed` is true; documents whose tables are stored need none.
    pub fn new(settings: &Settings, documents: usize, keyed: bool) -> Self {
        let (both, words, bands) = match settings.sketches {
            Sketches::Both { bits, banding } => (true, bits / u64::BITS as usize, banding.bands),
            _ => (false, 0, 0),
        };
        Self {
            digests: zeros(documents),
            features: zeros(documents),
            sketched: vec![false; documents],
            words,
            hashes: zeros(if both { documents } else { 0 }),
            bits: zeros(documents * words),
            keys: (0..if keyed { bands } else { 0 }).map(|_| zeros(documents)).collect(),
            hashed: vec![None; if both { 0 } else { documents }],
        }
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// True if there is no document.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// All rows, for writing.
    pub fn rows(&mut self) -> Rows<'_> {
        Rows {
            digests: &mut self.digests,
            features: &mut self.features,
            sketched: &mut self.sketched,
            words: self.words,
            hashes: &mut self.hashes,
            bits: &mut self.bits,
            keys: self.keys.iter_mut().map(Vec::as_mut_slice).collect(),
            hashed: &mut self.hashed,
        }
    }
}

/// Makes `count` zeros in untouched memory, with room for an eighth more, as [`lengthen`](super::lengthen) does: so the
/// first document that is added later need not move all.
fn zeros<T: Clone + Default>(count: usize) -> Vec<T> {
    let mut zeros = huge_pages::untouched(super::room(count));
    zeros.truncate(count);
    zeros
}

/// Some neighbouring rows of [`Columns`], for writing. A row is the place of a document; here rows count from 0. A row
/// for which a method gives none may be written in part.
#[derive(Debug)]
pub struct Rows<'c> {
    digests: &'c mut [u128],
    features: &'c mut [u32],
    sketched: &'c mut [bool],
    words: usize,
    hashes: &'c mut [u64],
    bits: &'c mut [u64],
    keys: Vec<&'c mut [u32]>,
    hashed: &'c mut [Option<Hashed>],
}

impl<'c> Rows<'c> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Takes off the first `rows` rows, or all if there are fewer, and gives them. The others count from 0 then.
    pub fn split(&mut self, rows: usize) -> Self {
        /// Takes off the first `count` of a list; none of an empty one.
        fn first<'c, T>(list: &mut &'c mut [T], count: usize) -> &'c mut [T] {
            list.split_off_mut(..count).unwrap_or_default()
        }
        let rows = rows.min(self.len());
        Self {
            digests: first(&mut self.digests, rows),
            features: first(&mut self.features, rows),
            sketched: first(&mut self.sketched, rows),
            words: self.words,
            hashes: first(&mut self.hashes, rows),
            bits: first(&mut self.bits, rows * self.words),
            keys: self.keys.iter_mut().map(|keys| first(keys, rows)).collect(),
            hashed: first(&mut self.hashed, rows),
        }
    }

    /// Writes a document with both sketches to a row: its SimHash, the words of its odd sketch and its keys. None if
    /// there are more or fewer words or keys than columns take, or no such row. Columns without keys take any keys, and
    /// do not keep them.
    pub fn put_both(
        &mut self,
        row: usize,
        facts: &Facts,
        hash: u64,
        bits: impl ExactSizeIterator<Item = u64>,
        keys: impl Iterator<Item = u32>,
    ) -> Option<()> {
        let ours = self.bits.get_mut(row * self.words..(row + 1) * self.words)?;
        if bits.len() != ours.len() {
            return None;
        }
        *self.hashes.get_mut(row)? = hash;
        ours.iter_mut().zip(bits).for_each(|(ours, bits)| *ours = bits);
        let (mut bands, mut more) = (self.keys.iter_mut(), keys);
        for key in more.by_ref().take(bands.len()) {
            bands.next()?[row] = key;
        }
        if bands.len() > 0 || !self.keys.is_empty() && more.next().is_some() {
            return None;
        }
        self.put(row, facts, true)
    }

    /// Writes a document with a SimHash alone to a row; none if the columns are of both sketches, or if there is no
    /// such row.
    pub fn put_hashed(&mut self, row: usize, facts: &Facts, hashed: Hashed) -> Option<()> {
        *self.hashed.get_mut(row)? = Some(hashed);
        self.put(row, facts, true)
    }

    /// Writes a document without a sketch, as it has too few features, to a row; none if there is no such row.
    pub fn put_bare(&mut self, row: usize, facts: &Facts) -> Option<()> {
        self.put(row, facts, false)
    }

    fn put(&mut self, row: usize, facts: &Facts, sketched: bool) -> Option<()> {
        *self.digests.get_mut(row)? = facts.digest;
        (self.features[row], self.sketched[row]) = (facts.features, sketched);
        Some(())
    }
}
