//! Why two pages are near-duplicates or not: every figure behind the verdict.

use super::collect::Keeping;
use super::find::{Dialled, joins_exactly, traced_sample};
use super::samples::Shown;
use super::settings::{Method, Settings, Verify};
use super::stages::{Progress, Stages};
use super::{Job, prepare, simhashes};
use crate::calibrate::NEVER;
use crate::error::{Error, Result};
use crate::evaluate::diff::{Change, DiffParams, Run, WordDiff};
use crate::features;
use crate::hash::text_digest;
use crate::minhash::MinHashParams;
use crate::minhash::MinHasher;
use crate::report::html::visible;
use crate::search::bands::Banding;
use crate::search::distinct::DistinctHashes;
use crate::search::psm::{Psm, PsmParams, Reading};
use crate::search::{HammingIndex, Mode, Query, Scratch};
use crate::simhash::hasher::SimHasher;
use crate::simhash::quantised::QuantisedWeights;
use crate::simhash::volatility::Volatility;
use crate::simhash::{SimHash, distance};
use crate::text::{FeatureExtractor, FeatureKind, Tokenizer};
use crate::weight::Weigher;
use crate::weight::frequencies::Frequencies;
use crate::wording::counted;
use hashbrown::HashMap;
use serde::Serialize;
use std::fs;

/// A page.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Its id in results.
    pub id: String,
    /// Its URL, or an empty string.
    pub url: String,
    /// Length of its text.
    pub text_bytes: u64,
    /// Distinct features.
    pub features: u64,
    /// Its SimHash, in hexadecimal digits: many readers of JSON round whole numbers of 64 bits.
    #[serde(serialize_with = "hexadecimal")]
    pub hash: u64,
}

fn hexadecimal<S: serde::Serializer>(hash: &u64, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{hash:016x}"))
}

/// A bit in which the hashes differ.
#[derive(Clone, Debug, Serialize)]
pub struct DifferingBit {
    /// Counted from 0, the least significant.
    pub bit: u32,
    /// The weights behind it.
    pub weights: [f32; 2],
    /// Its volatility rank in either page, 1 being the weakest bit.
    pub ranks: [usize; 2],
    /// The features that part the two weights most, with their share in (weight of a − weight of b).
    pub pushed_by: Vec<(String, f64)>,
}

/// What one method says.
#[derive(Clone, Debug, Serialize)]
pub struct Opinion {
    /// Which method, or which check.
    pub by: String,
    /// Whether it says near-duplicates.
    pub near: bool,
    /// Why, and from what setting on it would say otherwise.
    pub why: String,
}

/// Where psm comes upon a pair.
#[derive(Clone, Debug, Serialize)]
pub struct PsmTrace {
    /// Which index, and over what.
    pub index: String,
    /// The probe that comes upon the other page, from either; none where no probe does, or none within the distance.
    pub probes: [Option<u32>; 2],
    /// Probes of an exhaustive search.
    pub all_probes: u64,
    /// Probes that a search under these settings makes; none if it makes all.
    pub budget: Option<u32>,
    /// Whether `dedup` does not search at all under these settings, but joins all hashes and misses none.
    pub joined: bool,
}

/// Why two pages are near-duplicates or not.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The two pages.
    pub pages: [Page; 2],
    /// Whether the texts are the same, byte for byte.
    pub same_text: bool,
    /// What the features are, and what their weights come from.
    pub weighed: String,
    /// Hamming distance of the hashes.
    pub distance: u32,
    /// The bits that differ, weakest first.
    pub bits: Vec<DifferingBit>,
    /// Where psm comes upon the pair.
    pub psm: PsmTrace,
    /// Jaccard coefficient of the sets of features.
    pub jaccard: f64,
    /// How much of either page's set the other has.
    pub containment: [f64; 2],
    /// Cosine of the features' weights.
    pub cosine: f64,
    /// What each method says, under these settings.
    pub opinions: Vec<Opinion>,
    /// Words to delete and to insert on the way from one text to the other.
    pub edit_distance: u64,
    /// Words of both texts together, as far as they were compared.
    pub words: u64,
    /// Whether only the beginnings were compared.
    pub cut: bool,
    /// The way, long common runs shortened.
    pub diff: Vec<Run>,
}

/// Features that are named for a bit.
const NAMED: usize = 4;

