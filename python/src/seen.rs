//! The index of seen pages, asked from Python as `simflip seen` asks it.

use crate::errors::{of_core, of_library, of_refusal};
use crate::run::run;
use crate::sketches::pool;
use crate::texts::{Data, Texts, as_many};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::ThreadPool;
use rayon::prelude::*;
use simflip::cli::options::{OfSeen, age, of_seen, time, written_time};
use simflip::pipeline::{Progress, Silent};
use simflip::seen::{self, AnswerKind, Reply, Request};
use simflip::settings::Settings;
use simflip::sketch::{Sketch, Sketcher};
use simflip::weight::frequencies::Frequencies;
use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// An open index. Calls of several threads come one after the other.
#[pyclass(frozen, module = "simflip._simflip")]
pub struct Seen {
    settings: Settings,
    frequencies: Arc<Frequencies>,
    /// Milliseconds after which a page is stale.
    fresh: Option<u64>,
    /// For texts that come one by one.
    sketcher: Mutex<Sketcher>,
    /// Nothing once it is closed. Never waited for with the interpreter's lock.
    open: Mutex<Option<Open>>,
    /// Threads of its own: those that all share are not there in a process that was forked. Nothing once it is dropped.
    pool: Option<ThreadPool>,
    /// The process that opened it, which alone may use it: a fork has a copy of what changes, and shares the lock.
    process: u32,
}

impl Drop for Seen {
    fn drop(&mut self) {
        // In a fork, nothing of it is to be closed, unlocked or waited for.
        if std::process::id() != self.process {
            std::mem::forget(self.pool.take());
            std::mem::forget(self.open.try_lock().ok().and_then(|mut open| open.take()));
        }
    }
}

struct Open {
    seen: seen::Seen,
    /// Calls that stored something: which of them was the last one.
    calls: u64,
}

/// What is done with each page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Check,
    Add,
    CheckAndAdd,
}

