//! Candidates checked beyond their sketches: what two documents have in common by their weight vectors or features, and
//! which candidates pass.
//!
//! A sketch's bits say roughly how alike two pages are. The weight vectors behind the bits, 64 bytes a page, and the
//! features themselves say it better (reference section 8.6: our proposal, not the paper's).

use super::collect::Collection;
use super::settings::{Settings, Verify};
use super::sketch::{SimHashes, Texts};
use crate::clusters::Keep;
use crate::pairs::Groups;
use crate::search::selfjoin::SlotPair;
use crate::weight::Weigher;
use crate::weight::frequencies::Frequencies;
use crate::{Id, Slot};
use hashbrown::HashMap;
use rayon::prelude::*;

/// Measures how alike two documents are.
pub struct Measure<'a> {
    collection: &'a Collection,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Vectors {
        by: Vectors,
        sketches: &'a SimHashes,
        /// The number of each document's weight vector; [`NONE`] where it has none.
        vector_of: Vec<u32>,
    },
    Sets {
        containment: bool,
    },
    Cosine {
        weigher: Weigher,
        /// By part and term.
        idf: Vec<Vec<f32>>,
    },
}

/// What is taken from weight vectors.
#[derive(Clone, Copy)]
enum Vectors {
    Cosine,
    Agreement,
    /// The weights of the later page against the bits of the earlier one.
    QueryAgreement,
}

const NONE: u32 = u32::MAX;

/// A document that others are compared with.
pub struct Anchor<'m, 'a> {
    measure: &'m Measure<'a>,
    document: u32,
    /// Number of its weight vector, if it has one.
    vector: Option<usize>,
    /// For sets, 1 for every feature.
    features: HashMap<u64, i64>,
    square: f64,
}

impl<'a> Measure<'a> {
    /// The measure that `verify` names; `None` if it names none, or weight vectors where there are none.
    pub fn new(
        verify: Verify,
        collection: &'a Collection,
        texts: &Texts,
        sketches: Option<&'a SimHashes>,
        frequencies: Option<&Frequencies>,
        settings: &Settings,
    ) -> Option<Self> {
        let kind = match verify {
            Verify::None => return None,
            Verify::Weights | Verify::Mismatch | Verify::QueryMismatch => {
                let sketches = sketches?;
                let by = match verify {
                    Verify::Mismatch => Vectors::Agreement,
                    Verify::QueryMismatch => Vectors::QueryAgreement,
                    _ => Vectors::Cosine,
                };
                let mut vector_of = vec![NONE; collection.documents.len()];
                for (vector, &text) in (0..).zip(&texts.sketched) {
                    texts.copies(text).iter().for_each(|&document| vector_of[document as usize] = vector);
                }
                Kind::Vectors { by, sketches, vector_of }
            }
            Verify::Jaccard | Verify::Containment => {
                Kind::Sets { containment: verify == Verify::Containment }
            }
            Verify::Cosine => {
                let weigher = Weigher::new(settings.weighting);
                let none = Frequencies::new(settings.features);
                let frequencies = frequencies.unwrap_or(&none);
                let idf_of = |&feature: &u64| weigher.idf(frequencies.get(feature), frequencies.documents());
                let idf = collection
                    .terms()
                    .into_iter()
                    .map(|terms| terms.features.par_iter().map(idf_of).collect())
                    .collect();
                Kind::Cosine { weigher, idf }
            }
        };
        Some(Self { collection, kind })
    }

    /// Makes a document ready to be compared with many.
    pub fn anchor(&self, document: u32) -> Anchor<'_, 'a> {
        let mut anchor =
            Anchor { measure: self, document, vector: None, features: HashMap::new(), square: 0.0 };
        match &self.kind {
            Kind::Vectors { vector_of, .. } => anchor.vector = vector(vector_of, document),
            Kind::Sets { .. } => {
                anchor.features = self.collection.features_of(document).map(|feature| (feature, 1)).collect();
            }
            Kind::Cosine { .. } => {
                self.weights_of(document, |feature, weight| {
                    anchor.square += weight as f64 * weight as f64;
                    anchor.features.insert(feature, weight);
                });
            }
        }
        anchor
    }

