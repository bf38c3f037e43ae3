//! Near-duplicates of texts in memory, and of files.

use crate::errors::{of_arrow, of_library, of_refusal};
use crate::run::{Ticker, run, run_part};
use crate::table::{RowNumbers, Table};
use crate::texts::{Data, Items, Repaired, Texts, as_many};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Float32Array, StringArray, UInt32Array};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::json;
use simflip::cli::options::{OfTexts, Refused, as_keywords, now, of_files, of_rethreshold, of_texts};
use simflip::clusters::{Keep, Source};
use simflip::core::dedup::{Outcome, Pair, PairKind};
use simflip::core::id::{Cluster, Document, Id};
use simflip::pipeline::{Assignments, DocumentAssignment, Progress, TextCollector, TextJob};
use simflip::report::{Report, html, messages};
use simflip::settings::Settings;
use simflip::staged;
use simflip::tables::{ClustersReader, PairsReader};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// The row of the input of each document. Rows of reference documents come behind those of new ones.
#[derive(Default)]
pub struct Rows {
    /// Rows so far.
    pub number: u32,
    /// For each document its row; none as long as every row is a document.
    of: Option<Vec<u32>>,
}

impl Rows {
    /// Adds a row, which is a document or holds nothing.
    ///
    /// # Errors
    /// `ValueError` for a row without number.
    pub fn add(&mut self, is_document: bool) -> PyResult<()> {
        if !is_document {
            self.of.get_or_insert_with(|| (0..self.number).collect());
        } else if let Some(of) = &mut self.of {
            of.push(self.number);
        }
        let too_many = || of_library(simflip::Error::parameter("texts", 1u64 << 32, "less than 2³²"));
        self.number = self.number.checked_add(1).ok_or_else(too_many)?;
        Ok(())
    }

    /// Documents so far.
    pub fn documents(&self) -> usize {
        self.of.as_ref().map_or(self.number as usize, Vec::len)
    }

    /// The row of a document.
    pub fn row(&self, document: Document) -> u32 {
        self.of.as_ref().map_or(document.0, |rows| rows[document.index()])
    }
}

/// Name in the metadata of a table of pairs for what decided about them.
pub const VERIFIED_BY: &str = "simflip.verify";

/// Pairs as a table.
///
/// # Errors
/// None that a list of pairs could cause.
pub fn pairs_table(pairs: &[Pair], settings: &Settings, rows: &Rows) -> PyResult<Table> {
    let ends = |end: fn(&Pair) -> Document| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(pairs.iter().map(|pair| rows.row(end(pair)))))
    };
    let distances = UInt32Array::from_iter_values(pairs.iter().map(|pair| pair.distance));
    let similarities = Float32Array::from_iter_values(pairs.iter().map(|pair| pair.similarity));
    let kinds = StringArray::from_iter_values(pairs.iter().map(|pair| kind(pair.kind)));
    Table::of(vec![
        ("a", ends(|pair| pair.a), false),
        ("b", ends(|pair| pair.b), false),
        ("distance", Arc::new(distances), true),
        ("similarity", Arc::new(similarities), false),
        ("kind", Arc::new(kinds), false),
    ])?
    .saying(VERIFIED_BY, settings.verification.name().to_owned())
    .map_err(of_arrow)
}

/// The word for a kind of pair.
pub fn kind(kind: PairKind) -> &'static str {
    match kind {
        PairKind::Exact => "exact",
        PairKind::Near => "near",
    }
}

/// Members of clusters as a table: document, cluster, size, kept.
///
/// # Errors
/// None that clusters could cause.
pub fn clusters_table(members: &[(u32, u32, u32, bool)]) -> PyResult<Table> {
    let column = |of: fn(&(u32, u32, u32, bool)) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(members.iter().map(of)))
    };
    let kept: BooleanArray = members.iter().map(|member| Some(member.3)).collect();
    Table::of(vec![
        ("document", column(|member| member.0), false),
        ("cluster", column(|member| member.1), false),
        ("size", column(|member| member.2), false),
        ("kept", Arc::new(kept), false),
    ])
}

/// The tables of a `Result`: of documents, of pairs and of clusters.
type Tables = (Table, Table, Table);

