//! The worst cases, small enough for every run of the tests: what comes of them, and that the
//! counted work stays bounded.

use simflip::clusters::Linkage;
use simflip::pipeline::{Job, Silent, dedup};
use simflip::report::Report;
use simflip::settings::{Generator, Recall, Settings, Sketches, Verification};
use simflip::text::FeatureKind;
use simflip::weight::Weighting;
use std::fs;
use std::path::Path;

/// Words by TF-IDF within 3 bits, whatever the defaults are: what is asserted here holds for these.
fn usual() -> Settings {
    Settings::simhash().with(|settings| {
        settings.features = FeatureKind::Words;
        settings.sketches = Sketches::SimHash { weighting: Weighting::TfIdf };
        settings.generator = Generator::Join { distance: 3 };
        settings.verification = Verification::None;
        settings.linkage = Linkage::Connected;
    })
}

/// Runs over these texts.
fn run(texts: impl Iterator<Item = String>, settings: Settings, longest_document: Option<usize>) -> Report {
    let top = tempfile::tempdir().unwrap();
    let input = top.path().join("documents.jsonl");
    let lines = texts.map(|text| serde_json::json!({ "text": text }).to_string() + "\n");
    fs::write(&input, lines.collect::<String>()).unwrap();
    report(&input, &top.path().join("out"), settings, longest_document)
}

fn report(input: &Path, out: &Path, settings: Settings, longest_document: Option<usize>) -> Report {
    let job = Job {
        inputs: vec![input.to_path_buf()],
        out: out.to_path_buf(),
        settings,
        longest_document,
        ..Job::default()
    };
    dedup(&job, &Silent).unwrap();
    assert!(simflip::inspect::inspect(out).unwrap().problems.is_empty());
    Report::read_json(&out.join("report.json")).unwrap()
}

fn methods() -> impl Iterator<Item = Settings> {
    let generator = |generator| usual().with(|settings| settings.generator = generator);
    let probing = Generator::Dial { distance: 3, recall: Recall::AtLeast(0.95), key_bits: None };
    let minhash = Settings::minhash(0.8).with(|settings| settings.features = FeatureKind::Words);
    [usual(), generator(probing), generator(Generator::Bphs { distance: 3, tables: None }), minhash]
        .into_iter()
}

/// The documents of one template: what all of them share, and four words of their own.
fn template(documents: usize) -> impl Iterator<Item = String> {
    let shared: Vec<String> = (0..120).map(|word| format!("shared{word}")).collect();
    let shared = shared.join(" ");
    (0..documents).map(move |document| {
        let own: Vec<String> = (0..4u64)
            .map(|i| format!("own{}", simflip::hash::fmix64(document as u64 * 4 + i) % 5_000))
            .collect();
        format!("{shared} {}", own.join(" "))
    })
}

#[test]
fn empty_documents_and_equal_documents_are_one() {
    for settings in methods() {
        for text in ["", "the same words stand on every one of these many documents again and again"] {
            let report = run((0..20_000).map(|_| text.to_owned()), settings.clone(), None);
            let outcome = &report.outcome;
            assert_eq!((outcome.kept, outcome.clusters, outcome.near_duplicates), (1, 1, 0), "{text:?}");
            assert_eq!(outcome.pairs_written, 19_999, "a star, not all pairs");
            assert!(report.search_cost.candidates <= 20, "{:?}", report.search_cost);
        }
    }
}

#[test]
fn documents_of_one_word_are_compared_by_their_text() {
    for settings in methods() {
        let report = run((0..20_000).map(|document| format!("word{}", document / 2)), settings, None);
        assert_eq!((report.outcome.kept, report.outcome.clusters), (10_000, 10_000));
        assert_eq!(report.corpus.documents_with_few_features, 20_000);
        assert_eq!(report.search_cost.candidates, 0);
    }
}

#[test]
fn what_all_documents_share_weighs_nothing() {
    let report = run(template(3_000), usual(), None);
    assert!(report.outcome.kept > 2_900, "{:?}", report.outcome);
    assert!(report.outcome.pairs_found < 3_000);
}

#[test]
fn a_template_that_weighs_is_bounded_told_and_taken_apart() {
    let n = 1_200u64;
    let tf = usual().with(|settings| {
        settings.sketches = Sketches::SimHash { weighting: Weighting::Tf };
        settings.generator = Generator::Join { distance: 6 };
        settings.linkage = Linkage::Connected;
    });
    let connected = run(template(n as usize), tf.clone(), None);
    let (outcome, cost) = (&connected.outcome, &connected.search_cost);
    // Nearly all chain together; each brings its 256 nearest and no more, and each candidate
    // is compared once a table.
    assert!(outcome.clusters < 20 && outcome.kept < n / 2, "{outcome:?}");
    let distinct = cost.distinct_hashes;
    assert!(outcome.pairs_written <= 256 * distinct + n, "{outcome:?} {cost:?}");
    assert!(cost.candidates <= 4 * distinct * distinct, "{cost:?}");
    let warnings = connected.warnings.join("\n");
    for part in ["most likely documents of one template", "256 nearest", "for example", "--clusters star"] {
        assert!(warnings.contains(part), "{part:?} in {warnings}");
    }

    // Checked, and each near the document that stays: nothing chains any more.
    let star = tf.with(|settings| {
        settings.verification = Verification::Weights(0.98);
        settings.linkage = Linkage::Star;
    });
    let apart = run(template(n as usize), star, None);
    assert!(apart.outcome.kept > connected.outcome.kept);
    let lowest = apart.largest_clusters.iter().filter_map(|cluster| cluster.lowest_similarity);
    assert!(lowest.fold(1.0, f64::min) >= 0.98);
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn minhash_of_a_template_is_bounded_too() {
    let settings = Settings::minhash(0.8).with(|settings| settings.features = FeatureKind::Words);
    let report = run(template(3_000), settings, None);
    assert!(report.outcome.kept < 100, "{:?}", report.outcome);
    let (n, bands) = (3_000, report.s_curve.unwrap().bands as u64);
    assert!(report.search_cost.candidates <= bands * n * (n - 1) / 2);
    assert!(report.outcome.pairs_found <= n * (n - 1) / 2);
}

#[test]
#[ignore = "measures memory and time of an optimised build: .ci/nightly"]
fn one_very_large_document_is_a_document_and_one_beyond_the_cap_is_corrupt() {
    let large: String = (0..600_000u64).map(|i| format!("w{} ", simflip::hash::fmix64(i) % 90_000)).collect();
    let documents = || {
        let small = (0..200)
            .map(|document| (0..60).map(|w| format!("p{} ", (document * 37 + w * w) % 4_000)).collect());
        small.chain([large.clone(), format!("{large} and more"), large.clone()])
    };
    for settings in methods() {
        let all = run(documents(), settings.clone(), None);
        assert_eq!((all.corpus.documents, all.corruption.total), (203, 0));
        assert_eq!(
            (all.outcome.exact_duplicates, all.outcome.near_duplicates),
            (1, 1),
            "{:?}",
            settings.generator
        );
        let capped = run(documents(), settings, Some(1_000_000));
        assert_eq!((capped.corpus.documents, capped.corruption.total, capped.outcome.kept), (200, 3, 200));
        assert!(capped.corruption.listed[0].detail.contains("--longest-document"));
    }
}
