//! `simflip serve`: an HTTP service around indexes of seen pages. This file takes connections, and ends in order;
//! [`service`] answers their requests.

mod connections;
mod locked;
mod service;
mod wire;

use super::Done;
use super::arguments::threads;
use super::index::{IndexArgs, age, millis, millis_of, written};
use anyhow::Context;
use axum::body::HttpBody as _;
use connections::{Admitted, Connection};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use service::{Limits, Service};
use simflip::hash::text_digest;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Answer over HTTP whether documents were seen before, and add them.
///
/// POST /v1/check asks, /v1/add stores, /v1/check-and-add does both, /v1/remove removes by name. One page as
/// application/json, or many as application/x-ndjson, one JSON object a line or several, answered while they come.
/// A page is {"url": …, "text": …}, or has a "sketch" that POST /v1/sketch gave instead of its text; "request"
/// names the request, so that it can be sent again and is answered as before. GET /healthz and GET /metrics
/// (Prometheus) tell how it goes. With --collections there are many indexes, each with a name.
///
/// What is answered is remembered, should the process be killed. Events go to standard error, a JSON object a
/// line. SIGTERM and Ctrl-C end it in good order.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip serve --index crawl.seen
  curl -s localhost:7878/v1/check-and-add --json '{\"url\":\"u\",\"text\":\"some words\"}'
  curl -sN -H 'content-type: application/x-ndjson' --data-binary @pages.jsonl \\
    localhost:7878/v1/check-and-add

TLS: let a proxy such as nginx or Caddy end it, and keep the service on the loopback interface.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    index: IndexArgs,

    /// Serve many indexes, one for each collection of the folder, under /v1/NAME/check and so on; PUT /v1/NAME makes
    /// one, with the settings given here, and GET /v1/collections names them
    #[arg(long)]
    collections: bool,

    /// Address and port, 0 for any free one; other addresses than the loopback's need --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,

    /// File with the token that every request must bear (Authorization: Bearer TOKEN), but for /healthz
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Remove pages that were last seen longer ago than this, such as 365d, every hour
    #[arg(long, value_name = "TIME", value_parser = age)]
    expire: Option<Duration>,

    /// Give up a request, or a part of a stream of lines, that takes longer than this
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30s")]
    deadline: Duration,

    /// Longest JSON object, and longest line of several, in MB
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 8)]
    longest_document: u32,

    /// Most bytes of a request of many lines, in MB
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..), default_value_t = 4096)]
    longest_request: u32,

    /// Open connections at most, fewer where the system allows fewer open files; for one more, the one is closed that
    /// has waited for its client longest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value_t = 256)]
    connections: u32,

    /// Memory for JSON objects on their way that are longer than 32 kB, in MB; others wait
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=100_000), default_value_t = 32)]
    bodies: u32,

    /// Number of threads that work on requests (0 = one per core)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    threads: usize,
}

/// Time that requests have to end after a signal.
const GRACE: Duration = Duration::from_secs(10);

/// Time that a connection has for the head of a request, from its beginning or from the last answer.
const IDLE: Duration = Duration::from_secs(75);

/// Time to wait, after a connection was closed, for the other end to report that it could not take the last answer.
const LINGER: Duration = Duration::from_millis(200);

/// Bytes that the head of a request may have.
const HEAD: usize = 16 << 10;

/// Bytes that are read of a request, or written of an answer, in one go at most.
const BUFFER: usize = 48 << 10;

/// The time between two checks whether the log is long enough for a snapshot.
const LOOK: Duration = Duration::from_millis(500);

/// The time between two checks whether the files hold traces of what was removed.
const MINUTE: Duration = Duration::from_secs(60);

/// The time between two removals of what has expired.
const HOUR: Duration = Duration::from_secs(3600);

/// Events that may wait for standard error; more are dropped and counted.
const EVENTS: usize = 1 << 10;

