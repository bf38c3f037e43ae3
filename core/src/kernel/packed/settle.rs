//! Settles what was listed for probes of the dial index: which values are matches, and which probe reports
//! each.

use super::listing::Listing;
use super::{Packed, Shortlist};
#[cfg(target_arch = "x86_64")]
use crate::kernel::cpu::Isa;
use crate::kernel::weakest::MAX_TABLES;

/// Queries of which something is known at the same time.
pub const LANES: usize = 64;

/// What a query wants of each table.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Wanted {
    /// The bits outside of the table's key, moved together.
    pub rests: [u64; MAX_TABLES],
    /// Which of these are flipped in the keys of other tables.
    pub flipped: [u64; MAX_TABLES],
}

/// What a position is listed for: the probe of a query at a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u32);

const TABLE_BITS: u32 = MAX_TABLES.ilog2();
const FLIP_BITS: u32 = 2;
const LANE_BITS: u32 = LANES.ilog2();
const FLIPS_AT: u32 = TABLE_BITS;
const LANE_AT: u32 = FLIPS_AT + FLIP_BITS;
const PROBE_AT: u32 = LANE_AT + LANE_BITS;

impl Tag {
    /// Probe number `probe`, below 2²¹, of the query in `lane`, at a table with so many bits of its key
    /// flipped, three at most.
    #[inline(always)]
    pub fn new(table: usize, flips: u32, lane: usize, probe: usize) -> Self {
        debug_assert!(table < MAX_TABLES && flips >> FLIP_BITS == 0 && lane < LANES);
        debug_assert!(probe >> (32 - PROBE_AT) == 0);
        Self(table as u32 | flips << FLIPS_AT | (lane as u32) << LANE_AT | (probe as u32) << PROBE_AT)
    }

    /// The tag that was written as a number.
    #[inline(always)]
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// As a number.
    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The table.
    #[inline(always)]
    pub fn table(self) -> usize {
        self.0 as usize % MAX_TABLES
    }

    /// How many bits of the key are flipped.
    #[inline(always)]
    pub fn flips(self) -> u32 {
        self.0 >> FLIPS_AT & ((1 << FLIP_BITS) - 1)
    }

    /// The lane of the query.
    #[inline(always)]
    pub fn lane(self) -> usize {
        (self.0 >> LANE_AT) as usize % LANES
    }

    /// The number of the probe.
    #[inline(always)]
    pub fn probe(self) -> usize {
        (self.0 >> PROBE_AT) as usize
    }
}

/// The keys of the tables, as the rests of other tables hold them.
#[derive(Clone, Debug)]
pub struct KeysInRests {
    /// `keys[u][t]`: where in the rest of table t the bits of table u's key are.
    keys: [[u64; MAX_TABLES]; MAX_TABLES],
    tables: usize,
}

impl KeysInRests {
    /// Of disjoint masks, of which the first [`MAX_TABLES`] are used; `extract` moves the bits of a mask
    /// together.
    pub fn new(masks: &[u64], extract: impl Fn(u64, u64) -> u64) -> Self {
        let mut keys = [[0; MAX_TABLES]; MAX_TABLES];
        for (of, &key) in keys.iter_mut().zip(masks) {
            for (key_in_rest, &mask) in of.iter_mut().zip(masks) {
                *key_in_rest = extract(key, !mask);
            }
        }
        Self { keys, tables: masks.len().min(MAX_TABLES) }
    }

    /// Whether a table before the tag's finds the value with these differing bits: as it is, or by a flip.
    #[inline(always)]
    fn found_before(&self, tag: Tag, wanted: &Wanted, differing: u64) -> bool {
        let t = tag.table();
        (0..t).any(|u| {
            let flipped = differing & self.keys[u][t];
            flipped & (flipped.wrapping_sub(1) | !wanted.flipped[t]) == 0
        })
    }
}

