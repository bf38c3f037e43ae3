//! The type of a file: the format of its records and its compression, by its first bytes and its name.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::gzip_header::{GZIP_MAGIC, behind_header};
use super::zst::{LONGEST_WINDOW, dictionary_of, starts_frame};

/// The first and the last bytes of a Parquet file.
pub(crate) const PARQUET_MAGIC: [u8; 4] = *b"PAR1";
/// The first and the last bytes of an Arrow file.
pub(crate) const ARROW_MAGIC: &[u8] = b"ARROW1";

/// The format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// WARC records, WET or not. Documents are the `conversion` records, and what servers sent, as far as it is read.
    Wet,
    /// One JSON object a line.
    Jsonl,
    /// Records of values, the first of which names the columns (RFC 4180).
    Csv,
    /// Rows of a Parquet file.
    Parquet,
    /// Rows of an Arrow file (Feather) or stream (a shard of a Hugging Face data set).
    Arrow,
}

impl Format {
    /// True if rows are stored column by column. Records of other formats follow one another in a stream of bytes.
    pub(crate) fn is_columnar(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }

    /// True if decoded bytes start like a file, or a member on its own, of this format.
    pub(crate) fn looks_like_start(self, bytes: &[u8]) -> bool {
        let bytes = skip_blank(bytes);
        match self {
            Self::Wet => bytes.starts_with(b"WARC/"),
            Self::Jsonl => bytes.starts_with(b"{"),
            // Whatever a table starts with may be a value.
            Self::Csv | Self::Parquet | Self::Arrow => false,
        }
    }

    /// The format that decoded bytes start like.
    fn by_start(bytes: &[u8]) -> Option<Self> {
        [Self::Wet, Self::Jsonl].into_iter().find(|format| format.looks_like_start(bytes))
    }
}

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// As it is.
    None,
    /// Any number of gzip members (RFC 1952).
    Gzip,
    /// Any number of Zstandard frames (RFC 8878).
    Zstd,
}

impl Compression {
    /// The compression by the first bytes of a file.
    pub fn by_magic(head: &[u8]) -> Self {
        // A corrupt third byte leaves a gzip file a gzip file.
        match head {
            _ if head.starts_with(&GZIP_MAGIC[..2]) => Self::Gzip,
            _ if starts_frame(head) => Self::Zstd,
            _ => Self::None,
        }
    }

    /// True for gzip if `head`, the first bytes of a file, holds two whole members, or ends with the first one. A
    /// reader of such a file is taken to need less memory.
    pub fn has_short_members(self, head: &[u8]) -> bool {
        let (mut ended, mut is_cut) = (0, self != Self::Gzip);
        let rest = each_member(head, |member| {
            is_cut |= std::io::copy(member, &mut std::io::sink()).is_err();
            ended += 1;
            !is_cut && ended < 2
        });
        !is_cut && (ended > 1 || ended == 1 && rest.is_empty())
    }

    /// The decoded start of a compressed file, by its first bytes: 4 KiB, or as much as decodes. Empty if the file is
    /// not compressed.
    pub fn decoded_head(self, head: &[u8]) -> Vec<u8> {
        const LENGTH: usize = 4 << 10;
        let mut start = Vec::with_capacity(LENGTH);
        // What was read before an error stays.
        let mut pull = |reader: &mut dyn Read| {
            let left = (LENGTH - start.len()) as u64;
            drop(reader.take(left).read_to_end(&mut start));
            true
        };
        match self {
            Self::None => {}
            Self::Gzip => _ = each_member(head, pull),
            Self::Zstd => {
                let of_head = |length| Ok(head[..head.len().min(length as usize)].to_vec());
                let dictionary = dictionary_of(of_head).unwrap_or_default();
                if let Ok(mut decoder) = zstd::stream::read::Decoder::with_dictionary(head, &dictionary)
                    && decoder.window_log_max(LONGEST_WINDOW).is_ok()
                {
                    pull(&mut decoder);
                }
            }
        }
        start
    }
}

