//! Finds near-duplicates among the documents that share a band hash, and decides which document each is removed for.
//! Keys of block-permuted tables ([`BlockKeys`](crate::search::bphs::BlockKeys)) are band hashes, too. A document has
//! one band hash, or key, for each *band*, a number from 0.
//!
//! The definition is a greedy pass over all candidate pairs in keep order: a document is removed if a kept document
//! before it shares a band hash with it and passes verification. Comparing all members of a bucket takes time with the
//! square of their number. Each bucket is visited in keep order instead, and a document is compared with the *leaders*
//! of the bucket alone: members that no earlier leader is near. The first near leader ends the search, and makes an
//! [`Edge`].
//!
//! A leader may itself be removed because of another bucket. A document all of whose edges lead to such leaders is
//! *open*. It is kept, and a further round compares it with the other documents of its buckets that are still kept.
//! Rounds end when one removes fewer than one document in 10,000. A document *represents* others if they are removed
//! for it. No later round removes it, and it comes first there, so that an open document may be removed for one behind
//! it.
//!
//! Documents have numbers in keep order ([`Rank`]). Reference documents come first. They are kept, and are not compared
//! with each other. In a run in memory a document here is a distinct text.
//!
//! The edges of a bucket depend on its members and their ranks alone. So bands may be joined by different threads or
//! machines, and sketches may be loaded in parts.

use crate::bits::Bits;
use crate::clusters::Linkage;
use crate::clusters::Partition;
use crate::collection::Two;
use crate::error::{Error, Result};
use crate::generator::{Capped, Ran, Scores, Searched};
use crate::id::{Id, Rank};
use crate::jaccard::{SetBits as SketchBits, contained};
use crate::kernel::huge_pages::untouched;
use crate::search::Cost;
use crate::search::bphs::BphsParams;
use crate::search::selfjoin::cosine_of_distance;
use crate::settings::{FARTHEST_KEYED, Forms, Generator, Measure, Settings, Verification};
use crate::similarity::{Anchor, ComparedDocument};
use crate::sketch::Hashed;
use hashbrown::HashSet;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::cmp::Ordering;

/// The most leaders of a bucket that a document is compared with, of reference documents and of others each. Where a
/// bucket has more, they are those whose other band hashes and bits come nearest to the document's in sorted order.
pub(crate) const BOUND: usize = 64;

/// The most leaders of a bucket among reference documents, and as many among others: their sketches are in memory
/// together. Members beyond it lead nothing in the bucket, and count as left out of each later comparison.
const MOST_LEADERS: usize = 1 << 12;

/// Members of a bucket up to which all pairs are compared, where all are to be listed.
const ALL_PAIRS: usize = 256;

/// The last round is the one that removes fewer than one in this number of documents.
const LAST_ROUND: u64 = 10_000;

/// The Jaccard similarity from which on documents are near-duplicates where containment decides. These are removed
/// before [contained ones](crate::containment).
const NEAR: f32 = 0.8;

/// The rule by which documents of a bucket are compared: verification, thresholds and linkage, taken from [`Settings`].
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    verification: Verification,
    /// None where the Hamming distance alone decides.
    measure: Option<Measure>,
    threshold: f32,
    /// The most bits in which SimHashes may differ, where keys are those of SimHashes.
    distance: Option<u32>,
    /// Where containment decides, the least share of the removed document that the kept one has. A Jaccard similarity
    /// of `threshold`, which bits estimate, is required besides.
    contained: Option<f32>,
    linkage: Linkage,
    all_pairs: bool,
}

/// Two near documents: one, and the leader that it may be removed for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The document that may be removed.
    pub document: Rank,
    /// The leader, or the earlier one of a pair that is only listed.
    pub leader: Rank,
    /// Similarity by verification's measure; without one, the cosine that the distance stands for.
    pub similarity: f32,
    /// Hamming distance of the hashes of the two ([`Two::hash`]), in bits.
    pub distance: u8,
    /// True if the edge counts when documents are assigned; false for a near pair that is only listed.
    pub decides: bool,
}

impl Edge {
    /// The document and the leader, by which edges are sorted.
    pub fn key(&self) -> (Rank, Rank) {
        (self.document, self.leader)
    }
}

/// Documents whose sketches are in memory, by rank.
pub trait SketchSource: Sync {
    /// A document as verification sees it.
    type Shown<'s>: ComparedDocument
    where
        Self: 's;

    /// The document of a rank as verification sees it. The rank must be one that was loaded.
    fn compared(&self, rank: Rank) -> Self::Shown<'_>;

    /// The SimHash, bits and band hashes of the document of a rank.
    fn two(&self, rank: Rank) -> Two<'_>;

    /// The similarity of two documents, which `count` gives. A source may remember it: the two may meet in each band.
    fn similarity(&self, _: [Rank; 2], count: impl FnOnce() -> f32) -> f32 {
        count()
    }
}

/// A document whose bits verification compares, or its SimHash if it has nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Sketched<'a> {
    /// The document's place in keep order.
    pub rank: Rank,
    /// Number of distinct features.
    pub features: u32,
    /// The SimHash, bits and band hashes.
    pub two: Two<'a>,
    /// The forms of the bits, which may depend on the number of features.
    pub forms: Forms,
    /// The SimHash with the weights behind it, where it is the only sketch; otherwise none.
    pub hashed: Option<&'a Hashed>,
}

impl ComparedDocument for Sketched<'_> {
    fn digest(&self) -> u128 {
        // Of exact duplicates only one is compared.
        u128::from(self.rank.number())
    }

    fn hashed(&self) -> Option<&Hashed> {
        self.hashed
    }

    fn bits(&self) -> Option<SketchBits<'_>> {
        let bits = SketchBits { words: self.two.bits, size: self.features, forms: self.forms };
        self.hashed.is_none().then_some(bits)
    }

    fn size(&self) -> u32 {
        self.features
    }

    fn extra(&self) -> Option<&[u32]> {
        Some(self.two.extra).filter(|extra| !extra.is_empty())
    }
}

/// A store of documents with their sketches, in memory or on disk, by rank.
pub trait Store: Sync {
    /// The error of reading.
    type Error: From<Error> + Send;
    /// Some documents whose sketches were loaded.
    type Loaded<'a>: SketchSource
    where
        Self: 'a;

    /// Number of all documents, compared or not. Ranks are below it.
    fn documents(&self) -> usize;

    /// Number of bands, and so of band hashes of a document.
    fn bands(&self) -> usize;

    /// Calls `each` with every document that is compared with others and its band hash in `band`, in any order. Of
    /// exact duplicates only the best one is compared with others.
    ///
    /// # Errors
    /// If they cannot be read.
    fn each_key(&self, band: usize, each: &mut dyn FnMut(Rank, u32)) -> Result<(), Self::Error>;

