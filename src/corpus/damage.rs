//! Damage of the input: counted, skipped and named, never the end of a run.

use std::cell::Cell;
use std::fmt;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::document::{Document, RecordContent};
use crate::document::{DocId, Place};
use crate::hash::fmix64;
use crate::wording::{counted, printable, printable_path};

/// The number of pieces of damage of a file that are kept in detail; the rest is only counted.
pub const DAMAGE_KEPT: usize = 1000;

/// The number of pieces of damage of a file that are listed at once.
const TOLD: usize = 20;

/// The sort of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DamageKind {
    /// The file is missing, is no regular file, or may not be read; or the operating system stopped reading.
    Unreadable,
    /// The content is of no format that is read: first bytes that say nothing, no byte at all, blanks and zeros only,
    /// as where a disk was full, or a member whose content is itself compressed.
    UnknownFormat,
    /// The file ends inside a gzip member, a Zstandard frame or a record, or before its footer (Parquet, Arrow).
    Truncated,
    /// Bytes that do not decode: a gzip member, a Zstandard frame, also one above [`super::ReadRules::longest_window`],
    /// a footer or data pages of Parquet, a message of Arrow. What they yielded before is used; the rest of a row group
    /// or a record batch is lost.
    Corrupt,
    /// A gzip member whose checksum or length does not fit its content. Lost if it holds a single record;
    /// several records are used, since it is not known which of them is altered.
    Checksum,
    /// A record that breaks the rules of its format: a header, a length, a body of HTTP, a line that is no JSON object,
    /// or values of CSV that are more or fewer than the columns. Text that is not UTF-8 where that is refused
    /// ([`super::ReadRules::strict`]), and bytes between records.
    Malformed,
    /// A record or a file without the text field or column, or one that holds no string.
    NoText,
    /// A record above [`super::ReadOptions::record_cap`], or more documents than a file can number (2³²).
    TooLarge,
    /// The document is used, but its address, id or language is not UTF-8, or does not decode (Parquet), and
    /// was left out.
    BadName,
    /// The file is gone, or no longer what was read: a document of it is not among those that were kept.
    Changed,
}

impl DamageKind {
    /// The number of documents that a piece of this kind costs, in a record or not; none where nobody can tell.
    fn documents(self, of_record: bool) -> Option<u64> {
        match self {
            Self::BadName => Some(0),
            // What is behind a stream's damage is not known, though it is one record at the least.
            Self::Unreadable | Self::UnknownFormat | Self::Truncated | Self::Corrupt => None,
            // Several records of a member are used, a single one is lost.
            Self::Checksum => Some(u64::from(of_record)),
            _ => of_record.then_some(1),
        }
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The kind of damage, and what was found.
pub(crate) type DamageCause = (DamageKind, String);

/// The damage where the operating system or a store stopped reading.
pub(crate) fn unreadable(error: impl fmt::Display) -> DamageCause {
    (DamageKind::Unreadable, error.to_string())
}

/// One piece of damage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The record concerned, all kinds of records counted from 0 in file order (JSONL: lines that are not
    /// blank; Parquet: rows). `None` when the damage belongs to no record.
    pub record: Option<u64>,
    /// Where in the stored file: the start of the gzip member or Zstandard frame, or in a plain file the
    /// place itself; in a Parquet file the text of the row group.
    pub offset: u64,
    /// Decoded bytes from there to the place; 0 in a plain file and in Parquet.
    pub within: u64,
    /// The sort of damage.
    pub kind: DamageKind,
    /// Documents that are lost by it; `None` where nobody can tell.
    pub documents: Option<u64>,
    /// The finding, in words.
    pub detail: String,
}

impl Damage {
    /// Damage of a file that belongs to no record, and costs what its kind does.
    pub(crate) fn of_file(path: &Path, offset: u64, kind: DamageKind, detail: impl Into<String>) -> Self {
        let (path, documents) = (path.to_path_buf(), kind.documents(false));
        Self { path, record: None, offset, within: 0, kind, documents, detail: detail.into() }
    }

