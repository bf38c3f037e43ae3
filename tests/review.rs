//! The page of a review, from a result to judgements and back.

use super::cli::{corpus, simflip};
use predicates::prelude::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn result(top: &Path, arguments: &[&str]) -> PathBuf {
    let out = top.join("result");
    simflip().arg("dedup").arg(corpus()).arg("--out").arg(&out).args(arguments).assert().success();
    out
}

/// What the script of a page is given.
pub fn data(page: &Path) -> Value {
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The CSV that the page saves once every pair has the label that `label` gives its place.
pub fn judged(data: &Value, label: impl Fn(usize) -> &'static str) -> String {
    let rows = data["pairs"].as_array().unwrap().iter().enumerate();
    let rows = rows.map(|(i, pair)| format!("{}{}\n", pair["csv"].as_str().unwrap(), label(i)));
    format!("{}\n{}", data["header"].as_str().unwrap(), rows.collect::<String>())
}

#[test]
fn pairs_without_a_distance_are_not_put_into_bands_of_it() {
    let top = tempfile::tempdir().unwrap();
    let out = result(top.path(), &["--method", "minhash"]);
    let pairs = out.join("pairs.csv");
    let mut rows = csv::Reader::from_path(&pairs).unwrap();
    let head = rows.headers().unwrap().clone();
    let distance = head.iter().position(|column| column == "distance").unwrap();
    let without = |row: csv::StringRecord| -> csv::StringRecord {
        row.iter().enumerate().map(|(at, field)| if at == distance { "" } else { field }).collect()
    };
    let rows: Vec<_> = rows.records().map(|row| without(row.unwrap())).collect();
    let mut written = csv::Writer::from_path(&pairs).unwrap();
    written.write_record(&head).unwrap();
    rows.iter().for_each(|row| written.write_record(row).unwrap());
    written.flush().unwrap();
    let review = |by: &str| {
        let mut review = simflip();
        review.arg("review").arg(&out).args(["--by", by]).assert()
    };
    review("distance").code(2).stderr(predicate::str::contains("--by distance: expected similarity"));
    review("similarity").success();
}

#[test]
fn a_sample_is_drawn_judged_and_scored() {
    let top = tempfile::tempdir().unwrap();
    let out = result(
        top.path(),
        &[
            "--method",
            "simhash",
            "--distance",
            "5",
            "--features",
            "words",
            "--weighting",
            "tf-idf",
            "--verify",
            "none",
        ],
    );
    simflip()
        .args(["review", "--sample", "40", "--seed", "3"])
        .arg(&out)
        .assert()
        .success()
        .stdout(predicate::str::contains("40 of ").and(predicate::str::contains("review.html")));
    simflip().arg("inspect").arg(&out).assert().success();
    let page = fs::read(out.join("review.html")).unwrap();
    let data = data(&out.join("review.html"));
    let bands: Vec<&str> =
        data["strata"].as_array().unwrap().iter().map(|band| band["name"].as_str().unwrap()).collect();
    assert_eq!(bands, ["distance 0", "distance 1", "distance 2", "distance 3", "distance 4", "distance 5"]);
    let pairs = data["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 40);
    // Every text came back from the files: pairs of different texts show a difference, or say
    // that it is white space only.
    for pair in pairs {
        assert!(pair["sides"].as_array().unwrap().iter().all(|side| side["bytes"].as_u64().unwrap() > 0));
        let differs = pair["parts"].as_array().unwrap().iter().any(|part| part.get("differs").is_some());
        assert!(differs || pair["notes"].to_string().contains("white space"), "{pair}");
    }
    let csv = top.path().join("judged.csv");
    fs::write(&csv, judged(&data, |i| ["duplicate", "0.5", "distinct", "unknown", "duplicate"][i % 5]))
        .unwrap();
    let evaluate = |arguments: &[&str]| {
        let mut command = simflip();
        command.arg("evaluate").arg(&out).args(["--json", "--judged"]).arg(&csv).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["precision"].as_f64().unwrap()
    };
    let (strict, loose) = (evaluate(&[]), evaluate(&["--min-label", "0.5"]));
    // Two or three of four judged pairs, weighted by bands.
    assert!(0.35 < strict && strict < loose && loose < 0.9, "{strict} {loose}");

    // The same seed draws the same page but for the time; another draws others.
    let again = top.path().join("again.html");
    simflip()
        .args(["review", "--sample", "40", "--seed", "3", "--page"])
        .arg(&again)
        .arg(&out)
        .assert()
        .success();
    let texts = |page: &[u8]| {
        String::from_utf8(page.to_vec()).unwrap().split_once("\"pairs\":").unwrap().1.to_owned()
    };
    assert!(texts(&page) == texts(&fs::read(&again).unwrap()));
    simflip()
        .args(["review", "--sample", "40", "--seed", "4", "--page"])
        .arg(&again)
        .arg(&out)
        .assert()
        .success();
    assert!(texts(&page) != texts(&fs::read(&again).unwrap()));

    // Judgements of another result are no judgements of this one.
    let other = top.path().join("other");
    simflip().arg("dedup").arg(corpus()).arg("--out").arg(&other).assert().success();
    simflip()
        .arg("evaluate")
        .arg(&other)
        .arg("--judged")
        .arg(&csv)
        .assert()
        .code(2)
        .stderr(predicate::str::contains("the result lists"));
}

#[test]
fn minhash_and_checked_results_are_drawn_by_similarity() {
    let top = tempfile::tempdir().unwrap();
    for (name, arguments) in [
        ("minhash", &["--method", "minhash", "--features", "shingles:5"][..]),
        ("verified", &["--method", "simhash", "--distance", "10", "--verify", "jaccard"]),
    ] {
        let folder = top.path().join(name);
        fs::create_dir(&folder).unwrap();
        let out = result(&folder, arguments);
        simflip().arg("review").arg(&out).assert().success();
        let data = data(&out.join("review.html"));
        let names: Vec<&str> =
            data["strata"].as_array().unwrap().iter().map(|band| band["name"].as_str().unwrap()).collect();
        assert!(names.len() > 2 && names.iter().all(|name| name.starts_with("similarity")), "{names:?}");
    }
}

#[test]
fn an_input_that_moved_is_named_and_can_be_shown() {
    let top = tempfile::tempdir().unwrap();
    let text = |i: usize, last: &str| {
        let words: Vec<String> = (0..60).map(|w| format!("word{}", (i * 37 + w * w) % 500)).collect();
        format!("{{\"text\": \"{} {last}\"}}\n", words.join(" "))
    };
    let lines: String = (0..40).map(|i| text(i / 2, if i % 2 == 0 { "" } else { "today" })).collect();
    let (before, after) = (top.path().join("pages.jsonl"), top.path().join("moved.jsonl"));
    fs::write(&before, &lines).unwrap();
    let out = top.path().join("result");
    simflip()
        .arg("dedup")
        .arg(&before)
        .args([
            "--method",
            "simhash",
            "--distance",
            "8",
            "--features",
            "words",
            "--weighting",
            "tf-idf",
            "--verify",
            "none",
            "--out",
        ])
        .arg(&out)
        .assert()
        .success();
    fs::rename(&before, &after).unwrap();
    let review = |corpus: &[&Path]| {
        let mut command = simflip();
        command.arg("review").arg(&out);
        if !corpus.is_empty() {
            command.arg("--corpus").args(corpus);
        }
        command.assert()
    };
    review(&[])
        .code(2)
        .stderr(predicate::str::contains("pages.jsonl").and(predicate::str::contains("--corpus")));
    assert!(!out.join("review.html").exists());
    // These pages have no ids; results name them by their place in a file that is now called otherwise.
    review(&[&after]).success();
    fs::write(&after, lines.replace("word1", "word2 word3")).unwrap();
    review(&[&after]).code(2).stderr(predicate::str::contains("was made from"));
    let none = top.path().join("none");
    simflip()
        .arg("dedup")
        .arg(&after)
        .args(["--method", "simhash", "--distance", "0", "--min-features", "1000", "--out"])
        .arg(&none)
        .assert()
        .success();
    simflip()
        .arg("review")
        .arg(&none)
        .assert()
        .code(2)
        .stderr(predicate::str::contains("pairs of different texts"));
}

/// A page as a real browser has it once its scripts have run.
fn in_browser(folder: &Path, page: &str) -> String {
    let path = folder.join("copy.html");
    fs::write(&path, page).unwrap();
    let dom = std::process::Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--virtual-time-budget=3000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", path.display()))
        .output()
        .expect("chromium is there");
    String::from_utf8(dom.stdout).unwrap()
}

/// Looks at the pages in its frames with all details unfolded, and leaves what is wrong with them as the body's text.
const LOOK: &str = r#"
const faults = [], frames = [...document.querySelectorAll('iframe')];
const rgb = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
const light = (colour) => rgb(colour).slice(0, 3).map((v) => v / 255)
  .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const behind = (element, view) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = view.getComputedStyle(at).backgroundColor;
    if (rgb(colour)[3] !== 0) return colour;
  }
  return 'rgb(255, 255, 255)';
};
for (const frame of frames) {
  const page = frame.contentDocument, view = frame.contentWindow;
  const fault = (text) => faults.push(frame.title + ': ' + text);
  const named = (element) => ['aria-label', 'aria-labelledby', 'alt', 'title'].some((name) => element.getAttribute(name));
  page.querySelectorAll('details').forEach((details) => { details.open = true; });
  const width = page.documentElement.scrollWidth;
  if (width > frame.clientWidth) fault(width + ' pixels are wider than the window');
  const headings = page.querySelectorAll('h1').length;
  if (headings !== 1) fault(headings + ' headings of the first level');
  for (const element of page.querySelectorAll('img, svg, progress, iframe, [role=img], [role=progressbar]'))
    if (!named(element)) fault('no name: ' + element.outerHTML.slice(0, 80));
  for (const element of page.querySelectorAll('.scroll'))
    if (element.tabIndex < 0) fault('no focus: ' + element.outerHTML.slice(0, 80));
  for (const element of page.querySelectorAll('th'))
    if (!element.textContent.trim()) fault('an empty heading: ' + element.parentElement.outerHTML.slice(0, 80));
  for (const element of page.body.querySelectorAll('*')) {
    const has_text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!has_text || element.closest('svg, script, style, noscript, .unseen') || !element.getClientRects().length) continue;
    const pair = [light(view.getComputedStyle(element).color), light(behind(element, view))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) fault('a contrast of ' + contrast.toFixed(2) + ': ' + element.outerHTML.slice(0, 80));
  }
}
document.body.textContent = 'pages: ' + frames.length + '; ' + JSON.stringify([...new Set(faults)]);
"#;

