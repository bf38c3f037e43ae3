//! A hypothesis of ours about the published flips: that the paper's pairs have one nearness, the same for
//! h = 1, 2 and 3.
//!
//! Pairs of pages are sorted by the cosine of their features, and the three panels and the probes that Table 2
//! needs are measured for every band of cosines. A band is chosen on one corpus, as the one whose recalls are
//! nearest to the five published ones, and judged on the others. Beside them stands a model without pages: weights
//! of the query independent and normal, those of the other page turned from them by the angle of the cosine.
//! Neither the paper's pairs nor their cosines are known; nothing here is the paper's own explanation.

use crate::check::{Finding, Verdict};
use crate::config::{self, Size};
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series, short};
use crate::generate::{Donors, Features, Recipe};
use crate::pairs::{Directed, Order, Point, curve, flips, near_pairs, quantiles, sets, sets_of};
use crate::results::{Row, Table, distinct, expected};
use crate::{Experiment, Options};
use anyhow::Result;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use serde::Deserialize;
use simflip::features::cosine;
use simflip::search::distinct::DistinctHashes;
use simflip::simhash::volatility::{FlipCost, Volatility};
use simflip::simhash::vosh::Vosh;
use simflip::simhash::{BITS, SimHash};
use simflip::text::FeatureKind;
use simflip::weight::{Weigher, Weighting};
use simflip::{Id, Slot};
use std::collections::{HashMap, HashSet};
use std::f64::consts::{SQRT_2, TAU};

pub const EXPERIMENT: Experiment = Experiment {
    name: "nearness",
    about: "the published flips and Table 2's probes against the cosine of the pairs: a hypothesis, tested",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NearnessConfig {
    most_pairs: usize,
    /// Searches of each distance that a band needs.
    fewest_searches: usize,
    resamples: usize,
    exact_tables: u32,
    generated: Size,
    points: Vec<u64>,
    /// The published numbers of flips, for h = 1, 2 and 3: points of every curve.
    published: [Vec<u64>; 3],
    recalls: Vec<f64>,
    /// Bits of the key among which PSM flips.
    key_bits: u32,
    /// Bands are all ranges between two of them.
    edges: Vec<f64>,
    drawn: Vec<[f64; 2]>,
    /// Of the model.
    cosines: Vec<f64>,
    drawn_cosines: Vec<f64>,
    vectors: Size,
    agree_within: f64,
    /// The band that an earlier look suggested, and the corpus that was looked at.
    suggested: [f64; 2],
    suggested_by: String,
}

/// The largest distance of a pair.
const RADIUS: u32 = 3;

/// What is counted until a pair is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// Flips of exactly h bits, among the pairs at distance h.
    Flips(u32),
    /// Probes over all 64 bits: flips of 0 to 3 bits in one order, among the pairs at distances 1 to 3.
    ProbesAllBits,
    /// Probes with flips in the key alone, otherwise the same.
    ProbesKeyBits,
}

const MEASURES: [Measure; 5] =
    [Measure::Flips(1), Measure::Flips(2), Measure::Flips(3), Measure::ProbesAllBits, Measure::ProbesKeyBits];

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Self::Flips(1) => "flips, h = 1",
            Self::Flips(2) => "flips, h = 2",
            Self::Flips(_) => "flips, h = 3",
            Self::ProbesAllBits => "probes, all bits",
            Self::ProbesKeyBits => "probes, key",
        }
    }

    /// The most there can be.
    fn most(self, key_bits: u32) -> u64 {
        match self {
            Self::Flips(h) => sets(h),
            Self::ProbesAllBits => (0..=RADIUS).map(sets).sum(),
            Self::ProbesKeyBits => (0..=RADIUS).map(|h| sets_of(u64::from(key_bits), h)).sum(),
        }
    }
}

/// The mask of the leading bits, among which PSM with flips in the key flips.
fn key(bits: u32) -> u64 {
    u64::MAX << (BITS as u32 - bits)
}

