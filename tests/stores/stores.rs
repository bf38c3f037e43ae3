//! Inputs in object stores and on web servers, held against the same files on disk: servers that fail, objects
//! that are missing or change, and what is refused.

mod servers;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;
use servers::{Faults, KEYS, Server, pause};
use tempfile::TempDir;

/// A document of so many words, drawn by its number.
fn document(number: u64, words: usize) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("w{}", (state >> 33) % 20_000)
    };
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

/// Documents of which each fifth is nearly an earlier one, and each seventh one over again.
fn documents(first: u64, number: u64, words: usize) -> Vec<String> {
    let of = |at: u64| match at {
        _ if at % 7 == 6 => document(first + at - 6, words),
        _ if at % 5 == 4 => document(first + at - 4, words) + " and another end",
        _ => document(first + at, words),
    };
    (0..number).map(of).collect()
}

fn jsonl(documents: &[String], name: &str) -> Vec<u8> {
    let line = |(at, text): (usize, &String)| {
        serde_json::json!({"id": format!("{name}-{at}"), "url": format!("https://{name}.example/{at}"), "text": text})
            .to_string()
            + "\n"
    };
    documents.iter().enumerate().map(line).collect::<String>().into_bytes()
}

/// A Parquet file of these documents in two row groups.
fn parquet(path: &Path, documents: &[String]) {
    let schema = "message rows { required binary text (STRING); required binary id (STRING); }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(50)
        .build();
    let file = fs::File::create(path).expect("a file");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).expect("a writer");
    for (number, documents) in documents.chunks(documents.len().div_ceil(2)).enumerate() {
        let mut group = writer.next_row_group().expect("a row group");
        let ids: Vec<String> = (0..documents.len()).map(|at| format!("row-{number}-{at}")).collect();
        for texts in [documents, &ids[..]] {
            let mut column = group.next_column().expect("a column").expect("one more");
            let values: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None).expect("values");
            column.close().expect("a column");
        }
        group.close().expect("a row group");
    }
    writer.close().expect("a file");
}

/// Files of every format, below `bucket/crawl` of a folder that servers serve.
struct Files {
    root: TempDir,
}

impl Files {
    fn empty() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("bucket")).expect("a bucket");
        Self { root }
    }

    fn new() -> Self {
        let files = Self::empty();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
        files.put("crawl/b.warc.wet.gz", &fs::read(data.join("aptitude.warc.wet.gz")).expect("data"));
        files.put("crawl/part/a.warc.wet.gz", &fs::read(data.join("debian-faq.warc.wet.gz")).expect("data"));
        // Longer than what is read ahead at once.
        files.put("crawl/c.jsonl", &jsonl(&documents(0, 6000, 300), "c"));
        files.put(
            "crawl/d.csv",
            b"id,text\n1,\"one document, of a table\"\n2,another document of the same table\n",
        );
        parquet(&files.at("crawl/e.parquet"), &documents(1000, 4000, 300));
        files
    }

    fn at(&self, key: &str) -> PathBuf {
        let path = self.root.path().join("bucket").join(key);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        path
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        fs::write(self.at(key), bytes).expect("a file");
    }

    fn s3(&self) -> Server {
        Server::s3(self.root.path())
    }

    fn web(&self) -> Server {
        Server::web(self.root.path())
    }

    /// What a path of a file is at the server, and on disk.
    fn prefix(&self) -> String {
        format!("{}/", fs::canonicalize(self.root.path().join("bucket")).expect("there").display())
    }
}

const BUCKET: &str = "s3://bucket/";

/// The command, with the way to the server in its surroundings.
fn simflip(server: &Server, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simflip-stores"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command
        .env("AWS_ENDPOINT_URL", format!("http://{}", server.address))
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", KEYS[0])
        .env("AWS_SECRET_ACCESS_KEY", KEYS[1])
        .current_dir(folder)
        .args(arguments);
    command.output().expect("it runs")
}

fn reported(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs it and wants it to end so.
fn run(server: &Server, folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = simflip(server, folder, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", reported(&output));
    reported(&output)
}

/// All files below a folder, by name; in those of text one prefix is written for another.
fn content(folder: &Path, [from, to]: [&str; 2]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("below").display().to_string();
            let bytes = fs::read(&path).expect("a file");
            let bytes = match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
                "csv" => String::from_utf8(bytes).expect("text").replace(from, to).into_bytes(),
                _ => bytes,
            };
            found.insert(name, bytes);
        }
    }
    found
}

