//! Search by the weights themselves: all documents whose weight vectors have a cosine of at least t with the query's. The
//! Hamming distance is only the road there. Ours, not the paper's.
//!
//! How far along that road? Of two vectors at angle θ, component j of the one is w·cos θ + sin θ·z in units of its spread,
//! where w is the other's component and z is standard normal; so bit j differs with probability Φ(−|w|·cot θ) (reference
//! section 2), and the distance is a sum of 64 such chances. Its quantile, averaged over the vectors that are there, is
//! the radius. At the threshold itself the radius finds the wanted share; above it pairs are nearer, and more of them are
//! found. What the radius brings up is compared by the vectors, so nothing below t is reported.
//!
//! On 172,805 hashes of real pages, 95 % wanted: at t = 0.99, 0.98, 0.97 and 0.95 the radius is 6, 7, 9 and 10, and reaches 93, 93,
//! 98 and 93 % of the pairs in the tenth of (t, 1) next to t, and 98.7, 97.4, 99.3 and 98.0 % of all pairs (of those within 14
//! bits, beyond which hardly any are).

use super::dial::{Dial, DialParams};
use super::distinct::DistinctHashes;
use super::join::{self, NearPair};
use super::linear::Linear;
use super::{Cost, HammingIndex, Hit, Mode, Query, Scratch};
use crate::simhash::BITS;
use crate::simhash::quantised::QuantisedWeights;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// What is near.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CosineParams {
    /// t: the least cosine of a match, above 0 and below 1.
    pub cosine: f32,
    /// Share of the matches at the threshold itself that the radius must reach, above 0 and below 1. Of all matches more are
    /// found.
    pub recall: f64,
}

impl Default for CosineParams {
    fn default() -> Self {
        Self { cosine: 0.95, recall: 0.95 }
    }
}

/// A document that is near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineHit {
    /// Its position in the list of vectors.
    pub document: u32,
    /// The cosine, at least the threshold.
    pub cosine: f32,
}

/// Two documents that are near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosinePair {
    /// The lesser document.
    pub a: u32,
    /// The greater document.
    pub b: u32,
    /// Their cosine, at least the threshold.
    pub cosine: f32,
}

/// Vectors that say how far to look; more would not change the mean.
const ASKED: usize = 1000;

/// The radius that finds the wanted share of documents at the threshold, for queries like `vectors`.
///
/// # Errors
/// [`Error::Parameter`] for a cosine or a recall that is not between 0 and 1.
pub fn radius(vectors: &[QuantisedWeights], params: CosineParams) -> Result<u32> {
    if !(params.cosine > 0.0 && params.cosine < 1.0) {
        return Err(Error::parameter("cosine", params.cosine, "above 0 and below 1"));
    }
    if !(params.recall > 0.0 && params.recall < 1.0) {
        return Err(Error::parameter("recall", params.recall, "above 0 and below 1"));
    }
    let asked: Vec<_> = vectors.iter().step_by(vectors.len().div_ceil(ASKED).max(1)).collect();
    let shares: Vec<_> =
        asked.par_iter().map(|vector| distances(&vector.weights(), f64::from(params.cosine))).collect();
    let mut within = 0.0;
    for distance in 0..=BITS {
        within += shares.iter().map(|shares| shares[distance]).sum::<f64>() / asked.len() as f64;
        if within >= params.recall {
            return Ok(distance as u32);
        }
    }
    // There is no vector, or rounding has eaten the last of them.
    Ok(BITS as u32)
}

