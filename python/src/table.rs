//! Results as tables and columns that whatever speaks Arrow can take without a copy, and that need nothing
//! installed to be read.

use crate::errors::of_arrow;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, UInt32Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use arrow_select::concat::concat_batches;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyCapsule, PyIterator, PyList, PySlice, PyTuple};
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::{ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows of a result, by columns.
///
/// `len(table)` is the number of rows, `table["a"]` a column, and iterating gives a tuple for each row.
/// `pyarrow.table(table)`, `polars.DataFrame(table)` and whatever else speaks Arrow take it without a copy.
#[pyclass(frozen, module = "simflip")]
pub struct Table(RecordBatch);

impl Table {
    /// The rows of a batch.
    pub fn new(batch: RecordBatch) -> Self {
        Self(batch)
    }

    /// A table of named columns; a column may have nulls if `nullable` says so.
    ///
    /// # Errors
    /// If the columns differ in length.
    pub fn of(columns: Vec<(&str, ArrayRef, bool)>) -> PyResult<Self> {
        RecordBatch::try_from_iter_with_nullable(columns).map(Self).map_err(of_arrow)
    }

    /// The type of rows: tuples whose fields are the columns, so that pandas knows their names.
    fn row_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("collections")?.call_method1("namedtuple", ("Row", self.columns()))
    }

    fn row<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyTuple>> {
        let cells: PyResult<Vec<_>> = self.0.columns().iter().map(|column| cell(py, column, row)).collect();
        PyTuple::new(py, cells?)
    }

    /// A column by its name.
    ///
    /// # Errors
    /// `KeyError` if there is none.
    pub fn column(&self, name: &str) -> PyResult<ArrayRef> {
        let column = self.0.column_by_name(name);
        column.cloned().ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The rows of tables of the same columns, one behind the other.
    ///
    /// # Errors
    /// If the columns differ.
    pub fn concatenated(tables: &[Self]) -> PyResult<Self> {
        let schema = tables.first().map_or_else(|| Arc::new(Schema::empty()), |table| table.0.schema());
        concat_batches(&schema, tables.iter().map(|table| &table.0)).map(Self).map_err(of_arrow)
    }

    /// Adds a name and its value to the metadata of the schema.
    ///
    /// # Errors
    /// None that a table has shown yet: its columns stay as they are.
    pub fn saying(self, name: &str, said: String) -> Result<Self, ArrowError> {
        let metadata = HashMap::from([(name.to_owned(), said)]);
        let schema = self.0.schema().as_ref().clone().with_metadata(metadata);
        self.0.with_schema(Arc::new(schema)).map(Self)
    }
}

#[pymethods]
impl Table {
    /// The names of the columns, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// A column by its name, a row by its number.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(at) = name.extract::<isize>() {
            return self.row_type(py)?.call_method1("_make", (self.row(py, place(at, self.rows())?)?,));
        }
        let name: &str = &name.extract::<String>()?;
        let at = self.0.schema().index_of(name).map_err(|_| PyKeyError::new_err(name.to_owned()))?;
        let (array, field) = (self.0.column(at).clone(), self.0.schema().fields()[at].clone());
        Ok(Bound::new(py, Column { array, field })?.into_any())
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<TableRows> {
        let row_type = slf.get().row_type(slf.py())?.unbind();
        Ok(TableRows { table: slf.unbind(), row_type, next: 0 })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        /// Rows that are shown.
        const SHOWN: usize = 10;
        let rows = self.0.num_rows();
        let mut text = format!("<simflip.Table of {rows} rows: {}>", self.columns().join(", "));
        for row in 0..rows.min(SHOWN) {
            text += &format!("\n{}", self.row(py, row)?.repr()?);
        }
        if rows > SHOWN {
            text += &format!("\n… and {} more", rows - SHOWN);
        }
        Ok(text)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        pickled(slf.py(), &slf.get().0, false)
    }

    /// The rows as a list, a dict each.
    fn to_pylist<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("simflip")?.call_method1("_rows_of", (slf,))
    }

    /// A pandas data frame.
    fn to_pandas<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("simflip")?.call_method1("_data_frame", (slf,))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let fields = self.0.schema().fields().clone();
        let field = Field::new_struct("", fields, false).with_metadata(self.0.schema().metadata().clone());
        let array: ArrayRef = Arc::new(StructArray::from(self.0.clone()));
        let reader = ArrayIterator::new(std::iter::once(Ok(array)), Arc::new(field));
        to_stream_pycapsule(py, Box::new(reader), requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.0.schema().as_ref())
    }
}

