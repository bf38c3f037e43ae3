//! The time of each stage of a run, and the trait by which a caller hears of its progress. A stage is here any step of
//! a run that is timed by itself, such as `read`, `join` or `write results`. Stages follow each other and do not nest.

use crate::report::model::Stage;
use crate::resources::cpu_seconds;
use simflip_core::progress::{self, Step};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Hears of the progress of a run. Calls may come from any thread, and from several at once.
pub trait Progress: Sync {
    /// A stage begins that works through `total` of `unit`, such as `documents`; 0 if the total is not known.
    fn begin(&self, stage: &str, total: u64, unit: &str);
    /// The stage has worked through `amount` more of its unit.
    fn advance(&self, amount: u64);
    /// The stage that began last is over.
    fn end(&self);
    /// A message for the user, such as a warning, to be shown at once.
    fn note(&self, message: &str);
    /// The part `_number` of the run's `_of` parts begins, counted from 1. Only runs on disk have parts.
    fn part(&self, _number: u32, _of: u32) {}
}

impl dyn Progress + '_ {
    /// Begins a stage, runs `work`, and ends the stage. `work` gets a function to call with the amount that it has done
    /// since the last call, in `unit`.
    pub(crate) fn during<R>(
        &self,
        stage: &str,
        total: u64,
        unit: &str,
        work: impl FnOnce(&(dyn Fn(u64) + Sync)) -> R,
    ) -> R {
        self.begin(stage, total, unit);
        let result = work(&|amount| self.advance(amount));
        self.end();
        result
    }
}

/// A listener that ignores all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64, _: &str) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}

/// A stage that has begun.
#[derive(Clone, Copy, Debug)]
struct BegunStage {
    wall: Instant,
    /// Seconds of processor time of the process when it began; none if the system does not tell.
    cpu: Option<f64>,
    /// The number of items that it works through.
    items: u64,
}

impl BegunStage {
    fn now(items: u64) -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds(), items }
    }
}

/// The stages of a run, in order, with their times. As a [`progress::Progress`] it also times the steps of the core,
/// and passes on their progress.
pub struct Stages<'a> {
    done: Mutex<Vec<Stage>>,
    /// The core's step that has begun; none between steps.
    begun: Mutex<Option<BegunStage>>,
    progress: &'a dyn Progress,
}

impl<'a> Stages<'a> {
    /// No stage yet. `progress` hears of the progress of all.
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self { done: Mutex::default(), begun: Mutex::default(), progress }
    }

    /// Runs and times a stage that works through `items` of `unit`, and through `bytes`; either is 0 if it is not known
    /// or has no meaning. `work` gets a function to call with the amount that it has done since the last call. It
    /// counts in bytes if `bytes` is not 0, and otherwise in items.
    pub fn run<R>(
        &self,
        name: &str,
        items: u64,
        unit: &str,
        bytes: u64,
        work: impl FnOnce(&(dyn Fn(u64) + Sync)) -> R,
    ) -> R {
        let (total, progress_unit) = if bytes > 0 { (bytes, "bytes") } else { (items, unit) };
        let begun = BegunStage::now(items);
        let result = self.progress.during(name, total, progress_unit, work);
        self.add(name, unit, begun, bytes);
        result
    }

    /// Runs and times a stage whose work itself reports progress to the listener.
    pub fn timed<R>(&self, name: &str, items: u64, unit: &str, work: impl FnOnce() -> R) -> R {
        let begun = BegunStage::now(items);
        let result = work();
        self.add(name, unit, begun, 0);
        result
    }

    fn add(&self, name: &str, unit: &str, begun: BegunStage, bytes: u64) {
        let BegunStage { wall, cpu, items } = begun;
        let cpu = cpu_seconds().zip(cpu).map_or(0.0, |(now, then)| now - then);
        self.push(Stage {
            name: name.to_owned(),
            wall_seconds: wall.elapsed().as_secs_f64(),
            cpu_seconds: cpu,
            items,
            item_unit: unit.to_owned(),
            bytes,
        });
    }

    /// Adds a stage that the caller has timed.
    pub(super) fn push(&self, stage: Stage) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
    }

    /// Sets the items and bytes of the last stage, which were not known when it began.
    pub fn amend(&self, items: u64, bytes: u64) {
        if let Some(stage) = self.done.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            (stage.items, stage.bytes) = (items, bytes);
        }
    }

    /// The listener that hears of progress.
    pub fn progress(&self) -> &'a dyn Progress {
        self.progress
    }

    /// The stages that have ended so far, in order.
    pub fn done(&self) -> Vec<Stage> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The name of the stage that searches for candidates. A comparison takes the speed of a search from its time.
pub(crate) const SEARCH: &str = "join";

/// The name of the stage that a step of the core is, and the unit that it counts.
fn words(step: Step) -> (&'static str, &'static str) {
    match step {
        Step::ExactDuplicates => ("exact duplicates", "documents"),
        Step::Frequencies => ("frequencies", "documents"),
        Step::SimHash => ("simhash", "documents"),
        Step::MinHash => ("minhash", "documents"),
        Step::Group => ("group", "documents"),
        Step::Index => ("index", "distinct sketches"),
        Step::Calibrate => ("calibrate", "distinct sketches"),
        Step::Join => (SEARCH, "distinct sketches"),
        Step::Histograms => ("histograms", "pairs"),
        Step::Verify => ("verify", "pairs of sketches"),
        Step::Containment => ("containment", "texts"),
        Step::RecallEstimate => ("recall estimate", "texts"),
        Step::Pairs => ("pairs", "pairs of sketches"),
        Step::Clusters => ("clusters", "documents"),
        Step::Cohesion => ("cohesion", "documents"),
        _ => ("other work", "items"),
    }
}

impl progress::Progress for Stages<'_> {
    fn begin(&self, step: Step, items: u64) {
        let (name, unit) = words(step);
        self.progress.begin(name, items, unit);
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(BegunStage::now(items));
    }

    fn advance(&self, items: u64) {
        self.progress.advance(items);
    }

    fn end(&self, step: Step) {
        self.progress.end();
        let (name, unit) = words(step);
        if let Some(begun) = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.add(name, unit, begun, 0);
        }
    }
}
