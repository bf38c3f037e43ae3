//! Which settings are how right: every method, choice of features, distance and check over corpora with a known truth.
//!
//! `quality OUT.csv NAME=CORPUS,TRUTH[,MIN_SCORE[,SCOPE]]… [NAME:RIVAL=PAIRS.csv]…`
//!
//! Each configuration searches a corpus once, with its check set to pass everything; every threshold is then scored on the
//! pairs listed. A rival's pairs come from a file with the columns a,b (record numbers) and, if it has one, similarity;
//! they are scored by the same code. One row of OUT.csv is one configuration at one threshold on one corpus.

use flipside::corpus::{ReadOptions, discover};
use flipside::evaluate::corpus::record_names;
use flipside::evaluate::found::{Found, FoundPair, Records};
use flipside::evaluate::interval::Bootstrap;
use flipside::evaluate::truth::{TruthFile, TruthParams};
use flipside::evaluate::{Evaluation, evaluate};
use flipside::pipeline::settings::{JaccardCheck, Method, Settings, Verify};
use flipside::pipeline::{Job, Silent, dedup};
use flipside::report::model::Report;
use flipside::text::FeatureKind;
use flipside::weight::Weighting;
use std::error::Error;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A corpus with its truth.
struct Set {
    name: String,
    corpus: PathBuf,
    names: Vec<String>,
    truth: PathBuf,
    params: TruthParams,
}

impl Set {
    fn parse(name: &str, value: &str) -> Result<Self> {
        let parts: Vec<&str> = value.split(',').collect();
        let (&corpus, &truth) = parts.first().zip(parts.get(1)).ok_or("a set is NAME=CORPUS,TRUTH")?;
        let mut params = TruthParams::default();
        if let Some(score) = parts.get(2).filter(|score| !score.is_empty()) {
            params.min_score = Some(score.parse()?);
        }
        if let Some(scope) = parts.get(3) {
            params.scope = Some(scope.parse()?);
        }
        let corpus = PathBuf::from(corpus);
        let inputs = discover(std::slice::from_ref(&corpus), &Default::default())?;
        let names = record_names(&inputs, &ReadOptions::default())?;
        Ok(Self { name: name.to_owned(), corpus, names, truth: truth.into(), params })
    }

    fn score(&self, pairs: Vec<FoundPair>) -> Result<Evaluation> {
        let records = Records::new(&self.names)?;
        let truth = TruthFile::read(&self.truth, &records, &self.params)?;
        let none = Bootstrap { resamples: 0, ..Bootstrap::default() };
        Ok(evaluate(&truth, &Found::from_pairs(pairs), records.count(), none)?)
    }
}

/// What is tried on every set.
fn configurations() -> Vec<Settings> {
    let mut all = Vec::new();
    for (features, weighting) in [
        (FeatureKind::Words, Weighting::TfIdf),
        (FeatureKind::Words, Weighting::Tf),
        (FeatureKind::Shingles(3), Weighting::Binary),
        (FeatureKind::Shingles(3), Weighting::TfIdf),
        (FeatureKind::Shingles(5), Weighting::TfIdf),
    ] {
        let base = Settings { features, weighting, all_pairs: true, ..Settings::default() };
        all.push(Settings { method: Method::Psm, ..base.clone() });
        all.push(Settings { method: Method::Bphs, distance: 12, ..base.clone() });
        for verify in [
            Verify::Weights,
            Verify::Mismatch,
            Verify::QueryMismatch,
            Verify::Jaccard,
            Verify::Containment,
            Verify::Cosine,
        ] {
            for distance in [6, 10] {
                all.push(Settings { method: Method::Bphs, distance, verify, ..base.clone() });
            }
        }
    }
    for features in
        [FeatureKind::Words, FeatureKind::Shingles(2), FeatureKind::Shingles(3), FeatureKind::Shingles(5)]
    {
        for jaccard in [JaccardCheck::Estimated, JaccardCheck::Exact] {
            for permutations in [16, 128, 200] {
                let base =
                    Settings { method: Method::Minhash, features, all_pairs: true, ..Settings::default() };
                all.push(Settings { jaccard, permutations, similarity: 0.5, recall: 0.9, ..base });
            }
        }
    }
    all
}

/// The bytes that a page's sketch takes in the search and the check.
fn bytes(settings: &Settings) -> usize {
    match (settings.method, settings.verify) {
        (Method::Minhash, _) => 4 * settings.permutations,
        (_, Verify::Weights | Verify::Mismatch | Verify::QueryMismatch) => 8 + 64,
        _ => 8,
    }
}

