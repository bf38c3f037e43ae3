//! Every command that README, docs and help print runs, on small inputs that are called as they are there; or it is
//! left out with a reason.

use crate::cli::simflip;
use crate::floors::sources;
use crate::place::{Place, gz, words};
use crate::review::{data, judged};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Commands that are not run, and why. Each must still be printed somewhere.
const LEFT_OUT: [(&str, &str); 15] = [
    ("simflip serve --index crawl.seen", "runs until it is ended; tests/serve.rs runs it, with its feature"),
    ("simflip serve --index crawls --collections", "runs until it is ended"),
    ("simflip dedup s3://bucket/crawl/ --out result", "a store, which tests/stores has"),
    ("simflip sketch s3://bucket/crawl/ --out sketches", "a store"),
    (
        "simflip dedup https://data.example.org/a.warc.wet.gz gs://bucket/documents.parquet --out result",
        "a store and a web server",
    ),
    ("simflip dedup s3://bucket/crawl/ --out result --upload s3://bucket/results/november/", "a store"),
    ("simflip upload result s3://bucket/results/november/", "a store"),
    ("simflip upload result s3://bucket/results/november/ --force", "a store"),
    ("simflip upload result s3://bucket/prefix/", "a store"),
    ("simflip seen --export", "names an option, without its file"),
    ("simflip evaluate --judged", "names an option, without its file"),
    ("simflip sketch --force", "names an option, without an input"),
    (
        "simflip dedup crawl --out result --results experiments/results --figures figures",
        "options of the experiments",
    ),
    (
        "simflip dedup crawl --out result --corpus debian-docs.warc.wet.gz --queries 50000",
        "options of the experiments",
    ),
    (
        "simflip dedup crawl --out result --corpus FILE… --truth NAME=FILE[,MIN_SCORE[,SCOPE]]…",
        "options of the experiments",
    ),
];

/// Commands of other programs that are not run, by how they begin, and the reasons. Each must still be printed
/// somewhere.
const OTHERS: [(&str, &str); 13] = [
    ("cargo install ", ".ci/release installs the command of its package"),
    ("cargo build ", "this test is built so"),
    ("cargo test", "this is a part of it"),
    ("cargo run --release -- ", ".ci/nightly runs README's, tests/paper.rs those of docs/paper.md"),
    ("cargo run --release -p simflip-experiments -- ", "experiments/paper.rs reads their arguments"),
    ("cargo run --release --example stages -- ", "takes an hour; .ci/run runs the example on few documents"),
    ("pip install ", ".ci/run installs the package"),
    ("python -c ", ".ci/release runs it"),
    ("python3 -m venv ", "makes room for packages"),
    ("pytest ", ".ci/run runs it"),
    ("bash .ci/", "runs this"),
    ("curl ", "asks a service; tests/serve.rs asks the same"),
    ("awk ", "works on a set that is not in the repository"),
];

/// Values for the names that a reader puts in.
const PUT_IN: [(&str, &str); 10] = [
    (" A B ", " http://a.example/ http://b.example/ "),
    (" FILE", " result"),
    (" RESULT", " result"),
    (" INDEX", " crawl.seen"),
    (" FOLDER", " site"),
    (" PAGES", " crawl"),
    (" MARKS", " marks"),
    (" URL", " https://example.org/gone"),
    ("datatrove|dolma|numpy", "numpy"),
    ("/etc/bash_completion.d/", ""),
];

/// Commands that belong together, one after the other: those of a block, or of a command's help.
struct Printed {
    place: String,
    commands: Vec<String>,
}

/// True of a line that begins a command with `simflip` in it.
fn begins(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or_default();
    ["simflip", "crawler", "zcat", "echo"].contains(&first) && line.contains("simflip ")
}

