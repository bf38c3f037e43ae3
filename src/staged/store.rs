//! The sketches of a folder, as [`buckets`](simflip_core::buckets) joins them. Band hashes are read band by band. The
//! sketches of the documents that share some are held in memory, as many as it has room for.

use super::Budget;
use super::keep_order::Order;
use super::layout::{Column, longs, weights_of, words};
use super::sketches::{Columns, Folder};
use crate::error::{Error, Result};
use hashbrown::HashMap;
use simflip_core::bits::{Bits, Subset};
use simflip_core::buckets::{Assignments, Repeats, Rule, SketchSource, Sketched, Store};
use simflip_core::collection::Two;
use simflip_core::containment::{self, FeatureHashes, FeatureLists, Listed};
use simflip_core::id::{Id, Rank};
use simflip_core::recall_estimate::{
    Comparison, DocumentSampler, RecallEstimate, SampledText, TextSample, doubt, most_sampled, share_a_key,
};
use simflip_core::search::bphs::BlockKeys;
use simflip_core::settings::{Forms, Settings, Sketches as Kind, Verification};
use simflip_core::sketch::Hashed;
use std::cmp::Reverse;
use std::ops::Range;

/// Bytes of memory for each document that joining and clustering take in any case.
pub fn held(settings: &Settings) -> u64 {
    // Where containment decides, numbers of features as well.
    if settings.keeps_feature_hashes() { 44 } else { 40 }
}

/// Checks that a join on disk can work by these settings: it needs nothing of documents but files of sketches.
///
/// # Errors
/// [`Error::Core`] for settings without band hashes or keys of SimHashes, or that need features or document
/// frequencies.
pub fn can_be_joined(settings: &Settings) -> Result<()> {
    Rule::new(settings)?;
    let expected = match (settings.sketches, settings.verification) {
        (sketches, Verification::Estimate(_) | Verification::Containment(_))
            if sketches.keyed().is_some() =>
        {
            return Ok(());
        }
        (Kind::SimHash { .. }, Verification::None | Verification::Weights(_) | Verification::Mismatch(_)) => {
            if !settings.needs_frequencies() {
                return Ok(());
            }
            return Err(Error::parameter(
                "weighting",
                "tf-idf",
                "binary or tf: documents are counted in memory",
            ));
        }
        (Kind::SimHash { .. }, _) => "weights, mismatch or none: nothing else is kept of features",
        _ => "estimate or containment: nothing else is kept of features",
    };
    Err(Error::parameter("verify", settings.verification.name(), expected))
}

/// The exact duplicates of a folder. Of the documents of a text, the *best* is the first in keep order, and the others
/// are its *copies*. Only the best one is compared with other texts.
#[derive(Debug, Default)]
pub struct ExactDuplicates {
    /// Each copy, and the best document of its text, ascending.
    best: Vec<(Rank, Rank)>,
    /// Documents whose sketches are looked at under another rank than their own. Of copies without the boilerplate of
    /// different groups the one with the most features is compared, in the place of the best one, as in memory.
    swapped: HashMap<u64, Rank>,
}

