//! A name stands for one type of a crate, private types and those of tests included, and a function has few arguments.

use crate::floors::{Source, Token, tokens};
use crate::imports::files;
use std::collections::BTreeMap;

/// The folders of sources of each crate. A file `no_*.rs` stands in for one of a feature that is left out, and has its
/// names.
const CRATES: [&str; 7] = ["core/src", "src", "experiments", "benches", "fuzz/src", "python/src", "tests"];

/// The types that a file declares, each with its line. Types that belong to a trait or an implementation of it are
/// none.
fn declared(text: &str) -> Vec<(&str, usize)> {
    let tokens = tokens(text);
    let is_name = |name: &str| name.starts_with(|first: char| first.is_ascii_uppercase());
    // For each open brace, whether it is that of a trait or an implementation.
    let (mut braces, mut is_owner, mut found) = (Vec::new(), false, Vec::new());
    for (at, &Token { text, line }) in tokens.iter().enumerate() {
        match text {
            "{" => braces.push(std::mem::take(&mut is_owner)),
            "}" => drop(braces.pop()),
            // Not that of `-> impl Trait` and its like.
            "impl" => is_owner |= at == 0 || matches!(tokens[at - 1].text, "}" | "{" | ";" | "]" | "unsafe"),
            "trait" => is_owner = true,
            _ => {}
        }
        let declares = match text {
            "struct" | "enum" | "trait" | "union" => true,
            "type" => braces.last() != Some(&true),
            _ => false,
        };
        let name = tokens.get(at + 1).filter(|name| declares && is_name(name.text));
        found.extend(name.map(|name| (name.text, line)));
    }
    found
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
    for folder in CRATES {
        let mut files = files(folder);
        // The tests of stores are a crate of their own.
        let is_other =
            |name: &str| name.starts_with("stores/") || name.rsplit('/').next().unwrap().starts_with("no_");
        files.retain(|file| !is_other(&file.name));
        let repeated = repeated(&files);
        assert!(repeated.is_empty(), "{folder}: names of several types:\n{}", repeated.join("\n"));
    }
    // Each example is a crate of its own, with the folders that it names as modules.
    for folder in ["examples", "core/examples"] {
        let (own, shared): (Vec<_>, Vec<_>) =
            files(folder).into_iter().partition(|file| !file.name.contains('/'));
        for example in own {
            let is_named = |file: &&Source| example.text.contains(&format!("mod {};", file.module[0]));
            let used = shared.iter().filter(is_named).map(|file| Source::new(&file.name, file.text.clone()));
            let name = example.name.clone();
            let repeated =
                repeated(&used.chain([Source::new(&name, example.text.clone())]).collect::<Vec<_>>());
            assert!(repeated.is_empty(), "{name}: names of several types:\n{}", repeated.join("\n"));
        }
    }
}

#[test]
fn a_second_type_of_a_name_is_found_wherever_it_is() {
    let repeated_with = |text: &str| {
        let files = [("a.rs", "pub struct Document;"), ("b.rs", text)];
        repeated(&files.map(|(name, text)| Source::new(name, text.to_owned())))
    };
    for text in [
        "enum Document {}",
        "pub(crate) type Document = u8;",
        "mod tests {\n    trait Document {}\n}",
        "mod tests {\n    type Document = u8;\n}",
        "impl A {\n    fn f() -> impl Copy {\n        type Document = u8;\n    }\n}",
    ] {
        let line = text.lines().position(|line| line.contains("Document")).unwrap() + 1;
        assert_eq!(repeated_with(text), [format!("Document: a.rs:1, b.rs:{line}")]);
    }
    for text in [
        "// struct Document;",
        "impl Shown for A {\n    type Document = u8;\n}",
        "trait Shown {\n    fn f() {}\n    type Document;\n}",
        "fn f(document: Document) -> [Document; 2] {}",
    ] {
        assert_eq!(repeated_with(text), [""; 0], "{text}");
    }
}

/// Arguments that a function has at most, besides `self`.
const MOST: usize = 5;

/// The functions with more; none may be added.
const WITH_MORE: [&str; 1] = ["src/seen/record.rs: frame_page"];

/// The functions of a file, each with the number of its arguments besides `self`. Property tests are left out: their
/// arguments are drawn.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let tokens = tokens(text);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let is_name = |name: &str| name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let is_function = |&at: &usize| {
        let is_test = at > 2 && text(at - 1) == "]" && text(at - 2) == "test";
        text(at) == "fn" && is_name(text(at + 1)) && !is_test
    };
    let angle = |at: usize| match text(at) {
        "<" => 1,
        ">" if !matches!(text(at - 1), "-" | "=") => -1,
        _ => 0,
    };
    let count = |name: usize| {
        let (mut at, mut angles) = (name + 1, 0);
        // The generic parameters may have parentheses too.
        while at < tokens.len() && (angles > 0 || text(at) != "(") {
            angles += angle(at);
            at += 1;
        }
        let (mut depth, mut arguments, mut is_next) = (1, 0, true);
        while depth > 0 && at + 1 < tokens.len() {
            at += 1;
            angles += angle(at);
            match text(at) {
                "," if depth == 1 && angles == 0 => is_next = true,
                ")" | "]" | "}" => depth -= 1,
                argument => {
                    arguments += usize::from(is_next);
                    arguments -= usize::from(argument == "self" && depth == 1 && text(at + 1) != "::");
                    is_next = false;
                    depth += i32::from(matches!(argument, "(" | "[" | "{"));
                }
            }
        }
        arguments
    };
    (0..tokens.len()).filter(is_function).map(|at| (text(at + 1), count(at + 1))).collect()
}

#[test]
fn a_function_has_few_arguments() {
    let (mut all, mut with_more) = (0, Vec::new());
    for folder in ["core/src", "src"] {
        for file in files(folder) {
            let functions = functions(&file.text);
            all += functions.len();
            let more = functions.iter().filter(|(_, arguments)| *arguments > MOST);
            with_more.extend(more.map(|(name, _)| format!("{folder}/{}: {name}", file.name)));
        }
    }
    assert_eq!(with_more, WITH_MORE, "functions of more than {MOST} arguments");
    assert!(all > 3_000, "{all} functions");
}

#[test]
fn arguments_are_counted_however_they_are_written() {
    for (text, arguments) in [
        ("fn f() {}", 0),
        ("fn f(&mut self) {}", 0),
        ("fn f<'a>(&'a self, a: u8,) {}", 1),
        ("fn f<F: Fn(u8, u8) -> bool>(self, a: HashMap<u8, fn(u8) -> u8>, (b, c): (u8, u8)) {}", 2),
        ("fn f(\n    a: [u8; 2],\n    b: impl Fn(&str, u8) -> Result<u8, ()>,\n) -> (u8, u8) {}", 2),
        ("fn f(a: u8, _: u8, mut c: u8, d: &mut dyn FnMut(u8), e: self::E, f: u8) {}", 6),
    ] {
        assert_eq!(functions(text), [("f", arguments)], "{text}");
    }
    assert!(functions("#[test]\nfn f(a in 0..9) {}\ntype F = fn(u8, u8);").is_empty());
}
