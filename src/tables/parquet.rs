//! `pages.parquet`: the table of pages for programs that read columns.

use super::{PageRow, rounded};
use crate::{Error, Result};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group: some megabytes, all of which are in memory until they are written.
const GROUP_ROWS: usize = 1 << 14;

/// The version of the columns.
const VERSION: &str = "1";

const SCHEMA: &str = "message pages {
    required binary file (STRING);
    required int32 row (INTEGER(32, false));
    required binary id (STRING);
    optional binary url (STRING);
    optional int32 cluster (INTEGER(32, false));
    required int64 size (INTEGER(64, false));
    required boolean kept;
    required binary stays (STRING);
    optional double similarity;
}";

/// Writes a whole table of pages and tells the number of rows. Key-value metadata name the version of the
/// table (`simflip.pages`) and hold `settings`, the run's settings in JSON (`simflip.settings`).
///
/// # Errors
/// If the file cannot be written.
pub fn write_pages_parquet<'a>(
    path: &Path,
    settings: &str,
    rows: impl IntoIterator<Item = PageRow<'a>>,
) -> Result<u64> {
    write(path, settings, rows).map_err(|error| match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => Error::io(path, *error),
            Err(error) => Error::io(path, std::io::Error::other(error)),
        },
        error => Error::io(path, std::io::Error::other(error)),
    })
}

fn write<'a>(
    path: &Path,
    settings: &str,
    rows: impl IntoIterator<Item = PageRow<'a>>,
) -> Result<u64, ParquetError> {
    let entry = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let properties = WriterProperties::builder()
        .set_created_by(concat!("simflip version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![
            entry("simflip.pages", VERSION),
            entry("simflip.settings", settings),
        ]))
        .build();
    let file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut columns = Columns::default();
    let mut written = 0;
    for row in rows {
        columns.push(&row);
        written += 1;
        if columns.file.len() == GROUP_ROWS {
            std::mem::take(&mut columns).write(&mut writer)?;
        }
    }
    if !columns.file.is_empty() {
        columns.write(&mut writer)?;
    }
    writer.close()?;
    Ok(written)
}

/// A row group in the making.
#[derive(Default)]
struct Columns {
    file: Vec<ByteArray>,
    row: Vec<i32>,
    id: Vec<ByteArray>,
    url: Vec<Option<ByteArray>>,
    cluster: Vec<Option<i32>>,
    size: Vec<i64>,
    kept: Vec<bool>,
    stays: Vec<ByteArray>,
    similarity: Vec<Option<f64>>,
}

impl Columns {
    fn push(&mut self, row: &PageRow<'_>) {
        let text = |text: &str| ByteArray::from(text);
        self.file.push(text(&row.file));
        // The bits of an unsigned number, as the schema says.
        self.row.push(row.row.cast_signed());
        self.id.push(text(&row.id));
        self.url.push((!row.url.is_empty()).then(|| text(&row.url)));
        self.cluster.push(row.cluster.map(u32::cast_signed));
        self.size.push(row.size.cast_signed());
        self.kept.push(row.kept);
        self.stays.push(text(&row.stays));
        self.similarity.push(row.similarity.map(rounded));
    }

    fn write(self, writer: &mut SerializedFileWriter<BufWriter<File>>) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        column::<ByteArrayType>(&mut group, &self.file, None)?;
        column::<Int32Type>(&mut group, &self.row, None)?;
        column::<ByteArrayType>(&mut group, &self.id, None)?;
        optional::<ByteArrayType>(&mut group, self.url)?;
        optional::<Int32Type>(&mut group, self.cluster)?;
        column::<Int64Type>(&mut group, &self.size, None)?;
        column::<BoolType>(&mut group, &self.kept, None)?;
        column::<ByteArrayType>(&mut group, &self.stays, None)?;
        optional::<DoubleType>(&mut group, self.similarity)?;
        group.close().map(drop)
    }
}

type Group<'a> = SerializedRowGroupWriter<'a, BufWriter<File>>;

/// Writes the next column; `levels` say where its values are, if some are missing.
fn column<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("fewer columns than the schema has".to_owned()));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

fn optional<T: DataType>(group: &mut Group<'_>, values: Vec<Option<T::T>>) -> Result<(), ParquetError> {
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    column::<T>(group, &values, Some(&levels))
}
