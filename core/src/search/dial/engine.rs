//! The stages of a search in the dial, and how queries take turns in them.

use super::super::{Cost, Hit, Mode, Query};
use super::Dial;
use crate::id::Slot;
use crate::kernel::flips::Flip;
use crate::kernel::packed::settle::{LANES, Settled, Tag, Unsettled, Wanted};
use crate::kernel::packed::{self, Shortlist};
use crate::kernel::prefetch;
use crate::kernel::weakest::{Job, MAX_TABLES, Split, Strengths};
use crate::simhash::BITS;

impl Dial {
    /// First stage: chooses probes `from..to` of a query, which takes a place in the ring, and asks
    /// for their directory lines.
    #[inline(always)]
    fn choose(
        &self,
        query: &Query<'_>,
        (from, to): (u32, u32),
        place: usize,
        lane: &mut Lane,
        wanted: &mut Wanted,
    ) {
        let masks = self.masks();
        let mut splits = [Split::default(); MAX_TABLES];
        self.kernel.split(query.hash, masks, &mut splits);
        let strengths = self.kernel.strengths(query.weights);
        // Probes of the keys as they are come before all flips.
        let tables = masks.len() as u32;
        let plain = from.min(tables)..to.min(tables);
        let flips = (from.saturating_sub(tables), to.saturating_sub(tables));
        let (mut single, mut count) = (0, 0);
        match self.flips() {
            0 => {}
            1 => (single, count) = self.single_flips(&strengths, flips),
            _ => {
                self.flips_up_to_two(&strengths, flips, &mut lane.flips);
                count = lane.flips.len();
                // What tells which of several probes of one match is the first.
                lane.strengths = strengths;
            }
        }
        for (table, (split, &mask)) in splits.iter().zip(masks).enumerate() {
            wanted.rests[table] = split.rest;
            wanted.flipped[table] = self.kernel.extract(single, !mask);
        }
        (lane.hash, lane.matched) = (query.hash, false);
        lane.keys.resize(plain.len() + count, 0);
        lane.runs.resize(plain.len() + count, packed::Run::default());

        let radius = self.params().radius as i32;
        let mut places = lane.keys.iter_mut().zip(&mut lane.runs).enumerate();
        // Takes the next place for a probe of a table, with these bits of its key flipped.
        let mut probe = |table: u32, flipped: u32, flips: u32| {
            let Some((number, (lane_key, run))) = places.next() else { return };
            let Split { key, rest } = splits[table as usize];
            let key = key as u32 ^ flipped;
            let cell = table * self.cells + key;
            self.directory.prefetch(cell);
            *lane_key = key;
            let tag = Tag::new(table as usize, flips, place, number).bits();
            *run = packed::Run { from: cell, len: 0, wanted: rest, radius: radius - flips as i32, tag };
        };
        plain.for_each(|table| probe(table, 0, 0));
        if self.flips() > 1 {
            for flip in &lane.flips {
                let (first, second) = flip.bits();
                let ((table, one), (_, other)) = (self.places[first], self.places[second]);
                probe(table, one | other, if first == second { 1 } else { 2 });
            }
            return;
        }
        // Their number is the same for all queries, so that this loop ends where the processor expects it.
        for _ in 0..count {
            let (table, flipped) = self.places[single.trailing_zeros() as usize % BITS];
            probe(table, flipped, 1);
            single &= single.wrapping_sub(1);
        }
    }

    /// The bits of the likeliest flips of one bit, from number `from` on to `to`, and how many they are.
    #[inline(always)]
    fn single_flips(&self, strengths: &Strengths, (from, to): (u32, u32)) -> (u64, usize) {
        let bits = self.probes.key_bits();
        let mut chosen = self.kernel.weakest(strengths, bits, to);
        if from > 0 {
            chosen &= !self.kernel.weakest(strengths, bits, from);
        }
        let most = bits.count_ones();
        (chosen, (to.min(most) - from.min(most)) as usize)
    }

