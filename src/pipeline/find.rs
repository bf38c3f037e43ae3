//! From sketches to pairs of slots: the method's index, its join, and what the report tells of it.

use super::collect::Collection;
use super::settings::{JaccardCheck, Method, PsmIndex, Settings};
use super::sketch::{self, SimHashes, Texts};
use super::stages::Stages;
use crate::calibrate::{Calibration, CalibrationParams, NEVER, Sample, calibrate, near_pairs};
use crate::error::{Error, Result};
use crate::features;
use crate::hash::fmix64;
use crate::minhash::DistinctSignatures;
use crate::pairs::Groups;
use crate::plan::{self, Kind, Model, NearPair, Task};
use crate::report::model::{EXACT_JOIN, Histogram, Recall, SCurve, SearchCost, THINNED_JOIN};
use crate::search::bands::{self, BandStats, Banding, JoinParams, min_matches};
use crate::search::bphs::{Bphs, BphsParams};
use crate::search::dial::{Dial, DialParams};
use crate::search::distinct::DistinctHashes;
use crate::search::join::BYTES_PER_HASH as JOIN_BYTES_PER_HASH;
use crate::search::psm::{Psm, PsmParams, Reading};
use crate::search::selfjoin::{MOST_NEIGHBOURS, SlotJoin, SlotPair, join_exactly, self_join};
use crate::search::{self, HammingIndex, Hit, Mode, Query, Scratch, TableSet};
use crate::wording::counted;
use crate::{Id, Slot};
use flipside_core::kernel::weakest;
use rayon::prelude::*;

