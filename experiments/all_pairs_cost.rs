//! What comparing all pairs costs, by cosine and by Hamming distance (Table 1), and what a join needs
//! instead.

use crate::check::{Finding, Verdict};
use crate::config::{self, Size};
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series, short};
use crate::results::{Clock, Row, Table, distinct, expected};
use crate::throughput::{Searches, Workload};
use crate::{Experiment, Options};
use all_pairs_hamming::ChunkedJoiner;
use anyhow::{Result, anyhow, ensure};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use simflip::features::cosine;
use simflip::search::bphs::{Bphs, BphsParams};
use simflip::search::dial::{Dial, DialParams};
use simflip::search::{HammingIndex, Mode, Query, Scratch, join};
use simflip::simhash::BITS;
use simflip::text::FeatureKind;
use simflip::weight::{Weigher, Weighting};
use simflip_core::internal::Level;
use std::hint::black_box;

pub const EXPERIMENT: Experiment = Experiment {
    name: "all-pairs-cost",
    about: "one cosine, one Hamming distance, all pairs of them, and what a join needs instead (Table 1)",
    run,
    draw,
    verdicts,
};

/// A self-join by a rival: pairs, and bytes.
type RivalJoin = fn(&[u64], u32) -> Result<(u64, usize)>;

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllPairsConfig {
    /// Sizes of the published table.
    pages: Vec<f64>,
    /// Pairs whose cosine is timed.
    cosines: Size,
    /// Documents that they are drawn from.
    cosine_documents: usize,
    hamming_hashes: usize,
    hamming_queries: Size,
    /// Documents of the joins.
    documents: Size,
    /// Of their hashes every so-and-so-manieth is joined.
    every: Vec<usize>,
    /// Of the join by BPHS.
    tables: u32,
    /// Hashes beyond which a rival's join in four chunks does not fit.
    most_for_four_chunks: f64,
    /// Pages from which on the published row contradicts the others.
    inconsistent_from: f64,
    /// Of the logarithm of a time.
    agree_within: f64,
}

/// Seconds for each cosine of two documents, and bytes for each document.
fn cosine_cost(corpus: &Corpus, most: usize, pairs: usize, seed: u64) -> (f64, f64, f64) {
    let weigher = Weigher::new(Weighting::TfIdf);
    let mut documents: Vec<Vec<(u64, i64)>> =
        (0..corpus.len()).take(most).map(|text| corpus.features(text, &weigher)).collect();
    documents.iter_mut().for_each(|features| features.sort_unstable());
    let features = documents.iter().map(Vec::len).sum::<usize>() as f64 / documents.len() as f64;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = || rng.random_range(0..documents.len());
    let drawn: Vec<(usize, usize)> = (0..pairs).map(|_| (draw(), draw())).collect();
    let clock = Clock::start();
    let sum: f64 = drawn.iter().map(|&(a, b)| cosine(&documents[a], &documents[b])).sum();
    black_box(sum);
    // A feature and a float for its weight, 8 bytes in all, as the paper counts.
    (clock.read().0 / pairs as f64, features * 8.0, features)
}

fn hamming_cost(hashes: &[u64], queries: usize, radius: u32) -> f64 {
    let kernel = Level::in_use();
    let clock = Clock::start();
    let mut found = 0u64;
    for &query in &hashes[..queries] {
        kernel.scan(hashes, query, radius, |_, _| {
            found += 1;
            std::ops::ControlFlow::Continue(())
        });
    }
    black_box(found);
    clock.read().0 / (queries as f64 * hashes.len() as f64)
}

/// Pairs of distinct hashes within the radius, by an exact index.
fn by_queries(index: &dyn HammingIndex, hashes: &[u64]) -> u64 {
    let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
    let none = [0f32; BITS];
    let mut pairs = 0;
    for part in hashes.chunks(1 << 16) {
        let queries: Vec<Query<'_>> = part.iter().map(|&hash| Query { hash, weights: &none }).collect();
        hits.clear();
        index.answer(&queries, Mode::All, false, &mut scratch, &mut |found| {
            hits.push((found.query, found.hit))
        });
        pairs += hits.iter().filter(|(_, hit)| hit.distance > 0).count() as u64;
    }
    pairs / 2
}

