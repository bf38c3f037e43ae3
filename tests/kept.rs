//! Kept pages as they are written: in one file or in one for each input, stored as the inputs are.

use super::place::{Place, gz, words, zst};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;

fn lines(pages: &[usize]) -> Vec<u8> {
    let line = |page: &usize| {
        serde_json::json!({ "id": format!("{page}"), "text": words(*page, 60) }).to_string() + "\n"
    };
    pages.iter().map(line).collect::<String>().into_bytes()
}

fn record(page: usize) -> Vec<u8> {
    let text = words(page, 60);
    let head = "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Date: 2025-01-01T00:00:00Z\r\n";
    format!("{head}WARC-Record-ID: {page}\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n", text.len())
        .into_bytes()
}

/// A file without its compression, and what that is.
fn unpacked(path: &Path) -> (Vec<u8>, &'static str) {
    let bytes = fs::read(path).unwrap();
    let mut plain = Vec::new();
    match bytes[..] {
        [0x1f, 0x8b, ..] => {
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
            (plain, "gzip")
        }
        [0x28, 0xb5, ..] => (zstd::stream::decode_all(&bytes[..]).unwrap(), "zstd"),
        _ => (bytes, "plain"),
    }
}

fn kept(place: &Place, out: &str) -> Vec<String> {
    let entries =
        fs::read_dir(place.at(out)).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name.starts_with("kept")).collect();
    names.sort();
    names
}

#[test]
fn each_input_has_a_file_of_its_own_stored_as_it_is() {
    let place = Place::new();
    place.put("in/a.jsonl", lines(&[1, 2, 3]));
    place.put("in/b.jsonl.gz", gz(&lines(&[3, 4])));
    place.put("in/c.ndjson.zst", zst(&lines(&[5, 1, 6])));
    place.put("in/d.warc.wet.gz", [gz(&record(7)), gz(&record(2)), gz(&record(8))].concat());
    place.put("in/e.wet.zst", [zst(&record(9)), zst(&record(10))].concat());
    place.put("in/f.warc.wet", [record(11), record(9)].concat());
    // The same name in another folder, and nothing that stays.
    place.put("in/more/a.jsonl", lines(&[1, 3]));
    for threads in [1, 5] {
        place.told(&format!("dedup in --out t{threads} --threads {threads} --kept-files each"), 0);
        place.told(&format!("inspect t{threads}"), 0);
    }
    let expected: [(&str, &str, &[u8]); 4] = [
        ("kept.a.jsonl", "plain", &lines(&[1, 2, 3])),
        ("kept.b.jsonl.gz", "gzip", &lines(&[4])),
        ("kept.c.jsonl.zst", "zstd", &lines(&[5, 6])),
        ("kept.a-2.jsonl", "plain", b""),
    ];
    for (name, compression, content) in expected {
        let (bytes, packed) = match content {
            b"" => (fs::read(place.at("t1").join(name)).unwrap(), "plain"),
            _ => unpacked(&place.at("t1").join(name)),
        };
        assert_eq!(
            (packed, String::from_utf8(bytes)),
            (compression, String::from_utf8(content.to_vec())),
            "{name}"
        );
    }
    let records: [(&str, &str, &[usize]); 3] = [
        ("kept.d.warc.wet.gz", "gzip", &[7, 8]),
        ("kept.e.warc.wet.zst", "zstd", &[9, 10]),
        ("kept.f.warc.wet", "plain", &[11]),
    ];
    for (name, compression, pages) in records {
        let (bytes, packed) = unpacked(&place.at("t1").join(name));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("WARC/1.0\r\nWARC-Type: warcinfo\r\n") && packed == compression, "{name}");
        assert!(text.contains(&format!("WARC-Filename: {name}\r\n")));
        let ids: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("WARC-Record-ID: ")).skip(1).collect();
        assert_eq!(ids, pages.iter().map(usize::to_string).collect::<Vec<_>>(), "{name}");
    }
    assert_eq!(kept(&place, "t1").len(), 7);
    for name in kept(&place, "t1") {
        assert!(
            fs::read(place.at("t1").join(&name)).unwrap() == fs::read(place.at("t5").join(&name)).unwrap()
        );
    }
    // The report says which is whose, and the next run finds the pages.
    let report: Value = serde_json::from_slice(&fs::read(place.at("t1/report.json")).unwrap()).unwrap();
    let told: Vec<_> =
        report["files"].as_array().unwrap().iter().map(|row| row["kept_in"].as_str().unwrap()).collect();
    let mut sorted = told.clone();
    sorted.sort();
    assert_eq!(sorted, kept(&place, "t1"));
    assert_eq!((told[0], told[6]), ("kept.a.jsonl", "kept.a-2.jsonl"));
    place.told("dedup t1 --out again", 0);
    let again: Value = serde_json::from_slice(&fs::read(place.at("again/report.json")).unwrap()).unwrap();
    assert_eq!((&again["corpus"]["documents"], &again["outcome"]["kept"]), (&11.into(), &11.into()));
    place.told("dedup in --against t1 --out none-left", 0);
    let left: Value = serde_json::from_slice(&fs::read(place.at("none-left/report.json")).unwrap()).unwrap();
    assert_eq!(left["outcome"]["kept"], 0);
    place.told("dedup in --out t1 --force", 0);
    let told = place.told("dedup in --out x --write none --kept-files each", 2);
    assert!(told.contains("--kept-files has no effect where no kept pages are written"), "{told}");
}

