//! Bands of the bits of SimHashes, as tables of [`Bphs`]: a match has to agree with the query in all bits of a band.
//! The search is exact only if there are more bands than `radius` bits.

use super::bands::Banding;
use super::bphs::Bphs;
use crate::simhash::BITS;
use crate::{Error, Result};

/// The key of every band, as masks over the bits of a hash: from the most significant bit on, `rows` bits each.
/// Bits behind the last band are of no key.
///
/// # Errors
/// [`Error::Parameter`] if there is no band, or they have more bits than a hash.
fn band_keys(Banding { bands, rows }: Banding) -> Result<Vec<u64>> {
    if bands == 0 || rows == 0 || bands.saturating_mul(rows) > BITS {
        let expected = format!("bands × bits of 1 to the {BITS} bits of a hash");
        return Err(Error::parameter("bands", format!("{bands}x{rows}"), expected));
    }
    Ok((0..bands).map(|band| u64::MAX << (BITS - rows) >> (band * rows)).collect())
}

/// Checks that a hash of 64 bits has room for these bands of `rows` bits.
///
/// # Errors
/// [`Error::Parameter`] if it has not, or if there is no band or no bit in one.
pub(crate) fn check_bands(banding: Banding) -> Result<()> {
    band_keys(banding).map(|_| ())
}

impl Bphs {
    /// Builds a table for each band of bits over `hashes`, as [`new`](Self::new) does; `rows` of a [`Banding`]
    /// are bits here. The index finds the hashes within `radius` that agree with the query in all bits of a band. These
    /// are all hashes within the radius only if the radius is less than the number of bands.
    ///
    /// # Errors
    /// [`Error::Parameter`] for bands that do not fit 64 bits, a radius of 64 or more, and hashes that do not ascend.
    #[doc(hidden)]
    pub fn banded(hashes: &[u64], radius: u32, banding: Banding) -> Result<Self> {
        if radius >= BITS as u32 {
            return Err(Error::parameter("radius", radius, "below 64"));
        }
        let Banding { bands, rows } = banding;
        Self::with_keys(hashes, format!("bands-{bands}x{rows}"), radius, band_keys(banding)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::id::Slot;
    use crate::search::{HammingIndex, Hit, Mode, Query, Scratch};
    use crate::simhash::distance;
    use proptest::prelude::*;

    /// True if two hashes agree in a band, bit by bit from the most significant one on.
    fn agree(a: u64, b: u64, Banding { bands, rows }: Banding) -> Vec<usize> {
        let bit = |hash: u64, at: usize| hash >> (63 - at) & 1;
        let equal = |band: &usize| (band * rows..(band + 1) * rows).all(|at| bit(a, at) == bit(b, at));
        (0..bands).filter(equal).collect()
    }

    proptest! {
        #[test]
        fn bands_find_what_comparing_everything_finds(
            seed: u64, n in 1usize..200, radius in 0u32..16,
            (bands, rows) in (1usize..=64).prop_flat_map(|rows| (1..=64 / rows, Just(rows))),
        ) {
            let banding = Banding { bands, rows };
            let mut rng = SplitMix64::new(seed);
            // Each hash is one of a few with up to nine bits flipped.
            let mut hashes: Vec<u64> = (0..n)
                .map(|_| {
                    let of = SplitMix64::new(rng.below(5)).next_u64();
                    (0..rng.below(10)).fold(of, |hash, _| hash ^ 1 << rng.below(64))
                })
                .collect();
            hashes.sort_unstable();
            hashes.dedup();
            let index = Bphs::banded(&hashes, radius, banding).unwrap();
            prop_assert_eq!(HammingIndex::tables(&index), bands);
            let weights = [1.0; BITS];
            for &hash in hashes.iter().step_by(7) {
                let wanted: Vec<Hit> = (0..)
                    .zip(&hashes)
                    .filter(|&(_, &other)| distance(hash, other) <= radius && !agree(hash, other, banding).is_empty())
                    .map(|(slot, &other)| Hit { slot: Slot(slot), distance: distance(hash, other) as u8 })
                    .collect();
                let mut hits = Vec::new();
                index.search(Query { hash, weights: &weights }, Mode::All, &mut Scratch::default(), &mut hits);
                hits.sort_unstable();
                prop_assert_eq!(&hits, &wanted);
                for &other in &hashes {
                    let tables = index.reach().tables_of(hash, other);
                    let near = distance(hash, other) <= radius;
                    let bands = agree(hash, other, banding).iter().fold(0, |set, band| set | 1 << band);
                    prop_assert_eq!(tables, if near { bands } else { 0 });
                }
                // More bands than bits may differ: everything within the radius.
                let all = hashes.iter().filter(|&&other| distance(hash, other) <= radius).count();
                prop_assert!(radius as usize >= bands || hits.len() == all);
            }
        }
    }

    #[test]
    fn impossible_bands_are_refused() {
        for (bands, rows) in [(0, 16), (4, 0), (5, 13), (65, 1)] {
            assert!(Bphs::banded(&[1], 8, Banding { bands, rows }).is_err(), "{bands} {rows}");
        }
        assert!(Bphs::banded(&[1], 64, Banding { bands: 4, rows: 16 }).is_err());
        assert!(Bphs::banded(&[2, 1], 8, Banding { bands: 4, rows: 16 }).is_err());
    }
}
