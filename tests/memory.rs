//! Where memory does not hold a run, it goes in stages on disk, and comes to the same files.

use crate::cli::{corpus, simflip};
#[cfg(target_os = "linux")]
use crate::place::ends_by;
use crate::place::names_in;
use crate::staged::{ONE, contents, quick, sketch_job, texts, write_files};
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::Value;
use simflip::clusters::{Linkage, Quota, Source};
use simflip::corpus::KeptFiles;
use simflip::hash::SplitMix64;
use simflip::pipeline::{self, GroupBy, Ignored, Job, Progress, Silent, Writes};
use simflip::settings::{Generator, Settings, Verification};
use simflip::staged;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All that can be written.
const ALL: Writes = Writes {
    pairs: true,
    kept: true,
    removed: true,
    documents: true,
    documents_jsonl: true,
    documents_parquet: true,
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

/// The report without what is not the same in any two runs, or not on disk.
fn report(bytes: &[u8]) -> Value {
    let mut report: Value = serde_json::from_slice(bytes).unwrap();
    let fields = report.as_object_mut().unwrap();
    let fleeting = ["fingerprint", "stages", "peak_memory_bytes", "memory"];
    fleeting.iter().for_each(|field| drop(fields.remove(*field)));
    report
}

/// Settings of a run: both sketches, compared in one way or the other, SimHashes, with a check or none, or MinHash,
/// with one bit of each position or all of them.
fn settings(kind: u8) -> Settings {
    let generator = Generator::Bphs { distance: 3, tables: None };
    match kind {
        0 => quick(0.6),
        REMOVABLE => Settings::removable().with(|s| s.sketches = quick(0.8).sketches),
        2 => Settings::simhash().with(|s| s.generator = generator),
        3 => Settings::simhash().with(|s| (s.generator, s.verification) = (generator, Verification::None)),
        4 => Settings::one_bit(256, 0.6),
        _ => Settings::minhash(0.6),
    }
}

/// The kind of settings by which containment decides.
const REMOVABLE: u8 = 1;

/// Holds all that two runs wrote against each other.
fn assert_equal(expected: &Path, got: &Path, threads: usize) {
    let [expected, got] = [expected, got].map(contents);
    assert!(expected.keys().eq(got.keys()), "{:?} {:?}", expected.keys(), got.keys());
    for (name, bytes) in &expected {
        match &name[..] {
            "report.json" => {
                let [a, b] = [bytes, &got[name]].map(|bytes| report(bytes));
                for (field, value) in a.as_object().unwrap() {
                    assert_eq!(value, &b[field], "{field}");
                }
            }
            // It shows times.
            "report.html" => {}
            _ => assert!(*bytes == got[name], "{name}, {threads} threads"),
        }
    }
}

/// Raises the threshold of a run that kept its sketches, and holds the results against new runs.
fn assert_raised(job: &Job, threads: usize) {
    let Some(threshold) = job.settings.verification.threshold() else { return };
    let earlier = Job { keep_sketches: true, threads, ..job.clone() };
    staged::dedup(&earlier, &Silent).unwrap();
    let stages = contents(&job.out.with_extension("stages"));
    let sketches =
        |all: BTreeMap<String, Vec<u8>>| all.into_iter().filter(|(name, _)| name.ends_with(".sketches"));
    let kept: Vec<_> = sketches(stages).collect();
    for to in [threshold, f64::midpoint(threshold, 1.0)] {
        let verification = job.settings.verification.with_threshold(to);
        let settings = job.settings.clone().with(|settings| settings.verification = verification);
        let [raised, anew] = ["raised", "anew"].map(|name| Job {
            out: job.out.with_extension(name),
            settings: settings.clone(),
            ..job.clone()
        });
        staged::rethreshold(&earlier, &raised, &Silent).unwrap();
        pipeline::dedup(&anew, &Silent).unwrap();
        assert_equal(&anew.out, &raised.out, threads);
        [raised.out, anew.out].iter().for_each(|out| fs::remove_dir_all(out).unwrap());
    }
    assert!(sketches(contents(&job.out.with_extension("stages"))).eq(kept));
}

/// Runs a job in memory and on disk, and holds all that is written against each other.
fn assert_same(job: &Job, threads: usize) {
    let held = Job { out: job.out.with_extension("held"), threads: 2, ..job.clone() };
    let staged = Job { out: job.out.with_extension("staged"), threads, ..job.clone() };
    let summaries =
        [pipeline::dedup(&held, &Silent).unwrap(), staged::dedup_on_disk(&staged, &Silent).unwrap()];
    assert_eq!(
        (summaries[0].documents, summaries[0].removed, summaries[0].corrupt),
        (summaries[1].documents, summaries[1].removed, summaries[1].corrupt)
    );
    assert_equal(&held.out, &staged.out, threads);
    let parent = job.out.parent().unwrap();
    for entry in fs::read_dir(parent).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(!name.contains("unfinished") && !name.ends_with(".stages"), "{name}");
    }
    [held.out, staged.out].iter().for_each(|out| fs::remove_dir_all(out).unwrap());
}

