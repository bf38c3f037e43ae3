//! Whether a file of a stage is in order.

use super::{apply, audit, cluster, company, exact, join, names, sketches, working};
use crate::error::Result;
use crate::format::{
    APPLIED, AUDIT, COMPANY, EDGES, FATES, HASHES, Kind, NAMES, PAIRS, READING, SKETCHES, WORKING,
};
use crate::inspection::Inspection;
use std::path::Path;

/// Looks at a file that a stage wrote, without holding it in memory; none for other kinds.
///
/// # Errors
/// If it cannot be read or is damaged where nothing of it can be trusted.
pub fn check(kind: Kind, path: &Path) -> Option<Result<Inspection>> {
    Some(match kind {
        SKETCHES => sketches::check(path),
        NAMES => names::check(path),
        COMPANY => company::check_file(path),
        EDGES => join::check_edge_file(path),
        HASHES => exact::check_list(path),
        PAIRS => exact::check_pairs(path),
        FATES => cluster::check(path),
        AUDIT => audit::check(path),
        APPLIED => apply::check(path),
        READING => working::check_reading(path),
        WORKING => working::check_mark(path),
        _ => return None,
    })
}
