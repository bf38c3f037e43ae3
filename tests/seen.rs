//! `simflip seen`: what it answers, and what it remembers when something fails.

use crate::cli::{corpus, simflip};
use crate::place::names_in;
use predicates::prelude::*;
use serde_json::{Value, json};
use simflip::seen::{Access, AnswerKind, LONGEST_NAME, REQUESTS, Reply, Request, Seen, SeenParams};
use simflip::settings::Settings;
use simflip::sketch::{Sketch, Sketcher};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

fn params() -> SeenParams {
    SeenParams { settings: Settings::default(), frequencies: None }
}

/// The words of a page; pages of one number differ in `changed` of them.
fn text(page: u64, changed: u64) -> String {
    let word = |at: u64| match at % 40 == 7 && at / 40 < changed {
        true => format!("changed{changed}at{at} "),
        false => format!("word{} ", page * 1_000 + at),
    };
    (0..200).map(word).collect()
}

fn line(name: &str, text: &str) -> String {
    format!("{}\n", json!({ "url": name, "text": text }))
}

/// Runs the tool in a folder, and gives what it printed.
fn reported(folder: &Path, command: &str, code: i32) -> (String, String) {
    let output = simflip().current_dir(folder).args(command.split(' ')).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(code), "{command}: {err}");
    (out, err)
}

fn answers(json: &str) -> Vec<Value> {
    json.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The answers by page.
fn words(json: &str) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    answers(json).iter().map(|answer| (word(&answer["page"]), word(&answer["answer"]))).collect()
}

