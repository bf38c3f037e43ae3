//! Keys of a dial's tables that are chosen by the stored hashes: balanced, weakly correlated bits, so that few hashes
//! share a key by chance. Ours, not the paper's.
//!
//! Write bits as ±1. Two hashes drawn at random agree in all bits of a set S with probability 2^−|S| · Σ (E Π_{j∈A}
//! xⱼ)² over all subsets A of S. Of the sum the terms of one and of two bits are measured on a sample: a bit costs the
//! square of its mean, a pair of bits the square of the mean of its product. Bits are given to the keys in turn, to
//! each the one that costs it least, and stay in that order. The first p of each make a key of p bits as good as if p
//! had been asked for. So an index that grows widens its keys, and the keys of its smaller parts are parts of them. An
//! [`Index`](crate::Index) that makes all probes is laid out with such keys.

use crate::error::{Error, Result};
use crate::hash::fmix64;
use crate::search::dial::MOST_TABLES;
use crate::simhash::BITS;

/// The bits of the keys of some tables, those of each key in the order in which they were chosen. Bit 0 is the least
/// significant of a hash. No bit is in two keys, and all keys have equally many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(Vec<Vec<u32>>);

impl Keys {
    /// Chooses ⌊64/t⌋ bits for the key of each of t tables by a sample of the stored hashes. The choice does not depend
    /// on the order of the sample.
    ///
    /// # Errors
    /// [`Error::Parameter`] for no tables, or more than [`MOST_TABLES`].
    pub fn choose(sample: &[u64], tables: u32) -> Result<Self> {
        if !(1..=MOST_TABLES).contains(&tables) {
            return Err(Error::parameter("tables", tables, format!("1 to {MOST_TABLES}")));
        }
        let products = products(sample);
        let mut free: Vec<u32> = (0..BITS as u32).collect();
        let mut keys: Vec<Vec<u32>> = vec![Vec::new(); tables as usize];
        for _ in 0..BITS as u32 / tables {
            for key in &mut keys {
                let cost = |bit: u32| {
                    let with = products[bit as usize];
                    with[bit as usize] + key.iter().map(|&other| with[other as usize]).sum::<f64>()
                };
                // Of equally cheap ones the highest bit.
                let best = (0..free.len()).rev().min_by(|&a, &b| cost(free[a]).total_cmp(&cost(free[b])));
                key.push(free.remove(best.expect("there are bits enough")));
            }
        }
        Ok(Self(keys))
    }

    /// Keys of the bits of these masks, one mask for each table. The highest bits count as chosen first.
    pub(super) fn of_masks(masks: &[u64]) -> Self {
        let bits = |&mask: &u64| (0..BITS as u32).rev().filter(|bit| mask >> bit & 1 == 1).collect();
        Self(masks.iter().map(bits).collect())
    }

    /// t: number of keys.
    pub fn tables(&self) -> u32 {
        self.0.len() as u32
    }

    /// Number of bits of each key.
    pub fn width(&self) -> u32 {
        self.0.first().map_or(0, Vec::len) as u32
    }

    /// The mask of each table's key, made of the first `key_bits` chosen bits, for
    /// [`DialParams::keys`](super::dial::DialParams::keys).
    ///
    /// # Errors
    /// [`Error::Parameter`] if keys have fewer bits.
    pub fn masks(&self, key_bits: u32) -> Result<Vec<u64>> {
        if key_bits > self.width() {
            let expected = format!("at most {} for {} tables", self.width(), self.tables());
            return Err(Error::parameter("key-bits", key_bits, expected));
        }
        let mask = |key: &Vec<u32>| key[..key_bits as usize].iter().fold(0, |mask, bit| mask | 1 << bit);
        Ok(self.0.iter().map(mask).collect())
    }
}

/// The fewest hashes that keys are chosen by. The mean of so many signs is known to 1/64; fewer say little of which
/// bits are balanced.
const FEWEST_SAMPLED: usize = 4096;

/// Most hashes of a sample.
const MOST_SAMPLED: usize = 1 << 16;

/// A sample of distinct hashes to choose keys by, at most 65,536; none if there are fewer than 4,096. Which hashes are
/// in it does not depend on their order.
pub fn sample(hashes: &[u64]) -> Option<Vec<u64>> {
    let mut sample: Vec<u64> = Vec::new();
    // Hashes come in portions, so that the sample never takes the memory of all.
    for portion in hashes.chunks(MOST_SAMPLED) {
        sample.extend(portion);
        if sample.len() > MOST_SAMPLED {
            sample.select_nth_unstable_by_key(MOST_SAMPLED, |&hash| fmix64(hash));
            sample.truncate(MOST_SAMPLED);
        }
    }
    (sample.len() >= FEWEST_SAMPLED).then_some(sample)
}

