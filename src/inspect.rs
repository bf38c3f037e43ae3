//! Shows and checks whatever this program wrote: result folders, their tables and kept pages, binary files.

use crate::corpus::{self, DiscoverOptions, ReadOptions};
use crate::error::{Error, Result};
use crate::format;
use crate::report::csv::PairsCsv;
use crate::report::model::{CompareReport, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// What a file or folder is, and whether it is in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// What it is, in words.
    pub what: String,
    /// Facts as name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
    /// What is wrong with it; empty if it is in order.
    pub problems: Vec<String>,
}

impl Inspection {
    fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    fn fact(&mut self, name: impl Into<String>, value: impl ToString) {
        self.facts.push((name.into(), value.to_string()));
    }

    /// Notes a problem unless two counts are the same.
    fn same(&mut self, what: &str, expected: u64, got: u64) {
        if expected != got {
            self.problems.push(format!("{what}: {got}, but the report says {expected}"));
        }
    }
}

/// Looks at a file or a folder of results.
///
/// # Errors
/// If it cannot be read, or is nothing that this program writes. A file of ours that is damaged is an error where nothing of it
/// can be trusted, and otherwise a problem of the [`Inspection`].
pub fn inspect(path: &Path) -> Result<Inspection> {
    if path.is_dir() {
        return inspect_folder(path);
    }
    let mut head = [0; 8];
    let got = File::open(path).and_then(|mut file| file.read(&mut head)).map_err(|e| Error::io(path, e))?;
    if head[..got].starts_with(b"flipside") {
        return inspect_binary(path);
    }
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "report.json" => inspect_report(path),
        "pairs.csv" => inspect_pairs(path).map(|(inspection, _)| inspection),
        "clusters.csv" => inspect_clusters(path).map(|(inspection, _)| inspection),
        _ => inspect_pages(path).map(|(inspection, _)| inspection),
    }
}

fn inspect_binary(path: &Path) -> Result<Inspection> {
    let (envelope, body) = format::read_any(path)?;
    let mut inspection = Inspection::of(envelope.kind.name);
    inspection.fact("version", envelope.version);
    if let serde_json::Value::Object(header) = envelope.header {
        for (name, value) in header {
            inspection.fact(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    inspection.fact("body bytes", body.len());
    inspection.fact("checksum", "right");
    Ok(inspection)
}

/// Whether a report compares methods; such a one has a list of them.
fn compares(path: &Path) -> Result<bool> {
    let text = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    Ok(serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| value.get("methods").is_some()))
}

fn inspect_report(path: &Path) -> Result<Inspection> {
    if compares(path)? {
        let report = CompareReport::read_json(path)?;
        let mut inspection = Inspection::of("report of a comparison");
        inspection.fact("written by", format!("{} {}", report.tool.name, report.tool.version));
        inspection.fact("created", &report.created);
        inspection.fact("command", report.command_line.join(" "));
        inspection.fact("documents", report.corpus.documents);
        for method in &report.methods {
            inspection.fact(format!("pairs by {}", method.label), method.pairs);
        }
        return Ok(inspection);
    }
    let report = Report::read_json(path)?;
    let mut inspection = Inspection::of("report of a deduplication");
    inspection.fact("written by", format!("{} {}", report.tool.name, report.tool.version));
    inspection.fact("created", &report.created);
    inspection.fact("command", report.command_line.join(" "));
    inspection.fact("method", &report.method.name);
    inspection.fact("feature hash", &report.method.hash);
    inspection.fact("seed", report.method.seed);
    for parameter in &report.method.parameters {
        inspection.fact(&parameter.name, &parameter.value);
    }
    let outcome = &report.outcome;
    inspection.fact("documents", report.corpus.documents);
    inspection.fact("kept", outcome.kept);
    inspection.fact("exact duplicates", outcome.exact_duplicates);
    inspection.fact("near-duplicates", outcome.near_duplicates);
    inspection.fact("clusters", outcome.clusters);
    inspection.fact("damaged input", report.damage.total);
    inspection.same("kept and removed documents", report.corpus.documents, outcome.kept + outcome.removed);
    Ok(inspection)
}

fn inspect_folder(folder: &Path) -> Result<Inspection> {
    let path = folder.join("report.json");
    let mut inspection = inspect_report(&path)?;
    if compares(&path)? {
        return Ok(inspection);
    }
    let outcome = Report::read_json(&path)?.outcome;
    inspection.what = "folder of results".to_owned();
    let (pairs, rows) = inspect_pairs(&folder.join("pairs.csv"))?;
    inspection.problems.extend(pairs.problems);
    inspection.same("rows of pairs.csv", outcome.pairs_written, rows);
    let (clusters, (rows, count)) = inspect_clusters(&folder.join("clusters.csv"))?;
    inspection.problems.extend(clusters.problems);
    inspection.same("rows of clusters.csv", outcome.documents_in_clusters, rows);
    inspection.same("clusters of clusters.csv", outcome.clusters, count);
    let mut kept = 0;
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let names = entries.map_err(|e| Error::io(folder, e))?.into_iter().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| corpus::is_kept_file(name));
    names.sort();
    for name in names {
        let (pages, documents) = inspect_pages(&folder.join(&name))?;
        inspection.problems.extend(pages.problems);
        inspection.fact(name, format!("{documents} documents"));
        kept += documents;
    }
    inspection.same("documents in the files of kept pages", outcome.kept, kept);
    Ok(inspection)
}

/// A reader of one of our tables, whose first columns are known.
fn open_table(path: &Path, columns: &[&str]) -> Result<csv::Reader<File>> {
    let csv_error = |e: csv::Error| Error::io(path, e.into());
    let mut reader = csv::Reader::from_path(path).map_err(csv_error)?;
    let header: Vec<&str> = reader.headers().map_err(csv_error)?.iter().collect();
    if !header.starts_with(columns) {
        return Err(Error::Format {
            path: path.to_path_buf(),
            field: "the first line",
            expected: columns.join(","),
            got: header.join(","),
            advice: "name a table that flipside wrote",
        });
    }
    Ok(reader)
}

fn inspect_pairs(path: &Path) -> Result<(Inspection, u64)> {
    let mut inspection = Inspection::of("table of pairs");
    let mut reader = open_table(path, &PairsCsv::COLUMNS[..6])?;
    let measure =
        reader.headers().map_err(|e| Error::io(path, e.into()))?.iter().position(|name| name == "measure");
    let mut measures: BTreeMap<String, u64> = BTreeMap::new();
    let (mut rows, mut least) = (0, f64::INFINITY);
    for (row, record) in reader.records().enumerate() {
        let record = record.map_err(|e| Error::io(path, e.into()))?;
        rows += 1;
        if let Some(name) = measure.and_then(|at| record.get(at)) {
            match measures.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    measures.insert(name.to_owned(), 1);
                }
            }
        }
        match record.get(5).and_then(|similarity| similarity.parse::<f64>().ok()) {
            Some(similarity) if (0.0..=1.0).contains(&similarity) => least = least.min(similarity),
            _ => inspection.problems.push(format!("{}: row {row}: no similarity", path.display())),
        }
        if record.get(0) == record.get(1) {
            inspection.problems.push(format!("{}: row {row}: a document paired with itself", path.display()));
        }
    }
    inspection.fact("pairs", rows);
    if rows > 0 {
        inspection.fact("least similarity", least);
    }
    for (name, pairs) in measures {
        inspection.fact(format!("pairs by similarity {name}"), pairs);
    }
    Ok((inspection, rows))
}

