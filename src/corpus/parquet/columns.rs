//! Values of a column of a row group or record batch, some rows at a time.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit as Unit};
use jiff::civil::Date;
use jiff::{Span, Timestamp};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

use super::stored::Stored;
use crate::corpus::jsonl::JOINT;

/// Most rows in a batch.
pub(super) const BATCH_ROWS: usize = 1024;
/// The longest id, address or language.
const NAME_CAP: usize = 64 << 10;

/// A builder of a reader of adjacent columns of a row group: of all its rows, or of some.
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
    if end > stored.length() {
        let detail = format!("its documents would end at byte {end} of a file of {}", stored.length());
        return Err(ParquetError::General(detail));
    }
    let stored = stored.within(from, end)?;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(stored, metadata.clone())
        .with_row_groups(vec![group])
        .with_projection(ProjectionMask::leaves(metadata.parquet_schema(), columns));
    Ok(match rows {
        Some(rows) => reader.with_row_selection(rows),
        None => reader,
    })
}

/// Columns of values that a column of a table has.
pub(super) fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            leaves(field.data_type())
        }
        _ => 1,
    }
}

/// Values of one column.
#[derive(Debug)]
pub(super) struct Values {
    array: ArrayRef,
    /// Where the values of each row are, if a row may have any number of them.
    rows: Option<Vec<Range<usize>>>,
    /// Which of the values are there.
    nulls: Option<NullBuffer>,
    /// Where each value is in the array, which is a dictionary then.
    keys: Option<Vec<usize>>,
    /// Bytes of memory that they take.
    bytes: u64,
}

impl Values {
    /// Reads the next `rows` rows with a reader of one column.
    pub fn next_of(reader: &mut ParquetRecordBatchReader, rows: usize) -> Result<Self, ParquetError> {
        let batch = reader.next().transpose()?;
        let found = batch.as_ref().map_or(0, |batch| batch.num_rows());
        match batch {
            Some(batch) if found == rows && batch.num_columns() == 1 => {
                let values = Self::of(batch.column(0).clone(), 0);
                Ok(Self { bytes: values.array.get_array_memory_size() as u64, ..values })
            }
            _ => Err(ParquetError::EOF(format!("{found} of {rows} rows, where the column ends"))),
        }
    }

