//! Which candidate generator is the best for an index that is asked whether a page has been seen?
//!
//! `cargo run --release --features serve --example generators -- PAGES QUESTIONS` stores so many made-up pages in every
//! generator and asks the same questions of each: pages of the families and templates of those that are stored. A pair
//! is truly similar if the Jaccard coefficient of the pages' features is 0.8 or more; all stored pages are looked
//! through for them. The candidates of all generators are verified alike: by the estimate of 1,024 bits. Where not all
//! probes are made, how many is chosen on one half of the questions, and all figures are of the other half.
//!
//! It prints a row for each generator: recall of the truly similar pairs, what was looked at, bytes beside the
//! sketches, and processor microseconds a question, with and without verification.

mod crawl;

use crawl::Pages;
use rayon::prelude::*;
use simflip::core::id::Id;
use simflip::core::jaccard::{SetBits, estimate};
use simflip::core::search::bphs::{Bphs, BphsParams};
use simflip::core::search::dial::{Dial, DialParams};
use simflip::core::search::lsh::LshIndex;
use simflip::core::search::psm::{FlippedBits, Psm, PsmParams};
use simflip::core::search::{HammingIndex, Hit, Mode, Probing, Query, Scratch};
use simflip::core::text::FeatureExtractor;
use simflip::resources::thread_seconds;
use simflip::settings::Settings;
use simflip::sketch::{Sketch, SketchValue};
use simflip::terminal::say;
use std::collections::HashSet;
use std::error::Error;

/// Pages in columns.
#[derive(Default)]
struct Stored {
    hashes: Vec<u64>,
    bits: Vec<u64>,
    keys: Vec<u32>,
    sizes: Vec<u32>,
    words: usize,
    bands: usize,
}

impl Stored {
    fn push(&mut self, sketch: &Sketch, hash: u64) {
        let SketchValue::Both(two) = &sketch.value else { return };
        (self.words, self.bands) = (two.bits.len(), two.keys.len());
        self.hashes.push(hash);
        self.bits.extend(&two.bits);
        self.keys.extend(&two.keys);
        self.sizes.push(sketch.facts.features);
    }

    fn bits(&self, at: usize) -> SetBits<'_> {
        SetBits::by_size(&self.bits[at * self.words..][..self.words], self.sizes[at])
    }
}

/// A page that is asked about.
struct Question {
    sketch: Sketch,
    hash: u64,
    weights: [f32; 64],
    /// The stored pages that are truly similar, ascending.
    similar: Vec<u32>,
}

impl Question {
    fn bits(&self) -> SetBits<'_> {
        match &self.sketch.value {
            SketchValue::Both(two) => SetBits::by_size(&two.bits, self.sketch.facts.features),
            _ => SetBits::by_size(&[], 0),
        }
    }

    fn query(&self) -> Query<'_> {
        Query { hash: self.hash, weights: &self.weights }
    }
}

