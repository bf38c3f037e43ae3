//! Picks the lowest-margin bits of a hash, and splits a hash into keys and rests: the work of a query of the dial index
//! before it reads memory. The sign of a weighted sum W is a bit of a hash, and |W| is the margin of the bit. A key is
//! some bits of a hash, and its rest the others.
//!
//! A margin is held in a byte, so the margins of a hash are one vector register. A comparison gives a mask of all bits
//! whose margins are below a bound. A binary search for the bound finds the lowest k, or a search
//! digit by digit, and nothing is sorted; a few are taken one by one.

use super::cpu::{Isa, Level};
use crate::hash::BITS;

/// The margin of each bit of a hash: |W| in one byte, three bits of exponent and five of mantissa, relative to the
/// largest of the hash. A bit of smaller margin flips sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Margins(pub [u8; BITS]);

impl Default for Margins {
    fn default() -> Self {
        Self([0; BITS])
    }
}

/// A function and its arguments, for [`Level::compiled_for`] to run. Its `run` must be `#[inline(always)]`, or it is
/// compiled for the least processor.
pub trait Job {
    /// The type of the result.
    type Output;

    /// Runs the function.
    fn run(self) -> Self::Output;
}

impl Level {
    /// Runs a job that is compiled for the instructions of this level, so that the kernels which it calls are inlined.
    /// Returns the result of the job.
    #[inline]
    pub(crate) fn compiled_for<J: Job>(self, job: J) -> J::Output {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::run_avx2(job) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::run_avx512(job) },
            _ => job.run(),
        }
    }

    /// The margins of a hash from its weighted sums W. The scale has 32 steps an octave, over the octave of the largest
    /// finite |W| and the seven below it. A smaller |W| counts as 0; one that is infinite or no number counts as 255.
    #[inline]
    pub(crate) fn margins(self, weights: &[f32; BITS]) -> Margins {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::margins_avx2(weights) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::margins_avx512(weights) },
            _ => margins(weights),
        }
    }

    /// The mask of the `count` lowest-margin bits among those set in `among`, or of all these if there are no more. Of
    /// bits of equal margin the lower ones come first.
    #[inline]
    pub(crate) fn lowest_margin(self, margins: &Margins, among: u64, count: u32) -> u64 {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::lowest_margin_avx2(margins, among, count) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::lowest_margin_avx512(margins, among, count) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::lowest_margin_neon(margins, among, count) },
            _ => lowest_margin(|bound| below(margins, bound), among, count),
        }
    }

    /// The number of bits in `among` that come before `bit` in the order of [`lowest_margin`](Self::lowest_margin).
    /// The number of the probe that flips this bit follows from it.
    pub(crate) fn rank(self, margins: &Margins, among: u64, bit: u32) -> u32 {
        let bound = margins.0[bit as usize % BITS];
        let weaker = below(margins, bound);
        let equal = below_or_equal(margins, bound) & !weaker & ((1 << (bit % 64)) - 1);
        ((weaker | equal) & among).count_ones()
    }

    /// The bits of `value` at the places that are set in `mask`, moved together to the low end.
    #[inline]
    pub fn extract(self, value: u64, mask: u64) -> u64 {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512Vbmi => unsafe { std::arch::x86_64::_pext_u64(value, mask) },
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => aarch64::extract(value, mask),
            _ => extract_portable(value, mask),
        }
    }

    /// Writes to each `keys[i]` the bits of `values[i]` that [`extract`](Self::extract) gives for `mask`, which has at
    /// most 16 bits. A join puts hashes into parts by these keys.
    ///
    /// # Panics
    /// For a mask of more bits, or lists of different lengths.
    pub fn extract_all(self, values: &[u64], mask: u64, keys: &mut [u16]) {
        assert!(mask.count_ones() <= u16::BITS && values.len() == keys.len(), "{mask:x}, {}", keys.len());
        let shift = mask.trailing_zeros() % u64::BITS;
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512Vbmi => unsafe { x86::extract_all_bmi2(values, mask, keys) },
            // Of neighbouring bits.
            _ if (mask >> shift).wrapping_add(1).is_power_of_two() => {
                extract_all_with(|value, mask| value >> shift & mask, values, mask >> shift, keys)
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => extract_all_with(aarch64::extract, values, mask, keys),
            _ => extract_all_with(extract_portable, values, mask, keys),
        }
    }

    /// The low bits of `value` moved to the places that are set in `mask`: the reverse of [`extract`](Self::extract).
    /// So a hash is put together again from key and rest.
    #[inline]
    pub fn deposit(self, value: u64, mask: u64) -> u64 {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512Vbmi => unsafe { std::arch::x86_64::_pdep_u64(value, mask) },
            _ => deposit_portable(value, mask),
        }
    }
}

