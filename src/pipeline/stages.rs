//! Time of each stage of a run, and who hears of its progress.

use crate::report::model::Stage;
use crate::resources::cpu_seconds;
use simflip_core::progress::{self, Step};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Hears how a run goes on. All calls may come from any thread.
pub trait Progress: Sync {
    /// A stage begins that works through `total` of `unit`; 0 where the amount is not known.
    fn begin(&self, stage: &str, total: u64, unit: &str);
    /// Notes that `amount` more is done.
    fn advance(&self, amount: u64);
    /// The stage is over.
    fn end(&self);
    /// Something to tell the user at once.
    fn note(&self, message: &str);
    /// A part of a run begins, counted from 1, of so many.
    fn part(&self, _number: u32, _of: u32) {}
}

impl dyn Progress + '_ {
    /// Goes through a stage. The work gets a function that tells how much more is done.
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

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64, _: &str) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}

/// A stage that runs.
#[derive(Clone, Copy, Debug)]
struct BegunStage {
    wall: Instant,
    /// Seconds of processor time of the run before it.
    cpu: Option<f64>,
    /// The number of items that it works through.
    items: u64,
}

impl BegunStage {
    fn now(items: u64) -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds(), items }
    }
}

/// The stages of a run, in order, with their times. Hears of the core's steps, which are stages too.
pub struct Stages<'a> {
    done: Mutex<Vec<Stage>>,
    /// The core's step that runs.
    begun: Mutex<Option<BegunStage>>,
    progress: &'a dyn Progress,
}

impl<'a> Stages<'a> {
    /// Begins without a stage.
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self { done: Mutex::default(), begun: Mutex::default(), progress }
    }

    /// Runs a stage that works through `items`, and through `bytes` where that has a meaning. The work gets a
    /// function that tells how much more of the items (or bytes, if there are any) is done.
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

    /// Runs a stage whose work tells of its progress itself.
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

    /// Adds a stage that was timed elsewhere.
    pub(super) fn push(&self, stage: Stage) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
    }

    /// Corrects what the last stage worked through, once it is known.
    pub fn amend(&self, items: u64, bytes: u64) {
        if let Some(stage) = self.done.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            (stage.items, stage.bytes) = (items, bytes);
        }
    }

    /// The listener that hears of progress.
    pub fn progress(&self) -> &'a dyn Progress {
        self.progress
    }

    /// The stages run so far.
    pub fn done(&self) -> Vec<Stage> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The stage that looks for candidates.
pub(crate) const SEARCH: &str = "join";

/// The name of a step of the core, and the unit that it counts.
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
