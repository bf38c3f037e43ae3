//! The tool as a user runs it.

use crate::place::{Place, names_in, unpacked, words};
use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;
use simflip::settings::{Generator, Settings};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The small corpus of the repository.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// The tool in a folder that holds nothing; a test that names files goes to a folder of its own.
pub fn simflip() -> Command {
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nowhere");
    fs::create_dir_all(&nowhere).unwrap();
    let mut command = Command::cargo_bin("simflip").expect("the tool is built");
    command.current_dir(nowhere);
    command
}

fn report(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
}

/// Everything in a report that must not depend on threads, order or clock.
fn essence(folder: &Path) -> Value {
    let mut report = report(folder);
    for key in ["created", "command_line", "fingerprint", "stages", "peak_memory_bytes", "memory"] {
        report.as_object_mut().unwrap().remove(key);
    }
    report
}

fn write_jsonl(path: &Path) {
    let document = |i: usize, extra: &str| {
        let words: Vec<String> = (0..60).map(|w| format!("word{}", (i * 37 + w * w) % 500)).collect();
        format!(
            "{{\"id\": \"document {i}{extra}\", \"url\": \"https://x.example/{i}\", \"text\": \"{} {extra}\"}}\n",
            words.join(" ")
        )
    };
    let lines: String = (0..20)
        .map(|i| document(i, "") + &if i % 4 == 0 { document(i, "today") } else { String::new() })
        .collect();
    fs::write(path, lines).unwrap();
}

#[test]
fn every_method_gives_whole_results_that_inspect_finds_in_order() {
    let top = tempfile::tempdir().unwrap();
    let wide = ["--distance", "10"];
    for (method, distance) in
        [("simhash", &[][..]), ("psm", &wide), ("dial", &wide), ("bphs", &wide), ("minhash", &[])]
    {
        let out = top.path().join(method);
        simflip()
            .arg("dedup")
            .arg(corpus())
            .arg("--out")
            .arg(&out)
            .args(["--method", method])
            .args(distance)
            .assert()
            .success();
        let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["clusters.csv", "kept.warc.wet.gz", "pairs.csv", "report.html", "report.json"]);
        let pairs = fs::read_to_string(out.join("pairs.csv")).unwrap();
        assert!(pairs.starts_with("a_id,b_id,a_url,b_url,distance,similarity"));
        let clusters = fs::read_to_string(out.join("clusters.csv")).unwrap();
        assert!(clusters.starts_with("id,url,cluster,size,kept"));
        assert_eq!(report(&out)["tool"]["kernel"], simflip_core::kernel_choice().level);
        let outcome = &report(&out)["outcome"];
        // 1,572 documents with 1,217 different texts, many of these in two or three versions.
        assert_eq!(outcome["exact_duplicates"], 355, "{method}");
        assert!(outcome["near_duplicates"].as_u64().unwrap() > 250, "{method}: {outcome}");
        simflip().arg("inspect").arg(&out).assert().success();
        for file in ["pairs.csv", "clusters.csv", "kept.warc.wet.gz", "report.json"] {
            simflip().arg("inspect").arg(out.join(file)).assert().success();
        }
    }
    // What is kept has no duplicates left that the same method would find, except across what chained.
    let again = top.path().join("again");
    simflip()
        .arg("dedup")
        .arg(top.path().join("bphs/kept.warc.wet.gz"))
        .arg("--out")
        .arg(&again)
        .assert()
        .success();
    assert_eq!(report(&again)["outcome"]["exact_duplicates"], 0);
}

#[test]
fn results_depend_neither_on_threads_nor_on_the_order_of_files() {
    let top = tempfile::tempdir().unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "gz"))
        .collect();
    files.sort();
    for method in ["simhash", "psm", "dial", "bphs", "minhash"] {
        let one = top.path().join(format!("{method}-1"));
        let two = top.path().join(format!("{method}-2"));
        let run = |files: &[PathBuf], out: &Path, threads: &str| {
            simflip()
                .arg("dedup")
                .args(files)
                .arg("--out")
                .arg(out)
                .args(["--method", method, "--threads", threads, "--seed", "7"])
                .assert()
                .success();
        };
        run(&files, &one, "1");
        files.reverse();
        run(&files, &two, "5");
        for file in ["pairs.csv", "clusters.csv", "kept.warc.wet.gz"] {
            assert!(
                fs::read(one.join(file)).unwrap() == fs::read(two.join(file)).unwrap(),
                "{method} {file}"
            );
        }
        assert_eq!(essence(&one), essence(&two), "{method}");
    }
}

#[test]
fn a_table_on_standard_input_is_known_by_its_header() {
    let place = Place::new();
    let text = |id: usize| words(id / 2, 40);
    let table: String = (0..6).map(|id| format!("{id},{}\n", text(id))).collect();
    let bytes = format!("id,text\n{table}");
    place.put("documents.csv", &bytes);
    place.reported("dedup documents.csv --quiet --out of-file", 0);
    for (name, kept, bytes) in [
        ("plain", "kept.csv", bytes.clone().into_bytes()),
        ("gz", "kept.csv.gz", crate::place::gz(bytes.as_bytes())),
    ] {
        let mut command = simflip();
        command.args(["dedup", "-", "--quiet", "--out"]).arg(place.at(name)).write_stdin(bytes);
        command.assert().success();
        let ids = |out: &str| -> Vec<String> {
            let table = fs::read_to_string(place.at(out).join("clusters.csv")).unwrap();
            table.lines().map(|line| line.split(',').next().unwrap().to_owned()).collect()
        };
        assert_eq!(ids(name), ids("of-file"));
        assert!(place.at(name).join(kept).exists());
    }
    let mut prose = simflip();
    prose
        .args(["dedup", "-", "--out"])
        .arg(place.at("no"))
        .write_stdin("some text, and more of it\nid,text\n");
    prose.assert().code(2).stderr(predicate::str::contains("neither WET nor JSONL nor CSV"));
}

#[test]
fn a_run_that_is_repeated_reads_as_the_first_one_did() {
    let place = Place::new();
    let line =
        |id: usize, text: String| serde_json::json!({"key": id, "raw": text, "text": id}).to_string() + "\n";
    place.put("in.jsonl", (0..9).map(|id| line(id, words(id / 3, 40))).collect::<String>());
    place.reported("dedup in.jsonl --text-field raw --id-field key --quiet --out first", 0);
    place.reported("dedup in.jsonl --settings first/report.json --quiet --out second", 0);
    let [first, second] =
        ["first", "second"].map(|out| fs::read_to_string(place.at(out).join("clusters.csv")).unwrap());
    assert!(first == second && first.lines().count() == 10, "{first}{second}");
}

#[test]
fn a_run_is_repeated_from_its_report() {
    let top = tempfile::tempdir().unwrap();
    let run = |out: &str, options: &[&str]| {
        let out = top.path().join(out);
        simflip().arg("dedup").arg(corpus()).arg("--out").arg(&out).args(options).assert().success();
        out
    };
    let options = [
        "--method",
        "simhash",
        "--search",
        "dial",
        "--distance",
        "5",
        "--recall",
        "0.8",
        "--verify",
        "jaccard",
        "--clusters",
        "star",
    ];
    let first = run("first", &options);
    let report = first.join("report.json").display().to_string();
    let again = run("again", &["--settings", &report]);
    for file in ["pairs.csv", "clusters.csv"] {
        assert_eq!(fs::read(first.join(file)).unwrap(), fs::read(again.join(file)).unwrap(), "{file}");
    }
    assert_eq!(self::report(&first)["settings"], self::report(&again)["settings"]);
    let both = ["dedup", "none", "--out", "o", "--settings", &report, "--distance", "3"];
    simflip().args(both).assert().code(2).stderr(predicate::str::contains("cannot be used with"));
    // What is no report is said to be none, with what to give instead.
    let table = first.join("pairs.csv").display().to_string();
    let folder = first.display().to_string();
    for (given, reported) in [
        (
            &folder,
            format!(
                "is a folder, but --settings takes the report.json that an earlier dedup wrote; give {report}"
            ),
        ),
        (
            &table,
            "is no report (expected value at line 1 column 1), but --settings takes the report.json"
                .to_owned(),
        ),
    ] {
        let asked = ["dedup", "none", "--out", "o", "--settings", given];
        simflip().args(asked).assert().code(2).stderr(predicate::str::contains(reported));
    }
}

#[test]
fn psm_without_budget_finds_what_bphs_finds() {
    let top = tempfile::tempdir().unwrap();
    let run = |name: &str, args: &[&str]| {
        let out = top.path().join(name);
        simflip().arg("dedup").arg(corpus()).arg("--out").arg(&out).args(args).assert().success();
        fs::read_to_string(out.join("pairs.csv")).unwrap()
    };
    let bphs = run("bphs", &["--method", "bphs", "--distance", "4", "--all-pairs"]);
    for method in ["psm", "dial"] {
        let found = run(method, &["--method", method, "--distance", "4", "--recall", "1", "--all-pairs"]);
        assert!(bphs == found, "{method}");
    }
    let budgeted = run(
        "budget",
        &["--method", "simhash", "--search", "dial", "--distance", "4", "--budget", "1", "--all-pairs"],
    );
    assert!(budgeted.lines().count() < bphs.lines().count());
}

