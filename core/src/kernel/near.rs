//! Finds the pairs of hashes within a radius in groups of hashes: every hash of a group against every later one.

use std::ops::Range;

use super::cpu::{Isa, Level};

impl Level {
    /// Calls `found` with the positions in `hashes`, the lesser first, of pairs that differ in at most `radius` bits.
    /// An item of `groups` is a range of positions and the end of their group: the hash at each is compared with every
    /// later hash before that end. Pairs come in order of items; within an item their order is not specified.
    ///
    /// # Panics
    /// If a group lies outside of `hashes`.
    #[inline]
    pub fn pairs(
        self,
        hashes: &[u64],
        groups: impl Iterator<Item = (Range<usize>, usize)>,
        radius: u32,
        mut found: impl FnMut(usize, usize),
    ) {
        let groups = groups.inspect(|(rows, end)| {
            assert!(rows.end <= *end && *end <= hashes.len(), "groups inside of the list");
        });
        match self.isa() {
            Isa::Portable => pairs(hashes, groups, radius, &mut found),
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt | Isa::Avx2 => unsafe { x86::pairs_popcnt(hashes, groups, radius, &mut found) },
            // SAFETY: as above, and groups are checked as they come.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::pairs_avx512(hashes, groups, radius, &mut found) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::pairs_neon(hashes, groups, radius, &mut found) },
        }
    }
}

