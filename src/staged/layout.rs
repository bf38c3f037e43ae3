//! The layout of the body of a file of sketches: columns of fixed width, numbers with the least byte first. A column
//! has the values of all documents of the file in their order.

use crate::boilerplate::BoilerplateShare;
use simflip_core::settings::{Settings, Sketches};
use simflip_core::simhash::quantised::QuantisedWeights;

/// The layout of a body, which says where each column is, and how wide.
#[derive(Clone, Copy, Debug)]
pub struct BodyLayout {
    /// Number of documents of the file.
    pub documents: u64,
    /// Words of 8 bytes that a document has in [`Column::Bits`].
    pub words: usize,
    /// Number of columns [`Column::Keys`]: band hashes of a document. 0 for SimHashes, from which their keys are
    /// computed.
    pub bands: usize,
    /// True if there is a column [`Column::Scores`].
    pub scored: bool,
    /// True if there is a column [`Column::Shares`].
    pub parted: bool,
}

/// A column of a body. The number at the beginning is its bytes a document.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// 16: digests of texts.
    Digests,
    /// 4: numbers of distinct features, without those of boilerplate that was left out.
    Features,
    /// 4: lengths of whole texts in bytes.
    Lengths,
    /// 8: SimHashes; of MinHash one bit of each of the first 64 positions.
    Hashes,
    /// 8 for each word: the bits that are compared; of a SimHash the weight behind each of its bits, a byte each.
    Bits,
    /// 4: the band hashes, or keys, of the band of this number, counted from 0.
    Keys(usize),
    /// 8, if a field of scores was named: scores, negative infinity for a document that has no number there.
    Scores,
    /// 12, if boilerplate was left out: its share in each document, as [`share_bytes`] gives it.
    Shares,
}

impl BodyLayout {
    /// The layout for `documents` documents, without a column of shares. `None` if files of sketches cannot have
    /// sketches of these settings.
    pub fn new(settings: &Settings, documents: u64, scored: bool) -> Option<Self> {
        let (words, bands) = match (settings.sketches, settings.sketches.keyed()) {
            (_, Some((bits, banding))) => (bits / 64, banding.bands),
            (Sketches::SimHash { .. }, None) => (size_of::<QuantisedWeights>() / 8, 0),
            _ => return None,
        };
        Some(Self { documents, words, bands, scored, parted: false })
    }

    /// All columns, in their order.
    pub fn columns(&self) -> impl Iterator<Item = Column> {
        let first = [Column::Digests, Column::Features, Column::Lengths, Column::Hashes, Column::Bits];
        first
            .into_iter()
            .chain((0..self.bands).map(Column::Keys))
            .chain(self.scored.then_some(Column::Scores))
            .chain(self.parted.then_some(Column::Shares))
    }

    /// Bytes of a document in all columns together.
    pub fn width(&self) -> u64 {
        let further = 8 * u64::from(self.scored) + SHARE as u64 * u64::from(self.parted);
        32 + 8 * self.words as u64 + 4 * self.bands as u64 + further
    }

    /// The byte of the body at which a column begins, and its bytes a document.
    pub fn place(&self, column: Column) -> (u64, usize) {
        let bits = 8 * self.words as u64;
        let (before, width) = match column {
            Column::Digests => (0, 16),
            Column::Features => (16, 4),
            Column::Lengths => (20, 4),
            Column::Hashes => (24, 8),
            Column::Bits => (32, 8 * self.words),
            Column::Keys(band) => (32 + bits + 4 * band as u64, 4),
            Column::Scores => (32 + bits + 4 * self.bands as u64, 8),
            Column::Shares => (self.width() - SHARE as u64, SHARE),
        };
        (self.documents * before, width)
    }
}

/// Bytes of [`share_bytes`].
const SHARE: usize = 12;

/// The share of boilerplate in a document as bytes: its lines with words, and lines and bytes of boilerplate, 4 bytes
/// each. All bits are set for `None`: where its group has too few contents for boilerplate, or it has no group.
pub fn share_bytes(share: Option<BoilerplateShare>) -> [u8; SHARE] {
    let mut bytes = [u8::MAX; SHARE];
    if let Some(BoilerplateShare { lines, boilerplate_lines, boilerplate_bytes, .. }) = share {
        let numbers = [lines, boilerplate_lines, boilerplate_bytes];
        for (to, number) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *to = u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        }
    }
    bytes
}

/// The share that [`share_bytes`] wrote, of a document whose text has `length` bytes.
pub fn share_of(bytes: &[u8; SHARE], length: u32) -> Option<BoilerplateShare> {
    let mut numbers = [0; 3];
    numbers.iter_mut().zip(bytes.as_chunks().0).for_each(|(to, &of)| *to = u32::from_le_bytes(of).into());
    (*bytes != [u8::MAX; SHARE]).then(|| BoilerplateShare::of_document(length.into(), numbers))
}

/// The weights of a SimHash, from the bytes of its document in [`Column::Bits`].
pub fn weights_of(bytes: &[u8]) -> QuantisedWeights {
    let mut weights = [0; size_of::<QuantisedWeights>()];
    weights.iter_mut().zip(bytes).for_each(|(weight, &byte)| *weight = byte.cast_signed());
    QuantisedWeights::from_bytes(weights)
}

/// The numbers of four bytes in `bytes`, little-endian.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word))
}

/// The numbers of eight bytes in `bytes`, little-endian.
pub fn longs(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word))
}
