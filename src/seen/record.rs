//! The content of a log or of a snapshot: records of changes, each in a frame with its length and checksum.
//!
//! ```text
//! 2 bytes   f1 1d
//! u32       length of the record in bytes
//! u32       CRC-32 of the length and the record
//! record    kind in a byte, then its fields
//! ```

use super::remembered::{Answer, RememberedAnswer, Standing};
use super::{AnswerKind, Reply};
use crate::settings::Sketches;
use crate::simhash::quantised::QuantisedWeights;
use crate::sketch::{Facts, Hashed, SketchValue, TwoSketches};
use simflip_core::index::Rows;
use std::sync::Arc;

/// The first bytes of a frame, by which the next one can be found behind a corrupt one.
pub(super) const MARK: [u8; 2] = [0xf1, 0x1d];

/// Bytes of a frame in front of its record.
pub(super) const HEAD: usize = 10;

/// The longest record that is believed, in bytes: a sketch of the largest size, and names.
pub(super) const LONGEST: usize = 1 << 24;

/// A change of an index. A `digest` is that of a page's text, and `seen` a time in milliseconds since 1970. `asked` is
/// the answer that is remembered with the change, if the page was asked about. An answer is *in doubt* if it may not
/// have arrived.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record {
    /// A page is stored. It has no sketch (`value`) if it has too few features.
    Page {
        facts: Facts,
        value: Option<SketchValue>,
        name: Arc<str>,
        seen: u64,
        asked: Option<RememberedAnswer>,
    },
    /// A stored page was seen again.
    Again { digest: u128, seen: u64, asked: Option<RememberedAnswer> },
    /// A page is removed.
    Removed { digest: u128 },
    /// An answer is remembered under its key, with its standing.
    Request(RememberedAnswer),
    /// The answer of this key, which may not have arrived, is given again. A removal of pages writes it too, with
    /// [`Record::Delivered`] behind it, by which the answer is forgotten.
    Settled { key: Arc<str> },
    /// The answers to all pages before have arrived.
    Delivered,
    /// The answers to all pages before went out.
    Sent,
    /// The index was closed: all answers before that went out have arrived.
    Closed,
    /// The index was opened, and had not been closed: the answers that went out are in doubt.
    NotClosed,
    /// Of the records of pages since answers last went out, the first `kept` stay. The others, `taken` at the most,
    /// are taken back.
    Withdrawn { kept: u32, taken: u32 },
    /// A part of the table of this number, made by [`table_part`](simflip_core::index::table_part). A page's place in
    /// it is the number of page records before it in the snapshot.
    Table { table: u32, bytes: Vec<u8> },
    /// The end of a snapshot of so many pages. `tables` has the byte at which the first part of each table begins, and
    /// that at which the last table ends. It is empty where there are no tables.
    End { pages: u64, tables: Vec<u64> },
}

/// Appends fields of a record.
struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u32).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    fn asked(&mut self, asked: Option<&RememberedAnswer>) {
        let Some(RememberedAnswer { key, answer: Answer { digest, reply, standing } }) = asked else {
            return self.bytes(&[0]);
        };
        self.bytes(&[match standing {
            Standing::Given(_) => 1,
            Standing::Named => 2,
            Standing::InDoubt => 3,
        }]);
        self.text(key);
        self.bytes(&digest.to_le_bytes());
        let kind = AnswerKind::ALL.iter().position(|kind| *kind == reply.kind).unwrap_or_default();
        self.bytes(&[kind as u8, u8::from(reply.more)]);
        self.bytes(&reply.near.to_le_bytes());
        self.bytes(&reply.distance.to_le_bytes());
        self.bytes(&reply.similarity.to_le_bytes());
        self.bytes(&reply.seen.to_le_bytes());
        match &reply.earlier {
            None => self.bytes(&[0]),
            Some(earlier) => {
                self.bytes(&[1]);
                self.text(earlier);
            }
        }
    }

    fn value(&mut self, value: Option<&SketchValue>) {
        match value {
            Some(SketchValue::Both(TwoSketches { hash, bits, keys, .. })) => {
                self.bytes(&[1]);
                self.bytes(&hash.to_le_bytes());
                bits.iter().for_each(|word| self.bytes(&word.to_le_bytes()));
                keys.iter().for_each(|key| self.bytes(&key.to_le_bytes()));
            }
            Some(SketchValue::SimHash(Hashed { hash, weights })) => {
                self.bytes(&[2]);
                self.bytes(&hash.to_le_bytes());
                self.bytes(&weights.bytes().map(i8::cast_unsigned));
            }
            _ => self.bytes(&[0]),
        }
    }
}

