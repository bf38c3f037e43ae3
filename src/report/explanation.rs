//! The explanation of why two documents, `a` and `b`, are near-duplicates or not: figures and words. In arrays of two,
//! `a` comes first. `pipeline::explain` computes the figures.
//!
//! PSM is the search of Sood & Loguinov: its probes flip bits of low margin first. BPHS are block-permuted tables.

use super::messages::{index_name, meaning};
use crate::display::{counted, visible};
use crate::evaluate::diff::{Change, WordRun};
use crate::text::{Difference, FeatureKind};
use crate::weight::Weighting;
use serde::Serialize;
use simflip_core::settings::{Generator, Measure, Settings, Sketches, USUAL_SIMILARITY, Verification};
use std::path::Path;

/// The settings of each method by which a pair is explained.
#[derive(Clone, Debug)]
pub struct Methods {
    /// Both sketches, the default method: odd sketches that band hashes find.
    pub both: Settings,
    /// SimHash, with an exact join or a generator that probes.
    pub simhash: Settings,
    /// SimHash, with a generator that probes; the probes that find the pair are traced.
    pub probing: Settings,
    /// MinHash signatures with bands.
    pub minhash: Settings,
}

impl Methods {
    /// The weights of features in SimHashes.
    pub fn weighting(&self) -> Weighting {
        match self.simhash.sketches {
            Sketches::SimHash { weighting } => weighting,
            _ => Weighting::default(),
        }
    }
}

/// One of the two documents, by its figures.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedDocument {
    /// Its id in results.
    pub id: String,
    /// Its URL, or an empty string.
    pub url: String,
    /// Bytes of its text, boilerplate included.
    pub text_bytes: u64,
    /// Number of its distinct features, of the kind that [`Explanation::weighed`] names.
    pub features: u64,
    /// Its SimHash, in hexadecimal digits: many readers of JSON round whole numbers of 64 bits.
    #[serde(serialize_with = "hexadecimal")]
    pub hash: u64,
}

fn hexadecimal<S: serde::Serializer>(hash: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{hash:016x}"))
}

/// A bit in which the two SimHashes differ.
#[derive(Clone, Debug, Serialize)]
pub struct DifferingBit {
    /// Its number, 0 for the least significant.
    pub bit: u32,
    /// The weighted sum behind it in either document; its sign is the bit, and its size the margin.
    pub weights: [f32; 2],
    /// Its rank by margin in either document, from 1 for the lowest margin to 64.
    pub ranks: [usize; 2],
    /// At most four features by which the two sums differ most, each with what it adds to (sum of a − sum of b). The
    /// weights of either document are scaled to length 1. A feature without a name is its hash behind `#`.
    pub pushed_by: Vec<(String, f64)>,
}

/// The opinion of one method, or by one measure of verification, on the pair.
#[derive(Clone, Debug, Serialize)]
pub struct Opinion {
    /// The method, such as `psm`, or the measure of verification, such as `verify jaccard`.
    pub by: String,
    /// True if the two are near-duplicates by it; a method must also find the pair.
    pub near: bool,
    /// The reason, and the setting from which on it would be otherwise.
    pub why: String,
}

/// The probes by which PSM finds the pair. Probes of a query are numbered in the order in which they are made.
#[derive(Clone, Debug, Serialize)]
pub struct PsmTrace {
    /// The index and the number of hashes in it, in words. Without a corpus, the numbering of probes.
    pub index: String,
    /// The number, from 1, of the probe by which a query with `a` finds `b`; then that by which `b` finds `a`. 0 means
    /// that equal hashes need no probe. None if no probe that was tried finds it, or the two are not within the
    /// distance.
    pub probes: [Option<u32>; 2],
    /// Probes of a query in an exhaustive search.
    pub all_probes: u64,
    /// Probes of a query with these settings; none if it makes all, and without a corpus.
    pub budget: Option<u32>,
}

