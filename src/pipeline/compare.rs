//! Several methods on the same corpus, side by side.

use super::output::OutputFolder;
use super::pages::Pages;
use super::samples::{Shown, sample_pairs};
use super::sources::SourceNumbers;
use super::stages::{Progress, Stages};
use super::{Job, Summary, read, save_frequencies};
use crate::error::{Error, Result};
use crate::report::model::{Agreement, CompareReport, MethodResult, OtherScore, PairSample, SCHEMA, Tool};
use crate::report::{html, tell};
use crate::resources::peak_memory_bytes;
use flipside_core::collection::Keeping;
use flipside_core::dedup::{Context, Pair, Prepared};
use flipside_core::id::Document;
use flipside_core::settings::{Settings, Sketches};
use std::collections::BTreeMap;
use std::path::Path;

/// Example pairs of each kind that a report shows.
const EXAMPLES: usize = 6;

/// A method that is compared with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Contender {
    /// What the report calls it.
    pub label: String,
    /// What it does. Features, their weights and [`Settings::min_features`] must be those of the others.
    pub settings: Settings,
}

/// Runs several methods on the same documents, and those of SimHash on the same hashes, and writes a report
/// of what each found into a new folder. The job's own settings count for nothing but the seed of samples.
///
/// Pairs are pairs of distinct texts: copies of a text are found by every method.
///
/// # Errors
/// If there are fewer than two contenders, if two have one label or different features, and as
/// [`super::dedup`].
pub fn compare(job: &Job, contenders: &[Contender], progress: &dyn Progress) -> Result<Summary> {
    let labels = || contenders.iter().map(|contender| &*contender.label).collect::<Vec<_>>();
    let mut different = labels();
    different.sort_unstable();
    different.dedup();
    if different.len() < 2 || different.len() < contenders.len() {
        return Err(Error::parameter("methods", labels().join(","), "two or more different ones"));
    }
    // What one of them cannot do is told before the others have worked.
    contenders.iter().try_for_each(|contender| contender.settings.check())?;
    for pair in contenders.windows(2) {
        pair[0].settings.extraction().fits(pair[1].settings.extraction())?;
    }
    let folder = OutputFolder::begin(&job.out, job.force)?;
    let report = job.with_threads(|| run(job, contenders, progress))??;
    report.write_json(&folder.path().join("report.json"))?;
    html::write_compare(&report, &folder.path().join("report.html"))?;
    folder.finish()?;
    Ok(Summary {
        documents: report.corpus.documents,
        removed: 0,
        damaged: report.damage.total,
        text: tell::comparison(&report),
    })
}

/// A method's result, and the pairs of texts that it found.
struct Run {
    result: MethodResult,
    pairs: Vec<Pair>,
}

fn run(job: &Job, contenders: &[Contender], progress: &dyn Progress) -> Result<CompareReport> {
    let stages = Stages::new(progress);
    let hashed = |contender: &&Contender| matches!(contender.settings.sketches, Sketches::SimHash { .. });
    // Whoever needs the most of the documents decides what all of them share.
    let by_frequencies = contenders.iter().find(|contender| contender.settings.needs_frequencies());
    let first = by_frequencies.or(contenders.iter().find(hashed)).unwrap_or(&contenders[0]);
    let (pages, frequencies, _) = read(job, &first.settings, Some(Keeping::Features), &stages)?;
    let mut prepared = Prepared::new(&pages.collection, &first.settings, frequencies, &stages);
    if let Some(Sketches::SimHash { weighting }) = contenders.iter().find(hashed).map(|c| c.settings.sketches)
        && !hashed(&first)
    {
        prepared.hash(weighting, &stages);
    }
    save_frequencies(job, &pages, prepared.frequencies(), &stages)?;
    let mut warnings: Vec<String> = tell::odd_input_warnings(&pages.files);
    warnings.extend(pages.not_read.told());
    warnings.extend(tell::languages_warning(&pages.languages));
    let mut runs = Vec::new();
    let name = |document| pages.shown_name(document);
    let mut few = 0;
    for Contender { label, settings } in contenders {
        let own = Stages::new(progress);
        if settings.sketches.keyed().is_some() && *settings != first.settings {
            prepared.sketch_both(settings, &own);
        }
        let url = |document| pages.url(document);
        let sources = SourceNumbers::new(settings, &pages);
        let source = |document| sources.of(document);
        let context = Context::new(&url, &own).from_sources(&source);
        let outcome = prepared.find(settings, &context)?.outcome_of_texts()?;
        let (searched, judged) = (&outcome.searched, outcome.judged);
        few = outcome.documents_with_few_features;
        warnings.extend(tell::search_warnings(searched, judged.as_ref(), &name));
        let frequencies = job.frequencies.as_deref().filter(|_| settings.needs_frequencies());
        runs.push(Run {
            result: MethodResult {
                label: label.clone(),
                settings: Some(settings.clone()),
                frequencies: frequencies.map(Path::to_path_buf),
                method: tell::method(settings, frequencies, searched, judged.as_ref()),
                pairs: outcome.pairs.len() as u64,
                clusters: outcome.clusters.len() as u64,
                kept: (outcome.documents - outcome.removed()) as u64,
                wall_seconds: own.done().iter().map(|stage| stage.wall_seconds).sum(),
                cpu_seconds: own.done().iter().map(|stage| stage.cpu_seconds).sum(),
                peak_memory_bytes: None,
                cost: tell::cost(searched),
                recall: tell::recall(searched),
            },
            pairs: outcome.pairs,
        });
    }
    let agreement = stages.run("samples", 0, "pairs", 0, |_| agreement(job, &pages, contenders, &runs))?;
    Ok(CompareReport {
        schema: SCHEMA,
        tool: Tool::this(),
        created: job.created.clone(),
        command_line: job.command_line.clone(),
        corpus: tell::corpus(&pages.files, pages.len() as u64, few, &pages.languages),
        methods: runs.into_iter().map(|run| run.result).collect(),
        agreement,
        shared_stages: stages.done(),
        peak_memory_bytes: peak_memory_bytes(),
        damage: tell::damage(&pages.files, &[]),
        warnings,
    })
}

