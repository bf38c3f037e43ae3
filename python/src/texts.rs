//! Texts as Python has them: an iterable of `str`, or whatever speaks Arrow's PyCapsule interface. What Arrow has is
//! not copied, save texts of dictionaries, of chunks in which something is no UTF-8, and of rows that are masked.

use crate::errors::{of_arrow, of_library, of_stream};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray, new_empty_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, FieldRef, Fields};
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString};
use pyo3_arrow::PyArray;
use pyo3_arrow::error::PyArrowError;
use pyo3_arrow::ffi::ArrayReader;
use pyo3_arrow::input::AnyArray;
use std::ffi::CString;
use std::sync::Arc;

/// Texts that are kept alive.
#[derive(Default)]
pub struct Texts<'py>(Vec<TextColumn<'py>>);

enum TextColumn<'py> {
    /// Strings of the interpreter; `None` for no text.
    Strings(Vec<Option<Bound<'py, PyString>>>),
    /// A chunk of an Arrow column of strings.
    Chunk(ArrayRef),
}

/// Whether an object speaks Arrow.
pub fn is_arrow(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(data.hasattr("__arrow_c_stream__")? || data.hasattr("__arrow_c_array__")?)
}

/// A chunk of an Arrow array or table, which is of structs, and its schema.
pub type Chunk = (ArrayRef, FieldRef);

enum Item<'py> {
    Chunk(Chunk),
    Value(Bound<'py, PyAny>),
}

/// The chunks and values of data, in the order in which it gives them: of what speaks Arrow, or of an iterable of
/// values or of parts that speak Arrow. What was given is not held.
pub struct Items<'py> {
    values: Option<Bound<'py, PyIterator>>,
    /// The table or column that is being read, and whether it has given a chunk.
    reader: Option<(Box<dyn ArrayReader + Send>, bool)>,
    /// Bytes that [`take`](Self::take) holds at a time.
    held: usize,
}

impl<'py> Items<'py> {
    /// Bytes of a stream that are held at a time. What has a length is in memory anyway, and is taken as a whole.
    const HELD: usize = 16 << 20;

    /// Nothing is read yet.
    ///
    /// # Errors
    /// `TypeError` for what is neither.
    pub fn new(data: &Bound<'py, PyAny>) -> PyResult<Self> {
        let held = if data.hasattr("__len__")? { usize::MAX } else { Self::HELD };
        if is_arrow(data)? {
            return Ok(Self { values: None, reader: Some((reader(data)?, false)), held });
        }
        if data.is_instance_of::<PyString>() || data.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err(
                "expected texts: a list, or a table or column that speaks Arrow. One text has no duplicates; a path is \
                 one of files if out= names the folder of the result",
            ));
        }
        // Python would hand over the lines of a file as texts, whatever is in them.
        if data.hasattr("readline")? {
            return Err(PyTypeError::new_err(
                "expected texts, not an open file: name its path and out=, and its documents are read; if each line is a \
                 text, give list(file)",
            ));
        }
        Ok(Self { values: Some(data.try_iter()?), reader: None, held })
    }

    fn next(&mut self) -> PyResult<Option<Item<'py>>> {
        loop {
            if let Some((reader, has_given)) = &mut self.reader {
                let field = reader.field();
                // An empty table has a schema, too.
                let none = (!*has_given).then(|| Ok(new_empty_array(field.data_type())));
                *has_given = true;
                if let Some(chunk) = reader.next().or(none) {
                    let chunk = chunk.map_err(|error| of_stream(&PyErr::from(PyArrowError::from(error))))?;
                    return Ok(Some(Item::Chunk((chunk, field))));
                }
                self.reader = None;
            }
            let Some(value) = self.values.as_mut().and_then(Iterator::next).transpose()? else {
                return Ok(None);
            };
            if !is_arrow(&value)? {
                return Ok(Some(Item::Value(value)));
            }
            self.reader = Some((reader(&value)?, false));
        }
    }

    /// The next chunk of a table; `expected` says of what.
    ///
    /// # Errors
    /// `TypeError` for a value that does not speak Arrow, `OSError` for a stream that does not come to its end.
    pub fn next_chunk(&mut self, expected: &str) -> PyResult<Option<Chunk>> {
        match self.next()? {
            None => Ok(None),
            Some(Item::Chunk(chunk)) => Ok(Some(chunk)),
            Some(Item::Value(value)) => {
                Err(PyTypeError::new_err(format!("expected {expected}, not {}", type_of(&value))))
            }
        }
    }

    /// The next rows: of a stream as many as are held at a time, otherwise all. `None` at the end.
    ///
    /// # Errors
    /// What the data raises, and `OSError` for a stream that does not come to its end.
    pub fn take(&mut self) -> PyResult<Option<Data<'py>>> {
        /// Bytes of an object beside its text.
        const OBJECT: usize = 64;
        let (mut data, mut bytes) = (Data::default(), 0);
        while bytes < self.held
            && let Some(item) = self.next()?
        {
            match item {
                Item::Chunk(chunk) => {
                    bytes += chunk.0.get_array_memory_size();
                    data.0.push(Part::Chunk(chunk));
                }
                Item::Value(value) => {
                    bytes += OBJECT + if self.held == usize::MAX { 0 } else { value.len().unwrap_or(0) };
                    match data.0.last_mut() {
                        Some(Part::Values(values)) => values.push(value),
                        _ => data.0.push(Part::Values(vec![value])),
                    }
                }
            }
        }
        Ok((!data.0.is_empty()).then_some(data))
    }

    /// Whether rows come in parts.
    pub fn is_stream(&self) -> bool {
        self.held < usize::MAX
    }
}

