//! The self-join: all pairs of distinct signatures that share a band and agree in enough positions.
//!
//! A slot is the number of a distinct signature, and its rows are its values in a band. Two signatures share a band if
//! their rows there are equal. Band by band the slots are sorted by the hash of their rows. A bucket is a run of slots
//! with equal hashes. Slots of a bucket with different rows are not compared there. No table of buckets is kept.

use anyhow::{Result, ensure};
use rayon::prelude::*;
use simflip::hash::fmix64;
use simflip::minhash::Signatures;
use simflip::search::NearPair;
use simflip::search::bands::Banding;
use simflip::{Document, Id, Slot};
use simflip_core::internal::Level;
use std::cmp::Ordering;

/// The number of places of a band's order that are joined before their pairs are put together, so that not all pairs of
/// a band are in memory twice.
const BATCH: usize = 1 << 13;
/// The number of places that one task joins.
const TASK: usize = 1 << 7;

/// The parameters of a join of signatures.
#[derive(Clone, Copy, Debug)]
pub struct JoinParams {
    /// The bands of the signatures. Positions beyond the last band count in the comparison alone.
    pub banding: Banding,
    /// The fewest equal positions of a pair that is listed. [`min_matches`] gives them for a
    /// Jaccard similarity.
    pub min_matches: usize,
    /// The most signatures of a bucket of which all pairs are compared. Larger buckets are capped.
    pub full_bucket: usize,
    /// The number of later signatures of a capped bucket that each is compared with, at least 1. Such a bucket may hold
    /// 100,000 signatures of documents of one template.
    ///
    /// The bucket is sorted by the positions after the band, and then by those before it. So the most similar
    /// signatures likely stand side by side. Not all pairs of a group of similar documents are found. Mostly, a chain
    /// of found pairs still leads from each of them to every other. [`BandStats::skipped`] counts the pairs that are
    /// not compared. A pair that shares a band is compared in any case if its bucket there is not capped.
    pub neighbours: usize,
}

impl JoinParams {
    /// The usual bounds: all pairs of buckets of up to 256 signatures, 32 neighbours in larger ones.
    pub const fn new(banding: Banding, min_matches: usize) -> Self {
        Self { banding, min_matches, full_bucket: 256, neighbours: 32 }
    }
}

/// The counts of one band of a join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BandStats {
    /// Buckets of two or more distinct signatures.
    pub buckets: u64,
    /// Pairs of distinct signatures that share a bucket and were compared.
    pub candidates: u64,
    /// Candidates that agree in enough positions. A pair that several bands compare counts in each of them.
    pub verified: u64,
    /// Pairs of distinct signatures that were not compared, as they stand too far apart in a capped bucket.
    pub skipped: u64,
    /// `scores[k]`: the number of pairs of *documents* whose signatures were compared in this band and agree in `k`
    /// positions, for a histogram. There are `permutations + 1` entries. The last one counts in every band all pairs of
    /// documents of equal signatures, too. They share each band without a comparison.
    pub scores: Vec<u64>,
}

impl BandStats {
    /// Adds the comparisons of a part of the band. Buckets and skipped pairs are counted for a whole band.
    fn add(&mut self, other: &Self) {
        self.candidates += other.candidates;
        self.verified += other.verified;
        for (sum, n) in self.scores.iter_mut().zip(&other.scores) {
            *sum += n;
        }
    }
}

/// The outcome of a join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Join {
    /// The pairs, each once, ascending by `a` and then by `b`. Slots are places in the list of distinct signatures.
    pub pairs: Vec<NearPair>,
    /// The counts of each band, in order.
    pub bands: Vec<BandStats>,
}

/// The fewest of `permutations` positions that must be equal for an estimated similarity of at least `similarity`.
pub fn min_matches(permutations: usize, similarity: f64) -> usize {
    // 0.7 · 10 is a little more than 7 in floating point; the fewest are 7 all the same.
    (similarity.clamp(0.0, 1.0) * permutations as f64 - 1e-9).ceil() as usize
}

