//! Finds the near-duplicates of documents in memory: texts or sketches in, an [`Outcome`] of plain numbers out.
//!
//! Settings *with keys* compare documents that share a band hash, or a key of block-permuted tables
//! ([`buckets`]). Other settings search for near sketches.

use crate::bits::Bits;
use crate::buckets::{self, Edge, Joined, Round, Rule, Statistics, Store};
use crate::clusters::{Keep, Linkage, Merits};
use crate::collection::{Collection, Counted, Keeping, Texts, Two};
use crate::containment::{self, FeatureHashes, FeatureLists, Listed};
use crate::error::{Error, Result};
#[doc(hidden)]
pub use crate::generator::Scores;
use crate::generator::{self, Generated};
#[doc(inline)]
pub use crate::generator::{Capped, MeasuredRecall, Ran, Searched};
#[doc(hidden)]
pub use crate::groups::check_listed;
use crate::groups::{Better, GroupPair, Groups};
#[doc(inline)]
pub use crate::groups::{Pair, PairKind};
use crate::id::{Cluster, Document, Group, Id, Lists, Rank, Text};
use crate::progress::run;
#[doc(inline)]
pub use crate::progress::{Progress, Step};
#[doc(hidden)]
pub use crate::recall_estimate::Lower;
use crate::recall_estimate::{self, Known, SampledText};
#[doc(inline)]
pub use crate::recall_estimate::{Estimated, RecallEstimate, Removed};
use crate::search::bphs::BlockKeys;
use crate::search::selfjoin::SimilarPair;
use crate::settings::{Forms, Generator, Measure, Settings, Sketches, Verification};
use crate::simhash::hasher::SimHasher;
use crate::sketch::{Facts, Hashed, Sketch, TwoSketcher, TwoSketches};
use crate::verification::{self, Evidence, TextPair, VerifiedPairs, idf_by_part};
use crate::weight::frequencies::Frequencies;
use crate::weight::{Weigher, Weighting};
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Finds the near-duplicates among documents.
///
/// Give it texts ([`push`](Self::push), [`extend`](Self::extend)) or sketches that were made elsewhere with
/// the same settings ([`push_sketch`](Self::push_sketch)), put batches together with [`merge`](Self::merge),
/// and [`run`](Self::run) it. A batch may be a thread's, a file's, a partition's; the outcome depends on the
/// documents and their order alone. Documents are numbered in that order from 0: the caller's own id of a
/// [`Document`] is `ids[document.0 as usize]` of a list in the same order.
///
/// ```
/// use simflip_core::{dedup::Deduper, id::Document, settings::Settings};
///
/// let texts = [
///     "The quick brown fox jumps over the lazy dog by the river and sleeps in the sun.",
///     "Ships of the harbour carry grain, wine and oil to all ports of the inner sea.",
///     "The quick brown fox jumps over the lazy dog by the river, and sleeps in the sun!",
/// ];
/// let mut deduper = Deduper::new(Settings::both(0.8))?;
/// deduper.extend(&texts);
/// let outcome = deduper.run()?;
/// assert_eq!((outcome.pairs[0].a, outcome.pairs[0].b), (Document(0), Document(2)));
/// assert_eq!(outcome.kept().collect::<Vec<_>>(), [Document(0), Document(1)]);
/// # Ok::<(), simflip_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Deduper {
    settings: Settings,
    frequencies: Option<Arc<Frequencies>>,
    collection: Collection,
}

/// The facts about documents that a run gets besides its settings: URLs, scores, sources and the reference set. It also
/// has the receiver of progress.
///
/// ```
/// use simflip_core::dedup::{Context, Progress, Step};
/// use simflip_core::{Deduper, Settings};
/// use std::sync::Mutex;
///
/// /// Notes the steps of a run.
/// struct Steps(Mutex<Vec<Step>>);
///
/// impl Progress for Steps {
///     fn begin(&self, step: Step, _items: u64) {
///         self.0.lock().unwrap().push(step);
///     }
///     fn advance(&self, _items: u64) {}
///     fn end(&self, _step: Step) {}
/// }
///
/// let mut deduper = Deduper::new(Settings::default())?;
/// deduper.extend(&["a text", "a text", "another"]);
/// let steps = Steps(Mutex::default());
/// deduper.run_with(&Context::new(&|_| None, &steps))?;
/// assert_eq!(steps.0.into_inner().unwrap()[0], Step::ExactDuplicates);
/// # Ok::<(), simflip_core::Error>(())
/// ```
pub struct Context<'a> {
    url: &'a (dyn Fn(Document) -> Option<&'a str> + Sync),
    progress: &'a dyn Progress,
    score: &'a (dyn Fn(Document) -> Option<f64> + Sync),
    source: &'a (dyn Fn(Document) -> u64 + Sync),
    first_reference: usize,
}

/// The most bytes of memory that a pair takes in a run: before it is verified, or while near pairs are made clusters
/// and listed.
#[doc(hidden)]
pub const PAIR_BYTES: u64 = 44;

impl<'a> Context<'a> {
    /// A context without scores, sources and a reference set. `url` gives the URL of a document, or none, for
    /// [`Keep::ShortestUrl`] and among equals by other rules. `progress` hears of the steps of the run.
    pub fn new(url: &'a (dyn Fn(Document) -> Option<&'a str> + Sync), progress: &'a dyn Progress) -> Self {
        Self { url, progress, score: &|_| None, source: &|_| 0, first_reference: usize::MAX }
    }

    /// Adds the scores of documents, for [`Keep::Score`] and [`Keep::InputOrder`]: the highest is kept. None and NaN
    /// come last.
    pub fn scored(self, score: &'a (dyn Fn(Document) -> Option<f64> + Sync)) -> Self {
        Self { score, ..self }
    }

    /// Adds the numbers of documents' sources, for [`Quota::each`](crate::clusters::Quota::each): documents with the
    /// same number have the same source.
    pub fn from_sources(self, source: &'a (dyn Fn(Document) -> u64 + Sync)) -> Self {
        Self { source, ..self }
    }

    /// Declares the documents from number `first_reference` on as the reference set. New documents are compared with
    /// them, and all of them are kept.
    ///
    /// A new document that has the text of a reference document, or is near one, is removed. With
    /// [`Linkage::Connected`] each one that is connected with such a document is removed, too. With the other linkage
    /// the remaining documents are linked among themselves. Where containment decides, a reference document that holds
    /// too little of a new one does not remove it. Pairs and clusters of reference documents alone are left out.
    ///
    /// [`Linkage::Connected`]: crate::clusters::Linkage::Connected
    pub fn against(self, first_reference: usize) -> Self {
        Self { first_reference, ..self }
    }
}

impl Default for Context<'_> {
    fn default() -> Self {
        Self::new(&|_| None, &())
    }
}

impl Deduper {
    /// A deduper without documents.
    ///
    /// # Errors
    /// [`Error::Parameter`] for settings that have no meaning.
    pub fn new(settings: Settings) -> Result<Self> {
        Self::with_frequencies(settings, None)
    }

    /// A deduper without documents that weighs features by document frequencies that were counted before. None stands
    /// for the frequencies of the documents themselves.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if the frequencies are of another kind of features.
    pub fn with_frequencies(settings: Settings, frequencies: Option<Arc<Frequencies>>) -> Result<Self> {
        settings.check()?;
        if let Some(known) = &frequencies {
            settings.extraction().fits(known.extraction())?;
        }
        let keeping = Keeping::of(&settings);
        let collection = Collection::new(settings.extraction(), keeping, frequencies.clone())?;
        Ok(Self { settings, frequencies, collection })
    }

    /// Adds a document by its text, and gives its number.
    ///
    /// # Panics
    /// If there are 2³² documents already.
    pub fn push(&mut self, text: &str) -> Document {
        self.collection.push(text)
    }

    /// Adds a document for each text, in order, on all threads of rayon's pool.
    ///
    /// # Panics
    /// If there are more than 2³² documents.
    pub fn extend<T: AsRef<str> + Sync>(&mut self, texts: &[T]) {
        let part = texts.len().div_ceil(rayon::current_num_threads()).max(1);
        let parts: Vec<Result<Self>> = texts
            .par_chunks(part)
            .map(|texts| {
                let mut part = Self::with_frequencies(self.settings.clone(), self.frequencies.clone())?;
                texts.iter().for_each(|text| {
                    part.push(text.as_ref());
                });
                Ok(part)
            })
            .collect();
        for part in parts {
            part.and_then(|part| self.merge(part)).expect("parts of one deduper fit together");
        }
    }

    /// Adds a document by its sketch, and gives its number.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the sketch is not of these settings' kind and length, or the settings look at features,
    /// which a sketch does not have.
    ///
    /// # Panics
    /// If there are 2³² documents already.
    pub fn push_sketch(&mut self, sketch: &Sketch) -> Result<Document> {
        self.collection.push_sketch(sketch)
    }

    /// Adds the documents of another deduper behind those of this one.
    ///
    /// # Errors
    /// [`Error::Parameter`] if its sketches are of another kind, or its `min_features` differ.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        if self.settings.min_features != other.settings.min_features {
            let expected = format!("{} as in the other part", self.settings.min_features);
            return Err(Error::parameter("min-features", other.settings.min_features, expected));
        }
        self.collection.merge(other.collection)
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.collection.len()
    }

    /// True if there is no document.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.collection.is_empty()
    }

    /// Finds the near-duplicates among all documents added so far.
    ///
    /// # Errors
    /// [`Error::Parameter`] if an index cannot be built with these settings, or all pairs are to be listed and there
    /// are too many.
    pub fn run(&self) -> Result<Outcome> {
        self.run_with(&Context::default())
    }

    /// [`run`](Self::run) with further facts about documents.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(&self, context: &Context<'_>) -> Result<Outcome> {
        let prepared =
            Prepared::new(&self.collection, &self.settings, self.frequencies.clone(), context.progress);
        prepared.find(&self.settings, context)?.outcome()
    }
}

