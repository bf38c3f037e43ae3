//! From a text to its sketch, stage by stage: cutting into features, counting them, SimHash.
//!
//! Each benchmark first checks what it computes, so one run of them
//! (`cargo test -p simflip-benches --features criterion --bench document`) is a test.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use simflip_core::internal::Vocabulary;
use simflip_core::simhash::hasher::SimHasher;
use simflip_core::text::{FeatureExtractor, FeatureKind};
use simflip_core::weight::{Weigher, Weighting};
use std::hint::black_box;

/// About 64 kB of words drawn from a list by a skewed law, in the shape of prose.
fn prose(words: &[&str]) -> String {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut text = String::new();
    while text.len() < 1 << 16 {
        let place = (words.len() as f64 * rng.random::<f64>().powi(3)) as usize;
        text.push_str(words[place]);
        text.push_str(if rng.random_range(0..12) == 0 { ". " } else { " " });
    }
    text
}

const ENGLISH: [&str; 16] = [
    "the",
    "of",
    "and",
    "document",
    "is",
    "Near",
    "duplicate",
    "index",
    "2024",
    "crawl",
    "documentation",
    "release",
    "under",
    "template",
    "distance",
    "probabilistic",
];
const RUSSIAN: [&str; 8] =
    ["и", "в", "страница", "Система", "установка", "пакет", "документация", "является"];
const JAPANESE: [&str; 6] =
    ["日本語の文書です。", "パッケージを", "インストールする", "設定", "ファイル、", "管理"];

fn features(criterion: &mut Criterion) {
    for (language, words) in [("english", &ENGLISH[..]), ("russian", &RUSSIAN), ("japanese", &JAPANESE)] {
        let text = prose(words);
        let mut group = criterion.benchmark_group(format!("features/{language}"));
        group.throughput(Throughput::Bytes(text.len() as u64));
        for kind in [FeatureKind::Words, FeatureKind::Shingles(5)] {
            let mut extractor = FeatureExtractor::new(kind);
            let mut count = 0u64;
            extractor.extract(&text, |_| count += 1);
            let counted: u64 = extractor.counts(&text).iter().map(|&(_, n)| u64::from(n)).sum();
            assert_eq!(count, counted, "a stream and its counts have the same length");
            group.bench_function(kind.to_string(), |bencher| {
                bencher.iter(|| {
                    let mut sum = 0u64;
                    extractor.extract(black_box(&text), |feature| sum = sum.wrapping_add(feature));
                    sum
                });
            });
        }
    }
}

fn vocabulary(criterion: &mut Criterion) {
    // 2,000 documents of 300 features each, of half a million different ones.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let documents: Vec<Vec<u64>> = (0..2_000)
        .map(|_| {
            let rank = |rng: &mut Xoshiro256PlusPlus| (500_000.0 * rng.random::<f64>().powi(3)) as u64;
            (0..300).map(|_| simflip_core::hash::fmix64(rank(&mut rng) + 1)).collect()
        })
        .collect();
    let run = || {
        let mut vocabulary = Vocabulary::default();
        let terms = documents.iter().map(|document| {
            vocabulary.add_all(document);
            vocabulary.finish(|terms, _| terms.len())
        });
        terms.sum::<usize>()
    };
    let distinct = |document: &Vec<u64>| document.iter().collect::<std::collections::HashSet<_>>().len();
    assert_eq!(run(), documents.iter().map(distinct).sum::<usize>());
    let mut group = criterion.benchmark_group("vocabulary");
    group.throughput(Throughput::Elements(2_000 * 300)).sample_size(10);
    group.bench_function("count", |bencher| bencher.iter(run));
}

fn simhash(criterion: &mut Criterion) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let weigher = Weigher::new(Weighting::TfIdf);
    let features: Vec<(u64, i64)> = (0..300)
        .map(|_| {
            (
                rng.random(),
                weigher.weight(rng.random_range(1..6), weigher.idf(rng.random_range(1..901), 1_000)),
            )
        })
        .collect();
    let mut hasher = SimHasher::default();
    let hash = hasher.hash(features.iter().copied());
    for j in 0..64 {
        let sum: i64 = features.iter().map(|&(f, w)| if f >> j & 1 == 1 { w } else { -w }).sum();
        assert_eq!(hash.hash >> j & 1 == 1, sum > 0, "bit {j}");
    }
    let mut group = criterion.benchmark_group("simhash");
    group.throughput(Throughput::Elements(300));
    group.bench_function("300 features", |bencher| {
        bencher.iter(|| hasher.hash(black_box(&features).iter().copied()))
    });
}

criterion_group!(benches, features, vocabulary, simhash);
criterion_main!(benches);
