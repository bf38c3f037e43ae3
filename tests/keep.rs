//! The document of a cluster that is kept, and what each source loses.

use super::place::{Place, words};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;

fn text(document: usize) -> String {
    words(document, 60)
}

fn jsonl(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Ids of the documents that stay, by the table of documents.
fn kept_ids(place: &Place, out: &str) -> Vec<String> {
    let lines = fs::read_to_string(place.at(out).join("documents.jsonl")).unwrap();
    let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["kept"] == true).map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_document_with_the_highest_score_stays() {
    let place = Place::new();
    place.put(
        "in/a.jsonl",
        jsonl(&[
            json!({"id": "low", "text": text(1), "quality": 0.25}),
            json!({"id": "none", "text": text(1)}),
            json!({"id": "high", "text": text(1), "quality": 7}),
            json!({"id": "words", "text": text(1), "quality": "very good"}),
            json!({"id": "null", "text": text(2), "quality": null}),
            json!({"id": "negative", "text": text(2), "quality": "-1.5"}),
            json!({"id": "huge", "text": text(2), "quality": [1]}),
        ]),
    );
    place.reported("dedup in --out first --write documents.jsonl", 0);
    assert_eq!(kept_ids(&place, "first"), ["low", "null"]);
    for (out, options) in [("out", "--threads 1"), ("again", "--threads 4")] {
        place.reported(
            &format!("dedup in --out {out} --write documents.jsonl --keep score:quality {options}"),
            0,
        );
        assert_eq!(kept_ids(&place, out), ["high", "negative"]);
        place.reported(&format!("inspect {out}"), 0);
    }
    let report = place.report("out");
    assert_eq!(report["settings"]["keep"], json!({"score": "quality"}));
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("4 documents have no number in \\\"quality\\\""), "{warnings}");
    place.reported("dedup in --out repeated --write documents.jsonl --settings out/report.json", 0);
    assert_eq!(kept_ids(&place, "repeated"), ["high", "negative"]);
    let reported = place.reported("dedup in --out none --keep score:qualty", 2);
    assert!(
        reported.contains("--keep score:qualty: expected a field with numbers or dates")
            && reported.contains("There are: "),
        "{reported}"
    );
    let reported = place.reported("dedup in --out none --keep best", 2);
    assert!(
        reported.contains("first, fullest, longest, shortest-url, score:FIELD or input-order"),
        "{reported}"
    );
}

