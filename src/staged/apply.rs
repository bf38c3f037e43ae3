//! The last stage: it writes for each input file the documents that are kept, and a list of the removed ones. The
//! inputs that are written together are a *unit*, which has a note of its own: where the note is there, all else is.

use super::cluster;
use super::estimate::{KEPT, copied_by_thread, read_ahead, writing_bytes};
use super::grouping::Grouping;
use super::keep_order::check_keep;
use super::kept::{InputDocuments, StagedKept};
use super::record::Assignment;
use super::sketch::{Shard, report_broken};
use super::sketches::{self, DocumentRows, Folder, FolderInput};
use super::{names, odd_length, printed_bytes, workplace};
use crate::atomic_write::{check_is_here, is_unfinished, sweep};
use crate::corpus::{
    Corruption, DiscoverOptions, Input, InputMark, KeptFiles, KeptJob, ReadOptions, discover_all,
};
use crate::document::DocId;
use crate::error::{Error, Result};
use crate::format::{self, APPLIED, Body, NAMES, NOTE, wrong};
use crate::hash::text_digest;
use crate::inspection::Inspection;
use crate::kernel::memory::give_back;
use crate::pipeline::{Progress, with_threads};
use crate::tables::{self, DocumentRow, REMOVED};
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// The clusters to apply to input files, and the outputs.
#[derive(Clone, Debug, Default)]
pub struct ApplyJob {
    /// The folder of sketches whose documents were clustered.
    pub sketches: PathBuf,
    /// The folders of the sketches of reference documents, which the join was given.
    pub against: Vec<PathBuf>,
    /// The input files, or some of them.
    pub inputs: Vec<PathBuf>,
    /// The folder to write to.
    pub out: PathBuf,
    /// The rules of the clusters: those that the cluster stage was given.
    pub grouping: Grouping,
    /// The outputs for each file.
    pub writes: Outputs,
    /// In how many files kept documents are written: one for each input, one for all of a format, or so many that none
    /// is larger than a size.
    pub kept_files: KeptFiles,
    /// Bytes of memory that are not exceeded; where they are few, fewer threads write files. `None` for no limit.
    pub memory: Option<u64>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// The part of the units that is written.
    pub shard: Shard,
}

/// The outputs for each input file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outputs {
    /// The kept documents, in the format of the input.
    pub kept: bool,
    /// A list of the removed documents, each with the document that it is removed for.
    pub removed: bool,
}

/// The outcome of the stage, in numbers of this part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// Input files of all units.
    pub files: u64,
    /// Of these, files that were written already.
    pub there: u64,
    /// Documents that are kept, whether they are among the [outputs](Outputs) or not.
    pub kept: u64,
    /// Documents that are removed.
    pub removed: u64,
    /// Further documents to keep, which could not be read any more.
    pub lost: u64,
}

/// The header of the note of a unit, or of the folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    /// The id of the sketches.
    sketches: String,
    #[serde(flatten)]
    grouping: Grouping,
    writes: Outputs,
    #[serde(default = "each", skip_serializing_if = "is_each")]
    kept_files: KeptFiles,
    /// A hash of all inputs, where units have several inputs and their numbers depend on all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<String>,
    /// None in the note of the folder.
    file: Option<FileNote>,
}

fn each() -> KeptFiles {
    KeptFiles::Each
}

