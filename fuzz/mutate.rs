//! Runs every fuzz target on mutations of the specimens of `tests/`, with any compiler and without coverage:
//! `cargo test -p simflip-fuzz -- [TARGET…] [SECONDS]`. Each target takes two seconds unless a number is given;
//! names, or parts of them, choose targets. `… -- seeds FOLDER` writes the seeds for a coverage-guided fuzzer:
//! `FOLDER/TARGET/` holds them, and `FOLDER/TARGET.dict` the words of the format.
//!
//! Mutations are drawn by number, so that a run of the same length makes the same inputs. An input that fails is
//! written to `fuzz/artifacts/TARGET-NUMBER` and ends the run.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use simflip::hash::SplitMix64;
use simflip::terminal::{note, say};

/// A target, its name, and which files under `tests/` it begins with, by the ends of their names.
struct Target {
    name: &'static str,
    run: fn(&[u8]),
    seeds: &'static [&'static str],
    /// Seeds that no file has.
    made: fn() -> Vec<Vec<u8>>,
    /// Pieces that the target looks for.
    words: &'static [&'static str],
}

fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

const WARC: &[&str] = &[
    "WARC/1.0\r\n",
    "WARC-Type: conversion\r\n",
    "Content-Length: 3\r\n",
    "\r\n",
    " ",
    "\x1f\u{8b}\x08",
    "99999999999",
];
const JSON: &[&str] = &[
    "{\"text\":\"",
    "\"",
    "\\ud83d",
    "\\u0041",
    "null",
    "1e999999",
    "}\n",
    "}{",
    "[",
    "-1",
    "NaN",
    "\"id\":",
    "\"page\":{",
    "\u{feff}",
];
const CSV: &[&str] =
    &["a_id,b_id,label\n", "record,cluster\n", "\"", ",", "\n", "'=", "0.5", "duplicate", "nan", "1e400"];

const TARGETS: [Target; 8] = [
    Target {
        name: "stored_file",
        run: simflip_fuzz::stored_file,
        seeds: &[".warc", ".wet", ".jsonl", ".ndjson", ".csv", ".tsv", ".gz", ".zst"],
        made: none,
        words: WARC,
    },
    Target {
        name: "packed_records",
        run: simflip_fuzz::packed_records,
        seeds: &[".warc", ".wet", ".jsonl", ".csv", ".tsv"],
        made: none,
        words: WARC,
    },
    Target {
        name: "parquet_file",
        run: simflip_fuzz::parquet_file,
        seeds: &[".parquet", ".arrow"],
        made: none,
        words: &["PAR1", "ARROW1"],
    },
    Target {
        name: "gzip_member",
        run: simflip_fuzz::gzip_member,
        seeds: &[".gz"],
        made: gzip_members,
        words: &["\x1f\u{8b}\x08"],
    },
    Target { name: "binary_file", run: simflip_fuzz::binary_file, seeds: &[], made: binaries, words: JSON },
    Target { name: "tables", run: simflip_fuzz::tables, seeds: &[".csv"], made: truths, words: CSV },
    Target { name: "report", run: simflip_fuzz::report, seeds: &[], made: reports, words: JSON },
    Target {
        name: "text",
        run: simflip_fuzz::text,
        seeds: &[".wet"],
        made: texts,
        words: &["東京", "e\u{301}", "ß", "\u{200d}", "İ", "\u{fe0f}", "ﬁ", "กา"],
    },
];

/// Headers of every sort, in front of stored, fixed and dynamic blocks.
fn gzip_members() -> Vec<Vec<u8>> {
    let text: Vec<u8> = (0..4_000u32).map(|i| (i * i % 61 + 32) as u8).collect();
    let mut members = Vec::new();
    for (level, length) in [(0, 300), (1, 40), (6, 4_000), (9, 4_000), (6, 0)] {
        let mut encoder = flate2::GzBuilder::new();
        if length % 3 == 1 {
            encoder = encoder.filename("name").comment("comment").extra(b"extra".to_vec());
        }
        let mut encoder = encoder.write(Vec::new(), flate2::Compression::new(level));
        std::io::Write::write_all(&mut encoder, &text[..length]).expect("memory");
        let mut member = encoder.finish().expect("memory");
        members.push(member.clone());
        // A checksum of the header that is none.
        if member[3] == 0 {
            member[3] = 2;
            member.splice(10..10, [0xab, 0xcd]);
            members.push(member);
        }
    }
    members
}

