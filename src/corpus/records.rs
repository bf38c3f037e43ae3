//! Whole records of a stream of bytes, cut and decoded, and the documents that a closer look finds in them.

use std::borrow::Cow;

use super::corruption::{
    CorruptionCause, CorruptionKind, DocumentRoom, FileReading, RecordPosition, TooLong,
};
use super::cut::{End, MemberStarts};
use super::document::{Document, RecordContent};
use super::filetype::Format;
#[cfg(feature = "html")]
use super::html;
use super::input::ReadInput;
use super::{jsonl, wet};
use crate::document::{DocId, Place};

/// A record in a block that may be a document. Positions are bytes in the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Where it starts, header included (WARC).
    pub start: usize,
    /// Where its content starts, behind the header; elsewhere as `start`.
    pub content_start: usize,
    /// Where its content ends, before the line ends behind it.
    pub content_end: usize,
    /// Where it ends. Bytes of the block behind that may be left over from another one.
    pub end: usize,
    /// The shard and row that it has as a document.
    pub id: DocId,
    /// Its number among all records of the file, counted from 0.
    pub record: u64,
    /// True for a WARC response or resource: what a server sent, whose text must be extracted.
    pub raw: bool,
    /// Where it is stored; the member is left 0.
    pub place: Place,
    /// The stored offsets at which a gzip member that holds this record alone begins and ends, if there is one.
    pub member: Option<(u64, u64)>,
}

/// A block of whole records, decoded.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Decoded bytes of the file, in which the spans are.
    pub bytes: Vec<u8>,
    /// The records that may be documents, in order.
    pub spans: Vec<Span>,
    /// A record that is too long for memory, which ended the reading and is not among the spans.
    pub too_long: Option<TooLong>,
}

impl Records {
    /// Drops the records; the room for their bytes stays.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.too_long = None;
    }

    /// Takes a close look at each record: hands the documents to `each`, and counts them and corruption in `part`.
    /// Returns a record that turned out to have more than `most` bytes, by [`Document::bytes`]; nothing behind it is
    /// taken.
    pub fn process(
        &self,
        read: ReadInput<'_>,
        most: u64,
        part: &mut FileReading,
        each: &mut impl FnMut(Document<'_>),
    ) -> Option<TooLong> {
        let ReadInput { input, options, .. } = read;
        let room = DocumentRoom::new(options.record_cap, most);
        for span in &self.spans {
            let Span { id, record, place, raw, .. } = *span;
            let content = read.content(span, &self.bytes, &room);
            part.take(RecordPosition { path: &input.path, id, record, place, raw }, content, each);
            if let Some(bytes) = room.exceeded() {
                return Some(TooLong { record, bytes });
            }
        }
        self.too_long
    }
}

impl Format {
    /// True if decoded bytes hold more than one record.
    pub(crate) fn holds_several(self, bytes: &[u8]) -> bool {
        if self == Self::Wet { wet::holds_several(bytes) } else { jsonl::holds_several(bytes) }
    }

    /// Looks for the next record. `Ok` has the number of bytes before it. `Err` says that none begins in these bytes,
    /// and has the number of them that can be dropped.
    pub(crate) fn seek(self, bytes: &[u8], end: End, bounds: &MemberStarts<'_>) -> Result<usize, usize> {
        if self == Self::Wet { wet::seek(bytes, end, bounds) } else { jsonl::seek(bytes) }
    }
}

/// Stored bytes of the gzip member that holds the record alone, if the record is as WARC wants it, so that the member
/// can be copied. 0 otherwise. `bytes` are those of the block.
pub(crate) fn copyable(span: &Span, bytes: &[u8]) -> u64 {
    let Span { start, content_start, content_end, end, .. } = *span;
    let (header, behind) = (&bytes[start..content_start], &bytes[content_end..end]);
    match span.member {
        Some((from, to)) if wet::is_canonical(header, content_end - content_start, behind) => to - from,
        _ => 0,
    }
}