fn inspect_clusters(path: &Path) -> Result<(Inspection, (u64, u64))> {
    let mut inspection = Inspection::of("table of clusters");
    let mut reader = open_table(path, &["id", "url", "cluster", "size", "kept"])?;
    // For each cluster: the size that it says, its rows, its kept documents.
    let mut clusters: BTreeMap<String, (String, u64, u64)> = BTreeMap::new();
    let mut rows = 0;
    for record in reader.records() {
        let record = record.map_err(|e| Error::io(path, e.into()))?;
        let field = |at| record.get(at).unwrap_or_default();
        let entry = clusters.entry(field(2).to_owned()).or_insert_with(|| (field(3).to_owned(), 0, 0));
        entry.1 += 1;
        entry.2 += u64::from(field(4) == "true");
        rows += 1;
    }
    for (cluster, (size, members, kept)) in &clusters {
        if size.parse() != Ok(*members) || *kept != 1 {
            let problem = format!(
                "{}: cluster {cluster} says {size} documents, has {members}, and keeps {kept}",
                path.display()
            );
            inspection.problems.push(problem);
        }
    }
    inspection.fact("clusters", clusters.len());
    inspection.fact("documents", rows);
    Ok((inspection, (rows, clusters.len() as u64)))
}

fn inspect_pages(path: &Path) -> Result<(Inspection, u64)> {
    let inputs = corpus::discover(&[path.to_path_buf()], &DiscoverOptions::default())?;
    let reading = corpus::read(&inputs, &ReadOptions::default(), || (), |(), _| (), &|_| ());
    let mut inspection = Inspection::of("file of pages");
    let mut documents = 0;
    for file in reading.files {
        documents += file.documents;
        inspection.fact("records", file.records);
        inspection.fact("documents", file.documents);
        inspection.fact("text bytes", file.text_bytes);
        inspection.problems.extend(file.damage.iter().map(ToString::to_string));
    }
    Ok((inspection, documents))
}
