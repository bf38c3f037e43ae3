//! The second stage where the search is an exact join: every two pages whose SimHashes lie within a distance.
//!
//! First a list of the distinct hashes, ascending, each with its pages; pages of one hash are the pairs of pass 0.
//! Then for each pass of the join ([`Parted`]) as many of the pass's bins are joined at a time as memory holds; where
//! that takes many times, the list is dealt out to them beforehand ([`Dealt`]). At last the pairs of all passes are
//! judged, in order of their pages, by the sketches. Pages of one hash stand for each other as they do in memory
//! ([`Company::WITHIN`], [`Company::BETWEEN`]).

use super::join::{Gathered, Joiner, Records, Shape, source, there};
use super::record::{Edge, PAGE, page_bytes, page_of};
use super::sketch::Shard;
use super::sketches::Column;
use super::sorter::{Merge, Sorted, Sorter};
use super::{belongs_to, odd_length, told_bytes, workplace};
use crate::error::{Error, Result};
use crate::format::{self, Body, HASHES, NewBinary, PAIRS, wrong};
use crate::inspection::Inspection;
use flipside_core::company::{Company, Met};
use flipside_core::search::join::Parted;
use flipside_core::settings::{Net, Settings, Sketches};
use flipside_core::streamed::Bits;
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What stands in front of the list of distinct hashes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct HashesHeader {
    /// The sketches.
    sketches: String,
    settings: Settings,
    pages: u64,
    /// Pages whose hashes are joined.
    compared: u64,
    /// Bits in which hashes differ.
    varying: u64,
}

/// What stands in front of the pairs of a pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PairsHeader {
    /// The sketches.
    sketches: String,
    settings: Settings,
    pages: u64,
    /// 0 for pages of one hash.
    pass: usize,
    /// What the pass took, and what it left out. Judging is not in it.
    met: Met,
}

/// A pair of pages that is to be judged: later page 5, earlier page 5.
const PAIR: usize = 2 * PAGE;

fn pair_bytes(a: u64, b: u64) -> [u8; PAIR] {
    let mut bytes = [0; PAIR];
    bytes[..PAGE].copy_from_slice(&page_bytes(a.max(b)));
    bytes[PAGE..].copy_from_slice(&page_bytes(a.min(b)));
    bytes
}

/// The distance of an exact join with both sketches, if that is what the settings ask for.
pub(super) fn distance_of(settings: &Settings) -> Option<u32> {
    match (settings.sketches, settings.net) {
        (Sketches::Both { .. }, Net::Join { distance }) => Some(distance),
        _ => None,
    }
}

/// The judge of the stages, if there are any for these settings.
///
/// # Errors
/// For settings under which pages cannot be joined on disk.
pub(super) fn company_of(settings: &Settings) -> Result<Company> {
    Ok(match distance_of(settings) {
        Some(_) => Company::of_pairs(settings)?,
        None => Company::new(settings)?,
    })
}

/// Passes of a join within so many bits, that of equal hashes among them.
fn passes_of(distance: u32) -> usize {
    distance as usize + 2
}

/// Memory for each hash that is joined, besides its pages: hash 8, where its pages begin 4, and a parted copy
/// with slots 12.
pub(super) const HELD: u64 = 24;

/// Bytes of a hash in the list, if it has one page.
pub(super) const LISTED: f64 = 14.0;

