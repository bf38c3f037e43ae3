//! A small table from keys of 32 bits to slots: which documents have this key? A slot is a number that the caller gives
//! to a document. Ours.
//!
//! A mixed key is a key whose bits are scrambled, one to one, so that they are spread evenly (`mix`). An entry is a
//! mixed key and a slot. Entries stand in buckets, sorted by mixed keys. The mixed keys of a bucket of depth d begin
//! with the same d bits. Their other 32 − d bits, the rest, are stored, and with them the slot in 8 + d bits. So an
//! entry takes five bytes whatever the depth. A bucket is split when a slot does not fit: in an index of n documents,
//! most buckets have 128 to 256 entries. Where an entry stands in its bucket is guessed from its mixed key, and the
//! guess is a few entries off.
//!
//! Slots of one key stand in the order in which they came, side by side while they are at most eight. More of them are
//! in a list outside of the bucket, and the key has one entry, with a mark in place of a slot. So a key that thousands
//! of documents share makes no bucket long.

use crate::kernel::prefetch;
use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

/// The most slots of one key that stand in its bucket.
const FEW: usize = 8;

/// Bytes of an entry.
const WIDTH: usize = 5;

/// Bytes behind the last entry, so that all of them can be read as words.
const SPARE: usize = size_of::<u64>() - WIDTH;

/// Bits of a slot in a bucket of depth 0.
const SLOT_BITS: u32 = 8 * WIDTH as u32 - u32::BITS;

/// The number of entries that are looked at one by one from the guess, before the search halves the rest.
const STRIDE: usize = 16;

/// A growing table of slots by their keys. Slots are below 2³¹.
#[derive(Clone, Debug)]
pub(crate) struct BucketTable {
    /// Bits of a bucket's place, the greatest depth of a bucket.
    depth: u32,
    /// The bucket of each value of the first `depth` bits of a mixed key. One of lesser depth stands at the first of
    /// the places that it covers; the others hold nothing but its depth.
    buckets: Vec<TableBucket>,
    /// By key, the slots of those keys that have more than [`FEW`].
    oversized: HashMap<u32, Vec<u32>>,
}

/// The entries whose mixed keys begin with the same `depth` bits.
#[derive(Clone, Debug, Default)]
struct TableBucket {
    /// Entries of five bytes, each the rest of a mixed key above a slot; room for some more, and [`SPARE`].
    bytes: Box<[u8]>,
    /// Number of entries.
    len: u32,
    depth: u32,
}

/// The slots of a key; none if the table does not have the key.
pub(crate) enum KeySlots<'a> {
    /// At most [`FEW`] slots, and their number.
    Few([u32; FEW], usize),
    /// The list of more slots.
    Oversized(&'a [u32]),
}

impl KeySlots<'_> {
    /// The slots, in the order in which they came.
    #[inline]
    pub(crate) fn slots(&self) -> &[u32] {
        match self {
            Self::Few(slots, len) => &slots[..*len],
            Self::Oversized(slots) => slots,
        }
    }
}

/// The number of entries that a bucket of `len` entries gets room for: some more, so that entries that come one by one
/// seldom move all.
fn room(len: usize) -> usize {
    if len == 0 { 0 } else { len + len / 8 + 2 }
}

impl Default for BucketTable {
    fn default() -> Self {
        Self { depth: 0, buckets: vec![TableBucket::default()], oversized: HashMap::new() }
    }
}

impl TableBucket {
    /// Bits of a slot.
    #[inline]
    fn slot_bits(&self) -> u32 {
        SLOT_BITS + self.depth
    }

    /// The number in place of a slot where the key has a list elsewhere; slots are below it.
    #[inline]
    fn mark(&self) -> u64 {
        (1 << self.slot_bits()) - 1
    }

    /// The bits of a mixed key that are stored.
    #[inline]
    fn rest(&self, mixed: u32) -> u64 {
        u64::from(mixed) & ((1 << (u32::BITS - self.depth)) - 1)
    }

    /// The entry of a mixed key and a slot, as this bucket stores it.
    #[inline]
    fn entry(&self, mixed: u32, slot: u64) -> u64 {
        self.rest(mixed) << self.slot_bits() | slot
    }

