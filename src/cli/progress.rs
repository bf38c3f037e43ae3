//! Progress on standard error: a bar with the time left on a terminal, elsewhere a line a minute, and messages
//! everywhere.

use indicatif::{HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use simflip::display::printable;
use simflip::pipeline::Progress;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines of progress where there is no terminal.
const INTERVAL: Duration = Duration::from_secs(60);

/// The [`Progress`] of a command, shown on standard error: bars on a terminal, lines elsewhere; notes everywhere.
pub(crate) struct Bars {
    visible: bool,
    current: Mutex<Option<ProgressBar>>,
    lines: Option<ProgressLines>,
}

impl Bars {
    /// Bars if standard error is a terminal, lines if it is none, and notes alone with `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let lines = (!quiet && !is_terminal).then(|| ProgressLines::new(INTERVAL, super::note));
        Self { visible: !quiet && is_terminal, current: Mutex::new(None), lines }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Option<ProgressBar>) -> R) -> R {
        // A poisoned lock still holds a bar that can be drawn.
        work(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Progress for Bars {
    fn begin(&self, stage: &str, total: u64, unit: &str) {
        if let Some(lines) = &self.lines {
            lines.state.begin(stage, total, unit);
        }
        if !self.visible {
            return;
        }
        let amount = match unit {
            "bytes" => "{bytes} of {total_bytes}, {bytes_per_sec}".to_owned(),
            unit => format!("{{human_pos}} of {{human_len}} {unit}"),
        };
        let template = format!("{{prefix:>18}} {{bar:30}} {amount}, {{eta}} left");
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.set_style(style);
        bar.set_prefix(stage.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        self.with(|current| *current = Some(bar));
    }

    fn advance(&self, amount: u64) {
        if let Some(lines) = &self.lines {
            lines.state.done.fetch_add(amount, Ordering::Relaxed);
        }
        if self.visible {
            self.with(|current| current.iter().for_each(|bar| bar.inc(amount)));
        }
    }

    fn end(&self) {
        if let Some(lines) = &self.lines {
            lines.state.end();
        }
        if self.visible
            && let Some(bar) = self.with(Option::take)
        {
            bar.finish_and_clear();
        }
    }

    fn note(&self, message: &str) {
        let message = printable(message);
        self.with(|current| match current {
            Some(bar) => bar.suspend(|| super::note(&message)),
            None => super::note(&message),
        });
    }

    fn part(&self, number: u32, of: u32) {
        if let Some(lines) = &self.lines {
            lines.state.at().part = Some((number, of));
        }
    }
}

/// Lines that report at intervals how far a stage is, for a log. A stage that is shorter than the interval has none.
struct ProgressLines {
    state: Arc<ProgressState>,
    /// Dropped, it ends the thread that prints the lines.
    _running: Sender<()>,
}

impl ProgressLines {
    fn new(interval: Duration, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let state = Arc::new(ProgressState {
            interval,
            say: Box::new(say),
            done: AtomicU64::new(0),
            at: Mutex::default(),
        });
        let (running, ended) = channel();
        let by_thread = Arc::clone(&state);
        // By a thread of its own: a stage may work for long without a word. Without one, less is reported.
        let print = move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                by_thread.print();
            }
        };
        drop(std::thread::Builder::new().spawn(print));
        Self { state, _running: running }
    }
}

struct ProgressState {
    interval: Duration,
    say: Box<dyn Fn(&str) + Send + Sync>,
    done: AtomicU64,
    at: Mutex<CurrentStage>,
}

#[derive(Default)]
struct CurrentStage {
    part: Option<(u32, u32)>,
    stage: Option<ShownStage>,
}

struct ShownStage {
    name: String,
    total: u64,
    unit: String,
    begun: Instant,
}

impl ProgressState {
    fn at(&self) -> MutexGuard<'_, CurrentStage> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, name: &str, total: u64, unit: &str) {
        let mut at = self.at();
        self.done.store(0, Ordering::Relaxed);
        at.stage = Some(ShownStage::new(at.part, name, total, unit));
    }

    fn print(&self) {
        if let Some(stage) = &self.at().stage {
            (self.say)(&stage.so_far(self.done.load(Ordering::Relaxed), stage.begun.elapsed()));
        }
    }

    fn end(&self) {
        let Some(stage) = self.at().stage.take() else { return };
        let taken = stage.begun.elapsed();
        if taken >= self.interval {
            let done = self.done.load(Ordering::Relaxed).max(stage.total);
            (self.say)(&format!("{}: {} in {}", stage.name, stage.amount(done), HumanDuration(taken)));
        }
    }
}