impl Joiner<'_> {
    fn list_path(&self) -> PathBuf {
        self.folder.joined().join("distinct.hashes")
    }

    fn pairs_path(&self, pass: usize) -> PathBuf {
        self.folder.joined().join(format!("block-{pass:03}.pairs"))
    }

    /// Makes the pairs of a part of the passes; how many there are in the part, and how many were there before.
    pub(super) fn passes(&self, distance: u32, copies: &Bits, shard: Shard) -> Result<[u64; 2]> {
        if self.list()?.is_none() || self.pairs_there(0)?.is_none() {
            self.step("hashes", |advance| self.make_list(copies, advance))?;
        }
        let number = passes_of(distance);
        let [mut own, mut before] = [0; 2];
        for pass in (0..number).filter(|&pass| shard.has(pass)) {
            own += 1;
            if self.pairs_there(pass)?.is_some() {
                // Pairs of equal hashes come with the list.
                before += u64::from(pass > 0);
                continue;
            }
            self.step(&format!("join {pass}/{}", number - 1), |advance| {
                self.pass(pass, distance, self.budget.bytes / 2, advance)
            })?;
        }
        Ok([own, before])
    }

    /// Whether the pairs of all passes are there.
    pub(super) fn has_all_passes(&self, distance: u32) -> bool {
        (0..passes_of(distance)).all(|pass| fs::symlink_metadata(self.pairs_path(pass)).is_ok())
    }

    fn list(&self) -> Result<Option<(HashesHeader, Body)>> {
        let path = self.list_path();
        let Some((header, body)) = there::<HashesHeader>(&path, HASHES)? else { return Ok(None) };
        belongs_to(&path, header.sketches == self.folder.id && header.pages == self.folder.pages())?;
        Ok(Some((header, body)))
    }

    fn pairs_there(&self, pass: usize) -> Result<Option<(Body, Met)>> {
        let path = self.pairs_path(pass);
        let Some((header, body)) = there::<PairsHeader>(&path, PAIRS)? else { return Ok(None) };
        belongs_to(&path, header == self.pairs_header(pass, header.met))?;
        pairs_of(&body)?;
        Ok(Some((body, header.met)))
    }

    fn pairs_header(&self, pass: usize, met: Met) -> PairsHeader {
        let (sketches, settings) = (self.folder.id.clone(), self.folder.settings.clone());
        PairsHeader { sketches, settings, pages: self.folder.pages(), pass, met }
    }

    fn write_pairs(&self, pass: usize, pairs: Sorter, met: Met) -> Result<()> {
        let path = self.pairs_path(pass);
        let mut file = NewBinary::begin(&path, PAIRS, &self.pairs_header(pass, met))?;
        let mut pairs = pairs.finish()?;
        while let Some(pair) = pairs.next()? {
            file.write_all(pair).map_err(|error| Error::io(&path, error))?;
        }
        file.finish()
    }

    /// Whether a pair is asked for: one of its pages is new, or old ones are compared with each other.
    fn is_asked(&self, a: u64, b: u64) -> bool {
        a.max(b) >= self.folder.first_compared()
    }

    /// Lists the distinct hashes with their pages, those with the least digests first, and the pairs of pages of one
    /// hash.
    fn make_list(&self, copies: &Bits, advance: &dyn Fn(u64)) -> Result<()> {
        let path = self.list_path();
        let work = workplace(&path)?;
        let least = self.folder.settings.min_features.max(1);
        let mut sorter = Sorter::new(8 + 16 + PAGE, self.budget.bytes / 2, work.path(), "hashes");
        let (mut digests, mut features, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut compared, mut first, mut varying) = (0, None, 0);
        self.scan(advance, |columns, page, from, count| {
            columns.read(Column::Digests, from, count, &mut digests)?;
            columns.read(Column::Features, from, count, &mut features)?;
            columns.read(Column::Hashes, from, count, &mut hashes)?;
            let rows =
                super::join::longs(&hashes).zip(super::join::words(&features)).zip(digests.chunks_exact(16));
            for (page, ((hash, features), digest)) in (page..).zip(rows) {
                if (features as usize) < least || copies.get(page) {
                    continue;
                }
                compared += 1;
                varying |= hash ^ *first.get_or_insert(hash);
                let mut record = [0; 8 + 16 + PAGE];
                record[..8].copy_from_slice(&hash.to_be_bytes());
                record[8..24].iter_mut().zip(digest.iter().rev()).for_each(|(to, &from)| *to = from);
                record[24..].copy_from_slice(&page_bytes(page));
                sorter.push(&record)?;
            }
            Ok(())
        })?;
        let (sketches, settings) = (self.folder.id.clone(), self.folder.settings.clone());
        let header = HashesHeader { sketches, settings, pages: self.folder.pages(), compared, varying };
        let mut sorted = sorter.finish()?;
        let mut pairs = Sorter::new(PAIR, self.budget.bytes / 4, work.path(), "pairs");
        let mut file = NewBinary::begin(&path, HASHES, &header)?;
        let (mut hash, mut pages, mut number) = ([0; 8], Vec::new(), Number::default());
        let mut met = Met::default();
        let mut put = |file: &mut NewBinary, hash: [u8; 8], pages: &[u64], number: Number| {
            met.repeats += u64::from(number.all.saturating_sub(1));
            met.largest = met.largest.max(u64::from(number.all));
            met.distances.count(0, number.pairs());
            if let Some(record) = listed(u64::from_be_bytes(hash), pages, number) {
                file.write_all(&record).map_err(|error| Error::io(&path, error))?;
            }
            Ok::<(), Error>(())
        };
        let mut found = 0;
        while let Some(record) = sorted.next()? {
            let page = page_of(&record[24..]);
            if record[..8] != hash {
                put(&mut file, hash, &pages, number)?;
                pages.clear();
                number = Number::default();
                hash.copy_from_slice(&record[..8]);
            }
            for &other in pages.iter().filter(|&&other| self.is_asked(page, other)) {
                found += 1;
                pairs.push(&pair_bytes(page, other))?;
            }
            if pages.len() < Company::WITHIN {
                pages.push(page);
            }
            number.add(page < self.folder.first_compared());
        }
        put(&mut file, hash, &pages, number)?;
        met.skipped = met.distances.iter().map(|(_, pairs)| pairs).sum::<u64>() - found;
        self.write_pairs(0, pairs, met)?;
        file.finish()
    }

    /// Joins the hashes in a pass, as many bins at a time as so much memory holds.
    fn pass(&self, pass: usize, distance: u32, memory: u64, advance: &dyn Fn(u64)) -> Result<()> {
        let Some((header, body)) = self.list()? else {
            return Err(Error::io(self.list_path(), std::io::ErrorKind::NotFound.into()));
        };
        body.check()?;
        let parted = Parted::new(header.compared, header.varying, distance);
        let work = workplace(&self.pairs_path(pass))?;
        let mut pairs = Sorter::new(PAIR, self.budget.bytes / 4, work.path(), "pairs");
        // Where all are compared with all, one pass has them all.
        let pass_of_join = pass - 1;
        if pass_of_join >= parted.passes() {
            return self.write_pairs(pass, pairs, Met::default());
        }
        let bin_of = parted.bin(pass_of_join);
        // Hashes and pages of each bin.
        let mut counts = vec![[0u64; 2]; parted.bins(pass_of_join)];
        self.each_hash(&body, |hash, pages, _| {
            let [hashes, with_pages] = &mut counts[bin_of(hash)];
            *hashes += 1;
            *with_pages += pages.len() as u64;
            Ok(())
        })?;
        let sizes: Vec<u64> = counts.iter().map(|[hashes, pages]| HELD * hashes + 8 * pages).collect();
        let loads = loads(&sizes, memory)?;
        let dealt = match loads.len() > FEW_LOADS {
            true => Some(self.deal(&body, &loads, (&bin_of, counts.len()), work.path())?),
            false => None,
        };
        let most_pairs = MOST_PAIRS + header.compared * MOST_PAIRS_A_PAGE;
        let (mut found, mut met) = (0, Met::default());
        let advice = "as pages of one template do. Or take --search keys, or a smaller --distance (in stages, sketch again)";
        // One list for all, as long as the longest: to give back and to ask anew leaves gaps.
        let sums = loads
            .iter()
            .map(|bins| counts[bins.clone()].iter().fold([0, 0], |sum, of| [sum[0] + of[0], sum[1] + of[1]]));
        let most = sums.fold([0, 0], |most, sum| [most[0].max(sum[0]), most[1].max(sum[1])]);
        let mut load = Load::of(most.map(|most| most as usize));
        for (at, bins) in loads.iter().enumerate() {
            load.clear();
            match &dealt {
                Some(dealt) => {
                    let mut list = dealt.list(at, self.folder.pages())?;
                    while let Some((hash, pages, number)) = list.next()? {
                        load.add(hash, pages, number);
                    }
                }
                None => self.each_hash(&body, |hash, pages, number| {
                    if bins.contains(&bin_of(hash)) {
                        load.add(hash, pages, number);
                    }
                    Ok(())
                })?,
            }
            let mut put: Result<()> = Ok(());
            let joined = parted.join(pass_of_join, &load.hashes, memory / 32, |near| {
                if put.is_ok() {
                    put = near.iter().try_for_each(|pair| {
                        let slots = [pair.a, pair.b].map(|slot| slot.0 as usize);
                        let [first, second] = slots.map(|slot| load.pages_of(slot));
                        let [most_first, most_second] = Company::shares(first.len(), second.len());
                        let before = found;
                        for &a in &first[..most_first] {
                            for &b in second[..most_second].iter().filter(|&&b| self.is_asked(a, b)) {
                                found += 1;
                                pairs.push(&pair_bytes(a, b))?;
                            }
                        }
                        let [first, second] =
                            slots.map(|slot| load.number(slot, self.folder.first_compared()));
                        let asked = first.pairs_with(second);
                        met.distances.count(pair.distance, asked);
                        met.skipped += asked.saturating_sub(found - before);
                        Ok(())
                    });
                }
            });
            put?;
            if joined.is_none() {
                let more = told_bytes(self.memory + 3 * self.budget.bytes);
                let expected = format!(
                    "{more} or more: very many hashes lie within {distance} bits of each other, {advice}"
                );
                return Err(Error::parameter("memory", told_bytes(self.memory), expected));
            }
            if found > most_pairs {
                let expected = format!(
                    "keys: more than {most_pairs} pairs of pages lie within {distance} bits of each other, {advice}"
                );
                return Err(Error::parameter("search", "join", expected));
            }
            let share = |part: usize| self.folder.pages() * part as u64 / loads.len() as u64;
            advance(share(at + 1) - share(at));
        }
        self.write_pairs(pass, pairs, met)
    }

    /// Deals the list out to loads, each of which is some of the bins.
    fn deal(
        &self,
        body: &Body,
        loads: &[Range<usize>],
        (bin_of, bins): (impl Fn(u64) -> usize, usize),
        folder: &Path,
    ) -> Result<Dealt> {
        let mut load_of = vec![0; bins];
        (0..).zip(loads).for_each(|(load, bins)| load_of[bins.clone()].fill(load));
        let path = |load| folder.join(format!("load-{load}"));
        let mut dealt = Dealt((0..loads.len()).map(|load| (path(load), 0)).collect());
        // The loads themselves, which take more, come later.
        let room = (self.budget.bytes as usize / 4 / loads.len()).clamp(1 << 12, 1 << 18);
        let mut waiting: Vec<Vec<u8>> = loads.iter().map(|_| Vec::with_capacity(room)).collect();
        let mut list = HashList::open(body, self.folder.pages())?;
        while let Some((hash, ..)) = list.next()? {
            let load: usize = load_of[bin_of(hash)];
            let record = list.record();
            if waiting[load].len() + record.len() > room {
                dealt.append(load, &mut waiting[load])?;
            }
            waiting[load].extend_from_slice(record);
        }
        waiting.iter_mut().enumerate().try_for_each(|(load, waiting)| dealt.append(load, waiting))?;
        Ok(dealt)
    }

    /// Goes through the list: each hash, its first pages, and how many it has, if those are not all.
    fn each_hash(
        &self,
        body: &Body,
        mut each: impl FnMut(u64, &[u64], Option<Number>) -> Result<()>,
    ) -> Result<()> {
        let mut list = HashList::open(body, self.folder.pages())?;
        while let Some((hash, pages, number)) = list.next()? {
            each(hash, pages, number)?;
        }
        Ok(())
    }

    /// Judges the pairs of all passes: how many are near, and what it took.
    pub(super) fn judge(&self, path: &Path, advance: &dyn Fn(u64)) -> Result<(u64, Met)> {
        let Some(distance) = distance_of(&self.folder.settings) else { return Ok((0, Met::default())) };
        let work = workplace(path)?;
        let (mut sources, mut of_passes) = (Vec::new(), Met::default());
        for pass in 0..passes_of(distance) {
            let path = self.pairs_path(pass);
            let there = self.pairs_there(pass)?;
            let (body, met) = there.ok_or_else(|| Error::io(&path, std::io::ErrorKind::NotFound.into()))?;
            body.check()?;
            of_passes = of_passes.and(met);
            sources.push(source(&body)?);
        }
        let mut pairs = Merge::of(PAIR, sources)?;
        let shape = Shape { bands: 0, words: self.folder.files[0].layout.words, band: 0 };
        // Each pair by its earlier page, with the sketch of the later one.
        let mut halves = Sorter::new(PAGE + shape.width(), self.budget.bytes / 4, work.path(), "halves");
        let (mut gathered, mut record) = (Gathered::default(), Vec::new());
        let pages = self.folder.pages();
        let of = |pair: &[u8]| {
            super::join::in_range(path, page_of(pair), pages).map(|page| (page, page_of(&pair[PAGE..])))
        };
        let mut next = pairs.next()?.map(of).transpose()?;
        self.scan(&|_| (), |columns, page, from, count| {
            let end = page + count as u64;
            if next.is_some_and(|(later, _)| later < end) {
                gathered.read(columns, from, count, shape)?;
            }
            while let Some((later, earlier)) = next.filter(|&(later, _)| later < end) {
                record.clear();
                record.extend_from_slice(&page_bytes(earlier));
                record.extend_from_slice(gathered.record((later - page) as usize, later, shape));
                halves.push(&record)?;
                next = pairs.next()?.map(of).transpose()?;
            }
            Ok(())
        })?;
        drop(pairs);
        let mut halves = halves.finish()?;
        let mut near = Sorter::new(Edge::WIDTH, self.budget.bytes / 4, work.path(), "edges");
        let (mut met, mut number) = (Met::default(), 0);
        let mut batch = Batch { shape, ..Batch::default() };
        let most = (self.budget.bytes as usize / 16).clamp(1 << 16, 1 << 25);
        let mut flush = |batch: &mut Batch| -> Result<()> {
            for (found, part) in batch.judge(self.company) {
                met = met.and(part);
                found.iter().try_for_each(|edge| {
                    number += 1;
                    near.push(&edge.bytes())
                })?;
            }
            Ok(())
        };
        let mut next = taken(&mut halves, &mut record)?;
        self.scan(advance, |columns, page, from, count| {
            let end = page + count as u64;
            if next && page_of(&record) < end {
                gathered.read(columns, from, count, shape)?;
            }
            while next && page_of(&record) < end {
                let first = page_of(&record);
                if batch.bytes() >= most {
                    flush(&mut batch)?;
                    batch.clear();
                }
                batch.add(first, &record[PAGE..], || gathered.record((first - page) as usize, first, shape));
                next = taken(&mut halves, &mut record)?;
            }
            Ok(())
        })?;
        flush(&mut batch)?;
        drop(halves);
        let met = Met { compared: met.compared, refused: met.refused, ..of_passes };
        self.write_edges(path, Some(0), met, near.finish()?)?;
        Ok((number, met))
    }
}

