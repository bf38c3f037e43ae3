//! Documents as servers sent them: the text of the HTML in a WARC response or resource. A page is HTML or plain text.
//!
//! Reading is lenient, as crawlers write many things. A body that says that it is chunked or compressed and is not is
//! taken as it is, and a body that breaks off counts as far as it goes.

use std::borrow::Cow;
use std::io::{self, Read};

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use html2text::config;
use html2text::render::TrivialDecorator;
use memchr::{memchr, memchr_iter, memmem};

use super::corruption::{CorruptionCause, CorruptionKind, DocumentRoom};
use super::document::{IN_MEMORY, RecordContent};
use super::filetype::looks_like_html;
use super::guard::caught;
use super::gzip_header::GZIP_MAGIC;
use super::wet::HeaderValues;
use super::zst::ZSTD_MAGIC;

/// True if a body is HTML, by its content type, and the charset that this names; none if it is neither HTML nor plain
/// text.
fn page_type<'t>(content_type: &'t str, body: &[u8]) -> Option<(bool, Option<&'t str>)> {
    let (media, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let is_html = match media.trim() {
        "text/html" | "application/xhtml+xml" => true,
        "text/plain" => false,
        // Nothing is said: what browsers would find.
        "" if looks_like_html(body) => true,
        _ => return None,
    };
    Some((is_html, parameters.split(';').find_map(|it| it.trim().strip_prefix("charset="))))
}

/// The text of the page in a WARC resource, by the content type of its record. A resource has no HTTP header, as wget
/// keeps pages of FTP, and browsers what they have rendered. `None` if it is neither HTML nor plain text.
///
/// # Errors
/// The kind of corruption and what was found.
pub(crate) fn text_of_resource<'a>(
    content: &'a [u8],
    content_type: &str,
    room: &DocumentRoom,
) -> Result<Option<RecordContent<'a>>, CorruptionCause> {
    let content_type = content_type.to_ascii_lowercase();
    let Some((is_html, charset)) = page_type(&content_type, content) else { return Ok(None) };
    text_of(Cow::Borrowed(content), charset, is_html, room).map(Some)
}

/// The text of the page that a response holds, within the limits of `room`. `None` if it holds no page: no HTTP, a
/// status other than 2xx, or something else than HTML or plain text. `cut` says that the crawler cut it.
///
/// # Errors
/// The kind of corruption and what was found.
pub(crate) fn text_of_response<'a>(
    content: &'a [u8],
    room: &DocumentRoom,
    mut cut: bool,
) -> Result<Option<RecordContent<'a>>, CorruptionCause> {
    // Crawlers keep answers of name servers as responses, too.
    if !content.starts_with(b"HTTP/") {
        return Ok(None);
    }
    let Some((head, body)) = split(content) else {
        return Err((CorruptionKind::Malformed, "no end of the HTTP header".to_owned()));
    };
    let mut lines = head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let status = lines.next().unwrap_or_default();
    let code = status.split(u8::is_ascii_whitespace).nth(1).unwrap_or_default();
    if !(code.len() == 3 && code[0] == b'2') {
        return Ok(None);
    }
    let mut fields = HeaderValues::new(["Content-Type", "Transfer-Encoding", "Content-Encoding"]);
    lines.for_each(|line| fields.take(line));
    let [content_type, transfer, encodings] =
        fields.values.map(|value| String::from_utf8_lossy(&value.unwrap_or_default()).to_ascii_lowercase());
    let Some((is_html, charset)) = page_type(&content_type, body) else { return Ok(None) };
    let mut body = match transfer.contains("chunked") {
        true => dechunked(body, &mut cut),
        false => Cow::Borrowed(body),
    };
    for encoding in encodings.rsplit(',').map(str::trim) {
        body = decoded(body, encoding, is_html, room, &mut cut)?;
    }
    // With the beginning of a character at its end, what is UTF-8 otherwise would be taken for another charset.
    if cut
        && let Err(error) = simdutf8::compat::from_utf8(&body)
        && error.error_len().is_none()
    {
        body.to_mut().truncate(error.valid_up_to());
    }
    let text = text_of(body, charset, is_html, room)?;
    if cut && text.text.trim().is_empty() {
        return Err((CorruptionKind::Malformed, "a body that breaks off before its text".to_owned()));
    }
    Ok(Some(RecordContent { truncated: cut, ..text }))
}

