//! Predictions of `plan`, compared with indexes built as it says: probes, recall, candidates, bytes and speed.
//! Ours: the paper has no such figure.

use crate::check::Verdict;
use crate::config::{self, Size};
use crate::figure::{self, Axis, Look, Panel, Series, short};
use crate::results::{Clock, Row, Table, distinct};
use crate::throughput::{Workload, asked, for_each_workload};
use crate::{Experiment, Options};
use anyhow::{Context, Result};
use serde::Deserialize;
use simflip::Id;
use simflip::hash::fmix64;
use simflip::plan::{IndexKind, Machine, Model, PairMargins, Task, choose};
use simflip::search::dial::{Dial, DialParams};
use simflip::search::{Cost, HammingIndex, Hit, Mode, Query, Scratch};

pub const EXPERIMENT: Experiment = Experiment {
    name: "plan",
    about: "what `simflip plan` tells of an index, against the index: recall, candidates, bytes, speed",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanConfig {
    stored: Size,
    queries: Size,
    /// Stored hashes that the model sees.
    sampled: usize,
    /// Measurements of each; the fastest counts, because others only add to it.
    rounds: usize,
    tasks: Vec<Tasks>,
    within: Within,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tasks {
    distance: u32,
    recalls: Vec<f64>,
    /// Tables of the exact index that lists the near pairs.
    exact_tables: u32,
}

/// How far recall may be from what is reported, which part of candidates, and how many times as fast, or as slow.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Within {
    recall: f64,
    candidates: f64,
    speed: f64,
}

fn run(options: &Options) -> Result<()> {
    let config: PlanConfig = config::read(options, EXPERIMENT.name)?;
    let sizes = options.sizes(config.stored, config.queries);
    for_each_workload(options, EXPERIMENT.name, sizes, |workload, table| {
        run_on(options, &config, workload, table)
    })
}

/// Everything within the distance, and what it cost.
fn answer(index: &Dial, queries: &[Query<'_>]) -> (Vec<(u32, Hit)>, Cost) {
    let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
    let cost = index
        .answer(queries, Mode::All, false, &mut scratch, &mut |found| hits.push((found.query, found.hit)));
    (hits, cost)
}

fn near(hits: &[(u32, Hit)]) -> usize {
    hits.iter().filter(|(_, hit)| hit.distance > 0).count()
}

fn run_on(options: &Options, config: &PlanConfig, workload: &Workload, table: &mut Table) -> Result<()> {
    let hashes = workload.stored.hashes();
    let machine = Machine::measure(simflip::resources::thread_seconds);
    let queries = asked(&workload.queries);
    for &Tasks { distance: radius, ref recalls, exact_tables: tables } in &config.tasks {
        let exact = Dial::new(hashes, DialParams { radius, tables, ..DialParams::default() })?;
        let all = near(&answer(&exact, &queries).0);
        // The model is of queries other than those that are measured.
        let others = asked(&workload.calibration);
        let pairs = answer(&exact, &others).0.into_iter().filter(|(_, hit)| hit.distance > 0);
        let pairs = pairs.map(|(number, hit)| {
            let query = others[number as usize];
            let differing = query.hash ^ hashes[hit.slot.index()];
            PairMargins::new(differing, [query.weights; 2])
        });
        let mut sample: Vec<u64> = hashes.to_vec();
        sample.sort_unstable_by_key(|&hash| fmix64(hash ^ options.seed));
        sample.truncate(config.sampled);
        let model = Model::of_sample(pairs.collect(), sample);
        drop(exact);
        for &wanted in recalls {
            let task =
                Task::new(hashes.len() as u64, radius, wanted).with(|task| task.kind = Some(IndexKind::Dial));
            let choice = choose(&task, &model)?.context("an index for any number of hashes")?;
            let index = Dial::new(hashes, choice.params(radius))?;
            let (mut seconds, mut found) = (f64::MAX, Default::default());
            for _ in 0..config.rounds {
                let clock = Clock::start();
                found = answer(&index, &queries);
                seconds = seconds.min(clock.read().0);
            }
            let (hits, cost) = found;
            let each = |total: f64| total / queries.len() as f64;
            let recall = near(&hits) as f64 / all as f64;
            let (reported, measured) = (1e9 / machine.nanoseconds(&choice), queries.len() as f64 / seconds);
            table.row(&[
                ("source", &workload.source),
                ("stored", &hashes.len()),
                ("queries", &queries.len()),
                ("radius", &radius),
                ("recall_wanted", &wanted),
                ("pairs_of_the_model", &model.pairs()),
                ("tables", &choice.tables),
                ("key_bits", &choice.key_bits),
                ("flips", &choice.flips),
                ("probes", &choice.probes),
                ("all_probes", &choice.all_probes),
                ("recall_predicted", &format_args!("{:.5}", choice.recall)),
                ("recall", &format_args!("{recall:.5}")),
                ("candidates_predicted", &format_args!("{:.3}", choice.candidates)),
                ("candidates", &format_args!("{:.3}", each(cost.candidates as f64))),
                ("matches", &format_args!("{:.3}", each(hits.len() as f64))),
                ("bytes_predicted", &choice.bytes),
                ("bytes", &index.bytes()),
                ("queries_per_cpu_second_predicted", &format_args!("{reported:.0}")),
                ("queries_per_cpu_second", &format_args!("{measured:.0}")),
                ("threads", &1),
                ("cpu_seconds", &format_args!("{seconds:.5}")),
            ])?;
            options.progress.say(format!(
                "  h {radius:>2}, {wanted} wanted: {} × {} / {}, {} probes: recall {:.3} predicted, {recall:.3} found; {} queries/s predicted, {} measured",
                choice.tables,
                choice.key_bits,
                choice.flips,
                choice.probes,
                choice.recall,
                short(reported),
                short(measured),
            ));
        }
    }
    Ok(())
}

/// The measured and the predicted column of each quantity.
const THINGS: [(&str, &str); 4] = [
    ("recall", "recall_predicted"),
    ("candidates", "candidates_predicted"),
    ("bytes", "bytes_predicted"),
    ("queries_per_cpu_second", "queries_per_cpu_second_predicted"),
];

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let panels: Vec<Panel> = THINGS
        .iter()
        .filter(|(thing, _)| *thing != "bytes")
        .map(|&(thing, reported)| {
            let (title, x, y): (&str, Axis, Axis) = match thing {
                "recall" => (
                    "recall",
                    Axis::share("predicted recall").between(0.88, 1.005),
                    Axis::share("found").between(0.88, 1.005),
                ),
                "candidates" => ("candidates a query", Axis::log("predicted"), Axis::log("counted")),
                _ => ("queries per processor second", Axis::log("predicted"), Axis::log("measured")),
            };
            let of = |row: &Row| (row.number(reported), row.number(thing));
            let mut series: Vec<Series> = (0..)
                .zip(distinct(rows, "corpus"))
                .map(|(colour, corpus)| {
                    let points = rows.iter().filter(|row| row.text("corpus") == corpus).map(of).collect();
                    Series::new(corpus, Look::Hollow { colour }, points)
                })
                .collect();
            let ends = rows.iter().flat_map(|row| [of(row).0, of(row).1]);
            let (least, most) = ends.fold((f64::MAX, 0f64), |(l, m), x| (l.min(x), m.max(x)));
            series.push(Series::new("as predicted", Look::Reference, vec![(least, least), (most, most)]));
            Panel { title: title.into(), x, y, series }
        })
        .collect();
    let path = options.figures().join("plan.svg");
    figure::draw(&path, "What plan tells, and what is", "one point for each index that it chose", 3, &panels)
}

fn verdicts(options: &Options, rows: &[Row], _: &[Row]) -> Result<Vec<Verdict>> {
    let within = config::read::<PlanConfig>(options, EXPERIMENT.name)?.within;
    let mut all = Vec::new();
    for corpus in distinct(rows, "corpus") {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.text("corpus") == corpus).collect();
        for (thing, reported) in THINGS {
            let off = |row: &&Row| (row.number(reported), row.number(thing));
            let (item, wanted, farthest, good) = match thing {
                "recall" => {
                    let far = rows.iter().map(off).map(|(reported, is)| is - reported);
                    let far = far.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(f64::NAN);
                    (
                        "recall",
                        format!("within {}", within.recall),
                        format!("{far:+.4}"),
                        far.abs() <= within.recall,
                    )
                }
                _ => {
                    let far = rows.iter().map(off).map(|(reported, is)| is / reported);
                    let by = |x: &f64| x.ln().abs();
                    let far = far.max_by(|a, b| by(a).total_cmp(&by(b))).unwrap_or(f64::NAN);
                    let (item, most) = match thing {
                        "candidates" => ("candidates", 1.0 + within.candidates),
                        "bytes" => ("bytes", 1.0),
                        _ => ("speed", within.speed),
                    };
                    (item, format!("within a factor of {most}"), format!("× {far:.3}"), by(&far) <= most.ln())
                }
            };
            all.push(Verdict {
                item: format!("{corpus}: {item} of {} indexes", rows.len()),
                paper: format!("wanted, not published: {wanted}"),
                ours: format!("{farthest} at the farthest"),
                finding: good.into(),
                because: match thing {
                    "queries_per_cpu_second" => "writing matches down is not predicted".into(),
                    "recall" => "counted on queries other than those measured".into(),
                    "candidates" => "hashes that share a key are counted on a sample".into(),
                    _ => "counted by the layout".into(),
                },
            });
        }
    }
    Ok(all)
}
