//! WARC records, those of Common Crawl's WET files among them: where one ends, and what its header says.
//!
//! Reading is lenient: header names in any case, lines ended by CRLF or LF, any version of the form `WARC/1.0`.
//! One rule tells a whole record from a corrupt one: *a record counts only if its `Content-Length` leads
//! to its end*. That is the blank lines behind it, the next record, or the end of the member or file. Two ways of
//! miscounting that leave the text whole are understood: characters for bytes, and carriage returns that a tool removed
//! afterwards. A record that fails is lost, and the next one is looked for: a line that is nothing but a version.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memmem};

use super::corruption::CorruptionKind;
use super::cut::{End, MemberStarts, Step};
use super::gzip_header::GZIP_MAGIC;
use super::zst::ZSTD_MAGIC;
use crate::display::counted;

/// The largest header block that is believed, in bytes.
pub const HEADER_CAP: usize = 32 << 10;

/// The longest version line: `WARC/`, up to three digits on either side of the point, CRLF.
const VERSION_CAP: usize = 14;

/// The version line that bytes may start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// A version line of so many bytes, with its line end.
    Line(usize),
    /// The bytes at hand could be the start of one.
    Short,
    No,
}

fn version(bytes: &[u8]) -> Version {
    const NAME: &[u8] = b"WARC/";
    let n = bytes.len().min(NAME.len());
    if bytes[..n] != NAME[..n] {
        return Version::No;
    }
    let mut at = NAME.len();
    for end in [&b"."[..], b"\r\n"] {
        let digits = bytes.get(at..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count();
        at += digits;
        match bytes.get(at) {
            None if digits <= 3 => return Version::Short,
            Some(b) if (1..=3).contains(&digits) && end.contains(b) => at += 1,
            _ => return Version::No,
        }
    }
    match (bytes[at - 1], bytes.get(at)) {
        (b'\n', _) => Version::Line(at),
        (_, None) => Version::Short,
        (_, Some(b'\n')) => Version::Line(at + 1),
        _ => Version::No,
    }
}

/// Finds the first version line at the start of a line or of a member, at or after `from`.
///
/// Without one, returns how far was searched: nothing before that place can be part of one.
fn find_record(bytes: &[u8], from: usize, end: End, bounds: &MemberStarts<'_>) -> Result<usize, usize> {
    let finder = memmem::Finder::new(b"WARC/");
    let mut at = from;
    while let Some(i) = finder.find(&bytes[at.min(bytes.len())..]) {
        let start = at + i;
        let fresh = if start == 0 { bounds.line_start } else { bytes[start - 1] == b'\n' };
        if fresh || bounds.between(start, start + 1).next().is_some() {
            match version(&bytes[start..]) {
                Version::Line(_) => return Ok(start),
                Version::Short if end == End::Unknown => return Err(start.saturating_sub(1).max(from)),
                _ => {}
            }
        }
        at = start + 1;
    }
    // Keep what could be the start of a name, and the line end before it.
    Err(bytes.len().saturating_sub(6).max(from))
}

/// True if a version line, and so a record, begins behind the first byte.
pub(crate) fn holds_several(bytes: &[u8]) -> bool {
    find_record(bytes, 1, End::File, &MemberStarts::none()).is_ok()
}

/// The next line and where the one after it starts, without its line end; `None` if it has no end yet.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(from..)?;
    let n = memchr(b'\n', rest)?;
    let line = &rest[..n];
    Some((line.strip_suffix(b"\r").unwrap_or(line), from + n + 1))
}

/// Splits a header line into its name and its value without the blanks around it.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr(b':', line)?;
    Some((line[..colon].trim_ascii_end(), line[colon + 1..].trim_ascii()))
}

/// A header line that goes on from the one before, by a blank in front, and says this (WARC 1.0, section 4).
fn continuation(line: &[u8]) -> Option<&[u8]> {
    line.starts_with(b" ").then_some(line).or(line.starts_with(b"\t").then_some(line)).map(<[u8]>::trim_ascii)
}

/// Adds what a line that goes on says.
fn fold<'a>(value: &mut Cow<'a, [u8]>, more: &'a [u8]) {
    if value.is_empty() {
        *value = Cow::Borrowed(more);
    } else if !more.is_empty() {
        let value = value.to_mut();
        value.push(b' ');
        value.extend_from_slice(more);
    }
}

