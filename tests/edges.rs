//! Nothing of a user's is lost: what is written over, what is left behind, what is passed over, and what of a
//! run survives when its input does not.

use super::cli::flipside;
use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A line of JSON with a page of its own words.
fn line(i: usize) -> String {
    let text: String = (0..40).map(|word| format!("word{} ", i * 1_000 + word)).collect();
    serde_json::json!({ "id": format!("page {i}"), "text": text }).to_string() + "\n"
}

fn lines(pages: std::ops::Range<usize>) -> String {
    pages.map(line).collect()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn report(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// A folder of its own for a test, and commands that run there.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn run(&self, arguments: &str) -> Command {
        let mut command = flipside();
        command.current_dir(self.0.path()).args(arguments.split(' '));
        command
    }

    /// Runs it, and gives what it said on standard error.
    fn told(&self, arguments: &str, code: i32) -> String {
        let run = self.run(arguments).assert().code(code);
        String::from_utf8(run.get_output().stderr.clone()).unwrap()
    }
}

#[test]
fn frequencies_are_saved_over_nothing_but_frequencies() {
    let place = Place::new();
    place.put("in/a.jsonl", lines(0..9));
    let thesis = place.put("thesis.txt", "years of work");
    let save = "dedup in --out out --weighting tf-idf --save-frequencies";
    let told = place.told(&format!("{save} thesis.txt"), 2);
    assert!(told.contains("--save-frequencies thesis.txt: expected a new file or an earlier file of"), "{told}");
    assert_eq!(fs::read_to_string(thesis).unwrap(), "years of work");
    let told = place.told(&format!("{save} in/a.jsonl"), 2);
    assert!(told.contains("--save-frequencies in/a.jsonl"), "{told}");
    assert_eq!(fs::read_to_string(place.at("in/a.jsonl")).unwrap(), lines(0..9));
    place.told(&format!("{save} words.freq"), 0);
    fs::remove_dir_all(place.at("out")).unwrap();
    // Frequencies are replaced, but not where the run reads them, under whatever name.
    place.told(&format!("{save} words.freq"), 0);
    let before = fs::read(place.at("words.freq")).unwrap();
    fs::hard_link(place.at("words.freq"), place.at("twin")).unwrap();
    let told = place.told("dedup in twin --out other --save-frequencies words.freq", 2);
    assert!(told.contains("this run reads twin"), "{told}");
    assert_eq!(fs::read(place.at("words.freq")).unwrap(), before);
    assert!(!place.at("other").exists());
}

#[test]
fn force_spares_what_the_run_reads_and_saves() {
    let place = Place::new();
    place.put("a.jsonl", lines(0..9));
    place.told("dedup a.jsonl --out res", 0);
    let before = names(&place.at("res"));
    let kept = fs::read(place.at("res/kept.jsonl.gz")).unwrap();
    let refused = |arguments: &str, what: &str| {
        let told = place.told(arguments, 2);
        assert!(told.contains("--force would remove it") && told.contains(what), "{arguments}: {told}");
        assert_eq!(names(&place.at("res")), before);
        assert_eq!(fs::read(place.at("res/kept.jsonl.gz")).unwrap(), kept);
    };
    refused("dedup res/kept.jsonl.gz --out res --force", "res/kept.jsonl.gz is in this one");
    refused("dedup res --out res --force", "kept.jsonl.gz");
    refused("dedup a.jsonl --out res --force --save-frequencies res/words.freq", "res/words.freq");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("res/kept.jsonl.gz", place.at("link.jsonl.gz")).unwrap();
        std::os::unix::fs::symlink("res", place.at("latest")).unwrap();
        refused("dedup link.jsonl.gz --out res --force", "kept.jsonl.gz");
        refused("dedup res/kept.jsonl.gz --out latest --force", "res/kept.jsonl.gz");
    }
    // What a user put there stays, whatever it is called.
    place.put("res/kept-2.parquet", "PAR1 a thesis PAR1");
    let told = place.told("dedup a.jsonl --out res --force", 2);
    assert!(told.contains("kept-2.parquet is in it and would be lost"), "{told}");
    fs::remove_file(place.at("res/kept-2.parquet")).unwrap();
    fs::create_dir(place.at("res/review.html")).unwrap();
    place.told("dedup a.jsonl --out res --force", 2);
    fs::remove_dir(place.at("res/review.html")).unwrap();
    place.told("dedup a.jsonl --out res --force", 0);
    assert!(place.told("dedup a.jsonl --out -", 2).contains("- is none"));
}