/// The probability of each Hamming distance between a document with these weights and one at this cosine.
fn distances(weights: &[f32; BITS], cosine: f64) -> [f64; BITS + 1] {
    let squares: f64 = weights.iter().map(|&w| f64::from(w) * f64::from(w)).sum();
    let spread = (squares / BITS as f64).sqrt().max(f64::MIN_POSITIVE);
    let cot = cosine / (1.0 - cosine * cosine).sqrt();
    let mut chances = [0.0; BITS + 1];
    chances[0] = 1.0;
    for weight in weights {
        let flips =
            0.5 * libm::erfc(f64::from(weight.abs()) / spread * cot * std::f64::consts::FRAC_1_SQRT_2);
        for distance in (1..=BITS).rev() {
            chances[distance] = chances[distance] * (1.0 - flips) + chances[distance - 1] * flips;
        }
        chances[0] *= 1.0 - flips;
    }
    chances
}

/// The farthest radius that a dial searches exactly.
const FARTHEST_DIAL: u32 = 15;

/// Documents that can be asked for by cosine.
pub struct CosineIndex<'a> {
    distinct: &'a DistinctHashes,
    vectors: &'a [QuantisedWeights],
    index: Box<dyn HammingIndex>,
    cosine: f32,
}

impl<'a> CosineIndex<'a> {
    /// An index of documents: `vectors[d]` are the weights behind document d's hash in `distinct`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning, and for another number of vectors than of documents.
    pub fn new(
        distinct: &'a DistinctHashes,
        vectors: &'a [QuantisedWeights],
        params: CosineParams,
    ) -> Result<Self> {
        check(distinct, vectors)?;
        let radius = radius(vectors, params)?;
        let index: Box<dyn HammingIndex> = if radius <= FARTHEST_DIAL {
            let tables = (radius / 2 + 1).max(2);
            Box::new(Dial::new(distinct.hashes(), DialParams { radius, tables, ..DialParams::default() })?)
        } else {
            Box::new(Linear::new(distinct.hashes(), radius)?)
        };
        Ok(Self { distinct, vectors, index, cosine: params.cosine })
    }

    /// The Hamming distance that is looked through.
    pub fn radius(&self) -> u32 {
        self.index.radius()
    }

    /// Appends all documents that the radius reaches and whose cosine with `vector` is at least the threshold, ascending.
    /// `hash` is the hash of the document with these weights; [`Cost::verified`] counts hashes within the radius.
    pub fn search(
        &self,
        hash: u64,
        vector: &QuantisedWeights,
        scratch: &mut Scratch,
        found: &mut Vec<CosineHit>,
    ) -> Cost {
        let mut hits: Vec<Hit> = Vec::new();
        let query = Query { hash, weights: &vector.weights() };
        let cost = self.index.search(query, Mode::All, scratch, &mut hits);
        let before = found.len();
        for hit in hits {
            for &document in self.distinct.documents(hit.slot) {
                let cosine = vector.cosine(&self.vectors[document as usize]);
                if cosine >= self.cosine {
                    found.push(CosineHit { document, cosine });
                }
            }
        }
        found[before..].sort_unstable_by_key(|hit| hit.document);
        cost
    }
}

fn check(distinct: &DistinctHashes, vectors: &[QuantisedWeights]) -> Result<()> {
    let documents: usize = (0..distinct.len() as u32).map(|slot| distinct.documents(slot).len()).sum();
    if documents == vectors.len() {
        return Ok(());
    }
    Err(Error::parameter("vectors", vectors.len(), format!("one for each of {documents} documents")))
}

