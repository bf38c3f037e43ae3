//! The service: requests in, answers out. Each index is behind a lock; with --collections there are many, by name.

use super::super::index::{IndexArgs, JsonAnswer, Opened, millis, request};
use super::connections::{Connection, Connections, Held};
use super::locked::LockedIndex;
use super::wire::{WirePage, WireSketch};
use super::{dropped_events, event};
use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use axum::extract::{Extension, Path as UrlPath, Request as HttpRequest, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put as put_route};
use serde::Serialize;
use serde_json::json;
use simflip::corpus::{objects_of_line, repaired_line};
use simflip::hash::text_digest;
use simflip::seen::{AnswerKind, GivenAnswers, NewLog, Reply, Request, Unsynced, may_be_index};
use simflip::settings::Settings;
use simflip::sketch::{Sketch, Sketcher};
use simflip::weight::frequencies::Frequencies;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// The bounds of the service, as its arguments state them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The number of requests, or parts of streams, that are worked on at a time.
    pub(super) threads: usize,
    /// The longest time for a request or a part of a stream.
    pub(super) deadline: Duration,
    /// The most bytes of a JSON object.
    pub(super) longest_document: usize,
    /// The most bytes of a stream of objects.
    pub(super) longest_request: u64,
    /// The most open connections.
    pub(super) connections: usize,
    /// The most bytes of memory that all bodies together take, beyond what each connection has for its own.
    pub(super) bodies: usize,
    /// Pages last seen longer ago than this are stale; `None` if no page is.
    pub(super) fresh: Option<Duration>,
}

/// Lines of a stream that are worked on together: of a client that does not read, some batches of answers are in
/// memory.
const BATCH: usize = 128;

/// Bytes of a stream that are worked on together, about.
const BATCH_BYTES: usize = 1 << 20;

/// The most bytes of a request that is worked on by the thread that received it: some dozen microseconds' work.
const SHORT: usize = 4 << 10;

/// Requests and parts of streams that may wait for a thread; more are turned away.
const MOST_WAITING: u64 = 4096;

/// Questions that are answered before those who store pages have their turn.
const TURN: usize = 32;

/// Upper ends of the classes of durations, in seconds.
const CLASSES: [f64; 12] = [1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// The work that a request asks for, by its path ([`ACTIONS`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Check,
    Add,
    CheckAndAdd,
    Remove,
    Sketch,
}

impl Action {
    /// True if it stores pages.
    fn writes(self) -> bool {
        matches!(self, Self::Add | Self::CheckAndAdd)
    }
}

/// The running service: its indexes, its connections and its tasks.
pub(super) struct Service {
    /// The indexes by name. Without --collections the one index has an empty name.
    collections: RwLock<BTreeMap<String, Arc<Collection>>>,
    /// Held while a collection is made.
    making: Mutex<()>,
    /// The arguments that open an index or make it.
    indexes: IndexArgs,
    /// True if the folder of the arguments holds collections.
    many: bool,
    limits: Limits,
    /// The digest of the token that requests must bear; `None` if they need none.
    token: Option<u128>,
    work: Semaphore,
    /// The number of requests that wait for a thread, and of those turned away.
    waiting: AtomicU64,
    refused: AtomicU64,
    stopping: AtomicBool,
    /// True if the log of an index could not be brought to the disk.
    has_failed: AtomicBool,
    pub(super) connections: Arc<Connections>,
    /// Brings logs to the disk.
    syncing: std::sync::mpsc::Sender<Waits>,
    disk: JoinHandle<()>,
    /// The task that makes snapshots and removes expired pages, once it has been started.
    pub(super) keeping: OnceLock<AbortHandle>,
}

/// An index with its lock, its sketchers and the counts of its use.
pub(super) struct Collection {
    index: Arc<LockedIndex>,
    settings: Settings,
    frequencies: Arc<Frequencies>,
    /// Sketchers that nobody uses now.
    sketchers: Mutex<Vec<Sketcher>>,
    /// Held by who makes a snapshot.
    snapshot: Mutex<()>,
    /// True if the log could not be brought to the disk.
    failed: AtomicBool,
    counts: Counts,
}

/// Answers that wait for the disk.
struct Waits {
    unsynced: Unsynced,
    sender: oneshot::Sender<Result<(), String>>,
}

/// The outcome of work on some objects.
#[derive(Default)]
struct Answered {
    lines: Vec<u8>,
    /// The records that must be on the disk before the answers go out.
    unsynced: Option<Unsynced>,
    removed: usize,
    /// True if some objects were no pages.
    refused: bool,
    /// True if the index could not do what was asked, whatever the pages were.
    failed: bool,
}

impl Answered {
    /// The error, for each page by its name.
    fn failed(pages: impl Iterator<Item = Option<String>>, error: &str) -> Self {
        let mut lines = Vec::new();
        pages.for_each(|page| failure(&mut lines, page.as_deref(), error));
        Self { lines, failed: true, ..Self::default() }
    }
}

#[derive(Default)]
struct Counts {
    answer_kinds: [AtomicU64; 4],
    again: AtomicU64,
    added: AtomicU64,
    removed: AtomicU64,
    errors: AtomicU64,
    failed: AtomicU64,
    /// Parts of requests by the class of their duration.
    durations: [AtomicU64; CLASSES.len()],
    parts: AtomicU64,
    micros: AtomicU64,
}