    /// The entry at a place, from 0; beyond the bytes all ones.
    #[inline]
    fn at(&self, place: usize) -> u64 {
        let word = self.bytes.get(place * WIDTH..).and_then(<[u8]>::first_chunk);
        word.map_or(u64::MAX, |&word| u64::from_le_bytes(word)) & ((1 << (8 * WIDTH)) - 1)
    }

    fn set(&mut self, place: usize, entry: u64) {
        self.bytes[place * WIDTH..][..WIDTH].copy_from_slice(&entry.to_le_bytes()[..WIDTH]);
    }

    #[inline]
    fn slot(&self, place: usize) -> u64 {
        self.at(place) & self.mark()
    }

    /// About the place of a mixed key's first entry.
    #[inline]
    fn guess(&self, mixed: u32) -> usize {
        ((u64::from(self.len) * self.rest(mixed)) >> (u32::BITS - self.depth)) as usize
    }

    /// The first place of an entry that is at least `entry`, searched from the place `guess` on.
    fn first(&self, guess: usize, entry: u64) -> usize {
        let mut at = guess;
        let below = at < self.len as usize && self.at(at) < entry;
        for _ in 0..STRIDE {
            if below {
                if at == self.len as usize || self.at(at) >= entry {
                    return at;
                }
                at += 1;
            } else {
                if at == 0 || self.at(at - 1) < entry {
                    return at;
                }
                at -= 1;
            }
        }
        let (mut low, mut high) = if below { (at, self.len as usize) } else { (0, at) };
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(middle) < entry { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The places of a mixed key's entries.
    fn places(&self, mixed: u32) -> std::ops::Range<usize> {
        let start = self.first(self.guess(mixed), self.entry(mixed, 0));
        let last = self.entry(mixed, self.mark());
        let more = (start..self.len as usize).take_while(|&place| self.at(place) <= last).count();
        start..start + more
    }

    /// Copies the entries, with room for `room` of them.
    fn laid_out(&self, room: usize) -> Box<[u8]> {
        let mut bytes = vec![0; if room == 0 { 0 } else { room * WIDTH + SPARE }].into_boxed_slice();
        let held = self.len as usize * WIDTH;
        bytes[..held].copy_from_slice(&self.bytes[..held]);
        bytes
    }

    /// Makes room for so many entries.
    fn lay_out(&mut self, room: usize) {
        self.bytes = self.laid_out(room);
    }

    fn insert(&mut self, place: usize, entry: u64) {
        let len = self.len as usize;
        if self.bytes.len() < (len + 1) * WIDTH + SPARE {
            self.lay_out(room(len + 1));
        }
        self.bytes.copy_within(place * WIDTH..len * WIDTH, (place + 1) * WIDTH);
        self.set(place, entry);
        self.len += 1;
    }

    /// Puts an entry behind the others, for which there is room.
    fn push(&mut self, entry: u64) {
        // The word's bytes beyond the entry fall on the place of the next entry, or on the spare bytes.
        let at = self.len as usize * WIDTH;
        self.bytes[at..at + size_of::<u64>()].copy_from_slice(&entry.to_le_bytes());
        self.len += 1;
    }

    fn remove(&mut self, places: std::ops::Range<usize>) {
        let len = self.len as usize;
        self.bytes.copy_within(places.end * WIDTH..len * WIDTH, places.start * WIDTH);
        self.len -= places.len() as u32;
        let len = self.len as usize;
        if self.bytes.len() > 2 * len * WIDTH + 8 * WIDTH || len == 0 {
            self.lay_out(room(len));
        }
    }

    /// Splits the entries into two buckets, by the next bit of their keys.
    fn split(&self) -> [Self; 2] {
        let (bits, mark) = (self.slot_bits(), self.mark());
        let half = 1u64 << (u32::BITS - self.depth - 1);
        let middle = self.first(self.len as usize / 2, half << bits);
        [0..middle, middle..self.len as usize].map(|places| {
            let mut part = Self { depth: self.depth + 1, ..Self::default() };
            part.lay_out(room(places.len()));
            for place in places {
                let entry = self.at(place);
                let slot = if entry & mark == mark { part.mark() } else { entry & mark };
                let rest = (entry >> bits) & (half - 1);
                part.push(rest << part.slot_bits() | slot);
            }
            part
        })
    }
}

impl BucketTable {
    /// Appends entries, each a mixed key in the upper half and a slot in the lower. Mixed keys ascend, and slots of one
    /// key come in the order in which they stand. Whole buckets are appended, from the one that the mixed key `from`
    /// belongs in, until they have at least `most` entries. Gives the next call's `from`; none if no bucket is left. So
    /// a table is stored, and [`BulkLoad`] makes it again.
    pub(crate) fn entries(&self, from: u32, most: usize, entries: &mut Vec<u64>) -> Option<u32> {
        let enough = entries.len() + most;
        let (mut place, bits) = (self.place(from), u32::BITS - self.depth);
        while entries.len() < enough {
            let bucket = &self.buckets[place];
            let first = (place as u64) << bits;
            for at in 0..bucket.len as usize {
                let entry = bucket.at(at);
                let mixed = first | entry >> bucket.slot_bits();
                let slot = entry & bucket.mark();
                if slot == bucket.mark() {
                    let slots = self.oversized.get(&unmix(mixed as u32)).map_or(&[][..], Vec::as_slice);
                    entries.extend(slots.iter().map(|&slot| mixed << 32 | u64::from(slot)));
                } else {
                    entries.push(mixed << 32 | slot);
                }
            }
            place += 1 << (self.depth - bucket.depth);
            if place == self.buckets.len() {
                return None;
            }
        }
        Some(((place as u64) << bits) as u32)
    }

    /// The table in which `slots[i]` has the key `keys[i]`. Slots must ascend.
    pub(crate) fn filled(keys: &[u32], slots: &[u32]) -> Self {
        let entry = |(&key, &slot): (&u32, &u32)| u64::from(mix(key)) << 32 | u64::from(slot);
        let mut entries: Vec<u64> = keys.iter().zip(slots).map(entry).collect();
        entries.par_sort_unstable();
        let mut bulk_load = BulkLoad::new(slots.last().copied().unwrap_or(0));
        entries.into_iter().for_each(|entry| bulk_load.push(entry));
        bulk_load.finish()
    }

    /// The place by the first bits of a mixed key. A bucket that covers several places stands in the first of them.
    #[inline]
    fn covered_place(&self, mixed: u32) -> usize {
        (u64::from(mixed) >> (u32::BITS - self.depth)) as usize
    }

    /// The place of the bucket that a mixed key belongs in.
    #[inline]
    fn place(&self, mixed: u32) -> usize {
        let place = self.covered_place(mixed);
        let covers = self.depth - self.buckets[place].depth;
        place >> covers << covers
    }

    /// Hints that the bucket of a key will be looked up soon.
    #[inline]
    pub(crate) fn prefetch(&self, key: u32) {
        prefetch::read(&self.buckets, self.covered_place(mix(key)));
    }

    /// Reads the memory where a key's entries are likely to stand; the number that it returns has no meaning. Called
    /// for several keys before any of them is looked up, it lets the processor fetch their memory at the same time.
    #[inline]
    pub(crate) fn fetch(&self, key: u32) -> u64 {
        let mixed = mix(key);
        let bucket = &self.buckets[self.place(mixed)];
        bucket.at(bucket.guess(mixed))
    }

    /// The slots of a key, in the order in which they were inserted.
    pub(crate) fn get(&self, key: u32) -> KeySlots<'_> {
        let mixed = mix(key);
        let bucket = &self.buckets[self.place(mixed)];
        let (mut slots, mut len) = ([0; FEW], 0);
        for place in bucket.places(mixed) {
            let slot = bucket.slot(place);
            if slot == bucket.mark() {
                return KeySlots::Oversized(self.oversized.get(&key).map_or(&[], Vec::as_slice));
            }
            slots[len] = slot as u32;
            len += 1;
        }
        KeySlots::Few(slots, len)
    }

    /// Puts a slot behind the others of its key.
    pub(crate) fn insert(&mut self, key: u32, slot: u32) {
        let mixed = mix(key);
        let mut place = self.place(mixed);
        while u64::from(slot) >= self.buckets[place].mark() {
            self.split(place);
            place = self.place(mixed);
        }
        let bucket = &mut self.buckets[place];
        let places = bucket.places(mixed);
        let first = bucket.slot(places.start);
        if !places.is_empty() && first == bucket.mark() {
            self.oversized.entry(key).or_default().push(slot);
        } else if places.len() < FEW {
            bucket.insert(places.end, bucket.entry(mixed, u64::from(slot)));
        } else {
            let slots = places.clone().map(|place| bucket.slot(place) as u32).chain([slot]).collect();
            bucket.set(places.start, bucket.entry(mixed, bucket.mark()));
            bucket.remove(places.start + 1..places.end);
            self.oversized.insert(key, slots);
        }
    }

    /// Divides the bucket at a place into two of one bit more depth.
    fn split(&mut self, place: usize) {
        let mut place = place;
        if self.buckets[place].depth == self.depth {
            let buckets = Vec::with_capacity(2 * self.buckets.len());
            for bucket in std::mem::replace(&mut self.buckets, buckets) {
                let covered = TableBucket { depth: bucket.depth, ..TableBucket::default() };
                self.buckets.extend([bucket, covered]);
            }
            self.depth += 1;
            place *= 2;
        }
        let parts = self.buckets[place].split();
        let covers = 1 << (self.depth - parts[0].depth);
        for (part, first) in parts.into_iter().zip([place, place + covers]) {
            let depth = part.depth;
            self.buckets[first..first + covers].iter_mut().for_each(|covered| covered.depth = depth);
            self.buckets[first] = part;
        }
    }

    /// Removes slots, each of which comes behind its key, and gives how many it removed. Pairs that are not in the
    /// table are passed over. From a list of more than [`FEW`] slots it removes all for which `gone` is true.
    pub(crate) fn remove(
        &mut self,
        documents: impl Iterator<Item = (u32, u32)>,
        gone: impl Fn(u32) -> bool,
    ) -> usize {
        let mut removed = 0;
        let mut shortened: HashSet<u32> = HashSet::new();
        for (key, slot) in documents {
            let mixed = mix(key);
            let place = self.place(mixed);
            let bucket = &mut self.buckets[place];
            let mut places = bucket.places(mixed);
            let mark = bucket.mark();
            match places.find(
                |&place| matches!(bucket.slot(place), found if found == mark || found == u64::from(slot)),
            ) {
                Some(place) if bucket.slot(place) == mark => {
                    shortened.insert(key);
                }
                Some(place) => {
                    bucket.remove(place..place + 1);
                    removed += 1;
                }
                None => {}
            }
        }
        for key in shortened {
            removed += self.shorten(key, &gone);
        }
        removed
    }

    /// Removes all slots for which `gone` is true, whatever their keys. It reads the whole table.
    pub(crate) fn sweep(&mut self, gone: impl Fn(u32) -> bool) {
        for bucket in &mut self.buckets {
            let mark = bucket.mark();
            let goes = |slot: u64| slot != mark && gone(slot as u32);
            let Some(first) = (0..bucket.len as usize).find(|&place| goes(bucket.slot(place))) else {
                continue;
            };
            let mut stay = first;
            for place in first..bucket.len as usize {
                let entry = bucket.at(place);
                if !goes(entry & mark) {
                    bucket.set(stay, entry);
                    stay += 1;
                }
            }
            bucket.remove(stay..bucket.len as usize);
        }
        let oversized: Vec<u32> = self.oversized.keys().copied().collect();
        for key in oversized {
            self.shorten(key, &gone);
        }
    }

    /// Removes the slots for which `gone` is true from the list of a key, and gives how many. A list of at most [`FEW`]
    /// slots becomes entries of the bucket.
    fn shorten(&mut self, key: u32, gone: impl Fn(u32) -> bool) -> usize {
        let Some(slots) = self.oversized.get_mut(&key) else { return 0 };
        let before = slots.len();
        slots.retain(|&slot| !gone(slot));
        let removed = before - slots.len();
        if slots.len() > FEW {
            if slots.capacity() > 2 * slots.len() {
                slots.shrink_to_fit();
            }
            return removed;
        }
        let slots = self.oversized.remove(&key).unwrap_or_default();
        let mixed = mix(key);
        let place = self.place(mixed);
        let places = self.buckets[place].places(mixed);
        self.buckets[place].remove(places);
        slots.into_iter().for_each(|slot| self.insert(key, slot));
        removed
    }

    /// The slots that share their key with another slot, in no order. An [`Index`](crate::Index) looks for equal texts
    /// among them.
    pub(crate) fn shared(&self) -> impl Iterator<Item = u32> + '_ {
        let few = self.buckets.iter().flat_map(|bucket| {
            let same = move |a: usize, b: usize| {
                bucket.at(a) >> bucket.slot_bits() == bucket.at(b) >> bucket.slot_bits()
            };
            let len = bucket.len as usize;
            let shared =
                (0..len).filter(move |&at| at > 0 && same(at - 1, at) || at + 1 < len && same(at, at + 1));
            shared.map(|place| bucket.slot(place) as u32)
        });
        few.chain(self.oversized.values().flatten().copied())
    }

