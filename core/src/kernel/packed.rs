//! A list of numbers of 32 to 57 bits, and a scan over runs of it for numbers that may differ from another in few bits
//! alone. The dial index keeps in it the bits of hashes that are not in a table's key.
//!
//! A cache line holds as many numbers as fit: first the high 32 bits of each, then the low bits of each without gaps
//! between them. The scan compares high bits alone, in which one of a million random numbers is within 3 bits. The
//! caller compares the low bits of the numbers that the scan finds; they are then in the cache.

#[cfg(target_arch = "x86_64")]
use super::cpu::Isa;
use super::cpu::Level;
use super::kept::NearList;
use super::{huge_pages::HugeList, prefetch};

/// The widths in bits that numbers may have. Low bits of the widest, with up to seven before them, fit 32 bits.
pub const WIDTHS: std::ops::RangeInclusive<u32> = 32..=57;

/// Bits of a cache line.
const LINE_BITS: u32 = 512;

/// The number of lines that a scan of a long run asks for ahead.
const LINES_AHEAD: usize = 4;

/// A run of numbers of a [`Packed`] list, and the comparison that a scan makes with them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// The line where the run begins.
    line: u32,
    /// The place in that line.
    before: u32,
    /// The number of values.
    len: u32,
    /// The high bits ([`Packed::high_bits`]) of the number that the run is compared with.
    pub wanted: u32,
    /// The most bits in which near high bits differ; if it is negative, none are near.
    pub radius: i32,
    /// A number by which the caller knows the run: every position that is found in it has this tag.
    pub tag: u32,
}

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u32; 16]);

// SAFETY: 64 bytes of any value without padding; all zero is one of them.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Line {}

/// A list of numbers of one width, packed into cache lines.
#[derive(Clone, Debug)]
pub struct Packed {
    lines: HugeList<Line>,
    len: usize,
    low_width: u32,
    /// Numbers in a line, and 2⁶⁴ divided by it, rounded up.
    each: usize,
    inverse: u64,
    level: Level,
}

impl Packed {
    /// An empty list with room for `room` values, of which only the low `width` bits are kept.
    ///
    /// # Panics
    /// For a width that is not one of [`WIDTHS`].
    pub fn with_room(room: usize, width: u32) -> Self {
        assert!(WIDTHS.contains(&width), "{width} bits are not one of {WIDTHS:?}");
        let each = LINE_BITS / width;
        Self {
            lines: HugeList::filled(Self::lines_for(room, width), Line([0; 16])),
            len: 0,
            low_width: width - 32,
            each: each as usize,
            inverse: u64::MAX / u64::from(each) + 1,
            level: Level::in_use(),
        }
    }

    /// Lines for `room` values, and one more: an empty run may begin there.
    fn lines_for(room: usize, width: u32) -> usize {
        room / (LINE_BITS / width) as usize + 2
    }

    /// Memory in bytes of a list with room for `room` values of a width, which must be one of [`WIDTHS`].
    pub fn bytes_for(room: usize, width: u32) -> usize {
        Self::lines_for(room, width) * size_of::<Line>()
    }

    /// Appends values.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn extend(&mut self, values: impl Iterator<Item = u64>) {
        for value in values {
            let (line, place) = self.place(self.len);
            self.lines[line].0[place] = self.high_bits(value);
            let (byte, shift) = self.low_place(line, place);
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.lines[..]);
            let word: &mut [u8] = &mut bytes[byte..byte + 4];
            let before = u32::from_le_bytes(word.try_into().expect("four bytes"));
            let low = value as u32 & ((1 << self.low_width) - 1);
            word.copy_from_slice(&(before | low << shift).to_le_bytes());
            self.len += 1;
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Memory of the list in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// The highest 32 of the `width` bits of a value, for [`Run::wanted`].
    #[inline(always)]
    pub fn high_bits(&self, value: u64) -> u32 {
        (value >> self.low_width) as u32
    }

    /// The line of a position below 2³², and the place in it.
    #[inline(always)]
    fn place(&self, position: usize) -> (usize, usize) {
        let line = ((position as u128 * u128::from(self.inverse)) >> 64) as usize;
        (line, position - line * self.each)
    }

    /// The byte where the low bits of a value begin, and the bits before them.
    #[inline(always)]
    fn low_place(&self, line: usize, place: usize) -> (usize, usize) {
        let bit = place * self.low_width as usize;
        (line * size_of::<Line>() + 4 * self.each + bit / 8, bit % 8)
    }

    /// The value at a position.
    ///
    /// # Panics
    /// For a position that is not in the list.
    #[inline(always)]
    pub fn get(&self, position: usize) -> u64 {
        assert!(position < self.len, "inside of the list");
        let (line, place) = self.place(position);
        let (byte, shift) = self.low_place(line, place);
        let bytes: &[u8] = bytemuck::cast_slice(&self.lines[..]);
        let word = u32::from_le_bytes(bytes[byte..byte + 4].try_into().expect("four bytes"));
        let low = word >> shift & ((1 << self.low_width) - 1);
        u64::from(self.lines[line].0[place % 16]) << self.low_width | u64::from(low)
    }

