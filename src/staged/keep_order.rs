//! Keep order: the order in which documents are visited, of which the earlier one of two near-duplicates is kept.
//! Reference documents come before all others. A document's place in it is its *rank*; its *number* is its place
//! in the folder of sketches.

use super::Budget;
use super::grouping::Grouping;
use super::layout::{Column, words};
use super::record::{DOCUMENT, document_bytes, document_of};
use super::sketches::Folder;
use super::sorter::{Merge, Sorter};
use crate::error::{Error, Result};
use crate::pipeline::sources::{folder_numbers, no_score, number_of_host, score_of_place, unscored_warning};
use simflip_core::clusters::{Keep, Source as SourceKind};
use simflip_core::id::{Id, Rank};
use std::path::Path;

/// The facts of the inputs of a folder of sketches on which keep order and quotas depend, in the order of
/// [`Folder::inputs`].
#[derive(Clone, Debug, Default)]
pub struct OfFiles {
    /// The number of the folder that each input is in.
    folders: Vec<u64>,
    /// The score of each input, where the order of inputs decides; otherwise empty.
    scores: Vec<f64>,
}

impl OfFiles {
    /// The facts of inputs with these paths, which have these scores, or none if `scores` is empty.
    pub fn new<'a>(paths: impl Iterator<Item = &'a Path>, scores: Vec<f64>) -> Self {
        Self { folders: folder_numbers(paths), scores }
    }

    /// The facts of the inputs of a folder, with scores if `grouping` has a priority.
    pub fn of(folder: &Folder, grouping: &Grouping) -> Self {
        let paths = || folder.inputs.iter().map(|input| Path::new(&input.mark.path));
        let place = |path: &Path| grouping.priority.iter().position(|first| path.starts_with(first));
        let scores = match grouping.priority.is_empty() {
            true => Vec::new(),
            false => paths().map(|path| score_of_place(place(path))).collect(),
        };
        Self::new(paths(), scores)
    }
}

/// Refuses a grouping that needs what the sketches of a folder do not have.
///
/// # Errors
/// If it keeps documents by a score that was not read of new documents, or by the order of inputs without a priority of
/// some of them. If it has a priority with another rule, or of an input that was not sketched. If it lists all pairs
/// and sketches have no band hashes; and as [`Settings::check`](simflip_core::settings::Settings::check).
pub fn check_keep(folder: &Folder, grouping: &Grouping) -> Result<()> {
    grouping.settings(&folder.settings).check()?;
    if grouping.all_pairs && folder.settings.sketches.keyed().is_none() {
        return Err(Error::parameter(
            "all-pairs",
            "true",
            "sketches of simflip sketch --method both or minhash",
        ));
    }
    let refuse = |expected: String| Err(Error::parameter("keep", &grouping.keep, expected));
    match &grouping.keep {
        Keep::InputOrder if grouping.priority.is_empty() => {
            refuse("--priority with it: sketches have no order of inputs".to_owned())
        }
        keep if *keep != Keep::InputOrder && !grouping.priority.is_empty() => {
            refuse("input-order, where --priority says which inputs come first".to_owned())
        }
        Keep::Score(field) => {
            let new = &folder.files[..folder.new_files];
            match new.iter().find(|file| file.header.reading.fields.score.as_ref() != Some(field)) {
                None => Ok(()),
                Some(file) => refuse(format!(
                    "a field that was read: {} has no scores of it; simflip sketch --score {field} reads them",
                    file.path().display()
                )),
            }
        }
        Keep::InputOrder => {
            let is_of = |first: &String| {
                folder.inputs.iter().any(|input| Path::new(&input.mark.path).starts_with(first))
            };
            match grouping.priority.iter().find(|first| !is_of(first)) {
                None => Ok(()),
                Some(none) => {
                    Err(Error::parameter("priority", none, "an input file or folder that was sketched"))
                }
            }
        }
        Keep::First | Keep::Fullest | Keep::Longest | Keep::ShortestUrl => Ok(()),
    }
}

