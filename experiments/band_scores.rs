//! Seed 000 again: SimHash in 4 bands of 16 bits against MinHash of 20 hashes in 4 bands of 5, score histograms per
//! band, and which of the two is the better, judged by exact Jaccard coefficients.

use crate::check::Verdict;
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::results::{Clock, Row, Table, distinct};
use crate::truth::similar_pairs;
use crate::{Config, Experiment};
use anyhow::Result;
use flipside::minhash::{DistinctSignatures, Family, MinHashParams, MinHasher};
use flipside::search::bands::{Banding, JoinParams, join};
use flipside::simhash::{SimHash, distance};
use flipside::text::FeatureKind;
use flipside::weight::Weighting;
use std::collections::HashSet;

pub const EXPERIMENT: Experiment = Experiment {
    name: "band-scores",
    about: "SimHash in 4 bands against MinHash in 4 bands: scores per band, time, size, and who is right (seed 000)",
    run,
    draw,
    verdicts,
};

const BANDS: usize = 4;
/// The seed lists pairs from these scores on.
const SIMHASH_FROM: u32 = 56;
const MINHASH: usize = 20;
const MINHASH_FROM: usize = 10;
/// Jaccard coefficient of 3-word shingles, the seed's unit, from which on two pages are near-duplicates.
const NEAR: f64 = 0.8;

/// A pair of texts and its score.
type Scored = (u32, u32, u32);

/// Pairs that share 16 bits in the same place, in each band, with a score of at least 56.
fn simhash_bands(hashes: &[SimHash]) -> [Vec<Scored>; BANDS] {
    std::array::from_fn(|band| {
        let key = |hash: u64| (hash >> (16 * (BANDS - 1 - band))) as u16;
        let mut order: Vec<(u16, u32)> = hashes.iter().zip(0..).map(|(h, i)| (key(h.hash), i)).collect();
        order.sort_unstable();
        let mut pairs = Vec::new();
        for bucket in order.chunk_by(|a, b| a.0 == b.0) {
            for (at, &(_, a)) in bucket.iter().enumerate() {
                for &(_, b) in &bucket[at + 1..] {
                    let score = 64 - distance(hashes[a as usize].hash, hashes[b as usize].hash);
                    if score >= SIMHASH_FROM {
                        pairs.push((a, b, score));
                    }
                }
            }
        }
        pairs
    })
}

