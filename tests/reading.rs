//! The reader against a plain one, on good files in all packings, and against itself on corrupt ones.

use super::place::gz;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use simflip::corpus::{
    Corruption, DiscoverOptions, Format, Input, KeptFiles, KeptJob, Place, ReadOptions, discover, fetch,
    read, write_kept,
};
use simflip::document::DocId;

/// What a record is made of.
#[derive(Clone, Debug)]
struct Record {
    conversion: bool,
    url: String,
    language: Option<String>,
    text: String,
}

fn record() -> impl Strategy<Value = Record> {
    let text = prop_oneof![
        "(\\PC|\n){0,80}",
        "(WARC/1\\.0|\r\n|\n|\n\n|a){0,20}",
        ("\\PC{1,9}", 0..3000usize).prop_map(|(piece, n)| piece.repeat(n)),
    ];
    (prop::bool::weighted(0.8), "[a-z:/.?&=-]{0,40}", prop::option::of("[a-z]{3}"), text)
        .prop_map(|(conversion, url, language, text)| Record { conversion, url, language, text })
}

impl Record {
    fn warc(&self, line_end: &str) -> Vec<u8> {
        let kind = if self.conversion { "conversion" } else { "metadata" };
        let language = self.language.as_ref().map(|l| format!("WARC-Identified-Content-Language: {l}\n"));
        let header = format!(
            "WARC/1.0\nWARC-Type: {kind}\nWARC-Target-URI: {}\nWARC-Record-ID: <urn:uuid:{}>\n{}Content-Length: {}\n\n",
            self.url,
            self.text.len(),
            language.unwrap_or_default(),
            self.text.len()
        );
        format!("{}{}{line_end}{line_end}", header.replace('\n', line_end), self.text).into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        let id = format!("<urn:uuid:{}>", self.text.len());
        serde_json::json!({"id": id, "url": self.url, "language": self.language, "text": self.text})
            .to_string()
            .into_bytes()
    }
}

/// How records are put into a file.
#[derive(Clone, Copy, Debug)]
enum Packing {
    Plain,
    Members,
    /// Members of so many decoded bytes, wherever records end.
    Chunks(usize),
    Frames(usize),
}

fn packing() -> impl Strategy<Value = Packing> {
    prop_oneof![
        Just(Packing::Plain),
        Just(Packing::Members),
        (1..5000usize).prop_map(Packing::Chunks),
        Just(Packing::Chunks(usize::MAX)),
        (1..5000usize).prop_map(Packing::Frames),
        Just(Packing::Frames(usize::MAX)),
    ]
}

fn pack(records: &[Vec<u8>], packing: Packing) -> (Vec<u8>, &'static str) {
    match packing {
        Packing::Plain => (records.concat(), ""),
        Packing::Members => (records.iter().flat_map(|r| gz(r)).collect(), ".gz"),
        Packing::Chunks(n) => (records.concat().chunks(n).flat_map(gz).collect(), ".gz"),
        Packing::Frames(n) => {
            let frame = |chunk| zstd::encode_all(chunk, 1).expect("memory");
            (records.concat().chunks(n).flat_map(frame).collect(), ".zst")
        }
    }
}

/// A document, owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owned {
    id: DocId,
    record_id: Option<String>,
    url: Option<String>,
    language: Option<String>,
    text: String,
    place: Place,
}

fn own(d: simflip::corpus::Document<'_>) -> Owned {
    Owned {
        id: d.id,
        record_id: d.record_id.map(Into::into),
        url: d.url.map(Into::into),
        language: d.language.map(Into::into),
        text: d.text.into(),
        place: d.place,
    }
}

/// Everything that may not depend on threads and blocks.
fn read_all(
    inputs: &[Input],
    threads: usize,
    block_bytes: usize,
) -> (Vec<Owned>, Vec<Corruption>, Vec<[u64; 6]>) {
    let options = ReadOptions { threads, block_bytes, ..ReadOptions::default() };
    let reading = read(inputs, &options, Vec::new, |all, d| all.push(own(d)), &|_| {});
    let mut documents = reading.workers.concat();
    documents.sort();
    let counts = reading
        .files
        .iter()
        .map(|f| [f.records, f.documents, f.text_bytes, f.decoded_bytes, f.stored_bytes, f.corrupt]);
    let counts = counts.collect();
    let corruption = reading.files.into_iter().flat_map(|f| f.corruption).collect();
    (documents, corruption, counts)
}

/// Id, address, language and text.
type Plain = (Option<String>, Option<String>, Option<String>, String);

