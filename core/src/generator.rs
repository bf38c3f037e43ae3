//! The generator of candidates: finds the pairs of sketches that are worth comparing, and counts the work.
//!
//! It searches distinct sketches. A *slot* is one of them, with the texts that have it. A [key](Generator::Keys) is the
//! hash of a band of MinHash values. Documents with keys are not compared here, but by [`buckets`](crate::buckets).

pub(crate) mod probed;

use crate::calibrate::Calibration;
use crate::collection::Texts;
use crate::error::Result;
use crate::id::{Document, Id, Lists, Slot, Text};
use crate::progress::{Progress, Step, run};
use crate::search::bands::Banding;
use crate::search::bphs::{Bphs, BphsParams};
use crate::search::distinct::DistinctHashes;
use crate::search::join::BYTES_PER_HASH as JOIN_BYTES_PER_HASH;
use crate::search::selfjoin::{Capping, SlotJoin, SlotPair, as_slot_pairs, join_exactly, self_join};
use crate::search::{Cost, HammingIndex, Reach};
use crate::settings::{Generator, Recall, Settings, Sketches};
use crate::simhash::BITS;
use crate::verification::Evidence;
use probed::{Hashes, Probed};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The candidate pairs of a generator.
pub(crate) struct Generated {
    /// The texts of each distinct sketch.
    pub(crate) groups: Lists<Slot, Text>,
    /// The candidate pairs of sketches, each once, ascending by their slots `a` and `b`.
    pub(crate) joined: Vec<SlotPair>,
    /// The report of the search.
    pub(crate) searched: Searched,
}

/// The search that ran, its cost, its measured recall, and the pairs that it did not compare.
///
/// ```
/// use simflip_core::dedup::{Capped, MeasuredRecall, Searched};
/// use simflip_core::{Deduper, Settings};
///
/// let mut deduper = Deduper::new(Settings::paper())?;
/// deduper.extend(&["a page about ships that call at the harbour", "a page about ships that call at the harbour!"]);
/// let Searched { cost, recall, capped, .. } = deduper.run()?.searched;
/// assert!(cost.probes > 0);
/// if let Some(MeasuredRecall { wanted, calibration, .. }) = recall {
///     assert!(calibration.reached >= wanted, "the probes find 95 % of the pairs of a sample");
/// }
/// if let Some(Capped::Nearest { hashes, passed_over, .. }) = capped {
///     println!("{passed_over} neighbours of {hashes} hashes of one template were not compared");
/// }
/// # Ok::<(), simflip_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Searched {
    /// The search that ran.
    pub ran: Ran,
    /// The counted work of the search.
    pub cost: Cost,
    /// Bytes of memory of the index. Without one they are those of the hashes that a join works with, or with keys of
    /// the sketches.
    pub index_bytes: u64,
    /// Number of distinct sketches that were searched; with keys, of distinct texts.
    pub distinct: u64,
    /// The recall that was measured; none unless the search probes and a share was asked for.
    pub recall: Option<MeasuredRecall>,
    /// Pairs that were not compared, because too many documents are alike; none if all were.
    pub capped: Option<Capped>,
    /// For each table or band, the numbers of pairs of texts that it generates, by score. An exact join and a search by
    /// keys have one histogram for all pairs. A table generates the joined pairs that it finds if all probes are made.
    /// Except with keys, texts of equal sketches are pairs of each, too.
    #[doc(hidden)]
    pub scores: Vec<Scores>,
}