/// The near-duplicates that one method found, in terms of slots: groups of documents that share a sketch.
pub struct Found {
    /// The documents of each slot: first the slots that the join speaks of, then one for each unsketched text.
    pub groups: Groups,
    /// Pairs of slots, each once, ascending.
    pub joined: Vec<SlotPair>,
    /// Counted work.
    pub cost: SearchCost,
    /// Scores of document pairs by table or band.
    pub histograms: Vec<Histogram>,
    /// The recall that was measured, if the method has a dial.
    pub recall: Option<Recall>,
    /// The S-curve, if the method has one.
    pub s_curve: Option<SCurve>,
    /// What the index decided by itself, as name and value.
    pub chosen: Vec<(&'static str, String)>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Finds near-duplicates among SimHashes, by psm or bphs.
///
/// # Errors
/// If the index cannot be built with these settings.
pub fn by_simhash(
    collection: &Collection,
    texts: &Texts,
    sketches: &SimHashes,
    settings: &Settings,
    stages: &mut Stages<'_>,
) -> Result<Found> {
    let n = texts.sketched.len() as u64;
    let distinct = stages.run("group", n, "pages", 0, |_| DistinctHashes::new(&sketches.hashes));
    let slots = distinct.len() as u64;
    if joins_exactly(settings) {
        let join = stages.run("join", slots, "distinct hashes", 0, |progress| {
            join_exactly(&distinct, settings.distance, progress)
        })?;
        let histograms = stages.run("histograms", join.pairs.len() as u64, "pairs", 0, |_| {
            hamming_histograms(settings.distance, &["all pairs".to_owned()], |_, _| 1, &distinct, &join.pairs)
        });
        let groups = group(distinct.len(), |slot| distinct.members(Slot(slot)), texts, collection, settings);
        let search = if join.sampled > 0 { THINNED_JOIN } else { EXACT_JOIN };
        let chosen = vec![(search.0, search.1.to_owned())];
        return Ok(found(
            collection,
            groups,
            join,
            JOIN_BYTES_PER_HASH as u64 * slots,
            slots,
            histograms,
            None,
            chosen,
            settings,
        ));
    }
    // A slot's query is its first document; copies of a hash differ a little in their weights.
    let weights: Vec<_> = (0..distinct.len() as u32)
        .map(|slot| sketches.weights[distinct.members(Slot(slot))[0] as usize])
        .collect();
    let (index, recall, chosen): (Box<dyn HammingIndex>, _, _) = match settings.method {
        Method::Bphs => {
            let params = BphsParams { radius: settings.distance, tables: settings.bphs_tables() };
            let index =
                stages.run("index", slots, "distinct hashes", 0, |_| Bphs::new(distinct.hashes(), params))?;
            (Box::new(index), None, vec![("tables", params.tables.to_string())])
        }
        Method::Psm | Method::Minhash => {
            let psm = stages
                .run("index", slots, "distinct hashes", 0, |_| Dialled::new(distinct.hashes(), settings))?;
            let mut recall = None;
            let mut budget = settings.budget;
            if budget.is_none() && settings.recall < 1.0 {
                let params =
                    CalibrationParams { recall: settings.recall, seed: settings.seed, ..Default::default() };
                let calibration = stages.run("calibrate", n, "pages", 0, |_| {
                    calibrate(distinct.hashes(), &params, |slot| {
                        let weights = weights[slot.index()].weights();
                        psm.trace(Query { hash: distinct.hash(slot), weights: &weights })
                    })
                });
                budget = calibration.budget;
                recall = Some(recall_of(&calibration, settings, psm.all_probes()));
            }
            let (key_bits, all) = (psm.key_bits(), psm.all_probes());
            let chosen = vec![
                ("index", settings.index.name().to_owned()),
                ("tables", psm.index().tables().to_string()),
                ("key bits", key_bits.to_string()),
                ("flips in a key", psm.flips().to_string()),
                ("probes a page", budget.map_or_else(|| format!("{all} (all)"), |b| b.to_string())),
            ];
            (psm.with_budget(budget), recall, chosen)
        }
    };
    let join = stages.run("join", slots, "distinct hashes", 0, |progress| {
        self_join(&*index, &distinct, &weights, progress)
    });
    let recall = recall.map(|recall| with_identical(recall, &distinct, &join.pairs));
    let groups = group(distinct.len(), |slot| distinct.members(Slot(slot)), texts, collection, settings);
    let histograms = stages.run("histograms", join.pairs.len() as u64, "pairs", 0, |_| {
        let names: Vec<String> = (0..index.tables()).map(|table| format!("table {table}")).collect();
        let reach = index.reach();
        hamming_histograms(reach.radius, &names, |a, b| reach.tables_of(a, b), &distinct, &join.pairs)
    });
    Ok(found(collection, groups, join, index.bytes() as u64, slots, histograms, recall, chosen, settings))
}

/// Up to this distance an exact join of all hashes takes less time than the probes of each hash that find 95 % of the pairs:
/// measured on 1.4 million hashes of real pages, from a third of it at distance 3 to four fifths at distance 10. The more
/// hashes, the farther it is ahead.
const FARTHEST_JOINED: u32 = 10;

/// Whether the pairs are found by joining all hashes, and all of them, rather than by a query for each.
pub(super) fn joins_exactly(settings: &Settings) -> bool {
    settings.method == Method::Psm
        && settings.index == PsmIndex::Dial
        && settings.budget.is_none()
        && settings.key_bits.is_none()
        && settings.distance <= FARTHEST_JOINED
}

/// What a join of SimHashes found, with what the user should know of it.
#[expect(clippy::too_many_arguments)]
fn found(
    collection: &Collection,
    groups: Groups,
    join: SlotJoin,
    index_bytes: u64,
    distinct_hashes: u64,
    histograms: Vec<Histogram>,
    recall: Option<Recall>,
    chosen: Vec<(&'static str, String)>,
    settings: &Settings,
) -> Found {
    let cost = SearchCost {
        probes: join.cost.probes,
        candidates: join.cost.candidates,
        verified: join.cost.verified,
        index_bytes,
        distinct_hashes,
    };
    let warnings = (join.crowded > 0).then(|| {
        if join.sampled > 0 {
            return format!(
                "{} in crowds, most likely pages of one template, whose pairs would grow with the square of their number; each \
                 was compared with {} drawn from all, and joined with the nearest of them; all pairs of other pages \
                 were found; for example {}. {TEMPLATE_ADVICE}",
                counted(join.crowded, "hash lies", "hashes lie"),
                counted(join.sampled, "hash", "hashes"),
                most_neighbours(collection, &groups, &join.pairs)
            );
        }
        format!(
            "{} more than {MOST_NEIGHBOURS} neighbours within {}, most likely pages of one template; \
             each was joined with its {MOST_NEIGHBOURS} nearest, and {} passed over; for example {}. \
             {TEMPLATE_ADVICE}",
            counted(join.crowded, "hash has", "hashes have"),
            counted(u64::from(settings.distance), "bit", "bits"),
            counted(join.passed_over, "neighbour was", "neighbours were"),
            most_neighbours(collection, &groups, &join.pairs)
        )
    });
    Found {
        groups,
        joined: join.pairs,
        cost,
        histograms,
        recall,
        s_curve: None,
        chosen,
        warnings: warnings.into_iter().collect(),
    }
}

/// What to do about pages of one template.
const TEMPLATE_ADVICE: &str = "Look at them: such pages may have little in common but the template. --verify looks closer, and \
                               --clusters star joins a page only with one that it is near.";

/// What a warning calls a page: its URL, or its place.
pub fn shown_name(collection: &Collection, document: u32) -> String {
    /// Characters of a name.
    const CHARS: usize = 100;
    let id = collection.documents.rows()[document as usize].id;
    let name = match collection.documents.url(document) {
        Some(url) => url.to_owned(),
        None => collection.inputs[id.shard as usize].name_of(id.row),
    };
    match name.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// The pages that have the most neighbours, for a person to look at.
fn most_neighbours(collection: &Collection, groups: &Groups, joined: &[SlotPair]) -> String {
    /// Pages that are named.
    const NAMED: usize = 3;
    let mut neighbours = vec![0u32; groups.len()];
    for pair in joined {
        neighbours[pair.a.index()] += 1;
        neighbours[pair.b.index()] += 1;
    }
    let mut slots: Vec<u32> = (0..groups.len() as u32).collect();
    slots.sort_by_key(|&slot| (std::cmp::Reverse(neighbours[slot as usize]), slot));
    let name = |&slot: &u32| shown_name(collection, groups.documents(slot)[0]);
    slots.iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ")
}

/// The index of psm before its budget is known, and what tells how many probes a wanted recall takes.
pub(super) enum Dialled {
    Dial(Dial),
    Psm {
        /// With a budget of [`LONGEST_TRACE`].
        index: Box<Psm>,
        /// Finds the pairs that the flips of one table would take too long to find.
        truth: Dial,
    },
}

/// Probes of one table or of all bits that a calibration waits for a pair; what takes more is beyond any budget that would
/// be faster than an exhaustive search.
const LONGEST_TRACE: u32 = 1 << 14;

impl Dialled {
    pub(super) fn new(hashes: &[u64], settings: &Settings) -> Result<Self> {
        let key_bits = if settings.index == PsmIndex::Dial { settings.key_bits } else { None };
        let params = dial_params(hashes.len(), settings, key_bits)?;
        let dial = Dial::new(hashes, params)?;
        let reading = match settings.index {
            PsmIndex::Dial => return Ok(Self::Dial(dial)),
            PsmIndex::OneTable => Reading::P { key_bits: settings.key_bits },
            PsmIndex::AllBits => Reading::X { filter_bits: 8 },
        };
        let params = PsmParams {
            radius: settings.distance,
            reading,
            cost: settings.flip_cost,
            budget: Some(LONGEST_TRACE),
            ..PsmParams::default()
        };
        Ok(Self::Psm { index: Box::new(Psm::new(hashes, params)?), truth: dial })
    }

    fn index(&self) -> &dyn HammingIndex {
        match self {
            Self::Dial(dial) => dial,
            Self::Psm { index, .. } => &**index,
        }
    }

    fn key_bits(&self) -> u32 {
        match self {
            Self::Dial(dial) => dial.key_bits(),
            Self::Psm { index, .. } => index.key_bits(),
        }
    }

    /// Most bits flipped in a key.
    fn flips(&self) -> u32 {
        match self {
            Self::Dial(dial) => dial.flips(),
            Self::Psm { .. } => self.index().radius(),
        }
    }

    fn all_probes(&self) -> u64 {
        match self {
            Self::Dial(dial) => u64::from(dial.all_probes()),
            Self::Psm { index, .. } => index.all_probes(),
        }
    }

    /// All that is within the radius, each with the probe that comes upon it.
    pub(super) fn trace(&self, query: Query<'_>) -> Vec<(Hit, u32)> {
        let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
        match self {
            Self::Dial(dial) => {
                dial.search_traced(query, Mode::All, &mut scratch, &mut hits);
                hits
            }
            Self::Psm { index, truth } => {
                let mut all = Vec::new();
                truth.search(query, Mode::All, &mut scratch, &mut all);
                index.search_traced(query, Mode::All, &mut scratch, &mut hits);
                hits.sort_unstable();
                all.into_iter()
                    .map(|hit| {
                        let at = hits.partition_point(|&(found, _)| found < hit);
                        let probe =
                            hits.get(at).filter(|&&(found, _)| found == hit).map_or(NEVER, |&(_, p)| p);
                        (hit, probe)
                    })
                    .collect()
            }
        }
    }

    fn with_budget(self, budget: Option<u32>) -> Box<dyn HammingIndex> {
        match self {
            Self::Dial(dial) => Box::new(dial.with_budget(budget)),
            Self::Psm { index, .. } => Box::new(index.with_budget(budget)),
        }
    }
}

/// Near pairs of the built-in model that the shape of an index is chosen on. More would change little: the budget is chosen
/// on the pairs of the corpus.
const MODEL_PAIRS: usize = 400;

/// The shape of the dial index for so many hashes, as `flipside plan` tells it without a sample. The budget comes later.
pub fn dial_params(hashes: usize, settings: &Settings, key_bits: Option<u32>) -> Result<DialParams> {
    let task = Task {
        hashes: hashes.max(1) as u64,
        distance: settings.distance,
        recall: settings.recall,
        memory: None,
        kind: Some(Kind::Dial),
        key_bits,
        join: true,
    };
    let choice = plan::choose(&task, &Model::built_in(settings.distance, MODEL_PAIRS))?;
    let none = || Error::parameter("distance", settings.distance, "a distance that the dial index reaches");
    Ok(DialParams { budget: None, ..choice.ok_or_else(none)?.params(settings.distance) })
}

/// Traced pairs of the corpus, and the number of all probes of the index that the settings ask for.
pub fn traced_sample(
    sketches: &SimHashes,
    settings: &Settings,
    stages: &mut Stages<'_>,
) -> Result<(Sample, u64)> {
    let n = sketches.hashes.len() as u64;
    let distinct = stages.run("group", n, "pages", 0, |_| DistinctHashes::new(&sketches.hashes));
    let slots = distinct.len() as u64;
    let psm =
        stages.run("index", slots, "distinct hashes", 0, |_| Dialled::new(distinct.hashes(), settings))?;
    let params = CalibrationParams { seed: settings.seed, ..Default::default() };
    let sample = stages.run("calibrate", n, "pages", 0, |_| {
        Sample::take(distinct.hashes(), &params, |slot| {
            let weights = sketches.weights[distinct.members(slot)[0] as usize].weights();
            psm.trace(Query { hash: distinct.hash(slot), weights: &weights })
        })
    });
    Ok((sample, psm.all_probes()))
}

/// Adds what the recall is if pairs of equal hashes, which are always found, count as well. The pairs at distance 1 to h
/// that were not found are estimated from the recall.
fn with_identical(mut recall: Recall, distinct: &DistinctHashes, joined: &[SlotPair]) -> Recall {
    let size = |slot: Slot| distinct.members(slot).len() as f64;
    let identical: f64 = distinct.slots().map(|slot| size(slot) * (size(slot) - 1.0) / 2.0).sum();
    let near: f64 = joined.iter().map(|pair| size(pair.a) * size(pair.b)).sum();
    let all = identical + near / recall.reached.max(f64::MIN_POSITIVE);
    if all > 0.0 {
        let share = 100.0 * (identical + near) / all;
        recall.denominator.push_str(&format!(
            ". With the {} of different texts of equal hashes, about {share:.2} % of all pairs were found",
            counted(identical as u64, "pair", "pairs")
        ));
    }
    recall
}

/// Slots of sketched texts with all their copies, then one for each text without a sketch.
fn group<'a>(
    slots: usize,
    texts_of: impl Fn(u32) -> &'a [u32],
    texts: &Texts,
    collection: &Collection,
    settings: &Settings,
) -> Groups {
    let sketched: Vec<Vec<u32>> = (0..slots as u32)
        .map(|slot| {
            let copies =
                texts_of(slot).iter().map(|&sketched| texts.copies(texts.sketched[sketched as usize]));
            copies.flatten().copied().collect()
        })
        .collect();
    let unsketched = texts.unsketched.iter().map(|&text| texts.copies(text));
    Groups::new(sketched.iter().map(Vec::as_slice).chain(unsketched), &collection.documents, settings.keep)
}

/// The report's words for what was measured.
fn recall_of(calibration: &Calibration, settings: &Settings, all_probes: u64) -> Recall {
    let h = settings.distance;
    let denominator = match calibration.budget {
        Some(_) => format!(
            "of the pairs of distinct hashes at distance 1 to {h} around a sample of pages, exhaustively searched; half of \
             the duplicate clusters chose the budget, the other half ({}) measured this recall",
            counted(calibration.held_out_clusters, "cluster", "clusters")
        ),
        None => format!(
            "no smaller budget was sure to reach the recall on the {} at distance 1 to {h} of the sample, so the \
             search was exhaustive",
            counted(calibration.chosen_on, "pair", "pairs")
        ),
    };
    Recall {
        wanted: settings.recall,
        reached: calibration.reached,
        low: calibration.low,
        high: calibration.high,
        confidence: 0.95,
        denominator,
        budget_probes: calibration.budget.map_or(all_probes, u64::from),
        sample_pairs: calibration.held_out,
    }
}

/// For each table, the number of pairs of texts it brings up by score, 64 minus the distance. `tables_of` says which tables
/// bring up two hashes.
fn hamming_histograms(
    radius: u32,
    tables: &[String],
    tables_of: impl Fn(u64, u64) -> TableSet + Sync,
    distinct: &DistinctHashes,
    joined: &[SlotPair],
) -> Vec<Histogram> {
    let scores = radius as usize + 1;
    let size = |slot: Slot| distinct.members(slot).len() as u64;
    let identical: u64 = distinct.slots().map(|slot| size(slot) * (size(slot) - 1) / 2).sum();
    let hash = |slot: Slot| distinct.hash(slot);
    let nothing = || vec![vec![0u64; scores]; tables.len()];
    let counts = joined
        .par_chunks(4096)
        .fold(nothing, |mut counts, pairs| {
            for pair in pairs {
                let mut tables = tables_of(hash(pair.a), hash(pair.b));
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
    tables
        .iter()
        .zip(counts)
        .map(|(table, mut by_distance)| {
            by_distance[0] += identical;
            let rows: Vec<(u32, u64)> =
                (0..scores as u32).rev().map(|d| (64 - d, by_distance[d as usize])).collect();
            Histogram::new(table.clone(), "64 − distance", &rows)
        })
        .collect()
}

/// Finds near-duplicates by MinHash signatures in bands.
///
/// # Errors
/// If the settings give no signature, or no banding that reaches the wanted recall.
pub fn by_minhash(
    collection: &Collection,
    texts: &Texts,
    settings: &Settings,
    stages: &mut Stages<'_>,
) -> Result<Found> {
    let m = settings.permutations;
    let banding = match settings.bands {
        Some((bands, rows)) => Banding { bands, rows },
        None => Banding::choose(m, settings.similarity, settings.recall)?,
    };
    let n = texts.sketched.len() as u64;
    let signatures = stages.run("minhash", n, "pages", 0, |progress| {
        sketch::signatures(collection, texts, settings, progress)
    })?;
    let distinct = stages.run("group", n, "pages", 0, |_| DistinctSignatures::new(signatures));
    let slots = distinct.len() as u64;
    let exact = settings.jaccard == JaccardCheck::Exact;
    let enough = match settings.jaccard {
        JaccardCheck::Estimated => min_matches(m, settings.similarity),
        JaccardCheck::Exact => {
            // Not counted are candidates whose estimate is four standard errors below the threshold.
            let (m, s) = (m as f64, settings.similarity);
            (m * s - 4.0 * (m * s * (1.0 - s)).sqrt()).max(0.0) as usize
        }
    };
    let jaccard_of = |a: Slot, b: Slot| {
        let first = |slot| texts.copies(texts.sketched[distinct.members(slot)[0] as usize])[0];
        exact_jaccard(collection, first(a), first(b))
    };
    let params = JoinParams::new(banding, enough);
    let mut found: Vec<search::NearPair> = Vec::new();
    let stats = stages.run("join", slots, "distinct signatures", 0, |_| {
        let accept = |pair: search::NearPair| !exact || jaccard_of(pair.a, pair.b) >= settings.similarity;
        bands::join_with(&distinct, params, accept, |pairs| found.extend_from_slice(pairs))
    })?;
    found.par_sort_unstable();
    found.dedup();
    let joined: Vec<SlotPair> = found
        .par_iter()
        .map(|pair| SlotPair {
            a: pair.a,
            b: pair.b,
            distance: pair.distance,
            similarity: if exact {
                jaccard_of(pair.a, pair.b) as f32
            } else {
                (m as u32 - pair.distance) as f32 / m as f32
            },
        })
        .collect();
    let sum = |field: fn(&BandStats) -> u64| stats.iter().map(field).sum::<u64>();
    let groups = group(distinct.len(), |slot| distinct.members(Slot(slot)), texts, collection, settings);
    let mut warnings = Vec::new();
    if sum(|band| band.skipped) > 0 {
        warnings.push(format!(
            "{} not compared, because more than {} different pages share it, most likely \
             pages of one template. Each was compared with its {} likeliest neighbours; for example {}. {TEMPLATE_ADVICE}",
            counted(sum(|band| band.skipped), "pair that shares a band was", "pairs that share a band were"),
            params.full_bucket,
            params.neighbours,
            most_neighbours(collection, &groups, &joined)
        ));
    }
    Ok(Found {
        groups,
        joined,
        cost: SearchCost {
            probes: sum(|band| band.buckets),
            candidates: sum(|band| band.candidates),
            verified: sum(|band| band.verified),
            index_bytes: (distinct.len() * m * size_of::<u32>()) as u64,
            distinct_hashes: slots,
        },
        histograms: band_histograms(&stats, enough.saturating_sub(m / 8)),
        recall: None,
        s_curve: Some(SCurve::new(banding.bands as u32, banding.rows as u32, settings.similarity)),
        chosen: vec![("bands", banding.bands.to_string()), ("rows", banding.rows.to_string())],
        warnings,
    })
}

/// The exact Jaccard coefficient of the sets of features of two documents.
fn exact_jaccard(collection: &Collection, a: u32, b: u32) -> f64 {
    let sorted = |document| {
        let mut features: Vec<(u64, u32)> =
            collection.features_of(document).map(|feature| (feature, 1)).collect();
        features.sort_unstable();
        features
    };
    features::jaccard(&sorted(a), &sorted(b))
}

/// For each band, the number of pairs of texts it brings up by score, the number of equal positions, from `least` on.
fn band_histograms(stats: &[BandStats], least: usize) -> Vec<Histogram> {
    stats
        .iter()
        .enumerate()
        .map(|(band, stats)| {
            let rows: Vec<(u32, u64)> = (0..).zip(stats.scores.iter().copied()).skip(least).collect();
            Histogram::new(format!("band {band}"), "matching positions", &rows)
        })
        .collect()
}

/// A model for plans from the corpus: near pairs within the distance around a random sample of pages, and hashes.
pub fn model(distinct: &DistinctHashes, sketches: &SimHashes, settings: &Settings) -> Result<Model> {
    let hashes = distinct.hashes();
    let dial = Dial::new(hashes, dial_params(hashes.len(), settings, None)?)?;
    let weights = |slot: Slot| sketches.weights[distinct.members(slot)[0] as usize].weights();
    let params = CalibrationParams { seed: settings.seed, ..CalibrationParams::default() };
    let pairs = near_pairs(hashes, &params, |slot| {
        let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
        let query = Query { hash: hashes[slot.index()], weights: &weights(slot) };
        dial.search(query, Mode::All, &mut scratch, &mut hits);
        // Where the search comes upon them is for the plan to say.
        hits.into_iter().map(|hit| (hit, 1)).collect()
    });
    let kernel = weakest::Kernel::best();
    let of = |(a, b): (Slot, Slot)| NearPair {
        differing: hashes[a.index()] ^ hashes[b.index()],
        strengths: [a, b].map(|slot| kernel.strengths(&weights(slot))),
    };
    let mut sample = hashes.to_vec();
    sample.par_sort_unstable_by_key(|&hash| fmix64(hash ^ settings.seed));
    Ok(Model::of_sample(pairs.into_iter().map(of).collect(), sample))
}
