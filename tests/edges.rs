//! Nothing of a user's is lost: what is written over, what is left behind, what is passed over, and what of a
//! run survives when its input does not.

#[cfg(unix)]
use super::place::ends_by;
use super::place::{Place, gz, names_in, unpacked, words};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

/// A line of JSON with a document of its own words.
fn line(i: usize) -> String {
    serde_json::json!({ "id": format!("document {i}"), "text": words(i, 40) }).to_string() + "\n"
}

fn lines(documents: std::ops::Range<usize>) -> String {
    documents.map(line).collect()
}

#[test]
fn frequencies_are_saved_over_nothing_but_frequencies() {
    let place = Place::new();
    place.put("in/a.jsonl", lines(0..9));
    let thesis = place.put("thesis.txt", "years of work");
    let save = "dedup in --out out --method simhash --weighting tf-idf --save-frequencies";
    let reported = place.reported(&format!("{save} thesis.txt"), 2);
    assert!(
        reported.contains("--save-frequencies thesis.txt: expected a new file or an earlier file of"),
        "{reported}"
    );
    assert_eq!(fs::read_to_string(thesis).unwrap(), "years of work");
    let reported = place.reported(&format!("{save} in/a.jsonl"), 2);
    assert!(reported.contains("--save-frequencies in/a.jsonl"), "{reported}");
    assert_eq!(fs::read_to_string(place.at("in/a.jsonl")).unwrap(), lines(0..9));
    place.reported(&format!("{save} words.freq"), 0);
    fs::remove_dir_all(place.at("out")).unwrap();
    // Frequencies are replaced, but not where the run reads them, under whatever name.
    place.reported(&format!("{save} words.freq"), 0);
    let before = fs::read(place.at("words.freq")).unwrap();
    fs::hard_link(place.at("words.freq"), place.at("twin")).unwrap();
    let reported = place.reported("dedup in twin --out other --save-frequencies words.freq", 2);
    assert!(reported.contains("this run reads twin"), "{reported}");
    assert_eq!(fs::read(place.at("words.freq")).unwrap(), before);
    assert!(!place.at("other").exists());
}

#[test]
fn a_command_that_is_given_again_has_its_result() {
    let place = Place::new();
    place.put("in/a.jsonl", lines(0..9));
    place.put("in/b.jsonl", lines(5..12));
    place.reported("dedup in --out res", 0);
    let report = || fs::read(place.at("res/report.json")).unwrap();
    let before = report();
    let again = place.run("dedup in --out res").assert().code(0).get_output().clone();
    let reported = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(reported.contains("res is the result of this command already"), "{reported}");
    assert!(String::from_utf8_lossy(&again.stdout).contains("Kept 12 of 16 documents"));
    assert!(report() == before);
    // Another command, and the same of other files, is refused as ever.
    let refused = |command: &str| {
        let reported = place.reported(command, 2);
        assert!(reported.contains("something is there already"), "{command}: {reported}");
        assert!(report() == before);
    };
    refused("dedup in --out res --similarity 0.9");
    refused("dedup in/a.jsonl --out res");
    place.put("in/c.jsonl", lines(20..21));
    refused("dedup in --out res");
    fs::remove_file(place.at("in/c.jsonl")).unwrap();
    place.reported("dedup in --out res", 0);
    let written = |name: &str| fs::metadata(place.at(name)).unwrap().modified().unwrap();
    let set_written = |name: &str, time: SystemTime| {
        fs::File::options().append(true).open(place.at(name)).unwrap().set_modified(time).unwrap();
    };
    let (b, time) = (lines(5..12), written("in/b.jsonl"));
    place.put("in/b.jsonl", &b);
    refused("dedup in --out res");
    // Other text of the same length, with the same time or an older one.
    for time in [time, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)] {
        place.put("in/b.jsonl", b.replacen("document 5", "document X", 1));
        set_written("in/b.jsonl", time);
        refused("dedup in --out res");
    }
    place.put("in/b.jsonl", &b);
    set_written("in/b.jsonl", time);
    place.reported("dedup in --out res", 0);
    // A file of the result that is gone, or is of another length.
    let kept = fs::read(place.at("res/kept.jsonl")).unwrap();
    fs::remove_file(place.at("res/kept.jsonl")).unwrap();
    refused("dedup in --out res");
    place.put("res/kept.jsonl", &kept[1..]);
    refused("dedup in --out res");
    place.put("res/kept.jsonl", &kept);
    place.reported("dedup in --out res", 0);
    // Another version.
    let other = String::from_utf8(report()).unwrap().replacen(env!("CARGO_PKG_VERSION"), "0.0.1", 1);
    place.put("res/report.json", &other);
    assert!(place.reported("dedup in --out res", 2).contains("something is there already"));
    // Files of settings, frequencies and boilerplate.
    let with_menu = |i: usize| format!("Home, all articles, the shop, about us\n{}", words(i, 40));
    let menu: String =
        (0..9).map(|i| serde_json::json!({ "text": with_menu(i) }).to_string() + "\n").collect();
    place.put("menu.jsonl", menu);
    let simhash = "--method simhash --weighting tf-idf";
    let makes = [
        ("settings.json", "", "--settings settings.json", ["--similarity 0.9", "--similarity 0.6"]),
        ("words.freq", "--save-frequencies words.freq", "--frequencies words.freq", [simhash; 2]),
        (
            "lines.boiler",
            "--boilerplate-by file --save-boilerplate lines.boiler",
            "--boilerplate lines.boiler",
            [""; 2],
        ),
    ];
    let typed =
        |parts: &[&str]| parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ");
    for (file, save, named, options) in makes {
        let make = |number: usize, input: &str| {
            place.reported(
                &typed(&["dedup", input, options[number], save, "--out", &format!("{file}-{number}")]),
                0,
            );
            if save.is_empty() {
                fs::copy(place.at(&format!("{file}-{number}/report.json")), place.at(file)).unwrap();
            }
        };
        make(0, "in");
        let method = if file == "words.freq" { simhash } else { "" };
        let command = typed(&["dedup in", method, named, "--out", &format!("of-{file}")]);
        place.reported(&command, 0);
        assert!(place.reported(&command, 0).contains("is the result of this command already"));
        make(1, "menu.jsonl");
        assert!(place.reported(&command, 2).contains("something is there already"), "{command}");
    }
}