fn is_each(kept_files: &KeptFiles) -> bool {
    *kept_files == KeptFiles::Each
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct FileNote {
    input: InputMark,
    /// Other inputs that were written with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<InputMark>,
    kept: u64,
    removed: u64,
    lost: u64,
    /// The names of the files that were written.
    files: Vec<String>,
}

/// Writes the kept documents of input files, and lists of the removed ones; passes over what is there already.
///
/// # Errors
/// If the documents are not clustered by these rules yet, or an input has no sketches, comes twice, or has changed
/// since. If `out` holds something else, the memory is too little for one thread, or a file cannot be written. What was
/// finished before stays.
pub fn apply(job: &ApplyJob, progress: &dyn Progress) -> Result<Applied> {
    check_is_here("out", &job.out)?;
    let folder = Folder::open_against(&job.sketches, &job.against)?;
    check_keep(&folder, &job.grouping)?;
    let reading = folder.files[0].header.reading.clone();
    let discovery = DiscoverOptions { fields: reading.fields.clone(), ..DiscoverOptions::default() };
    let found = discover_all(&job.inputs, &discovery)?;
    found.passed_over.message().iter().for_each(|message| progress.note(message));
    let (inputs, broken): (Vec<&Input>, Vec<&Input>) =
        found.inputs.iter().partition(|input| input.cannot_open().is_none());
    report_broken(&broken, progress);
    let places = match_inputs(&folder, &inputs)?;
    let (_, assignments) = cluster::open(&folder, &job.grouping).map_err(|error| match error {
        Error::Io { source, path } if source.kind() == std::io::ErrorKind::NotFound => {
            let linkage = job.grouping.linkage.name();
            let message = format!(
                "{}: simflip cluster --clusters {linkage}, with --keep, --against and --all-pairs as they are given here, \
                 has not made it yet",
                path.display()
            );
            Error::Missing(message)
        }
        error => error,
    })?;
    let note = Note {
        sketches: folder.id.clone(),
        grouping: job.grouping.clone(),
        writes: job.writes,
        kept_files: job.kept_files,
        inputs: (job.kept_files != KeptFiles::Each).then(|| hash_of(&folder, &places)),
        file: None,
    };
    let options = ReadOptions::new(reading.fields.clone(), Some(reading.longest_document), reading.rules);
    let threads = threads_within(job, &folder, &inputs, &places)?;
    begin(&job.out, &note)?;
    let all: Vec<(&Input, usize)> = inputs.into_iter().zip(places).collect();
    let part: Vec<(usize, &[(&Input, usize)])> =
        units(&all, job.kept_files).into_iter().enumerate().filter(|&(at, _)| job.shard.has(at)).collect();
    let stored = |unit: &[(&Input, usize)]| unit.iter().map(|(input, _)| input.stored_bytes()).sum::<u64>();
    let all_stored: u64 = part.iter().map(|(_, unit)| stored(unit)).sum();
    let files = part.iter().map(|(_, unit)| unit.len() as u64).sum();
    let sum = Mutex::new(Applied { files, ..Applied::default() });
    let rows: Vec<OnceLock<DocumentRows>> = folder.files.iter().map(|_| OnceLock::new()).collect();
    let write = || {
        let threads = (rayon::current_num_threads() / part.len().max(1)).max(1);
        let options = ReadOptions { threads, ..options };
        // Units of one file of sketches go together: its names are read once.
        let file_of = |&(_, unit): &(usize, &[(&Input, usize)])| folder.inputs[unit[0].1].file;
        let groups: Vec<_> = part.chunk_by(|a, b| file_of(a) == file_of(b)).collect();
        groups.par_iter().try_for_each(|units| {
            let documents = InputDocuments::new(&folder, &assignments);
            units.iter().try_for_each(|&(number, inputs)| {
                let unit = Unit {
                    job,
                    folder: &folder,
                    number,
                    inputs,
                    documents: &documents,
                    rows: &rows,
                    options: &options,
                    note: &note,
                    progress,
                };
                let (there, note) = unit.apply()?;
                progress.advance(stored(inputs));
                let mut sum = sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                sum.there += if there { inputs.len() as u64 } else { 0 };
                sum.kept += note.kept;
                sum.removed += note.removed;
                sum.lost += note.lost;
                Ok::<_, Error>(())
            })
        })
    };
    progress.during("apply", all_stored.max(1), "bytes", |_| with_threads(threads, write))??;
    Ok(sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// The number of threads that the memory is enough for.
fn threads_within(job: &ApplyJob, folder: &Folder, inputs: &[&Input], places: &[usize]) -> Result<usize> {
    let Some(memory) = job.memory else { return Ok(job.threads) };
    give_back();
    let headers = || places.iter().map(|&place| &folder.files[folder.inputs[place].file].header);
    let longest = headers().filter_map(|header| header.longest).max().unwrap_or(0);
    let is_copied = |input: &Input| input.format.is_columnar() && job.writes.kept;
    let parquet = || places.iter().zip(inputs).filter(|(_, input)| is_copied(input));
    let documents =
        |place: &usize| folder.inputs[*place].documents.end - folder.inputs[*place].documents.start;
    let rows = parquet().map(|(place, _)| documents(place)).max().unwrap_or(0);
    let copied = parquet().map(|(_, input)| copied_by_thread(input)).max().unwrap_or(0);
    let threads = with_threads(job.threads, rayon::current_num_threads)?;
    let needed = |threads: usize| {
        // Where files are written together, rows are gathered once for all threads.
        let gathering = if job.kept_files == KeptFiles::Each { threads as u64 } else { 1 };
        writing_bytes(threads, longest, read_ahead(inputs.iter().copied(), threads))
            + (rows as f64 * KEPT) as u64 * gathering
            + threads as u64 * copied
    };
    (1..=threads).rev().find(|&threads| needed(threads) <= memory).ok_or_else(|| {
        let expected = format!("at least {} for what is written of these files", printed_bytes(needed(1)));
        Error::parameter("memory", printed_bytes(memory), expected)
    })
}

/// A hash of the inputs in these places, in order.
fn hash_of(folder: &Folder, places: &[usize]) -> String {
    let marks = places.iter().map(|&place| &folder.inputs[place].mark);
    let named: String = marks.map(|mark| format!("{}\n{}\n", mark.path, mark.mark)).collect();
    format!("{:016x}", text_digest(&named) as u64)
}

/// Cuts inputs into units: each by itself, all, or so many that their files of a size are mostly full.
fn units<'a, 'i>(inputs: &'a [(&'i Input, usize)], kept_files: KeptFiles) -> Vec<&'a [(&'i Input, usize)]> {
    /// Stored bytes of a unit for each that a file may have.
    const FILES: u64 = 16;
    let most = match kept_files {
        KeptFiles::Each => 0,
        KeptFiles::One => u64::MAX,
        KeptFiles::OfSize(size) => size.saturating_mul(FILES),
    };
    let mut bytes = 0;
    let is_with_the_next = |a: &(&Input, usize), _: &(&Input, usize)| {
        bytes += a.0.stored_bytes();
        let is_full = bytes >= most;
        bytes = if is_full { 0 } else { bytes };
        !is_full
    };
    inputs.chunk_by(is_with_the_next).collect()
}