impl ReadInput<'_> {
    /// The content of a record in `bytes` and its place; `None` where it holds no document, or its text is null.
    ///
    /// # Errors
    /// The corruption that only a close look shows. A document for which there is no `room` counts as corrupt.
    pub fn content<'b>(
        &self,
        span: &Span,
        bytes: &'b [u8],
        room: &DocumentRoom,
    ) -> Result<Option<(RecordContent<'b>, Place)>, CorruptionCause> {
        let content = &bytes[span.content_start..span.content_end];
        let (fields, strict) = (&self.options.fields, self.options.rules.strict);
        let found = match (self.input.format, &self.input.header) {
            (Format::Wet, _) => {
                let header = wet::fields(&bytes[span.start..span.content_start]);
                self.page(header, content, span.raw, room)?
            }
            (_, Some(header)) => Some(header.parse(content, fields, strict)?),
            (_, None) => match jsonl::parse(content, fields, strict) {
                // The first line of a list of pages (pages.jsonl in WACZ) says that it is one.
                Err((CorruptionKind::NoText, _))
                    if !strict
                        && span.record == 0
                        && memchr::memmem::find(content, b"\"json-pages-").is_some() =>
                {
                    None
                }
                read => read?,
            },
        };
        Ok(found.map(|content| (content, Place { member: copyable(span, bytes), ..span.place })))
    }

    /// The content of a WARC record with this header; `None` where no text can be extracted from what a server sent.
    #[cfg_attr(not(feature = "html"), expect(unused_variables))]
    fn page<'b>(
        &self,
        header: wet::Fields<'b>,
        content: &'b [u8],
        raw: bool,
        room: &DocumentRoom,
    ) -> Result<Option<RecordContent<'b>>, CorruptionCause> {
        let strict = self.options.rules.strict;
        let page = match raw {
            #[cfg(feature = "html")]
            true => match header.resource_type() {
                Some(content_type) => html::text_of_resource(content, content_type, room)?,
                None => html::text_of_response(content, room, header.truncated)?,
            },
            #[cfg(not(feature = "html"))]
            true if !header.resource_type().is_some_and(is_plain_text) => None,
            _ => {
                let text = readable(content, strict)?;
                let (repaired, truncated) = (matches!(text, Cow::Owned(_)), header.truncated);
                Some(RecordContent { text, repaired, truncated, ..RecordContent::default() })
            }
        };
        if strict && page.as_ref().is_some_and(|page| page.repaired) {
            let detail = "bytes that are none of the document's charset".to_owned();
            return Err((CorruptionKind::Malformed, detail));
        }
        let wet::Fields { record_id: id, url, language, bad_names, .. } = header;
        Ok(page.map(|page| RecordContent { id, url, language, bad_names, ..page }))
    }
}

/// True for the content type of plain text.
#[cfg(not(feature = "html"))]
fn is_plain_text(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default();
    media.trim().eq_ignore_ascii_case("text/plain")
}

/// A text with U+FFFD for bytes that are no UTF-8; it is owned only if there are such.
///
/// # Errors
/// The corruption, if `strict` and there are such bytes.
pub(crate) fn readable(bytes: &[u8], strict: bool) -> Result<Cow<'_, str>, CorruptionCause> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) if !strict => Ok(String::from_utf8_lossy(bytes)),
        Err(_) => {
            let valid = simdutf8::compat::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
            Err((CorruptionKind::Malformed, format!("byte {valid} of the text is not UTF-8")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_whose_record_lacks_the_line_ends_behind_it_is_not_copied() {
        // The block goes on with bytes of another one, which look like the line ends.
        let bytes = b"WARC/1.0\r\nContent-Length: 2\r\n\r\nok\r\n\r\n";
        let whole = bytes.len();
        let span = |end| Span {
            start: 0,
            content_start: whole - 6,
            content_end: whole - 4,
            end,
            id: DocId::new(0, 0),
            record: 0,
            raw: false,
            place: Place::default(),
            member: Some((100, 150)),
        };
        assert_eq!(copyable(&span(whole), bytes), 50);
        assert_eq!(copyable(&span(whole - 4), bytes), 0);
    }
}