    /// Loads the sketches of the documents whose bits are set.
    ///
    /// # Errors
    /// If they cannot be read.
    fn load(&self, ranks: &Bits) -> Result<Self::Loaded<'_>, Self::Error>;

    /// The number of documents whose sketches may be loaded at once.
    fn room(&self) -> usize;

    /// The number of bands whose buckets may be made at once, even if every document is in a bucket of each.
    fn bands_at_once(&self) -> usize;

    /// The number of bucket members at which [`join`] adds no more bands to those that share one load of sketches.
    fn members_at_once(&self) -> usize;
}

/// Counts of the work on the buckets of some bands, and of their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// Number of visited buckets: of two documents or more, not all of the reference set. A bucket counts in each round
    /// that visits it.
    pub buckets: u64,
    /// Number of documents of the largest bucket.
    pub largest: u64,
    /// Pairs that were compared. A pair counts each time: in each band, in each round, and where its features are
    /// counted ([`containment`](crate::containment)). Comparisons that only list pairs do not count.
    pub compared: u64,
    /// Compared pairs that are below the threshold.
    pub refused: u64,
    /// Pairs of a document and a leader that were not compared, because the bucket had too many leaders.
    pub left_out: u64,
    /// The compared pairs, by their similarity. Where containment decides, it is the estimated Jaccard similarity, and
    /// pairs whose features were counted are left out.
    pub similarities: Similarities,
}

/// The number of pairs for each similarity, in whole percent, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Similarities([u64; PERCENTS]);

/// 0 to 100 percent.
const PERCENTS: usize = 101;

impl Default for Similarities {
    fn default() -> Self {
        Self([0; PERCENTS])
    }
}

impl Similarities {
    /// Counts a pair.
    fn add(&mut self, similarity: f32) {
        // In single precision, so that a threshold of .7 is 70 percent.
        self.0[((100.0 * similarity) as usize).min(PERCENTS - 1)] += 1;
    }

    /// The percents that have pairs, ascending, each with its number of pairs.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, u64)> {
        (0..).zip(self.0).filter(|&(_, pairs)| pairs > 0).collect::<Vec<_>>().into_iter()
    }
}

impl Serialize for Similarities {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Similarities {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut similarities = Self::default();
        for (percent, pairs) in Vec::<(u32, u64)>::deserialize(deserializer)? {
            let number = similarities.0.get_mut(percent as usize);
            *number.ok_or_else(|| serde::de::Error::custom("more than 100 percent"))? = pairs;
        }
        Ok(similarities)
    }
}

impl Statistics {
    /// Makes the report of a search by keys, for these settings and `texts` distinct texts that were compared.
    pub fn searched(&self, settings: &Settings, texts: u64) -> Searched {
        let counts = self.similarities.iter().collect();
        let (ran, bytes) = match (settings.block_tables(), settings.sketches.keyed()) {
            (Some(BphsParams { radius: distance, tables, .. }), _) => {
                (Ran::Bphs { distance, tables }, 8 + 4 * tables as usize)
            }
            (None, keyed) => {
                let (bits, bands) = keyed.map_or((0, 0), |(bits, banding)| (bits, banding.bands));
                (Ran::Keys { keys: if texts > 0 { bands as u32 } else { 0 } }, 4 * bands + bits / 8)
            }
        };
        Searched {
            ran,
            cost: Cost { probes: self.buckets, candidates: self.compared, verified: self.compared },
            index_bytes: texts * bytes as u64,
            distinct: texts,
            recall: None,
            capped: (self.left_out > 0)
                .then_some(Capped::Leaders { skipped: self.left_out, most: BOUND as u32 }),
            scores: if texts > 0 { vec![Scores { table: None, counts }] } else { Vec::new() },
        }
    }

    /// The sums of both; of the largest buckets the larger one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut similarities = self.similarities;
        similarities.0.iter_mut().zip(other.similarities.0).for_each(|(sum, pairs)| *sum += pairs);
        Self {
            buckets: self.buckets + other.buckets,
            largest: self.largest.max(other.largest),
            compared: self.compared + other.compared,
            refused: self.refused + other.refused,
            left_out: self.left_out + other.left_out,
            similarities,
        }
    }
}

/// The documents that a round may compare with each other.
#[derive(Clone, Copy)]
pub struct Round<'a> {
    /// The number of reference documents, which have the first ranks.
    reference: u32,
    /// None in the first round, which may compare all documents.
    later: Option<Later<'a>>,
}

/// The documents that matter in a round behind the first.
#[derive(Clone, Copy)]
struct Later<'a> {
    represents: &'a Bits,
    open: &'a Bits,
    /// None where only documents that are left are members.
    assignments: Option<&'a Assignments>,
}

impl Round<'_> {
    /// The first round, where the first `reference` ranks are of reference documents.
    pub fn first(reference: u32) -> Self {
        Self { reference, later: None }
    }

    fn is_reference(&self, rank: Rank) -> bool {
        rank.number() < self.reference
    }

    /// True if a document represents others, so that it is kept.
    fn represents(&self, rank: Rank) -> bool {
        self.later.is_some_and(|later| later.represents.get(u64::from(rank.number())))
    }

    fn is_open(&self, rank: Rank) -> bool {
        self.later.is_none_or(|later| later.open.get(u64::from(rank.number())))
    }

    /// True if a document is still kept.
    fn is_left(&self, rank: Rank) -> bool {
        self.later.and_then(|later| later.assignments).is_none_or(|assignments| assignments.is_kept(rank))
    }
}

/// Orders sketches by the band hashes behind a band, the bits, and the band hashes before it.
fn compare_after(a: Two<'_>, b: Two<'_>, band: usize) -> Ordering {
    a.keys[band + 1..]
        .cmp(&b.keys[band + 1..])
        .then_with(|| a.bits.cmp(b.bits))
        .then_with(|| a.keys[..band].cmp(&b.keys[..band]))
}

/// The leaders that a bucket has so far, of one sort.
#[derive(Default)]
struct Leaders {
    /// By rank; once they are more than [`BOUND`], in the order of their sketches.
    ranks: Vec<Rank>,
    /// Members that would lead if there were not [`MOST_LEADERS`] already.
    beyond: u64,
}

impl Leaders {
    fn push(&mut self, rank: Rank, band: usize, sketches: &impl SketchSource) {
        let two = |rank| sketches.two(rank);
        match self.ranks.len() {
            0..BOUND => self.ranks.push(rank),
            BOUND => {
                self.ranks.push(rank);
                self.ranks.sort_unstable_by(|&a, &b| compare_after(two(a), two(b), band).then(a.cmp(&b)));
            }
            MOST_LEADERS.. => self.beyond += 1,
            _ => self.ranks.insert(self.place(rank, band, sketches), rank),
        }
    }

    /// The place of a document among more than [`BOUND`] leaders.
    fn place(&self, rank: Rank, band: usize, sketches: &impl SketchSource) -> usize {
        let own = sketches.two(rank);
        self.ranks.partition_point(|&leader| {
            compare_after(sketches.two(leader), own, band).then(leader.cmp(&rank)).is_lt()
        })
    }

