//! Hamming search: everything within h bits of a hash, behind one trait, with the cost of every answer counted.
//!
//! An index is built over *distinct* hashes (see [`distinct::DistinctHashes`]); an answer names slots of that list. All
//! radii are inclusive: "within h" means distance ≤ h.

pub mod bands;
pub mod distinct;

use crate::simhash::BITS;

/// What an index is asked: a hash and, for the probabilistic ones, the weights behind it.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The hash whose neighbours are wanted.
    pub hash: u64,
    /// The weight vector of the query document; only the magnitudes are used.
    pub weights: &'a [f32; BITS],
}

/// Whether a search wants every match or is content with one (A and F in the paper's Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every match within the radius that the search reaches (`A`).
    All,
    /// Stop at the first match (`F`).
    First,
}

/// A stored hash within the radius.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// Position of the hash in the list of distinct hashes that the index was built from.
    pub slot: u32,
    /// Hamming distance to the query, at most the radius.
    pub distance: u8,
}

/// The counted work of searches; costs add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cost {
    /// Places looked up: buckets, table ranges, or flipped hashes.
    pub probes: u64,
    /// Stored hashes fetched and compared with the query.
    pub candidates: u64,
    /// Comparisons that ended within the radius, before the same match from another table was dropped.
    pub verified: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.probes += other.probes;
        self.candidates += other.candidates;
        self.verified += other.verified;
    }
}