/// The plain reader: the whole file decoded at once, then cut by what the lengths say. For good files only.
fn read_plainly(path: &Path, format: Format) -> Vec<Plain> {
    let stored = std::fs::read(path).expect("the file");
    let mut bytes = Vec::new();
    match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => {
            flate2::read::MultiGzDecoder::new(&stored[..]).read_to_end(&mut bytes).expect("good gzip");
        }
        Some("zst") => bytes = zstd::decode_all(&stored[..]).expect("good frames"),
        _ => bytes = stored,
    }
    let mut documents = Vec::new();
    let mut rest = &bytes[..];
    if format == Format::Jsonl {
        for line in rest.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
            let value: serde_json::Value = serde_json::from_slice(line).expect("JSON");
            let field = |name: &str| value[name].as_str().map(str::to_owned);
            documents.push((field("id"), field("url"), field("language"), field("text").expect("a text")));
        }
        return documents;
    }
    while !rest.is_empty() {
        let (mut kind, mut url, mut id, mut language, mut length) = (None, None, None, None, None);
        loop {
            let end = rest.iter().position(|&b| b == b'\n').expect("a line end");
            let line = std::str::from_utf8(&rest[..end]).expect("UTF-8").trim_end_matches('\r').to_owned();
            rest = &rest[end + 1..];
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ").or(line.split_once(':')) {
                let slot = match name {
                    "WARC-Type" => &mut kind,
                    "WARC-Target-URI" => &mut url,
                    "WARC-Record-ID" => &mut id,
                    "WARC-Identified-Content-Language" => &mut language,
                    "Content-Length" => &mut length,
                    _ => continue,
                };
                *slot = Some(value.to_owned());
            }
        }
        let length: usize = length.expect("a length").parse().expect("a number");
        let text = String::from_utf8(rest[..length].to_vec()).expect("UTF-8");
        rest = &rest[length..];
        rest = rest.strip_prefix(b"\r\n\r\n").or(rest.strip_prefix(b"\n\n")).expect("two line ends");
        if kind.as_deref() == Some("conversion") {
            documents.push((id, url, language, text));
        }
    }
    documents
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// Few cases, since each one writes files; `PROPTEST_CASES` asks for more.
fn cases() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(48), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn good_files_read_as_by_the_plain_reader(
        files in prop::collection::vec(
            (prop::collection::vec(record(), 1..20), packing(), any::<bool>(), any::<bool>()),
            1..4,
        ),
        block_bytes in 1..20_000usize,
        salt: u32,
        size in prop_oneof![1..300u64, 300..20_000u64],
        torn in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut paths = Vec::new();
        for (i, (records, packing, crlf, wet)) in files.iter().enumerate() {
            let records: Vec<Vec<u8>> = records
                .iter()
                .map(|r| if *wet {
                    // In a file of LF, an LF pair inside a text may end a record early for a plain reader
                    // too, but the length decides for both.
                    r.warc(if *crlf { "\r\n" } else { "\n" })
                } else {
                    [r.json(), b"\n".to_vec()].concat()
                })
                .collect();
            let (bytes, ending) = pack(&records, *packing);
            let kind = if *wet { "warc.wet" } else { "jsonl" };
            paths.push(write(dir.path(), &format!("{i}.{kind}{ending}"), &bytes));
        }
        let inputs = discover(&paths, &DiscoverOptions::default()).expect("inputs");
        let (documents, corruption, counts) = read_all(&inputs, 1, 1 << 20);
        prop_assert_eq!(&corruption, &[]);
        let mut expected = Vec::new();
        for (shard, input) in inputs.iter().enumerate() {
            for (row, (record_id, url, language, text)) in
                read_plainly(&input.path, input.format).into_iter().enumerate()
            {
                let place = Place::default();
                let id = DocId::new(shard as u32, row as u32);
                expected.push(Owned { id, record_id, url, language, text, place });
            }
        }
        let placeless: Vec<Owned> =
            documents.iter().cloned().map(|d| Owned { place: Place::default(), ..d }).collect();
        prop_assert_eq!(placeless, expected);

        for threads in [1, 3] {
            prop_assert_eq!(read_all(&inputs, threads, block_bytes), (documents.clone(), vec![], counts.clone()));
        }

        let options = ReadOptions { threads: 2, block_bytes, ..ReadOptions::default() };
        let keep = |id: DocId| simflip::hash::fmix64(u64::from(id.row ^ salt)).is_multiple_of(2);
        let chosen: Vec<&Owned> = documents.iter().filter(|d| keep(d.id)).collect();
        let wanted: Vec<(DocId, Place)> = chosen.iter().map(|d| (d.id, d.place)).collect();
        let mut fetched = Vec::new();
        fetch(&inputs, &options, &wanted, |d| fetched.push(own(d))).expect("all there");
        prop_assert_eq!(fetched.iter().collect::<Vec<_>>(), chosen.clone());

        let out = dir.path().join("kept");
        let job = KeptJob { files: KeptFiles::Each, inputs: &inputs, options: &options, kept: &wanted, is_same: &|_, _| true };
        let each = job.write(&out).expect("writes");
        prop_assert_eq!(each.files.len(), inputs.len());
        for file in each.files {
            let input = &inputs[file.shards[0] as usize];
            let one = discover(std::slice::from_ref(&file.path), &DiscoverOptions::default()).expect("found");
            if !(file.format == Format::Jsonl && file.documents == 0) {
                prop_assert_eq!(one[0].compression, input.compression);
            }
            let back = read_plainly(&file.path, file.format);
            let expected: Vec<_> = chosen
                .iter()
                .filter(|d| d.id.shard == file.shards[0])
                .map(|d| (d.record_id.clone(), d.url.clone(), d.language.clone(), d.text.clone()))
                .collect();
            prop_assert_eq!(back, expected);
        }
        for file in write_kept(&inputs, &options, &wanted, &|_, _| true, &out).expect("writes").files {
            let back = read_plainly(&file.path, file.format);
            let expected: Vec<_> = chosen
                .iter()
                .filter(|d| inputs[d.id.shard as usize].format == file.format)
                .map(|d| (d.record_id.clone(), d.url.clone(), d.language.clone(), d.text.clone()))
                .collect();
            prop_assert_eq!(back, expected);
        }

        // Of a size; the same if a document turns out not to be where it was, which takes back what was written.
        let mut wanted = wanted;
        let torn = torn.filter(|_| !wanted.is_empty()).map(|at| at.index(wanted.len()));
        if let Some(at) = torn {
            wanted[at].1.offset += 1 << 40;
        }
        let mut files = Vec::new();
        for threads in [1, 3] {
            let (options, out) = (ReadOptions { threads, ..options.clone() }, dir.path().join(threads.to_string()));
            let job = KeptJob { files: KeptFiles::OfSize(size), inputs: &inputs, options: &options, kept: &wanted, is_same: &|_, _| true };
            let kept = job.write(&out).expect("writes");
            prop_assert_eq!(kept.lost.len(), usize::from(torn.is_some()));
            prop_assert_eq!(std::fs::read_dir(&out).expect("a folder").count(), kept.files.len());
            let reported = kept.files.into_iter().map(|file| {
                let name = file.path.file_name().expect("a name").to_owned();
                (name, std::fs::read(&file.path).expect("bytes"), file.documents, file.shards)
            });
            files.push(reported.collect::<Vec<_>>());
        }
        prop_assert_eq!(&files[0], &files[1]);
        for format in [Format::Wet, Format::Jsonl] {
            let (ending, mut back) = (if format == Format::Wet { ".warc.wet" } else { ".jsonl" }, Vec::new());
            let (mut of_format, mut number) = (files[0].clone(), 0);
            of_format.retain(|(name, ..)| name.to_string_lossy().contains(ending));
            let several = of_format.len() > 1;
            for (name, bytes, documents, shards) in of_format {
                number += 1;
                let path = dir.path().join("1").join(&name);
                let stem = format!("kept-{number:05}{ending}");
                prop_assert!(name.to_string_lossy().starts_with(&stem));
                prop_assert!(bytes.len() as u64 <= size || documents <= 1, "{} {}", bytes.len(), documents);
                prop_assert!(documents > 0 || !several);
                let one = discover(std::slice::from_ref(&path), &DiscoverOptions::default()).expect("found");
                let (read, corruption, _) = read_all(&one, 1, block_bytes);
                prop_assert_eq!((read.len() as u64, corruption), (documents, vec![]));
                back.extend(read_plainly(&path, format).into_iter().map(|document| (shards.clone(), document)));
            }
            let mut expected = chosen
                .iter()
                .enumerate()
                .filter(|(at, d)| inputs[d.id.shard as usize].format == format && torn != Some(*at))
                .map(|(_, d)| (d.id.shard, (d.record_id.clone(), d.url.clone(), d.language.clone(), d.text.clone())));
            for (shards, document) in back {
                let (shard, expected) = expected.next().expect("a document more");
                prop_assert!(shards.contains(&shard));
                prop_assert_eq!(document, expected);
            }
            prop_assert!(expected.next().is_none());
        }
    }

    #[test]
    fn corrupt_files_read_the_same_in_any_way(
        records in prop::collection::vec(record(), 1..12),
        packing in packing(),
        wet: bool,
        hurts in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>(), 1..40usize), 0..4),
        block_bytes in 1..5000usize,
    ) {
        let records: Vec<Vec<u8>> = records
            .iter()
            .map(|r| if wet { r.warc("\r\n") } else { [r.json(), b"\n".to_vec()].concat() })
            .collect();
        let (mut bytes, ending) = pack(&records, packing);
        for (index, sort, byte, n) in hurts {
            let at = index.index(bytes.len().max(1)).min(bytes.len());
            let end = (at + n).min(bytes.len());
            match sort {
                0 if at < bytes.len() => bytes[at] ^= byte,
                1 => drop(bytes.drain(at..end)),
                2 => drop(bytes.splice(at..at, std::iter::repeat_n(byte, n))),
                _ => bytes.truncate(at),
            }
        }
        let dir = tempfile::tempdir().expect("temp dir");
        let kind = if wet { "warc.wet" } else { "jsonl" };
        let path = write(dir.path(), &format!("hurt.{kind}{ending}"), &bytes);
        let format = Some(if wet { Format::Wet } else { Format::Jsonl });
        let inputs = discover(&[path], &DiscoverOptions { format, ..DiscoverOptions::default() }).expect("inputs");
        let first = read_all(&inputs, 1, 1 << 20);
        prop_assert_eq!(first.2[0][4], bytes.len() as u64, "every stored byte is used up");
        for threads in [1, 3] {
            prop_assert_eq!(&read_all(&inputs, threads, block_bytes), &first);
        }
        let wanted: Vec<(DocId, Place)> = first.0.iter().map(|d| (d.id, d.place)).collect();
        let mut fetched = Vec::new();
        let options = ReadOptions { block_bytes, ..ReadOptions::default() };
        fetch(&inputs, &options, &wanted, |d| fetched.push(own(d))).expect("all there");
        prop_assert_eq!(fetched, first.0);
    }
}