#[test]
fn force_spares_what_the_run_reads_and_saves() {
    let place = Place::new();
    place.put("a.jsonl", lines(0..9));
    place.reported("dedup a.jsonl --out res", 0);
    let before = names_in(&place.at("res"));
    let kept = fs::read(place.at("res/kept.jsonl")).unwrap();
    let refused = |arguments: &str, what: &str| {
        let reported = place.reported(arguments, 2);
        assert!(
            reported.contains("--force would remove it") && reported.contains(what),
            "{arguments}: {reported}"
        );
        assert_eq!(names_in(&place.at("res")), before);
        assert_eq!(fs::read(place.at("res/kept.jsonl")).unwrap(), kept);
    };
    refused("dedup res/kept.jsonl --out res --force", "res/kept.jsonl is in this one");
    refused("dedup res --out res --force", "kept.jsonl");
    refused("dedup a.jsonl --out res --force --save-frequencies res/words.freq", "res/words.freq");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("res/kept.jsonl", place.at("link.jsonl")).unwrap();
        std::os::unix::fs::symlink("res", place.at("latest")).unwrap();
        refused("dedup link.jsonl --out res --force", "kept.jsonl");
        refused("dedup res/kept.jsonl --out latest --force", "res/kept.jsonl");
    }
    // What a user put there stays, whatever it is called.
    place.put("res/kept-2.parquet", "PAR1 a thesis PAR1");
    let reported = place.reported("dedup a.jsonl --out res --force", 2);
    assert!(reported.contains("kept-2.parquet is in it and would be lost"), "{reported}");
    fs::remove_file(place.at("res/kept-2.parquet")).unwrap();
    fs::create_dir(place.at("res/review.html")).unwrap();
    place.reported("dedup a.jsonl --out res --force", 2);
    fs::remove_dir(place.at("res/review.html")).unwrap();
    place.reported("dedup a.jsonl --out res --force", 0);
    assert!(place.reported("dedup a.jsonl --out -", 2).contains("- is none"));
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
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("simflip"))
        .current_dir(place.folder())
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
    wait_for(|| copied() && names_in(place.folder()).iter().any(|name| name.starts_with("out.unfinished-")));
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
        if !ends_by(&mut child, signal, number) {
            continue;
        }
        assert_eq!(child.wait().unwrap().signal(), Some(number), "{signal}");
        drop(input);
        assert_eq!(names_in(place.folder()), ["tmp"], "{signal}");
        assert_eq!(names_in(&place.at("tmp")), Vec::<String>::new(), "{signal}");
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
    let left = names_in(place.folder()).into_iter().find(|name| name.starts_with("out.")).unwrap();
    assert!(left.starts_with("out.unfinished-") && !left.ends_with("lock"), "{left}");
    // As if it had come as far as its kept documents.
    place.put(&format!("{left}/kept.jsonl.gz"), gz(lines(0..50).as_bytes()));
    place.put("a.jsonl", lines(0..9));
    for input in [".", &*format!("a.jsonl {left}")] {
        let reported = place.reported(&format!("dedup {input} --out other --force"), 0);
        assert!(
            reported.contains("1 unfinished result") || reported.contains("unfinished results"),
            "{reported}"
        );
        assert!(!reported.contains("other.unfinished"), "what this run makes itself is told: {reported}");
        assert_eq!(place.report("other")["corpus"]["documents"], 9);
    }
    let mut run = place.run("dedup - --out out");
    run.env("TMPDIR", place.at("tmp")).write_stdin(lines(0..9)).assert().success();
    assert_eq!(names_in(place.folder()), ["a.jsonl", "other", "out", "tmp"]);
    assert_eq!(names_in(&place.at("tmp")), Vec::<String>::new());
}

