//! Near-duplicates of texts in memory, and of files.

use crate::errors::{of_arrow, of_library, of_refusal};
use crate::run::run;
use crate::table::{Column, Table};
use crate::texts::{Data, Texts, as_many};
use arrow_array::{ArrayRef, BooleanArray, Float32Array, StringArray, UInt32Array};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;
use simflip::cli::options::{OfTexts, now, of_files, of_texts};
use simflip::clusters::{Keep, Source};
use simflip::core::dedup::{Kind, Outcome, Pair};
use simflip::core::id::{Cluster, Document, Id};
use simflip::pipeline::{TextJob, dedup_texts};
use simflip::report::{Report, html, tell};
use simflip::settings::Settings;
use simflip::staged::dedup;
use simflip::tables::{ClustersReader, PairsReader};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// What became of some texts.
#[pyclass(frozen, module = "simflip")]
pub struct Result {
    outcome: Outcome,
    report: Report,
    settings: Settings,
    rows: Rows,
}

/// Which row of the input each document is. Rows of old pages come behind those of new ones.
pub struct Rows {
    /// Rows of new pages.
    pub new: usize,
    /// For each document its row; none if every row is a document.
    pub of: Option<Vec<u32>>,
}

impl Rows {
    /// The documents among rows that may hold nothing, and the number of the first old one, if there are old
    /// ones: the rows from `first_old` on.
    ///
    /// # Errors
    /// `ValueError` for rows without number.
    pub fn new<T>(rows: Vec<Option<T>>, first_old: Option<usize>) -> PyResult<(Self, Vec<T>, usize)> {
        if u32::try_from(rows.len()).is_err() {
            return Err(of_library(simflip::Error::parameter("texts", rows.len(), "less than 2³²")));
        }
        let new = first_old.unwrap_or(rows.len());
        let first_old = first_old.map_or(usize::MAX, |_| rows[..new].iter().flatten().count());
        let of = rows
            .iter()
            .any(Option::is_none)
            .then(|| (0..).zip(&rows).filter(|(_, text)| text.is_some()).map(|(row, _)| row).collect());
        Ok((Self { new, of }, rows.into_iter().flatten().collect(), first_old))
    }

    /// The row of a document.
    pub fn row(&self, document: Document) -> u32 {
        self.of.as_ref().map_or(document.0, |rows| rows[document.index()])
    }
}

/// Name in the metadata of a table of pairs for what decided about them.
pub const JUDGED_BY: &str = "simflip.verify";

/// Pairs as a table.
///
/// # Errors
/// None that a list of pairs could cause.
pub fn pairs_table(pairs: &[Pair], settings: &Settings, rows: &Rows) -> PyResult<Table> {
    let ends = |end: fn(&Pair) -> Document| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(pairs.iter().map(|pair| rows.row(end(pair)))))
    };
    let has_distance = settings.sketches.has_hash();
    let distances = UInt32Array::from_iter(pairs.iter().map(|pair| has_distance.then_some(pair.distance)));
    let similarities = Float32Array::from_iter_values(pairs.iter().map(|pair| pair.similarity));
    let kinds = StringArray::from_iter_values(pairs.iter().map(|pair| kind(pair.kind)));
    Table::of(vec![
        ("a", ends(|pair| pair.a), false),
        ("b", ends(|pair| pair.b), false),
        ("distance", Arc::new(distances), true),
        ("similarity", Arc::new(similarities), false),
        ("kind", Arc::new(kinds), false),
    ])?
    .saying(JUDGED_BY, settings.judge.name().to_owned())
    .map_err(of_arrow)
}

/// The word for a kind of pair.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Exact => "exact",
        Kind::Near => "near",
    }
}

/// Members of clusters as a table: page, cluster, size, kept.
///
/// # Errors
/// None that clusters could cause.
pub fn clusters_table(members: &[(u32, u32, u32, bool)]) -> PyResult<Table> {
    let column = |of: fn(&(u32, u32, u32, bool)) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(members.iter().map(of)))
    };
    let kept: BooleanArray = members.iter().map(|member| Some(member.3)).collect();
    Table::of(vec![
        ("page", column(|member| member.0), false),
        ("cluster", column(|member| member.1), false),
        ("size", column(|member| member.2), false),
        ("kept", Arc::new(kept), false),
    ])
}