/// The place of each input in [`Folder::inputs`]: that of its path, or, where files have moved, the only one of a file
/// of its name and content.
fn match_inputs(folder: &Folder, inputs: &[&Input]) -> Result<Vec<usize>> {
    let by_path: HashMap<&str, usize> =
        folder.new_inputs().map(|(place, input)| (&*input.mark.path, place)).collect();
    fn content(mark: &InputMark) -> (u64, &str, Option<&OsStr>) {
        (mark.bytes, &mark.mark, Path::new(&mark.path).file_name())
    }
    let mut by_content: HashMap<_, Vec<usize>> = HashMap::new();
    for (place, input) in folder.new_inputs() {
        by_content.entry(content(&input.mark)).or_default().push(place);
    }
    let (mut places, mut taken) = (Vec::with_capacity(inputs.len()), HashMap::new());
    for input in inputs {
        let mark = InputMark::of(input)?;
        let moved = || match by_content.get(&content(&mark)).map(Vec::as_slice) {
            Some(&[place]) => Some(place),
            _ => None,
        };
        let Some(place) = by_path.get(&*mark.path).copied().or_else(moved) else {
            let message = format!("{}: no sketches of it in {}", input.path.display(), folder.path.display());
            return Err(Error::Missing(message));
        };
        let FolderInput { mark: stored, file, .. } = &folder.inputs[place];
        if (stored.bytes, &stored.mark) != (mark.bytes, &mark.mark) {
            let expected = format!("{} as it is now", input.path.display());
            let got = "the file before it was changed".to_owned();
            let advice = "put back the file, or sketch, join and cluster again";
            return Err(wrong(folder.files[*file].path(), "the input", expected, got, advice));
        }
        if let Some(other) = taken.insert(place, input) {
            let expected = format!("one input of its documents; {} is the same", other.path.display());
            return Err(Error::parameter("input", input.path.display(), expected));
        }
        places.push(place);
    }
    Ok(places)
}