/// The kind of search that ran, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum Ran {
    /// A join of all hashes within `distance` bits, without an index. It is exact unless [`Searched::capped`] says
    /// otherwise.
    Join {
        /// h: the largest distance of a pair, in bits.
        distance: u32,
    },
    /// Queries of an index that probes.
    Probing {
        /// h: the largest distance of a pair, in bits.
        distance: u32,
        /// Number of tables.
        tables: u32,
        /// Number of bits of a hash among which probes flip some: those of a key, or all 64.
        key_bits: u32,
        /// The most bits that a probe flips.
        flips: u32,
        /// Number of probes of a query in all tables together. None if all are made, which is exact.
        probes: Option<u32>,
        /// Number of probes of a query that makes all.
        all_probes: u64,
    },
    /// A search by block-permuted tables (Manku, Jain & Das Sarma 2007). Either an index of them is queried, which is
    /// exact. Or documents that share a key of a table are compared, [leaders first](crate::buckets).
    Bphs {
        /// h: the largest distance of a pair, in bits.
        distance: u32,
        /// Number of tables.
        tables: u32,
    },
    /// Hashes looked up by bands of their bits: exact if there are more bands than `distance` bits.
    HashBands {
        /// h: the largest distance of a pair, in bits.
        distance: u32,
        /// The bands, `rows` being bits.
        banding: Banding,
    },
    /// Documents that share a key, the hash of a band of MinHash values, are compared, [leaders first](crate::buckets).
    Keys {
        /// Number of keys of a document, one for each band. It is 0 if there was no text to compare.
        keys: u32,
    },
}

/// The recall of a probing search, measured on a part of the corpus that had no part in
/// choosing the number of probes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MeasuredRecall {
    /// The recall that was asked for.
    pub wanted: f64,
    /// The number of probes that was chosen, and the recall that it reached.
    pub calibration: Calibration,
    /// Number of pairs of different texts of equal hashes, which are always found.
    pub identical_pairs: u64,
    /// The estimated share of all pairs of texts that was found, those of equal hashes counted as well; none where
    /// there are no pairs.
    pub with_identical: Option<f64>,
}

/// The pairs that were not compared: of documents of one template, most likely, whose pairs would grow with the square
/// of their number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum Capped {
    /// Each hash with too many neighbours brought in its nearest ones alone. A pair is joined if either of its hashes
    /// brings it in.
    Nearest {
        /// Number of hashes with too many neighbours.
        hashes: u64,
        /// Number of neighbours that these hashes did not bring in. A pair that both its hashes pass over counts twice.
        /// A pair that one of them passes over, but the other brings in, counts once.
        passed_over: u64,
        /// Documents with the most neighbours.
        examples: Vec<Document>,
    },
    /// The join came upon more pairs than its bound, which grows with the number of hashes. Each hash with too many
    /// neighbours was compared with a sample of all hashes, and joined with the nearest there. Such hashes were also
    /// compared with the ones beside them in several sorted orders.
    Sampled {
        /// Number of hashes with too many neighbours.
        hashes: u64,
        /// Number of hashes of the sample.
        sampled: u64,
        /// Documents with the most neighbours.
        examples: Vec<Document>,
    },
    /// In a bucket with too many leaders, a document was compared with its likeliest ones alone. They stand nearest to
    /// it when leaders are sorted by the other values of their sketches. A leader is a document that is near no earlier
    /// leader of the bucket.
    Leaders {
        /// Number of pairs of a document and a leader that were not compared in a bucket. A pair counts for each such
        /// bucket, even if another bucket compares it.
        skipped: u64,
        /// The most leaders of one sort with which a document is compared: reference documents, or others.
        most: u32,
    },
}

impl Capped {
    /// Documents with the most neighbours, at most three.
    #[doc(hidden)]
    pub fn examples(&self) -> &[Document] {
        match self {
            Self::Nearest { examples, .. } | Self::Sampled { examples, .. } => examples,
            Self::Leaders { .. } => &[],
        }
    }
}

/// The numbers of pairs of texts that one table or band generates, by score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct Scores {
    /// The number of the table or band, from 0. None if all pairs have one histogram: those of an exact join, or of a
    /// search by keys.
    pub table: Option<u32>,
    /// Scores, ascending, with their numbers of pairs. A score is 64 minus the distance of SimHashes, or with keys the
    /// similarity in percent.
    pub counts: Vec<(u32, u64)>,
}