/// The text of a body without content codings: of HTML, or the body itself if it is plain text. `charset` is the name
/// that a header gave; without one the body itself tells.
///
/// # Errors
/// The kind of corruption and what was found.
pub(crate) fn text_of<'a>(
    body: Cow<'a, [u8]>,
    charset: Option<&str>,
    is_html: bool,
    room: &DocumentRoom,
) -> Result<RecordContent<'a>, CorruptionCause> {
    let (text, repaired) = in_utf8(body, charset, is_html);
    if !is_html {
        return Ok(RecordContent { text, repaired, ..RecordContent::default() });
    }
    let Markup { tags, depth, attributes } = Markup::of(text.as_bytes());
    let (tree, length) = (tags * TAG, text.len() as u64);
    room.take(tree / IN_MEMORY + length)?;
    for (number, most, what) in
        [(depth, DEPTH, "elements within each other"), (attributes, ATTRIBUTES, "attributes of a tag")]
    {
        if number > most {
            return Err((CorruptionKind::Malformed, format!("{number} {what}; {most} are read at most")));
        }
    }
    let text = match caught(|| rendered(&parted(&text))) {
        Ok(Ok(text)) => Cow::Owned(text),
        Ok(Err(error)) => {
            return Err((CorruptionKind::Malformed, format!("HTML that gives no text: {error}")));
        }
        Err(_) => return Err((CorruptionKind::Malformed, "HTML that the extractor gave up on".to_owned())),
    };
    Ok(RecordContent { text, repaired, beside: tree + 3 * length, ..RecordContent::default() })
}

/// Bytes of memory that an element takes with its text, while that is taken out.
const TAG: u64 = 2300;
/// Elements within each other: the time that they take grows with their square.
const DEPTH: u64 = 5_000;
/// Attributes of a tag: the same.
const ATTRIBUTES: u64 = 10_000;

/// The properties of HTML that make it costly, by a look at its tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Markup {
    tags: u64,
    /// The depth of elements at most, without those that others end.
    depth: u64,
    /// The most attributes of a tag, about.
    attributes: u64,
}

impl Markup {
    fn of(html: &[u8]) -> Self {
        /// Elements that end where the next one begins, or are empty.
        const FLAT: [&str; 32] = [
            "area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "frame", "hr", "image", "img",
            "input", "keygen", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt",
            "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr",
        ];
        let (mut markup, mut depth) = (Self::default(), 0u64);
        let mut rest = html;
        while let Some(at) = memchr(b'<', rest) {
            rest = &rest[at + 1..];
            markup.tags += 1;
            if rest.starts_with(b"!--") {
                rest = &rest[memmem::find(rest, b"-->").unwrap_or(rest.len())..];
                continue;
            }
            let tag = &rest[..memchr(b'>', rest).unwrap_or(rest.len())];
            // Most are far too short to have many.
            if tag.len() as u64 > 2 * ATTRIBUTES {
                let parts = tag.split(|byte| byte.is_ascii_whitespace() || *byte == b'/');
                markup.attributes =
                    markup.attributes.max(parts.filter(|part| !part.is_empty()).count() as u64);
            }
            let closes = tag.first() == Some(&b'/');
            let name = tag_name(&tag[usize::from(closes)..]);
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            if !closes && (is("script") || is("style")) {
                // What looks like tags in it is none.
                let end = |from: &&[u8]| {
                    from.len() > name.len()
                        && from[0] == b'/'
                        && from[1..=name.len()].eq_ignore_ascii_case(name)
                };
                let mut ends = memchr_iter(b'<', rest).map(|at| &rest[at + 1..]);
                rest = ends.find(end).unwrap_or_default();
                continue;
            }
            if name.is_empty() || FLAT.iter().any(|flat| is(flat)) {
                continue;
            }
            depth = if closes { depth.saturating_sub(1) } else { depth + 1 };
            markup.depth = markup.depth.max(depth);
        }
        markup
    }
}