#[test]
fn titles_with_few_features_are_counted_in_a_warning_that_says_how_to_compare_them() {
    let place = Place::new();
    let title =
        |mark: &str| format!("{{\"text\": \"a short guide to mending old wooden boats today{mark}\"}}\n");
    place.put("titles.jsonl", title("") + &title("!"));
    let expected = "2 documents have fewer than 8 features and were compared by exact text alone; --min-features 1 or \
                    --method both compares them.";
    for method in ["simhash", "minhash"] {
        let reported = place.reported(&format!("dedup titles.jsonl --out {method} --method {method}"), 0);
        assert!(reported.contains(expected), "{reported}");
        let report = place.report(method);
        assert_eq!((&report["outcome"]["removed"], &report["warnings"][0]), (&0.into(), &expected.into()));
    }
    for (out, advised) in [("one", "--method simhash --min-features 1"), ("both", "--method both")] {
        let reported = place.reported(&format!("dedup titles.jsonl --out {out} {advised}"), 0);
        assert!(!reported.contains("features"), "{reported}");
        assert_eq!(place.report(out)["outcome"]["removed"], 1);
    }
    let reported = place.reported("dedup titles.jsonl --out several --min-features 8", 0);
    assert!(reported.contains("exact text alone; --min-features 1 compares them."), "{reported}");
}

#[test]
fn a_folder_tells_what_it_holds_that_is_not_read() {
    let place = Place::new();
    place.put("in/a.jsonl", lines(0..3));
    place.put("in/b.json.gz", gz(lines(3..6).as_bytes()));
    place.put("in/c.json", "{\"documents\": 7}\n");
    place.put("in/d.json", "{\n  \"text\": \"x\"\n}\n");
    place.put("in/more/e.json", lines(6..8));
    place.put("in/README.md", "words");
    // An array; objects on one line; and a table in UTF-16.
    place.put("in/f.json", format!("[{}]", line(8)));
    place.put("in/g.json", lines(9..11).replace('\n', ""));
    let table = format!("id,text\r\n1,{}\r\n", words(11, 40));
    place.put(
        "in/h.csv",
        table.encode_utf16().fold(vec![0xff, 0xfe], |all, unit| [all, unit.to_le_bytes().to_vec()].concat()),
    );
    place.reported("dedup in/a.jsonl --out in/res", 0);
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", place.at("in/link")).unwrap();
    let reported = place.reported("dedup in --out out", 0);
    let expected = "Skipped in folders: 1 file of another format (in/README.md); 2 .json and .csv files without texts \
                    (in/c.json, in/d.json); 1 JSON array, of which jq -c '.[]' makes lines (in/f.json); 1 folder of earlier \
                    results (in/res); 1 unreadable entry (in/link).";
    assert!(reported.contains(expected), "{reported}");
    let report = place.report("out");
    assert_eq!(report["corpus"]["documents"], 11);
    assert!(report["warnings"].as_array().unwrap().iter().any(|warning| warning == expected), "{report}");
    let row = |path: &str, reason: &str, kind: &str| serde_json::json!({ "path": path, "reason": reason, "kind": kind });
    let all = serde_json::json!([
        row("in/README.md", "other-name", ".md"),
        row("in/c.json", "no-documents", ".json"),
        row("in/d.json", "no-documents", ".json"),
        row("in/f.json", "json-array", ".json"),
        row("in/link", "cannot-look", ""),
        row("in/res", "earlier-result", ""),
    ]);
    assert_eq!(report["not_read"], all);
    assert!(fs::read_to_string(place.at("out/report.html")).unwrap().contains("README.md</td>"));
    assert!(place.reported("seen --index i in", 0).contains(expected));
    place.put("other/x.doc", "words");
    assert!(place.reported("dedup other --out none", 2).contains("1 file of another format (other/x.doc)"));
    place.put("tables/a.csv", "id,body\n1,words\n");
    let reported = place.reported("dedup tables --out none --text-field typo", 2);
    let expected = "tables/a.csv has no field \"typo\"; --text-field names another one of id, body";
    assert!(reported.contains(expected), "{reported}");
}

