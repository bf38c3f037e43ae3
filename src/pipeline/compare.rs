//! Several methods on the same corpus, side by side.

use super::collect::Keeping;
use super::output::OutputFolder;
use super::samples::{Shown, sample_pairs};
use super::settings::{Method, Settings, Verify};
use super::stages::{Progress, Stages};
use super::{
    Job, Prepared, Summary, describe, describe_corpus, describe_damage, find, measure_pairs, prepare,
    simhashes,
};
use crate::error::{Error, Result};
use crate::pairs::{Pair, partition};
use crate::report::html;
use crate::report::model::{Agreement, CompareReport, MethodResult, OtherScore, PairSample, Tool};
use crate::resources::peak_memory_bytes;
use crate::wording::counted;
use std::collections::BTreeMap;

/// Example pairs of each kind that a report shows.
const EXAMPLES: usize = 6;

/// Runs the methods on the same documents, and the SimHash methods on the same hashes, and writes a report of what each
/// found into a new folder.
///
/// Pairs are pairs of distinct texts: copies of a text are found by every method.
///
/// # Errors
/// If fewer than two methods are named, and as [`super::dedup`].
pub fn compare(job: &Job, methods: &[Method], progress: &dyn Progress) -> Result<Summary> {
    let mut methods = methods.to_vec();
    methods.sort_unstable();
    methods.dedup();
    if methods.len() < 2 {
        let got = methods.iter().map(|method| method.name()).collect::<Vec<_>>().join(",");
        return Err(Error::parameter("methods", got, "two or more different ones of psm, bphs and minhash"));
    }
    // What one of them cannot do is told before the others have worked.
    methods.iter().try_for_each(|&method| settings_of(method, &job.settings).check())?;
    let folder = OutputFolder::begin(&job.out, job.force)?;
    let report = job.with_threads(|| run(job, &methods, progress))??;
    report.write_json(&folder.path().join("report.json"))?;
    html::write_compare(&report, &folder.path().join("report.html"))?;
    folder.finish()?;
    Ok(Summary {
        documents: report.corpus.documents,
        removed: 0,
        damaged: report.damage.total,
        text: sentence(&report),
    })
}

/// A method's result, and the pairs of texts that it found.
struct Run {
    result: MethodResult,
    pairs: Vec<Pair>,
}

/// The settings of one of the methods.
fn settings_of(method: Method, settings: &Settings) -> Settings {
    let mut settings = Settings { method, ..settings.clone() };
    if method == Method::Minhash && settings.verify.needs_weights() {
        // There are no weight vectors to check; the method's parameters say so.
        (settings.verify, settings.verify_threshold) = (Verify::None, None);
    }
    settings
}

fn run(job: &Job, methods: &[Method], progress: &dyn Progress) -> Result<CompareReport> {
    let mut stages = Stages::new(progress);
    let by_simhash = methods.iter().any(|&method| method != Method::Minhash);
    let prepared = prepare(job, by_simhash, Keeping::Features, &mut stages)?;
    let hashes = by_simhash.then(|| simhashes(&prepared, &job.settings, &mut stages));
    let mut warnings = Vec::new();
    let mut runs = Vec::new();
    for &method in methods {
        let settings = settings_of(method, &job.settings);
        let mut stages = Stages::new(progress);
        let found = find(&prepared, hashes.as_ref(), &settings, &mut stages)?;
        let mut pairs = stages.run("pairs", found.joined.len() as u64, "pairs of sketches", 0, |_| {
            found.groups.text_pairs(&found.joined, &prepared.collection.documents)
        })?;
        measure_pairs(&mut pairs, true, &prepared, hashes.as_ref(), &settings, &mut stages);
        let n = prepared.collection.documents.len();
        let documents = &prepared.collection.documents;
        let clusters =
            partition(documents, &found.groups, &found.joined, settings.linkage, settings.keep).clusters();
        warnings.extend(found.warnings);
        runs.push(Run {
            result: MethodResult {
                label: method.name().to_owned(),
                method: describe(&settings, &found.chosen),
                pairs: pairs.len() as u64,
                clusters: clusters.len() as u64,
                kept: (n - clusters.documents() + clusters.len()) as u64,
                wall_seconds: stages.done().iter().map(|stage| stage.wall_seconds).sum(),
                cpu_seconds: stages.done().iter().map(|stage| stage.cpu_seconds).sum(),
                peak_memory_bytes: None,
                cost: found.cost,
                recall: found.recall,
            },
            pairs,
        });
    }
    let agreement = stages.run("samples", 0, "pairs", 0, |_| agreement(job, &prepared, &runs))?;
    Ok(CompareReport {
        tool: Tool::this(),
        created: job.created.clone(),
        command_line: job.command_line.clone(),
        corpus: describe_corpus(&prepared),
        methods: runs.into_iter().map(|run| run.result).collect(),
        agreement,
        shared_stages: stages.done().to_vec(),
        peak_memory_bytes: peak_memory_bytes(),
        damage: describe_damage(&prepared.collection, &[]),
        warnings,
    })
}

