//! Precision without a truth: a stratified sample of the found pairs for a person to judge,
//! and the estimate from it.
//!
//! Pairs far apart are few and doubtful, pairs close together many and sure. So the sample is drawn by bands
//! of distance or similarity, and each band's share counts by the band's size. Nothing here says anything
//! about recall: what was not found is in no sample.

use super::found::{FoundPair, ListedPairs};
use super::interval::{Interval, Z95, wilson};
use super::truth::{LABELS, PairLabel};
use crate::display::{counted, plural, printable};
use crate::error::{Error, Result};
use crate::hash;
use crate::id::{Document, Id};
use crate::inspection::Inspection;
use crate::tables::cell::guarded;
use crate::tables::table::Table;
use hashbrown::HashSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::{cmp, fmt};

/// The bands into which found pairs are put, by distance or by similarity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bands {
    /// A band for every Hamming distance.
    #[default]
    Distance,
    /// Bands of similarity, cut at these ascending values. A pair whose similarity is such a value is in the band above
    /// it.
    Similarity(Vec<f64>),
}

impl Bands {
    /// The place of a pair's band in the order of bands; pairs without the measure are in a band of their
    /// own.
    fn of(&self, pair: &FoundPair) -> Option<u32> {
        match self {
            Self::Distance => pair.distance,
            Self::Similarity(cuts) => {
                pair.similarity.map(|s| cuts.partition_point(|&cut| cut <= s).try_into().unwrap_or(u32::MAX))
            }
        }
    }

    fn name(&self, band: Option<u32>) -> String {
        match (self, band) {
            (Self::Distance, None) => "no distance".to_string(),
            (Self::Distance, Some(distance)) => format!("distance {distance}"),
            (Self::Similarity(_), None) => "no similarity".to_string(),
            (Self::Similarity(cuts), Some(band)) => {
                let band = band as usize;
                match (band.checked_sub(1).and_then(|i| cuts.get(i)), cuts.get(band)) {
                    (None, None) => "any similarity".to_string(),
                    (None, Some(high)) => format!("similarity < {high}"),
                    (Some(low), None) => format!("similarity >= {low}"),
                    (Some(low), Some(high)) => format!("similarity {low} to {high}"),
                }
            }
        }
    }
}

/// A band of found pairs, and how many of its pairs are in the sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stratum {
    /// The name of the band, such as `distance 3`.
    pub name: String,
    /// Pairs found in this band.
    pub pairs: u64,
    /// Pairs of the band that are in the sample.
    pub sampled: u64,
}

/// A pair for a person to judge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampledPair {
    /// The found pair.
    pub pair: FoundPair,
    /// Its band, by place in [`ReviewSample::strata`].
    pub stratum: usize,
    /// The number of found pairs for which this one stands: pairs / sampled of its band, the inverse of the probability
    /// of being drawn (Horvitz and Thompson 1952).
    pub weight: f64,
}

/// A sample of found pairs, for a person to judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewSample {
    /// The bands that have pairs, by ascending distance or similarity. The pairs without the measure are a last band.
    pub strata: Vec<Stratum>,
    /// The pairs in random order: a person who stops early has judged a random part of every band.
    pub pairs: Vec<SampledPair>,
}