#[test]
fn answers_are_the_pairs_that_dedup_has_with_earlier_pages() {
    for options in ["", " --method simhash", " --similarity 0.6"] {
        let top = tempfile::tempdir().unwrap();
        let data = corpus().display().to_string();
        reported(top.path(), &format!("dedup {data} --all-pairs --out out{options}"), 0);
        let mut rows = csv::Reader::from_path(top.path().join("out/pairs.csv")).unwrap();
        // Pairs of different texts are those of the first pages that have them.
        let mut near: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
        let copies: BTreeSet<&str> =
            rows.iter().filter(|row| &row[6] == "exact").map(|row| &row[3]).collect();
        let is_first = |row: &&csv::StringRecord| !copies.contains(&row[2]) && !copies.contains(&row[3]);
        for row in rows.iter().filter(|row| &row[6] == "near").filter(is_first) {
            near.entry(row[3].to_owned()).or_default().insert(row[2].to_owned());
        }
        assert!(near.len() > 50, "{}", near.len());
        let (json, _) = reported(top.path(), &format!("seen --index i --json {data}{options}"), 0);
        let (mut same, mut pairs) = (0, 0);
        for answer in answers(&json) {
            let page = answer["page"].as_str().unwrap();
            let earlier = near.get(page).cloned().unwrap_or_default();
            match answer["answer"].as_str().unwrap() {
                "same" => same += 1,
                "new" => assert!(earlier.is_empty(), "{page}"),
                "near" => {
                    assert!(earlier.contains(answer["earlier"].as_str().unwrap()), "{answer}");
                    assert_eq!(answer["near_pages"], earlier.len(), "{page}");
                    pairs += earlier.len();
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!(pairs, near.values().map(BTreeSet::len).sum::<usize>());
        assert_eq!(same, 355);
        let inspected = simflip().arg("inspect").arg(top.path().join("i")).assert().success();
        inspected.stdout(predicate::str::contains("expected chance matches of a page"));
    }
}

#[test]
fn an_index_is_left_and_taken_up_again_with_its_settings() {
    let top = tempfile::tempdir().unwrap();
    let put = |name: &str, content: String| fs::write(top.path().join(name), content).unwrap();
    put("a.jsonl", line("a", &text(1, 0)) + &line("b", &text(2, 0)) + &line("c", "three short words"));
    put("b.jsonl", line("d", &text(1, 1)) + &line("e", &text(2, 0)) + &line("f", "three short words today"));
    let (csv, _) = reported(top.path(), "seen --index i a.jsonl --seen-at 2026-11-01", 0);
    assert_eq!(
        csv,
        "page,answer,distance,earlier,similarity,last_seen,near_pages\na,new,,,,,0\nb,new,,,,,0\nc,new,,,,,0\n"
    );
    let asked = reported(top.path(), "seen --index i b.jsonl --read-only --json", 0).0;
    assert_eq!(reported(top.path(), "seen --index i b.jsonl --json --seen-at 2026-11-02", 0).0, asked);
    let all = answers(&asked);
    assert_eq!((&all[0]["answer"], &all[0]["earlier"]), (&json!("near"), &json!("a")));
    assert_eq!(all[0]["last_seen"], "2026-11-01T00:00:00.000Z");
    assert!(all[0]["similarity"].as_f64().unwrap() > 0.9);
    assert_eq!(
        (&all[1]["answer"], &all[1]["earlier"], &all[1]["similarity"]),
        (&json!("same"), &json!("b"), &json!(1.0))
    );
    assert_eq!((&all[2]["answer"], &all[2]["near_pages"]), (&json!("new"), &json!(0)));
    let refused = |options: &str, why: &str| {
        let (_, err) = reported(top.path(), &format!("seen --index i b.jsonl {options}"), 2);
        assert!(err.contains(why), "{err}");
    };
    refused("--features words", "the kind of features is shingles:5");
    refused("--method simhash", "the method is both");
    refused("--similarity 0.7", "the least similarity is 0.8");
    refused("--min-features 9", "the least number of features is 1");
    refused("--distance 3", "both, which has no distance");
    reported(top.path(), "seen --index i b.jsonl --similarity 0.8 --features shingles:5 --read-only", 0);
    // Frequencies belong to an index.
    reported(top.path(), "dedup a.jsonl --out out --features words --method simhash --save-frequencies f", 0);
    let weighted = "seen --index w a.jsonl --method simhash --features words --weighting tf-idf";
    assert!(reported(top.path(), weighted, 2).1.contains("--frequencies FILE"));
    reported(top.path(), &format!("{weighted} --frequencies f"), 0);
    let (_, err) = reported(top.path(), "seen --index w a.jsonl", 2);
    assert!(err.contains("Give --method simhash --weighting tf-idf --frequencies FILE"), "{err}");
    reported(top.path(), "dedup b.jsonl --out b --features words --method simhash --save-frequencies g", 0);
    let (_, err) = reported(top.path(), &format!("{weighted} --frequencies g"), 2);
    assert!(err.contains("the checksum of --frequencies"), "{err}");
    let again = reported(top.path(), &format!("{weighted} --frequencies f --json"), 0).0;
    assert!(answers(&again).iter().all(|answer| answer["answer"] == "same"));
}

#[test]
fn threads_change_no_answer() {
    let top = tempfile::tempdir().unwrap();
    let data = corpus().display().to_string();
    let run = |threads: u32| {
        reported(
            top.path(),
            &format!("seen --seen-at 2026-11-01 --index i{threads} --threads {threads} {data}"),
            0,
        )
        .0
    };
    assert_eq!(run(1), run(3));
    let files = |index: &str| fs::read(top.path().join(index).join("log-00000001")).unwrap();
    assert!(files("i1") == files("i3"));
}

/// A tool with pipes at both ends.
struct Piped {
    child: Child,
    answers: BufReader<ChildStdout>,
}

fn piped(folder: &Path, options: &str) -> Piped {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("simflip"))
        .current_dir(folder)
        .args(format!("seen --index i --json {options} -").split(' ').filter(|option| !option.is_empty()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Little is read ahead: what stands in this buffer has been read.
    let answers = BufReader::with_capacity(64, child.stdout.take().unwrap());
    Piped { child, answers }
}

impl Piped {
    fn send(&mut self, lines: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(lines.as_bytes()).and_then(|()| input.flush()).unwrap();
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Closes the input, and gives the exit code and what was said.
    fn end(mut self) -> (i32, String) {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn a_pipe_is_answered_line_by_line_while_it_is_open() {
    let top = tempfile::tempdir().unwrap();
    let mut pipe = piped(top.path(), "--request-field r");
    for page in 0..5 {
        let mark = if page == 0 { "\u{feff}" } else { "" };
        pipe.send(&format!("{mark}{}", line(&format!("p{page}"), &text(page, 0))));
        assert_eq!(pipe.answer()["answer"], "new");
        pipe.send(&line(&format!("q{page}"), &text(page, 1)));
        let answer = pipe.answer();
        assert_eq!((&answer["answer"], &answer["earlier"]), (&json!("near"), &json!(format!("p{page}"))));
    }
    pipe.send("\n{\"text\": 7}\nnonsense\n");
    for line in [12, 13] {
        let answer = pipe.answer();
        assert_eq!((&answer["page"], &answer["answer"]), (&json!(format!("line {line}")), &json!("error")));
    }
    // A request that was answered is answered again as it was; another text under its name is another.
    let request = |id: &str, text: &str| format!("{}\n", json!({ "url": "u", "text": text, "r": id }));
    pipe.send(&request("one", &text(77, 0)));
    let first = pipe.answer();
    assert_eq!((&first["answer"], &first["request"]), (&json!("new"), &json!("one")));
    pipe.send(&request("one", &text(77, 0)));
    let again = pipe.answer();
    assert_eq!((&again["answer"], &again["again"]), (&json!("new"), &json!(true)));
    pipe.send(&request("two", &text(77, 0)));
    assert_eq!(pipe.answer()["answer"], "same");
    pipe.send(&request("one", &text(78, 0)));
    assert_eq!(pipe.answer()["answer"], "new");
    // A number is the name that was written.
    pipe.send("{\"url\":\"u\",\"text\":\"a few words\",\"r\":1.10}\n");
    assert_eq!(pipe.answer()["request"], "1.10");
    // Two on a line as Python writes it, behind the mark of a file: as in files.
    let odd = request("odd", &text(79, 0)).trim_end().replacen('{', "{\"score\": NaN, ", 1);
    pipe.send(&format!("\u{feff}{odd} {odd}\n"));
    let [first, again] = [pipe.answer(), pipe.answer()];
    assert_eq!((&first["answer"], &first["request"]), (&json!("new"), &json!("odd")));
    assert_eq!((&again["answer"], &again["again"]), (&json!("new"), &json!(true)));
    // Another process does not write meanwhile, but may ask.
    fs::write(top.path().join("x.jsonl"), line("x", &text(3, 0)) + &line("y", &text(99, 0))).unwrap();
    let (out, err) = reported(top.path(), "seen --index i x.jsonl", 2);
    assert!(out.is_empty() && err.contains("that no other process writes to"), "{out} {err}");
    let beside = words(&reported(top.path(), "seen --index i x.jsonl --read-only --json", 0).0);
    assert_eq!(beside, [("x".into(), "same".into()), ("y".into(), "new".into())]);
    assert_eq!(pipe.end().0, 1, "some lines were no pages");
    // What was asked for is there, and requests are remembered beyond the process.
    let mut pipe = piped(top.path(), "--request-field r");
    pipe.send(&request("two", &text(77, 0)));
    let again = pipe.answer();
    assert_eq!((&again["answer"], &again["again"]), (&json!("same"), &json!(true)));
    assert_eq!(pipe.end(), (0, String::new()));
}

#[test]
fn the_last_line_of_a_pipe_needs_no_end_and_long_objects_are_reported() {
    let top = tempfile::tempdir().unwrap();
    let mut pipe = piped(top.path(), "--longest-document 1");
    let long = line("long", &"word ".repeat(400_000));
    pipe.send(&long);
    let told = |answer: Value, place: &str| {
        assert_eq!(answer["page"], place);
        assert!(answer["error"].as_str().unwrap().contains("--longest-document"), "{answer}");
    };
    told(pipe.answer(), "line 1");
    // Objects on a line may be longer together than each by itself.
    let two = [1, 2]
        .map(|page| line(&format!("p{page}"), &format!("word{page} ").repeat(90_000)).replace('\n', " "));
    pipe.send(&format!("{}{long}", two.concat()));
    assert_eq!([(); 2].map(|()| pipe.answer()["page"].take()), ["p1", "p2"]);
    told(pipe.answer(), "line 2, object 3");
    pipe.send("\n{\"text\":7} {\"text\":8}\n");
    assert_eq!([(); 2].map(|()| pipe.answer()["page"].take()), ["line 4", "line 4, object 2"]);
    pipe.send(line("last", "a few words").trim_end());
    drop(pipe.child.stdin.take());
    assert_eq!(pipe.answer()["answer"], "new");
    assert_eq!(pipe.end().0, 1);
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_printed_is_not_remembered() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("a.jsonl"), line("a", &text(1, 0)) + &line("b", &text(2, 0))).unwrap();
    let full = |command: &str| {
        let output = Command::new(assert_cmd::cargo::cargo_bin("simflip"))
            .current_dir(top.path())
            .args(command.split(' '))
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // The header of the table fails, or else the answers.
    for command in ["seen --index i a.jsonl", "seen --index i a.jsonl --json"] {
        let (code, err) = full(command);
        assert_eq!(code, Some(2), "{err}");
        assert!(
            err.contains("No space left") && (err.contains("2 answers could") || !command.contains("--json")),
            "{err}"
        );
        let asked = reported(top.path(), "seen --index i a.jsonl --read-only --json", 0).0;
        assert!(words(&asked).iter().all(|(_, word)| word == "new"), "{asked}");
    }
    // Nor is a page seen again whose answer was lost.
    reported(top.path(), "seen --index i a.jsonl --seen-at 2026-11-01", 0);
    assert_eq!(full("seen --index i a.jsonl --json --seen-at 2026-11-20").0, Some(2));
    let asked = answers(&reported(top.path(), "seen --index i a.jsonl --read-only --json", 0).0);
    assert!(asked.iter().all(|answer| answer["last_seen"] == "2026-11-01T00:00:00.000Z"), "{asked:?}");
}

#[test]
fn a_reader_that_dies_loses_no_answer() {
    let top = tempfile::tempdir().unwrap();
    let pages: Vec<(String, String)> = (0..3_000).map(|page| (format!("p{page}"), text(page, 0))).collect();
    let all: String = pages.iter().map(|(name, text)| line(name, text)).collect();
    fs::write(top.path().join("a.jsonl"), &all).unwrap();
    for take in [0, 1, 700, 2_990] {
        let _ = fs::remove_dir_all(top.path().join("i"));
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("simflip"))
            .current_dir(top.path())
            .args(["seen", "--index", "i", "--json", "a.jsonl"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reader = BufReader::with_capacity(64, child.stdout.take().unwrap());
        let mut line = String::new();
        for _ in 0..take {
            reader.read_line(&mut line).unwrap();
        }
        drop(reader);
        let told_dead = child.wait_with_output().unwrap();
        // Asked again, every page is new: none is "the same" because of an answer that nobody read; and so are
        // those that were read, as nobody can tell them apart from the others in the pipe.
        let again = answers(&reported(top.path(), "seen --index i --json a.jsonl", 0).0);
        assert_eq!(again.len(), pages.len());
        if take > 2_000 && told_dead.status.success() {
            // The pipe held all that was left, and the reader died when the index had waited long enough for it.
            continue;
        }
        let err = String::from_utf8(told_dead.stderr).unwrap();
        assert!(err.contains("could not be delivered") || err.contains("has not read all answers"), "{err}");
        let words: Vec<&str> = again.iter().map(|answer| answer["answer"].as_str().unwrap()).collect();
        let first_unread = words.iter().position(|word| *word == "new").unwrap();
        assert!(first_unread <= take, "{first_unread} of {take} read");
        assert!(words[first_unread..].iter().all(|word| *word == "new"), "{words:?}");
        // Once: then they are known.
        let third = reported(top.path(), "seen --index i --json a.jsonl", 0).0;
        assert!(answers(&third).iter().all(|answer| answer["answer"] == "same"));
    }
}

/// What a page that nobody has heard of is answered must not be `same` as itself, whoever was killed with what in the
/// pipes.
#[test]
fn when_both_ends_die_no_page_is_the_same_as_itself() {
    let top = tempfile::tempdir().unwrap();
    let pages = |from: u64, to: u64| -> String {
        (from..to).map(|page| line(&format!("p{page}"), &text(page, 0))).collect()
    };
    let (mut next, mut again, mut heard) = (0, 0, HashSet::new());
    let seconds = std::env::var("SIMFLIP_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds.unwrap_or(0));
    for round in (0..).take_while(|round| *round < 12 || std::time::Instant::now() < until) {
        // Some answers are read; the others stand in the pipe, which dies with both.
        let mut pipe = piped(top.path(), "");
        let (sent, read) = (60 + 40 * (round % 3), round * 29 % 60);
        pipe.send(&pages(next, next + sent));
        for page in next..next + read {
            assert_eq!(pipe.answer()["page"], format!("p{page}"));
            heard.insert(format!("p{page}"));
        }
        let logged = 250 * (next + sent.min(read + 9));
        let newest = || {
            let log = |n: u64| fs::metadata(top.path().join(format!("i/log-{n:08}"))).ok();
            log(1).map_or(u64::MAX, |log| log.len())
        };
        while newest() < logged {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let Piped { mut child, answers } = pipe;
        if round % 2 == 0 {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            // The crawler alone dies, which is reader and writer: one pipe is closed an instant before the other.
            drop(child.stdin.take());
            std::thread::sleep(std::time::Duration::from_millis(round % 4));
            drop(answers);
            let output = child.wait_with_output().unwrap();
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{err}");
            assert!(err.contains("standard output"), "{err}");
        }
        // The crawler sends what it has heard nothing of, twice: it is in doubt once.
        let mut pipe = piped(top.path(), "");
        for (times, word) in [(1, "new"), (2, "same")] {
            pipe.send(&pages(next + read, next + sent));
            for page in next + read..next + sent {
                let answer = pipe.answer();
                assert_eq!(answer["page"], format!("p{page}"));
                assert_eq!(answer["answer"], word, "round {round}, time {times}: {answer}");
                again += usize::from(answer["again"] == true);
            }
        }
        // A reader that has read all answers may go before its lines end.
        let Piped { mut child, answers } = pipe;
        drop(answers);
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(0));
        next += sent;
    }
    assert!(again > 100, "{again}");
    // An end in good order leaves no doubt of what was answered since; what was heard before a death is in doubt still.
    fs::write(top.path().join("all.jsonl"), pages(0, next)).unwrap();
    let known = answers(&reported(top.path(), "seen --index i --json all.jsonl", 0).0);
    for answer in &known {
        let is_known = answer["answer"] == "same" && answer["again"].is_null();
        assert!(is_known || heard.contains(answer["page"].as_str().unwrap()), "{answer}");
    }
}

#[cfg(unix)]
#[test]
fn a_page_whose_crawler_was_killed_alone_is_not_the_same_as_itself() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("a.jsonl"), line("unheard", &text(1, 0))).unwrap();
    let crawler = "mkfifo in out; \"$SIMFLIP\" seen --index i --json - <in >out & exec 3>in 4<out; cat a.jsonl >&3; \
                   until grep -qs unheard i/log-*; do sleep .01; done; sleep .2; kill -9 $$";
    let output = Command::new("sh")
        .args(["-c", crawler])
        .current_dir(top.path())
        .env("SIMFLIP", assert_cmd::cargo::cargo_bin("simflip"))
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("standard output"), "{err}");
    let is_in_doubt_once = || {
        for word in ["new", "same"] {
            assert_eq!(words(&reported(top.path(), "seen --index i --json a.jsonl", 0).0)[0].1, word);
        }
    };
    is_in_doubt_once();
    // Some crawlers read from a socket, which says otherwise that its reader is gone.
    for reads in [false, true] {
        fs::remove_dir_all(top.path().join("i")).unwrap();
        let (mut crawler, output) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("simflip"))
            .current_dir(top.path())
            .args(["seen", "--index", "i", "--json", "-"])
            .stdin(Stdio::piped())
            .stdout(std::os::fd::OwnedFd::from(output))
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(line("unheard", &text(1, 0)).as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let length = if reads { answer.len() } else { 1 };
        assert!(crawler.read(&mut answer[..length]).unwrap() > 0);
        drop(child.stdin.take());
        drop(crawler);
        assert_eq!(child.wait().unwrap().code(), Some(if reads { 0 } else { 2 }));
        if !reads {
            is_in_doubt_once();
        }
    }
}

#[test]
fn a_log_that_was_truncated_is_reported() {
    let top = tempfile::tempdir().unwrap();
    let pages: String = (0..300).map(|page| line(&format!("p{page}"), &text(page, 0))).collect();
    fs::write(top.path().join("a.jsonl"), pages).unwrap();
    fs::write(top.path().join("b.jsonl"), line("x", "a few words")).unwrap();
    reported(top.path(), "seen --index i a.jsonl", 0);
    let log = top.path().join("i/log-00000001");
    let whole = fs::read(&log).unwrap();
    for cut in [whole.len() / 2 + 3, whole.len() / 3, whole.len() - 1] {
        fs::write(&log, &whole[..cut]).unwrap();
        let missing = format!("truncated: at least {} bytes are missing", whole.len() - cut);
        // Whoever asks alone hears as often as it asks; a writer goes on from there.
        for _ in 0..2 {
            let (_, err) = reported(top.path(), "seen --index i --read-only b.jsonl", 0);
            assert!(err.contains(&missing) && !err.contains("never"), "{err}");
        }
        assert!(reported(top.path(), "inspect i", 2).1.contains(&missing));
        let length = fs::read(top.path().join("i/length")).unwrap();
        let (_, err) = reported(top.path(), "seen --index i b.jsonl", 0);
        assert!(err.contains(&missing), "{err}");
        assert!(reported(top.path(), "seen --index i b.jsonl", 0).1.is_empty());
        fs::write(top.path().join("i/length"), length).unwrap();
    }
    // A log that is missing altogether is reported as well, with a snapshot before it and without one.
    for remove in ["none", "p0"] {
        let logs = || {
            let entries = fs::read_dir(top.path().join("i")).unwrap().map(|entry| entry.unwrap().path());
            entries.filter(|path| path.to_string_lossy().contains("/log-")).collect::<Vec<_>>()
        };
        reported(top.path(), "seen --index i a.jsonl", 0);
        reported(top.path(), &format!("seen --index i --remove {remove} a.jsonl"), 0);
        assert!(reported(top.path(), "inspect i", 0).1.is_empty());
        let [log] = &logs()[..] else { panic!("{:?}", logs()) };
        fs::remove_file(log).unwrap();
        let (_, err) = reported(top.path(), "seen --index i b.jsonl", 0);
        assert!(err.contains("the file is gone"), "{err}");
        assert!(reported(top.path(), "seen --index i b.jsonl", 0).1.is_empty());
    }
}

#[test]
fn killed_at_any_moment_it_has_forgotten_no_answer() {
    let top = tempfile::tempdir().unwrap();
    let (mut given, mut page, mut again) = (HashMap::new(), 0, 0);
    for round in 0..25u64 {
        let mut pipe = piped(top.path(), if round % 2 == 0 { "" } else { "--fsync" });
        let first = page;
        let lines: String = (0..40).map(|n| line(&format!("p{}", page + n), &text(page + n, 0))).collect();
        pipe.send(&lines);
        for _ in 0..round * 37 % 41 {
            let answer = pipe.answer();
            assert_eq!(answer["answer"], "new");
            given.insert(answer["page"].as_str().unwrap().to_owned(), page);
            page += 1;
        }
        pipe.child.kill().unwrap();
        let mut rest = String::new();
        while pipe.answers.read_line(&mut rest).unwrap() > 0 {
            // What was in the pipe was given as well.
            if rest.ends_with('\n') {
                given.insert(format!("p{page}"), page);
                page += 1;
            }
            rest.clear();
        }
        let _ = pipe.child.wait();
        // What was given is remembered; the others are new, or answered as they were when they were logged.
        let mut pipe = piped(top.path(), "");
        for n in first..first + 40 {
            pipe.send(&line(&format!("other{n}"), &text(n, 0)));
            let known = pipe.answer()["answer"] == "same";
            assert!(
                known || !given.contains_key(&format!("p{n}")),
                "page {n} of round {round} was forgotten"
            );
            again += usize::from(known && !given.contains_key(&format!("p{n}")));
        }
        assert_eq!(pipe.end().0, 0);
        page = first + 40;
    }
    assert!(given.len() > 200, "{}", given.len());
    assert!(again < 25 * 40 / 2, "{again}");
    let (_, err) = reported(top.path(), "inspect i", 0);
    assert!(err.is_empty(), "{err}");
}

/// An index with pages, each answered and delivered, and the length of its log after each.
fn filled(folder: &Path, pages: u64) -> Vec<u64> {
    let mut seen = Seen::open(folder, Access::Write { fsync: false }, Some(&params())).unwrap();
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    let mut lengths = vec![seen.stored_bytes().1];
    for page in 0..pages {
        let name = format!("page {page}");
        let reply = ask(&mut seen, &mut sketcher, &name, &text(page, 0));
        assert_eq!(reply.kind, AnswerKind::New);
        lengths.push(seen.stored_bytes().1);
    }
    lengths
}

fn request(name: &str) -> Request<'_> {
    Request { name, seen: 5, ..Request::default() }
}

fn ask(seen: &mut Seen, sketcher: &mut Sketcher, name: &str, text: &str) -> Reply {
    let reply = seen.ask_and_add(&request(name), &sketcher.sketch(text)).unwrap();
    seen.commit().unwrap();
    seen.delivered().unwrap();
    reply
}

/// How many of the first pages are known, and whether any behind them is.
fn known(folder: &Path, pages: u64) -> Vec<bool> {
    let seen = Seen::open(folder, Access::Read, None).unwrap();
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    (0..pages)
        .map(|page| {
            let reply = seen.ask(&request("?"), &sketcher.sketch(&text(page, 0))).unwrap();
            if reply.kind == AnswerKind::Same {
                assert_eq!(reply.earlier.as_deref(), Some(&*format!("page {page}")));
            }
            reply.kind == AnswerKind::Same
        })
        .collect()
}

#[test]
fn a_log_that_was_cut_anywhere_keeps_what_stands_before() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    let lengths = filled(&index, 6);
    let log = index.join("log-00000001");
    let whole = fs::read(&log).unwrap();
    assert_eq!(whole.len() as u64, lengths[6]);
    for cut in (lengths[0] as usize..whole.len()).step_by(13) {
        fs::write(&log, &whole[..cut]).unwrap();
        let left = known(&index, 6);
        // A page is whole before its answer is delivered, which is what the length counts.
        let least = lengths.iter().filter(|&&length| length as usize <= cut).count() - 1;
        assert!(left[..least].iter().all(|known| *known), "{cut}: {left:?}");
        assert!(left[(least + 1).min(6)..].iter().all(|known| !known), "{cut}: {left:?}");
        // A writer goes on behind the last whole record.
        let mut seen = Seen::open(&index, Access::Write { fsync: true }, None).unwrap();
        let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
        ask(&mut seen, &mut sketcher, "page 77", &text(77, 0));
        drop(seen);
        assert_eq!(known(&index, 6), left);
        assert_eq!(
            known(&index, 78).iter().filter(|known| **known).count(),
            left.iter().filter(|known| **known).count() + 1
        );
    }
    // Cut within its header, it is no index.
    fs::write(&log, &whole[..30]).unwrap();
    assert!(Seen::open(&index, Access::Read, None).unwrap_err().to_string().contains("whole header"));
}

#[test]
fn a_corrupt_record_costs_itself_alone() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    let lengths = filled(&index, 6);
    let log = index.join("log-00000001");
    let whole = fs::read(&log).unwrap();
    for at in (lengths[0] as usize..whole.len()).step_by(29) {
        let mut corrupt = whole.clone();
        corrupt[at] ^= 0x41;
        fs::write(&log, &corrupt).unwrap();
        let left = known(&index, 6);
        assert!(left.iter().filter(|known| !**known).count() <= 1, "{at}: {left:?}");
        let hit = lengths.iter().rposition(|&length| length as usize <= at).unwrap();
        assert!(left.iter().enumerate().all(|(page, known)| *known || page == hit), "{at}: {left:?}");
        let seen = Seen::open(&index, Access::Read, None).unwrap();
        let reported = seen.notes().iter().any(|note| note.contains("corrupt"));
        assert!(reported || left.iter().all(|known| *known), "{at}: {:?}", seen.notes());
        if reported {
            // A writer tells it once and puts what is left into a snapshot.
            drop(Seen::open(&index, Access::Write { fsync: false }, None).unwrap());
            let healed = Seen::open(&index, Access::Write { fsync: false }, None).unwrap();
            assert!(healed.notes().is_empty(), "{:?}", healed.notes());
            drop(healed);
            assert_eq!(known(&index, 6), left);
            fs::remove_dir_all(&index).unwrap();
            fs::create_dir(&index).unwrap();
        }
    }
}

#[test]
fn answers_that_were_not_delivered_are_taken_back_or_in_doubt() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    filled(&index, 2);
    let open = || Seen::open(&index, Access::Write { fsync: false }, None).unwrap();
    // Two of four are delivered, the second of them "same".
    let mut seen = open();
    for (name, page) in [("a", 2), ("b", 0), ("c", 3), ("d", 1)] {
        let request = Request { seen: 9, ..request(name) };
        seen.ask_and_add(&request, &sketcher.sketch(&text(page, 0))).unwrap();
    }
    seen.commit().unwrap();
    seen.withdraw(2).unwrap();
    let check = |seen: &Seen, sketcher: &mut Sketcher| {
        let mut of = |page| seen.ask(&request("?"), &sketcher.sketch(&text(page, 0))).unwrap();
        assert_eq!([of(2).kind, of(3).kind], [AnswerKind::Same, AnswerKind::New]);
        assert_eq!([of(0).seen, of(1).seen], [9, 5]);
    };
    check(&seen, &mut sketcher);
    drop(seen);
    let mut seen = open();
    assert!(seen.notes()[0].contains("whether its latest 2 answers arrived"), "{:?}", seen.notes());
    check(&seen, &mut sketcher);
    // Committed, and then nothing is heard of the process.
    let reply = seen.ask_and_add(&request("e"), &sketcher.sketch(&text(0, 1))).unwrap();
    assert_eq!(reply.kind, AnswerKind::Near);
    seen.commit().unwrap();
    drop(seen);
    for restarts in 0..3 {
        let mut seen = open();
        assert_eq!(seen.notes().len(), usize::from(restarts == 0), "{:?}", seen.notes());
        if restarts == 1 {
            // A doubt outlives a snapshot.
            seen.snapshot().unwrap();
        }
        // Another page, and another text of the same page, are no such request.
        let other = seen.ask(&request("f"), &sketcher.sketch(&text(0, 1))).unwrap();
        assert_eq!((other.kind, other.again), (AnswerKind::Same, false));
        let again = seen.ask_and_add(&request("e"), &sketcher.sketch(&text(0, 1))).unwrap();
        assert_eq!(again, Reply { again: true, ..reply.clone() });
        seen.commit().unwrap();
        match restarts {
            // Given again, but not delivered: it stays in doubt.
            0 => seen.withdraw(0).unwrap(),
            1 => seen.delivered().unwrap(),
            _ => unreachable!("it is settled"),
        }
        if restarts == 1 {
            break;
        }
    }
    let mut seen = open();
    assert_eq!(ask(&mut seen, &mut sketcher, "e", &text(0, 1)).kind, AnswerKind::Same);
    // What was never committed is not there.
    seen.ask_and_add(&request("g"), &sketcher.sketch(&text(50, 0))).unwrap();
    drop(seen);
    let seen = Seen::open(&index, Access::Read, None).unwrap();
    assert_eq!(seen.ask(&request("?"), &sketcher.sketch(&text(50, 0))).unwrap().kind, AnswerKind::New);
}

#[test]
fn snapshots_hold_everything_and_a_cut_one_says_what_is_lost() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    filled(&index, 20);
    let mut seen = Seen::open(&index, Access::Write { fsync: false }, None).unwrap();
    for _ in 0..3 {
        seen.snapshot().unwrap();
    }
    drop(seen);
    let names = || names_in(&index);
    assert_eq!(names(), ["length", "lock", "log-00000004", "snapshot-00000004"]);
    assert!(known(&index, 20).iter().all(|known| *known));
    // Killed between a snapshot and its log, or before the files of the last one were taken away.
    fs::remove_file(index.join("log-00000004")).unwrap();
    fs::copy(index.join("snapshot-00000004"), index.join("snapshot-00000003")).unwrap();
    let mut seen = Seen::open(&index, Access::Write { fsync: false }, None).unwrap();
    assert!(seen.notes().is_empty());
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    ask(&mut seen, &mut sketcher, "page 20", &text(20, 0));
    drop(seen);
    assert_eq!(names(), ["length", "lock", "log-00000004", "snapshot-00000004"]);
    assert!(known(&index, 21).iter().all(|known| *known));
    let snapshot = index.join("snapshot-00000004");
    let whole = fs::read(&snapshot).unwrap();
    // Tables that are corrupt are made anew: where they begin and end are the last numbers of the file.
    let offsets = |back: usize| {
        let at = whole.len() - 8 * back;
        u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize
    };
    let tables = offsets(17)..offsets(1);
    assert!(tables.len() > 16 * 20 * 4 && tables.end < whole.len());
    for at in tables.step_by(97) {
        let mut corrupt = whole.clone();
        corrupt[at] ^= 0x20;
        fs::write(&snapshot, corrupt).unwrap();
        assert!(known(&index, 21).iter().all(|known| *known), "{at}");
        let notes = Seen::open(&index, Access::Read, None).unwrap().notes().concat();
        assert!(notes.contains("tables are corrupt"), "{at}: {notes}");
    }
    fs::write(&snapshot, &whole[..whole.len() / 2]).unwrap();
    let seen = Seen::open(&index, Access::Read, None).unwrap();
    assert!(seen.notes()[0].contains("the end is missing"), "{:?}", seen.notes());
    assert!((5..20).contains(&seen.len()), "{}", seen.len());
    simflip().arg("inspect").arg(&index).assert().code(2);
}

#[test]
fn what_is_removed_leaves_no_trace() {
    let top = tempfile::tempdir().unwrap();
    let put = |name: &str, content: String| fs::write(top.path().join(name), content).unwrap();
    put(
        "a.jsonl",
        (0..30).map(|page| line(&format!("http://site.example/{page}"), &text(page, 0))).collect(),
    );
    put("b.jsonl", line("http://other.example/secret", &text(99, 0)));
    reported(top.path(), "seen --index i a.jsonl --seen-at 2026-01-01", 0);
    reported(top.path(), "seen --index i b.jsonl --seen-at 2026-06-01", 0);
    let traces = |what: &str| stands_in(&top.path().join("i"), what);
    assert!(traces("secret") && traces("site.example/7"));
    let (_, err) =
        reported(top.path(), "seen --index i --remove http://other.example/secret --remove none", 0);
    assert!(err.contains("simflip: 1 page was removed\n"), "{err}");
    assert!(err.contains("--remove none: no stored page has this name"), "{err}");
    assert!(!err.contains("--remove http"), "{err}");
    assert!(!traces("secret") && traces("site.example/7"));
    assert_eq!(words(&reported(top.path(), "seen --index i --json --read-only b.jsonl", 0).0)[0].1, "new");
    // Seen again, a page does not expire.
    put("c.jsonl", line("again", &text(7, 0)));
    reported(top.path(), "seen --index i c.jsonl --seen-at 2026-05-30", 0);
    let (_, err) = reported(top.path(), "seen --index i --expire 30d --seen-at 2026-06-02", 0);
    let (_, err_of_none) = reported(top.path(), "seen --index none --expire 30d", 2);
    assert!(
        err_of_none.contains("there is no such index") && !top.path().join("none").exists(),
        "{err_of_none}"
    );
    assert!(err.contains("29 pages were removed"), "{err}");
    let left = words(&reported(top.path(), "seen --index i --json --read-only a.jsonl", 0).0);
    assert_eq!(left.iter().filter(|(_, word)| word == "same").count(), 1);
}

/// Whether a name stands in a file of an index.
fn stands_in(index: &Path, what: &str) -> bool {
    fs::read_dir(index).unwrap().any(|entry| {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(what.len()).any(|window| window == what.as_bytes())
    })
}

#[test]
fn no_answer_tells_of_what_was_removed() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    let mut asked = |seen: &mut Seen, name: &str, id: Option<&str>, page: u64, changed: u64| {
        let request = Request { id, ..request(name) };
        let reply = seen.ask_and_add(&request, &sketcher.sketch(&text(page, changed))).unwrap();
        seen.commit().unwrap();
        reply
    };
    let open = || Seen::open(&index, Access::Write { fsync: false }, Some(&params())).unwrap();
    let mut seen = open();
    asked(&mut seen, "gone", Some("r1"), 0, 0);
    let near = asked(&mut seen, "near", Some("r2"), 0, 1);
    assert_eq!(near.earlier.as_deref(), Some("gone"));
    asked(&mut seen, "copy", None, 7, 0);
    seen.delivered().unwrap();
    // The name of a page with the text of another one stands in the log alone.
    asked(&mut seen, "second", None, 7, 0);
    seen.delivered().unwrap();
    // In doubt: one is stored, the other is the text of a page that is.
    asked(&mut seen, "doubted", None, 1, 0);
    asked(&mut seen, "doubted too", None, 7, 0);
    drop(seen);
    let mut seen = open();
    assert_eq!(seen.remove(&HashSet::from(["gone", "doubted"]), 0).unwrap(), 2);
    assert_eq!(seen.remove(&HashSet::from(["doubted too"]), 0).unwrap(), 0);
    assert!(seen.has_traces());
    // Killed here, it knows of the traces by its log, and forgets the same answers.
    drop(seen);
    let mut seen = open();
    assert!(seen.has_traces() && stands_in(&index, "gone"));
    let near = Reply { earlier: None, again: true, ..near };
    assert_eq!(asked(&mut seen, "near", Some("r2"), 0, 1), near);
    seen.delivered().unwrap();
    seen.close().unwrap();
    for name in ["gone", "doubted", "second"] {
        assert!(!stands_in(&index, name) || name == "second", "{name}");
    }
    let mut seen = open();
    assert!(!seen.has_traces());
    assert_eq!(asked(&mut seen, "near", Some("r2"), 0, 1), near);
    // Seen again, what was removed is new, and then it is not.
    for (name, id, page) in [("gone", Some("r1"), 0), ("doubted", None, 1)] {
        let [first, second] = [0, 1].map(|_| {
            let reply = asked(&mut seen, name, id.filter(|_| page == 1), page, 0);
            seen.delivered().unwrap();
            reply
        });
        assert!(!first.again && first.kind != AnswerKind::Same, "{first:?}");
        assert_eq!(second.kind, AnswerKind::Same);
    }
    // What no page has as its name, but an answer in the log.
    asked(&mut seen, "a third name", None, 7, 0);
    seen.delivered().unwrap();
    assert_eq!(seen.remove(&HashSet::from(["nobody's"]), 0).unwrap(), 0);
    assert!(!seen.has_traces());
    assert_eq!(seen.remove(&HashSet::from(["a third name"]), 0).unwrap(), 0);
    assert!(seen.has_traces());
    seen.close().unwrap();
    assert!(!stands_in(&index, "a third name") && stands_in(&index, "copy"));
}

