//! Parquet: files made here in many layouts, held against the same documents as lines of JSON; corruption of any
//! kind; and the specimens.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assert_cmd::Command;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use simflip::corpus::{
    Corruption, CorruptionKind, DiscoverOptions, Format, JsonlFields, KeptFile, KeptFiles, KeptJob,
    ReadOptions, discover, fetch, read, write_kept,
};
use simflip::document::DocId;

use crate::specimens::{Folder, TEXTS, at};

/// A row of text, id, URL, number, and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub text: Option<String>,
    pub id: Option<String>,
    pub url: Option<String>,
    pub number: Option<i64>,
    pub tags: Vec<String>,
}

const SCHEMA: &str = "message rows {
    optional binary text (STRING);
    optional binary id (STRING);
    optional int64 number;
    optional group document { optional binary url (STRING); }
    required group tags (LIST) { repeated group list { required binary element (STRING); } }
}";

/// How rows are put into a file.
#[derive(Clone, Copy, Debug)]
struct Layout {
    compression: Compression,
    dictionary: bool,
    /// For strings, where there is no dictionary.
    encoding: Option<Encoding>,
    page_version: WriterVersion,
    page_rows: usize,
    group_rows: usize,
}

const PLAIN: Layout = Layout {
    compression: Compression::UNCOMPRESSED,
    dictionary: false,
    encoding: None,
    page_version: WriterVersion::PARQUET_1_0,
    page_rows: 1000,
    group_rows: 1000,
};

fn layout() -> impl Strategy<Value = Layout> {
    let compression = prop::sample::select(vec![
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::ZSTD(Default::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::BROTLI(Default::default()),
    ]);
    let encoding = prop::option::of(prop::sample::select(vec![
        Encoding::PLAIN,
        Encoding::DELTA_LENGTH_BYTE_ARRAY,
        Encoding::DELTA_BYTE_ARRAY,
    ]));
    let page_version = prop::sample::select(vec![WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]);
    (compression, any::<bool>(), encoding, page_version, 1..9usize, 1..12usize).prop_map(
        |(compression, dictionary, encoding, page_version, page_rows, group_rows)| Layout {
            compression,
            dictionary,
            encoding,
            page_version,
            page_rows,
            group_rows,
        },
    )
}

fn properties(layout: Layout) -> WriterProperties {
    let properties = WriterProperties::builder()
        .set_created_by("the tests of simflip".to_owned())
        .set_compression(layout.compression)
        .set_dictionary_enabled(layout.dictionary)
        .set_writer_version(layout.page_version)
        .set_write_batch_size(1)
        .set_data_page_row_count_limit(layout.page_rows);
    let strings = ["text", "id", "document.url", "tags.list.element"];
    strings
        .into_iter()
        .fold(properties, |properties, name| match layout.encoding {
            Some(encoding) if !layout.dictionary => {
                let path = name.split('.').map(str::to_owned).collect::<Vec<_>>();
                properties.set_column_encoding(path.into(), encoding)
            }
            _ => properties,
        })
        .build()
}

/// Optional strings of one level or more above, `present` being the level of a string that is there.
fn strings(values: &[Option<&[u8]>], present: i16) -> (Vec<ByteArray>, Vec<i16>) {
    let there = values.iter().flatten().map(|bytes| ByteArray::from(bytes.to_vec())).collect();
    let levels = values.iter().map(|value| if value.is_some() { present } else { 0 }).collect();
    (there, levels)
}

/// A file of rows, and its footer.
fn file(rows: &[Row], layout: Layout) -> (Vec<u8>, ParquetMetaData) {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties(layout))).expect("memory");
    for rows in rows.chunks(layout.group_rows) {
        let mut group = writer.next_row_group().expect("memory");
        for column in 0..5 {
            let mut writer = group.next_column().expect("memory").expect("five columns");
            let of = |get: fn(&Row) -> Option<&String>| -> Vec<Option<&[u8]>> {
                rows.iter().map(|row| get(row).map(String::as_bytes)).collect()
            };
            let written = match column {
                0 | 1 | 3 => {
                    let (values, levels) = match column {
                        0 => strings(&of(|row| row.text.as_ref()), 1),
                        1 => strings(&of(|row| row.id.as_ref()), 1),
                        _ => strings(&of(|row| row.url.as_ref()), 2),
                    };
                    writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)
                }
                2 => {
                    let values: Vec<i64> = rows.iter().filter_map(|row| row.number).collect();
                    let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.number.is_some())).collect();
                    writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)
                }
                _ => {
                    let (mut values, mut present, mut repeats) = (Vec::new(), Vec::new(), Vec::new());
                    for row in rows {
                        repeats.push(0);
                        present.push(i16::from(!row.tags.is_empty()));
                        for (at, tag) in row.tags.iter().enumerate() {
                            if at > 0 {
                                repeats.push(1);
                                present.push(1);
                            }
                            values.push(ByteArray::from(tag.as_bytes().to_vec()));
                        }
                    }
                    writer.typed::<ByteArrayType>().write_batch(&values, Some(&present), Some(&repeats))
                }
            };
            written.expect("memory");
            writer.close().expect("memory");
        }
        group.close().expect("memory");
    }
    let metadata = writer.close().expect("memory");
    (bytes, metadata)
}

