//! Puts a folder of results that is whole into an object store.
//!
//! The report goes last: where it is, all other files are. No object is overwritten. With `force`, the files of an
//! earlier result are removed first, its report before the others.

use super::output::{PAGES, is_ours, is_title_of};
use super::{Job, Progress, Silent};
use crate::atomic_write::is_address;
use crate::corpus::{Object, PutTarget, list_objects};
use crate::display::{counted, printable_path};
use crate::error::{Error, Result};
use crate::format::{self, REPORT};
use crate::report::html::{TITLE_WITHIN, title_in};
use crate::report::model::WrittenFile;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The place in a store that the files of a result go to, below one address.
pub struct Upload {
    address: PathBuf,
    /// True if it may replace an earlier result there.
    force: bool,
}

impl Upload {
    /// Checks, before a run, that its result may be put below an address. Nothing may be there, or, with `force`, an
    /// earlier result and nothing else. To try the store, an upload is begun there and given up.
    ///
    /// # Errors
    /// If something else is there, or the store does not answer or refuses to be written to.
    pub fn begin(address: &Path, force: bool) -> Result<Self> {
        let upload = Self::to(address, force)?;
        upload.replaced(None)?;
        upload.try_out()?;
        Ok(upload)
    }

    /// The upload of [`Job::upload`], checked as [`Upload::begin`] does; none if the job has no such address.
    pub(crate) fn of(job: &Job) -> Result<Option<Self>> {
        job.upload.as_deref().map(|address| Self::begin(address, job.force)).transpose()
    }

    fn to(address: &Path, force: bool) -> Result<Self> {
        if !is_address(address) {
            let expected = "an address in a store, such as s3://bucket/result/";
            return Err(Error::parameter("upload", address.display(), expected));
        }
        PutTarget::of(address).map_err(|error| Error::io(address, error))?;
        Ok(Self { address: address.to_path_buf(), force })
    }

    /// The address of a file below.
    fn address_of(&self, name: &str) -> PathBuf {
        let above = self.address.to_string_lossy();
        format!("{}/{name}", above.strip_suffix('/').unwrap_or(&above)).into()
    }

    fn target(&self, name: &str) -> Result<PutTarget> {
        PutTarget::of(&self.address_of(name)).map_err(|error| Error::io(&self.address, error))
    }

    fn try_out(&self) -> Result<()> {
        let refused = |error: io::Error| {
            let message = format!("nothing can be written there: {error}");
            Error::io(&self.address, io::Error::new(error.kind(), message))
        };
        self.target(REPORT)?.try_out().map_err(refused)
    }

    /// The names of the objects below the address, all of which may be replaced. They are those of an earlier result,
    /// or of an interrupted upload of `files`: the names and lengths of the files of the result that is put there.
    /// Fails if any other object is there, or any object without `force`.
    fn replaced(&self, files: Option<&BTreeMap<String, u64>>) -> Result<Vec<String>> {
        let Self { address, force } = self;
        let io = |error| Error::io(address, error);
        let named = |object: Arc<Object>| {
            let below = object.address().strip_prefix(address).unwrap_or(object.address());
            (below.to_string_lossy().into_owned(), object)
        };
        let there: Vec<(String, Arc<Object>)> =
            list_objects(address).map_err(io)?.into_iter().map(named).collect();
        let Some((first, _)) = there.first() else { return Ok(Vec::new()) };
        let refuse = |expected: String| Err(Error::parameter("upload", address.display(), expected));
        if !force {
            return refuse(format!(
                "an address with nothing below it, but {} there, {first} among them; --force replaces earlier results",
                counted(there.len() as u64, "object is", "objects are")
            ));
        }
        let listed: BTreeMap<String, u64> = match there.iter().find(|(name, _)| name == REPORT) {
            Some((_, object)) => {
                let report = object.head(object.length()).map_err(io)?;
                if !format::marks_result(REPORT, &report) {
                    return refuse(format!(
                        "nothing below it, or an earlier result; {REPORT} there is none of simflip"
                    ));
                }
                let written = WrittenFile::listed(&report).unwrap_or_default();
                written.into_iter().map(|file| (file.name, file.bytes)).collect()
            }
            None if files.is_none() => {
                return refuse(format!(
                    "nothing below it, or an earlier result; {first} is there, and no {REPORT}. If an upload was ended \
                     there, simflip upload RESULT {} --force begins it again",
                    printable_path(address)
                ));
            }
            None => files.cloned().unwrap_or_default(),
        };
        for (name, object) in &there {
            let is_page = || {
                let title = title_in(&object.head(TITLE_WITHIN).map_err(io)?);
                Ok::<_, Error>(title.is_some_and(|title| is_title_of(name, &title)))
            };
            let is_ours = name == REPORT
                || listed.get(name) == Some(&object.length())
                || PAGES.contains(&&**name) && is_page()?;
            if !is_ours {
                return refuse(format!(
                    "an earlier result and nothing else; {name} is there and would be lost"
                ));
            }
        }
        Ok(there.into_iter().map(|(name, _)| name).collect())
    }