/// The command on a line, without its comment and with single blanks.
fn command(line: &str) -> String {
    let line = line.split("  #").next().unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Collects the commands of a document of Markdown: of blocks, and commands and options within the text.
fn of_document(name: &str, document: &str, printed: &mut Vec<Printed>) {
    for (at, part) in document.split("```").enumerate() {
        if at % 2 == 1 {
            // A block that is no shell's says so.
            let lines = part.strip_prefix("sh\n").or_else(|| part.strip_prefix('\n')).unwrap_or_default();
            let commands = lines.lines().map(command).filter(|line| !line.is_empty()).collect();
            printed.push(Printed { place: format!("a block of {name}"), commands });
            continue;
        }
        for span in part.split('`').skip(1).step_by(2) {
            let span = command(&span.replace("\\|", "|"));
            let is_command = begins(&span) && span.split(' ').count() > 2;
            let options = span.starts_with("--") && span.matches("--").count() > 1;
            let commands = match span.strip_prefix("simflip dedup --") {
                // Options that matter, without what every run has.
                Some(options) if !span.contains(" --out ") => {
                    vec![format!("simflip dedup crawl --out result --{options}")]
                }
                _ if is_command => vec![span],
                _ if options && span.contains("--priority") => vec![
                    "simflip sketch crawl/news crawl/blogs --out sketches".to_owned(),
                    "simflip join sketches".to_owned(),
                    format!("simflip cluster sketches {span}"),
                ],
                _ if options => vec![format!("simflip dedup crawl --out result {span}")],
                _ => continue,
            };
            printed.push(Printed { place: name.to_owned(), commands });
        }
    }
}

/// The examples of a command's help. Lines that were wrapped are put together.
fn of_help(subcommand: &str, printed: &mut Vec<Printed>) {
    let help = simflip().args(["help", subcommand]).assert().success();
    let help = String::from_utf8(help.get_output().stdout.clone()).unwrap();
    let Some((_, examples)) = help.split_once("\nExample") else { return };
    // On the line of the heading, or on those behind it, up to an empty one. Another heading has no commands.
    let Some(examples) = examples.trim_start_matches('s').strip_prefix(':') else { return };
    let mut lines: Vec<String> = Vec::new();
    for line in examples.trim_start().lines().map(str::trim).take_while(|line| !line.is_empty()) {
        match lines.last_mut() {
            Some(last) if !begins(line) && !line.starts_with("curl ") => *last += &format!(" {line}"),
            _ => lines.push(line.to_owned()),
        }
    }
    // A comment stands behind several blanks, and may have been wrapped to a line of its own.
    let commands = lines.iter().map(|line| command(&line.replace(" # ", "  # "))).collect();
    printed.push(Printed { place: format!("help {subcommand}"), commands });
}

/// All commands of the tool.
fn subcommands() -> Vec<String> {
    let help = simflip().arg("--help").assert().success();
    let help = String::from_utf8(help.get_output().stdout.clone()).unwrap();
    let names = help.lines().take_while(|line| *line != "Options:").filter(|line| line.starts_with("  "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The documents of Markdown that users read, each with its name.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let more =
        ["README.md", "python/README.md", "METHODOLOGY.md", "CONTRIBUTING.md", "experiments/README.md"];
    let mut documents = more.map(str::to_owned).to_vec();
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let docs = docs.map(|name| format!("docs/{}", name.to_string_lossy()));
    documents.extend(docs.filter(|name| name.ends_with(".md")));
    documents.sort();
    let read = |name: String| (name.clone(), fs::read_to_string(root.join(name)).unwrap());
    documents.into_iter().map(read).collect()
}

fn printed() -> Vec<Printed> {
    let mut printed = Vec::new();
    for (name, text) in documents() {
        of_document(&name, &text, &mut printed);
    }
    subcommands().iter().for_each(|name| of_help(name, &mut printed));
    printed
}

/// A document of WET.
fn wet(url: &str, text: &str) -> String {
    format!(
        "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: {url}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n\
         {text}\r\n\r\n",
        text.len()
    )
}

/// Documents of which some are near others.
fn texts(from: usize, n: usize) -> impl Iterator<Item = (usize, String)> {
    (from..from + n)
        .map(|document| (document, words(document / 3, 60) + &words(1_000 + document, document % 3)))
}

fn wet_file(host: &str, from: usize, n: usize) -> Vec<u8> {
    let documents = texts(from, n).map(|(document, text)| wet(&format!("http://{host}/{document}"), &text));
    gz(documents.collect::<String>().as_bytes())
}

fn json_lines(field: &str, from: usize, n: usize) -> String {
    let line = |(document, text): (usize, String)| {
        format!(
            "{{\"id\": \"{document}\", \"url\": \"https://example.org/{document}\", \"quality\": {}, \"{field}\": \"{text}\"}}\n",
            document % 7
        )
    };
    texts(from, n).map(line).collect()
}

/// The files that commands name.
fn prepare(place: &Place) {
    let put = |name: &str, content: &dyn AsRef<[u8]>| drop(place.put(name, content.as_ref()));
    let a_and_b = ["a", "b"].map(|host| wet(&format!("http://{host}.example/"), &words(900, 60)));
    put("crawl/00000.warc.wet.gz", &gz(a_and_b.concat().as_bytes()));
    put("crawl/part.warc.wet.gz", &wet_file("part.example", 0, 60));
    put("crawl/documents.jsonl.gz", &gz(json_lines("text", 60, 20).as_bytes()));
    put("crawl/news/documents.jsonl", &json_lines("text", 90, 9));
    put("crawl/blogs/documents.jsonl", &json_lines("text", 93, 9));
    put("november/documents.warc.wet.gz", &wet_file("november.example", 30, 30));
    put("october/documents.warc.wet.gz", &wet_file("october.example", 20, 30));
    put("monday.warc.wet.gz", &wet_file("monday.example", 0, 9));
    let [name, bytes] = archive();
    put(&name, &gz(bytes.as_bytes()));
    put("tuesday.warc.wet.gz", &wet_file("tuesday.example", 5, 9));
    put("documents.jsonl.gz", &gz(json_lines("text", 0, 9).as_bytes()));
    put("page.jsonl", &json_lines("text", 0, 1));
    put("benchmark.jsonl", &json_lines("question", 0, 3));
    put("benchmarks/questions.jsonl", &json_lines("text", 3, 3));
    put("shards/documents.jsonl", &json_lines("raw_content", 0, 9));
    put("site/one.txt", &words(1, 60));
    put("site/two.md", &words(2, 60));
    put("www.example.org/one.txt", &words(1, 60));
    for name in ["document.txt", "one.txt", "two.txt"] {
        put(name, &words(1, 60));
    }
    // Programs that stand in for a reader's own; and the tool, which says how it ended.
    let programs = [
        ("crawler", "cat page.jsonl"),
        ("decider", "cat > /dev/null"),
        ("man", "cat > /dev/null"),
        ("simflip", "\"$SIMFLIP\" \"$@\"; code=$?; echo $code >> codes; exit $code"),
    ];
    for (name, body) in programs {
        let path = place.put(&format!("bin/{name}"), format!("#!/bin/sh\n{body}\n"));
        let status = Command::new("chmod").arg("+x").arg(path).status().unwrap();
        assert!(status.success());
    }
    for arguments in [
        "dedup crawl --out result --all-pairs --quiet",
        "dedup crawl/documents.jsonl.gz --out result-of-lines --quiet",
        "dedup october --out results/september --quiet",
        "dedup crawl/part.warc.wet.gz --out saved --method simhash --weighting tf-idf --save-frequencies frequencies.bin --quiet",
        "sketch crawl/part.warc.wet.gz crawl/00000.warc.wet.gz --out sketches --quiet",
        "join sketches --quiet",
        "cluster sketches --quiet",
        "sketch october/documents.warc.wet.gz --out sketches/october --quiet",
        "sketch november/documents.warc.wet.gz --out sketches/november --quiet",
        "sketch october/documents.warc.wet.gz --out october --quiet",
        "sketch november/documents.warc.wet.gz --out november --quiet",
        "seen --index yesterday.seen monday.warc.wet.gz",
        "seen --index crawl.seen monday.warc.wet.gz",
        "review result --quiet",
    ] {
        place.reported(arguments, 0);
    }
    let nested = r#"{"content":"some words","metadata":{"url":"https://a.example/"}}"#;
    put("data.jsonl", &nested);
    put("judged.csv", &judged(&data(&place.at("result/review.html")), |_| "duplicate"));
    fs::remove_file(place.at("result/review.html")).unwrap();
    put("truth.csv", &"a,b\n2,3\n");
    put("scores.csv.gz", &gz(b"a,b,score\n2,3,0.9\n3,4,0.7\n"));
}

/// A WARC file as browsertrix-crawler names and writes it: its own notes, a document, and what it says of the document.
fn archive() -> [String; 2] {
    let record = |kind: &str, uri: &str, of: &str, block: &str| {
        format!(
            "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {uri}\r\nWARC-Date: 2026-11-01T00:00:00.000Z\r\n\
             WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{:012}>\r\nContent-Type: {of}\r\n\
             Content-Length: {}\r\n\r\n{block}\r\n\r\n",
            uri.len(),
            block.len()
        )
    };
    let document = "https://news.example/one";
    let html = format!("<html><body><p>{}</p></body></html>", "some words of news ".repeat(20));
    let response = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\r\n{html}");
    let records = [
        record("warcinfo", "rec.warc.gz", "application/warc-fields", "software: Browsertrix-Crawler 1.5\r\n"),
        record("response", document, "application/http; msgtype=response", &response),
        record("resource", &format!("urn:pageinfo:{document}"), "application/json", "{\"urls\":{}}"),
    ];
    ["crawls/collections/news/archive/rec-0a1b-news-20261101000000000-0.warc.gz".to_owned(), records.concat()]
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Runs a command in a shell, and gives what went wrong.
fn run(folder: &Path, command: &str) -> Option<String> {
    let mut command = command.to_owned();
    PUT_IN.iter().for_each(|(name, value)| command = command.replace(name, value));
    // What a command makes is not there yet.
    let mut before = "";
    for word in command.split(' ') {
        if ["--out", "--tables"].contains(&before) {
            let path = folder.join(word);
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        before = word;
    }
    if command.contains("--for dolma") {
        // Dolma has lines of JSON alone.
        fs::remove_dir_all(folder.join("result")).unwrap();
        fs::rename(folder.join("result-of-lines"), folder.join("result")).unwrap();
    }
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &command])
        .current_dir(folder)
        .env("PATH", path)
        .env("SIMFLIP", assert_cmd::cargo::cargo_bin!("simflip"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let codes = fs::read_to_string(folder.join("codes")).unwrap_or_default();
    let _ = fs::remove_file(folder.join("codes"));
    let is_well = output.status.success() && !codes.is_empty() && codes.lines().all(|code| code == "0");
    (!is_well).then(|| format!("{command}\n{codes}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Every text that installs the tool names the command of the README: it works in a clone, and leaves out no feature.
#[test]
fn texts_that_install_name_the_command_of_the_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let wanted = readme.lines().find(|line| line.starts_with("cargo install ")).map(command).unwrap();
    let mut sources_of_tool = Vec::new();
    sources(root, "src/", &mut sources_of_tool);
    let sources_of_tool = sources_of_tool.into_iter().map(|source| (source.name, source.text));
    let (mut named, mut others) = (0, Vec::new());
    for (name, text) in documents().into_iter().chain(sources_of_tool) {
        // A message may go on in the next line.
        let text = text.split_whitespace().filter(|&word| word != "\\").collect::<Vec<_>>().join(" ");
        for at in text.match_indices("cargo install ").map(|(at, _)| at) {
            // This is what builds the guide.
            let is_other = text[at..].starts_with("cargo install mdbook");
            named += usize::from(text[at..].starts_with(&wanted));
            if !is_other && !text[at..].starts_with(&wanted) {
                others.push(format!("{name}: {}", text[at..].chars().take(60).collect::<String>()));
            }
        }
    }
    assert!(others.is_empty(), "expected {wanted}:\n{}", others.join("\n"));
    assert!(named > 2, "named {named} times");
}

#[cfg(unix)]
#[test]
fn what_documents_and_help_print_runs() {
    let template = Place::new();
    prepare(&template);
    let mut unused: BTreeSet<&str> = LEFT_OUT.iter().chain(&OTHERS).map(|(command, _)| *command).collect();
    let (mut failed, mut done, mut ran) = (Vec::new(), BTreeSet::new(), 0);
    for Printed { place, commands } in printed() {
        let mut wanted = |command: &String| {
            if !begins(command) {
                let other = OTHERS.iter().find(|(other, _)| command.starts_with(other));
                match other {
                    Some((other, _)) => drop(unused.remove(other)),
                    None => {
                        failed.push(format!("{place}: {command:?} is neither run nor left out with a reason"))
                    }
                }
                return false;
            }
            let is_left_out = LEFT_OUT.iter().any(|(left_out, _)| left_out == command);
            unused.remove(&command[..]);
            // A plan measures the machine for seconds, and depends on nothing that was run before.
            let is_plan = command.starts_with("simflip plan ");
            !is_left_out && (!is_plan || done.insert(vec![command.clone()]))
        };
        let commands: Vec<String> = commands.into_iter().filter(|command| wanted(command)).collect();
        let are_plans = commands.iter().all(|command| command.starts_with("simflip plan "));
        // The same commands, printed elsewhere, do the same.
        if commands.is_empty() || !are_plans && !done.insert(commands.clone()) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        copy(template.folder(), folder.path());
        for command in commands {
            ran += 1;
            failed.extend(run(folder.path(), &command).map(|why| format!("{place}: {why}")));
            if command.ends_with(" > news.csv") {
                let answers = fs::read_to_string(folder.path().join("news.csv")).unwrap();
                assert!(answers.contains("\nhttps://news.example/one,new,"), "{place}: {answers}");
            }
        }
    }
    assert!(failed.is_empty(), "{} of {ran} commands failed:\n{}", failed.len(), failed.join("\n"));
    assert!(ran > 70, "{ran} commands");
    assert!(unused.is_empty(), "printed nowhere: {unused:?}");
}

#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let words = text.split_whitespace().count();
    assert!(words <= 1_300, "{words} words");
}

#[test]
fn library_examples_begin_with_the_default() {
    // The example of the core's page runs as a test of the core. It stands in the guide as well, which the core's
    // package lacks.
    let example = |name: &str| {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        text.split("```rust\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
    };
    assert_eq!(example("docs/first-run.md"), example("core/README.md"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["docs/first-run.md", "src/lib.rs", "core/README.md", "core/src/lib.rs", "core/src/dedup.rs"]
    {
        let text = fs::read_to_string(root.join(name)).unwrap();
        let (_, first) = text.split_once("Deduper::new(").unwrap();
        assert!(first.starts_with("Settings::both(0.8)"), "{name}");
    }
}
