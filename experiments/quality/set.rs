//! A corpus with what is right about it, and the score of a result.

use super::QualityConfig;
use crate::Options;
use crate::corpus::Corpus;
use crate::results::{Row, read};
use crate::truth::similar_pairs;
use anyhow::{Context, Result, bail, ensure};
use simflip::corpus::{ReadOptions, discover};
use simflip::evaluate::corpus::record_names;
use simflip::evaluate::found::{Found, FoundPair, RecordNames};
use simflip::evaluate::interval::Bootstrap;
use simflip::evaluate::partition::Partition;
use simflip::evaluate::truth::{
    Judged, PairLabel as Judgement, Rule, Scope, Truth, TruthCounts, TruthFile, TruthParams,
};
use simflip::evaluate::{Evaluation, evaluate};
use simflip::hash::{fmix64, text_digest};
use simflip::{Document, Id};
use std::path::{Path, PathBuf};

/// Documents and their truth.
pub struct Set {
    /// Name of the corpus.
    pub name: String,
    /// `judged`: people said of each pair; `planted`: the makers made the copies; `lexical`: counted.
    pub kind: &'static str,
    records: u32,
    truth: TruthFile,
    /// The judged pairs in parts; empty unless pairs were judged one by one.
    folds: Vec<TruthFile>,
    /// Pairs of one sort, by name.
    sorts: Vec<(&'static str, TruthFile)>,
    pages: Vec<Page>,
    /// Below the first number of bytes a text is short, from the second on long.
    lengths: (u64, u64),
}

/// What sorts the pairs of a page.
#[derive(Clone, Copy)]
struct Page {
    bytes: u64,
    /// A hash of the URL's host; nothing without a URL.
    host: Option<u128>,
}

/// The sorts that a pair belongs to: by the shorter of its texts, and by its hosts. Texts are short below the
/// first of these numbers of bytes, and long from the second on.
fn sorts_of(a: Page, b: Page, (short_below, long_from): (u64, u64)) -> [Option<&'static str>; 2] {
    let length = match a.bytes.min(b.bytes) {
        bytes if bytes < short_below => "short",
        bytes if bytes < long_from => "middle",
        _ => "long",
    };
    let hosts = a.host.zip(b.host).map(|(a, b)| if a == b { "one host" } else { "two hosts" });
    [Some(length), hosts]
}

const SORTS: [&str; 5] = ["short", "middle", "long", "one host", "two hosts"];
/// Pairs that people called other content in the same frame: a label of a half.
const FRAME: &str = "frame";

/// A sort of pair, with its counts and shares as in [`Score`].
pub type Sorted = (&'static str, [u64; 3], [Option<f64>; 3]);

/// How right a result is.
pub struct Score {
    /// Of the pairs that the result lists, or of the pairs in its clusters if it lists none.
    pub counts: [u64; 3],
    /// Precision, recall and F1; nothing where the denominator is 0.
    pub shares: [Option<f64>; 3],
    /// F1 of the pairs in one cluster.
    pub cluster_f1: Option<f64>,
    /// True positives, false positives and false negatives of each part of the judged pairs.
    pub folds: Vec<[u64; 3]>,
    /// The same, precision, recall and F1 of pairs of one sort; empty unless asked for.
    pub sorts: Vec<Sorted>,
}

impl Set {
    /// The truth of a corpus that was loaded with shingles of five words.
    pub fn open(path: &Path, options: &Options, config: &QualityConfig, corpus: &Corpus) -> Result<Self> {
        let inputs = discover(&[PathBuf::from(path)], &Default::default())?;
        let (names, _) = record_names(&inputs, &ReadOptions::default())?;
        ensure!(
            names.len() == corpus.documents(),
            "{}: {} records, {} of them readable; numbers would not match",
            corpus.name,
            names.len(),
            corpus.documents()
        );
        let records = RecordNames::new(&names)?;
        let given = options.truths.iter().find_map(|truth| truth.strip_prefix(&format!("{}=", corpus.name)));
        let mut frame = None;
        let truth = match given {
            Some(given) => {
                let mut parts = given.split(',');
                let file = parts.next().unwrap_or_default();
                let mut params = TruthParams::default();
                if let Some(score) = parts.next().filter(|score| !score.is_empty()) {
                    params.min_score = Some(score.parse()?);
                }
                if let Some(scope) = parts.next() {
                    params.scope = Some(scope.parse()?);
                }
                let truth = TruthFile::read(Path::new(file), &records, &params)?;
                let lower = TruthParams { min_label: 0.5, ..params };
                frame = framed(&truth, TruthFile::read(Path::new(file), &records, &lower)?);
                truth
            }
            None => counted(corpus, config.near),
        };
        let kind = match (truth.scope, truth.min_score) {
            (Scope::LabelledPairs, _) => "judged",
            (_, Some(_)) => "lexical",
            _ => "planted",
        };
        let folds = match &truth.truth {
            Truth::Pairs(pairs) if truth.scope == Scope::LabelledPairs => {
                let fold = |pair: &Judged| {
                    fmix64(u64::from(pair.a.number()) << 32 | u64::from(pair.b.number())) % config.folds
                };
                let of = |number: u64| pairs.iter().filter(|pair| fold(pair) == number).copied().collect();
                let part = |number| TruthFile { truth: Truth::Pairs(of(number)), ..truth.clone() };
                (0..config.folds).map(part).collect()
            }
            _ => Vec::new(),
        };
        let (pages, ..) = corpus.parts();
        let page = |document| {
            let host = pages.url(document).and_then(|url| url.split('/').nth(2));
            Page { bytes: pages.collection.facts(document).text_bytes, host: host.map(text_digest) }
        };
        let pages: Vec<Page> = Document::all(pages.len()).map(page).collect();
        let lengths = (config.short_below, config.long_from);
        let mut sorts: Vec<(&str, TruthFile)> = Vec::new();
        if let Truth::Pairs(pairs) = &truth.truth {
            for sort in SORTS {
                let is = |pair: &&Judged| {
                    sorts_of(pages[pair.a.index()], pages[pair.b.index()], lengths).contains(&Some(sort))
                };
                let own: Vec<Judged> = pairs.iter().filter(is).copied().collect();
                if own.iter().any(|pair| pair.judgement == Judgement::Duplicate) {
                    sorts.push((sort, TruthFile { truth: Truth::Pairs(own), ..truth.clone() }));
                }
            }
        }
        sorts.extend(frame.map(|frame| (FRAME, frame)));
        let (name, records) = (corpus.name.clone(), records.count());
        Ok(Self { name, kind, records, truth, folds, sorts, pages, lengths })
    }

    /// Number of pairs that are true.
    pub fn true_pairs(&self) -> usize {
        match &self.truth.truth {
            Truth::Pairs(pairs) => pairs.iter().filter(|pair| pair.judgement == Judgement::Duplicate).count(),
            Truth::Clusters { .. } => 0,
        }
    }

    /// Scores pairs of documents.
    pub fn score_pairs(&self, pairs: impl IntoIterator<Item = (u32, u32)>) -> Result<Score> {
        self.score(&found(pairs))
    }

    /// Scores pairs of documents, and those of each sort by themselves.
    pub fn score_sorts(&self, pairs: &[(u32, u32)]) -> Result<Score> {
        let mut score = self.score_pairs(pairs.iter().copied())?;
        for (sort, truth) in &self.sorts {
            let is = |&&(a, b): &&(u32, u32)| {
                *sort == FRAME
                    || sorts_of(self.pages[a as usize], self.pages[b as usize], self.lengths)
                        .contains(&Some(*sort))
            };
            let own = found(pairs.iter().filter(is).copied());
            let none = Bootstrap { resamples: 0, ..Bootstrap::default() };
            if let Some(p) = evaluate(truth, &own, self.records, none)?.pairs {
                let counts = [p.true_positives, p.false_positives, p.false_negatives];
                score.sorts.push((sort, counts, [p.precision.value, p.recall.value, p.f1.value]));
            }
        }
        Ok(score)
    }

    fn score(&self, found: &Found) -> Result<Score> {
        let once = |truth: &TruthFile| -> Result<Evaluation> {
            Ok(evaluate(truth, found, self.records, Bootstrap { resamples: 0, ..Bootstrap::default() })?)
        };
        let counts = |evaluation: &Evaluation| {
            let pairs = evaluation.pairs.as_ref().or(evaluation.cluster_pairs.as_ref());
            pairs.map_or([0; 3], |p| [p.true_positives, p.false_positives, p.false_negatives])
        };
        let whole = once(&self.truth)?;
        let pairs = whole.pairs.as_ref().or(whole.cluster_pairs.as_ref());
        let shares = pairs.map_or([None; 3], |p| [p.precision.value, p.recall.value, p.f1.value]);
        let cluster_f1 = whole.cluster_pairs.as_ref().and_then(|pairs| pairs.f1.value);
        let folds =
            self.folds.iter().map(|fold| Ok(counts(&once(fold)?))).collect::<Result<Vec<[u64; 3]>>>()?;
        Ok(Score { counts: counts(&whole), shares, cluster_f1, folds, sorts: Vec::new() })
    }

    /// Scores what a rival wrote: pairs (a,b) or clusters (record,cluster) by record number.
    pub fn score_file(&self, path: &Path) -> Result<Score> {
        let rows = read(path)?;
        let number = |row: &Row, field: &str| -> Result<u32> {
            row.text(field).parse().with_context(|| format!("{}: {field:?}", path.display()))
        };
        let Some(first) = rows.first() else { return self.score_pairs([]) };
        if !first.text("a").is_empty() {
            let pairs = rows.iter().map(|row| Ok((number(row, "a")?, number(row, "b")?)));
            return self.score_pairs(pairs.collect::<Result<Vec<_>>>()?);
        }
        if first.text("record").is_empty() {
            bail!("{}: neither a,b nor record,cluster", path.display());
        }
        let joins: Vec<(Document, Document)> = rows
            .iter()
            .map(|row| Ok((Document(number(row, "record")?), Document(number(row, "cluster")?))))
            .collect::<Result<_>>()?;
        ensure!(
            joins.iter().all(|&(a, b)| a.max(b).number() < self.records),
            "{}: not of this corpus",
            path.display()
        );
        self.score(&Found { pairs: None, clusters: Some(Partition::from_pairs(self.records, joins)) })
    }
}

fn found(pairs: impl IntoIterator<Item = (u32, u32)>) -> Found {
    let pair = |(a, b): (u32, u32)| {
        let (a, b) = (Document(a.min(b)), Document(a.max(b)));
        FoundPair { a, b, distance: None, similarity: None }
    };
    let mut pairs: Vec<FoundPair> = pairs.into_iter().filter(|(a, b)| a != b).map(pair).collect();
    pairs.sort_unstable_by_key(|pair| (pair.a, pair.b));
    pairs.dedup_by_key(|pair| (pair.a, pair.b));
    Found { pairs: Some(pairs), clusters: None }
}

/// The pairs that are distinct, and would be duplicates with a lower bar: all of them distinct.
fn framed(truth: &TruthFile, lower: TruthFile) -> Option<TruthFile> {
    let (Truth::Pairs(pairs), Truth::Pairs(more)) = (&truth.truth, lower.truth) else { return None };
    let distinct: Vec<Judged> =
        pairs.iter().filter(|pair| pair.judgement == Judgement::Distinct).copied().collect();
    let between = |pair: &Judged| {
        let as_distinct = Judged { judgement: Judgement::Distinct, ..*pair };
        pair.judgement == Judgement::Duplicate && distinct.binary_search(&as_distinct).is_ok()
    };
    let framed: Vec<Judged> = more
        .into_iter()
        .filter(between)
        .map(|pair| Judged { judgement: Judgement::Distinct, ..pair })
        .collect();
    (!framed.is_empty()).then(|| TruthFile { truth: Truth::Pairs(framed), ..truth.clone() })
}

/// All pairs with a Jaccard coefficient of `near` or more, by full comparison; copies of a text among them.
fn counted(corpus: &Corpus, near: f64) -> TruthFile {
    let sets: Vec<Vec<(u64, u32)>> = (0..corpus.len()).map(|text| corpus.counts(text)).collect();
    let mut pairs = copies(corpus);
    for (a, b, _) in similar_pairs(&sets, near) {
        pairs.extend(across(corpus, a, b));
    }
    pairs.sort_unstable();
    let judged = |(a, b)| Judged { a: Document(a), b: Document(b), judgement: Judgement::Duplicate };
    TruthFile {
        truth: Truth::Pairs(pairs.into_iter().map(judged).collect()),
        scope: Scope::Corpus,
        counts: TruthCounts::default(),
        min_score: Some(near),
        rule: Rule::Score(near),
    }
}

/// Every pair of documents of one text.
pub fn copies(corpus: &Corpus) -> Vec<(u32, u32)> {
    let (_, texts, _) = corpus.parts();
    let mut pairs = Vec::new();
    for text in texts.all() {
        let documents = texts.copies(text);
        for (at, &a) in documents.iter().enumerate() {
            pairs.extend(documents[at + 1..].iter().map(|&b| (a.0, b.0)));
        }
    }
    pairs
}

/// Every pair of documents of two sketched texts.
pub fn across(corpus: &Corpus, a: u32, b: u32) -> impl Iterator<Item = (u32, u32)> {
    let others = corpus.copies_of(b as usize);
    let pairs = |&a: &Document| others.iter().map(move |&b| (a.min(b).0, a.max(b).0));
    corpus.copies_of(a as usize).iter().flat_map(pairs)
}
