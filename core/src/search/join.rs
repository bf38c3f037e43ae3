//! The exact self-join: every two of a list of distinct hashes that lie within h bits of each other, without any index.
//! A slot is the place of a hash in that list.
//!
//! It goes by masks such that any two hashes within h bits of each other agree in all bits of at least one mask. The
//! join looks into all groups of hashes that agree in the bits of a mask, mask by mask, and so comes upon every near
//! pair. Cut 64 bits into h + 1 blocks, and the blocks are such masks: h bits cannot differ in each. Pagh (*Locality-
//! sensitive Hashing without False Negatives*, SODA 2016) has better ones. Give each bit a vector of 0 and 1, of k
//! components. For each vector v there is a mask of the bits whose vectors are not orthogonal to v (modulo 2). To any
//! k − 1 bits there is a v other than 0 that is orthogonal to the vectors of all of them. So two hashes within k − 1
//! bits agree in one of these 2ᵏ − 1 masks, and each has about half of all bits. In general bits are cut into parts,
//! and each part has a k of its own. If these add up to h + 1, one of the parts has fewer than its k bits that differ.
//! With each k of 1, the parts are the blocks. For h = 10, two parts of 32 bits have 94 masks of 16 bits. Blocks, of
//! which three of 13 must agree, would make 286 groups of 15 bits for each hash.
//!
//! A pair is reported by the first mask in all of whose bits it agrees.
//!
//! Ours: the vectors are chosen one by one, for the fewest comparisons; how many parts the bits are cut into follows
//! from a model of costs. Hashes are not sorted. The list is parted by only as many bits of a mask as make its parts
//! small. Small parts are compared all against all with vector instructions (`kernel::near`), which is cheaper than to
//! part them further. A part that stays large when the bits of its mask are used up is joined anew on those of its
//! other bits that vary. That happens if hashes are very many or the data skewed. All parting but the first happens in
//! the processor's caches, and the first goes through the list in pieces that fit there.

use std::iter;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::{Cost, NearPair};
use crate::Result;
use crate::hash::fmix64;
use crate::id::Slot;
use crate::kernel::{self, huge_pages::HugeList};

/// Parts of at most so many hashes are compared all against all.
const SMALL: usize = 64;

/// A group of more hashes is compared some hashes at a time, for its pairs may be very many.
const LARGE: usize = 512;

/// The number of hashes of a part that parting aims at.
const AIM: usize = 48;

/// The most bits that a list is parted by at once: as many parts as first-level caches and address tables bear.
const MOST_BITS: u32 = 8;

/// The most bits that the whole list is parted by, so that its parts fit the second-level cache.
const MOST_FIRST_BITS: u32 = 10;

/// The number of hashes of a piece of the whole list. A piece is parted in the cache.
const PIECE: usize = 1 << 16;

/// The number of parts of the whole list that are joined before their pairs go to the sink.
const BATCH: usize = 64;

/// The number of times that a part may be joined anew on other masks: every time multiplies the work on it, while the
/// rest is more and more alike.
const MOST_REVISIONS: u32 = 2;

/// The most parted lists that stand one inside of another: each parting uses up at least one of the 64 bits.
const MOST_LEVELS: usize = 65;

/// Bytes of memory for each hash that a join works with: the list, and a parted copy of it with slots.
pub const BYTES_PER_HASH: usize = 20;

/// Finds all pairs of `hashes`, which must be distinct, at distance 1 to `radius`, each once. `sink` gets
/// them some at a time; their order is the same for any number of threads and on any processor, but no order of
/// slots. `progress` gets how many more hashes are done.
///
/// In the returned cost, a probe is a group of hashes that were compared all against all. A pair that several groups
/// hold counts as a candidate in each, and if it is near as verified in each.
///
/// Memory: [`BYTES_PER_HASH`], and the pairs that wait for `sink`.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter) for 2³² hashes or more.
pub fn join(
    hashes: &[u64],
    radius: u32,
    progress: &(dyn Fn(u64) + Sync),
    sink: impl FnMut(&[NearPair]),
) -> Result<Cost> {
    let cost = join_unless(hashes, radius, Limits::NONE, progress, sink)?;
    Ok(cost.expect("without limits no join is given up"))
}

/// The most near pairs of a join; one that has more is given up. Where very many hashes lie near one another, the
/// number of pairs grows with the square of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most near pairs that comparisons come upon. A pair counts as often as it is compared.
    pub hits: u64,
    /// The most near pairs. A pair counts once.
    pub found: u64,
    /// The most near pairs that wait at once for the sink, 12 bytes each.
    pub buffered: u64,
}

impl Limits {
    /// No limits: the join is never given up.
    pub const NONE: Self = Self { hits: u64::MAX, found: u64::MAX, buffered: u64::MAX };
}

/// The counts of all threads so far.
struct Watch {
    limits: Limits,
    hits: AtomicU64,
    found: AtomicU64,
    buffered: AtomicU64,
}

impl Watch {
    fn new(limits: Limits) -> Self {
        Self { limits, hits: AtomicU64::new(0), found: AtomicU64::new(0), buffered: AtomicU64::new(0) }
    }

    /// True if a limit is passed. Counts only grow, and their sums do not depend on the number of threads. So any
    /// number of threads gives up the same joins.
    fn is_over(&self) -> bool {
        let Limits { hits, found, buffered } = self.limits;
        self.hits.load(Relaxed) > hits
            || self.found.load(Relaxed) > found
            || self.buffered.load(Relaxed) > buffered
    }

    fn count(&self, hits: u64, kept: u64) {
        self.hits.fetch_add(hits, Relaxed);
        self.found.fetch_add(kept, Relaxed);
        self.buffered.fetch_add(kept, Relaxed);
    }
}

