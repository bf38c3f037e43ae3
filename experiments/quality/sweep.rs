//! The settings, and the candidates that they are scored over.

use super::QualityConfig;
use super::set::{Score, Set, across};
use crate::band_join::{DistinctSignatures, JoinParams, join, min_matches};
use crate::corpus::Corpus;
use crate::results::Clock;
use anyhow::{Result, ensure};
use rayon::prelude::*;
use simflip::features::{cosine, overlap};
use simflip::minhash::{MinHashParams, MinHasher};
use simflip::search::bands::Banding;
use simflip::settings::{Generator, Measure, Recall, Settings, Sketches, USUAL_RECALL, Verification};
use simflip::sketch::Hashed;
use simflip::text::FeatureKind;
use simflip::weight::{Weigher, Weighting};
use simflip::{Document, Id};
use simflip_core::dedup::{Context, Prepared};
use std::collections::HashMap;
use std::sync::Arc;

/// What a row was measured with; what does not apply is empty.
#[derive(Clone, Default)]
pub struct Setting {
    pub method: &'static str,
    pub features: String,
    pub weighting: &'static str,
    pub distance: Option<u32>,
    pub positions: Option<usize>,
    pub similarity: Option<f64>,
    pub check: &'static str,
    pub threshold: Option<f64>,
    /// Of a page's sketch, with what the check needs besides; features that are compared in full do not
    /// count.
    pub bytes: usize,
    /// Sketching and searching; not reading, and not the check.
    pub cpu_seconds: f64,
}

/// Two texts and how alike they are by every check, in the order of [`Checks::all`](super::Checks::all).
struct Candidate {
    a: u32,
    b: u32,
    distance: u32,
    /// Bit i: psm finds it within the i-th distance; bit 7: block-permuted tables find it.
    finders: u8,
    measures: [f32; 5],
}

const EXACT: u8 = 1 << 7;

/// Ascending features of every text with their weights.
fn weights(corpus: &Corpus, weighting: Weighting) -> Vec<Vec<(u64, i64)>> {
    let weigher = Weigher::new(weighting);
    (0..corpus.len())
        .into_par_iter()
        .map(|text| {
            let mut features = corpus.features(text, &weigher);
            features.sort_unstable();
            features
        })
        .collect()
}

fn counts(corpus: &Corpus) -> Vec<Vec<(u64, u32)>> {
    (0..corpus.len()).into_par_iter().map(|text| corpus.counts(text)).collect()
}

/// Pairs of documents, those of one text included, that the kept candidates stand for.
fn listed<'a>(
    corpus: &Corpus,
    copies: &[(u32, u32)],
    kept: impl Iterator<Item = (u32, u32)> + 'a,
) -> Vec<(u32, u32)> {
    let mut pairs = copies.to_vec();
    kept.for_each(|(a, b)| pairs.extend(across(corpus, a, b)));
    pairs
}

/// True if a setting is in the table of the summary.
fn is_shown(config: &QualityConfig, setting: &Setting) -> bool {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let fields = [
        setting.method.to_owned(),
        setting.features.clone(),
        setting.weighting.to_owned(),
        number(setting.distance.map(f64::from)),
        number(setting.positions.map(|positions| positions as f64)),
        number(setting.similarity),
        setting.check.to_owned(),
        number(setting.threshold),
    ];
    let key = fields.map(|field| if field.is_empty() { "-".into() } else { field }).join(" ");
    config.shown.iter().any(|shown| shown.setting == key)
}

/// Pairs by sort are scored for the settings in the table alone.
fn score(config: &QualityConfig, set: &Set, setting: &Setting, pairs: &[(u32, u32)]) -> Result<Score> {
    if is_shown(config, setting) { set.score_sorts(pairs) } else { set.score_pairs(pairs.iter().copied()) }
}

