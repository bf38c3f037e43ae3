//! Values of a column of a row group or record batch, some rows at a time: texts as bytes, and others as names.
//!
//! A column of values (a leaf of the schema) may lie in groups, structs, lists or maps. A name is the value of an id,
//! URL, language, score or group, as text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, DecimalType, Float16Type, Float32Type, Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, downcast_primitive_array};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, Field, TimeUnit as Unit};
use jiff::civil::Date;
use jiff::{Span, Timestamp};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

use super::stored::Stored;
use crate::corpus::jsonl::JOINT;
use crate::corpus::write::hyphenated;

/// The most rows that are decoded at once.
pub(super) const BATCH_ROWS: usize = 1024;
/// The longest name, in bytes.
const NAME_CAP: usize = 64 << 10;

/// A builder of a reader of adjacent columns of values, `columns`, of the row group with the number `group`. It reads
/// all rows, or those that `rows` selects.
pub(super) fn reader(
    stored: &Stored,
    metadata: &ArrowReaderMetadata,
    group: usize,
    columns: Range<usize>,
    rows: Option<RowSelection>,
) -> Result<ParquetRecordBatchReaderBuilder<Stored>, ParquetError> {
    let chunks = metadata.metadata().row_group(group).columns()[columns.clone()].iter();
    let (from, end) = chunks.fold((u64::MAX, 0), |(from, end), chunk| {
        let (start, length) = chunk.byte_range();
        (from.min(start), start.saturating_add(length).max(end))
    });
    if end > stored.length {
        let detail = format!("its data pages would end at byte {end} of a file of {}", stored.length);
        return Err(ParquetError::General(detail));
    }
    let stored = stored.within(from, end)?;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(stored, metadata.clone())
        .with_row_groups(vec![group])
        .with_projection(ProjectionMask::leaves(metadata.parquet_schema(), columns));
    Ok(rows.into_iter().fold(reader, |reader, rows| reader.with_row_selection(rows)))
}

fn places<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<usize> {
    offsets.iter().map(|at| at.as_usize()).collect()
}

/// A column of values.
#[derive(Clone, Debug)]
pub(super) struct ValueColumn {
    /// Parquet: its position among the columns of values. Arrow: the position of the column of the table that it is in.
    pub root: usize,
    /// Arrow: the path to it through structs, by the positions of their fields. Empty for Parquet.
    pub children: Vec<usize>,
    /// The names of the groups that it is in, and its own, with points in between, as the format has them.
    pub path: String,
    /// The meaning of its values, by which they are written as names.
    pub kind: ValueKind,
    /// True if a row may have any number of its values.
    pub is_list: bool,
    /// The name of the type of its values; `None` if they are strings or bytes, which can be texts.
    pub other: Option<String>,
}

impl ValueColumn {
    /// The name of the column for users: its path without the names that Parquet gives lists and their elements.
    pub fn called(&self) -> String {
        let mut name = self.path.clone();
        for list in [".list.element", ".list.item", ".bag.array_element"] {
            name = name.replace(list, "");
        }
        name
    }
}

/// Values of one column for some successive rows, which are counted from 0 here.
#[derive(Debug)]
pub(super) struct Values {
    array: ArrayRef,
    /// Where the values of each row are, if a row may have any number of them.
    rows: Option<Vec<Range<usize>>>,
    /// A bitmap of the values that are null; `None` if none is.
    nulls: Option<NullBuffer>,
    /// The position in the array of each value, if the array has the values of a dictionary.
    keys: Option<Vec<usize>>,
    kind: ValueKind,
    /// Bytes of memory that the values take.
    pub bytes: u64,
}

impl Values {
    /// Reads the next `rows` rows with a reader of this column of Parquet; an error if they are fewer.
    pub fn next_of(
        reader: &mut ParquetRecordBatchReader,
        rows: usize,
        column: &ValueColumn,
    ) -> Result<Self, ParquetError> {
        let batch = reader.next().transpose()?;
        let found = batch.as_ref().map_or(0, |batch| batch.num_rows());
        match batch {
            Some(batch) if found == rows && batch.num_columns() == 1 => {
                let values = Self::of(batch.column(0).clone(), column);
                Ok(Self { bytes: values.array.get_array_memory_size() as u64, ..values })
            }
            _ => Err(ParquetError::EOF(format!("{found} of {rows} rows, where the column ends"))),
        }
    }

