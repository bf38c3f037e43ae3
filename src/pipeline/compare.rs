//! Runs several methods on the same corpus and compares the pairs that they find. A *method* is a label with settings.

use super::documents::ReadDocuments;
use super::output::OutputFolder;
use super::samples::{Shown, sample_pairs};
use super::sources::SourceNumbers;
use super::stages::{Progress, SEARCH, Stages};
use super::{Job, Silent, Summary, all_inputs, read_files};
use crate::error::{Error, Result};
use crate::report::model::{
    Agreement, CompareReport, ExactRecall, MethodResult, OtherScore, PairSample, SCHEMA, Speed, Stage, Tool,
    write_json,
};
use crate::report::{html, messages};
use crate::resources::peak_memory_bytes;
use simflip_core::collection::{Keeping, Texts};
use simflip_core::dedup::{Context, Outcome, Pair, Prepared};
use simflip_core::id::Document;
use simflip_core::settings::{Generator, Settings, Sketches, Verification};
use simflip_core::weight::Weighting;
use std::collections::BTreeMap;
use std::path::Path;

/// Example pairs that a report shows for each set of methods.
const EXAMPLES: usize = 6;

/// A method that is compared with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Contender {
    /// Its name in the report, which no other contender has.
    pub label: String,
    /// Its settings.
    pub settings: Settings,
}

/// Runs several methods on the same documents, and writes a report into the new folder [`Job::out`]. For each method it
/// has the number of its pairs, its recall against an exact answer, and the speed of its search. Of the job's own
/// settings, the seed draws samples, and `keep` and `quota` say which fields documents must have.
///
/// Pairs are pairs of different texts: every method finds exact duplicates. Methods with the same features, weights and
/// [`Settings::min_features`] share one reading of the input; for others it is read again.
///
/// # Errors
/// If there are fewer than two contenders, if two have one label, and as [`super::dedup`].
pub fn compare(job: &Job, contenders: &[Contender], progress: &dyn Progress) -> Result<Summary> {
    let labels = || contenders.iter().map(|contender| &*contender.label).collect::<Vec<_>>();
    let mut different = labels();
    different.sort_unstable();
    different.dedup();
    if different.len() < 2 || different.len() < contenders.len() {
        return Err(Error::parameter("methods", labels().join(","), "two or more different ones"));
    }
    // Settings that cannot run are reported before any method has run.
    contenders.iter().try_for_each(|contender| contender.settings.check())?;
    let folder = OutputFolder::begin(&job.out, job.force)?;
    let report = job.with_threads(|| run(job, contenders, progress))??;
    write_json(&report, &folder.path().join("report.json"))?;
    html::write(&html::render_compare(&report)?, &folder.path().join("report.html"))?;
    folder.finish()?;
    Ok(Summary {
        documents: report.corpus.documents,
        removed: 0,
        corrupt: report.corruption.total,
        text: messages::comparison(&report),
    })
}

/// A method's result, and the pairs of different texts that it found, each text by its first document.
struct MethodRun {
    result: MethodResult,
    pairs: Vec<Pair>,
}

/// The weights of features in SimHashes; none if the settings' sketch is another.
fn weighting(settings: &Settings) -> Option<Weighting> {
    match settings.sketches {
        Sketches::SimHash { weighting } => Some(weighting),
        _ => None,
    }
}

/// The settings with which a method searches here: they ask for all pairs. A method with band hashes or block-permuted
/// tables would else find those alone by which documents are removed, where other indexes find all.
fn searched(settings: &Settings) -> Settings {
    settings.clone().with(|settings| settings.all_pairs = true)
}

/// Contenders that share one reading of the input, and the sketches that are made of it.
struct Group {
    /// Their places in the list of all contenders.
    members: Vec<usize>,
    /// The settings of the first of them, or of one that needs document frequencies, if one does.
    settings: Settings,
    /// The weights of features in SimHashes; none if none of them has SimHashes.
    weighting: Option<Weighting>,
}