/// Files as the target of binary files takes them: kind, length of the header, header, body.
fn binaries() -> Vec<Vec<u8>> {
    let file = |kind: u8, header: serde_json::Value, body: Vec<u8>| {
        let header = header.to_string().into_bytes();
        [vec![kind], (header.len() as u16).to_le_bytes().to_vec(), header, body].concat()
    };
    let dir = tempfile::tempdir().expect("a folder");
    let mut seeds = Vec::new();
    let path = dir.path().join("frequencies");
    let kind = simflip::text::FeatureKind::Shingles(3);
    let saved =
        simflip::weight::frequencies::Frequencies::from_entries(kind, 9, (1..9).map(|i| (i * 77, i as u32)));
    simflip::frequencies::save(&saved, &path).expect("saves");
    let (_, header, body) = simflip::format::read_any(&path).expect("what was saved");
    seeds.push(file(0, header, body));
    seeds.push(records());
    seeds.extend(staged(dir.path()).into_iter().map(|(kind, header, body)| file(kind, header, body)));
    seeds
}

/// The files of a small run in stages: the place of each one's kind among all, its header and its body.
fn staged(folder: &Path) -> Vec<(u8, serde_json::Value, Vec<u8>)> {
    use simflip::clusters::Linkage;
    use simflip::corpus::{KeptFiles, ReadOptions};
    use simflip::format::{KINDS, read_any};
    use simflip::pipeline::Silent;
    use simflip::staged::{self, ApplyJob, ClusterJob, Grouping, Outputs, Shard, SketchJob};
    let words = ["a page of a few words that stands twice", "a page of a few words that stands alone, or so"];
    let pages: String =
        (0..9).map(|n| serde_json::json!({"text": words[n % 2]}).to_string() + "\n").collect();
    let (input, sketches) = (folder.join("pages.jsonl"), folder.join("sketches"));
    std::fs::write(&input, pages).expect("a file");
    let sketch = SketchJob {
        inputs: vec![input.clone()],
        options: ReadOptions::default(),
        out: sketches.clone(),
        force: false,
        memory: None,
        threads: 1,
        shard: Shard::default(),
        settings: simflip::settings::Settings::default(),
        boilerplate: None,
    };
    staged::sketch(&sketch, &Silent).expect("sketches");
    let grouping = Grouping::of(Linkage::Star);
    let cluster = ClusterJob {
        sketches: sketches.clone(),
        against: Vec::new(),
        grouping: grouping.clone(),
        memory: None,
        threads: 1,
    };
    staged::join(&cluster, Shard::default(), &Silent).expect("pairs");
    staged::cluster(&cluster, &Silent).expect("clusters");
    let apply = ApplyJob {
        sketches: sketches.clone(),
        against: Vec::new(),
        inputs: vec![input],
        out: folder.join("kept"),
        grouping,
        writes: Outputs { kept: true, removed: true },
        kept_files: KeptFiles::Each,
        memory: None,
        threads: 1,
        shard: Shard::default(),
    };
    staged::apply(&apply, &Silent).expect("kept pages");
    let (mut files, mut folders) = (Vec::new(), vec![sketches, folder.join("kept")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                folders.push(entry);
            } else if let Ok((kind, header, body)) = read_any(&entry) {
                let kind = KINDS.iter().position(|&known| known == kind).expect("a kind of ours");
                files.push((kind as u8, header, body));
            }
        }
    }
    files.sort_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
    // Of bands, which are all alike, a few.
    files.dedup_by(|a, b| a.0 == b.0 && a.2 == b.2);
    files
}

/// The records of a log of an index, which any index may hold.
fn records() -> Vec<u8> {
    use simflip::seen::{Access, Request, Seen, SeenParams};
    let dir = tempfile::tempdir().expect("a folder");
    let index = dir.path().join("index");
    let settings = simflip::settings::Settings::default();
    let mut sketcher = simflip::sketch::Sketcher::new(&settings, None).expect("settings");
    let params = SeenParams { settings, frequencies: None };
    let mut seen = Seen::open(&index, Access::Write { fsync: false }, Some(&params)).expect("an index");
    let begun = seen.stored_bytes().1 as usize;
    for (name, id, text) in
        [("a", None, "some words"), ("b", Some("r"), "other words"), ("c", None, "some words")]
    {
        let request = Request { name, id, seen: 7, ..Request::default() };
        seen.ask_and_add(&request, &sketcher.sketch(text)).expect("there is room");
        seen.commit().expect("a log");
        if name == "b" { seen.withdraw(0) } else { seen.delivered() }.expect("a log");
    }
    seen.remove(&HashSet::from(["b"]), 0).expect("a log");
    let log = std::fs::read(index.join("log-00000001")).expect("a log");
    log[begun..].to_vec()
}

