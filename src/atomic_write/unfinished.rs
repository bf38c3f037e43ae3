//! Files and folders that are being written, under names that say so. They are removed when the run ends early. If it
//! is killed, a later run finds and removes them.
//!
//! `result`, its *place*, is written as `result.unfinished-XXXXXX`. Beside it is `result.unfinished-XXXXXX.lock`, which
//! the run holds locked as long as it lives, on any machine. A *leftover* is one whose lock nobody holds. An earlier
//! folder at the place *steps aside* as `result.unfinished-XXXXXX-old` while the new one is renamed.

use crate::display::printable_path;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The mark between the name of the place and the random characters.
const MARK: &str = ".unfinished-";
/// Random characters behind the mark.
const RANDOM_CHARACTERS: usize = 6;
const LOCK: &str = ".lock";
/// The ending of the file or folder that steps aside.
const ASIDE: &str = "-old";
/// The endings behind the random characters.
const ENDS: [&str; 3] = ["", LOCK, ASIDE];

/// The paths of all unfinished files and folders of this process. They are renamed and removed under this lock alone.
static MAKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn making() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path with `end` behind its name.
pub(crate) fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(end);
    PathBuf::from(name)
}

/// True if a file name is that of an unfinished file or folder, of its lock, or of one that stepped aside for it. It
/// may be a leftover.
pub(crate) fn is_unfinished(name: &OsStr) -> bool {
    split_name(&name.to_string_lossy()).is_some()
}

/// True if a file name is one that [`is_unfinished`] is true of, and this process is writing the file or folder now. A
/// run that reads the folder does not report such a file as passed over.
pub(crate) fn is_being_made(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let making = making();
    let mut names = making.iter().filter_map(|path| path.file_name());
    names.any(|made| name.strip_prefix(&*made.to_string_lossy()).is_some_and(|end| ENDS.contains(&end)))
}

/// The parts of a name that [`is_unfinished`] is true of: the name of the place, and one of [`ENDS`]. Otherwise none.
fn split_name(name: &str) -> Option<(&str, &str)> {
    let (before, behind) = name.rsplit_once(MARK)?;
    let (random, end) = behind.split_at_checked(RANDOM_CHARACTERS)?;
    let fits = random.bytes().all(|b| b.is_ascii_alphanumeric()) && ENDS.contains(&end);
    (!before.is_empty() && fits).then_some((before, end))
}

/// Removes the file, folder or link at a path, and not the target of a link. It is no failure if nothing is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A file or folder that is being written. It is removed if it is dropped before [`Unfinished::finish`].
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Unfinished {
    /// Begins a file that will be at `place`, with the mode that the process's umask gives, and opens it for writing.
    pub fn file(place: &Path) -> io::Result<(Self, File)> {
        Self::begin(place, |path| File::create_new(path))
    }

    /// Begins a temporary file that is never finished, open to its owner alone, in the folder of `place`. It holds the
    /// copy of a stream, or of text in another encoding, until the run drops it.
    pub(crate) fn private_file(place: &Path) -> io::Result<(Self, File)> {
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Self::begin(place, |path| options.open(path))
    }

    /// Begins a folder that will be at `place`. It is open to its owner alone.
    pub fn folder(place: &Path) -> io::Result<Self> {
        let make = |path: &Path| {
            #[cfg_attr(not(unix), expect(unused_mut))]
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(path)
        };
        Self::begin(place, make).map(|(unfinished, ())| unfinished)
    }

    fn begin<T>(place: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        take_leftovers_away(place);
        let name = place.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut prefix = name.to_os_string();
        prefix.push(MARK);
        let folder = super::folder_of(place);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(LOCK).rand_bytes(RANDOM_CHARACTERS);
        loop {
            let (lock, lock_path) = builder.tempfile_in(folder)?.keep().map_err(|error| error.error)?;
            // Where a file system knows no locks, nothing of it is ever taken for a leftover either.
            let _ = lock.lock();
            // Another run may have found it before it was locked.
            if !lock_path.exists() {
                continue;
            }
            let path = lock_path.with_extension("");
            let mut all = making();
            return match make(&path) {
                Ok(made) => {
                    all.insert(path.clone());
                    Ok((Self { path, _lock: lock }, made))
                }
                Err(error) => {
                    let _ = fs::remove_file(&lock_path);
                    Err(error)
                }
            };
        }
    }

    /// The temporary path of the file or folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path to which an earlier file or folder at the place may step aside, until this one is there.
    pub(crate) fn aside(&self) -> PathBuf {
        with(&self.path, ASIDE)
    }

    /// Calls `rename` with the temporary path, to move it to its place. A signal waits until that is done.
    ///
    /// # Errors
    /// As `rename`; then the file or folder is removed.
    pub fn finish<T>(self, rename: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let all = making();
        let done = rename(&self.path);
        drop(all);
        done
    }

    /// Renames it to the first free name `place-2`, `place-3` and so on, and returns that. No run removes it.
    pub(crate) fn rescue(self, place: &Path) -> io::Result<PathBuf> {
        let free =
            (2..).map(|n| with(place, &format!("-{n}"))).find(|path| fs::symlink_metadata(path).is_err());
        let free = free.ok_or(io::ErrorKind::AlreadyExists)?;
        self.finish(|path| fs::rename(path, &free))?;
        Ok(free)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut all = making();
        all.remove(&self.path);
        let _ = remove(&self.path);
        let _ = fs::remove_file(with(&self.path, LOCK));
    }
}

/// The working folder of this process that a later run of the same command can resume.
static KEPT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the working folder that stays if a signal ends this process, as a later run resumes it; none once it is gone.
pub(crate) fn keep(folder: Option<PathBuf>) {
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = folder;
}