/// Finds all pairs of documents that the radius reaches and whose cosine is at least the threshold, each once. `sink` gets
/// them in parts, in an order that is the same for any number of threads; `progress` hears of distinct hashes done.
///
/// Documents of one hash are compared with each other as well, so that their number counts squared.
///
/// # Errors
/// [`Error::Parameter`] for parameters without meaning, and for another number of vectors than of documents.
pub fn cosine_join(
    distinct: &DistinctHashes,
    vectors: &[QuantisedWeights],
    params: CosineParams,
    progress: &(dyn Fn(u64) + Sync),
    mut sink: impl FnMut(&[CosinePair]),
) -> Result<Cost> {
    check(distinct, vectors)?;
    let radius = radius(vectors, params)?;
    let compare = |a: u32, b: u32| {
        let cosine = vectors[a as usize].cosine(&vectors[b as usize]);
        (cosine >= params.cosine).then_some(CosinePair { a: a.min(b), b: a.max(b), cosine })
    };
    // Of one hash.
    for from in (0..distinct.len() as u32).step_by(SLOTS) {
        let pairs: Vec<CosinePair> = (from..(from + SLOTS as u32).min(distinct.len() as u32))
            .into_par_iter()
            .flat_map_iter(|slot| {
                let documents = distinct.documents(slot);
                let later = move |at: usize| documents[at + 1..].iter().map(move |&b| (documents[at], b));
                (0..documents.len()).flat_map(later).filter_map(|(a, b)| compare(a, b))
            })
            .collect();
        sink(&pairs);
    }
    // Of two.
    join::join(distinct.hashes(), radius, progress, |pairs: &[NearPair]| {
        let pairs: Vec<CosinePair> = pairs
            .par_iter()
            .flat_map_iter(|pair| {
                let others = distinct.documents(pair.b);
                distinct
                    .documents(pair.a)
                    .iter()
                    .flat_map(|&a| others.iter().filter_map(move |&b| compare(a, b)))
            })
            .collect();
        sink(&pairs);
    })
}