/// The distinct signatures of a list, in the order of their values, and for each the documents that have it. A slot is
/// the place of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinctSignatures {
    signatures: Signatures,
    members: Vec<Vec<Document>>,
}

impl DistinctSignatures {
    /// The distinct ones of `signatures`, where `signatures.get(i)` is that of the document `i`.
    ///
    /// # Errors
    /// If they have no positions.
    pub fn new(signatures: &Signatures) -> Result<Self> {
        let signature = |document: &Document| signatures.get(document.index());
        let mut order: Vec<Document> = Document::all(signatures.len()).collect();
        order.par_sort_by(|a, b| signature(a).cmp(signature(b)));
        let mut own = Self { signatures: Signatures::new(signatures.permutations())?, members: Vec::new() };
        for same in order.chunk_by(|a, b| signature(a) == signature(b)) {
            own.signatures.push(signature(&same[0]))?;
            own.members.push(same.to_vec());
        }
        Ok(own)
    }

    /// The distinct signatures, by slot.
    pub fn signatures(&self) -> &Signatures {
        &self.signatures
    }

    /// The documents that have the signature of a slot, ascending.
    pub fn members(&self, slot: Slot) -> &[Document] {
        &self.members[slot.index()]
    }

    /// The documents of every slot.
    pub fn groups(&self) -> &[Vec<Document>] {
        &self.members
    }

    /// Number of distinct signatures.
    pub fn len(&self) -> usize {
        self.signatures.len()
    }
}

/// All pairs of signatures that share a band and agree in at least [`JoinParams::min_matches`] positions. Pairs that
/// capped buckets alone hold may be missing: see [`JoinParams::neighbours`]. The answer does not depend on the number
/// of threads. Documents of equal signatures share a slot and are no pairs of their own.
///
/// # Errors
/// If the bands have no positions or more than a signature has, or if `neighbours` is 0.
pub fn join(signatures: &DistinctSignatures, params: JoinParams) -> Result<Join> {
    join_with(signatures, params, |_| true)
}

/// The join with a second check. `accept` gets every candidate that agrees in enough positions, once for each pair, in
/// any order. The pair is listed if `accept` returns true. A caller that counts more pairs than a list can hold returns
/// false.
///
/// # Errors
/// As [`join`].
pub fn join_with(
    distinct: &DistinctSignatures,
    params: JoinParams,
    accept: impl Fn(NearPair) -> bool + Sync,
) -> Result<Join> {
    let signatures = distinct.signatures();
    params.banding.check(signatures.permutations())?;
    ensure!(params.neighbours > 0, "a signature is compared with one neighbour at least");
    let sizes: Vec<u32> = distinct.groups().iter().map(|members| members.len() as u32).collect();
    let equal_documents: u64 = sizes.iter().map(|&size| pairs_of(size as usize)).sum();
    let mut joiner = Joiner { sizes, signatures, params, kernel: Level::in_use(), places: Vec::new() };
    let mut all = Join::default();
    for band in 0..params.banding.bands {
        let (order, mut stats) = joiner.sort(band);
        stats.scores = vec![0; signatures.permutations() + 1];
        stats.scores[signatures.permutations()] = equal_documents;
        for batch in (0..order.len()).step_by(BATCH) {
            let end = order.len().min(batch + BATCH);
            let parts: Vec<(Vec<NearPair>, BandStats)> = (batch..end)
                .into_par_iter()
                .step_by(TASK)
                .map(|start| joiner.compare(band, &order, start..end.min(start + TASK), &accept))
                .collect();
            for (pairs, part) in parts {
                stats.add(&part);
                all.pairs.extend(pairs);
            }
        }
        all.bands.push(stats);
    }
    all.pairs.par_sort_unstable();
    Ok(all)
}

