//! What does a whole `dedup` cost against merely decompressing the same files with the same library?
//!
//! `cargo run --release --example job_cost -- FILE.warc.wet.gz…` prints processor seconds of both, and their ratio, for
//! each method; one thread, the best of five runs each, in turns in one process. Then it takes the time of the default
//! by one thread and by two. It reads the files by two threads to say what share of the work was done under a file's
//! lock: that share bounds how many threads one large file keeps busy.

use simflip::corpus::{self, DiscoverOptions, FileReading, ReadOptions};
use simflip::kernel::inflate::Inflater;
use simflip::pipeline::{self, Job, Silent};
use simflip::resources::{cpu_seconds, peak_memory_bytes};
use simflip::settings::{Generator, Recall, Settings, Verification};
use simflip::sketch::Sketcher;
use simflip::terminal::say;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let inputs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if inputs.is_empty() {
        return Err("name one or more .warc.wet.gz files".into());
    }
    let stored: Vec<Vec<u8>> = inputs.iter().map(std::fs::read).collect::<Result<_, _>>()?;
    let folder = tempfile::tempdir()?;
    let searched = |generator| Settings::simhash().with(|settings| settings.generator = generator);
    let dial = Generator::Dial { distance: 3, recall: Recall::AtLeast(0.95), key_bits: None };
    let methods = [
        ("both", Settings::default()),
        ("simhash", Settings::simhash()),
        ("dial", searched(dial)),
        ("bphs", searched(Generator::Bphs { distance: 3, tables: None })),
        ("minhash", Settings::minhash(0.8)),
        (
            "minhash, counted",
            Settings::minhash(0.8).with(|settings| settings.verification = Verification::Jaccard(0.8)),
        ),
    ];
    let dedup = |name: &str, settings: &Settings, threads: usize| -> Result<(), Box<dyn Error>> {
        let job = Job {
            inputs: inputs.clone(),
            out: folder.path().join(name),
            force: true,
            threads,
            settings: settings.clone(),
            ..Job::default()
        };
        pipeline::dedup(&job, &Silent)?;
        Ok(())
    };
    // In turns, so that a slower minute is a slower minute for all.
    let (mut plain, mut whole, mut decoded) = (f64::INFINITY, [f64::INFINITY; 6], 0);
    for _ in 0..ROUNDS {
        let before = seconds()?;
        decoded = stored.iter().map(|file| inflate(file)).sum::<Result<u64, _>>()?;
        plain = plain.min(seconds()? - before);
        for ((name, settings), least) in methods.iter().zip(&mut whole) {
            let before = seconds()?;
            dedup(name, settings, 1)?;
            *least = least.min(seconds()? - before);
        }
    }
    say(format_args!("kernels          {}", simflip_core::kernel_choice().level))?;
    say(format_args!("decompressing    {plain:8.3} s  {decoded} bytes"))?;
    for ((name, _), whole) in methods.iter().zip(whole) {
        say(format_args!("dedup {name:16} {whole:8.3} s  {:.2} times decompressing", whole / plain))?;
    }
    // Wall time and processor time by one thread and by two.
    let mut taken = [(f64::INFINITY, f64::INFINITY); 2];
    for _ in 0..ROUNDS {
        for (threads, (wall, cpu)) in (1..).zip(&mut taken) {
            let (before, began) = (seconds()?, Instant::now());
            dedup("both", &Settings::default(), threads)?;
            (*wall, *cpu) = (wall.min(began.elapsed().as_secs_f64()), cpu.min(seconds()? - before));
        }
    }
    let [one, two] = taken;
    say(format_args!(
        "two threads      {:8.3} s after {:.3} s by one: {:.1} % of their time, and {:.2} times the processor's",
        two.0,
        one.0,
        50.0 * one.0 / two.0,
        two.1 / one.1
    ))?;
    let found = corpus::discover(&inputs, &DiscoverOptions::default())?;
    let options = ReadOptions { threads: 2, ..ReadOptions::default() };
    let sketcher = || Sketcher::new(&Settings::default(), None);
    sketcher()?;
    let reading = corpus::read(
        &found,
        &options,
        || sketcher().expect("as before"),
        |sketcher, document| drop(sketcher.sketch(document.text)),
        &|_| {},
    );
    let sum = |of: fn(&FileReading) -> Duration| reading.files.iter().map(of).sum::<Duration>().as_secs_f64();
    let (locked, all) = (sum(|file| file.locked), sum(|file| file.decoding + file.processing));
    let (share, threads) = (100.0 * locked / all, all / locked);
    say(format_args!(
        "under the lock   {share:8.2} % of reading and sketching: one file keeps up to {threads:.0} threads busy"
    ))?;
    if let Some(peak) = peak_memory_bytes() {
        say(format_args!("peak memory      {:8.1} MB of all these runs together", peak as f64 / 1e6))?;
    }
    Ok(())
}

const ROUNDS: usize = 5;

/// Processor seconds of this process.
fn seconds() -> Result<f64, Box<dyn Error>> {
    Ok(cpu_seconds().ok_or("this system tells no processor time")?)
}

/// Decodes every member of a gzip file into one buffer and counts the bytes.
fn inflate(mut stored: &[u8]) -> Result<u64, Box<dyn Error>> {
    let mut inflater = Inflater::new();
    let mut buffer = vec![0; 64 << 20];
    let mut decoded = 0;
    while !stored.is_empty() {
        let member = inflater.gzip_member(stored, &mut buffer).map_err(|e| format!("{e:?}"))?;
        stored = &stored[member.consumed..];
        decoded += member.produced as u64;
    }
    Ok(decoded)
}
