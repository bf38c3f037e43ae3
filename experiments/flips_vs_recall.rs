//! Share of near pairs that are found after f flips, by the order in which flips are tried (slides: four
//! panels).
//!
//! Pairs are exact: all pairs of distinct hashes at distance h by BPHS. Each pair is searched for from both
//! sides, over all 64 bits and among sets of exactly h flips, as the paper does. Intervals resample duplicate
//! clusters, because pairs of one cluster are found or missed together.

use crate::check::{Finding, Verdict};
use crate::config::{self, Size};
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::generate::{Donors, Recipe};
use crate::pairs::{Directed, Order, curve, flips, near_pairs, quantiles, sets};
use crate::results::{Clock, Row, Table, distinct, expected};
use crate::{Experiment, Options};
use anyhow::Result;
use serde::Deserialize;
use simflip::Id;
use simflip::search::distinct::DistinctHashes;
use simflip::simhash::volatility::FlipCost;
use simflip::simhash::{BITS, SimHash};
use simflip::text::FeatureKind;
use simflip::weight::Weighting;
use std::collections::HashSet;

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
struct FlipsConfig {
    /// Pairs of each distance that are followed; a sample if there are more.
    most_pairs: usize,
    /// Fewer pairs are no curve.
    fewest_pairs: usize,
    resamples: usize,
    /// Recalls whose exact number of flips is a point of every curve.
    recalls: Vec<f64>,
    /// Numbers of flips that are points of every curve: all those that were published.
    points: Vec<u64>,
    /// Recalls at which the speed-up over random order is compared.
    speedups_at: Vec<f64>,
    /// Tables of the search for pairs.
    exact_tables: u32,
    /// Documents that are generated from a corpus.
    generated: Size,
    agree_within: f64,
    /// cot θ of the log-odds.
    cot_theta: f64,
    #[serde(default)]
    nearer: Vec<Nearer>,
}

/// A curve of the pairs whose documents' cosine, as their weight vectors estimate it, is at least so much.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nearer {
    name: String,
    cosine: f64,
}