/// Rows read back by the format's own reader of rows, as text.
fn rows_plainly(path: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(fs::File::open(path).expect("opens")).expect("a footer");
    reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect()
}

fn fields() -> JsonlFields {
    JsonlFields { url: "document.url".into(), group: Some("document.url".into()), ..JsonlFields::default() }
}

pub fn options(threads: usize, block_bytes: usize) -> ReadOptions {
    ReadOptions { threads, block_bytes, fields: fields(), ..ReadOptions::default() }
}

pub type Read = (DocId, simflip::corpus::Place, Option<String>, Option<String>, String);

/// Documents in order, corruption, and records.
pub fn read_all(paths: &[PathBuf], options: &ReadOptions) -> (Vec<Read>, Vec<Corruption>, u64) {
    let inputs = discover(paths, &DiscoverOptions::default()).expect("inputs");
    let owned = |name: Option<&str>| name.map(str::to_owned);
    let each = |list: &mut Vec<Read>, d: simflip::corpus::Document<'_>| {
        // One column serves both ends.
        assert_eq!(d.group, d.url);
        list.push((d.id, d.place, owned(d.record_id), owned(d.url), d.text.to_owned()));
    };
    let reading = read(&inputs, options, Vec::new, each, &|_| {});
    let mut documents = reading.workers.concat();
    documents.sort();
    for (input, file) in inputs.iter().zip(&reading.files) {
        assert!(
            file.records == 0 || file.stored_bytes == input.stored_bytes(),
            "every stored byte is used up"
        );
    }
    let records = reading.files.iter().map(|file| file.records).sum();
    (documents, reading.files.into_iter().flat_map(|file| file.corruption).collect(), records)
}

