//! Writes tables as CSV and as lines of JSON.

use super::cell::guarded;
use super::{ClusterRow, DocumentRow, PairRow, rounded};
use crate::{Error, Result};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A row of a table that simflip writes as CSV: its fields, in order, are the cells.
pub trait TableRow: Serialize {
    /// The names of the columns, in the order of the fields.
    const COLUMNS: &'static [&'static str];

    /// Guards the cells with text of the input, each by [`guarded`].
    fn guard(&mut self);
}

impl TableRow for PairRow<'_> {
    // Tables of all versions begin with the first six.
    const COLUMNS: &'static [&'static str] = &[
        "a_id",
        "b_id",
        "a_url",
        "b_url",
        "distance",
        "similarity",
        "kind",
        "measure",
        "a_file",
        "a_row",
        "a_side",
        "b_file",
        "b_row",
        "b_side",
    ];

    fn guard(&mut self) {
        let ids = [&mut self.a_id, &mut self.b_id, &mut self.a_url, &mut self.b_url];
        ids.into_iter().chain([&mut self.a_at.file, &mut self.b_at.file]).for_each(guard);
    }
}

impl TableRow for ClusterRow<'_> {
    // Tables of all versions begin with the first five.
    const COLUMNS: &'static [&'static str] = &["id", "url", "cluster", "size", "kept", "file", "row", "side"];

    fn guard(&mut self) {
        [&mut self.id, &mut self.url, &mut self.cluster, &mut self.at.file].into_iter().for_each(guard);
    }
}

impl TableRow for DocumentRow<'_> {
    const COLUMNS: &'static [&'static str] =
        &["file", "row", "id", "url", "cluster", "size", "kept", "representative", "similarity"];

    fn guard(&mut self) {
        [&mut self.file, &mut self.id, &mut self.url, &mut self.representative].into_iter().for_each(guard);
    }
}

/// Replaces a cell that a spreadsheet would take for a formula by its guarded form, see [`guarded`].
pub(crate) fn guard(cell: &mut Cow<'_, str>) {
    if let Cow::Owned(live) = guarded(cell) {
        *cell = Cow::Owned(live);
    }
}

/// Writes a whole table of documents to `path` with a JSON object on each line, and gives the number of rows. A URL,
/// cluster or similarity that a document lacks is null. Nothing is guarded, as no spreadsheet reads the file.
///
/// # Errors
/// As [`write()`].
pub fn write_documents_jsonl<'a>(
    path: &Path,
    rows: impl IntoIterator<Item = Result<DocumentRow<'a>>>,
) -> Result<u64> {
    #[derive(Serialize)]
    struct WrittenLine<'a> {
        file: &'a str,
        row: u32,
        id: &'a str,
        url: Option<&'a str>,
        cluster: Option<u32>,
        size: u64,
        kept: bool,
        representative: &'a str,
        similarity: Option<f64>,
    }
    let io = |error| Error::io(path, error);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(io)?);
    let mut written = 0;
    for row in rows {
        let row = row?;
        let line = WrittenLine {
            file: &row.file,
            row: row.row,
            id: &row.id,
            url: (!row.url.is_empty()).then_some(&row.url),
            cluster: row.cluster,
            size: row.size,
            kept: row.kept,
            representative: &row.representative,
            similarity: row.similarity.map(rounded),
        };
        serde_json::to_writer(&mut out, &line).map_err(|error| io(error.into()))?;
        out.write_all(b"\n").map_err(io)?;
        written += 1;
    }
    out.flush().map_err(io)?;
    Ok(written)
}

/// Writes a whole table to `path` as CSV, over any file there, and gives the number of rows without the header.
///
/// # Errors
/// If the file cannot be written, and the first error among the rows.
pub fn write<R: TableRow>(path: &Path, rows: impl IntoIterator<Item = Result<R>>) -> Result<u64> {
    let io = |error: csv::Error| Error::io(path, error.into());
    let file = File::create(path).map_err(|e| Error::io(path, e))?;
    let mut table = csv::WriterBuilder::new().has_headers(false).from_writer(BufWriter::new(file));
    table.write_record(R::COLUMNS).map_err(io)?;
    let mut written = 0;
    for row in rows {
        let mut row = row?;
        row.guard();
        table.serialize(row).map_err(io)?;
        written += 1;
    }
    table.flush().map_err(|e| Error::io(path, e))?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{At, Side};
    use simflip_core::dedup::PairKind;

    fn pair<'a>(a: &'a str, b: &'a str, distance: Option<u32>, similarity: f64) -> PairRow<'a> {
        PairRow {
            a_id: a.into(),
            b_id: b.into(),
            a_url: a.into(),
            b_url: b.into(),
            distance,
            similarity,
            kind: PairKind::Near,
            measure: "hash-cosine",
            a_at: at(a, 1),
            b_at: at(b, 2),
        }
    }

    fn at(file: &str, row: u32) -> At<'_> {
        At { file: file.into(), row, side: if row == 1 { Side::New } else { Side::Reference } }
    }

    #[test]
    fn pairs_have_the_promised_form() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pairs.csv");
        let rows = [
            pair("0:1", "0:2", Some(3), 0.987_65),
            PairRow { kind: PairKind::Exact, measure: "text", ..pair("a,b", "say \"hi\"\nthere", None, 1.0) },
        ];
        assert_eq!(write(&path, rows.map(Ok)).expect("writes"), 2);
        assert_eq!(
            std::fs::read_to_string(&path).expect("reads"),
            "a_id,b_id,a_url,b_url,distance,similarity,kind,measure,a_file,a_row,a_side,b_file,b_row,b_side\n\
             0:1,0:2,0:1,0:2,3,0.9877,near,hash-cosine,0:1,1,new,0:2,2,reference\n\
             \"a,b\",\"say \"\"hi\"\"\nthere\",\"a,b\",\"say \"\"hi\"\"\nthere\",,1.0000,exact,text,\"a,b\",1,new,\
             \"say \"\"hi\"\"\nthere\",2,reference\n"
        );
    }

    #[test]
    fn an_empty_table_has_a_header() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("clusters.csv");
        assert_eq!(write::<ClusterRow<'_>>(&path, []).expect("writes"), 0);
        assert_eq!(
            std::fs::read_to_string(&path).expect("reads"),
            "id,url,cluster,size,kept,file,row,side\n"
        );
    }

    #[test]
    fn errors_name_the_file_or_come_from_the_rows() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = folder.path().join("none").join("pairs.csv");
        let error = write::<PairRow<'_>>(&missing, []).expect_err("no such folder").to_string();
        assert!(error.contains("pairs.csv"), "{error}");
        let row: Result<PairRow<'_>> = Err(Error::NoDocuments("here".to_string()));
        assert!(matches!(write(&folder.path().join("p"), [row]), Err(Error::NoDocuments(_))));
    }
}
