//! Dense groups of hashes, as documents of one template have: their pairs would grow with the square of their number.
//!
//! A sample of all hashes says which of them are in a dense group. Such a hash is joined with what of the sample is
//! nearest to it, so that a group hangs together, and with those that stand beside it among all hashes of dense groups,
//! in several orders, so that a document of it that is not in the sample has neighbours that are not, either. To the
//! sample alone, few documents would be near one that stays.

use crate::hash::fmix64;
use crate::kernel::Level;
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// The most pairs of so many distinct hashes that are listed; where there are more, dense groups are sub-sampled.
pub const fn most_pairs(hashes: u64) -> u64 {
    const A_HASH: u64 = 32;
    const BESIDES: u64 = 1 << 24;
    hashes.saturating_mul(A_HASH).saturating_add(BESIDES)
}

/// Neighbours in the sample from which on a hash is of a dense group: the first number with which the others can be
/// joined. With the last one all are of dense groups.
pub(crate) const DENSE: [u32; 4] = [33, 9, 2, 0];
/// Neighbours in the sample that a hash of a dense group is joined with.
pub const SHOWN: usize = 32;
/// Neighbours in the sample that these are the nearest of: more are not seen for.
pub const SEEN: usize = 1024;

/// Hashes before it in an order that a hash is compared with.
const BESIDE: usize = 16;

/// An order of the hashes of dense groups in which those beside one another are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Hashes that stand together agree in bits from there on.
    from: u32,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 8] = {
        let mut all = [Self { from: 0 }; 8];
        let mut order = 1;
        while order < all.len() {
            all[order].from = order as u32 * 8;
            order += 1;
        }
        all
    };

    /// The key by which hashes are ordered.
    pub fn key(self, hash: u64) -> u64 {
        hash.rotate_left(self.from)
    }

    /// The hash that has a key.
    pub fn hash(self, key: u64) -> u64 {
        key.rotate_right(self.from)
    }
}

/// Bounds of a sample's size, of which it is a sixteenth otherwise.
const LEAST: usize = 1 << 10;
const MOST: usize = 1 << 16;
const ONE_OF: usize = 16;

/// Draws a sample of hashes that come one after the other. Which are drawn depends on the hashes alone.
#[derive(Clone, Debug, Default)]
pub struct Draw<T> {
    /// The key by which a hash is drawn, least for those that are drawn; and the hash, with the facts about it.
    drawn: Vec<(u64, u64, T)>,
    /// The hashes above are not among the [`MOST`] least.
    last: Option<u64>,
    hashes: usize,
}

impl<T: Copy + Ord> Draw<T> {
    /// Of no hashes.
    pub fn new() -> Self {
        Self { drawn: Vec::new(), last: None, hashes: 0 }
    }

    /// One more, which has not come before, with what is to be known of it.
    pub fn add(&mut self, hash: u64, known: T) {
        self.hashes += 1;
        let key = fmix64(hash);
        if self.last.is_none_or(|last| key < last) {
            self.drawn.push((key, hash, known));
            if self.drawn.len() == 2 * MOST {
                self.last = Some(self.drawn.select_nth_unstable(MOST).1.0);
                self.drawn.truncate(MOST);
            }
        }
    }

    /// The sample.
    pub fn finish(mut self) -> DenseSample<T> {
        let size = (self.hashes / ONE_OF).clamp(LEAST, MOST).min(self.hashes);
        if size < self.drawn.len() {
            self.drawn.select_nth_unstable(size);
            self.drawn.truncate(size);
        }
        self.drawn.sort_unstable_by_key(|&(_, hash, _)| hash);
        let (hashes, known) = self.drawn.into_iter().map(|(_, hash, known)| (hash, known)).unzip();
        DenseSample { hashes, known }
    }
}

/// Some hashes of a list, ascending.
#[derive(Clone, Debug)]
pub struct DenseSample<T> {
    hashes: Vec<u64>,
    known: Vec<T>,
}

/// The facts that a sample shows of a hash.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledHash<T> {
    /// The number of near hashes in the sample, at most [`SEEN`]; never the hash itself.
    pub neighbours: u32,
    /// The nearest, of equals the least: their distance, and what is known of each; at most [`SHOWN`].
    pub nearest: Vec<(u32, T)>,
    /// Hashes that it was compared with.
    pub compared: u64,
}