const SIMILARITY: f64 = 0.8;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|number| number.parse()).collect::<Result<_, _>>()?;
    let [n, asked] = numbers[..].try_into().unwrap_or([5_000, 400]);
    let (both, simhash) = (Pages::new(&Settings::default()), Pages::new(&Settings::simhash()));
    let sketched = |pages: Vec<(u64, std::ops::Range<u64>)>| -> Vec<(Sketch, u64, [f32; 64])> {
        pages
            .into_par_iter()
            .map_init(
                || (both.sketcher(), simhash.sketcher()),
                |(first, second), (page, others)| {
                    let text = both.text(page, others);
                    let (hash, weights) = match second.sketch(&text).value {
                        SketchValue::SimHash(hashed) => (hashed.hash, hashed.weights.weights()),
                        _ => (0, [0.0; 64]),
                    };
                    (first.sketch(&text), hash, weights)
                },
            )
            .collect()
    };
    let mut stored = Stored::default();
    for from in (0..n).step_by(50_000) {
        let pages = (from..n.min(from + 50_000)).map(|page| (page, 0..page)).collect();
        sketched(pages).iter().for_each(|(sketch, hash, _)| stored.push(sketch, *hash));
    }
    let first = 1 << 40;
    let questions = sketched((first..first + asked).map(|page| (page, 0..n)).collect());
    let features = |page: u64, others| -> HashSet<u64> {
        let mut found = HashSet::new();
        let extraction = Settings::default().extraction();
        FeatureExtractor::new(extraction)
            .extract(&both.text(page, others), |feature| _ = found.insert(feature));
        found
    };
    let questions: Vec<Question> = (first..)
        .zip(questions)
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|(page, (sketch, hash, weights))| {
            let mut question = Question { sketch, hash, weights, similar: Vec::new() };
            let own = features(page, 0..n);
            for at in 0..stored.sizes.len() {
                // The estimate of 1,024 bits is within 0.1 but for one pair in very many.
                if f64::from(estimate(question.bits(), stored.bits(at))) < SIMILARITY - 0.1 {
                    continue;
                }
                let theirs = features(at as u64, 0..at as u64);
                let shared = own.intersection(&theirs).count() as f64;
                if shared / (own.len() + theirs.len()) as f64 >= SIMILARITY / (1.0 + SIMILARITY) {
                    question.similar.push(at as u32);
                }
            }
            question
        })
        .collect();
    say(format_args!(
        "pages,generator,questions,similar_pairs,recall,probes,candidates,candidates_found,near,bytes_a_page,\
         microseconds_a_question,microseconds_with_verification"
    ))?;
    let (choose, tell) = questions.split_at(questions.len() / 2);
    by_keys(&stored, tell)?;
    // Different hashes, ascending, and the pages that have each.
    let mut order: Vec<u32> = (0..stored.hashes.len() as u32).collect();
    order.sort_by_key(|&at| stored.hashes[at as usize]);
    let mut distinct: Vec<u64> = order.iter().map(|&at| stored.hashes[at as usize]).collect();
    distinct.dedup();
    let groups: Vec<Vec<u32>> = order
        .chunk_by(|&a, &b| stored.hashes[a as usize] == stored.hashes[b as usize])
        .map(<[u32]>::to_vec)
        .collect();
    let hashed = Hashed { stored: &stored, groups };
    for radius in [3, 6, 10] {
        let params = DialParams { radius, tables: (radius / 2 + 1).max(2), ..DialParams::default() };
        let mut dial = Dial::new(&distinct, params)?;
        let probes = hashed.probes(&dial, choose);
        hashed.tell(&format!("dial h={radius} exact"), &dial, tell)?;
        for recall in [0.99, 0.95, 0.9, 0.8] {
            dial.set_budget(budget(&probes, recall));
            hashed.tell(&format!("dial h={radius} recall {recall}"), &dial, tell)?;
        }
    }
    for radius in [3, 6] {
        let bphs = Bphs::new(&distinct, BphsParams { radius, tables: BphsParams::usual_tables(radius) })?;
        hashed.tell(&format!("BPHS h={radius} {} tables", BphsParams::usual_tables(radius)), &bphs, tell)?;
    }
    let mut psm = Psm::new(
        &distinct,
        PsmParams { radius: 3, flipped_bits: FlippedBits::Key { key_bits: None }, ..PsmParams::default() },
    )?;
    let probes = hashed.probes(&psm, choose);
    for recall in [0.99, 0.95, 0.9, 0.8] {
        psm.set_budget(budget(&probes, recall));
        hashed.tell(&format!("PSM h=3 recall {recall}"), &psm, tell)?;
    }
    Ok(())
}

/// The probes that find a share of the pairs which all probes find.
fn budget(probes: &[u32], recall: f64) -> Option<u32> {
    probes.get(((probes.len() as f64 * recall).ceil() as usize).saturating_sub(1)).copied()
}

/// What a generator came to over all questions.
#[derive(Default)]
struct Tally {
    found: u64,
    probes: u64,
    candidates: u64,
    candidates_found: u64,
    near: u64,
    seconds: f64,
    verified: f64,
}

impl Tally {
    fn verify(&mut self, stored: &Stored, question: &Question, pages: &[u32]) {
        self.candidates_found += pages.len() as u64;
        for &page in pages {
            self.near +=
                u64::from(f64::from(estimate(question.bits(), stored.bits(page as usize))) >= SIMILARITY);
        }
    }

