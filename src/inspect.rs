//! Shows and checks whatever this program wrote: result folders, their tables, pages and kept pages, binary files.
//!
//! What a check can know differs: binary files and the pairs of a review carry checksums, kept pages those of gzip; what a folder
//! of results holds is counted against its report, and its pages are made again from it. A table by itself can be cut
//! after any line unseen, which is said.

use crate::corpus::{self, DiscoverOptions, ReadOptions};
use crate::error::{Error, Result};
use crate::evaluate::judged::{StratumJudgements, read_judgements};
use crate::format;
use crate::hash::{feature, text_digest};
use crate::pipeline::settings::MAX_DISTANCE;
use crate::report::csv::{ClustersCsv, PairsCsv};
use crate::report::html;
use crate::report::model::{ClusterSizes, CompareReport, FileRow, Report, Tool};
use crate::report::review::TITLE as REVIEW_TITLE;
use crate::search::keys::Keys;
use crate::search::selfjoin::cosine_of_distance;
use crate::seen::{COLUMNS as ANSWER_COLUMNS, Seen};
use crate::simhash::BITS;
use crate::text::FeatureKind;
use crate::wording::counted;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// What a file or folder is, and whether it is in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// What it is, in words.
    pub what: String,
    /// Facts as name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
    /// What is wrong with it; empty if it is in order.
    pub problems: Vec<String>,
}

impl Inspection {
    fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    fn fact(&mut self, name: impl Into<String>, value: impl ToString) {
        self.facts.push((name.into(), value.to_string()));
    }

    /// Notes a problem unless two counts are the same.
    fn same(&mut self, what: &str, expected: u64, got: u64) {
        if expected != got {
            self.problem(format!("{what}: {got}, but the report says {expected}"));
        }
    }

    /// Notes a problem; a file with thousands is told by its first ones.
    fn problem(&mut self, problem: String) {
        match self.problems.len() {
            0..MOST_PROBLEMS => self.problems.push(problem),
            MOST_PROBLEMS => self.problems.push("more problems are not listed".to_owned()),
            _ => {}
        }
    }

    /// A row of a table. One that cannot be read is a problem, and ends the table.
    fn row(&mut self, path: &Path, record: csv::Result<csv::StringRecord>) -> Option<csv::StringRecord> {
        record.map_err(|error| self.problem(format!("{}: {error}", path.display()))).ok()
    }

    /// Takes over the problems of a part.
    fn problems_of(&mut self, part: Self) {
        part.problems.into_iter().for_each(|problem| self.problem(problem));
    }
}

/// Problems that are listed.
const MOST_PROBLEMS: usize = 100;

/// What a table by itself cannot show.
const OF_TABLES: (&str, &str) =
    ("not known", "whether rows are missing: inspect the folder of results for that");

/// Looks at a file or a folder of results.
///
/// # Errors
/// If it cannot be read, or is nothing that this program writes. A file of ours that is damaged is an error where nothing of it
/// can be trusted, and otherwise a problem of the [`Inspection`].
pub fn inspect(path: &Path) -> Result<Inspection> {
    if path.is_dir() {
        return inspect_folder(path);
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head));
    read.map_err(|e| Error::io(path, e))?;
    if head.starts_with(b"flipside") {
        return inspect_binary(path);
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    let has = |columns: &[&str]| line.split(',').take(columns.len()).eq(columns.iter().copied());
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        _ if has(&JUDGED_COLUMNS) => inspect_judgements(path),
        _ if has(&ANSWER_COLUMNS) => inspect_answers(path),
        _ if line.starts_with("{\"page\":") && line.contains("\"answer\":") => inspect_answer_lines(path),
        _ if head.to_ascii_lowercase().starts_with("<!doctype html>") => inspect_html(path),
        "report.json" => inspect_report(path),
        _ if head.starts_with("{\n  \"tool\": {") => inspect_report(path),
        "pairs.csv" => inspect_pairs(path, None).map(|(inspection, _)| inspection),
        _ if has(&PairsCsv::COLUMNS[..6]) => inspect_pairs(path, None).map(|(inspection, _)| inspection),
        "clusters.csv" => inspect_clusters(path).map(|(inspection, _)| inspection),
        _ if has(&ClustersCsv::COLUMNS) => inspect_clusters(path).map(|(inspection, _)| inspection),
        _ => inspect_pages(path).map(|(inspection, _)| inspection).map_err(|error| match error {
            Error::NoDocuments(_) => nothing_of_ours(path, "unknown".to_owned()),
            error => error,
        }),
    }
}