/// Five bits of the mantissa stay below the exponent.
const DROPPED: u32 = 18;

/// The step of infinity, with which the steps of numbers end.
const INFINITE: i32 = (f32::INFINITY.to_bits() >> DROPPED) as i32;

/// The scale of [`Level::margins`]. Written so that compilers make vector code of it.
#[inline(always)]
fn margins(weights: &[f32; BITS]) -> Margins {
    let mut steps = [0i32; BITS];
    let mut largest = 0;
    for (step, weight) in steps.iter_mut().zip(weights) {
        *step = (weight.abs().to_bits() >> DROPPED) as i32;
        largest = largest.max(if *step < INFINITE { *step } else { 0 });
    }
    let mut margins = Margins::default();
    for (margin, step) in margins.0.iter_mut().zip(steps) {
        *margin = (step - (largest | 31) + 255).clamp(0, 255) as u8;
    }
    margins
}

#[inline(always)]
fn below(margins: &Margins, bound: u8) -> u64 {
    margins.0.iter().enumerate().fold(0, |mask, (bit, &s)| mask | u64::from(s < bound) << bit)
}

#[inline(always)]
fn below_or_equal(margins: &Margins, bound: u8) -> u64 {
    margins.0.iter().enumerate().fold(0, |mask, (bit, &s)| mask | u64::from(s <= bound) << bit)
}

/// The definition of [`Level::lowest_margin`]. `below(b)` gives the bits whose margins are below b.
#[inline(always)]
fn lowest_margin(below: impl Fn(u8) -> u64, among: u64, count: u32) -> u64 {
    if count >= among.count_ones() {
        return among;
    }
    let bound = last_wanted(|bound| (below(bound) & among).count_ones(), count);
    up_to(bound, below, among, count)
}

/// The largest bound below which there are fewer than wanted: the margin of the last one wanted.
#[inline(always)]
fn last_wanted(number_below: impl Fn(u8) -> u32, count: u32) -> u8 {
    let mut bound = 0u8;
    for step in (0..8).rev() {
        let higher = bound | 1 << step;
        if number_below(higher) < count {
            bound = higher;
        }
    }
    bound
}

/// The bits whose margins are below `bound`, fewer than `count`, and as many bits of that margin as make `count`.
#[inline(always)]
fn up_to(bound: u8, below: impl Fn(u8) -> u64, among: u64, count: u32) -> u64 {
    let weaker = below(bound) & among;
    let mut equal = match bound.checked_add(1) {
        Some(next) => below(next) & among & !weaker,
        None => among & !weaker,
    };
    let mut chosen = weaker;
    for _ in weaker.count_ones()..count {
        chosen |= equal & equal.wrapping_neg();
        equal &= equal.wrapping_sub(1);
    }
    chosen
}

#[inline(always)]
fn extract_all_with(extract: impl Fn(u64, u64) -> u64, values: &[u64], mask: u64, keys: &mut [u16]) {
    for (key, &value) in keys.iter_mut().zip(values) {
        *key = extract(value, mask) as u16;
    }
}

fn extract_portable(value: u64, mask: u64) -> u64 {
    let (mut rest, mut out, mut place) = (mask, 0, 0);
    while rest != 0 {
        out |= (value >> rest.trailing_zeros() & 1) << place;
        rest &= rest - 1;
        place += 1;
    }
    out
}

