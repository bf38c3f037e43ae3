//! Values of one column of a row group, in order.

use std::sync::Arc;

use jiff::civil::Date;
use jiff::{Span, Timestamp};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, Int96};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::ColumnDescriptor;

use super::footer::Column;
use super::pages::{Pages, Stored, Turn};
use crate::corpus::jsonl::JOINT;

/// Most rows in a batch.
pub(super) const BATCH_ROWS: usize = 1024;
/// The longest id, address or language.
const NAME_CAP: usize = 64 << 10;

/// A name as it is stored.
#[derive(Clone, Debug)]
pub(super) enum Name {
    Absent,
    Text(Box<str>),
    /// It is there but cannot be used.
    Unfit(&'static str),
}

/// Whether levels are none but those from 0 up to the greatest.
pub(super) fn in_range(levels: &[i16], greatest: i16) -> bool {
    levels.iter().all(|level| (0..=greatest).contains(level))
}

/// The levels of the values that were read last, and the greatest that there are.
#[derive(Default)]
struct Levels {
    /// Below the greatest, a value is absent: it has no place among the values.
    present: Vec<i16>,
    most_present: i16,
    /// 0 where a row begins. Empty where each row has one value.
    repeats: Vec<i16>,
    most_repeats: i16,
}

impl Levels {
    fn is_present(&self, at: usize) -> bool {
        self.most_present == 0 || self.present.get(at) == Some(&self.most_present)
    }
}

/// Reads the next values of a column; of fewer rows than wanted only at its end, or when their pages are large.
fn next_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    turn: &Turn,
    wanted: usize,
    levels: &mut Levels,
    values: &mut Vec<T::T>,
) -> Result<usize, ParquetError> {
    levels.present.clear();
    levels.repeats.clear();
    values.clear();
    loop {
        let wanted = turn.begin(wanted);
        let repeats = (levels.most_repeats > 0).then_some(&mut levels.repeats);
        let (records, _, _) = reader.read_records(wanted, Some(&mut levels.present), repeats, values)?;
        let starts = levels.repeats.iter().filter(|&&level| level == 0).count();
        let are_rows = levels.most_repeats == 0
            || starts == records && levels.repeats.first().is_none_or(|&level| level == 0);
        if !are_rows
            || !in_range(&levels.present, levels.most_present)
            || !in_range(&levels.repeats, levels.most_repeats)
        {
            return Err(ParquetError::General("levels that make no rows".to_owned()));
        }
        if records > 0 || turn.ended() || wanted == 0 {
            return Ok(records);
        }
    }
}