impl Service {
    /// Opens the index that `indexes` names or, if `many` is true, all collections of that folder. An index or a folder
    /// that is not there is made. Requests must bear the token of this digest, if there is one.
    pub(super) fn open(
        indexes: IndexArgs,
        many: bool,
        limits: Limits,
        token: Option<u128>,
    ) -> anyhow::Result<Self> {
        let mut collections = BTreeMap::new();
        if many {
            let folder = &indexes.index;
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
                let entry = entry.with_context(|| folder.display().to_string())?;
                let name = entry.file_name();
                let name = name.to_str().filter(|name| is_name(name) && may_be_index(&entry.path()));
                let Some(name) = name else {
                    event("skipped", &[("path", &entry.path().to_string_lossy()), ("as", "no collection")]);
                    continue;
                };
                collections.insert(name.to_owned(), Arc::new(Collection::open(&indexes.within(name))?));
            }
        } else {
            collections.insert(String::new(), Arc::new(Collection::open(&indexes)?));
        }
        let (syncing, waits) = std::sync::mpsc::channel();
        let disk = std::thread::Builder::new().name("disk".to_owned());
        let disk = disk.spawn(move || sync(&waits)).context("a thread")?;
        let connections = connections_beside(limits.connections, collections.len())?;
        Ok(Self {
            collections: RwLock::new(collections),
            making: Mutex::default(),
            indexes,
            many,
            work: Semaphore::new(limits.threads),
            limits,
            token,
            waiting: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            connections: Arc::new(Connections::new(connections, limits.bodies)),
            syncing,
            disk,
            keeping: OnceLock::new(),
        })
    }

    /// All collections, by name.
    pub(super) fn all(&self) -> Vec<(String, Arc<Collection>)> {
        let collections = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        collections.iter().map(|(name, collection)| (name.clone(), Arc::clone(collection))).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Collection>> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner).get(name).map(Arc::clone)
    }

    /// Makes a collection unless it is there; true if it was made.
    fn make(&self, name: &str) -> anyhow::Result<bool> {
        // Held while it is made, so that it is made once; requests find others meanwhile.
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.find(name).is_some() {
            return Ok(false);
        }
        let others = self.all().len();
        // Connections give way to its files.
        self.connections.bound(connections_beside(self.limits.connections, others + 1)?);
        let opened = Collection::open(&self.indexes.within(name));
        if opened.is_err() {
            self.connections.bound(connections_beside(self.limits.connections, others)?);
        }
        let opened = Arc::new(opened?);
        self.collections.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), opened);
        Ok(true)
    }

    /// The number of pages that all indexes store.
    pub(super) fn pages(&self) -> usize {
        self.all().iter().map(|(_, collection)| collection.index.reading().len()).sum()
    }

    /// The tasks that the service cannot do without, each with true if it runs.
    fn tasks(&self) -> [(&'static str, bool); 2] {
        let keeps_house = self.keeping.get().is_some_and(|keeping| !keeping.is_finished());
        [("disk", !self.disk.is_finished()), ("housekeeping", keeps_house)]
    }

    /// Notes that the service is ending. Answers that are not heard then are in doubt when the index is closed.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Notes that the log of an index could not be brought to the disk: nobody knows what of it is there, so the index
    /// stores nothing more.
    fn failed(&self, collection: &Collection, error: &str) {
        self.has_failed.store(true, Relaxed);
        if !collection.failed.swap(true, Relaxed) {
            let error = format!("{error}; the index stores nothing more until the service is started anew");
            event("failed", &[("error", &error)]);
        }
    }

    /// True once [`stop`](Self::stop) was called.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Closes all indexes, whichever of them fail.
    ///
    /// # Errors
    /// The first failure.
    pub(super) fn close(&self) -> simflip::Result<()> {
        let close = |(_, collection): (String, Arc<Collection>)| {
            let _one = collection.one_snapshot();
            collection.index.writing().close()
        };
        self.all().into_iter().map(close).fold(Ok(()), Result::and)
    }
}

/// The work of the disk thread: brings logs to the disk, once for all answers that wait meanwhile.
fn sync(waits: &std::sync::mpsc::Receiver<Waits>) {
    while let Ok(first) = waits.recv() {
        let mut together = vec![first];
        together.extend(waits.try_iter());
        while let Some(Waits { unsynced, sender }) = together.pop() {
            let done = unsynced.sync().map_err(|error| error.to_string());
            let (with, others) =
                together.into_iter().partition(|other: &Waits| other.unsynced.is_with(&unsynced));
            together = others;
            for Waits { sender, .. } in with {
                // Who does not wait any more has heard that it took too long.
                let _ = sender.send(done.clone());
            }
            let _ = sender.send(done);
        }
    }
}

fn is_name(name: &str) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len())
        && name.bytes().all(fits)
        && name.as_bytes()[0].is_ascii_alphanumeric()
        && name != "collections"
        && ACTIONS.iter().all(|(action, _)| *action != name)
}

/// Descriptors of open files for all but connections and indexes, a snapshot in the making among them.
const DESCRIPTORS: usize = 48;

/// Descriptors of open files of an index: its lock, its length, its snapshot, and its log to write and to read.
const OF_INDEX: usize = 5;

/// The number of connections that the limit of file descriptors allows beside the files of so many indexes.
fn connections_beside(wanted: usize, indexes: usize) -> anyhow::Result<usize> {
    let Some(allowed) = simflip::resources::allowed_descriptors() else { return Ok(wanted) };
    let needed = DESCRIPTORS + OF_INDEX * indexes;
    anyhow::ensure!(
        allowed > needed,
        "{allowed} open files are allowed, and the service needs {needed} and one for each connection: ulimit -n {}",
        needed + wanted
    );
    Ok(wanted.min(allowed - needed))
}

/// The paths of actions, whose names no collection can have.
const ACTIONS: [(&str, Action); 5] = [
    ("check", Action::Check),
    ("add", Action::Add),
    ("check-and-add", Action::CheckAndAdd),
    ("remove", Action::Remove),
    ("sketch", Action::Sketch),
];

impl Collection {
    fn open(index: &IndexArgs) -> anyhow::Result<Self> {
        let Opened { mut seen, frequencies, .. } = index.open_silently(false)?;
        for note in seen.notes() {
            event("opened", &[("note", note)]);
        }
        // Snapshots are made while questions are answered.
        seen.snapshots_by_hand()?;
        Ok(Self {
            settings: seen.params().settings.clone(),
            index: Arc::new(LockedIndex::new(seen)),
            frequencies,
            sketchers: Mutex::default(),
            snapshot: Mutex::default(),
            failed: AtomicBool::new(false),
            counts: Counts::default(),
        })
    }

    fn one_snapshot(&self) -> MutexGuard<'_, ()> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes pages last seen before a time, in milliseconds since 1970, and gives their number.
    pub(super) fn expire(&self, before: u64) -> simflip::Result<usize> {
        self.index.writing().remove(&HashSet::new(), before)
    }

