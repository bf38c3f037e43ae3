//! Seed 000 again: SimHash of 3-word shingles in 4 bands of 16 bits against MinHash of words, 20 hashes in 4 bands of
//! 5. It draws score histograms per band, and says which of the two is the better, judged by exact Jaccard coefficients
//! and, where there are labels, by people. MinHash of the same shingles stands beside them, because the seed gave its
//! two methods different features. Of many texts some are drawn, and their pairs with all others are judged. `simflip
//! dedup` does the same with SimHash from files to a list of pairs, as the seed's program did.

use crate::band_join::{DistinctSignatures, JoinParams, join_with};
use crate::check::{Finding, Verdict};
use crate::config;
use crate::corpus::{Corpus, MIN_FEATURES};
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::minhash_families::Family;
use crate::results::{Clock, Row, Table, distinct, expected};
use crate::truth::{similar_pairs, similar_to};
use crate::{Experiment, Options};
use anyhow::{Context, Result, bail, ensure};
use rayon::prelude::*;
use serde::Deserialize;
use simflip::corpus::{ReadOptions, discover};
use simflip::evaluate::corpus::record_names;
use simflip::evaluate::found::RecordNames;
use simflip::evaluate::truth::{PairLabel as Judgement, Truth, TruthFile, TruthParams};
use simflip::hash::fmix64;
use simflip::pipeline::{self, Job, Silent, Writes};
use simflip::report::model::Report;
use simflip::search::bands::Banding;
use simflip::search::bphs::Bphs;
use simflip::search::distinct::DistinctHashes;
use simflip::search::join::join as join_hashes;
use simflip::search::{HammingIndex, Mode, Query, Scratch};
use simflip::settings::{Generator, Settings, Sketches, Verification};
use simflip::simhash::BITS;
use simflip::text::FeatureKind;
use simflip::weight::Weighting;
use simflip::{Document, Id};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub const EXPERIMENT: Experiment = Experiment {
    name: "band-scores",
    about: "SimHash in 4 bands against MinHash in 4 bands: scores per band, time, size, and who is right (seed 000)",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BandScoresConfig {
    bands: usize,
    minhash_positions: usize,
    /// The seed lists pairs from these scores on.
    simhash_from: u32,
    minhash_from: u32,
    /// Words of a shingle.
    shingle: usize,
    /// Jaccard coefficient of shingles from which on two pages are near-duplicates.
    near: f64,
    agree_within: f64,
    /// Up to so many texts all pairs are judged; of more, so many are drawn, and their pairs are.
    judged_in_full: usize,
    drawn: usize,
}

/// SimHash as the seed has it: of shingles.
const SIMHASH: &str = "SimHash";
/// MinHash as the seed has it: of words.
const MINHASH: &str = "MinHash";
/// MinHash of what SimHash gets.
const MINHASH_SHINGLES: &str = "MinHash on shingles";

/// What the tool makes of files, with the seed's settings of SimHash.
const BY_THE_TOOL: &str = "SimHash, simflip dedup";

/// Truths by which a method is judged.
const BY_JACCARD: &str = "Jaccard of shingles";
const BY_PEOPLE: &str = "people";

/// A pair of texts that is judged: each by the number of its first document, the lower one first; and which bands
/// it shares, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Scored {
    a: u32,
    b: u32,
    score: u32,
    bands: u64,
}

/// Bytes of a pair in a list: both texts and the score.
const PAIR_BYTES: u64 = 12;

/// What a method says of the texts of a corpus.
struct BandScore {
    method: &'static str,
    features: FeatureKind,
    tally: Tally,
    /// Pairs with the least score, whether they share a band or not; nothing where they were not counted.
    near: Option<u64>,
    from: u32,
    top: u32,
    time: (f64, f64),
    /// Bytes of a sketch.
    sketch: usize,
}

/// Pairs that a method tells, counted while they are found, and those of them that are judged.
struct Tally {
    bands: usize,
    top: u32,
    /// For each band, and last for all bands together, by score: pairs of texts, and pairs of pages with them.
    counts: Vec<[AtomicU64; 2]>,
    verified: Mutex<Vec<Scored>>,
}

/// Texts of equal sketches, for the sums over pairs of them.
struct Group {
    texts: u64,
    pages: u64,
    /// Pairs of pages of different texts.
    within: u64,
    /// Whether a text of it was drawn; of all texts, if none are drawn.
    drawn: bool,
}

impl Group {
    fn new(corpus: &Corpus, drawn: &[bool], members: &[Document]) -> Self {
        let copies = || members.iter().map(|text| corpus.copies(text.index()) as u64);
        let (pages, squares) = (copies().sum::<u64>(), copies().map(|n| n * n).sum::<u64>());
        Self {
            texts: members.len() as u64,
            pages,
            within: (pages * pages - squares) / 2,
            drawn: members.iter().any(|text| drawn[text.index()]),
        }
    }
}

