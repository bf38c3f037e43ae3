//! The probes of the dial, and the order in which a query makes them. First comes every table's key as it is, then keys
//! with flips, those of the lowest sum of margins first. The margin of a bit is the distance from zero of the weighted
//! sum whose sign it is.

use super::MOST_FLIPS;
use crate::kernel::flips::KeyFlip;
use crate::kernel::{Level, lowest_margin::Margins};

/// The probes of a dial, and their order for a query. They follow from the keys alone: no index has to be built.
#[derive(Clone, Debug)]
pub(crate) struct Probes {
    masks: Vec<u64>,
    /// A mask of the bits of all keys.
    key_bits: u64,
    /// f: the most bits that a probe flips.
    flips: u32,
    kernel: Level,
}

impl Probes {
    /// The probes of tables with keys of these disjoint masks. A probe flips at most `flips` bits, and 2 at the most.
    pub fn new(masks: Vec<u64>, flips: u32) -> Self {
        let key_bits = masks.iter().fold(0, |all, mask| all | mask);
        Self { masks, key_bits, flips: flips.min(MOST_FLIPS), kernel: Level::in_use() }
    }

    /// The mask of each table's key.
    #[inline]
    pub fn masks(&self) -> &[u64] {
        &self.masks
    }

    /// A mask of the bits of all keys.
    #[inline]
    pub fn key_bits(&self) -> u64 {
        self.key_bits
    }

    /// f: the most bits that a probe flips.
    #[inline]
    pub fn flips(&self) -> u32 {
        self.flips
    }

    /// Number of all probes of a query.
    pub fn all(&self) -> u32 {
        let sets = |p: u32| match self.flips {
            0 => 1,
            1 => 1 + p,
            _ => 1 + p + p * p.saturating_sub(1) / 2,
        };
        self.masks.iter().map(|mask| sets(mask.count_ones())).sum()
    }

    /// True if all probes together find every hash within `radius`.
    pub fn reach(&self, radius: u32) -> bool {
        radius < self.masks.len() as u32 * (self.flips + 1)
    }

    /// The number, from 1, of the first probe that finds a hash which differs from the query in these bits; none if no
    /// probe does. `margins` are those of the query.
    pub fn first(&self, differing: u64, margins: &Margins) -> Option<u32> {
        let turns = (0..self.masks.len()).filter_map(|t| Some((self.turn(t, differing, margins)?, t)));
        turns.min().map(|(_, t)| self.number(t, differing, margins))
    }

    /// The probe of table `t` that finds a hash with these differing bits, as its place in the order of probes; none if
    /// no probe of that table does.
    #[inline]
    pub(super) fn turn(&self, t: usize, differing: u64, margins: &Margins) -> Option<Turn> {
        let flipped = differing & self.masks[t];
        if flipped == 0 {
            return Some(Turn::AsItIs(t));
        }
        (flipped.count_ones() <= self.flips).then(|| Turn::Flipped(KeyFlip::new(margins, flipped)))
    }

    /// The number of a probe in the order of probes, from 1.
    fn number(&self, t: usize, differing: u64, margins: &Margins) -> u32 {
        let lesser = match self.turn(t, differing, margins) {
            None | Some(Turn::AsItIs(_)) => return t as u32 + 1,
            Some(Turn::Flipped(flip)) if self.flips == 1 => {
                self.kernel.rank(margins, self.key_bits, flip.bits().0 as u32)
            }
            Some(Turn::Flipped(flip)) => self.kernel.lesser_flips(margins, &self.masks, flip),
        };
        self.masks.len() as u32 + 1 + lesser
    }
}

/// The place of a probe in the order of a query's probes: a lesser one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// The probe with the key as it is, of the table of this number.
    AsItIs(usize),
    /// The probe with these bits of a key flipped.
    Flipped(KeyFlip),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;

    /// All probes in their order, as table and flipped bits.
    fn listed(probes: &Probes, margins: &Margins) -> Vec<(usize, u64)> {
        let mut flips = Vec::new();
        for (table, &mask) in probes.masks().iter().enumerate() {
            let bits: Vec<u64> = (0..64).map(|bit| mask & 1 << bit).filter(|&bit| bit != 0).collect();
            for (at, &one) in bits.iter().enumerate() {
                flips.extend((probes.flips() > 0).then_some((table, one)));
                let pairs = bits[at + 1..].iter().map(|&other| (table, one | other));
                flips.extend(pairs.filter(|_| probes.flips() > 1));
            }
        }
        flips.sort_by_key(|&(_, set)| KeyFlip::new(margins, set));
        (0..probes.masks().len()).map(|table| (table, 0)).chain(flips).collect()
    }

    #[test]
    fn the_first_probe_is_that_of_the_list() {
        let mut rng = SplitMix64::new(1);
        for masks in [vec![0xff], vec![0xff, 0xff00], vec![0x8421_8421_0000_0000, 0x0f0f, 0xf0f0]] {
            for flips in 0..=3 {
                let probes = Probes::new(masks.clone(), flips);
                assert_eq!((probes.masks(), probes.flips()), (&masks[..], flips.min(2)));
                assert_eq!(probes.key_bits(), masks.iter().sum::<u64>());
                // Few margins: many ties.
                let margins = Margins(std::array::from_fn(|_| rng.below(3) as u8));
                let list = listed(&probes, &margins);
                assert_eq!(probes.all() as usize, list.len());
                for _ in 0..300 {
                    // From few differing bits to many.
                    let differing = rng.next_u64() & rng.next_u64() & (rng.next_u64() | rng.next_u64() << 32);
                    let finds = |&(table, set): &(usize, u64)| differing & masks[table] == set;
                    let first = list.iter().position(finds).map(|at| at as u32 + 1);
                    assert_eq!(probes.first(differing, &margins), first, "{differing:x}, {flips} flips");
                }
            }
        }
    }

    #[test]
    fn a_radius_is_reached_if_some_key_has_few_enough_of_its_bits() {
        for (flips, within) in [(0, 1), (1, 3), (2, 5)] {
            let probes = Probes::new(vec![0xff, 0xff00], flips);
            assert!(probes.reach(within) && !probes.reach(within + 1));
        }
    }
}