/// The state of a join.
struct Joiner<'a> {
    /// Number of documents of each slot.
    sizes: Vec<u32>,
    signatures: &'a Signatures,
    params: JoinParams,
    kernel: Level,
    /// `places[slot · bands + band]`: 0 if all pairs of the slot's bucket are compared, else 1 + its place in the
    /// band's order. Empty until a bucket is capped.
    places: Vec<u32>,
}

impl Joiner<'_> {
    /// The values of a slot's signature in a band.
    fn rows(&self, band: usize, slot: u32) -> &[u32] {
        let rows = self.params.banding.rows;
        &self.signatures.get(slot as usize)[band * rows..(band + 1) * rows]
    }

    /// The slots in the order in which this band compares them, each with the hash of its
    /// rows; counts the buckets.
    fn sort(&mut self, band: usize) -> (Vec<(u64, u32)>, BandStats) {
        let mut order: Vec<(u64, u32)> = (0..self.signatures.len() as u32)
            .into_par_iter()
            .map(|slot| {
                (self.rows(band, slot).iter().fold(0, |key, &row| fmix64(key ^ u64::from(row))), slot)
            })
            .collect();
        order.par_sort_unstable();
        let mut stats = BandStats::default();
        let JoinParams { banding: Banding { bands, .. }, full_bucket, neighbours, .. } = self.params;
        let mut start = 0;
        for bucket in order.chunk_by_mut(|a, b| a.0 == b.0) {
            let n = bucket.len();
            stats.buckets += u64::from(n > 1);
            if n > full_bucket && n - 1 > neighbours {
                // The last `neighbours` signatures are compared among themselves, each other one with `neighbours`.
                let compared = (n - neighbours) as u64 * neighbours as u64 + pairs_of(neighbours);
                stats.skipped += pairs_of(n) - compared;
                bucket.par_sort_unstable_by(|a, b| self.compare_after(band, a.1, b.1));
                self.places.resize(self.signatures.len() * bands, 0);
                for (place, &(_, slot)) in (start + 1..).zip(&*bucket) {
                    self.places[slot as usize * bands + band] = place;
                }
            }
            start += n as u32;
        }
        (order, stats)
    }

    /// Orders signatures by the positions after a band, going on at the start.
    fn compare_after(&self, band: usize, a: u32, b: u32) -> Ordering {
        let (a, b) = (self.signatures.get(a as usize), self.signatures.get(b as usize));
        let from = (band + 1) * self.params.banding.rows;
        a[from..].cmp(&b[from..]).then_with(|| a[..from].cmp(&b[..from]))
    }

    /// Compares the signatures at some places of a band's order, each with those that follow it in its bucket.
    fn compare(
        &self,
        band: usize,
        order: &[(u64, u32)],
        places: std::ops::Range<usize>,
        accept: &impl Fn(NearPair) -> bool,
    ) -> (Vec<NearPair>, BandStats) {
        let (mut pairs, mut stats) = (Vec::new(), BandStats::default());
        for place in places {
            let (key, first) = order[place];
            let followers = if self.place(band, first) == 0 { order.len() } else { self.params.neighbours };
            for &(_, second) in order[place + 1..].iter().take(followers).take_while(|next| next.0 == key) {
                let (a, b) = (first.min(second), first.max(second));
                // Different rows may have equal hashes.
                if self.rows(band, a) != self.rows(band, b) {
                    continue;
                }
                let matches =
                    self.kernel.matches(self.signatures.get(a as usize), self.signatures.get(b as usize));
                let distance = (self.signatures.permutations() - matches) as u32;
                let pair = NearPair { a: Slot(a), b: Slot(b), distance };
                stats.candidates += 1;
                if stats.scores.is_empty() {
                    stats.scores = vec![0; self.signatures.permutations() + 1];
                }
                let documents = |slot: u32| u64::from(self.sizes[slot as usize]);
                stats.scores[matches] += documents(a) * documents(b);
                if matches >= self.params.min_matches {
                    stats.verified += 1;
                    // A pair that an earlier band has compared got its answer there.
                    if !self.compared_before(band, a, b) && accept(pair) {
                        pairs.push(pair);
                    }
                }
            }
        }
        (pairs, stats)
    }

    /// The place of a slot in a band's order, counted from 1, if its bucket is capped; 0 otherwise.
    fn place(&self, band: usize, slot: u32) -> u32 {
        self.places.get(slot as usize * self.params.banding.bands + band).copied().unwrap_or(0)
    }

    /// True if an earlier band has compared two slots: their rows are equal there, and they stood at most `neighbours`
    /// places from each other if the bucket is capped. (Slots of one bucket have both a place or none.)
    fn compared_before(&self, band: usize, a: u32, b: u32) -> bool {
        (0..band).any(|k| {
            let apart = self.place(k, a).abs_diff(self.place(k, b));
            apart as usize <= self.params.neighbours && self.rows(k, a) == self.rows(k, b)
        })
    }
}

