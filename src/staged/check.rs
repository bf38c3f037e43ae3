//! The check of a file of any kind that stages write, for `simflip inspect`.

use super::{apply, cluster, join, names, reading, sketches, working};
use crate::error::Result;
use crate::format::{APPLIED, ASSIGNMENTS, EDGES, Kind, NAMES, PAIRS, READING, SKETCHES, WORKING};
use crate::inspection::Inspection;
use std::path::Path;

/// Checks a file of a kind that stages write, without holding it in memory; `None` for other kinds.
///
/// # Errors
/// If it cannot be read or is corrupt where nothing of it can be trusted.
pub fn check(kind: Kind, path: &Path) -> Option<Result<Inspection>> {
    Some(match kind {
        SKETCHES => sketches::check(path),
        NAMES => names::check(path),
        EDGES => join::check_edge_file(path),
        PAIRS => cluster::check_pairs(path),
        ASSIGNMENTS => cluster::check(path),
        APPLIED => apply::check(path),
        READING => reading::check_reading(path),
        WORKING => working::check_mark(path),
        _ => return None,
    })
}
