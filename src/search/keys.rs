//! Keys from the data: balanced, weakly correlated bits, so that few hashes share one by chance. Ours, not the paper's.
//!
//! Write bits as ±1. Two hashes drawn at random agree in all bits of a set S with probability 2^−|S| · Σ (E Π_{j∈A} xⱼ)² over
//! all subsets A of S. Of the sum the terms of one and of two bits are measured on a sample: a bit costs the square of its
//! mean, a pair of bits the square of the mean of its product. Bits are given to the keys in turn, to each the one that
//! costs it least.

use crate::error::{Error, Result};
use crate::simhash::BITS;
use rayon::prelude::*;

/// Chooses `tables` disjoint keys of `key_bits` bits each, as masks, by a sample of the stored hashes. They depend neither on
/// the order of the sample nor on the number of threads. For [`DialParams::keys`](super::dial::DialParams::keys).
///
/// # Errors
/// [`Error::Parameter`] if so many bits are not there.
pub fn choose(sample: &[u64], tables: u32, key_bits: u32) -> Result<Vec<u64>> {
    if u64::from(tables) * u64::from(key_bits) > BITS as u64 {
        let expected = format!("at most {} for {tables} tables", BITS as u32 / tables.max(1));
        return Err(Error::parameter("key-bits", key_bits, expected));
    }
    let products = products(sample);
    let mut free: Vec<usize> = (0..BITS).collect();
    let mut keys: Vec<Vec<usize>> = vec![Vec::new(); tables as usize];
    for _ in 0..key_bits {
        for key in &mut keys {
            let cost =
                |bit: usize| products[bit][bit] + key.iter().map(|&other| products[bit][other]).sum::<f64>();
            // Of equally cheap ones the highest bit: with an even sample, or none, keys are made of leading bits.
            let best = (0..free.len()).rev().min_by(|&a, &b| cost(free[a]).total_cmp(&cost(free[b])));
            key.push(free.remove(best.expect("there are bits enough")));
        }
    }
    Ok(keys.iter().map(|key| key.iter().fold(0, |mask, bit| mask | 1 << bit)).collect())
}

/// The squares of the means of xᵢ·xⱼ, and of xᵢ where i = j.
fn products(sample: &[u64]) -> Vec<[f64; BITS]> {
    let square = |ones: u64| {
        let mean = if sample.is_empty() { 0.0 } else { 2.0 * ones as f64 / sample.len() as f64 - 1.0 };
        mean * mean
    };
    let of = |i: usize| {
        let mut ones = [0u64; BITS];
        for &hash in sample {
            // Bit j says whether bits i and j are equal; bit i is the bit itself.
            let mut equal = if hash >> i & 1 == 1 { hash } else { !hash };
            equal = equal & !(1 << i) | hash & 1 << i;
            for (j, ones) in ones.iter_mut().enumerate() {
                *ones += equal >> j & 1;
            }
        }
        ones.map(square)
    };
    (0..BITS).into_par_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::search::dial::{Dial, DialParams, order_of};
    use crate::search::linear::Linear;
    use crate::search::{HammingIndex, Mode, Query, Scratch};

    /// Bits 40 to 47 are nearly always set, bits 50 to 63 are equal to one another.
    fn skewed(n: usize, seed: u64) -> Vec<u64> {
        let mut rng = SplitMix64::new(seed);
        let mut one = || {
            let (hash, rare) = (rng.next_u64(), rng.next_u64() & rng.next_u64() & rng.next_u64());
            let alike = if hash >> 63 == 1 { u64::MAX << 50 } else { 0 };
            (hash >> 14 | 0xff << 40) & !(rare & 0xff << 40) & !(u64::MAX << 50) | alike
        };
        (0..n).map(|_| one()).collect()
    }

    #[test]
    fn constant_and_repeated_bits_are_left_out() {
        let sample = skewed(4_000, 1);
        let keys = choose(&sample, 2, 16).unwrap();
        assert!(keys.iter().all(|key| key.count_ones() == 16) && keys[0] & keys[1] == 0);
        for key in &keys {
            assert_eq!(key & 0xff << 40, 0, "{key:x}");
            assert!((key & u64::MAX << 50).count_ones() <= 1, "{key:x}");
        }
        let mut backwards = sample.clone();
        backwards.reverse();
        assert_eq!(choose(&backwards, 2, 16).unwrap(), keys);
        // As many as there are at most.
        let all = choose(&sample, 4, 16).unwrap();
        assert_eq!(all.iter().fold(0, |all, key| all | key), u64::MAX);
        assert!(choose(&sample, 4, 17).is_err() && choose(&[], 2, 8).is_ok());
    }

    #[test]
    fn the_index_finds_the_same_with_fewer_comparisons() {
        let mut hashes = skewed(6_000, 2);
        let mut rng = SplitMix64::new(3);
        let near: Vec<u64> =
            hashes.iter().step_by(5).map(|hash| hash ^ 1 << rng.below(64) ^ 1 << rng.below(64)).collect();
        hashes.extend(near);
        hashes.sort_unstable();
        hashes.dedup();
        let weights = std::array::from_fn(|bit| (bit as f32 * 0.37).sin());
        let found = |index: &dyn HammingIndex, list: &[u64]| {
            let (mut scratch, mut all, mut candidates) = (Scratch::default(), Vec::new(), 0);
            for &hash in hashes.iter().step_by(17) {
                let mut hits = Vec::new();
                let cost =
                    index.search(Query { hash, weights: &weights }, Mode::All, &mut scratch, &mut hits);
                candidates += cost.candidates;
                all.extend(hits.iter().map(|hit| (hash, list[hit.slot as usize], hit.distance)));
            }
            all.sort_unstable();
            (all, candidates)
        };
        let (expected, _) = found(&Linear::new(&hashes, 5).unwrap(), &hashes);
        let params = DialParams { radius: 5, tables: 2, key_bits: Some(12), ..DialParams::default() };
        let (leading, many) = found(&Dial::new(&hashes, params.clone()).unwrap(), &hashes);
        let keys = choose(&hashes, 2, 12).unwrap();
        let mut ordered = hashes.clone();
        ordered.sort_unstable_by_key(|&hash| order_of(hash, keys[0]));
        let (chosen, few) =
            found(&Dial::new(&ordered, DialParams { keys: Some(keys), ..params }).unwrap(), &ordered);
        assert!(leading == expected && chosen == expected);
        assert!(few * 2 < many, "{few} {many}");
    }
}