impl ServeArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let token = match &self.token_file {
            None => None,
            Some(path) => {
                let token = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                let token = token.trim().to_owned();
                anyhow::ensure!(!token.is_empty(), "--token-file {}: expected a token", path.display());
                Some(text_digest(&token))
            }
        };
        anyhow::ensure!(
            token.is_some() || self.listen.ip().is_loopback(),
            "--listen {}: anyone who reaches this address could read and change the index; give --token-file, or listen on 127.0.0.1",
            self.listen
        );
        let threads = match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let limits = Limits {
            threads,
            deadline: self.deadline,
            longest_document: self.longest_document as usize * 1_000_000,
            longest_request: u64::from(self.longest_request) * 1_000_000,
            connections: self.connections as usize,
            bodies: self.bodies.max(self.longest_document) as usize * 1_000_000,
            fresh: self.index.fresh,
        };
        std::panic::set_hook(Box::new(|panic| event("panic", &[("error", &panic.to_string())])));
        let service = Arc::new(Service::open(self.index.clone(), self.collections, limits, token)?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(threads + 2)
            .enable_all()
            .build()
            .context("the runtime")?;
        runtime.block_on(self.serve(Arc::clone(&service)))?;
        // What is still at work has had its time.
        runtime.shutdown_timeout(GRACE);
        service.close()?;
        event("stopped", &[("pages", &service.pages().to_string())]);
        write_events();
        Ok(Done::Well)
    }

    async fn serve(&self, service: Arc<Service>) -> anyhow::Result<()> {
        let listener = TcpListener::bind(self.listen).await;
        let listener = listener.with_context(|| format!("--listen {}", self.listen))?;
        let address = listener.local_addr().context("the address")?;
        let (most, ..) = service.connections.counts();
        let [address, pages, most] = [address.to_string(), service.pages().to_string(), most.to_string()];
        event("listening", &[("address", &address), ("pages", &pages), ("connections", &most)]);
        let (stop, stopping) = watch::channel(false);
        let keeping = tokio::spawn(keep_house(Arc::clone(&service), self.expire, stopping.clone()));
        let _ = service.keeping.set(keeping.abort_handle());
        let server = tokio::spawn(accept(listener, Arc::clone(&service), stopping));
        ended_by_signal().await?;
        event("stopping", &[]);
        service.stop();
        let _ = stop.send(true);
        if tokio::time::timeout(GRACE, server).await.is_err() {
            event("cut off", &[("after", "requests that did not end in time")]);
        }
        keeping.abort();
        Ok(())
    }
}

/// Takes connections until it is to stop, and ends when they have.
async fn accept(listener: TcpListener, service: Arc<Service>, mut stopping: watch::Receiver<bool>) {
    let routes = TowerToHyperService::new(service::routes(Arc::clone(&service)));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stopping.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (service, routes) = (Arc::clone(&service), routes.clone());
                    let admitted = service.connections.admit().await;
                    connections.spawn(serve(stream, admitted, service, routes, stopping.clone()));
                }
                // It may have been that client's fault; if there are too many connections, some end meanwhile.
                Err(_) => tokio::time::sleep(LOOK).await,
            },
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Serves a connection until it ends, and reports to the indexes what became of its answers.
async fn serve(
    stream: TcpStream,
    admitted: Admitted,
    service: Arc<Service>,
    routes: TowerToHyperService<axum::Router>,
    mut stopping: watch::Receiver<bool>,
) {
    // Answers are short: none waits for another.
    let _ = stream.set_nodelay(true);
    let connection = Arc::clone(&admitted);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE).max_header_size(HEAD).max_buf_size(BUFFER);
    let answer = service_fn(|request| Box::pin(answer(&routes, &connection, request)));
    let mut served = http.serve_connection(TokioIo::new(stream), answer);
    let mut in_order = loop {
        tokio::select! {
            served = poll_fn(|context| served.poll_without_shutdown(context)) => break served.is_ok(),
            () = connection.cut_off() => break false,
            Ok(()) = stopping.changed() => std::pin::Pin::new(&mut served).graceful_shutdown(),
        }
    };
    let stream = served.into_parts().io.into_inner();
    // Tokio hides that a connection was reset, and hyper may have taken that for its end in good order.
    in_order = in_order && socket2::SockRef::from(&stream).shutdown(Shutdown::Write).is_ok();
    if in_order && connection.has_answers() && !service.is_stopping() {
        // A client that has heard the answer closes the connection in the same way as one that dies
        // before it comes; but to that one it cannot be delivered.
        let _ = tokio::time::timeout(LINGER, connection.cut_off()).await;
        in_order = matches!(stream.take_error(), Ok(None));
    }
    drop((stream, admitted));
    connection.end();
    // When the index is closed, what was not heard is in doubt.
    if connection.has_answers() && !service.is_stopping() {
        let settled = tokio::task::spawn_blocking(move || connection.settle(in_order));
        let _ = settled.await;
    }
}