/// Takes the next record, if there is one.
fn taken(sorted: &mut Sorted, record: &mut Vec<u8>) -> Result<bool> {
    let Some(next) = sorted.next()? else { return Ok(false) };
    record.clear();
    record.extend_from_slice(next);
    Ok(true)
}

/// Pairs of pages that may be found in a pass, for each page and besides: beyond, the pages are of templates, whose
/// pairs grow with the square of their number.
const MOST_PAIRS_A_PAGE: u64 = 32;
const MOST_PAIRS: u64 = 1 << 24;

/// Which bins are joined at a time, in so much memory.
fn loads(sizes: &[u64], memory: u64) -> Result<Vec<Range<usize>>> {
    let mut loads: Vec<Range<usize>> = Vec::new();
    let mut held = 0;
    for (bin, &size) in sizes.iter().enumerate() {
        if size > memory {
            // Of what a stage may take, half is given to this.
            let expected =
                format!("some {} more: so many hashes share a part", told_bytes(2 * (size - memory)));
            return Err(Error::parameter("memory", told_bytes(memory), expected));
        }
        match loads.last_mut() {
            Some(load) if held + size <= memory => {
                load.end = bin + 1;
                held += size;
            }
            _ => {
                loads.push(bin..bin + 1);
                held = size;
            }
        }
    }
    loads.retain(|load| sizes[load.clone()].iter().any(|&size| size > 0));
    Ok(loads)
}