/// The outcome of a run in numbers.
///
/// ```
/// use simflip_core::dedup::{PairKind, Outcome, Pair, Ran, Searched, Verified};
/// use simflip_core::{Deduper, Settings};
///
/// let story: Vec<String> = (0..80).map(|word| format!("word{}", word * word)).collect();
/// let mut deduper = Deduper::new(Settings::default())?;
/// deduper.extend(&[story.join(" "), story.join(" ") + " today", story[40..].join(" ")]);
/// let outcome: Outcome = deduper.run()?;
/// let Pair { a, b, kind, .. } = outcome.pairs[0];
/// assert_eq!((a.0, b.0, kind), (0, 1, PairKind::Near));
/// // The search that generated candidate pairs, and verification of these.
/// let Searched { ran, .. } = outcome.searched;
/// let Some(Verified { compared, refused, .. }) = outcome.verified else { panic!("the settings verify") };
/// assert!(matches!(ran, Ran::Keys { .. }) && compared >= refused);
/// # Ok::<(), simflip_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Number of documents, those of the reference set among them.
    pub documents: usize,
    /// Number of new documents, which come first; the others are the reference set ([`Context::against`]). Without one,
    /// all are new.
    pub new: usize,
    /// Number of distinct texts of all documents.
    pub texts: usize,
    /// Number of new documents that are removed as exact duplicates. Of the new documents with a text one does not
    /// count, unless a reference document has the text. Documents that a quota keeps do not count.
    pub exact_duplicates: usize,
    /// Number of new documents with too few features for a sketch, which are compared by their exact text alone.
    pub documents_with_few_features: u64,
    /// Near pairs, ascending: every copy of a text with its best copy, and the best copies of near texts. With keys and
    /// [`Linkage::Star`] near texts are paired only if one is removed for the other. Without verification, every text
    /// of a sketch is paired with the best text. If [`Settings::all_pairs`] is true, all near pairs of documents that
    /// the run found.
    pub pairs: Vec<Pair>,
    /// Number of near pairs of documents that the run found, listed or not. With keys it counts listed pairs alone,
    /// unless [`Settings::all_pairs`] is true.
    pub pairs_found: u64,
    /// Clusters of two documents or more, in order of their first documents, documents ascending.
    #[doc(hidden)]
    pub clusters: Lists<Cluster, Document>,
    /// The kept document of each cluster, in the order of clusters: a reference document, if there is one. Other
    /// reference documents are kept, too.
    pub representatives: Vec<Document>,
    /// New documents that are kept besides by [`Settings::quota`], ascending.
    pub also: Vec<Document>,
    /// The search that ran, and its cost.
    pub searched: Searched,
    /// The counts of verification; none for settings without keys that verify nothing.
    pub verified: Option<Verified>,
    /// The estimate of recall, measured on a sample; none for settings whose recall cannot be estimated, such as those
    /// without bits, and where no document can be sampled.
    pub recall_estimate: Option<RecallEstimate>,
    /// The similarities of each cluster's documents with its kept one, in the order of clusters. With keys and
    /// containment, they are those of removed documents alone.
    #[doc(hidden)]
    pub cohesion: Vec<Cohesion>,
    /// The measure of [`cohesion`](Self::cohesion), and the floor: the similarity below which documents are unlike.
    #[doc(hidden)]
    pub cohesion_by: (Measure, f64),
}

/// The counts of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Verified {
    /// Number of pairs of texts that were compared; with keys a pair counts each time, in each band and round.
    pub compared: u64,
    /// Number of compared pairs below the threshold.
    pub refused: u64,
    /// Number of pairs of texts that were not compared, because too many share a sketch; 0 with keys.
    pub skipped: u64,
}

impl Verified {
    /// Number of compared pairs that are not below the threshold; 0 for counts that contradict each other, as a changed
    /// report may have.
    #[doc(hidden)]
    pub fn confirmed(&self) -> u64 {
        self.compared.saturating_sub(self.refused)
    }
}

impl From<Statistics> for Verified {
    fn from(Statistics { compared, refused, .. }: Statistics) -> Self {
        Self { compared, refused, skipped: 0 }
    }
}

/// A summary of the similarities of a cluster's documents with its kept document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct Cohesion {
    /// The lowest similarity.
    pub lowest: f32,
    /// The median similarity, of two in the middle the greater.
    pub median: f32,
    /// The document with the lowest similarity.
    pub farthest: Document,
    /// Number of documents whose similarity is below the floor ([`Outcome::cohesion_by`]).
    pub unlike: u64,
    /// The features of the texts that were removed for the kept document, each text once, and the number of them that
    /// it lacks. Both are 0 if verification's measure does not tell them ([`Lost::is_measured_by`]).
    pub lost: Lost,
}

/// The number of features of removed texts, and the number of them that the documents kept for these texts lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Lost {
    /// Number of distinct features of each removed text, summed.
    pub features: u64,
    /// Number of these features that the kept document does not have, computed from its similarity.
    pub missing: u64,
}

impl Lost {
    /// True if the number of features that two documents share follows from a measure.
    pub fn is_measured_by(measure: Measure) -> bool {
        matches!(measure, Measure::Estimate | Measure::Jaccard | Measure::Containment)
    }

    /// The loss of a removed text, by the similarity with the kept document and the numbers of distinct features of
    /// both.
    pub fn of(measure: Measure, similarity: f32, [removed, kept]: [u32; 2]) -> Self {
        let (alike, a, b) = (f64::from(similarity), f64::from(removed), f64::from(kept));
        let shared = match measure {
            Measure::Containment => alike * a.min(b),
            _ => alike * (a + b) / (1.0 + alike),
        };
        let missing = (a - shared).round().clamp(0.0, a) as u64;
        Self { features: removed.into(), missing }
    }

    /// The sums of this one and another.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { features: self.features + other.features, missing: self.missing + other.missing }
    }
}

impl Pair {
    /// Both documents, the one with the lesser number first.
    #[doc(hidden)]
    pub fn documents(&self) -> [Document; 2] {
        [self.a, self.b]
    }
}

impl Outcome {
    /// A list by document, true for each that is kept, reference documents among them.
    #[doc(hidden)]
    pub fn kept_mask(&self) -> Vec<bool> {
        let mut is_kept = vec![true; self.documents];
        self.clusters.values().iter().for_each(|document| is_kept[document.index()] = false);
        self.representatives.iter().chain(&self.also).for_each(|document| is_kept[document.index()] = true);
        is_kept[self.new..].fill(true);
        is_kept
    }

    /// Clusters of two documents or more, in order of their first documents, documents ascending.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = &[Document]> {
        self.clusters.iter()
    }

    /// The new documents that are kept, ascending.
    pub fn kept(&self) -> impl Iterator<Item = Document> {
        let is_kept = self.kept_mask();
        Document::all(self.new).filter(move |document| is_kept[document.index()])
    }

    /// True if a new document is kept by the quota, besides the representative of its cluster.
    #[doc(hidden)]
    pub fn is_also_kept(&self, document: Document) -> bool {
        self.also.binary_search(&document).is_ok()
    }

    /// The kept document that represents a member of a cluster: the member itself if it is kept by the quota, or else
    /// the representative of the cluster.
    #[doc(hidden)]
    pub fn representative_of(&self, cluster: Cluster, member: Document) -> Document {
        match self.is_also_kept(member) {
            true => member,
            false => self.representatives[cluster.index()],
        }
    }

    /// True if a document is of the reference set.
    #[doc(hidden)]
    pub fn is_reference(&self, document: Document) -> bool {
        document.index() >= self.new
    }

    /// Number of new documents that are removed.
    pub fn removed(&self) -> usize {
        let new = |documents: &[Document]| {
            documents.iter().filter(|&&document| !self.is_reference(document)).count()
        };
        new(self.clusters.values()) - new(&self.representatives) - self.also.len()
    }
}

/// Documents grouped by text, with the sketches that had to be made of counted features. Runs of several settings over
/// the same documents share it.
#[doc(hidden)]
pub struct Prepared<'a> {
    texts: Texts,
    frequencies: Option<Arc<Frequencies>>,
    collection: &'a Collection,
    hashed: Vec<Option<Hashed>>,
    two: Vec<Option<TwoSketches>>,
}

impl<'a> Prepared<'a> {
    /// Groups documents by text, and makes the SimHashes, or bits and keys, of these settings if the collection keeps
    /// features. Where weights depend on document frequencies and none are given, those of the documents are counted.
    pub fn new(
        collection: &'a Collection,
        settings: &Settings,
        frequencies: Option<Arc<Frequencies>>,
        progress: &dyn Progress,
    ) -> Self {
        let n = collection.len();
        let texts =
            run(progress, Step::ExactDuplicates, n, |_| Texts::new(collection, settings.min_features));
        let frequencies = frequencies.or_else(|| {
            let count = || run(progress, Step::Frequencies, n, |_| Arc::new(collection.frequencies()));
            settings.needs_frequencies().then(count)
        });
        let mut prepared = Self { texts, frequencies, collection, hashed: Vec::new(), two: Vec::new() };
        match settings.sketches {
            Sketches::SimHash { weighting } => prepared.hash(weighting, progress),
            Sketches::Both { .. } | Sketches::OneBit { .. } | Sketches::MinHash { .. } => {
                prepared.sketch_both(settings, progress);
            }
        }
        prepared
    }

    /// Makes SimHashes of kept features; does nothing if the collection keeps sketches.
    pub fn hash(&mut self, weighting: Weighting, progress: &dyn Progress) {
        let Self { texts, collection, frequencies, .. } = &*self;
        if collection.keeping() != Keeping::Features {
            return;
        }
        self.hashed = run(progress, Step::SimHash, texts.sketched.len(), |done| {
            let weigher = Weigher::new(weighting);
            // By part and term, so that hashing a document looks nothing up by hash.
            let idf = idf_by_part(collection, weighting, frequencies.as_deref());
            by_text(collection, texts, done, || {
                let (mut hasher, weigher, idf) = (SimHasher::default(), &weigher, &idf);
                move |counted: Counted<'_>| Some(Hashed::from(&hasher.hash(counted.weighed(weigher, idf))))
            })
        });
    }

