//! Queries per second of every method on one workload: what the experiments on searches share.
//!
//! Every method answers the same queries on one thread and is timed by processor time. Methods with a
//! budget get the one that finds 95 % on queries set apart for that, or each of several ([`Bench::curve`]);
//! exact ones find everything.

use crate::corpus::Corpus;
use crate::generate::{Donors, Recipe};
use crate::progress::Points;
use crate::results::{Clock, Table};
use crate::static_order::{FlipOrder, StaticOrder};
use crate::{Options, config};
use anyhow::{Result, anyhow};
use gaoya::simhash::SimHashIndex;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use simflip::Id;
use simflip::hash::fmix64;
use simflip::plan::Machine;
use simflip::search::bphs::{Bphs, BphsParams};
use simflip::search::dial::{Dial, DialParams};
use simflip::search::distinct::DistinctHashes;
use simflip::search::linear::Linear;
use simflip::search::psm::{FlippedBits, Psm, PsmParams};
use simflip::search::{Cost, HammingIndex, Mode, Probing, Query, Scratch};
use simflip::simhash::SimHash;
use simflip::simhash::volatility::FlipCost;
use simflip::text::FeatureKind;
use simflip::weight::Weighting;
use simflip_core::internal::NearPairs;
use std::collections::HashMap;
use std::num::NonZeroUsize;

/// Documents from one movement of the progress bar to the next.
const PROGRESS: usize = 1 << 14;

/// What the experiments on searches have in common.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Searches {
    /// h of the paper's throughput experiments.
    pub distance: u32,
    /// Recall that budgets are chosen for.
    recall: f64,
    /// Queries set apart to choose budgets on.
    calibration_queries: usize,
    /// The same with `--quick`.
    quick_calibration_queries: usize,
    /// Recalls for which a curve is measured on all cores as well.
    recalls_on_all_cores: Vec<f64>,
    /// Measurements of each; the fastest counts, because others only add to it.
    rounds: usize,
    /// Texts from which on a corpus is also searched as it is.
    large_corpus: usize,
    /// Stored hashes beyond which gaoya does not fit beside the others.
    most_for_gaoya: usize,
    truth: Vec<Exact>,
}

/// The exact search up to a distance.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exact {
    distance: u32,
    method: Method,
}

impl Searches {
    /// Reads `configs/searches.toml`.
    pub fn read(options: &Options) -> Result<Self> {
        let mut searches: Self = config::read(options, "searches")?;
        if options.quick {
            searches.calibration_queries = searches.quick_calibration_queries;
        }
        Ok(searches)
    }
}

/// Stored hashes, queries, and what an exact search answers.
pub struct Workload {
    pub corpus: String,
    pub digest: String,
    /// `real`, `generated` or `near-pairs`.
    pub source: &'static str,
    /// Documents stored.
    pub documents: usize,
    pub stored: DistinctHashes,
    pub queries: Vec<SimHash>,
    /// Queries set apart to choose budgets on.
    pub calibration: Vec<SimHash>,
    pub searches: Searches,
}

impl Workload {
    /// Documents of a generated corpus, of which `queries` drawn at random are not stored but asked.
    pub fn generated(
        options: &Options,
        searches: &Searches,
        corpus: &Corpus,
        stored: usize,
        queries: usize,
    ) -> Result<Self> {
        let seed = options.seed;
        let donors = Donors::new(corpus, seed);
        let asked = queries + searches.calibration_queries;
        let documents = stored + asked;
        let share = asked as f64 / documents as f64;
        let drawn =
            |document: usize| (fmix64(document as u64 ^ fmix64(seed)) as f64) < share * u64::MAX as f64;
        let recipe = Recipe::read(options, documents)?;
        let progress = options.progress.bar("documents generated", documents);
        let all = donors.generate(&recipe, |document, simhash, _| {
            if document.is_multiple_of(PROGRESS) {
                progress.inc(PROGRESS as u64);
            }
            (simhash.hash, drawn(document).then(|| Box::new(simhash)))
        });
        progress.finish_and_clear();
        let hashes = all.iter().filter(|(_, asked)| asked.is_none()).map(|&(hash, _)| hash).collect();
        let asked = all.into_iter().filter_map(|(_, asked)| asked).map(|simhash| *simhash).collect();
        Ok(Self::new(corpus, searches, "generated", hashes, asked, queries))
    }

