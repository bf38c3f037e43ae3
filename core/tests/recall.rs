//! Recall for users of the library: the number of probes that a wanted recall takes, measured and then held against
//! what a search with so many probes finds.

use simflip_core::calibrate::{Calibration, SampleParams, recall};
use simflip_core::hash::SplitMix64;
use simflip_core::search::dial::{Dial, DialParams};
use simflip_core::search::distinct::DistinctHashes;
use simflip_core::search::linear::Linear;
use simflip_core::search::psm::{FlippedBits, Psm, PsmParams};
use simflip_core::search::{HammingIndex, Mode, Probing, Query, Scratch};
use simflip_core::simhash::{BITS, SimHash};

const WANTED: f64 = 0.9;

/// Pairs of documents: the weights of the second are those of the first with a little noise.
fn documents() -> Vec<SimHash> {
    let mut rng = SplitMix64::new(5);
    let mut all = Vec::new();
    for _ in 0..3_000 {
        let one: [f32; BITS] = std::array::from_fn(|_| rng.unit() as f32 - 0.5);
        let other = one.map(|weight| weight + 0.06 * (rng.unit() as f32 - 0.5));
        all.extend([SimHash::from_weights(one), SimHash::from_weights(other)]);
    }
    all
}

struct Documents {
    all: Vec<SimHash>,
    distinct: DistinctHashes,
}

impl Documents {
    fn new() -> Self {
        let all = documents();
        let hashes: Vec<u64> = all.iter().map(|document| document.hash).collect();
        Self { distinct: DistinctHashes::new(&hashes), all }
    }

    fn hashes(&self) -> &[u64] {
        self.distinct.hashes()
    }

    fn weights(&self, slot: simflip_core::id::Slot) -> [f32; BITS] {
        self.all[self.distinct.members(slot)[0].0 as usize].weights
    }

    fn measure(&self, index: &dyn Probing, wanted: f64, join: bool) -> Calibration {
        let params = SampleParams { join, ..SampleParams::default() };
        recall(index, self.hashes(), |slot| self.weights(slot), &[wanted], params).unwrap()[0]
    }

    /// The pairs (slot, other slot) that a search for each hash finds.
    fn found(&self, index: &dyn HammingIndex) -> Vec<(u32, u32)> {
        let (mut scratch, mut hits, mut found) = (Scratch::default(), Vec::new(), Vec::new());
        for slot in self.distinct.slots() {
            hits.clear();
            let query = Query { hash: self.distinct.hash(slot), weights: &self.weights(slot) };
            index.search(query, Mode::All, &mut scratch, &mut hits);
            found.extend(hits.iter().filter(|hit| hit.slot != slot).map(|hit| (slot.0, hit.slot.0)));
        }
        found.sort_unstable();
        found
    }
}

fn indexes(hashes: &[u64]) -> Vec<Box<dyn Probing>> {
    let psm = |flipped_bits| {
        Psm::new(hashes, PsmParams { radius: 3, flipped_bits, ..PsmParams::default() }).unwrap()
    };
    let in_key = psm(FlippedBits::Key { key_bits: Some(14) });
    // All sets of at most three of the fourteen bits, whatever their order is.
    let sets: Vec<u64> = (0u64..1 << 14).filter(|set| set.count_ones() <= 3).collect();
    vec![
        Box::new(in_key.clone().with_rank_sets(sets)),
        Box::new(in_key),
        Box::new(psm(FlippedBits::All { filter_bits: 4 })),
        Box::new(Dial::new(hashes, DialParams { radius: 3, tables: 2, ..DialParams::default() }).unwrap()),
        Box::new(Dial::new(hashes, DialParams { radius: 3, tables: 3, ..DialParams::default() }).unwrap()),
    ]
}