#[test]
fn hashes_that_agree_in_a_band_are_reported_band_by_band() {
    let top = tempfile::tempdir().unwrap();
    let run = |name: &str, args: &[&str]| {
        let out = top.path().join(name);
        let usual = ["--method", "simhash", "--distance", "8", "--verify", "none", "--all-pairs"];
        simflip().arg("dedup").arg(corpus()).arg("--out").arg(&out).args(usual).args(args).assert().success();
        let report: Value =
            serde_json::from_str(&fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
        (fs::read_to_string(out.join("pairs.csv")).unwrap(), report)
    };
    let (all, _) = run("join", &["--search", "join"]);
    let (some, report) = run("bands", &["--search", "bands"]);
    // What agrees in a band is a part of what is near, and its pairs are reported alike.
    let lines = |pairs: &str| pairs.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    assert!(lines(&some).is_subset(&lines(&all)) && lines(&some).len() < lines(&all).len());
    let generator = &report["settings"]["generator"]["hash-bands"];
    assert_eq!(generator, &serde_json::json!({ "distance": 8, "banding": { "bands": 4, "rows": 16 } }));
    let histograms = report["histograms"].as_array().unwrap();
    assert_eq!((histograms.len(), &histograms[3]["title"]), (4, &"band 3".into()));
    // Nine bands of seven bits are more than bits may differ.
    let (nine, report) = run("nine", &["--search", "bands", "--bands", "9x7"]);
    assert_eq!(lines(&nine), lines(&all));
    assert!(report["method"]["parameters"].to_string().contains("which is exact"));
}

#[test]
fn jsonl_comes_in_by_standard_input_and_goes_out_as_jsonl() {
    let top = tempfile::tempdir().unwrap();
    let (input, out) = (top.path().join("documents.jsonl"), top.path().join("out"));
    write_jsonl(&input);
    simflip()
        .args(["dedup", "-", "--method", "simhash", "--distance", "8", "--out"])
        .arg(&out)
        .pipe_stdin(&input)
        .unwrap()
        .assert()
        .success()
        .stdout(predicate::str::contains("Kept 20 of 25 documents. Removed 5: "));
    simflip()
        .arg("inspect")
        .arg(out.join("kept.jsonl"))
        .assert()
        .success()
        .stdout(predicate::str::contains("20"));
    let pairs = fs::read_to_string(out.join("pairs.csv")).unwrap();
    assert!(pairs.contains("document 4,document 4today,https://x.example/4,https://x.example/4,"), "{pairs}");
}

/// As of `dedup <(zcat documents.jsonl.gz)`: what opens it twice finds it empty, or waits for ever.
#[cfg(unix)]
#[test]
fn a_pipe_with_a_name_is_read_once() {
    let top = tempfile::tempdir().unwrap();
    let (pipe, out) = (top.path().join("documents.jsonl"), top.path().join("out"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || write_jsonl(&pipe)
    });
    simflip()
        .timeout(std::time::Duration::from_secs(60))
        .args(["dedup", "--out"])
        .args([&out, &pipe])
        .assert()
        .success()
        .stdout(predicate::str::contains("Kept 20 of 25 documents."));
    writer.join().unwrap();
}

#[test]
fn names_in_the_input_give_no_orders_to_a_terminal() {
    let top = tempfile::tempdir().unwrap();
    let input = top.path().join("documents\u{1b}[2J\nsimflip: all is well.jsonl");
    fs::write(&input, "{\"text\": 1, \"id\": \"\u{1b}[31m\"}\n{\"text\": \"a\", \"url\": \"u\u{7f}\"}\n")
        .unwrap();
    let quiet = |arguments: &[&str]| {
        let output = simflip().current_dir(&top).args(arguments).arg(&input).output().unwrap();
        for reported in [&output.stdout, &output.stderr] {
            let reported = String::from_utf8_lossy(reported);
            let order = |c: char| c.is_control() && c != '\n';
            assert!(
                !reported.contains(order) && !reported.contains("\nsimflip: all is well"),
                "{arguments:?}: {reported:?}"
            );
        }
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        quiet(&["dedup", "--out", "out"])
            .contains(r"documents\u{1b}[2J\nsimflip: all is well.jsonl: record 0")
    );
    quiet(&["seen", "--index", "seen", "--json"]);
    quiet(&["inspect"]);
    quiet(&["hash"]);
    quiet(&["explain", "0", "1"]);
    quiet(&["plan", "--documents", "10"]);
    quiet(&["review"]);
}

#[test]
fn an_existing_folder_stays_without_force() {
    let top = tempfile::tempdir().unwrap();
    let (input, out) = (top.path().join("documents.jsonl"), top.path().join("out"));
    write_jsonl(&input);
    let run = |force: &[&str]| simflip().arg("dedup").arg(&input).arg("--out").arg(&out).args(force).assert();
    run(&[]).success();
    run(&["--similarity", "0.7"]).code(2).stderr(predicate::str::contains("--force"));
    run(&["--force"]).success();
    fs::remove_file(out.join("report.json")).unwrap();
    run(&["--force"]).code(2).stderr(predicate::str::contains("replaces nothing else"));
}

#[test]
fn corruption_is_named_and_the_rest_is_used() {
    let top = tempfile::tempdir().unwrap();
    let (input, out) = (top.path().join("documents.jsonl"), top.path().join("out"));
    write_jsonl(&input);
    let mut lines = fs::read_to_string(&input).unwrap();
    lines.insert_str(0, "{\"text\": 3}\n");
    fs::write(&input, lines).unwrap();
    let no_gzip = top.path().join("no-gzip.warc.wet.gz");
    fs::write(&no_gzip, b"\0\x01\x02\x03").unwrap();
    simflip()
        .arg("dedup")
        .arg(&input)
        .arg(no_gzip)
        .arg("--out")
        .arg(&out)
        .assert()
        .code(1)
        .stderr(predicate::str::contains("documents.jsonl: record 0, offset 0"))
        .stderr(predicate::str::contains("no-gzip.warc.wet.gz"));
    let report = report(&out);
    assert_eq!((&report["corruption"]["total"], &report["corpus"]["documents"]), (&2.into(), &25.into()));
}

#[test]
fn inputs_that_do_not_exist_stop_a_run_before_it_begins() {
    let place = Place::new();
    write_jsonl(&place.at("documents.jsonl"));
    for command in [
        "dedup documents.jsonl gone.jsonl away --out made",
        "dedup documents.jsonl away --against gone.jsonl --out made",
        "dedup documents.jsonl documents.jsonl/below gone.jsonl away --out made --memory 200MiB",
        "compare documents.jsonl gone.jsonl away --out made",
        "sketch documents.jsonl gone.jsonl away --out made",
        "calibrate documents.jsonl gone.jsonl away",
        "explain 0 1 documents.jsonl gone.jsonl away",
        "seen pages.jsonl gone.jsonl away --index made",
        "seen pages.jsonl gone.jsonl --import away --index made",
        "plan documents.jsonl gone.jsonl away",
        "gather documents.jsonl gone.jsonl away --out made.jsonl",
    ] {
        let reported = place.reported(command, 2);
        assert!(reported.contains("no such file or folder: "), "{command}: {reported}");
        assert!(reported.contains("gone.jsonl") && reported.contains("away"), "{command}: {reported}");
        assert_eq!(fs::read_dir(place.folder()).unwrap().count(), 1, "{command}");
    }
    place.reported("dedup documents.jsonl --out result", 0);
    place.put("truth.csv", "a,b\n0,1\n");
    // The truth is looked at before the corpus is read.
    let reported = place.reported("evaluate result --truth none.csv --corpus gone.jsonl", 2);
    assert!(reported.contains("none.csv") && !reported.contains("gone.jsonl"), "{reported}");
    for command in
        ["evaluate result --truth truth.csv --corpus gone.jsonl", "review result --corpus gone.jsonl"]
    {
        let reported = place.reported(command, 2);
        assert!(reported.contains("no such file or folder: gone.jsonl"), "{command}: {reported}");
    }
}

#[test]
fn the_fuller_document_is_kept_where_containment_decides() {
    let place = Place::new();
    let whole = words(1, 300);
    let part: String = whole.split_inclusive(' ').take(180).collect();
    let line = |id: &str, text: &str| format!("{{\"id\": \"{id}\", \"text\": \"{text}\"}}\n");
    place.put("ab/a.jsonl", line("whole", &whole) + &line("part", &part));
    place.put("ba/a.jsonl", line("part", &part) + &line("whole", &whole));
    let kept = |out: &str| {
        let text = fs::read_to_string(place.at(out)).unwrap();
        let names = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone());
        names.map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for input in ["ab", "ba"] {
        for (number, options) in [
            "--preset removable",
            "--preset removable --memory 200MiB",
            "--preset removable --keep fullest",
            "--similarity 0.5 --verify containment",
            "--method minhash --similarity 0.5 --verify containment",
        ]
        .into_iter()
        .enumerate()
        {
            let out = format!("{input}{number}");
            place.reported(&format!("dedup {input} --out {out} {options}"), 0);
            assert_eq!(kept(&format!("{out}/kept.jsonl")), ["whole"], "{input} {options}");
        }
        place.reported(&format!("sketch {input} --preset removable --out {input}.sketches"), 0);
        place.reported(&format!("join {input}.sketches"), 0);
        place.reported(&format!("cluster {input}.sketches"), 0);
        place.reported(&format!("apply {input}.sketches {input} --out {input}.kept --kept-files one"), 0);
        assert_eq!(kept(&format!("{input}.kept/part-00001.jsonl")), ["whole"], "{input}");
        let reported = place.reported(&format!("cluster {input}.sketches --clusters connected"), 2);
        assert!(reported.contains("--clusters connected: expected star"), "{reported}");
    }
    // A document that comes earlier by another rule may be contained in a later one, which it could not be removed for.
    let reported = |command: &str| place.reported(command, 2);
    for keep in ["first", "longest", "score:quality"] {
        for command in [
            "dedup ba --out none --preset removable",
            "dedup ba --out none --method minhash --verify containment",
            "join ba.sketches",
            "cluster ba.sketches",
        ] {
            let reported = reported(&format!("{command} --keep {keep}"));
            let expected = format!(
                "--keep {keep}: expected fullest with --verify containment: a document is removed for one"
            );
            assert!(reported.contains(&expected), "{command}: {reported}");
        }
    }
    for options in ["--preset removable", "--verify containment --similarity 0.5"] {
        let reported = reported(&format!("dedup ba --out none --clusters connected {options}"));
        assert!(reported.contains("--clusters connected: expected star with"), "{reported}");
    }
}

#[test]
fn damaged_copies_go_and_other_documents_of_a_table_stay() {
    let place = Place::new();
    let table = |seed: usize| -> String {
        let row = |row: usize| {
            let number = (seed * 7919 + row * 104_729) % 99_991;
            format!("{} {number:05}; ", words(row + 1, 6))
        };
        (0..40).map(row).collect()
    };
    // Each 30th letter is another.
    let corrupt = |text: String| -> String {
        let wrong = |(at, letter): (usize, char)| match letter.is_alphabetic() && at % 30 == 0 {
            true => 'x',
            false => letter,
        };
        text.chars().enumerate().map(wrong).collect()
    };
    let moved = |text: String| -> String {
        let (first, second) = text.split_at(text[..text.len() / 2].rfind(' ').unwrap());
        format!("{second} {first}")
    };
    let texts = [table(1), table(2), corrupt(table(1)), moved(table(2))];
    let lines = texts.iter().map(|text| format!("{{\"text\": \"{text}\"}}\n"));
    place.put("documents.jsonl", lines.collect::<String>());
    let kept = |options: &str| {
        place.reported(&format!("dedup documents.jsonl --out result --force {options}"), 0);
        let kept = fs::read_to_string(place.at("result/kept.jsonl")).unwrap();
        let of = |line: &str| serde_json::from_str::<Value>(line).unwrap()["text"].clone();
        let number = |text: Value| texts.iter().position(|other| *other == text).unwrap();
        kept.lines().map(|line| number(of(line))).collect::<Vec<_>>()
    };
    assert_eq!(kept("--preset noisy"), [0, 1]);
    assert_eq!(kept("--preset noisy --verify-threshold 1"), [0, 1, 2]);
    assert_eq!(kept("--preset noisy --verify estimate --similarity 0.3"), [0]);
    let reported = place.reported("sketch documents.jsonl --out none --preset noisy", 2);
    assert!(reported.contains("--verify edits: expected estimate or containment"), "{reported}");
    let reported =
        place.reported("dedup documents.jsonl --out none --preset noisy --verify-threshold 0.7", 2);
    assert!(reported.contains("--verify-threshold 0.7: expected a share of 0.8 to 1"), "{reported}");
}

#[test]
fn closed_output_changes_neither_the_result_nor_the_exit_code() {
    // A pipe whose reader has gone.
    let closed = || std::io::pipe().unwrap().1;
    let place = Place::new();
    write_jsonl(&place.at("documents.jsonl"));
    let corrupt = fs::read_to_string(place.at("documents.jsonl")).unwrap() + "no json\n";
    place.put("corrupt.jsonl", corrupt);
    let command = |arguments: &str| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("simflip"));
        command.current_dir(place.folder()).args(arguments.split(' '));
        command
    };
    for (number, [out, error]) in [[true, false], [false, true], [true, true]].into_iter().enumerate() {
        let run = |arguments: &str, code: i32| {
            let mut command = command(arguments);
            if out {
                command.stdout(closed());
            }
            if error {
                command.stderr(closed());
            }
            let status = command.output().unwrap().status;
            assert_eq!(
                status.code(),
                Some(code),
                "{arguments}, output closed: {out}, errors closed: {error}"
            );
        };
        // These write notes of corruption and of what is not read.
        run(&format!("dedup corrupt.jsonl --out result{number}"), 1);
        assert!(place.at(&format!("result{number}/report.json")).is_file());
        run(&format!("inspect result{number}"), 0);
        run(&format!("dedup gone.jsonl --out none{number}"), 2);
        run("completions bash", 0);
        run("man", 0);
        run("dedup --help", 0);
        run("hash documents.jsonl", 0);
        run(&format!("seen --index {number}.seen --import nothing"), 2);
        command(&format!("seen --index {number}.seen documents.jsonl")).output().unwrap();
        run(&format!("seen --index {number}.seen --remove nothing"), 0);
        // One that takes seconds: once.
        if out && error {
            run("plan --documents 1000", 0);
        }
    }
}

