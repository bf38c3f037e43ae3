//! Sketches of texts as a table, and near-duplicates among sketches that were made before.

use crate::dedup::{Rows, VERIFIED_BY, clusters_table, kind, pairs_table};
use crate::errors::{of_arrow, of_core, of_library, of_refusal};
use crate::run::{Ticker, run, run_part};
use crate::table::Table;
use crate::texts::{Items, Repaired};
use arrow_array::builder::{FixedSizeBinaryBuilder, FixedSizeListBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, UInt32Array, UInt64Array};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rayon::prelude::*;
use serde_json::json;
use simflip::cli::options::{OfTexts, of_texts};
use simflip::clusters::Linkage;
use simflip::core::dedup::{Context, Deduper, PairKind};
use simflip::core::id::{Document, Id};
use simflip::pipeline::Progress;
use simflip::settings::{Measure, Settings, Sketches};
use simflip::simhash::quantised::QuantisedWeights;
use simflip::sketch::{Facts, Hashed, Sketch, SketchValue, Sketcher, TwoSketches};
use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;

/// Where a table's metadata says what its sketches were made with.
const MADE_WITH: &str = "simflip.sketch";

/// What sketches must share to be compared.
fn made_with(settings: &Settings) -> String {
    let seed = settings.minhash_params().map(|params| params.seed);
    let Settings { features, sketches, .. } = settings;
    json!({ "version": 2, "hash": settings.feature_hash.name(), "features": features, "sketches": sketches, "seed": seed })
        .to_string()
}

/// A pool of so many threads, 0 for as many as the machine has.
pub fn pool(threads: usize) -> PyResult<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| of_library(simflip::Error::parameter("threads", threads, e.to_string())))
}

/// Sketches of texts, a row for each: see the package's `sketch`.
///
/// # Errors
/// As for `dedup`; `ValueError` for weights that depend on document frequencies without a file of them.
#[pyfunction]
#[pyo3(signature = (data, column, options, progress=None))]
pub fn sketch<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    column: &str,
    options: Vec<OsString>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Table> {
    let OfTexts { settings, frequencies, threads, .. } = of_texts(&options).map_err(of_refusal)?;
    let weighs = match settings.sketches {
        Sketches::SimHash { weighting } => weighting.needs_frequencies().then_some(weighting),
        _ => None,
    };
    let frequencies = match (weighs, frequencies) {
        (Some(_), Some(path)) => {
            Some(Arc::new(simflip::frequencies::load(&path, settings.extraction()).map_err(of_library)?))
        }
        (Some(weighting), None) => {
            let expected = "--frequencies with it, as a sketch is made of one text alone";
            return Err(of_library(simflip::Error::parameter("weighting", weighting.name(), expected)));
        }
        (None, _) => None,
    };
    if settings.keeps_feature_hashes() || settings.keeps_words() {
        let check = settings.verification.name();
        let expected = format!(
            "estimate: {check} looks at more of a text than a table of sketches holds; simflip.dedup takes texts"
        );
        return Err(of_library(simflip::Error::parameter("verify", check, expected)));
    }
    let (pool, ticker) = (pool(threads)?, Ticker::new());
    let (mut items, mut repaired, mut tables) = (Items::new(data)?, Repaired::default(), Vec::new());
    while let Some(batch) = items.take()? {
        let held = batch.repaired_texts("text", column, &mut repaired)?;
        let texts = held.rows()?;
        if tables.is_empty() {
            // A stream does not say how much there is.
            ticker.begin("sketch", if items.is_stream() { 0 } else { texts.len() as u64 }, "documents");
        }
        let sketches = run_part(py, &ticker, progress, |ticker| {
            pool.install(|| {
                let made: Result<Vec<Vec<Option<Sketch>>>, _> = texts
                    .par_chunks(64)
                    .map_init(
                        || Sketcher::new(&settings, frequencies.clone()),
                        |sketcher, texts| {
                            ticker.advance(texts.len() as u64);
                            let sketcher = sketcher.as_mut().map_err(|error| error.clone())?;
                            Ok(texts.iter().map(|text| text.map(|text| sketcher.sketch(text))).collect())
                        },
                    )
                    .collect();
                made.map(|made| made.into_iter().flatten().collect::<Vec<_>>())
            })
        })?
        .map_err(of_core)?;
        tables.push(table_of(&sketches, &settings).map_err(of_arrow)?);
    }
    repaired.warn(py)?;
    match tables.len() {
        0 => table_of(&[], &settings).map_err(of_arrow),
        1 => Ok(tables.remove(0)),
        _ => Table::concatenated(&tables),
    }
}

