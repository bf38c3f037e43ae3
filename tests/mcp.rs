//! `simflip mcp`: a client's messages over standard input and output.

use crate::place::{Place, words};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Client {
    server: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    fn start(folder: &Path, options: &[&str]) -> Self {
        let mut server = Command::new(assert_cmd::cargo::cargo_bin("simflip"))
            .current_dir(folder)
            .arg("mcp")
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
        let mut client = Self { server, to, from, id: 0 };
        let about = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
        let answer = client.ask("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "simflip", "{answer}");
        assert!(answer["result"]["capabilities"]["tools"].is_object(), "{answer}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": parameters }));
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "it ended");
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    /// Calls a tool, and gives its answer, or the text of its error.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        match result["isError"] == true {
            true => Err(result["content"][0]["text"].as_str().unwrap().to_owned()),
            false => Ok(result["structuredContent"].clone()),
        }
    }

    /// Ends its input, which ends the server.
    fn end(mut self) {
        self.to = None;
        assert!(self.server.wait().unwrap().success());
    }
}

fn notes(place: &Place) {
    place.put("notes/a.md", words(1, 60));
    place.put("notes/b.txt", words(1, 60) + " and more");
    place.put("notes/c.md", words(2, 60));
    place.put("notes/d.txt", words(2, 60));
    let lines = (3..6)
        .map(|document| json!({ "id": format!("r{document}"), "text": words(document, 60) }).to_string());
    place.put("notes/more.jsonl", lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn an_agent_finds_duplicates_and_checks_before_it_writes() {
    let place = Place::new();
    notes(&place);
    let mut client = Client::start(place.folder(), &[]);
    let tools = client.ask("tools/list", &json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["check_text", "find_duplicates"]);
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true), "{tools:?}");
    assert!(tools[1]["inputSchema"]["properties"]["paths"].is_object(), "{tools:?}");

    let found = client.call("find_duplicates", json!({ "paths": ["notes"] })).unwrap();
    assert_eq!(
        (&found["documents"], &found["duplicates"], &found["corrupt"]),
        (&json!(7), &json!(2), &json!(0))
    );
    let listed = found["listed"].as_array().unwrap();
    let kinds: Vec<&str> = listed.iter().map(|pair| pair["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["near", "same"], "{found}");
    assert!(listed[0]["document"].as_str().unwrap().ends_with("notes/b.txt"), "{found}");
    assert!(listed[0]["duplicate_of"].as_str().unwrap().ends_with("notes/a.md"), "{found}");

    let texts =
        json!({ "texts": ["a text of some words", "another one", "a text of some words"], "limit": 1 });
    let found = client.call("find_duplicates", texts).unwrap();
    assert_eq!(found["listed"][0]["document"], "2");
    assert_eq!(found["listed"][0]["duplicate_of"], "0");

    for (number, more, answer, document) in
        [(4, "", "same", "r4"), (4, " and more", "near", "r4"), (7, "", "new", "")]
    {
        let asked = json!({ "text": words(number, 60) + more, "paths": ["notes"] });
        let checked = client.call("check_text", asked).unwrap();
        assert_eq!(checked["answer"], answer, "{checked}");
        assert_eq!(checked["document"].as_str().unwrap_or_default(), document, "{checked}");
    }
    client.end();
    assert_eq!(std::fs::read_dir(place.at("notes")).unwrap().count(), 5);
}

#[test]
fn an_agent_asks_an_index_and_hears_what_is_wrong() {
    let place = Place::new();
    notes(&place);
    place.run("seen --index notes.seen notes/more.jsonl").assert().success();
    let mut client = Client::start(place.folder(), &["--index", "notes.seen"]);
    let checked = client.call("check_text", json!({ "text": words(3, 60) })).unwrap();
    assert_eq!((&checked["answer"], &checked["document"]), (&json!("same"), &json!("r3")));
    assert_eq!(client.call("check_text", json!({ "text": words(9, 60) })).unwrap()["answer"], "new");
    for (tool, arguments, reported) in [
        ("check_text", json!({ "text": "a", "similarity": 0.5 }), "an index has a threshold of its own"),
        ("check_text", json!({ "text": "a", "paths": ["none"] }), "no such file or folder: none"),
        ("find_duplicates", json!({}), "expected paths or texts"),
        ("find_duplicates", json!({ "paths": ["notes"], "similarity": 2 }), "similarity"),
    ] {
        let error = client.call(tool, arguments).unwrap_err();
        assert!(error.contains(reported), "{error}");
    }
    client.end();
    let mut client = Client::start(place.folder(), &[]);
    let error = client.call("check_text", json!({ "text": "a" })).unwrap_err();
    assert!(error.contains("expected paths, or a server that was started with --index"), "{error}");
    client.end();
}