    /// Takes the column at a place among those in an array of structs and lists.
    pub fn of(mut array: ArrayRef, mut leaf: usize) -> Self {
        let (mut rows, mut nulls): (Option<Vec<Range<usize>>>, Option<NullBuffer>) = (None, None);
        loop {
            nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
            let (offsets, values): (Vec<usize>, ArrayRef) = match array.data_type() {
                DataType::Struct(fields) => {
                    let mut at = 0;
                    while let Some(before) = fields.get(at).map(|field| leaves(field.data_type()))
                        && leaf >= before
                    {
                        leaf -= before;
                        at += 1;
                    }
                    array = array.as_struct().column(at).clone();
                    continue;
                }
                DataType::List(_) => {
                    let list = array.as_list::<i32>();
                    (list.value_offsets().iter().map(|&at| at as usize).collect(), list.values().clone())
                }
                DataType::LargeList(_) => {
                    let list = array.as_list::<i64>();
                    (list.value_offsets().iter().map(|&at| at as usize).collect(), list.values().clone())
                }
                DataType::Map(..) => {
                    let map = array.as_map();
                    let offsets = map.value_offsets().iter().map(|&at| at as usize);
                    (offsets.collect(), Arc::new(map.entries().clone()))
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
        Self { array, rows, nulls, keys, bytes }
    }

    /// Where a value is in the array, if it is there.
    fn place(&self, value: usize) -> Option<usize> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(value)) {
            return None;
        }
        match &self.keys {
            None => Some(value),
            Some(keys) => Some(keys[value]).filter(|&at| self.array.is_valid(at)),
        }
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The texts of a row, where the values are strings or bytes.
    pub fn texts(&self, row: usize) -> impl Iterator<Item = &[u8]> {
        let range = self.rows.as_ref().map_or(row..row + 1, |rows| rows[row].clone());
        range.filter_map(|value| self.place(value)).map(|at| string(&self.array, at))
    }

    /// The one value of a row as a name.
    pub fn name(&self, row: usize, kind: ValueKind) -> Name<'_> {
        let array = &self.array;
        let Some(row) = self.place(row) else { return Name::Absent };
        fn written(value: impl ToString) -> Name<'static> {
            Name::Text(value.to_string().into())
        }
        fn or_unfit(value: Option<impl ToString>, why: &'static str) -> Name<'static> {
            value.map_or(Name::Unfit(why), written)
        }
        fn text(value: &[u8]) -> Name<'_> {
            if value.len() > NAME_CAP {
                return Name::Unfit("is too long");
            }
            let text = simdutf8::basic::from_utf8(value);
            text.map_or(Name::Unfit("is not UTF-8"), |text| Name::Text(text.into()))
        }
        let number = |bytes: &[u8], scale| or_unfit(decimal(bytes, scale), "is too long a number");
        let moment = |n, a_second| or_unfit(time(n, a_second), "is no time");
        match array.data_type() {
            DataType::Binary => match (kind, array.as_binary::<i32>().value(row)) {
                (ValueKind::Decimal { scale }, value) => number(value, scale),
                (_, value) => text(value),
            },
            DataType::FixedSizeBinary(_) => match (kind, array.as_fixed_size_binary().value(row)) {
                (ValueKind::Decimal { scale }, value) => number(value, scale),
                (ValueKind::Uuid, value) => or_unfit(uuid(value), "is no UUID"),
                (_, value) if value.iter().all(u8::is_ascii_graphic) => text(value),
                (_, value) => written(hex(value)),
            },
            DataType::Int32 => match (kind, array.as_primitive::<Int32Type>().value(row)) {
                (ValueKind::Unsigned, n) => written(n as u32),
                (ValueKind::Date, n) => or_unfit(date(n), "is no date"),
                (ValueKind::Decimal { scale }, n) => number(&n.to_be_bytes(), scale),
                (_, n) => written(n),
            },
            DataType::Int64 => match (kind, array.as_primitive::<Int64Type>().value(row)) {
                (ValueKind::Unsigned, n) => written(n as u64),
                (ValueKind::Time { a_second }, n) => moment(n, a_second),
                (ValueKind::Decimal { scale }, n) => number(&n.to_be_bytes(), scale),
                (_, n) => written(n),
            },
            DataType::Timestamp(unit, _) => {
                let (a_second, n) = match unit {
                    Unit::Second => (1, array.as_primitive::<TimestampSecondType>().value(row)),
                    Unit::Millisecond => (1_000, array.as_primitive::<TimestampMillisecondType>().value(row)),
                    Unit::Microsecond => {
                        (1_000_000, array.as_primitive::<TimestampMicrosecondType>().value(row))
                    }
                    Unit::Nanosecond => {
                        (1_000_000_000, array.as_primitive::<TimestampNanosecondType>().value(row))
                    }
                };
                moment(n, a_second)
            }
            // Parquet has no others; these are Arrow's.
            DataType::Int8 => written(array.as_primitive::<Int8Type>().value(row)),
            DataType::Int16 => written(array.as_primitive::<Int16Type>().value(row)),
            DataType::UInt8 => written(array.as_primitive::<UInt8Type>().value(row)),
            DataType::UInt16 => written(array.as_primitive::<UInt16Type>().value(row)),
            DataType::UInt32 => written(array.as_primitive::<UInt32Type>().value(row)),
            DataType::UInt64 => written(array.as_primitive::<UInt64Type>().value(row)),
            DataType::Float16 => written(array.as_primitive::<Float16Type>().value(row)),
            DataType::Date32 => or_unfit(date(array.as_primitive::<Date32Type>().value(row)), "is no date"),
            DataType::Date64 => moment(array.as_primitive::<Date64Type>().value(row), 1_000),
            &DataType::Decimal32(_, scale) => {
                number(&array.as_primitive::<Decimal32Type>().value(row).to_be_bytes(), scale.into())
            }
            &DataType::Decimal64(_, scale) => {
                number(&array.as_primitive::<Decimal64Type>().value(row).to_be_bytes(), scale.into())
            }
            &DataType::Decimal128(_, scale) => {
                number(&array.as_primitive::<Decimal128Type>().value(row).to_be_bytes(), scale.into())
            }
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::LargeBinary
            | DataType::BinaryView => text(string(array, row)),
            DataType::Boolean => written(array.as_boolean().value(row)),
            DataType::Float32 => written(array.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => written(array.as_primitive::<Float64Type>().value(row)),
            _ => Name::Unfit("is no single value"),
        }
    }
}

/// A string, or the bytes of one; empty in an array of anything else.
fn string(array: &ArrayRef, at: usize) -> &[u8] {
    match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(at),
        DataType::LargeBinary => array.as_binary::<i64>().value(at),
        DataType::BinaryView => array.as_binary_view().value(at),
        DataType::Utf8 => array.as_string::<i32>().value(at).as_bytes(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(at).as_bytes(),
        DataType::Utf8View => array.as_string_view().value(at).as_bytes(),
        _ => &[],
    }
}

/// A name as it is stored.
#[derive(Clone, Debug)]
pub(super) enum Name<'a> {
    Absent,
    Text(Cow<'a, str>),
    /// It is there but cannot be used.
    Unfit(&'static str),
}

/// Texts, one after the other; none if there are none.
pub(super) fn joined<'a>(mut texts: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let first = texts.next()?;
    let Some(second) = texts.next() else { return Some(first.into()) };
    let mut all = first.to_vec();
    for text in std::iter::once(second).chain(texts) {
        all.extend_from_slice(JOINT.as_bytes());
        all.extend_from_slice(text);
    }
    Some(all.into())
}

/// The type of the values in a column of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// As they are stored.
    Plain,
    Unsigned,
    /// Days since 1970.
    Date,
    /// So many to a second, since 1970.
    Time {
        a_second: i64,
    },
    Decimal {
        scale: i32,
    },
    Uuid,
}