impl Tally {
    fn new(bands: usize, top: u32) -> Self {
        let counts = (0..(bands + 1) * (top as usize + 1)).map(|_| Default::default()).collect();
        Self { bands, top, counts, verified: Mutex::default() }
    }

    /// Pairs of texts and of pages of a band and a score; the band after the last is all of them together.
    fn count(&self, band: usize, score: u32) -> [u64; 2] {
        let at = band * (self.top as usize + 1) + score as usize;
        self.counts[at].each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    fn add(&self, score: u32, bands: u64, pairs: [u64; 2]) {
        let reported = (0..self.bands).filter(|band| bands >> band & 1 == 1).chain([self.bands]);
        for band in reported {
            let at = band * (self.top as usize + 1) + score as usize;
            for (sum, pairs) in self.counts[at].iter().zip(pairs) {
                sum.fetch_add(pairs, Ordering::Relaxed);
            }
        }
    }

    fn verification(&self, corpus: &Corpus, a: Document, b: Document, score: u32, bands: u64) {
        let [a, b] = [a, b].map(|text| corpus.document(text.index()));
        let pair = Scored { a: a.min(b), b: a.max(b), score, bands };
        self.verified.lock().expect("nobody panics while pairs are listed").push(pair);
    }

    /// Two sketches that share these bands.
    fn pair(&self, reported: &Reported<'_>, [a, b]: [usize; 2], score: u32, bands: u64) {
        let [x, y] = [&reported.groups[a], &reported.groups[b]];
        self.add(score, bands, [x.texts * y.texts, x.pages * y.pages]);
        if x.drawn || y.drawn {
            for &a in (reported.members)(a) {
                for &b in (reported.members)(b) {
                    if reported.drawn[a.index()] || reported.drawn[b.index()] {
                        self.verification(reported.corpus, a, b, score, bands);
                    }
                }
            }
        }
    }

    /// The pairs of texts of equal sketches.
    fn equal(&self, reported: &Reported<'_>) {
        let all = (1 << self.bands) - 1;
        for (slot, group) in reported.groups.iter().enumerate() {
            self.add(self.top, all, [group.texts * (group.texts - 1) / 2, group.within]);
            let members = (reported.members)(slot);
            for (at, &a) in members.iter().enumerate().filter(|_| group.drawn) {
                for &b in members[at + 1..]
                    .iter()
                    .filter(|b| reported.drawn[a.index()] || reported.drawn[b.index()])
                {
                    self.verification(reported.corpus, a, b, self.top, all);
                }
            }
        }
    }
}

/// The texts behind distinct sketches.
struct Reported<'a> {
    corpus: &'a Corpus,
    drawn: &'a [bool],
    groups: Vec<Group>,
    members: &'a (dyn Fn(usize) -> &'a [Document] + Sync),
}

impl<'a> Reported<'a> {
    fn new(
        corpus: &'a Corpus,
        drawn: &'a [bool],
        slots: usize,
        members: &'a (dyn Fn(usize) -> &'a [Document] + Sync),
    ) -> Self {
        let groups =
            (0..slots).into_par_iter().map(|slot| Group::new(corpus, drawn, members(slot))).collect();
        Self { corpus, drawn, groups, members }
    }
}

/// SimHash in bands: hashes that agree in one are compared in full.
fn simhash(corpus: &Corpus, drawn: &[bool], config: &BandScoresConfig) -> Result<BandScore> {
    let clock = Clock::start();
    let hashes: Vec<u64> = corpus.simhashes(Weighting::Tf).iter().map(|simhash| simhash.hash).collect();
    let groups = DistinctHashes::new(&hashes);
    let members = |slot: usize| groups.groups().get(simflip::Slot(slot as u32));
    let reported = Reported::new(corpus, drawn, groups.len(), &members);
    let tally = Tally::new(config.bands, BITS as u32);
    let (radius, width) = (BITS as u32 - config.simhash_from, BITS / config.bands);
    let index = Bphs::banded(groups.hashes(), radius, Banding { bands: config.bands, rows: width })?;
    let keys = index.reach().keys;
    const QUERIES: usize = 1024;
    groups.hashes().par_chunks(QUERIES).enumerate().for_each_init(
        Scratch::default,
        |scratch, (chunk, hashes)| {
            let queries: Vec<Query<'_>> =
                hashes.iter().map(|&hash| Query { hash, weights: &[1.0; BITS] }).collect();
            let mut hits = Vec::new();
            index.answer(&queries, Mode::All, false, scratch, &mut |found| {
                hits.push((found.query, found.hit))
            });
            for (query, hit) in hits {
                let slot = chunk * QUERIES + query as usize;
                // Each pair is found from both sides.
                if slot < hit.slot.index() {
                    let differ = hashes[query as usize] ^ groups.hash(hit.slot);
                    let bands = (0..)
                        .zip(keys)
                        .fold(0, |set, (band, key)| set | u64::from(differ & key == 0) << band);
                    let score = BITS as u32 - u32::from(hit.distance);
                    tally.pair(&reported, [slot, hit.slot.index()], score, bands);
                }
            }
        },
    );
    tally.equal(&reported);
    let time = clock.read();
    // What bands miss, beside what the seed does.
    let mut near: u64 = reported.groups.iter().map(|group| group.texts * (group.texts - 1) / 2).sum();
    join_hashes(groups.hashes(), radius, &|_| (), |part| {
        let texts = |slot: simflip::Slot| reported.groups[slot.index()].texts;
        near += part.iter().map(|pair| texts(pair.a) * texts(pair.b)).sum::<u64>();
    })?;
    Ok(BandScore {
        method: SIMHASH,
        features: FeatureKind::Shingles(config.shingle),
        tally,
        near: Some(near),
        from: config.simhash_from,
        top: BITS as u32,
        time,
        sketch: BITS / 8,
    })
}