/// The list is read again for each load, if they are no more than these: dealing it out is to read, write and read it.
pub(super) const FEW_LOADS: usize = 2;

/// The list of hashes dealt out to loads: for each a file of records as those of the list, and its length. Files are
/// open while they are written to or read alone, for there may be many.
struct Dealt(Vec<(PathBuf, u64)>);

impl Dealt {
    /// Puts records behind those of a load, and takes them away.
    fn append(&mut self, load: usize, records: &mut Vec<u8>) -> Result<()> {
        let (path, length) = &mut self.0[load];
        let file = File::options().create(true).append(true).open(&*path);
        file.and_then(|mut file| file.write_all(records)).map_err(|error| Error::io(&*path, error))?;
        *length += records.len() as u64;
        records.clear();
        Ok(())
    }

    fn list(&self, load: usize, all_pages: u64) -> Result<HashList> {
        let (path, length) = &self.0[load];
        let file = File::open(path).map_err(|error| Error::io(path, error))?;
        Ok(HashList::of((path.clone(), Box::new(file)), *length, all_pages))
    }
}

/// Hashes that are joined at a time, with their pages.
struct Load {
    hashes: Vec<u64>,
    /// Where the pages of each begin.
    starts: Vec<u32>,
    pages: Vec<u64>,
    /// Of those with more pages than these, how many they have.
    numbers: HashMap<usize, Number>,
}

