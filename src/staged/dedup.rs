//! `dedup` where memory does not hold it. The stages run one after the other in a working folder, and their files are
//! made into the same folder of results that a run in memory makes.

use super::cluster;
use super::cohesion;
use super::estimate::{Estimate, Rooms, is_large, read_ahead, sketched_bytes};
use super::grouping::Grouping;
use super::join::Joining;
use super::keep_order::{OfFiles, unscored};
use super::kept::{InputDocuments, StagedKept};
use super::lookup::{InputName, Lookup};
use super::parts::not_read;
use super::reading::Read;
use super::record::Edge;
use super::sketch::{Shard, SketchJob, bundles, sketch_files};
use super::sketches::Folder;
use super::store::{can_be_joined, held as held_while_joined};
use super::tables::{Tables, held_of};
use super::working::{BOILERPLATE, FOLDERS, Left, WorkingFolder, left_beside, sweep_beside, working_place};
use super::{Budget, printed_bytes, workplace};
use crate::atomic_write::{keep, kept_messages, place_of, sweep};
use crate::boilerplate::{self, Boilerplate};
use crate::corpus::{self, FileReading, Input, KeptFiles, KeptJob};
use crate::display::{counted, printable_path};
use crate::error::{Error, Result};
use crate::kernel::memory::give_back;
use crate::pipeline::dedup::{FileFindings, Findings, SHOWN_PAIRS, dedup_files};
use crate::pipeline::documents::count_boilerplate;
use crate::pipeline::finished::finished;
use crate::pipeline::listing::write_tables;
use crate::pipeline::output::{self, OutputFolder};
use crate::pipeline::samples::Sampler;
use crate::pipeline::sources::scores_of_files;
use crate::pipeline::stages::Stages;
use crate::pipeline::{
    Against, Ignored, Job, Progress, Summary, Upload, all_inputs, check_documents, check_saved, spare_inputs,
};
use crate::report::model::{AgainstReport, BoilerplateReport, MemoryReport, Outcome as Counts};
use crate::resources::memory_share;
use simflip_core::clusters::Keep;
use simflip_core::dedup::Verified;
use simflip_core::settings::Settings;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Finds the near-duplicates of a corpus as [`pipeline::dedup`](crate::pipeline::dedup()) does. The run goes in stages
/// on disk if the job names a memory or keeps sketches, or if the estimate says that it needs much memory. Otherwise it
/// is in memory. Both write the same bytes, but for what the report says of time and memory.
///
/// Only a run on disk is sure to keep to [`Job::memory`], as the estimate rests on the first documents of the files. A
/// job that cannot go on disk runs in memory if the estimate fits into the memory that it names. On disk it works in a
/// folder beside [`Job::out`], in which the same job resumes if it was interrupted. The folder is gone once the results
/// are there, unless sketches are kept.
///
/// # Errors
/// As [`pipeline::dedup`](crate::pipeline::dedup()); and before anything is read, if the memory that was named is
/// too little, and what was asked for cannot go on disk. If sketches are to be kept of a run that cannot, or of a
/// stream.
pub fn dedup(job: &Job, progress: &dyn Progress) -> Result<Summary> {
    // First of all: leftovers in a folder that is read would be reported.
    sweep_beside(&job.out);
    if let Some((summary, files)) = finished(job) {
        let shown = printable_path(&job.out);
        progress.note(&format!("{shown} is the result of this command already; --force makes it again"));
        // A run that was killed right after its result appeared has left this.
        let real = place_of(&job.out).map_err(|error| Error::io(&job.out, error))?;
        let is_left = left_beside(&real, job, &files)?.is_some_and(|left| left.is_of_job);
        if job.keep_sketches && !is_left {
            progress.note("its sketches are gone; --force makes them again");
        } else if !job.keep_sketches && is_left {
            WorkingFolder::open(&real, job, &files)?.remove()?;
        }
        return Ok(summary);
    }
    let real = OutputFolder::may_be(&job.out, job.force)?;
    job.settings.check()?;
    let limit = job.memory.unwrap_or_else(memory_share);
    if job.memory.is_some() {
        give_back();
    }
    // Where nothing can be written, that is to be known before a stream is copied.
    let has_stream = job.inputs.iter().chain(&job.against).any(|path| corpus::is_stream(path));
    let sketches_stay = |expected| Err(Error::parameter("keep-sketches", "true", expected));
    if has_stream && job.keep_sketches {
        return sketches_stay("files: what a stream holds cannot be read again".to_owned());
    }
    let begun = has_stream.then(|| OutputFolder::begin(&job.out, job.force)).transpose()?;
    let (plan, can) = planned(job, limit)?;
    let held = plan.memory.expected_bytes;
    // What was begun on disk goes on there, however much memory is free now.
    let left = left_beside(&real, job, &plan.files)?;
    let is_small = job.memory.is_none() && !is_large(held, limit);
    match can {
        Ok(rooms) if job.keep_sketches || !is_small || left.as_ref().is_some_and(|left| left.is_of_job) => {
            drop(begun);
            if job.memory.is_none() && !is_small {
                progress.note(&format!(
                    "The estimate is {} of memory, of {} that are free for it, so the run is on disk",
                    printed_bytes(held),
                    printed_bytes(limit)
                ));
            }
            on_disk(job, None, plan, &rooms, progress)
        }
        Err(why) if job.keep_sketches => sketches_stay(format!("a run that can go on disk; {why}")),
        Err(why) if job.memory.is_some_and(|memory| held > memory) => {
            let expected =
                format!("at least {}, the estimate for these documents; {why}", printed_bytes(held));
            Err(Error::parameter("memory", printed_bytes(limit), expected))
        }
        _ => {
            if let Some(Left { path, .. }) = left {
                let shown = printable_path(&path);
                progress.note(&format!(
                    "{shown} is of another run, which was interrupted or kept its sketches. It stays unless this one needs the \
                     disk; delete it unless that run is to resume, or its sketches are wanted"
                ));
            }
            dedup_files(
                &Job { expected: Some(plan.memory), ..job.clone() },
                Some(plan.files),
                begun,
                progress,
            )
        }
    }
}

