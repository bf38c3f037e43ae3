//! Texts as Python has them: an iterable of `str`, or whatever speaks Arrow's PyCapsule interface. What Arrow has is
//! not copied, save texts of dictionaries, of chunks in which something is no UTF-8, and of rows that are masked.

use crate::errors::{of_arrow, of_library, of_stream};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, FieldRef, Fields};
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use pyo3_arrow::PyArray;
use pyo3_arrow::input::AnyArray;
use std::ffi::CString;
use std::sync::Arc;

/// A column of texts that is kept alive.
pub enum Texts<'py> {
    /// Strings of the interpreter; `None` for no text.
    Strings(Vec<Option<Bound<'py, PyString>>>),
    /// Chunks of an Arrow column of strings.
    Chunks(Vec<ArrayRef>),
}

/// Whether an object speaks Arrow.
pub fn is_arrow(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(data.hasattr("__arrow_c_stream__")? || data.hasattr("__arrow_c_array__")?)
}

/// The chunks of an Arrow array or stream: those of a column, or of a table, which are structs. And what they are, with
/// what their schema says.
///
/// # Errors
/// `OSError` for a stream that does not come to its end.
pub fn chunks(data: &Bound<'_, PyAny>) -> PyResult<(Vec<ArrayRef>, FieldRef)> {
    let arrays: AnyArray = if data.hasattr("__arrow_c_stream__")? {
        data.extract()?
    } else {
        AnyArray::Array(data.extract::<PyArray>()?)
    };
    let chunked = arrays.into_chunked_array().map_err(|error| of_stream(&PyErr::from(error)))?;
    Ok(chunked.into_inner())
}

/// What columns are taken from, read once: a stream gives its rows but once, and a query may give them in another order
/// the next time.
pub enum Data<'py> {
    Arrow(Vec<ArrayRef>, FieldRef),
    Other(Bound<'py, PyAny>),
}

impl<'py> Data<'py> {
    /// Reads what speaks Arrow.
    ///
    /// # Errors
    /// `OSError` for a stream that does not come to its end.
    pub fn new(data: &Bound<'py, PyAny>) -> PyResult<Self> {
        if is_arrow(data)? {
            let (chunks, field) = chunks(data)?;
            return Ok(Self::Arrow(chunks, field));
        }
        Ok(Self::Other(data.clone()))
    }

    /// The texts: of the column, if it is a table.
    ///
    /// # Errors
    /// As [`Texts::new`].
    pub fn texts(&self, py: Python<'py>, column: &str) -> PyResult<Texts<'py>> {
        match self {
            Self::Arrow(chunks, field) => Texts::of_chunks(py, chunks, field, column),
            Self::Other(data) => Texts::of_others(data, "text"),
        }
    }

    /// What belongs to the texts: `given` names a column of the table, or is a column itself, of as many rows.
    ///
    /// # Errors
    /// As [`Texts::new`]; and `ValueError` where there is no table, or another number of rows.
    pub fn beside(&self, what: &'static str, given: &Bound<'py, PyAny>) -> PyResult<Texts<'py>> {
        let py = given.py();
        match (given.extract::<String>(), self) {
            (Ok(name), Self::Arrow(chunks, field)) if matches!(field.data_type(), DataType::Struct(_)) => {
                Texts::of_chunks(py, chunks, field, &name)
            }
            (Ok(name), _) => Err(PyValueError::new_err(format!(
                "{what} {name:?} names a column, but the texts are no table; give as many as texts"
            ))),
            (Err(_), _) if is_arrow(given)? => {
                let (chunks, field) = chunks(given)?;
                Texts::of_chunks(py, &chunks, &field, what)
            }
            (Err(_), _) => Texts::of_others(given, what),
        }
    }
}

impl<'py> Texts<'py> {
    /// The texts of `data`: of its column `column`, if it is a table.
    ///
    /// # Errors
    /// `TypeError` for what holds no texts, `ValueError` if the table has no such column, or several, `OSError` for a
    /// stream that does not come to its end.
    pub fn new(data: &Bound<'py, PyAny>, column: &str) -> PyResult<Self> {
        Data::new(data)?.texts(data.py(), column)
    }

