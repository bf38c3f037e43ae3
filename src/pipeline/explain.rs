//! Why two documents, `a` and `b`, are near-duplicates or not by each method. The figures are computed here;
//! [`explanation`] has the words. In arrays of two, `a` comes first; a *side* is the place in them, 0 or 1.
//!
//! [`explanation`]: crate::report::explanation

use super::documents::ReadDocuments;
use super::samples::Shown;
use super::stages::{Progress, Silent, Stages};
use super::{Against, Job, all_inputs, grouped, read_files};
use crate::boilerplate::{Grouped, OwnText};
use crate::calibrate::NEVER;
use crate::error::{Error, Result};
use crate::evaluate::diff::{Alignment, shortened};
use crate::features;
use crate::frequencies;
use crate::report::explanation::{
    BOTH, Banded, Both, DifferingBit, ExplainedDocument, Explanation, Methods, PairFigures, PsmTrace,
    index_of_two, index_over, opinion_of_text, opinions, weighed_by, weights_from,
};
use crate::search::psm::{FlippedBits, Psm, PsmParams};
use crate::search::{Probing, Query};
use crate::simhash::hasher::SimHasher;
use crate::simhash::volatility::{FlipCost, Volatility};
use crate::simhash::{SimHash, distance};
use crate::text::{Difference, Extraction, FeatureExtractor, FeatureKind, Tokenizer};
use crate::weight::Weigher;
use crate::weight::frequencies::Frequencies;
use hashbrown::HashMap;
use simflip_core::collection::Keeping;
use simflip_core::dedup::{Context, Prepared};
use simflip_core::edits;
use simflip_core::id::{Document, Id};
use simflip_core::internal::{Hashes, Probed};
use simflip_core::jaccard::SetBits;
use simflip_core::settings::{Measure, Recall, Settings};
use simflip_core::similarity::{Anchor, ComparedDocument as Shows};
use simflip_core::sketch::{Facts, Hashed, TwoSketcher, TwoSketches};
use std::fs;
use std::path::Path;

/// Features that are named for a bit.
const NAMED: usize = 4;

/// Explains why `a` and `b` are near-duplicates or not, by the settings of `methods`; those of the job are ignored. If
/// the job has inputs, `a` and `b` are ids, URLs, or numbers of documents there, counted from 0. If it has none, they
/// are paths of files of plain text.
///
/// # Errors
/// If the corpus or a file cannot be read, a setting has no meaning, or no document or several have a name.
pub fn explain(
    job: &Job,
    methods: &Methods,
    a: &str,
    b: &str,
    progress: &dyn Progress,
) -> Result<Explanation> {
    check(methods)?;
    match job.inputs.is_empty() {
        true => of_files(job, methods, [a, b]),
        false => job.with_threads(|| of_corpus(job, methods, [a, b], progress))?,
    }
}

fn check(methods: &Methods) -> Result<()> {
    [&methods.both, &methods.simhash, &methods.probing, &methods.minhash]
        .into_iter()
        .try_for_each(Settings::check)
        .map_err(Error::from)
}