impl FlipsConfig {
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

fn cosine(a: &[f32; BITS], b: &[f32; BITS]) -> f64 {
    let dot = |x: &[f32; BITS], y: &[f32; BITS]| -> f64 {
        x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The numbers of flips whose recall is measured: the first ones, steps of a quarter, those that were published,
/// and those after which the wanted recalls are reached.
fn grid(config: &FlipsConfig, found: &[u32], h: u32) -> Vec<u64> {
    let mut grid: Vec<u64> = (1..=16).chain(config.points.iter().copied()).collect();
    grid.extend(quantiles(found, &config.recalls));
    let mut next = 16.0f64;
    while next < sets(h) as f64 {
        next *= 1.25;
        grid.push(next as u64);
    }
    grid.push(sets(h));
    grid.retain(|&flips| flips <= sets(h));
    grid.sort_unstable();
    grid.dedup();
    grid
}

fn run(options: &Options) -> Result<()> {
    let config: FlipsConfig = config::read(options, EXPERIMENT.name)?;
    for path in options.corpora() {
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Words)?;
        options.progress.say(format!("  {}: {} distinct texts", corpus.name, corpus.len()));
        let real = corpus.simhashes(Weighting::TfIdf);
        measure(options, &config, &corpus, "real", &real)?;
        drop(real);
        let recipe = Recipe::read(options, options.size(config.generated))?;
        let donors = Donors::new(&corpus, options.seed);
        let generated = donors.generate(&recipe, |_, simhash, _| simhash);
        measure(options, &config, &corpus, "generated", &generated)?;
    }
    Ok(())
}

fn measure(
    options: &Options,
    config: &FlipsConfig,
    corpus: &Corpus,
    source: &str,
    simhashes: &[SimHash],
) -> Result<()> {
    let (corpus, digest) = (&corpus.name, &corpus.digest);
    let suffix = if source == "real" { "" } else { "-generated" };
    let named = named(corpus, source);
    let mut table = Table::create(options, EXPERIMENT.name, &format!("{corpus}{suffix}"), digest)?;
    let hashes: Vec<u64> = simhashes.iter().map(|simhash| simhash.hash).collect();
    let distinct = DistinctHashes::new(&hashes);
    // A query is the first document with the hash.
    let weights: Vec<[f32; BITS]> =
        distinct.slots().map(|slot| simhashes[distinct.members(slot)[0].index()].weights).collect();
    let pairs = near_pairs(&distinct, config.exact_tables, config.most_pairs, options.seed)?;
    for (pairs, h) in pairs.iter().zip(1u32..) {
        let (found, fewest) = (pairs.len() / 2, config.fewest_pairs);
        options.progress.say(format!("  {named}: {found} pairs at distance {h}"));
        if found < fewest {
            let reason = format!("{named}, h = {h}: a curve takes {fewest} pairs, and there are {found}");
            options.progress.omit(reason);
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
            if pairs.len() < 2 * fewest {
                let found = pairs.len() / 2;
                let reason =
                    format!("{named}, h = {h}, {name}: a curve takes {fewest} pairs, and there are {found}");
                options.progress.omit(reason);
                continue;
            }
            let clock = Clock::start();
            let found = flips(&pairs, &weights, u64::MAX, h..=h, order);
            let (cpu, wall) = clock.read();
            let grid = grid(config, &found, h);
            let (points, clusters) = curve(&pairs, &found, &grid, config.resamples, options.seed);
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
            steps.done(format!("  {named}: h = {h}, {name}, {cpu:.1} s"));
        }
    }
    Ok(())
}

/// The documents that a curve is of.
fn named(base: &str, source: &str) -> String {
    if source == "real" { base.to_owned() } else { format!("{source} from {base}") }
}

/// The rows that are judged: those of real documents, or where a corpus has not enough pairs at a distance, those of
/// the documents generated from it.
fn verified(rows: &[Row]) -> Vec<&Row> {
    let curve = |row: &Row| [row.text("base").to_owned(), row.text("h").to_owned()];
    let is_real = |row: &&Row| row.text("source") == "real";
    let real: HashSet<_> = rows.iter().filter(is_real).map(curve).collect();
    rows.iter().filter(|row| is_real(row) || !real.contains(&curve(row))).collect()
}

/// Panels (a) to (c): recall against flips; (d), one for each h: speed-up over random order against recall.
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
    panels.extend((1..=3u32).map(|h| {
        let ratio = |recall: f64, flips: f64| (recall, recall * sets(h) as f64 / flips);
        let mut ratios = Vec::new();
        for (name, look, rows, _) in series {
            let rows = of_h(rows, h);
            let points = rows.iter().map(|row| ratio(row.number("recall"), row.number("flips")));
            ratios.push(Series::new(name.clone(), *look, points.filter(|p| p.0 > 0.0).collect()));
        }
        let published = expected.iter().filter(|row| row.number("h") == f64::from(h));
        let published = published.map(|row| ratio(row.number("recall"), row.number("flips")));
        ratios.push(Series::new("published", Look::Published, published.collect()));
        Panel {
            title: format!("(d) speed-up over random order, h = {h}"),
            x: Axis::share("recall").between(0.0, 1.02),
            // One scale for the three, so that they can be compared.
            y: Axis::log("fewer flips by a factor of").between(1.0, 3e4),
            series: ratios,
        }
    }));
    panels
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let config: FlipsConfig = config::read(options, EXPERIMENT.name)?;
    let expected = expected(EXPERIMENT.name)?;
    let pick = |base: &str, source: &str, order: &str| -> Vec<&Row> {
        rows.iter()
            .filter(|r| r.text("base") == base && r.text("source") == source && r.text("order") == order)
            .collect()
    };
    let real = distinct(rows.iter().filter(|row| row.text("source") == "real"), "base");
    let line = |colour| Look::Line { colour, dashed: false };
    let corpora: Vec<_> = real
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
    let draw = |name: &str, title: &str, note: &str, series: &[(String, Look, Vec<&Row>, bool)]| {
        let path = options.figures().join(format!("flips-vs-recall{name}.svg"));
        figure::draw(&path, title, note, 3, &panels(series, &expected))
    };
    if !corpora.is_empty() {
        draw("", "Flips until a near-duplicate is found, on real pages", note, &corpora)?;
    }
    for base in &real {
        let orders: Vec<_> = config
            .orders()
            .iter()
            .enumerate()
            .map(|(colour, (name, _))| {
                let look = Look::Line { colour, dashed: colour % 2 == 1 };
                ((*name).to_owned(), look, pick(base, "real", name), colour == 0)
            })
            .collect();
        let title = format!("Orders of flips compared, {base}");
        let note = "band: 95 % over duplicate clusters, of the first";
        draw(&format!("-orders-{base}"), &title, note, &orders)?;
    }
    for base in distinct(rows, "base") {
        let title = match real.contains(&base) {
            true => format!("May the generator be trusted? {base}, and documents generated from it"),
            false => format!("Flips until a near-duplicate is found, on documents generated from {base}"),
        };
        let both = [("real", 0), ("generated", 1)]
            .map(|(source, colour)| (source.to_owned(), line(colour), pick(&base, source, USUAL), true));
        draw(&format!("-generated-{base}"), &title, note, &both)?;
    }
    Ok(())
}

/// The flips after which a recall is reached.
fn flips_for(rows: &[&Row], recall: f64) -> Option<f64> {
    let reached = rows.iter().filter(|row| row.number("recall") >= recall - 1e-6);
    reached.map(|row| row.number("flips")).min_by(f64::total_cmp)
}

fn verdicts(options: &Options, rows: &[Row], expected: &[Row]) -> Result<Vec<Verdict>> {
    let config: FlipsConfig = config::read(options, EXPERIMENT.name)?;
    let mut all = Vec::new();
    let verified = verified(rows);
    for point in expected {
        let (flips, recall) = (point.number("flips"), point.number("recall"));
        for base in distinct(verified.iter().copied(), "base") {
            let curve: Vec<&Row> = verified
                .iter()
                .copied()
                .filter(|row| row.text("base") == base && row.text("order") == USUAL)
                .filter(|row| row.text("h") == point.text("h"))
                .collect();
            if curve.is_empty() {
                continue;
            }
            let item = format!("h = {}, {}", point.text("h"), named(&base, curve[0].text("source")));
            let paper = format!("{:.0} % after {flips} flips", recall * 100.0);
            let Some(at) = curve.iter().find(|row| row.number("flips") == flips) else {
                let because = "the corpus was measured before this was a point of the curves".into();
                let ours = "no row at this number of flips".into();
                all.push(Verdict { item, paper, ours, finding: Finding::NotMeasured, because });
                continue;
            };
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
                        verified.iter().filter(|row| row.text("base") == base && row.text("order") == name);
                    let mut near = near.filter(|row| row.text("h") == point.text("h"));
                    let at = near.find(|row| row.number("flips") == flips)?;
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
            all.push(Verdict { item, paper, ours, finding: agrees.into(), because });
        }
    }
    for base in distinct(rows, "base") {
        // Of one source, so that distances can be compared.
        let of = |source: &&str| speedups(&base, source, rows, &config.speedups_at);
        all.extend(["real", "generated"].iter().find_map(of));
    }
    Ok(all)
}

/// The slides' "this difference increases with h, and as recall decreases", of the flips that random order needs
/// for those of ours.
fn speedups(base: &str, source: &str, rows: &[Row], recalls: &[f64]) -> Option<Verdict> {
    let at = |h: u32, recall: f64| {
        let curve: Vec<&Row> = rows
            .iter()
            .filter(|row| row.text("base") == base && row.text("source") == source)
            .filter(|row| row.text("order") == USUAL && row.number("h") == f64::from(h))
            .collect();
        flips_for(&curve, recall).map(|flips| recall * sets(h) as f64 / flips)
    };
    let ratios: Vec<Vec<f64>> = recalls
        .iter()
        .map(|&recall| (1..=3).map(|h| at(h, recall)).collect::<Option<Vec<f64>>>())
        .collect::<Option<_>>()?;
    let grows_with_h = ratios.iter().all(|ratios| ratios.is_sorted_by(|a, b| a < b));
    let grows_as_recall_falls = (0..3).all(|h| ratios.is_sorted_by(|a, b| a[h] > b[h]));
    let reported: Vec<String> = recalls
        .iter()
        .zip(&ratios)
        .map(|(recall, ratios)| {
            let ratios: Vec<String> = ratios.iter().map(|&ratio| figure::short(ratio)).collect();
            format!("{} at {:.0} %", ratios.join(", "), recall * 100.0)
        })
        .collect();
    Some(Verdict {
        item: format!("speed-up over random order for h = 1, 2, 3, {}", named(base, source)),
        paper: "increases with h, and as recall decreases; 3.8, 13.3, 61.7 at 100 %".into(),
        ours: reported.join("; "),
        finding: (grows_with_h && grows_as_recall_falls).into(),
        because: "the statement is judged, not the three numbers; they follow from the flips above".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn generated_documents_are_judged_at_each_distance_that_has_too_few_pairs() {
        let options = Options::parse_from(["experiments", EXPERIMENT.name]);
        let mut text = "source,base,order,h,flips,recall,low,high\n".to_owned();
        for (source, h) in [("real", 1), ("generated", 1), ("generated", 2)] {
            text += &format!("{source},a,{USUAL:?},{h},1,0.3,0.2,0.4\n");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let rows = crate::results::read(file.path()).unwrap();
        let verdicts = verdicts(&options, &rows, &expected(EXPERIMENT.name).unwrap()).unwrap();
        let mut items: Vec<&str> = verdicts.iter().map(|verdict| verdict.item.as_str()).collect();
        items.dedup();
        assert_eq!(items, ["h = 1, a", "h = 2, generated from a"]);
    }

    #[test]
    fn every_published_number_of_flips_is_a_point_of_its_curve() {
        let options = Options::parse_from(["experiments", EXPERIMENT.name]);
        let config: FlipsConfig = config::read(&options, EXPERIMENT.name).unwrap();
        let expected = expected(EXPERIMENT.name).unwrap();
        assert_eq!(expected.len(), 5);
        for point in expected {
            let h = point.number("h") as u32;
            let grid = grid(&config, &[1, 2, 40], h);
            assert!(grid.contains(&(point.number("flips") as u64)), "h = {h}: {grid:?}");
            assert_eq!(*grid.last().unwrap(), sets(h));
        }
    }
}
