//! The whole road from files to a folder of results. The only module that knows all the stops.

mod budgets;
pub mod collect;
mod compare;
mod dedup;
pub mod explain;
pub mod find;
mod output;
mod plan;
mod review;
mod samples;
pub mod settings;
pub mod sketch;
pub mod stages;
pub mod verify;

pub use budgets::{BudgetTable, budgets};
pub use compare::compare;
pub use dedup::dedup;
pub use plan::{Plan, PlanRow, Purpose, plan};
pub use review::{ReviewJob, ReviewSummary, SIMILARITY_CUTS, review};
pub use stages::{Progress, Silent};

use crate::corpus::{self, FileReading, Input, JsonlFields, ReadOptions, discover};
use crate::document::DocumentTable;
use crate::error::{Error, Result};
use crate::format;
use crate::hash::FEATURE_HASH;
use crate::pairs::{Kind, Pair};
use crate::report::model as report;
use crate::weight::frequencies::Frequencies;
use crate::wording::counted;
use collect::{Collection, Keeping};
use hashbrown::HashSet;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use settings::{JaccardCheck, Method, PsmIndex, Settings, Verify};
use sketch::{SimHashes, Texts};
use stages::Stages;
use std::borrow::Cow;
use std::path::PathBuf;

/// What is to be done, and where the results go.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Files and folders; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// Names of the JSONL fields and Parquet columns.
    pub fields: JsonlFields,
    /// The longest page that is read, in bytes; `None` for the default of [`ReadOptions`].
    pub longest_page: Option<usize>,
    /// The folder to make.
    pub out: PathBuf,
    /// Whether a folder of that name is replaced.
    pub force: bool,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// Where to save the document frequencies.
    pub save_frequencies: Option<PathBuf>,
    /// What decides the result.
    pub settings: Settings,
    /// The command as typed, for the report.
    pub command_line: Vec<String>,
    /// When the run began, RFC 3339, for the report.
    pub created: String,
}

impl Job {
    /// Runs `work` with this job's number of threads.
    fn with_threads<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .build()
            .map_err(|e| Error::parameter("threads", self.threads, e.to_string()))?;
        Ok(pool.install(work))
    }

    /// How files are read. Within [`Job::with_threads`].
    fn read_options(&self) -> ReadOptions {
        ReadOptions {
            threads: rayon::current_num_threads(),
            ..ReadOptions::new(self.fields.clone(), self.longest_page)
        }
    }
}

/// The way that all methods share: documents read and counted, grouped by text, with frequencies.
struct Prepared {
    collection: Collection,
    texts: Texts,
    frequencies: Option<Frequencies>,
    /// Documents whose record id an earlier document has already.
    repeated_ids: HashSet<u32>,
}

impl Prepared {
    /// A document's id in results: the record's own, or, where it has none or not for itself alone, the file and its place
    /// there.
    fn id_of(&self, document: u32) -> Cow<'_, str> {
        let documents = &self.collection.documents;
        match documents.record_id(document) {
            Some(id) if !self.repeated_ids.contains(&document) => Cow::Borrowed(id),
            _ => {
                let id = documents.rows()[document as usize].id;
                Cow::Owned(self.collection.inputs[id.shard as usize].name_of(id.row))
            }
        }
    }
}

/// Documents whose record id an earlier document has already.
fn repeated_ids(documents: &DocumentTable) -> HashSet<u32> {
    let mut seen = HashSet::new();
    let is_repeated = |&document: &u32| {
        documents.record_id(document).is_some_and(|id| !seen.insert(crate::hash::text_digest(id)))
    };
    (0..documents.len() as u32).filter(is_repeated).collect()
}

/// What a run must keep of each page. Weights that need no document frequencies can be summed while pages are read; then
/// nothing else needs features but what compares or saves them.
fn keeping(job: &Job, needs_simhash: bool) -> Keeping {
    let settings = &job.settings;
    let by_features = matches!(settings.verify, Verify::Jaccard | Verify::Containment | Verify::Cosine);
    let needs_features = settings.method == Method::Minhash
        || settings.jaccard == JaccardCheck::Exact
        || settings.weighting.needs_frequencies()
        || by_features
        || job.save_frequencies.is_some();
    if needs_simhash && !needs_features { Keeping::SimHashes(settings.weighting) } else { Keeping::Features }
}

