//! The way of a search that probes groups of hashes, shared by the indexes that do so.
//!
//! One probe costs two dependent reads from places that no cache predicts: the directory, then the group. So
//! the probes of a round go through three phases together: ask for the directory entries; read them and ask for the
//! groups; compare. In a batch several queries take turns, each in another phase. The slot of a match in a later table
//! is a search in the first, and goes through the same phases beside the probes of the next queries.

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

/// Queries of a batch that are under way at the same time.
pub(super) const LANES: usize = 8;

/// The number of queries ahead whose weights are asked for.
const ASKED_AHEAD: usize = 16;

/// One probe: of the hashes of a table that agree in the key with the query after `mask` is flipped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub table: u32,
    pub mask: u64,
}

/// An index whose search is a sequence of probes.
pub(super) trait Buckets {
    /// The first of them is the list that slots refer to.
    fn tables(&self) -> &[Table];

    fn search_radius(&self) -> u32;

    fn kernel(&self) -> Level;

    /// Prepares the sequence of probes for a query.
    fn begin(&self, query: Query<'_>, course: &mut Course);

    /// The next probe, if the sequence goes on.
    fn next(&self, course: &mut Course) -> Option<Probe>;

    /// Asks for what `begin` will read of a query.
    #[inline]
    fn ask_ahead(&self, _: &Query<'_>) {}

    /// True if a match belongs to this probe, and not to another one that finds it as well.
    fn owns(&self, course: &Course, probe: Probe, differing: u64, mode: Mode) -> bool;
}

/// The state of a query in its sequence of probes.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// Probes taken so far.
    pub taken: u64,
    /// For one sequence of flips from a heap.
    pub vosh: Vosh,
    /// For flips in a fixed order of ranks.
    pub order: Volatility,
}

/// One query under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub course: Course,
    probes: [Probe; ROUND],
    cells: [u32; ROUND],
    ranges: [(u32, u32); ROUND],
    n: usize,
    /// Probes finished in earlier rounds.
    finished: u64,
    /// Position of the query.
    query: u32,
}

/// Matches of later tables, whose slots are not known yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Unplaced {
    /// The first table's directory has been asked for.
    new: Vec<(u64, Match)>,
    /// Its hashes as well.
    located: Vec<(u64, Match)>,
}

impl Unplaced {
    fn push(&mut self, first: &Table, stored: u64, found: Match) {
        first.prefetch_cell(first.cell(stored));
        self.new.push((stored, found));
    }

    /// Finds the slots of those whose hashes have been asked for, and asks for the hashes of the others.
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

    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.located.is_empty()
    }
}

/// The answers of an index to queries. Matches in the first table go to `found`, the others to `unplaced`.
pub(super) struct ProbeRun<'a, B> {
    pub index: &'a B,
    pub queries: &'a [Query<'a>],
    pub mode: Mode,
    pub lanes: &'a mut Vec<Lane>,
    pub unplaced: &'a mut Unplaced,
    pub near: &'a mut NearList,
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
    /// Phase 3: compares. `found` gets the stored hash, the match, with its position in its table for a slot, and the
    /// table.
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
                // The rest would not have been needed.
                scanned = run + 1;
                compared = runs[..run].iter().map(|run| run.len()).sum::<usize>() + at + 1;
                break;
            }
        }
        Cost { probes: scanned as u64, candidates: compared as u64, verified }
    }
}
