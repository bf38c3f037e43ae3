//! Panics of the decoder count as corruption.

use parquet::errors::ParquetError;

use crate::corpus::corruption::{CorruptionCause, CorruptionKind};
use crate::corpus::guard::caught;

/// Runs a decoder. Its errors and panics become corruption of the kind [`CorruptionKind::Undecodable`].
pub(super) fn guarded<T>(run: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, CorruptionCause> {
    // The caller goes on with the next row group.
    let detail = match caught(run) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(ParquetError::External(error))) => error.to_string(),
        Ok(Err(ParquetError::General(error))) => error,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            format!("the decoder gave up: {said}")
        }
    };
    Err((CorruptionKind::Undecodable, detail))
}
