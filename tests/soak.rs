//! A long mixed load on `simflip serve`, which is stopped and killed at random, against a model in memory: no page may
//! be lost, no answer may be wrong, and memory must not grow.
//!
//! Some clients each have pages of their own, near each other and far from those of other clients, so that each knows
//! what every answer must be. It is that of an index in memory that gets the same pages in the same order. Some clients
//! die while they wait for an answer, and are back at once. Questions that were on their way when the service or the
//! client died are sent again, with or without a name, and must be answered as if they had been sent once.
//!
//! It takes 6 seconds, or as many as `SIMFLIP_SOAK_SECONDS` says.

// The test runner shows the prints of a test that fails, and those alone.
#![allow(clippy::print_stdout)]

#[path = "../examples/crawl/mod.rs"]
mod crawl;

use bytes::Bytes;
use crawl::{Client, Pages, Server, memory_of, ready};
use serde_json::Value;
use simflip::core::id::Document;
use simflip::core::index::{Answer, Index};
use simflip::hash::SplitMix64;
use simflip::seen::{Access, Request, Seen};
use simflip::settings::Settings;
use simflip::sketch::{Sketch, Sketcher};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Clients at the same time.
const CLIENTS: u64 = 3;

/// Pages that a client keeps stored, about.
const KEPT: usize = 12_000;

/// What a client knows.
struct Model {
    /// Its number.
    own: u64,
    pages: Arc<Pages>,
    sketcher: Sketcher,
    index: Index,
    names: HashMap<Document, String>,
    /// By the name of a page that is stored: its number.
    stored: Vec<u64>,
    draws: SplitMix64,
    next: u64,
    requests: u64,
    /// The last answer to a question without a name, by page: after a death it may be given again.
    given: HashMap<String, Expected>,
    /// Pages of requests without names that had no answer. The service may work on such a request when the client has
    /// sent it again and has heard the answer, and then the answer to the first is in doubt.
    late: HashSet<String>,
    /// Requests with names that were answered lately, and the answers.
    answered: Vec<(Vec<Asked>, Vec<Expected>)>,
}

/// A page in a request.
#[derive(Clone)]
struct Asked {
    page: u64,
    name: String,
    sketch: Sketch,
    line: String,
}

/// What the answer to a page must be: the word, the earlier page, bits, similarity, pages near.
type Expected = (&'static str, Option<String>, Option<u64>, Option<f64>, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Check,
    Add,
    CheckAndAdd,
    Remove,
}

impl Model {
    fn new(own: u64, pages: &Arc<Pages>) -> Self {
        Self {
            own,
            pages: Arc::clone(pages),
            sketcher: pages.sketcher(),
            index: Index::of(&Settings::default()).unwrap(),
            names: HashMap::new(),
            stored: Vec::new(),
            draws: SplitMix64::new(own ^ 0x50ac),
            next: own << 32,
            requests: 0,
            given: HashMap::new(),
            late: HashSet::new(),
            answered: Vec::new(),
        }
    }

    fn page(&mut self, page: u64, named: bool) -> Asked {
        let text = text_of(&self.pages, self.own, page);
        let sketch = self.sketcher.sketch(&text);
        let name = format!("https://client-{}.example/{page}", self.own);
        let mut line = match self.draws.below(4) {
            0 => format!("{{\"url\":\"{name}\",\"text\":\"{text}\"}}"),
            _ => ready(&name, &sketch),
        };
        if named {
            self.requests += 1;
            line.truncate(line.len() - 1);
            line.push_str(&format!(",\"request\":\"{}-{}\"}}", self.own, self.requests));
        }
        Asked { page, name, sketch, line }
    }

    /// What is asked next.
    fn draw(&mut self) -> (Action, bool, Vec<Asked>) {
        let n = if self.draws.below(3) == 0 { 1 } else { 1 + self.draws.below(100) };
        let crowded = self.stored.len() > KEPT;
        let action = match self.draws.below(10) {
            0 if !self.stored.is_empty() => Action::Remove,
            1 if crowded => Action::Remove,
            2 | 3 => Action::Check,
            4 | 5 => Action::Add,
            _ => Action::CheckAndAdd,
        };
        let named = action == Action::CheckAndAdd && self.draws.below(2) == 0;
        let n = if action == Action::Remove && crowded { 400 } else { n };
        let pages = (0..n)
            .map(|_| {
                let old = self.draws.below(4) == 0 || action == Action::Remove;
                let page = match self.stored.len() as u64 {
                    stored if old && stored > 0 => self.stored[self.draws.below(stored) as usize],
                    _ => {
                        self.next += 1;
                        self.next - 1
                    }
                };
                self.page(page, named)
            })
            .collect();
        (action, named, pages)
    }