#[test]
fn what_a_killed_snapshot_left_goes() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    filled(&index, 3);
    for end in ["", ".lock"] {
        fs::write(index.join(format!("snapshot-00000002.unfinished-aB3dE6{end}")), "page 1").unwrap();
    }
    drop(Seen::open(&index, Access::Read, None).unwrap());
    assert_eq!(fs::read_dir(&index).unwrap().count(), 5);
    drop(Seen::open(&index, Access::Write { fsync: false }, None).unwrap());
    assert_eq!(fs::read_dir(&index).unwrap().count(), 3);
}

#[test]
fn a_corrupt_mark_takes_no_pages_back() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    let lengths = filled(&index, 5);
    let mut seen = Seen::open(&index, Access::Write { fsync: false }, None).unwrap();
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    for page in 5..9 {
        seen.ask_and_add(&request(&format!("page {page}")), &sketcher.sketch(&text(page, 0))).unwrap();
    }
    seen.commit().unwrap();
    seen.withdraw(1).unwrap();
    drop(seen);
    let expected = [[true; 6].as_slice(), &[false; 3]].concat();
    assert_eq!(known(&index, 9), expected);
    let log = index.join("log-00000001");
    let whole = fs::read(&log).unwrap();
    // The last byte of the record that says that the answers to the first pages arrived.
    let mut corrupt = whole.clone();
    corrupt[lengths[5] as usize - 1] ^= 1;
    fs::write(&log, corrupt).unwrap();
    assert_eq!(known(&index, 9), expected);
    // What a machine without power leaves is no record that was being written.
    let mut zeros = whole[..lengths[3] as usize].to_vec();
    zeros.resize(whole.len(), 0);
    fs::write(&log, zeros).unwrap();
    let seen = Seen::open(&index, Access::Read, None).unwrap();
    assert!(seen.notes()[0].contains("are corrupt"), "{:?}", seen.notes());
}

