//! The worked examples of the seeds, computed by this crate. The example of seed 001 stands beside
//! `SimHasher`, the sketch estimate of seed 002 beside `MinHasher`.

use simflip_core::features::{Overlap, jaccard, overlap};
use simflip_core::hash;
use simflip_core::simhash::hasher::SimHasher;
use simflip_core::simhash::{BITS, SimHash, distance};
use simflip_core::text::{FeatureExtractor, FeatureKind};
use simflip_core::weight::{FIXED_POINT_BITS, Weigher, Weighting};

/// Seed 003, step 3: the hashes of the words, 4 bits written left to right.
const HASHES: [(&str, u64); 10] = [
    ("the", 0b1101),
    ("quick", 0b1010),
    ("brown", 0b1001),
    ("fox", 0b1111),
    ("jumps", 0b0110),
    ("over", 0b1011),
    ("lazy", 0b1100),
    ("dog", 0b0101),
    ("fast", 0b0011),
    ("a", 0b0111),
];

/// The SimHash of a text whose words hash as in [`HASHES`] and count as often as they occur, and its sums,
/// which are the weights with their norm taken out.
///
/// The four bits are repeated sixteen times, so that they fill the 64 bits of ours: bit `j` is the example's
/// bit 4 − `j` mod 4, counted from the left as the seed does.
fn simhash_of(text: &str) -> (SimHash, [i64; BITS]) {
    let weigher = Weigher::new(Weighting::Tf);
    let features: Vec<(u64, i64)> = FeatureExtractor::new(FeatureKind::Words)
        .counts(text)
        .into_iter()
        .map(|(feature, occurrences)| {
            let (_, bits) = HASHES
                .iter()
                .find(|(word, _)| hash::feature(word.as_bytes()) == feature)
                .expect("a word of the example");
            (bits * 0x1111_1111_1111_1111, weigher.weight(occurrences, weigher.idf(1, 2)))
        })
        .collect();
    let counts = features.iter().map(|&(_, weight)| weight as f64 / f64::from(1 << FIXED_POINT_BITS));
    let norm = counts.map(|count| count * count).sum::<f64>().sqrt();
    let simhash = SimHasher::default().hash(features.into_iter());
    let sums = simhash.weights.map(|weight| {
        let sum = f64::from(weight) * norm;
        assert!((sum - sum.round()).abs() < 1e-5, "{sum} is a sum of whole numbers");
        sum.round() as i64
    });
    (simhash, sums)
}

/// Four values, written left to right, at the places of their bits.
fn repeated(left_to_right: [i64; 4]) -> [i64; BITS] {
    std::array::from_fn(|j| left_to_right[3 - j % 4])
}

#[test]
fn two_documents_of_seed_003() {
    let (first, sums) = simhash_of("the quick brown fox jumps over the lazy dog");
    // Step 4 prints 5, 3, -1, 2; the fourth column adds up to 3.
    assert_eq!(sums, repeated([5, 3, -1, 3]));
    assert_eq!(first.hash, 0xdddd_dddd_dddd_dddd, "1101");

    let (second, sums) = simhash_of("a fast brown fox jumps over the lazy dog");
    // Step 4 prints 0, 3, 1, 4; the first column adds up to 1. So step 5 is 1111, not 0111,
    assert_eq!(sums, repeated([1, 3, 1, 5]));
    assert_eq!(second.hash, 0xffff_ffff_ffff_ffff, "1111");

    // and the distance of step 6 is 1 of 4 bits, not 2.
    assert_eq!(distance(first.hash, second.hash), 16);
}

fn overlap_of(kind: FeatureKind, [a, b]: [&str; 2]) -> (Overlap, f64) {
    let mut extractor = FeatureExtractor::new(kind);
    let (a, b) = (extractor.counts(a), extractor.counts(b));
    (overlap(&a, &b), jaccard(&a, &b))
}

#[test]
fn roses_of_seed_002() {
    // Example of 4-shingles: 2 of 8, a resemblance of .25.
    let roses = ["a rose is red a rose is white", "a rose is white a rose is red"];
    let (overlap, resemblance) = overlap_of(FeatureKind::Shingles(4), roses);
    assert_eq!(overlap, Overlap { shared: 2, only_a: 3, only_b: 3 });
    assert_eq!(resemblance, 0.25);
}

#[test]
fn cats_and_dogs_of_seed_004() {
    // Section 1.1: 3 of 8 words.
    let pages = ["the black cat ate a mouse", "the black dog chased the cat"];
    let (overlap, similarity) = overlap_of(FeatureKind::Words, pages);
    assert_eq!(overlap, Overlap { shared: 3, only_a: 3, only_b: 2 });
    assert_eq!(similarity, 3.0 / 8.0);

    // Section 1.1: 1 by words, 3 of 5 pairs of neighbours.
    let pages = ["The dog chased the cat", "The cat chased the dog"];
    assert_eq!(overlap_of(FeatureKind::Words, pages).1, 1.0);
    let (overlap, similarity) = overlap_of(FeatureKind::Shingles(2), pages);
    assert_eq!(overlap, Overlap { shared: 3, only_a: 1, only_b: 1 });
    assert_eq!(similarity, 3.0 / 5.0);
}
