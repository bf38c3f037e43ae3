//! Where memory does not hold a run, it goes in stages on disk, and comes to the same files.

use crate::cli::{corpus, flipside};
use crate::staged::{ONE, contents, quick, sketch_job, texts, write_files};
use flipside::clusters::Linkage;
use flipside::corpus::KeptFiles;
use flipside::hash::SplitMix64;
use flipside::pipeline::{self, Job, Silent, Writes};
use flipside::settings::Settings;
use flipside::staged;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// All that can be written.
const ALL: Writes = Writes {
    kept: true,
    removed: true,
    pages: true,
    pages_jsonl: true,
    pages_parquet: cfg!(feature = "parquet"),
};

fn job(inputs: &[PathBuf], out: &Path, settings: Settings) -> Job {
    Job {
        inputs: inputs.to_vec(),
        out: out.to_path_buf(),
        writes: ALL,
        settings,
        created: "now".to_owned(),
        ..Job::default()
    }
}

/// The report without what is not the same in any two runs.
fn report(bytes: &[u8], is_crowded: bool) -> Value {
    let mut report: Value = serde_json::from_slice(bytes).unwrap();
    let fields = report.as_object_mut().unwrap();
    ["stages", "peak_memory_bytes", "memory"].iter().for_each(|field| drop(fields.remove(*field)));
    if is_crowded {
        // Pairs of crowds count in each band that they met in.
        for field in ["searched", "judged", "search_cost", "histograms", "method", "warnings"] {
            fields.remove(field);
        }
    }
    report
}

/// Runs a job in memory and on disk, and holds all that is written against each other.
fn assert_same(job: &Job, threads: usize, is_crowded: bool) {
    let held = Job { out: job.out.with_extension("held"), threads: 2, ..job.clone() };
    let staged = Job { out: job.out.with_extension("staged"), threads, ..job.clone() };
    let summaries =
        [pipeline::dedup(&held, &Silent).unwrap(), staged::dedup_on_disk(&staged, &Silent).unwrap()];
    assert_eq!(
        (summaries[0].documents, summaries[0].removed, summaries[0].damaged),
        (summaries[1].documents, summaries[1].removed, summaries[1].damaged)
    );
    let [expected, got] = [&held.out, &staged.out].map(|out| contents(out));
    assert!(expected.keys().eq(got.keys()), "{:?} {:?}", expected.keys(), got.keys());
    for (name, bytes) in &expected {
        match &name[..] {
            "report.json" => {
                let [a, b] = [bytes, &got[name]].map(|bytes| report(bytes, is_crowded));
                for (field, value) in a.as_object().unwrap() {
                    assert_eq!(value, &b[field], "{field}");
                }
            }
            // It shows times.
            "report.html" => {}
            _ => assert!(*bytes == got[name], "{name}, {threads} threads"),
        }
    }
    let parent = job.out.parent().unwrap();
    for entry in fs::read_dir(parent).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(!name.contains("unfinished"), "{name}");
    }
    [held.out, staged.out].iter().for_each(|out| fs::remove_dir_all(out).unwrap());
}