/// The fields of an answer: page, answer, distance, earlier, similarity, last_seen, near_pages, at_least, again.
type Answer =
    (String, &'static str, Option<u32>, Option<String>, Option<f64>, Option<String>, u32, bool, bool);

fn answer(name: &str, reply: &Reply) -> Answer {
    let found = reply.kind != AnswerKind::New;
    // Four decimals, as everywhere.
    let similarity = (f64::from(reply.similarity) * 1e4).round() / 1e4;
    (
        name.to_owned(),
        reply.kind.name(),
        found.then_some(reply.distance),
        reply.earlier.as_deref().map(str::to_owned),
        found.then_some(similarity),
        found.then(|| written_time(reply.seen)),
        reply.near,
        reply.more,
        reply.again,
    )
}

/// A poisoned lock still holds what is whole: nothing panics between two changes that belong together.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

impl Seen {
    /// Refuses another process than the one that opened it.
    fn check_process(&self) -> PyResult<()> {
        match std::process::id() == self.process {
            true => Ok(()),
            false => Err(PyValueError::new_err(format!(
                "process {} opened the index, and this one was forked from it; open it here again, with read_only=True \
                 beside one that stores",
                self.process
            ))),
        }
    }

    /// Works on the threads of the index.
    fn on_pool<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Works on the open index, without the interpreter's lock.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Open) -> simflip::Result<R> + Send,
    ) -> PyResult<R> {
        self.check_process()?;
        let done = py.detach(|| self.on_pool(|| lock(&self.open).as_mut().map(work)));
        done.ok_or_else(closed)?.map_err(of_library)
    }

    /// Sketches of texts, one for each.
    fn sketches(&self, texts: &[&str], progress: &dyn Progress) -> simflip::Result<Vec<Sketch>> {
        if let [text] = texts {
            return Ok(vec![lock(&self.sketcher).sketch(text)]);
        }
        progress.begin("sketch", texts.len() as u64, "pages");
        let sketches = texts
            .par_chunks(64)
            .map_init(
                || Sketcher::new(&self.settings, Some(Arc::clone(&self.frequencies))),
                |sketcher, texts| {
                    progress.advance(texts.len() as u64);
                    let sketcher = sketcher.as_mut().map_err(|error| error.clone())?;
                    Ok(texts.iter().map(|text| sketcher.sketch(text)).collect::<Vec<_>>())
                },
            )
            .collect::<Result<Vec<_>, simflip::core::Error>>()?;
        progress.end();
        Ok(sketches.into_iter().flatten().collect())
    }

    fn request<'a>(&self, name: &'a str, id: Option<&'a str>, seen: u64) -> Request<'a> {
        let fresh_from = self.fresh.map_or(0, |fresh| seen.saturating_sub(fresh));
        Request { name, id, seen, fresh_from, ..Request::default() }
    }

    /// Asks about pages and stores them, and says which call it was, for [`take_back`](Self::take_back).
    fn work(
        &self,
        work: Work,
        pages: &[(Request<'_>, &Sketch)],
        call: &Mutex<Option<u64>>,
    ) -> Option<simflip::Result<Vec<Answer>>> {
        let mut open = lock(&self.open);
        let open = open.as_mut()?;
        if work == Work::Check {
            let ask = |(request, sketch): &(Request<'_>, &Sketch)| {
                Ok(answer(request.name, &open.seen.ask(request, sketch)?))
            };
            return Some(pages.iter().map(ask).collect());
        }
        let Open { seen, calls } = open;
        // Whoever asks again has heard the answers before.
        if let Err(error) = seen.delivered() {
            return Some(Err(error));
        }
        *calls += 1;
        *lock(call) = Some(*calls);
        let mut store = || {
            let mut answers = Vec::new();
            for (request, sketch) in pages {
                match work {
                    Work::CheckAndAdd => {
                        answers.push(answer(request.name, &seen.ask_and_add(request, sketch)?));
                    }
                    _ => seen.add(request, sketch)?,
                }
            }
            seen.commit()?;
            Ok(answers)
        };
        Some(store().inspect_err(|_| {
            // What cannot be noted is in doubt.
            let _ = seen.withdraw(0);
        }))
    }

    /// Takes back what a call stored whose answers nobody heard, unless another call has come since.
    fn take_back(&self, py: Python<'_>, call: u64) {
        py.detach(|| {
            if let Some(open) = lock(&self.open).as_mut().filter(|open| open.calls == call) {
                // What cannot be noted is in doubt.
                let _ = open.seen.withdraw(0);
            }
        });
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the index is closed")
}

#[pymethods]
impl Seen {
    /// Opens the index that `options` name, or makes it; `read_only` opens one that is there to ask alone. Gives it
    /// with what there is to say of how it was opened.
    #[staticmethod]
    fn open(py: Python<'_>, options: Vec<OsString>, read_only: bool) -> PyResult<(Self, Vec<String>)> {
        let pool = pool(0)?;
        let opened = py.detach(|| pool.install(|| of_seen(&options, read_only))).map_err(of_refusal)?;
        let OfSeen { seen, frequencies, fresh, .. } = opened;
        let settings = seen.params().settings.clone();
        let sketcher = Sketcher::new(&settings, Some(Arc::clone(&frequencies))).map_err(of_core)?;
        let notes = seen.notes().to_vec();
        let index = Self {
            settings,
            frequencies,
            fresh: fresh.map(millis),
            sketcher: Mutex::new(sketcher),
            open: Mutex::new(Some(Open { seen, calls: 0 })),
            pool: Some(pool),
            process: std::process::id(),
        };
        Ok((index, notes))
    }

    /// Answers for texts, in their order; None where there is no text. `work` is check, add or check-and-add; add
    /// gives no answers. `ids` and `requests` are as many names as texts, or the name of a column of `data`.
    #[pyo3(signature = (work, data, column, ids, requests, seen_at, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "it has the keywords of three methods")]
    fn work_on<'py>(
        &self,
        py: Python<'py>,
        work: &str,
        data: &Bound<'py, PyAny>,
        column: &str,
        ids: Option<&Bound<'py, PyAny>>,
        requests: Option<&Bound<'py, PyAny>>,
        seen_at: Option<u64>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Option<Answer>>> {
        let work = match work {
            "check" => Work::Check,
            "add" => Work::Add,
            _ => Work::CheckAndAdd,
        };
        self.check_process()?;
        let given = Data::new(data)?;
        let held = given.texts(py, column)?;
        let ids = ids.map(|ids| given.beside("ids", ids)).transpose()?;
        let requests = requests.map(|requests| given.beside("requests", requests)).transpose()?;
        let texts = held.rows()?;
        let ids = ids.as_ref().map(Texts::rows).transpose()?;
        let requests = requests.as_ref().map(Texts::rows).transpose()?;
        for (what, names) in [("ids", &ids), ("requests", &requests)] {
            if let Some(names) = names {
                as_many(what, names.len(), texts.len())?;
            }
        }
        let at = seen_at.unwrap_or_else(now);
        let (mut rows, mut present, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for (row, text) in texts.iter().enumerate() {
            let Some(text) = *text else { continue };
            let name = match ids.as_ref().and_then(|ids| ids[row]) {
                Some(name) => name,
                None if work == Work::Check => "",
                None => {
                    return Err(PyValueError::new_err(format!(
                        "text {row} has no id: what is stored needs a name, its URL for example"
                    )));
                }
            };
            rows.push(row);
            present.push(text);
            asked.push(self.request(name, requests.as_ref().and_then(|requests| requests[row]), at));
        }
        let call = Mutex::new(None);
        let ask = |progress: &dyn Progress| -> Option<simflip::Result<Vec<Answer>>> {
            let sketches = match self.sketches(&present, progress) {
                Ok(sketches) => sketches,
                Err(error) => return Some(Err(error)),
            };
            let pages: Vec<_> = asked.iter().copied().zip(&sketches).collect();
            self.work(work, &pages, &call)
        };
        // A thread of its own costs more than one page does.
        let done = match present.len() {
            0 | 1 => Ok(py.detach(|| ask(&Silent))),
            _ => run(py, progress, |ticker| self.on_pool(|| ask(ticker))),
        };
        let done = done.inspect_err(|_| {
            if let Some(call) = *lock(&call) {
                self.take_back(py, call);
            }
        })?;
        let answers = done.ok_or_else(closed)?.map_err(of_library)?;
        let mut all: Vec<Option<Answer>> = Vec::new();
        if work != Work::Add {
            all.resize_with(texts.len(), || None);
            rows.into_iter().zip(answers).for_each(|(row, answer)| all[row] = Some(answer));
        }
        Ok(all)
    }

    /// Removes the pages of these names, and gives how many went. The files hold no trace of them then.
    fn remove(&self, py: Python<'_>, names: HashSet<String>) -> PyResult<usize> {
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        self.with(py, |open| remove(&mut open.seen, &names, 0))
    }

    /// Removes the pages that were last seen longer ago than this, such as `365d`, and gives how many went.
    fn expire(&self, py: Python<'_>, older: &str, seen_at: Option<u64>) -> PyResult<usize> {
        let before = seen_at.unwrap_or_else(now).saturating_sub(millis(age(older).map_err(of_refusal)?));
        self.with(py, |open| remove(&mut open.seen, &HashSet::new(), before))
    }

    /// Closes the index; `heard` says that the last answers were.
    fn close(&self, py: Python<'_>, heard: bool) -> PyResult<()> {
        // Leaving a block of `with` in a fork closes nothing of whoever opened it.
        if self.check_process().is_err() {
            return Ok(());
        }
        let closing = py.detach(|| {
            self.on_pool(|| {
                let Some(Open { mut seen, calls }) = lock(&self.open).take() else { return Ok(()) };
                if heard && calls > 0 {
                    seen.delivered()?;
                }
                seen.close()
            })
        });
        closing.map_err(of_library)
    }

    /// Pages stored.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |open| Ok(open.seen.len()))
    }
}

/// Removes pages as the command line does.
fn remove(seen: &mut seen::Seen, names: &HashSet<&str>, before: u64) -> simflip::Result<usize> {
    seen.delivered()?;
    let gone = seen.remove(names, before)?;
    if gone > 0 {
        seen.snapshot()?;
    }
    Ok(gone)
}

/// A time such as 2026-11-01T12:00:00Z, in milliseconds since 1970.
///
/// # Errors
/// `ValueError` if it is none.
#[pyfunction]
pub fn time_of(text: &str) -> PyResult<u64> {
    time(text).map_err(of_refusal)
}