    /// The leaders that a document is compared with: all, or the nearest ones in the order of sketches.
    fn candidates(&self, rank: Rank, band: usize, sketches: &impl SketchSource) -> &[Rank] {
        let all = self.ranks.len();
        if all <= BOUND {
            return &self.ranks;
        }
        let from = self.place(rank, band, sketches).saturating_sub(BOUND / 2).min(all - BOUND);
        &self.ranks[from..from + BOUND]
    }
}

/// A bucket while its members come one by one, in keep order.
struct Bucket {
    band: usize,
    reference: Leaders,
    own: Leaders,
}

impl Bucket {
    /// A bucket of a band, without members.
    fn of(band: usize) -> Self {
        Self { band, reference: Leaders::default(), own: Leaders::default() }
    }

    /// All leaders.
    fn leaders(&self) -> impl Iterator<Item = Rank> {
        self.reference.ranks.iter().chain(&self.own.ranks).copied()
    }
}

/// The edges of some buckets, and the cost.
#[derive(Default)]
struct BucketEdges {
    edges: Vec<Edge>,
    statistics: Statistics,
}

impl BucketEdges {
    /// The two together.
    fn and(mut self, other: Self) -> Self {
        self.edges.extend(other.edges);
        Self { statistics: self.statistics.and(other.statistics), ..self }
    }
}

impl Rule {
    /// The rule of these settings.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless documents have band hashes or keys of block-permuted tables, and as
    /// [`Settings::check`].
    pub fn new(settings: &Settings) -> Result<Self> {
        let distance = settings.block_tables().map(|tables| tables.radius);
        let has_keys = settings.sketches.keyed().is_some() && settings.generator == Generator::Keys;
        if !has_keys && distance.is_none() {
            let expected = format!(
                "keys with --method both or minhash, or bphs with --method simhash and --distance {FARTHEST_KEYED} \
                 or less"
            );
            return Err(Error::parameter("search", settings.generator.name(), expected));
        }
        settings.check()?;
        let verification = settings.verification;
        let rule = Self {
            verification,
            measure: verification.measure(),
            threshold: verification.threshold().unwrap_or_default() as f32,
            distance,
            contained: None,
            linkage: settings.linkage,
            all_pairs: settings.all_pairs,
        };
        Ok(match rule.measure {
            Some(Measure::Containment) if has_keys => Self {
                measure: Some(Measure::Estimate),
                threshold: NEAR,
                contained: Some(rule.threshold),
                ..rule
            },
            _ => rule,
        })
    }

    /// The least share of the removed document's features that the kept one has; none where containment does not
    /// decide.
    pub fn contained(&self) -> Option<f32> {
        self.contained
    }

    /// A document ready to be compared with many, if a measure decides.
    fn anchor<P: ComparedDocument>(&self, document: P) -> Option<Anchor<P>> {
        self.measure.map(|measure| Anchor::new(measure, document).at_least(f64::from(self.threshold)))
    }

    /// The similarity of two documents of these sizes by verification's measure, from the compared one; none if they
    /// are not near.
    fn near(&self, similarity: f32, sizes: [u32; 2]) -> Option<f32> {
        let is_near = similarity >= self.threshold;
        match self.contained {
            None => is_near.then_some(similarity),
            Some(least) => Some(contained(similarity, sizes)).filter(|&share| is_near && share >= least),
        }
    }

    /// Compares members of a bucket, which come in keep order, and adds their edges.
    fn compare<S: SketchSource>(
        &self,
        round: &Round<'_>,
        members: &[Rank],
        bucket: &mut Bucket,
        sketches: &S,
        found: &mut BucketEdges,
    ) {
        let BucketEdges { edges, statistics } = found;
        let band = bucket.band;
        for &rank in members {
            if round.is_reference(rank) {
                bucket.reference.push(rank, band, sketches);
                continue;
            }
            if round.represents(rank) {
                bucket.own.push(rank, band, sketches);
                continue;
            }
            let (compared, own, is_open) = (sketches.compared(rank), sketches.two(rank), round.is_open(rank));
            let size = compared.size();
            let anchor = LazyCell::new(|| self.anchor(compared));
            let mut is_near = false;
            for leaders in [&bucket.reference, &bucket.own] {
                let candidates = leaders.candidates(rank, band, sketches);
                statistics.left_out += leaders.beyond + (leaders.ranks.len() - candidates.len()) as u64;
                for &leader in candidates {
                    if is_near && self.linkage == Linkage::Star {
                        break;
                    }
                    if !is_open && !round.is_open(leader) {
                        continue;
                    }
                    let (other, two) = (sketches.compared(leader), sketches.two(leader));
                    let distance = (own.hash ^ two.hash).count_ones();
                    if self.distance.is_some_and(|most| distance > most) {
                        continue;
                    }
                    let count = || similarity(anchor.as_ref(), &other, distance);
                    let similarity = sketches.similarity([rank, leader], count);
                    statistics.compared += 1;
                    statistics.similarities.add(similarity);
                    match self.near(similarity, [other.size(), size]) {
                        None => statistics.refused += 1,
                        Some(similarity) if self.verification.may_replace(similarity, other.size(), size) => {
                            is_near = true;
                            let distance = distance as u8;
                            edges.push(Edge { document: rank, leader, similarity, distance, decides: true });
                        }
                        Some(_) => {}
                    }
                }
            }
            if !is_near {
                bucket.own.push(rank, band, sketches);
            }
        }
    }

    /// Adds the near pairs of a bucket that are no edges.
    fn list_all<S: SketchSource>(
        &self,
        round: &Round<'_>,
        members: &[Rank],
        sketches: &S,
        edges: &mut Vec<Edge>,
    ) {
        for (at, &document) in members.iter().enumerate() {
            if round.is_reference(document) {
                continue;
            }
            let (own, compared) = (sketches.two(document), sketches.compared(document));
            let size = compared.size();
            let anchor = LazyCell::new(|| self.anchor(compared));
            for &leader in &members[..at] {
                let other = sketches.compared(leader);
                let distance = (own.hash ^ sketches.two(leader).hash).count_ones();
                let count = || similarity(anchor.as_ref(), &other, distance);
                let similarity = sketches.similarity([document, leader], count);
                if let Some(similarity) = self.near(similarity, [other.size(), size]) {
                    let distance = distance as u8;
                    edges.push(Edge { document, leader, similarity, distance, decides: false });
                }
            }
        }
    }
}

/// The similarity of a document to another: by the measure, or else the cosine that their distance stands for.
fn similarity<P: ComparedDocument>(
    anchor: Option<&Anchor<P>>,
    other: &impl ComparedDocument,
    distance: u32,
) -> f32 {
    anchor.map_or_else(|| cosine_of_distance(distance), |anchor| anchor.with(other))
}