/// Runs the settings' generator over the hashes of the sketched texts of `evidence`. Settings with keys are not for it,
/// but for [`buckets`](crate::buckets). `progress` gets reports and cannot stop the run.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter) for settings from which no index or join can be made.
pub(crate) fn generate(
    settings: &Settings,
    evidence: &Evidence<'_>,
    progress: &dyn Progress,
) -> Result<Generated> {
    let (generator, seed) = (&settings.generator, settings.seed);
    let hashes = Hashes::new(evidence, progress);
    let slots = hashes.distinct.len();
    let distance = generator.distance().unwrap_or_default();
    let (index, ran, calibration): Ready = match *generator {
        Generator::Join { .. } => (None, Ran::Join { distance }, None),
        Generator::Bphs { tables, .. } => {
            let tables = tables.unwrap_or_else(|| BphsParams::usual_tables(distance));
            let params = BphsParams { radius: distance, tables };
            let index = run(progress, Step::Index, slots, |_| Bphs::new(hashes.hashes(), params))?;
            (Some(Box::new(index)), Ran::Bphs { distance, tables }, None)
        }
        Generator::HashBands { banding, .. } => {
            let index =
                run(progress, Step::Index, slots, |_| Bphs::banded(hashes.hashes(), distance, banding))?;
            (Some(Box::new(index)), Ran::HashBands { distance, banding }, None)
        }
        _ => probing(generator, seed, &hashes, progress)?,
    };
    let index = index.as_deref();
    let distinct = &hashes.distinct;
    let SlotJoin { pairs, cost, capped, passed_over, sampled } = match index {
        None => {
            // With both sketches, all pairs are listed as long as they are not too many. Without them, each
            // hash with too many neighbours brings in its nearest ones alone.
            let capping = match settings.sketches {
                Sketches::Both { .. } => Capping::BySample,
                _ => Capping::ByNeighbours,
            };
            run(progress, Step::Join, slots, |done| join_exactly(distinct, distance, capping, done))?
        }
        Some(index) => {
            let weights = |texts: &[Text]| Some(evidence.hashed(texts[0])?.weights);
            let weights: Vec<_> = distinct.groups().iter().filter_map(weights).collect();
            run(progress, Step::Join, slots, |done| self_join(index, distinct, &weights, done))
        }
    };
    let joined = as_slot_pairs(pairs);
    let recall =
        calibration.map(|(wanted, calibration)| with_identical(wanted, calibration, distinct, &joined));
    let scores =
        run(progress, Step::Histograms, joined.len(), |_| hamming_scores(index, distance, distinct, &joined));
    let examples = || most_neighbours(evidence.texts, distinct.groups(), &joined);
    let capped = match (capped, sampled) {
        (0, _) => None,
        (hashes, 0) => Some(Capped::Nearest { hashes, passed_over, examples: examples() }),
        (hashes, sampled) => Some(Capped::Sampled { hashes, sampled, examples: examples() }),
    };
    let index_bytes = index.map_or(JOIN_BYTES_PER_HASH * slots, HammingIndex::bytes) as u64;
    let searched = Searched { ran, cost, index_bytes, distinct: slots as u64, recall, capped, scores };
    Ok(Generated { groups: hashes.distinct.into_groups(), joined, searched })
}

/// An index, or none where hashes are joined without one; the search that it makes; and the recall that was wanted,
/// with its measurement.
type Ready = (Option<Box<dyn HammingIndex>>, Ran, Option<(f64, Calibration)>);

