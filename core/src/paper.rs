//! The method of *Probabilistic Near-Duplicate Detection Using Simhash* (Sood & Loguinov, CIKM 2011), in the order in
//! which to read it. `docs/paper-to-code.md` leads from each figure of the paper to its code, and lists the few files
//! that the method takes.
//!
//! 1. [`SimHasher`] adds up the weights of features, and a [`SimHash`] keeps the sums besides their 64 signs.
//! 2. [`Volatility`] orders the bits by how easily they flip, with [`FlipCost`] as the cost of a flip.
//! 3. [`Vosh`] yields sets of bits, the likeliest [`Flip`] first, from a heap.
//! 4. [`Psm`] looks the hash up in one table with these bits flipped, in two [readings](FlippedBits) of the paper.
//! 5. [`Bphs`] is the baseline of Manku, Jain & Das Sarma (2007), and [`Linear`] the definition that both are held
//!    against. All three are a [`HammingIndex`] over the [`DistinctHashes`] of a corpus.
//! 6. [`Batch`] answers many queries of [`Psm`] or [`Bphs`] in one pass of the stored hashes.
//! 7. [`recall`] measures how many flips find a wanted share of the neighbours.
//!
//! ```
//! use simflip_core::paper::{HammingIndex, Mode, Psm, PsmParams, Query, FlippedBits, Scratch, SimHash};
//!
//! // One sum of 64 is near zero, so its bit is the likeliest to differ in a near-duplicate.
//! let mut weights = [1.0; 64];
//! weights[60] = 0.1;
//! let asked = SimHash::from_weights(weights);
//! let stored = [asked.hash ^ 1 << 60];
//! let flipped_bits = FlippedBits::Key { key_bits: Some(16) };
//! let index = Psm::new(&stored, PsmParams { flipped_bits, budget: Some(2), ..PsmParams::default() })?;
//!
//! let (query, mut hits) = (Query { hash: asked.hash, weights: &asked.weights }, Vec::new());
//! let cost = index.search(query, Mode::All, &mut Scratch::default(), &mut hits);
//! assert_eq!((hits.len(), cost.probes), (1, 2), "the second look-up flips that bit");
//! # Ok::<(), simflip_core::Error>(())
//! ```

#[doc(no_inline)]
pub use crate::calibrate::{Calibration, SampleParams, recall};
#[doc(no_inline)]
pub use crate::search::batch::{Batch, Pass, PsmBatchParams};
#[doc(no_inline)]
pub use crate::search::bphs::{Bphs, BphsParams};
#[doc(no_inline)]
pub use crate::search::distinct::DistinctHashes;
#[doc(no_inline)]
pub use crate::search::linear::Linear;
#[doc(no_inline)]
pub use crate::search::psm::{FlippedBits, Psm, PsmParams};
#[doc(no_inline)]
pub use crate::search::{Cost, HammingIndex, Hit, Mode, Probing, Query, Scratch};
#[doc(no_inline)]
pub use crate::simhash::hasher::SimHasher;
#[doc(no_inline)]
pub use crate::simhash::volatility::{FlipCost, Volatility};
#[doc(no_inline)]
pub use crate::simhash::vosh::{Flip, Vosh};
#[doc(no_inline)]
pub use crate::simhash::{SimHash, distance};