/// Joins as [`join`] does, unless it comes upon more pairs than `limits` allow. Then it gives `None`, and the caller
/// drops the pairs that `sink` got. Whether a join is given up depends on the hashes, the radius and the limits alone.
///
/// # Errors
/// As [`join`].
pub(crate) fn join_unless(
    hashes: &[u64],
    radius: u32,
    limits: Limits,
    progress: &(dyn Fn(u64) + Sync),
    mut sink: impl FnMut(&[NearPair]),
) -> Result<Option<Cost>> {
    super::check_number("hashes", hashes.len())?;
    let Some(masks) = choose(hashes, u64::MAX, radius, MOST_REVISIONS) else {
        let cost = scan_all(hashes, radius, limits, &mut sink);
        return Ok(cost.inspect(|_| progress(hashes.len() as u64)));
    };
    let (mut done, mut reported) = (0, 0);
    let mut advance = |hashes: usize| {
        done += hashes;
        progress((done / masks.len() - reported) as u64);
        reported = done / masks.len();
    };
    let mut walk = Walk::new(hashes, radius, limits);
    for (pass, &mask) in masks.iter().enumerate() {
        if !walk.through(&masks[..pass], mask, &mut advance, &mut sink) {
            return Ok(None);
        }
    }
    Ok(Some(walk.cost))
}

/// A list of hashes that is gone through mask by mask, by many threads.
struct Walk<'a> {
    hashes: &'a [u64],
    radius: u32,
    watch: Arc<Watch>,
    /// The states of threads that no thread uses now.
    workers: Mutex<Vec<Worker>>,
    pieces: Pieces,
    cost: Cost,
}

impl<'a> Walk<'a> {
    fn new(hashes: &'a [u64], radius: u32, limits: Limits) -> Self {
        Self {
            hashes,
            radius,
            watch: Arc::new(Watch::new(limits)),
            workers: Mutex::default(),
            pieces: Pieces::default(),
            cost: Cost::default(),
        }
    }

