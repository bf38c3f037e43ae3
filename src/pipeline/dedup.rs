//! One method from files to a folder of results.

use super::collect::Collection;
use super::find::{Found, shown_name};
use super::output::OutputFolder;
use super::samples::{Shown, kind, sample_pairs};
use super::settings::{Method, Settings, Verify};
use super::sketch::SimHashes;
use super::stages::{Progress, Stages};
use super::verify::Measure;
use super::{
    Job, Prepared, Summary, describe, describe_corpus, describe_damage, find, keeping, measure,
    measure_pairs, prepare, simhashes,
};
use crate::clusters::{Clusters, Keep, Linkage};
use crate::corpus;
use crate::document::DocumentTable;
use crate::error::{Error, Result};
use crate::pairs::{Kind, Pair, partition};
use crate::report::csv::{ClusterRow, PairRow, write_clusters, write_pairs};
use crate::report::html;
use crate::report::model::{ClusterSample, ClusterSizes, FileRow, Outcome, Report, Tool};
use crate::resources::peak_memory_bytes;
use crate::wording::{counted, plural};
use rayon::prelude::*;
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
        let by_simhash = job.settings.method != Method::Minhash;
        let prepared = prepare(job, by_simhash, keeping(job, by_simhash), &mut stages)?;
        let sketches = by_simhash.then(|| simhashes(&prepared, &job.settings, &mut stages));
        let found = find(&prepared, sketches.as_ref(), &job.settings, &mut stages)?;
        write(job, &prepared, sketches.as_ref(), found, &folder, stages)
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
    fn new(documents: &DocumentTable, found: &Found, linkage: Linkage, keep: Keep) -> Self {
        let clusters = partition(documents, &found.groups, &found.joined, linkage, keep).clusters();
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

/// How alike the members of a cluster are to the page that stays.
#[derive(Clone, Copy, Default)]
struct Cohesion {
    lowest: f32,
    median: f32,
    /// The member that is least like the page that stays.
    farthest: u32,
    /// Members whose similarity with it is below the floor.
    unlike: u64,
}

impl Cohesion {
    fn new(measure: &Measure<'_>, floor: f32, kept: u32, members: &[u32]) -> Self {
        let anchor = measure.anchor(kept);
        let mut similarities: Vec<(f32, u32)> = members
            .iter()
            .filter(|&&member| member != kept)
            .map(|&member| (anchor.with(member), member))
            .collect();
        similarities.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some(&(lowest, farthest)) = similarities.first() else { return Self::default() };
        Self {
            lowest,
            farthest,
            median: similarities[similarities.len() / 2].0,
            unlike: similarities.iter().filter(|(similarity, _)| *similarity < floor).count() as u64,
        }
    }
}

fn write(
    job: &Job,
    prepared: &Prepared,
    sketches: Option<&SimHashes>,
    found: Found,
    folder: &OutputFolder,
    mut stages: Stages<'_>,
) -> Result<Summary> {
    let (settings, collection) = (&job.settings, &prepared.collection);
    let documents = &collection.documents;
    let n = documents.len() as u64;
    let mut pairs = stages.run("pairs", found.joined.len() as u64, "pairs of sketches", 0, |_| {
        if settings.all_pairs {
            found.groups.all_pairs(&found.joined, documents)
        } else {
            Ok(found.groups.star_pairs(&found.joined, documents))
        }
    })?;
    measure_pairs(&mut pairs, settings.all_pairs, prepared, sketches, settings, &mut stages);
    let verdict = stages
        .run("clusters", n, "pages", 0, |_| Verdict::new(documents, &found, settings.linkage, settings.keep));
    let (compared, floor) = cohesion_measure(settings);
    let cohesion: Vec<Cohesion> = match measure(prepared, sketches, settings, compared) {
        Some(measure) => stages.run("cohesion", verdict.clusters.documents() as u64, "pages", 0, |_| {
            let clusters: Vec<&[u32]> = verdict.clusters.iter().collect();
            let of = |(members, &kept): (&&[u32], &u32)| Cohesion::new(&measure, floor, kept, members);
            clusters.par_iter().zip(&verdict.kept).map(of).collect()
        }),
        None => Vec::new(),
    };
    let has_distance = settings.method != Method::Minhash;
    stages.run("write tables", pairs.len() as u64, "pairs", 0, |_| {
        write_pairs(
            &folder.path().join("pairs.csv"),
            pairs.iter().map(|pair| Ok(pair_row(prepared, pair, settings))),
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
    let kept_files = stages.run("write kept pages", kept_pages, "pages", kept_bytes.max(1), |_| {
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
        let largest: Vec<_> = largest
            .iter()
            .map(|&(cluster, ref members)| {
                let cohesion = cohesion.get(cluster);
                ClusterSample {
                    cluster: cluster.to_string(),
                    size: verdict.clusters.iter().nth(cluster).map_or(0, |members| members.len() as u64),
                    kept: shown.page(prepared, members[0]),
                    members: members[1..].iter().map(|&member| shown.page(prepared, member)).collect(),
                    lowest_similarity: cohesion.map(|c| f64::from(c.lowest)),
                    median_similarity: cohesion.map(|c| f64::from(c.median)),
                }
            })
            .collect();
        Ok::<_, Error>((sample, largest))
    })?;

    let mut outcome = outcome_of(prepared, &verdict, &found, &pairs);
    if settings.all_pairs {
        // A check has looked at each by itself.
        outcome.pairs_found = outcome.pairs_written;
    }
    let lost: Vec<_> = kept_files.into_iter().flat_map(|file| file.lost).collect();
    let damage = describe_damage(collection, &lost);
    let mut warnings = found.warnings;
    warnings.extend(lost.iter().map(ToString::to_string));
    if !prepared.repeated_ids.is_empty() {
        warnings.push(format!(
            "{} a record id that an earlier page has already; results name {} by file and place.",
            counted(prepared.repeated_ids.len() as u64, "page has", "pages have"),
            plural(prepared.repeated_ids.len() as u64, "it", "them")
        ));
    }
    warnings.extend(chaining(prepared, &verdict, &cohesion, compared, floor, settings));
    warnings.extend(warnings_of(&outcome, &verdict, n));
    let report = Report {
        tool: Tool::this(),
        created: job.created.clone(),
        command_line: job.command_line.clone(),
        corpus: describe_corpus(prepared),
        outcome,
        method: describe(settings, &found.chosen),
        settings: None,
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

fn pair_row<'a>(prepared: &'a Prepared, pair: &Pair, settings: &Settings) -> PairRow<'a> {
    let collection = &prepared.collection;
    let url = |document| Cow::Borrowed(collection.documents.url(document).unwrap_or_default());
    PairRow {
        a_id: prepared.id_of(pair.a),
        b_id: prepared.id_of(pair.b),
        a_url: url(pair.a),
        b_url: url(pair.b),
        distance: (settings.method != Method::Minhash).then_some(pair.distance),
        similarity: f64::from(pair.similarity),
        kind: kind(pair.kind),
        measure: if pair.kind == Kind::Exact { "text" } else { settings.measure_name() },
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

/// By what the members of a cluster are compared with the page that stays, and below what they are unlike it.
fn cohesion_measure(settings: &Settings) -> (Verify, f32) {
    /// Without a check, a cosine of weight vectors below this is told.
    const UNLIKE: f32 = 0.8;
    match (settings.verify, settings.method) {
        (Verify::None, Method::Minhash) => (Verify::Jaccard, settings.similarity as f32),
        (Verify::None, Method::Psm | Method::Bphs) => (Verify::Weights, UNLIKE),
        (verify, _) => (verify, settings.passing() as f32),
    }
}

/// Tells of clusters that hold pages unlike the one that stays, with the worst examples.
fn chaining(
    prepared: &Prepared,
    verdict: &Verdict,
    cohesion: &[Cohesion],
    compared: Verify,
    floor: f32,
    settings: &Settings,
) -> Option<String> {
    /// Examples that are named.
    const NAMED: usize = 3;
    let unlike: u64 = cohesion.iter().map(|c| c.unlike).sum();
    let mut worst: Vec<usize> = (0..cohesion.len()).filter(|&cluster| cohesion[cluster].unlike > 0).collect();
    worst.sort_by(|&a, &b| cohesion[a].lowest.total_cmp(&cohesion[b].lowest).then(a.cmp(&b)));
    let examples: Vec<String> = worst
        .iter()
        .take(NAMED)
        .map(|&cluster| {
            let (kept, Cohesion { farthest, lowest, .. }) = (verdict.kept[cluster], cohesion[cluster]);
            let name = |document| shown_name(&prepared.collection, document);
            format!("{} with {} ({lowest:.2}, cluster {cluster})", name(farthest), name(kept))
        })
        .collect();
    (unlike > 0).then(|| {
        format!(
            "{} in {} {} unlike the page that stays (below {floor:.2}; {}), the worst: {}.{}",
            counted(unlike, "page", "pages"),
            counted(worst.len() as u64, "cluster", "clusters"),
            plural(unlike, "is", "are"),
            compared.meaning(),
            examples.join("; "),
            match settings.linkage {
                Linkage::Connected =>
                    " They may hang together through others in between: --clusters star joins a page only with the one that \
                     stays.",
                _ => "",
            }
        )
    })
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
        "{}: {} kept, {} can go ({}, {}), in {}.",
        counted(report.corpus.documents, "page", "pages"),
        outcome.kept,
        outcome.removed,
        counted(outcome.exact_duplicates, "exact copy", "exact copies"),
        counted(outcome.near_duplicates, "near-duplicate", "near-duplicates"),
        counted(outcome.clusters, "cluster", "clusters")
    );
    match &report.recall {
        Some(recall) if recall.low >= 1.0 => {
            text.push_str("\nToo few pairs to measure recall on, so the search was exhaustive: every pair within the distance.");
        }
        Some(recall) => text.push_str(&format!(
            "\nRecall {:.1} % (95 % interval {:.1} to {:.1} %, {}), asked for {:.1} %.",
            100.0 * recall.reached,
            100.0 * recall.low,
            100.0 * recall.high,
            counted(recall.sample_pairs, "held-out pair", "held-out pairs"),
            100.0 * recall.wanted
        )),
        None => {
            if let Some(promise) = report.promise() {
                text.push('\n');
                text.push_str(promise);
            }
        }
    }
    if report.damage.total > 0 {
        text.push_str(&format!(
            "\n{} skipped; the report lists {}.",
            counted(report.damage.total, "damaged piece of input was", "damaged pieces of input were"),
            plural(report.damage.total, "it", "them")
        ));
    }
    text
}