fn prepare(job: &Job, needs_simhash: bool, keeping: Keeping, stages: &mut Stages<'_>) -> Result<Prepared> {
    let settings = &job.settings;
    settings.check()?;
    if let Some(path) = &job.save_frequencies {
        format::check_place("save-frequencies", path)?;
    }
    let needs_frequencies = ((needs_simhash || settings.verify == Verify::Cosine)
        && settings.weighting.needs_frequencies())
        || job.save_frequencies.is_some();
    // A file of frequencies that does not fit is told before hours of reading.
    let loaded = match &settings.frequencies {
        Some(path) if needs_frequencies => Some(crate::frequencies::load(path, settings.features)?),
        _ => None,
    };
    let inputs = discover(&job.inputs, &Default::default())?;
    let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
    let options = job.read_options();
    let collection = stages.run("read", 0, "pages", stored.max(1), |progress| {
        collect::collect(inputs, &options, settings.features, keeping, progress)
    });
    stages.amend(collection.documents.len() as u64, collection.text_bytes());
    for line in collection.files.iter().flat_map(FileReading::damage_told) {
        stages.progress().note(&line);
    }
    if collection.documents.is_empty() {
        let damaged: u64 = collection.files.iter().map(|file| file.damaged).sum();
        let first = collection.files.iter().flat_map(|file| &file.damage).next();
        let why = match first {
            Some(damage) => format!(
                "{} read, {}; the first: {damage}",
                counted(collection.files.len() as u64, "file was", "files were"),
                counted(damaged, "piece of damage", "pieces of damage"),
            ),
            None => format!(
                "{} read, and there is no conversion record or line of JSON",
                counted(collection.files.len() as u64, "file was", "files were")
            ),
        };
        return Err(Error::NoDocuments(why));
    }
    let n = collection.documents.len() as u64;
    let texts = stages.run("exact copies", n, "pages", 0, |_| Texts::new(&collection, settings.min_features));
    let frequencies = match loaded {
        Some(frequencies) => Some(frequencies),
        None if needs_frequencies => Some(stages.run("frequencies", n, "pages", 0, |_| {
            Frequencies::sum(settings.features, n, &collection.terms())
        })),
        None => None,
    };
    if let (Some(path), Some(frequencies)) = (&job.save_frequencies, &frequencies) {
        crate::frequencies::save(frequencies, path)?;
    }
    let repeated_ids = repeated_ids(&collection.documents);
    Ok(Prepared { collection, texts, frequencies, repeated_ids })
}

fn simhashes(prepared: &Prepared, settings: &Settings, stages: &mut Stages<'_>) -> SimHashes {
    let Prepared { collection, texts, frequencies, .. } = prepared;
    let none = Frequencies::new(settings.features);
    let frequencies = frequencies.as_ref().unwrap_or(&none);
    let n = texts.sketched.len() as u64;
    stages.run("simhash", n, "pages", 0, |progress| {
        sketch::simhashes(collection, texts, settings, frequencies, progress)
    })
}

/// Finds near-duplicates by the settings' method.
fn find(
    prepared: &Prepared,
    simhashes: Option<&SimHashes>,
    settings: &Settings,
    stages: &mut Stages<'_>,
) -> Result<find::Found> {
    let Prepared { collection, texts, .. } = prepared;
    let mut found = match (settings.method, simhashes) {
        (Method::Psm | Method::Bphs, Some(sketches)) => {
            find::by_simhash(collection, texts, sketches, settings, stages)
        }
        (Method::Psm | Method::Bphs, None) => {
            let sketches = self::simhashes(prepared, settings, stages);
            return find(prepared, Some(&sketches), settings, stages);
        }
        (Method::Minhash, _) => find::by_minhash(collection, texts, settings, stages),
    }?;
    let candidates = found.joined.len() as u64;
    if settings.verify == Verify::None {
        return Ok(found);
    }
    let verified = stages.run("verify", candidates, "pairs of sketches", 0, |_| {
        measure(prepared, simhashes, settings, settings.verify).map(|measure| {
            verify::verify(&measure, settings.passing() as f32, &found.groups, &found.joined, settings.keep)
        })
    });
    if let Some(verified) = verified {
        (found.groups, found.joined) = (verified.groups, verified.joined);
        found.chosen.push(("verified candidates", format!("{}", verified.compared)));
        found.chosen.push(("of these refused", format!("{}", verified.refused)));
        if verified.skipped > 0 {
            found.warnings.push(format!(
                "{} not compared, because too many pages with different texts share a sketch.",
                counted(verified.skipped, "pair of pages was", "pairs of pages were")
            ));
        }
    }
    Ok(found)
}