#[test]
fn names_that_are_too_long_are_refused_before_anything_is_stored() {
    let top = tempfile::tempdir().unwrap();
    let [longest, longer] = [LONGEST_NAME, LONGEST_NAME + 1].map(|length| "u".repeat(length));
    let lines = line(&longest, &text(0, 0)) + &line(&longer, &text(0, 1)) + &line("last", &text(0, 2));
    fs::write(top.path().join("a.jsonl"), &lines).unwrap();
    for input in ["a.jsonl", "-"] {
        let index = format!("i{}", input.len());
        let args = ["seen", "--json", "--index", &index, input];
        let output = simflip().current_dir(top.path()).args(args).write_stdin(&*lines).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let words: Vec<Value> = answers(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(words[0]["answer"], "new");
        assert!(words[1]["error"].as_str().unwrap().contains("65536"), "{}", words[1]);
        assert_eq!((&words[2]["answer"], &words[2]["near_pages"]), (&json!("near"), &json!(1)));
        assert_eq!(Seen::open(&top.path().join(index), Access::Read, None).unwrap().len(), 2);
    }
}

#[test]
fn a_request_whose_name_is_used_again_is_the_newest() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    let mut seen = Seen::open(&index, Access::Write { fsync: false }, Some(&params())).unwrap();
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    let copy = sketcher.sketch(&text(0, 0));
    let mut asked = |id: &str, sketch: &Sketch| {
        let reply = seen.ask_and_add(&Request { id: Some(id), ..request("page") }, sketch).unwrap();
        seen.acknowledge().unwrap();
        reply
    };
    asked("first", &copy);
    for number in 0..REQUESTS / 2 {
        asked(&number.to_string(), &copy);
    }
    let other = sketcher.sketch(&text(1, 0));
    assert_eq!(asked("first", &other).kind, AnswerKind::New);
    for number in REQUESTS / 2..REQUESTS + 9 {
        asked(&number.to_string(), &copy);
    }
    let again = asked("first", &other);
    assert_eq!((again.kind, again.again), (AnswerKind::New, true));
}