    /// The key of a slot; none if the table does not have the slot. It reads the whole table.
    pub(crate) fn key_of(&self, slot: u32) -> Option<u32> {
        for (number, bucket) in self.buckets.iter().enumerate() {
            let found = (0..bucket.len as usize).find(|&place| bucket.slot(place) == u64::from(slot));
            if let Some(place) = found.filter(|_| u64::from(slot) != bucket.mark()) {
                let first = (number as u64) << (u32::BITS - self.depth);
                return Some(unmix(first as u32 | (bucket.at(place) >> bucket.slot_bits()) as u32));
            }
        }
        self.oversized.iter().find(|(_, slots)| slots.contains(&slot)).map(|(&key, _)| key)
    }

    /// Memory in bytes of the buckets and lists.
    pub(crate) fn bytes(&self) -> usize {
        let buckets: usize = self.buckets.iter().map(|bucket| bucket.bytes.len()).sum();
        let oversized: usize = self.oversized.values().map(|slots| slots.capacity() * size_of::<u32>()).sum();
        buckets
            + self.buckets.capacity() * size_of::<TableBucket>()
            + oversized
            + self.oversized.allocation_size()
    }
}

/// A table in the making, from entries that ascend.
#[derive(Debug)]
pub(crate) struct BulkLoad {
    table: BucketTable,
    /// The bucket behind those that are made, with room for entries that may come.
    next: TableBucket,
    /// The mixed key of the last entry.
    key: u32,
    /// The number of entries of `key` at the end of `next`; 0 where its slots are in a list.
    same: usize,
    /// Bytes of buckets that were made since memory was last asked for.
    made: usize,
}

