//! Marks for the filters of other programs, held against what these would read.

use super::place::{Place, gz, words};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

/// Two files of documents with gaps: lines that are blank, corrupt, without a text, or with an empty one. And a result
/// of them.
fn result() -> Place {
    let place = Place::new();
    let document = |id: &str, text: String| json!({"id": id, "text": text}).to_string();
    let near = format!("{} and more", words(1, 60));
    let first = [
        document("a", words(1, 60)),
        String::new(),
        "{\"text\": corrupt".to_owned(),
        document("empty", String::new()),
        document("b", near),
        json!({"id": "null", "text": null}).to_string(),
        document("c", words(2, 60)),
        document("a again", words(1, 60)),
        json!({"id": 7, "text": words(5, 60)}).to_string(),
    ];
    let second = [
        document("empty too", String::new()),
        document("c\u{e4}", format!("{}\u{e4}\u{1f600}", words(2, 60))),
        document("d", words(3, 60)),
    ];
    place.put("documents/b/documents.jsonl", first.join("\n") + "\n");
    place.put("documents/b-2.jsonl.gz", gz(second.join("\n").as_bytes()));
    place.reported("dedup documents --out result --quiet", 1);
    place
}

/// The lines of a file that are documents with a text, as their readers count them.
fn lines(place: &Place, name: &str) -> Vec<Value> {
    let mut text = String::new();
    let bytes = fs::read(place.at(name)).unwrap();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => drop(flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap()),
        false => text = String::from_utf8(bytes).unwrap(),
    }
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn ids(documents: &[Value]) -> Vec<String> {
    let id = |document: &Value| document["id"].as_str().map_or(document["id"].to_string(), str::to_owned);
    documents.iter().map(id).collect()
}

#[test]
fn datatrove_drops_what_goes() {
    let place = result();
    place.reported("mark result --for datatrove --out marks", 0);
    place.reported("mark result --for datatrove --out again --threads 1", 0);
    let tasks = fs::read_to_string(place.at("marks/tasks.csv")).unwrap();
    // In the order of bytes; the run has the folder before the file.
    assert_eq!(tasks, "task,file\n0,documents/b-2.jsonl.gz\n1,documents/b/documents.jsonl\n");
    let (mut stays, mut clusters) = (Vec::new(), BTreeMap::<u32, Vec<(String, u32)>>::new());
    for (task, name) in [(1, "documents/b/documents.jsonl"), (0, "documents/b-2.jsonl.gz")] {
        let file = |kind: &str| {
            let name = format!("{task:06}.{kind}");
            let bytes = fs::read(place.at("marks").join(&name)).unwrap();
            assert_eq!(bytes, fs::read(place.at("again").join(&name)).unwrap());
            words_of(&bytes)
        };
        let mut documents = lines(&place, name);
        documents.retain(|document| document["text"].as_str().is_some_and(|text| !text.is_empty()));
        let (remove, of_cluster, sizes) = (file("remove"), file("clusters"), file("sizes"));
        assert!(remove.is_sorted() && of_cluster.chunks(2).is_sorted_by_key(|row| row[0]));
        for (cluster, size) in of_cluster.chunks(2).zip(sizes.chunks(2)) {
            assert_eq!(cluster[0], size[0]);
            let id = documents[cluster[0] as usize]["id"].as_str().unwrap().to_owned();
            clusters.entry(cluster[1]).or_default().push((id, size[1]));
        }
        let kept = (0..).zip(documents).filter(|(at, _)| !remove.contains(at)).map(|(_, document)| document);
        stays.extend(kept);
    }
    let mut kept = lines(&place, "result/kept.jsonl.gz");
    kept.retain(|document| document["text"] != "");
    assert_eq!(ids(&stays), ids(&kept));
    assert_eq!(ids(&kept), ["a", "c", "7", "d"]);
    let of = |ids: &[&str], size| ids.iter().map(|&id| (id.to_owned(), size)).collect::<Vec<_>>();
    let clusters: Vec<_> = clusters.into_values().collect();
    assert_eq!(clusters.len(), 2);
    assert!(clusters.contains(&of(&["a", "b", "a again"], 3)), "{clusters:?}");
    assert!(clusters.contains(&of(&["c", "c\u{e4}"], 2)), "{clusters:?}");
}

#[test]
fn numpy_reads_whether_each_row_stays() {
    let place = result();
    place.reported("mark result --for numpy --out marks", 0);
    let array = |task: u32| {
        let bytes = fs::read(place.at(&format!("marks/{task:06}.npy"))).unwrap();
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\0");
        let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = std::str::from_utf8(&bytes[10..start]).unwrap();
        assert!(start % 64 == 0 && header.ends_with('\n'));
        let array = bytes[start..].iter().map(|&stays| stays == 1).collect::<Vec<_>>();
        let shape = format!("{{'descr': '|b1', 'fortran_order': False, 'shape': ({},), }}", array.len());
        assert_eq!(header.trim_end(), shape);
        array
    };
    // a, corrupt, empty, b, null, c, a again, 7.
    assert_eq!(array(1), [true, false, true, false, false, true, false, true]);
    assert_eq!(array(0), [false, false, true]);
}

