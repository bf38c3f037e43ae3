//! A name stands for one type of a crate, private types and those of tests included.

use crate::floors::{Source, sources, tokens};
use std::collections::BTreeMap;
use std::path::Path;

/// The folders of sources of each crate. A file `no_*.rs` stands in for one of a feature that is left out, and has its
/// names.
const CRATES: [&str; 7] = ["core/src", "src", "experiments", "benches", "fuzz/src", "python/src", "tests"];

/// The types that a file declares, each with its line. Types of traits and of their implementations are indented.
fn declared(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let tokens = tokens(text);
    let is_type = |keyword: &str, line: usize| match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => lines[line - 1].starts_with(|first: char| first.is_alphabetic()),
        _ => false,
    };
    let is_name = |name: &str| name.starts_with(|first: char| first.is_ascii_uppercase());
    let pairs = tokens.windows(2).filter(|pair| is_type(pair[0].text, pair[0].line) && is_name(pair[1].text));
    pairs.map(|pair| (pair[1].text, pair[1].line)).collect()
}

/// Names that are declared more than once, each with the places.
fn repeated(files: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files {
        for (name, line) in declared(&file.text) {
            places.entry(name).or_default().push(format!("{}:{line}", file.name));
        }
    }
    let repeated = places.into_iter().filter(|(_, places)| places.len() > 1);
    repeated.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
}

#[test]
fn a_name_is_that_of_one_type() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in CRATES {
        let mut files = Vec::new();
        sources(&root.join(folder), "", &mut files);
        // The tests of stores are a crate of their own.
        let is_other =
            |name: &str| name.starts_with("stores/") || name.rsplit('/').next().unwrap().starts_with("no_");
        files.retain(|file| !is_other(&file.name));
        let repeated = repeated(&files);
        assert!(repeated.is_empty(), "{folder}: names of several types:\n{}", repeated.join("\n"));
    }
}

#[test]
fn a_second_type_of_a_name_is_found_wherever_it_is() {
    let repeated_with = |text: &str| {
        let files = [("a.rs", "pub struct Document;"), ("b.rs", text)];
        repeated(&files.map(|(name, text)| Source::new(name, text.to_owned())))
    };
    for text in
        ["enum Document {}", "pub(crate) type Document = u8;", "mod tests {\n    trait Document {}\n}"]
    {
        let line = text.lines().position(|line| line.contains("Document")).unwrap() + 1;
        assert_eq!(repeated_with(text), [format!("Document: a.rs:1, b.rs:{line}")]);
    }
    for text in [
        "// struct Document;",
        "impl Shown for A {\n    type Document = u8;\n}",
        "fn f(document: Document) -> [Document; 2] {}",
    ] {
        assert_eq!(repeated_with(text), [""; 0], "{text}");
    }
}
