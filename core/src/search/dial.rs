//! The dial: one index from fast to exact. Few compact tables, each keyed on its own bits of the hash, looked into with at
//! most one or two bits of the key flipped, the weakest bits first. Ours, not the paper's.
//!
//! Give t tables disjoint sets of bits as keys. Of two hashes within h < t(f + 1) bits of each other, some key differs in at
//! most f bits. So looks at each key as it is, and with each set of at most f of its bits flipped, find every match: t(p + 1)
//! looks for keys of p bits and one flip. As every bit lies in one key at most, a look with one flip *is* a bit, and the
//! likeliest looks are those of the weakest bits: no heap, no sort, one choice of the k weakest among the keys' bits (see
//! [`crate::kernel::weakest`]). With two flips a look costs the sum of both bits' |W| ([`crate::kernel::flips`]). A budget
//! buys the keys as they are and the likeliest flips; a budget for all looks makes the search exact.
//!
//! Inside of a group of equal keys the key's bits are known, so that a table holds the other bits only, without gaps
//! ([`crate::kernel::packed`]). A directory entry is two bytes.
//!
//! A look costs two reads that no cache predicts. A query goes through three stages: choose the looks and ask for the
//! directory; read it and ask for the hashes; compare. While one query is compared, the hashes of the next few and the
//! directory entries of the few after them are on their way. Comparing makes a list of what may match, without a branch that
//! depends on it; the list is settled for several queries together ([`crate::kernel::packed::settle`]), and slots of matches
//! in later tables go through stages of their own.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::directory::log2;
use super::{Cost, HammingIndex, Hit, Match, Mode, Query, Reach, Scratch};
use crate::id::Slot;
use crate::kernel::flips::Flip;
use crate::kernel::packed::settle::{KeysInRests, LANES, Settled, Tag, Unsettled, Wanted};
use crate::kernel::packed::{self, Packed, Shortlist, WIDEST};
use crate::kernel::weakest::{Job, Kernel, MAX_TABLES, Split, Strengths};
use crate::kernel::{huge_pages::HugeList, prefetch};
use crate::simhash::BITS;
use crate::{Error, Result};

/// What a dial index is built with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DialParams {
    /// h: the largest distance of a match, at most 64.
    pub radius: u32,
    /// t: number of tables, 1 to 8. All looks together are exact for h < t(f + 1).
    pub tables: u32,
    /// f: most bits flipped in a key, 0 to 2; by default ⌊h/t⌋, the fewest for which the search can be exact, or 2.
    pub flips: Option<u32>,
    /// p: bits of each key, at least 8, at most 30, 64/t and, for n hashes, the greater of 14 and log₂(n) + 3; by default
    /// about log₂(n) − 2.
    pub key_bits: Option<u32>,
    /// The bits of each table's key as masks: disjoint, all of p bits. By default the leading bits of the t equal parts of
    /// the hash.
    pub keys: Option<Vec<u64>>,
    /// Looks per query; `None` for all.
    pub budget: Option<u32>,
}

impl Default for DialParams {
    fn default() -> Self {
        Self { radius: 3, tables: 2, flips: None, key_bits: None, keys: None, budget: None }
    }
}

/// Fewest bits of a key: a rest must fit 57 bits.
const FEWEST_KEY_BITS: u32 = 64 - WIDEST + 1;

/// The widths that a key may have for so many hashes and tables.
pub fn key_widths(n: usize, tables: u32) -> std::ops::RangeInclusive<u32> {
    FEWEST_KEY_BITS..=(BITS as u32 / tables.max(1)).min(most_key_bits(n))
}

/// Most bits of a key over `n` hashes: more would make a directory of nearly empty cells, and the cells of all tables are
/// numbered together in 32 bits.
fn most_key_bits(n: usize) -> u32 {
    (log2(n) + 3).clamp(14, 30)
}

/// Most hashes that an index with so many tables holds: positions in all of them are numbered together in 32 bits.
pub fn most_hashes(tables: u32) -> u32 {
    u32::MAX / tables.max(1)
}

/// Most bits flipped in a key.
pub const MOST_FLIPS: u32 = 2;

/// Most tables: of eight bits each at the least.
pub const MOST_TABLES: u32 = 8;

const _: () = assert!(MOST_TABLES as usize <= MAX_TABLES && MOST_TABLES * FEWEST_KEY_BITS <= 64);

