//! Picks the cheapest flips of one or two bits of a key. A query of the dial index does so for radii at which flips of
//! one bit are not enough. A key is some of the 64 bits of a hash, given as a mask.
//!
//! A flip costs the sum of |W| over its bits, as their margins hold it. How many flips cost less than a bound is
//! counted with masks of the bits that cost less than something, each from one or two comparisons of vector registers.
//! A binary search finds the bound for the wanted number of flips. There is no heap, and nothing is sorted.

use super::cpu::{Isa, Level};
use super::lowest_margin::Margins;
use crate::hash::BITS;

/// A flip of one or two bits of a hash, by its cost and its bits. Flips are ordered: a cheaper one is less; of equally
/// cheap ones the one with the lower first, then second, bit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyFlip(u32);

impl KeyFlip {
    /// The flip of the one or two bits that are set in `set`, of a hash with these margins.
    #[inline]
    pub fn new(margins: &Margins, set: u64) -> Self {
        let (first, second) = (set.trailing_zeros() % 64, 63 - (set | 1).leading_zeros());
        let cost = |bit: u32| cost(margins.0[bit as usize % BITS]);
        let cost = cost(first) + if first == second { 0 } else { cost(second) };
        Self::of(cost, first, second)
    }

    #[inline(always)]
    fn of(cost: u16, first: u32, second: u32) -> Self {
        Self(u32::from(cost) << 12 | first << 6 | second)
    }

    /// The bits.
    #[cfg(test)]
    pub fn set(self) -> u64 {
        let (first, second) = self.bits();
        1 << first | 1 << second
    }

    /// The places in the hash, 0 to 63, of the lower bit and of the higher. They are equal for a flip of a single bit.
    #[inline]
    pub fn bits(self) -> (usize, usize) {
        ((self.0 >> 6 & 63) as usize, (self.0 & 63) as usize)
    }

    /// The sum of |W| over the bits, in the unit of the function `cost`.
    #[inline]
    fn cost(self) -> u16 {
        (self.0 >> 12) as u16
    }
}

/// |W| from its margin, as a number below 2¹³ in a unit that all bits of a hash share.
#[inline(always)]
fn cost(margin: u8) -> u16 {
    (32 + u16::from(margin % 32)) << (margin / 32)
}

/// More than any flip costs.
const DEAREST: u16 = 1 << 14;

/// The cost of each bit.
#[repr(C, align(64))]
struct Costs([u16; BITS]);

impl Costs {
    #[inline(always)]
    fn new(margins: &Margins) -> Self {
        let mut costs = Self([0; BITS]);
        for (out, &margin) in costs.0.iter_mut().zip(&margins.0) {
            *out = cost(margin);
        }
        costs
    }
}

impl Level {
    /// Replaces `flips` by the `count` least flips, in no particular order, or by all if there are no more. A flip
    /// changes one or two bits of one of the `keys`, which are disjoint masks.
    #[inline]
    pub(crate) fn least_flips(self, margins: &Margins, keys: &[u64], count: usize, flips: &mut Vec<KeyFlip>) {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::least_avx2(margins, keys, count, flips) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::least_avx512(margins, keys, count, flips) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::least_neon(margins, keys, count, flips) },
            _ => {
                let costs = Costs::new(margins);
                least(|bound| below_portable(&costs, bound), &costs, keys, count, flips);
            }
        }
    }

    /// Counts the flips that are less than `flip`, of all flips of one or two bits of one of the `keys`. The
    /// number of the probe that makes this flip follows from it.
    pub(crate) fn lesser_flips(self, margins: &Margins, keys: &[u64], flip: KeyFlip) -> u32 {
        let costs = Costs::new(margins);
        let mut lesser = 0;
        each(&|bound| below_portable(&costs, bound), &costs, keys, flip.cost() + 1, |other| {
            lesser += u32::from(other < flip);
        });
        lesser
    }
}

fn below_portable(costs: &Costs, bound: u16) -> u64 {
    costs.0.iter().enumerate().fold(0, |mask, (bit, &cost)| mask | u64::from(cost < bound) << bit)
}

/// `below(b)` are the bits that cost less than b.
#[inline(always)]
fn least(below: impl Fn(u16) -> u64, costs: &Costs, keys: &[u64], count: usize, flips: &mut Vec<KeyFlip>) {
    flips.clear();
    // The greatest bound below which there are fewer than wanted: what the last one wanted costs.
    let mut bound = 0;
    for step in (0..14).rev() {
        let higher = bound | 1 << step;
        if number(&below, costs, keys, higher, count) < count {
            bound = higher;
        }
    }
    each(&below, costs, keys, (bound + 1).min(DEAREST), |flip| flips.push(flip));
    if flips.len() > count {
        flips.select_nth_unstable(count);
        flips.truncate(count);
    }
}

/// The number of flips that cost less than the bound; counting ends at `enough`.
///
/// Of two bits that together cost less than the bound, one at least costs less than half of it. So partners
/// are looked for for those bits only, and a pair of two such bits is counted for the one that comes first.
#[inline(always)]
fn number(below: &impl Fn(u16) -> u64, costs: &Costs, keys: &[u64], bound: u16, enough: usize) -> usize {
    let (single, half) = (below(bound), below(bound.div_ceil(2)));
    let mut number = 0;
    for &key in keys {
        number += (single & key).count_ones() as usize;
        let (mut first, mut left) = (half & key, key);
        while first != 0 {
            if number >= enough {
                return number;
            }
            left &= !(first & first.wrapping_neg());
            let partners = below(bound - costs.0[first.trailing_zeros() as usize % BITS]) & left;
            number += partners.count_ones() as usize;
            first &= first - 1;
        }
    }
    number
}