/// The rival's join in chunks of one width; pairs, and bytes that it tells.
fn rival<S: all_pairs_hamming::sketch::Sketch>(
    hashes: &[u64],
    radius: u32,
    chunks: usize,
    cut: impl Fn(u64) -> Vec<S>,
) -> Result<(u64, usize)> {
    let mut joiner = ChunkedJoiner::new(chunks);
    for &hash in hashes {
        joiner.add(cut(hash)).map_err(|e| anyhow!("all-pairs-hamming: {e}"))?;
    }
    // Its radius is a share of the bits, inclusive.
    let pairs = joiner.similar_pairs(f64::from(radius) / BITS as f64);
    Ok((pairs.len() as u64, joiner.memory_in_bytes()))
}

fn run(options: &Options) -> Result<()> {
    let config: AllPairsConfig = config::read(options, EXPERIMENT.name)?;
    let searches = Searches::read(options)?;
    let radius = searches.distance;
    for path in options.corpora() {
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Words)?;
        let mut table = Table::create(options, EXPERIMENT.name, &corpus.name, &corpus.digest)?;
        let mut row = |what: &str, n: f64, seconds: f64, bytes: f64, by: &str, pairs: u64, features: f64| {
            options
                .progress
                .say(format!("  {what:34} n {n:>13}: {seconds:>14.3} s {bytes:>14.0} bytes ({by})"));
            table.row(&[
                ("what", &what),
                ("pages", &n),
                ("radius", &radius),
                ("cpu_seconds", &format_args!("{seconds:.6e}")),
                ("bytes", &format_args!("{bytes:.0}")),
                ("by", &by),
                ("pairs", &pairs),
                ("features_per_page", &format_args!("{features:.1}")),
            ])
        };
        let (cosine, document, features) =
            cosine_cost(&corpus, config.cosine_documents, options.size(config.cosines), options.seed);
        let most = options.stored.unwrap_or(options.size(config.documents));
        let workload = Workload::generated(options, &searches, &corpus, most, 1)?;
        let sample: Vec<u64> = workload.stored.hashes().iter().copied().take(config.hamming_hashes).collect();
        let hamming = hamming_cost(&sample, options.size(config.hamming_queries).min(sample.len()), radius);
        for &n in &config.pages {
            let pairs = n * (n - 1.0) / 2.0;
            row("cosine, all pairs", n, cosine * pairs, document * n, "computed from one", 0, features)?;
            row(
                "Hamming distance, all pairs",
                n,
                hamming * pairs,
                8.0 * n,
                "computed from one",
                0,
                features,
            )?;
        }
        // Every so-and-so-manieth hash, so that a part is like the whole.
        for &part in &config.every {
            let hashes: Vec<u64> = workload.stored.hashes().iter().copied().step_by(part).collect();
            let n = hashes.len() as f64;
            let clock = Clock::start();
            let index = Bphs::new(&hashes, BphsParams { radius, tables: config.tables })?;
            let exact = by_queries(&index, &hashes);
            let pairs = exact;
            row(
                &format!("join by BPHS, {} tables", config.tables),
                n,
                clock.read().0,
                index.bytes() as f64,
                "measured",
                pairs,
                features,
            )?;
            let clock = Clock::start();
            let mut pairs = 0;
            join::join(&hashes, radius, &|_| (), |part| pairs += part.len() as u64)?;
            ensure!(pairs == exact, "the join by parting finds {pairs} pairs, and there are {exact}");
            row(
                "join by parting, exact",
                n,
                clock.read().0,
                (join::BYTES_PER_HASH * hashes.len()) as f64,
                "measured",
                pairs,
                features,
            )?;
            let clock = Clock::start();
            let index = Dial::new(&hashes, DialParams { radius, ..DialParams::default() })?;
            let pairs = by_queries(&index, &hashes);
            ensure!(pairs == exact, "the dial finds {pairs} pairs, and there are {exact}");
            row("join by dial, exact", n, clock.read().0, index.bytes() as f64, "measured", pairs, features)?;
            let rivals: [(&str, RivalJoin); 3] = [
                ("join by all-pairs-hamming, 1 x u64", |hashes, radius| {
                    rival(hashes, radius, 1, |hash| vec![hash])
                }),
                ("join by all-pairs-hamming, 2 x u32", |hashes, radius| {
                    rival(hashes, radius, 2, |hash| vec![hash as u32, (hash >> 32) as u32])
                }),
                ("join by all-pairs-hamming, 4 x u16", |hashes, radius| {
                    rival(hashes, radius, 4, |hash| (0..4).map(|i| (hash >> (16 * i)) as u16).collect())
                }),
            ];
            for (name, join) in rivals {
                // Its list of candidates grows with the square of a chunk's bucket: only where it fits.
                let most = config.most_for_four_chunks;
                if name.ends_with("u16") && n > most {
                    options.progress.omit(format!("{name}: {n} hashes, and its candidates fit up to {most}"));
                    continue;
                }
                let clock = Clock::start();
                let (pairs, bytes) = join(&hashes, radius)?;
                row(name, n, clock.read().0, bytes as f64, "measured", pairs, features)?;
                ensure!(pairs == exact, "{name} finds {pairs} pairs, and there are {exact}");
            }
        }
    }
    Ok(())
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let expected = expected(EXPERIMENT.name)?;
    for corpus in distinct(rows, "corpus") {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.text("corpus") == corpus).collect();
        let panel = |column: &str, published: [&str; 2], title: &str, label: &'static str| {
            let mut series: Vec<Series> = distinct(rows.iter().copied(), "what")
                .into_iter()
                .enumerate()
                .map(|(colour, what)| {
                    let points = rows.iter().filter(|r| r.text("what") == what);
                    let points = points.map(|r| (r.number("pages"), r.number(column))).collect();
                    Series::new(what, Look::Marked { colour, dashed: colour < 2 }, points)
                })
                .collect();
            let points = expected
                .iter()
                .flat_map(|row| published.map(|published| (row.number("pages"), row.number(published))));
            series.push(Series::new("published", Look::Published, points.collect()));
            Panel { title: title.into(), x: Axis::log("pages"), y: Axis::log(label), series }
        };
        let panels = [
            panel("cpu_seconds", ["cosine_seconds", "hamming_seconds"], "time", "processor seconds"),
            panel("bytes", ["cosine_bytes", "hamming_bytes"], "memory", "bytes"),
        ];
        let path = options.figures().join(format!("all-pairs-cost-{corpus}.svg"));
        let note = "dashed: one comparison measured, times the number of pairs; solid: measured joins at distance up to 3";
        figure::draw(&path, &format!("All pairs, {corpus}"), note, 2, &panels)?;
    }
    Ok(())
}