/// Makes the folder with its note, or checks that it has the same note already: of the same clusters and outputs.
fn begin(out: &Path, note: &Note) -> Result<()> {
    fs::create_dir_all(out).map_err(|error| Error::io(out, error))?;
    sweep(out);
    let path = out.join(NOTE);
    if fs::symlink_metadata(&path).is_ok() {
        let (stored, _): (Note, Body) = format::open(&path, APPLIED)?;
        if stored == *note {
            return Ok(());
        }
        let expected = "the ones that are to be written".to_owned();
        let advice = match (&stored.inputs, &note.inputs) {
            (Some(stored), Some(inputs)) if stored != inputs => "name the same inputs, or another folder",
            _ => "name another folder",
        };
        return Err(wrong(&path, "the clusters, outputs or inputs", expected, "others".to_owned(), advice));
    }
    let mut entries =
        fs::read_dir(out).map_err(|error| Error::io(out, error))?.filter_map(std::io::Result::ok);
    // What a run that was killed at once has begun goes with the next one.
    if entries.any(|entry| !is_unfinished(&entry.file_name())) {
        let expected = "a new folder, an empty one, or one that this command has begun";
        return Err(Error::parameter("out", out.display(), expected));
    }
    format::write(&path, APPLIED, note, &[])
}

/// A unit: inputs that are written together, of which there is one at least.
struct Unit<'a> {
    job: &'a ApplyJob,
    folder: &'a Folder,
    number: usize,
    /// Each input with its place in [`Folder::inputs`].
    inputs: &'a [(&'a Input, usize)],
    documents: &'a InputDocuments<'a>,
    /// The rows of each file of sketches, as far as they were asked for.
    rows: &'a [OnceLock<DocumentRows>],
    options: &'a ReadOptions,
    note: &'a Note,
    progress: &'a dyn Progress,
}