/// Puts lines between others: corruption, a text that is null, a record id that was there before, none at all.
fn with_oddities(path: &Path) {
    let lines = fs::read_to_string(path).unwrap();
    let odd = [
        "{\"text\": 5}",
        "no JSON at all",
        "{\"id\": \"0/0\", \"text\": \"some words that nobody else has, of a document whose id is taken\"}",
        "{\"url\": \"https://other.example/x\", \"text\": \"a document without an id, and with a few words\"}",
        "{\"text\": \"a document without any name that says little more than this\"}",
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
        documents in 1usize..200, files in prop::sample::select(vec![1usize, 2, 4, 30]), seed: u64, odd: bool,
        each: bool, connected: bool,
        kind in 0u8..6, threads in 1usize..4,
    ) {
        let top = tempfile::tempdir().unwrap();
        let paths = write_files(&top.path().join("crawl"), &texts(documents, 0, seed), files);
        if odd {
            paths.iter().for_each(|path| with_oddities(path));
        }
        let settings = settings(kind);
        let linkage = if connected && kind != REMOVABLE { Linkage::Connected } else { Linkage::Star };
        let job = job(&paths, &top.path().join("out"), settings.with(|s| s.linkage = linkage));
        let kept_files = if each { KeptFiles::Each } else { KeptFiles::One };
        let job = Job { kept_files, ..job };
        assert_same(&job, threads);
        assert_raised(&job, threads);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn new_documents_against_old_ones_come_to_the_same(
        documents in 2usize..250, old in 1usize..100, files in prop::sample::select(vec![1usize, 3, 30]),
        old_files in prop::sample::select(vec![1usize, 2, 20]), seed: u64, odd: bool,
        each: bool, connected: bool, kind in 0u8..6, threads in 1usize..4,
    ) {
        let top = tempfile::tempdir().unwrap();
        let first_reference = documents - (documents * old / 100).clamp(1, documents - 1);
        let texts = texts(documents, 0, seed);
        let (new, old) = texts.split_at(first_reference);
        // The same names of files and records in both, which come before one another in either order.
        let (before, behind) = (top.path().join("crawl/a"), top.path().join("crawl/b"));
        let (to_new, to_old) = if seed % 2 == 0 { (before, behind) } else { (behind, before) };
        let (paths, reference_paths) = (write_files(&to_new, new, files), write_files(&to_old, old, old_files));
        if odd {
            paths.iter().chain(&reference_paths).for_each(|path| with_oddities(path));
        }
        let settings = settings(kind);
        let linkage = if connected && kind != REMOVABLE { Linkage::Connected } else { Linkage::Star };
        let job = job(&[to_new], &top.path().join("out"), settings.with(|s| s.linkage = linkage));
        let kept_files = if each { KeptFiles::Each } else { KeptFiles::One };
        let job = Job { kept_files, against: vec![to_old], ..job };
        assert_same(&job, threads);
        assert_raised(&job, threads);
    }
}

/// Moves the files of a folder into two below it, and gives their documents URLs of few hosts, of few lengths, some of
/// them twice or missing, and scores, of which some are equal, missing, or no numbers.
fn with_urls_and_scores(folder: &Path, paths: &[PathBuf], seed: u64) -> Vec<PathBuf> {
    let mut rng = SplitMix64::new(seed);
    let inner = ["one", "two"].map(|name| folder.join(name));
    inner.iter().for_each(|inner| fs::create_dir_all(inner).unwrap());
    for (at, path) in paths.iter().enumerate() {
        let lines = fs::read_to_string(path).unwrap();
        let line = |line: &str| {
            let Ok(mut document) = serde_json::from_str::<Value>(line) else { return line.to_owned() + "\n" };
            let host = rng.below(3);
            let end = ["", "/a", "/b", "/a\u{0}", "/a\u{0}\u{1}", "/\u{e4}/long"][rng.below(6) as usize];
            document["url"] = match rng.below(9) {
                0 => Value::Null,
                1 => "".into(),
                _ => format!("https://h{host}.example{end}").into(),
            };
            document["score"] = match rng.below(6) {
                0 => Value::Null,
                1 => "none".into(),
                2 => "-0.0".into(),
                3 => 0.into(),
                _ => (rng.below(4) as f64 - 1.5).into(),
            };
            document.to_string() + "\n"
        };
        let lines: String = lines.lines().map(line).collect();
        fs::write(inner[at % 2].join(path.file_name().unwrap()), lines).unwrap();
        fs::remove_file(path).unwrap();
    }
    // Not in the order of their names.
    inner.into_iter().rev().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn whoever_is_to_stay_stays_on_disk_as_in_memory(
        documents in 8usize..250, old in 0usize..60, files in 2usize..5, seed: u64, connected: bool, kind in 0u8..6,
        keep in prop::sample::select(vec!["first", "fullest", "longest", "shortest-url", "score:score", "input-order"]),
        count in 1u32..4, all_pairs: bool,
        each in prop::option::of(prop::sample::select(vec![Source::Host, Source::File, Source::Folder])),
        threads in 1usize..4,
    ) {
        let top = tempfile::tempdir().unwrap();
        let texts = texts(documents, 0, seed);
        let (new, old) = texts.split_at(documents - (documents * old / 100).min(documents - 1));
        let [to_new, to_old] = ["crawl", "old"].map(|name| top.path().join(name));
        let paths = write_files(&to_new, new, files);
        let inputs = with_urls_and_scores(&to_new, &paths, seed);
        let mut against = Vec::new();
        if !old.is_empty() {
            let paths = write_files(&to_old, old, 2);
            against = with_urls_and_scores(&to_old, &paths, seed + 1);
        }
        let settings = settings(kind).with(|s| {
            s.linkage = if connected && kind != REMOVABLE { Linkage::Connected } else { Linkage::Star };
            if kind != REMOVABLE {
                s.keep = keep.parse().unwrap();
            }
            s.quota = Quota { count, each };
            s.all_pairs = all_pairs && s.sketches.keyed().is_some();
        });
        let job = job(&inputs, &top.path().join("out"), settings);
        // Few documents may have no score at all: the two say the same of it.
        let at_disk = Job { out: top.path().join("no"), against: against.clone(), ..job.clone() };
        if let Err(held) = pipeline::dedup(&at_disk, &Silent) {
            let staged = staged::dedup_on_disk(&at_disk, &Silent).unwrap_err();
            prop_assert_eq!(held.to_string(), staged.to_string());
            return Ok(());
        }
        assert_same(&Job { against, ..job }, threads);
    }
}

/// Writes documents of three hosts, two of which put lines of their own into most documents. Some texts stand on
/// several hosts, some are nothing but such lines, and some differ in a line.
fn with_boilerplate(folder: &Path, documents: usize, seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let line = |rng: &mut SplitMix64, words: usize| -> String {
        (0..words).map(|_| format!("w{} ", rng.below(5000))).collect::<String>() + "\n"
    };
    let menus: Vec<Vec<String>> = (0..2).map(|_| (0..8).map(|_| line(&mut rng, 4)).collect()).collect();
    let articles: Vec<Vec<String>> =
        (0..documents / 4 + 1).map(|_| (0..5).map(|_| line(&mut rng, 9)).collect()).collect();
    let mut texts: Vec<String> = Vec::new();
    for at in 0..documents {
        let host = rng.below(3) as usize;
        let mut lines: Vec<String> = menus.get(host).cloned().unwrap_or_default();
        lines.retain(|_| rng.below(8) > 0);
        if rng.below(12) > 0 {
            let mut article = articles[rng.below(articles.len() as u64) as usize].clone();
            if rng.below(3) == 0 {
                article[2] = line(&mut rng, 9);
            }
            lines.extend(article);
        }
        let copied = (at > 0 && rng.below(5) == 0).then(|| texts[rng.below(at as u64) as usize].clone());
        texts.push(copied.unwrap_or_else(|| lines.concat()));
        let url = (rng.below(9) > 0).then(|| format!("https://h{host}.example/{:03}", rng.below(400)));
        let source = (rng.below(9) > 0).then_some(host);
        let document = serde_json::json!({"id": at, "url": url, "source": source, "text": texts[at]});
        let path = folder.join(format!("{}/documents {}.jsonl", at % 2, at * 4 / documents));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
        writeln!(file, "{document}").unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn boilerplate_is_left_out_on_disk_as_in_memory(
        documents in 30usize..250, old in 0usize..60, seed: u64, kind in 0u8..6, threads in 1usize..4,
        by in prop::sample::select(vec!["host", "file", "folder", "all", "field:source"]),
        keep in prop::sample::select(vec!["first", "fullest", "longest", "shortest-url"]),
    ) {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        with_boilerplate(&at("crawl"), documents, seed);
        let against = if old > 0 { vec![at("old")] } else { Vec::new() };
        against.iter().for_each(|folder| with_boilerplate(folder, old, seed));
        let settings = settings(kind).with(|s| if kind != REMOVABLE { s.keep = keep.parse().unwrap() });
        let ignored = Ignored::Counted(by.parse().unwrap());
        let job = Job { against, ignored, ..job(&[at("crawl")], &at("out"), settings) };
        let held = Job { save_boilerplate: Some(at("held")), out: at("kept"), ..job.clone() };
        pipeline::dedup(&held, &Silent).unwrap();
        let report: Value = serde_json::from_slice(&fs::read(at("kept/report.json")).unwrap()).unwrap();
        let lines = report["boilerplate"]["all"]["boilerplate_lines"].as_u64().unwrap();
        prop_assert!(lines > 0 || documents < 100 || by != "all", "{}", report["boilerplate"]);
        assert_same(&Job { save_boilerplate: Some(at("saved")), ..job.clone() }, threads);
        // The run on disk was the last to save them.
        prop_assert!(fs::read(at("held")).unwrap() == fs::read(at("saved")).unwrap());
        assert_same(&Job { ignored: Ignored::OfFile(at("saved")), ..job.clone() }, threads);
        assert_raised(&job, threads);
    }
}

#[test]
fn nothing_is_removed_for_a_document_that_holds_less_of_it_on_disk_as_in_memory() {
    let top = tempfile::tempdir().unwrap();
    let words =
        |document: usize, n: usize| (0..n).map(|at| format!("document{document}w{at} ")).collect::<String>();
    let wholes: Vec<String> = (0..9).map(|document| words(document, 300)).collect();
    let parts: Vec<String> = (0..9).map(|document| words(document, 3 * (50 + 5 * document))).collect();
    let [first, last] = ["a", "b"].map(|name| top.path().join(name));
    let kept = |summary: &pipeline::Summary| summary.documents - summary.removed;
    for (name, [to_wholes, to_parts]) in [("whole first", [&first, &last]), ("part first", [&last, &first])] {
        let at = top.path().join(name);
        let [to_wholes, to_parts] = [to_wholes, to_parts].map(|path| at.join(path.file_name().unwrap()));
        write_files(&to_wholes, &wholes, 2);
        write_files(&to_parts, &parts, 2);
        let run = |inputs: &[&PathBuf], against: &[&PathBuf]| {
            let inputs: Vec<PathBuf> = inputs.iter().copied().cloned().collect();
            let job = job(&inputs, &at.join("out"), Settings::removable());
            let job = Job { against: against.iter().copied().cloned().collect(), ..job };
            assert_same(&job, 2);
            let summary = pipeline::dedup(&job, &Silent).unwrap();
            let rows = fs::read_to_string(job.out.join("removed.csv")).unwrap();
            fs::remove_dir_all(&job.out).unwrap();
            (summary, rows.lines().count() as u64 - 1)
        };
        let (both, rows) = run(&[&to_wholes, &to_parts], &[]);
        assert_eq!((kept(&both), rows), (9, 9), "{name}");
        // Wholes are kept, with their parts as reference documents, but for those of which .82 or more stands in them.
        let (new_wholes, _) = run(&[&to_wholes], &[&to_parts]);
        assert_eq!(kept(&new_wholes), 7, "{name}");
        let (new_parts, _) = run(&[&to_parts], &[&to_wholes]);
        assert_eq!(kept(&new_parts), 0, "{name}");
    }
}

#[test]
fn the_recall_of_titles_is_the_same_on_disk_as_in_memory() {
    let top = tempfile::tempdir().unwrap();
    let mut rng = SplitMix64::new(1);
    let mut titles: Vec<String> = Vec::new();
    for _ in 0..3_000 {
        let words: Vec<String> = (0..2 + rng.below(6)).map(|_| format!("w{}", rng.below(9_000))).collect();
        titles.push(words.join(" "));
        titles.extend((rng.below(10) == 0).then(|| words.join(", ")));
    }
    let paths = write_files(&top.path().join("crawl"), &titles, 2);
    for settings in [Settings::both(0.8), Settings::both(0.5), Settings::removable()] {
        let job = job(&paths, &top.path().join("out"), settings);
        assert_same(&job, 2);
        pipeline::dedup(&job, &Silent).unwrap();
        let report: Value = serde_json::from_slice(&fs::read(job.out.join("report.json")).unwrap()).unwrap();
        assert_eq!(
            report["recall_estimate"]["documents"]["recall"]["share"], 1.0,
            "{}",
            report["recall_estimate"]
        );
        fs::remove_dir_all(&job.out).unwrap();
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
    // A file of the third month that is named as both is a reference file.
    let both = folders[2].join("documents 00.jsonl");
    let against = vec![at("first"), at("second"), both];
    let third = Job { against, ..job(&folders[2..], &at("third"), quick(0.6)) };
    assert_same(&third, 3);
    let reported = |against: PathBuf| {
        let job = Job { against: vec![against], ..third.clone() };
        let reported = [pipeline::dedup(&job, &Silent), staged::dedup_on_disk(&job, &Silent)];
        let [held, staged] = reported.map(|reported| reported.unwrap_err().to_string());
        assert_eq!(held, staged);
        assert!(!job.out.exists());
        held
    };
    fs::write(at("empty.jsonl"), "").unwrap();
    assert!(reported(at("empty.jsonl")).contains("--against: 1 file was read"));
    let bare = Job { writes: Writes { kept: false, ..ALL }, ..job(&folders[..1], &at("bare"), quick(0.6)) };
    pipeline::dedup(&bare, &Silent).unwrap();
    assert!(reported(at("bare")).contains("a result with its kept documents"));
}

#[test]
fn a_template_that_reference_documents_have_comes_to_the_same_documents() {
    let top = tempfile::tempdir().unwrap();
    let mut texts = texts(200, 900, 4);
    texts.rotate_left(500);
    let paths = write_files(&top.path().join("new"), &texts[..600], 2);
    write_files(&top.path().join("old"), &texts[600..], 2);
    let job = job(&paths, &top.path().join("out"), quick(0.8));
    assert_same(&Job { against: vec![top.path().join("old")], ..job }, 2);
}

#[test]
fn real_documents_of_all_formats_come_to_the_same() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    write_files(&crawl, &texts(90, 0, 8), 2);
    for entry in fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, crawl.join(path.file_name().unwrap())).unwrap();
    }
    // A folder of which not all is read, and a file that is corrupt.
    fs::write(crawl.join("notes.txt"), "not read").unwrap();
    fs::write(crawl.join("cut.jsonl.gz"), [0x1f, 0x8b, 8, 0, 0]).unwrap();
    let job = job(&[crawl], &top.path().join("out"), Settings::default());
    for kept_files in [KeptFiles::One, KeptFiles::Each, KeptFiles::OfSize(5_000)] {
        assert_same(&Job { kept_files, ..job.clone() }, 3);
    }
}

