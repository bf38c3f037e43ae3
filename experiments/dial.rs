//! Queries per second against recall, a curve for each method, at several distances. Ours: the
//! paper has no such figure.
//!
//! Every method is one curve over its budgets; exact ones are a point at 100 %. The verdicts hold the dial
//! against what we want of it. With `--near-pairs` the hashes are uniform and each query has one stored
//! partner, so that a change of a search can be judged without a corpus; then the first match is measured as
//! well. Other shapes of the dial, key widths among them, are a matter of another `--configs`.

use crate::check::Verdict;
use crate::config::{self, Size};
use crate::figure::{self, Axis, Look, Panel, Series, short};
use crate::results::{Row, Table, described, distinct};
use crate::throughput::{Bench, Method, Searches, Workload, for_each_workload};
use crate::{Experiment, Options};
use anyhow::{Context, Result};
use serde::Deserialize;

pub const EXPERIMENT: Experiment = Experiment {
    name: "dial",
    about: "queries per second against recall at distances 3, 6 and 10: the dial against every rival",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DialConfig {
    stored: Size,
    queries: Size,
    /// Recall from which on curves are drawn.
    shown_from: f64,
    near_pairs: Sizes,
    budgets: Budgets,
    distances: Vec<Distance>,
    /// None where nothing is wanted.
    #[serde(default)]
    aims: Vec<Aim>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    stored: Size,
    queries: Size,
}

/// Probes of a query at each point of a curve.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Budgets {
    dial: Vec<u32>,
    psm_key_bits: Vec<u32>,
    psm_all_bits: Vec<u32>,
}