impl Load {
    /// With room for so many hashes and pages, and no more.
    fn of([hashes, pages]: [usize; 2]) -> Self {
        let (of_hashes, starts) = (Vec::with_capacity(hashes), Vec::with_capacity(hashes));
        Self { hashes: of_hashes, starts, pages: Vec::with_capacity(pages), numbers: HashMap::new() }
    }

    fn clear(&mut self) {
        let Self { hashes, starts, pages, numbers } = self;
        hashes.clear();
        starts.clear();
        pages.clear();
        numbers.clear();
    }

    fn add(&mut self, hash: u64, pages: &[u64], number: Option<Number>) {
        if let Some(number) = number {
            self.numbers.insert(self.hashes.len(), number);
        }
        self.hashes.push(hash);
        self.starts.push(self.pages.len() as u32);
        self.pages.extend_from_slice(pages);
    }

    fn pages_of(&self, slot: usize) -> &[u64] {
        let end = self.starts.get(slot + 1).map_or(self.pages.len(), |&end| end as usize);
        &self.pages[self.starts[slot] as usize..end]
    }

    /// How many pages a hash has; those before `first_compared` are old.
    fn number(&self, slot: usize, first_compared: u64) -> Number {
        let count = || {
            let mut number = Number::default();
            self.pages_of(slot).iter().for_each(|&page| number.add(page < first_compared));
            number
        };
        self.numbers.get(&slot).copied().unwrap_or_else(count)
    }
}

