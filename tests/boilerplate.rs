//! Documents without the boilerplate of their group.

use super::cli::simflip;
use super::place::Place;
use predicates::prelude::*;
use serde_json::Value;
use simflip::hash::SplitMix64;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Text of its own, a line of so many words each.
fn lines(rng: &mut SplitMix64, n: usize, words: usize) -> Vec<String> {
    let line = |rng: &mut SplitMix64| {
        let words: Vec<String> = (0..words).map(|_| format!("w{:x}", rng.next_u64() >> 32)).collect();
        words.join(" ")
    };
    (0..n).map(|_| line(rng)).collect()
}

/// Documents of the shop.
const FORMS: usize = 80;

/// Documents by name: a shop whose forms share nearly all but the product, a site with near-copies in two boilerplate,
/// five near-copies on one host, and two documents of nothing but boilerplate.
fn documents() -> Vec<(String, String, String)> {
    let rng = &mut SplitMix64::new(12);
    let mut documents = Vec::new();
    let mut add = |name: String, host: &str, text: Vec<String>| {
        documents.push((name.clone(), format!("https://{host}/{name}"), text.join("\n")));
    };
    let form = lines(rng, 40, 6);
    for n in 0..FORMS {
        add(format!("form-{n}"), "shop.example", [&form[..20], &lines(rng, 1, 16), &form[20..]].concat());
    }
    let boilerplate = [lines(rng, 30, 5), lines(rng, 30, 5)];
    let article = lines(rng, 6, 30);
    for (n, boilerplate) in boilerplate.iter().enumerate() {
        for other in 0..8 {
            add(
                format!("other-{n}-{other}"),
                "news.example",
                [&boilerplate[..], &lines(rng, 6, 30)].concat(),
            );
        }
        add(format!("article-{n}"), "news.example", [&boilerplate[..], &article].concat());
        add(format!("bare-{n}"), "news.example", boilerplate.clone());
    }
    add("bare-again".into(), "news.example", [&boilerplate[0][..], &["Last changed today".into()]].concat());
    let text = lines(rng, 24, 12);
    for n in 0..5 {
        add(format!("copy-{n}"), "copies.example", [&text[..], &lines(rng, 1, 12)].concat());
    }
    documents
}

fn write(path: &Path, documents: &[(String, String, String)]) {
    let line = |(id, url, text): &(String, String, String)| {
        serde_json::json!({"id": id, "url": url, "text": text}).to_string() + "\n"
    };
    fs::write(path, documents.iter().map(line).collect::<String>()).unwrap();
}

fn run(inputs: &[&Path], out: PathBuf, options: &[&str]) -> PathBuf {
    let mut command = simflip();
    // A run that is repeated takes this from its report.
    let all_pairs = (!options.contains(&"--settings")).then_some("--all-pairs");
    command.arg("dedup").args(inputs).args(all_pairs).args(["--quiet", "--out"]).arg(&out);
    command.args(options).assert().success();
    out
}

fn report(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
}

fn pairs(folder: &Path) -> BTreeSet<(String, String)> {
    let table = fs::read_to_string(folder.join("pairs.csv")).unwrap();
    let pair = |line: &str| {
        let mut ids = line.split(',').map(str::to_owned);
        let (a, b) = (ids.next().unwrap(), ids.next().unwrap());
        if a < b { (a, b) } else { (b, a) }
    };
    table.lines().skip(1).map(pair).collect()
}

fn among<'a>(
    pairs: &'a BTreeSet<(String, String)>,
    name: &'a str,
) -> impl Iterator<Item = &'a (String, String)> {
    pairs.iter().filter(move |(a, b)| a.starts_with(name) && b.starts_with(name))
}

#[test]
fn boilerplate_neither_makes_nor_hides_near_duplicates() {
    let top = tempfile::tempdir().unwrap();
    let input = top.path().join("documents.jsonl");
    write(&input, &documents());
    for method in ["both", "simhash", "minhash"] {
        let with = pairs(&run(&[&input], top.path().join(format!("{method}-1")), &["--method", method]));
        assert!(among(&with, "form").count() > 300, "{method}");
        assert_eq!(among(&with, "article").count(), 0, "{method}");
        assert_eq!(among(&with, "copy").count(), 10, "{method}");

        let out = top.path().join(format!("{method}-2"));
        let out = run(&[&input], out, &["--method", method, "--boilerplate-by", "host"]);
        let without = pairs(&out);
        assert_eq!(among(&without, "form").count(), 0, "{method}");
        assert_eq!(among(&without, "article").count(), 1, "{method}");
        assert_eq!(among(&without, "copy").count(), 10, "{method}");
        assert_eq!(among(&without, "bare").count(), 0, "{method}");
        let boilerplate = &report(&out)["boilerplate"];
        assert_eq!(boilerplate["all"]["whole_documents"], 2, "{boilerplate}");
        assert_eq!(boilerplate["groups"], 2, "copies.example has one content");
        assert_eq!(boilerplate["most"][0]["group"], "shop.example");
        assert_eq!(boilerplate["most"][0]["boilerplate_lines"], FORMS * 40);
        assert_eq!(boilerplate["most"].as_array().unwrap().len(), 2);
        simflip().arg("inspect").arg(&out).assert().success();
    }
}

