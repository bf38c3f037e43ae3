//! The time of probes and candidates: the part of a plan that depends on the machine. A candidate is a stored hash that
//! a probe compares with the query.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::{Choice, IndexKind};
use crate::kernel::{huge_pages::HugeList, prefetch};
use crate::search::dial::{Dial, DialParams};
use crate::search::linear::Linear;
use crate::search::{HammingIndex, Mode, Query, Scratch};
use crate::simhash::BITS;

/// The times of the steps of a search on a machine, in nanoseconds of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The time of a query before its first probe.
    pub query: f64,
    /// The time that a query takes in addition to choose flips, if a probe may flip two bits.
    pub pairs_of_flips: f64,
    /// The time of a probe of a dial, without the time that it waits for memory.
    pub probe: f64,
    /// The time of a candidate of a dial.
    pub candidate: f64,
    /// The time of a hash in a linear scan.
    pub scanned: f64,
    /// The time to read one prefetched cache line at a random place of a memory of as many bytes as the same entry of
    /// [`Machine::SIZES`] says.
    pub line: [f64; 4],
}

impl Machine {
    /// The sizes of memory in bytes in which random reads are measured, ascending.
    pub const SIZES: [u64; 4] = [1 << 19, 1 << 24, 1 << 27, 1 << 29];

    /// The times of an AMD EPYC (Zen 4) in 2026, by which [`super::choose`] chooses.
    pub const REFERENCE: Self = Self {
        query: 120.0,
        pairs_of_flips: 300.0,
        probe: 8.0,
        candidate: 0.7,
        scanned: 0.5,
        line: [1.0, 4.0, 9.0, 12.0],
    };

    /// The nanoseconds of a query of a chosen index, without the time that its matches take.
    pub fn nanoseconds(&self, choice: &Choice) -> f64 {
        if choice.kind == IndexKind::Linear {
            return self.query + choice.candidates * self.scanned;
        }
        let (parts, probes) = (choice.parts as f64, f64::from(choice.probes));
        let line = self.line(choice.bytes);
        let group = choice.candidates / (parts * probes).max(1.0);
        let group_bytes = group * f64::from(64 - choice.key_bits) / 8.0;
        // One line of the directory; of the group, unless it is empty, one, and another one for every 64
        // bytes.
        let lines = 1.0 + (1.0 - libm::exp(-group)) + group_bytes / 64.0;
        let pairs = if choice.flips > 1 { self.pairs_of_flips } else { 0.0 };
        parts * (self.query + pairs + probes * (self.probe + lines * line))
            + choice.candidates * self.candidate
    }

    /// The nanoseconds of a random read in a memory of so many bytes. Between two measured sizes they are interpolated
    /// by the logarithm of the size; outside of all sizes they are those of the nearest one.
    pub fn line(&self, bytes: u64) -> f64 {
        let place = libm::log2(bytes.max(1) as f64);
        let sizes = Self::SIZES.map(|size| libm::log2(size as f64));
        let above = sizes.partition_point(|&size| size < place);
        match above {
            0 => self.line[0],
            above if above == sizes.len() => self.line[above - 1],
            above => {
                let share = (place - sizes[above - 1]) / (sizes[above] - sizes[above - 1]);
                self.line[above - 1] + share * (self.line[above] - self.line[above - 1])
            }
        }
    }

