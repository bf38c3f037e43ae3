//! Panics of the decoder become damage.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::errors::ParquetError;

use crate::corpus::damage::{DamageCause, DamageKind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// See [`crate::corpus::panic_is_damage`].
pub(crate) fn panic_is_damage() -> bool {
    GUARDED.get()
}

/// Runs what the file can lead astray.
pub(super) fn guarded<T>(
    kind: DamageKind,
    run: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, DamageCause> {
    // Whatever was half done is dropped by the caller, who goes on with the next row group.
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(before);
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(error))) => Err((kind, error.to_string())),
        Ok(Err(ParquetError::General(error))) => Err((kind, error)),
        Ok(Err(error)) => Err((kind, error.to_string())),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            Err((kind, format!("the decoder gave up: {said}")))
        }
    }
}
