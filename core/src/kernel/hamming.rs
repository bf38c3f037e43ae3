//! Scans a run of hashes for those within h bits of a query.

use std::ops::ControlFlow;

use super::cpu::{Isa, Level};

impl Level {
    /// Calls `found` with the position and the distance of every hash of `stored` within `radius` of `query`,
    /// in order, until it breaks. Returns how many hashes were compared: all, or those up to the break.
    #[inline]
    pub fn scan<F>(self, stored: &[u64], query: u64, radius: u32, mut found: F) -> usize
    where
        F: FnMut(usize, u32) -> ControlFlow<()>,
    {
        self.scan_runs(&[stored], query, radius, |_, at, distance| found(at, distance)).1
    }

    /// Scans several runs one after the other; `found` gets the number of the run as well. Returns how many
    /// runs were scanned, the last of them perhaps in part, and how many hashes were compared.
    #[inline]
    pub fn scan_runs<F>(self, runs: &[&[u64]], query: u64, radius: u32, mut found: F) -> (usize, usize)
    where
        F: FnMut(usize, usize, u32) -> ControlFlow<()>,
    {
        let found = &mut found;
        match self.isa() {
            Isa::Portable => each_run(runs, |run, stored| {
                scan_portable(stored, 0, query, radius, &mut |at, distance| found(run, at, distance))
            }),
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt | Isa::Avx2 | Isa::Avx512 => unsafe { x86::scan_popcnt(runs, query, radius, found) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Popcnt | Isa::Avx512Vbmi => unsafe { x86::scan_avx512(runs, query, radius, found) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::scan_neon(runs, query, radius, found) },
        }
    }
}

/// How the scan of one run went: to its end, or to a break after so many comparisons.
type Scanned = ControlFlow<usize>;

/// Scans runs with `scan` until it breaks, and adds up what [`Level::scan_runs`] returns.
#[inline(always)]
fn each_run(runs: &[&[u64]], mut scan: impl FnMut(usize, &[u64]) -> Scanned) -> (usize, usize) {
    let mut compared = 0;
    for (run, stored) in runs.iter().enumerate() {
        if let ControlFlow::Break(before) = scan(run, stored) {
            return (run + 1, compared + before);
        }
        compared += stored.len();
    }
    (runs.len(), compared)
}

/// The scan as it is defined, from position `from` on. Inlined where hardware counting is allowed, it uses
/// it.
#[inline(always)]
fn scan_portable(
    stored: &[u64],
    from: usize,
    query: u64,
    radius: u32,
    found: &mut impl FnMut(usize, u32) -> ControlFlow<()>,
) -> Scanned {
    for (at, &hash) in stored.iter().enumerate().skip(from) {
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

    use super::{Scanned, each_run, scan_portable};

    #[target_feature(enable = "popcnt")]
    pub fn scan_popcnt<F>(runs: &[&[u64]], query: u64, radius: u32, found: &mut F) -> (usize, usize)
    where
        F: FnMut(usize, usize, u32) -> ControlFlow<()>,
    {
        each_run(runs, |run, stored| {
            scan_portable(stored, 0, query, radius, &mut |at, distance| found(run, at, distance))
        })
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
            let position = at + lanes.trailing_zeros() as usize;
            if found(position, (stored[position] ^ query).count_ones()).is_break() {
                return ControlFlow::Break(position + 1);
            }
            lanes &= lanes - 1;
        }
        ControlFlow::Continue(())
    }

    /// Eight hashes at a time, the last few under a mask.
    #[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
    pub fn scan_avx512<F>(runs: &[&[u64]], query: u64, radius: u32, found: &mut F) -> (usize, usize)
    where
        F: FnMut(usize, usize, u32) -> ControlFlow<()>,
    {
        let queries = _mm512_set1_epi64(query as i64);
        let radii = _mm512_set1_epi64(i64::from(radius));
        each_run(runs, |run, stored| {
            let mut found = |at, distance| found(run, at, distance);
            let mut at = 0;
            while at < stored.len() {
                let lanes: __mmask8 = match stored.len() - at {
                    left @ 0..8 => (1 << left) - 1,
                    _ => 0xff,
                };
                // SAFETY: only lanes that lie inside of the slice are loaded; the load may be unaligned.
                let hashes = unsafe { _mm512_maskz_loadu_epi64(lanes, stored.as_ptr().add(at).cast()) };
                let distances = _mm512_popcnt_epi64(_mm512_xor_si512(hashes, queries));
                let within = _mm512_mask_cmple_epu64_mask(lanes, distances, radii);
                report(stored, at, u32::from(within), query, &mut found)?;
                at += 8;
            }
            ControlFlow::Continue(())
        })
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;
    use std::ops::ControlFlow;

    use super::{each_run, scan_portable};
    use crate::kernel::neon;

    /// Eight hashes at a time, the last eight of a run perhaps in part for the second time: 28 instructions
    /// for eight. The portable loop counts bits with vector instructions too, but of one hash at a time, and
    /// takes 11 to 14 for each.
    #[target_feature(enable = "neon")]
    pub fn scan_neon<F>(runs: &[&[u64]], query: u64, radius: u32, found: &mut F) -> (usize, usize)
    where
        F: FnMut(usize, usize, u32) -> ControlFlow<()>,
    {
        let wanted = vdupq_n_u64(query);
        let radii = neon::radii(radius);
        each_run(runs, |run, stored| {
            let mut found = |at, distance| found(run, at, distance);
            let Some(last) = stored.len().checked_sub(8) else {
                return scan_portable(stored, 0, query, radius, &mut found);
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
        })
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
            for kernel in Level::available() {
                prop_assert_eq!(&collect(kernel, stored, query, radius, limit), &expected, "{:?}", kernel);
                // In two runs and an empty one.
                let mut found = Vec::new();
                let (runs, compared) = kernel.scan_runs(&[head, &[], tail], query, radius, |run, at, distance| {
                    found.push((if run == 2 { head.len() + at } else { at }, distance));
                    if found.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                prop_assert_eq!(&(found, compared), &expected, "{:?}", kernel);
                prop_assert!(runs == 3 || compared <= head.len());
            }
        }
    }
}
