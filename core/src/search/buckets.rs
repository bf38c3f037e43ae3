//! The way of a search that probes groups of hashes, shared by the indexes that do so.
//!
//! One probe costs two dependent reads from places that no cache predicts: the directory, then the group. So
//! the probes of a round, and in a batch the probes of several queries, go through three phases together: ask
//! for the directory entries; read them and ask for the groups; compare. The slot of a match in a later table
//! is a search in the first, and goes through the same phases beside the probes of the next queries.

use std::ops::ControlFlow;

use super::table::Table;
use super::{Cost, Hit, Match, Mode, Query};
use crate::id::Slot;
use crate::kernel::Level;
use crate::simhash::volatility::Volatility;
use crate::simhash::vosh::Vosh;

/// Probes of one query that go through the phases together.
const ROUND: usize = 16;

/// Probes in the first round of a search that may end at its first match.
const FIRST_ROUND: usize = 4;

/// Queries of a batch that go through the phases together.
pub(super) const LANES: usize = 4;

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

    /// Whether a match belongs to this probe, and not to another one that finds it as well.
    fn owns(&self, course: &Course, probe: Probe, differing: u64, mode: Mode) -> bool;
}

/// Where a query stands in its sequence of probes.
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
    done: bool,
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

/// Answers up to [`LANES`] queries, one lane each, of which the first stands at `position`. Matches in the
/// first table go to `found`, the others to `unplaced`.
pub(super) fn answer<B: Buckets>(
    index: &B,
    (queries, position): (&[Query<'_>], usize),
    mode: Mode,
    lanes: &mut [Lane],
    unplaced: &mut Unplaced,
    found: &mut dyn FnMut(Match),
) -> Cost {
    let mut cost = Cost::default();
    let lanes = &mut lanes[..queries.len()];
    for (lane, query) in lanes.iter_mut().zip(queries) {
        lane.course.taken = 0;
        lane.finished = 0;
        lane.done = false;
        index.begin(*query, &mut lane.course);
        ask_for_directory(index, query.hash, mode, lane);
    }
    while lanes.iter().any(|lane| !lane.done) {
        for (lane, query) in lanes.iter_mut().zip(queries).filter(|(lane, _)| !lane.done) {
            ask_for_groups(index, query.hash, lane);
        }
        for (number, (lane, query)) in lanes.iter_mut().zip(queries).enumerate() {
            if lane.done {
                continue;
            }
            let any = compare(index, query.hash, mode, lane, &mut cost, |stored, hit, probe, table| {
                let matching = Match { query: (position + number) as u32, hit, probe: probe as u32 };
                if table == 0 {
                    found(matching);
                } else {
                    unplaced.push(&index.tables()[0], stored, matching);
                }
            });
            lane.finished += lane.n as u64;
            if any && mode == Mode::First {
                lane.done = true;
            } else {
                ask_for_directory(index, query.hash, mode, lane);
            }
        }
    }
    cost
}

/// Phase 1: takes the probes of a round and asks for their directory entries. Without
/// probes the lane is done.
#[inline]
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
    lane.done = lane.n == 0;
}

/// Phase 2: reads the directory entries and asks for the groups.
#[inline]
fn ask_for_groups<B: Buckets>(index: &B, query: u64, lane: &mut Lane) {
    let probes = lane.probes[..lane.n].iter().zip(&lane.cells);
    for ((probe, &cell), range) in probes.zip(&mut lane.ranges) {
        let table = &index.tables()[probe.table as usize];
        let found = table.range_of_cell(cell as usize, query ^ probe.mask);
        table.prefetch_hashes(&found);
        *range = (found.start as u32, found.end as u32);
    }
}

/// Phase 3: compares. `found` gets the stored hash, its position in its table for a slot, the number of the
/// probe, from 1, and the table. Returns whether there was a match.
#[inline]
fn compare<B: Buckets>(
    index: &B,
    query: u64,
    mode: Mode,
    lane: &Lane,
    cost: &mut Cost,
    mut found: impl FnMut(u64, Hit, u64, u32),
) -> bool {
    let mut runs: [&[u64]; ROUND] = [&[]; ROUND];
    for (run, (probe, &(from, to))) in runs.iter_mut().zip(lane.probes[..lane.n].iter().zip(&lane.ranges)) {
        *run = &index.tables()[probe.table as usize].hashes()[from as usize..to as usize];
    }
    let runs = &runs[..lane.n];
    let mut verified = 0;
    let mut any = false;
    let (scanned, compared) =
        index.kernel().scan_runs(runs, query, index.search_radius(), |run, at, distance| {
            verified += 1;
            let probe = lane.probes[run];
            let stored = runs[run][at];
            if !index.owns(&lane.course, probe, stored ^ query, mode) {
                return ControlFlow::Continue(());
            }
            any = true;
            let slot = Slot(lane.ranges[run].0 + at as u32);
            let hit = Hit { slot, distance: distance as u8 };
            found(stored, hit, lane.finished + run as u64 + 1, probe.table);
            mode.after_hit()
        });
    *cost += Cost { probes: scanned as u64, candidates: compared as u64, verified };
    any
}
