//! Reads `pairs.csv` and `clusters.csv` row by row. A row is a view of the reader's current row, with a method for each
//! column and the number of its line.

use crate::tables::table::Table;
use crate::{Error, Result};
use csv::StringRecord;
use simflip_core::dedup::PairKind;
use std::path::Path;
use std::str::FromStr;

/// A `pairs.csv` that is read row by row.
pub struct PairsReader {
    table: Table,
    row: StringRecord,
    // The place of each column; none if the table lacks it.
    a_id: usize,
    b_id: usize,
    distance: Option<usize>,
    similarity: Option<usize>,
    kind: Option<usize>,
    measure: Option<usize>,
}

impl PairsReader {
    /// Opens a table. It must have the columns `a_id` and `b_id`.
    ///
    /// # Errors
    /// If the file cannot be read or lacks one of these columns.
    pub fn open(path: &Path) -> Result<Self> {
        let table = Table::open_ours(path)?;
        let (Some(a_id), Some(b_id)) = (table.column(&["a_id"]), table.column(&["b_id"])) else {
            return Err(table.header_error("a header with a_id and b_id"));
        };
        let [distance, similarity, kind, measure] =
            ["distance", "similarity", "kind", "measure"].map(|name| table.column(&[name]));
        Ok(Self { table, row: StringRecord::new(), a_id, b_id, distance, similarity, kind, measure })
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read any further: it is no CSV, no UTF-8, or a row has another number
    /// of fields than the header.
    pub fn next_row(&mut self) -> Result<Option<PairLine<'_>>> {
        let line = self.table.next(&mut self.row)?;
        Ok(line.map(|line| PairLine { line, reader: self }))
    }
}

/// A row of `pairs.csv` as it is read.
#[derive(Clone, Copy)]
pub struct PairLine<'r> {
    /// The line that it begins on, counted from 1.
    pub line: u64,
    reader: &'r PairsReader,
}

impl<'r> PairLine<'r> {
    /// Id of the first document.
    pub fn a_id(&self) -> &'r str {
        &self.reader.row[self.reader.a_id]
    }

    /// Id of the second document.
    pub fn b_id(&self) -> &'r str {
        &self.reader.row[self.reader.b_id]
    }

    /// Hamming distance in bits; `None` if the cell is empty or the table has no such column.
    ///
    /// # Errors
    /// If there is something else than a whole number.
    pub fn distance(&self) -> Result<Option<u32>> {
        self.number(self.reader.distance, "distance", "a whole number", |_| true)
    }

    /// Similarity, not checked to be 0 to 1; `None` if the cell is empty or the table has no such column.
    ///
    /// # Errors
    /// If there is something else than a finite number.
    pub fn similarity(&self) -> Result<Option<f64>> {
        self.number(self.reader.similarity, "similarity", "a number", |value: &f64| value.is_finite())
    }

    /// The kind of the pair: equal texts or not. A table without this column has pairs of different texts only.
    pub fn kind(&self) -> PairKind {
        match self.field(self.reader.kind) {
            Some("exact") => PairKind::Exact,
            _ => PairKind::Near,
        }
    }

    /// The name of the measure of the similarity, as [`PairRow::measure`](super::PairRow::measure); `None` if the table
    /// has no such column.
    pub fn measure(&self) -> Option<&'r str> {
        self.field(self.reader.measure)
    }

    /// An error that names this row's line, and says what was found and what was expected.
    pub(crate) fn error(&self, got: impl Into<String>, expected: impl Into<String>) -> Error {
        self.reader.table.error(self.line, got, expected)
    }

    fn field(&self, column: Option<usize>) -> Option<&'r str> {
        column.map(|column| field(&self.reader.row, column))
    }

    fn number<T: FromStr>(
        &self,
        column: Option<usize>,
        name: &str,
        expected: &str,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Option<T>> {
        match self.field(column) {
            None | Some("") => Ok(None),
            Some(text) => match text.parse().ok().filter(fits) {
                Some(number) => Ok(Some(number)),
                None => Err(self.error(format!("the {name} {text:?}"), expected)),
            },
        }
    }
}