/// The table of documents says what became of each row of the input; reference documents have none.
fn documents_table(outcome: &Outcome, rows: &Rows, new: u32) -> PyResult<Table> {
    let assignments = Assignments::new(outcome);
    let mut of_row: Vec<Option<DocumentAssignment>> = vec![None; new as usize];
    for document in Document::all(outcome.new) {
        let assignment = assignments.of(document);
        of_row[rows.row(document) as usize] = Some(DocumentAssignment {
            representative: Document(rows.row(assignment.representative)),
            ..assignment
        });
    }
    let each = |of: fn(&DocumentAssignment) -> Option<u32>| -> UInt32Array {
        of_row.iter().map(|assignment| assignment.as_ref().and_then(of)).collect()
    };
    let representative = each(|assignment| Some(assignment.representative.0));
    let kept: BooleanArray =
        (0..).zip(&representative).map(|(row, representative)| Some(representative == Some(row))).collect();
    let similarity: Float32Array =
        of_row.iter().map(|assignment| assignment.and_then(|assignment| assignment.similarity)).collect();
    Table::of(vec![
        ("cluster", Arc::new(each(|assignment| assignment.cluster.map(Id::number))), true),
        ("size", Arc::new(each(|assignment| Some(assignment.size))), true),
        ("kept", Arc::new(kept), false),
        ("representative", Arc::new(representative), true),
        ("similarity", Arc::new(similarity), true),
    ])
}

/// The table of clusters names the members of clusters of two or more, reference documents among them.
fn members_table(outcome: &Outcome, rows: &Rows) -> PyResult<Table> {
    let members = Cluster::all(outcome.clusters.len()).flat_map(|cluster| {
        let members = outcome.clusters.get(cluster);
        members.iter().map(move |&document| {
            let is_kept =
                outcome.representative_of(cluster, document) == document || outcome.is_reference(document);
            (rows.row(document), cluster.number(), members.len() as u32, is_kept)
        })
    });
    clusters_table(&members.collect::<Vec<_>>())
}

/// The rows of a table of documents that have a text and are kept, or are not.
///
/// # Errors
/// If it is no such table.
#[pyfunction]
pub fn chosen_rows(py: Python<'_>, documents: &Table, kept: bool) -> PyResult<Py<RowNumbers>> {
    let (is_kept, representative) = (documents.column("kept")?, documents.column("representative")?);
    let is_kept = is_kept.as_boolean();
    let rows =
        (0..representative.len()).filter(|&row| representative.is_valid(row) && is_kept.value(row) == kept);
    let rows = UInt32Array::from_iter_values(rows.map(|row| row as u32));
    RowNumbers::new(py, if kept { "kept" } else { "removed" }, rows)
}

/// The page of HTML of a report, given in JSON.
///
/// # Errors
/// If it is none.
#[pyfunction]
pub fn report_html(report: &str) -> PyResult<String> {
    let report: Report = serde_json::from_str(report).map_err(|e| PyValueError::new_err(e.to_string()))?;
    html::render(&report).map_err(of_library)
}

/// The words that close a run, by its report in JSON.
///
/// # Errors
/// If it is none.
#[pyfunction]
pub fn report_text(report: &str) -> PyResult<String> {
    let report: Report = serde_json::from_str(report).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(as_keywords(&messages::closing(&report)))
}

/// A value as the interpreter's own `json` reads it.
///
/// # Errors
/// If it has no JSON.
pub fn from_json<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(|e| PyValueError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (json,))
}

/// Texts on their way into a collector.
struct Reading<'py> {
    collector: TextCollector,
    rows: Rows,
    /// Texts that the report may show, those of the first documents: all of data that is in memory, and of a stream the
    /// first ones.
    shown: Vec<Texts<'py>>,
    shown_documents: usize,
}

