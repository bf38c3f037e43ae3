//! Scans runs of hashes, such as the buckets of a table, for those that differ from a query in at most `radius` bits.

use std::ops::ControlFlow;

use super::cpu::{Isa, Level};
use super::kept::NearList;

impl Level {
    /// Calls `found` with the position in `stored` and the Hamming distance of every hash within `radius` of `query`,
    /// in order, until `found` breaks. Returns how many hashes were compared: all, or those up to the break.
    #[inline]
    pub fn scan<F>(self, stored: &[u64], query: u64, radius: u32, mut found: F) -> usize
    where
        F: FnMut(usize, u32) -> ControlFlow<()>,
    {
        let found = &mut found;
        let scanned = match self.isa() {
            Isa::Portable => scan_portable(stored, query, radius, found),
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt | Isa::Avx2 => unsafe { x86::scan_popcnt(stored, query, radius, found) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::scan_avx512(stored, query, radius, found) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::scan_neon(stored, query, radius, found) },
        };
        scanned.break_value().unwrap_or(stored.len())
    }

    /// Replaces `list` by the positions in their runs of the hashes within `radius` of `query`, in order. The tag of a
    /// position is the index of its run in `runs`. A run has fewer than 2³² hashes. Returns how many the runs have.
    #[inline(always)]
    pub(crate) fn scan_runs(self, runs: &[&[u64]], query: u64, radius: u32, list: &mut NearList) -> usize {
        let total: usize = runs.iter().map(|run| run.len()).sum();
        list.clear();
        list.make_room(total / 8 + 2 * runs.len());
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt => unsafe { x86::runs_popcnt(runs, query, radius, list) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::runs_avx2(runs, query, radius, list) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::runs_avx512(runs, query, radius, list) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::runs_neon(runs, query, radius, list) },
            Isa::Portable => runs_portable(runs, query, radius, list),
        }
        total
    }
}

/// The scan of runs as it is defined.
#[inline(always)]
fn runs_portable(runs: &[&[u64]], query: u64, radius: u32, list: &mut NearList) {
    for (run, hashes) in (0..).zip(runs) {
        for (at, hash) in (0..).zip(*hashes) {
            if (hash ^ query).count_ones() <= radius {
                list.make_room(1);
                list.add(at, run, 1);
            }
        }
    }
}

/// The end of a scan: at the end of the run, or at a break after this number of comparisons.
type Scanned = ControlFlow<usize>;