    fn tell(
        &self,
        generator: &str,
        stored: &Stored,
        bytes: usize,
        questions: &[Question],
    ) -> std::io::Result<()> {
        let similar: usize = questions.iter().map(|question| question.similar.len()).sum();
        let (pages, asked) = (stored.sizes.len(), questions.len());
        let each = |count: u64| count as f64 / asked as f64;
        say(format_args!(
            "{pages},{generator},{asked},{similar},{:.4},{:.1},{:.1},{:.2},{:.3},{:.1},{:.2},{:.2}",
            self.found as f64 / similar.max(1) as f64,
            each(self.probes),
            each(self.candidates),
            each(self.candidates_found),
            each(self.near),
            bytes as f64 / pages as f64,
            self.seconds * 1e6 / asked as f64,
            self.verified * 1e6 / asked as f64,
        ))
    }
}

fn by_keys(stored: &Stored, questions: &[Question]) -> Result<(), Box<dyn Error>> {
    let mut lsh = LshIndex::new(stored.bands);
    for (slot, keys) in (0..).zip(stored.keys.chunks(stored.bands)) {
        lsh.insert(slot, keys)?;
    }
    let (mut tally, mut found) = (Tally::default(), Vec::new());
    for verifying in [false, true] {
        let begun = thread_seconds();
        for question in questions {
            let SketchValue::Both(two) = &question.sketch.value else { continue };
            lsh.candidates(&two.keys, &mut found);
            if verifying {
                tally.verify(stored, question, &found);
            } else {
                let has = |page: &&u32| found.binary_search(page).is_ok();
                tally.found += question.similar.iter().filter(has).count() as u64;
                tally.probes += two.keys.len() as u64;
                tally.candidates += found.len() as u64;
            }
        }
        *(if verifying { &mut tally.verified } else { &mut tally.seconds }) = thread_seconds() - begun;
    }
    tally.tell(&format!("keys {}", stored.bands), stored, lsh.bytes(), questions)?;
    Ok(())
}

/// Pages by their SimHashes.
struct Hashed<'a> {
    stored: &'a Stored,
    groups: Vec<Vec<u32>>,
}

impl Hashed<'_> {
    /// The probes at which the similar pairs are found that all probes find, ascending.
    fn probes(&self, index: &dyn HammingIndex, questions: &[Question]) -> Vec<u32> {
        let (mut scratch, mut probes) = (Scratch::default(), Vec::new());
        for question in questions {
            let mut hits = Vec::new();
            index.answer(&[question.query()], Mode::All, true, &mut scratch, &mut |found| {
                hits.push((found.hit, found.probe))
            });
            for (hit, probe) in hits {
                let similar =
                    self.groups[hit.slot.index()].iter().filter(|page| question.similar.contains(page));
                probes.extend(similar.map(|_| probe));
            }
        }
        probes.sort_unstable();
        probes
    }

    fn tell(&self, generator: &str, index: &dyn HammingIndex, questions: &[Question]) -> std::io::Result<()> {
        let (mut tally, mut scratch) = (Tally::default(), Scratch::default());
        let (mut hits, mut pages): (Vec<Hit>, Vec<u32>) = (Vec::new(), Vec::new());
        for verifying in [false, true] {
            let begun = thread_seconds();
            for question in questions {
                hits.clear();
                pages.clear();
                let cost = index.search(question.query(), Mode::All, &mut scratch, &mut hits);
                hits.iter().for_each(|hit| pages.extend(&self.groups[hit.slot.index()]));
                if verifying {
                    tally.verify(self.stored, question, &pages);
                } else {
                    let has = |page: &&u32| pages.contains(page);
                    tally.found += question.similar.iter().filter(has).count() as u64;
                    (tally.probes, tally.candidates) =
                        (tally.probes + cost.probes, tally.candidates + cost.candidates);
                }
            }
            *(if verifying { &mut tally.verified } else { &mut tally.seconds }) = thread_seconds() - begun;
        }
        // The slots' pages take four bytes each beside the index.
        let bytes = index.bytes() + 4 * self.stored.hashes.len();
        tally.tell(generator, self.stored, bytes, questions)
    }
}