#[test]
fn what_many_files_are_that_are_not_read_is_reported_by_their_endings() {
    let place = Place::new();
    place.put("in/a.jsonl", lines(0..3));
    for (n, kind) in [(12, "jpg"), (3, "tar.gz"), (1, "")] {
        (0..n).for_each(|i| drop(place.put(&format!("in/more/{i}.{kind}"), "x")));
    }
    let reported = place.reported("dedup in --out out", 0);
    let expected = "16 files of other formats (12 .jpg, 3 .tar.gz, 1 without an ending: in/more/0., in/more/0.jpg, \
                    in/more/0.tar.gz, in/more/1.jpg, in/more/1.tar.gz, …).";
    assert!(reported.contains(expected), "{reported}");
    assert_eq!(place.report("out")["not_read"].as_array().unwrap().len(), 16);
}

/// A WET record of its own words.
fn record(i: usize) -> Vec<u8> {
    let text: String = (0..40).map(|word| format!("word{} ", i * 1_000 + word)).collect();
    format!(
        "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: https://pier.example/{i}\r\n\
         WARC-Date: 2024-05-18T01:58:10Z\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n",
        text.len()
    )
    .into_bytes()
}

/// A gzip member whose header has these flags, and these fields behind its first ten bytes.
fn odd_member(content: &[u8], flags: u8, fields: &[u8]) -> Vec<u8> {
    let mut member = gz(content);
    member[3] = flags;
    member.splice(10..10, fields.iter().copied());
    member
}

#[test]
fn an_odd_member_in_front_of_the_first_kept_document_costs_nothing() {
    let name = [vec![b'n'; 200_000], vec![0]].concat();
    let members = [
        ("a wrong checksum of the header", odd_member(&record(0), 2, &[0xab, 0xcd])),
        ("a long name", odd_member(&record(0), 8, &name)),
    ];
    for (what, first) in members {
        let place = Place::new();
        let rest: Vec<u8> = (1..9).flat_map(|i| gz(&record(i))).collect();
        place.put("a.warc.wet.gz", [first, rest].concat());
        place.reported("dedup a.warc.wet.gz --out out", 0);
        assert_eq!(place.report("out")["outcome"]["kept"], 9, "{what}");
        place.reported("inspect out", 0);
        // By standard input its name does not tell what it is.
        let mut run = place.run("dedup - --out by-stream");
        run.write_stdin(fs::read(place.at("a.warc.wet.gz")).unwrap()).assert().success();
    }
}

/// A run through the library whose `change` comes between reading and writing.
fn changed_meanwhile(place: &Place, change: impl Fn(&Place) + Sync) -> simflip::pipeline::Summary {
    struct Changing<F>(F, std::sync::Once);
    impl<F: Fn() + Sync> simflip::pipeline::Progress for Changing<F> {
        fn begin(&self, stage: &str, _: u64, _: &str) {
            if stage == "write results" {
                self.1.call_once(&self.0);
            }
        }
        fn advance(&self, _: u64) {}
        fn end(&self) {}
        fn note(&self, _: &str) {}
    }
    let job = simflip::pipeline::Job {
        inputs: vec![place.at("in")],
        out: place.at("out"),
        ..simflip::pipeline::Job::default()
    };
    simflip::pipeline::dedup(&job, &Changing(|| change(place), std::sync::Once::new())).unwrap()
}

/// A change of the input of a run.
type InputChange = fn(&Place);