impl Budgets {
    fn of(&self, method: Method) -> &[u32] {
        match method {
            Method::PsmKeyBits { .. } => &self.psm_key_bits,
            Method::PsmAllBits { .. } => &self.psm_all_bits,
            Method::Dial { budgeted: true, .. } => &self.dial,
            _ => &[],
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Distance {
    distance: u32,
    /// Stored hashes up to which it is tried.
    most_stored: Option<usize>,
    methods: Vec<Method>,
}

/// How many times as fast as others the dial should be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Aim {
    distance: u32,
    /// What the names of the methods to beat begin with; the best exact one if there is none.
    rival: Option<String>,
    recall: f64,
    times: f64,
    /// The greatest share of their bytes.
    bytes: Option<f64>,
}

fn run(options: &Options) -> Result<()> {
    let config: DialConfig = config::read(options, EXPERIMENT.name)?;
    if options.near_pairs {
        return run_on_near_pairs(options, &config);
    }
    let sizes = options.sizes(config.stored, config.queries);
    for_each_workload(options, EXPERIMENT.name, sizes, |workload, table| {
        dump(options, workload, "")?;
        config.distances.iter().try_for_each(|distance| {
            run_at(options, &config.budgets, distance, workload, table, |bench| bench)
        })
    })
}

/// Every match and the first one, on hashes and queries that need no corpus; the queries of
/// each distance are others.
fn run_on_near_pairs(options: &Options, config: &DialConfig) -> Result<()> {
    let searches = Searches::read(options)?;
    let (stored, queries) = options.sizes(config.near_pairs.stored, config.near_pairs.queries);
    for distance in &config.distances {
        let workload = Workload::near_pairs(&searches, distance.distance, stored, queries, options.seed);
        let part = format!("-h{}", distance.distance);
        let (name, digest) = (workload.name(), &workload.digest);
        let mut table = Table::part(options, EXPERIMENT.name, &name, digest, &part)?;
        dump(options, &workload, &part)?;
        run_at(options, &config.budgets, distance, &workload, &mut table, |bench| {
            bench.with_first_matches()
        })?;
    }
    Ok(())
}

fn run_at<'a>(
    options: &Options,
    budgets: &Budgets,
    distance: &Distance,
    workload: &'a Workload,
    table: &'a mut Table,
    with: impl Fn(Bench<'_>) -> Bench<'_>,
) -> Result<()> {
    let Distance { distance, most_stored, methods } = distance;
    let stored = workload.stored.len();
    if let Some(most) = most_stored.filter(|&most| stored > most) {
        let name = workload.name();
        options.progress.omit(format!(
            "{name}, distance {distance}: {stored} stored hashes, and it is slow beyond {most}"
        ));
        return Ok(());
    }
    // On all cores three recalls more, and every exact search.
    let total = methods.iter().map(|&m| if m.budgeted() { budgets.of(m).len() + 5 } else { 2 }).sum();
    let points = options.progress.points(total);
    let mut bench = with(Bench::new(workload, *distance, table, &points)?);
    methods.iter().try_for_each(|&method| bench.curve(method, budgets.of(method)))
}

/// Writes hashes and queries down, if that was asked for.
fn dump(options: &Options, workload: &Workload, part: &str) -> Result<()> {
    let Some(folder) = &options.dump else { return Ok(()) };
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let write = |what: &str, hashes: &mut dyn Iterator<Item = u64>| {
        let path = folder.join(format!("{}{part}.{what}.u64", workload.name()));
        let bytes: Vec<u8> = hashes.flat_map(u64::to_le_bytes).collect();
        std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
    };
    write("stored", &mut workload.stored.hashes().iter().copied())?;
    write("queries", &mut workload.queries.iter().map(|query| query.hash))
}

/// What a method is called in the legend: without the key bits, which differ from size to size.
fn label(method: &str) -> String {
    match method.split_once(' ') {
        Some(("dial", kind)) => {
            let (tables, flips) = kind.split_once('/').unwrap_or((kind, "1"));
            let (tables, bits) = tables.split_once('x').map_or((tables, None), |(n, bits)| (n, Some(bits)));
            let plural = |n: &str| if n == "1" { "" } else { "s" };
            let key = bits.map_or("a key".into(), |bits| format!("a key of {bits} bits"));
            format!("dial, {tables} table{}, up to {flips} flip{} in {key}", plural(tables), plural(flips))
        }
        Some(("PSM-64", bits)) => format!("PSM, 64 bits flipped ({bits} more a hash)"),
        Some(("PSM-key", _)) => "PSM, flips in the key".into(),
        Some(("BPHS", tables)) => format!("BPHS, {tables} tables"),
        Some(("mih-rs", blocks)) => format!("mih-rs, {blocks} blocks"),
        Some(("FAISS", kind)) => format!("FAISS {}", kind.replace(',', " bits,")),
        _ => method.to_owned(),
    }
}

/// The rows of every match; those of the first one are of uniform hashes alone.
fn every_match(rows: &[Row]) -> Vec<Row> {
    rows.iter().filter(|row| row.text("mode") != "first").cloned().collect()
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let shown = config::read::<DialConfig>(options, EXPERIMENT.name)?.shown_from;
    let rows = &every_match(rows);
    for workload in distinct(rows, "corpus") {
        for radius in distinct(rows, "radius") {
            let of = |row: &&Row| {
                row.text("corpus") == workload && row.text("radius") == radius && row.number("threads") == 1.0
            };
            let rows: Vec<&Row> = rows.iter().filter(of).collect();
            let Some(first) = rows.first() else { continue };
            let panel = Panel {
                title: format!("distance up to {radius}"),
                x: Axis::share("pairs found, of those at distance 1 to h").between(shown, 1.005),
                y: Axis::log("queries per processor second"),
                series: series(&rows, shown),
            };
            let note = format!(
                "{} hashes, {} stored; level lines are exact methods",
                first.text("source"),
                short(first.number("stored"))
            );
            let path = options.figures().join(format!("dial-{workload}-h{radius}.svg"));
            figure::draw(
                &path,
                &format!("Speed against recall, {}", described(&workload)),
                &note,
                1,
                &[panel],
            )?;
        }
    }
    Ok(())
}

/// A curve for each method with a budget, a level line for the fastest setting of each exact one.
fn series(rows: &[&Row], shown: f64) -> Vec<Series> {
    let rate = |row: &Row| row.number("queries_per_cpu_second");
    let named = |row: &Row| {
        let bytes = row.number("bytes") / row.number("stored");
        format!("{}: {bytes:.0} bytes a hash", label(row.text("method")))
    };
    let (mut all, mut dials, mut families): (Vec<Series>, usize, Vec<&str>) = Default::default();
    for method in distinct(rows.iter().copied(), "method") {
        let of: Vec<&Row> = rows.iter().copied().filter(|row| row.text("method") == method).collect();
        let family = of[0].text("method").split(' ').next().unwrap_or_default();
        if of.iter().any(|row| !row.text("budget").is_empty()) {
            let points = of.iter().map(|row| (row.number("recall"), rate(row)));
            let mut points: Vec<(f64, f64)> = points.filter(|point| point.0 >= shown).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let colour = match family {
                "PSM-key" => 2,
                "PSM-64" => 3,
                _ => {
                    dials += 1;
                    [0, 5, 4, 6][(dials - 1) % 4]
                }
            };
            all.push(Series::new(named(of[0]), Look::Marked { colour, dashed: family != "dial" }, points));
        } else if !families.contains(&family) {
            families.push(family);
            let same = |row: &&&Row| row.text("method").split(' ').next() == Some(family);
            let best = rows.iter().filter(same).max_by(|a, b| rate(a).total_cmp(&rate(b)));
            let best = best.expect("there is one of this family");
            let look = match family {
                "linear" => Look::Reference,
                "BPHS" => Look::Line { colour: 1, dashed: false },
                "mih-rs" => Look::Line { colour: 3, dashed: false },
                _ => Look::Line { colour: 6, dashed: true },
            };
            all.push(Series::new(named(best), look, vec![(shown, rate(best)), (1.0, rate(best))]));
        }
    }
    all
}

/// What memory allows: each look reads a line of the directory and the lines of a group of hashes, at
/// places that no cache foresees.
fn limit(dial: &Row) -> String {
    let per_query = |column: &str| dial.number(column) / dial.number("queries");
    let (looks, group) = (per_query("probes"), dial.number("candidates") / dial.number("probes"));
    // dial-2x23/1: two tables, keys of 23 bits.
    let key_bits = dial.text("index").split(['x', '/']).nth(1).and_then(|bits| bits.parse().ok());
    let rest = (64.0 - key_bits.unwrap_or(0.0)) / 8.0;
    let lines = looks * (1.0 + (1.0 - (-group).exp()) + group * rest / 64.0);
    let (line, all) = (dial.number("nanoseconds_a_line"), 1e9 / dial.number("queries_per_cpu_second"));
    format!(
        "fastest measured points with at least that recall. A query of the dial takes {all:.0} ns for {looks:.0} looks and \
         {:.0} candidates; its {lines:.0} cache lines alone take {:.0} ns, at {line:.1} ns for a line that is asked for ahead",
        looks * group,
        lines * line
    )
}

/// Queries a second: of processor time on one thread, of wall time on several.
fn rate(row: &Row) -> f64 {
    match row.number("threads") {
        1.0 => row.number("queries_per_cpu_second"),
        _ => row.number("queries") / row.number("wall_seconds"),
    }
}

/// The fastest measured point of the methods `of` whose recall is enough.
fn fastest<'a>(rows: &[&'a Row], recall: f64, of: impl Fn(&str) -> bool) -> Option<&'a Row> {
    let rows = rows.iter().filter(|row| of(row.text("method")) && row.number("recall") >= recall);
    rows.copied().max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