/// All ranges between two edges, and beside them all pairs.
fn bands(config: &NearnessConfig) -> Vec<[f64; 2]> {
    let edges = &config.edges;
    let above =
        |(at, &from): (usize, &f64)| edges[at + 1..].iter().map(move |&to| [from, to]).collect::<Vec<_>>();
    [[-1.0, 1.0]].into_iter().chain(edges.iter().enumerate().flat_map(above)).collect()
}

/// Whether a cosine is in a band; the last one has its upper end.
fn within(cosine: f64, [from, to]: [f64; 2]) -> bool {
    from <= cosine && (cosine < to || to >= 1.0)
}

/// Features in order, repeated ones added up.
fn merged(mut features: Features) -> Features {
    features.sort_unstable();
    features.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    features
}

fn run(options: &Options) -> Result<()> {
    let config: NearnessConfig = config::read(options, EXPERIMENT.name)?;
    let mut table = Table::create(options, EXPERIMENT.name, "model", "no corpus")?;
    model(options, &config, &mut table)?;
    for path in options.corpora() {
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Words)?;
        options.progress.say(format!("  {}: {} distinct texts", corpus.name, corpus.len()));
        let weigher = Weigher::new(Weighting::TfIdf);
        let real = corpus.simhashes(Weighting::TfIdf);
        let features = |wanted: &HashSet<usize>| -> HashMap<usize, Features> {
            wanted.par_iter().map(|&text| (text, merged(corpus.features(text, &weigher)))).collect()
        };
        measure(options, &config, &corpus, "real", &real, &features)?;
        drop(real);
        let recipe = Recipe::read(options, options.size(config.generated))?;
        let donors = Donors::new(&corpus, options.seed);
        let generated = donors.generate(&recipe, |_, simhash, _| simhash);
        // The same documents again: their features are too many to be kept before it is known which are needed.
        let features = |wanted: &HashSet<usize>| -> HashMap<usize, Features> {
            let keep = |document, _, features: &Features| {
                wanted.contains(&document).then(|| (document, merged(features.clone())))
            };
            donors.generate(&recipe, keep).into_iter().flatten().collect()
        };
        measure(options, &config, &corpus, "generated", &generated, &features)?;
    }
    Ok(())
}

/// The features of some documents, by number.
type Fetch<'a> = &'a dyn Fn(&HashSet<usize>) -> HashMap<usize, Features>;