impl ReviewSample {
    /// Draws a sample of `size` of the pairs, or of all if there are fewer. `ids[i]` is the id of record i.
    ///
    /// Every band gets the same share of `size`, as far as it has pairs. Within a band the pairs with the lowest hash
    /// of (seed, both ids) are taken. This is a simple random sample without replacement. It depends on the band's
    /// pairs and the seed alone, and is part of the larger sample of the same seed.
    ///
    /// # Errors
    /// If the size is below the number of bands, if cuts do not ascend, or if a pair names a record without
    /// id.
    pub fn draw(pairs: &[FoundPair], ids: &[String], by: &Bands, size: usize, seed: u64) -> Result<Self> {
        if let Bands::Similarity(cuts) = by
            && !cuts.is_sorted_by(|a, b| a < b)
        {
            return Err(Error::parameter("bands", format!("{cuts:?}"), "ascending values"));
        }
        let mut bands: BTreeMap<(bool, u32), Vec<(u64, FoundPair)>> = BTreeMap::new();
        for pair in pairs {
            let (Some(a), Some(b)) = (ids.get(pair.a.index()), ids.get(pair.b.index())) else {
                let got = format!("the pair {}, {}", pair.a, pair.b);
                return Err(Error::parameter("ids", got, format!("records below {}", ids.len())));
            };
            let band = by.of(pair);
            let members = bands.entry((band.is_none(), band.unwrap_or(0))).or_default();
            members.push((key(seed, a, b), *pair));
        }
        if size < bands.len() {
            let expected = format!("at least {}, one for each band", bands.len());
            return Err(Error::parameter("sample", size, expected));
        }
        let sizes: Vec<usize> = bands.values().map(Vec::len).collect();
        let (mut strata, mut drawn) = (Vec::new(), Vec::new());
        for (((without, band), mut members), sampled) in bands.into_iter().zip(allocate(size, &sizes)) {
            members.sort_by_key(|(key, pair)| (*key, pair.a, pair.b));
            let weight = members.len() as f64 / sampled as f64;
            let stratum = strata.len();
            let first = members.iter().take(sampled);
            drawn.extend(first.map(|&(key, pair)| (key, SampledPair { pair, stratum, weight })));
            strata.push(Stratum {
                name: by.name((!without).then_some(band)),
                pairs: members.len() as u64,
                sampled: sampled as u64,
            });
        }
        drawn.sort_by_key(|(key, sampled)| (*key, sampled.pair.a, sampled.pair.b));
        Ok(Self { strata, pairs: drawn.into_iter().map(|d| d.1).collect() })
    }

    /// Writes the sample as CSV with an empty column `label`. A person fills it in, and [`read_judgements`] reads it;
    /// it can be read as a truth as well. `ids` are those of [`draw`](Self::draw).
    ///
    /// # Errors
    /// If writing fails (`path` is named in the error), or if `ids` lacks a record of the sample.
    pub fn write_csv(&self, ids: &[String], path: &Path, out: impl Write) -> Result<()> {
        let text = |number: Option<String>| number.unwrap_or_default();
        let mut writer = csv::Writer::from_writer(out);
        let header =
            ["a_id", "b_id", "stratum", "stratum_pairs", "weight", "distance", "similarity", "label"];
        let io = |e: csv::Error| Error::io(path, e.into());
        writer.write_record(header).map_err(io)?;
        for sampled in &self.pairs {
            let (a, b) = (sampled.pair.a.index(), sampled.pair.b.index());
            let (Some(a), Some(b), Some(stratum)) =
                (ids.get(a), ids.get(b), self.strata.get(sampled.stratum))
            else {
                return Err(Error::parameter("ids", ids.len(), "the ids that the sample was drawn with"));
            };
            let row = [
                guarded(a).into_owned(),
                guarded(b).into_owned(),
                stratum.name.clone(),
                stratum.pairs.to_string(),
                sampled.weight.to_string(),
                text(sampled.pair.distance.map(|d| d.to_string())),
                text(sampled.pair.similarity.map(|s| s.to_string())),
                String::new(),
            ];
            writer.write_record(row).map_err(io)?;
        }
        writer.flush().map_err(|e| Error::io(path, e))
    }
}

/// A random number that follows from the seed and a pair of ids, in either order.
fn key(seed: u64, a: &str, b: &str) -> u64 {
    let (a, b) = (hash::feature(a.as_bytes()), hash::feature(b.as_bytes()));
    let mut bytes = [0; 24];
    for (part, number) in bytes.chunks_exact_mut(8).zip([seed, a.min(b), a.max(b)]) {
        part.copy_from_slice(&number.to_le_bytes());
    }
    hash::feature(&bytes)
}

