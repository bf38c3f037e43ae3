//! Checks a `report.json` for `simflip inspect`: counts against others, and its words against the settings.

use super::decontamination::DecontaminationReport;
use super::messages;
use super::model::{CompareReport, Report, Tool, read_json};
use crate::error::{Error, Result};
use crate::inspection::{Inspection, nothing_of_ours};
use std::fs;
use std::path::Path;

/// A `report.json` by the command that wrote it: `compare`, `decontaminate`, or `dedup`.
pub(crate) enum AnyReport {
    Comparison(Box<CompareReport>),
    Decontamination(Box<DecontaminationReport>),
    Deduplication(Box<Report>),
}

impl AnyReport {
    /// Reads a report of any kind, which its fields tell: a comparison has `methods`, a decontamination `benchmarks`.
    ///
    /// # Errors
    /// If the file cannot be read, or is no report of this program.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
        let fields: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        Ok(if fields.get("methods").is_some() {
            Self::Comparison(Box::new(read_json(path)?))
        } else if fields.get("benchmarks").is_some() {
            Self::Decontamination(Box::new(read_json(path)?))
        } else {
            Self::Deduplication(Box::new(Report::read_json(path)?))
        })
    }
}

/// Reads and checks a `report.json` of any kind. Gives its facts and problems, and the report.
///
/// # Errors
/// If the file cannot be read, or is no report of this program.
pub(crate) fn check(path: &Path) -> Result<(Inspection, AnyReport)> {
    let report = AnyReport::read(path)?;
    let inspection = match &report {
        AnyReport::Comparison(report) => check_comparison(path, report),
        AnyReport::Decontamination(report) => check_decontamination(path, report),
        AnyReport::Deduplication(report) => check_deduplication(path, report),
    };
    Ok((inspection?, report))
}

/// Begins the inspection of a report of the kind `what` with the facts that all reports have.
///
/// # Errors
/// If it is one of another program.
fn head(path: &Path, what: &str, tool: &Tool, created: &str, command_line: &[String]) -> Result<Inspection> {
    if tool.name != Tool::this().name {
        return Err(nothing_of_ours(path, format!("a report of the tool {:?}", tool.name)));
    }
    let mut inspection = Inspection::of(what);
    inspection.fact("written by", format!("{} {}", tool.name, tool.version));
    inspection.fact("created", created);
    inspection.fact("command", command_line.join(" "));
    Ok(inspection)
}

fn check_decontamination(path: &Path, report: &DecontaminationReport) -> Result<Inspection> {
    let DecontaminationReport { tool, created, command_line, .. } = report;
    let mut inspection = head(path, "report of a decontamination", tool, created, command_line)?;
    inspection.fact("documents", report.documents);
    inspection.fact("documents with items", report.with_items);
    for benchmark in &report.benchmarks {
        let looked_for = benchmark.items.saturating_sub(benchmark.too_short);
        inspection.fact(format!("items of {}", benchmark.file), benchmark.items);
        inspection.same("found items, of those looked for", benchmark.found, benchmark.found.min(looked_for));
    }
    Ok(inspection)
}

fn check_comparison(path: &Path, report: &CompareReport) -> Result<Inspection> {
    let CompareReport { tool, created, command_line, .. } = report;
    let mut inspection = head(path, "report of a comparison", tool, created, command_line)?;
    inspection.fact("documents", report.corpus.documents);
    for method in &report.methods {
        inspection.fact(format!("pairs by {}", method.label), method.pairs);
        let of_method = report.agreement.iter().filter(|set| set.found_by.contains(&method.label));
        let pairs = of_method.map(|set| set.pairs).sum();
        let what = format!("pairs that {} found, alone or with others", method.label);
        inspection.same(&what, method.pairs, pairs);
    }
    Ok(inspection)
}

fn check_deduplication(path: &Path, report: &Report) -> Result<Inspection> {
    let Report { tool, created, command_line, .. } = report;
    let mut inspection = head(path, "report of a deduplication", tool, created, command_line)?;
    inspection.fact("method", &report.method.name);
    inspection.fact("feature hash", &report.method.hash);
    inspection.fact("seed", report.method.seed);
    for parameter in &report.method.parameters {
        inspection.fact(&parameter.name, &parameter.value);
    }
    let outcome = &report.outcome;
    inspection.fact("documents", report.corpus.documents);
    inspection.fact("kept", outcome.kept);
    inspection.fact("exact duplicates", outcome.exact_duplicates);
    inspection.fact("near-duplicates", outcome.near_duplicates);
    inspection.fact("clusters", outcome.clusters);
    inspection.fact("corrupt input", report.corruption.total);
    check_sums(report, &mut inspection);
    check_words(report, &mut inspection);
    Ok(inspection)
}

/// Checks that the method in words is that of the settings; not of a report of another version, whose words may differ.
fn check_words(report: &Report, inspection: &mut Inspection) {
    if let Some((settings, searched)) = report.searched()
        && report.tool.version == Tool::this().version
    {
        let method =
            messages::method(settings, report.frequencies.as_deref(), searched, report.verified.as_ref());
        if method != report.method {
            inspection.problem("the method in words is not that of the settings".to_owned());
        }
    }
}

/// A sum of counts, at most `u64::MAX`, as a broken report may have any counts.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Checks the counts of a report that follow from others of it.
fn check_sums(report: &Report, inspection: &mut Inspection) {
    let (outcome, corpus) = (&report.outcome, &report.corpus);
    let documents = outcome.kept.saturating_add(outcome.removed);
    inspection.same("kept and removed documents", corpus.documents, documents);
    let duplicates = outcome.exact_duplicates.saturating_add(outcome.near_duplicates);
    inspection.same("exact duplicates and near-duplicates", outcome.removed, duplicates);
    // All reference documents stay, and where there is one, no new document does, unless several of a cluster stay.
    let (references, by_reference) =
        report.against.as_ref().map_or((0, 0), |it| (it.documents_in_clusters, it.clusters));
    let stay = references.saturating_add(outcome.clusters.saturating_sub(by_reference));
    let beside_kept = outcome.documents_in_clusters.saturating_sub(stay);
    if let Some(against) = &report.against {
        let files = sum(against.files.iter().map(|file| file.documents));
        inspection.same("documents of all reference files", against.documents, files);
    }
    match &report.settings {
        Some(settings) if !settings.quota.is_one() => {
            let removed = outcome.removed;
            if removed > beside_kept {
                let have = format!("clusters have {beside_kept} that may go");
                inspection.problem(format!("{removed} documents do not stay, but {have}"));
            }
        }
        _ => inspection.same("documents of clusters that do not stay", outcome.removed, beside_kept),
    }
    if !report.files.is_empty() {
        let files = || report.files.iter();
        inspection.same("documents of all files", corpus.documents, sum(files().map(|file| file.documents)));
        inspection.same("kept documents of all files", outcome.kept, sum(files().map(|file| file.kept)));
    }
    if !report.cluster_sizes.is_empty() {
        let sizes = || report.cluster_sizes.iter();
        inspection.same("clusters of all sizes", outcome.clusters, sum(sizes().map(|row| row.clusters)));
        let documents = sum(sizes().map(|row| row.size.saturating_mul(row.clusters)));
        inspection.same("documents in clusters of all sizes", outcome.documents_in_clusters, documents);
    }
    if !report.corruption.by_kind.is_empty() {
        let pieces = sum(report.corruption.by_kind.iter().map(|kind| kind.records));
        inspection.same("corrupt input of all kinds", report.corruption.total, pieces);
    }
}