fn measure(
    options: &Options,
    config: &NearnessConfig,
    corpus: &Corpus,
    source: &str,
    simhashes: &[SimHash],
    features: Fetch<'_>,
) -> Result<()> {
    let suffix = if source == "real" { "" } else { "-generated" };
    let name = format!("{}{suffix}", corpus.name);
    let mut table = Table::create(options, EXPERIMENT.name, &name, &corpus.digest)?;
    let hashes: Vec<u64> = simhashes.iter().map(|simhash| simhash.hash).collect();
    let distinct = DistinctHashes::new(&hashes);
    // A query is the first document with the hash.
    let document = |slot: Slot| distinct.members(slot)[0].index();
    let weights: Vec<[f32; BITS]> = distinct.slots().map(|slot| simhashes[document(slot)].weights).collect();
    let by_distance = near_pairs(&distinct, config.exact_tables, config.most_pairs, options.seed)?;
    let all: Vec<Directed> = by_distance.concat();
    let features = features(&all.iter().map(|pair| document(pair.query)).collect());
    let of = |slot: Slot| &features[&document(slot)];
    let near = |pairs: &[Directed]| -> Vec<f64> {
        pairs.par_iter().map(|pair| cosine(of(pair.query), of(pair.other))).collect()
    };
    for measure in MEASURES {
        let (pairs, among, sizes) = match measure {
            Measure::Flips(h) => (&by_distance[h as usize - 1], u64::MAX, h..=h),
            Measure::ProbesAllBits => (&all, u64::MAX, 0..=RADIUS),
            Measure::ProbesKeyBits => (&all, key(config.key_bits), 0..=RADIUS),
        };
        let cosines = near(pairs);
        let found = flips(pairs, &weights, among, sizes, Order::Vosh(FlipCost::Abs));
        options.progress.say(format!("  {name}: {}, {} searches", measure.name(), pairs.len()));
        let (bands, mut thin) = (bands(config), 0);
        for &band in &bands {
            let inside = |at: &usize| within(cosines[*at], band);
            let inside: Vec<usize> = (0..pairs.len()).filter(inside).collect();
            if inside.len() < config.fewest_searches {
                thin += 1;
                continue;
            }
            let pairs: Vec<Directed> = inside.iter().map(|&at| pairs[at]).collect();
            let found: Vec<u32> = inside.iter().map(|&at| found[at]).collect();
            let mut cosines: Vec<f64> = inside.iter().map(|&at| cosines[at]).collect();
            cosines.sort_unstable_by(f64::total_cmp);
            let drawn = config.drawn.contains(&band) || band[0] < 0.0;
            let grid = grid(config, measure, drawn, quantiles(&found, &config.recalls));
            let (points, clusters) = curve(&pairs, &found, &grid, config.resamples, options.seed);
            let median = cosines[cosines.len() / 2];
            write(&mut table, &corpus.name, source, measure, band, median, [pairs.len(), clusters], &points)?;
        }
        if thin > 0 {
            let (all, fewest, measure) = (bands.len(), config.fewest_searches, measure.name());
            let reason = format!(
                "{name}, {measure}: {thin} of {all} bands of cosines have fewer than {fewest} searches"
            );
            options.progress.omit(reason);
        }
    }
    Ok(())
}

/// The points of a curve: all of them where it is drawn, and the published ones where it is only judged.
fn grid(config: &NearnessConfig, measure: Measure, drawn: bool, mut grid: Vec<u64>) -> Vec<u64> {
    match measure {
        _ if drawn => grid.extend(&config.points),
        Measure::Flips(h) => grid.extend(&config.published[h as usize - 1]),
        _ => {}
    }
    grid.retain(|&flips| flips <= measure.most(config.key_bits));
    grid.sort_unstable();
    grid.dedup();
    grid
}

#[expect(clippy::too_many_arguments, reason = "the fields of a row")]
fn write(
    table: &mut Table,
    base: &str,
    source: &str,
    measure: Measure,
    [from, to]: [f64; 2],
    median: f64,
    [searches, clusters]: [usize; 2],
    points: &[Point],
) -> Result<()> {
    for point in points {
        table.row(&[
            ("base", &base),
            ("source", &source),
            ("measure", &measure.name()),
            ("from", &from),
            ("to", &to),
            ("median_cosine", &format_args!("{median:.4}")),
            ("searches", &searches),
            ("clusters", &clusters),
            ("flips", &point.flips),
            ("recall", &format_args!("{:.5}", point.recall)),
            ("low", &format_args!("{:.5}", point.low)),
            ("high", &format_args!("{:.5}", point.high)),
        ])?;
    }
    Ok(())
}

/// The probability that a normal number is below x.
fn normal_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
}

/// 64 independent normal numbers.
fn normal_vector(rng: &mut Xoshiro256PlusPlus) -> [f32; BITS] {
    std::array::from_fn(|_| {
        let (u, v) = (1.0 - rng.random::<f64>(), rng.random::<f64>());
        (libm::sqrt(-2.0 * libm::log(u)) * libm::cos(TAU * v)) as f32
    })
}

