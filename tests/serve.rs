//! `simflip serve`: the service over real sockets.

// Some tests are of what Unix has alone.
#![cfg_attr(not(unix), allow(dead_code, unused_imports))]
// The test runner shows the prints of a test that fails, and those alone.
#![allow(clippy::print_stdout)]

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Server {
    child: Child,
    address: String,
    events: BufReader<Box<dyn Read + Send + Sync>>,
}

impl Server {
    fn start(folder: &Path, options: &[&str]) -> Self {
        Self::start_by("env", &[], folder, options)
    }

    /// Starts it by another program.
    #[expect(clippy::zombie_processes, reason = "it is waited for when the server is stopped or killed")]
    fn start_by(program: &str, arguments: &[&str], folder: &Path, options: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .arg(assert_cmd::cargo::cargo_bin("simflip"))
            .current_dir(folder)
            .args(["serve", "--index", "i", "--listen", "127.0.0.1:0"])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr: Box<dyn Read + Send + Sync> = Box::new(child.stderr.take().unwrap());
        let mut events = BufReader::new(stderr);
        loop {
            let mut line = String::new();
            assert!(events.read_line(&mut line).unwrap() > 0, "it ended");
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            if event["event"] == "listening" {
                let address = event["address"].as_str().unwrap().to_owned();
                return Self { child, address, events };
            }
        }
    }

    /// Starts it with a standard error that is not read.
    fn start_unread(folder: &Path, options: &[&str], stderr: impl Into<Stdio>) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let child = Command::new(assert_cmd::cargo::cargo_bin("simflip"))
            .current_dir(folder)
            .args(["serve", "--index", "i", "--listen", &address])
            .args(options)
            .stderr(stderr)
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, address, events: BufReader::new(Box::new(std::io::empty())) }
    }

    /// Sends a request, and gives the status and the body.
    fn send(&self, path: &str, kind: &str, extra: &str, body: impl AsRef<[u8]>) -> (u16, String) {
        let method = match kind {
            "" => "GET",
            "put" => "PUT",
            _ => "POST",
        };
        let mut answer = String::new();
        // A server that turns a request away does not read it to its end, and a reset may overtake the answer then.
        let is_answered = (0..20).any(|_| {
            let mut stream = TcpStream::connect(&self.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let _ = write!(
                stream,
                "{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-type: {kind}\r\n{extra}content-length: {}\r\n\r\n",
                body.as_ref().len()
            );
            let _ = stream.write_all(body.as_ref());
            answer.clear();
            let read = stream.read_to_string(&mut answer);
            !read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
        });
        assert!(is_answered, "{method} {path}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            true => dechunked(body),
            false => body.to_owned(),
        };
        (status, body)
    }

    fn one(&self, action: &str, page: &Value) -> Value {
        let (status, body) = self.send(&format!("/v1/{action}"), "application/json", "", page.to_string());
        let answer: Value = serde_json::from_str(body.lines().next().unwrap()).unwrap();
        assert_eq!(status == 200, answer["answer"] != "error", "{answer}");
        answer
    }

    fn many(&self, action: &str, pages: &[Value]) -> Vec<Value> {
        let lines: String = pages.iter().map(|page| format!("{page}\n")).collect();
        let (status, body) = self.send(&format!("/v1/{action}"), "application/x-ndjson", "", &lines);
        assert_eq!(status, 200);
        body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn end_unread(&mut self) {
        Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(self.child.wait().unwrap().success());
    }

    fn end(mut self) {
        self.end_unread();
        let mut events = String::new();
        self.events.read_to_string(&mut events).unwrap();
        assert!(events.contains("\"stopped\""), "{events}");
    }
}

impl Drop for Server {
    /// A test that fails leaves no server behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dechunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.push_str(&rest[..length]);
        body = &rest[(length + 2).min(rest.len())..];
    }
    whole
}

fn page(name: &str, n: u64, changed: u64) -> Value {
    let word = |at: u64| {
        if at == 50 && changed > 0 { format!("changed{changed}") } else { format!("w{}", n * 1_000 + at) }
    };
    json!({ "url": name, "text": (0..200).map(|at| word(at) + " ").collect::<String>() })
}

