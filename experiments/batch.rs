//! Many queries at once: speed against the number of queries, and against the number of stored hashes.
//!
//! Both batch methods index the queries and let the stored hashes pass, from memory or from a file
//! ([`simflip::search::batch`]). Making the index is part of the time. Both answer every match, and one match of each
//! query.

use crate::check::{Finding, Verdict};
use crate::config::{self, Size};
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series, short};
use crate::progress::Points;
use crate::results::{Clock, Row, Table, described, distinct};
use crate::throughput::{Searches, Workload, asked, mode_name, usual_budgets};
use crate::{Experiment, Options};
use anyhow::Result;
use serde::Deserialize;
use simflip::hash::fmix64;
use simflip::search::batch::{Batch, PsmBatchParams};
use simflip::search::bphs::BphsParams;
use simflip::search::{Cost, Mode, Query};
use simflip::text::FeatureKind;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

pub const EXPERIMENT: Experiment = Experiment {
    name: "batch",
    about: "PSM batch against BPHS batch: speed against m and against n, from memory and from a file",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchConfig {
    stored: Size,
    queries: Size,
    /// Sizes of each of the two curves.
    steps: u32,
    /// Measurements of each point.
    rounds: usize,
    /// Hashes that pass at a time.
    block: usize,
    /// Of the logarithm of a ratio.
    agree_within: f64,
    methods: Vec<BatchMethod>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchMethod {
    name: String,
    /// Of BPHS; none is PSM.
    tables: Option<u32>,
}

/// Where the stored hashes pass from.
#[derive(Clone, Copy)]
enum Medium<'a> {
    Memory,
    /// A file that was just written: it comes from the system's cache.
    File(&'a File),
    /// The same file after its pages were dropped from the cache: it comes from the disk.
    Disk(&'a File),
}

impl Medium<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File(_) => "file",
            Self::Disk(_) => "disk",
        }
    }
}

/// Bytes that this process has had read from disks so far, as the kernel counts them; not a
/// number where it does not.
fn read_from_disk() -> f64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let bytes = counters.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    bytes.unwrap_or(f64::NAN)
}

/// Calls `each` with the stored hashes block by block.
fn blocks(
    hashes: &[u64],
    block: usize,
    medium: Medium<'_>,
    each: &mut dyn FnMut(&[u64]) -> Result<()>,
) -> Result<()> {
    let mut file = match medium {
        Medium::Memory => return hashes.chunks(block).try_for_each(each),
        Medium::File(file) => file,
        Medium::Disk(file) => {
            #[cfg(target_os = "linux")]
            rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
            file
        }
    };
    file.seek(SeekFrom::Start(0))?;
    let mut read = vec![0u64; block];
    let mut left = hashes.len();
    while left > 0 {
        let n = block.min(left);
        file.read_exact(bytemuck::cast_slice_mut(&mut read[..n]))?;
        each(&read[..n])?;
        left -= n;
    }
    Ok(())
}

/// Found matches, cost, and bytes of the index. Found are the pairs at distance 1 to h, or, for one match of each
/// query, the queries that were answered and are not stored themselves.
type BatchAnswer = (u64, Cost, usize);

/// Marks the queries whose own hash is stored: any search finds that match at once, so they tell nothing.
fn stored_themselves(queries: &[Query<'_>], hashes: &[u64]) -> Vec<bool> {
    queries.iter().map(|query| hashes.binary_search(&query.hash).is_ok()).collect()
}

/// Lets the stored hashes pass a batch.
fn answer(
    batch: &Batch,
    mode: Mode,
    themselves: &[bool],
    hashes: &[u64],
    block: usize,
    medium: Medium<'_>,
) -> Result<BatchAnswer> {
    let (mut pass, mut hits, mut near) = (batch.pass(mode), Vec::new(), 0);
    blocks(hashes, block, medium, &mut |stored| {
        hits.clear();
        pass.block(stored, &mut hits)?;
        near += match mode {
            Mode::All => hits.iter().filter(|(_, hit)| hit.distance > 0).count(),
            Mode::First => hits.iter().filter(|(query, _)| !themselves[*query as usize]).count(),
        };
        Ok(())
    })?;
    // Which queries have their match takes a byte each.
    let answered = if mode == Mode::First { batch.queries() } else { 0 };
    Ok((near as u64, pass.cost(), batch.bytes() + answered))
}

fn run(options: &Options) -> Result<()> {
    let config: BatchConfig = config::read(options, EXPERIMENT.name)?;
    let searches = Searches::read(options)?;
    let (stored, queries) = options.sizes(config.stored, config.queries);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    for path in options.corpora() {
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Words)?;
        let workload = Workload::generated(options, &searches, &corpus, stored, queries)?;
        let mut table = Table::create(options, EXPERIMENT.name, &workload.name(), &corpus.digest)?;
        // Every match from three media, the first from two.
        let points = options.progress.points(2 * config.steps as usize * 5 * config.methods.len());
        let halve =
            |most: usize| (0..config.steps).rev().map(move |quarterings| (most >> (2 * quarterings)).max(1));
        for m in halve(queries) {
            one.install(|| point(&config, &workload, "m", (stored, m), &mut table, &points))?;
        }
        for n in halve(stored) {
            one.install(|| point(&config, &workload, "n", (n, queries / 4), &mut table, &points))?;
        }
    }
    Ok(())
}

