//! A higher threshold for a result whose sketches were kept.

use crate::cli::{corpus, simflip};
use crate::place::Place;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The files of a result, except its reports.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    files.filter(|(name, _)| !name.starts_with("report.")).collect()
}

/// The report without what no two runs share.
fn report(place: &Place, folder: &str) -> Value {
    let mut report = place.report(folder);
    for field in ["created", "command_line", "fingerprint", "stages", "peak_memory_bytes", "memory"] {
        report.as_object_mut().unwrap().remove(field);
    }
    report
}

/// The bands of a result, as an option has them.
fn bands(place: &Place, folder: &str) -> String {
    let banding = &place.report(folder)["settings"]["sketches"]["both"]["banding"];
    format!("{}x{}", banding["bands"], banding["rows"])
}

/// Holds a result against a new run with a threshold and the bands of the earlier one.
fn is_as_anew(place: &Place, input: &str, similarity: f64, raised: &str) {
    let bands = bands(place, raised);
    let anew = format!("dedup {input} --out anew --similarity {similarity} --bands {bands} --quiet");
    drop(place.run(&format!("{anew} --force --write kept,removed,documents")).assert().success());
    simflip().arg("inspect").arg(place.at(raised)).assert().success();
    let [expected, got] = ["anew", raised].map(|name| files(&place.at(name)));
    assert!(expected.len() > 4 && expected.keys().eq(got.keys()), "{:?} {:?}", expected.keys(), got.keys());
    expected.iter().for_each(|(name, bytes)| assert!(*bytes == got[name], "{name}"));
    assert_eq!(report(place, raised), report(place, "anew"));
}

#[test]
fn a_higher_threshold_gives_what_a_new_run_gives() {
    let place = Place::new();
    let run = |arguments: &str| drop(place.run(arguments).assert().success());
    let data = corpus().display().to_string();
    run(&format!(
        "dedup {data} --out loose --similarity 0.6 --keep-sketches --quiet --write kept,removed,documents"
    ));
    run("rethreshold loose --similarity 0.9 --out stricter --quiet");
    is_as_anew(&place, &data, 0.9, "stricter");
    assert_ne!(files(&place.at("stricter")), files(&place.at("loose")));
    run("rethreshold loose --similarity 0.7 --out stricter --force --quiet --threads 1");
    is_as_anew(&place, &data, 0.7, "stricter");
    run("rethreshold loose --similarity 0.9 --out tables --quiet --write pairs");
    assert_eq!(files(&place.at("tables")).into_keys().collect::<Vec<_>>(), ["clusters.csv", "pairs.csv"]);
    // The same command with the same result once more leaves the sketches where they are.
    run(&format!(
        "dedup {data} --out loose --similarity 0.6 --keep-sketches --quiet --write kept,removed,documents"
    ));
    run("rethreshold loose --similarity 0.8 --out again --quiet --write pairs");
    // What reads a folder does not read sketches.
    assert!(place.at("loose.stages/sketches").is_dir());
}

#[test]
fn documents_of_a_chain_are_chosen_anew() {
    let place = Place::new();
    let words: Vec<String> = (0..200).map(|at| format!("word{at}")).collect();
    let text = |from: usize| words[from..from + 100].to_vec();
    // The third is near the second, which the first removes at 0.5. The others are near the third alone.
    let mut last = text(36);
    last[48..52].fill("other".to_owned());
    let texts = [text(0), text(28), text(36), text(44), last].map(|words| words.join(" "));
    let lines =
        texts.iter().enumerate().map(|(id, text)| format!("{{\"id\": \"p{id}\", \"text\": \"{text}\"}}\n"));
    place.put("documents.jsonl", lines.collect::<String>());
    for command in [
        "dedup documents.jsonl --out loose --similarity 0.5 --keep-sketches --quiet --write kept,removed,documents",
        "rethreshold loose --similarity 0.8 --out stricter --quiet",
    ] {
        drop(place.run(command).assert().success());
    }
    let removed = |name: &str| {
        let table = csv::Reader::from_path(place.at(name).join("removed.csv")).unwrap().into_records();
        table.map(|row| row.unwrap()[2].to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(removed("loose"), ["p1", "p3", "p4"].map(str::to_owned).into());
    assert_eq!(removed("stricter"), ["p2"].map(str::to_owned).into());
    is_as_anew(&place, "documents.jsonl", 0.8, "stricter");
    let least = place.run("rethreshold loose --least-similar 1").output().unwrap();
    let least = String::from_utf8(least.stdout).unwrap();
    assert!(
        least.lines().count() == 1 && least.starts_with("0.5") && least.ends_with("  p0  p1\n"),
        "{least}"
    );
}

#[test]
fn what_cannot_be_joined_again_is_refused() {
    let place = Place::new();
    let data = corpus();
    let run = |arguments: &str| drop(place.run(arguments).assert().success());
    fs::create_dir(place.at("crawl")).unwrap();
    fs::copy(data.join("aptitude.warc.wet.gz"), place.at("crawl/a.warc.wet.gz")).unwrap();
    run("dedup crawl --out plain --quiet --write pairs");
    run("dedup crawl --out kept --quiet --write pairs --keep-sketches");
    run(
        "dedup crawl --out bits --method bphs --distance 3 --verify none --quiet --write pairs --keep-sketches",
    );
    // Few of a bucket were compared, by their sketches, and so the report counts similarities.
    assert!(fs::read_to_string(place.at("bits/report.json")).unwrap().contains("% estimated similarity"));
    let refused = |result: &str, similarity: &str, reported: &str| {
        let error =
            place.reported(&format!("rethreshold {result} --similarity {similarity} --out none --quiet"), 2);
        assert!(error.contains(reported), "{result}: {error}");
        assert!(!place.at("none").exists());
    };
    refused("plain", "0.9", "expected one of dedup --keep-sketches");
    refused("bits", "0.9", "expected one whose pairs were verified, which --verify none does not");
    refused("kept", "0.7", "--similarity 0.7: expected 0.8 to 1");
    refused("kept", "1.1", "--similarity 1.1: expected 0.8 to 1");
    let error = place.reported("rethreshold kept --similarity 0.9 --out plain", 2);
    assert!(error.contains("--force replaces earlier results"), "{error}");
    let error = place.reported("rethreshold kept --similarity 0.9 --out kept --force", 2);
    assert!(error.contains("another folder"), "{error}");
    for (options, reported) in [
        ("--method dial", "--keep-sketches true: expected a run that can go on disk; on disk it cannot go"),
        ("--save-frequencies counts", "on disk it cannot go with --save-frequencies"),
    ] {
        let error = place.reported(&format!("dedup crawl --out none --keep-sketches {options}"), 2);
        assert!(error.contains(reported) && !place.at("none").exists(), "{error}");
    }
    let error = place.reported("dedup - --out none --keep-sketches", 2);
    assert!(error.contains("--keep-sketches true: expected files"), "{error}");
    fs::copy(data.join("debian-faq.warc.wet.gz"), place.at("crawl/b.warc.wet.gz")).unwrap();
    refused("kept", "0.9", "expected one whose input is as it was, and whose sketches are in kept.stages");
    fs::remove_file(place.at("crawl/b.warc.wet.gz")).unwrap();
    run("rethreshold kept --similarity 0.9 --out stricter --quiet");
    fs::remove_dir_all(place.at("kept.stages")).unwrap();
    refused("kept", "0.9", "whose sketches are in kept.stages");
}