#[test]
fn earlier_results_of_version_1_are_replaced_by_force() {
    let place = Place::new();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results-v1/checked");
    for name in names(&old) {
        place.put(&format!("out/{name}"), fs::read(old.join(&name)).unwrap());
    }
    place.put("a.jsonl", lines(0..9));
    place.told("dedup a.jsonl --out out --force", 0);
    assert_eq!(report(&place.at("out"))["corpus"]["documents"], 9);
}

/// Waits until something is so.
#[cfg(unix)]
fn wait_for(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Begins a run that reads standard input, and waits until it has begun its folder and a copy of some of it.
#[cfg(unix)]
fn begun(place: &Place) -> (std::process::Child, std::process::ChildStdin) {
    fs::create_dir_all(place.at("tmp")).unwrap();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("flipside"))
        .current_dir(place.0.path())
        .env("TMPDIR", place.at("tmp"))
        .args(["dedup", "-", "--out", "out"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(lines(0..2_000).as_bytes()).unwrap();
    let copied = || fs::read_dir(place.at("tmp")).unwrap().any(|e| e.unwrap().metadata().unwrap().len() > 0);
    wait_for(|| copied() && names(place.0.path()).iter().any(|name| name.starts_with("out.unfinished-")));
    (child, input)
}

#[cfg(unix)]
fn kill(child: &std::process::Child, signal: &str) {
    let status = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_nothing_behind() {
    use std::os::unix::process::ExitStatusExt;
    for (signal, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        let place = Place::new();
        let (mut child, input) = begun(&place);
        kill(&child, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(number), "{signal}");
        drop(input);
        assert_eq!(names(place.0.path()), ["tmp"], "{signal}");
        assert_eq!(names(&place.at("tmp")), Vec::<String>::new(), "{signal}");
    }
}

#[cfg(unix)]
#[test]
fn what_a_killed_run_left_is_never_read_and_taken_away_by_the_next() {
    let place = Place::new();
    let (mut child, input) = begun(&place);
    kill(&child, "-KILL");
    child.wait().unwrap();
    drop(input);
    let left = names(place.0.path()).into_iter().find(|name| name.ends_with(|c: char| c != 'k')).unwrap();
    assert!(left.starts_with("out.unfinished-"), "{left}");
    // As if it had come as far as its kept pages.
    place.put(&format!("{left}/kept.jsonl.gz"), gz(lines(0..50).as_bytes()));
    place.put("a.jsonl", lines(0..9));
    for input in [".", &*format!("a.jsonl {left}")] {
        let told = place.told(&format!("dedup {input} --out other --force"), 0);
        assert!(told.contains("1 unfinished result") || told.contains("unfinished results"), "{told}");
        assert_eq!(report(&place.at("other"))["corpus"]["documents"], 9);
    }
    let mut run = place.run("dedup - --out out");
    run.env("TMPDIR", place.at("tmp")).write_stdin(lines(0..9)).assert().success();
    assert_eq!(names(place.0.path()), ["a.jsonl", "other", "out", "tmp"]);
    assert_eq!(names(&place.at("tmp")), Vec::<String>::new());
}

#[test]
fn a_folder_tells_what_it_holds_that_is_not_read() {
    let place = Place::new();
    place.put("in/a.jsonl", lines(0..3));
    place.put("in/b.json.gz", gz(lines(3..6).as_bytes()));
    place.put("in/c.json", "{\"pages\": 7}\n");
    place.put("in/d.json", "{\n  \"text\": \"x\"\n}\n");
    place.put("in/more/e.json", lines(6..8));
    place.put("in/README.md", "words");
    place.told("dedup in/a.jsonl --out in/res", 0);
    let told = place.told("dedup in --out out", 0);
    let expected = "Not read, as folders hold them beside pages: 3 files of other names (in/README.md, in/c.json, \
                    in/d.json); 1 folder of earlier results (in/res).";
    assert!(told.contains(expected), "{told}");
    let report = report(&place.at("out"));
    assert_eq!(report["corpus"]["documents"], 8);
    assert!(report["warnings"].as_array().unwrap().iter().any(|warning| warning == expected), "{report}");
    assert!(place.told("seen --index i in", 0).contains(expected));
    place.put("other/x.txt", "words");
    assert!(place.told("dedup other --out none", 2).contains("1 file of another name (other/x.txt)"));
}