    fn weights_of(&self, document: u32, mut each: impl FnMut(u64, i64)) {
        if let Kind::Cosine { weigher, idf } = &self.kind {
            let (part, terms, occurrences) = self.collection.terms_of(document);
            let features = self.collection.features_of(document);
            for ((feature, &term), &n) in features.zip(terms).zip(occurrences) {
                each(feature, weigher.weight(u32::from(n), idf[part][term as usize]));
            }
        }
    }
}

/// The number of a document's weight vector.
fn vector(vector_of: &[u32], document: u32) -> Option<usize> {
    Some(vector_of[document as usize]).filter(|&vector| vector != NONE).map(|vector| vector as usize)
}

impl Anchor<'_, '_> {
    /// Similarity with another document, at most 1; 1 for equal texts.
    pub fn with(&self, other: u32) -> f32 {
        let measure = self.measure;
        let rows = measure.collection.documents.rows();
        if rows[self.document as usize].digest == rows[other as usize].digest {
            return 1.0;
        }
        match &measure.kind {
            Kind::Vectors { by, sketches, vector_of } => {
                let Some((own, other_vector)) = self.vector.zip(vector(vector_of, other)) else { return 0.0 };
                let (weights, hashes) = (&sketches.weights, &sketches.hashes);
                match by {
                    Vectors::Cosine => weights[own].cosine(&weights[other_vector]),
                    Vectors::Agreement => weights[own].agreement(&weights[other_vector]),
                    Vectors::QueryAgreement => {
                        let (query, stored) =
                            if self.document > other { (own, other_vector) } else { (other_vector, own) };
                        weights[query].agreement_with_hash(hashes[query], hashes[stored])
                    }
                }
            }
            Kind::Sets { containment } => {
                let features = measure.collection.features_of(other);
                let (a, b) = (self.features.len(), features.len());
                let shared = features.filter(|feature| self.features.contains_key(feature)).count();
                let whole = if *containment { a.min(b) } else { a + b - shared };
                if whole == 0 { 1.0 } else { (shared as f64 / whole as f64) as f32 }
            }
            Kind::Cosine { .. } => {
                let (mut dot, mut square) = (0.0f64, 0.0f64);
                measure.weights_of(other, |feature, weight| {
                    square += weight as f64 * weight as f64;
                    if let Some(&own) = self.features.get(&feature) {
                        dot += own as f64 * weight as f64;
                    }
                });
                let norms = (square * self.square).sqrt();
                if norms > 0.0 { (dot / norms).min(1.0) as f32 } else { 0.0 }
            }
        }
    }
}

/// What passed.
pub struct Verified {
    /// Groups of documents whose texts passed against the group's first.
    pub groups: Groups,
    /// Pairs of groups whose first documents passed, each once, ascending, with the similarity measured.
    pub joined: Vec<SlotPair>,
    /// Comparisons made.
    pub compared: u64,
    /// Of these, below the threshold.
    pub refused: u64,
    /// Pairs not compared because too many texts share a sketch.
    pub skipped: u64,
}

/// Groups of one sketch that are compared with a text of that sketch, and the groups of a sketch that are compared with
/// those of another. Texts of one sketch are nearly always alike, so there is nearly always one group.
const MOST_GROUPS: usize = 32;

