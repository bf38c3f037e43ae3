//! Kept documents as they are written: in one file or in one for each input, stored as the inputs are.

use super::place::{Place, gz, names_in, unpacked, words, zst};
use serde_json::Value;
use std::fs;

fn lines(documents: &[usize]) -> Vec<u8> {
    let line = |document: &usize| {
        serde_json::json!({ "id": format!("{document}"), "text": words(*document, 60) }).to_string() + "\n"
    };
    documents.iter().map(line).collect::<String>().into_bytes()
}

fn record(document: usize) -> Vec<u8> {
    let text = words(document, 60);
    let head = "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Date: 2025-01-01T00:00:00Z\r\n";
    format!("{head}WARC-Record-ID: {document}\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n", text.len())
        .into_bytes()
}

fn kept(place: &Place, out: &str) -> Vec<String> {
    names_in(&place.at(out)).into_iter().filter(|name| name.starts_with("kept")).collect()
}

#[test]
fn tables_with_tabs_are_called_so() {
    let place = Place::new();
    let table = format!("id\ttext\na\t{}\nb\t{}\n", words(1, 60), words(2, 60));
    place.put("in/t.tsv", &table);
    place.put("in/u.tsv.gz", gz(table.replace('a', "c").as_bytes()));
    place.reported("dedup in --out result --kept-files each", 0);
    assert_eq!(fs::read_to_string(place.at("result/kept.t.tsv")).unwrap(), table);
    assert!(place.at("result/kept.u.tsv.gz").is_file());
    place.reported("inspect result", 0);
    // They are the documents that an earlier result has.
    place.reported("dedup in/t.tsv --against result --out again", 0);
    assert_eq!(place.report("again")["outcome"]["kept"], 0);
    // Of fewer of them nobody would know.
    place.put("result/kept.t.tsv", &table[..table.len() / 2]);
    let reported = place.reported("dedup in/t.tsv --against result --out third", 2);
    assert!(reported.contains("kept.t.tsv has") && reported.contains("name the file"), "{reported}");
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
        place.reported(&format!("dedup in --out t{threads} --threads {threads} --kept-files each"), 0);
        place.reported(&format!("inspect t{threads}"), 0);
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
    for (name, compression, documents) in records {
        let (bytes, packed) = unpacked(&place.at("t1").join(name));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("WARC/1.0\r\nWARC-Type: warcinfo\r\n") && packed == compression, "{name}");
        assert!(text.contains(&format!("WARC-Filename: {name}\r\n")));
        let ids: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("WARC-Record-ID: ")).skip(1).collect();
        assert_eq!(ids, documents.iter().map(usize::to_string).collect::<Vec<_>>(), "{name}");
    }
    assert_eq!(kept(&place, "t1").len(), 7);
    for name in kept(&place, "t1") {
        assert!(
            fs::read(place.at("t1").join(&name)).unwrap() == fs::read(place.at("t5").join(&name)).unwrap()
        );
    }
    // The report says which is whose, and the next run finds the documents.
    let report: Value = serde_json::from_slice(&fs::read(place.at("t1/report.json")).unwrap()).unwrap();
    let reported: Vec<_> =
        report["files"].as_array().unwrap().iter().map(|row| row["kept_in"].as_str().unwrap()).collect();
    let mut sorted = reported.clone();
    sorted.sort();
    assert_eq!(sorted, kept(&place, "t1"));
    assert_eq!((reported[0], reported[6]), ("kept.a.jsonl", "kept.a-2.jsonl"));
    place.reported("dedup t1 --out again", 0);
    let again: Value = serde_json::from_slice(&fs::read(place.at("again/report.json")).unwrap()).unwrap();
    assert_eq!((&again["corpus"]["documents"], &again["outcome"]["kept"]), (&11.into(), &11.into()));
    place.reported("dedup in --against t1 --out none-left", 0);
    let left: Value = serde_json::from_slice(&fs::read(place.at("none-left/report.json")).unwrap()).unwrap();
    assert_eq!(left["outcome"]["kept"], 0);
    place.reported("dedup in --out t1 --force", 0);
    let reported = place.reported("dedup in --out x --write none --kept-files each", 2);
    assert!(
        reported.contains("--kept-files has no effect where no kept documents are written"),
        "{reported}"
    );
}