/// How many pages a hash has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Number {
    all: u32,
    /// Those that are not compared with one another.
    old: u32,
}

impl Number {
    fn add(&mut self, is_old: bool) {
        self.all = self.all.saturating_add(1);
        self.old = self.old.saturating_add(u32::from(is_old));
    }

    /// Pairs of its pages.
    fn pairs(self) -> u64 {
        let of = |pages: u32| u64::from(pages) * u64::from(pages.saturating_sub(1)) / 2;
        of(self.all) - of(self.old)
    }

    /// Pairs of one of its pages and one of another hash.
    fn pairs_with(self, other: Self) -> u64 {
        let of = |a: u32, b: u32| u64::from(a) * u64::from(b);
        of(self.all, other.all) - of(self.old, other.old)
    }
}

/// A record of the list of hashes: hash 8, number of pages 1, pages 5 each. More pages than any comparison asks for are
/// left out: then that is [`MANY`], and how many there are 4 and how many of them are old 4 stand behind it. Without
/// any there is no record.
fn listed(hash: u64, pages: &[u64], number: Number) -> Option<Vec<u8>> {
    let mut bytes = hash.to_le_bytes().to_vec();
    let pages = match pages.get(..Company::BETWEEN) {
        Some(first) if number.all as usize > first.len() => {
            bytes.push(MANY);
            bytes.extend_from_slice(&number.all.to_le_bytes());
            bytes.extend_from_slice(&number.old.to_le_bytes());
            first
        }
        _ => {
            bytes.push(pages.len() as u8);
            pages
        }
    };
    pages.iter().for_each(|&page| bytes.extend_from_slice(&page_bytes(page)));
    (!pages.is_empty()).then_some(bytes)
}

/// Stands for a number of pages of which [`Company::BETWEEN`] are listed.
const MANY: u8 = Company::BETWEEN as u8 + 1;

/// A hash, its first pages, and how many it has, if those are not all.
type Listed<'a> = (u64, &'a [u64], Option<Number>);

/// The list of hashes while it is read.
struct HashList {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    /// Bytes of the body that are not in the buffer yet.
    left: u64,
    buffer: Vec<u8>,
    /// The bytes in the buffer of the record that was read last; what is left begins behind them.
    record: Range<usize>,
    all_pages: u64,
    last: Option<u64>,
    pages: Vec<u64>,
}

impl HashList {
    fn open(body: &Body, all_pages: u64) -> Result<Self> {
        Ok(Self::of(source(body)?, body.len(), all_pages))
    }

    /// A list of so many bytes.
    fn of((path, reader): (PathBuf, Box<dyn Read + Send>), left: u64, all_pages: u64) -> Self {
        Self {
            path,
            reader,
            left,
            buffer: Vec::new(),
            record: 0..0,
            all_pages,
            last: None,
            pages: Vec::new(),
        }
    }

    /// The record that was read last, as it stands in the list.
    fn record(&self) -> &[u8] {
        &self.buffer[self.record.clone()]
    }

