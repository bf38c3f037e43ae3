//! The records that stages sort: numbers with the greatest byte first, so that their bytes are in their order.

use simflip_core::buckets;
use simflip_core::id::Id;

/// Bytes of a document's number.
pub const DOCUMENT: usize = 5;
/// The most documents of a run.
pub const MOST_DOCUMENTS: u64 = 1 << 40;

/// A document's number as a record has it.
pub fn document_bytes(document: u64) -> [u8; DOCUMENT] {
    let [_, _, _, a, b, c, d, e] = document.to_be_bytes();
    [a, b, c, d, e]
}

/// The number of five bytes.
pub fn document_of(bytes: &[u8]) -> u64 {
    bytes[..DOCUMENT].iter().fold(0, |document, &byte| document << 8 | u64::from(byte))
}

/// Two documents that belong together: later document 5, earlier document 5, distance 2, which also tells whether the
/// pair is only listed, similarity 4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The greater number.
    pub later: u64,
    /// The lesser number.
    pub earlier: u64,
    /// Hamming distance of their hashes; none for copies of a text.
    pub distance: Option<u32>,
    /// Similarity by verification's measure.
    pub similarity: f32,
    /// False for a pair that is only listed, and that no document is removed by.
    pub decides: bool,
}

/// Added to the distance of a pair that is only listed.
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

/// Takes the ranks of an edge, its places in keep order, for documents.
impl From<buckets::Edge> for Edge {
    fn from(edge: buckets::Edge) -> Self {
        let [later, earlier] = [edge.document, edge.leader].map(|rank| u64::from(rank.number()));
        let buckets::Edge { distance, similarity, decides, .. } = edge;
        Self { later, earlier, distance: Some(u32::from(distance)), similarity, decides }
    }
}

/// The assignment of a document in a cluster: document 5 bytes, kept document 5, number of the cluster 5, documents in
/// it 5, similarity with the kept document 4. The similarity also says if the document is kept besides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assignment {
    /// The document.
    pub document: u64,
    /// The document that stays; itself, if it does.
    pub representative: u64,
    /// The cluster, counted in order of first documents.
    pub cluster: u64,
    /// Documents in it.
    pub size: u64,
    /// The similarity with the document that stays, where the two were compared.
    pub similarity: Option<f32>,
    /// True if it stays itself, beside the document that others of the cluster go for.
    pub also_kept: bool,
}

/// A number that is none, for the similarity of what stays beside.
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
