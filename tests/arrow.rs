//! Arrow: files and streams made here, held against the same documents as lines of JSON; corruption; folders of Hugging
//! Face; and the specimens.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Int8Array, Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray,
    StructArray, TimestampSecondArray, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use assert_cmd::Command;
use proptest::prelude::*;
use simflip::corpus::{
    CorruptionKind, DiscoverOptions, Format, KeptFiles, KeptJob, ReadOptions, discover, fetch, read,
    write_kept,
};
use simflip::document::DocId;

use crate::parquet::{Read, Row, all, options, read_all, row};
use crate::specimens::{Folder, TEXTS, at};

/// How rows are put into a file or stream.
#[derive(Clone, Copy, Debug)]
struct ArrowLayout {
    is_file: bool,
    compression: Option<CompressionType>,
    strings: Strings,
    batch_rows: usize,
}

#[derive(Clone, Copy, Debug)]
enum Strings {
    Plain,
    Large,
    View,
    Dictionary,
}

const PLAIN: ArrowLayout =
    ArrowLayout { is_file: false, compression: None, strings: Strings::Plain, batch_rows: 1000 };

fn layout() -> impl Strategy<Value = ArrowLayout> {
    let compression =
        prop::sample::select(vec![None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)]);
    let strings =
        prop::sample::select(vec![Strings::Plain, Strings::Large, Strings::View, Strings::Dictionary]);
    (any::<bool>(), compression, strings, 1..12usize).prop_map(
        |(is_file, compression, strings, batch_rows)| ArrowLayout {
            is_file,
            compression,
            strings,
            batch_rows,
        },
    )
}

/// Rows as a table.
fn batch(rows: &[Row], strings: Strings) -> RecordBatch {
    let column = |get: fn(&Row) -> Option<&str>| -> ArrayRef {
        let values = rows.iter().map(get);
        match strings {
            Strings::Plain => Arc::new(values.collect::<StringArray>()),
            Strings::Large => Arc::new(values.collect::<LargeStringArray>()),
            Strings::View => Arc::new(values.collect::<StringViewArray>()),
            Strings::Dictionary => Arc::new(values.collect::<DictionaryArray<Int32Type>>()),
        }
    };
    let urls = column(|row| row.url.as_deref());
    let url = Field::new("url", urls.data_type().clone(), true);
    let mut tags = ListBuilder::new(StringBuilder::new());
    rows.iter().for_each(|row| tags.append_value(row.tags.iter().map(Some)));
    let columns: [(&str, ArrayRef); 5] = [
        ("text", column(|row| row.text.as_deref())),
        ("id", column(|row| row.id.as_deref())),
        ("number", Arc::new(rows.iter().map(|row| row.number).collect::<Int64Array>())),
        ("document", Arc::new(StructArray::from(vec![(Arc::new(url), urls)]))),
        ("tags", Arc::new(tags.finish())),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    let batch = batch.expect("columns of a length");
    let said = HashMap::from([("huggingface".to_owned(), "{\"info\": 1}".to_owned())]);
    let schema = batch.schema().as_ref().clone().with_metadata(said);
    batch.with_schema(Arc::new(schema)).expect("the same columns")
}

/// A table as a file or stream.
fn written(table: &RecordBatch, layout: ArrowLayout) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(layout.compression).expect("a new version");
    let starts = (0..table.num_rows()).step_by(layout.batch_rows);
    let batches = starts.map(|at| table.slice(at, layout.batch_rows.min(table.num_rows() - at)));
    let mut bytes = Vec::new();
    if layout.is_file {
        let mut writer =
            FileWriter::try_new_with_options(&mut bytes, &table.schema(), options).expect("memory");
        batches.for_each(|batch| writer.write(&batch).expect("memory"));
        writer.finish().expect("memory");
    } else {
        let mut writer =
            StreamWriter::try_new_with_options(&mut bytes, &table.schema(), options).expect("memory");
        batches.for_each(|batch| writer.write(&batch).expect("memory"));
        writer.finish().expect("memory");
    }
    bytes
}