#[test]
fn one_corrupt_member_costs_one_record() {
    let records: Vec<Record> = (0..40)
        .map(|i| Record {
            conversion: true,
            url: format!("https://quay.example/{i}"),
            language: None,
            text: format!("Berth {i} is free until the tide turns.\n").repeat(i % 7 + 1),
        })
        .collect();
    let members: Vec<Vec<u8>> = records.iter().map(|r| gz(&r.warc("\r\n"))).collect();
    let dir = tempfile::tempdir().expect("temp dir");
    for hurt in [0, 17, 39] {
        for at in [3, 12, 40, members[hurt].len() / 2, members[hurt].len() - 1] {
            let mut members = members.clone();
            members[hurt][at] ^= 0xff;
            let path = write(dir.path(), "x.warc.wet.gz", &members.concat());
            let inputs = discover(&[path], &DiscoverOptions::default()).expect("inputs");
            let (documents, corruption, _) = read_all(&inputs, 2, 500);
            let expected: Vec<&String> =
                records.iter().enumerate().filter(|(i, _)| *i != hurt).map(|(_, r)| &r.text).collect();
            assert_eq!(documents.iter().map(|d| &d.text).collect::<Vec<_>>(), expected, "{hurt} {at}");
            assert_eq!(corruption.len(), 1, "{hurt} {at}: {corruption:?}");
            assert_eq!(corruption[0].record, Some(hurt as u64));
            assert_eq!(corruption[0].offset, members[..hurt].iter().map(|m| m.len() as u64).sum::<u64>());
        }
    }
}