/// Checks candidates: within a slot each text against those that lead the slot's groups so far, and between joined slots
/// the leaders of their groups.
pub fn verify(
    measure: &Measure<'_>,
    threshold: f32,
    groups: &Groups,
    joined: &[SlotPair],
    keep: Keep,
) -> Verified {
    let documents = &measure.collection.documents;
    let digest = |document: u32| documents.rows()[document as usize].digest;
    struct Split {
        groups: Vec<Vec<u32>>,
        compared: u64,
        refused: u64,
    }
    let splits: Vec<Split> = (0..groups.len() as u32)
        .into_par_iter()
        .map(|slot| {
            let mut split = Split { groups: Vec::new(), compared: 0, refused: 0 };
            let mut leaders: Vec<Anchor<'_, '_>> = Vec::new();
            let members = groups.documents(slot);
            let mut copies = members.chunk_by(|&a, &b| digest(a) == digest(b)).peekable();
            let first = copies.next().unwrap_or_default();
            split.groups.push(first.to_vec());
            if copies.peek().is_some() {
                leaders.push(measure.anchor(first[0]));
            }
            for copies in copies {
                let own = leaders.iter().take(MOST_GROUPS).position(|leader| {
                    split.compared += 1;
                    let passes = leader.with(copies[0]) >= threshold;
                    split.refused += u64::from(!passes);
                    passes
                });
                match own {
                    Some(own) => split.groups[own].extend_from_slice(copies),
                    None => {
                        if leaders.len() < MOST_GROUPS {
                            leaders.push(measure.anchor(copies[0]));
                        }
                        split.groups.push(copies.to_vec());
                    }
                }
            }
            split
        })
        .collect();
    let starts: Vec<u32> = std::iter::once(0)
        .chain(splits.iter().scan(0, |end, split| {
            *end += split.groups.len() as u32;
            Some(*end)
        }))
        .collect();
    let units = |slot: u32| (starts[slot as usize]..starts[slot as usize + 1]).take(MOST_GROUPS);
    let split =
        Groups::new(splits.iter().flat_map(|split| split.groups.iter().map(Vec::as_slice)), documents, keep);
    let mut verified = Verified {
        compared: splits.iter().map(|split| split.compared).sum(),
        refused: splits.iter().map(|split| split.refused).sum(),
        skipped: 0,
        groups: split,
        joined: Vec::new(),
    };
    let leader = |unit: u32| verified.groups.documents(unit)[0];
    // Pairs ascend by their lesser slot, so one slot's pairs lie together and share its anchors.
    let by_slot: Vec<&[SlotPair]> = joined.chunk_by(|p, q| p.a == q.a).collect();
    let parts: Vec<(Vec<SlotPair>, u64, u64)> = by_slot
        .into_par_iter()
        .map(|pairs| {
            let (mut passed, mut compared, mut skipped) = (Vec::new(), 0, 0);
            let all = |slot: u32| u64::from(starts[slot as usize + 1] - starts[slot as usize]);
            for a in units(pairs[0].a.number()) {
                let anchor = measure.anchor(leader(a));
                for pair in pairs {
                    for b in units(pair.b.number()) {
                        compared += 1;
                        let similarity = anchor.with(leader(b));
                        if similarity >= threshold {
                            passed.push(SlotPair {
                                a: Slot(a),
                                b: Slot(b),
                                distance: pair.distance,
                                similarity,
                            });
                        }
                    }
                }
            }
            for pair in pairs {
                let (a, b) = (pair.a.number(), pair.b.number());
                let done = (units(a).len() * units(b).len()) as u64;
                skipped += all(a) * all(b) - done;
            }
            (passed, compared, skipped)
        })
        .collect();
    for (passed, compared, skipped) in parts {
        verified.compared += compared;
        verified.refused += compared - passed.len() as u64;
        verified.skipped += skipped;
        verified.joined.extend(passed);
    }
    verified.joined.par_sort_unstable_by_key(|pair| (pair.a, pair.b));
    verified
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{ReadOptions, discover};
    use crate::features;
    use crate::pipeline::collect::Keeping;
    use crate::pipeline::{collect, sketch};
    use crate::text::{FeatureExtractor, FeatureKind};
    use crate::weight::Weighting;
    use std::fs;

    const PAGES: [&str; 5] = [
        "the quick brown fox jumps over the lazy dog near the river bank today",
        "the quick brown fox jumps over the lazy dog near the river bank yesterday",
        "the quick brown fox",
        "completely other words stand on this page about ships and harbours",
        "the quick brown fox jumps over the lazy dog near the river bank today",
    ];

    fn with_pages(check: impl FnOnce(&Collection, &Texts, &SimHashes, &Frequencies, &Settings)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages.jsonl");
        let lines = PAGES.map(|text| serde_json::json!({ "text": text }).to_string());
        fs::write(&path, lines.join("\n")).unwrap();
        let settings = Settings {
            features: FeatureKind::Words,
            weighting: Weighting::TfIdf,
            min_features: 1,
            ..Settings::default()
        };
        let inputs = discover(&[path], &Default::default()).unwrap();
        let collection =
            collect::collect(inputs, &ReadOptions::default(), settings.features, Keeping::Features, &|_| ());
        let texts = Texts::new(&collection, 1);
        let frequencies = Frequencies::sum(settings.features, 5, &collection.terms());
        let sketches = sketch::simhashes(&collection, &texts, &settings, &frequencies, &|_| ());
        check(&collection, &texts, &sketches, &frequencies, &settings);
    }

    #[test]
    fn measures_agree_with_their_exact_twins() {
        with_pages(|collection, texts, sketches, frequencies, settings| {
            let of = |verify| {
                Measure::new(verify, collection, texts, Some(sketches), Some(frequencies), settings).unwrap()
            };
            let counts: Vec<Vec<(u64, u32)>> =
                PAGES.iter().map(|text| FeatureExtractor::new(FeatureKind::Words).counts(text)).collect();
            let weigher = Weigher::new(settings.weighting);
            let weights = |page: usize| features::weights(&counts[page], &weigher, 5, |f| frequencies.get(f));
            for (a, b) in (0..5usize).flat_map(|a| (0..5usize).map(move |b| (a, b))) {
                let got = |verify| f64::from(of(verify).anchor(a as u32).with(b as u32));
                let overlap = features::overlap(&counts[a], &counts[b]);
                let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
                near(got(Verify::Jaccard), overlap.jaccard());
                let containment = overlap.containment_of_a().max(overlap.containment_of_b());
                near(got(Verify::Containment), containment);
                near(got(Verify::Cosine), features::cosine(&weights(a), &weights(b)));
                for verify in [Verify::Weights, Verify::Mismatch, Verify::QueryMismatch] {
                    near(got(verify), f64::from(of(verify).anchor(b as u32).with(a as u32)));
                    assert!(got(verify) <= 1.0 + 1e-6 && (a != b || got(verify) == 1.0));
                }
            }
            assert!(Measure::new(Verify::None, collection, texts, None, None, settings).is_none());
            assert!(Measure::new(Verify::Weights, collection, texts, None, None, settings).is_none());
        });
    }

    #[test]
    fn a_sketch_shared_by_chance_is_taken_apart_and_pairs_below_the_threshold_go() {
        with_pages(|collection, texts, sketches, frequencies, settings| {
            let measure =
                Measure::new(Verify::Jaccard, collection, texts, Some(sketches), Some(frequencies), settings)
                    .unwrap();
            // Pages 0, 1, 3 and 4 in one slot as if they had one hash; page 2 in another, joined with it.
            let slots: [&[u32]; 2] = [&[0, 1, 3, 4], &[2]];
            let groups = Groups::new(slots.into_iter(), &collection.documents, Keep::First);
            let joined = [SlotPair { a: Slot(0), b: Slot(1), distance: 2, similarity: 0.9 }];
            let at = |threshold| verify(&measure, threshold, &groups, &joined, Keep::First);
            let strict = at(0.8);
            let lists: Vec<&[u32]> =
                (0..strict.groups.len() as u32).map(|slot| strict.groups.documents(slot)).collect();
            assert_eq!(lists, [&[0, 4, 1][..], &[3], &[2]]);
            assert!(strict.joined.is_empty());
            assert_eq!((strict.compared, strict.refused, strict.skipped), (4, 3, 0));
            let loose = at(0.3);
            assert_eq!(loose.joined.len(), 1);
            assert_eq!(
                (loose.joined[0].a, loose.joined[0].b, loose.joined[0].distance),
                (Slot(0), Slot(2), 2)
            );
            assert!((loose.joined[0].similarity - 4.0 / 12.0).abs() < 1e-6);
            let everything = at(0.0);
            assert_eq!(everything.groups.len(), 2);
        });
    }
}
