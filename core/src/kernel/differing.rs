//! Counts the bits in which two rows of words differ. A row is the bits of a sketch, 64 to a word.

use super::cpu::{Isa, Level};

impl Level {
    /// Counts the bits in which two rows differ. Words that only the longer row has do not count.
    #[inline]
    pub fn differing(self, a: &[u64], b: &[u64]) -> u32 {
        match self.isa() {
            Isa::Portable => portable(a, b),
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt | Isa::Avx2 => unsafe { x86::popcnt(a, b) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::avx512(a, b) },
            // NEON counts bits as the compiler uses it.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => portable(a, b),
        }
    }

    /// Appends to `found`, ascending, the index in `rows` of each row that differs from `row` in at most `most` bits.
    #[inline]
    pub fn within(self, row: &Head, rows: &[Head], most: u32, found: &mut Vec<u32>) {
        match self.isa() {
            Isa::Portable => within(row, rows, most, found),
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt | Isa::Avx2 => unsafe { x86::within(row, rows, most, found) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::within_avx512(row, rows, most, found) },
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => within(row, rows, most, found),
        }
    }
}

/// The first 512 bits of a row, or of its second half, with zeros behind a shorter one. Most rows that are not near
/// another already differ too much in them.
pub type Head = [u64; 8];

/// The definition. Inlined where hardware counting is allowed, it uses it.
#[inline(always)]
fn within(row: &Head, rows: &[Head], most: u32, found: &mut Vec<u32>) {
    for (at, other) in (0..).zip(rows) {
        if portable(row, other) <= most {
            found.push(at);
        }
    }
}

/// The definition. Inlined where hardware counting is allowed, it uses it.
#[inline(always)]
fn portable(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Head;
    use std::arch::x86_64::*;
    use std::ops::Range;

    #[target_feature(enable = "popcnt")]
    pub fn popcnt(a: &[u64], b: &[u64]) -> u32 {
        super::portable(a, b)
    }

    /// Compares by halves: most rows differ too much in the first half already.
    #[target_feature(enable = "popcnt")]
    pub fn within(row: &Head, rows: &[Head], most: u32, found: &mut Vec<u32>) {
        let differing = |other: &Head, half: Range<usize>| super::portable(&row[half.clone()], &other[half]);
        for (at, other) in (0..).zip(rows) {
            let first = differing(other, 0..4);
            if first <= most && first + differing(other, 4..8) <= most {
                found.push(at);
            }
        }
    }

    /// The compiler counts the words of a row at once.
    #[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
    pub fn within_avx512(row: &Head, rows: &[Head], most: u32, found: &mut Vec<u32>) {
        super::within(row, rows, most, found);
    }

    /// Eight words at a time, the last few one by one.
    #[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
    pub fn avx512(a: &[u64], b: &[u64]) -> u32 {
        let words = a.len().min(b.len());
        let ((a, last_a), (b, last_b)) = (a[..words].as_chunks::<8>(), b[..words].as_chunks::<8>());
        let mut sums = _mm512_setzero_si512();
        for (a, b) in a.iter().zip(b) {
            // SAFETY: both are eight words; the loads may be unaligned.
            let (a, b) =
                unsafe { (_mm512_loadu_epi64(a.as_ptr().cast()), _mm512_loadu_epi64(b.as_ptr().cast())) };
            sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(_mm512_xor_si512(a, b)));
        }
        _mm512_reduce_add_epi64(sums) as u32 + super::portable(last_a, last_b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_level_finds_the_same_rows(
            row: Head, seed: u64, rows in prop::collection::vec((any::<Head>(), 0u32..512), 0..70), most in 0u32..512,
        ) {
            // As many bits differ as are asked for, more or less.
            let rows: Vec<Head> = rows
                .iter()
                .map(|(noise, bits)| {
                    let mut other = row;
                    (0..512).filter(|at| (seed ^ noise[at / 64]).rotate_left(*at as u32) % 512 < u64::from(*bits)).for_each(|at| {
                        other[at / 64] ^= 1 << (at % 64);
                    });
                    other
                })
                .collect();
            let is_within = |other: &Head| row.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>() <= most;
            let naive: Vec<u32> = (0..).zip(&rows).filter(|(_, other)| is_within(other)).map(|(at, _)| at).collect();
            for level in Level::available() {
                let mut found = vec![7];
                level.within(&row, &rows, most, &mut found);
                prop_assert_eq!((found[0], &found[1..]), (7, &naive[..]), "{}", level.name());
            }
        }

        #[test]
        fn every_level_counts_alike(a in prop::collection::vec(any::<u64>(), 0..40), seed: u64, longer in 0usize..3) {
            let mut b: Vec<u64> = a.iter().map(|word| word ^ seed).collect();
            b.extend(std::iter::repeat_n(seed, longer));
            let naive: u32 = a.iter().zip(&b).map(|(a, b)| (0..64).filter(|i| (a ^ b) >> i & 1 == 1).count() as u32).sum();
            for level in Level::available() {
                prop_assert_eq!(level.differing(&a, &b), naive, "{}", level.name());
                prop_assert_eq!(level.differing(&b, &a), naive, "{}", level.name());
            }
        }
    }
}