/// Passes over values; false if there are not as many.
pub(super) fn skip_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    turn: &Turn,
    values: usize,
) -> Result<bool, ParquetError> {
    let mut left = values;
    while left > 0 {
        turn.begin(left);
        let skipped = reader.skip_records(left)?;
        left -= skipped.min(left);
        if skipped == 0 && turn.ended() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Does the same to a column's reader whatever its type.
macro_rules! of_any_type {
    ($column:expr, $reader:ident => $do:expr) => {
        match $column {
            ColumnReader::BoolColumnReader($reader) => $do,
            ColumnReader::Int32ColumnReader($reader) => $do,
            ColumnReader::Int64ColumnReader($reader) => $do,
            ColumnReader::Int96ColumnReader($reader) => $do,
            ColumnReader::FloatColumnReader($reader) => $do,
            ColumnReader::DoubleColumnReader($reader) => $do,
            ColumnReader::ByteArrayColumnReader($reader) => $do,
            ColumnReader::FixedLenByteArrayColumnReader($reader) => $do,
        }
    };
}
pub(super) use of_any_type;

/// A column of a row group being read.
pub(super) struct Cursor {
    reader: ColumnReader,
    turn: Arc<Turn>,
    levels: Levels,
    descriptor: Arc<ColumnDescriptor>,
}

impl Cursor {
    pub fn open(
        stored: &Arc<Stored>,
        metadata: &ParquetMetaData,
        group: usize,
        column: &Column,
    ) -> Result<Self, ParquetError> {
        let group = metadata.row_group(group);
        let rows = usize::try_from(group.num_rows())?;
        let descriptor = &column.descriptor;
        let (pages, turn) = Pages::open(stored, group.column(column.index), descriptor.clone(), rows)?;
        let reader = get_column_reader(descriptor.clone(), Box::new(pages));
        let levels = Levels {
            most_present: descriptor.max_def_level(),
            most_repeats: descriptor.max_rep_level(),
            ..Levels::default()
        };
        Ok(Self { reader, turn, levels, descriptor: descriptor.clone() })
    }

    pub fn skip(&mut self, rows: usize) -> Result<bool, ParquetError> {
        of_any_type!(&mut self.reader, reader => skip_values(reader, &self.turn, rows))
    }

    /// The next texts; those of a list are joined, and one without is null.
    pub fn texts(
        &mut self,
        wanted: usize,
        mut each: impl FnMut(Option<ByteArray>),
    ) -> Result<usize, ParquetError> {
        let ColumnReader::ByteArrayColumnReader(reader) = &mut self.reader else { return Ok(0) };
        let mut values = Vec::new();
        let levels = &mut self.levels;
        let n = next_values(reader, &self.turn, wanted, levels, &mut values)?;
        let mut values = values.into_iter();
        if levels.most_repeats == 0 {
            for at in 0..n {
                let text = levels.is_present(at).then(|| values.next()).flatten();
                // An entry of a dictionary that was not stored has no bytes, and asking for
                // its length panics: here.
                text.as_ref().map(ByteArray::len);
                each(text);
            }
            return Ok(n);
        }
        let mut at = 0;
        for _ in 0..n {
            let list = at..=at + levels.repeats[at + 1..].iter().take_while(|&&level| level > 0).count();
            at = list.end() + 1;
            let texts = list.filter(|&at| levels.is_present(at)).filter_map(|_| values.next());
            each(joined(texts));
        }
        Ok(n)
    }

    /// The next names.
    pub fn names(&mut self, wanted: usize, mut each: impl FnMut(Name)) -> Result<usize, ParquetError> {
        fn number(value: impl ToString) -> Name {
            Name::Text(value.to_string().into())
        }
        fn text(value: ByteArray) -> Name {
            if value.len() > NAME_CAP {
                return Name::Unfit("is too long");
            }
            let text = simdutf8::basic::from_utf8(value.data());
            text.map_or(Name::Unfit("is not UTF-8"), |text| Name::Text(text.into()))
        }
        let Self { reader, turn, levels, descriptor } = self;
        let kind = Kind::of(descriptor);
        macro_rules! read {
            ($reader:ident, $name:expr) => {{
                let mut values = Vec::new();
                let n = next_values($reader, turn, wanted, levels, &mut values)?;
                let mut values = values.into_iter();
                for at in 0..n {
                    let value = levels.is_present(at).then(|| values.next()).flatten();
                    each(value.map_or(Name::Absent, $name));
                }
                Ok(n)
            }};
        }
        let scale = descriptor.type_scale();
        let decimal =
            |bytes: &[u8]| decimal(bytes, scale).map_or(Name::Unfit("is too long a number"), number);
        match reader {
            ColumnReader::ByteArrayColumnReader(reader) => read!(reader, |value: ByteArray| match kind {
                Kind::Decimal => decimal(value.data()),
                _ => text(value),
            }),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                read!(reader, |value: FixedLenByteArray| match kind {
                    Kind::Decimal => decimal(value.data()),
                    Kind::Uuid => uuid(value.data()).map_or(Name::Unfit("is no UUID"), number),
                    _ if value.data().iter().all(u8::is_ascii_graphic) => text(value.into()),
                    _ => number(hex(value.data())),
                })
            }
            ColumnReader::Int32ColumnReader(reader) => read!(reader, |n| match kind {
                Kind::Unsigned => number(n as u32),
                Kind::Date => date(n).map_or(Name::Unfit("is no date"), number),
                Kind::Decimal => decimal(&n.to_be_bytes()),
                _ => number(n),
            }),
            ColumnReader::Int64ColumnReader(reader) => read!(reader, |n| match kind {
                Kind::Unsigned => number(n as u64),
                Kind::Time { a_second } => time(n, a_second).map_or(Name::Unfit("is no time"), number),
                Kind::Decimal => decimal(&n.to_be_bytes()),
                _ => number(n),
            }),
            ColumnReader::Int96ColumnReader(reader) => {
                read!(reader, |n: Int96| time(n.to_nanos(), 1_000_000_000)
                    .map_or(Name::Unfit("is no time"), number))
            }
            ColumnReader::BoolColumnReader(reader) => read!(reader, number),
            ColumnReader::FloatColumnReader(reader) => read!(reader, number),
            ColumnReader::DoubleColumnReader(reader) => read!(reader, number),
        }
    }
}

/// Texts, one after the other; none if there are none.
pub(super) fn joined(mut texts: impl Iterator<Item = ByteArray>) -> Option<ByteArray> {
    let first = texts.next()?;
    let Some(second) = texts.next() else { return Some(first) };
    let mut all = first.data().to_vec();
    for text in std::iter::once(second).chain(texts) {
        all.extend_from_slice(JOINT.as_bytes());
        all.extend_from_slice(text.data());
    }
    Some(all.into())
}

/// What the values of a column of names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// As they are stored.
    Plain,
    Unsigned,
    /// Days since 1970.
    Date,
    /// So many to a second, since 1970.
    Time {
        a_second: i64,
    },
    Decimal,
    Uuid,
}

