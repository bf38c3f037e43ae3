//! The content of a Parquet file's footer.

use std::sync::Arc;

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{LogicalType, TimeUnit, TimestampType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaDataOptions, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::{ColumnDescPtr, SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

use super::columns::{ValueColumn, ValueKind};
use super::depth::check_schema;
use super::guard::guarded;
use super::stored::Stored;
use crate::corpus::corruption::{CorruptionCause, CorruptionKind, unreadable};
use crate::corpus::filetype::PARQUET_MAGIC;

/// The last bytes of a file whose footer is encrypted.
const MAGIC_ENCRYPTED: [u8; 4] = *b"PARE";
/// The longest footer that is read, and the longest head of a message of Arrow, in bytes.
pub(super) const FOOTER_CAP: u64 = 256 << 20;

/// The content of a file's footer.
#[derive(Debug)]
pub(super) struct Footer {
    /// The schema as the file states it.
    pub schema: SchemaDescPtr,
    /// Metadata for readers that give values as they are stored, whatever the schema says that they mean.
    pub metadata: ArrowReaderMetadata,
}

/// Bytes of memory that decoded footers of a file take: 28 times its stored bytes, for several readers and a copier.
pub(super) fn held(stored: &Stored) -> u64 {
    const TIMES: u64 = 4 * 7;
    let tail = stored.bytes(stored.length.saturating_sub(8), 8).ok().flatten();
    let size = tail.and_then(|tail| tail.first_chunk().map(|&size| u64::from(u32::from_le_bytes(size))));
    TIMES * size.unwrap_or(0).min(stored.length)
}

/// Reads a footer.
fn read_footer(stored: &Stored) -> Result<Vec<u8>, CorruptionCause> {
    let length = stored.length;
    let lost =
        "the footer is missing, and without it nothing of a Parquet file can be read; copy the file again";
    let truncated = || (CorruptionKind::Truncated, lost.to_owned());
    let tail = stored.bytes(length.saturating_sub(8), 8).map_err(unreadable)?.ok_or_else(truncated)?;
    let (size, magic) = tail.split_first_chunk::<4>().ok_or_else(truncated)?;
    if magic == MAGIC_ENCRYPTED {
        return Err((CorruptionKind::Undecodable, "the file is encrypted; decrypt it first".into()));
    }
    if magic != PARQUET_MAGIC {
        return Err(truncated());
    }
    let size = u64::from(u32::from_le_bytes(*size));
    if size > FOOTER_CAP || size + 12 > length {
        let detail = format!("a footer of {size} bytes in a file of {length}");
        return Err((CorruptionKind::Undecodable, detail));
    }
    let footer = stored.bytes(length - 8 - size, size).map_err(unreadable)?.ok_or_else(truncated)?;
    check_schema(&footer).map_err(|refusal| undecoded(refusal.to_owned()))?;
    Ok(footer)
}

fn undecoded(why: String) -> CorruptionCause {
    (CorruptionKind::Undecodable, format!("the footer does not decode: {why}"))
}

/// Reads a footer: its bytes, and the schema decoded from them.
pub(super) fn read_schema(stored: &Stored) -> Result<(Vec<u8>, SchemaDescPtr), CorruptionCause> {
    let footer = read_footer(stored)?;
    let schema =
        guarded(|| ParquetMetaDataReader::decode_schema(&footer)).map_err(|(_, why)| undecoded(why))?;
    Ok((footer, schema))
}

/// The columns of values that a schema has, in its order.
pub(super) fn columns(schema: &SchemaDescriptor) -> Vec<ValueColumn> {
    let column = |(root, descriptor): (usize, &ColumnDescPtr)| ValueColumn {
        root,
        children: Vec::new(),
        path: descriptor.path().string(),
        kind: ValueKind::of(descriptor),
        is_list: descriptor.max_rep_level() > 0,
        other: match descriptor.physical_type() {
            Physical::BYTE_ARRAY => None,
            other => Some(other.to_string()),
        },
    };
    schema.columns().iter().enumerate().map(column).collect()
}

/// A schema for reading or writing, by one that a file states, or by a part of it.
///
/// `with_meaning` false drops what the schema says that values mean, so that any column can be read as it is stored.
/// True makes it one that can be written: annotations that are newer than the writer go, and times of 96 bits, which
/// the format has given up, become microseconds.
pub(super) fn rebuilt(schema: &TypePtr, with_meaning: bool) -> Result<TypePtr, ParquetError> {
    let info = schema.get_basic_info();
    let is_known = |logical: &&LogicalType| !matches!(logical, LogicalType::_Unknown { .. });
    let logical = info.logical_type_ref().filter(is_known).cloned();
    let id = info.has_id().then(|| info.id());
    let built = match &**schema {
        Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
            let micros = TimestampType { is_adjusted_to_u_t_c: true, unit: TimeUnit::MICROS };
            let (physical, logical) = match physical_type {
                Physical::INT96 if with_meaning => (Physical::INT64, Some(LogicalType::Timestamp(micros))),
                physical => (*physical, logical),
            };
            let mut column = Type::primitive_type_builder(schema.name(), physical)
                .with_repetition(info.repetition())
                .with_length(*type_length);
            if with_meaning {
                column = column
                    .with_converted_type(info.converted_type())
                    .with_logical_type(logical)
                    .with_precision(*precision)
                    .with_scale(*scale)
                    .with_id(id);
            }
            column.build()?
        }
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(|field| rebuilt(field, with_meaning)).collect::<Result<_, _>>()?;
            let mut group = Type::group_type_builder(schema.name()).with_fields(fields);
            if info.has_repetition() {
                group = group.with_repetition(info.repetition());
            }
            if with_meaning {
                let converted = info.converted_type();
                group = group.with_converted_type(converted).with_logical_type(logical).with_id(id);
            }
            group.build()?
        }
    };
    Ok(Arc::new(built))
}

impl Footer {
    /// Reads and decodes the footer of a file. The error is the corruption that keeps the file from being read.
    pub fn of(stored: &Stored) -> Result<Self, CorruptionCause> {
        let (footer, schema) = read_schema(stored)?;
        let metadata = guarded(|| {
            let physical = SchemaDescriptor::new(rebuilt(&schema.root_schema_ptr(), false)?);
            let options = ParquetMetaDataOptions::new().with_schema(Arc::new(physical));
            let metadata = ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(&options))?;
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            ArrowReaderMetadata::try_new(Arc::new(metadata), options)
        });
        Ok(Self { schema, metadata: metadata.map_err(|(_, why)| undecoded(why))? })
    }

    /// The metadata of the row group with this number.
    pub fn group(&self, group: usize) -> &RowGroupMetaData {
        self.metadata.metadata().row_group(group)
    }

    /// The number of rows of each row group.
    pub fn rows(&self) -> Result<Vec<u64>, CorruptionCause> {
        let rows = |group: &RowGroupMetaData| {
            let rows = group.num_rows();
            u64::try_from(rows)
                .map_err(|_| (CorruptionKind::Undecodable, format!("a row group of {rows} rows")))
        };
        self.metadata.metadata().row_groups().iter().map(rows).collect()
    }
}
