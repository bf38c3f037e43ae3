//! Reports to test with: a plausible one of each kind, and the worst ones.

use super::model::*;
use crate::boilerplate::{BoilerplateShare, GroupBy};
use crate::corpus::{NotRead, Reason, TextSum};
use simflip_core::recall_estimate::Estimated;

/// Text that must never reach an HTML page as it is.
pub const EVIL: &str = "</svg></p><script>alert('1')</script><img src=x onerror=\"alert(2)\">&\u{202e}\u{0}";

const NEWS: &str =
    "City council approves tram extension. Work is to begin in spring and will cost 84 million euro.";

fn pair(other: &str, distance: Option<u32>, similarity: f64) -> PairSample {
    let documents = [
        DocumentSample::new("0:118", "https://courier.example/tram-line-4", NEWS),
        DocumentSample::new("1:4410", "https://news.example/a/88213?utm_source=feed&ref=front", other),
    ];
    PairSample::new(documents, [NEWS, other], distance, similarity)
}

fn pairs(bits: bool) -> Vec<PairSample> {
    let distance = |n| bits.then_some(n);
    let other = NEWS.replace("84 million", "91 million");
    vec![pair(&other, distance(2), 0.9417), pair(NEWS, distance(0), 1.0)]
}

fn stage(name: &str, wall_seconds: f64, cpu_seconds: f64, items: u64, unit: &str) -> Stage {
    Stage { name: name.into(), wall_seconds, cpu_seconds, items, item_unit: unit.into(), bytes: 0 }
}

fn parameter(name: &str, value: &str) -> Parameter {
    Parameter { name: name.into(), value: value.into() }
}

fn corpus() -> Corpus {
    let language = |language: &str, documents| LanguageCount { language: language.into(), documents };
    Corpus {
        files: 3,
        stored_bytes: 421_337_120,
        text_bytes: 1_094_220_118,
        records: 120_022,
        documents: 120_004,
        extracted: 1_000,
        extractor: Some("html2text".into()),
        text_field: None,
        documents_with_few_features: 3_871,
        languages: vec![language("eng", 55_120), language("rus", 8_441)],
    }
}

fn corruption() -> CorruptionReport {
    CorruptionReport {
        documents_lost: 3,
        unknown_losses: 1,
        total: 15,
        by_kind: vec![
            CorruptionCount { kind: "file ends inside a record".into(), records: 14 },
            CorruptionCount { kind: "broken gzip member".into(), records: 1 },
        ],
        listed: vec![
            CorruptRecord {
                documents: Some(1),
                file: "crawl/CC-MAIN-20260101-00002.warc.wet.gz".into(),
                record: Some(31_009),
                offset: Some(109_441_220),
                kind: "broken gzip member".into(),
                detail: "checksum is 5e1f00c2, but 88ab1290 was expected".into(),
            },
            CorruptRecord { kind: "file ends inside a record".into(), ..CorruptRecord::default() },
        ],
    }
}

fn boilerplate() -> BoilerplateReport {
    let share = |documents, lines, boilerplate_lines| BoilerplateShare {
        documents,
        whole_documents: 1,
        lines,
        boilerplate_lines,
        bytes: 40 * lines,
        boilerplate_bytes: 20 * boilerplate_lines,
    };
    let host = |host: &str, share| GroupBoilerplate { group: host.to_owned(), share };
    BoilerplateReport {
        by: GroupBy::Host,
        from: None,
        all: share(90, 2_700, 1_100),
        groups: 7,
        most: vec![
            host("shop.example", share(54, 1_620, 900)),
            host("<script>alert(1)</script>", share(5, 100, 40)),
        ],
        mistaken: 0.0,
    }
}