/// Pages fit into windows of any width, on paper and in the dark, and whoever does not see them finds their way.
#[test]
#[ignore = "needs chromium"]
fn pages_fit_and_are_named_in_a_browser() {
    let top = tempfile::tempdir().unwrap();
    let out = result(top.path(), &[]);
    simflip().arg("review").arg(&out).assert().success();
    let mut frames = String::new();
    for name in ["report.html", "review.html"] {
        let page = fs::read_to_string(out.join(name)).unwrap();
        for (look, from) in
            [("light", ""), ("dark", "@media (prefers-color-scheme: dark)"), ("print", "@media print")]
        {
            assert!(page.contains(from), "{name}, {look}");
            let page = if from.is_empty() { page.clone() } else { page.replace(from, "@media all") };
            let page = page.replace('&', "&amp;").replace('"', "&quot;");
            for width in [1280, 400] {
                frames += &format!(
                    "<iframe title=\"{name}, {look}, {width}\" width=\"{width}\" height=\"900\" frameborder=\"0\" srcdoc=\"{page}\"></iframe>"
                );
            }
        }
    }
    let page = format!(
        "<!DOCTYPE html><html><body>{frames}<script>onload = () => {{ {LOOK} }};</script></body></html>"
    );
    let dom = in_browser(top.path(), &page);
    assert!(dom.contains("pages: 12; []"), "{}", dom.split("pages: ").last().unwrap_or_default());
}