/// The working folder that stays if a signal ends this process; none if there is no such folder.
#[cfg(unix)]
pub fn kept() -> Option<PathBuf> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The end of a sentence on finished stages: it names the working folder that keeps them, and ways to go on.
pub(crate) fn kept_messages(folder: &Path) -> String {
    let shown = printable_path(folder);
    format!(
        "kept in {shown}: the same command goes on from there. To begin anew, or to be rid of it, remove that folder"
    )
}

/// Removes all files and folders that this process has begun and not finished. It is for a process that ends right
/// after, as on a signal: any thread that begins, finishes or drops one later waits forever.
#[cfg(unix)]
pub fn take_all_away() {
    let all = making();
    for path in all.iter() {
        // Threads that still write may bring a folder's file back once.
        for _ in 0..100 {
            if remove(path).is_ok() && fs::symlink_metadata(path).is_err() {
                break;
            }
        }
        let _ = fs::remove_file(with(path, LOCK));
    }
    std::mem::forget(all);
}

/// Folders that [`sweep`] has searched for leftovers. Files that are begun there later do not search them again.
static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes all leftovers of killed runs in a folder of simflip's, for any place in it.
pub(crate) fn sweep(folder: &Path) {
    take_away(folder, None);
    SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_path_buf());
}

/// Removes the leftovers of killed runs that were to be at `place`, unless its folder was swept before.
pub(crate) fn take_leftovers_away(place: &Path) {
    let folder = super::folder_of(place);
    if !SWEPT.lock().unwrap_or_else(PoisonError::into_inner).contains(folder)
        && let Some(name) = place.file_name()
    {
        take_away(folder, Some(&name.to_string_lossy()));
    }
}

/// Removes the leftovers in a folder of the place with this name, or of all places. A file or folder that stepped aside
/// is put back if its place is free.
fn take_away(folder: &Path, name: Option<&str>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let found = found.to_string_lossy();
        let Some((of, LOCK)) = split_name(&found) else { continue };
        if name.is_some_and(|name| name != of) {
            continue;
        }
        let place = &folder.join(of);
        let lock_path = entry.path();
        let Ok(lock) = File::open(&lock_path) else { continue };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => continue,
        }
        let path = lock_path.with_extension("");
        let aside = with(&path, ASIDE);
        if fs::symlink_metadata(&aside).is_ok() && fs::symlink_metadata(place).is_err() {
            let _ = fs::rename(&aside, place);
        }
        if remove(&path).is_ok() && remove(&aside).is_ok() {
            let _ = fs::remove_file(&lock_path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn names_of_unfinished_things() {
        for name in ["out.unfinished-a1B2c3", "out.unfinished-a1B2c3.lock", "a.b.unfinished-XXXXXX-old"] {
            assert!(is_unfinished(OsStr::new(name)), "{name}");
        }
        for name in [
            "out",
            "out.unfinished-",
            "out.unfinished-2024",
            ".unfinished-a1B2c3",
            "unfinished-a1B2c3",
            "x.unfinished-a1B2c3.gz",
        ] {
            assert!(!is_unfinished(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn only_what_nobody_holds_is_a_leftover() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("out");
        let held = Unfinished::folder(&place).unwrap();
        // As a killed run leaves it: nobody holds the lock.
        let left = top.path().join("out.unfinished-aaaaaa");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("kept.jsonl.gz"), "x").unwrap();
        fs::write(with(&left, LOCK), "").unwrap();
        // Of another place, of no lock, and a user's own.
        let others =
            ["other.unfinished-aaaaaa.lock", "out.unfinished-bbbbbb", "out.unfinished-2024", "out.lock"];
        others.iter().for_each(|name| fs::write(top.path().join(name), "x").unwrap());
        drop(Unfinished::file(&place).unwrap());
        assert!(!left.exists() && held.path().exists());
        assert!(others.iter().all(|name| top.path().join(name).exists()));
        drop(held);
        assert_eq!(names(top.path()).len(), others.len());
    }

    #[test]
    fn a_folder_is_swept_of_all_that_nobody_holds() {
        let top = tempfile::tempdir().unwrap();
        let held = Unfinished::folder(&top.path().join("held")).unwrap();
        for name in ["a.unfinished-aaaaaa", "b.c.unfinished-bbbbbb"] {
            fs::create_dir(top.path().join(name)).unwrap();
            fs::write(with(&top.path().join(name), LOCK), "").unwrap();
        }
        fs::write(top.path().join("mine"), "x").unwrap();
        assert_eq!(names(top.path()).len(), 7);
        sweep(top.path());
        assert_eq!(names(top.path()).iter().filter(|name| is_unfinished(name)).count(), 2);
        assert_eq!(names(top.path()).len(), 3);
        drop(held);
        assert_eq!(names(top.path()), ["mine"]);
    }

    #[test]
    fn what_stepped_aside_comes_back_if_nothing_took_its_place() {
        for taken in [false, true] {
            let top = tempfile::tempdir().unwrap();
            let place = top.path().join("out");
            let left = top.path().join("out.unfinished-aaaaaa");
            fs::write(with(&left, LOCK), "").unwrap();
            fs::create_dir(&left).unwrap();
            fs::write(with(&left, ASIDE), "old").unwrap();
            if taken {
                fs::write(&place, "new").unwrap();
            }
            take_leftovers_away(&place);
            assert_eq!(names(top.path()), ["out"]);
            assert_eq!(fs::read_to_string(&place).unwrap(), if taken { "new" } else { "old" });
        }
    }
}