pub fn row() -> impl Strategy<Value = Row> {
    let text = prop_oneof![
        8 => "\\PC{0,60}".prop_map(Some),
        1 => ("[a-c]{1,9}", 0..5000usize).prop_map(|(piece, n)| Some(piece.repeat(n))),
        1 => Just(None)
    ];
    let name = || prop::option::of("[a-z:/.?&=-]{0,40}");
    (text, name(), name(), prop::option::of(any::<i64>()), prop::collection::vec("[a-z]{0,5}", 0..4))
        .prop_map(|(text, id, url, number, tags)| Row { text, id, url, number, tags })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_what_the_same_lines_of_json_are(
        rows in prop::collection::vec(row(), 0..40),
        layout in layout(),
        block_bytes in prop::sample::select(vec![1, 1000, 1 << 20]),
        salt: u32,
        size in 1..8000u64,
        text in prop::sample::select(vec!["text", "text", "tags", "/tags", "document.url", "document.url,tags,text"]),
    ) {
        let dir = tempfile::tempdir().expect("temp dir");
        let (stored, lines) = (dir.path().join("rows.parquet"), dir.path().join("rows.jsonl"));
        fs::write(&stored, file(&rows, layout).0).expect("writes");
        let line = |row: &Row| {
            let Row { text, id, url, tags, .. } = row;
            format!("{}\n", serde_json::json!({"text": text, "id": id, "document": {"url": url}, "tags": tags}))
        };
        fs::write(&lines, rows.iter().map(line).collect::<String>()).expect("writes");

        let mut options = options(1, block_bytes);
        options.fields.text = text.to_owned();
        let (documents, corruption, records) = read_all(std::slice::from_ref(&stored), &options);
        let (expected, corruption_expected, records_expected) = read_all(&[lines], &options);
        let placeless = |d: &Read| (d.0, d.2.clone(), d.3.clone(), d.4.clone());
        prop_assert_eq!(
            documents.iter().map(placeless).collect::<Vec<_>>(),
            expected.iter().map(placeless).collect::<Vec<_>>()
        );
        let kinds = |corruption: &[Corruption]| corruption.iter().map(|d| (d.record, d.kind)).collect::<Vec<_>>();
        prop_assert_eq!(kinds(&corruption), kinds(&corruption_expected));
        prop_assert_eq!(records, records_expected);
        let many = ReadOptions { threads: 3, ..options.clone() };
        prop_assert_eq!(&read_all(std::slice::from_ref(&stored), &many), &(documents.clone(), corruption, records));

        let inputs = discover(std::slice::from_ref(&stored), &DiscoverOptions::default()).expect("inputs");
        let keep = |id: DocId| simflip::hash::fmix64(u64::from(id.row ^ salt)).is_multiple_of(2);
        let chosen: Vec<&Read> = documents.iter().filter(|d| keep(d.0)).collect();
        let wanted: Vec<_> = chosen.iter().map(|d| (d.0, d.1)).collect();
        let mut fetched = Vec::new();
        fetch(&inputs, &options, &wanted, |d| fetched.push((d.id, d.text.to_owned()))).expect("all there");
        prop_assert_eq!(fetched, chosen.iter().map(|d| (d.0, d.4.clone())).collect::<Vec<_>>());

        let kept = write_kept(&inputs, &options, &wanted, &|_, _| true, dir.path()).expect("writes");
        prop_assert_eq!(&kept.lost, &[]);
        let kept = kept.files;
        prop_assert_eq!((kept.len(), kept[0].documents), (1, wanted.len() as u64));
        let all = rows_plainly(&stored);
        let expected: Vec<String> = wanted.iter().map(|(id, _)| all[id.row as usize].clone()).collect();
        prop_assert_eq!(rows_plainly(&kept[0].path), expected.clone());
        let meta = |path: &Path| SerializedFileReader::new(fs::File::open(path).expect("opens")).expect("a footer");
        let (before, after) = (meta(&stored), meta(&kept[0].path));
        prop_assert_eq!(
            before.metadata().file_metadata().schema_descr().root_schema(),
            after.metadata().file_metadata().schema_descr().root_schema()
        );
        for group in after.metadata().row_groups() {
            for chunk in group.columns() {
                prop_assert_eq!(chunk.compression_codec(), before.metadata().row_group(0).columns()[0].compression_codec());
            }
        }

        let mut files = Vec::new();
        for threads in [1, 3] {
            let (options, out) = (ReadOptions { threads, ..options.clone() }, dir.path().join(threads.to_string()));
            let job = KeptJob { files: KeptFiles::OfSize(size), inputs: &inputs, options: &options, kept: &wanted, is_same: &|_, _| true };
            let kept = job.write(&out).expect("writes");
            prop_assert_eq!(&kept.lost, &[]);
            prop_assert_eq!(fs::read_dir(&out).expect("a folder").count(), kept.files.len());
            let bytes = |file: &KeptFile| fs::read(&file.path).expect("bytes");
            files.push((kept.files.iter().map(bytes).collect::<Vec<_>>(), kept.files));
        }
        prop_assert_eq!(&files[0].0, &files[1].0);
        let mut back = Vec::new();
        for (number, file) in (1..).zip(&files[1].1) {
            let name = format!("kept-{number:05}.parquet");
            prop_assert!(file.path.ends_with(name));
            let found = meta(&file.path);
            let groups = found.metadata().row_groups();
            let stored: i64 = groups.iter().map(|group| group.compressed_size()).sum();
            prop_assert!(4 + stored as u64 <= size || file.documents <= 1, "{} {}", stored, file.documents);
            prop_assert!(file.documents > 0 || files[1].1.len() == 1);
            prop_assert_eq!(&file.shards[..], if file.documents > 0 { &[0][..] } else { &[] });
            let (read, corruption, _) = read_all(std::slice::from_ref(&file.path), &options);
            prop_assert_eq!((read.len() as u64, corruption), (file.documents, vec![]));
            back.extend(rows_plainly(&file.path));
        }
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn corruption_ends_no_run_and_takes_nothing_from_other_files(
        rows in prop::collection::vec(row(), 1..30),
        layout in layout(),
        footer: bool,
        hurts in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>(), 1..40usize), 1..4),
    ) {
        let (mut bytes, _) = file(&rows, layout);
        let from = match bytes.last_chunk::<8>() {
            Some([a, b, c, d, ..]) if footer => bytes.len() - 8 - u32::from_le_bytes([*a, *b, *c, *d]) as usize,
            _ => 0,
        };
        for (index, sort, byte, n) in hurts {
            let at = (from + index.index((bytes.len() - from.min(bytes.len())).max(1))).min(bytes.len());
            let end = (at + n).min(bytes.len());
            match sort {
                0 | 3 if at < bytes.len() => bytes[at] ^= byte,
                1 => bytes[at..end].fill(byte),
                2 => drop(bytes.splice(at..at, std::iter::repeat_n(byte, n))),
                _ => bytes.truncate(at),
            }
        }
        let dir = tempfile::tempdir().expect("temp dir");
        let good: Vec<Row> = (0..9).map(|i| Row { text: Some(format!("document {i}")), ..Row::default() }).collect();
        let paths = ["a.parquet", "b-hurt.parquet", "c.parquet"].map(|name| dir.path().join(name));
        for (path, bytes) in paths.iter().zip([&file(&good, PLAIN).0, &bytes, &file(&good, PLAIN).0]) {
            fs::write(path, bytes).expect("writes");
        }
        let (documents, corruption, records) = read_all(&paths, &options(1, 1000));
        prop_assert_eq!(read_all(&paths, &options(3, 1)), (documents.clone(), corruption.clone(), records));
        prop_assert!(corruption.iter().all(|corruption| corruption.path == paths[1]));
        for shard in [0, 2] {
            let texts: Vec<_> = documents.iter().filter(|d| d.0.shard == shard).map(|d| d.4.clone()).collect();
            prop_assert_eq!(texts, good.iter().filter_map(|row| row.text.clone()).collect::<Vec<_>>());
        }

        let inputs = discover(&paths, &DiscoverOptions::default()).expect("inputs");
        let wanted: Vec<_> = documents.iter().map(|d| (d.0, d.1)).collect();
        let mut fetched = 0;
        fetch(&inputs, &options(1, 1000), &wanted, |_| fetched += 1).expect("what was read can be read again");
        prop_assert_eq!(fetched, wanted.len());
        let kept = write_kept(&inputs, &options(1, 1000), &wanted, &|_, _| true, dir.path()).expect("writes");
        let whole: u64 = kept.files.iter().map(|file| file.documents).sum();
        let lost = kept.lost.iter();
        prop_assert!(lost.clone().all(|corruption| corruption.path == paths[1]));
        prop_assert!(whole == wanted.len() as u64 || lost.count() > 0);
        let back: Vec<PathBuf> = kept.files.into_iter().map(|file| file.path).collect();
        let (again, corruption, _) = read_all(&back, &options(1, 1000));
        prop_assert_eq!(again.len() as u64, whole);
        prop_assert!(corruption.iter().all(|d| matches!(d.kind, CorruptionKind::BadName)), "{:?}", corruption);
    }
}