#[test]
fn documents_without_urls_have_boilerplate_of_their_file_folder_or_field_or_of_all() {
    let place = Place::new();
    let rng = &mut SplitMix64::new(5);
    let shared = lines(rng, 30, 5);
    let articles: Vec<Vec<String>> = (0..4).map(|_| lines(rng, 4, 20)).collect();
    let put = |file: &str, articles: &[Vec<String>]| {
        let document = |(n, article): (usize, &Vec<String>)| {
            let text = [&shared[..], article].concat().join("\n");
            let meta = serde_json::json!({"source": &file[..1]});
            serde_json::json!({"id": format!("{file}-{n}"), "text": text, "meta": meta}).to_string() + "\n"
        };
        place.put(file, articles.iter().enumerate().map(document).collect::<String>());
    };
    // Three contents are in the first file, two in each of the others, and four in their folder.
    put("a/1.jsonl", &articles[..3]);
    put("b/1.jsonl", &articles[..2]);
    put("b/2.jsonl", &articles[2..]);
    let ignored = |by: &str| {
        let out = format!("by-{by}");
        place.reported(&format!("dedup a b --out {out} --boilerplate-by {by}"), 0);
        place.reported(&format!("inspect {out}"), 0);
        let boilerplate = &place.report(&out)["boilerplate"];
        let lines = boilerplate["all"]["boilerplate_lines"].as_u64().unwrap();
        (boilerplate["by"].as_str().unwrap().to_owned(), boilerplate["groups"].as_u64().unwrap(), lines)
    };
    assert_eq!(ignored("file"), ("file".into(), 1, 3 * 30));
    assert_eq!(ignored("folder"), ("folder".into(), 2, 7 * 30));
    assert_eq!(ignored("all"), ("all".into(), 1, 7 * 30));
    // Those of the first folder have one value, and those of the other another.
    assert_eq!(ignored("field:meta.source"), ("field:meta.source".into(), 2, 7 * 30));
    let reported = place.reported("dedup a b --out none --boilerplate-by field:meta.sauce", 2);
    assert!(
        reported.contains("values that group documents") && reported.contains("meta.source"),
        "{reported}"
    );
    let reported = place.reported("dedup a b --out none --boilerplate-by field:", 2);
    assert!(reported.contains("expected host, file, folder, all or field:NAME"), "{reported}");
    // A column does as well as a field.
    let rows =
        articles.iter().map(|article| format!("s,\"{}\"\n", [&shared[..], article].concat().join("\n")));
    place.put("rows.csv", "kind,text\n".to_owned() + &rows.collect::<String>());
    place.reported("dedup rows.csv --out rows --boilerplate-by field:kind --save-boilerplate of-kind", 0);
    assert_eq!(place.report("rows")["boilerplate"]["all"]["boilerplate_lines"], 4 * 30);
    place.reported("dedup rows.csv --out again --boilerplate of-kind", 0);
    assert_eq!(place.report("again")["boilerplate"]["all"]["boilerplate_lines"], 4 * 30);
    place.reported("explain rows.csv:0 rows.csv:1 rows.csv --boilerplate of-kind", 0);
    let reported = place.reported("dedup a b --out none --boilerplate-by host", 2);
    assert!(reported.contains("--boilerplate-by host needs"), "{reported}");
    // Saved boilerplate is that of the groups by which it was counted.
    place.reported("dedup a --out saves --boilerplate-by all --save-boilerplate lines", 0);
    place.reported("dedup b --out loads --boilerplate lines", 0);
    let loaded = &place.report("loads")["boilerplate"];
    assert_eq!((&loaded["by"], &loaded["all"]["boilerplate_lines"]), (&"all".into(), &(4 * 30).into()));
}

