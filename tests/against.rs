//! New documents compared with a reference set.

use super::place::Place;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The text of a document of its own words, with some of them changed.
fn text(document: usize, changed: usize) -> String {
    let word = |at| match at < changed {
        true => format!("changed{} ", document * 1_000 + at),
        false => format!("word{} ", document * 1_000 + at),
    };
    (0..120).map(word).collect()
}

fn line(id: &str, text: &str) -> String {
    serde_json::json!({ "id": id, "text": text }).to_string() + "\n"
}

/// Reference documents in two files and new ones in one.
fn documents() -> Place {
    let place = Place::new();
    place.put("old/a.jsonl", line("a", &text(1, 0)) + &line("b", &text(2, 0)));
    place.put("old/b.jsonl", line("b again", &text(2, 0)) + &line("alone", &text(9, 0)));
    let new = [
        line("copy of a", &text(1, 0)),
        line("near b", &text(2, 1)),
        line("c", &text(3, 0)),
        line("copy of c", &text(3, 0)),
        // An id that a reference document has, too.
        line("alone", &text(4, 0)),
    ];
    place.put("new.jsonl", new.concat());
    place
}

/// What a command says, on standard error and after it on standard output.
fn said(place: &Place, arguments: &str, code: i32) -> String {
    let run = place.run(arguments).assert().code(code);
    String::from_utf8_lossy(&[&run.get_output().stderr[..], &run.get_output().stdout].concat()).into_owned()
}

/// Ids of the kept documents.
fn kept(place: &Place, folder: &str) -> Vec<String> {
    let text = fs::read_to_string(place.at(folder).join("kept.jsonl")).unwrap();
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    text.lines().map(id).collect()
}

fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn what_old_files_hold_goes_and_they_stay_as_they_are() {
    let place = documents();
    let before: Vec<_> = ["old/a.jsonl", "old/b.jsonl"].map(|name| fs::read(place.at(name)).unwrap()).into();
    for clusters in ["connected", "star"] {
        let out = format!("out-{clusters}");
        let reported = said(
            &place,
            &format!(
                "dedup new.jsonl --against old --out {out} --clusters {clusters} --write kept,documents,removed"
            ),
            0,
        );
        assert_eq!(kept(&place, &out), ["c", "alone"], "{clusters}");
        assert!(
            reported.contains("Kept 2 of 5 documents. Removed 3: 2 exact duplicates and 1 near-duplicate, "),
            "{reported}"
        );
        let expected = "Compared with 4 reference documents in 2 files, unchanged: of the documents removed, 1 is an exact \
                        duplicate and 1 is a near-duplicate of these.";
        assert!(reported.contains(expected), "{reported}");

        let report = place.report(&out);
        let against = &report["against"];
        assert_eq!(
            (&against["documents"], &against["exact"], &against["near"]),
            (&4.into(), &1.into(), &1.into())
        );
        assert_eq!((&report["corpus"]["documents"], &report["corpus"]["files"]), (&5.into(), &1.into()));
        assert_eq!(report["files"].as_array().unwrap().len(), 1);
        assert_eq!(against["files"].as_array().unwrap().len(), 2);

        let pairs = rows(&place.at(&out).join("pairs.csv"));
        let ends = |row: &BTreeMap<String, String>| {
            let of = |names: [&str; 4]| names.map(|name| row[name].clone()).join(" ");
            (of(["a_id", "a_side", "a_file", "a_row"]), of(["b_id", "b_side", "b_file", "b_row"]))
        };
        let listed: Vec<_> = pairs.iter().map(ends).collect();
        let expected = [
            ("copy of a new new.jsonl 0", "a reference old/a.jsonl 0"),
            ("near b new new.jsonl 1", "b reference old/a.jsonl 1"),
            ("c new new.jsonl 2", "copy of c new new.jsonl 3"),
        ];
        assert_eq!(listed, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));

        let clusters = rows(&place.at(&out).join("clusters.csv"));
        let reported: Vec<_> =
            clusters.iter().map(|row| format!("{} {} {}", row["id"], row["side"], row["kept"])).collect();
        let expected = [
            "copy of a new false",
            "a reference true",
            "near b new false",
            "b reference true",
            "b again reference true",
            "c new true",
            "copy of c new false",
        ];
        assert_eq!(reported, expected);

        let documents = rows(&place.at(&out).join("documents.csv"));
        let reported: Vec<_> =
            documents.iter().map(|row| format!("{} -> {}", row["id"], row["representative"])).collect();
        let expected = ["copy of a -> a", "near b -> b", "c -> c", "copy of c -> c", "alone -> alone"];
        assert_eq!(reported, expected);
        assert_eq!(rows(&place.at(&out).join("removed.csv")).len(), 3);
        said(&place, &format!("inspect {out}"), 0);
        said(&place, &format!("review {out} --page {out}.html"), 0);
    }
    let after: Vec<_> = ["old/a.jsonl", "old/b.jsonl"].map(|name| fs::read(place.at(name)).unwrap()).into();
    assert_eq!(before, after);
}

