//! What a Parquet file claims, looked at before it is believed.
//!
//! Footers and page headers are structs in Thrift's compact protocol (its specification in the Thrift
//! repository, `doc/specs/thrift-compact-protocol.md`). The reader behind makes room for as many schema
//! elements and row groups as a footer announces, and calls itself once for each level of the schema. So the
//! numbers are held against the bytes that are there first: what passes here cannot ask for more memory or
//! stack than its own size allows.

/// Levels of structs and lists within one another. Parquet's own structs need fewer than ten.
const DEEPEST: usize = 32;
/// Levels of groups within one another in a schema.
const DEEPEST_SCHEMA: usize = 64;

/// Why bytes are no footer or page header.
pub(super) type Refusal = &'static str;

const CUT: Refusal = "it ends too early";

/// What a field holds, where Parquet's definition (`parquet.thrift` in its format's repository) says so.
///
/// The reader behind takes a field it knows for what it should be, whatever the file says that it is. Were
/// that let pass, it could find other lists in the same bytes than were looked at here.
#[derive(Clone, Copy)]
enum Shape {
    Truth,
    I8,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List(&'static Shape),
    Struct(Fields),
}

/// Fields of a struct by their numbers. Those that are not known are passed over as what they say they are.
type Fields = &'static [(i64, Shape)];

use Shape::{Binary, Double, I8, I16, I32, I64, List, Struct, Truth};

const NOTHING: Shape = Struct(&[]);
const KEY_VALUE: Shape = Struct(&[(1, Binary), (2, Binary)]);
const STATISTICS: Shape =
    Struct(&[(1, Binary), (2, Binary), (3, I64), (4, I64), (5, Binary), (6, Binary), (7, Truth), (8, Truth)]);
const TIME: Shape = Struct(&[(1, Truth), (2, Struct(&[(1, NOTHING), (2, NOTHING), (3, NOTHING)]))]);
const LOGICAL_TYPE: Shape = Struct(&[
    (1, NOTHING),
    (2, NOTHING),
    (3, NOTHING),
    (4, NOTHING),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, NOTHING),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, I8), (2, Truth)])),
    (11, NOTHING),
    (12, NOTHING),
    (13, NOTHING),
    (14, NOTHING),
    (15, NOTHING),
    (16, Struct(&[(1, I8)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, I32)])),
]);
const SCHEMA_ELEMENT: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Binary),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, LOGICAL_TYPE),
];
const BOUNDING_BOX: Shape = Struct(&[
    (1, Double),
    (2, Double),
    (3, Double),
    (4, Double),
    (5, Double),
    (6, Double),
    (7, Double),
    (8, Double),
]);
const COLUMN: Shape = Struct(&[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Binary)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&KEY_VALUE)),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, STATISTICS),
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))])),
    (17, Struct(&[(1, BOUNDING_BOX), (2, List(&I32))])),
]);
const COLUMN_CHUNK: Shape =
    Struct(&[(1, Binary), (2, I64), (3, COLUMN), (4, I64), (5, I32), (6, I64), (7, I32), (9, Binary)]);
const SORTING: Shape = Struct(&[(1, I32), (2, Truth), (3, Truth)]);
const ROW_GROUP: Shape = Struct(&[
    (1, List(&COLUMN_CHUNK)),
    (2, I64),
    (3, I64),
    (4, List(&SORTING)),
    (5, I64),
    (6, I64),
    (7, I16),
]);
const FOOTER: Fields = &[
    (1, I32),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, List(&ROW_GROUP)),
    (5, List(&KEY_VALUE)),
    (6, Binary),
    (7, List(&Struct(&[(1, NOTHING)]))),
    (9, Binary),
];
const PAGE_2: Fields =
    &[(1, I32), (2, I32), (3, I32), (4, I32), (5, I32), (6, I32), (7, Truth), (8, STATISTICS)];
const DICTIONARY_PAGE: Fields = &[(1, I32), (2, I32), (3, Truth)];
const PAGE_HEADER: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, STATISTICS)])),
    (6, NOTHING),
    (7, Struct(DICTIONARY_PAGE)),
    (8, Struct(PAGE_2)),
];