    /// The documents of a corpus, of which `queries` drawn at random are not stored but asked. Of a small corpus a
    /// tenth is set apart to choose budgets on.
    pub fn real(corpus: &Corpus, searches: &Searches, queries: usize, seed: u64) -> Self {
        let mut simhashes = corpus.simhashes(Weighting::TfIdf);
        let mut order: Vec<u32> = (0..simhashes.len() as u32).collect();
        order.sort_unstable_by_key(|&document| fmix64(u64::from(document) ^ fmix64(seed)));
        let calibration = searches.calibration_queries.min(simhashes.len() / 10);
        let searches = &Searches { calibration_queries: calibration, ..searches.clone() };
        let asked: Vec<SimHash> =
            order.iter().take(queries + calibration).map(|&d| simhashes[d as usize]).collect();
        let hashes = order.iter().skip(asked.len()).map(|&d| simhashes[d as usize].hash).collect();
        simhashes.clear();
        Self::new(corpus, searches, "real", hashes, asked, queries)
    }

    /// Uniform hashes, and queries that each have one stored partner at distance 1 to
    /// `distance`: no corpus at all.
    pub fn near_pairs(searches: &Searches, distance: u32, stored: usize, queries: usize, seed: u64) -> Self {
        let pairs: Vec<[SimHash; 2]> = NearPairs::new(distance, seed).take(queries).collect();
        let strangers = Xoshiro256PlusPlus::seed_from_u64(fmix64(seed)).random_iter();
        let strangers = strangers.take(stored.saturating_sub(queries));
        let hashes: Vec<u64> = pairs.iter().map(|[_, partner]| partner.hash).chain(strangers).collect();
        let digest = hashes.iter().fold(0, |sum, &hash| fmix64(sum ^ hash));
        Self {
            corpus: "uniform".into(),
            digest: format!("{digest:016x}"),
            source: "near-pairs",
            documents: hashes.len(),
            stored: DistinctHashes::new(&hashes),
            queries: pairs.into_iter().map(|[query, _]| query).collect(),
            calibration: Vec::new(),
            searches: searches.clone(),
        }
    }

    /// What its results are called.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.corpus, self.source, self.documents)
    }

    fn new(
        corpus: &Corpus,
        searches: &Searches,
        source: &'static str,
        hashes: Vec<u64>,
        mut asked: Vec<SimHash>,
        queries: usize,
    ) -> Self {
        // In random order: neighbours in the list would be neighbours in the index.
        asked.sort_unstable_by_key(|simhash| fmix64(simhash.hash));
        let calibration = asked.split_off(asked.len().saturating_sub(searches.calibration_queries));
        asked.truncate(queries);
        let documents = hashes.len();
        let stored = DistinctHashes::new(&hashes);
        let (corpus, digest) = (corpus.name.clone(), corpus.digest.clone());
        let searches = searches.clone();
        Self { corpus, digest, source, documents, stored, queries: asked, calibration, searches }
    }
}

