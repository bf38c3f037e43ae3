//! Tables as text, CSV and TSV: where a record ends, quotes and all (RFC 4180), and the columns that are wanted of it.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use memchr::{memchr, memchr3};

use super::corruption::{CorruptionCause, CorruptionKind};
use super::cut::{End, Step};
use super::document::RecordContent;
use super::filetype::{Compression, Format, is_called};
use super::jsonl::{JOINT, JsonlFields, number};
use super::source::find_at_start;
use super::storage::Storage;
use crate::display::counted;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The first record of a file, which names the columns.
#[derive(Clone, Debug)]
pub(crate) struct CsvHeader {
    /// The record as it stands there, without a byte-order mark and its line end.
    pub bytes: Vec<u8>,
    /// The delimiter of values.
    pub delimiter: u8,
    /// Decoded bytes of the header and of what stands before it, with the first byte of its line end.
    pub length: u64,
    /// The names of the columns.
    pub names: Vec<String>,
}

/// Equal headers have the same columns, whatever stands before them in their files.
impl PartialEq for CsvHeader {
    fn eq(&self, other: &Self) -> bool {
        (&self.bytes, self.delimiter) == (&other.bytes, other.delimiter)
    }
}

impl CsvHeader {
    /// Reads the header of a file; `None` if there is none, or it does not end within a megabyte. A name that ends in
    /// `.tsv` says that tabs delimit values.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(path: &Path, storage: &Storage, compression: Compression) -> io::Result<Option<Self>> {
        const LONGEST: usize = 1 << 20;
        let header = |bytes: &[u8], is_all| {
            let header = Self::of(path, bytes, is_all);
            (header.is_some() || bytes.len() > LONGEST).then_some(header)
        };
        Ok(find_at_start(storage, compression, Format::Csv, header)?.flatten())
    }

    /// The header at the start of decoded bytes, if it ends there.
    fn of(path: &Path, bytes: &[u8], is_all: bool) -> Option<Self> {
        let start = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let start = start + bytes[start..].iter().take_while(|byte| is_line_end(**byte)).count();
        let line = &bytes[start..];
        let delimiter = delimiter(path, line);
        let (end, next) = match record_end(line, delimiter, is_all) {
            Ends::At(end) => (end, end + 1),
            Ends::WithBytes if is_all && !line.is_empty() => (line.len(), line.len()),
            _ => return None,
        };
        let names = values(&line[..end], delimiter);
        let names = names.map(|name| String::from_utf8_lossy(&name).trim().to_owned()).collect();
        Some(Self { bytes: line[..end].to_vec(), delimiter, length: (start + next) as u64, names })
    }

    /// The place of a column.
    fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|column| column == name)
    }

    /// The columns that make the text: one, or those that are joined.
    ///
    /// # Errors
    /// The name of a column that is not there.
    fn texts<'f>(&self, fields: &'f JsonlFields) -> Result<Vec<usize>, &'f str> {
        match self.column(&fields.text) {
            Some(text) => Ok(vec![text]),
            None if fields.joined().next().is_none() => Err(&fields.text),
            None => fields.joined().map(|name| self.column(name).ok_or(name)).collect(),
        }
    }

    /// True if there is a column of texts, or each of those that are joined.
    pub fn has_text(&self, fields: &JsonlFields) -> bool {
        self.texts(fields).is_ok()
    }

    /// Reads a record of values. `strict` calls corrupt what is repaired otherwise: bytes that are no UTF-8.
    ///
    /// # Errors
    /// The kind of corruption and what was found.
    pub fn parse(
        &self,
        record: &[u8],
        fields: &JsonlFields,
        strict: bool,
    ) -> Result<RecordContent<'static>, CorruptionCause> {
        fields.check_columns(self.names.iter().map(String::as_str))?;
        let texts = self.texts(fields).map_err(|missing| {
            let names = self.names.join(", ");
            let detail = format!("no column {missing:?}; --text-field names another one of {names}");
            (CorruptionKind::NoText, detail)
        })?;
        let mut values = values(record, self.delimiter);
        let row: Vec<Cow<'_, [u8]>> = values.by_ref().take(self.names.len()).collect();
        let found = row.len() + values.count();
        if found != self.names.len() {
            let values = counted(found as u64, "value", "values");
            let columns = counted(self.names.len() as u64, "column", "columns");
            return Err((CorruptionKind::Malformed, format!("{values} for {columns}")));
        }
        let mut repaired = false;
        let mut take = |at: usize| {
            let value = String::from_utf8_lossy(&row[at]);
            repaired |= matches!(value, Cow::Owned(_));
            value.into_owned()
        };
        let text = texts.iter().map(|&at| take(at)).collect::<Vec<_>>().join(JOINT);
        let mut named = |name: &str| {
            let value = self.column(name).filter(|_| name != fields.text).map(&mut take);
            value.filter(|value| !value.is_empty())
        };
        let score = fields.score.as_deref().and_then(&mut named);
        let group = fields.group.as_deref().and_then(&mut named).map(Cow::Owned);
        let [id, url, language] =
            [&fields.id, &fields.url, &fields.language].map(|name| named(name).map(Cow::Owned));
        if strict && repaired {
            return Err((CorruptionKind::Malformed, "bytes that are no UTF-8".to_owned()));
        }
        let score = score.and_then(|score| number(&score));
        let text = Cow::Owned(text);
        Ok(RecordContent { text, id, url, language, score, group, repaired, ..RecordContent::default() })
    }
}

