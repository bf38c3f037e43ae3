//! Searches per second of every index, over uniform and over skewed hashes.
//!
//! Each query has one stored partner at distance 1 to 3, a [near pair](NearPairs). Every benchmark states how
//! many partners it expects to find, and checks it, before it measures: run with `--test`, this is a test.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use simflip_core::internal::NearPairs;
use simflip_core::search::bphs::{Bphs, BphsParams};
use simflip_core::search::dial::{Dial, DialParams};
use simflip_core::search::distinct::DistinctHashes;
use simflip_core::search::linear::Linear;
use simflip_core::search::psm::{FlippedBits, Psm, PsmParams};
use simflip_core::search::{HammingIndex, Mode, Query, Scratch};
use simflip_core::simhash::SimHash;
use std::hint::black_box;

const STORED: usize = 1 << 18;
const QUERIES: usize = 1 << 10;
const RADIUS: u32 = 3;

struct Workload {
    hashes: DistinctHashes,
    queries: Vec<SimHash>,
    /// The stored partner of each query.
    partners: Vec<u64>,
}

/// `skewed` pulls the sixteen leading components below zero, so that a few prefixes hold most of the hashes.
fn workload(skewed: bool) -> Workload {
    let mut pairs = NearPairs::new(RADIUS, 2011);
    if skewed {
        pairs = pairs.skewed(0xffff << 48, -0.8);
    }
    let (queries, mut hashes): (Vec<SimHash>, Vec<u64>) =
        pairs.by_ref().take(QUERIES).map(|[query, partner]| (query, partner.hash)).unzip();
    let partners = hashes.clone();
    hashes.extend((QUERIES..STORED).map(|_| pairs.single().hash));
    Workload { hashes: DistinctHashes::new(&hashes), queries, partners }
}

/// Queries whose partner is among the matches.
fn partners_found(workload: &Workload, index: &dyn HammingIndex, asked: usize) -> usize {
    let mut scratch = Scratch::default();
    let mut found = 0;
    for (query, &partner) in workload.queries.iter().zip(&workload.partners).take(asked) {
        let mut hits = Vec::new();
        let query = Query { hash: query.hash, weights: &query.weights };
        index.search(query, Mode::All, &mut scratch, &mut hits);
        found += usize::from(hits.iter().any(|hit| workload.hashes.hash(hit.slot) == partner));
    }
    found
}

/// Measures one index. `asked` queries are put, and `expected` of their partners must be found.
fn measure(
    c: &mut Criterion,
    workload: &Workload,
    name: &str,
    index: &dyn HammingIndex,
    asked: usize,
    expected: usize,
) {
    let found = partners_found(workload, index, asked);
    assert_eq!(found, expected, "{name}: partners found by {} of {asked} queries", index.name());
    let queries: Vec<Query<'_>> = workload.queries[..asked]
        .iter()
        .map(|query| Query { hash: query.hash, weights: &query.weights })
        .collect();
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(asked as u64));
    let (mut scratch, mut hits, mut batch) = (Scratch::default(), Vec::new(), Vec::new());
    for mode in [Mode::All, Mode::First] {
        group.bench_function(format!("{mode:?}/one by one"), |b| {
            b.iter(|| {
                hits.clear();
                for &query in &queries {
                    index.search(black_box(query), mode, &mut scratch, &mut hits);
                }
                hits.len()
            });
        });
        group.bench_function(format!("{mode:?}/batch"), |b| {
            b.iter(|| {
                batch.clear();
                index.answer(black_box(&queries), mode, false, &mut scratch, &mut |found| {
                    batch.push((found.query, found.hit))
                });
                batch.len()
            });
        });
    }
    group.finish();
}

fn search(c: &mut Criterion) {
    let p = FlippedBits::Key { key_bits: None };
    let x = FlippedBits::All { filter_bits: 8 };
    for (kind, skewed, expected) in [("uniform", false, UNIFORM), ("skewed", true, SKEWED)] {
        let workload = workload(skewed);
        let hashes = workload.hashes.hashes();
        let linear = Linear::new(hashes, RADIUS).expect("valid");
        measure(c, &workload, &format!("{kind}/linear"), &linear, 16, 16);
        for tables in [4, 10, 16, 20] {
            let index = Bphs::new(hashes, BphsParams { radius: RADIUS, tables }).expect("valid");
            measure(c, &workload, &format!("{kind}/bphs-{tables}"), &index, QUERIES, QUERIES);
        }
        let psm = [("psm-key-bits/12 probes", p, 12), ("psm-all-bits/370 probes", x, 370)];
        for ((name, flipped_bits, budget), expected) in psm.into_iter().zip(expected) {
            let params =
                PsmParams { budget: Some(budget), radius: RADIUS, flipped_bits, ..PsmParams::default() };
            let index = Psm::new(hashes, params).expect("valid");
            measure(c, &workload, &format!("{kind}/{name}"), &index, QUERIES, expected);
        }
        // With a budget: the experiment `dial`.
        let index = Dial::new(hashes, DialParams { radius: RADIUS, ..DialParams::default() }).expect("valid");
        measure(c, &workload, &format!("{kind}/dial/all probes"), &index, QUERIES, QUERIES);
    }
}

/// Partners found of 1,024 by PSM over the key with 12 probes, and by PSM over all bits with 370 probes.
const UNIFORM: [usize; 2] = [1009, 959];
const SKEWED: [usize; 2] = [1018, 977];

criterion_group!(benches, search);
criterion_main!(benches);