impl DialParams {
    /// The masks of the keys for an index over `n` hashes.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning.
    pub fn masks(&self, n: usize) -> Result<Vec<u64>> {
        if self.radius > 64 {
            return Err(Error::parameter("radius", self.radius, "at most 64"));
        }
        if !(1..=MOST_TABLES).contains(&self.tables) {
            return Err(Error::parameter("tables", self.tables, format!("1 to {MOST_TABLES}")));
        }
        if let Some(flips) = self.flips.filter(|&flips| flips > MOST_FLIPS) {
            return Err(Error::parameter("flips", flips, format!("at most {MOST_FLIPS} in a key")));
        }
        let part = BITS as u32 / self.tables;
        let most = part.min(most_key_bits(n));
        let p = match (&self.keys, self.key_bits) {
            (Some(keys), None) => keys.first().map_or(0, |key| key.count_ones()),
            (_, Some(p)) => p,
            (None, None) => default_key_bits(n).min(most),
        };
        if !(FEWEST_KEY_BITS..=most).contains(&p) {
            return Err(Error::parameter(
                "key-bits",
                p,
                format!("{FEWEST_KEY_BITS} to {most} for these tables"),
            ));
        }
        let Some(keys) = &self.keys else {
            let leading = u64::MAX << (64 - p);
            return Ok((0..self.tables).map(|t| leading >> (t * part)).collect());
        };
        let disjoint = keys.iter().fold(0, |all, key| all | key).count_ones() == p * keys.len() as u32;
        if keys.len() != self.tables as usize || !disjoint || keys.iter().any(|key| key.count_ones() != p) {
            let expected = format!("{} disjoint masks of {p} bits each", self.tables);
            return Err(Error::parameter("keys", format!("{keys:x?}"), expected));
        }
        Ok(keys.clone())
    }
}

/// Four to eight hashes to a group: they lie in one or two cache lines, and the directory stays small beside them.
fn default_key_bits(n: usize) -> u32 {
    log2(n).saturating_sub(2).max(FEWEST_KEY_BITS)
}

/// Where a hash stands in the order of the first table, which is the order of slots: by its key's bits, then by the
/// others. For a key of leading bits, the hash itself.
pub fn order_of(hash: u64, first_key: u64) -> u64 {
    order_with(Kernel::best(), hash, first_key)
}

#[inline]
fn order_with(kernel: Kernel, hash: u64, key: u64) -> u64 {
    // A mask of no bits or of all is not one of a key; the shift is below 64 for all that are.
    kernel.extract(hash, key) << (!key).count_ones().min(63) | kernel.extract(hash, !key)
}

/// Cells that share a line of the directory.
const CELLS: usize = 30;

/// A line of a directory: where its first cell begins, and where each cell ends, counted from there.
///
/// In lines whose cells hold 65,535 hashes or more, `base` is a place in the list of wide entries instead, and the last
/// end says so.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct DirectoryLine {
    base: u32,
    ends: [u16; CELLS],
}

/// The last end of a line with wide entries.
const WIDE: u16 = u16::MAX;

/// Where the hashes of each key are, for one table after the other.
#[derive(Clone, Debug)]
struct Directory {
    lines: HugeList<DirectoryLine>,
    /// For each line with wide entries, where its cells begin, and where the last one ends.
    wide: Vec<[u32; CELLS + 1]>,
}

impl Directory {
    /// For `tables` tables of so many cells each, all of them empty.
    fn new(tables: usize, cells: usize) -> Self {
        let empty = DirectoryLine { base: 0, ends: [0; CELLS] };
        Self { lines: HugeList::filled(tables * cells.div_ceil(CELLS), empty), wide: Vec::new() }
    }

    /// Fills in table number `table`, of `cells` cells, over ascending values, whose cell is what stands above the low
    /// `width` bits and of which the first has the position `offset`. The cells begin with a line; between them and the
    /// next table's are empty ones, if lines are not full.
    fn fill(&mut self, table: usize, cells: usize, sorted: &[u64], width: u32, offset: usize) {
        let Self { lines, wide } = self;
        let each = cells.div_ceil(CELLS);
        let mut at = 0;
        for (first, line) in (0..).step_by(CELLS).zip(&mut lines[table * each..(table + 1) * each]) {
            let mut starts = [0u32; CELLS + 1];
            starts[0] = (offset + at) as u32;
            for (cell, end) in (first..).zip(&mut starts[1..]) {
                while at < sorted.len() && sorted[at] >> width == cell as u64 {
                    at += 1;
                }
                *end = (offset + at) as u32;
            }
            if starts[CELLS] - starts[0] < u32::from(WIDE) {
                let ends = std::array::from_fn(|cell| (starts[cell + 1] - starts[0]) as u16);
                *line = DirectoryLine { base: starts[0], ends };
            } else {
                *line = DirectoryLine { base: wide.len() as u32, ends: [WIDE; CELLS] };
                wide.push(starts);
            }
        }
    }