    fn expected(&self, asked: &Asked) -> Expected {
        let Answer { same, near, .. } = self.index.ask(&asked.sketch).unwrap();
        if let Some(same) = same {
            return ("same", Some(self.names[&same].clone()), Some(0), Some(1.0), 1);
        }
        let Some(nearest) = near.first() else { return ("new", None, None, None, 0) };
        let similarity = (f64::from(nearest.similarity) * 1e4).round() / 1e4;
        let earlier = Some(self.names[&nearest.document].clone());
        ("near", earlier, Some(u64::from(nearest.distance)), Some(similarity), near.len() as u64)
    }

    fn store(&mut self, asked: &Asked) {
        if self.index.find(asked.sketch.facts.digest).is_none() {
            let document = self.index.add(&asked.sketch).unwrap();
            self.names.insert(document, asked.name.clone());
            self.stored.push(asked.page);
        }
    }

    fn remove(&mut self, gone: &[Asked]) {
        let found = gone.iter().filter_map(|asked| {
            let document = self.index.find(asked.sketch.facts.digest)?;
            (self.names[&document] == asked.name).then_some((document, asked.page))
        });
        let (documents, pages): (Vec<Document>, HashSet<u64>) = found.unzip();
        let texts: HashSet<u128> =
            documents.iter().filter_map(|&document| self.index.digest(document)).collect();
        self.index.remove(&documents);
        let names: HashSet<String> =
            documents.iter().filter_map(|document| self.names.remove(document)).collect();
        self.stored.retain(|page| !pages.contains(page));
        // No answer tells of what was removed, and one to a question about it is forgotten.
        self.answered
            .retain(|(asked, _)| !asked.iter().any(|asked| texts.contains(&asked.sketch.facts.digest)));
        let asked: HashSet<&str> = gone.iter().map(|asked| &asked.name[..]).collect();
        self.given.retain(|name, _| !asked.contains(&name[..]));
        let expected =
            self.answered.iter_mut().flat_map(|(_, expected)| expected).chain(self.given.values_mut());
        for (_, earlier, ..) in expected {
            *earlier = earlier.take().filter(|earlier| !names.contains(earlier));
        }
    }

    /// Does what the service does, and says what it must answer.
    fn apply(&mut self, action: Action, asked: &[Asked]) -> Vec<Expected> {
        if action == Action::Remove {
            self.remove(asked);
        }
        let answers = asked.iter().map(|asked| {
            let expected = self.expected(asked);
            if matches!(action, Action::Add | Action::CheckAndAdd) {
                self.store(asked);
            }
            expected
        });
        answers.collect()
    }
}

impl Model {
    /// Holds the answers to questions without names against what they must be: an answer that is given again is the
    /// one that was given, or would have been.
    fn hold_unnamed(&mut self, answers: &[Value], asked: &[Asked], expected: &[Expected], sent_before: bool) {
        assert_eq!(answers.len(), asked.len());
        for ((answer, asked), expected) in answers.iter().zip(asked).zip(expected) {
            let is_again = answer["again"] == true;
            match self.given.get(&asked.name) {
                Some(given) if is_again && is_as(answer, given) => {}
                given => {
                    let may_be = sent_before || self.late.contains(&asked.name);
                    assert!(!is_again || may_be, "{answer} {given:?}");
                    hold(answer, asked, expected);
                    self.given.insert(asked.name.clone(), expected.clone());
                }
            }
        }
    }
}

/// The text of a client's page: its families are of that client's pages alone.
fn text_of(pages: &Pages, own: u64, page: u64) -> String {
    pages.text(page, own << 32..page)
}

fn body(asked: &[Asked]) -> Bytes {
    asked.iter().map(|asked| asked.line.clone() + "\n").collect::<String>().into()
}

/// Holds an answer against what it must be.
fn hold(answer: &Value, asked: &Asked, expected: &Expected) {
    assert_eq!(answer["page"], *asked.name);
    assert!(is_as(answer, expected), "{answer} {expected:?}");
}

