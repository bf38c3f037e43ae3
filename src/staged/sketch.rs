//! The first stage: a file of sketches and one of names for each input file, or for several small ones together. The
//! inputs of a file of sketches are a *bundle*.

use super::estimate::{Rooms, read_ahead};
use super::parts::{InputReading, Parts};
use super::reading::{Read, read_reading, reading_of, write_reading};
use super::sketches::{self, ReadingRules, SketchFile, SketchedInput};
use super::spilled::Scratch;
use super::working::remove_file;
use super::{printed_bytes, unless_corrupt};
use crate::atomic_write::{check_is_here, sweep};
use crate::boilerplate::{Boilerplate, GroupBy};
use crate::corpus::{
    DiscoverOptions, FileReading, Input, InputMark, Needed, ReadOptions, check_fields, discover_all,
};
use crate::display::counted;
use crate::error::{Error, Result};
use crate::format::{self, SKETCHES, wrong};
use crate::kernel::memory::give_back;
use crate::pipeline::{Progress, grouped, host_needed, with_threads};
use crate::report::messages;
use crate::resources::memory_share;
use rayon::prelude::*;
use simflip_core::settings::Settings;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The inputs to sketch, and the folder for the sketches.
#[derive(Clone, Debug, Default)]
pub struct SketchJob {
    /// Files and folders of documents.
    pub inputs: Vec<PathBuf>,
    /// The options of reading.
    pub options: ReadOptions,
    /// The folder for the files of the stage; it is made if it is not there.
    pub out: PathBuf,
    /// True to make sketches again that are of other settings or of a file that has changed; without it they are an
    /// error. With it, all of each file of sketches is read, for corruption that its length does not show.
    pub force: bool,
    /// Bytes of memory that the stage keeps to; documents that do not fit go to disk. `None` for a share of what the
    /// machine has, which long records may exceed.
    pub memory: Option<u64>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// The part of the bundles that is sketched.
    pub shard: Shard,
    /// The settings that decide the result.
    pub settings: Settings,
    /// Lines that are left out of documents before they are sketched.
    pub boilerplate: Option<Arc<Boilerplate>>,
}

impl SketchJob {
    /// The options of reading, with the field that groups documents, if boilerplate is of such groups.
    fn read_options(&self) -> ReadOptions {
        grouped(self.options.clone(), self.boilerplate.as_ref().map(|boilerplate| &boilerplate.by))
    }
}

/// One of several parts of a stage, each of which may run on a machine of its own. `17/1000` is part 17 of 1,000,
/// counted from 1.
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
    /// True if the item at a place of a list, counted from 0, belongs to this part. It has every `of`th item.
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

/// The outcome of the stage, in numbers of this part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sketched {
    /// Input files that have sketches now.
    pub files: u64,
    /// Of these, files whose sketches were there already.
    pub there: u64,
    /// Documents of all of them.
    pub documents: u64,
    /// Corrupt sections in them, and files that cannot be opened.
    pub corrupt: u64,
}