fn nothing_of_ours(path: &Path, got: String) -> Error {
    Error::Format {
        path: path.to_path_buf(),
        field: "the content",
        expected: "something that flipside writes".to_owned(),
        got,
        advice: "that is a folder of results, a table or page of one, judged.csv, what flipside seen prints, a file of pages, or a \
                 file of document frequencies or seen pages",
    }
}

fn inspect_binary(path: &Path) -> Result<Inspection> {
    let (envelope, body) = format::read_any(path)?;
    let mut inspection = Inspection::of(envelope.kind.name);
    inspection.fact("version", envelope.version);
    let kind_of_features = serde_json::from_value::<FeatureKind>(envelope.header["features"].clone()).ok();
    if let serde_json::Value::Object(header) = envelope.header {
        for (name, value) in header {
            match serde_json::from_value::<Option<Keys>>(value.clone()) {
                Ok(Some(keys)) if name == "keys" => tell_keys(&keys, &mut inspection),
                Ok(None) if name == "keys" => inspection.fact(name, "leading bits"),
                _ => inspection.fact(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            }
        }
    }
    inspection.fact("body bytes", body.len());
    inspection.fact("checksum", "right");
    // The bytes are as they were written; whether they can be used is another question.
    let used = match envelope.kind {
        format::SEEN => Seen::params_of(path).and_then(|params| Seen::load(path, &params, 0)).map(|_| ()),
        _ => kind_of_features.map_or(Ok(()), |kind| crate::frequencies::load(path, kind).map(|_| ())),
    };
    if let Err(error) = used {
        inspection.problem(error.to_string());
    }
    Ok(inspection)
}

fn tell_keys(keys: &Keys, inspection: &mut Inspection) {
    for (bits, number) in keys.bits().iter().zip(1..) {
        let bits: Vec<String> = bits.iter().map(u32::to_string).collect();
        inspection.fact(format!("key {number}, bits as they were chosen"), bits.join(" "));
    }
}

/// Whether a report compares methods; such a one has a list of them.
fn compares(path: &Path) -> Result<bool> {
    let text = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    Ok(serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| value.get("methods").is_some()))
}

fn inspect_report(path: &Path) -> Result<Inspection> {
    if compares(path)? {
        let report = CompareReport::read_json(path)?;
        let mut inspection = Inspection::of("report of a comparison");
        check_tool(path, &report.tool)?;
        inspection.fact("written by", format!("{} {}", report.tool.name, report.tool.version));
        inspection.fact("created", &report.created);
        inspection.fact("command", report.command_line.join(" "));
        inspection.fact("documents", report.corpus.documents);
        for method in &report.methods {
            inspection.fact(format!("pairs by {}", method.label), method.pairs);
            let of_method = report.agreement.iter().filter(|set| set.found_by.contains(&method.label));
            let pairs = of_method.map(|set| set.pairs).sum();
            inspection.same(
                &format!("pairs that {} found, alone or with others", method.label),
                method.pairs,
                pairs,
            );
        }
        return Ok(inspection);
    }
    let report = Report::read_json(path)?;
    check_tool(path, &report.tool)?;
    let mut inspection = Inspection::of("report of a deduplication");
    inspection.fact("written by", format!("{} {}", report.tool.name, report.tool.version));
    inspection.fact("created", &report.created);
    inspection.fact("command", report.command_line.join(" "));
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
    inspection.fact("damaged input", report.damage.total);
    check_sums(&report, &mut inspection);
    Ok(inspection)
}

