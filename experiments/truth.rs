//! All pairs of documents above a Jaccard coefficient, exactly: the truth that sketches are held against.

use rayon::prelude::*;
use simflip::features::jaccard;
use std::collections::HashMap;

/// A pair of documents and its Jaccard coefficient.
pub type TruePair = (u32, u32, f64);

/// All pairs a < b with a coefficient of at least `least`, ascending. Sets are given as ascending features.
///
/// Prefix filtering: with features in order of rarity, a set of n features shares one of its n − ⌈t·n⌉ + 1
/// rarest with every set that is so alike.
pub fn similar_pairs(sets: &[Vec<(u64, u32)>], least: f64) -> Vec<TruePair> {
    let mut frequencies: HashMap<u64, u32> = HashMap::new();
    sets.iter().flatten().for_each(|&(feature, _)| *frequencies.entry(feature).or_default() += 1);
    let prefixes: Vec<Vec<u64>> = sets
        .par_iter()
        .map(|set| {
            let mut rare: Vec<(u32, u64)> = set.iter().map(|&(f, _)| (frequencies[&f], f)).collect();
            rare.sort_unstable();
            let length = set.len() - (least * set.len() as f64 - 1e-9).ceil() as usize + 1;
            rare.into_iter().take(length).map(|(_, feature)| feature).collect()
        })
        .collect();
    let mut postings: HashMap<u64, Vec<u32>> = HashMap::new();
    for (prefix, number) in prefixes.iter().zip(0..) {
        prefix.iter().for_each(|&feature| postings.entry(feature).or_default().push(number));
    }
    let mut pairs: Vec<TruePair> = (0..sets.len() as u32)
        .into_par_iter()
        .flat_map_iter(|a| {
            let lists = prefixes[a as usize].iter().map(|feature| &postings[feature]);
            let mut others: Vec<u32> = lists.flatten().copied().filter(|&b| b > a).collect();
            others.sort_unstable();
            others.dedup();
            let of_a = &sets[a as usize];
            let found: Vec<TruePair> = others
                .into_iter()
                .filter(|&b| {
                    let (n, m) = (of_a.len() as f64, sets[b as usize].len() as f64);
                    n.min(m) >= least * n.max(m)
                })
                .map(|b| (a, b, jaccard(of_a, &sets[b as usize])))
                .filter(|&(.., jaccard)| jaccard >= least)
                .collect();
            found
        })
        .collect();
    pairs.sort_unstable_by_key(|&(a, b, _)| (a, b));
    pairs
}

/// The pairs a < b of [`similar_pairs`] of which a drawn text is one, ascending.
///
/// Every set is counted against the drawn ones that share a feature with it.
pub fn similar_to(sets: &[Vec<(u64, u32)>], drawn: &[u32], least: f64) -> Vec<TruePair> {
    let mut postings: HashMap<u64, Vec<u32>> = HashMap::new();
    for &text in drawn {
        sets[text as usize].iter().for_each(|&(f, _)| postings.entry(f).or_default().push(text));
    }
    let mut pairs: Vec<TruePair> = sets
        .par_iter()
        .enumerate()
        .flat_map_iter(|(text, set)| {
            let text = text as u32;
            let mut shared: HashMap<u32, u32> = HashMap::new();
            for other in set.iter().filter_map(|(feature, _)| postings.get(feature)).flatten() {
                *shared.entry(*other).or_default() += 1;
            }
            let alike = |(other, shared): (u32, u32)| {
                let either = set.len() + sets[other as usize].len() - shared as usize;
                let jaccard = f64::from(shared) / either as f64;
                (other != text && jaccard >= least).then(|| (text.min(other), text.max(other), jaccard))
            };
            shared.into_iter().filter_map(alike).collect::<Vec<_>>()
        })
        .collect();
    pairs.sort_unstable_by_key(|&(a, b, _)| (a, b));
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn prefixes_miss_no_pair() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        let sets: Vec<Vec<(u64, u32)>> = (0..120)
            .map(|_| {
                let start = rng.random_range(0..30);
                let mut set: Vec<(u64, u32)> = (start..start + rng.random_range(5..17))
                    .filter(|_| rng.random_range(0..8) > 0)
                    .map(|f| (f, 1))
                    .collect();
                if set.is_empty() {
                    set.push((start, 1));
                }
                set
            })
            .collect();
        for least in [0.3, 0.5, 0.8, 1.0] {
            let mut all = Vec::new();
            for a in 0..sets.len() {
                for b in a + 1..sets.len() {
                    let jaccard = jaccard(&sets[a], &sets[b]);
                    if jaccard >= least {
                        all.push((a as u32, b as u32, jaccard));
                    }
                }
            }
            assert!(!all.is_empty());
            assert_eq!(similar_pairs(&sets, least), all, "{least}");
            let drawn: Vec<u32> = (0..120).step_by(2).collect();
            all.retain(|(a, b, _)| drawn.contains(a) || drawn.contains(b));
            assert!(!all.is_empty());
            assert_eq!(similar_to(&sets, &drawn, least), all, "{least}");
        }
    }
}