/// What a report says of the files and of what came of them, without times.
fn facts(folder: &Path, [from, to]: [&str; 2]) -> Value {
    let text = fs::read_to_string(folder.join("report.json")).expect("a report").replace(from, to);
    let mut report: Value = serde_json::from_str(&text).expect("JSON");
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| !name.contains("seconds") && !name.contains("rss"));
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut report);
    let fields = report.as_object_mut().expect("fields");
    let of_documents =
        ["corpus", "corruption", "files", "lost_by_source", "outcome", "sample_pairs", "warnings"];
    fields.retain(|name, _| of_documents.contains(&&**name));
    assert_eq!(fields.len(), of_documents.len());
    report
}

/// Two folders of results say the same, but for the names of the inputs.
fn assert_same(here: &Path, there: &Path, prefixes: [&str; 2]) {
    let (mut ours, mut theirs) = (content(here, prefixes), content(there, prefixes));
    for found in [&mut ours, &mut theirs] {
        // They tell of times, and the document of names as well.
        assert!(found.remove("report.json").is_some() && found.remove("report.html").is_some());
    }
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (name, bytes) in ours {
        assert!(bytes == theirs[&name], "{name} differs");
    }
    assert_eq!(facts(here, prefixes), facts(there, prefixes));
}

const WRITES: [&str; 2] = ["--write", "kept,removed,documents"];

#[test]
fn results_are_those_of_files() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    let server = files.s3();
    let (local, prefix) = (files.prefix() + "crawl", files.prefix());
    for (number, more) in
        [["--threads", "1"], ["--threads", "4"], ["--kept-files", "each"]].iter().enumerate()
    {
        let [here, there] = ["here", "there"].map(|name| out.path().join(format!("{name}-{number}")));
        for (input, out) in [(&local[..], &here), (&format!("{BUCKET}crawl/"), &there)] {
            let out = out.to_str().expect("UTF-8");
            let arguments: Vec<&str> =
                ["dedup", input, "--out", out].iter().chain(&WRITES).chain(more).copied().collect();
            run(&server, files.root.path(), &arguments, 0);
        }
        assert_same(&here, &there, [BUCKET, &prefix]);
    }
    // On disk nothing was left, and nothing but results was written.
    assert_eq!(fs::read_dir(out.path()).expect("a folder").count(), 6);
}

/// Google's stores answer the same requests as S3 does, but for who asks.
#[test]
fn addresses_of_google_are_read_and_written() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    let server = Server::open_to_all(files.root.path());
    let account = out.path().join("account.json");
    let said = serde_json::json!({
        "gcs_base_url": format!("http://{}", server.address), "disable_oauth": true,
        "client_email": "", "private_key": "", "private_key_id": "",
    });
    fs::write(&account, said.to_string()).expect("a file");
    let google = |arguments: &[&str], code: i32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_simflip-stores"));
        let command = command.env("GOOGLE_SERVICE_ACCOUNT", &account).current_dir(out.path());
        let output = command.args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", reported(&output));
        reported(&output)
    };
    let local = files.prefix() + "crawl";
    google(&[&["dedup", &local, "--out", "here"], &WRITES[..]].concat(), 0);
    let upload = ["--upload", "gs://bucket/results/first/"];
    google(&[&["dedup", "gs://bucket/crawl/", "--out", "there"], &WRITES[..], &upload].concat(), 0);
    assert_same(&out.path().join("here"), &out.path().join("there"), ["gs://bucket/", &files.prefix()]);
    assert!(uploaded(&files) == content(&out.path().join("there"), ["", ""]));
    let reported = google(&["upload", "here", "gs://bucket/results/first/"], 2);
    assert!(reported.contains("objects are there") && reported.contains("--force"), "{reported}");
    let reported = google(&["dedup", "gs://bucket/nothing/", "--out", "no"], 2);
    assert!(reported.contains("gs://bucket/nothing/"), "{reported}");
}

