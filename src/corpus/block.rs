//! A file cut into blocks of whole records, one after the other, by whoever holds the file.
//!
//! Decoding and cutting go in file order, so numbers, places and damage are those of a plain sequential reader.
//! What is expensive about a record happens later, on the block, by any thread.

use std::path::PathBuf;

use super::cut::{Bounds, End, Step};
use super::damage::{Damage, DamageKind};
use super::inputs::{Compression, Format, Input, Problem};
use super::source::{Feed, Flaw, STEP, Source};
use super::{Document, Place, ReadOptions, jsonl, parquet, wet};
use crate::document::DocId;
use crate::wording::counted;

/// A record in a block that may be a document. Positions are bytes in the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub start: usize,
    pub content_start: usize,
    pub content_end: usize,
    pub id: DocId,
    pub record: u64,
    pub place: Place,
    /// The stored bytes from and to which a gzip member holds this record and nothing else.
    pub member: Option<(u64, u64)>,
}

/// Whole records, decoded.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub bytes: Vec<u8>,
    pub spans: Vec<Span>,
    /// Rows of a Parquet file, which has no spans.
    pub rows: Vec<parquet::Row>,
    /// A row group that whoever works on the block is to read first, bit by bit.
    pub group: Option<parquet::Group>,
    pub damage: Vec<Damage>,
    /// Records of any kind, damaged ones too.
    pub records: u64,
    /// Stored bytes used up for this block.
    pub stored: u64,
    /// Decoded bytes used up for this block.
    pub decoded: u64,
}

/// Why some of what follows never meets Parquet.
const NO_STREAM: &str = "Parquet is read by rows, and a reader of rows has no source of bytes";

/// A flaw found, and the search for the next record going on.
#[derive(Debug)]
struct Search {
    flaw: Flaw,
    record: Option<u64>,
    skipped: u64,
}

/// A file being cut into blocks.
#[derive(Debug)]
pub(crate) struct BlockReader {
    path: PathBuf,
    format: Format,
    shard: u32,
    block_bytes: usize,
    cap: usize,
    source: Option<Source>,
    parquet: Option<parquet::Rows>,
    feed: Feed,
    /// Decoded bytes behind the last block.
    carry: Vec<u8>,
    eof: bool,
    search: Option<Search>,
    /// The byte before the next one.
    before: u8,
    /// Bytes known to hold no line end (JSONL).
    scanned: usize,
    records: u64,
    rows: u32,
    damaged: bool,
    /// Damage known from the start.
    opening: Vec<Damage>,
}

impl BlockReader {
    /// Opens an input. One that cannot be opened is a file with one piece of damage.
    pub fn open(input: &Input, shard: u32, options: &ReadOptions) -> Self {
        let mut opening = Vec::new();
        let mut note = |kind, detail: String| {
            opening.push(Damage {
                path: input.path.clone(),
                record: None,
                offset: 0,
                within: 0,
                kind,
                detail,
            });
        };
        let mut rows = None;
        let source = match &input.problem {
            Some(Problem::CannotOpen(error)) => {
                note(DamageKind::CannotOpen, error.clone());
                None
            }
            Some(Problem::UnknownFormat) => {
                note(DamageKind::UnknownFormat, "neither WARC records nor JSON objects nor Parquet".into());
                None
            }
            None if input.format == Format::Parquet => {
                match parquet::Rows::open(input, options) {
                    Ok(opened) => rows = Some(opened),
                    Err((kind, detail)) => note(kind, detail),
                }
                None
            }
            None => match input.open().and_then(|f| Source::new(f, input.compression, input.format)) {
                Ok(source) => Some(source),
                Err(error) => {
                    note(DamageKind::CannotOpen, error.to_string());
                    None
                }
            },
        };
        if input.misnamed && source.is_some() {
            note(DamageKind::NotCompressed, "named as a compressed file, but plain; read as it is".into());
        }
        Self {
            path: input.path.clone(),
            format: input.format,
            shard,
            block_bytes: options.block_bytes.max(1),
            cap: options.record_cap,
            source,
            parquet: rows,
            feed: Feed::new(input.compression == Compression::None),
            carry: Vec::new(),
            eof: false,
            search: None,
            before: b'\n',
            scanned: 0,
            records: 0,
            rows: 0,
            damaged: !opening.is_empty(),
            opening,
        }
    }