/// Bytes of memory that are asked for at once: fewer than an allocator gets from the system as a block of its own.
const AT_ONCE: usize = 96 << 10;

impl BulkLoad {
    /// An empty table for slots of at most `last`.
    pub(crate) fn new(last: u32) -> Self {
        let mut depth = 0;
        while u64::from(last) >= (1 << (SLOT_BITS + depth)) - 1 {
            depth += 1;
        }
        let buckets = Vec::with_capacity(1 << depth);
        let mut next = TableBucket { depth, ..TableBucket::default() };
        next.lay_out(1 << SLOT_BITS);
        Self {
            table: BucketTable { depth, buckets, oversized: HashMap::new() },
            next,
            key: 0,
            same: 0,
            made: 0,
        }
    }

    /// Adds an entry, a mixed key in the upper half and a slot in the lower. Entries must ascend.
    #[inline]
    pub(crate) fn push(&mut self, entry: u64) {
        let (mixed, slot) = ((entry >> 32) as u32, entry & u64::from(u32::MAX));
        let number = (u64::from(mixed) >> (u32::BITS - self.table.depth)) as usize;
        while self.table.buckets.len() < number {
            self.make();
        }
        if mixed != self.key || self.next.len == 0 {
            (self.key, self.same) = (mixed, 0);
        } else if self.same == 0 || self.same == FEW {
            return self.push_oversized(slot);
        }
        self.same += 1;
        if self.next.bytes.len() < (self.next.len as usize + 1) * WIDTH + SPARE {
            self.next.lay_out(2 * (self.next.len as usize + 1));
        }
        self.next.push(self.next.entry(mixed, slot));
    }