#[test]
fn a_flipped_bit_costs_the_same_with_blocks_of_any_size() {
    let texts =
        |i: usize| (0..30).map(|word| format!("word{} ", (i * 37 + word * word) % 500)).collect::<String>();
    let row = |i: usize| Row { text: Some(texts(i)), id: Some(format!("id {i}")), ..Row::default() };
    let rows: Vec<Row> = (0..85).map(row).collect();
    let page_version = WriterVersion::PARQUET_2_0;
    let zstd = Compression::ZSTD(Default::default());
    let plain = Layout { compression: zstd, page_version, page_rows: 16, ..PLAIN };
    let delta = Layout { encoding: Some(Encoding::DELTA_BYTE_ARRAY), ..plain };
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("hurt.parquet");
    let mut partial = 0;
    for layout in [plain, delta, Layout { compression: Compression::SNAPPY, ..plain }] {
        let (whole, _) = file(&rows, layout);
        for i in 0..150 {
            let mut bytes = whole.clone();
            let at = simflip::hash::fmix64(i) as usize % (8 * bytes.len());
            bytes[at / 8] ^= 1 << (at % 8);
            fs::write(&path, &bytes).expect("writes");
            let paths = std::slice::from_ref(&path);
            let first = read_all(paths, &options(1, 1 << 20));
            partial += usize::from((1..rows.len()).contains(&first.0.len()));
            for block_bytes in [1, 5_000] {
                assert_eq!(
                    read_all(paths, &options(1, block_bytes)),
                    first,
                    "bit {at}, blocks of {block_bytes}"
                );
            }
        }
    }
    assert!(partial > 20, "{partial} of 450 lost some rows, and not all");
}