/// Number of pairs of `n` things.
fn pairs_of(n: usize) -> u64 {
    let n = n as u64;
    n * n.saturating_sub(1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip::clusters::Partition;
    use simflip::hash::SplitMix64;
    use std::collections::BTreeMap;

    /// Groups of similar signatures of 12 positions: each position is its group's, or one of few others.
    fn documents(n: usize, groups: u64, changed: f64, seed: u64) -> Signatures {
        let mut rng = SplitMix64::new(seed);
        let mut signatures = Signatures::new(12).unwrap();
        for _ in 0..n {
            let group = rng.below(groups);
            let mut position = |i: u64| {
                let other = if rng.unit() < changed { rng.below(5) } else { 0 };
                (group * 1000 + i * 10 + other) as u32
            };
            signatures.push(&std::array::from_fn::<u32, 12, _>(|i| position(i as u64))).unwrap();
        }
        signatures
    }

    fn clustered(n: usize, groups: u64, changed: f64, seed: u64) -> DistinctSignatures {
        DistinctSignatures::new(&documents(n, groups, changed, seed)).unwrap()
    }

    fn params(bands: usize, rows: usize, min_matches: usize, neighbours: usize) -> JoinParams {
        // The smallest full bucket that is not fully compared anyway.
        JoinParams { banding: Banding { bands, rows }, min_matches, full_bucket: neighbours + 1, neighbours }
    }

    /// Every pair against every other, and the histograms with them.
    fn naive(distinct: &DistinctSignatures, params: JoinParams) -> (Vec<NearPair>, Vec<Vec<u64>>) {
        let Banding { bands, rows } = params.banding;
        let (mut pairs, m) = (Vec::new(), distinct.signatures().permutations());
        let mut scores = vec![vec![0; m + 1]; bands];
        let signature = |slot: Slot| distinct.signatures().get(slot.index());
        for a in Slot::all(distinct.len()) {
            let documents = distinct.members(a).len() as u64;
            for band in &mut scores {
                band[m] += documents * (documents - 1) / 2;
            }
            for b in Slot::all(distinct.len()).skip(a.index() + 1) {
                let (x, y) = (signature(a), signature(b));
                let matches = (0..m).filter(|&i| x[i] == y[i]).count();
                let shared: Vec<usize> = (0..bands)
                    .filter(|k| x[k * rows..(k + 1) * rows] == y[k * rows..(k + 1) * rows])
                    .collect();
                for &k in &shared {
                    scores[k][matches] += documents * distinct.members(b).len() as u64;
                }
                if !shared.is_empty() && matches >= params.min_matches {
                    pairs.push(NearPair { a, b, distance: (m - matches) as u32 });
                }
            }
        }
        (pairs, scores)
    }

    #[test]
    fn the_join_is_the_comparison_of_all_pairs() {
        for seed in 0..200 {
            let mut rng = SplitMix64::new(seed);
            let rows = 1 + rng.below(12) as usize;
            let params =
                params(1 + rng.below((12 / rows) as u64) as usize, rows, rng.below(13) as usize, 1000);
            let distinct = clustered(rng.below(120) as usize, 1 + rng.below(7), rng.unit(), seed);
            let join = join(&distinct, params).unwrap();
            let (pairs, scores) = naive(&distinct, params);
            // Each once, although most pairs share several bands.
            assert_eq!(join.pairs, pairs);
            assert_eq!(join.bands.iter().map(|band| band.scores.clone()).collect::<Vec<_>>(), scores);
            assert!(join.bands.iter().all(|band| band.skipped == 0));
        }
    }

    #[test]
    fn a_limited_join_says_what_it_skipped() {
        for seed in 0..100 {
            let mut rng = SplitMix64::new(seed);
            let distinct = clustered(rng.below(150) as usize, 1 + rng.below(3), rng.unit() / 2.0, seed);
            let (full_bucket, neighbours) = (rng.below(60) as usize, 1 + rng.below(39) as usize);
            let full = join(&distinct, params(4, 3, 6, 1000)).unwrap();
            let params = JoinParams { full_bucket, neighbours, ..params(4, 3, 6, 0) };
            let limited = join(&distinct, params).unwrap();
            // Ascending and each once, although limited buckets of several bands hold the same pairs.
            assert!(limited.pairs.is_sorted_by(|a, b| a < b));
            assert!(limited.pairs.iter().all(|pair| full.pairs.binary_search(pair).is_ok()));
            let in_full = full_bucket.max(neighbours + 1);
            for (limited, full) in limited.bands.iter().zip(&full.bands) {
                assert_eq!(limited.candidates + limited.skipped, full.candidates);
                assert!(limited.candidates <= (distinct.len() * in_full) as u64);
            }
            // What shares a small bucket in any band is found.
            let rows = |k: usize, slot: Slot| &distinct.signatures().get(slot.index())[3 * k..3 * k + 3];
            let size = |k: usize, slot: Slot| {
                Slot::all(distinct.len()).filter(|&other| rows(k, other) == rows(k, slot)).count()
            };
            for pair in &full.pairs {
                let small = (0..4).any(|k| rows(k, pair.a) == rows(k, pair.b) && size(k, pair.a) <= in_full);
                assert!(!small || limited.pairs.binary_search(pair).is_ok(), "{pair:?}");
            }
        }
    }

    #[test]
    fn the_order_of_documents_changes_nothing() {
        for seed in 0..100 {
            let mut rng = SplitMix64::new(seed);
            let (groups, changed) = (1 + rng.below(3), rng.unit() / 2.0);
            let all = documents(rng.below(150) as usize, groups, changed, seed);
            let (full_bucket, neighbours) = (rng.below(60) as usize, 1 + rng.below(39) as usize);
            let mut order: Vec<usize> = (0..all.len()).collect();
            order.sort_unstable_by_key(|&document| fmix64(document as u64 ^ seed));
            let mut shuffled = Signatures::new(12).unwrap();
            order.iter().for_each(|&document| shuffled.push(all.get(document)).unwrap());
            let params = JoinParams { full_bucket, neighbours, ..params(4, 3, 6, 0) };
            let [one, other] = [all, shuffled].map(|documents| {
                let distinct = DistinctSignatures::new(&documents).unwrap();
                let join = join(&distinct, params).unwrap();
                let signature = |slot: Slot| distinct.signatures().get(slot.index()).to_vec();
                let pairs: Vec<_> = join.pairs.iter().map(|p| (signature(p.a), signature(p.b))).collect();
                (pairs, join.bands)
            });
            assert_eq!(one, other);
        }
    }

    #[test]
    fn equal_signatures_share_a_slot() {
        for seed in 0..200 {
            let mut rng = SplitMix64::new(seed);
            let m = 1 + rng.below(3) as usize;
            let mut signatures = Signatures::new(m).unwrap();
            for _ in 0..rng.below(60) {
                let signature: Vec<u32> = (0..m).map(|_| rng.below(3) as u32).collect();
                signatures.push(&signature).unwrap();
            }
            let mut naive: BTreeMap<&[u32], Vec<Document>> = BTreeMap::new();
            for document in Document::all(signatures.len()) {
                naive.entry(signatures.get(document.index())).or_default().push(document);
            }
            let distinct = DistinctSignatures::new(&signatures).unwrap();
            let of = |slot: Slot| (distinct.signatures().get(slot.index()), distinct.members(slot).to_vec());
            assert!(Slot::all(distinct.len()).map(of).eq(naive));
        }
    }

    #[test]
    fn the_fewest_matches_are_not_one_too_many() {
        assert_eq!(min_matches(10, 0.7), 7);
        assert_eq!((min_matches(128, 0.8), min_matches(128, 0.0), min_matches(128, 1.0)), (103, 0, 128));
    }

    #[test]
    fn a_template_of_many_documents_is_joined_in_linear_work_and_stays_connected() {
        // 20,000 different documents that share the first band; every other position is the template's nine times
        // in ten, so all of the 2·10⁸ pairs are similar.
        let mut rng = SplitMix64::new(1);
        let mut signatures = Signatures::new(64).unwrap();
        for document in 0..20_000u64 {
            let mut position = |i: u64| {
                if i < 4 || i < 63 && rng.below(10) > 0 { i as u32 } else { (document * 64 + i) as u32 + 100 }
            };
            signatures.push(&std::array::from_fn::<u32, 64, _>(|i| position(i as u64))).unwrap();
        }
        let distinct = DistinctSignatures::new(&signatures).unwrap();
        let join = join(&distinct, params(1, 4, 40, 20)).unwrap();
        assert_eq!(join.bands[0].candidates, 19_980 * 20 + 190);
        assert_eq!(join.bands[0].skipped, 20_000 * 19_999 / 2 - join.bands[0].candidates);
        let mut partition = Partition::singletons(distinct.len());
        join.pairs.iter().for_each(|pair| {
            partition.join(pair.a, pair.b);
        });
        assert!(partition.clusters().iter().map(<[Slot]>::len).eq([20_000]));
    }

    #[test]
    fn neighbours_in_a_limited_bucket_are_the_similar_ones() {
        // 1,000 twins that share a band with all others but nothing else with any but each other.
        let mut signatures = Signatures::new(8).unwrap();
        for i in 0..2000u32 {
            let twin = i % 1000;
            let own = |position: u32| 1 + twin * 8 + position;
            let last = 10_000 + i;
            signatures.push(&[0, 0, own(2), own(3), own(4), own(5), own(6), last]).unwrap();
        }
        let distinct = DistinctSignatures::new(&signatures).unwrap();
        let join = join(&distinct, params(1, 2, 7, 1)).unwrap();
        let documents = |p: &NearPair| [p.a, p.b].map(|slot| distinct.members(slot)[0]);
        let mut pairs: Vec<_> = join.pairs.iter().map(documents).map(|[a, b]| (a.min(b), a.max(b))).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, (0..1000).map(|i| (Document(i), Document(i + 1000))).collect::<Vec<_>>());
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let distinct = clustered(3000, 40, 0.3, 5);
        for neighbours in [5, 10_000] {
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| join(&distinct, params(4, 3, 6, neighbours)).unwrap())
            };
            assert_eq!(run(1), run(4));
        }
    }

    #[test]
    fn the_second_check_decides() {
        let distinct = clustered(200, 5, 0.3, 7);
        let params = params(4, 3, 3, 1000);
        let found = join_with(&distinct, params, |pair| pair.a.number() % 2 == 0).unwrap().pairs;
        let mut all = join(&distinct, params).unwrap().pairs;
        all.retain(|pair| pair.a.number() % 2 == 0);
        assert_eq!(found, all);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let distinct = clustered(3, 1, 0.5, 1);
        for wrong in [params(5, 3, 0, 10), params(0, 3, 0, 10), params(4, 3, 0, 0)] {
            assert!(join(&distinct, wrong).is_err(), "{wrong:?}");
        }
    }
}