    /// The strings of an iterable; `what` each of them is.
    fn of_others(data: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        if data.is_instance_of::<PyString>() || data.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err(
                "expected texts: a list, or a table or column that speaks Arrow. One text has no duplicates; a path is \
                 one of files if out= names the folder of the result",
            ));
        }
        let mut strings = Vec::with_capacity(data.len().unwrap_or_default());
        let mut mended = Mended::default();
        for (row, text) in data.try_iter()?.enumerate() {
            let text = text?;
            if text.is_none() {
                strings.push(None);
                continue;
            }
            let text = text.cast_into::<PyString>().map_err(|error| {
                let got =
                    error.into_inner().get_type().name().map_or_else(|_| String::new(), |n| n.to_string());
                PyTypeError::new_err(format!("{what} {row}: expected str or None, not {got}"))
            })?;
            // Python's strings hold halves of surrogate pairs, and are in UTF-8 once these are gone.
            strings.push(Some(match text.to_str() {
                Ok(_) => text,
                Err(_) => {
                    mended.add(row);
                    PyString::new(data.py(), &without_halves(&text)?)
                }
            }));
        }
        mended.warn(data.py(), what, "hold half a surrogate pair")?;
        Ok(Self::Strings(strings))
    }

    fn of_chunks(py: Python<'py>, chunks: &[ArrayRef], field: &FieldRef, column: &str) -> PyResult<Self> {
        let path = match field.data_type() {
            DataType::Struct(fields) => path_of(fields, column)?,
            _ => Vec::new(),
        };
        let mut mended = Mended::default();
        let of = |chunk: &ArrayRef| -> PyResult<ArrayRef> {
            // A row is one where all that it stands in are.
            let (mut found, mut rows) = (chunk.clone(), None);
            for &place in &path {
                let table = found.as_struct();
                rows = NullBuffer::union(rows.as_ref(), table.nulls());
                found = table.column(place).clone();
            }
            let is_row = |row| rows.as_ref().is_none_or(|rows: &NullBuffer| rows.is_valid(row));
            utf8(strings(found, column)?, is_row, &mut mended)
        };
        let chunks = chunks.iter().map(of).collect::<PyResult<_>>()?;
        mended.warn(py, &format!("column {column}"), "are no UTF-8")?;
        Ok(Self::Chunks(chunks))
    }

    /// The texts, row by row; `None` where there is none.
    ///
    /// # Errors
    /// If the interpreter has no memory for them in UTF-8.
    pub fn rows(&self) -> PyResult<Vec<Option<&str>>> {
        match self {
            Self::Strings(strings) => {
                strings.iter().map(|text| text.as_ref().map(|text| text.to_str()).transpose()).collect()
            }
            Self::Chunks(chunks) => {
                let mut rows = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
                for chunk in chunks {
                    match chunk.data_type() {
                        DataType::Utf8 => rows.extend(chunk.as_string::<i32>().iter()),
                        DataType::LargeUtf8 => rows.extend(chunk.as_string::<i64>().iter()),
                        _ => rows.extend(chunk.as_string_view().iter()),
                    }
                }
                Ok(rows)
            }
        }
    }
}

/// The places that lead to a column of a table: its own, or those of the structs that it stands in, as `meta.url` or
/// `/meta/url` names them. A column of the very name comes first.
///
/// # Errors
/// `ValueError` for a name of no column, or of several.
fn path_of(fields: &Fields, column: &str) -> PyResult<Vec<usize>> {
    fn within(fields: &Fields, name: &str) -> Option<Vec<usize>> {
        if let Some((place, _)) = fields.find(name) {
            return Some(vec![place]);
        }
        name.match_indices('.').find_map(|(at, _)| {
            let (place, field) = fields.find(&name[..at])?;
            let DataType::Struct(inner) = field.data_type() else { return None };
            Some([vec![place], within(inner, &name[at + 1..])?].concat())
        })
    }
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    let pointer = column.strip_prefix('/').map(|pointer| pointer.replace('/', "."));
    let found = within(fields, column).or_else(|| within(fields, &pointer?));
    let several = names.iter().filter(|&&name| name == column).count() > 1;
    found.filter(|_| !several).ok_or_else(|| {
        let expected = if several { "one column of this name, not" } else { "one of" };
        PyValueError::new_err(format!("column {column}: expected {expected} {}", names.join(", ")))
    })
}

/// Strings in which U+FFFD stands for what cannot be read.
#[derive(Default)]
struct Mended {
    rows: u64,
    first: usize,
    /// Rows of the chunks before.
    before: usize,
}

