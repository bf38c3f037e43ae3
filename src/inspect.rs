//! Shows and checks whatever this program wrote: result folders, their tables, pages and kept documents, binary
//! files. Every format has its check beside its writer; this module finds out which of them a file needs.
//!
//! What a check can know differs: binary files and the pairs of a review carry checksums, kept documents those of
//! gzip. What a folder of results holds is counted against its report, and its page is made again from it.
//! A table by itself can be cut after any line unseen, which is said.

pub use crate::inspection::Inspection;

use crate::atomic_write::folder_of;
use crate::clusters::Linkage;
use crate::corpus::{self, DiscoverOptions, JsonlFields, ReadOptions};
use crate::display::counted;
use crate::error::{Error, Result};
use crate::evaluate::judged;
use crate::inspection::{OF_TABLES, nothing_of_ours};
use crate::report::check::{AnyReport, check as check_report};
use crate::report::html::check::check as check_page;
use crate::seen::answers;
use crate::tables::check::{Together, clusters, documents, pairs};
use crate::tables::{
    ClusterRow, DOCUMENTS, DOCUMENTS_JSONL, DOCUMENTS_PARQUET, DocumentRow, PairRow, REMOVED, TableRow,
};
use crate::{boilerplate, format, frequencies, seen, staged};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Checks a file or folder that this program wrote, of any kind.
///
/// # Errors
/// If it cannot be read, or is nothing that this program writes. A file of ours that is corrupt is an error
/// where nothing of it can be trusted, and otherwise a problem of the [`Inspection`].
pub fn inspect(path: &Path) -> Result<Inspection> {
    if seen::is_index(path) {
        return seen::check(path);
    }
    if path.is_dir() {
        return check_folder(path);
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head));
    read.map_err(|e| Error::io(path, e))?;
    if format::is_of_kind(path, format::SEEN_LOG) {
        // A file of an index says little by itself; one that was exported stands for itself.
        return match seen::is_index(folder_of(path)) {
            true => seen::check(folder_of(path)),
            false => seen::check_export(path),
        };
    }
    if head.starts_with(b"simflip\0") {
        return check_binary(path);
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    let has = |columns: &[&str]| line.split(',').take(columns.len()).eq(columns.iter().copied());
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        _ if has(&judged::COLUMNS) => judged::check(path),
        _ if has(&answers::COLUMNS[..answers::LEAST]) => answers::check(path),
        _ if line.starts_with("{\"page\":") && line.contains("\"answer\":") => answers::check_lines(path),
        _ if head.to_ascii_lowercase().starts_with("<!doctype html>") => check_page(path),
        "report.json" => check_report(path).map(|(inspection, _)| inspection),
        _ if head.starts_with("{\n  \"tool\": {") => check_report(path).map(|(inspection, _)| inspection),
        "pairs.csv" => pairs(path, None).map(|(inspection, _)| inspection),
        _ if has(&PairRow::COLUMNS[..6]) => pairs(path, None).map(|(inspection, _)| inspection),
        "clusters.csv" => clusters(path, None).map(|(inspection, _)| inspection),
        _ if has(&ClusterRow::COLUMNS[..5]) => clusters(path, None).map(|(inspection, _)| inspection),
        DOCUMENTS_JSONL | DOCUMENTS_PARQUET => check_documents(path).map(|(inspection, _)| inspection),
        DOCUMENTS | REMOVED => documents(path).map(|(inspection, _)| inspection),
        _ if has(DocumentRow::COLUMNS) => documents(path).map(|(inspection, _)| inspection),
        _ if corpus::is_other_table(path) => {
            Err(nothing_of_ours(path, "a table of something else".to_owned()))
        }
        _ => check_kept(path, None).map(|(inspection, _)| inspection).map_err(|error| match error {
            Error::NoDocuments(_) => nothing_of_ours(path, "unknown".to_owned()),
            error => error,
        }),
    }
}