    /// Makes a snapshot if the log is long or, with `traces`, if the files hold what was removed. Questions are
    /// answered and pages stored meanwhile. True if a snapshot was made.
    pub(super) fn shorten(&self, traces: bool) -> simflip::Result<bool> {
        let _one = self.one_snapshot();
        let new_log = {
            let seen = self.index.reading();
            if !(seen.is_long() || traces && seen.has_traces()) {
                return Ok(false);
            }
            seen.new_log()?
        };
        let made = self.snapshot_behind(new_log);
        if made.is_err() {
            self.index.writing().put_off();
        }
        made.map(|()| true)
    }

    fn snapshot_behind(&self, new_log: impl FnOnce() -> simflip::Result<NewLog>) -> simflip::Result<()> {
        let log = new_log()?;
        let mut snapshot = self.index.writing().begin_snapshot(log)?;
        loop {
            let more = snapshot.copy(&self.index.reading());
            if !more {
                break;
            }
            snapshot.write()?;
        }
        let mut finished = snapshot.finish()?;
        while !self.index.writing().end_snapshot(&mut finished)? {}
        Ok(())
    }

    /// Works on some objects, each a line, and appends a line of answer for each.
    fn answer(&self, limits: &Limits, action: Action, lines: &[Bytes], to: &Connection) -> Answered {
        let begun = Instant::now();
        let taken = self.sketchers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let new = || Sketcher::new(&self.settings, Some(Arc::clone(&self.frequencies)));
        let sketcher = taken.map_or_else(new, Ok);
        let answered = match sketcher {
            Ok(mut sketcher) => {
                let repaired: Vec<OnceCell<String>> = lines.iter().map(|_| OnceCell::new()).collect();
                let asked: Vec<Result<SketchedRequest<'_>, String>> = lines
                    .iter()
                    .zip(&repaired)
                    .map(|(line, repaired)| self.read(action, &mut sketcher, line, repaired))
                    .collect();
                self.sketchers.lock().unwrap_or_else(PoisonError::into_inner).push(sketcher);
                self.work_on(limits, action, &asked, to).unwrap_or_else(|error| {
                    // The index is as it was: none of these pages is remembered.
                    self.counts.failed.fetch_add(asked.len() as u64, Relaxed);
                    let names = asked.iter().map(|asked| asked.as_ref().ok()?.page.name().map(str::to_owned));
                    Answered::failed(names, &error.to_string())
                })
            }
            Err(error) => Answered::failed(lines.iter().map(|_| None), &error.to_string()),
        };
        self.counts.took(begun.elapsed());
        answered
    }

    /// Reads an object, and makes the sketch of its page where one is wanted. `repaired` takes the line in which JSON
    /// is repaired as in files.
    fn read<'a>(
        &self,
        action: Action,
        sketcher: &mut Sketcher,
        line: &'a [u8],
        repaired: &'a OnceCell<String>,
    ) -> Result<SketchedRequest<'a>, String> {
        let page: WirePage<'a> = serde_json::from_slice(line).or_else(|error| {
            let repaired = repaired.get_or_init(|| repaired_line(line).0);
            serde_json::from_str(repaired).map_err(|_| format!("not a page: {error}"))
        })?;
        match page.name() {
            None if action != Action::Sketch => return Err("a page without url or id".to_owned()),
            Some(name) if matches!(action, Action::Check | Action::Add | Action::CheckAndAdd) => {
                let about = Request { name, id: page.request.as_deref(), ..Request::default() };
                about.check().map_err(|error| error.to_string())?;
            }
            _ => {}
        }
        let sketch = match (action, &page.text, &page.sketch) {
            (Action::Remove, ..) => None,
            (_, Some(text), None) => Some(sketcher.sketch(text)),
            (_, None, Some(wire)) => {
                let sketch = wire.sketch(self.settings.sketches);
                Some(sketch.ok_or("a sketch of another kind or length than the index's")?)
            }
            _ => return Err("a page has either a text or a sketch".to_owned()),
        };
        Ok(SketchedRequest { page, sketch })
    }

    fn work_on(
        &self,
        limits: &Limits,
        action: Action,
        asked: &[Result<SketchedRequest<'_>, String>],
        to: &Connection,
    ) -> simflip::Result<Answered> {
        let now = millis(SystemTime::now());
        let (mut unsynced, mut given) = (None, GivenAnswers::default());
        if self.failed.load(Relaxed) && !matches!(action, Action::Check | Action::Sketch) {
            let expected = "one that is opened anew";
            return Err(simflip::Error::parameter("index", "one whose log failed", expected));
        }
        let about = Request { reader: to.number, ..request(now, limits.fresh) };
        let questions = asked.iter().map(|asked| question(asked, about));
        let mut replies: Vec<Option<Reply>> = Vec::with_capacity(asked.len());
        let mut removed = 0;
        // Who locks the index to write tells it, so that it is locked once.
        let heard = to.take_heard(action.writes().then_some(&self.index));
        match action {
            Action::Sketch => {}
            Action::Check => {
                let mut questions = questions.peekable();
                while questions.peek().is_some() {
                    let seen = self.index.reading();
                    for question in questions.by_ref().take(TURN) {
                        replies.push(question.map(|(about, sketch)| seen.ask(&about, sketch)).transpose()?);
                    }
                }
            }
            Action::Add | Action::CheckAndAdd => {
                let mut seen = self.index.writing();
                heard.into_iter().for_each(|answers| seen.heard(to.number, answers));
                for question in questions {
                    let Some((about, sketch)) = question else {
                        replies.push(None);
                        continue;
                    };
                    let stored = match action {
                        Action::Add => seen.add(&about, sketch).map(|()| None),
                        _ => seen.ask_and_add(&about, sketch).map(Some),
                    };
                    match stored {
                        Ok(reply) => replies.push(reply),
                        Err(error) => {
                            // All of these pages are answered by the error, so none of them is stored.
                            seen.withdraw(0)?;
                            return Err(error);
                        }
                    }
                }
                (unsynced, given) = seen.commit_and_send()?;
                let again = replies.iter().flatten().filter(|reply| reply.again).count();
                self.counts.added.fetch_add((asked.iter().flatten().count() - again) as u64, Relaxed);
            }
            Action::Remove => {
                let names: HashSet<&str> =
                    asked.iter().flatten().map(|asked| asked.page.name().unwrap_or_default()).collect();
                removed = self.index.writing().remove(&names, 0)?;
                self.counts.removed.fetch_add(removed as u64, Relaxed);
            }
        }
        to.answered(&self.index, given);
        let mut lines = Vec::with_capacity(asked.len() * 160);
        let out = &mut lines;
        let mut replies = replies.into_iter();
        for asked in asked {
            let reply = replies.next().flatten();
            match (asked, reply) {
                (Err(error), _) => {
                    self.counts.errors.fetch_add(1, Relaxed);
                    failure(out, None, error);
                }
                (Ok(SketchedRequest { page, .. }), Some(reply)) => {
                    self.counts.replied(&reply);
                    let name = page.name().unwrap_or_default();
                    put(out, &JsonAnswer::new(name, page.request.as_deref(), &reply));
                }
                (Ok(SketchedRequest { page, sketch: Some(sketch) }), None) if action == Action::Sketch => {
                    put(out, &MadeSketch { page: page.name(), sketch: WireSketch::of(sketch) });
                }
                (Ok(SketchedRequest { page, .. }), None) => {
                    let answer = if action == Action::Add { "added" } else { "removed" };
                    put(out, &ChangedPage { answer, page: page.name(), request: page.request.as_deref() });
                }
            }
        }
        let refused = asked.iter().any(Result::is_err);
        Ok(Answered { lines, unsynced, removed, refused, failed: false })
    }
}

