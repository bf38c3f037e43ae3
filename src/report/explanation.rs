//! Why two documents are near-duplicates or not: the figures behind it, and the words.

use super::messages::{index_name, meaning};
use crate::display::{counted, visible};
use crate::evaluate::diff::{Change, WordRun};
use crate::text::{Difference, FeatureKind};
use crate::weight::Weighting;
use serde::Serialize;
use simflip_core::settings::{Generator, Measure, Settings, Sketches, Verification};
use std::path::Path;

/// The settings of each method by which a pair is explained.
#[derive(Clone, Debug)]
pub struct Methods {
    /// Both sketches: the default.
    pub both: Settings,
    /// SimHash, with a generator that joins or probes.
    pub simhash: Settings,
    /// SimHash, with a generator that probes: where it comes upon the pair is traced.
    pub probing: Settings,
    /// MinHash.
    pub minhash: Settings,
}

impl Methods {
    /// The weights of features.
    pub fn weighting(&self) -> Weighting {
        match self.simhash.sketches {
            Sketches::SimHash { weighting } => weighting,
            _ => Weighting::default(),
        }
    }
}

/// A document.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedDocument {
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

fn hexadecimal<S: serde::Serializer>(hash: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{hash:016x}"))
}

/// A bit in which the hashes differ.
#[derive(Clone, Debug, Serialize)]
pub struct DifferingBit {
    /// Counted from 0, the least significant.
    pub bit: u32,
    /// The weights behind it.
    pub weights: [f32; 2],
    /// Its volatility rank in either document, 1 being the lowest-margin bit.
    pub ranks: [usize; 2],
    /// The features that part the two weights most, with their share in (weight of a − weight of b).
    pub pushed_by: Vec<(String, f64)>,
}

/// The judgement of one method.
#[derive(Clone, Debug, Serialize)]
pub struct Opinion {
    /// Which method, or which check.
    pub by: String,
    /// True if it says near-duplicates.
    pub near: bool,
    /// Why, and from what setting on it would say otherwise.
    pub why: String,
}

/// The probes with which PSM comes upon a pair.
#[derive(Clone, Debug, Serialize)]
pub struct PsmTrace {
    /// Which index, and over what.
    pub index: String,
    /// The probe that comes upon the other document, from either; none where no probe does, or
    /// none within the distance.
    pub probes: [Option<u32>; 2],
    /// Probes of an exhaustive search.
    pub all_probes: u64,
    /// Probes that a search under these settings makes; none if it makes all.
    pub budget: Option<u32>,
}

/// Why two documents are near-duplicates or not.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The two documents.
    pub documents: [ExplainedDocument; 2],
    /// True if the texts are the same, byte for byte.
    pub same_text: bool,
    /// The one thing that the texts differ in, if that is something that readers overlook.
    pub differ_only_in: Option<Difference>,
    /// The features, and the source of their weights.
    pub weighed: String,
    /// Hamming distance of the hashes.
    pub distance: u32,
    /// The bits that differ, weakest first.
    pub bits: Vec<DifferingBit>,
    /// Where psm comes upon the pair.
    pub psm: PsmTrace,
    /// Jaccard coefficient of the sets of features.
    pub jaccard: f64,
    /// The share of either document's set that the other has.
    pub containment: [f64; 2],
    /// Cosine of the features' weights.
    pub cosine: f64,
    /// The judgement of each method, under these settings.
    pub opinions: Vec<Opinion>,
    /// Words to delete and to insert on the way from one text to the other.
    pub edit_distance: u64,
    /// Words of both texts together, as far as they were compared.
    pub words: u64,
    /// True if only the beginnings were compared.
    pub cut: bool,
    /// The way, long common runs shortened.
    pub diff: Vec<WordRun>,
    /// The lines of either document that are boilerplate: the figures above and the way leave them out.
    pub boilerplate: [Vec<String>; 2],
}

/// The common positions of two MinHash signatures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Banded {
    /// Equal bands, of so many.
    pub shared: usize,
    pub bands: usize,
    /// Equal positions, of so many.
    pub equal: usize,
    pub positions: usize,
}

/// The common bits of two documents' sketches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Both {
    /// The features, if they are not those of the other methods.
    pub features: Option<FeatureKind>,
    /// Keys of a document, and how many of them are equal.
    pub keys: usize,
    pub equal_keys: usize,
    /// The measure of their verification.
    pub similarity: f64,
}

/// The figures of a pair of documents by which methods judge it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairFigures<'a> {
    /// Hamming distance of the hashes.
    pub distance: u32,
    pub psm: &'a PsmTrace,
    pub both: Both,
    /// None where no banded index is under these settings.
    pub banded: Option<Banded>,
    /// Jaccard coefficient of the sets of features.
    pub jaccard: f64,
    /// True if the texts are the same, byte for byte.
    pub same_text: bool,
}