#[test]
fn large_members_are_streamed_and_large_texts_are_corrupt() {
    let record = |n: usize, c: char| Record {
        conversion: true,
        url: c.into(),
        language: None,
        text: std::iter::repeat_n(c, n).collect(),
    };
    // Above what is inflated at once, as one record and as many.
    let records: Vec<Vec<u8>> =
        [(9 << 20, 'a'), (5, 'b'), (3 << 20, 'c'), (4 << 20, 'd'), (3 << 20, 'e'), (7, 'f')]
            .iter()
            .map(|&(n, c)| record(n, c).warc("\r\n"))
            .collect();
    let lengths = [9 << 20, 5, 3 << 20, 4 << 20, 3 << 20, 7];
    let dir = tempfile::tempdir().expect("temp dir");
    for packing in
        [Packing::Plain, Packing::Members, Packing::Chunks(usize::MAX), Packing::Frames(usize::MAX)]
    {
        let (mut bytes, ending) = pack(&records, packing);
        let path = write(dir.path(), &format!("x.warc.wet{ending}"), &bytes);
        let inputs = discover(std::slice::from_ref(&path), &DiscoverOptions::default()).expect("inputs");
        let (documents, corruption, _) = read_all(&inputs, 2, 1 << 20);
        assert_eq!(documents.iter().map(|d| d.text.len()).collect::<Vec<_>>(), lengths, "{packing:?}");
        assert_eq!(corruption, []);

        let options = ReadOptions { record_cap: 4 << 20, ..ReadOptions::default() };
        let reading = read(&inputs, &options, Vec::new, |all, d| all.push(d.text.len()), &|_| {});
        assert_eq!(reading.workers.concat().iter().sum::<usize>(), (10 << 20) + 12, "{packing:?}");
        assert_eq!(reading.files[0].corruption[0].kind.to_string(), "too-large");
        assert_eq!(reading.files[0].corrupt, 1);

        // The end is cut off: everything before the last record is there.
        bytes.truncate(bytes.len() - 12);
        std::fs::write(&path, &bytes).expect("a file");
        let (documents, corruption, _) = read_all(&inputs, 2, 1 << 20);
        assert_eq!(corruption.len(), 1, "{packing:?}: {corruption:?}");
        assert_eq!(corruption[0].kind.to_string(), "truncated");
        assert!(documents.len() >= 4, "{packing:?}: {} documents", documents.len());
    }
}