/// MinHash in bands: signatures that share one are compared in full.
fn minhash(
    corpus: &Corpus,
    drawn: &[bool],
    method: &'static str,
    features: FeatureKind,
    config: &BandScoresConfig,
    seed: u64,
) -> Result<BandScore> {
    let positions = config.minhash_positions;
    let clock = Clock::start();
    let sets: Vec<Vec<u64>> = (0..corpus.len())
        .into_par_iter()
        .map(|text| corpus.counts(text).into_iter().map(|(feature, _)| feature).collect())
        .collect();
    let signatures = DistinctSignatures::new(&Family::Prime61.sign_all(&sets, positions, seed)?)?;
    drop(sets);
    let members = |slot: usize| &signatures.groups()[slot][..];
    let reported = Reported::new(corpus, drawn, signatures.len(), &members);
    let tally = Tally::new(config.bands, positions as u32);
    let rows = positions / config.bands;
    let mut params = JoinParams::new(Banding { bands: config.bands, rows }, config.minhash_from as usize);
    params.full_bucket = corpus.len();
    // Counted where they are found: a large bucket has too many for a list.
    let count = |pair: simflip::search::NearPair| {
        let slots = [pair.a.index(), pair.b.index()];
        let [a, b] = slots.map(|slot| signatures.signatures().get(slot));
        let equal = |band: usize| a[band * rows..][..rows] == b[band * rows..][..rows];
        let bands = (0..config.bands).fold(0, |set, band| set | u64::from(equal(band)) << band);
        tally.pair(&reported, slots, positions as u32 - pair.distance, bands);
        false
    };
    join_with(&signatures, params, count)?;
    tally.equal(&reported);
    Ok(BandScore {
        method,
        features,
        tally,
        near: None,
        from: config.minhash_from,
        top: positions as u32,
        time: clock.read(),
        // Minima are kept in 32 bits.
        sketch: positions * size_of::<u32>(),
    })
}

/// Pairs of texts that are right, and those that a truth knows; all, if it knows every pair.
struct Right {
    name: &'static str,
    near: HashSet<(u32, u32)>,
    known: Option<HashSet<(u32, u32)>>,
}

/// What people said of pairs of documents, as pairs of texts.
fn by_people(path: &Path, file: &str, corpora: &[&Corpus]) -> Result<Right> {
    let inputs = discover(&[path.to_owned()], &Default::default())?;
    let (names, _) = record_names(&inputs, &ReadOptions::default())?;
    let truth = TruthFile::read(Path::new(file), &RecordNames::new(&names)?, &TruthParams::default())?;
    let Truth::Pairs(pairs) = truth.truth else { bail!("{file}: clusters, not judged pairs") };
    // A document is called by the first one with its text.
    let mut first: HashMap<u32, u32> = HashMap::new();
    for corpus in corpora {
        for text in 0..corpus.len() {
            first.extend(corpus.copies_of(text).iter().map(|copy| (copy.0, corpus.document(text))));
        }
    }
    let text = |document: u32| *first.get(&document).unwrap_or(&document);
    let of = |wanted: &[Judgement]| -> HashSet<(u32, u32)> {
        let pairs = pairs.iter().filter(|pair| wanted.contains(&pair.judgement));
        let texts = pairs.map(|pair| [pair.a, pair.b].map(|document| text(document.number())));
        texts.map(|[a, b]| (a.min(b), a.max(b))).collect()
    };
    let known = Some(of(&[Judgement::Duplicate, Judgement::Distinct]));
    Ok(Right { name: BY_PEOPLE, near: of(&[Judgement::Duplicate]), known })
}

