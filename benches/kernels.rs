//! The kernels at every level of this processor, on the shapes in which they are used. Fails where a level is
//! slower than the one below it.
//!
//! `cargo bench -p simflip-benches --bench kernels` measures; `-- --short` takes about five seconds of processor time;
//! `-- WORD` measures the shapes and kernels with that word in their names. With `cargo test` in the place of
//! `cargo bench` it only compares answers, which must be the same at every level.
//!
//! A process chooses its level once, so there is a process for each level. All of them take turns at one shape: what
//! else the machine does then meets every level. The fastest round counts, in processor time. A shape on which a
//! level looks slower than the one below is measured again before it fails, with more rounds and by new processes:
//! times depend on where the system puts the memory of a process, too.

// A benchmark prints to whoever started it; a process that it starts prints to a pipe of its own.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use simflip_benches::seconds;
use simflip_core::hash::{SplitMix64, fmix64};
use simflip_core::internal::{Level, NearPairs};
use simflip_core::minhash::{Family, MinHashParams, MinHasher, matches, one_bit};
use simflip_core::search::bphs::{Bphs, BphsParams};
use simflip_core::search::dial::{Dial, DialParams};
use simflip_core::search::distinct::DistinctHashes;
use simflip_core::search::linear::Linear;
use simflip_core::search::psm::{FlippedBits, Psm, PsmParams};
use simflip_core::search::{HammingIndex, Mode, Query, Scratch, join};
use simflip_core::settings::Settings;
use simflip_core::simhash::SimHash;
use simflip_core::simhash::hasher::SimHasher;
use simflip_core::simhash::volatility::{FlipCost, Volatility};
use simflip_core::sketch::Sketcher;
use simflip_core::text::{FeatureExtractor, FeatureKind};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

/// How many times as long as the level below a level may take.
const TOLERANCE: f64 = 1.10;

/// Rounds of a shape in the short form and in the long one.
const ROUNDS: [u32; 2] = [5, 40];

/// Measurements before a shape fails, each of twice as many rounds as the one before.
const ATTEMPTS: u32 = 4;

/// What asks the program to measure at its own level.
const MEASURE: &str = "measure-at-this-level";

/// Work of a kernel as something in use gives it.
struct Shape {
    kernels: &'static str,
    name: String,
    /// Parts of the work, whose times are reported.
    parts: usize,
    /// Does the work, and gives a digest of what came out.
    run: Box<dyn FnMut() -> u64>,
}

impl Shape {
    fn new(
        kernels: &'static str,
        name: impl Into<String>,
        parts: usize,
        run: impl FnMut() -> u64 + 'static,
    ) -> Self {
        Self { kernels, name: name.into(), parts, run: Box::new(run) }
    }
}

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    texts(&mut shapes);
    features(&mut shapes);
    searches(&mut shapes);
    shapes
}

fn numbers(count: usize, seed: u64) -> Vec<u64> {
    let mut rng = SplitMix64::new(seed);
    (0..count).map(|_| rng.next_u64()).collect()
}

/// Words drawn from a list by a skewed law.
fn prose(words: &[&str], bytes: usize) -> String {
    let mut rng = SplitMix64::new(1);
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(words[(words.len() as f64 * rng.unit().powi(3)) as usize]);
        text.push_str(if rng.below(12) == 0 { ". " } else { " " });
    }
    text
}

fn texts(shapes: &mut Vec<Shape>) {
    let english = ["the", "of", "Near", "duplicate", "index", "2024", "documentation", "template", "release"];
    let russian = ["и", "в", "страница", "Система", "установка", "пакет", "документация", "является"];
    for (language, words) in [("English", &english[..]), ("Russian", &russian)] {
        let text = prose(words, 1 << 16);
        let mut extractor = FeatureExtractor::new(FeatureKind::Shingles(5));
        shapes.push(Shape::new(
            "fold, ones, words",
            format!("features of 64 KiB, {language}"),
            1,
            move || {
                let mut digest = 0;
                extractor.extract(&text, |feature| digest ^= feature);
                digest
            },
        ));
    }
    for (name, settings) in [
        ("default", Settings::default()),
        ("SimHash", Settings::simhash()),
        ("MinHash", Settings::minhash(0.8)),
    ] {
        for bytes in [600, 6_000] {
            let text = prose(&english, bytes);
            let mut sketcher = Sketcher::new(&settings, None).expect("settings of the tool");
            let count = 240_000 / bytes;
            shapes.push(Shape::new("all of a sketch", format!("{name}, {bytes} bytes"), count, move || {
                for _ in 1..count {
                    black_box(sketcher.sketch(black_box(&text)));
                }
                digest(&format!("{:?}", sketcher.sketch(&text)))
            }));
        }
    }
}

