//! Sources of documents: input files, their folders, hosts, and values of the field that groups documents, if
//! boilerplate is counted by such a field. Here are the scores and source numbers by which a run decides which
//! documents of a cluster are kept, and the documents that each source loses. A source *loses* those of its documents
//! that are removed.

use super::Job;
use super::documents::ReadDocuments;
use crate::atomic_write::is_address;
use crate::boilerplate::{folder_name, host_of};
use crate::corpus::Input;
use crate::display::counted;
use crate::error::{Error, Result};
use crate::hash::feature;
use crate::report::model::{SourceRow, Sources};
use hashbrown::HashMap;
use simflip_core::clusters::{Keep, Source};
use simflip_core::id::{Document, Id};
use simflip_core::settings::Settings;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::hash::Hash;
use std::path::{Path, PathBuf};

/// The scores by which a run in memory decides which document of a cluster is kept: the one with the highest. `--keep`
/// asks for scores of a field, or for those of files by the order of inputs.
pub struct Scores<'a> {
    /// Empty where scores do not decide.
    scores: Cow<'a, [f64]>,
    /// True if there is one for each file, and not one for each document.
    of_files: bool,
}

impl<'a> Scores<'a> {
    /// The scores that the job's `--keep` asks for.
    ///
    /// # Errors
    /// If a field of scores is named and no document has a number there.
    pub fn new(job: &Job, read: &'a ReadDocuments) -> Result<Self> {
        let keep = &job.settings.keep;
        let scores = match keep {
            Keep::Score(_) => Cow::Borrowed(read.scores.as_deref().unwrap_or_default()),
            Keep::InputOrder => Cow::Owned(scores_of_files(&job.inputs, &read.inputs)),
            _ => Cow::Borrowed(&[][..]),
        };
        if keep.score_field().is_some() && scores.iter().all(|score| score.is_infinite()) {
            return Err(no_score(keep));
        }
        Ok(Self { scores, of_files: *keep == Keep::InputOrder })
    }

    /// The score of a document; negative infinity if it has no number, none where scores do not decide.
    pub fn of(&self, read: &ReadDocuments, document: Document) -> Option<f64> {
        let at = if self.of_files { read.shard_of(document) } else { document.index() };
        self.scores.get(at).copied()
    }

    /// A warning of new documents, the first `new_documents`, that have no number in the field of scores; none without.
    pub fn warning(&self, keep: &Keep, new_documents: usize) -> Option<String> {
        let none = self.scores.iter().take(new_documents).filter(|score| score.is_infinite()).count();
        unscored_warning(keep, none as u64).filter(|_| !self.of_files)
    }
}

/// The error of a run in which no document has a number in the field of scores that `keep` names.
pub(crate) fn no_score(keep: &Keep) -> Error {
    Error::parameter("keep", keep, "a field or column in which some document has a number; none has")
}

/// A warning of so many new documents without a number in the field of scores; none if `documents` is 0.
pub(crate) fn unscored_warning(keep: &Keep, documents: u64) -> Option<String> {
    (documents > 0).then(|| {
        let documents = counted(documents, "document has", "documents have");
        format!(
            "{documents} no number in {:?}, and so the lowest score.",
            keep.score_field().unwrap_or_default()
        )
    })
}

/// The score of each of `files` by the place in `named` of the input path that it comes from: the first is the highest.
pub(crate) fn scores_of_files<'i>(named: &[PathBuf], files: impl IntoIterator<Item = &'i Input>) -> Vec<f64> {
    let real = |path: &PathBuf| match is_address(path) {
        true => Some(path.clone()),
        false => fs::canonicalize(path).ok(),
    };
    let named: Vec<_> = named.iter().map(|path| (path, real(path))).collect();
    let place = |input: &Input| {
        named.iter().position(|(path, real)| {
            **path == input.path || real.as_ref().is_some_and(|real| input.stored().starts_with(real))
        })
    };
    // Every new file comes from a path that was named; among reference files the order is theirs.
    files.into_iter().map(|input| score_of_place(place(input))).collect()
}

/// The score of a file that comes from the input path at this place: the earlier, the higher. It is negative infinity
/// for a file that comes from none.
pub(crate) fn score_of_place(place: Option<usize>) -> f64 {
    place.map_or(f64::NEG_INFINITY, |place| -(place as f64))
}

