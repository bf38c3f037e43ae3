//! Time of each stage of a run, and who hears of its progress.

use crate::report::model::Stage;
use crate::resources::cpu_seconds;
use std::time::Instant;

/// Hears how a run goes on. All calls may come from any thread.
pub trait Progress: Sync {
    /// A stage begins that works through `total` of `unit`; 0 where the amount is not known.
    fn begin(&self, stage: &str, total: u64, unit: &str);
    /// So much more is done.
    fn advance(&self, amount: u64);
    /// The stage is over.
    fn end(&self);
    /// Something to tell the user at once.
    fn note(&self, message: &str);
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

/// The stages of a run, in order, with their times.
pub struct Stages<'a> {
    done: Vec<Stage>,
    progress: &'a dyn Progress,
}

impl<'a> Stages<'a> {
    /// No stage yet.
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self { done: Vec::new(), progress }
    }

    /// Runs a stage that works through `items`, and through `bytes` where that has a meaning. The work gets a function that
    /// tells how much more of the items (or bytes, if there are any) is done.
    pub fn run<R>(
        &mut self,
        name: &str,
        items: u64,
        unit: &str,
        bytes: u64,
        work: impl FnOnce(&(dyn Fn(u64) + Sync)) -> R,
    ) -> R {
        let (total, progress_unit) = if bytes > 0 { (bytes, "bytes") } else { (items, unit) };
        self.progress.begin(name, total, progress_unit);
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        let progress = self.progress;
        let result = work(&move |amount| progress.advance(amount));
        let cpu = cpu_seconds().zip(cpu).map_or(0.0, |(now, then)| now - then);
        self.progress.end();
        self.done.push(Stage {
            name: name.to_owned(),
            wall_seconds: wall.elapsed().as_secs_f64(),
            cpu_seconds: cpu,
            items,
            item_unit: unit.to_owned(),
            bytes,
        });
        result
    }

    /// Corrects what the last stage worked through, once it is known.
    pub fn amend(&mut self, items: u64, bytes: u64) {
        if let Some(stage) = self.done.last_mut() {
            (stage.items, stage.bytes) = (items, bytes);
        }
    }

    /// Who hears of progress.
    pub fn progress(&self) -> &'a dyn Progress {
        self.progress
    }

    /// The stages run so far.
    pub fn done(&self) -> &[Stage] {
        &self.done
    }
}