/// The workloads of a run, one after the other, each with an empty table: large corpora as they are, and what is
/// generated from each. Where no hashes are to be generated, small corpora are searched as they are, too.
pub fn for_each_workload(
    options: &Options,
    experiment: &str,
    (stored, queries): (usize, usize),
    mut each: impl FnMut(&Workload, &mut Table) -> Result<()>,
) -> Result<()> {
    let searches = Searches::read(options)?;
    let mut run = |workload: &Workload| {
        let (stored, queries) = (workload.stored.len(), workload.queries.len());
        options.progress.say(format!("  {stored} stored hashes, {queries} queries"));
        each(workload, &mut Table::create(options, experiment, &workload.name(), &workload.digest)?)
    };
    for path in options.corpora() {
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Words)?;
        let (name, texts, large) = (&corpus.name, corpus.len(), searches.large_corpus);
        if texts < large && stored > 0 {
            options.progress.omit(format!(
                "{name}: its {texts} texts as they are, because from {large} on they tell of a large index; --stored 0 \
                 searches them, and generates none"
            ));
        } else {
            run(&Workload::real(&corpus, &searches, queries.min(corpus.len() / 10), options.seed))?;
        }
        if stored > 0 {
            run(&Workload::generated(options, &searches, &corpus, stored, queries)?)?;
        }
    }
    Ok(())
}

/// Queries as indexes take them.
pub fn asked(simhashes: &[SimHash]) -> Vec<Query<'_>> {
    simhashes.iter().map(|simhash| Query { hash: simhash.hash, weights: &simhash.weights }).collect()
}

/// Name of a mode in rows.
pub fn mode_name(mode: Mode) -> &'static str {
    if mode == Mode::All { "all" } else { "first" }
}

/// A method with its tuning; probabilistic ones are built without a budget.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Method {
    Bphs {
        tables: u32,
    },
    PsmAllBits {
        filter_bits: u32,
    },
    /// Bits that the key has less than ⌊log₂ n⌋.
    PsmKeyBits {
        fewer: u32,
        #[serde(default)]
        order: FlipOrder,
    },
    /// Ours: part tables with few flips in the key of each.
    Dial {
        tables: u32,
        flips: u32,
        #[serde(default)]
        key_bits: Option<u32>,
        #[serde(default = "yes")]
        budgeted: bool,
    },
    Linear,
    #[serde(rename = "mih-rs")]
    Mih {
        blocks: usize,
    },
    Gaoya {
        blocks: usize,
    },
}

/// What is not said is so.
fn yes() -> bool {
    true
}

/// Something that answers.
enum Built {
    Ours(Box<dyn HammingIndex>),
    Psm(Psm),
    Dial(Box<Dial>),
    /// With its radius, which is inclusive.
    Mih(mih_rs::Index<u64>, u32),
    Gaoya(SimHashIndex<u64, u32>),
}

/// Which matches an answer has, for recall: of each kind, queries or pairs.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Pairs at distance 0, and at 1 to h.
    same: u64,
    near: u64,
    /// Queries with a match; and of those without one at distance 0.
    any: u64,
    any_near: u64,
}

struct Answered {
    cost: Cost,
    found: Found,
    cpu: f64,
    slowest: f64,
    wall: f64,
}

impl Built {
    fn set_budget(&mut self, budget: Option<u32>) {
        match self {
            Self::Psm(psm) => psm.set_budget(budget),
            Self::Dial(dial) => dial.set_budget(budget),
            _ => {}
        }
    }

    fn index(&self) -> Option<&dyn HammingIndex> {
        match self {
            Self::Ours(index) => Some(index.as_ref()),
            Self::Psm(psm) => Some(psm),
            Self::Dial(dial) => Some(dial.as_ref()),
            Self::Mih(..) | Self::Gaoya(_) => None,
        }
    }