    fn next(&mut self) -> Result<Option<Listed<'_>>> {
        const MOST: usize = 9 + 8 + PAGE * Company::BETWEEN;
        if self.buffer.len() - self.record.end < MOST && self.left > 0 {
            self.fill()?;
        }
        let at = self.record.end;
        let Some((head, rest)) = self.buffer[at..].split_at_checked(9) else {
            return match at == self.buffer.len() {
                true => Ok(None),
                false => Err(self.damaged()),
            };
        };
        let hash =
            u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]]);
        let (mut number, mut many, mut rest, mut used) = (usize::from(head[8]), None, rest, 9);
        if head[8] == MANY {
            let Some((numbers, behind)) = rest.split_at_checked(8) else { return Err(self.damaged()) };
            let [all, old] =
                [0, 4].map(|at| u32::from_le_bytes([at, at + 1, at + 2, at + 3].map(|at| numbers[at])));
            if all as usize <= Company::BETWEEN || old > all {
                return Err(self.damaged());
            }
            (number, many, rest, used) = (Company::BETWEEN, Some(Number { all, old }), behind, 17);
        }
        let pages = rest.get(..PAGE * number).filter(|_| (1..=Company::BETWEEN).contains(&number));
        let Some(pages) = pages.filter(|_| self.last.is_none_or(|last| last < hash)) else {
            return Err(self.damaged());
        };
        self.pages.clear();
        self.pages.extend(pages.chunks_exact(PAGE).map(page_of));
        self.record = at..at + used + PAGE * number;
        self.last = Some(hash);
        match self.pages.iter().all(|&page| page < self.all_pages) {
            true => Ok(Some((hash, &self.pages, many))),
            false => Err(self.damaged()),
        }
    }

    /// Reads more behind what is left of the buffer.
    fn fill(&mut self) -> Result<()> {
        const PIECE: u64 = 1 << 16;
        self.buffer.drain(..self.record.end);
        let (from, more) = (self.buffer.len(), self.left.min(PIECE));
        self.buffer.resize(from + more as usize, 0);
        self.reader.read_exact(&mut self.buffer[from..]).map_err(|error| Error::io(&self.path, error))?;
        (self.record, self.left) = (0..0, self.left - more);
        Ok(())
    }

    fn damaged(&self) -> Error {
        let (expected, got) = ("hashes with their pages, ascending", "something else".to_owned());
        wrong(&self.path, "the body", expected.to_owned(), got, "the file is damaged; make it again")
    }
}

/// Pages, each with others that it is to be compared with.
#[derive(Default)]
struct Batch {
    shape: Shape,
    /// The first pages, and where each one's others begin.
    firsts: Vec<u8>,
    pages: Vec<u64>,
    starts: Vec<usize>,
    others: Vec<u8>,
}

impl Batch {
    fn bytes(&self) -> usize {
        self.firsts.len() + self.others.len()
    }

    fn add<'r>(&mut self, first: u64, other: &[u8], record: impl FnOnce() -> &'r [u8]) {
        if self.pages.last() != Some(&first) {
            self.pages.push(first);
            self.starts.push(self.others.len());
            self.firsts.extend_from_slice(record());
        }
        self.others.extend_from_slice(other);
    }

    fn judge(&self, company: Company) -> Vec<(Vec<Edge>, Met)> {
        let ends = self.starts.iter().skip(1).copied().chain([self.others.len()]);
        let parts: Vec<(&[u8], &[u8])> = self
            .firsts
            .chunks_exact(self.shape.width())
            .zip(self.starts.iter().zip(ends))
            .map(|(first, (&start, end))| (first, &self.others[start..end]))
            .collect();
        let judge = |(first, others): (&[u8], &[u8])| {
            let [first, others] = [first, others].map(|records| Records::of(records, self.shape));
            let mut found = Vec::new();
            let first = first.companions(self.shape)[0];
            let met =
                company.compare(&first, &others.companions(self.shape), |near| found.push(Edge::from(near)));
            (found, met)
        };
        parts.into_par_iter().map(judge).collect()
    }

    fn clear(&mut self) {
        self.firsts.clear();
        self.pages.clear();
        self.starts.clear();
        self.others.clear();
    }
}

/// How many pairs a body holds.
fn pairs_of(body: &Body) -> Result<u64> {
    match body.len() % PAIR as u64 {
        0 => Ok(body.len() / PAIR as u64),
        _ => Err(odd_length(body.path(), PAIRS, body.len())),
    }
}

/// What [`inspect`](crate::inspect) tells of a list of hashes.
pub fn check_list(path: &Path) -> Result<Inspection> {
    let (header, body): (HashesHeader, Body) = format::open(path, HASHES)?;
    body.check()?;
    let mut list = HashList::open(&body, header.pages)?;
    let (mut hashes, mut varying, mut first) = (0u64, 0, None);
    while let Some((hash, ..)) = list.next()? {
        hashes += 1;
        varying |= hash ^ *first.get_or_insert(hash);
    }
    let mut inspection = Inspection::of(HASHES.name);
    inspection.fact("sketches", &header.sketches);
    inspection.fact("pages", header.pages);
    inspection.fact("compared", header.compared);
    inspection.fact("hashes", hashes);
    if varying != header.varying || hashes > header.compared {
        inspection.problem("these are not the hashes that were counted".to_owned());
    }
    Ok(inspection)
}

