//! The worth of the weights: recall against probes by the order in which flips are tried. Ours; the slides compare
//! VOSH with random order for a fixed number of flips, which `flips-vs-recall` repeats.
//!
//! A search makes the probe without flips first and then sets of up to three flips, of the key's bits or of all 64.
//! Three orders are compared: that of the query's own weights (VOSH), one order for all queries by the rank of each
//! bit ([`StaticOrder`](crate::static_order::StaticOrder)), and random order, in which sets of fewer flips come
//! first. Pairs at distances 1 to 3 are counted together, as in a search.

use crate::check::{Finding, Verdict};
use crate::config::{self, Size};
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::pairs::{Directed, Order, curve, flips, near_pairs, quantiles, sets_of};
use crate::results::{Row, Table, distinct};
use crate::{Experiment, Options};
use anyhow::Result;
use serde::Deserialize;
use simflip::hash::fmix64;
use simflip::search::batch::PsmBatchParams;
use simflip::search::distinct::DistinctHashes;
use simflip::simhash::BITS;
use simflip::simhash::volatility::FlipCost;
use simflip::text::FeatureKind;
use simflip::weight::Weighting;
use simflip::{Id, Slot};
use simflip_core::internal::NearPairs;

pub const EXPERIMENT: Experiment = Experiment {
    name: "flip-order",
    about: "recall against probes by the order of flips, VOSH, static and random: what the weights are worth",
    run,
    draw,
    verdicts,
};

/// Sizes and points of the measurement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlipOrderConfig {
    near_pairs: Size,
    /// Stored hashes that the width of the uniform pairs' key is chosen for.
    stored: usize,
    /// Stored hashes that the width of a second key is chosen for.
    crawl: usize,
    most_pairs: usize,
    fewest_pairs: usize,
    resamples: usize,
    exact_tables: u32,
    points: Vec<u64>,
    recalls: Vec<f64>,
}

/// The largest distance of a pair.
const RADIUS: u32 = 3;

/// Name of the uniform pairs in rows.
const UNIFORM: &str = "near-pairs";

fn orders(seed: u64) -> [(&'static str, Order); 3] {
    [
        ("VOSH", Order::Vosh(FlipCost::Abs)),
        ("static order", Order::Static),
        ("random order", Order::Random(seed)),
    ]
}

/// Pairs, each from both sides, and the weights of every slot.
struct OrderSearches {
    pairs: Vec<Directed>,
    weights: Vec<[f32; BITS]>,
    /// Stored hashes.
    stored: usize,
}

fn run(options: &Options) -> Result<()> {
    let config: FlipOrderConfig = config::read(options, EXPERIMENT.name)?;
    let (uniform, digest) = uniform(options, &config);
    measure(options, &config, (UNIFORM, &digest), &uniform)?;
    for path in if options.near_pairs { Vec::new() } else { options.corpora() } {
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Words)?;
        let searches = of_corpus(options, &config, &corpus)?;
        let (found, fewest) = (searches.pairs.len() / 2, config.fewest_pairs);
        if found < fewest {
            let name = &corpus.name;
            options.progress.omit(format!(
                "{name}: a curve takes {fewest} pairs within {RADIUS} bits, and there are {found}"
            ));
            continue;
        }
        measure(options, &config, (&corpus.name, &corpus.digest), &searches)?;
    }
    Ok(())
}

fn uniform(options: &Options, config: &FlipOrderConfig) -> (OrderSearches, String) {
    let (mut pairs, mut weights, mut digest) = (Vec::new(), Vec::new(), 0);
    for [one, other] in NearPairs::new(RADIUS, options.seed).take(options.size(config.near_pairs)) {
        let (a, b, mask) = (Slot::at(weights.len()), Slot::at(weights.len() + 1), one.hash ^ other.hash);
        pairs.extend([(a, b), (b, a)].map(|(query, other)| Directed { query, other, mask, cluster: a }));
        weights.extend([one.weights, other.weights]);
        digest = fmix64(digest ^ fmix64(one.hash) ^ other.hash);
    }
    (OrderSearches { pairs, weights, stored: config.stored }, format!("{digest:016x}"))
}