    /// Measures this machine, in about a second and half a gigabyte of memory, on one thread. Results vary from call to
    /// call.
    ///
    /// `clock` gives the seconds that this thread has worked, counted from any moment.
    pub fn measure(clock: impl Fn() -> f64) -> Self {
        let line = Self::SIZES.map(|bytes| measure_line(bytes, &clock));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut hashes: Vec<u64> = (0..1 << 15).map(|_| rng.random()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let weights: Vec<[f32; BITS]> =
            (0..256).map(|_| std::array::from_fn(|_| rng.random_range(-2.0..2.0))).collect();
        let asked: Vec<(u64, &[f32; BITS])> = weights.iter().map(|weights| (rng.random(), weights)).collect();
        let queries: Vec<Query<'_>> =
            asked.iter().cycle().take(8_192).map(|&(hash, weights)| Query { hash, weights }).collect();
        let time = |tables, flips, key_bits, budget| {
            let params = DialParams {
                tables,
                flips: Some(flips),
                key_bits: Some(key_bits),
                budget: Some(budget),
                ..DialParams::default()
            };
            Dial::new(&hashes, params).map_or(0.0, |index| per_query(&index, &queries, &clock))
        };
        // In the nearest caches: few and many probes of small groups, then at groups of 64 more.
        let (few, many) = (time(2, 1, 14, 4), time(2, 1, 14, 20));
        let dense = time(2, 1, 9, 20);
        // With four tables it takes longest to choose flips.
        let pairs_of_flips = time(4, 2, 14, 32) - time(4, 1, 14, 32);
        let near = line[0];
        let candidate = ((dense - many) / (20.0 * 62.0)).max(0.01);
        let (per_probe, group) = ((many - few) / 16.0, 2.0);
        let probe = (per_probe - 2.0 * near - group * candidate).max(0.1);
        let query = (few - 4.0 * per_probe).max(1.0);
        let scan = Linear::new(&hashes, 3).map_or(0.0, |index| per_query(&index, &queries[..128], &clock));
        let mut machine = Self {
            query,
            pairs_of_flips: pairs_of_flips.max(0.0),
            probe,
            candidate,
            scanned: (scan / hashes.len() as f64).max(0.001),
            line,
        };
        // A search has fewer reads under way than a loop that does nothing else: how much longer they take it
        // is measured with an index outside of the nearest caches.
        let mut hashes: Vec<u64> = (0..1 << 20).map(|_| rng.random()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let shape = Choice {
            kind: IndexKind::Dial,
            parts: 1,
            tables: 2,
            flips: 1,
            key_bits: 17,
            probes: 12,
            all_probes: 36,
            recall: 1.0,
            bytes: Dial::bytes_for(hashes.len() as u64, 2, 17),
            candidates: 12.0 * 8.0,
        };
        let took =
            Dial::new(&hashes, shape.params(3)).map_or(0.0, |index| per_query(&index, &queries, &clock));
        let waiting = machine.nanoseconds(&shape);
        let without = Self { line: [0.0; 4], ..machine }.nanoseconds(&shape);
        let longer = ((took - without) / (waiting - without).max(0.1)).clamp(1.0, 20.0);
        machine.line[1..].iter_mut().for_each(|line| *line *= longer);
        machine
    }
}

/// The nanoseconds of a query among many that are asked together, in the best of five rounds.
fn per_query(index: &dyn HammingIndex, queries: &[Query<'_>], clock: &impl Fn() -> f64) -> f64 {
    let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        hits.clear();
        let start = clock();
        index.answer(queries, Mode::All, false, &mut scratch, &mut |found| {
            hits.push((found.query, found.hit))
        });
        best = best.min(1e9 * (clock() - start));
    }
    best / queries.len() as f64
}

/// The nanoseconds of a read at a random place in a memory of `bytes` bytes, with 64 reads on their way.
fn measure_line(bytes: u64, clock: &impl Fn() -> f64) -> f64 {
    /// The number of probes that a search has under way.
    const AHEAD: usize = 64;
    const READS: usize = 1 << 18;
    let words = usize::try_from(bytes / 8).unwrap_or(0).max(8);
    let memory = HugeList::filled(words, 0u64);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(bytes);
    let most = u32::try_from(words).unwrap_or(u32::MAX);
    let places: Vec<u32> = (0..READS + AHEAD).map(|_| rng.random_range(0..most)).collect();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let start = clock();
        let mut sum = 0u64;
        for (now, ahead) in places.iter().zip(&places[AHEAD..]) {
            prefetch::read(&memory, *ahead as usize);
            sum = sum.wrapping_add(memory[*now as usize]);
        }
        std::hint::black_box(sum);
        best = best.min(1e9 * (clock() - start));
    }
    best / READS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cost_more_in_more_memory() {
        let machine = Machine::REFERENCE;
        assert_eq!((machine.line(0), machine.line(1 << 40)), (machine.line[0], machine.line[3]));
        let lines: Vec<f64> = (10..35).map(|log| machine.line(3 << log)).collect();
        assert!(lines.is_sorted());
        assert!((machine.line(Machine::SIZES[1]) - machine.line[1]).abs() < 1e-9);
    }

    #[test]
    fn all_costs_are_measured() {
        let start = std::time::Instant::now();
        let machine = Machine::measure(|| start.elapsed().as_secs_f64());
        let Machine { query, probe, candidate, scanned, line, .. } = machine;
        assert!(
            [query, probe, candidate, scanned]
                .iter()
                .chain(&line)
                .all(|cost| *cost > 0.0 && cost.is_finite())
        );
    }
}
