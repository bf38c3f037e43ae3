//! A file of WARC, JSONL or CSV that is cut into blocks of whole records, one after the other, by the thread that holds
//! the file.
//!
//! Decoding and cutting go in file order, so numbers, places and corruption are those of a plain sequential reader. Any
//! thread does the expensive work on a block afterwards: [`Records::process`].

use std::fs::File;

use super::ahead::{Claim, Claims, InflatedMembers};
use super::corruption::{Corruption, CorruptionKind, FileReading, TooLong};
use super::cut::{End, MemberStarts, Step};
use super::feed::{Break, Feed, STEP};
use super::filetype::{Compression, Format, split_name};
use super::input::{Input, ReadInput};
use super::records::{Records, Span};
use super::source::Source;
use super::storage::Storage;
use super::{csv, jsonl, wet};
use crate::display::counted;
use crate::document::{DocId, Place};

/// A file of records being cut into blocks.
pub(crate) struct StreamReader {
    input: Input,
    shard: u32,
    block_bytes: usize,
    cap: usize,
    /// `None` behind the last block.
    source: Option<Source>,
    feed: Feed,
    /// Decoded bytes behind the last block, which begin the next one.
    pub carry: Vec<u8>,
    eof: bool,
    /// A flaw behind which the next record is looked for, and the bytes that were skipped so far.
    search: Option<(Corruption, u64)>,
    /// The byte before the next one.
    before: u8,
    /// Bytes known to hold no line end (JSONL).
    scanned: usize,
    records: u64,
    rows: u32,
    corrupt: bool,
    /// Zeros were passed over.
    zeros: bool,
    /// Stretches that threads inflate ahead of their turn, if there is more than one thread.
    claims: Option<Claims>,
}

/// A block holds a record for each of so many bytes of its size, if records are shorter than that.
const SHORT: usize = 64;

impl StreamReader {
    /// Opens an input whose format is not columnar.
    ///
    /// # Errors
    /// What keeps the file from being opened.
    pub fn open(read: ReadInput<'_>) -> std::io::Result<Self> {
        let ReadInput { shard, input, options } = read;
        let (file, rules) = (input.storage.open()?, &options.rules);
        let source = Source::new(file, input.compression, input.format, &input.dictionary, rules)?;
        let claims = match &input.storage {
            Storage::File(path) if input.compression == Compression::Gzip && options.threads > 1 => {
                Some(Claims::new(File::open(path)?, options.block_bytes)?)
            }
            // What is under way from a store is asked for in order.
            _ => None,
        };
        Ok(Self {
            input: input.clone(),
            shard,
            block_bytes: options.block_bytes.max(1),
            cap: options.record_cap,
            source: Some(source),
            feed: Feed::new(input.compression == Compression::None),
            carry: Vec::new(),
            eof: false,
            search: None,
            before: b'\n',
            scanned: 0,
            records: 0,
            rows: 0,
            corrupt: false,
            zeros: false,
            claims,
        })
    }