#[test]
fn documents_with_one_id_are_distinguished() {
    let top = tempfile::tempdir().unwrap();
    let (input, out) = (top.path().join("documents.jsonl"), top.path().join("out"));
    write_jsonl(&input);
    let copy = top.path().join("again.jsonl");
    fs::copy(&input, &copy).unwrap();
    simflip().arg("dedup").args([&input, &copy]).arg("--out").arg(&out).assert().success();
    simflip().arg("inspect").arg(&out).assert().success();
    let clusters = fs::read_to_string(out.join("clusters.csv")).unwrap();
    let ids: std::collections::BTreeSet<&str> =
        clusters.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(ids.len(), clusters.lines().count() - 1, "{clusters}");
    assert!(report(&out)["warnings"].to_string().contains("25 documents have a record id"));
}

#[test]
fn nothing_to_read_or_senseless_settings_make_no_folder() {
    let top = tempfile::tempdir().unwrap();
    let out = top.path().join("out");
    let empty = top.path().join("empty.jsonl");
    fs::write(&empty, "").unwrap();
    let fails = |args: &[&str], input: &Path, what: &str| {
        let run = simflip().arg("dedup").arg(input).arg("--out").arg(&out).args(args).assert();
        run.code(2).stderr(predicate::str::contains(what.to_owned()));
        assert!(!out.exists(), "{args:?}");
    };
    fails(&[], &empty, "no documents to work on");
    fails(&[], &top.path().join("none"), "none");
    fails(&["--distance", "40"], &corpus(), "distance");
    fails(&["--method", "psm", "--recall", "0"], &corpus(), "recall");
    for recall in ["0", "1", "1.5", "95", "NaN"] {
        fails(&["--recall", recall], &corpus(), &format!("--recall {recall}: expected a share"));
    }
    fails(&["--sketch-bytes", "63"], &corpus(), "--sketch-bytes 63: expected a multiple of 8");
    fails(&["--features", "shingles:0"], &corpus(), "features");
    fails(
        &["--method", "minhash", "--distance", "5"],
        &corpus(),
        "--distance has no effect with --method minhash",
    );
    fails(&["--similarity", "1.7"], &corpus(), "--similarity 1.7");
    fails(&["--distance", "5"], &corpus(), "--distance has no effect with --method both");
    fails(&["--frequencies", "any"], &corpus(), "tf-idf");
    let bphs = ["--method", "bphs", "--distance", "10", "--tables", "12"];
    fails(&bphs, &corpus(), "--tables 12: expected 11 for distance 10");
    fails(&["--method", "minhash", "--permutations", "4", "--recall", "0.9999"], &corpus(), "recall");
    let bands = ["--method", "simhash", "--search", "bands", "--bands", "5x16"];
    fails(&bands, &corpus(), "--bands 5x16: expected bands × bits of 1 to the 64 bits of a hash");
}