/// For each measure the sums over query vectors of the probability that a pair is found by the f-th set: index 0
/// is the first set. Their total is the probability that a pair counts at all.
fn likelihoods(weights: &[f32; BITS], cosines: &[f64], measure: Measure, key_bits: u32) -> Vec<Vec<f64>> {
    let (among, sizes) = match measure {
        Measure::Flips(h) => (u64::MAX, h..=h),
        Measure::ProbesAllBits => (u64::MAX, 0..=RADIUS),
        Measure::ProbesKeyBits => (key(key_bits), 0..=RADIUS),
    };
    let masks: Vec<u64> =
        Vosh::new(Volatility::new(weights, among, FlipCost::Abs), sizes).map(|flip| flip.mask).collect();
    let of_cosine = |&cosine: &f64| {
        let cot = cosine / libm::sqrt(1.0 - cosine * cosine);
        let flip = weights.map(|weight| normal_below(-f64::from(weight.abs()) * cot));
        let odds = flip.map(|p| p / (1.0 - p));
        let none: f64 = flip.iter().map(|p| 1.0 - p).product();
        // Products of the odds of so many bits outside of `among`, over all sets of them.
        let mut outside = [1.0, 0.0, 0.0, 0.0];
        for bit in (0..BITS).filter(|bit| among >> bit & 1 == 0) {
            for size in (1..outside.len()).rev() {
                outside[size] += outside[size - 1] * odds[bit];
            }
        }
        let of_set = |&mask: &u64| {
            let (mut own, mut rest) = (1.0, mask);
            while rest != 0 {
                own *= odds[rest.trailing_zeros() as usize];
                rest &= rest - 1;
            }
            let flipped = mask.count_ones() as usize;
            // Pairs at distances 1 to 3: the set that is no flip at all is no pair.
            let least = usize::from(flipped == 0);
            none * own * outside[least..=RADIUS as usize - flipped].iter().sum::<f64>()
        };
        masks.iter().map(of_set).collect()
    };
    cosines.iter().map(of_cosine).collect()
}

/// The curves of the model, one for each cosine.
fn model(options: &Options, config: &NearnessConfig, table: &mut Table) -> Result<()> {
    let vectors = options.size(config.vectors);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let vectors: Vec<[f32; BITS]> = (0..vectors).map(|_| normal_vector(&mut rng)).collect();
    for measure in MEASURES {
        let most = measure.most(config.key_bits) as usize;
        let none = || vec![vec![0.0; most]; config.cosines.len()];
        // Parts of a fixed size, added up in order: sums do not depend on the threads.
        let parts: Vec<Vec<Vec<f64>>> = vectors
            .par_chunks(64)
            .map(|part| {
                let mut sums = none();
                for weights in part {
                    for (sum, own) in
                        sums.iter_mut().zip(likelihoods(weights, &config.cosines, measure, config.key_bits))
                    {
                        sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                    }
                }
                sums
            })
            .collect();
        let mut sums = none();
        for part in parts {
            for (sum, part) in sums.iter_mut().zip(part) {
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
        }
        for (&cosine, sums) in config.cosines.iter().zip(sums) {
            let total: f64 = sums.iter().sum();
            let mut sum = 0.0;
            let shares: Vec<f64> = sums
                .iter()
                .map(|own| {
                    sum += own / total;
                    sum
                })
                .collect();
            let reached = |recall: f64| shares.partition_point(|&share| share < recall) as u64 + 1;
            // Normal weights reach every set; the last flips are those that 99.99 % take.
            let recalls = config.recalls.iter().map(|&recall| reached(recall.min(0.9999)));
            let drawn = config.drawn_cosines.contains(&cosine);
            let grid = grid(config, measure, drawn, recalls.collect());
            let points = grid.iter().map(|&flips| {
                let recall = shares[flips as usize - 1];
                Point { flips, recall, low: recall, high: recall, per_cluster: recall }
            });
            let points: Vec<Point> = points.collect();
            write(table, "model", "model", measure, [cosine; 2], cosine, [vectors.len(); 2], &points)?;
        }
    }
    Ok(())
}

/// The rows of one measure in one band of one corpus.
fn pick<'a>(rows: &'a [Row], corpus: &str, measure: Measure, [from, to]: [f64; 2]) -> Vec<&'a Row> {
    let is = |row: &&Row| {
        row.text("corpus") == corpus
            && row.text("measure") == measure.name()
            && (row.number("from"), row.number("to")) == (from, to)
    };
    rows.iter().filter(is).collect()
}