    /// Damage at the offset and the decoded bytes of a place, which costs what its kind does.
    pub(crate) fn at(
        path: &Path,
        record: Option<u64>,
        place: Place,
        kind: DamageKind,
        detail: impl Into<String>,
    ) -> Self {
        let (documents, within) = (kind.documents(record.is_some()), place.within);
        Self { record, within, documents, ..Self::of_file(path, place.offset, kind, detail) }
    }

    /// File order; everything that can differ takes part, so that a sorted list is the same in every run.
    fn key(&self) -> (u64, u64, Option<u64>, DamageKind, &str) {
        (self.offset, self.within, self.record, self.kind, &self.detail)
    }
}

impl fmt::Display for Damage {
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
    /// Its file and its row, if it is a document.
    pub id: DocId,
    /// Its number in the file, counted from 0.
    pub record: u64,
    /// Where damage of it is.
    pub place: Place,
    /// True if it is what a server sent.
    pub raw: bool,
}

/// The limits of a document while its text is extracted.
#[derive(Debug)]
#[cfg_attr(not(feature = "html"), expect(dead_code))]
pub(crate) struct DocumentRoom {
    /// Bytes of a body, unpacked; longer ones are damage.
    cap: usize,
    /// Bytes that a record may have.
    most: u64,
    exceeded: Cell<Option<u64>>,
}

impl DocumentRoom {
    pub fn new(cap: usize, most: u64) -> Self {
        Self { cap, most, exceeded: Cell::new(None) }
    }

    /// Bytes of a body that are unpacked at most.
    #[cfg(feature = "html")]
    pub fn body(&self) -> usize {
        self.cap.min(TooLong::at_hand(self.most))
    }

    /// Why a body is not read that is longer.
    #[cfg(feature = "html")]
    pub fn refuse_body(&self) -> DamageCause {
        let body = self.body();
        if body < self.cap {
            self.exceeded.set(Some(TooLong::of(0, body + 1).bytes));
        }
        (DamageKind::TooLarge, format!("a body above {body} bytes (--longest-document)"))
    }

    /// Takes what is in memory as a record of so many bytes is.
    ///
    /// # Errors
    /// If that is too much.
    #[cfg(feature = "html")]
    pub fn take(&self, bytes: u64) -> Result<(), DamageCause> {
        if bytes <= self.most {
            return Ok(());
        }
        self.exceeded.set(Some(bytes));
        Err((DamageKind::TooLarge, "more markup than there is memory for".to_owned()))
    }

    /// Bytes of a record that would take what there was no room for.
    pub fn exceeded(&self) -> Option<u64> {
        self.exceeded.get()
    }
}

/// A record with more bytes than there is memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub record: u64,
    /// Bytes that it has at least, as [`Document::bytes`] counts them.
    pub bytes: u64,
}

impl TooLong {
    /// The number of bytes of a record that may be at hand if the record may take `most`: half of them counts.
    pub fn at_hand(most: u64) -> usize {
        usize::try_from(most.saturating_mul(2)).unwrap_or(usize::MAX)
    }

    /// A record of which so many bytes are at hand.
    pub fn of(record: u64, at_hand: usize) -> Self {
        Self { record, bytes: at_hand.div_ceil(2) as u64 }
    }
}

