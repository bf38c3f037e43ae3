//! Corruption of the input: records, or sections of a file, that cannot be read. They are counted, skipped and named,
//! and never end a run.

use std::cell::Cell;
use std::fmt;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::document::{Document, RecordContent};
use crate::display::{counted, printable, printable_path};
use crate::document::{DocId, Place};
use crate::hash::fmix64;

/// The number of corrupt sections of a file that are kept in detail; the rest is only counted.
pub const CORRUPTION_KEPT: usize = 1000;

/// The number of corrupt sections of a file that are listed at once.
const LISTED: usize = 20;

/// The kind of corruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CorruptionKind {
    /// The file is missing, is no regular file, or may not be read; or the operating system stopped reading.
    Unreadable,
    /// The content is of no format that is read: first bytes that say nothing, or a member whose content is itself
    /// compressed. A file of blanks and zeros alone is such, too, as where a disk was full. A WARC or compressed file
    /// without a byte is such, and WARC of line ends alone.
    UnknownFormat,
    /// The file ends inside a gzip member, a Zstandard frame or a record, or before its footer (Parquet, Arrow).
    Truncated,
    /// Bytes that do not decode: a gzip member, a Zstandard frame, also one above [`super::ReadRules::longest_window`],
    /// a footer or data pages of Parquet, a message of Arrow. What they yielded before is used; the rest of a row group
    /// or a record batch is lost.
    Undecodable,
    /// A gzip member whose checksum or length does not fit its content. Lost if it holds a single record and at most
    /// 8 MiB; several records are used, since it is not known which of them is altered.
    Checksum,
    /// A record that breaks the rules of its format: by its header, its length, its body of HTTP, its number of values
    /// (CSV), or as no JSON object. Bytes between records are such, too, and text that is not UTF-8 where that is
    /// refused ([`super::ReadRules::strict`]).
    Malformed,
    /// A record or a file without the text field or column, or one that holds no string.
    NoText,
    /// A record above [`super::ReadOptions::record_cap`], or more documents than a file can number (2³² − 1).
    TooLarge,
    /// The document is used, but its address, id or language is not UTF-8, or cannot be a name (Parquet, Arrow), and
    /// was left out.
    BadName,
    /// The file is gone, or no longer what was read: a document of it is not among those that were kept.
    Changed,
}

impl CorruptionKind {
    /// The number of documents that a section of this kind costs, in a record or not; none where nobody can tell.
    fn documents(self, of_record: bool) -> Option<u64> {
        match self {
            Self::BadName => Some(0),
            // What is behind a stream's corruption is not known, though it is one record at the least.
            Self::Unreadable | Self::UnknownFormat | Self::Truncated | Self::Undecodable => None,
            // Several records of a member are used, a single one is lost.
            Self::Checksum => Some(u64::from(of_record)),
            _ => of_record.then_some(1),
        }
    }
}

impl fmt::Display for CorruptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The kind of corruption, and what was found, in words.
pub(crate) type CorruptionCause = (CorruptionKind, String);

/// The corruption of a file that the operating system or a store does not open, or stopped reading.
pub(crate) fn unreadable(error: impl fmt::Display) -> CorruptionCause {
    (CorruptionKind::Unreadable, error.to_string())
}

/// One corrupt record, or one corrupt section of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corruption {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The record concerned, all kinds of records counted from 0 in file order (JSONL: lines that are not
    /// blank; Parquet: rows). Of several lost rows it is the first. `None` when the corruption belongs to no record.
    pub record: Option<u64>,
    /// Offset in the stored file: of the gzip member or Zstandard frame, or in a plain file of the place itself. In
    /// Parquet that of the text of the row group, in Arrow that of the record batch.
    pub offset: u64,
    /// Decoded bytes from there to the place; 0 in a plain file, in Parquet and in Arrow.
    pub within: u64,
    /// The kind of corruption.
    pub kind: CorruptionKind,
    /// Documents that are lost by it; `None` where nobody can tell.
    pub documents: Option<u64>,
    /// The finding, in words.
    pub detail: String,
}

