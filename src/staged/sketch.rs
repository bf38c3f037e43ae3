//! The first stage: a file of sketches and one of names for each input file.

use super::estimate::{Rooms, read_ahead};
use super::parts::{Parts, Scratch, Sketching};
use super::sketches::{self, InputMark, ReadingRules, SketchFile};
use super::{told_bytes, working};
use crate::corpus::{
    DiscoverOptions, FileReading, Input, JsonlFields, Languages, ReadOptions, ReadRules, check_fields,
    discover_all,
};
use crate::error::{Error, Result};
use crate::format::{self, SKETCHES, wrong};
use crate::kernel::memory::give_back;
use crate::making::{check_is_here, sweep};
use crate::pipeline::{Progress, with_threads};
use crate::resources::memory_share;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use simflip_core::settings::Settings;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The inputs to sketch, and the folder for the sketches.
#[derive(Clone, Debug)]
pub struct SketchJob {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// Names of the JSONL fields and Parquet columns.
    pub fields: JsonlFields,
    /// The longest page that is read, in bytes; `None` for the default of [`ReadOptions`].
    pub longest_page: Option<usize>,
    /// The rules for odd input.
    pub rules: ReadRules,
    /// The folder for files of sketches; it is made if it is not there.
    pub out: PathBuf,
    /// True if sketches that do not fit are made again: of other settings, of a file that has changed, or cut.
    pub force: bool,
    /// Memory that pages may take; what does not fit goes to disk. `None` for a share of what there is.
    pub memory: Option<u64>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// The part of the files that is sketched.
    pub shard: Shard,
    /// The settings that decide the result.
    pub settings: Settings,
}

/// A part of many, counted from 1: `17/1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: u64,
    of: u64,
}

/// The only part.
impl Default for Shard {
    fn default() -> Self {
        Self { number: 1, of: 1 }
    }
}

impl Shard {
    /// True if what stands at a place of a list belongs to it: each one in `of`.
    pub fn has(self, place: usize) -> bool {
        place as u64 % self.of == self.number - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(Error::parameter("shard", text, "a part of many, such as 17/1000, counted from 1")),
        }
    }
}

/// The outcome of the stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sketched {
    /// Input files of this part.
    pub files: u64,
    /// Of these, files whose sketches were there already.
    pub there: u64,
    /// Pages of all of them.
    pub pages: u64,
    /// Pieces of damage met in them.
    pub damaged: u64,
}

/// Sketches each input file into a file of its own; passes over what is there already.
///
/// # Errors
/// For settings that no later stage could work with; if an input is missing or cannot be opened; if a file of
/// sketches is there that was made with other settings, or of a file that has changed, and `force` is not given;
/// or if a file cannot be written. What was finished before stays.
pub fn sketch(job: &SketchJob, progress: &dyn Progress) -> Result<Sketched> {
    // Whatever the other stages would refuse is refused before hours of reading.
    super::store::can_be_joined(&job.settings)?;
    check_is_here("out", &job.out)?;
    if job.memory.is_some() {
        give_back();
    }
    let discovery = DiscoverOptions { fields: job.fields.clone(), ..DiscoverOptions::default() };
    let found = discover_all(&job.inputs, &discovery)?;
    found.passed_over.told().iter().for_each(|told| progress.note(told));
    for input in &found.inputs {
        if input.is_stream() {
            let expected = "a file: what a stream holds cannot be read again by a later stage";
            return Err(Error::parameter("input", input.path.display(), expected));
        }
        if input.cannot_open().is_none() || job.inputs.contains(&input.path) {
            input.open().map_err(|error| Error::io(&input.path, error))?;
        }
    }
    let reading = ReadOptions::new(job.fields.clone(), job.longest_page, job.rules);
    let score = job.fields.score.as_ref().map(|field| ("score", field.clone()));
    // These may be few of the files of a job, of which others have what is missing here.
    if let Err(error) = check_fields(&found.inputs, &reading, &[], score) {
        progress.note(&error.to_string());
    }
    let inputs = (0..).zip(&found.inputs).filter(|&(at, _)| job.shard.has(at)).map(|(_, input)| input);
    let (inputs, broken): (Vec<&Input>, Vec<&Input>) =
        inputs.partition(|input| input.cannot_open().is_none());
    tell_broken(&broken, progress);
    let is_new = fs::symlink_metadata(&job.out).is_err();
    fs::create_dir_all(&job.out).map_err(|error| Error::io(&job.out, error))?;
    sweep(&job.out);
    let rules =
        ReadingRules { fields: job.fields.clone(), longest_page: reading.record_cap, rules: job.rules };
    let stored = |input: &Input| input.stored_bytes();
    progress.begin("sketch", inputs.iter().map(|input| stored(input)).sum::<u64>().max(1), "bytes");
    let sums: [AtomicU64; 3] = Default::default();
    let done = with_threads(job.threads, || {
        let threads = rayon::current_num_threads();
        let read_ahead = read_ahead(inputs.iter().copied(), threads);
        let memory = job.memory.unwrap_or_else(memory_share);
        let rooms = Rooms::new(memory, threads, read_ahead, 0, job.memory.is_some()).map_err(|least| {
            let expected = format!("at least {} for so many threads", told_bytes(least));
            Error::parameter("memory", told_bytes(memory), expected)
        })?;
        let options = ReadOptions { threads: threads_of_file(inputs.len()), ..reading };
        inputs.par_iter().try_for_each(|input| {
            let keeps_reading = false;
            let one = OneFile {
                job,
                input,
                rules: &rules,
                options: &options,
                rooms: &rooms,
                keeps_reading,
                progress,
            };
            let Made { there, pages, damaged, .. } = one.sketch()?;
            for (sum, n) in sums.iter().zip([u64::from(there), pages, damaged]) {
                sum.fetch_add(n, Ordering::Relaxed);
            }
            if there {
                progress.advance(stored(input));
            }
            Ok::<_, Error>(())
        })
    });
    progress.end();
    let done = done.and_then(|done| done);
    if done.is_err() && is_new {
        // Unless something was finished.
        let _ = fs::remove_dir(&job.out);
    }
    done?;
    let [there, pages, damaged] = sums.map(AtomicU64::into_inner);
    let damaged = damaged + broken.len() as u64;
    Ok(Sketched { files: inputs.len() as u64, there, pages, damaged })
}

