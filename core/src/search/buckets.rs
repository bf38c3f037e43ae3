//! The search that BPHS and PSM with key flips share. Their index is a list of [`Table`]s, and a probe compares a query
//! with the group of hashes that have one key in one table.
//!
//! One probe costs two dependent reads from places that no cache predicts: the directory, then the group. So
//! the probes of a round go through three phases together: ask for the directory entries; read them and ask for the
//! groups; compare. Several queries take turns, each in another phase; a lane is the state of one of them. Slots are
//! places in the first table. A match in a later table is looked up there, in the same phases, beside the probes of the
//! next queries.

use super::table::Table;
use super::{Cost, Hit, Match, Mode, Query};
use crate::id::Slot;
use crate::kernel::Level;
use crate::kernel::kept::NearList;
use crate::kernel::lowest_margin::Job;
use crate::simhash::volatility::Volatility;
use crate::simhash::vosh::Vosh;

/// Probes of one query that go through the phases together.
const ROUND: usize = 16;

/// Probes in the first round of a search that may end at its first match.
const FIRST_ROUND: usize = 4;

/// The most queries that are under way at the same time.
pub(super) const LANES: usize = 8;

/// The number of queries ahead whose weights are asked for.
const ASKED_AHEAD: usize = 16;

/// A probe for the hashes of a table that have the key of the query with the bits of `mask` flipped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// Number of the table, from 0.
    pub table: u32,
    /// The bits of the query that are flipped.
    pub mask: u64,
}

/// An index of tables, whose search is a sequence of probes.
pub(super) trait Buckets {
    /// The tables, all of the same hashes. Slots are places in the first.
    fn tables(&self) -> &[Table];

    /// The largest distance of a match.
    fn search_radius(&self) -> u32;

    /// The processor's instructions that the search uses.
    fn kernel(&self) -> Level;

    /// Sets `course` to the beginning of the sequence of probes for a query.
    fn begin(&self, query: Query<'_>, course: &mut Course);

    /// The next probe; none at the end of the sequence. The caller counts it in [`Course::taken`].
    fn next(&self, course: &mut Course) -> Option<Probe>;

    /// Prefetches the memory of a query that `begin` will read.
    #[inline]
    fn ask_ahead(&self, _: &Query<'_>) {}

    /// True if this probe is the one that reports a match. Several probes may find it, and one of them reports it.
    /// `differing` are the bits in which the stored hash differs from the query.
    fn owns(&self, course: &Course, probe: Probe, differing: u64, mode: Mode) -> bool;
}

/// The state of a query in its sequence of probes.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// The number of probes taken so far.
    pub taken: u64,
    /// Of PSM, the flips in the order of the query's weights.
    pub vosh: Vosh,
    /// Of PSM with a fixed order of ranks, the query's bits by rank.
    pub order: Volatility,
}

/// The state of one query under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    /// Its sequence of probes.
    pub course: Course,
    /// The first `n` are the probes of this round.
    probes: [Probe; ROUND],
    /// The directory's cell of each probe.
    cells: [u32; ROUND],
    /// Where each probe's group begins and ends in its table.
    ranges: [(u32, u32); ROUND],
    /// Probes of this round; 0 if the lane has no query.
    n: usize,
    /// Probes finished in earlier rounds.
    finished: u64,
    /// Place of the query among those asked together.
    query: u32,
}

/// Matches that later tables than the first found, each with its stored hash. Their slots are still to be looked up.
#[derive(Clone, Debug, Default)]
pub(super) struct Unplaced {
    /// Matches for which the first table's directory entry has been prefetched.
    new: Vec<(u64, Match)>,
    /// Matches for which the first table's hashes have been prefetched as well.
    located: Vec<(u64, Match)>,
}

impl Unplaced {
    /// Adds a match, and prefetches the directory entry of its stored hash in the first table.
    fn push(&mut self, first: &Table, stored: u64, found: Match) {
        first.prefetch_cell(first.cell(stored));
        self.new.push((stored, found));
    }

    /// Looks up the matches whose hashes have been prefetched, and gives them with their slots to `placed`. Prefetches
    /// the hashes of the others.
    pub fn advance(&mut self, first: &Table, placed: &mut dyn FnMut(Match)) {
        for (stored, found) in self.located.drain(..) {
            let slot = first.find(stored).0.expect("every table holds the same hashes");
            let slot = Slot(slot as u32);
            placed(Match { hit: Hit { slot, ..found.hit }, ..found });
        }
        for (stored, _) in &self.new {
            first.prefetch_hashes(&first.range(*stored));
        }
        std::mem::swap(&mut self.new, &mut self.located);
    }

    /// True if no match is left to be looked up.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.located.is_empty()
    }
}

/// A search of an index for all of some queries. Running it gives their cost.
pub(super) struct ProbeRun<'a, B> {
    pub index: &'a B,
    pub queries: &'a [Query<'a>],
    pub mode: Mode,
    /// A buffer for the queries under way.
    pub lanes: &'a mut Vec<Lane>,
    /// A buffer for the matches of later tables. It must be empty, and is empty after the run.
    pub unplaced: &'a mut Unplaced,
    /// A buffer for one lane's positions of near hashes.
    pub near: &'a mut NearList,
    /// The receiver of all matches, with their slots.
    pub found: &'a mut dyn FnMut(Match),
}

