//! Boilerplate: the lines that a group of documents puts into many of them, such as menus, notices and forms. Ours.
//!
//! A *line* is a run of text between line ends, by its folded words; a line without words is none. A *group* is what
//! [`GroupBy`] says: the documents of a host, of an input file, of a folder, with the same value in a field, or all. A
//! line is boilerplate where documents of three or more different contents of its group have it. Its *key* is a 64-bit
//! hash of its group and its words, by which it is counted.
//!
//! What is one content? If each document counted, or each distinct text, nearly all lines of five near-duplicates would
//! be boilerplate. So one line of a document, sampled by hash, stands for its content; a long line is the likelier one.
//! Two documents that share most of their words mostly have the same line sampled, and count once.
//! Documents that share boilerplate have lines of their own contents sampled. `n` documents of which the share `s` is
//! common to all count as about `1 + n·(1 − s)`. Six such samples are made, and three must have come to three contents.
//! One alone may mislead: a line of the boilerplate itself may stand for most documents, or copies may differ there.
//!
//! Counts are kept for each line while there are few, and in a table of fixed size beyond that, where lines
//! that share both of their places add up. What is boilerplate depends on the documents of a group alone: not on their
//! order, on threads, or, unless they make the group, on files.

use crate::atomic_write::folder_of;
use crate::corpus::Document;
use crate::display::counted;
use crate::error::{Error, Result};
use crate::format::{self, BOILERPLATE};
use crate::hash::{MURMUR3, feature, fmix64, murmur3_x64_128};
use crate::inspection::Inspection;
use crate::text::{FeatureExtractor, FeatureKind, TOKENIZER};
use hashbrown::{HashMap, HashSet};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Name of the rules that say what is boilerplate, written into every file of boilerplate.
pub const BOILERPLATE_RULES: &str = "lines-of-three-contents-v1";

/// Samples of a line that stands for a document's content.
const SAMPLES: usize = 6;

/// Samples that must have come to three contents.
const LEAST_SAMPLES: usize = 3;

/// Parts of the counts, each with its own lock.
const PARTS: usize = 64;

/// Distinct lines of a part that are counted each for itself: 2²² in all parts, some 200 MB.
const MOST_LINES: usize = (1 << 22) / PARTS;

/// Places of a part's table beyond that: 2²⁵ in all parts, 512 MB.
const PLACES: usize = (1 << 25) / PARTS;

/// Which documents are a group, whose lines are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum GroupBy {
    /// The documents of a host; a document without a URL is in no group, and has no boilerplate.
    #[default]
    Host,
    /// The documents of an input file.
    File,
    /// The documents of the files of a folder.
    Folder,
    /// All documents.
    All,
    /// The documents that have the same value in this field of JSONL, or column; one without is in no group.
    Field(String),
}

/// Writes the group as the option has it.
impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::File => "file",
            Self::Folder => "folder",
            Self::All => "all",
            Self::Field(name) => return write!(f, "field:{name}"),
        })
    }
}

impl FromStr for GroupBy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match (text, text.strip_prefix("field:")) {
            ("host", _) => Self::Host,
            ("file", _) => Self::File,
            ("folder", _) => Self::Folder,
            ("all", _) => Self::All,
            (_, Some(name)) if !name.is_empty() => Self::Field(name.to_owned()),
            _ => {
                let expected = "host, file, folder, all or field:NAME";
                return Err(Error::parameter("boilerplate-by", text, expected));
            }
        })
    }
}

impl From<GroupBy> for String {
    fn from(by: GroupBy) -> Self {
        by.to_string()
    }
}

impl TryFrom<String> for GroupBy {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl GroupBy {
    /// The words for a group: with an article, in the singular, and in the plural.
    fn words(&self) -> [&'static str; 3] {
        match self {
            Self::Host => ["a host", "host", "hosts"],
            Self::File => ["a file", "file", "files"],
            Self::Folder => ["a folder", "folder", "folders"],
            Self::All => ["the input", "input", "inputs"],
            Self::Field(_) => ["a value", "value", "values"],
        }
    }

    /// A number of groups in words: `2 hosts`.
    pub fn counted(&self, groups: u64) -> String {
        let [_, one, many] = self.words();
        counted(groups, one, many)
    }

    /// One group in words: `a host`.
    pub fn one(&self) -> &'static str {
        self.words()[0]
    }