/// The explanation of two documents: their figures, the opinion of each method, and the difference of their texts.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The two documents.
    pub documents: [ExplainedDocument; 2],
    /// True if the texts are the same, byte for byte.
    pub same_text: bool,
    /// The one kind of difference between the texts, if readers overlook it, such as accents; otherwise none.
    pub differ_only_in: Option<Difference>,
    /// The kind of features, and the source of their weights, in words.
    pub weighed: String,
    /// Hamming distance of the SimHashes in bits.
    pub distance: u32,
    /// The bits that differ, those of the lowest margin first.
    pub bits: Vec<DifferingBit>,
    /// The probes by which PSM finds the pair.
    pub psm: PsmTrace,
    /// Jaccard similarity of the sets of features, counted.
    pub jaccard: f64,
    /// The share of the features of `a` that `b` has, and of those of `b` that `a` has.
    pub containment: [f64; 2],
    /// Cosine similarity of the weights of features.
    pub cosine: f64,
    /// The opinion of each method with these settings.
    pub opinions: Vec<Opinion>,
    /// Number of words to delete and to insert to make one text of the other.
    pub edit_distance: u64,
    /// Number of words of both texts together, as far as they were compared.
    pub words: u64,
    /// True if only the beginnings of the texts were compared word by word.
    pub cut: bool,
    /// The words that both texts have, and those to delete and insert, in order; long common runs are shortened.
    pub diff: Vec<WordRun>,
    /// The lines of either document that are boilerplate. Only `same_text` and [`ExplainedDocument::text_bytes`] take
    /// them in.
    pub boilerplate: [Vec<String>; 2],
}

/// The numbers of bands and of values in which two MinHash signatures agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Banded {
    /// Number of equal bands.
    pub shared: usize,
    /// Number of all bands.
    pub bands: usize,
    /// Number of equal values.
    pub equal: usize,
    /// Number of all values of a signature.
    pub positions: usize,
}

/// The comparison of two documents by the default method's sketches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Both {
    /// The kind of features of this method; none if it is that of the other methods.
    pub features: Option<FeatureKind>,
    /// Number of band hashes of a document.
    pub keys: usize,
    /// Number of band hashes that the two share.
    pub equal_keys: usize,
    /// Similarity by the method's measure of verification, 0 to 1; 0 if it verifies nothing.
    pub similarity: f64,
}

/// The figures of a pair of documents by which each method decides whether it is near.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairFigures<'a> {
    /// Hamming distance of the SimHashes in bits.
    pub distance: u32,
    /// The probes by which PSM finds the pair.
    pub psm: &'a PsmTrace,
    /// The comparison by the default method.
    pub both: Both,
    /// The agreement of MinHash signatures.
    pub banded: Banded,
    /// Jaccard similarity of the sets of features, counted.
    pub jaccard: f64,
    /// True if the texts are the same, byte for byte.
    pub same_text: bool,
}

/// The kind of features of a figure, as the end of a phrase; empty if it is that of the others.
fn of_features(features: Option<FeatureKind>) -> String {
    features.map_or_else(String::new, |features| format!(", of {features}"))
}

/// The opinion of a method, called `by`, that compares documents of few features by their exact text alone. `fewest` is
/// the smaller number of features of the two.
pub(crate) fn opinion_of_text(by: &str, fewest: usize, min_features: usize, same_text: bool) -> Opinion {
    let features = counted(fewest as u64, "distinct feature", "distinct features");
    let are = if same_text { "the same" } else { "not the same" };
    let why = format!(
        "a document of {features} is compared by its exact text only (--min-features {min_features}); the texts are {are}"
    );
    Opinion { by: by.to_owned(), near: same_text, why }
}

/// The index of a generator over so many distinct hashes, in words, for [`PsmTrace::index`].
pub(crate) fn index_over(generator: &Generator, hashes: u64) -> String {
    let hashes = counted(hashes, "distinct hash", "distinct hashes");
    format!("{}, over {hashes} of the input", index_name(generator))
}