/// A document of a bucket that another program made, such as Spark.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The sketches. The rank is the document's place among the members.
    pub sketched: Sketched<'a>,
    /// True if others are removed for the document, so that it is kept.
    pub represents: bool,
    /// True if the document is kept so far, and all its edges lead to documents that are removed.
    pub is_open: bool,
}

/// Members of one bucket.
impl SketchSource for &[Member<'_>] {
    type Shown<'s>
        = Sketched<'s>
    where
        Self: 's;

    fn compared(&self, rank: Rank) -> Sketched<'_> {
        self[rank.index()].sketched
    }

    fn two(&self, rank: Rank) -> Two<'_> {
        self[rank.index()].sketched.two
    }
}

impl Rule {
    /// The edges of one bucket of a band. `members` are all its members in keep order, and none counts as a reference
    /// document. Edges name them by their places, from 0. In a round behind the first those that represent others come
    /// first.
    pub fn edges_of(&self, band: usize, members: &[Member<'_>], is_first_round: bool) -> Vec<Edge> {
        let of = |is: fn(&Member<'_>) -> bool| {
            let mut bits = Bits::new(members.len() as u64);
            (0..).zip(members).filter(|(_, member)| is(member)).for_each(|(at, _)| bits.set(at));
            bits
        };
        let (represents, open) = (of(|member| member.represents), of(|member| member.is_open));
        let later = Later { represents: &represents, open: &open, assignments: None };
        let round = Round { reference: 0, later: (!is_first_round).then_some(later) };
        let ranks: Vec<Rank> = Rank::all(members.len()).collect();
        let mut found = BucketEdges::default();
        self.compare(&round, &ranks, &mut Bucket::of(band), &members, &mut found);
        found.edges
    }
}

/// A filter for numbers that come more than once. It has two bits for each remainder of the numbers: one says that a
/// number with this remainder came, and one that another came. So it may take a number for repeated that is not.
pub struct Repeats {
    words: Vec<u64>,
    mask: u64,
}

impl Repeats {
    /// Remainders of a word.
    const EACH: u64 = u64::BITS as u64 / 2;

    /// Makes a filter for about `numbers` numbers: four to eight bytes each, so that few are wrongly taken for
    /// repeated.
    pub fn new(numbers: usize) -> Self {
        let remainders = (numbers as u64 * 16).next_power_of_two().clamp(Self::EACH, 1 << 36);
        Self { words: untouched(remainders.div_ceil(Self::EACH) as usize), mask: remainders - 1 }
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let at = number & self.mask;
        ((at / Self::EACH) as usize, at % Self::EACH * 2)
    }

    /// Notes that a number came. It takes no branch, so that several words are on their way from memory at a time.
    pub fn note(&mut self, number: u64) {
        let (at, bit) = self.place(number);
        let came = self.words[at] >> bit & 1;
        self.words[at] |= (1 | came << 1) << bit;
    }

