//! The service: requests in, answers out, one index behind a lock.

use super::super::index::{JsonAnswer, Opened, millis};
use super::wire::{Page, WireSketch};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use flipside::hash::text_digest;
use flipside::seen::{Reply, Request, Seen, Verdict};
use flipside::settings::Settings;
use flipside::sketch::{Sketch, Sketcher};
use flipside::weight::frequencies::Frequencies;
use serde_json::json;
use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::{Stream, StreamExt};

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) threads: usize,
    pub(super) deadline: Duration,
    /// Bytes of a JSON object.
    pub(super) longest_page: usize,
    /// Bytes of a stream of them.
    pub(super) longest_request: u64,
    pub(super) fresh: Option<Duration>,
}

/// Lines of a stream that are worked on together.
const BATCH: usize = 256;

/// Bytes of a stream that are worked on together, about.
const BATCH_BYTES: usize = 1 << 20;

/// Requests and parts of streams that may wait for a thread; more are turned away.
const MOST_WAITING: u64 = 4096;

/// Upper ends of the classes of durations, in seconds.
const CLASSES: [f64; 12] = [1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// What is done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Check,
    Add,
    CheckAndAdd,
    Remove,
    Sketch,
}

/// The service.
pub(super) struct Service {
    seen: RwLock<Seen>,
    settings: Settings,
    frequencies: Arc<Frequencies>,
    /// Sketchers that nobody uses now.
    sketchers: Mutex<Vec<Sketcher>>,
    limits: Limits,
    token: Option<u128>,
    work: Semaphore,
    waiting: AtomicU64,
    stopping: AtomicBool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    verdicts: [AtomicU64; 4],
    again: AtomicU64,
    added: AtomicU64,
    removed: AtomicU64,
    errors: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    /// Parts of requests by the class of their duration.
    durations: [AtomicU64; CLASSES.len()],
    parts: AtomicU64,
    micros: AtomicU64,
}

