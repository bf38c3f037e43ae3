//! The files that kept documents are written to: how many there are, their names and columns, and what is in them.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Fields;
use parquet::schema::types::TypePtr;
use serde::{Deserialize, Serialize};

use super::corruption::Corruption;
use super::csv::CsvHeader;
use super::filetype::{Compression, Format};
use crate::document::{DocId, Place};
use crate::format::{self, Results};

use crate::{Error, Result};

/// A file of kept documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Its path, below the folder that it was written to. If that is renamed later, the name alone stays right.
    pub path: PathBuf,
    /// The format of its records.
    pub format: Format,
    /// Documents in it.
    pub documents: u64,
    /// Its size in bytes.
    pub stored_bytes: u64,
    /// The positions of the inputs whose kept documents belong in it, even if there are none. With
    /// [`KeptFiles::OfSize`], of those that have documents in it.
    pub shards: Vec<u32>,
}

/// The number of files that kept documents are written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeptFiles {
    /// One for all inputs of a format, or of a table format with the same columns.
    #[default]
    One,
    /// One for each input that can be read.
    Each,
    /// Several for all inputs of a format, each of at most so many stored bytes, unless it holds one document alone.
    /// The footer of a Parquet file comes on top.
    OfSize(u64),
}

impl KeptFiles {
    /// The most stored bytes of a file; `None` unless this is [`OfSize`](Self::OfSize).
    pub(crate) fn size(self) -> Option<u64> {
        if let Self::OfSize(size) = self { Some(size) } else { None }
    }
}

/// The outcome of writing kept documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The files that were written.
    pub files: Vec<KeptFile>,
    /// Kept documents that could not be written. Rows share an entry if a column that was not read before is corrupt in
    /// their row group or record batch. Otherwise each document has one; its input is gone or has changed.
    pub lost: Vec<Corruption>,
}

/// The documents to keep, input by input: IDs ascending, each with its place as reading found it. `shard` is the
/// position of the input.
pub trait KeptDocuments: Sync {
    /// The kept documents of an input.
    ///
    /// # Errors
    /// If the list of them is on disk and cannot be read.
    fn of_file(&self, shard: u32) -> Result<Cow<'_, [(DocId, Place)]>> {
        self.each_of(shard)?.collect::<Result<_>>().map(Cow::Owned)
    }

    /// The kept documents of an input one after the other, with few in memory at a time where they are on disk.
    ///
    /// # Errors
    /// As [`of_file`](Self::of_file).
    fn each_of(&self, shard: u32) -> Result<EachKept<'_>>;

    /// The number of kept documents of an input.
    ///
    /// # Errors
    /// As [`of_file`](Self::of_file).
    fn number(&self, shard: u32) -> Result<u64>;
}

/// Kept documents of an input, one after the other, by ascending id.
pub type EachKept<'a> = Box<dyn Iterator<Item = Result<(DocId, Place)>> + 'a>;

/// All that is kept, ascending by id.
impl KeptDocuments for Vec<(DocId, Place)> {
    fn of_file(&self, shard: u32) -> Result<Cow<'_, [(DocId, Place)]>> {
        Ok(Cow::Borrowed(of_shard(self, shard)))
    }

    fn each_of(&self, shard: u32) -> Result<EachKept<'_>> {
        Ok(Box::new(of_shard(self, shard).iter().copied().map(Ok)))
    }

    fn number(&self, shard: u32) -> Result<u64> {
        Ok(of_shard(self, shard).len() as u64)
    }
}

fn of_shard(kept: &[(DocId, Place)], shard: u32) -> &[(DocId, Place)] {
    let from = kept.partition_point(|(id, _)| id.shard < shard);
    &kept[from..kept.partition_point(|(id, _)| id.shard <= shard)]
}

/// The paths of the files of kept documents in a folder of results, sorted.
///
/// # Errors
/// [`Error::Io`] if the folder cannot be read.
pub(crate) fn kept_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |error| Error::io(folder, error);
    let results = format::results_of(folder).unwrap_or(Results::Whole);
    let is_kept = |name: &str| is_kept_of(results, name);
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(io)?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_kept));
    files.sort();
    Ok(files)
}

