//! Which settings are how right: every method, choice of features, distance and check over corpora with a
//! known truth, beside what rivals found on the same corpora.
//!
//! Texts are cut once for each kind of feature and sketched once for each weighting; candidates keep every
//! measure, and the settings are scored over them. Scores are those of the tool's own `evaluate`.

mod set;
mod summary;
mod sweep;

use crate::corpus::Corpus;
use crate::progress::say;
use crate::results::{Row, Table, read};
use crate::{Experiment, Options, config};
use anyhow::{Context, Result};
use serde::Deserialize;
use set::{Score, Set};
use simflip::settings::Measure;
use simflip::text::FeatureKind;
use simflip::weight::Weighting;
use std::path::{Path, PathBuf};
use sweep::Setting;

pub const EXPERIMENT: Experiment = Experiment {
    name: "quality",
    about: "precision, recall and F1 of every method, feature choice, distance and check over labelled sets",
    run,
    draw: summary::draw,
    verdicts: summary::verdicts,
};

/// What is measured.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct QualityConfig {
    features: Vec<FeatureKind>,
    weightings: Vec<Weighting>,
    /// Bits within which SimHashes are near.
    distances: Vec<u32>,
    positions: Vec<usize>,
    /// What `--similarity` is for minhash: bands are chosen by it, and pairs accepted.
    similarities: Vec<f64>,
    /// Jaccard coefficient of 5-word shingles from which on a pair is true, where the truth is counted here.
    near: f64,
    /// Parts of the judged pairs that settings are chosen on and tested on in turn.
    folds: u64,
    /// Texts below so many bytes are short, others from so many on long.
    short_below: u64,
    long_from: u64,
    /// True pairs without which a sort of pair is not shown.
    fewest_of_a_sort: f64,
    /// Lead over the best rival that is aimed at.
    aim: f64,
    checks: Checks,
    shown: Vec<Shown>,
}

/// Thresholds of each check.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checks {
    weights: Vec<f64>,
    mismatch: Vec<f64>,
    jaccard: Vec<f64>,
    containment: Vec<f64>,
    cosine: Vec<f64>,
}

impl Checks {
    /// All checks with their thresholds.
    fn all(&self) -> [(Measure, &[f64]); 5] {
        [
            (Measure::Weights, &self.weights),
            (Measure::Mismatch, &self.mismatch),
            (Measure::Jaccard, &self.jaccard),
            (Measure::Containment, &self.containment),
            (Measure::Cosine, &self.cosine),
        ]
    }
}

/// A setting in the table: what it is called there, and the fields that choose its row.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    name: String,
    setting: String,
}

fn run(options: &Options) -> Result<()> {
    let config: QualityConfig = config::read(options, EXPERIMENT.name)?;
    for path in options.corpora() {
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Shingles(5))?;
        let set = Set::open(&path, options, &config, &corpus)?;
        say(format_args!(
            "  {}: {} documents, {} true pairs",
            set.name,
            corpus.documents(),
            set.true_pairs()
        ))?;
        if let Some(folder) = &options.rivals {
            let part = ".rivals";
            let mut table = Table::part(options, EXPERIMENT.name, &set.name, &corpus.digest, part)?;
            for (name, file, seconds) in rivals(folder, &set.name)? {
                let setting = Setting { cpu_seconds: seconds, ..Setting::default() };
                row(&mut table, &set, &name, &setting, &set.score_file(&file)?)?;
            }
            continue;
        }
        let mut table = Table::create(options, EXPERIMENT.name, &set.name, &corpus.digest)?;
        drop(corpus);
        for &features in &config.features {
            let corpus = Corpus::load(&options.progress, &path, features)?;
            let copies = set::copies(&corpus);
            sweep::simhash(&config, &corpus, &set, features, &copies, |setting, score| {
                row(&mut table, &set, "simflip", &setting, &score)
            })?;
            sweep::minhash(&config, &corpus, &set, features, &copies, |setting, score| {
                row(&mut table, &set, "simflip", &setting, &score)
            })?;
        }
    }
    Ok(())
}

/// What rivals found on a corpus, with their processor seconds.
fn rivals(folder: &Path, set: &str) -> Result<Vec<(String, PathBuf, f64)>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let times = folder.join(format!("{set}.seconds.csv"));
    let times: Vec<Row> = if times.exists() { read(&times)? } else { Vec::new() };
    let mut all: Vec<(String, PathBuf, f64)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_prefix(set)?.strip_prefix('.')?;
            let name = name.strip_suffix(".csv").filter(|&name| name != "seconds")?.to_owned();
            let seconds = times.iter().find(|row| row.text("rival") == name);
            let seconds = seconds.map_or(f64::NAN, |row| row.number("cpu_seconds"));
            Some((name, path, seconds))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

