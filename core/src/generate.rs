//! Random near pairs of SimHashes, for plans, benchmarks and experiments that have no data or want none.
//!
//! The weights behind a hash are 64 independent numbers from N(0, 1). The weights of its near hash are the same vector,
//! turned by a small angle. Real documents do not change so evenly, but their near hashes differ where these do: in the
//! lowest-margin bits.
//!
//! The same seed gives the same bits on every machine and with every version of `rand`: the generator and its
//! sampling are of those that the crate keeps stable, and logarithms and cosines are computed by `libm`.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::simhash::{BITS, SimHash, distance};

/// The largest cosine of a document and its near one.
const NEAREST: f64 = 0.9999;

/// An endless iterator of pairs of SimHashes at a Hamming distance of 1 to h, the `distance` of [`new`](Self::new).
///
/// The cosine of the two weight vectors is drawn uniformly from 1 − 0.02·max(1, h²/9) to .9999 (from .1 where that
/// is less). Pairs at another distance are dropped, so the cosines of those that are left are not uniform.
#[derive(Clone, Debug)]
pub struct NearPairs {
    rng: Xoshiro256PlusPlus,
    distance: u32,
    /// The shift of each component.
    means: [f64; BITS],
}

impl NearPairs {
    /// Makes the pairs at a Hamming distance of 1 to `distance`, which is taken as 1 if it is less and as 32 if it is
    /// more. The same seed gives the same pairs.
    pub fn new(distance: u32, seed: u64) -> Self {
        Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            distance: distance.clamp(1, 32),
            means: [0.0; BITS],
        }
    }

    /// Gives the weights behind the bits set in `bits` the mean `by`, and all others the mean 0. Where `by` is
    /// positive, these bits are 1 more often than 0, and hashes lie closer to one another by chance.
    pub fn skewed(mut self, bits: u64, by: f64) -> Self {
        for (bit, mean) in self.means.iter_mut().enumerate() {
            *mean = if bits >> bit & 1 == 1 { by } else { 0.0 };
        }
        self
    }

    /// Draws one hash by itself: like the first of a pair, and near others by chance alone.
    pub fn single(&mut self) -> SimHash {
        let drawn = self.normals();
        SimHash::from_weights(std::array::from_fn(|bit| (self.means[bit] + drawn[bit]) as f32))
    }

    /// A hash at some angle to another.
    fn turned(&mut self, one: &SimHash) -> SimHash {
        let h = f64::from(self.distance);
        let farthest = (1.0 - 0.02 * (h * h / 9.0).max(1.0)).max(0.1);
        let cosine = farthest + (NEAREST - farthest) * self.rng.random::<f64>();
        let sine = libm::sqrt(1.0 - cosine * cosine);
        let drawn = self.normals();
        SimHash::from_weights(std::array::from_fn(|bit| {
            (cosine * f64::from(one.weights[bit]) + sine * drawn[bit]) as f32
        }))
    }

    /// Numbers from N(0, 1), two at a time by Box and Muller.
    fn normals(&mut self) -> [f64; BITS] {
        let mut numbers = [0.0; BITS];
        for two in numbers.chunks_exact_mut(2) {
            let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.rng.random::<f64>()));
            let angle = std::f64::consts::TAU * self.rng.random::<f64>();
            two.copy_from_slice(&[radius * libm::cos(angle), radius * libm::sin(angle)]);
        }
        numbers
    }
}

impl Iterator for NearPairs {
    type Item = [SimHash; 2];

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let one = self.single();
            let other = self.turned(&one);
            if (1..=self.distance).contains(&distance(one.hash, other.hash)) {
                return Some([one, other]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_at_every_distance_up_to_the_one_asked_for_and_no_other() {
        for most in [1, 3, 10, 32] {
            let mut seen = [0; BITS + 1];
            for [one, other] in NearPairs::new(most, 7).take(800) {
                assert_eq!(one.hash, SimHash::from_weights(one.weights).hash);
                seen[distance(one.hash, other.hash) as usize] += 1;
            }
            let most = most as usize;
            assert!(seen[1..=most].iter().all(|&pairs| pairs > 0), "{most}: {seen:?}");
            assert_eq!(seen[1..=most].iter().sum::<i32>(), 800, "{most}");
        }
        let far = |h| NearPairs::new(h, 1).take(20).all(|[a, b]| distance(a.hash, b.hash) == 1);
        assert!(far(0) && far(1) && NearPairs::new(99, 1).distance == 32);
    }

    #[test]
    fn weights_are_normal_and_bits_that_differ_are_weak() {
        let (mut sum, mut squares, mut beyond, mut n) = (0.0, 0.0, 0.0, 0.0);
        let (mut weak, mut strong) = ((0.0, 0.0), (0.0, 0.0));
        for [one, other] in NearPairs::new(3, 11).take(1_000) {
            for (bit, &weight) in one.weights.iter().enumerate() {
                let weight = f64::from(weight);
                sum += weight;
                squares += weight * weight;
                beyond += f64::from(u8::from(weight.abs() > 1.959_964));
                n += 1.0;
                let side = if (one.hash ^ other.hash) >> bit & 1 == 1 { &mut weak } else { &mut strong };
                *side = (side.0 + weight.abs(), side.1 + 1.0);
            }
        }
        // Which pairs are kept depends on the weights only a little.
        assert!((sum / n).abs() < 0.02 && (squares / n - 1.0).abs() < 0.02, "{sum} {squares} {n}");
        assert!((beyond / n - 0.05).abs() < 0.005, "{beyond} of {n}");
        assert!(weak.0 / weak.1 < 0.25 * strong.0 / strong.1, "{weak:?} {strong:?}");
    }

    #[test]
    fn skewed_bits_lean_as_given_and_others_do_not() {
        let mut pairs = NearPairs::new(3, 5).skewed(0xff << 56 | 1, -0.8);
        let mut ones = [0; BITS];
        for _ in 0..2_000 {
            let hash = pairs.single().hash;
            ones.iter_mut().enumerate().for_each(|(bit, ones)| *ones += hash >> bit & 1);
        }
        // P[N(−0.8, 1) > 0] = .212.
        for (bit, ones) in ones.into_iter().enumerate() {
            let wanted = if bit >= 56 || bit == 0 { 424 } else { 1_000 };
            assert!(ones.abs_diff(wanted) < 100, "bit {bit}: {ones}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bits_for_ever() {
        let first: Vec<[u64; 2]> =
            NearPairs::new(3, 2011).map(|pair| pair.map(|one| one.hash)).take(2).collect();
        assert_eq!(
            first,
            NearPairs::new(3, 2011).map(|pair| pair.map(|one| one.hash)).take(2).collect::<Vec<_>>()
        );
        assert_eq!(first, GOLDEN);
    }

    /// Computed by another implementation, in Python.
    const GOLDEN: [[u64; 2]; 2] =
        [[0xa6e7_d177_0e37_1c4e, 0xa6e7_f177_0e37_1c4e], [0xb7e8_0676_c176_17c4, 0xb7e8_0676_c176_12c4]];
}
