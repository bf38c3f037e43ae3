//! Seed 000 again: SimHash in 4 bands of 16 bits against MinHash of 20 hashes in 4 bands of 5, score
//! histograms per band, and which of the two is the better, judged by exact Jaccard coefficients.

use crate::check::Verdict;
use crate::config;
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::results::{Clock, Row, Table, distinct};
use crate::truth::similar_pairs;
use crate::{Experiment, Options};
use anyhow::Result;
use flipside::Id;
use flipside::minhash::{DistinctSignatures, Family, MinHashParams, MinHasher};
use flipside::search::bands::{Banding, JoinParams, join};
use flipside::simhash::{BITS, SimHash, distance};
use flipside::text::FeatureKind;
use flipside::weight::Weighting;
use serde::Deserialize;
use std::collections::HashSet;

pub const EXPERIMENT: Experiment = Experiment {
    name: "band-scores",
    about: "SimHash in 4 bands against MinHash in 4 bands: scores per band, time, size, and who is right (seed 000)",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    bands: usize,
    minhash_positions: usize,
    /// The seed lists pairs from these scores on.
    simhash_from: u32,
    minhash_from: u32,
    /// Words of a shingle.
    shingle: usize,
    /// Jaccard coefficient of shingles from which on two pages are near-duplicates.
    near: f64,
    agree_within: f64,
}

/// A pair of texts and its score.
type Scored = (u32, u32, u32);

/// Pairs whose bits of a band are equal, for each band, with a score of at least `from`.
fn simhash_bands(hashes: &[SimHash], bands: usize, from: u32) -> Vec<Vec<Scored>> {
    let of_band = |band| {
        let width = BITS / bands;
        let key = |hash: u64| hash << (width * band) >> (BITS - width);
        let mut order: Vec<(u64, u32)> = hashes.iter().zip(0..).map(|(h, i)| (key(h.hash), i)).collect();
        order.sort_unstable();
        let mut pairs = Vec::new();
        for bucket in order.chunk_by(|a, b| a.0 == b.0) {
            for (at, &(_, a)) in bucket.iter().enumerate() {
                for &(_, b) in &bucket[at + 1..] {
                    let score = BITS as u32 - distance(hashes[a as usize].hash, hashes[b as usize].hash);
                    if score >= from {
                        pairs.push((a, b, score));
                    }
                }
            }
        }
        pairs
    };
    (0..bands).map(of_band).collect()
}