fn verdicts(options: &Options, rows: &[Row], _: &[Row]) -> Result<Vec<Verdict>> {
    let config: DialConfig = config::read(options, EXPERIMENT.name)?;
    let rows = &every_match(rows);
    let mut all = Vec::new();
    let workloads = distinct(rows, "corpus");
    let runs = workloads
        .iter()
        .flat_map(|workload| distinct(rows, "threads").into_iter().map(move |threads| (workload, threads)));
    for (workload, threads) in runs {
        for Aim { distance, rival, recall, times, bytes } in &config.aims {
            let of = |row: &&Row| row.text("corpus") == workload && row.text("threads") == threads;
            let rows: Vec<&Row> =
                rows.iter().filter(of).filter(|row| row.number("radius") == f64::from(*distance)).collect();
            let dial = |method: &str| method.starts_with("dial");
            let Some(ours) = fastest(&rows, *recall, dial) else { continue };
            let exact = |row: &&Row| row.text("budget").is_empty();
            let theirs = match rival {
                None => {
                    let exact: Vec<&Row> = rows.iter().copied().filter(exact).collect();
                    fastest(&exact, 1.0, |_| true)
                }
                Some(rival) => fastest(&rows, *recall, |method| method.starts_with(rival.as_str())),
            };
            let Some(theirs) = theirs else { continue };
            let (ratio, share) = (rate(ours) / rate(theirs), ours.number("bytes") / theirs.number("bytes"));
            let name = if rival.is_none() { "the best exact method" } else { theirs.text("method") };
            let wanted = bytes.map_or(String::new(), |share| format!(" with {share:.2} × the bytes at most"));
            all.push(Verdict {
                item: match threads.as_str() {
                    "1" => format!("{workload}, distance {distance}, recall {recall}: dial / {name}"),
                    n => {
                        format!(
                            "{workload}, distance {distance}, recall {recall}, on {n} cores: dial / {name}"
                        )
                    }
                },
                paper: format!("wanted, not published: {times} ×{wanted}"),
                ours: format!(
                    "{ratio:.1} × ({} with {:.0} probes at {:.3}, against {} of {}), {share:.2} × the bytes",
                    short(rate(ours)),
                    ours.number("probes") / ours.number("queries"),
                    ours.number("recall"),
                    short(rate(theirs)),
                    theirs.text("method"),
                ),
                finding: (ratio >= *times && bytes.is_none_or(|most| share <= most)).into(),
                because: match threads.as_str() {
                    "1" => limit(ours),
                    _ => "queries per second of wall time, each core with its part of the queries".into(),
                },
            });
        }
    }
    Ok(all)
}
