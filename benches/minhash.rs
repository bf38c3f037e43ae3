//! MinHash: signing and comparing, for every family and every kernel of this processor; the join of bands.
//!
//! What is timed is also checked, so that `cargo bench -p simflip-benches --features criterion --bench minhash --
//! --test` is a test.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use simflip_core::internal::Level;
use simflip_core::minhash::{DistinctSignatures, Family, MinHashParams, MinHasher};
use simflip_core::search::bands::{Banding, JoinParams, join, min_matches};
use std::hint::black_box;

/// Features of a document of usual length.
const FEATURES: usize = 300;

fn sets(n: usize, features: usize) -> Vec<Vec<u64>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    (0..n).map(|_| (0..features).map(|_| rng.random()).collect()).collect()
}

fn sign(c: &mut Criterion) {
    let sets = sets(64, FEATURES);
    for (permutations, family) in [
        (128, Family::Multiply32),
        (256, Family::Multiply32),
        (128, Family::FastSimilarity),
        (256, Family::FastSimilarity),
    ] {
        let mut group = c.benchmark_group(format!("sign/{family:?}/{permutations}"));
        group.throughput(Throughput::Elements((sets.len() * FEATURES) as u64));
        let params = MinHashParams { permutations, family, seed: 1 };
        let expected = MinHasher::new(params).expect("possible").sign_all(&sets);
        for kernel in Level::available() {
            let hasher = MinHasher::with_kernel(params, kernel).expect("possible");
            let mut signature = vec![0; permutations];
            for (i, set) in sets.iter().enumerate() {
                hasher.sign(set, &mut signature);
                assert_eq!(signature, expected.get(i), "{params:?} {}", kernel.name());
            }
            group.bench_function(kernel.name(), |b| {
                b.iter(|| {
                    for set in &sets {
                        hasher.sign(black_box(set), &mut signature);
                        black_box(&signature);
                    }
                });
            });
        }
    }
}

fn compare(c: &mut Criterion) {
    let hasher = MinHasher::new(MinHashParams::default()).expect("possible");
    let signatures = hasher.sign_all(&sets(1000, 20));
    let mut group = c.benchmark_group("matches/128");
    group.throughput(Throughput::Elements(signatures.len() as u64));
    for kernel in Level::available() {
        let count = || {
            (0..signatures.len()).map(|i| kernel.matches(signatures.get(0), signatures.get(i))).sum::<usize>()
        };
        assert_eq!(count(), 128, "{}: random sets have nothing in common", kernel.name());
        group.bench_function(kernel.name(), |b| b.iter(|| black_box(count())));
    }
}

/// Groups of four documents that share nine tenths of their features.
fn documents(n: usize) -> Vec<Vec<u64>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut documents = sets(n, 50);
    for group in documents.chunks_mut(4) {
        let (first, others) = group.split_at_mut(1);
        for document in others {
            document.copy_from_slice(&first[0]);
            for _ in 0..3 {
                document[rng.random_range(0..50)] = rng.random();
            }
        }
    }
    documents
}

fn search(c: &mut Criterion) {
    const DOCUMENTS: usize = 20_000;
    let hasher = MinHasher::new(MinHashParams::default()).expect("possible");
    let signatures = hasher.sign_all(&documents(DOCUMENTS));
    let banding = Banding::choose(128, 0.8, 0.95).expect("possible");
    let least = min_matches(128, 0.7);
    let mut group = c.benchmark_group("bands");
    group.sample_size(10).throughput(Throughput::Elements(DOCUMENTS as u64));

    let distinct = DistinctSignatures::new(signatures.clone());
    let params = JoinParams::new(banding, least);
    let joined = join(&distinct, params).expect("possible");
    let possible = DOCUMENTS / 4 * 6;
    assert!(
        joined.pairs.len() > possible * 9 / 10 && joined.pairs.len() <= possible,
        "{}",
        joined.pairs.len()
    );
    assert!(joined.pairs.iter().all(|p| distinct.members(p.a)[0].0 / 4 == distinct.members(p.b)[0].0 / 4));
    group.bench_with_input(BenchmarkId::new("join", DOCUMENTS), &distinct, |b, distinct| {
        b.iter(|| black_box(join(distinct, params)));
    });
}

criterion_group!(benches, sign, compare, search);
criterion_main!(benches);