fn run(options: &Options) -> Result<()> {
    let config: Config = config::read(options, EXPERIMENT.name)?;
    let Config { bands: count, minhash_positions: positions, .. } = config;
    let features = FeatureKind::Shingles(config.shingle);
    for path in options.corpora() {
        let corpus = Corpus::load(&path, features)?;
        let mut table = Table::create(options, EXPERIMENT.name, &corpus.name, &corpus.digest)?;
        let sets: Vec<Vec<(u64, u32)>> = (0..corpus.len()).map(|text| corpus.counts(text)).collect();
        let truth: HashSet<(u32, u32)> =
            similar_pairs(&sets, config.near).into_iter().map(|(a, b, _)| (a, b)).collect();
        let copies = |text: u32| corpus.copies(text as usize) as u64;
        // Copies of one text are alike by any method; they count as pages, as they do in the seed.
        let same: u64 = (0..corpus.len() as u32).map(|text| copies(text) * (copies(text) - 1) / 2).sum();
        options.progress.say(format!(
            "  {}: {} texts, {} near-duplicate pairs of texts, {same} pairs of copies",
            corpus.name,
            corpus.len(),
            truth.len()
        ));

        let clock = Clock::start();
        let hashes = corpus.simhashes(Weighting::Tf);
        let simhash = simhash_bands(&hashes, count, config.simhash_from);
        let simhash_time = clock.read();

        let clock = Clock::start();
        let params = MinHashParams::new(positions, Family::Prime61, options.seed);
        let hashed: Vec<Vec<u64>> =
            sets.iter().map(|set| set.iter().map(|&(feature, _)| feature).collect()).collect();
        let signatures = DistinctSignatures::new(MinHasher::new(params)?.sign_all(&hashed));
        let bands: Vec<Vec<Scored>> = {
            // One join per band tells the pairs of that band; buckets are compared in full.
            let banding = Banding { bands: count, rows: positions / count };
            let mut params = JoinParams::new(banding, config.minhash_from as usize);
            params.full_bucket = corpus.len();
            let mut pairs: Vec<Scored> = Vec::new();
            for pair in join(&signatures, params)?.pairs {
                for &a in signatures.members(pair.a) {
                    for &b in signatures.members(pair.b) {
                        pairs.push((a.min(b).0, a.max(b).0, positions as u32 - pair.distance));
                    }
                }
            }
            for documents in signatures.groups().iter() {
                for (at, &a) in documents.iter().enumerate() {
                    pairs.extend(documents[at + 1..].iter().map(|&b| (a.0, b.0, positions as u32)));
                }
            }
            let slot_of = {
                let mut slots = vec![0; corpus.len()];
                for (slot, documents) in signatures.groups().iter().enumerate() {
                    documents.iter().for_each(|&document| slots[document.index()] = slot);
                }
                slots
            };
            let rows = positions / count;
            let band_of = |text: u32, band: usize| {
                &signatures.signatures().get(slot_of[text as usize])[band * rows..(band + 1) * rows]
            };
            (0..count)
                .map(|band| {
                    let share = |&&(a, b, _): &&Scored| band_of(a, band) == band_of(b, band);
                    pairs.iter().filter(share).copied().collect()
                })
                .collect()
        };
        let minhash_time = clock.read();

        for (method, bands, from, top, (cpu, wall)) in [
            ("SimHash", &simhash[..], config.simhash_from, BITS as u32, simhash_time),
            ("MinHash", &bands[..], config.minhash_from, positions as u32, minhash_time),
        ] {
            let union: HashSet<Scored> = bands.iter().flatten().copied().collect();
            let of_bands = bands.iter().cloned().chain([union.iter().copied().collect()]);
            for (band, all) in of_bands.enumerate() {
                let total: u64 = all.iter().map(|&(a, b, _)| copies(a) * copies(b)).sum::<u64>() + same;
                for score in from..=top {
                    let at: Vec<&Scored> = all.iter().filter(|pair| pair.2 == score).collect();
                    let copied = if score == top { same } else { 0 };
                    let number = at.iter().map(|&&(a, b, _)| copies(a) * copies(b)).sum::<u64>() + copied;
                    let right = at.iter().filter(|&&&(a, b, _)| truth.contains(&(a, b))).count();
                    // What the method would have found with this score as its threshold.
                    let above: Vec<&Scored> = all.iter().filter(|pair| pair.2 >= score).collect();
                    let hit = above.iter().filter(|&&&(a, b, _)| truth.contains(&(a, b))).count() as f64;
                    let precision = hit / above.len().max(1) as f64;
                    let recall = hit / truth.len().max(1) as f64;
                    let f1 = 2.0 * hit / (above.len() + truth.len()).max(1) as f64;
                    table.row(&[
                        ("documents", &corpus.documents()),
                        ("texts", &corpus.len()),
                        ("features", &features),
                        ("weighting", &"tf"),
                        ("method", &method),
                        ("band", &if band < count { band.to_string() } else { "all".into() }),
                        ("score", &score),
                        ("number", &number),
                        ("portion", &format_args!("{:.6}", number as f64 / total.max(1) as f64)),
                        ("text_pairs", &at.len()),
                        ("text_pairs_right", &right),
                        ("true_pairs", &truth.len()),
                        ("precision_from_score", &format_args!("{precision:.5}")),
                        ("recall_from_score", &format_args!("{recall:.5}")),
                        ("f1_from_score", &format_args!("{f1:.5}")),
                        ("result_bytes", &(union.len() * size_of::<Scored>())),
                        ("cpu_seconds", &format_args!("{cpu:.4}")),
                        ("wall_seconds", &format_args!("{wall:.4}")),
                    ])?;
                }
            }
        }
    }
    Ok(())
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let config: Config = config::read(options, EXPERIMENT.name)?;
    let simhash = (f64::from(config.simhash_from), BITS as f64);
    let minhash = (f64::from(config.minhash_from), config.minhash_positions as f64);
    let Config { bands, minhash_positions: positions, near, .. } = config;
    for corpus in distinct(rows, "corpus") {
        let of = |method: &str, band: &str, column: &'static str| -> Vec<(f64, f64)> {
            rows.iter()
                .filter(|r| {
                    r.text("corpus") == corpus && r.text("method") == method && r.text("band") == band
                })
                .map(|r| (r.number("score"), r.number(column)))
                .collect()
        };
        let histogram = |method: &str, title: String, (from, to): (f64, f64)| Panel {
            title,
            x: Axis::linear("equal positions of the pair").between(from, to),
            y: Axis::log("share of the band's pairs").between(1e-4, 1.2),
            series: (0..bands)
                .map(|band| {
                    let look = Look::Marked { colour: band, dashed: band > 1 };
                    Series::new(format!("band {band}"), look, of(method, &band.to_string(), "portion"))
                })
                .collect(),
        };
        let quality = |method: &str, title: String, (from, to): (f64, f64)| Panel {
            title,
            x: Axis::linear("pairs from this score on").between(from, to),
            y: Axis::share("share").between(0.0, 1.02),
            series: [
                ("precision", "precision_from_score", 4),
                ("recall", "recall_from_score", 5),
                ("F1", "f1_from_score", 6),
            ]
            .map(|(name, column, colour)| {
                Series::new(name, Look::Line { colour, dashed: colour == 5 }, of(method, "all", column))
            })
            .into(),
        };
        let panels = [
            histogram("SimHash", format!("SimHash, {BITS} bits in {bands} bands"), simhash),
            histogram("MinHash", format!("MinHash, {positions} hashes in {bands} bands"), minhash),
            quality("SimHash", format!("SimHash against Jaccard >= {near}"), simhash),
            quality("MinHash", format!("MinHash against Jaccard >= {near}"), minhash),
        ];
        let path = options.figures().join(format!("band-scores-{corpus}.svg"));
        let note = "above: pairs of pages that share a band, copies included; below: pairs of different texts, all bands";
        figure::draw(&path, &format!("Scores per band, {corpus}"), note, 2, &panels)?;
    }
    Ok(())
}