#[test]
fn options_that_would_change_nothing_are_refused() {
    let refused = |command: &str, names: [&str; 2]| {
        // There is no such input: what is refused is refused before anything is read.
        let folder = tempfile::tempdir().unwrap();
        let run = simflip().current_dir(&folder).args(command.split(' ')).assert().code(2).stdout("");
        let message = String::from_utf8(run.get_output().stderr.clone()).unwrap();
        assert!(names.iter().all(|name| message.contains(name)), "{command}: {message}");
        assert!(
            ["leave", "drop"].iter().any(|advice| message.to_lowercase().contains(advice)),
            "{command}: {message}"
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{command}");
    };
    for (options, names) in [
        ("--method bphs --recall 0.9", ["--recall", "--method bphs"]),
        ("--method bphs --budget 9", ["--budget", "--method bphs"]),
        ("--method minhash --weighting tf", ["--weighting", "--method minhash"]),
        ("--method minhash --distance 3", ["--distance", "--method minhash"]),
        ("--method minhash --bands 16x8 --recall 0.9", ["--recall", "--bands"]),
        ("--method psm --budget 100 --recall 0.9", ["--recall", "--budget"]),
        ("--method simhash --recall 0.5", ["--recall", "--search dial"]),
        ("--method simhash --distance 4 --budget 9", ["--budget", "--search dial"]),
        ("--method simhash --search join --recall 0.5", ["--recall", "--search join"]),
        ("--method simhash --search bphs --recall 0.5", ["--recall", "--search bphs"]),
        ("--method simhash --search dial --index one-table", ["--index", "--search dial"]),
        ("--search dial", ["--search dial", "--method both"]),
        ("--search join --recall 0.5", ["--recall", "--method both"]),
        ("--preset removable --similarity 0.5", ["--similarity", "--preset removable"]),
        ("--weighting tf", ["--weighting", "--method both"]),
        ("--distance 4", ["--distance", "--method both"]),
        ("--method bphs --sketch-bytes 64", ["--sketch-bytes", "--method bphs"]),
        ("--method minhash --sketch-bytes 64 --permutations 512", ["--permutations", "--sketch-bytes"]),
        ("--method minhash --sketch-bytes 64 --preset removable", ["--preset", "--method minhash"]),
        ("--method minhash --sketch-bytes 64 --search dial", ["--search dial", "--method minhash"]),
        ("--search dial --method psm", ["--search dial", "--method psm"]),
        ("--search psm --method bphs", ["--search psm", "--method simhash --search psm"]),
        ("--method dial --index one-table", ["--index", "--method dial"]),
        ("--method minhash --verify-threshold 0.9 --verify none", ["--verify-threshold", "--verify none"]),
        ("--method simhash --tables 10", ["--tables", "--search auto"]),
        ("--method simhash --bands 4x16", ["--bands", "--search bands"]),
        ("--method simhash --search bands --recall 0.5", ["--recall", "--search bands"]),
        ("--method simhash --search bands --budget 9", ["--budget", "--search bands"]),
        ("--search bands", ["--search bands", "--method both"]),
        ("--search bands --method minhash", ["--search", "--method minhash"]),
        ("--method psm --index all-bits --key-bits 20", ["--key-bits", "--index one-table"]),
        ("--verify none --verify-threshold 0.9", ["--verify-threshold", "--verify none"]),
        ("--method simhash --frequencies f", ["--frequencies", "--weighting binary"]),
        (
            "--method simhash --weighting tf-idf --frequencies f --save-frequencies g",
            ["--save-frequencies", "--frequencies"],
        ),
    ] {
        refused(&format!("dedup none.wet --out o {options}"), names);
    }
    refused(
        "compare none.wet --out o --methods psm,bphs --permutations 64",
        ["--permutations", "--methods psm,bphs"],
    );
    refused("compare none.wet --out o --methods psm,bphs --budget 9 --recall 1", ["--recall", "--budget"]);
    refused(
        "compare none.wet --out o --methods simhash,bphs --recall 0.9",
        ["--recall", "--methods simhash,bphs"],
    );
    refused("compare none.wet --out o --methods psm,bphs --similarity 0.7", ["--similarity", "--verify"]);
    refused(
        "compare none.wet --out o --methods psm,bphs --verify-threshold 0.7",
        ["--verify-threshold", "--verify none"],
    );
    refused("calibrate none.wet --budget 9", ["--budget", "calibrate"]);
    refused("calibrate none.wet --recall 0.9", ["--recall", "--recalls"]);
    refused("explain a b none.wet --tables 10", ["--tables", "explain"]);
    refused("explain a b --budget 9", ["--budget", "INPUT"]);
    refused("explain a b --text-field body", ["--text-field", "INPUT"]);
    refused("plan --features words", ["--features", "--method simhash"]);
    refused("plan --method simhash --features words", ["--features", "INPUT"]);
    refused("plan --method simhash --seed 7", ["--seed", "INPUT"]);
    refused("plan --method simhash --search join --documents 9", ["--search", "--method both"]);
    refused("hash none.txt --frequencies f", ["--frequencies", "--weighting binary"]);
    refused("seen --index i none.wet --frequencies f", ["--frequencies", "--weighting binary"]);
    refused("evaluate --judged j --min-score 0.9", ["--min-score", "--judged"]);
    refused("evaluate --judged j --resamples 9", ["--resamples", "--judged"]);
    refused("evaluate --judged j --id-field key", ["--id-field", "--judged"]);
    refused("explain a b --boilerplate f", ["--boilerplate ", "without INPUT"]);
    // The budget is one method's, the recall another's.
    let both = ["compare", "none.wet", "--out", "o", "--budget", "9", "--recall", "0.9"];
    simflip().args(both).assert().code(2).stderr(predicate::str::contains("none.wet"));
}

#[test]
fn a_wrong_value_is_reported_with_its_option_and_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    write_jsonl(&folder.path().join("data/documents.jsonl"));
    fs::write(folder.path().join("file"), "words").unwrap();
    let reported = |command: &str, message: &str| {
        let run = simflip().current_dir(&folder).args(command.split(' ')).assert().code(2);
        run.stderr(predicate::str::contains(message));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "{command}");
    };
    reported(
        "dedup none --out o --method simhash --distance 99",
        "--distance 99: expected at most 15 of 64 bits",
    );
    reported(
        "dedup none --out o --method psm --recall 7",
        "--recall 7: expected a share above 0 and at most 1",
    );
    reported(
        "dedup none --out o --method simhash --search dial --recall nan",
        "--recall NaN: expected a share",
    );
    reported(
        "dedup none --out o --method bphs --distance 10 --tables 7",
        "--tables 7: expected 11 for distance 10",
    );
    reported("dedup none --out o --method psm --key-bits 99", "--key-bits 99: expected 1 to 64");
    reported("calibrate data --method bphs", "--method bphs makes no probes to count");
    reported("dedup none --out o --method minhash --recall 1", "--recall 1: expected a share below 1");
    reported("dedup none --out o --features x", "'x' for '--features <KIND>': expected words, shingles:N or");
    reported("dedup none --out o --threads 9999999", "--threads");
    reported("dedup none --out data", "--out data: expected a new folder");
    reported("dedup data --out file/o", "--out file/o: expected a place in a folder; file is none");
    reported(
        "dedup data --out o --save-frequencies no/f",
        "--save-frequencies no/f: expected a file in a folder that is there",
    );
    reported("seen --index no/i data", "--index no/i: expected a folder in one that is there; no is none");
    reported("seen --index data data", "data: the index is a folder of other things");
    reported("seen --index file data", "file: the index is a file");
    reported("calibrate data --recalls 5", "--recalls 5: expected shares");
    reported("plan --documents 0", "--documents 0: expected at least 1");
    reported("seen --index i data --distance 3", "--distance applies to SimHash only");
    reported("seen --index i data --method simhash --distance 99", "--distance 99: expected at most 15");
    reported("seen --index i data --method simhash --recall 7", "expected a share above 0");
    reported("seen --index i data --request-field r", "--request-field has no effect here");
    reported("seen --index i data --read-only", "--index i: expected an index; there is no such index");
    reported("evaluate r --truth t --min-score nan", "'nan' for '--min-score <SCORE>': expected a number");
}

#[test]
fn frequencies_are_saved_used_and_refused() {
    let top = tempfile::tempdir().unwrap();
    let saved = top.path().join("frequencies.bin");
    let run = |out: &str, args: &[&str]| {
        let out = top.path().join(out);
        let mut command = simflip();
        command
            .arg("dedup")
            .arg(corpus())
            .arg("--out")
            .arg(&out)
            .args(["--method", "simhash", "--weighting", "tf-idf"])
            .args(args);
        (command, out)
    };
    let (mut first, one) = run("one", &["--save-frequencies", saved.to_str().unwrap()]);
    first.assert().success();
    simflip().arg("inspect").arg(&saved).assert().success().stdout(predicate::str::contains("murmur3"));
    let (mut second, two) = run("two", &["--frequencies", saved.to_str().unwrap()]);
    second.assert().success();
    let pairs = |out: &Path| fs::read(out.join("pairs.csv")).unwrap();
    assert!(pairs(&one) == pairs(&two), "the corpus's own frequencies, loaded");
    let (mut third, _) =
        run("three", &["--features", "shingles:2", "--frequencies", saved.to_str().unwrap()]);
    third.assert().code(2).stderr(predicate::str::contains("the kind of features is shingles:5"));
}