fn of_corpus(options: &Options, config: &FlipOrderConfig, corpus: &Corpus) -> Result<OrderSearches> {
    let simhashes = corpus.simhashes(Weighting::TfIdf);
    let distinct = DistinctHashes::new(&simhashes.iter().map(|simhash| simhash.hash).collect::<Vec<_>>());
    let by_distance = near_pairs(&distinct, config.exact_tables, usize::MAX / 2, options.seed)?;
    // As large a share of the pairs of each distance, both sides of a pair together.
    let all: usize = by_distance.iter().map(Vec::len).sum();
    let most = (2 * config.most_pairs).min(all);
    let share = |pairs: Vec<Directed>| {
        let most = pairs.len() / 2 * most / all.max(1);
        pairs.into_iter().take(2 * most)
    };
    let pairs = by_distance.into_iter().flat_map(share).collect();
    let weights = distinct.slots().map(|slot| simhashes[distinct.members(slot)[0].index()].weights).collect();
    Ok(OrderSearches { pairs, weights, stored: distinct.len() })
}

fn measure(
    options: &Options,
    config: &FlipOrderConfig,
    (name, digest): (&str, &str),
    of: &OrderSearches,
) -> Result<()> {
    let mut table = Table::create(options, EXPERIMENT.name, name, digest)?;
    let mut widths =
        [of.stored, config.crawl].map(|stored| PsmBatchParams::new(RADIUS, stored).key_bits).to_vec();
    widths.push(BITS as u32);
    widths.dedup();
    for bits in widths {
        let among = if bits < BITS as u32 { format!("key of {bits} bits") } else { "all bits".into() };
        let flipped = u64::MAX << (BITS as u32 - bits);
        let found = orders(options.seed)
            .map(|(order, by)| (order, flips(&of.pairs, &of.weights, flipped, 0..=RADIUS, by)));
        let all: u64 = (0..=RADIUS).map(|size| sets_of(u64::from(bits), size)).sum();
        let mut grid: Vec<u64> = (1..=16).chain(config.points.iter().copied()).chain([all]).collect();
        grid.extend((12..).map(|step| 1.25f64.powi(step) as u64).take_while(|&probes| probes < all));
        grid.extend(found.iter().flat_map(|(_, found)| quantiles(found, &config.recalls)));
        grid.retain(|&probes| probes <= all);
        grid.sort_unstable();
        grid.dedup();
        for (order, found) in &found {
            let (points, clusters) = curve(&of.pairs, found, &grid, config.resamples, options.seed);
            for point in points {
                table.row(&[
                    ("stored", &of.stored),
                    ("among", &among),
                    ("key_bits", &bits),
                    ("order", order),
                    ("searches", &of.pairs.len()),
                    ("clusters", &clusters),
                    ("probes", &point.flips),
                    ("recall", &format_args!("{:.5}", point.recall)),
                    ("low", &format_args!("{:.5}", point.low)),
                    ("high", &format_args!("{:.5}", point.high)),
                ])?;
            }
            options.progress.say(format!("  {name}, {among}: {order}, {} searches", of.pairs.len()));
        }
    }
    Ok(())
}

/// Name of the pairs of a corpus, for a reader.
fn named(corpus: &str) -> &str {
    if corpus == UNIFORM { "uniform near pairs" } else { corpus }
}

/// The rows of each corpus and each set of bits that are flipped.
fn parts(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut parts: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let of = |part: &&mut Vec<&Row>| ["corpus", "among"].iter().all(|f| part[0].text(f) == row.text(f));
        match parts.iter_mut().find(of) {
            Some(part) => part.push(row),
            None => parts.push(vec![row]),
        }
    }
    parts
}

fn of_order<'a>(rows: &[&'a Row], order: &str) -> Vec<&'a Row> {
    rows.iter().copied().filter(|row| row.text("order") == order).collect()
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let panel = |of: &Vec<&Row>| {
        let series = distinct(of.iter().copied(), "order").into_iter().enumerate().map(|(colour, order)| {
            let rows = of_order(of, &order);
            let points = rows.iter().map(|row| (row.number("probes"), row.number("recall"))).collect();
            let band = rows.iter().map(|r| (r.number("probes"), r.number("low"), r.number("high"))).collect();
            Series { band, ..Series::new(order, Look::Line { colour, dashed: colour > 0 }, points) }
        });
        let most = of.iter().map(|row| row.number("probes")).fold(1.0, f64::max);
        Panel {
            title: format!(
                "{}, flips in {}",
                named(of[0].text("corpus")),
                of[0].text("among").replace("key", "a key")
            ),
            x: Axis::log("probes").between(1.0, most),
            y: Axis::share("share of pairs found").between(0.0, 1.02),
            series: series.collect(),
        }
    };
    let mut parts = parts(rows);
    // The uniform pairs above.
    parts.sort_by_key(|of| of[0].text("corpus") != UNIFORM);
    let panels: Vec<Panel> = parts.iter().map(panel).collect();
    let note =
        "pairs at distances 1 to 3, both directions; up to three flips; bands: 95 % over duplicate clusters";
    let path = options.figures().join("flip-order.svg");
    figure::draw(&path, "What the weights are worth: recall by the order of flips", note, 3, &panels)
}