impl ExactDuplicates {
    /// The exact duplicates of a folder, by digests of the texts. `advance` is called with numbers of documents.
    pub fn of(folder: &Folder, order: &Order, advance: &dyn Fn(u64)) -> Result<Self> {
        let digests = |bytes: &[u8]| -> Vec<[u64; 2]> {
            bytes
                .as_chunks::<16>()
                .0
                .iter()
                .map(|digest| {
                    let mut halves = longs(digest);
                    [halves.next().unwrap_or(0), halves.next().unwrap_or(0)]
                })
                .collect()
        };
        let mut repeats = Repeats::new(folder.documents() as usize);
        let mut bytes = Vec::new();
        folder.scan(|columns, _, from, count| {
            columns.read(Column::Digests, from, count, &mut bytes)?;
            digests(&bytes).iter().for_each(|digest| repeats.note(digest[0]));
            Ok(())
        })?;
        let is_parted = folder.files.iter().any(|file| file.layout.parted);
        let (mut texts, mut features) = (Vec::new(), Vec::new());
        folder.scan(|columns, document, from, count| {
            columns.read(Column::Digests, from, count, &mut bytes)?;
            match is_parted {
                true => columns.read(Column::Features, from, count, &mut features)?,
                false => features.resize(4 * count, 0),
            }
            for (document, (digest, features)) in
                (document..).zip(digests(&bytes).iter().zip(words(&features)))
            {
                if repeats.may_repeat(digest[0]) {
                    texts.push((*digest, order.rank(document), features));
                }
            }
            advance(count as u64);
            Ok(())
        })?;
        drop(repeats);
        texts.sort_unstable();
        let mut copies = Self::default();
        for of_text in texts.chunk_by(|a, b| a.0 == b.0) {
            let (_, best, _) = of_text[0];
            copies.best.extend(of_text[1..].iter().map(|&(_, copy, _)| (copy, best)));
            let by_features =
                |&&(_, rank, features): &&(_, Rank, u32)| (features, Reverse(order.document(rank)));
            let fullest = of_text.iter().max_by_key(by_features).map_or(best, |&(_, rank, _)| rank);
            if is_parted && fullest != best {
                copies.swapped.extend([(order.document(fullest), best), (order.document(best), fullest)]);
            }
        }
        copies.best.sort_unstable();
        Ok(copies)
    }

    /// The rank under which the sketches of a document are looked at.
    #[inline]
    fn rank(&self, document: u64, order: &Order) -> Rank {
        let swapped = if self.swapped.is_empty() { None } else { self.swapped.get(&document) };
        swapped.copied().unwrap_or_else(|| order.rank(document))
    }

    /// All copies, each with the best document of its text behind it.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, Rank)> {
        self.best.iter().copied()
    }

    /// The best document of the text of a copy; `None` for a document that is not a copy.
    pub fn best(&self, copy: Rank) -> Option<Rank> {
        self.best.binary_search_by_key(&copy, |&(copy, _)| copy).ok().map(|at| self.best[at].1)
    }

    /// All copies, each behind the best document of its text, ascending.
    pub fn by_text(&self) -> Vec<(Rank, Rank)> {
        let mut by_text: Vec<(Rank, Rank)> = self.iter().map(|(copy, best)| (best, copy)).collect();
        by_text.sort_unstable();
        by_text
    }

    /// The number of copies that are new documents, where the first `reference` ranks are reference documents.
    pub fn of_new(&self, reference: u32) -> u64 {
        (self.best.len() - self.best.partition_point(|&(copy, _)| copy.number() < reference)) as u64
    }
}

/// The sketches of a folder on disk, of which a join loads some at a time. It knows documents by their ranks.
pub struct SketchStore<'a> {
    folder: &'a Folder,
    order: &'a Order,
    /// Exact duplicates.
    copies: &'a ExactDuplicates,
    /// Where documents have SimHashes, their keys.
    blocks: Option<BlockKeys>,
    /// By rank: documents that are compared with others.
    compared: Bits,
    budget: u64,
}

impl<'a> SketchStore<'a> {
    /// The store of a folder whose exact duplicates are known.
    pub fn new(
        folder: &'a Folder,
        order: &'a Order,
        copies: &'a ExactDuplicates,
        budget: &Budget,
    ) -> Result<Self> {
        let mut compared = Bits::new(folder.documents());
        let least = folder.settings.min_features.max(1);
        let mut features = Vec::new();
        folder.scan(|columns, document, from, count| {
            columns.read(Column::Features, from, count, &mut features)?;
            for (document, features) in (document..).zip(words(&features)) {
                if features as usize >= least {
                    compared.set(u64::from(copies.rank(document, order).number()));
                }
            }
            Ok(())
        })?;
        copies.iter().for_each(|(copy, _)| compared.clear(u64::from(copy.number())));
        let blocks = folder.settings.block_tables().map(BlockKeys::new).transpose()?;
        Ok(Self { folder, order, copies, blocks, compared, budget: budget.bytes })
    }

