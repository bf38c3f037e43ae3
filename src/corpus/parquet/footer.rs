//! What a footer says a file holds, and which of its columns are wanted.

use std::sync::Arc;

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as Physical;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaDataOptions, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::{ColumnDescriptor, SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

use super::depth::check_schema;
use super::guard::{Flaw, guarded};
use super::stored::Stored;
use crate::corpus::damage::DamageKind;
use crate::corpus::filetype::PARQUET_MAGIC;
use crate::corpus::inputs::Input;
use crate::corpus::jsonl::{JsonlFields, twice};
use crate::corpus::options::ReadOptions;
use crate::corpus::storage::StoredFile;

/// How a file ends whose footer is encrypted.
const MAGIC_ENCRYPTED: [u8; 4] = *b"PARE";
/// The longest footer that is read.
const FOOTER_CAP: u64 = 256 << 20;

/// A column that is read.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub index: usize,
    pub descriptor: Arc<ColumnDescriptor>,
}

/// Columns besides the text.
pub(super) const NAMES: usize = 4;

/// What a file holds, and which of it is wanted.
#[derive(Debug)]
pub(super) struct Layout {
    pub schema: SchemaDescPtr,
    /// For readers, which give values as they are stored, whatever the schema says that they mean.
    pub metadata: ArrowReaderMetadata,
    /// Of the text, or of the texts that are joined.
    pub texts: Vec<Column>,
    /// Id, URL, language and score.
    pub names: [Option<Column>; NAMES],
    /// The row at which each row group begins, and the row behind the last.
    pub starts: Vec<u64>,
}

/// Bytes of the footer, as a file says; 0 if it does not.
pub(crate) fn footer_bytes(file: StoredFile) -> u64 {
    let length = || {
        let stored = Arc::new(Stored::new(file).ok()?);
        let end = stored.length();
        let from = end.checked_sub(8)?;
        let tail = stored.within(from, end).and_then(|stored| stored.bytes(from, 8)).ok()??;
        tail.first_chunk().map(|&size| u64::from(u32::from_le_bytes(size)).min(end))
    };
    length().unwrap_or(0)
}

/// Reads a footer.
fn read_footer(stored: &Stored) -> Result<Vec<u8>, Flaw> {
    let io = |error: std::io::Error| (DamageKind::Unreadable, error.to_string());
    let length = stored.length();
    let lost =
        "the footer is missing, and without it nothing of a Parquet file can be read; copy the file again";
    let truncated = || (DamageKind::Truncated, lost.to_owned());
    let tail = stored.bytes(length.saturating_sub(8), 8).map_err(io)?.ok_or_else(truncated)?;
    let (size, magic) = tail.split_first_chunk::<4>().ok_or_else(truncated)?;
    if magic == MAGIC_ENCRYPTED {
        return Err((DamageKind::Corrupt, "the file is encrypted; decrypt it first".into()));
    }
    if magic != PARQUET_MAGIC {
        return Err(truncated());
    }
    let size = u64::from(u32::from_le_bytes(*size));
    if size > FOOTER_CAP || size + 12 > length {
        let detail = format!("a footer of {size} bytes in a file of {length}");
        return Err((DamageKind::Corrupt, detail));
    }
    let footer = stored.bytes(length - 8 - size, size).map_err(io)?.ok_or_else(truncated)?;
    check_schema(&footer).map_err(|refusal| undecoded(refusal.to_owned()))?;
    Ok(footer)
}

fn undecoded(why: String) -> Flaw {
    (DamageKind::Corrupt, format!("the footer does not decode: {why}"))
}

fn read_schema(footer: &[u8]) -> Result<SchemaDescPtr, Flaw> {
    guarded(DamageKind::Corrupt, || ParquetMetaDataReader::decode_schema(footer))
        .map_err(|(_, why)| undecoded(why))
}

/// A schema without what it says that values mean: each value is read as it is stored, and any column can be.
fn physical(schema: &TypePtr) -> Result<TypePtr, ParquetError> {
    let info = schema.get_basic_info();
    let built = match &**schema {
        Type::PrimitiveType { physical_type, type_length, .. } => {
            Type::primitive_type_builder(schema.name(), *physical_type)
                .with_repetition(info.repetition())
                .with_length(*type_length)
                .build()?
        }
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(physical).collect::<Result<Vec<_>, _>>()?;
            let group = Type::group_type_builder(schema.name()).with_fields(fields);
            match info.has_repetition() {
                true => group.with_repetition(info.repetition()).build()?,
                false => group.build()?,
            }
        }
    };
    Ok(Arc::new(built))
}

/// The names of a file's columns; none if its footer does not read.
pub(crate) fn column_names(input: &Input) -> Vec<String> {
    let stored = input.open().and_then(Stored::new).ok();
    let schema = stored.and_then(|stored| read_schema(&read_footer(&stored).ok()?).ok());
    schema.map_or_else(Vec::new, |schema| schema.columns().iter().map(|column| called(column)).collect())
}

/// The first names of columns, for a person.
fn listed(schema: &SchemaDescriptor) -> String {
    const LISTED: usize = 40;
    let columns = schema.columns();
    let mut names: Vec<String> = columns.iter().take(LISTED).map(|column| called(column)).collect();
    if columns.len() > LISTED {
        names.push(format!("and {} more", columns.len() - LISTED));
    }
    names.join(", ")
}