/// Reads fields; none where there are too few bytes, or they mean nothing.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    fn text(&mut self) -> Option<Arc<str>> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).ok().map(Arc::from)
    }

    /// Reads a remembered answer, `Some(None)` where the record has none. `None` where the bytes mean nothing.
    fn asked(&mut self) -> Option<Option<RememberedAnswer>> {
        let standing = match self.byte()? {
            0 => return Some(None),
            1 => Standing::Given(0),
            2 => Standing::Named,
            3 => Standing::InDoubt,
            _ => return None,
        };
        let (key, digest) = (self.text()?, self.u128()?);
        let kind = *AnswerKind::ALL.get(usize::from(self.byte()?))?;
        let more = self.byte()? == 1;
        let (near, distance) = (self.u32()?, self.u32()?);
        let (similarity, seen) = (f32::from_le_bytes(self.array()?), self.u64()?);
        let earlier = match self.byte()? {
            0 => None,
            _ => Some(self.text()?),
        };
        let reply = Reply { kind, earlier, seen, distance, similarity, near, more, again: false };
        Some(Some(RememberedAnswer { key, answer: Answer { digest, reply, standing } }))
    }

    /// The number of a table, and a part of it.
    fn part(&mut self) -> Option<(u32, &'a [u8])> {
        let (table, length) = (self.u32()?, self.u32()?);
        Some((table, self.take(length as usize)?))
    }

    fn page(&mut self, sketches: Sketches) -> Option<RecordedPage<'a>> {
        let (digest, features, seen) = (self.u128()?, self.u32()?, self.u64()?);
        let length = self.u32()? as usize;
        let name = std::str::from_utf8(self.take(length)?).ok()?;
        let value = match (self.byte()?, sketches) {
            (0, _) => RecordedSketch::None,
            (1, Sketches::Both { bits, banding }) => RecordedSketch::Both {
                hash: self.u64()?,
                bits: self.take(bits / 8)?.as_chunks().0,
                keys: self.take(banding.bands.checked_mul(4)?)?.as_chunks().0,
            },
            (2, Sketches::SimHash { .. }) => {
                let hash = self.u64()?;
                let weights = self.array::<64>()?.map(u8::cast_signed);
                RecordedSketch::SimHash(Hashed { hash, weights: QuantisedWeights::from_bytes(weights) })
            }
            _ => return None,
        };
        Some(RecordedPage { facts: Facts { digest, features, text_bytes: 0 }, seen, name, value })
    }
}

/// A page as it stands in its record, with the bytes of that.
struct RecordedPage<'a> {
    facts: Facts,
    seen: u64,
    name: &'a str,
    value: RecordedSketch<'a>,
}

enum RecordedSketch<'a> {
    None,
    Both { hash: u64, bits: &'a [[u8; 8]], keys: &'a [[u8; 4]] },
    SimHash(Hashed),
}

impl RecordedSketch<'_> {
    fn owned(&self) -> Option<SketchValue> {
        match *self {
            Self::None => None,
            Self::Both { hash, bits, keys } => Some(SketchValue::Both(TwoSketches {
                hash,
                bits: bits.iter().map(|&word| u64::from_le_bytes(word)).collect(),
                keys: keys.iter().map(|&key| u32::from_le_bytes(key)).collect(),
                extra: Vec::new(),
            })),
            Self::SimHash(hashed) => Some(SketchValue::SimHash(hashed)),
        }
    }
}

/// Puts a page into a row by the bytes of its record, and gives the hash of its name and the time at which it was last
/// seen. `None` for another record, for one with a remembered answer, and for another sketch than `sketches` says.
pub(super) fn put_page(
    bytes: &[u8],
    sketches: Sketches,
    rows: &mut Rows<'_>,
    row: usize,
) -> Option<(u32, u64)> {
    let mut fields = FieldReader(bytes);
    if fields.byte()? != 1 {
        return None;
    }
    let RecordedPage { facts, seen, name, value } = fields.page(sketches)?;
    if fields.0 != [0] {
        return None;
    }
    match value {
        RecordedSketch::None => rows.put_bare(row, &facts)?,
        RecordedSketch::Both { hash, bits, keys } => {
            let bits = bits.iter().map(|&word| u64::from_le_bytes(word));
            let keys = keys.iter().map(|&key| u32::from_le_bytes(key));
            rows.put_both(row, &facts, hash, bits, keys)?;
        }
        RecordedSketch::SimHash(hashed) => rows.put_hashed(row, &facts, hashed)?,
    }
    Some((super::hash_of(name), seen))
}

/// The number of the table that a record has a part of, and the part; `None` for another record.
pub(super) fn part_in(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut fields = FieldReader(bytes);
    let part = (fields.byte()? == 9).then(|| fields.part())?;
    part.filter(|_| fields.0.is_empty())
}

