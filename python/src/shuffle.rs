//! What an engine that sorts by itself calls: sketches as records, groups of records judged, and the files that
//! stages read. `simflip/spark.py` is the one who calls; numbers that Arrow has as unsigned are signed here, as
//! Spark has no others.

use crate::errors::{of_core, of_library, of_refusal};
use crate::sketches::cast;
use crate::table::Table;
use crate::texts::{Texts, chunks};
use arrow_array::builder::{BinaryBuilder, Int32Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Int32Array, Int64Array, StructArray,
};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use simflip::cli::options::{OfTexts, of_texts};
use simflip::clusters::Keep;
use simflip::core::collection::Two;
use simflip::core::company::Met;
use simflip::settings::Settings;
use simflip::sketch::{Facts, SketchValue, Sketcher};
use simflip::staged::PagePair;
use simflip::staged::shuffled::{self, GroupPair, RecordForm};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

fn json_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn settings_of_json(settings: &str) -> PyResult<Settings> {
    serde_json::from_str(settings).map_err(json_error)
}

/// The settings of these options, as text that [`Groups`] and others read.
///
/// # Errors
/// `ValueError` for options without meaning, or under which no engine could join.
#[pyfunction]
pub fn record_settings(options: Vec<OsString>) -> PyResult<String> {
    let OfTexts { settings, .. } = of_texts(&options).map_err(of_refusal)?;
    RecordForm::new(&settings).map_err(of_library)?;
    serde_json::to_string(&settings).map_err(json_error)
}

/// How many pages of one key are a crowd, of which not all may be compared with each other.
///
/// # Errors
/// `ValueError` for no settings.
#[pyfunction]
pub fn crowd_of(settings: &str) -> PyResult<usize> {
    RecordForm::new(&settings_of_json(settings)?).map(|form| form.crowd()).map_err(of_library)
}

/// A row of keys for each page.
fn lists(keys: &[u32], width: usize) -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    for row in keys.chunks_exact(width) {
        row.iter().for_each(|&key| builder.values().append_value(key.cast_signed()));
        builder.append(true);
    }
    Arc::new(builder.finish())
}

fn digests(digests: &[u128]) -> ArrayRef {
    Arc::new(BinaryArray::from_iter_values(digests.iter().map(|digest| digest.to_be_bytes())))
}