impl ValueKind {
    pub fn of(descriptor: &ColumnDescriptor) -> Self {
        let time = |unit: TimeUnit| match unit {
            TimeUnit::MILLIS => 1_000,
            TimeUnit::MICROS => 1_000_000,
            TimeUnit::NANOS => 1_000_000_000,
        };
        let scale = descriptor.type_scale();
        match (descriptor.logical_type_ref(), descriptor.converted_type()) {
            (Some(LogicalType::Integer(integer)), _) if !integer.is_signed => Self::Unsigned,
            (Some(LogicalType::Date), _) => Self::Date,
            (Some(LogicalType::Timestamp(timestamp)), _) => Self::Time { a_second: time(timestamp.unit) },
            (Some(LogicalType::Decimal { .. }), _) => Self::Decimal { scale },
            (Some(LogicalType::Uuid), _) => Self::Uuid,
            (Some(_), _) => Self::Plain,
            (None, ConvertedType::UINT_32 | ConvertedType::UINT_64) => Self::Unsigned,
            (None, ConvertedType::DATE) => Self::Date,
            (None, ConvertedType::TIMESTAMP_MILLIS) => Self::Time { a_second: 1_000 },
            (None, ConvertedType::TIMESTAMP_MICROS) => Self::Time { a_second: 1_000_000 },
            (None, ConvertedType::DECIMAL) => Self::Decimal { scale },
            (None, _) => Self::Plain,
        }
    }
}

/// A date by its days since 1970.
fn date(days: i32) -> Option<Date> {
    Date::constant(1970, 1, 1).checked_add(Span::new().try_days(days).ok()?).ok()
}

/// A decimal number, stored as a whole one with its digits, the last `scale` of which stand behind the point.
fn decimal(whole: &[u8], scale: i32) -> Option<String> {
    let sign = if whole.first().is_some_and(|&first| first >= 0x80) { 0xff } else { 0 };
    let mut bytes = [sign; 16];
    bytes[16usize.checked_sub(whole.len())?..].copy_from_slice(whole);
    let whole = i128::from_be_bytes(bytes);
    let scale = usize::try_from(scale).unwrap_or(0).min(1000);
    let digits = format!("{:0>width$}", whole.unsigned_abs(), width = scale + 1);
    let (before, behind) = digits.split_at(digits.len() - scale);
    let (sign, point) = (if whole < 0 { "-" } else { "" }, if scale > 0 { "." } else { "" });
    Some(format!("{sign}{before}{point}{behind}"))
}

/// A time in UTC (RFC 3339).
fn time(since_1970: i64, a_second: i64) -> Option<Timestamp> {
    let nanoseconds = since_1970.rem_euclid(a_second) * (1_000_000_000 / a_second);
    Timestamp::new(since_1970.div_euclid(a_second), i32::try_from(nanoseconds).ok()?).ok()
}

/// Bytes that are no text, as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A UUID as it is written (RFC 9562, 4).
fn uuid(bytes: &[u8]) -> Option<String> {
    let digits = format!("{:032x}", u128::from_be_bytes(bytes.try_into().ok()?));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    Some(parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_meant() {
        assert_eq!(decimal(&(-1205i32).to_be_bytes(), 2).as_deref(), Some("-12.05"));
        assert_eq!(decimal(&5i64.to_be_bytes(), 3).as_deref(), Some("0.005"));
        assert_eq!(decimal(&[0x12, 0x34], 0).as_deref(), Some("4660"));
        assert_eq!((decimal(&[1; 17], 0), decimal(&[], 1).as_deref()), (None, Some("0.0")));
        assert_eq!(uuid(&[0xab; 16]).as_deref(), Some("abababab-abab-abab-abab-abababababab"));
        assert_eq!(uuid(&[0; 15]), None);
        assert_eq!(hex(&[0x0f, 0xa0]), "0fa0");
        let written = |time: Option<Timestamp>| time.map(|time| time.to_string());
        assert_eq!(written(time(1_716_000_000_123, 1_000)).as_deref(), Some("2024-05-18T02:40:00.123Z"));
        assert_eq!(written(time(-1, 1_000_000)).as_deref(), Some("1969-12-31T23:59:59.999999Z"));
        assert_eq!(written(time(i64::MAX, 1_000)), None);
        assert_eq!(date(19_861).map(|date| date.to_string()).as_deref(), Some("2024-05-18"));
        assert_eq!((date(i32::MAX), date(i32::MIN)), (None, None));
    }
}