fn table_of(sketches: &[Option<Sketch>], settings: &Settings) -> Result<Table, arrow_schema::ArrowError> {
    let values = || sketches.iter().map(|sketch| sketch.as_ref().map(|sketch| &sketch.value));
    let facts = || sketches.iter().map(|sketch| sketch.as_ref().map(|sketch| sketch.facts));
    let digests = binary(facts().map(|facts| facts.map(|facts| facts.digest.to_le_bytes())), 16)?;
    let bytes: UInt64Array = facts().map(|facts| facts.map(|facts| facts.text_bytes)).collect();
    let features: UInt32Array = facts().map(|facts| facts.map(|facts| facts.features)).collect();
    let mut columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("digest", digests, true),
        ("text_bytes", Arc::new(bytes), true),
        ("features", Arc::new(features), true),
    ];
    let two = || {
        values().map(|value| match value {
            Some(SketchValue::Both(two)) => Some(two),
            _ => None,
        })
    };
    match settings.sketches {
        Sketches::SimHash { .. } => {
            let hashed = || {
                values().map(|value| match value {
                    Some(SketchValue::SimHash(hashed)) => Some(hashed),
                    _ => None,
                })
            };
            let hashes: UInt64Array = hashed().map(|hashed| hashed.map(|hashed| hashed.hash)).collect();
            let weights =
                hashed().map(|hashed| hashed.map(|hashed| hashed.weights.bytes().map(i8::cast_unsigned)));
            columns.push(("hash", Arc::new(hashes), true));
            columns.push(("weights", binary(weights, 64)?, true));
        }
        Sketches::MinHash { permutations, .. } => {
            let signatures: Vec<Option<Vec<u32>>> =
                two().map(|two| two.map(|two| two.signature().collect())).collect();
            let signatures = signatures.iter().map(|signature| signature.as_deref());
            columns.push(("signature", lists(signatures, permutations), true));
        }
        Sketches::Both { bits, banding } => {
            let hashes: UInt64Array = two().map(|two| two.map(|two| two.hash)).collect();
            let packed = two().map(|two| {
                two.map(|two| two.bits.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
            });
            columns.push(("hash", Arc::new(hashes), true));
            columns.push(("bits", binary(packed, bits / 8)?, true));
            columns.push(("keys", lists(two().map(|two| two.map(|two| &two.keys[..])), banding.bands), true));
        }
        _ => return Err(arrow_schema::ArrowError::NotYetImplemented("a table of this sketch".to_owned())),
    }
    Table::new(RecordBatch::try_from_iter_with_nullable(columns)?).saying(MADE_WITH, made_with(settings))
}