#[test]
fn large_row_groups_are_read_by_several_threads() {
    let text = |i: usize| Some(format!("document {} ", i + 1000).repeat(150_000));
    let rows: Vec<Row> = (0..60).map(|i| Row { text: text(i), ..Row::default() }).collect();
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("large.parquet");
    let (bytes, metadata) = file(&rows, PLAIN);
    assert!(metadata.row_group(0).column(0).uncompressed_size() > 64 << 20, "as large as shared groups are");
    fs::write(&path, bytes).expect("writes");
    // In blocks of any size: values wait where their pages would take too much memory at once.
    for (threads, block_bytes) in [(1, 1 << 30), (3, 1 << 20)] {
        let (documents, corruption, _) =
            read_all(std::slice::from_ref(&path), &options(threads, block_bytes));
        assert_eq!(corruption, []);
        assert!(documents.iter().map(|d| &d.4).eq(rows.iter().filter_map(|row| row.text.as_ref())));
    }
}

#[test]
fn inputs_with_other_columns_keep_to_a_file_of_their_own() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = |name: &str| dir.path().join(name);
    let rows: Vec<Row> =
        (0..5).map(|i| Row { text: Some(format!("document {i}")), ..Row::default() }).collect();
    fs::write(path("a.parquet"), file(&rows, PLAIN).0).expect("writes");
    fs::write(path("b.parquet"), one_column("optional binary text (STRING)", &[b"x", b"y"])).expect("writes");
    fs::write(path("c.parquet"), file(&rows, Layout { group_rows: 2, ..PLAIN }).0).expect("writes");
    let (documents, corruption, _) = read_all(&[dir.path().into()], &options(1, 1000));
    assert_eq!((documents.len(), corruption), (12, vec![]));
    let inputs = discover(&[dir.path().into()], &DiscoverOptions::default()).expect("inputs");
    let wanted: Vec<_> = documents.iter().map(|d| (d.0, d.1)).collect();
    let out = dir.path().join("out");
    let kept = write_kept(&inputs, &options(1, 1000), &wanted, &|_, _| true, &out).expect("writes");
    let reported: Vec<_> = kept.files.iter().map(|f| (f.path.clone(), f.format, f.documents)).collect();
    assert_eq!(
        reported,
        [(out.join("kept.parquet"), Format::Parquet, 10), (out.join("kept-2.parquet"), Format::Parquet, 2)]
    );
}

#[test]
fn the_tool_finds_the_same_in_parquet_as_in_json() {
    let dir = tempfile::tempdir().expect("temp dir");
    let document = |i: usize, extra: &str| {
        let words: Vec<String> = (0..60).map(|w| format!("word{}", (i * 37 + w * w) % 500)).collect();
        let text = Some(format!("{} {extra}", words.join(" ")));
        Row { text, id: Some(format!("document {i}{extra}")), number: Some(i as i64), ..Row::default() }
    };
    let mut rows: Vec<Row> = (0..40).map(|i| document(i, "")).collect();
    rows.extend((0..40).step_by(3).map(|i| document(i, "today")));
    rows.extend((0..40).step_by(7).map(|i| document(i, "")).map(|row| Row { id: None, ..row }));
    let lines = |rows: &[Row]| {
        let line = |row: &Row| format!("{}\n", serde_json::json!({"text": row.text, "id": row.id}));
        rows.iter().map(line).collect::<String>()
    };
    let zstd = Layout {
        compression: Compression::ZSTD(Default::default()),
        dictionary: true,
        group_rows: 7,
        ..PLAIN
    };
    for (name, half) in [("a", &rows[..30]), ("b", &rows[30..])] {
        for kind in ["json", "parquet"] {
            fs::create_dir_all(dir.path().join(kind)).expect("folder");
        }
        fs::write(dir.path().join(format!("json/{name}.jsonl")), lines(half)).expect("writes");
        fs::write(dir.path().join(format!("parquet/{name}.parquet")), file(half, zstd).0).expect("writes");
    }
    let simflip = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("simflip").expect("the tool is built");
        let output = command.current_dir(dir.path()).args(arguments).assert().success().get_output().clone();
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    // Commands that fetch single texts again, read everything again, or read it for the first time in another way.
    let explained = ["json", "parquet"].map(|kind| {
        let out = format!("out-{kind}");
        simflip(&["dedup", kind, "--out", &out]);
        simflip(&["inspect", &out]);
        simflip(&["review", &out]);
        let seen = simflip(&["seen", "--seen-at", "2026-11-01", "--index", &format!("{kind}.seen"), kind]);
        let explained = simflip(&["explain", "document 3", "document 3today", kind, "--json"]);
        (explained, seen.replace("json/", "parquet/").replace(".jsonl", ".parquet"))
    });
    assert_eq!(explained[0], explained[1]);
    // Documents without an id are named by file, which differs by its ending only.
    let table = |kind: &str, name: &str| {
        let text = fs::read_to_string(dir.path().join(format!("out-{kind}/{name}"))).expect("a table");
        text.replace("json/", "parquet/").replace(".jsonl", ".parquet")
    };
    for name in ["pairs.csv", "clusters.csv"] {
        assert_eq!(table("json", name), table("parquet", name));
        assert!(table("json", name).lines().count() > 10);
    }
    let read = |path: &str| {
        let (documents, corruption, _) = read_all(&[dir.path().join(path)], &ReadOptions::default());
        assert_eq!(corruption, []);
        documents.into_iter().map(|d| (d.2, d.4)).collect::<Vec<_>>()
    };
    assert_eq!(read("out-json/kept.jsonl"), read("out-parquet/kept.parquet"));
}

