//! Files and folders in the making, under a name that says so: removed when the run ends early, found and removed by a
//! later run when it was killed.
//!
//! `result` is made as `result.unfinished-XXXXXX`. Beside it is `result.unfinished-XXXXXX.lock`, which the run
//! holds locked as long as it lives, on whatever machine: a leftover is what nobody holds.

use crate::display::printable_path;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MARK: &str = ".unfinished-";
/// Random characters behind the mark.
const RANDOM_CHARACTERS: usize = 6;
const LOCK: &str = ".lock";
/// The ending of the file or folder that steps aside.
const ASIDE: &str = "-old";
/// The endings behind the random characters.
const ENDS: [&str; 3] = ["", LOCK, ASIDE];

/// Everything that this process is making. Whoever holds the lock may rename and remove it.
static MAKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn making() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path with something behind its name.
pub(crate) fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(end);
    PathBuf::from(name)
}

/// True if a name is one of something unfinished, or of its lock, or of what stepped aside for it.
pub(crate) fn is_unfinished(name: &OsStr) -> bool {
    split_name(&name.to_string_lossy()).is_some()
}

/// True if such a name is of something that this process is making.
pub(crate) fn is_being_made(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let making = making();
    let mut names = making.iter().filter_map(|path| path.file_name());
    names.any(|made| name.strip_prefix(&*made.to_string_lossy()).is_some_and(|end| ENDS.contains(&end)))
}

/// The parts of such a name: before the mark, and behind the random characters.
fn split_name(name: &str) -> Option<(&str, &str)> {
    let (before, behind) = name.rsplit_once(MARK)?;
    let (random, end) = behind.split_at_checked(RANDOM_CHARACTERS)?;
    let fits = random.bytes().all(|b| b.is_ascii_alphanumeric()) && ENDS.contains(&end);
    (!before.is_empty() && fits).then_some((before, end))
}

/// Removes whatever a path leads to, and nothing behind a link.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A file or folder in the making. Dropped, it is taken away.
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Unfinished {
    /// Begins a file that will be at `place`, as open as the process's mask allows.
    pub fn file(place: &Path) -> io::Result<(Self, File)> {
        Self::begin(place, |path| File::create_new(path))
    }

    /// Begins a file that will never be more than that, open to its owner alone; `place` gives it its name.
    pub(crate) fn private_file(place: &Path) -> io::Result<(Self, File)> {
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Self::begin(place, |path| options.open(path))
    }

    /// Begins a folder that will be at `place`; until then it is open to its owner alone.
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

    /// The path under which the file or folder is made.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path to which an earlier file or folder may step aside.
    pub(crate) fn aside(&self) -> PathBuf {
        with(&self.path, ASIDE)
    }

    /// Lets `rename` give it its name. A signal waits until that is done.
    ///
    /// # Errors
    /// As `rename`; then it is taken away.
    pub fn finish<T>(self, rename: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let all = making();
        let done = rename(&self.path);
        drop(all);
        done
    }

    /// Leaves it where it is, as something to be looked at by a person, under a name that no run takes away.
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

/// The folder in which this process works and can be gone on with.
static KEPT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the folder that stays if this process is ended, for the next to go on in; none once there is no more to it.
pub(crate) fn keep(folder: Option<PathBuf>) {
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = folder;
}

/// The folder that stays if this process is ended, for the next to go on in.
#[cfg(unix)]
pub fn kept() -> Option<PathBuf> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The sentence that names the folder of what was finished, and what to do with it.
pub(crate) fn kept_messages(folder: &Path) -> String {
    let shown = printable_path(folder);
    format!(
        "kept in {shown}: the same command goes on from there. To begin anew, or to be rid of it, remove that folder"
    )
}

/// Takes away everything that this process has begun and not finished. Nothing can be begun, finished or
/// given up after that: for a process that ends at once, as on a signal.
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

/// Folders that were swept: of a folder of very many files, not all are looked through again for each of them.
static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Takes away whatever runs that were killed have left in a folder of ours, whatever it was to be.
pub(crate) fn sweep(folder: &Path) {
    take_away(folder, None);
    SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_path_buf());
}

/// Takes away what runs that were killed have left of `place`.
pub(crate) fn take_leftovers_away(place: &Path) {
    let folder = super::folder_of(place);
    if !SWEPT.lock().unwrap_or_else(PoisonError::into_inner).contains(folder)
        && let Some(name) = place.file_name()
    {
        take_away(folder, Some(&name.to_string_lossy()));
    }
}

/// Takes away what is left in a folder of the place of this name, or of any. What had stepped aside for a new
/// file or folder that did not come is put back.
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