    /// Takes a column of values out of an array that may have structs, lists and maps around it.
    pub fn of(mut array: ArrayRef, column: &ValueColumn) -> Self {
        let mut children = column.children.iter();
        let (mut rows, mut nulls): (Option<Vec<Range<usize>>>, Option<NullBuffer>) = (None, None);
        loop {
            nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
            let (offsets, values): (Vec<usize>, ArrayRef) = match array.data_type() {
                DataType::Struct(_) => {
                    // A reader of Parquet reads one column of values alone.
                    let at = children.next().copied().unwrap_or(0);
                    array = array.as_struct().column(at).clone();
                    continue;
                }
                DataType::List(_) => {
                    let list = array.as_list::<i32>();
                    (places(list.value_offsets()), list.values().clone())
                }
                DataType::LargeList(_) => {
                    let list = array.as_list::<i64>();
                    (places(list.value_offsets()), list.values().clone())
                }
                DataType::Map(..) => {
                    let map = array.as_map();
                    (places(map.value_offsets()), Arc::new(map.entries().clone()))
                }
                _ => break,
            };
            let first = offsets[0];
            let within = |row: Range<usize>| offsets[row.start] - first..offsets[row.end] - first;
            rows = Some(match rows {
                Some(rows) => rows.into_iter().map(within).collect(),
                None => {
                    let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                    let row = |row| if is_null(row) { 0..0 } else { within(row..row + 1) };
                    (0..array.len()).map(row).collect()
                }
            });
            array = values.slice(first, offsets[array.len()] - first);
            nulls = None;
        }
        let bytes = array.to_data().get_slice_memory_size().unwrap_or(0) as u64;
        let mut keys = None;
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let values = dictionary.values().clone();
            // Where there is no value at all no key is one of it.
            keys = Some(if values.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() });
            array = values;
        }
        Self { array, rows, nulls, keys, kind: column.kind, bytes }
    }

    /// The place of a value in the array, if it is there.
    fn place(&self, value: usize) -> Option<usize> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(value)) {
            return None;
        }
        match &self.keys {
            None => Some(value),
            Some(keys) => Some(keys[value]).filter(|&at| self.array.is_valid(at)),
        }
    }

    /// The texts of a row: one, or those of a list; none if it is null, or the values are neither strings nor bytes.
    pub fn texts(&self, row: usize) -> impl Iterator<Item = &[u8]> {
        let range = self.rows.as_ref().map_or(row..row + 1, |rows| rows[row].clone());
        range.filter_map(|value| self.place(value)).filter_map(|at| bytes(&self.array, at))
    }

    /// The value of a row as a name, in a column without lists.
    pub fn name(&self, row: usize) -> Name<'_> {
        let (array, kind) = (&self.array, self.kind);
        let Some(row) = self.place(row) else { return Ok(None) };
        let Some(bytes) = bytes(array, row) else {
            let written = match array.data_type() {
                DataType::Boolean => array.as_boolean().value(row).to_string(),
                DataType::Float16 => array.as_primitive::<Float16Type>().value(row).to_string(),
                DataType::Float32 => array.as_primitive::<Float32Type>().value(row).to_string(),
                DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
                _ => kind.written(whole(array, row).ok_or("is no single value")?)?,
            };
            return Ok(Some(written.into()));
        };
        let is_fixed = matches!(array.data_type(), DataType::FixedSizeBinary(_));
        Ok(Some(match kind {
            ValueKind::Decimal(_) => kind.written(big_endian(bytes).ok_or("is too long a number")?)?.into(),
            ValueKind::Uuid => {
                hyphenated(u128::from_be_bytes(bytes.try_into().map_err(|_| "is no UUID")?)).into()
            }
            _ if is_fixed && !bytes.iter().all(u8::is_ascii_graphic) => hex(bytes).into(),
            _ if bytes.len() > NAME_CAP => return Err("is too long"),
            _ => simdutf8::basic::from_utf8(bytes).map_err(|_| "is not UTF-8")?.into(),
        }))
    }
}