fn digest(text: &str) -> u64 {
    text.bytes().fold(0, |sum, byte| fmix64(sum ^ u64::from(byte)))
}

fn features(shapes: &mut Vec<Shape>) {
    // The features of a short document, of one as in the paper, and of a long one.
    for count in [20, 141, 1_500] {
        let features = numbers(count, 2);
        let repeats = 60_000 / count;
        let own = features.clone();
        shapes.push(Shape::new(
            "accumulate",
            format!("count of bits, {count} features"),
            repeats,
            move || (0..repeats).map(|_| SimHasher::hash_of_set(black_box(&own))).fold(0, u64::wrapping_add),
        ));
        let (own, mut hasher) = (features.clone(), SimHasher::default());
        shapes.push(Shape::new(
            "accumulate",
            format!("sums of weights, {count} features"),
            repeats,
            move || {
                let weighted = || own.iter().map(|&feature| (feature, (feature >> 40) as i64));
                (0..repeats).map(|_| hasher.hash(black_box(weighted())).hash).fold(0, u64::wrapping_add)
            },
        ));
        for (family, positions) in [(Family::Multiply32, 128), (Family::FastSimilarity, 128)] {
            let hasher =
                MinHasher::new(MinHashParams { permutations: positions, family, seed: 1 }).expect("possible");
            let (own, mut signature) = (features.clone(), vec![0; positions]);
            let repeats = 1 + repeats / 20;
            let name = format!("{family:?}, {positions} positions, {count} features");
            shapes.push(Shape::new("minhash", name, repeats, move || {
                (0..repeats).fold(0, |sum, _| {
                    hasher.sign(black_box(&own), &mut signature);
                    signature.iter().fold(sum, |sum, &position| sum ^ u64::from(position))
                })
            }));
        }
    }
    let hasher = MinHasher::new(MinHashParams::default()).expect("possible");
    let signatures = hasher.sign_all(&(0..2_000).map(|seed| numbers(20, seed)).collect::<Vec<_>>());
    let count = signatures.len();
    let own = signatures.clone();
    shapes.push(Shape::new("minhash", "equal positions of 128", count, move || {
        (0..count).map(|at| matches(own.get(0), own.get(at)) as u64).sum()
    }));
    shapes.push(Shape::new("pack", "a bit of each of 128 positions", count, move || {
        (0..count).fold(0, |sum, at| {
            let mut bits = [0; 2];
            one_bit::pack(black_box(signatures.get(at)), &mut bits);
            sum ^ bits[0] ^ bits[1]
        })
    }));
    let rows = numbers(16 * 4_096, 3);
    for words in [8, 16] {
        let (rows, level) = (rows.clone(), Level::in_use());
        shapes.push(Shape::new(
            "differing",
            format!("two sketches of {} bits", 64 * words),
            4_096,
            move || {
                rows.chunks_exact(16)
                    .map(|row| u64::from(level.differing(&rows[..words], &row[..words])))
                    .sum()
            },
        ));
    }
    let (heads, mut found): (Vec<[u64; 8]>, Vec<u32>) = (rows.as_chunks().0.to_vec(), Vec::new());
    shapes.push(Shape::new("differing", "sketches near one, of 8,192", heads.len(), move || {
        found.clear();
        Level::in_use().within(&heads[0], &heads, 225, &mut found);
        found.iter().map(|&place| u64::from(place)).sum()
    }));
}

const STORED: usize = 1 << 18;
const QUERIES: usize = 1 << 12;