impl Corruption {
    /// Corruption at a stored offset of a file that belongs to no record, and costs as many documents as its kind does.
    pub(crate) fn of_file(path: &Path, offset: u64, kind: CorruptionKind, detail: impl Into<String>) -> Self {
        let (path, documents) = (path.to_path_buf(), kind.documents(false));
        Self { path, record: None, offset, within: 0, kind, documents, detail: detail.into() }
    }

    /// Corruption at a place of a file, and of the record with a number, if any. It costs as many documents as its kind
    /// does.
    pub(crate) fn at(
        path: &Path,
        record: Option<u64>,
        place: Place,
        kind: CorruptionKind,
        detail: impl Into<String>,
    ) -> Self {
        let (documents, within) = (kind.documents(record.is_some()), place.within);
        Self { record, within, documents, ..Self::of_file(path, place.offset, kind, detail) }
    }

    /// File order; everything that can differ takes part, so that a sorted list is the same in every run.
    fn key(&self) -> (u64, u64, Option<u64>, CorruptionKind, &str) {
        (self.offset, self.within, self.record, self.kind, &self.detail)
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", printable_path(&self.path))?;
        if let Some(record) = self.record {
            write!(f, "record {record}, ")?;
        }
        write!(f, "offset {}", self.offset)?;
        if self.within > 0 {
            write!(f, " (+{} decoded)", self.within)?;
        }
        write!(f, ": {}: {}", self.kind, printable(&self.detail))
    }
}

/// A record that is read, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPosition<'a> {
    /// The file, as it was named.
    pub path: &'a Path,
    /// The shard and row that it has as a document.
    pub id: DocId,
    /// Its number among all records of the file, counted from 0.
    pub record: u64,
    /// The place that its corruption is reported with.
    pub place: Place,
    /// True for a WARC response or resource: what a server sent, whose text must be extracted.
    pub raw: bool,
}

/// The limits of a document while its text is extracted, and the bytes of one that exceeds the memory.
#[derive(Debug)]
#[cfg_attr(not(feature = "html"), expect(dead_code))]
pub(crate) struct DocumentRoom {
    /// Bytes of a body, unpacked; longer ones count as corrupt.
    cap: usize,
    /// Bytes that a document may have for memory's sake, as [`Document::bytes`] counts them.
    most: u64,
    exceeded: Cell<Option<u64>>,
}

impl DocumentRoom {
    /// Limits: `cap` bytes of an unpacked body, by the options, and `most` bytes as [`Document::bytes`] counts them.
    pub fn new(cap: usize, most: u64) -> Self {
        Self { cap, most, exceeded: Cell::new(None) }
    }

    /// Bytes of a body that are unpacked at most, by both limits.
    #[cfg(feature = "html")]
    pub fn body(&self) -> usize {
        self.cap.min(TooLong::at_hand(self.most))
    }

    /// The corruption of a longer body. If memory is the limit, [`exceeded`](Self::exceeded) returns its bytes then.
    #[cfg(feature = "html")]
    pub fn refuse_body(&self) -> CorruptionCause {
        let body = self.body();
        if body < self.cap {
            self.exceeded.set(Some(TooLong::of(0, body + 1).bytes));
        }
        (CorruptionKind::TooLarge, format!("a body above {body} bytes (--longest-document)"))
    }

    /// Checks that there is memory for a document that takes as much as a record of so many bytes.
    ///
    /// # Errors
    /// The corruption, if that is more than `most`; [`exceeded`](Self::exceeded) returns these bytes then.
    #[cfg(feature = "html")]
    pub fn take(&self, bytes: u64) -> Result<(), CorruptionCause> {
        if bytes <= self.most {
            return Ok(());
        }
        self.exceeded.set(Some(bytes));
        Err((CorruptionKind::TooLarge, "more markup than there is memory for".to_owned()))
    }

    /// The least bytes of a document for which there was too little memory; `None` if there was enough.
    pub fn exceeded(&self) -> Option<u64> {
        self.exceeded.get()
    }
}

/// A record with more bytes than there is memory for, at which reading ends. A run fails then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong {
    /// Its number among the records of its file, counted from 0.
    pub record: u64,
    /// Bytes that it has at least, as [`Document::bytes`] counts them.
    pub bytes: u64,
}