fn deposit_portable(value: u64, mask: u64) -> u64 {
    let (mut rest, mut out, mut place) = (mask, 0, 0);
    while rest != 0 {
        out |= (value >> place & 1) << rest.trailing_zeros();
        rest &= rest - 1;
        place += 1;
    }
    out
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{BITS, DROPPED, INFINITE, Job, Margins};

    /// Up to this number of bits, it is faster to find them one by one.
    const FEW: u32 = 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,avx2,bmi1,bmi2,popcnt")]
    pub fn run_avx512<J: Job>(job: J) -> J::Output {
        job.run()
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn run_avx2<J: Job>(job: J) -> J::Output {
        job.run()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn margins_avx512(weights: &[f32; BITS]) -> Margins {
        let step = |group: usize| {
            // SAFETY: 16 of the 64 weights, for groups 0 to 3.
            let weights = unsafe { _mm512_loadu_si512(weights.as_ptr().add(16 * group).cast()) };
            _mm512_srli_epi32::<DROPPED>(_mm512_and_si512(weights, _mm512_set1_epi32(i32::MAX)))
        };
        let steps = [step(0), step(1), step(2), step(3)];
        let mut largest = _mm512_setzero_si512();
        for step in steps {
            let finite = _mm512_cmplt_epi32_mask(step, _mm512_set1_epi32(INFINITE));
            largest = _mm512_mask_max_epi32(largest, finite, largest, step);
        }
        let up = _mm512_set1_epi32(255 - (_mm512_reduce_max_epi32(largest) | 31));
        let margin = |step| {
            let above = _mm512_max_epi32(_mm512_add_epi32(step, up), _mm512_setzero_si512());
            _mm512_cvtusepi32_epi8(above)
        };
        // Joined in registers: what is stored in four parts could not be loaded as one at once.
        let low = _mm256_set_m128i(margin(steps[1]), margin(steps[0]));
        let high = _mm256_set_m128i(margin(steps[3]), margin(steps[2]));
        let all = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        let mut margins = Margins::default();
        // SAFETY: 64 bytes, aligned to 64.
        unsafe { _mm512_store_si512(margins.0.as_mut_ptr().cast(), all) };
        margins
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn margins_avx2(weights: &[f32; BITS]) -> Margins {
        super::margins(weights)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
    pub fn lowest_margin_avx512(margins: &Margins, among: u64, count: u32) -> u64 {
        // SAFETY: 64 bytes, aligned to 64.
        let margins = unsafe { _mm512_load_si512(margins.0.as_ptr().cast()) };
        if count <= FEW {
            return few_lowest(among, count, |left| {
                let now = _mm512_mask_mov_epi8(_mm512_set1_epi8(-1), left, margins);
                let half = _mm256_min_epu8(_mm512_castsi512_si256(now), _mm512_extracti64x4_epi64::<1>(now));
                _mm512_cmpeq_epi8_mask(margins, _mm512_broadcastb_epi8(least(half)))
            });
        }
        let ones = |digit: u32| _mm512_test_epi8_mask(margins, _mm512_set1_epi8((1u8 << digit) as i8));
        by_digits(std::array::from_fn(|digit| ones(digit as u32)), among, count)
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn lowest_margin_avx2(margins: &Margins, among: u64, count: u32) -> u64 {
        let at = margins.0.as_ptr();
        // SAFETY: twice 32 of the 64 bytes, aligned to 64.
        let (mut low, mut high) =
            unsafe { (_mm256_load_si256(at.cast()), _mm256_load_si256(at.add(32).cast())) };
        if count <= FEW {
            return few_lowest(among, count, |left| {
                let half = _mm256_min_epu8(
                    _mm256_or_si256(low, absent(left as u32)),
                    _mm256_or_si256(high, absent((left >> 32) as u32)),
                );
                let least = _mm256_broadcastb_epi8(least(half));
                let equal = |half| u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(half, least)) as u32);
                equal(low) | equal(high) << 32
            });
        }
        let mut ones = [0; 8];
        for ones in ones.iter_mut().rev() {
            let highest = |half| u64::from(_mm256_movemask_epi8(half) as u32);
            *ones = highest(low) | highest(high) << 32;
            (low, high) = (_mm256_add_epi8(low, low), _mm256_add_epi8(high, high));
        }
        by_digits(ones, among, count)
    }

    /// A few lowest-margin bits, one by one. `equally_weak` finds the bits whose margin is the least of those left.
    #[inline(always)]
    fn few_lowest(among: u64, count: u32, equally_weak: impl Fn(u64) -> u64) -> u64 {
        let mut left = among;
        for _ in 0..count {
            let lowest_margin = equally_weak(left) & left;
            left &= !(lowest_margin & lowest_margin.wrapping_neg());
        }
        among & !left
    }

    /// The least of 32 bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn least(half: __m256i) -> __m128i {
        let quarter = _mm_min_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
        // Bytes in pairs, then the least of eight numbers of two bytes.
        let pairs = _mm_min_epu8(quarter, _mm_srli_epi16::<8>(quarter));
        _mm_minpos_epu16(_mm_and_si128(pairs, _mm_set1_epi16(255)))
    }

    /// Bytes of ones where the bits are not set.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn absent(mask: u32) -> __m256i {
        let places =
            _mm256_set_epi64x(0x0303_0303_0303_0303, 0x0202_0202_0202_0202, 0x0101_0101_0101_0101, 0);
        let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(mask as i32), places);
        _mm256_cmpeq_epi8(_mm256_and_si256(spread, bits), _mm256_setzero_si256())
    }

    /// The lowest-margin bits, from those whose margins have a one in each binary digit.
    ///
    /// The search goes from the highest digit down. If the bits with a 0 are too few, all of them are among the lowest,
    /// and the search goes on among the others. If not, the others are not among the lowest.
    #[inline]
    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    fn by_digits(ones: [u64; 8], among: u64, count: u32) -> u64 {
        if count >= among.count_ones() {
            return among;
        }
        let (mut left, mut chosen, mut missing) = (among, 0, count);
        for ones in ones.into_iter().rev() {
            let zeros = left & !ones;
            let number = zeros.count_ones();
            // All bits or none: which of both cannot be foreseen.
            let too_few = u64::from(number <= missing).wrapping_neg();
            chosen |= zeros & too_few;
            missing -= number & too_few as u32;
            left = zeros ^ (left & too_few);
        }
        // The bits that are left have equal margins.
        chosen | _pdep_u64((1 << missing) - 1, left)
    }

    #[target_feature(enable = "bmi2")]
    pub fn extract_all_bmi2(values: &[u64], mask: u64, keys: &mut [u16]) {
        super::extract_all_with(|value, mask| _pext_u64(value, mask), values, mask, keys);
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;

    use super::Margins;
    use crate::kernel::neon;

    /// A bit moves down by as many places as there are zeros below it in the mask. In step i all bits move by
    /// 2ⁱ of which the number of zeros has bit i (Warren, Hacker's Delight, section 7-4). Of the zeros then
    /// only every second counts, and of those below a bit that has moved all are still below it. Six steps of
    /// 18 instructions, since a shift comes free with an exclusive or; bit by bit takes nine for each of 64.
    #[inline]
    pub fn extract(value: u64, mut mask: u64) -> u64 {
        let mut value = value & mask;
        let mut zeros = !mask;
        for step in 0..6 {
            let odd = (0..6).fold(zeros, |odd, step| odd ^ odd << (1 << step));
            let moving = odd & mask;
            mask = mask ^ moving | moving >> (1 << step);
            let moving = odd & value;
            value = value ^ moving | moving >> (1 << step);
            zeros &= !odd;
        }
        value
    }

    #[target_feature(enable = "neon")]
    pub fn lowest_margin_neon(margins: &Margins, among: u64, count: u32) -> u64 {
        if count >= among.count_ones() {
            return among;
        }
        let all: [uint8x16_t; 4] = std::array::from_fn(|i| {
            // SAFETY: 16 of the 64 bytes.
            unsafe { vld1q_u8(margins.0.as_ptr().add(16 * i)) }
        });
        let below = |margins: [uint8x16_t; 4], bound: u8| margins.map(|s| vcltq_u8(s, vdupq_n_u8(bound)));
        // Numbers are cheaper to get than masks. Bits that are not asked for become 255, below which is no
        // bound.
        let asked = neon::spread(among);
        let wanted: [uint8x16_t; 4] = std::array::from_fn(|i| vornq_u8(all[i], asked[i]));
        let number_below = |bound| {
            let [a, b, c, d] = below(wanted, bound);
            // Each is −1 in its byte, and there are at most 64.
            let minus = vaddvq_u8(vaddq_u8(vaddq_u8(a, b), vaddq_u8(c, d)));
            u32::from(minus.wrapping_neg())
        };
        let bound = super::last_wanted(number_below, count);
        super::up_to(bound, |bound| neon::mask(below(all, bound)), among, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_kernel_picks_what_a_sort_picks(
            some in prop::array::uniform32(prop_oneof![0u8..4, any::<u8>(), Just(255)]), among: u64, count in 0u32..70,
        ) {
            let margins = Margins(std::array::from_fn(|bit| some[bit * 5 % 32] ^ (bit as u8 & 1)));
            let mut order: Vec<u32> = (0..64).filter(|bit| among >> bit & 1 == 1).collect();
            order.sort_by_key(|&bit| (margins.0[bit as usize], bit));
            let expected = order.iter().take(count as usize).fold(0u64, |set, bit| set | 1 << bit);
            for kernel in Level::available() {
                prop_assert_eq!(kernel.lowest_margin(&margins, among, count), expected, "{:?}", kernel);
                for (rank, &bit) in order.iter().enumerate() {
                    prop_assert_eq!(kernel.rank(&margins, among, bit), rank as u32);
                }
            }
        }

        #[test]
        fn extracting_and_depositing(value: u64, mask: u64, count in 0u32..=16) {
            let few = (0..64).fold(mask, |rest, _| if rest.count_ones() > count { rest & (rest - 1) } else { rest });
            let run = ((1u64 << count) - 1).rotate_left(value as u32 % 48);
            for kernel in Level::available() {
                for mask in [few, run] {
                    let mut keys = [7; 3];
                    kernel.extract_all(&[value, !value, mask], mask, &mut keys);
                    let expected = [value, !value, mask].map(|value| extract_portable(value, mask) as u16);
                    prop_assert_eq!(keys, expected, "{:?} {:x}", kernel, mask);
                }
                let (key, rest) = (kernel.extract(value, mask), kernel.extract(value, !mask));
                prop_assert_eq!(key, extract_portable(value, mask));
                prop_assert_eq!(kernel.deposit(key, mask) | kernel.deposit(rest, !mask), value);
                prop_assert_eq!(kernel.deposit(value, mask), deposit_portable(value, mask));
            }
        }

        #[test]
        fn margins_follow_the_weights(
            weights in prop::array::uniform32(prop_oneof![
                8 => -4f32..4.0,
                1 => prop::sample::select(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-42, 0.0][..]),
            ]),
            scale in prop::sample::select(&[1e-20f32, 0.5, 1.0, 1e20][..]),
        ) {
            let weights = std::array::from_fn(|bit| weights[bit % 32] * if bit < 32 { scale } else { -scale });
            let expected = margins(&weights);
            for kernel in Level::available() {
                prop_assert_eq!(kernel.margins(&weights), expected);
            }
            for i in 0..BITS {
                prop_assert!(weights[i].is_finite() || expected.0[i] == 255);
                for j in 0..BITS {
                    prop_assert!(weights[i].abs() > weights[j].abs() || expected.0[i] <= expected.0[j] || weights[i].is_nan() || weights[j].is_nan());
                }
            }
        }
    }

    #[test]
    fn margins_distinguish_near_weights_at_any_scale() {
        for scale in [1e-30f32, 1.0, 1e30] {
            let weights = std::array::from_fn(|bit| scale * 2f32.powf(-(bit as f32) / 9.0));
            let margins = Level::in_use().margins(&weights);
            assert!(margins.0.is_sorted_by(|a, b| a > b), "{margins:?}");
        }
    }
}
