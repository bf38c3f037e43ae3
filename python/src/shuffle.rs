//! What an engine that sorts by itself calls: sketches as records, and buckets of records joined. `simflip/spark.py`
//! calls it; numbers that Arrow has as unsigned are signed here, as Spark has no others.

use crate::errors::{of_core, of_library, of_refusal};
use crate::sketches::cast;
use crate::table::Table;
use crate::texts::{Items, Texts};
use arrow_array::builder::{BinaryBuilder, Int32Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Float32Array, Int32Array, Int64Array, StructArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use simflip::cli::options::{OfTexts, of_texts};
use simflip::clusters::Keep;
use simflip::core::buckets::{Member, Rule, Sketched};
use simflip::core::collection::Two;
use simflip::core::id::{Id, Rank};
use simflip::settings::Settings;
use simflip::sketch::{Facts, SketchValue, Sketcher};
use simflip::staged;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

fn json_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// How documents with these settings are written as records, and joined.
struct Form {
    settings: Settings,
    rule: Rule,
    words: usize,
    bands: usize,
}

/// A record, read: band hashes, bits, hash and number of features.
struct Record {
    keys: Vec<u32>,
    bits: Vec<u64>,
    hash: u64,
    features: u32,
}

impl Form {
    fn of(settings: Settings) -> PyResult<Self> {
        staged::can_be_joined(&settings).map_err(of_library)?;
        if settings.keeps_feature_hashes() {
            let expected = "estimate on Spark: containment counts features, which records do not hold";
            return Err(of_library(simflip::Error::parameter(
                "verify",
                settings.verification.name(),
                expected,
            )));
        }
        let rule = Rule::new(&settings).map_err(of_core)?;
        let Some((bits, banding)) = settings.sketches.keyed() else {
            return Err(PyValueError::new_err("expected sketches with keys: both or minhash"));
        };
        Ok(Self { settings, rule, words: bits / 64, bands: banding.bands })
    }

    fn of_json(settings: &str) -> PyResult<Self> {
        Self::of(serde_json::from_str(settings).map_err(json_error)?)
    }

    fn is_compared(&self, features: u32) -> bool {
        features as usize >= self.settings.min_features.max(1)
    }

    fn write(&self, facts: &Facts, two: Two<'_>, record: &mut Vec<u8>) {
        record.extend(two.hash.to_le_bytes());
        record.extend(facts.features.to_le_bytes());
        two.keys.iter().for_each(|key| record.extend(key.to_le_bytes()));
        two.bits.iter().for_each(|word| record.extend(word.to_le_bytes()));
    }

    fn read(&self, record: &[u8]) -> PyResult<Record> {
        let expected = 12 + 4 * self.bands + 8 * self.words;
        let odd =
            || PyValueError::new_err(format!("record: expected {expected} bytes, not {}", record.len()));
        let (hash, rest) = record.split_first_chunk::<8>().ok_or_else(odd)?;
        let (features, rest) = rest.split_first_chunk::<4>().ok_or_else(odd)?;
        let (keys, bits) = rest.split_at_checked(4 * self.bands).ok_or_else(odd)?;
        if bits.len() != 8 * self.words {
            return Err(odd());
        }
        Ok(Record {
            keys: keys.as_chunks().0.iter().map(|&key| u32::from_le_bytes(key)).collect(),
            bits: bits.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect(),
            hash: u64::from_le_bytes(*hash),
            features: u32::from_le_bytes(*features),
        })
    }
}

/// The settings of these options, as text that other functions read.
///
/// # Errors
/// `ValueError` for options without meaning, or under which no engine could join.
#[pyfunction]
pub fn record_settings(options: Vec<OsString>) -> PyResult<String> {
    let OfTexts { settings, .. } = of_texts(&options).map_err(of_refusal)?;
    serde_json::to_string(&Form::of(settings)?.settings).map_err(json_error)
}

/// Bytes in whose order documents are kept: none where their ids alone decide.
fn keep_order(keep: &Keep, facts: &Facts) -> Vec<u8> {
    match keep {
        Keep::Fullest => {
            let length = (!facts.text_bytes).to_be_bytes();
            [&(!facts.features).to_be_bytes()[..], &length, &facts.digest.to_be_bytes()].concat()
        }
        _ => Vec::new(),
    }
}

/// Texts as records, a row for each: digest, order ([`keep_order`]), compared, keys, record; null where there is no
/// text.
///
/// # Errors
/// As for `sketch`.
#[pyfunction]
pub fn sketch_records(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    column: &str,
    settings: &str,
) -> PyResult<Table> {
    let form = Form::of_json(settings)?;
    let held = Texts::new(data, column)?;
    let texts = held.rows()?;
    let columns = py.detach(|| -> Result<_, simflip::core::Error> {
        let mut sketcher = Sketcher::new(&form.settings, None)?;
        let [mut digests, mut orders, mut records] = std::array::from_fn(|_| BinaryBuilder::new());
        let (mut compared, mut keys) = (Vec::new(), ListBuilder::new(Int32Builder::new()));
        let mut record = Vec::new();
        for text in texts {
            let sketch = text.map(|text| sketcher.sketch(text));
            let two = match sketch.as_ref().map(|sketch| &sketch.value) {
                Some(SketchValue::Both(two)) => Some(Two::from(two)),
                _ => None,
            };
            let of_document = sketch.as_ref().map(|sketch| sketch.facts).zip(two);
            compared.push(of_document.map(|(facts, _)| form.is_compared(facts.features)));
            let Some((facts, two)) = of_document else {
                digests.append_null();
                orders.append_null();
                records.append_null();
                keys.append(false);
                continue;
            };
            record.clear();
            form.write(&facts, two, &mut record);
            digests.append_value(facts.digest.to_be_bytes());
            orders.append_value(keep_order(&form.settings.keep, &facts));
            records.append_value(&record);
            two.keys.iter().for_each(|&key| keys.values().append_value(key.cast_signed()));
            keys.append(true);
        }
        Ok((digests.finish(), orders.finish(), BooleanArray::from(compared), keys.finish(), records.finish()))
    });
    let (digests, orders, compared, keys, records) = columns.map_err(of_core)?;
    Table::of(vec![
        ("digest", Arc::new(digests), true),
        ("order", Arc::new(orders), true),
        ("compared", Arc::new(compared), true),
        ("keys", Arc::new(keys), true),
        ("record", Arc::new(records), true),
    ])
}

/// A column without nulls.
fn column(table: &StructArray, name: &str, kind: &DataType) -> PyResult<ArrayRef> {
    let found = table.column_by_name(name).ok_or_else(|| {
        PyValueError::new_err(format!("no column {name}, but {}", table.column_names().join(", ")))
    })?;
    let cast = cast(name, found, kind)?;
    match cast.null_count() {
        0 => Ok(cast),
        nulls => Err(PyValueError::new_err(format!("column {name}: {nulls} of the values are null"))),
    }
}

/// Joins one bucket of a band: a table of record, represents and open, a row for each member, in keep order; in a round
/// behind the first those that represent others come first. Gives the edges: document and leader (int64, rows of the
/// bucket), distance (int32) and similarity.
///
/// # Errors
/// `ValueError` for what is no record of these settings.
#[pyfunction]
pub fn join_bucket(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    settings: &str,
    band: usize,
    is_first_round: bool,
) -> PyResult<Table> {
    let form = Form::of_json(settings)?;
    if band >= form.bands {
        return Err(PyValueError::new_err(format!("band {band}: expected one of {}", form.bands)));
    }
    let (mut read, mut flags) = (Vec::new(), Vec::new());
    let mut items = Items::new(data)?;
    while let Some((chunk, _)) = items.next_chunk("a table")? {
        let table = chunk.as_struct_opt().cloned().ok_or_else(|| PyTypeError::new_err("expected a table"))?;
        let records = column(&table, "record", &DataType::Binary)?;
        for record in records.as_binary::<i32>().iter() {
            read.push(form.read(record.unwrap_or_default())?);
        }
        let [represents, open] =
            [column(&table, "represents", &DataType::Boolean)?, column(&table, "open", &DataType::Boolean)?];
        let pairs = represents.as_boolean().iter().zip(open.as_boolean().iter());
        flags.extend(pairs.map(|(represents, open)| [represents, open].map(|flag| flag == Some(true))));
    }
    let edges = py.detach(|| {
        let members: Vec<Member<'_>> = (0..)
            .zip(read.iter().zip(&flags))
            .map(|(at, (Record { keys, bits, hash, features }, &[represents, is_open]))| {
                let two = Two { hash: *hash, bits, keys, extra: &[] };
                let (rank, forms) = (Rank::new(at), form.settings.sketches.forms());
                let sketched = Sketched { rank, features: *features, two, forms, hashed: None };
                Member { sketched, represents, is_open }
            })
            .collect();
        form.rule.edges_of(band, &members, is_first_round)
    });
    let ends = |of: fn(&simflip::core::buckets::Edge) -> Rank| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(edges.iter().map(|edge| i64::from(of(edge).number()))))
    };
    let distances = Int32Array::from_iter_values(edges.iter().map(|edge| i32::from(edge.distance)));
    let similarities = Float32Array::from_iter_values(edges.iter().map(|edge| edge.similarity));
    Table::of(vec![
        ("document", ends(|edge| edge.document), false),
        ("leader", ends(|edge| edge.leader), false),
        ("distance", Arc::new(distances), false),
        ("similarity", Arc::new(similarities), false),
    ])
}

/// The files of a folder of sketches: path and number of documents of each.
///
/// # Errors
/// If a file cannot be read, or is corrupt.
#[pyfunction]
pub fn sketch_files(path: PathBuf) -> PyResult<Vec<(PathBuf, u64)>> {
    staged::sketched_files(&path).map_err(of_library)
}