/// A run of PSM on three crawl files.
pub fn psm() -> Report {
    let sizes = [(2, 9_120), (3, 2_004), (300, 3), (4_811, 1)];
    let table = |n: u64, s: u64| {
        let counts = [(61, 9_204 + 17 * s), (62, 11_877 + 31 * s), (63, 16_202 + 11 * s), (64, 1_356_557)];
        Histogram::new(format!("table {n}"), "64 − distance", &counts)
    };
    Report {
        schema: SCHEMA,
        boilerplate: Some(boilerplate()),
        memory: Some(MemoryReport {
            limit_bytes: 4 << 30,
            expected_documents: 1_400_000,
            expected_bytes: 7 << 30,
            pair_bytes: None,
            on_disk: true,
            expected_disk_bytes: Some(900 << 20),
            disk_bytes: Some(871 << 20),
        }),
        tool: Tool::this(),
        created: "2027-03-14T15:09:26Z".into(),
        command_line: [
            "simflip", "dedup", "crawl/", "--out", "results", "--method", "psm", "--recall", "0.95",
        ]
        .map(String::from)
        .to_vec(),
        corpus: corpus(),
        against: Some(AgainstReport {
            named: vec!["results-of-2025".into()],
            documents: 310_004,
            exact: 1_200,
            near: 411,
            clusters: 1_102,
            documents_in_clusters: 1_340,
            both: 0,
            files: vec![FileRow { path: "results-of-2025/kept.warc.wet.gz".into(), ..FileRow::default() }],
        }),
        outcome: Outcome {
            exact_duplicates: 41_002,
            near_duplicates: 17_211,
            kept: 61_791,
            removed: 58_213,
            removed_text_bytes: 212_887_410,
            pairs_found: 1_410_233,
            pairs_written: 402_117,
            clusters: 12_622,
            documents_in_clusters: 70_835,
        },
        method: Method {
            name: "psm".into(),
            similarity: "the cosine of the two weight vectors".into(),
            parameters: vec![parameter("distance", "3 bits"), parameter("recall", "0.95")],
            seed: 15_402_117_203_377_121_889,
            hash: "murmur3-x64-128-low64-v1".into(),
        },
        recall: Some(Recall {
            wanted: 0.95,
            reached: 0.9624,
            low: 0.9551,
            high: 0.9688,
            confidence: 0.95,
            denominator: "the pairs at a distance of 1 to 3 bits that an exact search finds".into(),
            budget_probes: 11,
            sample_pairs: 4_210,
        }),
        histograms: vec![table(0, 3), table(1, 8)],
        cluster_sizes: sizes.map(|(size, clusters)| ClusterSizes { size, clusters }).to_vec(),
        largest_clusters: vec![ClusterSample {
            cluster: "0:77".into(),
            size: 4_811,
            kept: DocumentSample::new("0:77", "https://old.example.net/1", NEWS),
            members: vec![DocumentSample::new("0:79", "https://old.example.net/2", NEWS); 3],
            lowest_similarity: Some(0.8802),
            median_similarity: Some(0.9120),
        }],
        sample_pairs: pairs(true),
        stages: vec![
            Stage { bytes: 1_094_220_118, ..stage("read and unpack", 3.11, 5.98, 120_004, "documents") },
            stage("calibrate", 0.41, 0.80, 4_210, "pairs"),
        ],
        peak_memory_bytes: Some(311_427_072),
        search_cost: SearchCost {
            probes: 869_110,
            candidates: 1_204_771,
            verified: 188_402,
            index_bytes: 1_411_872,
            distinct_hashes: 79_010,
        },
        corruption: corruption(),
        warnings: vec!["3,871 documents have fewer than 8 words".into()],
        files: (0..3)
            .map(|n| FileRow {
                path: format!("crawl/CC-MAIN-20260101-0000{n}.warc.wet.gz"),
                stored_bytes: 140_445_706,
                text_bytes: 364_740_039,
                texts: TextSum::try_from("0123456789abcdef".to_owned()).ok(),
                records: 40_007,
                documents: 40_001,
                kept: 20_597,
                corrupt: 5,
                unread: 0,
                kept_in: Some("kept.warc.wet.gz".into()),
                kept_to: None,
            })
            .collect(),
        lost_by_source: vec![sources("host", "shop.greenfinger.example".into())],
        not_read: vec![not_read("crawl/README.md".into())],
        ..Report::default()
    }
}

fn sources(kind: &str, source: String) -> Sources {
    let row = |n: u64| SourceRow { source: source.clone(), documents: 400 + n, kept: 4 };
    Sources::new(kind, (0..200).map(row).collect())
}