    /// The field whose values group documents, if one does.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            _ => None,
        }
    }

    /// The name of the group that a document of the file `input` is in, such as its host; empty for [`All`](Self::All).
    /// `None` if it is in no group.
    pub fn of<'a>(&self, input: &'a Path, document: Grouped<'a>) -> Option<Cow<'a, str>> {
        match self {
            Self::Host => document.url.and_then(host_of).map(Cow::Owned),
            Self::Field(_) => document.group.map(Cow::Borrowed),
            Self::File => Some(input.to_string_lossy()),
            Self::Folder => Some(Cow::Owned(folder_name(input))),
            Self::All => Some(Cow::Borrowed("")),
        }
    }
}

/// The parts of a document that decide about its group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grouped<'a> {
    /// Its URL.
    pub url: Option<&'a str>,
    /// Its value in the field of [`GroupBy::Field`], if that was read and it has one.
    pub group: Option<&'a str>,
}

impl<'a> From<&Document<'a>> for Grouped<'a> {
    fn from(document: &Document<'a>) -> Self {
        Self { url: document.url, group: document.group }
    }
}

/// The folder that a file is in, as its path says it.
pub(crate) fn folder_name(path: &Path) -> String {
    folder_of(path).display().to_string()
}

/// The host of a URL: what stands between `://` and the path, without user and port, in lower case. `None` if it has
/// none.
///
/// ```
/// use simflip::boilerplate::host_of;
///
/// assert_eq!(host_of("https://me@Example.org:8080/a?b").as_deref(), Some("example.org"));
/// assert_eq!(host_of("urn:isbn:0451450523"), None);
/// ```
pub fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let named = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let end = match named.find(']') {
        // A literal address of IPv6 has colons of its own.
        Some(bracket) => bracket + 1,
        None => named.find(':').unwrap_or(named.len()),
    };
    let host = named[..end].trim_end_matches('.');
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// The contents that have a line: for each sample up to two of ten bits, or a mark that there are more.
///
/// The same contents give the same number, in whatever order they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LineContents(u128);

impl LineContents {
    /// A line of enough contents.
    const BOILERPLATE: Self = Self(u128::MAX);
    const BITS: u32 = 10;
    const MASK: u128 = (1 << Self::BITS) - 1;
    /// A sample that has come to three contents.
    const MANY: u128 = 1 << (2 * Self::BITS);
    const SAMPLE_MASK: u128 = (Self::MANY << 1) - 1;
    const SAMPLE_BITS: usize = 2 * Self::BITS as usize + 1;

    /// Adds a document's content, by its samples.
    fn add(&mut self, sampled: [u16; SAMPLES]) {
        let samples = sampled.into_iter().zip((0..).step_by(Self::SAMPLE_BITS));
        self.merge(Self(samples.fold(0, |sum, (sampled, shift)| sum | u128::from(sampled) << shift)));
    }

    /// The contents of a sample and one more, the lesser first.
    fn with(sample: u128, content: u128) -> u128 {
        let (low, high) = (sample & Self::MASK, sample >> Self::BITS);
        let pair = |a: u128, b: u128| a.min(b) | a.max(b) << Self::BITS;
        match (low, high) {
            _ if sample == Self::MANY || content == low || content == high => sample,
            (0, _) => content,
            (_, 0) => pair(low, content),
            _ => Self::MANY,
        }
    }

    /// Adds what was counted of other documents.
    fn merge(&mut self, other: Self) {
        if other == Self::BOILERPLATE {
            *self = other;
        }
        if *self == Self::BOILERPLATE {
            return;
        }
        let mut sum = 0;
        let mut many = 0;
        for shift in (0..).step_by(Self::SAMPLE_BITS).take(SAMPLES) {
            let theirs = other.0 >> shift & Self::SAMPLE_MASK;
            let mut sample = self.0 >> shift & Self::SAMPLE_MASK;
            if theirs == Self::MANY {
                sample = theirs;
            } else {
                for content in [theirs & Self::MASK, theirs >> Self::BITS].into_iter().filter(|&c| c > 0) {
                    sample = Self::with(sample, content);
                }
            }
            many += usize::from(sample == Self::MANY);
            sum |= sample << shift;
        }
        *self = if many >= LEAST_SAMPLES { Self::BOILERPLATE } else { Self(sum) };
    }
}

/// A line of a document.
#[derive(Clone, Debug)]
struct DocumentLine {
    /// The hash of its group and words; `None` where it has no words.
    key: Option<u64>,
    words: u32,
    place: Range<usize>,
}