    /// The rank under which the sketches of a document are looked at.
    #[inline]
    fn rank(&self, document: u64) -> Rank {
        self.copies.rank(document, self.order)
    }

    /// The number of documents that are compared with others: all but copies and those with too few features.
    pub fn compared(&self) -> u64 {
        self.compared.count()
    }

    /// Samples some of the documents that are compared and that `is_sampled` names. Gives them, and the number of
    /// documents that they are sampled from.
    fn sample(&self, is_sampled: &dyn Fn(Rank) -> bool) -> Result<(Vec<Rank>, u64)> {
        let (mut bytes, mut lengths) = (0, Vec::new());
        self.folder.scan(|columns, document, from, count| {
            columns.read(Column::Lengths, from, count, &mut lengths)?;
            for (document, length) in (document..).zip(words(&lengths)) {
                if self.compared.get(u64::from(self.rank(document).number())) {
                    bytes += u64::from(length);
                }
            }
            Ok(())
        })?;
        let (mut sampler, mut digests) = (
            DocumentSampler::new(self.folder.settings.seed, most_sampled(self.compared(), bytes)),
            Vec::new(),
        );
        self.folder.scan(|columns, document, from, count| {
            columns.read(Column::Digests, from, count, &mut digests)?;
            for (document, digest) in (document..).zip(digests.as_chunks::<16>().0) {
                let rank = self.rank(document);
                if self.compared.get(u64::from(rank.number())) && is_sampled(rank) {
                    sampler.add(rank, u128::from_le_bytes(*digest));
                }
            }
            Ok(())
        })?;
        Ok(sampler.finish())
    }

    /// Estimates the recall: some new documents are sampled, and compared with all others. The first `reference` ranks
    /// are those of reference documents. `None` for SimHashes, without a threshold, and if no document can be sampled.
    pub fn estimate(
        &self,
        rule: &Rule,
        assignments: &Assignments,
        reference: u32,
        advance: &dyn Fn(u64),
    ) -> Result<Option<RecallEstimate>> {
        // A SimHash has no bits to compare a sample by.
        let threshold = self.folder.settings.verification.threshold().filter(|_| self.blocks.is_none());
        let Some(threshold) = threshold else { return Ok(None) };
        let is_sampled = |rank: Rank| {
            rank.number() >= reference && (rule.contained().is_none() || assignments.is_kept(rank))
        };
        let (sampled, sampled_from) = self.sample(&is_sampled)?;
        if sampled.is_empty() {
            return Ok(None);
        }
        if let Some(threshold) = rule.contained() {
            return containment::estimate(self, threshold, assignments, &sampled, sampled_from).map(Some);
        }
        let mut ranks = Bits::new(self.folder.documents());
        sampled.iter().for_each(|rank| ranks.set(u64::from(rank.number())));
        let loaded = self.load(&ranks)?;
        let threshold = threshold as f32;
        let forms = self.folder.settings.sketches.forms();
        let doubt = doubt(threshold, self.folder.files[0].layout.words, forms);
        let is_missed = |sampled: &SampledText<'_>, other: &SampledText<'_>| {
            other.rank < sampled.rank && assignments.is_kept(sampled.rank) && assignments.is_kept(other.rank)
        };
        let by = Comparison { threshold, is_near: None, is_found: &share_a_key, is_missed: &is_missed };
        let (texts, others) =
            (sampled.iter().map(|&rank| loaded.shown(rank)), self.compared().saturating_sub(1));
        let mut sample = TextSample::new(texts.collect(), doubt).limited(others, by);
        let room = (self.room() as u64).clamp(1 << 12, 1 << 18);
        let mut from = 0;
        while from < self.folder.documents() {
            let end = self.folder.documents().min(from + room);
            let mut ranks = Bits::new(self.folder.documents());
            let all = (from..end).map(|document| u64::from(self.rank(document).number()));
            all.filter(|&rank| self.compared.get(rank)).for_each(|rank| ranks.set(rank));
            let loaded = self.load_of(&ranks, from..end)?;
            let mut others: Vec<SampledText<'_>> =
                ranks.iter().map(|rank| loaded.shown(Rank::new(rank as u32))).collect();
            let counted = sample.compare(&mut others, by);
            sample.add(counted);
            advance(end - from);
            from = end;
        }
        Ok(Some(sample.estimate([sampled_from, others], Some(threshold), Some(assignments.removed()))))
    }