impl<'py> Reading<'py> {
    /// Reads data to its end, and gives the URL of each document where `url` names a column of it.
    fn read(
        &mut self,
        data: &Bound<'py, PyAny>,
        column: &str,
        url: Option<&Bound<'py, PyAny>>,
        ticker: &Ticker,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Option<String>>> {
        let py = data.py();
        let (mut items, mut urls, mut repaired) = (Items::new(data)?, Vec::new(), Repaired::default());
        let mut is_first = true;
        while let Some(batch) = items.take()? {
            let held = batch.repaired_texts("text", column, &mut repaired)?;
            let rows = held.rows()?;
            if let Some(url) = url {
                let beside = batch.beside("url", url)?;
                let of_texts = beside.rows()?.into_iter().zip(&rows).filter(|(_, text)| text.is_some());
                urls.extend(of_texts.map(|(url, _)| url.map(str::to_owned)));
            }
            let before = self.rows.documents();
            rows.iter().try_for_each(|text| self.rows.add(text.is_some()))?;
            let texts: Vec<&str> = rows.into_iter().flatten().collect();
            if is_first {
                // A stream does not say how much there is.
                let bytes = if items.is_stream() { 0 } else { texts.iter().map(|text| text.len()).sum() };
                ticker.begin("read", bytes as u64, "bytes");
            }
            let collector = &mut self.collector;
            run_part(py, ticker, progress, |ticker| collector.extend(&texts, ticker))?.map_err(of_library)?;
            if self.shown_documents == before && (is_first || !items.is_stream()) {
                self.shown_documents = self.rows.documents();
                self.shown.push(held);
            }
            is_first = false;
        }
        repaired.warn(py)?;
        Ok(urls)
    }
}

/// Finds the near-duplicates of texts, and of these and the reference texts `against`; `options` are typed as for
/// the command line. Gives tables, the report in JSON, and the words that close a run.
///
/// # Errors
/// `ValueError` for a setting without meaning, `TypeError` for what holds no texts, `OSError` for a file of
/// frequencies that cannot be read.
#[pyfunction]
#[pyo3(signature = (data, against, column, url, options, progress=None))]
pub fn dedup_of_texts<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    against: Option<&Bound<'py, PyAny>>,
    column: &str,
    url: Option<&Bound<'py, PyAny>>,
    options: Vec<OsString>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Tables, String, String)> {
    let OfTexts { settings, frequencies, threads, .. } = of_texts(&options).map_err(of_refusal)?;
    let hosts = settings.quota.each == Some(Source::Host);
    if url.is_none() && (settings.keep == Keep::ShortestUrl || hosts) {
        let option = if hosts { "--keep-each host" } else { "--keep shortest-url" };
        let text = format!("{option}: expected url= as well, the URLs of the texts");
        return Err(of_refusal(Refused { text, io: None }));
    }
    let ticker = Ticker::new();
    let collector = TextCollector::new(&settings, frequencies.as_deref(), threads).map_err(of_library)?;
    let mut reading = Reading { collector, rows: Rows::default(), shown: Vec::new(), shown_documents: 0 };
    let is_name = |url: &&Bound<'py, PyAny>| url.is_instance_of::<PyString>();
    let mut urls = reading.read(data, column, url.filter(is_name), &ticker, progress)?;
    let (new, new_documents) = (reading.rows.number, reading.rows.documents());
    // A list of URLs may be one that grows while the texts are read.
    if let Some(url) = url.filter(|url| !is_name(url)) {
        let listed = Data::new(url)?.beside("url", url)?;
        let listed = listed.rows()?;
        as_many("url", listed.len(), new as usize)?;
        let of = |document| listed[reading.rows.row(document) as usize].map(str::to_owned);
        urls = Document::all(new_documents).map(of).collect();
    }
    let urls: Vec<Option<&str>> = urls.iter().map(Option::as_deref).collect();
    if let Some(against) = against {
        reading.read(against, column, None, &ticker, progress)?;
    }
    let Reading { collector, rows, shown, .. } = reading;
    let mut texts = Vec::new();
    for held in &shown {
        texts.extend(held.rows()?.into_iter().flatten());
    }
    let name = |document| match rows.row(document) {
        row if row < new => row.to_string(),
        row => format!("against {}", row - new),
    };
    let mut job = TextJob::new(&texts, settings.clone());
    (job.urls, job.name, job.frequencies, job.threads, job.created) =
        (&urls, &name, frequencies, threads, now());
    job.first_reference = against.map_or(usize::MAX, |_| new_documents);
    let done = run_part(py, &ticker, progress, |ticker| collector.finish(&job, ticker))?;
    let (outcome, report) = done.map_err(of_library)?;
    let pairs = pairs_table(&outcome.pairs, &settings, &rows)?;
    let tables = (documents_table(&outcome, &rows, new)?, pairs, members_table(&outcome, &rows)?);
    let closing = as_keywords(&messages::closing(&report));
    let report = serde_json::to_string(&report).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok((tables, report, closing))
}