/// Puts lines between others: damage, a text that is null, a record id that was there before, none at all.
fn with_oddities(path: &Path) {
    let lines = fs::read_to_string(path).unwrap();
    let odd = [
        "{\"text\": 5}",
        "no JSON at all",
        "{\"id\": \"0/0\", \"text\": \"some words that nobody else has, of a page whose id is taken\"}",
        "{\"url\": \"https://other.example/x\", \"text\": \"a page without an id, and with a few words\"}",
        "{\"text\": \"a page without any name that says little more than this\"}",
    ];
    let mixed = lines.lines().enumerate().flat_map(|(at, line)| {
        let odd = (at % 3 == 1).then(|| odd[at / 3 % odd.len()]);
        odd.into_iter().chain([line])
    });
    fs::write(path, mixed.map(|line| line.to_owned() + "\n").collect::<String>()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn a_run_on_disk_writes_what_a_run_in_memory_writes(
        pages in 1usize..200, files in 1usize..5, seed: u64, odd: bool, each: bool, connected: bool,
        removable: bool, threads in 1usize..4,
    ) {
        let top = tempfile::tempdir().unwrap();
        let paths = write_files(&top.path().join("crawl"), &texts(pages, 0, seed), files);
        if odd {
            paths.iter().for_each(|path| with_oddities(path));
        }
        let settings = match removable {
            true => Settings::removable().with(|s| s.sketches = quick(0.8).sketches),
            false => quick(0.6),
        };
        let linkage = if connected { Linkage::Connected } else { Linkage::Star };
        let job = job(&paths, &top.path().join("out"), settings.with(|s| s.linkage = linkage));
        let kept_files = if each { KeptFiles::Each } else { KeptFiles::One };
        assert_same(&Job { kept_files, ..job }, threads, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn new_pages_against_old_ones_come_to_the_same(
        pages in 2usize..250, old in 1usize..100, files in 1usize..4, old_files in 1usize..4, seed: u64, odd: bool,
        each: bool, connected: bool, removable: bool, threads in 1usize..4,
    ) {
        let top = tempfile::tempdir().unwrap();
        let first_old = pages - (pages * old / 100).clamp(1, pages - 1);
        let texts = texts(pages, 0, seed);
        let (new, old) = texts.split_at(first_old);
        // The same names of files and records in both, which come before one another in either order.
        let (before, behind) = (top.path().join("crawl/a"), top.path().join("crawl/b"));
        let (to_new, to_old) = if seed % 2 == 0 { (before, behind) } else { (behind, before) };
        let (paths, old_paths) = (write_files(&to_new, new, files), write_files(&to_old, old, old_files));
        if odd {
            paths.iter().chain(&old_paths).for_each(|path| with_oddities(path));
        }
        let settings = match removable {
            true => Settings::removable().with(|s| s.sketches = quick(0.8).sketches),
            false => quick(0.6),
        };
        let linkage = if connected { Linkage::Connected } else { Linkage::Star };
        let job = job(&[to_new], &top.path().join("out"), settings.with(|s| s.linkage = linkage));
        let kept_files = if each { KeptFiles::Each } else { KeptFiles::One };
        assert_same(&Job { kept_files, against: vec![to_old], ..job }, threads, false);
    }
}

#[test]
fn results_of_earlier_runs_are_held_against_on_disk_as_in_memory() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    let all = texts(240, 0, 5);
    let folders: Vec<PathBuf> = all
        .chunks(60)
        .enumerate()
        .map(|(month, texts)| {
            let folder = at(&format!("month {month}"));
            write_files(&folder, texts, 2);
            folder
        })
        .collect();
    let first = Job { kept_files: KeptFiles::Each, ..job(&folders[..1], &at("first"), quick(0.6)) };
    pipeline::dedup(&first, &Silent).unwrap();
    let second = job(&folders[1..2], &at("second"), quick(0.6));
    pipeline::dedup(&second, &Silent).unwrap();
    // A file of the third month that is named as new and as old is old.
    let both = folders[2].join("pages 0.jsonl");
    let against = vec![at("first"), at("second"), both];
    let third = Job { against, ..job(&folders[2..], &at("third"), quick(0.6)) };
    assert_same(&third, 3, false);
    let told = |against: PathBuf| {
        let job = Job { against: vec![against], ..third.clone() };
        let told = [pipeline::dedup(&job, &Silent), staged::dedup_on_disk(&job, &Silent)];
        let [held, staged] = told.map(|told| told.unwrap_err().to_string());
        assert_eq!(held, staged);
        assert!(!job.out.exists());
        held
    };
    fs::write(at("empty.jsonl"), "").unwrap();
    assert!(told(at("empty.jsonl")).contains("--against: 1 file was read"));
    let bare = Job { writes: Writes { kept: false, ..ALL }, ..job(&folders[..1], &at("bare"), quick(0.6)) };
    pipeline::dedup(&bare, &Silent).unwrap();
    assert!(told(at("bare")).contains("a result with its kept pages"));
}

#[test]
fn a_template_that_old_pages_have_comes_to_the_same_pages() {
    let top = tempfile::tempdir().unwrap();
    let mut texts = texts(200, 900, 4);
    texts.rotate_left(500);
    let paths = write_files(&top.path().join("new"), &texts[..600], 2);
    write_files(&top.path().join("old"), &texts[600..], 2);
    let job = job(&paths, &top.path().join("out"), quick(0.8));
    assert_same(&Job { against: vec![top.path().join("old")], ..job }, 2, true);
}

#[test]
fn real_pages_of_all_formats_come_to_the_same() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    write_files(&crawl, &texts(90, 0, 8), 2);
    for entry in fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, crawl.join(path.file_name().unwrap())).unwrap();
    }
    // A folder of which not all is read, and a file that is damaged.
    fs::write(crawl.join("notes.txt"), "not read").unwrap();
    fs::write(crawl.join("cut.jsonl.gz"), [0x1f, 0x8b, 8, 0, 0]).unwrap();
    let job = job(&[crawl], &top.path().join("out"), Settings::default());
    for kept_files in [KeptFiles::One, KeptFiles::Each] {
        assert_same(&Job { kept_files, ..job.clone() }, 3, false);
    }
}

#[test]
fn a_template_comes_to_the_same_pages() {
    let top = tempfile::tempdir().unwrap();
    let paths = write_files(&top.path().join("crawl"), &texts(200, 900, 4), 3);
    assert_same(&job(&paths, &top.path().join("out"), quick(0.8)), 2, true);
}

