//! Writes kept rows of Parquet with all of their columns, and finds those of Parquet and Arrow that are still there.
//!
//! Values are read as they are stored and written as the input's schema says, column by column, so that any
//! type arrives as it was. Row groups are encoded side by side and put behind one another.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use rayon::prelude::*;

use super::columns::{BATCH_ROWS, reader};
use super::footer::{Footer, rebuilt};
use super::guard::guarded;
use super::layout::{Contents, Layout};
use super::ranges;
use super::stored::Stored;
use crate::corpus::corruption::{Corruption, CorruptionCause};
use crate::corpus::fetch::read_otherwise;
use crate::corpus::input::Input;
use crate::corpus::kept::{Kept, KeptColumns, NumberedFiles, Target};
use crate::corpus::options::ReadOptions;
use crate::corpus::write::{KeptJob, lost};
use crate::document::{DocId, Place};
use crate::{Error, Result};

/// The most row groups of a file that is written; the format ends at 2¹⁵.
const GROUPS: u64 = 30_000;

/// Stored bytes of a row group that is written, about. It is in memory until it is written.
pub(crate) const GROUP_BYTES: u64 = 16 << 20;

/// Kept rows of a row group of Parquet.
#[derive(Clone)]
struct CopySource<'a> {
    shard: u32,
    input: &'a Input,
    layout: Arc<Layout>,
    metadata: ArrowReaderMetadata,
    group: usize,
    /// The rows, counted from the start of the file.
    rows: Vec<u32>,
}

/// The columns of an input, the number of its rows, and the number of those in its largest row group or record batch.
///
/// # Errors
/// The corruption that keeps the input from being read.
pub(crate) fn columns_of(
    input: &Input,
    options: &ReadOptions,
) -> Result<(KeptColumns, u64, u64), CorruptionCause> {
    let layout = Layout::of(input, options)?;
    let largest = layout.groups.iter().map(|group| group.rows.end - group.rows.start).max();
    let columns = match &layout.contents {
        Contents::Parquet(footer) => KeptColumns::Parquet(footer.schema.root_schema_ptr()),
        Contents::Arrow(messages) => KeptColumns::Arrow(messages.schema.fields().clone()),
    };
    Ok((columns, layout.rows(), largest.unwrap_or(1)))
}

/// The kept documents of an input, and its layout.
type KeptRows<'k> = (Cow<'k, [(DocId, Place)]>, Layout);

/// The kept documents of an input that are still there, and its layout. `gone` gets the corruption of the others.
/// `None` if the input cannot be read any more, or if nothing of it is kept and `even_empty` is false.
pub(super) fn kept_rows<'k>(
    job: &KeptJob<'k>,
    shard: u32,
    even_empty: bool,
    gone: &mut Vec<Corruption>,
) -> Result<Option<KeptRows<'k>>> {
    let (input, mut kept) = (&job.inputs[shard as usize], job.kept.of_file(shard)?);
    if kept.is_empty() && !even_empty {
        return Ok(None);
    }
    if !input.is_as_found() {
        let (there, why) = job.still_there(&kept);
        gone.extend(lost(input, &kept, &there, why.as_deref().unwrap_or("the file changed")));
        kept = there.into();
    }
    match Layout::of(input, job.options) {
        Ok(layout) => Ok(Some((kept, layout))),
        Err((_, why)) => {
            gone.extend(lost(input, &kept, &[], &why));
            Ok(None)
        }
    }
}

/// The error for an input that has another content than before; `got` says what was found, in words.
pub(super) fn changed(input: &Input, got: impl Into<String>) -> Error {
    read_otherwise(input, "a file read before", "the same content".to_owned(), got.into())
}

/// Rows of a row group. Where files are to be of a size, some row groups make a file, as far as the stored bytes of all
/// rows tell.
fn rows_of_group(job: &KeptJob<'_>, target: &Target) -> Result<u64> {
    let size = job.files.size();
    let bytes = size.map_or(GROUP_BYTES, |size| GROUP_BYTES.min(size / 4));
    let stored = target.shards.iter().map(|&shard| u128::from(job.inputs[shard as usize].stored_bytes()));
    let rows = u128::from(bytes) * u128::from(target.rows) / stored.sum::<u128>().max(1);
    let rows = u64::try_from(rows).unwrap_or(u64::MAX).min(target.largest).max(1);
    Ok(if size.is_some() { rows } else { rows.max(job.number_of(target)? / GROUPS) })
}

