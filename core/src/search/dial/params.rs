//! The parameters of a dial index, and their bounds. A dial has a few tables, each with a key: some bits of the hash
//! by which it groups the hashes.

use serde::{Deserialize, Serialize};

use super::super::table::log2;
use crate::kernel::packed::WIDTHS;
use crate::simhash::BITS;
use crate::{Error, Result};

/// The parameters of a dial index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DialParams {
    /// h: the largest distance of a match, at most 64.
    pub radius: u32,
    /// t: number of tables, 1 to 8. All probes together are exact for h < t(f + 1).
    pub tables: u32,
    /// f: the most bits that a probe flips in a key, 0 to 2. By default ⌊h/t⌋, the fewest for which the search can be
    /// exact, but at most 2.
    pub flips: Option<u32>,
    /// p: bits of each key, at least 8. They are at most 30, at most 64/t and, for n hashes, at most the greater of 14
    /// and log₂(n) + 3. By default they are about log₂(n) − 2.
    pub key_bits: Option<u32>,
    /// The bits of each table's key as masks: disjoint, all of p bits. By default the leading bits of the t
    /// equal parts of the hash.
    pub keys: Option<Vec<u64>>,
    /// The most probes of a query, those without flips included; `None` for all.
    pub budget: Option<u32>,
}

impl Default for DialParams {
    fn default() -> Self {
        Self { radius: 3, tables: 2, flips: None, key_bits: None, keys: None, budget: None }
    }
}

/// Fewest bits of a key: a rest must fit 57 bits.
const FEWEST_KEY_BITS: u32 = 64 - *WIDTHS.end() + 1;

/// The numbers of bits that a key may have in an index of `n` hashes and `tables` tables.
pub(crate) fn key_widths(n: usize, tables: u32) -> std::ops::RangeInclusive<u32> {
    FEWEST_KEY_BITS..=(BITS as u32 / tables.max(1)).min(most_key_bits(n))
}

/// The most bits of a key over `n` hashes: more would make a directory of nearly empty cells, and the cells of
/// all tables are numbered together in 32 bits.
fn most_key_bits(n: usize) -> u32 {
    (log2(n) + 3).clamp(14, 30)
}

/// The most hashes of an index with so many tables: their positions in all tables are numbered together in 32 bits.
pub(crate) fn most_hashes(tables: u32) -> u32 {
    u32::MAX / tables.max(1)
}

/// The most bits that a probe flips in a key.
pub(crate) const MOST_FLIPS: u32 = 2;

/// The most tables of an index: keys have at least eight of the 64 bits each.
pub(crate) const MOST_TABLES: u32 = 8;

const _: () = assert!(MOST_TABLES * FEWEST_KEY_BITS <= 64);

impl DialParams {
    /// The mask of each table's key in an index over `n` hashes: `keys` if there are any, else the default ones.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning.
    pub(crate) fn masks(&self, n: usize) -> Result<Vec<u64>> {
        if self.radius > 64 {
            return Err(Error::parameter("radius", self.radius, "at most 64"));
        }
        if !(1..=MOST_TABLES).contains(&self.tables) {
            return Err(Error::parameter("tables", self.tables, format!("1 to {MOST_TABLES}")));
        }
        if let Some(flips) = self.flips.filter(|&flips| flips > MOST_FLIPS) {
            return Err(Error::parameter("flips", flips, format!("at most {MOST_FLIPS} in a key")));
        }
        let part = BITS as u32 / self.tables;
        let most = part.min(most_key_bits(n));
        let p = match (&self.keys, self.key_bits) {
            (Some(keys), None) => keys.first().map_or(0, |key| key.count_ones()),
            (_, Some(p)) => p,
            (None, None) => default_key_bits(n).min(most),
        };
        if !(FEWEST_KEY_BITS..=most).contains(&p) {
            return Err(Error::parameter(
                "key-bits",
                p,
                format!("{FEWEST_KEY_BITS} to {most} for these tables"),
            ));
        }
        let Some(keys) = &self.keys else {
            let leading = u64::MAX << (64 - p);
            return Ok((0..self.tables).map(|t| leading >> (t * part)).collect());
        };
        let disjoint = keys.iter().fold(0, |all, key| all | key).count_ones() == p * keys.len() as u32;
        if keys.len() != self.tables as usize || !disjoint || keys.iter().any(|key| key.count_ones() != p) {
            let expected = format!("{} disjoint masks of {p} bits each", self.tables);
            return Err(Error::parameter("keys", format!("{keys:x?}"), expected));
        }
        Ok(keys.clone())
    }
}