#[test]
fn a_template_comes_to_the_same_documents() {
    let top = tempfile::tempdir().unwrap();
    let paths = write_files(&top.path().join("crawl"), &texts(200, 900, 4), 3);
    assert_same(&job(&paths, &top.path().join("out"), quick(0.8)), 2);
}

/// Documents of two texts, each with as many documents as are given, that differ in white space alone; the one is near
/// the other.
fn same_documents(numbers: [usize; 2]) -> Vec<String> {
    let words: Vec<String> = (0..80).map(|at| format!("w{at}")).collect();
    let other = || words.iter().map(String::as_str).chain(["more"]);
    let spaced = |words: Vec<&str>, spaces: usize| words.join(&" ".repeat(spaces));
    let of_one = (1..=numbers[0]).map(|spaces| spaced(words.iter().map(String::as_str).collect(), spaces));
    let of_other = (1..=numbers[1]).map(|spaces| spaced(other().collect(), spaces));
    of_one.chain(of_other).collect()
}

#[test]
fn of_very_many_documents_that_are_the_same_to_the_judge_few_stay() {
    let top = tempfile::tempdir().unwrap();
    // Each is compared with some of them alone. They come in any order, and some are of the reference set.
    let mut documents = same_documents([120, 90]);
    let mut rng = SplitMix64::new(7);
    for at in (1..documents.len()).rev() {
        documents.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let paths = write_files(&top.path().join("crawl"), &documents[..150], 3);
    write_files(&top.path().join("old"), &documents[150..], 2);
    let old = vec![top.path().join("old")];
    for (keep, against) in [("first", &[][..]), ("longest", &old)] {
        let settings = settings(0).with(|s| s.keep = keep.parse().unwrap());
        let job = job(&paths, &top.path().join("out"), settings);
        let job = Job { against: against.to_vec(), ..job };
        assert_same(&job, 2);
        let summary = pipeline::dedup(&job, &Silent).unwrap();
        // One, or none where a reference document is as they are.
        let stay = u64::from(against.is_empty());
        assert_eq!(summary.documents - summary.removed, stay, "{keep}");
        fs::remove_dir_all(&job.out).unwrap();
    }
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn memory_that_is_named_is_kept_to_and_what_was_expected_is_reported() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    long_names(&crawl, 60_000, 3);
    let run = |name: &str, options: &[&str]| -> BTreeMap<String, Vec<u8>> {
        let out = top.path().join(name);
        let mut command = simflip();
        command.args(["dedup", "-q", "--bands", "4x3"]).arg(&crawl).arg("--out").arg(&out).args(options);
        command.assert().success();
        contents(&out)
    };
    let of = |files: &BTreeMap<String, Vec<u8>>| -> Value {
        serde_json::from_slice::<Value>(&files["report.json"]).unwrap()
    };
    let held = run("held", &[]);
    assert_eq!(of(&held)["memory"]["on_disk"], false);
    for threads in ["1", "3"] {
        let staged = run(&format!("staged {threads}"), &["--memory", "48MiB", "--threads", threads]);
        for name in ["pairs.csv", "clusters.csv", "kept.jsonl"] {
            assert!(held[name] == staged[name], "{name}");
        }
        let (held, staged) = (of(&held), of(&staged));
        let memory = &staged["memory"];
        assert_eq!((&memory["on_disk"], &memory["limit_bytes"]), (&true.into(), &(48u64 << 20).into()));
        let number = |value: &Value| value.as_f64().unwrap();
        // A quarter off at most: documents, what memory would hold, and what the disk did.
        for (expected, fact) in [
            (&memory["expected_documents"], &staged["corpus"]["documents"]),
            (&held["memory"]["expected_bytes"], &held["peak_memory_bytes"]),
            (&memory["expected_disk_bytes"], &memory["disk_bytes"]),
        ] {
            let ratio = number(expected) / number(fact);
            assert!((0.75..1.25).contains(&ratio), "{expected} expected, {fact}");
        }
    }
    // Ranks take no more.
    let keep = ["--keep", "shortest-url", "--keep-each", "host"];
    let held = run("held by URL", &keep);
    let staged = run("staged by URL", &[&["--memory", "48MiB"], &keep[..]].concat());
    for name in ["pairs.csv", "clusters.csv", "kept.jsonl"] {
        assert!(held[name] == staged[name], "{name}");
    }
    assert_eq!(of(&staged)["memory"]["on_disk"], true);
    // Nor do the names of a large file.
    let (large, sketches) = (top.path().join("large"), top.path().join("sketches"));
    long_names(&large, 40_000, 1);
    let files = contents(&large);
    fs::remove_dir_all(&large).unwrap();
    fs::create_dir(&large).unwrap();
    fs::write(large.join("one.jsonl"), files.into_values().flatten().collect::<Vec<u8>>()).unwrap();
    let reported = |arguments: &[&OsStr]| {
        let output = simflip().args(arguments).assert().success().get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
    reported(&[
        "sketch".as_ref(),
        large.as_ref(),
        "--out".as_ref(),
        sketches.as_ref(),
        "--bands".as_ref(),
        "4x3".as_ref(),
    ]);
    let memory: [&OsStr; 2] = ["--memory".as_ref(), "48MiB".as_ref()];
    let (keep, tables) = (["--keep".as_ref(), "shortest-url".as_ref()], top.path().join("tables"));
    reported(&[&["join".as_ref(), sketches.as_os_str()], &memory[..], &keep].concat());
    let tables: [&OsStr; 2] = ["--tables".as_ref(), tables.as_ref()];
    let said = reported(&[&["cluster".as_ref(), sketches.as_os_str()], &memory[..], &keep, &tables].concat());
    let peak = said.split("Peak memory ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(peak.is_some_and(|peak| peak <= 48), "{said}");
    // What cannot go on disk is refused before anything is read.
    let refused = |options: &[&str], needed: &str| {
        let out = top.path().join("refused");
        let mut command = simflip();
        command.args(["dedup", "-q", "--memory", "48MiB"]).arg(&crawl).arg("--out").arg(&out).args(options);
        let reported = String::from_utf8(command.assert().code(2).get_output().stderr.clone()).unwrap();
        assert!(
            reported.contains("--memory 48MiB: expected at least ") && reported.contains(needed),
            "{reported}"
        );
        assert!(!out.exists());
    };
    refused(&["--method", "dial"], "search dial: expected keys");
    refused(&["--method", "bphs", "--all-pairs"], "--all-pairs");
    refused(&["--save-frequencies", "counts"], "--save-frequencies");
}

/// What a command says at its end and where errors go, and whether it went well.
fn said(arguments: &[&str], paths: &[&Path]) -> (String, bool) {
    let output = simflip().args(arguments).args(paths).output().unwrap();
    let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    (format!("{out}{errors}"), output.status.success())
}

/// The peak that a stage reported, in MiB.
fn peak_of(said: &str) -> u64 {
    let rest = said.split("Peak memory ").nth(1).and_then(|rest| rest.split(' ').next());
    rest.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no peak in {said}"))
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn long_documents_count_as_often_as_threads_hold_them() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    let mut rng = SplitMix64::new(3);
    let word = |rng: &mut SplitMix64| format!("{:08x} ", rng.next_u64() as u32);
    let text = |rng: &mut SplitMix64, words: usize| (0..words).map(|_| word(rng)).collect::<String>();
    let documents = (0..24).map(|at| {
        let words = if at % 2 == 1 { 700_000 } else { 60 };
        format!("{{\"id\": \"{at}\", \"text\": \"{}\"}}\n", text(&mut rng, words))
    });
    let documents: String = documents.collect();
    fs::write(at("long.jsonl"), documents).unwrap();
    let sketch = |memory: &str, out: &str| {
        said(&["sketch", "-q", "--threads", "2", "--memory", memory, "--out", out], &[&at("long.jsonl")])
    };
    let out = |name: &str| at(name).to_string_lossy().into_owned();
    // Without the long documents it would be enough. Of the first one no more is read than there is room for.
    let (reported, is_well) = sketch("36MiB", &out("little"));
    assert!(!is_well && reported.contains("long.jsonl takes more than "), "{reported}");
    let (reported, is_well) = sketch("80MiB", &out("little"));
    assert!(
        !is_well && reported.contains("long.jsonl takes 35MiB") && reported.contains("at least 90MiB"),
        "{reported}"
    );
    let (reported, is_well) = sketch("95MiB", &out("sketches"));
    assert!(is_well && peak_of(&reported) <= 95, "{reported}");
    for stage in ["join", "cluster"] {
        said(&[stage, "-q"], &[&at("sketches")]);
    }
    let apply = |memory: &str, out: &str| {
        let arguments = ["apply", "-q", "--threads", "2", "--memory", memory, "--out", out];
        said(&arguments, &[&at("sketches"), &at("long.jsonl")])
    };
    let (reported, is_well) = apply("30MiB", &out("none"));
    assert!(!is_well && reported.contains("at least 38MiB") && !at("none").exists(), "{reported}");
    let (reported, is_well) = apply("40MiB", &out("kept"));
    assert!(is_well && peak_of(&reported) <= 40, "{reported}");
    // What a record holds besides counts as well.
    let line = format!(
        "{{\"id\": 1, \"text\": \"some words of a document\", \"other\": \"{}\"}}\n",
        "q".repeat(18 << 20)
    );
    fs::write(at("other.jsonl"), line.repeat(3)).unwrap();
    let arguments = ["sketch", "-q", "--threads", "1", "--memory", "40MiB", "--out", &out("others")];
    let (reported, is_well) = said(&arguments, &[&at("other.jsonl")]);
    assert!(!is_well && reported.contains("record 0 of"), "{reported}");
    // In one go, too, what cannot be kept to is refused, and what is promised is kept.
    let dedup = |memory: &str, out: &str| {
        said(&["dedup", "-q", "--threads", "2", "--memory", memory, "--out", out], &[&at("long.jsonl")])
    };
    let (reported, is_well) = dedup("70MiB", &out("refused"));
    assert!(!is_well && reported.contains("90MiB") && !at("refused").exists(), "{reported}");
    let (reported, is_well) = dedup("95MiB", &out("result"));
    let report: Value = serde_json::from_slice(&fs::read(at("result/report.json")).unwrap()).unwrap();
    let peak = report["peak_memory_bytes"].as_u64().unwrap();
    assert!(is_well && peak <= 95 << 20, "{reported} {peak}");
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn a_document_of_a_run_in_memory_takes_few_bytes() {
    let top = tempfile::tempdir().unwrap();
    let mut rng = SplitMix64::new(11);
    let peak = |documents: u64| {
        let mut words = || (0..30).map(|_| format!("{:05x} ", rng.below(1 << 20))).collect::<String>();
        let lines = (0..documents).map(|at| format!("{{\"id\": \"{at:08}\", \"text\": \"{}\"}}\n", words()));
        let [input, out] = ["input.jsonl", "out"].map(|name| top.path().join(format!("{documents} {name}")));
        fs::write(&input, lines.collect::<String>()).unwrap();
        let (reported, is_well) =
            said(&["dedup", "-q", "--threads", "2", "--out", &out.to_string_lossy()], &[&input]);
        assert!(is_well, "{reported}");
        let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
        report["peak_memory_bytes"].as_u64().unwrap()
    };
    let [few, many] = [100_000, 400_000].map(peak);
    // The sketch has 196 of them, and what is known of the text 28; the id takes 9.
    let each = many.saturating_sub(few) / 300_000;
    assert!(each <= 310, "{each}");
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn what_is_no_document_takes_no_memory_that_grows_with_it() {
    let top = tempfile::tempdir().unwrap();
    let mut rng = SplitMix64::new(5);
    let mut words = |n: usize| (0..n).map(|_| format!("{:08x} ", rng.next_u64() as u32)).collect::<String>();
    // Lines of four bytes, one of which nobody reads without a note of where it is.
    fs::write(top.path().join("short.jsonl"), b"\xfd\xfe\xfd\n".repeat(1_000_000)).unwrap();
    // A field of languages that holds something else.
    let named = |at: u32| {
        let language = format!("{at:08x}").repeat(20);
        format!(
            "{{\"text\": \"document {at:x} of some words {}\", \"language\": \"{language}\"}}\n",
            at % 977
        )
    };
    fs::write(top.path().join("named.jsonl"), (0..150_000).map(named).collect::<String>()).unwrap();
    // Members of a megabyte each, three of which are corrupt in the middle.
    let mut corrupt = Vec::new();
    for at in 0..20 {
        let mut member = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writeln!(member, "{{\"text\": \"{}\"}}", words(120_000)).unwrap();
        let mut member = member.finish().unwrap();
        if at % 6 == 3 {
            let middle = member.len() / 2;
            member[middle..middle + 40].fill(0xff);
        }
        corrupt.extend(member);
    }
    fs::write(top.path().join("corrupt.jsonl.gz"), corrupt).unwrap();
    for (name, threads, memory) in [
        ("short.jsonl", 8, 60),
        ("named.jsonl", 1, 40),
        ("corrupt.jsonl.gz", 1, 40),
        ("corrupt.jsonl.gz", 2, 60),
    ] {
        let (input, out) = (top.path().join(name), top.path().join(format!("{name}-{threads}")));
        let (threads, limit) = (threads.to_string(), format!("{memory}MiB"));
        let out = out.to_string_lossy().into_owned();
        let arguments = ["sketch", "-q", "--threads", &threads, "--memory", &limit, "--out", &out];
        let (reported, _) = said(&arguments, &[&input]);
        assert!(peak_of(&reported) <= memory, "{name}, {threads} threads, {limit}: {reported}");
    }
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn what_stays_is_written_by_as_many_threads_as_memory_is_enough_for() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    write_files(&at("crawl"), &texts(300, 200, 6), 6);
    for arguments in [&["sketch", "-q", "--out"][..], &["join", "-q"], &["cluster", "-q"]] {
        let crawl = [at("sketches"), at("crawl")];
        let paths: Vec<&Path> = crawl.iter().take(arguments.len() - 1).map(PathBuf::as_path).collect();
        let (reported, is_well) = said(arguments, &paths);
        assert!(is_well, "{reported}");
    }
    let apply = |out: &str, memory: &[&str]| {
        let out = at(out).to_string_lossy().into_owned();
        let arguments = [&["apply", "-q", "--threads", "8", "--out", &out], memory].concat();
        said(&arguments, &[&at("sketches"), &at("crawl")])
    };
    let (reported, is_well) = apply("free", &[]);
    assert!(is_well, "{reported}");
    let (reported, is_well) = apply("little", &["--memory", "12MiB"]);
    assert!(!is_well && reported.contains("--memory 12MiB: expected at least 1"), "{reported}");
    let (reported, is_well) = apply("bound", &["--memory", "24MiB"]);
    assert!(is_well && peak_of(&reported) <= 24, "{reported}");
    assert_eq!(contents(&at("free")), contents(&at("bound")));
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn documents_that_nobody_expected_go_on_disk() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl.jsonl");
    // The first documents are long, and those that follow short, with every ninth a copy or none at all.
    let mut rng = SplitMix64::new(5);
    let mut lines = String::new();
    for document in 0..90_000u64 {
        let words = if document < 300 { 500 } else { 6 };
        let mut text: String = (0..words).map(|_| format!("{:x} ", rng.below(1 << 24))).collect();
        match document % 9 {
            7 => text = format!("copied {}", document % 1000),
            8 => lines.push_str("{\"text\": 8}\n"),
            _ => {}
        }
        let line =
            serde_json::json!({"id": document, "url": format!("https://a.example/{document}"), "text": text});
        lines += &(line.to_string() + "\n");
    }
    fs::write(&crawl, &lines).unwrap();
    let run = |name: &str, input: &Path, options: &[&str]| {
        let out = top.path().join(name);
        let mut command = simflip();
        command.args(["dedup", "--threads", "2", "--bands", "4x3"]).arg(input).arg("--out").arg(&out);
        command.args(options).write_stdin(&lines[..]);
        let ended = command.output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned(), out)
    };
    let (code, _, held) = run("held", &crawl, &[]);
    assert_eq!(code, Some(1));
    let limit = 48u64 << 20;
    for (name, input) in [("staged", &*crawl), ("of a stream", Path::new("-"))] {
        let (code, reported, staged) = run(name, input, &["--memory", "48MiB"]);
        assert_eq!(code, Some(1), "{reported}");
        for table in ["pairs.csv", "clusters.csv", "kept.jsonl"] {
            let [expected, got] = [&held, &staged].map(|out| fs::read(out.join(table)).unwrap());
            assert!(expected.len() > 1000);
            // Tables name the input, guarded for spreadsheets where it begins with a dash.
            let called = |bytes: &[u8]| {
                String::from_utf8_lossy(bytes).replace(crawl.to_str().unwrap(), "-").replace("'-", "-")
            };
            let is_same = expected == got || table.ends_with(".csv") && called(&expected) == called(&got);
            assert!(is_same, "{table}, {name}");
        }
        let report: Value = serde_json::from_slice(&fs::read(staged.join("report.json")).unwrap()).unwrap();
        assert_eq!(report["memory"]["on_disk"], true);
        let peak = &report["peak_memory_bytes"];
        assert!(peak.as_u64().unwrap() <= limit, "{peak}");
    }
    // A stream beside a file, which comes behind it, on disk as in memory.
    let other = top.path().join("other.jsonl");
    fs::write(&other, lines.lines().step_by(50).map(|line| line.to_owned() + "\n").collect::<String>())
        .unwrap();
    let other = other.to_str().unwrap();
    let (_, _, held) = run("both held", Path::new("-"), &[other]);
    let (code, reported, staged) = run("both", Path::new("-"), &["--memory", "48MiB", other]);
    assert_eq!(code, Some(1), "{reported}");
    for table in ["pairs.csv", "clusters.csv", "kept.jsonl"] {
        assert!(fs::read(held.join(table)).unwrap() == fs::read(staged.join(table)).unwrap(), "{table}");
    }
    // A file is sketched in less memory than its sketches take, to the same bytes.
    let sketch = |name: &str, options: &[&str]| {
        let out = top.path().join(name);
        let mut command = simflip();
        command.args(["sketch", "-q", "--bands", "4x3"]).arg(&crawl).arg("--out").arg(&out).args(options);
        let reported = command.output().unwrap();
        let made = if out.exists() { contents(&out) } else { BTreeMap::new() };
        (reported.status.code(), made, String::from_utf8_lossy(&reported.stderr).into_owned())
    };
    let (_, expected, _) = sketch("sketches", &["--memory", "2GiB"]);
    for (threads, memory) in [("1", "18MiB"), ("3", "30MiB")] {
        let (code, got, _) = sketch(threads, &["--memory", memory, "--threads", threads]);
        assert!(code == Some(1) && got == expected, "{threads} threads");
    }
    let (code, made, reported) = sketch("none", &["--memory", "16MiB", "--threads", "3"]);
    assert!(code == Some(2) && made.is_empty() && reported.contains("MiB for 3 threads"), "{reported}");
    let left = names_in(top.path());
    assert_eq!(left.len(), 10, "{left:?}");
}

/// Hears which steps a run goes through and what it says, and ends it by a panic at one of them.
#[derive(Default)]
struct Ending {
    at: Option<usize>,
    begun: Mutex<Vec<String>>,
    notes: Mutex<Vec<String>>,
    parts: Mutex<Vec<(u32, u32)>>,
}

impl Progress for Ending {
    fn begin(&self, stage: &str, _: u64, _: &str) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push(stage.to_owned());
        if self.at == Some(begun.len()) {
            std::panic::panic_any(Ended);
        }
    }
    fn advance(&self, _: u64) {}
    fn end(&self) {}
    fn note(&self, message: &str) {
        self.notes.lock().unwrap().push(message.to_owned());
    }
    fn part(&self, number: u32, of: u32) {
        self.parts.lock().unwrap().push((number, of));
    }
}

/// What such a run is ended with.
struct Ended;

/// Runs a job on disk up to its nth step, and tells through which steps it went; none if it has not so many.
fn ended_at(job: &Job, step: usize) -> Option<Vec<String>> {
    let ending = Ending { at: Some(step), ..Ending::default() };
    let run = std::panic::AssertUnwindSafe(|| staged::dedup_on_disk(job, &ending));
    match std::panic::catch_unwind(run) {
        Err(why) => {
            assert!(why.is::<Ended>());
            Some(ending.begun.into_inner().unwrap_or_else(PoisonError::into_inner))
        }
        Ok(done) => {
            done.unwrap();
            None
        }
    }
}

/// What a folder of results holds, the report without what is not the same in any two runs, and no document that shows
/// it.
fn results(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = contents(out);
    let mut report = report(&files["report.json"]);
    report["created"] = Value::Null;
    report["command_line"] = Value::Null;
    files.insert("report.json".to_owned(), serde_json::to_vec(&report).unwrap());
    files.remove("report.html");
    files
}

#[test]
fn a_run_that_is_ended_at_any_step_goes_on_there() {
    let top = tempfile::tempdir().unwrap();
    let (crawl, old) = (top.path().join("crawl"), top.path().join("old"));
    let texts = texts(300, 0, 11);
    let paths = write_files(&crawl, &texts[..200], 3);
    write_files(&old, &texts[200..], 2);
    paths.iter().for_each(|path| with_oddities(path));
    with_boilerplate(&crawl, 120, 11);
    // Where they are read, too.
    let out = crawl.join("out");
    let ignored = Ignored::Counted(GroupBy::All);
    let job = Job { against: vec![old], ignored, ..job(std::slice::from_ref(&crawl), &out, settings(0)) };
    staged::dedup_on_disk(&job, &Silent).unwrap();
    let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    assert!(
        report["boilerplate"]["all"]["boilerplate_lines"].as_u64().unwrap() > 0,
        "{}",
        report["boilerplate"]
    );
    let expected = results(&out);
    fs::remove_dir_all(&out).unwrap();
    let before = names_in(&crawl);
    // Each run goes on from where the one before it was ended.
    let ended = (1..).take_while(|&step| ended_at(&job, step).is_some()).count();
    assert!(ended > 5, "{ended}");
    assert_eq!(results(&out), expected);
    fs::remove_dir_all(&out).unwrap();
    assert_eq!(names_in(&crawl), before);
    // From the beginning to each step, and then to the end.
    let mut passed_over = 0;
    for step in 1.. {
        let Some(begun) = ended_at(&job, step) else { break };
        let rest = Ending::default();
        staged::dedup_on_disk(&job, &rest).unwrap();
        assert_eq!(results(&out), expected, "ended at {begun:?}");
        assert_eq!(rest.parts.into_inner().unwrap(), [1, 2, 3, 4].map(|part| (part, 4)));
        let rest = rest.begun.into_inner().unwrap();
        let done = |name: &&String| ["boilerplate", "join"].contains(&&***name);
        let finished: Vec<_> = begun[..begun.len() - 1].iter().filter(done).collect();
        assert!(finished.iter().all(|name| !rest.contains(name)), "{finished:?} and again {rest:?}");
        passed_over += finished.len();
        fs::remove_dir_all(&out).unwrap();
        assert_eq!(names_in(&crawl), before);
    }
    assert!(passed_over > 5, "{passed_over}");
}

#[test]
fn a_working_folder_is_one_job_s_and_one_run_s() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    let paths = write_files(&at("crawl"), &texts(200, 0, 12), 2);
    let first = job(&paths, &at("out"), quick(0.6));
    let other = Job { settings: quick(0.8), ..first.clone() };
    staged::dedup_on_disk(&other, &Silent).unwrap();
    let expected = results(&at("out"));
    fs::remove_dir_all(at("out")).unwrap();
    // What another job has left is of no use; what is not simflip's stays.
    ended_at(&first, 5).unwrap();
    let sketches = |folder: &Path| {
        let files = contents(folder).into_iter();
        files.filter(|(name, _)| name.ends_with(".sketches")).collect::<Vec<_>>()
    };
    let left = sketches(&at("out.stages"));
    assert_eq!(left.len(), 2);
    for name in ["thesis.tex", "sketches/thesis.tex"] {
        fs::write(at("out.stages").join(name), "years of work").unwrap();
    }
    let heard = Ending::default();
    staged::dedup_on_disk(&other, &heard).unwrap();
    assert_eq!(results(&at("out")), expected);
    assert!(
        heard.notes.lock().unwrap().iter().any(|note| note.contains("thesis.tex is not simflip's and stays"))
    );
    assert_eq!(
        contents(&at("out.stages")).into_keys().collect::<Vec<_>>(),
        ["sketches/thesis.tex", "thesis.tex"]
    );
    assert_eq!(names_in(top.path()), ["crawl", "out", "out.stages"]);
    // Such a folder is no working folder.
    fs::remove_dir_all(at("out")).unwrap();
    let reported = |job: &Job| staged::dedup_on_disk(job, &Silent).unwrap_err().to_string();
    assert!(reported(&other).contains("out.stages is something else; move it away"));
    fs::remove_dir_all(at("out.stages")).unwrap();
    // In memory it is not used, which is reported.
    ended_at(&first, 5).unwrap();
    let heard = Ending::default();
    staged::dedup(&other, &heard).unwrap();
    assert!(heard.notes.lock().unwrap().iter().any(|note| note.contains("out.stages is of another run")));
    fs::remove_dir_all(at("out")).unwrap();
    // What was begun on disk goes on there, however much memory there is.
    let heard = Ending::default();
    staged::dedup(&first, &heard).unwrap();
    assert!(heard.begun.lock().unwrap().contains(&"check sketches".to_owned()) && !at("out.stages").exists());
    fs::remove_dir_all(at("out")).unwrap();
    // An input that has changed makes another job.
    ended_at(&first, 5).unwrap();
    assert_eq!(sketches(&at("out.stages")), left);
    fs::copy(&paths[1], &paths[0]).unwrap();
    ended_at(&first, 2).unwrap();
    let now = sketches(&at("out.stages"));
    assert!(now.iter().zip(&left).any(|(now, left)| now != left) && now.len() == 2);
    // So does one that was written to, whatever its mark looks at.
    ended_at(&first, 5).unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(5);
    fs::File::options().append(true).open(&paths[1]).unwrap().set_modified(later).unwrap();
    let heard = Ending::default();
    staged::dedup_on_disk(&first, &heard).unwrap();
    assert!(!heard.notes.into_inner().unwrap().iter().any(|note| note.contains("going on with")));
    fs::remove_dir_all(at("out")).unwrap();
    // So do other lines that are left out.
    ended_at(&first, 5).unwrap();
    let heard = Ending::default();
    let ignored = Ignored::Counted(GroupBy::All);
    staged::dedup_on_disk(&Job { ignored, ..first.clone() }, &heard).unwrap();
    assert!(!heard.notes.into_inner().unwrap().iter().any(|note| note.contains("going on with")));
    fs::remove_dir_all(at("out")).unwrap();
    // A file that is corrupt is reported, and made again.
    ended_at(&first, 5).unwrap();
    let corrupt =
        contents(&at("out.stages")).into_keys().find(|name| name.ends_with("band-000.edges")).unwrap();
    let mut bytes = fs::read(at("out.stages").join(&corrupt)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(at("out.stages").join(&corrupt), bytes).unwrap();
    let heard = Ending::default();
    staged::dedup_on_disk(&first, &heard).unwrap();
    fs::remove_dir_all(at("out")).unwrap();
    let notes = heard.notes.into_inner().unwrap();
    assert!(
        notes.iter().any(|note| note.contains("going on with what an earlier run has left in ")),
        "{notes:?}"
    );
    let is_healed = |note: &String| note.contains("band-000.edges") && note.contains("counts as missing");
    assert!(notes.iter().any(is_healed), "{notes:?}");
    // While a run is at work there, another is refused.
    struct Second<'a>(&'a Job, Mutex<Vec<String>>);
    impl Progress for Second<'_> {
        fn begin(&self, stage: &str, _: u64, _: &str) {
            if stage == "cluster" {
                let reported = staged::dedup_on_disk(self.0, &Silent).unwrap_err().to_string();
                self.1.lock().unwrap().push(reported);
            }
        }
        fn advance(&self, _: u64) {}
        fn end(&self) {}
        fn note(&self, _: &str) {}
    }
    let second = Second(&first, Mutex::default());
    staged::dedup_on_disk(&first, &second).unwrap();
    let reported = second.1.into_inner().unwrap();
    assert!(reported.len() == 1 && reported[0].contains("another one is at work in "), "{reported:?}");
    // A folder that is called like one is read.
    fs::rename(at("crawl"), at("crawl.stages")).unwrap();
    let named = Job { inputs: vec![at("crawl.stages")], out: at("named"), ..other };
    assert!(staged::dedup_on_disk(&named, &Silent).is_ok());
}

/// Documents with long names, so that few of them take much memory.
fn long_names(crawl: &Path, documents: usize, seed: u64) {
    for path in &write_files(crawl, &texts(documents, 0, seed), 6) {
        let lines = fs::read_to_string(path).unwrap();
        let mut rng = SplitMix64::new(7);
        let long = |line: &str| {
            let more: String = (0..26).map(|_| format!("/{:016x}", rng.next_u64())).collect();
            line.replacen("https://site.example", &format!("https://site.example{more}"), 1) + "\n"
        };
        fs::write(path, lines.lines().map(long).collect::<String>()).unwrap();
    }
}

#[test]
#[ignore = "kills runs for minutes: .ci/nightly"]
fn killed_at_any_moment_the_same_command_goes_on() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    long_names(&crawl, 60_000, 3);
    let command = |out: &Path| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("simflip"));
        command.args(["dedup", "--memory", "48MiB", "--bands", "4x3", "--threads", "2", "--write"]);
        command.args(["kept,removed,documents"]).arg(&crawl).arg("--out").arg(out).stdout(Stdio::null());
        command
    };
    let begun = Instant::now();
    assert!(command(&top.path().join("once")).stderr(Stdio::null()).status().unwrap().success());
    let longest = begun.elapsed();
    let expected = results(&top.path().join("once"));
    let before = names_in(&crawl);
    let mut rng = SplitMix64::new(9);
    let (mut kills, mut passed_over) = (0, 0);
    for round in 0..3 {
        // Within what is read.
        let out = crawl.join(format!("often {round}"));
        let is_done = (0..40).any(|_| {
            let mut child = command(&out).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(longest.mul_f64(rng.unit() * 0.6));
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            let reported = String::from_utf8_lossy(&output.stderr);
            passed_over += u32::from(reported.contains("going on with what an earlier run has left"));
            kills += u32::from(!output.status.success());
            output.status.success() || out.exists()
        });
        if !is_done {
            assert!(command(&out).stderr(Stdio::null()).status().unwrap().success());
        }
        let found = results(&out);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        if let Some((name, bytes)) = found.iter().find(|(name, bytes)| **bytes != expected[*name]) {
            let [got, wanted] = [bytes, &expected[name]].map(|bytes| String::from_utf8_lossy(bytes));
            let same = got.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
            let [got, wanted] = [got, wanted]
                .map(|text| text.chars().skip(same.saturating_sub(80)).take(400).collect::<String>());
            panic!("{name}, byte {same}:\n{got}\n{wanted}");
        }
        fs::remove_dir_all(&out).unwrap();
        // Of a run that was killed when all was in its place, the next one takes the rest away.
        assert!(
            !command(&crawl.join("documents 00.jsonl")).stderr(Stdio::null()).status().unwrap().success()
        );
        let rest: Vec<_> = names_in(&crawl).into_iter().filter(|name| !before.contains(name)).collect();
        assert!(rest.iter().all(|name| name.contains("unfinished")), "{rest:?}");
        // A run whose results are called otherwise would tell of it.
        for path in rest.iter().map(|name| crawl.join(name)) {
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
    assert!(kills > 6 && passed_over > 3, "{kills} runs were killed, {passed_over} went on");
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_on_disk_that_is_interrupted_says_how_to_go_on() {
    const INTERRUPT: i32 = 2;
    let top = tempfile::tempdir().unwrap();
    let (crawl, out) = (top.path().join("crawl"), top.path().join("out"));
    long_names(&crawl, 60_000, 4);
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("simflip"));
    command.args(["dedup", "--memory", "48MiB", "--threads", "1"]).arg(&crawl).arg("--out").arg(&out);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let folder = top.path().join("out.stages");
    let begun = Instant::now();
    while !folder.join("sketches").exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    if !ends_by(&mut child, "-INT", INTERRUPT) {
        return;
    }
    let output = child.wait_with_output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{reported}");
    for words in ["out.stages: the same command goes on from there", "or to be rid of it, remove that folder"]
    {
        assert!(reported.contains(words), "{reported}");
    }
    assert_eq!(names_in(top.path()), ["crawl", "out.stages"]);
}

#[test]
fn the_tables_of_sketches_are_those_of_a_run_in_memory() {
    let top = tempfile::tempdir().unwrap();
    // Tables of sketches have real paths.
    let top = fs::canonicalize(top.path()).unwrap();
    let texts = texts(260, 0, 6);
    let paths = write_files(&top.join("new"), &texts[..180], 3);
    let old = write_files(&top.join("old"), &texts[180..], 2);
    paths.iter().for_each(|path| with_oddities(path));
    let settings = quick(0.6).with(|s| s.linkage = Linkage::Star);
    let (sketches, of_reference) = (top.join("sketches"), top.join("sketches of old"));
    for (paths, to) in [(&paths, &sketches), (&old, &of_reference)] {
        staged::sketch(&sketch_job(paths, to, &settings, ONE), &Silent).unwrap();
    }
    for (name, against) in [("alone", vec![]), ("against", vec![top.join("old")])] {
        let held = top.join(format!("{name} held"));
        let job = Job { against: against.clone(), ..job(&paths, &held, settings.clone()) };
        pipeline::dedup(&job, &Silent).unwrap();
        let mut options = Vec::new();
        if !against.is_empty() {
            options.extend([OsStr::new("--against"), of_reference.as_os_str()]);
        }
        let out = top.join(name);
        simflip().arg("join").arg(&sketches).args(&options).assert().success();
        let cluster = || {
            let mut command = simflip();
            command.arg("cluster").arg(&sketches).args(&options).arg("--tables").arg(&out);
            command
        };
        let reported = String::from_utf8(cluster().assert().success().get_output().stdout.clone()).unwrap();
        assert_eq!(names_in(&out), ["clusters.csv", "pairs.csv"]);
        let rows = ["pairs.csv", "clusters.csv"].map(|table| {
            let got = fs::read_to_string(out.join(table)).unwrap();
            assert!(got == fs::read_to_string(held.join(table)).unwrap(), "{table}, {name}");
            simflip().arg("inspect").arg(out.join(table)).assert().success();
            got.lines().count() - 1
        });
        assert!(
            reported.contains(&format!("{} pairs and {} documents listed.", rows[0], rows[1])),
            "{reported}"
        );
        // Nothing is written over.
        let reported = String::from_utf8(cluster().assert().code(2).get_output().stderr.clone()).unwrap();
        assert!(
            reported.contains("--tables") && reported.contains("something is there already"),
            "{reported}"
        );
    }
    assert!(names_in(&sketches).iter().all(|name| !name.contains("unfinished")));
}

#[test]
fn stages_keep_the_documents_that_one_says() {
    let top = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(top.path()).unwrap();
    let paths = write_files(&top.join("crawl"), &texts(200, 0, 12), 4);
    let inputs = with_urls_and_scores(&top.join("crawl"), &paths, 2);
    let sketches = top.join("sketches");
    let run = |command: &str, arguments: &[&OsStr], code: i32| -> String {
        let mut simflip = simflip();
        let output = simflip.arg(command).args(arguments).assert().code(code).get_output().clone();
        String::from_utf8_lossy(if code == 0 { &output.stdout } else { &output.stderr }).into_owned()
    };
    let inputs: Vec<&OsStr> = inputs.iter().map(|input| input.as_os_str()).collect();
    let sketched =
        [&inputs[..], &["--out".as_ref(), sketches.as_ref(), "--bands".as_ref(), "4x3".as_ref()]].concat();
    run("sketch", &[&sketched[..], &["--score".as_ref(), "score".as_ref()]].concat(), 0);
    for (at, options) in [
        "--keep longest",
        "--keep shortest-url --keep-each host --clusters connected",
        "--keep score:score --keep-count 2",
        "--keep-each folder",
        "--keep input-order",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        let options: Vec<&OsStr> = options.split_whitespace().map(OsStr::new).collect();
        // Stages are given which inputs come first: here the last two, and then the rest.
        let mut inputs = inputs.clone();
        inputs.reverse();
        let named = inputs.iter().take(2).flat_map(|input| [OsStr::new("--priority"), input]);
        let of_stages = match options.contains(&OsStr::new("input-order")) {
            true => options.iter().copied().chain(named).collect(),
            false => options.clone(),
        };
        let [held, tables, kept] = ["held", "tables", "kept"].map(|name| top.join(format!("{name} {at}")));
        let dedup =
            [&inputs[..], &["--out".as_ref(), held.as_ref(), "--bands".as_ref(), "4x3".as_ref()]].concat();
        run("dedup", &[&dedup[..], &["--write".as_ref(), "kept,removed".as_ref()], &options].concat(), 0);
        // How many documents are kept is no matter of the join.
        let mut of_join: Vec<&OsStr> = Vec::new();
        for option in of_stages.chunks(2) {
            if option[0] != "--keep-each" && option[0] != "--keep-count" {
                of_join.extend(option);
            }
        }
        run("join", &[&[sketches.as_os_str()], &of_join[..]].concat(), 0);
        run(
            "cluster",
            &[&[sketches.as_ref(), "--tables".as_ref(), tables.as_ref()], &of_stages[..]].concat(),
            0,
        );
        for table in ["pairs.csv", "clusters.csv"] {
            assert!(
                fs::read(tables.join(table)).unwrap() == fs::read(held.join(table)).unwrap(),
                "{table} {options:?}"
            );
        }
        let apply =
            [&[sketches.as_os_str()], &inputs[..], &["--out".as_ref(), kept.as_ref()], &of_stages].concat();
        let reported = run("apply", &apply, 0);
        let report: Value = serde_json::from_slice(&fs::read(held.join("report.json")).unwrap()).unwrap();
        assert!(reported.starts_with(&format!("Kept {} of ", report["outcome"]["kept"])), "{reported}");
        let removed = |path: &Path| -> Vec<String> {
            let mut table = csv::Reader::from_path(path).unwrap();
            table.records().map(|row| row.unwrap().iter().take(4).collect::<Vec<_>>().join(",")).collect()
        };
        let mut of_files = names_in(&kept);
        of_files.retain(|name| name.ends_with(".removed.csv"));
        let mut got: Vec<String> = of_files.iter().flat_map(|name| removed(&kept.join(name))).collect();
        let mut expected = removed(&held.join("removed.csv"));
        got.sort();
        expected.sort();
        assert!(got == expected && !got.is_empty(), "{options:?}");
    }
    for path in contents(&sketches).keys().map(|name| sketches.join(name)) {
        let (inspection, name) = (simflip::inspect::inspect(&path).unwrap(), path.display());
        assert!(inspection.problems.is_empty(), "{name}: {:?}", inspection.problems);
    }
    // What was corrupted since the join does not decide who stays.
    let corrupt = names_in(&sketches).into_iter().find(|name| name.ends_with(".sketches")).unwrap();
    let whole = fs::read(sketches.join(&corrupt)).unwrap();
    let mut bytes = whole.clone();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs::write(sketches.join(&corrupt), bytes).unwrap();
    let message = run("cluster", &[sketches.as_ref(), "--keep".as_ref(), "shortest-url".as_ref()], 2);
    assert!(message.contains(&corrupt) && message.contains("checksum"), "{message}");
    fs::write(sketches.join(&corrupt), whole).unwrap();
    // Scores that nobody has decide nothing.
    let other = top.join("other");
    let named =
        [&inputs[..], &["--out".as_ref(), other.as_ref(), "--score".as_ref(), "scroe".as_ref()]].concat();
    let mut warned = simflip();
    let warned = warned.arg("sketch").args(&named).assert().success();
    warned.stderr(predicates::str::contains("score scroe: expected a field with numbers or dates"));
    run("join", &[other.as_ref()], 0);
    let message = run("cluster", &[other.as_ref(), "--keep".as_ref(), "score:scroe".as_ref()], 2);
    assert!(message.contains("some document has a number; none has"), "{message}");
    // A folder that is gone since has priority as before.
    let gone = fs::canonicalize(Path::new(inputs[0])).unwrap();
    let inside = gone.parent().unwrap().join("none/../").join(gone.file_name().unwrap());
    let away = gone.with_extension("away");
    fs::rename(&gone, &away).unwrap();
    for stage in ["join", "cluster"] {
        let keep: [&OsStr; 3] = ["--keep".as_ref(), "input-order".as_ref(), "--priority".as_ref()];
        run(stage, &[&[sketches.as_os_str()], &keep[..], &[inside.as_ref()]].concat(), 0);
    }
    fs::rename(&away, &gone).unwrap();
    for (keep, reported) in [
        ("input-order", "sketches have no order of inputs"),
        ("score:other", "simflip sketch --score other reads them"),
        ("longest --priority crawl", "input-order, where --priority says which inputs come first"),
        ("input-order --priority elsewhere", "an input file or folder that was sketched"),
    ] {
        let options: Vec<&OsStr> = keep.split_whitespace().map(OsStr::new).collect();
        let message = run("cluster", &[&[sketches.as_ref(), "--keep".as_ref()], &options[..]].concat(), 2);
        assert!(message.contains(reported), "{message}");
    }
    let message = run(
        "apply",
        &[
            sketches.as_os_str(),
            inputs[0],
            "--out".as_ref(),
            "no".as_ref(),
            "--keep-count".as_ref(),
            "3".as_ref(),
        ],
        2,
    );
    assert!(message.contains("has not made it yet") && !message.contains("no documents"), "{message}");
}

#[test]
fn stages_write_kept_documents_in_as_many_files_as_one_says() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    let crawl = at("crawl");
    write_files(&crawl, &texts(600, 0, 3), 9);
    for entry in fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, crawl.join(path.file_name().unwrap())).unwrap();
    }
    let sketches = at("sketches");
    let settings = quick(0.6).with(|s| s.linkage = Linkage::Star);
    staged::sketch(&sketch_job(std::slice::from_ref(&crawl), &sketches, &settings, ONE), &Silent).unwrap();
    simflip().arg("join").arg(&sketches).assert().success();
    simflip().arg("cluster").arg(&sketches).assert().success();
    let apply = |name: &str, options: &str| {
        let mut command = simflip();
        command.args(["apply", "-q"]).args([&sketches, &crawl]).arg("--out").arg(at(name));
        let output = command.args(options.split_whitespace()).assert().success().get_output().clone();
        (contents(&at(name)), String::from_utf8(output.stdout).unwrap())
    };
    // The kept documents of some files as text, in the order of their names.
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
    let documents = |files: &BTreeMap<String, Vec<u8>>, end: &str| -> Vec<String> {
        let files = files.iter().filter(|(name, _)| name.ends_with(end) && !name.contains("removed"));
        files.flat_map(|(_, bytes)| text(bytes).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let held = Job {
        writes: Writes { documents_parquet: false, ..ALL },
        ..job(std::slice::from_ref(&crawl), &at("held"), settings)
    };
    pipeline::dedup(&held, &Silent).unwrap();
    let kept = contents(&held.out);
    let (one, _) = apply("one", "--kept-files one");
    assert!(!kept["kept.jsonl"].is_empty() && kept["kept.jsonl"] == one["part-00001.jsonl"]);
    let (sized, reported) = apply("sized", "--kept-files 20kB --threads 3");
    assert_eq!(documents(&sized, ".jsonl"), documents(&one, ".jsonl"));
    // Documents of the other formats may be larger alone.
    let is_kept = |name: &&String| name.ends_with(".jsonl");
    assert!(sized.iter().filter(|(name, _)| is_kept(name)).all(|(_, bytes)| bytes.len() <= 20_000));
    // In several units, of which some have several files.
    let parts =
        |end: &str| sized.keys().filter(|name| name.starts_with("part-") && name.ends_with(end)).count();
    assert!(parts(".note") >= 3 && parts(".jsonl") > parts(".note"), "{:?}", sized.keys());
    // Every document that goes is listed, in one list for each unit.
    let lists = |files: &BTreeMap<String, Vec<u8>>| -> BTreeSet<String> {
        let lists = files.iter().filter(|(name, _)| name.ends_with(".removed.csv"));
        lists.flat_map(|(_, bytes)| text(bytes).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    assert_eq!(parts(".removed.csv"), parts(".note"));
    let (each, told_of_each) = apply("each", "");
    let counts = |reported: &str| reported.split(" Peak memory").next().unwrap_or_default().to_owned();
    assert!(
        lists(&sized) == lists(&each) && counts(&reported) == counts(&told_of_each),
        "{reported} {told_of_each}"
    );
    // Its documents are read as those of any folder, and no list of others; and held against.
    for folder in ["sized", "each", "one"] {
        let dedup = |arguments: &[&OsStr]| {
            let mut command = simflip();
            let output =
                command.arg("dedup").arg("-q").args(arguments).assert().success().get_output().clone();
            String::from_utf8(output.stdout).unwrap()
        };
        let [read, against] = ["read", "against"].map(|name| at(&format!("{name} {folder}")));
        let folder = at(folder);
        let number = reported.split(' ').nth(1).unwrap();
        let said = dedup(&[folder.as_ref(), "--out".as_ref(), read.as_ref()]);
        assert!(said.contains(&format!(" {number} documents")), "{said} {reported}");
        dedup(&[crawl.as_ref(), "--against".as_ref(), folder.as_ref(), "--out".as_ref(), against.as_ref()]);
        let report: Value = serde_json::from_slice(&fs::read(against.join("report.json")).unwrap()).unwrap();
        assert_eq!(report["against"]["documents"].to_string(), number);
    }
    // In shards, and begun again.
    apply("shards", "--kept-files 20kB --shard 2/2");
    let (shards, reported) = apply("shards", "--kept-files 20kB");
    assert!(shards == sized && reported.contains("had been written before"), "{reported}");
    for path in sized.keys().filter(|name| name.ends_with(".note")).map(|name| at("sized").join(name)) {
        assert!(simflip::inspect::inspect(&path).unwrap().problems.is_empty());
    }
    // Units are counted through all inputs: fewer of them are refused, and one of them twice.
    let refused = |inputs: &[&Path], out: &str, options: &[&str]| {
        let mut command = simflip();
        command.args(["apply", "-q"]).arg(&sketches).args(inputs).arg("--out").arg(at(out)).args(options);
        String::from_utf8(command.assert().code(2).get_output().stderr.clone()).unwrap()
    };
    let reported =
        refused(&[&crawl.join("documents 01.jsonl")], "sized", &["--kept-files", "20kB", "--shard", "2/2"]);
    assert!(reported.contains("name the same inputs, or another folder"), "{reported}");
    assert!(contents(&at("sized")) == sized);
    fs::create_dir(at("moved")).unwrap();
    fs::copy(crawl.join("documents 01.jsonl"), at("moved/documents 01.jsonl")).unwrap();
    let reported = refused(&[&crawl, &at("moved")], "twice", &[]);
    assert!(reported.contains("one input of its documents") && !at("twice").exists(), "{reported}");
    assert!(refused(&[&crawl], "twice", &["--keep", "input-order"]).contains("no order of inputs"));
    // What was written in other files stays.
    let mut command = simflip();
    command.args(["apply", "-q"]).args([&sketches, &crawl]).arg("--out").arg(at("sized"));
    let reported = command.args(["--kept-files", "6kB"]).assert().code(2).get_output().stderr.clone();
    assert!(String::from_utf8(reported).unwrap().contains("name another folder"));
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn a_plan_says_what_the_job_takes() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    let paths = write_files(&crawl, &texts(9_000, 0, 3), 3);
    let plan = |options: &[&str]| -> Value {
        let output = simflip().args(["plan", "-q", "--json"]).args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let of_files = plan(&[crawl.to_str().unwrap(), "--memory", "14MB"]);
    let sketches = top.path().join("sketches");
    let sketch = sketch_job(&paths, &sketches, &Settings::default(), ONE);
    let documents = staged::sketch(&sketch, &Silent).unwrap().documents as f64;
    let number = |value: &Value| value.as_f64().unwrap();
    let close = |expected: &Value, fact: f64| {
        let ratio = number(expected) / fact;
        assert!((0.75..1.25).contains(&ratio), "{expected} expected, {fact}");
    };
    close(&of_files["documents"], documents);
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

    let month = plan(&["--documents", "3e9", "--memory", "128GiB", "--threads", "16"]);
    assert_eq!((&month["documents"], &month["threads"]), (&3_000_000_000u64.into(), &16.into()));
    assert_eq!(month["stages"].as_array().unwrap().len(), 4);
    assert!(month["too_little"].is_null() && number(&month["most_disk_bytes"]) < 2e12);
    // 40 bytes of every document.
    let small = plan(&["--documents", "3e9", "--memory", "64GiB"]);
    assert!(small["too_little"].as_str().unwrap().contains("it takes 112GiB at least"));
    let tight = plan(&["--documents", "3e9", "--memory", "128GiB", "--disk", "100GB"]);
    assert!(tight["too_little"].as_str().unwrap().contains("of disk is too little"));
    let small = plan(&["--documents", "1e4"]);
    assert_eq!((&small["on_disk"], small["stages"].as_array().unwrap().len()), (&false.into(), 1));
    for (option, reported) in [("--distance=3", "--method simhash"), ("--features=words", "--method simhash")]
    {
        let run = simflip().args(["plan", "--documents", "1e6", option]).assert().code(2);
        let told_now = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(told_now.contains(reported), "{told_now}");
    }
}