impl Result {
    /// Each member of a cluster: its document, the cluster, its size, and the document that stays in its place.
    fn members(&self) -> impl Iterator<Item = (Document, u32, u32, Document)> {
        let outcome = &self.outcome;
        Cluster::all(outcome.clusters.len()).flat_map(move |cluster| {
            let members = outcome.clusters.get(cluster);
            members.iter().map(move |&member| {
                (member, cluster.number(), members.len() as u32, outcome.stays_for(cluster, member))
            })
        })
    }
}

#[pymethods]
impl Result {
    /// Near pairs, ascending: a and b (uint32, rows of the input, a < b; row `i` of `against` is
    /// `len(result) + i`), distance (uint32, bits of 64 that
    /// differ; null for minhash), similarity (float32, at most 1), kind ("exact" or "near"). Every copy with the
    /// page that leads it, and the near pairs of those; all pairs with `all_pairs=True`.
    #[getter]
    fn pairs(&self) -> PyResult<Table> {
        pairs_table(&self.outcome.pairs, &self.settings, &self.rows)
    }

    /// The pages of clusters of two or more, by cluster: page (uint32, its row), cluster (uint32, from 0), size
    /// (uint32), kept (bool).
    #[getter]
    fn clusters(&self) -> PyResult<Table> {
        let is_kept = |page, stays| page == stays || self.outcome.is_old(page);
        let of = |(page, cluster, size, stays)| (self.rows.row(page), cluster, size, is_kept(page, stays));
        clusters_table(&self.members().map(of).collect::<Vec<_>>())
    }

    /// A row for each row of the input, old pages left out: cluster (uint32; null for a page alone), size (uint32),
    /// kept (bool), stays (uint32, the row that stays in its place, that of an old page perhaps; itself if it is
    /// kept). A row without text is not kept, and the rest of it null.
    #[getter]
    fn pages(&self) -> PyResult<Table> {
        let mut cluster = vec![None; self.rows.new];
        let mut size = vec![None; self.rows.new];
        let mut stays = vec![None; self.rows.new];
        for document in Document::all(self.outcome.new) {
            let row = self.rows.row(document);
            (size[row as usize], stays[row as usize]) = (Some(1), Some(row));
        }
        let new = self.members().filter(|&(page, ..)| !self.outcome.is_old(page));
        for (page, of, many, kept) in new {
            let row = self.rows.row(page) as usize;
            (cluster[row], size[row], stays[row]) = (Some(of), Some(many), Some(self.rows.row(kept)));
        }
        let kept: BooleanArray =
            (0..).zip(&stays).map(|(row, &stays): (u32, &Option<u32>)| Some(stays == Some(row))).collect();
        Table::of(vec![
            ("cluster", Arc::new(UInt32Array::from(cluster)), true),
            ("size", Arc::new(UInt32Array::from(size)), true),
            ("kept", Arc::new(kept), false),
            ("stays", Arc::new(UInt32Array::from(stays)), true),
        ])
    }

    /// The rows of the input that stay, ascending: uint32.
    #[getter]
    fn kept(&self) -> Column {
        let rows = self.outcome.kept().map(|document| self.rows.row(document));
        Column::new("kept", Arc::new(UInt32Array::from_iter_values(rows)))
    }

    /// The rows of the input that are removed as duplicates, ascending: uint32.
    #[getter]
    fn removed(&self) -> Column {
        let kept: HashSet<Document> = self.outcome.kept().collect();
        let removed = Document::all(self.outcome.new).filter(|document| !kept.contains(document));
        Column::new(
            "removed",
            Arc::new(UInt32Array::from_iter_values(removed.map(|document| self.rows.row(document)))),
        )
    }

    /// For each row of the input, whether it is kept: bool, as a filter takes it.
    #[getter]
    fn mask(&self) -> Column {
        let mut kept = vec![false; self.rows.new];
        self.outcome.kept().for_each(|document| kept[self.rows.row(document) as usize] = true);
        Column::new("kept", Arc::new(BooleanArray::from(kept)))
    }

    /// The share of the texts that is removed, 0 to 1.
    #[getter]
    fn duplicate_ratio(&self) -> f64 {
        self.outcome.removed() as f64 / self.outcome.new.max(1) as f64
    }