/// Tells of files in folders that cannot be opened, and are left out.
pub(super) fn tell_broken(broken: &[&Input], progress: &dyn Progress) {
    for input in broken {
        let error = input.cannot_open().unwrap_or_default();
        progress.note(&format!("{}: cannot be opened and is left out: {error}", input.path.display()));
    }
}

/// The outcome for an input file.
struct Made {
    there: bool,
    pages: u64,
    damaged: u64,
    /// The outcome of reading it, if it was read now, or that was kept.
    read: Option<Read>,
}

/// The outcome of reading an input file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Read {
    pub file: FileReading,
    pub languages: Languages,
}

/// Threads that read each of so many files: where there are fewer files than threads, several read the same one.
fn threads_of_file(files: usize) -> usize {
    (rayon::current_num_threads() / files.max(1)).max(1)
}

/// Sketches these files, with so much memory for the pages of each thread, passing over what is there already, and
/// tells what reading each of them came to, which is kept beside its sketches. One that cannot be opened is damage,
/// and has no sketches.
///
/// # Errors
/// As [`sketch`].
pub(super) fn sketch_files(
    job: &SketchJob,
    inputs: &[Input],
    rooms: &Rooms,
    progress: &dyn Progress,
) -> Result<Vec<Read>> {
    let reading = ReadOptions::new(job.fields.clone(), job.longest_page, job.rules);
    let rules =
        ReadingRules { fields: job.fields.clone(), longest_page: reading.record_cap, rules: job.rules };
    let options = ReadOptions { threads: threads_of_file(inputs.len()), ..reading };
    let one = |input: &Input| -> Result<Read> {
        let one =
            OneFile { job, input, rules: &rules, options: &options, rooms, keeps_reading: true, progress };
        if input.problem.is_some() {
            return Ok(Read::of(&one.read(&Scratch::beside(&job.out))?));
        }
        let Made { there, read, .. } = one.sketch()?;
        let gone = || Error::io(&input.path, std::io::Error::other("it was sketched before"));
        let mut read = read.ok_or_else(gone)?;
        if there {
            read.file.path.clone_from(&input.path);
            read.file.damage_told().iter().for_each(|told| progress.note(told));
            progress.advance(input.stored_bytes());
        }
        Ok(read)
    };
    inputs.par_iter().map(one).collect()
}

impl Read {
    fn of(parts: &Parts) -> Self {
        Self { file: parts.file.clone(), languages: parts.languages.clone() }
    }
}

