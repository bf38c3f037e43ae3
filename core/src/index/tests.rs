use super::*;
use crate::dedup::{Deduper, PairKind};
use crate::hash::SplitMix64;
use crate::simhash::quantised::QuantisedWeights;
use crate::sketch::Sketcher;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Documents of some originals: some as they are, most with a few words changed, some cut short, some of few words
/// or none.
fn texts(n: usize, originals: u64, seed: u64) -> Vec<String> {
    let mut rng = SplitMix64::new(seed);
    (0..n)
        .map(|_| {
            let original = rng.below(originals);
            let mut words: Vec<u64> = (0..60 + original % 90).map(|word| original * 1_000 + word).collect();
            for _ in 0..rng.below(6) {
                let at = rng.below(words.len() as u64) as usize;
                words[at] = 1_000_000 + rng.below(1_000_000);
            }
            if rng.below(5) == 0 {
                words.truncate(rng.below(words.len() as u64) as usize);
            }
            words.iter().map(|word| format!("w{word} ")).collect()
        })
        .collect()
}

fn all_settings() -> Vec<Settings> {
    let dial = |verification, distance, recall| {
        Settings::simhash().with(|settings| {
            settings.generator = Generator::Dial { distance, recall, key_bits: None };
            settings.verification = verification;
        })
    };
    vec![
        Settings::default(),
        Settings::both(0.6),
        Settings::default().with(|settings| settings.min_features = 20),
        dial(Verification::Weights(0.889), 10, Recall::Exact),
        dial(Verification::Mismatch(0.9), 6, Recall::Exact),
        dial(Verification::None, 3, Recall::Exact),
    ]
}

