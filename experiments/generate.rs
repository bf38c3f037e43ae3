//! Documents drawn from a real corpus, in clusters of near-duplicates, with their true
//! weights: any number of them.
//!
//! A document is stitched together from passages of random real documents, runs of 16 to 64 distinct features in their
//! order of first occurrence with their TF-IDF weights, until it is as long as another random real document. A cluster
//! is a document and copies of it, each made from an earlier member by one or two edits of the kinds that pages undergo
//! ([`Edit`]). Cluster sizes follow Zipf's law. Everything is hashed as real documents are, so weights are true and
//! nothing is modelled but the edits themselves. `flips-vs-recall` shows if the model may be trusted, on generated
//! documents beside the real ones they were drawn from.

use crate::corpus::Corpus;
use crate::{Options, config};
use anyhow::Result;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use serde::Deserialize;
use simflip::hash::fmix64;
use simflip::simhash::SimHash;
use simflip::simhash::hasher::SimHasher;
use simflip::weight::{Weigher, Weighting};

/// A document: features with their weights before normalisation.
pub type Features = Vec<(u64, i64)>;

/// What makes a corpus.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Number of documents.
    #[serde(skip)]
    pub documents: usize,
    /// s: a cluster has k documents with a probability in proportion to k^−s.
    pub exponent: f64,
    /// Documents of the largest cluster there may be.
    pub largest: usize,
    /// Features of the longest document; longer ones are drawn at this length.
    pub longest: usize,
    /// Seed; clusters do not depend on each other, nor on the number of threads.
    #[serde(skip)]
    pub seed: u64,
}

impl Recipe {
    /// So many documents as `configs/generate.toml` has them.
    pub fn read(options: &Options, documents: usize) -> Result<Self> {
        Ok(Self { documents, seed: options.seed, ..config::read(options, "generate")? })
    }
}

/// How a copy differs from the document it was made from. Sizes are log-uniform: small
/// edits are the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// One to four features exchanged: a date, a version, a counter.
    Date,
    /// A run of 2 to 24 features inserted, from one of a hundred banners that all documents share.
    Banner,
    /// A run dropped, of one feature up to a tenth of them.
    Paragraph,
    /// The last features, from one up to a fifth of them, exchanged for another document's: a
    /// template with another body.
    Template,
}

/// A number from 1 to `most`, evenly spread on a logarithmic scale.
fn log_uniform(rng: &mut Xoshiro256PlusPlus, most: usize) -> usize {
    let most = most.max(1);
    (libm::exp(rng.random::<f64>() * libm::log(most as f64 + 1.0)) as usize).clamp(1, most)
}

/// Real documents to draw from.
pub struct Donors {
    documents: Vec<Features>,
    banners: Vec<Features>,
}

/// Banners that documents share.
const BANNERS: usize = 100;
/// Members of a cluster that copies are made from.
const PARENTS: usize = 32;
/// Donors that are kept in memory.
const MOST_DONORS: usize = 50_000;

impl Donors {
    /// Takes documents of a corpus, TF-IDF weighted.
    pub fn new(corpus: &Corpus, seed: u64) -> Self {
        let weigher = Weigher::new(Weighting::TfIdf);
        let step = corpus.len().div_ceil(MOST_DONORS).max(1);
        let documents: Vec<Features> = (0..corpus.len())
            .into_par_iter()
            .filter(|text| text % step == 0)
            .map(|text| corpus.features(text, &weigher))
            .collect();
        Self::of(documents, seed)
    }