/// The delimiter of values: of the usual ones the most frequent in the first line, a comma if there is none; in a file
/// called `.tsv` the tab.
fn delimiter(path: &Path, header: &[u8]) -> u8 {
    if is_called(path, ".tsv") {
        return b'\t';
    }
    let line = header.split(|&byte| is_line_end(byte)).next().unwrap_or_default();
    let count = |delimiter: u8| line.iter().filter(|&&byte| byte == delimiter).count();
    b"\t;,".iter().copied().max_by_key(|&delimiter| count(delimiter)).unwrap_or(b',')
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// The end of a record.
enum Ends {
    /// At a byte that ends a line.
    At(usize),
    /// With the bytes at hand, if these are all.
    WithBytes,
    /// Not at all: a quote is opened and not closed.
    Open,
}

/// The end of quotes that were opened before a place: behind the next one that is not doubled. None if they do not end.
/// `is_all`: none come behind these bytes.
fn end_of_quotes(bytes: &[u8], mut at: usize, is_all: bool) -> Option<usize> {
    loop {
        at += memchr(b'"', &bytes[at..])? + 1;
        match bytes.get(at) {
            Some(b'"') => at += 1,
            // The other of two may follow.
            None if !is_all => return None,
            _ => return Some(at),
        }
    }
}

/// The end of the record that begins with these bytes. Values that begin with a quote go on to the next one that is
/// not doubled; quotes elsewhere are as other bytes.
fn record_end(bytes: &[u8], delimiter: u8, is_all: bool) -> Ends {
    let mut at = 0;
    loop {
        if bytes.get(at) == Some(&b'"') {
            let Some(end) = end_of_quotes(bytes, at + 1, is_all) else { return Ends::Open };
            at = end;
        }
        let Some(end) = memchr3(delimiter, b'\n', b'\r', &bytes[at..]) else { return Ends::WithBytes };
        at += end;
        if bytes[at] != delimiter {
            return Ends::At(at);
        }
        at += 1;
    }
}

/// The values of a record, without what quotes them, and without a mark of byte order before them: files that were put
/// together have one in front of each.
fn values(record: &[u8], delimiter: u8) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = Some(record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record));
    std::iter::from_fn(move || {
        let bytes = rest?;
        let is_quoted = bytes.starts_with(b"\"");
        let closed = if is_quoted { end_of_quotes(bytes, 1, true).unwrap_or(bytes.len()) } else { 0 };
        let end = memchr(delimiter, &bytes[closed..]).map(|end| closed + end);
        rest = end.map(|end| &bytes[end + 1..]);
        let end = end.unwrap_or(bytes.len());
        if !is_quoted {
            return Some(Cow::Borrowed(&bytes[..end]));
        }
        let mut quoted = &bytes[1..closed];
        quoted = quoted.strip_suffix(b"\"").unwrap_or(quoted);
        let mut value = Vec::with_capacity(end);
        while let Some(quote) = memchr(b'"', quoted) {
            value.extend_from_slice(&quoted[..=quote]);
            quoted = quoted.get(quote + 2..).unwrap_or_default();
        }
        value.extend_from_slice(quoted);
        value.extend_from_slice(&bytes[closed..end]);
        Some(Cow::Owned(value))
    })
}

