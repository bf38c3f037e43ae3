//! The records of files of edges, pairs and assignments, which stages sort. Numbers have the greatest byte first, so
//! that records in order of their bytes are in order of their numbers.

use simflip_core::buckets;
use simflip_core::id::Id;

/// Bytes of a document's number.
pub const DOCUMENT: usize = 5;
/// The most documents of a run.
pub const MOST_DOCUMENTS: u64 = 1 << 40;

/// A document's number as a record has it, in [`DOCUMENT`] bytes.
pub fn document_bytes(document: u64) -> [u8; DOCUMENT] {
    let [_, _, _, a, b, c, d, e] = document.to_be_bytes();
    [a, b, c, d, e]
}

/// The document's number in the first [`DOCUMENT`] bytes.
pub fn document_of(bytes: &[u8]) -> u64 {
    bytes[..DOCUMENT].iter().fold(0, |document, &byte| document << 8 | u64::from(byte))
}

/// Two documents that are near. In files of edges they are ranks, places in keep order: a document, and a leader that
/// it may be removed for. In files of pairs, which results list, they are document numbers.
///
/// The record has 16 bytes: later document 5, earlier document 5, distance 2, which also says if the pair is only
/// listed, similarity 4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The document of the greater rank or number.
    pub later: u64,
    /// The document of the lesser rank or number.
    pub earlier: u64,
    /// Hamming distance of their hashes in [`Column::Hashes`](super::layout::Column::Hashes), in bits. `None` for exact
    /// duplicates, which only files of pairs have.
    pub distance: Option<u32>,
    /// Similarity by verification's measure, 0 to 1; without one, the cosine that the distance stands for.
    pub similarity: f32,
    /// False for an edge that is only listed: no document is removed for it. In files of pairs it is always true.
    pub decides: bool,
}

/// The bit that is set in the distance of a pair that is only listed.
const LISTED: u16 = 1 << 15;
/// A mark in place of the distance, for an edge between exact duplicates.
const COPY: u16 = u16::MAX;

impl Edge {
    /// Bytes of a record.
    pub const WIDTH: usize = 2 * DOCUMENT + 6;

    /// The record as bytes.
    pub fn bytes(&self) -> [u8; Self::WIDTH] {
        let mut bytes = [0; Self::WIDTH];
        bytes[..DOCUMENT].copy_from_slice(&document_bytes(self.later));
        bytes[DOCUMENT..2 * DOCUMENT].copy_from_slice(&document_bytes(self.earlier));
        let listed = if self.decides { 0 } else { LISTED };
        let distance = self.distance.map_or(COPY, |distance| distance as u16 | listed);
        bytes[10..12].copy_from_slice(&distance.to_be_bytes());
        bytes[12..].copy_from_slice(&self.similarity.to_bits().to_be_bytes());
        bytes
    }

    /// Reads a record from bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let distance = u16::from_be_bytes([bytes[10], bytes[11]]);
        let similarity = f32::from_bits(u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]));
        Self {
            later: document_of(bytes),
            earlier: document_of(&bytes[DOCUMENT..]),
            distance: (distance != COPY).then_some(u32::from(distance & !LISTED)),
            similarity,
            decides: distance == COPY || distance & LISTED == 0,
        }
    }
}

/// The record of an edge, with ranks in place of document numbers.
impl From<buckets::Edge> for Edge {
    fn from(edge: buckets::Edge) -> Self {
        let [later, earlier] = [edge.document, edge.leader].map(|rank| u64::from(rank.number()));
        let buckets::Edge { distance, similarity, decides, .. } = edge;
        Self { later, earlier, distance: Some(u32::from(distance)), similarity, decides }
    }
}

/// The assignment of a document that is in a cluster. The record has 24 bytes: document 5, representative 5, cluster 5,
/// size 5, similarity 4, which also says if the document is kept besides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assignment {
    /// The number of the document.
    pub document: u64,
    /// The number of the kept document that it is removed for; its own, if it is kept.
    pub representative: u64,
    /// The number of its cluster: clusters are counted from 0 in the order of their first documents.
    pub cluster: u64,
    /// Number of documents in the cluster, itself included.
    pub size: u64,
    /// The similarity of a removed document with its representative, 0 to 1. `None` for a kept document, and where the
    /// two were not compared.
    pub similarity: Option<f32>,
    /// True if it is kept by a quota or as a reference document, and others of the cluster are removed for another one.
    pub also_kept: bool,
}

/// A NaN in place of the similarity, for a document that is kept besides.
const ALSO_KEPT: u32 = 0x7fc0_0001;

impl Assignment {
    /// Bytes of a record.
    pub const WIDTH: usize = 4 * DOCUMENT + 4;

    /// The record as bytes.
    pub fn bytes(&self) -> [u8; Self::WIDTH] {
        let mut bytes = [0; Self::WIDTH];
        for (at, number) in
            [self.document, self.representative, self.cluster, self.size].into_iter().enumerate()
        {
            bytes[at * DOCUMENT..][..DOCUMENT].copy_from_slice(&document_bytes(number));
        }
        let similarity =
            if self.also_kept { ALSO_KEPT } else { self.similarity.unwrap_or(f32::NAN).to_bits() };
        bytes[4 * DOCUMENT..].copy_from_slice(&similarity.to_be_bytes());
        bytes
    }

    /// Reads a record from bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let number = |at: usize| document_of(&bytes[at * DOCUMENT..]);
        let similarity = u32::from_be_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]);
        Self {
            document: number(0),
            representative: number(1),
            cluster: number(2),
            size: number(3),
            similarity: Some(f32::from_bits(similarity)).filter(|similarity| !similarity.is_nan()),
            also_kept: similarity == ALSO_KEPT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written_and_ascend_as_they_should(
            numbers in prop::collection::vec(0..MOST_DOCUMENTS, 4), distance in prop::option::of(0u32..=64), similarity: u8,
            listed: bool,
        ) {
            let [later, earlier, cluster, size] = numbers[..] else { unreachable!() };
            let similarity = f32::from(similarity) / 255.0;
            // Copies are never only listed.
            let decides = !listed || distance.is_none();
            let edge = Edge { later, earlier, distance, similarity, decides };
            prop_assert_eq!(Edge::of(&edge.bytes()), edge);
            for (similarity, also_kept) in [(None, false), (Some(similarity), false), (None, true)] {
                let assignment = Assignment { document: later, representative: earlier, cluster, size, similarity, also_kept };
                prop_assert_eq!(Assignment::of(&assignment.bytes()), assignment);
            }
            let swapped = Edge { later: earlier, earlier: later, ..edge };
            prop_assert_eq!(edge.bytes().cmp(&swapped.bytes()), (later, earlier).cmp(&(earlier, later)));
        }
    }
}