    /// True if a number may have come twice; false if it has not.
    pub fn may_repeat(&self, number: u64) -> bool {
        let (at, bit) = self.place(number);
        self.words[at] >> bit & 2 != 0
    }
}

/// The members of the buckets of a band that have two or more, ascending: the upper 32 bits are the band hash, and the
/// lower ones the rank.
fn members_of<S: Store>(store: &S, band: usize, round: &Round<'_>) -> Result<Vec<u64>, S::Error> {
    let entry = |rank: Rank, key: u32| u64::from(key) << 32 | u64::from(rank.number());
    let mut members = Vec::new();
    match round.later {
        None => {
            let mut repeats = Repeats::new(store.documents());
            store.each_key(band, &mut |_, key| repeats.note(u64::from(key)))?;
            store.each_key(band, &mut |rank, key| {
                if repeats.may_repeat(u64::from(key)) {
                    members.push(entry(rank, key));
                }
            })?;
        }
        Some(_) => {
            let mut asked = HashSet::new();
            store.each_key(band, &mut |rank, key| {
                if round.is_open(rank) {
                    asked.insert(key);
                }
            })?;
            store.each_key(band, &mut |rank, key| {
                if round.is_left(rank) && asked.contains(&key) {
                    members.push(entry(rank, key));
                }
            })?;
        }
    }
    members.sort_unstable();
    // Documents that are alone, and reference documents among themselves, are compared with nobody.
    let mut kept = 0;
    let mut at = 0;
    while at < members.len() {
        let key = members[at] >> 32;
        let end = at + members[at..].iter().take_while(|&&member| member >> 32 == key).count();
        if end - at > 1 && !round.is_reference(Rank::new(members[end - 1] as u32)) {
            members.copy_within(at..end, kept);
            kept += end - at;
        }
        at = end;
    }
    members.truncate(kept);
    Ok(members)
}

/// Sets the bits of the members of some buckets.
fn add_to(buckets: &[&[u64]], ranks: &mut Bits) {
    buckets.iter().copied().flatten().for_each(|&member| ranks.set(member & u64::from(u32::MAX)));
}

/// The members of a bucket in the order in which they are visited.
fn in_order(members: &[u64], round: &Round<'_>, ranks: &mut Vec<Rank>) {
    ranks.clear();
    ranks.extend(members.iter().map(|&member| Rank::new(member as u32)));
    if round.later.is_some() {
        // Documents that represent others come before those that do not.
        ranks.sort_by_key(|&rank| (!round.is_reference(rank), !round.represents(rank)));
    }
}

/// Compares the documents of each bucket of some bands. `done` gets each band of `bands`, in order, with its edges,
/// sorted by [`Edge::key`] and each once, and with its counts.
///
/// # Errors
/// If sketches cannot be read, or if `done` fails.
pub fn join<S: Store>(
    store: &S,
    rule: &Rule,
    round: &Round<'_>,
    bands: &[usize],
    mut done: impl FnMut(usize, Vec<Edge>, Statistics) -> Result<(), S::Error>,
) -> Result<(), S::Error> {
    let mut left = bands;
    while !left.is_empty() {
        let mut members: Vec<Vec<u64>> = Vec::new();
        // Each load costs about as much as a pass over all sketches, so it is for as many bands as have room.
        while members.len() < left.len()
            && (members.is_empty() || members.iter().map(Vec::len).sum::<usize>() < store.members_at_once())
        {
            let next = &left[members.len()..];
            let next = &next[..store.bands_at_once().clamp(1, next.len())];
            let more: Result<Vec<_>, _> =
                next.par_iter().map(|&band| members_of(store, band, round)).collect();
            members.extend(more?);
        }
        let some;
        (some, left) = left.split_at(members.len());
        let lists: Vec<Vec<&[u64]>> =
            members.iter().map(|of_band| of_band.chunk_by(|a, b| a >> 32 == b >> 32).collect()).collect();
        let mut ranks = Bits::new(store.documents() as u64);
        lists.iter().for_each(|list| add_to(list, &mut ranks));
        if ranks.count() <= store.room() as u64 {
            let loaded = store.load(&ranks)?;
            drop(ranks);
            // As many at a time as there are threads, for edges take memory.
            let threads = rayon::current_num_threads();
            for (some, lists) in some.chunks(threads).zip(lists.chunks(threads)) {
                let made: Vec<_> = some
                    .par_iter()
                    .zip(lists)
                    .map(|(&band, list)| of_buckets(rule, band, round, list, &loaded))
                    .collect();
                for (&band, BucketEdges { edges, statistics }) in some.iter().zip(made) {
                    done(band, sorted(edges), statistics)?;
                }
            }
        } else {
            drop(ranks);
            for (&band, list) in some.iter().zip(&lists) {
                let BucketEdges { edges, statistics } = in_parts(store, rule, band, round, list)?;
                done(band, sorted(edges), statistics)?;
            }
        }
    }
    Ok(())
}

/// Edges in order, each once.
fn sorted(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.par_sort_unstable_by_key(|edge| (edge.key(), !edge.decides));
    edges.dedup_by_key(|edge| edge.key());
    edges
}

/// The edges of buckets whose sketches are loaded.
fn of_buckets<S: SketchSource>(
    rule: &Rule,
    band: usize,
    round: &Round<'_>,
    buckets: &[&[u64]],
    sketches: &S,
) -> BucketEdges {
    let of = |buckets: &[&[u64]]| {
        let (mut found, mut ranks) = (BucketEdges::default(), Vec::new());
        for members in buckets {
            in_order(members, round, &mut ranks);
            found.statistics.buckets += 1;
            found.statistics.largest = found.statistics.largest.max(members.len() as u64);
            rule.compare(round, &ranks, &mut Bucket::of(band), sketches, &mut found);
            if rule.all_pairs && members.len() <= ALL_PAIRS && round.later.is_none() {
                rule.list_all(round, &ranks, sketches, &mut found.edges);
            }
        }
        found
    };
    let parts: Vec<BucketEdges> = buckets.par_chunks(1 << 10).map(of).collect();
    parts.into_iter().fold(BucketEdges::default(), BucketEdges::and)
}

/// The edges of buckets that are loaded some at a time, and a bucket that is too large some members at a time.
fn in_parts<S: Store>(
    store: &S,
    rule: &Rule,
    band: usize,
    round: &Round<'_>,
    mut buckets: &[&[u64]],
) -> Result<BucketEdges, S::Error> {
    let mut all = BucketEdges::default();
    while let Some(first) = buckets.first() {
        let mut members = 0;
        let fits = |bucket: &&&[u64]| {
            members += bucket.len();
            members <= store.room()
        };
        let number = buckets.iter().take_while(fits).count();
        if number > 0 {
            let (some, rest) = buckets.split_at(number);
            let mut ranks = Bits::new(store.documents() as u64);
            add_to(some, &mut ranks);
            all = all.and(of_buckets(rule, band, round, some, &store.load(&ranks)?));
            buckets = rest;
            continue;
        }
        let mut ranks = Vec::new();
        in_order(first, round, &mut ranks);
        let statistics = Statistics { buckets: 1, largest: first.len() as u64, ..Statistics::default() };
        let (mut bucket, mut found) = (Bucket::of(band), BucketEdges { edges: Vec::new(), statistics });
        for some in ranks.chunks(store.room().saturating_sub(2 * MOST_LEADERS).max(1 << 10)) {
            let mut ranks = Bits::new(store.documents() as u64);
            bucket.leaders().chain(some.iter().copied()).for_each(|rank| ranks.set(u64::from(rank.number())));
            let loaded = store.load(&ranks)?;
            rule.compare(round, some, &mut bucket, &loaded, &mut found);
        }
        all = all.and(found);
        buckets = &buckets[1..];
    }
    Ok(all)
}

/// Adds edges to others. Both are sorted by [`Edge::key`] and have each key once, and so has the result. Of two edges
/// with a key that of `more` stays, and decides if either does.
pub fn merge(all: &mut Vec<Edge>, more: Vec<Edge>) {
    all.reserve_exact(more.len());
    all.extend(more);
    // The sort finds two runs, and merges them.
    all.sort_by_key(Edge::key);
    all.dedup_by(|later, before| {
        if later.key() != before.key() {
            return false;
        }
        // Of a pair that was compared twice, what was counted later is exact.
        *before = Edge { decides: before.decides || later.decides, ..*later };
        true
    });
}

/// Adds the edges of a later round to those before it, both sorted. Of a pair that both have, in either direction, the
/// later edge is kept.
pub fn merge_later(all: &mut Vec<Edge>, later: Vec<Edge>) {
    if !later.is_empty() {
        all.retain(|edge| !has_pair(&later, edge));
        merge(all, later);
    }
}

/// True if sorted edges have the pair of an edge, in either direction.
pub fn has_pair(edges: &[Edge], edge: &Edge) -> bool {
    let (document, leader) = edge.key();
    [(document, leader), (leader, document)]
        .iter()
        .any(|key| edges.binary_search_by_key(key, Edge::key).is_ok())
}

/// The assignment of each document: kept, or the kept document that it is removed for.
#[derive(Clone, Debug)]
pub struct Assignments {
    reference: u32,
    linkage: Linkage,
    /// The document that each is removed for; itself, if it is kept.
    leader: Vec<Rank>,
    /// Similarity with that document; no number where the two were not compared.
    similarity: Vec<f32>,
    /// Hamming distance from it.
    distance: Vec<u8>,
    /// Documents that others are removed for.
    represents: Bits,
}

impl Assignments {
    /// Makes assignments that keep all documents. The first `reference` ranks are of reference documents.
    pub fn new(documents: usize, reference: u32, linkage: Linkage) -> Self {
        Self {
            reference,
            linkage,
            leader: Rank::all(documents).collect(),
            similarity: vec![f32::NAN; documents],
            distance: vec![0; documents],
            represents: Bits::new(documents as u64),
        }
    }

    /// True if a document is kept.
    pub fn is_kept(&self, rank: Rank) -> bool {
        self.leader[rank.index()] == rank
    }

    /// The document that one is removed for, or itself.
    pub fn leader(&self, rank: Rank) -> Rank {
        self.leader[rank.index()]
    }

    /// The edge by which a document is removed; none if it is kept, or was not compared with the document that it is
    /// removed for.
    pub fn edge(&self, document: Rank) -> Option<Edge> {
        let (leader, similarity) = (self.leader(document), self.similarity[document.index()]);
        let distance = self.distance[document.index()];
        let edge = Edge { document, leader, similarity, distance, decides: true };
        (leader != document && !similarity.is_nan()).then_some(edge)
    }

    /// True if a document is a reference document.
    pub(crate) fn is_reference(&self, rank: Rank) -> bool {
        rank.number() < self.reference
    }