#[test]
fn methods_side_by_side() {
    let top = tempfile::tempdir().unwrap();
    let out = top.path().join("out");
    let run = simflip().arg("compare").arg(corpus()).arg("--out").arg(&out).assert().success();
    let reported = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    let report = report(&out);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    // Each label says what ran: the searches of the paper's hashes, and MinHash as dedup runs it.
    let methods = report["methods"].as_array().unwrap();
    for (method, expected) in methods.iter().zip([
        Settings::paper(),
        Settings::paper().with(|settings| settings.generator = Generator::Bphs { distance: 3, tables: None }),
        Settings::minhash(0.8),
    ]) {
        let settings: Settings = serde_json::from_value(method["settings"].clone()).unwrap();
        assert_eq!(settings, expected, "{}", method["label"]);
        let (exact, speed) = (&method["exact"], &method["speed"]);
        let number = |value: &Value| value.as_f64().unwrap();
        assert!(number(&exact["pairs"]) > 300.0 && number(&exact["found"]) <= number(&exact["pairs"]));
        let share = number(&exact["found"]) / number(&exact["pairs"]);
        assert!((number(&exact["recall"]["share"]) - share).abs() < 1e-9 && share > 0.9, "{exact}");
        assert!(number(&speed["queries_per_second"]) > 1.0, "{speed}");
        assert!(number(&speed["cpu_seconds"]) >= 0.2 || speed["rounds"].as_u64().unwrap() > 1, "{speed}");
        assert!(number(&method["cost"]["probes"]) > 0.0 && number(&method["cost"]["index_bytes"]) > 0.0);
        let of = exact["of"].as_str().unwrap();
        assert!(reported.contains(of) && page.contains(of), "{of}: {reported}");
    }
    assert_eq!(methods[1]["exact"]["recall"]["share"], 1.0, "block-permuted tables are exact");
    assert!(
        methods[2]["exact"]["of"].as_str().unwrap().contains("Jaccard coefficient of 0.8 or more, counted")
    );
    let agreement = report["agreement"].as_array().unwrap();
    assert_eq!(agreement.len(), 7, "every set of three methods");
    for (number, method) in report["methods"].as_array().unwrap().iter().enumerate() {
        let found_by = |a: &&Value| a["found_by"].as_array().unwrap().contains(&method["label"]);
        let sum: u64 = agreement.iter().filter(found_by).map(|a| a["pairs"].as_u64().unwrap()).sum();
        assert_eq!(sum, method["pairs"].as_u64().unwrap(), "method {number}");
    }
    let exact: Vec<&Value> =
        agreement.iter().filter(|a| a["found_by"].as_array().unwrap() == &["psm"]).collect();
    assert_eq!(exact[0]["pairs"], 0, "bphs is exact: psm alone finds nothing");
    // A pair that minhash has found as well shows its coefficient beside the estimate of the hashes.
    let all = agreement.iter().find(|a| a["found_by"].as_array().unwrap().len() == 3).unwrap();
    let others = |example: &Value| example["others"].as_array().unwrap().clone();
    let shown: Vec<Value> = all["examples"].as_array().unwrap().iter().flat_map(others).collect();
    assert!(!shown.is_empty() && shown.iter().all(|other| other["by"] == "minhash"), "{shown:?}");
    simflip().arg("inspect").arg(&out).assert().success();
    simflip()
        .arg("compare")
        .arg(corpus())
        .args(["--out", "x", "--methods", "dial,dial"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("two or more"));
}

#[test]
fn a_comparison_is_the_same_in_another_order_of_methods() {
    let top = tempfile::tempdir().unwrap();
    let found = |methods: &str| {
        let out = top.path().join(methods);
        simflip()
            .arg("compare")
            .arg(corpus())
            .arg("--out")
            .arg(&out)
            .args(["--methods", methods])
            .assert()
            .success();
        let report = report(&out);
        // Each lists all pairs that it finds, not those alone by which documents are removed.
        let methods = report["methods"].as_array().unwrap().iter();
        let exact: Vec<[u64; 2]> =
            methods.map(|it| ["found", "pairs"].map(|of| it["exact"][of].as_u64().unwrap())).collect();
        assert!(exact.iter().all(|[found, pairs]| 10 * found > 9 * pairs), "{exact:?}");
        let of = |method: &Value| {
            (method["label"].as_str().unwrap().to_owned(), method["pairs"].as_u64().unwrap())
        };
        report["methods"].as_array().unwrap().iter().map(of).collect::<BTreeMap<_, _>>()
    };
    let expected = found("both,minhash,dial");
    assert!(expected.values().all(|&pairs| pairs > 100), "{expected:?}");
    assert_eq!(found("dial,both,minhash"), expected);
}

#[test]
fn a_comparison_shows_the_similarity_that_a_deduplication_lists() {
    let top = tempfile::tempdir().unwrap();
    let (compared, listed) = (top.path().join("compared"), top.path().join("listed"));
    let run = |command: &str, out: &Path, options: &[&str]| {
        simflip().arg(command).arg(corpus()).arg("--out").arg(out).args(options).assert().success();
    };
    let same = ["--features", "shingles:5", "--weighting", "binary", "--verify", "weights"];
    run("compare", &compared, &[&["--methods", "simhash,bphs", "--distance", "10"][..], &same].concat());
    run("dedup", &listed, &["--method", "simhash", "--all-pairs"]);
    let pairs = fs::read_to_string(listed.join("pairs.csv")).unwrap();
    let agreement = &report(&compared)["agreement"];
    let examples = agreement.as_array().unwrap().iter().flat_map(|kind| kind["examples"].as_array().unwrap());
    let mut equal_hashes = 0;
    for example in examples {
        let id = |side: &str| example[side]["id"].as_str().unwrap();
        let names = format!("{},{},", id("a"), id("b"));
        let row = pairs.lines().find(|row| row.starts_with(&names)).unwrap();
        let similarity = example["similarity"].as_f64().unwrap();
        assert!(
            row.contains(&format!(",{},{similarity:.4},near,weights", example["distance"])),
            "{row}: {example}"
        );
        equal_hashes += usize::from(example["distance"] == 0 && similarity < 1.0);
    }
    assert!(equal_hashes > 0, "equal hashes of texts that differ");
}

#[test]
fn kernels_can_be_chosen_and_a_wrong_choice_is_refused() {
    let hash = |kernel: Option<&str>| {
        let mut command = simflip();
        command.env_remove("SIMFLIP_KERNEL").args(["hash", "-", "--json"]);
        command.envs(kernel.map(|kernel| ("SIMFLIP_KERNEL", kernel)));
        command.write_stdin("near-duplicate documents of the web").assert()
    };
    let usual = hash(None).success().get_output().stdout.clone();
    assert_eq!(hash(Some("portable")).success().get_output().stdout, usual);
    assert_eq!(hash(Some("")).success().get_output().stdout, usual);
    let refused = hash(Some("abacus")).code(2).get_output().stderr.clone();
    let reported = String::from_utf8(refused).unwrap();
    assert!(reported.starts_with("simflip: SIMFLIP_KERNEL=abacus: expected one of"), "{reported}");
    assert!(reported.contains("portable") && reported.lines().count() == 1, "{reported}");
}

#[test]
fn a_hash_is_shown_with_its_weakest_bits_first() {
    let output = simflip()
        .args(["hash", "-", "--json"])
        .write_stdin("near-duplicate documents of the web")
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let weights: Vec<f64> =
        shown["order"].as_array().unwrap().iter().map(|bit| bit["weight"].as_f64().unwrap().abs()).collect();
    assert_eq!(weights.len(), 64);
    assert!(weights.is_sorted());
    assert_eq!(shown["features"], 2, "six words, five at a time");
    assert_eq!(shown["flips"][0]["bits"][0], shown["order"][0]["bit"], "the first flip is the weakest bit");
    simflip()
        .args(["hash", "-"])
        .write_stdin([0xff, 0xfe])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("byte 0"));
    simflip().args(["hash", "-"]).write_stdin("").assert().success();
}

#[test]
fn inspect_refuses_what_does_not_fit() {
    let top = tempfile::tempdir().unwrap();
    let (input, out) = (top.path().join("documents.jsonl"), top.path().join("out"));
    write_jsonl(&input);
    simflip().arg("dedup").arg(&input).arg("--out").arg(&out).assert().success();
    let pairs = fs::read_to_string(out.join("pairs.csv")).unwrap();
    let shorter: String = pairs.lines().take(3).flat_map(|line| [line, "\n"]).collect();
    fs::write(out.join("pairs.csv"), shorter).unwrap();
    simflip()
        .arg("inspect")
        .arg(&out)
        .assert()
        .code(2)
        .stderr(predicate::str::contains("rows of pairs.csv: 2"));
    let binary = top.path().join("binary");
    fs::write(&binary, b"simflip\0FREQ\x09\0\0\0").unwrap();
    simflip().arg("inspect").arg(&binary).assert().code(2).stderr(predicate::str::contains("version"));
}

/// A folder of results with a page to judge pairs on, judgements, and what `seen` prints and
/// writes; all of it in order.
fn written(top: &Path) -> PathBuf {
    let (input, out) = (top.join("documents.jsonl"), top.join("out"));
    write_jsonl(&input);
    // Pairs of SimHash have a distance and a similarity, of which both are held against the settings.
    let clusters = ["--clusters", "connected"];
    simflip()
        .args(["dedup", "--method", "simhash"])
        .args(clusters)
        .arg(&input)
        .arg("--out")
        .arg(&out)
        .assert()
        .success();
    simflip().arg("review").arg(&out).assert().success();
    let page = fs::read_to_string(out.join("review.html")).unwrap();
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    let rows = data["pairs"].as_array().unwrap().iter();
    let rows: String = rows.map(|pair| pair["csv"].as_str().unwrap().to_owned() + "1\n").collect();
    fs::write(top.join("judged.csv"), format!("{}\n{rows}", data["header"].as_str().unwrap())).unwrap();
    for (options, name) in [(&[][..], "answers.csv"), (&["--json"], "answers.jsonl")] {
        let mut seen = simflip();
        let output =
            seen.args(["seen", "--index"]).arg(top.join("index")).arg(&input).args(options).output().unwrap();
        fs::write(top.join(name), output.stdout).unwrap();
    }
    out
}

