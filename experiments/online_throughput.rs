//! Queries per second against memory, every match and the first one (Table 2).

use crate::check::{Finding, Verdict};
use crate::config::{self, Size};
use crate::figure::{self, Axis, Look, Panel, Series, short};
use crate::results::{Row, described, distinct, expected};
use crate::throughput::{Bench, Method, for_each_workload};
use crate::{Experiment, Options};
use anyhow::Result;
use serde::Deserialize;

pub const EXPERIMENT: Experiment = Experiment {
    name: "online-throughput",
    about: "queries per second and memory at 95 % recall, BPHS, PSM and rivals (Table 2)",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThroughputConfig {
    stored: Size,
    queries: Size,
    methods: Vec<Method>,
    /// Tables of BPHS that PSM is held against.
    compared_tables: Vec<f64>,
    /// Of the logarithm of a ratio.
    agree_within: f64,
}

fn run(options: &Options) -> Result<()> {
    let config: ThroughputConfig = config::read(options, EXPERIMENT.name)?;
    let sizes = options.sizes(config.stored, config.queries);
    for_each_workload(options, EXPERIMENT.name, sizes, |workload, table| {
        let points = options.progress.points(2 * config.methods.len());
        Bench::new(workload, workload.searches.distance, table, &points)?.at_recall(&config.methods)
    })
}

/// What a method is called in the legend: all settings of a method share a look.
fn family(method: &str) -> &str {
    match method {
        m if m.starts_with("BPHS") => "BPHS (exact)",
        m if m.starts_with("PSM-64") => "PSM, flips over 64 bits",
        m if m.starts_with("PSM-key") => "PSM, flips in the key",
        "dial 2/1" => "dial",
        "dial 2/1, exact" => "dial (exact)",
        m if m.starts_with("mih") => "mih-rs (exact)",
        _ => "gaoya (exact)",
    }
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let expected = expected(EXPERIMENT.name)?;
    for (workload, rows) in workloads(rows) {
        let panel = |mode: &str, title: &str| {
            let rows: Vec<&&Row> = rows.iter().filter(|row| row.text("mode") == mode).collect();
            let mut series: Vec<Series> = Vec::new();
            for row in &rows {
                let name = family(row.text("method"));
                let point = (row.number("tables"), row.number("queries_per_cpu_second"));
                match series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.points.push(point),
                    None => {
                        let families = ["BPHS", "PSM, flips o", "PSM, flips in", "dial", "gaoya", "mih"];
                        let colour = families.iter().position(|f| name.starts_with(f)).unwrap_or(6);
                        let dashed = name == "dial (exact)";
                        let colour = if dashed { 6 } else { colour };
                        series.push(Series::new(name, Look::Marked { colour, dashed }, vec![point]));
                    }
                }
            }
            for series in &mut series {
                series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            }
            let published = expected.iter().filter(|row| row.text("mode") == mode);
            let points = published.map(|row| (row.number("tables"), row.number("queries_per_second")));
            series.push(Series::new(
                "published (2011 machine, 60M stored)",
                Look::Published,
                points.collect(),
            ));
            Panel {
                title: title.into(),
                x: Axis::log("memory, in tables of 8 bytes per hash"),
                y: Axis::log("queries per processor second"),
                series,
            }
        };
        let first = rows[0];
        let note = format!(
            "{}, {} stored distinct hashes, distance up to 3; probabilistic methods at 95 % recall",
            first.text("source"),
            short(first.number("stored"))
        );
        let panels = [panel("all", "(A) every match"), panel("first", "(F) the first match")];
        let path = options.figures().join(format!("online-throughput-{workload}.svg"));
        figure::draw(&path, &format!("Speed against memory, {}", described(&workload)), &note, 2, &panels)?;
    }
    Ok(())
}

/// Rows by file of results.
fn workloads(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
    distinct(rows, "corpus")
        .into_iter()
        .map(|name| {
            let of: Vec<&Row> = rows.iter().filter(|row| row.text("corpus") == name).collect();
            (name, of)
        })
        .collect()
}

/// The fastest of the rows whose methods start so.
fn best<'a>(rows: &[&'a Row], mode: &str, start: &str) -> Option<&'a Row> {
    let rows = rows.iter().filter(|row| row.text("mode") == mode && row.text("method").starts_with(start));
    rows.copied()
        .max_by(|a, b| a.number("queries_per_cpu_second").total_cmp(&b.number("queries_per_cpu_second")))
}

fn verdicts(options: &Options, rows: &[Row], expected: &[Row]) -> Result<Vec<Verdict>> {
    let config: ThroughputConfig = config::read(options, EXPERIMENT.name)?;
    let mut all = Vec::new();
    let published = |method: &str, mode: &str, tables: Option<f64>| {
        let rows = expected.iter().filter(|row| row.text("method") == method && row.text("mode") == mode);
        let rows = rows.filter(|row| tables.is_none_or(|tables| row.number("tables") == tables));
        rows.map(|row| row.number("queries_per_second")).fold(f64::NAN, f64::max)
    };
    for (workload, rows) in workloads(rows) {
        for mode in ["all", "first"] {
            for (reading, start) in [("PSM-64", "PSM-64"), ("PSM-key", "PSM-key"), ("dial (ours)", "dial 2")]
            {
                for &tables in &config.compared_tables {
                    let Some(psm) = best(&rows, mode, start) else { continue };
                    let Some(bphs) = best(&rows, mode, &format!("BPHS {tables}")) else { continue };
                    let rate = |row: &Row| row.number("queries_per_cpu_second");
                    let ratio = rate(psm) / rate(bphs);
                    let paper = published("psm", mode, None) / published("bphs", mode, Some(tables));
                    all.push(Verdict {
                        item: format!("{workload}, {mode}: {reading} / BPHS {tables}"),
                        paper: format!("{paper:.1} × the queries per second, at most a half to a tenth of the memory"),
                        ours: format!(
                            "{ratio:.2} × ({} against {} per processor second), {:.2} × the bytes, recall {:.3}",
                            short(rate(psm)),
                            short(rate(bphs)),
                            psm.number("bytes") / bphs.number("bytes"),
                            psm.number("recall")
                        ),
                        finding: ((ratio / paper).ln().abs() < config.agree_within).into(),
                        because: format!(
                            "our BPHS answers {:.1} × as many queries as the paper's, our {reading} {:.2} × as many, with {:.0} probes a query against {tables} tables; \
                             machines, sizes and baselines differ, and their parts were not told apart",
                            rate(bphs) / published("bphs", mode, Some(tables)),
                            rate(psm) / published("psm", mode, None),
                            psm.number("probes") / psm.number("queries"),
                        ),
                    });
                }
            }
        }
        let rivals: Vec<&Row> =
            ["mih", "gaoya"].iter().filter_map(|start| best(&rows, "all", start)).collect();
        for start in ["PSM-key", "dial 2"] {
            for rival in &rivals {
                let Some(ours) = best(&rows, "all", start) else { continue };
                let ratio = ours.number("queries_per_cpu_second") / rival.number("queries_per_cpu_second");
                all.push(Verdict {
                    item: format!("{workload}, all: {start} / {}", rival.text("method")),
                    paper: "not compared".into(),
                    ours: format!(
                        "{ratio:.1} × the queries per processor second, {:.2} × the bytes, recall {:.3} against {:.3}",
                        ours.number("bytes") / rival.number("bytes"),
                        ours.number("recall"),
                        rival.number("recall")
                    ),
                    finding: Finding::New,
                    because: "same radius asked, both answer every match".into(),
                });
            }
        }
    }
    Ok(all)
}