/// The name of an element that bytes begin with; one that is longer than all known ones is cut.
fn tag_name(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().take(16).take_while(|byte| byte.is_ascii_alphanumeric()).count()]
}

/// The header of a response and its body.
fn split(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"];
    let end = |end: &&[u8]| memmem::find(content, end).map(|at| (at, at + end.len()));
    let (head, body) = ends.iter().filter_map(end).min()?;
    Some((&content[..head], &content[body..]))
}

/// A body without its chunks' marks (RFC 9112, 7.1); as it is, if it has none. It is `cut` if a chunk is missing.
fn dechunked<'a>(body: &'a [u8], cut: &mut bool) -> Cow<'a, [u8]> {
    /// The size of the chunk that begins here, and where its bytes do.
    fn chunk(bytes: &[u8]) -> Option<(usize, usize)> {
        let end = memchr(b'\n', &bytes[..bytes.len().min(1024)])?;
        let line = bytes[..end].split(|&b| b == b';').next()?.trim_ascii();
        let size = std::str::from_utf8(line).ok().filter(|size| (1..=8).contains(&size.len()))?;
        usize::from_str_radix(size, 16).ok().filter(|_| !size.starts_with('+')).map(|size| (size, end + 1))
    }
    let (mut whole, mut rest) = (Vec::new(), body);
    loop {
        let Some((size, start)) = chunk(rest) else {
            if whole.is_empty() {
                return Cow::Borrowed(body);
            }
            // Behind the last bytes only the mark of the end is missing.
            *cut = true;
            return Cow::Owned(whole);
        };
        if size == 0 {
            return Cow::Owned(whole);
        }
        let Some(bytes) = rest.get(start..start.saturating_add(size)) else {
            whole.extend_from_slice(&rest[start..]);
            *cut = true;
            return Cow::Owned(whole);
        };
        whole.extend_from_slice(bytes);
        rest = &rest[start + size..];
        rest = rest.strip_prefix(b"\r\n").or(rest.strip_prefix(b"\n")).unwrap_or(rest);
    }
}

/// A body without one content coding; as it is, if that is not what its bytes show. It is `cut` if it breaks off, or
/// what is decoded is not what its checksum says.
fn decoded<'a>(
    body: Cow<'a, [u8]>,
    coding: &str,
    is_html: bool,
    room: &DocumentRoom,
    cut: &mut bool,
) -> Result<Cow<'a, [u8]>, CorruptionCause> {
    // Codings that begin with no mark of their own decode whatever bytes there are, for a while.
    let mut has_mark = true;
    let (bytes, cap): (&[u8], usize) = (&body, room.body());
    let mut out = Vec::new();
    let mut pull = |reader: &mut dyn Read| {
        let left = cap as u64 + 1 - out.len() as u64;
        reader.take(left).read_to_end(&mut out).map(drop)
    };
    let read: io::Result<()> = match coding {
        "gzip" | "x-gzip" if bytes.starts_with(&GZIP_MAGIC) => {
            let mut rest = bytes;
            loop {
                let mut member = flate2::bufread::GzDecoder::new(rest);
                let read = pull(&mut member);
                rest = member.into_inner();
                // What a server puts behind the last member is no part of the page.
                if read.is_err() || !rest.starts_with(&GZIP_MAGIC) {
                    break read;
                }
            }
        }
        "zstd" if bytes.starts_with(&ZSTD_MAGIC) => {
            zstd::stream::read::Decoder::with_buffer(bytes).and_then(|mut decoder| pull(&mut decoder))
        }
        // Both forms are sent (RFC 9110, 8.4.1.2): with zlib's header, whose first two bytes say that they are it,
        // and without.
        "deflate" => match bytes {
            &[first, second, ..]
                if first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31) =>
            {
                pull(&mut flate2::bufread::ZlibDecoder::new(bytes))
            }
            _ if looks_like_html(bytes) => return Ok(body),
            _ => {
                has_mark = false;
                pull(&mut flate2::bufread::DeflateDecoder::new(bytes))
            }
        },
        "br" if !looks_like_html(bytes) => {
            has_mark = false;
            pull(&mut brotli::Decompressor::new(bytes, 4096))
        }
        _ => return Ok(body),
    };
    if out.len() > cap {
        return Err(room.refuse_body());
    }
    match read {
        Ok(()) => Ok(Cow::Owned(out)),
        Err(_) if !out.is_empty() && (*cut || has_mark || looks_like_text(&out, is_html)) => {
            *cut = true;
            Ok(Cow::Owned(out))
        }
        Err(error) => {
            Err((CorruptionKind::Malformed, format!("a body of {coding} that does not decode: {error}")))
        }
    }
}