impl Shape {
    /// Whether a field that says it is of this type of the compact protocol can hold it.
    fn fits(self, kind: u8) -> bool {
        let own = match self {
            Truth => return matches!(kind, 1 | 2),
            I8 => 3,
            I16 => 4,
            I32 => 5,
            I64 => 6,
            Double => 7,
            Binary => 8,
            List(_) => 9,
            Struct(_) => 12,
        };
        kind == own
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Result<u8, Refusal> {
        let (&first, rest) = self.0.split_first().ok_or(CUT)?;
        self.0 = rest;
        Ok(first)
    }

    fn skip(&mut self, n: u64) -> Result<(), Refusal> {
        let n = usize::try_from(n).map_err(|_| CUT)?;
        self.0 = self.0.get(n..).ok_or(CUT)?;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Refusal> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than ten bytes")
    }

    fn zigzag(&mut self) -> Result<i64, Refusal> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Elements of a list and their type; there are never more of them than bytes.
    fn list(&mut self) -> Result<(u64, u8), Refusal> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        if count > self.0.len() as u64 {
            return Err("a list longer than the bytes there are");
        }
        Ok((count, head & 15))
    }

    /// Each field of a struct by its number and its type, which of a truth is its value. `each` returns whether it
    /// has read the value.
    fn fields(
        &mut self,
        known: Fields,
        deep: usize,
        mut each: impl FnMut(&mut Self, i64, u8) -> Result<bool, Refusal>,
    ) -> Result<(), Refusal> {
        let mut number = 0i64;
        loop {
            let head = self.byte()?;
            let kind = head & 15;
            if kind == 0 {
                return Ok(());
            }
            number = match head >> 4 {
                0 => self.zigzag()?,
                delta => number + i64::from(delta),
            };
            if i16::try_from(number).is_err() {
                return Err("a field of a number that there is not");
            }
            let shape = known.iter().find(|(known, _)| *known == number).map(|(_, shape)| *shape);
            if shape.is_some_and(|shape| !shape.fits(kind)) {
                return Err("a field of another type than it has");
            }
            if !(shape.is_some() && each(self, number, kind)?) {
                self.value(kind, shape, deep, true)?;
            }
        }
    }

    /// Passes over a value. `field`: it stands in a struct, where truth has no bytes of its own.
    fn value(&mut self, kind: u8, shape: Option<Shape>, deep: usize, field: bool) -> Result<(), Refusal> {
        if deep > DEEPEST {
            return Err("structs too deep within one another");
        }
        match kind {
            1 | 2 if field => Ok(()),
            // Parquet has none in footers and page headers, and the reader behind passes over them wrongly.
            1 | 2 => Err("a list of truths"),
            3 => self.skip(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let n = self.varint()?;
                self.skip(n)
            }
            9 | 10 => {
                let (count, kind) = self.list()?;
                let element = match shape {
                    Some(List(element)) if element.fits(kind) => Some(*element),
                    Some(_) => return Err("a list of another type than it has"),
                    None => None,
                };
                (0..count).try_for_each(|_| self.value(kind, element, deep + 1, false))
            }
            11 => {
                let count = self.varint()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                for _ in 0..count {
                    self.value(kinds >> 4, None, deep + 1, false)?;
                    self.value(kinds & 15, None, deep + 1, false)?;
                }
                Ok(())
            }
            12 => {
                let known = match shape {
                    Some(Struct(known)) => known,
                    _ => &[],
                };
                self.fields(known, deep + 1, |_, _, _| Ok(false))
            }
            13 => self.skip(16),
            _ => Err("a type that Thrift does not have"),
        }
    }
}