/// Cuts documents into lines, for [`Counting`] and [`Boilerplate`]. It holds buffers: make one for each thread.
pub struct Lines {
    extractor: FeatureExtractor,
    lines: Vec<DocumentLine>,
    own: String,
}

impl Default for Lines {
    fn default() -> Self {
        Self { extractor: FeatureExtractor::new(FeatureKind::Words), lines: Vec::new(), own: String::new() }
    }
}

impl Lines {
    /// Cuts a document of a group.
    fn cut(&mut self, group: &str, text: &str) {
        let Self { extractor, lines, .. } = self;
        let group = feature(group.as_bytes());
        lines.clear();
        let mut start = 0;
        for line in text.split_inclusive(['\n', '\r']) {
            let place = start..start + line.len();
            start = place.end;
            let (mut key, mut words) = (group, 0);
            extractor.extract(line, |word| {
                key = fmix64(key.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(word));
                words += 1;
            });
            lines.push(DocumentLine { key: (words > 0).then_some(key), words, place });
        }
    }

    /// The lines that stand for the document's content: for each sample ten bits, not 0.
    fn sample(&self) -> [u16; SAMPLES] {
        std::array::from_fn(|at| {
            let mut least = (f64::INFINITY, 0);
            for DocumentLine { key, words, .. } in &self.lines {
                let Some(key) = key else { continue };
                let hash = fmix64(key ^ fmix64(at as u64 + 1));
                // Exponentially distributed with the weight as its rate: the least of all is sampled.
                let share = ((hash >> 11) + 1) as f64 / (1u64 << 53) as f64;
                let weight = weight_of(*words);
                // A logarithm only where the line may be sampled: it is at least as far from 0 as this.
                if (1.0 - share) / weight > least.0 * (1.0 + 1e-9) {
                    continue;
                }
                let sampled = (-libm::log(share) / weight, hash);
                if sampled.0.total_cmp(&least.0).then(sampled.1.cmp(&least.1)).is_lt() {
                    least = sampled;
                }
            }
            1 + (fmix64(least.1) % LineContents::MASK as u64) as u16
        })
    }
}

/// The weight of a line with so many words when lines are sampled: their number to the power 1.5, as boilerplate has
/// short lines, and content long ones.
fn weight_of(words: u32) -> f64 {
    let words = f64::from(words);
    words * words.sqrt()
}

/// One of several parts of the lines' counts: each line for itself, or a table of places that lines share.
enum CountsPart {
    Lines(HashMap<u64, LineContents>),
    Places(Vec<LineContents>),
}

/// The two places of a line in a table of so many.
fn places(key: u64, places: usize) -> [usize; 2] {
    let hash = fmix64(key);
    [hash as u32 as usize, (hash >> 32) as usize].map(|place| place % places)
}

/// The part that counts a line.
fn part_of(key: u64) -> usize {
    (key % PARTS as u64) as usize
}

impl CountsPart {
    fn add(&mut self, key: u64, sampled: [u16; SAMPLES], most: usize, all: usize) {
        match self {
            Self::Lines(lines) => {
                lines.entry(key).or_default().add(sampled);
                if lines.len() > most {
                    let mut table = vec![LineContents::default(); all];
                    for (&key, &contents) in &*lines {
                        let [one, other] = places(key, all);
                        table[one].merge(contents);
                        if other != one {
                            table[other].merge(contents);
                        }
                    }
                    *self = Self::Places(table);
                }
            }
            Self::Places(table) => places(key, all).into_iter().for_each(|place| table[place].add(sampled)),
        }
    }
}

/// Counts in how many contents of its group each line stands. Threads share one.
pub struct Counting {
    by: GroupBy,
    parts: Vec<Mutex<CountsPart>>,
    /// Lines that a part counts each for itself.
    most_lines: usize,
    /// Places of a part's table beyond that.
    places: usize,
}

impl Counting {
    /// Begins to count the lines of groups of this kind, without documents yet.
    pub fn new(by: GroupBy) -> Self {
        Self::within(by, MOST_LINES, PLACES)
    }

    fn within(by: GroupBy, most_lines: usize, places: usize) -> Self {
        let part = || Mutex::new(CountsPart::Lines(HashMap::new()));
        Self { by, parts: std::iter::repeat_with(part).take(PARTS).collect(), most_lines, places }
    }