/// What compares two documents of this run.
fn measure<'a>(
    prepared: &'a Prepared,
    simhashes: Option<&'a SimHashes>,
    settings: &Settings,
    verify: Verify,
) -> Option<verify::Measure<'a>> {
    let Prepared { collection, texts, frequencies, .. } = prepared;
    verify::Measure::new(verify, collection, texts, simhashes, frequencies.as_ref(), settings)
}

/// Gives each pair of different texts the similarity that its results are said to have, and drops what does not pass the
/// check. Only pairs of two groups' leaders have it already: unless `every` pair is listed, those are all but the ones of
/// equal sketches.
fn measure_pairs(
    pairs: &mut Vec<Pair>,
    every: bool,
    prepared: &Prepared,
    simhashes: Option<&SimHashes>,
    settings: &Settings,
    stages: &mut Stages<'_>,
) {
    let counts = settings.method == Method::Minhash && settings.jaccard == JaccardCheck::Exact;
    let verify = match settings.verify {
        Verify::None if counts => Verify::Jaccard,
        verify => verify,
    };
    let Some(measure) = measure(prepared, simhashes, settings, verify) else { return };
    stages.run("verify pairs", pairs.len() as u64, "pairs", 0, |_| {
        // Pairs ascend, so that those of one document lie together and share its anchor.
        pairs.par_chunk_by_mut(|p, q| p.a == q.a).for_each(|pairs| {
            let mut anchor = None;
            for pair in pairs.iter_mut().filter(|p| p.kind == Kind::Near && (every || p.distance == 0)) {
                pair.similarity = anchor.get_or_insert_with(|| measure.anchor(pair.a)).with(pair.b);
            }
        });
        if settings.verify != Verify::None {
            let passing = settings.passing() as f32;
            pairs.retain(|pair| pair.kind == Kind::Exact || pair.similarity >= passing);
        }
    });
}