/// Hashes whose documents are compared with each other before their pairs are handed on.
const SLOTS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::simhash::{SimHash, distance};

    fn normal(rng: &mut SplitMix64) -> f64 {
        (-2.0 * (1.0 - rng.unit()).ln()).sqrt() * (std::f64::consts::TAU * rng.unit()).cos()
    }

    /// Documents in families around a centre each, at cosines around those given.
    fn documents(n: usize, cosines: &[f64], seed: u64) -> (Vec<u64>, Vec<QuantisedWeights>) {
        let mut rng = SplitMix64::new(seed);
        let mut centre = [0.0; BITS];
        (0..n)
            .map(|i| {
                if i % 4 == 0 {
                    centre = std::array::from_fn(|_| normal(&mut rng));
                }
                let cosine = if i % 4 == 0 { 1.0 } else { cosines[i % cosines.len()] };
                let noise = (1.0 - cosine * cosine).sqrt();
                let weights = centre.map(|w| (cosine * w + noise * normal(&mut rng)) as f32);
                (SimHash::from_weights(weights).hash, QuantisedWeights::new(&weights))
            })
            .unzip()
    }

    /// The naive twin: all documents, one by one.
    fn full(vectors: &[QuantisedWeights], query: usize, cosine: f32) -> Vec<u32> {
        let near = |&document: &u32| vectors[query].cosine(&vectors[document as usize]) >= cosine;
        (0..vectors.len() as u32).filter(near).collect()
    }

    #[test]
    fn what_is_found_is_what_a_full_comparison_finds_within_the_radius() {
        for (cosine, recall) in [(0.98, 0.9), (0.95, 0.95), (0.9, 0.99), (0.7, 0.9)] {
            let (hashes, vectors) = documents(600, &[0.999, 0.97, 0.93, 0.8, 0.95], 4);
            let distinct = DistinctHashes::new(&hashes);
            let params = CosineParams { cosine, recall };
            let index = CosineIndex::new(&distinct, &vectors, params).unwrap();
            let mut pairs = Vec::new();
            cosine_join(&distinct, &vectors, params, &|_| (), |part| pairs.extend_from_slice(part)).unwrap();
            pairs.sort_unstable_by_key(|pair| (pair.a, pair.b));
            let (mut reached, mut all) = (0, 0);
            for query in 0..vectors.len() {
                let mut found = Vec::new();
                index.search(hashes[query], &vectors[query], &mut Scratch::default(), &mut found);
                let found: Vec<u32> = found.iter().map(|hit| hit.document).collect();
                let expected = full(&vectors, query, cosine);
                let near = |&d: &u32| distance(hashes[query], hashes[d as usize]) <= index.radius();
                assert_eq!(found, expected.iter().copied().filter(near).collect::<Vec<_>>());
                let of_query = pairs.iter().filter(|pair| pair.a == query as u32).map(|pair| pair.b);
                assert!(of_query.eq(found.iter().copied().filter(|&d| d > query as u32)));
                reached += found.len() - 1;
                all += expected.len() - 1;
            }
            assert!(reached as f64 >= (recall - 0.02) * all as f64, "{cosine}: {reached} of {all}");
        }
    }

    #[test]
    fn the_radius_holds_at_the_threshold_itself() {
        // Random vectors at exactly this cosine with a given one.
        let mut rng = SplitMix64::new(1);
        for (cosine, recall) in [(0.99, 0.9), (0.95, 0.95), (0.8, 0.8)] {
            let (_, vectors) = documents(400, &[0.5], 2);
            let radius = radius(&vectors, CosineParams { cosine, recall }).unwrap();
            let within = |radius: u32, rng: &mut SplitMix64| {
                let near = vectors.iter().filter(|vector| {
                    let w = vector.weights().map(f64::from);
                    let norm = w.iter().map(|w| w * w).sum::<f64>().sqrt();
                    let noise: [f64; BITS] = std::array::from_fn(|_| normal(rng));
                    let along = w.iter().zip(&noise).map(|(w, z)| w * z).sum::<f64>() / (norm * norm);
                    let across: [f64; BITS] = std::array::from_fn(|j| noise[j] - along * w[j]);
                    let length = across.iter().map(|z| z * z).sum::<f64>().sqrt();
                    let (cos, sin) = (f64::from(cosine), (1.0 - f64::from(cosine).powi(2)).sqrt());
                    let other: [f64; BITS] =
                        std::array::from_fn(|j| cos * w[j] / norm + sin * across[j] / length);
                    w.iter().zip(&other).filter(|(w, v)| (**w > 0.0) != (**v > 0.0)).count()
                        <= radius as usize
                });
                near.count() as f64 / vectors.len() as f64
            };
            let share = (0..10).map(|_| within(radius, &mut rng)).sum::<f64>() / 10.0;
            assert!(share >= recall - 0.02, "{cosine}: {share} within {radius}");
            let share = (0..10).map(|_| within(radius - 1, &mut rng)).sum::<f64>() / 10.0;
            assert!(share <= recall + 0.02, "{cosine}: {share} within {radius} − 1");
        }
    }

    #[test]
    fn probabilities_add_up_and_senseless_parameters_are_refused() {
        let (hashes, vectors) = documents(40, &[0.9], 3);
        for weights in [vectors[0].weights(), [0.0; BITS], [1.0; BITS]] {
            for cosine in [0.01, 0.5, 0.99999] {
                let sum: f64 = distances(&weights, cosine).iter().sum();
                assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            }
        }
        let of = |cosine, recall| radius(&vectors, CosineParams { cosine, recall }).unwrap();
        assert!(of(0.99, 0.9) < of(0.95, 0.9) && of(0.95, 0.9) < of(0.95, 0.99));
        for (cosine, recall) in [(0.0, 0.9), (1.0, 0.9), (f32::NAN, 0.9), (0.9, 0.0), (0.9, 1.0)] {
            assert!(radius(&vectors, CosineParams { cosine, recall }).is_err());
        }
        let distinct = DistinctHashes::new(&hashes);
        assert!(CosineIndex::new(&distinct, &vectors[1..], CosineParams::default()).is_err());
        let none = DistinctHashes::new(&[]);
        let index = CosineIndex::new(&none, &[], CosineParams::default()).unwrap();
        let mut found = Vec::new();
        index.search(1, &vectors[0], &mut Scratch::default(), &mut found);
        assert!(found.is_empty());
    }
}