/// What [`inspect`](crate::inspect) tells of the pairs of a pass.
pub fn check_pairs(path: &Path) -> Result<Inspection> {
    let (header, body): (PairsHeader, Body) = format::open(path, PAIRS)?;
    body.check()?;
    let pairs = pairs_of(&body)?;
    let mut inspection = Inspection::of(PAIRS.name);
    inspection.fact("pass", header.pass);
    inspection.fact("sketches", &header.sketches);
    inspection.fact("pages", header.pages);
    inspection.fact("pairs", pairs);
    let mut reader = body.reader()?;
    let (mut before, mut record) = ([0; PAIR], [0; PAIR]);
    for at in 0..pairs {
        reader.fill(&mut record)?;
        let (later, earlier) = (page_of(&record), page_of(&record[PAGE..]));
        if earlier >= later || later >= header.pages || at > 0 && record <= before {
            inspection.problem(format!("pair {at} is none, or stands in the wrong place"));
            break;
        }
        before = record;
    }
    Ok(inspection)
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{SketchJob, sketch};
    use super::super::sketches::Folder;
    use super::*;
    use crate::corpus::{JsonlFields, ReadRules};
    use crate::pipeline::Silent;
    use flipside_core::hash::SplitMix64;

    /// What the passes write of some pages when so much is joined at a time.
    fn passes(sketches: &Path, distance: u32, memory: u64) -> Vec<Vec<u8>> {
        let folder = Folder::open(sketches).unwrap();
        let joiner = Joiner::new(&folder, 1 << 30, &Silent).unwrap();
        fs::create_dir_all(folder.joined()).unwrap();
        joiner.make_list(&Bits::new(folder.pages()), &|_| ()).unwrap();
        (1..passes_of(distance)).for_each(|pass| joiner.pass(pass, distance, memory, &|_| ()).unwrap());
        (0..passes_of(distance)).map(|pass| fs::read(joiner.pairs_path(pass)).unwrap()).collect()
    }

    #[test]
    fn a_list_that_memory_does_not_hold_is_joined_piece_by_piece() {
        let top = tempfile::tempdir().unwrap();
        let mut rng = SplitMix64::new(3);
        let mut word = |n: u64| format!("w{}", rng.below(n));
        let families: Vec<Vec<String>> = (0..900).map(|_| (0..40).map(|_| word(5000)).collect()).collect();
        let page = |at: usize| {
            let mut words = families[at % families.len()].clone();
            let changed = at % words.len();
            words[changed] = word(5000);
            serde_json::json!({"id": at, "text": words.join(" ")}).to_string() + "\n"
        };
        let input = top.path().join("pages.jsonl");
        fs::write(&input, (0..4000).map(page).collect::<String>()).unwrap();
        let distance = 9;
        let settings = Settings::default().with(|settings| settings.net = Net::Join { distance });
        let sketches = top.path().join("sketches");
        let job = SketchJob {
            inputs: vec![input],
            fields: JsonlFields::default(),
            longest_page: None,
            rules: ReadRules::default(),
            out: sketches.clone(),
            force: false,
            threads: 1,
            shard: Shard::default(),
            settings,
        };
        sketch(&job, &Silent).unwrap();
        let at_once = passes(&sketches, distance, 1 << 30);
        assert!(passes(&sketches, distance, 32 << 10) == at_once);

        // By its definition, from the list.
        let folder = Folder::open(&sketches).unwrap();
        let joiner = Joiner::new(&folder, 1 << 30, &Silent).unwrap();
        let mut pages = Vec::new();
        let (_, body) = joiner.list().unwrap().unwrap();
        let add = |hash, of: &[u64], _| {
            pages.extend(of.iter().map(|&page| (hash, page)));
            Ok(())
        };
        joiner.each_hash(&body, add).unwrap();
        let mut expected = 0;
        for (at, (hash, _)) in pages.iter().enumerate() {
            expected +=
                pages[..at].iter().filter(|(other, _)| (hash ^ other).count_ones() <= distance).count();
        }
        let found: u64 = (0..passes_of(distance))
            .map(|pass| pairs_of(&joiner.pairs_there(pass).unwrap().unwrap().0).unwrap())
            .sum();
        assert_eq!(found, expected as u64);
        assert!(found > 1000, "{found}");
        let told = joiner.pass(1, distance, 100, &|_| ()).unwrap_err().to_string();
        assert!(told.contains("more"), "{told}");
    }

    #[test]
    fn bins_are_taken_together_while_they_fit() {
        assert_eq!(loads(&[3, 4, 5, 0, 9, 0], 9).unwrap(), [0..2, 2..4, 4..6]);
        assert_eq!(loads(&[0, 0, 0], 9).unwrap(), [] as [Range<usize>; 0]);
        assert!(loads(&[3, 10], 9).is_err());
    }
}
