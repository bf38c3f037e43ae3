//! The header of a gzip member (RFC 1952, 2.3), by which files and members are known.

/// The first bytes of a gzip member: two of magic, and the only method there is (RFC 1952, 2.3.1).
pub(crate) const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// The longest gzip header that is believed, whichever decoder reads the member: an extra field, a name and a
/// comment. Their lengths have no bound of their own.
pub(crate) const HEADER_CAP: usize = 1 << 20;

/// The header that bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GzipHeader {
    /// A header of so many bytes.
    Length(usize),
    /// The start of one, perhaps: more bytes are needed.
    Short,
    /// None, or one above [`HEADER_CAP`].
    Bad,
}

/// Looks for a gzip header at the start of bytes.
pub(crate) fn header(bytes: &[u8]) -> GzipHeader {
    if !bytes.starts_with(&GZIP_MAGIC[..bytes.len().min(3)]) {
        return GzipHeader::Bad;
    }
    let Some(&flags) = bytes.get(3) else { return GzipHeader::Short };
    if flags & 0xe0 != 0 {
        return GzipHeader::Bad;
    }
    // Where it ends, if that can be seen.
    let end = || {
        let mut at = 10;
        if flags & 4 != 0 {
            let extra = bytes.get(at..at + 2)?;
            at += 2 + usize::from(u16::from_le_bytes([extra[0], extra[1]]));
        }
        for flag in [8, 16] {
            if flags & flag != 0 {
                at += memchr::memchr(0, bytes.get(at..)?)? + 1;
            }
        }
        Some(if flags & 2 != 0 { at + 2 } else { at })
    };
    match end() {
        None if bytes.len() > HEADER_CAP => GzipHeader::Bad,
        Some(end) if end > HEADER_CAP => GzipHeader::Bad,
        Some(end) if end <= bytes.len() => GzipHeader::Length(end),
        _ => GzipHeader::Short,
    }
}

/// The bytes behind the gzip header that these begin with; `None` without a whole header.
pub(crate) fn behind_header(bytes: &[u8]) -> Option<&[u8]> {
    if let GzipHeader::Length(n) = header(bytes) { bytes.get(n..) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let plain = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        assert_eq!(header(&plain), GzipHeader::Length(10));
        for n in 0..10 {
            assert_eq!(header(&plain[..n]), GzipHeader::Short, "{n}");
        }
        // Extra field of 3 bytes, a name, a comment, the header's own checksum.
        let mut full = plain.to_vec();
        full[3] = 4 | 8 | 16 | 2;
        full.extend(b"\x03\0abcname\0comment\0xy");
        assert_eq!(header(&full), GzipHeader::Length(full.len()));
        for n in 0..full.len() {
            assert_eq!(header(&full[..n]), GzipHeader::Short, "{n}");
        }
        let mut reserved = plain;
        reserved[3] = 0x20;
        assert_eq!(header(&reserved), GzipHeader::Bad);
        assert_eq!(header(b"\x1f\x8b\x07"), GzipHeader::Bad);
        let mut endless = plain.to_vec();
        endless[3] = 8;
        endless.resize(HEADER_CAP + 1, b'x');
        assert_eq!(header(&endless), GzipHeader::Bad);
    }
}