#[test]
fn boilerplate_is_shown_apart() {
    let top = tempfile::tempdir().unwrap();
    let input = top.path().join("documents.jsonl");
    let mut documents = documents();
    write(&input, &documents);
    let explained = |options: &[&str]| {
        let mut command = simflip();
        command.args(["explain", "article-0", "article-1"]).arg(&input).args(["--json", "--quiet"]);
        let out = command.args(options).assert().success().get_output().stdout.clone();
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    let (with, without) = (explained(&[]), explained(&["--boilerplate-by", "host"]));
    assert!(with["jaccard"].as_f64() < Some(0.6) && with["boilerplate"] == serde_json::json!([[], []]));
    assert_eq!((without["jaccard"].as_f64(), without["edit_distance"].as_u64()), (Some(1.0), Some(0)));
    for (n, article) in [(0, "article-0"), (1, "article-1")] {
        let text = &documents.iter().find(|document| document.0 == article).unwrap().2;
        let boilerplate = without["boilerplate"][n].as_array().unwrap();
        assert_eq!(boilerplate.len(), 30);
        assert!(boilerplate.iter().zip(text.lines()).all(|(line, own)| line == own));
    }
    let mut command = simflip();
    command.args(["explain", "article-0", "article-1", "--boilerplate-by", "host", "--quiet"]).arg(&input);
    command.assert().success().stdout(predicate::str::contains("boilerplate of b, which is left out"));

    // One word differs, so that the pair is no copy and can be drawn.
    documents.iter_mut().find(|document| document.0 == "article-1").unwrap().2 += " more";
    write(&input, &documents);
    let out = run(&[&input], top.path().join("out"), &["--boilerplate-by", "host"]);
    simflip().arg("review").arg(&out).arg("--quiet").assert().success();
    let page = fs::read_to_string(out.join("review.html")).unwrap();
    let boilerplate = documents
        .iter()
        .find(|document| document.0 == "other-0-0")
        .unwrap()
        .2
        .lines()
        .next()
        .unwrap()
        .to_owned();
    let shown = page.matches(r#"{"boilerplate":["#).count();
    assert!(shown > 0 && page.contains(&boilerplate), "{shown} blocks of boilerplate");
}

#[test]
fn documents_of_nothing_but_boilerplate_are_compared_whole() {
    let top = tempfile::tempdir().unwrap();
    let (one, two) = (top.path().join("1.jsonl"), top.path().join("2.jsonl"));
    let mut documents = documents();
    write(&one, &documents);
    let saved = top.path().join("boilerplate").display().to_string();
    run(&[&one], top.path().join("one"), &["--boilerplate-by", "host", "--save-boilerplate", &saved]);
    // Two documents of the same boilerplate, one of them short of a line.
    let bare = documents.iter().find(|document| document.0 == "bare-0").unwrap().2.clone();
    let short = bare.split_once('\n').unwrap().1.to_owned();
    documents = vec![
        ("whole".into(), "https://news.example/1".into(), bare),
        ("short".into(), "https://news.example/2".into(), short),
    ];
    write(&two, &documents);
    let out = run(&[&two], top.path().join("two"), &["--boilerplate", &saved]);
    assert_eq!(pairs(&out).len(), 1);
    assert_eq!(report(&out)["boilerplate"]["all"]["whole_documents"], 2);
}

#[test]
fn neither_threads_nor_files_change_boilerplate() {
    let top = tempfile::tempdir().unwrap();
    let mut documents = documents();
    // One text on two hosts, of which only one has a boilerplate.
    let (_, _, text) = documents[3].clone();
    documents.push(("elsewhere".into(), "https://a.example/".into(), text));
    let whole = top.path().join("documents.jsonl");
    write(&whole, &documents);
    let first = top.path().join("boilerplate-1").display().to_string();
    let one = run(
        &[&whole],
        top.path().join("one"),
        &["--threads", "1", "--boilerplate-by", "host", "--save-boilerplate", &first],
    );
    // The same pages backwards, in files of seven.
    documents.reverse();
    let files: Vec<PathBuf> = documents
        .chunks(7)
        .enumerate()
        .map(|(n, documents)| {
            let path = top.path().join(format!("{n:02}.jsonl"));
            write(&path, documents);
            path
        })
        .collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let second = top.path().join("boilerplate-2").display().to_string();
    let two = run(
        &files,
        top.path().join("two"),
        &["--threads", "5", "--boilerplate-by", "host", "--save-boilerplate", &second],
    );
    assert_eq!(pairs(&one), pairs(&two));
    assert!(!pairs(&one).is_empty());
    assert_eq!(report(&one)["boilerplate"], report(&two)["boilerplate"]);
    assert!(fs::read(&first).unwrap() == fs::read(&second).unwrap(), "the saved boilerplate");
}

#[test]
fn stages_leave_out_the_boilerplate_of_a_file() {
    let place = Place::new();
    let documents = documents();
    for (name, part) in ["a", "b"].into_iter().zip(documents.chunks(documents.len().div_ceil(2))) {
        write(&place.put(&format!("crawl/{name}.jsonl"), ""), part);
    }
    place.reported("dedup crawl --out counted --boilerplate-by host --save-boilerplate lines", 0);
    place.reported("dedup crawl --out other --boilerplate-by all --save-boilerplate others", 0);
    let sketch = |arguments: &str, code: i32| place.reported(&format!("sketch {arguments}"), code);
    for _ in 0..2 {
        let reported = sketch("crawl --out sketches --boilerplate lines", 0);
        assert!(!reported.contains("warning"), "{reported}");
    }
    place.reported("join sketches", 0);
    place.reported("cluster sketches --tables tables", 0);
    assert_eq!(pairs(&place.at("tables")), pairs(&place.at("counted")));
    place.reported("dedup crawl --out plain", 0);
    assert!(pairs(&place.at("tables")) != pairs(&place.at("plain")));
    simflip().arg("inspect").arg(place.at("sketches")).assert().success();
    // Sketches of other documents, which are without other lines.
    for other in ["", " --boilerplate others"] {
        let reported = sketch(&format!("crawl --out sketches{other}"), 2);
        assert!(reported.contains("a setting is another"), "{reported}");
        sketch(&format!("crawl/a.jsonl --out mixed{other} --force"), 0);
        sketch("crawl/b.jsonl --out mixed --boilerplate lines --force", 0);
        let reported = place.reported("join mixed", 2);
        assert!(reported.contains("sketch both with the same settings"), "{reported}");
    }
    let reported = place.reported("seen --index i --import sketches", 2);
    assert!(reported.contains("without --boilerplate"), "{reported}");
    // Documents without what groups need.
    let reported = sketch("crawl --url-field address --out unnamed --boilerplate lines", 0);
    assert!(reported.contains("which --boilerplate needs, with a host"), "{reported}");
}

#[test]
fn boilerplate_is_saved_used_and_refused() {
    let top = tempfile::tempdir().unwrap();
    let input = top.path().join("documents.jsonl");
    write(&input, &documents());
    let saved = top.path().join("boilerplate").display().to_string();
    let one =
        run(&[&input], top.path().join("one"), &["--boilerplate-by", "host", "--save-boilerplate", &saved]);
    let two = run(&[&input], top.path().join("two"), &["--boilerplate", &saved]);
    assert_eq!(pairs(&one), pairs(&two));
    let (first, second) = (report(&one), report(&two));
    assert_eq!(first["boilerplate"]["most"], second["boilerplate"]["most"]);
    assert_eq!(
        (&first["boilerplate"]["from"], second["boilerplate"]["from"].as_str()),
        (&Value::Null, Some(&*saved))
    );
    simflip().args(["inspect", &saved]).assert().success().stdout(predicate::str::contains("lines"));
    // A run is repeated with its boilerplate, counted or named.
    for (n, earlier) in [one, two].iter().enumerate() {
        let settings = earlier.join("report.json").display().to_string();
        let again = run(&[&input], top.path().join(format!("again-{n}")), &["--settings", &settings]);
        assert_eq!(pairs(&again), pairs(earlier));
        assert_eq!(report(&again)["boilerplate"], report(earlier)["boilerplate"]);
    }
    let input = input.display().to_string();
    let refused = |options: &[&str], reported: &str| {
        let out = top.path().join("refused").display().to_string();
        let mut command = simflip();
        command.args(["dedup", &input, "--out", &out]).args(options);
        command.assert().code(2).stderr(predicate::str::contains(reported));
    };
    refused(&["--boilerplate-by", "host", "--boilerplate", &saved], "cannot be used with");
    refused(&["--save-boilerplate", "f"], "--save-boilerplate has no effect without --boilerplate-by");
    refused(&["--boilerplate", &saved, "--save-boilerplate", "f"], "has no effect with --boilerplate");
    refused(&["--boilerplate-by", "host", "--save-boilerplate", "no/f"], "a file in a folder that is there");
    refused(&["--boilerplate", &input], "the magic");
    let mut bytes = fs::read(&saved).unwrap();
    bytes.truncate(bytes.len() - 9);
    fs::write(&saved, bytes).unwrap();
    refused(&["--boilerplate", &saved], "boilerplate");
}