/// Scores SimHash: all weightings, by psm and by exact search.
pub fn simhash(
    config: &QualityConfig,
    corpus: &Corpus,
    set: &Set,
    features: FeatureKind,
    copies: &[(u32, u32)],
    mut row: impl FnMut(Setting, Score) -> Result<()>,
) -> Result<()> {
    let distances = &config.distances;
    ensure!((1..=7).contains(&distances.len()), "{} distances, not 1 to 7", distances.len());
    let counts = counts(corpus);
    for &weighting in &config.weightings {
        let (candidates, seconds) = candidates(distances, corpus, features, weighting, &counts)?;
        let mut settings = Vec::new();
        // Rows have called the tool's own choice of a search psm from the beginning.
        for (method, finder) in [("psm", 0u8), ("bphs", EXACT)] {
            for (number, &distance) in distances.iter().enumerate() {
                let base = Setting {
                    method,
                    features: features.to_string(),
                    weighting: weighting.name(),
                    distance: Some(distance),
                    check: Verification::None.name(),
                    bytes: 8,
                    cpu_seconds: if finder == EXACT { seconds[distances.len()] } else { seconds[number] },
                    ..Setting::default()
                };
                let finder = if finder == EXACT { EXACT } else { 1 << number };
                settings.push((base.clone(), finder, 0, 0.0));
                for (place, (check, thresholds)) in config.checks.all().into_iter().enumerate() {
                    let vectors = matches!(check, Measure::Weights | Measure::Mismatch);
                    // What the search misses hardly depends on the check; one check shows it.
                    if finder != EXACT && check != Measure::Weights {
                        continue;
                    }
                    for &threshold in thresholds {
                        let setting = Setting {
                            check: check.name(),
                            threshold: Some(threshold),
                            bytes: if vectors { 8 + 64 } else { 8 },
                            ..base.clone()
                        };
                        settings.push((setting, finder, place, threshold as f32));
                    }
                }
            }
        }
        let scores: Vec<Result<Score>> = settings
            .par_iter()
            .map(|(setting, finder, place, threshold)| {
                let most = setting.distance.unwrap_or(0);
                let checked = setting.threshold.is_some();
                let kept = candidates.iter().filter(|c| {
                    c.distance <= most
                        && c.finders & finder != 0
                        && (!checked || c.measures[*place] >= *threshold)
                });
                score(config, set, setting, &listed(corpus, copies, kept.map(|c| (c.a, c.b))))
            })
            .collect();
        for ((setting, ..), score) in settings.into_iter().zip(scores) {
            row(setting, score?)?;
        }
    }
    Ok(())
}

/// All pairs of texts that a search finds at some distance, and the processor seconds of each psm search and
/// of the exact one, sketching included.
fn candidates(
    distances: &[u32],
    corpus: &Corpus,
    features: FeatureKind,
    weighting: Weighting,
    counts: &[Vec<(u64, u32)>],
) -> Result<(Vec<Candidate>, Vec<f64>)> {
    let (pages, _, frequencies) = corpus.parts();
    let base = Settings::simhash().with(|settings| {
        settings.features = features;
        settings.sketches = Sketches::SimHash { weighting };
        settings.verification = Verification::None;
    });
    let clock = Clock::start();
    let sketches: Vec<Hashed> = corpus.simhashes(weighting).iter().map(Hashed::from).collect();
    let (sketching, _) = clock.read();
    let prepared = Prepared::new(&pages.collection, &base, Some(Arc::clone(frequencies)), &());
    let text_of: HashMap<u32, u32> =
        (0..corpus.len()).map(|text| (corpus.document(text), text as u32)).collect();
    let mut found: HashMap<(u32, u32), (u32, u8)> = HashMap::new();
    let mut seconds = Vec::new();
    let usual = |distance| Generator::cheapest(distance, Recall::AtLeast(USUAL_RECALL));
    let psm = (0..).zip(distances).map(|(bit, &distance)| (usual(distance), 1u8 << bit));
    let widest = distances.last().map(|&distance| (Generator::Bphs { distance, tables: None }, EXACT));
    for (generator, finder) in psm.chain(widest) {
        let settings = base.clone().with(|settings| {
            settings.generator = generator;
            // Documents that share a key are compared with few others of it otherwise.
            settings.all_pairs = true;
        });
        let context = Context::default();
        let clock = Clock::start();
        let search = prepared.find(&settings, &context)?;
        seconds.push(sketching + clock.read().0);
        for pair in search.text_pairs()? {
            let [a, b] = pair.documents().map(|document| text_of[&document.0]);
            found.entry((a.min(b), a.max(b))).or_insert((pair.distance, 0)).1 |= finder;
        }
    }
    let mut pairs: Vec<(u32, u32, u32, u8)> =
        found.into_iter().map(|((a, b), (distance, finders))| (a, b, distance, finders)).collect();
    pairs.par_sort_unstable();
    let weights = weights(corpus, weighting);
    let candidates = pairs
        .into_par_iter()
        .map(|(a, b, distance, finders)| {
            let (i, j) = (a as usize, b as usize);
            let (p, q) = (&sketches[i].weights, &sketches[j].weights);
            let sets = overlap(&counts[i], &counts[j]);
            let containment = sets.containment_of_a().max(sets.containment_of_b());
            let cosine = cosine(&weights[i], &weights[j]);
            let exact = [sets.jaccard(), containment, cosine].map(|x| x as f32);
            let measures = [p.cosine(q), p.agreement(q), exact[0], exact[1], exact[2]];
            Candidate { a, b, distance, finders, measures }
        })
        .collect();
    Ok((candidates, seconds))
}

