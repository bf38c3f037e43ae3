//! The choice of an index for a search task: a linear scan or a dial, with how many tables, key bits, flips and probes,
//! and at what memory and time. Ours, not the paper's.
//!
//! A [`Model`] is a list of near pairs with the margins of their bits, either of a sample of the data or made up (see
//! [`Model::built_in`]). A shape of a dial is its numbers of tables, flips and key bits. A probe looks up a key in a
//! table, as it is or with flipped bits. For each shape the probe that finds each pair follows without an index, and
//! with it the budget for a wanted recall. A [`Machine`] says how long probes and candidates take. [`choose`] takes the
//! index with the fewest bytes among those that take little more time than the fastest.
//!
//! The choice uses the times of [`Machine::REFERENCE`] and not those of the machine that it runs on, so that a run
//! decides the same everywhere. [`Machine::measure`] serves to predict how long a choice takes on this machine.

mod machine;
mod model;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use machine::Machine;
pub use model::{Model, PairMargins};

use crate::error::{Error, Result, check_share};
use crate::search::HammingIndex;
use crate::search::dial::{self, Dial, DialParams, MOST_FLIPS, MOST_TABLES, Probes};
use crate::search::linear::Linear;
use crate::search::table::log2;

/// A search that an index is to be chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Task {
    /// n: number of distinct hashes that are stored.
    pub hashes: u64,
    /// h: the largest distance of a match, at most 64.
    pub distance: u32,
    /// The share of the pairs at distance 1 to h that is to be found, above 0; 1 is exact.
    pub recall: f64,
    /// The most bytes of the index; `None` for any number.
    pub memory: Option<u64>,
    /// The kind of index that is wanted; `None` for any kind.
    pub kind: Option<IndexKind>,
    /// p: bits of each key; `None` if they are to be chosen. With a number, only a dial is chosen.
    pub key_bits: Option<u32>,
    /// True if there is a query for every stored hash, so that either hash of a pair may find the other. If false, the
    /// first hash of a pair of the model has to find the second.
    pub join: bool,
}

impl Task {
    /// A task for `hashes` stored hashes, with any kind of index of any size, and with `join` false.
    pub fn new(hashes: u64, distance: u32, recall: f64) -> Self {
        Self { hashes, distance, recall, memory: None, kind: None, key_bits: None, join: false }
    }

    /// Gives this task with some of it changed.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// A kind of index that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexKind {
    /// A linear scan, which is exact.
    Linear,
    /// A [`Dial`].
    Dial,
}

impl IndexKind {
    /// The name of the kind for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear scan",
            Self::Dial => "dial",
        }
    }
}

/// An index for a task, with its memory, work and recall. A linear scan counts as one table and one probe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The kind of index.
    pub kind: IndexKind,
    /// The number of indexes that the hashes are divided among: one holds fewer than 2³² in all its tables.
    pub parts: u64,
    /// t: tables of each part.
    pub tables: u32,
    /// f: the most bits that a probe flips in a key.
    pub flips: u32,
    /// p: bits of each key.
    pub key_bits: u32,
    /// Probes of a query, in each part.
    pub probes: u32,
    /// Probes of an exact query, in each part.
    pub all_probes: u32,
    /// The share of the model's pairs that the probes find.
    pub recall: f64,
    /// Memory in bytes of the hashes and directories of all parts.
    pub bytes: u64,
    /// The number of hashes that a query is compared with on average, in all parts together.
    pub candidates: f64,
}

impl Choice {
    /// The parameters of each part of a chosen dial for matches within `radius` bits, with a budget if a query does not
    /// make all probes.
    pub fn params(&self, radius: u32) -> DialParams {
        DialParams {
            radius,
            tables: self.tables,
            flips: Some(self.flips),
            key_bits: Some(self.key_bits),
            keys: None,
            budget: (self.probes < self.all_probes).then_some(self.probes),
        }
    }
}

/// The factor by which a choice that takes fewer bytes may be slower than the fastest.
const SLOWER: f64 = 1.25;

/// Chooses an index for a task; none if no index of the wanted kind reaches the distance or fits the memory.
///
/// Shapes of the dial are considered only if they are exact with all probes.
///
/// # Errors
/// [`Error::Parameter`] for a task without meaning, and for key bits that no index for the task can have.
pub fn choose(task: &Task, model: &Model) -> Result<Option<Choice>> {
    let choices = choices(task, model)?;
    let fits = |choice: &&Choice| task.memory.is_none_or(|memory| choice.bytes <= memory);
    Ok(best(choices.iter().filter(fits)))
}