/// The definition. Inlined where hardware counting is allowed, it uses it.
#[inline(always)]
fn pairs(
    hashes: &[u64],
    groups: impl Iterator<Item = (Range<usize>, usize)>,
    radius: u32,
    found: &mut impl FnMut(usize, usize),
) {
    for (rows, end) in groups {
        for i in rows {
            for j in i + 1..end {
                if (hashes[i] ^ hashes[j]).count_ones() <= radius {
                    found(i, j);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::ops::Range;

    #[target_feature(enable = "popcnt")]
    pub fn pairs_popcnt(
        hashes: &[u64],
        groups: impl Iterator<Item = (Range<usize>, usize)>,
        radius: u32,
        found: &mut impl FnMut(usize, usize),
    ) {
        super::pairs(hashes, groups, radius, found);
    }

    /// Hashes that share the loads of the later ones.
    const ROWS: usize = 4;

    /// Four hashes against eight later ones at a time.
    ///
    /// # Safety
    /// Groups must lie inside of `hashes`.
    #[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt,bmi1,bmi2")]
    pub unsafe fn pairs_avx512(
        hashes: &[u64],
        groups: impl Iterator<Item = (Range<usize>, usize)>,
        radius: u32,
        found: &mut impl FnMut(usize, usize),
    ) {
        let radii = _mm512_set1_epi64(i64::from(radius));
        for (group, end) in groups {
            for first in group.clone().step_by(ROWS) {
                // Rows beyond the last one repeat it, and their pairs are all dropped.
                let rows: [usize; ROWS] = std::array::from_fn(|row| (first + row).min(group.end - 1));
                let wanted = rows.map(|row| _mm512_set1_epi64(hashes[row] as i64));
                let distances = |later| wanted.map(|row| _mm512_popcnt_epi64(_mm512_xor_si512(later, row)));
                let mut found = |at: usize, near: [__mmask8; ROWS]| {
                    for (row, mut near) in near.into_iter().enumerate() {
                        while near != 0 && first + row < group.end {
                            found(first + row, at + near.trailing_zeros() as usize);
                            near &= near - 1;
                        }
                    }
                };
                // SAFETY: only lanes that lie inside of the group are loaded; the load may be unaligned.
                let load = |at: usize, lanes| unsafe {
                    _mm512_maskz_loadu_epi64(lanes, hashes.as_ptr().add(at).cast())
                };
                // The first load begins with the second row: a row's own lane and those before it do not count.
                let counted: [__mmask8; ROWS] = [0xff, 0xfe, 0xfc, 0xf8];
                let mut at = first + 1;
                let lanes = _bzhi_u32(0xff, (end - at).min(8) as u32) as __mmask8;
                let all = distances(load(at, lanes));
                found(
                    at,
                    std::array::from_fn(|row| {
                        _mm512_mask_cmple_epu64_mask(lanes & counted[row], all[row], radii)
                    }),
                );
                at += 8;
                while at < end {
                    let lanes = _bzhi_u32(0xff, (end - at).min(8) as u32) as __mmask8;
                    let all = distances(load(at, lanes));
                    // One comparison tells that none of all is near, as is most often so.
                    let [a, b, c, d] = all;
                    let least = _mm512_min_epu64(_mm512_min_epu64(a, b), _mm512_min_epu64(c, d));
                    if _mm512_mask_cmple_epu64_mask(lanes, least, radii) != 0 {
                        found(at, all.map(|row| _mm512_mask_cmple_epu64_mask(lanes, row, radii)));
                    }
                    at += 8;
                }
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;
    use std::ops::Range;

    use crate::kernel::neon;

    /// One hash against eight later ones at a time. What is read beyond a group's end does not count.
    #[target_feature(enable = "neon")]
    pub fn pairs_neon(
        hashes: &[u64],
        groups: impl Iterator<Item = (Range<usize>, usize)>,
        radius: u32,
        found: &mut impl FnMut(usize, usize),
    ) {
        let radii = neon::radii(radius);
        for (rows, end) in groups {
            for first in rows {
                let wanted = vdupq_n_u64(hashes[first]);
                for at in (first + 1..end).step_by(8) {
                    let left = end - at;
                    let Some(later) = hashes[at..].first_chunk() else {
                        // Fewer than eight are left of the whole list.
                        for second in at..end {
                            if (hashes[first] ^ hashes[second]).count_ones() <= radius {
                                found(first, second);
                            }
                        }
                        break;
                    };
                    let mut near = neon::within(neon::distances(later, wanted), radii);
                    if left < 8 {
                        near &= (1 << (8 * left)) - 1;
                    }
                    while near != 0 {
                        found(first, at + near.trailing_zeros() as usize / 8);
                        near &= near - 1;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_kernels_agree(
            flips in prop::collection::vec(prop::collection::vec(0u32..64, 0..6), 0..600),
            ends in prop::collection::vec(prop_oneof![0usize..70, 250usize..600], 0..5),
            base: u64,
            radius in 0u32..9,
            step in 1usize..70,
        ) {
            let hashes: Vec<u64> =
                flips.iter().map(|bits| bits.iter().fold(base, |hash, bit| hash ^ 1 << bit)).collect();
            let mut ends: Vec<usize> = ends.into_iter().map(|end| end.min(hashes.len())).collect();
            ends.sort_unstable();
            let mut from = 0;
            let groups: Vec<Range<usize>> =
                ends.into_iter().map(|end| std::mem::replace(&mut from, end)..end).collect();
            let all = |kernel: Level| {
                let mut found = Vec::new();
                let whole = groups.iter().map(|group| (group.clone(), group.end));
                kernel.pairs(&hashes, whole, radius, |i, j| found.push((i, j)));
                found.sort_unstable();
                found
            };
            let expected = all(Level::PORTABLE);
            for (i, j) in &expected {
                prop_assert!(i < j && (hashes[*i] ^ hashes[*j]).count_ones() <= radius);
            }
            for kernel in Level::available() {
                prop_assert_eq!(&all(kernel), &expected, "{:?}", kernel);
                // Some rows at a time come to the same.
                let mut found = Vec::new();
                for group in &groups {
                    for from in group.clone().step_by(step) {
                        let rows = [(from..group.end.min(from + step), group.end)];
                        kernel.pairs(&hashes, rows.into_iter(), radius, |i, j| found.push((i, j)));
                    }
                }
                found.sort_unstable();
                prop_assert_eq!(&found, &expected, "{:?}", kernel);
            }
        }
    }
}
