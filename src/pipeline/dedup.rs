//! One method from files to a folder of results.

use super::collect::Collection;
use super::find::Found;
use super::output::OutputFolder;
use super::samples::{Shown, kind, sample_pairs};
use super::settings::Method;
use super::stages::{Progress, Stages};
use super::{Job, Prepared, Summary, describe, describe_corpus, describe_damage, find, prepare};
use crate::clusters::{Clusters, Keep};
use crate::corpus;
use crate::document::DocumentTable;
use crate::error::{Error, Result};
use crate::pairs::{Pair, connect};
use crate::report::csv::{ClusterRow, PairRow, write_clusters, write_pairs};
use crate::report::html;
use crate::report::model::{ClusterSample, ClusterSizes, FileRow, Outcome, Report, Tool};
use crate::resources::peak_memory_bytes;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Pairs, clusters and members of a cluster that a report shows.
const SHOWN_PAIRS: usize = 24;
const SHOWN_CLUSTERS: usize = 10;
const SHOWN_MEMBERS: usize = 4;

/// Finds the near-duplicates of a corpus and writes pairs, clusters, the kept pages and a report into a new folder.
///
/// # Errors
/// If no document could be read, if a setting has no meaning, or if the results cannot be written; then there is no folder.
pub fn dedup(job: &Job, progress: &dyn Progress) -> Result<Summary> {
    let folder = OutputFolder::begin(&job.out, job.force)?;
    let summary = job.with_threads(|| {
        let mut stages = Stages::new(progress);
        let prepared = prepare(job, job.settings.method != Method::Minhash, &mut stages)?;
        let found = find(&prepared, None, &job.settings, &mut stages)?;
        write(job, &prepared, found, &folder, stages)
    })??;
    folder.finish()?;
    Ok(summary)
}

/// Who stays.
struct Verdict {
    clusters: Clusters,
    /// The kept document of each cluster.
    kept: Vec<u32>,
    /// For each document, whether it stays.
    stays: Vec<bool>,
}

impl Verdict {
    fn new(documents: &DocumentTable, pairs: &[Pair], keep: Keep) -> Self {
        let clusters = connect(documents.len(), pairs).clusters();
        let mut stays = vec![true; documents.len()];
        let kept = clusters
            .iter()
            .map(|members| {
                let of =
                    |document: u32| (documents.rows()[document as usize].text_bytes, documents.url(document));
                let best =
                    members.iter().copied().min_by(|&a, &b| keep.compare(of(a), of(b)).then(a.cmp(&b)));
                members.iter().for_each(|&member| stays[member as usize] = false);
                let best = best.expect("a cluster has members");
                stays[best as usize] = true;
                best
            })
            .collect();
        Self { clusters, kept, stays }
    }
}