    fn of(documents: Vec<Features>, seed: u64) -> Self {
        let mut donors = Self { documents, banners: Vec::new() };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6261_6e6e);
        for _ in 0..BANNERS {
            let length = rng.random_range(2..25);
            let mut banner = Vec::new();
            donors.passage(&mut rng, length, &mut banner);
            donors.banners.push(banner);
        }
        donors
    }

    /// Appends a run of features of a random document.
    fn passage(&self, rng: &mut Xoshiro256PlusPlus, length: usize, to: &mut Features) {
        let donor = &self.documents[rng.random_range(0..self.documents.len())];
        let length = length.min(donor.len());
        let start = rng.random_range(0..=donor.len() - length);
        to.extend_from_slice(&donor[start..start + length]);
    }

    /// A new document.
    fn document(&self, rng: &mut Xoshiro256PlusPlus, longest: usize) -> Features {
        let like = &self.documents[rng.random_range(0..self.documents.len())];
        let length = like.len().min(longest);
        let mut features = Vec::with_capacity(length + 64);
        while features.len() < length {
            let rest = length - features.len();
            let length = rng.random_range(16..=64);
            self.passage(rng, length.min(rest), &mut features);
        }
        features
    }

    /// A copy with one edit.
    fn edited(&self, rng: &mut Xoshiro256PlusPlus, original: &Features, edit: Edit) -> Features {
        let mut copy = original.clone();
        let n = copy.len();
        match edit {
            Edit::Date => {
                for _ in 0..log_uniform(rng, 4) {
                    let mut other = Vec::new();
                    self.passage(rng, 1, &mut other);
                    let at = rng.random_range(0..n);
                    copy.splice(at..at + 1, other);
                }
            }
            Edit::Banner => {
                let banner = &self.banners[rng.random_range(0..BANNERS)];
                let length = (log_uniform(rng, 23) + 1).min(banner.len());
                let at = rng.random_range(0..=n);
                copy.splice(at..at, banner[..length].iter().copied());
            }
            Edit::Paragraph => {
                let length = log_uniform(rng, n / 10).min(n - 1);
                let at = rng.random_range(0..=n - length);
                copy.drain(at..at + length);
            }
            Edit::Template => {
                copy.truncate(n - log_uniform(rng, n / 5).min(n - 1));
                let mut missing = n - copy.len();
                while missing > 0 {
                    let before = copy.len();
                    self.passage(rng, missing.min(64), &mut copy);
                    missing -= (copy.len() - before).min(missing);
                }
            }
        }
        copy
    }

    /// The next version of a document: mostly one edit, sometimes two of them.
    fn copy(&self, rng: &mut Xoshiro256PlusPlus, original: &Features) -> Features {
        let edit = |rng: &mut Xoshiro256PlusPlus| match rng.random_range(0..10) {
            0..5 => Edit::Date,
            5..7 => Edit::Banner,
            7..9 => Edit::Paragraph,
            _ => Edit::Template,
        };
        let first = edit(rng);
        let mut copy = self.edited(rng, original, first);
        if rng.random_range(0..3) == 0 {
            let second = edit(rng);
            copy = self.edited(rng, &copy, second);
        }
        copy
    }

    /// The documents of a corpus, those of a cluster one after the other; `each` keeps what it wants of a document's
    /// number, its SimHash and its features.
    pub fn generate<T: Send>(
        &self,
        recipe: &Recipe,
        each: impl Fn(usize, SimHash, &Features) -> T + Sync,
    ) -> Vec<T> {
        let starts = cluster_starts(recipe);
        let task = |cluster: usize| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(fmix64(recipe.seed ^ fmix64(cluster as u64 + 1)));
            let mut hasher = SimHasher::default();
            let range = starts[cluster]..starts[cluster + 1];
            // Every copy is made from a random earlier member: pages have versions, and versions have copies.
            let mut members: Vec<Features> = Vec::new();
            range
                .map(|document| {
                    let features = match members.len() {
                        0 => self.document(&mut rng, recipe.longest),
                        n => {
                            let parent = rng.random_range(0..n);
                            self.copy(&mut rng, &members[parent])
                        }
                    };
                    let simhash = hasher.hash(features.iter().copied());
                    let kept = each(document, simhash, &features);
                    if members.len() < PARENTS {
                        members.push(features);
                    }
                    kept
                })
                .collect::<Vec<T>>()
        };
        (0..starts.len() - 1).into_par_iter().with_min_len(64).flat_map_iter(task).collect()
    }
}

