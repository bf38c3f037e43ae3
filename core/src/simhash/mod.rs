//! SimHash: 64 bits, and the weight vector behind them (Charikar 2002; Sood & Loguinov 2011, section 3). A component of
//! the vector is the sum W, over the features of a document, of their weights with a sign each; its sign is the bit.
//!
//! ```
//! use simflip_core::simhash::hasher::SimHasher;
//! use simflip_core::simhash::volatility::{FlipCost, Volatility};
//! use simflip_core::simhash::vosh::{Flip, Vosh};
//! use simflip_core::simhash::{SimHash, distance};
//!
//! let features: Vec<u64> = (1..=40).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
//! let simhash: SimHash = SimHasher::default().hash(features.iter().map(|&feature| (feature, 1 << 24)));
//! // The sets of bits that are likeliest to flip: first the bit of the least weight.
//! let order = Volatility::new(&simhash.weights, u64::MAX, FlipCost::Abs);
//! let lowest = 1 << order.bits()[0];
//! let Some(Flip { mask, .. }) = Vosh::new(order, 1..=3).next() else { panic!("there are 64 bits") };
//! assert_eq!((mask, distance(simhash.hash, simhash.hash ^ mask)), (lowest, 1));
//! ```

pub mod hasher;
#[doc(hidden)]
pub mod quantised;
pub mod volatility;
pub mod vosh;

#[doc(hidden)]
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
    /// The sums whose signs are the bits, by bit.
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