fn not_read(path: String) -> NotRead {
    NotRead { path: path.into(), reason: Reason::OtherName, kind: String::new() }
}

/// A run of MinHash, with the counts of one published band.
pub fn minhash() -> Report {
    let numbers =
        [18_335, 27_957, 41_139, 62_143, 90_550, 115_926, 137_147, 157_711, 174_657, 209_459, 6_396_799];
    let counts: Vec<(u32, u64)> = (10..).zip(numbers).collect();
    let band = |n: usize| Histogram::new(format!("band {n}"), "matching positions", &counts);
    let base = psm();
    Report {
        command_line: ["simflip", "dedup", "my crawl/", "--out", "results", "--method", "minhash"]
            .map(String::from)
            .to_vec(),
        method: Method {
            name: "minhash".into(),
            parameters: vec![parameter("bands", "4"), parameter("rows", "5")],
            ..base.method
        },
        recall: None,
        s_curve: Some(SCurve::new(4, 5, 0.8)),
        histograms: (0..4).map(band).collect(),
        sample_pairs: pairs(false),
        ..base
    }
}

/// A run on one document.
pub fn one_document() -> Report {
    Report {
        corpus: Corpus {
            files: 1,
            stored_bytes: 812,
            text_bytes: 700,
            records: 1,
            documents: 1,
            ..Corpus::default()
        },
        outcome: Outcome { kept: 1, ..Outcome::default() },
        method: Method { name: "bphs".into(), ..psm().method },
        histograms: vec![Histogram::new("table 0", "64 − distance", &[(63, 0), (64, 0)])],
        stages: vec![stage("search", 0.0, 0.0, 1, "documents")],
        ..Report::default()
    }
}

/// Far more of everything than a page can show, in the longest of words.
pub fn large() -> Report {
    let base = psm();
    let long = "<&\u{10ffff}".repeat(2_000);
    let wide = |n: usize| format!("https://{n}.example/{long}");
    let document = |n: usize| DocumentSample {
        id: wide(n),
        url: wide(n),
        opening: long.clone(),
        excerpt: vec![Piece { text: long.clone(), differs: true }; 50],
        reference: n.is_multiple_of(2),
    };
    let pair = PairSample {
        a: document(1),
        b: document(2),
        distance: None,
        similarity: 0.5,
        ..PairSample::default()
    };
    let cluster = ClusterSample {
        cluster: "c".into(),
        size: 9_000_000_000,
        kept: document(3),
        members: vec![document(4); 10],
        ..ClusterSample::default()
    };
    let scores: Vec<(u32, u64)> = (0..=128).map(|s| (s, 10u64.pow(s % 19))).collect();
    Report {
        outcome: Outcome { clusters: 100_000, ..base.outcome },
        largest_clusters: [vec![cluster; 20], vec![ClusterSample::default(); 99_980]].concat(),
        cluster_sizes: (2..200_000)
            .map(|size| ClusterSizes { size, clusters: 1 + 1_000_000 / size })
            .collect(),
        sample_pairs: [vec![pair; 40], vec![PairSample::default(); 9_960]].concat(),
        histograms: (0..64)
            .map(|n| Histogram::new(format!("band {n}"), "matching positions", &scores))
            .collect(),
        files: (0..90_000)
            .map(|n| FileRow { path: if n < 150 { wide(n) } else { n.to_string() }, ..FileRow::default() })
            .collect(),
        lost_by_source: vec![sources("host", wide(1)); 3],
        not_read: (0..90_000).map(|n| not_read(if n < 150 { wide(n) } else { n.to_string() })).collect(),
        corruption: CorruptionReport {
            documents_lost: 3,
            unknown_losses: 1,
            total: u64::MAX,
            by_kind: vec![CorruptionCount { kind: long.clone(), records: 1 }; 100],
            listed: vec![
                CorruptRecord {
                    documents: Some(1),
                    file: long.clone(),
                    detail: long.clone(),
                    kind: long.clone(),
                    ..CorruptRecord::default()
                };
                100
            ],
        },
        warnings: vec![long.clone(); 100],
        method: Method { parameters: vec![parameter(&long, &long); 200], ..base.method },
        ..base
    }
}