/// True for what a page may begin with: markup, or any text in UTF-8 where it is no HTML.
fn looks_like_text(bytes: &[u8], is_html: bool) -> bool {
    // The last character may be cut.
    let is_utf8 = simdutf8::compat::from_utf8(bytes).map_or_else(|e| e.error_len().is_none(), |_| true);
    looks_like_html(bytes) || is_utf8 && (!is_html || bytes.contains(&b'<'))
}

/// A text in UTF-8, and true if U+FFFD stands for bytes that its charset does not have. The charset is that of a byte
/// order mark, of the HTTP header, or of the HTML itself; else UTF-8 if it fits, or windows-1252 as in browsers.
fn in_utf8<'a>(body: Cow<'a, [u8]>, charset: Option<&str>, is_html: bool) -> (Cow<'a, str>, bool) {
    let named = |name: &str| Encoding::for_label(name.trim_matches(['"', '\'', ' ']).as_bytes());
    let by_mark = Encoding::for_bom(&body).map(|(encoding, _)| encoding);
    let encoding = by_mark
        .or_else(|| charset.and_then(named))
        .or_else(|| if is_html { meta_charset(&body) } else { None })
        .unwrap_or_else(|| if simdutf8::basic::from_utf8(&body).is_ok() { UTF_8 } else { WINDOWS_1252 });
    match body {
        Cow::Borrowed(bytes) => {
            let (text, _, repaired) = encoding.decode(bytes);
            (text, repaired)
        }
        Cow::Owned(bytes) => {
            let (text, _, repaired) = encoding.decode(&bytes);
            (Cow::Owned(text.into_owned()), repaired)
        }
    }
}

/// The charset that a page names in its first bytes: `charset=` within a `<meta`.
fn meta_charset(body: &[u8]) -> Option<&'static Encoding> {
    /// Bytes that are looked at (the HTML Standard asks for 1024; pages put scripts in front).
    const LOOKED_AT: usize = 4096;
    let head = body[..body.len().min(LOOKED_AT)].to_ascii_lowercase();
    let mut rest = &head[..];
    while let Some(at) = memmem::find(rest, b"<meta") {
        rest = &rest[at + 5..];
        let tag = &rest[..memchr(b'>', rest).unwrap_or(rest.len())];
        let Some(at) = memmem::find(tag, b"charset") else { continue };
        let value = tag[at + 7..].trim_ascii_start();
        let Some(value) = value.strip_prefix(b"=") else { continue };
        let quoted = |b: &u8| matches!(b, b'"' | b'\'' | b' ');
        let start = value.iter().take_while(|b| quoted(b)).count();
        let end = value[start..].iter().take_while(|b| !quoted(b) && !matches!(b, b';' | b'/')).count();
        if let Some(encoding) = Encoding::for_label(&value[start..start + end]) {
            // A page that could be read so far is not in UTF-16, whatever it says.
            let is_wide = encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE;
            return Some(if is_wide { UTF_8 } else { encoding });
        }
    }
    None
}