/// Appends a [`Record::Page`] of these fields, in its frame.
pub(super) fn frame_page(
    facts: &Facts,
    value: Option<&SketchValue>,
    name: &str,
    seen: u64,
    asked: Option<&RememberedAnswer>,
    out: &mut Vec<u8>,
) {
    framed(out, |out| {
        let mut out = Out(out);
        out.bytes(&[1]);
        out.bytes(&facts.digest.to_le_bytes());
        out.bytes(&facts.features.to_le_bytes());
        out.bytes(&seen.to_le_bytes());
        out.text(name);
        out.value(value);
        out.asked(asked);
    });
}

impl Record {
    /// Appends the record in its frame.
    pub(super) fn frame(&self, out: &mut Vec<u8>) {
        match self {
            Self::Page { facts, value, name, seen, asked } => {
                frame_page(facts, value.as_ref(), name, *seen, asked.as_ref(), out);
            }
            others => framed(out, |out| others.write(&mut Out(out))),
        }
    }

    /// Writes a record that is no page.
    fn write(&self, out: &mut Out<'_>) {
        match self {
            Self::Page { .. } => {}
            Self::Again { digest, seen, asked } => {
                out.bytes(&[2]);
                out.bytes(&digest.to_le_bytes());
                out.bytes(&seen.to_le_bytes());
                out.asked(asked.as_ref());
            }
            Self::Removed { digest } => {
                out.bytes(&[3]);
                out.bytes(&digest.to_le_bytes());
            }
            Self::Request(asked) => {
                out.bytes(&[4]);
                out.asked(Some(asked));
            }
            Self::Settled { key } => {
                out.bytes(&[5]);
                out.text(key);
            }
            Self::Delivered => out.bytes(&[6]),
            Self::Sent => out.bytes(&[7]),
            Self::Closed => out.bytes(&[8]),
            Self::NotClosed => out.bytes(&[12]),
            Self::Withdrawn { kept, taken } => {
                out.bytes(&[11]);
                out.bytes(&kept.to_le_bytes());
                out.bytes(&taken.to_le_bytes());
            }
            Self::End { pages, tables } => {
                out.bytes(&[10]);
                out.bytes(&pages.to_le_bytes());
                out.bytes(&(tables.len() as u32).to_le_bytes());
                tables.iter().for_each(|offset| out.bytes(&offset.to_le_bytes()));
            }
            Self::Table { table, bytes } => {
                out.bytes(&[9]);
                out.bytes(&table.to_le_bytes());
                out.bytes(&(bytes.len() as u32).to_le_bytes());
                out.bytes(bytes);
            }
        }
    }

    /// Reads a record, without its frame, of an index with such sketches; `None` if the bytes are not one whole record.
    pub(super) fn read(bytes: &[u8], sketches: Sketches) -> Option<Self> {
        let mut fields = FieldReader(bytes);
        let record = match fields.byte()? {
            1 => {
                let RecordedPage { facts, seen, name, value } = fields.page(sketches)?;
                let (name, value) = (Arc::from(name), value.owned());
                Self::Page { facts, value, name, seen, asked: fields.asked()? }
            }
            2 => Self::Again { digest: fields.u128()?, seen: fields.u64()?, asked: fields.asked()? },
            3 => Self::Removed { digest: fields.u128()? },
            4 => Self::Request(fields.asked()??),
            5 => Self::Settled { key: fields.text()? },
            6 => Self::Delivered,
            7 => Self::Sent,
            8 => Self::Closed,
            12 => Self::NotClosed,
            9 => {
                let (table, part) = fields.part()?;
                Self::Table { table, bytes: part.to_vec() }
            }
            10 => {
                let (pages, number) = (fields.u64()?, fields.u32()? as usize);
                let offsets = fields.take(number.checked_mul(8)?)?.as_chunks().0;
                Self::End {
                    pages,
                    tables: offsets.iter().map(|&offset| u64::from_le_bytes(offset)).collect(),
                }
            }
            11 => Self::Withdrawn { kept: fields.u32()?, taken: fields.u32()? },
            _ => return None,
        };
        fields.0.is_empty().then_some(record)
    }
}

/// Appends a record in its frame.
fn framed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[0; HEAD - MARK.len()]);
    write(out);
    let length = ((out.len() - start - HEAD) as u32).to_le_bytes();
    let sum = checksum(length, &out[start + HEAD..]).to_le_bytes();
    out[start + 2..start + 6].copy_from_slice(&length);
    out[start + 6..start + HEAD].copy_from_slice(&sum);
}