/// Cuts the next record off the start of `bytes`. One of more than `cap` bytes is corrupt.
pub(crate) fn step(bytes: &[u8], end: End, delimiter: u8, cap: usize) -> Step {
    if bytes.first().is_some_and(|&byte| is_line_end(byte)) {
        return Step::Skip(1);
    }
    // Where to look for the next one if this does not end: behind the line that it begins with.
    let line = || memchr(b'\n', bytes).unwrap_or(bytes.len());
    let record = |content_end: usize, end: usize| match content_end > cap {
        true => {
            let detail = format!("a record above {cap} bytes (--longest-document)");
            Step::flaw(CorruptionKind::TooLarge, end.saturating_sub(1), detail)
        }
        false => Step::Record { content_start: 0, content_end, end, document: true, raw: false },
    };
    match (record_end(bytes, delimiter, end != End::Unknown), end) {
        (Ends::At(content_end), _) => record(content_end, content_end + 1),
        _ if bytes.len() > cap + 1 => {
            let detail =
                format!("a record above {cap} bytes (--longest-document), or a quote that is not closed");
            Step::flaw(CorruptionKind::TooLarge, line(), detail)
        }
        // It is looked at from its beginning again, so there should be much more of it then.
        (_, End::Unknown) => Step::Need(2 * bytes.len().max(1)),
        (Ends::WithBytes, End::File) => record(bytes.len(), bytes.len()),
        (_, End::File) => Step::flaw(CorruptionKind::Malformed, line(), "a quote is opened and not closed"),
        (_, End::Gap) => {
            Step::flaw(CorruptionKind::Truncated, bytes.len(), "the end of the record is missing")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The records of a file, cut by steps from pieces that come one after the other.
    fn cut(bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let (mut records, mut at, mut known) = (Vec::new(), 0, 0);
        while at < bytes.len() {
            let (end, there) =
                if known >= bytes.len() { (End::File, bytes.len()) } else { (End::Unknown, known) };
            if there <= at {
                known = at + piece;
                continue;
            }
            match step(&bytes[at..there], end, b',', usize::MAX - 1) {
                Step::Skip(n) => at += n,
                Step::Need(n) => known = (at + n.max(there - at + piece)).min(bytes.len()),
                Step::Record { content_end, end, .. } => {
                    records.push(bytes[at..at + content_end].to_vec());
                    at += end;
                }
                Step::Flaw { .. } => break,
            }
        }
        records
    }

    fn row(record: &[u8]) -> Vec<Vec<u8>> {
        values(record, b',').map(Cow::into_owned).collect()
    }

    #[test]
    fn a_mark_before_a_record_is_no_part_of_it() {
        assert_eq!(row(b"\xef\xbb\xbf\"q, r\",3"), [b"q, r".to_vec(), b"3".to_vec()]);
    }

    proptest! {
        #[test]
        fn records_are_those_that_the_csv_crate_reads(
            text in "[ab\",\r\n é]{0,60}", piece in 1usize..20,
        ) {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
            let theirs: Vec<Vec<Vec<u8>>> = reader
                .byte_records()
                .map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect())
                .collect();
            let ours: Vec<Vec<Vec<u8>>> = cut(text.as_bytes(), piece).iter().map(|record| row(record)).collect();
            let is_open = {
                let mut rest = text.as_bytes();
                loop {
                    match step(rest, End::File, b',', usize::MAX - 1) {
                        _ if rest.is_empty() => break false,
                        Step::Skip(n) | Step::Record { end: n, .. } => rest = &rest[n..],
                        Step::Flaw { kind, .. } => break kind == CorruptionKind::Malformed,
                        Step::Need(_) => unreachable!("the whole file is at hand"),
                    }
                }
            };
            // An open quote takes in whatever follows there, and is corrupt here.
            prop_assert_eq!(&ours[..], &theirs[..theirs.len() - usize::from(is_open)]);
        }
    }

    #[test]
    fn headers_name_columns_and_their_delimiter() {
        let of = |name: &str, bytes: &str| CsvHeader::of(Path::new(name), bytes.as_bytes(), true).unwrap();
        let header = of("a.csv", "\u{feff}\r\nid, text ,\"url\"\r\n1,x,y\r\n");
        assert_eq!(
            (header.delimiter, &header.names[..]),
            (b',', &["id", "text", "url"].map(String::from)[..])
        );
        assert_eq!(header.length, "\u{feff}\r\nid, text ,\"url\"\r".len() as u64);
        assert_eq!(of("a.csv", "id;text;a,b").delimiter, b';');
        assert_eq!(of("a.TSV.gz", "id,text").delimiter, b'\t');
        assert_eq!(of("a.csv", "text").names, ["text"]);
        assert_eq!(CsvHeader::of(Path::new("a.csv"), b"id,te", false), None, "it may go on");
        assert_eq!(CsvHeader::of(Path::new("a.csv"), b"", true), None);
    }

    #[test]
    fn values_are_taken_by_name() {
        let header = CsvHeader::of(Path::new("a.csv"), b"url,text,id,score\n", true).unwrap();
        let fields = JsonlFields { score: Some("score".to_owned()), ..JsonlFields::default() };
        let line = header.parse(b"u,\"a \"\"b\"\"\nc\",7,2.5", &fields, false).unwrap();
        assert_eq!(
            (&*line.text, line.id.as_deref(), line.url.as_deref()),
            ("a \"b\"\nc", Some("7"), Some("u"))
        );
        assert_eq!((line.language, line.score, line.repaired), (None, Some(2.5), false));
        assert_eq!(header.parse(b"u,t", &fields, false).unwrap_err().0, CorruptionKind::Malformed);
        let texts = |text: &str| {
            let fields = JsonlFields { text: text.to_owned(), ..JsonlFields::default() };
            header.parse(b"u,t,7,2024-05-18", &fields, false).map(|line| line.text.into_owned())
        };
        assert_eq!(texts("score, text").as_deref(), Ok("2024-05-18\nt"));
        assert!(texts("score,titel").unwrap_err().1.contains("\"titel\""));
        let dated = header.parse(b"u,t,7,1970-01-02", &fields, false).unwrap();
        assert_eq!(dated.score, Some(86_400.0));
        let doubled = CsvHeader::of(Path::new("a.csv"), b"id,text,x,x,id\n", true).unwrap();
        let (kind, detail) = doubled.parse(b"1,t,,,2", &fields, false).unwrap_err();
        assert!(kind == CorruptionKind::NoText && detail.contains("\"id\""), "{detail}");
        for values in [5, 16, 17, 100, 1_000] {
            let record = [b"a".repeat(30), b",".repeat(values - 1)].concat();
            let (kind, detail) = header.parse(&record, &fields, false).unwrap_err();
            assert_eq!((kind, detail), (CorruptionKind::Malformed, format!("{values} values for 4 columns")));
        }
        // Quotes that a changed file does not close.
        for record in [&b"\""[..], b"a,\"", b"\"a\"\""] {
            assert_eq!(row(record).len(), 1 + usize::from(record.contains(&b',')));
        }
        assert!(header.parse(b"u,\xff,,", &fields, false).unwrap().repaired);
        assert_eq!(header.parse(b"u,\xff,,", &fields, true).unwrap_err().0, CorruptionKind::Malformed);
        let other = JsonlFields { text: "body".to_owned(), ..fields };
        let (kind, detail) = header.parse(b"u,t,1,2", &other, false).unwrap_err();
        assert_eq!(
            (kind, &*detail),
            (
                CorruptionKind::NoText,
                "no column \"body\"; --text-field names another one of url, text, id, score"
            )
        );
    }
}