    /// Asks the processor for the cache lines of `len` values from position `from` on, for three lines at most.
    #[inline(always)]
    pub fn prefetch(&self, from: usize, len: usize) {
        let (line, before) = self.place(from);
        self.prefetch_lines(line, before + len);
    }

    /// Asks for the lines from `first` to that of place `end`, three at most.
    #[inline(always)]
    fn prefetch_lines(&self, first: usize, end: usize) {
        // Without a branch, which would have to wait for the directory. A scan asks for further lines of a long run.
        prefetch::read(&self.lines, first);
        prefetch::read(&self.lines, first + usize::from(end > self.each));
        prefetch::read(&self.lines, first + 2 * usize::from(end > 2 * self.each));
    }

    /// Sets a run to `len` values from position `from` on, and asks for their cache lines as `prefetch` does.
    ///
    /// # Panics
    /// For a run that is not in the list.
    #[inline(always)]
    pub fn locate(&self, run: &mut Run, (from, len): (u32, u32)) {
        assert!(from as usize + len as usize <= self.len, "inside of the list");
        let (line, before) = self.place(from as usize);
        (run.line, run.before, run.len) = (line as u32, before as u32, len);
        self.prefetch_lines(line, before + len as usize);
    }

    /// Appends to `list` the positions, in this list, of the values whose high bits are near those that their run
    /// wants, in order and each with the run's tag. Returns how many values were compared.
    ///
    /// # Panics
    /// For a run that was located in a longer list.
    #[inline(always)]
    pub fn shortlist(&self, runs: &[Run], list: &mut NearList) -> usize {
        let (mut total, mut rows) = (0, 0);
        for run in runs {
            total += run.len as usize;
            rows += 1 + run.len as usize / 8;
        }
        list.make_room(rows);
        match self.level.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::shortlist_avx512(self, runs, list) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::shortlist_avx2(self, runs, list) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt => unsafe { x86::shortlist_popcnt(self, runs, list) },
            _ => self.shortlist_with(runs, list, near_portable),
        }
        total
    }

    /// The scan, line by line. `near` compares the lanes of a line that are set in a mask with what is wanted.
    #[inline(always)]
    fn shortlist_with(&self, runs: &[Run], list: &mut NearList, near: impl Fn(&Line, u32, u32, i32) -> u32) {
        for run in runs {
            let (mut line, mut end) = (run.line as usize, (run.before + run.len) as usize);
            let near = |line: usize, lanes| near(&self.lines[line], lanes, run.wanted, run.radius);
            let lanes = |end: usize| (1 << end.min(self.each)) - 1;
            // Most runs lie in one line or two, and take no branch.
            let first = near(line, lanes(end) & u32::MAX << run.before);
            let beyond = end.saturating_sub(self.each);
            let second = near(line + usize::from(beyond > 0), lanes(beyond));
            list.add((line * self.each) as u32, run.tag, first | second << (self.each % 32));
            while end > 2 * self.each {
                end -= self.each;
                line += 1;
                prefetch::read(&self.lines, line + LINES_AHEAD);
                let near = near(line + 1, lanes(end - self.each));
                list.add(((line + 1) * self.each) as u32, run.tag, near);
            }
        }
    }

    /// The position in this list of `value`, or `None`, in the run of `len` values from position `from` on, which must
    /// ascend.
    ///
    /// # Panics
    /// For a run that is not in the list.
    #[inline(always)]
    pub fn find_in_ascending(&self, (mut from, mut len): (usize, usize), value: u64) -> Option<usize> {
        assert!(from <= self.len && len <= self.len - from, "inside of the list");
        while len > 1 {
            let half = len / 2;
            from += if self.get(from + half) <= value { half } else { 0 };
            len -= half;
        }
        (len == 1 && self.get(from) == value).then_some(from)
    }
}

