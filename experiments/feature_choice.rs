//! What features and weights do to the distance of hashes: near-duplicates against random pairs, and how even
//! and independent the bits are.

use crate::check::{Finding, Verdict};
use crate::config;
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::results::{Clock, Row, Table, distinct};
use crate::truth::similar_pairs;
use crate::{Experiment, Options};
use anyhow::Result;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use simflip::features::cosine;
use simflip::simhash::{BITS, SimHash, distance};
use simflip::text::FeatureKind;
use simflip::weight::{Weigher, Weighting};
use std::collections::HashMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "feature-choice",
    about: "words against shingles, TF-IDF against TF against binary: distances, bit balance and correlation",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeatureChoiceConfig {
    /// Features whose Jaccard coefficient tells what is true, and from which on.
    true_features: FeatureKind,
    true_from: f64,
    random_pairs: usize,
    /// Pairs of each kind whose cosine is counted.
    cosines: usize,
    features: Vec<FeatureKind>,
    weightings: Vec<Weighting>,
    /// Distances within which the verdicts count true pairs, the second of them also random ones.
    near: f64,
    wide: f64,
}

/// Greatest share by which a bit is away from one half, and the mean and the
/// greatest |correlation| of two bits.
fn bits(hashes: &[SimHash]) -> (f64, f64, f64) {
    let n = hashes.len() as f64;
    let mut ones = [0f64; BITS];
    let mut both = vec![0f64; BITS * BITS];
    for simhash in hashes {
        for i in 0..BITS {
            if simhash.hash >> i & 1 == 1 {
                ones[i] += 1.0;
                let mut rest = simhash.hash >> i >> 1;
                let mut j = i + 1;
                while rest != 0 {
                    let gap = rest.trailing_zeros() as usize;
                    j += gap;
                    both[i * BITS + j] += 1.0;
                    rest = rest >> gap >> 1;
                    j += 1;
                }
            }
        }
    }
    let p = ones.map(|ones| ones / n);
    let balance = p.iter().map(|p| (p - 0.5).abs()).fold(0.0, f64::max);
    let (mut sum, mut most) = (0.0, 0f64);
    for i in 0..BITS {
        for j in i + 1..BITS {
            let spread = (p[i] * (1.0 - p[i]) * p[j] * (1.0 - p[j])).sqrt();
            let r = if spread > 0.0 { ((both[i * BITS + j] / n - p[i] * p[j]) / spread).abs() } else { 1.0 };
            sum += r;
            most = most.max(r);
        }
    }
    (balance, sum / (BITS * (BITS - 1) / 2) as f64, most)
}