/// The report's words for a method and its parameters.
fn describe(settings: &Settings, chosen: &[(&'static str, String)]) -> report::Method {
    let mut parameters = vec![
        ("features", settings.features.to_string()),
        ("tokenizer", crate::text::TOKENIZER.to_owned()),
        ("min features", settings.min_features.to_string()),
    ];
    let mut similarity = match settings.method {
        Method::Psm | Method::Bphs => {
            parameters.push(("weighting", settings.weighting.name().to_owned()));
            if settings.weighting.needs_frequencies() {
                let of_corpus = || "of this corpus".to_owned();
                let from =
                    settings.frequencies.as_ref().map_or_else(of_corpus, |path| path.display().to_string());
                parameters.push(("frequencies", from));
            }
            parameters.push(("distance", format!("{} of 64 bits", settings.distance)));
            "cosine of the pages' feature weights, as estimated by the distance d of their hashes: cos(π·d/64)".to_owned()
        }
        Method::Minhash => {
            parameters.push(("similarity", settings.similarity.to_string()));
            parameters.push(("permutations", settings.permutations.to_string()));
            parameters.push(("family", settings.family.name().to_owned()));
            match settings.jaccard {
                JaccardCheck::Estimated => {
                    format!("Jaccard coefficient of the pages' sets of {}, estimated", settings.features)
                }
                JaccardCheck::Exact => {
                    format!("Jaccard coefficient of the pages' sets of {}, counted", settings.features)
                }
            }
        }
    };
    match settings.method {
        Method::Psm => {
            parameters.push(("recall", settings.recall.to_string()));
            if settings.index != PsmIndex::Dial {
                parameters.push(("flip cost", settings.flip_cost.to_string()));
            }
        }
        Method::Minhash => parameters.push(("recall", settings.recall.to_string())),
        Method::Bphs => {}
    }
    parameters.push(("verify", settings.verify.name().to_owned()));
    if settings.verify != Verify::None {
        settings.verify.meaning().clone_into(&mut similarity);
        parameters.push(("verify threshold", settings.passing().to_string()));
    }
    parameters.extend(chosen.iter().cloned());
    parameters.push(("clusters", settings.linkage.name().to_owned()));
    parameters.push(("keep", settings.keep.to_string()));
    parameters.push(("all pairs", if settings.all_pairs { "yes" } else { "no" }.to_owned()));
    report::Method {
        name: settings.method.name().to_owned(),
        similarity,
        parameters: parameters
            .into_iter()
            .map(|(name, value)| report::Parameter { name: name.to_owned(), value })
            .collect(),
        seed: settings.seed,
        hash: FEATURE_HASH.to_owned(),
    }
}

/// The report's words for the corpus.
fn describe_corpus(prepared: &Prepared) -> report::Corpus {
    let Prepared { collection, texts, .. } = prepared;
    let mut languages: Vec<report::LanguageCount> = collection
        .languages
        .iter()
        .filter(|(language, _)| !language.is_empty())
        .map(|(language, &documents)| report::LanguageCount { language: language.clone(), documents })
        .collect();
    languages.sort_by(|a, b| b.documents.cmp(&a.documents).then_with(|| a.language.cmp(&b.language)));
    languages.truncate(20);
    report::Corpus {
        files: collection.files.len() as u64,
        stored_bytes: collection.files.iter().map(|file| file.stored_bytes).sum(),
        text_bytes: collection.text_bytes(),
        records: collection.files.iter().map(|file| file.records).sum(),
        documents: collection.documents.len() as u64,
        documents_with_few_features: texts
            .unsketched
            .iter()
            .map(|&text| texts.copies(text).len() as u64)
            .sum(),
        languages,
    }
}

/// The report's words for damaged input, with what showed only later.
fn describe_damage(collection: &Collection, later: &[corpus::Damage]) -> report::DamageReport {
    /// Pieces that a report lists one by one.
    const LISTED: usize = 200;
    let mut by_kind: std::collections::BTreeMap<String, u64> = Default::default();
    for damage in later {
        *by_kind.entry(damage.kind.to_string()).or_default() += 1;
    }
    for file in &collection.files {
        for damage in &file.damage {
            *by_kind.entry(damage.kind.to_string()).or_default() += 1;
        }
        let beyond = file.damaged - file.damage.len() as u64;
        if beyond > 0 {
            *by_kind.entry("not listed one by one".to_owned()).or_default() += beyond;
        }
    }
    let mut by_kind: Vec<_> =
        by_kind.into_iter().map(|(kind, records)| report::DamageCount { kind, records }).collect();
    by_kind.sort_by(|a, b| b.records.cmp(&a.records).then_with(|| a.kind.cmp(&b.kind)));
    report::DamageReport {
        total: later.len() as u64 + collection.files.iter().map(|file| file.damaged).sum::<u64>(),
        by_kind,
        listed: later
            .iter()
            .chain(collection.files.iter().flat_map(|file| &file.damage))
            .take(LISTED)
            .map(|damage| report::DamagedRecord {
                file: damage.path.display().to_string(),
                record: damage.record,
                offset: Some(damage.offset),
                kind: damage.kind.to_string(),
                detail: damage.detail.clone(),
            })
            .collect(),
    }
}

/// What a run came to, for the program that called it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Documents read.
    pub documents: u64,
    /// Documents that can go.
    pub removed: u64,
    /// Pieces of damage met.
    pub damaged: u64,
    /// A few sentences for a person.
    pub text: String,
}