/// The texts whose pairs are judged, and their numbers if these are not all.
fn draw_texts(corpus: &Corpus, config: &BandScoresConfig, seed: u64) -> (Vec<bool>, Option<Vec<u32>>) {
    if corpus.len() <= config.judged_in_full {
        return (vec![true; corpus.len()], None);
    }
    let mut texts: Vec<u32> = (0..corpus.len() as u32).collect();
    texts.sort_unstable_by_key(|&text| fmix64(u64::from(corpus.document(text as usize)) ^ seed));
    texts.truncate(config.drawn);
    let mut drawn = vec![false; corpus.len()];
    texts.iter().for_each(|&text| drawn[text as usize] = true);
    (drawn, Some(texts))
}

fn run(options: &Options) -> Result<()> {
    let config: BandScoresConfig = config::read(options, EXPERIMENT.name)?;
    let shingles = FeatureKind::Shingles(config.shingle);
    for path in options.corpora() {
        let of_shingles = Corpus::load(&options.progress, &path, shingles)?;
        let of_words = Corpus::load(&options.progress, &path, FeatureKind::Words)?;
        let corpus = &of_shingles;
        let mut table = Table::create(options, EXPERIMENT.name, &corpus.name, &corpus.digest)?;
        let sets: Vec<Vec<(u64, u32)>> =
            (0..corpus.len()).into_par_iter().map(|text| corpus.counts(text)).collect();
        let (drawn, chosen) = draw_texts(corpus, &config, options.seed);
        let near = match &chosen {
            None => similar_pairs(&sets, config.near),
            Some(texts) => similar_to(&sets, texts, config.near),
        };
        drop(sets);
        let of = |text: u32| corpus.document(text as usize);
        let near = near.into_iter().map(|(a, b, _)| (of(a), of(b))).collect();
        let mut truths = vec![Right { name: BY_JACCARD, near, known: None }];
        for given in
            options.truths.iter().filter_map(|truth| truth.strip_prefix(&format!("{}=", corpus.name)))
        {
            ensure!(chosen.is_none(), "{}: people judged pairs of texts that are not drawn", corpus.name);
            let file = given.split(',').next().unwrap_or_default();
            truths.push(by_people(&path, file, &[&of_shingles, &of_words])?);
        }
        // The same pages, where they are texts of enough words too.
        let pages: HashSet<u32> =
            (0..corpus.len()).filter(|&text| drawn[text]).map(|text| corpus.document(text)).collect();
        let drawn_words: Vec<bool> = (0..of_words.len())
            .map(|text| chosen.is_none() || pages.contains(&of_words.document(text)))
            .collect();
        let answers = [
            simhash(&of_shingles, &drawn, &config)?,
            minhash(&of_words, &drawn_words, MINHASH, FeatureKind::Words, &config, options.seed)?,
            minhash(&of_shingles, &drawn, MINHASH_SHINGLES, shingles, &config, options.seed)?,
        ];
        for answer in answers {
            let corpus = if answer.method == MINHASH { &of_words } else { &of_shingles };
            write(&mut table, corpus, &answer, &truths, chosen.as_ref().map(Vec::len))?;
            let found: u64 =
                (answer.from..=answer.top).map(|score| answer.tally.count(config.bands, score)[0]).sum();
            options.progress.say(format!(
                "  {}: {} texts, {}: {found} pairs of texts, {:.2} s",
                corpus.name,
                corpus.len(),
                answer.method,
                answer.time.0
            ));
        }
        let (name, digest) = (of_shingles.name.clone(), of_shingles.digest.clone());
        drop((of_shingles, of_words));
        let mut table = Table::part(options, EXPERIMENT.name, &name, &digest, "-tool")?;
        let settings = seed_settings(&config, options.seed, chosen.is_none());
        by_the_tool(options, &mut table, &path, settings, config.simhash_from)?;
    }
    Ok(())
}