#[test]
fn pages_are_checked_added_and_removed() {
    let top = tempfile::tempdir().unwrap();
    let server = Server::start(top.path(), &[]);
    assert_eq!(server.send("/healthz", "", "", ""), (200, "ok\n".to_owned()));
    assert_eq!(server.one("check", &json!({ "id": 5, "text": "a few words" }))["page"], "5");
    // A number is the name that was written.
    for id in ["18446744073709551617", "1.10", "-7", "\"a\\u00e9\""] {
        let (status, body) =
            server.send("/v1/check", "application/json", "", format!("{{\"id\": {id} ,\"text\":\"words\"}}"));
        let answer: Value = serde_json::from_str(body.lines().next().unwrap()).unwrap();
        let name = id.replace("\"a\\u00e9\"", "a\u{e9}");
        assert_eq!((status, answer["page"].as_str()), (200, Some(&*name)), "{body}");
    }
    for id in ["[1]", "true", "{}"] {
        let (status, _) =
            server.send("/v1/check", "application/json", "", format!("{{\"id\":{id},\"text\":\"words\"}}"));
        assert_eq!(status, 400, "{id}");
    }
    // What is odd is repaired as in files.
    let read = server.one("sketch", &json!({ "text": "some words \u{fffd} of a page" }));
    for odd in [&b"\\ud83d"[..], b"\xe9"] {
        let line = [b"{\"score\":NaN,\"text\":\"some words ", odd, b" of a page\"}"].concat();
        let (status, body) = server.send("/v1/sketch", "application/json", "", line);
        let answer: Value = serde_json::from_str(body.lines().next().unwrap()).unwrap();
        assert_eq!((status, &answer["sketch"]), (200, &read["sketch"]), "{body}");
    }
    // Each object of a line is a page, as in files.
    let line = "{\"id\":\"one\",\"text\":\"some }{ words\"} {\"id\":\"two\",\"text\":\"words\"}{\"id\":\"three\",\"text\":\"\"}\n";
    let (_, body) = server.send("/v1/check", "application/x-ndjson", "", line);
    let answers: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pages: Vec<&Value> = answers.iter().map(|answer| &answer["page"]).collect();
    assert_eq!(pages, ["one", "two", "three"], "{body}");
    assert_eq!(server.one("check", &page("a", 1, 0))["answer"], "new");
    assert_eq!(server.one("check-and-add", &page("a", 1, 0))["answer"], "new");
    let near = server.one("check", &page("b", 1, 1));
    assert_eq!(
        (&near["answer"], &near["earlier"], &near["near_pages"]),
        (&json!("near"), &json!("a"), &json!(1))
    );
    assert_eq!(server.one("add", &page("b", 1, 1))["answer"], "added");
    // By then it is known that the client who asked before has heard the answer.
    std::thread::sleep(Duration::from_millis(400));
    let answers = server
        .many("check-and-add", &[page("a", 1, 0), json!({ "url": "x" }), page("c", 1, 2), page("d", 2, 0)]);
    let words: Vec<&str> = answers.iter().map(|answer| answer["answer"].as_str().unwrap()).collect();
    assert_eq!(words, ["same", "error", "near", "new"]);
    assert_eq!(answers[2]["near_pages"], 2);
    // A ready-made sketch is the page.
    let made = server.one("sketch", &page("e", 2, 0));
    let ready = json!({ "id": "e", "sketch": made["sketch"], "request": "r1" });
    let again = server.one("check-and-add", &ready);
    assert_eq!(
        (&again["answer"], &again["earlier"], &again["request"]),
        (&json!("same"), &json!("d"), &json!("r1"))
    );
    // Sent again under its name, a request is answered as before, though the page is there now.
    let request = |n: u64| {
        let mut page = page("f", n, 0);
        page["request"] = json!(format!("r{n}"));
        page
    };
    assert_eq!(server.one("check-and-add", &request(7))["answer"], "new");
    let again = server.one("check-and-add", &request(7));
    assert_eq!((&again["answer"], &again["again"]), (&json!("new"), &json!(true)));
    let removed = server.many("remove", &[json!({ "url": "d" }), json!({ "url": "none" })]);
    assert_eq!(removed.last().unwrap()["removed_pages"], 1);
    // However many names there are, and whatever went with which of them, the total is the last line, and the only one.
    let pages: Vec<Value> = (0..600).map(|n| page(&format!("many/{n}"), 100 + n, 0)).collect();
    server.many("add", &pages);
    let removed = server.many("remove", &pages);
    let totals: Vec<&Value> = removed.iter().filter(|answer| answer.get("removed_pages").is_some()).collect();
    assert_eq!((totals.len(), &removed.last().unwrap()["removed_pages"]), (1, &json!(600)));
    let (status, body) =
        server.send("/v1/check", "Application/JSON; charset=utf-8", "", page("q", 1, 0).to_string());
    assert_eq!(status, 200, "{body}");
    let error = server.one("check-and-add", &page(&"u".repeat(70_000), 1, 0));
    assert!(error["error"].as_str().unwrap().contains("65536"), "{error}");
    assert_eq!(server.one("check", &page("g", 2, 0))["answer"], "new");
    let (_, figures) = server.send("/metrics", "", "", "");
    for figure in
        ["simflip_pages 4", "simflip_answers_total{answer=\"near\"} 2", "simflip_expected_chance_matches"]
    {
        assert!(figures.contains(figure), "{figure} in {figures}");
    }
    // Another writer is kept out, and all of it is there after the end.
    fs::write(top.path().join("p.jsonl"), format!("{}\n", page("a", 1, 0))).unwrap();
    let seen = || {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("simflip"));
        command.current_dir(top.path()).args(["seen", "--index", "i", "p.jsonl"]).output().unwrap()
    };
    assert_eq!(seen().status.code(), Some(2));
    server.end();
    assert!(String::from_utf8(seen().stdout).unwrap().contains("a,same"));
    let mut files =
        fs::read_dir(top.path().join("i")).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    assert!(
        !files.any(|bytes| bytes.windows(5).any(|window| window == b"w2050")),
        "no trace of what was removed"
    );
}