/// For each set of methods, the pairs that those found and no other, with examples.
fn agreement(job: &Job, prepared: &Prepared, runs: &[Run]) -> Result<Vec<Agreement>> {
    // Bit m stands for method m; a pair shows the numbers of the first method that found it, and those of others where
    // they differ. MinHash comes last, and pairs that it alone has found have no distance.
    let mut found: Vec<(u32, u32, usize, &Pair)> = runs
        .iter()
        .enumerate()
        .flat_map(|(method, run)| run.pairs.iter().map(move |pair| (pair.a, pair.b, method, pair)))
        .collect();
    found.sort_unstable_by_key(|&(a, b, method, _)| (a, b, method));
    let mut by_set: BTreeMap<u32, Vec<Pair>> = (1..1 << runs.len()).map(|set| (set, Vec::new())).collect();
    for same in found.chunk_by(|p, q| (p.0, p.1) == (q.0, q.1)) {
        let set = same.iter().fold(0, |set, &(_, _, method, _)| set | 1 << method);
        by_set.entry(set).or_default().push(*same[0].3);
    }
    // Nearest agreement last: what one method alone has found comes first.
    let mut sets: Vec<(u32, Vec<Pair>)> = by_set.into_iter().collect();
    sets.sort_by_key(|&(set, _)| (set.count_ones(), set));
    let samples: Vec<Vec<Pair>> =
        sets.iter().map(|(_, pairs)| sample_pairs(pairs, EXAMPLES, job.settings.seed)).collect();
    let wanted = samples.iter().flatten().flat_map(|pair| [pair.a, pair.b]).collect();
    let shown = Shown::fetch(&prepared.collection, &job.read_options(), wanted)?;
    Ok(sets
        .iter()
        .zip(&samples)
        .map(|((set, pairs), sample)| Agreement {
            found_by: (0..runs.len())
                .filter(|method| set >> method & 1 == 1)
                .map(|method| runs[method].result.label.clone())
                .collect(),
            pairs: pairs.len() as u64,
            examples: {
                let minhash_alone =
                    (0..runs.len()).all(|m| set >> m & 1 == 0 || runs[m].result.label == "minhash");
                let others = |pair: &Pair| -> Vec<OtherScore> {
                    let at = found.partition_point(|&(a, b, ..)| (a, b) < (pair.a, pair.b));
                    found[at..]
                        .iter()
                        .take_while(|&&(a, b, ..)| (a, b) == (pair.a, pair.b))
                        .filter(|(.., other)| other.similarity != pair.similarity)
                        .map(|&(_, _, method, other)| OtherScore {
                            by: runs[method].result.label.clone(),
                            similarity: f64::from(other.similarity),
                        })
                        .collect()
                };
                sample
                    .iter()
                    .map(|pair| PairSample {
                        others: others(pair),
                        ..shown.pair(prepared, pair, !minhash_alone)
                    })
                    .collect()
            },
        })
        .collect())
}

fn sentence(report: &CompareReport) -> String {
    let mut text = format!("{}.", counted(report.corpus.documents, "page", "pages"));
    for method in &report.methods {
        text.push_str(&format!(
            "\n{}: {} of different texts, {}, {} kept, {:.2} s of processor time",
            method.label,
            counted(method.pairs, "pair", "pairs"),
            counted(method.clusters, "cluster", "clusters"),
            counted(method.kept, "page", "pages"),
            method.cpu_seconds
        ));
    }
    for agreement in &report.agreement {
        text.push_str(&format!(
            "\nfound by {}: {}",
            match agreement.found_by.len() {
                2 if report.methods.len() == 2 => "both".to_owned(),
                all if all == report.methods.len() => format!("all {all}"),
                _ => format!("{} alone", agreement.found_by.join(" and ")),
            },
            counted(agreement.pairs, "pair", "pairs")
        ));
    }
    text
}
