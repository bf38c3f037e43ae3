//! The working folder of a run on disk, in which the same command resumes a run that was interrupted.
//!
//! It is beside the results: for `result` it is `result.stages`. A mark in it says that it is ours, and of which job
//! and version of simflip; a lock keeps a second run out. Files of another job or version in it are removed. Whatever
//! else is in it stays where it is.

use crate::atomic_write::{self, Unfinished, is_unfinished, keep, take_leftovers_away, with};
use crate::display::printable_path;
use crate::error::{Error, Result};
use crate::format::{self, Body, WORKING, WORKING_ENDING, WORKING_MARK};
use crate::inspection::Inspection;
use crate::pipeline::finished::fingerprint;
use crate::pipeline::{Against, Job};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
/// The names of the folders in it of the sketches of new documents, and of those of the reference set.
pub const FOLDERS: [&str; 2] = ["sketches", "old"];
/// The name of the file in it of the boilerplate that was counted.
pub const BOILERPLATE: &str = "boilerplate";

/// The mark of a working folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// The version of simflip.
    simflip: String,
    /// The [`fingerprint`] of the job, which decides the files of all stages.
    job: String,
}

impl Mark {
    fn of(job: &Job, files: &Against) -> Result<Self> {
        Ok(Self { simflip: env!("CARGO_PKG_VERSION").to_owned(), job: fingerprint(job, files)? })
    }

    /// The mark of a folder, if it has one that can be read.
    fn in_folder(folder: &Path) -> Option<Self> {
        format::open::<Self>(&folder.join(WORKING_MARK), WORKING).ok().map(|(mark, _)| mark)
    }

    fn write(&self, folder: &Path) -> Result<()> {
        format::write(&folder.join(WORKING_MARK), WORKING, self, &[])
    }
}

/// The path of the working folder of a run whose results appear at `out`, behind any link.
pub fn working_place(out: &Path) -> PathBuf {
    with(out, WORKING_ENDING)
}

/// Removes what killed runs have left beside `out` and no run can resume.
pub fn sweep_beside(out: &Path) {
    if let Ok(real) = atomic_write::place_of(out) {
        [working_place(&real), real].iter().for_each(|place| take_leftovers_away(place));
    }
}

/// The working folder that an earlier run has left: it was interrupted, or kept its sketches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The path of the folder.
    pub path: PathBuf,
    /// True if it is of the same job, input and version, so that the run can resume there.
    pub is_of_job: bool,
}

/// The working folder beside the place of results `out`, if an earlier run has left one. `files` are those of `job`.
pub fn left_beside(out: &Path, job: &Job, files: &Against) -> Result<Option<Left>> {
    let path = working_place(out);
    let Some(mark) = Mark::in_folder(&path) else { return Ok(None) };
    Ok(Some(Left { is_of_job: mark == Mark::of(job, files)?, path }))
}

/// A working folder that is locked, so that this run alone writes to it. Dropping it unlocks it and removes nothing.
#[derive(Debug)]
pub struct WorkingFolder {
    path: PathBuf,
    /// The [`fingerprint`] of the job.
    pub fingerprint: String,
    /// True if an earlier run of the same job has left files in it.
    pub is_begun: bool,
    lock: File,
}