#[test]
fn what_was_seen_too_long_ago_is_stale() {
    let top = tempfile::tempdir().unwrap();
    let put = |name: &str, content: String| fs::write(top.path().join(name), content).unwrap();
    put("a.jsonl", line("a", &text(1, 0)) + &line("b", &text(2, 0)));
    put("b.jsonl", line("c", &text(1, 1)));
    reported(top.path(), "seen --index i a.jsonl --seen-at 2026-01-01", 0);
    let at = |file: &str, day: &str| {
        answers(
            &reported(top.path(), &format!("seen --index i --fresh 30d --json {file} --seen-at {day}"), 0).0,
        )
    };
    let stale = at("b.jsonl", "2026-02-15");
    assert_eq!((&stale[0]["answer"], &stale[0]["earlier"]), (&json!("stale"), &json!("a")));
    assert_eq!(stale[0]["last_seen"], "2026-01-01T00:00:00.000Z");
    // It is stored now, and fresh. The text of the older one was not seen lately, but one that is near was.
    let later = at("a.jsonl", "2026-02-16");
    assert_eq!((&later[0]["answer"], &later[0]["earlier"]), (&json!("near"), &json!("c")));
    assert_eq!(later[0]["last_seen"], "2026-02-15T00:00:00.000Z");
    assert_eq!((&later[1]["answer"], &later[1]["earlier"]), (&json!("stale"), &json!("b")), "the same text");
    assert_eq!(at("a.jsonl", "2026-02-17")[0]["answer"], "same");
    put("d.jsonl", line("d", &text(1, 2)));
    let near = at("d.jsonl", "2026-02-18");
    assert_eq!((&near[0]["answer"], &near[0]["near_pages"]), (&json!("near"), &json!(2)));
}