/// Explains a pair. With inputs, `a` and `b` are ids, URLs, or numbers of documents there; without, they are files of
/// plain text.
///
/// # Errors
/// If the corpus or a file cannot be read, a setting has no meaning, or a page is not there or there twice.
pub fn explain(job: &Job, a: &str, b: &str, progress: &dyn Progress) -> Result<Explanation> {
    match job.inputs.is_empty() {
        true => of_files(&job.settings, [a, b]),
        false => job.with_threads(|| of_corpus(job, [a, b], progress))?,
    }
}

fn of_corpus(job: &Job, names: [&str; 2], progress: &dyn Progress) -> Result<Explanation> {
    let settings = &job.settings;
    let mut stages = Stages::new(progress);
    let prepared = prepare(job, true, Keeping::Features, &mut stages)?;
    let sketches = simhashes(&prepared, settings, &mut stages);
    let collection = &prepared.collection;
    let pair = [find(&prepared, names[0])?, find(&prepared, names[1])?];
    let shown = Shown::fetch(collection, &job.read_options(), pair.into_iter().collect())?;
    let none = Frequencies::new(settings.features);
    let frequencies = prepared.frequencies.as_ref().unwrap_or(&none);
    let rows = collection.documents.rows();
    let sides = pair.map(|document| {
        let (_, _, occurrences) = collection.terms_of(document);
        let mut counts: Vec<(u64, u32)> =
            collection.features_of(document).zip(occurrences.iter().map(|&n| u32::from(n))).collect();
        counts.sort_unstable();
        let row = &rows[document as usize];
        Side {
            id: prepared.id_of(document).into_owned(),
            url: collection.documents.url(document).unwrap_or_default().to_owned(),
            text: shown.text(document),
            text_bytes: row.text_bytes,
            digest: row.digest,
            counts,
        }
    });
    let weighed = match (&settings.frequencies, settings.weighting.needs_frequencies()) {
        (_, false) => format!("{}, which need no document frequencies", settings.weighting.name()),
        (Some(path), true) => {
            format!(
                "document frequencies of {} ({})",
                path.display(),
                counted(frequencies.documents(), "document", "documents")
            )
        }
        (None, true) => {
            format!("document frequencies of {} read", counted(frequencies.documents(), "page", "pages"))
        }
    };
    let index = Dialled::new(DistinctHashes::new(&sketches.hashes).hashes(), settings)?;
    let (sample, all_probes) = traced_sample(&sketches, settings, &mut stages)?;
    let joined = joins_exactly(settings);
    let budget = match settings.budget {
        None if settings.recall < 1.0 && !joined => sample.budget(settings.recall).budget,
        given => given,
    };
    let distinct = DistinctHashes::new(&sketches.hashes);
    let trace = |from: &SimHash, to: &SimHash| {
        let weights = QuantisedWeights::new(&from.weights).weights();
        let hits = index.trace(Query { hash: from.hash, weights: &weights });
        let found = hits.iter().find(|(hit, _)| distinct.hash(hit.slot) == to.hash);
        found.map(|&(_, probe)| probe).filter(|&probe| probe != NEVER)
    };
    explanation(settings, sides, frequencies, pair[0] < pair[1], weighed, |hashes| {
        Ok(PsmTrace {
            index: format!(
                "{}, over {} of the input",
                settings.index.name(),
                counted(distinct.len() as u64, "distinct hash", "distinct hashes")
            ),
            probes: [trace(&hashes[0], &hashes[1]), trace(&hashes[1], &hashes[0])],
            all_probes,
            budget,
            joined,
        })
    })
}