/// Visits the flips that cost less than the bound, at most [`DEAREST`].
#[inline(always)]
fn each(
    below: &impl Fn(u16) -> u64,
    costs: &Costs,
    keys: &[u64],
    bound: u16,
    mut visit: impl FnMut(KeyFlip),
) {
    let (single, half) = (below(bound), below(bound.div_ceil(2)));
    let cost_of = |bit: u32| costs.0[bit as usize % BITS];
    for &key in keys {
        let mut rest = single & key;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            visit(KeyFlip::of(cost_of(bit), bit, bit));
            rest &= rest - 1;
        }
        let (mut first, mut left) = (half & key, key);
        while first != 0 {
            left &= !(first & first.wrapping_neg());
            let bit = first.trailing_zeros();
            let mut partners = below(bound - cost_of(bit)) & left;
            while partners != 0 {
                let other = partners.trailing_zeros();
                visit(KeyFlip::of(cost_of(bit) + cost_of(other), bit.min(other), bit.max(other)));
                partners &= partners - 1;
            }
            first &= first - 1;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Costs, KeyFlip, Margins};

    #[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
    pub fn least_avx512(margins: &Margins, keys: &[u64], count: usize, flips: &mut Vec<KeyFlip>) {
        let costs = Costs::new(margins);
        let at = costs.0.as_ptr();
        // SAFETY: twice 32 of the 64 numbers, aligned to 64 bytes.
        let (low, high) = unsafe { (_mm512_load_si512(at.cast()), _mm512_load_si512(at.add(32).cast())) };
        let below = |bound: u16| {
            let bound = _mm512_set1_epi16(bound as i16);
            let mask = |half| u64::from(_mm512_cmplt_epu16_mask(half, bound));
            mask(low) | mask(high) << 32
        };
        super::least(below, &costs, keys, count, flips);
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn least_avx2(margins: &Margins, keys: &[u64], count: usize, flips: &mut Vec<KeyFlip>) {
        let costs = Costs::new(margins);
        let at = costs.0.as_ptr();
        // SAFETY: four times 16 of the 64 numbers, aligned to 64 bytes.
        let parts: [__m256i; 4] =
            std::array::from_fn(|i| unsafe { _mm256_load_si256(at.add(16 * i).cast()) });
        let below = |bound: u16| {
            // All are below 2¹⁵, so that a comparison of signed numbers will do.
            let bound = _mm256_set1_epi16(bound as i16);
            let less = |i: usize| _mm256_cmpgt_epi16(bound, parts[i]);
            // Packing takes turns between the halves of registers; the permutation undoes it.
            let mask = |i: usize| {
                let packed =
                    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(less(i), less(i + 1)));
                u64::from(_mm256_movemask_epi8(packed) as u32)
            };
            mask(0) | mask(2) << 32
        };
        super::least(below, &costs, keys, count, flips);
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;

    use super::{Costs, KeyFlip, Margins};
    use crate::kernel::neon;

    #[target_feature(enable = "neon")]
    pub fn least_neon(margins: &Margins, keys: &[u64], count: usize, flips: &mut Vec<KeyFlip>) {
        let costs = Costs::new(margins);
        let at = costs.0.as_ptr();
        let parts: [uint16x8_t; 8] = std::array::from_fn(|i| {
            // SAFETY: 8 of the 64 numbers.
            unsafe { vld1q_u16(at.add(8 * i)) }
        });
        let below = |bound: u16| {
            let bound = vdupq_n_u16(bound);
            let less = |i: usize| vreinterpretq_u8_u16(vcltq_u16(parts[i], bound));
            // The lower byte of each.
            neon::mask(std::array::from_fn(|i| vuzp1q_u8(less(2 * i), less(2 * i + 1))))
        };
        super::least(below, &costs, keys, count, flips);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_kernel_picks_what_a_sort_picks(
            some in prop::array::uniform32(prop_oneof![0u8..4, any::<u8>(), Just(255)]), shift in 1usize..32,
            bits: u64, parts in 1usize..5, count in 0usize..300,
        ) {
            let margins = Margins(std::array::from_fn(|bit| some[bit * shift % 32] ^ (bit as u8 & 1)));
            let keys: Vec<u64> = (0..parts).map(|part| bits & (u64::MAX >> (64 - 64 / parts)) << (part * (64 / parts))).collect();
            let mut all: Vec<(u64, u32, u32, u64)> = Vec::new();
            for &key in &keys {
                for i in (0..64).filter(|i| key >> i & 1 == 1) {
                    for j in (i..64).filter(|j| key >> j & 1 == 1) {
                        // The definition, in the integers that margins stand for.
                        let cost = |bit: u32| {
                            let s = margins.0[bit as usize];
                            u64::from(32 + s % 32) * (1u64 << (s / 32))
                        };
                        all.push((if i == j { cost(i) } else { cost(i) + cost(j) }, i, j, 1 << i | 1 << j));
                    }
                }
            }
            all.sort_unstable();
            let mut expected: Vec<u64> = all.iter().take(count).map(|flip| flip.3).collect();
            expected.sort_unstable();
            for kernel in Level::available() {
                let mut flips = Vec::new();
                kernel.least_flips(&margins, &keys, count, &mut flips);
                let mut sets: Vec<u64> = flips.iter().map(|flip| flip.set()).collect();
                sets.sort_unstable();
                prop_assert_eq!(&sets, &expected, "{:?}", kernel);
            }
            for (number, &(.., set)) in (0..).zip(&all).step_by(7) {
                let flip = KeyFlip::new(&margins, set);
                prop_assert_eq!((flip.set(), Level::in_use().lesser_flips(&margins, &keys, flip)), (set, number));
            }
        }
    }
}