impl Drop for WorkingFolder {
    /// Unlocks it by name: a program that another thread starts meanwhile has the file open for a moment, too.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl WorkingFolder {
    /// Opens and locks the working folder of a job whose results appear at `out`, or makes it. Files of another job in
    /// it are removed.
    ///
    /// # Errors
    /// If another run works there, something else is in its place, or it cannot be written.
    pub fn open(out: &Path, job: &Job, files: &Against) -> Result<Self> {
        let (path, mark) = (working_place(out), Mark::of(job, files)?);
        if fs::symlink_metadata(&path).is_err() {
            Self::make(&path, &mark)?;
        } else if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none()) {
            // A link to another disk, perhaps.
            mark.write(&path)?;
        }
        let refuse = |expected: String| Err(Error::parameter("out", job.out.display(), expected));
        let shown = printable_path(&path);
        if !format::is_working_folder(&path) {
            return refuse(format!(
                "a place for a working folder beside it, but {shown} is something else; move it away"
            ));
        }
        let Some(lock) = locked(&path)? else {
            return refuse(format!("one run at a time, but another one is at work in {shown}"));
        };
        let found = Mark::in_folder(&path);
        let is_begun = found.as_ref() == Some(&mark)
            && FOLDERS.iter().chain([&BOILERPLATE]).any(|name| path.join(name).exists());
        if found.as_ref() != Some(&mark) {
            clear(&path)?;
            mark.write(&path)?;
        }
        keep(Some(path.clone()));
        Ok(Self { path, fingerprint: mark.job, is_begun, lock })
    }

    /// Makes one that is whole when it appears, unless another run is faster.
    fn make(path: &Path, mark: &Mark) -> Result<()> {
        let making = Unfinished::folder(path).map_err(|error| Error::io(path, error))?;
        mark.write(making.path())?;
        match making.finish(|made| fs::rename(made, path)) {
            Err(error) if !path.is_dir() => Err(Error::io(path, error)),
            _ => Ok(()),
        }
    }

    /// The folder to write to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder, as the results are there. Something in it that is not ours stays; its path is given back,
    /// and `None` if there is no such thing.
    pub fn remove(self) -> Result<Option<PathBuf>> {
        keep(None);
        let io = |error| Error::io(&self.path, error);
        let foreign = all_in(&self.path)?.into_iter().find_map(|(path, is_ours)| (!is_ours).then_some(path));
        let is_link = fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_symlink());
        if foreign.is_none() && !is_link {
            let aside = Unfinished::folder(&self.path).map_err(io)?;
            if fs::rename(&self.path, aside.path().join("stages")).is_ok() {
                return Ok(None);
            }
        }
        clear(&self.path)?;
        for name in [WORKING_MARK, LOCK] {
            remove_file(&self.path.join(name))?;
        }
        let _ = fs::remove_dir(&self.path);
        Ok(foreign)
    }
}

/// The lock of a working folder; `None` if another run has it.
fn locked(folder: &Path) -> Result<Option<File>> {
    let path = folder.join(LOCK);
    let io = |error| Error::io(&path, error);
    loop {
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(io)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Where a file system knows no locks, files appear whole all the same.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // Another run may have taken the folder away before this was locked.
        if is_open_at(&lock, &path) {
            return Ok(Some(lock));
        }
    }
}

/// True if a file that is open is the one at a path.
fn is_open_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        match (file.metadata(), fs::metadata(path)) {
            (Ok(open), Ok(there)) => identity(open) == identity(there),
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

/// All files and folders in a working folder, each with true if it is ours. The files of a folder of ours come before
/// it.
fn all_in(folder: &Path) -> Result<Vec<(PathBuf, bool)>> {
    fn add(folder: &Path, depth: usize, all: &mut Vec<(PathBuf, bool)>) -> Result<()> {
        let io = |error| Error::io(folder, error);
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(io)?,
        };
        for entry in entries {
            let entry = entry.map_err(io)?;
            let (path, name) = (entry.path(), entry.file_name());
            let known = name.to_str().unwrap_or_default();
            let ends_in =
                |ends: &[&str]| path.extension().is_some_and(|end| ends.iter().any(|&known| end == known));
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_of_stage = match (depth, is_folder) {
                (0, true) => FOLDERS.contains(&known),
                (0, false) => [WORKING_MARK, LOCK, BOILERPLATE].contains(&known),
                (1, true) => known.starts_with("joined-"),
                (1, false) => ends_in(&["sketches", "names", "reading"]),
                _ => !is_folder && ends_in(&["edges", "pairs", "assignments"]),
            };
            if is_of_stage && is_folder {
                add(&path, depth + 1, all)?;
            }
            all.push((path, is_of_stage || is_unfinished(&name)));
        }
        Ok(())
    }
    let mut all = Vec::new();
    add(folder, 0, &mut all)?;
    Ok(all)
}

/// Removes what stages have made in a working folder, and nothing else.
fn clear(folder: &Path) -> Result<()> {
    let stays = [WORKING_MARK, LOCK].map(|name| folder.join(name));
    for (path, _) in all_in(folder)?.into_iter().filter(|(path, is_ours)| *is_ours && !stays.contains(path)) {
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        if !is_folder {
            remove_file(&path)?;
        } else if path.file_name().is_some_and(is_unfinished) {
            fs::remove_dir_all(&path).map_err(|error| Error::io(&path, error))?;
        } else {
            // Unless there is something else in it.
            let _ = fs::remove_dir(&path);
        }
    }
    Ok(())
}

/// Removes a file, if it is there.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Checks the mark of a working folder for [`inspect`](crate::inspect).
pub fn check_mark(path: &Path) -> Result<Inspection> {
    let (mark, body): (Mark, Body) = format::open(path, WORKING)?;
    body.check()?;
    let mut inspection = Inspection::of(WORKING.name);
    inspection.fact("simflip", &mark.simflip);
    inspection.fact("job", &mark.job);
    Ok(inspection)
}