/// The recalls at the published points, in their order; nothing if one was not measured.
fn at_published<'a>(rows: &'a [Row], expected: &[Row], corpus: &str, band: [f64; 2]) -> Option<Vec<&'a Row>> {
    let at = |point: &Row| {
        let rows = pick(rows, corpus, Measure::Flips(point.number("h") as u32), band);
        rows.into_iter().find(|row| row.number("flips") == point.number("flips"))
    };
    expected.iter().map(at).collect()
}

/// How far recalls are from the published ones: the mean difference.
fn misfit(rows: &[&Row], expected: &[Row]) -> f64 {
    let off =
        rows.iter().zip(expected).map(|(row, point)| (row.number("recall") - point.number("recall")).abs());
    off.sum::<f64>() / expected.len() as f64
}

/// The band that fits best on a corpus; the narrower of equals.
fn choose(rows: &[Row], expected: &[Row], corpus: &str, bands: &[[f64; 2]]) -> Option<([f64; 2], f64)> {
    // Few rows are at a published point, and every band looks through all rows that it is given.
    let is_published = |row: &&Row| expected.iter().any(|point| point.number("flips") == row.number("flips"));
    let of_corpus = rows.iter().filter(|row| row.text("corpus") == corpus);
    let rows: Vec<Row> = of_corpus.filter(is_published).cloned().collect();
    let fits = bands
        .iter()
        .filter_map(|&band| Some((band, misfit(&at_published(&rows, expected, corpus, band)?, expected))));
    fits.min_by(|(a, x), (b, y)| x.total_cmp(y).then((a[1] - a[0]).total_cmp(&(b[1] - b[0]))))
}

/// The corpus that documents were generated from, or the corpus itself.
fn base_of(corpus: &str) -> &str {
    corpus.trim_end_matches("-generated")
}

/// How many of the published recalls are within the intervals of ours, give or take so much.
fn within_intervals(rows: &[&Row], expected: &[Row], give: f64) -> usize {
    let inside = |(row, point): &(&&Row, &Row)| {
        (row.number("low") - give..=row.number("high") + give).contains(&point.number("recall"))
    };
    rows.iter().zip(expected).filter(inside).count()
}

/// Probes for 95 % of the pairs, over all bits and in the key.
fn probes_shown(rows: &[Row], corpus: &str, band: [f64; 2]) -> [String; 2] {
    [Measure::ProbesAllBits, Measure::ProbesKeyBits]
        .map(|measure| probes_for(&pick(rows, corpus, measure, band), 0.95).map_or("?".into(), short))
}

fn name_of(band: [f64; 2]) -> String {
    match band {
        [from, _] if from < 0.0 => "all pairs".into(),
        [from, to] if to >= 1.0 => format!("cosine {from} and above"),
        [from, to] if from == to => format!("cosine {from}"),
        [from, to] => format!("cosine {from} to {to}"),
    }
}

/// The published recalls, reported.
const PUBLISHED: &str = "30, 80, 100 % after 1, 4, 17 flips; 100 % after 152; 100 % after 675";