    /// Answers all queries into `(query, slot)`, of which our indexes are asked so many at a time; a rival is asked one
    /// by one, and without a search for the first match finds all of them.
    fn answer(
        &self,
        queries: &[Query<'_>],
        at_a_time: usize,
        mode: Mode,
        answers: &mut Vec<(u32, u32)>,
    ) -> Cost {
        answers.clear();
        match self {
            Self::Mih(index, radius) => {
                let mut searcher = index.range_searcher();
                for (query, number) in queries.iter().zip(0..) {
                    let found = searcher.run(query.hash, *radius as usize);
                    answers.extend(found.iter().map(|&slot| (number, slot)));
                }
            }
            Self::Gaoya(index) => {
                for (query, number) in queries.iter().zip(0..) {
                    answers.extend(index.query(&query.hash).into_iter().map(|&slot| (number, slot)));
                }
            }
            _ => {
                let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
                let index = self.index().expect("the rivals are dealt with above");
                let (mut cost, mut first) = (Cost::default(), 0);
                for part in queries.chunks(at_a_time) {
                    cost += index.answer(part, mode, false, &mut scratch, &mut |found| {
                        hits.push((first + found.query, found.hit))
                    });
                    first += part.len() as u32;
                }
                answers.extend(hits.iter().map(|(query, hit)| (*query, hit.slot.number())));
                return cost;
            }
        }
        // Its own work is not reported.
        Cost { probes: 0, candidates: 0, verified: answers.len() as u64 }
    }
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

impl Method {
    fn build(self, hashes: &[u64], radius: u32) -> Result<Built> {
        let psm =
            |flipped_bits| PsmParams { cost: FlipCost::Abs, radius, flipped_bits, ..PsmParams::default() };
        Ok(match self {
            Self::Bphs { tables } => Built::Ours(Box::new(Bphs::new(hashes, BphsParams { radius, tables })?)),
            Self::PsmAllBits { filter_bits } => {
                Built::Psm(Psm::new(hashes, psm(FlippedBits::All { filter_bits }))?)
            }
            Self::PsmKeyBits { fewer, order } => {
                let bits = hashes.len().max(2).ilog2().saturating_sub(fewer).max(1);
                let index = Psm::new(hashes, psm(FlippedBits::Key { key_bits: Some(bits) }))?;
                Built::Psm(match order {
                    FlipOrder::Vosh => index,
                    FlipOrder::Static => {
                        let sets = StaticOrder::new(bits as usize, 0..=radius, FlipCost::Abs, usize::MAX);
                        index.with_rank_sets(sets.ranks())
                    }
                })
            }
            Self::Dial { tables, flips, key_bits, .. } => {
                let params =
                    DialParams { flips: Some(flips), key_bits, radius, tables, ..DialParams::default() };
                Built::Dial(Box::new(Dial::new(hashes, params)?))
            }
            Self::Linear => Built::Ours(Box::new(Linear::new(hashes, radius)?)),
            Self::Mih { blocks } => Built::Mih(
                mih_rs::Index::with_blocks(hashes.to_vec(), blocks).map_err(|e| anyhow!("mih-rs: {e}"))?,
                radius,
            ),
            Self::Gaoya { blocks } => {
                // Its distance is exclusive: 4 asks for up to 3.
                let mut index = SimHashIndex::new(blocks, radius as usize + 1);
                for (&hash, slot) in hashes.iter().zip(0u32..) {
                    index.insert(slot, hash);
                }
                Built::Gaoya(index)
            }
        })
    }

    /// Whether it has a budget of probes.
    pub fn budgeted(self) -> bool {
        matches!(self, Self::PsmAllBits { .. } | Self::PsmKeyBits { .. } | Self::Dial { budgeted: true, .. })
    }

    /// Whether another method of the same calibration has the same budgets.
    fn family(self) -> String {
        match self {
            Self::PsmAllBits { .. } => "psm-all-bits".into(),
            other => format!("{other:?}"),
        }
    }

    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Bphs { tables } => format!("BPHS {tables}"),
            Self::PsmAllBits { filter_bits } => format!("PSM-64 {filter_bits}"),
            Self::PsmKeyBits { fewer, order: FlipOrder::Vosh } => format!("PSM-key -{fewer}"),
            Self::PsmKeyBits { fewer, order: FlipOrder::Static } => format!("PSM-key -{fewer} static"),
            Self::Dial { tables, flips, key_bits, budgeted } => {
                let keys = key_bits.map_or(String::new(), |bits| format!("x{bits}"));
                format!("dial {tables}{keys}/{flips}{}", if budgeted { "" } else { ", exact" })
            }
            Self::Linear => "linear".into(),
            Self::Mih { blocks } => format!("mih-rs {blocks}"),
            Self::Gaoya { blocks } => format!("gaoya {blocks}"),
        }
    }

