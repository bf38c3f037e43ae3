//! What went wrong, as Python has it: `OSError` where the operating system refused, `ValueError` otherwise, both
//! in the words of the command line, with keywords in place of options.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};
use simflip::cli::options::{Refused, as_keywords, refused};
use std::io;

/// The exception for a refusal.
pub fn of_refusal(Refused { text, io }: Refused) -> PyErr {
    let text = as_keywords(&text);
    match io {
        // The kind chooses the subclass, such as FileNotFoundError.
        Some(kind) => io::Error::new(kind, text).into(),
        None => PyValueError::new_err(text),
    }
}

/// The exception for an error of the library's.
pub fn of_library(error: simflip::Error) -> PyErr {
    of_refusal(refused(error))
}

/// The exception for an error of the core's.
pub fn of_core(error: simflip::core::Error) -> PyErr {
    of_library(error.into())
}

/// The exception for a stream of Arrow's that did not come to its end.
pub fn of_stream(error: &impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(format!("the data could not be read to the end: {error}"))
}

/// The exception for what Arrow refused.
pub fn of_arrow(error: arrow_schema::ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