/// Runs [`dedup`] on disk, whatever memory is expected to be needed.
///
/// # Errors
/// As [`dedup`]; and if what was asked for cannot go on disk.
pub fn dedup_on_disk(job: &Job, progress: &dyn Progress) -> Result<Summary> {
    sweep_beside(&job.out);
    job.settings.check()?;
    let (plan, rooms) = planned_on_disk(job)?;
    on_disk(job, None, plan, &rooms, progress)
}

/// Gives the result of a run with a higher threshold than an earlier one, and with the bands of that one, from the
/// sketches that it kept ([`Job::keep_sketches`]). `earlier` is the job of that run, whose result is in its `out`;
/// `job` is the same with another threshold and another `out`, and may write other outputs.
///
/// # Errors
/// If pairs were not verified, the threshold is lower, the sketches are not there, or the input has changed since; and
/// as [`dedup_on_disk`].
pub fn rethreshold(earlier: &Job, job: &Job, progress: &dyn Progress) -> Result<Summary> {
    let refuse = |expected: String| Err(Error::parameter("result", earlier.out.display(), expected));
    let [from, to] = [earlier, job].map(|job| job.settings.verification.threshold());
    let Some((from, to)) = from.zip(to) else {
        return refuse("one whose pairs were verified, which --verify none does not".to_owned());
    };
    if !(from..=1.0).contains(&to) {
        let expected = format!("{from} to 1; a threshold below that of the result takes a new run");
        return Err(Error::parameter("similarity", to, expected));
    }
    sweep_beside(&job.out);
    output::spare(&job.out, [&*earlier.out])?;
    let (plan, rooms) = planned_on_disk(job)?;
    let real = place_of(&earlier.out).map_err(|error| Error::io(&earlier.out, error))?;
    if !left_beside(&real, earlier, &plan.files)?.is_some_and(|left| left.is_of_job) {
        let place = working_place(&real);
        return refuse(format!(
            "one whose input is as it was, and whose sketches are in {}. Run dedup with the new threshold",
            printable_path(&place)
        ));
    }
    on_disk(job, Some((earlier, &real)), plan, &rooms, progress)
}