/// The index for a task that takes the fewest bytes, whatever memory the task allows; none if no index of the wanted
/// kind reaches the distance. A plan reports it where [`choose`] gives none.
///
/// # Errors
/// As [`choose`].
pub fn smallest(task: &Task, model: &Model) -> Result<Option<Choice>> {
    Ok(choices(task, model)?.into_iter().min_by_key(|choice| choice.bytes))
}

/// The choice with the fewest bytes among those that take at most [`SLOWER`] times the time of the fastest.
fn best<'a>(choices: impl Iterator<Item = &'a Choice> + Clone) -> Option<Choice> {
    let time = |choice: &Choice| Machine::REFERENCE.nanoseconds(choice);
    let least = choices.clone().map(time).min_by(f64::total_cmp)?;
    // Of equally many bytes the fastest, then the simplest.
    let order = |a: &&Choice, b: &&Choice| {
        a.bytes.cmp(&b.bytes).then(time(a).total_cmp(&time(b))).then(a.flips.cmp(&b.flips))
    };
    choices.filter(|choice| time(choice) <= least * SLOWER).min_by(order).copied()
}

/// All indexes that do a task, whatever their memory.
fn choices(task: &Task, model: &Model) -> Result<Vec<Choice>> {
    if task.hashes == 0 {
        return Err(Error::parameter("documents", 0, "at least 1"));
    }
    if task.distance > 64 {
        return Err(Error::parameter("distance", task.distance, "at most 64"));
    }
    check_share("recall", task.recall)?;
    // The number of indexes of so many tables that the hashes are divided among, and how many each holds.
    let divided = |tables: u32| {
        let parts = task.hashes.div_ceil(u64::from(dial::most_hashes(tables)));
        (parts, usize::try_from(task.hashes.div_ceil(parts)).unwrap_or(usize::MAX))
    };
    let mut shapes = Vec::new();
    for tables in 1..=MOST_TABLES {
        let (_, n) = divided(tables);
        for flips in 0..=MOST_FLIPS {
            let probes = Probes::new(vec![0; tables as usize], flips);
            // An exact search makes all probes: more flips than it needs only add some.
            let fewer = Probes::new(vec![0; tables as usize], flips.saturating_sub(1));
            if !probes.reach(task.distance) || (task.recall == 1.0 && flips > 0 && fewer.reach(task.distance))
            {
                continue;
            }
            let widths = dial::key_widths(n, tables);
            let (least, most) = (*widths.start(), *widths.end());
            let wanted = match task.key_bits {
                Some(p) => p..=p,
                None => log2(n).saturating_sub(6).clamp(least, most)..=(log2(n) + 1).clamp(least, most),
            };
            shapes.extend(wanted.filter(|p| widths.contains(p)).map(|key_bits| (tables, flips, key_bits)));
        }
    }
    let of_shape = |&(tables, flips, key_bits): &(u32, u32, u32)| -> Option<Choice> {
        let (parts, n) = divided(tables);
        let params =
            DialParams { radius: task.distance, tables, key_bits: Some(key_bits), ..DialParams::default() };
        let masks = params.masks(n).ok()?;
        let sharing = model.sharing(&masks);
        let order = Probes::new(masks, flips);
        let all_probes = order.all();
        let (probes, recall) = match task.recall {
            1.0 => (all_probes, 1.0),
            recall => model.budget(&order, recall, task.join),
        };
        let group = n as f64 / (1u64 << key_bits) as f64 * sharing;
        Some(Choice {
            kind: IndexKind::Dial,
            parts,
            tables,
            flips,
            key_bits,
            probes,
            all_probes,
            recall,
            bytes: parts * Dial::bytes_for(n as u64, tables, key_bits),
            candidates: parts as f64 * f64::from(probes) * group,
        })
    };
    let mut choices: Vec<Choice> = shapes.par_iter().filter_map(of_shape).collect();
    let linear = Choice {
        kind: IndexKind::Linear,
        parts: divided(1).0,
        tables: 1,
        flips: 0,
        key_bits: 0,
        probes: 1,
        all_probes: 1,
        recall: 1.0,
        bytes: 8 * task.hashes,
        candidates: task.hashes as f64,
    };
    if task.key_bits.is_none() {
        choices.push(linear);
    }
    choices.retain(|choice| task.kind.is_none_or(|kind| choice.kind == kind));
    if let (Some(p), true) = (task.key_bits, choices.is_empty()) {
        let most = (1..=MOST_TABLES).filter_map(|tables| {
            let probes = Probes::new(vec![0; tables as usize], MOST_FLIPS);
            probes.reach(task.distance).then(|| *dial::key_widths(divided(tables).1, tables).end())
        });
        let most = most.max().unwrap_or(0);
        return Err(Error::parameter(
            "key-bits",
            p,
            format!("8 to {most} for so many hashes within {} bits", task.distance),
        ));
    }
    Ok(choices)
}