fn write(
    job: &Job,
    prepared: &Prepared,
    found: Found,
    folder: &OutputFolder,
    mut stages: Stages<'_>,
) -> Result<Summary> {
    let (settings, collection) = (&job.settings, &prepared.collection);
    let documents = &collection.documents;
    let n = documents.len() as u64;
    let pairs = stages.run("pairs", found.joined.len() as u64, "pairs of sketches", 0, |_| {
        if settings.all_pairs {
            found.groups.all_pairs(&found.joined, documents)
        } else {
            Ok(found.groups.star_pairs(&found.joined, documents))
        }
    })?;
    let verdict = stages.run("clusters", n, "pages", 0, |_| Verdict::new(documents, &pairs, settings.keep));
    let has_distance = settings.method != Method::Minhash;
    stages.run("write tables", pairs.len() as u64, "pairs", 0, |_| {
        write_pairs(
            &folder.path().join("pairs.csv"),
            pairs.iter().map(|pair| Ok(pair_row(prepared, pair, has_distance))),
        )?;
        write_clusters(&folder.path().join("clusters.csv"), cluster_rows(prepared, &verdict))
    })?;
    let kept_bytes: u64 = documents
        .rows()
        .iter()
        .zip(&verdict.stays)
        .filter(|(_, stays)| **stays)
        .map(|(row, _)| row.text_bytes)
        .sum();
    let kept_pages = verdict.stays.iter().filter(|&&stays| stays).count() as u64;
    let options = job.read_options();
    stages.run("write kept pages", kept_pages, "pages", kept_bytes.max(1), |_| {
        let rows = documents.rows().iter().zip(&verdict.stays);
        let kept: Vec<_> = rows.filter(|(_, stays)| **stays).map(|(row, _)| (row.id, row.place)).collect();
        corpus::write_kept(&collection.inputs, &options, &kept, folder.path())
    })?;

    let (sample, largest) = stages.run("samples", SHOWN_PAIRS as u64, "pairs", 0, |_| {
        let sample = sample_pairs(&pairs, SHOWN_PAIRS, settings.seed);
        let largest = largest_clusters(&verdict);
        let shown = sample
            .iter()
            .flat_map(|pair| [pair.a, pair.b])
            .chain(largest.iter().flat_map(|(_, members)| members.iter().copied()))
            .collect();
        let shown = Shown::fetch(collection, &options, shown)?;
        let sample: Vec<_> = sample.iter().map(|pair| shown.pair(prepared, pair, has_distance)).collect();
        let similarities = similarities_of(&largest, &verdict, &pairs);
        let largest: Vec<_> = largest
            .iter()
            .map(|&(cluster, ref members)| {
                let similarities = &similarities[&cluster];
                ClusterSample {
                    cluster: cluster.to_string(),
                    size: verdict.clusters.iter().nth(cluster).map_or(0, |members| members.len() as u64),
                    kept: shown.page(prepared, members[0]),
                    members: members[1..].iter().map(|&member| shown.page(prepared, member)).collect(),
                    lowest_similarity: similarities.first().copied().map(f64::from),
                    median_similarity: similarities.get(similarities.len() / 2).copied().map(f64::from),
                }
            })
            .collect();
        Ok::<_, Error>((sample, largest))
    })?;

    let outcome = outcome_of(prepared, &verdict, &found, &pairs);
    let damage = describe_damage(collection);
    let mut warnings = found.warnings;
    if !prepared.repeated_ids.is_empty() {
        warnings.push(format!(
            "{} pages have a record id that an earlier page has already; results name them by file and place.",
            prepared.repeated_ids.len()
        ));
    }
    warnings.extend(warnings_of(&outcome, &verdict, n));
    let report = Report {
        tool: Tool::this(),
        created: job.created.clone(),
        command_line: job.command_line.clone(),
        corpus: describe_corpus(prepared),
        outcome,
        method: describe(settings, &found.chosen),
        recall: found.recall,
        s_curve: found.s_curve,
        histograms: found.histograms,
        cluster_sizes: cluster_sizes(&verdict.clusters),
        largest_clusters: largest,
        sample_pairs: sample,
        stages: stages.done().to_vec(),
        peak_memory_bytes: peak_memory_bytes(),
        search_cost: found.cost,
        damage,
        warnings,
        files: file_rows(collection, &verdict),
    };
    report.write_json(&folder.path().join("report.json"))?;
    html::write(&report, &folder.path().join("report.html"))?;
    Ok(Summary {
        documents: n,
        removed: report.outcome.removed,
        damaged: report.damage.total,
        text: sentence(&report),
    })
}

fn pair_row<'a>(prepared: &'a Prepared, pair: &Pair, has_distance: bool) -> PairRow<'a> {
    let collection = &prepared.collection;
    let url = |document| Cow::Borrowed(collection.documents.url(document).unwrap_or_default());
    PairRow {
        a_id: prepared.id_of(pair.a),
        b_id: prepared.id_of(pair.b),
        a_url: url(pair.a),
        b_url: url(pair.b),
        distance: has_distance.then_some(pair.distance),
        similarity: f64::from(pair.similarity),
        kind: kind(pair.kind),
    }
}

fn cluster_rows<'a>(
    prepared: &'a Prepared,
    verdict: &'a Verdict,
) -> impl Iterator<Item = Result<ClusterRow<'a>>> {
    verdict.clusters.iter().zip(&verdict.kept).enumerate().flat_map(move |(cluster, (members, &kept))| {
        members.iter().map(move |&member| {
            Ok(ClusterRow {
                id: prepared.id_of(member),
                url: Cow::Borrowed(prepared.collection.documents.url(member).unwrap_or_default()),
                cluster: Cow::Owned(cluster.to_string()),
                size: members.len() as u64,
                kept: member == kept,
            })
        })
    })
}

/// The largest clusters, each with its kept document first and some of the others.
fn largest_clusters(verdict: &Verdict) -> Vec<(usize, Vec<u32>)> {
    let mut order: Vec<(usize, &[u32])> = verdict.clusters.iter().enumerate().collect();
    order.sort_by_key(|&(cluster, members)| (std::cmp::Reverse(members.len()), cluster));
    order
        .into_iter()
        .take(SHOWN_CLUSTERS)
        .map(|(cluster, members)| {
            let kept = verdict.kept[cluster];
            let others: Vec<u32> = members.iter().copied().filter(|&member| member != kept).collect();
            // Evenly from the whole cluster: neighbours in the file are the likeliest to be alike.
            let step = others.len().div_ceil(SHOWN_MEMBERS).max(1);
            let shown = std::iter::once(kept).chain(others.into_iter().rev().step_by(step)).collect();
            (cluster, shown)
        })
        .collect()
}