    /// Makes the next block; false when there is none. The block's buffers are used again.
    pub fn next_block(&mut self, block: &mut Block) -> bool {
        block.spans.clear();
        block.rows.clear();
        block.group = None;
        (block.records, block.stored, block.decoded) = (0, 0, 0);
        block.damage = std::mem::take(&mut self.opening);
        if let Some(rows) = &mut self.parquet {
            return rows.next_block(block);
        }
        let Some(mut source) = self.source.take() else { return !block.damage.is_empty() };
        let stored = source.stored();
        let mut bytes = std::mem::take(&mut block.bytes);
        // A buffer that had to grow for one large record is not kept at that size.
        let usual = self.block_bytes + 2 * STEP;
        if bytes.len() > 4 * usual {
            bytes = Vec::new();
        }
        if bytes.len() < self.carry.len().max(usual) {
            bytes.resize(self.carry.len().max(usual), 0);
        }
        bytes[..self.carry.len()].copy_from_slice(&self.carry);
        self.feed.filled = self.carry.len();
        self.feed.bytes = bytes;
        self.carry.clear();

        let (pos, more) = self.cut(&mut source, block);

        if pos > 0 {
            self.before = self.feed.bytes[pos - 1];
        }
        self.carry.extend_from_slice(&self.feed.bytes[pos..self.feed.filled]);
        self.feed.base += pos as u64;
        block.decoded = pos as u64;
        block.stored = source.stored() - stored;
        block.bytes = std::mem::take(&mut self.feed.bytes);
        let base = self.feed.base;
        while self.feed.starts.get(1).is_some_and(|next| next.decoded <= base) {
            self.feed.starts.pop_front();
        }
        if more {
            self.source = Some(source);
        }
        true
    }

    /// Cuts records off until the block is large enough or the file ends. Returns how many bytes are used up and
    /// whether there is more.
    fn cut(&mut self, source: &mut Source, block: &mut Block) -> (usize, bool) {
        let mut pos = 0;
        // With fewer bytes than this nothing new can be said.
        let mut need = 0;
        while pos < self.block_bytes {
            let (limit, end) = match self.feed.breaks.front() {
                Some(gap) => ((gap.decoded - self.feed.base) as usize, End::Gap),
                None if self.eof => (self.feed.filled, End::File),
                None => (self.feed.filled, End::Unknown),
            };
            let at_hand = limit - pos;
            if end == End::Unknown && at_hand < need.max(1) {
                self.fill(source, &mut need);
                continue;
            }
            need = 0;
            if at_hand == 0 {
                self.finish_search(block);
                if end == End::File {
                    if self.records == 0 && !self.damaged {
                        let (kind, detail) = match self.feed.base + pos as u64 {
                            0 => (DamageKind::EmptyFile, "no byte".to_owned()),
                            n => (
                                DamageKind::BlankFile,
                                format!(
                                    "{}, all of them blanks, line ends or zeros",
                                    counted(n, "byte", "bytes")
                                ),
                            ),
                        };
                        let flaw = Flaw { offset: 0, within: 0, kind, detail, lost: false };
                        self.report(block, flaw, None);
                    }
                    return (pos, false);
                }
                if let Some(gap) = self.feed.breaks.pop_front() {
                    self.take_gap(block, gap.flaw);
                }
                continue;
            }
            let origin = self.feed.base + pos as u64;
            let bytes = &self.feed.bytes[pos..limit];
            let before = if pos == 0 { self.before } else { self.feed.bytes[pos - 1] };
            if origin == 0 && b"\xef\xbb\xbf".starts_with(&bytes[..bytes.len().min(3)]) {
                match bytes.len() {
                    3.. => pos += 3,
                    _ if end == End::Unknown => need = 3,
                    n => pos += n,
                }
                continue;
            }
            let bounds = Bounds::new(&self.feed.starts, origin, before == b'\n' || origin == 3);
            if let Some(search) = &mut self.search {
                let found = match self.format {
                    Format::Wet => wet::seek(bytes, end, &bounds),
                    Format::Jsonl => jsonl::seek(bytes),
                    Format::Parquet => unreachable!("{NO_STREAM}"),
                };
                let n = match found {
                    Ok(n) => n,
                    Err(n) if end == End::Unknown => {
                        need = at_hand - n + 1;
                        n
                    }
                    Err(_) => at_hand,
                };
                search.skipped += n as u64;
                pos += n;
                if found.is_ok() {
                    self.finish_search(block);
                }
                continue;
            }
            let step = match self.format {
                Format::Wet => wet::step(bytes, end, &bounds, self.cap),
                Format::Jsonl => jsonl::step(bytes, end, &mut self.scanned, self.cap),
                Format::Parquet => unreachable!("{NO_STREAM}"),
            };
            match step {
                Step::Need(n) => need = n.max(at_hand + 1),
                Step::Skip(n) => pos += n,
                Step::Record { content_start, content_end, end, document, record } => {
                    if document {
                        if self.rows == u32::MAX {
                            let (offset, within) = self.feed.place(origin);
                            let kind = DamageKind::TooManyDocuments;
                            let detail = "the rest of the file is not read".into();
                            let flaw = Flaw { offset, within, kind, detail, lost: true };
                            self.report(block, flaw, Some(self.records));
                            return (pos, false);
                        }
                        let span = self.span(pos, content_start, content_end, end);
                        block.spans.push(span);
                        self.rows += 1;
                    }
                    self.records += u64::from(record);
                    block.records += u64::from(record);
                    pos += end;
                }
                Step::Flaw { kind, at, record, detail } => {
                    let at = at.min(at_hand);
                    let (offset, within) = self.feed.place(origin);
                    let flaw = Flaw { offset, within, kind, detail, lost: record };
                    let number = record.then_some(self.records);
                    // What is cut off by damage that takes a record with it is that record.
                    let same = kind == DamageKind::Truncated
                        && end == End::Gap
                        && self.feed.breaks.front().is_some_and(|gap| gap.flaw.lost);
                    if same {
                        pos = limit;
                        continue;
                    }
                    self.records += u64::from(record);
                    block.records += u64::from(record);
                    self.search = Some(Search { flaw, record: number, skipped: at as u64 });
                    pos += at;
                }
            }
        }
        (pos, true)
    }