    /// Parts the list by a mask, and joins the parts; false if a limit was passed. `earlier` are the masks before.
    fn through(
        &mut self,
        earlier: &[u64],
        mask: u64,
        advance: &mut impl FnMut(usize),
        sink: &mut impl FnMut(&[NearPair]),
    ) -> bool {
        let Self { hashes, radius, watch, workers, pieces, cost } = self;
        let (hashes, radius, watch, workers) = (*hashes, *radius, &*watch, &*workers);
        let digit = Digit::of(mask, bits_for(hashes.len(), MOST_FIRST_BITS));
        pieces.part(hashes, digit);
        let join_part = |part: usize| {
            let idle =
                workers.lock().ok().and_then(|mut idle: std::sync::MutexGuard<'_, Vec<Worker>>| idle.pop());
            let mut worker = idle.unwrap_or_else(|| Worker::new(radius, Arc::clone(watch)));
            worker.differ.clear();
            worker.differ.extend(earlier);
            let mut levels = std::mem::take(&mut worker.levels);
            if let Some((whole, deeper)) = levels.split_first_mut() {
                pieces.gather(part, whole);
                let (path, rest) = (Path { chosen: mask, revisions: 0 }, mask & !digit.mask);
                worker.enter(deeper, &whole.hashes, &whole.slots, path, rest);
            }
            worker.levels = levels;
            let found = (std::mem::take(&mut worker.found), std::mem::take(&mut worker.cost));
            if let Ok(mut idle) = workers.lock() {
                idle.push(worker);
            }
            found
        };
        for from in (0..digit.parts()).step_by(BATCH) {
            let batch = from..digit.parts().min(from + BATCH);
            let parts: Vec<(Vec<NearPair>, Cost)> = batch.clone().into_par_iter().map(join_part).collect();
            if watch.is_over() {
                return false;
            }
            watch.buffered.store(0, Relaxed);
            for (pairs, part_cost) in parts {
                sink(&pairs);
                *cost += part_cost;
            }
            advance(pieces.sizes[batch].iter().sum());
        }
        true
    }
}

/// Compares every hash with every later one, where that is cheaper than any masks: hashes are few, or the radius is
/// large. None if a limit is passed.
fn scan_all(hashes: &[u64], radius: u32, limits: Limits, sink: &mut impl FnMut(&[NearPair])) -> Option<Cost> {
    let kernel = kernel::Level::in_use();
    let mut cost = Cost { probes: 1, ..Cost::default() };
    let most = limits.hits.min(limits.found);
    // The pairs of a hash with all later ones, or as many as there may be and one more.
    let row = |a: usize, most: u64| {
        let mut found = Vec::new();
        kernel.scan(&hashes[a + 1..], hashes[a], radius, |at, distance| {
            found.push(NearPair { a: Slot(a as u32), b: Slot((a + 1 + at) as u32), distance });
            match found.len() as u64 > most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        found
    };
    for from in (0..hashes.len()).step_by(BATCH * 16) {
        let buffered = AtomicU64::new(0);
        let is_over = || buffered.load(Relaxed) > limits.buffered;
        let batch = from..hashes.len().min(from + BATCH * 16);
        let rows: Vec<Vec<NearPair>> = batch
            .clone()
            .into_par_iter()
            .map(|a| {
                let found = if is_over() { Vec::new() } else { row(a, limits.buffered) };
                buffered.fetch_add(found.len() as u64, Relaxed);
                found
            })
            .collect();
        // Rows are left out only where the limit is passed already.
        if is_over() {
            return None;
        }
        for (a, pairs) in batch.zip(rows) {
            cost.candidates += (hashes.len() - a - 1) as u64;
            cost.verified += pairs.len() as u64;
            if cost.verified > most {
                return None;
            }
            sink(&pairs);
        }
    }
    Some(cost)
}

/// Bits by which `n` hashes are parted at once.
fn bits_for(n: usize, most: u32) -> u32 {
    (n / AIM).max(1).ilog2().saturating_add(1).min(most)
}

/// Chooses the masks to join hashes by, of the bits of `free` that vary among them; none if it is cheaper to compare
/// all hashes with all. `deeper` is how many times large groups may be joined anew.
fn choose(hashes: &[u64], free: u64, radius: u32, deeper: u32) -> Option<Vec<u64>> {
    // Of a small group it is clear without a look at its bits.
    if all_against_all(hashes.len() as f64, 0.0) <= (f64::from(radius) + 1.0) * LEAST {
        return None;
    }
    let (first, others) = hashes.split_first()?;
    let varying = others.iter().fold(0, |all, hash| all | (hash ^ first)) & free;
    let (near, bits) = (near_share(hashes, radius), varying.count_ones());
    let parts = JoinTask { hashes: hashes.len() as f64, near, bits, radius, deeper }.cheapest().1?;
    Some(cover(varying, parts, radius))
}

/// The share of near pairs among 256 pairs of a list, which are drawn by hashing.
fn near_share(hashes: &[u64], radius: u32) -> f64 {
    const SAMPLED: u64 = 256;
    let drawn = |draw: u64| (fmix64(draw) % hashes.len() as u64) as usize;
    let is_near = |nth: &u64| {
        let (a, b) = (drawn(2 * nth), drawn(2 * nth + 1));
        a != b && (hashes[a] ^ hashes[b]).count_ones() <= radius
    };
    (0..SAMPLED).filter(is_near).count() as f64 / SAMPLED as f64
}

/// Masks in the bits of `varying` such that two hashes that differ in at most `radius` of these bits agree in all bits
/// of one of them. They are made of `parts` parts, at most one for each bit, and at most `radius` + 1.
fn cover(varying: u64, parts: u32, radius: u32) -> Vec<u64> {
    let (all, parts) = (radius + 1, parts as usize);
    let dimensions: Vec<u32> = (0..parts as u32).map(|part| (all + part) / parts as u32).collect();
    // Bits are distributed one by one, to where they save most.
    let mut widths: Vec<u32> = vec![1; parts];
    let pairs = |part: usize, width: u32| {
        let dimensions = dimensions[part];
        masks_of(dimensions) * (-f64::from(width) * share(dimensions)).exp2()
    };
    for _ in parts..varying.count_ones() as usize {
        let saved = |part: usize| pairs(part, widths[part]) - pairs(part, widths[part] + 1);
        let most = (0..parts).max_by(|&a, &b| saved(a).total_cmp(&saved(b)).then(b.cmp(&a))).unwrap_or(0);
        widths[most] += 1;
    }
    // Parts take bits from the top, so that the first blocks are runs of leading bits.
    let mut rest = varying;
    let mut masks = Vec::new();
    for (&dimensions, &width) in dimensions.iter().zip(&widths) {
        let bits = leading(rest, width);
        rest &= !bits;
        masks.extend(cover_part(bits, dimensions));
    }
    masks
}

/// The masks of one part: for each vector but 0, the bits whose own vectors are not orthogonal to it.
fn cover_part(bits: u64, dimensions: u32) -> Vec<u64> {
    let vectors = 1usize << dimensions;
    let mut masks = vec![0u64; vectors];
    // The share of all pairs that agree in a mask.
    let mut shares = vec![1.0f64; vectors];
    shares[0] = 0.0;
    let mut rest = bits;
    while rest != 0 {
        let bit = leading(rest, 1);
        rest &= !bit;
        // For each vector that the bit could have, the sum of shares that stay less that of those that are halved.
        let mut sums = shares.clone();
        for step in (0..dimensions).map(|dimension| 1 << dimension) {
            for from in (0..vectors).filter(|from| from & step == 0) {
                let (even, odd) = (sums[from], sums[from | step]);
                (sums[from], sums[from | step]) = (even + odd, even - odd);
            }
        }
        let own = (1..vectors).min_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0);
        for vector in (1..vectors).filter(|vector| (vector & own).count_ones() % 2 == 1) {
            masks[vector] |= bit;
            shares[vector] /= 2.0;
        }
    }
    masks.split_off(1)
}

/// The number of masks of a part of so many dimensions: one for each vector but 0.
fn masks_of(dimensions: u32) -> f64 {
    f64::from((1u32 << dimensions) - 1)
}

/// The share of the bits of a part that are in one of its masks.
fn share(dimensions: u32) -> f64 {
    f64::from(1u32 << (dimensions - 1)) / masks_of(dimensions)
}

/// Most dimensions of the vectors of a part.
const MOST_DIMENSIONS: u32 = 8;

/// A join whose time the model of costs estimates.
#[derive(Clone, Copy)]
struct JoinTask {
    hashes: f64,
    /// The share of near pairs among all.
    near: f64,
    /// Bits that vary.
    bits: u32,
    radius: u32,
    /// The number of times that groups which stay large may be joined anew.
    deeper: u32,
}

impl JoinTask {
    /// The least time for each hash in nanoseconds, and how many parts the bits are cut into for it; none if all hashes
    /// are compared with all.
    fn cheapest(self) -> (f64, Option<u32>) {
        let mut best = (all_against_all(self.hashes, self.near), None);
        if self.radius >= self.bits {
            // All hashes are near one another.
            return best;
        }
        let all = self.radius + 1;
        for parts in all.div_ceil(MOST_DIMENSIONS)..=all {
            if let Some(time) = self.in_parts(parts, best.0) {
                best = (time, Some(parts));
            }
        }
        best
    }

    /// The time for each hash with the bits in so many parts, if it is less than `most`.
    fn in_parts(self, parts: u32, most: f64) -> Option<f64> {
        // Some parts have one dimension more, and bits for masks of one bit more.
        let all = self.radius + 1;
        let (dimensions, more) = (all / parts, all % parts);
        let [more, fewer] = [more, parts - more].map(f64::from);
        let masks_of_more = more * masks_of(dimensions + 1);
        let masks = masks_of_more + fewer * masks_of(dimensions);
        let of_more = more / share(dimensions + 1);
        let width = (f64::from(self.bits) - of_more) / (of_more + fewer / share(dimensions));
        let width = width + masks_of_more / masks;
        if width < 1.0 || masks * LEAST >= most {
            return None;
        }
        let needed = (self.hashes / AIM as f64).log2().max(1.0);
        let used = needed.min(width);
        let size = self.hashes / used.exp2();
        let each = match size > SMALL as f64 && self.deeper > 0 {
            true => {
                let bits = self.bits.saturating_sub(width.ceil() as u32);
                Self { hashes: size, near: 0.0, bits, deeper: self.deeper - 1, ..self }.cheapest().0
            }
            false => all_against_all(size, 0.0),
        };
        // The first parting takes more bits at once than later ones.
        let moves = 1.0 + ((used - f64::from(MOST_FIRST_BITS)) / f64::from(MOST_BITS)).ceil().max(0.0);
        let hits = self.hashes / 2.0 * self.near * NEAR_PAIR * (masks * AGREE).max(1.0);
        Some(masks * (MOVE * moves + each) + hits).filter(|&time| time < most)
    }
}

/// The `count` highest of the bits of `mask`.
fn leading(mask: u64, count: u32) -> u64 {
    let mut rest = mask;
    for _ in 0..count {
        rest &= !(1 << (63 - rest.leading_zeros().min(63)));
    }
    mask & !rest
}

/// The nanoseconds, on a processor of 2023, of a comparison, of a row of comparisons, of moving a hash to its part,
/// and of coming upon a near pair.
const COMPARISON: f64 = 0.1;
const ROW: f64 = 4.0;
const MOVE: f64 = 3.0;
const NEAR_PAIR: f64 = 4.0;

/// The share of all masks in which a near pair agrees, about.
const AGREE: f64 = 0.125;

/// The least cost of a mask for each hash.
const LEAST: f64 = MOVE + ROW;

/// Time to compare one hash of a group of `size` with all later ones, a share of which is near.
fn all_against_all(size: f64, near: f64) -> f64 {
    ROW + size / 2.0 * (COMPARISON + near * NEAR_PAIR)
}

/// The memory that a list is parted into; `hashes` and `slots` have its length.
struct PartsMut<'a> {
    hashes: &'a mut [u64],
    slots: &'a mut [u32],
    /// Gets the place where each part begins, and the end of the last part.
    starts: &'a mut Vec<u32>,
}

/// The bits of a hash by which a list is parted. Their value is the number of the hash's part.
#[derive(Clone, Copy, Debug)]
struct Digit {
    mask: u64,
    kernel: kernel::Level,
}

impl Digit {
    /// The leading bits of a mask, `most` of them if it has as many.
    fn of(mask: u64, most: u32) -> Self {
        let mask = leading(mask, most.min(mask.count_ones()));
        Self { mask, kernel: kernel::Level::in_use() }
    }