fn check_binary(path: &Path) -> Result<Inspection> {
    let kind = format::KINDS.into_iter().find(|&kind| format::is_of_kind(path, kind));
    if let Some(inspection) = kind.and_then(|kind| staged::check(kind, path)) {
        let mut inspection = inspection?;
        inspection.fact("checksum", "right");
        return Ok(inspection);
    }
    let (kind, header, body) = format::read_any(path)?;
    let mut inspection = Inspection::of(kind.name);
    inspection.fact("version", kind.version);
    // The bytes are as they were written; whether they can be used is another question.
    let content = match kind {
        format::BOILERPLATE => boilerplate::check(path, header),
        _ => frequencies::check(path, header),
    };
    inspection.facts.extend(content.facts);
    inspection.problems.extend(content.problems);
    inspection.fact("body bytes", body.len());
    inspection.fact("checksum", "right");
    Ok(inspection)
}

/// Checks all binary files of ours in a folder and in its folders, as stages write them. `None` if there are none.
fn check_stages(folder: &Path) -> Result<Option<Inspection>> {
    let of = |folder: &Path| -> Result<Vec<PathBuf>> {
        let io = |error| Error::io(folder, error);
        fs::read_dir(folder).map_err(io)?.map(|entry| Ok(entry.map_err(io)?.path())).collect()
    };
    let mut files = of(folder)?;
    for inner in files.clone().into_iter().filter(|path| path.is_dir()) {
        files.extend(of(&inner)?);
    }
    files.retain(|path| {
        path.is_file() && format::KINDS.into_iter().any(|kind| format::is_of_kind(path, kind))
    });
    files.sort();
    let (mut kinds, mut inspection) =
        (BTreeMap::<String, u64>::new(), Inspection::of("folder of files of simflip"));
    for file in &files {
        let mut of_file = check_binary(file)?;
        of_file.problems.iter_mut().for_each(|problem| *problem = format!("{}: {problem}", file.display()));
        *kinds.entry(of_file.what.clone()).or_default() += 1;
        inspection.problems_of(of_file);
    }
    kinds.into_iter().for_each(|(what, number)| inspection.fact(what, counted(number, "file", "files")));
    Ok((!files.is_empty()).then_some(inspection))
}

fn check_folder(folder: &Path) -> Result<Inspection> {
    let path = folder.join("report.json");
    if !path.exists() {
        if let Some(inspection) = check_stages(folder)? {
            return Ok(inspection);
        }
        return Err(Error::Format {
            path: folder.to_path_buf(),
            field: "report.json",
            expected: "one".to_owned(),
            got: "missing".to_owned(),
            advice: "name a folder that simflip dedup, decontaminate, compare, sketch or apply wrote, or a file of another",
        });
    }
    let (mut inspection, report) = check_report(&path)?;
    for page in ["report.html", "review.html"].map(|name| folder.join(name)) {
        if page.exists() {
            inspection.problems_of(check_page(&page)?);
        }
    }
    let report = match report {
        AnyReport::Comparison(_) => return Ok(inspection),
        AnyReport::Decontamination(report) => {
            inspection.what = "folder of a decontamination".to_owned();
            let items =
                report.benchmarks.iter().map(|benchmark| benchmark.items).fold(0, u64::saturating_add);
            for (name, expected) in [("matches.csv", report.matches), ("items.csv", items)] {
                inspection.same(&format!("rows of {name}"), expected, rows_of(&folder.join(name))?);
            }
            return Ok(inspection);
        }
        AnyReport::Deduplication(report) => report,
    };
    let outcome = &report.outcome;
    inspection.what = "folder of results".to_owned();
    if report.wrote("pairs.csv") {
        let quota = report.settings.as_ref().map(|settings| settings.quota).unwrap_or_default();
        let (table, counts) = clusters(&folder.join("clusters.csv"), Some(quota))?;
        inspection.problems_of(table);
        inspection.same("rows of clusters.csv", outcome.documents_in_clusters, counts.documents);
        inspection.same("clusters of clusters.csv", outcome.clusters, counts.clusters);
        let settings = report.searched().map(|(settings, _)| settings);
        let together = Together {
            cluster_of: counts.cluster_of,
            connected: settings.is_some_and(|settings| settings.linkage == Linkage::Connected),
            passing: settings.and_then(|settings| settings.verification.threshold()),
        };
        let (table, rows) = pairs(&folder.join("pairs.csv"), Some(&together))?;
        inspection.problems_of(table);
        inspection.same("rows of pairs.csv", outcome.pairs_written, rows);
    }
    for (name, expected) in
        [(DOCUMENTS, [outcome.kept + outcome.removed, outcome.kept]), (REMOVED, [outcome.removed, 0])]
    {
        if report.wrote(name) {
            let (table, counts) = documents(&folder.join(name))?;
            inspection.problems_of(table);
            inspection.same(&format!("rows of {name}"), expected[0], counts[0]);
            inspection.same(&format!("kept documents of {name}"), expected[1], counts[1]);
        }
    }
    for name in [DOCUMENTS_JSONL, DOCUMENTS_PARQUET].into_iter().filter(|name| report.wrote(name)) {
        let (table, counts) = check_documents(&folder.join(name))?;
        inspection.problems_of(table);
        inspection.same(&format!("rows of {name}"), outcome.kept + outcome.removed, counts[0]);
        inspection.same(&format!("kept documents of {name}"), outcome.kept, counts[1]);
    }
    for file in &report.written {
        let found = fs::metadata(folder.join(&file.name)).map_or(0, |found| found.len());
        inspection.same(&format!("bytes of {}", file.name), file.bytes, found);
    }
    let mut kept = 0;
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let names = entries.map_err(|e| Error::io(folder, e))?.into_iter().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| corpus::is_kept_name(name));
    names.sort();
    for name in names {
        let (found, number) = check_kept(&folder.join(&name), report.corpus.text_field.as_deref())?;
        inspection.problems_of(found);
        inspection.fact(name, format!("{number} documents"));
        kept += number;
    }
    // A run that was asked for other tables has no such files.
    if report.written.iter().any(|file| corpus::is_kept_name(&file.name)) {
        inspection.same("documents in the files of kept documents", outcome.kept, kept);
    }
    Ok(inspection)
}