/// Answers a request that came on a connection.
async fn answer(
    routes: &TowerToHyperService<axum::Router>,
    connection: &Arc<Connection>,
    mut request: hyper::Request<Incoming>,
) -> Result<axum::response::Response, Infallible> {
    connection.waits();
    // The client has heard the answers before.
    connection.hears();
    if request.body().is_end_stream() {
        connection.works();
    }
    request.extensions_mut().insert(Arc::clone(connection));
    let response = routes.call(request).await;
    // A stream of answers goes on.
    if response.as_ref().is_ok_and(|response| response.body().size_hint().exact().is_some()) {
        connection.waits();
    }
    response
}

async fn ended_by_signal() -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).context("signals")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("signals")?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.context("signals")?;
    Ok(())
}

/// Puts long logs into snapshots; removes what has expired, every hour, and its traces in the files, every minute.
async fn keep_house(service: Arc<Service>, expire: Option<Duration>, mut stopping: watch::Receiver<bool>) {
    let (mut hour, mut minute) = (Instant::now(), Instant::now() + MINUTE);
    while tokio::time::timeout(LOOK, stopping.changed()).await.is_err() {
        // By the clock: the work of a look, such as a snapshot, does not put the next hour and minute off.
        let is_due = |next: &mut Instant, every| {
            let now = Instant::now();
            let is_due = now >= *next;
            if is_due {
                *next = now + every;
            }
            is_due
        };
        let (expire, traces) = (expire.filter(|_| is_due(&mut hour, HOUR)), is_due(&mut minute, MINUTE));
        for (name, collection) in service.all() {
            let kept = tokio::task::spawn_blocking(move || {
                let now = millis(SystemTime::now());
                let before = expire.map(|expire| now.saturating_sub(millis_of(expire)));
                let gone = before.map_or(Ok(0), |before| collection.expire(before))?;
                collection.shorten(traces).map(|made| (gone, made))
            })
            .await;
            let log = |what: &str, fact: (&str, &str)| {
                let all = [fact, ("collection", name.as_str())];
                event(what, if name.is_empty() { &all[..1] } else { &all });
            };
            match kept {
                Ok(Ok((gone, made))) => {
                    if gone > 0 {
                        log("expired", ("pages", &gone.to_string()));
                    }
                    if made {
                        log("snapshot", ("of", "a long log or of removals"));
                    }
                }
                Ok(Err(error)) => log("failed", ("error", &error.to_string())),
                Err(error) => log("failed", ("error", &error.to_string())),
            }
        }
    }
}

/// Events on their way to standard error. Where nobody reads it, only the thread waits that writes them.
struct Events {
    lines: SyncSender<String>,
    waiting: AtomicU64,
    dropped: AtomicU64,
}

static TO_WRITE: LazyLock<Events> = LazyLock::new(|| {
    let (lines, to_write) = sync_channel::<String>(EVENTS);
    // Without the thread all events are dropped, and counted.
    let _ = std::thread::Builder::new().name("events".to_owned()).spawn(move || {
        for line in to_write {
            simflip::terminal::note(line);
            TO_WRITE.waiting.fetch_sub(1, SeqCst);
        }
    });
    Events { lines, waiting: AtomicU64::new(0), dropped: AtomicU64::new(0) }
});

/// Writes an event on standard error, as a JSON object with these facts, unless too many wait for it already.
fn event(what: &str, facts: &[(&str, &str)]) {
    let mut line = serde_json::Map::new();
    line.insert("time".to_owned(), written(millis(SystemTime::now())).into());
    line.insert("event".to_owned(), what.into());
    facts.iter().for_each(|(name, value)| {
        line.insert((*name).to_owned(), (*value).into());
    });
    TO_WRITE.waiting.fetch_add(1, SeqCst);
    if TO_WRITE.lines.try_send(serde_json::Value::Object(line).to_string()).is_err() {
        TO_WRITE.waiting.fetch_sub(1, SeqCst);
        TO_WRITE.dropped.fetch_add(1, SeqCst);
    }
}

fn dropped_events() -> u64 {
    TO_WRITE.dropped.load(SeqCst)
}

/// Waits until all events are written, for a second at most.
fn write_events() {
    let begun = Instant::now();
    while TO_WRITE.waiting.load(SeqCst) > 0 && begun.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes an event that says why the service ends, and waits for it, for a second at most.
pub(super) fn report_failure(error: &str) {
    event("failed", &[("error", error)]);
    write_events();
}
