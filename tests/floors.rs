//! The rule of floors: a module imports only from floors below its own.
//!
//! ARCHITECTURE.md has a table of floors for each crate, between `<!-- floors: FOLDER -->` and
//! `<!-- end of floors -->`: a row for each floor, its number first, its modules second, in backticks.
//! Modules of one floor do not import each other, except that a module may import what stands left of a `<`
//! in its row; so there are no circles.
//!
//! What counts is every path from the root of a crate, in `use` lines or in the midst of code, written with
//! `crate::`, `super::` or the crate's name. Tests are free to import what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A name or a mark of Rust's, with the line it stands on. Comments and literals are gone.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// Cuts Rust into names, `::`, and single characters.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut rest, mut line) = (Vec::new(), source, 1);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            // A character, or else a lifetime, whose name then follows as a token of its own.
            let second = rest[1..].chars().next().unwrap_or(' ');
            if second == '\\' || rest[1 + second.len_utf8()..].starts_with('\'') {
                quoted(rest, '\'')
            } else {
                1
            }
        } else if is_name(first) {
            let name = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let hashes = rest[name..].len() - rest[name..].trim_start_matches('#').len();
            match &rest[..name] {
                "r" | "br" | "cr" if rest[name + hashes..].starts_with('"') => {
                    let open = name + hashes + 1;
                    let close = format!("\"{}", "#".repeat(hashes));
                    rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len())
                }
                text => {
                    tokens.push(Token { text, line });
                    name
                }
            }
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(Token { text: &rest[..length], line });
            }
            length
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// The length of a literal that starts with its quotation mark.
fn quoted(source: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in source.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == mark => return at + 1,
            _ => {}
        }
    }
    source.len()
}