fn row(table: &mut Table, set: &Set, tool: &str, setting: &Setting, score: &Score) -> Result<()> {
    let share = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    let or_none = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let folds: Vec<String> = score.folds.iter().map(|[tp, fp, r#fn]| format!("{tp}/{fp}/{}", r#fn)).collect();
    let all = ("all", score.counts, score.shares);
    let seconds = setting.cpu_seconds;
    let seconds = if seconds.is_finite() { format!("{seconds:.3}") } else { String::new() };
    for (number, (sort, [tp, fp, r#fn], shares)) in [all].iter().chain(&score.sorts).enumerate() {
        let [precision, recall, f1] = shares.map(share);
        let whole = number == 0;
        table.row(&[
            ("kind", &set.kind),
            ("tool", &tool),
            ("pairs", sort),
            ("method", &setting.method),
            ("features", &setting.features),
            ("weighting", &setting.weighting),
            ("distance", &or_none(setting.distance.map(f64::from))),
            ("positions", &or_none(setting.positions.map(|m| m as f64))),
            ("similarity", &or_none(setting.similarity)),
            ("check", &setting.check),
            ("threshold", &or_none(setting.threshold)),
            ("bytes", &setting.bytes),
            ("cpu_seconds", &seconds),
            ("tp", tp),
            ("fp", fp),
            ("fn", r#fn),
            ("precision", &precision),
            ("recall", &recall),
            ("f1", &f1),
            ("cluster_f1", &if whole { share(score.cluster_f1) } else { String::new() }),
            ("folds", &if whole { folds.join(" ") } else { String::new() }),
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use simflip::evaluate::found::{Found, RecordNames};
    use simflip::hash::FeatureHash;
    use simflip::pipeline::{Job, Silent, dedup};
    use simflip::settings::{Generator, Settings, Verification};

    /// What the sweep says of a setting is what the tool itself finds with it.
    #[test]
    fn a_row_is_what_the_tool_finds() {
        let path = crate::root().join("data/debian-faq.warc.wet.gz");
        let options = Options::parse_from(["experiments", "quality"]);
        let config: QualityConfig = config::read(&options, EXPERIMENT.name).unwrap();
        let reference = Corpus::load(&options.progress, &path, FeatureKind::Shingles(5)).unwrap();
        let set = Set::open(&path, &options, &config, &reference).unwrap();
        assert!(set.true_pairs() > 20 && set.kind == "lexical");
        let features = FeatureKind::Shingles(3);
        let corpus = Corpus::load(&options.progress, &path, features).unwrap();
        let copies = set::copies(&corpus);
        let mut rows: Vec<(Setting, Score)> = Vec::new();
        let mut keep = |setting, score| {
            rows.push((setting, score));
            Ok(())
        };
        sweep::simhash(&config, &corpus, &set, features, &copies, &mut keep).unwrap();
        sweep::minhash(&config, &corpus, &set, features, &copies, &mut keep).unwrap();
        let usual = |settings: Settings| {
            settings.with(|settings| {
                settings.features = features;
                // As the sweep's features are made.
                settings.feature_hash = FeatureHash::Murmur3;
                settings.all_pairs = true;
            })
        };
        let simhash = usual(Settings::simhash()).with(|settings| {
            settings.generator = Generator::Bphs { distance: 10, tables: None };
            settings.verification = Verification::Jaccard(0.7);
        });
        let minhash = usual(Settings::minhash(0.7));
        // The sweep says of MinHash what is checked beside the signatures themselves.
        for (name, settings, check, threshold) in
            [("bphs", simhash, "jaccard", Some(0.7)), ("minhash", minhash, "none", None)]
        {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("result");
            dedup(
                &Job {
                    inputs: vec![path.clone()],
                    out: out.clone(),
                    settings: settings.clone(),
                    ..Job::default()
                },
                &Silent,
            )
            .unwrap();
            let inputs = simflip::corpus::discover(std::slice::from_ref(&path), &Default::default()).unwrap();
            let (names, _) = simflip::evaluate::corpus::record_names(&inputs, &Default::default()).unwrap();
            let found = Found::read(&out, &RecordNames::new(&names).unwrap()).unwrap();
            let tool = set.score_pairs(found.pairs.unwrap().iter().map(|pair| (pair.a.0, pair.b.0))).unwrap();
            let (_, swept) = rows
                .iter()
                .find(|(setting, _)| {
                    setting.method == name
                        && (name == "minhash"
                            || setting.weighting == "binary" && setting.distance == Some(10))
                        && (name != "minhash"
                            || setting.positions == Some(128) && setting.similarity == Some(0.7))
                        && setting.check == check
                        && setting.threshold == threshold
                })
                .unwrap();
            assert_eq!(tool.counts, swept.counts, "{name}");
        }
    }

    #[test]
    fn pairs_and_clusters_of_a_rival_are_scored_alike() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let texts: Vec<String> = [0, 0, 1, 2]
            .iter()
            .map(|i| format!("{{\"text\":\"a page {i} of eight and more words than that {i}{i} {i}x\"}}"))
            .collect();
        let path = file("pages.jsonl", &texts.join("\n"));
        let options = Options::parse_from(["experiments", "quality"]);
        let config: QualityConfig = config::read(&options, EXPERIMENT.name).unwrap();
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Shingles(5)).unwrap();
        let set = Set::open(&path, &options, &config, &corpus).unwrap();
        file("pages.one.csv", "a,b\n0,1\n2,3\n");
        file("pages.two.csv", "record,cluster\n0,0\n1,0\n2,3\n");
        file("pages.seconds.csv", "rival,cpu_seconds\ntwo,1.5\n");
        let found = rivals(folder.path(), &set.name).unwrap();
        assert_eq!(found.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(found[1].2, 1.5);
        for (_, path, _) in found {
            assert_eq!(set.score_file(&path).unwrap().counts, [1, 1, 0]);
        }
        assert!(set.score_file(&file("pages.bad.csv", "x,y\n0,1\n")).is_err());
        assert!(set.score_file(&file("pages.far.csv", "record,cluster\n0,9\n")).is_err());
    }
}