    /// Decodes one step more, and forgets what was needed if something came that could change the answer.
    fn fill(&mut self, source: &mut Source, need: &mut usize) {
        let members = self.feed.starts.len();
        let filled = self.feed.filled;
        if !source.fill(&mut self.feed) {
            self.eof = true;
        }
        // A record that claims more than there is shows by the next one starting.
        if self.feed.starts.len() > members
            && self.format.looks_like_start(&self.feed.bytes[filled..self.feed.filled])
        {
            *need = 0;
        }
    }

    fn span(&self, pos: usize, content_start: usize, content_end: usize, end: usize) -> Span {
        let origin = self.feed.base + pos as u64;
        let (offset, within) = self.feed.place(origin);
        let start = self.feed.start_of(origin);
        let member = start.filter(|s| !self.feed.plain && s.decoded == origin).and_then(|s| {
            s.end.filter(|(decoded, _)| *decoded == origin + end as u64).map(|(_, stored)| (s.stored, stored))
        });
        Span {
            start: pos,
            content_start: pos + content_start,
            content_end: pos + content_end,
            id: DocId::new(self.shard, self.rows),
            record: self.records,
            place: Place { offset, within, length: content_end as u64, member: 0 },
            member,
        }
    }

    /// A gap in the decoded bytes is reached.
    fn take_gap(&mut self, block: &mut Block, flaw: Flaw) {
        let record = flaw.lost.then_some(self.records);
        self.records += u64::from(flaw.lost);
        block.records += u64::from(flaw.lost);
        self.scanned = 0;
        self.report(block, flaw, record);
    }

    fn finish_search(&mut self, block: &mut Block) {
        if let Some(Search { mut flaw, record, skipped }) = self.search.take() {
            flaw.detail = format!("{}; {} skipped", flaw.detail, counted(skipped, "byte", "bytes"));
            self.report(block, flaw, record);
        }
    }

    fn report(&mut self, block: &mut Block, flaw: Flaw, record: Option<u64>) {
        self.damaged = true;
        let Flaw { offset, within, kind, detail, .. } = flaw;
        block.damage.push(Damage { path: self.path.clone(), record, offset, within, kind, detail });
    }
}

/// Stored bytes of the member that holds the record alone and is as WARC wants it: another would be damage in a copy. 0 if
/// there is no such member.
pub(crate) fn copyable(span: &Span, bytes: &[u8]) -> u64 {
    let (header, content) =
        (&bytes[span.start..span.content_start], &bytes[span.content_start..span.content_end]);
    match span.member {
        Some((from, to)) if wet::is_canonical(header, content.len(), &bytes[span.content_end..]) => to - from,
        _ => 0,
    }
}

/// What becomes of a record: a document, or damage that only a close look shows.
pub(crate) fn document<T>(
    span: &Span,
    bytes: &[u8],
    format: Format,
    options: &ReadOptions,
    damage: &mut dyn FnMut(DamageKind, String),
    each: impl FnOnce(Document<'_>) -> T,
) -> Option<T> {
    let content = &bytes[span.content_start..span.content_end];
    match format {
        Format::Wet => {
            let text = match simdutf8::basic::from_utf8(content) {
                Ok(text) => text,
                Err(_) => {
                    let valid =
                        simdutf8::compat::from_utf8(content).map_or_else(|e| e.valid_up_to(), str::len);
                    damage(DamageKind::InvalidUtf8, format!("byte {valid} of the text is not UTF-8"));
                    return None;
                }
            };
            let fields = wet::fields(&bytes[span.start..span.content_start]);
            if let Some(name) = fields.not_utf8 {
                damage(DamageKind::HeaderCharset, format!("{name} is not UTF-8 and was left out"));
            }
            Some(each(Document {
                id: span.id,
                record_id: fields.record_id,
                url: fields.url,
                language: fields.language,
                text,
                place: Place { member: copyable(span, bytes), ..span.place },
            }))
        }
        Format::Jsonl => match jsonl::parse(content, &options.fields) {
            Ok(line) => Some(each(Document {
                id: span.id,
                record_id: line.id.as_deref(),
                url: line.url.as_deref(),
                language: line.language.as_deref(),
                text: &line.text,
                place: span.place,
            })),
            Err((kind, detail)) => {
                damage(kind, detail);
                None
            }
        },
        Format::Parquet => unreachable!("{NO_STREAM}"),
    }
}