/// One input file.
struct OneFile<'a> {
    job: &'a SketchJob,
    input: &'a Input,
    rules: &'a ReadingRules,
    options: &'a ReadOptions,
    rooms: &'a Rooms,
    /// True if what reading it came to is kept beside its sketches.
    keeps_reading: bool,
    progress: &'a dyn Progress,
}

impl OneFile<'_> {
    /// Reads it, and keeps what its sketches take.
    fn read(&self, scratch: &Scratch) -> Result<Parts> {
        let Self { job, input, options, rooms, progress, .. } = *self;
        let scored = job.fields.score.is_some();
        let sketching = Sketching { settings: &job.settings, scored, rooms, scratch };
        let parts = sketching.read(input, options, &|bytes| progress.advance(bytes))?;
        parts.file.damage_told().iter().for_each(|told| progress.note(told));
        Ok(parts)
    }

    /// Sketches it, unless that was done.
    fn sketch(&self) -> Result<Made> {
        let Self { job, input, rules, .. } = *self;
        let path = job.out.join(format!("{}.{}", sketches::stem_of(input), sketches::EXTENSION));
        let mark = InputMark::of(input)?;
        if fs::symlink_metadata(&path).is_ok() {
            let kept = || self.keeps_reading.then(|| working::read_reading(&path)).transpose();
            match self.fitting(&path, &mark).and_then(|file| Ok((file, kept()?))) {
                Ok((file, read)) => {
                    let (pages, damaged) = (file.header.pages, file.header.damaged);
                    return Ok(Made { there: true, pages, damaged, read });
                }
                Err(_) if (job.force || self.keeps_reading) && format::is_of_kind(&path, SKETCHES) => {}
                Err(error) => return Err(error),
            }
        }
        let scratch = Scratch::beside(&path);
        let parts = self.read(&scratch)?;
        let read = Read::of(&parts);
        let (pages, damaged) = (parts.pages, read.file.damaged);
        let mut parts = parts.in_order(&input.path)?;
        let names = parts.names(&scratch)?;
        if InputMark::of(input)? != mark {
            let error = std::io::Error::other("the file changed while it was read");
            return Err(Error::io(&input.path, error));
        }
        // The sketches last: where there are any, all is there.
        names.write(&path.with_extension("names"), &mark.path)?;
        if self.keeps_reading {
            working::write_reading(&path, &read)?;
        }
        sketches::write(&path, &job.settings, rules.clone(), mark, &mut parts)?;
        Ok(Made { there: false, pages, damaged, read: Some(read) })
    }

    /// The file of sketches that is there, if it is what this run would make.
    fn fitting(&self, path: &Path, mark: &InputMark) -> Result<SketchFile> {
        let file = SketchFile::open(path)?;
        let advice = "name another folder for sketches, or give --force to make these again";
        let header = &file.header;
        if header.settings != self.job.settings || header.reading != *self.rules {
            let (expected, got) = ("that of this run".to_owned(), "another".to_owned());
            return Err(wrong(path, "a setting", expected, got, advice));
        }
        if header.input != *mark {
            let expected = format!("{} as it is now", self.input.path.display());
            let got = "the file before it was changed".to_owned();
            let advice = "give --force to sketch it again, or put back the file";
            return Err(wrong(path, "the input", expected, got, advice));
        }
        if self.job.force || self.keeps_reading {
            // What is damaged is to be made again: all of it is read.
            file.check()?;
            file.each_name()?.try_for_each(|named| named.map(drop))?;
        } else {
            super::names::open(&path.with_extension("names"), &mark.path, header.pages)?;
        }
        Ok(file)
    }
}

/// Sketches a file, for tests.
#[cfg(test)]
pub(super) fn sketched_file(input: &Path, out: &Path, settings: Settings) {
    let job = SketchJob {
        inputs: vec![input.to_path_buf()],
        fields: JsonlFields::default(),
        longest_page: None,
        rules: ReadRules::default(),
        out: out.to_path_buf(),
        force: false,
        memory: None,
        threads: 1,
        shard: Shard::default(),
        settings,
    };
    sketch(&job, &crate::pipeline::Silent).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_out_all_there_is() {
        for (text, places) in [("1/1", vec![0, 1, 2, 3, 4]), ("1/3", vec![0, 3]), ("3/3", vec![2])] {
            let shard: Shard = text.parse().unwrap();
            assert_eq!(shard.to_string(), text);
            assert_eq!((0..5).filter(|&place| shard.has(place)).collect::<Vec<_>>(), places);
        }
        for wrong in ["", "1", "0/3", "4/3", "1/0", "a/b", "1/3/4", "-1/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
