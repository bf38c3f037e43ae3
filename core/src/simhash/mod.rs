//! SimHash: 64 bits, and the weight vector behind them (Charikar 2002; Sood & Loguinov 2011, section 3).

pub mod hasher;
pub mod quantised;
pub mod volatility;
pub mod vosh;

pub use crate::hash::BITS;

/// A SimHash with the weight vector that it was made from.
///
/// Bit `j` of `hash` (counted from the least significant) is 1 iff `weights[j] > 0`; a component of exactly 0
/// gives bit 0 and is the lowest-margin bit there is. With features of unit L2 norm a component has a variance near
/// 1, so the weights of different documents are on one scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimHash {
    /// The 64 bits.
    pub hash: u64,
    /// The sums whose signs are the bits.
    pub weights: [f32; BITS],
}

impl SimHash {
    /// The hash of a weight vector: one bit per component, set where the component is positive.
    pub fn from_weights(weights: [f32; BITS]) -> Self {
        let mut hash = 0;
        for (j, &w) in weights.iter().enumerate() {
            hash |= u64::from(w > 0.0) << j;
        }
        Self { hash, weights }
    }
}

/// Number of bits in which two hashes differ.
#[inline]
pub fn distance(a: u64, b: u64) -> u32 {
    (a ^ b).count_ones()
}