fn is_as(answer: &Value, (word, earlier, distance, similarity, near): &Expected) -> bool {
    let difference = answer["similarity"].as_f64().unwrap_or(-1.0) - similarity.unwrap_or(-1.0);
    answer["answer"] == *word
        && answer["earlier"].as_str() == earlier.as_deref()
        && answer["distance"].as_u64() == *distance
        && answer["near_pages"].as_u64() == Some(*near)
        && difference.abs() < 1e-6
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A client, until the end.
async fn client(
    mut model: Model,
    mut address: watch::Receiver<String>,
    ended: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> Model {
    let mut connected: Option<Client> = None;
    while !ended.load(Relaxed) {
        let (action, named, asked) = model.draw();
        let dies = action == Action::CheckAndAdd && model.draws.below(30) == 0;
        let sent = send(&mut connected, &mut address, action, &asked);
        let sent = match dies {
            false => sent.await,
            true => {
                let lived = Duration::from_micros(model.draws.below(4_000));
                let sent = tokio::time::timeout(lived, sent).await;
                // Its connection goes with it.
                connected = connected.filter(|_| sent.is_ok());
                sent.unwrap_or_else(|_| Err("the client died".into()))
            }
        };
        match sent {
            Ok(answers) => {
                let expected = model.apply(action, &asked);
                match action {
                    Action::CheckAndAdd if !named => model.hold_unnamed(&answers, &asked, &expected, false),
                    Action::Check | Action::CheckAndAdd => {
                        assert_eq!(answers.len(), asked.len());
                        for ((answer, asked), expected) in answers.iter().zip(&asked).zip(&expected) {
                            hold(answer, asked, expected);
                            assert!(answer["again"].is_null(), "{answer}");
                        }
                    }
                    Action::Add => assert!(answers.iter().all(|answer| answer["answer"] == "added")),
                    Action::Remove => assert_eq!(answers.len(), asked.len() + 1),
                }
                if named {
                    model.answered.push((asked.clone(), expected));
                    if model.answered.len() > 20 {
                        let at = model.draws.below(20) as usize;
                        model.answered.swap_remove(at);
                    }
                }
            }
            Err(_) => settle(&mut model, &mut connected, &mut address, action, named, &asked).await,
        }
        if model.draws.below(20) == 0 && !model.answered.is_empty() {
            // Sent again under its name, a request is answered as before.
            let at = model.draws.below(model.answered.len() as u64) as usize;
            let (asked, expected) = model.answered.swap_remove(at);
            let answers = until_answered(&mut connected, &mut address, Action::CheckAndAdd, &asked).await;
            for ((answer, asked), expected) in answers.iter().zip(&asked).zip(&expected) {
                hold(answer, asked, expected);
                assert_eq!(answer["again"], true, "{answer}");
            }
        }
        done.fetch_add(asked.len() as u64, Relaxed);
    }
    model
}

/// Finds out what became of a request that had no answer.
async fn settle(
    model: &mut Model,
    connected: &mut Option<Client>,
    address: &mut watch::Receiver<String>,
    action: Action,
    named: bool,
    asked: &[Asked],
) {
    match action {
        Action::Check => {}
        Action::CheckAndAdd => {
            let answers = until_answered(connected, address, action, asked).await;
            let expected = model.apply(action, asked);
            if !named {
                model.hold_unnamed(&answers, asked, &expected, true);
                model.late.extend(asked.iter().map(|asked| asked.name.clone()));
                return;
            }
            for ((answer, asked), expected) in answers.iter().zip(asked).zip(&expected) {
                hold(answer, asked, expected);
            }
        }
        _ => {
            let answers = until_answered(connected, address, Action::Check, asked).await;
            for (answer, asked) in answers.iter().zip(asked) {
                let stored = answer["answer"] == "same";
                match model.index.find(asked.sketch.facts.digest) {
                    None if stored => model.store(asked),
                    Some(_) if !stored => {
                        assert_eq!(action, Action::Remove, "a page is lost: {answer}");
                        model.remove(std::slice::from_ref(asked));
                    }
                    _ => {}
                }
            }
        }
    }
}

async fn until_answered(
    connected: &mut Option<Client>,
    address: &mut watch::Receiver<String>,
    action: Action,
    asked: &[Asked],
) -> Vec<Value> {
    loop {
        if let Ok(answers) = send(connected, address, action, asked).await {
            return answers;
        }
    }
}

/// Sends a request; an error if there is not a whole answer.
async fn send(
    connected: &mut Option<Client>,
    address: &mut watch::Receiver<String>,
    action: Action,
    asked: &[Asked],
) -> Result<Vec<Value>, Failed> {
    let path = match action {
        Action::Check => "/v1/check",
        Action::Add => "/v1/add",
        Action::CheckAndAdd => "/v1/check-and-add",
        Action::Remove => "/v1/remove",
    };
    let mut client = match connected.take() {
        Some(client) => client,
        None => {
            let now = address.borrow_and_update().clone();
            match Client::connect(&now).await {
                Ok(client) => client,
                Err(error) => {
                    let _ = tokio::time::timeout(Duration::from_millis(50), address.changed()).await;
                    return Err(error);
                }
            }
        }
    };
    let (status, answers) = client.post(path, true, body(asked)).await?;
    let answers: Result<Vec<Value>, _> =
        std::str::from_utf8(&answers)?.lines().map(serde_json::from_str).collect();
    let answers = answers?;
    let least = asked.len() + usize::from(action == Action::Remove);
    if status.is_success()
        && answers.len() == least
        && answers.iter().all(|answer| answer["answer"] != "error")
    {
        *connected = Some(client);
        return Ok(answers);
    }
    Err(format!("{status}: {:?}", answers.last()).into())
}

/// Starts the service, with or without waiting for the disk.
async fn start(index: PathBuf, fsync: bool) -> Server {
    let program = assert_cmd::cargo::cargo_bin("simflip");
    let options = if fsync { vec!["--fsync".to_owned()] } else { Vec::new() };
    let started = tokio::task::spawn_blocking(move || {
        Server::start(&program, &index, &options).map_err(|e| e.to_string())
    });
    started.await.unwrap().unwrap()
}

async fn soak(index: &Path, seconds: u64) -> (Vec<Model>, Vec<f64>, u64) {
    let pages = Arc::new(Pages::new(&Settings::default()));
    let (mut draws, begun) = (SplitMix64::new(begun_at()), Instant::now());
    let mut server = start(index.to_path_buf(), false).await;
    let (reported, address) = watch::channel(server.address.clone());
    let (ended, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|own| {
            let model = Model::new(own, &pages);
            tokio::spawn(client(model, address.clone(), Arc::clone(&ended), Arc::clone(&done)))
        })
        .collect();
    let (mut memory, mut rounds) = (Vec::new(), 0u64);
    while begun.elapsed().as_secs() < seconds {
        tokio::time::sleep(Duration::from_millis(300 + draws.below(3_000))).await;
        assert!(!clients.iter().any(tokio::task::JoinHandle::is_finished), "a client ended");
        memory.push(memory_of(server.id()));
        let kill = draws.below(3) > 0;
        tokio::task::spawn_blocking(move || server.end(kill).map_err(|e| e.to_string()))
            .await
            .unwrap()
            .unwrap();
        server = start(index.to_path_buf(), draws.below(4) == 0).await;
        reported.send(server.address.clone()).unwrap();
        rounds += 1;
    }
    ended.store(true, Relaxed);
    let mut models = Vec::new();
    for client in clients {
        models.push(client.await.unwrap());
    }
    tokio::task::spawn_blocking(move || server.end(false).map_err(|e| e.to_string())).await.unwrap().unwrap();
    let done = done.load(Relaxed);
    println!(
        "seconds,restarts_and_kills,pages_sent,pages_stored,resident_bytes_at_a_third,resident_bytes_at_the_end\n\
         {},{rounds},{done},{},{:.0},{:.0}",
        begun.elapsed().as_secs(),
        models.iter().map(|model| model.index.len()).sum::<usize>(),
        memory[memory.len() / 3],
        memory.last().unwrap()
    );
    (models, memory, rounds)
}

/// Each run draws anew.
fn begun_at() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = std::env::var("SIMFLIP_SOAK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| since.unwrap().as_nanos() as u64);
    println!("SIMFLIP_SOAK_SEED={seed}");
    seed
}

#[test]
fn nothing_is_lost_and_no_answer_is_wrong_while_it_is_stopped_and_killed() {
    let seconds = std::env::var("SIMFLIP_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let top = tempfile::tempdir().unwrap();
    let index = top.path().join("index");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (models, memory, rounds) = runtime.block_on(soak(&index, seconds.unwrap_or(6)));
    assert!(rounds > 1);
    // All that the models have is there, and nothing else.
    let seen = Seen::open(&index, Access::Read, None).unwrap();
    assert_eq!(seen.notes(), [] as [&str; 0]);
    assert_eq!(seen.len(), models.iter().map(|model| model.index.len()).sum::<usize>());
    let (mut stored, mut sketcher) = (0, models[0].pages.sketcher());
    for model in &models {
        for &page in &model.stored {
            let text = text_of(&model.pages, model.own, page);
            let name = format!("https://client-{}.example/{page}", model.own);
            let request = Request { name: &name, ..Request::default() };
            let reply = seen.ask(&request, &sketcher.sketch(&text)).unwrap();
            assert_eq!((reply.kind.name(), reply.earlier.as_deref()), ("same", Some(&name[..])));
            stored += 1;
        }
    }
    assert_eq!(stored, seen.len());
    // Memory is that of the pages that are stored, however many have come and gone.
    let (third, last) = (memory[memory.len() / 3], memory[memory.len() - 1]);
    if seconds.is_some_and(|seconds| seconds >= 300) {
        assert!(last < 1.5 * third, "{third} {last}");
    }
}