/// Two files of plain text, each a page.
fn of_files(settings: &Settings, paths: [&str; 2]) -> Result<Explanation> {
    settings.check()?;
    let mut texts = Vec::with_capacity(2);
    for path in paths {
        let bytes = fs::read(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let expected = "a file of plain text, as no INPUT is named; name the corpus to compare pages by id, URL or number";
                Error::parameter("page", path, expected)
            }
            _ => Error::io(path, e),
        })?;
        texts.push(String::from_utf8(bytes).map_err(|e| Error::Format {
            path: path.into(),
            field: "the text",
            expected: "UTF-8".to_owned(),
            got: format!("no UTF-8 at byte {}", e.utf8_error().valid_up_to()),
            advice: "convert it; without an INPUT, A and B are files of plain text",
        })?);
    }
    let frequencies = match &settings.frequencies {
        Some(path) => crate::frequencies::load(path, settings.features)?,
        None => Frequencies::new(settings.features),
    };
    let weighed = match (&settings.frequencies, settings.weighting.needs_frequencies()) {
        (_, false) => format!("{}, which need no document frequencies", settings.weighting.name()),
        (Some(path), true) => {
            format!("document frequencies of {} ({})", path.display(), counted(frequencies.documents(), "document", "documents"))
        }
        (None, true) => "no document frequencies: all features count as equally rare, so that weights are those of TF alone \
                         (sublinear), and distance and cosine are not those of any corpus; --frequencies FILE gives some"
            .to_owned(),
    };
    let mut extractor = FeatureExtractor::new(settings.features);
    let sides = [0, 1].map(|side| Side {
        id: paths[side].to_owned(),
        url: String::new(),
        text: &texts[side],
        text_bytes: texts[side].len() as u64,
        digest: text_digest(&texts[side]),
        counts: extractor.counts(&texts[side]),
    });
    explanation(settings, sides, &frequencies, true, weighed, |hashes| {
        // A key, and what is flipped in it, depends on the size of a corpus; without one, all bits are the key.
        let params = PsmParams {
            radius: settings.distance,
            reading: Reading::X { filter_bits: 0 },
            cost: settings.flip_cost,
            budget: Some(MOST_PROBES),
            ..PsmParams::default()
        };
        let mut all_probes = 0;
        let mut trace = |from: &SimHash, to: &SimHash| {
            let index = Psm::new(&[to.hash], params)?;
            all_probes = index.all_probes();
            let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
            let query = Query { hash: from.hash, weights: &from.weights };
            index.search_traced(query, Mode::All, &mut scratch, &mut hits);
            Ok::<_, Error>(hits.first().map(|&(_, probe)| probe))
        };
        let probes = [trace(&hashes[0], &hashes[1])?, trace(&hashes[1], &hashes[0])?];
        let index = format!(
            "all-bits: without a corpus, a probe is the place of the flips among all sets of at most {} flips in 64 bits, \
             likeliest first; {MOST_PROBES} at most are tried",
            settings.distance
        );
        Ok(PsmTrace { index, probes, all_probes, budget: None, joined: joins_exactly(settings) })
    })
}

/// Probes that two files are given to meet.
const MOST_PROBES: u32 = 1 << 18;

/// A page as it is compared.
struct Side<'a> {
    id: String,
    url: String,
    /// The text, or the beginning of it.
    text: &'a str,
    text_bytes: u64,
    digest: u128,
    /// Features with their numbers of occurrences, by hash.
    counts: Vec<(u64, u32)>,
}

