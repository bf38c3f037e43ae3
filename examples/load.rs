//! How fast does `simflip serve` answer, and what does a page cost in memory and on disk?
//!
//! `cargo build --release --features serve --bin simflip --example load`, then `target/release/examples/load --pages
//! 1000000 --index FOLDER --out RESULTS` makes an index of so many pages, or makes one that is there longer. It starts
//! the service on it, and asks over HTTP on the loopback interface; several sizes one after the other. Rows go to
//! `RESULTS/size.csv` and `RESULTS/requests.csv`, behind those that are there; without `--out`, to standard output.
//!
//! Of the pages, of 160 words each, two thirds stand alone, three in ten are a version of an earlier one that differs
//! in up to four words, one in fifty is of one of four templates. One question in four is an earlier page again.
//! Clients ask, wait for the answer and ask again without a pause, so a time is that of a busy service. The machine may
//! have other work: processor time of the service is reported beside the seconds, and how many cores others had
//! meanwhile.

mod crawl;

use bytes::Bytes;
use clap::Parser;
use crawl::{Client, Pages, Server, cpu_of, memory_of, ready};
use rayon::prelude::*;
use simflip::hash::fmix64;
use simflip::resources::{cpu_seconds, thread_seconds};
use simflip::seen::{Access, Request, Seen, SeenParams};
use simflip::settings::{Generator, Recall, Settings, USUAL_DISTANCE};
use simflip::terminal::print;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

#[derive(Parser)]
struct Options {
    /// Stored pages, ascending
    #[arg(long, value_delimiter = ',', default_value = "2000")]
    pages: Vec<u64>,
    /// Folder of the index; a temporary one if none is given
    #[arg(long)]
    index: Option<PathBuf>,
    /// Folder of the rows
    #[arg(long)]
    out: Option<PathBuf>,
    /// Keep a SimHash of each page and search with the dial at this recall, instead of both sketches
    #[arg(long)]
    recall: Option<f64>,
    /// Questions of a series in batches of 100; a tenth of them one by one, a fifth as texts
    #[arg(long, default_value_t = 4_000)]
    questions: u64,
    /// Clients that ask at the same time
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Wait until what is remembered is on the disk
    #[arg(long)]
    fsync: bool,
}

/// What is asked, how, and who else is there.
#[derive(Clone, Copy)]
struct Series {
    action: &'static str,
    texts: bool,
    batch: usize,
    /// Whether others store pages meanwhile.
    adding: bool,
}

const SERIES: [Series; 8] = [
    Series { action: "check-and-add", texts: false, batch: 100, adding: false },
    Series { action: "check-and-add", texts: false, batch: 1, adding: false },
    Series { action: "check", texts: false, batch: 100, adding: false },
    Series { action: "check", texts: false, batch: 1, adding: false },
    Series { action: "check", texts: false, batch: 100, adding: true },
    Series { action: "check", texts: false, batch: 1, adding: true },
    Series { action: "check-and-add", texts: true, batch: 100, adding: false },
    Series { action: "check-and-add", texts: true, batch: 1, adding: false },
];

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let temporary = tempfile::tempdir()?;
    let folder = options.index.clone().unwrap_or_else(|| temporary.path().join("index"));
    let settings = match options.recall {
        None => Settings::default(),
        Some(recall) => Settings::simhash().with(|settings| {
            let recall = if recall < 1.0 { Recall::AtLeast(recall) } else { Recall::Exact };
            settings.generator = Generator::Dial { distance: USUAL_DISTANCE, recall, key_bits: None };
        }),
    };
    let pages = Arc::new(Pages::new(&settings));
    let program = std::env::current_exe()?;
    let program = program.ancestors().nth(2).ok_or("no folder of programs")?.join("simflip");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let more = if options.fsync { vec!["--fsync".to_owned()] } else { Vec::new() };
    // New pages for each series, which no earlier run on the index has asked about.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let mut next = (1 << 62) + (since.as_secs() << 24);
    for &size in &options.pages {
        let filled = fill(&pages, &settings, &folder, size)?;
        let server = Server::start(&program, &folder, &more)?;
        let figures = runtime.block_on(figures(&server.address)).map_err(|error| error.to_string())?;
        write_row(&options, "size", SIZE, &size_row(&folder, &server, &filled, &figures))?;
        for series in SERIES {
            let count = match (series.texts, series.batch) {
                (true, 1) => options.questions / 20,
                (true, _) => options.questions / 5,
                (false, 1) => options.questions / 10,
                (false, _) => options.questions,
            };
            let bodies = bodies(&pages, series, size, next, count);
            let added = if series.adding { adding(&pages, size, next) } else { Vec::new() };
            next += 1 << 20;
            let measured = measure(&server, series, options.clients, bodies, added);
            let row = runtime.block_on(measured).map_err(|error| error.to_string())?;
            write_row(&options, "requests", REQUESTS, &format!("{size},{row}"))?;
        }
        server.end(false)?;
    }
    Ok(())
}