    #[inline]
    fn prefetch(&self, cell: u32) {
        prefetch::read(&self.lines, cell as usize / CELLS);
    }

    /// Where the hashes of a cell begin, and how many there are.
    #[inline]
    fn range(&self, cell: u32) -> (u32, u32) {
        let (line, place) = (&self.lines[cell as usize / CELLS], cell as usize % CELLS);
        if line.ends[CELLS - 1] == WIDE {
            return self.wide_range(line.base, place);
        }
        let start = if place == 0 { 0 } else { line.ends[place - 1] };
        (line.base + u32::from(start), u32::from(line.ends[place] - start))
    }

    #[cold]
    fn wide_range(&self, base: u32, place: usize) -> (u32, u32) {
        let starts = &self.wide[base as usize];
        (starts[place], starts[place + 1] - starts[place])
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.lines[..]) + size_of_val(&self.wide[..])
    }
}

/// The dial index over distinct hashes.
#[derive(Clone, Debug)]
pub struct Dial {
    params: DialParams,
    looks: Looks,
    /// For each bit of a key, its table and its place in the key; for others nothing that is asked for.
    places: [(u32, u32); BITS],
    /// From one table's first cell to the next one's.
    cells: u32,
    directory: Directory,
    /// Of each table the rests of all hashes in order of their keys, one table after the other.
    rests: Packed,
    keys: KeysInRests,
    kernel: Kernel,
}

impl Dial {
    /// Builds the tables over `hashes`, in parallel on the current pool. They must ascend strictly in the order of
    /// [`order_of`] with the first key, which for default keys is their own.
    ///
    /// # Errors
    /// [`Error::Parameter`] for parameters without meaning, and for hashes in another order or too many.
    pub fn new(hashes: &[u64], params: DialParams) -> Result<Self> {
        let masks = params.masks(hashes.len())?;
        if hashes.len() > most_hashes(params.tables) as usize {
            let expected = format!("fewer than 2^32 in {} tables, in one index", masks.len());
            return Err(Error::parameter("distinct hashes", hashes.len(), expected));
        }
        let kernel = Kernel::best();
        let p = masks[0].count_ones();
        let width = 64 - p;
        let cells = 1usize << p;
        let mut directory = Directory::new(masks.len(), cells);
        let mut rests = Packed::with_room(hashes.len() * masks.len(), width)?;
        for (t, &mask) in masks.iter().enumerate() {
            let mut sorted: Vec<u64> =
                hashes.par_iter().map(|&hash| order_with(kernel, hash, mask)).collect();
            if t > 0 {
                sorted.par_sort_unstable();
            } else if !sorted.is_sorted_by(|a, b| a < b) {
                return Err(Error::parameter(
                    "hashes",
                    "a list in another order",
                    "distinct hashes, ascending by the bits of the first key, then by the others",
                ));
            }
            directory.fill(t, cells, &sorted, width, rests.len());
            rests.extend(sorted.into_iter());
        }
        let cells = cells.next_multiple_of(CELLS) as u32;
        let flips = params.flips.unwrap_or(params.radius / params.tables);
        let mut places = [(0, 0); BITS];
        for (t, &mask) in (0..).zip(&masks) {
            for (bit, place) in (0..).zip(&mut places) {
                if mask >> bit & 1 == 1 {
                    *place = (t, 1 << (mask & ((1 << bit) - 1)).count_ones());
                }
            }
        }
        let keys = KeysInRests::new(&masks, |value, mask| kernel.extract(value, mask));
        Ok(Self { params, looks: Looks::new(masks, flips), places, cells, directory, rests, keys, kernel })
    }

    /// The parameters that the index was built with.
    pub fn params(&self) -> &DialParams {
        &self.params
    }

    /// The bits of each table's key.
    pub fn masks(&self) -> &[u64] {
        &self.looks.masks
    }

    /// p: bits of each key.
    pub fn key_bits(&self) -> u32 {
        self.looks.masks[0].count_ones()
    }

    /// The same index with another budget.
    pub fn with_budget(mut self, budget: Option<u32>) -> Self {
        self.params.budget = budget;
        self
    }