/// Appends a frame for a page by the bytes of its earlier record, with another time at which it was last seen, and
/// without the answer. `None` if the bytes are not a page's record.
pub(super) fn frame_again(bytes: &[u8], seen: u64, sketches: Sketches, out: &mut Vec<u8>) -> Option<()> {
    let mut fields = FieldReader(bytes);
    if fields.byte()? != 1 {
        return None;
    }
    fields.page(sketches)?;
    let page = &bytes[..bytes.len() - fields.0.len()];
    let (facts, rest) = page.split_at_checked(SEEN_AT)?;
    framed(out, |out| {
        out.extend_from_slice(facts);
        out.extend_from_slice(&seen.to_le_bytes());
        out.extend_from_slice(&rest[size_of::<u64>()..]);
        out.push(0);
    });
    Some(())
}

/// Where the time stands in the record of a page: behind its kind, its digest and the number of its features.
const SEEN_AT: usize = 1 + size_of::<u128>() + size_of::<u32>();

/// The frame at the beginning of these bytes, if it is that of the page whose text has this digest. Its checksum is not
/// looked at.
pub(super) fn page_in(bytes: &[u8], digest: u128) -> Option<&[u8]> {
    let (length, _) = frame_of(bytes.get(..HEAD)?)?;
    let frame = bytes.get(..HEAD + length)?;
    let mut fields = FieldReader(&frame[HEAD..]);
    (fields.byte()? == 1 && fields.u128()? == digest).then_some(frame)
}

/// The name in the frame of a page; `None` if its bytes are not whole or not text.
pub(super) fn name_of(frame: &[u8]) -> Option<&str> {
    let mut fields = FieldReader(frame.get(HEAD + SEEN_AT + size_of::<u64>()..)?);
    let length = fields.u32()? as usize;
    std::str::from_utf8(fields.take(length)?).ok()
}

/// The length of the record, in bytes, and the checksum that the head of a frame states; `None` if it is no such head.
pub(super) fn frame_of(head: &[u8]) -> Option<(usize, u32)> {
    let head: &[u8; HEAD] = head.try_into().ok()?;
    let [a, b, l0, l1, l2, l3, sum @ ..] = *head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    ([a, b] == MARK && length <= LONGEST).then_some((length, u32::from_le_bytes(sum)))
}

/// The checksum of a frame: the CRC-32 of the record's length, as the frame has it, and of the record.
pub(super) fn checksum(length: [u8; 4], record: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length);
    sum.update(record);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::sketch::Sketcher;

    #[test]
    fn records_come_back_and_no_part_of_one_is_one() {
        let reply = Reply {
            kind: AnswerKind::Near,
            earlier: Some("é".into()),
            seen: 1 << 41,
            distance: 7,
            similarity: 0.9,
            near: 3,
            more: true,
            again: false,
        };
        for settings in [Settings::default(), Settings::simhash()] {
            let sketch = Sketcher::new(&settings, None).unwrap().sketch("a page of some words or other");
            let facts = Facts { text_bytes: 0, ..sketch.facts };
            let of = |standing, reply: &Reply| RememberedAnswer {
                key: "request\n7".into(),
                answer: Answer { digest: 9, reply: reply.clone(), standing },
            };
            let page = |value: Option<SketchValue>, asked| Record::Page {
                facts,
                value,
                name: "http://a.example/".into(),
                seen: 77,
                asked,
            };
            for record in [
                page(Some(sketch.value.clone()), Some(of(Standing::Named, &reply))),
                page(None, None),
                Record::Again {
                    digest: u128::MAX,
                    seen: 0,
                    asked: Some(of(Standing::Given(0), &Reply::default())),
                },
                Record::Removed { digest: 3 },
                Record::Request(of(Standing::InDoubt, &reply)),
                Record::Settled { key: "".into() },
                Record::Delivered,
                Record::Sent,
                Record::Closed,
                Record::NotClosed,
                Record::Withdrawn { kept: 9, taken: 4 },
                Record::Table { table: 15, bytes: vec![1, 0, 9, 0, 3] },
                Record::End { pages: 1 << 40, tables: vec![7, 1 << 50] },
                Record::End { pages: 0, tables: Vec::new() },
            ] {
                let mut framed = vec![9];
                record.frame(&mut framed);
                let (head, body) = framed[1..].split_at(HEAD);
                assert_eq!(head[..2], MARK);
                assert_eq!(head[2..6], (body.len() as u32).to_le_bytes());
                assert_eq!(head[6..], checksum(head[2..6].try_into().unwrap(), body).to_le_bytes());
                assert_eq!(Record::read(body, settings.sketches).as_ref(), Some(&record));
                for cut in 0..body.len() {
                    assert_eq!(Record::read(&body[..cut], settings.sketches), None, "{record:?} {cut}");
                }
                assert_eq!(Record::read(&[body, &[0]].concat(), settings.sketches), None);
            }
        }
    }
}