fn run(config: &Config) -> Result<()> {
    for path in config.corpora() {
        let corpus = Corpus::load(&path, FeatureKind::Shingles(3))?;
        let mut table = Table::create(config, EXPERIMENT.name, &corpus.name, &corpus.digest)?;
        let sets: Vec<Vec<(u64, u32)>> = (0..corpus.len()).map(|text| corpus.counts(text)).collect();
        let truth: HashSet<(u32, u32)> =
            similar_pairs(&sets, NEAR).into_iter().map(|(a, b, _)| (a, b)).collect();
        let copies = |text: u32| corpus.copies(text as usize) as u64;
        // Copies of one text are alike by any method; they count as pages, as they do in the seed.
        let same: u64 = (0..corpus.len() as u32).map(|text| copies(text) * (copies(text) - 1) / 2).sum();
        config.progress.say(format!(
            "  {}: {} texts, {} near-duplicate pairs of texts, {same} pairs of copies",
            corpus.name,
            corpus.len(),
            truth.len()
        ));

        let clock = Clock::start();
        let hashes = corpus.simhashes(Weighting::Tf);
        let simhash = simhash_bands(&hashes);
        let simhash_time = clock.read();

        let clock = Clock::start();
        let params = MinHashParams { permutations: MINHASH, family: Family::Prime61, seed: config.seed };
        let features: Vec<Vec<u64>> =
            sets.iter().map(|set| set.iter().map(|&(feature, _)| feature).collect()).collect();
        let signatures = DistinctSignatures::new(MinHasher::new(params)?.sign_all(&features));
        let bands: Vec<Vec<Scored>> = {
            // One join per band tells the pairs of that band; buckets are compared in full.
            let banding = Banding { bands: BANDS, rows: MINHASH / BANDS };
            let mut params = JoinParams::new(banding, MINHASH_FROM);
            params.full_bucket = corpus.len();
            let mut pairs: Vec<Scored> = Vec::new();
            for pair in join(&signatures, params)?.pairs {
                for &a in signatures.documents(pair.a) {
                    for &b in signatures.documents(pair.b) {
                        pairs.push((a.min(b), a.max(b), pair.matches));
                    }
                }
            }
            for slot in 0..signatures.len() as u32 {
                let documents = signatures.documents(slot);
                for (at, &a) in documents.iter().enumerate() {
                    pairs.extend(documents[at + 1..].iter().map(|&b| (a, b, MINHASH as u32)));
                }
            }
            let slot_of = {
                let mut slots = vec![0u32; corpus.len()];
                for slot in 0..signatures.len() as u32 {
                    signatures.documents(slot).iter().for_each(|&document| slots[document as usize] = slot);
                }
                slots
            };
            let rows = MINHASH / BANDS;
            let band_of = |text: u32, band: usize| {
                &signatures.signatures().get(slot_of[text as usize] as usize)[band * rows..(band + 1) * rows]
            };
            (0..BANDS)
                .map(|band| {
                    let share = |&&(a, b, _): &&Scored| band_of(a, band) == band_of(b, band);
                    pairs.iter().filter(share).copied().collect()
                })
                .collect()
        };
        let minhash_time = clock.read();

        for (method, bands, top, (cpu, wall)) in [
            ("SimHash", &simhash[..], 64u32, simhash_time),
            ("MinHash", &bands[..], MINHASH as u32, minhash_time),
        ] {
            let from = if top == 64 { SIMHASH_FROM } else { MINHASH_FROM as u32 };
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
                        ("features", &"shingles:3"),
                        ("weighting", &"tf"),
                        ("method", &method),
                        ("band", &if band < BANDS { band.to_string() } else { "all".into() }),
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

fn draw(config: &Config, rows: &[Row]) -> Result<()> {
    for corpus in distinct(rows, "corpus") {
        let of = |method: &str, band: &str, column: &'static str| -> Vec<(f64, f64)> {
            rows.iter()
                .filter(|r| {
                    r.text("corpus") == corpus && r.text("method") == method && r.text("band") == band
                })
                .map(|r| (r.number("score"), r.number(column)))
                .collect()
        };
        let histogram = |method: &str, title: &str, from: f64, to: f64| Panel {
            title: title.into(),
            x: Axis::linear("equal positions of the pair").between(from, to),
            y: Axis::log("share of the band's pairs").between(1e-4, 1.2),
            series: (0..BANDS)
                .map(|band| {
                    let look = Look::Marked { colour: band, dashed: band > 1 };
                    Series::new(format!("band {band}"), look, of(method, &band.to_string(), "portion"))
                })
                .collect(),
        };
        let quality = |method: &str, title: &str, from: f64, to: f64| Panel {
            title: title.into(),
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
            histogram("SimHash", "SimHash, 64 bits in 4 bands", 56.0, 64.0),
            histogram("MinHash", "MinHash, 20 hashes in 4 bands", 10.0, 20.0),
            quality("SimHash", "SimHash against Jaccard >= 0.8", 56.0, 64.0),
            quality("MinHash", "MinHash against Jaccard >= 0.8", 10.0, 20.0),
        ];
        let path = config.figures().join(format!("band-scores-{corpus}.svg"));
        let note = "above: pairs of pages that share a band, copies included; below: pairs of different texts, all bands";
        figure::draw(&path, &format!("Scores per band, {corpus}"), note, 2, &panels)?;
    }
    Ok(())
}

fn verdicts(rows: &[Row], expected: &[Row]) -> Vec<Verdict> {
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
            agrees: Some(minhash.number("f1_from_score") > simhash.number("f1_from_score")),
            because: "the truth is a Jaccard coefficient, which MinHash estimates and SimHash does not"
                .into(),
        });
        for row in expected {
            let top = if row.text("method") == "SimHash" { 64.0 } else { 20.0 };
            let found = rows.iter().find(|r| {
                r.text("corpus") == corpus
                    && r.text("method") == row.text("method")
                    && r.text("band") == row.text("band")
                    && r.number("score") == top
            });
            let Some(found) = found else { continue };
            let (paper, ours) = (row.number("portion"), found.number("portion"));
            all.push(Verdict {
                item: format!("{corpus}: {}, band {}, full score", row.text("method"), row.text("band")),
                paper: format!("{:.1} % of {} pairs", paper * 100.0, row.text("pairs")),
                ours: format!("{:.1} % of the band's pairs, {}", ours * 100.0, found.text("number")),
                agrees: Some((paper - ours).abs() < 0.1),
                because: "another corpus: the share of pairs with the full score follows from how many copies it has".into(),
            });
        }
    }
    all
}