    /// Number of all looks: the budget from which on nothing more is found.
    pub fn all_looks(&self) -> u32 {
        self.looks.all()
    }

    /// f: most bits flipped in a key.
    pub fn flips(&self) -> u32 {
        self.looks.flips
    }

    /// Memory in bytes of an index over `n` hashes, if nowhere very many share a key.
    pub fn bytes_for(n: u64, tables: u32, key_bits: u32) -> u64 {
        let (cells, width) = (1u64 << key_bits.min(63), u64::from(64 - key_bits.min(63)));
        let tables = u64::from(tables);
        let rests = (tables * n * width).div_ceil(8).saturating_add(8).div_ceil(64);
        64 * (tables * cells.div_ceil(CELLS as u64) + rests)
    }

    /// Whether the looks of the budget find every match.
    pub fn is_exact(&self) -> bool {
        self.looks.reach(self.params.radius) && self.budget() >= self.all_looks()
    }

    /// Looks that a query takes.
    fn budget(&self) -> u32 {
        self.params.budget.unwrap_or(u32::MAX).min(self.all_looks())
    }

    /// The slot of a hash, if it is stored: its position in the first table.
    pub fn find(&self, hash: u64) -> Option<Slot> {
        let cell = self.kernel.extract(hash, self.looks.masks[0]) as u32;
        self.slot(hash, self.directory.range(cell)).map(Slot)
    }

    /// The slot of a hash, if it is in this run of the first table.
    #[inline(always)]
    fn slot(&self, hash: u64, (start, len): (u32, u32)) -> Option<u32> {
        let rest = self.kernel.extract(hash, !self.looks.masks[0]);
        let run = (start as usize, len as usize);
        self.rests.find_in_ascending(run, rest).map(|position| position as u32)
    }

