//! Has this page been seen before, or one that is nearly the same? A crawler asks this page by page while the index
//! grows. Pages are near if [`crate::core::dedup`] calls them near. [`crate::core::index`] compares them in memory;
//! this module keeps them in files.
//!
//! An index is a folder: a snapshot of all pages, a log of what has changed since, and a lock. One process writes,
//! and has the lock before it gives its first answer; any number of others read meanwhile. Memory holds sketches and
//! times, and for each key (a band hash) its pages. Names of pages, and the keys of a page, are in the files alone.
//!
//! A [`Request`] asks about a page by the page's name, and may have a name of its own. The answer, a [`Reply`], goes
//! to a *reader*, such as a connection, and is remembered so that it can be given again. In memory a stored page has
//! a number, a `Document`, until it is removed.
//!
//! # What is remembered when something fails
//!
//! A page is answered in this order:
//!
//! 1. the page and the answer to it are appended to the log ([`Seen::commit`]), with `fsync` down to the disk;
//! 2. the answer goes out;
//! 3. that it went out is appended ([`Seen::sent`]), or that it did not ([`Seen::withdraw`]), which takes the page
//!    back.
//!
//! So an answer that was given is never forgotten. That it went out does not say that it arrived: it may have stood in
//! a pipe or a socket whose reader died. So there is one rule for all readers: an answer is *in doubt* as long as
//! nothing says that it arrived. What says so is the next request of its reader ([`Seen::heard`]), or an end of the
//! index in good order ([`Seen::close`]). Where an index was not closed, as its process was killed or its reader
//! went away, the latest [`LATEST`] answers are in doubt. Asked about the same text under the same name of the page,
//! the index gives an answer in doubt once again, instead of calling the page the same as itself. The answers to the
//! last [`REQUESTS`] requests that have names of their own are remembered in any case. A caller that has the
//! answers in its own process says so by [`Seen::delivered`].

pub(crate) mod answers;
mod log;
mod places;
mod record;
mod remembered;
mod snapshot;
mod whole;

#[doc(hidden)]
pub use answers::COLUMNS;
#[doc(hidden)]
pub use log::Unsynced;
#[doc(hidden)]
pub use remembered::LATEST;
pub use remembered::REQUESTS;
#[doc(hidden)]
pub use snapshot::{Finished, Snapshot};

use crate::atomic_write::{folder_of, is_unfinished, sweep};
use crate::error::{Error, Result};
use crate::format::wrong;
use crate::hash::text_digest;
use crate::inspection::Inspection;
use crate::settings::{Settings, Sketches};
use crate::sketch::{Facts, Sketch, SketchValue};
use log::{Log, Part, Passed};
use places::{LogPlace, OpenFiles};
use record::Record;
use remembered::{Answer, Remembered, RememberedAnswer, Standing, key_of_page};
use serde::{Deserialize, Serialize};
use simflip_core::id::{Document, Id};
use simflip_core::index::{Index, StoredTables};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whole::Whole;

/// The longest name of a page or of a request, in bytes. [`Request::check`] refuses longer ones.
pub const LONGEST_NAME: usize = 1 << 16;

/// The log is put into a snapshot when it has more bytes than this, and more than the last snapshot.
const LONG_LOG: u64 = 8 << 20;

/// The most bytes of logs that [`Seen::logs_name`] searches for names. Longer logs count as having them.
const SEARCHED: u64 = 64 << 20;

/// The digest of no page. A removal has it where remembered answers alone had the removed names.
const NO_PAGE: u128 = u128::MAX;

/// Pages of an import that are committed together.
const IMPORTED: usize = 1 << 12;

/// Pages whose places [`Seen::end_snapshot`] moves to the new snapshot in one call.
const MOVED: usize = 1 << 14;

/// The file of an index that its writer has locked.
const LOCK: &str = "lock";

/// The settings by which all pages of an index are sketched and compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenParams {
    /// The settings that decide which pages are near ([`Index::new`] says which settings an index can have).
    pub settings: Settings,
    /// The [`checksum`](crate::format::checksum) of the file of document frequencies; `None` if no weight needs one.
    pub frequencies: Option<String>,
}

/// The kind of an answer about a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerKind {
    /// No stored page was found that is the same or near. One may have been missed by probes, or where [`Reply::more`]
    /// is true.
    #[default]
    New,
    /// A page near it is stored and not stale. A page with the same text is not stored, or is stale.
    Near,
    /// A page with the same text, byte for byte, is stored and not stale.
    Same,
    /// Pages that are near or the same are stored, but all were last seen before [`Request::fresh_from`].
    Stale,
}

impl AnswerKind {
    /// All kinds, in the order of their numbers in files.
    pub const ALL: [Self; 4] = [Self::New, Self::Near, Self::Same, Self::Stale];

    /// The word for it in output, such as `new`.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Near => "near",
            Self::Same => "same",
            Self::Stale => "stale",
        }
    }
}

/// The answer of an index about a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The answer in a word.
    pub kind: AnswerKind,
    /// The name of the stored page that is the same or the most similar; of those that are not stale, if there are
    /// some. `None` for a new page. A remembered answer loses the name, and nothing else, when that page is removed.
    pub earlier: Option<Arc<str>>,
    /// When that page was last seen before this request, in milliseconds since 1970; 0 if there is none.
    pub seen: u64,
    /// Bits, of 64, in which the SimHashes of the two pages differ; 0 for the same text, or if there is none.
    pub distance: u32,
    /// The similarity of the two pages, as verification measures it, 0 to 1; 1 for the same text, 0 if there is none.
    /// Without verification it is the cosine that `distance` estimates.
    pub similarity: f32,
    /// The number of stored pages that are near, stale ones among them; 1 for the same text, since others do not count
    /// then.
    pub near: u32,
    /// True if more pages than `near` may be near. Not all were compared, as more than 256 share a key, or thousands
    /// have a SimHash within the distance.
    pub more: bool,
    /// True if the answer was given or may have been given before, to the same request.
    pub again: bool,
}

/// A question about a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The name of the page, its URL for example.
    pub name: &'a str,
    /// The name of the request, if it has one. Sent again with the same name and text, it gets the same answer, while
    /// it is among the last [`REQUESTS`].
    pub id: Option<&'a str>,
    /// When the page was seen, in milliseconds since 1970. A stored page keeps the latest of its times.
    pub seen: u64,
    /// Pages last seen before this time, in milliseconds since 1970, are stale; 0 makes none stale.
    pub fresh_from: u64,
    /// The number of the reader of the answer, such as a connection's, by which it can say that it has
    /// [heard](Seen::heard) the answer; 0 for a reader that cannot.
    pub reader: u64,
}

impl Request<'_> {
    /// Refuses names that are too long to be kept.
    ///
    /// # Errors
    /// If the name of the page or that of the request is longer than [`LONGEST_NAME`].
    pub fn check(&self) -> Result<()> {
        let longest = self.name.len().max(self.id.map_or(0, str::len));
        if longest <= LONGEST_NAME {
            return Ok(());
        }
        let expected = format!("a name of a page or request of up to {LONGEST_NAME} bytes");
        Err(Error::parameter("name", format!("of {longest} bytes"), expected))
    }

    /// The key under which its answer is remembered, and the standing that the answer gets.
    fn key(&self) -> (String, Standing) {
        match self.id {
            Some(id) => (format!("request {id}"), Standing::Named),
            None => (key_of_page(self.name), Standing::Given(self.reader)),
        }
    }
}

/// The keys of answers that went out together. They are for [`Seen::heard`] or [`Seen::unheard`], when the caller
/// knows whether the answers arrived. An answer given again to a request with a name of its own is not among them.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct GivenAnswers(Vec<Arc<str>>);