#[test]
fn a_missing_column_is_reported_with_those_there_are() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.parquet");
    let row = Row { text: Some("a document".into()), ..Row::default() };
    fs::write(&path, file(&[row], PLAIN).0).expect("writes");
    let reported = |text: &str| {
        let fields = JsonlFields { text: text.into(), ..fields() };
        let options = ReadOptions { fields, ..options(1, 1000) };
        let (documents, corruption, _) = read_all(std::slice::from_ref(&path), &options);
        assert_eq!((documents.len(), corruption.len()), (0, 1));
        (corruption[0].kind, corruption[0].detail.clone())
    };
    let there = "--text-field names another one of text, id, number, document.url, tags";
    assert_eq!(reported("body"), (CorruptionKind::NoText, format!("no column \"body\"; {there}")));
    assert_eq!(reported("text,body").0, CorruptionKind::NoText);
    let (kind, detail) = reported("number");
    assert_eq!(
        (kind, detail),
        (CorruptionKind::NoText, format!("column \"number\" is INT64, not strings; {there}"))
    );
    let mut tool = Command::cargo_bin("simflip").expect("the tool is built");
    let tool =
        tool.current_dir(dir.path()).args(["dedup", "a.parquet", "--text-field", "body", "--out", "out"]);
    tool.assert().code(2).stderr(predicates::str::contains("There are: text, id, number"));
    let mut tool = Command::cargo_bin("simflip").expect("the tool is built");
    let tool =
        tool.current_dir(dir.path()).args(["dedup", "a.parquet", "--id-field", "tags", "--out", "out"]);
    tool.assert().code(2).stderr(predicates::str::contains("document.url, tags (a list)"));
}

#[test]
fn ids_of_every_type_are_read_as_they_are_meant() {
    fn ids<T: DataType>(column: &str, values: &[T::T]) -> Vec<String> {
        let schema = format!("message rows {{ required binary text (STRING); required {column}; }}");
        let schema = Arc::new(parse_message_type(&schema).expect("a schema"));
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a.parquet");
        let file = fs::File::create(&path).expect("a file");
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
        let mut group = writer.next_row_group().expect("a group");
        let mut column = group.next_column().expect("a column").expect("text");
        let texts = vec![ByteArray::from("a document"); values.len()];
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).expect("writes");
        column.close().expect("writes");
        let mut column = group.next_column().expect("a column").expect("id");
        column.typed::<T>().write_batch(values, None, None).expect("writes");
        column.close().expect("writes");
        group.close().expect("writes");
        writer.close().expect("writes");
        let (documents, corruption, _) = read_all(&[path], &options(1, 1000));
        assert_eq!(corruption, []);
        documents.into_iter().map(|(_, _, id, ..)| id.expect("an id")).collect()
    }
    let fixed = |bytes: &[u8]| FixedLenByteArray::from(bytes.to_vec());
    let uuid: Vec<u8> = (0..16).collect();
    assert_eq!(
        ids::<FixedLenByteArrayType>("fixed_len_byte_array(16) id (UUID)", &[fixed(&uuid)]),
        ["00010203-0405-0607-0809-0a0b0c0d0e0f"]
    );
    assert_eq!(
        ids::<FixedLenByteArrayType>("fixed_len_byte_array(2) id (DECIMAL(4,2))", &[fixed(&[0xff, 0x85])]),
        ["-1.23"]
    );
    assert_eq!(ids::<Int32Type>("int32 id (DECIMAL(9,3))", &[-5, 12_000]), ["-0.005", "12.000"]);
    assert_eq!(ids::<Int32Type>("int32 id (DATE)", &[0, 19_861]), ["1970-01-01", "2024-05-18"]);
    assert_eq!(
        ids::<Int64Type>("int64 id (TIMESTAMP(MILLIS,true))", &[1_716_000_000_123]),
        ["2024-05-18T02:40:00.123Z"]
    );
    assert_eq!(ids::<Int32Type>("int32 id (INTEGER(32,false))", &[-1]), ["4294967295"]);
    assert_eq!(ids::<BoolType>("boolean id", &[true, false]), ["true", "false"]);
}