/// Bytes in whose order pages are kept: none where their ids alone decide.
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
    let settings = settings_of_json(settings)?;
    let form = RecordForm::new(&settings).map_err(of_library)?;
    let held = Texts::new(data, column)?;
    let texts = held.rows()?;
    let columns = py.detach(|| -> Result<_, simflip::core::Error> {
        let mut sketcher = Sketcher::new(&settings, None)?;
        let [mut digests, mut orders, mut records] = std::array::from_fn(|_| BinaryBuilder::new());
        let (mut compared, mut keys) = (Vec::new(), ListBuilder::new(Int32Builder::new()));
        let mut record = Vec::new();
        for text in texts {
            let sketch = text.map(|text| sketcher.sketch(text));
            let two = match sketch.as_ref().map(|sketch| &sketch.value) {
                Some(SketchValue::Both(two)) => Some(Two::from(two)),
                _ => None,
            };
            let of_page = sketch.as_ref().map(|sketch| sketch.facts).zip(two);
            compared.push(of_page.map(|(facts, _)| form.is_compared(facts.features)));
            let Some((facts, two)) = of_page else {
                digests.append_null();
                orders.append_null();
                records.append_null();
                keys.append(false);
                continue;
            };
            record.clear();
            form.write(0, &facts, two, &mut record);
            digests.append_value(facts.digest.to_be_bytes());
            orders.append_value(keep_order(&settings.keep, &facts));
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

/// The rows of a table, chunk by chunk.
fn tables(data: &Bound<'_, PyAny>) -> PyResult<Vec<StructArray>> {
    let of = |chunk: ArrayRef| {
        chunk.as_struct_opt().cloned().ok_or_else(|| PyTypeError::new_err("expected a table"))
    };
    chunks(data)?.0.into_iter().map(of).collect()
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

/// The bands of a row of a column of lists.
fn bands_of(list: &ArrayRef) -> Vec<u32> {
    list.as_primitive::<Int32Type>().values().iter().map(|band| band.cast_unsigned()).collect()
}

fn list_type() -> DataType {
    DataType::new_list(DataType::Int32, true)
}

/// Records as a table while they are made.
#[derive(Default)]
struct Made {
    bands: Vec<i32>,
    records: BinaryBuilder,
}

impl Made {
    fn push(&mut self, band: u32, record: &[u8]) {
        self.bands.push(band.cast_signed());
        self.records.append_value(record);
    }

    /// band, key (int32), record.
    fn table(mut self) -> PyResult<Table> {
        let records = self.records.finish();
        let key = |record: Option<&[u8]>| {
            let first = record.and_then(|record| record.first_chunk().copied());
            i32::from_be_bytes(first.unwrap_or_default())
        };
        let keys = Int32Array::from_iter_values(records.iter().map(key));
        Table::of(vec![
            ("band", Arc::new(Int32Array::from(self.bands)), false),
            ("key", Arc::new(keys), false),
            ("record", Arc::new(records), false),
        ])
    }
}

/// For each row of a table with records and the lists of bands for which they are asked, the records for these:
/// band, key, record.
///
/// # Errors
/// `ValueError` for what is no record of these settings.
#[pyfunction]
pub fn turn_records(data: &Bound<'_, PyAny>, settings: &str) -> PyResult<Table> {
    let form = RecordForm::new(&settings_of_json(settings)?).map_err(of_library)?;
    let (mut made, mut turned) = (Made::default(), Vec::new());
    for table in tables(data)? {
        let records = column(&table, "record", &DataType::Binary)?;
        let bands = column(&table, "bands", &list_type())?;
        for (record, bands) in records.as_binary::<i32>().iter().zip(bands.as_list::<i32>().iter()) {
            for band in bands.as_ref().map_or_else(Vec::new, bands_of) {
                turned.clear();
                form.turn(record.unwrap_or_default(), band as usize, &mut turned).map_err(of_library)?;
                made.push(band, &turned);
            }
        }
    }
    made.table()
}

/// Judges groups of records; see [`shuffled::Groups`].
#[pyclass(frozen, module = "simflip._simflip")]
pub struct Groups {
    groups: Mutex<Option<shuffled::Groups>>,
    by_digest: bool,
}

/// Pairs as a table: band, a, b (binary, digests; int64, numbers of pages), distance, similarity.
fn pairs_table(pairs: &[GroupPair], by_digest: bool) -> PyResult<Table> {
    let ends = |end: usize| -> ArrayRef {
        match by_digest {
            true => digests(&pairs.iter().map(|pair| pair.ends[end]).collect::<Vec<_>>()),
            false => Arc::new(Int64Array::from_iter_values(pairs.iter().map(|pair| pair.ends[end] as i64))),
        }
    };
    let bands = Int32Array::from_iter_values(pairs.iter().map(|pair| pair.band as i32));
    let distances = Int32Array::from_iter_values(pairs.iter().map(|pair| pair.distance.cast_signed()));
    let similarities = Float32Array::from_iter_values(pairs.iter().map(|pair| pair.similarity));
    Table::of(vec![
        ("band", Arc::new(bands), false),
        ("a", ends(0), false),
        ("b", ends(1), false),
        ("distance", Arc::new(distances), false),
        ("similarity", Arc::new(similarities), false),
    ])
}

fn finished() -> PyErr {
    PyValueError::new_err("the groups are finished")
}

#[pymethods]
impl Groups {
    /// Judges under these settings; `crowded` names bands and keys of many pages.
    #[new]
    fn new(settings: &str, crowded: Vec<(u32, i32)>, by_digest: bool) -> PyResult<Self> {
        let crowded = crowded.into_iter().map(|(band, key)| (band as usize, key.cast_unsigned()));
        let groups = shuffled::Groups::new(&settings_of_json(settings)?, crowded, by_digest);
        Ok(Self { groups: Mutex::new(Some(groups.map_err(of_library)?)), by_digest })
    }

    /// Takes a table of band and record, sorted by both within and between calls; gives the pairs of the groups that
    /// ended.
    fn push(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Table> {
        let mut pairs = Vec::new();
        for table in tables(data)? {
            let bands = column(&table, "band", &DataType::Int32)?;
            let records = column(&table, "record", &DataType::Binary)?;
            py.detach(|| {
                let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
                let groups = groups.as_mut().ok_or_else(finished)?;
                let bands = bands.as_primitive::<Int32Type>().values();
                for (&band, record) in bands.iter().zip(records.as_binary::<i32>().iter()) {
                    let pushed =
                        groups.push(band.cast_unsigned() as usize, record.unwrap_or_default(), &mut |pair| {
                            pairs.push(pair)
                        });
                    pushed.map_err(of_library)?;
                }
                Ok::<_, PyErr>(())
            })?;
        }
        pairs_table(&pairs, self.by_digest)
    }

    /// The pairs of the last group, and what each band took: its number, and a text for `write_edges`.
    fn finish(&self, py: Python<'_>) -> PyResult<(Table, Vec<(usize, String)>)> {
        let mut pairs = Vec::new();
        let met = py.detach(|| {
            let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner).take();
            groups.ok_or_else(finished)?.finish(&mut |pair| pairs.push(pair)).map_err(of_library)
        })?;
        let told = met.iter().map(|(band, met)| Ok((*band, serde_json::to_string(met).map_err(json_error)?)));
        Ok((pairs_table(&pairs, self.by_digest)?, told.collect::<PyResult<_>>()?))
    }
}

/// A file of sketches that is read in pieces.
#[pyclass(frozen, module = "simflip._simflip")]
pub struct SketchedFile(Mutex<shuffled::SketchedFile>);

#[pymethods]
impl SketchedFile {
    /// Opens a file, and compares its checksum if `check` says so.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, check: bool) -> PyResult<Self> {
        py.detach(|| shuffled::SketchedFile::open(&path, check))
            .map(|file| Self(Mutex::new(file)))
            .map_err(of_library)
    }

    /// The keys of `count` pages from the file's page `from` on, whose first page has the number `start`: page (int64),
    /// digest, compared, keys.
    fn keys(&self, py: Python<'_>, start: i64, from: u64, count: usize) -> PyResult<Table> {
        let (keys, bands) = py
            .detach(|| {
                let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                file.keys(from, count).map(|keys| (keys, file.bands()))
            })
            .map_err(of_library)?;
        let pages = (start + from as i64..).take(count);
        Table::of(vec![
            ("page", Arc::new(Int64Array::from_iter_values(pages)), false),
            ("digest", digests(&keys.digests), false),
            ("compared", Arc::new(BooleanArray::from(keys.compared)), false),
            ("keys", lists(&keys.keys, bands), false),
        ])
    }

    /// The records of a table of pages, ascending, and the lists of bands for which they are asked; the file's first
    /// page has the number `start`: band, key, record.
    fn records(&self, start: i64, data: &Bound<'_, PyAny>) -> PyResult<Table> {
        let mut made = Made::default();
        for table in tables(data)? {
            let pages = column(&table, "page", &DataType::Int64)?;
            let bands = column(&table, "bands", &list_type())?;
            let pages = pages.as_primitive::<Int64Type>().values();
            let bands = bands.as_list::<i32>().iter();
            let bands: Vec<Vec<u32>> =
                bands.map(|bands| bands.as_ref().map_or_else(Vec::new, bands_of)).collect();
            let asked = pages
                .iter()
                .zip(&bands)
                .map(|(&page, bands)| ((page - start).cast_unsigned(), page.cast_unsigned(), &bands[..]));
            let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            file.records(asked, |band, record| made.push(band, record)).map_err(of_library)?;
        }
        made.table()
    }

    /// Pages of the file.
    fn __len__(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pages() as usize
    }
}

/// A folder of sketches.
#[pyclass(frozen, module = "simflip._simflip")]
pub struct SketchFolder(shuffled::SketchFolder);

#[pymethods]
impl SketchFolder {
    /// Opens a folder of sketches.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| shuffled::SketchFolder::open(&path)).map(Self).map_err(of_library)
    }

    /// The settings of the sketches, as text.
    #[getter]
    fn settings(&self) -> PyResult<String> {
        serde_json::to_string(self.0.settings()).map_err(json_error)
    }

    /// Bands of keys.
    #[getter]
    fn bands(&self) -> PyResult<usize> {
        RecordForm::new(self.0.settings()).map(|form| form.bands()).map_err(of_library)
    }

    /// The files: path, the number of the first page, how many pages.
    #[getter]
    fn files(&self) -> Vec<(PathBuf, u64, u64)> {
        self.0.files().collect()
    }

    /// Whether all edges are there.
    #[getter]
    fn joined(&self) -> bool {
        self.0.is_joined()
    }

    /// Writes the edges of a band, or copies: a and b (int64), distance (int32; of copies not looked at), similarity,
    /// in order of b and a. `met` is what the parts of the band took.
    fn write_edges(&self, band: Option<usize>, pairs: &Bound<'_, PyAny>, met: Vec<String>) -> PyResult<()> {
        let met = met.iter().map(|met| serde_json::from_str::<Met>(met).map_err(json_error));
        let met = met.collect::<PyResult<Vec<_>>>()?.into_iter().fold(Met::default(), Met::and);
        let mut edges = Vec::new();
        for table in tables(pairs)? {
            let (a, b) = (column(&table, "a", &DataType::Int64)?, column(&table, "b", &DataType::Int64)?);
            let distance = column(&table, "distance", &DataType::Int32)?;
            let similarity = column(&table, "similarity", &DataType::Float32)?;
            let ends =
                a.as_primitive::<Int64Type>().values().iter().zip(b.as_primitive::<Int64Type>().values());
            let judged = distance.as_primitive::<Int32Type>().values().iter();
            let judged = judged.zip(similarity.as_primitive::<Float32Type>().values());
            edges.extend(ends.zip(judged).map(|((&a, &b), (&distance, &similarity))| PagePair {
                a: a.cast_unsigned(),
                b: b.cast_unsigned(),
                distance: band.map(|_| distance.cast_unsigned()),
                similarity,
            }));
        }
        self.0.write_edges(band, met, edges).map_err(of_library)
    }
}