    /// Loads the sketches of the documents with these ranks, all of whose numbers are in `documents`.
    fn load_of(&self, ranks: &Bits, documents: Range<u64>) -> Result<Loaded> {
        let layout = self.folder.files[0].layout;
        let (count, bands) = (ranks.count() as usize, self.bands());
        let (words_of, hashed) = match &self.blocks {
            Some(_) => (1, vec![Hashed { hash: 0, weights: weights_of(&[]) }; count]),
            None => (layout.words, Vec::new()),
        };
        let mut loaded = Loaded {
            subset: Subset::new(ranks.clone()),
            words: words_of,
            bands,
            forms: self.folder.settings.sketches.forms(),
            features: vec![0; count],
            hashes: vec![0; count],
            bits: vec![0; count * words_of],
            keys: vec![0; count * bands],
            hashed,
        };
        let (mut column, mut places) = (Vec::new(), Vec::new());
        self.folder.scan_of(documents, |columns, document, from, rows| {
            places.clear();
            places.extend((0..rows).filter_map(|row| {
                let rank = u64::from(self.rank(document + row as u64).number());
                ranks.get(rank).then(|| (row, loaded.subset.place(rank)))
            }));
            let Some((&(first, _), &(last, _))) = places.first().zip(places.last()) else { return Ok(()) };
            // From the first row that is asked for to the last.
            let (from, rows) = (from + first as u64, last - first + 1);
            columns.read(Column::Features, from, rows, &mut column)?;
            let numbers = column.as_chunks::<4>().0;
            places
                .iter()
                .for_each(|&(row, at)| loaded.features[at] = u32::from_le_bytes(numbers[row - first]));
            columns.read(Column::Hashes, from, rows, &mut column)?;
            let numbers = column.as_chunks::<8>().0;
            places.iter().for_each(|&(row, at)| loaded.hashes[at] = u64::from_le_bytes(numbers[row - first]));
            columns.read(Column::Bits, from, rows, &mut column)?;
            if let Some(blocks) = &self.blocks {
                for &(row, at) in &places {
                    let (hash, width) = (loaded.hashes[at], 8 * layout.words);
                    let weights = weights_of(&column[(row - first) * width..][..width]);
                    loaded.hashed[at] = Hashed { hash, weights };
                    loaded.bits[at] = hash;
                    let keys = &mut loaded.keys[at * bands..][..bands];
                    keys.iter_mut().zip(blocks.keys(hash)).for_each(|(to, key)| *to = key);
                }
                return Ok(());
            }
            for &(row, at) in &places {
                let bits = &column[(row - first) * 8 * words_of..][..8 * words_of];
                loaded.bits[at * words_of..][..words_of]
                    .iter_mut()
                    .zip(longs(bits))
                    .for_each(|(to, word)| *to = word);
            }
            for band in 0..layout.bands {
                columns.read(Column::Keys(band), from, rows, &mut column)?;
                let numbers = column.as_chunks::<4>().0;
                for &(row, at) in &places {
                    loaded.keys[at * layout.bands + band] = u32::from_le_bytes(numbers[row - first]);
                }
            }
            Ok(())
        })?;
        Ok(loaded)
    }
}