    /// The likeliest flips of one or two bits, from number `from` on to `to`.
    #[inline(always)]
    fn flips_up_to_two(&self, strengths: &Strengths, (from, to): (u32, u32), flips: &mut Vec<Flip>) {
        self.kernel.least_flips(strengths, self.masks(), to as usize, flips);
        if from > 0 {
            flips.sort_unstable();
            flips.drain(..flips.len().min(from as usize));
        }
    }

    /// Second stage: reads the directory and asks for the hashes.
    #[inline(always)]
    fn locate(&self, lane: &mut Lane) {
        for run in &mut lane.runs {
            (run.from, run.len) = self.directory.range(run.from);
            self.rests.prefetch(run.from as usize, run.len as usize);
        }
    }

    /// Third stage: compares. What may match goes to the list.
    #[inline(always)]
    fn compare(&self, lane: &Lane, cost: &mut Cost, list: &mut Shortlist) {
        cost.probes += lane.runs.len() as u64;
        cost.candidates += self.rests.shortlist(&lane.runs, self.params.radius, list) as u64;
    }

    /// Settles which of the list are matches, and belong to the probe that found them. Those of the first
    /// table go to `found`, those of others into the stages of placing, each of which moves on.
    #[inline(always)]
    fn settle(
        &self,
        mode: Mode,
        ring: &mut [Lane],
        wanted: &[Wanted; LANES],
        work: &mut Settling,
        cost: &mut Cost,
        found: &mut FoundIn<'_>,
    ) {
        let Settling { list, settled, placed, unplaced: [new, located, last] } = work;
        let differing_bits = |lane: &Lane, tag: Tag, in_rest: u64| {
            let mask = self.masks()[tag.table()];
            let stored_key = self.kernel.deposit(u64::from(lane.keys[tag.probe()]), mask);
            (stored_key ^ lane.hash) & mask | self.kernel.deposit(in_rest, !mask)
        };
        let unplaced = |lane: &Lane, differing: u64| {
            let stored = lane.hash ^ differing;
            let cell = self.kernel.extract(stored, self.masks()[0]) as u32;
            self.directory.prefetch(cell);
            Unplaced { number: lane.number, run: (cell, 0), stored, differing }
        };
        if mode == Mode::All && self.flips() <= 1 {
            let unsettled = Unsettled { list, wanted, keys: &self.keys, radius: self.params.radius };
            let near = self.rests.settle(unsettled, settled);
            cost.verified += near as u64;
            placed.extend(settled.first.iter().map(|(slot, tag, in_rest)| {
                let lane = &ring[tag.lane()];
                Placed { number: lane.number, slot, differing: differing_bits(lane, tag, in_rest) }
            }));
            new.extend(settled.later.iter().map(|(_, tag, in_rest)| {
                let lane = &ring[tag.lane()];
                unplaced(lane, differing_bits(lane, tag, in_rest))
            }));
        } else {
            for (position, tag) in list.iter() {
                let tag = Tag::from_bits(tag);
                let (lane, t) = (&mut ring[tag.lane()], tag.table());
                let in_rest = self.rests.get(position as usize) ^ wanted[tag.lane()].rests[t];
                let differing = differing_bits(lane, tag, in_rest);
                let near = differing.count_ones() <= self.params.radius;
                cost.verified += u64::from(near);
                let counts = match mode {
                    Mode::All => near && self.belongs(t, lane, differing),
                    Mode::First => near && !std::mem::replace(&mut lane.matched, true),
                };
                if counts && t == 0 {
                    placed.push(Placed { number: lane.number, slot: position, differing });
                } else if counts {
                    new.push(unplaced(lane, differing));
                }
            }
        }
        list.clear();
        // The directory was asked for one round ago, the first table's hashes a round later.
        placed.extend(last.iter().map(|found| {
            let slot = self.slot(found.stored, found.run).expect("every table holds the same hashes");
            Placed { number: found.number, slot, differing: found.differing }
        }));
        last.clear();
        found(placed);
        placed.clear();
        for found in located.iter_mut() {
            found.run = self.directory.range(found.run.0);
            self.rests.prefetch(found.run.0 as usize, found.run.1 as usize);
        }
        std::mem::swap(last, located);
        std::mem::swap(located, new);
    }