    fn parts(&self) -> usize {
        1 << self.mask.count_ones()
    }

    /// Parts a list into `into`, and keeps the order within parts. `slot` gives the slot of each place of the list, and
    /// `keys` is a buffer.
    fn part(&self, hashes: &[u64], slot: impl Fn(usize) -> u32, into: PartsMut<'_>, keys: &mut Vec<u16>) {
        let PartsMut { hashes: to_hashes, slots: to_slots, starts } = into;
        if keys.len() < hashes.len() {
            keys.resize(hashes.len(), 0);
        }
        let keys = &mut keys[..hashes.len()];
        self.kernel.extract_all(hashes, self.mask, keys);
        let mut next = [0u32; 1 << MOST_FIRST_BITS];
        let next = &mut next[..self.parts()];
        for &key in &*keys {
            next[key as usize] += 1;
        }
        starts.clear();
        starts.reserve(self.parts() + 1);
        let mut sum = 0;
        for next in next.iter_mut() {
            starts.push(sum);
            sum += std::mem::replace(next, sum);
        }
        starts.push(sum);
        for ((at, &hash), &key) in hashes.iter().enumerate().zip(&*keys) {
            let place = &mut next[key as usize];
            to_hashes[*place as usize] = hash;
            to_slots[*place as usize] = slot(at);
            *place += 1;
        }
    }
}

/// The whole list, parted piece by piece.
#[derive(Default)]
struct Pieces {
    hashes: HugeList<u64>,
    slots: HugeList<u32>,
    /// For each piece, where its parts begin.
    starts: Vec<Vec<u32>>,
    /// Hashes in each part, over all pieces.
    sizes: Vec<usize>,
}

impl Pieces {
    fn part(&mut self, hashes: &[u64], digit: Digit) {
        self.grow(hashes.len());
        self.starts.resize_with(hashes.len().div_ceil(PIECE), Vec::new);
        hashes
            .par_chunks(PIECE)
            .zip(self.hashes[..hashes.len()].par_chunks_mut(PIECE))
            .zip(self.slots[..hashes.len()].par_chunks_mut(PIECE))
            .zip(&mut self.starts)
            .enumerate()
            .for_each_init(Vec::new, |keys, (piece, (((hashes, to_hashes), slots), starts))| {
                let first = piece * PIECE;
                let into = PartsMut { hashes: to_hashes, slots, starts };
                digit.part(hashes, |at| (first + at) as u32, into, keys);
            });
        let size = |part: usize| self.starts.iter().map(|s| (s[part + 1] - s[part]) as usize).sum();
        self.sizes = (0..digit.parts()).map(size).collect();
    }

    /// Makes room for so many hashes.
    fn grow(&mut self, hashes: usize) {
        if self.hashes.len() < hashes {
            // The old memory is freed before new memory is taken.
            (self.hashes, self.slots) = Default::default();
            (self.hashes, self.slots) = (HugeList::filled(hashes, 0), HugeList::filled(hashes, 0));
        }
    }

    /// Puts a part together.
    fn gather(&self, part: usize, into: &mut PartedList) {
        into.hashes.clear();
        into.slots.clear();
        for (piece, starts) in self.starts.iter().enumerate() {
            let places = piece * PIECE + starts[part] as usize..piece * PIECE + starts[part + 1] as usize;
            into.hashes.extend_from_slice(&self.hashes[places.clone()]);
            into.slots.extend_from_slice(&self.slots[places]);
        }
    }
}

/// A list of hashes with their slots, and where its parts begin if it has been parted.
#[derive(Default)]
struct PartedList {
    hashes: Vec<u64>,
    slots: Vec<u32>,
    starts: Vec<u32>,
}

/// The bits in which the hashes of a group agree.
#[derive(Clone, Copy)]
struct Path {
    /// Bits that pairs must agree in. Groups may be parted by fewer.
    chosen: u64,
    /// The number of times that masks have been chosen anew.
    revisions: u32,
}

/// The state of a thread.
struct Worker {
    radius: u32,
    kernel: kernel::Level,
    /// The parted lists of the groups on the path to the present one, one inside of another.
    levels: Vec<PartedList>,
    /// The earlier masks. A pair that agrees in all bits of one of them is reported there, and not here.
    differ: Vec<u64>,
    keys: Vec<u16>,
    groups: Vec<Range<usize>>,
    positions: Vec<(u32, u32)>,
    found: Vec<NearPair>,
    cost: Cost,
    watch: Arc<Watch>,
}

impl Worker {
    fn new(radius: u32, watch: Arc<Watch>) -> Self {
        Self {
            watch,
            radius,
            kernel: kernel::Level::in_use(),
            levels: iter::repeat_with(PartedList::default).take(MOST_LEVELS).collect(),
            differ: Vec::new(),
            keys: Vec::new(),
            groups: Vec::new(),
            positions: Vec::new(),
            found: Vec::new(),
            cost: Cost::default(),
        }
    }