    /// Makes bits, keys and hash of kept features; does nothing if the collection keeps sketches.
    pub fn sketch_both(&mut self, settings: &Settings, progress: &dyn Progress) {
        let Self { texts, collection, .. } = &*self;
        if collection.keeping() != Keeping::Features {
            return;
        }
        self.two = run(progress, Step::MinHash, texts.sketched.len(), |done| {
            by_text(collection, texts, done, || {
                let (mut maker, mut features) = (TwoSketcher::new(settings).ok(), Vec::new());
                move |counted: Counted<'_>| {
                    features.clear();
                    features.extend(counted.counts().map(|(feature, _)| feature));
                    Some(maker.as_mut()?.sketch(&features))
                }
            })
        });
    }

    /// The distinct texts.
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// The document frequencies that were given or counted, if any.
    pub fn frequencies(&self) -> Option<&Arc<Frequencies>> {
        self.frequencies.as_ref()
    }

    /// The evidence by which texts are compared, with weights for the verification of these settings.
    pub fn evidence(&self, settings: &Settings) -> Evidence<'_> {
        let forms = settings.sketches.forms();
        let evidence = Evidence::new(self.collection, &self.texts, &self.hashed, &self.two, forms);
        match settings.verification {
            Verification::Cosine { weighting, .. } => {
                evidence.weighed(weighting, self.frequencies.as_deref())
            }
            _ => evidence,
        }
    }

    /// Runs the search of these settings, and drops the candidates: for measuring its time. With keys the search
    /// compares documents as well.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn search(&self, settings: &Settings, progress: &dyn Progress) -> Result<Searched> {
        let evidence = self.evidence(settings);
        if has_keys(settings) {
            let better = |a: Document, b: Document| a.cmp(&b);
            let context = Context::new(&|_| None, progress);
            return Ok(self.find_by_keys(settings, &context, &evidence, &better)?.searched);
        }
        Ok(generator::generate(settings, &evidence, progress)?.searched)
    }

    /// The recall of `pairs` among all pairs with a Jaccard similarity of at least `similarity`. Jaccard similarities
    /// are counted on the features of a sample of texts and of all others; of few texts, all are the sample. None
    /// unless features and [both sketches](Self::sketch_both) are there: bits show which similarities need not be
    /// counted.
    pub fn counted_recall(
        &self,
        similarity: f64,
        seed: u64,
        pairs: &[Pair],
        progress: &dyn Progress,
    ) -> Option<RecallEstimate> {
        let evidence = Evidence::new(self.collection, &self.texts, &self.hashed, &self.two, Forms::BySize);
        let pair = |pair: &Pair| {
            let [a, b] = pair.documents().map(|document| self.texts.text_of(document));
            TextPair::new(a, b, pair.distance, pair.similarity)
        };
        let mut found: Vec<TextPair> = pairs.iter().map(pair).collect();
        found.sort_unstable_by_key(|pair| (pair.a, pair.b));
        run(progress, Step::RecallEstimate, self.texts.sketched.len(), |_| {
            let is_found = recall_estimate::is_among(&found);
            let known = Known { is_found: &is_found, ..Known::default() };
            recall_estimate::estimate(Verification::Jaccard(similarity), seed, &evidence, &known)
        })
    }

    /// Runs the generator of these settings, and verifies its candidates.
    ///
    /// # Errors
    /// [`Error::Parameter`] if an index cannot be built with these settings.
    pub fn find<'p, 'c: 'p>(&'p self, settings: &'p Settings, context: &'p Context<'c>) -> Result<Found<'p>> {
        let collection = self.collection;
        let keep = &settings.keep;
        let by_url = *keep == Keep::ShortestUrl;
        let of = move |document: Document| {
            let Facts { features, text_bytes, .. } = collection.facts(document);
            Merits { features, text_bytes, url: if by_url { (context.url)(document) } else { None } }
        };
        let score = |document: Document| {
            (context.score)(document).filter(|score| !score.is_nan()).unwrap_or(f64::NEG_INFINITY)
        };
        let first_reference = context.first_reference;
        let is_reference = move |document: Document| document.index() >= first_reference;
        let better = move |a: Document, b: Document| {
            is_reference(b).cmp(&is_reference(a)).then_with(|| match keep {
                Keep::First => a.cmp(&b),
                Keep::InputOrder => score(b).total_cmp(&score(a)).then(a.cmp(&b)),
                Keep::Score(_) if score(a) != score(b) => score(b).total_cmp(&score(a)),
                // Among equals what the documents say decides, not their places: files may come in any order.
                _ => keep
                    .compare(of(a), of(b))
                    .then_with(|| collection.facts(a).digest.cmp(&collection.facts(b).digest))
                    .then_with(|| (context.url)(a).cmp(&(context.url)(b)))
                    .then(a.cmp(&b)),
            })
        };
        let better: Box<dyn Fn(Document, Document) -> Ordering + Sync + 'p> = Box::new(better);
        let evidence = self.evidence(settings);
        let pairs = match has_keys(settings) {
            true => self.find_by_keys(settings, context, &evidence, &*better)?,
            false => self.find_by_search(settings, context, &evidence, &*better)?,
        };
        let (progress, source) = (context.progress, context.source);
        Ok(Found { prepared: self, evidence, settings, progress, better, source, pairs })
    }

    /// Compares documents that share a key, [leaders first](crate::buckets).
    fn find_by_keys(
        &self,
        settings: &Settings,
        context: &Context<'_>,
        evidence: &Evidence<'_>,
        better: Better<'_>,
    ) -> Result<Pairs<'_>> {
        let (texts, progress) = (&self.texts, context.progress);
        let rule = Rule::new(settings)?;
        let copies = |text| texts.copies(text).to_vec();
        let groups =
            Groups::new(texts.all().map(copies), self.collection, better).against(context.first_reference);
        let blocks = settings.block_tables().map(BlockKeys::new).transpose()?;
        let store = InMemory::new(settings, evidence, &groups, better, blocks.as_ref());
        let reference = store.reference;
        let bands: Vec<usize> = (0..store.bands()).collect();
        let (mut edges, mut statistics) = (Vec::new(), Statistics::default());
        run(progress, Step::Join, texts.sketched.len(), |_| {
            buckets::join(&store, &rule, &Round::first(reference), &bands, |_, more, part| {
                statistics = statistics.and(part);
                buckets::merge(&mut edges, more);
                Ok::<_, Error>(())
            })
        })?;
        let Joined { mut assignments, later, statistics: more } =
            run(progress, Step::Verify, edges.len(), |_| {
                buckets::assign(&store, &rule, reference, edges.iter().copied().map(Ok::<_, Error>))
            })?;
        statistics = statistics.and(more);
        buckets::merge_later(&mut edges, later);
        if let Some(threshold) = rule.contained() {
            let removed = run(progress, Step::Containment, texts.sketched.len(), |_| {
                containment::remove(&store, threshold, &mut assignments)
            });
            let (more, part) = removed?;
            statistics = statistics.and(part);
            buckets::merge_later(&mut edges, more);
        }
        let is_listed = |edge: &Edge| {
            settings.all_pairs
                || settings.linkage == Linkage::Connected
                || assignments.leader(edge.document) == edge.leader
        };
        edges.retain(is_listed);
        let group = |rank: Rank| Group(store.order.text(rank).0);
        let mut joined: Vec<GroupPair> = edges
            .iter()
            .map(|edge| {
                let (a, b) = (group(edge.document), group(edge.leader));
                GroupPair::new(a, b, u32::from(edge.distance), edge.similarity)
            })
            .collect();
        drop(edges);
        joined.sort_unstable_by_key(|pair| (pair.a, pair.b));
        let searched = statistics.searched(settings, store.compared.count());
        let verified = Verified::from(statistics);
        let recall_estimate = run(progress, Step::RecallEstimate, texts.sketched.len(), |_| {
            if let Some(threshold) = rule.contained() {
                let bytes = store.compared_ranks().map(|rank| store.facts(rank).text_bytes).sum();
                let is_sampled = |rank: &Rank| assignments.is_kept(*rank) && !assignments.is_reference(*rank);
                let most = recall_estimate::most_sampled(store.compared.count(), bytes);
                let mut sampler = recall_estimate::DocumentSampler::new(settings.seed, most);
                let all = store.compared_ranks().filter(is_sampled);
                all.for_each(|rank| sampler.add(rank, store.facts(rank).digest));
                let (sampled, sampled_from) = sampler.finish();
                if sampled.is_empty() {
                    return None;
                }
                return containment::estimate(&store, threshold, &assignments, &sampled, sampled_from).ok();
            }
            // There are no bits to compare a sample by.
            settings.sketches.keyed()?;
            let rank = |shown: &SampledText<'_>| store.order.rank(Text(shown.rank.0));
            let is_missed = |sampled: &SampledText<'_>, other: &SampledText<'_>| {
                let (document, kept) = (rank(sampled), rank(other));
                kept < document && assignments.is_kept(document) && assignments.is_kept(kept)
            };
            let removed = Some(assignments.removed());
            let first_reference = context.first_reference;
            let known = Known {
                is_found: &recall_estimate::share_a_key,
                is_missed: &is_missed,
                removed,
                first_reference,
            };
            recall_estimate::estimate(settings.verification, settings.seed, evidence, &known)
        });
        let leader =
            |group: Group| Group(store.order.text(assignments.leader(store.order.rank(Text(group.0)))).0);
        let assigned = Some(Group::all(groups.len()).map(leader).collect());
        Ok(Pairs { groups, joined, assigned, searched, verified: Some(verified), recall_estimate })
    }

    /// Searches for near sketches, and verifies what that finds.
    fn find_by_search(
        &self,
        settings: &Settings,
        context: &Context<'_>,
        evidence: &Evidence<'_>,
        better: Better<'_>,
    ) -> Result<Pairs<'_>> {
        let (collection, texts) = (self.collection, &self.texts);
        let Generated { groups, joined, searched } =
            generator::generate(settings, evidence, context.progress)?;
        let confirmed = match settings.verification.measure() {
            Some(_) => run(context.progress, Step::Verify, joined.len(), |_| {
                verification::verification(settings.verification, evidence, &groups, &joined)
            }),
            None => None,
        };
        // Of many pairs two lists are held at a time, and no more.
        let joined = if confirmed.is_some() { Vec::new() } else { joined };
        let recall_estimate = confirmed.as_ref().and_then(|confirmed| {
            settings.sketches.keyed().and_then(|_| {
                run(context.progress, Step::RecallEstimate, self.texts.sketched.len(), |_| {
                    let is_found = recall_estimate::is_among(&confirmed.pairs);
                    let known = Known { is_found: &is_found, ..Known::default() };
                    recall_estimate::estimate(settings.verification, settings.seed, evidence, &known)
                })
            })
        });
        let copies = |text| texts.copies(text).to_vec();
        let (groups, joined, verified) = match confirmed {
            Some(VerifiedPairs { pairs, compared, refused, skipped }) => {
                // Each text by itself: which of them are near is what verification has said.
                let near = group_pairs(pairs);
                let groups = Groups::new(texts.all().map(copies), collection, better);
                (groups, near, Some(Verified { compared, refused, skipped }))
            }
            None => {
                let near = group_pairs(joined);
                let sketched =
                    groups.iter().map(|texts| texts.iter().flat_map(|&text| copies(text)).collect());
                let all = sketched.chain(texts.unsketched.iter().map(|&text| copies(text)));
                (Groups::new(all, collection, better), near, None)
            }
        };
        let groups = groups.against(context.first_reference);
        Ok(Pairs { groups, joined, assigned: None, searched, verified, recall_estimate })
    }
}

/// True if documents that share a key are compared: a band hash, or a key of block-permuted tables.
fn has_keys(settings: &Settings) -> bool {
    settings.generator == Generator::Keys || settings.block_tables().is_some()
}

/// The near pairs of a run, of groups of documents, and the counts.
struct Pairs<'a> {
    groups: Groups<'a>,
    joined: Vec<GroupPair>,
    /// By group, the group that it is removed for, or itself if it is kept; none where linkage decides.
    assigned: Option<Vec<Group>>,
    searched: Searched,
    verified: Option<Verified>,
    recall_estimate: Option<RecallEstimate>,
}

/// Keep order of texts. Where it is the order of texts, as mostly, the lists are empty.
struct KeepOrder {
    texts: usize,
    /// The text of each rank.
    order: Vec<Text>,
    /// The rank of each text.
    ranks: Vec<Rank>,
}

impl KeepOrder {
    /// The order of `texts` texts by `compare`, the lesser one first.
    fn new(texts: usize, compare: impl Fn(Text, Text) -> Ordering + Sync) -> Self {
        let (mut order, mut ranks) = (Vec::new(), Vec::new());
        if !Text::all(texts).is_sorted_by(|&a, &b| compare(a, b).is_le()) {
            order.extend(Text::all(texts));
            order.par_sort_by(|&a, &b| compare(a, b));
            ranks.resize(texts, Rank::default());
            Rank::all(texts).zip(&order).for_each(|(rank, text)| ranks[text.index()] = rank);
        }
        Self { texts, order, ranks }
    }

    #[inline]
    fn text(&self, rank: Rank) -> Text {
        self.order.get(rank.index()).copied().unwrap_or(Text(rank.number()))
    }

    #[inline]
    fn rank(&self, text: Text) -> Rank {
        self.ranks.get(text.index()).copied().unwrap_or(Rank(text.number()))
    }

    fn len(&self) -> usize {
        self.texts
    }
}

/// The similarities of pairs whose features were counted, by their ranks: several maps, so that threads seldom wait.
#[derive(Default)]
struct CountedPairs([Mutex<HashMap<[Rank; 2], f32>>; 16]);