/// HTML of which the extractor takes the text as a browser shows it. It knows few elements: blocks of other names would
/// be glued to the text beside them, and so would the names of options. Of a table or a list it drops what it expects
/// nowhere in there.
fn parted(html: &str) -> Cow<'_, str> {
    /// The element that stands for others: the extractor treats it as a browser does these, and parsers alike.
    const INSTEAD: [(&str, &str); 4] = [
        (
            "div",
            "address article aside caption center details dialog dl fieldset figcaption figure footer form header \
             hgroup legend main nav search section summary",
        ),
        ("ul", "dir menu ol"),
        ("tbody", "tfoot"),
        ("br", "hr"),
    ];
    /// Elements that stand within a line, a blank before them.
    const APART: [&str; 5] = ["option", "button", "label", "textarea", "select"];
    let bytes = html.as_bytes();
    let (mut parted, mut done) = (String::new(), 0);
    for at in memchr_iter(b'<', bytes) {
        let start = at + 1 + usize::from(bytes.get(at + 1) == Some(&b'/'));
        let end = start + tag_name(&bytes[start..]).len();
        let is = |known: &&str| html[start..end].eq_ignore_ascii_case(known);
        if let Some((instead, _)) = INSTEAD.iter().find(|(_, names)| names.split(' ').any(|name| is(&name))) {
            parted.push_str(&html[done..start]);
            parted.push_str(instead);
            done = end;
        } else if APART.iter().any(is) {
            parted.push_str(&html[done..at]);
            parted.push(' ');
            done = at;
        }
    }
    if parted.is_empty() { Cow::Borrowed(html) } else { Cow::Owned(parted + &html[done..]) }
}