impl Group {
    /// Groups all contenders. Groups are in the order of their first members.
    fn all(contenders: &[Contender]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (member, Contender { settings, .. }) in contenders.iter().enumerate() {
            let own = weighting(settings);
            let fits = |group: &&mut Self| {
                settings.extraction() == group.settings.extraction()
                    && settings.min_features == group.settings.min_features
                    && (own == group.weighting || own.is_none() || group.weighting.is_none())
            };
            match groups.iter_mut().find(fits) {
                Some(group) => {
                    group.members.push(member);
                    group.weighting = group.weighting.or(own);
                    if settings.needs_frequencies() && !group.settings.needs_frequencies() {
                        group.settings = settings.clone();
                    }
                }
                None => {
                    groups.push(Self { members: vec![member], settings: settings.clone(), weighting: own });
                }
            }
        }
        groups
    }
}

fn run(job: &Job, contenders: &[Contender], progress: &dyn Progress) -> Result<CompareReport> {
    let stages = Stages::new(progress);
    let groups = Group::all(contenders);
    let files = all_inputs(job)?;
    // The first group that needs document frequencies saves them.
    let saves = groups.iter().position(|group| group.settings.needs_frequencies()).unwrap_or(0);
    let mut warnings = Vec::new();
    let mut runs: Vec<Option<MethodRun>> = contenders.iter().map(|_| None).collect();
    let (mut first, mut shared, mut few) = (None::<ReadDocuments>, Vec::new(), 0);
    for (at, group) in groups.iter().enumerate() {
        let save_frequencies = job.save_frequencies.clone().filter(|_| at == saves);
        let job = Job { save_frequencies, ..job.clone() };
        // Messages on the input were printed when it was first read.
        let own = Stages::new(if at == 0 { progress } else { &Silent });
        let (read, frequencies, _) =
            read_files(&job, &group.settings, Some(Keeping::Features), Some(files.clone()), &own)?;
        if let Some(first) = &first
            && first.len() != read.len()
        {
            let changed = "the input has changed while it was read for several methods";
            return Err(Error::io(&job.inputs[0], std::io::Error::other(changed)));
        }
        let mut prepared = Prepared::new(&read.collection, &group.settings, frequencies, &own);
        if let Some(weighting) = group.weighting.filter(|_| weighting(&group.settings).is_none()) {
            prepared.hash(weighting, &own);
        }
        super::save_frequencies(&job, &read, prepared.frequencies(), &own)?;
        shared.extend(own.done());
        let mut methods = GroupMethods { job: &job, read: &read, prepared, exact: Vec::new(), progress };
        for &member in &group.members {
            let (run, outcome) = methods.run(&contenders[member])?;
            few = outcome.documents_with_few_features;
            let name = |document| read.named(document).shown_name();
            warnings.extend(messages::search_warnings(&outcome.searched, outcome.verified.as_ref(), &name));
            runs[member] = Some(run);
        }
        first.get_or_insert(read);
    }
    let Some(read) = first else { return Err(Error::parameter("methods", "none", "two or more")) };
    let runs: Vec<MethodRun> = runs.into_iter().flatten().collect();
    let mut of_input: Vec<String> = messages::odd_input_warnings(&read.files);
    of_input.extend(read.not_read.message());
    warnings.extend(messages::languages_warning(&read.languages));
    warnings.iter().for_each(|warning| progress.note(warning));
    let agreement = stages.run("samples", 0, "pairs", 0, |_| agreement(job, &read, contenders, &runs))?;
    Ok(CompareReport {
        schema: SCHEMA,
        tool: Tool::this(),
        created: job.created.clone(),
        command_line: job.command_line.clone(),
        corpus: messages::corpus(&read.files, read.len() as u64, few, &read.languages),
        methods: runs.into_iter().map(|run| run.result).collect(),
        agreement,
        shared_stages: shared.into_iter().chain(stages.done()).collect(),
        peak_memory_bytes: peak_memory_bytes(),
        corruption: messages::corruption(&read.files, &[]),
        warnings: of_input.into_iter().chain(warnings).collect(),
    })
}