impl CountedPairs {
    fn similarity(&self, pair: [Rank; 2], count: impl FnOnce() -> f32) -> f32 {
        let map = &self.0[pair[0].index() % self.0.len()];
        let known = map.lock().unwrap_or_else(PoisonError::into_inner).get(&pair).copied();
        known.unwrap_or_else(|| {
            let similarity = count();
            map.lock().unwrap_or_else(PoisonError::into_inner).insert(pair, similarity);
            similarity
        })
    }
}

/// The texts of a run in memory with their keys, by rank.
struct InMemory<'a> {
    evidence: &'a Evidence<'a>,
    /// The keys of each text in block-permuted tables, `tables` for each, where texts have SimHashes; otherwise empty.
    keys: Vec<u32>,
    tables: usize,
    order: KeepOrder,
    /// Texts that are compared with others.
    compared: Bits,
    /// Number of texts that reference documents have, which come first.
    reference: u32,
    /// The similarities of pairs whose features were counted, by their ranks; none where sketches alone are compared.
    counted: Option<CountedPairs>,
}

impl<'a> InMemory<'a> {
    fn new(
        settings: &Settings,
        evidence: &'a Evidence<'a>,
        groups: &Groups<'_>,
        better: Better<'_>,
        blocks: Option<&BlockKeys>,
    ) -> Self {
        let leader = |text: Text| groups.leader(Group(text.0));
        let order = KeepOrder::new(evidence.texts.len(), |a, b| better(leader(a), leader(b)));
        let holds_reference = |rank: &Rank| groups.holds_reference(Group(order.text(*rank).0));
        let reference = Rank::all(order.len()).take_while(holds_reference).count() as u32;
        let is_compared = |text: Text| match blocks {
            Some(_) => evidence.hashed(text).is_some(),
            None => evidence.two(text).is_some(),
        };
        let mut compared = Bits::new(order.len() as u64);
        for &text in evidence.texts.sketched.iter().filter(|&&text| is_compared(text)) {
            compared.set(order.rank(text).number().into());
        }
        let tables = blocks.map_or(0, BlockKeys::tables);
        let keys = blocks.map_or_else(Vec::new, |blocks| {
            let keys = |at| blocks.keys(evidence.hash(order.text(Rank::at(at))).unwrap_or_default());
            (0..order.len()).into_par_iter().flat_map_iter(keys).collect()
        });
        let counts = settings.verification.measure().is_some_and(Measure::needs_features);
        let counted = (counts && !settings.keeps_feature_hashes()).then(CountedPairs::default);
        Self { evidence, keys, tables, order, compared, reference, counted }
    }

    /// The texts that are compared with others, in keep order.
    fn compared_ranks(&self) -> impl Iterator<Item = Rank> {
        Rank::all(self.order.len()).filter(|rank| self.compared.get(rank.number().into()))
    }

    fn sketches(&self, rank: Rank) -> Option<Two<'_>> {
        let text = self.order.text(rank);
        if self.tables == 0 {
            return self.evidence.two(text);
        }
        let hash = &self.evidence.hashed(text)?.hash;
        let keys = &self.keys[rank.index() * self.tables..][..self.tables];
        Some(Two { hash: *hash, bits: std::slice::from_ref(hash), keys, extra: &[] })
    }

    /// The feature hashes of a document.
    fn features(&self, rank: Rank) -> &[u32] {
        self.sketches(rank).map_or(&[], |two| two.extra)
    }

    fn facts(&self, rank: Rank) -> Facts {
        self.evidence.facts(self.order.text(rank))
    }
}

impl FeatureLists for InMemory<'_> {
    type Error = Error;
    type Held<'s>
        = &'s Self
    where
        Self: 's;

    fn ranks(&self) -> usize {
        self.order.len()
    }

    fn each_list(&self, each: &mut dyn FnMut(&[Listed<'_>])) -> Result<()> {
        let mut ranks = self.compared_ranks();
        loop {
            let some = ranks.by_ref().take(1 << 16);
            let lists: Vec<Listed<'_>> = some.map(|rank| (rank, self.features(rank))).collect();
            if lists.is_empty() {
                return Ok(());
            }
            each(&lists);
        }
    }

    fn lists(&self, _: &Bits) -> Result<&Self> {
        Ok(self)
    }

    fn hashes_at_once(&self) -> usize {
        usize::MAX
    }
}

impl FeatureHashes for &InMemory<'_> {
    fn list(&self, rank: Rank) -> &[u32] {
        self.features(rank)
    }

    fn hash(&self, rank: Rank) -> u64 {
        self.sketches(rank).map_or(0, |two| two.hash)
    }
}

impl Store for InMemory<'_> {
    type Error = Error;
    type Loaded<'s>
        = &'s Self
    where
        Self: 's;

    fn documents(&self) -> usize {
        self.order.len()
    }

    fn bands(&self) -> usize {
        self.compared_ranks().next().and_then(|rank| self.sketches(rank)).map_or(0, |two| two.keys.len())
    }

    fn each_key(&self, band: usize, each: &mut dyn FnMut(Rank, u32)) -> Result<()> {
        for rank in self.compared_ranks() {
            if let Some(two) = self.sketches(rank) {
                each(rank, two.keys[band]);
            }
        }
        Ok(())
    }

    fn load(&self, _: &Bits) -> Result<&Self> {
        Ok(self)
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn bands_at_once(&self) -> usize {
        rayon::current_num_threads()
    }

    /// None: to load takes nothing, and the members of all bands would take more memory than sketches.
    fn members_at_once(&self) -> usize {
        0
    }
}

impl buckets::SketchSource for &InMemory<'_> {
    type Shown<'p>
        = verification::ComparedText<'p>
    where
        Self: 'p;

    fn compared(&self, rank: Rank) -> verification::ComparedText<'_> {
        self.evidence.compared(self.order.text(rank))
    }

    fn two(&self, rank: Rank) -> Two<'_> {
        self.sketches(rank).unwrap_or(Two { hash: 0, bits: &[], keys: &[], extra: &[] })
    }

    fn similarity(&self, pair: [Rank; 2], count: impl FnOnce() -> f32) -> f32 {
        match &self.counted {
            Some(counted) => counted.similarity(pair, count),
            None => count(),
        }
    }
}

/// Turns near pairs of texts or slots into pairs of the groups with the same numbers. Both are of one size, so that the
/// list needs no more memory.
fn group_pairs<K: Id>(pairs: Vec<SimilarPair<K>>) -> Vec<GroupPair> {
    let group = |id: K| Group::new(id.number());
    let pair = |SimilarPair { a, b, distance, similarity }: SimilarPair<K>| SimilarPair {
        a: group(a),
        b: group(b),
        distance,
        similarity,
    };
    pairs.into_iter().map(pair).collect()
}

/// The findings of a run, before clusters are made of them.
#[doc(hidden)]
pub struct Found<'p> {
    prepared: &'p Prepared<'p>,
    evidence: Evidence<'p>,
    settings: &'p Settings,
    progress: &'p dyn Progress,
    better: Box<dyn Fn(Document, Document) -> Ordering + Sync + 'p>,
    source: &'p (dyn Fn(Document) -> u64 + Sync),
    pairs: Pairs<'p>,
}

impl Found<'_> {
    /// Every near pair of different texts that the run found, each text by its best copy, ascending. With keys some are
    /// left out, as of [`Outcome::pairs`].
    ///
    /// # Errors
    /// [`Error::Parameter`] if there are too many to list.
    pub fn text_pairs(&self) -> Result<Vec<Pair>> {
        let Pairs { groups, joined, .. } = &self.pairs;
        run(self.progress, Step::Pairs, joined.len(), |_| groups.text_pairs(joined))
    }

    /// Makes clusters of the near pairs, and lists pairs as the settings say.
    ///
    /// # Errors
    /// [`Error::Parameter`] if all pairs are to be listed and there are too many.
    pub fn outcome(self) -> Result<Outcome> {
        let all_pairs = self.settings.all_pairs;
        self.listing(|groups, joined| match all_pairs {
            true => groups.all_pairs(joined),
            false => Ok(groups.star_pairs(joined)),
        })
    }

    /// The outcome with [`text_pairs`](Self::text_pairs) listed, and so without pairs of exact duplicates.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there are too many to list.
    pub fn outcome_of_texts(self) -> Result<Outcome> {
        self.listing(|groups, joined| groups.text_pairs(joined))
    }

    fn listing(self, list: impl FnOnce(&Groups<'_>, &[GroupPair]) -> Result<Vec<Pair>>) -> Result<Outcome> {
        let Self { prepared, evidence, settings, progress, better, source, pairs } = self;
        let Pairs { groups, joined, assigned, searched, verified, recall_estimate } = pairs;
        let Prepared { texts, collection, .. } = prepared;
        let better: Better<'_> = &*better;
        let n = collection.len();
        let new = groups.first_reference.min(n);
        let (clusters, representatives, also) = run(progress, Step::Clusters, n, |_| {
            let mut partition = match &assigned {
                Some(assigned) => groups.partition_of(assigned),
                None => groups.partition(&joined, settings.linkage, settings.verification, better),
            };
            let mut clusters = partition.clusters();
            if new < n {
                // The members of a cluster ascend, so the first is new if any is.
                let of_new = clusters.iter().filter(|members| members[0].index() < new);
                clusters = of_new.map(|members| members.iter().copied()).collect();
            }
            let best = |members: &[Document]| match &assigned {
                // A document that represents others stays, though a better one may have been found for them later.
                Some(assigned) => {
                    let group = Group(texts.text_of(members[0]).0);
                    groups.leader(assigned[group.index()])
                }
                None => members.iter().copied().min_by(|&a, &b| better(a, b)).unwrap_or_default(),
            };
            let representatives = clusters.iter().map(best).collect::<Vec<_>>();
            let also = match settings.quota.is_one() {
                true => Vec::new(),
                false => groups.also_kept(settings.quota, &clusters, &representatives, better, source),
            };
            (clusters, representatives, also)
        });
        let pairs = run(progress, Step::Pairs, joined.len(), |_| list(&groups, &joined))?;
        let pairs_found = match &assigned {
            // What is near besides was not compared.
            Some(_) if !settings.all_pairs => pairs.len() as u64,
            _ => groups.count_pairs(&joined),
        };
        // Where containment decides, what documents are removed for was measured.
        let mut measured: HashMap<Group, f32> = HashMap::new();
        if let Some(assigned) = assigned.as_ref().filter(|_| settings.keeps_feature_hashes()) {
            for &GroupPair { a, b, similarity, .. } in &joined {
                let of =
                    [(a, b), (b, a)].into_iter().find(|(removed, kept)| assigned[removed.index()] == *kept);
                measured.extend(of.map(|(removed, _)| (removed, similarity)));
            }
        }
        drop(joined);
        let (measure, floor) = match (settings.cohesion(), collection.keeping()) {
            // There are no signatures to estimate from where features were kept, which tell it exactly.
            ((Measure::Estimate, floor), Keeping::Features) => (Measure::Jaccard, floor),
            (by, _) => by,
        };
        let cohesion = run(progress, Step::Cohesion, clusters.values().len(), |_| {
            let lists: Vec<&[Document]> = clusters.iter().collect();
            let group = |document: Document| Group(texts.text_of(document).0);
            let of = |(members, &kept): (&&[Document], &Document)| {
                let is_removed = |document: &&Document| {
                    **document != kept && document.index() < new && also.binary_search(document).is_err()
                };
                let size = |document: Document| evidence.facts(texts.text_of(document)).features;
                // The copy that leads stands for all copies of a text.
                let is_near = |document: Document| {
                    group(document) != group(kept) && groups.leader(group(document)) == document
                };
                let lost = |similarities: &[(f32, Document)]| {
                    let measure =
                        settings.verification.measure().filter(|&measure| Lost::is_measured_by(measure))?;
                    let near =
                        similarities.iter().filter(|(_, member)| is_removed(&member) && is_near(*member));
                    near.map(|&(alike, member)| Lost::of(measure, alike, [size(member), size(kept)]))
                        .reduce(Lost::with)
                };
                let cohesion = |similarities: Vec<(f32, Document)>| {
                    let lost = lost(&similarities).unwrap_or_default();
                    Cohesion { lost, ..Cohesion::of(similarities, floor as f32) }
                };
                if settings.keeps_feature_hashes() {
                    // A copy of the kept text was not compared.
                    let of = |&document: &Document| {
                        (measured.get(&group(document)).copied().unwrap_or(1.0), document)
                    };
                    return cohesion(members.iter().filter(is_removed).map(of).collect());
                }
                let anchor = evidence.anchor(measure, texts.text_of(kept));
                let with = |document: Document| anchor.with(&evidence.compared(texts.text_of(document)));
                let others = members.iter().filter(|&&member| member != kept);
                cohesion(others.map(|&member| (with(member), member)).collect())
            };
            lists.par_iter().zip(&representatives).map(of).collect()
        });
        let new_copies = |text| texts.copies(text).partition_point(|document| document.index() < new);
        let least = settings.min_features.max(1);
        let is_few = |document: &Document| (collection.facts(*document).features as usize) < least;
        let few = Document::all(new).filter(is_few).count() as u64;
        // All copies of a text are in one cluster, so all of them but one go, and but those that stay besides.
        let mut is_kept = vec![false; if also.is_empty() { 0 } else { n }];
        if !is_kept.is_empty() {
            representatives.iter().chain(&also).for_each(|document| is_kept[document.index()] = true);
        }
        let removed = |text| {
            let (of_new, of_reference) = texts.copies(text).split_at(new_copies(text));
            let stay = of_new.iter().filter(|copy| is_kept.get(copy.index()) == Some(&true)).count();
            of_new.len() - stay.max(usize::from(of_reference.is_empty()))
        };
        Ok(Outcome {
            documents: n,
            new,
            texts: texts.len(),
            exact_duplicates: texts.all().map(removed).sum(),
            documents_with_few_features: few,
            pairs_found,
            pairs,
            clusters,
            representatives,
            also,
            searched,
            verified,
            recall_estimate,
            cohesion,
            cohesion_by: (measure, floor),
        })
    }
}

