//! The near pairs of a corpus, after how many flips each is found, and what share is found by then.
//!
//! Pairs are exact: all pairs of distinct hashes at distances 1 to 3 by BPHS. Each is searched for from both
//! sides.

use crate::static_order::StaticOrder;
use anyhow::Result;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use simflip::clusters::Partition;
use simflip::hash::fmix64;
use simflip::search::bphs::{Bphs, BphsParams};
use simflip::search::distinct::DistinctHashes;
use simflip::search::{HammingIndex, Mode, Query, Scratch};
use simflip::simhash::BITS;
use simflip::simhash::volatility::{FlipCost, Volatility};
use simflip::simhash::vosh::Vosh;
use simflip::{Id, Slot};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Number of sets of h of `bits` bits.
pub fn sets_of(bits: u64, h: u32) -> u64 {
    (0..u64::from(h)).fold(1, |sets, k| sets * bits.saturating_sub(k) / (k + 1))
}

/// Number of sets of h of 64 bits.
pub fn sets(h: u32) -> u64 {
    sets_of(BITS as u64, h)
}

/// An order of sets of flips.
#[derive(Clone, Copy)]
pub enum Order {
    Vosh(FlipCost),
    Static,
    /// Fewer flips first, and sets of as many in an order that is drawn for each search from this seed: all that can be
    /// done without weights.
    Random(u64),
}

/// A pair of distinct hashes: the query's side and the other, the bits that differ, and the cluster.
#[derive(Clone, Copy)]
pub struct Directed {
    pub query: Slot,
    pub other: Slot,
    pub mask: u64,
    pub cluster: Slot,
}

/// All pairs of distinct hashes at distances 1 to 3, both directions; of each distance a random sample if
/// there are more than `most`. Index 0 is h = 1. `tables` are those of the exact search.
pub fn near_pairs(
    distinct: &DistinctHashes,
    tables: u32,
    most: usize,
    seed: u64,
) -> Result<[Vec<Directed>; 3]> {
    let hashes = distinct.hashes();
    let index = Bphs::new(hashes, BphsParams { radius: 3, tables })?;
    let none = [0f32; BITS];
    let mut pairs: Vec<(Slot, Slot)> = (0..hashes.len())
        .into_par_iter()
        .with_min_len(256)
        .map_init(
            || (Scratch::default(), Vec::new()),
            |(scratch, hits), slot| {
                hits.clear();
                let query = Query { hash: hashes[slot], weights: &none };
                index.search(query, Mode::All, scratch, hits);
                let above = hits.iter().filter(|hit| hit.slot.index() > slot);
                above.map(|hit| (Slot::at(slot), hit.slot)).collect::<Vec<_>>()
            },
        )
        .flatten_iter()
        .collect();
    let mut partition = Partition::singletons(hashes.len());
    pairs.iter().for_each(|&(a, b)| {
        partition.join(a, b);
    });
    // In random order, so that the first of each distance are a sample.
    pairs.par_sort_unstable_by_key(|&(a, b)| fmix64((u64::from(a.0) << 32 | u64::from(b.0)) ^ fmix64(seed)));
    let mut by_distance: [Vec<Directed>; 3] = Default::default();
    for (a, b) in pairs {
        let mask = hashes[a.index()] ^ hashes[b.index()];
        let list = &mut by_distance[mask.count_ones() as usize - 1];
        if list.len() < 2 * most {
            let cluster = partition.find(a);
            list.extend([(a, b), (b, a)].map(|(query, other)| Directed { query, other, mask, cluster }));
        }
    }
    Ok(by_distance)
}

