//! The sketch estimate of seed 002, slides 20 to 22: five permutations of seven values.

use super::*;
use crate::features::{Overlap, overlap};

/// The permutations' factors as shares of the range, to as many digits as it takes to
/// get every printed value.
///
/// What is printed are multiples of a random number modulo 10,000.
/// [`Family::Multiply32`] takes them modulo 2³².
const FACTORS: [f64; 5] = [0.056845, 0.11507, 0.92239, 0.937615, 0.29764];

/// The hasher with these five permutations in the place of random ones.
fn hasher() -> MinHasher {
    let params = MinHashParams { permutations: FACTORS.len(), family: Family::Multiply32, seed: 0 };
    let mut functions = Affine { a: [1; BLOCK], b: [0; BLOCK] };
    for (a, factor) in functions.a.iter_mut().zip(FACTORS) {
        *a = (factor * 2f64.powi(32)) as u32 | 1;
    }
    let drawn = MinHasher::new(params).unwrap();
    MinHasher { functions: Functions::Multiply32(vec![functions]), ..drawn }
}

/// The signature, in the seed's range of 0 to 10,000.
fn sign(set: &[u64]) -> [u64; 5] {
    let mut signature = [EMPTY; 5];
    hasher().sign(set, &mut signature);
    signature.map(|value| (u64::from(value) * 10_000) >> 32)
}

#[test]
fn five_permutations_of_seed_002() {
    let permuted: [[u64; 5]; 7] = std::array::from_fn(|i| sign(&[i as u64 + 1]));
    assert_eq!(permuted.map(|values| values[0]), [568, 1136, 1705, 2273, 2842, 3410, 3979]);
    assert_eq!(permuted.map(|values| values[1]), [1150, 2301, 3452, 4602, 5753, 6904, 8054]);
    assert_eq!(permuted.map(|values| values[2]), [9223, 8447, 7671, 6895, 6119, 5343, 4567]);
    assert_eq!(permuted.map(|values| values[3]), [9376, 8752, 8128, 7504, 6880, 6256, 5633]);
    assert_eq!(permuted.map(|values| values[4]), [2976, 5952, 8929, 1905, 4881, 7858, 834]);
}

#[test]
fn two_of_five_estimate_three_of_seven() {
    let (a, b) = ([1, 2, 3, 4, 5], [1, 2, 5, 6, 7]);
    assert_eq!(sign(&a), [568, 1150, 6119, 6880, 1905]);
    assert_eq!(sign(&b), [568, 1150, 4567, 5633, 834]);

    let mut signatures = Signatures::new(5).unwrap();
    for set in [a, b] {
        let mut signature = [EMPTY; 5];
        hasher().sign(&set, &mut signature);
        signatures.push(&signature).unwrap();
    }
    assert_eq!(matches(signatures.get(0), signatures.get(1)), 2, "the estimate is 2/5");

    let counts = |set: [u64; 5]| set.map(|feature| (feature, 1));
    assert_eq!(overlap(&counts(a), &counts(b)), Overlap { shared: 3, only_a: 2, only_b: 2 }, "3/7");
}
