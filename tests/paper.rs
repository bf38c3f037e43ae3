//! docs/paper.md: its commands for simflip run on the documents of the repository. Those for the experiments are held
//! by a test of theirs.

use crate::imports::{files, imports};
use assert_cmd::Command;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const SIMFLIP: &str = "cargo run --release -- ";
const EXPERIMENTS: &str = "cargo run --release -p simflip-experiments -- ";

#[test]
fn the_commands_of_the_paper_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/paper.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut run = 0;
    for line in document.lines().filter(|line| line.starts_with("cargo ")) {
        if line.starts_with(EXPERIMENTS) {
            continue;
        }
        let words =
            line.strip_prefix(SIMFLIP).expect("a command of the tool or of the experiments").split(' ');
        let out = folder.path().join(run.to_string());
        let words = words.map(|word| if word.starts_with("target/") { out.to_str().unwrap() } else { word });
        Command::cargo_bin("simflip").unwrap().current_dir(root).args(words).assert().success();
        for file in ["pairs.csv", "clusters.csv", "report.html", "report.json", "kept.warc.wet.gz"] {
            assert!(out.join(file).exists(), "{line}: {file}");
        }
        let pairs = fs::read_to_string(out.join("pairs.csv")).unwrap();
        assert!(pairs.lines().count() > 300, "{line}: {} pairs", pairs.lines().count());
        run += 1;
    }
    assert_eq!(run, 2);
}

/// Looks for an item in a source file: `name`, or `Type::name` for a method or a variant.
fn has_item(source: &str, item: &str) -> bool {
    let is_word = |text: &str, word: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|of_text| of_text == word)
    };
    let begins = |line: &str, name: &str| {
        ["fn", "struct", "enum", "trait", "const"].iter().any(|kind| {
            let found = line.split_once(&format!("{kind} {name}"));
            found.is_some_and(|(_, rest)| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        })
    };
    let Some((owner, name)) = item.split_once("::") else {
        return source.lines().any(|line| begins(line, item));
    };
    let mut inside = false;
    source.lines().any(|line| {
        let opens =
            ["impl", "pub enum", "pub trait", "enum", "trait"].iter().any(|kind| line.starts_with(kind));
        inside = (inside || opens && is_word(line, owner)) && line != "}";
        let is_variant = line.trim_start().starts_with(name) && line.trim_end().ends_with([',', '{']);
        inside && (begins(line, name) || is_variant)
    })
}

#[test]
fn every_item_that_the_paper_leads_to_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/paper-to-code.md")).unwrap();
    let (mut items, mut figures, mut experiments) = (0, 0, 0);
    for line in document.lines() {
        let mut source: Option<(&str, String)> = None;
        for quoted in line.split('`').skip(1).step_by(2) {
            if quoted.ends_with(".rs") {
                let text = fs::read_to_string(root.join(quoted));
                source = Some((quoted, text.unwrap_or_else(|e| panic!("{quoted}: {e}"))));
            } else if root.join(format!("experiments/configs/{quoted}.toml")).exists() {
                experiments += 1;
            } else {
                let (file, text) = source.as_ref().unwrap_or_else(|| panic!("{quoted}: of which file?"));
                assert!(has_item(text, quoted), "{file} has no {quoted}");
                items += 1;
            }
        }
        for (_, rest) in line.match_indices("](").map(|(at, _)| line.split_at(at + 2)) {
            let target = rest.split(')').next().unwrap_or_default();
            assert!(root.join("docs").join(target).exists(), "{target}");
            figures += usize::from(target.ends_with(".svg"));
        }
    }
    assert!(items > 50 && figures > 7 && experiments > 8, "{items}, {figures}, {experiments}");
}

/// Files that the method of the paper takes besides its own; another one is to have a good reason.
const OTHERS: [&str; 3] = ["clusters.rs", "plan/mod.rs", "search/dial/engine.rs"];

fn names(list: &str) -> BTreeSet<&str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_method_of_the_paper_takes_the_files_that_are_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/paper-to-code.md")).unwrap();
    let rows = document.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(':'));
    let listed: BTreeMap<&str, BTreeSet<&str>> = rows.map(|(file, list)| (file, names(list))).collect();
    let files = files("core/src");
    let imports = imports(&files, "simflip_core");
    let is_plain =
        |name: &str| matches!(name, "error.rs" | "hash.rs" | "id.rs") || name.starts_with("kernel/");
    for (file, listed) in &listed {
        let found: BTreeSet<&str> = imports[file].iter().copied().filter(|name| !is_plain(name)).collect();
        assert_eq!(&found, listed, "{file}");
    }
    let own: BTreeSet<&str> = listed.keys().copied().collect();
    let others: Vec<&str> = listed.values().flatten().copied().filter(|name| !own.contains(name)).collect();
    assert_eq!(others.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(OTHERS));
    assert!(imports["paper.rs"].is_subset(&own), "{:?}", imports["paper.rs"]);
}

#[test]
fn items_are_found_where_they_are_and_nowhere_else() {
    let source = "pub struct A;\nimpl A {\n    pub fn go(&self) {}\n}\npub enum B {\n    One,\n    Two { a: u8 },\n}\n\
                  impl Iterator for C {\n    fn next(&mut self) {}\n}\nfn going() {}\n";
    for item in ["A", "B", "A::go", "B::One", "B::Two", "C::next", "going"] {
        assert!(has_item(source, item), "{item}");
    }
    for item in ["goin", "A::going", "B::go", "A::next", "B::Three", "D", "C::go"] {
        assert!(!has_item(source, item), "{item}");
    }
}