/// Runs `simflip dedup` with these arguments. Gives the numbers of documents, of those that can go, and of corrupt
/// sections, and what the program would print.
///
/// # Errors
/// `ValueError` for arguments without meaning, `OSError` for what cannot be read or written.
#[pyfunction]
#[pyo3(signature = (arguments, progress=None))]
pub fn dedup_of_files<'py>(
    py: Python<'py>,
    arguments: Vec<OsString>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut job = of_files(&arguments).map_err(of_refusal)?;
    job.command_line = typed("dedup", &arguments);
    let summary = run(py, progress, |ticker| staged::dedup(&job, ticker))?.map_err(of_library)?;
    from_json(py, &json!(summary))
}

/// Runs `simflip rethreshold` with these arguments. Gives what [`dedup_of_files`] gives.
///
/// # Errors
/// As [`dedup_of_files`].
#[pyfunction]
pub fn rethreshold(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Bound<'_, PyAny>> {
    let [earlier, mut job] = of_rethreshold(&arguments).map_err(of_refusal)?;
    job.command_line = typed("rethreshold", &arguments);
    let done = run(py, None, |ticker| staged::rethreshold(&earlier, &job, ticker))?;
    from_json(py, &json!(done.map_err(of_library)?))
}

/// A command as the program would have it typed.
fn typed(command: &str, arguments: &[OsString]) -> Vec<String> {
    let arguments = arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    ["simflip".to_owned(), command.to_owned()].into_iter().chain(arguments).collect()
}

/// The pairs of a folder of results.
///
/// # Errors
/// If its `pairs.csv` cannot be read.
#[pyfunction]
pub fn read_pairs(path: PathBuf) -> PyResult<Table> {
    let mut reader = PairsReader::open(&path).map_err(of_library)?;
    let (mut a, mut b, mut distance) = (Vec::new(), Vec::new(), Vec::new());
    let (mut similarity, mut kinds) = (Vec::new(), Vec::new());
    while let Some(row) = reader.next_row().map_err(of_library)? {
        a.push(row.a_id().to_owned());
        b.push(row.b_id().to_owned());
        distance.push(row.distance().map_err(of_library)?);
        similarity.push(row.similarity().map_err(of_library)?.map(|similarity| similarity as f32));
        kinds.push(kind(row.kind()));
    }
    Table::of(vec![
        ("a_id", Arc::new(StringArray::from(a)), false),
        ("b_id", Arc::new(StringArray::from(b)), false),
        ("distance", Arc::new(UInt32Array::from(distance)), true),
        ("similarity", Arc::new(Float32Array::from(similarity)), true),
        ("kind", Arc::new(StringArray::from(kinds)), false),
    ])
}

/// The members of clusters of a folder of results.
///
/// # Errors
/// If its `clusters.csv` cannot be read.
#[pyfunction]
pub fn read_clusters(path: PathBuf) -> PyResult<Table> {
    let mut reader = ClustersReader::open(&path).map_err(of_library)?;
    let (mut ids, mut clusters, mut sizes, mut kept) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    while let Some(row) = reader.next_row().map_err(of_library)? {
        ids.push(row.id().to_owned());
        clusters.push(row.cluster().to_owned());
        sizes.push(row.size().and_then(|size| u32::try_from(size).ok()));
        kept.push(row.kept());
    }
    Table::of(vec![
        ("id", Arc::new(StringArray::from(ids)), false),
        ("cluster", Arc::new(StringArray::from(clusters)), false),
        ("size", Arc::new(UInt32Array::from(sizes)), true),
        ("kept", Arc::new(BooleanArray::from(kept)), true),
    ])
}