fn file(rows: &[Row], layout: ArrowLayout) -> Vec<u8> {
    written(&batch(rows, layout.strings), layout)
}

/// The rows of streams, by the crate's own reader.
fn table_of(paths: &[PathBuf]) -> RecordBatch {
    let mut batches = Vec::new();
    let mut schema = None;
    for path in paths {
        let reader = StreamReader::try_new(fs::File::open(path).expect("opens"), None).expect("a schema");
        schema.get_or_insert_with(|| reader.schema());
        batches.extend(reader.map(|batch| batch.expect("a batch")));
    }
    concat_batches(&schema.expect("a file"), &batches).expect("the same columns")
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
        let (stored, lines) = (dir.path().join("rows"), dir.path().join("rows.jsonl"));
        let table = batch(&rows, layout.strings);
        fs::write(&stored, written(&table, layout)).expect("writes");
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
        prop_assert_eq!((&corruption, &corruption_expected, records), (&vec![], &vec![], records_expected));
        let many = ReadOptions { threads: 3, ..options.clone() };
        prop_assert_eq!(&read_all(std::slice::from_ref(&stored), &many), &(documents.clone(), corruption, records));

        let inputs = discover(std::slice::from_ref(&stored), &DiscoverOptions::default()).expect("inputs");
        prop_assert_eq!(inputs[0].format, Format::Arrow);
        let keep = |id: DocId| simflip::hash::fmix64(u64::from(id.row ^ salt)).is_multiple_of(2);
        let chosen: Vec<&Read> = documents.iter().filter(|d| keep(d.0)).collect();
        let wanted: Vec<_> = chosen.iter().map(|d| (d.0, d.1)).collect();
        let mut fetched = Vec::new();
        fetch(&inputs, &options, &wanted, |d| fetched.push((d.id, d.text.to_owned()))).expect("all there");
        prop_assert_eq!(fetched, chosen.iter().map(|d| (d.0, d.4.clone())).collect::<Vec<_>>());

        let kept = write_kept(&inputs, &options, &wanted, &|_, _| true, dir.path()).expect("writes");
        prop_assert_eq!(&kept.lost, &[]);
        prop_assert_eq!((kept.files.len(), kept.files[0].documents), (1, wanted.len() as u64));
        prop_assert!(kept.files[0].path.ends_with("kept.arrow"));
        let is_kept: BooleanArray =
            (0..rows.len()).map(|row| Some(wanted.iter().any(|(id, _)| id.row as usize == row))).collect();
        let expected = filter_record_batch(&table, &is_kept).expect("as many rows");
        prop_assert_eq!(&table_of(&[kept.files[0].path.clone()]), &expected);

        let out = dir.path().join("of-size");
        let job = KeptJob { files: KeptFiles::OfSize(size), inputs: &inputs, options: &options, kept: &wanted, is_same: &|_, _| true };
        let kept = job.write(&out).expect("writes");
        prop_assert_eq!(&kept.lost, &[]);
        prop_assert_eq!(fs::read_dir(&out).expect("a folder").count(), kept.files.len());
        for (number, file) in (1..).zip(&kept.files) {
            let name = format!("kept-{number:05}.arrow");
            prop_assert!(file.path.ends_with(name));
            prop_assert!(file.stored_bytes <= size || file.documents <= 1, "{:?}", file);
            prop_assert_eq!(file.stored_bytes, fs::metadata(&file.path).expect("is there").len());
            prop_assert!(file.documents > 0 || kept.files.len() == 1);
        }
        let paths: Vec<PathBuf> = kept.files.into_iter().map(|file| file.path).collect();
        prop_assert_eq!(&table_of(&paths), &expected);
    }

    #[test]
    fn corruption_ends_no_run_and_takes_nothing_from_other_files(
        rows in prop::collection::vec(row(), 1..30),
        layout in layout(),
        hurts in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>(), 1..40usize), 1..4),
    ) {
        let mut bytes = file(&rows, layout);
        for (index, sort, byte, n) in hurts {
            let at = index.index(bytes.len().max(1)).min(bytes.len());
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
        let paths = ["a.arrow", "b-hurt.arrow", "c.arrow"].map(|name| dir.path().join(name));
        for (path, bytes) in paths.iter().zip([&file(&good, PLAIN), &bytes, &file(&good, PLAIN)]) {
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
        let lost: u64 = kept.lost.iter().filter_map(|corruption| corruption.documents).sum();
        prop_assert!(kept.lost.iter().all(|corruption| corruption.path == paths[1]));
        prop_assert_eq!(whole + lost, wanted.len() as u64);
    }
}

#[test]
fn a_stream_that_is_cut_yields_the_batches_before() {
    let rows: Vec<Row> =
        (0..9).map(|i| Row { text: Some(format!("document {i}")), ..Row::default() }).collect();
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("cut.arrow");
    for is_file in [false, true] {
        let whole = file(&rows, ArrowLayout { is_file, batch_rows: 2, ..PLAIN });
        let mut counts = Vec::new();
        for length in (1..whole.len()).step_by(5) {
            fs::write(&path, &whole[..length]).expect("writes");
            let Ok(inputs) = discover(std::slice::from_ref(&path), &DiscoverOptions::default()) else {
                continue;
            };
            let count = |n: &mut usize, _: simflip::corpus::Document<'_>| *n += 1;
            let reading = read(&inputs, &options(1, 1000), || 0, count, &|_| {});
            let kinds: Vec<CorruptionKind> =
                reading.files[0].corruption.iter().map(|corruption| corruption.kind).collect();
            // A stream may end behind any of its messages.
            assert!(
                kinds == [CorruptionKind::Truncated] || kinds.is_empty() && !is_file,
                "{length}: {kinds:?}"
            );
            counts.push(reading.workers[0]);
        }
        counts.dedup();
        assert_eq!(counts, [0, 2, 4, 6, 8, 9]);
    }
}

#[test]
fn names_of_any_type_are_written_as_those_of_parquet() {
    let uuid = FixedSizeBinaryArray::try_from_iter([[0xab; 16]].into_iter()).expect("a value");
    let is_uuid = HashMap::from([("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())]);
    let decimal = Decimal128Array::from(vec![-1205]).with_precision_and_scale(10, 2).expect("small");
    let cases: [(ArrayRef, &str); 9] = [
        (Arc::new(uuid), "abababab-abab-abab-abab-abababababab"),
        (Arc::new(decimal), "-12.05"),
        (Arc::new(Int8Array::from(vec![-3])), "-3"),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), "18446744073709551615"),
        (Arc::new(Date32Array::from(vec![19_861])), "2024-05-18"),
        (Arc::new(TimestampSecondArray::from(vec![1_716_000_000])), "2024-05-18T02:40:00Z"),
        (Arc::new(BooleanArray::from(vec![true])), "true"),
        (Arc::new(LargeStringArray::from(vec!["a name"])), "a name"),
        (Arc::new(vec![Some("a key")].into_iter().collect::<DictionaryArray<Int32Type>>()), "a key"),
    ];
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("ids.arrow");
    for (ids, expected) in cases {
        let mut id = Field::new("id", ids.data_type().clone(), true);
        if matches!(id.data_type(), DataType::FixedSizeBinary(_)) {
            id = id.with_metadata(is_uuid.clone());
        }
        let schema = Schema::new(vec![Field::new("text", DataType::Utf8, true), id]);
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a document"]));
        let table = RecordBatch::try_new(Arc::new(schema), vec![text, ids]).expect("two columns");
        fs::write(&path, written(&table, PLAIN)).expect("writes");
        let (documents, corruption, _) = read_all(std::slice::from_ref(&path), &options(1, 1000));
        assert_eq!((documents[0].2.as_deref(), corruption), (Some(expected), vec![]));
    }
}

#[test]
fn what_is_null_has_no_text_whatever_stands_there() {
    let words: ArrayRef = Arc::new(StringArray::from(vec!["one", "hidden", "two", "three"]));
    let field = Arc::new(Field::new("content", DataType::Utf8, true));
    // The second message is null, with its string still there; so is the second row.
    let valid = NullBuffer::from(vec![true, false, true, true]);
    let messages = StructArray::new(vec![field].into(), vec![words], Some(valid));
    let item = Arc::new(Field::new("item", messages.data_type().clone(), true));
    let offsets = OffsetBuffer::new(vec![0, 2, 3, 4].into());
    let lists = ListArray::new(item, offsets, Arc::new(messages), Some(vec![true, false, true].into()));
    let table = RecordBatch::try_from_iter([("messages", Arc::new(lists) as ArrayRef)]).expect("a column");
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("chats.arrow");
    fs::write(&path, written(&table, PLAIN)).expect("writes");
    let mut options = options(1, 1000);
    options.fields.text = "messages".to_owned();
    let (documents, corruption, records) = read_all(&[path], &options);
    let texts: Vec<&str> = documents.iter().map(|document| &*document.4).collect();
    assert_eq!((texts, corruption, records), (vec!["one", "three"], vec![], 3));
}

#[test]
fn large_record_batches_are_read_by_several_threads() {
    let text = |i: usize| Some(format!("document {} ", i + 1000).repeat(150_000));
    let rows: Vec<Row> = (0..60).map(|i| Row { text: text(i), ..Row::default() }).collect();
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("large.arrow");
    fs::write(&path, file(&rows, PLAIN)).expect("writes");
    let (documents, corruption, _) = read_all(std::slice::from_ref(&path), &options(3, 1 << 20));
    assert_eq!(corruption, []);
    assert!(documents.iter().map(|d| &d.4).eq(rows.iter().filter_map(|row| row.text.as_ref())));
}

/// A folder as `save_to_disk` of Hugging Face makes it, of these shards.
fn data_set(folder: &std::path::Path, shards: &[&[Row]]) {
    fs::create_dir_all(folder).expect("folder");
    let names = (0..shards.len()).map(|at| format!("data-{at:05}-of-{:05}.arrow", shards.len()));
    let names: Vec<String> = names.collect();
    for (name, rows) in names.iter().zip(shards) {
        fs::write(folder.join(name), file(rows, ArrowLayout { batch_rows: 7, ..PLAIN })).expect("writes");
    }
    let names: Vec<_> = names.iter().map(|name| serde_json::json!({"filename": name})).collect();
    let state = serde_json::json!({"_data_files": names, "_fingerprint": "f", "_split": "train"});
    fs::write(folder.join("state.json"), state.to_string()).expect("writes");
    fs::write(folder.join("dataset_info.json"), "{\"text\": \"of no document\"}").expect("writes");
}

#[test]
fn the_tool_finds_the_same_in_a_data_set_as_in_json() {
    let dir = tempfile::tempdir().expect("temp dir");
    let document = |i: usize, extra: &str| {
        let words: Vec<String> = (0..60).map(|w| format!("word{}", (i * 37 + w * w) % 500)).collect();
        let text = Some(format!("{} {extra}", words.join(" ")));
        Row { text, id: Some(format!("document-{i}{extra}")), number: Some(i as i64), ..Row::default() }
    };
    let mut rows: Vec<Row> = (0..40).map(|i| document(i, "")).collect();
    rows.extend((0..40).step_by(3).map(|i| document(i, "today")));
    let lines = |rows: &[Row]| {
        let line = |row: &Row| format!("{}\n", serde_json::json!({"text": row.text, "id": row.id}));
        rows.iter().map(line).collect::<String>()
    };
    for (name, half) in [("test", &rows[..30]), ("train", &rows[30..])] {
        fs::create_dir_all(dir.path().join("json")).expect("folder");
        fs::write(dir.path().join(format!("json/{name}.jsonl")), lines(half)).expect("writes");
        data_set(&dir.path().join("arrow").join(name), &[&half[..10], &half[10..]]);
        // What `map` leaves there has the same texts once more.
        fs::write(dir.path().join("arrow").join(name).join("cache-1.arrow"), file(half, PLAIN))
            .expect("writes");
    }
    fs::write(dir.path().join("arrow/dataset_dict.json"), "{\"splits\": [\"train\", \"test\"]}")
        .expect("writes");
    let run = |arguments: &str| {
        let mut command = Command::cargo_bin("simflip").expect("the tool is built");
        let output = command.current_dir(dir.path()).args(arguments.split(' ')).output().expect("runs");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let table = |folder: &str, name: &str| {
        fs::read_to_string(dir.path().join(folder).join(name)).expect("a table").lines().count()
    };
    let kept = |path: &str| {
        let (documents, corruption, _) = read_all(&[dir.path().join(path)], &ReadOptions::default());
        assert_eq!(corruption, []);
        documents.into_iter().map(|d| (d.2, d.4)).collect::<Vec<_>>()
    };
    let mut reported = Vec::new();
    for (kind, kept_file) in [("json", "kept.jsonl"), ("arrow", "kept.arrow")] {
        let out = format!("out-{kind}");
        run(&format!("dedup {kind} --out {out} --write kept"));
        run(&format!("inspect {out}"));
        run(&format!("review {out}"));
        run(&format!("dedup {kind} --out {out}-disk --memory 300MiB"));
        assert_eq!(kept(&format!("{out}-disk/{kept_file}")), kept(&format!("{out}/{kept_file}")));
        run(&format!("dedup {kind}/train* --against {kind}/test* --out {out}-new"));
        run(&format!("sketch {kind} --out {kind}.s"));
        run(&format!("join {kind}.s"));
        run(&format!("cluster {kind}.s"));
        run(&format!("apply {kind}.s {kind} --out {kind}.kept --kept-files 1GiB"));
        assert_eq!(kept(&format!("{kind}.kept")), kept(&format!("{out}/{kept_file}")));
        // A result is an input, too.
        run(&format!("dedup {out} --out {out}-again"));
        assert!(
            run(&format!("explain document-3 document-3today {kind} --json")).contains("document-3today")
        );
        let kept = kept(&format!("{out}/{kept_file}"));
        reported.push((kept, table(&out, "pairs.csv"), table(&format!("{out}-new"), "pairs.csv")));
    }
    assert_eq!(reported[0], reported[1]);
}

#[test]
fn chosen_rows_of_a_data_set_are_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let row = Row { text: Some("a document".into()), ..Row::default() };
    data_set(dir.path(), &[&[row]]);
    let state = r#"{"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_indices_data_files": [{"filename": "indices.arrow"}]}"#;
    fs::write(dir.path().join("state.json"), state).expect("writes");
    for named in [".", "data-00000-of-00001.arrow"] {
        let mut tool = Command::cargo_bin("simflip").expect("the tool is built");
        let tool = tool.current_dir(dir.path()).args(["dedup", named, "--out", "out"]);
        tool.assert().code(2).stderr(predicates::str::contains("indices.arrow"));
    }
}

/// The specimens of this format.
pub fn specimens(folder: &mut Folder) {
    const EVERY: &[usize] = &[0, 1, 2, 3, 4];
    let rows = all();
    let batches = ArrowLayout { batch_rows: 2, ..PLAIN };
    let file_of = |layout: ArrowLayout| ArrowLayout { is_file: true, ..layout };
    for (name, layout, note) in [
        ("stream", batches, "a stream of three record batches"),
        ("file", file_of(batches), "a file of three record batches"),
        ("lz4", file_of(ArrowLayout { compression: Some(CompressionType::LZ4_FRAME), ..PLAIN }), "lz4"),
        ("zstd", ArrowLayout { compression: Some(CompressionType::ZSTD), ..batches }, "zstd"),
        ("large-strings", ArrowLayout { strings: Strings::Large, ..PLAIN }, "strings of 64-bit lengths"),
        ("views", ArrowLayout { strings: Strings::View, ..PLAIN }, "views of strings"),
        ("dictionary", ArrowLayout { strings: Strings::Dictionary, ..batches }, "dictionaries"),
    ] {
        folder.add(&format!("good-{name}.arrow"), file(&rows, layout), 5, EVERY, &[], note);
    }
    folder.add("good-arrow-named.jsonl", file(&rows, PLAIN), 5, EVERY, &[], "Arrow by another name");
    let lines = b"{\"text\":\"\"}\n".to_vec();
    folder.add("lines-named.arrow", lines, 1, &[4], &[], "lines of JSON by another name");
    let mut nulls = rows.clone();
    nulls[2].text = None;
    folder.add("text-null.arrow", file(&nulls, batches), 5, &[0, 1, 3, 4], &[], "a row whose text is null");

    let whole = file(&rows, batches);
    let starts = memchr::memmem::find_iter(&whole, &[0xff; 4]).filter(|at| at.is_multiple_of(8));
    let starts: Vec<usize> = starts.collect();
    let noise = |from: usize, to: usize| {
        let mut bytes = whole.clone();
        bytes[from..to].fill(0xa7);
        bytes
    };
    let corruption = |kind: &str, at_byte: usize| vec![at(kind, None, at_byte as u64, 0)];
    let second = starts[2];
    let cut = whole[..second + 300].to_vec();
    folder.add(
        "truncated-in-batch.arrow",
        cut,
        2,
        &[0, 1],
        &corruption("truncated", second),
        "one batch and a part",
    );
    let cut = whole[..100].to_vec();
    folder.add("truncated-in-schema.arrow", cut, 0, &[], &corruption("truncated", 0), "a part of the schema");
    let hurt = noise(second + 8, second + 40);
    folder.add(
        "head-noise.arrow",
        hurt,
        2,
        &[0, 1],
        &corruption("undecodable", second),
        "the head of the second batch",
    );
    let hurt = noise(8, 40);
    folder.add("schema-noise.arrow", hurt, 0, &[], &corruption("undecodable", 0), "the schema");
    // The offsets of the texts come first, behind which of them are there.
    let body = |text: &str| memchr::memmem::find(&whole, text.as_bytes()).expect("is there");
    let offsets = body(TEXTS[2]) - 64;
    let lost = vec![at("undecodable", 2, second as u64, 0)];
    let note = "the second batch's offsets, which is lost";
    folder.add("body-noise.arrow", noise(offsets, offsets + 12), 5, &[0, 1, 4], &lost, note);
    let twice = [&whole[..], &whole[..]].concat();
    let note = "two streams, of which the second is not read";
    folder.add("two-streams.arrow", twice, 5, EVERY, &corruption("malformed", whole.len() - 8), note);
    let whole = file(&rows, file_of(batches));
    let cut = whole[..whole.len() - 3].to_vec();
    let end = whole.len() - 10 - footer_bytes(&whole) - 8;
    folder.add(
        "truncated-in-footer.arrow",
        cut,
        5,
        EVERY,
        &corruption("truncated", end),
        "the last three bytes",
    );
}

/// Bytes of the footer of a file.
fn footer_bytes(file: &[u8]) -> usize {
    let size = file[..file.len() - 6].last_chunk().expect("a length");
    u32::from_le_bytes(*size) as usize
}
