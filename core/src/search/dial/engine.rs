//! The stages of a search in the dial, and how queries take turns in them. A lane is the state of one query in the
//! stages, and lanes stand in a ring that queries use again and again. A possible match is a stored hash of which the
//! first 32 bits outside of the key were compared, and are near enough.

use std::ops::Range;

use super::super::{Cost, Hit, Mode, Query};
use super::{Dial, MOST_TABLES};
use crate::id::Slot;
use crate::kernel::flips::KeyFlip;
use crate::kernel::kept::{Kept, NearList};
use crate::kernel::lowest_margin::{Job, Margins};
use crate::kernel::packed;
use crate::kernel::prefetch;
use crate::simhash::BITS;

impl Dial {
    /// First stage: chooses the probes of these numbers, from 0, of a query, writes them to its lane, and prefetches
    /// their directory lines. `place` is the lane's place in the ring.
    #[inline(always)]
    fn choose(&self, query: &Query<'_>, probes: Range<u32>, place: usize, lane: &mut DialLane) {
        let masks = self.masks();
        // Probes of the keys as they are come before all flips.
        let tables = masks.len() as u32;
        let plain = probes.start.min(tables)..probes.end.min(tables);
        let flips = probes.start.saturating_sub(tables)..probes.end.saturating_sub(tables);
        let (mut single, mut count) = (0, 0);
        if flips.end > 0 && self.probes.flips() > 0 {
            lane.margins = self.kernel.margins(query.weights);
            if self.probes.flips() == 1 {
                (single, count) = self.single_flips(&lane.margins, flips);
            } else {
                self.flips_up_to_two(&lane.margins, flips, &mut lane.flips);
                count = lane.flips.len();
            }
        }
        (lane.hash, lane.matched, lane.single) = (query.hash, false, single);
        let mut keys = [(0, 0); MAX_TABLES];
        for ((key, rest), &mask) in keys.iter_mut().zip(masks) {
            *key = self.kernel.extract(query.hash, mask) as u32;
            *rest = self.rests.high_bits(self.kernel.extract(query.hash, !mask));
        }
        lane.cells.resize(plain.len() + count, 0);
        lane.runs.resize(plain.len() + count, packed::Run::default());

        let radius = self.params().radius as i32;
        let mut places = lane.cells.iter_mut().zip(&mut lane.runs).enumerate();
        // Adds the probe of a table with these bits of its key flipped.
        let mut probe = |table: u32, flipped: u32, flips: u32| {
            let Some((number, (cell, run))) = places.next() else { return };
            let (key, wanted) = keys[table as usize % MAX_TABLES];
            *cell = table * self.cells + (key ^ flipped);
            self.directory.prefetch(*cell);
            let tag = Tag::new(table as usize, place, number).0;
            (run.wanted, run.radius, run.tag) = (wanted, radius - flips as i32, tag);
        };
        plain.for_each(|table| probe(table, 0, 0));
        if self.probes.flips() > 1 {
            for flip in &lane.flips {
                let (first, second) = flip.bits();
                let ((table, one), (_, other)) = (self.places[first], self.places[second]);
                probe(table, one | other, if first == second { 1 } else { 2 });
            }
            return;
        }
        // The number of flips is the same for all queries, so that this loop ends where the processor expects it.
        for _ in 0..count {
            let (table, flipped) = self.places[single.trailing_zeros() as usize % BITS];
            probe(table, flipped, 1);
            single &= single.wrapping_sub(1);
        }
    }

    /// A mask of the likeliest flips of one bit with these numbers, from 0, and how many they are.
    #[inline(always)]
    fn single_flips(&self, margins: &Margins, numbers: Range<u32>) -> (u64, usize) {
        let Range { start: from, end: to } = numbers;
        let bits = self.probes.key_bits();
        let mut chosen = self.kernel.lowest_margin(margins, bits, to);
        if from > 0 {
            chosen &= !self.kernel.lowest_margin(margins, bits, from);
        }
        let most = bits.count_ones();
        (chosen, (to.min(most) - from.min(most)) as usize)
    }

    /// Writes the likeliest flips of one or two bits with these numbers, from 0, to `flips`.
    #[inline(always)]
    fn flips_up_to_two(&self, margins: &Margins, numbers: Range<u32>, flips: &mut Vec<KeyFlip>) {
        let Range { start: from, end: to } = numbers;
        self.kernel.least_flips(margins, self.masks(), to as usize, flips);
        if from > 0 {
            flips.sort_unstable();
            flips.drain(..flips.len().min(from as usize));
        }
    }

