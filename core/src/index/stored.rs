//! The tables of an index as bytes. An index that is read from a file gets its tables by them, and need not make them
//! from the keys of its documents. The entries of a table stand in ascending order, in parts of any length.
//!
//! An entry is a mixed key, a key of 32 bits that is scrambled one to one (`search::bucket_table`), and the place of a
//! document among the stored ones. The first byte of a part is the number of bytes of a place. Then come, for each
//! entry, the difference of its mixed key from the one before, and its place, little-endian. A difference takes two
//! bytes; if these are `ffff`, it is in four more. The mixed keys of a million documents are some thousands apart, and
//! so an entry takes five bytes.

use crate::search::bucket_table::{BucketTable, BulkLoad};

/// The two bytes before a difference of four bytes. A difference from this number on takes four.
const WIDE: u16 = u16::MAX;

/// The tables of an index that was stored, for [`Index::fill`](super::Index::fill).
pub trait StoredTables: Sync {
    /// Gives the parts of a table to `take` in their order, each as [`table_part`] made it. `table` counts as
    /// [`Index::tables`](super::Index::tables) does: 0 is the table of digests. None if a part cannot be read, or if
    /// `take` gives none: the index is then not filled, and the caller stores the documents one by one.
    fn read(&self, table: usize, take: &mut dyn FnMut(&[u8]) -> Option<()>) -> Option<()>;
}

/// A part of a table from some of its entries ([`Index::entries`](super::Index::entries)), which must ascend. The upper
/// half of an entry is the mixed key. The lower half is not the document's number here, but its place among `documents`
/// stored ones.
pub fn table_part(entries: &[u64], documents: usize) -> Vec<u8> {
    let width = width(documents);
    let mut bytes = Vec::with_capacity(1 + entries.len() * (size_of::<u16>() + width) + size_of::<u32>());
    bytes.push(width as u8);
    let mut before = 0;
    for &entry in entries {
        let key = (entry >> 32) as u32;
        let gap = key.wrapping_sub(before);
        before = key;
        match u16::try_from(gap) {
            Ok(near) if near != WIDE => bytes.extend_from_slice(&near.to_le_bytes()),
            _ => {
                bytes.extend_from_slice(&WIDE.to_le_bytes());
                bytes.extend_from_slice(&gap.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&entry.to_le_bytes()[..width]);
    }
    bytes
}

/// Gives the entries of a part to `each`. Returns the last one, or `last` if there is none. None if the part is not of
/// so many documents, or if its entries do not ascend from `last` on.
fn each_entry(
    part: &[u8],
    documents: usize,
    mut last: Option<u64>,
    mut each: impl FnMut(u64),
) -> Option<Option<u64>> {
    let (&written, mut rest) = part.split_first()?;
    let width = width(documents);
    if usize::from(written) != width {
        return None;
    }
    let mask = u64::MAX >> (u64::BITS - 8 * u32::from(written));
    let mut key = 0u64;
    while !rest.is_empty() {
        let (&near, more) = rest.split_first_chunk()?;
        rest = more;
        let mut gap = u32::from(u16::from_le_bytes(near));
        if gap == u32::from(WIDE) {
            let (&wide, more) = rest.split_first_chunk()?;
            (gap, rest) = (u32::from_le_bytes(wide), more);
        }
        key += u64::from(gap);
        let place = match rest.first_chunk() {
            Some(&word) => u64::from(u32::from_le_bytes(word)) & mask,
            None => rest.get(..width)?.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        };
        rest = rest.get(width..)?;
        let entry = key << 32 | place;
        if key > u64::from(u32::MAX) || place >= documents as u64 || last.is_some_and(|last| last >= entry) {
            return None;
        }
        each(entry);
        last = Some(entry);
    }
    Some(last)
}

/// The number of bytes of a place among so many documents.
fn width(documents: usize) -> usize {
    let bits = usize::BITS - documents.saturating_sub(1).leading_zeros();
    bits.div_ceil(u8::BITS).clamp(1, 4) as usize
}

/// Reads the table of this number; none if it cannot be read, or is not of so many entries and documents.
pub(super) fn table(
    stored: &dyn StoredTables,
    number: usize,
    entries: usize,
    documents: usize,
) -> Option<BucketTable> {
    let mut bulk_load = BulkLoad::new(documents.saturating_sub(1) as u32);
    let (mut last, mut count) = (None, 0);
    stored.read(number, &mut |part| {
        last = each_entry(part, documents, last, |entry| {
            count += 1;
            bulk_load.push(entry);
        })?;
        Some(())
    })?;
    (count == entries).then(|| bulk_load.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_come_back(
            seed: u64, number in 0usize..300, documents in prop_oneof![1usize..5, Just(256), Just(257), Just(70_000), Just(1 << 24), Just((1 << 31) - 1)],
            keys in prop_oneof![Just(3u64), Just(1 << 18), Just(1 << 32)], cut in 0usize..300,
        ) {
            let mut rng = SplitMix64::new(seed);
            let entry = |_| rng.below(keys) << 32 | rng.below(documents as u64);
            let mut entries: Vec<u64> = (0..number).map(entry).collect();
            entries.sort_unstable();
            entries.dedup();
            let cut = cut.min(entries.len());
            let parts = [&entries[..cut], &entries[cut..]].map(|entries| table_part(entries, documents));
            let read = |part: &[u8], documents: usize, last| {
                let mut read = Vec::new();
                each_entry(part, documents, last, |entry| read.push(entry)).map(|last| (last, read))
            };
            let (last, mut both) = read(&parts[0], documents, None).unwrap();
            let (last, more) = read(&parts[1], documents, last).unwrap();
            both.extend(more);
            prop_assert_eq!(&both, &entries);
            prop_assert_eq!(last, entries.last().copied());
            // What ascends no more, what has other places, and what is cut within an entry is refused.
            if !entries.is_empty() {
                prop_assert!(parts.iter().all(|part| read(part, documents, last).is_none() == (part.len() > 1)));
                let places = entries.iter().map(|entry| *entry as u32 as usize);
                let fewer = places.max().unwrap_or_default();
                prop_assert!(parts.iter().any(|part| read(part, fewer, None).is_none()));
                let whole = &parts[usize::from(parts[1].len() > 1)];
                prop_assert!(read(&whole[..whole.len() - 1], documents, None).is_none());
            }
        }

        #[test]
        fn any_bytes_are_entries_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60), documents in 0usize..400) {
            let mut read = Vec::new();
            if each_entry(&bytes, documents, None, |entry| read.push(entry)).is_some() {
                prop_assert!(read.is_sorted_by(|a, b| a < b));
                prop_assert!(read.iter().all(|entry| ((entry & u64::from(u32::MAX)) as usize) < documents));
            }
        }
    }
}