#[test]
fn inspect_knows_whatever_is_written() {
    let top = tempfile::tempdir().unwrap();
    let out = written(top.path());
    let shows = |path: &Path, what: &str| {
        simflip().arg("inspect").arg(path).assert().success().stdout(predicate::str::contains(what));
    };
    shows(&out, "folder of results");
    shows(&out.join("report.html"), "those of report.json");
    shows(&out.join("review.html"), "page to judge pairs on");
    shows(&out.join("pairs.csv"), "whether rows are missing");
    shows(&out.join("kept.jsonl"), "whether documents are missing");
    shows(&top.path().join("judged.csv"), "judged right");
    shows(&top.path().join("index"), "index of seen pages");
    for answers in ["answers.csv", "answers.jsonl"] {
        shows(&top.path().join(answers), "answers of simflip seen");
    }
    let renamed = top.path().join("mine.csv");
    fs::copy(out.join("clusters.csv"), &renamed).unwrap();
    shows(&renamed, "table of clusters");
    let compared = top.path().join("compared");
    simflip()
        .arg("compare")
        .arg(top.path().join("documents.jsonl"))
        .arg("--out")
        .arg(&compared)
        .assert()
        .success();
    shows(&compared, "report of a comparison");
    let refuses = |path: &Path, why: &str| {
        simflip().arg("inspect").arg(path).assert().code(2).stderr(predicate::str::contains(why));
    };
    refuses(top.path(), "report.json is missing");
    let other = top.path().join("report.json");
    for (content, why) in
        [("{}", "the tool is none"), ("", "a report in JSON"), ("{\"outcome\"", "a report in JSON")]
    {
        fs::write(&other, content).unwrap();
        refuses(&other, why);
    }
    for (name, content) in
        [("a.html", "<!doctype html><title>Home</title>"), ("notes.txt", "words"), ("a.csv", "x,y\n")]
    {
        fs::write(top.path().join(name), content).unwrap();
        refuses(&top.path().join(name), "something that simflip writes");
    }
}

#[test]
fn inspect_finds_what_was_cut_or_changed() {
    let top = tempfile::tempdir().unwrap();
    let out = written(top.path());
    let folder: &[&str] = &["out"];
    // For each file: what is made of its text, where that must show, and what is said.
    type Change = fn(&str) -> String;
    let cut_line: Change = |text| text[..text.len() - 1].rsplit_once('\n').unwrap().0.to_owned() + "\n";
    let cut_within: Change = |text| text[..text.len() - 4].to_owned();
    let changes: [(&str, Change, &[&str], &str); 22] = [
        ("out/pairs.csv", cut_line, folder, "rows of pairs.csv"),
        ("out/pairs.csv", cut_within, &["out/pairs.csv", "out"], "the file was cut"),
        (
            "out/pairs.csv",
            |text| text.replacen("document 0,", "document 9,", 1),
            folder,
            "no cluster of clusters.csv",
        ),
        ("out/pairs.csv", |text| text.replacen("document 0,", "document 4,", 1), folder, "two clusters"),
        ("out/pairs.csv", |text| text.replacen(",0.9", ",0.5", 1), folder, "below the threshold"),
        ("out/pairs.csv", |text| text.replacen(",0.9", ",1.9", 1), &["out/pairs.csv"], "no similarity"),
        (
            "out/pairs.csv",
            |text| text.replacen(",near,weights", ",exact,text", 1),
            &["out/pairs.csv"],
            "of kind exact",
        ),
        (
            "out/pairs.csv",
            |text| text.replacen(",near,", ",near,oops,", 1),
            &["out/pairs.csv", "out"],
            "fields",
        ),
        ("out/clusters.csv", cut_line, &["out/clusters.csv", "out"], "says 2 documents, has 1"),
        ("out/clusters.csv", |text| text.replacen(",true", ",false", 1), &["out/clusters.csv"], "keeps 0"),
        (
            "out/clusters.csv",
            |text| text.replacen("document 0today,", "document 0,", 1),
            &["out/clusters.csv"],
            "already",
        ),
        ("out/report.json", |text| text.replacen("\"kept\": 20", "\"kept\": 21", 1), folder, "kept"),
        (
            "out/report.json",
            |text| {
                let (before, samples) = text.split_once("\"sample_pairs\"").unwrap();
                let changed = samples.replacen("\"distance\": ", "\"distance\": 1", 1);
                format!("{before}\"sample_pairs\"{changed}")
            },
            folder,
            "not the page",
        ),
        (
            "out/report.json",
            |text| text.replacen("\"distance\": ", "\"distance\": 1", 1),
            &["out/report.json", "out"],
            "not that of the settings",
        ),
        ("out/report.json", cut_within, folder, "a report in JSON"),
        ("out/report.html", cut_within, &["out/report.html", "out"], "it has no end"),
        ("out/report.html", |text| text.replacen("20", "21", 1), &["out/report.html", "out"], "not the page"),
        (
            "out/review.html",
            |text| text.replacen("document 0today", "document 1today", 1),
            &["out/review.html", "out"],
            "checksum",
        ),
        ("out/review.html", cut_within, &["out/review.html", "out"], "it has no end"),
        ("judged.csv", cut_line, &["judged.csv"], "were drawn"),
        (
            "answers.csv",
            |text| text.replacen(",new,,", ",new,7,", 1),
            &["answers.csv"],
            "no answer of simflip seen",
        ),
        ("answers.jsonl", cut_within, &["answers.jsonl"], "the file was cut"),
    ];
    for (file, change, shown_in, what) in changes {
        let path = top.path().join(file);
        let before = fs::read_to_string(&path).unwrap();
        let changed = change(&before);
        assert_ne!(before, changed, "{file}: {what}");
        fs::write(&path, changed).unwrap();
        for place in shown_in {
            let run = simflip().arg("inspect").arg(top.path().join(place)).assert().code(2);
            run.stderr(predicate::str::contains(what));
        }
        fs::write(&path, before).unwrap();
    }
    simflip().arg("inspect").arg(&out).assert().success();
}