    /// Second stage: reads the directory and prefetches the groups.
    #[inline(always)]
    fn locate(&self, lane: &mut DialLane) {
        for (run, &cell) in lane.runs.iter_mut().zip(&lane.cells) {
            self.rests.locate(run, self.directory.range(cell));
        }
    }

    /// Third stage: compares, and adds the positions of possible matches to the list.
    #[inline(always)]
    fn compare(&self, lane: &DialLane, cost: &mut Cost, list: &mut NearList) {
        cost.probes += lane.runs.len() as u64;
        cost.candidates += self.rests.shortlist(&lane.runs, list) as u64;
    }

    /// Decides which of the possible matches are matches, and keeps each match once, or one of each query. The matches
    /// of the first table go to `found`. The others enter the three stages in which their slots are looked up, and the
    /// matches in these move on by one stage.
    #[inline(always)]
    fn settle(
        &self,
        mode: Mode,
        ring: &mut [DialLane],
        work: &mut Settling,
        cost: &mut Cost,
        found: &mut FoundIn<'_>,
    ) {
        let Settling { list, placed, unplaced: [new, located, last] } = work;
        let count = list.count();
        placed.make_room(count);
        new.make_room(count);
        for (position, tag) in list.positions() {
            let tag = Tag(tag);
            let (lane, t) = (&mut ring[tag.lane()], tag.table());
            let mask = self.masks()[t];
            let key = lane.cells[tag.probe()] - t as u32 * self.cells;
            let key = self.kernel.deposit(u64::from(key), mask);
            let stored = key | self.kernel.deposit(self.rests.get(position as usize), !mask);
            let differing = stored ^ lane.hash;
            let near = differing.count_ones() <= self.params.radius;
            cost.verified += u64::from(near);
            let counts = near
                & match mode {
                    Mode::All if self.probes.flips() <= 1 => !self.found_before(t, lane, differing),
                    Mode::All => self.belongs(t, lane, differing),
                    Mode::First => !lane.matched,
                };
            lane.matched |= near;
            let number = lane.number;
            placed.write(Placed { number, slot: position, differing }, counts & (t == 0));
            new.write(UnplacedMatch { number, run: (0, 0), stored, differing }, counts & (t > 0));
        }
        for found in new.rows_mut() {
            found.run.0 = self.kernel.extract(found.stored, self.masks()[0]) as u32;
            self.directory.prefetch(found.run.0);
        }
        list.clear();
        // The directory was prefetched two rounds ago, and the first table's group one round ago.
        placed.make_room(last.rows().len());
        for &UnplacedMatch { number, run, stored, differing } in last.rows() {
            let slot = self.slot(stored, run).expect("every table holds the same hashes");
            placed.write(Placed { number, slot, differing }, true);
        }
        last.clear();
        found(placed.rows());
        placed.clear();
        for found in located.rows_mut() {
            found.run = self.directory.range(found.run.0);
            self.rests.prefetch(found.run.0 as usize, found.run.1 as usize);
        }
        std::mem::swap(last, located);
        std::mem::swap(located, new);
    }

    /// True if a table before `t` finds a hash with these differing bits: with its key as it is, or by a flip.
    #[inline(always)]
    fn found_before(&self, t: usize, lane: &DialLane, differing: u64) -> bool {
        self.masks().iter().enumerate().fold(false, |before, (u, mask)| {
            let flipped = differing & mask;
            before | (u < t) & (flipped & (flipped.wrapping_sub(1) | !lane.single) == 0)
        })
    }

    /// True if the probe of table `t` is the first of all probes that find a hash with these differing bits.
    #[inline(always)]
    fn belongs(&self, t: usize, lane: &DialLane, differing: u64) -> bool {
        let turn = |table| self.probes.turn(table, differing, &lane.margins);
        let mine = turn(t);
        (0..self.masks().len())
            .filter(|&other| other != t)
            .all(|other| turn(other).is_none_or(|theirs| Some(theirs) > mine))
    }