fn searches(shapes: &mut Vec<Shape>) {
    let queries: Vec<[SimHash; 2]> = NearPairs::new(3, 2011).take(QUERIES).collect();
    let mut hashes: Vec<u64> = queries.iter().map(|[_, partner]| partner.hash).collect();
    hashes.extend(numbers(STORED - QUERIES, 4));
    let stored = DistinctHashes::new(&hashes);
    let stored = stored.hashes();
    let queries: &'static [SimHash] = queries.into_iter().map(|[query, _]| query).collect::<Vec<_>>().leak();

    for bits in [18, 24, 64] {
        let among = u64::MAX << (64 - bits);
        shapes.push(Shape::new("rank", format!("order of {bits} bits"), QUERIES, move || {
            let order = |query: &SimHash| Volatility::new(&query.weights, among, FlipCost::Abs);
            queries.iter().map(|query| u64::from(order(query).bits()[5])).sum()
        }));
    }
    let few: Vec<u64> = stored.iter().step_by(4).copied().collect();
    let linear = Linear::new(&few, 3).expect("valid");
    search(shapes, "hamming", "all of 65,536 hashes, one by one", linear, &queries[..16]);
    for tables in [4, 10, 16] {
        let index = Bphs::new(stored, BphsParams { radius: 3, tables }).expect("valid");
        search(shapes, "hamming", format!("groups of BPHS, {tables} tables"), index, queries);
    }
    let psm = PsmParams {
        budget: Some(9),
        radius: 3,
        flipped_bits: FlippedBits::Key { key_bits: None },
        ..PsmParams::default()
    };
    search(shapes, "hamming", "groups of PSM, 9 probes", Psm::new(stored, psm).expect("valid"), queries);
    for (tables, flips, radius, budget) in
        [(2, 1, 3, 2), (2, 1, 3, 4), (2, 1, 3, 12), (3, 1, 3, 3), (2, 2, 6, 24), (4, 2, 10, 64)]
    {
        let params =
            DialParams { flips: Some(flips), budget: Some(budget), radius, tables, ..DialParams::default() };
        let kernels = if flips == 1 { "weakest, packed" } else { "flips, packed" };
        let name = format!("dial, {tables} tables, {flips} flips, {budget} probes within {radius} bits");
        search(
            shapes,
            kernels,
            name,
            Dial::new(stored, params).expect("valid"),
            &queries[..QUERIES * 3 / (radius as usize).pow(2)],
        );
    }
    for radius in [3, 8] {
        let some: Vec<u64> = stored.iter().step_by(8).copied().collect();
        shapes.push(Shape::new(
            "near",
            format!("join of 32,768 hashes within {radius} bits"),
            some.len(),
            move || {
                let mut digest = 0;
                let pairs = |pairs: &[simflip_core::search::NearPair]| {
                    digest = pairs.iter().fold(digest, |sum, pair| {
                        sum ^ fmix64(u64::from(pair.a.0) << 32 | u64::from(pair.b.0))
                    });
                };
                join::join(&some, radius, &|_| {}, pairs).expect("few hashes");
                digest
            },
        ));
    }
}

fn search(
    shapes: &mut Vec<Shape>,
    kernels: &'static str,
    name: impl Into<String>,
    index: impl HammingIndex + 'static,
    queries: &'static [SimHash],
) {
    let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
    let asked: Vec<Query<'static>> =
        queries.iter().map(|query| Query { hash: query.hash, weights: &query.weights }).collect();
    shapes.push(Shape::new(kernels, name, queries.len(), move || {
        hits.clear();
        let cost = index
            .answer(&asked, Mode::All, false, &mut scratch, &mut |found| hits.push((found.query, found.hit)));
        let found = |(query, hit): &(u32, simflip_core::search::Hit)| {
            fmix64(u64::from(*query) << 32 | u64::from(hit.slot.0))
        };
        hits.iter().map(found).fold(cost.candidates, u64::wrapping_add)
    }));
}

/// Answers each line, the number of a shape, with the nanoseconds of a part and the digest.
fn measure() {
    let mut shapes = shapes();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let Some(shape) = line.parse().ok().and_then(|number: usize| shapes.get_mut(number)) else { return };
        // Of all threads, because a join has a pool of its own.
        let start = seconds();
        let digest = (shape.run)();
        let took = seconds() - start;
        println!("{} {digest}", took * 1e9 / shape.parts as f64);
    }
}