    /// Counts the lines of a document of the file `input`. A document in no group is not counted.
    pub fn add(&self, lines: &mut Lines, input: &Path, document: Grouped<'_>, text: &str) {
        let Some(group) = self.by.of(input, document) else { return };
        lines.cut(&group, text);
        let sampled = lines.sample();
        // The group itself is counted like a line that all of its documents have: one of fewer contents has no
        // boilerplate, and its documents need not be cut again.
        for key in lines.lines.iter().filter_map(|line| line.key).chain([feature(group.as_bytes())]) {
            let mut part = self.parts[part_of(key)].lock().unwrap_or_else(PoisonError::into_inner);
            part.add(key, sampled, self.most_lines, self.places);
        }
    }

    /// Ends the counting, and gives the lines of three contents or more.
    pub fn finish(self) -> Boilerplate {
        let places = self.places;
        let parts = self.parts.into_iter().map(|part| {
            match part.into_inner().unwrap_or_else(PoisonError::into_inner) {
                CountsPart::Lines(lines) => {
                    let boilerplate =
                        lines.into_iter().filter(|&(_, contents)| contents == LineContents::BOILERPLATE);
                    BoilerplatePart::Lines(boilerplate.map(|(key, _)| key).collect())
                }
                CountsPart::Places(table) => {
                    let mut bits = vec![0u64; places.div_ceil(64)];
                    for (place, _) in
                        table.iter().enumerate().filter(|&(_, &c)| c == LineContents::BOILERPLATE)
                    {
                        bits[place / 64] |= 1 << (place % 64);
                    }
                    BoilerplatePart::Places(bits)
                }
            }
        });
        Boilerplate { by: self.by, parts: parts.collect(), places }
    }
}

/// The lines that are boilerplate, each in its own group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boilerplate {
    /// The kind of groups.
    pub by: GroupBy,
    parts: Vec<BoilerplatePart>,
    /// Places of a part's table.
    places: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum BoilerplatePart {
    Lines(HashSet<u64>),
    /// A bit for each place.
    Places(Vec<u64>),
}

impl BoilerplatePart {
    /// The number of lines; `None` where lines share places, so that nobody knows it.
    fn lines(&self) -> Option<u64> {
        match self {
            Self::Lines(lines) => Some(lines.len() as u64),
            Self::Places(_) => None,
        }
    }
}

/// The share of boilerplate in some documents, of a group for example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoilerplateShare {
    /// Number of documents.
    pub documents: u64,
    /// Documents of nothing but boilerplate, which are compared whole.
    pub whole_documents: u64,
    /// Lines with words in them.
    pub lines: u64,
    /// Lines of boilerplate among these.
    pub boilerplate_lines: u64,
    /// Bytes of the texts.
    pub bytes: u64,
    /// Bytes of boilerplate among these.
    pub boilerplate_bytes: u64,
}

impl BoilerplateShare {
    /// The share in one document of `bytes` bytes: its lines with words, and the lines and the bytes of boilerplate.
    pub fn of_document(bytes: u64, [lines, boilerplate_lines, boilerplate_bytes]: [u64; 3]) -> Self {
        let whole_documents = u64::from(lines > 0 && boilerplate_lines == lines);
        Self { documents: 1, whole_documents, lines, boilerplate_lines, bytes, boilerplate_bytes }
    }

    /// Adds the sums over other documents.
    pub fn add(&mut self, other: &Self) {
        self.documents += other.documents;
        self.whole_documents += other.whole_documents;
        self.lines += other.lines;
        self.boilerplate_lines += other.boilerplate_lines;
        self.bytes += other.bytes;
        self.boilerplate_bytes += other.boilerplate_bytes;
    }
}

/// A document that is parted into its own text and its boilerplate, for a review or an explanation that shows both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnText {
    /// The text that is compared.
    pub own: String,
    /// The text that is left out: runs of lines, each with the byte of `own` before which it stood.
    pub boilerplate: Vec<(usize, String)>,
}

impl OwnText {
    /// Parts a document of the file `input` by the boilerplate of its group. Without boilerplate or group, all of it is
    /// its own text.
    pub fn new(boilerplate: Option<&Boilerplate>, input: &Path, document: Grouped<'_>, text: &str) -> Self {
        let group =
            boilerplate.and_then(|boilerplate| Some((boilerplate, boilerplate.by.of(input, document)?)));
        match group {
            Some((boilerplate, group)) => boilerplate.cut(&mut Lines::default(), &group, text),
            None => Self { own: text.to_owned(), boilerplate: Vec::new() },
        }
    }