/// Whether bytes are a footer that can be given to the reader.
pub(super) fn check_footer(bytes: &[u8]) -> Result<(), Refusal> {
    Bytes(bytes).fields(FOOTER, 0, |bytes, number, _| {
        if number != 2 {
            return Ok(false);
        }
        let (count, kind) = bytes.list()?;
        if !NOTHING.fits(kind) {
            return Err("a schema that is no list of structs");
        }
        // Elements come in pre-order, each with the number of its children: those still to come at each
        // level.
        let mut open: Vec<u64> = Vec::new();
        for left in (0..count).rev() {
            let mut children = 0;
            bytes.fields(SCHEMA_ELEMENT, 1, |bytes, number, _| {
                if number == 5 {
                    children = bytes.zigzag()?;
                    return Ok(true);
                }
                Ok(false)
            })?;
            let children = u64::try_from(children).map_err(|_| "a group with less than no columns")?;
            if children > left {
                return Err("a group with more columns than the schema has");
            }
            if let Some(last) = open.last_mut() {
                *last -= 1;
            }
            if children > 0 {
                open.push(children);
            }
            while open.last() == Some(&0) {
                open.pop();
            }
            if open.len() > DEEPEST_SCHEMA {
                return Err("groups of columns too deep within one another");
            }
        }
        Ok(true)
    })
}

/// What a page header says of its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageSizes {
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes when decoded.
    pub decoded: u64,
    /// Bytes that stand in front and are not compressed (pages of version 2).
    pub levels: u64,
    /// Stored as it is, whatever the compression of its column (pages of version 2).
    pub is_plain: bool,
    /// Values of a dictionary, if it is one.
    pub entries: u64,
}