#[test]
fn a_stream_is_answered_while_it_is_open() {
    let top = tempfile::tempdir().unwrap();
    let server = Server::start(top.path(), &["--deadline", "2s"]);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /v1/check-and-add HTTP/1.1\r\nhost: here\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        answers.read_line(&mut line).unwrap();
    }
    for n in 0..5 {
        let body = format!("{}\n", page(&format!("p{n}"), n, 0));
        write!(stream, "{:x}\r\n{body}\r\n", body.len()).unwrap();
        let (mut size, mut answer) = (String::new(), String::new());
        answers.read_line(&mut size).unwrap();
        answers.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["page"], &answer["answer"]), (&json!(format!("p{n}")), &json!("new")));
        answers.read_line(&mut line).unwrap();
    }
    // Nothing comes any more: it is given up.
    let mut rest = String::new();
    let _ = answers.read_to_string(&mut rest);
    assert!(rest.contains("--deadline"), "{rest}");
    server.end();
}

#[test]
fn what_is_too_long_or_has_no_token_is_turned_away() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("token"), "secret\n").unwrap();
    let server = Server::start(top.path(), &["--token-file", "token", "--longest-document", "1"]);
    let body = page("a", 1, 0).to_string();
    let send = |extra: &str, body: &str| server.send("/v1/check", "application/json", extra, body).0;
    assert_eq!(send("", &body), 401);
    assert_eq!(send("authorization: Bearer wrong\r\n", &body), 401);
    let token = "authorization: Bearer secret\r\n";
    assert_eq!(send(token, &body), 200);
    assert_eq!(send("authorization: bearer secret\r\n", &body), 200, "the scheme has no case");
    assert_eq!(send("authorization: Basic secret\r\n", &body), 401);
    assert_eq!(send(&format!("{token}x: {}\r\n", "y".repeat(20_000)), &body), 431);
    assert_eq!(server.send("/metrics", "", "", "").0, 401);
    assert_eq!(server.send("/healthz", "", "", "").0, 200);
    let long = json!({ "url": "l", "text": "word ".repeat(300_000) }).to_string();
    assert_eq!(send(token, &long), 413);
    let (_, answer) = server.send("/v1/check", "application/x-ndjson", token, &long);
    assert!(answer.contains("--longest-document"), "{answer}");
    assert_eq!(server.send("/v1/check", "text/plain", token, "x").0, 415);
    assert_eq!(send(token, "{"), 400);
    server.end();
    let open = Command::new(assert_cmd::cargo::cargo_bin("simflip"))
        .current_dir(top.path())
        .args(["serve", "--index", "i", "--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(open.status.code(), Some(2));
    assert!(String::from_utf8(open.stderr).unwrap().contains("--token-file"));
}

#[test]
fn killed_it_has_forgotten_nothing_that_was_answered() {
    let top = tempfile::tempdir().unwrap();
    let mut known = 0;
    for round in 0..4u64 {
        let mut server = Server::start(top.path(), if round % 2 == 0 { &[] } else { &["--fsync"] });
        for n in 0..known {
            assert_eq!(
                server.one("check", &page("?", n, 0))["answer"],
                "same",
                "page {n} before round {round}"
            );
        }
        let pages: Vec<Value> = (known..known + 300).map(|n| page(&format!("p{n}"), n, 0)).collect();
        assert!(server.many("check-and-add", &pages[..200]).iter().all(|answer| answer["answer"] == "new"));
        known += 200;
        // One at a time until it is gone.
        for page in &pages[200..200 + 20 * round as usize] {
            server.one("check-and-add", page);
            known += 1;
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }
}

#[test]
fn collections_are_indexes_of_their_own() {
    let top = tempfile::tempdir().unwrap();
    let server = Server::start(top.path(), &["--collections"]);
    let put_to = |server: &Server, name: &str| server.send(&format!("/v1/{name}"), "put", "", "").0;
    let put = |name: &str| put_to(&server, name);
    let ask = |collection: &str, action: &str, page: &Value| {
        let path = format!("/v1/{collection}/{action}");
        let (status, body) = server.send(&path, "application/json", "", page.to_string());
        (status, serde_json::from_str::<Value>(body.lines().next().unwrap()).unwrap())
    };
    assert_eq!(ask("news", "check", &page("a", 1, 0)).0, 404);
    assert_eq!((put("news"), put("news"), put("shops.2026")), (201, 200, 201));
    for wrong in ["News", "..", ".x", "check", "a%2Fb", "a%2F..%2Fb", &"n".repeat(65)] {
        assert_eq!(put(wrong), 400, "{wrong}");
    }
    // A collection has the settings of the service, and no others.
    let (status, error) = server.send("/v1/other", "put", "", r#"{"similarity":0.7}"#);
    assert!(status == 400 && error.contains("expected no body"), "{error}");
    assert_eq!(ask("news", "check-and-add", &page("a", 1, 0)).1["answer"], "new");
    assert_eq!(ask("news", "check", &page("b", 1, 1)).1["answer"], "near");
    assert_eq!(ask("shops.2026", "check", &page("b", 1, 1)).1["answer"], "new");
    // That path names a collection, which nothing is posted to.
    assert_eq!(server.send("/v1/check", "application/json", "", page("a", 1, 0).to_string()).0, 405);
    let names = |server: &Server| {
        let (_, body) = server.send("/v1/collections", "", "", "");
        serde_json::from_str::<Value>(&body).unwrap()["collections"].clone()
    };
    let both = json!([{ "name": "news", "pages": 1 }, { "name": "shops.2026", "pages": 0 }]);
    assert_eq!(names(&server), both);
    let (_, figures) = server.send("/metrics", "", "", "");
    for figure in [
        "simflip_pages{collection=\"news\"} 1",
        "simflip_answers_total{collection=\"news\",answer=\"near\"} 1",
        "simflip_work_seconds_count{collection=\"shops.2026\"} 1",
    ] {
        assert!(figures.contains(figure), "{figure} in {figures}");
    }
    assert_eq!(figures.matches("# TYPE simflip_pages gauge").count(), 1);
    server.end();
    // They are there again, and each is an index as others are; what is none is passed over.
    fs::write(top.path().join("i/notes.txt"), "to be kept").unwrap();
    fs::create_dir(top.path().join("i/backup")).unwrap();
    fs::write(top.path().join("i/backup/of"), "something").unwrap();
    let server = Server::start(top.path(), &["--collections"]);
    assert_eq!(names(&server), both);
    assert_eq!(put_to(&server, "backup"), 500);
    server.end();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("simflip"));
    let output = command.current_dir(top.path()).args(["inspect", "i/news"]).output().unwrap();
    assert!(output.status.success());
}

#[test]
fn snapshots_are_made_while_it_answers() {
    let top = tempfile::tempdir().unwrap();
    let server = Server::start(top.path(), &["--fsync"]);
    // Names of 60,000 bytes make a long log.
    let pages = |from: u64| -> Vec<Value> {
        (from..from + 50).map(|n| page(&format!("p{n}-{}", "x".repeat(60_000)), n, 0)).collect()
    };
    let snapshots = || {
        let entries = fs::read_dir(top.path().join("i")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with("snapshot")).collect();
        names.sort();
        names
    };
    let mut stored = 0;
    while snapshots().last().is_none_or(|last| &last[..] < "snapshot-00000003") {
        let answers = server.many("check-and-add", &pages(stored));
        assert!(answers.iter().all(|answer| answer["answer"] == "new"));
        stored += 50;
        assert!(stored < 5_000, "no snapshot");
    }
    let hold = |server: &Server| {
        for n in (0..stored).step_by(7) {
            let answer = server.one("check", &page("?", n, 0));
            assert_eq!(answer["answer"], "same", "{n}");
            assert!(answer["earlier"].as_str().unwrap().starts_with(&format!("p{n}-x")));
        }
    };
    hold(&server);
    server.end();
    let mut server = Server::start(top.path(), &[]);
    hold(&server);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}

/// A connection that stays open.
struct Kept(BufReader<TcpStream>);

impl Kept {
    fn open(server: &Server) -> Self {
        Self(BufReader::new(TcpStream::connect(&server.address).unwrap()))
    }

    fn send(&mut self, action: &str, page: &Value) {
        let body = page.to_string();
        let head = format!(
            "POST /v1/{action} HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0.get_mut().write_all((head + &body).as_bytes()).unwrap();
    }

    fn answer(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = said.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}

#[test]
fn a_page_whose_answer_nobody_heard_is_not_the_same_as_itself() {
    let top = tempfile::tempdir().unwrap();
    let mut server = Server::start(top.path(), &[]);
    let is_stored = |n: u64| server.one("check", &page("?", n, 0))["answer"] == "same";
    let said = |answer: &Value| (answer["answer"].as_str().unwrap().to_owned(), answer["again"] == true);
    for n in 0..6 {
        let asked = page(&format!("p{n}"), n, 0);
        let mut client = Kept::open(&server);
        client.send("check-and-add", &asked);
        while !is_stored(n) {
            std::thread::sleep(Duration::from_millis(1));
        }
        match n % 3 {
            // It dies with the answer in its socket, and is back at once or later.
            0 => drop(client),
            1 => {
                drop(client);
                std::thread::sleep(Duration::from_millis(400));
            }
            // Nobody knows whether it lives.
            _ => {}
        }
        assert_eq!(said(&server.one("check-and-add", &asked)), ("new".to_owned(), true), "{n}");
        // Heard by the one who asked again, it is known.
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(said(&server.one("check-and-add", &asked)), ("same".to_owned(), false), "{n}");
    }
    // The next request says that the answer before was heard; so does an end in good order.
    let (mut one, asked) = (Kept::open(&server), page("q", 77, 0));
    one.send("check-and-add", &asked);
    assert_eq!(said(&one.answer()), ("new".to_owned(), false));
    one.send("check", &page("?", 78, 0));
    one.answer();
    assert_eq!(said(&server.one("check-and-add", &asked)), ("same".to_owned(), false));
    // A stream knows its own pages.
    let twice = server.many("check-and-add", &[page("r", 80, 0), page("r", 80, 0)]);
    assert_eq!(said(&twice[1]), ("same".to_owned(), false));
    // Killed, nobody knows what arrived, and the answers are given once more; ended in order, they did.
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Server::start(top.path(), &[]);
    assert_eq!(
        said(&server.one("check-and-add", &page("r", 80, 0))),
        ("same".to_owned(), true),
        "the last of two"
    );
    assert_eq!(said(&server.one("check-and-add", &page("s", 81, 0))), ("new".to_owned(), false));
    std::thread::sleep(Duration::from_millis(400));
    server.end();
    let server = Server::start(top.path(), &[]);
    for (name, n) in [("r", 80), ("s", 81)] {
        assert_eq!(said(&server.one("check-and-add", &page(name, n, 0))), ("same".to_owned(), false));
    }
    server.end();
}

/// Bytes of a process in memory.
#[cfg(target_os = "linux")]
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Time in which the service says how it is: longer in a build for tests, which run beside each other.
fn at_once() -> Duration {
    Duration::from_millis(if cfg!(debug_assertions) { 2_000 } else { 100 })
}

#[cfg(target_os = "linux")]
#[test]
fn clients_that_never_end_keep_nobody_from_being_served() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("token"), "secret\n").unwrap();
    // Of the 128 files that the process may open, the index has those it needs.
    let server = Server::start_by("prlimit", &["--nofile=128"], top.path(), &["--token-file", "token"]);
    let token = "authorization: Bearer secret\r\n";
    let ask = |n: u64| {
        let body = page(&format!("p{n}"), n, 0).to_string();
        let (status, answer) = server.send("/v1/check-and-add", "application/json", token, &body);
        assert_eq!(status, 200, "{answer}");
        assert!(answer.contains("\"new\""), "{answer}");
    };
    ask(0);
    let before = resident(&server);
    let connect = || TcpStream::connect(&server.address).unwrap();
    // Heads and bodies without an end, and connections that say nothing. Some are cut off meanwhile.
    let mut clients = Vec::new();
    for n in 0..500 {
        let mut stream = connect();
        let sent = match n % 5 {
            0 => Vec::new(),
            1 => {
                let head = format!(
                    "POST /v1/check HTTP/1.1\r\nhost: here\r\n{token}content-type: application/json\r\n"
                );
                let body = "x".repeat(1_900_000);
                format!("{head}content-length: 2000000\r\n\r\n{body}").into_bytes()
            }
            _ => format!("GET /healthz HTTP/1.1\r\nhost: here\r\nx: {}", "y".repeat(15_000)).into_bytes(),
        };
        stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        let _ = stream.write_all(&sent);
        clients.push(stream);
        if n % 100 == 99 {
            let begun = Instant::now();
            assert_eq!(server.send("/healthz", "", "", "").0, 200);
            assert!(begun.elapsed() < at_once(), "{:?}", begun.elapsed());
            ask(n);
        }
    }
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    let (_, figures) = server.send("/metrics", "", token, "");
    assert!(figures.contains("simflip_task_up{task=\"housekeeping\"} 1"), "{figures}");
    let cut_off = figures.lines().find_map(|line| line.strip_prefix("simflip_cut_off_total ")).unwrap();
    assert!(cut_off.parse::<u64>().unwrap() > 300, "{cut_off}");
    drop(clients);
    server.end();
}

/// Limits at their defaults, against heads and bodies without an end, and streams whose answers nobody reads.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "it measures memory and time in release"]
fn what_strangers_leave_unfinished_takes_little_memory() {
    simflip::resources::allowed_descriptors();
    let head = "POST /v1/check HTTP/1.1\r\nhost: here\r\ncontent-type: application/";
    let body = format!("{head}json\r\ncontent-length: 7900000\r\n\r\n{}", "x".repeat(7_899_999));
    let line = |n: usize| format!("{{\"url\":\"https://stranger.example/{n}\",\"text\":\"some words\"}}\n");
    let lines: String = (0..200_000).map(line).collect();
    let lines = format!("{head}x-ndjson\r\ncontent-length: 99999999\r\n\r\n{lines}");
    let unfinished = format!("{head}json\r\nx: {}", "y".repeat(15_000));
    for (what, number, sent) in [("heads", 1_500, unfinished), ("bodies", 200, body), ("streams", 500, lines)]
    {
        let top = tempfile::tempdir().unwrap();
        let server = Server::start(top.path(), &[]);
        let before = resident(&server);
        let (mut most, mut slowest) = (0, Duration::ZERO);
        let mut clients = Vec::new();
        for n in 0..number {
            let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            // The system holds little of what is not read.
            client.set_recv_buffer_size(4 << 10).unwrap();
            client.connect(&server.address.parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
            client.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            let mut client = TcpStream::from(client);
            let _ = client.write_all(sent.as_bytes());
            clients.push(client);
            if n % 50 == 49 {
                let begun = Instant::now();
                assert_eq!(server.send("/healthz", "", "", "").0, 200);
                slowest = slowest.max(begun.elapsed());
                most = most.max(resident(&server).saturating_sub(before));
            }
        }
        println!("{number} {what}: {} MB more, health within {slowest:?}", most / 1_000_000);
        assert!(most < 64 << 20, "{number} {what}: {most} bytes");
        assert!(slowest < at_once(), "{number} {what}: {slowest:?}");
        drop(clients);
        server.end();
    }
}

/// True if words stand in a file of an index.
fn stand_in(folder: &Path, words: &str) -> bool {
    let mut files = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files.any(|bytes| bytes.windows(words.len()).any(|window| window == words.as_bytes()))
}

#[cfg(unix)]
#[test]
fn with_nobody_to_read_its_events_it_keeps_house_and_ends_well() {
    let top = tempfile::tempdir().unwrap();
    for is_full in [false, true] {
        let server = Server::start(top.path(), &["--collections"]);
        server.send("/v1/news", "put", "", "");
        let ask = |server: &Server, action: &str| {
            let page = page("a-secret", 1, 0).to_string();
            server.send(&format!("/v1/news/{action}"), "application/json", "", &page).1
        };
        ask(&server, "add");
        server.end();
        assert!(stand_in(&top.path().join("i/news"), "a-secret"));
        std::thread::sleep(Duration::from_millis(1_100));
        let (reader, mut writer) = std::io::pipe().unwrap();
        let reader = is_full.then_some(reader);
        if is_full {
            rustix::io::ioctl_fionbio(&writer, true).unwrap();
            while writer.write(&[b'x'; 512]).is_ok() {}
            rustix::io::ioctl_fionbio(&writer, false).unwrap();
            // Each is an event at the start, and more than may wait.
            (0..1_500).for_each(|n| fs::write(top.path().join(format!("i/stray-{n}")), "").unwrap());
        }
        let options = ["--collections", "--expire", "1s"];
        let mut server = Server::start_unread(top.path(), &options, writer);
        let begun = Instant::now();
        while ask(&server, "check").contains("\"same\"") {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not expire");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(server.send("/healthz", "", "", ""), (200, "ok\n".to_owned()));
        let (_, figures) = server.send("/metrics", "", "", "");
        assert_eq!(figures.contains("simflip_dropped_events_total 0\n"), !is_full, "{figures}");
        server.end_unread();
        assert!(!stand_in(&top.path().join("i/news"), "a-secret"));
        drop(reader);
    }
    // What would empty the index is refused.
    for nothing in ["0s", "1us"] {
        let output = Command::new(assert_cmd::cargo::cargo_bin("simflip"))
            .current_dir(top.path())
            .args(["serve", "--index", "i", "--expire", nothing])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains("remove every page"));
    }
}

#[cfg(unix)]
#[test]
#[ignore = "it takes 70 seconds"]
fn what_was_removed_has_left_the_files_after_a_minute() {
    let top = tempfile::tempdir().unwrap();
    let (_, stderr) = std::io::pipe().unwrap();
    let mut server = Server::start_unread(top.path(), &[], stderr);
    server.one("add", &page("a-secret", 1, 0));
    server.one("add", &page("b", 2, 0));
    assert_eq!(server.many("remove", &[json!({ "url": "a-secret" })])[1]["removed_pages"], 1);
    assert!(stand_in(&top.path().join("i"), "a-secret"));
    std::thread::sleep(Duration::from_secs(70));
    assert!(!stand_in(&top.path().join("i"), "a-secret"));
    assert_eq!(server.one("check", &page("?", 2, 0))["answer"], "same");
    server.end_unread();
}

#[test]
fn long_bodies_wait_for_those_before_them() {
    let top = tempfile::tempdir().unwrap();
    let server = Server::start(top.path(), &["--longest-document", "1", "--bodies", "1"]);
    let of = |bytes: usize| json!({ "url": "u", "text": "w".repeat(bytes) }).to_string();
    // It takes nearly all of the memory for long bodies, and is slow.
    let mut first = TcpStream::connect(&server.address).unwrap();
    first.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let body = of(999_950);
    let head =
        "POST /v1/check HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-type: application/json\r\n";
    write!(first, "{head}content-length: {}\r\n\r\n{}", body.len(), &body[..9]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let (server, long) = (&server, &of(200_000));
    std::thread::scope(|scope| {
        let chunked = scope.spawn(move || {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let length = long.len();
            write!(stream, "{head}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{long}\r\n0\r\n\r\n")
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let line = scope.spawn(move || server.send("/v1/check", "application/x-ndjson", "", long).1);
        std::thread::sleep(Duration::from_millis(700));
        assert!(!chunked.is_finished() && !line.is_finished());
        write!(first, "{}", &body[9..]).unwrap();
        let mut answer = String::new();
        first.read_to_string(&mut answer).unwrap();
        for answer in [answer, chunked.join().unwrap(), line.join().unwrap()] {
            assert!(answer.contains("\"answer\":\"new\""), "{answer}");
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn no_collection_is_made_without_files_for_it() {
    let top = tempfile::tempdir().unwrap();
    let server = Server::start_by("prlimit", &["--nofile=128"], top.path(), &["--collections"]);
    let most = || {
        let (_, figures) = server.send("/metrics", "", "", "");
        let line = figures.lines().find_map(|line| line.strip_prefix("simflip_most_connections "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let (before, mut made) = (most(), 0);
    let refusal = loop {
        let (status, answer) = server.send(&format!("/v1/c{made}"), "put", "", "");
        if status != 201 {
            break answer;
        }
        made += 1;
        assert_eq!(most(), before - 5 * made);
    };
    assert!(refusal.contains("128 open files are allowed") && made > 9, "{made}: {refusal}");
    for n in 0..made {
        let (status, _) =
            server.send(&format!("/v1/c{n}/add"), "application/json", "", page("a", 1, 0).to_string());
        assert_eq!(status, 200);
    }
    server.end();
}

#[test]
fn the_guides_examples_of_requests_are_answered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/crawl.md")).unwrap();
    let blocks = guide.split("```").skip(1).step_by(2).filter(|block| block.contains("curl "));
    let mut ran = 0;
    for block in blocks {
        let top = tempfile::tempdir().unwrap();
        let lines: String = (0..3).map(|n| format!("{}\n", page(&format!("p{n}"), n, 0))).collect();
        fs::write(top.path().join("pages.jsonl"), lines).unwrap();
        let served = block.lines().find_map(|line| line.strip_prefix("simflip serve --index ")).unwrap();
        let options: Vec<&str> = served.split_whitespace().skip(1).collect();
        let server = Server::start(top.path(), &options);
        for line in block.lines().filter(|line| line.starts_with("curl ")) {
            assert!(line.contains("localhost:7878"), "{line}");
            let line = line.replace("localhost:7878", &server.address);
            let output = Command::new("sh").args(["-c", &line]).current_dir(top.path()).output().unwrap();
            let answer = String::from_utf8(output.stdout).unwrap();
            let is_well = answer.contains("\"answer\":") || answer.contains("\"collections\":");
            assert!(output.status.success() && is_well && !answer.contains("error"), "{line}: {answer}");
            ran += 1;
        }
        server.end();
    }
    assert!(ran >= 5, "{ran}");
}