/// Sketches that are in memory, by the ranks of their documents.
pub struct Loaded {
    subset: Subset,
    words: usize,
    bands: usize,
    forms: Forms,
    features: Vec<u32>,
    hashes: Vec<u64>,
    bits: Vec<u64>,
    keys: Vec<u32>,
    /// SimHashes with the weights behind them, where there is nothing else.
    hashed: Vec<Hashed>,
}

impl Loaded {
    fn shown(&self, rank: Rank) -> SampledText<'_> {
        let features = self.features[self.subset.place(u64::from(rank.number()))];
        SampledText::new(rank, self.two(rank), self.forms, features)
    }
}

impl SketchSource for Loaded {
    type Shown<'s> = Sketched<'s>;

    fn compared(&self, rank: Rank) -> Sketched<'_> {
        let at = self.subset.place(u64::from(rank.number()));
        let (features, two, hashed) = (self.features[at], self.two(rank), self.hashed.get(at));
        Sketched { rank, features, two, forms: self.forms, hashed }
    }

    fn two(&self, rank: Rank) -> Two<'_> {
        let at = self.subset.place(u64::from(rank.number()));
        Two {
            hash: self.hashes[at],
            bits: &self.bits[at * self.words..][..self.words],
            keys: &self.keys[at * self.bands..][..self.bands],
            extra: &[],
        }
    }
}

impl Store for SketchStore<'_> {
    type Error = Error;
    type Loaded<'s>
        = Loaded
    where
        Self: 's;

    fn documents(&self) -> usize {
        self.folder.documents() as usize
    }

    fn bands(&self) -> usize {
        match &self.blocks {
            Some(blocks) => blocks.tables(),
            None => self.folder.files.first().map_or(0, |file| file.layout.bands),
        }
    }

    fn each_key(&self, band: usize, each: &mut dyn FnMut(Rank, u32)) -> Result<()> {
        let mut column = Vec::new();
        let mut each = |document: u64, key: u32| {
            let rank = self.rank(document);
            if self.compared.get(u64::from(rank.number())) {
                each(rank, key);
            }
        };
        self.folder.scan(|columns, document, from, count| {
            match &self.blocks {
                Some(blocks) => {
                    columns.read(Column::Hashes, from, count, &mut column)?;
                    let keys = longs(&column).map(|hash| blocks.key(hash, band));
                    (document..).zip(keys).for_each(|(document, key)| each(document, key));
                }
                None => {
                    columns.read(Column::Keys(band), from, count, &mut column)?;
                    (document..).zip(words(&column)).for_each(|(document, key)| each(document, key));
                }
            }
            Ok(())
        })
    }

    fn load(&self, ranks: &Bits) -> Result<Loaded> {
        self.load_of(ranks, 0..self.folder.documents())
    }

    fn room(&self) -> usize {
        let layout = self.folder.files[0].layout;
        let hashed = if self.blocks.is_some() { 16 } else { 0 };
        (self.budget / 2) as usize / (4 + 8 + 8 * layout.words + 4 * self.bands() + hashed)
    }

    fn bands_at_once(&self) -> usize {
        (self.budget / 4 / (8 * self.folder.documents().max(1))).clamp(1, 1 << 10) as usize
    }

    fn members_at_once(&self) -> usize {
        (self.budget / 8 / 8) as usize
    }
}

/// Hashes of the features of documents, in memory, by the ranks of the documents.
pub struct HeldLists {
    subset: Subset,
    /// Where the hashes of each document begin and end, and its SimHash.
    places: Vec<(usize, usize, u64)>,
    hashes: Vec<u32>,
}