/// A warning of new documents without a score, where a score decides which document is kept; `None` if there are none.
///
/// # Errors
/// If no document has a score, or a file cannot be read.
pub fn unscored(folder: &Folder, keep: &Keep) -> Result<Option<String>> {
    if keep.score_field().is_none() {
        return Ok(None);
    }
    let ([mut none, mut scored], mut scores) = ([0; 2], Vec::new());
    for (at, file) in folder.files.iter().enumerate() {
        let is_new = at < folder.new_files;
        if file.header.reading.fields.score.as_deref() != keep.score_field() {
            none += if is_new { file.header.documents } else { 0 };
            continue;
        }
        folder.scan_of(folder.starts[at]..folder.starts[at + 1], |columns, _, from, count| {
            columns.read(Column::Scores, from, count, &mut scores)?;
            let is_none = |score: &&[u8; 8]| f64::from_le_bytes(**score).is_infinite();
            let without = scores.as_chunks().0.iter().filter(is_none).count() as u64;
            scored += count as u64 - without;
            none += if is_new { without } else { 0 };
            Ok(())
        })?;
    }
    if scored == 0 { Err(no_score(keep)) } else { Ok(unscored_warning(keep, none)) }
}

/// Keep order: the rank of each document, and the document of each rank.
#[derive(Debug)]
pub enum Order {
    /// The `old` reference documents come first, and then the `new` ones, both in the order of their numbers.
    ByNumber { old: u32, new: u32 },
    /// The rank of each number, and the number of each rank.
    Ranked(Vec<Rank>, Vec<u32>),
}

impl Order {
    /// The keep order of a folder's documents. The part that memory does not hold is sorted in the folder `work`.
    pub fn of(
        folder: &Folder,
        grouping: &Grouping,
        files: &OfFiles,
        work: &Path,
        budget: &Budget,
    ) -> Result<Self> {
        if grouping.keep == Keep::First {
            let [old, new] =
                [folder.reference_documents(), folder.new_documents()].map(|number| number as u32);
            return Ok(Self::ByNumber { old, new });
        }
        let mut sorted = sorted(folder, &grouping.keep, files, work, budget)?;
        let documents = folder.documents() as usize;
        let (mut ranks, mut by_rank) = (vec![Rank::default(); documents], Vec::with_capacity(documents));
        while let Some(record) = sorted.next()? {
            let document = document_of(&record[record.len() - DOCUMENT..]);
            ranks[document as usize] = Rank::at(by_rank.len());
            by_rank.push(document as u32);
        }
        Ok(Self::Ranked(ranks, by_rank))
    }

    /// The rank of the document with a number.
    #[inline]
    pub fn rank(&self, document: u64) -> Rank {
        match self {
            Self::ByNumber { old, new } => match (document as u32).checked_sub(*new) {
                Some(rank) => Rank::new(rank),
                None => Rank::new(document as u32 + old),
            },
            Self::Ranked(ranks, _) => ranks[document as usize],
        }
    }

    /// The number of the document with a rank.
    #[inline]
    pub fn document(&self, rank: Rank) -> u64 {
        match self {
            Self::ByNumber { old, new } => match rank.number().checked_sub(*old) {
                Some(document) => u64::from(document),
                None => u64::from(rank.number() + new),
            },
            Self::Ranked(_, documents) => u64::from(documents[rank.index()]),
        }
    }
}

/// The source of each document, in order of their numbers: a number for its host, input file or folder, as `each` says.
/// A quota keeps some documents of each.
pub fn sources(folder: &Folder, each: SourceKind, files: &OfFiles) -> Result<Vec<u64>> {
    let mut sources = Vec::with_capacity(folder.documents() as usize);
    if each == SourceKind::Host {
        for file in &folder.files {
            for named in file.each_name()? {
                sources.push(number_of_host(named?.url.as_deref()));
            }
        }
        return Ok(sources);
    }
    for (at, input) in folder.inputs.iter().enumerate() {
        let number = match each {
            SourceKind::Folder => files.folders.get(at).copied().unwrap_or_default(),
            _ => at as u64,
        };
        sources.resize(input.documents.end as usize, number);
    }
    Ok(sources)
}