/// The report of a small run.
fn reports() -> Vec<Vec<u8>> {
    use simflip::pipeline::{Job, Silent, dedup};
    let dir = tempfile::tempdir().expect("a folder");
    let (input, out) = (dir.path().join("pages.jsonl"), dir.path().join("result"));
    let pages: String = (0..9).map(|n| format!("{{\"text\":\"a page of {} words\"}}\n", n % 4)).collect();
    std::fs::write(&input, pages).expect("a file");
    dedup(&Job { inputs: vec![input], out: out.clone(), ..Job::default() }, &Silent).expect("a result");
    vec![std::fs::read(out.join("report.json")).expect("a report")]
}

fn truths() -> Vec<Vec<u8>> {
    [
        "a_id,b_id,label\na,b,1\nb,'=c,duplicate\na,'=c,\n",
        "a,b,jaccard\n0,1,0.5\n1,2,0.9\n",
        "record,cluster\n0,x\n1,x\n2,y\n",
        "a_id,b_id,stratum,stratum_pairs,weight,distance,similarity,label\na,b,distance 3,7,3.5,3,,duplicate\n",
        "page,answer,distance,earlier\nx,new,,\ny,near,3,x\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn texts() -> Vec<Vec<u8>> {
    ["Straße ΑΣ İstanbul e\u{301}te", "東京の夜、ที่นี่ ភាសា 한국어", "\u{200d}\u{fe0f}👩‍👩‍👧 ﬁn\u{0}"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// One mutation more or several.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], words: &[&str], rng: &mut SplitMix64) {
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        let end = (at + rng.below(24) as usize).min(bytes.len());
        match rng.below(9) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            2 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'9'][rng.below(6) as usize],
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            5 if !words.is_empty() => {
                let word = words[rng.below(words.len() as u64) as usize];
                drop(bytes.splice(at..end, word.bytes()));
            }
            6 => bytes.truncate(at),
            7 if !other.is_empty() => {
                let from = rng.below(other.len() as u64) as usize;
                let to = (from + rng.below(300) as usize).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            _ => drop(bytes.splice(at..at, [rng.next_u64() as u8])),
        }
    }
}

impl Target {
    /// What it begins with: files of `tests/`, and what no file has.
    fn seeds(&self, found: &[PathBuf]) -> Vec<Vec<u8>> {
        let is_seed = |path: &&PathBuf| self.seeds.iter().any(|end| path.to_string_lossy().ends_with(end));
        let mut seeds: Vec<Vec<u8>> =
            found.iter().filter(is_seed).filter_map(|path| std::fs::read(path).ok()).collect();
        seeds.extend((self.made)());
        seeds.retain(|seed| seed.len() < 100_000);
        seeds
    }

    /// Writes the seeds, each called by its content, and the pieces as libFuzzer reads them.
    fn write(&self, found: &[PathBuf], folder: &Path) -> std::io::Result<()> {
        let seeds = folder.join(self.name);
        std::fs::create_dir_all(&seeds)?;
        for seed in self.seeds(found) {
            std::fs::write(seeds.join(format!("seed-{:08x}", crc32fast::hash(&seed))), seed)?;
        }
        let quoted = |word: &&str| {
            let bytes: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("\"{bytes}\"\n")
        };
        let words: String = self.words.iter().map(quoted).collect();
        std::fs::write(folder.join(format!("{}.dict", self.name)), words)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    files(&root.join("../tests"), &mut found);
    if let [first, folder] = &arguments[..]
        && first == "seeds"
    {
        for target in &TARGETS {
            target.write(&found, Path::new(folder)).expect("a folder that can be written to");
        }
        return;
    }
    // Flags are those of other test programs, which `cargo test` passes to all of them.
    let (numbers, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().filter(|word| !word.starts_with('-')).partition(|word| word.parse::<f64>().is_ok());
    let seconds: f64 = numbers.last().and_then(|number| number.parse().ok()).unwrap_or(2.0);
    let is_chosen =
        |target: &&Target| names.is_empty() || names.iter().any(|name| target.name.contains(&name[..]));
    for target in TARGETS.iter().filter(is_chosen) {
        let seeds = target.seeds(&found);
        let start = Instant::now();
        let mut number = 0u64;
        while start.elapsed() < Duration::from_secs_f64(seconds) {
            let mut rng = SplitMix64::new(number);
            let mut seed = || seeds[rng.below(seeds.len() as u64) as usize].clone();
            let (mut bytes, other) = (seed(), seed());
            mutate(&mut bytes, &other, target.words, &mut rng);
            if std::panic::catch_unwind(|| (target.run)(&bytes)).is_err() {
                let folder = root.join("artifacts");
                let path = folder.join(format!("{}-{number}", target.name));
                let saved = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, &bytes));
                note(format_args!("{} failed on {} ({saved:?})", target.name, path.display()));
                std::process::exit(1);
            }
            number += 1;
        }
        let _ = say(format_args!("{}: {number} inputs of {} seeds", target.name, seeds.len()));
    }
}
