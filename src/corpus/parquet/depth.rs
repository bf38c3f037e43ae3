//! Counts the levels of a Parquet schema before its footer is decoded.
//!
//! The decoder calls itself for each level, and a level takes six bytes of the footer: a footer of a megabyte could
//! overflow any stack. Footers are structs in Thrift's compact protocol (its specification in the Thrift repository,
//! `doc/specs/thrift-compact-protocol.md`); all but the schema is passed over. The decoder itself compares lengths of
//! lists with the bytes there are.

/// Levels of structs and lists within one another. Parquet's own structs need fewer than ten.
const DEEPEST: usize = 32;
/// Levels of groups within one another in a schema.
const DEEPEST_SCHEMA: usize = 64;

/// The reason why bytes are not decoded as a footer, in words.
pub(super) type Refusal = &'static str;

const CUT: Refusal = "it ends too early";

/// Types of the protocol that are distinguished.
const LIST: u8 = 9;
const STRUCT: u8 = 12;

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Result<u8, Refusal> {
        let (&first, rest) = self.0.split_first().ok_or(CUT)?;
        self.0 = rest;
        Ok(first)
    }

    fn skip(&mut self, n: u64) -> Result<(), Refusal> {
        self.0 = usize::try_from(n).ok().and_then(|n| self.0.get(n..)).ok_or(CUT)?;
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

    /// Each field of a struct by its number and type. `each` returns whether it has read the value.
    fn fields(
        &mut self,
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
            // A truth has no bytes of its own in a struct.
            if !each(self, number, kind)? && !matches!(kind, 1 | 2) {
                self.value(kind, deep)?;
            }
        }
    }

    /// Passes over a value.
    fn value(&mut self, kind: u8, deep: usize) -> Result<(), Refusal> {
        if deep > DEEPEST {
            return Err("structs too deep within one another");
        }
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let n = self.varint()?;
                self.skip(n)
            }
            LIST | 10 => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.value(kind, deep + 1))
            }
            11 => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.value(kinds >> 4, deep + 1)?;
                    self.value(kinds & 15, deep + 1)
                })
            }
            STRUCT => self.fields(deep + 1, |_, _, _| Ok(false)),
            13 => self.skip(16),
            _ => Err("a type that Thrift does not have"),
        }
    }
}

/// Checks that a footer's schema has at most 64 levels of groups. The error says that it has more, or that the bytes
/// are not a footer. `footer` has the bytes of the footer alone, without length and magic number.
pub(super) fn check_schema(footer: &[u8]) -> Result<(), Refusal> {
    Bytes(footer).fields(0, |bytes, number, kind| {
        if number != 2 {
            return Ok(false);
        }
        let (count, kind) = match kind {
            LIST => bytes.list()?,
            _ => (0, kind),
        };
        if kind != STRUCT {
            return Err("a schema that is no list of structs");
        }
        // Elements come in pre-order, each with the number of its children: those still to come at each level.
        let mut open: Vec<u64> = Vec::new();
        for left in (0..count).rev() {
            let mut children = 0;
            bytes.fields(1, |bytes, number, kind| {
                match (number, kind) {
                    (5, 4..=6) => children = bytes.zigzag()?,
                    (5, _) => return Err("a number of columns that is none"),
                    _ => return Ok(false),
                }
                Ok(true)
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
        assert_eq!(check_schema(&schema(&[2, 0, 1, 0])), Ok(()));
        assert!(check_schema(&schema(&[4, 0, 1, 0])).is_err());
        assert!(check_schema(&schema(&[1, -1])).is_err());
        assert!(check_schema(&schema(&[i32::MAX, 0])).is_err());
        let chain = |n: usize| [vec![1; n], vec![0]].concat();
        assert_eq!(check_schema(&schema(&chain(DEEPEST_SCHEMA))), Ok(()));
        assert!(check_schema(&schema(&chain(DEEPEST_SCHEMA + 1))).is_err());
        assert!(check_schema(&schema(&chain(10_000))).is_err());
    }

    #[test]
    fn lists_are_no_longer_than_the_bytes() {
        // Field 4, a list of 2^31 - 1 structs.
        assert!(check_schema(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0]).is_err());
        assert_eq!(check_schema(&[0x49, 0x2c, 0, 0, 0]), Ok(()));
        assert!(check_schema(&[0xfc; 100_000]).is_err(), "structs within structs");
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            let _ = check_schema(&bytes);
        }
    }
}
