//! The dial that grows: hashes are added one by one, and a search at any time gives the answers of a [`Dial`] built
//! over all of them. An [`Index`](crate::Index) of SimHashes searches by it. Ours, not the paper's, which does not
//! describe insertion.
//!
//! The latest hashes are a short list that is scanned. When it is full, it is merged with the smallest of a few dials,
//! the parts, and where that would grow beyond its share, with the next one. Each holds up to eight times as many as
//! the one before (O'Neil, Cheng, Gawlick & O'Neil, *The Log-Structured Merge-Tree*, 1996). So a hash is built into a
//! part a few times for each factor of eight that the index grows by, and a search asks one part for each.
//!
//! A small part has narrower keys than a large one, made of some of its bits, and so the same budget finds more in it.
//! In fewer bits no more differ, and a bit of low margin among all keys' bits is so among fewer. A match that the one
//! large dial would not find is dropped. So answers depend on the hashes that were added, not on when they were merged.

use super::dial::{Dial, DialParams, Probes, order_of};
use super::keys::Keys;
use super::{HammingIndex, Hit, Mode, Probing, Query, Scratch};
use crate::id::{Id, Slot};
use crate::kernel::Level;
use crate::{Error, Result};
use std::ops::ControlFlow;

/// The number of hashes in no part at which they are merged. To scan fewer costs about as much as a few probes.
const MOST_WAITING: usize = 2048;

/// The factor by which each part may be larger than the one before.
const GROWTH: usize = 8;

/// A dial over some of the hashes.
#[derive(Clone, Debug)]
struct Part {
    dial: Dial,
    /// For each slot of the dial, the slot that the hash was given when it was added.
    slots: Vec<Slot>,
}

/// An index of SimHashes that grows. The slot of a hash is the number of distinct hashes that were added before it.
#[derive(Clone, Debug)]
pub(crate) struct Online {
    params: DialParams,
    /// The bits of the keys. The keys of a part are the first of them, as many as its size calls for.
    keys: Keys,
    /// The probes of the one large dial whose answers the index gives.
    probes: Probes,
    /// All hashes by slot; the hashes from slot `merged` on are in no part yet.
    hashes: Vec<u64>,
    merged: usize,
    /// Part i holds at most `MOST_WAITING · GROWTH^(i + 1)` hashes.
    parts: Vec<Option<Part>>,
    kernel: Level,
}

impl Online {
    /// An empty index whose answers are those of a dial over `expected` hashes with these parameters, with at most one
    /// flip in a key. More hashes may be added; searches then take longer than they need. Keys have as many bits as the
    /// parameters say, or as suit `expected` hashes: the first of `keys`, or without them those of
    /// [`DialParams::keys`].
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning, and for keys of another number of tables, or of too few
    /// bits.
    pub fn new(params: DialParams, keys: Option<Keys>, expected: usize) -> Result<Self> {
        let leading = params.masks(expected)?;
        // Two flips are ordered among the bits of all keys, of which a small part has fewer.
        let flips = params.flips.unwrap_or((params.radius / params.tables).min(1));
        if flips > 1 {
            return Err(Error::parameter("flips", flips, "at most 1 where hashes are added one by one"));
        }
        let key_bits = leading[0].count_ones();
        let keys = keys.unwrap_or_else(|| Keys::of_masks(&leading));
        let masks = Some(keys.masks(key_bits)?);
        let params = DialParams { key_bits: Some(key_bits), keys: masks, flips: Some(flips), ..params };
        let probes = Probes::new(params.masks(expected)?, flips);
        let (hashes, parts, kernel) = (Vec::new(), Vec::new(), Level::in_use());
        Ok(Self { params, keys, probes, hashes, merged: 0, parts, kernel })
    }

    /// Fills an empty index with distinct hashes: `hashes[i]` gets slot i.
    ///
    /// # Errors
    /// [`Error::Parameter`] for hashes that are not distinct, or too many.
    pub fn filled(mut self, hashes: Vec<u64>) -> Result<Self> {
        debug_assert!(self.hashes.is_empty(), "an index is filled once");
        self.hashes = hashes;
        if !self.hashes.is_empty() {
            let place = self.place_for(self.hashes.len());
            self.parts.resize_with(place + 1, || None);
            let all = Slot::all(self.hashes.len()).collect();
            self.parts[place] = Some(self.part(all)?);
            self.merged = self.hashes.len();
        }
        Ok(self)
    }