impl GivenAnswers {
    /// Number of answers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A page that was stored or asked about, and nothing has said yet that its answer went out.
#[derive(Debug)]
struct Undelivered {
    undo: Undo,
    /// True if the log has a record of it.
    logged: bool,
}

/// The state of reading files.
#[derive(Debug, Default)]
struct Replay {
    /// For each page whose answer had not gone out, what takes it back, as far as that is known.
    undelivered: Vec<Undo>,
    /// Pages of successive removals, which leave memory together.
    removed: Vec<Document>,
    /// Removals, of which the files hold traces.
    removals: u64,
    /// The number of answers that are in doubt because the index was not closed.
    doubts: usize,
}

/// The keys of remembered answers that name removed pages.
#[derive(Debug, Default)]
struct NamingEntries {
    /// Answers to questions about such a page.
    answers: Vec<Arc<str>>,
    /// Answers about other pages that name such a page as the earlier one.
    names: Vec<Arc<str>>,
}

/// The former state, which takes back that a page was stored or asked about.
#[derive(Debug, Default)]
struct Undo {
    page: Option<FormerPage>,
    /// The key of the answer, and the answer that stood under it before.
    answer: Option<(Arc<str>, Option<Answer>)>,
}

/// The former state of a page: it was not stored, or was last seen at an earlier time.
#[derive(Debug)]
enum FormerPage {
    NotStored(Document),
    Seen(Document, u64),
}

impl Undo {
    /// The key of the answer that it takes back, if it takes one back.
    fn key(self) -> Option<Arc<str>> {
        self.answer.map(|(key, _)| key)
    }
}

/// The access to an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To ask only. Another process may write meanwhile; the pages are those stored when the index was opened.
    Read,
    /// To write and to ask. There is one writer at a time.
    Write {
        /// True if what is written must be on the disk before it is acknowledged, so that it outlives a failure of
        /// power and not just the end of the process.
        fsync: bool,
    },
}

/// An open index of seen pages. A writer ends by [`close`](Self::close); without it the latest answers are in doubt.
#[derive(Debug)]
pub struct Seen {
    folder: PathBuf,
    params: SeenParams,
    index: Index,
    /// By document: where its record stands, which has its name; 32 bits of a hash of the name; when it was last seen.
    places: Vec<LogPlace>,
    names: Vec<u32>,
    seen: Vec<u64>,
    files: OpenFiles,
    requests: Remembered,
    /// The parts that only a writer has.
    writer: Option<Writer>,
    /// Notes on how it was opened.
    notes: Vec<String>,
}

#[derive(Debug)]
struct Writer {
    log: Log,
    number: u64,
    /// Bytes of the last snapshot, and of the logs before this one that it does not hold.
    snapshot: u64,
    logged: u64,
    /// Bytes of logs from which on a snapshot is due.
    due: u64,
    /// True if the caller begins snapshots.
    by_hand: bool,
    fsync: bool,
    /// Frames that are not in the log yet.
    waiting: Vec<u8>,
    /// The pages that were asked about since answers were last delivered.
    undelivered: Vec<Undelivered>,
    /// The number of removals, and of those of which the files hold no trace any more.
    removals: u64,
    gone: u64,
    /// [`Remembered::left_behind`] when the last snapshot was begun, which has none of these answers.
    left_behind: u64,
    /// The file that says how long the log is.
    length: log::Length,
    /// Locked as long as it is open.
    _lock: Lock,
}