/// The text of [`PsmTrace::index`] for two documents without a corpus, at most `radius` bits apart.
pub(crate) fn index_of_two(radius: u32, most_probes: u32) -> String {
    format!(
        "all-bits: without a corpus, a probe is the place of the flips among all sets of at most {radius} flips in 64 bits, \
         likeliest first; {most_probes} at most are tried"
    )
}

/// The kind of features and the source of their weights, in words.
pub(crate) fn weighed_by(features: FeatureKind, weights_from: &str) -> String {
    format!("{features}; weights from {weights_from}")
}

/// The source of the weights of features, in words: a file of document frequencies, or those of the documents that were
/// read. `documents` is the number of documents behind the frequencies. `counted_documents` is false without a corpus.
pub(crate) fn weights_from(
    weighting: Weighting,
    file: Option<&Path>,
    documents: u64,
    counted_documents: bool,
) -> String {
    let documents = counted(documents, "document", "documents");
    match (file, weighting.needs_frequencies()) {
        (_, false) => format!("{}, which need no document frequencies", weighting.name()),
        (Some(path), true) => format!("document frequencies of {} ({documents})", path.display()),
        (None, true) if counted_documents => format!("document frequencies of {documents} read"),
        (None, true) => "no document frequencies: all features count as equally rare, so that weights are those of TF \
                         alone (sublinear), and distance and cosine are not those of any corpus; --frequencies FILE \
                         gives some"
            .to_owned(),
    }
}

/// True if a distance `d` is within the largest one `h`; with the reason, and the setting that would change that.
fn of_distance(d: u32, h: u32) -> (bool, String) {
    let near = d <= h;
    let otherwise = if !near {
        format!("a distance of {d} or more would take it in")
    } else if d == 0 {
        "no distance leaves it out".to_owned()
    } else {
        format!("a distance of {} or less would leave it out", d - 1)
    };
    (near, format!("{d} of 64 bits differ, and {h} may; {otherwise}"))
}