impl Unit<'_> {
    /// The name of its files, without an ending.
    fn stem(&self) -> String {
        match self.job.kept_files {
            // By the file that was sketched, wherever it is now.
            KeptFiles::Each => self.stem_of(self.inputs[0].1),
            KeptFiles::One | KeptFiles::OfSize(_) => format!("part-{:05}", self.number + 1),
        }
    }

    /// The name of the files of the input in a place, without an ending.
    fn stem_of(&self, place: usize) -> String {
        sketches::stem_of(Path::new(&self.folder.inputs[place].mark.path))
    }

    fn apply(&self) -> Result<(bool, FileNote)> {
        let Self { job, folder, inputs, note, progress, .. } = *self;
        let stem = self.stem();
        let path = job.out.join(format!("{stem}.note"));
        let mark = |&(_, place): &(&Input, usize)| folder.inputs[place].mark.clone();
        let (input, others): (_, Vec<_>) = (mark(&inputs[0]), inputs[1..].iter().map(mark).collect());
        if fs::symlink_metadata(&path).is_ok() {
            let (stored, _): (Note, Body) = format::open(&path, APPLIED)?;
            let same = Note { file: None, ..stored.clone() } == *note;
            let is_of = |stored: &FileNote| same && stored.input == input && stored.others == others;
            if let Some(stored) = stored.file.filter(is_of) {
                return Ok((true, stored));
            }
            let (expected, got) = ("those of this run".to_owned(), "others".to_owned());
            return Err(wrong(&path, "the clusters or the inputs", expected, got, "name another folder"));
        }
        let work = workplace(&path)?;
        let (mut documents, mut removed, mut kept) = (0, 0, Vec::with_capacity(inputs.len()));
        for &(_, place) in inputs {
            let numbers = folder.inputs[place].documents.clone();
            let of_file = numbers.end - numbers.start;
            let mut of_input = 0;
            self.documents.removals(place)?.try_for_each(|assignment| assignment.map(|_| of_input += 1))?;
            documents += of_file;
            removed += of_input;
            kept.push(of_file - of_input);
        }
        if job.writes.removed {
            self.write_removed(&work.path().join(REMOVED))?;
        }
        let lost = if job.writes.kept { self.write_kept(&kept, work.path())? } else { Vec::new() };
        if job.kept_files != KeptFiles::Each {
            take_away(&job.out, &format!("{stem}-"))?;
        }
        let mut files = Vec::new();
        for (from, to) in moved(work.path(), &stem)? {
            File::open(&from).and_then(|file| file.sync_all()).map_err(|error| Error::io(&from, error))?;
            fs::rename(&from, job.out.join(&to)).map_err(|error| Error::io(job.out.join(&to), error))?;
            files.push(to);
        }
        lost.iter().take(3).for_each(|corruption| progress.note(&corruption.to_string()));
        let documents_lost: u64 = lost.iter().map(|corruption| corruption.documents.unwrap_or(1)).sum();
        let written = FileNote {
            input,
            others,
            kept: documents - removed - documents_lost,
            removed,
            lost: documents_lost,
            files,
        };
        // At last, for it says that all else is there. Documents that are lost may be there again another time.
        if lost.is_empty() {
            format::write(&path, APPLIED, &Note { file: Some(written.clone()), ..note.clone() }, &[])?;
        }
        Ok((false, written))
    }

    /// Writes the kept documents, of which `numbers` has how many each input has. Gives those that could not be read.
    fn write_kept(&self, numbers: &[u64], to: &Path) -> Result<Vec<Corruption>> {
        let places = self.inputs.iter().map(|&(_, place)| place);
        let files: BTreeSet<usize> = places.clone().map(|place| self.folder.inputs[place].file).collect();
        files.into_iter().try_for_each(|file| self.folder.files[file].check())?;
        let kept = StagedKept::new(self.documents, places.map(Some).collect(), numbers);
        let is_same = |id: DocId, text: &str| kept.is_same(id, text);
        let inputs: Vec<Input> = self.inputs.iter().map(|(input, _)| (*input).clone()).collect();
        // One input has one file, whatever it is stored as.
        let files =
            if let KeptFiles::OfSize(_) = self.job.kept_files { self.job.kept_files } else { KeptFiles::One };
        let options = self.options;
        Ok(KeptJob { files, inputs: &inputs, options, kept: &kept, is_same: &is_same }.write(to)?.lost)
    }

    /// Writes the list of removed documents.
    fn write_removed(&self, path: &Path) -> Result<()> {
        let of_input =
            |&(_, place): &(&Input, usize)| -> Box<dyn Iterator<Item = Result<DocumentRow<'static>>>> {
                match self.removed_of(place) {
                    Ok(rows) => Box::new(rows),
                    Err(error) => Box::new(std::iter::once(Err(error))),
                }
            };
        tables::write(path, self.inputs.iter().flat_map(of_input)).map(drop)
    }

    /// The rows of the removed documents of an input.
    fn removed_of(&self, place: usize) -> Result<impl Iterator<Item = Result<DocumentRow<'static>>>> {
        let FolderInput { file, documents, .. } = &self.folder.inputs[place];
        let mut names = documents.clone().zip(self.documents.names(place)?);
        let removals = self.documents.removals(place)?;
        Ok(removals.map(move |assignment| {
            let assignment = assignment?;
            let short = || odd_length(&self.folder.files[*file].names_path(), NAMES, 0);
            let (_, named) =
                names.find(|&(document, _)| document == assignment.document).ok_or_else(short)?;
            self.row(place, &assignment, named?)
        }))
    }

    /// A row of the list of removed documents. It names the kept document by its file and its place there, which takes
    /// no look into other files of names.
    fn row(
        &self,
        place: usize,
        assignment: &Assignment,
        named: names::Named,
    ) -> Result<DocumentRow<'static>> {
        let row = named.row;
        let (file, kept_at) = self.folder.place(assignment.representative);
        let rows = &self.rows[file];
        let rows = match rows.get() {
            Some(rows) => rows,
            None => {
                let read = self.folder.files[file].rows()?;
                rows.get_or_init(|| read)
            }
        };
        let path = &self.folder.inputs[place].mark.path;
        let of_kept = &self.folder.inputs[self.folder.input_of(assignment.representative)].mark.path;
        Ok(DocumentRow {
            file: Cow::Owned(path.clone()),
            row,
            id: Cow::Owned(named.id.unwrap_or_else(|| place_name(path, u64::from(row)))),
            url: Cow::Owned(named.url.unwrap_or_default()),
            cluster: u32::try_from(assignment.cluster).ok(),
            size: assignment.size,
            kept: false,
            representative: Cow::Owned(place_name(of_kept, rows.of(kept_at))),
            similarity: assignment.similarity.map(f64::from),
        })
    }
}