/// The plan of a run that must go on disk, and the memory of its threads.
fn planned_on_disk(job: &Job) -> Result<(DiskPlan, Rooms)> {
    let limit = job.memory.unwrap_or_else(memory_share);
    let (plan, can) = planned(job, limit)?;
    let rooms = can
        .map_err(|why| Error::parameter("memory", printed_bytes(limit), format!("a run that fits; {why}")))?;
    Ok((plan, rooms))
}

/// The files of a run, and what is known of it before they are read.
struct DiskPlan {
    files: Against,
    expected: Estimate,
    memory: MemoryReport,
}

/// The files of a job, and the memory that their documents are expected to take, of the `limit` bytes there are. Also
/// the memory of threads for documents while they are sketched; if the job cannot go on disk, the reason for that.
fn planned(job: &Job, limit: u64) -> Result<(DiskPlan, Result<Rooms, String>)> {
    let files = all_inputs(job)?;
    let options = job.with_threads(|| job.read_options())?;
    if let Some(memory) = job.memory {
        // The first documents are read for what is expected, and with them what a file has at its end.
        let read_ahead = read_ahead(files.inputs.iter(), options.threads);
        if read_ahead > memory
            && let Err(least) = Rooms::new(memory, options.threads, read_ahead, true)
        {
            let threads = counted(options.threads as u64, "thread", "threads");
            let expected = format!("at least {} for {threads}", printed_bytes(least));
            return Err(Error::parameter("memory", printed_bytes(memory), expected));
        }
    }
    let expected = Estimate::of(&files.inputs, &options).with_boilerplate(&job.ignored);
    let memory = MemoryReport {
        limit_bytes: limit,
        expected_documents: expected.documents,
        expected_bytes: expected.in_memory(&job.settings),
        ..MemoryReport::default()
    };
    let can = can_be_staged(job).and_then(|()| rooms(job, &files.inputs, &expected, limit));
    Ok((DiskPlan { files, expected, memory }, can))
}

/// The error is the reason why a job cannot go in stages.
fn can_be_staged(job: &Job) -> Result<(), String> {
    let settings = &job.settings;
    let refusals = [
        // An exact search lists them.
        (
            settings.all_pairs && settings.sketches.keyed().is_none(),
            "--all-pairs, unless with --method both or minhash",
        ),
        (job.save_frequencies.is_some(), "--save-frequencies"),
    ];
    match refusals.into_iter().find(|&(is_asked, _)| is_asked) {
        Some((_, what)) => Err(format!("on disk it cannot go with {what}")),
        None => can_be_joined(settings).map_err(|error| format!("on disk it cannot go: {error}")),
    }
}

/// The files whose rows are stored column by column.
fn columnar(inputs: &[Input]) -> impl Iterator<Item = &Input> {
    inputs.iter().filter(|input| input.format.is_columnar())
}

