//! `documents.parquet`: the table of documents for programs that read columns.

use super::{DocumentRow, rounded};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group: some megabytes, all of which are in memory until they are written.
const GROUP_ROWS: usize = 1 << 14;

/// The version of the columns, for programs that read the table.
const VERSION: &str = "1";

/// Writes a whole table of documents to `path` as Parquet, and gives the number of rows. Its key-value metadata hold
/// the version of the table (`simflip.documents`) and `settings`, the run's settings in JSON (`simflip.settings`).
///
/// # Errors
/// As [`write()`](super::write()).
pub fn write_documents_parquet<'a>(
    path: &Path,
    settings: &str,
    rows: impl IntoIterator<Item = Result<DocumentRow<'a>>>,
) -> Result<u64> {
    let failed = |error: ParquetError| match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => Error::io(path, *error),
            Err(error) => Error::io(path, std::io::Error::other(error)),
        },
        error => Error::io(path, std::io::Error::other(error)),
    };
    let schema = Arc::new(Schema::new(vec![
        Field::new("file", DataType::Utf8, false),
        Field::new("row", DataType::UInt32, false),
        Field::new("id", DataType::Utf8, false),
        Field::new("url", DataType::Utf8, true),
        Field::new("cluster", DataType::UInt32, true),
        Field::new("size", DataType::UInt64, false),
        Field::new("kept", DataType::Boolean, false),
        Field::new("representative", DataType::Utf8, false),
        Field::new("similarity", DataType::Float64, true),
    ]));
    let entry = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let properties = WriterProperties::builder()
        .set_created_by(concat!("simflip version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_key_value_metadata(Some(vec![
            entry("simflip.documents", VERSION),
            entry("simflip.settings", settings),
        ]))
        .build();
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true)
        .with_schema_root("documents".to_owned());
    let file = File::create(path).map_err(|error| Error::io(path, error))?;
    let file = BufWriter::with_capacity(1 << 20, file);
    let mut writer = ArrowWriter::try_new_with_options(file, schema.clone(), options).map_err(failed)?;
    let (mut columns, mut waiting, mut written) = (WaitingRows::default(), 0, 0);
    for row in rows {
        columns.push(&row?);
        waiting += 1;
        written += 1;
        if waiting == GROUP_ROWS {
            columns.finish(schema.clone()).and_then(|batch| writer.write(&batch)).map_err(failed)?;
            waiting = 0;
        }
    }
    columns.finish(schema).and_then(|batch| writer.write(&batch)).map_err(failed)?;
    writer.close().map_err(failed)?;
    Ok(written)
}

/// Rows of the next row group, by columns.
#[derive(Default)]
struct WaitingRows {
    file: StringBuilder,
    row: UInt32Builder,
    id: StringBuilder,
    url: StringBuilder,
    cluster: UInt32Builder,
    size: UInt64Builder,
    kept: BooleanBuilder,
    representative: StringBuilder,
    similarity: Float64Builder,
}

impl WaitingRows {
    fn push(&mut self, row: &DocumentRow<'_>) {
        self.file.append_value(&row.file);
        self.row.append_value(row.row);
        self.id.append_value(&row.id);
        self.url.append_option((!row.url.is_empty()).then_some(&row.url));
        self.cluster.append_option(row.cluster);
        self.size.append_value(row.size);
        self.kept.append_value(row.kept);
        self.representative.append_value(&row.representative);
        self.similarity.append_option(row.similarity.map(rounded));
    }

    /// Takes all rows out, as a batch of this schema.
    fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ParquetError> {
        let columns = vec![
            Arc::new(self.file.finish()) as _,
            Arc::new(self.row.finish()) as _,
            Arc::new(self.id.finish()) as _,
            Arc::new(self.url.finish()) as _,
            Arc::new(self.cluster.finish()) as _,
            Arc::new(self.size.finish()) as _,
            Arc::new(self.kept.finish()) as _,
            Arc::new(self.representative.finish()) as _,
            Arc::new(self.similarity.finish()) as _,
        ];
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}