/// The outcome of reading a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReading {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Bytes of the file that were read; of a Parquet file also those of columns that were passed over.
    pub stored_bytes: u64,
    /// Bytes of decoded records or lines, headers included; in Parquet, of the columns that were read.
    pub decoded_bytes: u64,
    /// UTF-8 bytes of all documents' texts.
    pub text_bytes: u64,
    /// Records of any kind, damaged ones included (JSONL: lines that are not blank; Parquet: rows).
    pub records: u64,
    /// Documents handed out.
    pub documents: u64,
    /// Pieces of damage, all of them.
    pub damaged: u64,
    /// The first 1,000 pieces of damage in file order.
    pub damage: Vec<Damage>,
    /// Documents that are lost by damage, where that can be known.
    pub documents_lost: u64,
    /// Pieces of damage that cost nobody knows how many documents.
    pub unknown_losses: u64,
    /// Documents in whose text something stands for bytes that are no UTF-8, or for half a character.
    pub repaired: u64,
    /// Documents that the crawler cut, or whose body breaks off.
    #[serde(default)]
    pub truncated: u64,
    /// Lines and rows whose text is null: no documents, and no damage.
    pub without_text: u64,
    /// Records of WARC at the end of the file without the line ends that belong behind them.
    #[serde(default)]
    pub(crate) unterminated: u64,
    /// Pieces of damage of the kind [`DamageKind::NoText`].
    #[serde(default)]
    pub(crate) no_text: u64,
    /// Documents that have an id.
    #[serde(default)]
    pub(crate) with_id: u64,
    /// Documents that have an address.
    #[serde(default)]
    pub(crate) with_url: u64,
    /// Records that hold a document in a form that is not read: WARC `response` and `resource`, from which no text
    /// was taken. No documents, and no damage.
    pub unread: u64,
    /// Documents whose text was taken from what a server sent.
    pub extracted: u64,
    /// [`TextSum`] of the documents; none where it was not asked for.
    #[serde(default)]
    pub texts: Option<TextSum>,
    /// Time spent on reading, decoding and cutting into records, summed over threads.
    pub decoding: Duration,
    /// The part of it that is spent under the file's lock, while no other thread is served.
    #[serde(default)]
    pub locked: Duration,
    /// Time spent on the records themselves, `each` included, summed over threads.
    pub processing: Duration,
}

/// A sum over the texts of a file and their places in it: files with the same sum have the same texts at the same
/// places, but by a chance of one in 2⁶⁴. JSON has it as sixteen hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TextSum(u64);

impl TextSum {
    /// Takes in the text in a row, by its [digest](crate::hash::text_digest). The order does not matter.
    pub fn add(&mut self, row: u32, digest: u128) {
        let text = fmix64(digest as u64 ^ fmix64((digest >> 64) as u64 ^ u64::from(row)));
        self.0 = self.0.wrapping_add(text);
    }

    /// Takes in what another part of the file came to.
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
    /// The damage in lines for a person: a line for the pieces that are alike, the first of these, and how many more
    /// there are. None without damage. Records without a text have one warning for all files.
    pub fn damage_messages(&self) -> Vec<String> {
        let mut alike: Vec<(&Damage, u64)> = Vec::new();
        for piece in self.damage.iter().filter(|piece| piece.kind != DamageKind::NoText) {
            let is_alike =
                |(first, _): &(&Damage, u64)| (first.kind, &first.detail) == (piece.kind, &piece.detail);
            match alike.iter().position(is_alike) {
                Some(at) => alike[at].1 += 1,
                None if alike.len() < TOLD => alike.push((piece, 0)),
                None => {}
            }
        }
        let listed: u64 = alike.iter().map(|(_, more)| more + 1).sum();
        let line = |(first, more): &(&Damage, u64)| match more {
            0 => first.to_string(),
            more => format!("{first}; the same of {}", counted(*more, "more record", "more records")),
        };
        let mut lines: Vec<String> = alike.iter().map(line).collect();
        let known = listed + self.no_text;
        if self.damaged > known {
            let more = counted(self.damaged - known, "more piece of damage", "more pieces of damage");
            lines.push(format!("{}: {more}", printable_path(&self.path)));
        }
        lines
    }