#[test]
fn stages_come_to_the_same_and_read_each_byte_once() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    let server = files.s3();
    let (local, prefix) = (files.prefix() + "crawl", files.prefix());
    let remote = format!("{BUCKET}crawl/");
    for (name, input) in [("here", &local), ("there", &remote)] {
        let before = server.bytes();
        let sketches = format!("{name}-sketches");
        run(&server, out.path(), &["sketch", input, "--out", &sketches], 0);
        if name == "there" {
            let stored: u64 =
                content(&files.at("crawl"), ["", ""]).values().map(|bytes| bytes.len() as u64).sum();
            let read = server.bytes() - before;
            // Beginnings are looked at before, and of Parquet the footer several times.
            assert!((stored..stored + stored / 4 + (2 << 20)).contains(&read), "{read} of {stored} bytes");
            let before = server.requests();
            run(&server, out.path(), &["sketch", input, "--out", &sketches], 0);
            assert!(server.requests() - before < 20, "what is there is not read again");
        }
        run(&server, out.path(), &["join", &sketches], 0);
        run(&server, out.path(), &["cluster", &sketches, "--tables", &format!("{name}-tables")], 0);
        let kept = format!("{name}-kept");
        run(&server, out.path(), &["apply", &sketches, input, "--out", &kept, "--write", "kept,removed"], 0);
    }
    let tables =
        ["here-tables", "there-tables"].map(|name| content(&out.path().join(name), [BUCKET, &prefix]));
    for (name, bytes) in &tables[0] {
        assert!(!name.ends_with(".csv") || *bytes == tables[1][name], "{name} differs");
    }
    // Files are called by their own names and a hash of their paths, which are others.
    let of = |name: &str| -> BTreeMap<String, Vec<u8>> {
        let all = content(&out.path().join(name), [BUCKET, &prefix]).into_iter();
        all.filter(|(name, _)| !name.ends_with("note"))
            .map(|(name, bytes)| {
                let (stem, rest) = name.split_once('-').expect("a hash");
                (format!("{stem}{}", &rest[16..]), bytes)
            })
            .collect()
    };
    let kept = ["here-kept", "there-kept"].map(of);
    assert_eq!(kept[0].keys().collect::<Vec<_>>(), kept[1].keys().collect::<Vec<_>>());
    assert_eq!(kept[0].len(), 10);
    for (name, bytes) in &kept[0] {
        // A WET file of kept documents names itself.
        assert!(name.contains(".wet") || *bytes == kept[1][name], "{name} differs");
    }
    // One that has changed since is reported.
    pause();
    files.put("crawl/c.jsonl", &jsonl(&documents(7, 6000, 300), "c"));
    let reported = run(
        &server,
        out.path(),
        &["apply", "there-sketches", &remote, "--out", "again", "--write", "removed"],
        2,
    );
    assert!(reported.contains("s3://bucket/crawl/c.jsonl as it is now"), "{reported}");
}

#[test]
fn corruption_is_that_of_files() {
    let (files, out) = (Files::empty(), tempfile::tempdir().expect("a folder"));
    let specimens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specimens");
    for entry in fs::read_dir(specimens).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("UTF-8");
        files.put(&format!("specimens/{name}"), &fs::read(&path).expect("a file"));
    }
    let server = files.s3();
    let (local, prefix) = (files.prefix() + "specimens", files.prefix());
    let [here, there] = ["here", "there"].map(|name| out.path().join(name));
    for (input, out) in [(&local, &here), (&format!("{BUCKET}specimens/"), &there)] {
        let out = out.to_str().expect("UTF-8");
        run(&server, files.root.path(), &["dedup", input, "--out", out, WRITES[0], WRITES[1]], 1);
    }
    assert_same(&here, &there, [BUCKET, &prefix]);
}

