//! What does a whole `dedup` cost against merely decompressing the same files with the same library?
//!
//! `cargo run --release --example job_cost -- FILE.warc.wet.gz…` prints processor seconds of both, and their
//! ratio, for each method; one thread, the best of three runs each, one after the other in one process.

use flipside::kernel::inflate::Inflater;
use flipside::pipeline::{self, Job, Silent};
use flipside::resources::{cpu_seconds, peak_memory_bytes};
use flipside::settings::{Judge, Net, Recall, Settings};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let inputs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if inputs.is_empty() {
        return Err("name one or more .warc.wet.gz files".into());
    }
    let stored: Vec<Vec<u8>> = inputs.iter().map(std::fs::read).collect::<Result<_, _>>()?;
    let mut decoded = 0;
    let plain = best(|| {
        decoded = stored.iter().map(|file| inflate(file)).sum::<Result<u64, _>>()?;
        Ok(())
    })?;
    println!("decompressing    {plain:8.3} s  {decoded} bytes");
    drop(stored);
    let folder = tempfile::tempdir()?;
    let searched = |net| Settings::simhash().with(|settings| settings.net = net);
    let dial = Net::Dial { distance: 3, recall: Recall::AtLeast(0.95), key_bits: None };
    for (name, settings) in [
        ("simhash", Settings::simhash()),
        ("psm", searched(dial)),
        ("bphs", searched(Net::Bphs { distance: 3, tables: None })),
        ("minhash", Settings::minhash(0.8)),
        ("minhash, counted", Settings::minhash(0.8).with(|settings| settings.judge = Judge::Jaccard(0.8))),
    ] {
        let job = Job {
            inputs: inputs.clone(),
            out: folder.path().join(name),
            force: true,
            threads: 1,
            settings,
            ..Job::default()
        };
        let whole = best(|| Ok(pipeline::dedup(&job, &Silent).map(drop)?))?;
        println!("dedup {name:16} {whole:8.3} s  {:.2} times decompressing", whole / plain);
    }
    if let Some(peak) = peak_memory_bytes() {
        println!("peak memory      {:8.1} MB of all these runs together", peak as f64 / 1e6);
    }
    Ok(())
}

/// The least processor time of three runs.
fn best(mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let before = cpu_seconds().ok_or("this system tells no processor time")?;
        run()?;
        least = least.min(cpu_seconds().ok_or("this system tells no processor time")? - before);
    }
    Ok(least)
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