/// Documents and sketches that the methods of a group run on.
struct GroupMethods<'a> {
    job: &'a Job,
    read: &'a ReadDocuments,
    prepared: Prepared<'a>,
    /// Pairs of texts that exact joins have found, each list with the settings of its join.
    exact: Vec<(Settings, Vec<[Document; 2]>)>,
    progress: &'a dyn Progress,
}

impl GroupMethods<'_> {
    fn run(&mut self, Contender { label, settings }: &Contender) -> Result<(MethodRun, Outcome)> {
        let (job, read) = (self.job, self.read);
        let own = Stages::new(self.progress);
        if settings.sketches.keyed().is_some() {
            self.prepared.sketch_both(settings, &own);
        }
        let mut outcome = self.outcome(settings, &own)?;
        // Methods may keep different documents of one text; here its first document stands for it.
        let texts = self.prepared.texts();
        for pair in &mut outcome.pairs {
            let [a, b] = pair.documents().map(|document| texts.copies(texts.text_of(document))[0]);
            (pair.a, pair.b) = (a.min(b), a.max(b));
        }
        let (searched, verified) = (&outcome.searched, outcome.verified);
        let done = own.done();
        let speed = self.speed(settings, searched.distinct, &done)?;
        let frequencies = job.frequencies.as_deref().filter(|_| settings.needs_frequencies());
        let mut result = MethodResult {
            label: label.clone(),
            settings: Some(settings.clone()),
            frequencies: frequencies.map(Path::to_path_buf),
            method: messages::method(settings, frequencies, searched, verified.as_ref()),
            pairs: outcome.pairs.len() as u64,
            clusters: outcome.clusters.len() as u64,
            kept: (read.len() - outcome.removed()) as u64,
            wall_seconds: done.iter().map(|stage| stage.wall_seconds).sum(),
            cpu_seconds: done.iter().map(|stage| stage.cpu_seconds).sum(),
            cost: messages::cost(searched),
            recall: messages::recall(searched),
            exact: None,
            speed,
        };
        result.exact = self.recall(settings, &outcome)?;
        let pairs = std::mem::take(&mut outcome.pairs);
        Ok((MethodRun { result, pairs }, outcome))
    }

    fn outcome(&self, settings: &Settings, progress: &Stages<'_>) -> Result<Outcome> {
        let url = |document| self.read.url(document);
        let sources = SourceNumbers::new(settings, self.read);
        let source = |document| sources.of(document);
        let context = Context::new(&url, progress).from_sources(&source);
        Ok(self.prepared.find(&searched(settings), &context)?.outcome_of_texts()?)
    }

    /// The speed of the search for candidates; none if it took no time that could be measured. `distinct` is the number
    /// of sketches that it searched for, and `done` are the stages of the method's run. Short searches are repeated.
    fn speed(&self, settings: &Settings, distinct: u64, done: &[Stage]) -> Result<Option<Speed>> {
        /// Seconds of processor time from which on the speed is measured well.
        const ENOUGH: f64 = 0.2;
        const MOST_ROUNDS: u64 = 50;
        /// Seconds of processor time that repeated searches may take, all their steps included.
        const MOST: f64 = 2.0;
        let of = |stages: &[Stage]| -> f64 {
            stages.iter().filter(|stage| stage.name == SEARCH).map(|stage| stage.cpu_seconds).sum()
        };
        let (mut seconds, mut rounds, mut all) = (of(done), 1, 0.0);
        while seconds < ENOUGH && rounds < MOST_ROUNDS && all < MOST {
            let again = Stages::new(&Silent);
            self.prepared.search(&searched(settings), &again)?;
            let again = again.done();
            seconds += of(&again);
            all += again.iter().map(|stage| stage.cpu_seconds).sum::<f64>();
            rounds += 1;
        }
        let queries = distinct * rounds;
        Ok((seconds > 0.0).then(|| Speed {
            queries,
            rounds,
            cpu_seconds: seconds,
            queries_per_second: queries as f64 / seconds,
        }))
    }

    /// The recall against an exact answer; none if there is none. For SimHashes, an exact join of the same hashes gives
    /// it. For methods by Jaccard similarity, a sample of texts is compared with all by counted coefficients.
    fn recall(&mut self, settings: &Settings, outcome: &Outcome) -> Result<Option<ExactRecall>> {
        if let Sketches::SimHash { .. } = settings.sketches {
            return self.hamming_recall(settings, &outcome.pairs).map(Some);
        }
        let similarity = match settings.verification {
            Verification::Estimate(similarity) | Verification::Jaccard(similarity) => similarity,
            // Of other measures, the run's own estimate of recall is all that there is.
            _ => {
                return Ok(outcome.recall_estimate.map(|recall_estimate| {
                    messages::sampled_recall(&recall_estimate, settings.verification)
                }));
            }
        };
        let bits = Settings::both(similarity).with(|bits| {
            bits.features = settings.features;
            bits.seed = settings.seed;
        });
        let stages = Stages::new(self.progress);
        self.prepared.sketch_both(&bits, &stages);
        let recall_estimate =
            self.prepared.counted_recall(similarity, settings.seed, &outcome.pairs, &stages);
        Ok(recall_estimate.map(|recall_estimate| {
            messages::counted_recall(&recall_estimate, similarity, settings.min_features)
        }))
    }

    fn hamming_recall(&mut self, settings: &Settings, found: &[Pair]) -> Result<ExactRecall> {
        let distance = settings.generator.distance().unwrap_or_default();
        let join = settings.clone().with(|join| join.generator = Generator::Join { distance });
        if !self.exact.iter().any(|(of, _)| *of == join) {
            let pairs = match *settings == join {
                true => found.to_vec(),
                false => self.outcome(&join, &Stages::new(self.progress))?.pairs,
            };
            self.exact.push((join.clone(), different(self.prepared.texts(), &pairs)));
        }
        let exact = self.exact.iter().find(|(of, _)| *of == join).map_or(&[][..], |(_, pairs)| pairs);
        let own = different(self.prepared.texts(), found);
        let of_exact = own.iter().filter(|pair| exact.binary_search(pair).is_ok()).count();
        Ok(messages::hamming_recall(of_exact as u64, exact.len() as u64, distance, settings.verification))
    }
}