/// For each two bits i and j, the square of the mean of xᵢ·xⱼ over the sample; of xᵢ where i = j.
fn products(sample: &[u64]) -> Vec<[f64; BITS]> {
    let mut unequal = vec![[0u64; BITS]; BITS];
    for block in sample.chunks(64) {
        // For each bit, a mask of the hashes of the block that have it.
        let mut having = [0u64; BITS];
        for (place, hash) in block.iter().enumerate() {
            for (bit, having) in having.iter_mut().enumerate() {
                *having |= (hash >> bit & 1) << place;
            }
        }
        for (i, counts) in unequal.iter_mut().enumerate() {
            for (j, count) in counts.iter_mut().enumerate() {
                let differing = if i == j { having[i] } else { having[i] ^ having[j] };
                *count += u64::from(differing.count_ones());
            }
        }
    }
    let square = |count: u64| {
        let mean = 1.0 - 2.0 * count as f64 / sample.len().max(1) as f64;
        mean * mean
    };
    unequal.iter().map(|counts| counts.map(square)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::id::Id;
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

    fn choose(sample: &[u64], tables: u32, key_bits: u32) -> Vec<u64> {
        Keys::choose(sample, tables).unwrap().masks(key_bits).unwrap()
    }

    #[test]
    fn constant_and_repeated_bits_are_left_out() {
        let sample = skewed(4_000, 1);
        let keys = choose(&sample, 2, 16);
        assert!(keys.iter().all(|key| key.count_ones() == 16) && keys[0] & keys[1] == 0);
        for key in &keys {
            assert_eq!(key & 0xff << 40, 0, "{key:x}");
            assert!((key & u64::MAX << 50).count_ones() <= 1, "{key:x}");
        }
        let mut backwards = sample.clone();
        backwards.reverse();
        assert_eq!(choose(&backwards, 2, 16), keys);
        for tables in 1..=MOST_TABLES {
            let keys = Keys::choose(&sample, tables).unwrap();
            let width = 64 / tables;
            assert_eq!((keys.tables(), keys.width()), (tables, width));
            // Narrower keys are parts of wider ones, and all is disjoint.
            let mut before = vec![0; tables as usize];
            for p in 0..=width {
                let masks = keys.masks(p).unwrap();
                assert!(masks.iter().zip(&before).all(|(now, before)| now & before == *before));
                assert!(masks.iter().all(|mask| mask.count_ones() == p));
                assert_eq!(masks.iter().fold(0, |all, mask| all | mask).count_ones(), p * tables);
                before = masks;
            }
            assert!(keys.masks(width + 1).is_err());
            assert_eq!(Keys::of_masks(&before).masks(width).unwrap(), before);
        }
        assert!(Keys::choose(&sample, 0).is_err() && Keys::choose(&sample, 9).is_err());
        assert!(Keys::choose(&[], 2).is_ok());
    }

    #[test]
    fn products_are_those_of_the_definition() {
        for n in [0, 1, 63, 64, 65, 500] {
            let sample = skewed(n, 4);
            let sign = |hash: u64, bit: usize| if hash >> bit & 1 == 1 { 1.0 } else { -1.0 };
            for (i, row) in products(&sample).iter().enumerate() {
                for (j, &got) in row.iter().enumerate() {
                    let of = |&hash: &u64| if i == j { sign(hash, i) } else { sign(hash, i) * sign(hash, j) };
                    let mean = sample.iter().map(of).sum::<f64>() / n as f64;
                    assert!(n == 0 || (got - mean * mean).abs() < 1e-9, "{i} {j}: {got} {mean}");
                }
            }
        }
    }

    #[test]
    fn samples_are_bounded_and_in_no_order() {
        let mut rng = SplitMix64::new(8);
        let hashes: Vec<u64> = (0..3 * MOST_SAMPLED + 5).map(|_| rng.next_u64()).collect();
        let sorted = |hashes: &[u64]| {
            let mut sample = sample(hashes).unwrap();
            sample.sort_unstable();
            sample
        };
        let drawn = sorted(&hashes);
        let mut backwards = hashes.clone();
        backwards.reverse();
        assert_eq!(sorted(&backwards), drawn);
        let mut naive = hashes.clone();
        naive.sort_unstable_by_key(|&hash| fmix64(hash));
        naive.truncate(MOST_SAMPLED);
        naive.sort_unstable();
        assert_eq!(drawn, naive);
        assert_eq!(sample(&hashes[..FEWEST_SAMPLED]).unwrap().len(), FEWEST_SAMPLED);
        assert!(sample(&hashes[..FEWEST_SAMPLED - 1]).is_none());
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
                all.extend(hits.iter().map(|hit| (hash, list[hit.slot.index()], hit.distance)));
            }
            all.sort_unstable();
            (all, candidates)
        };
        let (expected, _) = found(&Linear::new(&hashes, 5).unwrap(), &hashes);
        let params = DialParams { radius: 5, tables: 2, key_bits: Some(12), ..DialParams::default() };
        let (leading, many) = found(&Dial::new(&hashes, params.clone()).unwrap(), &hashes);
        let keys = choose(&hashes, 2, 12);
        let mut ordered = hashes.clone();
        ordered.sort_unstable_by_key(|&hash| order_of(hash, keys[0]));
        let (chosen, few) =
            found(&Dial::new(&ordered, DialParams { keys: Some(keys), ..params }).unwrap(), &ordered);
        assert!(leading == expected && chosen == expected);
        assert!(few * 2 < many, "{few} {many}");
    }
}
