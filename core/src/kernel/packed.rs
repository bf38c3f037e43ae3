//! Numbers of some 30 to 57 bits without gaps between them, and a scan over a run of them for those within h
//! bits of another.

mod listing;
pub mod settle;

use self::listing::Listing;
use super::cpu::{Isa, Level};
use super::{huge_pages::HugeList, prefetch};
use crate::{Error, Result};

/// The widest numbers: with seven bits before them they fit a 64-bit read.
pub const WIDEST: u32 = 57;

/// Bits of a value that are compared first: with seven bits before them they fit 32.
#[cfg(target_arch = "x86_64")]
const NARROW: u32 = 25;

/// The radius up to which the low bits decide: of random values, fewer than one in a hundred passes.
#[cfg(target_arch = "x86_64")]
const NARROW_RADIUS: u32 = 6;

/// How many lines ahead a scan of a long run asks for.
#[cfg(target_arch = "x86_64")]
const LINES_AHEAD: usize = 4;

/// Positions of values that may be near what is wanted, each with its run's tag.
pub type Shortlist = Listing<()>;

impl Shortlist {
    /// Positions with their tags, in the order in which they came.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.rows().map(|(position, tag, ())| (position, tag))
    }
}

/// Values that follow each other, and what they are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Where they begin.
    pub from: u32,
    /// How many there are.
    pub len: u32,
    /// What they are compared with.
    pub wanted: u64,
    /// The largest distance that is wanted; if it is negative, nothing is.
    pub radius: i32,
    /// What is told of each that is found.
    pub tag: u32,
}

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

// SAFETY: 64 bytes of any value without padding; all zero is one of them.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Line {}

/// A packed list.
#[derive(Clone, Debug)]
pub struct Packed {
    lines: HugeList<Line>,
    len: usize,
    width: u32,
    level: Level,
    /// How eight numbers are brought into the lanes of a register, by the bits before the first of them in
    /// its byte.
    lanes: [Lanes<u64, 8>; 8],
    /// The same for the low bits of sixteen.
    #[cfg(target_arch = "x86_64")]
    narrow: [Lanes<u32, 16>; 8],
    /// How many numbers surely lie in two cache lines, sixteen at the most.
    at_once: usize,
}

/// For each of N numbers: the 64/N bytes that it, or its low bits, lie in, counted from the first number's
/// byte, and the bits before it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Lanes<Shift, const N: usize> {
    bytes: [u8; 64],
    shifts: [Shift; N],
}

impl<Shift: From<u8>, const N: usize> Lanes<Shift, N> {
    fn new(width: u32, phase: u32) -> Self {
        let bit = |lane: usize| phase as usize + lane * width as usize;
        let each = 64 / N;
        Self {
            bytes: std::array::from_fn(|i| (bit(i / each) / 8 + i % each) as u8),
            shifts: std::array::from_fn(|lane| Shift::from((bit(lane) % 8) as u8)),
        }
    }
}

impl Packed {
    /// An empty list with room for so many values, of which only the low `width` bits are kept.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a width of 0 or above [`WIDEST`].
    pub fn with_room(room: usize, width: u32) -> Result<Self> {
        if !(1..=WIDEST).contains(&width) {
            return Err(Error::parameter("width", width, format!("1 to {WIDEST} bits")));
        }
        // Eight bytes more than needed, so that every number can be read as eight bytes.
        let lines = (room * width as usize).div_ceil(8).saturating_add(8).div_ceil(64);
        Ok(Self {
            lines: HugeList::filled(lines, Line([0; 64])),
            len: 0,
            width,
            level: Level::in_use(),
            lanes: std::array::from_fn(|phase| Lanes::new(width, phase as u32)),
            #[cfg(target_arch = "x86_64")]
            narrow: std::array::from_fn(|phase| Lanes::new(width, phase as u32)),
            at_once: ((1024 - 511) / width as usize).min(16),
        })
    }

