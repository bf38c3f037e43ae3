//! A higher threshold for an existing result.

use crate::cli::{corpus, simflip};
use crate::place::Place;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Ids by what clusters.csv or removed.csv says of them.
fn removed(folder: &Path) -> BTreeSet<String> {
    let mut table = csv::Reader::from_path(folder.join("clusters.csv")).unwrap();
    let rows = table.records().map(Result::unwrap).filter(|row| &row[4] == "false");
    rows.map(|row| row[0].to_owned()).collect()
}

fn is_in_order(folder: &Path) {
    simflip().arg("inspect").arg(folder).assert().success();
}

#[test]
fn a_derived_result_is_in_order_and_only_takes_removals_back() {
    let place = Place::new();
    let run = |arguments: &str| drop(place.run(arguments).assert().success());
    let data = corpus();
    run(&format!("dedup {} --out loose --similarity 0.6 --quiet", data.display()));
    run("rethreshold loose --similarity 0.9 --out derived --write kept --quiet");
    run("rethreshold loose --similarity 0.6 --out same --write kept --quiet");
    // Where all near pairs are listed, two documents that come back may be near each other.
    run(&format!("dedup {} --out all --similarity 0.6 --all-pairs --quiet --write pairs", data.display()));
    run("rethreshold all --similarity 0.97 --out fewer --quiet");
    is_in_order(&place.at("fewer"));
    let [loose, derived, same] = ["loose", "derived", "same"].map(|name| removed(&place.at(name)));
    ["derived", "same"].iter().for_each(|name| is_in_order(&place.at(name)));
    assert_eq!(same, loose);
    assert!(derived.len() < loose.len() && derived.is_subset(&loose));
    assert_eq!(
        fs::read(place.at("same/pairs.csv")).unwrap(),
        fs::read(place.at("loose/pairs.csv")).unwrap(),
        "the same threshold gives the same"
    );
    let (before, after) = (place.report("loose"), place.report("same"));
    for field in ["kept", "removed", "exact_duplicates", "near_duplicates", "removed_text_bytes", "clusters"]
    {
        assert_eq!(before["outcome"][field], after["outcome"][field], "{field}");
    }
    let kept = |name: &str| {
        let files = fs::read_dir(place.at(name)).unwrap().map(|entry| entry.unwrap().path());
        let is_kept =
            |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("kept");
        let mut files: Vec<_> = files.filter(is_kept).collect();
        files.sort();
        files.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(kept("same"), kept("loose"));
    let report = place.report("derived");
    assert_eq!(report["derived"]["threshold"], 0.6);
    assert_eq!(report["settings"]["verification"]["estimate"], 0.9);
    assert!(
        report["warnings"][0].as_str().unwrap().contains("raised from 0.6 to 0.9"),
        "{}",
        report["warnings"]
    );
    assert!(report["recall_estimate"].is_null());
    let table = csv::Reader::from_path(place.at("derived/removed.csv")).unwrap().into_records();
    assert_eq!(table.map(|row| row.unwrap()[2].to_owned()).collect::<BTreeSet<_>>(), derived);
}

#[test]
fn a_new_run_may_keep_more_documents() {
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
        "dedup documents.jsonl --out loose --similarity 0.5 --quiet",
        "dedup documents.jsonl --out again --similarity 0.8 --quiet",
        "rethreshold loose --similarity 0.8 --out derived --quiet",
    ] {
        drop(place.run(command).assert().success());
    }
    let [loose, again, derived] = ["loose", "again", "derived"].map(|name| removed(&place.at(name)));
    assert_eq!(loose, ["p1", "p3", "p4"].map(str::to_owned).into());
    assert_eq!(derived, ["p3", "p4"].map(str::to_owned).into());
    assert_eq!(again, ["p2"].map(str::to_owned).into());
}

#[test]
fn copies_of_a_text_that_comes_back_are_removed_for_it() {
    let place = Place::new();
    let words: Vec<String> = (0..100).map(|at| format!("word{at}")).collect();
    let near = words[..90].join(" ") + " others";
    let line = |id: usize, text: &str| format!("{{\"id\": \"p{id}\", \"text\": \"{text}\"}}\n");
    let documents = [&words.join(" "), &near, &near, &words.join(" ")];
    place.put(
        "documents.jsonl",
        documents.iter().enumerate().map(|(id, text)| line(id, text)).collect::<String>(),
    );
    drop(place.run("dedup documents.jsonl --out result --similarity 0.5 --quiet").assert().success());
    assert_eq!(removed(&place.at("result")).len(), 3);
    drop(place.run("rethreshold result --similarity 0.95 --out stricter --quiet").assert().success());
    is_in_order(&place.at("stricter"));
    assert_eq!(removed(&place.at("stricter")), ["p2", "p3"].map(str::to_owned).into());
    assert_eq!(place.report("stricter")["outcome"]["clusters"], 2);
    let least = place.run("rethreshold result --least-similar 5").output().unwrap();
    let least = String::from_utf8(least.stdout).unwrap();
    assert!(
        least.lines().count() == 1 && least.starts_with("0.8") && least.ends_with("  p0  p1\n"),
        "{least}"
    );
}

#[test]
fn old_documents_stay_and_what_cannot_be_derived_is_refused() {
    let place = Place::new();
    let data = corpus();
    let path = data.display();
    let run = |arguments: &str| drop(place.run(arguments).assert().success());
    run(&format!("dedup {path} --out old --quiet --write kept"));
    run(&format!("dedup {path} --against old --out new --similarity 0.5 --quiet"));
    run("rethreshold new --similarity 0.95 --out higher --quiet");
    is_in_order(&place.at("higher"));
    assert!(
        place.report("higher")["outcome"]["kept"].as_u64() >= place.report("new")["outcome"]["kept"].as_u64()
    );
    run(&format!("dedup {path} --out each --keep-count 2 --quiet --write pairs"));
    run(&format!("dedup {path} --out chains --clusters connected --similarity 0.5 --quiet --write pairs"));
    run(&format!("dedup {path} --out plain --method simhash --verify none --quiet --write pairs"));
    for (result, similarity, reported) in [
        ("new", "0.4", "--similarity 0.4: expected 0.5 to 1"),
        ("each", "0.9", "without --keep-count and --keep-each"),
        ("chains", "0.9", "not one of a chain (--clusters connected)"),
        ("plain", "0.9", "expected a result whose pairs were verified, which --verify none does not"),
    ] {
        let error = place.reported(&format!("rethreshold {result} --similarity {similarity} --out none"), 2);
        assert!(error.contains(reported), "{result}: {error}");
        assert!(!place.at("none").exists());
    }
    let error = place.reported("rethreshold new --similarity 0.9 --out higher", 2);
    assert!(error.contains("--force replaces earlier results"), "{error}");
}