/// A whole number as it is stored, whatever it means; none in an array of anything else.
fn whole(array: &ArrayRef, row: usize) -> Option<i128> {
    use DataType::{Decimal128, Decimal256, Duration, Interval, Time32, Time64, UInt64};
    match array.data_type() {
        UInt64 => Some(array.as_primitive::<UInt64Type>().value(row).into()),
        Decimal128(..) => Some(array.as_primitive::<Decimal128Type>().value(row)),
        Decimal256(..) | Duration(_) | Interval(_) | Time32(_) | Time64(_) => None,
        _ => downcast_primitive_array!(array => array.value(row).to_i64().map(i128::from), _ => None),
    }
}

/// A string, or bytes; none in an array of anything else.
fn bytes(array: &ArrayRef, at: usize) -> Option<&[u8]> {
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(at),
        DataType::LargeBinary => array.as_binary::<i64>().value(at),
        DataType::BinaryView => array.as_binary_view().value(at),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(at),
        DataType::Utf8 => array.as_string::<i32>().value(at).as_bytes(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(at).as_bytes(),
        DataType::Utf8View => array.as_string_view().value(at).as_bytes(),
        _ => return None,
    })
}

/// A name as text, `None` if it is null, or the reason why it cannot be used.
pub(super) type Name<'a> = Result<Option<Cow<'a, str>>, &'static str>;

/// The text that some texts make: the only one, or several with [`JOINT`] in between, for which the buffer is used.
/// `None` if there are none.
pub(super) fn joined<'a>(
    mut texts: impl Iterator<Item = &'a [u8]>,
    buffer: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let first = texts.next()?;
    let Some(second) = texts.next() else { return Some(first) };
    *buffer = [first, second].into_iter().chain(texts).collect::<Vec<_>>().join(JOINT.as_bytes());
    Some(buffer)
}

/// The meaning of stored values, by which whole numbers and bytes are written as names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// Numbers or text as they are stored.
    Plain,
    /// Whole numbers without a sign, of so many bits.
    Unsigned(u32),
    /// Days since 1970.
    Date,
    /// Time since 1970 in units, of which so many make a second.
    Time(i128),
    /// Decimal numbers, stored as whole ones, with so many digits behind the point.
    Decimal(i32),
    /// UUIDs of 16 bytes.
    Uuid,
}

impl ValueKind {
    /// The meaning that a schema of Parquet gives to the values of a column.
    pub fn of(descriptor: &ColumnDescriptor) -> Self {
        let a_second = |unit: TimeUnit| match unit {
            TimeUnit::MILLIS => 1_000,
            TimeUnit::MICROS => 1_000_000,
            TimeUnit::NANOS => 1_000_000_000,
        };
        let physical = descriptor.physical_type();
        let unsigned = Self::Unsigned(if physical == Physical::INT32 { 32 } else { 64 });
        let decimal = Self::Decimal(descriptor.type_scale());
        match (descriptor.logical_type_ref(), descriptor.converted_type()) {
            // These are read as times.
            _ if physical == Physical::INT96 => Self::Time(1_000_000_000),
            (Some(LogicalType::Integer(integer)), _) if !integer.is_signed => unsigned,
            (Some(LogicalType::Date), _) => Self::Date,
            (Some(LogicalType::Timestamp(timestamp)), _) => Self::Time(a_second(timestamp.unit)),
            (Some(LogicalType::Decimal { .. }), _) => decimal,
            (Some(LogicalType::Uuid), _) => Self::Uuid,
            (Some(_), _) => Self::Plain,
            (None, ConvertedType::UINT_32 | ConvertedType::UINT_64) => unsigned,
            (None, ConvertedType::DATE) => Self::Date,
            (None, ConvertedType::TIMESTAMP_MILLIS) => Self::Time(1_000),
            (None, ConvertedType::TIMESTAMP_MICROS) => Self::Time(1_000_000),
            (None, ConvertedType::DECIMAL) => decimal,
            (None, _) => Self::Plain,
        }
    }