fn run(set: &Set, settings: Settings, out: &mut csv::Writer<std::fs::File>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Job {
        inputs: vec![set.corpus.clone()],
        out: folder.path().join("result"),
        settings: Settings {
            verify_threshold: (settings.verify != Verify::None).then_some(0.01),
            ..settings.clone()
        },
        ..Job::default()
    };
    if let Err(error) = dedup(&job, &Silent) {
        eprintln!("{}: {error}", set.name);
        return Ok(());
    }
    let report = Report::read_json(&job.out.join("report.json"))?;
    let cpu: f64 = report.stages.iter().map(|stage| stage.cpu_seconds).sum();
    let pairs = Found::read(&job.out, &Records::new(&set.names)?)?.pairs.unwrap_or_default();
    let by_distance = settings.verify == Verify::None && settings.method != Method::Minhash;
    let thresholds: Vec<f64> = match by_distance {
        true => (0..=settings.distance).map(f64::from).collect(),
        false => [50, 55, 60, 65, 70, 75, 80, 85, 90, 93, 95, 97]
            .map(|percent| f64::from(percent) / 100.0)
            .to_vec(),
    };
    let jaccard = if settings.jaccard == JaccardCheck::Exact { "exact" } else { "estimated" };
    let minhash = settings.method == Method::Minhash;
    for threshold in thresholds {
        let passes = |pair: &&FoundPair| {
            let distance = f64::from(pair.distance.unwrap_or(0));
            if by_distance { distance <= threshold } else { pair.similarity.unwrap_or(0.0) >= threshold }
        };
        let evaluation = set.score(pairs.iter().filter(passes).copied().collect())?;
        let radius = if by_distance { threshold.to_string() } else { settings.distance.to_string() };
        row(
            out,
            [
                &set.name,
                settings.method.name(),
                &settings.features.to_string(),
                settings.weighting.name(),
                &if minhash { settings.permutations.to_string() } else { radius },
                if minhash { jaccard } else { settings.verify.name() },
                &threshold.to_string(),
                &bytes(&settings).to_string(),
                &format!("{cpu:.2}"),
            ],
            &evaluation,
        )?;
    }
    Ok(())
}

fn row(out: &mut csv::Writer<std::fs::File>, names: [&str; 9], evaluation: &Evaluation) -> Result<()> {
    let Some(score) = &evaluation.pairs else { return Ok(()) };
    let share = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    let counts = [score.true_positives, score.false_positives, score.false_negatives].map(|n| n.to_string());
    let shares = [score.precision.value, score.recall.value, score.f1.value].map(share);
    out.write_record(names.into_iter().chain(counts.iter().chain(&shares).map(String::as_str)))?;
    out.flush()?;
    Ok(())
}

fn rival(set: &Set, name: &str, path: &Path, out: &mut csv::Writer<std::fs::File>) -> Result<()> {
    let mut pairs = Vec::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (a, b, similarity): (u32, u32, Option<f64>) = record?;
        pairs.push(FoundPair { a, b, distance: None, similarity });
    }
    let evaluation = set.score(pairs)?;
    row(out, [&set.name, name, "", "", "", "rival", "", "", ""], &evaluation)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (path, rest) = arguments.split_first().ok_or("OUT.csv NAME=CORPUS,TRUTH[,MIN_SCORE[,SCOPE]]…")?;
    let mut out = csv::Writer::from_path(path)?;
    out.write_record([
        "set",
        "method",
        "features",
        "weighting",
        "size",
        "check",
        "threshold",
        "bytes",
        "cpu_seconds",
        "tp",
        "fp",
        "fn",
        "precision",
        "recall",
        "f1",
    ])?;
    let mut sets: Vec<Set> = Vec::new();
    let mut rivals = Vec::new();
    for argument in rest {
        let (name, value) = argument.split_once('=').ok_or("an argument is NAME=…")?;
        match name.split_once(':') {
            Some((set, rival)) => rivals.push((set, rival, PathBuf::from(value))),
            None => sets.push(Set::parse(name, value)?),
        }
    }
    for (name, tool, path) in rivals {
        let set = sets.iter().find(|set| set.name == name).ok_or("a rival of a set that is not named")?;
        rival(set, tool, &path, &mut out)?;
    }
    if std::env::var_os("RIVALS_ONLY").is_none() {
        for settings in configurations() {
            for set in &sets {
                run(set, settings.clone(), &mut out)?;
            }
        }
    }
    Ok(())
}