fn check_tool(path: &Path, tool: &Tool) -> Result<()> {
    if tool.name == Tool::this().name {
        return Ok(());
    }
    Err(nothing_of_ours(path, format!("a report of the tool {:?}", tool.name)))
}

/// Counts of a report that follow from others of it.
fn check_sums(report: &Report, inspection: &mut Inspection) {
    let (outcome, corpus) = (&report.outcome, &report.corpus);
    inspection.same(
        "kept and removed documents",
        corpus.documents,
        outcome.kept.saturating_add(outcome.removed),
    );
    let duplicates = outcome.exact_duplicates.saturating_add(outcome.near_duplicates);
    inspection.same("exact duplicates and near-duplicates", outcome.removed, duplicates);
    let beside_kept = outcome.documents_in_clusters.saturating_sub(outcome.clusters);
    inspection.same("documents of clusters that do not stay", outcome.removed, beside_kept);
    // Lists that an older version did not write are empty.
    if !report.files.is_empty() {
        let sum = |field: fn(&FileRow) -> u64| report.files.iter().map(field).fold(0, u64::saturating_add);
        inspection.same("documents of all files", corpus.documents, sum(|file| file.documents));
        inspection.same("kept documents of all files", outcome.kept, sum(|file| file.kept));
    }
    if !report.cluster_sizes.is_empty() {
        let sum =
            |of: fn(&ClusterSizes) -> u64| report.cluster_sizes.iter().map(of).fold(0, u64::saturating_add);
        inspection.same("clusters of all sizes", outcome.clusters, sum(|row| row.clusters));
        let documents = sum(|row| row.size.saturating_mul(row.clusters));
        inspection.same("documents in clusters of all sizes", outcome.documents_in_clusters, documents);
    }
    if !report.damage.by_kind.is_empty() {
        let pieces = report.damage.by_kind.iter().map(|kind| kind.records).fold(0, u64::saturating_add);
        inspection.same("damaged input of all kinds", report.damage.total, pieces);
    }
}

fn inspect_folder(folder: &Path) -> Result<Inspection> {
    let path = folder.join("report.json");
    if !path.exists() {
        return Err(Error::Format {
            path: folder.to_path_buf(),
            field: "report.json",
            expected: "one".to_owned(),
            got: "missing".to_owned(),
            advice: "name a folder that flipside dedup or compare wrote",
        });
    }
    let mut inspection = inspect_report(&path)?;
    for page in ["report.html", "review.html"].map(|name| folder.join(name)) {
        if page.exists() {
            inspection.problems_of(inspect_html(&page)?);
        }
    }
    if compares(&path)? {
        return Ok(inspection);
    }
    let report = Report::read_json(&path)?;
    let outcome = report.outcome;
    inspection.what = "folder of results".to_owned();
    let (clusters, (rows, count, cluster_of)) = inspect_clusters(&folder.join("clusters.csv"))?;
    inspection.problems_of(clusters);
    inspection.same("rows of clusters.csv", outcome.documents_in_clusters, rows);
    inspection.same("clusters of clusters.csv", outcome.clusters, count);
    let chosen = |name: &str| report.method.parameters.iter().find(|p| p.name == name).map(|p| &*p.value);
    let together = Together {
        cluster_of,
        connected: chosen("clusters") == Some("connected"),
        passing: chosen("verify threshold").and_then(|value| value.parse().ok()),
    };
    let (pairs, rows) = inspect_pairs(&folder.join("pairs.csv"), Some(&together))?;
    inspection.problems_of(pairs);
    inspection.same("rows of pairs.csv", outcome.pairs_written, rows);
    let mut kept = 0;
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let names = entries.map_err(|e| Error::io(folder, e))?.into_iter().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| corpus::is_kept_file(name));
    names.sort();
    for name in names {
        let (pages, documents) = inspect_pages(&folder.join(&name))?;
        inspection.problems_of(pages);
        inspection.fact(name, format!("{documents} documents"));
        kept += documents;
    }
    inspection.same("documents in the files of kept pages", outcome.kept, kept);
    Ok(inspection)
}

