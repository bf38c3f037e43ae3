//! Where pages come from: which source's copy stays, and what each source loses.

use super::Job;
use super::pages::Pages;
use crate::error::{Error, Result};
use crate::frames::host_of;
use crate::making::is_address;
use crate::report::model::{SourceRow, Sources};
use crate::wording::counted;
use flipside_core::clusters::Keep;
use flipside_core::id::{Document, Id};
use hashbrown::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// By what it is decided which copy stays, where a page alone does not say it.
pub enum Scores<'a> {
    /// By nothing of the kind.
    None,
    /// The scores of pages.
    OfPages(&'a [f64]),
    /// The scores of files: of those named first the highest.
    OfFiles(Vec<f64>),
}

impl<'a> Scores<'a> {
    /// What `--keep` asks for.
    ///
    /// # Errors
    /// If a field of scores is named and no page has a number there.
    pub fn new(job: &Job, pages: &'a Pages) -> Result<Self> {
        match &job.settings.keep {
            keep @ Keep::Score(_) => {
                let scores = pages.scores.as_deref().unwrap_or_default();
                if scores.iter().all(|score| score.is_infinite()) {
                    let expected = "a field or column in which some page has a number; none has";
                    return Err(Error::parameter("keep", keep, expected));
                }
                Ok(Self::OfPages(scores))
            }
            Keep::InputOrder => {
                let real = |path: &PathBuf| match is_address(path) {
                    true => Some(path.clone()),
                    false => fs::canonicalize(path).ok(),
                };
                let named: Vec<_> = job.inputs.iter().map(|path| (path, real(path))).collect();
                let place = |input: &crate::corpus::Input| {
                    named.iter().position(|(path, real)| {
                        **path == input.path
                            || real.as_ref().is_some_and(|real| input.stored().starts_with(real))
                    })
                };
                // Every new file comes from a path that was named; among old ones the order is theirs.
                let score = |input| place(input).map_or(f64::NEG_INFINITY, |place| -(place as f64));
                Ok(Self::OfFiles(pages.inputs.iter().map(score).collect()))
            }
            _ => Ok(Self::None),
        }
    }

    /// The score of a page.
    pub fn of(&self, pages: &Pages, document: Document) -> Option<f64> {
        match self {
            Self::None => None,
            Self::OfPages(scores) => scores.get(document.index()).copied(),
            Self::OfFiles(scores) => scores.get(pages.documents.row(document).id.shard as usize).copied(),
        }
    }

    /// What the user should know of pages without a score.
    pub fn warning(&self, keep: &Keep, new_pages: usize) -> Option<String> {
        let Self::OfPages(scores) = self else { return None };
        let none = scores.iter().take(new_pages).filter(|score| score.is_infinite()).count();
        (none > 0).then(|| {
            let pages = counted(none as u64, "page has", "pages have");
            format!(
                "{pages} no number in {:?}, and so the lowest score.",
                keep.score_field().unwrap_or_default()
            )
        })
    }
}

/// What each source loses. `stays` says of each new page whether it does.
pub fn lost_by_source(pages: &Pages, stays: &[bool]) -> Vec<Sources> {
    let of_file = |document: Document| pages.documents.row(document).id.shard;
    let mut files: HashMap<u32, SourceRow> = HashMap::new();
    let mut hosts: HashMap<String, SourceRow> = HashMap::new();
    for (document, &stays) in Document::all(stays.len()).zip(stays) {
        files.entry(of_file(document)).or_default().count(stays);
        if let Some(host) = pages.url(document).and_then(host_of) {
            hosts.entry(host).or_default().count(stays);
        }
    }
    let mut folders: HashMap<String, SourceRow> = HashMap::new();
    let mut of_files = Vec::new();
    for (shard, row) in files {
        let path = &pages.inputs[shard as usize].path;
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let folder = folders.entry(folder.display().to_string()).or_default();
        folder.pages += row.pages;
        folder.kept += row.kept;
        of_files.push(SourceRow { source: path.display().to_string(), ..row });
    }
    let named = |rows: HashMap<String, SourceRow>| -> Vec<SourceRow> {
        rows.into_iter().map(|(source, row)| SourceRow { source, ..row }).collect()
    };
    [("folder", named(folders)), ("file", of_files), ("host", named(hosts))]
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(kind, rows)| Sources::new(kind, rows))
        .collect()
}