/// The name of a document by its input and its row.
fn place_name(path: &str, row: u64) -> String {
    format!("{path}:{row}")
}

/// Removes the numbered files of a unit whose names begin with `start`: an interrupted run may have left more than
/// there are now.
fn take_away(folder: &Path, start: &str) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| Error::io(folder, error))?.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(start)?.split_once('.'));
        if number
            .is_some_and(|(number, _)| number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit()))
        {
            fs::remove_file(entry.path()).map_err(|error| Error::io(entry.path(), error))?;
        }
    }
    Ok(())
}

/// The files of a unit's folder, and their names in the folder of all units.
fn moved(from: &Path, stem: &str) -> Result<Vec<(PathBuf, String)>> {
    let mut moved = Vec::new();
    for entry in fs::read_dir(from).map_err(|error| Error::io(from, error))? {
        let path = entry.map_err(|error| Error::io(from, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let to = match name.strip_prefix("kept") {
            Some(end) if end.starts_with(['.', '-']) => format!("{stem}{end}"),
            _ if name == REMOVED => format!("{stem}.{name}"),
            _ => name,
        };
        moved.push((path, to));
    }
    moved.sort();
    Ok(moved)
}

/// Checks a note for [`inspect`](crate::inspect).
pub fn check(path: &Path) -> Result<Inspection> {
    let (note, body): (Note, Body) = format::open(path, APPLIED)?;
    body.check()?;
    let mut inspection = Inspection::of(APPLIED.name);
    inspection.fact("sketches", &note.sketches);
    inspection.fact("clusters", note.grouping.linkage.name());
    if let Some(file) = &note.file {
        for mark in std::iter::once(&file.input).chain(&file.others) {
            inspection.fact("input", &mark.path);
        }
        inspection.fact("kept documents", file.kept);
        inspection.fact("removed documents", file.removed);
        for name in &file.files {
            let there = path.parent().is_some_and(|folder| folder.join(name).is_file());
            match there {
                true => inspection.fact("file", name),
                false => inspection.problem(format!("{name} is missing")),
            }
        }
    }
    Ok(inspection)
}