impl<B: Buckets> Job for ProbeRun<'_, B> {
    type Output = Cost;

    /// Each turn serves two lanes of a ring: one whose groups have been on their way for half a round, and one whose
    /// directory entries have.
    #[inline(always)]
    fn run(self) -> Cost {
        let Self { index, queries, mode, lanes, unplaced, near, found } = self;
        let mut cost = Cost::default();
        lanes.resize_with(queries.len().clamp(lanes.len(), LANES), Lane::default);
        let ring = &mut lanes[..queries.len().min(LANES)];
        for lane in ring.iter_mut() {
            lane.n = 0;
        }
        let first = &index.tables()[0];
        let (mut begun, mut under_way) = (0, 0);
        // The lane that is served, and the one half a round away.
        let (mut at, mut other) = (0, ring.len() / 2);
        while begun < queries.len() || under_way > 0 {
            let lane = &mut ring[at];
            if lane.n > 0 {
                let query = &queries[lane.query as usize];
                let mut any = false;
                cost += lane.compare(index, query.hash, mode, near, |stored, matching, table| {
                    any = true;
                    if table == 0 { found(matching) } else { unplaced.push(first, stored, matching) }
                });
                lane.finished += lane.n as u64;
                if any && mode == Mode::First {
                    lane.n = 0;
                } else {
                    ask_for_directory(index, query.hash, mode, lane);
                }
                under_way -= usize::from(lane.n == 0);
            }
            if lane.n == 0
                && let Some(query) = queries.get(begun)
            {
                if let Some(later) = queries.get(begun + ASKED_AHEAD) {
                    index.ask_ahead(later);
                }
                (lane.query, lane.course.taken, lane.finished) = (begun as u32, 0, 0);
                index.begin(*query, &mut lane.course);
                ask_for_directory(index, query.hash, mode, lane);
                begun += 1;
                under_way += usize::from(lane.n > 0);
            }
            let lane = &mut ring[other];
            if lane.n > 0 {
                ask_for_groups(index, queries[lane.query as usize].hash, lane);
            }
            for place in [&mut at, &mut other] {
                *place += 1;
                if *place == ring.len() {
                    *place = 0;
                    unplaced.advance(first, found);
                }
            }
        }
        while !unplaced.is_empty() {
            unplaced.advance(first, found);
        }
        cost
    }
}

/// Phase 1: takes the probes of a round and asks for their directory entries. Without
/// probes the lane is done.
#[inline(always)]
fn ask_for_directory<B: Buckets>(index: &B, query: u64, mode: Mode, lane: &mut Lane) {
    let room = if mode == Mode::First && lane.finished == 0 { FIRST_ROUND } else { ROUND };
    lane.n = 0;
    while lane.n < room {
        let Some(probe) = index.next(&mut lane.course) else { break };
        lane.course.taken += 1;
        let table = &index.tables()[probe.table as usize];
        let cell = table.cell(query ^ probe.mask);
        table.prefetch_cell(cell);
        lane.probes[lane.n] = probe;
        lane.cells[lane.n] = cell as u32;
        lane.n += 1;
    }
}

/// Phase 2: reads the directory entries and asks for the groups.
#[inline(always)]
fn ask_for_groups<B: Buckets>(index: &B, query: u64, lane: &mut Lane) {
    let probes = lane.probes[..lane.n].iter().zip(&lane.cells);
    for ((probe, &cell), range) in probes.zip(&mut lane.ranges) {
        let table = &index.tables()[probe.table as usize];
        let found = table.range_of_cell(cell as usize, query ^ probe.mask);
        table.prefetch_hashes(&found);
        *range = (found.start as u32, found.end as u32);
    }
}

impl Lane {
    /// Phase 3: compares the query with the groups of this round. `found` gets each stored hash that matches, the match
    /// with the place of the hash in its table for a slot, and the number of the table.
    #[inline(always)]
    fn compare<B: Buckets>(
        &self,
        index: &B,
        query: u64,
        mode: Mode,
        near: &mut NearList,
        mut found: impl FnMut(u64, Match, u32),
    ) -> Cost {
        let mut runs: [&[u64]; ROUND] = [&[]; ROUND];
        for (run, (probe, &(from, to))) in runs.iter_mut().zip(self.probes[..self.n].iter().zip(&self.ranges))
        {
            *run = &index.tables()[probe.table as usize].hashes()[from as usize..to as usize];
        }
        let runs = &runs[..self.n];
        let total = index.kernel().scan_runs(runs, query, index.search_radius(), near);
        let (mut scanned, mut compared, mut verified) = (self.n, total, 0);
        for (at, run) in near.positions() {
            let (at, run) = (at as usize, run as usize);
            verified += 1;
            let probe = self.probes[run];
            let stored = runs[run][at];
            if !index.owns(&self.course, probe, stored ^ query, mode) {
                continue;
            }
            let slot = Slot(self.ranges[run].0 + at as u32);
            let hit = Hit { slot, distance: (stored ^ query).count_ones() as u8 };
            let number = (self.finished + run as u64 + 1) as u32;
            found(stored, Match { query: self.query, hit, probe: number }, probe.table);
            if mode == Mode::First {
                // Comparisons after the first match do not count.
                scanned = run + 1;
                compared = runs[..run].iter().map(|run| run.len()).sum::<usize>() + at + 1;
                break;
            }
        }
        Cost { probes: scanned as u64, candidates: compared as u64, verified }
    }
}
