//! Servers in threads of their own, which fail now and then if they are asked to.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tower_http::services::ServeDir;
use tower_service::Service;

/// The keys of the S3 server.
pub const KEYS: [&str; 2] = ["a-key", "a-secret"];

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Failure>;

/// What goes wrong: one in so many requests, 0 for none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// An answer 503 `SlowDown` or 500.
    pub refused: u64,
    /// The connection is closed without an answer.
    pub dropped: u64,
    /// The body breaks off in its middle.
    pub cut: u64,
    /// All requests get 403.
    pub forbidden: bool,
    /// Ranges are not heeded: the whole file comes.
    pub no_ranges: bool,
}

/// What the server has seen and what it is to do.
#[derive(Default)]
struct State {
    faults: Mutex<Faults>,
    requests: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    /// What happens with the request of this number.
    then: Mutex<Option<(u64, Box<dyn FnOnce() + Send>)>>,
}

/// What answers requests.
#[derive(Clone)]
enum Answers {
    S3(S3Service),
    /// Whoever asks.
    Open(S3Service),
    Web(ServeDir),
}

/// A server; it ends with its value.
pub struct Server {
    pub address: SocketAddr,
    state: Arc<State>,
    _runtime: Runtime,
}

impl Server {
    /// An S3 server whose buckets are the folders of this one.
    pub fn s3(root: &Path) -> Self {
        let files = FileSystem::new(root).expect("a folder");
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(KEYS[0], KEYS[1]));
        Self::of(Answers::S3(service.build()))
    }

    /// The same for everybody, without keys.
    pub fn open_to_all(root: &Path) -> Self {
        let files = FileSystem::new(root).expect("a folder");
        Self::of(Answers::Open(S3ServiceBuilder::new(files).build()))
    }

    /// A web server of the files in a folder.
    pub fn web(root: &Path) -> Self {
        Self::of(Answers::Web(ServeDir::new(root)))
    }

    fn of(answers: Answers) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        let shared = state.clone();
        runtime.spawn(async move {
            loop {
                let Ok((socket, _)) = listener.accept().await else { continue };
                let (answers, state) = (answers.clone(), shared.clone());
                let service = service_fn(move |request| answer(answers.clone(), state.clone(), request));
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(socket), service));
            }
        });
        Self { address, state, _runtime: runtime }
    }

    /// From now on this goes wrong.
    pub fn fail(&self, faults: Faults) {
        *self.state.faults.lock().expect("whole") = faults;
    }

    /// Does something when so many more requests have come.
    pub fn after(&self, requests: u64, what: impl FnOnce() + Send + 'static) {
        let at = self.requests() + requests;
        *self.state.then.lock().expect("whole") = Some((at, Box::new(what)));
    }

    /// From when so many more requests have come this goes wrong.
    pub fn fail_after(&self, requests: u64, faults: Faults) {
        let state = self.state.clone();
        self.after(requests, move || *state.faults.lock().expect("whole") = faults);
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Of these, what went wrong on purpose.
    pub fn failed(&self) -> u64 {
        self.state.failed.load(Ordering::SeqCst)
    }

    /// Bytes of all answers.
    pub fn bytes(&self) -> u64 {
        self.state.bytes.load(Ordering::SeqCst)
    }
}

fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

async fn answer(
    answers: Answers,
    state: Arc<State>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Failure> {
    let number = state.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let due = {
        let mut then = state.then.lock().expect("whole");
        if then.as_ref().is_some_and(|(at, _)| *at <= number) { then.take() } else { None }
    };
    if let Some((_, what)) = due {
        what();
    }
    let faults = *state.faults.lock().expect("whole");
    let is_due = |every: u64| every > 0 && number.is_multiple_of(every);
    let plain = |status: StatusCode, text: &'static str| {
        let mut response = Response::new(whole(text));
        *response.status_mut() = status;
        Ok(response)
    };
    if faults.forbidden || is_due(faults.refused) {
        // What is sent is taken, or the client may see no answer but a broken connection.
        request.body_mut().collect().await?;
    }
    if faults.forbidden {
        return plain(StatusCode::FORBIDDEN, "<Error><Code>AccessDenied</Code></Error>");
    }
    if is_due(faults.refused) {
        state.failed.fetch_add(1, Ordering::SeqCst);
        return match number % 2 {
            0 => plain(StatusCode::SERVICE_UNAVAILABLE, "<Error><Code>SlowDown</Code></Error>"),
            _ => plain(StatusCode::INTERNAL_SERVER_ERROR, "<Error><Code>InternalError</Code></Error>"),
        };
    }
    if is_due(faults.dropped) {
        state.failed.fetch_add(1, Ordering::SeqCst);
        return Err("the connection is dropped".into());
    }
    if faults.no_ranges {
        request.headers_mut().remove("range");
    }
    if let Answers::Open(_) = answers {
        request.headers_mut().remove("authorization");
    }
    let is_get = request.method() == Method::GET;
    let response = match answers {
        Answers::S3(service) | Answers::Open(service) => {
            let response = service.call(request.map(s3s::Body::from)).await;
            let response = response.map_err(|error| Failure::from(format!("{error:?}")))?;
            response.map(|body| body.map_err(Failure::from).boxed_unsync())
        }
        Answers::Web(mut service) => {
            let response = service.call(request).await?;
            response.map(|body| body.map_err(Failure::from).boxed_unsync())
        }
    };
    let length =
        response.headers().get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
    let length: u64 = length.unwrap_or(0);
    state.bytes.fetch_add(if is_get { length } else { 0 }, Ordering::SeqCst);
    if is_due(faults.cut) && is_get && length > 1 {
        state.failed.fetch_add(1, Ordering::SeqCst);
        return Ok(response.map(|body| Limited::new(body, length as usize / 2).boxed_unsync()));
    }
    Ok(response)
}

/// Time for a server to be reached again.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(1100));
}
