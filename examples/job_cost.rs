//! What does a whole `dedup` cost against merely decompressing the same files with the same library?
//!
//! `cargo run --release --example job_cost -- FILE.warc.wet.gz…` prints processor seconds of both, and their ratio, for each
//! method; one thread, the best of three runs each, one after the other in one process.

use flipside::kernel::inflate::Inflater;
use flipside::pipeline::settings::{Method, Settings};
use flipside::pipeline::{self, Job, Silent};
use flipside::resources::{cpu_seconds, peak_memory_bytes};
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
    for method in Method::ALL {
        let job = Job {
            inputs: inputs.clone(),
            out: folder.path().join(method.name()),
            force: true,
            threads: 1,
            settings: Settings::of(method),
            ..Job::default()
        };
        let whole = best(|| Ok(pipeline::dedup(&job, &Silent).map(drop)?))?;
        println!("dedup {:8}   {whole:8.3} s  {:.2} times decompressing", method.name(), whole / plain);
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