/// Goes through the members that the head of a gzip file begins with, as long as `each` wants more; the bytes behind
/// the last one.
fn each_member(head: &[u8], mut each: impl FnMut(&mut dyn Read) -> bool) -> &[u8] {
    let (mut rest, mut goes_on) = (head, true);
    // Headers are read as the reader of members does: flate2 refuses some that it takes.
    while let Some(deflated) = behind_header(rest).filter(|_| goes_on) {
        let mut decoder = flate2::bufread::DeflateDecoder::new(deflated);
        goes_on = each(&mut decoder);
        // Checksum and length stand behind it.
        rest = decoder.into_inner().get(8..).unwrap_or_default();
    }
    rest
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileType {
    /// The format; `None` if neither content nor name is of one that is read.
    pub format: Option<Format>,
    /// The compression; none for Parquet and Arrow, which compress their parts.
    pub compression: Compression,
    /// True if the format is certain: the caller wants it, the first bytes show it, or it is Parquet or Arrow. No
    /// [`foreign`] format needs to be looked for then.
    pub is_read: bool,
}

impl FileType {
    /// The type of a file by its first bytes and its name. `wanted` is its format, if a user named it.
    pub fn of(name: &Path, head: &[u8], wanted: Option<Format>) -> Self {
        let (named, packed) = by_name(name);
        let (magic, start) = (Compression::by_magic(head), Format::by_start(head));
        // One whose first bytes are corrupt is known by its name; all that is read of it stands elsewhere.
        let is_only_named =
            packed == Compression::None && !head.is_empty() && start.is_none() && magic == Compression::None;
        let columnar = match head {
            _ if head.starts_with(&PARQUET_MAGIC) => Some(Format::Parquet),
            _ if looks_like_arrow(head) => Some(Format::Arrow),
            _ => named.filter(|format| format.is_columnar() && is_only_named),
        };
        let columnar = columnar.filter(|&format| wanted.is_none_or(|wanted| wanted == format));
        if columnar.is_some() {
            return Self { format: columnar, compression: Compression::None, is_read: true };
        }
        // A stream of records that is called Parquet is none.
        let named = named.filter(|format| !format.is_columnar());
        // Magic bytes first; a compressed file whose very first bytes are corrupt is known by its name.
        let compression = match magic {
            Compression::None if start.is_some() || head.is_empty() => Compression::None,
            Compression::None => packed,
            magic => magic,
        };
        let start = match compression {
            Compression::None => start,
            packed => Format::by_start(&packed.decoded_head(head)),
        };
        let format = wanted.or(start).or(named);
        let format = format.or(head.is_empty().then(|| guess(name, wanted)));
        Self { format, compression, is_read: wanted.is_some() || start.is_some() }
    }
}

/// The format of a file whose content says nothing: `wanted` if a user named it, or else by its name, or else WET.
pub(crate) fn guess(name: &Path, wanted: Option<Format>) -> Format {
    wanted.or(by_name(name).0).unwrap_or(Format::Wet)
}

/// The format of a file, if it is one that is not read, with advice, by its first bytes and what they decode to. If its
/// name is of a format that is read (`is_named`), ARC, HTML and JSON arrays do not count, since records may follow.
pub(crate) fn foreign(head: &[u8], compression: Compression, is_named: bool) -> Option<&'static str> {
    let decoded = compression.decoded_head(head);
    let start = if compression == Compression::None { head } else { &decoded };
    let is_tar = start.get(257..262) == Some(b"ustar");
    Some(match start {
        _ if is_tar => "a tar archive; unpack it and name the folder",
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => {
            "compressed by bzip2; bunzip2 decompresses it"
        }
        [0x04, 0x22, 0x4d, 0x18, ..] => "compressed by lz4; unlz4 decompresses it",
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "compressed by xz; unxz decompresses it",
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => "a 7z archive; unpack it and name the folder",
        [b'P', b'K', 3, 4, ..] => {
            "a ZIP archive, as WACZ is; unpack it and name the folder (of WACZ, archive)"
        }
        _ if looks_like_arrow(start) || start.starts_with(&PARQUET_MAGIC) => {
            "Parquet or Arrow, compressed as a whole; decompress it"
        }
        [b'O', b'R', b'C', ..] => "ORC; convert it to Parquet",
        [b'O', b'b', b'j', 1, ..] => "Avro; convert it to Parquet or to lines of JSON",
        [b'%', b'P', b'D', b'F', b'-', ..] => "PDF; take out its text first",
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
            "text in UTF-32; iconv -f UTF-32 -t UTF-8 converts it"
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            "compressed text in UTF-16; decompress it, or convert it to UTF-8"
        }
        _ if start.starts_with(b"SQLite format 3") => "a SQLite database; export its table as CSV",
        _ if is_named => return None,
        _ if start.starts_with(b"filedesc:") => {
            "ARC, the format before WARC; warcio recompress makes WARC of it"
        }
        _ if looks_like_html(start) => "HTML; simflip gather makes lines of JSON of such files",
        _ if skip_blank(start).starts_with(b"[") => {
            "a JSON array, and one object a line is read; jq -c '.[]' makes such lines"
        }
        _ => return None,
    })
}