/// The values of some header fields, line by line: of a name that comes twice, the first one counts.
pub(crate) struct HeaderValues<'a, const N: usize> {
    names: [&'static str; N],
    /// The value of each name, in the order of the names.
    pub values: [Option<Cow<'a, [u8]>>; N],
    /// The one that the next line may go on from.
    last: Option<usize>,
}

impl<'a, const N: usize> HeaderValues<'a, N> {
    /// No values yet of the fields with these names, whose letters may be of any case.
    pub fn new(names: [&'static str; N]) -> Self {
        Self { names, values: [const { None }; N], last: None }
    }

    /// Takes the next line of a header, without its line end. A line without a colon is passed over.
    pub fn take(&mut self, line: &'a [u8]) {
        if let Some(more) = continuation(line) {
            if let Some(value) = self.last.and_then(|last| self.values[last].as_mut()) {
                fold(value, more);
            }
            return;
        }
        self.last = None;
        let Some((name, value)) = field(line) else { return };
        let known = self.names.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        if let Some(known) = known.filter(|&known| self.values[known].is_none()) {
            (self.values[known], self.last) = (Some(Cow::Borrowed(value)), Some(known));
        }
    }
}

/// The facts of a header that cutting a record needs.
struct Head<'a> {
    /// Where the content starts.
    end: usize,
    /// The blank line ends with CRLF.
    crlf: bool,
    length: Option<Cow<'a, [u8]>>,
    kind: Option<Cow<'a, [u8]>>,
}

impl Head<'_> {
    /// True if it says what it is: in letters, as all types are.
    fn has_kind(&self) -> bool {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        self.kind.as_ref().is_some_and(|kind| !kind.is_empty() && kind.iter().all(is_letter))
    }

    fn is(&self, kind: &[u8]) -> bool {
        self.kind.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(kind))
    }

    /// True if it is one of what a server sent, from which no text was taken yet.
    fn is_raw(&self) -> bool {
        self.is(b"response") || self.is(b"resource")
    }

    /// True if it may be one of a document that is read: to read a resource of plain text no extractor is needed.
    fn is_document(&self) -> bool {
        self.is(b"conversion") || self.is(b"resource") || (cfg!(feature = "html") && self.is_raw())
    }
}

/// The header whose lines begin at a place; none without the blank line at its end.
///
/// # Errors
/// The message says what is wrong with it.
fn head(bytes: &[u8], first_line: usize) -> Result<Option<Head<'_>>, String> {
    let mut values = HeaderValues::new(["Content-Length", "WARC-Type"]);
    let mut at = first_line;
    while at <= HEADER_CAP {
        let Some((text, next)) = line(bytes, at) else {
            if bytes.len() > HEADER_CAP {
                break;
            }
            return Ok(None);
        };
        if text.is_empty() {
            let [length, kind] = values.values;
            return Ok(Some(Head { end: next, crlf: next - at == 2, length, kind }));
        }
        if matches!(version(&bytes[at..]), Version::Line(_)) {
            return Err("a record starts inside the header block".into());
        }
        values.take(text);
        at = next;
    }
    Err(format!("a header block above {HEADER_CAP} bytes"))
}

/// Cuts the next record off the start of `bytes`. One whose content has more than `cap` bytes is corrupt.
pub(crate) fn step(bytes: &[u8], end: End, bounds: &MemberStarts<'_>, cap: usize) -> Step {
    // Line ends between records, and padding.
    let blank = bytes.iter().take_while(|b| is_blank(**b)).count();
    if blank > 0 {
        return Step::Skip(blank);
    }
    let first_line = match version(bytes) {
        Version::Line(n) => n,
        Version::Short if end == End::Unknown => return Step::Need(VERSION_CAP),
        Version::Short => {
            return Step::flaw(CorruptionKind::Truncated, bytes.len(), "the version line has no end");
        }
        Version::No => {
            let (kind, what) = if bytes.starts_with(&GZIP_MAGIC) || bytes.starts_with(&ZSTD_MAGIC) {
                (CorruptionKind::UnknownFormat, "compressed bytes inside compressed bytes")
            } else {
                (CorruptionKind::Malformed, "bytes between records")
            };
            return Step::Flaw { kind, at: 1.min(bytes.len()), record: false, detail: what.into() };
        }
    };
    let head = match head(bytes, first_line) {
        Ok(Some(head)) => head,
        Ok(None) if end == End::Unknown => return Step::Need(bytes.len() + 1),
        Ok(None) => return Step::flaw(CorruptionKind::Truncated, first_line, "the header block has no end"),
        Err(detail) => return Step::flaw(CorruptionKind::Malformed, first_line, detail),
    };
    let Some(written) = head.length.as_deref() else {
        return Step::flaw(CorruptionKind::Malformed, head.end, "no Content-Length");
    };
    let shown = |value: &[u8]| String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
    // `parse` alone would allow a sign.
    if written.is_empty() || !written.iter().all(u8::is_ascii_digit) {
        let detail = format!("Content-Length {:?}", shown(written));
        return Step::flaw(CorruptionKind::Malformed, head.end, detail);
    }
    let length = std::str::from_utf8(written).ok().and_then(|digits| digits.parse::<usize>().ok());
    let Some(length) = length.filter(|&length| length <= cap) else {
        let detail =
            format!("Content-Length {}, at most {cap} are read (--longest-document)", shown(written));
        return Step::flaw(CorruptionKind::TooLarge, head.end, detail);
    };
    let content_end = head.end + length;
    let (content_start, document, raw) = (head.end, head.is_document(), head.is_raw());
    let record = |content_end, end| Step::Record { content_start, content_end, end, document, raw };
    // A member that starts with a record ends the one before, whatever its length says.
    let is_cut = bounds.between(head.end, content_end.min(bytes.len())).any(|at| starts_record(&bytes[at..]));
    let here = match content_end <= bytes.len() {
        _ if is_cut => Ending::No,
        true => ending(bytes, head.end..content_end, head.crlf, end, bounds),
        false if end == End::Unknown => return Step::Need(content_end + 4),
        false => Ending::No,
    };
    let found = match here {
        Ending::At(_) if !head.has_kind() => {
            let kind = head.kind.as_deref().unwrap_or_default();
            let detail =
                if kind.is_empty() { "no WARC-Type".into() } else { format!("WARC-Type {:?}", shown(kind)) };
            return Step::flaw(CorruptionKind::Malformed, head.end, detail);
        }
        Ending::At(next) => return record(content_end, next),
        Ending::Unknown => return Step::Need(bytes.len() + 1),
        Ending::Missing => {
            return Step::flaw(CorruptionKind::Truncated, head.end, "the end of the record is missing");
        }
        Ending::No => find_record(bytes, head.end, end, bounds),
    };
    // The length is wrong as it stands. How it may be meant shows once the next record is in sight, or once
    // the record is longer than any reading allows.
    if found.is_err() && end == End::Unknown && bytes.len() - head.end < 4 * length + 64 {
        return Step::Need(bytes.len() + 1);
    }
    if head.has_kind()
        && let Some(content) =
            other_length(&bytes[head.end..found.unwrap_or(bytes.len())], length, &head, found.is_ok())
        && (found.is_ok() || end == End::File)
    {
        return record(head.end + content, found.unwrap_or(bytes.len()));
    }
    if content_end > bytes.len() && found.is_err() {
        let there = counted((bytes.len() - head.end) as u64, "byte is", "bytes are");
        let detail = format!("Content-Length {length}, but {there} there");
        return Step::flaw(CorruptionKind::Truncated, head.end, detail);
    }
    let detail = format!("Content-Length {length} does not lead to the end of the record");
    Step::flaw(CorruptionKind::Malformed, head.end, detail)
}