    /// Slow ones are timed on a part of the queries, so that all take about as long.
    fn share(self, radius: u32) -> usize {
        match self {
            Self::PsmAllBits { .. } => 8,
            Self::Linear => 200,
            Self::Mih { .. } if radius > 3 => 20,
            Self::Mih { .. } | Self::Gaoya { .. } => 4,
            _ => 1,
        }
    }
}

/// The probes in keys of the usual width that find the wanted recall on the queries set apart, of every match and
/// of one.
pub fn usual_budgets(workload: &Workload, hashes: &[u64]) -> Result<[u32; 2]> {
    let psm = Psm::new(
        hashes,
        PsmParams {
            radius: workload.searches.distance,
            flipped_bits: FlippedBits::Key { key_bits: None },
            ..PsmParams::default()
        },
    )?;
    let (every, first) = calibrate(&Built::Psm(psm), workload);
    Ok([every, first])
}

/// The budgets for the wanted recall: of pairs at distance 1 to h, and of queries without a match at
/// distance 0.
fn calibrate(built: &Built, workload: &Workload) -> (u32, u32) {
    let Some(index) = built.index() else { return (u32::MAX, u32::MAX) };
    let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
    let (mut pairs, mut firsts): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    for query in asked(&workload.calibration) {
        hits.clear();
        index.answer(&[query], Mode::All, true, &mut scratch, &mut |found| {
            hits.push((found.hit, found.probe))
        });
        pairs.extend(hits.iter().filter(|(hit, _)| hit.distance > 0).map(|&(_, probe)| probe));
        if hits.iter().all(|(hit, _)| hit.distance > 0) {
            firsts.extend(hits.iter().map(|&(_, probe)| probe).min());
        }
    }
    let quantile = |probes: &mut Vec<u32>| {
        probes.sort_unstable();
        let wanted = (workload.searches.recall * probes.len() as f64).ceil().max(1.0) as usize;
        probes.get(wanted - 1).copied().unwrap_or(u32::MAX)
    };
    (quantile(&mut pairs), quantile(&mut firsts))
}

/// Queries that also a slow method answers, where there are as many.
const FEWEST: usize = 500;

/// Of so many queries one is asked one by one as well, for a speed without neighbours that share the waiting for
/// memory.
const ONE_BY_ONE: usize = 4;

/// For each query whether an exact search finds a match at distance 0, and one at 1 to h.
type Kinds = Vec<[bool; 2]>;