/// The way the input is written, as far as it can be known: compression and dictionaries of each column, and
/// what is said about the file.
fn properties(footer: &Footer) -> WriterProperties {
    let metadata = footer.metadata.metadata();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("simflip version ", env!("CARGO_PKG_VERSION")).to_owned())
        // A page is as large as it is meant to be only to the nearest batch of values.
        .set_write_batch_size(64)
        .set_key_value_metadata(metadata.file_metadata().key_value_metadata().cloned());
    for chunk in metadata.row_groups().iter().take(1).flat_map(|group| group.columns()) {
        let path = chunk.column_path();
        properties = properties
            .set_column_compression(path.clone(), chunk.compression())
            .set_column_dictionary_enabled(path.clone(), chunk.dictionary_page_offset().is_some());
    }
    properties.build()
}

/// The metadata of a reader of stored values, with times of 96 bits as microseconds.
fn in_micros(metadata: &ArrowReaderMetadata) -> Result<ArrowReaderMetadata, ParquetError> {
    fn changed(field: &FieldRef) -> FieldRef {
        let data_type = match field.data_type() {
            DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Struct(fields) => DataType::Struct(all(fields)),
            DataType::List(field) => DataType::List(changed(field)),
            _ => return field.clone(),
        };
        Arc::new(Field::clone(field).with_data_type(data_type))
    }
    fn all(fields: &Fields) -> Fields {
        fields.iter().map(changed).collect()
    }
    let schema = Schema::new(all(metadata.schema().fields()));
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)
}

/// The outcome for the sources of a row group: its encoded columns, of those that are left, these, and the others'
/// corruption.
type Settled<'a> = (Vec<ArrowColumnChunk>, Vec<CopySource<'a>>, Vec<Corruption>);

/// The schema and the options by which kept rows are written.
struct RowForm {
    schema: TypePtr,
    properties: Arc<WriterProperties>,
    columns: ArrowRowGroupWriterFactory,
}

type FileWriter = SerializedFileWriter<BufWriter<File>>;

impl RowForm {
    /// Encodes the rows of some sources.
    fn encode(&self, sources: &[CopySource<'_>]) -> Result<Vec<ArrowColumnChunk>, CorruptionCause> {
        guarded(|| {
            let mut writers = self.columns.create_column_writers(0)?.into_iter();
            let mut columns = Vec::new();
            let Some(first) = sources.first() else { return Ok(columns) };
            let (fields, schema) = (first.metadata.schema().fields(), first.metadata.parquet_schema());
            // One after the other, so that of one only there are values in memory.
            for (number, field) in fields.iter().enumerate() {
                let leaves = (columns.len()..schema.num_columns())
                    .take_while(|&leaf| schema.get_column_root_idx(leaf) == number);
                let mut of_field: Vec<_> = writers.by_ref().take(leaves.count()).collect();
                let at = columns.len()..columns.len() + of_field.len();
                for source in sources {
                    let mut write = |array: &ArrayRef| {
                        let leaves = compute_leaves(field, array)?;
                        of_field.iter_mut().zip(&leaves).try_for_each(|(writer, leaf)| writer.write(leaf))
                    };
                    guarded(|| source.each_batch(at.clone(), &mut write)).map_err(|(_, detail)| {
                        ParquetError::General(format!("column {:?}: {detail}", field.name()))
                    })?;
                }
                for writer in of_field {
                    columns.push(writer.close()?);
                }
            }
            Ok(columns)
        })
    }

    /// Encodes the sources of a row group, without those that turn out to be corrupt.
    fn settle<'a>(&self, sources: Vec<CopySource<'a>>) -> Result<Settled<'a>, ParquetError> {
        if let Ok(encoded) = self.encode(&sources) {
            return Ok((encoded, sources, Vec::new()));
        }
        let (mut good, mut lost) = (Vec::new(), Vec::new());
        for source in sources {
            match self.encode(std::slice::from_ref(&source)) {
                Ok(_) => good.push(source),
                Err(flaw) => lost.push(source.lost(flaw)),
            }
        }
        let encoded = self.encode(&good).map_err(|(_, detail)| ParquetError::General(detail))?;
        Ok((encoded, good, lost))
    }
}

/// A file in the making, or, where a size is set, the last of several, and the row groups for it.
struct ParquetOutput<'a> {
    files: NumberedFiles<'a>,
    writer: FileWriter,
    form: RowForm,
    ready: Vec<Vec<CopySource<'a>>>,
    lost: Vec<Corruption>,
}

