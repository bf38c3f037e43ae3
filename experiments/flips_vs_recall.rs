//! Share of near pairs that are found after f flips, by the order in which flips are tried (slides: four
//! panels).
//!
//! Pairs are exact: all pairs of distinct hashes at distance h by BPHS. Each pair is searched for from both
//! sides, over all 64 bits and among sets of exactly h flips, as the paper does. Intervals resample duplicate
//! clusters, because pairs of one cluster are found or missed together.

use crate::check::Verdict;
use crate::config::{self, Size};
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::generate::{Donors, Recipe};
use crate::results::{Clock, Row, Table, distinct, expected};
use crate::static_order::StaticOrder;
use crate::{Experiment, Options};
use anyhow::Result;
use flipside::clusters::Partition;
use flipside::hash::fmix64;
use flipside::search::bphs::{Bphs, BphsParams};
use flipside::search::distinct::DistinctHashes;
use flipside::search::{HammingIndex, Mode, Query, Scratch};
use flipside::simhash::volatility::{FlipCost, Volatility};
use flipside::simhash::vosh::Vosh;
use flipside::simhash::{BITS, SimHash};
use flipside::text::FeatureKind;
use flipside::weight::Weighting;
use flipside::{Id, Slot};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use serde::Deserialize;
use std::collections::HashMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "flips-vs-recall",
    about: "share of pairs found after f flips at h = 1, 2, 3, and speed-up over random order (slides, four panels)",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Pairs of each distance that are followed; a sample if there are more.
    most_pairs: usize,
    /// Fewer pairs are no curve.
    fewest_pairs: usize,
    resamples: usize,
    /// Recalls whose exact number of flips is a point of every curve.
    recalls: Vec<f64>,
    /// Tables of the search for pairs.
    exact_tables: u32,
    /// Documents that are generated from a corpus.
    generated: Size,
    agree_within: f64,
    /// cot θ of the log-odds.
    cot_theta: f64,
    nearer: Vec<Nearer>,
}

/// A curve of the pairs whose documents' cosine, as their weight vectors estimate it, is at least so much.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nearer {
    name: String,
    cosine: f64,
}

impl Config {
    /// The orders that are compared, with their names.
    fn orders(&self) -> [(&'static str, Order); 4] {
        [
            (USUAL, Order::Vosh(FlipCost::Abs)),
            ("VOSH, W^2", Order::Vosh(FlipCost::Square)),
            ("VOSH, log-odds", Order::Vosh(FlipCost::LogOdds { cot_theta: self.cot_theta })),
            ("static order", Order::Static),
        ]
    }
}

/// The paper's order.
const USUAL: &str = "VOSH, |W|";

/// Number of sets of h of 64 bits.
pub fn sets(h: u32) -> u64 {
    (0..u64::from(h)).fold(1, |sets, k| sets * (BITS as u64 - k) / (k + 1))
}

/// An order of sets of flips.
#[derive(Clone, Copy)]
enum Order {
    Vosh(FlipCost),
    Static,
}

/// A pair of distinct hashes: the query's side and the other, the bits that differ, and the cluster.
#[derive(Clone, Copy)]
struct Directed {
    query: Slot,
    other: Slot,
    mask: u64,
    cluster: Slot,
}

/// All pairs of distinct hashes at distances 1 to 3, both directions, a sample per
/// distance; index 0 is h = 1.
fn near_pairs(distinct: &DistinctHashes, config: &Config, seed: u64) -> Result<[Vec<Directed>; 3]> {
    let hashes = distinct.hashes();
    let index = Bphs::new(hashes, BphsParams::new(3, config.exact_tables))?;
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
        if list.len() < 2 * config.most_pairs {
            let cluster = partition.find(a);
            list.extend([(a, b), (b, a)].map(|(query, other)| Directed { query, other, mask, cluster }));
        }
    }
    Ok(by_distance)
}