/// The rows of a plan as JSON.
fn plan(args: &[&str]) -> Value {
    let output = simflip().args(["plan", "--method", "simhash"]).args(args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_plan_without_documents_is_of_the_built_in_model() {
    let shown = plan(&["--documents", "6e7", "--recall", "0.99"]);
    assert_eq!((&shown["measured"], shown["rows"].as_array().unwrap().len()), (&false.into(), 6));
    let rows = shown["rows"].as_array().unwrap();
    assert_eq!(rows[0]["documents"], 60_000_000);
    for row in rows {
        let choice = &row["choice"];
        assert!(choice["recall"].as_f64().unwrap() >= 0.99, "{row}");
        assert!(choice["probes"].as_u64() < choice["all_probes"].as_u64(), "{row}");
        assert!(row["queries_per_second"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(rows[5]["choice"]["parts"].as_u64().unwrap() > 1, "2^32 hashes are the most of one index");
    simflip()
        .args(["plan", "--method", "simhash", "--documents", "60000000", "--recall", "1"])
        .assert()
        .success()
        .stdout(predicate::str::contains("built-in model").and(predicate::str::contains("all ")));
}

#[test]
fn a_plan_keeps_the_memory_or_says_what_would_do() {
    let free = plan(&["--documents", "60000000"]);
    let bytes = free["rows"][0]["choice"]["bytes"].as_u64().unwrap();
    let tight = plan(&["--documents", "60000000", "--memory", &(bytes - 1).to_string()]);
    assert!(tight["rows"][0]["choice"]["bytes"].as_u64().unwrap() < bytes);
    simflip()
        .args(["plan", "--method", "simhash", "--documents", "60000000", "--memory", "1MB"])
        .assert()
        .success()
        .stdout(predicate::str::contains("nothing fits 1.00 MB: the smallest"));
    simflip().args(["plan", "--memory", "7Q"]).assert().code(2);
    simflip()
        .args(["plan", "--documents", "0"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("documents"));
    simflip()
        .args(["plan", "--method", "simhash", "--distance", "40"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("distance"));
}

#[test]
fn a_plan_of_documents_counts_on_them_and_fits_what_dedup_does() {
    let top = tempfile::tempdir().unwrap();
    let corpus = corpus();
    let shown = plan(&[corpus.to_str().unwrap(), "--distance", "6", "--seed", "3"]);
    assert_eq!((&shown["measured"], &shown["sampled_documents"]), (&true.into(), &1_572.into()));
    assert!(shown["pairs"].as_u64().unwrap() > 100);
    // The same number of hashes as a run has, and an index that needs as many.
    let out = top.path().join("out");
    simflip()
        .arg("dedup")
        .arg(&corpus)
        .arg("--out")
        .arg(&out)
        .args(["--method", "simhash", "--distance", "6"])
        .assert()
        .success();
    let report = report(&out);
    assert_eq!(shown["rows"][0]["documents"], report["search_cost"]["distinct_hashes"]);
    let few = plan(&[corpus.to_str().unwrap(), "--queries", "10", "--documents", "1000000"]);
    assert_eq!(few["rows"][0]["documents"], 1_000_000);
}

#[test]
fn scripts_and_manual() {
    for shell in ["bash", "zsh", "fish"] {
        simflip().args(["completions", shell]).assert().success().stdout(predicate::str::contains("dedup"));
    }
    simflip().arg("man").assert().success().stdout(predicate::str::contains("SIMFLIP DEDUP"));
    simflip().arg("--help").assert().success();
}

#[test]
fn a_near_pair_that_is_not_listed_is_explained_by_what_is_kept_for_it() {
    let place = Place::new();
    let words: Vec<String> = (0..200).map(|at| format!("word{at}")).collect();
    let line = |(id, from): (usize, usize)| {
        format!("{{\"id\": \"p{id}\", \"text\": \"{}\"}}\n", words[from..from + 100].join(" "))
    };
    // The first is near both others, which are near each other.
    let lines: String = [0, 4, 8, 90].into_iter().enumerate().map(line).collect();
    place.put("documents.jsonl", lines);
    let why = |pair: &str| {
        let output = place.run(&format!("explain {pair} documents.jsonl --json")).output().unwrap();
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        let opinions = shown["opinions"].as_array().unwrap();
        opinions.iter().find(|opinion| opinion["by"] == "both").unwrap()["why"].as_str().unwrap().to_owned()
    };
    let expected =
        "; the pair is not listed, for a is removed in favour of p0, and b is removed in favour of p0";
    assert!(why("p1 p2").ends_with(expected), "{}", why("p1 p2"));
    for pair in ["p0 p1", "p2 p0", "p0 p3"] {
        assert!(!why(pair).contains("not listed"), "{}", why(pair));
    }
}

#[test]
fn documents_and_files_are_explained() {
    let top = tempfile::tempdir().unwrap();
    let (input, saved) = (top.path().join("documents.jsonl"), top.path().join("frequencies.bin"));
    write_jsonl(&input);
    let explain = |names: [&str; 2], arguments: &[&str], corpus: Option<&Path>| {
        let mut command = simflip();
        let features = ["--features", "words", "--weighting", "tf-idf"];
        command.arg("explain").args(names).args(corpus).args(features).args(arguments).arg("--json");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let says = |explanation: &Value, by: &str| {
        let opinions = explanation["opinions"].as_array().unwrap();
        opinions.iter().find(|o| o["by"] == by).unwrap_or_else(|| panic!("{opinions:?}"))["near"]
            .as_bool()
            .unwrap()
    };
    let of_corpus = explain(["document 4", "document 4today"], &["--distance", "8"], Some(&input));
    assert!(says(&of_corpus, "simhash") && says(&of_corpus, "psm") && says(&of_corpus, "bphs"));
    assert!(
        says(&of_corpus, "minhash")
            && says(&of_corpus, "verify jaccard")
            && says(&of_corpus, "verify mismatch")
    );
    // Without an equal key the two sketches' verification does not see the pair.
    let why = |explanation: &Value| {
        let opinions = explanation["opinions"].as_array().unwrap();
        opinions.iter().find(|o| o["by"] == "both").unwrap()["why"].as_str().unwrap().to_owned()
    };
    assert!(says(&of_corpus, "both") && why(&of_corpus).contains("keys are equal"), "{}", why(&of_corpus));
    let keyless = explain(["document 4", "document 4today"], &["--bands", "1x128"], Some(&input));
    assert!(!says(&keyless, "both"), "{}", why(&keyless));
    assert!(why(&keyless).starts_with("0 of 1 key is equal, and without an equal key it is not looked at; "));
    // What a preset is of has its own features in its figures.
    let mut removable = simflip();
    removable
        .args(["explain", "document 4", "document 4today", "--preset", "removable", "--json"])
        .arg(&input);
    let removable: Value = serde_json::from_slice(&removable.output().unwrap().stdout).unwrap();
    assert!(why(&removable).contains("of shingles:3: "), "{}", why(&removable));
    let bits = of_corpus["bits"].as_array().unwrap();
    assert_eq!(bits.len() as u64, of_corpus["distance"].as_u64().unwrap());
    assert!(bits.iter().all(|bit| bit["pushed_by"][0][0] == "today"), "{bits:?}");
    assert_eq!((&of_corpus["edit_distance"], &of_corpus["words"]), (&1.into(), &121.into()));
    assert!(
        of_corpus["psm"]["probes"][0].as_u64().unwrap() <= of_corpus["psm"]["all_probes"].as_u64().unwrap()
    );

    // The same pages as files, weighed by the frequencies of that corpus: the same hashes.
    simflip()
        .arg("dedup")
        .arg(&input)
        .args(["--method", "simhash", "--features", "words", "--weighting", "tf-idf"])
        .arg("--save-frequencies")
        .arg(&saved)
        .arg("--out")
        .arg(top.path().join("out"))
        .assert()
        .success();
    let lines = fs::read_to_string(&input).unwrap();
    let files = ["document 4\"", "document 4today\""].map(|id| {
        let line: Value =
            serde_json::from_str(lines.lines().find(|line| line.contains(id)).unwrap()).unwrap();
        let file = top.path().join(id.trim_end_matches('"'));
        fs::write(&file, line["text"].as_str().unwrap()).unwrap();
        file.display().to_string()
    });
    let names = [files[0].as_str(), files[1].as_str()];
    let of_files = explain(names, &["--distance", "8", "--frequencies", saved.to_str().unwrap()], None);
    for key in ["distance", "bits", "jaccard", "containment", "cosine", "edit_distance", "diff"] {
        assert_eq!(of_files[key], of_corpus[key], "{key}");
    }
    assert_eq!(of_files["documents"][1]["hash"], of_corpus["documents"][1]["hash"]);
    let alone = explain(names, &["--distance", "8"], None);
    assert!(alone["weighed"].as_str().unwrap().contains("equally rare"));
    assert_ne!(alone["documents"][0]["hash"], of_files["documents"][0]["hash"]);

    // A document with few features is compared by its text alone, and explained so.
    let short = explain(names, &["--min-features", "1000"], None);
    assert_eq!(short["opinions"].as_array().unwrap().len(), 1);
    assert!(!says(&short, "every method"));
    assert!(says(&explain([names[0], names[0]], &[], None), "every method"));
    // The default still compares by features where the others do not.
    let few = [top.path().join("few 1.txt"), top.path().join("few 2.txt")];
    fs::write(&few[0], "To be, or not to be: that is").unwrap();
    fs::write(&few[1], "to be or not to be that is").unwrap();
    let of_few = explain([few[0].to_str().unwrap(), few[1].to_str().unwrap()], &[], None);
    assert!(says(&of_few, "both") && !says(&of_few, "every other method"), "{}", of_few["opinions"]);
    assert_eq!(of_few["differ_only_in"], "form");
    // What readers overlook is named.
    for (other, sentence) in [
        ("To be, or not to be\u{200b}: that is", "are identical except for invisible characters."),
        ("To be, or nót to be: that is", "are identical except for accents."),
    ] {
        fs::write(&few[1], other).unwrap();
        simflip().arg("explain").args(&few).assert().success().stdout(predicate::str::contains(sentence));
    }
    fs::write(&files[0], [0x61, 0xff]).unwrap();
    simflip().arg("explain").args(names).assert().code(2).stderr(predicate::str::contains("byte 1"));
    simflip()
        .args(["explain", "no-file", "none"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("no-file"));
}

#[test]
fn every_document_can_be_listed_with_the_document_that_stays_for_it() {
    let top = tempfile::tempdir().unwrap();
    let run = |name: &str, options: &[&str]| {
        let out = top.path().join(name);
        let mut command = simflip();
        command.arg("dedup").arg(corpus()).args(["--quiet", "--out"]).arg(&out).args(options);
        command.assert().success();
        simflip().arg("inspect").arg(&out).assert().success();
        out
    };
    let names = |out: &Path| {
        names_in(out)
            .into_iter()
            .filter(|name| !name.starts_with("report"))
            .collect::<std::collections::BTreeSet<_>>()
    };
    let usual = run("usual", &[]);
    let none = run("none", &["--write", "none"]);
    let listed = run("listed", &["--write", "documents,removed"]);
    assert_eq!(names(&usual), ["clusters.csv", "kept.warc.wet.gz", "pairs.csv"].map(String::from).into());
    assert_eq!(names(&none), [].into());
    assert_eq!(
        names(&listed),
        ["clusters.csv", "documents.csv", "pairs.csv", "removed.csv"].map(String::from).into()
    );
    let table = |path: PathBuf| -> Vec<Vec<String>> {
        let mut reader = csv::Reader::from_path(path).unwrap();
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
    };
    let documents = table(listed.join("documents.csv"));
    let outcome = report(&usual)["outcome"].clone();
    assert_eq!(documents.len(), 1572);
    let kept = || documents.iter().filter(|row| row[6] == "true");
    assert_eq!(kept().count() as u64, outcome["kept"].as_u64().unwrap());
    // What the table of clusters says, document by document.
    let clusters = table(usual.join("clusters.csv"));
    let said: Vec<_> = documents.iter().filter(|row| !row[4].is_empty()).collect();
    assert_eq!(said.len(), clusters.len());
    let of_id: std::collections::HashMap<&str, &Vec<String>> =
        said.iter().map(|row| (&*row[2], *row)).collect();
    for row in &clusters {
        let document = of_id[&*row[0]];
        assert_eq!([&document[4], &document[5], &document[6]], [&row[2], &row[3], &row[4]], "{row:?}");
        let stays = of_id[&*document[7]];
        assert!(stays[6] == "true" && stays[4] == document[4], "{document:?}");
    }
    // Similarities are those of the pairs; a document and the one that stays are mostly compared.
    let mut similar = std::collections::HashMap::new();
    for pair in table(usual.join("pairs.csv")) {
        similar.insert([pair[0].clone(), pair[1].clone()], pair[5].clone());
        similar.insert([pair[1].clone(), pair[0].clone()], pair[5].clone());
    }
    let removed: Vec<_> = documents.iter().filter(|row| row[6] == "false").cloned().collect();
    let mut compared = 0;
    for row in &removed {
        if let Some(similarity) = similar.get(&[row[2].clone(), row[7].clone()]) {
            assert_eq!(&row[8], similarity, "{row:?}");
        }
        compared += usize::from(!row[8].is_empty());
    }
    assert!(compared * 10 > removed.len() * 9, "{compared} of {}", removed.len());
    assert_eq!(table(listed.join("removed.csv")), removed);
    // The same in other forms.
    let formed = run("formed", &["--write", "documents.jsonl,documents.parquet"]);
    let reported = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.4}", number.as_f64().unwrap()),
        other => other.to_string(),
    };
    let names = ["file", "row", "id", "url", "cluster", "size", "kept", "representative", "similarity"];
    let row = |object: Value| -> Vec<String> { names.iter().map(|name| reported(&object[*name])).collect() };
    let lines = fs::read_to_string(formed.join("documents.jsonl")).unwrap();
    let of_lines: Vec<_> = lines.lines().map(|line| row(serde_json::from_str(line).unwrap())).collect();
    assert!(of_lines == documents);
    {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        use parquet::record::Field;
        let reported = |field: &Field| match field {
            Field::Null => String::new(),
            Field::Str(text) => text.clone(),
            Field::Double(number) => format!("{number:.4}"),
            other => other.to_string(),
        };
        let file =
            SerializedFileReader::new(fs::File::open(formed.join("documents.parquet")).unwrap()).unwrap();
        let rows = file.get_row_iter(None).unwrap();
        let of_columns: Vec<Vec<String>> = rows
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| reported(field)).collect())
            .collect();
        assert!(of_columns == documents);
        let metadata = file.metadata().file_metadata().key_value_metadata().unwrap();
        let value = |key: &str| metadata.iter().find(|it| it.key == key).unwrap().value.clone().unwrap();
        assert_eq!(value("simflip.documents"), "1");
        let settings: Value = serde_json::from_str(&value("simflip.settings")).unwrap();
        assert_eq!(settings, report(&formed)["settings"]);
    }
    // Of a result that is named, no table of documents is read for documents.
    let again = simflip().arg("dedup").arg(&formed).args(["--out", "none"]).assert().code(2);
    again.stderr(predicate::str::contains("files of a result beside its documents"));
    fs::write(formed.join("documents.jsonl"), lines.lines().skip(1).collect::<Vec<_>>().join("\n") + "\n")
        .unwrap();
    let reported = simflip().arg("inspect").arg(&formed).assert().code(2);
    reported.stderr(predicate::str::contains("rows of documents.jsonl: 1571, but the report says 1572"));
    // A file and a number that lead to the document.
    assert!(documents[0][0].ends_with(".warc.wet.gz") && documents[0][1] == "0", "{:?}", documents[0]);
    // What was changed is found.
    let text = fs::read_to_string(listed.join("removed.csv")).unwrap();
    fs::write(listed.join("removed.csv"), text.replacen(",false,", ",true,", 1)).unwrap();
    let reported = simflip().arg("inspect").arg(&listed).assert().code(2);
    reported.stderr(predicate::str::contains("a document stays exactly where it stays for itself"));
    let both = ["dedup", "none", "--out", "o", "--write", "none,kept"];
    simflip().args(both).assert().code(2).stderr(predicate::str::contains("--write none"));
}

#[test]
fn a_run_that_would_remove_more_than_it_may_writes_nothing() {
    let top = tempfile::tempdir().unwrap();
    let document = |name: &str, n: u64| {
        let text: String = (0..60).map(|word| format!("word{} ", n * 100 + word)).collect();
        format!("{}\n", serde_json::json!({ "url": format!("https://{name}/{n}"), "text": text }))
    };
    // Of one host all documents but two are copies, of the other none.
    let shop: String = (0..30).map(|at| document("shop.example", at.min(1))).collect();
    let news: String = (100..400).map(|at| document("news.example", at)).collect();
    fs::write(top.path().join("documents.jsonl"), shop + &news).unwrap();
    let run = |options: &str, code: i32| -> String {
        let command = format!("dedup documents.jsonl --out result --quiet {options}");
        let output = simflip().current_dir(top.path()).args(command.split(' ')).output().unwrap();
        let reported = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{options}: {reported}");
        reported
    };
    let reported = run("--max-removed 0.9", 2);
    assert!(
        reported.contains("--max-removed 0.9: host shop.example would lose 28 of 30 documents, 93.3 %"),
        "{reported}"
    );
    let reported = run("--max-removed 0.05", 2);
    assert!(reported.contains("the input would lose 28 of 330 documents, 8.5 %"), "{reported}");
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), 1, "nothing but the input");
    assert!(run("--max-removed 7", 2).contains("from 0 to 1"));
    run("--max-removed 0.95", 0);
    assert!(top.path().join("result/report.html").exists());
}

#[test]
fn items_of_benchmarks_are_found_and_taken_out() {
    let place = Place::new();
    let item = |seed: usize| words(seed, 30).trim_end().to_owned();
    let items: String =
        (0..5).map(|seed| format!("{{\"id\": \"i{seed}\", \"question\": \"{}\"}}\n", item(seed))).collect();
    place.put("items.jsonl", items + "{\"id\": \"short\", \"question\": \"too few words to be told\"}\n");
    let document = |seed: usize, middle: &str| {
        let text = format!("{}. {middle} {}", words(100 + seed, 200), words(200 + seed, 200));
        format!("{{\"id\": \"p{seed}\", \"text\": \"{text}\"}}\n")
    };
    place.put(
        "documents.jsonl",
        document(0, "") + &document(1, &item(3)) + &document(2, &format!("{}. {}", item(1), item(3))),
    );
    let read = |file: &str| String::from_utf8(unpacked(&place.at(file)).0).unwrap();
    let run = |options: &str| {
        let command =
            format!("decontaminate documents.jsonl --against items.jsonl --item-field question {options}");
        String::from_utf8(place.run(&command).assert().code(0).get_output().stdout.clone()).unwrap()
    };
    let reported = run("--out clean");
    assert!(reported.contains("3 documents, of which 2 have items"), "{reported}");
    assert!(
        reported.contains("2 of 6 items were found, in 2 documents; 1 item has fewer than 8 words"),
        "{reported}"
    );
    assert_eq!(read("clean/kept.jsonl"), document(0, ""));
    let rows = fs::read_to_string(place.at("clean/matches.csv")).unwrap();
    let shown: Vec<(&str, &str)> = rows
        .lines()
        .skip(1)
        .map(|row| {
            let cells: Vec<&str> = row.split(',').collect();
            (cells[2], cells[6])
        })
        .collect();
    assert_eq!(shown, [("p1", "i3"), ("p2", "i1"), ("p2", "i3")]);
    assert_eq!(fs::read_to_string(place.at("clean/items.csv")).unwrap().lines().count(), 7);
    let report: Value = serde_json::from_slice(&fs::read(place.at("clean/report.json")).unwrap()).unwrap();
    assert_eq!((&report["benchmarks"][0]["found"], &report["matches"]), (&2.into(), &3.into()));
    // The page shows each found item in the first document that has it, and is made from report.json.
    let page = fs::read_to_string(place.at("clean/report.html")).unwrap();
    for said in
        ["<b>2</b> of 3 documents", "2<small>of 5 that were looked for", "i3</bdi>", "in <b>2</b> documents"]
    {
        assert!(page.contains(said), "{said}");
    }
    for seed in [1, 3] {
        assert!(page.contains(&format!("<mark>{}", item(seed))), "{seed}");
    }
    assert!(!page.contains("i0</bdi>"));
    place.run("inspect clean").assert().code(0);
    fs::write(place.at("clean/report.html"), page.replace("of 3 documents", "of 4 documents")).unwrap();
    assert!(place.reported("inspect clean", 2).contains("not the page that report.json makes"));
    fs::write(place.at("clean/report.html"), page).unwrap();
    fs::write(place.at("clean/matches.csv"), rows.lines().next().unwrap()).unwrap();
    assert!(place.reported("inspect clean", 2).contains("rows of matches.csv"));
    // The passages alone.
    run("--out cut --remove passages");
    let cut = read("cut/cut.jsonl.gz");
    assert_eq!(cut.lines().count(), 2);
    for (line, seed) in cut.lines().zip([1, 2]) {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        assert!(!text.contains(&item(3)) && text.contains(words(200 + seed, 200).trim_end()), "{text}");
    }
    // All documents are read from there, those that were cut among them.
    place.run("dedup cut --out after").assert().code(0).stdout(predicate::str::contains("all 3 documents"));
    run("--out tables --remove nothing");
    assert!(!place.at("tables/kept.jsonl").exists());
    let reported = place.reported("decontaminate documents.jsonl --against items.jsonl --out tables", 2);
    assert!(!reported.contains("--force"), "{reported}");
    fs::write(place.at("questions.jsonl"), "{\"question\":\"what is asked\"}\n").unwrap();
    let reported = place.reported("decontaminate documents.jsonl --against questions.jsonl --out none", 2);
    assert!(reported.contains("--item-field"), "{reported}");
    let reported = place.reported("decontaminate documents.jsonl --against none.jsonl --out none", 2);
    assert!(reported.contains("none.jsonl"), "{reported}");
    let reported =
        place.reported("decontaminate documents.jsonl --against items.jsonl --out none --share 2", 2);
    assert!(
        reported.contains("expected a share above 0 and at most 1") && !place.at("none").exists(),
        "{reported}"
    );
}