/// The name of a file of documents without the ending; none if it has not the ending of one.
fn stem(name: &str) -> Option<&str> {
    let unpacked = [".gz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let of_stream = [".warc.wet", ".jsonl", ".csv", ".tsv"].iter().find_map(|it| unpacked.strip_suffix(it));
    of_stream.or_else(|| [".parquet", ".arrow"].iter().find_map(|ending| name.strip_suffix(ending)))
}

/// True if a file in a folder of such results is one of kept documents, by its name. In those of a run in stages it is
/// called after its input, or `part-00001` and so on.
pub(crate) fn is_kept_of(results: Results, name: &str) -> bool {
    match results {
        Results::Whole => is_kept_name(name),
        Results::OfStages => stem(name).is_some() && !name.ends_with(".removed.csv"),
    }
}

/// True for the name of a file of kept documents of a whole run: `kept.NAME`, or `kept` with numbers behind it. It is
/// true as well for [`CUT`], which [`decontaminate`](crate::contamination::decontaminate) writes.
pub(crate) fn is_kept_name(name: &str) -> bool {
    let Some(rest) = stem(name).and_then(|stem| stem.strip_prefix("kept")) else { return name == CUT };
    // Tables of other columns than the first have a number; those of files of a size have more digits.
    let is_table = [".csv", ".parquet", ".arrow"].iter().any(|ending| name.contains(ending));
    let least = if is_table { 1 } else { DIGITS };
    let is_number = |part: &str| part.len() >= least && part.bytes().all(|b| b.is_ascii_digit());
    let is_numbered = || rest.strip_prefix('-').is_some_and(|numbers| numbers.split('-').all(is_number));
    rest.is_empty() || rest.starts_with('.') || is_numbered()
}

/// The file of documents without the passages that hold items of a benchmark.
pub(crate) const CUT: &str = "cut.jsonl.gz";

/// Digits of the number of a file of a size, at least: as many as names sort by in most results.
const DIGITS: usize = 5;

/// The columns of a target that is a table: those of all of its inputs.
#[derive(PartialEq)]
pub(crate) enum KeptColumns {
    /// No columns: a format without a table, or an empty file of CSV.
    None,
    /// The header of the files.
    Csv(Arc<CsvHeader>),
    /// The root of the schema as the files state it.
    Parquet(TypePtr),
    /// The columns of the table, with their types.
    Arrow(Fields),
}

/// A file that is to be written, or, where a size is set, several, and the inputs whose kept documents go there.
pub(crate) struct Target {
    /// The path of the file; where a size is set, each file adds a number to the name.
    pub path: PathBuf,
    pub format: Format,
    /// The compression of the file.
    pub compression: Compression,
    /// The positions of the inputs whose documents go there, ascending.
    pub shards: Vec<u32>,
    pub columns: KeptColumns,
    /// Rows of all its inputs, kept or not (Parquet, Arrow); 0 for other formats. A writer of Parquet estimates by them
    /// how many rows a row group of some bytes has.
    pub rows: u64,
    /// Rows of the largest row group of one of its inputs, or record batch; 0 for other formats. A writer of Parquet
    /// makes no larger ones, unless they would be too many for a file.
    pub largest: u64,
}

impl Target {
    /// The header of a file of CSV; `None` for other formats, or without columns.
    pub fn header(&self) -> Option<&CsvHeader> {
        if let KeptColumns::Csv(header) = &self.columns { Some(header) } else { None }
    }
}

/// The files of a target, which are written one after the other: one, or, where a size is set, several.
pub(crate) struct NumberedFiles<'a> {
    pub target: &'a Target,
    /// The most stored bytes of a file, unless it holds one document alone; `None` for a single file.
    pub size: Option<u64>,
    /// The files that are whole and on disk.
    pub whole: Vec<KeptFile>,
    /// Documents in the file that is being written.
    pub documents: u64,
    /// The positions of the inputs that these documents are from.
    pub of_shards: Vec<u32>,
}

impl<'a> NumberedFiles<'a> {
    /// No files of a target yet.
    pub fn new(target: &'a Target, size: Option<u64>) -> Self {
        Self { target, size, whole: Vec::new(), documents: 0, of_shards: Vec::new() }
    }

    /// The path of the file that is being written. Where a size is set, its name has a number, counted from 1:
    /// `kept-00001.csv.gz`, `kept-2-00001.csv.gz`.
    pub fn path(&self) -> PathBuf {
        if self.size.is_none() {
            return self.target.path.clone();
        }
        let name = self.target.path.file_name().unwrap_or_default().to_string_lossy();
        let (stem, ending) = name.split_once('.').unwrap_or((&name, ""));
        self.target.path.with_file_name(format!("{stem}-{:0DIGITS$}.{ending}", self.whole.len() + 1))
    }

    /// Creates the file at [`path`](Self::path).
    pub fn create(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::with_capacity(1 << 20, File::create(self.path())?))
    }

    /// Counts documents of the input at a position, which are written to the file.
    pub fn add(&mut self, shard: u32, documents: u64) {
        self.documents += documents;
        if self.of_shards.last() != Some(&shard) {
            self.of_shards.push(shard);
        }
    }

    /// Ends the file: waits until it is on disk and adds it to `whole`. The next one may then be created.
    pub fn end(&mut self, file: &mut BufWriter<File>) -> io::Result<()> {
        file.flush()?;
        file.get_ref().sync_all()?;
        let (of_shards, documents) = (mem::take(&mut self.of_shards), mem::take(&mut self.documents));
        let shards = if self.size.is_some() { of_shards } else { self.target.shards.clone() };
        let (path, stored_bytes) = (self.path(), file.get_ref().metadata()?.len());
        self.whole.push(KeptFile { path, format: self.target.format, documents, stored_bytes, shards });
        Ok(())
    }
}