/// The index of a generator that probes, with the number of probes that its recall takes.
fn probing(generator: &Generator, seed: u64, hashes: &Hashes<'_>, progress: &dyn Progress) -> Result<Ready> {
    let probed =
        run(progress, Step::Index, hashes.distinct.len(), |_| Probed::new(hashes.hashes(), generator))?;
    let (probes, measured) = match generator.recall() {
        Some(Recall::Probes(probes)) => (Some(probes), None),
        Some(Recall::AtLeast(recall)) => {
            let calibration = probed.sample(hashes, seed, progress).budget(recall);
            (calibration.budget, Some((recall, calibration)))
        }
        _ => (None, None),
    };
    let mut index = probed.index;
    let ran = Ran::Probing {
        distance: index.radius(),
        tables: index.tables() as u32,
        key_bits: index.key_bits(),
        flips: index.flips(),
        probes,
        all_probes: index.all_probes(),
    };
    index.set_budget(probes);
    Ok((Some(index), ran, measured))
}

/// The documents that have the most neighbours, for a person to look at.
fn most_neighbours(texts: &Texts, groups: &Lists<Slot, Text>, joined: &[SlotPair]) -> Vec<Document> {
    /// Documents that are named.
    const NAMED: usize = 3;
    let mut neighbours = vec![0u32; groups.len()];
    for pair in joined {
        neighbours[pair.a.index()] += 1;
        neighbours[pair.b.index()] += 1;
    }
    let mut slots: Vec<Slot> = Slot::all(groups.len()).collect();
    slots.sort_by_key(|&slot| (std::cmp::Reverse(neighbours[slot.index()]), slot));
    slots.iter().take(NAMED).map(|&slot| texts.first(groups.get(slot)[0])).collect()
}

/// Adds what the recall is if pairs of equal hashes, which are always found, count as well. The pairs at
/// distance 1 to h that were not found are estimated from the recall.
fn with_identical(
    wanted: f64,
    calibration: Calibration,
    distinct: &DistinctHashes<Text>,
    joined: &[SlotPair],
) -> MeasuredRecall {
    let size = |slot: Slot| distinct.members(slot).len() as f64;
    let identical: f64 = distinct.slots().map(|slot| size(slot) * (size(slot) - 1.0) / 2.0).sum();
    let near: f64 = joined.iter().map(|pair| size(pair.a) * size(pair.b)).sum();
    let all = identical + near / calibration.reached.max(f64::MIN_POSITIVE);
    let with_identical = (all > 0.0).then(|| (identical + near) / all);
    MeasuredRecall { wanted, calibration, identical_pairs: identical as u64, with_identical }
}

/// Counts the pairs of texts that each table of an index generates, by score, 64 minus the distance; without an
/// index, all pairs.
fn hamming_scores(
    index: Option<&dyn HammingIndex>,
    radius: u32,
    distinct: &DistinctHashes<Text>,
    joined: &[SlotPair],
) -> Vec<Scores> {
    let all = Reach { keys: &[0], flips: 0, radius };
    let reach = index.map_or(all, HammingIndex::reach);
    let scores = radius as usize + 1;
    let size = |slot: Slot| distinct.members(slot).len() as u64;
    let identical: u64 = distinct.slots().map(|slot| size(slot) * (size(slot) - 1) / 2).sum();
    let nothing = || vec![vec![0u64; scores]; reach.keys.len()];
    let counts = joined
        .par_chunks(4096)
        .fold(nothing, |mut counts, pairs| {
            for pair in pairs {
                let mut tables = reach.tables_of(distinct.hash(pair.a), distinct.hash(pair.b));
                while tables != 0 {
                    counts[tables.trailing_zeros() as usize][pair.distance as usize] +=
                        size(pair.a) * size(pair.b);
                    tables &= tables - 1;
                }
            }
            counts
        })
        .reduce(nothing, |mut sum, part| {
            for (sum, part) in sum.iter_mut().flatten().zip(part.iter().flatten()) {
                *sum += part;
            }
            sum
        });
    (0..)
        .zip(counts)
        .map(|(table, mut by_distance)| {
            by_distance[0] += identical;
            let counts =
                (0..scores as u32).rev().map(|d| (BITS as u32 - d, by_distance[d as usize])).collect();
            Scores { table: index.map(|_| table), counts }
        })
        .collect()
}