/// All methods with m queries and about n stored hashes, a random sample of the workload's.
fn point(
    config: &BatchConfig,
    workload: &Workload,
    varied: &str,
    (n, m): (usize, usize),
    table: &mut Table,
    points: &Points,
) -> Result<()> {
    let share = n as f64 / workload.documents as f64;
    let all = workload.stored.hashes().iter().copied();
    let hashes: Vec<u64> = all.filter(|&hash| fmix64(hash) as f64 <= share * u64::MAX as f64).collect();
    let queries = &asked(&workload.queries)[..m.min(workload.queries.len())];
    let [every, first] = usual_budgets(workload, &hashes)?;
    let radius = workload.searches.distance;
    let themselves = stored_themselves(queries, &hashes);
    let mut file = tempfile::tempfile()?;
    file.write_all(bytemuck::cast_slice(&hashes))?;
    // Only what the disk has can be dropped from the cache.
    file.sync_all()?;
    for (mode, budget, medium) in [
        (Mode::All, every, Medium::Memory),
        (Mode::All, every, Medium::File(&file)),
        (Mode::All, every, Medium::Disk(&file)),
        (Mode::First, first, Medium::Memory),
        (Mode::First, first, Medium::Disk(&file)),
    ] {
        let params = PsmBatchParams { budget: Some(budget), ..PsmBatchParams::new(radius, hashes.len()) };
        let mut truth = 0;
        for BatchMethod { name: method, tables } in &config.methods {
            let mut best = (f64::MAX, f64::MAX, f64::NAN, (0, Cost::default(), 0));
            for _ in 0..config.rounds {
                let (clock, before) = (Clock::start(), read_from_disk());
                let batch = match *tables {
                    None => Batch::psm(queries, params)?,
                    Some(tables) => Batch::bphs(queries, BphsParams { radius, tables })?,
                };
                let answer = answer(&batch, mode, &themselves, &hashes, config.block, medium)?;
                drop(batch);
                let (cpu, wall) = clock.read();
                if cpu < best.0 {
                    best = (cpu, wall, read_from_disk() - before, answer);
                }
            }
            let (cpu, wall, disk, (near, cost, bytes)) = best;
            // The exact methods come first.
            truth = truth.max(near);
            let recall = near as f64 / truth.max(1) as f64;
            let probabilistic = |value: u32| if tables.is_none() { value.to_string() } else { String::new() };
            table.row(&[
                ("varied", &varied),
                ("stored", &hashes.len()),
                ("queries", &queries.len()),
                ("radius", &radius),
                ("mode", &mode_name(mode)),
                ("medium", &medium.name()),
                ("bytes_from_disk", &disk),
                ("method", &method),
                ("key_bits", &probabilistic(params.key_bits)),
                ("budget", &probabilistic(budget)),
                ("recall", &format_args!("{recall:.5}")),
                ("to_find", &truth),
                ("probes", &cost.probes),
                ("candidates", &cost.candidates),
                ("verified", &cost.verified),
                ("cpu_seconds", &format_args!("{cpu:.5}")),
                ("wall_seconds", &format_args!("{wall:.5}")),
                ("queries_per_cpu_second", &format_args!("{:.0}", queries.len() as f64 / cpu)),
                ("queries_per_second", &format_args!("{:.0}", queries.len() as f64 / wall)),
                ("bytes", &bytes),
            ])?;
            points.done(format!(
                "  n {:>9} m {:>8} {:5} {:6} {method:22} recall {recall:.4} {:>9.0} queries/s, {:>4.0} MB from disk",
                hashes.len(),
                queries.len(),
                mode_name(mode),
                medium.name(),
                queries.len() as f64 / wall,
                disk / 1e6,
            ));
        }
    }
    Ok(())
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    for corpus in distinct(rows, "corpus") {
        let panel = |varied: &str, mode: &str, x: &str, label: &'static str, title: &str| {
            let mut series = Vec::new();
            for (colour, method) in distinct(rows, "method").iter().enumerate() {
                for (medium, dashed) in [("memory", false), ("disk", true)] {
                    let points = rows
                        .iter()
                        .filter(|r| r.text("corpus") == corpus && r.text("varied") == varied)
                        .filter(|r| mode_of(r) == mode)
                        .filter(|r| r.text("method") == method && r.text("medium") == medium)
                        .map(|r| (r.number(x), r.number("queries_per_cpu_second")));
                    let look = Look::Marked { colour, dashed };
                    series.push(Series::new(format!("{method}, {medium}"), look, points.collect()));
                }
            }
            Panel {
                title: title.into(),
                x: Axis::log(label),
                y: Axis::log("queries per processor second"),
                series,
            }
        };
        let mut panels = vec![
            panel("m", "all", "queries", "queries m", "(a) speed against m, every match"),
            panel("n", "all", "stored", "stored distinct hashes n", "(b) speed against n, every match"),
        ];
        if rows.iter().any(|row| row.text("corpus") == corpus && mode_of(row) == "first") {
            panels.push(panel("m", "first", "queries", "queries m", "speed against m, one match of each"));
            let label = "stored distinct hashes n";
            panels.push(panel("n", "first", "stored", label, "speed against n, one match of each"));
        }
        let note = "generated hashes, distance up to 3, one thread, index of the queries included; PSM at 95 % recall";
        let path = options.figures().join(format!("batch-{corpus}.svg"));
        figure::draw(&path, &format!("Batches, {}", described(&corpus)), note, 2, &panels)?;
    }
    Ok(())
}