    /// Joins a group that has been parted by all bits of its last mask but `rest`.
    fn enter(&mut self, levels: &mut [PartedList], hashes: &[u64], slots: &[u32], path: Path, rest: u64) {
        if self.watch.is_over() {
            // The join is given up, and its pairs are dropped.
        } else if hashes.len() <= SMALL {
            self.compare(hashes, slots, std::slice::from_ref(&(0..hashes.len())), path.chosen);
        } else if rest != 0 {
            self.part(levels, hashes, slots, path, rest);
        } else {
            self.join_anew(levels, hashes, slots, path);
        }
    }

    /// Parts a group by bits of `rest`, which are of the mask that was taken last.
    fn part(&mut self, levels: &mut [PartedList], hashes: &[u64], slots: &[u32], path: Path, rest: u64) {
        let digit = Digit::of(rest, bits_for(hashes.len(), MOST_BITS));
        let (level, deeper) = levels.split_first_mut().expect("a level for each bit of a hash");
        if level.hashes.len() < hashes.len() {
            level.hashes.resize(hashes.len(), 0);
            level.slots.resize(hashes.len(), 0);
        }
        let into = PartsMut {
            hashes: &mut level.hashes[..hashes.len()],
            slots: &mut level.slots[..hashes.len()],
            starts: &mut level.starts,
        };
        digit.part(hashes, |at| slots[at], into, &mut self.keys);
        let mut groups = std::mem::take(&mut self.groups);
        groups.clear();
        let parts = || level.starts.windows(2).map(|ends| ends[0] as usize..ends[1] as usize);
        groups.extend(parts().filter(|part| part.len() > 1 && part.len() <= SMALL));
        self.compare(&level.hashes[..hashes.len()], &level.slots, &groups, path.chosen);
        self.groups = groups;
        for part in parts().filter(|part| part.len() > SMALL) {
            let (hashes, slots) = (&level.hashes[part.clone()], &level.slots[part]);
            self.enter(deeper, hashes, slots, path, rest & !digit.mask);
        }
    }

    /// Joins a group whose hashes agree in all bits of its masks: by other masks if that is cheaper than comparing all.
    fn join_anew(&mut self, levels: &mut [PartedList], hashes: &[u64], slots: &[u32], path: Path) {
        let deeper = MOST_REVISIONS - path.revisions;
        let masks = (deeper > 0).then(|| choose(hashes, !path.chosen, self.radius, deeper - 1)).flatten();
        let Some(masks) = masks else {
            return self.compare(hashes, slots, std::slice::from_ref(&(0..hashes.len())), path.chosen);
        };
        let before = self.differ.len();
        for mask in masks {
            let path = Path { chosen: path.chosen | mask, revisions: path.revisions + 1 };
            self.part(levels, hashes, slots, path, mask);
            self.differ.push(mask);
        }
        self.differ.truncate(before);
    }

    /// Compares all with all in each group, and keeps the pairs that are to be reported here.
    fn compare(&mut self, hashes: &[u64], slots: &[u32], groups: &[Range<usize>], chosen: u64) {
        self.cost.probes += groups.len() as u64;
        let pairs_in = |group: &Range<usize>| (group.len() * group.len().saturating_sub(1) / 2) as u64;
        self.cost.candidates += groups.iter().map(pairs_in).sum::<u64>();
        if let [group] = groups
            && group.len() > LARGE
        {
            let rows = (LARGE * LARGE / group.len()).clamp(4, 64);
            for from in group.clone().step_by(rows) {
                if self.watch.is_over() {
                    return;
                }
                let (kernel, radius) = (self.kernel, self.radius);
                let rows = iter::once((from..group.end.min(from + rows), group.end));
                self.keep(hashes, slots, chosen, |put| kernel.pairs(hashes, rows, radius, put));
            }
            return;
        }
        let (kernel, radius) = (self.kernel, self.radius);
        let groups = groups.iter().map(|group| (group.clone(), group.end));
        self.keep(hashes, slots, chosen, |put| kernel.pairs(hashes, groups, radius, put));
    }