fn write(
    table: &mut Table,
    corpus: &Corpus,
    answer: &BandScore,
    truths: &[Right],
    drawn: Option<usize>,
) -> Result<()> {
    // Copies of one text are alike by any method; they count as pages, as they do in the seed.
    let copies = (0..corpus.len()).map(|text| corpus.copies(text) as u64);
    let same: u64 = copies.map(|n| n * (n - 1) / 2).sum();
    let tally = &answer.tally;
    let mut verified = tally.verified.lock().expect("all pairs are listed").clone();
    verified.sort_unstable();
    let found: u64 = (answer.from..=answer.top).map(|score| tally.count(tally.bands, score)[0]).sum();
    for band in 0..=tally.bands {
        let name = if band < tally.bands { band.to_string() } else { "all".into() };
        let number = |score| tally.count(band, score)[1] + if score == answer.top { same } else { 0 };
        let total: u64 = (answer.from..=answer.top).map(number).sum();
        let of_band: Vec<&Scored> =
            verified.iter().filter(|pair| band == tally.bands || pair.bands >> band & 1 == 1).collect();
        for score in answer.from..=answer.top {
            // What the method would have found with this score as its threshold.
            let above: Vec<(u32, u32)> =
                of_band.iter().filter(|pair| pair.score >= score).map(|pair| (pair.a, pair.b)).collect();
            for Right { name: truth, near, known } in truths {
                let verified = |pair: &&(u32, u32)| known.as_ref().is_none_or(|known| known.contains(pair));
                let reported = above.iter().filter(verified).count();
                // Copies are near by any method, and a truth that knows their pair has it among the right ones.
                let copied = near.iter().filter(|(a, b)| a == b).count();
                let hit = above.iter().filter(|pair| near.contains(pair)).count() + copied;
                let reported = reported + copied;
                let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
                let number = number(score);
                table.row(&[
                    ("documents", &corpus.documents()),
                    ("texts", &corpus.len()),
                    ("features", &answer.features),
                    ("weighting", &if answer.method == SIMHASH { "tf" } else { "binary" }),
                    ("method", &answer.method),
                    ("band", &name),
                    ("score", &score),
                    ("number", &number),
                    ("portion", &format_args!("{:.6}", number as f64 / total.max(1) as f64)),
                    ("text_pairs", &tally.count(band, score)[0]),
                    (
                        "text_pairs_with_or_without_band",
                        &answer.near.map_or(String::new(), |n| n.to_string()),
                    ),
                    ("truth", truth),
                    ("sampled", &drawn.map_or(String::new(), |n| n.to_string())),
                    ("true_pairs", &near.len()),
                    ("reported", &reported),
                    ("right", &hit),
                    ("precision_from_score", &format_args!("{:.5}", share(hit, reported))),
                    ("recall_from_score", &format_args!("{:.5}", share(hit, near.len()))),
                    ("f1_from_score", &format_args!("{:.5}", share(2 * hit, reported + near.len()))),
                    ("sketch_bytes", &answer.sketch),
                    ("result_bytes", &(found * PAIR_BYTES)),
                    ("cpu_seconds", &format_args!("{:.4}", answer.time.0)),
                    ("wall_seconds", &format_args!("{:.4}", answer.time.1)),
                ])?;
            }
        }
    }
    Ok(())
}

/// What `simflip dedup` is asked to do what the seed's program does with SimHash: its sketches and bands, and every
/// pair from the seed's least score on; or, of many, enough to connect each cluster.
fn seed_settings(config: &BandScoresConfig, seed: u64, all_pairs: bool) -> Settings {
    Settings::simhash().with(|settings| {
        settings.features = FeatureKind::Shingles(config.shingle);
        settings.sketches = Sketches::SimHash { weighting: Weighting::Tf };
        let banding = Banding { bands: config.bands, rows: BITS / config.bands };
        settings.generator = Generator::HashBands { distance: BITS as u32 - config.simhash_from, banding };
        (settings.verification, settings.min_features) = (Verification::None, MIN_FEATURES);
        (settings.all_pairs, settings.seed) = (all_pairs, seed);
    })
}