/// The text of HTML, a line for each block.
fn rendered(html: &str) -> Result<String, html2text::Error> {
    /// A width at which no line is broken.
    const WIDTH: usize = 1 << 20;
    config::with_decorator(TrivialDecorator::new())
        .raw_mode(true)
        .no_table_borders()
        .no_link_wrapping()
        .allow_width_overflow()
        .string_from_read(html.as_bytes(), WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn room(cap: usize) -> DocumentRoom {
        DocumentRoom::new(cap, u64::MAX)
    }

    fn text(head: &str, body: &[u8]) -> Result<Option<(String, bool)>, CorruptionKind> {
        let content = [format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes(), body].concat();
        let read = text_of_response(&content, &room(1 << 20), false);
        read.map(|it| it.map(|it| (it.text.trim().to_owned(), it.repaired))).map_err(|(kind, _)| kind)
    }

    fn plain(text: &str) -> Result<Option<(String, bool)>, CorruptionKind> {
        Ok(Some((text.to_owned(), false)))
    }

    const HTML: &str = "Content-Type: text/html";

    #[test]
    fn markup_goes_and_words_stay() {
        let page = "<html><head><title>t</title><style>p {x}</style><script>if (a < b) alert('no')</script></head>\
                    <body><nav><a href='/x'>Home</a></nav><h1>One</h1><p>two <b>three</b>\nfour &amp; five</p>\
                    <table><tr><td>six</td><td>seven</td></tr></table><ul><li>eight</ul></body></html>";
        let (text, _) = text(HTML, page.as_bytes()).unwrap().unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(
            words,
            ["Home", "One", "two", "three", "four", "&", "five", "six", "seven", "eight"],
            "{text}"
        );
        assert!(text.lines().any(|line| line.trim() == "two three four & five"), "{text}");
    }

    #[test]
    fn what_is_no_page_is_none() {
        assert_eq!(text("Content-Type: image/png", b"x"), Ok(None));
        assert_eq!(text("X: y", b"\x89PNG"), Ok(None));
        assert_eq!(text("X: y", b" <!DOCTYPE HTML><p>a"), plain("a"));
        assert_eq!(text("content-type: TEXT/PLAIN; charset=utf-8", b"a <b> c"), plain("a <b> c"));
        let answer = |line: &str| {
            let content = format!("{line}\r\nContent-Type: text/html\r\n\r\na");
            text_of_response(content.as_bytes(), &room(9), false).map(|it| it.map(|it| it.text.into_owned()))
        };
        assert_eq!(answer("HTTP/1.1 404 Not Found"), Ok(None));
        assert_eq!(answer("HTTP/1.1 301"), Ok(None));
        assert!(answer("HTTP/2 200").unwrap().is_some());
        assert_eq!(answer("20240518015810"), Ok(None));
        assert_eq!(text_of_response(b"", &room(9), false), Ok(None));
        assert_eq!(
            text_of_response(b"HTTP/1.1 200 OK\r\n", &room(9), false).unwrap_err().0,
            CorruptionKind::Malformed
        );
    }

    #[test]
    fn bodies_are_unpacked_whatever_they_are_packed_in() {
        let page = b"<p>some words of a page";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(page).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(page).unwrap();
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        raw.write_all(page).unwrap();
        let mut br = Vec::new();
        brotli::BrotliCompress(&mut &page[..], &mut br, &brotli::enc::BrotliEncoderParams::default())
            .unwrap();
        let zstd = zstd::bulk::compress(page, 1).unwrap();
        let of = |coding: &str, body: &[u8]| text(&format!("{HTML}\r\nContent-Encoding: {coding}"), body);
        for (coding, body) in [
            ("gzip", &gzip[..]),
            ("X-GZip", &gzip),
            ("deflate", &zlib.finish().unwrap()),
            ("deflate", &raw.finish().unwrap()),
            ("br", &br),
            ("zstd", &zstd),
            ("identity", page),
            // It says so, and is not.
            ("gzip", page),
            ("zstd", page),
        ] {
            assert_eq!(of(coding, body), plain("some words of a page"), "{coding}");
        }
        let twice = zstd::bulk::compress(&gzip, 1).unwrap();
        assert_eq!(of("gzip, zstd", &twice), plain("some words of a page"));
        // What breaks off counts as far as it goes, whether the crawler says so or not.
        assert_eq!(of("gzip", &gzip[..gzip.len() - 8]), plain("some words of a page"));
        assert_eq!(of("gzip", &gzip[..10]), Err(CorruptionKind::Malformed));
        assert_eq!(of("br", b"\x0b\x02no brotli at all"), Err(CorruptionKind::Malformed));
        let bomb = zstd::bulk::compress(&vec![b'a'; 2 << 20], 1).unwrap();
        assert_eq!(of("zstd", &bomb), Err(CorruptionKind::TooLarge));
        // Neither a second member nor what a server puts behind the last one breaks it off.
        for (behind, words) in [(&b"<!-- x -->"[..], "page"), (&gzip, "page\n\nsome words of a page")] {
            let head = format!("HTTP/1.1 200 OK\r\n{HTML}\r\nContent-Encoding: gzip\r\n\r\n");
            let content = [head.as_bytes(), &gzip, behind].concat();
            let read = text_of_response(&content, &room(1 << 20), false).unwrap().unwrap();
            assert_eq!((read.text.trim().split_once("of a ").unwrap().1, read.truncated), (words, false));
        }
        let bombs = gzip.repeat(1 << 16);
        assert_eq!(of("gzip", &bombs), Err(CorruptionKind::TooLarge));
        // A coding without a mark is believed where what came of it looks like a page.
        let long = |start: &str| format!("{start}{}", (0..900).map(|n| format!(" {n}é")).collect::<String>());
        for (content_type, start) in [
            ("text/html", "<?xml version='1.0'?><p>"),
            ("text/html", "<!-- a --><div>"),
            ("text/plain", "so"),
        ] {
            let mut br = Vec::new();
            let page = long(start);
            brotli::BrotliCompress(&mut page.as_bytes(), &mut br, &Default::default()).unwrap();
            let head = format!("Content-Type: {content_type}\r\nContent-Encoding: br");
            let read = text(&head, &br[..br.len() - 9]).unwrap().unwrap().0;
            assert!(read.contains("0é 1é 2é"), "{start}: {read}");
        }
        // A character that was cut makes no other charset of the text before it.
        assert_eq!(of("zstd", "<p>caf\u{e9}".as_bytes()), plain("caf\u{e9}"));
        let cut = [HTML.as_bytes(), b"\r\n\r\n<p>caf\xc3\xa9 \xc3"].concat();
        let cut = [b"HTTP/1.1 200 OK\r\n", &cut[..]].concat();
        assert_eq!(text_of_response(&cut, &room(1 << 20), true).unwrap().unwrap().text.trim(), "caf\u{e9}");
        // What the crawler cut counts as far as it goes.
        let cut = [
            format!("HTTP/1.1 200 OK\r\n{HTML}\r\nContent-Encoding: gzip\r\n\r\n").as_bytes(),
            &gzip[..gzip.len() - 9],
        ]
        .concat();
        assert!(text_of_response(&cut, &room(1 << 20), true).unwrap().is_some());
    }

    #[test]
    fn chunks_are_put_together() {
        let of = |body: &str| text(&format!("{HTML}\r\nTransfer-Encoding: chunked"), body.as_bytes());
        assert_eq!(of("4\r\n<p>a\r\n3;x=y\r\n bc\r\n0\r\n\r\n"), plain("a bc"));
        assert_eq!(of("4\n<p>a\n3\n bc\n0\n\n"), plain("a bc"));
        // Some crawlers take the marks away and leave the header.
        assert_eq!(of("<p>a bc"), plain("a bc"));
        assert_eq!(of("4\r\n<p>a\r\n3\r\n b"), plain("a b"));
        for broken in ["4\r\n<p>a\r\nzz\r\n", "ffffffff\r\n<p>a", "4\r\n<p>a\r\n"] {
            assert_eq!(of(broken), plain("a"), "{broken:?}");
        }
        assert_eq!(of("8\r\n<p>"), Err(CorruptionKind::Malformed));
    }

    #[test]
    fn words_that_a_browser_shows_apart_are_apart() {
        let page = "<select><option>red apple<option>green pear</select><button>Buy</button><BUTTON>Sell</BUTTON>\
                    <label>Name</label><textarea>x</textarea>";
        let (text, _) = text(HTML, page.as_bytes()).unwrap().unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words, ["red", "apple", "green", "pear", "Buy", "Sell", "Name", "x"], "{text}");
        assert!(matches!(parted("<p>a<b>c</b>"), Cow::Borrowed(_)));
        for (page, lines) in [
            ("<header>Site</header><MAIN class=x>Text<footer>End", &["Site", "Text", "End"][..]),
            ("one<hr>two<hr/>three", &["one", "two", "three"]),
            (
                "<figure>a<figcaption>b</figcaption></figure>c<address>d</address>e",
                &["a", "b", "c", "d", "e"],
            ),
            ("<fieldset><legend>a</legend>b</fieldset><details><summary>c</summary>d", &["a", "b", "c", "d"]),
            // Of tables and lists nothing is lost, wherever it stands.
            ("<table><caption>top</caption><tr><td>in<tfoot><tr><td>foot</table>", &["top", "in", "foot"]),
            ("<dl><div><dt>term<dd>what it is</div><dt>b</dl>", &["term", "what it is", "b"]),
            (
                "<ol><li>one<ol><li>within</ol></li><ol><li>between</ol>text</ol>",
                &["one", "within", "between", "text"],
            ),
        ] {
            let (text, _) = self::text(HTML, page.as_bytes()).unwrap().unwrap();
            let read: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            assert_eq!(read, lines, "{page}");
        }
    }

    #[test]
    fn resources_are_pages_if_their_type_is() {
        let of = |content_type: &str, content: &[u8]| {
            let text = text_of_resource(content, content_type, &room(1 << 20));
            text.unwrap().map(|text| text.text.trim().to_owned())
        };
        assert_eq!(of("text/plain; charset=koi8-r", b"\xd0\xd2\xc9").as_deref(), Some("при"));
        assert_eq!(of("Text/HTML", b"<p>a").as_deref(), Some("a"));
        assert_eq!(of("", b"<html><p>a").as_deref(), Some("a"));
        assert_eq!((of("", b"a"), of("application/json", b"{}"), of("image/png", b"x")), (None, None, None));
    }

    #[test]
    fn charsets_are_found_in_their_order() {
        let html = |charset: &str, body: &[u8]| text(&format!("{HTML}{charset}"), body);
        assert_eq!(html("; charset=\"Shift_JIS\"", b"<p>\x93\xfa\x96{"), plain("日本"));
        assert_eq!(html("", b"<meta charset=koi8-r><p>\xd0\xd2\xc9"), plain("при"));
        let long = b"<META http-equiv='Content-Type' content='text/html; charset=ISO-8859-2'><p>\xb1";
        assert_eq!(html("", long), plain("ą"));
        assert_eq!(html("", "<p>ä".as_bytes()), plain("ä"));
        assert_eq!(html("", b"<p>\xe4"), plain("ä"));
        assert_eq!(html("; charset=koi8-r", b"\xef\xbb\xbf<p>\xc3\xa4"), plain("ä"));
        assert_eq!(html("; charset=utf-8", b"<p>a\xff"), Ok(Some(("a\u{fffd}".to_owned(), true))));
        assert_eq!(html("; charset=no-such", b"<p>a"), plain("a"));
    }

    #[test]
    fn no_bytes_make_it_fail() {
        use crate::hash::SplitMix64;
        let mut rng = SplitMix64::new(7);
        let pieces: [&[u8]; 14] = [
            b"HTTP/1.1 200 OK\r\n",
            b"Content-Type: text/html\r\n",
            b"\r\n\r\n",
            b"Content-Encoding: gzip, br\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"5\r\n",
            b"<table><tr><td colspan=999999999>",
            b"<p>",
            b"</table>",
            b"<meta charset=",
            b"\x1f\x8b\x08",
            b"&#x110000;&",
            b"<svg><math><select>",
            b"\xff\xfe",
        ];
        for _ in 0..3_000 {
            let content: Vec<u8> =
                (0..rng.below(40)).flat_map(|_| pieces[rng.below(14) as usize].to_vec()).collect();
            let _ = text_of_response(&content, &room(1 << 16), rng.below(2) == 0);
        }
        // Deep nesting is no matter of the stack, and beyond reason none of time.
        let html = |body: &[u8]| text(HTML, body);
        assert!(html(&b"<div><b>".repeat(2_000)).is_ok());
        assert_eq!(html(&b"<div><b>".repeat(5_000)), Err(CorruptionKind::Malformed));
        assert!(html(&b"<li>a<p>b<br>".repeat(9_000)).is_ok());
        assert!(html(&b"<div>a</div>".repeat(9_000)).is_ok());
        let tag = |attributes: usize| [b"<p".to_vec(), b" a=1".repeat(attributes), b">x".to_vec()].concat();
        assert!(html(&tag(9_000)).is_ok());
        assert_eq!(html(&tag(10_001)), Err(CorruptionKind::Malformed));
    }

    #[test]
    fn a_look_at_the_tags_tells_what_a_page_costs() {
        let of = |html: &str| {
            let Markup { tags, depth, .. } = Markup::of(html.as_bytes());
            (tags, depth)
        };
        assert_eq!(of("no tags, 3 > 2"), (0, 0));
        assert_eq!(of("<div><b>x</b></div><i>y"), (5, 2));
        assert_eq!(of("<ul><LI>a<li>b<Br/></ul></ul><p>"), (7, 1));
        assert_eq!(of("<script>for (i = 0; i<n; i++) if (a<b) {}</SCRIPT><b>"), (2, 1));
        assert_eq!(of("<!-- <div><div> --><b><style>a<b"), (3, 1));
        assert_eq!(of("a < b <c"), (2, 1));
    }

    #[test]
    fn a_page_takes_no_more_than_there_is_room_for() {
        let page = b"<p>a</p>".repeat(1_000);
        let content = [b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", &page[..]].concat();
        let read = |most: u64| {
            let room = DocumentRoom::new(1 << 20, most);
            let read = text_of_response(&content, &room, false).map(|it| it.map(|it| it.beside));
            (read.map_err(|(kind, _)| kind), room.exceeded())
        };
        let (markup, exceeded) = read(1 << 30);
        assert_eq!((markup, exceeded), (Ok(Some(2_000 * TAG + 3 * 8_000)), None));
        let (refused, exceeded) = read(100_000);
        assert_eq!(refused, Err(CorruptionKind::TooLarge));
        assert_eq!(exceeded, Some((2_000 * TAG + 6 * 8_000) / IN_MEMORY));
    }
}