/// A list of what may match, with what decides about it. Its tags are of probes that flip at most one bit.
#[derive(Clone, Copy, Debug)]
pub struct Unsettled<'a> {
    /// The list.
    pub list: &'a Shortlist,
    /// What the query in each lane wants.
    pub wanted: &'a [Wanted; LANES],
    /// The keys of the tables.
    pub keys: &'a KeysInRests,
    /// The largest distance of a match.
    pub radius: u32,
}

/// Matches in the order in which they were listed, each with the differing bits of its rest.
pub type Matches = Listing<u64>;

impl Matches {
    /// Positions in the packed list, what they were listed for, and the differing bits of the rest.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = (u32, Tag, u64)> {
        self.rows().map(|(position, tag, differing)| (position, Tag(tag), differing))
    }
}

/// What of a list has been settled.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// Matches in the first table.
    pub first: Matches,
    /// Those in the others.
    pub later: Matches,
}

impl Packed {
    /// Of a list, those values within the radius of what was wanted that no table before the probe's finds
    /// too. Returns how many values are within the radius.
    ///
    /// # Panics
    /// If the list is one of positions elsewhere.
    #[inline(always)]
    pub fn settle(&self, unsettled: Unsettled<'_>, settled: &mut Settled) -> usize {
        for matches in [&mut settled.first, &mut settled.later] {
            matches.clear();
            matches.make_room(unsettled.list.len());
        }
        match self.level.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { self.settle_avx512(unsettled, settled) },
            _ => self.settle_one_by_one(unsettled, settled),
        }
    }

    #[inline(always)]
    fn settle_one_by_one(&self, unsettled: Unsettled<'_>, settled: &mut Settled) -> usize {
        let Unsettled { list, wanted, keys, radius } = unsettled;
        let mut within = 0;
        for (position, tag) in list.iter() {
            let tag = Tag(tag);
            let wanted = &wanted[tag.lane()];
            let differing = self.get(position as usize) ^ wanted.rests[tag.table()];
            let near = differing.count_ones() + tag.flips() <= radius;
            within += usize::from(near);
            let to = if tag.table() == 0 { &mut settled.first } else { &mut settled.later };
            to.write(position, tag.0, differing, near && !keys.found_before(tag, wanted, differing));
        }
        within
    }

    /// Eight at a time.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,popcnt")]
    fn settle_avx512(&self, unsettled: Unsettled<'_>, settled: &mut Settled) -> usize {
        use std::arch::x86_64::*;
        let Unsettled { list, wanted, keys, radius } = unsettled;
        let (positions, tags) = (&list.positions[..list.len], &list.tags[..list.len]);
        for Matches { positions, tags, with, .. } in [&settled.first, &settled.later] {
            assert!(positions.len().min(tags.len()).min(with.len()) >= list.len + 8, "room for all");
        }
        let number = |n: u64| _mm512_set1_epi64(n as i64);
        let kept = number(u64::MAX >> (64 - self.width));
        let (words, queries) = (self.lines.as_ptr().cast::<i64>(), wanted.as_ptr().cast::<i64>());
        let mut within = 0;
        for at in (0..list.len).step_by(8) {
            let count = (list.len - at).min(8);
            let here = (u16::MAX >> (16 - count)) as u8;
            // SAFETY: `count` numbers of each list; what the mask leaves out is not read.
            let (position, tag) = unsafe {
                let read = |from: &[u32]| {
                    let narrow = _mm512_maskz_loadu_epi32(u16::from(here), from.as_ptr().add(at).cast());
                    _mm512_cvtepu32_epi64(_mm512_castsi512_si256(narrow))
                };
                (read(positions), read(tags))
            };
            let inside = _mm512_cmplt_epu64_mask(position, number(self.len as u64));
            assert!(here & !inside == 0, "positions inside of the list");
            let table = _mm512_and_si512(tag, number(MAX_TABLES as u64 - 1));
            let flips = _mm512_and_si512(_mm512_srli_epi64::<FLIPS_AT>(tag), number((1 << FLIP_BITS) - 1));
            let lane = _mm512_and_si512(_mm512_srli_epi64::<LANE_AT>(tag), number(LANES as u64 - 1));
            const { assert!(size_of::<Wanted>() == 8 * 2 * MAX_TABLES && MAX_TABLES == 8) };
            let of_rests = _mm512_add_epi64(_mm512_slli_epi64::<4>(lane), table);
            let of_flipped = _mm512_add_epi64(of_rests, number(MAX_TABLES as u64));
            let bit = _mm512_mul_epu32(position, number(u64::from(self.width)));
            // SAFETY: lanes and tables are cut to their numbers; the positions are in the list (0 where there
            // is none), and from the first byte of each value on eight can be read.
            let (rest, flipped, word) = unsafe {
                let none = _mm512_setzero_si512();
                (
                    _mm512_mask_i64gather_epi64::<8>(none, here, of_rests, queries),
                    _mm512_mask_i64gather_epi64::<8>(none, here, of_flipped, queries),
                    _mm512_mask_i64gather_epi64::<1>(none, here, _mm512_srli_epi64::<3>(bit), words),
                )
            };
            let value = _mm512_srlv_epi64(word, _mm512_and_si512(bit, number(7)));
            let differing = _mm512_and_si512(_mm512_xor_si512(value, rest), kept);
            let distance = _mm512_add_epi64(_mm512_popcnt_epi64(differing), flips);
            let near = _mm512_mask_cmple_epu64_mask(here, distance, number(u64::from(radius)));
            within += near.count_ones() as usize;
            let mut own = near;
            for (u, keys) in (0..).zip(&keys.keys[..keys.tables.saturating_sub(1)]) {
                // SAFETY: the eight numbers of an array.
                let keys = unsafe { _mm512_loadu_si512(keys.as_ptr().cast()) };
                let held = _mm512_and_si512(differing, _mm512_permutexvar_epi64(table, keys));
                let less = _mm512_add_epi64(held, number(u64::MAX));
                // held & (less | !flipped)
                let beyond = _mm512_ternarylogic_epi64::<0xD0>(held, less, flipped);
                own &= !(_mm512_testn_epi64_mask(beyond, beyond) & _mm512_cmpgt_epu64_mask(table, number(u)));
            }
            let first = own & _mm512_testn_epi64_mask(table, table);
            for (these, to) in [(first, &mut settled.first), (own & !first, &mut settled.later)] {
                let narrow = |numbers| _mm512_cvtepi64_epi32(_mm512_maskz_compress_epi64(these, numbers));
                // SAFETY: there is room for the whole list and eight more, and no more than `at` have been
                // written.
                unsafe {
                    _mm256_storeu_si256(to.positions.as_mut_ptr().add(to.len).cast(), narrow(position));
                    _mm256_storeu_si256(to.tags.as_mut_ptr().add(to.len).cast(), narrow(tag));
                    let differing = _mm512_maskz_compress_epi64(these, differing);
                    _mm512_storeu_si512(to.with.as_mut_ptr().add(to.len).cast(), differing);
                }
                to.len += these.count_ones() as usize;
            }
        }
        within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::cpu::Level;
    use crate::kernel::packed::Run;
    use proptest::prelude::*;

    #[test]
    fn a_tag_says_what_it_was_made_of() {
        for (table, flips, lane, probe) in [(0, 0, 0, 0), (7, 2, 63, (1 << 21) - 1), (3, 1, 17, 5)] {
            let tag = Tag::from_bits(Tag::new(table, flips, lane, probe).bits());
            assert_eq!((tag.table(), tag.flips(), tag.lane(), tag.probe()), (table, flips, lane, probe));
        }
    }

    #[test]
    #[should_panic(expected = "inside of the list")]
    fn positions_elsewhere_are_refused() {
        let mut long = Packed::with_room(20, 40).unwrap();
        long.extend(std::iter::repeat_n(0, 20));
        let mut list = Shortlist::default();
        long.shortlist(&[Run { from: 10, len: 3, wanted: 0, radius: 3, tag: 0 }], 3, &mut list);
        let mut short = Packed::with_room(9, 40).unwrap();
        short.extend(0..9);
        let keys = KeysInRests::new(&[0xff], |value, mask| Level::PORTABLE.extract(value, mask));
        let wanted = [Wanted::default(); LANES];
        let unsettled = Unsettled { list: &list, wanted: &wanted, keys: &keys, radius: 3 };
        short.settle(unsettled, &mut Settled::default());
    }

    proptest! {
        /// Against whole hashes: the tables whose key differs in no bit, or in one that is flipped, find one.
        #[test]
        fn every_kernel_settles_as_the_definition_says(
            hashes in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(!0), 0u64..99], 1..40),
            tables in 1usize..=8, p in 7u32..=8, radius in 0u32..9,
            queries in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0u32..64, 0..6), any::<u64>()), LANES),
            listed in prop::collection::vec((any::<prop::sample::Index>(), 0..LANES, 0usize..8, 0u32..=1, 0usize..99), 0..70),
        ) {
            let kernel = Level::PORTABLE;
            let masks: Vec<u64> = (0..tables as u32).map(|t| ((1u64 << p) - 1) << (t * p)).collect();
            let keys = KeysInRests::new(&masks, |value, mask| kernel.extract(value, mask));
            let width = 64 - p;
            let mut packed = Packed::with_room(hashes.len() * tables, width).unwrap();
            for &mask in &masks {
                packed.extend(hashes.iter().map(|&hash| kernel.extract(hash, !mask)));
            }
            let queries: Vec<(u64, u64)> = queries
                .into_iter()
                .map(|(of, bits, flipped)| (bits.iter().fold(*of.get(&hashes), |hash, bit| hash ^ 1 << bit), flipped))
                .collect();
            let mut wanted = [Wanted::default(); LANES];
            for (wanted, &(hash, flipped)) in wanted.iter_mut().zip(&queries) {
                for (t, &mask) in masks.iter().enumerate() {
                    wanted.rests[t] = kernel.extract(hash, !mask);
                    wanted.flipped[t] = kernel.extract(flipped, !mask);
                }
            }
            let (mut list, mut within) = (Shortlist::default(), 0);
            let mut expected = [Vec::new(), Vec::new()];
            for (of, lane, t, flips, probe) in listed {
                let (at, t) = (of.index(hashes.len()), t % tables);
                let position = (t * hashes.len() + at) as u32;
                let tag = Tag::new(t, flips, lane, probe);
                let (hash, flipped) = queries[lane];
                // Whatever is there is listed: a radius of all bits.
                let run = Run { from: position, len: 1, wanted: 0, radius: 64, tag: tag.bits() };
                packed.shortlist(&[run], 64, &mut list);
                let differing = (hashes[at] ^ hash) & !masks[t];
                let near = differing.count_ones() + flips <= radius;
                within += usize::from(near);
                let before = masks[..t].iter().any(|mask| match (differing & mask).count_ones() {
                    0 => true,
                    1 => differing & mask & flipped != 0,
                    _ => false,
                });
                if near && !before {
                    expected[usize::from(t > 0)].push((position, tag, kernel.extract(differing, !masks[t])));
                }
            }
            let mut settled = Settled::default();
            for level in Level::available() {
                packed.level = level;
                let unsettled = Unsettled { list: &list, wanted: &wanted, keys: &keys, radius };
                prop_assert_eq!(packed.settle(unsettled, &mut settled), within);
                for (matches, expected) in [&settled.first, &settled.later].into_iter().zip(&expected) {
                    prop_assert_eq!(&matches.iter().collect::<Vec<_>>(), expected, "{:?}", level);
                    prop_assert_eq!((matches.len(), matches.is_empty()), (expected.len(), expected.is_empty()));
                }
            }
        }
    }
}