#[test]
fn dolma_finds_an_attribute_for_each_document() {
    let place = result();
    place.reported("mark result --for dolma --out marks", 0);
    let mut stays = Vec::new();
    for name in ["b/documents.jsonl", "b-2.jsonl.gz"] {
        let documents = lines(&place, &format!("documents/{name}"));
        let marks = lines(&place, &format!("marks/attributes/simflip/{name}"));
        assert_eq!(ids(&documents), ids(&marks));
        for (document, mark) in documents.into_iter().zip(marks) {
            let spans = mark["attributes"]["simflip_duplicate"].as_array().unwrap().clone();
            match &spans[..] {
                // A line without a text has its marks, too, but is no document that could be kept.
                [] if document["text"].is_string() => stays.push(document),
                [] => {}
                spans => {
                    let length = document["text"].as_str().unwrap().chars().count();
                    assert_eq!(spans, [json!([0, length, 1.0])]);
                }
            }
        }
    }
    assert_eq!(ids(&stays), ids(&lines(&place, "result/kept.jsonl.gz")));
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_has_nothing_to_mark() {
    let place = result();
    std::os::unix::fs::symlink("nowhere", place.at("documents/link.jsonl")).unwrap();
    place.reported("dedup documents --out with-link --quiet", 1);
    let reported = place.reported("mark with-link --for numpy --out marks", 0);
    assert!(place.at("marks").is_dir(), "{reported}");
}

#[test]
fn what_cannot_be_marked_is_refused() {
    let place = result();
    place.put("marks/mine", "years of work");
    let reported = place.reported("mark result --for dolma --out marks", 2);
    assert!(reported.contains("something is there already"), "{reported}");
    let reported = place.reported("mark documents --for dolma --out new", 2);
    assert!(reported.contains("report.json"), "{reported}");
    // What the run read has changed, or is read otherwise.
    for (options, more) in [(" --text-field nothing", ""), ("", "{\"text\": \"one more\"}\n")] {
        let mut documents = fs::read_to_string(place.at("documents/b/documents.jsonl")).unwrap();
        documents.push_str(more);
        place.put("documents/b/documents.jsonl", documents);
        let reported = place.reported(&format!("mark result --for datatrove --out new{options}"), 2);
        assert!(
            reported.contains("jsonl")
                && reported.contains(": content is")
                && reported.contains("run simflip dedup again"),
            "{reported}"
        );
    }
    fs::remove_file(place.at("documents/b/documents.jsonl")).unwrap();
    assert!(
        place.reported("mark result --for datatrove --out new", 2).contains("documents/b/documents.jsonl")
    );
    let csv = format!("text\n{}\n", words(4, 60));
    place.put("table/documents.csv", csv);
    place.reported("dedup table --out of-table --quiet", 0);
    let reported = place.reported("mark of-table --for dolma --out new", 2);
    assert!(reported.contains("lines of JSON, as Dolma has; table/documents.csv is none"), "{reported}");
    place.reported("mark of-table --for datatrove --out of-table-marks", 0);
    assert!(!place.at("new").exists());
}

/// Whoever reads the documents of a result again learns that they stand in another order, which no count tells.
#[test]
fn documents_in_another_order_are_others() {
    let place = Place::new();
    let document = |n: usize| json!({"body": words(1 + n / 2, 60 + n % 2)}).to_string();
    let documents: Vec<String> = (0..8).map(document).collect();
    place.put("in/documents.jsonl", documents.join("\n"));
    place.put("truth.csv", "a,b\n0,1\n");
    place.reported("dedup in --out result --quiet --all-pairs --text-field body", 0);
    // The field of texts is the run's.
    let commands = [
        "mark result --for numpy --out marks",
        "review result --page page.html",
        "evaluate result --truth truth.csv",
    ];
    commands.iter().for_each(|command| drop(place.reported(command, 0)));
    fs::remove_dir_all(place.at("marks")).unwrap();
    fs::remove_file(place.at("page.html")).unwrap();
    let turned: Vec<&str> = documents.iter().rev().map(String::as_str).collect();
    place.put("in/documents.jsonl", turned.join("\n"));
    for command in commands {
        let reported = place.reported(command, 2);
        assert!(
            reported.contains("other texts") && reported.contains("run") && reported.contains("dedup again"),
            "{reported}"
        );
    }
    assert!(!place.at("marks").exists() && !place.at("page.html").exists());
    // A report of an earlier version does not say what the texts were.
    let mut report = place.report("result");
    report["files"][0].as_object_mut().unwrap().remove("texts").unwrap();
    place.put("result/report.json", report.to_string());
    place.reported(commands[0], 0);
    fs::rename(place.at("in/documents.jsonl"), place.at("in/gone.jsonl")).unwrap();
    for command in commands {
        let reported = place.reported(&command.replace("marks", "new"), 2);
        assert!(
            reported.contains("in/documents.jsonl") && reported.contains("folder in which "),
            "{reported}"
        );
    }
}