    /// Keeps the pairs that are to be reported here, of the near pairs that `near` gives by their places in the group.
    fn keep(
        &mut self,
        hashes: &[u64],
        slots: &[u32],
        chosen: u64,
        near: impl FnOnce(&mut dyn FnMut(usize, usize)),
    ) {
        let Self { differ, positions, found, cost, watch, .. } = self;
        positions.clear();
        let (mut hits, mut kept) = (0u64, 0u64);
        near(&mut |i, j| {
            hits += 1;
            let differing = hashes[i] ^ hashes[j];
            if differing & chosen == 0 && differ.iter().all(|mask| differing & mask != 0) {
                kept += 1;
                if kept <= watch.limits.buffered {
                    positions.push((i as u32, j as u32));
                }
            }
        });
        cost.verified += hits;
        watch.count(hits, kept);
        // The order in which the pairs of a group are found depends on the processor.
        positions.sort_unstable();
        found.extend(positions.iter().map(|&(i, j)| {
            let (i, j) = (i as usize, j as usize);
            let distance = (hashes[i] ^ hashes[j]).count_ones();
            NearPair { a: Slot(slots[i].min(slots[j])), b: Slot(slots[i].max(slots[j])), distance }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::id::Id;
    use crate::simhash::distance;
    use proptest::prelude::*;

    /// The definition.
    fn all_pairs(hashes: &[u64], radius: u32) -> Vec<NearPair> {
        let mut pairs = Vec::new();
        for (a, &first) in (0..).zip(hashes) {
            for (b, &second) in (0..).zip(hashes).skip(a as usize + 1) {
                let distance = distance(first, second);
                if distance <= radius {
                    pairs.push(NearPair { a: Slot(a), b: Slot(b), distance });
                }
            }
        }
        pairs
    }

    fn joined(hashes: &[u64], radius: u32) -> Vec<NearPair> {
        let mut pairs = Vec::new();
        let done = AtomicU64::new(0);
        let progress = |n| {
            done.fetch_add(n, Relaxed);
        };
        let cost = join(hashes, radius, &progress, |part| pairs.extend_from_slice(part)).unwrap();
        assert!(cost.verified >= pairs.len() as u64 && cost.candidates >= cost.verified, "{cost:?}");
        assert_eq!(done.into_inner(), hashes.len() as u64);
        pairs
    }

    fn check(mut hashes: Vec<u64>, radius: u32) {
        hashes.sort_unstable();
        hashes.dedup();
        let mut pairs = joined(&hashes, radius);
        pairs.sort_unstable();
        assert_eq!(pairs, all_pairs(&hashes, radius), "radius {radius}, {} hashes", hashes.len());
    }

    fn random(n: usize, seed: u64) -> Vec<u64> {
        let mut rng = SplitMix64::new(seed);
        (0..n).map(|_| rng.next_u64()).collect()
    }

    #[test]
    fn lists_of_every_shape() {
        for radius in [0, 1, 2, 3, 4, 6, 10, 15, 40, 63, 64] {
            check(vec![], radius);
            check(vec![7], radius);
            check(random(900, 1), radius);
            // One bit apart, and two.
            check((0..64).map(|bit| 0xfeed_f00d ^ 1 << bit).chain([0xfeed_f00d]).collect(), radius);
            // Equal halves.
            check(random(700, 2).iter().map(|hash| hash & 0xffff_ffff).collect(), radius);
            check(random(700, 3).iter().map(|hash| hash & !0xffff_ffff | 0x1234).collect(), radius);
            // Few bits that vary, far from each other.
            check(random(900, 4).iter().map(|hash| hash & 0x1041_0410_4104_1041).collect(), radius);
        }
    }

    /// Random hashes with near ones around some of them, of which some bits mostly agree.
    fn skewed(n: usize, seed: u64) -> Vec<u64> {
        let mut rng = SplitMix64::new(seed);
        let mut hashes: Vec<u64> = Vec::new();
        for i in 0..n {
            let mut hash = if i % 3 == 0 || i < 9 {
                let often = rng.next_u64() & rng.next_u64() & rng.next_u64();
                rng.next_u64() & 0xffff_0000_00ff | often
            } else {
                hashes[rng.below(i as u64) as usize]
            };
            for _ in 0..rng.below(5) {
                hash ^= 1 << rng.below(64);
            }
            hashes.push(hash);
        }
        hashes
    }

    #[test]
    fn deep_paths() {
        // Enough hashes for several blocks, for large parts that are joined anew, and for a second piece.
        for radius in [1, 3, 6] {
            check(skewed(6_000, u64::from(radius)), radius);
        }
        let few_bits = random(9_000, 8).iter().map(|hash| hash & 0x7fff).collect();
        check(few_bits, 2);
        let hashes = {
            let mut hashes = skewed(2 * PIECE, 7);
            hashes.sort_unstable();
            hashes.dedup();
            hashes
        };
        assert!(hashes.len() > PIECE);
        let pairs = joined(&hashes, 2);
        // Around some of them only: to compare all would take too long here.
        for a in (0..hashes.len()).step_by(997) {
            let near = |&b: &usize| b != a && distance(hashes[a], hashes[b]) <= 2;
            let expected = (0..hashes.len()).filter(near).count();
            assert_eq!(pairs.iter().filter(|p| p.a.index() == a || p.b.index() == a).count(), expected);
        }
    }

    #[test]
    fn dense_groups_that_agree_in_all_blocks_are_joined_anew() {
        // Among hashes that differ everywhere, some that differ in few bits: neighbouring ones and others.
        for radius in [1, 2, 4] {
            let mut hashes = random(5_000, 11);
            hashes.extend(random(1_200, 12).iter().map(|hash| hash & 0xffff | 0x1234_5678_0000_0000));
            hashes.extend(
                random(1_200, 13).iter().map(|hash| hash & 0x1041_0410_4104_1041 | 0x8000_0000_0000_0880),
            );
            // And some that differ in the first bits alone: of these, blocks were passed over.
            hashes.extend(random(1_200, 14).iter().map(|hash| hash & !0 << 48 | 0x4321_8765_cba9));
            check(hashes, radius);
        }
    }

    /// Bits, one in each mask but `own`, which has none of them.
    fn all_but(masks: &[u64], own: u64) -> u64 {
        masks.iter().fold(0, |bits, &mask| match mask & bits == 0 && mask != own {
            true => bits | leading(mask & !own, 1),
            false => bits,
        })
    }

    #[test]
    fn pairs_are_found_whichever_mask_they_agree_in() {
        // So many hashes are cut into three parts.
        let (radius, n) = (8, 300_000);
        let masks = cover(u64::MAX, 3, radius);
        assert_eq!(masks.len(), 3 * 7);
        // More than are compared at once agree in a mask; each is near one other, with a bit in every other mask.
        let mut rng = SplitMix64::new(9);
        let mut hashes = Vec::new();
        for &mask in &masks {
            let (common, apart) = (rng.next_u64() & mask, all_but(&masks, mask));
            assert_eq!(apart.count_ones(), radius);
            for _ in 0..SMALL {
                let hash = rng.next_u64() & !mask | common;
                hashes.extend([hash, hash ^ apart]);
            }
        }
        let planted = hashes.clone();
        hashes.extend(random(n - planted.len(), 21));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(choose(&hashes, u64::MAX, radius, MOST_REVISIONS).unwrap(), masks);
        let found: std::collections::HashSet<[u64; 2]> = joined(&hashes, radius)
            .iter()
            .map(|pair| [pair.a, pair.b].map(|slot| hashes[slot.index()]))
            .collect();
        let (pairs, _) = planted.as_chunks::<2>();
        assert!(pairs.iter().all(|&[a, b]| found.contains(&[a.min(b), a.max(b)])));
    }

    #[test]
    fn the_order_of_pairs_is_that_of_one_thread() {
        let mut hashes = skewed(20_000, 5);
        hashes.sort_unstable();
        hashes.dedup();
        let in_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| joined(&hashes, 3))
        };
        assert_eq!(in_threads(1), in_threads(4));
    }

    #[test]
    fn a_join_is_given_up_above_its_limits_and_not_before() {
        for n in [60, 300, 6_000] {
            let mut hashes = skewed(n, 3);
            hashes.sort_unstable();
            hashes.dedup();
            let run = |limits| {
                let mut pairs = 0;
                let cost =
                    join_unless(&hashes, 3, limits, &|_| {}, |part| pairs += part.len() as u64).unwrap();
                cost.map(|cost| (cost, pairs))
            };
            let (cost, pairs) = run(Limits::NONE).unwrap();
            assert!(cost.verified >= pairs && pairs > 10);
            assert_eq!(run(Limits { hits: cost.verified, ..Limits::NONE }), Some((cost, pairs)));
            assert_eq!(run(Limits { hits: cost.verified - 1, ..Limits::NONE }), None);
            assert_eq!(run(Limits { buffered: pairs, ..Limits::NONE }), Some((cost, pairs)));
            assert_eq!(run(Limits { found: pairs, ..Limits::NONE }), Some((cost, pairs)));
            assert_eq!(run(Limits { found: pairs - 1, ..Limits::NONE }), None);
        }
        // Within so many bits all are compared with all, and their pairs wait together.
        let hashes = random(100, 3);
        let run = |buffered| {
            let mut pairs = 0;
            let limits = Limits { buffered, ..Limits::NONE };
            let cost = join_unless(&hashes, 30, limits, &|_| {}, |part| pairs += part.len() as u64).unwrap();
            cost.map(|_| pairs)
        };
        let pairs = run(u64::MAX).unwrap();
        assert!(pairs > 1_000);
        assert_eq!(run(pairs), Some(pairs));
        [0, 1, 50, pairs - 1].into_iter().for_each(|buffered| assert_eq!(run(buffered), None));
        // Some parts have pairs, so that some have to wait.
        let hashes: Vec<u64> = (0..3_000).collect();
        let none = Limits { buffered: 0, ..Limits::NONE };
        assert!(join_unless(&hashes, 1, none, &|_| {}, |_| {}).unwrap().is_none());
    }

    #[test]
    fn hashes_behind_one_that_comes_to_the_limit_count_as_well() {
        let hashes: Vec<u64> = (0..40).collect();
        let pairs = 40 * 39 / 2;
        // One after the other, as many threads may begin with any of them.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        for (buffered, is_given_up) in
            [(38, true), (39, true), (39 + 38, true), (pairs - 1, true), (pairs, false)]
        {
            let limits = Limits { buffered, ..Limits::NONE };
            let mut found = 0;
            let joined = || join_unless(&hashes, 30, limits, &|_| {}, |part| found += part.len() as u64);
            let cost = pool.install(joined).unwrap();
            assert_eq!(cost.is_none(), is_given_up, "{buffered}");
            assert!(is_given_up || found == pairs);
        }
        // One hash alone may come beyond it.
        let star: Vec<u64> = [0].into_iter().chain((0..64).map(|bit| 1 << bit)).collect();
        for (buffered, is_given_up) in [(62, true), (63, true), (64, false)] {
            let limits = Limits { buffered, ..Limits::NONE };
            let cost = join_unless(&star, 1, limits, &|_| {}, |_| ()).unwrap();
            assert_eq!(cost.is_none(), is_given_up, "{buffered}");
            assert!(cost.is_none_or(|cost| cost.candidates == 65 * 64 / 2), "all are compared with all");
        }
    }

    #[test]
    fn what_is_compared_is_counted() {
        let hashes = random(20, 1);
        let mut pairs = 0;
        let cost = join(&hashes, 30, &|_| {}, |part| pairs += part.len() as u64).unwrap();
        assert_eq!(cost, Cost { probes: 1, candidates: 190, verified: pairs });
        assert!(pairs > 20);
        let watch = Arc::new(Watch::new(Limits::NONE));
        let mut worker = Worker::new(1, Arc::clone(&watch));
        // Near ones of the first group differ in the low bits, half of them where they must agree; those of the
        // second agree where they must differ.
        let hashes = [0b00, 0b01, 0b11, 0b10, 0b000, 0b100];
        worker.differ.push(0b11);
        worker.compare(&hashes, &[9, 8, 7, 6, 5, 4], &[0..4, 4..6], 0b10);
        assert_eq!(worker.cost, Cost { probes: 2, candidates: 6 + 1, verified: 4 + 1 });
        let pair = |a, b| NearPair { a: Slot(a), b: Slot(b), distance: 1 };
        assert_eq!(worker.found, [pair(8, 9), pair(6, 7)]);
        assert_eq!([&watch.hits, &watch.found, &watch.buffered].map(|count| count.load(Relaxed)), [5, 2, 2]);
    }

    #[test]
    fn comparisons_stay_few_at_wide_distances() {
        let mut hashes = random(100_000, 5);
        hashes.sort_unstable();
        let cost = join(&hashes, 10, &|_| {}, |_| ()).unwrap();
        // All with all are 50,000 for each hash.
        assert!(cost.candidates < 2_000 * hashes.len() as u64, "{cost:?}");
    }

    #[test]
    fn where_many_pairs_are_near_each_is_met_once() {
        let mut rng = SplitMix64::new(3);
        let near = |base: u64| (0..6).fold(base, |hash, _| hash ^ 1 << rng.below(64));
        let mut hashes: Vec<u64> = iter::repeat_n(0x1234_5678_9abc_def0, 3_000).map(near).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut pairs = 0;
        let cost = join(&hashes, 10, &|_| {}, |part| pairs += part.len() as u64).unwrap();
        let all = (hashes.len() * (hashes.len() - 1) / 2) as u64;
        assert!(pairs > all / 2);
        assert_eq!(cost, Cost { probes: 1, candidates: all, verified: pairs });
    }

    #[test]
    fn the_leading_bits_of_a_mask() {
        for mask in [0, 1, 1 << 63, 0b1011_0100, u64::MAX, 0x8000_0000_0000_0001] {
            for count in 0..=64 {
                let want = (0..64).rev().map(|bit| mask & 1 << bit).filter(|&bit| bit != 0);
                assert_eq!(leading(mask, count), want.take(count as usize).sum::<u64>(), "{mask:x}, {count}");
            }
        }
    }

    #[test]
    fn a_list_is_parted_by_a_digit() {
        // Neighbouring bits and others, more of them than are asked for and fewer.
        for (block, most) in [
            (0xff0, 4),
            (0xff0, 10),
            (1 << 63, 3),
            (1 << 63 | 1 << 32, 2),
            (0b1001_0010_0000, 2),
            (0x8421_8421, 8),
        ] {
            let digit = Digit::of(block, most);
            assert_eq!(digit.mask.count_ones(), most.min(block.count_ones()));
            let hashes = random(500, most.into());
            let (mut parted, mut slots, mut starts, mut keys) =
                (vec![0; 500], vec![0; 500], vec![7], vec![3]);
            let into = PartsMut { hashes: &mut parted, slots: &mut slots, starts: &mut starts };
            digit.part(&hashes, |at| at as u32, into, &mut keys);
            let key = |hash: u64| kernel::Level::in_use().extract(hash, digit.mask);
            let mut want: Vec<u32> = (0..500).collect();
            want.sort_by_key(|&at| key(hashes[at as usize]));
            assert_eq!(slots, want);
            assert!(slots.iter().zip(&parted).all(|(&at, &hash)| hashes[at as usize] == hash));
            assert_eq!((starts.len(), starts[0], starts[digit.parts()]), (digit.parts() + 1, 0, 500));
            for (part, ends) in (0..).zip(starts.windows(2)) {
                assert!(parted[ends[0] as usize..ends[1] as usize].iter().all(|&hash| key(hash) == part));
            }
        }
    }

    #[test]
    fn more_hashes_take_more_masks() {
        let masks = |n: usize, radius| {
            choose(&random(n, 1), u64::MAX, radius, MOST_REVISIONS).map(|masks| masks.len())
        };
        assert_eq!(masks(10, 3), None);
        assert_eq!(masks(100_000, 3), Some(4));
        assert!(masks(20_000, 8) >= Some(9) && masks(20_000, 8) < masks(1_000_000, 8));
        assert_eq!(masks(100_000, 64), None);
        // In most parts, masks are blocks that share no bit.
        for radius in 0..20 {
            let blocks = cover(u64::MAX, radius + 1, radius);
            assert_eq!(blocks.len() as u32, radius + 1);
            assert_eq!(blocks.iter().fold(0, |all, block| all | block), u64::MAX);
            assert_eq!(blocks.iter().map(|block| block.count_ones()).sum::<u32>(), 64);
        }
        // Of a part of 32 bits, masks have 16 or nearly so.
        let ones: Vec<u32> = cover(u64::MAX, 2, 10).iter().map(|mask| mask.count_ones()).collect();
        assert_eq!(ones.len(), 63 + 31);
        assert!(ones.iter().all(|&ones| ones >= 15), "{ones:?}");
        assert!(ones.iter().map(|&ones| (-f64::from(ones)).exp2()).sum::<f64>() < 94.5 / 65536.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn every_pair_once(
            seed: u64, n in 0usize..600, radius in 0u32..16,
            mask in prop_oneof![Just(u64::MAX), any::<u64>(), Just(0xffff), (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b)],
        ) {
            check(skewed(n, seed).iter().map(|hash| hash & mask).collect(), radius);
        }

        #[test]
        fn every_pair_once_by_any_masks(
            seed: u64, n in 1usize..400, radius in 0u32..12, parts in 1u32..12,
            free in prop_oneof![Just(u64::MAX), any::<u64>()],
        ) {
            let mut hashes: Vec<u64> = skewed(n, seed).iter().map(|hash| hash & free).collect();
            hashes.sort_unstable();
            hashes.dedup();
            let varying = hashes.iter().fold(0, |all, hash| all | hash ^ hashes[0]);
            prop_assume!(varying.count_ones() > radius && radius / parts < MOST_DIMENSIONS);
            let masks = cover(varying, parts.min(radius + 1), radius);
            let (mut walk, mut pairs) = (Walk::new(&hashes, radius, Limits::NONE), Vec::new());
            for pass in 0..masks.len() {
                let mut sink = |found: &[NearPair]| pairs.extend_from_slice(found);
                prop_assert!(walk.through(&masks[..pass], masks[pass], &mut |_| (), &mut sink));
            }
            pairs.sort_unstable();
            prop_assert_eq!(pairs, all_pairs(&hashes, radius));
        }

        #[test]
        fn whatever_differs_a_mask_agrees(
            varying in prop_oneof![Just(u64::MAX), any::<u64>(), (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b)],
            radius in 0u32..20, parts in 1u32..20, seed: u64,
        ) {
            prop_assume!(varying.count_ones() > radius && radius / parts < MOST_DIMENSIONS);
            let masks = cover(varying, parts.min(radius + 1), radius);
            prop_assert_eq!(masks.iter().fold(0, |all, mask| all | mask), varying);
            let mut rng = SplitMix64::new(seed);
            for _ in 0..50 {
                let mut differing = 0u64;
                while differing.count_ones() < radius {
                    differing |= 1 << rng.below(64) & varying;
                }
                prop_assert!(masks.iter().any(|mask| mask & differing == 0));
            }
            // The worst there is: a bit in each other mask.
            for &own in &masks {
                prop_assert!(all_but(&masks, own).count_ones() <= radius);
            }
        }
    }
}