/// Rows from before one match was measured have no mode: they are of every match.
fn mode_of(row: &Row) -> &str {
    match row.text("mode") {
        "" => "all",
        mode => mode,
    }
}

const PSM: &str = "PSM batch";
/// BPHS batch, the faster of the two first.
const BASELINES: [&str; 2] = ["BPHS batch, 4 tables", "BPHS batch, 10 tables"];

fn verdicts(options: &Options, rows: &[Row], expected: &[Row]) -> Result<Vec<Verdict>> {
    let config: BatchConfig = config::read(options, EXPERIMENT.name)?;
    let mut all = Vec::new();
    for corpus in distinct(rows, "corpus") {
        for (mode, medium) in
            [("all", "memory"), ("all", "file"), ("all", "disk"), ("first", "memory"), ("first", "disk")]
        {
            let own: Vec<&Row> = rows
                .iter()
                .filter(|r| r.text("corpus") == corpus && r.text("medium") == medium && mode_of(r) == mode)
                .collect();
            for baseline in BASELINES {
                // PSM and the baseline at the same n and m.
                let mut pairs: Vec<(&Row, &Row)> = own
                    .iter()
                    .filter(|row| row.text("method") == PSM)
                    .filter_map(|psm| {
                        let other = own.iter().find(|row| {
                            row.text("method") == baseline
                                && ["varied", "stored", "queries"].iter().all(|f| row.text(f) == psm.text(f))
                        })?;
                        Some((*psm, *other))
                    })
                    .collect();
                pairs.sort_by(|(a, _), (b, _)| {
                    let key = |row: &Row| row.number("stored") / row.number("queries");
                    key(b).total_cmp(&key(a))
                });
                let ratio = |(psm, other): &(&Row, &Row)| {
                    // Of processor time: other work on the machine stretches the time on the wall.
                    psm.number("queries_per_cpu_second") / other.number("queries_per_cpu_second")
                };
                let largest = |of: &&(&Row, &Row)| of.0.number("stored") * of.0.number("queries");
                let Some(most) = pairs.iter().max_by(|a, b| largest(a).total_cmp(&largest(b))) else {
                    continue;
                };
                let published =
                    expected.iter().find(|row| row.text("medium") == medium && row.text("mode") == mode);
                let curve: Vec<String> = pairs
                    .iter()
                    .map(|pair| {
                        let share = pair.0.number("stored") / pair.0.number("queries");
                        format!("{:.2} × at n/m = {}", ratio(pair), short(share))
                    })
                    .collect();
                let lost = pairs.iter().filter(|pair| ratio(pair) < 1.0).count();
                all.push(Verdict {
                    item: format!(
                        "{corpus}, {medium}, {mode}: PSM batch / {baseline}, n = {}, m = {}",
                        short(most.0.number("stored")),
                        short(most.0.number("queries"))
                    ),
                    paper: match published {
                        Some(row) => format!("{} ×, m, n and tables not said", row.text("ratio")),
                        None => "curves without numbers in the slides".into(),
                    },
                    ours: format!(
                        "{:.2} ×, {:.2} × the bytes, recall {:.3}; {}",
                        ratio(most),
                        most.0.number("bytes") / most.1.number("bytes"),
                        most.0.number("recall"),
                        curve.join(", ")
                    ),
                    finding: match published {
                        Some(row) => {
                            ((ratio(most) / row.number("ratio")).ln().abs() < config.agree_within).into()
                        }
                        None => Finding::New,
                    },
                    because: format!(
                        "PSM batch loses at {lost} of {} points: where few hashes are stored for each query, making and \
                         sorting its {} probes a query costs more than looking every stored hash up. The probes are \
                         also its bytes, 8 for each; {baseline} keeps the queries alone. {} bytes came from the disk",
                        pairs.len(),
                        most.0.text("budget"),
                        short(most.0.number("bytes_from_disk"))
                    ),
                });
            }
        }
    }
    Ok(all)
}