impl Service {
    /// Works on some objects on a thread of its own, unless too many wait already or it takes too long.
    async fn on_a_thread(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        action: Action,
        lines: Vec<Bytes>,
        to: &Arc<Connection>,
    ) -> Result<Answered, NoAnswer> {
        if self.waiting.fetch_add(1, Relaxed) >= MOST_WAITING {
            self.waiting.fetch_sub(1, Relaxed);
            self.refused.fetch_add(1, Relaxed);
            return Err(NoAnswer::Busy);
        }
        let permit = tokio::time::timeout(self.limits.deadline, self.work.acquire()).await;
        self.waiting.fetch_sub(1, Relaxed);
        let Ok(Ok(permit)) = permit else {
            self.refused.fetch_add(1, Relaxed);
            return Err(NoAnswer::Late);
        };
        let is_short = action != Action::Remove && lines.iter().map(Bytes::len).sum::<usize>() <= SHORT;
        // Answers that were heard are reported to the index, which locks it to write.
        let to_write = action.writes() || to.has_answers();
        let worked = if is_short && collection.index.becomes_free(to_write).await {
            // To hand it to another thread would take longer than the work. No thread that receives requests waits for
            // an index, so that one is there for who asks how the service is.
            Ok(collection.answer(&self.limits, action, &lines, to))
        } else {
            let (on, limits, to) = (Arc::clone(collection), self.limits, Arc::clone(to));
            tokio::task::spawn_blocking(move || on.answer(&limits, action, &lines, &to)).await
        };
        drop(permit);
        let mut answered = worked.map_err(|_| NoAnswer::Failed)?;
        let Some(unsynced) = answered.unsynced.take() else { return Ok(answered) };
        // Others work meanwhile, and one wait for the disk does for all of them.
        let (sender, wait) = oneshot::channel();
        self.syncing.send(Waits { unsynced, sender }).map_err(|_| NoAnswer::Failed)?;
        let answered = self.on_the_disk(collection, answered, wait).await;
        if answered.as_ref().map_or(true, |answered| answered.failed) {
            // These pages are in doubt.
            let to = Arc::clone(to);
            let _ = tokio::task::spawn_blocking(move || to.settle(false)).await;
        }
        answered
    }

    /// Gives answers when their records are on the disk.
    async fn on_the_disk(
        &self,
        collection: &Collection,
        answered: Answered,
        wait: oneshot::Receiver<Result<(), String>>,
    ) -> Result<Answered, NoAnswer> {
        match wait.await {
            Ok(Ok(())) => Ok(answered),
            Ok(Err(error)) => {
                self.failed(collection, &error);
                let answers = answered.lines.split(|&byte| byte == b'\n').skip(1);
                Ok(Answered::failed(answers.map(|_| None), &error))
            }
            Err(_) => Err(NoAnswer::Failed),
        }
    }
}

/// The question to the index for a page with a sketch.
fn question<'a>(
    asked: &'a Result<SketchedRequest<'_>, String>,
    about: Request<'a>,
) -> Option<(Request<'a>, &'a Sketch)> {
    let Ok(SketchedRequest { page, sketch: Some(sketch) }) = asked else { return None };
    let name = page.name().unwrap_or_default();
    Some((Request { name, id: page.request.as_deref(), ..about }, sketch))
}

/// The reason for which a request, or the rest of a stream, has no answers of an index.
pub(super) enum NoAnswer {
    /// Too many requests wait, or no room for the body came free.
    Busy,
    /// The deadline is over, or no more of the body came in time.
    Late,
    /// A task or thread of the service failed.
    Failed,
    /// An object, a line or the whole body is longer than [`Limits`] allow.
    TooLong,
    /// The body broke off.
    Cut,
}

impl NoAnswer {
    fn status_and_text(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many requests wait; send it again later"),
            Self::Late => (
                StatusCode::SERVICE_UNAVAILABLE,
                "it took longer than --deadline, or nothing came for 5 seconds; send it again",
            ),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "a fault of the service"),
            Self::TooLong => {
                (StatusCode::PAYLOAD_TOO_LARGE, "longer than --longest-document or --longest-request allows")
            }
            Self::Cut => (StatusCode::BAD_REQUEST, "the request ended before its end"),
        }
    }
}

