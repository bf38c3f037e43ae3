//! The records that stages sort: numbers with the greatest byte first, so that their bytes are in their order.

use simflip_core::buckets;
use simflip_core::id::Id;

/// Bytes of a page's number.
pub const PAGE: usize = 5;
/// The most pages of a run.
pub const MOST_PAGES: u64 = 1 << 40;

/// A page's number as a record has it.
pub fn page_bytes(page: u64) -> [u8; PAGE] {
    let [_, _, _, a, b, c, d, e] = page.to_be_bytes();
    [a, b, c, d, e]
}

/// The number of five bytes.
pub fn page_of(bytes: &[u8]) -> u64 {
    bytes[..PAGE].iter().fold(0, |page, &byte| page << 8 | u64::from(byte))
}

/// Two pages that belong together: later page 5, earlier page 5, distance 2, similarity 4.
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
}

/// Where a distance would stand, in an edge of copies.
const COPY: u16 = u16::MAX;

impl Edge {
    /// Bytes of a record.
    pub const WIDTH: usize = 2 * PAGE + 6;

    /// As bytes.
    pub fn bytes(&self) -> [u8; Self::WIDTH] {
        let mut bytes = [0; Self::WIDTH];
        bytes[..PAGE].copy_from_slice(&page_bytes(self.later));
        bytes[PAGE..2 * PAGE].copy_from_slice(&page_bytes(self.earlier));
        bytes[10..12].copy_from_slice(&self.distance.map_or(COPY, |distance| distance as u16).to_be_bytes());
        bytes[12..].copy_from_slice(&self.similarity.to_bits().to_be_bytes());
        bytes
    }

    /// From bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let distance = u16::from_be_bytes([bytes[10], bytes[11]]);
        let similarity = f32::from_bits(u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]));
        Self {
            later: page_of(bytes),
            earlier: page_of(&bytes[PAGE..]),
            distance: (distance != COPY).then_some(u32::from(distance)),
            similarity,
        }
    }
}

/// By the places in keep order.
impl From<buckets::Edge> for Edge {
    fn from(edge: buckets::Edge) -> Self {
        let [later, earlier] = [edge.document, edge.leader].map(|rank| u64::from(rank.number()));
        Self { later, earlier, distance: Some(u32::from(edge.distance)), similarity: edge.similarity }
    }
}

/// The assignment of a page in a cluster: page 5 bytes, the page that stays 5, number of the cluster 5, pages in it 5,
/// similarity with the page that stays 4, which also tells whether a page stays beside that one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assignment {
    /// The page.
    pub page: u64,
    /// The page that stays; itself, if it does.
    pub stays: u64,
    /// The cluster, counted in order of first pages.
    pub cluster: u64,
    /// Pages in it.
    pub size: u64,
    /// The similarity with the page that stays, where the two were compared.
    pub similarity: Option<f32>,
    /// True if it stays itself, beside the page that others of the cluster go for.
    pub beside: bool,
}

/// A number that is none, for the similarity of what stays beside.
const BESIDE: u32 = 0x7fc0_0001;

impl Assignment {
    /// Bytes of a record.
    pub const WIDTH: usize = 4 * PAGE + 4;

    /// As bytes.
    pub fn bytes(&self) -> [u8; Self::WIDTH] {
        let mut bytes = [0; Self::WIDTH];
        for (at, number) in [self.page, self.stays, self.cluster, self.size].into_iter().enumerate() {
            bytes[at * PAGE..][..PAGE].copy_from_slice(&page_bytes(number));
        }
        let similarity = match self.beside {
            true => BESIDE.to_be_bytes(),
            false => similarity_bytes(self.similarity),
        };
        bytes[4 * PAGE..].copy_from_slice(&similarity);
        bytes
    }

    /// From bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let number = |at: usize| page_of(&bytes[at * PAGE..]);
        Self {
            page: number(0),
            stays: number(1),
            cluster: number(2),
            size: number(3),
            similarity: similarity_of(&bytes[4 * PAGE..]),
            beside: bytes[4 * PAGE..].starts_with(&BESIDE.to_be_bytes()),
        }
    }
}

/// A similarity that may be missing.
pub fn similarity_bytes(similarity: Option<f32>) -> [u8; 4] {
    similarity.unwrap_or(f32::NAN).to_bits().to_be_bytes()
}

/// The similarity of four bytes.
pub fn similarity_of(bytes: &[u8]) -> Option<f32> {
    let similarity = f32::from_bits(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    (!similarity.is_nan()).then_some(similarity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written_and_ascend_as_they_should(
            numbers in prop::collection::vec(0..MOST_PAGES, 4), distance in prop::option::of(0u32..=64), similarity: u8,
        ) {
            let [later, earlier, cluster, size] = numbers[..] else { unreachable!() };
            let similarity = f32::from(similarity) / 255.0;
            let edge = Edge { later, earlier, distance, similarity };
            prop_assert_eq!(Edge::of(&edge.bytes()), edge);
            for (similarity, beside) in [(None, false), (Some(similarity), false), (None, true)] {
                let assignment = Assignment { page: later, stays: earlier, cluster, size, similarity, beside };
                prop_assert_eq!(Assignment::of(&assignment.bytes()), assignment);
            }
            let swapped = Edge { later: earlier, earlier: later, ..edge };
            prop_assert_eq!(edge.bytes().cmp(&swapped.bytes()), (later, earlier).cmp(&(earlier, later)));
        }
    }
}