/// Where each cluster starts, and where the last one ends.
fn cluster_starts(recipe: &Recipe) -> Vec<usize> {
    let mut cumulative: Vec<f64> = Vec::with_capacity(recipe.largest);
    for size in 1..=recipe.largest {
        let before = cumulative.last().copied().unwrap_or(0.0);
        cumulative.push(before + libm::pow(size as f64, -recipe.exponent));
    }
    let total = cumulative.last().copied().unwrap_or(1.0);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(recipe.seed ^ 0x7a69_7066);
    let mut starts = vec![0];
    let mut end = 0;
    while end < recipe.documents {
        let at = rng.random::<f64>() * total;
        end = (end + 1 + cumulative.partition_point(|&sum| sum <= at)).min(recipe.documents);
        starts.push(end);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip::simhash::distance;

    fn donors() -> Donors {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let document = |rng: &mut Xoshiro256PlusPlus| {
            (0..rng.random_range(80..280)).map(|_| (rng.random(), 1 << 24)).collect::<Features>()
        };
        Donors::of((0..300).map(|_| document(&mut rng)).collect(), 1)
    }

    #[test]
    fn cluster_sizes_follow_the_law() {
        let recipe = Recipe { documents: 200_000, exponent: 2.0, largest: 100, longest: 512, seed: 3 };
        let starts = cluster_starts(&recipe);
        assert_eq!(*starts.last().unwrap(), recipe.documents);
        let mut sizes = vec![0usize; 101];
        starts.windows(2).for_each(|w| sizes[w[1] - w[0]] += 1);
        for size in [2, 3, 4, 8] {
            let ratio = sizes[1] as f64 / sizes[size] as f64;
            let wanted = (size * size) as f64;
            assert!((ratio / wanted - 1.0).abs() < 0.15, "size {size}: {ratio}, not {wanted}");
        }
    }

    #[test]
    fn edits_change_as_much_as_they_say() {
        let donors = donors();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let original = donors.document(&mut rng, 512);
        let n = original.len();
        let kept = |copy: &Features| original.iter().filter(|feature| copy.contains(feature)).count();
        for _ in 0..200 {
            let date = donors.edited(&mut rng, &original, Edit::Date);
            assert_eq!(date.len(), n);
            assert!((n - 4..n).contains(&kept(&date)));
            let banner = donors.edited(&mut rng, &original, Edit::Banner);
            assert!((n + 2..=n + 24).contains(&banner.len()) && kept(&banner) == n);
            let paragraph = donors.edited(&mut rng, &original, Edit::Paragraph);
            let dropped = (n - paragraph.len()) as f64 / n as f64;
            assert!(dropped > 0.0 && dropped <= 0.1, "{dropped}");
            let template = donors.edited(&mut rng, &original, Edit::Template);
            let share = kept(&template) as f64 / n as f64;
            assert!(template.len() == n && (0.8..1.0).contains(&share), "{share}");
        }
    }

    #[test]
    fn documents_are_the_same_for_any_number_of_threads_and_kept_apart() {
        let donors = donors();
        let recipe = Recipe { documents: 2_000, exponent: 2.4, largest: 1_000, longest: 512, seed: 7 };
        let hashes = || donors.generate(&recipe, |document, simhash, _| (document, simhash.hash));
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(hashes);
        assert_eq!(one, hashes());
        assert!(one.iter().enumerate().all(|(place, &(document, _))| place == document));
        let starts = cluster_starts(&recipe);
        let (mut within, mut pairs) = (0, 0);
        for cluster in starts.windows(2) {
            for document in cluster[0] + 1..cluster[1] {
                pairs += 1;
                within += usize::from(distance(one[cluster[0]].1, one[document].1) <= 10);
            }
        }
        assert!(within * 2 > pairs, "{within} of {pairs} copies are near their document");
        let strangers = starts.windows(3).filter(|w| distance(one[w[0]].1, one[w[1]].1) <= 10).count();
        assert!(strangers * 100 < starts.len(), "{strangers} strangers are near");
    }
}