/// For each pair, after how many sets of flips of the given sizes among the bits of `among` it is found: when
/// the bits of `among` in which it differs have all been flipped, and no others.
pub fn flips(
    pairs: &[Directed],
    weights: &[[f32; BITS]],
    among: u64,
    sizes: RangeInclusive<u32>,
    order: Order,
) -> Vec<u32> {
    let places: HashMap<u64, u32> = match order {
        Order::Vosh(_) | Order::Random(_) => HashMap::new(),
        Order::Static => {
            let bits = among.count_ones() as usize;
            let sets = StaticOrder::new(bits, sizes.clone(), FlipCost::Abs, usize::MAX);
            sets.ranks().iter().zip(1..).map(|(&ranks, place)| (ranks, place)).collect()
        }
    };
    pairs
        .par_iter()
        .map(|pair| {
            let weights = &weights[pair.query.index()];
            let mask = pair.mask & among;
            match order {
                Order::Vosh(cost) => {
                    let mut sets = Vosh::new(Volatility::new(weights, among, cost), sizes.clone());
                    let place = sets.position(|flip| flip.mask == mask);
                    place.expect("every set of flips is reached") as u32 + 1
                }
                Order::Static => {
                    let volatility = Volatility::new(weights, among, FlipCost::Abs);
                    let ranks = (0..).zip(volatility.bits()).filter(|(_, bit)| mask >> **bit & 1 == 1);
                    places[&ranks.fold(0, |ranks, (rank, _)| ranks | 1 << rank)]
                }
                Order::Random(seed) => {
                    let (bits, size) = (u64::from(among.count_ones()), mask.count_ones());
                    let fewer: u64 = (*sizes.start()..size).map(|size| sets_of(bits, size)).sum();
                    let drawn =
                        fmix64((u64::from(pair.query.0) << 32 | u64::from(pair.other.0)) ^ fmix64(seed));
                    let place = (u128::from(drawn) * u128::from(sets_of(bits, size))) >> 64;
                    fewer as u32 + place as u32 + 1
                }
            }
        })
        .collect()
}

/// A point of a curve.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub flips: u64,
    pub recall: f64,
    /// The 95 % interval of the recall.
    pub low: f64,
    pub high: f64,
    /// Mean over clusters of the share of a cluster's pairs.
    pub per_cluster: f64,
}

/// The flips after which each of these shares of the pairs has been found, exactly.
pub fn quantiles(found: &[u32], recalls: &[f64]) -> Vec<u64> {
    let mut sorted = found.to_vec();
    sorted.sort_unstable();
    let place = |recall: f64| ((recall * sorted.len() as f64).ceil() as usize).max(1) - 1;
    recalls.iter().filter_map(|&recall| sorted.get(place(recall)).map(|&flips| u64::from(flips))).collect()
}