fn binary(
    rows: impl Iterator<Item = Option<impl AsRef<[u8]>>>,
    width: usize,
) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let mut builder = FixedSizeBinaryBuilder::new(width as i32);
    for row in rows {
        match row {
            Some(bytes) => builder.append_value(bytes)?,
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn lists<'a>(rows: impl Iterator<Item = Option<&'a [u32]>>, width: usize) -> ArrayRef {
    let mut builder = FixedSizeListBuilder::new(UInt32Builder::new(), width as i32);
    for row in rows {
        match row {
            Some(values) => builder.values().append_slice(values),
            None => builder.values().append_value_n(0, width),
        }
        builder.append(row.is_some());
    }
    Arc::new(builder.finish())
}

/// The near pairs among sketches: see the package's `join`.
///
/// # Errors
/// `ValueError` for sketches that were made with other settings, or that these settings cannot verify.
#[pyfunction]
#[pyo3(signature = (sketches, against, options, progress=None))]
pub fn join<'py>(
    py: Python<'py>,
    sketches: &Bound<'py, PyAny>,
    against: Option<&Bound<'py, PyAny>>,
    options: Vec<OsString>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Table> {
    let OfTexts { settings, threads, .. } = of_texts(&options).map_err(of_refusal)?;
    let mut deduper = Deduper::new(settings.clone()).map_err(of_core)?;
    let (mut rows, mut first_reference) = (Rows::default(), usize::MAX);
    for (table, is_reference) in [(Some(sketches), false), (against, true)] {
        let Some(table) = table else { continue };
        if is_reference {
            first_reference = deduper.len();
        }
        let mut items = Items::new(table)?;
        while let Some((chunk, field)) = items.next_chunk("a table of sketches")? {
            py.check_signals()?;
            check_made_with(field.metadata(), &settings)?;
            let chunk =
                chunk.as_struct_opt().ok_or_else(|| PyTypeError::new_err("expected a table of sketches"))?;
            read(chunk, &settings, |sketch| {
                rows.add(sketch.is_some())?;
                sketch.map_or(Ok(()), |sketch| deduper.push_sketch(&sketch).map(drop).map_err(of_core))
            })?;
        }
    }
    let pool = pool(threads)?;
    let outcome = run(py, progress, |ticker| {
        pool.install(|| {
            let stages = simflip::pipeline::stages::Stages::new(ticker);
            deduper.run_with(&Context::new(&|_| None, &stages).against(first_reference))
        })
    })?
    .map_err(of_core)?;
    pairs_table(&outcome.pairs, &settings, &rows)
}

/// Refuses sketches whose table says that they were made otherwise. A table that has lost what it said is taken
/// at its word.
fn check_made_with(metadata: &HashMap<String, String>, settings: &Settings) -> PyResult<()> {
    let wanted = made_with(settings);
    match metadata.get(MADE_WITH) {
        Some(said) if *said != wanted => Err(PyValueError::new_err(format!(
            "the sketches were made with {said}, but {wanted} is asked for; give join the settings that sketch was given"
        ))),
        _ => Ok(()),
    }
}

/// Hands over the sketches of a chunk, row by row; `None` for a row that has none.
fn read(
    chunk: &StructArray,
    settings: &Settings,
    mut add: impl FnMut(Option<Sketch>) -> PyResult<()>,
) -> PyResult<()> {
    let column = |name: &str, kind: DataType| {
        let found = chunk.column_by_name(name).ok_or_else(|| {
            let names = chunk.column_names().join(", ");
            PyValueError::new_err(format!("the sketches have no column {name}, but {names}"))
        })?;
        cast(name, found, &kind)
    };
    let bytes_of = |width: usize| DataType::FixedSizeBinary(width as i32);
    let list_of = |width: usize| DataType::new_fixed_size_list(DataType::UInt32, width as i32, true);
    // A row has a sketch or has none: then all of its columns are null.
    let of_sketch: &[&str] = match settings.sketches {
        Sketches::SimHash { .. } => &["digest", "text_bytes", "features", "hash", "weights"],
        Sketches::MinHash { .. } => &["digest", "text_bytes", "features", "signature"],
        _ => &["digest", "text_bytes", "features", "hash", "bits", "keys"],
    };
    let there: Vec<&ArrayRef> = of_sketch.iter().filter_map(|name| chunk.column_by_name(name)).collect();
    for row in 0..chunk.len() {
        let nulls = there.iter().filter(|column| column.is_null(row)).count();
        if nulls > 0 && nulls < there.len() {
            let names = of_sketch.join(", ");
            return Err(PyValueError::new_err(format!(
                "row {row} of the sketches has a null in some of {names}, and not in all of them"
            )));
        }
    }
    let digests = column("digest", bytes_of(16))?;
    let digests = digests.as_fixed_size_binary();
    let bytes = column("text_bytes", DataType::UInt64)?;
    let bytes = bytes.as_primitive::<UInt64Type>();
    let features = column("features", DataType::UInt32)?;
    let features = features.as_primitive::<UInt32Type>();
    let value: Box<dyn Fn(usize) -> Option<SketchValue>> = match settings.sketches {
        Sketches::SimHash { .. } => {
            let hashes = column("hash", DataType::UInt64)?.as_primitive::<UInt64Type>().clone();
            let weights = column("weights", bytes_of(64))?.as_fixed_size_binary().clone();
            Box::new(move |row| {
                let bytes: [u8; 64] = weights.value(row).try_into().ok()?;
                let weights = QuantisedWeights::from_bytes(bytes.map(u8::cast_signed));
                (!hashes.is_null(row))
                    .then(|| SketchValue::SimHash(Hashed { hash: hashes.value(row), weights }))
            })
        }
        Sketches::MinHash { permutations, banding } => {
            let signatures = column("signature", list_of(permutations))?.as_fixed_size_list().clone();
            Box::new(move |row| {
                let two = || TwoSketches::of_signature(&list(&signatures.value(row)), banding);
                (!signatures.is_null(row)).then(|| SketchValue::Both(two()))
            })
        }
        Sketches::Both { bits, banding } => {
            let hashes = column("hash", DataType::UInt64)?.as_primitive::<UInt64Type>().clone();
            let packed = column("bits", bytes_of(bits / 8))?.as_fixed_size_binary().clone();
            let keys = column("keys", list_of(banding.bands))?.as_fixed_size_list().clone();
            Box::new(move |row| {
                let words = packed.value(row).as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
                let two = TwoSketches {
                    hash: hashes.value(row),
                    bits: words.collect(),
                    keys: list(&keys.value(row)),
                    extra: Vec::new(),
                };
                (!hashes.is_null(row)).then_some(SketchValue::Both(two))
            })
        }
        _ => return Err(PyValueError::new_err("no table holds sketches of this kind")),
    };
    for row in 0..chunk.len() {
        let digest: Option<[u8; 16]> =
            (!digests.is_null(row)).then(|| digests.value(row).try_into().ok()).flatten();
        let sketch = digest.and_then(|digest| {
            let facts = Facts {
                digest: u128::from_le_bytes(digest),
                text_bytes: bytes.value(row),
                features: features.value(row),
            };
            value(row).map(|value| Sketch { facts, value })
        });
        add(sketch)?;
    }
    Ok(())
}

/// A column as our tables have it; other programs have kinds of their own for bytes and lists.
pub fn cast(name: &str, column: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    if column.data_type() == to {
        return Ok(column.clone());
    }
    let options = arrow_cast::CastOptions { safe: false, ..arrow_cast::CastOptions::default() };
    let cast = match (column.data_type(), to) {
        (DataType::BinaryView, DataType::FixedSizeBinary(_)) => {
            arrow_cast::cast(column, &DataType::LargeBinary)
                .and_then(|bytes| arrow_cast::cast_with_options(&bytes, to, &options))
        }
        _ => arrow_cast::cast_with_options(column, to, &options),
    };
    cast.map_err(|error| PyValueError::new_err(format!("column {name} does not fit these settings: {error}")))
}

fn list(values: &ArrayRef) -> Vec<u32> {
    values.as_primitive::<UInt32Type>().values().to_vec()
}

/// Clusters of documents by their near pairs: see the package's `clusters`. Scores are numbers of features if
/// `by_features` says so.
///
/// # Errors
/// `ValueError` for a pair of documents that are not there, or scores of another number than documents; and for pairs
/// by containment without numbers of features, or connected clusters of them.
#[pyfunction]
#[pyo3(signature = (n, pairs, linkage, scores=None, by_features=false))]
pub fn clusters(
    py: Python<'_>,
    n: u32,
    pairs: &Bound<'_, PyAny>,
    linkage: &str,
    scores: Option<Vec<f64>>,
    by_features: bool,
) -> PyResult<Table> {
    let linkage = match linkage {
        "connected" => Linkage::Connected,
        "star" => Linkage::Star,
        other => {
            let expected = "connected or star";
            return Err(of_library(simflip::Error::parameter("clusters", other, expected)));
        }
    };
    if let Some(scores) = scores.as_ref().filter(|scores| scores.len() != n as usize) {
        let expected = format!("a score for each of {n} documents");
        return Err(of_library(simflip::Error::parameter("keep", scores.len(), expected)));
    }
    if by_features && linkage == Linkage::Connected {
        let expected =
            "star with features, for a short document that stands in two long ones would connect these";
        return Err(of_library(simflip::Error::parameter("clusters", linkage.name(), expected)));
    }
    let edges = Edges::of(n, &mut Items::new(pairs)?, by_features)?;
    let members = run(py, None, |_| members(n, &edges, linkage, scores.as_deref()))?;
    clusters_table(&members)
}

/// Pairs of documents, the earlier one first, with their similarity.
#[derive(Default)]
struct Edges {
    /// Of documents with the same text, byte for byte.
    exact: Vec<(Document, Document, f32)>,
    near: Vec<(Document, Document, f32)>,
}

impl Edges {
    /// The pairs of a table: near, unless it has a column of kinds that says otherwise.
    fn of(n: u32, pairs: &mut Items<'_>, by_features: bool) -> PyResult<Self> {
        let mut edges = Self::default();
        while let Some((chunk, field)) = pairs.next_chunk("a table of pairs")? {
            let verified_by = field.metadata().get(VERIFIED_BY).map(String::as_str).unwrap_or_default();
            if verified_by == Measure::Containment.name() && !by_features {
                return Err(PyValueError::new_err(format!(
                    "these pairs are by {verified_by}, so that the fullest document of a cluster must stay: give features=, a number for \
                     each document, such as simflip.sketch(texts, ...)[\"features\"], and no keep="
                )));
            }
            let chunk =
                chunk.as_struct_opt().ok_or_else(|| PyTypeError::new_err("expected a table of pairs"))?;
            let column = |name: &str, to: DataType| {
                let found = chunk.column_by_name(name).ok_or_else(|| {
                    let names = chunk.column_names().join(", ");
                    PyValueError::new_err(format!("the pairs have no column {name}, but {names}"))
                })?;
                let cast = cast(name, found, &to)?;
                match cast.null_count() {
                    0 => Ok(cast),
                    nulls => {
                        Err(PyValueError::new_err(format!("column {name}: {nulls} of the values are null")))
                    }
                }
            };
            let (a, b) = (column("a", DataType::UInt32)?, column("b", DataType::UInt32)?);
            let (a, b) = (a.as_primitive::<UInt32Type>(), b.as_primitive::<UInt32Type>());
            let similarity = column("similarity", DataType::Float32)?;
            let similarity = similarity.as_primitive::<Float32Type>();
            let has_kinds = chunk.column_by_name("kind").is_some();
            let kinds = has_kinds.then(|| column("kind", DataType::Utf8)).transpose()?;
            let kinds = kinds.as_ref().map(|kinds| kinds.as_string::<i32>());
            for row in 0..chunk.len() {
                let (a, b, similarity) = (a.value(row), b.value(row), similarity.value(row));
                if a >= n || b >= n || a == b {
                    return Err(PyValueError::new_err(format!(
                        "pair {a}, {b}: expected two of {n} documents"
                    )));
                }
                let edge = (Document(a.min(b)), Document(a.max(b)), similarity);
                match kinds.map_or(kind(PairKind::Near), |kinds| kinds.value(row)) {
                    exact if exact == kind(PairKind::Exact) => edges.exact.push(edge),
                    near if near == kind(PairKind::Near) => edges.near.push(edge),
                    other => {
                        let expected = "expected exact or near";
                        return Err(PyValueError::new_err(format!(
                            "pair {a}, {b}: kind {other}: {expected}"
                        )));
                    }
                }
            }
        }
        Ok(edges)
    }
}

/// Each edge once, as similar as it is anywhere.
fn once(mut edges: Vec<(Document, Document, f32)>) -> Vec<(Document, Document, f32)> {
    edges.sort_by(|x, y| (x.0, x.1).cmp(&(y.0, y.1)).then(y.2.total_cmp(&x.2)));
    edges.dedup_by_key(|edge| (edge.0, edge.1));
    edges
}

/// Members of clusters of two or more: document, cluster, size, whether it stays. Copies of a text are together, and
/// what is near one of them is near all.
fn members(n: u32, edges: &Edges, linkage: Linkage, scores: Option<&[f64]>) -> Vec<(u32, u32, u32, bool)> {
    let mut order: Vec<Document> = Document::all(n as usize).collect();
    if let Some(scores) = scores {
        order.sort_by(|a, b| scores[b.index()].total_cmp(&scores[a.index()]).then(a.cmp(b)));
    }
    // The best copy stands for its text.
    let best = Linkage::Connected.link(&order, &edges.exact);
    let of_texts = edges.near.iter().map(|&(a, b, similarity)| {
        let (a, b) = (best[a.index()], best[b.index()]);
        (a.min(b), a.max(b), similarity)
    });
    let leaders = linkage.link(&order, &once(of_texts.filter(|(a, b, _)| a != b).collect()));
    let leaders: Vec<Document> = best.iter().map(|best| leaders[best.index()]).collect();
    let mut sizes = vec![0u32; n as usize];
    leaders.iter().for_each(|leader| sizes[leader.index()] += 1);
    // Clusters are numbered in order of their first documents.
    let (mut numbers, mut next) = (vec![None; n as usize], 0);
    let mut members = Vec::new();
    for (document, leader) in (0..).zip(&leaders) {
        let size = sizes[leader.index()];
        if size > 1 {
            let number = *numbers[leader.index()].get_or_insert_with(|| {
                next += 1;
                next - 1
            });
            members.push((document, number, size, document == leader.0));
        }
    }
    members.sort_unstable_by_key(|&(document, cluster, ..)| (cluster, document));
    members
}