/// Sketches each input file into a file of its own, and small ones together into one; passes over what is there
/// already.
///
/// # Errors
/// For settings that no later stage could work with, and too little memory. If an input is a stream, or one that was
/// named is missing or cannot be opened; in a folder, such a file is reported and left out. Without `force`, if a file
/// of sketches is there that was made with other settings, or of a file that has changed. If a file cannot be written.
/// What was finished before stays.
pub fn sketch(job: &SketchJob, progress: &dyn Progress) -> Result<Sketched> {
    // Whatever the other stages would refuse is refused before hours of reading.
    super::store::can_be_joined(&job.settings)?;
    check_is_here("out", &job.out)?;
    if job.memory.is_some() {
        give_back();
    }
    let discovery = DiscoverOptions { fields: job.options.fields.clone(), ..DiscoverOptions::default() };
    let found = discover_all(&job.inputs, &discovery)?;
    found.passed_over.message().iter().for_each(|message| progress.note(message));
    for input in &found.inputs {
        if input.is_stream() {
            let expected = "a file: what a stream holds cannot be read again by a later stage";
            return Err(Error::parameter("input", input.path.display(), expected));
        }
        // A file that was named must be there.
        if input.cannot_open().is_some() && job.inputs.contains(&input.path) {
            input.storage.open().map_err(|error| Error::io(&input.path, error))?;
        }
    }
    let options = job.read_options();
    let score = options.fields.score.iter().map(|field| Needed::score("score", field.clone()));
    let by = job.boilerplate.as_ref().map(|boilerplate| &boilerplate.by);
    let host = (by == Some(&GroupBy::Host)).then(|| host_needed(&options.fields, "--boilerplate"));
    let group = by.and_then(|by| Some(Needed::group("boilerplate", by.to_string(), by.field()?)));
    // These may be few of the files of a job, of which others have what is missing here.
    if let Err(error) =
        check_fields(&found.inputs, &options, &score.chain(host).chain(group).collect::<Vec<_>>())
    {
        progress.note(&error.to_string());
    }
    let (inputs, broken): (Vec<Input>, Vec<Input>) =
        found.inputs.into_iter().partition(|input| input.cannot_open().is_none());
    let broken = (0..).zip(&broken).filter(|&(at, _)| job.shard.has(at));
    let broken: Vec<&Input> = broken.map(|(_, input)| input).collect();
    report_broken(&broken, progress);
    let is_new = fs::symlink_metadata(&job.out).is_err();
    fs::create_dir_all(&job.out).map_err(|error| Error::io(&job.out, error))?;
    sweep(&job.out);
    let all = bundles(&inputs);
    take_regrouped_away(&job.out, &inputs, &all)?;
    let part: Vec<&[Input]> =
        (0..).zip(&all).filter(|&(at, _)| job.shard.has(at)).map(|(_, &bundle)| bundle).collect();
    let of_part = || part.iter().copied().flatten();
    let files = of_part().count() as u64;
    let stored: u64 = of_part().map(Input::stored_bytes).sum();
    let sketch = || {
        let threads = rayon::current_num_threads();
        let read_ahead = read_ahead(of_part().collect::<Vec<_>>().into_iter(), threads);
        let memory = job.memory.unwrap_or_else(memory_share);
        let held = read_ahead + job.boilerplate.as_ref().map_or(0, |boilerplate| boilerplate.held_bytes());
        let rooms = Rooms::new(memory, threads, held, job.memory.is_some()).map_err(|least| {
            let threads = counted(threads as u64, "thread", "threads");
            let expected = format!("at least {} for {threads}", printed_bytes(least));
            Error::parameter("memory", printed_bytes(memory), expected)
        })?;
        Sketching::new(job, part.len(), &rooms, false, progress).sketch(&part)
    };
    let done = progress
        .during("sketch", stored.max(1), "bytes", |_| with_threads(job.threads, sketch))
        .and_then(|done| done);
    if done.is_err() && is_new {
        // Unless something was finished.
        let _ = fs::remove_dir(&job.out);
    }
    let mut sketched = Sketched { files, corrupt: broken.len() as u64, ..Sketched::default() };
    let mut read = Vec::new();
    for made in done? {
        sketched.there += made.there;
        sketched.documents += made.documents;
        sketched.corrupt += made.corrupt;
        read.extend(made.read.into_iter().flat_map(|read| read.files));
    }
    messages::odd_input_warnings(&read).iter().for_each(|message| progress.note(message));
    Ok(sketched)
}

/// Stored bytes of small inputs that are sketched together, at most.
const BUNDLE: u64 = 8 << 20;

/// Cuts inputs into bundles: a large one has its own, and small ones that stand side by side share one. Many inputs
/// make some sixteen at least, so that threads and shards have work. Which inputs share one depends on all inputs.
pub(super) fn bundles(inputs: &[Input]) -> Vec<&[Input]> {
    let all: u64 = inputs.iter().map(Input::stored_bytes).sum();
    let (most, mut bytes) = (BUNDLE.min(all / 16), inputs.first().map_or(0, Input::stored_bytes));
    let is_with_the_last = |_: &Input, next: &Input| {
        bytes += next.stored_bytes();
        let has_room = bytes <= most;
        bytes = if has_room { bytes } else { next.stored_bytes() };
        has_room
    };
    inputs.chunk_by(is_with_the_last).collect()
}

/// The path of the sketches of a bundle.
fn path_of(out: &Path, bundle: &[Input]) -> PathBuf {
    out.join(format!("{}.{}", sketches::stem_of(&bundle[0].known_by()), sketches::EXTENSION))
}

