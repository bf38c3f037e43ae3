//! What do the stages take, of time, memory and disk, for very many documents?
//!
//! `cargo run --release --example stages -- PAGES FOLDER MEMORY LIMIT [TEMPLATE]` makes up so many documents of about 1
//! kB, a file of 100,000 at a time, sketches each file and takes it away. Then it joins and clusters the sketches, each
//! stage in a process of its own that may use `MEMORY` MiB and has an address space of `LIMIT` MiB. At last it makes
//! the same files again, some at a time, and writes the kept documents of each and a list of the others, which it takes
//! away. It prints a row for each stage, and for the recall estimate of star clusters, whose time is not in that of
//! these. Without arguments it does so for a few documents.
//!
//! Of the documents, about seven in ten stand alone, three in ten are one of two or more versions of a text that differ
//! in up to four words, and one in fifty is of one of four templates. Which words a document has follows from its
//! number alone. With `TEMPLATE`, so many documents more, strewn among the others, are of one template and differ in
//! six words.

mod made_up;

use made_up::Vocabulary;
use simflip::clusters::Linkage;
use simflip::corpus::{KeptFiles, ReadOptions};
use simflip::hash::fmix64;
use simflip::pipeline::{Progress, Silent};
use simflip::resources::{cpu_seconds, peak_memory_bytes};
use simflip::settings::Settings;
use simflip::staged::{self, Applied, ApplyJob, ClusterJob, Grouping, Outputs, Shard, SketchJob};
use simflip::terminal::say;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Documents of a file.
const FILE: u64 = 100_000;
/// Files whose kept documents are written at a time.
const AT_A_TIME: u64 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["stage", name, sketches, memory] => stage(name, Path::new(sketches), memory.parse::<u64>()? << 20),
        [documents, folder, memory, limit] => {
            measure([documents.parse()?, 0], Path::new(folder), memory, limit.parse::<u64>()? << 10)
        }
        [documents, folder, memory, limit, template] => measure(
            [documents.parse()?, template.parse()?],
            Path::new(folder),
            memory,
            limit.parse::<u64>()? << 10,
        ),
        [] => measure([20_000, 2_000], tempfile::tempdir()?.path(), "64", 700 << 10),
        _ => Err("PAGES FOLDER MEMORY LIMIT [TEMPLATE], memory and limit in MiB".into()),
    }
}

/// What the documents are, besides versions of texts.
#[derive(Clone, Copy)]
struct Made {
    /// How many there are.
    documents: u64,
    /// How many of them are of one template, strewn among the others.
    template: u64,
}

/// The text of a document.
fn text(document: u64, made: Made, vocabulary: &Vocabulary, out: &mut String) {
    let chance = fmix64(document) % 100;
    // Documents of a family are far apart; two in a hundred documents are of one of four templates.
    let (family, own) = match chance {
        _ if fmix64(document ^ 0x7e) % made.documents < made.template => (u64::MAX / 2, 6),
        0..2 => (u64::MAX - fmix64(document ^ 1) % 4, 6),
        2..32 => (fmix64(document ^ 2) % (1 + document / 3), fmix64(document ^ 3) % 5),
        _ => (document, 0),
    };
    vocabulary.write(document, family, own, out);
}

fn bytes_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