    /// Adds a hash unless it is there, and gives its slot; true if it was added.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there are 2³² hashes already.
    pub fn insert(&mut self, hash: u64) -> Result<(Slot, bool)> {
        if let Some(slot) = self.find(hash) {
            return Ok((slot, false));
        }
        let slot = super::check_number("hashes", self.hashes.len())?;
        self.hashes.push(hash);
        if self.hashes.len() - self.merged >= MOST_WAITING {
            self.merge()?;
        }
        Ok((Slot(slot), true))
    }

    /// The slot of a hash; none if it has not been added.
    pub fn find(&self, hash: u64) -> Option<Slot> {
        let waiting = self.hashes[self.merged..].iter().position(|&other| other == hash);
        if let Some(at) = waiting {
            return Some(Slot((self.merged + at) as u32));
        }
        self.parts.iter().flatten().find_map(|part| part.dial.find(hash).map(|at| part.slots[at.index()]))
    }

    /// All hashes in the order of their slots.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Sets the most probes of a query; `None` for all.
    pub fn set_budget(&mut self, budget: Option<u32>) {
        self.params.budget = budget;
        let parts = self.parts.iter_mut().flatten();
        parts.for_each(|part| part.dial.set_budget(budget));
    }

    /// Memory in bytes of the hashes and parts.
    pub fn bytes(&self) -> usize {
        let part = |part: &Part| part.dial.bytes() + size_of_val(&part.slots[..]);
        size_of_val(&self.hashes[..]) + self.parts.iter().flatten().map(part).sum::<usize>()
    }

    /// The number of the first part that may hold `n` hashes.
    fn place_for(&self, n: usize) -> usize {
        let holds = |place: &u32| n <= MOST_WAITING.saturating_mul(GROWTH.saturating_pow(place + 1));
        (0..).find(holds).unwrap_or(u32::MAX) as usize
    }

    /// Moves the hashes in no part to the first part that may hold them, its own and those of all parts before it.
    fn merge(&mut self) -> Result<()> {
        let mut slots: Vec<Slot> = (self.merged as u32..self.hashes.len() as u32).map(Slot).collect();
        let mut place = 0;
        loop {
            if self.parts.len() == place {
                self.parts.push(None);
            }
            if let Some(part) = &self.parts[place] {
                slots.extend(&part.slots);
            }
            if self.place_for(slots.len()) <= place {
                break;
            }
            place += 1;
        }
        let part = self.part(slots)?;
        self.parts[..place].fill(None);
        self.parts[place] = Some(part);
        self.merged = self.hashes.len();
        Ok(())
    }

    /// Builds a part of the hashes of these slots.
    fn part(&self, slots: Vec<Slot>) -> Result<Part> {
        let usual = DialParams { key_bits: None, keys: None, ..self.params.clone() }.masks(slots.len())?;
        let key_bits = usual[0].count_ones().min(self.probes.masks()[0].count_ones());
        let masks = self.keys.masks(key_bits)?;
        let mut order: Vec<(u64, Slot)> =
            slots.into_iter().map(|slot| (order_of(self.hashes[slot.index()], masks[0]), slot)).collect();
        // A stable sort merges runs. With leading bits each part that is merged is one; other bits put keys
        // of other widths in another order.
        order.sort();
        let slots: Vec<Slot> = order.into_iter().map(|(_, slot)| slot).collect();
        let sorted: Vec<u64> = slots.iter().map(|&slot| self.hashes[slot.index()]).collect();
        let params = DialParams { key_bits: Some(key_bits), keys: Some(masks), ..self.params.clone() };
        Ok(Part { dial: Dial::new(&sorted, params)?, slots })
    }

