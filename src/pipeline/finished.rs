//! Recognises a result that an earlier run of the same job has left, so that a job that a scheduler starts twice runs
//! once. A [`fingerprint`] tells whether settings and input files are still the same.

use super::{Against, GroupBy, Ignored, Job, Summary, all_inputs};
use crate::corpus::{Input, InputMark, is_stream};
use crate::error::{Error, Result};
use crate::hash::murmur3_x64_128;
use crate::report::model::{Report, Tool};
use simflip_core::clusters::{Keep, Source};
use std::fs;
use std::path::{Path, PathBuf};

/// The summary and the files of a job whose whole result is there already; none if it is to be run. The same command
/// and version must have written it, from settings and files as they are now. Each file must have the length that the
/// report says.
///
/// None also for a job with `force`, one that reads a stream, and one without a command line.
pub(crate) fn finished(job: &Job) -> Option<(Summary, Against)> {
    let path = job.out.join("report.json");
    let mut read = job.inputs.iter().chain(&job.against).chain(tables(job));
    if job.force || job.command_line.is_empty() || !path.exists() || read.any(|path| is_stream(path)) {
        return None;
    }
    let report = Report::read_json(&path).ok()?;
    // The path of the program may be another. Results do not depend on its vector instructions.
    let is_of_this_version = report.tool.version == Tool::this().version;
    if report.command_line.get(1..) != job.command_line.get(1..) || !is_of_this_version {
        return None;
    }
    let mut written = report.written.iter().map(|file| (job.out.join(&file.name), file.bytes));
    let mut saved = job.save_frequencies.iter().chain(&job.save_boilerplate);
    let is_whole = written.all(|(path, bytes)| fs::metadata(path).is_ok_and(|found| found.len() == bytes))
        && saved.all(|path| path.exists());
    if !is_whole {
        return None;
    }
    let files = all_inputs(job).ok()?;
    (report.fingerprint.as_ref()? == &fingerprint(job, &files).ok()?).then(|| (Summary::of(&report), files))
}

/// The files of document frequencies and of boilerplate that a job reads.
fn tables(job: &Job) -> impl Iterator<Item = &PathBuf> {
    job.frequencies.iter().chain(job.ignored.file())
}

/// A hash, in 32 hexadecimal digits, of all that decides a result: the settings, the options of reading, and the files
/// as they are now. Of large files it takes in parts and the time of the last change.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn fingerprint(job: &Job, files: &Against) -> Result<String> {
    let marks: Vec<Option<InputMark>> = files
        .inputs
        .iter()
        .map(|input| input.problem.is_none().then(|| InputMark::of(input)).transpose())
        .collect::<Result<_>>()?;
    let lossy = |path: &Path| path.to_string_lossy().into_owned();
    let paths: Vec<_> = files.inputs.iter().map(|input| lossy(&input.known_by())).collect();
    // A mark does not look at all of a large file; a file that was changed has another time.
    let written: Vec<_> = files.inputs.iter().map(Input::written).collect();
    // Only some settings depend on the order in which inputs are named, or on the folder in their path.
    let by_name = job.settings.keep == Keep::InputOrder
        || job.settings.quota.each == Some(Source::Folder)
        || !matches!(
            &job.ignored,
            Ignored::None | Ignored::Counted(GroupBy::Host | GroupBy::All | GroupBy::Field(_))
        );
    let called = files.inputs.iter().map(|input| &input.path);
    let named: Vec<_> = job.inputs.iter().chain(called).filter(|_| by_name).map(|path| lossy(path)).collect();
    let read = (&job.fields, job.longest_document, job.rules);
    let of_tables: Vec<_> = tables(job)
        .filter(|path| !is_stream(path))
        .map(|path| fs::read(path).ok().map(|bytes| murmur3_x64_128(&bytes, 0)))
        .collect();
    let counted = if let Ignored::Counted(by) = &job.ignored { Some(by) } else { None };
    let decides = (&job.settings, read, files.new_files, paths, marks, written, named, of_tables, counted);
    let bytes = serde_json::to_vec(&decides).map_err(|error| Error::io(&job.out, error.into()))?;
    let (low, high) = murmur3_x64_128(&bytes, 0);
    Ok(format!("{high:016x}{low:016x}"))
}