#[test]
fn memory_that_is_named_is_kept_to_and_what_was_expected_is_told() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    let paths = write_files(&crawl, &texts(36_000, 0, 3), 6);
    // Long names, so that few pages take much.
    for path in &paths {
        let lines = fs::read_to_string(path).unwrap();
        let mut rng = SplitMix64::new(7);
        let long = |line: &str| {
            let more: String = (0..26).map(|_| format!("/{:016x}", rng.next_u64())).collect();
            line.replacen("https://site.example", &format!("https://site.example{more}"), 1) + "\n"
        };
        fs::write(path, lines.lines().map(long).collect::<String>()).unwrap();
    }
    let run = |name: &str, options: &[&str]| -> BTreeMap<String, Vec<u8>> {
        let out = top.path().join(name);
        let mut command = flipside();
        command.args(["dedup", "-q", "--bands", "4x3"]).arg(&crawl).arg("--out").arg(&out).args(options);
        command.assert().success();
        contents(&out)
    };
    let of = |files: &BTreeMap<String, Vec<u8>>| -> Value {
        serde_json::from_slice::<Value>(&files["report.json"]).unwrap()
    };
    let held = run("held", &["--memory", "2GiB"]);
    assert_eq!(of(&held)["memory"]["on_disk"], false);
    for threads in ["1", "3"] {
        let staged = run(&format!("staged {threads}"), &["--memory", "48MiB", "--threads", threads]);
        for name in ["pairs.csv", "clusters.csv", "kept.jsonl.gz"] {
            assert!(held[name] == staged[name], "{name}");
        }
        let (held, staged) = (of(&held), of(&staged));
        let memory = &staged["memory"];
        assert_eq!((&memory["on_disk"], &memory["limit_bytes"]), (&true.into(), &(48u64 << 20).into()));
        let number = |value: &Value| value.as_f64().unwrap();
        // A quarter off at most: pages, what memory would hold, and what the disk did.
        for (expected, fact) in [
            (&memory["expected_pages"], &staged["corpus"]["documents"]),
            (&held["memory"]["expected_bytes"], &held["peak_memory_bytes"]),
            (&memory["expected_disk_bytes"], &memory["disk_bytes"]),
        ] {
            let ratio = number(expected) / number(fact);
            assert!((0.75..1.25).contains(&ratio), "{expected} expected, {fact}");
        }
    }
    // What cannot go on disk is refused before anything is read.
    let refused = |options: &[&str], needed: &str| {
        let out = top.path().join("refused");
        let mut command = flipside();
        command.args(["dedup", "-q", "--memory", "48MiB"]).arg(&crawl).arg("--out").arg(&out).args(options);
        let told = String::from_utf8(command.assert().code(2).get_output().stderr.clone()).unwrap();
        assert!(told.contains("--memory 48MiB: expected at least ") && told.contains(needed), "{told}");
        assert!(!out.exists());
    };
    refused(&["--method", "minhash"], "search bands: expected keys");
    refused(&["--keep", "longest"], "keep longest");
    refused(&["--clusters", "complete"], "--clusters complete");
    refused(&["--all-pairs"], "--all-pairs");
    refused(&["--without-frames"], "--without-frames");
}

#[test]
fn a_plan_says_what_the_job_takes() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    let paths = write_files(&crawl, &texts(9_000, 0, 3), 3);
    let plan = |options: &[&str]| -> Value {
        let output = flipside().args(["plan", "-q", "--json"]).args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let of_files = plan(&[crawl.to_str().unwrap(), "--memory", "14MB"]);
    let sketches = top.path().join("sketches");
    let sketch = sketch_job(&paths, &sketches, &Settings::default(), ONE);
    let pages = staged::sketch(&sketch, &Silent).unwrap().pages as f64;
    let number = |value: &Value| value.as_f64().unwrap();
    let close = |expected: &Value, fact: f64| {
        let ratio = number(expected) / fact;
        assert!((0.75..1.25).contains(&ratio), "{expected} expected, {fact}");
    };
    close(&of_files["documents"], pages);
    let bytes = |end: &str| {
        let files = contents(&sketches);
        files.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, bytes)| bytes.len() as f64).sum::<f64>()
    };
    close(&of_files["disk_bytes"]["sketches"], bytes(".sketches"));
    close(&of_files["stages"][0]["disk_bytes"], bytes(".sketches") + bytes(".names"));
    assert_eq!((&of_files["on_disk"], &of_files["sampled"]), (&true.into(), &true.into()));
    assert!(of_files["too_little"].as_str().unwrap().contains("of memory is too little"));
    let stages = of_files["stages"].as_array().unwrap();
    assert!(stages.iter().all(|stage| number(&stage["cpu_seconds"]) > 0.0), "{stages:?}");

    let month = plan(&["--documents", "3e9", "--memory", "8GiB", "--threads", "16"]);
    assert_eq!((&month["documents"], &month["threads"]), (&3_000_000_000u64.into(), &16.into()));
    assert_eq!(month["stages"].as_array().unwrap().len(), 4);
    assert!(month["too_little"].is_null() && number(&month["most_disk_bytes"]) < 2e12);
    let tight = plan(&["--documents", "3e9", "--memory", "8GiB", "--disk", "100GB"]);
    assert!(tight["too_little"].as_str().unwrap().contains("of disk is too little"));
    let small = plan(&["--documents", "1e6", "--memory", "8GiB"]);
    assert_eq!((&small["on_disk"], small["stages"].as_array().unwrap().len()), (&false.into(), 1));
    for (option, told) in [("--distance=3", "--method simhash"), ("--features=words", "--method simhash")] {
        let run = flipside().args(["plan", "--documents", "1e6", option]).assert().code(2);
        let told_now = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(told_now.contains(told), "{told_now}");
    }
}