    /// Bytes of both texts.
    pub fn len(&self) -> usize {
        self.own.len() + self.boilerplate.iter().map(|(_, boilerplate)| boilerplate.len()).sum::<usize>()
    }

    /// True if both texts are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Boilerplate {
    fn has(&self, key: u64) -> bool {
        match &self.parts[part_of(key)] {
            BoilerplatePart::Lines(lines) => lines.contains(&key),
            BoilerplatePart::Places(bits) => {
                places(key, self.places).into_iter().all(|place| bits[place / 64] >> (place % 64) & 1 == 1)
            }
        }
    }

    /// The share of lines, 0 to 1, that would be taken for boilerplate and are not: in a table, a line counts as
    /// boilerplate if both of its places do. Of all parts, the largest share counts; while lines are counted each for
    /// itself, it is 0.
    pub fn mistaken(&self) -> f64 {
        let of = |part: &BoilerplatePart| match part {
            BoilerplatePart::Lines(_) => 0.0,
            BoilerplatePart::Places(bits) => {
                let full: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
                (full as f64 / self.places as f64).powi(2)
            }
        };
        self.parts.iter().map(of).fold(0.0, f64::max)
    }

    /// A document of a group without its boilerplate, and the share of boilerplate in it. A document of nothing but
    /// boilerplate is given whole. So is one of a group with fewer than three contents, and then the share is `None`.
    pub fn without<'a>(
        &self,
        lines: &'a mut Lines,
        group: &str,
        text: &'a str,
    ) -> (&'a str, Option<BoilerplateShare>) {
        if !self.has(feature(group.as_bytes())) {
            return (text, None);
        }
        lines.cut(group, text);
        let Lines { lines, own, .. } = lines;
        own.clear();
        let [mut with_words, mut left_out, mut left_bytes] = [0; 3];
        for DocumentLine { key, place, .. } in lines {
            let is_boilerplate = key.is_some_and(|key| self.has(key));
            with_words += u64::from(key.is_some());
            if is_boilerplate {
                left_out += 1;
                left_bytes += place.len() as u64;
            } else {
                own.push_str(&text[place.clone()]);
            }
        }
        let share = BoilerplateShare::of_document(text.len() as u64, [with_words, left_out, left_bytes]);
        (if left_out == with_words || left_out == 0 { text } else { own }, Some(share))
    }

    /// The part of a document of the file `input` that is compared, and its group with the share of boilerplate. `None`
    /// if it is in no group, or where [`without`](Self::without) gives no share.
    pub fn part<'a>(
        &self,
        lines: &'a mut Lines,
        input: &'a Path,
        document: &Document<'a>,
    ) -> (&'a str, Option<(Cow<'a, str>, BoilerplateShare)>) {
        let Some(group) = self.by.of(input, document.into()) else { return (document.text, None) };
        let (part, share) = self.without(lines, &group, document.text);
        (part, share.map(|share| (group, share)))
    }

    /// Bytes of memory that the boilerplate takes.
    pub fn held_bytes(&self) -> u64 {
        let of = |part: &BoilerplatePart| match part {
            // A place of a table of hashes has nine bytes, and one in eight is empty at least.
            BoilerplatePart::Lines(lines) => 11 * lines.capacity(),
            BoilerplatePart::Places(bits) => 8 * bits.len(),
        };
        self.parts.iter().map(of).sum::<usize>() as u64
    }

    /// A hash of all that decides which lines are left out, in 32 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        let (header, body) = self.file();
        let header = serde_json::to_vec(&header).unwrap_or_default();
        let (low, high) = murmur3_x64_128(&[header, body].concat(), 0);
        format!("{high:016x}{low:016x}")
    }

    /// The header and the body of its file.
    fn file(&self) -> (BoilerplateHeader, Vec<u8>) {
        let words = |part: &BoilerplatePart| match part {
            BoilerplatePart::Lines(lines) => {
                let mut lines: Vec<u64> = lines.iter().copied().collect();
                lines.sort_unstable();
                lines
            }
            BoilerplatePart::Places(bits) => bits.clone(),
        };
        let body = self.parts.iter().flat_map(words).flat_map(u64::to_le_bytes).collect();
        let header = BoilerplateHeader {
            by: self.by.clone(),
            hash: MURMUR3.to_owned(),
            tokenizer: TOKENIZER.to_owned(),
            rules: BOILERPLATE_RULES.to_owned(),
            places: self.places as u64,
            parts: self.parts.iter().map(BoilerplatePart::lines).collect(),
        };
        (header, body)
    }

    /// Parts a document as [`Boilerplate::without`] does, and keeps the boilerplate as well.
    pub fn cut(&self, lines: &mut Lines, group: &str, text: &str) -> OwnText {
        match self.without(lines, group, text) {
            (_, Some(share)) if share.boilerplate_lines > 0 && share.whole_documents == 0 => {}
            _ => return OwnText { own: text.to_owned(), boilerplate: Vec::new() },
        }
        let mut own_text = OwnText::default();
        for DocumentLine { key, place, .. } in &lines.lines {
            let line = &text[place.clone()];
            if !key.is_some_and(|key| self.has(key)) {
                own_text.own.push_str(line);
                continue;
            }
            match own_text.boilerplate.last_mut() {
                Some((at, boilerplate)) if *at == own_text.own.len() => boilerplate.push_str(line),
                _ => own_text.boilerplate.push((own_text.own.len(), line.to_owned())),
            }
        }
        own_text
    }
}

