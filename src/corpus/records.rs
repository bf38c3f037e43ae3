//! Whole records of a stream of bytes: where each begins and ends, by format, and the documents in them.

use std::borrow::Cow;

use super::cut::{End, MemberStarts};
use super::damage::{DamageCause, DamageKind, DocumentRoom, FileReading, RecordPosition, TooLong};
use super::document::Document;
use super::filetype::StreamFormat;
#[cfg(feature = "html")]
use super::html;
use super::inputs::Input;
use super::options::ReadOptions;
use super::{jsonl, wet};
use crate::document::{DocId, Place};

/// A record in a block that may be a document. Positions are bytes in the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub start: usize,
    pub content_start: usize,
    pub content_end: usize,
    pub id: DocId,
    pub record: u64,
    /// It is what a server sent.
    pub raw: bool,
    pub place: Place,
    /// The stored bytes from and to which a gzip member holds this record and nothing else.
    pub member: Option<(u64, u64)>,
}

/// Whole records, decoded.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub bytes: Vec<u8>,
    pub spans: Vec<Span>,
}

impl Records {
    /// Takes a close look at each record: hands on the documents, counts them, and notes damage. A record that comes
    /// to have more bytes than the parser has room for is given back.
    pub fn process(
        &self,
        parser: &RecordParser<'_>,
        part: &mut FileReading,
        each: &mut impl FnMut(Document<'_>),
    ) -> Option<TooLong> {
        for span in &self.spans {
            let Span { record, place, raw, .. } = *span;
            let position = RecordPosition { path: &parser.input.path, record, place, raw };
            part.take(position, each, |found, each| parser.document(span, &self.bytes, found, each));
            if let Some(bytes) = parser.room.exceeded() {
                return Some(TooLong { record, bytes });
            }
        }
        None
    }
}

impl StreamFormat {
    /// True if decoded bytes hold more than one record.
    pub fn holds_several(self, bytes: &[u8]) -> bool {
        match self {
            Self::Wet => wet::holds_several(bytes),
            Self::Jsonl | Self::Csv => jsonl::holds_several(bytes),
        }
    }

    /// Looks for the next record: how many bytes lie before it, or, if none is there yet,
    /// how many can be dropped.
    pub fn seek(self, bytes: &[u8], end: End, bounds: &MemberStarts<'_>) -> Result<usize, usize> {
        match self {
            Self::Wet => wet::seek(bytes, end, bounds),
            Self::Jsonl | Self::Csv => jsonl::seek(bytes),
        }
    }
}

/// Stored bytes of the member that holds the record alone and is as WARC wants it: another would be damage in
/// a copy. 0 if there is no such member.
pub(crate) fn copyable(span: &Span, bytes: &[u8]) -> u64 {
    let (header, content) =
        (&bytes[span.start..span.content_start], &bytes[span.content_start..span.content_end]);
    match span.member {
        Some((from, to)) if wet::is_canonical(header, content.len(), &bytes[span.content_end..]) => to - from,
        _ => 0,
    }
}

/// Makes documents of the records of an input.
#[derive(Debug)]
pub(crate) struct RecordParser<'a> {
    format: StreamFormat,
    input: &'a Input,
    options: &'a ReadOptions,
    room: DocumentRoom,
}

impl<'a> RecordParser<'a> {
    /// A parser for records of `most` bytes at most.
    pub fn new(format: StreamFormat, input: &'a Input, options: &'a ReadOptions, most: u64) -> Self {
        Self { format, input, options, room: DocumentRoom::new(options.record_cap, most) }
    }

    /// Makes a document of a record in `bytes`, or damage that only a close look shows. A document for which there is
    /// no room is none.
    pub fn document<T>(
        &self,
        span: &Span,
        bytes: &[u8],
        damage: &mut dyn FnMut(DamageKind, String),
        each: impl FnOnce(Document<'_>) -> T,
    ) -> Option<T> {
        let content = &bytes[span.content_start..span.content_end];
        let strict = self.options.rules.strict;
        match self.format {
            StreamFormat::Wet => {
                let fields = wet::fields(&bytes[span.start..span.content_start]);
                let (text, repaired, beside, truncated) = match span.raw {
                    #[cfg(feature = "html")]
                    true => {
                        let text = match fields.resource_type() {
                            Some(content_type) => html::text_of_resource(content, content_type, &self.room),
                            None => html::text_of_response(content, &self.room, fields.truncated),
                        };
                        match text {
                            Ok(text) => {
                                text.map(|text| (text.text, text.repaired, text.markup, text.truncated))?
                            }
                            Err((kind, detail)) => {
                                damage(kind, detail);
                                return None;
                            }
                        }
                    }
                    _ => {
                        let text = readable(content, strict, damage)?;
                        let repaired = matches!(text, Cow::Owned(_));
                        (text, repaired, 0, fields.truncated)
                    }
                };
                if strict && repaired {
                    damage(DamageKind::Malformed, "bytes that are none of the document's charset".to_owned());
                    return None;
                }
                if let Some(name) = fields.not_utf8 {
                    damage(DamageKind::BadName, format!("{name} is not UTF-8 and was left out"));
                }
                Some(each(Document {
                    id: span.id,
                    record_id: fields.record_id.as_deref(),
                    url: fields.url.as_deref(),
                    language: fields.language.as_deref(),
                    score: None,
                    group: None,
                    repaired,
                    truncated,
                    text: &text,
                    beside,
                    place: Place { member: copyable(span, bytes), ..span.place },
                }))
            }
            StreamFormat::Jsonl | StreamFormat::Csv => match self.line(content) {
                Ok(line) => line.map(|line| {
                    each(Document {
                        id: span.id,
                        record_id: line.id.as_deref(),
                        url: line.url.as_deref(),
                        language: line.language.as_deref(),
                        score: line.score,
                        group: line.group.as_deref(),
                        text: &line.text,
                        place: span.place,
                        repaired: line.repaired,
                        truncated: false,
                        beside: 0,
                    })
                }),
                Err((kind, detail)) => {
                    damage(kind, detail);
                    None
                }
            },
        }
    }

    /// The content of a line of JSON or a record of CSV; none where its text is null.
    fn line<'b>(&self, content: &'b [u8]) -> Result<Option<jsonl::Line<'b>>, DamageCause> {
        let (fields, strict) = (&self.options.fields, self.options.rules.strict);
        match &self.input.header {
            Some(header) => header.parse(content, fields, strict).map(Some),
            None => jsonl::parse(content, fields, strict),
        }
    }
}

/// A text with U+FFFD for what is no UTF-8 of it; none if that is damage.
pub(crate) fn readable<'a>(
    bytes: &'a [u8],
    strict: bool,
    damage: &mut dyn FnMut(DamageKind, String),
) -> Option<Cow<'a, str>> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Some(Cow::Borrowed(text)),
        Err(_) if !strict => Some(String::from_utf8_lossy(bytes)),
        Err(_) => {
            let valid = simdutf8::compat::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
            damage(DamageKind::Malformed, format!("byte {valid} of the text is not UTF-8"));
            None
        }
    }
}