impl IntoResponse for NoAnswer {
    fn into_response(self) -> Response {
        let (status, error) = self.status_and_text();
        let mut response = refusal(status, error);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

fn refusal(status: StatusCode, error: &str) -> Response {
    json_response(status, &json!({ "answer": "error", "error": error }))
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

/// A page that is asked about, with its sketch.
struct SketchedRequest<'a> {
    page: WirePage<'a>,
    sketch: Option<Sketch>,
}

/// The line about a page that was made a sketch of.
#[derive(Serialize)]
struct MadeSketch<'a> {
    page: Option<&'a str>,
    sketch: WireSketch<'a>,
}

/// The line about a page that was stored or removed.
#[derive(Serialize)]
struct ChangedPage<'a> {
    answer: &'static str,
    page: Option<&'a str>,
    request: Option<&'a str>,
}

fn put(out: &mut Vec<u8>, value: &impl Serialize) {
    if serde_json::to_writer(&mut *out, value).is_ok() {
        out.push(b'\n');
    }
}

fn total(out: &mut Vec<u8>, removed: usize) {
    put(out, &json!({ "removed_pages": removed }));
}

fn failure(out: &mut Vec<u8>, page: Option<&str>, error: &str) {
    put(out, &json!({ "page": page, "answer": "error", "error": error }));
}

impl Counts {
    fn replied(&self, reply: &Reply) {
        if let Some(at) = AnswerKind::ALL.iter().position(|kind| *kind == reply.kind) {
            self.answer_kinds[at].fetch_add(1, Relaxed);
        }
        self.again.fetch_add(u64::from(reply.again), Relaxed);
    }

    fn took(&self, time: Duration) {
        let class = CLASSES.iter().position(|&end| time.as_secs_f64() <= end);
        if let Some(class) = class {
            self.durations[class].fetch_add(1, Relaxed);
        }
        self.parts.fetch_add(1, Relaxed);
        self.micros.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }
}

/// The paths of the service with their work, behind the token if there is one; /healthz needs none.
pub(super) fn routes(service: Arc<Service>) -> Router {
    let mut guarded = Router::new().route("/metrics", get(metrics));
    let of = if service.many { "/{collection}" } else { "" };
    for (path, action) in ACTIONS {
        let work = move |state, collection, to, request| work(action, state, collection, to, request);
        guarded = guarded.route(&format!("/v1{of}/{path}"), post(work));
    }
    if service.many {
        guarded =
            guarded.route("/v1/collections", get(collections)).route("/v1/{collection}", put_route(made));
    }
    if service.token.is_some() {
        guarded = guarded.layer(middleware::from_fn_with_state(Arc::clone(&service), bears_token));
    }
    guarded.route("/healthz", get(health)).with_state(service)
}

async fn collections(State(service): State<Arc<Service>>) -> Response {
    let named = tokio::task::spawn_blocking(move || {
        let pages = |collection: &Collection| collection.index.reading().len();
        let all = service.all();
        let all = all.iter().map(|(name, collection)| json!({ "name": name, "pages": pages(collection) }));
        all.collect::<Vec<_>>()
    });
    match named.await {
        Ok(named) => json_response(StatusCode::OK, &json!({ "collections": named })),
        Err(_) => NoAnswer::Failed.into_response(),
    }
}