impl TooLong {
    /// The decoded bytes of a record that may be read if it may have `most` bytes: twice as many, since
    /// [`of`](Self::of) counts half of them.
    pub fn at_hand(most: u64) -> usize {
        usize::try_from(most.saturating_mul(2)).unwrap_or(usize::MAX)
    }

    /// A record of which `at_hand` decoded bytes are read, and more may follow. Half of them count.
    pub fn of(record: u64, at_hand: usize) -> Self {
        Self { record, bytes: at_hand.div_ceil(2) as u64 }
    }
}

/// The outcome of reading a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReading {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Bytes of the file that were read; of Parquet and Arrow also those of columns that were passed over.
    pub stored_bytes: u64,
    /// Decoded bytes of the file, of headers and between records too; in Parquet and Arrow, bytes of memory of the
    /// columns that were read.
    pub decoded_bytes: u64,
    /// UTF-8 bytes of all documents' texts.
    pub text_bytes: u64,
    /// Records of any kind, corrupt ones included (JSONL: lines that are not blank; Parquet: rows).
    pub records: u64,
    /// Documents handed out.
    pub documents: u64,
    /// Corrupt sections, all of them.
    pub corrupt: u64,
    /// The first 1,000 corrupt sections in file order.
    pub corruption: Vec<Corruption>,
    /// Documents that are lost by corruption, where that can be known.
    pub documents_lost: u64,
    /// Corrupt sections that cost nobody knows how many documents.
    pub unknown_losses: u64,
    /// Documents with U+FFFD for bytes that their charset does not have, or for half a surrogate pair. It stands in the
    /// text, or elsewhere in a line of JSON or a value of CSV.
    pub repaired: u64,
    /// Documents that the crawler cut, or whose body breaks off.
    #[serde(default)]
    pub truncated: u64,
    /// Lines and rows whose text is null, and first lines that say that a list of pages follows (WACZ): no documents,
    /// and not corrupt.
    pub without_text: u64,
    /// 1 if the file ends with a record of WARC without the line ends that belong behind it, or else 0. The file may
    /// have been cut there.
    #[serde(default)]
    pub(crate) unterminated: u64,
    /// Corrupt sections of the kind [`CorruptionKind::NoText`].
    #[serde(default)]
    pub(crate) no_text: u64,
    /// Documents that have an id.
    #[serde(default)]
    pub(crate) with_id: u64,
    /// Documents that have an address.
    #[serde(default)]
    pub(crate) with_url: u64,
    /// Records that hold a document in a form that is not read: WARC `response` and `resource`, from which no text
    /// was taken. No documents, and not corrupt.
    pub unread: u64,
    /// Documents whose text was taken from what a server sent (WARC), or from a file of HTML (`gather`).
    pub extracted: u64,
    /// The [`TextSum`] of the documents; `None` where it was not asked for.
    #[serde(default)]
    pub texts: Option<TextSum>,
    /// Time spent on reading, decoding and cutting into records, summed over threads.
    pub decoding: Duration,
    /// The part of `decoding` that is spent under the file's lock, while other threads wait for it.
    #[serde(default)]
    pub locked: Duration,
    /// Time spent on the records of blocks and by whoever takes their documents, summed over threads.
    pub processing: Duration,
}

/// A sum over the texts of a file and their rows. Files with the same sum have the same texts in the same rows, but by
/// a chance of one in 2⁶⁴. Results keep it, so that later commands see if texts have changed. JSON has it as sixteen
/// hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TextSum(u64);

impl TextSum {
    /// Takes in the text in a row, by its [digest](crate::hash::text_digest). The order does not matter.
    pub fn add(&mut self, row: u32, digest: u128) {
        let text = fmix64(digest as u64 ^ fmix64((digest >> 64) as u64 ^ u64::from(row)));
        self.0 = self.0.wrapping_add(text);
    }

    /// Takes in the sum of another part of the file.
    pub fn merge(&mut self, part: Self) {
        self.0 = self.0.wrapping_add(part.0);
    }
}

impl From<TextSum> for String {
    fn from(sum: TextSum) -> Self {
        format!("{:016x}", sum.0)
    }
}