/// True for a version line and a first header line; a text that quotes a record may well have the one alone.
fn starts_record(bytes: &[u8]) -> bool {
    let Version::Line(n) = version(bytes) else { return false };
    line(bytes, n).and_then(|(text, _)| field(text)).is_some()
}

/// The answer to whether a record ends at a place.
enum Ending {
    /// Yes, and what follows begins at this position.
    At(usize),
    No,
    /// More bytes will tell.
    Unknown,
    /// The bytes that would tell are missing.
    Missing,
}

fn ending(bytes: &[u8], content: Range<usize>, crlf: bool, end: End, bounds: &MemberStarts<'_>) -> Ending {
    let content_end = content.end;
    let after = &bytes[content_end..];
    let separator: &[u8] = if crlf { b"\r\n\r\n" } else { b"\n\n" };
    if after.starts_with(separator) {
        return Ending::At(content_end + separator.len());
    }
    if end == End::Unknown && separator.starts_with(after) {
        return Ending::Unknown;
    }
    let blank = after.iter().take_while(|b| is_blank(**b)).count();
    let next = content_end + blank;
    // Too large by some of the line ends behind the record: they would be taken for text.
    if crlf && blank < 4 && bytes[content.start..next].ends_with(b"\r\n\r\n") {
        return Ending::No;
    }
    match version(&after[blank..]) {
        Version::Line(_) => Ending::At(next),
        // Enough to be sure, whatever comes after it.
        _ if blank >= 16 => Ending::At(next),
        // At the end of the file the blank lines may be missing; where bytes are missing, nothing is certain.
        _ if blank == after.len() && end == End::File => Ending::At(next),
        Version::Short if end == End::Unknown => Ending::Unknown,
        // A member's end is a record's end.
        _ if bounds.between(content_end, next + 1).next().is_some() => Ending::At(next),
        _ if blank == after.len() && end == End::Gap => Ending::Missing,
        _ => Ending::No,
    }
}

/// A byte that may stand between records: a line end, or a zero as padding.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0)
}

/// Reads a `Content-Length` that is wrong in one of two ways found in the wild, both of
/// which leave the text whole.
///
/// `region` is everything from the header block to the next record, or to the end of the file if there is
/// none. Either the length counts characters instead of bytes, or, in a file whose lines end with LF, it was
/// right before a tool took the carriage returns away. Returns the length of the content.
fn other_length(region: &[u8], length: usize, head: &Head<'_>, next_found: bool) -> Option<usize> {
    let tail = region.iter().rev().take_while(|b| is_blank(**b)).count();
    let text = region.len() - tail;
    // Continuation bytes of UTF-8 are no characters of their own.
    let starts = |b: &&u8| (**b & 0xc0) != 0x80;
    let in_text = region[..text].iter().filter(starts).count();
    if in_text < text && (in_text..=in_text + tail).contains(&length) {
        return Some(text + length - in_text);
    }
    let line_ends = memchr::memchr_iter(b'\n', region).count();
    // Without a next record a file that was cut off would look the same.
    let meant = text..=region.len() + line_ends;
    (next_found && !head.crlf && meant.contains(&length)).then(|| region.len() - tail.min(2))
}

/// The value of a header line, if its name is `Content-Length`.
pub(crate) fn length_line(line: &[u8]) -> Option<&[u8]> {
    field(line).filter(|(name, _)| name.eq_ignore_ascii_case(b"content-length")).map(|(_, value)| value)
}