impl Kind {
    fn of(descriptor: &ColumnDescriptor) -> Self {
        let time = |unit: TimeUnit| match unit {
            TimeUnit::MILLIS => 1_000,
            TimeUnit::MICROS => 1_000_000,
            TimeUnit::NANOS => 1_000_000_000,
        };
        match (descriptor.logical_type_ref(), descriptor.converted_type()) {
            (Some(LogicalType::Integer(integer)), _) if !integer.is_signed => Self::Unsigned,
            (Some(LogicalType::Date), _) => Self::Date,
            (Some(LogicalType::Timestamp(timestamp)), _) => Self::Time { a_second: time(timestamp.unit) },
            (Some(LogicalType::Decimal { .. }), _) => Self::Decimal,
            (Some(LogicalType::Uuid), _) => Self::Uuid,
            (Some(_), _) => Self::Plain,
            (None, ConvertedType::UINT_32 | ConvertedType::UINT_64) => Self::Unsigned,
            (None, ConvertedType::DATE) => Self::Date,
            (None, ConvertedType::TIMESTAMP_MILLIS) => Self::Time { a_second: 1_000 },
            (None, ConvertedType::TIMESTAMP_MICROS) => Self::Time { a_second: 1_000_000 },
            (None, ConvertedType::DECIMAL) => Self::Decimal,
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
    use crate::corpus::options::ReadOptions;
    use crate::corpus::parquet::footer::Layout;
    use parquet::data_type::ByteArrayType;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::io::Write;

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

    #[test]
    fn a_column_that_ends_early_is_passed_over_to_its_end_and_no_further() {
        let schema = parse_message_type("message rows { optional binary text (STRING); }").expect("a schema");
        let mut bytes = Vec::new();
        let mut writer =
            SerializedFileWriter::new(&mut bytes, schema.into(), Default::default()).expect("memory");
        let mut group = writer.next_row_group().expect("memory");
        let mut column = group.next_column().expect("memory").expect("a column");
        let values = ["a", "b", "c"].map(ByteArray::from);
        column.typed::<ByteArrayType>().write_batch(&values, Some(&[1, 0, 1, 1]), None).expect("memory");
        column.close().expect("memory");
        group.close().expect("memory");
        writer.close().expect("memory");
        let mut file = tempfile::tempfile().expect("temp file");
        file.write_all(&bytes).expect("writes");
        let stored = Arc::new(Stored::new(crate::corpus::storage::StoredFile::File(file)).expect("a size"));
        let layout = Layout::of(&stored, &ReadOptions::default()).expect("a footer");
        let open = || Cursor::open(&stored, &layout.metadata, 0, &layout.texts[0]).expect("a column");
        let texts = |cursor: &mut Cursor| {
            let mut texts = Vec::new();
            let n = cursor.texts(9, |text| texts.push(text.map(|text| text.data().to_vec())));
            (n.expect("pages"), texts)
        };
        let mut cursor = open();
        assert!(cursor.skip(3).expect("pages"));
        assert_eq!(texts(&mut cursor), (1, vec![Some(b"c".to_vec())]));
        assert_eq!(texts(&mut cursor), (0, vec![]));
        assert!(!cursor.skip(1).expect("pages"));
        let mut cursor = open();
        assert!(cursor.skip(4).expect("pages"));
        assert!(!cursor.skip(1).expect("pages"));
        assert!(!open().skip(1000).expect("pages"));
    }
}