fn measure(
    [others, template]: [u64; 2],
    folder: &Path,
    memory: &str,
    limit: u64,
) -> Result<(), Box<dyn Error>> {
    let documents = others + template;
    let made = Made { documents, template };
    let settings = Settings::default();
    let (vocabulary, sketches) = (Vocabulary::new(), folder.join("sketches"));
    fs::create_dir_all(folder)?;
    say(format_args!(
        "pages,of_one_template,memory_mib,limit_mib,stage,cpu_seconds,wall_seconds,microseconds_a_page,peak_bytes,\
         disk_bytes_a_page,kernel,reported"
    ))?;
    let row = |stage: &str, cpu: f64, wall: f64, peak: u64, disk: u64, said: &str| {
        let (each, disk) = (cpu * 1e6 / documents as f64, disk as f64 / documents as f64);
        let (limit, kernel) = (limit >> 10, simflip_core::kernel_choice().level);
        say(format_args!(
            "{documents},{template},{memory},{limit},{stage},{cpu:.1},{wall:.1},{each:.3},{peak},{disk:.1},{kernel},{said}"
        ))
    };
    let (mut cpu, begun, mut text_bytes) = (0.0, Instant::now(), 0);
    let path_of = |start: u64| folder.join(format!("documents-{:06}.jsonl", start / FILE));
    for start in (0..documents).step_by(FILE as usize) {
        let path = path_of(start);
        text_bytes += write_file(&path, start..documents.min(start + FILE), made, &vocabulary)?;
        let before = cpu_seconds().ok_or("no processor time")?;
        staged::sketch(&sketch_job(&path, &sketches, &settings), &Silent)?;
        cpu += cpu_seconds().ok_or("no processor time")? - before;
        fs::remove_file(&path)?;
    }
    let peak = peak_memory_bytes().unwrap_or(0);
    let said = format!("{text_bytes} bytes of text");
    row("sketch", cpu, begun.elapsed().as_secs_f64(), peak, bytes_of(&sketches), &said)?;
    for stage in ["join-star", "star", "join-connected", "connected"] {
        let (ended, most) = (AtomicBool::new(false), AtomicU64::new(0));
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    most.fetch_max(bytes_of(&sketches), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
            let output = Command::new("sh")
                .args(["-c", &format!("ulimit -v {limit}; exec \"$0\" \"$@\"")])
                .arg(std::env::current_exe()?)
                .args(["stage", stage])
                .arg(&sketches)
                .arg(memory)
                .output();
            ended.store(true, Ordering::Relaxed);
            output
        })?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<&str> = said.trim().splitn(6, ' ').collect();
        let [times @ .., peak, said] = &numbers[..] else {
            return Err(format!("{stage}: {}", String::from_utf8_lossy(&output.stderr)).into());
        };
        let times = times.iter().map(|time| time.parse()).collect::<Result<Vec<f64>, _>>()?;
        let &[cpu, wall, audit_cpu, audit_wall] = &times[..] else {
            return Err(format!("{stage}: {} times", times.len()).into());
        };
        let (peak, most) = (peak.parse()?, most.into_inner());
        // The join of star clusters is that of a usual run.
        let name = if stage == "join-star" { "join" } else { stage };
        row(name, cpu - audit_cpu, wall - audit_wall, peak, most, said)?;
        if stage == "star" {
            row("audit", audit_cpu, audit_wall, peak, most, "")?;
        }
    }
    let (mut cpu, mut wall, mut done, mut written) = (0.0, 0.0, Applied::default(), 0);
    for first in (0..documents).step_by((AT_A_TIME * FILE) as usize) {
        let starts = (first..documents.min(first + AT_A_TIME * FILE)).step_by(FILE as usize);
        let inputs: Vec<PathBuf> = starts.clone().map(path_of).collect();
        for (path, start) in inputs.iter().zip(starts) {
            write_file(path, start..documents.min(start + FILE), made, &vocabulary)?;
        }
        let out = folder.join("kept");
        let (before, begun) = (cpu_seconds().ok_or("no processor time")?, Instant::now());
        let some = staged::apply(&apply_job(&sketches, &inputs, &out), &Silent)?;
        cpu += cpu_seconds().ok_or("no processor time")? - before;
        wall += begun.elapsed().as_secs_f64();
        (done.kept, done.removed) = (done.kept + some.kept, done.removed + some.removed);
        written += bytes_of(&out);
        fs::remove_dir_all(&out)?;
        inputs.iter().try_for_each(fs::remove_file)?;
    }
    let peak = peak_memory_bytes().unwrap_or(0);
    let said = format!("{} documents stay; {} go", done.kept, done.removed);
    row("apply", cpu, wall, peak, written, &said)?;
    Ok(())
}