/// A `clusters.csv` that is read row by row.
pub struct ClustersReader {
    table: Table,
    row: StringRecord,
    // The place of each column; none if the table lacks it.
    id: usize,
    cluster: usize,
    size: Option<usize>,
    kept: Option<usize>,
    side: Option<usize>,
    file: Option<usize>,
    row_in_file: Option<usize>,
}

impl ClustersReader {
    /// Opens a table. It must have the columns `id` and `cluster`.
    ///
    /// # Errors
    /// If the file cannot be read or lacks one of these columns.
    pub fn open(path: &Path) -> Result<Self> {
        let table = Table::open_ours(path)?;
        let (Some(id), Some(cluster)) = (table.column(&["id"]), table.column(&["cluster"])) else {
            return Err(table.header_error("a header with id and cluster"));
        };
        let [size, kept, side, file, row_in_file] =
            ["size", "kept", "side", "file", "row"].map(|name| table.column(&[name]));
        Ok(Self { table, row: StringRecord::new(), id, cluster, size, kept, side, file, row_in_file })
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// As [`PairsReader::next_row`].
    pub fn next_row(&mut self) -> Result<Option<ClusterLine<'_>>> {
        let line = self.table.next(&mut self.row)?;
        Ok(line.map(|line| ClusterLine { line, reader: self }))
    }
}

/// A row of `clusters.csv` as it is read.
#[derive(Clone, Copy)]
pub struct ClusterLine<'r> {
    /// The line that it begins on, counted from 1.
    pub line: u64,
    reader: &'r ClustersReader,
}

impl<'r> ClusterLine<'r> {
    /// Id of the document.
    pub fn id(&self) -> &'r str {
        &self.reader.row[self.reader.id]
    }

    /// The cluster of the document, as a text that is equal for the documents of a cluster.
    pub fn cluster(&self) -> &'r str {
        &self.reader.row[self.reader.cluster]
    }

    /// Number of documents in that cluster; `None` if the cell holds no whole number or the table has no such column.
    pub fn size(&self) -> Option<u64> {
        self.reader.size.and_then(|column| field(&self.reader.row, column).parse().ok())
    }

    /// True if the document is kept; `None` if the cell is neither `true` nor `false` or the table has no such column.
    pub fn kept(&self) -> Option<bool> {
        self.reader.kept.and_then(|column| field(&self.reader.row, column).parse().ok())
    }

    /// The document's file, and its number in that file, which is `None` if the cell holds no whole number. `None` as a
    /// whole if the table lacks one of the two columns.
    pub fn at(&self) -> Option<(&'r str, Option<u32>)> {
        let ClustersReader { row: cells, file, row_in_file, .. } = self.reader;
        Some((&cells[(*file)?], field(cells, (*row_in_file)?).parse().ok()))
    }

    /// True if the document is of the reference set; false for new ones, and if the table does not say.
    pub fn is_reference(&self) -> bool {
        self.reader.side.is_some_and(|column| field(&self.reader.row, column) == "reference")
    }

    /// An error that names this row's line, and says what was found and what was expected.
    pub(crate) fn error(&self, got: impl Into<String>, expected: impl Into<String>) -> Error {
        self.reader.table.error(self.line, got, expected)
    }
}

/// A field, trimmed: an editor may have put a carriage return behind the last one of a row. Ids are not trimmed.
fn field(row: &StringRecord, column: usize) -> &str {
    row[column].trim()
}

#[cfg(test)]
mod tests {
    use super::super::{At, ClusterRow, PairRow, Side, write};
    use super::*;
    use proptest::prelude::*;

    /// Everything that a table of pairs says, with lines.
    #[derive(Debug, PartialEq)]
    struct Pair(u64, [String; 2], Option<u32>, Option<f64>, PairKind, Option<String>);