/// A reader of one of our tables, whose first columns are known.
fn open_table(path: &Path, columns: &[&str]) -> Result<csv::Reader<File>> {
    let csv_error = |e: csv::Error| Error::io(path, e.into());
    let mut reader = csv::Reader::from_path(path).map_err(csv_error)?;
    let header: Vec<&str> = reader.headers().map_err(csv_error)?.iter().collect();
    if !header.starts_with(columns) {
        return Err(Error::Format {
            path: path.to_path_buf(),
            field: "the first line",
            expected: columns.join(","),
            got: header.join(","),
            advice: "name a table that flipside wrote",
        });
    }
    Ok(reader)
}

/// What the pairs of a result must fit.
struct Together {
    /// The cluster of each document, by the hash of its id.
    cluster_of: HashMap<u64, u32>,
    /// Whether every pair is within one cluster.
    connected: bool,
    /// The similarity from which a pair of different texts is listed, if a check was made.
    passing: Option<f64>,
}

impl Together {
    /// What is wrong with a pair, if anything.
    fn problem(&self, [a, b]: [&str; 2], similarity: Option<f64>, near: bool) -> Option<&'static str> {
        /// Similarities are written with four decimals.
        const ROUNDED: f64 = 5.1e-5;
        let [a, b] = [a, b].map(|id| self.cluster_of.get(&feature(id.as_bytes())));
        if a.is_none() || b.is_none() {
            return Some("a document that is in no cluster of clusters.csv");
        }
        if self.connected && a != b {
            return Some("documents of two clusters of clusters.csv");
        }
        let below = near && self.passing.zip(similarity).is_some_and(|(least, s)| s < least - ROUNDED);
        below.then_some("a similarity below the threshold of the check")
    }
}

/// Tells if a table ends within a line.
fn check_end(path: &Path, inspection: &mut Inspection) -> Result<()> {
    let mut last = [0];
    let read = |mut file: File| {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)
    };
    File::open(path).and_then(read).map_err(|e| Error::io(path, e))?;
    if last != *b"\n" {
        inspection.problem(format!("{}: the last line has no end; the file was cut", path.display()));
    }
    Ok(())
}

fn inspect_pairs(path: &Path, together: Option<&Together>) -> Result<(Inspection, u64)> {
    let mut inspection = Inspection::of("table of pairs");
    let mut reader = open_table(path, &PairsCsv::COLUMNS[..6])?;
    let measure: Option<usize> =
        reader.headers().map_err(|e| Error::io(path, e.into()))?.iter().position(|name| name == "measure");
    let mut measures: BTreeMap<String, u64> = BTreeMap::new();
    let (mut rows, mut least) = (0, f64::INFINITY);
    for record in reader.records() {
        let Some(record) = inspection.row(path, record) else { break };
        rows += 1;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |at: usize| record.get(at).unwrap_or_default();
        let mut wrong = |what: &str| inspection.problem(format!("{}, line {line}: {what}", path.display()));
        let measure = measure.map(field);
        if let Some(name) = measure {
            match measures.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    measures.insert(name.to_owned(), 1);
                }
            }
        }
        let similarity = field(5).parse::<f64>().ok().filter(|similarity| (0.0..=1.0).contains(similarity));
        match similarity {
            Some(similarity) => least = least.min(similarity),
            None => wrong("no similarity from 0 to 1"),
        }
        let distance = field(4).parse::<u32>().ok().filter(|&distance| distance <= BITS as u32);
        if distance.is_none() && !field(4).is_empty() {
            wrong("no distance of 64 bits");
        }
        let copies = measure == Some("text");
        if copies != (field(6) == "exact") || (copies && similarity != Some(1.0)) {
            wrong("a pair of kind exact has the measure text and a similarity of 1, and no other pair has");
        }
        if let (Some("hash-cosine"), Some(distance), Some(similarity)) = (measure, distance, similarity)
            && (f64::from(cosine_of_distance(distance)) - similarity).abs() > 1e-4
        {
            wrong("the similarity is not that of the distance");
        }
        if field(0) == field(1) {
            wrong("a document paired with itself");
        } else if let Some(problem) =
            together.and_then(|t| t.problem([field(0), field(1)], similarity, !copies))
        {
            wrong(problem);
        }
    }
    check_end(path, &mut inspection)?;
    inspection.fact("pairs", rows);
    if rows > 0 {
        inspection.fact("least similarity", least);
    }
    for (name, pairs) in measures {
        inspection.fact(format!("pairs by similarity {name}"), pairs);
    }
    inspection.fact(OF_TABLES.0, OF_TABLES.1);
    Ok((inspection, rows))
}

