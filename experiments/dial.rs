//! Queries per second against recall, a curve for each method, at several distances. Ours: the paper has no such figure.
//!
//! Every method is one curve over its budgets; exact ones are a point at 100 %. The verdicts hold the dial against what
//! we want of it.

use crate::check::Verdict;
use crate::figure::{self, Axis, Look, Panel, Series, short};
use crate::results::{Row, Table, distinct};
use crate::throughput::{Bench, Method, Workload, for_each_workload};
use crate::{Config, Experiment};
use anyhow::{Context, Result};
use flipside::search::psm::FlipOrder;
use std::path::Path;

pub const EXPERIMENT: Experiment = Experiment {
    name: "dial",
    about: "queries per second against recall at distances 3, 6 and 10: the dial against every rival",
    run,
    draw,
    verdicts,
};

/// Stored hashes up to which distances above 6 are tried: all methods are slow there.
const MOST_FOR_WIDE: usize = 2_500_000;

const DIAL: &[u32] =
    &[2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256];
const PSM_P: &[u32] = &[3, 5, 7, 9, 12, 16, 20, 25, 32, 40, 60, 100, 200];
const PSM_X: &[u32] = &[50, 100, 200, 400, 800, 1_200, 1_600, 2_200, 3_000, 4_500];

/// Methods with their budgets, for a distance.
fn methods(radius: u32) -> Vec<(Method, &'static [u32])> {
    let dial = |tables, flips| (Method::Dial { tables, flips, budgeted: true }, DIAL);
    let exact = |method| (method, DIAL);
    match radius {
        0..=3 => vec![
            dial(2, 1),
            dial(1, 2),
            dial(3, 1),
            (Method::PsmP { fewer: 2, order: FlipOrder::Vosh }, PSM_P),
            (Method::PsmX { filter_bits: 8 }, PSM_X),
            exact(Method::Bphs(4)),
            exact(Method::Bphs(10)),
            exact(Method::Bphs(16)),
            exact(Method::Mih { blocks: 3 }),
            exact(Method::Mih { blocks: 4 }),
            exact(Method::Linear),
        ],
        4..=6 => vec![
            dial(2, 2),
            dial(3, 2),
            dial(4, 1),
            exact(Method::Bphs(7)),
            exact(Method::Bphs(28)),
            exact(Method::Mih { blocks: 3 }),
            exact(Method::Mih { blocks: 4 }),
            exact(Method::Linear),
        ],
        _ => vec![
            dial(2, 2),
            dial(3, 2),
            dial(4, 2),
            dial(6, 1),
            exact(Method::Mih { blocks: 3 }),
            exact(Method::Mih { blocks: 4 }),
            exact(Method::Linear),
        ],
    }
}

fn run(config: &Config) -> Result<()> {
    let stored = config.stored.unwrap_or(config.size(10_000_000, 50_000));
    let queries = config.queries.unwrap_or(config.size(200_000, 2_000));
    for_each_workload(config, EXPERIMENT.name, (stored, queries), |workload, table| {
        run_on(config, workload, table)
    })
}

fn run_on(config: &Config, workload: &Workload, table: &mut Table) -> Result<()> {
    let stored = workload.stored.len();
    if let Some(folder) = &config.dump {
        dump(
            &folder.join(format!("{}.stored.u64", workload.name())),
            workload.stored.hashes().iter().copied(),
        )?;
        let queries = workload.queries.iter().map(|query| query.hash);
        dump(&folder.join(format!("{}.queries.u64", workload.name())), queries)?;
    }
    for radius in [3, 6, 10] {
        if radius > 6 && stored > MOST_FOR_WIDE {
            continue;
        }
        let methods = methods(radius);
        // On all cores three recalls more, and every exact search.
        let total = methods.iter().map(|(m, budgets)| if m.budgeted() { budgets.len() + 5 } else { 2 }).sum();
        let points = config.progress.points(total);
        let mut bench = Bench::new(workload, radius, table, &points)?;
        for (method, budgets) in methods {
            bench.curve(method, budgets)?;
        }
    }
    Ok(())
}

