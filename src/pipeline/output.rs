//! A folder of results that appears whole or not at all. It may replace an empty folder, or an earlier result that
//! holds nothing but files that simflip wrote.

use crate::atomic_write::{Unfinished, check_is_here, folder_of, is_same, place_of, sync_folder};
use crate::corpus::Input;
use crate::display::printable_path;
use crate::error::{Error, Result};
use crate::format;
use crate::report::html::title_of;
use crate::report::model::WrittenFile;
use crate::report::review::TITLE;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder of results that is being written, under a temporary name beside its place. It is removed if it is dropped
/// before [`OutputFolder::finish`].
pub struct OutputFolder {
    making: Unfinished,
    /// Where it goes, behind any link.
    place: PathBuf,
    /// True if it may replace an earlier result.
    force: bool,
}

impl OutputFolder {
    /// Begins a folder that will appear at `place`, or, if that is a link, where it leads. With `force`, it may replace
    /// an earlier result.
    ///
    /// # Errors
    /// As [`OutputFolder::may_be`], and if the folder cannot be made.
    pub fn begin(place: &Path, force: bool) -> Result<Self> {
        let real = Self::may_be(place, force)?;
        let parent = folder_of(&real);
        fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
        let making = Unfinished::folder(&real).map_err(|e| Error::io(parent, e))?;
        Ok(Self { making, place: real, force })
    }

    /// Checks that a folder may appear at `place`, and gives the path behind any link where it would. Makes nothing.
    ///
    /// # Errors
    /// If something is there already and `force` is not given; with `force`, if that is neither empty nor an earlier
    /// result, or holds other files as well. Also if the path can name no folder.
    pub fn may_be(place: &Path, force: bool) -> Result<PathBuf> {
        let refuse = |expected: String| Err(Error::parameter("out", place.display(), expected));
        check_is_here("out", place)?;
        if place == Path::new("-") {
            return refuse("the name of a new folder; - is none".to_owned());
        }
        if place.file_name().is_none() {
            return refuse("a path that ends in the name of a new folder".to_owned());
        }
        let exists = fs::symlink_metadata(place).is_ok();
        if exists && !force {
            return refuse(
                "a new folder, but something is there already; --force replaces earlier results".to_owned(),
            );
        }
        let Ok(real) = place_of(place) else {
            return refuse("a new folder; this is a link that leads nowhere".to_owned());
        };
        if exists && let Some(refusal) = foreign(&real)? {
            return refuse(refusal);
        }
        let parent = folder_of(&real);
        if let Some(file) = parent.ancestors().find(|above| above.exists() && !above.is_dir()) {
            return refuse(format!("a place in a folder; {} is none", file.display()));
        }
        Ok(real)
    }

    /// Checks that nothing is at `place`, which `option` names and which never replaces anything.
    ///
    /// # Errors
    /// If something is there.
    pub(crate) fn must_be_new(option: &'static str, place: &Path) -> Result<()> {
        match fs::symlink_metadata(place) {
            Ok(_) => {
                let expected = "a new folder, but something is there already";
                Err(Error::parameter(option, place.display(), expected))
            }
            Err(_) => Ok(()),
        }
    }

    /// The temporary folder to write to.
    pub fn path(&self) -> &Path {
        self.making.path()
    }