/// The pairs of different texts that a run over all finds.
fn run(settings: &Settings, texts: &[String]) -> BTreeSet<(u32, u32)> {
    let settings = settings.clone().with(|settings| {
        if let Generator::Dial { distance, .. } = settings.generator {
            settings.generator = Generator::Join { distance };
        }
        // Leaders alone are compared unless all pairs are listed.
        settings.all_pairs = settings.generator == Generator::Keys;
    });
    let mut deduper = Deduper::new(settings).unwrap();
    deduper.extend(texts);
    let pairs = deduper.run().unwrap().pairs;
    let is_first = |at: u32| !texts[..at as usize].contains(&texts[at as usize]);
    let near = pairs.iter().filter(|pair| pair.kind == PairKind::Near).map(|pair| (pair.a.0, pair.b.0));
    near.filter(|&(a, b)| is_first(a) && is_first(b)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn asked_document_by_document_it_gives_the_pairs_of_a_run_over_all(n in 1usize..160, originals in 1u64..40, seed: u64) {
        // Capped buckets, where a run compares some pairs and not all, are beyond these sizes.
        let texts = texts(n, originals.max(n as u64 / 12), seed);
        for settings in all_settings() {
            let (mut index, mut sketcher) = (Index::of(&settings).unwrap(), Sketcher::new(&settings, None).unwrap());
            let (mut pairs, mut document_of) = (BTreeSet::new(), Vec::new());
            for (document, text) in (0..).zip(&texts) {
                let sketch = sketcher.sketch(text);
                let answer = index.ask(&sketch).unwrap();
                if let Some(same) = answer.same {
                    let first: u32 = document_of[same.index()];
                    prop_assert_eq!(&texts[first as usize], text);
                    prop_assert_eq!(index.add(&sketch).unwrap(), same);
                    continue;
                }
                prop_assert!(!texts[..document as usize].contains(text));
                pairs.extend(answer.near.iter().map(|near| (document_of[near.document.index()], document)));
                prop_assert!(answer.near.is_sorted_by(|a, b| a.similarity >= b.similarity));
                prop_assert_eq!(index.add(&sketch).unwrap().index(), document_of.len());
                document_of.push(document);
            }
            if settings.verification == Verification::None {
                // Without verification a run lists enough pairs to connect what is near; those are among all pairs.
                prop_assert!(run(&settings, &texts).is_subset(&pairs));
            } else {
                prop_assert_eq!(run(&settings, &texts), pairs, "{:?}", settings);
            }
        }
    }
}

/// The answer by its definition: a comparison with all stored documents in turn.
fn scan(
    index: &Index,
    stored: &[(Document, Sketch)],
    asked: &Sketch,
) -> (Option<Document>, Vec<NearDuplicate>) {
    if let Some((same, _)) = stored.iter().find(|(_, other)| other.facts.digest == asked.facts.digest) {
        return (Some(*same), Vec::new());
    }
    let settings = index.settings();
    let enough = |sketch: &Sketch| sketch.facts.features as usize >= settings.min_features.max(1);
    let mut near: Vec<NearDuplicate> = Vec::new();
    for (document, other) in stored.iter().filter(|(_, other)| enough(other) && enough(asked)) {
        let (distance, meet) = match (&asked.value, &other.value) {
            (SketchValue::Both(a), SketchValue::Both(b)) => {
                ((a.hash ^ b.hash).count_ones(), a.keys.iter().zip(&b.keys).any(|(a, b)| a == b))
            }
            (SketchValue::SimHash(a), SketchValue::SimHash(b)) => {
                let distance = (a.hash ^ b.hash).count_ones();
                (distance, distance <= settings.generator.distance().unwrap())
            }
            _ => unreachable!("sketches of one kind"),
        };
        let similarity = match settings.verification.measure() {
            None => (std::f64::consts::PI * f64::from(distance) / 64.0).cos() as f32,
            Some(measure) => {
                let [a, b] = [asked, other].map(|sketch| {
                    let Facts { digest, features, .. } = sketch.facts;
                    let (bits, hashed) = match &sketch.value {
                        SketchValue::Both(two) => (Some(&two.bits[..]), None),
                        SketchValue::SimHash(hashed) => (None, Some(hashed)),
                    };
                    ShownDocument { digest, features, bits, hashed }
                });
                Anchor::new(measure, a).with(&b)
            }
        };
        if meet && settings.verification.threshold().is_none_or(|threshold| similarity >= threshold as f32) {
            near.push(NearDuplicate { document: *document, distance, similarity });
        }
    }
    near.sort_by(|a, b| {
        let order = b.similarity.total_cmp(&a.similarity).then(a.distance.cmp(&b.distance));
        let place = |near: &NearDuplicate| stored.iter().position(|(document, _)| *document == near.document);
        order.then(place(a).cmp(&place(b)))
    });
    (None, near)
}

#[test]
fn answers_are_those_of_a_scan_while_documents_come_and_go() {
    for settings in all_settings() {
        let mut rng = SplitMix64::new(9);
        let (mut index, mut sketcher) =
            (Index::of(&settings).unwrap(), Sketcher::new(&settings, None).unwrap());
        let mut stored: Vec<(Document, Sketch)> = Vec::new();
        let (mut near, mut given, mut given_again) = (0, BTreeSet::new(), 0);
        for (step, text) in texts(600, 50, 3).iter().enumerate() {
            let sketch = sketcher.sketch(text);
            let answer = index.ask(&sketch).unwrap();
            assert_eq!((answer.same, answer.near.clone()), scan(&index, &stored, &sketch), "{settings:?}");
            near += usize::from(!answer.near.is_empty());
            let document = index.add(&sketch).unwrap();
            if answer.same.is_none() {
                given_again += usize::from(!given.insert(document));
                stored.push((document, sketch.clone()));
            }
            let (facts, value) = index.kept(document).unwrap();
            assert_eq!((facts.digest, facts.features), (sketch.facts.digest, sketch.facts.features));
            assert!(value.is_none_or(|value| value == sketch.value));
            if step % 50 == 49 {
                let gone: Vec<Document> =
                    (0..20).map(|_| stored[rng.below(stored.len() as u64) as usize].0).collect();
                let distinct: BTreeSet<Document> = gone.iter().copied().collect();
                assert_eq!(index.remove(&gone), distinct.len());
                assert_eq!(index.remove(&gone), 0);
                assert!(gone.iter().all(|&document| index.kept(document).is_none()));
                stored.retain(|(document, _)| !gone.contains(document));
            }
            if step == 300 {
                index.lay_out();
            }
            assert_eq!(index.len(), stored.len());
            assert!(index.documents().iter().eq(stored.iter().map(|(document, _)| document)));
        }
        assert!(near > 5 && given_again > 50, "{near} {given_again} {settings:?}");
        // All documents are removed.
        index.remove(&index.documents());
        assert!(index.is_empty());
        assert_eq!(index.ask(&stored[0].1).unwrap(), Answer::default());
    }
}

#[test]
fn documents_come_back_as_they_were() {
    for settings in all_settings() {
        let (mut index, mut sketcher) =
            (Index::of(&settings).unwrap(), Sketcher::new(&settings, None).unwrap());
        for text in texts(200, 40, 5) {
            index.add(&sketcher.sketch(&text)).unwrap();
        }
        let gone: Vec<Document> = index.documents().into_iter().step_by(3).collect();
        index.remove(&gone);
        for text in texts(100, 40, 7) {
            index.add(&sketcher.sketch(&text)).unwrap();
        }
        let (mut again, mut new) = (Index::of(&settings).unwrap(), Vec::new());
        for document in index.documents() {
            let (facts, value) = index.kept(document).unwrap();
            let restored = again.restore(&facts, value.as_ref()).unwrap();
            assert_eq!(again.restore(&facts, value.as_ref()).unwrap(), restored);
            new.resize(new.len().max(document.index() + 1), Document(0));
            new[document.index()] = restored;
        }
        for text in texts(200, 20, 6) {
            let sketch = sketcher.sketch(&text);
            let mut answer = index.ask(&sketch).unwrap();
            answer.same = answer.same.map(|same| new[same.index()]);
            answer.near.iter_mut().for_each(|near| near.document = new[near.document.index()]);
            assert_eq!(answer, again.ask(&sketch).unwrap());
        }
    }
}

#[test]
fn a_recall_is_measured_on_the_documents_of_the_index() {
    // Hashes with a few flips of their lowest-margin bits, as near documents have them.
    let mut rng = SplitMix64::new(7);
    let mut sketches = Vec::new();
    for original in 0..6_000u64 {
        let weights: [f32; BITS] = std::array::from_fn(|_| (rng.unit() as f32 - 0.5) * 3.0);
        for copy in 0..2 {
            let weights = weights.map(|w| w + copy as f32 * (rng.unit() as f32 - 0.5) * 0.3);
            let hash = (0..BITS).fold(0u64, |hash, bit| hash | u64::from(weights[bit] > 0.0) << bit);
            let hashed = Hashed { hash, weights: QuantisedWeights::new(&weights) };
            let digest = u128::from(original) << 1 | copy as u128 | 1 << 100;
            let facts = Facts { digest, text_bytes: 0, features: 100 };
            sketches.push(Sketch { facts, value: SketchValue::SimHash(hashed) });
        }
    }
    let of = |recall| {
        let settings = Settings::simhash().with(|settings| {
            settings.generator = Generator::Dial { distance: 10, recall, key_bits: None };
            settings.verification = Verification::None;
        });
        let mut index = Index::of(&settings).unwrap();
        let mut found = 0;
        for sketch in &sketches {
            found += index.ask(sketch).unwrap().near.len();
            index.add(sketch).unwrap();
        }
        (found, index.measured().copied())
    };
    let (all, none) = of(Recall::Exact);
    assert!(all > 4_000 && none.is_none(), "{all}");
    let (most, measured) = of(Recall::AtLeast(0.9));
    let measured = measured.unwrap();
    assert!(measured.budget.is_some_and(|budget| budget < 200), "{measured:?}");
    assert!(measured.reached >= 0.85 && most < all && most as f64 > 0.87 * all as f64, "{most} of {all}");
    let (few, _) = of(Recall::Probes(1));
    assert!(few < most, "{few} {most}");
}

#[test]
fn chance_is_what_it_is_for_random_sketches() {
    // The probability by its definition, in whole numbers.
    let (mut choose, mut sum) = (1u128, 1u128);
    for k in 0..10 {
        choose = choose * (64 - k) / (k + 1);
        sum += choose;
    }
    let expected = sum as f64 / 2f64.powi(64);
    assert!((within(64, 10) / expected - 1.0).abs() < 1e-9, "{} {expected}", within(64, 10));
    assert!((within(64, 64) - 1.0).abs() < 1e-12);
    let mut index = Index::of(&Settings::default()).unwrap();
    let mut rng = SplitMix64::new(1);
    let Sketches::Both { bits, banding } = index.settings().sketches else { unreachable!() };
    for document in 0..1_000u128 {
        let value = SketchValue::Both(TwoSketches {
            hash: rng.next_u64(),
            bits: (0..bits / 64).map(|_| rng.next_u64()).collect(),
            keys: (0..banding.bands).map(|_| rng.next_u64() as u32).collect(),
            extra: Vec::new(),
        });
        index.add(&Sketch { facts: Facts { digest: document, text_bytes: 9, features: 9 }, value }).unwrap();
    }
    // The number is far below one in a million at 100 million documents, too.
    assert!(index.expected_by_chance() * 1e5 < 1e-60, "{}", index.expected_by_chance());
    let dial = Settings::simhash().with(|settings| {
        settings.generator = Generator::Dial { distance: 10, recall: Recall::Exact, key_bits: None };
    });
    assert_eq!(Index::of(&dial).unwrap().expected_by_chance(), 0.0);
}

#[test]
fn a_template_of_many_documents_bounds_every_question() {
    let settings = Settings::default();
    let mut index = Index::of(&settings).unwrap();
    let Sketches::Both { bits, banding } = settings.sketches else { unreachable!() };
    let document = |n: u64| {
        // All keys but one are the template's.
        let mut keys: Vec<u32> = (0..banding.bands as u32).collect();
        keys[0] = n as u32;
        let mut words = vec![7; bits / 64];
        words[0] = n;
        let facts = Facts { digest: u128::from(n), text_bytes: 9, features: 100 };
        Sketch {
            facts,
            value: SketchValue::Both(TwoSketches { hash: n, bits: words, keys, extra: Vec::new() }),
        }
    };
    for n in 0..100_000 {
        index.add(&document(n)).unwrap();
    }
    let answer = index.ask(&document(100_000)).unwrap();
    assert_eq!((answer.compared, answer.near.len()), (256, 256));
    assert_eq!(answer.passed_over, (banding.bands as u64 - 1) * (100_000 - 256));
}

#[test]
fn what_does_not_fit_is_refused() {
    for settings in [
        Settings::simhash(),
        Settings::minhash(0.8),
        Settings::paper(),
        Settings::both(0.8).with(|settings| settings.generator = Generator::Join { distance: 3 }),
        Settings::both(0.8).with(|settings| settings.verification = Verification::Jaccard(0.8)),
        Settings::one_bit(512, 0.8),
    ] {
        assert!(Index::of(&settings).is_err(), "{settings:?}");
    }
    let mut index = Index::of(&Settings::default()).unwrap();
    for other in [Settings::simhash(), Settings::both(0.5), Settings::minhash(0.8)] {
        let sketch = Sketcher::new(&other, None).unwrap().sketch("five words are all here");
        assert!(index.ask(&sketch).is_err() && index.add(&sketch).is_err());
    }
}

#[test]
fn filled_at_once_it_is_the_index_that_grew() {
    for settings in all_settings() {
        let (mut grown, mut sketcher) =
            (Index::of(&settings).unwrap(), Sketcher::new(&settings, None).unwrap());
        let sketches: Vec<Sketch> = texts(900, 90, 5).iter().map(|text| sketcher.sketch(text)).collect();
        for sketch in &sketches[..600] {
            grown.add(sketch).unwrap();
        }
        let columns = columns(&grown, true);
        let mut filled = Index::of(&settings).unwrap();
        assert!(filled.fill(columns.clone(), None).unwrap());
        assert_eq!(filled.len(), grown.len());
        assert!(!filled.fill(columns.clone(), None).unwrap(), "it is not empty");
        let (mut twice, mut same) = (Index::of(&settings).unwrap(), columns.clone());
        let (facts, _) = grown.kept(grown.documents()[0]).unwrap();
        same.rows().put_bare(1, &facts).unwrap();
        assert!(!twice.fill(same, None).unwrap(), "texts that are there twice");
        assert!(twice.is_empty());
        for round in 0..3 {
            for sketch in &sketches {
                assert_eq!(filled.ask(sketch).unwrap(), grown.ask(sketch).unwrap());
            }
            let from = 600 + round * 100;
            let gone: Vec<Document> = grown.documents().into_iter().step_by(3 + round).collect();
            assert_eq!(filled.remove(&gone), grown.remove(&gone));
            for sketch in &sketches[from..from + 100] {
                assert_eq!(filled.add(sketch).unwrap(), grown.add(sketch).unwrap());
            }
        }
    }
}

/// The columns of an index's documents in the order in which they came, with or without keys. The last rows are written
/// first.
fn columns(index: &Index, keyed: bool) -> Columns {
    let documents = index.documents();
    let mut columns = Columns::new(index.settings(), documents.len(), keyed);
    let mut rest = columns.rows();
    let parts: Vec<_> =
        documents.chunks(documents.len() / 3 + 1).map(|part| (rest.split(part.len()), part)).collect();
    assert!(rest.is_empty());
    for (mut rows, documents) in parts.into_iter().rev() {
        assert_eq!(rows.len(), documents.len());
        for (row, &document) in documents.iter().enumerate() {
            let (facts, value) = index.kept(document).unwrap();
            let put = match value {
                Some(SketchValue::Both(TwoSketches { hash, bits, keys, .. })) => {
                    rows.put_both(row, &facts, hash, bits.into_iter(), keys.into_iter())
                }
                Some(SketchValue::SimHash(hashed)) => rows.put_hashed(row, &facts, hashed),
                _ => rows.put_bare(row, &facts),
            };
            put.unwrap();
        }
        let facts = Facts::default();
        assert!(rows.put_bare(rows.len(), &facts).is_none());
    }
    columns
}

#[test]
fn columns_of_other_settings_do_not_fill_it() {
    let (settings, facts) = (Settings::default(), Facts { features: 9, ..Facts::default() });
    let mut index = Index::of(&settings).unwrap();
    for other in [Settings::simhash(), Settings::both(0.5), Settings::minhash(0.8)] {
        assert!(!index.fill(Columns::new(&other, 3, true), None).unwrap(), "{other:?}");
    }
    assert!(!index.fill(Columns::new(&settings, 3, false), None).unwrap(), "without keys");
    let mut columns = Columns::new(&settings, 1, true);
    let mut rows = columns.rows();
    let (words, keys) = (vec![1; 16], [3; 15]);
    assert!(rows.put_both(0, &facts, 1, [1, 2].into_iter(), keys.into_iter()).is_none());
    assert!(rows.put_both(0, &facts, 1, words.clone().into_iter(), [3; 14].into_iter()).is_none());
    assert!(rows.put_both(0, &facts, 1, words.clone().into_iter(), [3; 16].into_iter()).is_none());
    assert!(rows.put_both(1, &facts, 1, words.clone().into_iter(), keys.into_iter()).is_none());
    assert!(rows.put_both(0, &facts, 1, words.into_iter(), keys.into_iter()).is_some());
    assert!(index.is_empty() && index.fill(columns, None).unwrap());
    assert_eq!(index.len(), 1);
}

impl StoredTables for Vec<(usize, Vec<u8>)> {
    fn read(&self, table: usize, take: &mut dyn FnMut(&[u8]) -> Option<()>) -> Option<()> {
        self.iter().filter(|(of, _)| *of == table).try_for_each(|(_, part)| take(part))
    }
}

/// The parts of an index's tables, each with the table's number, of at least `most` entries if as many are left.
fn parts(index: &Index, most: usize) -> Vec<(usize, Vec<u8>)> {
    let (documents, mut parts) = (index.documents(), Vec::new());
    for table in 0..index.tables() {
        let (mut from, mut entries) = (Some(0), Vec::new());
        while let Some(first) = from {
            entries.clear();
            from = index.entries(table, first, most, &mut entries);
            for entry in &mut entries {
                let place = documents.iter().position(|document| document.number() == *entry as u32).unwrap();
                *entry = *entry >> 32 << 32 | place as u64;
            }
            parts.push((table, table_part(&entries, documents.len())));
        }
    }
    parts
}

#[test]
fn filled_with_its_tables_it_is_the_index_that_made_them() {
    let settings = Settings::default();
    let mut sketcher = Sketcher::new(&settings, None).unwrap();
    let mut index = Index::of(&settings).unwrap();
    // Many texts of a template, texts that are too short, and numbers that are given again.
    let template = vec!["all of it but one word at its end is what a hundred others have".to_owned(); 100];
    let of_template =
        template.into_iter().zip(0..).map(|(text, number)| format!("{text} {text} {text} {number}"));
    let short = (0..9).map(|number| format!("short{number}"));
    let texts: Vec<String> = texts(700, 60, 9).into_iter().chain(of_template).chain(short).collect();
    let sketches: Vec<Sketch> = texts.iter().map(|text| sketcher.sketch(text)).collect();
    for (at, sketch) in sketches.iter().enumerate() {
        let document = index.add(sketch).unwrap();
        if at % 5 == 3 {
            index.remove(&[document]);
        }
    }
    let gone: Vec<Document> = index.documents().into_iter().step_by(4).collect();
    index.remove(&gone);
    for sketch in sketches.iter().step_by(3) {
        index.add(sketch).unwrap();
    }
    for most in [1, 100, 1 << 20] {
        let (bare, parts) = (columns(&index, false), parts(&index, most));
        assert!(parts.len() >= index.tables());
        let mut filled = Index::of(&settings).unwrap();
        assert!(filled.fill(bare.clone(), Some(&parts)).unwrap());
        let mut made = Index::of(&settings).unwrap();
        assert!(made.fill(columns(&index, true), None).unwrap());
        assert_eq!(columns(&filled, true), columns(&made, true));
        for sketch in &sketches {
            assert_eq!(filled.ask(sketch).unwrap(), made.ask(sketch).unwrap());
            assert_eq!(filled.add(sketch).unwrap(), made.add(sketch).unwrap());
        }
        // Tables of fewer documents, and fewer tables, are refused; nothing is stored then.
        let last = |table: usize| parts.iter().rposition(|part| part.0 == table && part.1.len() > 1).unwrap();
        for table in [0, 1, 15] {
            let mut fewer = parts.clone();
            fewer.remove(last(table));
            let mut empty = Index::of(&settings).unwrap();
            assert!(!empty.fill(bare.clone(), Some(&fewer)).unwrap(), "{table}");
            assert!(empty.is_empty());
        }
    }
    let hashes =
        all_settings().into_iter().filter(|settings| matches!(settings.generator, Generator::Dial { .. }));
    assert!(hashes.map(|settings| Index::of(&settings).unwrap().tables()).eq([0; 3]));
}

#[test]
fn probes_are_measured_anew_once_most_documents_are_gone() {
    let settings = IndexSettings::simhash(3, Recall::AtLeast(0.95));
    let (mut index, mut sketcher) = (Index::new(&settings).unwrap(), Sketcher::new(&settings, None).unwrap());
    let mut rng = SplitMix64::new(5);
    let mut text = || (0..12).map(|_| format!("w{} ", rng.below(1 << 20))).collect::<String>();
    let documents: Vec<Document> =
        (0..4_500).map(|_| index.add(&sketcher.sketch(&text())).unwrap()).collect();
    assert!(index.measured().is_some());
    // What is left has an index of its own, for which nothing was measured: all probes are made.
    index.remove(&documents[1_000..]);
    assert!(index.measured().is_none());
    (0..4_000).for_each(|_| {
        index.add(&sketcher.sketch(&text())).unwrap();
    });
    assert!(index.measured().is_some());
}