/// True if bytes begin as an Arrow file does, or as an Arrow stream: with a mark and the length of a schema.
fn looks_like_arrow(head: &[u8]) -> bool {
    head.starts_with(ARROW_MAGIC) || matches!(head, [0xff, 0xff, 0xff, 0xff, _, _, _, 0, ..])
}

/// The decoder for a pair of bytes of UTF-16, if a file begins with its byte-order mark; `None` for UTF-32.
pub(crate) fn utf16_of(head: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match head {
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// Drops what may stand before the first record: a byte-order mark, blanks, zeros.
pub(crate) fn skip_blank(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let n = bytes.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0)).count();
    &bytes[n..]
}

/// True if bytes begin as HTML does.
pub(crate) fn looks_like_html(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    let begins = |tag: &str| start.get(..tag.len()).is_some_and(|it| it.eq_ignore_ascii_case(tag.as_bytes()));
    ["<!doctype html", "<html", "<head", "<body"].into_iter().any(begins)
}

/// A file's name without the endings of formats and compressions: `a` of `a.warc.wet.gz`.
pub(crate) fn stem(name: &str) -> &str {
    const ENDINGS: [&str; 14] = [
        ".gz", ".zst", ".jsonl", ".ndjson", ".jl", ".json", ".parquet", ".arrow", ".feather", ".txt", ".wet",
        ".warc", ".csv", ".tsv",
    ];
    let mut stem = name;
    // Of `a.warc.wet.gz` three endings go, and of `.gz` none: something must stay.
    while let Some(shorter) = ENDINGS.iter().find_map(|ending| {
        let at = stem.len().checked_sub(ending.len()).filter(|&at| at > 0 && stem.is_char_boundary(at))?;
        stem[at..].eq_ignore_ascii_case(ending).then(|| &stem[..at])
    }) {
        stem = shorter;
    }
    stem
}

/// True if a file's name ends so, in any case of letters, before the ending of a compression.
pub(crate) fn is_called(path: &Path, ending: &str) -> bool {
    split_name(path).0.ends_with(ending)
}

/// Endings of files that are a text each.
pub(crate) const TEXT: [&str; 4] = [".txt", ".text", ".md", ".markdown"];
/// Endings of files that are a document of HTML each.
pub(crate) const HTML: [&str; 3] = [".html", ".htm", ".xhtml"];

/// True if a file's name has one of these endings, in any case of letters.
pub(crate) fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    endings.iter().any(|ending| name.ends_with(ending))
}