fn reader(data: &Bound<'_, PyAny>) -> PyResult<Box<dyn ArrayReader + Send>> {
    let arrays: AnyArray = if data.hasattr("__arrow_c_stream__")? {
        data.extract()?
    } else {
        AnyArray::Array(data.extract::<PyArray>()?)
    };
    arrays.into_reader().map_err(|error| of_stream(&error))
}

/// The name of a value's type.
fn type_of(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| String::new(), |name| name.to_string())
}

/// Rows of data, read once: a stream gives its rows but once, and a query may give them in another order the next time.
#[derive(Default)]
pub struct Data<'py>(Vec<Part<'py>>);

enum Part<'py> {
    Chunk(Chunk),
    Values(Vec<Bound<'py, PyAny>>),
}

impl<'py> Data<'py> {
    /// Reads all rows.
    ///
    /// # Errors
    /// As [`Items::new`] and [`Items::take`].
    pub fn new(data: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Items { held: usize::MAX, ..Items::new(data)? }.take()?.unwrap_or_default())
    }

    /// The texts: of the column, if it is a table.
    ///
    /// # Errors
    /// As [`Texts::new`].
    pub fn texts(&self, py: Python<'py>, column: &str) -> PyResult<Texts<'py>> {
        let mut repaired = Repaired::default();
        let texts = self.repaired_texts("text", column, &mut repaired)?;
        repaired.warn(py)?;
        Ok(texts)
    }

    /// The texts; `repaired` hears of the strings that had to be, and counts rows from one batch to the next. `value`
    /// is the name of a string that stands in no table.
    ///
    /// # Errors
    /// As [`Texts::new`].
    pub fn repaired_texts(&self, value: &str, column: &str, repaired: &mut Repaired) -> PyResult<Texts<'py>> {
        let of = |part: &Part<'py>| match part {
            Part::Chunk((chunk, field)) => of_chunk(chunk, field, column, repaired).map(TextColumn::Chunk),
            Part::Values(values) => of_values(values, value, repaired).map(TextColumn::Strings),
        };
        Ok(Texts(self.0.iter().map(of).collect::<PyResult<_>>()?))
    }

    /// What belongs to the texts: `given` names a column of the table, or is a column itself, of as many rows.
    ///
    /// # Errors
    /// As [`Texts::new`]; and `ValueError` where there is no table, or another number of rows.
    pub fn beside(&self, what: &'static str, given: &Bound<'py, PyAny>) -> PyResult<Texts<'py>> {
        let py = given.py();
        let is_table = |part: &Part<'_>| match part {
            Part::Chunk((_, field)) => matches!(field.data_type(), DataType::Struct(_)),
            Part::Values(_) => false,
        };
        let Ok(name) = given.extract::<String>() else {
            let mut repaired = Repaired::default();
            let texts = Data::new(given)?.repaired_texts(what, what, &mut repaired)?;
            repaired.warn(py)?;
            return Ok(texts);
        };
        if self.0.is_empty() || !self.0.iter().all(is_table) {
            return Err(PyValueError::new_err(format!(
                "{what} {name:?} names a column, but the texts are no table; give as many as texts"
            )));
        }
        self.texts(py, &name)
    }
}