    /// True if others are removed for a document.
    pub fn represents(&self, rank: Rank) -> bool {
        self.represents.get(u64::from(rank.number()))
    }

    /// Removes the document of an edge for its leader.
    pub(crate) fn remove(&mut self, edge: Edge) {
        let at = edge.document.index();
        self.leader[at] = edge.leader;
        self.similarity[at] = edge.similarity;
        self.distance[at] = edge.distance;
        self.represents.set(u64::from(edge.leader.number()));
    }

    /// The number of removed documents.
    pub fn removed(&self) -> u64 {
        Rank::all(self.leader.len()).filter(|&rank| !self.is_kept(rank)).count() as u64
    }

    /// Removes documents by the edges of a round, sorted by [`Edge::key`]. Gives the number of documents that were
    /// removed, and the open ones: kept documents all of whose edges lead to removed ones.
    ///
    /// A document is removed for the most similar kept one, and among equals for the one with the least rank. With
    /// [`Linkage::Connected`] all edges make clusters, and none is open.
    ///
    /// # Errors
    /// The first error of `edges`.
    pub fn settle<E>(&mut self, edges: impl IntoIterator<Item = Result<Edge, E>>) -> Result<(u64, Bits), E> {
        let mut open = Bits::new(self.leader.len() as u64);
        if self.linkage == Linkage::Connected {
            return Ok((self.connect(edges)?, open));
        }
        let (mut removed, mut last): (u64, Option<(Rank, Option<Edge>)>) = (0, None);
        let mut end = |assignments: &mut Self, document: Rank, best: Option<Edge>| match best {
            Some(edge) => {
                removed += 1;
                assignments.remove(edge);
            }
            None => open.set(u64::from(document.number())),
        };
        for edge in edges {
            let edge = edge?;
            if !edge.decides {
                continue;
            }
            if let Some((document, best)) = last.take_if(|(document, _)| *document != edge.document) {
                end(self, document, best);
            }
            let is_kept = self.is_kept(edge.leader);
            let (_, best) = last.get_or_insert((edge.document, None));
            if is_kept && best.is_none_or(|best| edge.similarity > best.similarity) {
                *best = Some(edge);
            }
        }
        if let Some((document, best)) = last {
            end(self, document, best);
        }
        Ok((removed, open))
    }

    /// Makes clusters of documents that are connected by edges. The first of each is kept, and every reference
    /// document. Gives the number of removed documents.
    fn connect<E>(&mut self, edges: impl IntoIterator<Item = Result<Edge, E>>) -> Result<u64, E> {
        let mut partition: Partition<Rank> = Partition::singletons(self.leader.len());
        let mut direct = Vec::new();
        for edge in edges {
            let edge = edge?;
            if edge.decides {
                partition.join(edge.document, edge.leader);
                direct.push(edge);
            }
        }
        let mut removed = 0;
        for rank in Rank::all(self.leader.len()).skip(self.reference as usize) {
            let first = partition.find(rank);
            self.leader[rank.index()] = first;
            if first != rank {
                removed += 1;
                self.represents.set(u64::from(first.number()));
            }
        }
        for edge in direct.iter().filter(|edge| self.leader[edge.document.index()] == edge.leader) {
            self.similarity[edge.document.index()] = edge.similarity;
            self.distance[edge.document.index()] = edge.distance;
        }
        Ok(removed)
    }
}

/// The outcome of all rounds.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The assignment of each document.
    pub assignments: Assignments,
    /// The edges of the rounds behind the first, sorted by [`Edge::key`].
    pub later: Vec<Edge>,
    /// The counts of the rounds behind the first.
    pub statistics: Statistics,
}

