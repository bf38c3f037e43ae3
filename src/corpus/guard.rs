//! Panics of decoders count as corruption.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// True if a panic of this thread counts as corruption or an error, so that a panic hook may keep silent about it: the
/// decoder of Parquet panics on some corrupt files.
pub fn panic_is_corruption() -> bool {
    GUARDED.get()
}

/// Runs what an input can lead astray. Whatever was half done where it panics is to be dropped.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> std::thread::Result<T> {
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(before);
    outcome
}