impl Service {
    pub(super) fn new(opened: Opened, limits: Limits, token: Option<u128>) -> Self {
        let Opened { seen, frequencies } = opened;
        Self {
            settings: seen.params().settings.clone(),
            seen: RwLock::new(seen),
            frequencies,
            sketchers: Mutex::default(),
            limits,
            token,
            work: Semaphore::new(limits.threads),
            waiting: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    pub(super) fn pages(&self) -> usize {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes no more streams on.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Removes what was last seen before a time, and puts what was removed out of the files.
    pub(super) fn keep_house(&self, before: Option<u64>) -> flipside::Result<usize> {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let gone = match before {
            Some(before) => seen.remove(|_, last| last < before)?,
            None => 0,
        };
        if seen.has_traces() {
            seen.snapshot()?;
        }
        Ok(gone)
    }

    /// Ends in good order.
    pub(super) fn close(&self) -> flipside::Result<()> {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.delivered()?;
        if seen.has_traces() { seen.snapshot() } else { Ok(()) }
    }

    /// Works on some objects, each a line, and appends a line of answer for each.
    fn answer(&self, action: Action, lines: &[Bytes]) -> Vec<u8> {
        let begun = Instant::now();
        let taken = self.sketchers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let sketcher = match taken {
            Some(sketcher) => Ok(sketcher),
            None => Sketcher::new(&self.settings, Some(Arc::clone(&self.frequencies))),
        };
        let mut out = Vec::with_capacity(lines.len() * 160);
        match sketcher {
            Ok(mut sketcher) => {
                let asked: Vec<Result<Asked<'_>, String>> =
                    lines.iter().map(|line| self.read(action, &mut sketcher, line)).collect();
                self.sketchers.lock().unwrap_or_else(PoisonError::into_inner).push(sketcher);
                if let Err(error) = self.work_on(action, &asked, &mut out) {
                    // The index is as it was: none of these pages is remembered.
                    self.counts.failed.fetch_add(asked.len() as u64, Relaxed);
                    out.clear();
                    for asked in &asked {
                        failure(
                            &mut out,
                            asked.as_ref().ok().and_then(|asked| asked.page.name()),
                            &error.to_string(),
                        );
                    }
                }
            }
            Err(error) => lines.iter().for_each(|_| failure(&mut out, None, &error.to_string())),
        }
        self.counts.took(begun.elapsed());
        out
    }

    /// Reads an object, and makes the sketch of its page where one is wanted.
    fn read<'a>(&self, action: Action, sketcher: &mut Sketcher, line: &'a [u8]) -> Result<Asked<'a>, String> {
        let page: Page<'a> = serde_json::from_slice(line).map_err(|error| format!("not a page: {error}"))?;
        if action != Action::Sketch && page.name().is_none() {
            return Err("a page without url or id".to_owned());
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
        Ok(Asked { page, sketch })
    }

    fn work_on(
        &self,
        action: Action,
        asked: &[Result<Asked<'_>, String>],
        out: &mut Vec<u8>,
    ) -> flipside::Result<()> {
        let now = millis(SystemTime::now());
        let fresh =
            self.limits.fresh.map_or(u64::MAX, |fresh| u64::try_from(fresh.as_millis()).unwrap_or(u64::MAX));
        let questions = asked.iter().map(|asked| question(asked, now, now.saturating_sub(fresh)));
        let mut replies: Vec<Option<Reply>> = Vec::with_capacity(asked.len());
        let mut removed = 0;
        match action {
            Action::Sketch => {}
            Action::Check => {
                let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
                for question in questions {
                    replies.push(question.map(|(about, sketch)| seen.ask(&about, sketch)).transpose()?);
                }
            }
            Action::Add | Action::CheckAndAdd => {
                let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
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
                // A client that hears nothing asks again under the name of its request.
                seen.acknowledge()?;
                self.counts.added.fetch_add(asked.iter().flatten().count() as u64, Relaxed);
            }
            Action::Remove => {
                let names: HashSet<&str> =
                    asked.iter().flatten().map(|asked| asked.page.name().unwrap_or_default()).collect();
                let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
                removed = seen.remove(|name, _| names.contains(name))?;
                self.counts.removed.fetch_add(removed as u64, Relaxed);
            }
        }
        let mut replies = replies.into_iter();
        for asked in asked {
            let reply = replies.next().flatten();
            match (asked, reply) {
                (Err(error), _) => {
                    self.counts.errors.fetch_add(1, Relaxed);
                    failure(out, None, error);
                }
                (Ok(Asked { page, .. }), Some(reply)) => {
                    self.counts.replied(&reply);
                    let name = page.name().unwrap_or_default();
                    put(out, &JsonAnswer::new(name, page.request.as_deref(), &reply));
                }
                (Ok(Asked { page, sketch: Some(sketch) }), None) if action == Action::Sketch => {
                    put(out, &json!({ "page": page.name(), "sketch": WireSketch::of(sketch) }));
                }
                (Ok(Asked { page, .. }), None) => {
                    let answer = if action == Action::Add { "added" } else { "removed" };
                    put(out, &json!({ "page": page.name(), "answer": answer, "request": page.request }));
                }
            }
        }
        if action == Action::Remove {
            put(out, &json!({ "removed_pages": removed }));
        }
        Ok(())
    }

    /// Works on some objects on a thread of its own, unless too many wait already or it takes too long.
    async fn on_a_thread(self: &Arc<Self>, action: Action, lines: Vec<Bytes>) -> Result<Vec<u8>, Refused> {
        if self.waiting.fetch_add(1, Relaxed) >= MOST_WAITING {
            self.waiting.fetch_sub(1, Relaxed);
            self.counts.refused.fetch_add(1, Relaxed);
            return Err(Refused::Busy);
        }
        let permit = tokio::time::timeout(self.limits.deadline, self.work.acquire()).await;
        self.waiting.fetch_sub(1, Relaxed);
        let Ok(Ok(permit)) = permit else {
            self.counts.refused.fetch_add(1, Relaxed);
            return Err(Refused::Late);
        };
        let service = Arc::clone(self);
        let worked = tokio::task::spawn_blocking(move || service.answer(action, &lines)).await;
        drop(permit);
        worked.map_err(|_| Refused::Failed)
    }
}

/// What is asked of the index for a page with a sketch.
fn question<'a>(
    asked: &'a Result<Asked<'_>, String>,
    seen: u64,
    fresh_from: u64,
) -> Option<(Request<'a>, &'a Sketch)> {
    let Ok(Asked { page, sketch: Some(sketch) }) = asked else { return None };
    let name = page.name().unwrap_or_default();
    Some((Request { name, id: page.request.as_deref(), seen, fresh_from }, sketch))
}

/// Why there is no answer.
enum Refused {
    Busy,
    Late,
    Failed,
    TooLong,
    Cut,
}

impl Refused {
    fn told(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many requests wait; send it again later"),
            Self::Late => (StatusCode::SERVICE_UNAVAILABLE, "it took longer than --deadline; send it again"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "a fault of the service"),
            Self::TooLong => {
                (StatusCode::PAYLOAD_TOO_LARGE, "longer than --longest-page or --longest-request allows")
            }
            Self::Cut => (StatusCode::BAD_REQUEST, "the request ended before its end"),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, error) = self.told();
        let body = json!({ "answer": "error", "error": error }).to_string();
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// A page that is asked about, with its sketch.
struct Asked<'a> {
    page: Page<'a>,
    sketch: Option<Sketch>,
}

/// Appends a line of JSON.
fn put(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    if serde_json::to_writer(&mut *out, value).is_ok() {
        out.push(b'\n');
    }
}

fn failure(out: &mut Vec<u8>, page: Option<&str>, error: &str) {
    put(out, &json!({ "page": page, "answer": "error", "error": error }));
}

impl Counts {
    fn replied(&self, reply: &Reply) {
        if let Some(at) = Verdict::ALL.iter().position(|verdict| *verdict == reply.verdict) {
            self.verdicts[at].fetch_add(1, Relaxed);
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

/// The paths of the service.
pub(super) fn routes(service: Arc<Service>) -> Router {
    let guarded = Router::new()
        .route("/v1/check", post(|state, headers, body| work(Action::Check, state, headers, body)))
        .route("/v1/add", post(|state, headers, body| work(Action::Add, state, headers, body)))
        .route(
            "/v1/check-and-add",
            post(|state, headers, body| work(Action::CheckAndAdd, state, headers, body)),
        )
        .route("/v1/remove", post(|state, headers, body| work(Action::Remove, state, headers, body)))
        .route("/v1/sketch", post(|state, headers, body| work(Action::Sketch, state, headers, body)))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(Arc::clone(&service), bears_token));
    guarded.route("/healthz", get(health)).with_state(service)
}

/// Lets requests through that bear the token.
async fn bears_token(State(service): State<Arc<Service>>, request: HttpRequest, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).map(text_digest);
    // Digests are compared, so that the time it takes says nothing of the token.
    if service.token.is_some_and(|token| given != Some(token)) {
        service.counts.refused.fetch_add(1, Relaxed);
        let body = json!({ "answer": "error", "error": "a bearer token is needed" }).to_string();
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response();
    }
    next.run(request).await
}

async fn health(State(service): State<Arc<Service>>) -> Response {
    match service.stopping.load(Relaxed) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
        false => "ok\n".into_response(),
    }
}

async fn work(
    action: Action,
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => one(action, service, body).await.unwrap_or_else(IntoResponse::into_response),
        "application/x-ndjson" | "application/jsonl" => many(action, service, body),
        _ => {
            let error = "expected content-type application/json, or application/x-ndjson for a page a line";
            let body = json!({ "answer": "error", "error": error }).to_string();
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, body).into_response()
        }
    }
}