/// Shares `total` out to bands of these sizes: each gets the same, but none more than its size. What small bands leave
/// goes to larger ones.
fn allocate(total: usize, sizes: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&i| (sizes[i], cmp::Reverse(i)));
    let (mut left, mut shares) = (total, vec![0; sizes.len()]);
    for (done, &i) in order.iter().enumerate() {
        shares[i] = sizes[i].min(left / (sizes.len() - done));
        left -= shares[i];
    }
    shares
}

/// The judgements on the sample of one band.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StratumJudgements {
    /// The name of the band.
    pub name: String,
    /// Pairs found in this band.
    pub pairs: u64,
    /// Sampled pairs judged to be near-duplicates.
    pub right: u64,
    /// Sampled pairs judged to be distinct.
    pub wrong: u64,
    /// Sampled pairs without a judgement, or judged unknown.
    pub unknown: u64,
}

/// Reads a sample whose labels are filled in: columns `stratum` (the band), `stratum_pairs` and `label`, which
/// [`PairLabel::of_label`] reads with `min_label`. Returns the judgements band by band, by name. With `listed`, the
/// pairs `a_id` and `b_id` must be a sample of its near pairs.
///
/// # Errors
/// If a row is broken, if a band has two sizes or more rows than pairs, or if the file is not a sample of `listed`.
pub fn read_judgements(
    path: &Path,
    min_label: f64,
    listed: Option<&ListedPairs>,
) -> Result<Vec<StratumJudgements>> {
    let mut table = Table::open(path)?;
    let columns = ["stratum", "stratum_pairs", "label"].map(|name| table.column(&[name]));
    let [Some(stratum), Some(size), Some(label)] = columns else {
        return Err(table.header_error("a header with stratum, stratum_pairs and label"));
    };
    let mut members = None;
    if let Some(listed) = listed {
        let (Some(a), Some(b)) = (table.column(&["a_id"]), table.column(&["b_id"])) else {
            return Err(table.header_error("a header with a_id and b_id"));
        };
        let left: HashSet<(Document, Document)> = listed.near.iter().map(|pair| (pair.a, pair.b)).collect();
        members = Some((left, listed.numbers(), a, b));
    }
    let mut strata: BTreeMap<String, StratumJudgements> = BTreeMap::new();
    let mut row = csv::StringRecord::new();
    while let Some(line) = table.next(&mut row)? {
        let Ok(pairs) = row[size].parse::<u64>() else {
            return Err(table.error(line, format!("stratum_pairs {:?}", &row[size]), "a whole number"));
        };
        let entry = strata.entry(row[stratum].to_string()).or_insert_with(|| StratumJudgements {
            name: row[stratum].to_string(),
            pairs,
            ..Default::default()
        });
        if entry.pairs != pairs {
            let expected = format!("{}, as in the rows above,", entry.pairs);
            return Err(table.error(line, format!("stratum_pairs {pairs}"), expected));
        }
        match PairLabel::of_label(&row[label], min_label) {
            Some(PairLabel::Duplicate) => entry.right += 1,
            Some(PairLabel::Distinct) => entry.wrong += 1,
            Some(PairLabel::Unknown) => entry.unknown += 1,
            None => return Err(table.error(line, format!("the label {:?}", &row[label]), LABELS)),
        }
        if entry.right + entry.wrong + entry.unknown > pairs {
            let got = format!("one row more of {:?}", entry.name);
            let pairs = counted(pairs, "pair", "pairs");
            return Err(table.error(line, got, format!("no more than its {pairs}")));
        }
        if let Some((left, numbers, a, b)) = &mut members {
            let pair = numbers.get(&row[*a]).zip(numbers.get(&row[*b]));
            if !pair.is_some_and(|(&a, &b)| left.remove(&(a.min(b), a.max(b)))) {
                let got = format!("the pair {:?}, {:?}", &row[*a], &row[*b]);
                return Err(table.error(line, got, "a pair of different texts that the result lists, once,"));
            }
        }
    }
    let sampled_from: u64 = strata.values().map(|stratum| stratum.pairs).sum();
    if let Some(listed) = listed.filter(|listed| listed.near.len() as u64 != sampled_from) {
        let got = format!("a sample of {}", counted(sampled_from, "pair", "pairs"));
        let pairs = counted(listed.near.len() as u64, "pair", "pairs");
        let expected = format!("one of the {pairs} of different texts that the result lists");
        return Err(table.error(1, got, expected));
    }
    Ok(strata.into_values().collect())
}

