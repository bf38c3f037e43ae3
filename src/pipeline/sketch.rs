//! From counted features to sketches.

use super::collect::Collection;
use super::settings::Settings;
use crate::error::Result;
use crate::minhash::{MinHashParams, MinHasher, Signatures};
use crate::simhash::hasher::SimHasher;
use crate::simhash::quantised::QuantisedWeights;
use crate::weight::Weigher;
use crate::weight::frequencies::Frequencies;
use rayon::prelude::*;

/// Documents that share a text are sketched once; documents with too few features not at all.
pub struct Texts {
    /// `starts[t]..starts[t + 1]` is text `t`'s part of `copies`.
    starts: Vec<u32>,
    copies: Vec<u32>,
    /// Texts with enough features, ascending.
    pub sketched: Vec<u32>,
    /// The other ones.
    pub unsketched: Vec<u32>,
}

impl Texts {
    /// Groups the documents of a collection by text, texts in order of their first documents.
    pub fn new(collection: &Collection, min_features: usize) -> Self {
        let rows = collection.documents.rows();
        let mut order: Vec<(u128, u32)> =
            rows.iter().zip(0..).map(|(row, document)| (row.digest, document)).collect();
        order.par_sort_unstable();
        let mut groups: Vec<&[(u128, u32)]> = order.chunk_by(|a, b| a.0 == b.0).collect();
        groups.par_sort_unstable_by_key(|group| group[0].1);
        let mut texts = Self {
            starts: Vec::with_capacity(groups.len() + 1),
            copies: Vec::with_capacity(order.len()),
            sketched: Vec::new(),
            unsketched: Vec::new(),
        };
        texts.starts.push(0);
        for (text, group) in (0..).zip(groups) {
            texts.copies.extend(group.iter().map(|&(_, document)| document));
            texts.starts.push(texts.copies.len() as u32);
            let enough = collection.features(group[0].1) >= min_features.max(1);
            if enough { &mut texts.sketched } else { &mut texts.unsketched }.push(text);
        }
        texts
    }

    /// The documents that have the text, ascending.
    pub fn copies(&self, text: u32) -> &[u32] {
        &self.copies[self.starts[text as usize] as usize..self.starts[text as usize + 1] as usize]
    }

    /// Number of distinct texts.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The SimHash of every sketched text, in the order of [`Texts::sketched`].
pub struct SimHashes {
    /// The 64 bits.
    pub hashes: Vec<u64>,
    /// The weight vectors behind them.
    pub weights: Vec<QuantisedWeights>,
}

/// Hashes the sketched texts, unless reading has done so.
pub fn simhashes(
    collection: &Collection,
    texts: &Texts,
    settings: &Settings,
    frequencies: &Frequencies,
    progress: &(dyn Fn(u64) + Sync),
) -> SimHashes {
    let weigher = Weigher::new(settings.weighting);
    // By part and term, so that hashing a document looks nothing up by hash.
    let idf: Vec<Vec<f32>> = collection
        .terms()
        .into_iter()
        .map(|terms| {
            let of = |&feature: &u64| weigher.idf(frequencies.get(feature), frequencies.documents());
            terms.features.par_iter().map(of).collect()
        })
        .collect();
    let features: Vec<&[u64]> = collection.terms().into_iter().map(|terms| &terms.features[..]).collect();
    let (hashes, weights) = texts
        .sketched
        .par_chunks(256)
        .flat_map_iter(|chunk| {
            let mut hasher = SimHasher::default();
            progress(chunk.len() as u64);
            let (weigher, idf, features) = (&weigher, &idf, &features);
            chunk.iter().map(move |&text| {
                let document = texts.copies(text)[0];
                if let Some(sketched) = collection.simhash_of(document) {
                    return sketched;
                }
                let (part, terms, occurrences) = collection.terms_of(document);
                let simhash = hasher.hash(terms.iter().zip(occurrences).map(|(&term, &n)| {
                    let term = term as usize;
                    (features[part][term], weigher.weight(u32::from(n), idf[part][term]))
                }));
                (simhash.hash, QuantisedWeights::new(&simhash.weights))
            })
        })
        .unzip();
    SimHashes { hashes, weights }
}

/// Signs the sketched texts, in the order of [`Texts::sketched`].
///
/// # Errors
/// If the parameters of the signature have no meaning.
pub fn signatures(
    collection: &Collection,
    texts: &Texts,
    settings: &Settings,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Signatures> {
    let params =
        MinHashParams { permutations: settings.permutations, family: settings.family, seed: settings.seed };
    let hasher = MinHasher::new(params)?;
    let m = settings.permutations;
    let mut values = vec![0u32; texts.sketched.len() * m];
    values.par_chunks_mut(256 * m).zip(texts.sketched.par_chunks(256)).for_each(|(signatures, chunk)| {
        let mut features = Vec::new();
        for (signature, &text) in signatures.chunks_mut(m).zip(chunk) {
            features.clear();
            features.extend(collection.features_of(texts.copies(text)[0]));
            hasher.sign(&features, signature);
        }
        progress(chunk.len() as u64);
    });
    Ok(Signatures::from_values(m, values)?)
}