fn of_corpus(job: &Job, methods: &Methods, names: [&str; 2], progress: &dyn Progress) -> Result<Explanation> {
    let settings = &methods.probing;
    let stages = Stages::new(progress);
    let files = all_inputs(job)?;
    let (read, frequencies, boilerplate) =
        read_files(job, settings, Some(Keeping::Features), Some(files.clone()), &stages)?;
    let prepared = Prepared::new(&read.collection, settings, frequencies, &stages);
    let pair = [find(&read, names[0])?, find(&read, names[1])?];
    let options = grouped(job.read_options(), boilerplate.as_ref().map(|boilerplate| &boilerplate.by));
    let shown = Shown::fetch(&read.inputs, &options, Shown::of(&read, pair));
    if let Some(&gone) = pair.iter().find(|&&document| !shown.holds(document)) {
        let expected = "a document that can be read again; was its file changed during the run?";
        return Err(Error::parameter("document", read.named(gone).shown_name(), expected));
    }
    let none = Frequencies::new(settings.extraction());
    let frequencies = prepared.frequencies().map_or(&none, |known| known);
    let own_text = pair.map(|document| {
        let input = &read.inputs[read.shard_of(document)].path;
        let said = Grouped { url: read.url(document), group: shown.group(document) };
        OwnText::new(boilerplate.as_ref(), input, said, shown.text(document))
    });
    let sides = [0, 1].map(|side| {
        let (document, own_text) = (pair[side], &own_text[side]);
        let mut counts: Vec<(u64, u32)> =
            read.collection.counted(document).iter().flat_map(|counted| counted.counts()).collect();
        counts.sort_unstable();
        ComparedDocument {
            id: read.id_of(document).into_owned(),
            url: read.url(document).unwrap_or_default().to_owned(),
            text: &own_text.own,
            boilerplate: &own_text.boilerplate,
            is_whole: own_text.len() as u64 == read.collection.facts(document).text_bytes,
            facts: read.collection.facts(document),
            counts,
        }
    });
    let weighting = methods.weighting();
    let weighed = weights_from(weighting, job.frequencies.as_deref(), frequencies.documents(), true);
    let evidence = prepared.evidence(settings);
    let hashes = Hashes::new(&evidence, &stages);
    let index = Probed::new(hashes.hashes(), &settings.generator)?;
    let budget = match settings.generator.recall() {
        Some(Recall::Probes(probes)) => Some(probes),
        Some(Recall::AtLeast(recall)) => index.sample(&hashes, settings.seed, &stages).budget(recall).budget,
        _ => None,
    };
    let trace = |from: &SimHash, to: &SimHash| {
        // As the search sees them: rounded.
        let weights = Hashed::from(from).weights.weights();
        let hits = index.trace(hashes.hashes(), Query { hash: from.hash, weights: &weights });
        let found = hits.iter().find(|(hit, _)| hashes.hashes()[hit.slot.index()] == to.hash);
        found.map(|&(_, probe)| probe).filter(|&probe| probe != NEVER)
    };
    let mut explanation = explanation(methods, sides, frequencies, weighed, |pair| {
        Ok(PsmTrace {
            index: index_over(&settings.generator, hashes.hashes().len() as u64),
            probes: [trace(&pair[0], &pair[1]), trace(&pair[1], &pair[0])],
            all_probes: index.all_probes(),
            budget,
        })
    })?;
    if explanation.is_candidate() {
        let others = removed_for_others(job, &methods.both, files, pair)?;
        explanation.removed_for(others.map(|other| Some(read.id_of(other?).into_owned())));
    }
    Ok(explanation)
}

/// For either document of a pair, the kept one that a run with `settings` removes it for. It is none if the document is
/// kept, or removed for the other of the pair. The input is read once more, for its sketches.
fn removed_for_others(
    job: &Job,
    settings: &Settings,
    files: Against,
    pair: [Document; 2],
) -> Result<[Option<Document>; 2]> {
    // Corruption and odd input were reported when it was first read.
    let stages = Stages::new(&Silent);
    let (read, frequencies, _) = read_files(job, settings, None, Some(files), &stages)?;
    let prepared = Prepared::new(&read.collection, settings, frequencies, &stages);
    let url = |document| read.url(document);
    let outcome = prepared.find(settings, &Context::new(&url, &stages))?.outcome()?;
    let kept_for = |document: Document| {
        let of = |(members, _): &(&[Document], _)| members.binary_search(&document).is_ok();
        outcome.clusters().zip(&outcome.representatives).find(of).map(|(_, &kept)| kept)
    };
    Ok(pair.map(|document| kept_for(document).filter(|kept| !pair.contains(kept))))
}