fn run(options: &Options) -> Result<()> {
    let config: FeatureChoiceConfig = config::read(options, EXPERIMENT.name)?;
    for path in options.corpora() {
        let reference = Corpus::load(&options.progress, &path, config.true_features)?;
        let sets: Vec<Vec<(u64, u32)>> = (0..reference.len()).map(|text| reference.counts(text)).collect();
        let document = |text: u32| reference.document(text as usize);
        let truth: Vec<(u32, u32)> = similar_pairs(&sets, config.true_from)
            .into_iter()
            .map(|(a, b, _)| (document(a), document(b)))
            .collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        let mut draw = || document(rng.random_range(0..reference.len() as u32));
        let random: Vec<(u32, u32)> =
            (0..config.random_pairs).map(|_| (draw(), draw())).filter(|(a, b)| a != b).collect();
        let (name, pairs) = (&reference.name, truth.len());
        options.progress.say(format!("  {name}: {pairs} true pairs, {} random ones", random.len()));
        let points = options.progress.points(config.features.len() * config.weightings.len());
        let mut table = Table::create(options, EXPERIMENT.name, &reference.name, &reference.digest)?;
        for &features in &config.features {
            let corpus = Corpus::load(&options.progress, &path, features)?;
            let places: HashMap<u32, usize> =
                (0..corpus.len()).map(|text| (corpus.document(text), text)).collect();
            for &weighting in &config.weightings {
                let clock = Clock::start();
                let hashes = corpus.simhashes(weighting);
                let (cpu, wall) = clock.read();
                let (balance, correlation, most) = bits(&hashes);
                let weigher = Weigher::new(weighting);
                let exact = |a: usize, b: usize| {
                    let sorted = |text| {
                        let mut features = corpus.features(text, &weigher);
                        features.sort_unstable();
                        features
                    };
                    cosine(&sorted(a), &sorted(b))
                };
                for (kind, pairs) in [("true", &truth), ("random", &random)] {
                    let known: Vec<(usize, usize)> =
                        pairs.iter().filter_map(|(a, b)| Some((*places.get(a)?, *places.get(b)?))).collect();
                    let mut histogram = [0u64; BITS + 1];
                    for &(a, b) in &known {
                        histogram[distance(hashes[a].hash, hashes[b].hash) as usize] += 1;
                    }
                    let sample: Vec<f64> = known
                        .iter()
                        .step_by((known.len() / config.cosines).max(1))
                        .map(|&(a, b)| exact(a, b))
                        .collect();
                    let mean = sample.iter().sum::<f64>() / sample.len().max(1) as f64;
                    let mut sum = 0;
                    for (d, &pairs) in histogram.iter().enumerate() {
                        sum += pairs;
                        table.row(&[
                            ("features", &features),
                            ("weighting", &weighting.name()),
                            ("texts", &hashes.len()),
                            ("kind", &kind),
                            ("distance", &d),
                            ("pairs", &pairs),
                            ("share_within", &format_args!("{:.6}", sum as f64 / known.len().max(1) as f64)),
                            ("of", &known.len()),
                            ("mean_cosine", &format_args!("{mean:.4}")),
                            ("bit_imbalance", &format_args!("{balance:.4}")),
                            ("mean_bit_correlation", &format_args!("{correlation:.4}")),
                            ("greatest_bit_correlation", &format_args!("{most:.4}")),
                            ("cpu_seconds", &format_args!("{cpu:.4}")),
                            ("wall_seconds", &format_args!("{wall:.4}")),
                        ])?;
                    }
                }
                points.done(format!("  {features}, {}: {cpu:.1} s for the hashes", weighting.name()));
            }
        }
    }
    Ok(())
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let config: FeatureChoiceConfig = config::read(options, EXPERIMENT.name)?;
    for corpus in distinct(rows, "corpus") {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.text("corpus") == corpus).collect();
        let panel = |kind: &str, features: &str, title: String| Panel {
            title,
            x: Axis::linear("distance of the hashes").between(0.0, 40.0),
            y: if kind == "true" {
                Axis::share("share of true pairs within").between(0.0, 1.02)
            } else {
                Axis::log("share of random pairs within").between(1e-6, 1.2)
            },
            series: config
                .weightings
                .iter()
                .map(|weighting| weighting.name())
                .enumerate()
                .map(|(colour, weighting)| {
                    let points = rows
                        .iter()
                        .filter(|r| r.text("kind") == kind && r.text("features") == features)
                        .filter(|r| r.text("weighting") == weighting)
                        .map(|r| (r.number("distance"), r.number("share_within")));
                    Series::new(
                        weighting,
                        Look::Line { colour, dashed: colour == 1 },
                        points.filter(|p| p.1 > 0.0).collect(),
                    )
                })
                .collect(),
        };
        let panels: Vec<Panel> = config
            .features
            .iter()
            .map(FeatureKind::to_string)
            .flat_map(|features| {
                ["true", "random"].map(|kind| panel(kind, &features, format!("{features}, {kind} pairs")))
            })
            .collect();
        let path = options.figures().join(format!("feature-choice-{corpus}.svg"));
        let note = "true: Jaccard coefficient of 5-word shingles of .8 or more, counted exactly";
        figure::draw(&path, &format!("Features and weights, {corpus}"), note, 2, &panels)?;
    }
    Ok(())
}

fn verdicts(options: &Options, rows: &[Row], _: &[Row]) -> Result<Vec<Verdict>> {
    let config: FeatureChoiceConfig = config::read(options, EXPERIMENT.name)?;
    let (near, wide) = (config.near, config.wide);
    let mut all = Vec::new();
    for corpus in distinct(rows, "corpus") {
        for features in distinct(rows, "features") {
            for weighting in config.weightings.iter().map(|weighting| weighting.name()) {
                let at = |kind: &str, d: f64| {
                    rows.iter().find(|r| {
                        r.text("corpus") == corpus
                            && r.text("features") == features
                            && r.text("weighting") == weighting
                            && r.text("kind") == kind
                            && r.number("distance") == d
                    })
                };
                let (Some(nearest), Some(further), Some(random)) =
                    (at("true", near), at("true", wide), at("random", wide))
                else {
                    continue;
                };
                all.push(Verdict {
                    item: format!("{corpus}: {features}, {weighting}"),
                    paper: "TF-IDF of words; no comparison".into(),
                    ours: format!(
                        "true pairs within {near}: {:.0} %, within {wide}: {:.0} %; random pairs within {wide}: {:.4} %; cosine {:.3}; bits up to {:.2} off one half, |correlation| {:.3} on average",
                        nearest.number("share_within") * 100.0,
                        further.number("share_within") * 100.0,
                        random.number("share_within") * 100.0,
                        nearest.number("mean_cosine"),
                        nearest.number("bit_imbalance"),
                        nearest.number("mean_bit_correlation")
                    ),
                    finding: Finding::New,
                    because: "measured, not published".into(),
                });
            }
        }
    }
    Ok(all)
}