/// The scan as it is defined. Inlined where hardware counting is allowed, it uses it.
#[inline(always)]
fn scan_portable(
    stored: &[u64],
    query: u64,
    radius: u32,
    found: &mut impl FnMut(usize, u32) -> ControlFlow<()>,
) -> Scanned {
    for (at, &hash) in stored.iter().enumerate() {
        let distance = (hash ^ query).count_ones();
        if distance <= radius && found(at, distance).is_break() {
            return ControlFlow::Break(at + 1);
        }
    }
    ControlFlow::Continue(())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::ops::ControlFlow;

    use super::{NearList, Scanned, runs_portable, scan_portable};

    #[target_feature(enable = "popcnt")]
    pub fn scan_popcnt<F>(stored: &[u64], query: u64, radius: u32, found: &mut F) -> Scanned
    where
        F: FnMut(usize, u32) -> ControlFlow<()>,
    {
        scan_portable(stored, query, radius, found)
    }

    #[target_feature(enable = "popcnt")]
    pub fn runs_popcnt(runs: &[&[u64]], query: u64, radius: u32, list: &mut NearList) {
        runs_portable(runs, query, radius, list);
    }

    /// Compares runs by whole cache lines: a load across two lines waits for one that perhaps nobody asked for. `load`
    /// loads a line of a run, or those of its lanes whose bits are set, and `near` tells which hashes of a line are
    /// near. One or two lines, as most runs have, take no branch.
    #[inline(always)]
    fn by_lines<V>(
        runs: &[&[u64]],
        list: &mut NearList,
        load: impl Fn(*const u64, Option<u32>) -> V,
        near: impl Fn(V) -> u32,
    ) {
        for (number, run) in (0..).zip(runs) {
            let before = run.as_ptr() as usize / 8 % 8;
            let end = before + run.len();
            let line = run.as_ptr().wrapping_sub(before);
            let mut step = |at: usize, from: usize, lanes: Option<u32>| {
                let near = near(load(line.wrapping_add(from), lanes)) & lanes.unwrap_or(0xff);
                list.add(at.wrapping_sub(before) as u32, number, near);
            };
            let lanes = ((1 << end.min(16)) - 1) & !((1 << before) - 1);
            step(0, 0, Some(lanes & 0xff));
            step(8, if end > 8 { 8 } else { 0 }, Some(lanes >> 8));
            for at in (16..end.saturating_sub(7)).step_by(8) {
                step(at, at, None);
            }
            if end > 16 && !end.is_multiple_of(8) {
                step(end - end % 8, end - end % 8, Some((1 << (end % 8)) - 1));
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    pub fn runs_avx512(runs: &[&[u64]], query: u64, radius: u32, list: &mut NearList) {
        let queries = _mm512_set1_epi64(query as i64);
        let radii = _mm512_set1_epi64(i64::from(radius));
        by_lines(
            runs,
            list,
            // SAFETY: only lanes of the run are loaded, from the start of a cache line.
            |line, lanes| unsafe { _mm512_maskz_load_epi64(lanes.unwrap_or(0xff) as u8, line.cast()) },
            |hashes| {
                let distances = _mm512_popcnt_epi64(_mm512_xor_si512(hashes, queries));
                u32::from(_mm512_cmple_epu64_mask(distances, radii))
            },
        );
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn runs_avx2(runs: &[&[u64]], query: u64, radius: u32, list: &mut NearList) {
        let queries = _mm256_set1_epi64x(query as i64);
        let radii = _mm256_set1_epi64x(i64::from(radius));
        let four = _mm256_set1_epi8(15);
        let counts =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        let load = |line: *const u64, lanes: Option<u32>| {
            [0, 4].map(|half| {
                let at: *const i64 = line.wrapping_add(half).cast();
                let Some(lanes) = lanes else {
                    // SAFETY: four hashes of the run, in one half of a cache line.
                    return unsafe { _mm256_load_si256(at.cast()) };
                };
                let own = _mm256_set1_epi64x(i64::from(lanes >> half));
                let bits = _mm256_setr_epi64x(1, 2, 4, 8);
                let own = _mm256_cmpeq_epi64(_mm256_and_si256(own, bits), bits);
                // SAFETY: only lanes of the run are loaded.
                unsafe { _mm256_maskload_epi64(at, own) }
            })
        };
        let far = |hashes: __m256i| {
            let differing = _mm256_xor_si256(hashes, queries);
            let low = _mm256_shuffle_epi8(counts, _mm256_and_si256(differing, four));
            let high = _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi64::<4>(differing), four));
            let distances = _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256());
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(distances, radii))) as u32
        };
        by_lines(runs, list, load, |[low, high]| !(far(low) | far(high) << 4));
    }

    /// Reports the hashes at `at + lane` for every set lane, lowest first.
    #[inline(always)]
    fn report(
        stored: &[u64],
        at: usize,
        mut lanes: u32,
        query: u64,
        found: &mut impl FnMut(usize, u32) -> ControlFlow<()>,
    ) -> Scanned {
        while lanes != 0 {
            let position = at.wrapping_add(lanes.trailing_zeros() as usize);
            if found(position, (stored[position] ^ query).count_ones()).is_break() {
                return ControlFlow::Break(position + 1);
            }
            lanes &= lanes - 1;
        }
        ControlFlow::Continue(())
    }

    /// A cache line at a time: a load across two lines waits for both.
    #[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
    pub fn scan_avx512<F>(stored: &[u64], query: u64, radius: u32, found: &mut F) -> Scanned
    where
        F: FnMut(usize, u32) -> ControlFlow<()>,
    {
        let queries = _mm512_set1_epi64(query as i64);
        let radii = _mm512_set1_epi64(i64::from(radius));
        let before = stored.as_ptr() as usize / 8 % 8;
        let end = before + stored.len();
        let line = stored.as_ptr().wrapping_sub(before);
        for at in (0..end).step_by(8) {
            let mut lanes = u8::MAX >> (8 - (end - at).min(8));
            if at == 0 {
                lanes &= u8::MAX << before;
            }
            // SAFETY: only lanes that lie inside of the slice are loaded, from the start of a cache line.
            let hashes = unsafe { _mm512_maskz_load_epi64(lanes, line.wrapping_add(at).cast()) };
            let distances = _mm512_popcnt_epi64(_mm512_xor_si512(hashes, queries));
            let within = _mm512_mask_cmple_epu64_mask(lanes, distances, radii);
            report(stored, at.wrapping_sub(before), u32::from(within), query, found)?;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;
    use std::ops::ControlFlow;

    use super::{NearList, Scanned, scan_portable};
    use crate::kernel::neon;

    #[target_feature(enable = "neon")]
    pub fn runs_neon(runs: &[&[u64]], query: u64, radius: u32, list: &mut NearList) {
        for (number, run) in (0..).zip(runs) {
            // It never breaks.
            let _ = scan_neon(run, query, radius, &mut |at, _| {
                list.make_room(1);
                list.add(at as u32, number, 1);
                ControlFlow::Continue(())
            });
        }
    }

    /// Eight hashes at a time, the last eight of a run perhaps in part for the second time: 28 instructions
    /// for eight. The portable loop counts bits with vector instructions too, but of one hash at a time, and
    /// takes 11 to 14 for each.
    #[target_feature(enable = "neon")]
    pub fn scan_neon<F>(stored: &[u64], query: u64, radius: u32, found: &mut F) -> Scanned
    where
        F: FnMut(usize, u32) -> ControlFlow<()>,
    {
        let wanted = vdupq_n_u64(query);
        let radii = neon::radii(radius);
        let Some(last) = stored.len().checked_sub(8) else {
            return scan_portable(stored, query, radius, found);
        };
        let mut next = 0;
        while next < stored.len() {
            let at = next.min(last);
            let distances = neon::distances(stored[at..].first_chunk().expect("eight hashes"), wanted);
            let mut within = neon::within(distances, radii) >> (8 * (next - at)) << (8 * (next - at));
            let distances = vget_lane_u64::<0>(vreinterpret_u64_u8(distances));
            while within != 0 {
                let bit = within.trailing_zeros();
                let position = at + bit as usize / 8;
                if found(position, (distances >> bit & 0xff) as u32).is_break() {
                    return ControlFlow::Break(position + 1);
                }
                within &= within - 1;
            }
            next = at + 8;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All matches, or those up to the `limit`-th, and the number of comparisons.
    fn collect(
        kernel: Level,
        stored: &[u64],
        query: u64,
        radius: u32,
        limit: usize,
    ) -> (Vec<(usize, u32)>, usize) {
        let mut found = Vec::new();
        let compared = kernel.scan(stored, query, radius, |at, distance| {
            found.push((at, distance));
            if found.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (found, compared)
    }

    #[test]
    fn the_radius_is_inclusive() {
        let stored = [0b11u64, 0b111, 0b1111, u64::MAX, 0];
        for kernel in Level::available() {
            assert_eq!(collect(kernel, &stored, 0, 3, 9), (vec![(0, 2), (1, 3), (4, 0)], 5), "{kernel:?}");
            assert_eq!(collect(kernel, &stored, 0, 3, 2), (vec![(0, 2), (1, 3)], 2), "{kernel:?}");
            assert_eq!(collect(kernel, &stored, 0, 64, 9).0.len(), 5, "{kernel:?}");
            assert_eq!(collect(kernel, &[], 0, 64, 9), (vec![], 0), "{kernel:?}");
        }
    }

    proptest! {
        #[test]
        fn all_kernels_agree(
            flips in prop::collection::vec(prop::collection::vec(0u32..64, 0..6), 0..40),
            query: u64,
            inverted: u64,
            radius in prop_oneof![0u32..6, 0u32..70],
            offset in 0usize..3,
            limit in 1usize..5,
        ) {
            let stored: Vec<u64> =
                flips.iter().map(|bits| bits.iter().fold(query, |hash, bit| hash ^ 1 << bit)).collect();
            // Some are nearly all bits away.
            let stored: Vec<u64> =
                (0..).zip(stored).map(|(i, hash)| if inverted >> i & 1 == 1 { !hash } else { hash }).collect();
            let stored = &stored[offset.min(stored.len())..];
            let expected = collect(Level::PORTABLE, stored, query, radius, limit);
            let (head, tail) = stored.split_at(stored.len() / 3);
            let near = |run: &[u64], tag| -> Vec<(u32, u32)> {
                let (near, _) = collect(Level::PORTABLE, run, query, radius, usize::MAX);
                near.into_iter().map(|(at, _)| (at as u32, tag)).collect()
            };
            let in_runs = [near(head, 0), near(tail, 2)].concat();
            let mut list = NearList::default();
            for kernel in Level::available() {
                prop_assert_eq!(&collect(kernel, stored, query, radius, limit), &expected, "{:?}", kernel);
                // In two runs and an empty one, twice with the same list.
                for _ in 0..2 {
                    prop_assert_eq!(kernel.scan_runs(&[head, &[], tail], query, radius, &mut list), stored.len());
                    let found: Vec<(u32, u32)> = list.positions().collect();
                    prop_assert_eq!(&found, &in_runs, "{:?}", kernel);
                }
            }
        }
    }
}