/// An index of a size, and what it took to make it.
struct Filled {
    pages: usize,
    /// Processor microseconds of storing a page, in batches of 1,000 with their log.
    add: f64,
    /// Seconds of a snapshot, and processor seconds.
    snapshot: (f64, f64),
    snapshot_bytes: u64,
}

fn fill(pages: &Pages, settings: &Settings, folder: &Path, size: u64) -> Result<Filled, Box<dyn Error>> {
    let params = SeenParams { settings: settings.clone(), frequencies: None };
    let mut seen = Seen::open(folder, Access::Write { fsync: false }, Some(&params))?;
    let (mut at, mut added, mut seconds) = (seen.len() as u64, 0, 0.0);
    while (seen.len() as u64) < size {
        let numbers = at..at + (size - seen.len() as u64).min(20_000);
        at = numbers.end;
        let sketches: Vec<_> = numbers
            .into_par_iter()
            .map_init(
                || pages.sketcher(),
                |sketcher, page| (page, sketcher.sketch(&pages.text(page, 0..page))),
            )
            .collect();
        let before = thread_seconds();
        for batch in sketches.chunks(1_000) {
            for (page, sketch) in batch {
                let (name, seen_at) = (Pages::name(*page), 1_700_000_000_000 + page);
                let request = Request { name: &name, seen: seen_at, ..Request::default() };
                seen.add(&request, sketch)?;
            }
            seen.acknowledge()?;
        }
        added += sketches.len();
        seconds += thread_seconds() - before;
    }
    let (begun, cpu) = (Instant::now(), cpu_seconds().unwrap_or(f64::NAN));
    seen.snapshot()?;
    let snapshot = (begun.elapsed().as_secs_f64(), cpu_seconds().unwrap_or(f64::NAN) - cpu);
    let (snapshot_bytes, _) = seen.stored_bytes();
    let filled = Filled {
        pages: seen.len(),
        add: seconds * 1e6 / f64::max(1.0, added as f64),
        snapshot,
        snapshot_bytes,
    };
    seen.close()?;
    Ok(filled)
}

/// The bodies of the requests of a series, made before it begins.
fn bodies(pages: &Pages, series: Series, size: u64, first: u64, count: u64) -> Vec<Bytes> {
    let lines: Vec<String> = (first..first + count)
        .into_par_iter()
        .map_init(
            || pages.sketcher(),
            |sketcher, page| {
                let again = fmix64(page ^ 5).is_multiple_of(4);
                let (page, others) = match again {
                    true => (fmix64(page ^ 6) % size, 0..fmix64(page ^ 6) % size),
                    false => (page, 0..size),
                };
                let (text, name) = (pages.text(page, others), Pages::name(page));
                match series.texts {
                    true => format!("{{\"url\":\"{name}\",\"text\":\"{text}\"}}"),
                    false => ready(&name, &sketcher.sketch(&text)),
                }
            },
        )
        .collect();
    lines.chunks(series.batch).map(|batch| Bytes::from(batch.join("\n"))).collect()
}