/// The first columns of a table of judgements, by which such a table is known.
pub(crate) const COLUMNS: [&str; 4] = ["a_id", "b_id", "stratum", "stratum_pairs"];

/// Checks a table of judgements, as the page of a review saves it. Broken rows are problems in the result, not errors.
pub(crate) fn check(path: &Path) -> Result<Inspection> {
    let mut inspection = Inspection::of("table of judged pairs");
    let strata = match read_judgements(path, 1.0, None) {
        Ok(strata) => strata,
        Err(error @ Error::Table { .. }) => {
            inspection.problem(error.to_string());
            return Ok(inspection);
        }
        Err(error) => return Err(error),
    };
    // A row's weight says for how many pairs of its band it stands, and so how many rows the band was given.
    let mut table = Table::open(path)?;
    let columns = ["stratum", "stratum_pairs", "weight"].map(|name| table.column(&[name]));
    let mut given: BTreeMap<String, u64> = BTreeMap::new();
    if let [Some(band), Some(pairs), Some(weight)] = columns {
        let mut row = csv::StringRecord::new();
        while table.next(&mut row)?.is_some() {
            if let (Ok(pairs), Ok(weight)) = (row[pairs].parse::<f64>(), row[weight].parse::<f64>()) {
                given.insert(row[band].to_owned(), (pairs / weight).round() as u64);
            }
        }
    }
    let sum = |of: fn(&StratumJudgements) -> u64| strata.iter().map(of).sum::<u64>();
    inspection.fact("bands", strata.len());
    inspection.fact("pairs listed", sum(|band| band.pairs));
    inspection.fact("pairs in the sample", given.values().sum::<u64>());
    inspection.fact("judged right", sum(|band| band.right));
    inspection.fact("judged wrong", sum(|band| band.wrong));
    inspection.fact("not judged, or unknown", sum(|band| band.unknown));
    let unknown =
        "whether the result is the one that was judged: simflip evaluate RESULT --judged checks that";
    inspection.fact("not known", unknown);
    for band in &strata {
        let rows = band.right + band.wrong + band.unknown;
        if let Some(&sampled) = given.get(&band.name).filter(|&&sampled| sampled != rows) {
            let rows = counted(rows, "row", "rows");
            let (path, name) = (path.display(), &band.name);
            inspection.problem(format!("{path}: {rows} of the band {name:?}, and {sampled} were drawn"));
        }
    }
    Ok(inspection)
}

/// Precision of one band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StratumPrecision {
    /// The judgements of the band.
    pub judgements: StratumJudgements,
    /// right / (right + wrong); `None` without judgements.
    pub precision: Option<f64>,
    /// The interval of the precision, for the pairs of the band, made like that of [`PrecisionEstimate`]. Both ends are
    /// the precision where every pair was judged.
    pub interval: Option<Interval>,
}

/// The precision of a result, estimated from a judged sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrecisionEstimate {
    /// Pairs found, in all bands.
    pub pairs: u64,
    /// Pairs found in bands in which a pair was judged right or wrong: the estimate is about these.
    pub covered: u64,
    /// Σ over bands of (pairs of the band / covered) · (right / judged of the band); `None` without judgements.
    pub precision: Option<f64>,
    /// The interval of the precision, for the covered pairs.
    pub interval: Option<Interval>,
    /// The interval for all pairs: pairs of bands without a judgement may all be wrong or all be right.
    pub interval_of_all: Option<Interval>,
    /// Judgements that a simple random sample would have needed for an interval of this width. It is `None` without
    /// judgements, or if every covered pair was judged, which leaves no error of sampling.
    pub effective_judgements: Option<f64>,
    /// The precision of each band.
    pub strata: Vec<StratumPrecision>,
}