/// Builds an exact index for matches within `radius` bits, of the kind that suits `hashes`, which must ascend and be
/// distinct.
///
/// # Errors
/// [`Error::Parameter`] for a radius above 64 and for hashes that do not ascend.
pub(crate) fn exact(hashes: &[u64], radius: u32) -> Result<Box<dyn HammingIndex>> {
    if !hashes.is_sorted_by(|a, b| a < b) {
        return Err(Error::parameter("hashes", "an unsorted list", "distinct hashes in ascending order"));
    }
    let task = Task::new(hashes.len().max(1) as u64, radius, 1.0);
    Ok(match choose(&task, &Model::built_in(radius, 0))? {
        Some(choice) if choice.kind == IndexKind::Dial => Box::new(Dial::new(hashes, choice.params(radius))?),
        _ => Box::new(Linear::new(hashes, radius)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(hashes: u64, distance: u32, recall: f64) -> Task {
        Task { hashes, distance, recall, memory: None, kind: None, key_bits: None, join: true }
    }

    #[test]
    fn every_task_has_an_index_that_can_be_built() {
        for distance in [0, 1, 3, 6, 10, 15] {
            let model = Model::built_in(distance, 60);
            for recall in [0.9, 1.0] {
                for n in [1, 2, 1_000, 1_000_000, 1 << 31, 10_000_000_000] {
                    let choice = choose(&task(n, distance, recall), &model).unwrap().unwrap();
                    assert!(choice.recall >= recall && choice.probes <= choice.all_probes, "{choice:?}");
                    if choice.kind == IndexKind::Dial {
                        let params = DialParams { key_bits: None, budget: None, ..choice.params(distance) };
                        assert!(Dial::new(&[1, 2], params).unwrap().is_exact());
                        let n = usize::try_from(n.div_ceil(choice.parts)).unwrap();
                        assert!(n <= dial::most_hashes(choice.tables) as usize, "{choice:?}");
                        assert!(choice.params(distance).masks(n).is_ok());
                    }
                }
            }
        }
    }

    #[test]
    fn memory_is_kept_or_refused() {
        let model = Model::built_in(3, 200);
        let free = choose(&task(1 << 20, 3, 0.95), &model).unwrap().unwrap();
        let tight = Task { memory: Some(free.bytes - 1), ..task(1 << 20, 3, 0.95) };
        let less = choose(&tight, &model).unwrap().unwrap();
        assert!(less.bytes < free.bytes);
        assert_eq!(choose(&Task { memory: Some(1000), ..tight }, &model).unwrap(), None);
        let least = smallest(&tight, &model).unwrap().unwrap();
        assert!(least.bytes <= less.bytes && least.bytes <= 8 << 20);
    }

    #[test]
    fn few_hashes_are_scanned_and_many_are_not() {
        let model = Model::built_in(3, 100);
        assert_eq!(choose(&task(20, 3, 0.95), &model).unwrap().unwrap().kind, IndexKind::Linear);
        assert_eq!(choose(&task(1 << 20, 3, 0.95), &model).unwrap().unwrap().kind, IndexKind::Dial);
    }

    #[test]
    fn a_kind_and_a_width_that_are_asked_for_are_given() {
        let model = Model::built_in(3, 100);
        let ask = Task { kind: Some(IndexKind::Dial), ..task(20, 3, 0.95) };
        assert_eq!(choose(&ask, &model).unwrap().unwrap().kind, IndexKind::Dial);
        let ask = Task { key_bits: Some(13), ..ask };
        assert_eq!(choose(&ask, &model).unwrap().unwrap().key_bits, 13);
    }

    #[test]
    fn more_recall_takes_more_probes() {
        let model = Model::built_in(6, 300);
        let probes = |recall| choose(&task(1 << 22, 6, recall), &model).unwrap().unwrap().probes;
        assert!(probes(0.5) < probes(0.9) && probes(0.9) < probes(0.99) && probes(0.99) < probes(1.0));
    }

    #[test]
    fn tasks_without_meaning_are_refused() {
        let model = Model::built_in(3, 10);
        let wide = Task { key_bits: Some(30), ..task(1000, 3, 0.9) };
        for bad in [task(0, 3, 0.9), task(5, 65, 0.9), task(5, 3, 0.0), task(5, 3, f64::NAN), wide] {
            assert!(choose(&bad, &model).is_err(), "{bad:?}");
        }
    }
}