/// Requests of those who store pages meanwhile.
fn adding(pages: &Pages, size: u64, first: u64) -> Vec<Bytes> {
    let series = Series { action: "add", texts: false, batch: 100, adding: false };
    bodies(pages, series, size, first + (1 << 19), 40_000)
}

/// Times of the requests of a series, in seconds.
async fn ask(
    address: String,
    series: Series,
    bodies: Arc<Vec<Bytes>>,
    next: Arc<AtomicUsize>,
) -> Result<(Vec<f64>, [u64; 3]), Box<dyn Error + Send + Sync>> {
    let path = format!("/v1/{}", series.action);
    let mut client = Client::connect(&address).await?;
    let (mut times, mut counts) = (Vec::new(), [0; 3]);
    while let Some(body) = bodies.get(next.fetch_add(1, Relaxed)) {
        let begun = Instant::now();
        let (status, answers) = client.post(&path, series.batch > 1, body.clone()).await?;
        times.push(begun.elapsed().as_secs_f64());
        let text = std::str::from_utf8(&answers)?;
        if !status.is_success() || text.contains("\"answer\":\"error\"") {
            return Err(format!("{status}: {text}").into());
        }
        counts[0] += text.lines().count() as u64;
        for (count, answer) in counts[1..].iter_mut().zip(["\"answer\":\"same\"", "\"answer\":\"near\""]) {
            *count += text.matches(answer).count() as u64;
        }
    }
    Ok((times, counts))
}

const REQUESTS: &str = "pages,method,fsync,asked,form,batch,clients,adding,questions,same,near,seconds,\
    questions_per_second,service_cpu_microseconds,client_cpu_microseconds,others_cores,added,p50_ms,p99_ms,p999_ms,\
    longest_ms";

/// One series, reported as a row.
async fn measure(
    server: &Server,
    series: Series,
    clients: usize,
    bodies: Vec<Bytes>,
    added: Vec<Bytes>,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let (bodies, next) = (Arc::new(bodies), Arc::new(AtomicUsize::new(0)));
    let ended = Arc::new(AtomicBool::new(false));
    let adder = (!added.is_empty()).then(|| {
        let (address, ended) = (server.address.clone(), Arc::clone(&ended));
        tokio::spawn(async move {
            let (mut client, mut stored) = (Client::connect(&address).await?, 0);
            for body in added {
                if ended.load(Relaxed) {
                    break;
                }
                let (_, answers) = client.post("/v1/add", true, body).await?;
                stored += answers.iter().filter(|&&byte| byte == b'\n').count();
            }
            Ok::<usize, Box<dyn Error + Send + Sync>>(stored)
        })
    });
    let own = || cpu_seconds().unwrap_or(f64::NAN);
    let (begun, busy, cpu, client) = (Instant::now(), busy_seconds(), cpu_of(server.id()), own());
    let asking: Vec<_> = (0..clients)
        .map(|_| tokio::spawn(ask(server.address.clone(), series, Arc::clone(&bodies), Arc::clone(&next))))
        .collect();
    let (mut times, mut counts) = (Vec::new(), [0; 3]);
    for asking in asking {
        let (more, counted) = asking.await??;
        times.extend(more);
        counts.iter_mut().zip(counted).for_each(|(count, more)| *count += more);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let (cpu, client, busy) = (cpu_of(server.id()) - cpu, own() - client, busy_seconds() - busy);
    ended.store(true, Relaxed);
    let stored = match adder {
        Some(adder) => adder.await??,
        None => 0,
    };
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)] * 1e3;
    let [questions, same, near] = counts;
    let each = |cpu: f64| cpu * 1e6 / questions as f64;
    let form = if series.texts { "texts" } else { "sketches" };
    let Series { action, batch, adding, .. } = series;
    Ok(format!(
        "{action},{form},{batch},{clients},{adding},{questions},{same},{near},{seconds:.3},{:.0},{:.2},{:.2},{:.2},{stored},{:.3},{:.3},{:.3},{:.3}",
        questions as f64 / seconds,
        each(cpu),
        each(client),
        ((busy - cpu - client) / seconds).max(0.0),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
    ))
}

