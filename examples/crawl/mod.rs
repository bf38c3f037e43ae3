//! What measures `simflip serve` from outside has in common: made-up pages, the service as a process of its own, and
//! an HTTP client.

#![allow(dead_code, reason = "each of those who share it uses some of it")]

#[path = "../made_up/mod.rs"]
mod made_up;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use made_up::Vocabulary;
use simflip::hash::fmix64;
use simflip::settings::Settings;
use simflip::sketch::{Hashed, Sketch, SketchValue, Sketcher, TwoSketches};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Instant;
use tokio::net::TcpStream;

/// Made-up pages by their numbers.
pub struct Pages {
    vocabulary: Vocabulary,
    settings: Settings,
}

impl Pages {
    /// Pages that are sketched in this way.
    pub fn new(settings: &Settings) -> Self {
        Self { vocabulary: Vocabulary::new(), settings: settings.clone() }
    }

    /// A sketcher for one thread.
    pub fn sketcher(&self) -> Sketcher {
        Sketcher::new(&self.settings, None).expect("settings of an index")
    }

    /// The URL of a page.
    pub fn name(page: u64) -> String {
        format!(
            "https://www.site-{:05}.example/articles/{page}/about-some-thing-or-other.html",
            page % 99_991
        )
    }

    /// The text of a page among others: three in ten pages are a version of one of the others, one in fifty is of one
    /// of four templates that go with them.
    pub fn text(&self, page: u64, others: Range<u64>) -> String {
        let (family, own) = match fmix64(page) % 100 {
            0..2 => (!(others.start ^ (fmix64(page ^ 1) % 4)), 6),
            2..32 => {
                let span = (others.end - others.start).max(1);
                (others.start + fmix64(page ^ 2) % span, 1 + fmix64(page ^ 3) % 4)
            }
            _ => (page, 0),
        };
        let mut text = String::new();
        self.vocabulary.write(page, family, own, &mut text);
        text
    }
}

fn hexadecimal(out: &mut String, bytes: impl IntoIterator<Item = u8>) {
    bytes.into_iter().for_each(|byte| _ = write!(out, "{byte:02x}"));
}

/// A page with its sketch as the service takes it, without a line end.
pub fn ready(name: &str, sketch: &Sketch) -> String {
    let mut line = format!("{{\"url\":\"{name}\",\"sketch\":{{\"digest\":\"{:032x}\"", sketch.facts.digest);
    let _ = write!(line, ",\"features\":{}", sketch.facts.features);
    match &sketch.value {
        SketchValue::Both(TwoSketches { hash, bits, keys, .. }) => {
            let _ = write!(line, ",\"hash\":\"{hash:016x}\",\"bits\":\"");
            hexadecimal(&mut line, bits.iter().flat_map(|word| word.to_be_bytes()));
            line.push_str("\",\"keys\":\"");
            hexadecimal(&mut line, keys.iter().flat_map(|key| key.to_be_bytes()));
        }
        SketchValue::SimHash(Hashed { hash, weights }) => {
            let _ = write!(line, ",\"hash\":\"{hash:016x}\",\"weights\":\"");
            hexadecimal(&mut line, weights.bytes().map(i8::cast_unsigned));
        }
        _ => {}
    }
    line.push_str("\"}}");
    line
}

/// The service as a process of its own.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: String,
    /// From its start to its first word, in seconds, and processor seconds until then.
    pub began: (f64, f64),
    _events: BufReader<ChildStderr>,
}

impl Server {
    /// Starts it on an index, and waits until it listens.
    pub fn start(program: &Path, index: &Path, options: &[String]) -> Result<Self, Box<dyn Error>> {
        let begun = Instant::now();
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--index"])
            .arg(index)
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!("{}: {error}; cargo build --features serve makes it", program.display())
            })?;
        let mut events = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let mut reported = String::new();
        loop {
            let mut line = String::new();
            if events.read_line(&mut line)? == 0 {
                child.wait()?;
                return Err(format!("it ended: {reported}").into());
            }
            reported.push_str(&line);
            let Ok(event) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
            if let Some(address) = event["address"].as_str() {
                let began = (begun.elapsed().as_secs_f64(), cpu_of(child.id()));
                return Ok(Self { address: address.to_owned(), child, began, _events: events });
            }
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it, in good order or at once.
    pub fn end(mut self, kill: bool) -> Result<(), Box<dyn Error>> {
        if kill {
            self.child.kill()?;
            self.child.wait()?;
        } else {
            Command::new("kill").arg(self.child.id().to_string()).status()?;
            let status = self.child.wait()?;
            if !status.success() {
                return Err(format!("the service ended with {status}").into());
            }
        }
        Ok(())
    }
}

/// A service must not outlive a test that fails.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor seconds of a process so far; not a number where the system does not tell.
pub fn cpu_of(process: u32) -> f64 {
    let reported = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = reported.rsplit(')').next().unwrap_or_default().split(' ').skip(12);
    let ticks: Option<Vec<f64>> = fields.take(2).map(|field| field.parse().ok()).collect();
    ticks.filter(|ticks| ticks.len() == 2).map_or(f64::NAN, |ticks| (ticks[0] + ticks[1]) / 100.0)
}

/// Bytes that a process has in memory now.
pub fn memory_of(process: u32) -> f64 {
    let reported = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = reported.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| kibibytes * 1024.0)
}

/// A connection that is kept.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    address: String,
}

impl Client {
    /// Connects.
    pub async fn connect(address: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, address: address.to_owned() })
    }

    /// Sends pages, a line each, or one page; gives the status and the answers.
    pub async fn post(
        &mut self,
        path: &str,
        lines: bool,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
        let kind = if lines { "application/x-ndjson" } else { "application/json" };
        let request =
            Request::post(path).header(header::HOST, &self.address).header(header::CONTENT_TYPE, kind);
        self.send(request.body(Full::new(body))?).await
    }

    /// Fetches a page of the service.
    pub async fn get(&mut self, path: &str) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
        let request = Request::get(path).header(header::HOST, &self.address);
        self.send(request.body(Full::default())?).await
    }

    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}
