//! Seed 000 again: SimHash of 3-word shingles in 4 bands of 16 bits against MinHash of words, 20 hashes in 4 bands
//! of 5; score histograms per band, and which of the two is the better, judged by exact Jaccard coefficients and, where
//! there are labels, by people. MinHash of the same shingles stands beside them, because the seed gave its two methods
//! different features.

use crate::check::{Finding, Verdict};
use crate::config;
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::results::{Clock, Row, Table, distinct, expected};
use crate::truth::similar_pairs;
use crate::{Experiment, Options};
use anyhow::{Result, bail};
use flipside::Id;
use flipside::corpus::{ReadOptions, discover};
use flipside::evaluate::corpus::record_names;
use flipside::evaluate::found::Records;
use flipside::evaluate::truth::{Truth, TruthFile, TruthParams, Verdict as Judgement};
use flipside::minhash::{DistinctSignatures, Family, MinHashParams, MinHasher};
use flipside::search::bands::{Banding, JoinParams, join};
use flipside::search::distinct::DistinctHashes;
use flipside::search::join::join as join_hashes;
use flipside::simhash::BITS;
use flipside::text::FeatureKind;
use flipside::weight::Weighting;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::path::Path;

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
struct Config {
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
}

/// SimHash as the seed has it: of shingles.
const SIMHASH: &str = "SimHash";
/// MinHash as the seed has it: of words.
const MINHASH: &str = "MinHash";
/// MinHash of what SimHash gets.
const MINHASH_SHINGLES: &str = "MinHash on shingles";

/// Truths by which a method is judged.
const BY_JACCARD: &str = "Jaccard of shingles";
const BY_PEOPLE: &str = "people";

/// A pair of texts, each by the number of its first document, the lower one first; and its score.
type Scored = (u32, u32, u32);

/// What a method says of the texts of a corpus.
struct Answer {
    method: &'static str,
    features: FeatureKind,
    /// For each band the pairs that are equal in it and have the least score.
    bands: Vec<Vec<Scored>>,
    /// Pairs with the least score, whether they share a band or not; nothing where they were not counted.
    near: Option<usize>,
    from: u32,
    top: u32,
    time: (f64, f64),
    /// Bytes of a sketch.
    sketch: usize,
}

fn scored(a: u32, b: u32, score: u32) -> Scored {
    (a.min(b), a.max(b), score)
}

/// SimHash in bands. All pairs within the distance of the least score come from the exact join; a pair is in every
/// band whose bits are equal.
fn simhash(corpus: &Corpus, config: &Config) -> Result<Answer> {
    let clock = Clock::start();
    let hashes: Vec<u64> = corpus.simhashes(Weighting::Tf).iter().map(|simhash| simhash.hash).collect();
    let groups = DistinctHashes::new(&hashes);
    let of = |text: usize| corpus.document(text);
    let mut pairs: Vec<(u64, Scored)> = Vec::new();
    join_hashes(groups.hashes(), BITS as u32 - config.simhash_from, &|_| (), |part| {
        for pair in part {
            let differ = groups.hash(pair.a) ^ groups.hash(pair.b);
            for a in groups.members(pair.a) {
                for b in groups.members(pair.b) {
                    let score = BITS as u32 - pair.distance;
                    pairs.push((differ, scored(of(a.index()), of(b.index()), score)));
                }
            }
        }
    })?;
    for texts in groups.groups().iter() {
        for (at, a) in texts.iter().enumerate() {
            let same = texts[at + 1..].iter().map(|b| scored(of(a.index()), of(b.index()), BITS as u32));
            pairs.extend(same.map(|pair| (0, pair)));
        }
    }
    let width = BITS / config.bands;
    let equal = |differ: u64, band: usize| differ << (width * band) >> (BITS - width) == 0;
    let of_band =
        |band| pairs.iter().filter(|(differ, _)| equal(*differ, band)).map(|&(_, pair)| pair).collect();
    Ok(Answer {
        method: SIMHASH,
        features: FeatureKind::Shingles(config.shingle),
        bands: (0..config.bands).map(of_band).collect(),
        near: Some(pairs.len()),
        from: config.simhash_from,
        top: BITS as u32,
        time: clock.read(),
        sketch: BITS / 8,
    })
}