fn verdicts(options: &Options, rows: &[Row], expected: &[Row]) -> Result<Vec<Verdict>> {
    let config: AllPairsConfig = config::read(options, EXPERIMENT.name)?;
    let mut all = Vec::new();
    for corpus in distinct(rows, "corpus") {
        for row in expected {
            let n = row.number("pages");
            for (what, seconds, bytes) in [
                ("cosine, all pairs", "cosine_seconds", "cosine_bytes"),
                ("Hamming distance, all pairs", "hamming_seconds", "hamming_bytes"),
            ] {
                let found = rows
                    .iter()
                    .find(|r| r.text("corpus") == corpus && r.text("what") == what && r.number("pages") == n);
                let Some(found) = found else { continue };
                let pairs = n * (n - 1.0) / 2.0;
                let each = |seconds: f64| format!("{:.2} ns a pair", seconds / pairs * 1e9);
                let (paper, ours) = (row.number(seconds), found.number("cpu_seconds"));
                let inconsistent = n > config.inconsistent_from;
                all.push(Verdict {
                    item: format!("{corpus}: {what}, {} pages", short(n)),
                    paper: format!("{paper:.3e} s ({}), {} bytes", each(paper), short(row.number(bytes))),
                    ours: format!("{ours:.3e} s ({}), {} bytes", each(ours), short(found.number("bytes"))),
                    finding: match inconsistent {
                        true => Finding::NoComparison,
                        false => ((ours / paper).ln().abs() < config.agree_within).into(),
                    },
                    because: if inconsistent {
                        "the published times of this row fit 1.024 billion pages, not 8: from 64M on they grow by 16², not 125²".into()
                    } else if what.starts_with("cosine") {
                        format!("a merge of two sorted lists of {:.0} features on average", found.number("features_per_page"))
                    } else {
                        "our scan compares vectors of hashes, on another machine; the two were not told apart".to_owned()
                    },
                });
            }
        }
        for what in distinct(rows, "what").into_iter().filter(|what| what.starts_with("join")) {
            let joins = rows.iter().filter(|r| r.text("corpus") == corpus && r.text("what") == what);
            let Some(largest) = joins.max_by(|a, b| a.number("pages").total_cmp(&b.number("pages"))) else {
                continue;
            };
            all.push(Verdict {
                item: format!("{corpus}: {what}, {} generated hashes", short(largest.number("pages"))),
                paper: "not there".into(),
                ours: format!(
                    "{:.2} s, {} bytes told, {} pairs",
                    largest.number("cpu_seconds"),
                    short(largest.number("bytes")),
                    largest.text("pairs")
                ),
                finding: Finding::New,
                because: "what a join really needs: its work grows almost with n, not with n²".into(),
            });
        }
    }
    Ok(all)
}