impl<'a> ParquetOutput<'a> {
    fn create(
        files: NumberedFiles<'a>,
        schema: &TypePtr,
        first: &Footer,
        arrays: SchemaRef,
    ) -> Result<Self, ParquetError> {
        let (schema, properties) = (rebuilt(schema, true)?, Arc::new(properties(first)));
        let writer = SerializedFileWriter::new(files.create()?, schema.clone(), properties.clone())?;
        let form = RowForm { schema, properties, columns: ArrowRowGroupWriterFactory::new(&writer, arrays) };
        Ok(Self { files, writer, form, ready: Vec::new(), lost: Vec::new() })
    }

    /// Writes the row groups that are ready, encoding them side by side.
    fn write(&mut self, pool: &rayon::ThreadPool) -> Result<(), ParquetError> {
        let ready: Vec<Vec<CopySource<'a>>> = std::mem::take(&mut self.ready);
        let settled: Vec<_> =
            pool.install(|| ready.into_par_iter().map(|sources| self.form.settle(sources)).collect());
        settled.into_iter().try_for_each(|settled| self.add(settled?))
    }

    /// Adds a row group, or its halves, if it is larger than a file may be.
    fn add(&mut self, settled: Settled<'a>) -> Result<(), ParquetError> {
        let (encoded, sources, lost) = settled;
        self.lost.extend(lost);
        if sources.is_empty() {
            return Ok(());
        }
        if let Some(size) = self.files.size {
            let bytes = encoded.iter().map(|column| column.close().bytes_written).sum::<u64>();
            if bytes > size && sources.iter().map(|source| source.rows.len()).sum::<usize>() > 1 {
                drop(encoded);
                return halves(&sources).into_iter().try_for_each(|half| self.add(self.form.settle(half)?));
            }
            let groups = self.writer.flushed_row_groups().len() as u64;
            let is_full = self.writer.bytes_written() as u64 + bytes > size || groups >= GROUPS;
            if groups > 0 && is_full {
                self.next_file()?;
            }
        }
        let mut group = self.writer.next_row_group()?;
        encoded.into_iter().try_for_each(|column| column.append_to_row_group(&mut group))?;
        group.close()?;
        sources.iter().for_each(|source| self.files.add(source.shard, source.rows.len() as u64));
        Ok(())
    }

    fn end_file(&mut self) -> Result<(), ParquetError> {
        self.writer.finish()?;
        Ok(self.files.end(self.writer.inner_mut())?)
    }

    /// Ends the file and begins the next one.
    fn next_file(&mut self) -> Result<(), ParquetError> {
        self.end_file()?;
        let RowForm { schema, properties, .. } = &self.form;
        self.writer = SerializedFileWriter::new(self.files.create()?, schema.clone(), properties.clone())?;
        Ok(())
    }
}

/// The rows of sources, as two of half as many.
fn halves<'a>(sources: &[CopySource<'a>]) -> [Vec<CopySource<'a>>; 2] {
    let mut left = sources.iter().map(|source| source.rows.len()).sum::<usize>() / 2;
    let mut halves = [Vec::new(), Vec::new()];
    for source in sources {
        let (first, second) = source.rows.split_at(left.min(source.rows.len()));
        left -= first.len();
        for (half, rows) in halves.iter_mut().zip([first, second]).filter(|(_, rows)| !rows.is_empty()) {
            half.push(CopySource { rows: rows.to_vec(), ..source.clone() });
        }
    }
    halves
}

impl CopySource<'_> {
    /// Hands over the kept values of adjacent columns, batch by batch.
    fn each_batch(
        &self,
        columns: Range<usize>,
        mut each: impl FnMut(&ArrayRef) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let group = self.metadata.metadata().row_group(self.group);
        let rows = usize::try_from(group.num_rows())?;
        let values = group.columns()[columns.clone()].iter().map(|column| column.num_values()).max();
        let batch = rows_with(rows, usize::try_from(values.unwrap_or(0)).unwrap_or(usize::MAX));
        let stored = Stored::open(self.input)?;
        let kept = ranges(self.rows.iter().copied(), self.layout.groups[self.group].rows.start);
        let selection = RowSelection::from_consecutive_ranges(kept.into_iter(), rows);
        let mut left = self.rows.len();
        let reader = reader(&stored, &self.metadata, self.group, columns, Some(selection))?;
        for batch in reader.with_batch_size(batch).build()? {
            let batch = batch?;
            left = left.saturating_sub(batch.num_rows());
            each(batch.column(0))?;
        }
        match left {
            0 => Ok(()),
            _ => Err(ParquetError::EOF("the column ends before its row group".to_owned())),
        }
    }

    /// The corruption of rows that are lost.
    fn lost(&self, cause: CorruptionCause) -> Corruption {
        let (row, documents) = (u64::from(self.rows[0]), self.rows.len() as u64);
        self.layout.not_kept(self.group, row, documents, cause)
    }
}