#[test]
fn a_server_that_fails_now_and_then_changes_nothing() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    let (server, web) = (files.s3(), files.web());
    let prefix = files.prefix();
    let local = files.prefix() + "crawl";
    let here = out.path().join("here");
    run(&server, out.path(), &["dedup", &local, "--out", "here", WRITES[0], WRITES[1]], 0);
    let faults = Faults { refused: 11, dropped: 7, cut: 5, ..Faults::default() };
    for (number, threads) in ["1", "3"].into_iter().enumerate() {
        server.fail(faults);
        let (there, before) = (format!("there-{number}"), server.failed());
        let input = format!("{BUCKET}crawl/");
        run(
            &server,
            out.path(),
            &["dedup", &input, "--out", &there, "--threads", threads, WRITES[0], WRITES[1]],
            0,
        );
        assert!(server.failed() > before + 5, "{} of {}", server.failed(), server.requests());
        assert_same(&here, &out.path().join(there), [BUCKET, &prefix]);
    }
    // Over plain HTTP, where no answer has an ETag perhaps.
    web.fail(faults);
    let addresses: Vec<String> = ["b.warc.wet.gz", "part/a.warc.wet.gz", "c.jsonl", "d.csv", "e.parquet"]
        .iter()
        .map(|name| format!("http://{}/bucket/crawl/{name}", web.address))
        .collect();
    let arguments: Vec<&str> = ["dedup", "--out", "web"]
        .into_iter()
        .chain(addresses.iter().map(|address| &address[..]))
        .chain(WRITES)
        .collect();
    run(&web, out.path(), &arguments, 0);
    assert!(web.failed() > 5, "{} of {}", web.failed(), web.requests());
    let bucket = format!("http://{}/bucket/", web.address);
    assert_same(&here, &out.path().join("web"), [&bucket, &prefix]);
}

#[test]
fn what_is_not_there_stops_the_run_before_it_begins() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    let (server, web) = (files.s3(), files.web());
    let of_web = |name: &str| format!("http://{}/{name}", web.address);
    for (address, says) in [
        ("s3://bucket/crawl/missing.jsonl".to_owned(), "there is no such object"),
        ("s3://bucket/craw".to_owned(), "an address that ends in / names all below it"),
        ("s3://bucket/nothing/".to_owned(), "there is no object below this address"),
        ("s3://other/crawl/c.jsonl".to_owned(), "there is no such object"),
        ("s3:///c.jsonl".to_owned(), "without the name of a bucket"),
        ("ftp://server/c.jsonl".to_owned(), "s3, gs, az, http and https are"),
        (of_web("bucket/missing.jsonl"), "there is nothing"),
        (of_web("bucket/crawl/"), "name them"),
        (of_web("bucket/crawl/c.jsonl?token=secret"), "with a query"),
    ] {
        let before = server.requests();
        let reported =
            run(&server, out.path(), &["dedup", "s3://bucket/crawl/c.jsonl", &address, "--out", "result"], 2);
        assert!(reported.contains(&address) && reported.contains(says), "{address}: {reported}");
        assert!(server.requests() - before < 5, "{address} is looked for first");
        assert_eq!(fs::read_dir(out.path()).expect("a folder").count(), 0, "{address}");
    }
}

#[test]
fn servers_that_refuse_are_reported_with_advice() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    let (server, web) = (files.s3(), files.web());
    server.fail(Faults { forbidden: true, ..Faults::default() });
    let reported = run(&server, out.path(), &["dedup", "s3://bucket/crawl/c.jsonl", "--out", "result"], 2);
    assert!(
        reported.contains("s3://bucket/crawl/c.jsonl") && reported.contains("AWS_ENDPOINT_URL"),
        "{reported}"
    );
    web.fail(Faults { no_ranges: true, ..Faults::default() });
    let address = format!("http://{}/bucket/crawl/c.jsonl", web.address);
    let reported = run(&web, out.path(), &["dedup", &address, "--out", "result"], 2);
    assert!(reported.contains("does not answer requests for a part of a file"), "{reported}");
    assert_eq!(fs::read_dir(out.path()).expect("a folder").count(), 0);
}