/// The pairs of texts whose hashes differ, ascending, each text by its first document. Pairs of equal hashes are left
/// out, as every search finds them.
fn different(texts: &Texts, pairs: &[Pair]) -> Vec<[Document; 2]> {
    let of = |pair: &Pair| {
        let mut pair = pair.documents().map(|document| texts.copies(texts.text_of(document))[0]);
        pair.sort_unstable();
        pair
    };
    let mut pairs: Vec<_> = pairs.iter().filter(|pair| pair.distance > 0).map(of).collect();
    pairs.sort_unstable();
    pairs
}

/// For each set of methods, the pairs that all of them and no other found, with examples. Small sets come first.
fn agreement(
    job: &Job,
    read: &ReadDocuments,
    contenders: &[Contender],
    runs: &[MethodRun],
) -> Result<Vec<Agreement>> {
    // Bit m of a set stands for method m. A pair shows distance and similarity of the first method that found it,
    // before all one with distances, and the similarities of others that differ.
    let has_distance = |method: usize| contenders[method].settings.generator.distance().is_some();
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
    // Pairs that one method alone has found come first.
    let mut sets: Vec<(u32, Vec<Pair>)> = by_set.into_iter().collect();
    sets.sort_by_key(|&(set, _)| (set.count_ones(), set));
    let samples: Vec<Vec<Pair>> =
        sets.iter().map(|(_, pairs)| sample_pairs(pairs, EXAMPLES, job.settings.seed)).collect();
    let wanted = samples.iter().flatten().flat_map(Pair::documents);
    let shown = Shown::fetch(&read.inputs, &job.read_options(), Shown::of(read, wanted));
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
        let has_distance = members().any(has_distance);
        Agreement {
            found_by: members().map(|method| runs[method].result.label.clone()).collect(),
            pairs: pairs.len() as u64,
            examples: sample
                .iter()
                .map(|pair| PairSample {
                    others: others(pair),
                    distance: has_distance.then_some(pair.distance),
                    ..shown.pair(pair)
                })
                .collect(),
        }
    };
    Ok(sets.iter().zip(&samples).map(agreement).collect())
}