/// Wilson's interval at the number of trials that the sample is worth; without such a number, every pair was
/// judged, and there is no error of sampling.
fn interval(precision: f64, effective: Option<f64>) -> Option<Interval> {
    match effective {
        Some(n) => wilson(precision * n, n),
        None => Some(Interval { low: precision, high: precision }),
    }
}

/// Estimates the precision of a result from a judged sample (Cochran 1977, chapter 5).
///
/// With N_h pairs in band h, n_h of them judged, x_h right, W_h = N_h / Σ N_h: p = Σ W_h·x_h/n_h, which is the
/// Horvitz-Thompson estimate Σ right·(N_h/n_h) over N. Its variance is taken as v = Σ W_h²·(1 − n_h/N_h)·q_h(1 −
/// q_h)/n_h with q_h = (x_h + 1)/(n_h + 2). A band in which all judged pairs are right thus adds doubt, where the plain
/// estimate says none. The interval is Wilson's at q(1 − q)/v trials with q = Σ W_h·q_h. Smoothing and Wilson's
/// interval in place of the normal one are ours. Simulated with 90 judgements in three bands, it held the truth in 94 %
/// of draws at a precision of 0.65 and in 92 % at 0.99.
///
/// Unknown judgements count as not sampled; the estimate takes it that they are no more often wrong
/// than others of their band.
pub fn estimate_precision(judgements: &[StratumJudgements]) -> PrecisionEstimate {
    let judged = |s: &StratumJudgements| s.right + s.wrong;
    let pairs = judgements.iter().map(|s| s.pairs).sum::<u64>();
    let covered = judgements.iter().filter(|s| judged(s) > 0).map(|s| s.pairs).sum::<u64>();
    let (mut precision, mut smoothed, mut variance) = (0.0, 0.0, 0.0);
    for stratum in judgements.iter().filter(|s| judged(s) > 0 && s.pairs > 0) {
        let share = stratum.pairs as f64 / covered as f64;
        let (n, x) = (judged(stratum) as f64, stratum.right as f64);
        let q = (x + 1.0) / (n + 2.0);
        let unseen = (1.0 - n / stratum.pairs as f64).max(0.0);
        precision += share * x / n;
        smoothed += share * q;
        variance += share * share * unseen * q * (1.0 - q) / n;
    }
    let precision = (covered > 0).then_some(precision.clamp(0.0, 1.0));
    let effective = (variance > 0.0).then(|| smoothed * (1.0 - smoothed) / variance);
    let interval_of_covered = precision.and_then(|p| interval(p, effective));
    let known = if pairs == 0 { 0.0 } else { covered as f64 / pairs as f64 };
    PrecisionEstimate {
        pairs,
        covered,
        precision,
        interval: interval_of_covered,
        interval_of_all: interval_of_covered
            .map(|i| Interval { low: known * i.low, high: (known * i.high + (1.0 - known)).min(1.0) }),
        effective_judgements: effective,
        strata: judgements
            .iter()
            .map(|s| {
                let precision = (judged(s) > 0).then(|| s.right as f64 / judged(s) as f64);
                // q(1 − q) stands on either side of the fraction, so n / (1 − n/N) is left.
                let unseen = 1.0 - judged(s) as f64 / s.pairs as f64;
                let effective = (unseen > 0.0).then(|| judged(s) as f64 / unseen);
                let interval = precision.and_then(|p| interval(p, effective));
                StratumPrecision { judgements: s.clone(), precision, interval }
            })
            .collect(),
    }
}