#[test]
fn an_object_that_changes_is_noticed_whenever_it_does() {
    let out = tempfile::tempdir().expect("a folder");
    for (number, words, names) in [(400, 30, &["c.jsonl", "c.parquet"][..]), (2500, 200, &["c.jsonl"])] {
        for &name in names {
            let files = Files::empty();
            let put = |first: u64| match name {
                "c.jsonl" => files.put(name, &jsonl(&documents(first, number, words), "c")),
                _ => parquet(&files.at(name), &documents(first, number, words)),
            };
            put(0);
            let server = files.s3();
            let input = format!("{BUCKET}{name}");
            let dedup = |out: &str| {
                let arguments =
                    ["dedup", &input, "--out", out, "--threads", "1", "--write", "kept,documents"];
                simflip(&server, files.root.path(), &arguments)
            };
            let result = |run: &str| out.path().join(format!("{number}-{name}-{run}"));
            let say = |path: &Path| path.to_str().expect("UTF-8").to_owned();
            let before = server.requests();
            assert!(dedup(&say(&result("old"))).status.success());
            let requests = server.requests() - before;
            let target = files.at(name);
            let old = fs::read(&target).expect("a file");
            put(1);
            let new = fs::read(&target).expect("a file");
            assert!(dedup(&say(&result("new"))).status.success());
            let kept = |run: &str| {
                let all = content(&result(run), ["", ""]).into_iter();
                all.filter(|(name, _)| !name.starts_with("report")).collect::<BTreeMap<_, _>>()
            };
            let (kept_of_old, kept_of_new) = (kept("old"), kept("new"));
            assert!(kept_of_old != kept_of_new);
            let (mut refused, mut lost) = (0, 0);
            // All of the first, and some of those behind, which fetch texts for the report one by one.
            for request in (1..=requests).filter(|request| *request <= 12 || request % 9 == 0) {
                fs::write(&target, &old).expect("a file");
                let (target, new) = (target.clone(), new.clone());
                server.after(request, move || fs::write(target, new).expect("a file"));
                let run = format!("at-{request}");
                let output = dedup(&say(&result(&run)));
                let reported = reported(&output);
                match output.status.code() {
                    Some(0) => {
                        let kept = kept(&run);
                        assert!(
                            kept == kept_of_old || kept == kept_of_new,
                            "{name}, request {request}: {reported}"
                        );
                    }
                    Some(1) => {
                        lost += 1;
                        assert!(
                            reported.contains("cannot be read any more")
                                || reported.contains("are not among the kept"),
                            "{reported}"
                        );
                        // Its tables are those of the documents that were read.
                        let documents = &kept(&run)["documents.csv"];
                        assert!(
                            documents.len() == kept_of_old["documents.csv"].len(),
                            "{name}, request {request}: {reported}"
                        );
                    }
                    Some(2) => {
                        refused += 1;
                        assert!(
                            reported.contains("it was changed") && reported.contains(&input),
                            "{reported}"
                        );
                        assert!(!result(&run).exists());
                    }
                    _ => panic!("{reported}"),
                }
            }
            assert!(
                refused > 0 && lost > 0,
                "{name}: {refused} refused, {lost} lost, of {requests} requests"
            );
        }
    }
}

#[test]
fn a_folder_is_what_is_below_it() {
    let (files, out) = (Files::empty(), tempfile::tempdir().expect("a folder"));
    let server = files.s3();
    files.put("crawl/a.jsonl", &jsonl(&documents(0, 40, 60), "a"));
    files.put("crawl/sub/b.json", &jsonl(&documents(100, 40, 60), "b"));
    files.put("crawl/sub/no.json", b"{\"version\": 1}");
    files.put("crawl/notes.txt", b"a note");
    files.put("crawl/empty.jsonl", b"");
    files.put("crawlers/c.jsonl", &jsonl(&documents(200, 40, 60), "c"));
    let crawl = files.prefix() + "crawl";
    let inside = crawl.clone() + "/result";
    run(&server, out.path(), &["dedup", &crawl, "--out", &inside], 0);
    let reported = ["here", "there"].map(|name| {
        let input = if name == "here" { crawl.clone() } else { format!("{BUCKET}crawl/") };
        let reported = run(&server, out.path(), &["dedup", &input, "--out", name, WRITES[0], WRITES[1]], 0);
        reported
            .lines()
            .find(|line| line.contains("Skipped in folders"))
            .expect("told")
            .replace(&input, "crawl/")
            .replace("//", "/")
    });
    assert_eq!(reported[0], reported[1]);
    assert_same(&out.path().join("here"), &out.path().join("there"), [BUCKET, &files.prefix()]);
    // Of a result that is named itself, the documents that it kept.
    let kept = run(&server, out.path(), &["dedup", "s3://bucket/crawl/result/", "--out", "of-result"], 0);
    assert!(kept.contains("of a result beside its documents"), "{kept}");
    // One object under several names, and as old and as new.
    let arguments = [
        "dedup",
        "s3://bucket/crawl/a.jsonl",
        "s3://bucket//crawl/a.jsonl",
        "s3://bucket/crawl/",
        "--out",
        "twice",
    ];
    run(&server, out.path(), &arguments, 0);
    let documents = |name: &str| facts(&out.path().join(name), ["", ""]);
    assert_eq!(documents("twice"), documents("there"));
    let arguments =
        ["dedup", "s3://bucket/crawlers/", "--against", "s3://bucket/crawlers/c.jsonl", "--out", "none"];
    assert!(run(&server, out.path(), &arguments, 2).contains("each of these is named as both"));
}