/// The memory of threads for documents while they are sketched. The error is the reason why `limit` bytes of memory are
/// too little for some stage.
fn rooms(job: &Job, inputs: &[Input], expected: &Estimate, limit: u64) -> Result<Rooms, String> {
    let sketched = sketched_bytes(bundles(inputs).len(), inputs.len());
    let held = held_of(expected.documents) + sketched;
    Budget::beside(limit, held_while_joined(&job.settings) * expected.documents + sketched)
        .map_err(|error| format!("it is not enough on disk either: {error}"))?;
    let rooms = expected.rooms(limit, job.memory.is_some()).map_err(|least| {
        let threads = if job.threads == 0 { rayon::current_num_threads() } else { job.threads };
        let threads = counted(threads as u64, "thread", "threads");
        format!("on disk it takes {} with {threads}; use that much, or fewer --threads", printed_bytes(least))
    })?;
    // Documents are copied one after the other, but the rows of a Parquet file are gathered before.
    let largest = columnar(inputs).max_by_key(|input| input.stored_bytes()).filter(|_| job.writes.kept);
    let at_once = if job.kept_files == KeptFiles::Each { inputs.len() } else { 1 };
    let needed = largest.map_or(0, |largest| expected.keeping(largest, at_once, held));
    match largest {
        Some(largest) if needed > limit => Err(format!(
            "on disk, writing what is kept of {} takes {}: cut it into several, or give --write without kept",
            printable_path(&largest.path),
            printed_bytes(needed)
        )),
        _ => Ok(rooms),
    }
}

/// The parts of a run for progress: sketch, join, cluster, and writing the results.
const PARTS: u32 = 4;

/// Progress that is passed on, and the most bytes that the working folder has had, which is measured now and then.
struct Watching<'a> {
    inner: &'a dyn Progress,
    work: &'a Path,
    most: AtomicU64,
    last: Mutex<Instant>,
}

impl Watching<'_> {
    fn look(&self) {
        self.most.fetch_max(bytes_below(self.work), Ordering::Relaxed);
    }
}

/// Bytes of the files below a folder; what goes away meanwhile does not count.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

impl Progress for Watching<'_> {
    fn begin(&self, stage: &str, total: u64, unit: &str) {
        self.look();
        self.inner.begin(stage, total, unit);
    }

    fn advance(&self, amount: u64) {
        self.inner.advance(amount);
        if let Ok(mut last) = self.last.try_lock()
            && last.elapsed() > Duration::from_millis(250)
        {
            *last = Instant::now();
            self.look();
        }
    }

    fn end(&self) {
        self.look();
        self.inner.end();
    }

    fn note(&self, message: &str) {
        self.inner.note(message);
    }

    fn part(&self, number: u32, of: u32) {
        self.inner.part(number, of);
    }
}

/// Runs a job on disk. With an earlier job and the path of its result, it takes the sketches that are beside that.
fn on_disk(
    job: &Job,
    earlier: Option<(&Job, &Path)>,
    plan: DiskPlan,
    rooms: &Rooms,
    progress: &dyn Progress,
) -> Result<Summary> {
    let folder = OutputFolder::begin(&job.out, job.force)?;
    let upload = Upload::of(job)?;
    check_saved(job)?;
    spare_inputs(job, &plan.files.inputs)?;
    let (sketched, place) = earlier.unwrap_or((job, folder.place()));
    let work = WorkingFolder::open(place, sketched, &plan.files)?;
    let shown = printable_path(work.path());
    if earlier.is_some() {
        // Sketches that were kept on purpose are not what an interrupted run has left.
        keep(None);
    } else if work.is_begun {
        progress.note(&format!("going on with what an earlier run has left in {shown}"));
    }
    sweep(work.path());
    let (most, last) = (AtomicU64::new(0), Mutex::new(Instant::now()));
    let watching = Watching { inner: progress, work: work.path(), most, last };
    let sketched = &sketched.settings;
    let run = StagedRun { job, sketched, plan: &plan, rooms, work: &work, watching: &watching };
    match job.with_threads(|| run.run(&folder, &Stages::new(&watching))).and_then(|done| done) {
        Ok(summary) => {
            // The result first: a run that is killed from here on has it.
            folder.finish()?;
            if earlier.is_some() {
                // Nothing to take away: the sketches are the earlier run's.
            } else if job.keep_sketches {
                keep(None);
                progress.note(&format!("the sketches are in {shown}"));
            } else if let Some(foreign) = work.remove()? {
                progress.note(&format!("{} is not simflip's and stays", printable_path(&foreign)));
            }
            upload.map_or(Ok(()), |upload| upload.put(&job.out, progress))?;
            Ok(summary)
        }
        // With more memory it may go without the folder, which would keep it on disk. An earlier run's stays.
        Err(error)
            if earlier.is_none()
                && !work.is_begun
                && (matches!(error, Error::NoDocuments(_)) || error.parameter_name() == Some("memory")) =>
        {
            work.remove()?;
            Err(error)
        }
        Err(error) => {
            if earlier.is_none() {
                progress.note(&format!("what was finished is {}", kept_messages(work.path())));
                keep(None);
            }
            Err(error)
        }
    }
}