// ---- how the specimens are made ----

/// A file of one column of strings.
fn one_column(column: &str, values: &[&[u8]]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message rows {{ {column}; }}")).expect("a schema"));
    let mut bytes = Vec::new();
    let properties = Arc::new(properties(PLAIN));
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).expect("memory");
    if !values.is_empty() {
        let mut group = writer.next_row_group().expect("memory");
        let mut column = group.next_column().expect("memory").expect("a column");
        let values: Vec<ByteArray> = values.iter().map(|bytes| ByteArray::from(bytes.to_vec())).collect();
        let levels = vec![1; values.len()];
        column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).expect("memory");
        column.close().expect("memory");
        group.close().expect("memory");
    }
    writer.close().expect("memory");
    bytes
}

pub fn all() -> Vec<Row> {
    let row = |(i, text): (usize, &&str)| Row {
        text: Some((*text).to_owned()),
        id: Some(i.to_string()),
        url: Some(format!("https://pier.example/{i}")),
        number: Some(i as i64),
        tags: vec!["pier".to_owned(); i % 3],
    };
    TEXTS.iter().enumerate().map(row).collect()
}

/// Where the text of a row group is.
fn offset(metadata: &ParquetMetaData, group: usize, column: usize) -> u64 {
    let chunk = metadata.row_group(group).column(column);
    chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset()) as u64
}