fn verdicts(options: &Options, rows: &[Row], _: &[Row]) -> Result<Vec<Verdict>> {
    let config: FlipOrderConfig = config::read(options, EXPERIMENT.name)?;
    let (Some(&probes), Some(&recall)) = (config.points.first(), config.recalls.first()) else {
        return Ok(Vec::new());
    };
    let verdict = |of: Vec<&Row>| {
        let reported = distinct(of.iter().copied(), "order").into_iter().map(|order| {
            let rows = of_order(&of, &order);
            let at = rows.iter().find(|row| row.number("probes") == probes as f64);
            let found = at.map_or(f64::NAN, |row| 100.0 * row.number("recall"));
            let enough = rows.iter().find(|row| row.number("recall") >= recall);
            let needed = enough.map_or("never".into(), |row| figure::short(row.number("probes")));
            format!("{order} {found:.1} %, {:.0} % after {needed}", 100.0 * recall)
        });
        Verdict {
            item: format!(
                "{}, {}: recall after {probes} probes",
                named(of[0].text("corpus")),
                of[0].text("among")
            ),
            paper: "not published".into(),
            ours: reported.collect::<Vec<_>>().join("; "),
            finding: Finding::New,
            because: "the weights of the query alone tell the orders apart".into(),
        }
    };
    Ok(parts(rows).into_iter().map(verdict).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::static_order::StaticOrder;
    use clap::Parser;
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::seq::SliceRandom;
    use simflip::search::psm::{FlippedBits, Psm, PsmParams};
    use simflip::search::{HammingIndex, Mode, Query, Scratch};

    /// The share of the pairs that an index finds from their first side.
    fn found_by(index: &Psm, pairs: &[[simflip::simhash::SimHash; 2]], hashes: &[u64]) -> f64 {
        let mut scratch = Scratch::default();
        let found = pairs.iter().filter(|[query, stored]| {
            let mut hits = Vec::new();
            let query = Query { hash: query.hash, weights: &query.weights };
            index.search(query, Mode::All, &mut scratch, &mut hits);
            hits.iter().any(|hit| hashes[hit.slot.index()] == stored.hash)
        });
        found.count() as f64 / pairs.len() as f64
    }

    #[test]
    fn an_index_finds_the_share_that_each_order_is_told_to() {
        let pairs: Vec<_> = NearPairs::new(RADIUS, 3).take(2_000).collect();
        let hashes = DistinctHashes::new(&pairs.iter().map(|[_, stored]| stored.hash).collect::<Vec<_>>());
        let hashes = hashes.hashes();
        let options = Options::parse_from(["experiments", EXPERIMENT.name, "--seed", "3"]);
        let config: FlipOrderConfig = config::read(&options, EXPERIMENT.name).unwrap();
        let (mut searches, _) = uniform(&options, &config);
        searches.pairs.truncate(4_000);
        let forward: Vec<Directed> = searches.pairs.iter().step_by(2).copied().collect();
        let (bits, budget) = (15, 9);
        let reported = |order| {
            let places = flips(&forward, &searches.weights, u64::MAX << (64 - bits), 0..=RADIUS, order);
            places.iter().filter(|&&place| place <= budget).count() as f64 / forward.len() as f64
        };
        let flipped_bits = FlippedBits::Key { key_bits: Some(bits) };
        let params = PsmParams { budget: Some(budget), radius: RADIUS, flipped_bits, ..PsmParams::default() };
        let index = || Psm::new(hashes, params).unwrap();
        assert_eq!(found_by(&index(), &pairs, hashes), reported(Order::Vosh(FlipCost::Abs)));
        let fixed = StaticOrder::new(bits as usize, 0..=RADIUS, FlipCost::Abs, usize::MAX);
        assert_eq!(found_by(&index().with_rank_sets(fixed.ranks()), &pairs, hashes), reported(Order::Static));
        // Random orders, each the same for all queries: on average they find what orders for each query find.
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mean: f64 = (0..40)
            .map(|_| {
                let mut sets: Vec<u64> =
                    (0..1 << bits).filter(|set: &u64| set.count_ones() <= RADIUS).collect();
                sets.shuffle(&mut rng);
                sets.sort_by_key(|set| set.count_ones());
                found_by(&index().with_rank_sets(sets), &pairs, hashes)
            })
            .sum::<f64>()
            / 40.0;
        let random = reported(Order::Random(5));
        assert!((mean - random).abs() < 0.02, "{mean} {random}");
        assert!(random + 0.2 < reported(Order::Static), "{random}");
    }
}