/// The opinion of each method on a pair of documents, and one for each measure of verification. `measured` gives the
/// similarity of the pair by a measure.
pub(crate) fn opinions(
    methods: &Methods,
    figures: &PairFigures<'_>,
    measured: impl Fn(Measure) -> f64,
) -> Vec<Opinion> {
    let &PairFigures { distance, psm, both, banded, jaccard, same_text } = figures;
    let mut all = Vec::new();
    if same_text {
        let why = "the texts are the same, byte for byte, which every method finds first; what follows holds all the same";
        all.push(Opinion { by: "every method".to_owned(), near: true, why: why.to_owned() });
    }
    if let (Some(measure), Some(threshold)) =
        (methods.both.verification.measure(), methods.both.verification.threshold())
    {
        let Both { features, keys, equal_keys, similarity } = both;
        let searched = if equal_keys > 0 { "" } else { ", and without an equal key it is not looked at" };
        let (keys, meaning) = (counted(keys as u64, "key is", "keys are"), meaning(measure));
        let of = of_features(features);
        all.push(Opinion {
            by: BOTH.to_owned(),
            near: similarity >= threshold && equal_keys > 0,
            why: format!(
                "{equal_keys} of {keys} equal{searched}; {meaning}{of}: {similarity:.3}, and {threshold} is needed"
            ),
        });
    }
    let simhash = &methods.simhash;
    let (near, why) = of_distance(distance, simhash.generator.distance().unwrap_or_default());
    let joined = matches!(simhash.generator, Generator::Join { .. });
    let searched = if joined { "; all hashes are joined, so that no pair is missed" } else { "" };
    all.push(Opinion { by: "simhash".to_owned(), near, why: why + searched });
    let (near, why) = of_distance(distance, methods.probing.generator.distance().unwrap_or_default());
    let probe = psm.probes.into_iter().flatten().min();
    let made = psm.budget.map(|budget| counted(u64::from(budget), "probe is", "probes are"));
    let reached = near && probe.is_some_and(|probe| psm.budget.is_none_or(|budget| probe <= budget));
    let found = match (probe, made) {
        _ if !near => String::new(),
        (Some(0), _) => "; equal hashes are found without a probe".to_owned(),
        (Some(probe), None) => {
            let probes = counted(u64::from(probe), "probe", "probes");
            format!("; fewer than {probes} a document would miss it")
        }
        (Some(probe), Some(made)) if reached => {
            format!("; {made} made for a document, and fewer than {probe} would miss it")
        }
        (Some(probe), Some(made)) => format!("; but only {made} made for a document, and it takes {probe}"),
        (None, _) => "; but no probe that was tried comes upon it".to_owned(),
    };
    all.push(Opinion { by: "psm".to_owned(), near: reached, why: why.clone() + &found });
    all.push(Opinion { by: "bphs".to_owned(), near, why });
    let Banded { shared, bands, equal, positions } = banded;
    let estimate = equal as f64 / positions as f64;
    let similarity = match methods.minhash.verification {
        Verification::Estimate(similarity) | Verification::Jaccard(similarity) => similarity,
        _ => USUAL_SIMILARITY,
    };
    let bands = counted(bands as u64, "band", "bands");
    let positions = counted(positions as u64, "position", "positions");
    all.push(Opinion {
        by: "minhash".to_owned(),
        near: shared > 0 && estimate >= similarity,
        why: format!(
            "equal are {shared} of {bands} and {equal} of {positions}: estimated {estimate:.3}, counted {jaccard:.3}, and \
             {similarity} is needed; a similarity of {estimate:.3} or less takes it in, if a band is equal"
        ),
    });
    for measure in Measure::VERIFYING {
        let value = measured(measure);
        let own = |verification: Verification| {
            verification.threshold().filter(|_| verification.measure() == Some(measure))
        };
        let threshold = own(methods.both.verification)
            .or(own(simhash.verification))
            .unwrap_or_else(|| measure.usual_threshold());
        let (by, meaning) = (format!("verify {}", measure.name()), meaning(measure));
        let of = of_features(both.features.filter(|_| measure.is_estimated()));
        let passes = format!("a threshold of {value:.3} or less lets it pass");
        let why = format!("{meaning}{of}: {value:.3}, and {threshold} is needed; {passes}");
        all.push(Opinion { by, near: value >= threshold, why });
    }
    all
}

/// The name of the default method, [`Methods::both`], in [`Opinion::by`].
pub(crate) const BOTH: &str = "both";

impl Explanation {
    /// True if the two have different texts, and the default method compares and confirms them. Its result
    /// may lack the pair if one of the two is [removed for](Self::removed_for) another document.
    pub(crate) fn is_candidate(&self) -> bool {
        !self.same_text && self.opinions.iter().any(|opinion| opinion.by == BOTH && opinion.near)
    }

    /// Adds to the opinion of the default method the ids of other documents that `a` and `b` are removed for. `None` is
    /// for one that is removed for no other.
    pub(crate) fn removed_for(&mut self, others: [Option<String>; 2]) {
        let removed = ["a", "b"].into_iter().zip(others);
        let removed =
            removed.filter_map(|(name, other)| Some(format!("{name} is removed in favour of {}", other?)));
        let removed = removed.collect::<Vec<_>>().join(", and ");
        let both = self.opinions.iter_mut().filter(|opinion| opinion.by == BOTH && !removed.is_empty());
        both.for_each(|opinion| opinion.why += &format!("; the pair is not listed, for {removed}"));
    }
}