/// Assigns all documents: by the edges of the first round, sorted by [`Edge::key`], and by further rounds of
/// comparisons.
///
/// # Errors
/// If sketches cannot be read, or the first error of `edges`.
pub fn assign<S: Store>(
    store: &S,
    rule: &Rule,
    reference: u32,
    edges: impl IntoIterator<Item = Result<Edge, S::Error>>,
) -> Result<Joined, S::Error> {
    let mut assignments = Assignments::new(store.documents(), reference, rule.linkage);
    let (mut removed, mut open) = assignments.settle(edges)?;
    let (mut later, mut statistics) = (Vec::new(), Statistics::default());
    let bands: Vec<usize> = (0..store.bands()).collect();
    while removed * LAST_ROUND >= store.documents() as u64 && open.count() > 0 {
        let (mut all, round) = (
            Vec::new(),
            Round {
                reference,
                later: Some(Later {
                    represents: &assignments.represents,
                    open: &open,
                    assignments: Some(&assignments),
                }),
            },
        );
        join(store, rule, &round, &bands, |_, edges, part| {
            statistics = statistics.and(part);
            merge(&mut all, edges);
            Ok(())
        })?;
        (removed, open) = assignments.settle(all.iter().copied().map(Ok::<_, S::Error>))?;
        merge(&mut later, all);
    }
    Ok(Joined { assignments, later, statistics })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{SplitMix64, fmix64};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Documents as sets of numbers, with a band hash of the least number under several hashes.
    struct HashedSets {
        sets: Vec<Vec<u64>>,
        keys: Vec<Vec<u32>>,
        bits: Vec<[u64; 1]>,
        room: usize,
        at_once: usize,
    }

    struct ShownSet<'a>(&'a [u64], u32);

    impl ComparedDocument for ShownSet<'_> {
        fn digest(&self) -> u128 {
            u128::from(self.1)
        }
        fn hashed(&self) -> Option<&Hashed> {
            None
        }
        fn bits(&self) -> Option<SketchBits<'_>> {
            None
        }
        fn size(&self) -> u32 {
            self.0.len() as u32
        }
        fn features(&self, mut each: impl FnMut(u64, i64)) {
            self.0.iter().for_each(|&feature| each(feature, 1));
        }
    }

    const THRESHOLD: f64 = 0.6;

    impl HashedSets {
        fn new(sets: Vec<Vec<u64>>, bands: usize, rows: u64) -> Self {
            let least =
                |set: &[u64], hash: u64| set.iter().map(|&n| fmix64(n ^ fmix64(hash))).min().unwrap_or(0);
            let band = |set: &[u64], band: usize| {
                (0..rows).fold(0, |sum, row| fmix64(sum ^ least(set, band as u64 * rows + row))) as u32
            };
            let keys = sets.iter().map(|set| (0..bands).map(|at| band(set, at)).collect()).collect();
            let bits = sets
                .iter()
                .map(|set| [set.iter().fold(0, |bits, n| bits ^ 1 << (fmix64(*n) % 64))])
                .collect();
            Self { sets, keys, bits, room: usize::MAX, at_once: usize::MAX }
        }

        fn similarity(&self, a: usize, b: usize) -> f32 {
            Anchor::new(Measure::Jaccard, self.compared(Rank::at(a))).with(&self.compared(Rank::at(b)))
        }

        fn share(&self, a: usize, b: usize) -> bool {
            self.keys[a].iter().zip(&self.keys[b]).any(|(a, b)| a == b)
        }

        fn is_candidate(&self, a: usize, b: usize) -> bool {
            self.share(a, b) && self.similarity(a, b) >= THRESHOLD as f32
        }

        /// The definition: a document is removed if a kept one before it is near and shares a band hash.
        fn greedy(&self, reference: usize) -> Vec<bool> {
            let mut kept: Vec<bool> = Vec::new();
            for at in 0..self.sets.len() {
                kept.push(
                    at < reference || !(0..at).any(|other| kept[other] && self.is_candidate(at, other)),
                );
            }
            kept
        }

        fn join(&self, linkage: Linkage, all_pairs: bool, reference: u32) -> (Vec<Edge>, Joined) {
            let rule = Rule::new(&settings(linkage, all_pairs)).unwrap();
            let (mut edges, mut statistics) = (Vec::new(), Statistics::default());
            let bands: Vec<usize> = (0..Store::bands(self)).collect();
            join(self, &rule, &Round::first(reference), &bands, |_, more, part| {
                statistics = statistics.and(part);
                merge(&mut edges, more);
                Ok::<_, Error>(())
            })
            .unwrap();
            let joined = assign(self, &rule, reference, edges.iter().copied().map(Ok::<_, Error>)).unwrap();
            (edges, Joined { statistics: joined.statistics.and(statistics), ..joined })
        }
    }

    fn settings(linkage: Linkage, all_pairs: bool) -> Settings {
        Settings::both(0.8).with(|settings| {
            settings.verification = Verification::Jaccard(THRESHOLD);
            settings.linkage = linkage;
            settings.all_pairs = all_pairs;
        })
    }

    impl SketchSource for HashedSets {
        type Shown<'s> = ShownSet<'s>;
        fn compared(&self, rank: Rank) -> ShownSet<'_> {
            ShownSet(&self.sets[rank.index()], rank.number())
        }
        fn two(&self, rank: Rank) -> Two<'_> {
            let at = rank.index();
            Two { hash: self.bits[at][0], bits: &self.bits[at], keys: &self.keys[at], extra: &[] }
        }
    }

    /// Refuses to show what was not asked for.
    struct SomeSets<'a>(&'a HashedSets, Bits);

    impl SomeSets<'_> {
        fn check(&self, rank: Rank) {
            assert!(self.1.get(u64::from(rank.number())), "{rank} is not loaded");
        }
    }

    impl SketchSource for SomeSets<'_> {
        type Shown<'s>
            = ShownSet<'s>
        where
            Self: 's;
        fn compared(&self, rank: Rank) -> ShownSet<'_> {
            self.check(rank);
            self.0.compared(rank)
        }
        fn two(&self, rank: Rank) -> Two<'_> {
            self.check(rank);
            self.0.two(rank)
        }
    }

    impl Store for HashedSets {
        type Error = Error;
        type Loaded<'s> = SomeSets<'s>;
        fn documents(&self) -> usize {
            self.sets.len()
        }
        fn bands(&self) -> usize {
            self.keys.first().map_or(0, Vec::len)
        }
        fn each_key(&self, band: usize, each: &mut dyn FnMut(Rank, u32)) -> Result<()> {
            (0..).zip(&self.keys).for_each(|(rank, keys)| each(Rank::new(rank), keys[band]));
            Ok(())
        }
        fn load(&self, ranks: &Bits) -> Result<SomeSets<'_>> {
            assert!(ranks.count() <= (self.room.max(1 << 10) as u64).saturating_add(2 * MOST_LEADERS as u64));
            Ok(SomeSets(self, ranks.clone()))
        }
        fn room(&self) -> usize {
            self.room
        }
        fn bands_at_once(&self) -> usize {
            self.at_once
        }
        fn members_at_once(&self) -> usize {
            self.room
        }
    }

    /// Families of sets that share much, some of them chained.
    fn families(seed: u64, documents: usize) -> Vec<Vec<u64>> {
        let mut rng = SplitMix64::new(seed);
        let mut sets: Vec<Vec<u64>> = Vec::new();
        for _ in 0..documents {
            let set = match sets.len() {
                0 => None,
                some => Some(sets[rng.below(some as u64) as usize].clone()).filter(|_| rng.below(3) > 0),
            };
            let mut set = set.unwrap_or_else(|| (0..20).map(|_| rng.next_u64() >> 20).collect());
            for _ in 0..rng.below(5) {
                let at = rng.below(set.len() as u64) as usize;
                set[at] = rng.next_u64() >> 20;
            }
            sets.push(set);
        }
        sets
    }

    /// Checks what must hold of any assignment, and that nothing is left to be removed.
    fn check(sets: &HashedSets, assignments: &Assignments, reference: usize) {
        let n = sets.sets.len();
        for at in 0..n {
            let (rank, leader) = (Rank::at(at), assignments.leader(Rank::at(at)));
            if leader == rank {
                continue;
            }
            assert!(at >= reference && assignments.is_kept(leader), "{at} is removed for {leader}");
            assert!(sets.is_candidate(at, leader.index()), "{at} is not near {leader}");
            let edge = assignments.edge(rank).unwrap();
            assert_eq!(edge.similarity, sets.similarity(at, leader.index()));
        }
        let represents: BTreeSet<Rank> = Rank::all(n)
            .filter(|&rank| !assignments.is_kept(rank))
            .map(|rank| assignments.leader(rank))
            .collect();
        for at in (reference..n).filter(|&at| assignments.is_kept(Rank::at(at))) {
            let missed =
                (0..at).find(|&other| assignments.is_kept(Rank::at(other)) && sets.is_candidate(at, other));
            assert!(missed.is_none() || represents.contains(&Rank::at(at)), "{at} is near {missed:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn what_is_removed_is_near_a_kept_document_and_nothing_is_left(
            seed: u64, n in 0usize..60, bands in 1usize..6, reference in 0usize..20,
        ) {
            let sets = HashedSets::new(families(seed, n), bands, 2);
            let reference = reference.min(n);
            let (_, joined) = sets.join(Linkage::Star, false, reference as u32);
            check(&sets, &joined.assignments, reference);
            let greedy = sets.greedy(reference).iter().filter(|&&kept| kept).count();
            let kept = n - joined.assignments.removed() as usize;
            prop_assert!(kept <= greedy + greedy / 4 + 2, "{} kept, {} by the definition", kept, greedy);
        }

        #[test]
        fn all_pairs_are_listed_and_change_nothing_else(seed: u64, n in 0usize..60, bands in 1usize..6) {
            let sets = HashedSets::new(families(seed, n), bands, 2);
            let connected = sets.join(Linkage::Connected, true, 0).1;
            let without = sets.join(Linkage::Connected, false, 0).1;
            for rank in Rank::all(n) {
                prop_assert_eq!(connected.assignments.leader(rank), without.assignments.leader(rank));
                prop_assert_eq!(connected.assignments.edge(rank), without.assignments.edge(rank));
            }
            let (edges, joined) = sets.join(Linkage::Star, true, 0);
            let (_, without) = sets.join(Linkage::Star, false, 0);
            prop_assert_eq!(&joined.assignments.leader, &without.assignments.leader);
            let listed: Vec<(usize, usize)> =
                edges.iter().map(|edge| (edge.document.index(), edge.leader.index())).collect();
            let naive: Vec<(usize, usize)> =
                (0..n).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|&(a, b)| sets.is_candidate(a, b)).collect();
            prop_assert_eq!(listed, naive);
            // A later round may compare a pair in the other direction; it is listed once all the same.
            let mut all = edges;
            merge_later(&mut all, joined.later);
            let pairs: BTreeSet<(Rank, Rank)> =
                all.iter().map(|edge| (edge.document.max(edge.leader), edge.document.min(edge.leader))).collect();
            prop_assert_eq!(pairs.len(), all.len());
        }

        #[test]
        fn connected_clusters_hang_together_by_edges(seed: u64, n in 0usize..60, reference in 0usize..9) {
            let sets = HashedSets::new(families(seed, n), 3, 2);
            let reference = reference.min(n) as u32;
            let (edges, joined) = sets.join(Linkage::Connected, false, reference);
            let mut partition: Partition<Rank> = Partition::singletons(n);
            for edge in &edges {
                prop_assert!(sets.is_candidate(edge.document.index(), edge.leader.index()));
                partition.join(edge.document, edge.leader);
            }
            for rank in Rank::all(n).skip(reference as usize) {
                prop_assert_eq!(joined.assignments.leader(rank), partition.find(rank));
            }
        }
    }

    /// Documents of one template: most of the words are the same, and a run of words at a random place is each
    /// document's own.
    fn template(seed: u64, documents: usize, words: u64, own: u64) -> Vec<Vec<u64>> {
        let mut rng = SplitMix64::new(seed);
        let document = |_| {
            let from = rng.below(words - own);
            let word = |at: u64| if (from..from + own).contains(&at) { rng.next_u64() >> 8 } else { at };
            (0..words).map(word).collect()
        };
        (0..documents).map(document).collect()
    }

    #[test]
    fn of_a_template_few_documents_more_are_kept_than_by_the_definition() {
        for (seed, own) in [(1, 9), (2, 10), (3, 11)] {
            let sets = HashedSets::new(template(seed, 1_500, 40, own), 12, 3);
            let (_, joined) = sets.join(Linkage::Star, false, 0);
            check_removed(&sets, &joined.assignments);
            let greedy = sets.greedy(0).iter().filter(|&&kept| kept).count();
            let kept = 1_500 - joined.assignments.removed() as usize;
            assert!(kept <= greedy + greedy / 2 + 2, "{own}: {kept} kept, {greedy} by the definition");
        }
    }

    fn check_removed(sets: &HashedSets, assignments: &Assignments) {
        for at in (0..sets.sets.len()).filter(|&at| !assignments.is_kept(Rank::at(at))) {
            let leader = assignments.leader(Rank::at(at));
            assert!(assignments.is_kept(leader) && sets.is_candidate(at, leader.index()));
        }
    }

    /// Makes sets that share one bucket, besides others.
    fn in_one_bucket(sets: Vec<Vec<u64>>, bands: usize) -> HashedSets {
        let mut sets = HashedSets::new(sets, bands, 2);
        sets.keys.iter_mut().for_each(|keys| keys[bands / 3] = 9);
        sets
    }

    #[test]
    fn with_more_leaders_than_the_bound_few_documents_more_are_kept_than_by_the_definition() {
        for seed in 0..4 {
            let sets = in_one_bucket(families(seed, 600), 4);
            let (_, joined) = sets.join(Linkage::Star, false, 0);
            check_removed(&sets, &joined.assignments);
            assert!(joined.statistics.left_out > 0);
            let greedy = sets.greedy(0).iter().filter(|&&kept| kept).count();
            let kept = 600 - joined.assignments.removed() as usize;
            assert!(kept <= greedy + greedy / 4 + 2, "{seed}: {kept} kept, {greedy} by the definition");
        }
    }

    #[test]
    fn members_beyond_the_most_leaders_are_counted() {
        let all = MOST_LEADERS as u64 + 900;
        let sets = in_one_bucket((0..all).map(|number| vec![number]).collect(), 1);
        // A stranger would lead each stranger behind it.
        let left_out =
            |strangers: u64| (BOUND as u64..strangers).map(|before| before - BOUND as u64).sum::<u64>();
        let new = 400;
        let of_reference = new * (all - new - BOUND as u64);
        for (reference, expected) in [(0, left_out(all)), (all - new, left_out(new) + of_reference)] {
            assert_eq!(sets.join(Linkage::Star, false, reference as u32).1.statistics.left_out, expected);
        }
    }

    #[test]
    fn parts_and_bands_at_once_change_nothing() {
        // One bucket of all, with more leaders than the bound, and others.
        let sets = in_one_bucket(families(7, 5_000), 4);
        let (edges, whole) = sets.join(Linkage::Star, false, 30);
        check_removed(&sets, &whole.assignments);
        for (room, at_once) in [(usize::MAX, 1), (1_200, 4), (64, 2), (9_000, 1)] {
            let parts = HashedSets { room, at_once, ..HashedSets::new(sets.sets.clone(), 4, 2) };
            let parts = HashedSets { keys: sets.keys.clone(), ..parts };
            let (same, joined) = parts.join(Linkage::Star, false, 30);
            assert!(
                same == edges && joined.assignments.leader == whole.assignments.leader,
                "{room} {at_once}"
            );
        }
    }

    #[test]
    fn repeats_are_never_missed() {
        let mut rng = SplitMix64::new(3);
        for numbers in [0, 1, 2, 100, 5_000] {
            let drawn: Vec<u64> = (0..numbers).map(|_| rng.below(4 * numbers as u64 + 1)).collect();
            let mut repeats = Repeats::new(numbers);
            drawn.iter().for_each(|&number| repeats.note(number));
            let mut sorted = drawn.clone();
            sorted.sort_unstable();
            for twice in sorted.windows(2).filter(|pair| pair[0] == pair[1]) {
                assert!(repeats.may_repeat(twice[0]));
            }
            let others = (0..1_000).filter(|_| repeats.may_repeat(rng.next_u64())).count();
            assert!(others < 200, "{others}");
        }
    }

    #[test]
    fn nothing_is_joined_without_band_hashes_or_a_measure() {
        let refused = |settings: Settings| Rule::new(&settings).unwrap_err().to_string();
        assert!(refused(Settings::simhash()).contains("search"));
        assert!(
            refused(Settings::both(0.8).with(|settings| settings.verification = Verification::None))
                .contains("verify")
        );
    }
}