#[test]
fn scores_of_parquet_columns_are_those_of_json() {
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let place = Place::new();
    let scores = [Some(0.5), None, Some(f64::NAN), Some(2.0), Some(f64::INFINITY), Some(1.0)];
    let schema =
        "message rows { required binary text (STRING); required binary id (STRING); optional double score;
                  required int32 rank; }";
    let file = fs::File::create(place.at("a.parquet")).unwrap();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let texts: Vec<ByteArray> = scores.iter().map(|_| ByteArray::from(&*text(3))).collect();
    let ids: Vec<ByteArray> = (0..6).map(|n| ByteArray::from(&*format!("row {n}"))).collect();
    for column in [&texts, &ids] {
        let mut writer = group.next_column().unwrap().unwrap();
        writer.typed::<ByteArrayType>().write_batch(column, None, None).unwrap();
        writer.close().unwrap();
    }
    let mut column = group.next_column().unwrap().unwrap();
    let (values, levels): (Vec<f64>, Vec<i16>) = (
        scores.iter().flatten().copied().collect(),
        scores.iter().map(|it| i16::from(it.is_some())).collect(),
    );
    column.typed::<DoubleType>().write_batch(&values, Some(&levels), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int32Type>().write_batch(&[3, -4, 9, 1, 2, 5], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    place.reported("dedup a.parquet --out out --write documents.jsonl --keep score:score", 0);
    assert_eq!(kept_ids(&place, "out"), ["row 3"]);
    assert!(place.report("out")["warnings"].to_string().contains("3 documents have no number"));
    place.reported("dedup a.parquet --out by-rank --write documents.jsonl --keep score:rank", 0);
    assert_eq!(kept_ids(&place, "by-rank"), ["row 2"]);
}

#[test]
fn the_input_that_was_named_first_keeps_its_documents() {
    let place = Place::new();
    let document = |id: &str, document: usize| json!({"id": id, "text": text(document)});
    place.put("a/x.jsonl", jsonl(&[document("a1", 1), document("a2", 2)]));
    place.put("b.jsonl", jsonl(&[document("b3", 3), document("b1", 1), document("b1 again", 1)]));
    place.put("c/x.jsonl", jsonl(&[document("c2", 2), document("c3", 3), document("c4", 4)]));
    let kept_of = |inputs: &str, out: &str| {
        place.reported(
            &format!("dedup {inputs} --out {out} --write documents.jsonl --keep input-order --threads 3"),
            0,
        );
        kept_ids(&place, out)
    };
    assert_eq!(kept_of("c b.jsonl a", "cba"), ["b1", "c2", "c3", "c4"]);
    assert_eq!(kept_of("a c b.jsonl", "acb"), ["a1", "a2", "c3", "c4"]);
    assert_eq!(kept_of("b.jsonl a c", "bac"), ["a2", "b3", "b1", "c4"]);
}

#[test]
fn as_many_documents_stay_of_a_cluster_or_of_each_source_in_it_as_one_says() {
    let place = Place::new();
    let document =
        |id: &str, url: &str, document: usize| json!({"id": id, "url": url, "text": text(document)});
    place.put(
        "a/x.jsonl",
        jsonl(&[
            document("x1", "https://one.example/1", 1),
            document("x2", "https://ONE.example/2", 1),
            document("x3", "https://two.example/3", 1),
            document("x4", "", 1),
            document("x5", "https://one.example/5", 2),
        ]),
    );
    place.put(
        "a/y.jsonl",
        jsonl(&[document("y1", "https://two.example/1", 1), document("y2", "", 1), document("y3", "", 2)]),
    );
    place.put("b/z.jsonl", jsonl(&[document("z1", "https://one.example/9", 1), document("z2", "", 3)]));
    let stay = |options: &str, out: &str| {
        place.reported(format!("dedup a b --out {out} --write kept,documents.jsonl {options}").trim_end(), 0);
        place.reported(&format!("inspect {out}"), 0);
        let kept = kept_ids(&place, out);
        assert_eq!(place.report(out)["outcome"]["kept"], kept.len());
        assert_eq!(place.report(out)["outcome"]["near_duplicates"], 0);
        let clusters = fs::read_to_string(place.at(out).join("clusters.csv")).unwrap();
        let of_clusters = kept.iter().filter(|id| *id != "z2").count();
        assert_eq!(
            clusters.lines().filter(|line| line.contains(",true,")).count(),
            of_clusters,
            "{clusters}"
        );
        kept
    };
    assert_eq!(stay("", "one"), ["x1", "x5", "z2"]);
    assert_eq!(stay("--keep-count 1", "one-said"), ["x1", "x5", "z2"]);
    assert_eq!(stay("--keep-count 3 --threads 1", "three"), ["x1", "x2", "x3", "x5", "y3", "z2"]);
    assert_eq!(stay("--keep-count 3 --threads 4", "three-again"), ["x1", "x2", "x3", "x5", "y3", "z2"]);
    assert_eq!(stay("--keep-each host", "hosts"), ["x1", "x3", "x4", "x5", "y3", "z2"]);
    assert_eq!(stay("--keep-each file", "files"), ["x1", "x5", "y1", "y3", "z1", "z2"]);
    assert_eq!(stay("--keep-each folder", "folders"), ["x1", "x5", "z1", "z2"]);
    assert_eq!(
        stay("--keep-each folder --keep-count 2 --keep shortest-url", "two"),
        ["x1", "x2", "x5", "y3", "z1", "z2"]
    );
    // The report says how, and says it again.
    let report = place.report("two");
    assert_eq!(report["settings"]["quota"], json!({"count": 2, "each": "folder"}));
    assert_eq!(place.report("one")["settings"].get("quota"), None);
    place.reported("dedup a b --out repeated --write documents.jsonl --settings two/report.json", 0);
    assert_eq!(kept_ids(&place, "repeated"), kept_ids(&place, "two"));
    // Reference documents stay, and count.
    place.reported("dedup a --against b --out new --write documents.jsonl --keep-count 3", 0);
    assert_eq!(kept_ids(&place, "new"), ["x1", "x2", "x5", "y3"]);
    place.reported("inspect new", 0);
    // A document too many, or too few.
    let clusters = fs::read_to_string(place.at("three/clusters.csv")).unwrap();
    fs::write(place.at("three/clusters.csv"), clusters.replacen(",true,", ",false,", 1)).unwrap();
    let reported = place.reported("inspect three", 2);
    assert!(reported.contains("keeps 2"), "{reported}");
    for (options, reported) in [
        ("--keep-count 0", "0 is not in 1.."),
        ("--keep-each country", "[possible values: host, file, folder]"),
    ] {
        let said = place.reported(&format!("dedup a b --out none {options}"), 2);
        assert!(said.contains(reported), "{said}");
    }
}

#[test]
fn the_report_says_which_share_of_removed_near_duplicates_is_lost() {
    let place = Place::new();
    // Of so few features sketches hold all: 20 5-word shingles, 24 with these among them, and others.
    let document = |text: String| json!({ "text": text });
    let (part, whole) = (words(1, 24), words(1, 28));
    place.put("in.jsonl", jsonl(&[part, whole.clone(), whole, words(2, 40)].map(document)));
    let run = |options: &str| {
        let run = place.run(&format!("dedup in.jsonl --out out --force {options}")).assert().success();
        (place.report("out")["missing"].clone(), String::from_utf8(run.get_output().stdout.clone()).unwrap())
    };
    let words = "Of the features of the removed near-duplicates, 16.7 % are not in the documents kept for them (estimated).";
    for options in ["--quiet", "--memory 200MiB", "--verify jaccard"] {
        let (missing, printed) = run(options);
        assert_eq!(missing, json!(4.0 / 24.0), "{options}");
        assert!(printed.contains(words), "{printed}");
        assert!(fs::read_to_string(place.at("out/report.html")).unwrap().contains(words));
    }
    for options in ["--keep fullest", "--preset removable", "--preset removable --memory 200MiB"] {
        assert_eq!(run(options).0, json!(0.0), "{options}");
    }
    for options in ["--method simhash --min-features 1", "--similarity 0.9"] {
        let (missing, printed) = run(options);
        assert!(missing.is_null() && !printed.contains("Of the features"), "{options}: {printed}");
    }
}

#[test]
fn few_documents_with_a_url_are_a_warning() {
    let place = Place::new();
    let document = |n: usize| match n % 10 {
        0 => json!({"url": format!("https://host.example/{n}"), "text": text(n)}),
        _ => json!({"text": text(n)}),
    };
    place.put("few.jsonl", jsonl(&(0..40).map(document).collect::<Vec<_>>()));
    place.put("all.jsonl", jsonl(&(0..4).map(|n| document(10 * n)).collect::<Vec<_>>()));
    for option in ["--keep-each host", "--keep shortest-url", "--boilerplate-by host", "--similarity 0.8"] {
        let told = place.reported(&format!("dedup few.jsonl --out few --force {option}"), 0);
        let expected = "Only 4 documents have the URL that --url-field names, of 40";
        assert_eq!(told.matches(expected).count(), 1, "{told}");
        assert_eq!(place.reported(&format!("dedup all.jsonl --out all --force {option}"), 0), "");
    }
}

#[test]
fn what_each_source_loses_is_reported_and_a_source_that_loses_nearly_all_is_a_warning() {
    let place = Place::new();
    let document = |host: &str, n: usize| json!({"id": format!("{host} {n}"), "url": format!("https://{host}/{n}"), "source": host, "text": text(n)});
    let of = |host: &str, documents: std::ops::Range<usize>| {
        documents.map(|n| document(host, n)).collect::<Vec<_>>()
    };
    place.put("in/a/x.jsonl", jsonl(&of("first.example", 0..30)));
    place.put("in/b/x.jsonl", jsonl(&[of("mirror.example", 0..30), of("own.example", 40..45)].concat()));
    place.put("in/b/y.jsonl", jsonl(&of("few.example", 0..5)));
    let told = place.reported("dedup in --out out", 0);
    place.reported("inspect out", 0);
    let report = place.report("out");
    let by = |kind: &str| {
        report["lost_by_source"].as_array().unwrap().iter().find(|it| it["kind"] == kind).unwrap()
    };
    let row = |source: &str, documents: u64, kept: u64| json!({"source": source, "documents": documents, "kept": kept});
    let hosts = json!([row("mirror.example", 30, 0), row("few.example", 5, 0)]);
    assert_eq!((&by("host")["most"], &by("host")["number"]), (&hosts, &json!(4)));
    assert_eq!(by("host")["removed"], json!([row("mirror.example", 30, 0)]));
    assert_eq!(by("folder")["most"], json!([row("in/b", 40, 5)]));
    assert_eq!(by("file")["most"], json!([row("in/b/x.jsonl", 35, 5), row("in/b/y.jsonl", 5, 0)]));
    let warnings = report["warnings"].to_string();
    let expected = "1 of 4 hosts loses at least 95 % of its documents: mirror.example (30 of 30 documents).";
    assert!(warnings.contains(expected) && !warnings.contains("folders"), "{warnings}");
    // The terminal names it as well, once, and what to do about it.
    let on_disk = place.reported("dedup in --out disk --memory 200MiB", 0);
    for told in [told, on_disk] {
        assert!(told.matches(expected).count() == 1 && told.contains("--boilerplate-by host"), "{told}");
    }
    let told = place.reported("dedup in --out fields --boilerplate-by field:source", 0);
    let of_values = expected.replace("hosts", "values of source");
    assert!(told.contains(expected) && told.contains(&of_values), "{told}");
    // It was given already.
    assert!(!told.contains("--boilerplate-by field:source"), "{told}");
    let refused = place.reported("dedup in --out none --boilerplate-by field:source --max-removed 0.99", 2);
    assert!(refused.contains("would lose 30 of 30 documents"), "{refused}");
    let page = fs::read_to_string(place.at("out/report.html")).unwrap();
    assert!(page.contains("Removed, by host") && page.contains("mirror.example</td>"));
}