#[test]
fn nothing_is_written_to_a_store() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    let server = files.s3();
    let input = "s3://bucket/crawl/d.csv";
    let made = tempfile::tempdir().expect("a folder");
    let sketches = made.path().join("sketches");
    let sketches = sketches.to_str().expect("text");
    run(&server, out.path(), &["sketch", input, "--out", sketches], 0);
    for arguments in [
        vec!["dedup", input, "--out", "s3://bucket/result/"],
        vec!["sketch", input, "--out", "s3://bucket/sketches"],
        vec!["apply", sketches, input, "--out", "s3://bucket/kept"],
        vec!["dedup", input, "--out", "result", "--save-frequencies", "s3://bucket/f"],
        vec!["gather", "crawl", "--out", "s3://bucket/documents.jsonl"],
    ] {
        let reported = run(&server, out.path(), &arguments, 2);
        assert!(reported.contains("results are not written to stores"), "{arguments:?}: {reported}");
    }
    let reported = run(&server, out.path(), &["gather", "s3://bucket/crawl/", "--out", "documents.jsonl"], 2);
    assert!(reported.contains("files and folders of this machine"), "{reported}");
    assert_eq!(fs::read_dir(out.path()).expect("a folder").count(), 0);
}

const RESULT: &str = "s3://bucket/results/first/";

/// What is below the address of a result, as the server has it on disk.
fn uploaded(files: &Files) -> BTreeMap<String, Vec<u8>> {
    let folder = files.root.path().join("bucket/results/first");
    if folder.is_dir() { content(&folder, ["", ""]) } else { BTreeMap::new() }
}

#[test]
fn results_are_uploaded_as_they_are() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    // More than goes in one request.
    parquet(&files.at("crawl/f.parquet"), &documents(20_000, 9000, 300));
    let server = files.s3();
    server.fail(Faults { refused: 11, dropped: 7, ..Faults::default() });
    let dedup = ["dedup", "s3://bucket/crawl/", "--upload", RESULT, "--write", "kept,removed"];
    let upload = |out_and_more: &[&str], code: i32| {
        run(&server, out.path(), &[&dedup[..], &["--out"], out_and_more].concat(), code)
    };
    let reported = upload(&["first", "--kept-files", "each"], 0);
    assert!(reported.contains(RESULT) && server.failed() > 5, "{reported}");
    let first = content(&out.path().join("first"), ["", ""]);
    assert!(first["kept.f.parquet"].len() > 8 << 20 && first.len() > 8);
    assert!(uploaded(&files) == first);
    // What is there stays, and without a word of it nothing is begun.
    server.fail(Faults::default());
    let reported = upload(&["second"], 2);
    let says = format!("{} objects are there", first.len());
    assert!(reported.contains(&says) && reported.contains("--force"), "{reported}");
    assert!(!out.path().join("second").exists());
    files.put("results/first/notes.txt", b"a user's own");
    let reported = upload(&["second", "--force"], 2);
    assert!(reported.contains("notes.txt is there and would be lost"), "{reported}");
    fs::remove_file(files.at("results/first/notes.txt")).expect("there");
    // One of its name, but another length.
    let changed = [&first["pairs.csv"][..], b"a,b\n"].concat();
    files.put("results/first/pairs.csv", &changed);
    assert!(upload(&["second", "--force"], 2).contains("pairs.csv is there and would be lost"));
    files.put("results/first/pairs.csv", &first["pairs.csv"]);
    assert!(uploaded(&files) == first && !out.path().join("second").exists());
    // An earlier result gives way, with the files that the new one has not.
    upload(&["second", "--force"], 0);
    let second = content(&out.path().join("second"), ["", ""]);
    assert!(
        uploaded(&files) == second
            && second.contains_key("kept.parquet")
            && !second.contains_key("kept.d.csv")
    );
    // It is a result there, whose kept documents are read.
    let reported = run(&server, out.path(), &["dedup", RESULT, "--out", "again"], 0);
    assert!(reported.contains("of a result beside its documents"), "{reported}");
    let report = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(out.path().join(name).join("report.json")).expect("a report"))
            .expect("JSON")
    };
    assert_eq!(report("again")["corpus"]["documents"], report("second")["outcome"]["kept"]);
    // A result of before, to the whole of a bucket, without what else is in its folder.
    fs::create_dir(files.root.path().join("other")).expect("a bucket");
    fs::write(out.path().join("first/notes.txt"), "a user's own").expect("a file");
    let reported = run(&server, out.path(), &["upload", "first", "s3://other"], 0);
    assert!(reported.contains("notes.txt is not of the result and stays here"), "{reported}");
    assert!(content(&files.root.path().join("other"), ["", ""]) == first);
    fs::write(out.path().join("first/pairs.csv"), changed).expect("a file");
    let reported = run(&server, out.path(), &["upload", "first", "s3://other", "--force"], 2);
    assert!(reported.contains("simflip inspect checks"), "{reported}");
}