    /// Takes in a record: hands on its document and counts it, or notes what is damaged of it. One that has neither a
    /// content nor damage counts as unread, if it is raw, and as without a text otherwise.
    pub(crate) fn take(
        &mut self,
        position: RecordPosition<'_>,
        content: Result<Option<(RecordContent<'_>, Place)>, DamageCause>,
        each: &mut impl FnMut(Document<'_>),
    ) {
        let RecordPosition { path, id, record, place, raw } = position;
        let damage = |kind, detail| Damage::at(path, Some(record), place, kind, detail);
        match content {
            Ok(Some((content, place))) => {
                for name in &content.bad_names {
                    self.add(damage(DamageKind::BadName, format!("{name} and was left out")));
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
            Err((kind, detail)) => self.add(damage(kind, detail)),
        }
    }

    /// Adds what a part of the file came to.
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
        self.damaged += part.damaged;
        self.documents_lost += part.documents_lost;
        self.unknown_losses += part.unknown_losses;
        part.damage.into_iter().for_each(|damage| self.keep(damage));
    }

    /// Counts a piece of damage and keeps it for now.
    pub(crate) fn add(&mut self, damage: Damage) {
        self.damaged += 1;
        self.documents_lost += damage.documents.unwrap_or(0);
        self.unknown_losses += u64::from(damage.documents.is_none());
        self.no_text += u64::from(damage.kind == DamageKind::NoText);
        self.keep(damage);
    }

    fn keep(&mut self, damage: Damage) {
        self.damage.push(damage);
        // Pieces arrive in any order; the first ones of the file must remain, so only sorted lists are cut.
        if self.damage.len() >= 2 * DAMAGE_KEPT {
            self.settle();
        }
    }

    /// Puts the damage in file order and drops what is too much.
    pub(crate) fn settle(&mut self) {
        self.damage.sort_by(|a, b| a.key().cmp(&b.key()));
        self.damage.truncate(DAMAGE_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(offset: u64) -> Damage {
        Damage {
            path: "a".into(),
            record: Some(offset),
            offset,
            within: 0,
            kind: DamageKind::Malformed,
            documents: Some(1),
            detail: String::new(),
        }
    }

    #[test]
    fn keeps_the_first_in_any_order_of_arrival() {
        let total = 5 * DAMAGE_KEPT as u64;
        let (mut up, mut down) = (FileReading::default(), FileReading::default());
        (0..total).for_each(|i| up.add(damage(i)));
        (0..total).rev().for_each(|i| down.add(damage(i)));
        up.settle();
        down.settle();
        assert_eq!(up, down);
        assert_eq!(up.damaged, total);
        assert_eq!(up.damage.len(), DAMAGE_KEPT);
        assert_eq!(up.damage.last(), Some(&damage(DAMAGE_KEPT as u64 - 1)));
    }

    #[test]
    fn tells_the_first_and_counts_the_rest() {
        let mut file = FileReading { path: "a".into(), ..FileReading::default() };
        assert!(file.damage_messages().is_empty());
        let unlike = |i: u64| Damage { detail: i.to_string(), ..damage(i) };
        (0..20).for_each(|i| file.add(unlike(i)));
        let first: Vec<String> = (0..20).map(|i| unlike(i).to_string()).collect();
        assert_eq!(file.damage_messages(), first);
        file.add(unlike(20));
        assert_eq!(file.damage_messages()[..20], first);
        assert_eq!(file.damage_messages()[20..], ["a: 1 more piece of damage"]);
        file.add(unlike(21));
        assert_eq!(file.damage_messages()[20..], ["a: 2 more pieces of damage"]);
        let mut file = FileReading { path: "a".into(), ..FileReading::default() };
        (0..84).for_each(|i| file.add(damage(i)));
        file.add(unlike(84));
        let listed = [format!("{}; the same of 83 more records", damage(0)), unlike(84).to_string()];
        assert_eq!(file.damage_messages(), listed);
        (0..50).for_each(|i| file.add(Damage { kind: DamageKind::NoText, ..unlike(i) }));
        assert_eq!((file.damage_messages(), file.no_text), (listed.to_vec(), 50));
    }

    #[test]
    fn names_are_what_serde_writes() {
        for kind in [DamageKind::Malformed, DamageKind::Unreadable, DamageKind::NoText] {
            assert_eq!(serde_json::to_string(&kind).expect("plain enum"), format!("\"{kind}\""));
        }
    }

    #[test]
    fn reads_as_a_sentence_that_gives_no_orders_to_a_terminal() {
        let d = Damage { within: 3, detail: "3 bytes skipped".into(), ..damage(7) };
        assert_eq!(d.to_string(), "a: record 7, offset 7 (+3 decoded): malformed: 3 bytes skipped");
        let path = "documents\n\u{1b}[31m.wet".into();
        let d = Damage { path, detail: "the id \u{9b}2J".into(), ..damage(7) };
        assert_eq!(
            d.to_string(),
            r"documents\n\u{1b}[31m.wet: record 7, offset 7: malformed: the id \u{9b}2J"
        );
    }
}