#[test]
fn what_vanishes_or_changes_after_it_was_read_costs_its_own_documents_alone() {
    let changes: [(&str, InputChange, usize); 6] = [
        ("gone", |place| fs::remove_file(place.at("in/b")).unwrap(), 10),
        ("emptied", |place| drop(place.put("in/b", "")), 10),
        ("replaced", |place| drop(place.put("in/b", lines(500..600))), 10),
        ("cut", |place| drop(place.put("in/b", lines(10..14))), 6),
        ("one changed", |place| drop(place.put("in/b", lines(10..20).replace("word15003", "word15004"))), 1),
        ("grown", |place| drop(place.put("in/b", lines(10..25))), 0),
    ];
    for (what, change, lost) in changes {
        for (name, packed) in [("b.jsonl", false), ("b.jsonl.gz", true)] {
            let place = Place::new();
            place.put("in/a.jsonl", lines(0..10));
            let pack = |text: &[u8]| if packed { gz(text) } else { text.to_vec() };
            place.put(&format!("in/{name}"), pack(lines(10..20).as_bytes()));
            let summary = changed_meanwhile(&place, |place| {
                // The change is described for a file b; it is made to the one that was read.
                fs::write(place.at("in/b"), "").unwrap();
                change(place);
                match fs::read(place.at("in/b")) {
                    Ok(bytes) => {
                        fs::write(place.at("in").join(name), pack(&bytes)).unwrap();
                        fs::remove_file(place.at("in/b")).unwrap();
                    }
                    Err(_) => fs::remove_file(place.at("in").join(name)).unwrap(),
                }
            });
            let report = place.report("out");
            let what = format!("{what}, {name}: {}", report["corruption"]);
            assert_eq!(summary.corrupt, lost as u64, "{what}");
            assert_eq!(report["corruption"]["documents_lost"], lost, "{what}");
            assert_eq!(
                (&report["corpus"]["documents"], &report["outcome"]["kept"]),
                (&20.into(), &20.into())
            );
            let listed = report["corruption"]["listed"].as_array().unwrap();
            assert!(listed.iter().all(|piece| piece["kind"] == "changed"), "{what}");
            let mut named: Vec<&str> =
                listed.iter().filter_map(|piece| piece["detail"].as_str()?.split(' ').next()).collect();
            named.dedup();
            assert_eq!(named.len(), lost, "each lost document is named: {what}");
            let kept = if packed { "out/kept.jsonl.gz" } else { "out/kept.jsonl" };
            let kept = String::from_utf8(unpacked(&place.at(kept)).0).unwrap();
            assert_eq!(kept.lines().count(), 20 - lost, "{what}");
            assert!(kept.lines().all(|line| lines(0..20).contains(line)), "{what}");
            assert!(
                ["pairs.csv", "clusters.csv", "report.html"].iter().all(|f| place.at("out").join(f).exists())
            );
        }
    }
}

#[test]
fn an_archive_replaced_after_it_was_read_gives_no_document_of_another_kind() {
    let wet = |documents: std::ops::Range<usize>| documents.flat_map(|i| gz(&record(i))).collect::<Vec<u8>>();
    let place = Place::new();
    place.put("in/a.warc.wet.gz", wet(0..5));
    place.put("in/b.warc.wet.gz", wet(10..15));
    // The same sizes of members at the same places, other documents in them.
    let summary = changed_meanwhile(&place, |place| drop(place.put("in/b.warc.wet.gz", wet(20..25))));
    assert_eq!(summary.corrupt, 5);
    place.reported("dedup out/kept.warc.wet.gz --out again", 0);
    assert_eq!(place.report("again")["corpus"]["documents"], 5);
}

