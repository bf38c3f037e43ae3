//! Files that are a document each, made into lines of JSON.

use super::place::{Place, words};
use serde_json::Value;
use std::fs;

fn site(place: &Place) {
    place.put("site/b/one.txt", words(1, 60));
    place.put("site/a.md", format!("{} at the end", words(1, 60)));
    place.put("site/b-latin.TXT", b"caf\xe9");
    place.put("site/empty.text", "");
    place.put("site/picture.png", "no document");
    place.put("site/b/page.html", format!("<html><body><p>{}</p></body></html>", words(2, 60)));
    place.put("alone", "\u{feff}a document of another name");
}

fn lines(place: &Place, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(place.at(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn files_become_lines_in_the_order_of_their_paths() {
    let place = Place::new();
    site(&place);
    let code = if cfg!(feature = "html") { 0 } else { 1 };
    let reported = place.reported("gather site alone --out documents.jsonl --url https://example.org/", code);
    assert!(reported.contains("Skipped in folders: 1 file of another format"), "{reported}");
    assert!(
        cfg!(feature = "html")
            || reported.contains("site/b/page.html") && reported.contains("feature `html`")
    );
    let lines = lines(&place, "documents.jsonl");
    let of = |field: &str| -> Vec<String> {
        let value = |line: &Value| line[field].as_str().unwrap().to_owned();
        lines.iter().filter(|line| line["id"] != "site/b/page.html").map(value).collect()
    };
    assert_eq!(of("id"), ["alone", "site/a.md", "site/b/one.txt", "site/b-latin.TXT", "site/empty.text"]);
    let urls = ["alone", "a.md", "b/one.txt", "b-latin.TXT", "empty.text"];
    assert_eq!(of("url"), urls.map(|url| format!("https://example.org/{url}")));
    let latin = if cfg!(feature = "html") { "café" } else { "caf\u{fffd}" };
    assert_eq!(of("text")[3..], [latin, ""]);
    assert_eq!(of("text")[0], "a document of another name");
    if let Some(html) = lines.iter().find(|line| line["id"] == "site/b/page.html") {
        assert_eq!(html["text"].as_str().unwrap().trim(), words(2, 60).trim());
    }
    // What names a folder of a site may end without a slash, and names hold what a URL may not.
    place.put("odd/100% of #1?q=é%20.txt", "a document");
    place.reported("gather odd --out odd.jsonl --url https://example.org", 0);
    let odd: Value = serde_json::from_str(&fs::read_to_string(place.at("odd.jsonl")).unwrap()).unwrap();
    assert_eq!(odd["url"], "https://example.org/100%25%20of%20%231?q=%C3%A9%20.txt");
    // One thread, other order, packed: the same pages.
    place.reported("gather alone site --out again.jsonl.gz --threads 1 --url https://example.org/", code);
    place.reported("dedup documents.jsonl again.jsonl.gz --out result --write documents.jsonl --quiet", 0);
    let report = place.report("result");
    assert_eq!(report["corpus"]["documents"], 2 * lines.len());
    assert_eq!(report["files"][0]["text_bytes"], report["files"][1]["text_bytes"]);
    let near = fs::read_to_string(place.at("result/pairs.csv")).unwrap();
    assert!(near.contains("site/a.md,site/b/one.txt,"), "{near}");
}

#[test]
fn what_cannot_be_gathered_is_reported() {
    let place = Place::new();
    site(&place);
    place.put("mine.jsonl", "years of work");
    let reported = place.reported("gather site --out mine.jsonl", 2);
    assert!(reported.contains("--out mine.jsonl: expected a new file"), "{reported}");
    assert_eq!(fs::read_to_string(place.at("mine.jsonl")).unwrap(), "years of work");
    let reported = place.reported("gather site --out documents.csv", 2);
    assert!(reported.contains("a name that ends in .jsonl"), "{reported}");
    assert!(place.reported("gather - --out new.jsonl", 2).contains("this is a stream"));
    place.put("pictures/one.png", "no document");
    let reported = place.reported("gather pictures --out new.jsonl", 2);
    assert!(reported.contains("no file called .txt, ") && reported.contains("one.png"), "{reported}");
    place.put("texts/long.txt", "a".repeat(1_000_001));
    place.put("texts/short.txt", "b");
    let reported = place.reported("gather texts gone.txt --out new.jsonl", 2);
    assert!(
        reported.contains("no such file or folder: gone.txt") && !place.at("new.jsonl").exists(),
        "{reported}"
    );
    let reported = place.reported("gather texts --out new.jsonl --longest-document 1", 1);
    assert!(
        reported.contains("texts/long.txt") && reported.contains("1000001 bytes, above the 1000000"),
        "{reported}"
    );
    assert_eq!(lines(&place, "new.jsonl").len(), 1);
    // Who tries these files by themselves hears what reads them.
    let reported = place.reported("dedup texts --out result", 2);
    assert!(reported.contains("simflip gather makes lines of JSON"), "{reported}");
}