/// True if a record is as WARC wants it: CRLF ends the header lines, the only `Content-Length` is `content_bytes`, and
/// the bytes `behind` the content begin with two line ends.
pub(crate) fn is_canonical(header: &[u8], content_bytes: usize, behind: &[u8]) -> bool {
    let mut lengths = 0;
    let lines_are_right = header.split_inclusive(|&b| b == b'\n').all(|line| {
        let Some(line) = line.strip_suffix(b"\r\n") else { return false };
        match length_line(line) {
            None => true,
            Some(written) => {
                lengths += 1;
                written == content_bytes.to_string().as_bytes()
            }
        }
    });
    lines_are_right && lengths == 1 && behind.starts_with(b"\r\n\r\n")
}

/// The position in `bytes` of the content, if they start with a record that may be a document. True beside it says
/// that the record is a response or a resource: what a server sent.
pub(crate) fn content_of_document(bytes: &[u8]) -> Option<(usize, bool)> {
    let Version::Line(first_line) = version(bytes) else { return None };
    match head(bytes, first_line) {
        Ok(Some(head)) if head.is_document() => Some((head.end, head.is_raw())),
        _ => None,
    }
}

/// Looks for the next record. `Ok` has the number of bytes before it. `Err` says that none begins in these bytes, and
/// has the number of them that can be dropped.
pub(crate) fn seek(bytes: &[u8], end: End, bounds: &MemberStarts<'_>) -> Result<usize, usize> {
    find_record(bytes, 0, end, bounds)
}

/// The fields of a header that describe a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields<'a> {
    /// `WARC-Record-ID` with its angle brackets.
    pub record_id: Option<Cow<'a, str>>,
    /// `WARC-Target-URI` without angle brackets.
    pub url: Option<Cow<'a, str>>,
    /// `WARC-Identified-Content-Language`: one or several, with commas.
    pub language: Option<Cow<'a, str>>,
    /// `WARC-Date` as written.
    pub date: Option<Cow<'a, str>>,
    /// True if there is a `WARC-Truncated`: the crawler cut the content.
    pub truncated: bool,
    /// `Content-Type` of a resource; `None` for other types of records.
    resource_type: Option<String>,
    /// A message for each of these names that is not UTF-8, and so was left out.
    pub bad_names: Vec<String>,
}

/// Reads the fields of a whole header block, version line included.
pub(crate) fn fields(header: &[u8]) -> Fields<'_> {
    let mut values = HeaderValues::new([
        "WARC-Record-ID",
        "WARC-Target-URI",
        "WARC-Identified-Content-Language",
        "WARC-Date",
        "WARC-Truncated",
        "WARC-Type",
        "Content-Type",
    ]);
    let mut at = 0;
    while let Some((text, next)) = line(header, at) {
        values.take(text);
        at = next;
    }
    let HeaderValues { names, mut values, .. } = values;
    let truncated = values[4].is_some();
    let is_resource = values[5].as_ref().is_some_and(|kind| kind.eq_ignore_ascii_case(b"resource"));
    let content_type = values[6].take().unwrap_or_default();
    let resource_type = is_resource.then(|| String::from_utf8_lossy(&content_type).into_owned());
    let mut bad_names = Vec::new();
    let [record_id, url, language, date] = [0, 1, 2, 3].map(|known| {
        let value = values[known].take()?;
        let text = match value {
            Cow::Borrowed(value) => simdutf8::basic::from_utf8(value).ok().map(Cow::Borrowed),
            Cow::Owned(value) => String::from_utf8(value).ok().map(Cow::Owned),
        };
        if text.is_none() {
            bad_names.push(format!("{} is not UTF-8", names[known]));
        }
        text
    });
    Fields { record_id, url: url.map(without_brackets), language, date, truncated, resource_type, bad_names }
}

impl Fields<'_> {
    /// The content type of a resource, whose content has no HTTP header before it; `None` for other records. A tool's
    /// own notes, such as wget's log, count as bytes of no known type.
    pub fn resource_type(&self) -> Option<&str> {
        let is_note = self.url.as_ref().is_some_and(|url| url.starts_with("metadata:"));
        self.resource_type.as_deref().map(|it| if is_note { "application/octet-stream" } else { it })
    }
}