/// The strings among values; `what` each of them is.
fn of_values<'py>(
    values: &[Bound<'py, PyAny>],
    what: &str,
    repaired: &mut Repaired,
) -> PyResult<Vec<Option<Bound<'py, PyString>>>> {
    let mut strings = Vec::with_capacity(values.len());
    for (row, text) in values.iter().enumerate() {
        if text.is_none() {
            strings.push(None);
            continue;
        }
        let text = text.cast::<PyString>().map_err(|_| {
            let row = repaired.before + row;
            PyTypeError::new_err(format!("{what} {row}: expected str or None, not {}", type_of(text)))
        })?;
        // Python's strings hold halves of surrogate pairs, and are in UTF-8 once these are gone.
        strings.push(Some(match text.to_str() {
            Ok(_) => text.clone(),
            Err(_) => {
                repaired.add(row, "hold half a surrogate pair", || what.to_owned());
                PyString::new(text.py(), &without_halves(text)?)
            }
        }));
    }
    repaired.before += values.len();
    Ok(strings)
}

/// The strings of a chunk: of its column, if it is one of a table.
fn of_chunk(chunk: &ArrayRef, field: &FieldRef, column: &str, repaired: &mut Repaired) -> PyResult<ArrayRef> {
    let path = match field.data_type() {
        DataType::Struct(fields) => path_of(fields, column)?,
        _ => Vec::new(),
    };
    // A row is one where all that it stands in are.
    let (mut found, mut rows) = (chunk.clone(), None);
    for &place in &path {
        let table = found.as_struct();
        rows = NullBuffer::union(rows.as_ref(), table.nulls());
        found = table.column(place).clone();
    }
    let is_row = |row| rows.as_ref().is_none_or(|rows: &NullBuffer| rows.is_valid(row));
    utf8(strings(found, column)?, is_row, column, repaired)
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

    /// The texts, row by row; `None` where there is none.
    ///
    /// # Errors
    /// If the interpreter has no memory for them in UTF-8.
    pub fn rows(&self) -> PyResult<Vec<Option<&str>>> {
        let mut rows = Vec::new();
        for column in &self.0 {
            match column {
                TextColumn::Strings(strings) => {
                    for text in strings {
                        rows.push(text.as_ref().map(|text| text.to_str()).transpose()?);
                    }
                }
                TextColumn::Chunk(chunk) => match chunk.data_type() {
                    DataType::Utf8 => rows.extend(chunk.as_string::<i32>().iter()),
                    DataType::LargeUtf8 => rows.extend(chunk.as_string::<i64>().iter()),
                    _ => rows.extend(chunk.as_string_view().iter()),
                },
            }
        }
        Ok(rows)
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
pub struct Repaired {
    rows: u64,
    /// Row of the first.
    first: usize,
    /// What it is, and why it had to be repaired.
    reported: (String, &'static str),
    /// Rows of the chunks and batches before.
    before: usize,
}

impl Repaired {
    fn add(&mut self, row: usize, why: &'static str, what: impl FnOnce() -> String) {
        if self.rows == 0 {
            (self.first, self.reported) = (self.before + row, (what(), why));
        }
        self.rows += 1;
    }

    /// Warns of them, if there are any.
    ///
    /// # Errors
    /// If warnings are errors.
    pub fn warn(&self, py: Python<'_>) -> PyResult<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let Self { rows, first, reported: (what, why), .. } = self;
        let reported = format!(
            "{what}: {rows} of the strings {why}, first in row {first}; U+FFFD stands for what is none"
        );
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(reported)?, 1)
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
/// a copy, without the rows that are not, with U+FFFD for what is no UTF-8. `repaired` hears of strings with such.
fn utf8(
    chunk: ArrayRef,
    is_row: impl Fn(usize) -> bool,
    column: &str,
    repaired: &mut Repaired,
) -> PyResult<ArrayRef> {
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
            repaired.add(row, "are no UTF-8", || format!("column {column}"));
        }
    }
    repaired.before += chunk.len();
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
