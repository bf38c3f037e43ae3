//! Results as simflip 0.1.0 wrote them first, with settings in words only, are still read:
//! `tests/results-v1/` holds two of them, made from `pages.jsonl` beside them by
//!
//! ```text
//! simflip dedup pages.jsonl --out checked
//! simflip dedup pages.jsonl --out unchecked --method psm --budget 300 --distance 6 \
//!     --verify none --clusters star --all-pairs
//! ```
//!
//! Their pages in HTML are left out, as they are made anew from a report, and only by the version that wrote
//! it.

use super::cli::simflip;
use predicates::prelude::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results-v1")
}

/// A copy of a folder of results that may be changed.
fn copy_of(name: &str, top: &Path) -> PathBuf {
    let copy = top.join(name);
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(results().join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    copy
}

#[test]
fn inspect_finds_them_in_order() {
    for name in ["checked", "unchecked"] {
        let folder = results().join(name);
        let shows = |path: &Path, what: &str| {
            simflip().arg("inspect").arg(path).assert().success().stdout(predicate::str::contains(what));
        };
        shows(&folder, "folder of results");
        shows(&folder.join("report.json"), "verify");
        shows(&folder.join("pairs.csv"), "table of pairs");
        shows(&folder.join("clusters.csv"), "table of clusters");
    }
}

#[test]
fn what_pairs_must_fit_is_read_from_the_words() {
    let top = tempfile::tempdir().unwrap();
    let (checked, unchecked) = (copy_of("checked", top.path()), copy_of("unchecked", top.path()));
    let change = |folder: &Path, from: &str, to: &str| {
        let path = folder.join("pairs.csv");
        let before = fs::read_to_string(&path).unwrap();
        let changed = before.replacen(from, to, 1);
        assert_ne!(before, changed, "{from}");
        fs::write(&path, changed).unwrap();
        let output = simflip().arg("inspect").arg(folder).output().unwrap();
        fs::write(&path, before).unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    // Every pair passed a check at 0.93 and lies in one cluster.
    let told = change(&checked, ",0.9639,", ",0.9239,");
    assert!(told.contains("line 2: a similarity below the threshold of the check"), "{told}");
    let told = change(&checked, "\npage 0,", "\npage 5,");
    assert!(told.contains("line 2: documents of two clusters of clusters.csv"), "{told}");
    // No check was made, and a star of clusters has pairs between them.
    assert_eq!(change(&unchecked, "\npage 0,", "\npage 5,"), "");
    assert_eq!(change(&unchecked, ",0.9892,near,hash-cosine", ",0.1000,near,weights"), "");
}

#[test]
fn pairs_are_put_into_bands_by_what_the_words_say_of_a_check() {
    let top = tempfile::tempdir().unwrap();
    for (name, measure) in [("checked", "similarity"), ("unchecked", "distance")] {
        let page = top.path().join(format!("{name}.html"));
        simflip()
            .arg("review")
            .arg(results().join(name))
            .arg("--corpus")
            .arg(results().join("pages.jsonl"))
            .arg("--page")
            .arg(&page)
            .assert()
            .success();
        let page = fs::read_to_string(page).unwrap();
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
        let bands = data["strata"].as_array().unwrap();
        assert!(bands.len() > 1, "{bands:?}");
        assert!(bands.iter().all(|band| band["name"].as_str().unwrap().starts_with(measure)), "{bands:?}");
        // The judgements of such a page are those of the result.
        let rows = data["pairs"].as_array().unwrap().iter();
        let rows: String = rows.map(|pair| pair["csv"].as_str().unwrap().to_owned() + "1\n").collect();
        let judged = top.path().join(format!("{name}.csv"));
        fs::write(&judged, format!("{}\n{rows}", data["header"].as_str().unwrap())).unwrap();
        simflip()
            .arg("evaluate")
            .arg(results().join(name))
            .arg("--judged")
            .arg(&judged)
            .assert()
            .success()
            .stdout(predicate::str::contains("precision 1.0000"));
    }
}

#[test]
fn they_are_held_against_a_truth() {
    let top = tempfile::tempdir().unwrap();
    let truth = top.path().join("truth.csv");
    let pairs = "page 0,page 0 edited\npage 3,page 3 edited\npage 3,page 3 again\npage 3 edited,page 3 again\n\
                 page 5,page 5 edited\npage 6,page 6 copy\npage 1,page 2\n";
    fs::write(&truth, format!("a_id,b_id\n{pairs}")).unwrap();
    for (name, found) in [("checked", 6), ("unchecked", 5)] {
        let mut evaluate = simflip();
        evaluate.arg("evaluate").arg(results().join(name)).arg("--truth").arg(&truth).arg("--json");
        let output = evaluate.arg("--corpus").arg(results().join("pages.jsonl")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let share = |of: &str| {
            let share = &told["pairs"][of];
            (share["numerator"].as_u64().unwrap(), share["denominator"].as_u64().unwrap())
        };
        assert_eq!((share("precision"), share("recall")), ((found, found), (found, 7)), "{told}");
        assert_eq!(told["denominators"]["corpus"], 13);
    }
}
