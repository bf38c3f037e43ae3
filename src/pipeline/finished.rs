//! A result that is there already.

use super::{Against, Job, Summary, all_inputs};
use crate::report::model::Report;
use std::fs;

/// The summary and the files of a job whose result is there: the same command wrote it, and every file is as long as
/// it was and older than the result. So a job that a scheduler gives twice is done once.
///
/// A command that replaces results, or reads a stream, is never done.
pub(crate) fn finished(job: &Job) -> Option<(Summary, Against)> {
    let path = job.out.join("report.json");
    if job.force || job.command_line.is_empty() || !path.exists() {
        return None;
    }
    let (report, made) = (Report::read_json(&path).ok()?, fs::metadata(&path).ok()?.modified().ok()?);
    // The program itself may be called otherwise.
    if report.command_line.get(1..) != job.command_line.get(1..) {
        return None;
    }
    let files = all_inputs(job).ok()?;
    let old = report.against.iter().flat_map(|against| &against.files);
    let was = report.files.iter().chain(old).map(|row| (row.path.clone(), row.stored_bytes));
    let is = files.inputs.iter().map(|input| (input.path.display().to_string(), input.stored_bytes()));
    let is_older = |modified| modified < made;
    let are_older = files.inputs.iter().all(|input| {
        !input.is_stream() && fs::metadata(input.stored()).and_then(|f| f.modified()).is_ok_and(is_older)
    });
    (was.eq(is) && are_older).then(|| (Summary::of(&report), files))
}