impl Seen {
    /// Opens the index in a folder. If there is none, a writer makes one whose pages are sketched and compared by
    /// `new`. An index that is there keeps its own settings, and `new` is not looked at.
    ///
    /// # Errors
    /// If there is none, and `access` is to read or none can be made. If another process writes to it, and `access` is
    /// to write. If it cannot be read, or is no index.
    pub fn open(folder: &Path, access: Access, new: Option<&SeenParams>) -> Result<Self> {
        let io = |error| Error::io(folder, error);
        match fs::metadata(folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(not_an_index(folder, "a file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(new) = new.filter(|_| access != Access::Read) else {
                    let expected = "an index; there is no such index";
                    return Err(Error::parameter("index", folder.display(), expected));
                };
                Index::of(&new.settings)?;
                if !folder_of(folder).is_dir() {
                    let expected =
                        format!("a folder in one that is there; {} is none", folder_of(folder).display());
                    return Err(Error::parameter("index", folder.display(), expected));
                }
                match fs::create_dir(folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io(error)),
                    _ => {}
                }
            }
            Err(error) => return Err(io(error)),
        }
        // Nothing is put into a folder of other things. Asked in this order: what another process has begun meanwhile
        // is among its parts.
        if !holds_nothing(folder)? && parts_of(folder)?.is_empty() {
            return Err(not_an_index(folder, "a folder of other things"));
        }
        let lock = (access != Access::Read).then(|| lock(folder)).transpose()?;
        // A writer that puts its log into a snapshot takes files away while others read.
        let mut tries = 0;
        let (mut seen, last, replay) = loop {
            match Self::load(folder, new, lock.is_some()) {
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && lock.is_none() && tries < 9 =>
                {
                    tries += 1;
                }
                loaded => break loaded?,
            }
        };
        if let (Some(lock), Access::Write { fsync }) = (lock, access) {
            seen.write_to(lock, last, replay, fsync)?;
        }
        Ok(seen)
    }

    /// Reads the files of an index. Gives besides what was found in the last file, and the state after reading.
    fn load(
        folder: &Path,
        new: Option<&SeenParams>,
        writes: bool,
    ) -> Result<(Self, Option<LastFile>, Replay)> {
        let parts = parts_of(folder)?;
        let snapshot = last_snapshot(&parts);
        let from = snapshot.map_or(0, Part::number);
        let logs = parts.iter().copied().filter(|part| matches!(part, Part::Log(number) if *number >= from));
        let read: Vec<Part> = snapshot.into_iter().chain(logs).collect();
        let params = match (read.first(), new) {
            (Some(first), _) => log::params_of(&folder.join(first.name()))?,
            (None, Some(new)) if holds_nothing(folder)? => new.clone(),
            _ => return Err(not_an_index(folder, "a folder of other things")),
        };
        let mut seen = Self {
            folder: folder.to_path_buf(),
            index: Index::of(&params.settings)?,
            params,
            places: Vec::new(),
            names: Vec::new(),
            seen: Vec::new(),
            files: OpenFiles::default(),
            requests: Remembered::default(),
            writer: None,
            notes: Vec::new(),
        };
        // Looked at before the log, which another process may be lengthening.
        let noted = log::Length::noted(folder);
        let (mut replay, mut last) = (Replay::default(), None);
        for part in read.iter().copied() {
            let path = folder.join(part.name());
            seen.files.open(part, &path)?;
            if let Part::Snapshot(_) = part
                && let Some(passed) = seen.fill(&path, part)?
            {
                seen.requests.are_written();
                seen.report_passed(&path, part, &passed, writes);
                last = Some(LastFile { part, passed });
                continue;
            }
            let (params, mut passed) = log::read(&path, |record, offset| {
                seen.take(record, LogPlace::new(part, offset), &mut replay)?;
                if let Part::Snapshot(_) = part {
                    replay.undelivered.clear();
                    seen.requests.are_written();
                }
                Ok(())
            })?;
            if let Some((_, length)) = noted.filter(|(noted, _)| *noted == part) {
                let found = fs::metadata(&path).map_or(length, |found| found.len());
                passed.missing = length.saturating_sub(found);
            }
            seen.let_go(&mut replay)?;
            if params != seen.params {
                let advice = "the folder holds files of two indexes";
                return Err(wrong(&path, "the settings", "those of the other files", "others", advice));
            }
            seen.report_passed(&path, part, &passed, writes);
            last = Some(LastFile { part, passed });
        }
        // A writer that goes on meanwhile notes its next log before it takes this one away.
        if let Some((part, length)) = noted.filter(|(part, _)| !read.contains(part) && part.number() >= from)
            && length > part.head(&seen.params).len() as u64
            && !folder.join(part.name()).exists()
            && log::Length::noted(folder) == noted
        {
            seen.notes.push(format!(
                "{}: the file is gone, which had at least {length} bytes; pages that were stored there are gone, pages \
                 that were removed there are back",
                folder.join(part.name()).display()
            ));
        }
        replay.doubts = seen.requests.doubt_given();
        if replay.doubts > 0 && writes {
            seen.notes.push(format!(
                "{}: the last process that wrote to it did not close it, so nobody knows whether its latest {} answers arrived; \
                 asked about these pages again, the index answers as it did",
                folder.display(),
                replay.doubts
            ));
        }
        seen.index.lay_out();
        Ok((seen, last, replay))
    }

    /// Notes what is wrong with a file.
    fn report_passed(&mut self, path: &Path, part: Part, passed: &Passed, writes: bool) {
        let path = path.display();
        for (offset, bytes) in &passed.corrupt {
            self.notes.push(format!(
                "{path}, byte {offset}: {bytes} bytes are corrupt and were passed over; what stood there is forgotten: pages \
                 that were stored are gone, pages that were removed are back"
            ));
        }
        if passed.missing > 0 {
            self.notes.push(format!(
                "{path}: the file was truncated: at least {} bytes are missing at its end; pages that were stored there are gone, \
                 pages that were removed there are back",
                passed.missing
            ));
        } else if passed.cut > 0 && writes {
            self.notes.push(format!(
                "{path}: the process that wrote it was ended within a record, whose {} bytes are left out, as its answer \
                 never went out; or the file was truncated, by less than 64 kB",
                passed.cut
            ));
        }
        if let Part::Snapshot(_) = part {
            let promised = passed.promised.unwrap_or_default();
            let lost = promised.saturating_sub(self.index.len() as u64);
            if passed.promised.is_none() {
                self.notes.push(format!("{path}: the end is missing; pages that stood there are forgotten"));
            } else if lost > 0 {
                self.notes.push(format!("{path}: {lost} of {promised} pages are forgotten"));
            }
        }
    }

    /// Takes over a snapshot at once, unless something is wrong with it: with the tables that stand in it or, should
    /// they not fit, with tables made anew.
    fn fill(&mut self, path: &Path, part: Part) -> Result<Option<Passed>> {
        for wanted in [true, false] {
            let Some(whole) = whole::read(path, part, self.index.tables(), wanted)? else { break };
            let Whole { params, columns, names, seen, places, tables, others, passed } = whole;
            let tables = tables.as_ref().map(|tables| tables as &dyn StoredTables);
            if params == self.params && self.index.fill(columns, tables)? {
                if !wanted {
                    let path = path.display();
                    self.notes
                        .push(format!("{path}: its tables are corrupt; they were made anew from the pages"));
                }
                (self.places, self.names, self.seen) = (places, names, seen);
                for record in others {
                    // None of them is a page.
                    self.take(record, LogPlace::default(), &mut Replay::default())?;
                }
                return Ok(Some(passed));
            }
            if tables.is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// Makes the change of a record that was read, which stands at `place`.
    fn take(&mut self, record: Record, place: LogPlace, replay: &mut Replay) -> Result<()> {
        if let Record::Removed { digest } = record {
            replay.removals += 1;
            replay.removed.extend(self.index.find(digest));
            return Ok(());
        }
        self.let_go(replay)?;
        let (mut undo, undelivered) = (Undo::default(), &mut replay.undelivered);
        match record {
            Record::Removed { .. } | Record::Table { .. } | Record::End { .. } => {}
            Record::Delivered => {
                self.requests_heard(undelivered.drain(..).filter_map(Undo::key));
            }
            Record::Sent => undelivered.clear(),
            Record::Closed => {
                undelivered.clear();
                self.requests.take_given();
            }
            Record::NotClosed => {
                undelivered.clear();
                self.requests.doubt_given();
            }
            Record::Withdrawn { kept, taken } => {
                // Where a corrupt record had said that pages before were delivered, those are not among them.
                let before = undelivered.len().saturating_sub(taken as usize);
                let withdrawn = undelivered.split_off(before.max(kept as usize).min(undelivered.len()));
                self.undo(withdrawn.into_iter());
                undelivered.clear();
            }
            Record::Settled { key } => {
                let was = self.requests.stand(&key, Standing::Given(0));
                undo.answer = was.map(|was| (key, Some(was)));
                undelivered.push(undo);
            }
            Record::Page { facts, value, name, seen, asked } => {
                let document = self.index.restore(&facts, value.as_ref())?;
                self.know(document, place, &name, seen);
                undo.page = Some(FormerPage::NotStored(document));
                undo.answer = asked.map(|asked| self.remember(asked));
                undelivered.push(undo);
            }
            Record::Again { digest, seen, asked } => {
                undo.page = self.index.find(digest).map(|document| self.touch(document, seen));
                undo.answer = asked.map(|asked| self.remember(asked));
                undelivered.push(undo);
            }
            Record::Request(RememberedAnswer { key, answer }) => {
                self.requests.insert(key, answer);
            }
        }
        Ok(())
    }

    /// Forgets the removed pages that [`Replay::removed`] has, and answers that name them.
    fn let_go(&mut self, replay: &mut Replay) -> Result<()> {
        let mut removed = std::mem::take(&mut replay.removed);
        if removed.is_empty() {
            return Ok(());
        }
        removed.sort_unstable_by_key(|document| document.number());
        removed.dedup();
        // A name that cannot be read is reported where it is wanted.
        let naming = self.entries_naming(&removed, &HashSet::new()).unwrap_or_default();
        self.forget_answers(naming);
        self.forget(&removed);
        Ok(())
    }

    /// Gets ready to write, with the lock.
    fn write_to(&mut self, lock: Lock, last: Option<LastFile>, replay: Replay, fsync: bool) -> Result<()> {
        // What a process that ended while it wrote a snapshot has left, with names that may be removed by now.
        sweep(&self.folder);
        let Replay { removals, doubts, .. } = replay;
        let corrupt = last.as_ref().is_some_and(|last| !last.passed.corrupt.is_empty());
        let (number, length) = match last {
            Some(LastFile { part: Part::Log(number), passed }) => (number, passed.whole),
            other => {
                // A new index, or one whose last process ended between a snapshot and its log.
                let number = other.map_or(1, |last| last.part.number());
                let part = Part::Log(number);
                let length = log::begin(&self.folder.join(part.name()), part, &self.params)?;
                sync_folder(&self.folder)?;
                (number, length)
            }
        };
        let path = self.folder.join(Part::Log(number).name());
        let log = Log::open(&path, length, fsync)?;
        self.files.open(Part::Log(number), &path)?;
        // A process that ended while it wrote a snapshot leaves the one before it, and more than one log.
        let parts = parts_of(&self.folder)?;
        let last = last_snapshot(&parts);
        let bytes = |part: &Part| fs::metadata(self.folder.join(part.name())).map_or(0, |found| found.len());
        let snapshot = last.as_ref().map_or(0, bytes);
        let older = parts
            .iter()
            .filter(|part| matches!(part, Part::Log(n) if *n < number && *n >= last.map_or(0, Part::number)));
        self.writer = Some(Writer {
            log,
            number,
            snapshot,
            logged: older.map(bytes).sum(),
            due: LONG_LOG.max(snapshot),
            by_hand: false,
            fsync,
            waiting: Vec::new(),
            undelivered: Vec::new(),
            removals,
            gone: 0,
            left_behind: 0,
            length: log::Length::open(&self.folder, Part::Log(number), length)?,
            _lock: lock,
        });
        self.take_old_parts_away();
        if doubts > 0 {
            let mut frame = Vec::new();
            Record::NotClosed.frame(&mut frame);
            self.writer()?.log.append(&frame)?;
        }
        if corrupt {
            // So that corruption is reported once, and what is left is whole again.
            self.snapshot()?;
        }
        Ok(())
    }

    /// The settings by which pages are sketched and compared.
    pub fn params(&self) -> &SeenParams {
        &self.params
    }

    /// Sentences on how the index was opened: corruption and, if it is open to write, answers in doubt. Empty if all
    /// was in order.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Number of pages stored.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if no page is stored.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The index in memory, without names and times.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Bytes in memory, about: of the index with its sketches; of the sketches alone; of times, and places of names.
    #[doc(hidden)]
    pub fn bytes(&self) -> (usize, usize, usize) {
        let (index, sketches) = self.index.bytes();
        let places =
            self.places.capacity() * size_of::<LogPlace>() + self.names.capacity() * size_of::<u32>();
        (index, sketches, places + self.seen.capacity() * size_of::<u64>())
    }

    /// Bytes of a writer's files: of the snapshot, and of the logs that it does not hold. Zeros for one who reads.
    #[doc(hidden)]
    pub fn stored_bytes(&self) -> (u64, u64) {
        self.writer.as_ref().map_or((0, 0), |writer| (writer.snapshot, writer.logged + writer.log.length()))
    }

    /// The name of a stored page.
    ///
    /// # Errors
    /// If it cannot be read from the files, or if no such page is stored.
    pub fn name(&self, document: Document) -> Result<Arc<str>> {
        let (place, digest) = self.place(document)?;
        match self.waiting(place, digest).and_then(record::name_of) {
            Some(name) => Ok(name.into()),
            None => self.files.name(place, digest),
        }
    }

    /// Passes the bytes of a stored page's record to `take`, and gives its result. `None` of it becomes an error.
    fn page<T>(&self, document: Document, take: impl FnOnce(&[u8]) -> Option<T>) -> Result<T> {
        let (place, digest) = self.place(document)?;
        let Some(frame) = self.waiting(place, digest) else {
            return self.files.page(place, digest, take);
        };
        let expected = "one whose record can be read";
        take(&frame[record::HEAD..]).ok_or_else(|| Error::parameter("document", document.number(), expected))
    }

    /// Finds the record of a stored page, and the digest of its text.
    fn place(&self, document: Document) -> Result<(LogPlace, u128)> {
        match (self.places.get(document.index()), self.index.digest(document)) {
            (Some(&place), Some(digest)) => Ok((place, digest)),
            _ => Err(Error::parameter("document", document.number(), "one that is stored")),
        }
    }

    /// The frame of a page at a place, if it is not in the log yet.
    fn waiting(&self, place: LogPlace, digest: u128) -> Option<&[u8]> {
        let writer = self.writer.as_ref().filter(|writer| place.is_in(Part::Log(writer.number)))?;
        let waits = place.offset().checked_sub(writer.log.length())?;
        record::page_in(writer.waiting.get(usize::try_from(waits).ok()?..)?, digest)
    }

    /// The answer about the page with this sketch. Nothing is stored or remembered; of the request,
    /// [`fresh_from`](Request::fresh_from) alone matters.
    ///
    /// # Errors
    /// For a sketch of another kind than the index's, and if a name cannot be read.
    pub fn ask(&self, request: &Request<'_>, sketch: &Sketch) -> Result<Reply> {
        let mut answer = self.index.ask(sketch)?;
        let is_fresh = |document: Document| self.seen[document.index()] >= request.fresh_from;
        if let Some(same) = answer.same.filter(|&same| !is_fresh(same)) {
            // It is stale unless another page is near that is not.
            let near = self.index.near(sketch)?;
            if near.near.iter().any(|near| near.document != same && is_fresh(near.document)) {
                answer = near;
            }
        }
        if let Some(same) = answer.same {
            let kind = if is_fresh(same) { AnswerKind::Same } else { AnswerKind::Stale };
            return Ok(Reply {
                kind,
                earlier: Some(self.name(same)?),
                seen: self.seen[same.index()],
                similarity: 1.0,
                near: 1,
                ..Reply::default()
            });
        }
        let fresh = answer.near.iter().find(|near| is_fresh(near.document));
        let Some(nearest) = fresh.or(answer.near.first()) else {
            return Ok(Reply { more: answer.passed_over > 0, ..Reply::default() });
        };
        Ok(Reply {
            kind: if fresh.is_some() { AnswerKind::Near } else { AnswerKind::Stale },
            earlier: Some(self.name(nearest.document)?),
            seen: self.seen[nearest.document.index()],
            distance: nearest.distance,
            similarity: nearest.similarity,
            near: u32::try_from(answer.near.len()).unwrap_or(u32::MAX),
            more: answer.passed_over > 0,
            again: false,
        })
    }

    /// Answers about a page and stores it. If a page with the same text is stored, that one is seen again instead. A
    /// remembered answer about the same text is given again, and nothing is stored, if the request has a name or that
    /// answer may not have arrived. Give the answer after [`commit`](Self::commit). Then say that it
    /// [went out](Self::sent) or [arrived](Self::delivered), or [withdraw](Self::withdraw) it.
    ///
    /// # Errors
    /// For an index that is open to read, for a sketch of another kind than the index's, and for names that are
    /// [too long](Request::check).
    pub fn ask_and_add(&mut self, request: &Request<'_>, sketch: &Sketch) -> Result<Reply> {
        request.check()?;
        let (key, standing) = request.key();
        self.writer()?;
        let digest = sketch.facts.digest;
        let known = self.requests.get(&key);
        if let Some(known) = known.filter(|known| known.digest == digest && known.is_for(request.reader)) {
            let reply = Reply { again: true, ..known.reply.clone() };
            let (mut undo, logged) = (Undo::default(), standing != Standing::Named);
            if logged {
                let key: Arc<str> = key.into();
                undo.answer = Some((Arc::clone(&key), self.requests.stand(&key, standing)));
                self.change(Record::Settled { key })?;
            }
            self.writer()?.undelivered.push(Undelivered { undo, logged });
            return Ok(reply);
        }
        let reply = self.ask(request, sketch)?;
        let asked = Some(RememberedAnswer {
            key: key.into(),
            answer: Answer { digest, reply: reply.clone(), standing },
        });
        self.store(request, sketch.facts, Some(&sketch.value), asked)?;
        Ok(reply)
    }

    /// Stores a page without a question; the page with the same text is seen again instead, if there is one.
    ///
    /// # Errors
    /// As [`ask_and_add`](Self::ask_and_add).
    pub fn add(&mut self, request: &Request<'_>, sketch: &Sketch) -> Result<()> {
        self.store(request, sketch.facts, Some(&sketch.value), None)
    }

    fn store(
        &mut self,
        request: &Request<'_>,
        facts: Facts,
        value: Option<&SketchValue>,
        asked: Option<RememberedAnswer>,
    ) -> Result<()> {
        request.check()?;
        self.writer()?;
        let Request { name, seen, .. } = *request;
        let stored = self.index.len();
        let document = self.index.restore(&facts, value)?;
        let page = if self.index.len() == stored {
            let former = self.touch(document, seen);
            self.change(Record::Again { digest: facts.digest, seen, asked: asked.clone() })?;
            former
        } else {
            let writer = self.writer()?;
            let at = writer.log.length() + writer.waiting.len() as u64;
            let place = LogPlace::new(Part::Log(writer.number), at);
            self.know(document, place, name, seen);
            let value = value.filter(|_| self.index.is_sketched(document));
            record::frame_page(&facts, value, name, seen, asked.as_ref(), &mut self.writer()?.waiting);
            FormerPage::NotStored(document)
        };
        let undo = Undo { page: Some(page), answer: asked.map(|asked| self.remember(asked)) };
        self.writer()?.undelivered.push(Undelivered { undo, logged: true });
        Ok(())
    }

    /// Writes to the log what was stored since the last commit. What is committed outlives the process, and with
    /// `fsync` a failure of power.
    ///
    /// # Errors
    /// If it cannot be written. Then nothing of it is stored.
    pub fn commit(&mut self) -> Result<()> {
        if self.writer()?.waiting.is_empty() {
            return Ok(());
        }
        self.commit_by(Log::append)
    }

    fn commit_by<R>(&mut self, append: impl FnOnce(&mut Log, &[u8]) -> Result<R>) -> Result<R> {
        let writer = self.writer()?;
        let written = append(&mut writer.log, &writer.waiting);
        writer.length.grown(Part::Log(writer.number), writer.log.length());
        if written.is_err() {
            let undelivered = std::mem::take(&mut writer.undelivered);
            self.undo(undelivered.into_iter().map(|page| page.undo));
        }
        self.writer()?.waiting.clear();
        written
    }

    /// Says that the answers to all pages asked about so far went out. Whether they arrived is not known.
    ///
    /// # Errors
    /// If it cannot be noted; the answers are in doubt should the process die.
    #[doc(hidden)]
    pub fn sent(&mut self) -> Result<()> {
        self.note_unless_idle(Record::Sent)
    }

    /// Says that the answers to all pages asked about so far have arrived: for a caller that has them in its own
    /// process.
    ///
    /// # Errors
    /// As [`sent`](Self::sent).
    pub fn delivered(&mut self) -> Result<()> {
        self.note_unless_idle(Record::Delivered)
    }

    /// Notes what became of the answers, if any is on its way or anything waits for the log.
    fn note_unless_idle(&mut self, record: Record) -> Result<()> {
        let writer = self.writer()?;
        if writer.undelivered.is_empty() && writer.waiting.is_empty() {
            return Ok(());
        }
        self.note(record)?;
        self.shorten()
    }

    /// Notes what became of the answers that were on their way: they went out, or arrived.
    fn note(&mut self, record: Record) -> Result<()> {
        let writer = self.writer()?;
        record.frame(&mut writer.waiting);
        let frames = std::mem::take(&mut writer.waiting);
        writer.log.append(&frames)?;
        self.forget_undelivered(&record).map(drop)
    }

    fn forget_undelivered(&mut self, record: &Record) -> Result<GivenAnswers> {
        // The list keeps its memory: to take it anew for each request is felt.
        let undelivered = &mut self.writer()?.undelivered;
        let mut given = GivenAnswers(Vec::with_capacity(undelivered.len()));
        given.0.extend(undelivered.drain(..).filter_map(|page| page.undo.key()));
        if *record != Record::Delivered {
            return Ok(given);
        }
        self.requests_heard(given.0);
        Ok(GivenAnswers::default())
    }

    /// Forgets answers that have arrived.
    fn requests_heard(&mut self, keys: impl IntoIterator<Item = Arc<str>>) {
        for key in keys {
            self.requests.remove_if(&key, |known| known.standing != Standing::Named);
        }
    }

    /// Says that a reader has heard some answers of [`commit_and_send`](Self::commit_and_send): it asked something
    /// else, or ended in good order. They are forgotten, unless their requests have names, or another reader was given
    /// them since.
    #[doc(hidden)]
    pub fn heard(&mut self, reader: u64, answers: GivenAnswers) {
        let is_its = |answer: &Answer| answer.standing == Standing::Given(reader);
        for key in &answers.0 {
            self.requests.heard |= self.requests.remove_if(key, is_its).is_some();
        }
    }

    /// Says that a reader went away, and may not have heard some answers of
    /// [`commit_and_send`](Self::commit_and_send): they are in doubt.
    ///
    /// # Errors
    /// If it cannot be noted.
    #[doc(hidden)]
    pub fn unheard(&mut self, reader: u64, GivenAnswers(mut keys): GivenAnswers) -> Result<()> {
        let is_its = |known: &Answer| known.standing == Standing::Given(reader);
        keys.retain(|key| self.requests.get(key).is_some_and(is_its));
        let mut frames = std::mem::take(&mut self.writer()?.waiting);
        self.doubt(keys, &mut frames);
        self.writer()?.log.append(&frames)
    }

    /// Puts answers in doubt, and appends the frames that say so.
    fn doubt(&mut self, keys: Vec<Arc<str>>, frames: &mut Vec<u8>) {
        for key in keys {
            self.requests.stand(&key, Standing::InDoubt);
            if let Some(answer) = self.requests.get(&key).cloned() {
                Record::Request(RememberedAnswer { key, answer }).frame(frames);
            }
        }
    }

    /// Commits what was stored, and says that the answers have [arrived](Self::delivered), in one go.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    #[doc(hidden)]
    pub fn acknowledge(&mut self) -> Result<()> {
        self.commit_with(&Record::Delivered, Log::append).map(|_| ())
    }

    /// Commits what was stored, and says that the answers went [out](Self::sent), without waiting for the disk. Gives
    /// the answers, for [`heard`](Self::heard) or [`unheard`](Self::unheard). With `fsync`, gives besides what must be
    /// [brought to the disk](Unsynced::sync) before the answers go out; `None` if nothing was written. Others can use
    /// the index meanwhile. If that fails, nothing more may be stored.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    #[doc(hidden)]
    pub fn commit_and_send(&mut self) -> Result<(Option<Unsynced>, GivenAnswers)> {
        let (unsynced, given) = self.commit_with(&Record::Sent, Log::append_unsynced)?;
        Ok((unsynced.flatten(), given))
    }

    /// Commits what was stored, if there is anything, together with a record of what became of the answers.
    fn commit_with<R>(
        &mut self,
        record: &Record,
        append: impl FnOnce(&mut Log, &[u8]) -> Result<R>,
    ) -> Result<(Option<R>, GivenAnswers)> {
        let waiting = &mut self.writer()?.waiting;
        let mut committed = None;
        if !waiting.is_empty() {
            record.frame(waiting);
            committed = Some(self.commit_by(append)?);
        }
        let given = self.forget_undelivered(record)?;
        self.shorten()?;
        Ok((committed, given))
    }

    /// Puts a long log into a snapshot.
    fn shorten(&mut self) -> Result<()> {
        if !self.writer()?.by_hand && self.is_long() && self.snapshot().is_err() {
            // The log has everything.
            self.put_off();
        }
        Ok(())
    }

    /// Leaves it to the caller to begin a snapshot when the log [is long](Self::is_long).
    ///
    /// # Errors
    /// For an index that is open to read.
    #[doc(hidden)]
    pub fn snapshots_by_hand(&mut self) -> Result<()> {
        self.writer()?.by_hand = true;
        Ok(())
    }

    /// True if the log is so long that it should be put into a snapshot: longer than the last one and than 8 MiB, and
    /// not [put off](Self::put_off).
    #[doc(hidden)]
    pub fn is_long(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.logged + writer.log.length() > writer.due)
    }

    /// Puts off the next snapshot after one that failed: it is due when the log is twice as long as now.
    #[doc(hidden)]
    pub fn put_off(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.due = (writer.logged + writer.log.length()).saturating_mul(2);
        }
    }

    /// True if something was removed that the files still hold, until the next snapshot.
    #[doc(hidden)]
    pub fn has_traces(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.removals > writer.gone)
    }

    /// Says that, of the pages stored or asked about since answers last went out, the answers to the first `kept` went
    /// out. The others did not, and their pages are taken back.
    ///
    /// # Errors
    /// If it cannot be noted; the answers are then in doubt.
    #[doc(hidden)]
    pub fn withdraw(&mut self, kept: usize) -> Result<()> {
        let writer = self.writer()?;
        let mut undelivered = std::mem::take(&mut writer.undelivered);
        let kept = kept.min(undelivered.len());
        let records = |pages: &[Undelivered]| {
            u32::try_from(pages.iter().filter(|page| page.logged).count()).unwrap_or(u32::MAX)
        };
        let withdrawn =
            Record::Withdrawn { kept: records(&undelivered[..kept]), taken: records(&undelivered[kept..]) };
        let mut frame = std::mem::take(&mut writer.waiting);
        withdrawn.frame(&mut frame);
        let written = writer.log.append(&frame);
        self.undo(undelivered.drain(kept..).map(|page| page.undo));
        written
    }

    /// The names among these that no stored page has, sorted.
    ///
    /// # Errors
    /// If a name cannot be read.
    #[doc(hidden)]
    pub fn unknown<'n>(&self, names: &HashSet<&'n str>) -> Result<Vec<&'n str>> {
        let hashes: HashSet<u32> = names.iter().map(|name| hash_of(name)).collect();
        let mut unknown = names.clone();
        for document in self.index.documents() {
            if hashes.contains(&self.names[document.index()]) {
                unknown.remove(&*self.name(document)?);
            }
        }
        let mut unknown: Vec<&str> = unknown.into_iter().collect();
        unknown.sort_unstable();
        Ok(unknown)
    }

    /// Removes the pages of these names, and those last seen before a time, in milliseconds since 1970, 0 for none.
    /// Gives the number of removed pages. Their sketches, names and times leave the files with the next
    /// [`snapshot`](Self::snapshot). Remembered answers to questions about them are forgotten, and answers about other
    /// pages name them no more. The same holds for names of pages that are not stored, as another has their text.
    ///
    /// # Errors
    /// If a name cannot be read, or it cannot be noted; then they stay.
    pub fn remove(&mut self, names: &HashSet<&str>, before: u64) -> Result<usize> {
        self.commit()?;
        let hashes: HashSet<u32> = names.iter().map(|name| hash_of(name)).collect();
        let mut documents = Vec::new();
        for document in self.index.documents() {
            let at = document.index();
            let named = hashes.contains(&self.names[at]) && names.contains(&*self.name(document)?);
            if self.seen[at] < before || named {
                documents.push(document);
            }
        }
        let naming = self.entries_naming(&documents, names)?;
        let mut frames = Vec::new();
        for digest in documents.iter().filter_map(|&document| self.index.digest(document)) {
            Record::Removed { digest }.frame(&mut frames);
        }
        let mut removals = documents.len() as u64;
        if removals == 0
            && (!naming.answers.is_empty() || !naming.names.is_empty() || self.logs_name(names)?)
        {
            Record::Removed { digest: NO_PAGE }.frame(&mut frames);
            removals = 1;
        }
        let known =
            |key: &&Arc<str>| self.requests.get(key).is_some_and(|known| known.standing != Standing::Named);
        let unnamed: Vec<Arc<str>> = naming.answers.iter().filter(known).map(Arc::clone).collect();
        if !unnamed.is_empty() {
            if !self.writer()?.undelivered.is_empty() {
                self.note(Record::Sent)?;
            }
            unnamed.into_iter().for_each(|key| Record::Settled { key }.frame(&mut frames));
            Record::Delivered.frame(&mut frames);
        }
        let writer = self.writer()?;
        writer.log.append(&frames)?;
        writer.removals += removals;
        self.forget_answers(naming);
        self.forget(&documents);
        Ok(documents.len())
    }

    /// The remembered answers about `documents`, which are to be removed, or about `names`, and those that name them.
    fn entries_naming(&self, documents: &[Document], names: &HashSet<&str>) -> Result<NamingEntries> {
        let mut naming = NamingEntries::default();
        if self.requests.is_empty() {
            return Ok(naming);
        }
        let named = self.requests.iter().flat_map(|(key, known)| known.names(key)).flatten().map(hash_of);
        let named: HashSet<u32> = named.collect();
        let (mut gone, mut digests) = (HashSet::new(), HashSet::new());
        for &document in documents {
            digests.extend(self.index.digest(document));
            if named.contains(&self.names[document.index()]) {
                gone.insert(self.name(document)?);
            }
        }
        let goes = |name: &str| gone.contains(name) || names.contains(name);
        for (key, known) in self.requests.iter() {
            let [page, earlier] = known.names(key);
            if digests.contains(&known.digest) || page.is_some_and(goes) {
                naming.answers.push(Arc::clone(key));
            } else if earlier.is_some_and(goes) {
                naming.names.push(Arc::clone(key));
            }
        }
        Ok(naming)
    }

    fn forget_answers(&mut self, naming: NamingEntries) {
        naming.answers.iter().for_each(|key| _ = self.requests.remove(key));
        for key in &naming.names {
            if let Some(known) = self.requests.get_mut(key) {
                known.reply.earlier = None;
            }
        }
    }

    /// True if an answer in the files that is not remembered any more is to a question about a page of such a name, or
    /// names one. Long logs and snapshots are not looked through: they may.
    fn logs_name(&self, names: &HashSet<&str>) -> Result<bool> {
        if names.is_empty() {
            return Ok(false);
        }
        let left_behind = self.writer.as_ref().map_or(0, |writer| writer.left_behind);
        if self.stored_bytes().1 > SEARCHED || self.requests.left_behind() > left_behind {
            return Ok(true);
        }
        let mut found = false;
        for part in parts_of(&self.folder)?.into_iter().filter(|part| matches!(part, Part::Log(_))) {
            log::read(&self.folder.join(part.name()), |record, _| {
                let asked = match &record {
                    Record::Page { asked, .. } | Record::Again { asked, .. } => asked.as_ref(),
                    Record::Request(asked) => Some(asked),
                    _ => None,
                };
                let named =
                    asked.map(|RememberedAnswer { key, answer }| answer.names(key)).unwrap_or_default();
                found |= named.into_iter().flatten().any(|name| names.contains(name));
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Writes all pages to a new snapshot and begins a new log, which takes away the traces of what was
    /// removed. Answers that are on their way count as sent.
    ///
    /// # Errors
    /// If it cannot be written; then nothing is lost.
    pub fn snapshot(&mut self) -> Result<()> {
        let new_log = self.new_log()?;
        let mut snapshot = self.begin_snapshot(new_log()?)?;
        while snapshot.copy(self) {
            snapshot.write()?;
        }
        let mut finished = snapshot.finish()?;
        while !self.end_snapshot(&mut finished)? {}
        Ok(())
    }

    /// Gives a function that makes the log of the next snapshot, which can be [begun](Self::begin_snapshot) then.
    /// Others may use the index while the function runs.
    ///
    /// # Errors
    /// For an index that is open to read.
    #[doc(hidden)]
    pub fn new_log(&self) -> Result<impl FnOnce() -> Result<NewLog> + use<>> {
        let writer = self.writer.as_ref().ok_or_else(|| not_to_write(&self.folder))?;
        let (number, fsync) = (writer.number + 1, writer.fsync);
        let (folder, params) = (self.folder.clone(), self.params.clone());
        Ok(move || {
            let part = Part::Log(number);
            let path = folder.join(part.name());
            let length = log::begin(&path, part, &params)?;
            sync_folder(&folder)?;
            Ok(NewLog { number, log: Log::open(&path, length, fsync)?, path })
        })
    }

    /// Begins a snapshot: what changes from now on goes to the new log. Answers that are on their way count as
    /// sent. Only one may be in the making. [`Snapshot::copy`] and [`Snapshot::finish`] make the file, and
    /// [`end_snapshot`](Self::end_snapshot) comes last.
    ///
    /// # Errors
    /// If it cannot be begun; then the index is as it was.
    #[doc(hidden)]
    pub fn begin_snapshot(&mut self, log: NewLog) -> Result<Snapshot> {
        let NewLog { number, log, path } = log;
        if self.writer()?.number + 1 != number {
            return Err(Error::parameter("log", number, "one made for the next snapshot"));
        }
        self.commit()?;
        if !self.writer()?.undelivered.is_empty() {
            self.note(Record::Sent)?;
        }
        self.files.open(Part::Log(number), &path)?;
        let snapshot = Snapshot::begin(self, number)?;
        self.requests.are_written();
        let writer = self.writer()?;
        writer.logged += writer.log.length();
        writer.length.note(Part::Log(number), log.length());
        (writer.log, writer.number) = (log, number);
        Ok(snapshot)
    }

    /// Moves the places of some more pages to a snapshot that is whole: their names are read from there then. After
    /// the last ones it takes away the files before the snapshot, and gives true. Call it until then.
    ///
    /// # Errors
    /// If it cannot be opened.
    #[doc(hidden)]
    pub fn end_snapshot(&mut self, finished: &mut Finished) -> Result<bool> {
        let [part, log] = [Part::Snapshot(finished.number), Part::Log(finished.number)];
        self.files.open(part, &finished.path)?;
        for (document, place) in finished.next(MOVED) {
            // One that was removed meanwhile, and whose number may have been given again, stands in the new log.
            if self.index.contains(document) && !self.places[document.index()].is_in(log) {
                self.places[document.index()] = place;
            }
        }
        if !finished.is_moved() {
            return Ok(false);
        }
        let writer = self.writer()?;
        (writer.snapshot, writer.logged) = (finished.length, 0);
        writer.due = LONG_LOG.max(finished.length);
        (writer.gone, writer.left_behind) = (finished.removals, finished.left_behind);
        self.files.keep(|part| part.number() >= finished.number);
        self.take_old_parts_away();
        Ok(true)
    }

    /// Writes all pages to a file, from which another index can [take them over](Self::import). Others may write to the
    /// index meanwhile, if this one is open to read.
    ///
    /// # Errors
    /// If another file than an export is there, or it cannot be written. Then what was there stays.
    pub fn export(&self, path: &Path) -> Result<()> {
        if path.exists() && !log::is_export(path) {
            let expected = "a file that is not there, or one of an export";
            return Err(Error::parameter("export", path.display(), expected));
        }
        let mut snapshot = Snapshot::export(self, path)?;
        while snapshot.copy(self) {
            snapshot.write()?;
        }
        snapshot.finish().map(|_| ())
    }

    /// Takes over the pages of an [exported](Self::export) file or of another index, with the times at which they were
    /// last seen. Gives the number of pages that this index did not have.
    ///
    /// # Errors
    /// If it cannot be read or is corrupt, if its pages were sketched in another way, and as [`commit`](Self::commit).
    /// What was committed before stays.
    pub fn import(&mut self, path: &Path) -> Result<usize> {
        let before = self.len();
        if path.is_dir() {
            let other = Self::open(path, Access::Read, None)?;
            self.takes(path, &other.params)?;
            if let Some(note) = other.notes.first() {
                return Err(corrupt_import(path, note));
            }
            for document in other.index.documents() {
                let sketches = other.params.settings.sketches;
                let Record::Page { facts, value, name, .. } =
                    other.page(document, |page| Record::read(page, sketches))?
                else {
                    continue;
                };
                self.put(&name, other.seen[document.index()], facts, value.as_ref())?;
            }
            self.acknowledge()?;
            return Ok(self.len() - before);
        }
        self.takes(path, &log::params_of(path)?)?;
        let (_, passed) = log::read(path, |record, _| match record {
            Record::Page { facts, value, name, seen, .. } => self.put(&name, seen, facts, value.as_ref()),
            _ => Ok(()),
        })?;
        self.acknowledge()?;
        if !passed.corrupt.is_empty() || passed.cut > 0 || passed.promised.is_none() {
            return Err(corrupt_import(path, "some of its pages cannot be read; the others are taken over"));
        }
        Ok(self.len() - before)
    }

    /// Refuses sketches that were not made as those of this index: with its features, hash, seed, kind of sketch and
    /// document frequencies. Other settings, such as the threshold, may differ. `path` names their file in the error.
    ///
    /// # Errors
    /// If they were made otherwise.
    #[doc(hidden)]
    pub fn takes(&self, path: &Path, params: &SeenParams) -> Result<()> {
        let of = |params: &SeenParams| {
            let Settings { features, feature_hash, seed, sketches, .. } = params.settings.clone();
            (features, feature_hash, seed, sketches, params.frequencies.clone())
        };
        if of(params) == of(&self.params) {
            return Ok(());
        }
        let expected = "made with the settings of the index";
        let advice = "give the pages themselves, or make an index with these settings";
        Err(wrong(path, "the sketches", expected, "made with others", advice))
    }

    /// Stores a page by the facts of its text and its sketch, `None` if it has too few features for one. The page with
    /// the same text is seen again instead, if there is one. `seen` is in milliseconds since 1970. The page is
    /// committed with some thousand others, or by [`acknowledge`](Self::acknowledge).
    ///
    /// # Errors
    /// As [`ask_and_add`](Self::ask_and_add) and [`commit`](Self::commit).
    #[doc(hidden)]
    pub fn put(&mut self, name: &str, seen: u64, facts: Facts, value: Option<&SketchValue>) -> Result<()> {
        let request = Request { name, seen, ..Request::default() };
        self.store(&request, facts, value, None)?;
        if self.writer()?.undelivered.len() >= IMPORTED {
            self.acknowledge()?;
        }
        Ok(())
    }

    /// Ends the work of a writer in good order: the answers that went out have arrived, but for those whose reader
    /// could have said so and did not. A log with traces of what was removed is put into a snapshot. From then on the
    /// index is open to read.
    ///
    /// # Errors
    /// If that cannot be written; nothing is lost.
    pub fn close(&mut self) -> Result<()> {
        if self.writer.is_none() {
            return Ok(());
        }
        self.commit()?;
        let undelivered = std::mem::take(&mut self.writer()?.undelivered);
        let on_their_way: HashSet<Arc<str>> =
            undelivered.into_iter().filter_map(|page| page.undo.key()).collect();
        let is_unheard = |(key, known): &(&Arc<str>, &Answer)| match known.standing {
            Standing::Given(reader) => reader != 0 || on_their_way.contains(*key),
            _ => false,
        };
        let unheard = self.requests.iter().filter(is_unheard);
        let mut unheard: Vec<Arc<str>> = unheard.map(|(key, _)| Arc::clone(key)).collect();
        unheard.sort_unstable();
        let mut frames = Vec::new();
        self.doubt(unheard, &mut frames);
        let (given, heard) = (self.requests.take_given(), std::mem::take(&mut self.requests.heard));
        if heard || !given.is_empty() || !frames.is_empty() {
            Record::Closed.frame(&mut frames);
            self.writer()?.log.append(&frames)?;
        }
        if self.has_traces() {
            self.snapshot()?;
        }
        let writer = self.writer()?;
        writer.length.note(Part::Log(writer.number), writer.log.length());
        self.writer = None;
        Ok(())
    }

    /// Takes away the files that a later snapshot holds.
    fn take_old_parts_away(&self) {
        let Some(writer) = &self.writer else { return };
        let parts = parts_of(&self.folder).unwrap_or_default();
        if !parts.contains(&Part::Snapshot(writer.number)) {
            return;
        }
        for part in parts.into_iter().filter(|part| part.number() < writer.number) {
            // Left there, it is passed over all the same.
            let _ = fs::remove_file(self.folder.join(part.name()));
        }
    }

    /// The number of removals that the files held when a writer opened the index, and of those since.
    fn removals(&self) -> u64 {
        self.writer.as_ref().map_or(0, |writer| writer.removals)
    }

    fn writer(&mut self) -> Result<&mut Writer> {
        let Self { writer, folder, .. } = self;
        writer.as_mut().ok_or_else(|| not_to_write(folder))
    }

    fn change(&mut self, record: Record) -> Result<()> {
        record.frame(&mut self.writer()?.waiting);
        Ok(())
    }

    fn know(&mut self, document: Document, place: LogPlace, name: &str, seen: u64) {
        let at = document.index();
        if self.names.len() <= at {
            self.places.resize(at + 1, LogPlace::default());
            self.names.resize(at + 1, 0);
            self.seen.resize(at + 1, 0);
        }
        (self.places[at], self.names[at], self.seen[at]) = (place, hash_of(name), seen);
    }

    fn forget(&mut self, documents: &[Document]) {
        let sketches = self.params.settings.sketches;
        let value_of = |document: Document| match self.page(document, |page| Record::read(page, sketches)) {
            Ok(Record::Page { value, .. }) => value,
            // Without its keys, the index finds the page all the same; it takes longer.
            _ => None,
        };
        let is_asked = |document: &Document| {
            matches!(sketches, Sketches::Both { .. }) && self.index.is_sketched(*document)
        };
        let pages =
            documents.iter().map(|document| (*document, Some(*document).filter(is_asked).and_then(value_of)));
        let pages: Vec<_> = pages.collect();
        self.index.remove_known(&pages);
        for document in documents {
            let at = document.index();
            (self.places[at], self.names[at], self.seen[at]) = (LogPlace::default(), 0, 0);
        }
    }

    fn touch(&mut self, document: Document, seen: u64) -> FormerPage {
        let at = &mut self.seen[document.index()];
        let was = *at;
        *at = was.max(seen);
        FormerPage::Seen(document, was)
    }

    /// Remembers an answer. Gives its key, and the answer that stood under it before.
    fn remember(&mut self, RememberedAnswer { key, answer }: RememberedAnswer) -> (Arc<str>, Option<Answer>) {
        let was = self.requests.insert(Arc::clone(&key), answer);
        (key, was)
    }

    /// Takes changes back, the last ones first; pages go together.
    fn undo(&mut self, changes: impl DoubleEndedIterator<Item = Undo>) {
        let mut pages = Vec::new();
        for Undo { page, answer } in changes.rev() {
            match answer {
                Some((key, Some(was))) => drop(self.requests.insert(key, was)),
                Some((key, None)) => drop(self.requests.remove(&key)),
                None => {}
            }
            match page {
                Some(FormerPage::NotStored(document)) => pages.push(document),
                Some(FormerPage::Seen(document, was)) => self.seen[document.index()] = was,
                None => {}
            }
        }
        self.forget(&pages);
    }
}

/// A new log without records, for [`Seen::begin_snapshot`].
#[derive(Debug)]
#[doc(hidden)]
pub struct NewLog {
    number: u64,
    log: Log,
    path: PathBuf,
}

/// The hash of a name by which it is found.
fn hash_of(name: &str) -> u32 {
    text_digest(name) as u32
}

/// The last file that was read, and the outcome.
struct LastFile {
    part: Part,
    passed: Passed,
}

fn corrupt_import(path: &Path, got: &str) -> Error {
    wrong(path, "the pages", "all of them, whole", got, "export the index again")
}

fn not_to_write(folder: &Path) -> Error {
    Error::parameter("index", folder.display(), "one that is open to write")
}

fn not_an_index(path: &Path, got: &str) -> Error {
    wrong(path, "the index", "a folder that simflip seen made", got, "name another place")
}

/// The files of an index, by number, a snapshot before the log of its number.
fn parts_of(folder: &Path) -> Result<Vec<Part>> {
    let names = names_in(folder)?;
    let mut parts: Vec<Part> = names.iter().filter_map(|name| Part::of(name.to_str()?)).collect();
    parts.sort_unstable_by_key(|part| (part.number(), matches!(part, Part::Log(_))));
    Ok(parts)
}

/// The last snapshot among the files of an index.
fn last_snapshot(parts: &[Part]) -> Option<Part> {
    parts.iter().rev().copied().find(|part| matches!(part, Part::Snapshot(_)))
}

/// True if a folder is an index: it has a file with the name of a snapshot or of a log.
#[doc(hidden)]
pub fn is_index(folder: &Path) -> bool {
    folder.is_dir() && parts_of(folder).is_ok_and(|parts| !parts.is_empty())
}

/// True if a folder is an index, or has nothing in it but what a process leaves that dies while it makes one. `serve`
/// takes such a folder for one of its collections.
#[doc(hidden)]
pub fn may_be_index(folder: &Path) -> bool {
    is_index(folder) || folder.is_dir() && holds_nothing(folder).unwrap_or_default()
}

/// True if there is nothing in a folder but what a process leaves that dies while it makes an index.
fn holds_nothing(folder: &Path) -> Result<bool> {
    let is_left = |name: &OsString| name == LOCK || name == log::LENGTH || is_unfinished(name);
    Ok(names_in(folder)?.iter().all(is_left))
}

fn names_in(folder: &Path) -> Result<Vec<OsString>> {
    let names =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    names.map_err(|error| Error::io(folder, error))
}

/// A file that is locked as long as this lives. It is unlocked by name: a process that is being started holds what is
/// open here for a moment, and with it a lock that is only let go of by closing.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // What cannot be unlocked is when it is closed.
        let _ = self.0.unlock();
    }
}

/// Locks an index for its writer.
fn lock(folder: &Path) -> Result<Lock> {
    let path = folder.join(LOCK);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|e| Error::io(&path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => {
            let expected = "an index that no other process writes to; wait for it, send it your pages, or ask alone (--read-only)";
            Err(Error::parameter("index", folder.display(), expected))
        }
        Err(TryLockError::Error(error)) => Err(Error::io(&path, error)),
    }
}

/// Sees to it that names of new files outlive a failure of power.
#[cfg_attr(not(unix), expect(unused_variables))]
fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| Error::io(folder, e))?;
    Ok(())
}

