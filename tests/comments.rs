//! Comments of items say what the item is: they begin with a noun or a verb.

use std::fs;
use std::path::{Path, PathBuf};

/// Words by which a comment points at its item instead of naming it.
const POINTING: [&str; 6] = ["What", "Whether", "How", "Those", "That", "The same"];

/// The share of comments that may begin so: help texts do, where they answer a question.
const MOST: f64 = 0.01;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        match entry.is_dir() {
            true => sources(&entry, found),
            false if entry.extension().is_some_and(|end| end == "rs") => found.push(entry),
            false => {}
        }
    }
}

/// The first lines of the comments of items in a file.
fn first_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut behind = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        let words = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
        let is_first = words.is_some() && !behind;
        behind = line.starts_with("///") || line.starts_with("//!");
        words.filter(|_| is_first)
    })
}

#[test]
fn comments_of_items_name_the_item() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    ["src", "core/src"].iter().for_each(|folder| sources(&root.join(folder), &mut files));
    let (mut all, mut pointing) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        for line in first_lines(&text) {
            all += 1;
            let points = |words: &str| line.strip_prefix(words).is_some_and(|rest| rest.starts_with(' '));
            if POINTING.into_iter().any(points) {
                pointing.push(format!("{}: {line}", file.strip_prefix(root).expect("below").display()));
            }
        }
    }
    assert!(all > 5_000, "{all} comments of items");
    let most = (MOST * f64::from(all)) as usize;
    assert!(pointing.len() <= most, "{} of {all}, at most {most}:\n{}", pointing.len(), pointing.join("\n"));
}