/// A text of a document for the terminal, which must not get the control characters in it.
fn plain(text: &str) -> String {
    text.chars().map(visible).collect()
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, document) in ["a", "b"].into_iter().zip(&self.documents) {
            writeln!(f, "{name}: {} {}", plain(&document.id), plain(&document.url))?;
            let bytes = counted(document.text_bytes, "byte", "bytes");
            let features = counted(document.features, "feature", "features");
            writeln!(f, "   {bytes}, {features}, SimHash {:016x}", document.hash)?;
        }
        writeln!(f, "features: {}", self.weighed)?;
        if self.same_text {
            writeln!(f, "The texts are the same, byte for byte.")?;
        }
        if let Some(difference) = self.differ_only_in {
            let sentence = match difference {
                Difference::InvisibleCharacters => "The texts are identical except for invisible characters.",
                Difference::Form => {
                    "The texts have the same words: they differ in case, punctuation, white space or forms of \
                     characters."
                }
                Difference::Accents => "The words of the texts are identical except for accents.",
            };
            writeln!(f, "{sentence}")?;
        }
        let (jaccard, [ab, ba], cosine) = (self.jaccard, self.containment, self.cosine);
        writeln!(f, "\nJaccard {jaccard:.4}; {ab:.4} of a is in b, {ba:.4} of b in a; cosine {cosine:.4}\n")?;
        for opinion in &self.opinions {
            let outcome = if opinion.near { "near" } else { "not near" };
            writeln!(f, "{:<22} {outcome:<9} {}", opinion.by, opinion.why)?;
        }
        let cut = if self.cut { " (of the beginnings; these texts are long)" } else { "" };
        let (changed, of) = (counted(self.edit_distance, "word", "words"), self.words);
        writeln!(f, "\nedit distance: {changed} deleted or inserted, of {of}{cut}; - is a's, + is b's")?;
        for run in &self.diff {
            let sign = match run.change {
                Change::Same => " ",
                Change::Deleted => "-",
                Change::Inserted => "+",
            };
            writeln!(f, "{sign} {}", plain(&run.text.split_whitespace().collect::<Vec<_>>().join(" ")))?;
        }
        for (name, boilerplate) in
            ["a", "b"].into_iter().zip(&self.boilerplate).filter(|(_, boilerplate)| !boilerplate.is_empty())
        {
            let lines = counted(boilerplate.len() as u64, "line", "lines");
            writeln!(f, "\nboilerplate of {name}, which is left out of all the rest: {lines}")?;
            boilerplate.iter().try_for_each(|line| writeln!(f, "~ {}", plain(line)))?;
        }
        self.fmt_flips(f)
    }
}

impl Explanation {
    /// Writes how SimHash sees the pair: which probes find it, and which bits differ.
    fn fmt_flips(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// The most bits that are listed.
        const LISTED: usize = 12;
        let probe =
            |probe: Option<u32>| probe.map_or_else(|| "not found".to_owned(), |p| format!("at probe {p}"));
        writeln!(f, "\nSimHash: distance {}", self.distance)?;
        let PsmTrace { index, probes, all_probes, budget } = &self.psm;
        let makes = budget.map_or_else(|| "all of them".to_owned(), |budget| budget.to_string());
        let ([of_a, of_b], all) = (probes.map(probe), counted(*all_probes, "probe", "probes"));
        writeln!(f, "psm: b from a {of_a}, a from b {of_b}; an exact search makes {all}, this one {makes}")?;
        writeln!(f, "    (index {index})")?;
        if !self.bits.is_empty() {
            writeln!(f, "\nbit  weight in a  rank  weight in b  rank  pushed apart by")?;
        }
        for bit in self.bits.iter().take(LISTED) {
            let pushed: Vec<String> =
                bit.pushed_by.iter().map(|(name, by)| format!("{} ({by:+.3})", plain(name))).collect();
            let ([wa, wb], [ra, rb]) = (bit.weights, bit.ranks);
            writeln!(f, "{:>3}  {wa:>11.4}  {ra:>4}  {wb:>11.4}  {rb:>4}  {}", bit.bit, pushed.join(", "))?;
        }
        match self.bits.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more, which --json lists"),
        }
    }
}