/// The comparison as it is defined.
#[inline(always)]
fn near_portable(line: &Line, lanes: u32, wanted: u32, radius: i32) -> u32 {
    let (mut left, mut near) = (lanes, 0);
    while left != 0 {
        let value = line.0[left.trailing_zeros() as usize % 16];
        near |= u32::from((value ^ wanted).count_ones() as i32 <= radius) << left.trailing_zeros();
        left &= left - 1;
    }
    near
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Line, NearList, Packed, Run, near_portable};

    #[inline]
    #[target_feature(enable = "popcnt")]
    pub fn shortlist_popcnt(packed: &Packed, runs: &[Run], list: &mut NearList) {
        packed.shortlist_with(runs, list, near_portable);
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn shortlist_avx2(packed: &Packed, runs: &[Run], list: &mut NearList) {
        let four = _mm256_set1_epi8(15);
        let counts =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        packed.shortlist_with(runs, list, |line: &Line, lanes, wanted, radius| {
            let (wanted, radius) = (_mm256_set1_epi32(wanted as i32), _mm256_set1_epi32(radius));
            let far = |half: usize| {
                // SAFETY: eight of the sixteen numbers, aligned to 32 bytes.
                let values = unsafe { _mm256_load_si256(line.0.as_ptr().add(8 * half).cast()) };
                let differing = _mm256_xor_si256(values, wanted);
                let low = _mm256_shuffle_epi8(counts, _mm256_and_si256(differing, four));
                let high =
                    _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi32::<4>(differing), four));
                // Bytes added to pairs, and pairs to fours.
                let pairs = _mm256_maddubs_epi16(_mm256_add_epi8(low, high), _mm256_set1_epi8(1));
                let distances = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                let far = _mm256_cmpgt_epi32(distances, radius);
                _mm256_movemask_ps(_mm256_castsi256_ps(far)) as u32
            };
            !(far(0) | far(1) << 8) & lanes
        });
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    pub fn shortlist_avx512(packed: &Packed, runs: &[Run], list: &mut NearList) {
        packed.shortlist_with(runs, list, |line: &Line, lanes, wanted, radius| {
            // SAFETY: sixteen numbers, aligned to 64 bytes.
            let values = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
            let distances = _mm512_popcnt_epi32(_mm512_xor_si512(values, _mm512_set1_epi32(wanted as i32)));
            u32::from(_mm512_cmple_epi32_mask(distances, _mm512_set1_epi32(radius))) & lanes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packs the values in two parts.
    fn packed(values: &[u64], width: u32) -> Packed {
        let mut packed = Packed::with_room(values.len(), width);
        let (one, other) = values.split_at(values.len() / 3);
        packed.extend(one.iter().copied());
        packed.extend(other.iter().copied());
        assert_eq!(packed.bytes(), Packed::bytes_for(values.len(), width));
        packed
    }

    /// A run of a list, whose values are compared with `wanted`.
    fn located(packed: &Packed, range: (u32, u32), wanted: u64, radius: i32, tag: u32) -> Run {
        let mut run = Run { wanted: packed.high_bits(wanted), radius, tag, ..Run::default() };
        packed.locate(&mut run, range);
        run
    }

    proptest! {
        #[test]
        fn every_kernel_compares_as_the_definition_says(
            values in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..9], 0..200),
            width in WIDTHS, run in (0usize..200, 0usize..200),
            wanted in prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..9], radius in 0i32..40, tag: u32,
        ) {
            let mut packed = packed(&values, width);
            let kept = u64::MAX >> (64 - width);
            let from = run.0.min(values.len());
            let len = run.1.min(values.len() - from);
            for (position, value) in values.iter().enumerate() {
                prop_assert_eq!(packed.get(position), value & kept);
            }
            let near = |at: usize| ((values[at] ^ wanted) & kept) >> (width - 32);
            let near: Vec<(u32, u32)> = (from..from + len)
                .filter(|&at| near(at).count_ones() as i32 <= radius)
                .map(|at| (at as u32, tag))
                .collect();
            for level in Level::available() {
                packed.level = level;
                let mut list = NearList::default();
                let run = located(&packed, (from as u32, len as u32), wanted & kept, radius, tag);
                for _ in 0..2 {
                    let compared = packed.shortlist(&[run, Run { radius: -1, ..run }, run], &mut list);
                    prop_assert_eq!(compared, 3 * len);
                }
                let found: Vec<(u32, u32)> = list.positions().collect();
                prop_assert_eq!(found, near.repeat(4), "{:?}", level);
            }
        }

        #[test]
        fn finding_in_an_ascending_run(
            values in prop::collection::btree_set(prop_oneof![any::<u64>(), 0u64..99], 0..200),
            width in WIDTHS, run in (0usize..200, 0usize..200), wanted in prop_oneof![any::<u64>(), 0u64..99],
        ) {
            let values: Vec<u64> = values.into_iter().map(|value| value >> (64 - width)).collect();
            let mut values: Vec<u64> = values.into_iter().chain(0..9).collect();
            values.sort_unstable();
            values.dedup();
            let packed = packed(&values, width);
            let from = run.0.min(values.len());
            let len = run.1.min(values.len() - from);
            for &value in values.iter().chain([&wanted]) {
                let place = values[from..from + len].binary_search(&value).ok().map(|place| from + place);
                prop_assert_eq!(packed.find_in_ascending((from, len), value), place);
            }
        }
    }

    #[test]
    #[should_panic(expected = "inside of the list")]
    fn a_run_elsewhere_is_refused() {
        located(&packed(&[1, 2, 3], 40), (2, 2), 0, 3, 0);
    }

    #[test]
    fn impossible_widths_are_refused() {
        for width in [WIDTHS.start() - 1, WIDTHS.end() + 1] {
            assert!(std::panic::catch_unwind(|| Packed::with_room(1, width)).is_err());
        }
        let none = Packed::with_room(0, 40);
        let mut list = NearList::default();
        none.shortlist(&[located(&none, (0, 0), 0, 3, 1)], &mut list);
        assert!(none.len() == 0 && list.rows().is_empty() && none.find_in_ascending((0, 0), 0).is_none());
        none.prefetch(0, 0);
    }
}