fn dump(path: &Path, hashes: impl Iterator<Item = u64>) -> Result<()> {
    let bytes: Vec<u8> = hashes.flat_map(u64::to_le_bytes).collect();
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// What a method is called in the legend: without the key bits, which differ from size to size.
fn label(method: &str) -> String {
    match method.split_once(' ') {
        Some(("dial", kind)) => {
            let (tables, flips) = kind.split_once('/').unwrap_or((kind, "1"));
            let plural = |n: &str| if n == "1" { "" } else { "s" };
            format!("dial, {tables} table{}, up to {flips} flip{} in a key", plural(tables), plural(flips))
        }
        Some(("PSM-X", bits)) => format!("PSM, 64 bits flipped ({bits} more a hash)"),
        Some(("PSM-P", _)) => "PSM, flips in the key".into(),
        Some(("BPHS", tables)) => format!("BPHS, {tables} tables"),
        Some(("mih-rs", blocks)) => format!("mih-rs, {blocks} blocks"),
        Some(("FAISS", kind)) => format!("FAISS {}", kind.replace(',', " bits,")),
        _ => method.to_owned(),
    }
}

fn draw(config: &Config, rows: &[Row]) -> Result<()> {
    for workload in distinct(rows, "corpus") {
        for radius in distinct(rows, "radius") {
            let of = |row: &&Row| {
                row.text("corpus") == workload && row.text("radius") == radius && row.number("threads") == 1.0
            };
            let rows: Vec<&Row> = rows.iter().filter(of).collect();
            let Some(first) = rows.first() else { continue };
            let panel = Panel {
                title: format!("distance up to {radius}"),
                x: Axis::share("pairs found, of those at distance 1 to h").between(SHOWN, 1.005),
                y: Axis::log("queries per processor second"),
                series: series(&rows),
            };
            let note = format!(
                "{} hashes, {} stored; level lines are exact methods",
                first.text("source"),
                short(first.number("stored"))
            );
            let path = config.figures().join(format!("dial-{workload}-h{radius}.svg"));
            figure::draw(&path, &format!("Speed against recall, {workload}"), &note, 1, &[panel])?;
        }
    }
    Ok(())
}

/// A curve for each method with a budget, a level line for the fastest setting of each exact one.
fn series(rows: &[&Row]) -> Vec<Series> {
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
            let mut points: Vec<(f64, f64)> = points.filter(|point| point.0 >= SHOWN).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let colour = match family {
                "PSM-P" => 2,
                "PSM-X" => 3,
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
            all.push(Series::new(named(best), look, vec![(SHOWN, rate(best)), (1.0, rate(best))]));
        }
    }
    all
}

/// Recall from which on curves are drawn.
const SHOWN: f64 = 0.6;

/// What is wanted of the dial: a distance, the methods to beat, the recall, how many times as fast, and the greatest share
/// of their bytes.
const TARGETS: [(f64, &str, f64, f64, Option<f64>); 11] = [
    (3.0, "BPHS 10", 0.95, 4.0, Some(1.0 / 6.0)),
    (3.0, "BPHS 10", 0.99, 2.5, Some(1.0 / 6.0)),
    (3.0, "BPHS", 0.95, 4.0, None),
    (3.0, "mih-rs", 1.0, 1.5, None),
    (3.0, "FAISS", 1.0, 1.5, None),
    (3.0, "PSM-X", 0.95, 8.0, None),
    (3.0, "PSM-P", 0.95, 2.0, None),
    (6.0, "", 0.95, 10.0, None),
    (6.0, "mih-rs", 0.95, 10.0, None),
    (10.0, "", 0.90, 20.0, None),
    (10.0, "mih-rs", 0.90, 20.0, None),
];

/// What memory allows: each look reads a line of the directory and the lines of a group of hashes, at places that no cache
/// foresees.
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

fn verdicts(rows: &[Row], _: &[Row]) -> Vec<Verdict> {
    let mut all = Vec::new();
    let workloads = distinct(rows, "corpus");
    let runs = workloads
        .iter()
        .flat_map(|workload| distinct(rows, "threads").into_iter().map(move |threads| (workload, threads)));
    for (workload, threads) in runs {
        for (radius, rival, recall, times, bytes) in TARGETS {
            let of = |row: &&Row| row.text("corpus") == workload && row.text("threads") == threads;
            let rows: Vec<&Row> =
                rows.iter().filter(of).filter(|row| row.number("radius") == radius).collect();
            let dial = |method: &str| method.starts_with("dial");
            let Some(ours) = fastest(&rows, recall, dial) else { continue };
            let exact = |row: &&Row| row.text("budget").is_empty();
            let theirs = if rival.is_empty() {
                let exact: Vec<&Row> = rows.iter().copied().filter(|row| exact(row)).collect();
                fastest(&exact, 1.0, |_| true)
            } else {
                fastest(&rows, recall, |method| method.starts_with(rival))
            };
            let Some(theirs) = theirs else { continue };
            let (ratio, share) = (rate(ours) / rate(theirs), ours.number("bytes") / theirs.number("bytes"));
            let name = if rival.is_empty() { "the best exact method" } else { theirs.text("method") };
            let wanted = bytes.map_or(String::new(), |share| format!(" with {share:.2} × the bytes at most"));
            all.push(Verdict {
                item: match threads.as_str() {
                    "1" => format!("{workload}, distance {radius}, recall {recall}: dial / {name}"),
                    n => {
                        format!("{workload}, distance {radius}, recall {recall}, on {n} cores: dial / {name}")
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
                agrees: Some(ratio >= times && bytes.is_none_or(|most| share <= most)),
                because: match threads.as_str() {
                    "1" => limit(ours),
                    _ => "queries per second of wall time, each core with its part of the queries".into(),
                },
            });
        }
    }
    all
}