fn cosine(a: &[f32; BITS], b: &[f32; BITS]) -> f64 {
    let dot = |x: &[f32; BITS], y: &[f32; BITS]| -> f64 {
        x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// For each pair, after how many flips it is found.
fn flips(pairs: &[Directed], weights: &[[f32; BITS]], h: u32, order: Order) -> Vec<u32> {
    let places: HashMap<u64, u32> = match order {
        Order::Vosh(_) => HashMap::new(),
        Order::Static => {
            let sets = StaticOrder::new(BITS, h..=h, FlipCost::Abs, usize::MAX);
            sets.ranks().iter().zip(1..).map(|(&ranks, place)| (ranks, place)).collect()
        }
    };
    pairs
        .par_iter()
        .map(|pair| {
            let weights = &weights[pair.query.index()];
            match order {
                Order::Vosh(cost) => {
                    let mut sets = Vosh::new(Volatility::new(weights, u64::MAX, cost), h..=h);
                    let place = sets.position(|flip| flip.mask == pair.mask);
                    place.expect("every set of flips is reached") as u32 + 1
                }
                Order::Static => {
                    let volatility = Volatility::new(weights, u64::MAX, FlipCost::Abs);
                    let ranks = (0..).zip(volatility.bits()).filter(|(_, bit)| pair.mask >> **bit & 1 == 1);
                    places[&ranks.fold(0, |ranks, (rank, _)| ranks | 1 << rank)]
                }
            }
        })
        .collect()
}

/// A point of a curve.
struct Point {
    flips: u64,
    recall: f64,
    low: f64,
    high: f64,
    /// Mean over clusters of the share of a cluster's pairs.
    per_cluster: f64,
}

/// Recall against flips, with 95 % intervals by resampling clusters.
fn curve(pairs: &[Directed], found: &[u32], h: u32, config: &Config, seed: u64) -> (Vec<Point>, usize) {
    let mut sorted = found.to_vec();
    sorted.sort_unstable();
    let exact = |r: &f64| u64::from(sorted[((r * sorted.len() as f64).ceil() as usize).max(1) - 1]);
    let mut grid: Vec<u64> = (1..=16).chain(config.recalls.iter().map(exact)).chain([sets(h)]).collect();
    let mut next = 16.0f64;
    while next < sets(h) as f64 {
        next *= 1.25;
        grid.push((next as u64).min(sets(h)));
    }
    grid.sort_unstable();
    grid.dedup();
    let mut clusters: HashMap<Slot, Vec<u32>> = HashMap::new();
    for (pair, &found) in pairs.iter().zip(found) {
        let place = grid.partition_point(|&flips| flips < u64::from(found)) as u32;
        clusters.entry(pair.cluster).or_default().push(place);
    }
    let mut clusters: Vec<(Slot, Vec<u32>)> = clusters.into_iter().collect();
    clusters.sort_unstable_by_key(|&(name, _)| name);
    let cumulate = |draws: &[usize]| {
        let mut bins = vec![0u64; grid.len()];
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
    let resamples: Vec<Vec<f64>> = (0..config.resamples as u64)
        .into_par_iter()
        .map(|resample| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(fmix64(seed ^ resample));
            let draws: Vec<usize> = all.iter().map(|_| rng.random_range(0..all.len())).collect();
            cumulate(&draws)
        })
        .collect();
    let mut per_cluster = vec![0.0; grid.len()];
    for (_, places) in &clusters {
        places.iter().for_each(|&place| per_cluster[place as usize] += 1.0 / places.len() as f64);
    }
    let mut sum = 0.0;
    let points = (0..grid.len()).map(|i| {
        let mut at: Vec<f64> = resamples.iter().map(|resample| resample[i]).collect();
        at.sort_unstable_by(f64::total_cmp);
        sum += per_cluster[i] / clusters.len() as f64;
        Point {
            flips: grid[i],
            recall: recall[i],
            low: at[config.resamples / 40],
            high: at[config.resamples - 1 - config.resamples / 40],
            per_cluster: sum,
        }
    });
    (points.collect(), clusters.len())
}

fn run(options: &Options) -> Result<()> {
    let config: Config = config::read(options, EXPERIMENT.name)?;
    for path in options.corpora() {
        let corpus = Corpus::load(&path, FeatureKind::Words)?;
        options.progress.say(format!("  {}: {} distinct texts", corpus.name, corpus.len()));
        let real = corpus.simhashes(Weighting::TfIdf);
        measure(options, &config, &corpus, "real", &real)?;
        drop(real);
        let recipe = Recipe::read(options, options.size(config.generated))?;
        let donors = Donors::new(&corpus, options.seed);
        let generated = donors.generate(&recipe, |_, simhash| simhash);
        measure(options, &config, &corpus, "generated", &generated)?;
    }
    Ok(())
}

fn measure(
    options: &Options,
    config: &Config,
    corpus: &Corpus,
    source: &str,
    simhashes: &[SimHash],
) -> Result<()> {
    let (corpus, digest) = (&corpus.name, &corpus.digest);
    let suffix = if source == "real" { "" } else { "-generated" };
    let mut table = Table::create(options, EXPERIMENT.name, &format!("{corpus}{suffix}"), digest)?;
    let hashes: Vec<u64> = simhashes.iter().map(|simhash| simhash.hash).collect();
    let distinct = DistinctHashes::new(&hashes);
    // A query is the first document with the hash.
    let weights: Vec<[f32; BITS]> =
        distinct.slots().map(|slot| simhashes[distinct.members(slot)[0].index()].weights).collect();
    let pairs = near_pairs(&distinct, config, options.seed)?;
    for (pairs, h) in pairs.iter().zip(1u32..) {
        options.progress.say(format!("  {corpus}, {source}: {} pairs at distance {h}", pairs.len() / 2));
        if pairs.len() < 2 * config.fewest_pairs {
            continue;
        }
        let cosine = |pair: &Directed| cosine(&weights[pair.query.index()], &weights[pair.other.index()]);
        let nearer = config.nearer.iter().map(|nearer| {
            let near = pairs.iter().filter(|pair| cosine(pair) >= nearer.cosine).copied();
            (nearer.name.as_str(), Order::Vosh(FlipCost::Abs), near.collect::<Vec<_>>())
        });
        let steps = options.progress.points(config.orders().len() + config.nearer.len());
        let all = config.orders().map(|(name, order)| (name, order, pairs.clone()));
        for (name, order, pairs) in all.into_iter().chain(nearer) {
            if pairs.len() < 2 * config.fewest_pairs {
                continue;
            }
            let clock = Clock::start();
            let found = flips(&pairs, &weights, h, order);
            let (cpu, wall) = clock.read();
            let (points, clusters) = curve(&pairs, &found, h, config, options.seed);
            for point in points {
                table.row(&[
                    ("source", &source),
                    ("base", &corpus),
                    ("features", &"words"),
                    ("weighting", &"tf-idf"),
                    ("documents", &simhashes.len()),
                    ("distinct_hashes", &distinct.len()),
                    ("h", &h),
                    ("order", &name),
                    ("searches", &pairs.len()),
                    ("clusters", &clusters),
                    ("flips", &point.flips),
                    ("recall", &format_args!("{:.5}", point.recall)),
                    ("low", &format_args!("{:.5}", point.low)),
                    ("high", &format_args!("{:.5}", point.high)),
                    ("recall_per_cluster", &format_args!("{:.5}", point.per_cluster)),
                    ("flips_tried", &found.iter().map(|&f| u64::from(f)).sum::<u64>()),
                    ("cpu_seconds", &format_args!("{cpu:.4}")),
                    ("wall_seconds", &format_args!("{wall:.4}")),
                ])?;
            }
            steps.done(format!("  {corpus}, {source}: h = {h}, {name}, {cpu:.1} s"));
        }
    }
    Ok(())
}

/// Panels (a) to (c): recall against flips; (d): speed-up over random order against recall, at h = 3.
fn panels(series: &[(String, Look, Vec<&Row>, bool)], expected: &[Row]) -> Vec<Panel> {
    let of_h = |rows: &[&Row], h: u32| -> Vec<Row> {
        rows.iter().filter(|row| row.number("h") == f64::from(h)).map(|row| (*row).clone()).collect()
    };
    let mut panels: Vec<Panel> = (1..=3u32)
        .map(|h| {
            let mut all: Vec<Series> = Vec::new();
            for (name, look, rows, band) in series {
                let rows = of_h(rows, h);
                let points = rows.iter().map(|row| (row.number("flips"), row.number("recall"))).collect();
                let mut one = Series::new(name.clone(), *look, points);
                if *band {
                    one.band =
                        rows.iter().map(|r| (r.number("flips"), r.number("low"), r.number("high"))).collect();
                }
                all.push(one);
            }
            let total = sets(h) as f64;
            let random = (0..=60).map(|i| total.powf(f64::from(i) / 60.0)).map(|f| (f, f / total)).collect();
            all.push(Series::new("random order", Look::Reference, random));
            let published = expected.iter().filter(|row| row.number("h") == f64::from(h));
            let points = published.map(|row| (row.number("flips"), row.number("recall"))).collect();
            all.push(Series::new("published", Look::Published, points));
            Panel {
                title: format!("({}) h = {h}", ["a", "b", "c"][h as usize - 1]),
                x: Axis::log("flips").between(1.0, total),
                y: Axis::share("share of pairs found").between(0.0, 1.02),
                series: all,
            }
        })
        .collect();
    let mut ratios = Vec::new();
    for (name, look, rows, _) in series {
        let rows = of_h(rows, 3);
        let points = rows
            .iter()
            .map(|row| (row.number("recall"), row.number("recall") * sets(3) as f64 / row.number("flips")));
        ratios.push(Series::new(name.clone(), *look, points.filter(|p| p.0 > 0.0).collect()));
    }
    let published = expected.iter().filter(|row| row.number("h") == 3.0);
    let published =
        published.map(|r| (r.number("recall"), r.number("recall") * sets(3) as f64 / r.number("flips")));
    ratios.push(Series::new("published", Look::Published, published.collect()));
    panels.push(Panel {
        title: "(d) speed-up over random order, h = 3".into(),
        x: Axis::share("recall").between(0.0, 1.02),
        y: Axis::log("fewer flips by a factor of"),
        series: ratios,
    });
    panels
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let config: Config = config::read(options, EXPERIMENT.name)?;
    let expected = expected(EXPERIMENT.name)?;
    let bases = distinct(rows.iter().filter(|row| row.text("source") == "real"), "base");
    let pick = |base: &str, source: &str, order: &str| -> Vec<&Row> {
        rows.iter()
            .filter(|r| r.text("base") == base && r.text("source") == source && r.text("order") == order)
            .collect()
    };
    let line = |colour| Look::Line { colour, dashed: false };
    let corpora: Vec<_> = bases
        .iter()
        .enumerate()
        .map(|(colour, base)| {
            let documents = pick(base, "real", USUAL).first().map_or(0.0, |row| row.number("documents"));
            let name = format!("{base} ({} texts)", figure::short(documents));
            let dashed = colour % 2 == 1;
            (name, Look::Line { colour, dashed }, pick(base, "real", USUAL), true)
        })
        .collect();
    let note =
        "VOSH by |W| over all 64 bits, both directions of each pair; bands: 95 % over duplicate clusters";
    let path = options.figures().join("flips-vs-recall.svg");
    figure::draw(
        &path,
        "Flips until a near-duplicate is found, on real pages",
        note,
        2,
        &panels(&corpora, &expected),
    )?;
    for base in &bases {
        let orders: Vec<_> = config
            .orders()
            .iter()
            .enumerate()
            .map(|(colour, (name, _))| {
                let look = Look::Line { colour, dashed: colour % 2 == 1 };
                ((*name).to_owned(), look, pick(base, "real", name), colour == 0)
            })
            .collect();
        let path = options.figures().join(format!("flips-vs-recall-orders-{base}.svg"));
        let title = format!("Orders of flips compared, {base}");
        figure::draw(
            &path,
            &title,
            "band: 95 % over duplicate clusters, of the first",
            2,
            &panels(&orders, &expected),
        )?;
        let both = [("real", 0), ("generated", 1)]
            .map(|(source, colour)| (source.to_owned(), line(colour), pick(base, source, USUAL), true));
        let path = options.figures().join(format!("flips-vs-recall-generated-{base}.svg"));
        let title = format!("May the generator be trusted? {base}, and documents generated from it");
        figure::draw(&path, &title, note, 2, &panels(&both, &expected))?;
    }
    Ok(())
}

/// The flips after which a recall is reached.
fn flips_for(rows: &[&Row], recall: f64) -> Option<f64> {
    let reached = rows.iter().filter(|row| row.number("recall") >= recall - 1e-6);
    reached.map(|row| row.number("flips")).min_by(f64::total_cmp)
}

fn verdicts(options: &Options, rows: &[Row], expected: &[Row]) -> Result<Vec<Verdict>> {
    let config: Config = config::read(options, EXPERIMENT.name)?;
    let mut all = Vec::new();
    let real: Vec<&Row> = rows.iter().filter(|row| row.text("source") == "real").collect();
    for point in expected {
        let (flips, recall) = (point.number("flips"), point.number("recall"));
        for base in distinct(real.iter().copied(), "base") {
            let curve: Vec<&Row> = real
                .iter()
                .copied()
                .filter(|row| row.text("base") == base && row.text("order") == USUAL)
                .filter(|row| row.text("h") == point.text("h"))
                .collect();
            let Some(at) = curve.iter().rfind(|row| row.number("flips") <= flips) else { continue };
            let (low, high) = (at.number("low"), at.number("high"));
            let ours = if recall < 1.0 {
                format!("{:.1} % [{:.1}, {:.1}]", at.number("recall") * 100.0, low * 100.0, high * 100.0)
            } else {
                let to = |r: f64| flips_for(&curve, r).map_or("never".into(), figure::short);
                format!(
                    "{:.1} % after {flips}; 95 % after {}, 99 % after {}, all after {}",
                    at.number("recall") * 100.0,
                    to(0.95),
                    to(0.99),
                    to(1.0)
                )
            };
            let agrees = low - config.agree_within <= recall && recall <= high + config.agree_within;
            let nearer: Vec<String> = config
                .nearer
                .iter()
                .filter_map(|Nearer { name, cosine }| {
                    let near =
                        real.iter().filter(|row| row.text("base") == base && row.text("order") == name);
                    let mut near = near.filter(|row| row.text("h") == point.text("h"));
                    let at = near.rfind(|row| row.number("flips") <= flips)?;
                    Some(format!(
                        "{:.1} % of those with a cosine of {cosine} or more",
                        at.number("recall") * 100.0
                    ))
                })
                .collect();
            let nearer = match nearer.is_empty() {
                true => String::new(),
                false => format!("; of our pairs, {}", nearer.join(", ")),
            };
            let because = match agrees {
                true => "within our interval, give or take two points".into(),
                false => format!(
                    "corpora differ: ours differ among each other as well, and nearness decides{nearer}; \
                     what pairs the paper had is not known"
                ),
            };
            all.push(Verdict {
                item: format!("h = {}, {base}", point.text("h")),
                paper: format!("{:.0} % after {flips} flips", recall * 100.0),
                ours,
                agrees: Some(agrees),
                because,
            });
        }
    }
    Ok(all)
}