/// Rows, clusters, and the cluster of each document by the hash of its id.
type ClusterCounts = (u64, u64, HashMap<u64, u32>);

fn inspect_clusters(path: &Path) -> Result<(Inspection, ClusterCounts)> {
    /// A cluster as its rows tell it.
    struct Rows {
        number: u32,
        /// The size that its first row says.
        size: String,
        members: u64,
        kept: u64,
    }
    let mut inspection = Inspection::of("table of clusters");
    let mut reader = open_table(path, &ClustersCsv::COLUMNS)?;
    let mut clusters: BTreeMap<String, Rows> = BTreeMap::new();
    let mut cluster_of = HashMap::new();
    let mut rows = 0;
    for record in reader.records() {
        let Some(record) = inspection.row(path, record) else { break };
        let field = |at| record.get(at).unwrap_or_default();
        let line = record.position().map_or(0, csv::Position::line);
        let next = clusters.len() as u32;
        let entry = clusters.entry(field(2).to_owned()).or_insert_with(|| Rows {
            number: next,
            size: field(3).to_owned(),
            members: 0,
            kept: 0,
        });
        entry.members += 1;
        entry.kept += u64::from(field(4) == "true");
        rows += 1;
        let mut wrong = |what: &str| inspection.problem(format!("{}, line {line}: {what}", path.display()));
        if field(3) != entry.size {
            wrong("another size than the rows before say of the cluster");
        }
        if !["true", "false"].contains(&field(4)) {
            wrong("kept is neither true nor false");
        }
        if cluster_of.insert(feature(field(0).as_bytes()), entry.number).is_some() {
            wrong("a document that is there already");
        }
    }
    for (cluster, Rows { size, members, kept, .. }) in &clusters {
        if size.parse() != Ok(*members) || *kept != 1 || *members < 2 {
            inspection.problem(format!(
                "{}: cluster {cluster} says {size} documents, has {members}, and keeps {kept}",
                path.display()
            ));
        }
    }
    check_end(path, &mut inspection)?;
    inspection.fact("clusters", clusters.len());
    inspection.fact("documents", rows);
    inspection.fact(OF_TABLES.0, OF_TABLES.1);
    Ok((inspection, (rows, clusters.len() as u64, cluster_of)))
}

/// The first columns of judgements, as the page of a review saves them.
const JUDGED_COLUMNS: [&str; 4] = ["a_id", "b_id", "stratum", "stratum_pairs"];

