//! The Python package `simflip`: what is native of it. Python's own part, in `simflip/__init__.py`, has the
//! keywords and makes options of them; here options are what they are on the command line.

mod contamination;
mod dedup;
mod errors;
mod run;
mod seen;
mod shuffle;
mod sketches;
mod table;
mod texts;

use errors::{of_library, of_refusal};
use pyo3::prelude::*;
use pyo3::types::PySequence;
use simflip::cli::options::{self, evaluation, of_explanation};
use simflip::pipeline::explain_texts;
use std::ffi::OsString;
use texts::Text;

/// Explains a pair of texts: in words, and as data.
///
/// # Errors
/// As for `dedup`.
#[pyfunction]
fn explain<'py>(
    py: Python<'py>,
    a: Text,
    b: Text,
    options: Vec<OsString>,
) -> PyResult<(String, Bound<'py, PyAny>)> {
    let (methods, frequencies) = of_explanation(&options).map_err(of_refusal)?;
    let explain = || explain_texts(frequencies.as_deref(), &methods, ["a", "b"], [&a.0, &b.0]);
    let explanation = py.detach(explain).map_err(of_library)?;
    Ok((explanation.to_string(), dedup::from_json(py, &explanation)?))
}

/// The scores of a folder of results; the arguments are those of `simflip evaluate`.
///
/// # Errors
/// As for `dedup`.
#[pyfunction]
fn evaluate(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Bound<'_, PyAny>> {
    let scores = run::run(py, None, |_| evaluation(&arguments))?.map_err(of_refusal)?;
    dedup::from_json(py, &scores)
}

/// A message of the command line in the words of keywords.
#[pyfunction]
fn as_keywords(reported: &str) -> String {
    options::as_keywords(reported)
}

/// What a keyword of another tool is called here, if it is one.
#[pyfunction]
fn called_here(name: &str, of_texts: bool) -> Option<String> {
    options::called_here(name, of_texts)
}

/// Runs the command line; the arguments begin with the program's name. Gives the exit code.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| simflip::cli::run(arguments))
}

/// What is native of the package.
#[pymodule]
fn _simflip(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !simflip::corpus::panic_is_corruption() {
            usual(panic);
        }
    }));
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<table::Table>()?;
    module.add_class::<table::Column>()?;
    PySequence::register::<table::RowNumbers>(module.py())?;
    module.add_class::<seen::Seen>()?;
    module.add_function(wrap_pyfunction!(shuffle::record_settings, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::sketch_records, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::join_bucket, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::sketch_files, module)?)?;
    module.add_function(wrap_pyfunction!(seen::time_of, module)?)?;
    module.add_function(wrap_pyfunction!(table::unpickled, module)?)?;
    module.add_function(wrap_pyfunction!(dedup::dedup_of_texts, module)?)?;
    module.add_function(wrap_pyfunction!(dedup::chosen_rows, module)?)?;
    module.add_function(wrap_pyfunction!(dedup::rethreshold, module)?)?;
    module.add_function(wrap_pyfunction!(dedup::report_html, module)?)?;
    module.add_function(wrap_pyfunction!(dedup::report_text, module)?)?;
    module.add_function(wrap_pyfunction!(dedup::dedup_of_files, module)?)?;
    module.add_function(wrap_pyfunction!(dedup::read_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(dedup::read_clusters, module)?)?;
    module.add_function(wrap_pyfunction!(contamination::decontaminate, module)?)?;
    module.add_function(wrap_pyfunction!(sketches::sketch, module)?)?;
    module.add_function(wrap_pyfunction!(sketches::join, module)?)?;
    module.add_function(wrap_pyfunction!(sketches::clusters, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(as_keywords, module)?)?;
    module.add_function(wrap_pyfunction!(called_here, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)
}