    /// Adds one more slot to the list of the last key, and moves there the slots of the key that stand in the bucket.
    #[cold]
    fn push_oversized(&mut self, slot: u64) {
        let next = &mut self.next;
        let list = self.table.oversized.entry(unmix(self.key)).or_default();
        if self.same > 0 {
            let first = next.len as usize - self.same;
            list.extend((first..next.len as usize).map(|place| next.slot(place) as u32));
            next.len = first as u32;
            next.push(next.entry(self.key, next.mark()));
            self.same = 0;
        }
        list.push(slot as u32);
    }

    /// Makes the buckets that are left, and gives the table.
    pub(crate) fn finish(mut self) -> BucketTable {
        while self.table.buckets.len() < 1 << self.table.depth {
            self.make();
        }
        self.table.oversized.values_mut().for_each(Vec::shrink_to_fit);
        self.table
    }

    /// Makes the next bucket.
    fn make(&mut self) {
        let next = &mut self.next;
        let bytes = next.laid_out(room(next.len as usize));
        self.made += bytes.len();
        if self.made > AT_ONCE {
            // An allocator that is asked for one bucket at a time asks the system for each. This makes it ask for more.
            drop(std::hint::black_box(Vec::<u8>::with_capacity(AT_ONCE)));
            self.made = 0;
        }
        self.table.buckets.push(TableBucket { bytes, ..*next });
        next.len = 0;
    }
}