/// The specimens of this format.
pub fn specimens(folder: &mut Folder) {
    const EVERY: &[usize] = &[0, 1, 2, 3, 4];
    let rows = all();
    let snappy = Layout { compression: Compression::SNAPPY, dictionary: true, ..PLAIN };
    let page_version = WriterVersion::PARQUET_2_0;
    let zstd =
        Layout { compression: Compression::ZSTD(Default::default()), page_version, group_rows: 2, ..PLAIN };
    let gzip = Layout { compression: Compression::GZIP(Default::default()), page_rows: 1, ..PLAIN };
    let delta = Layout { encoding: Some(Encoding::DELTA_BYTE_ARRAY), page_version, ..PLAIN };
    let lengths = Layout { encoding: Some(Encoding::DELTA_LENGTH_BYTE_ARRAY), ..PLAIN };
    let lz4 = Layout { compression: Compression::LZ4_RAW, ..PLAIN };
    let brotli = Layout { compression: Compression::BROTLI(Default::default()), ..PLAIN };
    for (name, layout, note) in [
        ("snappy", snappy, "dictionaries, snappy"),
        ("zstd", zstd, "three row groups, documents of version 2, zstd"),
        ("gzip", gzip, "a document for each row, gzip"),
        ("lz4", lz4, "lz4"),
        ("brotli", brotli, "brotli"),
        ("plain", PLAIN, "plain values, not compressed"),
        ("delta", delta, "strings by what differs from the one before"),
        ("delta-lengths", lengths, "lengths of strings apart"),
    ] {
        folder.add(&format!("good-{name}.parquet"), file(&rows, layout).0, 5, EVERY, &[], note);
    }
    folder.add("good-named.jsonl", file(&rows, PLAIN).0, 5, EVERY, &[], "Parquet by another name");
    let lines = b"{\"text\":\"\"}\n".to_vec();
    folder.add("lines-named.parquet", lines, 1, &[4], &[], "lines of JSON by another name");

    let mut nulls = rows.clone();
    nulls[2].text = None;
    let (bytes, _) = file(&nulls, zstd);
    let note = "a row whose text is null, which is no document and not corrupt";
    folder.add("text-null.parquet", bytes, 5, &[0, 1, 3, 4], &[], note);
    let texts: Vec<&[u8]> = vec![TEXTS[0].as_bytes(), b"caf\xe9", TEXTS[1].as_bytes()];
    let bytes = one_column("optional binary text", &texts);
    let repaired = "caf\u{fffd}".len() as u64;
    folder.add_odd(
        "text-latin-1.parquet",
        bytes,
        3,
        &[0, 1],
        repaired,
        "bytes, not all UTF-8, which are repaired",
    );
    let bytes = one_column("optional binary body (STRING)", &texts[..1]);
    let note = "the text has another name";
    folder.add("text-column-missing.parquet", bytes, 0, &[], &[at("no-text", None, 0, 0)], note);
    let list = "repeated binary text (STRING)";
    let bytes = one_column(list, &[]);
    folder.add("text-list.parquet", bytes, 0, &[], &[], "the text is a list, whose strings are joined");
    let bytes = one_column("optional binary text (STRING)", &[]);
    folder.add("no-rows.parquet", bytes, 0, &[], &[], "a footer without row groups, which is not corrupt");

    let (whole, metadata) = file(&rows, zstd);
    let cut = whole[..whole.len() - 3].to_vec();
    let truncated = [at("truncated", None, 0, 0)];
    folder.add("truncated-in-footer.parquet", cut, 0, &[], &truncated, "the last three bytes are missing");
    folder.add("truncated-in-magic.parquet", whole[..3].to_vec(), 0, &[], &truncated, "nothing but PAR");
    let bad_footer = [at("undecodable", None, 0, 0)];
    let length = u32::from_le_bytes(*whole[..whole.len() - 4].last_chunk().expect("a length")) as usize;
    let mut noise = whole.clone();
    let end = noise.len();
    noise[end - 8 - length..end - 8].fill(0xa7);
    folder.add("footer-noise.parquet", noise, 0, &[], &bad_footer, "a footer of the same byte");
    let mut huge = whole.clone();
    huge[end - 8..end - 4].fill(0xff);
    folder.add("footer-length-huge.parquet", huge, 0, &[], &bad_footer, "a footer of 4 GiB");
    let mut locked = whole.clone();
    locked[end - 1] = b'E';
    folder.add("footer-encrypted.parquet", locked, 0, &[], &bad_footer, "the magic of an encrypted footer");
    let deep: Vec<u8> = std::iter::once([0x29, 0xfc, 0x88, 0x27].to_vec())
        .chain((0..4_999).map(|_| vec![0x35, 0, 0x18, 1, b'g', 0x15, 2, 0]))
        .chain([vec![0x15, 0, 0x25, 0, 0x18, 1, b'c', 0, 0]])
        .flatten()
        .collect();
    let size = (deep.len() as u32).to_le_bytes();
    let deep = [b"PAR1".as_slice(), &deep, &size, b"PAR1"].concat();
    folder.add("schema-deep.parquet", deep, 0, &[], &bad_footer, "5,000 groups within one another");

    let mut hurt = whole.clone();
    let from = offset(&metadata, 1, 0) as usize;
    let to = from + metadata.row_group(1).column(0).compressed_size() as usize;
    hurt[to - 20..to].fill(0);
    let corruption = [at("undecodable", 2, from as u64, 0)];
    folder.add(
        "page-noise.parquet",
        hurt,
        5,
        &[0, 1, 4],
        &corruption,
        "the second row group's texts do not decode",
    );
    let mut hurt = whole.clone();
    // A field that page headers do not have: a list of 2³¹ - 1 numbers of eight bytes each.
    hurt[from..from + 7].copy_from_slice(&[0x99, 0xf7, 0xff, 0xff, 0xff, 0xff, 0x07]);
    folder.add(
        "page-header-endless.parquet",
        hurt,
        5,
        &[0, 1, 4],
        &corruption,
        "the header of the second row group's texts has a list that goes on behind the end of the file",
    );
    let mut hurt = whole.clone();
    let id = offset(&metadata, 1, 1) as usize;
    hurt[id..id + 4].fill(0xff);
    let corruption = [at("bad-name", 2, from as u64, 0)];
    folder.add(
        "page-noise-of-id.parquet",
        hurt,
        5,
        EVERY,
        &corruption,
        "the second row group's ids do not decode",
    );
    // ColumnMetaData: field 9 of type i64 behind field 7, and an offset in two bytes of seven bits.
    let field = |offset: u64| [0x26, (2 * offset) as u8 | 0x80, ((2 * offset) >> 7) as u8];
    assert!((64..8_192).contains(&id), "{id} takes two bytes");
    let footer = end - 8 - length;
    let found = whole[footer..].windows(3).position(|bytes| bytes == field(id as u64)).expect("an offset");
    let mut hurt = whole.clone();
    hurt[footer + found..][..3].copy_from_slice(&field(8_191));
    folder.add(
        "id-column-outside.parquet",
        hurt,
        5,
        EVERY,
        &corruption,
        "the second row group's ids would be behind the end of the file",
    );
    let mut hurt = whole.clone();
    hurt[0..4].fill(0);
    folder.add("magic-noise.parquet", hurt, 5, EVERY, &[], "the first bytes are not needed");
}