/// Writes the kept rows of the Parquet inputs of a target, which all have this schema. Rows of a row group in which a
/// column that was not read before turns out to be corrupt are left out, and named in [`Kept::lost`].
///
/// # Errors
/// As [`KeptJob::write`].
pub(crate) fn write_parquet(
    job: &KeptJob<'_>,
    target: &Target,
    schema: &TypePtr,
    pool: &rayon::ThreadPool,
) -> Result<Kept> {
    let failed = |error: ParquetError| Error::io(&target.path, io::Error::other(error));
    let (mut output, mut lost): (Option<ParquetOutput<'_>>, Vec<Corruption>) = (None, Vec::new());
    let mut sources: Vec<CopySource<'_>> = Vec::new();
    let (mut waiting, enough) = (0, rows_of_group(job, target)?);
    let is_empty = job.number_of(target)? == 0;
    for &shard in &target.shards {
        let Some((kept, layout)) = kept_rows(job, shard, is_empty && output.is_none(), &mut lost)? else {
            continue;
        };
        let (input, layout) = (&job.inputs[shard as usize], Arc::new(layout));
        let Contents::Parquet(footer) = &layout.contents else { continue };
        let metadata = in_micros(&footer.metadata).map_err(failed)?;
        let output = match &mut output {
            Some(output) => output,
            None => {
                let files = NumberedFiles::new(target, job.files.size());
                let created = ParquetOutput::create(files, schema, footer, metadata.schema().clone());
                output.insert(created.map_err(failed)?)
            }
        };
        for (group, mut rest) in layout.by_group(&kept) {
            let group = group.ok_or_else(|| changed(input, "fewer rows"))?;
            while !rest.is_empty() {
                let room = usize::try_from(enough - waiting).unwrap_or(usize::MAX);
                let (here, behind) = rest.split_at(room.min(rest.len()));
                rest = behind;
                let (layout, metadata) = (layout.clone(), metadata.clone());
                let rows = here.iter().map(|(id, _)| id.row).collect();
                sources.push(CopySource { shard, input, layout, metadata, group, rows });
                waiting += here.len() as u64;
                if waiting >= enough {
                    waiting = 0;
                    output.ready.push(std::mem::take(&mut sources));
                    if output.ready.len() >= pool.current_num_threads() {
                        output.write(pool).map_err(failed)?;
                    }
                }
            }
        }
    }
    let Some(mut output) = output else { return Ok(Kept { files: Vec::new(), lost }) };
    if !sources.is_empty() {
        output.ready.push(sources);
    }
    output.write(pool).and_then(|()| output.end_file()).map_err(failed)?;
    output.lost.extend(lost);
    Ok(Kept { files: output.files.whole, lost: output.lost })
}

/// The number of rows to read at once, of rows with so many values: lists may be long, and a value takes more in memory
/// than on disk.
fn rows_with(rows: usize, values: usize) -> usize {
    /// Values that come at once, if a row has fewer.
    const VALUES: usize = 1 << 16;
    (VALUES / (values / rows.max(1)).max(1)).clamp(1, BATCH_ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::basic::{LogicalType, Repetition, Type as Physical};
    use parquet::schema::types::Type;

    #[test]
    fn annotations_from_the_future_are_left_out() {
        let leaf = |name: &str, logical| {
            let leaf = Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
                .with_id(Some(7));
            Arc::new(leaf.build().expect("a column"))
        };
        let root = |future| {
            let leaves = vec![leaf("text", Some(LogicalType::String)), leaf("new", future)];
            Arc::new(Type::group_type_builder("root").with_fields(leaves).build().expect("a schema"))
        };
        let future = root(Some(LogicalType::_Unknown { field_id: 99 }));
        let written = rebuilt(&future, true).expect("a schema");
        assert_eq!(written, root(None));
        assert_eq!(rebuilt(&written, true).expect("a schema"), written);
    }

    #[test]
    fn rows_of_many_values_come_few_at_a_time() {
        for (rows, values, expected) in [
            (1000, 1000, BATCH_ROWS),
            (1000, 0, BATCH_ROWS),
            (300, 10_000_000, 1),
            (300, 300 << 10, 64),
            (0, 0, BATCH_ROWS),
        ] {
            assert_eq!(rows_with(rows, values), expected, "{rows} rows of {values}");
        }
    }

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(ranges([3, 4, 5, 8, 10].into_iter(), 3), [0..3, 5..6, 7..8]);
    }
}
