//! docs/paper.md: its commands for the experiments run on the documents of the repository, and print what it says.
//! Those of other documents are commands that the experiments take.

use crate::{EXPERIMENTS, Options, root, run};
use clap::Parser;
use std::fs;
use std::path::Path;

/// Start of a command, before the arguments of an experiment.
const COMMAND: &str = "cargo run --release -p simflip-experiments -- ";

/// The fenced blocks of a page: what they are called, and their lines.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let (mut blocks, mut lines) = (Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("```") {
            blocks.push((name, lines.by_ref().take_while(|line| *line != "```").collect()));
        }
    }
    blocks
}

/// Compares a line with a pattern, in which `…` stands for anything.
fn is_like(line: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('…') else { return line == pattern };
    let Some(line) = line.strip_prefix(first) else { return false };
    line.char_indices().map(|(at, _)| at).chain([line.len()]).any(|at| is_like(&line[at..], rest))
}

/// Runs a command with its results in `folder`, and gives the summary.
fn summary_of(command: &str, folder: &Path) -> String {
    let (data, out) = (root().join("data"), folder.join(command.split(' ').next().unwrap()));
    let mut words = vec!["experiments".to_owned(), "--quick".to_owned()];
    let mut before = "";
    for word in command.split(' ') {
        words.push(match before {
            "--corpus" => data.to_str().unwrap().to_owned(),
            "--out" => out.to_str().unwrap().to_owned(),
            _ => word.to_owned(),
        });
        before = word;
    }
    run(&Options::parse_from(words)).unwrap();
    fs::read_to_string(out.join("summary.md")).unwrap()
}

#[test]
fn the_commands_print_what_the_page_says() {
    let page = fs::read_to_string(root().join("docs/paper.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (mut summary, mut commands, mut held) = (String::new(), 0, 0);
    for (name, lines) in blocks(&page) {
        match name {
            "sh" => {
                for command in lines.iter().filter_map(|line| line.strip_prefix(COMMAND)) {
                    summary = summary_of(command, folder.path());
                    commands += 1;
                }
            }
            "text" => {
                for pattern in lines {
                    assert!(summary.lines().any(|line| is_like(line, pattern)), "{pattern}\n{summary}");
                    held += 1;
                }
            }
            other => panic!("a block of {other:?}, which no test reads"),
        }
    }
    assert_eq!((commands, held), (3, 10));
}

#[test]
fn the_experiments_take_the_commands_of_other_documents() {
    let mut taken = 0;
    for document in ["experiments/README.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for command in text.lines().filter_map(|line| line.strip_prefix(COMMAND)) {
            let command = command.split(" #").next().unwrap_or_default();
            let words = ["experiments"].into_iter().chain(command.split_whitespace());
            let options = Options::try_parse_from(words).unwrap_or_else(|e| panic!("{document}: {e}"));
            let what = options.what.as_str();
            let is_known = ["list", "all", "check", "draw", "keep"].contains(&what);
            assert!(is_known || EXPERIMENTS.iter().any(|of| of.name == what), "{document}: {command}");
            taken += 1;
        }
    }
    assert!(taken > 6, "{taken} commands");
}

#[test]
fn an_ellipsis_stands_for_anything() {
    assert!(is_like("a 1 b 2", "a … b …") && is_like("a 1 b", "a … b") && is_like("ab", "a…b"));
    assert!(!is_like("a 1 c", "a … b") && !is_like("a 1 b c", "a … b") && !is_like("x a", "a…"));
}