/// MinHash in bands: signatures that share one are compared in full.
fn minhash(
    corpus: &Corpus,
    method: &'static str,
    features: FeatureKind,
    config: &Config,
    seed: u64,
) -> Result<Answer> {
    let positions = config.minhash_positions;
    let clock = Clock::start();
    let sets: Vec<Vec<u64>> = (0..corpus.len())
        .map(|text| corpus.counts(text).into_iter().map(|(feature, _)| feature).collect())
        .collect();
    let params = MinHashParams::new(positions, Family::Prime61, seed);
    let signatures = DistinctSignatures::new(MinHasher::new(params)?.sign_all(&sets));
    let rows = positions / config.bands;
    let mut params = JoinParams::new(Banding { bands: config.bands, rows }, config.minhash_from as usize);
    params.full_bucket = corpus.len();
    let of = |text: usize| corpus.document(text);
    let mut bands: Vec<Vec<Scored>> = vec![Vec::new(); config.bands];
    for pair in join(&signatures, params)?.pairs {
        let [a, b] = [pair.a, pair.b].map(|slot| signatures.signatures().get(slot.index()));
        let equal = |band: &usize| a[band * rows..][..rows] == b[band * rows..][..rows];
        let score = positions as u32 - pair.distance;
        for band in (0..config.bands).filter(equal) {
            for a in signatures.members(pair.a) {
                let others = signatures.members(pair.b).iter();
                bands[band].extend(others.map(|b| scored(of(a.index()), of(b.index()), score)));
            }
        }
    }
    for texts in signatures.groups().iter() {
        for (at, a) in texts.iter().enumerate() {
            for b in &texts[at + 1..] {
                let pair = scored(of(a.index()), of(b.index()), positions as u32);
                bands.iter_mut().for_each(|pairs| pairs.push(pair));
            }
        }
    }
    Ok(Answer {
        method,
        features,
        bands,
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
    let names = record_names(&inputs, &ReadOptions::default())?;
    let truth = TruthFile::read(Path::new(file), &Records::new(&names)?, &TruthParams::default())?;
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
        let pairs = pairs.iter().filter(|pair| wanted.contains(&pair.verdict));
        let texts = pairs.map(|pair| [pair.a, pair.b].map(|document| text(document.number())));
        texts.map(|[a, b]| (a.min(b), a.max(b))).collect()
    };
    let known = Some(of(&[Judgement::Duplicate, Judgement::Distinct]));
    Ok(Right { name: BY_PEOPLE, near: of(&[Judgement::Duplicate]), known })
}

fn run(options: &Options) -> Result<()> {
    let config: Config = config::read(options, EXPERIMENT.name)?;
    let shingles = FeatureKind::Shingles(config.shingle);
    for path in options.corpora() {
        let of_shingles = Corpus::load(&path, shingles)?;
        let of_words = Corpus::load(&path, FeatureKind::Words)?;
        let corpus = &of_shingles;
        let mut table = Table::create(options, EXPERIMENT.name, &corpus.name, &corpus.digest)?;
        let sets: Vec<Vec<(u64, u32)>> = (0..corpus.len()).map(|text| corpus.counts(text)).collect();
        let near = similar_pairs(&sets, config.near).into_iter();
        let near = near.map(|(a, b, _)| (corpus.document(a as usize), corpus.document(b as usize))).collect();
        let mut truths = vec![Right { name: BY_JACCARD, near, known: None }];
        for given in
            options.truths.iter().filter_map(|truth| truth.strip_prefix(&format!("{}=", corpus.name)))
        {
            let file = given.split(',').next().unwrap_or_default();
            truths.push(by_people(&path, file, &[&of_shingles, &of_words])?);
        }
        let answers = [
            simhash(&of_shingles, &config)?,
            minhash(&of_words, MINHASH, FeatureKind::Words, &config, options.seed)?,
            minhash(&of_shingles, MINHASH_SHINGLES, shingles, &config, options.seed)?,
        ];
        for answer in answers {
            let corpus = if answer.method == MINHASH { &of_words } else { &of_shingles };
            write(&mut table, corpus, &answer, &truths)?;
            let found: usize = answer.bands.iter().flatten().collect::<HashSet<_>>().len();
            options.progress.say(format!(
                "  {}: {} texts, {}: {found} pairs of texts, {:.2} s",
                corpus.name,
                corpus.len(),
                answer.method,
                answer.time.0
            ));
        }
    }
    Ok(())
}

fn write(table: &mut Table, corpus: &Corpus, answer: &Answer, truths: &[Right]) -> Result<()> {
    let copies: HashMap<u32, u64> =
        (0..corpus.len()).map(|text| (corpus.document(text), corpus.copies(text) as u64)).collect();
    // Copies of one text are alike by any method; they count as pages, as they do in the seed.
    let same: u64 = copies.values().map(|n| n * (n - 1) / 2).sum();
    let pages = |pairs: &[&Scored]| pairs.iter().map(|(a, b, _)| copies[a] * copies[b]).sum::<u64>();
    let union: HashSet<Scored> = answer.bands.iter().flatten().copied().collect();
    let count = answer.bands.len();
    let bands: Vec<Vec<Scored>> =
        answer.bands.iter().cloned().chain([union.iter().copied().collect()]).collect();
    for (band, all) in bands.iter().enumerate() {
        let total = pages(&all.iter().collect::<Vec<_>>()) + same;
        let name = if band < count { band.to_string() } else { "all".into() };
        for score in answer.from..=answer.top {
            let at: Vec<&Scored> = all.iter().filter(|pair| pair.2 == score).collect();
            let number = pages(&at) + if score == answer.top { same } else { 0 };
            // What the method would have found with this score as its threshold.
            let above: Vec<(u32, u32)> =
                all.iter().filter(|pair| pair.2 >= score).map(|&(a, b, _)| (a, b)).collect();
            for Right { name: truth, near, known } in truths {
                let judged = |pair: &&(u32, u32)| known.as_ref().is_none_or(|known| known.contains(pair));
                let told = above.iter().filter(judged).count();
                // Copies are near by any method, and a truth that knows their pair has it among the right ones.
                let copied = near.iter().filter(|(a, b)| a == b).count();
                let hit = above.iter().filter(|pair| near.contains(pair)).count() + copied;
                let told = told + copied;
                let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
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
                    ("text_pairs", &at.len()),
                    (
                        "text_pairs_with_or_without_band",
                        &answer.near.map_or(String::new(), |n| n.to_string()),
                    ),
                    ("truth", truth),
                    ("true_pairs", &near.len()),
                    ("told", &told),
                    ("right", &hit),
                    ("precision_from_score", &format_args!("{:.5}", share(hit, told))),
                    ("recall_from_score", &format_args!("{:.5}", share(hit, near.len()))),
                    ("f1_from_score", &format_args!("{:.5}", share(2 * hit, told + near.len()))),
                    ("sketch_bytes", &answer.sketch),
                    ("result_bytes", &(union.len() * size_of::<Scored>())),
                    ("cpu_seconds", &format_args!("{:.4}", answer.time.0)),
                    ("wall_seconds", &format_args!("{:.4}", answer.time.1)),
                ])?;
            }
        }
    }
    Ok(())
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let config: Config = config::read(options, EXPERIMENT.name)?;
    let simhash = (f64::from(config.simhash_from), BITS as f64);
    let minhash = (f64::from(config.minhash_from), config.minhash_positions as f64);
    let Config { bands, minhash_positions: positions, shingle, near, .. } = config;
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
    let config: Config = config::read(options, EXPERIMENT.name)?;
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
                item: format!("{corpus}, by {truth}, {} true pairs of texts: which is the better", simhash.text("true_pairs")),
                paper: "MinHash of words on every aspect except space (judged by eye)".into(),
                ours: format!("MinHash {}; SimHash {}{same_features}", say(minhash), say(simhash)),
                finding: better.into(),
                because: "agrees only if MinHash has the better F1 with precision, recall and time no worse; each at its best score on this truth".into(),
            });
        }
        for method in [SIMHASH, MINHASH] {
            let portions: Vec<(f64, f64)> = expected
                .iter()
                .filter(|row| row.text("method") == method)
                .filter_map(|row| {
                    let found = rows.iter().find(|r| {
                        ["method", "band", "score"].iter().all(|field| r.text(field) == row.text(field))
                    })?;
                    Some((row.number("portion"), found.number("portion")))
                })
                .collect();
            let top = if method == SIMHASH { BITS } else { config.minhash_positions };
            let full = |rows: &[&Row]| -> String {
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
                paper: format!("full score {} % of a band's pairs", full(&expected.iter().collect::<Vec<_>>())),
                ours: format!(
                    "full score {} %; portions {:.1} points off on average, {:.1} at most",
                    full(&rows),
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
                let shared = row.number("result_bytes") / size_of::<Scored>() as f64;
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
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read_all;
    use clap::Parser;
    use flipside::simhash::distance;

    #[test]
    fn the_join_finds_what_comparing_every_pair_of_a_band_finds() {
        let options = Options::parse_from(["experiments", EXPERIMENT.name, "--quick"]);
        let config: Config = config::read(&options, EXPERIMENT.name).unwrap();
        let path = crate::root().join("data/debian-faq.warc.wet.gz");
        let corpus = Corpus::load(&path, FeatureKind::Shingles(config.shingle)).unwrap();
        let hashes = corpus.simhashes(Weighting::Tf);
        let answer = simhash(&corpus, &config).unwrap();
        let width = BITS / config.bands;
        for (band, found) in answer.bands.iter().enumerate() {
            let mut naive = Vec::new();
            for a in 0..corpus.len() {
                for b in a + 1..corpus.len() {
                    let [x, y] = [a, b].map(|text| hashes[text].hash);
                    let score = BITS as u32 - distance(x, y);
                    let key = |hash: u64| hash << (width * band) >> (BITS - width);
                    if key(x) == key(y) && score >= config.simhash_from {
                        naive.push(scored(corpus.document(a), corpus.document(b), score));
                    }
                }
            }
            let mut found = found.clone();
            found.sort_unstable();
            naive.sort_unstable();
            assert!(!naive.is_empty());
            assert_eq!(found, naive, "band {band}");
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
        assert!(people.iter().all(|row| row.number("true_pairs") == 1.0 && row.number("told") <= 2.0));
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
