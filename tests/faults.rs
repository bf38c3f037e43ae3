//! Disks that fail, fill up or lose what was not synced: there is a whole result or none, and the same command goes on.
//! `faults/disk.c` is put before the C library, and makes the n-th call fail by which a file is changed.

use crate::cli::simflip;
use crate::place::Place;
use crate::staged::texts;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;

/// The ways in which a disk fails.
const HOW: [&str; 3] = ["full", "once", "lost"];

/// The library that is put before the C library.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, library) =
            (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/disk.c"), folder.join("disk.so"));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let made = std::process::Command::new(compiler)
            .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o"])
            .arg(&library)
            .args(["-ldl", "-lpthread"])
            .status()
            .unwrap();
        assert!(made.success());
        library
    })
}

/// Runs a command whose disk, which is what begins with `below`, fails in a way from a call on.
fn faulty(place: &Place, arguments: &str, below: &str, (how, at): (&str, u64), input: &str) -> Output {
    let mut command = simflip();
    command.current_dir(place.folder()).args(arguments.split_whitespace()).write_stdin(input);
    command.env("LD_PRELOAD", library()).env("FAULTS_BELOW", place.at(below));
    command.env("FAULTS_HOW", how).env("FAULTS_AT", at.to_string()).env("FAULTS_COUNT", place.at("calls"));
    command.output().unwrap()
}

/// The number of calls of the last command that came to its end.
fn calls(place: &Place) -> u64 {
    fs::read_to_string(place.at("calls")).unwrap().trim().parse().unwrap()
}

/// What a run writes, but for its report, which tells times.
fn tables(out: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    ["pairs.csv", "clusters.csv", "kept.jsonl"].map(|name| (name, fs::read(out.join(name)).unwrap())).into()
}

/// Holds a run of `dedup` on failing disks, at so many calls of each way, against one on a sound disk.
fn whole_or_none(options: &str, calls_tried: u64) {
    let place = Place::new();
    let line = |(at, text): (usize, &String)| json!({"id": at, "text": text}).to_string() + "\n";
    place.put("documents.jsonl", texts(150, 0, 3).iter().enumerate().map(line).collect::<String>());
    let arguments = format!("dedup -q documents.jsonl --bands 4x3 --out out {options}");
    let clean = |reported: &str| {
        let output =
            simflip().current_dir(place.folder()).args(arguments.split_whitespace()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{reported}: {err}");
        let tables = tables(&place.at("out"));
        fs::remove_dir_all(place.at("out")).unwrap();
        let left: Vec<_> =
            fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "documents.jsonl" || name == "calls"), "{reported}: {left:?}");
        tables
    };
    let expected = clean("a sound disk");
    faulty(&place, &arguments, "out", ("", 0), "");
    let number = calls(&place);
    fs::remove_dir_all(place.at("out")).unwrap();
    for how in HOW {
        for at in (1..=number).step_by(number.div_ceil(calls_tried) as usize) {
            let output = faulty(&place, &arguments, "out", (how, at), "");
            let (reported, err) =
                (format!("{how} at call {at} of {number}"), String::from_utf8_lossy(&output.stderr));
            // A call whose failure costs nothing may go unheard.
            let code = output.status.code();
            assert!(
                matches!(code, Some(0 | 2)) || how == "lost" && code.is_none(),
                "{reported}: {code:?} {err}"
            );
            assert!(code != Some(2) || err.contains("os error"), "{reported}: {err}");
            assert_eq!(
                code == Some(0) || how == "lost" && place.at("out").exists(),
                place.at("out").exists(),
                "{reported}"
            );
            if place.at("out").exists() {
                assert!(tables(&place.at("out")) == expected, "{reported}");
            }
            assert!(clean(&reported) == expected, "{reported}");
        }
    }
}

#[test]
fn a_disk_that_fails_costs_the_run_and_nothing_else() {
    whole_or_none("", 2);
    whole_or_none("--memory 100MiB", 4);
}

#[test]
#[ignore = "tries many calls: .ci/nightly"]
fn a_disk_that_fails_at_one_of_many_calls_costs_the_run_and_nothing_else() {
    whole_or_none("", u64::MAX);
    whole_or_none("--memory 100MiB", 75);
    whole_or_none("--memory 100MiB --preset removable", 25);
}

#[test]
fn documents_whose_answers_were_synced_outlive_the_machine() {
    let line = |name: String, document: u64| {
        let text: String = (0..60).map(|at| format!("word{} ", document * 100 + at)).collect();
        json!({"url": name, "text": text}).to_string() + "\n"
    };
    let lines: String = (0..60).map(|document| line(format!("p{document}"), document)).collect();
    let asked: String = (0..60).map(|document| line(format!("other{document}"), document)).collect();
    let answers = |output: &Output| -> Vec<Value> {
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // How many documents were answered before the disk failed, and how many of them were forgotten then.
    let forgotten = |sync: &str, how, at| {
        let (place, reported) = (Place::new(), format!("{how} at call {at}"));
        let output = faulty(&place, &format!("seen --index i {sync} --json -"), "i", (how, at), &lines);
        assert_ne!(
            output.status.code(),
            Some(101),
            "{reported}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut again = simflip();
        again.current_dir(place.folder()).args("seen --index i --json -".split(' ')).write_stdin(&asked[..]);
        let again = again.output().unwrap();
        let (given, known) = (answers(&output), answers(&again));
        assert_eq!(known.len(), 60, "{reported}: {}", String::from_utf8_lossy(&again.stderr));
        let document = |answer: &Value| answer["page"].as_str().unwrap()[1..].parse::<usize>().unwrap();
        (given.len(), given.iter().filter(|answer| known[document(answer)]["answer"] != "same").count())
    };
    for how in HOW {
        let counts: Vec<_> = (4..40).step_by(9).map(|at| forgotten("--fsync", how, at)).collect();
        assert!(counts.iter().any(|&(given, _)| given > 0), "{how}: {counts:?}");
        assert!(counts.iter().all(|&(_, forgotten)| forgotten == 0), "{how}: {counts:?}");
    }
    // Without a sync the machine takes answered documents with it, so that is what this disk does.
    assert!((8..40).step_by(4).any(|at| forgotten("", "lost", at).1 > 0));
}