    /// A stretch of a gzip file for a thread to inflate ahead, but for members of more than `most` decoded bytes.
    /// `None` if nothing is inflated ahead, or nothing is left.
    pub fn claim(&mut self, most: u64) -> Option<Claim> {
        let from = self.source.as_ref()?.stored();
        self.claims.as_mut()?.claim(from, usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Puts the next block into `records`, whose buffers are used again, and what reading it came to into `part`. False
    /// if there is none. `ahead` is what was inflated of the next claim. A record above `most` bytes, as
    /// [`TooLong::at_hand`] counts them, ends the reading.
    pub fn next_block(
        &mut self,
        records: &mut Records,
        part: &mut FileReading,
        ahead: Option<InflatedMembers>,
        most: u64,
    ) -> bool {
        records.clear();
        let Some(mut source) = self.source.take() else { return false };
        let (stored, before) = (source.stored(), self.records);
        let usual = self.block_bytes + 2 * STEP;
        if records.bytes.len() > 4 * usual {
            // A buffer that had to grow for one large record is not kept at that size.
            records.bytes = Vec::new();
        }
        let mut carry = std::mem::take(&mut self.carry);
        self.feed.filled = carry.len();
        let mut bytes = match (&mut source, ahead) {
            (Source::Gzip(gzip), Some(inflated)) => gzip.take_over(inflated, carry.len()),
            _ if carry.len() > usual => std::mem::take(&mut carry),
            _ => std::mem::take(&mut records.bytes),
        };
        bytes.resize(bytes.len().max(self.feed.filled).max(usual), 0);
        bytes[..carry.len()].copy_from_slice(&carry);
        self.feed.bytes = bytes;
        // A long member is of a long record, as far as is known.
        if self.input.has_short_members {
            self.feed.most = TooLong::at_hand(most).max(STEP);
        }

        let (pos, more) = self.cut(&mut source, records, part, TooLong::at_hand(most));
        if let (Source::Gzip(gzip), Some(claims)) = (&mut source, &mut self.claims)
            && let Some(used) = gzip.let_go()
        {
            claims.note(used);
        }

        if pos > 0 {
            self.before = self.feed.bytes[pos - 1];
        }
        let mut bytes = std::mem::take(&mut self.feed.bytes);
        let filled = self.feed.filled;
        if filled - pos > usual {
            // What is left of a long record, of which most is no record after all: the block has its part of it.
            records.bytes.clear();
            records.bytes.extend_from_slice(&bytes[..pos]);
            bytes.truncate(filled);
            bytes.drain(..pos);
            bytes.shrink_to_fit();
            self.carry = bytes;
        } else {
            carry.clear();
            carry.extend_from_slice(&bytes[pos..filled]);
            self.carry = carry;
            records.bytes = bytes;
        }
        self.feed.base += pos as u64;
        part.records = self.records - before;
        part.decoded_bytes = pos as u64;
        part.stored_bytes = source.stored() - stored;
        let base = self.feed.base;
        while self.feed.starts.get(1).is_some_and(|next| next.decoded <= base) {
            self.feed.starts.pop_front();
        }
        if more {
            self.source = Some(source);
        }
        true
    }

    /// Cuts records off until the block is large enough or the file ends. Returns how many bytes are used up
    /// and whether there is more. Of a record `most` bytes may be at hand.
    fn cut(
        &mut self,
        source: &mut Source,
        records: &mut Records,
        part: &mut FileReading,
        most: usize,
    ) -> (usize, bool) {
        let Records { spans, too_long, .. } = records;
        let mut pos = 0;
        // With fewer bytes than this nothing new can be said.
        let mut need = 0;
        let short = (self.block_bytes / SHORT).max(1);
        let header = self.input.header.as_ref();
        let (header, delimiter) = header.map_or((0, b','), |header| (header.length, header.delimiter));
        // What was inflated ahead belongs to this block, whatever its size.
        while spans.len() + (part.corrupt as usize) < short && (pos < self.block_bytes || source.is_ready()) {
            let (limit, end) = match self.feed.breaks.front() {
                Some(gap) => ((gap.decoded - self.feed.base) as usize, End::Gap),
                None if self.eof => (self.feed.filled, End::File),
                None => (self.feed.filled, End::Unknown),
            };
            let at_hand = limit - pos;
            if end == End::Unknown && at_hand < need.max(1) {
                // The next block goes on from here, unless a long record is not whole.
                if source.is_used_up() && at_hand <= STEP {
                    return (pos, true);
                }
                if at_hand > most {
                    *too_long = Some(TooLong::of(self.records, at_hand));
                    return (pos, false);
                }
                self.fill(source, &mut need);
                if let Some(bytes) = self.feed.too_long {
                    *too_long = Some(TooLong::of(self.records, bytes));
                    return (pos, false);
                }
                continue;
            }
            need = 0;
            if at_hand == 0 {
                self.finish_search(part);
                if end == End::File {
                    let (n, is_wet) = (self.feed.base + pos as u64, self.input.format == Format::Wet);
                    let is_packed = split_name(&self.input.path).1 != Compression::None;
                    let what = match n {
                        _ if self.records > 0 || self.corrupt => None,
                        // Lines of JSON may be none, and so may the records of a member.
                        0 => ((is_wet || is_packed) && source.stored() == 0).then(|| "no byte".to_owned()),
                        n => (is_wet || self.zeros).then(|| {
                            format!("{}, all of them blanks, line ends or zeros", counted(n, "byte", "bytes"))
                        }),
                    };
                    if let Some(what) = what {
                        let (path, kind) = (&self.input.path, CorruptionKind::UnknownFormat);
                        part.add(Corruption::of_file(path, 0, kind, what));
                    }
                    return (pos, false);
                }
                if let Some(gap) = self.feed.breaks.pop_front() {
                    self.take_gap(part, gap);
                }
                continue;
            }
            let origin = self.feed.base + pos as u64;
            if origin < header {
                pos += at_hand.min((header - origin) as usize);
                continue;
            }
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
            let bounds = MemberStarts::new(&self.feed.starts, origin, before == b'\n' || origin == 3);
            if let Some((_, skipped)) = &mut self.search {
                let found = self.input.format.seek(bytes, end, &bounds);
                let n = match found {
                    Ok(n) => n,
                    Err(n) if end == End::Unknown => {
                        need = at_hand - n + 1;
                        n
                    }
                    Err(_) => at_hand,
                };
                *skipped += n as u64;
                pos += n;
                if found.is_ok() {
                    self.finish_search(part);
                }
                continue;
            }
            let step = match self.input.format {
                Format::Wet => wet::step(bytes, end, &bounds, self.cap),
                Format::Csv => csv::step(bytes, end, delimiter, self.cap),
                _ => jsonl::step(bytes, end, &mut self.scanned, self.cap),
            };
            match step {
                Step::Need(n) => need = n.max(at_hand + 1),
                Step::Skip(n) => {
                    self.zeros |= bytes[..n].contains(&0);
                    pos += n;
                }
                Step::Record { content_start, content_end, end: next, document, raw } => {
                    if document {
                        if self.rows == u32::MAX {
                            let (kind, place) = (CorruptionKind::TooLarge, self.feed.place(origin));
                            let detail = "the rest of the file is not read";
                            part.add(Corruption::at(&self.input.path, None, place, kind, detail));
                            return (pos, false);
                        }
                        let span = Span { raw, ..self.span(pos, content_start, content_end, next) };
                        spans.push(span);
                        self.rows += 1;
                    }
                    self.records += 1;
                    part.unread += u64::from(raw && !document);
                    let behind = &bytes[content_end..next];
                    let has_end = behind.ends_with(b"\n\n") || behind.ends_with(b"\r\n\r\n");
                    let is_last = end == End::File && next == at_hand;
                    part.unterminated += u64::from(is_last && !has_end && self.input.format == Format::Wet);
                    pos += next;
                }
                Step::Flaw { kind, at, record, detail } => {
                    let at = at.min(at_hand);
                    // What is cut off by corruption that takes a record with it is that record.
                    let same = kind == CorruptionKind::Truncated
                        && end == End::Gap
                        && self.feed.breaks.front().is_some_and(|gap| gap.lost);
                    if same {
                        pos = limit;
                        continue;
                    }
                    let number = record.then_some(self.records);
                    let corruption =
                        Corruption::at(&self.input.path, number, self.feed.place(origin), kind, detail);
                    self.records += u64::from(record);
                    self.search = Some((corruption, at as u64));
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
            && self.input.format.looks_like_start(&self.feed.bytes[filled..self.feed.filled])
        {
            *need = 0;
        }
    }

    fn span(&self, pos: usize, content_start: usize, content_end: usize, end: usize) -> Span {
        let origin = self.feed.base + pos as u64;
        let start = self.feed.start_of(origin);
        let member = start.filter(|s| !self.feed.plain && s.decoded == origin).and_then(|s| {
            s.end.filter(|(decoded, _)| *decoded == origin + end as u64).map(|(_, stored)| (s.stored, stored))
        });
        Span {
            start: pos,
            content_start: pos + content_start,
            content_end: pos + content_end,
            end: pos + end,
            id: DocId::new(self.shard, self.rows),
            record: self.records,
            raw: false,
            place: Place { length: content_end as u64, ..self.feed.place(origin) },
            member,
        }
    }

    /// A gap in the decoded bytes is reached.
    fn take_gap(&mut self, part: &mut FileReading, gap: Break) {
        let record = gap.lost.then_some(self.records);
        self.records += u64::from(gap.lost);
        self.scanned = 0;
        self.corrupt = true;
        let place = Place { offset: gap.offset, ..Place::default() };
        part.add(Corruption::at(&self.input.path, record, place, gap.kind, gap.detail));
    }

    fn finish_search(&mut self, part: &mut FileReading) {
        if let Some((mut corruption, skipped)) = self.search.take() {
            corruption.detail += &format!("; {} skipped", counted(skipped, "byte", "bytes"));
            self.corrupt = true;
            part.add(corruption);
        }
    }
}