/// True if a file is a document by its name: a text, Markdown or HTML.
pub fn is_document(path: &Path) -> bool {
    ends_with(path, &TEXT) || ends_with(path, &HTML)
}

/// A file's name in small letters without the ending of a compression, and that compression.
pub(crate) fn split_name(path: &Path) -> (String, Compression) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let endings = [(".gz", Compression::Gzip), (".zst", Compression::Zstd)];
    let packed = endings.iter().find_map(|&(ending, packed)| Some((name.strip_suffix(ending)?, packed)));
    let (name, packed) = packed.unwrap_or((&*name, Compression::None));
    (name.to_owned(), packed)
}

/// The type of a file by its name: its format, if the name tells it, and its compression. With a compression the name
/// of Parquet or Arrow tells no format.
pub(crate) fn by_name(path: &Path) -> (Option<Format>, Compression) {
    let (stem, compression) = split_name(path);
    let endings = [
        (Format::Wet, &[".wet", ".warc", ".warc.txt"][..]),
        (Format::Jsonl, &[".jsonl", ".ndjson", ".jl"]),
        (Format::Csv, &[".csv", ".tsv"]),
        (Format::Parquet, &[".parquet"]),
        (Format::Arrow, &[".arrow", ".feather"]),
    ];
    let named = endings.into_iter().find(|(_, endings)| endings.iter().any(|ending| stem.ends_with(ending)));
    let format = named.map(|(format, _)| format);
    (format.filter(|format| !format.is_columnar() || compression == Compression::None), compression)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_not_read_is_named() {
        let foreign_name =
            |bytes: &[u8]| foreign(bytes, Compression::by_magic(bytes), false).unwrap_or_default();
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&tar).unwrap();
        for (bytes, name) in [
            (&b"BZh91AY&SY"[..], "bzip2"),
            (b"\xfd7zXZ\0", "xz"),
            (b"PK\x03\x04", "WACZ"),
            (&tar, "tar"),
            (&packed.finish().unwrap(), "tar"),
            (b"ARROW1\0\0", "Arrow"),
            (b"PAR1", "Parquet"),
            (b"\x04\x22\x4d\x18", "lz4"),
            (b" \n[ {\"text\": 1}]", "JSON array"),
            (b"filedesc://a.arc 0.0.0.0", "ARC"),
            (b"<!DOCTYPE html>", "gather"),
            (b"\xff\xfe\0\0", "UTF-32"),
        ] {
            assert!(foreign_name(bytes).contains(name), "{name}: {}", foreign_name(bytes));
        }
        assert_eq!((foreign_name(b"{}"), foreign_name(b"hello"), foreign_name(b"")), ("", "", ""));
        assert_eq!(foreign(b"<html>WARC/1.0", Compression::None, true), None);
        assert_eq!(utf16_of(b"\xfe\xff").map(|of| of([0, b'a'])), Some(u16::from(b'a')));
        assert!(utf16_of(b"\xff\xfe\0\0").is_none() && utf16_of(b"{}").is_none());
    }

    #[test]
    fn short_members_are_known_by_the_head() {
        let gzip = |bytes: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let long: Vec<u8> = (0..100_000u32).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        let (long, short) = (gzip(&long), gzip(b"a document"));
        let is_short = |members: &[&[u8]], length: usize| {
            let all = members.concat();
            Compression::Gzip.has_short_members(&all[..all.len().min(length)])
        };
        assert!(is_short(&[&short], 1000) && is_short(&[&short, &short, &long], 1000));
        // One that goes on behind the head, if only one stands before it.
        assert!(!is_short(&[&long], 1000) && !is_short(&[&short, &long], 1000));
        assert!(is_short(&[&long], usize::MAX) && is_short(&[&short, &long], usize::MAX));
        assert!(!is_short(&[&short[..12]], 1000) && !is_short(&[], 1000));
        assert!(!Compression::None.has_short_members(&short));
    }
}