/// Seconds that the cores of the machine were busy.
fn busy_seconds() -> f64 {
    let reported = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = reported
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .map(|field| field.parse().unwrap_or(0.0));
    // Idle, and idle while the disk works, are the fourth and fifth.
    ticks
        .take(8)
        .enumerate()
        .filter(|(at, _)| !matches!(at, 3 | 4))
        .map(|(_, ticks): (_, f64)| ticks)
        .sum::<f64>()
        / 100.0
}

/// The figures of the service: bytes of sketches, of the index beside them, and of names.
async fn figures(address: &str) -> Result<[f64; 3], Box<dyn Error + Send + Sync>> {
    let (_, body) = Client::connect(address).await?.get("/metrics").await?;
    let reported = std::str::from_utf8(&body)?;
    let figure = |part: &str| {
        let name = format!("simflip_memory_bytes{{part=\"{part}\"}} ");
        reported.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(f64::NAN)
    };
    Ok(["sketches", "index", "names"].map(figure))
}

const SIZE: &str = "pages,method,fsync,add_cpu_microseconds,snapshot_seconds,snapshot_cpu_seconds,\
    snapshot_bytes_a_page,recovery_seconds,recovery_cpu_seconds,pages_recovered_per_second,resident_bytes_a_page,\
    sketch_bytes_a_page,index_bytes_a_page,name_bytes_a_page";

fn size_row(_: &Path, server: &Server, filled: &Filled, figures: &[f64; 3]) -> String {
    let Filled { pages, add, snapshot, snapshot_bytes } = filled;
    let (seconds, cpu) = server.began;
    let each = |bytes: f64| bytes / *pages as f64;
    format!(
        "{pages},{add:.2},{:.2},{:.2},{:.1},{seconds:.3},{cpu:.2},{:.0},{:.1},{:.1},{:.1},{:.1}",
        snapshot.0,
        snapshot.1,
        each(*snapshot_bytes as f64),
        *pages as f64 / seconds,
        each(memory_of(server.id())),
        each(figures[0]),
        each(figures[1]),
        each(figures[2]),
    )
}

/// Appends a row to a file of results.
fn write_row(options: &Options, table: &str, header: &str, row: &str) -> Result<(), Box<dyn Error>> {
    let method = options.recall.map_or("both".to_owned(), |recall| format!("dial {recall}"));
    let (pages, rest) = row.split_once(',').ok_or("a row without fields")?;
    let line = format!("{pages},{method},{},{rest},{}\n", options.fsync, surroundings());
    let header = format!("{header},revision,machine,kernel,command\n");
    let Some(out) = &options.out else {
        return Ok(print(format!("{header}{line}").as_bytes())?);
    };
    fs::create_dir_all(out)?;
    let path = out.join(format!("{table}.csv"));
    let before = fs::read_to_string(&path).unwrap_or_default();
    if !before.is_empty() && !before.starts_with(&header) {
        return Err(format!("{} has other columns; name another folder", path.display()).into());
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all((if before.is_empty() { header + &line } else { line }).as_bytes())?;
    Ok(())
}

/// Revision, machine, level of kernels and command, as the rows of experiments have them.
fn surroundings() -> String {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let mut reported = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    if git(&["status", "--porcelain", "src", "core", "examples"]).is_some_and(|changes| !changes.is_empty()) {
        reported.push('+');
    }
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (model, kernel) =
        (model.map_or(std::env::consts::ARCH, |(_, model)| model), simflip_core::kernel_choice().level);
    let _ = write!(reported, ",{model} x{cores},{kernel},load");
    for word in std::env::args().skip(1) {
        // Of folders the names are reported alone: where they are is each machine's own.
        let shown = word.rsplit('/').next().unwrap_or_default();
        reported.push(' ');
        reported.push_str(&shown.replace(',', " "));
    }
    reported
}