/// Answers one page.
async fn one(action: Action, service: Arc<Service>, body: Body) -> Result<Response, Refused> {
    let longest = service.limits.longest_page;
    let read = async {
        let (mut body, mut whole) = (body.into_data_stream(), Vec::new());
        while let Some(part) = body.next().await {
            let part = part.map_err(|_| Refused::Cut)?;
            if whole.len() + part.len() > longest {
                return Err(Refused::TooLong);
            }
            whole.extend_from_slice(&part);
        }
        Ok(Bytes::from(whole))
    };
    let line = tokio::time::timeout(service.limits.deadline, read).await.map_err(|_| Refused::Late)??;
    let answer = service.on_a_thread(action, vec![line]).await?;
    let failed = answer.windows(16).take(1 << 16).any(|window| window == b"\"answer\":\"error\"");
    let status = if failed { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    Ok((status, [(header::CONTENT_TYPE, "application/json")], answer).into_response())
}

/// Answers pages line by line. A client that reads no answers is read no further.
fn many(action: Action, service: Arc<Service>, body: Body) -> Response {
    let (send, answers) = mpsc::channel::<Bytes>(4);
    tokio::spawn(async move {
        let mut body = body.into_data_stream();
        let (mut rest, mut lines, mut bytes) = (Vec::new(), Vec::new(), 0u64);
        let end = loop {
            let part = match tokio::time::timeout(service.limits.deadline, body.next()).await {
                Err(_) => break Err(Refused::Late),
                Ok(Some(Err(_))) => break Err(Refused::Cut),
                Ok(Some(Ok(part))) => Some(part),
                Ok(None) => None,
            };
            let ended = part.is_none();
            if let Some(part) = part {
                bytes += part.len() as u64;
                cut(&part, &mut rest, &mut lines);
            } else if !rest.is_empty() {
                lines.push(Bytes::from(std::mem::take(&mut rest)));
            }
            let longest = service.limits.longest_page;
            let too_long = rest.len() > longest || lines.iter().any(|line| line.len() > longest);
            if bytes > service.limits.longest_request || too_long {
                break Err(Refused::TooLong);
            }
            let mut waiting = std::mem::take(&mut lines).into_iter().peekable();
            let mut failed = None;
            while waiting.peek().is_some() {
                let (mut batch, mut size) = (Vec::new(), 0);
                while batch.len() < BATCH
                    && size < BATCH_BYTES
                    && let Some(line) = waiting.next()
                {
                    size += line.len();
                    batch.push(line);
                }
                match service.on_a_thread(action, batch).await {
                    Ok(answer) => {
                        let sent =
                            tokio::time::timeout(service.limits.deadline, send.send(answer.into())).await;
                        if !matches!(sent, Ok(Ok(()))) {
                            // Nobody reads the answers.
                            return;
                        }
                    }
                    Err(refused) => {
                        failed = Some(refused);
                        break;
                    }
                }
            }
            match failed {
                Some(refused) => break Err(refused),
                None if ended => break Ok(()),
                None => {}
            }
        };
        if let Err(refused) = end {
            let mut line = Vec::new();
            failure(&mut line, None, refused.told().1);
            let _ = send.send(line.into()).await;
        }
    });
    let answers = Answers(answers);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(answers)).into_response()
}