#[test]
fn an_upload_that_fails_leaves_the_result_and_is_begun_again() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    parquet(&files.at("crawl/e.parquet"), &documents(20_000, 9000, 300));
    let server = files.s3();
    let crawl = files.prefix() + "crawl";
    let dedup = |name: &str, code: i32| {
        run(&server, out.path(), &["dedup", &crawl, "--out", name, "--upload", RESULT], code)
    };
    let before = server.requests();
    dedup("whole", 0);
    let requests = server.requests() - before;
    assert!(requests > 8, "{requests}");
    let mut unfinished = 0;
    for request in 1..=requests {
        let _ = fs::remove_dir_all(files.root.path().join("bucket/results"));
        let name = format!("out-{request}");
        server.fail_after(request, Faults { forbidden: true, ..Faults::default() });
        let reported = dedup(&name, 2);
        assert!(reported.contains("s3://bucket/results/first"), "{reported}");
        server.fail(Faults::default());
        let there = uploaded(&files);
        if reported.contains("nothing can be written there") || !reported.contains("--force begins") {
            // Before anything was read.
            assert!(!out.path().join(&name).exists() && there.is_empty(), "{reported}");
            continue;
        }
        unfinished += 1;
        // The report alone says that a result is whole.
        assert!(!there.contains_key("report.json"), "{request}");
        let again = format!("the result is whole in {name}; simflip upload {name} {RESULT} --force begins");
        assert!(reported.contains(&again), "{reported}");
        let here = content(&out.path().join(&name), ["", ""]);
        if !there.is_empty() {
            let reported = run(&server, out.path(), &["upload", &name, RESULT], 2);
            assert!(reported.contains("--force replaces earlier results"), "{reported}");
            let reported =
                run(&server, out.path(), &["dedup", &crawl, "--out", "x", "--upload", RESULT, "--force"], 2);
            assert!(reported.contains("an upload was ended there"), "{reported}");
            files.put("results/first/own.csv", b"a user's own");
            let reported = run(&server, out.path(), &["upload", &name, RESULT, "--force"], 2);
            assert!(reported.contains("own.csv is there and would be lost"), "{reported}");
            fs::remove_file(files.at("results/first/own.csv")).expect("there");
        }
        run(&server, out.path(), &["upload", &name, RESULT, "--force"], 0);
        assert!(uploaded(&files) == here);
    }
    assert!(unfinished > 4, "{unfinished}");
}

#[test]
fn where_nothing_can_be_written_nothing_is_begun() {
    let (files, out) = (Files::new(), tempfile::tempdir().expect("a folder"));
    let server = files.s3();
    for (address, says) in [
        ("s3://nowhere/result/", "s3://nowhere/result/"),
        ("http://server/result/", "on a web server"),
        ("results", "an address in a store"),
        ("s3:///result", "without the name of a bucket"),
    ] {
        let reported = run(
            &server,
            out.path(),
            &["dedup", "s3://bucket/crawl/d.csv", "--out", "result", "--upload", address],
            2,
        );
        assert!(reported.contains(says), "{address}: {reported}");
    }
    let reported = run(&server, out.path(), &["upload", "crawl", RESULT], 2);
    assert!(reported.contains("a folder of results that simflip dedup wrote"), "{reported}");
    assert_eq!(fs::read_dir(out.path()).expect("a folder").count(), 0);
}
