//! Reads CSV files with a header row, plain or gzip'd. Errors in its content name the line, counted from 1.

use super::cell::plain;
use crate::error::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A CSV file that is open, with its header row already read.
pub(crate) struct Table {
    path: PathBuf,
    reader: csv::Reader<Box<dyn Read>>,
    header: csv::StringRecord,
}

impl Table {
    /// Opens a table of any origin: white space around fields is trimmed. Its first bytes say whether it is gzip'd.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::trimmed(path, csv::Trim::All)
    }

    /// Opens a table that simflip wrote: white space around fields stays, as ids may have it. Fails if there is no
    /// file, with advice on `--write`.
    pub(crate) fn open_ours(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Err(Error::Format {
                path: path.to_path_buf(),
                field: "the table",
                expected: "one".to_owned(),
                got: "missing".to_owned(),
                advice: "run dedup again, without --write none",
            });
        }
        Self::trimmed(path, csv::Trim::Headers)
    }

    fn trimmed(path: &Path, trim: csv::Trim) -> Result<Self> {
        let mut file = BufReader::new(File::open(path).map_err(|e| Error::io(path, e))?);
        let gzip = file.fill_buf().map_err(|e| Error::io(path, e))?.starts_with(&[0x1f, 0x8b]);
        let bytes: Box<dyn Read> = if gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        // The parser's line numbers are one short after "\r\n"; so lines end at "\n", and the rest is
        // trimmed.
        let mut reader = csv::ReaderBuilder::new()
            .terminator(csv::Terminator::Any(b'\n'))
            .trim(trim)
            .flexible(true)
            .from_reader(bytes);
        let mut header = reader.headers().map_err(|e| csv_error(path, e))?.clone();
        // Spreadsheets put a byte order mark in front.
        if header.get(0).is_some_and(|name| name.starts_with('\u{feff}')) {
            header = header.iter().map(|name| name.trim_start_matches('\u{feff}')).collect();
        }
        Ok(Self { path: path.to_path_buf(), reader, header })
    }

    /// The place, from 0, of the first of these column names that the header has; none if it has none.
    pub(crate) fn column(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.header.iter().position(|column| column == *name))
    }

    /// Checks that the header begins with these columns, those of a table that simflip writes.
    pub(crate) fn begins_with(&self, columns: &[&str]) -> Result<()> {
        if self.header.iter().take(columns.len()).eq(columns.iter().copied()) {
            return Ok(());
        }
        Err(Error::Format {
            path: self.path.clone(),
            field: "the first line",
            expected: columns.join(","),
            got: self.header.iter().collect::<Vec<_>>().join(","),
            advice: "name a table that simflip wrote",
        })
    }

    /// An error that shows the header, and says which columns were expected.
    pub(crate) fn header_error(&self, expected: impl Into<String>) -> Error {
        let got = self.header.iter().collect::<Vec<_>>().join(",");
        self.error(1, format!("the header {got:?}"), expected)
    }

    /// An error that names a line, and says what was found and what was expected.
    pub(crate) fn error(&self, line: u64, got: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Table { path: self.path.clone(), line, expected: expected.into(), got: got.into() }
    }

    /// Reads the next row into `row`, with cells as they were before they were guarded. Gives the line that it begins
    /// on, or `None` at the end. Blank lines are skipped. A row with another number of fields than the header is an
    /// error.
    pub(crate) fn next(&mut self, row: &mut csv::StringRecord) -> Result<Option<u64>> {
        while self.reader.read_record(row).map_err(|e| csv_error(&self.path, e))? {
            let line = row.position().map_or(0, csv::Position::line);
            if row.len() == self.header.len() {
                if row.iter().any(|cell| plain(cell) != cell) {
                    *row = row.iter().map(plain).collect();
                }
                return Ok(Some(line));
            }
            if row.len() != 1 || !row[0].is_empty() {
                let (got, expected) = (row.len(), self.header.len());
                return Err(self.error(
                    line,
                    format!("{got} fields"),
                    format!("{expected}, as in the header,"),
                ));
            }
        }
        Ok(None)
    }
}

fn csv_error(path: &Path, error: csv::Error) -> Error {
    let line = error.position().map_or(1, csv::Position::line);
    let (got, expected) = match error.kind() {
        csv::ErrorKind::Utf8 { err, .. } => (format!("bytes that are no UTF-8 ({err})"), "UTF-8".to_string()),
        _ => (error.to_string(), "a row of CSV".to_string()),
    };
    match error.into_kind() {
        csv::ErrorKind::Io(e) => Error::io(path, e),
        _ => Error::Table { path: path.to_path_buf(), line, expected, got },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn read(bytes: &[u8]) -> Result<Vec<(u64, Vec<String>)>> {
        let file = file(bytes);
        let mut table = Table::open(file.path())?;
        let (mut rows, mut row) = (Vec::new(), csv::StringRecord::new());
        while let Some(line) = table.next(&mut row)? {
            rows.push((line, row.iter().map(str::to_owned).collect()));
        }
        Ok(rows)
    }

    #[test]
    fn plain_and_gzip_give_the_same_rows() {
        let text = b"\xef\xbb\xbfa,b\r\n1,\"x\ny\"\r\n2,z\r\n\r\n";
        let want = vec![(2, vec!["1".to_string(), "x\ny".into()]), (4, vec!["2".into(), "z".into()])];
        assert_eq!(read(text).unwrap(), want);
        // Two members, as `cat a.gz b.gz` gives.
        let mut gzip = Vec::new();
        for part in [&text[..9], &text[9..]] {
            let mut encoder = flate2::write::GzEncoder::new(&mut gzip, flate2::Compression::fast());
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap();
        }
        assert_eq!(read(&gzip).unwrap(), want);
        assert!(matches!(read(&gzip[..gzip.len() - 9]), Err(Error::Io { .. })), "cut short");
        let names = file(text);
        let table = Table::open(names.path()).unwrap();
        assert_eq!(
            (table.column(&["a"]), table.column(&["c", "b"]), table.column(&["c"])),
            (Some(0), Some(1), None)
        );
    }

    #[test]
    fn errors_name_the_line() {
        let Err(Error::Table { line, got, expected, .. }) = read(b"a,b\n1,2\n3\n") else { panic!() };
        assert_eq!((line, &*got, &*expected), (3, "1 fields", "2, as in the header,"));
        let Err(Error::Table { line, .. }) = read(b"a,b\n1,2\n3,\xff\n") else { panic!() };
        assert_eq!(line, 3);
        assert!(matches!(Table::open(Path::new("no such file")), Err(Error::Io { .. })));
        assert_eq!(read(b"").unwrap(), vec![]);
    }
}