#[test]
fn a_long_line_in_a_member_of_its_own_goes_with_its_checksum() {
    let place = Place::new();
    let mut members: Vec<Vec<u8>> = (0..6)
        .map(|document| {
            let text = words(document * 1_000, if document % 2 == 0 { 300 } else { 150_000 });
            gz((serde_json::json!({ "id": format!("{document}"), "text": text }).to_string() + "\n")
                .as_bytes())
        })
        .collect();
    let checksum = members[3].len() - 6;
    members[3][checksum] ^= 1;
    place.put("in.jsonl.gz", members.concat());
    for threads in [1, 4] {
        let reported = place.reported(&format!("dedup in.jsonl.gz --out t{threads} --threads {threads}"), 1);
        assert!(reported.contains("in.jsonl.gz: record 3, offset"), "{reported}");
        assert_eq!(place.report(&format!("t{threads}"))["corruption"]["documents_lost"], 1);
        let (bytes, _) = unpacked(&place.at(&format!("t{threads}/kept.jsonl.gz")));
        assert_eq!(bytes.split_inclusive(|&byte| byte == b'\n').count(), 5, "{threads} threads");
    }
}

#[test]
fn one_file_of_many_inputs_is_the_same_for_any_threads_and_stays_zstd() {
    let place = Place::new();
    for file in 0..9 {
        let documents: Vec<usize> = (0..40).map(|document| file * 30 + document).collect();
        place.put(&format!("zst/{file}.jsonl.zst"), zst(&lines(&documents)));
        place.put(&format!("mixed/{file}.jsonl"), lines(&documents));
        let records: Vec<Vec<u8>> = documents.iter().map(|&document| record(1_000 + document)).collect();
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
            place.reported(&format!("dedup {folder} --out {folder}-{threads} --threads {threads}"), 0);
            place.reported(&format!("inspect {folder}-{threads}"), 0);
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
    // One first record for all, whose date is that of the first document.
    assert!(ids[0].starts_with("<urn:uuid:") && text.matches("WARC-Type: warcinfo").count() == 1);
    assert_eq!(ids[1..], all.iter().map(|document| (1_000 + document).to_string()).collect::<Vec<_>>());
}

#[test]
fn many_small_files_are_kept_as_one_large_file_is() {
    let place = Place::new();
    let documents: Vec<usize> = (0..300).collect();
    place.put("one/0.jsonl", lines(&documents));
    for document in &documents {
        place.put(&format!("many/{document:03}.jsonl"), lines(&[*document]));
        place.put(&format!("packed/{document:03}.jsonl.gz"), gz(&lines(&[*document])));
        place.put(&format!("mixed/{document:03}.jsonl{}", if document % 70 == 9 { ".gz" } else { "" }), {
            let lines = lines(&[*document]);
            if document % 70 == 9 { gz(&lines) } else { lines }
        });
    }
    let kept = |input: &str, options: &str| {
        let out = format!("of-{input}{}", options.replace(' ', ""));
        place.reported(&format!("dedup {input} --out {out}{options}"), 0);
        let names = kept(&place, &out);
        let unpacked: Vec<_> = names.iter().map(|name| unpacked(&place.at(&out).join(name)).0).collect();
        (names, unpacked.concat())
    };
    let (names, one) = kept("one", "");
    assert_eq!((&names[..], one.len()), (&["kept.jsonl".to_owned()][..], lines(&documents).len()));
    for (input, name) in [("many", "kept.jsonl"), ("packed", "kept.jsonl.gz"), ("mixed", "kept.jsonl.gz")] {
        for options in ["", " --threads 1", " --threads 5"] {
            let (names, text) = kept(input, options);
            assert_eq!(names, [name], "{input}{options}");
            assert!(text == one, "{input}{options}");
        }
        let (names, text) = kept(input, " --kept-files 20kB");
        assert!(names.len() > 2 && text == one, "{input}: {names:?}");
    }
}

/// A table of these documents, a column of which is nothing to us.
fn table(documents: &[usize], header: &str) -> Vec<u8> {
    let row = |document: &usize| {
        format!("{document},\"{}, \"\"{document}\"\"\r\n\",of its own\r\n", words(*document, 60))
    };
    format!("{header}\r\n{}", documents.iter().map(row).collect::<String>()).into_bytes()
}

#[test]
fn tables_keep_their_columns_and_their_records_as_they_were() {
    let place = Place::new();
    place.put("in/a.csv", table(&[1, 2, 3], "id,text,more"));
    place.put("in/b.csv.gz", gz(&table(&[3, 4, 1], "id,text,more")));
    place.put("in/c.csv", table(&[2, 5], "id,text,other"));
    // A table of something else, in a folder of documents.
    place.put("in/labels.csv", b"a,b,label\n1,2,same\n");
    place.put("none.csv", Vec::new());
    for threads in [1, 5] {
        let reported = place.reported(&format!("dedup in --out one{threads} --threads {threads}"), 0);
        assert!(reported.contains("labels.csv"), "{reported}");
        place.reported(&format!("inspect one{threads}"), 0);
        assert_eq!(kept(&place, &format!("one{threads}")), ["kept-2.csv", "kept.csv.gz"]);
        let (first, _) = unpacked(&place.at(&format!("one{threads}/kept.csv.gz")));
        let rows = |documents: &[usize]| String::from_utf8(table(documents, "id,text,more")).unwrap();
        let lines = rows(&[1, 2, 3, 4]).replacen("more\r\n", "more\n", 1).replace("its own\r\n", "its own\n");
        assert_eq!(String::from_utf8(first).unwrap(), lines);
        let (second, _) = unpacked(&place.at(&format!("one{threads}/kept-2.csv")));
        assert!(second.starts_with(b"id,text,other\n5,") && second.ends_with(b"of its own\n"));
    }
    place.reported("dedup in none.csv --out each --kept-files each", 0);
    assert_eq!(kept(&place, "each"), ["kept.a.csv", "kept.b.csv.gz", "kept.c.csv", "kept.none.csv"]);
    assert_eq!(unpacked(&place.at("each/kept.none.csv")).0, b"");
    // Columns are the same, whatever stands before their names.
    place.put("same/a.csv", b"id,text\n1,a text\n");
    place.put("same/b.csv", b"\xef\xbb\xbf\n\nid,text\n2,another\n");
    place.reported("dedup same --out together", 0);
    assert_eq!(kept(&place, "together"), ["kept.csv"]);
    // What was kept is documents as well as any, in stages too.
    place.reported("dedup one1 --out again", 0);
    for stage in [
        "sketch in none.csv --out sketches",
        "join sketches",
        "cluster sketches",
        "apply sketches in none.csv --out kept",
    ] {
        place.reported(stage, 0);
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
    place.reported("dedup named.csv named.jsonl --out named --text-field body", 0);
    assert_eq!(place.report("named")["corpus"]["text_field"], "body");
    place.reported("inspect named", 0);
    assert_eq!(tables("again"), tables("one1"));
}

#[test]
fn files_of_a_size_are_filled_and_known_as_kept_documents() {
    const SIZE: u64 = 4 << 10;
    let place = Place::new();
    let documents: Vec<usize> = (0..100).collect();
    for (file, documents) in documents.chunks(20).enumerate() {
        let records: Vec<Vec<u8>> = documents.iter().map(|&document| record(200 + document)).collect();
        let members: Vec<u8> = records.iter().flat_map(|record| gz(record)).collect();
        // Copied as they are, or compressed anew.
        let (ending, bytes) = if file % 2 == 0 { (".gz", members) } else { ("", records.concat()) };
        place.put(&format!("in/{file}.warc.wet{ending}"), bytes);
        place.put(&format!("in/{file}.jsonl"), lines(documents));
        place.put(
            &format!("in/{file}.csv"),
            table(&documents.iter().map(|document| 400 + document).collect::<Vec<_>>(), "id,text,more"),
        );
    }
    place.put("in/other.csv", table(&[600, 601], "id,text,other"));
    // All of it is on another document, and so it is in no file.
    place.put("in/z.jsonl", lines(&[3, 4]));
    for (out, options) in
        [("one", ""), ("t1", " --threads 1 --kept-files 4KiB"), ("t5", " --threads 5 --kept-files 4KiB")]
    {
        place.reported(&format!("dedup in --out {out}{options}"), 0);
        place.reported(&format!("inspect {out}"), 0);
    }
    let names = kept(&place, "t1");
    assert_eq!(kept(&place, "t5"), names);
    for name in &names {
        let of = |out: &str| fs::read(place.at(out).join(name)).unwrap();
        assert!(of("t1") == of("t5"), "{name}");
    }
    let head = |text: &str| match text.find("Content-Type: application/warc-fields") {
        Some(_) => text.match_indices("WARC/1.0\r\n").nth(1).map_or(text.len(), |(at, _)| at),
        None if text.starts_with("id,text,") => text.find('\n').unwrap() + 1,
        None => 0,
    };
    let read = |out: &str, name: &str| String::from_utf8(unpacked(&place.at(out).join(name)).0).unwrap();
    let mut seen = 0;
    for one in kept(&place, "one") {
        let (stem, ending) = one.split_once('.').unwrap();
        let numbered = (1..).map(|number| format!("{stem}-{number:05}.{ending}"));
        let files: Vec<String> = numbered.take_while(|name| names.contains(name)).collect();
        seen += files.len();
        let whole = read("one", &one);
        let mut together = whole[..head(&whole)].to_owned();
        let mut ids = std::collections::HashSet::new();
        for (at, name) in files.iter().enumerate() {
            let stored = fs::metadata(place.at("t1").join(name)).unwrap().len();
            let is_last = at + 1 == files.len();
            assert!(stored <= SIZE && (is_last || stored > SIZE * 3 / 4), "{name}: {stored}");
            let text = read("t1", name);
            if ending.starts_with("warc") {
                assert!(text.contains(&format!("WARC-Filename: {name}\r\n")));
                assert!(ids.insert(
                    text.lines().find(|line| line.starts_with("WARC-Record-ID")).unwrap().to_owned()
                ));
            }
            together += &text[head(&text)..];
        }
        assert!(together == whole, "{one}");
    }
    assert_eq!((seen, kept(&place, "one").len()), (names.len(), 4));
    let report = place.report("t1");
    let rows = report["files"].as_array().unwrap();
    let of = |path: &str| rows.iter().find(|row| row["path"].as_str().unwrap().ends_with(path)).unwrap();
    assert_eq!(of("other.csv")["kept_in"], "kept-2-00001.csv");
    assert!(of("other.csv").get("kept_to").is_none() && of("z.jsonl")["kept_in"].is_null());
    assert_eq!(of("0.jsonl")["kept_in"], "kept-00001.jsonl");
    // From where the one before ends to where the next begins, or one file on.
    let number = |name: &Value| name.as_str().map(|name| name[5..10].parse::<usize>().unwrap());
    for pair in ["0.jsonl", "1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl"].windows(2) {
        let [first, last] = ["kept_in", "kept_to"].map(|field| number(&of(pair[0])[field]));
        let end = last.or(first).unwrap();
        let next = number(&of(pair[1])["kept_in"]).unwrap();
        assert!(next == end || next == end + 1, "{pair:?}");
    }
    // Documents of a result, as new ones and as reference documents; and the result gives way to another.
    place.reported("dedup t1 --out again", 0);
    assert_eq!(place.report("again")["outcome"]["kept"], place.report("one")["outcome"]["kept"]);
    place.reported("dedup in --against t1 --out none-left --kept-files 1MiB", 0);
    assert_eq!(place.report("none-left")["outcome"]["kept"], 0);
    assert_eq!(
        kept(&place, "none-left"),
        ["kept-00001.csv", "kept-00001.jsonl", "kept-00001.warc.wet.gz", "kept-2-00001.csv"]
    );
    place.reported("inspect none-left", 0);
    place.put("t5/kept-00099.jsonl", lines(&[7]));
    let reported = place.reported("dedup in --out t5 --force", 2);
    assert!(reported.contains("kept-00099.jsonl is in it and would be lost"), "{reported}");
    let reported = place.reported("inspect t5", 2);
    assert!(reported.contains("documents in the files of kept documents"), "{reported}");
    place.reported("dedup in --out t1 --force", 0);
    assert_eq!(kept(&place, "t1"), kept(&place, "one"));
    for size in ["2", "0MiB", "many", "4 KiBs", "each "] {
        let reported = place.run("dedup in --out x --kept-files").arg(size).assert().code(2);
        let reported = String::from_utf8(reported.get_output().stderr.clone()).unwrap();
        assert!(reported.contains("expected one, each, or the size of a file with its unit"), "{reported}");
    }
}