/// A run from files to a list of pairs: the scores of each band, with times and sizes of all of it.
fn by_the_tool(
    options: &Options,
    table: &mut Table,
    path: &Path,
    settings: Settings,
    from: u32,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("result");
    let job = Job {
        inputs: vec![path.to_owned()],
        out: out.clone(),
        writes: Writes { kept: false, ..Writes::default() },
        settings,
        ..Job::default()
    };
    let clock = Clock::start();
    pipeline::dedup(&job, &Silent)?;
    let time = clock.read();
    let pairs = out.join("pairs.csv");
    let bytes = std::fs::metadata(&pairs).with_context(|| pairs.display().to_string())?.len();
    let report = Report::read_json(&out.join("report.json"))?;
    for (band, histogram) in report.histograms.iter().enumerate() {
        let rows = || histogram.rows.iter().filter(|row| row.score >= from);
        let total: u64 = rows().map(|row| row.number).sum();
        for row in rows() {
            table.row(&[
                ("documents", &report.corpus.documents),
                ("method", &BY_THE_TOOL),
                ("band", &band),
                ("score", &row.score),
                ("number", &row.number),
                ("portion", &format_args!("{:.6}", row.number as f64 / total.max(1) as f64)),
                ("pairs_found", &report.outcome.pairs_found),
                ("pairs_written", &report.outcome.pairs_written),
                ("kept", &report.outcome.kept),
                ("result_bytes", &bytes),
                ("cpu_seconds", &format_args!("{:.4}", time.0)),
                ("wall_seconds", &format_args!("{:.4}", time.1)),
            ])?;
        }
    }
    options.progress.say(format!(
        "  {BY_THE_TOOL}: {} pairs, {bytes} bytes, {:.1} s",
        report.outcome.pairs_found, time.1
    ));
    Ok(())
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let config: BandScoresConfig = config::read(options, EXPERIMENT.name)?;
    let simhash = (f64::from(config.simhash_from), BITS as f64);
    let minhash = (f64::from(config.minhash_from), config.minhash_positions as f64);
    let BandScoresConfig { bands, minhash_positions: positions, shingle, near, .. } = config;
    let expected = expected(EXPERIMENT.name)?;
    for corpus in distinct(rows, "corpus") {
        let of = |method: &str, band: &str, truth: &str, column: &'static str| -> Vec<(f64, f64)> {
            rows.iter()
                .filter(|r| {
                    r.text("corpus") == corpus && r.text("method") == method && r.text("band") == band
                })
                .filter(|r| r.text("truth") == truth)
                .map(|r| (r.number("score"), r.number(column)))
                .collect()
        };
        let published = |method: &str| -> Vec<(f64, f64)> {
            let rows = expected.iter().filter(|row| row.text("method") == method);
            rows.map(|row| (row.number("score"), row.number("portion"))).collect()
        };
        let histogram = |method: &str, title: String, (from, to): (f64, f64)| Panel {
            title,
            x: Axis::linear("equal positions of the pair").between(from, to),
            y: Axis::log("share of the band's pairs").between(1e-4, 1.2),
            series: (0..bands)
                .map(|band| {
                    let look = Look::Marked { colour: band, dashed: band > 1 };
                    let points = of(method, &band.to_string(), BY_JACCARD, "portion");
                    Series::new(format!("band {band}"), look, points)
                })
                .chain([Series::new("seed 000, four bands", Look::Published, published(method))])
                .collect(),
        };
        let quality = |method: &str, truth: &str, title: String, (from, to): (f64, f64)| Panel {
            title,
            x: Axis::linear("pairs from this score on").between(from, to),
            y: Axis::share("share").between(0.0, 1.02),
            series: [
                ("precision", "precision_from_score", 4),
                ("recall", "recall_from_score", 5),
                ("F1", "f1_from_score", 6),
            ]
            .map(|(name, column, colour)| {
                let look = Look::Line { colour, dashed: colour == 5 };
                Series::new(name, look, of(method, "all", truth, column))
            })
            .into(),
        };
        let mut panels = vec![
            histogram(SIMHASH, format!("SimHash of {shingle}-shingles, {bands} bands"), simhash),
            histogram(MINHASH, format!("MinHash of words, {positions} hashes, {bands} bands"), minhash),
            quality(SIMHASH, BY_JACCARD, format!("SimHash against Jaccard >= {near}"), simhash),
            quality(MINHASH, BY_JACCARD, format!("MinHash against Jaccard >= {near}"), minhash),
        ];
        if rows.iter().any(|row| row.text("corpus") == corpus && row.text("truth") == BY_PEOPLE) {
            panels.push(quality(SIMHASH, BY_PEOPLE, "SimHash against people".into(), simhash));
            panels.push(quality(MINHASH, BY_PEOPLE, "MinHash against people".into(), minhash));
        }
        let path = options.figures().join(format!("band-scores-{corpus}.svg"));
        let note = "above: pairs of pages that share a band, copies included; below: pairs of different texts, all bands";
        figure::draw(&path, &format!("Scores per band, {corpus}"), note, 2, &panels)?;
    }
    Ok(())
}