/// Judgements of a review: [`crate::evaluate::judged`].
fn inspect_judgements(path: &Path) -> Result<Inspection> {
    let mut inspection = Inspection::of("table of judged pairs");
    let strata = match read_judgements(path, 1.0, None) {
        Ok(strata) => strata,
        Err(error @ Error::Table { .. }) => {
            inspection.problem(error.to_string());
            return Ok(inspection);
        }
        Err(error) => return Err(error),
    };
    // A row's weight says for how many pairs of its band it stands, and so how many rows the band was given.
    let mut reader = open_table(path, &JUDGED_COLUMNS)?;
    let mut given: BTreeMap<String, u64> = BTreeMap::new();
    for record in reader.records().flatten() {
        let number = |at: usize| record.get(at).and_then(|text| text.parse::<f64>().ok());
        if let (Some(band), Some(pairs), Some(weight)) = (record.get(2), number(3), number(4)) {
            given.insert(band.to_owned(), (pairs / weight).round() as u64);
        }
    }
    let sum = |of: fn(&StratumJudgements) -> u64| strata.iter().map(of).sum::<u64>();
    inspection.fact("bands", strata.len());
    inspection.fact("pairs listed", sum(|band| band.pairs));
    inspection.fact("pairs in the sample", given.values().sum::<u64>());
    inspection.fact("judged right", sum(|band| band.right));
    inspection.fact("judged wrong", sum(|band| band.wrong));
    inspection.fact("not judged, or unknown", sum(|band| band.unknown));
    inspection.fact(
        "not known",
        "whether the result is the one that was judged: flipside evaluate RESULT --judged checks that",
    );
    for band in &strata {
        let rows = band.right + band.wrong + band.unknown;
        if let Some(&sampled) = given.get(&band.name).filter(|&&sampled| sampled != rows) {
            let rows = counted(rows, "row", "rows");
            inspection.problem(format!(
                "{}: {rows} of the band {:?}, and {sampled} were drawn",
                path.display(),
                band.name
            ));
        }
    }
    Ok(inspection)
}

/// Answers of `flipside seen`, counted by what they say.
#[derive(Default)]
struct Answers(BTreeMap<String, u64>);

impl Answers {
    /// Counts an answer and tells what is wrong with it.
    fn add(
        &mut self,
        page: &str,
        answer: &str,
        distance: Option<u32>,
        earlier: &str,
    ) -> Option<&'static str> {
        *self.0.entry(answer.to_owned()).or_default() += 1;
        let fits = match (answer, distance) {
            ("new", None) => earlier.is_empty(),
            ("same", Some(0)) => true,
            ("near", Some(distance)) => distance <= MAX_DISTANCE,
            _ => false,
        };
        match (fits, page.is_empty()) {
            (false, _) => {
                Some("no answer of flipside seen: new, near with a distance, or same with a distance of 0")
            }
            (true, true) => Some("an answer about no page"),
            (true, false) => None,
        }
    }

    fn tell(self, inspection: &mut Inspection) {
        inspection.fact("answers", self.0.values().sum::<u64>());
        for (answer, count) in self.0 {
            inspection.fact(format!("of these {answer}"), count);
        }
        inspection
            .fact("not known", "whether answers are missing at the end: nothing says how many there were");
    }
}

fn inspect_answers(path: &Path) -> Result<Inspection> {
    let mut inspection = Inspection::of("answers of flipside seen");
    let mut reader = open_table(path, &ANSWER_COLUMNS)?;
    let mut answers = Answers::default();
    for record in reader.records() {
        let Some(record) = inspection.row(path, record) else { break };
        let field = |at| record.get(at).unwrap_or_default();
        if let Some(wrong) = answers.add(field(0), field(1), field(2).parse().ok(), field(3)) {
            let line = record.position().map_or(0, csv::Position::line);
            inspection.problem(format!("{}, line {line}: {wrong}", path.display()));
        }
    }
    check_end(path, &mut inspection)?;
    answers.tell(&mut inspection);
    Ok(inspection)
}

fn inspect_answer_lines(path: &Path) -> Result<Inspection> {
    #[derive(Deserialize)]
    struct Line {
        page: String,
        answer: String,
        distance: Option<u32>,
        earlier: Option<String>,
    }
    let mut inspection = Inspection::of("answers of flipside seen");
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut answers = Answers::default();
    for (line, number) in BufReader::new(file).lines().zip(1..) {
        let line = line.map_err(|e| Error::io(path, e))?;
        let wrong = match serde_json::from_str::<Line>(&line) {
            Ok(Line { page, answer, distance, earlier }) => answers
                .add(&page, &answer, distance, earlier.as_deref().unwrap_or_default())
                .map(str::to_owned),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            inspection.problem(format!("{}, line {number}: {wrong}", path.display()));
        }
    }
    check_end(path, &mut inspection)?;
    answers.tell(&mut inspection);
    Ok(inspection)
}

