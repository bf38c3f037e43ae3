//! A folder of good and bad input files, and what each must yield.
//!
//! The files are made by `write_specimens` below (`cargo test write_specimens -- --ignored`) and committed,
//! since a compressor of another version may make other bytes of the same text. `index.csv` beside them says
//! what is expected; it is written from what this file says, never from what the reader answers.

use super::place::gz;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use simflip::corpus::{DiscoverOptions, Format, Input, ReadOptions, discover, fetch, read, write_kept};

/// A row of `index.csv`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    file: String,
    records: u64,
    documents: u64,
    /// Bytes of all documents' texts.
    text_bytes: u64,
    /// `kind@record@offset+within`, with spaces between; the record is empty if there is none.
    corruption: String,
    /// Why the file is there.
    note: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specimens")
}

fn index() -> Vec<Entry> {
    let mut reader = csv::Reader::from_path(folder().join("index.csv")).expect("the index opens");
    reader.deserialize().map(|row| row.expect("a row of the index")).collect()
}

#[test]
fn every_file_has_an_entry_and_every_entry_a_file() {
    let listed: BTreeSet<String> = index().into_iter().map(|e| e.file).collect();
    let present: BTreeSet<String> = std::fs::read_dir(folder())
        .expect("the folder opens")
        .map(|e| e.expect("an entry").file_name().into_string().expect("a plain name"))
        .filter(|name| name != "index.csv")
        .collect();
    assert_eq!(listed, present);
    assert!(listed.len() >= 50, "specimens went missing");
}

fn options(threads: usize, block_bytes: usize) -> ReadOptions {
    ReadOptions { threads, block_bytes, ..ReadOptions::default() }
}

/// Reads one file: what came of it, in the terms of the index, and its documents in order.
fn outcome(inputs: &[Input], options: &ReadOptions) -> (Vec<Entry>, Vec<(u32, u32, String)>) {
    let progress = Mutex::new(0);
    let reading = read(
        inputs,
        options,
        Vec::new,
        |documents, d| documents.push((d.id.shard, d.id.row, d.text.to_owned())),
        &|n| *progress.lock().expect("no panic") += n,
    );
    let mut documents = reading.workers.concat();
    documents.sort();
    let stored: u64 = reading.files.iter().map(|f| f.stored_bytes).sum();
    assert_eq!(*progress.lock().expect("no panic"), stored);
    let entries = reading.files.into_iter().map(|f| {
        let corruption = f.corruption.iter().map(|d| {
            let record = d.record.map_or(String::new(), |r| r.to_string());
            format!("{}@{record}@{}+{}", d.kind, d.offset, d.within)
        });
        assert_eq!(f.corrupt, f.corruption.len() as u64);
        Entry {
            file: f.path.file_name().expect("a name").to_string_lossy().into_owned(),
            records: f.records,
            documents: f.documents,
            text_bytes: f.text_bytes,
            corruption: corruption.collect::<Vec<_>>().join(" "),
            note: String::new(),
        }
    });
    (entries.collect(), documents)
}

#[test]
fn every_specimen_reads_as_the_index_says() {
    let mut index = index();
    index.sort_by(|a, b| a.file.cmp(&b.file));
    let paths: Vec<PathBuf> = index.iter().map(|e| folder().join(&e.file)).collect();
    let inputs = discover(&paths, &DiscoverOptions::default()).expect("inputs");
    let mut first = None;
    for threads in [1, 4] {
        for block_bytes in [1, 1000, 1 << 20] {
            let (entries, documents) = outcome(&inputs, &options(threads, block_bytes));
            let mut wrong = String::new();
            for (mut entry, expected) in entries.into_iter().zip(&index) {
                entry.note.clone_from(&expected.note);
                if &entry != expected {
                    wrong += &format!("got  {entry:?}\nwant {expected:?}\n");
                }
            }
            assert!(wrong.is_empty(), "{threads} threads, blocks of {block_bytes}:\n{wrong}");
            let first = first.get_or_insert_with(|| documents.clone());
            assert_eq!(first, &documents, "{threads} threads, blocks of {block_bytes}");
        }
    }
}

#[test]
fn every_document_can_be_fetched_by_its_place() {
    let inputs = discover(&[folder()], &DiscoverOptions::default()).expect("inputs");
    let options = options(2, 1000);
    let reading =
        read(&inputs, &options, Vec::new, |w, d| w.push((d.id, d.place, d.text.to_owned())), &|_| {});
    let mut documents = reading.workers.concat();
    documents.sort();
    let wanted: Vec<_> = documents.iter().map(|d| (d.0, d.1)).collect();
    for wanted in [wanted.clone(), wanted.into_iter().rev().collect()] {
        let mut fetched = Vec::new();
        fetch(&inputs, &options, &wanted, |d| fetched.push((d.id, d.place, d.text.to_owned())))
            .expect("all there");
        fetched.sort();
        assert_eq!(fetched, documents);
    }
}

