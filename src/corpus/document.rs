//! A document as it was read.

use std::borrow::Cow;

use crate::document::{DocId, Place};

/// A document as it was read. It borrows from the block it stands in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Document<'a> {
    /// Its file and its row.
    ///
    /// Rows count the records of a file that may be documents: WARC records of a type that is read, lines that are not
    /// blank, records of CSV, rows of tables. A record whose content turns out to be corrupt (a line that is not JSON)
    /// or without a text keeps its row, so rows have gaps there.
    pub id: DocId,
    /// `WARC-Record-ID` as written, with its angle brackets; or the id field of a line or row.
    pub record_id: Option<&'a str>,
    /// `WARC-Target-URI`, or the URL field of a line or row.
    pub url: Option<&'a str>,
    /// `WARC-Identified-Content-Language` (may name several, with commas), or the language field of a line
    /// or row.
    pub language: Option<&'a str>,
    /// The number in the score field of a line or row, or of a date there the seconds since 1970. `None` if there is
    /// neither, or scores are not asked for.
    pub score: Option<f64>,
    /// The value of the field that groups documents, if it is asked for and a line or row has it.
    pub group: Option<&'a str>,
    /// The text, verbatim but for what is repaired; may be empty.
    pub text: &'a str,
    /// True if U+FFFD stands in the text for bytes that its charset does not have, or for half a surrogate pair. For
    /// JSON and CSV also if it stands elsewhere in the line or in a value that is read.
    pub repaired: bool,
    /// True if the crawler cut the document, or its body breaks off. The text goes as far as it was received.
    pub truncated: bool,
    /// Where it is stored, so that it can be read again.
    pub place: Place,
    /// Bytes of memory that reading takes besides copies of the text: for the tree of HTML, or for the rows of Parquet
    /// or Arrow that are decoded with it.
    pub(crate) beside: u64,
}

/// The text of a record and its other values, before they have a row and a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordContent<'a> {
    /// Its text.
    pub text: Cow<'a, str>,
    /// Its id, if it has one.
    pub id: Option<Cow<'a, str>>,
    /// Its address, if it has one.
    pub url: Option<Cow<'a, str>>,
    /// Its language, if it has one.
    pub language: Option<Cow<'a, str>>,
    /// Its score, if a field of scores is asked for and holds a number or a date.
    pub score: Option<f64>,
    /// The value that groups it, if a field of groups is asked for and the record has it.
    pub group: Option<Cow<'a, str>>,
    /// See [`Document::repaired`].
    pub repaired: bool,
    /// See [`Document::truncated`].
    pub truncated: bool,
    /// See [`Document::beside`].
    pub(crate) beside: u64,
    /// A message for each id, URL or language that is there and cannot be used: the field's name and the reason.
    pub(crate) bad_names: Vec<String>,
}

impl RecordContent<'_> {
    /// The document with this content, and with an ID and a place.
    pub(crate) fn document(&self, id: DocId, place: Place) -> Document<'_> {
        Document {
            id,
            // An empty name is none.
            record_id: self.id.as_deref().filter(|id| !id.is_empty()),
            url: self.url.as_deref(),
            language: self.language.as_deref(),
            score: self.score,
            group: self.group.as_deref(),
            text: &self.text,
            repaired: self.repaired,
            truncated: self.truncated,
            place,
            beside: self.beside,
        }
    }
}

/// The number of times that a long record is counted in memory while it is read and sketched. Three are for its
/// stored, decoded and cut copies, and three for the set of its features.
pub(crate) const IN_MEMORY: u64 = 6;

/// Bytes that a feature takes in the set of those of a document.
const FEATURE: u64 = 24;

/// About how many words a text has: of scripts that do not part them, a character is one.
fn words(text: &str) -> u64 {
    /// Of shorter texts what they take is nothing beside what threads hold anyway.
    const LONG: usize = 1 << 19;
    let ends = |&&byte: &&u8| byte <= b' ' || byte >= 0xe0;
    match text.len() {
        length @ ..LONG => length as u64 / 6,
        _ => text.as_bytes().iter().filter(ends).count() as u64,
    }
}

impl<'a> Document<'a> {
    /// Bytes of its id and its URL together.
    pub fn name_bytes(&self) -> u64 {
        [self.record_id, self.url].into_iter().flatten().map(str::len).sum::<usize>() as u64
    }

    /// The bytes of memory that the document takes while it is read and sketched, divided by `IN_MEMORY` (6). For words
    /// of usual length that is about the length of the document.
    pub fn bytes(&self) -> u64 {
        let document = self.name_bytes() + self.text.len() as u64;
        let buffers = (self.place.length.max(document) + document) * 3 / 2;
        (buffers + FEATURE * words(self.text) + self.beside).div_ceil(IN_MEMORY)
    }

    /// The first of its languages; empty where none is named.
    pub fn first_language(&self) -> &'a str {
        self.language.and_then(|languages| languages.split(',').next()).unwrap_or_default().trim()
    }
}