fn write_file(
    path: &Path,
    documents: std::ops::Range<u64>,
    made: Made,
    vocabulary: &Vocabulary,
) -> std::io::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut line, mut bytes) = (String::new(), 0);
    for document in documents {
        line.clear();
        text(document, made, vocabulary, &mut line);
        bytes += line.len() as u64;
        let url = format!("https://site-{}.example/{document}", document % 9973);
        writeln!(file, r#"{{"id":"p{document}","url":"{url}","text":"{line}"}}"#)?;
    }
    file.flush()?;
    Ok(bytes)
}

fn sketch_job(input: &Path, out: &Path, settings: &Settings) -> SketchJob {
    SketchJob {
        inputs: vec![PathBuf::from(input)],
        options: ReadOptions::default(),
        out: out.to_path_buf(),
        force: false,
        memory: None,
        threads: 0,
        shard: Shard::default(),
        settings: settings.clone(),
        boilerplate: None,
    }
}

fn apply_job(sketches: &Path, inputs: &[PathBuf], out: &Path) -> ApplyJob {
    ApplyJob {
        sketches: sketches.to_path_buf(),
        against: Vec::new(),
        inputs: inputs.to_vec(),
        out: out.to_path_buf(),
        grouping: Grouping::of(Linkage::Star),
        writes: Outputs { kept: true, removed: true },
        kept_files: KeptFiles::Each,
        memory: None,
        threads: 0,
        shard: Shard::default(),
    }
}

/// Takes the times of the recall estimate: processor time and time on the clock, in seconds.
#[derive(Default)]
struct Steps(Mutex<Times>);

#[derive(Default)]
struct Times {
    begun: Option<(f64, Instant)>,
    taken: [f64; 2],
}

impl Steps {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Steps {
    fn begin(&self, stage: &str, _: u64, _: &str) {
        let begun = (stage == "recall estimate").then(|| (cpu_seconds().unwrap_or(0.0), Instant::now()));
        self.times().begun = begun;
    }

    fn advance(&self, _: u64) {}

    fn end(&self) {
        let mut times = self.times();
        if let Some((cpu, wall)) = times.begun.take() {
            times.taken[0] += cpu_seconds().unwrap_or(0.0) - cpu;
            times.taken[1] += wall.elapsed().as_secs_f64();
        }
    }

    fn note(&self, _: &str) {}
}

/// One stage; says processor seconds and seconds, both of the recall estimate alone, the peak of memory, and what came
/// of it.
fn stage(name: &str, sketches: &Path, memory: u64) -> Result<(), Box<dyn Error>> {
    let (begun, steps) = (Instant::now(), Steps::default());
    let (sketches, against, memory, threads) = (sketches.to_path_buf(), Vec::new(), Some(memory), 0);
    let linkage = if name.ends_with("star") { Linkage::Star } else { Linkage::Connected };
    let job = ClusterJob { sketches, against, grouping: Grouping::of(linkage), memory, threads };
    let said = if name.starts_with("join") {
        let done = staged::join(&job, Shard::default(), &Silent)?;
        format!(
            "{} copies; {} edges of {} pairs compared; {} left out in buckets of up to {} documents",
            done.exact_duplicates,
            done.pairs,
            done.statistics.compared,
            done.statistics.left_out,
            done.statistics.largest
        )
    } else {
        let done = staged::cluster(&job, &steps)?;
        format!(
            "{} documents go by {} clusters; the largest has {}",
            done.removed, done.clusters, done.largest
        )
    };
    let (cpu, peak) = (cpu_seconds().unwrap_or(0.0), peak_memory_bytes().unwrap_or(0));
    let ([audit_cpu, audit_wall], wall) = (steps.times().taken, begun.elapsed().as_secs_f64());
    say(format_args!("{cpu} {wall} {audit_cpu} {audit_wall} {peak} {said}"))?;
    Ok(())
}
