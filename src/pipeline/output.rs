//! A folder of results that appears whole or not at all.

use crate::corpus;
use crate::error::{Error, Result};
use crate::format;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder in the making, under a temporary name beside its place.
pub struct OutputFolder {
    making: TempDir,
    place: PathBuf,
    force: bool,
}

impl OutputFolder {
    /// Begins a folder that will appear at `place`.
    ///
    /// # Errors
    /// If something is there already and `force` is not given, or if the folder cannot be made.
    pub fn begin(place: &Path, force: bool) -> Result<Self> {
        let name = place.file_name().ok_or_else(|| {
            Error::parameter("out", place.display(), "a path that ends in the name of a new folder")
        })?;
        let exists = fs::symlink_metadata(place).is_ok();
        if exists && !force {
            let expected = "a new folder, but something is there already; --force replaces earlier results";
            return Err(Error::parameter("out", place.display(), expected));
        }
        if exists {
            check_ours(place)?;
        }
        let parent = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Some(file) = parent.ancestors().find(|above| above.exists() && !above.is_dir()) {
            let expected = format!("a place in a folder; {} is none", file.display());
            return Err(Error::parameter("out", place.display(), expected));
        }
        fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
        let mut prefix = name.to_os_string();
        prefix.push(".unfinished-");
        let making =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(|e| Error::io(parent, e))?;
        Ok(Self { making, place: place.to_path_buf(), force })
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        self.making.path()
    }

    /// Puts the folder in its place.
    ///
    /// # Errors
    /// If it cannot be renamed; then nothing of it remains, and what was there before is there still.
    pub fn finish(self) -> Result<()> {
        let io = |e| Error::io(&self.place, e);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // A temporary folder is its owner's alone; results are as open as the folder that they are in.
            let parent = self.place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mode = fs::metadata(parent).map_err(io)?.permissions().mode() & 0o777;
            fs::set_permissions(self.making.path(), fs::Permissions::from_mode(mode | 0o700)).map_err(io)?;
        }
        if self.force && self.place.exists() {
            // The old folder steps aside first and goes last, so that an abort leaves one of the two.
            let mut aside = self.making.path().as_os_str().to_os_string();
            aside.push("-old");
            fs::rename(&self.place, &aside).map_err(io)?;
            if let Err(error) = fs::rename(self.making.path(), &self.place) {
                fs::rename(&aside, &self.place).map_err(io)?;
                return Err(io(error));
            }
            fs::remove_dir_all(&aside).map_err(|e| Error::io(PathBuf::from(&aside), e))?;
        } else {
            fs::rename(self.making.path(), &self.place).map_err(io)?;
        }
        // Nothing is left at the temporary name.
        let _ = self.making.keep();
        Ok(())
    }
}

/// What we write into a folder of results.
const OURS: [&str; 5] = ["pairs.csv", "clusters.csv", "report.json", "report.html", "review.html"];

fn is_ours(name: &str) -> bool {
    OURS.contains(&name) || corpus::is_kept_file(name)
}

/// Refuses a folder that may not be replaced: one that is neither empty nor an earlier result, or holds
/// anything that we did not write.
fn check_ours(folder: &Path) -> Result<()> {
    let refuse = |expected: &str| Err(Error::parameter("out", folder.display(), expected));
    if !folder.is_dir() {
        return refuse("a folder; --force replaces nothing else");
    }
    let entries: Vec<fs::DirEntry> =
        fs::read_dir(folder).and_then(Iterator::collect).map_err(|e| Error::io(folder, e))?;
    if !entries.is_empty() && !format::is_result_folder(folder) {
        return refuse("a folder that is empty or an earlier result; --force replaces nothing else");
    }
    let foreign = entries.iter().find(|entry| !entry.file_name().to_str().is_some_and(is_ours));
    match foreign {
        Some(entry) => refuse(&format!(
            "an earlier result and nothing else; {} is in it and would be lost",
            entry.file_name().display()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("a/out");
        let folder = OutputFolder::begin(&place, false).unwrap();
        fs::write(folder.path().join("report.json"), "1").unwrap();
        assert!(!place.exists());
        folder.finish().unwrap();
        assert_eq!(names(&place), ["report.json"]);

        drop(OutputFolder::begin(&top.path().join("a/other"), false).unwrap());
        assert_eq!(names(&top.path().join("a")), ["out"], "an abandoned folder leaves nothing");
    }

    #[test]
    fn only_results_are_replaced_and_only_by_force() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("out");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("report.json"), r#"{"lighthouse": 1}"#).unwrap();
        assert!(OutputFolder::begin(&place, true).is_err(), "another program's report");
        fs::write(place.join("report.json"), r#"{"tool": {"name": "flipside"}}"#).unwrap();
        fs::write(place.join("judged.csv"), "hours of work").unwrap();
        assert!(OutputFolder::begin(&place, true).is_err(), "a file that is not of ours");
        fs::remove_file(place.join("judged.csv")).unwrap();
        assert!(OutputFolder::begin(&place, false).is_err());
        let folder = OutputFolder::begin(&place, true).unwrap();
        fs::write(folder.path().join("report.json"), "new").unwrap();
        folder.finish().unwrap();
        assert_eq!(fs::read_to_string(place.join("report.json")).unwrap(), "new");
        assert_eq!(names(top.path()), ["out"]);

        fs::remove_file(place.join("report.json")).unwrap();
        fs::write(place.join("thesis.tex"), "years of work").unwrap();
        assert!(OutputFolder::begin(&place, true).is_err(), "a folder of something else stays");
        assert!(OutputFolder::begin(&place.join("thesis.tex"), true).is_err(), "a file stays");
        assert!(OutputFolder::begin(Path::new("/"), true).is_err());
        let below = OutputFolder::begin(&place.join("thesis.tex/out"), false).err().unwrap().to_string();
        assert!(
            below.contains("expected a place in a folder; ") && below.contains("thesis.tex is none"),
            "{below}"
        );
    }
}