    /// Answers all queries within the budget, and gives the cost. `found` gets the place of the query, the match, and
    /// the bits in which the two differ.
    pub(super) fn run(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        scratch: &mut DialScratch,
        mut found: impl FnMut(u32, Hit, u64),
    ) -> Cost {
        let budget = self.budget();
        let mut run = |of: Option<&[u32]>, probes, found: &mut FoundIn<'_>| {
            self.kernel.compiled_for(DialRun { dial: self, queries, of, probes, mode, scratch, found })
        };
        let mut found = |matches: &[Placed]| {
            for &Placed { number, slot, differing } in matches {
                found(number, Hit { slot: Slot(slot), distance: differing.count_ones() as u8 }, differing);
            }
        };
        if mode == Mode::All {
            return run(None, 0..budget, &mut found);
        }
        // Rounds of more and more probes. A query with a match is done.
        let mut cost = Cost::default();
        let mut left: Vec<u32> = (0..queries.len() as u32).collect();
        let mut done = vec![false; left.len()];
        let (mut from, mut to) = (0, budget.min(FIRST_ROUND));
        while from < to && !left.is_empty() {
            cost += run(Some(&left), from..to, &mut |matches| {
                matches.iter().for_each(|found| done[found.number as usize] = true);
                found(matches);
            });
            left.retain(|&number| !done[number as usize]);
            (from, to) = (to, budget.min(to.saturating_mul(4)));
        }
        cost
    }
}

/// The probe that found a possible match, packed into 32 bits: its table, the lane of its query, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag(u32);

/// Queries under way at the same time.
const LANES: usize = 64;
const MAX_TABLES: usize = MOST_TABLES as usize;
const TABLE_BITS: u32 = MAX_TABLES.ilog2();
const LANE_BITS: u32 = LANES.ilog2();

impl Tag {
    /// The tag of probe number `probe`, from 0, of the query in `lane`.
    #[inline(always)]
    fn new(table: usize, lane: usize, probe: usize) -> Self {
        debug_assert!(table < MAX_TABLES && lane < LANES && probe >> (32 - TABLE_BITS - LANE_BITS) == 0);
        Self((table | lane << TABLE_BITS | probe << (TABLE_BITS + LANE_BITS)) as u32)
    }

    #[inline(always)]
    fn table(self) -> usize {
        self.0 as usize % MAX_TABLES
    }

    #[inline(always)]
    fn lane(self) -> usize {
        (self.0 >> TABLE_BITS) as usize % LANES
    }

    #[inline(always)]
    fn probe(self) -> usize {
        (self.0 >> (TABLE_BITS + LANE_BITS)) as usize
    }
}

/// One run over queries: it makes some probes of each, and gives every match to `found`.
struct DialRun<'a> {
    dial: &'a Dial,
    queries: &'a [Query<'a>],
    /// The places of the queries that are answered; none if all are.
    of: Option<&'a [u32]>,
    /// The numbers of the probes, from 0.
    probes: Range<u32>,
    mode: Mode,
    scratch: &'a mut DialScratch,
    found: &'a mut FoundIn<'a>,
}

/// The receiver of matches with their slots, some at a time.
type FoundIn<'a> = dyn FnMut(&[Placed]) + 'a;

impl Job for DialRun<'_> {
    type Output = Cost;

    #[inline(always)]
    fn run(self) -> Cost {
        let Self { dial, queries, of, probes, mode, scratch, found } = self;
        let count = of.map_or(queries.len(), <[u32]>::len);
        let number = |turn: usize| of.map_or(Some(turn), |of| of.get(turn).map(|&number| number as usize));
        let asked = |turn: usize| queries.get(number(turn)?);
        let DialScratch { ring, settling } = scratch;
        let mut cost = Cost::default();
        let Pace { gap, lanes, most_unsettled } = Pace::of(probes.len(), count);
        ring.resize_with(LANES, DialLane::default);
        let mut unsettled = 0;
        for turn in 0..count + 2 * gap {
            if let Some(now) = asked(turn) {
                ask_ahead(turn, asked);
                let place = turn % lanes;
                ring[place].number = number(turn).unwrap_or(turn) as u32;
                dial.choose(now, probes.clone(), place, &mut ring[place]);
            }
            if turn >= gap && turn - gap < count {
                dial.locate(&mut ring[(turn - gap) % lanes]);
            }
            if turn >= 2 * gap {
                let place = (turn - 2 * gap) % lanes;
                dial.compare(&ring[place], &mut cost, &mut settling.list);
                unsettled += 1;
                if is_due(settling.list.rows().len(), unsettled, most_unsettled) {
                    dial.settle(mode, ring, settling, &mut cost, found);
                    unsettled = 0;
                }
            }
        }
        while !settling.is_done() {
            dial.settle(mode, ring, settling, &mut cost, found);
        }
        cost
    }
}