    /// Appends values.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn extend(&mut self, values: impl Iterator<Item = u64>) {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.lines[..]);
        let kept = u64::MAX >> (64 - self.width);
        for value in values {
            let bit = self.len * self.width as usize;
            let word: &mut [u8] = &mut bytes[bit / 8..bit / 8 + 8];
            let before = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            word.copy_from_slice(&(before | (value & kept) << (bit % 8)).to_le_bytes());
            self.len += 1;
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// The value at a position.
    ///
    /// # Panics
    /// For a position that is not in the list.
    #[inline]
    pub fn get(&self, position: usize) -> u64 {
        assert!(position < self.len, "inside of the list");
        self.read(position)
    }

    #[inline(always)]
    fn read(&self, position: usize) -> u64 {
        let bit = position * self.width as usize;
        let bytes: &[u8] = bytemuck::cast_slice(&self.lines[..]);
        let word = bytes[bit / 8..bit / 8 + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(word) >> (bit % 8) & (u64::MAX >> (64 - self.width))
    }

    /// Asks for the cache lines that a run lies in, for four of a long one.
    #[inline(always)]
    pub fn prefetch(&self, from: usize, len: usize) {
        let first_bit = from * self.width as usize;
        let last_bit = first_bit + (len * self.width as usize).saturating_sub(1);
        let (first, last) = (first_bit / 512, last_bit / 512);
        // Most runs lie in one line to four. No branch for others, because it would have to wait for the
        // directory: a scan asks for what comes later.
        prefetch::read(&self.lines, first);
        prefetch::read(&self.lines, (first + 1).min(last));
        prefetch::read(&self.lines, first.midpoint(last));
        prefetch::read(&self.lines, last);
    }

    /// Appends to `list` where in each of the runs those values are that may be within its radius of what is
    /// wanted, in order and with its tag: all that are, and a few others where only a part of each value was
    /// compared. No radius may be above `radius`. Returns how many values were compared.
    ///
    /// # Panics
    /// For a run that is not in the list.
    #[inline(always)]
    pub fn shortlist(&self, runs: &[Run], radius: u32, list: &mut Shortlist) -> usize {
        debug_assert!(runs.iter().all(|run| run.radius <= radius as i32), "no radius above the largest");
        let mut total = 0;
        for run in runs {
            total += run.len as usize;
            assert!(run.from as usize + run.len as usize <= self.len, "inside of the list");
        }
        match self.level.isa() {
            // SAFETY: the level is the proof that this processor has the features; the runs were checked.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi if radius <= NARROW_RADIUS => unsafe { self.shortlist_narrow(runs, total, list) },
            _ => self.shortlist_whole(runs, total, list),
        }
        total
    }

    /// By comparing whole values.
    fn shortlist_whole(&self, runs: &[Run], total: usize, list: &mut Shortlist) {
        list.make_room(total);
        for run in runs {
            let Ok(radius) = u32::try_from(run.radius) else { continue };
            let (from, len, wanted) = (run.from as usize, run.len as usize, run.wanted);
            for at in (0..len).step_by(64) {
                let (from, n) = (from + at, (len - at).min(64));
                let mut within = match self.level.isa() {
                    Isa::Portable => self.within_portable(from, n, wanted, radius),
                    // SAFETY: the level is the proof that this processor has the features.
                    #[cfg(target_arch = "x86_64")]
                    Isa::Popcnt | Isa::Avx2 | Isa::Avx512 | Isa::Avx512Popcnt => unsafe {
                        self.within_popcnt(from, n, wanted, radius)
                    },
                    // SAFETY: as above; the caller has checked the run.
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512Vbmi => unsafe { self.within_avx512(from, n, wanted, radius) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => unsafe { self.within_neon(from, n, wanted, radius) },
                };
                while within != 0 {
                    list.write((from + within.trailing_zeros() as usize) as u32, run.tag, (), true);
                    within &= within - 1;
                }
            }
        }
    }

    /// By comparing the low bits of up to sixteen values at a time, without a branch that depends on what is
    /// found.
    ///
    /// # Safety
    /// The runs must lie inside of the list and be `total` long together.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,bmi2,popcnt")]
    unsafe fn shortlist_narrow(&self, runs: &[Run], total: usize, list: &mut Shortlist) {
        use std::arch::x86_64::*;
        list.make_room(total);
        let places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let (positions, tags) = (list.positions.as_mut_ptr(), list.tags.as_mut_ptr());
        let mut found = list.len;
        for run in runs {
            let (mut from, mut len) = (run.from as usize, run.len as usize);
            let tag = _mm512_set1_epi32(run.tag as i32);
            loop {
                let now = len.min(self.at_once);
                // SAFETY: the caller says so.
                let near = unsafe { self.near_narrow(from, now, run.wanted, run.radius) };
                let position = _mm512_add_epi32(places, _mm512_set1_epi32(from as i32));
                // SAFETY: there is room for all values of the runs and sixteen more.
                unsafe {
                    let first = _mm512_maskz_compress_epi32(near, position);
                    _mm512_storeu_si512(positions.add(found).cast(), first);
                    _mm512_storeu_si512(tags.add(found).cast(), tag);
                }
                found += near.count_ones() as usize;
                if len <= now {
                    break;
                }
                (from, len) = (from + now, len - now);
                prefetch::read(&self.lines, (from * self.width as usize) / 512 + LINES_AHEAD);
            }
        }
        list.len = found;
    }

    /// Which of the `n` values from `from` on, at most [`at_once`](Self::at_once), are within `radius` of
    /// `wanted` in their low [`NARROW`] bits.
    ///
    /// # Safety
    /// The run must lie inside of the list.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,bmi2,popcnt")]
    unsafe fn near_narrow(&self, from: usize, n: usize, wanted: u64, radius: i32) -> u16 {
        use std::arch::x86_64::*;
        let bit = from * self.width as usize;
        let last_bit = bit + (n * self.width as usize).saturating_sub(1);
        let lanes = &self.narrow[bit % 8];
        // SAFETY: both arrays are 64 bytes long and aligned to 64. An empty run may begin where the lines
        // end, but there are eight bytes more than the values need; a run's last bit lies in a line of the
        // list.
        let (bytes, shifts, low, high) = unsafe {
            let line = self.lines.as_ptr();
            (
                _mm512_load_si512(lanes.bytes.as_ptr().cast()),
                _mm512_load_si512(lanes.shifts.as_ptr().cast()),
                _mm512_load_si512(line.add(bit / 512).cast()),
                _mm512_load_si512(line.add(last_bit / 512).cast()),
            )
        };
        let places = _mm512_add_epi8(bytes, _mm512_set1_epi8((bit / 8 % 64) as i8));
        let words = _mm512_srlv_epi32(_mm512_permutex2var_epi8(low, places, high), shifts);
        let kept = _mm512_set1_epi32(((1u32 << self.width.min(NARROW)) - 1) as i32);
        let differing = _mm512_and_si512(_mm512_xor_si512(words, _mm512_set1_epi32(wanted as i32)), kept);
        let near = _mm512_cmple_epi32_mask(_mm512_popcnt_epi32(differing), _mm512_set1_epi32(radius));
        _bzhi_u32(u32::from(near), n as u32) as u16
    }

    /// Where in an ascending run a value stands.
    ///
    /// # Panics
    /// For a run that is not in the list.
    #[inline(always)]
    pub fn find_in_ascending(&self, (mut from, mut len): (usize, usize), value: u64) -> Option<usize> {
        assert!(from <= self.len && len <= self.len - from, "inside of the list");
        while len > self.at_once {
            let half = len / 2;
            if self.read(from + half) <= value {
                from += half;
                len -= half;
            } else {
                len = half;
            }
        }
        let mut same = match self.level.isa() {
            // SAFETY: the level is the proof that this processor has the features; the run was checked, and
            // is short.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { self.near_narrow(from, len, value, 0) },
            _ => (0..len).fold(0, |same, place| same | u16::from(self.read(from + place) == value) << place),
        };
        while same != 0 {
            let position = from + same.trailing_zeros() as usize;
            if self.read(position) == value {
                return Some(position);
            }
            same &= same - 1;
        }
        None
    }

    /// Which of the `n`, at most 64, values from `from` on are within `radius` of `wanted`.
    #[inline(always)]
    fn within_portable(&self, from: usize, n: usize, wanted: u64, radius: u32) -> u64 {
        (0..n).fold(0, |within, place| {
            let distance = (self.read(from + place) ^ wanted).count_ones();
            within | u64::from(distance <= radius) << place
        })
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    fn within_popcnt(&self, from: usize, n: usize, wanted: u64, radius: u32) -> u64 {
        self.within_portable(from, n, wanted, radius)
    }

    /// Eight numbers at a time: one permutation of the bytes of the two cache lines that they can lie in, one
    /// shift.
    ///
    /// # Safety
    /// The run must lie inside of the list and not be longer than 64.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq")]
    unsafe fn within_avx512(&self, from: usize, n: usize, wanted: u64, radius: u32) -> u64 {
        use std::arch::x86_64::*;
        let width = self.width as usize;
        let kept = _mm512_set1_epi64((u64::MAX >> (64 - self.width)) as i64);
        let wanted = _mm512_set1_epi64(wanted as i64);
        let radius = _mm512_set1_epi64(i64::from(radius));
        let bit = from * width;
        let (mut byte, phase) = (bit / 8, bit % 8);
        let lanes = &self.lanes[phase];
        // SAFETY: both arrays are 64 bytes long and aligned to 64.
        let (bytes, shifts) = unsafe {
            (_mm512_load_si512(lanes.bytes.as_ptr().cast()), _mm512_load_si512(lanes.shifts.as_ptr().cast()))
        };
        let last_byte = (bit + n * width).saturating_sub(1) / 8;
        let mut within = 0;
        for at in (0..n).step_by(8) {
            let (first, last) = (byte / 64, last_byte.min(byte + width) / 64);
            // SAFETY: the bytes of numbers inside of the list lie in lines of the list; no later byte than
            // the run's last is looked for.
            let (low, high) = unsafe {
                let line = self.lines.as_ptr();
                (_mm512_load_si512(line.add(first).cast()), _mm512_load_si512(line.add(last).cast()))
            };
            // Bytes 0 to 63 are the first line's, 64 to 127 the last line's. If those are one, no byte above
            // 63 is needed by a lane that counts.
            let places = _mm512_add_epi8(bytes, _mm512_set1_epi8((byte % 64) as i8));
            let words = _mm512_permutex2var_epi8(low, places, high);
            let values = _mm512_and_si512(_mm512_srlv_epi64(words, shifts), kept);
            let distances = _mm512_popcnt_epi64(_mm512_xor_si512(values, wanted));
            within |= u64::from(_mm512_cmple_epu64_mask(distances, radius)) << at;
            byte += width;
        }
        // Lanes behind the end hold what comes after the run.
        within & (u64::MAX >> (64 - n))
    }

    /// Eight numbers at a time, two of which always lie in sixteen bytes. They are compared where they are in
    /// their words: what is wanted is moved there instead, once for the run, at the price of six numbers of
    /// the portable loop.
    #[cfg(target_arch = "aarch64")]
    #[target_feature(enable = "neon")]
    fn within_neon(&self, from: usize, n: usize, wanted: u64, radius: u32) -> u64 {
        use super::neon;
        use std::arch::aarch64::*;
        if n < 6 {
            return self.within_portable(from, n, wanted, radius);
        }
        let (wanted_of_one, radius_of_one) = (wanted, radius);
        let width = self.width as usize;
        let (mut byte, phase) = (from * width / 8, from * width % 8);
        let lanes = &self.lanes[phase];
        // Of each two numbers the first byte, the bytes from there on for each, and the bits that count.
        let first: [usize; 4] = std::array::from_fn(|i| usize::from(lanes.bytes[16 * i]));
        let places: [uint8x16_t; 4] = std::array::from_fn(|i| {
            // SAFETY: 16 of the 64 bytes.
            let bytes = unsafe { vld1q_u8(lanes.bytes.as_ptr().add(16 * i)) };
            vsubq_u8(bytes, vdupq_n_u8(first[i] as u8))
        });
        let moved = |value: u64| -> [uint8x16_t; 4] {
            std::array::from_fn(|i| {
                // SAFETY: two of the eight numbers.
                let shifts = unsafe { vld1q_u64(lanes.shifts.as_ptr().add(2 * i)) };
                vreinterpretq_u8_u64(vshlq_u64(vdupq_n_u64(value), vreinterpretq_s64_u64(shifts)))
            })
        };
        let (kept, wanted) = (moved(u64::MAX >> (64 - self.width)), moved(wanted));
        let radii = neon::radii(radius);
        let bytes: &[u8] = bytemuck::cast_slice(&self.lines[..]);
        let mut within = 0;
        for at in (0..n).step_by(8) {
            let Some(group) = bytes[byte..].get(..first[3] + 16) else {
                // The sixteen bytes would end behind the list's last line.
                within |= self.within_portable(from + at, n - at, wanted_of_one, radius_of_one) << at;
                break;
            };
            let counts = std::array::from_fn(|i| {
                // SAFETY: the group has sixteen bytes from the fourth of these places on, which are in order.
                let two = unsafe { vld1q_u8(group.as_ptr().add(first[i])) };
                let bits = vandq_u8(vqtbl1q_u8(two, places[i]), kept[i]);
                vcntq_u8(veorq_u8(bits, wanted[i]))
            });
            let near = vcle_u8(neon::sums(counts), radii);
            within |= u64::from(neon::mask_of_eight(near)) << at;
            byte += width;
        }
        // Lanes behind the end hold what comes after the run.
        within & (u64::MAX >> (64 - n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// In two parts.
    fn packed(values: &[u64], width: u32) -> Packed {
        let mut packed = Packed::with_room(values.len(), width).unwrap();
        let (one, other) = values.split_at(values.len() / 3);
        packed.extend(one.iter().copied());
        packed.extend(other.iter().copied());
        packed
    }

    proptest! {
        #[test]
        fn every_kernel_compares_as_the_definition_says(
            values in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..9], 0..200),
            width in 1u32..=WIDEST, run in (0usize..200, 0usize..200),
            wanted in prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..9], radius in 0u32..40, tag: u32,
        ) {
            let mut packed = packed(&values, width);
            let kept = u64::MAX >> (64 - width);
            let from = run.0.min(values.len());
            let len = run.1.min(values.len() - from);
            let wanted = wanted & kept;
            for (position, value) in values.iter().enumerate() {
                prop_assert_eq!(packed.get(position), value & kept);
            }
            let near = |compared: u64| -> Vec<(u32, u32)> {
                let near = |at: usize| ((values[at] ^ wanted) & kept & compared).count_ones() <= radius;
                (from..from + len).filter(|&at| near(at)).map(|at| (at as u32, tag)).collect()
            };
            for level in Level::available() {
                packed.level = level;
                #[cfg(target_arch = "x86_64")]
                let narrow = level.isa() == Isa::Avx512Vbmi && radius <= NARROW_RADIUS;
                #[cfg(target_arch = "x86_64")]
                let compared = if narrow { (1 << NARROW) - 1 } else { u64::MAX };
                #[cfg(not(target_arch = "x86_64"))]
                let compared = u64::MAX;
                let mut list = Shortlist::default();
                let run = Run { from: from as u32, len: len as u32, wanted, radius: radius as i32, tag };
                for _ in 0..2 {
                    let compared = packed.shortlist(&[run, Run { radius: -1, ..run }, run], radius, &mut list);
                    prop_assert_eq!(compared, 3 * len);
                }
                let found: Vec<(u32, u32)> = list.iter().collect();
                prop_assert_eq!(found, near(compared).repeat(4), "{:?}", level);
            }
        }

        #[test]
        fn finding_in_an_ascending_run(
            values in prop::collection::btree_set(prop_oneof![any::<u64>(), 0u64..99], 0..200),
            width in 30u32..=WIDEST, run in (0usize..200, 0usize..200), wanted in prop_oneof![any::<u64>(), 0u64..99],
        ) {
            let values: Vec<u64> = values.into_iter().map(|value| value >> (64 - width)).collect();
            let mut values: Vec<u64> = values.into_iter().chain(0..9).collect();
            values.sort_unstable();
            values.dedup();
            let mut packed = packed(&values, width);
            let from = run.0.min(values.len());
            let len = run.1.min(values.len() - from);
            for level in Level::available() {
                packed.level = level;
                for &value in values.iter().chain([&wanted]) {
                    let place = values[from..from + len].binary_search(&value).ok().map(|place| from + place);
                    prop_assert_eq!(packed.find_in_ascending((from, len), value), place, "{:?}", level);
                }
            }
        }
    }

    #[test]
    fn impossible_widths_are_refused() {
        assert!(Packed::with_room(1, 0).is_err());
        assert!(Packed::with_room(1, WIDEST + 1).is_err());
        let none = Packed::with_room(0, 40).unwrap();
        let mut list = Shortlist::default();
        none.shortlist(&[Run { from: 0, len: 0, wanted: 0, radius: 3, tag: 1 }], 3, &mut list);
        assert!(none.len() == 0 && list.is_empty() && none.find_in_ascending((0, 0), 0).is_none());
        none.prefetch(0, 0);
    }
}