    fn at(file: &str) -> At<'_> {
        At { file: file.into(), row: 7, side: Side::New }
    }

    fn pairs(text: &str) -> Result<Vec<Pair>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut reader = PairsReader::open(file.path())?;
        let mut rows = Vec::new();
        while let Some(row) = reader.next_row()? {
            let ids = [row.a_id(), row.b_id()].map(str::to_owned);
            let measure = row.measure().map(str::to_owned);
            rows.push(Pair(row.line, ids, row.distance()?, row.similarity()?, row.kind(), measure));
        }
        Ok(rows)
    }

    #[test]
    fn tables_of_all_versions_are_read() {
        let ids = || ["x".to_owned(), "y".to_owned()];
        let text = Some("text".to_owned());
        for (table, row) in [
            (
                "a_id,b_id,a_url,b_url,distance,similarity,kind,measure\nx,y,u,v,0,1.0000,exact,text\n",
                Pair(2, ids(), Some(0), Some(1.0), PairKind::Exact, text.clone()),
            ),
            (
                "a_id,b_id,a_url,b_url,distance,similarity,kind\nx,y,u,v,0,1.0000,exact\n",
                Pair(2, ids(), Some(0), Some(1.0), PairKind::Exact, None),
            ),
            (
                "a_id,b_id,a_url,b_url,distance,similarity\nx,y,u,v,,0.5\n",
                Pair(2, ids(), None, Some(0.5), PairKind::Near, None),
            ),
            // Columns that a person chose, put in another order and saved with other line ends.
            ("b_id,a_id,kind\r\ny,x,exact\r\n", Pair(2, ids(), None, None, PairKind::Exact, None)),
            (
                "measure,b_id,a_id,kind\r\ntext,y,x,exact\r\n",
                Pair(2, ids(), None, None, PairKind::Exact, text),
            ),
        ] {
            assert_eq!(pairs(table).unwrap(), [row], "{table}");
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let refused_at = |text: &str| match pairs(text) {
            Err(Error::Table { line, got, expected, .. }) => (line, got, expected),
            other => panic!("{other:?}"),
        };
        let table = |row: &str| refused_at(&format!("a_id,b_id,distance,similarity\nx,y,1,0.5\n{row}\n"));
        assert_eq!(refused_at("a,b\n").0, 1);
        assert_eq!(table("x,y,three,1"), (3, "the distance \"three\"".into(), "a whole number".into()));
        assert_eq!(table("x,y,3,inf"), (3, "the similarity \"inf\"".into(), "a number".into()));
        assert_eq!(table("x,y"), (3, "2 fields".into(), "4, as in the header,".into()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_was_written_is_read(
            fields in prop::collection::vec((".*", ".*", any::<Option<u32>>(), 0u32..=10_000, any::<bool>()), 0..20),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("pairs.csv");
            let rows = fields.iter().map(|(a, b, distance, similarity, exact)| {
                Ok(PairRow {
                    a_id: a.into(),
                    b_id: b.into(),
                    a_url: b.into(),
                    b_url: a.into(),
                    distance: *distance,
                    similarity: f64::from(*similarity) / 1e4,
                    kind: if *exact { PairKind::Exact } else { PairKind::Near },
                    measure: "text",
                    a_at: at(a),
                    b_at: at(b),
                })
            });
            write(&path, rows).unwrap();
            let mut reader = PairsReader::open(&path).unwrap();
            for (a, b, distance, similarity, exact) in &fields {
                let row = reader.next_row().unwrap().unwrap();
                prop_assert_eq!((row.a_id(), row.b_id()), (&**a, &**b));
                prop_assert_eq!(row.distance().unwrap(), *distance);
                prop_assert_eq!(row.similarity().unwrap(), Some(f64::from(*similarity) / 1e4));
                prop_assert_eq!((row.kind() == PairKind::Exact, row.measure()), (*exact, Some("text")));
            }
            prop_assert!(reader.next_row().unwrap().is_none());

            let path = folder.path().join("clusters.csv");
            let rows = fields.iter().map(|(name, cluster, _, size, kept)| {
                let (id, cluster) = (name.into(), cluster.into());
                let (url, size) = ("".into(), u64::from(*size));
                Ok(ClusterRow { id, url, cluster, size, kept: *kept, at: At { side: Side::Reference, ..at(name) } })
            });
            write(&path, rows).unwrap();
            let mut reader = ClustersReader::open(&path).unwrap();
            for (id, cluster, _, size, kept) in &fields {
                let row = reader.next_row().unwrap().unwrap();
                prop_assert_eq!((row.id(), row.cluster()), (&**id, &**cluster));
                prop_assert_eq!((row.size(), row.kept()), (Some(u64::from(*size)), Some(*kept)));
                prop_assert_eq!((row.at(), row.is_reference()), (Some((&**id, Some(7))), true));
            }
            prop_assert!(reader.next_row().unwrap().is_none());
        }
    }
}