    /// Whether of all probes that find a hash with these differing bits, the one of table `t` is the first.
    #[inline(always)]
    fn belongs(&self, t: usize, lane: &Lane, differing: u64) -> bool {
        let turn = |table| self.probes.turn(table, differing, &lane.strengths);
        let mine = turn(t);
        (0..self.masks().len())
            .filter(|&other| other != t)
            .all(|other| turn(other).is_none_or(|theirs| Some(theirs) > mine))
    }

    /// Answers all queries within the budget. `found` gets the position of the query, the match,
    /// and the bits that differ.
    pub(super) fn run(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        scratch: &mut DialScratch,
        mut found: impl FnMut(u32, Hit, u64),
    ) -> Cost {
        let budget = self.budget();
        let mut run = |of: Option<&[u32]>, probes, found: &mut FoundIn<'_>| {
            self.kernel.compiled_for(Run { dial: self, queries, of, probes, mode, scratch, found })
        };
        let mut found = |matches: &[Placed]| {
            for &Placed { number, slot, differing } in matches {
                found(number, Hit { slot: Slot(slot), distance: differing.count_ones() as u8 }, differing);
            }
        };
        if mode == Mode::All {
            return run(None, (0, budget), &mut found);
        }
        // Rounds of more and more probes; who has found something is done.
        let mut cost = Cost::default();
        let mut left: Vec<u32> = (0..queries.len() as u32).collect();
        let mut done = vec![false; left.len()];
        let (mut from, mut to) = (0, budget.min(FIRST_ROUND));
        while from < to && !left.is_empty() {
            cost += run(Some(&left), (from, to), &mut |matches| {
                matches.iter().for_each(|found| done[found.number as usize] = true);
                found(matches);
            });
            left.retain(|&number| !done[number as usize]);
            (from, to) = (to, budget.min(to.saturating_mul(4)));
        }
        cost
    }
}

/// One run over queries: probes `probes.0..probes.1` of each, every match to `found`.
struct Run<'a> {
    dial: &'a Dial,
    queries: &'a [Query<'a>],
    /// Of which only these; of all of them if it does not say.
    of: Option<&'a [u32]>,
    probes: (u32, u32),
    mode: Mode,
    scratch: &'a mut DialScratch,
    found: &'a mut FoundIn<'a>,
}

/// What gets the matches, some at a time, with their slots.
type FoundIn<'a> = dyn FnMut(&[Placed]) + 'a;

impl Job for Run<'_> {
    type Output = Cost;

    #[inline(always)]
    fn run(self) -> Cost {
        let Self { dial, queries, of, probes, mode, scratch, found } = self;
        let count = of.map_or(queries.len(), <[u32]>::len);
        let number = |turn: usize| of.map_or(Some(turn), |of| of.get(turn).map(|&number| number as usize));
        let asked = |turn: usize| queries.get(number(turn)?);
        let DialScratch { ring, wanted, settling } = scratch;
        let mut cost = Cost::default();
        let Pace { gap, lanes, most_unsettled } = Pace::of(probes, count);
        ring.resize_with(LANES, Lane::default);
        wanted.resize(LANES, Wanted::default());
        let wanted: &mut [Wanted; LANES] = wanted.as_mut_slice().try_into().expect("one for each lane");
        let mut unsettled = 0;
        for turn in 0..count + 2 * gap {
            if let Some(now) = asked(turn) {
                ask_ahead(turn, asked);
                let place = turn % lanes;
                ring[place].number = number(turn).unwrap_or(turn) as u32;
                dial.choose(now, probes, place, &mut ring[place], &mut wanted[place]);
            }
            if turn >= gap && turn - gap < count {
                dial.locate(&mut ring[(turn - gap) % lanes]);
            }
            if turn >= 2 * gap {
                let place = (turn - 2 * gap) % lanes;
                dial.compare(&ring[place], &mut cost, &mut settling.list);
                unsettled += 1;
                if is_due(settling.list.len(), unsettled, most_unsettled) {
                    dial.settle(mode, ring, wanted, settling, &mut cost, found);
                    unsettled = 0;
                }
            }
        }
        while !settling.is_done() {
            dial.settle(mode, ring, wanted, settling, &mut cost, found);
        }
        cost
    }
}

