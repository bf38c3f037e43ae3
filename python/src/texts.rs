//! Texts as Python has them: an iterable of `str`, or whatever speaks Arrow's PyCapsule interface. None of them
//! is copied, save texts of dictionaries.

use crate::errors::of_arrow;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use pyo3_arrow::PyArray;
use pyo3_arrow::input::AnyArray;

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

/// The chunks of an Arrow array or stream: those of a column, or of a table, which are structs.
pub fn chunks(data: &Bound<'_, PyAny>) -> PyResult<Vec<ArrayRef>> {
    let arrays: AnyArray = if data.hasattr("__arrow_c_stream__")? {
        data.extract()?
    } else {
        AnyArray::Array(data.extract::<PyArray>()?)
    };
    Ok(arrays.into_chunked_array()?.into_inner().0)
}

impl<'py> Texts<'py> {
    /// The texts of `data`: of its column `column`, if it is a table.
    ///
    /// # Errors
    /// `TypeError` for what holds no texts, `ValueError` if the table has no such column.
    pub fn new(data: &Bound<'py, PyAny>, column: &str) -> PyResult<Self> {
        if is_arrow(data)? {
            return Self::of_chunks(chunks(data)?, column);
        }
        if data.is_instance_of::<PyString>() || data.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err(
                "expected texts: a list, or a table or column that speaks Arrow; one text has no duplicates",
            ));
        }
        let mut strings = Vec::with_capacity(data.len().unwrap_or_default());
        for (row, text) in data.try_iter()?.enumerate() {
            let text = text?;
            strings.push(match text.is_none() {
                true => None,
                false => Some(text.cast_into::<PyString>().map_err(|error| {
                    let got = error
                        .into_inner()
                        .get_type()
                        .name()
                        .map_or_else(|_| String::new(), |n| n.to_string());
                    PyTypeError::new_err(format!("text {row}: expected str or None, not {got}"))
                })?),
            });
        }
        Ok(Self::Strings(strings))
    }

    fn of_chunks(chunks: Vec<ArrayRef>, column: &str) -> PyResult<Self> {
        let of = |chunk: ArrayRef| {
            let Some(table) = chunk.as_struct_opt() else { return strings(chunk, column) };
            let found = table.column_by_name(column).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "column {column}: expected one of {}",
                    table.column_names().join(", ")
                ))
            })?;
            strings(found.clone(), column)
        };
        Ok(Self::Chunks(chunks.into_iter().map(of).collect::<PyResult<_>>()?))
    }

    /// The texts, row by row; `None` where there is none.
    ///
    /// # Errors
    /// `UnicodeEncodeError`, a `ValueError`, for a `str` with half a surrogate pair.
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

/// The chunk, if it is one of strings.
fn strings(chunk: ArrayRef, column: &str) -> PyResult<ArrayRef> {
    match chunk.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(chunk),
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