/// For each set of methods, the pairs that those found and no other, with examples.
fn agreement(job: &Job, pages: &Pages, contenders: &[Contender], runs: &[Run]) -> Result<Vec<Agreement>> {
    // Bit m stands for method m; a pair shows the numbers of the first method that found it and knows a
    // distance, and those of others where they differ.
    let has_distance = |method: usize| contenders[method].settings.net.distance().is_some();
    let mut found: Vec<(Document, Document, bool, usize, &Pair)> = runs
        .iter()
        .enumerate()
        .flat_map(|(method, run)| {
            run.pairs.iter().map(move |pair| (pair.a, pair.b, !has_distance(method), method, pair))
        })
        .collect();
    found.sort_unstable_by_key(|&(a, b, last, method, _)| (a, b, last, method));
    let mut by_set: BTreeMap<u32, Vec<Pair>> = (1..1 << runs.len()).map(|set| (set, Vec::new())).collect();
    for same in found.chunk_by(|p, q| (p.0, p.1) == (q.0, q.1)) {
        let set = same.iter().fold(0, |set, &(.., method, _)| set | 1 << method);
        by_set.entry(set).or_default().push(*same[0].4);
    }
    // Nearest agreement last: what one method alone has found comes first.
    let mut sets: Vec<(u32, Vec<Pair>)> = by_set.into_iter().collect();
    sets.sort_by_key(|&(set, _)| (set.count_ones(), set));
    let samples: Vec<Vec<Pair>> =
        sets.iter().map(|(_, pairs)| sample_pairs(pairs, EXAMPLES, job.settings.seed)).collect();
    let wanted = samples.iter().flatten().flat_map(Pair::documents).collect();
    let shown = Shown::fetch(pages, &job.read_options(), wanted);
    let others = |pair: &Pair| -> Vec<OtherScore> {
        let at = found.partition_point(|&(a, b, ..)| (a, b) < (pair.a, pair.b));
        found[at..]
            .iter()
            .take_while(|&&(a, b, ..)| (a, b) == (pair.a, pair.b))
            .filter(|(.., other)| other.similarity != pair.similarity)
            .map(|&(.., method, other)| OtherScore {
                by: runs[method].result.label.clone(),
                similarity: f64::from(other.similarity),
            })
            .collect()
    };
    let agreement = |(&(set, ref pairs), sample): (&(u32, Vec<Pair>), &Vec<Pair>)| {
        let members = || (0..runs.len()).filter(move |method| set >> method & 1 == 1);
        let distance = members().any(has_distance);
        Agreement {
            found_by: members().map(|method| runs[method].result.label.clone()).collect(),
            pairs: pairs.len() as u64,
            examples: sample
                .iter()
                .map(|pair| PairSample { others: others(pair), ..shown.pair(pages, pair, distance) })
                .collect(),
        }
    };
    Ok(sets.iter().zip(&samples).map(agreement).collect())
}