/// How queries go through the stages.
struct Pace {
    /// Queries between two stages.
    gap: usize,
    /// Lanes that they go in.
    lanes: usize,
    /// Queries that are compared before they are settled.
    most_unsettled: usize,
}

impl Pace {
    /// The pace of so many queries with these probes each.
    #[inline(always)]
    fn of((from, to): (u32, u32), queries: usize) -> Self {
        // Enough probes under way to hide the waiting, few enough that what has been asked for stays in the nearest
        // cache. Stages take turns query by query, so that the memory is never idle and never flooded.
        let gap = (PROBES_UNDER_WAY / (to - from).max(1) as usize).clamp(1, MOST_UNDER_WAY).min(queries);
        // With many probes a query there is enough under way with few queries, and few
        // lanes stay in the cache.
        let lanes = (4 * gap).next_power_of_two().clamp(4, LANES);
        Self { gap, lanes, most_unsettled: lanes - 2 * gap - 1 }
    }
}

/// Asks the memory for the weights of a query that comes later.
#[inline(always)]
fn ask_ahead<'q>(turn: usize, asked: impl Fn(usize) -> Option<&'q Query<'q>>) {
    if let Some(ahead) = asked(turn + ASKED_AHEAD) {
        for line in (0..BITS).step_by(64 / size_of::<f32>()) {
            prefetch::read(ahead.weights, line);
        }
    }
}

/// Whether what has been compared is to be settled.
#[inline(always)]
fn is_due(list: usize, unsettled: usize, most_unsettled: usize) -> bool {
    list >= SETTLED_TOGETHER || unsettled == most_unsettled
}

/// Probes of all queries between two stages, where a query has few.
const PROBES_UNDER_WAY: usize = 72;

/// Most queries between two stages.
const MOST_UNDER_WAY: usize = 10;

/// What may match is settled when there is so much of it, or when the ring is full.
const SETTLED_TOGETHER: usize = 32;

/// How far ahead the weights of queries are asked for.
const ASKED_AHEAD: usize = 16;

/// Probes in the first round of a search that may end at its first match.
const FIRST_ROUND: u32 = 4;

/// A match whose slot is known.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// Position of the query.
    number: u32,
    slot: u32,
    differing: u64,
}

/// A match of which the slot is not known yet.
#[derive(Clone, Copy, Debug)]
struct Unplaced {
    /// Position of the query.
    number: u32,
    /// Where the first table's hashes with its key begin, and how many they are; before that
    /// is known, the cell and 0.
    run: (u32, u32),
    stored: u64,
    differing: u64,
}

/// What comparing leaves to be settled.
#[derive(Clone, Debug, Default)]
struct Settling {
    list: Shortlist,
    settled: Settled,
    /// Matches with their slots.
    placed: Vec<Placed>,
    /// Matches in other tables than the first, by the stage of placing that they are in.
    unplaced: [Vec<Unplaced>; 3],
}

impl Settling {
    fn is_done(&self) -> bool {
        self.list.is_empty() && self.unplaced.iter().all(Vec::is_empty)
    }
}

/// What the stages know of one query.
#[derive(Clone, Debug)]
struct Lane {
    /// Position of the query.
    number: u32,
    /// Whether it has a match.
    matched: bool,
    hash: u64,
    /// For keys with two flips.
    strengths: Strengths,
    /// The key that each probe is of.
    keys: Vec<u32>,
    /// What each probe compares; before its cell has been read, where it begins is the cell.
    runs: Vec<packed::Run>,
    /// For keys with two flips, those chosen.
    flips: Vec<Flip>,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            number: 0,
            matched: false,
            hash: 0,
            strengths: Strengths([0; BITS]),
            keys: Vec::new(),
            runs: Vec::new(),
            flips: Vec::new(),
        }
    }
}

/// What a search of the dial index needs to work with.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct DialScratch {
    ring: Vec<Lane>,
    /// What the query in each lane wants.
    wanted: Vec<Wanted>,
    settling: Settling,
}