/// The header of a file of boilerplate.
#[derive(Serialize, Deserialize)]
struct BoilerplateHeader {
    by: GroupBy,
    hash: String,
    tokenizer: String,
    rules: String,
    /// Places of a part's table.
    places: u64,
    /// For each part the number of its lines, or none where it has a bit for each place.
    parts: Vec<Option<u64>>,
}

/// Writes boilerplate to a file; the same boilerplate gives the same bytes.
///
/// # Errors
/// If the file cannot be written; then there is none.
pub fn save(boilerplate: &Boilerplate, path: &Path) -> Result<()> {
    let (header, body) = boilerplate.file();
    format::write(path, BOILERPLATE, &header, &[&body])
}

/// The kind of groups in a file of boilerplate, of which no more than the header is read.
///
/// # Errors
/// If the file cannot be read, or is no file of boilerplate.
pub fn groups_of(path: &Path) -> Result<GroupBy> {
    let (BoilerplateHeader { by, .. }, _) = format::open(path, BOILERPLATE)?;
    Ok(by)
}

/// Reads boilerplate from a file.
///
/// # Errors
/// If the file cannot be read, is corrupt, or was made with another hash, other tokenising rules or other
/// rules of what is boilerplate.
pub fn load(path: &Path) -> Result<Boilerplate> {
    let (header, body): (BoilerplateHeader, _) = format::read(path, BOILERPLATE)?;
    let must = |field, expected: String, got: String| {
        if expected == got {
            return Ok(());
        }
        let advice = "count the boilerplate again with this simflip";
        Err(format::wrong(path, field, expected, got, advice))
    };
    must("the feature hash", MURMUR3.to_owned(), header.hash)?;
    must("the tokenizer", TOKENIZER.to_owned(), header.tokenizer)?;
    must("the rules of boilerplate", BOILERPLATE_RULES.to_owned(), header.rules)?;
    must("the number of places", PLACES.to_string(), header.places.to_string())?;
    must("the number of parts", PARTS.to_string(), header.parts.len().to_string())?;
    let words_of = |part: &Option<u64>| part.unwrap_or(PLACES.div_ceil(64) as u64);
    let words = header.parts.iter().fold(0u64, |sum, part| sum.saturating_add(words_of(part)));
    must("the body's length", words.saturating_mul(8).to_string(), body.len().to_string())?;
    let mut words = body.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes));
    let parts = header.parts.iter().map(|part| {
        let words = words.by_ref().take(words_of(part) as usize);
        match part {
            Some(_) => BoilerplatePart::Lines(words.collect()),
            None => BoilerplatePart::Places(words.collect()),
        }
    });
    Ok(Boilerplate { by: header.by, parts: parts.collect(), places: PLACES })
}