async fn made(
    State(service): State<Arc<Service>>,
    UrlPath(name): UrlPath<String>,
    request: HttpRequest,
) -> Response {
    if !request.body().is_end_stream() {
        let error = "expected no body: a collection has the settings of the service's command line";
        return refusal(StatusCode::BAD_REQUEST, error);
    }
    if !is_name(&name) {
        let error =
            "the name of a collection is up to 64 of a-z, 0-9, -, _ and ., and begins with a letter or digit";
        return refusal(StatusCode::BAD_REQUEST, error);
    }
    let asked = name.clone();
    match tokio::task::spawn_blocking(move || service.make(&asked)).await {
        Ok(Ok(true)) => json_response(StatusCode::CREATED, &json!({ "collection": name, "answer": "made" })),
        Ok(Ok(false)) => json_response(StatusCode::OK, &json!({ "collection": name, "answer": "there" })),
        Ok(Err(error)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:#}")),
        Err(_) => NoAnswer::Failed.into_response(),
    }
}

/// Lets requests through that bear the token.
async fn bears_token(State(service): State<Arc<Service>>, request: HttpRequest, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let given = given.map(|(_, token)| text_digest(token.trim()));
    // Digests are compared, so that the time it takes says nothing of the token.
    if service.token.is_some_and(|token| given != Some(token)) {
        service.refused.fetch_add(1, Relaxed);
        let why = if given.is_some() {
            "this is not the service's bearer token"
        } else {
            "a bearer token is needed"
        };
        let refused = refusal(StatusCode::UNAUTHORIZED, why);
        return ([(header::WWW_AUTHENTICATE, "Bearer")], refused).into_response();
    }
    next.run(request).await
}

async fn health(State(service): State<Arc<Service>>) -> Response {
    let unwell = |what: String| (StatusCode::SERVICE_UNAVAILABLE, what).into_response();
    if service.is_stopping() {
        unwell("stopping\n".to_owned())
    } else if let Some((task, _)) = service.tasks().iter().find(|(_, runs)| !runs) {
        unwell(format!("the {task} task has ended; start the service anew\n"))
    } else if service.has_failed.load(Relaxed) {
        unwell("the disk has failed an index, which stores nothing more; start the service anew\n".to_owned())
    } else {
        "ok\n".into_response()
    }
}

async fn work(
    action: Action,
    State(service): State<Arc<Service>>,
    collection: Option<UrlPath<String>>,
    Extension(to): Extension<Arc<Connection>>,
    request: HttpRequest,
) -> Response {
    let name = collection.map_or_else(String::new, |UrlPath(name)| name);
    let Some(collection) = service.find(&name) else {
        return refusal(StatusCode::NOT_FOUND, "there is no such collection; PUT /v1/NAME makes one");
    };
    let (head, body) = request.into_parts();
    let kind =
        head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match &kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()[..] {
        "application/json" => {
            one(action, service, collection, to, body).await.unwrap_or_else(IntoResponse::into_response)
        }
        "application/x-ndjson" | "application/jsonl" => many(action, service, collection, to, body),
        _ => {
            let error = "expected content-type application/json, or application/x-ndjson for a page a line";
            refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
        }
    }
}

/// The next part of a body; none at its end.
async fn next_part(body: &mut BodyDataStream, patience: Duration) -> Result<Option<Bytes>, NoAnswer> {
    let part = tokio::time::timeout(patience, body.next()).await.map_err(|_| NoAnswer::Late)?;
    part.transpose().map_err(|_| NoAnswer::Cut)
}

async fn one(
    action: Action,
    service: Arc<Service>,
    collection: Arc<Collection>,
    to: Arc<Connection>,
    body: Body,
) -> Result<Response, NoAnswer> {
    let Limits { longest_document: longest, deadline, .. } = service.limits;
    let mut held = Held::default();
    let read = async {
        let said = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if said <= longest {
            // Before any of it is read, so that bodies that wait hold nothing.
            service.connections.hold(&mut held, said, deadline).await.ok_or(NoAnswer::Busy)?;
        }
        let (mut body, mut whole, mut read) = (body.into_data_stream(), Vec::new(), 0);
        loop {
            let Some(part) = next_part(&mut body, held.patience(deadline)).await? else { break };
            read += part.len();
            if said.max(read) > longest {
                // Who writes all of it before reading the answer would not hear of it if the rest were not read.
                if read > 4 * longest {
                    return Err(NoAnswer::TooLong);
                }
                (whole, held) = (Vec::new(), Held::default());
                continue;
            }
            if whole.is_empty() {
                whole.reserve_exact(said);
            }
            let (patience, length) = (held.patience(deadline), whole.len() + part.len());
            service.connections.hold(&mut held, length, patience).await.ok_or(NoAnswer::Busy)?;
            whole.extend_from_slice(&part);
        }
        if said.max(read) > longest { Err(NoAnswer::TooLong) } else { Ok(Bytes::from(whole)) }
    };
    let line = tokio::time::timeout(deadline, read).await.map_err(|_| NoAnswer::Late)??;
    to.works();
    let Answered { mut lines, removed, refused, failed, .. } =
        service.on_a_thread(&collection, action, vec![line], &to).await?;
    let status = match (failed, refused) {
        (true, _) => StatusCode::INTERNAL_SERVER_ERROR,
        (false, true) => StatusCode::BAD_REQUEST,
        (false, false) => StatusCode::OK,
    };
    if action == Action::Remove {
        total(&mut lines, removed);
    }
    Ok((status, [(header::CONTENT_TYPE, "application/json")], lines).into_response())
}

/// Answers the objects of a stream in order. If the client does not read answers, no more of its body is read.
fn many(
    action: Action,
    service: Arc<Service>,
    collection: Arc<Collection>,
    to: Arc<Connection>,
    body: Body,
) -> Response {
    let (send, answers) = mpsc::channel::<std::io::Result<Bytes>>(1);
    tokio::spawn(async move {
        let Limits { longest_document: longest, longest_request, deadline, .. } = service.limits;
        let (mut body, mut removed) = (body.into_data_stream(), 0);
        // True at the end of the body, false where nobody reads the answers.
        let read_all = async {
            let (mut held, mut rest, mut line, mut bytes) = (Held::default(), Vec::new(), Bytes::new(), 0u64);
            loop {
                let part = next_part(&mut body, held.patience(deadline)).await?;
                let ended = part.is_none();
                bytes += part.as_ref().map_or(0, |part| part.len() as u64);
                // The end of the body is that of its last line.
                let mut part = part.unwrap_or(Bytes::from_static(b"\n"));
                loop {
                    let batch = cut(&mut part, &mut rest, &mut line, longest);
                    let is_short = bytes <= longest_request && rest.len() <= longest;
                    let batch = batch.filter(|_| is_short).ok_or(NoAnswer::TooLong)?;
                    if batch.is_empty() {
                        break;
                    }
                    to.works();
                    let answered = service.on_a_thread(&collection, action, batch, &to).await;
                    to.waits();
                    let answered = answered?;
                    // Lines are in memory until they are worked on.
                    if line.is_empty() {
                        held = Held::default();
                    }
                    removed += answered.removed;
                    let sent =
                        tokio::time::timeout(held.patience(deadline), send.send(Ok(answered.lines.into())))
                            .await;
                    if !matches!(sent, Ok(Ok(()))) {
                        return Ok(false);
                    }
                }
                if ended {
                    return Ok(true);
                }
                // Lines that are whole have not waited for this.
                let patience = held.patience(deadline);
                service.connections.hold(&mut held, rest.len(), patience).await.ok_or(NoAnswer::Busy)?;
            }
        };
        let end = read_all.await;
        if matches!(end, Ok(false)) {
            // The answers that are missing are in doubt, so the connection breaks off.
            let _ = send.send(Err(std::io::ErrorKind::TimedOut.into())).await;
            return;
        }
        let (mut last, is_too_long) = (Vec::new(), matches!(end, Err(NoAnswer::TooLong)));
        if let Err(refused) = end {
            failure(&mut last, None, refused.status_and_text().1);
        }
        if action == Action::Remove {
            total(&mut last, removed);
        }
        if !last.is_empty() {
            let _ = send.send(Ok(last.into())).await;
        }
        drop(send);
        // Who writes all of it before reading the answers would not hear of it if the rest were not read.
        let mut left = if is_too_long { 4 * longest } else { 0 };
        while left > 0
            && let Ok(Some(part)) = next_part(&mut body, deadline).await
        {
            left = left.saturating_sub(part.len());
        }
    });
    let answers = Body::from_stream(ReceiverStream::new(answers));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], answers).into_response()
}

/// Takes objects off a part of a stream, as many as are worked on together; an empty list when it has no more that are
/// whole. What has no end yet waits in `rest`, and further objects of a line in `line`. Blank lines are no pages. None
/// if a line is longer than `longest`.
fn cut(part: &mut Bytes, rest: &mut Vec<u8>, line: &mut Bytes, longest: usize) -> Option<Vec<Bytes>> {
    let (mut objects, mut size) = (Vec::new(), 0);
    while objects.len() < BATCH && size < BATCH_BYTES {
        if line.is_empty() {
            let Some(end) = memchr::memchr(b'\n', part) else {
                rest.extend_from_slice(&std::mem::take(part));
                break;
            };
            *line = part.split_to(end + 1);
            line.truncate(end);
            if !rest.is_empty() {
                rest.extend_from_slice(line);
                *line = Bytes::from(std::mem::take(rest));
            }
            if line.len() > longest {
                return None;
            }
        }
        let first = objects_of_line(line).next().map_or(0, <[u8]>::len);
        let object = line.split_to(first);
        if !object.iter().all(u8::is_ascii_whitespace) {
            size += object.len();
            objects.push(object);
        }
    }
    Some(objects)
}