/// Counts the rows of a table.
fn rows_of(path: &Path) -> Result<u64> {
    let refused = |error: csv::Error| Error::io(path, io::Error::other(error));
    let mut rows = 0;
    for row in csv::Reader::from_path(path).map_err(refused)?.records() {
        row.map_err(refused)?;
        rows += 1;
    }
    Ok(rows)
}

/// Checks a table of documents that is JSONL or Parquet, and counts its rows and the kept documents among them.
fn check_documents(path: &Path) -> Result<(Inspection, [u64; 2])> {
    let columns = JsonlFields { text: "representative".to_owned(), ..JsonlFields::default() };
    let options = DiscoverOptions { fields: columns.clone(), ..DiscoverOptions::default() };
    let inputs = corpus::discover(&[path.to_path_buf()], &options)?;
    let options = ReadOptions { fields: columns, ..ReadOptions::default() };
    let count = |[rows, kept]: &mut [u64; 2], document: corpus::Document<'_>| {
        *rows += 1;
        *kept += u64::from(document.record_id == Some(document.text));
    };
    let reading = corpus::read(&inputs, &options, || [0; 2], count, &|_| ());
    let [rows, kept] = reading.workers.iter().fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
    let mut inspection = Inspection::of("table of documents");
    let corruption = reading.files.iter().flat_map(|file| &file.corruption);
    corruption.for_each(|corruption| inspection.problem(corruption.to_string()));
    inspection.fact("documents", rows);
    inspection.fact("of these kept", kept);
    inspection.fact(OF_TABLES.0, OF_TABLES.1);
    Ok((inspection, [rows, kept]))
}

/// Checks a file of documents, and counts them. `text_field` is the field of their texts, if it is not the usual one.
fn check_kept(path: &Path, text_field: Option<&str>) -> Result<(Inspection, u64)> {
    let inputs = corpus::discover(&[path.to_path_buf()], &DiscoverOptions::default())?;
    let mut options = ReadOptions::default();
    if let Some(field) = text_field {
        options.fields.text = field.to_owned();
    }
    let reading = corpus::read(&inputs, &options, || (), |(), _| (), &|_| ());
    let mut inspection = Inspection::of("file of documents");
    let mut documents = 0;
    for file in reading.files {
        documents += file.documents;
        inspection.fact("records", file.records);
        inspection.fact("documents", file.documents);
        inspection.fact("text bytes", file.text_bytes);
        file.corruption.iter().for_each(|corruption| inspection.problem(corruption.to_string()));
    }
    inspection.fact(
        "not known",
        "whether documents are missing at the end: inspect the folder of results for that",
    );
    Ok((inspection, documents))
}