fn kinds_of(workload: &Workload, queries: &[Query<'_>], answers: &[(u32, u32)]) -> Kinds {
    let mut kinds = vec![[false; 2]; queries.len()];
    for &(query, slot) in answers {
        let same = workload.stored.hashes()[slot as usize] == queries[query as usize].hash;
        kinds[query as usize][usize::from(!same)] = true;
    }
    kinds
}

fn verification(
    workload: &Workload,
    queries: &[Query<'_>],
    answers: &[(u32, u32)],
    truth: &[[bool; 2]],
) -> Found {
    let mut found = Found::default();
    for &(query, slot) in answers {
        let same = workload.stored.hashes()[slot as usize] == queries[query as usize].hash;
        *if same { &mut found.same } else { &mut found.near } += 1;
    }
    for (kinds, truth) in kinds_of(workload, queries, answers).iter().zip(truth) {
        let any = kinds[0] || kinds[1];
        found.any += u64::from(any);
        found.any_near += u64::from(any && !truth[0]);
    }
    found
}

/// Queries that an index is asked at a time: all that there are.
const ALL: usize = usize::MAX;

/// Seconds of processor time that a measurement lasts at least. Tests look at answers alone.
const SHORTEST: f64 = if cfg!(test) { 0.0 } else { 0.02 };

/// On several threads each answers its part of the queries.
fn time(
    built: &Built,
    workload: &Workload,
    queries: &[Query<'_>],
    at_a_time: usize,
    mode: Mode,
    threads: usize,
    truth: &[[bool; 2]],
) -> Answered {
    let each = queries.len().div_ceil(threads).max(1);
    let mut answers: Vec<Vec<(u32, u32)>> = vec![Vec::new(); threads];
    let (mut cost, mut cpu, mut slowest, mut wall) = (Cost::default(), f64::MAX, 0f64, f64::MAX);
    let mut answer_all = || {
        let mut parts = answers.iter_mut().zip(queries.chunks(each));
        cost = Cost::default();
        std::thread::scope(|scope| {
            let own = parts.next();
            let others: Vec<_> = parts
                .map(|(answers, queries)| {
                    scope.spawn(move || built.answer(queries, at_a_time, mode, answers))
                })
                .collect();
            if let Some((answers, queries)) = own {
                cost += built.answer(queries, at_a_time, mode, answers);
            }
            for other in others {
                cost += other.join().expect("a search does not panic");
            }
        });
    };
    // The clock is too coarse for a few queries, so they are answered again and again.
    let mut repeats = 1;
    for _ in 0..if cfg!(test) { 1 } else { workload.searches.rounds } {
        let (mut took, mut done) = ((0.0, 0.0), 0);
        let clock = Clock::start();
        while done < repeats || took.0 < SHORTEST {
            answer_all();
            done += 1;
            took = clock.read();
        }
        repeats = done;
        let (c, w) = (took.0 / f64::from(done), took.1 / f64::from(done));
        (cpu, slowest, wall) = (cpu.min(c), slowest.max(c), wall.min(w));
    }
    let parts = (0u32..).step_by(each).zip(&answers);
    let answers: Vec<(u32, u32)> = parts
        .flat_map(|(first, answers)| answers.iter().map(move |&(query, slot)| (first + query, slot)))
        .collect();
    Answered { cost, found: verification(workload, queries, &answers, truth), cpu, slowest, wall }
}

/// A workload with what an exact search answers, and the table that measurements go to.
pub struct Bench<'a> {
    workload: &'a Workload,
    radius: u32,
    queries: Vec<Query<'a>>,
    /// Pairs of query and slot, ascending.
    truth: Vec<(u32, u32)>,
    kinds: Kinds,
    machine: Machine,
    /// Threads that a search on all cores has.
    cores: usize,
    first_matches: bool,
    table: &'a mut Table,
    points: &'a Points,
}

/// An index and what it took to build it.
struct Ready {
    method: Method,
    built: Built,
    build_cpu: f64,
    bytes: u64,
    bytes_by: &'static str,
}

impl<'a> Bench<'a> {
    /// Answers all queries exactly.
    pub fn new(
        workload: &'a Workload,
        radius: u32,
        table: &'a mut Table,
        points: &'a Points,
    ) -> Result<Self> {
        let queries = asked(&workload.queries);
        let exact = workload.searches.truth.iter().find(|exact| radius <= exact.distance);
        let exact =
            exact.ok_or_else(|| anyhow!("searches.toml has no exact search up to distance {radius}"))?;
        let mut truth = Vec::new();
        exact.method.build(workload.stored.hashes(), radius)?.answer(&queries, ALL, Mode::All, &mut truth);
        truth.sort_unstable();
        let kinds = kinds_of(workload, &queries, &truth);
        if !kinds.iter().any(|[_, near]| *near) {
            let (name, n) = (workload.name(), queries.len());
            points.omit(format!(
                "{name}: recall, because none of {n} queries has a match at distance 1 to {radius}"
            ));
        }
        let machine = Machine::measure(simflip::resources::thread_seconds);
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let first_matches = false;
        Ok(Self { workload, radius, queries, truth, kinds, machine, cores, first_matches, table, points })
    }

    fn build(&self, method: Method) -> Result<Ready> {
        let hashes = self.workload.stored.hashes();
        let (before, clock) = (resident(), Clock::start());
        let built = method.build(hashes, self.radius)?;
        let (build_cpu, _) = clock.read();
        let (bytes, bytes_by) = match &built {
            Built::Mih(index, _) => {
                let mut serialised = Vec::new();
                index.serialize_into(&mut serialised).map_err(|e| anyhow!("mih-rs: {e}"))?;
                (serialised.len() as u64, "serialised")
            }
            Built::Gaoya(_) => (resident().saturating_sub(before), "resident"),
            _ => (built.index().map_or(0, |index| index.bytes()) as u64, "counted"),
        };
        Ok(Ready { method, built, build_cpu, bytes, bytes_by })
    }

    /// A row for each method and mode, at the budget for the wanted recall.
    pub fn at_recall(&mut self, methods: &[Method]) -> Result<()> {
        let mut budgets: HashMap<String, (u32, u32)> = HashMap::new();
        for &method in methods {
            let (stored, most) = (self.workload.stored.len(), self.workload.searches.most_for_gaoya);
            if matches!(method, Method::Gaoya { .. }) && stored > most {
                let name = method.name();
                self.points.omit(format!(
                    "{name}: {stored} stored hashes, and it fits beside the others up to {most}"
                ));
                continue;
            }
            let mut ready = self.build(method)?;
            let budget = method.budgeted().then(|| {
                let calibrated = || calibrate(&ready.built, self.workload);
                *budgets.entry(method.family()).or_insert_with(calibrated)
            });
            for mode in [Mode::All, Mode::First] {
                // A rival that cannot stop at the first match would be timed twice for the same work.
                if mode == Mode::First && ready.built.index().is_none() {
                    continue;
                }
                let budget = budget.map(|(pairs, firsts)| if mode == Mode::All { pairs } else { firsts });
                ready.built.set_budget(budget);
                self.point(&ready, mode, budget, 1)?;
            }
        }
        Ok(())
    }

    /// Curves also of the first match, not only of every match.
    pub fn with_first_matches(self) -> Self {
        Self { first_matches: true, ..self }
    }

    /// A row for each budget, every match wanted, and one without a budget for the methods that end; and a
    /// row on all cores for the first budget that reaches each of [`Searches::recalls_on_all_cores`].
    pub fn curve(&mut self, method: Method, budgets: &[u32]) -> Result<()> {
        let mut ready = self.build(method)?;
        if !method.budgeted() {
            return self.on_one_and_all(&ready, None);
        }
        let all_probes = match &ready.built {
            Built::Dial(dial) => Some(dial.all_probes()),
            _ => None,
        };
        let mut recalls = self.workload.searches.recalls_on_all_cores.clone();
        for &budget in budgets.iter().filter(|&&budget| all_probes.is_none_or(|all| u64::from(budget) < all))
        {
            ready.built.set_budget(Some(budget));
            let recall = self.point(&ready, Mode::All, Some(budget), 1)?;
            if self.first_matches {
                self.point(&ready, Mode::First, Some(budget), 1)?;
            }
            let reached = recalls.len();
            recalls.retain(|&wanted| recall < wanted);
            if recalls.len() < reached && self.cores > 1 {
                self.point(&ready, Mode::All, Some(budget), self.cores)?;
            }
        }
        if all_probes.is_some() {
            ready.built.set_budget(None);
            self.on_one_and_all(&ready, None)?;
        }
        Ok(())
    }

    fn on_one_and_all(&mut self, ready: &Ready, budget: Option<u32>) -> Result<()> {
        self.point(ready, Mode::All, budget, 1)?;
        if self.cores > 1 {
            self.point(ready, Mode::All, budget, self.cores)?;
        }
        if self.first_matches && ready.built.index().is_some() {
            self.point(ready, Mode::First, budget, 1)?;
        }
        Ok(())
    }

    /// Adds a row, and gives the recall.
    fn point(&mut self, ready: &Ready, mode: Mode, budget: Option<u32>, threads: usize) -> Result<f64> {
        let Ready { method, built, build_cpu, bytes, bytes_by } = ready;
        let stored = self.workload.stored.len();
        let n = (self.queries.len() / method.share(self.radius)).max(self.queries.len().min(FEWEST));
        let (queries, kinds) = (&self.queries[..n], &self.kinds[..n]);
        let end = self.truth.partition_point(|&(query, _)| (query as usize) < n);
        let truth = verification(self.workload, queries, &self.truth[..end], kinds);
        let answered = time(built, self.workload, queries, ALL, mode, threads, kinds);
        // Rivals are asked one by one as it is.
        let one_by_one = (threads == 1 && built.index().is_some()).then(|| {
            let some = n.div_ceil(ONE_BY_ONE);
            let answered = time(built, self.workload, &queries[..some], 1, mode, 1, &kinds[..some]);
            format!("{:.0}", some as f64 / answered.cpu)
        });
        let share = |found: u64, of: u64| if of == 0 { f64::NAN } else { found as f64 / of as f64 };
        let (recall, recall_with_same, pairs) = match mode {
            Mode::All => (
                share(answered.found.near, truth.near),
                share(answered.found.near + answered.found.same, truth.near + truth.same),
                truth.near,
            ),
            Mode::First => (
                share(answered.found.any_near, truth.any_near),
                share(answered.found.any, truth.any),
                truth.any_near,
            ),
        };
        let rate = n as f64 / answered.cpu;
        let name = built.index().map_or(method.name(), |index| index.name());
        let budget = budget.map_or(String::new(), |budget| budget.to_string());
        let tables = *bytes as f64 / (8.0 * stored as f64);
        self.table.row(&[
            ("source", &self.workload.source),
            ("documents", &self.workload.documents),
            ("stored", &stored),
            ("queries", &n),
            ("radius", &self.radius),
            ("method", &method.name()),
            ("index", &name),
            ("mode", &mode_name(mode)),
            ("budget", &budget),
            ("recall", &format_args!("{recall:.5}")),
            ("recall_with_distance_0", &format_args!("{recall_with_same:.5}")),
            ("pairs", &pairs),
            ("probes", &answered.cost.probes),
            ("candidates", &answered.cost.candidates),
            ("verified", &answered.cost.verified),
            ("threads", &threads),
            ("cpu_seconds", &format_args!("{:.5}", answered.cpu)),
            ("cpu_seconds_slowest", &format_args!("{:.5}", answered.slowest)),
            ("wall_seconds", &format_args!("{:.5}", answered.wall)),
            ("queries_per_cpu_second", &format_args!("{rate:.0}")),
            ("queries_per_cpu_second_one_by_one", &one_by_one.unwrap_or_default()),
            ("bytes", bytes),
            ("bytes_by", bytes_by),
            ("tables", &format_args!("{tables:.4}")),
            ("nanoseconds_a_line", &format_args!("{:.2}", self.machine.line(*bytes))),
            ("build_cpu_seconds", &format_args!("{build_cpu:.4}")),
        ])?;
        self.points.done(format!(
            "  n {stored:>9}  h {}  {:20} {:5}  budget {budget:>6}  recall {recall:.4} ({recall_with_same:.4})  {rate:>9.0} queries per processor second  threads {threads}  {tables:.2} tables",
            self.radius,
            method.name(),
            format!("{mode:?}"),
        ));
        Ok(recall)
    }
}