/// [`EVIL`] wherever text can stand.
pub fn hostile() -> Report {
    let base = psm();
    let evil = || EVIL.to_string();
    let document = DocumentSample {
        id: evil(),
        url: format!("javascript:{EVIL}"),
        opening: evil(),
        excerpt: vec![Piece { text: evil(), differs: true }, Piece { text: evil(), differs: false }],
        reference: true,
    };
    Report {
        tool: Tool { name: evil(), version: evil(), kernel: evil() },
        created: evil(),
        command_line: vec![evil()],
        corpus: Corpus { languages: vec![LanguageCount { language: evil(), documents: 3 }], ..base.corpus },
        method: Method {
            name: evil(),
            similarity: evil(),
            parameters: vec![parameter(EVIL, EVIL)],
            seed: 1,
            hash: evil(),
        },
        recall: base.recall.map(|r| Recall { denominator: evil(), ..r }),
        histograms: vec![Histogram::new(EVIL, EVIL, &[(1, 2), (3, 4)])],
        largest_clusters: vec![ClusterSample {
            cluster: evil(),
            size: 2,
            kept: document.clone(),
            members: vec![document.clone()],
            ..ClusterSample::default()
        }],
        sample_pairs: vec![PairSample { a: document.clone(), b: document, ..PairSample::default() }],
        stages: vec![Stage { bytes: 1, ..stage(EVIL, 1.0, 1.0, 1, EVIL) }],
        corruption: CorruptionReport {
            documents_lost: 3,
            unknown_losses: 1,
            total: 1,
            by_kind: vec![CorruptionCount { kind: evil(), records: 1 }],
            listed: vec![CorruptRecord {
                documents: Some(1),
                file: evil(),
                kind: evil(),
                detail: evil(),
                ..CorruptRecord::default()
            }],
        },
        warnings: vec![evil()],
        files: vec![FileRow { path: evil(), ..FileRow::default() }],
        lost_by_source: vec![sources(&evil(), evil())],
        not_read: vec![not_read(evil())],
        ..base
    }
}

/// PSM against MinHash.
pub fn compare() -> CompareReport {
    let (a, b) = (psm(), minhash());
    let result = |label: &str, report: &Report, pairs, wall_seconds, index_bytes, recall| MethodResult {
        label: label.into(),
        method: report.method.clone(),
        pairs,
        clusters: report.outcome.clusters,
        kept: report.outcome.kept,
        wall_seconds,
        cpu_seconds: wall_seconds * 1.9,
        cost: SearchCost { index_bytes, ..report.search_cost },
        recall,
        exact: Some(ExactRecall {
            pairs: 1_490_000,
            found: 1_410_233,
            recall: Some(Estimated { share: 0.9465, low: 0.941, high: 0.9516 }),
            of: "pairs of texts with a Jaccard coefficient of 0.8 or more, counted".into(),
        }),
        speed: Some(Speed { queries: 117_000, rounds: 1, cpu_seconds: 0.25, queries_per_second: 468_000.0 }),
        ..MethodResult::default()
    };
    let agreement = |labels: &[&str], pairs, examples: &[PairSample]| Agreement {
        found_by: labels.iter().map(|l| l.to_string()).collect(),
        pairs,
        examples: examples.to_vec(),
    };
    let methods = vec![
        result("psm", &a, 1_410_233, 0.184, 1_411_872, a.recall.clone()),
        result("minhash", &b, 1_530_008, 1.022, 30_721_024, None),
    ];
    CompareReport {
        schema: SCHEMA,
        tool: a.tool.clone(),
        created: a.created.clone(),
        command_line: ["simflip", "compare", "crawl/", "--out", "results", "--methods", "psm,minhash"]
            .map(String::from)
            .to_vec(),
        corpus: a.corpus.clone(),
        methods,
        agreement: vec![
            agreement(&["psm", "minhash"], 1_288_410, &a.sample_pairs),
            agreement(&["psm"], 121_823, &[]),
            agreement(&["minhash"], 241_598, &b.sample_pairs[..1]),
        ],
        shared_stages: a.stages.clone(),
        peak_memory_bytes: a.peak_memory_bytes,
        corruption: a.corruption.clone(),
        ..CompareReport::default()
    }
}