/// What stands between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    text.split_once(from)?.1.split_once(to).map(|(inner, _)| inner)
}

/// A page of ours: a report, or pairs to judge.
fn inspect_html(path: &Path) -> Result<Inspection> {
    let page = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    let title = between(&page, "<title>", "</title>").unwrap_or_default();
    if !title.starts_with("flipside: ") {
        return Err(nothing_of_ours(path, format!("a page of the title {title:?}")));
    }
    let reviews = title == REVIEW_TITLE;
    let mut inspection = Inspection::of(if reviews { "page to judge pairs on" } else { "page of a report" });
    if !page.trim_end().ends_with("</html>") {
        inspection.problem(format!("{}: it has no end; the file was cut", path.display()));
    } else if reviews {
        inspect_review(path, &page, &mut inspection);
    } else {
        inspect_report_page(path, &page, &mut inspection)?;
    }
    Ok(inspection)
}

fn inspect_review(path: &Path, page: &str, inspection: &mut Inspection) {
    let data = between(page, "<script type=\"application/json\" id=\"data\">", "</script>");
    let (Some(data), Some(id)) = (data, between(page, "data-id=\"", "\"")) else {
        return inspection.problem(format!("{}: its pairs are not there", path.display()));
    };
    if format!("{:032x}", text_digest(data)) != id {
        inspection.problem(format!("{}: its pairs do not fit their checksum", path.display()));
    }
    match serde_json::from_str::<serde_json::Value>(data) {
        Ok(data) => {
            let count = |name: &str| data[name].as_array().map_or(0, Vec::len);
            inspection.fact("pairs to judge", count("pairs"));
            inspection.fact("bands", count("strata"));
        }
        Err(error) => inspection.problem(format!("{}: its pairs are no JSON: {error}", path.display())),
    }
    inspection.fact("not here", "judgements: the browser keeps them, and saves them as judged.csv");
}

/// A report's page is made from report.json alone, so it can be made again.
fn inspect_report_page(path: &Path, page: &str, inspection: &mut Inspection) -> Result<()> {
    let json = path.with_file_name("report.json");
    if !json.exists() {
        inspection.fact("not known", "whether its figures are right: there is no report.json beside it");
        return Ok(());
    }
    let (tool, made) = if compares(&json)? {
        let report = CompareReport::read_json(&json)?;
        (report.tool.clone(), html::render_compare(&report)?)
    } else {
        let report = Report::read_json(&json)?;
        (report.tool.clone(), html::render(&report)?)
    };
    if tool != Tool::this() {
        let by = format!("whether its figures are right: {} {} made it", tool.name, tool.version);
        inspection.fact("not known", by);
    } else if page == made {
        inspection.fact("its figures", "those of report.json");
    } else {
        inspection.problem(format!(
            "{}: not the page that report.json makes; one of the two was changed",
            path.display()
        ));
    }
    Ok(())
}

fn inspect_pages(path: &Path) -> Result<(Inspection, u64)> {
    let inputs = corpus::discover(&[path.to_path_buf()], &DiscoverOptions::default())?;
    let reading = corpus::read(&inputs, &ReadOptions::default(), || (), |(), _| (), &|_| ());
    let mut inspection = Inspection::of("file of pages");
    let mut documents = 0;
    for file in reading.files {
        documents += file.documents;
        inspection.fact("records", file.records);
        inspection.fact("documents", file.documents);
        inspection.fact("text bytes", file.text_bytes);
        file.damage.iter().for_each(|damage| inspection.problem(damage.to_string()));
    }
    inspection
        .fact("not known", "whether pages are missing at the end: inspect the folder of results for that");
    Ok((inspection, documents))
}