fn verdicts(options: &Options, rows: &[Row], expected: &[Row]) -> Result<Vec<Verdict>> {
    let config: Config = config::read(options, EXPERIMENT.name)?;
    let mut all = Vec::new();
    for corpus in distinct(rows, "corpus") {
        let of = |method: &str| -> Vec<&Row> {
            rows.iter()
                .filter(|r| {
                    r.text("corpus") == corpus && r.text("method") == method && r.text("band") == "all"
                })
                .collect()
        };
        let best = |method: &str| {
            of(method)
                .into_iter()
                .max_by(|a, b| a.number("f1_from_score").total_cmp(&b.number("f1_from_score")))
        };
        let (Some(simhash), Some(minhash)) = (best("SimHash"), best("MinHash")) else { continue };
        let say = |row: &Row| {
            format!(
                "F1 {:.3} from score {} (precision {:.3}, recall {:.3}), {:.2} s",
                row.number("f1_from_score"),
                row.text("score"),
                row.number("precision_from_score"),
                row.number("recall_from_score"),
                row.number("cpu_seconds")
            )
        };
        all.push(Verdict {
            item: format!("{corpus}: which is the better"),
            paper: "MinHash on every aspect, except that it takes more space (judged by eye)".into(),
            ours: format!("MinHash {}; SimHash {}", say(minhash), say(simhash)),
            finding: (minhash.number("f1_from_score") > simhash.number("f1_from_score")).into(),
            because: "the truth is a Jaccard coefficient, which MinHash estimates and SimHash does not"
                .into(),
        });
        for row in expected {
            let top = if row.text("method") == "SimHash" { BITS } else { config.minhash_positions };
            let found = rows.iter().find(|r| {
                r.text("corpus") == corpus
                    && r.text("method") == row.text("method")
                    && r.text("band") == row.text("band")
                    && r.number("score") == top as f64
            });
            let Some(found) = found else { continue };
            let (paper, ours) = (row.number("portion"), found.number("portion"));
            all.push(Verdict {
                item: format!("{corpus}: {}, band {}, full score", row.text("method"), row.text("band")),
                paper: format!("{:.1} % of {} pairs", paper * 100.0, row.text("pairs")),
                ours: format!("{:.1} % of the band's pairs, {}", ours * 100.0, found.text("number")),
                finding: ((paper - ours).abs() < config.agree_within).into(),
                because: "another corpus: the share of pairs with the full score follows from how many copies it has".into(),
            });
        }
    }
    Ok(all)
}