impl Mended {
    fn add(&mut self, row: usize) {
        if self.rows == 0 {
            self.first = self.before + row;
        }
        self.rows += 1;
    }

    /// Warns of them, if there are any.
    fn warn(&self, py: Python<'_>, what: &str, why: &str) -> PyResult<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let Self { rows, first, .. } = self;
        let told = format!(
            "{what}: {rows} of the strings {why}, first in row {first}; U+FFFD stands for what is none"
        );
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(told)?, 1)
    }
}

/// A string with U+FFFD for each half of a surrogate pair.
fn without_halves(text: &Bound<'_, PyString>) -> PyResult<String> {
    let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?.cast_into::<PyBytes>()?;
    let mut bytes = bytes.as_bytes().to_vec();
    // A half takes three bytes, as U+FFFD does, of which the first two are those of no character.
    for at in 0..bytes.len().saturating_sub(2) {
        if bytes[at] == 0xed && bytes[at + 1] >= 0xa0 {
            bytes[at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A text by itself, in which U+FFFD stands for halves of surrogate pairs.
pub struct Text(pub String);

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(text: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = text.to_owned().cast_into::<PyString>()?;
        let whole = text.to_str().map(str::to_owned);
        Ok(Self(whole.or_else(|_| without_halves(&text))?))
    }
}

/// Whether there are as many of `what` as texts.
///
/// # Errors
/// `ValueError` if there are not.
pub fn as_many(what: &'static str, given: usize, texts: usize) -> PyResult<()> {
    match given == texts {
        true => Ok(()),
        false => {
            let expected = format!("as many as texts, {texts}");
            Err(of_library(simflip::Error::parameter(what, given, expected)))
        }
    }
}

/// A chunk of strings as it is, if all its rows are there and hold UTF-8, which Arrow promises and nobody checks; else
/// a copy, without the rows that are not, with U+FFFD for what is no UTF-8. `mended` hears of strings with such.
fn utf8(chunk: ArrayRef, is_row: impl Fn(usize) -> bool, mended: &mut Mended) -> PyResult<ArrayRef> {
    let is_bytes =
        matches!(chunk.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    // Bytes are whatever they are.
    let bytes = match chunk.data_type() {
        DataType::Utf8 | DataType::Binary => arrow_cast::cast(&chunk, &DataType::Binary),
        DataType::LargeUtf8 | DataType::LargeBinary => arrow_cast::cast(&chunk, &DataType::LargeBinary),
        _ => arrow_cast::cast(&chunk, &DataType::BinaryView),
    };
    let bytes = bytes.map_err(of_arrow)?;
    let rows = || -> Box<dyn Iterator<Item = Option<&[u8]>>> {
        match bytes.data_type() {
            DataType::Binary => Box::new(bytes.as_binary::<i32>().iter()),
            DataType::LargeBinary => Box::new(bytes.as_binary::<i64>().iter()),
            _ => Box::new(bytes.as_binary_view().iter()),
        }
    };
    let mut is_as_it_was = !is_bytes;
    for (row, bytes) in rows().enumerate() {
        let Some(bytes) = bytes else { continue };
        let is_whole = is_row(row) && simdutf8::basic::from_utf8(bytes).is_ok();
        is_as_it_was &= is_whole;
        if !is_whole && is_row(row) {
            mended.add(row);
        }
    }
    mended.before += chunk.len();
    if is_as_it_was {
        return Ok(chunk);
    }
    let rows = rows().enumerate().map(|(row, bytes)| bytes.filter(|_| is_row(row)));
    Ok(Arc::new(LargeStringArray::from_iter(rows.map(|bytes| bytes.map(String::from_utf8_lossy)))))
}

/// The chunk, if it is one of strings.
fn strings(chunk: ArrayRef, column: &str) -> PyResult<ArrayRef> {
    match chunk.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(chunk),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Ok(chunk),
        DataType::Dictionary(_, values)
            if matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) =>
        {
            arrow_cast::cast(&chunk, &DataType::LargeUtf8).map_err(of_arrow)
        }
        // A column of nothing has no type of its own.
        DataType::Null => arrow_cast::cast(&chunk, &DataType::Utf8).map_err(of_arrow),
        other => Err(PyTypeError::new_err(format!("column {column}: expected strings, not {other}"))),
    }
}