/// A process that measures at one level.
struct AtLevel {
    level: &'static str,
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl AtLevel {
    fn start(level: &'static str) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(MEASURE)
            .env(simflip_core::KERNEL_VARIABLE, level)
            .env("RAYON_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let asks = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Ok(Self { level, child, asks, answers })
    }

    /// The next line that the process writes.
    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).expect("a pipe");
        assert!(read > 0, "the process at level {} has ended", self.level);
        line.trim_end().to_owned()
    }

    /// Runs a shape: the nanoseconds of a part of it, and the digest of what came out.
    fn run(&mut self, shape: usize) -> (f64, String) {
        writeln!(self.asks, "{shape}").expect("a pipe");
        let line = self.line();
        let (time, digest) = line.split_once(' ').expect("a time and a digest");
        (time.parse().expect("a number"), digest.to_owned())
    }

    /// Ends the process.
    fn end(self) {
        let Self { mut child, asks, .. } = self;
        drop(asks);
        child.wait().expect("a process of our own");
    }
}

/// Starts a process for each level and runs these shapes, all levels in turn: once to compare their answers, then
/// so many rounds to find the least time of each.
fn measure_all(levels: &[&'static str], shapes: &[usize], rounds: u32, least: &mut [Vec<f64>]) {
    let mut processes: Vec<AtLevel> =
        levels.iter().map(|level| AtLevel::start(level).expect("this program, once more")).collect();
    for &shape in shapes {
        let digests: Vec<String> = processes.iter_mut().map(|process| process.run(shape).1).collect();
        assert!(
            digests.iter().all(|digest| *digest == digests[0]),
            "shape {shape}: {digests:?} at {levels:?}"
        );
        for _ in 0..rounds {
            for (process, least) in processes.iter_mut().zip(&mut least[shape]) {
                *least = least.min(process.run(shape).0);
            }
        }
    }
    processes.into_iter().for_each(AtLevel::end);
}

/// The levels that are slower than the one below them, more than can be noise.
fn slower(best: &[f64]) -> Vec<usize> {
    (1..best.len()).filter(|&at| best[at] > TOLERANCE * best[at - 1]).collect()
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let given = |word: &str| words.iter().any(|given| given == word);
    if given(MEASURE) {
        measure();
        return ExitCode::SUCCESS;
    }
    // As `cargo bench` calls it.
    let timed = given("--bench");
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let rounds = ROUNDS[usize::from(!given("--short"))];

    let names: Vec<(&'static str, String)> =
        shapes().into_iter().map(|shape| (shape.kernels, shape.name)).collect();
    let levels: Vec<&'static str> = Level::available().into_iter().map(Level::name).collect();
    let mut times = vec![vec![f64::MAX; levels.len()]; names.len()];
    let is_wanted = |&shape: &usize| {
        let (kernels, name) = &names[shape];
        wanted.iter().all(|word| kernels.contains(word.as_str()) || name.contains(word.as_str()))
    };
    let mut left: Vec<usize> = (0..names.len()).filter(is_wanted).collect();
    for attempt in 0..ATTEMPTS {
        measure_all(&levels, &left, if timed { rounds << attempt } else { 0 }, &mut times);
        if !timed {
            return ExitCode::SUCCESS;
        }
        if attempt == 0 {
            println!("nanoseconds of a part of each shape{:>61}", levels.join("  "));
            for &shape in &left {
                let (kernels, name) = &names[shape];
                let times: String = times[shape].iter().map(|time| format!("{time:>13.1}")).collect();
                println!("{:<18} {name:<58}{times}", format!("{kernels}:"));
            }
        }
        left.retain(|&shape| !slower(&times[shape]).is_empty());
        if left.is_empty() {
            return ExitCode::SUCCESS;
        }
    }
    for shape in left {
        let ((kernels, name), times) = (&names[shape], &times[shape]);
        for at in slower(times) {
            eprintln!(
                "{kernels}: {name}: {} takes {:.1} ns, {:.2} times the {:.1} ns of {}, the level below",
                levels[at],
                times[at],
                times[at] / times[at - 1],
                times[at - 1],
                levels[at - 1]
            );
        }
    }
    ExitCode::FAILURE
}
