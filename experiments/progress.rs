//! Progress of a run: bars on standard error where a person looks on, lines of results on
//! standard output everywhere.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use simflip::terminal;
use std::fmt::Display;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Prints a line on standard output; in tests none, where it would stand among what tests say.
///
/// # Errors
/// As [`terminal::say`].
pub fn say(line: impl Display) -> io::Result<()> {
    if cfg!(test) { Ok(()) } else { terminal::say(line) }
}

/// The bars of a run, and what it left out.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    bars: MultiProgress,
    omitted: Arc<Mutex<Vec<String>>>,
}

impl Progress {
    /// A bar of `total` of something. It draws nothing where standard error is not a terminal.
    pub fn bar(&self, what: &str, total: usize) -> ProgressBar {
        let style = ProgressStyle::with_template("  {bar:30} {human_pos} of {human_len} {msg}, {eta} left");
        let bar = self.bars.add(ProgressBar::new(total as u64));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }

    /// A bar of measurements, each of which is reported in a line.
    pub fn points(&self, total: usize) -> Points {
        Points { all: self.clone(), bar: self.bar("measurements", total) }
    }

    /// Prints what is left out and why, and keeps it for the summary.
    pub fn omit(&self, reason: impl Into<String>) {
        let reason = reason.into();
        self.say(format!("  left out: {reason}"));
        self.omitted.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
    }

    /// Takes the reasons for which something was left out since the last call.
    pub fn take_omitted(&self) -> Vec<String> {
        std::mem::take(&mut *self.omitted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prints a line above the bars.
    pub fn say(&self, line: impl AsRef<str>) {
        // The rows are what counts, and they are in files.
        let _ = self.bars.suspend(|| say(line.as_ref()));
    }
}

/// Measurements, done and to come.
pub struct Points {
    all: Progress,
    bar: ProgressBar,
}

impl Points {
    /// One more is done.
    pub fn done(&self, line: impl AsRef<str>) {
        self.bar.inc(1);
        self.all.say(line);
    }

    /// One is left out, as [`Progress::omit`] has it.
    pub fn omit(&self, reason: impl Into<String>) {
        self.all.omit(reason);
    }
}

impl Drop for Points {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