impl fmt::Display for PrecisionEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An interval is of the error of sampling; where every pair was judged there is none.
        let figure =
            |value: Option<f64>, interval: Option<Interval>, judged: u64, pairs: u64| match (value, interval)
            {
                (Some(value), _) if judged == pairs => format!("{value:.4}  (every pair judged)"),
                (Some(value), Some(i)) => format!("{value:.4}  [{:.4}, {:.4}]", i.low, i.high),
                _ => "-".to_string(),
            };
        let judged: u64 = self.strata.iter().map(|s| s.judgements.right + s.judgements.wrong).sum();
        let precision = figure(self.precision, self.interval, judged, self.covered);
        writeln!(f, "precision {precision}, of {} listed", counted(self.covered, "pair", "pairs"))?;
        if let Some(Interval { low, high }) = self.interval_of_all.filter(|_| self.covered < self.pairs) {
            let pairs = self.pairs;
            writeln!(f, "of all {pairs} pairs, bands without a judgement too: [{low:.4}, {high:.4}]")?;
        }
        for s in &self.strata {
            let StratumJudgements { name, pairs, right, wrong, unknown } = &s.judgements;
            let (name, noun) = (printable(name), plural(*pairs, "pair", "pairs"));
            let precision = figure(s.precision, s.interval, right + wrong, *pairs);
            write!(f, "  {name:<24} {pairs:>10} {noun}; {right} right, {wrong} wrong, {unknown} unknown; ")?;
            writeln!(f, "{precision}")?;
        }
        if judged < self.covered {
            writeln!(
                f,
                "intervals: 95 % (z = {Z95:.2}), of the error of sampling; whether the judge was right is not in them"
            )?;
        } else if judged > 0 {
            let of = if self.covered < self.pairs { " of these bands" } else { "" };
            writeln!(f, "every pair{of} was judged, so that there is no error of sampling")?;
        }
        writeln!(f, "note: this is precision; a sample of found pairs says nothing about recall")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(n: u32) -> Vec<String> {
        (0..n).map(|i| format!("<urn:{i}>")).collect()
    }

    fn pair(i: u32, distance: u32) -> FoundPair {
        let similarity = Some(1.0 - f64::from(distance) / 8.0);
        FoundPair { a: Document(2 * i), b: Document(2 * i + 1), distance: Some(distance), similarity }
    }

    /// 1 pair at distance 0, 30 at 1, 300 at 2.
    fn population() -> Vec<FoundPair> {
        (0..331).map(|i| pair(i, if i == 0 { 0 } else { 1 + u32::from(i > 30) })).collect()
    }

    fn draw(pairs: &[FoundPair], size: usize, seed: u64) -> ReviewSample {
        ReviewSample::draw(pairs, &ids(2000), &Bands::Distance, size, seed).unwrap()
    }

    #[test]
    fn bands_share_the_sample() {
        let sample = draw(&population(), 91, 0);
        let strata: Vec<(&str, u64, u64)> =
            sample.strata.iter().map(|s| (&*s.name, s.pairs, s.sampled)).collect();
        assert_eq!(strata, [("distance 0", 1, 1), ("distance 1", 30, 30), ("distance 2", 300, 60)]);
        let total: f64 = sample.pairs.iter().map(|p| p.weight).sum();
        assert!((total - 331.0).abs() < 1e-9, "the weights add up to the population");
        assert_eq!(draw(&population(), 5000, 0).pairs.len(), 331);
        let cuts = Bands::Similarity(vec![0.8, 0.875]);
        let sample = ReviewSample::draw(&population(), &ids(2000), &cuts, 200, 0).unwrap();
        let names: Vec<(&str, u64)> = sample.strata.iter().map(|s| (&*s.name, s.pairs)).collect();
        assert_eq!(names, [("similarity < 0.8", 300), ("similarity >= 0.875", 31)]);
        let refused = |size, bands| ReviewSample::draw(&population(), &ids(2000), &bands, size, 0).is_err();
        assert!(refused(2, Bands::Distance) && !refused(3, Bands::Distance));
        assert!(refused(9, Bands::Similarity(vec![0.9, 0.8])));
        assert!(ReviewSample::draw(&population(), &ids(10), &Bands::Distance, 200, 0).is_err());
        assert!(draw(&[], 200, 0).pairs.is_empty());
    }

    #[test]
    fn the_draw_depends_on_the_pairs_and_the_seed_alone() {
        let first = draw(&population(), 30, 0);
        let mut turned = population();
        turned.reverse();
        assert_eq!(draw(&turned, 30, 0), first);
        assert_ne!(draw(&turned, 30, 1).pairs, first.pairs);
        let larger = draw(&turned, 60, 0);
        let within = |p: &SampledPair| larger.pairs.iter().any(|q| q.pair == p.pair);
        assert!(first.pairs.iter().all(within), "a larger sample holds the smaller one");
    }

    #[test]
    fn labels_come_back() {
        let sample = draw(&population(), 21, 0);
        let mut bytes = Vec::new();
        sample.write_csv(&ids(2000), Path::new("sample.csv"), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let labelled: String = text
            .lines()
            .enumerate()
            .map(|(i, line)| match i {
                0 => format!("{line}\n"),
                _ if line.contains("distance 1") => format!("{line}distinct\n"),
                1 => format!("{line}unknown\n"),
                _ => format!("{line}1\n"),
            })
            .collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(labelled.as_bytes()).unwrap();
        let judgements = read_judgements(file.path(), 1.0, None).unwrap();
        assert_eq!(
            judgements.iter().map(|s| (s.pairs, s.wrong)).collect::<Vec<_>>(),
            [(1, 0), (30, 10), (300, 0)]
        );
        assert_eq!(judgements.iter().map(|s| s.right + s.wrong + s.unknown).sum::<u64>(), 21);

        let line = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            match read_judgements(file.path(), 1.0, None) {
                Err(Error::Table { line, .. }) => line,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(line("stratum,label\n"), 1);
        assert_eq!(line("stratum,stratum_pairs,label\nx,5,1\nx,6,1\n"), 3);
        assert_eq!(line("stratum,stratum_pairs,label\nx,1,1\nx,1,1\n"), 3);
        assert_eq!(line("stratum,stratum_pairs,label\nx,1,yes\n"), 2);
    }

    #[test]
    fn judgements_of_another_result_are_refused() {
        let pairs = population();
        let listed = ListedPairs { ids: ids(2000), near: pairs.clone(), copies: Vec::new() };
        let sample = draw(&pairs, 21, 0);
        let file = tempfile::NamedTempFile::new().unwrap();
        sample.write_csv(&ids(2000), file.path(), file.as_file()).unwrap();
        let read = |listed: &ListedPairs| read_judgements(file.path(), 1.0, Some(listed));
        assert_eq!(read(&listed).unwrap().len(), 3);
        let more = ListedPairs { near: [&pairs[..], &[pair(900, 2)]].concat(), ..listed.clone() };
        assert!(read(&more).unwrap_err().to_string().contains("a sample of 331 pairs"));
        let others = ListedPairs { near: (400..731).map(|i| pair(i, 1)).collect(), ..listed };
        assert!(read(&others).unwrap_err().to_string().contains("line 2: the pair"));
    }

    fn judged(pairs: u64, right: u64, wrong: u64) -> StratumJudgements {
        StratumJudgements { name: String::new(), pairs, right, wrong, unknown: 0 }
    }

    #[test]
    fn estimates_by_hand() {
        let got = estimate_precision(&[judged(900, 9, 1), judged(100, 5, 5)]);
        assert!((got.precision.unwrap() - 0.86).abs() < 1e-12);
        let census = estimate_precision(&[judged(10, 9, 1)]);
        assert_eq!((census.precision, census.interval), (Some(0.9), Some(Interval { low: 0.9, high: 0.9 })));
        assert_eq!(census.strata[0].interval, census.interval, "one band is the whole");
        let text = census.to_string();
        assert!(
            text.contains("0.9000  (every pair judged), of 10 pairs listed") && !text.contains('['),
            "{text}"
        );
        assert!(text.contains("every pair was judged"), "{text}");
        let part = estimate_precision(&[judged(20, 9, 1)]);
        let (whole, band) = (part.interval.unwrap(), part.strata[0].interval.unwrap());
        assert!(whole.low < 0.9 && band.low < 0.9 && part.to_string().contains("intervals: 95 %"));
        let mixed = estimate_precision(&[judged(10, 9, 1), judged(100, 9, 1)]);
        assert_eq!(mixed.strata[0].interval, Some(Interval { low: 0.9, high: 0.9 }));
        let of_many = wilson(9.0, 10.0).unwrap();
        assert!(
            mixed.strata[1].interval.unwrap().low > of_many.low,
            "ten of a hundred say more than ten of endlessly many"
        );
        let sure = estimate_precision(&[judged(1000, 50, 0)]).interval.unwrap();
        assert!(sure.low < 0.97 && sure.high == 1.0, "50 of 50 right is no proof: {sure:?}");
        let half = estimate_precision(&[judged(100, 10, 0), judged(100, 0, 0)]);
        assert_eq!((half.covered, half.pairs, half.precision), (100, 200, Some(1.0)));
        assert!(half.interval_of_all.unwrap().low < 0.5 && half.interval_of_all.unwrap().high == 1.0);
        assert_eq!(estimate_precision(&[]).precision, None);
        assert_eq!(estimate_precision(&[judged(3, 0, 0)]).interval, None);
    }

    /// Draws and judges again and again: the mean of the estimates, and how often the
    /// interval holds the truth.
    fn simulate(right: [u32; 3], runs: u64) -> (f64, f64) {
        let sizes = [100, 300, 600];
        let mut population: Vec<(FoundPair, bool)> = Vec::new();
        for ((size, right), distance) in sizes.into_iter().zip(right).zip(1..) {
            let before = population.len() as u32;
            population.extend((0..size).map(|i| (pair(before + i, distance), i < right)));
        }
        let truth = f64::from(right.iter().sum::<u32>()) / 1000.0;
        let pairs: Vec<FoundPair> = population.iter().map(|p| p.0).collect();
        let names = ids(2000);
        let (mut sum, mut covers) = (0.0, 0);
        for seed in 0..runs {
            let sample = ReviewSample::draw(&pairs, &names, &Bands::Distance, 90, seed).unwrap();
            let mut strata: Vec<_> = sample.strata.iter().map(|s| judged(s.pairs, 0, 0)).collect();
            for sampled in &sample.pairs {
                let stratum = &mut strata[sampled.stratum];
                let right = population[sampled.pair.a.index() / 2].1;
                *(if right { &mut stratum.right } else { &mut stratum.wrong }) += 1;
            }
            let got = estimate_precision(&strata);
            let interval = got.interval.unwrap();
            sum += got.precision.unwrap() - truth;
            covers += u32::from(interval.low <= truth && truth <= interval.high);
        }
        (sum / runs as f64, f64::from(covers) / runs as f64)
    }

    #[test]
    fn estimate_is_unbiased_and_its_interval_covers() {
        // The standard error of the mean is near 0.003 for the first, below 0.002 for the others.
        for (right, bias) in [([97, 255, 300], 0.01), ([100, 298, 590], 0.005), ([100, 300, 600], 1e-12)] {
            let (error, covers) = simulate(right, 300);
            assert!(error.abs() < bias, "{right:?}: {error}");
            assert!(covers > 0.9, "{right:?}: {covers}");
        }
    }

    proptest! {
        #[test]
        fn shares_add_up(total in 0usize..200, sizes in prop::collection::vec(1usize..60, 1..8)) {
            let shares = allocate(total, &sizes);
            prop_assert_eq!(shares.iter().sum::<usize>(), total.min(sizes.iter().sum()));
            let most = shares.iter().max().unwrap();
            for (share, size) in shares.iter().zip(&sizes) {
                prop_assert!(share <= size && (share == size || share + 1 >= *most), "{:?}", shares);
            }
        }

        #[test]
        fn interval_holds_the_estimate(counts in prop::collection::vec((1u64..1000, 0u64..20, 0u64..20), 1..6)) {
            let strata: Vec<_> = counts.iter().map(|&(n, x, w)| judged(n + x + w, x, w)).collect();
            let got = estimate_precision(&strata);
            if let (Some(p), Some(i)) = (got.precision, got.interval) {
                prop_assert!(0.0 <= i.low && i.low <= p && p <= i.high && i.high <= 1.0);
                let all = got.interval_of_all.unwrap();
                prop_assert!(all.low <= i.low + 1e-12 && i.high <= all.high + 1e-12);
            }
        }
    }
}