/// The number of each document's source, for a run that keeps some documents of each source in a cluster
/// ([`Quota::each`](simflip_core::clusters::Quota::each)). Documents of one source have one number.
pub struct SourceNumbers<'a> {
    read: &'a ReadDocuments,
    each: Option<Source>,
    /// The number of each file's folder, if sources are folders.
    folders: Vec<u64>,
}

impl<'a> SourceNumbers<'a> {
    /// The sources of the kind that the settings' quota names.
    pub fn new(settings: &Settings, read: &'a ReadDocuments) -> Self {
        let each = settings.quota.each;
        let folders = match each {
            Some(Source::Folder) => folder_numbers(read.inputs.iter().map(|input| &*input.path)),
            _ => Vec::new(),
        };
        Self { read, each, folders }
    }

    /// The number of a document's source; 0 for all documents if the quota names no kind.
    pub fn of(&self, document: Document) -> u64 {
        match self.each {
            None => 0,
            Some(Source::File) => self.read.shard_of(document) as u64,
            Some(Source::Folder) => self.folders[self.read.shard_of(document)],
            Some(Source::Host) => number_of_host(self.read.url(document)),
        }
    }
}

/// The number of the folder that each of these files is in: folders are numbered from 0 as they first come up.
pub(crate) fn folder_numbers<'p>(paths: impl Iterator<Item = &'p Path>) -> Vec<u64> {
    let mut numbers: HashMap<String, u64> = HashMap::new();
    let number = |path| {
        let next = numbers.len() as u64;
        *numbers.entry(folder_name(path)).or_insert(next)
    };
    paths.map(number).collect()
}

/// A number for the host of a URL, a hash of its name; 0 for a document without a URL or a host.
pub(crate) fn number_of_host(url: Option<&str>) -> u64 {
    url.and_then(host_of).map_or(0, |host| feature(host.as_bytes()))
}

/// The documents that each host loses, and those that each value of the field that groups documents loses. A kind is
/// left out if no document has such a source. `is_kept` is true of each new document that is kept.
pub fn lost_by_origin(read: &ReadDocuments, is_kept: &[bool]) -> Vec<Sources> {
    let new = || Document::all(is_kept.len()).zip(is_kept.iter().copied());
    let hosts = lost_by_host(new().map(|(document, is_kept)| (read.url(document), is_kept)));
    let by = read.left_out.as_ref().map(|left_out| left_out.by.to_string());
    let values = by.zip(read.values.as_ref()).and_then(|(by, values)| {
        lost_by(
            &by,
            new().filter_map(|(document, is_kept)| Some((&**values[document.index()].as_ref()?, is_kept))),
        )
    });
    hosts.into_iter().chain(values).collect()
}

/// The documents that each host loses, by the URL of each new document and whether it is kept; none without a host.
pub(super) fn lost_by_host<'u>(documents: impl Iterator<Item = (Option<&'u str>, bool)>) -> Option<Sources> {
    lost_by("host", documents.filter_map(|(url, is_kept)| Some((host_of(url?)?, is_kept))))
}

/// The documents that each source of a kind loses, by each document's source and whether it is kept. None without a
/// document.
fn lost_by<S: Eq + Hash + Into<String>>(
    kind: &str,
    documents: impl Iterator<Item = (S, bool)>,
) -> Option<Sources> {
    let mut sources: HashMap<S, SourceRow> = HashMap::new();
    documents.for_each(|(source, is_kept)| sources.entry(source).or_default().count(is_kept));
    let rows: Vec<_> =
        sources.into_iter().map(|(source, row)| SourceRow { source: source.into(), ..row }).collect();
    (!rows.is_empty()).then(|| Sources::new(kind, rows))
}

/// The documents that each folder and each file loses, folders first. Of each file there is its path, its number of
/// documents, and its number of kept documents; files without documents are left out.
pub(crate) fn lost_by_file<'p>(files: impl Iterator<Item = (&'p Path, u64, u64)>) -> [Sources; 2] {
    let (mut folders, mut all): (BTreeMap<String, SourceRow>, _) = (BTreeMap::new(), Sources::of("file"));
    for (path, documents, kept) in files.filter(|&(_, documents, _)| documents > 0) {
        let folder = folders.entry(folder_name(path)).or_default();
        folder.documents += documents;
        folder.kept += kept;
        all.add(SourceRow { source: path.display().to_string(), documents, kept });
    }
    let mut of_folders = Sources::of("folder");
    folders.into_iter().for_each(|(source, row)| of_folders.add(SourceRow { source, ..row }));
    [of_folders.settled(), all.settled()]
}