/// A URL without the angle brackets that WARC/1.0 shows around it in its grammar, and wget writes.
fn without_brackets(url: Cow<'_, str>) -> Cow<'_, str> {
    let inside = url.strip_prefix('<').and_then(|url| url.strip_suffix('>')).map(str::to_owned);
    inside.map_or(url, Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::super::feed::Start;
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const CAP: usize = 1 << 20;

    fn whole(bytes: &[u8]) -> Step {
        step(bytes, End::File, &MemberStarts::none(), CAP)
    }

    fn record(length: &str, text: &str, line_end: &str) -> Vec<u8> {
        format!("WARC/1.0\nWARC-Type: conversion\nContent-Length: {length}\n\n")
            .replace('\n', line_end)
            .into_bytes()
            .into_iter()
            .chain(text.bytes())
            .collect()
    }

    /// The text of the first record, or the kind of corruption.
    fn text(bytes: &[u8]) -> Result<&str, CorruptionKind> {
        match whole(bytes) {
            Step::Record { content_start, content_end, .. } => {
                Ok(std::str::from_utf8(&bytes[content_start..content_end]).expect("UTF-8"))
            }
            Step::Flaw { kind, .. } => Err(kind),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn version_lines() {
        for good in ["WARC/1.0\r\n", "WARC/1.1\n", "WARC/0.18\r\n", "WARC/100.100\r\n"] {
            assert_eq!(version(good.as_bytes()), Version::Line(good.len()), "{good:?}");
            for n in 0..good.len() {
                assert_eq!(version(&good.as_bytes()[..n]), Version::Short, "{good:?} {n}");
            }
        }
        for bad in [
            "WARC/x",
            "WARC/.",
            "WARC/1.x",
            "WARC/1.\r\n",
            "WARC/1.0 ",
            "WARC/1.0\rx",
            "warc/1.0\n",
            "WARC/1000",
        ] {
            assert_eq!(version(bad.as_bytes()), Version::No, "{bad:?}");
        }
    }

    #[test]
    fn a_length_must_lead_to_the_end() {
        let next = "WARC/1.0\r\nX: y\r\n\r\n";
        for length in ["6", "8", "60"] {
            let bytes = record(length, &format!("abc\ndef\r\n\r\n{next}"), "\r\n");
            assert_eq!(text(&bytes), Err(CorruptionKind::Malformed), "{length}");
        }
        for end in ["\r\n\r\n", "\r\n", "\n", ""] {
            assert_eq!(
                text(&record("7", &format!("abc\ndef{end}{next}"), "\r\n")),
                Ok("abc\ndef"),
                "{end:?}"
            );
            assert_eq!(text(&record("7", &format!("abc\ndef{end}"), "\n")), Ok("abc\ndef"), "{end:?}");
        }
        assert_eq!(text(&record("0", "", "\r\n")), Ok(""));
        assert_eq!(text(&record("9", "abc", "\r\n")), Err(CorruptionKind::Truncated));
        assert_eq!(text(&record("99999999", "abc", "\r\n")), Err(CorruptionKind::TooLarge));
        // One blank line in a file of CRLF is text, and what follows it must not be lost unseen.
        assert_eq!(text(&record("3", "abc\n\nmore\r\n\r\n", "\r\n")), Err(CorruptionKind::Malformed));
    }

    #[test]
    fn headers_are_bounded() {
        let header = |n: usize| {
            format!("WARC/1.0\r\nWARC-Type: conversion\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(n))
        };
        assert_eq!(text(header(HEADER_CAP - 100).as_bytes()), Ok(""));
        assert_eq!(text(header(HEADER_CAP).as_bytes()), Err(CorruptionKind::Malformed));
        assert_eq!(text(b"WARC/1.0\r\nX: y\r\nWARC/1.0\r\n\r\n"), Err(CorruptionKind::Malformed));
        assert_eq!(text(b"WARC/1.0\r\nX: y\r\n"), Err(CorruptionKind::Truncated));
    }

    #[test]
    fn the_first_of_two_equal_names_counts() {
        let got =
            fields(b"WARC/1.0\nWARC-Target-URI : a \nwarc-target-uri: b\nWARC-Record-ID:<c>\nno colon\n\n");
        assert_eq!(
            (got.url.as_deref(), got.record_id.as_deref(), got.language),
            (Some("a"), Some("<c>"), None)
        );
        for (written, url) in
            [("<https://a.example/>", "https://a.example/"), ("<a", "<a"), ("<>", ""), ("<", "<")]
        {
            let header = format!("WARC/1.0\nWARC-Target-URI: {written}\n\n");
            assert_eq!(fields(header.as_bytes()).url.as_deref(), Some(url), "as wget writes it");
        }
        let got = fields(b"WARC/1.0\nWARC-Target-URI: \xff\n\n");
        assert_eq!((got.url, &got.bad_names[..]), (None, &["WARC-Target-URI is not UTF-8".to_owned()][..]));
    }

    #[test]
    fn a_line_goes_on_after_a_blank() {
        let header = "WARC/1.0\nWARC-Type:\n conversion\nWARC-Target-URI: https://a.example/\n\tb c\n\
                      X: y\n WARC-Target-URI: d\nWARC-Date: 1\nWARC-Date: 2\n 3\nContent-Length:\n 3\n\n";
        let got = fields(header.as_bytes());
        assert_eq!((got.url.as_deref(), got.date.as_deref()), (Some("https://a.example/ b c"), Some("1")));
        for header in [header.to_owned(), header.replace('\n', "\r\n")] {
            assert_eq!(text(format!("{header}abc").as_bytes()), Ok("abc"));
            let other = header.replace("conversion", "warcinfo");
            assert!(matches!(whole(format!("{other}abc").as_bytes()), Step::Record { document: false, .. }));
            let none = header.replace(" conversion", " ");
            assert_eq!(text(format!("{none}abc").as_bytes()), Err(CorruptionKind::Malformed));
        }
    }

    /// Members that start at these places.
    fn members(places: &[usize]) -> VecDeque<Start> {
        places.iter().map(|&at| Start { decoded: 100 + at as u64, stored: 0, end: None }).collect()
    }

    /// The step for bytes with a hundred others in front of them, in members that start at these places.
    fn in_members(bytes: &[u8], places: &[usize], end: End) -> Step {
        step(bytes, end, &MemberStarts::new(&members(places), 100, true), CAP)
    }

    /// The flaw that a step found.
    fn flaw(step: Step) -> CorruptionKind {
        match step {
            Step::Flaw { kind, .. } => kind,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_ends_where_the_next_one_begins() {
        let next = "WARC/1.0\r\nX: y\r\n\r\n";
        for line_end in ["\r\n", "\n"] {
            let plain = record("3", "abc", line_end);
            for behind in ["\r\n\r\n", "\n\n", "\r\n", "\n", "", "\0\0", "\n\0\r\n\r\n\n"] {
                let bytes = [&plain, behind.as_bytes(), next.as_bytes()].concat();
                // Two line ends are the record's own; what is blank beyond them is skipped by the next step.
                let own = if behind == line_end.repeat(2) { 2 * line_end.len() } else { behind.len() };
                match whole(&bytes) {
                    Step::Record { content_start, content_end, end, document, raw } => {
                        assert_eq!(
                            (content_start, content_end),
                            (plain.len() - 3, plain.len()),
                            "{behind:?}"
                        );
                        assert_eq!((end, document, raw), (plain.len() + own, true, false));
                    }
                    other => panic!("{behind:?}: {other:?}"),
                }
            }
        }
        // No text: the line end of the header is not one behind the record.
        assert_eq!(text(&record("0", &format!("\r\n{next}"), "\r\n")), Ok(""));
        assert_eq!(text(&record("7", "abc\r\n\r\n", "\r\n")), Err(CorruptionKind::Malformed));
        assert_eq!(text(&record("7", "abc\r\n\r\n", "\n")), Ok("abc\r\n\r\n"));
    }

    #[test]
    fn many_blanks_end_a_record_whatever_follows() {
        let behind = |blanks: usize| record("3", &format!("abc{}junk", "\n".repeat(blanks)), "\r\n");
        assert_eq!(text(&behind(16)), Ok("abc"));
        assert_eq!(text(&behind(15)), Err(CorruptionKind::Malformed));
    }

    #[test]
    fn a_member_that_starts_with_a_record_ends_the_one_before() {
        let next = "WARC/1.0\r\nX: y\r\n\r\n";
        // The length reaches into the next member.
        let bytes = record("39", &format!("abc\r\n\r\n{next}and more of it\r\n\r\n"), "\r\n");
        let at = bytes.windows(5).rposition(|name| name == b"WARC/").unwrap();
        assert_eq!(flaw(in_members(&bytes, &[0, at], End::File)), CorruptionKind::Malformed);
        // Without a member there, and where it starts with a version line alone, that is text.
        assert!(matches!(in_members(&bytes, &[0], End::File), Step::Record { .. }));
        let quoting = record("21", "a\nWARC/1.0\r\nno field.\r\n\r\n", "\r\n");
        let at = quoting.windows(5).rposition(|name| name == b"WARC/").unwrap();
        assert!(matches!(in_members(&quoting, &[0, at], End::File), Step::Record { .. }));
    }

    #[test]
    fn the_end_of_a_member_is_the_end_of_a_record() {
        for behind in ["", "\n", "\r\n"] {
            let bytes = record("3", &format!("abc{behind}junk"), "\r\n");
            let at = bytes.len() - 4;
            for (place, is_end) in [(at - behind.len(), true), (at, true), (at + 1, false)] {
                let is = match in_members(&bytes, &[0, place], End::File) {
                    Step::Record { content_end, end, .. } => (content_end, end) == (at - behind.len(), at),
                    _ => false,
                };
                assert_eq!(is, is_end, "{behind:?}, {place}");
            }
            // As long as more blanks may come, the end of what is skipped is not known.
            let so_far = in_members(&bytes[..at], &[0, at - behind.len()], End::Unknown);
            assert!(matches!(so_far, Step::Need(_)), "{behind:?}");
        }
    }

    #[test]
    fn where_bytes_are_missing_nothing_is_certain() {
        let none = MemberStarts::none();
        for behind in ["", "\r\n"] {
            let bytes = record("3", &format!("abc{behind}"), "\r\n");
            assert_eq!(flaw(step(&bytes, End::Gap, &none, CAP)), CorruptionKind::Truncated, "{behind:?}");
            assert!(matches!(step(&bytes, End::Unknown, &none, CAP), Step::Need(n) if n == bytes.len() + 1));
            assert_eq!(text(&bytes), Ok("abc"));
        }
        let bytes = record("3", "abc\r\n\r\n", "\r\n");
        assert!(matches!(step(&bytes, End::Gap, &none, CAP), Step::Record { .. }));
        let junk = record("3", "abcjunk", "\r\n");
        for end in [End::Gap, End::File] {
            assert_eq!(flaw(step(&junk, end, &none, CAP)), CorruptionKind::Malformed);
        }
        // Characters counted for bytes, but who knows what the text went on with?
        let miscounted = record("3", "äöü\r\n\r\n", "\r\n");
        assert_eq!(flaw(step(&miscounted, End::Gap, &none, CAP)), CorruptionKind::Malformed);
    }

    #[test]
    fn no_more_is_asked_for_than_can_tell() {
        let unknown = |bytes: &[u8]| step(bytes, End::Unknown, &MemberStarts::none(), CAP);
        let need = |bytes: &[u8], n| assert!(matches!(unknown(bytes), Step::Need(need) if need == n), "{n}");
        need(b"WARC/1", VERSION_CAP);
        assert_eq!(flaw(whole(b"WARC/1")), CorruptionKind::Truncated);
        let head = record("10", "", "\r\n");
        need(&head, head.len() + 14);
        // A length that is wrong: once the record is longer than any reading allows, that is it.
        let long = |n: usize| record("10", &"x".repeat(n), "\r\n");
        need(&long(103), head.len() + 104);
        assert_eq!(flaw(unknown(&long(104))), CorruptionKind::Malformed);
        // A header line without an end.
        let open = |n: usize| format!("WARC/1.0\r\n{}", "x".repeat(n - 10)).into_bytes();
        need(&open(HEADER_CAP), HEADER_CAP + 1);
        assert_eq!(flaw(unknown(&open(HEADER_CAP + 1))), CorruptionKind::Malformed);
        assert_eq!(flaw(whole(&open(HEADER_CAP))), CorruptionKind::Truncated);
        assert_eq!(flaw(whole(&open(HEADER_CAP + 2))), CorruptionKind::Malformed);
    }

    #[test]
    fn lengths_that_are_none() {
        for written in ["", "+3", "-3", "3 3", "0x3", "three"] {
            assert_eq!(text(&record(written, "abc", "\r\n")), Err(CorruptionKind::Malformed), "{written:?}");
        }
        assert_eq!(text(&record("99999999999999999999", "abc", "\r\n")), Err(CorruptionKind::TooLarge));
        assert_eq!(text(b"WARC/1.0\nWARC-Type: conversion\n\nabc"), Err(CorruptionKind::Malformed));
        let limited = |cap| step(&record("3", "abc", "\r\n"), End::File, &MemberStarts::none(), cap);
        assert!(matches!(limited(3), Step::Record { .. }));
        assert_eq!(flaw(limited(2)), CorruptionKind::TooLarge);
    }

    #[test]
    fn the_bounds_of_miscounting() {
        let next = "WARC/1.0\nX: y\n\n";
        // Characters for bytes, with none of the line ends, some, or all.
        for length in [3, 4, 5, 7] {
            let counted = "äöü\r\n\r\n".chars().take(length).collect::<String>();
            let bytes = record(&length.to_string(), "äöü\r\n\r\n", "\r\n");
            assert_eq!(text(&bytes), Ok(&counted[..]), "{length}");
        }
        assert_eq!(text(&record("4", &format!("äöü\n\n\n{next}"), "\n")), Ok("äöü\n"));
        assert_eq!(text(&record("2", "äöü\r\n\r\n", "\r\n")), Err(CorruptionKind::Malformed));
        assert_eq!(text(&record("12", "äöü\r\n\r\n", "\r\n")), Err(CorruptionKind::Truncated));
        assert_eq!(text(&record("8", &format!("äöü\r\n\r\n{next}"), "\r\n")), Err(CorruptionKind::Malformed));
        // Carriage returns that were taken away: as many as there are lines, and in files of LF alone.
        let lines =
            |length: &str, line_end: &str| record(length, &format!("a\nb\nc\nd\n\n\n{next}"), line_end);
        for length in ["11", "16"] {
            assert_eq!(text(&lines(length, "\n")), Ok("a\nb\nc\nd\n"), "{length}");
            assert_eq!(text(&lines(length, "\r\n")), Err(CorruptionKind::Malformed), "{length}");
        }
        for length in ["6", "17"] {
            assert_eq!(text(&lines(length, "\n")), Err(CorruptionKind::Malformed), "{length}");
        }
        assert_eq!(text(&record("6", &format!("a\nb\n{next}"), "\n")), Ok("a\nb"));
        // At the end of a file, such a record may as well be one that was cut off.
        assert_eq!(text(&record("12", "a\nb\nc\nd\n", "\n")), Err(CorruptionKind::Truncated));
    }

    #[test]
    fn kinds_of_records() {
        for (kind, document, raw) in [
            ("conversion", true, false),
            ("Conversion", true, false),
            ("response", cfg!(feature = "html"), true),
            ("resource", true, true),
            ("warcinfo", false, false),
            ("x-of_ours.1", false, false),
        ] {
            let bytes = format!("WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n");
            match whole(bytes.as_bytes()) {
                Step::Record { document: d, raw: r, .. } => assert_eq!((d, r), (document, raw), "{kind}"),
                other => panic!("{other:?}"),
            }
            let start = bytes.len() - 7;
            assert_eq!(content_of_document(bytes.as_bytes()), document.then_some((start, raw)), "{kind}");
        }
        for corrupt in ["conv\u{1}rsion", "conversion\u{fffd}", "a document", ""] {
            let bytes = format!("WARC/1.0\r\nWARC-Type: {corrupt}\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n");
            assert_eq!(text(bytes.as_bytes()), Err(CorruptionKind::Malformed), "{corrupt:?}");
        }
        assert_eq!(content_of_document(b"WARC/1.0\r\nWARC-Type: conversion\r\n"), None);
        assert_eq!(content_of_document(b"abc"), None);
    }

    #[test]
    fn the_first_of_two_lengths_and_kinds_counts() {
        let bytes = b"WARC/1.0\nWARC-Type: conversion\nContent-Length: 3\nWARC-Type: warcinfo\n 1\n\
                      Content-Length: 9\n 9\n\nabc\n\n";
        assert_eq!(text(bytes), Ok("abc"));
        assert!(matches!(whole(bytes), Step::Record { document: true, .. }));
    }

    #[test]
    fn what_lies_between_records_is_named() {
        for (bytes, kind) in [
            (&b"\x1f\x8b\x08\0"[..], CorruptionKind::UnknownFormat),
            (b"\x28\xb5\x2f\xfd\0", CorruptionKind::UnknownFormat),
            (b"\x1f\x8b", CorruptionKind::Malformed),
            (b"junk", CorruptionKind::Malformed),
        ] {
            assert!(matches!(whole(bytes), Step::Flaw { kind: k, at: 1, record: false, .. } if k == kind));
        }
        assert!(matches!(whole(b"\r\n\0WARC/1.0\n"), Step::Skip(3)));
    }

    #[test]
    fn records_are_looked_for_at_the_start_of_lines_and_members() {
        let bytes = b"WARC/1.0\r\nX: y";
        assert_eq!(seek(bytes, End::File, &MemberStarts::none()), Ok(0));
        let (none, two) = (VecDeque::new(), members(&[0, 4]));
        assert_eq!(seek(bytes, End::File, &MemberStarts::new(&none, 100, false)), Err(8));
        assert_eq!(seek(bytes, End::File, &MemberStarts::new(&two, 100, false)), Ok(0));
        assert_eq!(seek(b"textWARC/1.0\r\n", End::File, &MemberStarts::new(&two, 100, false)), Ok(4));
        assert_eq!(seek(b"textWARC/1.0\r\n", End::File, &MemberStarts::none()), Err(8));
        let last = b"xWARC/1.0\r\n WARC/1.0\r\nWARC/1.0 \r\nWARC/1.0\r\n";
        assert_eq!(seek(last, End::File, &MemberStarts::none()), Ok(last.len() - 10));
        // What could be the start of one stays, with the line end before it.
        assert_eq!(seek(b"0123456789", End::Unknown, &MemberStarts::none()), Err(4));
        assert_eq!(seek(b"012345678\nWARC/1.", End::Unknown, &MemberStarts::none()), Err(9));
        assert_eq!(seek(b"012345678\nWARC/1.", End::File, &MemberStarts::none()), Err(11));
        assert_eq!(seek(b"WARC/1.0", End::Unknown, &MemberStarts::none()), Err(0));
        let one = record("3", "abc\r\n\r\n", "\r\n");
        assert!(!holds_several(&one) && holds_several(&[&one[..], &one[..]].concat()));
        assert!(!holds_several(&record("12", "a WARC/1.0\r\n\r\n\r\n", "\r\n")));
    }

    #[test]
    fn records_as_they_should_be() {
        let header = "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 3\r\n\r\n";
        assert!(is_canonical(header.as_bytes(), 3, b"\r\n\r\nWARC/1.0"));
        assert!(!is_canonical(header.as_bytes(), 4, b"\r\n\r\n"));
        assert!(!is_canonical(header.as_bytes(), 3, b"\r\n"));
        for other in [
            header.replace("\r\n", "\n"),
            header.replacen("\r\n", "\n", 1),
            header.replace("Content-Length: 3\r\n", ""),
            header.replace("Content-Length: 3", "Content-Length: 3\r\ncontent-length: 3"),
            header.replace(": 3", ": 03"),
        ] {
            assert!(!is_canonical(other.as_bytes(), 3, b"\r\n\r\n"), "{other:?}");
        }
        assert_eq!(length_line(b"CONTENT-LENGTH : 3 "), Some(&b"3"[..]));
        assert!(length_line(b"Content-Type: 3").is_none() && length_line(b"Content-Length").is_none());
    }

    proptest! {
        /// The step for the bytes at hand holds whatever comes after them.
        #[test]
        fn a_part_never_contradicts_the_whole(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "WARC/1.0\r\n", "WARC/1.0\n", "WARC-Type: conversion\r\n", "Content-Length: 4\r\n",
                    "Content-Length: 3\n", "\r\n", "\n", "text", "ä", "\0", "WARC/",
                ]),
                0..12,
            ),
        ) {
            let bytes = pieces.concat().into_bytes();
            let whole = format!("{:?}", whole(&bytes));
            for n in 0..bytes.len() {
                let part = step(&bytes[..n], End::Unknown, &MemberStarts::none(), CAP);
                match part {
                    Step::Need(need) => prop_assert!(need > n),
                    // How much of a run of blanks is skipped at once does not matter.
                    Step::Skip(_) => {}
                    part => prop_assert_eq!(format!("{part:?}"), whole.clone(), "{} of {}", n, bytes.len()),
                }
            }
        }

        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>, from in 0..3usize) {
            for end in [End::Unknown, End::File, End::Gap] {
                let bytes = [[&b""[..], b"WARC/1.0\n", b"WARC/1.0\nWARC-Type: x\nContent-Length: 5\n\n"][from], &bytes].concat();
                match step(&bytes, end, &MemberStarts::none(), CAP) {
                    Step::Need(n) => prop_assert!(end == End::Unknown && n > bytes.len()),
                    Step::Skip(n) => prop_assert!((1..=bytes.len()).contains(&n)),
                    Step::Record { content_start, content_end, end, .. } => {
                        prop_assert!(content_start <= content_end && content_end <= end && end <= bytes.len());
                    }
                    Step::Flaw { at, .. } => prop_assert!(at <= bytes.len()),
                }
                let _ = fields(&bytes);
            }
        }
    }
}
