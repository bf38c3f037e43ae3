//! Values of one column of a row group, in order.

use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::footer::Column;
use super::pages::{Pages, Stored, Turn};

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

/// Reads the next values of a column that is not repeated; fewer than wanted only at its end, or when their
/// pages are large. Absent values have no place in `values` but a level below the greatest in `levels`.
fn next_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    turn: &Turn,
    wanted: usize,
    (levels, greatest): (&mut Vec<i16>, i16),
    values: &mut Vec<T::T>,
) -> Result<usize, ParquetError> {
    levels.clear();
    values.clear();
    loop {
        let wanted = turn.begin(wanted);
        let (records, _, _) = reader.read_records(wanted, Some(levels), None, values)?;
        if !in_range(levels, greatest) {
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
    present: i16,
    levels: Vec<i16>,
    /// Integers are read as unsigned.
    unsigned: bool,
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
        let unsigned = matches!(descriptor.logical_type_ref(), Some(LogicalType::Integer(int)) if !int.is_signed)
            || matches!(descriptor.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64);
        Ok(Self { reader, turn, present: descriptor.max_def_level(), levels: Vec::new(), unsigned })
    }

    pub fn skip(&mut self, rows: usize) -> Result<bool, ParquetError> {
        of_any_type!(&mut self.reader, reader => skip_values(reader, &self.turn, rows))
    }

    /// The next texts.
    pub fn texts(
        &mut self,
        wanted: usize,
        mut each: impl FnMut(Option<ByteArray>),
    ) -> Result<usize, ParquetError> {
        let ColumnReader::ByteArrayColumnReader(reader) = &mut self.reader else { return Ok(0) };
        let mut values = Vec::new();
        let n = next_values(reader, &self.turn, wanted, (&mut self.levels, self.present), &mut values)?;
        let mut values = values.into_iter();
        for at in 0..n {
            let present = self.present == 0 || self.levels.get(at) == Some(&self.present);
            let text = present.then(|| values.next()).flatten();
            // An entry of a dictionary that was not stored has no bytes, and asking for
            // its length panics: here.
            text.as_ref().map(ByteArray::len);
            each(text);
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
        let Self { reader, turn, present, levels, unsigned } = self;
        let unsigned = *unsigned;
        macro_rules! read {
            ($reader:ident, $name:expr) => {{
                let mut values = Vec::new();
                let n = next_values($reader, turn, wanted, (levels, *present), &mut values)?;
                let mut values = values.into_iter();
                for at in 0..n {
                    let here = *present == 0 || levels.get(at) == Some(present);
                    each(here.then(|| values.next()).flatten().map_or(Name::Absent, $name));
                }
                Ok(n)
            }};
        }
        match reader {
            ColumnReader::ByteArrayColumnReader(reader) => read!(reader, text),
            ColumnReader::Int32ColumnReader(reader) => {
                read!(reader, |n| if unsigned { number(n as u32) } else { number(n) })
            }
            ColumnReader::Int64ColumnReader(reader) => {
                read!(reader, |n| if unsigned { number(n as u64) } else { number(n) })
            }
            ColumnReader::FloatColumnReader(reader) => read!(reader, number),
            ColumnReader::DoubleColumnReader(reader) => read!(reader, number),
            _ => Ok(0),
        }
    }
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
        let open = || Cursor::open(&stored, &layout.metadata, 0, &layout.text).expect("a column");
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