    /// Puts the folder `result` to the address. `progress` hears of bytes, and of files that are not of the result.
    ///
    /// # Errors
    /// If it cannot be put, or is not whole, or something has come to the address since [`Upload::begin`]. The folder
    /// stays as it is; the error names the command that begins the upload again.
    pub fn put(&self, result: &Path, progress: &dyn Progress) -> Result<()> {
        self.put_files(result, &files_of(result, progress)?, progress).map_err(|error| {
            let shown = printable_path(result);
            let to = printable_path(&self.address);
            let advice = format!(
                "the result is whole in {shown}; simflip upload {shown} {to} --force begins the upload again"
            );
            match error {
                Error::Io { path, source } => {
                    Error::io(path, io::Error::new(source.kind(), format!("{source}; {advice}")))
                }
                other => Error::io(&self.address, io::Error::other(format!("{other}; {advice}"))),
            }
        })
    }

    fn put_files(&self, result: &Path, files: &BTreeMap<String, u64>, progress: &dyn Progress) -> Result<()> {
        files.keys().try_for_each(|name| self.target(name).map(drop))?;
        let mut replaced = self.replaced(Some(files))?;
        // Without its report, what is left of the earlier one is no result any more.
        replaced.sort_by_key(|name| name != REPORT);
        for name in replaced {
            self.target(&name)?.remove().map_err(|error| Error::io(self.address_of(&name), error))?;
        }
        progress.during("upload", files.values().sum(), "bytes", |advance| {
            let others = files.keys().filter(|name| *name != REPORT);
            others.map(String::as_str).chain([REPORT]).try_for_each(|name| {
                let put = self.target(name)?.put(&result.join(name), advance);
                put.map_err(|error| Error::io(self.address_of(name), error))
            })
        })
    }
}

/// Puts a folder of results that an earlier run has written into a store, below `address`.
///
/// # Errors
/// As [`Upload::begin`] and [`Upload::put`].
pub fn upload(result: &Path, address: &Path, force: bool, progress: &dyn Progress) -> Result<()> {
    let upload = Upload::to(address, force)?;
    upload.replaced(Some(&files_of(result, &Silent)?))?;
    upload.try_out()?;
    upload.put(result, progress)
}

/// The files of a result that are uploaded, by name, with their lengths in bytes. `progress` gets a note for every
/// other file of the folder. Fails if it is not a folder of results, or a file has another length than its report says.
fn files_of(result: &Path, progress: &dyn Progress) -> Result<BTreeMap<String, u64>> {
    let io = |error| Error::io(result, error);
    let report = result.join(REPORT);
    let listed = WrittenFile::listed_in(&report).filter(|_| format::is_result_folder(result));
    let Some(listed) = listed else {
        return Err(Error::parameter(
            "upload",
            result.display(),
            "a folder of results that simflip dedup wrote",
        ));
    };
    for WrittenFile { name, bytes } in &listed {
        let path = result.join(name);
        let found = fs::symlink_metadata(&path).map_err(|error| Error::io(&path, error))?;
        if found.len() != *bytes {
            return Err(Error::Format {
                path,
                field: "the file's length",
                expected: format!("{bytes}, as report.json has it"),
                got: found.len().to_string(),
                advice: "was it changed since? simflip inspect checks a folder of results",
            });
        }
    }
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(result).map_err(io)? {
        let entry = entry.map_err(io)?;
        let bytes = entry.metadata().map_err(io)?.len();
        match entry.file_name().into_string() {
            Ok(name) if is_ours(&entry, &listed) => drop(files.insert(name, bytes)),
            _ => progress
                .note(&format!("{} is not of the result and stays here", printable_path(&entry.path()))),
        }
    }
    Ok(files)
}

#[cfg(all(test, not(feature = "stores")))]
mod tests {
    use super::*;
    use crate::pipeline::dedup;

    #[test]
    fn a_build_without_stores_says_so_before_anything_is_read() {
        let top = tempfile::tempdir().unwrap();
        let (read, out) = (top.path().join("documents.jsonl"), top.path().join("out"));
        fs::write(&read, "{\"text\": \"a document\"}\n").unwrap();
        let address = PathBuf::from("s3://bucket/result/");
        let job = Job { inputs: vec![read], out, upload: Some(address.clone()), ..Job::default() };
        let message = dedup(&job, &Silent).unwrap_err().to_string();
        assert!(
            message.contains("s3://bucket/result/") && message.contains("the feature `stores`"),
            "{message}"
        );
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 1);
        dedup(&Job { upload: None, ..job.clone() }, &Silent).unwrap();
        assert!(upload(&job.out, &address, true, &Silent).unwrap_err().to_string().contains("the feature"));
    }
}
