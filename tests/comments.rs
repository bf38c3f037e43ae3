//! Comments of items say what the item is: they begin with a noun or a verb. Comments use the words of the glossary,
//! and short sentences. Tests, examples, benchmarks, experiments and the Python package are held to it too.

use std::fs;
use std::path::{Path, PathBuf};

/// Words by which a comment points at its item instead of naming it.
const POINTING: [&str; 6] = ["What", "Whether", "How", "Those", "That", "The same"];

/// The folders of sources, and how many of their comments may begin so. None may get more.
const FOLDERS: [(&str, usize); 10] = [
    ("core/src", 1),
    ("src", 12),
    ("core/tests", 0),
    ("tests", 29),
    ("examples", 11),
    ("core/examples", 0),
    ("benches", 3),
    ("experiments", 63),
    ("fuzz", 4),
    ("python/src", 14),
];

/// The texts of a folder's sources, each with its path. What a build of a workspace inside of it left is no source.
fn texts(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join(folder), &mut files);
    let text = |file: &PathBuf| fs::read_to_string(file).expect("a source file");
    let path = |file: &PathBuf| file.strip_prefix(root).expect("below").display().to_string();
    files.iter().map(|file| (path(file), text(file))).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        match entry.is_dir() {
            true if entry.ends_with("target") => {}
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
    let mut all = 0;
    for (folder, most) in FOLDERS {
        let mut pointing = Vec::new();
        for (path, text) in texts(folder) {
            for line in first_lines(&text) {
                all += 1;
                let points = |words: &str| line.strip_prefix(words).is_some_and(|rest| rest.starts_with(' '));
                if POINTING.into_iter().any(points) {
                    pointing.push(format!("{path}: {line}"));
                }
            }
        }
        let found = pointing.len();
        assert!(found <= most, "{folder}: {found}, at most {most}:\n{}", pointing.join("\n"));
    }
    assert!(all > 7_000, "{all} comments of items");
}

/// Words of ours that have no literal meaning here, by which one has the field's.
const HOME_MADE: [&str; 21] = [
    "audit",
    "brought up",
    "bring up",
    "caught",
    "companion",
    "company",
    "crowd",
    "crowded",
    "crowds",
    "dealt",
    "drawer",
    "drawers",
    "fate",
    "fates",
    "mended",
    "road",
    "stand-in",
    "strengths",
    "tally",
    "throng",
    "told",
];

/// Words of a sentence that is long, and the share of sentences that may be longer.
const LONG: usize = 30;
const MOST_LONG: f64 = 0.02;

/// Words of the longest sentence that there may be.
const LONGEST: usize = 40;

/// The paragraphs of a file's comments, without code, tables and headings.
fn paragraphs(text: &str) -> Vec<String> {
    let (mut all, mut is_code, mut goes_on) = (Vec::<String>::new(), false, false);
    for line in text.lines().map(str::trim_start) {
        let Some(words) = line.strip_prefix("//") else {
            (is_code, goes_on) = (false, false);
            continue;
        };
        let words = words.trim_start_matches(['/', '!']).trim();
        is_code ^= words.starts_with("```");
        if is_code
            || words.is_empty()
            || words.starts_with('|')
            || words.starts_with('#')
            || words.starts_with("```")
        {
            goes_on = false;
            continue;
        }
        let is_numbered = words.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        let begins = !goes_on || is_numbered || words.starts_with("- ") || words.starts_with("* ");
        match all.last_mut().filter(|_| !begins) {
            Some(paragraph) => *paragraph += &format!(" {words}"),
            None => all.push(words.to_owned()),
        }
        goes_on = true;
    }
    all
}

/// The number of words of each sentence: it ends with a mark before a capital letter or code.
fn sentences(paragraph: &str) -> Vec<usize> {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let ends = |pair: &[&str]| {
        pair[0].trim_end_matches([')', ']']).ends_with(['.', '!', '?', ':'])
            && pair[1].starts_with(|first: char| first.is_uppercase() || "`[(*".contains(first))
    };
    let (mut lengths, mut length) = (Vec::new(), 1);
    for pair in words.windows(2) {
        if ends(pair) {
            lengths.push(std::mem::take(&mut length));
        }
        length += 1;
    }
    lengths.push(length);
    lengths
}

/// The words of ours in a paragraph.
fn home_made_in(paragraph: &str) -> impl Iterator<Item = &'static str> {
    let is_between = |letter: char| !letter.is_alphanumeric() && letter != '-';
    let spaced = format!(" {} ", paragraph.to_lowercase().replace(is_between, " "));
    HOME_MADE.into_iter().filter(move |word| spaced.contains(&format!(" {word} ")))
}

#[test]
fn long_sentences_and_words_of_our_own_are_found() {
    let text = "/// Told apart by a crowd: Two words.\n/// Three more words.\n///\n/// - An item\n///   goes on.\n/// 2. More\nfn code() {}\n//! Next";
    let found = paragraphs(text);
    assert_eq!(
        found,
        ["Told apart by a crowd: Two words. Three more words.", "- An item goes on.", "2. More", "Next"]
    );
    assert_eq!(sentences(&found[0]), [5, 2, 3]);
    assert_eq!(home_made_in(&found[0]).collect::<Vec<_>>(), ["crowd", "told"]);
    assert_eq!(home_made_in("untold, crowded-in").count(), 0);
}

#[test]
fn comments_use_the_words_of_the_field_and_short_sentences() {
    let (mut all, mut long, mut too_long, mut home_made) = (0, 0, Vec::new(), Vec::new());
    for (path, text) in FOLDERS.into_iter().flat_map(|(folder, _)| texts(folder)) {
        for paragraph in paragraphs(&text) {
            let lengths = sentences(&paragraph);
            all += lengths.len();
            long += lengths.iter().filter(|&&length| length > LONG).count();
            if lengths.iter().any(|&length| length > LONGEST) {
                too_long.push(format!("{path}: {paragraph}"));
            }
            home_made.extend(home_made_in(&paragraph).map(|word| format!("{path}: {word}: {paragraph}")));
        }
    }
    assert!(home_made.is_empty(), "words of our own:\n{}", home_made.join("\n"));
    assert!(too_long.is_empty(), "sentences of more than {LONGEST} words:\n{}", too_long.join("\n"));
    assert!(all > 10_000, "{all} sentences");
    let most = (MOST_LONG * all as f64) as usize;
    assert!(long <= most, "{long} of {all} sentences have more than {LONG} words, at most {most} may");
}