/// Explains two files of plain text, each a document.
fn of_files(job: &Job, methods: &Methods, paths: [&str; 2]) -> Result<Explanation> {
    let mut texts = Vec::with_capacity(2);
    for path in paths {
        let bytes = fs::read(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let expected = "a file of plain text, as no INPUT is named; name the corpus to compare documents by id, URL or number";
                Error::parameter("document", path, expected)
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
    explain_texts(job.frequencies.as_deref(), methods, paths, [&texts[0], &texts[1]])
}

/// Explains why two texts are near-duplicates or not, by the settings of `methods`. `names` are their ids in the
/// explanation. `known` is a file of document frequencies; with `None`, all features are equally rare.
///
/// # Errors
/// If that file cannot be read or is of other features, or a setting has no meaning.
pub fn explain_texts(
    known: Option<&Path>,
    methods: &Methods,
    names: [&str; 2],
    texts: [&str; 2],
) -> Result<Explanation> {
    check(methods)?;
    let (settings, from) = (&methods.probing, known);
    let known = match known {
        Some(path) => frequencies::load(path, settings.extraction())?,
        None => Frequencies::new(settings.extraction()),
    };
    let weighting = methods.weighting();
    let weighed = weights_from(weighting, from, known.documents(), false);
    let mut extractor = FeatureExtractor::new(settings.extraction());
    let sides = [0, 1].map(|side| {
        let counts = extractor.counts(texts[side]);
        ComparedDocument {
            id: names[side].to_owned(),
            url: String::new(),
            text: texts[side],
            boilerplate: &[],
            is_whole: true,
            facts: Facts::new(texts[side], counts.len()),
            counts,
        }
    });
    let radius = settings.generator.distance().unwrap_or_default();
    explanation(methods, sides, &known, weighed, |hashes| {
        // A key, and what is flipped in it, depends on the size of a corpus; without one, all bits are the
        // key.
        let of_all_bits = Psm::new(
            &[],
            PsmParams { radius, flipped_bits: FlippedBits::All { filter_bits: 0 }, ..PsmParams::default() },
        )?;
        let differing = hashes[0].hash ^ hashes[1].hash;
        let probes = [0, 1].map(|side| of_all_bits.probe_of(differing, &hashes[side].weights, MOST_PROBES));
        let all_probes = of_all_bits.all_probes();
        let index = index_of_two(radius, MOST_PROBES);
        Ok(PsmTrace { index, probes, all_probes, budget: None })
    })
}

/// Probes after which the search for one of two files from the other gives up.
const MOST_PROBES: u32 = 1 << 18;

/// A document as it is compared.
struct ComparedDocument<'a> {
    id: String,
    url: String,
    /// The text without its boilerplate, or the beginning of it.
    text: &'a str,
    /// The boilerplate: runs of lines, each with the byte of `text` before which it stood.
    boilerplate: &'a [(usize, String)],
    /// True if `text` and `boilerplate` are all of the document.
    is_whole: bool,
    facts: Facts,
    /// Features with their numbers of occurrences, by hash.
    counts: Vec<(u64, u32)>,
}

/// A document by the figures that measures of similarity compare.
#[derive(Clone, Copy)]
struct Weighed<'a> {
    digest: u128,
    hashed: Hashed,
    bits: &'a [u64],
    weights: &'a [(u64, i64)],
}

impl Shows for &Weighed<'_> {
    fn digest(&self) -> u128 {
        self.digest
    }

    fn hashed(&self) -> Option<&Hashed> {
        Some(&self.hashed)
    }

    fn bits(&self) -> Option<SetBits<'_>> {
        Some(SetBits::by_size(self.bits, self.size()))
    }

    fn size(&self) -> u32 {
        self.weights.len() as u32
    }

    fn features(&self, mut each: impl FnMut(u64, i64)) {
        self.weights.iter().for_each(|&(feature, weight)| each(feature, weight));
    }
}

