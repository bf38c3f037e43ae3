//! Writes files and folders whole or not at all, by one rule for what they may replace.
//!
//! - No file is replaced that simflip did not write, and none that the run reads, by whatever name.
//! - A file or folder that is being written has a name of its own ([`Unfinished`]). Once whole, it is renamed to its
//!   *place*: the path where it is to be.
//! - A link stays a link: its target is replaced. A replaced file keeps its mode, and its owner if the system lets us.
//! - A run that a signal ends removes all that it began ([`take_all_away`]). Leftovers of a killed run are removed by
//!   the next run that writes to the same place, and are never read. Only a working folder that a later run can resume
//!   ([`kept`]) stays.

mod unfinished;

pub use unfinished::Unfinished;
pub(crate) use unfinished::{
    is_being_made, is_unfinished, keep, kept_messages, sweep, take_leftovers_away, with,
};
#[cfg(unix)]
pub use unfinished::{kept, take_all_away};

use crate::error::{Error, Result};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// True if a path is the address of an object in a store or on a web server, such as `s3://bucket/key`.
pub(crate) fn is_address(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|path| path.split_once("://")).map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Checks that a path to write to, the value of the option `parameter`, is on this machine and not an address.
pub(crate) fn check_is_here(parameter: &'static str, path: &Path) -> Result<()> {
    if !is_address(path) {
        return Ok(());
    }
    let expected = "a path of this machine: results are not written to stores. Those of dedup are put there when they are \
         whole, with --upload or by simflip upload; copy others";
    Err(Error::parameter(parameter, path.display(), expected))
}

/// The folder that a path is in; `.` for a name alone.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes sure that the names of files in a folder are on the disk; some file systems cannot, and then it does nothing.
pub(crate) fn sync_folder(folder: &Path) {
    #[cfg(unix)]
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    #[cfg(not(unix))]
    let _ = folder;
}

/// True if two paths lead to the same file or folder, through links and by any name; false if one leads nowhere.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        identity(a).is_some_and(|a| Some(a) == identity(b))
    }
    #[cfg(not(unix))]
    fs::canonicalize(a).ok().is_some_and(|a| fs::canonicalize(b).ok() == Some(a))
}

/// The path that writing to `path` replaces: the target of a link, or else itself, without a slash at the end.
///
/// # Errors
/// If a link leads nowhere.
pub(crate) fn place_of(path: &Path) -> io::Result<PathBuf> {
    // A name with an ending is made of the path later; a slash would stand before the ending.
    let path: PathBuf = path.components().collect();
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_symlink() => fs::canonicalize(&path),
        _ => Ok(path),
    }
}

/// Checks, before a long run, that a file may be written to `path`, the value of the option `parameter`. A file that is
/// there already must be one that `is_ours` is true of; `kind` names such files in the error.
///
/// # Errors
/// [`Error::Core`] if there is no folder for it, or something in its place that may not be replaced.
pub fn check_file(
    parameter: &'static str,
    path: &Path,
    kind: &str,
    is_ours: impl FnOnce(&Path) -> bool,
) -> Result<()> {
    let refuse = |expected: String| Err(Error::parameter(parameter, path.display(), expected));
    check_is_here(parameter, path)?;
    if path == Path::new("-") {
        return refuse("a file; - is none".to_owned());
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        return refuse(format!("a file in a folder that is there; {} is none", folder.display()));
    }
    let Ok(link) = fs::symlink_metadata(path) else { return Ok(()) };
    let Ok(found) = fs::metadata(path) else {
        let what =
            if link.is_symlink() { "a link that leads nowhere" } else { "one that cannot be looked at" };
        return refuse(format!("a file; this is {what}"));
    };
    if found.is_dir() {
        return refuse("a file; this is a folder".to_owned());
    }
    if !found.is_file() {
        return refuse("a file; this is a device or a pipe".to_owned());
    }
    if !is_ours(path) {
        return refuse(format!("a new file or {kind}; nothing else is replaced"));
    }
    if found.permissions().readonly() {
        return refuse("a file that may be written; this one is read-only".to_owned());
    }
    Ok(())
}