struct StagedRun<'a> {
    job: &'a Job,
    /// The settings of the sketches, which may have a lower threshold.
    sketched: &'a Settings,
    plan: &'a DiskPlan,
    /// The memory of threads for documents while they are sketched.
    rooms: &'a Rooms,
    /// The folder of stages that a later run resumes.
    work: &'a WorkingFolder,
    watching: &'a Watching<'a>,
}

impl StagedRun<'_> {
    fn run(&self, out: &OutputFolder, stages: &Stages<'_>) -> Result<Summary> {
        let Self { job, plan: DiskPlan { files, expected, memory }, work, .. } = *self;
        let scratch = workplace(&work.path().join("tables"))?;
        let Against { inputs, new_files, both, passed_over } = files;
        let (settings, new_files, limit) = (&job.settings, *new_files, memory.limit_bytes);
        // What a part has freed lies about in the lists of threads that are gone.
        let part = |number| {
            give_back();
            self.watching.part(number, PARTS);
        };
        part(1);
        let boilerplate = self.boilerplate(stages)?.map(Arc::new);
        let left_out = boilerplate.as_ref().map(|boilerplate| BoilerplateReport {
            from: job.ignored.file().cloned(),
            ..BoilerplateReport::of(boilerplate)
        });
        let (Read { files: files_read, languages }, opened) = self.sketch(boilerplate, stages)?;
        let documents = opened.documents();
        let scores = unscored(&opened, &settings.keep)?;
        part(2);
        let (grouping, of_files) = (Grouping::of_settings(settings), self.of_files(&opened));
        let joining = stages.timed("join", documents, "documents", || {
            let joining = Joining::new(&opened, &grouping, &of_files, limit, self.watching)?;
            joining.run(Shard::default())?;
            Ok::<_, Error>(joining)
        })?;
        part(3);
        let clustered = stages.timed("clusters", documents, "documents", || {
            cluster::cluster_joined(&joining, &grouping, &of_files)
        })?;
        let assignments = cluster::open(&opened, &grouping)?.1;
        let (clusters, of_reference) =
            stages.run("cohesion", clustered.in_clusters, "documents", 0, |_| {
                cohesion::findings(&joining, &assignments)
            })?;
        drop(joining);
        part(4);
        let called = self.called(&opened)?;
        let pairs = cluster::pairs(&opened, &grouping)?;
        let (listed, new) = (pairs.len() / Edge::WIDTH as u64, opened.new_documents());
        let budget = Budget::beside(limit, held_of(documents) + opened.files_bytes())?;
        let lookup = stages.run("names", documents, "documents", 0, |_| {
            Lookup::new(&opened, &called, scratch.path(), budget.bytes / 2)
        })?;
        let repeated = lookup.repeated();
        let tables = Tables {
            folder: &opened,
            settings,
            pairs: &pairs,
            assignments: &assignments,
            lookup: RefCell::new(lookup),
            budget: Budget { bytes: budget.bytes / 2 },
            work: scratch.path(),
        };
        let mut sampler = Sampler::new(SHOWN_PAIRS, settings.seed);
        tables.each_pair()?.try_for_each(|pair| pair.map(|pair| sampler.add(&pair)))?;
        stages.run("write tables", listed, "pairs", 0, |_| write_tables(job, &tables, out.path()))?;
        let counted = stages.run("count", new, "documents", 0, |_| tables.counts(left_out))?;
        let (mut kept, mut places) = (vec![0; new_files], vec![None; new_files]);
        for (at, called) in called[..opened.new_inputs().count()].iter().enumerate() {
            kept[called.shard as usize] = counted.kept[at];
            places[called.shard as usize] = Some(at);
        }
        let by_input = InputDocuments::new(&opened, &assignments);
        let all = StagedKept::new(&by_input, places, &kept);
        let written = match job.writes.kept {
            true => stages.run("write kept documents", kept.iter().sum(), "documents", 0, |_| {
                tables.lookup.borrow_mut().release();
                let is_same = |id, text: &str| all.is_same(id, text);
                let (files, inputs, options) = (job.kept_files, &inputs[..new_files], &job.read_options());
                KeptJob { files, inputs, options, kept: &all, is_same: &is_same }.write(out.path())
            })?,
            false => corpus::Kept::default(),
        };
        let files = FileFindings::new(inputs, files_read, &kept, counted.origins, written);
        files.report_lost(stages.progress());
        let files = files.against(job, *both, || AgainstReport {
            documents: clustered.reference_documents,
            exact: clustered.duplicates_of_reference,
            near: of_reference.removed - clustered.duplicates_of_reference,
            clusters: of_reference.clusters,
            documents_in_clusters: of_reference.members,
            ..AgainstReport::default()
        });
        self.watching.look();
        let files = FileFindings {
            languages,
            not_read: passed_over.clone(),
            repeated,
            boilerplate: counted.boilerplate,
            scores,
            memory: Some(MemoryReport {
                on_disk: true,
                expected_disk_bytes: Some(expected.disk(settings).most() as u64),
                disk_bytes: Some(self.watching.most.load(Ordering::Relaxed)),
                ..memory.clone()
            }),
            fingerprint: (self.sketched == settings).then(|| work.fingerprint.clone()),
            ..files
        };
        let findings = Findings {
            files,
            documents: [documents, new],
            few: counted.few,
            counts: Counts {
                exact_duplicates: clustered.exact_duplicates,
                near_duplicates: clustered.removed - clustered.exact_duplicates,
                kept: new - clustered.removed,
                removed: clustered.removed,
                removed_text_bytes: counted.removed_text_bytes,
                pairs_found: listed,
                pairs_written: listed,
                clusters: clustered.clusters,
                documents_in_clusters: clustered.in_clusters,
            },
            clusters,
            sample: sampler.sample(),
            searched: clustered.statistics.searched(settings, clustered.compared),
            verified: Some(Verified::from(clustered.statistics)),
            recall_estimate: clustered.recall_estimate,
        };
        findings.write_report(job, inputs, tables.shown(&findings.shown())?, out, stages)
    }

    /// The boilerplate that is left out, saved where the job says. The lines that were counted stay in the working
    /// folder: a later run does not read all documents for them again.
    fn boilerplate(&self, stages: &Stages<'_>) -> Result<Option<Boilerplate>> {
        let (job, inputs) = (self.job, &self.plan.files.inputs);
        let by = match &job.ignored {
            Ignored::None => return Ok(None),
            Ignored::OfFile(path) => return boilerplate::load(path).map(Some),
            Ignored::Counted(by) => by.clone(),
        };
        let place = self.work.path().join(BOILERPLATE);
        let counted = match boilerplate::load(&place) {
            Ok(counted) => counted,
            Err(_) => {
                let most = self.rooms.most();
                let (counted, too_long) = count_boilerplate(inputs, by, &job.read_options(), most, stages)?;
                if let Some((at, record)) = too_long {
                    return Err(not_read(self.rooms, &inputs[at], record));
                }
                boilerplate::save(&counted, &place)?;
                counted
            }
        };
        job.save_boilerplate.iter().try_for_each(|path| boilerplate::save(&counted, path))?;
        Ok(Some(counted))
    }

    /// Sketches new files and reference files, each into a folder. Gives the outcome of reading all of them in their
    /// order, with the languages of new documents alone, and the sketches.
    fn sketch(&self, boilerplate: Option<Arc<Boilerplate>>, stages: &Stages<'_>) -> Result<(Read, Folder)> {
        let Self { watching, plan, .. } = self;
        let Against { inputs, new_files, passed_over, .. } = &plan.files;
        let (new, old) = inputs.split_at(*new_files);
        let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
        let [of_new, of_reference] = FOLDERS.map(|name| self.work.path().join(name));
        watching.begin("sketch", stored.max(1), "bytes");
        let read = stages.timed("sketch", 0, "documents", || {
            let mut read = self.sketch_into(&of_new, new, &boilerplate)?;
            if !old.is_empty() {
                read.files.extend(self.sketch_into(&of_reference, old, &boilerplate)?.files);
            }
            Ok::<_, Error>(read)
        });
        watching.end();
        let read = read?;
        let sum = |of: fn(&FileReading) -> u64| read.files.iter().map(of).sum();
        stages.amend(sum(|file| file.documents), sum(|file| file.text_bytes));
        passed_over.message().iter().for_each(|message| stages.progress().note(message));
        check_documents(&read.files, *new_files, stages.progress())?;
        let of_reference = if old.is_empty() { Vec::new() } else { vec![of_reference] };
        let opened = Folder::open_against(&of_new, &of_reference)?;
        let threshold = self.job.settings.verification.threshold();
        Ok((read, threshold.into_iter().fold(opened, Folder::with_threshold)))
    }

    fn sketch_into(
        &self,
        folder: &Path,
        inputs: &[Input],
        boilerplate: &Option<Arc<Boilerplate>>,
    ) -> Result<Read> {
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
        sweep(folder);
        let job = self.job;
        let sketch = SketchJob {
            options: job.read_options(),
            out: folder.to_path_buf(),
            // What a machine that went down has corrupted is made again.
            force: true,
            settings: self.sketched.clone(),
            boilerplate: boilerplate.clone(),
            ..SketchJob::default()
        };
        sketch_files(&sketch, inputs, self.rooms, self.watching)
    }

    /// The inputs of a folder of sketches, in the order of [`Folder::inputs`], each with its position in the run's
    /// list.
    fn inputs_of(&self, folder: &Folder) -> Vec<(u32, &Input)> {
        let shards: BTreeMap<String, (u32, &Input)> = (0..)
            .zip(&self.plan.files.inputs)
            .map(|(at, input)| (input.known_by().to_string_lossy().into_owned(), (at, input)))
            .collect();
        folder.inputs.iter().filter_map(|input| shards.get(&input.mark.path[..]).copied()).collect()
    }

    /// The facts of the inputs of a folder of sketches on which keep order and quotas depend.
    fn of_files(&self, folder: &Folder) -> OfFiles {
        let inputs = self.inputs_of(folder);
        let inputs = || inputs.iter().map(|&(_, input)| input);
        let scores = match self.job.settings.keep {
            Keep::InputOrder => scores_of_files(&self.job.inputs, inputs()),
            _ => Vec::new(),
        };
        OfFiles::new(inputs().map(|input| &*input.path), scores)
    }

    /// The name in results of each input of a folder of sketches.
    fn called(&self, folder: &Folder) -> Result<Vec<InputName>> {
        let called = self.inputs_of(folder).into_iter();
        let called: Vec<InputName> =
            called.map(|(shard, input)| InputName { name: input.path.clone(), shard }).collect();
        // Names that are no UTF-8 may lose their order, and then documents would be numbered otherwise.
        if called.len() < folder.inputs.len() || !called.is_sorted_by_key(|called| called.shard) {
            let expected = "paths in UTF-8, where memory does not hold all documents";
            return Err(Error::parameter("input", self.job.inputs[0].display(), expected));
        }
        Ok(called)
    }
}
