//! Progress of a run: bars on standard error where a person looks on, lines of results on
//! standard output everywhere.

use flipside::terminal;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::io;
use std::time::Duration;

/// Prints a line on standard output; in tests none, where it would stand among what tests say.
///
/// # Errors
/// As [`terminal::say`].
pub fn say(line: impl Display) -> io::Result<()> {
    if cfg!(test) { Ok(()) } else { terminal::say(line) }
}

/// The bars of a run.
#[derive(Clone, Debug, Default)]
pub struct Progress(MultiProgress);

impl Progress {
    /// A bar of `total` of something. It draws nothing where standard error is not a terminal.
    pub fn bar(&self, what: &str, total: usize) -> ProgressBar {
        let style = ProgressStyle::with_template("  {bar:30} {human_pos} of {human_len} {msg}, {eta} left");
        let bar = self.0.add(ProgressBar::new(total as u64));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }

    /// A bar of measurements, each of which is told in a line.
    pub fn points(&self, total: usize) -> Points {
        Points { all: self.clone(), bar: self.bar("measurements", total) }
    }

    /// Prints a line above the bars.
    pub fn say(&self, line: impl AsRef<str>) {
        // The rows are what counts, and they are in files.
        let _ = self.0.suspend(|| say(line.as_ref()));
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
}

impl Drop for Points {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