impl TryFrom<String> for TextSum {
    type Error = ParseIntError;

    fn try_from(digits: String) -> Result<Self, ParseIntError> {
        u64::from_str_radix(&digits, 16).map(Self)
    }
}

impl FileReading {
    /// The corruption in lines for a person: one for listed sections of the same kind and detail, with the first of
    /// them and how many more there are. At most 20 are given; a last line counts all other sections. Records without a
    /// text are left out, since one warning covers those of all files.
    pub fn corruption_messages(&self) -> Vec<String> {
        let mut alike: Vec<(&Corruption, u64)> = Vec::new();
        for piece in self.corruption.iter().filter(|piece| piece.kind != CorruptionKind::NoText) {
            let is_alike =
                |(first, _): &(&Corruption, u64)| (first.kind, &first.detail) == (piece.kind, &piece.detail);
            match alike.iter().position(is_alike) {
                Some(at) => alike[at].1 += 1,
                None if alike.len() < LISTED => alike.push((piece, 0)),
                None => {}
            }
        }
        let listed: u64 = alike.iter().map(|(_, more)| more + 1).sum();
        let line = |(first, more): &(&Corruption, u64)| match more {
            0 => first.to_string(),
            more => format!("{first}; the same of {}", counted(*more, "more record", "more records")),
        };
        let mut lines: Vec<String> = alike.iter().map(line).collect();
        let known = listed + self.no_text;
        if self.corrupt > known {
            let more = counted(self.corrupt - known, "more corrupt section", "more corrupt sections");
            lines.push(format!("{}: {more}", printable_path(&self.path)));
        }
        lines
    }