#[test]
fn members_that_stand_in_others_are_none() {
    let stored = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    let record = |i: usize, text: String| Record {
        conversion: true,
        url: format!("https://quay.example/{i}"),
        language: None,
        text,
    };
    // Each record has a whole member for a text, which reads as a record of its own where a thread begins amid it.
    let mut bytes = Vec::new();
    for i in 0..60 {
        let inner = gz(&record(1_000 + i, format!("Berth {i} is somebody else's.\n")).warc("\r\n"));
        let mut outer = record(i, "x".repeat(inner.len())).warc("\r\n");
        let end = outer.len() - 4;
        outer[end - inner.len()..end].copy_from_slice(&inner);
        bytes.extend(stored(&outer));
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let path = write(dir.path(), "nested.warc.wet.gz", &bytes);
    let inputs = discover(&[path], &DiscoverOptions::default()).expect("inputs");
    let first = read_all(&inputs, 1, 1 << 20);
    assert_eq!((first.0.len(), &first.1), (60, &vec![]));
    for threads in [2, 3, 8] {
        for block_bytes in [1, 100, 400, 1_000, 5_000, 20_000] {
            assert_eq!(read_all(&inputs, threads, block_bytes), first, "{threads} {block_bytes}");
        }
    }
}

#[test]
fn a_text_that_ends_with_a_line_is_whole_wherever_the_bytes_behind_it_are_cut() {
    let dir = tempfile::tempdir().expect("temp dir");
    let of = |text: &str| Record { conversion: true, url: String::new(), language: None, text: text.into() };
    let records = [of("\na WARC/1.0\n\nWARC/1.0"), of("a\n\n\n\nWARC/1.0\r\n"), of("b\r\n"), of("c\r\n\r\n")];
    for line_end in ["\r\n", "\n"] {
        let records: Vec<Vec<u8>> = records.iter().map(|r| r.warc(line_end)).collect();
        let whole = records.concat().len();
        for size in (1..200).chain(whole - 9..=whole) {
            for packing in [Packing::Chunks(size), Packing::Frames(size)] {
                let (bytes, ending) = pack(&records, packing);
                let path = write(dir.path(), &format!("x.warc.wet{ending}"), &bytes);
                let inputs =
                    discover(std::slice::from_ref(&path), &DiscoverOptions::default()).expect("inputs");
                let (documents, corruption, _) = read_all(&inputs, 1, 1 << 20);
                assert_eq!(corruption, [], "{packing:?}");
                let texts: Vec<String> = documents.into_iter().map(|document| document.text).collect();
                let expected: Vec<String> =
                    read_plainly(&path, Format::Wet).into_iter().map(|(.., text)| text).collect();
                assert_eq!(texts, expected, "{packing:?}");
            }
        }
    }
}
