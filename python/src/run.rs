//! Long calls: the work has a thread of its own and no hold on the interpreter, while the caller's thread looks
//! after signals and tells of progress.

use pyo3::prelude::*;
use simflip::pipeline::Progress;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks at signals.
const TICK: Duration = Duration::from_millis(100);

/// Hears how the work goes on, and ends it where it was asked to: the next word on progress unwinds the work's
/// threads, and what they had begun is taken away as they go.
pub struct Ticker {
    cancelled: AtomicBool,
    done: AtomicU64,
    stage: Mutex<Option<Stage>>,
    notes: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct Stage {
    name: String,
    total: u64,
    unit: String,
}

/// What the work's threads unwind with when they are ended.
struct Cancelled;

/// A poisoned lock still holds what is reported.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ticker {
    /// Nothing has heard yet.
    pub fn new() -> Self {
        Self {
            cancelled: AtomicBool::new(false),
            done: AtomicU64::new(0),
            stage: Mutex::new(None),
            notes: Mutex::new(Vec::new()),
        }
    }

    fn end_if_cancelled(&self) {
        if self.cancelled.load(Ordering::Relaxed) {
            // No panic: no hook is run, and nothing is printed.
            resume_unwind(Box::new(Cancelled));
        }
    }

    /// Calls `progress`, if there is one, with the stage's name, how much is done, of how much, and the unit.
    ///
    /// # Errors
    /// What it raises.
    pub fn tell(&self, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let stage = lock(&self.stage).clone();
        if let (Some(progress), Some(Stage { name, total, unit })) = (progress, stage) {
            progress.call1((name, self.done.load(Ordering::Relaxed), total, unit))?;
        }
        Ok(())
    }
}

impl Progress for Ticker {
    fn begin(&self, stage: &str, total: u64, unit: &str) {
        self.end_if_cancelled();
        *lock(&self.stage) = Some(Stage { name: stage.to_owned(), total, unit: unit.to_owned() });
        self.done.store(0, Ordering::Relaxed);
    }

    fn advance(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
        self.end_if_cancelled();
    }

    fn end(&self) {
        self.end_if_cancelled();
    }

    fn note(&self, message: &str) {
        lock(&self.notes).push(message.to_owned());
    }
}

/// Runs `work`, and logs what it notes. `progress`, if there is one, hears how it goes on.
///
/// # Errors
/// What a signal's handler raised, such as `KeyboardInterrupt`, or what `progress` raised; the work has ended
/// by then.
pub fn run<R: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Ticker) -> R + Send,
) -> PyResult<R> {
    run_part(py, &Ticker::new(), progress, work)
}

/// Runs a part of the work on which `ticker` tells.
///
/// # Errors
/// As [`run`].
pub fn run_part<R: Send>(
    py: Python<'_>,
    ticker: &Ticker,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Ticker) -> R + Send,
) -> PyResult<R> {
    let (done, refused) = std::thread::scope(|scope| {
        let (sender, mut receiver) = channel();
        scope.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(ticker)));
            // The receiver waits for it.
            let _ = sender.send(result);
        });
        let mut refused = None;
        loop {
            let (received, back) = py.detach(move || (receiver.recv_timeout(TICK), receiver));
            receiver = back;
            match received {
                Ok(done) => return (Some(done), refused),
                Err(RecvTimeoutError::Disconnected) => return (None, refused),
                Err(RecvTimeoutError::Timeout) if refused.is_none() => {
                    if let Err(error) = py.check_signals().and_then(|()| ticker.tell(progress)) {
                        ticker.cancelled.store(true, Ordering::Relaxed);
                        refused = Some(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    });
    if let Some(error) = refused {
        return Err(error);
    }
    let done = match done {
        Some(Ok(done)) => done,
        // A panic of the work's is one of the call's, which PyO3 makes an exception.
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("the work sends what it comes to, or how it ended"),
    };
    let notes = std::mem::take(&mut *lock(&ticker.notes));
    if !notes.is_empty() {
        let logger = py.import("logging")?.call_method1("getLogger", ("simflip",))?;
        for note in notes {
            logger.call_method1("warning", ("%s", note))?;
        }
    }
    // A part may be done before it is time to tell.
    py.check_signals().and_then(|()| ticker.tell(progress))?;
    Ok(done)
}