/// Two texts whose signatures share a band.
struct Banded {
    a: u32,
    b: u32,
    matches: usize,
    jaccard: f32,
    containment: f32,
}

/// Scores MinHash: estimated, counted, and checked by containment.
pub fn minhash(
    config: &QualityConfig,
    corpus: &Corpus,
    set: &Set,
    features: FeatureKind,
    copies: &[(u32, u32)],
    mut row: impl FnMut(Setting, Score) -> Result<()>,
) -> Result<()> {
    let counts = counts(corpus);
    for &positions in &config.positions {
        let clock = Clock::start();
        let usual = Settings::minhash(0.8).minhash_params().unwrap_or_default();
        let hasher = MinHasher::new(MinHashParams {
            permutations: positions,
            family: usual.family,
            seed: usual.seed,
        })?;
        let sets: Vec<Vec<u64>> =
            counts.iter().map(|counts| counts.iter().map(|&(feature, _)| feature).collect()).collect();
        let distinct = DistinctSignatures::new(&hasher.sign_all(&sets))?;
        let (signing, _) = clock.read();
        for &similarity in &config.similarities {
            let clock = Clock::start();
            let banding = Banding::choose(positions, similarity, USUAL_RECALL)?;
            // As the tool does: not counted are candidates four standard errors below the threshold.
            let m = positions as f64;
            let least = (m * similarity - 4.0 * (m * similarity * (1.0 - similarity)).sqrt()).max(0.0);
            let pairs = join(&distinct, JoinParams::new(banding, least as usize))?.pairs;
            let cpu_seconds = signing + clock.read().0;
            let mut near: Vec<(Document, Document, usize)> = Vec::new();
            for same in distinct.groups().iter() {
                for (at, &a) in same.iter().enumerate() {
                    near.extend(same[at + 1..].iter().map(|&b| (a, b, positions)));
                }
            }
            for pair in pairs {
                for &a in distinct.members(pair.a) {
                    let others = distinct.members(pair.b).iter();
                    near.extend(others.map(|&b| (a.min(b), a.max(b), positions - pair.distance as usize)));
                }
            }
            near.par_sort_unstable();
            let candidates: Vec<Banded> = near
                .into_par_iter()
                .map(|(a, b, matches)| {
                    let sets = overlap(&counts[a.index()], &counts[b.index()]);
                    let containment = sets.containment_of_a().max(sets.containment_of_b()) as f32;
                    Banded { a: a.0, b: b.0, matches, jaccard: sets.jaccard() as f32, containment }
                })
                .collect();
            let enough = min_matches(positions, similarity);
            let base = Setting {
                method: "minhash",
                features: features.to_string(),
                positions: Some(positions),
                similarity: Some(similarity),
                bytes: 4 * positions,
                cpu_seconds,
                ..Setting::default()
            };
            let mut settings = vec![
                Setting { check: "none", ..base.clone() },
                Setting { check: Measure::Jaccard.name(), ..base.clone() },
            ];
            settings.extend(config.checks.containment.iter().map(|&threshold| Setting {
                check: Measure::Containment.name(),
                threshold: Some(threshold),
                ..base.clone()
            }));
            let scores: Vec<Result<Score>> = settings
                .par_iter()
                .map(|setting| {
                    let kept = candidates.iter().filter(|c| match (setting.check, setting.threshold) {
                        (check, _) if check == Measure::Jaccard.name() => c.jaccard >= similarity as f32,
                        (_, None) => c.matches >= enough,
                        (_, Some(threshold)) => c.matches >= enough && c.containment >= threshold as f32,
                    });
                    score(config, set, setting, &listed(corpus, copies, kept.map(|c| (c.a, c.b))))
                })
                .collect();
            for (setting, score) in settings.into_iter().zip(scores) {
                row(setting, score?)?;
            }
        }
    }
    Ok(())
}