/// The mixed key of a key (the finalizer of MurmurHash3). Different keys have different ones, and [`unmix`] gives the
/// key back.
#[inline]
fn mix(key: u32) -> u32 {
    let mut mixed = (key ^ key >> 16).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

/// The key of a mixed key.
fn unmix(mixed: u32) -> u32 {
    let mut key = (mixed ^ mixed >> 16).wrapping_mul(0x7ed1_b41d);
    key = (key ^ key >> 13 ^ key >> 26).wrapping_mul(0xa5cb_9243);
    key ^ key >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use proptest::prelude::*;

    #[test]
    fn mixed_keys_come_back() {
        let mut rng = SplitMix64::new(4);
        for key in (0..2_000).map(|_| rng.next_u64() as u32).chain([0, 1, u32::MAX, 1 << 31]) {
            assert_eq!((unmix(mix(key)), mix(unmix(key))), (key, key));
        }
    }

    /// The definition: slots with their keys, in the order in which they came.
    fn of(stored: &[(u32, u32)], key: u32) -> Vec<u32> {
        stored.iter().filter(|(other, _)| *other == key).map(|&(_, slot)| slot).collect()
    }

    /// All buckets sorted, each at the place of its depth, with the keys that belong there and no slot too wide.
    fn check(table: &BucketTable, stored: &[(u32, u32)]) {
        let mut len = 0;
        for (number, bucket) in table.buckets.iter().enumerate() {
            let covers = table.depth - bucket.depth;
            let first = number >> covers << covers;
            assert!(number == first || bucket.len == 0);
            assert_eq!(table.buckets[first].depth, bucket.depth);
            let entries: Vec<u64> = (0..bucket.len as usize).map(|place| bucket.at(place)).collect();
            assert!(entries.is_sorted_by_key(|entry| entry >> bucket.slot_bits()));
            assert!(bucket.bytes.len() <= 2 * (entries.len() + 8) * WIDTH + SPARE, "{}", entries.len());
            len += entries.iter().filter(|entry| **entry & bucket.mark() != bucket.mark()).count();
        }
        assert!(table.oversized.values().all(|slots| slots.len() > FEW));
        len += table.oversized.values().map(Vec::len).sum::<usize>();
        assert_eq!(len, stored.len());
        let mut shared: Vec<u32> = table.shared().collect();
        shared.sort_unstable();
        let mut expected: Vec<u32> = Vec::new();
        let mut keys: Vec<u32> = stored.iter().map(|&(key, _)| key).collect();
        keys.sort_unstable();
        for same in keys.chunk_by(|a, b| a == b).filter(|same| same.len() > 1) {
            expected.extend(of(stored, same[0]));
        }
        expected.sort_unstable();
        assert_eq!(shared, expected);
        for &(key, slot) in stored.iter().step_by(stored.len() / 40 + 1) {
            assert_eq!(table.get(key).slots(), of(stored, key));
            assert_eq!(table.key_of(slot), Some(key));
        }
    }

    /// Keys of some kind: spread, in few places, or all in one bucket however deep it is.
    fn key_of(rng: &mut SplitMix64, kind: u8) -> u32 {
        match kind {
            0 => rng.next_u64() as u32,
            1 => rng.below(300) as u32,
            2 => rng.below(3) as u32,
            3 => unmix(rng.below(40_000) as u32),
            _ => unmix(u32::MAX - rng.below(7) as u32 * 5),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_table_is_a_list_of_slots_with_keys(
            seed: u64, kinds in prop::collection::vec(0u8..5, 1..3), apart in prop_oneof![Just(1u32), 2u32..40, Just(9_001)],
            rounds in 1usize..5,
        ) {
            let mut rng = SplitMix64::new(seed);
            let (mut table, mut stored, mut next) = (BucketTable::default(), Vec::new(), 0);
            let mut free: Vec<u32> = Vec::new();
            for round in 0..rounds {
                for _ in 0..rng.below(1_000) {
                    let kind = kinds[rng.below(kinds.len() as u64) as usize];
                    let key = key_of(&mut rng, kind);
                    let slot = free.pop().unwrap_or_else(|| {
                        // Slots need not be next to each other.
                        next += 1 + (rng.below(u64::from(apart)) as u32) / (round as u32 + 1);
                        next
                    });
                    table.insert(key, slot);
                    stored.push((key, slot));
                    if rng.below(8) == 0 {
                        let other = key_of(&mut rng, kinds[0]);
                        let found = table.get(other);
                        prop_assert_eq!(found.slots(), of(&stored, other));
                    }
                }
                check(&table, &stored);
                // Many go: with their keys, some of which are others' now and then, or by going through all.
                let gone: Vec<(u32, u32)> = stored.iter().copied().filter(|_| rng.below(3) > 0).collect();
                let slots: HashSet<u32> = gone.iter().map(|&(_, slot)| slot).collect();
                let is_gone = |slot: u32| slots.contains(&slot);
                if round % 2 == 0 {
                    prop_assert_eq!(table.remove(gone.iter().copied(), is_gone), gone.len());
                } else {
                    let known = gone.iter().filter(|(_, slot)| slot % 3 > 0).copied();
                    prop_assert!(table.remove(known, is_gone) <= gone.len());
                    table.sweep(is_gone);
                }
                stored.retain(|&(_, slot)| !is_gone(slot));
                free.extend(slots);
                check(&table, &stored);
                prop_assert!(free.iter().all(|&slot| table.key_of(slot).is_none()));
            }
            // Filled at once, in the order of the slots.
            stored.sort_unstable_by_key(|&(_, slot)| slot);
            let (keys, slots): (Vec<u32>, Vec<u32>) = stored.iter().copied().unzip();
            let filled = BucketTable::filled(&keys, &slots);
            check(&filled, &stored);
            let held: usize = filled.buckets.iter().map(|bucket| bucket.bytes.len()).sum();
            let room: usize = filled.buckets.iter().map(|bucket| room(bucket.len as usize) * WIDTH + SPARE).sum();
            prop_assert!(held <= room);
        }
    }

    #[test]
    fn an_entry_takes_little_more_than_five_bytes() {
        let mut rng = SplitMix64::new(8);
        let (mut grown, mut keys) = (BucketTable::default(), Vec::new());
        for slot in 0..200_000 {
            keys.push((rng.next_u64() as u32, slot));
            grown.insert(keys[slot as usize].0, slot);
            if slot > 1_000 && slot % 10_007 == 0 {
                let each = grown.bytes() as f64 / f64::from(slot);
                assert!(each < 6.0, "{each} at {slot}");
            }
        }
        let (keys, slots): (Vec<u32>, Vec<u32>) = keys.into_iter().unzip();
        let filled = BucketTable::filled(&keys, &slots);
        assert!(filled.bytes() < 200_000 * 59 / 10, "{}", filled.bytes());
    }
}