    /// The place that the folder will have once it is finished, behind any link.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Puts the folder in its place, once its files are on the disk. An earlier result there is removed after that.
    ///
    /// # Errors
    /// If it cannot be renamed. Also if something that may not be replaced came to its place since it was begun. That
    /// stays there; the results are beside it, and the error names their path.
    pub fn finish(self) -> Result<()> {
        let Self { making, place, force } = self;
        let taken = fs::symlink_metadata(&place).is_ok();
        // Hours may have gone by, and what was ours may hold something else now.
        let refusal = match foreign(&place) {
            _ if !taken => None,
            Ok(refusal) if force => refusal,
            Ok(_) => Some("a new folder, but one came there during the run".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(refusal) = refusal {
            return Err(rescued(making, &place, refusal));
        }
        if let Err(error) = open_as_its_neighbours(making.path(), &place) {
            return Err(rescued(making, &place, error.to_string()));
        }
        let aside = making.aside();
        let synced = |error| Error::io(making.path(), error);
        for entry in fs::read_dir(making.path()).map_err(synced)? {
            fs::File::open(entry.map_err(synced)?.path()).and_then(|file| file.sync_all()).map_err(synced)?;
        }
        sync_folder(making.path());
        let done = making
            .finish(|path| {
                if !taken {
                    return fs::rename(path, &place);
                }
                // The old folder steps aside first and goes last, so that an abort leaves one of the two.
                fs::rename(&place, &aside)?;
                match fs::rename(path, &place) {
                    Ok(()) => fs::remove_dir_all(&aside),
                    Err(error) => fs::rename(&aside, &place).and(Err(error)),
                }
            })
            .map_err(|error| Error::io(&place, error));
        sync_folder(folder_of(&place));
        done
    }
}

/// Gives results whose place is taken a free name beside it, and returns the error that names it.
fn rescued(making: Unfinished, place: &Path, expected: String) -> Error {
    match making.rescue(place) {
        Ok(found) => Error::parameter(
            "out",
            place.display(),
            format!("{expected}; the results are in {}", printable_path(&found)),
        ),
        Err(error) => Error::io(place, error),
    }
}

/// Gives `folder` the mode of the one at `place` that it replaces, or else that of the folder that it goes into. Until
/// then it is open to its owner alone.
#[cfg_attr(not(unix), expect(unused_variables))]
fn open_as_its_neighbours(folder: &Path, place: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).map(|found| found.permissions().mode() & 0o7777);
        let mode = mode(place).or_else(|_| mode(folder_of(place)).map(|mode| mode & 0o777 | 0o700))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Checks that none of `files`, which a run reads or writes elsewhere, is in `folder`, which its results replace. A
/// folder that is not there yet replaces nothing.
///
/// # Errors
/// If one is.
pub fn spare<'a>(folder: &Path, files: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let Ok(real) = fs::canonicalize(folder) else { return Ok(()) };
    for file in files {
        // One that is to be made is as far as its folder.
        let inside = fs::canonicalize(file).or_else(|_| fs::canonicalize(folder_of(file)));
        if inside.is_ok_and(|inside| inside.starts_with(&real)) {
            let expected =
                format!("another folder: {} is in this one, and --force would remove it", file.display());
            return Err(Error::parameter("out", folder.display(), expected));
        }
    }
    Ok(())
}

/// Checks that the file at `path`, which the option `parameter` saves, is not one of the inputs that the run reads.
///
/// # Errors
/// If it is.
pub fn spare_inputs(parameter: &'static str, path: &Path, inputs: &[Input]) -> Result<()> {
    match inputs.iter().find(|input| is_same(path, input.stored())) {
        Some(input) => {
            let expected = format!("a file of its own; this run reads {}", input.path.display());
            Err(Error::parameter(parameter, path.display(), expected))
        }
        None => Ok(()),
    }
}

/// The names and sizes of all files of a folder, by name: the list that the report of a result has of its other files.
pub fn manifest(folder: &Path) -> Result<Vec<WrittenFile>> {
    let io = |error| Error::io(folder, error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push(WrittenFile { name, bytes: entry.metadata().map_err(io)?.len() });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Why a folder may not be replaced, as an error says what was expected; none if it may. It may if it is empty, or an
/// earlier result in which every file [is ours](is_ours).
fn foreign(folder: &Path) -> Result<Option<String>> {
    if !folder.is_dir() {
        return Ok(Some("a folder; --force replaces nothing else".to_owned()));
    }
    let entries: Vec<fs::DirEntry> =
        fs::read_dir(folder).and_then(Iterator::collect).map_err(|e| Error::io(folder, e))?;
    if entries.is_empty() {
        return Ok(None);
    }
    if !format::is_result_folder(folder) {
        return Ok(Some(
            "a folder that is empty or an earlier result; --force replaces nothing else".to_owned(),
        ));
    }
    let written = WrittenFile::listed_in(&folder.join("report.json")).unwrap_or_default();
    let is_foreign = |entry: &&fs::DirEntry| !is_ours(entry, &written);
    Ok(entries.iter().find(is_foreign).map(|entry| {
        format!(
            "an earlier result and nothing else; {} is in it and would be lost",
            entry.file_name().display()
        )
    }))
}

/// Pages of a result: its report, and a sample of pairs to judge. `report.json` does not list them, as it is written
/// before them, so they are known by their titles.
pub(crate) const PAGES: [&str; 2] = ["report.html", "review.html"];

/// True if `title`, one that simflip gives, fits the page with the file name `document`: the title of a review fits
/// `review.html` alone, and any other fits `report.html`.
pub(crate) fn is_title_of(document: &str, title: &str) -> bool {
    (title == TITLE) == (document == PAGES[1])
}

/// True if simflip wrote this file of a folder of results: `report.json`, a page with a title of simflip's, or a file
/// with a name and a length of `written`, the list in the report.
pub(crate) fn is_ours(entry: &fs::DirEntry, written: &[WrittenFile]) -> bool {
    let (Ok(found), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else { return false };
    // Metadata of an entry is that of a link, not of what it leads to.
    if !found.is_file() {
        return false;
    }
    match &*name {
        // Callers have checked that it is the report of a result.
        "report.json" => true,
        name if PAGES.contains(&name) => {
            title_of(&entry.path()).is_some_and(|title| is_title_of(name, &title))
        }
        _ => written.iter().any(|file| file.name == name && file.bytes == found.len()),
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
        fs::write(place.join("report.json"), r#"{"tool": {"name": "simflip"}}"#).unwrap();
        // Files of ours that a user put something else into, and names that we give to others.
        for (name, content) in [
            ("pairs.csv", "mine,yours"),
            ("clusters.csv", ""),
            ("kept-2.parquet", "PAR1 a thesis PAR1"),
            ("kept.warc.wet.gz", "years of work"),
            ("report.html", "<title>Home</title>"),
            ("review.html", "<title>Home</title>"),
        ] {
            fs::write(place.join(name), content).unwrap();
            assert!(OutputFolder::begin(&place, true).is_err(), "{name}");
            fs::remove_file(place.join(name)).unwrap();
            fs::create_dir(place.join(name)).unwrap();
            assert!(OutputFolder::begin(&place, true).is_err(), "a folder {name}");
            fs::remove_dir(place.join(name)).unwrap();
        }
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

    /// A result, as far as it matters here.
    fn result(place: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(place).unwrap();
        files.iter().for_each(|(name, content)| fs::write(place.join(name), content).unwrap());
        let written = manifest(place).unwrap();
        let report = serde_json::json!({"tool": {"name": "simflip"}, "written": written});
        fs::write(place.join("report.json"), report.to_string()).unwrap();
    }

    #[test]
    fn what_a_report_lists_is_ours_as_long_as_it_is_as_it_was() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("out");
        result(&place, &[("pairs.csv", "a_id\n"), ("kept.jsonl.gz", "x")]);
        drop(OutputFolder::begin(&place, true).unwrap());
        fs::write(place.join("kept.jsonl.gz"), "something else").unwrap();
        assert!(OutputFolder::begin(&place, true).is_err());
        fs::write(place.join("kept.jsonl.gz"), "y").unwrap();
        fs::write(place.join("kept-2.parquet"), "z").unwrap();
        assert!(OutputFolder::begin(&place, true).is_err());
    }

    #[test]
    fn what_came_meanwhile_is_spared_and_the_results_are_beside_it() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("out");
        for force in [false, true] {
            if force {
                result(&place, &[]);
            }
            let folder = OutputFolder::begin(&place, force).unwrap();
            fs::write(folder.path().join("report.json"), "new").unwrap();
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("thesis.tex"), "years of work").unwrap();
            let message = folder.finish().unwrap_err().to_string();
            assert!(message.contains("the results are in ") && message.contains("out-2"), "{message}");
            assert_eq!(fs::read_to_string(top.path().join("out-2/report.json")).unwrap(), "new");
            assert!(place.join("thesis.tex").exists());
            assert_eq!(names(top.path()), ["out", "out-2"]);
            fs::remove_dir_all(&place).unwrap();
            fs::remove_dir_all(top.path().join("out-2")).unwrap();
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_a_mode_stays_a_mode() {
        use std::os::unix::fs::PermissionsExt;
        let top = tempfile::tempdir().unwrap();
        let (place, link) = (top.path().join("monday"), top.path().join("latest"));
        result(&place, &[]);
        fs::set_permissions(&place, fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("monday", &link).unwrap();
        let folder = OutputFolder::begin(&link, true).unwrap();
        fs::write(folder.path().join("report.json"), "new").unwrap();
        folder.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(place.join("report.json")).unwrap(), "new");
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o750);
        std::os::unix::fs::symlink("nowhere", top.path().join("lost")).unwrap();
        assert!(OutputFolder::begin(&top.path().join("lost"), true).is_err());
    }

    #[test]
    fn files_within_the_folder_are_spared() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("out");
        result(&place, &[("kept.jsonl.gz", "x")]);
        let outside = top.path().join("documents.jsonl");
        fs::write(&outside, "{}").unwrap();
        spare(&place, [&*outside, &*top.path().join("new")]).unwrap();
        spare(&top.path().join("other"), [&*outside]).unwrap();
        for inside in ["kept.jsonl.gz", "new", ""] {
            let message = spare(&place, [&*place.join(inside)]).unwrap_err().to_string();
            assert!(message.contains("--force would remove it"), "{message}");
        }
    }
}