impl Cohesion {
    /// Summarises the similarities of a cluster's documents with the kept one; those below `floor` are unlike it. The
    /// loss is left at 0. Without documents all is 0.
    pub fn of(mut similarities: Vec<(f32, Document)>, floor: f32) -> Self {
        similarities.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some(&(lowest, farthest)) = similarities.first() else { return Self::default() };
        Self {
            lowest,
            farthest,
            median: similarities[similarities.len() / 2].0,
            unlike: similarities.iter().filter(|(similarity, _)| *similarity < floor).count() as u64,
            lost: Lost::default(),
        }
    }
}

/// Makes a value of the features of each text that has enough. `maker` gives each thread what makes values.
fn by_text<T: Clone + Send, M: FnMut(Counted<'_>) -> Option<T>>(
    collection: &Collection,
    texts: &Texts,
    done: &(dyn Fn(u64) + Sync),
    maker: impl Fn() -> M + Sync,
) -> Vec<Option<T>> {
    let made: Vec<Option<T>> = texts
        .sketched
        .par_chunks(256)
        .flat_map_iter(|chunk| {
            let mut make = maker();
            done(chunk.len() as u64);
            chunk.iter().map(move |&text| make(collection.counted(texts.first(text))?))
        })
        .collect();
    let mut by_text = vec![None; texts.len()];
    for (&text, made) in texts.sketched.iter().zip(made) {
        by_text[text.index()] = made;
    }
    by_text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::Quota;
    use crate::clusters::{Linkage, Source};
    use crate::hash::{SplitMix64, fmix64};
    use crate::jaccard::{SetBits, estimate};
    use crate::search::bands::Banding;
    use crate::settings::{FARTHEST_KEYED, Generator, Recall, USUAL_HASH_BANDS};
    use crate::simhash::distance;
    use crate::similarity::{Anchor, ComparedDocument};
    use crate::sketch::{SketchValue, Sketcher};
    use crate::text::{FeatureExtractor, FeatureKind};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Texts of a few templates with a few words changed, copies among them, and some with hardly a word.
    fn texts(n: usize, seed: u64) -> Vec<String> {
        let mut rng = SplitMix64::new(seed);
        (0..n)
            .map(|_| {
                let template = rng.below(4);
                let words = 3 + rng.below(2) * 30;
                let mut text: Vec<String> = (0..words).map(|word| format!("t{template}w{word}")).collect();
                for _ in 0..rng.below(4) {
                    let at = rng.below(words) as usize;
                    text[at] = format!("x{}", rng.below(3));
                }
                text.join(" ")
            })
            .collect()
    }

    /// The settings with words as features; a document of fewer than four gets no sketch.
    fn of_words(settings: Settings) -> Settings {
        Settings { features: FeatureKind::Words, min_features: 4, ..settings }
    }

    fn sketches(settings: &Settings, texts: &[String]) -> Vec<Sketch> {
        let mut sketcher = Sketcher::new(settings, None).unwrap();
        texts.iter().map(|text| sketcher.sketch(text)).collect()
    }

    fn simhash(sketch: &Sketch) -> &Hashed {
        let SketchValue::SimHash(hashed) = &sketch.value else { unreachable!("SimHash was asked for") };
        hashed
    }

    fn run_on(settings: &Settings, texts: &[String]) -> Outcome {
        let mut deduper = Deduper::new(settings.clone()).unwrap();
        deduper.extend(texts);
        deduper.run().unwrap()
    }

    fn all_settings() -> Vec<Settings> {
        let base = || of_words(Settings::simhash());
        let mut all = vec![base(), Settings { verification: Verification::None, ..base() }];
        let both = || Settings { features: FeatureKind::Words, ..Settings::both(0.7) };
        all.push(both());
        all.push(Settings { generator: Generator::Join { distance: 12 }, ..both() });
        let one_bit = || Settings { features: FeatureKind::Words, ..Settings::one_bit(128, 0.7) };
        all.push(one_bit());
        all.push(Settings { generator: Generator::Join { distance: 12 }, ..one_bit() });
        for measure in Measure::VERIFYING {
            let verification = measure.at_least(0.8, Weighting::Tf);
            for settings in [base(), both()] {
                let settings = Settings { verification, keep: verification.usual_keep(), ..settings };
                all.extend(settings.check().is_ok().then_some(settings));
            }
        }
        for generator in [
            Generator::Dial { distance: 6, recall: Recall::Exact, key_bits: None },
            Generator::Bphs { distance: 3, tables: None },
            Generator::HashBands { distance: 8, banding: USUAL_HASH_BANDS },
        ] {
            all.push(Settings { generator, ..base() });
        }
        let minhash = || of_words(Settings::minhash(0.7));
        all.push(minhash());
        all.push(Settings { verification: Verification::Jaccard(0.7), ..minhash() });
        all.push(Settings {
            sketches: Sketches::SimHash { weighting: Weighting::TfIdf },
            verification: Verification::Cosine { at_least: 0.9, weighting: Weighting::TfIdf },
            ..base()
        });
        all
    }

    fn against(settings: &Settings, new: &[String], old: &[String]) -> Outcome {
        let mut deduper = Deduper::new(settings.clone()).unwrap();
        deduper.extend(&[new, old].concat());
        deduper.run_with(&Context::default().against(new.len())).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn what_reference_documents_hold_goes_from_the_new_ones(seed: u64, n in 0usize..24, m in 0usize..24) {
            let (new, old) = (texts(n, seed), texts(m, seed ^ 1));
            // Weights that depend on all documents make other pairs of fewer; and what contains a document is asked
            // among those that are left.
            let depends = |settings: &Settings| settings.needs_frequencies() || settings.keeps_feature_hashes();
            for settings in all_settings().into_iter().filter(|settings| !depends(settings)) {
                for linkage in [Linkage::Connected, Linkage::Star] {
                    let settings = Settings { linkage, all_pairs: true, ..settings.clone() };
                    if settings.check().is_err() {
                        continue;
                    }
                    let outcome = against(&settings, &new, &old);
                    let kept: Vec<usize> = outcome.kept().map(Id::index).collect();
                    let said = format!("{settings:?} {new:?} {old:?}");

                    // The twin: reference documents first, in one list, without a word of what they are.
                    let plain = run_on(&settings, &[&old[..], &new].concat());
                    let features = |text: &String| text.split(' ').collect::<BTreeSet<_>>().len() as u32;
                    let is_near_reference = |at: &usize| {
                        let of_it = plain.pairs.iter().filter(|pair| pair.a.index() < m && pair.b.index() == m + at);
                        let sizes = |pair: &Pair| [features(&old[pair.a.index()]), features(&new[*at])];
                        let may_go = |pair: &Pair, [kept, removed]: [u32; 2]| {
                            settings.verification.may_replace(pair.similarity, kept, removed)
                        };
                        of_it.into_iter().any(|pair| may_go(pair, sizes(pair)))
                    };
                    let expected: Vec<usize> = if linkage == Linkage::Connected {
                        plain.kept().map(Id::index).filter(|&at| at >= m).map(|at| at - m).collect()
                    } else {
                        let rest: Vec<usize> = (0..n).filter(|at| !is_near_reference(at)).collect();
                        let of_rest: Vec<String> = rest.iter().map(|&at| new[at].clone()).collect();
                        run_on(&settings, &of_rest).kept().map(|at| rest[at.index()]).collect()
                    };
                    prop_assert_eq!(&kept, &expected, "{}", &said);

                    prop_assert_eq!(outcome.removed(), n - kept.len());
                    prop_assert!(outcome.kept_mask()[n..].iter().all(|&is_kept| is_kept));
                    let seen = |at: &usize| old.contains(&new[*at]) || new[..*at].contains(&new[*at]);
                    prop_assert_eq!(outcome.exact_duplicates, (0..n).filter(seen).count());
                    prop_assert!(outcome.pairs.iter().all(|pair| pair.a.index() < n), "{}", &said);
                    prop_assert_eq!(outcome.pairs_found, outcome.pairs.len() as u64);
                    // Texts of reference documents are not compared with each other, whoever else has them.
                    let is_known = |at: usize| at < m || old.contains(&new[at - m]);
                    let is_listed = |pair: &Pair| {
                        let are_known = pair.documents().into_iter().all(|it| is_known(it.index()));
                        settings.generator != Generator::Keys || pair.kind == PairKind::Exact || !are_known
                    };
                    let of_new = plain.pairs.iter().filter(|pair| pair.b.index() >= m);
                    let of_new = of_new.filter(|pair| is_listed(pair)).count();
                    prop_assert_eq!(outcome.pairs.len(), of_new, "{}", &said);
                    for (members, &kept) in outcome.clusters.iter().zip(&outcome.representatives) {
                        prop_assert!(members.contains(&kept) && members[0].index() < n);
                        prop_assert_eq!(outcome.is_reference(kept), members.iter().any(|&it| outcome.is_reference(it)));
                    }
                    let fewer = Settings { all_pairs: false, ..settings };
                    if fewer.block_tables().is_some() {
                        // An index has found all pairs.
                        continue;
                    }
                    let listed = against(&fewer, &new, &old);
                    prop_assert_eq!(&listed.clusters, &outcome.clusters);
                    prop_assert!(listed.pairs.iter().all(|pair| outcome.pairs.contains(pair)));
                }
            }
        }

        #[test]
        fn as_many_stay_as_the_quota_says(
            seed: u64, n in 1usize..30, m in 0usize..8, count in 1u32..4, sources in 0u64..4,
        ) {
            let (new, old) = (texts(n, seed), texts(m, seed ^ 1));
            // Without sources the quota is of a whole cluster.
            let (each, sources) = ((sources > 0).then_some(Source::File), sources.max(1));
            let source_of = |document: Document| fmix64(seed ^ document.index() as u64) % sources;
            for linkage in [Linkage::Connected, Linkage::Star] {
                let one = Settings { linkage, keep: Keep::Longest, ..Settings::both(0.7) };
                let settings = Settings { quota: Quota { count, each }, ..one.clone() };
                let mut deduper = Deduper::new(settings).unwrap();
                deduper.extend(&[&new[..], &old[..]].concat());
                let context = Context::default().from_sources(&source_of).against(n);
                let outcome = deduper.run_with(&context).unwrap();
                let usual = against(&one, &new, &old);
                prop_assert_eq!(&outcome.clusters, &usual.clusters);
                prop_assert_eq!(&outcome.representatives, &usual.representatives);
                let is_kept = outcome.kept_mask();
                for (members, &best) in outcome.clusters.iter().zip(&outcome.representatives) {
                    let (of_new, of_reference): (Vec<Document>, Vec<Document>) =
                        members.iter().partition(|member| !outcome.is_reference(**member));
                    let length = |document: &Document| new[document.index()].len();
                    for source in 0..sources {
                        let is_of = |document: &&Document| each.is_none() || source_of(**document) == source;
                        let old = of_reference.iter().filter(is_of).count();
                        let (stay, go): (Vec<Document>, Vec<Document>) =
                            of_new.iter().filter(is_of).partition(|document| is_kept[document.index()]);
                        let most = (count as usize).saturating_sub(old);
                        prop_assert_eq!(stay.len(), most.min(stay.len() + go.len()));
                        // The best ones do.
                        let shortest = stay.iter().map(length).min().unwrap_or(usize::MAX);
                        prop_assert!(go.iter().all(|document| length(document) <= shortest));
                    }
                    prop_assert!(is_kept[best.index()]);
                }
                prop_assert_eq!(outcome.removed(), is_kept[..n].iter().filter(|is_kept| !**is_kept).count());
                // Copies that go, but for one of each text of which nothing stays.
                let all: Vec<&String> = new.iter().chain(&old).collect();
                let is_removed = |at: &usize| !is_kept[*at];
                let texts: BTreeSet<&String> = all.iter().copied().collect();
                let exact = texts.into_iter().map(|text| {
                    let copies = (0..n).filter(|&at| &new[at] == text).filter(is_removed).count();
                    let is_kept = (0..n + m).any(|at| all[at] == text && is_kept[at]);
                    copies - usize::from(copies > 0 && !is_kept)
                });
                prop_assert_eq!(outcome.exact_duplicates, exact.sum::<usize>());
            }
        }

        #[test]
        fn which_copy_stays_never_moves_an_old_document(seed: u64, n in 1usize..20, m in 1usize..20) {
            let (new, old) = (texts(n, seed), texts(m, seed ^ 1));
            for linkage in [Linkage::Connected, Linkage::Star] {
                let settings = Settings { linkage, features: FeatureKind::Words, ..Settings::both(0.7) };
                let outcome = against(&Settings { keep: Keep::Longest, ..settings.clone() }, &new, &old);
                let gone = |outcome: &Outcome| -> Vec<bool> {
                    let of = |members: &[Document]| outcome.is_reference(members[members.len() - 1]);
                    let mut gone = vec![false; n];
                    for members in outcome.clusters.iter().filter(|members| of(members)) {
                        members.iter().filter(|it| !outcome.is_reference(**it)).for_each(|it| gone[it.index()] = true);
                    }
                    gone
                };
                let first = against(&settings, &new, &old);
                // Around which reference document does not matter, and a star of new ones may differ.
                if linkage == Linkage::Connected {
                    prop_assert_eq!(gone(&outcome), gone(&first));
                }
                let is_longest = |(members, &kept): (&[Document], &Document)| {
                    let length = |it: &Document| new[it.index()].len();
                    outcome.is_reference(kept) || members.iter().all(|it| length(it) <= length(&kept))
                };
                prop_assert!(outcome.clusters.iter().zip(&outcome.representatives).all(is_longest));
            }
        }
    }

    /// Texts of many words, each followed by its first 50 to 90 %; and a short one that stands in two long ones.
    fn wholes_and_parts() -> Vec<String> {
        let words = |of: &str, n: usize| (0..n).map(|at| format!("{of}{at}")).collect::<Vec<_>>().join(" ");
        let mut texts: Vec<String> = Vec::new();
        for (whole, share) in (0..9).zip((50..=90).step_by(5)) {
            texts.push(words(&format!("document{whole}w"), 300));
            texts.push(words(&format!("document{whole}w"), 3 * share));
        }
        let quoted = words("quoted", 100);
        texts.extend([
            format!("{} {quoted}", words("one", 120)),
            format!("{quoted} {}", words("two", 130)),
            quoted,
        ]);
        texts
    }

    #[test]
    fn nothing_is_removed_for_a_document_that_holds_less_of_it() {
        let texts = wholes_and_parts();
        let mut extractor = FeatureExtractor::new(FeatureKind::Shingles(3));
        let features = |text: &String| {
            extractor.counts(text).into_iter().map(|(feature, _)| feature).collect::<BTreeSet<u64>>()
        };
        let sets: Vec<BTreeSet<u64>> = texts.iter().map(features).collect();
        let held = |part: usize, whole: usize| {
            sets[part].intersection(&sets[whole]).count() as f64 / sets[part].len() as f64
        };
        let wholes = |at: &usize| *at < 18 && at.is_multiple_of(2) || *at == 18 || *at == 19;
        let expected: Vec<usize> = (0..texts.len()).filter(wholes).collect();
        let counted = Settings { verification: Verification::Containment(0.9), ..Settings::removable() };
        let simhash = Settings {
            verification: Verification::Containment(0.9),
            features: FeatureKind::Shingles(3),
            generator: Generator::Dial { distance: 15, recall: Recall::Exact, key_bits: None },
            keep: Keep::Fullest,
            ..Settings::simhash()
        };
        for settings in [Settings::removable(), counted, simhash.clone()] {
            let finds_all = settings != simhash;
            for is_reversed in [false, true] {
                let at = |place: usize| if is_reversed { texts.len() - 1 - place } else { place };
                let ordered: Vec<String> = (0..texts.len()).map(|place| texts[at(place)].clone()).collect();
                let outcome = run_on(&settings, &ordered);
                for (members, &kept) in outcome.clusters.iter().zip(&outcome.representatives) {
                    for &member in members.iter().filter(|&&member| member != kept) {
                        let share = held(at(member.index()), at(kept.index()));
                        assert!(share > 0.8, "{share} of {member} stands in {kept}: {settings:?}");
                    }
                }
                if finds_all {
                    let mut kept: Vec<usize> = outcome.kept().map(|kept| at(kept.index())).collect();
                    kept.sort_unstable();
                    assert_eq!(kept, expected, "{settings:?}");
                }
            }
            // Old wholes remove their parts, and old parts remove nothing that holds more.
            let (wholes, parts): (Vec<usize>, Vec<usize>) = (0..texts.len()).partition(wholes);
            let of = |places: &[usize]| places.iter().map(|&at| texts[at].clone()).collect::<Vec<_>>();
            let left = against(&settings, &of(&wholes), &of(&parts));
            // Of these, parts of 85 and 90 % hold as much as the threshold asks for.
            let threshold = settings.verification.threshold().unwrap();
            let enough = wholes.iter().zip(&parts).filter(|&(&whole, &part)| held(whole, part) >= threshold);
            assert_eq!(left.removed(), enough.count(), "{settings:?}");
            // Leaders first, only pairs that remove a document are edges.
            assert!(
                settings.generator == Generator::Keys || left.pairs.len() > 5,
                "they are near all the same"
            );
            let gone = against(&settings, &of(&parts), &of(&wholes));
            assert!(gone.removed() == parts.len() || !finds_all && gone.removed() > 5, "{settings:?}");
        }
        let connected = Settings { linkage: Linkage::Connected, ..Settings::removable() };
        let refused = |settings: Settings| Deduper::new(settings).unwrap_err().to_string();
        let reported = refused(connected);
        assert!(reported.contains("clusters connected: expected star with"), "{reported}");
        for keep in [Keep::First, Keep::Longest] {
            let reported = refused(Settings { keep, ..simhash.clone() });
            assert!(reported.contains("expected fullest with --verify containment"), "{reported}");
        }
    }

    #[test]
    fn the_recall_of_titles_is_measured_as_it_is() {
        // Of two to seven words, every tenth of them twice; hardly a word is in two others.
        let mut rng = SplitMix64::new(1);
        let mut titles = Vec::new();
        for title in 0..8_000 {
            let words: Vec<String> =
                (0..2 + rng.below(6)).map(|_| format!("w{}", rng.below(30_000))).collect();
            titles.push(words.join(" "));
            if title % 10 == 0 {
                titles.push(words.join(", ").to_uppercase() + "!");
            }
        }
        for settings in [Settings::default(), Settings::both(0.5), Settings::removable()] {
            let outcome = run_on(&settings, &titles);
            assert!(outcome.pairs.len() >= 800, "{settings:?}");
            let recall_estimate = outcome.recall_estimate.unwrap();
            // Where containment decides, documents are counted, and no pairs.
            let counts_pairs = settings.verification.ones_are_same();
            assert!(
                recall_estimate.found == recall_estimate.pairs
                    && (recall_estimate.pairs > 150) == counts_pairs,
                "{recall_estimate:?} {settings:?}"
            );
            let documents = recall_estimate.documents.unwrap();
            assert!(documents.removed >= 800 && documents.missed == 0, "{documents:?}");
            assert!(documents.recall.share == 1.0 && documents.recall.low > 0.9, "{documents:?}");
        }
        // A run that finds less says so: of the pairs of 0.5 and more, those of 0.8 and more are found.
        let mut few = Settings::both(0.5);
        few.sketches = Sketches::Both { bits: 1024, banding: Banding { bands: 1, rows: 40 } };
        let cut: Vec<String> =
            (0..300).map(|document| (0..40).map(|at| format!("p{document}w{at} ")).collect()).collect();
        let cut: Vec<String> = cut
            .iter()
            .flat_map(|text: &String| [text.clone(), text[..text.len() * 7 / 10].to_owned()])
            .collect();
        let recall_estimate = run_on(&few, &cut).recall_estimate.unwrap();
        assert!(recall_estimate.pairs > 290 && recall_estimate.found < 100, "{recall_estimate:?}");
    }

    #[test]
    fn a_lower_threshold_finds_as_many_more_as_the_run_says() {
        // Of 30 shingles, which a sketch holds exactly, a copy shares all but the last few.
        let set = |documents: usize, every: usize| {
            let words = |at: usize, last: usize| {
                let own = |word: usize| {
                    if word < 34 - last { format!("d{at}w{word} ") } else { format!("e{at}w{word} ") }
                };
                (0..34).map(own).collect::<String>()
            };
            let copies = |at: usize| match at % every {
                0 => vec![words(at, 0), words(at, 4)], // 0.765
                1 => vec![words(at, 0), words(at, 3)], // 0.818
                2 => vec![words(at, 0), words(at, 6)], // 0.667
                _ => vec![words(at, 0)],
            };
            (0..documents).flat_map(copies).collect::<Vec<String>>()
        };
        for (documents, every) in [(2_000, 10), (9_000, 10), (9_000, 1_000)] {
            let texts = set(documents, every);
            let outcome = run_on(&Settings::default(), &texts);
            let more = documents / every;
            let removed = run_on(&Settings::both(0.7), &texts).removed() - outcome.removed();
            assert!(removed.abs_diff(more) <= more / 50, "{removed} {more}");
            let recall_estimate = outcome.recall_estimate.unwrap();
            let lower = recall_estimate.lower.unwrap();
            let (share, all) =
                (more as f64 / texts.len() as f64, recall_estimate.sampled == texts.len() as u64);
            assert_eq!((lower.similarity, all), (0.7, documents < 9_000));
            assert!(lower.share.low <= share && share <= lower.share.high, "{share} {lower:?}");
            assert!(!all || lower.more == more as u64 && lower.share.low == share, "{lower:?}");
            assert_eq!(lower.is_worth_reporting(), every == 10, "{lower:?}");
        }
        // Nothing is said where features are counted, or containment decides.
        let texts = set(100, 10);
        let counted = Settings { verification: Verification::Jaccard(0.8), ..Settings::default() };
        for settings in [counted, Settings::removable()] {
            assert_eq!(
                run_on(&settings, &texts).recall_estimate.and_then(|recall_estimate| recall_estimate.lower),
                None
            );
        }
    }

    #[test]
    fn the_highest_score_stays_and_no_number_is_the_lowest() {
        let texts: Vec<String> = vec!["one document of some words and more of them".to_owned(); 5];
        let kept = |keep: Keep, scores: [Option<f64>; 5]| {
            let mut deduper = Deduper::new(Settings { keep, ..Settings::default() }).unwrap();
            deduper.extend(&texts);
            let score = |document: Document| scores[document.index()];
            let outcome = deduper.run_with(&Context::default().scored(&score)).unwrap();
            outcome.kept().map(Id::number).collect::<Vec<_>>()
        };
        let by_score = || Keep::Score("quality".to_owned());
        assert_eq!(kept(by_score(), [None, Some(-7.0), Some(2.5), Some(f64::NAN), Some(2.0)]), [2]);
        assert_eq!(kept(by_score(), [None, None, None, None, Some(-1e300)]), [4]);
        assert_eq!(kept(by_score(), [Some(0.0), Some(-0.0), None, None, None]), [0]);
        assert_eq!(kept(by_score(), [None; 5]), [0]);
        assert_eq!(kept(Keep::InputOrder, [Some(-1.0), Some(0.0), Some(0.0), None, None]), [1]);
    }

    #[test]
    fn a_star_takes_what_is_near_an_old_document_that_is_near_another() {
        let document = |changed: &[usize]| {
            let word = |at| format!("{}{at}", if changed.contains(&at) { "changed" } else { "word" });
            (0..40).map(word).collect::<Vec<_>>().join(" ")
        };
        // The second reference document is near the first; the new one is near the second alone.
        let old = [document(&[]), document(&[0, 1, 2, 3])];
        let new = [document(&[0, 1, 2, 3, 4, 5, 6, 7])];
        for linkage in [Linkage::Star, Linkage::Connected] {
            let (verification, generator) = (Verification::Jaccard(0.8), Generator::Join { distance: 15 });
            let settings = Settings {
                linkage,
                verification,
                generator,
                features: FeatureKind::Words,
                ..Settings::simhash()
            };
            let outcome = against(&settings, &new, &old);
            assert_eq!((outcome.removed(), outcome.pairs.len()), (1, 1), "{linkage:?}");
            assert_eq!(outcome.pairs[0].documents(), [Document(0), Document(2)]);
        }
    }

    /// The pairs of texts that an outcome lists.
    fn text_pairs(outcome: &Outcome, texts: &[String]) -> BTreeSet<[String; 2]> {
        let of = |pair: &Pair| {
            let mut pair = pair.documents().map(|document| texts[document.index()].clone());
            pair.sort();
            pair
        };
        outcome.pairs.iter().filter(|pair| pair.kind == PairKind::Near).map(of).collect()
    }

    struct NaiveDocument {
        digest: u128,
        hashed: Hashed,
        features: Vec<u64>,
    }

    impl ComparedDocument for &NaiveDocument {
        fn digest(&self) -> u128 {
            self.digest
        }
        fn hashed(&self) -> Option<&Hashed> {
            Some(&self.hashed)
        }
        fn size(&self) -> u32 {
            self.features.len() as u32
        }
        fn features(&self, mut each: impl FnMut(u64, i64)) {
            self.features.iter().for_each(|&feature| each(feature, 1));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// All pairs of texts compared one by one, against the join with its verification.
        #[test]
        fn pairs_are_those_within_the_distance_that_pass(seed: u64, n in 2usize..24, h in 0u32..12, jaccard: bool) {
            let texts = texts(n, seed);
            let measure = if jaccard { Measure::Jaccard } else { Measure::Weights };
            let settings = of_words(Settings {
                generator: Generator::Join { distance: h },
                verification: measure.at_least(0.85, Weighting::Binary),
                ..Settings::simhash()
            });
            let outcome = run_on(&settings, &texts);
            let document = |(sketch, text): (&Sketch, &String)| {
                let counts = FeatureExtractor::new(settings.extraction()).counts(text);
                let features = counts.into_iter().map(|(feature, _)| feature).collect();
                NaiveDocument { digest: sketch.facts.digest, hashed: *simhash(sketch), features }
            };
            let documents: Vec<NaiveDocument> =
                sketches(&settings, &texts).iter().zip(&texts).map(document).collect();
            let mut expected = BTreeSet::new();
            for (a, b) in (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))) {
                let (p, q) = (&documents[a], &documents[b]);
                let near = p.digest != q.digest
                    && p.features.len() >= 4
                    && q.features.len() >= 4
                    && distance(p.hashed.hash, q.hashed.hash) <= h
                    && Anchor::new(measure, p).with(&q) >= 0.85;
                if near {
                    let mut pair = [texts[a].clone(), texts[b].clone()];
                    pair.sort();
                    expected.insert(pair);
                }
            }
            prop_assert_eq!(text_pairs(&outcome, &texts), expected);
        }

        /// Leaders first by the keys of block-permuted tables: whoever is removed is near a kept document before it,
        /// and no kept document is.
        #[test]
        fn keys_of_block_permuted_tables_miss_nothing(
            seed: u64, n in 2usize..60, old in 0usize..20, h in 0u32..=FARTHEST_KEYED, tables in 0usize..3, verified: bool,
        ) {
            let texts = texts(n + old, seed);
            let tables = [None, Some(h + 1), Some((h + 1) * (h + 1))][tables];
            let verification =
                if verified { Verification::Weights(0.95) } else { Verification::None };
            let generator = Generator::Bphs { distance: h, tables };
            let settings = of_words(Settings { generator, verification, ..Settings::simhash() });
            let outcome = against(&settings, &texts[..n], &texts[n..]);
            let Ran::Bphs { distance: within, .. } = outcome.searched.ran else { panic!("{:?}", outcome.searched) };
            prop_assert_eq!(within, h);
            let sketches = sketches(&settings, &texts);
            let near = |a: usize, b: usize| {
                let [one, two] = [a, b].map(|at| simhash(&sketches[at]));
                let sketched = [a, b].iter().all(|&at| sketches[at].facts.features >= 4);
                let passes = !verified || one.weights.cosine(&two.weights) >= 0.95;
                texts[a] == texts[b] || sketched && passes && distance(one.hash, two.hash) <= h
            };
            let is_kept = outcome.kept_mask();
            for (cluster, &kept) in Cluster::all(outcome.clusters.len()).zip(&outcome.representatives) {
                let members = outcome.clusters.get(cluster);
                prop_assert!(members.iter().all(|member| near(member.index(), kept.index())));
            }
            // Two that others were removed for may turn out to be near.
            let represents = |at: usize| outcome.representatives.contains(&Document::at(at));
            for (at, _) in is_kept[..n].iter().enumerate().filter(|(_, is_kept)| **is_kept) {
                let mut before = (0..at).filter(|&before| is_kept[before] && near(before, at));
                prop_assert!(before.all(|before| represents(before) && represents(at)), "{at}");
                prop_assert!((n..n + old).all(|old| !near(old, at)), "{at} is near a reference document");
            }
        }

        /// The same against bands of hashes, which find what agrees in one; and their scores, band by band.
        #[test]
        fn bands_of_hashes_bring_up_what_agrees_in_one(seed: u64, n in 2usize..40, h in 0u32..16, rows in 1usize..33) {
            let texts = texts(n, seed);
            let banding = Banding { bands: 64 / rows, rows };
            let settings = of_words(Settings {
                generator: Generator::HashBands { distance: h, banding },
                verification: Verification::None,
                // Three texts of one hash, as happens, would be a star.
                all_pairs: true,
                ..Settings::simhash()
            });
            let outcome = run_on(&settings, &texts);
            let mut distinct = texts.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let sketches = sketches(&settings, &distinct);
            let has_enough = |(sketch, _): &(&Sketch, &String)| sketch.facts.features >= 4;
            let sketched = sketches.iter().zip(&distinct).filter(has_enough);
            let hashes: Vec<(u64, &String)> =
                sketched.map(|(sketch, text)| (simhash(sketch).hash, text)).collect();
            let (mut expected, mut scores) = (BTreeSet::new(), vec![vec![0u64; 65]; banding.bands]);
            for (at, &(x, a)) in hashes.iter().enumerate() {
                for &(y, b) in &hashes[at + 1..] {
                    let bits = |hash: u64| format!("{hash:064b}");
                    let band = |hash: u64, band: usize| bits(hash)[band * rows..][..rows].to_owned();
                    let agree: Vec<usize> = (0..banding.bands).filter(|&k| band(x, k) == band(y, k)).collect();
                    let d = distance(x, y);
                    if d <= h && !agree.is_empty() {
                        expected.insert([a.clone(), b.clone()]);
                        agree.iter().for_each(|&band| scores[band][64 - d as usize] += 1);
                    }
                }
            }
            prop_assert_eq!(text_pairs(&outcome, &texts), expected);
            prop_assert_eq!(outcome.searched.scores.len(), banding.bands);
            for (reported, scores) in outcome.searched.scores.iter().zip(&scores) {
                for &(score, count) in &reported.counts {
                    prop_assert_eq!(count, scores[score as usize], "band {:?}, score {}", reported.table, score);
                }
            }
        }

        #[test]
        fn batches_and_sketches_give_what_texts_give(seed: u64, n in 1usize..30, cut in 0usize..30) {
            let texts = texts(n, seed);
            for settings in all_settings() {
                let whole = run_on(&settings, &texts);
                let (first, second) = texts.split_at(cut.min(n));
                let mut merged = Deduper::new(settings.clone()).unwrap();
                first.iter().for_each(|text| {
                    merged.push(text);
                });
                let mut other = Deduper::new(settings.clone()).unwrap();
                other.extend(second);
                merged.merge(other).unwrap();
                prop_assert_eq!(&merged.run().unwrap(), &whole);
                let mut sketched = Deduper::new(settings.clone()).unwrap();
                let mut sketcher = Sketcher::new(&settings, None).unwrap();
                let pushed: Result<Vec<Document>> =
                    texts.iter().map(|text| sketched.push_sketch(&sketcher.sketch(text))).collect();
                prop_assert_eq!(pushed.is_ok(), !settings.needs_features());
                if pushed.is_ok() {
                    prop_assert_eq!(sketched.run().unwrap(), whole);
                }
            }
        }

        /// The order of documents, and which of them stays, change no decision.
        #[test]
        fn decisions_depend_on_the_two_texts_alone(seed: u64, n in 1usize..40, by in 0usize..40) {
            let texts = texts(n, seed);
            let mut turned = texts.clone();
            turned.rotate_left(by % n);
            turned.reverse();
            for settings in all_settings().into_iter().filter(|settings| settings.verification != Verification::None) {
                // Which documents lead a bucket, and so which pairs are listed, is a matter of their order.
                let all_pairs = has_keys(&settings);
                // A document is contained in one that comes before it.
                let by_size = !settings.verification.ones_are_same();
                let settings = Settings { all_pairs, ..settings };
                let pairs = text_pairs(&run_on(&settings, &texts), &texts);
                prop_assert_eq!(&text_pairs(&run_on(&settings, &turned), &turned), &pairs);
                if by_size {
                    continue;
                }
                let longest = Settings { keep: Keep::Longest, ..settings };
                let outcomes = [&texts, &turned].map(|texts| (run_on(&longest, texts), texts));
                prop_assert_eq!(&text_pairs(&outcomes[0].0, &texts), &pairs);
                // Nor does it change which texts stay, where something else than the order decides.
                let [first, second] = outcomes.map(|(outcome, texts)| {
                    outcome.kept().map(|kept| texts[kept.index()].clone()).collect::<BTreeSet<_>>()
                });
                prop_assert_eq!(first, second);
            }
        }
    }

    /// More texts of one sketch than are all compared with each other.
    #[test]
    fn which_pairs_of_a_dense_group_are_compared_is_the_texts_own_affair() {
        // The features are the same, and so are the hashes.
        let words =
            |n: usize| (0..20).map(|word| format!("w{word}")).collect::<Vec<_>>().join(&" ".repeat(n + 1));
        let texts: Vec<String> = (0..60).map(words).collect();
        let settings = of_words(Settings::simhash());
        let outcome = run_on(&settings, &texts);
        let verified = outcome.verified.unwrap();
        assert_eq!(verified.compared + verified.skipped, 60 * 59 / 2);
        assert!(verified.skipped > 0 && verified.refused == 0);
        assert_eq!((outcome.clusters.len(), outcome.removed()), (1, 59));
        let mut turned = texts.clone();
        turned.reverse();
        assert_eq!(text_pairs(&run_on(&settings, &turned), &turned), text_pairs(&outcome, &texts));
    }

    #[test]
    fn a_text_without_words_has_a_sketch_that_fits() {
        for settings in [Settings::both(0.8), Settings::removable(), Settings::noisy(0.8)] {
            let sketch = Sketcher::new(&settings, None).unwrap().sketch("");
            assert!(Deduper::new(settings).unwrap().push_sketch(&sketch).is_ok());
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut deduper = Deduper::new(Settings::simhash()).unwrap();
        let signed = Sketcher::new(&Settings::minhash(0.8), None).unwrap().sketch("a text of some words");
        assert!(deduper.push_sketch(&signed).is_err());
        assert!(deduper.merge(Deduper::new(Settings::minhash(0.8)).unwrap()).is_err());
        let words = Settings { features: FeatureKind::Words, ..Settings::simhash() };
        assert!(deduper.merge(Deduper::new(words).unwrap()).is_err());
        let senseless = Settings { generator: Generator::Keys, ..Settings::simhash() };
        assert!(Deduper::new(senseless).is_err());
        assert_eq!(deduper.run().unwrap().pairs, []);
    }

    #[test]
    fn one_bit_of_each_position_judges_documents_that_share_a_key() {
        let settings = Settings { features: FeatureKind::Words, ..Settings::one_bit(192, 0.7) };
        let mut listed = 0;
        for seed in 0..20 {
            let texts = texts(40, seed);
            let sketches = sketches(&settings, &texts);
            let SketchValue::Both(first) = &sketches[0].value else { panic!("{:?}", sketches[0]) };
            assert_eq!((first.bits.len(), first.hash), (3, first.bits[0]));
            let mut expected = Vec::new();
            for (b, second) in sketches.iter().enumerate() {
                for (a, first) in sketches[..b].iter().enumerate() {
                    let (SketchValue::Both(one), SketchValue::Both(two)) = (&first.value, &second.value)
                    else {
                        unreachable!()
                    };
                    let [a_size, b_size] = [first, second].map(|sketch| f64::from(sketch.facts.features));
                    let at_most = (a_size.min(b_size) / a_size.max(b_size)) as f32;
                    let similarity = crate::minhash::one_bit::estimate(&one.bits, &two.bits).min(at_most);
                    let meet = one.keys.iter().zip(&two.keys).any(|(a, b)| a == b);
                    if first.facts.digest != second.facts.digest && meet && similarity >= 0.7 {
                        expected.push((a, b, (one.hash ^ two.hash).count_ones(), similarity));
                    }
                }
            }
            let outcome = run_on(&settings.clone().with(|it| it.all_pairs = true), &texts);
            let is_first = |at: usize| !texts[..at].contains(&texts[at]);
            let mut got: Vec<_> = outcome
                .pairs
                .iter()
                .filter(|pair| pair.kind == PairKind::Near)
                .map(|pair| (pair.a.index(), pair.b.index(), pair.distance, pair.similarity))
                .filter(|&(a, b, ..)| is_first(a) && is_first(b))
                .collect();
            got.sort_by_key(|&(a, b, ..)| (b, a));
            expected.retain(|&(a, b, ..)| is_first(a) && is_first(b));
            assert_eq!(got, expected, "{seed}");
            assert!(outcome.recall_estimate.is_some());
            listed += got.len();
        }
        assert!(listed > 100, "{listed}");
    }

    /// Documents of one template, each with a run of words of its own: all at one place, or each at a random one.
    fn of_template(documents: usize, is_moving: bool, seed: u64) -> Vec<String> {
        let mut rng = SplitMix64::new(seed);
        let document = |_| {
            let from = if is_moving { rng.below(228) } else { 100 };
            let word = |at: u64| match (from..from + 12).contains(&at) {
                true => format!("own{} ", rng.next_u64()),
                false => format!("template{at} "),
            };
            (0..240).map(word).collect()
        };
        (0..documents).map(document).collect()
    }

    #[test]
    #[ignore = "twenty large runs: .ci/nightly"]
    fn of_a_large_template_few_documents_more_are_kept_than_by_the_definition() {
        fn bits(two: &TwoSketches, features: u32) -> SetBits<'_> {
            SetBits::by_size(&two.bits, features)
        }
        for (documents, is_moving) in [(10_000, false), (10_000, true), (30_000, false), (30_000, true)] {
            for seed in 0..5 {
                let settings = Settings { seed, ..Settings::default() };
                let Verification::Estimate(least) = settings.verification else { unreachable!() };
                let texts = of_template(documents, is_moving, seed);
                let sketches = sketches(&settings, &texts);
                let two = |sketch: &Sketch| match &sketch.value {
                    SketchValue::Both(two) => (two.clone(), sketch.facts.features),
                    other => unreachable!("{other:?}"),
                };
                let mut greedy: Vec<(TwoSketches, u32)> = Vec::new();
                for (own, size) in sketches.iter().map(two) {
                    let is_near = |(kept, kept_size): &(TwoSketches, u32)| {
                        kept.keys.iter().zip(&own.keys).any(|(a, b)| a == b)
                            && estimate(bits(&own, size), bits(kept, *kept_size)) >= least as f32
                    };
                    if !greedy.iter().any(is_near) {
                        greedy.push((own, size));
                    }
                }
                let (outcome, greedy) = (run_on(&settings, &texts), greedy.len());
                let kept = documents - outcome.removed();
                assert!(
                    2 * kept <= 3 * greedy + 4,
                    "{documents} {is_moving} {seed}: {kept} kept, {greedy} by the definition"
                );
                assert!(outcome.pairs.len() <= documents, "{documents} {is_moving} {seed}");
            }
        }
    }

    #[test]
    fn cohesion_is_measured_by_what_was_kept() {
        let texts = texts(30, 5);
        let settings = of_words(Settings::minhash(0.7));
        let signed = run_on(&settings, &texts);
        let mut kept = Collection::new(settings.extraction(), Keeping::Features, None).unwrap();
        texts.iter().for_each(|text| {
            kept.push(text);
        });
        let context = Context::default();
        let prepared = Prepared::new(&kept, &settings, None, &());
        let counted = prepared.find(&settings, &context).unwrap().outcome().unwrap();
        assert_eq!((&counted.pairs, &counted.clusters), (&signed.pairs, &signed.clusters));
        assert_eq!((signed.cohesion_by.0, counted.cohesion_by.0), (Measure::Estimate, Measure::Jaccard));
        assert!(
            !counted.cohesion.is_empty() && counted.cohesion.iter().all(|cohesion| cohesion.lowest > 0.2)
        );
    }

    #[test]
    fn texts_with_few_features_are_compared_by_their_text_alone() {
        let texts = ["", "one", "one", "two", "One"].map(str::to_owned);
        let outcome = run_on(&Settings::simhash(), &texts);
        assert_eq!(outcome.documents_with_few_features, 5);
        assert_eq!(outcome.pairs.len(), 1);
        assert_eq!(outcome.pairs[0].documents(), [Document(1), Document(2)]);
        assert_eq!(outcome.pairs[0].kind, PairKind::Exact);
        assert_eq!(outcome.kept().collect::<Vec<_>>(), [0, 1, 3, 4].map(Document));
    }
}