/// The rows of a table, one after the other.
#[pyclass(module = "simflip")]
struct TableRows {
    table: Py<Table>,
    row_type: Py<PyAny>,
    next: usize,
}

#[pymethods]
impl TableRows {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let table = self.table.get();
        if self.next >= table.0.num_rows() {
            return Ok(None);
        }
        let row = self.next;
        self.next += 1;
        self.row_type.bind(py).call_method1("_make", (table.row(py, row)?,)).map(Some)
    }
}

/// A column of a result: a sequence that speaks Arrow and numpy.
#[pyclass(frozen, sequence, subclass, module = "simflip")]
pub struct Column {
    array: ArrayRef,
    field: FieldRef,
}

impl Column {
    /// A column without nulls.
    pub fn new(name: &str, array: ArrayRef) -> Self {
        let field = Arc::new(Field::new(name, array.data_type().clone(), false));
        Self { array, field }
    }
}

/// Row numbers. Python knows them as a `Sequence`, by which polars indexes; of a column that is one, polars takes
/// values one by one, without their type.
#[pyclass(frozen, sequence, extends = Column, module = "simflip")]
pub struct RowNumbers;

impl RowNumbers {
    /// A column of row numbers.
    ///
    /// # Errors
    /// If the interpreter has no room for it.
    pub fn new(py: Python<'_>, name: &str, rows: UInt32Array) -> PyResult<Py<Self>> {
        Py::new(py, PyClassInitializer::from(Column::new(name, Arc::new(rows))).add_subclass(Self))
    }
}

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    /// A value by its row, or the values of a slice as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, at: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if at.is_instance_of::<PySlice>() {
            return self.tolist(py)?.as_any().get_item(at);
        }
        cell(py, &self.array, place(at.extract()?, self.array.len())?)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.tolist(py)?.try_iter()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let Self { array, field } = slf.get();
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let table = RecordBatch::try_new(schema, vec![array.clone()]).map_err(of_arrow)?;
        pickled(slf.py(), &table, true)
    }

    /// The values as a list; `None` for null.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let cells: PyResult<Vec<_>> = (0..self.array.len()).map(|row| cell(py, &self.array, row)).collect();
        PyList::new(py, cells?)
    }

    fn __repr__(&self) -> String {
        let (n, kind) = (self.array.len(), self.array.data_type());
        // A package that does not take a column shows this in its message.
        format!("<simflip.Column {} of {n} values: {kind}; tolist() gives them>", self.field.name())
    }

    /// The values as numpy has them, which pandas asks for in this way where a frame is indexed by a column.
    fn __call__<'py>(&self, py: Python<'py>, _frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.__array__(py, None, None)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(pyo3::exceptions::PyValueError::new_err("an array of a column is a copy"));
        }
        let numpy = py.import("numpy")?;
        let of =
            // Bytes that can be changed: the array is the caller's.
            |bytes: Vec<u8>, dtype: &str| numpy.call_method1("frombuffer", (PyByteArray::new(py, &bytes), dtype));
        let array = match self.array.data_type() {
            _ if self.array.null_count() > 0 => numpy.call_method1("array", (self.tolist(py)?, "O"))?,
            DataType::UInt32 => of(bytes::<UInt32Type, 4>(&self.array, u32::to_ne_bytes), "uint32")?,
            DataType::UInt64 => of(bytes::<UInt64Type, 8>(&self.array, u64::to_ne_bytes), "uint64")?,
            DataType::Float32 => of(bytes::<Float32Type, 4>(&self.array, f32::to_ne_bytes), "float32")?,
            DataType::Boolean => of(
                self.array.as_boolean().iter().map(|value| u8::from(value == Some(true))).collect(),
                "bool",
            )?,
            DataType::FixedSizeBinary(width) => {
                let rows = self.array.as_fixed_size_binary();
                let bytes = rows.iter().flatten().flatten().copied().collect();
                of(bytes, "uint8")?.call_method1("reshape", (self.array.len(), *width))?
            }
            DataType::FixedSizeList(_, width) => {
                let values = self.array.as_fixed_size_list().values();
                of(bytes::<UInt32Type, 4>(values, u32::to_ne_bytes), "uint32")?
                    .call_method1("reshape", (self.array.len(), *width))?
            }
            DataType::Utf8 => numpy.call_method1("array", (self.tolist(py)?, "U"))?,
            _ => numpy.call_method1("array", (self.tolist(py)?,))?,
        };
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        to_array_pycapsules(py, self.field.clone(), &self.array, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.field.as_ref())
    }
}

