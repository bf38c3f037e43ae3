//! Which file imports which: files that import each other in a ring can only be understood together.

use crate::floors::{CodePath, Source, paths, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The files that each file imports from, tests left out.
pub type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// A crate's files by their modules, each with its paths.
struct Crate<'a> {
    roots: [&'a str; 2],
    files: BTreeMap<Vec<&'a str>, (&'a Source, Vec<CodePath<'a>>)>,
}

impl<'a> Crate<'a> {
    /// The module of the file in which a path ends that begins in a module: the one that has its last name.
    fn target(&self, mut module: Vec<&'a str>, names: &[&'a str], steps: usize) -> Vec<&'a str> {
        for (at, &name) in names.iter().enumerate() {
            match name {
                "self" => {}
                "super" => drop(module.pop()),
                _ if at == 0 && self.roots.contains(&name) => module.clear(),
                _ => {
                    module.push(name);
                    if self.files.contains_key(&module) {
                        continue;
                    }
                    module.pop();
                    // The module may have the name from elsewhere.
                    let Some(from) = self.import_of(&module, name).filter(|_| steps > 0) else { break };
                    return self.target(module, &from, steps - 1);
                }
            }
        }
        module
    }

    /// The path by which a module has a name that is not its own.
    fn import_of(&self, module: &[&str], name: &str) -> Option<Vec<&'a str>> {
        let (_, paths) = self.files.get(module)?;
        let names = |path: &CodePath<'a>| path.names.iter().map(|name| name.text).collect::<Vec<_>>();
        let ends = |names: &Vec<&str>| names.len() > 1 && names.last() == Some(&name);
        paths.iter().filter(|path| path.inner == 0).map(names).find(ends)
    }
}

/// Which file of a crate imports from which.
pub fn imports<'a>(files: &'a [Source], name: &'a str) -> Imports<'a> {
    let module = |file: &'a Source| file.module.iter().map(String::as_str).collect::<Vec<_>>();
    let (mut by_module, mut tests) = (BTreeMap::new(), Vec::new());
    for file in files.iter().filter(|file| file.name != "main.rs") {
        let (paths, of_tests) = paths(&file.text);
        tests.extend(of_tests.into_iter().map(|test| [module(file), vec![test]].concat()));
        by_module.insert(module(file), (file, paths));
    }
    let of = Crate { roots: ["crate", name], files: by_module };
    let mut found = Imports::new();
    for (module, (file, paths)) in &of.files {
        if tests.iter().any(|test| module.starts_with(test)) {
            continue;
        }
        let from = found.entry(&file.name).or_default();
        for CodePath { names, inner } in paths {
            let names: Vec<&str> = names.iter().map(|name| name.text).collect();
            let inside = [module.clone(), vec![""; *inner]].concat();
            let mut target = of.target(inside, &names, 8);
            target.retain(|name| !name.is_empty());
            from.extend(of.files.get(&target).filter(|_| target != *module).map(|(file, _)| &*file.name));
        }
    }
    found
}

/// The groups of files of which each imports every other, by way of others too. A module and the modules inside of it
/// may import each other.
fn rings<'a>(imports: &Imports<'a>) -> BTreeSet<Vec<&'a str>> {
    let folder =
        |name: &'a str| name.trim_end_matches("mod.rs").trim_end_matches(".rs").trim_end_matches('/');
    let is_inside = |a: &'a str, b: &'a str| {
        folder(a).strip_prefix(folder(b)).is_some_and(|rest| rest.starts_with('/')) || b == "lib.rs"
    };
    let reached = |from: &'a str| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            let next = imports.get(file).into_iter().flatten();
            let next = next.filter(|&&next| !is_inside(file, next) && !is_inside(next, file));
            open.extend(next.copied().filter(|&next| reached.insert(next)));
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports.keys().map(|&file| (file, reached(file))).collect();
    let ring = |(&file, others): (&&'a str, &BTreeSet<&'a str>)| -> Vec<&'a str> {
        others
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(file)))
            .collect()
    };
    reached.iter().map(ring).filter(|ring| !ring.is_empty()).collect()
}

/// The sources of a folder of the repository.
pub fn files(folder: &str) -> Vec<Source> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), "", &mut files);
    files
}

#[test]
fn no_files_import_each_other_in_a_ring() {
    for (folder, name) in [("core/src", "simflip_core"), ("src", "simflip")] {
        let files = files(folder);
        let imports = imports(&files, name);
        assert!(imports.values().map(BTreeSet::len).sum::<usize>() > 300, "{folder}: {imports:?}");
        assert_eq!(rings(&imports), BTreeSet::new(), "{folder}");
    }
}

#[test]
fn rings_are_found_however_they_are_written() {
    let rings_with = |text: &str| {
        let root = "pub mod a;\nmod b;\nmod c;\npub use c::Chart;";
        let texts = [
            ("lib.rs", root),
            ("a/mod.rs", text),
            ("a/inner.rs", ""),
            ("b.rs", "use crate::a::inner;"),
            ("c.rs", "use super::a;"),
        ];
        let files = texts.map(|(name, text)| Source::new(name, text.to_owned()));
        let found: Vec<String> = rings(&imports(&files, "made")).iter().map(|ring| ring.join(" ")).collect();
        found.join(", ")
    };
    for text in
        ["use crate::c;", "use super::{b, c::Chart};", "use crate::Chart;", "fn f() { made::Chart::new() }"]
    {
        assert_eq!(rings_with(text), "a/mod.rs c.rs", "{text}");
    }
    for text in [
        "use crate::b;",
        "mod inner;\nuse inner::Thing;",
        "#[cfg(all(test, unix))]\nmod tests { use crate::c; }",
        "// crate::c",
    ] {
        assert_eq!(rings_with(text), "", "{text}");
    }
}