/// Reads the sizes in a page header.
pub(super) fn page_sizes(bytes: &[u8]) -> Result<PageSizes, Refusal> {
    let mut sizes = PageSizes::default();
    let size = |bytes: &mut Bytes<'_>| u64::try_from(bytes.zigzag()?).map_err(|_| "a size below nothing");
    Bytes(bytes).fields(PAGE_HEADER, 0, |bytes, number, _| {
        match number {
            2 => sizes.decoded = size(bytes)?,
            3 => sizes.stored = size(bytes)?,
            7 => bytes.fields(DICTIONARY_PAGE, 1, |bytes, number, _| {
                if number == 1 {
                    sizes.entries = size(bytes)?;
                }
                Ok(number == 1)
            })?,
            8 => {
                let mut levels = [0; 2];
                sizes.is_plain = false;
                bytes.fields(PAGE_2, 1, |bytes, number, kind| {
                    match number {
                        5 => levels[0] = size(bytes)?,
                        6 => levels[1] = size(bytes)?,
                        // `is_compressed`; nothing follows a truth in a struct.
                        7 => sizes.is_plain = kind == 2,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                sizes.levels = levels[0].saturating_add(levels[1]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(sizes)
}

/// True if bytes stop in the middle of a struct.
pub(super) fn is_cut(refusal: Refusal) -> bool {
    refusal == CUT
}

/// Numbers in a run of `DELTA_BINARY_PACKED`, and the bytes it takes (Parquet's `Encodings.md`).
///
/// Where the lengths of strings are stored so, the reader makes room for all of them at once.
pub(super) fn delta_run(bytes: &[u8]) -> Result<(u64, usize), Refusal> {
    let mut rest = Bytes(bytes);
    let (block, minis, count) = (rest.varint()?, rest.varint()?, rest.varint()?);
    rest.varint()?;
    let per_mini = block.checked_div(minis).unwrap_or(0);
    if per_mini == 0 || per_mini % 8 != 0 {
        return Err("blocks of no size");
    }
    let mut left = count.saturating_sub(1);
    while left > 0 {
        rest.varint()?;
        let widths = rest.0.get(..usize::try_from(minis).map_err(|_| CUT)?).ok_or(CUT)?;
        rest.skip(minis)?;
        for &width in widths {
            if left == 0 {
                break;
            }
            rest.skip(per_mini.checked_mul(u64::from(width)).ok_or(CUT)? / 8)?;
            left = left.saturating_sub(per_mini);
        }
    }
    Ok((count, bytes.len() - rest.0.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A footer that holds nothing but a schema whose elements have these numbers of children.
    fn schema(children: &[i32]) -> Vec<u8> {
        let mut bytes = vec![0x29, 0xfc, children.len() as u8 | 0x80, (children.len() >> 7) as u8];
        for &n in children {
            let mut zigzag = ((n << 1) ^ (n >> 31)) as u32;
            bytes.push(0x55);
            while zigzag >= 0x80 {
                bytes.push(zigzag as u8 | 0x80);
                zigzag >>= 7;
            }
            bytes.extend([zigzag as u8, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn schemas_are_as_deep_and_wide_as_their_elements() {
        assert_eq!(check_footer(&schema(&[2, 0, 1, 0])), Ok(()));
        assert!(check_footer(&schema(&[4, 0, 1, 0])).is_err());
        assert!(check_footer(&schema(&[1, -1])).is_err());
        assert!(check_footer(&schema(&[i32::MAX, 0])).is_err());
        let chain = |n: usize| [vec![1; n], vec![0]].concat();
        assert_eq!(check_footer(&schema(&chain(DEEPEST_SCHEMA))), Ok(()));
        assert!(check_footer(&schema(&chain(DEEPEST_SCHEMA + 1))).is_err());
        assert!(check_footer(&schema(&chain(10_000))).is_err());
    }

    #[test]
    fn lists_are_no_longer_than_the_bytes() {
        // Field 4, a list of 2^31 - 1 structs.
        assert!(check_footer(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0]).is_err());
        assert_eq!(check_footer(&[0x49, 0x2c, 0, 0, 0]), Ok(()));
        assert!(check_footer(&[0xfc; 100_000]).is_err(), "structs within structs");
    }

    #[test]
    fn fields_are_what_they_are_defined_to_be() {
        // Children of a schema element as bytes, which the reader would take for a number.
        assert!(check_footer(&[0x29, 0x1c, 0x58, 2, 0, 0, 0, 0]).is_err());
        // Field 65,540, which the reader would take for field 4.
        assert!(check_footer(&[0x09, 0x88, 0x80, 0x08, 0x0c, 0]).is_err());
        // Fields that are not known yet.
        assert_eq!(check_footer(&[0xf6, 8, 0xf9, 0x25, 1, 2, 0]), Ok(()));
        assert!(check_footer(&[0xf9, 0x21, 1, 2, 0]).is_err(), "truths in a list");
    }

    #[test]
    fn page_headers_say_their_sizes() {
        let sizes = PageSizes { stored: 5, decoded: 10, ..PageSizes::default() };
        assert_eq!(page_sizes(&[0x15, 0, 0x15, 20, 0x15, 10, 0x2c, 0x15, 2, 0, 0, 99]), Ok(sizes));
        let second = [0x15, 0, 0x15, 20, 0x15, 10, 0x5c, 0x55, 4, 0x15, 2, 0, 0];
        assert_eq!(page_sizes(&second), Ok(PageSizes { levels: 3, ..sizes }));
        for (is_compressed, is_plain) in [(1, false), (2, true)] {
            let second = [0x15, 0, 0x15, 20, 0x15, 10, 0x5c, 0x55, 4, 0x15, 2, 0x10 | is_compressed, 0, 0];
            assert_eq!(page_sizes(&second), Ok(PageSizes { levels: 3, is_plain, ..sizes }));
        }
        let dictionary = [0x15, 4, 0x15, 20, 0x15, 10, 0x4c, 0x15, 8, 0, 0];
        assert_eq!(page_sizes(&dictionary), Ok(PageSizes { entries: 4, ..sizes }));
        assert!(page_sizes(&[0x15, 0, 0x15, 1, 0]).is_err(), "less than no bytes");
        assert!(page_sizes(&[0x15, 0, 0x15, 20]).is_err_and(is_cut));
    }

    #[test]
    fn runs_of_deltas_have_an_end() {
        // Blocks of 128 in 4: 5 numbers, the first one 7, deltas of one bit in the first miniblock.
        let run = [0x80, 1, 4, 5, 14, 0, 1, 0, 0, 0, 1, 2, 3, 4, 99];
        assert_eq!(delta_run(&run), Ok((5, run.len() - 1)));
        assert!(delta_run(&run[..12]).is_err_and(is_cut));
        assert!(delta_run(&[0x80, 1, 0, 5, 14]).is_err());
        assert_eq!(delta_run(&[0x80, 1, 4, 1, 14]), Ok((1, 5)));
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            let _ = (check_footer(&bytes), page_sizes(&bytes), delta_run(&bytes));
        }
    }
}
