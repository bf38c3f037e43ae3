//! Dense groups of hashes, as documents of one template have: the number of their near pairs would grow with the square
//! of their size. This module gives a join some of these pairs instead of all.
//!
//! A hash is of a dense group if many hashes of a sample of all hashes are near it. Such a hash is paired with the
//! nearest hashes of the sample, so that a group is connected. It is also paired with its neighbours in several orders
//! of all hashes of dense groups. Were it paired with the sample alone, few documents would be near a kept one.

use super::NearPair;
use crate::hash::fmix64;
use crate::id::{Id, Slot};
use crate::kernel::Level;
use std::ops::ControlFlow;

/// The most near pairs that a join of so many distinct hashes lists. A join that caps each hash may list more, but no
/// more may wait at once to be listed. If there are more, dense groups are sub-sampled.
pub(super) const fn most_pairs(hashes: u64) -> u64 {
    const A_HASH: u64 = 32;
    const BESIDES: u64 = 1 << 24;
    hashes.saturating_mul(A_HASH).saturating_add(BESIDES)
}

/// Least numbers of neighbours in the sample of a hash of a dense group. They are tried in turn, until the join of all
/// other hashes stays within its limits. With the last one, 0, no other hashes are left.
pub(super) const DENSE: [u32; 4] = [33, 9, 2, 0];
/// The most neighbours in the sample that a hash of a dense group is paired with.
pub(super) const SHOWN: usize = 32;
/// The most neighbours in the sample that are looked for; the nearest are chosen among them.
const SEEN: usize = 1024;

/// The number of hashes before it in an order that a hash is compared with.
const WINDOW: usize = 16;

/// Bounds of the size of a sample, which has one of [`ONE_OF`] hashes between them.
const LEAST: usize = 1 << 10;
const MOST: usize = 1 << 16;
const ONE_OF: usize = 16;

/// The slots of a sample of distinct hashes, ascending. Which hashes are in it depends on all of them and nothing else.
pub(super) fn sample(hashes: &[u64]) -> Vec<Slot> {
    let size = (hashes.len() / ONE_OF).clamp(LEAST, MOST).min(hashes.len());
    let mut sampled: Vec<(u64, Slot)> = Vec::new();
    // Hashes come in portions, so that the sample never takes the memory of all.
    for (portion, first) in hashes.chunks(MOST).zip((0u32..).step_by(MOST)) {
        sampled.extend((first..).zip(portion).map(|(slot, &hash)| (fmix64(hash), Slot(slot))));
        if sampled.len() > size {
            sampled.select_nth_unstable(size);
            sampled.truncate(size);
        }
    }
    let mut sample: Vec<Slot> = sampled.into_iter().map(|(_, slot)| slot).collect();
    sample.sort_unstable();
    sample
}

/// The neighbours of one hash in a sample: the hashes of the sample within the radius, but for the hash itself.
#[derive(Debug)]
pub(super) struct SampledHash {
    /// The number of neighbours, at most [`SEEN`].
    pub neighbours: u32,
    /// The distance and the place in the sample of the nearest neighbours, ascending; at most [`SHOWN`].
    pub nearest: Vec<(u32, usize)>,
    /// The number of hashes of the sample that the hash was compared with.
    pub compared: u64,
}

impl SampledHash {
    /// Finds the neighbours of `hash` within `radius` bits among the hashes of `sample`.
    pub fn new(sample: &[u64], hash: u64, radius: u32) -> Self {
        let mut near: Vec<(u32, usize)> = Vec::new();
        let compared = Level::in_use().scan(sample, hash, radius, |at, distance| {
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
        Self { neighbours, nearest: near, compared: compared as u64 }
    }
}

/// The pairs within `radius` bits among hashes of dense groups that stand within [`WINDOW`] places in one order.
/// `dense` has their slots. The order is by the bits of a hash, read cyclically from the one `from` below the top.
pub(super) fn beside(hashes: &[u64], dense: &[Slot], from: u32, radius: u32) -> Vec<NearPair> {
    let key = |slot: Slot| hashes[slot.index()].rotate_left(from);
    let mut order = dense.to_vec();
    order.sort_unstable_by_key(|&slot| key(slot));
    let mut pairs = Vec::new();
    for (at, &slot) in order.iter().enumerate() {
        for &other in &order[at.saturating_sub(WINDOW)..at] {
            let distance = (key(slot) ^ key(other)).count_ones();
            if distance <= radius {
                pairs.push(NearPair { a: slot.min(other), b: slot.max(other), distance });
            }
        }
    }
    pairs
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
                let slots = sample(hashes);
                assert!(slots.is_sorted());
                let mut sample: Vec<u64> = slots.iter().map(|slot| hashes[slot.index()]).collect();
                sample.sort_unstable();
                sample
            };
            let sample = of(&hashes);
            assert_eq!(sample.len(), (n / 16).clamp(LEAST, MOST).min(n));
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
        let sample: Vec<u64> = sample(&hashes).iter().map(|slot| hashes[slot.index()]).collect();
        for &hash in hashes.iter().step_by(37) {
            for radius in [0, 3, 8, 64] {
                let mut near: Vec<(u32, usize)> = (0..)
                    .zip(&sample)
                    .map(|(at, &other)| ((hash ^ other).count_ones(), at))
                    .filter(|&(distance, _)| (1..=radius).contains(&distance))
                    .take(SEEN)
                    .collect();
                let shown = SampledHash::new(&sample, hash, radius);
                assert_eq!(shown.neighbours as usize, near.len());
                near.sort_unstable();
                near.truncate(SHOWN);
                assert_eq!(shown.nearest, near);
            }
        }
    }
}
