//! Many documents in columns, as an index that was empty takes them over without copying.

use crate::kernel::huge_pages;
use crate::settings::{Settings, Sketches};
use crate::sketch::{Facts, Hashed};

/// Documents in columns, as [`Index::fill`](super::Index::fill) takes them: what [`Index::kept`](super::Index::kept)
/// gives of each, at its own place. Columns are made as long as they are to be; then [rows](Self::rows)
/// are written, some by one thread and some by another.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    pub(super) digests: Vec<u128>,
    pub(super) features: Vec<u32>,
    /// True if a document has a sketch.
    pub(super) sketched: Vec<bool>,
    /// With both sketches, words of a document's bits.
    pub(super) words: usize,
    pub(super) hashes: Vec<u64>,
    pub(super) bits: Vec<u64>,
    /// By bands; none where tables come with the documents.
    pub(super) keys: Vec<Vec<u32>>,
    /// With a SimHash.
    pub(super) hashed: Vec<Option<Hashed>>,
}

impl Columns {
    /// Columns for so many documents of an index of such settings, all of them without a sketch. Documents whose tables
    /// are stored need no keys.
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

    /// All rows, to be written.
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

/// Makes zeros in memory that has not been touched, with room for some more, as [`lengthen`](super::lengthen) makes
/// it: the first document that comes need not move all.
fn zeros<T: Clone + Default>(count: usize) -> Vec<T> {
    let mut zeros = huge_pages::untouched(super::room(count));
    zeros.truncate(count);
    zeros
}

/// Some rows of columns, to be written.
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

    /// Takes off the first so many, or all if there are fewer.
    pub fn split(&mut self, rows: usize) -> Self {
        /// The first so many of a list; of an empty one, none.
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

    /// Writes a document with both sketches; none if these have another length, or there is no such row. Of columns
    /// without keys, the keys are left out.
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

    /// Writes a document with a SimHash; none if documents have others, or there is no such row.
    pub fn put_hashed(&mut self, row: usize, facts: &Facts, hashed: Hashed) -> Option<()> {
        *self.hashed.get_mut(row)? = Some(hashed);
        self.put(row, facts, true)
    }

    /// Writes a document without a sketch; none if there is no such row.
    pub fn put_bare(&mut self, row: usize, facts: &Facts) -> Option<()> {
        self.put(row, facts, false)
    }

    fn put(&mut self, row: usize, facts: &Facts, sketched: bool) -> Option<()> {
        *self.digests.get_mut(row)? = facts.digest;
        (self.features[row], self.sketched[row]) = (facts.features, sketched);
        Some(())
    }
}