impl ShownStage {
    fn new(part: Option<(u32, u32)>, name: &str, total: u64, unit: &str) -> Self {
        let name = match part {
            Some((number, of)) => format!("stage {number} of {of}, {name}"),
            None => name.to_owned(),
        };
        Self { name, total, unit: unit.to_owned(), begun: Instant::now() }
    }

    fn amount(&self, n: u64) -> String {
        match &*self.unit {
            "bytes" => HumanBytes(n).to_string(),
            unit => format!("{} {unit}", HumanCount(n)),
        }
    }

    fn so_far(&self, done: u64, taken: Duration) -> String {
        let (name, time) = (&self.name, HumanDuration(taken));
        if self.total == 0 {
            return format!("{name}: {time} so far");
        }
        let share = (done as f64 / self.total as f64).min(1.0);
        let of = format!("{name}: {:.0} % of {}", (share * 100.0).floor(), self.amount(self.total));
        match Duration::try_from_secs_f64(taken.as_secs_f64() * (1.0 - share) / share) {
            Ok(left) if done > 0 => format!("{of}, {} left", HumanDuration(left)),
            _ => format!("{of}, {time} so far"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bars of lines, said as often as that, and what they have said.
    fn lines(interval: Duration) -> (Bars, Arc<Mutex<Vec<String>>>) {
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let lines =
            ProgressLines::new(interval, move |line: &str| heard.lock().unwrap().push(line.to_owned()));
        (Bars { visible: false, current: Mutex::new(None), lines: Some(lines) }, said)
    }

    #[test]
    fn a_line_tells_the_stage_what_is_done_and_the_time_left() {
        let shown = |part, (name, total, unit), done, seconds| {
            ShownStage::new(part, name, total, unit).so_far(done, Duration::from_secs(seconds))
        };
        let join = ("join", 12_345, "documents");
        assert_eq!(shown(None, join, 5_100, 125), "join: 41 % of 12,345 documents, 3 minutes left");
        assert_eq!(
            shown(Some((2, 4)), ("join 3/15", 100, "documents"), 1, 60),
            "stage 2 of 4, join 3/15: 1 % of 100 documents, 2 hours left"
        );
        assert_eq!(shown(None, join, 0, 61), "join: 0 % of 12,345 documents, 61 seconds so far");
        // More than was expected, as of a file that grows.
        assert_eq!(shown(None, join, 20_000, 61), "join: 100 % of 12,345 documents, 0 seconds left");
        assert_eq!(
            shown(None, ("read", 3 << 30, "bytes"), 1 << 30, 600),
            "read: 33 % of 3.00 GiB, 20 minutes left"
        );
        assert_eq!(shown(None, ("rates", 0, "documents"), 7, 300), "rates: 5 minutes so far");
    }

    #[test]
    fn a_long_stage_is_reported_while_it_lasts_and_at_its_end_and_a_short_one_is_not() {
        let (bars, said) = lines(Duration::from_millis(20));
        bars.part(1, 4);
        bars.begin("sketch", 1_000, "documents");
        bars.advance(250);
        let begun = Instant::now();
        while said.lock().unwrap().len() < 2 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        bars.end();
        let shown = std::mem::take(&mut *said.lock().unwrap());
        let (last, before) = shown.split_last().unwrap();
        assert!(
            before.len() > 1
                && before
                    .iter()
                    .all(|line| line.starts_with("stage 1 of 4, sketch: 25 % of 1,000 documents, "))
        );
        assert!(last.starts_with("stage 1 of 4, sketch: 1,000 documents in "), "{last}");
        // No stage, no word.
        std::thread::sleep(Duration::from_millis(60));
        assert!(said.lock().unwrap().is_empty());

        let (bars, said) = lines(INTERVAL);
        bars.begin("sketch", 1_000, "documents");
        bars.advance(1_000);
        bars.end();
        assert!(said.lock().unwrap().is_empty());
    }
}