    /// The meaning that a field of Arrow gives to values of a type.
    pub fn of_field(field: &Field, values: &DataType) -> Self {
        match *values {
            DataType::Date32 => Self::Date,
            DataType::Timestamp(Unit::Second, _) => Self::Time(1),
            DataType::Date64 | DataType::Timestamp(Unit::Millisecond, _) => Self::Time(1_000),
            DataType::Timestamp(Unit::Microsecond, _) => Self::Time(1_000_000),
            DataType::Timestamp(Unit::Nanosecond, _) => Self::Time(1_000_000_000),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => Self::Decimal(scale.into()),
            DataType::FixedSizeBinary(_) if field.extension_type_name() == Some("arrow.uuid") => Self::Uuid,
            _ => Self::Plain,
        }
    }

    /// A whole number as it is meant, or why it cannot be used.
    fn written(self, whole: i128) -> Result<String, &'static str> {
        Ok(match self {
            Self::Plain | Self::Uuid => whole.to_string(),
            Self::Unsigned(bits) => (whole & ((1 << bits) - 1)).to_string(),
            Self::Date => date(whole).ok_or("is no date")?.to_string(),
            Self::Time(a_second) => time(whole, a_second).ok_or("is no time")?.to_string(),
            Self::Decimal(scale) => decimal(whole, scale),
        })
    }
}

/// A date by its days since 1970.
fn date(days: i128) -> Option<Date> {
    let days = Span::new().try_days(i64::try_from(days).ok()?).ok()?;
    Date::constant(1970, 1, 1).checked_add(days).ok()
}

/// A time in UTC (RFC 3339).
fn time(since_1970: i128, a_second: i128) -> Option<Timestamp> {
    Timestamp::from_nanosecond(since_1970.checked_mul(1_000_000_000 / a_second)?).ok()
}

/// A decimal number, stored as a whole one with its digits, the last `scale` of which stand behind the point.
fn decimal(whole: i128, scale: i32) -> String {
    Decimal128Type::format_decimal(whole, u8::MAX, i8::try_from(scale).unwrap_or(i8::MAX))
}

/// A whole number by its bytes, the greatest first, if it is not too long.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first().is_some_and(|&first| first >= 0x80) { 0xff } else { 0 };
    let mut whole = [sign; 16];
    whole[16usize.checked_sub(bytes.len())?..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(whole))
}

/// Bytes that are no text, as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_meant() {
        assert_eq!([decimal(-1205, 2), decimal(5, 3), decimal(0, 1)], ["-12.05", "0.005", "0.0"]);
        assert_eq!([decimal(12, -2), decimal(-7, 0)], ["1200", "-7"]);
        assert_eq!(decimal(i128::MIN, 38), "-1.70141183460469231731687303715884105728");
        let short = [&[0x12, 0x34][..], &[0xff, 0xfe], &[]].map(big_endian);
        assert_eq!((short, big_endian(&[1; 17])), ([Some(4660), Some(-2), Some(0)], None));
        assert_eq!(hex(&[0x0f, 0xa0]), "0fa0");
        let written = |time: Option<Timestamp>| time.map(|time| time.to_string());
        assert_eq!(written(time(1_716_000_000_123, 1_000)).as_deref(), Some("2024-05-18T02:40:00.123Z"));
        assert_eq!(written(time(-1, 1_000_000)).as_deref(), Some("1969-12-31T23:59:59.999999Z"));
        assert_eq!(written(time(i64::MAX.into(), 1_000)), None);
        assert_eq!(date(19_861).map(|date| date.to_string()).as_deref(), Some("2024-05-18"));
        assert_eq!((date(i32::MAX.into()), date(i32::MIN.into())), (None, None));
    }
}