fn verdicts(options: &Options, rows: &[Row], expected: &[Row]) -> Result<Vec<Verdict>> {
    let config: BandScoresConfig = config::read(options, EXPERIMENT.name)?;
    let mut all = Vec::new();
    for corpus in distinct(rows, "corpus") {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.text("corpus") == corpus).collect();
        for truth in distinct(rows.iter().copied(), "truth") {
            let best = |method: &str| {
                let rows = rows.iter().filter(|r| r.text("method") == method && r.text("band") == "all");
                let rows = rows.filter(|row| row.text("truth") == truth);
                rows.max_by(|a, b| a.number("f1_from_score").total_cmp(&b.number("f1_from_score")))
            };
            let (Some(simhash), Some(minhash)) = (best(SIMHASH), best(MINHASH)) else { continue };
            let say = |row: &Row| {
                format!(
                    "F1 {:.3} from score {} (precision {:.3}, recall {:.3}), {:.2} s, {} bytes a page",
                    row.number("f1_from_score"),
                    row.text("score"),
                    row.number("precision_from_score"),
                    row.number("recall_from_score"),
                    row.number("cpu_seconds"),
                    row.text("sketch_bytes"),
                )
            };
            let same_features = best(MINHASH_SHINGLES).map_or(String::new(), |row| {
                format!("; MinHash of the shingles that SimHash gets: F1 {:.3}", row.number("f1_from_score"))
            });
            // "On every aspect": which pairs, how credible, how fast; not space.
            let better = ["f1_from_score", "recall_from_score", "precision_from_score"]
                .iter()
                .all(|field| minhash.number(field) >= simhash.number(field))
                && minhash.number("cpu_seconds") <= simhash.number("cpu_seconds");
            all.push(Verdict {
                item: format!(
                    "{corpus}, by {truth}, {} true pairs of {}texts: which is the better",
                    simhash.text("true_pairs"),
                    match simhash.text("sampled") {
                        "" => String::new(),
                        sampled => format!("{sampled} sampled "),
                    }
                ),
                paper: "MinHash of words on every aspect except space (judged by eye)".into(),
                ours: format!("MinHash {}; SimHash {}{same_features}", say(minhash), say(simhash)),
                finding: better.into(),
                because: "agrees only if MinHash has the better F1 with precision, recall and time no worse; each at its best score on this truth".into(),
            });
        }
        for (method, of_seed) in [(SIMHASH, SIMHASH), (MINHASH, MINHASH), (BY_THE_TOOL, SIMHASH)] {
            let portions: Vec<(f64, f64)> = expected
                .iter()
                .filter(|row| row.text("method") == of_seed)
                .filter_map(|row| {
                    let found = rows.iter().find(|r| {
                        r.text("method") == method
                            && ["band", "score"].iter().all(|field| r.text(field) == row.text(field))
                    })?;
                    Some((row.number("portion"), found.number("portion")))
                })
                .collect();
            let top = if of_seed == SIMHASH { BITS } else { config.minhash_positions };
            let full = |rows: &[&Row], method: &str| -> String {
                let rows = rows
                    .iter()
                    .filter(|row| row.text("method") == method && row.number("score") == top as f64);
                let mut bands: Vec<(&str, f64)> = Vec::new();
                for row in rows.filter(|row| row.text("band") != "all") {
                    if bands.iter().all(|(band, _)| *band != row.text("band")) {
                        bands.push((row.text("band"), row.number("portion")));
                    }
                }
                bands.iter().map(|(_, share)| format!("{:.1}", share * 100.0)).collect::<Vec<_>>().join(", ")
            };
            if portions.is_empty() {
                continue;
            }
            let off = portions.iter().map(|(paper, ours)| (paper - ours).abs());
            let (farthest, mean) =
                (off.clone().fold(0.0, f64::max), off.sum::<f64>() / portions.len() as f64);
            all.push(Verdict {
                item: format!("{corpus}: {method}, portions of the {} scores in four bands", portions.len()),
                paper: format!("full score {} % of a band's pairs", full(&expected.iter().collect::<Vec<_>>(), of_seed)),
                ours: format!(
                    "full score {} %; portions {:.1} points off on average, {:.1} at most",
                    full(&rows, method),
                    mean * 100.0,
                    farthest * 100.0
                ),
                finding: (farthest < config.agree_within).into(),
                because: "another corpus: the share of pairs with the full score follows from how many copies it has".into(),
            });
            if let Some(row) = rows
                .iter()
                .find(|row| row.text("method") == SIMHASH && method == SIMHASH && row.text("band") == "all")
            {
                let near = row.number("text_pairs_with_or_without_band");
                let shared = row.number("result_bytes") / PAIR_BYTES as f64;
                all.push(Verdict {
                    item: format!(
                        "{corpus}: pairs of texts with a score of {} or more that share a band",
                        config.simhash_from
                    ),
                    paper: "not there".into(),
                    ours: format!("{shared:.0} of {near:.0}, {:.1} %", shared / near * 100.0),
                    finding: Finding::New,
                    because: "eight bits can differ in all four bands; the tool's exact join has them all"
                        .into(),
                });
            }
        }
        if let Some(listed) = rows.iter().find(|row| row.text("method") == BY_THE_TOOL) {
            all.push(Verdict {
                item: format!(
                    "{corpus}: from files to a list of pairs by `simflip dedup`, {} pages",
                    listed.text("documents")
                ),
                paper: "2 million pages, 18 GB: SimHash 546 s and 1.5 GB".into(),
                ours: format!(
                    "SimHash {:.1} s of processor time, {} pairs found, {} of them listed in {:.1} MB",
                    listed.number("cpu_seconds"),
                    listed.text("pairs_found"),
                    listed.text("pairs_written"),
                    listed.number("result_bytes") / 1e6
                ),
                finding: Finding::New,
                because: "other pages, another machine; of an oversized bucket the tool generates the nearest pairs alone, and of a large \
                          corpus it lists enough to connect each cluster"
                    .into(),
            });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read_all;
    use clap::Parser;
    use simflip::simhash::distance;

    #[test]
    fn the_join_finds_what_comparing_every_pair_of_a_band_finds() {
        let options = Options::parse_from(["experiments", EXPERIMENT.name, "--quick"]);
        let config: BandScoresConfig = config::read(&options, EXPERIMENT.name).unwrap();
        let path = crate::root().join("data/debian-faq.warc.wet.gz");
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Shingles(config.shingle)).unwrap();
        let hashes = corpus.simhashes(Weighting::Tf);
        let drawn = vec![true; corpus.len()];
        let answer = simhash(&corpus, &drawn, &config).unwrap();
        let verified = answer.tally.verified.lock().unwrap().clone();
        let width = BITS / config.bands;
        let mut near = 0;
        for band in 0..config.bands {
            let mut naive = Vec::new();
            for a in 0..corpus.len() {
                for b in a + 1..corpus.len() {
                    let [x, y] = [a, b].map(|text| hashes[text].hash);
                    let score = BITS as u32 - distance(x, y);
                    let key = |hash: u64| hash << (width * band) >> (BITS - width);
                    near += u64::from(band == 0 && score >= config.simhash_from);
                    if key(x) == key(y) && score >= config.simhash_from {
                        let [a, b] = [a, b].map(|text| corpus.document(text));
                        naive.push((a.min(b), a.max(b), score));
                    }
                }
            }
            let of_band = verified.iter().filter(|pair| pair.bands >> band & 1 == 1);
            let mut found: Vec<_> = of_band.map(|pair| (pair.a, pair.b, pair.score)).collect();
            found.sort_unstable();
            naive.sort_unstable();
            assert!(!naive.is_empty());
            assert_eq!(found, naive, "band {band}");
            for score in config.simhash_from..=BITS as u32 {
                let of_score = naive.iter().filter(|pair| pair.2 == score).count() as u64;
                assert_eq!(answer.tally.count(band, score)[0], of_score, "band {band}, score {score}");
            }
        }
        assert_eq!(answer.near, Some(near));
    }

    #[test]
    fn of_drawn_texts_all_pairs_are_judged_and_of_all_texts_all_are_counted() {
        let options = Options::parse_from(["experiments", EXPERIMENT.name, "--quick"]);
        let mut config: BandScoresConfig = config::read(&options, EXPERIMENT.name).unwrap();
        let path = crate::root().join("data/debian-faq.warc.wet.gz");
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Words).unwrap();
        (config.judged_in_full, config.drawn) = (0, 20);
        let (drawn, chosen) = draw_texts(&corpus, &config, 7);
        assert_eq!(chosen.unwrap().len(), 20);
        let documents: HashSet<u32> =
            (0..corpus.len()).filter(|&text| drawn[text]).map(|text| corpus.document(text)).collect();
        let all = vec![true; corpus.len()];
        let answers = |drawn: &[bool]| {
            let minhash = minhash(&corpus, drawn, MINHASH, FeatureKind::Words, &config, 1).unwrap();
            [simhash(&corpus, drawn, &config).unwrap(), minhash]
        };
        for (full, part) in answers(&all).into_iter().zip(answers(&drawn)) {
            let listed = |answer: &BandScore| {
                let mut verified = answer.tally.verified.lock().unwrap().clone();
                verified.sort_unstable();
                verified
            };
            let mut wanted = listed(&full);
            wanted.retain(|pair| documents.contains(&pair.a) || documents.contains(&pair.b));
            assert!(!wanted.is_empty() && wanted.len() < listed(&full).len(), "{}", full.method);
            assert_eq!(listed(&part), wanted, "{}", full.method);
            for (band, score) in
                (0..=config.bands).flat_map(|band| (full.from..=full.top).map(move |s| (band, s)))
            {
                assert_eq!(full.tally.count(band, score), part.tally.count(band, score), "{}", full.method);
            }
        }
    }

    #[test]
    fn what_people_said_is_counted_on_the_pairs_they_saw() {
        let folder = tempfile::tempdir().unwrap();
        let labels = folder.path().join("labels.csv");
        std::fs::write(&labels, "a,b,label\n0,1,1\n2,3,0\n4,5,unknown\n").unwrap();
        let mut options = Options::parse_from(["experiments", EXPERIMENT.name, "--quick"]);
        options.corpora = vec![crate::root().join("data/debian-faq.warc.wet.gz")];
        options.truths = vec![format!("debian-faq={}", labels.display())];
        options.results = Some(folder.path().join("results"));
        run(&options).unwrap();
        let rows = read_all(&options, EXPERIMENT.name).unwrap();
        let people: Vec<&Row> = rows.iter().filter(|row| row.text("truth") == BY_PEOPLE).collect();
        assert!(!people.is_empty());
        assert!(people.iter().all(|row| row.number("true_pairs") == 1.0 && row.number("reported") <= 2.0));
    }

    #[test]
    fn all_legible_portions_of_the_seed_are_there() {
        let expected = expected(EXPERIMENT.name).unwrap();
        assert_eq!(expected.len(), 4 * 9 + 4 * 11);
        for method in [SIMHASH, MINHASH] {
            for band in 0..4 {
                let of = expected
                    .iter()
                    .filter(|r| r.text("method") == method && r.number("band") == f64::from(band));
                let sum: f64 = of.map(|row| row.number("portion")).sum();
                assert!((sum - 1.0).abs() < 2e-5, "{method}, band {band}: {sum}");
            }
        }
    }
}