/// Checks a file of exported pages. Records that are corrupt or missing are a problem of the result, not an error.
pub(crate) fn check_export(path: &Path) -> Result<Inspection> {
    let mut inspection = Inspection::of("exported pages of an index");
    let mut pages = 0;
    let (params, passed) = log::read(path, |record, _| {
        pages += u64::from(matches!(record, Record::Page { .. }));
        Ok(())
    })?;
    inspection.fact("pages", pages);
    inspection.fact("features", params.settings.features);
    inspection.fact("feature hash", params.settings.feature_hash.name());
    inspection.fact("seed", params.settings.seed);
    if passed.promised != Some(pages) || !passed.corrupt.is_empty() || passed.cut > 0 {
        inspection.problem("it is corrupt or cut: not all of its pages can be read".to_owned());
    }
    Ok(inspection)
}

/// Checks an index by opening it to read. Its [notes](Seen::notes) are the problems of the result.
pub(crate) fn check(folder: &Path) -> Result<Inspection> {
    let mut inspection = Inspection::of("index of seen pages");
    let seen = Seen::open(folder, Access::Read, None)?;
    let settings = &seen.params.settings;
    for part in parts_of(folder)? {
        let length = fs::metadata(folder.join(part.name())).map_or(0, |found| found.len());
        inspection.fact(part.name(), format!("{length} bytes"));
        if let (Part::Snapshot(_), wanted @ 1..) = (part, seen.index.tables()) {
            let end = whole::end_of(&folder.join(part.name()), settings.sketches, wanted)?;
            let tables = end.map_or(0, |(_, tables)| tables.len().saturating_sub(1));
            inspection.fact("tables that need not be made when it is read", format!("{tables} of {wanted}"));
        }
    }
    inspection.fact("pages", seen.len());
    inspection.fact("features", settings.features);
    inspection.fact("search", settings.generator.name());
    inspection.fact("verify", settings.verification.name());
    if let Some(threshold) = settings.verification.threshold() {
        inspection.fact("verify threshold", threshold);
    }
    if let Some(distance) = settings.generator.distance() {
        inspection.fact("distance", distance);
    }
    if let Some(frequencies) = &seen.params.frequencies {
        inspection.fact("checksum of the document frequencies", frequencies);
    }
    inspection.fact("expected chance matches of a page", format!("{:.3e}", seen.index.expected_by_chance()));
    if let Some(measured) = seen.index.measured() {
        let budget = measured.budget.map_or_else(|| "all".to_owned(), |budget| budget.to_string());
        inspection.fact("probes of a question", budget);
        let (reached, low, high) = (measured.reached, measured.low, measured.high);
        inspection.fact("recall reached", format!("{reached:.3} [{low:.3}, {high:.3}]"));
    }
    let (index, sketches, names) = seen.bytes();
    let bytes = format!("{index}, of which sketches {sketches}; times, and places of names, {names}");
    inspection.fact("bytes in memory", bytes);
    inspection.fact("requests remembered", seen.requests.len());
    seen.notes.iter().for_each(|note| inspection.problem(note.clone()));
    Ok(inspection)
}