    /// First stage: chooses looks `from..to` of a query, which takes a place in the ring, and asks for their directory lines.
    #[inline(always)]
    fn choose(
        &self,
        query: &Query<'_>,
        (from, to): (u32, u32),
        place: usize,
        lane: &mut Lane,
        wanted: &mut Wanted,
    ) {
        let tables = self.looks.masks.len() as u32;
        let strengths = self.kernel.strengths(query.weights);
        (lane.hash, lane.matched) = (query.hash, false);
        let mut splits = [Split::default(); MAX_TABLES];
        self.kernel.split(query.hash, &self.looks.masks, &mut splits);
        let at_keys = from.min(tables)..to.min(tables);
        let (from, to) = (from.saturating_sub(tables), to.saturating_sub(tables));
        let mut chosen = 0;
        let flips = match self.looks.flips {
            0 => 0,
            1 => {
                chosen = self.kernel.weakest(&strengths, self.looks.key_bits, to);
                if from > 0 {
                    chosen &= !self.kernel.weakest(&strengths, self.looks.key_bits, from);
                }
                // As many as there are bits, which is the same for all queries.
                to.min(self.looks.key_bits.count_ones()) - from.min(self.looks.key_bits.count_ones())
            }
            _ => {
                self.kernel.least_flips(&strengths, &self.looks.masks, to as usize, &mut lane.flips);
                if from > 0 {
                    lane.flips.sort_unstable();
                }
                lane.flips.len().saturating_sub(from as usize) as u32
            }
        };
        for ((rest, split), (flipped, mask)) in
            wanted.rests.iter_mut().zip(&splits).zip(wanted.flipped.iter_mut().zip(&self.looks.masks))
        {
            *rest = split.rest;
            *flipped = self.kernel.extract(chosen, !mask);
        }
        if self.looks.flips > 1 {
            lane.strengths = strengths;
        }
        let Lane { keys, runs, flips: chosen_flips, .. } = lane;
        let looks = at_keys.len() + flips as usize;
        keys.resize(looks, 0);
        runs.resize(looks, packed::Run::default());
        let radius = self.params.radius as i32;
        let mut slots = (0..).zip(keys.iter_mut().zip(runs.iter_mut()));
        let mut look = |t: usize, flip: u32, flips: u32| {
            let Some((number, (key_of_look, run))) = slots.next() else { return };
            let Split { key, rest } = splits[t];
            let key = key as u32 ^ flip;
            let cell = t as u32 * self.cells + key;
            self.directory.prefetch(cell);
            *key_of_look = key;
            let tag = Tag::new(t, flips, place, number).bits();
            *run = packed::Run { from: cell, len: 0, wanted: rest, radius: radius - flips as i32, tag };
        };
        for t in at_keys {
            look(t as usize, 0, 0);
        }
        if self.looks.flips > 1 {
            for flip in chosen_flips.iter().skip(from as usize) {
                let (first, second) = flip.bits();
                let (table, flip) = self.places[first];
                look(table as usize, flip | self.places[second].1, 1 + u32::from(first != second));
            }
        } else {
            for _ in 0..flips {
                let (table, flip) = self.places[chosen.trailing_zeros() as usize % BITS];
                look(table as usize, flip, 1);
                chosen &= chosen.wrapping_sub(1);
            }
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

    /// Settles which of the list are matches, and belong to the look that found them. Those of the first table go to `found`,
    /// those of others into the stages of placing, each of which moves on.
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
            let mask = self.looks.masks[tag.table()];
            let stored_key = self.kernel.deposit(u64::from(lane.keys[tag.look()]), mask);
            (stored_key ^ lane.hash) & mask | self.kernel.deposit(in_rest, !mask)
        };
        let unplaced = |lane: &Lane, differing: u64| {
            let stored = lane.hash ^ differing;
            let cell = self.kernel.extract(stored, self.looks.masks[0]) as u32;
            self.directory.prefetch(cell);
            Unplaced { number: lane.number, run: (cell, 0), stored, differing }
        };
        if mode == Mode::All && self.looks.flips <= 1 {
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

    /// Whether of all looks that find a hash with these differing bits, the one of table `t` is the first.
    #[inline(always)]
    fn belongs(&self, t: usize, lane: &Lane, differing: u64) -> bool {
        let turn = |table| self.looks.turn(table, differing, &lane.strengths);
        let mine = turn(t);
        (0..self.looks.masks.len())
            .filter(|&other| other != t)
            .all(|other| turn(other).is_none_or(|theirs| Some(theirs) > mine))
    }

    /// Answers all queries within the budget. `found` gets the position of the query, the match, and the bits that differ.
    fn run(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        scratch: &mut DialScratch,
        mut found: impl FnMut(u32, Hit, u64),
    ) -> Cost {
        let budget = self.budget();
        let mut run = |of: Option<&[u32]>, looks, found: &mut FoundIn<'_>| {
            self.kernel.compiled_for(Run { dial: self, queries, of, looks, mode, scratch, found })
        };
        let mut found = |matches: &[Placed]| {
            for &Placed { number, slot, differing } in matches {
                found(number, Hit { slot: Slot(slot), distance: differing.count_ones() as u8 }, differing);
            }
        };
        if mode == Mode::All {
            return run(None, (0, budget), &mut found);
        }
        // Rounds of more and more looks; who has found something is done.
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

/// One run over queries: looks `looks.0..looks.1` of each, every match to `found`.
struct Run<'a> {
    dial: &'a Dial,
    queries: &'a [Query<'a>],
    /// Of which only these; of all of them if it does not say.
    of: Option<&'a [u32]>,
    looks: (u32, u32),
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
        let Self { dial, queries, of, looks, mode, scratch, found } = self;
        let count = of.map_or(queries.len(), <[u32]>::len);
        let number = |turn: usize| of.map_or(Some(turn), |of| of.get(turn).map(|&number| number as usize));
        let asked = |turn: usize| queries.get(number(turn)?);
        let DialScratch { ring, wanted, settling } = scratch;
        let mut cost = Cost::default();
        // Queries between two stages: enough looks under way to hide the waiting, few enough that what has been asked for
        // stays in the nearest cache. Stages take turns query by query, so that the memory is never idle and never
        // flooded.
        let gap = (LOOKS_UNDER_WAY / (looks.1 - looks.0).max(1) as usize).clamp(1, MOST_UNDER_WAY).min(count);
        // With many looks a query there is enough under way with few queries, and few lanes stay in the cache.
        let lanes = (4 * gap).next_power_of_two().clamp(4, LANES);
        let most_unsettled = lanes - 2 * gap - 1;
        ring.resize_with(LANES, Lane::default);
        wanted.resize(LANES, Wanted::default());
        let wanted: &mut [Wanted; LANES] = wanted.as_mut_slice().try_into().expect("one for each lane");
        let mut unsettled = 0;
        for turn in 0..count + 2 * gap {
            if let Some(now) = asked(turn) {
                if let Some(ahead) = asked(turn + ASKED_AHEAD) {
                    for line in (0..BITS).step_by(64 / size_of::<f32>()) {
                        prefetch::read(ahead.weights, line);
                    }
                }
                let place = turn % lanes;
                ring[place].number = number(turn).unwrap_or(turn) as u32;
                dial.choose(now, looks, place, &mut ring[place], &mut wanted[place]);
            }
            if turn >= gap && turn - gap < count {
                dial.locate(&mut ring[(turn - gap) % lanes]);
            }
            if turn >= 2 * gap {
                let place = (turn - 2 * gap) % lanes;
                dial.compare(&ring[place], &mut cost, &mut settling.list);
                unsettled += 1;
                if settling.list.len() >= SETTLED_TOGETHER || unsettled == most_unsettled {
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

/// Looks of all queries between two stages, where a query has few.
const LOOKS_UNDER_WAY: usize = 72;

/// Most queries between two stages.
const MOST_UNDER_WAY: usize = 10;

/// What may match is settled when there is so much of it, or when the ring is full.
const SETTLED_TOGETHER: usize = 32;

/// How far ahead the weights of queries are asked for.
const ASKED_AHEAD: usize = 16;

/// Looks in the first round of a search that may end at its first match.
const FIRST_ROUND: u32 = 4;

/// Which looks there are, and in which order a query takes them; needs no index.
#[derive(Clone, Debug)]
pub struct Looks {
    masks: Vec<u64>,
    /// All bits of all keys.
    key_bits: u64,
    /// f: most bits flipped in a key.
    flips: u32,
    kernel: Kernel,
}

impl Looks {
    /// The looks at tables with these disjoint keys, with at most `flips` bits flipped, two at the most.
    pub fn new(masks: Vec<u64>, flips: u32) -> Self {
        let key_bits = masks.iter().fold(0, |all, mask| all | mask);
        Self { masks, key_bits, flips: flips.min(MOST_FLIPS), kernel: Kernel::best() }
    }

    /// Number of all looks.
    pub fn all(&self) -> u32 {
        let sets = |p: u32| match self.flips {
            0 => 1,
            1 => 1 + p,
            _ => 1 + p + p * p.saturating_sub(1) / 2,
        };
        self.masks.iter().map(|mask| sets(mask.count_ones())).sum()
    }

    /// Whether all looks together find every hash within `radius`.
    pub fn reach(&self, radius: u32) -> bool {
        radius < self.masks.len() as u32 * (self.flips + 1)
    }

    /// The number, from 1, of the first look that finds a hash with these differing bits, if one does.
    pub fn first(&self, differing: u64, strengths: &Strengths) -> Option<u32> {
        let turns = (0..self.masks.len()).filter_map(|t| Some((self.turn(t, differing, strengths)?, t)));
        turns.min().map(|(_, t)| self.number(t, differing, strengths))
    }

    /// The place in the order of looks of the one of table `t` that finds a hash with these differing bits, if one does:
    /// keys as they are come first, in order of tables, then flips.
    #[inline]
    fn turn(&self, t: usize, differing: u64, strengths: &Strengths) -> Option<Turn> {
        let flipped = differing & self.masks[t];
        if flipped == 0 {
            return Some(Turn::AsItIs(t));
        }
        (flipped.count_ones() <= self.flips).then(|| Turn::Flipped(Flip::new(strengths, flipped)))
    }

    /// The number of a look in the order of looks, from 1.
    fn number(&self, t: usize, differing: u64, strengths: &Strengths) -> u32 {
        let lesser = match self.turn(t, differing, strengths) {
            None | Some(Turn::AsItIs(_)) => return t as u32 + 1,
            Some(Turn::Flipped(flip)) if self.flips == 1 => {
                self.kernel.rank(strengths, self.key_bits, flip.bits().0 as u32)
            }
            Some(Turn::Flipped(flip)) => self.kernel.lesser_flips(strengths, &self.masks, flip),
        };
        self.masks.len() as u32 + 1 + lesser
    }
}

/// The order of looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// At the key of a table as it is.
    AsItIs(usize),
    Flipped(Flip),
}

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
    /// Where the first table's hashes with its key begin, and how many they are; before that is known, the cell and 0.
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
    /// The key that each look is at.
    keys: Vec<u32>,
    /// What each look compares; before its cell has been read, where it begins is the cell.
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
pub(super) struct DialScratch {
    ring: Vec<Lane>,
    /// What the query in each lane wants.
    wanted: Vec<Wanted>,
    settling: Settling,
}

impl HammingIndex for Dial {
    fn name(&self) -> String {
        format!("dial-{}x{}/{}", self.looks.masks.len(), self.key_bits(), self.looks.flips)
    }

    fn reach(&self) -> Reach<'_> {
        Reach { keys: &self.looks.masks, flips: self.looks.flips, radius: self.params.radius }
    }

    fn bytes(&self) -> usize {
        self.directory.bytes() + self.rests.bytes()
    }

    fn answer(
        &self,
        queries: &[Query<'_>],
        mode: Mode,
        traced: bool,
        scratch: &mut Scratch,
        found: &mut dyn FnMut(Match),
    ) -> Cost {
        self.run(queries, mode, &mut scratch.dial, |number, hit, differing| {
            let look = traced.then(|| {
                let strengths = self.kernel.strengths(queries[number as usize].weights);
                self.looks.first(differing, &strengths).expect("a look has found it")
            });
            found(Match { query: number, hit, probe: look.unwrap_or_default() });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::id::Id;
    use crate::simhash::distance;
    use proptest::prelude::*;

    #[test]
    fn looks_and_exactness() {
        let index = |params| Dial::new(&[1, 5], params).unwrap();
        let two = index(DialParams { key_bits: Some(14), ..DialParams::default() });
        assert_eq!((two.all_looks(), two.is_exact()), (30, true));
        assert!(!two.clone().with_budget(Some(29)).is_exact());
        assert!(!index(DialParams { radius: 4, flips: Some(1), ..DialParams::default() }).is_exact());
        assert!(index(DialParams { radius: 5, ..DialParams::default() }).is_exact());
        let plain = index(DialParams { radius: 1, ..DialParams::default() });
        assert_eq!((plain.all_looks(), plain.is_exact()), (2, true));
        let four = index(DialParams { radius: 7, tables: 4, key_bits: Some(14), ..DialParams::default() });
        assert_eq!((four.all_looks(), four.is_exact()), (4 * 15, true));
        let more = DialParams { radius: 8, tables: 3, key_bits: Some(14), ..DialParams::default() };
        let three = index(more.clone());
        assert_eq!((three.all_looks(), three.is_exact(), three.flips()), (3 * (1 + 14 + 91), true, 2));
        assert!(!three.with_budget(Some(317)).is_exact());
        assert!(!index(DialParams { flips: Some(1), ..more.clone() }).is_exact());
        assert!(!index(DialParams { radius: 9, ..more }).is_exact());
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let default = DialParams::default;
        for params in [
            DialParams { radius: 65, ..default() },
            DialParams { tables: 0, ..default() },
            DialParams { tables: 9, ..default() },
            DialParams { flips: Some(3), ..default() },
            DialParams { key_bits: Some(15), ..default() },
            DialParams { key_bits: Some(7), ..default() },
            DialParams { keys: Some(vec![]), ..default() },
            DialParams { keys: Some(vec![0xff, 0x1ff00]), ..default() },
            DialParams { keys: Some(vec![0xff, 0xff0]), ..default() },
            DialParams { keys: Some(vec![0xff, 0xff00, 0xff_0000]), ..default() },
        ] {
            assert!(Dial::new(&[1], params.clone()).is_err(), "{params:?}");
        }
        assert!(Dial::new(&[2, 1], default()).is_err());
        assert!(Dial::new(&[1, 1], default()).is_err());
    }

    #[test]
    fn bytes_are_known_before() {
        let mut rng = SplitMix64::new(5);
        let mut hashes: Vec<u64> = (0..5_000).map(|_| rng.next_u64()).collect();
        hashes.sort_unstable();
        for (tables, p) in [(1, 8), (2, 14), (3, 11)] {
            let index = Dial::new(&hashes, DialParams { tables, key_bits: Some(p), ..DialParams::default() })
                .unwrap();
            assert_eq!(index.bytes() as u64, Dial::bytes_for(5_000, tables, p));
        }
    }

    #[test]
    fn a_directory_with_crowded_cells() {
        // Cells 0 and 31 hold more than two bytes can count, cell 1 a few, the others nothing.
        let sorted: Vec<u64> = [(0u64, 70_000u64), (1, 5), (31, 65_535)]
            .iter()
            .flat_map(|&(c, n)| (0..n).map(move |i| c << 40 | i))
            .collect();
        let mut directory = Directory::new(1, 256);
        directory.fill(0, 256, &sorted, 40, 0);
        assert_eq!(
            (directory.range(0), directory.range(1), directory.range(2)),
            ((0, 70_000), (70_000, 5), (70_005, 0))
        );
        assert_eq!((directory.range(29), directory.range(30)), ((70_005, 0), (70_005, 0)));
        assert_eq!((directory.range(31), directory.range(32)), ((70_005, 65_535), (135_540, 0)));
        assert_eq!((directory.range(255), directory.wide.len()), ((135_540, 0), 2));
    }

    #[test]
    fn bytes_are_few() {
        let mut rng = SplitMix64::new(1);
        let mut hashes: Vec<u64> = (0..1 << 18).map(|_| rng.next_u64()).collect();
        hashes.sort_unstable();
        let bytes = |tables| {
            let index = Dial::new(&hashes, DialParams { tables, ..DialParams::default() }).unwrap();
            index.bytes() as f64 / hashes.len() as f64 / 8.0
        };
        // Keys of 16 bits save less than those of larger lists.
        assert!(bytes(1) < 0.82 && bytes(2) < 1.64, "{} {}", bytes(1), bytes(2));
    }

    /// Disjoint masks of `p` bits, from a seed.
    fn any_keys(tables: u32, p: u32, seed: u64) -> Vec<u64> {
        let mut rng = SplitMix64::new(seed);
        let mut bits: Vec<u32> = (0..64).collect();
        for i in (1..64).rev() {
            bits.swap(i, rng.below(i as u64 + 1) as usize);
        }
        bits.chunks(p as usize)
            .take(tables as usize)
            .map(|key| key.iter().fold(0, |mask, bit| mask | 1 << bit))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_disjoint_keys_are_exact(
            seeds in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..64, Just(0), Just(!0)], 1..40),
            planted in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0u32..64, 0..9)), 0..80),
            weights in prop::array::uniform32(prop_oneof![4 => Just(0f32), 8 => -2f32..2.0, 1 => Just(f32::NAN)]),
            (tables, p) in prop::sample::select(&[(1u32, 8u32), (1, 14), (2, 13), (3, 12), (4, 14), (8, 8)][..]),
            flips in 0u32..=2, radius in 0u32..16, seed: u64, budget in 0u32..200,
        ) {
            let radius = radius.min((flips + 1) * tables - 1);
            let keys = any_keys(tables, p, seed);
            let mut hashes = seeds.clone();
            hashes.extend(planted.iter().map(|(at, bits)| bits.iter().fold(*at.get(&seeds), |hash, bit| hash ^ 1 << bit)));
            hashes.sort_unstable_by_key(|&hash| order_of(hash, keys[0]));
            hashes.dedup();
            let params = DialParams { radius, tables, flips: Some(flips), keys: Some(keys), ..DialParams::default() };
            let index = Dial::new(&hashes, params).unwrap();
            prop_assert!(index.is_exact());
            let cut = index.clone().with_budget(Some(budget));
            let weights = std::array::from_fn(|j| weights[(j * 7) % 32]);
            let mut scratch = Scratch::default();
            for &hash in &seeds {
                let query = Query { hash, weights: &weights };
                let expected: Vec<Hit> = (0..)
                    .zip(&hashes)
                    .map(|(slot, &stored)| Hit { slot: Slot(slot), distance: distance(hash, stored) as u8 })
                    .filter(|hit| u32::from(hit.distance) <= radius)
                    .collect();
                let mut traced = Vec::new();
                let cost = index.search_traced(query, Mode::All, &mut scratch, &mut traced);
                prop_assert_eq!(cost.probes, u64::from(index.all_looks()));
                let mut found: Vec<Hit> = traced.iter().map(|&(hit, _)| hit).collect();
                found.sort();
                prop_assert_eq!(found, expected);
                for (hit, look) in &traced {
                    let differing = hash ^ hashes[hit.slot.index()];
                    let strengths = index.kernel.strengths(&weights);
                    prop_assert_eq!(index.looks.first(differing, &strengths), Some(*look));
                }
                // A budget finds what the trace says.
                let mut hits = Vec::new();
                cut.search(query, Mode::All, &mut scratch, &mut hits);
                let mut within: Vec<Hit> = traced.iter().filter(|(_, look)| *look <= budget).map(|&(hit, _)| hit).collect();
                hits.sort();
                within.sort();
                prop_assert_eq!(&hits, &within);
                // The first match is one of the earliest round that has any.
                let mut first = Vec::new();
                cut.search(query, Mode::First, &mut scratch, &mut first);
                prop_assert!(first.len() == within.len().min(1) && first.iter().all(|hit| within.contains(hit)));
            }
        }
    }
}