/// The length of a comment that may hold others.
fn block_comment(source: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < source.len() {
        let step = match source.as_bytes()[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// A name that a file takes from the root of its crate.
#[derive(Debug, PartialEq)]
struct Import<'a> {
    name: &'a str,
    line: usize,
}

/// A path in code, such as each one of a `use` line, and how many modules written in the file it stands in.
pub struct CodePath<'a> {
    pub names: Vec<Token<'a>>,
    pub inner: usize,
}

/// The paths of a file, tests left out, and its modules in other files that are tests.
pub fn paths(source: &str) -> (Vec<CodePath<'_>>, Vec<&str>) {
    let tokens = tokens(source);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let is = |at: usize, wanted: &[&str]| wanted.iter().enumerate().all(|(i, &want)| text(at + i) == want);
    let (mut found, mut tests) = (Vec::new(), Vec::new());
    // The modules written in the file that we are in, each with the depth of braces outside of it.
    let (mut inner, mut depth): (Vec<usize>, usize) = (Vec::new(), 0);
    let mut at = 0;
    while at < tokens.len() {
        if is(at, &["#", "[", "cfg", "("]) && (is(at + 4, &["test"]) || is(at + 4, &["all", "(", "test"])) {
            let end = end_of_item(&tokens, at + 1);
            if let ["mod", name, ";"] = [text(end.saturating_sub(3)), text(end - 2), text(end - 1)] {
                tests.push(name);
            }
            at = end;
            continue;
        }
        match text(at) {
            "mod" if text(at + 2) == "{" => {
                inner.push(depth);
                depth += 1;
                at += 2;
            }
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inner.pop_if(|outside| *outside == depth);
            }
            name if text(at + 1) == "::" && name != ">" => {
                let mut leaves = Vec::new();
                at = push_paths(&tokens, at, &[], &mut leaves);
                found.extend(leaves.into_iter().map(|names| CodePath { names, inner: inner.len() }));
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    (found, tests)
}

/// Adds the path that stands at a place, or each one of a `{…}`, to what leads there; returns the place behind.
fn push_paths<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    before: &[Token<'a>],
    found: &mut Vec<Vec<Token<'a>>>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("}", |token| token.text);
    if text(at) == "{" {
        at += 1;
        while text(at) != "}" {
            at = if text(at) == "," { at + 1 } else { push_paths(tokens, at, before, found) };
        }
        return at + 1;
    }
    let mut names = before.to_vec();
    names.push(tokens[at]);
    at += 1;
    while text(at) == "::" {
        match text(at + 1) {
            "{" => return push_paths(tokens, at + 1, &names, found),
            "<" => break,
            _ => names.extend(tokens.get(at + 1)),
        }
        at += 2;
    }
    found.push(names);
    if text(at) == "as" { at + 2 } else { at }
}

/// A file's imports from the root of its crate, tests left out, and its modules in other files that are tests.
///
/// `module` is the path of the file's module; `roots` are the names of the crate itself, `crate` and perhaps others.
fn imports<'a>(source: &'a str, module: &[&'a str], roots: &[&str]) -> (Vec<Import<'a>>, Vec<&'a str>) {
    let (paths, tests) = paths(source);
    let mut found: Vec<Import<'a>> = Vec::new();
    for CodePath { names, inner } in paths {
        let above = names.iter().take_while(|name| name.text == "super").count();
        let is_root = above == module.len() + inner || roots.contains(&names[0].text);
        let behind = names.get(above.max(1)).filter(|_| is_root);
        found.extend(behind.map(|name| Import { name: name.text, line: name.line }));
    }
    // A name of which several are taken is one import.
    found.dedup();
    (found, tests)
}

/// The place behind an item: its `;`, or the brace that closes it.
fn end_of_item(tokens: &[Token<'_>], start: usize) -> usize {
    let (mut depth, mut statement) = (0, false);
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.text {
            "use" | "const" | "static" | "type" | "let" if depth == 0 => statement = true,
            // A function that is `const`.
            "fn" if depth == 0 => statement = false,
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                if depth == 0 && !statement {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Where a module stands: its floor, and how many `<` stand left of it.
type FloorPlace = (u32, usize);

/// Reads the table of the floors of `folder`.
fn table(document: &str, folder: &str) -> Result<BTreeMap<String, FloorPlace>, String> {
    let start = format!("<!-- floors: {folder} -->");
    let inside = document.split_once(&start).and_then(|(_, rest)| rest.split_once("<!-- end of floors -->"));
    let (inside, _) = inside.ok_or(format!("ARCHITECTURE.md: no table of floors for {folder}"))?;
    let (mut places, mut floors) = (BTreeMap::new(), BTreeSet::new());
    for row in inside.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [floor, modules, ..] = cells[..] else { return Err(format!("a row without modules: {row}")) };
        // The head of the table and the line below it.
        let Ok(floor) = floor.parse::<u32>() else { continue };
        if !floors.insert(floor) {
            return Err(format!("two rows for floor {floor} of {folder}"));
        }
        for (rank, equals) in modules.split('<').enumerate() {
            for name in equals.split('`').skip(1).step_by(2) {
                if places.insert(name.trim_end_matches('/').to_owned(), (floor, rank)).is_some() {
                    return Err(format!("`{name}` is listed twice for {folder}"));
                }
            }
        }
    }
    Ok(places)
}

/// A source file: its name, the path of its module, and its text.
pub struct Source {
    pub name: String,
    pub module: Vec<String>,
    pub text: String,
}

impl Source {
    pub fn new(name: &str, text: String) -> Self {
        let module = name.trim_end_matches(".rs").trim_end_matches("/mod").split('/').map(str::to_owned);
        let module = if matches!(name, "lib.rs" | "main.rs") { Vec::new() } else { module.collect() };
        Self { name: name.to_owned(), module, text }
    }
}

/// Every source file of a folder.
pub fn sources(folder: &Path, inside: &str, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder.join(inside)).expect("a folder of sources") {
        let entry = entry.expect("an entry");
        let name = format!("{inside}{}", entry.file_name().to_str().expect("a plain name"));
        if entry.path().is_dir() {
            sources(folder, &format!("{name}/"), found);
        } else if name.ends_with(".rs") {
            found.push(Source::new(&name, fs::read_to_string(entry.path()).expect("a source file")));
        }
    }
}

/// The names at the root of a crate: its modules, and other names with their origin, which is one of its modules or
/// another crate.
fn names_of_root(text: &str) -> (Vec<&str>, BTreeMap<&str, &str>) {
    let tokens = tokens(text);
    let (mut modules, mut taken) = (Vec::new(), BTreeMap::new());
    let mut at = 0;
    while at < tokens.len() {
        let end = end_of_item(&tokens, at);
        let item: Vec<&str> = tokens[at..end].iter().map(|token| token.text).collect();
        let is_test = item.starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]);
        if let Some(name) = item.windows(3).find_map(|w| (w[0] == "mod" && w[2] == ";").then_some(w[1]))
            && !is_test
        {
            modules.push(name);
        }
        if let Some(tree) = item.iter().position(|&text| text == "use").map(|at| &item[at + 1..]) {
            for (i, &name) in tree.iter().enumerate() {
                // A name that ends a path, under its last name; `self` stands for the name before it.
                let is_last = matches!(tree.get(i + 1), Some(&("," | "}" | ";")));
                if is_last && !matches!(name, "}" | "*") {
                    let name = if name == "self" && i >= 3 { tree[i - 3] } else { name };
                    taken.insert(name, tree[0]);
                }
            }
        }
        at = end;
    }
    (modules, taken)
}

/// The breaches of the rule, a line each. `name` is the crate's, by which its binary calls it.
fn complaints(places: &BTreeMap<String, FloorPlace>, sources: &[Source], name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let (mut modules, mut taken) = (BTreeSet::new(), BTreeMap::new());
    for root in sources.iter().filter(|source| source.module.is_empty()) {
        let (named, others) = names_of_root(&root.text);
        modules.extend(named);
        taken.extend(others);
    }
    for &module in modules.iter().filter(|&&module| !places.contains_key(module)) {
        complaints.push(format!("`{module}` is in no table of floors"));
    }
    for module in places.keys().filter(|module| !modules.contains(module.as_str())) {
        complaints.push(format!("`{module}` is in the table of floors, but there is no such module"));
    }

    let read = |source| -> (&Source, Vec<Import<'_>>, Vec<&str>) {
        let source: &Source = source;
        let module: Vec<&str> = source.module.iter().map(String::as_str).collect();
        let (imports, tests) = imports(&source.text, &module, &["crate", name]);
        (source, imports, tests)
    };
    let read: Vec<_> = sources.iter().filter(|source| !source.module.is_empty()).map(read).collect();
    let tests: Vec<Vec<&str>> = read
        .iter()
        .flat_map(|(source, _, tests)| {
            tests.iter().map(|&test| source.module.iter().map(String::as_str).chain([test]).collect())
        })
        .collect();
    for (source, imports, _) in &read {
        let own = source.module[0].as_str();
        let is_part_of = |test: &Vec<&str>| {
            source.module.len() >= test.len() && source.module.iter().zip(test).all(|(a, b)| a == b)
        };
        if tests.iter().any(is_part_of) {
            continue;
        }
        let Some(&(floor, rank)) = places.get(own) else { continue };
        for import in imports {
            let at = format!("{}:{}", source.name, import.line);
            let target = match taken.get(import.name) {
                Some(&from) if modules.contains(from) => from,
                // From another crate, which cannot import from this one.
                Some(_) => continue,
                None => import.name,
            };
            match places.get(target) {
                _ if target == own => {}
                Some(&(below, _)) if below < floor => {}
                Some(&(same, left)) if same == floor && left < rank => {}
                Some((other, _)) => complaints
                    .push(format!("{at}: `{own}` (floor {floor}) imports from `{target}` (floor {other})")),
                None => complaints.push(format!("{at}: `{target}` is no module at the root of the crate")),
            }
        }
    }
    complaints
}

fn assert_floors(folder: &str, name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut files = Vec::new();
    sources(&root.join(folder), "", &mut files);
    assert!(files.len() > 20, "{folder} has {} files", files.len());
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let complaints = complaints(&table(&document, folder).unwrap(), &files, name);
    assert!(complaints.is_empty(), "against the floors of {folder}:\n{}", complaints.join("\n"));
}

#[test]
fn core_imports_downwards() {
    assert_floors("core/src", "simflip_core");
}

#[test]
fn the_tool_imports_downwards() {
    assert_floors("src", "simflip");
}

/// A made-up crate of three floors, with this text in `middle/room.rs`.
fn complaints_about(text: &str) -> Vec<String> {
    let document = "
<!-- floors: made/up -->
| floor | modules | question |
|---:|---|---|
| 2 | `top` | what? |
| 1 | `left` < `middle/`, `sibling` < `right` | what? |
| 0 | `ground`, `error` | what? |
<!-- end of floors -->";
    let root = "pub mod top;\nmod left;\nmod middle;\nmod right;\nmod sibling;\n#[cfg(test)]\nmod helper;\n\
        pub(crate) mod ground;\npub mod error;\npub use error::{Error, Result as R};\n\
        pub use other::{self, text, id::{self, Id}};\npub use top::Top;";
    let files = [
        ("lib.rs", root),
        ("middle/room.rs", text),
        ("ground.rs", ""),
        ("middle/mod.rs", "#[cfg(test)] mod check;"),
    ];
    let files = files.map(|(name, text)| Source::new(name, text.to_owned()));
    complaints(&table(document, "made/up").unwrap(), &files, "made")
}

#[test]
fn upward_imports_are_found_wherever_they_are_written() {
    let top =
        |line: usize| vec![format!("middle/room.rs:{line}: `middle` (floor 1) imports from `top` (floor 2)")];
    assert_eq!(complaints_about("use crate::top::Thing;"), top(1));
    assert_eq!(complaints_about("use crate::{ground,\n    top::{self, Thing}};"), top(2));
    assert_eq!(complaints_about("use super::super::top;"), top(1));
    assert_eq!(complaints_about("mod inner {\n    use super::super::super::top;\n}"), top(2));
    assert_eq!(complaints_about("mod inner {}\n\nuse super::super::top;"), top(3));
    assert_eq!(
        complaints_about("fn f<'a>() -> &'a str {\n    ['\\'', '\"', 'a'];\n    crate::top::f()\n}"),
        top(3)
    );
    assert_eq!(complaints_about("let s = r#\"a \" b\n\"#;\nmade::top::f();"), top(3));
    assert_eq!(complaints_about("macro_rules! m { () => { $crate::top::f() } }"), top(1));
    assert_eq!(complaints_about("#[cfg(test)]\nuse crate::{right, top};\nuse crate::top;"), top(3));
    assert_eq!(
        complaints_about("use crate::Top;"),
        top(1),
        "what the root takes from a module is the module's"
    );
}

#[test]
fn imports_within_a_floor_are_as_the_table_says() {
    let beside =
        |name: &str| vec![format!("middle/room.rs:1: `middle` (floor 1) imports from `{name}` (floor 1)")];
    assert_eq!(complaints_about("use crate::left;"), [""; 0]);
    assert_eq!(complaints_about("use crate::sibling;"), beside("sibling"));
    assert_eq!(complaints_about("use crate::right;"), beside("right"));
}

#[test]
fn no_table_allows_a_circle() {
    let files = [("lib.rs", "mod a;\nmod b;"), ("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")];
    let files = files.map(|(name, text)| Source::new(name, text.to_owned()));
    for (row, reported) in [("`a`, `b`", 2), ("`a` < `b`", 1), ("`b` < `a`", 1)] {
        let places =
            table(&format!("<!-- floors: x -->\n| 0 | {row} |\n<!-- end of floors -->"), "x").unwrap();
        assert_eq!(complaints(&places, &files, "x").len(), reported, "{row}");
    }
}

#[test]
fn what_is_allowed_is_not_reported() {
    for text in [
        "use crate::ground::{self, top};\nuse crate::{Error, R};\nuse crate::error;",
        "use crate::{other, text, id::Id, Id};\nuse other::top;",
        "use super::top;\nuse self::top;\nuse top::middle;\npub(in crate::middle) fn f() {}",
        "// use crate::top;\n/* crate::top /* */ crate::top */\nconst S: &str = \"\\\" crate::top\";",
        "#[cfg(test)]\nmod tests {\n    use crate::top;\n    fn f() { crate::right::f() }\n}",
        "#[cfg(test)]\npub(crate) const fn f() -> [u8; 2] { crate::top::f(); [0; 2] }",
    ] {
        assert_eq!(complaints_about(text), [""; 0], "{text}");
    }
}

#[test]
fn unknown_names_and_double_rows_are_reported() {
    assert_eq!(
        complaints_about("use crate::cellar;"),
        ["middle/room.rs:1: `cellar` is no module at the root of the crate"]
    );
    assert_eq!(
        complaints_about("use crate::*;"),
        ["middle/room.rs:1: `*` is no module at the root of the crate"]
    );
    let files = [Source::new("lib.rs", "mod a;\nmod c;".to_owned())];
    let with_rows = |rows: &str| table(&format!("<!-- floors: x -->\n{rows}\n<!-- end of floors -->"), "x");
    assert_eq!(
        complaints(&with_rows("| 0 | `a`, `b` |").unwrap(), &files, "x"),
        ["`c` is in no table of floors", "`b` is in the table of floors, but there is no such module"]
    );
    assert!(with_rows("| 0 | `a` |\n| 1 | `a` |").is_err() && with_rows("| 0 | `a` |\n| 0 | `b` |").is_err());
    assert!(table("", "x").is_err());
}