/// The published recalls: those of `flips-vs-recall`.
fn published() -> Result<Vec<Row>> {
    expected("flips-vs-recall")
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let config: NearnessConfig = config::read(options, EXPERIMENT.name)?;
    let expected = published()?;
    let real = distinct(rows.iter().filter(|row| row.text("source") == "real"), "corpus");
    for corpus in &real {
        let mut panels: Vec<Panel> = MEASURES[..3]
            .iter()
            .zip(1u32..)
            .map(|(&measure, h)| {
                let mut series: Vec<Series> = Vec::new();
                for (colour, &band) in config.drawn.iter().enumerate() {
                    let rows = pick(rows, corpus, measure, band);
                    let look = Look::Line { colour, dashed: false };
                    let points = rows.iter().map(|row| (row.number("flips"), row.number("recall"))).collect();
                    let mut one = Series::new(name_of(band), look, points);
                    let band = |r: &&Row| (r.number("flips"), r.number("low"), r.number("high"));
                    one.band = rows.iter().map(band).collect();
                    series.push(one);
                }
                for (colour, &cosine) in config.drawn_cosines.iter().enumerate() {
                    let rows = pick(rows, "model", measure, [cosine; 2]);
                    let points = rows.iter().map(|row| (row.number("flips"), row.number("recall"))).collect();
                    let look = Look::Line { colour, dashed: true };
                    series.push(Series::new(format!("model, cosine {cosine}"), look, points));
                }
                let points = expected.iter().filter(|row| row.number("h") == f64::from(h));
                let points = points.map(|row| (row.number("flips"), row.number("recall"))).collect();
                series.push(Series::new("published", Look::Published, points));
                Panel {
                    title: format!("({}) h = {h}", ["a", "b", "c"][h as usize - 1]),
                    x: Axis::log("flips").between(1.0, sets(h) as f64),
                    y: Axis::share("share of pairs found").between(0.0, 1.02),
                    series,
                }
            })
            .collect();
        panels.push(against_cosine(&config, rows, corpus));
        let path = options.figures().join(format!("nearness-{corpus}.svg"));
        let note = "solid: pairs of real pages by the cosine of their features, bands 95 % over duplicate clusters; dashed: normal weights at one angle";
        figure::draw(
            &path,
            &format!("The published flips, and the nearness of pairs: {corpus}"),
            note,
            2,
            &panels,
        )?;
    }
    Ok(())
}

/// Probes for 95 % of the pairs at distances 1 to 3 against their cosine.
fn against_cosine(config: &NearnessConfig, rows: &[Row], corpus: &str) -> Panel {
    let mut series = Vec::new();
    for (colour, (measure, name)) in
        [(Measure::ProbesAllBits, "flips of all 64 bits"), (Measure::ProbesKeyBits, "flips in the key")]
            .into_iter()
            .enumerate()
    {
        // Bands between neighbouring edges, at their median.
        let points = config.edges.windows(2).filter_map(|band| {
            let rows = pick(rows, corpus, measure, [band[0], band[1]]);
            Some((rows.first()?.number("median_cosine"), probes_for(&rows, 0.95)?))
        });
        let look = Look::Marked { colour, dashed: false };
        series.push(Series::new(name, look, points.collect()));
        let points = config.cosines.iter().filter_map(|&cosine| {
            Some((cosine, probes_for(&pick(rows, "model", measure, [cosine; 2]), 0.95)?))
        });
        series.push(Series::new(
            format!("{name}, model"),
            Look::Line { colour, dashed: true },
            points.collect(),
        ));
    }
    Panel {
        title: "(d) probes for 95 % of the pairs within 3 bits".into(),
        x: Axis::linear("cosine").between(0.984, 1.0),
        y: Axis::log("probes"),
        series,
    }
}

/// The flips or probes after which a recall is reached.
fn probes_for(rows: &[&Row], recall: f64) -> Option<f64> {
    let reached = rows.iter().filter(|row| row.number("recall") >= recall - 1e-6);
    reached.map(|row| row.number("flips")).min_by(f64::total_cmp)
}