/// Checks a file of boilerplate whose envelope and checksum are right already. Gives the fields of its `header` as
/// facts, and a problem if it cannot be used.
pub(crate) fn check(path: &Path, header: serde_json::Value) -> Inspection {
    let mut inspection = Inspection::default();
    for name in ["by", "hash", "tokenizer", "rules"] {
        inspection.header_field(name.to_owned(), &header[name]);
    }
    match load(path) {
        Ok(boilerplate) => {
            let lines = boilerplate.parts.iter().map(BoilerplatePart::lines);
            inspection.fact("lines", lines.clone().flatten().sum::<u64>());
            inspection.fact("parts as tables", lines.filter(Option::is_none).count());
        }
        Err(error) => inspection.problem(error.to_string()),
    }
    inspection
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A line of so many words that no other line has.
    fn line(rng: &mut SplitMix64, words: usize) -> String {
        let words: Vec<String> = (0..words).map(|_| format!("w{:x}", rng.next_u64())).collect();
        words.join(" ")
    }

    fn lines(rng: &mut SplitMix64, n: usize, words: usize) -> Vec<String> {
        (0..n).map(|_| line(rng, words)).collect()
    }

    type Numbered = (String, String);

    fn document(number: usize, lines: &[String]) -> Numbered {
        (format!("http://a.example/{number}"), lines.join("\n"))
    }

    fn count(documents: &[Numbered], bounds: (usize, usize)) -> Boilerplate {
        let counting = Counting::within(GroupBy::Host, bounds.0, bounds.1);
        let mut lines = Lines::default();
        documents.iter().for_each(|(url, text)| {
            counting.add(&mut lines, Path::new(""), Grouped { url: Some(url), group: None }, text)
        });
        counting.finish()
    }

    fn counted(documents: &[Numbered]) -> Boilerplate {
        count(documents, (MOST_LINES, PLACES))
    }

    fn left(boilerplate: &Boilerplate, text: &str) -> (String, BoilerplateShare) {
        let mut lines = Lines::default();
        let (left, share) = boilerplate.without(&mut lines, "a.example", text);
        let (left, share) = (left.to_owned(), share.unwrap_or_default());
        let own_text = boilerplate.cut(&mut lines, "a.example", text);
        assert_eq!((&own_text.own, own_text.len()), (&left, text.len()));
        (left, share)
    }

    #[test]
    fn hosts_are_those_of_urls() {
        for (url, host) in [
            ("http://Example.ORG", Some("example.org")),
            ("https://u:p@example.org:80/a@b:c", Some("example.org")),
            ("http://example.org.?q=http://other.example", Some("example.org")),
            ("http://[2001:db8::1]:8080/", Some("[2001:db8::1]")),
            ("http:///path", None),
            ("example.org/a", None),
            ("", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }

    #[test]
    fn what_different_contents_share_is_left_out() {
        let mut rng = SplitMix64::new(1);
        let shared = lines(&mut rng, 6, 4);
        let contents: Vec<Vec<String>> = (0..8).map(|_| lines(&mut rng, 5, 20)).collect();
        let with = |content: &[String]| [&shared[..3], content, &shared[3..]].concat();
        let documents: Vec<Numbered> = (0..8).map(|n| document(n, &with(&contents[n]))).collect();
        let boilerplate = counted(&documents);
        for (content, (_, text)) in contents.iter().zip(&documents) {
            let (left, share) = left(&boilerplate, text);
            assert_eq!(left.trim_end(), content.join("\n"));
            assert_eq!((share.lines, share.boilerplate_lines, share.whole_documents), (11, 6, 0));
            assert_eq!(share.bytes - share.boilerplate_bytes, left.len() as u64);
        }
        // Boilerplate is that of its host alone, whatever case and space it is written in.
        let mut cut = Lines::default();
        let text = &documents[0].1;
        assert_eq!(boilerplate.without(&mut cut, "b.example", text), (&**text, None));
        let loud = text.to_uppercase().replace(' ', "  ");
        assert_eq!(left(&boilerplate, &loud).1.boilerplate_lines, 6);
        // Nothing but boilerplate is given whole.
        let bare = shared.join("\n");
        let (whole, share) = left(&boilerplate, &bare);
        assert_eq!((whole, share.whole_documents, share.boilerplate_lines), (bare, 1, 6));
        assert_eq!(
            left(&boilerplate, " \n--\n").1,
            BoilerplateShare { documents: 1, bytes: 5, ..BoilerplateShare::default() }
        );
    }

    #[test]
    fn near_copies_have_no_boilerplate_of_their_own() {
        let mut rng = SplitMix64::new(2);
        let (mut families, mut cut) = (0, 0);
        for _ in 0..200 {
            let common = lines(&mut rng, 19, 12);
            let documents: Vec<Numbered> =
                (0..5).map(|n| document(n, &[&common[..], &lines(&mut rng, 1, 12)].concat())).collect();
            let boilerplate = counted(&documents);
            families += 1;
            cut += usize::from(left(&boilerplate, &documents[0].1).1.boilerplate_lines > 0);
        }
        assert!(cut <= 2, "{cut} of {families}");
    }

    #[test]
    fn exact_copies_are_one_content() {
        let mut rng = SplitMix64::new(3);
        let text = lines(&mut rng, 9, 9);
        let documents: Vec<Numbered> = (0..50).map(|n| document(n, &text)).collect();
        assert_eq!(left(&counted(&documents), &documents[0].1).1.boilerplate_lines, 0);
    }

    #[test]
    fn a_full_table_says_so() {
        let mut rng = SplitMix64::new(4);
        let documents: Vec<Numbered> = (0..200).map(|n| document(n, &lines(&mut rng, 20, 8))).collect();
        let cramped = count(&documents, (1, 16));
        assert!(cramped.mistaken() > 0.9, "{}", cramped.mistaken());
        assert_eq!(left(&cramped, &documents[0].1).1.whole_documents, 1);
        let roomy = count(&documents, (1, 1 << 14));
        assert!(roomy.mistaken() < 0.001, "{}", roomy.mistaken());
        assert_eq!(count(&documents, (1 << 20, 16)).mistaken(), 0.0);
    }

    #[test]
    fn saved_and_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boilerplate");
        let mut rng = SplitMix64::new(5);
        let shared = lines(&mut rng, 6, 4);
        let documents: Vec<Numbered> =
            (0..8).map(|n| document(n, &[&shared[..], &lines(&mut rng, 5, 20)].concat())).collect();
        for most in [MOST_LINES, 1] {
            let boilerplate = count(&documents, (most, PLACES));
            assert_eq!(left(&boilerplate, &documents[0].1).1.boilerplate_lines, 6);
            save(&boilerplate, &path).unwrap();
            assert_eq!(load(&path).unwrap(), boilerplate);
        }
        let other = Boilerplate { places: 64, ..counted(&documents) };
        save(&other, &path).unwrap();
        let message = load(&path).unwrap_err().to_string();
        assert!(message.contains("the number of places is 64"), "{message}");
        assert_eq!(groups_of(&path).unwrap(), other.by);
        let header = serde_json::json!({
            "by": "host", "hash": MURMUR3, "tokenizer": TOKENIZER, "rules": "other", "places": 1, "parts": [],
        });
        format::write(&path, BOILERPLATE, &header, &[]).unwrap();
        let message = load(&path).unwrap_err().to_string();
        assert!(message.contains("the rules of boilerplate is other"), "{message}");
    }

    /// The definition: sets of contents by sample.
    fn naive(contents: &[[u16; SAMPLES]]) -> bool {
        let many = |sample: &usize| contents.iter().map(|c| c[*sample]).collect::<BTreeSet<_>>().len() >= 3;
        (0..SAMPLES).filter(many).count() >= LEAST_SAMPLES
    }

    proptest! {
        #[test]
        fn contents_are_counted_as_sets_are(
            contents in prop::collection::vec(prop::array::uniform6(1u16..6), 0..8),
            cut in 0usize..8,
        ) {
            let count = |contents: &[[u16; SAMPLES]]| {
                let mut count = LineContents::default();
                contents.iter().for_each(|&content| count.add(content));
                count
            };
            let whole = count(&contents);
            prop_assert_eq!(whole == LineContents::BOILERPLATE, naive(&contents));
            let reversed: Vec<_> = contents.iter().rev().copied().collect();
            prop_assert_eq!(count(&reversed), whole);
            let (one, other) = contents.split_at(cut.min(contents.len()));
            let mut merged = count(one);
            merged.merge(count(other));
            prop_assert_eq!(merged, whole);
        }

        #[test]
        fn a_table_gives_the_same_whenever_it_is_made(seed: u64, most in 0usize..40, by in 0usize..30) {
            let mut rng = SplitMix64::new(seed);
            let pool = lines(&mut rng, 12, 3);
            let mut documents: Vec<Numbered> = (0..30)
                .map(|n| {
                    let picked: Vec<String> =
                        (0..6).map(|_| pool[rng.below(pool.len() as u64) as usize].clone()).collect();
                    document(n, &picked)
                })
                .collect();
            let boilerplate = count(&documents, (most, 32));
            documents.rotate_left(by);
            prop_assert_eq!(count(&documents, (most, 32)), boilerplate);
        }
    }
}