#[test]
fn the_measured_budget_finds_the_wanted_share_and_hardly_more() {
    let documents = Documents::new();
    let all = documents.found(&Linear::new(documents.hashes(), 3).unwrap());
    assert!(all.len() > 2_000);
    let either = |found: &[(u32, u32)]| {
        let mut pairs: Vec<(u32, u32)> = found.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.len() as f64
    };
    for mut index in indexes(documents.hashes()) {
        for join in [false, true] {
            let measured = documents.measure(&*index, WANTED, join);
            let budget = measured.budget.expect("pairs enough");
            let share = |index: &dyn Probing| {
                let found = documents.found(index);
                if join { either(&found) / either(&all) } else { found.len() as f64 / all.len() as f64 }
            };
            index.set_budget(Some(budget));
            let reached = share(&*index);
            assert!(
                (WANTED - 0.01..0.98).contains(&reached),
                "{}, {join}: {reached}, {measured:?}",
                index.name()
            );
            assert!(
                measured.low <= reached && reached <= measured.high,
                "{}: {reached}, {measured:?}",
                index.name()
            );
            index.set_budget(Some(budget - budget.div_ceil(4)));
            let less = share(&*index);
            assert!(less < reached && less < WANTED + 0.02, "{}, {join}: {less} of {budget}", index.name());
        }
    }
}

#[test]
fn one_sample_answers_for_every_recall_and_is_the_same_for_any_number_of_threads() {
    let documents = Documents::new();
    let psm = Psm::new(documents.hashes(), PsmParams::default()).unwrap();
    let wanted = [0.5, 0.8, 0.9, 0.95, 1.0];
    let weights = |slot| documents.weights(slot);
    let measure = || recall(&psm, documents.hashes(), weights, &wanted, SampleParams::default()).unwrap();
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let found = measure();
    assert_eq!(found, one.install(measure));
    let probes: Vec<u32> = found[..4].iter().map(|found| found.budget.unwrap()).collect();
    assert!(probes.is_sorted() && probes[0] < probes[3], "{probes:?}");
    assert_eq!((found[4].budget, found[4].reached), (None, 1.0));
    assert_eq!(documents.measure(&psm, 0.9, false), found[2]);
    // The budget of the index plays no part.
    let mut one_probe = psm.clone();
    one_probe.set_budget(Some(1));
    assert_eq!(documents.measure(&one_probe, 0.9, false), found[2]);
}

#[test]
fn what_cannot_be_measured_is_refused_and_few_pairs_ask_for_all_probes() {
    let documents = Documents::new();
    let hashes = documents.hashes();
    let refused = |index: &dyn Probing, hashes: &[u64], wanted| {
        let weights = |_| [1.0; BITS];
        recall(index, hashes, weights, &[0.5, wanted], SampleParams::default()).unwrap_err().to_string()
    };
    let psm = Psm::new(hashes, PsmParams::default()).unwrap();
    for wanted in [0.0, -0.5, 1.5, f64::NAN] {
        let told = refused(&psm, hashes, wanted);
        assert_eq!(told, format!("recall {wanted}: expected a share above 0 and at most 1"));
    }
    let backwards: Vec<u64> = hashes.iter().rev().copied().collect();
    assert!(refused(&psm, &backwards, 0.9).starts_with("hashes"));
    let incomplete = DialParams { flips: Some(0), radius: 3, tables: 2, ..DialParams::default() };
    let told = refused(&Dial::new(hashes, incomplete).unwrap(), hashes, 0.9);
    assert!(told.starts_with("index dial-2x") && told.contains("within 3 bits"), "{told}");
    let few_sets = psm.clone().with_rank_sets([0, 1, 2]);
    assert!(refused(&few_sets, hashes, 1.0).starts_with("index psm-key-bits"));

    let few = Psm::new(&hashes[..20], PsmParams::default()).unwrap();
    let found = recall(&few, &hashes[..20], |slot| documents.weights(slot), &[0.9], SampleParams::default())
        .unwrap()[0];
    assert_eq!((found.budget, found.reached), (None, 1.0));
}
