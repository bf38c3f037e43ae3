//! Panics of decoders count as corruption, not as faults of simflip: they become errors here.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// True while a panic of this thread counts as corruption or an error, so that a panic hook may keep silent about it.
/// The decoder of Parquet panics on some corrupt files.
pub fn panic_is_corruption() -> bool {
    GUARDED.get()
}

/// Runs code that may panic on some input. `Err` has the panic; the caller then drops whatever the code has changed.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> std::thread::Result<T> {
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(before);
    outcome
}