/// Recall after the numbers of flips in `grid`, which ascend, with 95 % intervals by resampling clusters; and
/// the number of clusters.
pub fn curve(
    pairs: &[Directed],
    found: &[u32],
    grid: &[u64],
    resamples: usize,
    seed: u64,
) -> (Vec<Point>, usize) {
    let mut clusters: HashMap<Slot, Vec<u32>> = HashMap::new();
    for (pair, &found) in pairs.iter().zip(found) {
        let place = grid.partition_point(|&flips| flips < u64::from(found)) as u32;
        clusters.entry(pair.cluster).or_default().push(place);
    }
    let mut clusters: Vec<(Slot, Vec<u32>)> = clusters.into_iter().collect();
    clusters.sort_unstable_by_key(|&(name, _)| name);
    // One bin more than points: pairs that are found after the last of them.
    let bins = grid.len() + 1;
    let cumulate = |draws: &[usize]| {
        let mut bins = vec![0u64; bins];
        for &draw in draws {
            clusters[draw].1.iter().for_each(|&place| bins[place as usize] += 1);
        }
        let total: u64 = bins.iter().sum();
        let mut sum = 0;
        bins.iter()
            .map(|bin| {
                sum += bin;
                sum as f64 / total as f64
            })
            .collect::<Vec<f64>>()
    };
    let all: Vec<usize> = (0..clusters.len()).collect();
    let recall = cumulate(&all);
    let resampled: Vec<Vec<f64>> = (0..resamples as u64)
        .into_par_iter()
        .map(|resample| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(fmix64(seed ^ resample));
            let draws: Vec<usize> = all.iter().map(|_| rng.random_range(0..all.len())).collect();
            cumulate(&draws)
        })
        .collect();
    let mut per_cluster = vec![0.0; bins];
    for (_, places) in &clusters {
        places.iter().for_each(|&place| per_cluster[place as usize] += 1.0 / places.len() as f64);
    }
    let mut sum = 0.0;
    let points = (0..grid.len()).map(|i| {
        let mut at: Vec<f64> = resampled.iter().map(|resample| resample[i]).collect();
        at.sort_unstable_by(f64::total_cmp);
        sum += per_cluster[i] / clusters.len() as f64;
        Point {
            flips: grid[i],
            recall: recall[i],
            low: at[resamples / 40],
            high: at[resamples - 1 - resamples / 40],
            per_cluster: sum,
        }
    });
    (points.collect(), clusters.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_counted() {
        assert_eq!((sets(0), sets(1), sets(2), sets(3)), (1, 64, 2_016, 41_664));
        assert_eq!((sets_of(26, 2), sets_of(2, 3)), (325, 0));
    }

    #[test]
    fn a_pair_is_found_when_its_own_bits_are_flipped() {
        // Bit 0 is the weakest, then bit 1, and so on.
        let weights = [std::array::from_fn(|bit| bit as f32 + 1.0)];
        let pair = |mask| Directed { query: Slot(0), other: Slot(1), mask, cluster: Slot(0) };
        let pairs = [pair(1), pair(0b10), pair(1 << 63)];
        for order in [Order::Vosh(FlipCost::Abs), Order::Static] {
            assert_eq!(flips(&pairs, &weights, u64::MAX, 1..=1, order), [1, 2, 64]);
        }
        // Among the upper 32 bits the first two pairs do not differ: the probe without flips finds them.
        let key = u64::MAX << 32;
        assert_eq!(flips(&pairs, &weights, key, 0..=1, Order::Vosh(FlipCost::Abs)), [1, 1, 33]);
        // In random order: anywhere among the sets of as many flips.
        let other = |other| Directed { other: Slot(other), ..pair(1) };
        let of_one: Vec<Directed> = (0..640).map(other).collect();
        let mut places = flips(&of_one, &weights, u64::MAX, 0..=1, Order::Random(7));
        places.sort_unstable();
        assert_eq!((places[0], places[639]), (2, 65));
        assert!(places.iter().map(|&place| f64::from(place)).sum::<f64>() / 640.0 - 33.5 < 2.0);
        assert_eq!(flips(&pairs, &weights, key, 0..=1, Order::Random(7))[..2], [1, 1]);
        // Bits 0 and 1 weigh as much as bit 2; the smaller set comes first.
        let both = [pair(0b11), pair(0b100)];
        assert_eq!(flips(&both, &weights, u64::MAX, 0..=3, Order::Vosh(FlipCost::Abs)), [5, 4]);
    }

    #[test]
    fn a_curve_counts_what_was_found_by_then_and_clusters_count_alike() {
        let pair = |cluster| Directed { query: Slot(0), other: Slot(1), mask: 1, cluster: Slot(cluster) };
        let pairs = [pair(0), pair(0), pair(0), pair(7)];
        let found = [1, 1, 5, 3];
        assert_eq!(quantiles(&found, &[0.5, 0.75, 1.0]), [1, 3, 5]);
        let (points, clusters) = curve(&pairs, &found, &[1, 3, 4], 80, 1);
        assert_eq!(clusters, 2);
        assert_eq!(points.iter().map(|point| point.recall).collect::<Vec<_>>(), [0.5, 0.75, 0.75]);
        assert!((points[0].per_cluster - 1.0 / 3.0).abs() < 1e-12 && points[2].per_cluster > 0.8);
        assert!(points.iter().all(|point| point.low <= point.recall && point.recall <= point.high));
    }
}