#[test]
fn what_is_kept_reads_back_without_corruption() {
    let inputs = discover(&[folder()], &DiscoverOptions::default()).expect("inputs");
    let options = options(2, 1000);
    let keep = |id: simflip::document::DocId| !(id.row + id.shard).is_multiple_of(3);
    let dir = tempfile::tempdir().expect("temp dir");
    let reading =
        read(&inputs, &options, Vec::new, |list, document| list.push((document.id, document.place)), &|_| ());
    let mut wanted: Vec<_> = reading.workers.into_iter().flatten().filter(|&(id, _)| keep(id)).collect();
    wanted.sort_unstable();
    let kept = write_kept(&inputs, &options, &wanted, &|_, _| true, dir.path()).expect("writes");

    // Ids that do not decode show only when the rows are to be copied.
    const LOST: [&str; 2] = ["id-column-outside.parquet", "page-noise-of-id.parquet"];
    let lost: Vec<_> = kept.lost.iter().filter_map(|lost| lost.path.file_name()).collect();
    assert_eq!(lost, LOST);
    let (_, documents) = outcome(&inputs, &options);
    for format in [Format::Wet, Format::Jsonl, Format::Parquet, Format::Arrow] {
        let copied = |input: &Input| !LOST.iter().any(|name| input.path.ends_with(name));
        let mut expected: Vec<&String> = documents
            .iter()
            .filter(|(shard, ..)| inputs[*shard as usize].format == format)
            .filter(|(shard, row, _)| keep(simflip::document::DocId::new(*shard, *row)))
            .filter(|(shard, row, _)| copied(&inputs[*shard as usize]) || !(2..4).contains(row))
            .map(|(_, _, text)| text)
            .collect();
        let mut found = Vec::new();
        for file in kept.files.iter().filter(|file| file.format == format) {
            let back = discover(std::slice::from_ref(&file.path), &DiscoverOptions::default());
            let (entries, documents) = outcome(&back.expect("the kept file"), &options);
            // A document whose address cannot be read is kept as it is.
            let harmless = |d: &str| d.is_empty() || d.starts_with("bad-name@");
            assert!(entries[0].corruption.split(' ').all(harmless), "{:?}", entries[0]);
            assert_eq!(file.documents, documents.len() as u64);
            assert_eq!(file.stored_bytes, std::fs::metadata(&file.path).expect("is there").len());
            found.extend(documents.into_iter().map(|(_, _, text)| text));
        }
        // Rows of other columns are in another file.
        if matches!(format, Format::Parquet | Format::Arrow) {
            expected.sort();
            found.sort();
        }
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }
}

// ---- how the specimens are made ----

pub const TEXTS: [&str; 5] = [
    "The kettle sang before the rain began.\nNobody had lit the stove.\n",
    "Die Brücke über den Fluss wurde im Frühjahr gesperrt.\n\nDer Bus fährt nun eine Stunde länger.\n",
    "渡し舟は朝だけ動く。\n午後は橋まで歩くほかない。\n",
    "Harbour notes: three boats out, two back,\none still at the far pier with a torn sail.\n",
    "",
];

fn header(kind: &str, uri: &str, length: &str) -> String {
    format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {uri}\r\nWARC-Date: 2024-05-18T01:58:10Z\r\n\
         WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-00000000000{}>\r\nContent-Type: text/plain\r\n\
         Content-Length: {length}\r\n\r\n",
        uri.len() % 10
    )
}

fn with_length(i: usize, length: &str) -> Vec<u8> {
    let mut record = header("conversion", &format!("https://pier.example/{i}"), length).into_bytes();
    record.extend(TEXTS[i].as_bytes());
    record.extend(b"\r\n\r\n");
    record
}

/// Record `i`, whole.
fn good(i: usize) -> Vec<u8> {
    with_length(i, &TEXTS[i].len().to_string())
}

fn info() -> Vec<u8> {
    let content = "software: none\r\n";
    let mut record = header("warcinfo", "-", &content.len().to_string()).into_bytes();
    record.extend(content.as_bytes());
    record.extend(b"\r\n\r\n");
    record
}

/// The warcinfo record and all good ones.
fn all() -> Vec<Vec<u8>> {
    std::iter::once(info()).chain((0..TEXTS.len()).map(good)).collect()
}