/// Removes sketches of these inputs that an earlier run, with other inputs beside them, bundled in another way.
fn take_regrouped_away(out: &Path, inputs: &[Input], bundles: &[&[Input]]) -> Result<()> {
    let wanted: HashSet<PathBuf> = bundles.iter().map(|bundle| path_of(out, bundle)).collect();
    let known: HashSet<String> =
        inputs.iter().map(|input| input.known_by().to_string_lossy().into_owned()).collect();
    for path in sketches::paths_in(out)?.into_iter().filter(|path| !wanted.contains(path)) {
        let Ok(file) = SketchFile::open(&path) else { continue };
        if file.header.paths().iter().all(|path| known.contains(path)) {
            // The sketches first: where there are any, all is there.
            for path in [&path, &path.with_extension("names"), &reading_of(&path)] {
                remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// Reports inputs that cannot be opened, and are left out.
pub(super) fn report_broken(broken: &[&Input], progress: &dyn Progress) {
    for input in broken {
        let error = input.cannot_open().unwrap_or_default();
        progress.note(&format!("{}: cannot be opened and is left out: {error}", input.path.display()));
    }
}

/// The outcome for a bundle.
struct Made {
    /// Inputs whose sketches were there.
    there: u64,
    documents: u64,
    corrupt: u64,
    /// The outcome of reading them, now or by an earlier run that kept it; `None` if that did not.
    read: Option<Read>,
}

/// Sketches these inputs for a whole run, with the memory `rooms` for documents; passes over what is there already.
/// Gives the outcome of reading each of them, in their order, which is also kept beside their sketches. An input that
/// cannot be opened counts as corrupt, and has no sketches.
pub(super) fn sketch_files(
    job: &SketchJob,
    inputs: &[Input],
    rooms: &Rooms,
    progress: &dyn Progress,
) -> Result<Read> {
    let (whole, broken): (Vec<Input>, Vec<Input>) =
        inputs.iter().cloned().partition(|input| input.problem.is_none());
    let bundles = bundles(&whole);
    take_regrouped_away(&job.out, &whole, &bundles)?;
    let sketching = Sketching::new(job, bundles.len(), rooms, true, progress);
    let broken = match broken.is_empty() {
        true => Read::default(),
        false => Read::of(&sketching.read(&broken, &Scratch::beside(&job.out))?),
    };
    let (mut read, mut of_whole, mut of_broken) = (Read::default(), Vec::new(), broken.files.into_iter());
    for (bundle, made) in bundles.iter().zip(sketching.sketch(&bundles)?) {
        let gone = || Error::io(&bundle[0].path, std::io::Error::other("it was sketched before"));
        let mut of_bundle = made.read.ok_or_else(gone)?;
        if made.there > 0 {
            for (file, input) in of_bundle.files.iter_mut().zip(*bundle) {
                file.path.clone_from(&input.path);
                file.corruption_messages().iter().for_each(|message| progress.note(message));
            }
        }
        of_whole.append(&mut of_bundle.files);
        read.languages.merge(of_bundle.languages);
    }
    let mut of_whole = of_whole.into_iter();
    let of = |input: &Input| if input.problem.is_none() { of_whole.next() } else { of_broken.next() };
    read.files = inputs.iter().filter_map(of).collect();
    Ok(read)
}

/// Sketches bundles, each into a file of its own.
struct Sketching<'a> {
    job: &'a SketchJob,
    rules: ReadingRules,
    options: ReadOptions,
    rooms: &'a Rooms,
    /// True if the outcome of reading is kept beside sketches.
    keeps_reading: bool,
    progress: &'a dyn Progress,
}

impl<'a> Sketching<'a> {
    /// Prepares `bundles` bundles: where they are fewer than threads, several threads read the same one.
    fn new(
        job: &'a SketchJob,
        bundles: usize,
        rooms: &'a Rooms,
        keeps_reading: bool,
        progress: &'a dyn Progress,
    ) -> Self {
        let threads = (rayon::current_num_threads() / bundles.max(1)).max(1);
        let options = ReadOptions { threads, ..job.read_options() };
        let (fields, longest_document) = (options.fields.clone(), options.record_cap);
        let boilerplate = job.boilerplate.as_ref().map(|boilerplate| boilerplate.fingerprint());
        let rules = ReadingRules { fields, longest_document, rules: options.rules, boilerplate };
        Self { job, rules, options, rooms, keeps_reading, progress }
    }

    /// Sketches bundles, unless that was done.
    fn sketch(&self, bundles: &[&[Input]]) -> Result<Vec<Made>> {
        bundles.par_iter().map(|bundle| self.sketch_bundle(bundle)).collect()
    }

    /// Reads inputs and sketches their documents.
    fn read<'s>(&'s self, inputs: &[Input], scratch: &'s Scratch) -> Result<Parts<'s>> {
        let Self { job, options, rooms, progress, .. } = self;
        let scored = options.fields.score.is_some();
        let (settings, boilerplate) = (&job.settings, job.boilerplate.as_deref());
        let reading = InputReading { settings, scored, boilerplate, rooms, scratch };
        let parts = reading.read(inputs, options, &|bytes| progress.advance(bytes))?;
        parts
            .files
            .iter()
            .flat_map(FileReading::corruption_messages)
            .for_each(|message| progress.note(&message));
        Ok(parts)
    }

    fn sketch_bundle(&self, inputs: &[Input]) -> Result<Made> {
        let Self { job, rules, .. } = self;
        let path = path_of(&job.out, inputs);
        let marks = inputs.iter().map(InputMark::of).collect::<Result<Vec<_>>>()?;
        if fs::symlink_metadata(&path).is_ok() {
            let kept = || self.keeps_reading.then(|| read_reading(&path)).transpose();
            match self.fitting(&path, &marks).and_then(|file| Ok((file, kept()?))) {
                Ok((Some(file), read)) => {
                    let (documents, corrupt) = (file.header.documents, file.header.corrupt);
                    self.progress.advance(inputs.iter().map(Input::stored_bytes).sum());
                    return Ok(Made { there: inputs.len() as u64, documents, corrupt, read });
                }
                Ok((None, _)) => {}
                Err(_) if (job.force || self.keeps_reading) && format::is_of_kind(&path, SKETCHES) => {}
                Err(error) => return Err(error),
            }
        }
        let scratch = Scratch::beside(&path);
        let mut parts = self.read(inputs, &scratch)?;
        let read = Read::of(&parts);
        let (documents, corrupt) =
            (parts.layout.documents, parts.files.iter().map(|file| file.corrupt).sum());
        let (in_order, names) = parts.in_order()?;
        for (input, mark) in inputs.iter().zip(&marks) {
            if InputMark::of(input)? != *mark {
                let error = std::io::Error::other("the file changed while it was read");
                return Err(Error::io(&input.path, error));
            }
        }
        // The sketches last: where there are any, all is there.
        let paths = marks.iter().map(|mark| mark.path.clone()).collect();
        names.write(&path.with_extension("names"), paths)?;
        if self.keeps_reading {
            write_reading(&path, &read)?;
        }
        parts.write_sketches(in_order, &path, &job.settings, rules.clone(), marks)?;
        Ok(Made { there: 0, documents, corrupt, read: Some(read) })
    }

    /// The file of sketches that is there, if it is the one that this run would make. `None` if it is corrupt, or was
    /// bundled in another way, of other inputs beside some of these.
    fn fitting(&self, path: &Path, marks: &[InputMark]) -> Result<Option<SketchFile>> {
        let opened = match SketchFile::open(path) {
            // A file that does not even begin as sketches is not ours to replace.
            Err(error) if !format::is_of_kind(path, SKETCHES) => return Err(error),
            opened => unless_corrupt(opened, self.progress)?,
        };
        let Some(file) = opened else { return Ok(None) };
        let advice = "name another folder for sketches, or give --force to make these again";
        let header = &file.header;
        if header.settings != self.job.settings || header.reading != self.rules {
            let (expected, got) = ("that of this run".to_owned(), "another".to_owned());
            return Err(wrong(path, "a setting", expected, got, advice));
        }
        if !header.inputs.iter().map(|input| &input.mark).eq(marks) {
            let found: HashMap<&str, &InputMark> =
                header.inputs.iter().map(|SketchedInput { mark, .. }| (&*mark.path, mark)).collect();
            let has_changed = |mark: &&InputMark| found.get(&*mark.path).is_some_and(|found| found != mark);
            let Some(changed) = marks.iter().find(has_changed) else { return Ok(None) };
            let expected = format!("{} as it is now", changed.path);
            let got = "the file before it was changed".to_owned();
            let advice = "give --force to sketch it again, or put back the file";
            return Err(wrong(path, "the input", expected, got, advice));
        }
        let check = || match self.job.force || self.keeps_reading {
            // All of it is read, for what is corrupt anywhere is to be made again.
            true => {
                file.check()?;
                file.each_name()?.try_for_each(|named| named.map(drop))
            }
            false => {
                super::names::open(&path.with_extension("names"), &header.paths(), header.documents).map(drop)
            }
        };
        let checked = unless_corrupt(check(), self.progress)?;
        Ok(checked.map(|()| file))
    }
}

/// Sketches a file, for tests.
#[cfg(test)]
pub(super) fn sketched_file(input: &Path, out: &Path, settings: Settings) {
    let (inputs, out) = (vec![input.to_path_buf()], out.to_path_buf());
    let job = SketchJob { inputs, out, threads: 1, settings, ..SketchJob::default() };
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