    /// The kept rows of `data`, in its form: a Hugging Face dataset, pandas, polars, pyarrow, numpy, a list, or a
    /// mapping of columns. It has the rows that were deduplicated, in their order.
    fn apply<'py>(slf: Bound<'py, Self>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("simflip")?.call_method1("_apply", (&slf, data))
    }

    /// The near pairs with the least similarity, the least first, as a list of dicts of the form of `pairs`. Look at
    /// them before you trust a threshold.
    #[pyo3(signature = (number=10))]
    fn least_similar<'py>(slf: Bound<'py, Self>, number: usize) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("simflip")?.call_method1("_least_similar", (&slf, number))
    }

    /// Everything there is to say of the run, as a dict; the form is that of `report.json`.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &self.report)
    }

    /// The report as a page of HTML that needs no other file.
    #[getter]
    fn html(&self) -> PyResult<String> {
        html::render(&self.report).map_err(of_library)
    }

    fn _repr_html_<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("simflip")?.call_method1("_frame", (self.html()?,))
    }

    fn __len__(&self) -> usize {
        self.rows.new
    }

    fn __repr__(&self) -> String {
        let Outcome { new, clusters, .. } = &self.outcome;
        let (kept, pairs) = (new - self.outcome.removed(), self.outcome.pairs.len());
        format!("<simflip.Result: {new} documents, {kept} kept, {pairs} pairs, {} clusters>", clusters.len())
    }

    fn __str__(&self) -> String {
        tell::closing(&self.report, self.settings.judge)
    }
}

/// A value as the interpreter's own `json` reads it.
///
/// # Errors
/// If it has no JSON.
pub fn from_json<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(|e| PyValueError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (json,))
}

/// Finds the near-duplicates of texts, and of these and those of `against`, which are old; `options` are typed as for
/// the command line.
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
) -> PyResult<Result> {
    let OfTexts { settings, frequencies, threads, .. } = of_texts(&options).map_err(of_refusal)?;
    let hosts = settings.quota.each == Some(Source::Host);
    if url.is_none() && (settings.keep == Keep::ShortestUrl || hosts) {
        let option = if hosts { "keep_each='host'" } else { "keep='shortest-url'" };
        return Err(PyValueError::new_err(format!("{option}: expected url= as well, the URLs of the texts")));
    }
    let given = Data::new(data)?;
    let held = given.texts(py, column)?;
    let mut texts = held.rows()?;
    // The URLs are a column of the table, or a list of their own.
    let urls = url.map(|url| given.beside("url", url)).transpose()?;
    let urls = urls.as_ref().map(Texts::rows).transpose()?;
    urls.as_ref().map_or(Ok(()), |urls| as_many("url", urls.len(), texts.len()))?;
    let urls: Vec<Option<&str>> = urls.map_or_else(Vec::new, |urls| {
        urls.into_iter().zip(&texts).filter(|(_, text)| text.is_some()).map(|(url, _)| url).collect()
    });
    let old = against.map(|against| Texts::new(against, column)).transpose()?;
    let first_old = old.as_ref().map(|_| texts.len());
    if let Some(old) = &old {
        texts.extend(old.rows()?);
    }
    let (rows, texts, first_old) = Rows::new(texts, first_old)?;
    let name = |document| match rows.row(document) as usize {
        row if row < rows.new => row.to_string(),
        row => format!("against {}", row - rows.new),
    };
    let mut job = TextJob::new(&texts, settings.clone());
    (job.first_old, job.urls, job.name, job.frequencies, job.threads, job.created) =
        (first_old, &urls, &name, frequencies, threads, now());
    let (outcome, report) = run(py, progress, |ticker| dedup_texts(&job, ticker))?.map_err(of_library)?;
    Ok(Result { outcome, report, settings, rows })
}

/// Runs `simflip dedup` with these arguments. Gives the numbers of pages, of those that can go, and of pieces of
/// damage, and what the program would print.
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
    let typed = ["simflip".to_owned(), "dedup".to_owned()];
    let arguments = arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    job.command_line = typed.into_iter().chain(arguments).collect();
    let summary = run(py, progress, |ticker| dedup(&job, ticker))?.map_err(of_library)?;
    from_json(py, &json!(summary))
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