/// The pace of queries through the stages.
struct Pace {
    /// The number of queries between two stages.
    gap: usize,
    /// The number of lanes in use.
    lanes: usize,
    /// The most queries that are compared before possible matches are settled.
    most_unsettled: usize,
}

impl Pace {
    /// Chooses the pace of so many queries with so many probes each.
    #[inline(always)]
    fn of(probes: usize, queries: usize) -> Self {
        // Enough probes under way to hide the waiting, few enough that what has been asked for stays in the nearest
        // cache. Stages take turns query by query, so that the memory is never idle and never flooded.
        let gap = (PROBES_UNDER_WAY / probes.max(1)).clamp(1, MOST_UNDER_WAY).min(queries);
        // With many probes a query there is enough under way with few queries, and few
        // lanes stay in the cache.
        let lanes = (4 * gap).next_power_of_two().clamp(4, LANES);
        Self { gap, lanes, most_unsettled: lanes - 2 * gap - 1 }
    }
}

/// Prefetches the weights of a query that comes later.
#[inline(always)]
fn ask_ahead<'q>(turn: usize, asked: impl Fn(usize) -> Option<&'q Query<'q>>) {
    if let Some(ahead) = asked(turn + ASKED_AHEAD) {
        for line in (0..BITS).step_by(64 / size_of::<f32>()) {
            prefetch::read(ahead.weights, line);
        }
    }
}

/// True if the possible matches are to be settled.
#[inline(always)]
fn is_due(list: usize, unsettled: usize, most_unsettled: usize) -> bool {
    list >= SETTLED_TOGETHER || unsettled == most_unsettled
}

/// Probes of all queries between two stages, where a query has few.
const PROBES_UNDER_WAY: usize = 72;

/// Most queries between two stages.
const MOST_UNDER_WAY: usize = 10;

/// The number of possible matches that are settled together, unless the ring is full before.
const SETTLED_TOGETHER: usize = 32;

/// The number of queries ahead whose weights are prefetched.
const ASKED_AHEAD: usize = 16;

/// Probes in the first round of a search that may end at its first match.
const FIRST_ROUND: u32 = 4;

/// A match whose slot is known.
#[derive(Clone, Copy, Debug, Default)]
struct Placed {
    /// Place of the query.
    number: u32,
    slot: u32,
    /// The bits in which the query and the stored hash differ.
    differing: u64,
}

/// A match of which the slot is not known yet.
#[derive(Clone, Copy, Debug, Default)]
struct UnplacedMatch {
    /// Place of the query.
    number: u32,
    /// Where the first table's group of its key begins, and how many hashes it has; before that is known, the cell and
    /// 0.
    run: (u32, u32),
    stored: u64,
    differing: u64,
}

/// The possible matches that are to be settled, and the matches whose slots are looked up.
#[derive(Clone, Debug, Default)]
struct Settling {
    list: NearList,
    /// Matches with their slots.
    placed: Kept<Placed>,
    /// Matches in other tables than the first, by the stage in which their slots are looked up.
    unplaced: [Kept<UnplacedMatch>; 3],
}

impl Settling {
    fn is_done(&self) -> bool {
        self.list.rows().is_empty() && self.unplaced.iter().all(|list| list.rows().is_empty())
    }
}

/// The state of one query in the stages.
#[derive(Clone, Debug, Default)]
struct DialLane {
    /// Place of the query.
    number: u32,
    /// True if the query has a match.
    matched: bool,
    hash: u64,
    /// If probes flip at most one bit, the bits that they flip.
    single: u64,
    /// The margins of the query's weights, if probes flip bits.
    margins: Margins,
    /// The directory's cell of each probe.
    cells: Vec<u32>,
    /// The run that each probe compares.
    runs: Vec<packed::Run>,
    /// If probes flip up to two bits, the flips that are chosen.
    flips: Vec<KeyFlip>,
}

/// The buffers of a search of the dial index.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct DialScratch {
    ring: Vec<DialLane>,
    settling: Settling,
}