#[test]
fn legal_input_is_not_corrupt_and_odd_input_is_repaired_unless_strict() {
    let place = Place::new();
    place.put("in/a.jsonl", lines(0..5));
    place.put("in/none.jsonl", "");
    place.put("in/none.jsonl.gz", gz(b""));
    place.put("in/null.jsonl", "{\"text\": null}\n");
    let odd = [b"{\"text\": \"caf\xe9\"}\n".to_vec(), br#"{"text": "half \ud83d"}"#.to_vec()].concat();
    place.put("in/odd.jsonl", odd);
    let reported = place.reported("dedup in --out out", 0);
    assert!(!reported.contains("corrupt"), "{reported}");
    let lenient = place.report("out");
    assert_eq!((&lenient["corpus"]["documents"], &lenient["corruption"]["total"]), (&7.into(), &0.into()));
    let warned = |what: &str| {
        lenient["warnings"].as_array().unwrap().iter().any(|w| w.as_str().unwrap().contains(what))
    };
    assert!(
        warned("2 documents hold bytes that are no UTF-8") && warned("1 record has no text but null"),
        "{lenient}"
    );
    place.reported("inspect out", 0);
    let reported = place.reported("dedup in --out strict --strict", 1);
    assert!(reported.contains("malformed") && reported.contains("no-text"), "{reported}");
    let strict = place.report("strict");
    assert_eq!(
        (&strict["corpus"]["documents"], &strict["corruption"]["documents_lost"]),
        (&5.into(), &3.into())
    );
}

#[test]
fn long_windows_of_zstandard_are_read_on_demand() {
    let place = Place::new();
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(28).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.write_all(lines(0..5).as_bytes()).unwrap();
    place.put("in/a.jsonl.zst", encoder.finish().unwrap());
    place.put("in/b.jsonl", lines(5..9));
    let reported = place.reported("dedup in --out out", 1);
    assert!(
        reported.contains("undecodable") && reported.contains("--longest-window 28 reads it"),
        "{reported}"
    );
    assert_eq!(place.report("out")["corruption"]["unknown_losses"], 1);
    place.reported("dedup in --out long --longest-window 28", 0);
    assert_eq!(place.report("long")["corpus"]["documents"], 9);
}

#[test]
fn what_is_asked_for_and_is_nowhere_stops_a_run_before_it_begins() {
    let place = Place::new();
    let document = |document: usize| {
        let text: String = (0..30).map(|word| format!("word{} ", 100 * document + word)).collect();
        let meta = serde_json::json!({ "url": format!("https://a.example/{document}"), "day": format!("2024-05-{document:02}") });
        serde_json::json!({ "id": document, "meta": meta, "text": text }).to_string() + "\n"
    };
    place.put("a.jsonl", (1..6).map(document).collect::<String>());
    place.put("other.jsonl", "{\"body\":\"x\"}\n");
    place.reported(
        "dedup a.jsonl --out hosts --url-field meta.url --boilerplate-by host --save-boilerplate lines",
        0,
    );
    for (options, reported) in [
        (
            "--text-field raw",
            "--text-field raw: expected a field with the texts of documents; none of the 5 records has one. \
                              There are: id, meta.day, meta.url, text",
        ),
        ("--text-field text,titel", "--text-field titel: "),
        ("--id-field doc_id", "--id-field doc_id: expected a field with the IDs"),
        ("--url-field meta.link", "--url-field meta.link: expected a field with the URLs of documents; none"),
        (
            "--keep-each host",
            "--url-field url: expected a field with the URLs of documents, which --keep-each host needs",
        ),
        ("--keep shortest-url", "which --keep shortest-url needs"),
        // The usual name, where it was typed; a URL without a host.
        ("--url-field url", "--url-field url: expected a field with the URLs of documents; none"),
        ("--url-field meta.day --keep-each host", "which --keep-each host needs, with a host"),
        ("--boilerplate lines", "which --boilerplate lines needs, with a host"),
        (
            "--against other.jsonl",
            "--text-field text: expected a field with the texts of documents of --against",
        ),
        ("--boilerplate-by host", "which --boilerplate-by host needs"),
        ("--keep score:quality", "--keep score:quality: expected a field with numbers or dates"),
    ] {
        let found = place.reported(&format!("dedup a.jsonl --out none {options}"), 2);
        assert!(found.contains(reported), "{options}: {found}");
        assert!(!place.at("none").exists(), "{options}");
    }
    let asked = "--url-field meta.url --keep-each host --boilerplate-by host --id-field /meta/day --keep score:meta.day";
    place.reported(&format!("dedup a.jsonl --out all {asked}"), 0);
    // A pattern that no shell has replaced.
    place.reported("dedup [a-c]*.jsonl --out pattern", 0);
    assert_eq!(place.report("pattern")["corpus"]["documents"], 5);
    assert!(
        place
            .reported("dedup nothing*.jsonl --out none", 2)
            .contains("no such file or folder: nothing*.jsonl")
    );
    assert!(
        place.reported("plan a.jsonl --text-field raw", 2).contains("--text-field raw: expected a field")
    );
    for command in ["sketch a.jsonl --out none", "dedup a.jsonl --out none"] {
        let reported = place.reported(&format!("{command} --memory 4 --threads 1"), 2);
        assert!(reported.contains("--memory 4 bytes: expected at least "), "{reported}");
        assert!(reported.contains("MiB for 1 thread"), "{reported}");
    }
    place.put("twice.csv", "text,text\na,b\n");
    let reported = place.reported("dedup twice.csv --out none", 2);
    assert!(reported.contains("documents; two columns are called \"text\""), "{reported}");
    place.put("a.warc.wet", record(0));
    let reported = place.reported("dedup a.warc.wet --out none --id-field id", 2);
    assert!(reported.contains("--id-field id: expected files of JSON lines or of tables; these are of WARC"));
    // One line for all records of all files that have no text, and one where few have an ID.
    for name in ["b", "c"] {
        let without = (0..42).map(|at| format!("{{\"{name}{at}\":\"x\"}}\n"));
        let unnamed = (0..9).map(|at| format!("{{\"text\":\"{name} {at}\"}}\n"));
        place.put(&format!("{name}.jsonl"), unnamed.chain(without).collect::<String>());
    }
    let reported = place.reported("dedup a.jsonl b.jsonl c.jsonl --out some", 1);
    assert_eq!(reported.matches("no field").count(), 1, "{reported}");
    for expected in [
        "84 records or files have no text where it is looked for, and were skipped; the first: b.jsonl: record 9, offset ",
        "--text-field names another one of b0.",
        "Only 5 documents have the ID that --id-field names, of 23; the first file with others is b.jsonl.",
    ] {
        assert!(reported.contains(expected), "{reported}");
    }
}

#[test]
fn what_is_odd_and_not_corrupt_is_reported_by_every_command() {
    let place = Place::new();
    let cut = record(1).strip_suffix(b"\r\n\r\n").unwrap().to_vec();
    place.put("in/a.warc.wet", [record(0), cut].concat());
    let pages = "{\"format\": \"json-pages-1.0\", \"id\": \"pages\", \"title\": \"All Pages\"}\n";
    place
        .put("in/pages.jsonl", [pages.as_bytes(), line(3).as_bytes(), b"{\"text\": \"caf\xe9\"}\n"].concat());
    for command in [
        "dedup in --out out",
        "sketch in --out sketches",
        "seen --index i in",
        "decontaminate in --against in/pages.jsonl --out clean",
    ] {
        let reported = place.reported(command, 0);
        for expected in [
            "1 file ends in a record of WARC without the blank lines behind it",
            "1 record has no text but null, or begin a list of pages",
            "1 document holds bytes that are no UTF-8",
        ] {
            assert!(reported.contains(expected), "{command}: {reported}");
        }
    }
    assert_eq!(place.report("out")["corpus"]["documents"], 4);
    let asked =
        place.run("seen --index piped -").write_stdin(fs::read(place.at("in/pages.jsonl")).unwrap()).assert();
    let reported = String::from_utf8(asked.code(1).get_output().stderr.clone()).unwrap();
    assert!(reported.contains("1 document holds bytes that are no UTF-8"), "{reported}");
    place.put("empty.jsonl", "{\"text\": null}\n");
    let reported = place.reported("decontaminate empty.jsonl --against in --out none", 2);
    assert!(
        reported
            .contains("could be read of empty.jsonl: 1 file was read, and there is no document. 1 record")
    );
}

#[test]
fn a_frame_to_be_skipped_says_that_a_stream_is_zstandard() {
    let place = Place::new();
    let words = [record(0), record(1)].concat();
    let frame = |kind: u8, content: &[u8]| {
        [&[kind, 0x2a, 0x4d, 0x18][..], &(content.len() as u32).to_le_bytes(), content].concat()
    };
    let mut by_words = zstd::bulk::Compressor::with_dictionary(1, &words).unwrap();
    // As pzstd writes it; and with a dictionary that is longer than what a look at a file reads.
    let long = [vec![b'x'; 100_000], words.clone()].concat();
    let mut by_long = zstd::bulk::Compressor::with_dictionary(1, &long).unwrap();
    for stream in [
        [frame(0x50, b"size"), zstd::encode_all(&words[..], 1).unwrap()].concat(),
        [frame(0x5d, &words), by_words.compress(&words).unwrap()].concat(),
        [frame(0x5d, &long), by_long.compress(&words).unwrap()].concat(),
    ] {
        place.run("dedup - --out out --force").write_stdin(stream).assert().code(0);
        assert_eq!(place.report("out")["corpus"]["documents"], 2);
    }
    let tables = format!("text\n{}\n", self::words(5, 40));
    let mut by_table = zstd::bulk::Compressor::with_dictionary(1, tables.as_bytes()).unwrap();
    let table = [frame(0x5d, tables.as_bytes()), by_table.compress(tables.as_bytes()).unwrap()].concat();
    place.put("in/a.csv.zst", table);
    place.reported("dedup in --out table", 0);
}

#[test]
fn ids_that_a_spreadsheet_would_run_are_guarded_and_read_back() {
    let place = Place::new();
    let text: String = (0..40).map(|word| format!("word{word} ")).collect();
    let ids = ["=cmd|'/c calc'!A1", "+1+1", "-A2", "@SUM(A1)", "-7048155917072976836", "'=quoted", "plain"];
    let document =
        |id: &str| serde_json::json!({ "id": id, "url": format!("={id}"), "text": text }).to_string() + "\n";
    place.put("a.jsonl", ids.iter().map(|id| document(id)).collect::<String>());
    place.put("b.jsonl", serde_json::json!({ "id": "-near", "text": text.clone() + "more" }).to_string());
    place.reported("dedup a.jsonl b.jsonl --out out", 0);
    for table in ["pairs.csv", "clusters.csv"] {
        let mut rows = csv::Reader::from_path(place.at("out").join(table)).unwrap();
        let cells: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
        assert!(cells.len() > 5);
        assert!(
            cells.iter().flatten().all(|cell| !cell.starts_with(['=', '+', '-', '@']) || *cell == *ids[4]),
            "{table}: {cells:?}"
        );
        // A number stays as it is, so that tables join.
        assert!(cells.iter().flatten().any(|cell| *cell == *ids[4]), "{table}: {cells:?}");
    }
    place.reported("inspect out", 0);
    place.reported("review out", 0);
    // A truth by the ids as they are, and one by those of the table.
    let clusters = fs::read_to_string(place.at("out/clusters.csv")).unwrap();
    assert!(clusters.contains("''=quoted") && clusters.contains("'-A2"), "{clusters}");
    place.put("table.csv", &clusters);
    let mut rows = csv::Writer::from_path(place.at("plain.csv")).unwrap();
    rows.write_record(["id", "cluster"]).unwrap();
    ids.iter().chain(&["-near"]).for_each(|id| rows.write_record([id, "1"]).unwrap());
    rows.flush().unwrap();
    // A run that lists removals has a precision of these; recall takes all pairs.
    place.reported("dedup a.jsonl b.jsonl --out all --all-pairs", 0);
    for (result, truth, recall) in [
        ("out", "table.csv", Value::Null),
        ("out", "plain.csv", Value::Null),
        ("all", "plain.csv", serde_json::json!(1.0)),
    ] {
        let run = place.run(&format!("evaluate {result} --truth {truth} --json")).assert().success();
        let scores = String::from_utf8(run.get_output().stdout.clone()).unwrap();
        let scores: Value = serde_json::from_str(&scores).unwrap();
        let pairs = &scores["pairs"];
        assert_eq!(
            (&pairs["recall"]["value"], &pairs["f1"]["value"], &pairs["precision"]["value"]),
            (&recall, &recall, &serde_json::json!(1.0)),
            "{truth}: {scores}"
        );
        assert_eq!(scores["cluster_pairs"]["recall"]["value"], 1.0, "{truth}: {scores}");
        let has_note = scores["notes"].to_string().contains("run with --all-pairs");
        assert_eq!(has_note, recall.is_null(), "{truth}: {scores}");
    }
    let run = place.run("seen --index i a.jsonl").assert().success();
    let answers = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    assert!(
        answers.lines().skip(1).all(|line| line.starts_with("'=") || line.starts_with("\"'=")),
        "{answers}"
    );
    place.put("answers.csv", &answers);
    place.reported("inspect answers.csv", 0);
}

#[test]
fn text_in_utf_16_goes_in_stages_as_in_one() {
    let place = Place::new();
    let line = |document: usize| {
        format!("{{\"id\": \"{document}\", \"text\": \"{} é 😀\"}}\r\n", words(document % 20, 60))
    };
    let units = |documents: std::ops::Range<usize>| -> Vec<u8> {
        let text: String = documents.map(line).collect();
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    place.put("crawl/a.jsonl", units(0..30));
    place.put("crawl/b.jsonl", units(30..50));
    place.reported("dedup crawl --out whole", 0);
    place.reported("sketch crawl --out s", 0);
    // The file is known again by its name and content.
    place.reported("sketch crawl --out s", 0);
    place.reported("join s", 0);
    place.reported("cluster s", 0);
    place.reported("apply s crawl --out stages --kept-files 1GiB", 0);
    let kept = |folder: &str| {
        let mut paths = fs::read_dir(place.at(folder)).unwrap().map(|entry| entry.unwrap().path());
        let path = paths.find(|path| path.to_string_lossy().ends_with(".jsonl")).unwrap();
        fs::read_to_string(path).unwrap()
    };
    assert_eq!(kept("whole").lines().count(), 20);
    assert_eq!(kept("whole"), kept("stages"));
    assert!(place.reported("dedup crawl/b.jsonl --against crawl --out none", 2).contains("named as both"));
    // What is read is never written over.
    assert!(place.reported("dedup crawl/a.jsonl --out crawl/a.jsonl --force", 2).contains("crawl/a.jsonl"));
}