#[test]
fn one_file_of_many_inputs_is_the_same_for_any_threads_and_stays_zstd() {
    let place = Place::new();
    for file in 0..9 {
        let pages: Vec<usize> = (0..40).map(|page| file * 30 + page).collect();
        place.put(&format!("zst/{file}.jsonl.zst"), zst(&lines(&pages)));
        place.put(&format!("mixed/{file}.jsonl"), lines(&pages));
        let records: Vec<Vec<u8>> = pages.iter().map(|&page| record(1_000 + page)).collect();
        let packed = match file % 3 {
            0 => records.concat(),
            1 => records.iter().flat_map(|record| gz(record)).collect(),
            _ => gz(&records.concat()),
        };
        place.put(&format!("mixed/{file}.warc.wet{}", if file % 3 == 0 { "" } else { ".gz" }), packed);
    }
    place.put("mixed/x.jsonl.zst", zst(&lines(&[5_000])));
    let all: Vec<usize> = (0..280).collect();
    for (folder, names) in
        [("zst", &["kept.jsonl.zst"][..]), ("mixed", &["kept.jsonl.gz", "kept.warc.wet.gz"])]
    {
        for threads in [1, 4] {
            place.told(&format!("dedup {folder} --out {folder}-{threads} --threads {threads}"), 0);
            place.told(&format!("inspect {folder}-{threads}"), 0);
        }
        assert_eq!(kept(&place, &format!("{folder}-1")), names);
        for name in names {
            let of = |threads: u32| fs::read(place.at(&format!("{folder}-{threads}")).join(name)).unwrap();
            assert!(of(1) == of(4), "{folder} {name}");
        }
    }
    assert_eq!(unpacked(&place.at("zst-1/kept.jsonl.zst")), (lines(&all), "zstd"));
    let (text, _) = unpacked(&place.at("mixed-4/kept.warc.wet.gz"));
    let text = String::from_utf8(text).unwrap();
    let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("WARC-Record-ID: ")).collect();
    // One first record for all, whose date is that of the first page.
    assert!(ids[0].starts_with("<urn:uuid:") && text.matches("WARC-Type: warcinfo").count() == 1);
    assert_eq!(ids[1..], all.iter().map(|page| (1_000 + page).to_string()).collect::<Vec<_>>());
}

/// A table of these pages, a column of which is nothing to us.
fn table(pages: &[usize], header: &str) -> Vec<u8> {
    let row = |page: &usize| format!("{page},\"{}, \"\"{page}\"\"\r\n\",of its own\r\n", words(*page, 60));
    format!("{header}\r\n{}", pages.iter().map(row).collect::<String>()).into_bytes()
}

#[test]
fn tables_keep_their_columns_and_their_records_as_they_were() {
    let place = Place::new();
    place.put("in/a.csv", table(&[1, 2, 3], "id,text,more"));
    place.put("in/b.csv.gz", gz(&table(&[3, 4, 1], "id,text,more")));
    place.put("in/c.csv", table(&[2, 5], "id,text,other"));
    // A table of something else, in a folder of pages.
    place.put("in/labels.csv", b"a,b,label\n1,2,same\n");
    place.put("none.csv", Vec::new());
    for threads in [1, 5] {
        let told = place.told(&format!("dedup in --out one{threads} --threads {threads}"), 0);
        assert!(told.contains("labels.csv"), "{told}");
        place.told(&format!("inspect one{threads}"), 0);
        assert_eq!(kept(&place, &format!("one{threads}")), ["kept-2.csv.gz", "kept.csv.gz"]);
        let (first, _) = unpacked(&place.at(&format!("one{threads}/kept.csv.gz")));
        let rows = |pages: &[usize]| String::from_utf8(table(pages, "id,text,more")).unwrap();
        let lines = rows(&[1, 2, 3, 4]).replacen("more\r\n", "more\n", 1).replace("its own\r\n", "its own\n");
        assert_eq!(String::from_utf8(first).unwrap(), lines);
        let (second, _) = unpacked(&place.at(&format!("one{threads}/kept-2.csv.gz")));
        assert!(second.starts_with(b"id,text,other\n5,") && second.ends_with(b"of its own\n"));
    }
    place.told("dedup in none.csv --out each --kept-files each", 0);
    assert_eq!(kept(&place, "each"), ["kept.a.csv", "kept.b.csv.gz", "kept.c.csv", "kept.none.csv"]);
    assert_eq!(unpacked(&place.at("each/kept.none.csv")).0, b"");
    // What was kept is pages as well as any, in stages too.
    place.told("dedup one1 --out again", 0);
    for stage in [
        "sketch in none.csv --out sketches",
        "join sketches",
        "cluster sketches",
        "apply sketches in none.csv --out kept",
    ] {
        place.told(stage, 0);
    }
    let tables = |folder: &str| {
        let files = fs::read_dir(place.at(folder)).unwrap().map(|it| it.unwrap().path());
        let mut tables: Vec<Vec<u8>> = files.map(|file| unpacked(&file).0).collect();
        tables.retain(|table| table.starts_with(b"id,text,"));
        tables.sort();
        tables
    };
    assert_eq!(tables("each").len(), 3);
    assert_eq!(tables("kept"), tables("each"));
    // Another column of texts: the report says so, and a check of the result reads it.
    place.put("named.csv", table(&[1, 2, 3], "id,body,more"));
    place.put("named.jsonl", String::from_utf8(lines(&[3, 4])).unwrap().replace("\"text\"", "\"body\""));
    place.told("dedup named.csv named.jsonl --out named --text-field body", 0);
    assert_eq!(place.report("named")["corpus"]["text_field"], "body");
    place.told("inspect named", 0);
    assert_eq!(tables("again"), tables("one1"));
}
