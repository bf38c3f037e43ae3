//! The layout of the body of a file of sketches: columns of fixed width, numbers with the least byte first.

use crate::boilerplate::BoilerplateShare;
use simflip_core::settings::{Settings, Sketches};
use simflip_core::simhash::quantised::QuantisedWeights;

/// The layout of a body: from it follow the place and the width of each column.
#[derive(Clone, Copy, Debug)]
pub struct BodyLayout {
    /// Documents of the file.
    pub documents: u64,
    /// Words of a document's bits; of a SimHash, of the weights behind it.
    pub words: usize,
    /// Keys of a document that stand in the file; those of a SimHash follow from it.
    pub bands: usize,
    /// True if documents have scores.
    pub scored: bool,
    /// True if boilerplate was left out of documents.
    pub parted: bool,
}

/// A column of a body.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// 16 bytes: digests of texts.
    Digests,
    /// 4: numbers of distinct features.
    Features,
    /// 4: bytes of texts.
    Lengths,
    /// 8: SimHashes.
    Hashes,
    /// 8 for each word: bits; of a SimHash the weight behind each of its bits, a byte each.
    Bits,
    /// 4: keys of a band.
    Keys(usize),
    /// 8, where a field of scores was named: scores, negative infinity where a document has no number there.
    Scores,
    /// 12, where boilerplate was left out: see [`share_bytes`].
    Shares,
}

impl BodyLayout {
    /// The layout of so many documents, if files of sketches can have those of these settings.
    pub fn new(settings: &Settings, documents: u64, scored: bool) -> Option<Self> {
        let (words, bands) = match settings.sketches {
            Sketches::Both { bits, banding } | Sketches::OneBit { bits, banding } => {
                (bits / 64, banding.bands)
            }
            Sketches::SimHash { .. } => (size_of::<QuantisedWeights>() / 8, 0),
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

    /// Bytes of a document.
    pub fn width(&self) -> u64 {
        let further = 8 * u64::from(self.scored) + SHARE as u64 * u64::from(self.parted);
        32 + 8 * self.words as u64 + 4 * self.bands as u64 + further
    }

    /// The place where a column begins, and its bytes a document.
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

/// The share of boilerplate in a document: its lines with words, and lines and bytes of boilerplate, 4 bytes each. All
/// bits are set where its group has too few contents for any, or it has no group.
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

/// The share of boilerplate in a document of so many bytes, taken back from its own bytes.
pub fn share_of(bytes: &[u8; SHARE], length: u32) -> Option<BoilerplateShare> {
    let mut numbers = [0; 3];
    numbers.iter_mut().zip(bytes.as_chunks().0).for_each(|(to, &of)| *to = u32::from_le_bytes(of).into());
    (*bytes != [u8::MAX; SHARE]).then(|| BoilerplateShare::of_document(length.into(), numbers))
}

/// The weights that a document has in its bits' place.
pub fn weights_of(bytes: &[u8]) -> QuantisedWeights {
    let mut weights = [0; size_of::<QuantisedWeights>()];
    weights.iter_mut().zip(bytes).for_each(|(weight, &byte)| *weight = byte.cast_signed());
    QuantisedWeights::from_bytes(weights)
}

/// Little-endian words.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word))
}

/// Little-endian words of eight bytes.
pub fn longs(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word))
}
