//! MinHash: signing and comparing, for every family and every kernel of this processor.
//!
//! What is timed is also checked, so that `cargo bench -p simflip-benches --features criterion --bench minhash --
//! --test` is a test.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use simflip_core::internal::Level;
use simflip_core::minhash::{Family, MinHashParams, MinHasher};
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

criterion_group!(benches, sign, compare);
criterion_main!(benches);