/// Makes the explanation of two documents. `trace` gets their SimHashes and says at which probe PSM finds each from the
/// other; all else is computed here. `weights_from` says in words where the weights of features come from.
fn explanation(
    methods: &Methods,
    sides: [ComparedDocument<'_>; 2],
    frequencies: &Frequencies,
    weights_from: String,
    trace: impl FnOnce(&[SimHash; 2]) -> Result<PsmTrace>,
) -> Result<Explanation> {
    let settings = &methods.simhash;
    let weigher = Weigher::new(methods.weighting());
    // A document that nobody has seen before is a document, too.
    let documents = frequencies.documents().max(1);
    let weights = [0, 1].map(|side| weigher.weights(&sides[side].counts, documents, |f| frequencies.get(f)));
    let hashes = [&weights[0], &weights[1]].map(|w| SimHasher::default().hash(w.iter().copied()));
    let d = distance(hashes[0].hash, hashes[1].hash);
    let overlap = features::overlap(&sides[0].counts, &sides[1].counts);
    let same_text = sides[0].facts.digest == sides[1].facts.digest;
    let (mut both, mut minhash) = (TwoSketcher::new(&methods.both)?, TwoSketcher::new(&methods.minhash)?);
    // MinHash may know features by another hash than SimHash.
    let features = |side: usize, method: &Settings| -> Vec<u64> {
        let ComparedDocument { counts, text, .. } = &sides[side];
        let distinct = |counts: &[(u64, u32)]| counts.iter().map(|&(feature, _)| feature).collect();
        match method.extraction() {
            extraction if extraction == methods.probing.extraction() => distinct(counts),
            extraction => distinct(&FeatureExtractor::new(extraction).counts(text)),
        }
    };
    // Both sketches may be of other features than the other methods, and then have sizes and weights of their own.
    let own_counts = (methods.both.features != methods.probing.features).then(|| {
        [0, 1].map(|side| FeatureExtractor::new(methods.both.extraction()).counts(sides[side].text))
    });
    let own_weights = own_counts.as_ref().map(|own| {
        own.each_ref().map(|counts| weigher.weights(counts, documents, |feature| frequencies.get(feature)))
    });
    let sketches = [0, 1].map(|side| both.sketch(&features(side, &methods.both)));
    let signed = [0, 1].map(|side| minhash.sketch(&features(side, &methods.minhash)));
    let [weighed, of_both] = [&weights, own_weights.as_ref().unwrap_or(&weights)].map(|weights| {
        [0, 1].map(|side| Weighed {
            digest: sides[side].facts.digest,
            hashed: Hashed::from(&hashes[side]),
            bits: &sketches[side].bits,
            weights: &weights[side],
        })
    });
    let measure = |[a, b]: &[Weighed<'_>; 2], measure| f64::from(Anchor::new(measure, a).with(&b));
    let measured = |by: Measure| match by {
        Measure::Edits => f64::from(edits::similarity(sides[0].text, sides[1].text)),
        _ => measure(if by.is_estimated() { &of_both } else { &weighed }, by),
    };
    let keys = sketches[0].keys.iter().zip(&sketches[1].keys);
    let both = Both {
        features: own_counts.is_some().then_some(methods.both.features),
        keys: keys.len(),
        equal_keys: keys.filter(|(a, b)| a == b).count(),
        similarity: methods.both.verification.measure().map_or(0.0, |by| measure(&of_both, by)),
    };
    let psm = trace(&hashes)?;
    let texts = [sides[0].text, sides[1].text];
    let diff = Alignment::new(texts[0], texts[1]);
    // Methods differ in how few features they still compare by.
    let fewest = sides.iter().map(|side| side.counts.len()).min().unwrap_or(0);
    let by_text = |by, method: &Settings| opinion_of_text(by, fewest, method.min_features, same_text);
    let figures = PairFigures {
        distance: d,
        psm: &psm,
        both,
        banded: banded(&signed),
        jaccard: overlap.jaccard(),
        same_text,
    };
    let mut opinions = opinions(methods, &figures, measured);
    if fewest < methods.both.min_features {
        opinions = vec![by_text("every method", &methods.both)];
    } else if fewest < settings.min_features {
        opinions.retain(|opinion| [BOTH, "every method"].contains(&&*opinion.by));
        opinions.push(by_text("every other method", settings));
    }
    Ok(Explanation {
        documents: [0, 1].map(|side: usize| ExplainedDocument {
            id: sides[side].id.clone(),
            url: sides[side].url.clone(),
            text_bytes: sides[side].facts.text_bytes,
            features: sides[side].counts.len() as u64,
            hash: hashes[side].hash,
        }),
        same_text,
        differ_only_in: Difference::between(texts[0], texts[1]),
        weighed: weighed_by(settings.features, &weights_from),
        distance: d,
        bits: differing_bits(&hashes, &weights, &feature_names(settings.extraction(), texts)),
        psm,
        jaccard: overlap.jaccard(),
        containment: [overlap.containment_of_a(), overlap.containment_of_b()],
        cosine: features::cosine(&weights[0], &weights[1]),
        opinions,
        edit_distance: diff.distance,
        words: diff.words.0 + diff.words.1,
        cut: diff.cut || !sides.iter().all(|side| side.is_whole),
        diff: shortened(&diff.runs(texts[0], texts[1]), 6),
        boilerplate: [0, 1].map(|side: usize| {
            let runs = sides[side].boilerplate.iter().flat_map(|(_, boilerplate)| boilerplate.lines());
            runs.map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }),
    })
}

/// The document with this id or URL; if none has it, the document with this number, counted from 0.
fn find(read: &ReadDocuments, name: &str) -> Result<Document> {
    let named = |&document: &Document| read.url(document) == Some(name) || read.id_of(document) == name;
    let by_name: Vec<Document> = Document::all(read.len()).filter(named).collect();
    match (&by_name[..], name.parse::<u32>()) {
        (&[document], _) => Ok(document),
        ([], Ok(number)) if (number as usize) < read.len() => Ok(Document(number)),
        ([], _) => Err(Error::parameter(
            "document",
            name,
            "the id or URL of a document of the input, or its number, counted from 0",
        )),
        (several, _) => {
            let ids: Vec<String> = several.iter().take(5).map(|&d| read.id_of(d).into_owned()).collect();
            let expected =
                format!("one document; {} have this name, such as {}", several.len(), ids.join(", "));
            Err(Error::parameter("document", name, expected))
        }
    }
}

/// For hashes of the texts' features, the words or characters that these are made of.
fn feature_names(extraction: Extraction, texts: [&str; 2]) -> HashMap<u64, String> {
    let (mut extractor, mut tokenizer) = (FeatureExtractor::new(extraction), Tokenizer::default());
    let mut names = HashMap::new();
    let mut name = |name: String| {
        if let [(feature, _)] = extractor.counts(&name)[..] {
            names.entry(feature).or_insert(name);
        }
    };
    for text in texts {
        let tokens = tokenizer.words(text);
        match extraction.kind {
            FeatureKind::Words => {
                // Scripts without spaces: a feature is two characters that follow each other.
                for pair in tokens.windows(2).filter(|pair| !pair.iter().any(|token| token.is_ascii())) {
                    name(pair.concat());
                }
                tokens.into_iter().for_each(&mut name);
            }
            FeatureKind::Shingles(w) => tokens.windows(w).for_each(|run| name(run.join(" "))),
            // A run that begins or ends with a blank gets no name: as a text by itself it is cut without it.
            FeatureKind::Characters(n) => {
                let characters: Vec<char> = tokens.join(" ").chars().collect();
                characters.windows(n).for_each(|run| name(run.iter().collect()));
            }
        }
    }
    names
}

fn differing_bits(
    hashes: &[SimHash; 2],
    weights: &[Vec<(u64, i64)>; 2],
    names: &HashMap<u64, String>,
) -> Vec<DifferingBit> {
    let norms = [&weights[0], &weights[1]]
        .map(|w| w.iter().map(|&(_, n)| n as f64 * n as f64).sum::<f64>().sqrt().max(f64::MIN_POSITIVE));
    // What a feature adds to document a's unit vector beyond what it adds to document b's.
    let mut parting: HashMap<u64, f64> = HashMap::new();
    for (side, sign) in [(0, 1.0), (1, -1.0)] {
        for &(feature, weight) in &weights[side] {
            *parting.entry(feature).or_default() += sign * weight as f64 / norms[side];
        }
    }
    let ranks = [&hashes[0], &hashes[1]].map(|hash| {
        let mut ranks = [0usize; 64];
        let volatility = Volatility::new(&hash.weights, u64::MAX, FlipCost::Abs);
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

/// The numbers of equal bands and equal positions of two MinHash signatures.
fn banded([a, b]: &[TwoSketches; 2]) -> Banded {
    Banded {
        shared: a.keys.iter().zip(&b.keys).filter(|(a, b)| a == b).count(),
        bands: a.keys.len(),
        equal: a.signature().zip(b.signature()).filter(|(a, b)| a == b).count(),
        positions: a.signature().count(),
    }
}