/// A file that is being written, under a temporary name. It is removed if it is dropped before [`NewFile::finish`].
#[derive(Debug)]
pub struct NewFile {
    making: Unfinished,
    file: File,
    /// Where it goes.
    place: PathBuf,
    /// As the user names it.
    named: PathBuf,
}

impl NewFile {
    /// Begins a file that will be at `path`, or, if that is a link, where it leads.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn begin(path: &Path) -> Result<Self> {
        let io = |error| Error::io(path, error);
        let place = place_of(path).map_err(io)?;
        let (making, file) = Unfinished::file(&place).map_err(io)?;
        Ok(Self { making, file, place, named: path.to_path_buf() })
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts the file in its place, once its bytes are on the disk.
    ///
    /// # Errors
    /// If it cannot be stored or renamed. Then nothing of it remains, and a file that was there before stays.
    pub fn finish(self) -> Result<()> {
        let Self { making, file, place, named } = self;
        let finish = || {
            if let Ok(before) = fs::metadata(&place) {
                keep_rights(&file, &before)?;
            }
            file.sync_all()?;
            making.finish(|path| fs::rename(path, &place))
        };
        finish().map_err(|error| Error::io(&named, error))
    }
}

/// Gives a file the mode of the one that it replaces, and its owner and group if the system allows that.
fn keep_rights(file: &File, before: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
            // Only root gives files away; but anyone may give one to a group of theirs.
            let _ = fchown(file, Some(before.uid()), Some(before.gid()))
                .or_else(|_| fchown(file, None, Some(before.gid())));
        }
    }
    file.set_permissions(before.permissions())
}

/// Writes `bytes` to the file `path`, whole or not at all.
///
/// # Errors
/// If it cannot be written; then a file that was there before stays.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut new = NewFile::begin(path)?;
    io::Write::write_all(new.file(), bytes).map_err(|error| Error::io(path, error))?;
    new.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn a_place_without_a_folder_or_of_something_else_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        let replaced = |path: &Path, ours: bool| {
            check_file("index", path, "an index", |_| ours).map_err(|error| error.to_string())
        };
        fs::write(at("file"), "years of work").unwrap();
        assert_eq!(replaced(&at("new"), false), Ok(()));
        assert_eq!(replaced(Path::new("new"), false), Ok(()));
        assert_eq!(replaced(&at("file"), true), Ok(()));
        let refused = |path: &Path, ours, what: &str| {
            let message = replaced(path, ours).unwrap_err();
            assert!(message.contains(what), "{}: {message}", path.display());
        };
        refused(&at("file"), false, "a new file or an index; nothing else is replaced");
        refused(top.path(), true, "a file; this is a folder");
        refused(&at("no/new"), true, "a file in a folder that is there");
        refused(&at("file/new"), true, "a file in a folder that is there");
        refused(Path::new("-"), true, "- is none");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
            refused(&at("link"), true, "a link that leads nowhere");
            refused(Path::new("/dev/null"), true, "a device");
        }
        let mut rights = fs::metadata(at("file")).unwrap().permissions();
        rights.set_readonly(true);
        fs::set_permissions(at("file"), rights).unwrap();
        refused(&at("file"), true, "read-only");
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("file");
        let mut new = NewFile::begin(&path).unwrap();
        io::Write::write_all(new.file(), b"half").unwrap();
        assert!(!path.exists());
        drop(new);
        assert_eq!(names(top.path()), Vec::<String>::new());
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(top.path())), (b"two".to_vec(), vec!["file".to_owned()]));
    }

    #[cfg(unix)]
    #[test]
    fn modes_are_kept_and_links_stay() {
        use std::os::unix::fs::PermissionsExt;
        let top = tempfile::tempdir().unwrap();
        let (path, link) = (top.path().join("file"), top.path().join("link"));
        fs::write(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, b"two").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(is_same(&link, &path) && !is_same(&path, top.path()));
        fs::hard_link(&path, top.path().join("twin")).unwrap();
        assert!(is_same(&path, &top.path().join("twin")));
    }
}