impl<T: Copy> DenseSample<T> {
    /// The hashes, ascending.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The near hashes of a hash within so many bits.
    pub fn of(&self, hash: u64, radius: u32) -> SampledHash<T> {
        let mut near: Vec<(u32, usize)> = Vec::new();
        let compared = Level::in_use().scan(&self.hashes, hash, radius, |at, distance| {
            if distance > 0 {
                near.push((distance, at));
            }
            if near.len() < SEEN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let neighbours = near.len() as u32;
        if near.len() > SHOWN {
            near.select_nth_unstable(SHOWN);
            near.truncate(SHOWN);
        }
        near.sort_unstable();
        // Of its own length, for very many may be held.
        let mut nearest = Vec::with_capacity(near.len());
        nearest.extend(near.iter().map(|&(distance, at)| (distance, self.known[at])));
        SampledHash { neighbours, nearest, compared: compared as u64 }
    }
}

/// Hashes of dense groups in an [`Order`], of which each is compared with some before it.
#[derive(Clone, Debug)]
pub struct Beside<T> {
    radius: u32,
    before: VecDeque<(u64, T)>,
}

impl<T: Copy> Beside<T> {
    /// Joined within so many bits.
    pub fn new(radius: u32) -> Self {
        Self { radius, before: VecDeque::with_capacity(BESIDE) }
    }

    /// The next one: those before it that are near, with their distance.
    pub fn next(&mut self, hash: u64, known: T) -> impl Iterator<Item = (u32, T)> + use<T> {
        let near = |&(other, known): &(u64, T)| {
            let distance = (hash ^ other).count_ones();
            (distance <= self.radius).then_some((distance, known))
        };
        let near: Vec<_> = self.before.iter().filter_map(near).collect();
        if self.before.len() == BESIDE {
            self.before.pop_front();
        }
        self.before.push_back((hash, known));
        near.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;

    #[test]
    fn a_sample_is_that_of_any_order() {
        for n in [0, 1, 1000, 1025, 20_000, 3 * MOST, 17 * MOST] {
            let mut hashes: Vec<u64> = (0..n as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let of = |hashes: &[u64]| {
                let mut draw = Draw::new();
                hashes.iter().for_each(|&hash| draw.add(hash, !hash));
                let sample = draw.finish();
                assert!(sample.hashes.iter().zip(&sample.known).all(|(&hash, &known)| hash == !known));
                sample.hashes
            };
            let sample = of(&hashes);
            assert_eq!(sample.len(), (n / 16).clamp(LEAST, MOST).min(n));
            assert!(sample.is_sorted());
            hashes.reverse();
            assert_eq!(of(&hashes), sample);
            // By its definition.
            hashes.sort_by_key(|&hash| fmix64(hash));
            hashes.truncate(sample.len());
            hashes.sort_unstable();
            assert_eq!(hashes, sample);
        }
    }

    #[test]
    fn a_hash_is_shown_its_nearest() {
        let mut rng = SplitMix64::new(5);
        let mut flips = |n: u32| (0..n).fold(0u64, |hash, _| hash ^ 1 << rng.below(64));
        let mut hashes: Vec<u64> = (0..4000).map(|n| flips(n % 12)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut draw = Draw::new();
        hashes.iter().zip(0u32..).for_each(|(&hash, at)| draw.add(hash, at));
        let sample = draw.finish();
        for &hash in hashes.iter().step_by(37) {
            for radius in [0, 3, 8, 64] {
                let mut near: Vec<(u32, u32)> = sample
                    .hashes
                    .iter()
                    .zip(&sample.known)
                    .map(|(&other, &known)| ((hash ^ other).count_ones(), known))
                    .filter(|&(distance, _)| (1..=radius).contains(&distance))
                    .take(SEEN)
                    .collect();
                let shown = sample.of(hash, radius);
                assert_eq!(shown.neighbours as usize, near.len());
                near.sort_unstable();
                near.truncate(SHOWN);
                assert_eq!(shown.nearest, near);
            }
        }
    }
}