#[test]
fn two_at_once_never_lose_pages() {
    let top = tempfile::tempdir().unwrap();
    let file = |name: &str, first: u64| -> PathBuf {
        let path = top.path().join(name);
        fs::write(
            &path,
            (first..first + 200).map(|page| line(&format!("p{page}"), &text(page, 0))).collect::<String>(),
        )
        .unwrap();
        path
    };
    let files = [file("a.jsonl", 0), file("b.jsonl", 200)];
    for round in 0..6 {
        let index = top.path().join(format!("i{round}"));
        let children: Vec<Child> = files
            .iter()
            .map(|file| {
                let mut command = Command::new(assert_cmd::cargo::cargo_bin("simflip"));
                command.args(["seen", "--index"]).arg(&index).arg(file);
                command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let ended: Vec<bool> = children
            .into_iter()
            .map(|child| {
                let output = child.wait_with_output().unwrap();
                let err = String::from_utf8(output.stderr).unwrap();
                assert!(output.status.success() || err.contains("that no other process writes to"), "{err}");
                output.status.success()
            })
            .collect();
        let pages = Seen::open(&index, Access::Read, None).unwrap().len();
        assert_eq!(pages, 200 * ended.iter().filter(|well| **well).count());
    }
}

#[test]
fn a_snapshot_that_is_made_while_pages_come_and_go_loses_nothing() {
    let top = tempfile::tempdir().unwrap();
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    let index = top.path().join("i");
    let mut seen = Seen::open(&index, Access::Write { fsync: true }, Some(&params())).unwrap();
    seen.snapshots_by_hand().unwrap();
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    let store =
        |seen: &mut Seen, sketcher: &mut Sketcher, model: &mut BTreeMap<u64, u64>, page: u64, at: u64| {
            let name = format!("page {page}");
            let request = Request { name: &name, seen: at, ..Request::default() };
            let reply = seen.ask_and_add(&request, &sketcher.sketch(&text(page, 0))).unwrap();
            let kind = if model.contains_key(&page) { AnswerKind::Same } else { AnswerKind::New };
            assert!(reply.kind == kind || reply.again, "{reply:?}");
            if let (Some(unsynced), _) = seen.commit_and_send().unwrap() {
                unsynced.sync().unwrap();
            }
            let last = model.entry(page).or_default();
            // An answer in doubt is given once more, and nothing else happens.
            *last = (*last).max(if reply.again { 0 } else { at });
        };
    let remove = |seen: &mut Seen, model: &mut BTreeMap<u64, u64>, page: u64| {
        let name = format!("page {page}");
        let gone = seen.remove(&[&name[..]].into(), 0).unwrap();
        assert_eq!(gone, usize::from(model.remove(&page).is_some()));
    };
    let hold = |seen: &Seen, sketcher: &mut Sketcher, model: &BTreeMap<u64, u64>, pages: u64| {
        assert_eq!(seen.len(), model.len());
        for page in 0..pages {
            let request = Request { name: "?", ..Request::default() };
            let reply = seen.ask(&request, &sketcher.sketch(&text(page, 0))).unwrap();
            let name = model.contains_key(&page).then(|| format!("page {page}"));
            assert_eq!(reply.earlier.as_deref(), name.as_deref());
            assert_eq!(reply.seen, model.get(&page).copied().unwrap_or_default());
        }
    };
    for page in 0..1_500 {
        store(&mut seen, &mut sketcher, &mut model, page, 10);
    }
    let mut next = 1_500;
    // Ended in good order, cut off before its end, before its beginning, and with none removed meanwhile.
    for round in 0..5u64 {
        let log = seen.new_log().unwrap()().unwrap();
        if round != 3 {
            let mut snapshot = seen.begin_snapshot(log).unwrap();
            let mut steps = 0;
            while snapshot.copy(&seen) {
                // New pages, old ones again, some removed, and one whose number is given to another.
                store(&mut seen, &mut sketcher, &mut model, next, 20 + round);
                store(&mut seen, &mut sketcher, &mut model, 100 * steps + round, 30 + round);
                for page in [90 * steps + 5, 1_400u64.saturating_sub(80 * steps), next]
                    .into_iter()
                    .filter(|_| round != 4)
                {
                    remove(&mut seen, &mut model, page);
                }
                store(&mut seen, &mut sketcher, &mut model, next + 1, 50);
                store(&mut seen, &mut sketcher, &mut model, 90 * steps + 5, 51);
                snapshot.write().unwrap();
                (next, steps) = (next + 2, steps + 1);
            }
            assert!(steps > 3);
            if round != 2 {
                let mut finished = snapshot.finish().unwrap();
                while !seen.end_snapshot(&mut finished).unwrap() {
                    remove(&mut seen, &mut model, 700 + round);
                }
                let inspected = simflip().arg("inspect").arg(&index).assert().success();
                let tables = format!("{} of 16", if round == 4 { 16 } else { 0 });
                inspected.stdout(predicate::str::contains(tables));
                assert!(fs::read_dir(&index).unwrap().count() <= 4, "snapshot, log, its length, lock");
            }
        }
        store(&mut seen, &mut sketcher, &mut model, next, 60);
        next += 1;
        hold(&seen, &mut sketcher, &model, next);
        drop(seen);
        let read = Seen::open(&index, Access::Read, None).unwrap();
        assert_eq!(read.notes(), [] as [&str; 0], "who asks alone is not told of doubts");
        hold(&read, &mut sketcher, &model, next);
        seen = Seen::open(&index, Access::Write { fsync: false }, None).unwrap();
        seen.snapshots_by_hand().unwrap();
        assert!(seen.notes().iter().all(|note| note.contains("did not close it")), "{:?}", seen.notes());
        hold(&seen, &mut sketcher, &model, next);
    }
    seen.snapshot().unwrap();
    assert!(!seen.has_traces());
    seen.close().unwrap();
    let read = Seen::open(&index, Access::Read, None).unwrap();
    hold(&read, &mut sketcher, &model, next);
}

#[test]
fn no_answer_in_a_snapshot_tells_of_what_was_removed_while_it_was_made() {
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("i");
    let mut sketcher = Sketcher::new(&Settings::default(), None).unwrap();
    let open = || Seen::open(&index, Access::Write { fsync: false }, Some(&params())).unwrap();
    let mut seen = open();
    let mut asked = |seen: &mut Seen, name: &str, page: u64, changed: u64| {
        let reply = seen.ask_and_add(&request(name), &sketcher.sketch(&text(page, changed))).unwrap();
        seen.commit().unwrap();
        seen.sent().unwrap();
        reply
    };
    asked(&mut seen, "gone", 0, 0);
    let near = asked(&mut seen, "near", 0, 1);
    assert_eq!(near.earlier.as_deref(), Some("gone"));
    let log = seen.new_log().unwrap()().unwrap();
    let mut snapshot = seen.begin_snapshot(log).unwrap();
    assert_eq!(seen.remove(&HashSet::from(["gone"]), 0).unwrap(), 1);
    while snapshot.copy(&seen) {
        snapshot.write().unwrap();
    }
    let mut finished = snapshot.finish().unwrap();
    while !seen.end_snapshot(&mut finished).unwrap() {}
    // Killed here, what was sent is in doubt, and answered again without the name of the page that went.
    drop(seen);
    let mut seen = open();
    assert_eq!(asked(&mut seen, "near", 0, 1), Reply { earlier: None, again: true, ..near });
    let gone = asked(&mut seen, "gone", 0, 0);
    assert!(!gone.again && gone.kind == AnswerKind::Near, "{gone:?}");
}

#[test]
fn pages_come_from_sketches_exported_files_and_other_indexes() {
    let top = tempfile::tempdir().unwrap();
    let put = |name: &str, content: String| fs::write(top.path().join(name), content).unwrap();
    let pages = |from: u64, to: u64| -> String {
        (from..to).map(|page| line(&format!("http://site.example/{page}"), &text(page, page % 3))).collect()
    };
    put("a.jsonl", pages(0, 40));
    put("b.jsonl", pages(30, 60));
    put("both.jsonl", pages(0, 60));
    reported(top.path(), "sketch a.jsonl b.jsonl --out sketches", 0);
    // Without a look at the texts it is the index that has read them.
    reported(top.path(), "seen --index read --seen-at 2026-01-01 a.jsonl b.jsonl", 0);
    let (_, err) = reported(top.path(), "seen --index i --import sketches --seen-at 2026-01-01", 0);
    assert!(err.contains("60 pages were imported from sketches"), "{err}");
    put(
        "new.jsonl",
        (0..60).map(|page| line("?", &text(page, (page + 1) % 3))).collect::<String>() + &pages(50, 70),
    );
    let asked = |index: &str| {
        reported(top.path(), &format!("seen --index {index} --read-only --json new.jsonl"), 0).0
    };
    let expected = asked("read");
    assert_eq!(answers(&expected).iter().filter(|answer| answer["answer"] == "near").count(), 60);
    assert_eq!(asked("i"), expected);
    // Exported beside a writer, and taken over, and so is the index itself.
    let writer = Seen::open(&top.path().join("i"), Access::Write { fsync: false }, None).unwrap();
    let (_, err) = reported(top.path(), "seen --index i --export pages.seen", 0);
    assert!(err.contains("60 pages were exported"), "{err}");
    drop(writer);
    reported(top.path(), "seen --index i --export pages.seen", 0);
    for (index, from) in [("j", "pages.seen"), ("k", "i")] {
        let (_, err) =
            reported(top.path(), &format!("seen --index {index} --import {from} --seen-at 2026-09-01"), 0);
        assert!(err.contains("60 pages were imported"), "{err}");
        assert_eq!(asked(index), expected, "with the times at which they were seen");
        // Those that are there already are not stored again.
        let (_, err) = reported(top.path(), &format!("seen --index {index} --import sketches"), 0);
        assert!(err.contains("0 pages were imported"), "{err}");
    }
    reported(top.path(), "inspect pages.seen", 0);
    // What was sketched in another way, is corrupt, or is something else, is refused.
    for (index, options, from) in [
        ("m", "--features words", "sketches"),
        ("n", "--method simhash", "pages.seen"),
        ("o", "--method simhash", "i"),
    ] {
        let (_, err) = reported(top.path(), &format!("seen --index {index} --import {from} {options}"), 2);
        assert!(err.contains("made with the settings of the index"), "{err}");
    }
    let (_, err) = reported(top.path(), "seen --index i --export a.jsonl", 2);
    assert!(err.contains("a file that is not there"), "{err}");
    // The log of an index is no export.
    let log = fs::read(top.path().join("j/log-00000001")).unwrap();
    let (_, err) = reported(top.path(), "seen --index i --export j/log-00000001", 2);
    assert!(err.contains("a file that is not there"), "{err}");
    assert_eq!(fs::read(top.path().join("j/log-00000001")).unwrap(), log);
    assert_eq!(fs::read_to_string(top.path().join("a.jsonl")).unwrap(), pages(0, 40));
    reported(top.path(), "seen --index i --import a.jsonl", 2);
    let mut bytes = fs::read(top.path().join("pages.seen")).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(top.path().join("pages.seen"), &bytes).unwrap();
    let (_, err) = reported(top.path(), "seen --index l --import pages.seen", 2);
    assert!(err.contains("some of its pages cannot be read"), "{err}");
}