#[test]
fn a_result_stands_for_the_documents_that_it_kept() {
    let place = documents();
    said(&place, "dedup old --out first", 0);
    said(&place, "dedup new.jsonl --against first --out second", 0);
    assert_eq!(kept(&place, "second"), ["c", "alone"]);
    assert_eq!(place.report("second")["not_read"], serde_json::json!([]));
    // Month by month: nothing that any month kept comes again.
    place.put("next.jsonl", &(line("c", &text(3, 1)) + &line("d", &text(5, 0))));
    said(&place, "dedup next.jsonl --against first --against second --out third", 0);
    assert_eq!(kept(&place, "third"), ["d"]);
    // A result without documents says nothing about documents.
    said(&place, "dedup old --out bare --write pairs", 0);
    let reported = said(&place, "dedup new.jsonl --against bare --out none", 2);
    assert!(reported.contains("--against bare: expected a result with its kept documents"), "{reported}");
}

#[test]
fn reference_files_are_neither_written_over_nor_read_twice() {
    let place = documents();
    let reported = said(&place, "dedup new.jsonl --against old/a.jsonl --out old --force", 2);
    assert!(reported.contains("expected"), "{reported}");
    said(&place, "dedup old --out first", 0);
    let reported = said(&place, "dedup new.jsonl --against first --out first --force", 2);
    assert!(reported.contains("--force would remove it"), "{reported}");
    // A file that is named as both is a reference file.
    said(&place, "dedup new.jsonl old/a.jsonl --against old --out both", 0);
    let report = place.report("both");
    assert_eq!((&report["corpus"]["documents"], &report["against"]["both"]), (&5.into(), &1.into()));
    let reported = said(&place, "dedup old/a.jsonl --against old --out none", 2);
    assert!(reported.contains("each of these is named as both"), "{reported}");
    let reported = said(&place, "dedup new.jsonl --against nowhere --out none", 2);
    assert!(reported.contains("nowhere"), "{reported}");
    place.put("empty.jsonl", "");
    let reported = said(&place, "dedup new.jsonl --against empty.jsonl --out none", 2);
    assert!(reported.contains("--against: 1 file was read"), "{reported}");
    said(&place, "seen --index documents.seen old", 0);
    let reported = said(&place, "dedup new.jsonl --against documents.seen --out none", 2);
    assert!(reported.contains("simflip seen asks an index"), "{reported}");
}

#[test]
fn reference_and_new_files_may_be_of_different_formats_and_any_number_of_threads_reads_them() {
    let place = documents();
    let record = |text: &str| {
        let length = text.len();
        format!("WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {length}\r\n\r\n{text}\r\n\r\n")
    };
    place.put("wet/a.warc.wet", &(record(&text(1, 0)) + &record(&text(2, 0))));
    for threads in [1, 4] {
        said(
            &place,
            &format!("dedup new.jsonl --against wet --out t{threads} --threads {threads} --keep longest"),
            0,
        );
    }
    for name in ["pairs.csv", "clusters.csv", "kept.jsonl"] {
        assert_eq!(
            fs::read(place.at("t1").join(name)).unwrap(),
            fs::read(place.at("t4").join(name)).unwrap()
        );
    }
    assert_eq!(kept(&place, "t1"), ["c", "alone"]);
    assert!(!place.at("t1/kept.warc.wet.gz").exists(), "no file for documents that are not written");
    said(&place, "inspect t1", 0);
}

#[test]
fn an_old_result_without_some_of_its_kept_documents_is_refused() {
    let place = documents();
    place.put("old/c.jsonl", (20..40).map(|document| line("more", &text(document, 0))).collect::<String>());
    said(&place, "dedup old --out old-result --kept-files 1KiB --quiet", 0);
    said(&place, "dedup new.jsonl --against old-result --out first", 0);
    let kept = fs::read_dir(place.at("old-result")).unwrap().map(|entry| entry.unwrap().path());
    let kept =
        kept.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("kept")).min().unwrap();
    let aside = place.at("aside");
    fs::rename(&kept, &aside).unwrap();
    let reported = said(&place, "dedup new.jsonl --against old-result --out second", 2);
    let name = kept.file_name().unwrap().to_string_lossy().into_owned();
    assert!(reported.contains(&format!("{name} is gone")), "{reported}");
    assert!(!place.at("second").exists());
}