/// Answers as they come.
struct Answers(mpsc::Receiver<Bytes>);

impl Stream for Answers {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|answer| answer.map(Ok))
    }
}

/// Cuts a part of a stream into lines; what has no end yet waits in `rest`. Blank lines are no pages.
fn cut(part: &Bytes, rest: &mut Vec<u8>, lines: &mut Vec<Bytes>) {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', part) {
        let line = if rest.is_empty() {
            part.slice(start..end)
        } else {
            rest.extend_from_slice(&part[start..end]);
            Bytes::from(std::mem::take(rest))
        };
        start = end + 1;
        if !line.iter().all(u8::is_ascii_whitespace) {
            lines.push(line);
        }
    }
    rest.extend_from_slice(&part[start..]);
}

/// The figures, as Prometheus reads them.
async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let figures = tokio::task::spawn_blocking(move || service.figures()).await.unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], figures).into_response()
}

impl Service {
    fn figures(&self) -> String {
        let mut out = String::new();
        let mut figure = |name: &str, kind: &str, help: &str, values: &[(&str, f64)]| {
            let _ = writeln!(out, "# HELP flipside_{name} {help}\n# TYPE flipside_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(out, "flipside_{name}{labels} {value}");
            }
        };
        let load = |count: &AtomicU64| count.load(Relaxed) as f64;
        {
            let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
            let (index, sketches, names) = seen.bytes();
            let (snapshot, log) = seen.stored_bytes();
            figure("pages", "gauge", "Pages stored.", &[("", seen.len() as f64)]);
            let memory = [
                ("{part=\"sketches\"}", sketches as f64),
                ("{part=\"index\"}", index.saturating_sub(sketches) as f64),
                ("{part=\"names\"}", names as f64),
            ];
            figure("memory_bytes", "gauge", "Bytes in memory, about.", &memory);
            let stored = [("{part=\"snapshot\"}", snapshot as f64), ("{part=\"log\"}", log as f64)];
            figure("stored_bytes", "gauge", "Bytes of the files.", &stored);
            figure(
                "expected_chance_matches",
                "gauge",
                "Stored pages that a page unlike all of them is called near, on average.",
                &[("", seen.index().expected_by_chance())],
            );
            if let Some(measured) = seen.index().measured() {
                figure(
                    "recall",
                    "gauge",
                    "Recall of the probes, as measured last.",
                    &[("", measured.reached)],
                );
            }
        }
        let counts = &self.counts;
        let verdicts: Vec<(String, f64)> = Verdict::ALL
            .iter()
            .zip(&counts.verdicts)
            .map(|(verdict, count)| (format!("{{answer=\"{}\"}}", verdict.name()), load(count)))
            .collect();
        let verdicts: Vec<(&str, f64)> =
            verdicts.iter().map(|(labels, count)| (labels.as_str(), *count)).collect();
        figure("answers_total", "counter", "Answers given.", &verdicts);
        figure("again_total", "counter", "Answers given again.", &[("", load(&counts.again))]);
        figure("added_total", "counter", "Pages stored or seen again.", &[("", load(&counts.added))]);
        figure("removed_total", "counter", "Pages removed.", &[("", load(&counts.removed))]);
        figure("errors_total", "counter", "Objects that were no pages.", &[("", load(&counts.errors))]);
        figure("failed_total", "counter", "Pages that could not be stored.", &[("", load(&counts.failed))]);
        figure("refused_total", "counter", "Requests turned away.", &[("", load(&counts.refused))]);
        figure("waiting", "gauge", "Requests that wait for a thread.", &[("", load(&self.waiting))]);
        let mut sum = 0.0;
        let mut classes: Vec<(String, f64)> = Vec::new();
        for (end, count) in CLASSES.iter().zip(&counts.durations) {
            sum += load(count);
            classes.push((format!("_bucket{{le=\"{end}\"}}"), sum));
        }
        classes.push(("_bucket{le=\"+Inf\"}".to_owned(), load(&counts.parts)));
        classes.push(("_sum".to_owned(), load(&counts.micros) / 1e6));
        classes.push(("_count".to_owned(), load(&counts.parts)));
        let classes: Vec<(&str, f64)> =
            classes.iter().map(|(labels, count)| (labels.as_str(), *count)).collect();
        figure("work_seconds", "histogram", "Time of a request or of a part of a stream.", &classes);
        out
    }
}