/// The features of a figure, if they are not those of the others.
fn of_features(features: Option<FeatureKind>) -> String {
    features.map_or_else(String::new, |features| format!(", of {features}"))
}

/// The only opinion on a document of few features: that of its text.
pub(crate) fn opinion_of_text(by: &str, fewest: usize, min_features: usize, same_text: bool) -> Opinion {
    let features = counted(fewest as u64, "distinct feature", "distinct features");
    let are = if same_text { "the same" } else { "not the same" };
    let why = format!(
        "a document of {features} is compared by its exact text only (--min-features {min_features}); the texts are {are}"
    );
    Opinion { by: by.to_owned(), near: same_text, why }
}

/// Which index a pair is looked for in, over how many distinct hashes.
pub(crate) fn index_over(generator: &Generator, hashes: u64) -> String {
    let hashes = counted(hashes, "distinct hash", "distinct hashes");
    format!("{}, over {hashes} of the input", index_name(generator))
}

/// The index of two documents alone, and the number of probes at most.
pub(crate) fn index_of_two(radius: u32, most_probes: u32) -> String {
    format!(
        "all-bits: without a corpus, a probe is the place of the flips among all sets of at most {radius} flips in 64 bits, \
         likeliest first; {most_probes} at most are tried"
    )
}

/// The features, and the source of their weights.
pub(crate) fn weighed_by(features: FeatureKind, weights_from: &str) -> String {
    format!("{features}; weights from {weights_from}")
}

/// Where the weights of features come from: a file of document frequencies, or those
/// counted in so many documents read.
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

/// Why a distance is near or not, and from what setting on it would be otherwise.
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

/// The judgement of each method on a pair of documents.
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
    if let (Generator::Bands { similarity, .. }, Some(banded)) = (methods.minhash.generator, banded) {
        let Banded { shared, bands, equal, positions } = banded;
        let estimate = equal as f64 / positions as f64;
        let bands = counted(bands as u64, "band", "bands");
        let positions = counted(positions as u64, "position", "positions");
        all.push(Opinion {
            by: "minhash".to_owned(),
            near: shared > 0 && estimate >= similarity,
            why: format!(
                "equal are {shared} of {bands} and {equal} of {positions}: estimated {estimate:.3}, counted {jaccard:.3}, \
                 and {similarity} is needed; a similarity of {estimate:.3} or less takes it in, if a band is equal"
            ),
        });
    }
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

/// The method of [`Methods::both`], as its opinion names it.
pub(crate) const BOTH: &str = "both";

impl Explanation {
    /// True if the two are different texts that the default method compares and calls near.
    pub(crate) fn is_candidate(&self) -> bool {
        !self.same_text && self.opinions.iter().any(|opinion| opinion.by == BOTH && opinion.near)
    }

    /// Adds to the opinion of the default method for which other documents, by their names, the two are removed.
    pub(crate) fn removed_for(&mut self, others: [Option<String>; 2]) {
        let removed = ["a", "b"].into_iter().zip(others);
        let removed =
            removed.filter_map(|(name, other)| Some(format!("{name} is removed in favour of {}", other?)));
        let removed = removed.collect::<Vec<_>>().join(", and ");
        let both = self.opinions.iter_mut().filter(|opinion| opinion.by == BOTH && !removed.is_empty());
        both.for_each(|opinion| opinion.why += &format!("; the pair is not listed, for {removed}"));
    }
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Documents are not to give orders to a terminal.
        let plain = |text: &str| text.chars().map(visible).collect::<String>();
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
        writeln!(f, "\nJaccard {jaccard:.4}; {ab:.4} of a is in b, {ba:.4} of b in a; cosine {cosine:.4}")?;
        let probe =
            |probe: Option<u32>| probe.map_or_else(|| "not found".to_owned(), |p| format!("at probe {p}"));
        writeln!(f, "distance {}", self.distance)?;
        let PsmTrace { index, probes, all_probes, budget } = &self.psm;
        let makes = budget.map_or_else(|| "all of them".to_owned(), |budget| budget.to_string());
        let ([of_a, of_b], all) = (probes.map(probe), counted(*all_probes, "probe", "probes"));
        writeln!(f, "psm: b from a {of_a}, a from b {of_b}; an exact search makes {all}, this one {makes}")?;
        writeln!(f, "    (index {index})")?;
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
            writeln!(f, "\nboilerplate of {name}, which is left out of all that stands above: {lines}")?;
            boilerplate.iter().try_for_each(|line| writeln!(f, "~ {}", plain(line)))?;
        }
        Ok(())
    }
}