/// Similarities of the listed pairs inside each of these clusters, ascending.
fn similarities_of(
    largest: &[(usize, Vec<u32>)],
    verdict: &Verdict,
    pairs: &[Pair],
) -> BTreeMap<usize, Vec<f32>> {
    let members: BTreeMap<usize, &[u32]> = largest
        .iter()
        .filter_map(|&(cluster, _)| Some((cluster, verdict.clusters.iter().nth(cluster)?)))
        .collect();
    let cluster_of: hashbrown::HashMap<u32, usize> = members
        .iter()
        .flat_map(|(&cluster, members)| members.iter().map(move |&member| (member, cluster)))
        .collect();
    let mut similarities: BTreeMap<usize, Vec<f32>> =
        members.keys().map(|&cluster| (cluster, Vec::new())).collect();
    for pair in pairs {
        if let Some(list) = cluster_of.get(&pair.a).and_then(|cluster| similarities.get_mut(cluster)) {
            list.push(pair.similarity);
        }
    }
    similarities.values_mut().for_each(|list| list.sort_unstable_by(f32::total_cmp));
    similarities
}

fn outcome_of(prepared: &Prepared, verdict: &Verdict, found: &Found, pairs: &[Pair]) -> Outcome {
    let (rows, texts) = (prepared.collection.documents.rows(), prepared.texts.len());
    let removed = verdict.stays.iter().filter(|&&stays| !stays).count() as u64;
    let bytes =
        rows.iter().zip(&verdict.stays).filter(|(_, stays)| !**stays).map(|(row, _)| row.text_bytes).sum();
    // All copies of a text are in one cluster, so all of them but one go, whatever the method.
    let exact = (rows.len() - texts) as u64;
    Outcome {
        exact_duplicates: exact,
        near_duplicates: removed - exact,
        kept: rows.len() as u64 - removed,
        removed,
        removed_text_bytes: bytes,
        pairs_found: found.groups.count_pairs(&found.joined),
        pairs_written: pairs.len() as u64,
        clusters: verdict.clusters.len() as u64,
        documents_in_clusters: verdict.clusters.documents() as u64,
    }
}

fn cluster_sizes(clusters: &Clusters) -> Vec<ClusterSizes> {
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    clusters.iter().for_each(|members| *sizes.entry(members.len() as u64).or_default() += 1);
    sizes.into_iter().map(|(size, clusters)| ClusterSizes { size, clusters }).collect()
}

fn file_rows(collection: &Collection, verdict: &Verdict) -> Vec<FileRow> {
    let mut kept = vec![0; collection.inputs.len()];
    for (row, _) in collection.documents.rows().iter().zip(&verdict.stays).filter(|(_, stays)| **stays) {
        kept[row.id.shard as usize] += 1;
    }
    collection
        .files
        .iter()
        .zip(kept)
        .map(|(file, kept)| FileRow {
            path: file.path.display().to_string(),
            stored_bytes: file.stored_bytes,
            text_bytes: file.text_bytes,
            records: file.records,
            documents: file.documents,
            kept,
            damaged: file.damaged,
        })
        .collect()
}

fn warnings_of(outcome: &Outcome, verdict: &Verdict, documents: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    let largest = verdict.clusters.iter().map(<[u32]>::len).max().unwrap_or(0) as u64;
    if largest > 100 && largest * 20 > documents {
        warnings.push(format!(
            "The largest cluster holds {largest} of {documents} pages. Pages far from each other may have been chained \
             through others in between: look at it before you delete anything."
        ));
    }
    if outcome.pairs_written < outcome.pairs_found {
        warnings.push(format!(
            "pairs.csv lists {} of {} pairs: of pages with one sketch each is listed once, with the one that leads them; \
             --all-pairs lists every pair.",
            outcome.pairs_written, outcome.pairs_found
        ));
    }
    warnings
}

fn sentence(report: &Report) -> String {
    let outcome = &report.outcome;
    let mut text = format!(
        "{} pages: {} kept, {} can go ({} exact copies, {} near-duplicates), in {} clusters.",
        report.corpus.documents,
        outcome.kept,
        outcome.removed,
        outcome.exact_duplicates,
        outcome.near_duplicates,
        outcome.clusters
    );
    match &report.recall {
        Some(recall) if recall.sample_pairs == 0 => {
            text.push_str("\nToo few pairs to measure recall on, so the search was exhaustive: every pair within the distance.");
        }
        Some(recall) => text.push_str(&format!(
            "\nRecall {:.1} % (95 % interval {:.1} to {:.1} %, {} held-out pairs), asked for {:.1} %.",
            100.0 * recall.reached,
            100.0 * recall.low,
            100.0 * recall.high,
            recall.sample_pairs,
            100.0 * recall.wanted
        )),
        None => {}
    }
    if report.damage.total > 0 {
        text.push_str(&format!(
            "\n{} damaged pieces of input were skipped; the report lists them.",
            report.damage.total
        ));
    }
    text
}