fn text_bytes(which: &[usize]) -> u64 {
    which.iter().map(|&i| TEXTS[i].len() as u64).sum()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.include_checksum(true).expect("a known parameter");
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn members(records: &[Vec<u8>]) -> Vec<Vec<u8>> {
    records.iter().map(|r| gz(r)).collect()
}

/// Where piece `i` starts when all are put one behind the other.
fn offset(pieces: &[Vec<u8>], i: usize) -> u64 {
    pieces[..i].iter().map(|p| p.len() as u64).sum()
}

pub fn at(kind: &str, record: impl Into<Option<u64>>, offset: u64, within: u64) -> String {
    format!("{kind}@{}@{offset}+{within}", record.into().map_or(String::new(), |r: u64| r.to_string()))
}

fn line(i: usize) -> Vec<u8> {
    let mut line = serde_json::json!({"id": i, "url": format!("https://pier.example/{i}"), "text": TEXTS[i]})
        .to_string();
    line.push('\n');
    line.into_bytes()
}

fn lines() -> Vec<Vec<u8>> {
    (0..TEXTS.len()).map(line).collect()
}

/// Everything that is written into the folder.
#[derive(Default)]
pub struct Folder {
    files: Vec<(Entry, Vec<u8>)>,
}

impl Folder {
    pub fn add(
        &mut self,
        file: &str,
        bytes: Vec<u8>,
        records: u64,
        used: &[usize],
        corruption: &[String],
        note: &str,
    ) {
        let entry = Entry {
            file: file.into(),
            records,
            documents: used.len() as u64,
            text_bytes: text_bytes(used),
            corruption: corruption.join(" "),
            note: note.into(),
        };
        self.files.push((entry, bytes));
    }

    /// A file with one more document than those used, of so many bytes, which stand nowhere as they are read.
    pub fn add_odd(
        &mut self,
        file: &str,
        bytes: Vec<u8>,
        records: u64,
        used: &[usize],
        text: u64,
        note: &str,
    ) {
        self.add(file, bytes, records, used, &[], note);
        self.one_more(1, text);
    }

    /// One document more, of so many bytes, in each of the last files.
    fn one_more(&mut self, files: usize, text: u64) {
        for (entry, _) in self.files.iter_mut().rev().take(files) {
            entry.documents += 1;
            entry.text_bytes += text;
        }
    }

    /// A plain file and a file of members in which piece 3 (of the warcinfo record and five documents) is
    /// another.
    fn with_piece(&mut self, name: &str, piece: Vec<u8>, used: &[usize], kind: &str, note: &str) {
        let mut pieces = all();
        pieces[3] = piece;
        let corruption = |pieces: &[Vec<u8>]| match kind {
            "" => vec![],
            kind => vec![at(kind, 3, offset(pieces, 3), 0)],
        };
        self.add(&format!("{name}.warc.wet"), pieces.concat(), 6, used, &corruption(&pieces), note);
        let packed = members(&pieces);
        let note = format!("{note}; a member each");
        self.add(&format!("{name}.warc.wet.gz"), packed.concat(), 6, used, &corruption(&packed), &note);
    }
}

const EVERY: &[usize] = &[0, 1, 2, 3, 4];
const WITHOUT_2: &[usize] = &[0, 1, 3, 4];

fn replace(bytes: &[u8], from: &str, to: &[u8]) -> Vec<u8> {
    let at = memchr::memmem::find(bytes, from.as_bytes()).expect("is there");
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

fn good_files(folder: &mut Folder) {
    let pieces = all();
    let packed = members(&pieces);
    folder.add("good-members.warc.wet.gz", packed.concat(), 6, EVERY, &[], "as Common Crawl writes it");
    folder.add("good-plain.warc.wet", pieces.concat(), 6, EVERY, &[], "the same, plain");
    folder.add(
        "good-one-member.warc.wet.gz",
        gz(&pieces.concat()),
        6,
        EVERY,
        &[],
        "all records in one member",
    );
    folder.add("good-zstd.warc.wet.zst", zst(&pieces.concat()), 6, EVERY, &[], "all records in one frame");
    let words = pieces.concat();
    let mut with_words = zstd::bulk::Compressor::with_dictionary(1, &words).expect("memory");
    for (name, dictionary) in [("plain", words.clone()), ("packed", zst(&words))] {
        let first =
            [&b"\x5d\x2a\x4d\x18"[..], &(dictionary.len() as u32).to_le_bytes(), &dictionary].concat();
        let frames = pieces.iter().flat_map(|piece| with_words.compress(piece).expect("memory"));
        let bytes = first.into_iter().chain(frames).collect();
        let file = format!("good-dictionary-{name}.warc.zst");
        folder.add(&file, bytes, 6, EVERY, &[], "frames by a dictionary, which stands in the first one");
    }
    let stream = pieces.concat();
    let chunks: Vec<u8> = stream.chunks(100).flat_map(gz).collect();
    folder.add(
        "good-members-of-100-bytes.warc.wet.gz",
        chunks,
        6,
        EVERY,
        &[],
        "records go over members' ends",
    );
    let lf: Vec<u8> = (0..5).flat_map(|i| replace_all(&good(i), "\r\n", "\n")).collect();
    folder.add("good-lf.warc.wet", lf, 5, EVERY, &[], "lines end with LF");
    let text = TEXTS[..4].concat();
    let length = (text.len() + text.lines().count()).to_string();
    let resaved =
        header("conversion", "https://pier.example/", &length).replace("\r\n", "\n") + &text + "\n\n";
    let note = "saved again with LF for CRLF, lengths as they were".into();
    let (file, text_bytes) =
        ("good-resaved-with-lf.warc.wet".into(), 2 * text.len() as u64 + TEXTS[1].len() as u64);
    let entry = Entry { file, records: 3, documents: 3, text_bytes, corruption: String::new(), note };
    let last = replace_all(&good(1), "\r\n", "\n");
    folder.files.push((entry, [resaved.as_bytes(), resaved.as_bytes(), &last].concat()));
    let lower: Vec<u8> = (0..5)
        .flat_map(|i| {
            let lower = replace(&good(i), "Content-Length", b"content-LENGTH ");
            replace(&lower, "WARC-Type: conversion", b"warc-type:Conversion")
        })
        .collect();
    folder.add(
        "good-names-in-any-case.warc.wet",
        lower,
        5,
        EVERY,
        &[],
        "header names in any case, odd blanks",
    );
    let mut bare = pieces.clone();
    bare.iter_mut().for_each(|r| r.truncate(r.len() - 4));
    folder.add(
        "good-no-blank-lines.warc.wet.gz",
        members(&bare).concat(),
        6,
        EVERY,
        &[],
        "nothing behind the text",
    );
    let bom = [b"\xef\xbb\xbf".to_vec(), pieces.concat()].concat();
    folder.add("good-bom.warc.wet", bom, 6, EVERY, &[], "a byte-order mark first");
    let counted: Vec<u8> =
        (0..5).flat_map(|i| with_length(i, &TEXTS[i].chars().count().to_string())).collect();
    folder.add(
        "good-length-in-characters.warc.wet",
        counted,
        5,
        EVERY,
        &[],
        "Content-Length counts characters",
    );
    let zeros = [pieces.concat(), vec![0; 700]].concat();
    folder.add("good-trailing-zeros.warc.wet", zeros, 6, EVERY, &[], "zeros behind the last record");
    let zeros = [packed.concat(), vec![0; 700]].concat();
    folder.add("good-trailing-zeros.warc.wet.gz", zeros, 6, EVERY, &[], "zeros behind the last member");
    folder.add(
        "good-no-documents.warc.wet.gz",
        gz(&info()),
        1,
        &[],
        &[],
        "no conversion record, which is not corrupt",
    );
    let response = replace(&good(0), "conversion", b"response");
    let mixed = [info(), response, good(1)];
    folder.add(
        "good-other-types.warc.gz",
        members(&mixed).concat(),
        3,
        &[1],
        &[],
        "only conversions are documents",
    );

    let jsonl = lines();
    folder.add("good.jsonl", jsonl.concat(), 5, EVERY, &[], "a line a document");
    folder.add("good.jsonl.gz", gz(&jsonl.concat()), 5, EVERY, &[], "the same, gzip");
    let frames: Vec<u8> = jsonl.iter().flat_map(|l| zst(l)).collect();
    folder.add("good.jsonl.zst", frames, 5, EVERY, &[], "a frame a line");
    let mut loose = b"\xef\xbb\xbf\r\n \n".to_vec();
    loose.extend(replace_all(&jsonl.concat(), "\n", "\r\n\r\n"));
    loose.truncate(loose.len() - 4);
    folder.add("good-loose.ndjson", loose, 5, EVERY, &[], "mark, blank lines, CRLF, no line end at the end");
    let put_together = replace_all(&jsonl.concat(), "}\n", "}").into_iter().chain(*b"\n\xef\xbb\xbf\n");
    folder.add(
        "good-one-line.jsonl",
        put_together.collect(),
        5,
        EVERY,
        &[],
        "several objects on a line, and a mark",
    );
    let numbers = replace_all(&jsonl.concat(), "{", "{\"score\": NaN, \"range\": [-Infinity, Infinity], ");
    folder.add("good-nan.jsonl", numbers, 5, EVERY, &[], "numbers that JSON has not, as Python writes them");
    let text = String::from_utf8(jsonl.concat()).expect("UTF-8");
    let units = std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes);
    folder.add("good-utf-16.jsonl", units.collect(), 5, EVERY, &[], "UTF-16, as PowerShell writes it");

    let csv = rows(b',');
    folder.add("good.csv", csv.concat(), 5, EVERY, &[], "a record a document, quoted where it must be");
    folder.add("good.csv.gz", members(&csv).concat(), 5, EVERY, &[], "a member a record");
    folder.add("good.tsv.zst", zst(&rows(b'\t').concat()), 5, EVERY, &[], "tabs between values");
    let mut loose = b"\xef\xbb\xbf\n\r\n".to_vec();
    loose.extend(rows(b';').join(&b"\r\n\r\n"[..]));
    loose.truncate(loose.len() - 1);
    folder.add(
        "good-loose.csv",
        loose,
        5,
        EVERY,
        &[],
        "mark, semicolons, blank lines, no line end at the end",
    );
    folder.add("good-header-alone.csv", csv[0].clone(), 0, &[], &[], "a table of no documents");
    folder.add("good-empty.csv", vec![], 0, &[], &[], "no byte, which is not corrupt");
}

/// The header of a table, and its records; all values of the second are quoted.
fn rows(delimiter: u8) -> Vec<Vec<u8>> {
    let quoted = |style| {
        move |row: [&str; 3]| {
            let mut writer =
                csv::WriterBuilder::new().delimiter(delimiter).quote_style(style).from_writer(Vec::new());
            writer.write_record(row).expect("memory");
            writer.into_inner().expect("memory")
        }
    };
    let mut rows = vec![quoted(csv::QuoteStyle::Necessary)(["id", "text", "source"])];
    for (at, text) in TEXTS.iter().enumerate() {
        let style = if at == 1 { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
        rows.push(quoted(style)([&at.to_string(), text, "of \"quotes\""]));
    }
    rows
}

fn replace_all(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(bytes.to_vec()).expect("text").replace(from, to).into_bytes()
}

fn bad_records(folder: &mut Folder) {
    let right = TEXTS[2].len();
    let length = |n: &str| with_length(2, n);
    let all_lengths = [
        ("length-too-small", (right - 5).to_string(), "malformed"),
        ("length-too-large", (right + 5).to_string(), "malformed"),
        ("length-far-too-large", (right + 900).to_string(), "malformed"),
        ("length-not-a-number", "many".into(), "malformed"),
        ("length-with-sign", format!("+{right}"), "malformed"),
        ("length-empty", String::new(), "malformed"),
        ("length-huge", "99999999999".into(), "too-large"),
        ("length-above-64-bits", "99999999999999999999999999".into(), "too-large"),
    ];
    for (name, written, kind) in all_lengths {
        let note = format!("Content-Length {written:?} instead of {right}");
        folder.with_piece(name, length(&written), WITHOUT_2, kind, &note);
    }
    let missing = replace(&good(2), &format!("Content-Length: {right}\r\n"), b"");
    folder.with_piece("length-missing", missing, WITHOUT_2, "malformed", "no Content-Length");
    let typeless = replace(&good(2), "WARC-Type: conversion\r\n", b"");
    folder.with_piece("type-missing", typeless, WITHOUT_2, "malformed", "no WARC-Type");
    let no_colon = replace(&good(2), "Content-Type: text/plain", b"Content-Type text/plain");
    folder.with_piece(
        "header-without-colon",
        no_colon,
        EVERY,
        "",
        "a header line without a colon says nothing",
    );
    let header = replace(&good(2), "\r\n\r\n", b"");
    let header = header[..memchr::memmem::find(&header, TEXTS[2].as_bytes()).expect("text")].to_vec();
    let header = [header, b"\r\n".to_vec()].concat();
    folder.with_piece("header-cut", header, WITHOUT_2, "malformed", "the next record starts in the header");
    let long =
        replace(&good(2), "Content-Type", format!("X: {}\r\nContent-Type", "x".repeat(40_000)).as_bytes());
    let mut pieces = all();
    pieces[3] = long;
    let packed = members(&pieces);
    let corruption = [at("malformed", 3, offset(&packed, 3), 0)];
    folder.add(
        "header-too-long.warc.wet.gz",
        packed.concat(),
        6,
        WITHOUT_2,
        &corruption,
        "a header of 40,000 bytes",
    );

    let latin: Vec<u8> = b"caf\xe9 ferm\xe9 le lundi\n".to_vec();
    let mut wrong = header_of(2, latin.len());
    wrong.extend(latin);
    wrong.extend(b"\r\n\r\n");
    let repaired = "caf\u{fffd} ferm\u{fffd} le lundi\n".len() as u64;
    folder.with_piece("charset-latin-1", wrong, WITHOUT_2, "", "text in ISO 8859-1, which is repaired");
    folder.one_more(2, repaired);
    let folded = replace(&good(2), "WARC-Type: conversion", b"WARC-Type:\r\n conversion");
    let folded = replace(&folded, "WARC-Target-URI: ", b"WARC-Target-URI:\r\n\t");
    folder.with_piece("header-folded", folded, EVERY, "", "header lines that go on after a blank");
    let untyped = replace(&good(2), "WARC-Type: conversion", b"WARC-Type:");
    folder.with_piece("type-empty", untyped, WITHOUT_2, "malformed", "a WARC-Type that says nothing");
    let uri = replace(&good(2), "https://pier.example/2", b"https://pier.example/caf\xe9");
    folder.with_piece(
        "charset-of-uri",
        uri,
        EVERY,
        "bad-name",
        "an address in ISO 8859-1; the document is used",
    );
    let mut nul = good(2);
    let text = nul.len() - 4 - right;
    nul[text..text + 3].fill(0);
    folder.with_piece("nul-in-text", nul, EVERY, "", "NUL is a character like any other");
    let quoting = replace(&good(2), TEXTS[2], b"");
    let text = "As the standard says:\nWARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 3\r\n\r\n";
    let quoting = replace(
        &quoting,
        &format!("Content-Length: {right}"),
        format!("Content-Length: {}", text.len()).as_bytes(),
    );
    let quoting = [&quoting[..quoting.len() - 4], text.as_bytes(), b"\r\n\r\n"].concat();
    let mut pieces = all();
    pieces[3] = quoting;
    let entry = Entry {
        file: "good-quotes-a-record.warc.wet".into(),
        records: 6,
        documents: 5,
        text_bytes: text_bytes(WITHOUT_2) + text.len() as u64,
        corruption: String::new(),
        note: "a text that quotes a record is no record".into(),
    };
    folder.files.push((entry, pieces.concat()));

    let pieces = all();
    let whole = pieces.concat();
    let last = offset(&pieces, 4);
    let cut = |n: usize| whole[..last as usize + n].to_vec();
    let header = pieces[4].len() - 4 - TEXTS[3].len();
    for (name, n) in [("text", header + 20), ("header", 60), ("version", 6)] {
        let corruption = [at("truncated", 4, last, 0)];
        let note = format!("the file ends in the {name} of a record");
        folder.add(&format!("truncated-in-{name}.warc.wet"), cut(n), 5, &[0, 1, 2], &corruption, &note);
    }
    let junk = b"<html>not a record</html>\n".to_vec();
    let first = [junk.clone(), whole.clone()].concat();
    folder.add(
        "junk-first.warc.wet",
        first,
        6,
        EVERY,
        &[at("malformed", None, 0, 0)],
        "something else first",
    );
    let mut pieces = all();
    pieces.insert(3, junk);
    let corruption = [at("malformed", None, offset(&pieces, 3), 0)];
    folder.add(
        "junk-between.warc.wet",
        pieces.concat(),
        6,
        EVERY,
        &corruption,
        "something else between records",
    );
    folder.add("empty.warc.wet", vec![], 0, &[], &[at("unknown-format", None, 0, 0)], "no byte");
    let corruption = [at("unknown-format", None, 0, 0)];
    folder.add("blank.warc.wet", vec![0; 5_001], 0, &[], &corruption, "zeros in place of records");
    folder.add(
        "blank.jsonl",
        b" \r\n\n".to_vec(),
        0,
        &[],
        &[],
        "blank lines alone: no documents, and not corrupt",
    );
    folder.add("blank-zeros.jsonl", vec![0; 5_001], 0, &[], &corruption, "zeros in place of lines");
    folder.add("empty.jsonl", vec![], 0, &[], &[], "no line, which is not corrupt");
    folder.add(
        "empty.jsonl.gz",
        vec![],
        0,
        &[],
        &[at("unknown-format", None, 0, 0)],
        "no byte where gzip has some",
    );
    folder.add(
        "empty-member.warc.wet.gz",
        gz(b""),
        0,
        &[],
        &[],
        "a member of no bytes, which is not corrupt",
    );
    let corruption = [at("unknown-format", None, 0, 0)];
    folder.add("unknown.txt", b"Just words.\n".to_vec(), 0, &[], &corruption, "neither WET nor JSONL");
}

fn header_of(i: usize, length: usize) -> Vec<u8> {
    header("conversion", &format!("https://pier.example/{i}"), &length.to_string()).into_bytes()
}

fn bad_members(folder: &mut Folder) {
    let packed = members(&all());
    let hurt = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packed = packed.clone();
        change(&mut packed[3]);
        packed.concat()
    };
    let here = offset(&packed, 3);
    let one = |kind: &str| [at(kind, 3, here, 0)];
    let mut add = |name: &str, bytes, kind: &str, note: &str| {
        folder.add(&format!("{name}.warc.wet.gz"), bytes, 6, WITHOUT_2, &one(kind), note);
    };
    let crc = hurt(&|m| {
        let n = m.len();
        m[n - 8] ^= 0x40;
    });
    add("member-crc", crc, "checksum", "a wrong CRC-32");
    let size = hurt(&|m| {
        let n = m.len();
        m[n - 2] ^= 0x40;
    });
    add("member-size", size, "checksum", "a wrong ISIZE");
    let body = hurt(&|m| {
        let n = m.len() / 2;
        m[n..n + 8].fill(0xff);
    });
    add("member-body", body, "undecodable", "eight bytes overwritten in the middle of a member");
    let lost = hurt(&|m| {
        let n = m.len() / 2;
        m.drain(n..n + 8);
    });
    add("member-bytes-lost", lost, "undecodable", "eight bytes lost in the middle of a member");
    let flags = hurt(&|m| m[3] = 0xff);
    add("member-flags", flags, "undecodable", "reserved flags set in a member's header");
    let trailer = hurt(&|m| m.truncate(m.len() - 8));
    add("member-without-trailer", trailer, "checksum", "no CRC-32 and size behind a member");
    let half = hurt(&|m| m.truncate(m.len() / 2));
    add("member-cut", half, "undecodable", "half a member, then the next one");

    let magic = hurt(&|m| m[0] = 0);
    // Without its magic a member is bytes of no kind, and nobody can tell that it held a record.
    let corruption = [at("malformed", None, here + 1, 0)];
    folder.add(
        "member-magic.warc.wet.gz",
        magic,
        5,
        WITHOUT_2,
        &corruption,
        "the first byte of a member is zero",
    );
    let mut pieces = packed.clone();
    pieces.insert(3, b"\x01junk between members\x1f\x8b\x08".to_vec());
    let corruption = [at("malformed", None, here, 0)];
    folder.add(
        "junk-between.warc.wet.gz",
        pieces.concat(),
        6,
        EVERY,
        &corruption,
        "something else between members",
    );
    let mut pieces = packed.clone();
    pieces.push(b"</html>".to_vec());
    let corruption = [at("malformed", None, offset(&pieces, 6), 0)];
    folder.add(
        "junk-last.warc.wet.gz",
        pieces.concat(),
        6,
        EVERY,
        &corruption,
        "something else behind the last member",
    );
    let start = offset(&packed, 4) as usize;
    let cut = packed.concat()[..start + packed[4].len() - 3].to_vec();
    let corruption = [at("truncated", None, start as u64, 0)];
    let note = "the file ends in a checksum; the record before it is whole";
    folder.add("truncated-in-trailer.warc.wet.gz", cut, 5, &[0, 1, 2, 3], &corruption, note);
    for (name, n) in [("body", packed[4].len() / 2), ("magic", 2)] {
        let cut = packed.concat()[..start + n].to_vec();
        let note = format!("the file ends in the {name} of a member");
        let corruption = [at("truncated", 4, start as u64, 0)];
        folder.add(&format!("truncated-in-{name}.warc.wet.gz"), cut, 5, &[0, 1, 2], &corruption, &note);
    }
    let mut two = packed.clone();
    two[0][3] = 0xff;
    let n = two[3].len();
    two[3][n - 8] ^= 1;
    let corruption = [at("undecodable", 0, 0, 0), at("checksum", 3, here, 0)];
    folder.add(
        "two-members.warc.wet.gz",
        two.concat(),
        6,
        WITHOUT_2,
        &corruption,
        "the first and a later member",
    );

    let whole = gz(&all().concat());
    let mut wrong = whole.clone();
    let n = wrong.len();
    wrong[n - 6] ^= 1;
    let corruption = [at("checksum", None, 0, 0)];
    folder.add(
        "one-member-crc.warc.wet.gz",
        wrong,
        6,
        EVERY,
        &corruption,
        "several records in a member of wrong CRC-32",
    );
    // Stored, not packed, so that it is plain how far the good bytes go.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(&all().concat()).expect("memory");
    let stored = encoder.finish().expect("memory");
    let cut = stored[..10 + 5 + offset(&all(), 3) as usize + 50].to_vec();
    let corruption = [at("truncated", 3, 0, 0)];
    folder.add(
        "one-member-cut.warc.wet.gz",
        cut,
        4,
        &[0, 1],
        &corruption,
        "the file ends in its only member",
    );

    folder.add("plain-named.warc.wet.gz", all().concat(), 6, EVERY, &[], "named .gz, but plain");
    folder.add("gzip-named.warc.wet", packed.concat(), 6, EVERY, &[], "not named .gz, but gzip");
    let nested = gz(&gz(&all().concat()));
    let corruption = [at("unknown-format", None, 0, 0)];
    folder.add("nested.warc.wet.gz", nested, 0, &[], &corruption, "gzip in gzip");
    let noise: Vec<u8> = (0..500u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 1).collect();
    folder.add("noise.warc.wet.gz", noise, 0, &[], &[at("malformed", None, 0, 0)], "nothing of gzip in it");
}

fn bad_lines(folder: &mut Folder) {
    let bad: [(&str, &[u8], &str); 5] = [
        ("not-json", b"{\"text\": \"no end", "malformed"),
        ("not-an-object", b"[\"text\"]", "malformed"),
        ("no-text", b"{\"id\":1}", "no-text"),
        ("text-number", b"{\"text\":12}", "no-text"),
        ("zeros", b"\0\0{\"text\":\"b\"}\0", "malformed"),
    ];
    for (name, text, kind) in bad {
        let mut pieces = lines();
        pieces[2] = [text, b"\n"].concat();
        let corruption = [at(kind, 2, offset(&pieces, 2), 0)];
        let note = "the third line is corrupt";
        folder.add(&format!("{name}.jsonl"), pieces.concat(), 5, WITHOUT_2, &corruption, note);
    }
    let odd: [(&str, &[u8], Option<&str>, &str); 4] = [
        (
            "text-null",
            b"{\"text\":null}",
            None,
            "the third text is null, which is no document and not corrupt",
        ),
        (
            "text-latin-1",
            b"{\"text\":\"caf\xe9\"}",
            Some("caf\u{fffd}"),
            "the third text is ISO 8859-1 and repaired",
        ),
        (
            "text-surrogate",
            br#"{"text":"half \ud83d"}"#,
            Some("half \u{fffd}"),
            "half a character, which is repaired",
        ),
        (
            "id-out-of-range",
            br#"{"id":1e999999,"text":"a"}"#,
            Some("a"),
            "an id that is no number for a machine",
        ),
    ];
    for (name, line, text, note) in odd {
        let mut pieces = lines();
        pieces[2] = [line, b"\n"].concat();
        let file = format!("{name}.jsonl");
        match text {
            Some(text) => folder.add_odd(&file, pieces.concat(), 5, WITHOUT_2, text.len() as u64, note),
            None => folder.add(&file, pieces.concat(), 5, WITHOUT_2, &[], note),
        }
    }
    let pieces = lines();
    let whole = pieces.concat();
    let cut = whole[..offset(&pieces, 3) as usize + 30].to_vec();
    let corruption = [at("malformed", 3, offset(&pieces, 3), 0)];
    folder.add("truncated.jsonl", cut, 4, &[0, 1, 2], &corruption, "the file ends in a line");
    let packed = gz(&whole);
    let frames: Vec<Vec<u8>> = pieces.iter().map(|l| zst(l)).collect();
    let mut hurt = frames.clone();
    let n = hurt[2].len();
    hurt[2][n - 1] ^= 1;
    // Zstandard checks a frame only at its end: the line of a frame of wrong checksum is held back with it.
    let corruption = [at("undecodable", 2, offset(&frames, 2), 0)];
    folder.add(
        "frame-checksum.jsonl.zst",
        hurt.concat(),
        5,
        WITHOUT_2,
        &corruption,
        "a wrong checksum of a frame",
    );
    let cut = frames.concat()[..offset(&frames, 3) as usize + 20].to_vec();
    let corruption = [at("truncated", 3, offset(&frames, 3), 0)];
    folder.add("truncated.jsonl.zst", cut, 4, &[0, 1, 2], &corruption, "the file ends in a frame");
    let mut junk = frames.clone();
    junk.insert(1, b"junk".to_vec());
    let corruption = [at("malformed", None, offset(&junk, 1), 0)];
    folder.add(
        "junk-between.jsonl.zst",
        junk.concat(),
        5,
        EVERY,
        &corruption,
        "something else between frames",
    );
    let cut = packed[..packed.len() - 4].to_vec();
    let corruption = [at("truncated", None, 0, 0)];
    folder.add(
        "truncated-in-trailer.jsonl.gz",
        cut,
        5,
        EVERY,
        &corruption,
        "all lines are whole, the checksum is not",
    );
    folder.add("plain-named.jsonl.zst", whole, 5, EVERY, &[], "named .zst, but plain");
}

fn bad_rows(folder: &mut Folder) {
    let rows = rows(b',');
    let bad: [(&str, &[u8]); 2] = [("too-few-values", b"2,a text"), ("too-many-values", b"2,a text,b,c")];
    for (name, row) in bad {
        let mut pieces = rows.clone();
        pieces[3] = [row, b"\n"].concat();
        let corruption = [at("malformed", 2, offset(&pieces, 3), 0)];
        folder.add(
            &format!("{name}.csv"),
            pieces.concat(),
            5,
            WITHOUT_2,
            &corruption,
            "the third record is corrupt",
        );
    }
    let odd: [(&str, &[u8], &str, &str); 2] = [
        ("text-latin-1", b"2,caf\xe9,\n", "caf\u{fffd}", "the third text is ISO 8859-1 and repaired"),
        ("quotes-within", b"2,a \"b\",\n", "a \"b\"", "quotes in a value that does not begin with one"),
    ];
    for (name, row, text, note) in odd {
        let mut pieces = rows.clone();
        pieces[3] = row.to_vec();
        folder.add_odd(&format!("{name}.csv"), pieces.concat(), 5, WITHOUT_2, text.len() as u64, note);
    }
    let mut pieces = rows.clone();
    pieces[3] = b"2,\"no end\n".to_vec();
    pieces.truncate(4);
    pieces.push(b"3,a text of one line,\n".to_vec());
    let corruption = [at("malformed", 2, offset(&pieces, 3), 0)];
    let text = "a text of one line".len() as u64;
    let note = "a quote is not closed, and the next line is read";
    folder.add("open-quote.csv", pieces.concat(), 4, &[0, 1], &corruption, note);
    folder.one_more(1, text);
    let mut pieces = rows;
    pieces[0] = b"id,body,source\n".to_vec();
    pieces.truncate(2);
    folder.add("no-text.csv", pieces.concat(), 1, &[], &[at("no-text", 0, 15, 0)], "no column of that name");
}

/// All specimens, by name.
fn made() -> Folder {
    let mut made = Folder::default();
    good_files(&mut made);
    bad_records(&mut made);
    bad_members(&mut made);
    bad_lines(&mut made);
    bad_rows(&mut made);
    crate::parquet::specimens(&mut made);
    crate::arrow::specimens(&mut made);
    made.files.sort_by(|a, b| a.0.file.cmp(&b.0.file));
    made
}

#[test]
fn the_index_is_what_this_file_says() {
    // Places depend on the compressor; everything else does not.
    let essence = |entry: Entry| {
        let pieces = entry.corruption.split(' ').filter_map(|piece| piece.split('@').next());
        let kinds: Vec<String> = pieces.map(str::to_owned).collect();
        (entry.file, entry.records, entry.documents, entry.text_bytes, kinds, entry.note)
    };
    let mut listed: Vec<_> = index().into_iter().map(essence).collect();
    listed.sort();
    assert_eq!(made().files.into_iter().map(|(entry, _)| essence(entry)).collect::<Vec<_>>(), listed);
}

#[test]
#[ignore = "writes the specimens anew; the_index_is_what_this_file_says runs what it runs"]
fn write_specimens() {
    let made = made();
    let folder = folder();
    std::fs::create_dir_all(&folder).expect("the folder");
    let mut index = csv::Writer::from_path(folder.join("index.csv")).expect("the index");
    for (entry, bytes) in made.files {
        std::fs::write(folder.join(&entry.file), bytes).expect("a specimen");
        index.serialize(entry).expect("a row");
    }
    index.flush().expect("the index");
}