    /// All hashes within the radius that a query finds within the budget, each with the number, from 1, of the probe of
    /// the one large dial that finds it. Their order is not specified.
    pub fn search(&self, query: Query<'_>) -> Vec<(Hit, u32)> {
        let margins = self.kernel.margins(query.weights);
        let budget = self.params.budget.unwrap_or(u32::MAX);
        let mut found = Vec::new();
        let mut add = |slot: Slot, distance: u8| {
            let probe = self.probes.first(self.hashes[slot.index()] ^ query.hash, &margins);
            let within = probe.filter(|&probe| probe <= budget);
            found.extend(within.map(|probe| (Hit { slot, distance }, probe)));
        };
        let waiting = &self.hashes[self.merged..];
        self.kernel.scan(waiting, query.hash, self.params.radius, |at, distance| {
            add(Slot((self.merged + at) as u32), distance as u8);
            ControlFlow::Continue(())
        });
        let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
        for part in self.parts.iter().flatten() {
            part.dial.search(query, Mode::All, &mut scratch, &mut hits);
            hits.drain(..).for_each(|hit| add(part.slots[hit.slot.index()], hit.distance));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::simhash::{BITS, distance};
    use proptest::prelude::*;

    /// Hashes around a few centres, in the order in which they come.
    fn stream(n: usize, seed: u64) -> Vec<u64> {
        around(n, seed, |centre| centre)
    }

    /// Likewise; most have the same first byte, and the last four are often equal.
    fn skewed(n: usize, seed: u64) -> Vec<u64> {
        around(n, seed, |centre| {
            let last = if centre & 0x300 == 0 { centre & 0xffff_ffff } else { centre >> 63 << 5 };
            centre >> 32 << 32 | if centre & 0x7000 == 0 { 0 } else { 0xff << 56 } | last
        })
    }

    fn around(n: usize, seed: u64, centre: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut rng = SplitMix64::new(seed);
        let centres: Vec<u64> = (0..n / 8 + 1).map(|_| centre(rng.next_u64())).collect();
        (0..n)
            .map(|_| {
                let centre = centres[rng.below(centres.len() as u64) as usize];
                (0..rng.below(4)).fold(centre, |hash, _| hash ^ 1 << rng.below(64))
            })
            .collect()
    }

    fn weights(seed: u64) -> [f32; BITS] {
        let mut rng = SplitMix64::new(seed);
        std::array::from_fn(|_| rng.unit() as f32 - 0.5)
    }

    /// Matches of an index as (hash, distance), ascending.
    fn answers(index: &dyn HammingIndex, hashes: &[u64], query: Query<'_>) -> Vec<(u64, u8)> {
        let mut hits = Vec::new();
        index.search(query, Mode::All, &mut Scratch::default(), &mut hits);
        let mut found: Vec<(u64, u8)> =
            hits.iter().map(|hit| (hashes[hit.slot.index()], hit.distance)).collect();
        found.sort_unstable();
        found
    }

    /// Matches of a growing index as (hash, distance), ascending.
    fn matches(index: &Online, query: Query<'_>) -> Vec<(u64, u8)> {
        let hits = index.search(query);
        let mut found: Vec<(u64, u8)> =
            hits.iter().map(|(hit, _)| (index.hashes()[hit.slot.index()], hit.distance)).collect();
        found.sort_unstable();
        found
    }

    /// Compares a growing index with the dial over the same hashes.
    fn check(index: &Online, queries: &[u64], seed: u64) {
        let mut sorted = index.hashes().to_vec();
        sorted.sort_unstable_by_key(|&hash| order_of(hash, index.probes.masks()[0]));
        let dial = Dial::new(&sorted, index.params.clone()).unwrap();
        assert_eq!(u64::from(index.probes.all()), dial.all_probes());
        for &hash in queries {
            let weights = weights(seed ^ hash);
            let query = Query { hash, weights: &weights };
            let expected = answers(&dial, &sorted, query);
            assert_eq!(matches(index, query), expected);
            if dial.is_exact() {
                let near = sorted.iter().map(|&h| (h, distance(h, hash) as u8));
                let mut near: Vec<_> = near.filter(|&(_, d)| u32::from(d) <= index.params.radius).collect();
                near.sort_unstable();
                assert_eq!(expected, near);
            }
            // Probes are those of the dial.
            let mut its = Vec::new();
            dial.answer(&[query], Mode::All, true, &mut Scratch::default(), &mut |found| {
                its.push((found.hit, found.probe))
            });
            let mine = index.search(query);
            let mut mine: Vec<_> =
                mine.iter().map(|(h, probe)| (index.hashes()[h.slot.index()], *probe)).collect();
            let mut its: Vec<_> = its.iter().map(|(h, probe)| (sorted[h.slot.index()], *probe)).collect();
            mine.sort_unstable();
            its.sort_unstable();
            assert_eq!(mine, its);
        }
    }

    #[test]
    fn chosen_keys_have_the_answers_of_the_static_index_too() {
        let hashes = skewed(6 * MOST_WAITING, 5);
        for (budget, tables, radius) in [(None, 2, 3), (Some(6), 2, 3), (Some(9), 3, 6), (Some(20), 6, 10)] {
            let params = DialParams { radius, tables, budget, ..DialParams::default() };
            let keys = Keys::choose(&hashes, tables).unwrap();
            let mut index = Online::new(params.clone(), Some(keys.clone()), 60_000).unwrap();
            assert_eq!(index.params.keys, Some(index.probes.masks().to_vec()));
            assert_eq!(index.params.key_bits, Online::new(params, None, 60_000).unwrap().params.key_bits);
            for (i, &hash) in hashes.iter().enumerate() {
                index.insert(hash).unwrap();
                if [1, 2048, 2600, 4096, 9_000, hashes.len() - 1].contains(&i) {
                    let ahead = (i + 1).min(hashes.len() - 1);
                    check(&index, &[hash, hashes[i / 2], hash ^ 5, hashes[ahead], 0], 3);
                }
            }
            // The parts have narrower keys than the whole: the bits chosen first.
            for part in index.parts.iter().flatten() {
                let narrow = part.dial.key_bits();
                assert_eq!(part.dial.masks(), keys.masks(narrow).unwrap());
                assert!(narrow < index.probes.masks()[0].count_ones() || tables == 6);
            }
        }
    }

    #[test]
    fn hashes_keep_their_slots_through_merges() {
        let hashes = stream(3 * MOST_WAITING * GROWTH, 9);
        let mut index = Online::new(DialParams::default(), None, 1 << 20).unwrap();
        let mut slots = hashbrown::HashMap::new();
        for &hash in &hashes {
            let (slot, new) = index.insert(hash).unwrap();
            assert_eq!(new, !slots.contains_key(&hash));
            assert_eq!(*slots.entry(hash).or_insert(slot), slot);
        }
        assert_eq!(index.hashes().len(), slots.len());
        assert!(slots.iter().all(|(&hash, &slot)| index.find(hash) == Some(slot)));
        assert!(index.parts.len() > 1, "merged beyond the first part");
        for part in index.parts.iter().flatten() {
            assert!(part.slots.len() > MOST_WAITING / 2);
        }
        // Made at once, it is the same.
        let again = Online::new(DialParams::default(), None, 1 << 20).unwrap();
        let again = again.filled(index.hashes().to_vec()).unwrap();
        for (slot, &hash) in (0..).zip(index.hashes()).step_by(77) {
            assert_eq!(again.find(hash), Some(Slot(slot)));
            let weights = weights(hash);
            let query = Query { hash: hash ^ 3, weights: &weights };
            assert_eq!(matches(&again, query), matches(&index, query));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(Online::new(DialParams { tables: 9, ..DialParams::default() }, None, 10).is_err());
        assert!(Online::new(DialParams { flips: Some(2), ..DialParams::default() }, None, 10).is_err());
        let keys = |tables| Some(Keys::choose(&[], tables).unwrap());
        assert!(Online::new(DialParams::default(), keys(2), 10).is_ok());
        assert!(Online::new(DialParams::default(), keys(3), 10).is_err());
        let wide = DialParams { tables: 1, key_bits: Some(17), ..DialParams::default() };
        assert!(Online::new(wide, Some(Keys::of_masks(&[0xffff])), 1 << 20).is_err());
        let new = || Online::new(DialParams::default(), None, 10).unwrap();
        assert!(new().filled(vec![3, 5, 3]).is_err());
        let empty = new().filled(vec![]).unwrap();
        assert!(empty.hashes().is_empty() && empty.find(0).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_interleaving(
            seed: u64, n in 1usize..5_000, budget in prop::option::of(0u32..40), radius in 0u32..6, tables in 1u32..4,
            at in prop::collection::vec(any::<prop::sample::Index>(), 1..4), uneven: bool, are_chosen: bool,
        ) {
            let params = DialParams { radius, tables, budget, key_bits: Some(14), ..DialParams::default() };
            let hashes = if uneven { skewed(n, seed) } else { stream(n, seed) };
            let keys = are_chosen.then(|| Keys::choose(&hashes, tables).unwrap());
            let mut index = Online::new(params, keys, 1 << 12).unwrap();
            let asked: Vec<usize> = at.iter().map(|at| at.index(n)).collect();
            for (i, &hash) in hashes.iter().enumerate() {
                if asked.contains(&i) {
                    check(&index, &[hash, hash ^ 1 << 63, hashes[i / 3]], seed);
                }
                index.insert(hash).unwrap();
            }
            check(&index, &[hashes[0], hashes[n / 2]], seed);
        }
    }
}