/// The row of a number, which counts from the end if it is negative.
fn place(at: isize, rows: usize) -> PyResult<usize> {
    let from_end = if at < 0 { rows as isize } else { 0 };
    let found = usize::try_from(at + from_end).ok().filter(|&at| at < rows);
    found.ok_or_else(|| PyIndexError::new_err(format!("{at}: there are {rows} rows")))
}

fn bytes<T: ArrowPrimitiveType, const N: usize>(array: &ArrayRef, of: fn(T::Native) -> [u8; N]) -> Vec<u8> {
    array.as_primitive::<T>().values().iter().flat_map(|&value| of(value)).collect()
}

/// Pickles a table, or the one column of it: gives the function that makes it again, and its arguments.
fn pickled<'py>(py: Python<'py>, table: &RecordBatch, is_column: bool) -> PyResult<Bound<'py, PyTuple>> {
    let mut writer = StreamWriter::try_new(Vec::new(), &table.schema()).map_err(of_arrow)?;
    writer.write(table).map_err(of_arrow)?;
    let bytes = PyBytes::new(py, &writer.into_inner().map_err(of_arrow)?);
    let function = py.import("simflip._simflip")?.getattr("unpickled")?;
    PyTuple::new(
        py,
        [
            function,
            PyTuple::new(py, [bytes.into_any(), is_column.into_pyobject(py)?.to_owned().into_any()])?
                .into_any(),
        ],
    )
}

/// A table, or the column of a table of one, as it was pickled.
///
/// # Errors
/// If the bytes are no stream of Arrow with one batch.
#[pyfunction]
pub fn unpickled<'py>(py: Python<'py>, bytes: &[u8], is_column: bool) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = StreamReader::try_new(bytes, None).map_err(of_arrow)?;
    let table = reader.next().transpose().map_err(of_arrow)?;
    let table = table.unwrap_or_else(|| RecordBatch::new_empty(reader.schema()));
    if !is_column {
        return Ok(Bound::new(py, Table(table))?.into_any());
    }
    let column = table.columns().first().cloned().zip(table.schema().fields().first().cloned());
    let (array, field) = column.ok_or_else(|| PyTypeError::new_err("a column of a table without columns"))?;
    if matches!(&field.name()[..], "kept" | "removed")
        && let Some(rows) = array.as_primitive_opt::<UInt32Type>()
    {
        return Ok(RowNumbers::new(py, field.name(), rows.clone())?.into_bound(py).into_any());
    }
    Ok(Bound::new(py, Column { array, field })?.into_any())
}

/// A value as the interpreter has it.
fn cell<'py>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match array.data_type() {
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
        DataType::FixedSizeBinary(_) => PyBytes::new(py, array.as_fixed_size_binary().value(row)).into_any(),
        DataType::FixedSizeList(..) => {
            let values = array.as_fixed_size_list().value(row);
            PyList::new(py, values.as_primitive::<UInt32Type>().values().iter().copied())?.into_any()
        }
        other => return Err(PyTypeError::new_err(format!("no value of {other} is shown"))),
    })
}