impl FeatureHashes for HeldLists {
    fn list(&self, rank: Rank) -> &[u32] {
        let (from, to, _) = self.places[self.subset.place(u64::from(rank.number()))];
        &self.hashes[from..to]
    }

    fn hash(&self, rank: Rank) -> u64 {
        self.places[self.subset.place(u64::from(rank.number()))].2
    }
}

impl SketchStore<'_> {
    /// Calls `each` with the compared documents that `is_wanted` names, in pieces of one file. It gets the columns of
    /// the file and the place of the piece there. Of each document it gets the rank, where its hashes begin and end
    /// among those of the file, and its place in the piece.
    fn scan_lists(
        &self,
        is_wanted: &dyn Fn(Rank) -> bool,
        mut each: impl FnMut(&mut Columns, u64, &[(Rank, u64, u64, usize)]) -> Result<()>,
    ) -> Result<()> {
        let (mut sizes, mut at, mut wanted) = (Vec::new(), 0, Vec::new());
        self.folder.scan(|columns, document, from, count| {
            if from == 0 {
                at = 0;
            }
            columns.read(Column::Features, from, count, &mut sizes)?;
            wanted.clear();
            for (row, size) in words(&sizes).enumerate() {
                let (rank, begin) = (self.rank(document + row as u64), at);
                at += u64::from(size);
                if self.compared.get(u64::from(rank.number())) && is_wanted(rank) {
                    wanted.push((rank, begin, at, row));
                }
            }
            each(columns, from, &wanted)
        })
    }
}

impl FeatureLists for SketchStore<'_> {
    type Error = Error;
    type Held<'s>
        = HeldLists
    where
        Self: 's;

    fn ranks(&self) -> usize {
        self.folder.documents() as usize
    }

    fn each_list(&self, each: &mut dyn FnMut(&[Listed<'_>])) -> Result<()> {
        /// Hashes that are read at once, unless one document has more.
        const AT_ONCE: u64 = 1 << 20;
        let mut hashes = Vec::new();
        self.scan_lists(&|_| true, |columns, _, wanted| {
            let mut rest = wanted;
            while let Some(&(_, begin, first_end, _)) = rest.first() {
                let number = rest.partition_point(|&(_, _, end, _)| end <= (begin + AT_ONCE).max(first_end));
                let (some, others) = rest.split_at(number);
                rest = others;
                let end = some.last().map_or(begin, |&(_, _, end, _)| end);
                columns.read_hashes(begin..end, &mut hashes)?;
                let list = |&(rank, from, to, _): &(Rank, u64, u64, usize)| {
                    (rank, &hashes[(from - begin) as usize..(to - begin) as usize])
                };
                each(&some.iter().map(list).collect::<Vec<_>>());
            }
            Ok(())
        })
    }

    fn lists(&self, ranks: &Bits) -> Result<HeldLists> {
        let subset = Subset::new(ranks.clone());
        let mut held =
            HeldLists { places: vec![(0, 0, 0); ranks.count() as usize], subset, hashes: Vec::new() };
        let (mut list, mut column) = (Vec::new(), Vec::new());
        self.scan_lists(&|rank| ranks.get(u64::from(rank.number())), |columns, first_row, wanted| {
            let Some((&(.., first), &(.., last))) = wanted.first().zip(wanted.last()) else { return Ok(()) };
            columns.read(Column::Hashes, first_row + first as u64, last - first + 1, &mut column)?;
            for &(rank, from, to, row) in wanted {
                columns.read_hashes(from..to, &mut list)?;
                let hash = u64::from_le_bytes(column.as_chunks().0[row - first]);
                let (from, place) = (held.hashes.len(), held.subset.place(u64::from(rank.number())));
                held.hashes.extend_from_slice(&list);
                held.places[place] = (from, held.hashes.len(), hash);
            }
            Ok(())
        })?;
        Ok(held)
    }

    fn hashes_at_once(&self) -> usize {
        (self.budget / 8 / 4) as usize
    }
}