/// The number of bits of a key over `n` hashes, unless it is given. A group has four to eight hashes, which lie in one
/// or two cache lines, and the directory is small beside them.
fn default_key_bits(n: usize) -> u32 {
    log2(n).saturating_sub(2).max(FEWEST_KEY_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_by_default_lead_the_parts_of_the_hash() {
        let masks = |tables, n| DialParams { radius: 3, tables, ..DialParams::default() }.masks(n).unwrap();
        let top = |bits: u32, part: u32| u64::MAX << (64 - bits) >> part;
        assert_eq!(masks(1, 1 << 20), [top(18, 0)]);
        assert_eq!(masks(2, (1 << 21) - 1), [top(18, 0), top(18, 32)]);
        assert_eq!(masks(3, 0), [top(8, 0), top(8, 21), top(8, 42)]);
        // No room for more bits, and no more than the directory bears.
        assert_eq!(masks(4, 1 << 20), [0, 16, 32, 48].map(|part| top(16, part)));
        assert_eq!(masks(1, 1 << 40), [top(30, 0)]);
        let three = DialParams { key_bits: Some(11), radius: 3, tables: 3, ..DialParams::default() };
        assert_eq!(three.masks(9).unwrap(), [top(11, 0), top(11, 21), top(11, 42)]);
        assert_eq!(three, DialParams { radius: 3, tables: 3, key_bits: Some(11), ..DialParams::default() });
    }

    #[test]
    fn what_may_be_asked_for_and_what_may_not() {
        for (n, tables, widths) in [
            (0, 1, 8..=14),
            ((1 << 12) - 1, 1, 8..=14),
            (1 << 12, 1, 8..=15),
            (1 << 20, 2, 8..=23),
            (1 << 20, 4, 8..=16),
            (1 << 40, 1, 8..=30),
            (1 << 20, 8, 8..=8),
        ] {
            assert_eq!(key_widths(n, tables), widths);
            for p in 0..=64 {
                let params = DialParams { key_bits: Some(p), radius: 3, tables, ..DialParams::default() };
                assert_eq!(params.masks(n).is_ok(), widths.contains(&p), "{n} hashes, {tables} tables, {p}");
            }
        }
        assert_eq!([1, 2, 3].map(most_hashes), [u32::MAX, u32::MAX / 2, u32::MAX / 3]);
        let refused = |params: DialParams| {
            let Err(Error::Parameter { parameter, .. }) = params.masks(1 << 20) else { panic!("{params:?}") };
            parameter
        };
        let three = || DialParams { radius: 3, tables: 3, ..DialParams::default() };
        assert!(DialParams { radius: 64, flips: Some(2), ..three() }.masks(9).is_ok());
        assert_eq!(refused(DialParams { radius: 65, ..three() }), "radius");
        assert_eq!(refused(DialParams { tables: 0, ..three() }), "tables");
        assert_eq!(refused(DialParams { tables: 9, ..three() }), "tables");
        assert_eq!(refused(DialParams { flips: Some(3), ..three() }), "flips");
    }

    #[test]
    fn keys_must_be_disjoint_and_of_one_size() {
        let three = [0xff, 0xff00, 0xff_0000];
        let masks = |keys: &[u64], key_bits| {
            let params = DialParams {
                keys: Some(keys.to_vec()),
                key_bits,
                radius: 3,
                tables: 3,
                ..DialParams::default()
            };
            params.masks(1 << 20)
        };
        assert_eq!(masks(&three, None).unwrap(), three);
        assert_eq!(masks(&three, Some(8)).unwrap(), three);
        for (keys, key_bits) in [
            // Fewer and more than tables, two with a bit in common, and as many bits as asked for in all, but not
            // in each.
            (&three[..2], None),
            (&[0xff, 0xff00, 0xff_0000, 0xff00_0000][..], None),
            (&[0xff, 0xff00, 0xff_8000 & !0x10_0000][..], None),
            (&[0xff, 0x7f00, 0x1ff_0000][..], None),
            (&three[..], Some(9)),
        ] {
            assert!(
                masks(keys, key_bits).is_err_and(|e| e.to_string().contains("disjoint masks")),
                "{keys:x?}"
            );
        }
    }
}