fn verdicts(options: &Options, rows: &[Row], _: &[Row]) -> Result<Vec<Verdict>> {
    let config: NearnessConfig = config::read(options, EXPERIMENT.name)?;
    let expected = published()?;
    let (mut all, bands) = (Vec::new(), bands(&config));
    let corpora = distinct(rows.iter().filter(|row| row.text("source") != "model"), "corpus");
    let fit = |corpus: &str, band| Some(misfit(&at_published(rows, &expected, corpus, band)?, &expected));
    for judge in corpora.iter().filter(|judge| base_of(judge) != config.suggested_by) {
        let band = config.suggested;
        let Some(found) = at_published(rows, &expected, judge, band) else { continue };
        let fits = within_intervals(&found, &expected, config.agree_within);
        let recalls: Vec<String> =
            found.iter().map(|row| format!("{:.1}", row.number("recall") * 100.0)).collect();
        let [x, p] = probes_shown(rows, judge, band);
        let other = |band| fit(judge, band).map_or("?".into(), |off| format!("{:.1}", off * 100.0));
        all.push(Verdict {
            item: format!("{}, suggested by {}, judged on {judge}", name_of(band), config.suggested_by),
            paper: PUBLISHED.into(),
            ours: format!(
                "{} %; {fits} of 5 within our intervals, give or take two points; 95 % after {x} probes over all bits, {p} \
                 in the key",
                recalls.join(", ")
            ),
            finding: (fits == expected.len()).into(),
            because: format!(
                "off by {:.1} points on average, from {} searches a distance on; all pairs of this corpus by {}, those from \
                 .99 on by {}",
                misfit(&found, &expected) * 100.0,
                found.iter().map(|row| row.number("searches") as u64).min().unwrap_or(0),
                other([-1.0, 1.0]),
                other([0.99, 1.0])
            ),
        });
    }
    // What is generated from a corpus does not judge a band that was chosen on it, nor the reverse.
    let points = |off: f64| format!("{:.1}", off * 100.0);
    for chooser in &corpora {
        let Some((band, own)) = choose(rows, &expected, chooser, &bands) else { continue };
        let judges = corpora.iter().filter(|judge| base_of(judge) != base_of(chooser));
        let mut offs: Vec<[f64; 3]> = Vec::new();
        let (mut recalls_fit, mut recalls_all) = (0, 0);
        for judge in judges {
            let (Some(found), Some(every), Some(above)) = (
                at_published(rows, &expected, judge, band),
                fit(judge, [-1.0, 1.0]),
                fit(judge, [0.99, 1.0]),
            ) else {
                continue;
            };
            let off = misfit(&found, &expected);
            offs.push([off, every, above]);
            let fits = within_intervals(&found, &expected, config.agree_within);
            (recalls_fit, recalls_all) = (recalls_fit + fits, recalls_all + found.len());
        }
        if offs.is_empty() {
            continue;
        }
        let range = |place: usize| {
            let of = offs.iter().map(|off| off[place]);
            format!("{} to {}", points(of.clone().fold(f64::MAX, f64::min)), points(of.fold(0.0, f64::max)))
        };
        let better = offs.iter().filter(|[off, every, above]| off < every && off < above).count();
        all.push(Verdict {
            item: format!("{}, chosen on {chooser} (off by {} points there), on {} other corpora", name_of(band), points(own), offs.len()),
            paper: PUBLISHED.into(),
            ours: format!(
                "off by {} points; {recalls_fit} of {recalls_all} numbers within our intervals, give or take two points",
                range(0)
            ),
            finding: (better == offs.len() && offs.iter().all(|off| off[0] <= config.agree_within)).into(),
            because: format!(
                "all pairs are off by {}, those from .99 on by {}; the band is nearer than both on {better} of {}. Agrees \
                 if it is on each, and off by two points at most",
                range(1),
                range(2),
                offs.len()
            ),
        });
    }
    let cosines: Vec<[f64; 2]> = config.cosines.iter().map(|&cosine| [cosine; 2]).collect();
    if let Some((band, off)) = choose(rows, &expected, "model", &cosines) {
        let found = at_published(rows, &expected, "model", band).unwrap_or_default();
        let recalls: Vec<String> =
            found.iter().map(|row| format!("{:.2}", row.number("recall") * 100.0)).collect();
        let [x, p] = [Measure::ProbesAllBits, Measure::ProbesKeyBits]
            .map(|measure| probes_for(&pick(rows, "model", measure, band), 0.95).map_or("?".into(), short));
        all.push(Verdict {
            item: format!("the model's best cosine, {}", band[0]),
            paper: PUBLISHED.into(),
            ours: format!(
                "{} %, off by {:.1} points on average; 95 % after {x} probes over all bits, {p} in the key",
                recalls.join(", "),
                off * 100.0
            ),
            finding: Finding::New,
            because: "one number was chosen to fit five; no cosine of the model gives 100 % to the last pair"
                .into(),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(seed: u64) -> [f32; BITS] {
        normal_vector(&mut Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    #[test]
    fn the_models_probabilities_are_those_of_turned_vectors() {
        // Turn a vector often, and count after how many flips each partner would be found.
        let (cosine, key_bits) = (0.99, 26);
        let weights = vector(3);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let sine = libm::sqrt(1.0 - cosine * cosine) as f32;
        let mut masks = [const { Vec::new() }; 4];
        const TURNS: usize = 200_000;
        for _ in 0..TURNS {
            let noise = normal_vector(&mut rng);
            let mask = (0..BITS).fold(0u64, |mask, bit| {
                let turned = weights[bit] * cosine as f32 + noise[bit] * sine;
                mask | u64::from((turned > 0.0) != (weights[bit] > 0.0)) << bit
            });
            if let 1..=3 = mask.count_ones() {
                masks[mask.count_ones() as usize].push(mask);
            }
        }
        for measure in MEASURES {
            let (among, sizes) = match measure {
                Measure::Flips(h) => (u64::MAX, h..=h),
                Measure::ProbesAllBits => (u64::MAX, 0..=RADIUS),
                Measure::ProbesKeyBits => (key(key_bits), 0..=RADIUS),
            };
            let order: HashMap<u64, usize> =
                Vosh::new(Volatility::new(&weights, among, FlipCost::Abs), sizes.clone())
                    .map(|flip| flip.mask)
                    .zip(0..)
                    .collect();
            let model = &likelihoods(&weights, &[cosine], measure, key_bits)[0];
            assert_eq!(model.len() as u64, measure.most(key_bits));
            let counted: Vec<u64> = match measure {
                Measure::Flips(h) => masks[h as usize].clone(),
                _ => masks.concat(),
            };
            let total: f64 = model.iter().sum();
            assert!((total - counted.len() as f64 / TURNS as f64).abs() < 0.005, "{}", measure.name());
            for until in [1, 4, 20] {
                let shown = counted.iter().filter(|&mask| order[&(mask & among)] < until).count();
                let expected: f64 = model[..until].iter().sum::<f64>() / total;
                let seen = shown as f64 / counted.len() as f64;
                assert!((seen - expected).abs() < 0.02, "{} {until}: {seen}, {expected}", measure.name());
            }
        }
    }

    #[test]
    fn bands_are_all_ranges_and_a_cosine_of_one_is_in_the_last() {
        assert!(within(1.0, [0.99, 1.0]) && !within(0.99, [0.98, 0.99]) && within(0.99, [0.99, 0.995]));
        assert!(within(-0.5, [-1.0, 1.0]));
        let options = <Options as clap::Parser>::parse_from(["experiments", EXPERIMENT.name]);
        let config: NearnessConfig = config::read(&options, EXPERIMENT.name).unwrap();
        let bands = bands(&config);
        let edges = config.edges.len();
        assert_eq!(bands.len(), 1 + edges * (edges - 1) / 2);
        assert!(config.drawn.iter().all(|band| bands.contains(band)));
        assert!(config.drawn_cosines.iter().all(|cosine| config.cosines.contains(cosine)));
        let points: Vec<u64> = published().unwrap().iter().map(|row| row.number("flips") as u64).collect();
        assert!(points.iter().all(|flips| config.points.contains(flips)));
        assert_eq!(points, config.published.concat());
    }

    #[test]
    fn repeated_features_are_one() {
        assert_eq!(merged(vec![(3, 1), (1, 2), (3, 4)]), [(1, 2), (3, 5)]);
    }
}