/// What a column is called: the names of the groups that it stands in and its own, without those that the format gives
/// lists and their elements.
fn called(descriptor: &ColumnDescriptor) -> String {
    let mut name = descriptor.path().string();
    for list in [".list.element", ".list.item", ".bag.array_element"] {
        name = name.replace(list, "");
    }
    name
}

/// The column of a name: as the format has it, or as [`called`]; `/a/b` is `a.b`.
fn find_column(schema: &SchemaDescriptor, name: &str) -> Option<Column> {
    let columns = schema.columns();
    let dotted = name.strip_prefix('/').map(|pointer| pointer.replace('/', "."));
    let name = dotted.as_deref().unwrap_or(name);
    let literal = columns.iter().position(|column| column.path().string() == name);
    let index = literal.or_else(|| columns.iter().position(|column| called(column) == name))?;
    Some(Column { index, descriptor: columns[index].clone() })
}

/// A name that is wanted and that two columns have.
fn find_twice<'f>(schema: &SchemaDescriptor, fields: &'f JsonlFields) -> Option<&'f str> {
    let columns = schema.columns();
    let is_twice = |name: &&str| columns.iter().filter(|column| column.path().string() == **name).count() > 1;
    fields.wanted().find(is_twice)
}

/// The columns of the text.
fn text_columns(schema: &SchemaDescriptor, fields: &JsonlFields) -> Result<Vec<Column>, Flaw> {
    let advice = || format!("--text-field names another one of {}", listed(schema));
    let text_column = |name: &str| {
        // Of a conversation, what its messages say.
        let messages =
            || ["content", "value"].iter().find_map(|it| find_column(schema, &format!("{name}.{it}")));
        let column = find_column(schema, name).or_else(messages);
        let Some(column) = column else {
            return Err((DamageKind::NoText, format!("no column {name:?}; {}", advice())));
        };
        match column.descriptor.physical_type() {
            Physical::BYTE_ARRAY => Ok(column),
            other => {
                let detail = format!("column {name:?} is {other}, not strings; {}", advice());
                Err((DamageKind::NoText, detail))
            }
        }
    };
    match text_column(&fields.text) {
        Err((DamageKind::NoText, _)) if fields.joined().next().is_some() => {
            fields.joined().map(text_column).collect()
        }
        one => Ok(vec![one?]),
    }
}

/// A column that may hold names: one for each row.
fn name_column(schema: &SchemaDescriptor, name: &str) -> Option<Column> {
    find_column(schema, name).filter(|column| column.descriptor.max_rep_level() == 0)
}

impl Layout {
    pub fn of(stored: &Stored, options: &ReadOptions) -> Result<Self, Flaw> {
        let footer = read_footer(stored)?;
        let schema = read_schema(&footer)?;
        let fields = &options.fields;
        if let Some(name) = find_twice(&schema, fields) {
            return Err((DamageKind::NoText, twice(name)));
        }
        let texts = text_columns(&schema, fields)?;
        let names = [Some(&fields.id), Some(&fields.url), Some(&fields.language), fields.score.as_ref()];
        let names = names.map(|name| name.and_then(|name| name_column(&schema, name)));
        let metadata = guarded(DamageKind::Corrupt, || {
            let physical = SchemaDescriptor::new(physical(&schema.root_schema_ptr())?);
            let options = ParquetMetaDataOptions::new().with_schema(Arc::new(physical));
            let metadata = ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(&options))?;
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            ArrowReaderMetadata::try_new(Arc::new(metadata), options)
        });
        let metadata = metadata.map_err(|(_, why)| undecoded(why))?;
        let mut starts = vec![0];
        for group in metadata.metadata().row_groups() {
            let rows = u64::try_from(group.num_rows()).ok();
            let next = rows.and_then(|rows| starts.last().and_then(|&start: &u64| start.checked_add(rows)));
            let next = next
                .ok_or_else(|| (DamageKind::Corrupt, format!("a row group of {} rows", group.num_rows())))?;
            starts.push(next);
        }
        Ok(Self { schema, metadata, texts, names, starts })
    }

    /// A row group.
    pub fn group(&self, group: usize) -> &RowGroupMetaData {
        self.metadata.metadata().row_group(group)
    }

    /// Decoded bytes of the texts of a row group, as the footer says.
    pub fn text_bytes(&self, group: usize) -> u64 {
        let group = self.group(group);
        let bytes =
            |column: &Column| u64::try_from(group.column(column.index).uncompressed_size()).unwrap_or(0);
        self.texts.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// Where the text of a row group stands in the file.
    pub fn offset(&self, group: usize) -> u64 {
        let chunk = self.group(group).column(self.texts[0].index);
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        u64::try_from(start).unwrap_or(0)
    }

    /// The row group that a row stands in.
    pub fn group_of(&self, row: u32) -> Option<usize> {
        let group = self.starts.partition_point(|&start| start <= u64::from(row)) - 1;
        (group + 1 < self.starts.len()).then_some(group)
    }
}