/// A whole judgement in a real browser, key by key: the page's figures are those of `simflip evaluate`.
///
/// Run it with `cargo test -- --ignored browser`; it needs `chromium`.
#[test]
#[ignore = "needs chromium"]
fn the_browser_agrees() {
    let top = tempfile::tempdir().unwrap();
    let out = result(
        top.path(),
        &[
            "--method",
            "simhash",
            "--distance",
            "6",
            "--features",
            "words",
            "--weighting",
            "tf-idf",
            "--verify",
            "none",
        ],
    );
    simflip().arg("review").arg(&out).assert().success();
    let page = fs::read_to_string(out.join("review.html")).unwrap();
    let nonce = &page.split("nonce-").nth(1).unwrap()[..32];
    // 70 judgements, two taken back, one changed; then the file that would be saved is put on the page.
    let keys: Vec<&str> = (0..70)
        .map(|i| ["y", "y", "n", "y", "v", "y", "u"][i * i % 7])
        .chain(["z", "Backspace", "ArrowLeft", "n", "j", "k", "e", "s"])
        .collect();
    let script = format!(
        "<script nonce=\"{nonce}\">(async () => {{ let blob; URL.createObjectURL = (b) => {{ blob = b; return 'data:,'; }};\
         for (const key of [...{}, 'd']) document.dispatchEvent(new KeyboardEvent('keydown', {{ key, bubbles: true }}));\
         document.body.innerHTML = '<pre id=\"csv\"></pre>' + '<table>' + document.getElementById('estimates').outerHTML + '</table>';\
         document.getElementById('csv').textContent = await blob.text(); }})();</script></body>",
        serde_json::to_string(&keys).unwrap()
    );
    let dom = in_browser(top.path(), &page.replace("</body>", &script));
    let csv = dom.split_once("<pre id=\"csv\">").unwrap().1.split_once("</pre>").unwrap().0;
    let judged = top.path().join("judged.csv");
    fs::write(&judged, csv.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap();
    assert_eq!(
        csv.lines().filter(|line| !line.ends_with(',')).count(),
        1 + 68,
        "70 judged, two of them taken back"
    );
    for label in ["1", "0.5"] {
        simflip()
            .arg("evaluate")
            .arg(&out)
            .args(["--min-label", label, "--judged"])
            .arg(&judged)
            .assert()
            .success()
            .stdout(predicate::function(|text: &str| {
                // "precision 0.6526  [0.5489, 0.7437], of 719 pairs listed"
                let mut words = text.split_whitespace();
                let value = words.nth(1).unwrap();
                let interval =
                    format!("{} {}", words.next().unwrap(), words.next().unwrap().trim_end_matches(','));
                dom.contains(&format!("<td class=\"n\">{value}</td><td class=\"n\">{interval}</td>"))
            }));
    }
}