/// Everything but the search; `in_order` tells whether the first page comes before the second.
fn explanation(
    settings: &Settings,
    sides: [Side<'_>; 2],
    frequencies: &Frequencies,
    in_order: bool,
    weights_from: String,
    trace: impl FnOnce(&[SimHash; 2]) -> Result<PsmTrace>,
) -> Result<Explanation> {
    let weigher = Weigher::new(settings.weighting);
    // A page that nobody has seen before is a document, too.
    let documents = frequencies.documents().max(1);
    let weights = [0, 1]
        .map(|side| features::weights(&sides[side].counts, &weigher, documents, |f| frequencies.get(f)));
    let hashes = [&weights[0], &weights[1]].map(|w| SimHasher::default().hash(w.iter().copied()));
    let d = distance(hashes[0].hash, hashes[1].hash);
    let overlap = features::overlap(&sides[0].counts, &sides[1].counts);
    let cosine = features::cosine(&weights[0], &weights[1]);
    let same_text = sides[0].digest == sides[1].digest;
    let quantised = [&hashes[0], &hashes[1]].map(|hash| QuantisedWeights::new(&hash.weights));
    let measured = |verify: Verify| match verify {
        _ if same_text => 1.0,
        Verify::None => 0.0,
        Verify::Weights => f64::from(quantised[0].cosine(&quantised[1])),
        Verify::Mismatch => f64::from(quantised[0].agreement(&quantised[1])),
        Verify::QueryMismatch => {
            let (query, stored) = if in_order { (1, 0) } else { (0, 1) };
            f64::from(quantised[query].agreement_with_hash(hashes[query].hash, hashes[stored].hash))
        }
        Verify::Jaccard => overlap.jaccard(),
        Verify::Containment => overlap.containment_of_a().max(overlap.containment_of_b()),
        Verify::Cosine => cosine,
    };
    let psm = trace(&hashes)?;
    let texts = [sides[0].text, sides[1].text];
    let diff = WordDiff::new(texts[0], texts[1], DiffParams::default());
    let whole = sides.iter().all(|side| side.text.len() as u64 == side.text_bytes);
    let opinions = match sides.iter().map(|side| side.counts.len()).min() {
        Some(fewest) if fewest < settings.min_features => vec![Opinion {
            by: "every method".to_owned(),
            near: same_text,
            why: format!(
                "a page of {} is compared by its exact text only (--min-features {}); the texts are {}",
                counted(fewest as u64, "distinct feature", "distinct features"),
                settings.min_features,
                if same_text { "the same" } else { "not the same" }
            ),
        }],
        _ => opinions(settings, d, &psm, &sides, overlap.jaccard(), same_text, measured)?,
    };
    Ok(Explanation {
        pages: [0, 1].map(|side: usize| Page {
            id: sides[side].id.clone(),
            url: sides[side].url.clone(),
            text_bytes: sides[side].text_bytes,
            features: sides[side].counts.len() as u64,
            hash: hashes[side].hash,
        }),
        same_text,
        weighed: format!("{}; weights from {weights_from}", settings.features),
        distance: d,
        bits: differing_bits(settings, &hashes, &weights, &feature_names(settings.features, texts)),
        psm,
        jaccard: overlap.jaccard(),
        containment: [overlap.containment_of_a(), overlap.containment_of_b()],
        cosine,
        opinions,
        edit_distance: diff.distance,
        words: diff.words.0 + diff.words.1,
        cut: diff.cut || !whole,
        diff: diff.shortened(6),
    })
}

/// The document of this id, URL or number.
fn find(prepared: &super::Prepared, name: &str) -> Result<u32> {
    let collection = &prepared.collection;
    let all = 0..collection.documents.len() as u32;
    let by_name: Vec<u32> = all
        .clone()
        .filter(|&document| {
            collection.documents.url(document) == Some(name) || prepared.id_of(document) == name
        })
        .collect();
    match (&by_name[..], name.parse::<u32>()) {
        (&[document], _) => Ok(document),
        ([], Ok(number)) if all.contains(&number) => Ok(number),
        ([], _) => Err(Error::parameter(
            "page",
            name,
            "the id or URL of a page of the input, or its number, counted from 0",
        )),
        (several, _) => {
            let ids: Vec<String> = several.iter().take(5).map(|&d| prepared.id_of(d).into_owned()).collect();
            let expected = format!("one page; {} have this name, such as {}", several.len(), ids.join(", "));
            Err(Error::parameter("page", name, expected))
        }
    }
}

/// The words behind feature hashes.
fn feature_names(kind: FeatureKind, texts: [&str; 2]) -> HashMap<u64, String> {
    let (mut extractor, mut tokenizer) = (FeatureExtractor::new(kind), Tokenizer::default());
    let mut names = HashMap::new();
    let mut name = |name: String| {
        if let [(feature, _)] = extractor.counts(&name)[..] {
            names.entry(feature).or_insert(name);
        }
    };
    for text in texts {
        let tokens = tokenizer.words(text);
        match kind {
            FeatureKind::Words => {
                // Scripts without spaces: a feature is two characters that follow each other.
                for pair in tokens.windows(2).filter(|pair| !pair.iter().any(|token| token.is_ascii())) {
                    name(pair.concat());
                }
                tokens.into_iter().for_each(&mut name);
            }
            FeatureKind::Shingles(w) => tokens.windows(w).for_each(|run| name(run.join(" "))),
        }
    }
    names
}

fn differing_bits(
    settings: &Settings,
    hashes: &[SimHash; 2],
    weights: &[Vec<(u64, i64)>; 2],
    names: &HashMap<u64, String>,
) -> Vec<DifferingBit> {
    let norms = [&weights[0], &weights[1]]
        .map(|w| w.iter().map(|&(_, n)| n as f64 * n as f64).sum::<f64>().sqrt().max(f64::MIN_POSITIVE));
    // What a feature adds to page a's unit vector beyond what it adds to page b's.
    let mut parting: HashMap<u64, f64> = HashMap::new();
    for (side, sign) in [(0, 1.0), (1, -1.0)] {
        for &(feature, weight) in &weights[side] {
            *parting.entry(feature).or_default() += sign * weight as f64 / norms[side];
        }
    }
    let ranks = [&hashes[0], &hashes[1]].map(|hash| {
        let mut ranks = [0usize; 64];
        let volatility = Volatility::new(&hash.weights, u64::MAX, settings.flip_cost);
        volatility.bits().iter().zip(1..).for_each(|(&bit, rank)| ranks[usize::from(bit)] = rank);
        ranks
    });
    let differ = hashes[0].hash ^ hashes[1].hash;
    let mut bits: Vec<DifferingBit> = (0..64u32)
        .filter(|bit| differ >> bit & 1 == 1)
        .map(|bit| {
            let mut pushed: Vec<(u64, f64)> = parting
                .iter()
                .map(|(&feature, &by)| (feature, if feature >> bit & 1 == 1 { by } else { -by }))
                .collect();
            pushed.sort_unstable_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
            let name = |feature| names.get(&feature).cloned().unwrap_or_else(|| format!("#{feature:016x}"));
            let j = bit as usize;
            DifferingBit {
                bit,
                weights: [hashes[0].weights[j], hashes[1].weights[j]],
                ranks: [ranks[0][j], ranks[1][j]],
                pushed_by: pushed.iter().take(NAMED).map(|&(feature, by)| (name(feature), by)).collect(),
            }
        })
        .collect();
    bits.sort_unstable_by_key(|bit| (bit.ranks[0].min(bit.ranks[1]), bit.bit));
    bits
}

fn opinions(
    settings: &Settings,
    d: u32,
    psm: &PsmTrace,
    sides: &[Side<'_>; 2],
    jaccard: f64,
    same_text: bool,
    measured: impl Fn(Verify) -> f64,
) -> Result<Vec<Opinion>> {
    let mut all = Vec::new();
    if same_text {
        let why = "the texts are the same, byte for byte, which every method finds first; what follows holds all the same";
        all.push(Opinion { by: "every method".to_owned(), near: true, why: why.to_owned() });
    }
    let h = settings.distance;
    let near = d <= h;
    let otherwise = if !near {
        format!("a distance of {d} or more would take it in")
    } else if d == 0 {
        "no distance leaves it out".to_owned()
    } else {
        format!("a distance of {} or less would leave it out", d - 1)
    };
    let why = format!("{d} of 64 bits differ, and {h} may; {otherwise}");
    let (found, reached) = match (near, psm.probes.into_iter().flatten().min(), psm.budget) {
        (false, ..) => (why.clone(), false),
        (true, ..) if psm.joined => {
            (format!("{why}; all hashes are joined at this distance, so that no pair is missed"), true)
        }
        (true, Some(0), _) => (format!("{why}; equal hashes are found without a probe"), true),
        (true, Some(probe), None) => (
            format!(
                "{why}; fewer than {} a page would miss it",
                counted(u64::from(probe), "probe", "probes")
            ),
            true,
        ),
        (true, Some(probe), Some(budget)) if probe <= budget => (
            format!(
                "{why}; {} made for a page, and fewer than {probe} would miss it",
                counted(u64::from(budget), "probe is", "probes are")
            ),
            true,
        ),
        (true, Some(probe), Some(budget)) => (
            format!(
                "{why}; but only {} made for a page, and it takes {probe}",
                counted(u64::from(budget), "probe is", "probes are")
            ),
            false,
        ),
        (true, None, _) => (format!("{why}; but no probe that was tried comes upon it"), false),
    };
    all.push(Opinion { by: Method::Psm.name().to_owned(), near: reached, why: found });
    all.push(Opinion { by: Method::Bphs.name().to_owned(), near, why });
    let m = settings.permutations;
    let hasher =
        MinHasher::new(MinHashParams { permutations: m, family: settings.family, seed: settings.seed })?;
    let signatures = [&sides[0].counts, &sides[1].counts].map(|counts| {
        let features: Vec<u64> = counts.iter().map(|&(feature, _)| feature).collect();
        let mut signature = vec![0u32; m];
        hasher.sign(&features, &mut signature);
        signature
    });
    let equal = signatures[0].iter().zip(&signatures[1]).filter(|(a, b)| a == b).count();
    let banding = match settings.bands {
        Some((bands, rows)) => Banding { bands, rows },
        None => Banding::choose(m, settings.similarity, settings.recall)?,
    };
    let shared = (0..banding.bands)
        .filter(|band| {
            let range = band * banding.rows..(band + 1) * banding.rows;
            signatures[0][range.clone()] == signatures[1][range]
        })
        .count();
    let estimate = equal as f64 / m as f64;
    all.push(Opinion {
        by: Method::Minhash.name().to_owned(),
        near: shared > 0 && estimate >= settings.similarity,
        why: format!(
            "equal are {shared} of {} and {equal} of {}: estimated {estimate:.3}, counted {jaccard:.3}, and \
             {} is needed; a similarity of {estimate:.3} or less takes it in, if a band is equal",
            counted(banding.bands as u64, "band", "bands"),
            counted(m as u64, "position", "positions"),
            settings.similarity
        ),
    });
    for verify in Verify::ALL.into_iter().filter(|&verify| verify != Verify::None) {
        let value = measured(verify);
        let threshold =
            if verify == settings.verify { settings.passing() } else { verify.default_threshold() };
        all.push(Opinion {
            by: format!("verify {}", verify.name()),
            near: value >= threshold,
            why: format!(
                "{}: {value:.3}, and {threshold} is needed; a threshold of {value:.3} or less lets it pass",
                verify.meaning()
            ),
        });
    }
    Ok(all)
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Pages are not to give orders to a terminal.
        let plain = |text: &str| text.chars().map(visible).collect::<String>();
        for (name, page) in ["a", "b"].into_iter().zip(&self.pages) {
            writeln!(f, "{name}: {} {}", plain(&page.id), plain(&page.url))?;
            writeln!(
                f,
                "   {}, {}, SimHash {:016x}",
                counted(page.text_bytes, "byte", "bytes"),
                counted(page.features, "feature", "features"),
                page.hash
            )?;
        }
        writeln!(f, "features: {}", self.weighed)?;
        if self.same_text {
            writeln!(f, "The texts are the same, byte for byte.")?;
        }
        let [ab, ba] = self.containment;
        writeln!(
            f,
            "\nJaccard {:.4}; {:.4} of a is in b, {:.4} of b in a; cosine {:.4}",
            self.jaccard, ab, ba, self.cosine
        )?;
        let probe =
            |probe: Option<u32>| probe.map_or_else(|| "at no probe".to_owned(), |p| format!("at probe {p}"));
        writeln!(f, "distance {}", self.distance)?;
        let PsmTrace { index, probes, all_probes, budget, joined } = &self.psm;
        let makes = match (joined, budget) {
            (true, _) => "dedup joins all hashes instead".to_owned(),
            (false, None) => "this one all of them".to_owned(),
            (false, Some(budget)) => format!("this one {budget}"),
        };
        writeln!(
            f,
            "psm comes upon b from a {}, upon a from b {}; an exhaustive search makes {}, {makes}\n    \
             (index {index})",
            probe(probes[0]),
            probe(probes[1]),
            counted(*all_probes, "probe", "probes")
        )?;
        if !self.bits.is_empty() {
            writeln!(f, "\nbit  weight in a  rank  weight in b  rank  pushed apart by")?;
        }
        for bit in &self.bits {
            let pushed: Vec<String> =
                bit.pushed_by.iter().map(|(name, by)| format!("{} ({by:+.3})", plain(name))).collect();
            let ([wa, wb], [ra, rb]) = (bit.weights, bit.ranks);
            writeln!(f, "{:>3}  {wa:>11.4}  {ra:>4}  {wb:>11.4}  {rb:>4}  {}", bit.bit, pushed.join(", "))?;
        }
        writeln!(f)?;
        for opinion in &self.opinions {
            let verdict = if opinion.near { "near" } else { "not near" };
            writeln!(f, "{:<22} {verdict:<9} {}", opinion.by, opinion.why)?;
        }
        let cut = if self.cut { " (of the beginnings; these texts are long)" } else { "" };
        writeln!(
            f,
            "\nedit distance: {} deleted or inserted, of {}{cut}; - is a's, + is b's",
            counted(self.edit_distance, "word", "words"),
            self.words
        )?;
        for run in &self.diff {
            let sign = match run.change {
                Change::Same => " ",
                Change::Deleted => "-",
                Change::Inserted => "+",
            };
            writeln!(f, "{sign} {}", plain(&run.text.split_whitespace().collect::<Vec<_>>().join(" ")))?;
        }
        Ok(())
    }
}