/// All documents in order, each as bytes that end with its number.
fn sorted(folder: &Folder, keep: &Keep, files: &OfFiles, work: &Path, budget: &Budget) -> Result<Merge> {
    let mut keyed = Sorter::new(budget.bytes / 4, work, "keys");
    let needs_names = !matches!(keep, Keep::First | Keep::InputOrder);
    let (mut digests, mut lengths, mut features) = (vec![], vec![], vec![]);
    let (mut scores, mut record) = (vec![], vec![]);
    for (at, file) in folder.files.iter().enumerate() {
        // What was corrupted since the join must not decide who stays.
        file.check()?;
        let mut names = if needs_names { Some(file.each_name()?) } else { None };
        let is_new = at < folder.new_files;
        folder.scan_of(folder.starts[at]..folder.starts[at + 1], |columns, first, from, count| {
            columns.read(Column::Digests, from, count, &mut digests)?;
            columns.read(Column::Lengths, from, count, &mut lengths)?;
            columns.read(Column::Features, from, count, &mut features)?;
            scores.clear();
            if keep.score_field().is_some()
                && file.header.reading.fields.score.as_deref() == keep.score_field()
            {
                columns.read(Column::Scores, from, count, &mut scores)?;
            }
            for (place, (length, features)) in words(&lengths).zip(words(&features)).enumerate() {
                let document = first + place as u64;
                let named = names.as_mut().and_then(Iterator::next).transpose()?;
                let url = named.as_ref().and_then(|named| named.url.as_deref());
                record.clear();
                record.push(u8::from(is_new));
                match keep {
                    Keep::First => {}
                    Keep::InputOrder => {
                        let at = folder.input_of(document);
                        put_score(files.scores.get(at).copied(), &mut record);
                    }
                    Keep::Score(_) => put_score(score_at(&scores, place), &mut record),
                    Keep::Fullest => {
                        record.extend([features, length].map(|most| (!most).to_be_bytes()).concat());
                    }
                    Keep::Longest => record.extend_from_slice(&(!length).to_be_bytes()),
                    Keep::ShortestUrl => {
                        let url = url.filter(|url| !url.is_empty());
                        record.extend(url.map_or(u64::MAX, |url| url.len() as u64).to_be_bytes());
                        put_text(url, &mut record);
                    }
                }
                if !matches!(keep, Keep::First | Keep::InputOrder) {
                    record.extend(digests[16 * place..][..16].iter().rev());
                    put_text(url, &mut record);
                }
                record.extend_from_slice(&document_bytes(document));
                keyed.push(&record)?;
            }
            Ok(())
        })?;
    }
    keyed.finish()
}

/// Bytes that ascend as numbers fall; those that are none come last.
fn put_score(score: Option<f64>, record: &mut Vec<u8>) {
    // This makes 0 of -0, as the two are equal.
    let score = score.filter(|score| !score.is_nan()).unwrap_or(f64::NEG_INFINITY) + 0.0;
    let bits = score.to_bits();
    let ascending = if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 };
    record.extend_from_slice(&(!ascending).to_be_bytes());
}

/// Bytes in the order of texts, of which none begins another; no text comes before all.
fn put_text(text: Option<&str>, record: &mut Vec<u8>) {
    let Some(text) = text else { return record.push(0) };
    record.push(1);
    for &byte in text.as_bytes() {
        record.push(byte);
        if byte == 0 {
            record.push(1);
        }
    }
    record.extend_from_slice(&[0, 0]);
}

fn score_at(scores: &[u8], place: usize) -> Option<f64> {
    scores.as_chunks::<8>().0.get(place).map(|&score| f64::from_le_bytes(score))
}