/// The figures, as Prometheus reads them.
async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let figures = tokio::task::spawn_blocking(move || service.figures()).await.unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], figures).into_response()
}

/// Figures as Prometheus reads them: all lines of a name together.
#[derive(Default)]
struct Figures(Vec<(&'static str, String)>);

impl Figures {
    fn gauge(&mut self, name: &'static str, help: &str, labels: &[&str], value: f64) {
        put_figure(self.lines_of(name, "gauge", help), name, labels, value);
    }

    fn counter(&mut self, name: &'static str, help: &str, labels: &[&str], value: f64) {
        put_figure(self.lines_of(name, "counter", help), name, labels, value);
    }

    /// The lines of a name, below those that say its kind and help.
    fn lines_of(&mut self, name: &'static str, kind: &str, help: &str) -> &mut String {
        let at = self.0.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            let head = format!("# HELP simflip_{name} {help}\n# TYPE simflip_{name} {kind}\n");
            self.0.push((name, head));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

/// Appends a figure with its labels; empty ones are left out.
fn put_figure(lines: &mut String, name: &str, labels: &[&str], value: f64) {
    let labels: Vec<&str> = labels.iter().copied().filter(|label| !label.is_empty()).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let value = if value > 0.0 && value < 1e-6 { format!("{value:e}") } else { value.to_string() };
    let _ = writeln!(lines, "simflip_{name}{labels} {value}");
}

impl Service {
    fn figures(&self) -> String {
        let mut figures = Figures::default();
        for (name, collection) in self.all() {
            let of = if self.many { format!("collection=\"{name}\"") } else { String::new() };
            collection.figures(&of, &mut figures);
        }
        let load = |count: &AtomicU64| count.load(Relaxed) as f64;
        figures.counter("refused_total", "Requests turned away.", &[], load(&self.refused));
        figures.gauge("waiting", "Requests that wait for a thread.", &[], load(&self.waiting));
        let (most, open, cut_off) = self.connections.counts();
        figures.gauge("connections", "Open connections.", &[], open as f64);
        figures.gauge("most_connections", "Connections that may be open.", &[], most as f64);
        let help = "Connections cut off to make room, which had waited for their client longest.";
        figures.counter("cut_off_total", help, &[], cut_off as f64);
        let help = "Bytes taken of the memory for long JSON objects on their way.";
        figures.gauge("body_bytes", help, &[], self.connections.held() as f64);
        let help = "Events that nobody read on standard error in time.";
        figures.counter("dropped_events_total", help, &[], dropped_events() as f64);
        for (task, runs) in self.tasks() {
            let help = "Whether a task runs that the service cannot do without.";
            let task = format!("task=\"{task}\"");
            figures.gauge("task_up", help, &[&task], f64::from(u8::from(runs)));
        }
        figures.0.into_iter().map(|(_, lines)| lines).collect()
    }
}

impl Collection {
    fn figures(&self, of: &str, figures: &mut Figures) {
        let (pages, (index, sketches, names), (snapshot, log), chance, recall) = {
            let seen = self.index.reading();
            let recall = seen.index().measured().map(|measured| measured.reached);
            (seen.len(), seen.bytes(), seen.stored_bytes(), seen.index().expected_by_chance(), recall)
        };
        figures.gauge("pages", "Pages stored.", &[of], pages as f64);
        for (part, bytes) in
            [("sketches", sketches), ("index", index.saturating_sub(sketches)), ("names", names)]
        {
            let part = format!("part=\"{part}\"");
            figures.gauge("memory_bytes", "Bytes in memory, about.", &[of, &part], bytes as f64);
        }
        for (part, bytes) in [("snapshot", snapshot), ("log", log)] {
            let part = format!("part=\"{part}\"");
            figures.gauge("stored_bytes", "Bytes of the files.", &[of, &part], bytes as f64);
        }
        let help = "Stored pages that a page unlike all of them is called near, on average.";
        figures.gauge("expected_chance_matches", help, &[of], chance);
        if let Some(recall) = recall {
            figures.gauge("recall", "Recall of the probes, as measured last.", &[of], recall);
        }
        let load = |count: &AtomicU64| count.load(Relaxed) as f64;
        let counts = &self.counts;
        for (kind, count) in AnswerKind::ALL.iter().zip(&counts.answer_kinds) {
            let answer = format!("answer=\"{}\"", kind.name());
            figures.counter("answers_total", "Answers given.", &[of, &answer], load(count));
        }
        for (name, help, count) in [
            ("again_total", "Answers given again.", &counts.again),
            ("added_total", "Pages stored or seen again.", &counts.added),
            ("removed_total", "Pages removed.", &counts.removed),
            ("errors_total", "Objects that were no pages.", &counts.errors),
            ("failed_total", "Pages that could not be stored.", &counts.failed),
        ] {
            figures.counter(name, help, &[of], load(count));
        }
        let (mut sum, help) = (0.0, "Time of a request or of a part of a stream.");
        let lines = figures.lines_of("work_seconds", "histogram", help);
        let mut work = |figure: &str, labels: &[&str], value: f64| put_figure(lines, figure, labels, value);
        for (end, count) in CLASSES.iter().zip(&counts.durations) {
            sum += load(count);
            work("work_seconds_bucket", &[of, &format!("le=\"{end}\"")], sum);
        }
        work("work_seconds_bucket", &[of, "le=\"+Inf\""], load(&counts.parts));
        work("work_seconds_sum", &[of], load(&counts.micros) / 1e6);
        work("work_seconds_count", &[of], load(&counts.parts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use std::convert::Infallible;
    use tokio_stream::iter;

    #[derive(clap::Parser)]
    struct Arguments {
        #[command(flatten)]
        index: IndexArgs,
    }

    const MB: usize = 1 << 20;

    /// A service with one thread and 4 MB for long bodies, without the task that keeps house.
    fn service(folder: &std::path::Path, many: bool) -> Arc<Service> {
        let arguments = ["serve".as_ref(), "--index".as_ref(), folder.as_os_str()];
        let limits = Limits {
            threads: 1,
            deadline: Duration::from_secs(30),
            longest_document: 2 * MB,
            longest_request: 8 * MB as u64,
            connections: 9,
            bodies: 4 * MB,
            fresh: None,
        };
        Arc::new(Service::open(Arguments::parse_from(arguments).index, many, limits, None).unwrap())
    }

    async fn healthz(service: &Arc<Service>) -> (StatusCode, String) {
        let response = health(State(Arc::clone(service))).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), MB).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_dead_task_and_a_failed_log_are_bad_health() {
        let top = tempfile::tempdir().unwrap();
        let service = service(&top.path().join("i"), false);
        let (status, why) = healthz(&service).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.contains("the housekeeping task has ended"), "{why}");
        assert!(service.figures().contains("simflip_task_up{task=\"housekeeping\"} 0"));
        service.keeping.set(tokio::spawn(std::future::pending::<()>()).abort_handle()).unwrap();
        assert_eq!(healthz(&service).await, (StatusCode::OK, "ok\n".to_owned()));
        // All who wait for a log hear that it fails.
        let (sender, wait) = oneshot::channel();
        sender.send(Err("no disk".to_owned())).unwrap();
        let (collection, to) = (service.find("").unwrap(), service.connections.admit().await);
        assert!(
            service
                .on_the_disk(&collection, Answered::default(), wait)
                .await
                .is_ok_and(|answered| answered.failed)
        );
        let (status, why) = healthz(&service).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.contains("stores nothing more"), "{why}");
        let line = Bytes::from(json!({ "url": "u", "text": "words" }).to_string());
        assert!(collection.answer(&service.limits, Action::Add, &[line], &to).failed);
    }

    #[tokio::test]
    async fn an_index_that_cannot_be_closed_keeps_no_other_from_it() {
        let top = tempfile::tempdir().unwrap();
        let service = service(&top.path().join("i"), true);
        let to = service.connections.admit().await;
        for name in ["a", "b"] {
            assert!(service.make(name).unwrap());
            let line = [Bytes::from(json!({ "url": "u", "text": "words" }).to_string())];
            service.find(name).unwrap().answer(&service.limits, Action::CheckAndAdd, &line, &to);
        }
        // The files of one still tell of a page that was removed, and there is no folder for new ones.
        service.find("a").unwrap().expire(u64::MAX).unwrap();
        fs::remove_dir_all(top.path().join("i/a")).unwrap();
        assert!(service.close().is_err());
        let access = simflip::seen::Access::Write { fsync: false };
        let other = simflip::seen::Seen::open(&top.path().join("i/b"), access, None).unwrap();
        assert_eq!((other.len(), other.notes()), (1, &[][..]));
    }

    #[tokio::test]
    async fn a_long_line_counts_as_held_until_it_has_been_worked_on() {
        let top = tempfile::tempdir().unwrap();
        let service = service(&top.path().join("i"), false);
        let busy = service.work.acquire().await.unwrap();
        let to = service.connections.admit().await;
        let line = json!({ "url": "u", "text": "word ".repeat(MB / 5) }).to_string() + "\n";
        let parts: Vec<_> = line.as_bytes().chunks(64 << 10).map(Bytes::copy_from_slice).collect();
        // The stream goes on, with the beginning of another line.
        let more = iter(parts.into_iter().chain([Bytes::from("{")])).chain(tokio_stream::pending());
        let body = Body::from_stream(more.map(Ok::<_, Infallible>));
        let collection = service.find("").unwrap();
        let answers = many(Action::Check, Arc::clone(&service), collection, Arc::clone(&to), body);
        while service.waiting.load(Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(service.connections.held() > MB / 2, "{}", service.connections.held());
        drop(busy);
        let mut answers = answers.into_body().into_data_stream();
        assert!(answers.next().await.unwrap().unwrap().starts_with(b"{\"page\":\"u\",\"answer\":\"new\""));
        while service.connections.held() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_unfinished_line_is_in_no_other_lines_way() {
        let top = tempfile::tempdir().unwrap();
        let mut service = service(&top.path().join("i"), false);
        Arc::get_mut(&mut service).unwrap().limits.deadline = Duration::from_millis(500);
        let to = service.connections.admit().await;
        let collection = service.find("").unwrap();
        let answers = async |body: ReceiverStream<Bytes>| {
            let body = Body::from_stream(body.map(Ok::<_, Infallible>));
            let answers =
                many(Action::Check, Arc::clone(&service), Arc::clone(&collection), Arc::clone(&to), body);
            let read = axum::body::to_bytes(answers.into_body(), MB);
            let read =
                tokio::time::timeout(Duration::from_secs(20), read).await.expect("it goes on").unwrap();
            String::from_utf8(read.to_vec()).unwrap()
        };
        // Nearly all of the memory for long lines is taken.
        let mut taken = Held::default();
        assert!(service.connections.hold(&mut taken, 4 * MB, Duration::ZERO).await.is_some());
        let line = json!({ "url": "u", "text": "words" }).to_string() + "\n{" + &"x".repeat(MB);
        let (send, parts) = mpsc::channel(1);
        send.send(Bytes::from(line)).await.unwrap();
        let answered = answers(ReceiverStream::new(parts)).await;
        assert!(answered.starts_with("{\"page\":\"u\",\"answer\":\"new\""), "{answered}");
        assert!(answered.contains("too many requests wait"), "{answered}");
        drop(taken);
        // A slow client has no longer for a line than others for a request.
        let (slow, parts) = mpsc::channel(1);
        tokio::spawn(async move {
            let _ = slow.send(Bytes::from(vec![b'x'; MB])).await;
            while slow.send(Bytes::from_static(b"x")).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let answered = answers(ReceiverStream::new(parts)).await;
        assert!(answered.contains("--deadline"), "{answered}");
        assert_eq!(service.connections.held(), 0);
    }
}