    /// Takes in a record: hands its document to `each` and counts it, or notes its corruption. A record without content
    /// and corruption counts as unread, if it is raw, and as without a text otherwise. `records` stays as it is.
    pub(crate) fn take(
        &mut self,
        position: RecordPosition<'_>,
        content: Result<Option<(RecordContent<'_>, Place)>, CorruptionCause>,
        each: &mut impl FnMut(Document<'_>),
    ) {
        let RecordPosition { path, id, record, place, raw } = position;
        let corruption = |kind, detail| Corruption::at(path, Some(record), place, kind, detail);
        match content {
            Ok(Some((content, place))) => {
                for name in &content.bad_names {
                    self.add(corruption(CorruptionKind::BadName, format!("{name} and was left out")));
                }
                let document = content.document(id, place);
                self.documents += 1;
                self.text_bytes += document.text.len() as u64;
                self.repaired += u64::from(document.repaired);
                self.truncated += u64::from(document.truncated);
                self.with_id += u64::from(document.record_id.is_some());
                self.with_url += u64::from(document.url.is_some());
                self.extracted += u64::from(raw);
                each(document);
            }
            Ok(None) if raw => self.unread += 1,
            Ok(None) => self.without_text += 1,
            Err((kind, detail)) => self.add(corruption(kind, detail)),
        }
    }

    /// Adds the outcome of reading a part of the file. Its path and its sum of texts are not taken over.
    pub(crate) fn merge(&mut self, part: Self) {
        self.stored_bytes += part.stored_bytes;
        self.decoded_bytes += part.decoded_bytes;
        self.text_bytes += part.text_bytes;
        self.records += part.records;
        self.documents += part.documents;
        self.decoding += part.decoding;
        self.locked += part.locked;
        self.processing += part.processing;
        self.repaired += part.repaired;
        self.truncated += part.truncated;
        self.without_text += part.without_text;
        self.unterminated += part.unterminated;
        self.no_text += part.no_text;
        self.with_id += part.with_id;
        self.with_url += part.with_url;
        self.unread += part.unread;
        self.extracted += part.extracted;
        // What a part has dropped it has counted.
        self.corrupt += part.corrupt;
        self.documents_lost += part.documents_lost;
        self.unknown_losses += part.unknown_losses;
        part.corruption.into_iter().for_each(|corruption| self.keep(corruption));
    }

    /// Counts a corrupt section and lists it. [`settle`](Self::settle) shortens the list.
    pub(crate) fn add(&mut self, corruption: Corruption) {
        self.corrupt += 1;
        self.documents_lost += corruption.documents.unwrap_or(0);
        self.unknown_losses += u64::from(corruption.documents.is_none());
        self.no_text += u64::from(corruption.kind == CorruptionKind::NoText);
        self.keep(corruption);
    }

    fn keep(&mut self, corruption: Corruption) {
        self.corruption.push(corruption);
        // Pieces arrive in any order; the first ones of the file must remain, so only sorted lists are cut.
        if self.corruption.len() >= 2 * CORRUPTION_KEPT {
            self.settle();
        }
    }

    /// Sorts the listed corruption in file order, and keeps the first [`CORRUPTION_KEPT`] of it.
    pub(crate) fn settle(&mut self) {
        self.corruption.sort_by(|a, b| a.key().cmp(&b.key()));
        self.corruption.truncate(CORRUPTION_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corruption(offset: u64) -> Corruption {
        Corruption {
            path: "a".into(),
            record: Some(offset),
            offset,
            within: 0,
            kind: CorruptionKind::Malformed,
            documents: Some(1),
            detail: String::new(),
        }
    }

    #[test]
    fn keeps_the_first_in_any_order_of_arrival() {
        let total = 5 * CORRUPTION_KEPT as u64;
        let (mut up, mut down) = (FileReading::default(), FileReading::default());
        (0..total).for_each(|i| up.add(corruption(i)));
        (0..total).rev().for_each(|i| down.add(corruption(i)));
        up.settle();
        down.settle();
        assert_eq!(up, down);
        assert_eq!(up.corrupt, total);
        assert_eq!(up.corruption.len(), CORRUPTION_KEPT);
        assert_eq!(up.corruption.last(), Some(&corruption(CORRUPTION_KEPT as u64 - 1)));
    }

    #[test]
    fn tells_the_first_and_counts_the_rest() {
        let mut file = FileReading { path: "a".into(), ..FileReading::default() };
        assert!(file.corruption_messages().is_empty());
        let unlike = |i: u64| Corruption { detail: i.to_string(), ..corruption(i) };
        (0..20).for_each(|i| file.add(unlike(i)));
        let first: Vec<String> = (0..20).map(|i| unlike(i).to_string()).collect();
        assert_eq!(file.corruption_messages(), first);
        file.add(unlike(20));
        assert_eq!(file.corruption_messages()[..20], first);
        assert_eq!(file.corruption_messages()[20..], ["a: 1 more corrupt section"]);
        file.add(unlike(21));
        assert_eq!(file.corruption_messages()[20..], ["a: 2 more corrupt sections"]);
        let mut file = FileReading { path: "a".into(), ..FileReading::default() };
        (0..84).for_each(|i| file.add(corruption(i)));
        file.add(unlike(84));
        let listed = [format!("{}; the same of 83 more records", corruption(0)), unlike(84).to_string()];
        assert_eq!(file.corruption_messages(), listed);
        (0..50).for_each(|i| file.add(Corruption { kind: CorruptionKind::NoText, ..unlike(i) }));
        assert_eq!((file.corruption_messages(), file.no_text), (listed.to_vec(), 50));
    }

    #[test]
    fn names_are_what_serde_writes() {
        for kind in [CorruptionKind::Malformed, CorruptionKind::Unreadable, CorruptionKind::NoText] {
            assert_eq!(serde_json::to_string(&kind).expect("plain enum"), format!("\"{kind}\""));
        }
    }

    #[test]
    fn reads_as_a_sentence_that_gives_no_orders_to_a_terminal() {
        let d = Corruption { within: 3, detail: "3 bytes skipped".into(), ..corruption(7) };
        assert_eq!(d.to_string(), "a: record 7, offset 7 (+3 decoded): malformed: 3 bytes skipped");
        let path = "documents\n\u{1b}[31m.wet".into();
        let d = Corruption { path, detail: "the id \u{9b}2J".into(), ..corruption(7) };
        assert_eq!(
            d.to_string(),
            r"documents\n\u{1b}[31m.wet: record 7, offset 7: malformed: the id \u{9b}2J"
        );
    }
}
