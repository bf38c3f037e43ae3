//! The pairs of a result that are nearest to its threshold.

use crate::error::Result;
use crate::report::model::{PairKind, Report};
use crate::tables;
use std::path::Path;

/// The least similar pairs of different texts in the pairs.csv of a result, at most `most`, least similar first. Each
/// is a similarity with the ids of the two documents. Equal similarities stay in the order of the table.
///
/// # Errors
/// If `result` has no report, or its table cannot be read.
pub fn least_similar(result: &Path, most: usize) -> Result<Vec<(f64, [String; 2])>> {
    Report::of_result(result)?;
    let mut reader = tables::PairsReader::open(&result.join("pairs.csv"))?;
    let mut least: Vec<(f64, [String; 2])> = Vec::new();
    while let Some(row) = reader.next_row()? {
        let (PairKind::Near, Some(similarity)) = (row.kind(), row.similarity()?) else { continue };
        let place = least.partition_point(|(other, _)| *other <= similarity);
        if place < most {
            least.insert(place, (similarity, [row.a_id(), row.b_id()].map(str::to_owned)));
            least.truncate(most);
        }
    }
    Ok(least)
}
