//! The second stage: near pairs and copies, band by band of keys, each band sorted on disk.
//!
//! First the digests of all texts: a page whose text stands in an earlier page is a copy, and only first copies
//! are compared. Then for each band which pages have company: others that share the key. At last, for each band,
//! the sketches of these pages, sorted so that those of a key lie together, and within a key as a crowd is
//! compared: what is near is written down by its later page. Memory holds these sketches for as many bands at a
//! time as it has room for; where it has none for those of a single band, they are sorted on disk.

use super::held::{Held, OfBand};
use super::record::{Edge, PAGE, page_bytes, page_of};
use super::sketch::Shard;
use super::sketches::{Column, Columns, Folder};
use super::sorter::{Merge, Sorted, Sorter};
use super::{Budget, belongs_to, exact, odd_length, workplace};
use crate::error::{Error, Result};
use crate::format::{self, Body, EDGES, Kind, NewBinary, wrong};
use crate::inspection::Inspection;
use crate::making::{Unfinished, sweep};
use crate::pipeline::{Progress, with_threads};
use crate::resources::memory_share;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use simflip_core::audit::Audit;
use simflip_core::collection::Two;
use simflip_core::company::{Companion, Company, Met};
use simflip_core::internal::memory::untouched;
use simflip_core::settings::{Judge, Settings};
use simflip_core::sketch::Facts;
use simflip_core::streamed::Bits;
use std::fs;
use std::io::{BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What is to be joined.
#[derive(Clone, Debug)]
pub struct JoinJob {
    /// The folder of sketches.
    pub sketches: PathBuf,
    /// Folders of the sketches of old pages, with the same settings: what these hold goes from the new ones, and they
    /// stay. All stages from `join` on are given the same ones.
    pub against: Vec<PathBuf>,
    /// Bytes of memory that are not exceeded; `None` for a share of what the machine has.
    pub memory: Option<u64>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// The part of the bands that is joined.
    pub shard: Shard,
}

/// What the stage came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// Pages of all sketches, old ones left out.
    pub pages: u64,
    /// Old pages.
    pub old: u64,
    /// New pages whose text stands in an earlier page, or in an old one.
    pub copies: u64,
    /// Whether all hashes were joined within a distance, in passes instead of bands.
    pub exact: bool,
    /// Bands of this part, or passes.
    pub bands: u64,
    /// Of these, those that were joined already.
    pub there: u64,
    /// Near pairs that they brought up; a pair may be in several.
    pub pairs: u64,
    /// What that took, and what was left out.
    pub met: Met,
    /// How much of what the judge calls near was found, by drawn pages; none before all bands are joined.
    pub audit: Option<Audit>,
    /// The judge that was asked.
    pub judge: Judge,
}

impl Joined {
    /// Adds a band.
    fn add(&mut self, (pairs, met): (u64, Met)) {
        self.bands += 1;
        self.pairs += pairs;
        self.met = self.met.and(met);
    }
}

/// What stands in front of a file of edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct EdgesHeader {
    /// The sketches.
    sketches: String,
    settings: Settings,
    pages: u64,
    /// None for copies of texts.
    band: Option<usize>,
    met: Met,
}

/// The files that follow from a folder of sketches.
pub struct Places {
    folder: PathBuf,
    /// Whether the search is an exact join.
    exact: bool,
}

impl Places {
    /// Those of sketches.
    pub fn of(folder: &Folder) -> Self {
        Self { folder: folder.joined(), exact: exact::distance_of(&folder.settings).is_some() }
    }

    fn copies(&self) -> PathBuf {
        self.folder.join("copies.edges")
    }

    pub(super) fn company(&self, band: usize) -> PathBuf {
        self.folder.join(format!("band-{band:03}.company"))
    }

    fn edges(&self, band: usize) -> PathBuf {
        if self.exact {
            return self.folder.join("near.edges");
        }
        self.folder.join(format!("band-{band:03}.edges"))
    }
}

/// Files of near pairs that a folder comes to: one for each band of keys, or one for an exact join.
pub(super) fn bands_of(folder: &Folder) -> usize {
    match exact::distance_of(&folder.settings) {
        Some(_) => 1,
        None => folder.files.first().map_or(0, |file| file.layout.bands),
    }
}

/// Bytes that bits of all pages take.
pub(super) fn bits_bytes(pages: u64) -> u64 {
    pages.div_ceil(64) * 8
}

/// Finds the near pairs and the copies of all pages whose sketches are in a folder; passes over what is there
/// already.
///
/// # Errors
/// If a file of sketches is damaged, or they are of different settings; if the memory is too little for so many
/// pages; or if a file cannot be written. What was finished before stays.
pub fn join(job: &JoinJob, progress: &dyn Progress) -> Result<Joined> {
    let folder = Folder::open_against(&job.sketches, &job.against)?;
    let memory = job.memory.unwrap_or_else(memory_share);
    with_threads(job.threads, || join_folder(&folder, memory, job.shard, progress))?
}

/// The same of a folder that is open, on the threads of the pool that it is called in.
///
/// # Errors
/// As [`join`].
pub(super) fn join_folder(
    folder: &Folder,
    memory: u64,
    shard: Shard,
    progress: &dyn Progress,
) -> Result<Joined> {
    Joiner::new(folder, memory, progress)?.run(shard)
}

pub(super) struct Joiner<'a> {
    pub(super) folder: &'a Folder,
    pub(super) company: Company,
    pub(super) budget: Budget,
    pub(super) places: Places,
    /// How many pairs of so many hashes an exact join lists before crowds are thinned.
    pub(super) most_pairs: fn(u64) -> u64,
    progress: &'a dyn Progress,
}

impl<'a> Joiner<'a> {
    pub(super) fn new(folder: &'a Folder, memory: u64, progress: &'a dyn Progress) -> Result<Self> {
        let company = exact::company_of(&folder.settings)?;
        let budget = Budget::beside(memory, 2 * bits_bytes(folder.pages()) + folder.files_bytes())?;
        let most_pairs = simflip_core::search::crowds::most_pairs;
        Ok(Self { folder, company, budget, places: Places::of(folder), most_pairs, progress })
    }
}

impl Joiner<'_> {
    fn run(&self, shard: Shard) -> Result<Joined> {
        self.step("check sketches", |advance| {
            let check = |file: &super::sketches::SketchFile| {
                file.check()?;
                advance(file.header.pages);
                Ok(())
            };
            self.folder.files.par_iter().try_for_each(check)
        })?;
        let place = &self.places.folder;
        fs::create_dir_all(place).map_err(|error| Error::io(place, error))?;
        sweep(place);
        let path = self.places.copies();
        if self.edges_there(&path, None)?.is_none() {
            self.step("copies", |advance| self.copies(&path, advance))?;
        }
        let (copies, number) = self.read_copies(&path)?;
        let bands = bands_of(self.folder);
        if let Some(distance) = exact::distance_of(&self.folder.settings) {
            return self.run_exactly(distance, &copies, number, shard);
        }
        self.all_company(&copies)?;
        let mut joined = self.begun(number);
        let crowded = (0..bands).map(|band| self.read_crowded(band)).collect::<Result<Vec<_>>>()?;
        let mut missing = Vec::new();
        for band in (0..bands).filter(|&band| shard.has(band)) {
            match self.edges_there(&self.places.edges(band), Some(band))? {
                Some(there) => joined.add(there),
                None => missing.push(band),
            }
        }
        joined.there = joined.bands;
        while !missing.is_empty() {
            for (band, made) in self.join_some(&missing, &crowded)? {
                joined.add(made);
                missing.retain(|&other| other != band);
            }
        }
        let missing = (0..bands).find(|&band| fs::symlink_metadata(self.places.edges(band)).is_err());
        if missing.is_none() {
            joined.audit = self.audit(&copies)?;
        }
        Ok(joined)
    }

    /// What has come of it when nothing is joined yet.
    fn begun(&self, copies: u64) -> Joined {
        Joined {
            pages: self.folder.pages() - self.folder.first_new(),
            old: self.folder.first_new(),
            copies,
            exact: self.places.exact,
            bands: 0,
            there: 0,
            pairs: 0,
            met: Met::default(),
            audit: None,
            judge: self.folder.settings.judge,
        }
    }

    /// Joins all hashes within a distance, and judges what that brings up once all passes are there.
    fn run_exactly(&self, distance: u32, copies: &Bits, number: u64, shard: Shard) -> Result<Joined> {
        let (mut joined, path) = (self.begun(number), self.places.edges(0));
        let there = self.edges_there(&path, Some(0))?;
        [joined.bands, joined.there] = match there {
            Some(_) => self.passes_there(shard),
            None => self.passes(distance, copies, shard)?,
        };
        let made = match there {
            None => self
                .all_passes(distance)?
                .map(|passes| self.step("judge", |advance| self.judge(&path, passes, advance)))
                .transpose()?,
            there => there,
        };
        if let Some((pairs, met)) = made {
            (joined.pairs, joined.met) = (pairs, met);
            joined.audit = self.audit(copies)?;
        }
        Ok(joined)
    }

    /// Works through all pages.
    pub(super) fn step<R>(
        &self,
        name: &str,
        work: impl FnOnce(&(dyn Fn(u64) + Sync)) -> Result<R>,
    ) -> Result<R> {
        self.step_of(name, self.folder.pages(), work)
    }

    /// Works through all pages once for each of some bands, of which there is at least one.
    pub(super) fn step_of_bands<R>(
        &self,
        name: &str,
        bands: &[usize],
        work: impl FnOnce(&(dyn Fn(u64) + Sync)) -> Result<R>,
    ) -> Result<R> {
        self.step_of(&self.told(name, bands), self.folder.pages() * bands.len() as u64, work)
    }

    /// A step's name, and for which bands it is.
    fn told(&self, name: &str, bands: &[usize]) -> String {
        let numbers = match bands {
            [first, .., last] if last - first + 1 == bands.len() => format!("{}-{}", first + 1, last + 1),
            _ => bands.iter().map(|band| (band + 1).to_string()).collect::<Vec<_>>().join(","),
        };
        format!("{name} {numbers}/{}", bands_of(self.folder))
    }

    pub(super) fn step_of<R>(
        &self,
        name: &str,
        pages: u64,
        work: impl FnOnce(&(dyn Fn(u64) + Sync)) -> Result<R>,
    ) -> Result<R> {
        self.progress.begin(name, pages, "pages");
        let done = work(&|pages| self.progress.advance(pages));
        self.progress.end();
        done
    }

    /// Hands over the columns of all files in pieces: the number of the first page, its place in the file, and
    /// how many there are.
    pub(super) fn scan(
        &self,
        advance: &dyn Fn(u64),
        each: impl FnMut(&mut Columns, u64, u64, usize) -> Result<()>,
    ) -> Result<()> {
        self.folder.scan(advance, each)
    }

    fn copies(&self, path: &Path, advance: &dyn Fn(u64)) -> Result<()> {
        let work = workplace(path)?;
        let mut texts = Sorter::new(16 + PAGE, self.budget.bytes / 2, work.path(), "texts");
        // What tells most of what comes once from what comes again, before anything is sorted; none where the memory is
        // too little for it.
        let (mut digests, mut repeats) =
            (Vec::new(), Repeats::new(self.folder.pages(), self.budget.bytes / 4));
        if let Some(repeats) = &mut repeats {
            self.scan(&|_| (), |columns, _, from, count| {
                columns.read(Column::Digests, from, count, &mut digests)?;
                digests.chunks_exact(16).flat_map(|digest| longs(&digest[..8])).for_each(|n| repeats.note(n));
                Ok(())
            })?;
        }
        self.scan(advance, |columns, page, from, count| {
            columns.read(Column::Digests, from, count, &mut digests)?;
            let digests = digests.as_chunks::<16>().0;
            let numbers = |at: Range<usize>| digests[at].iter().flat_map(|digest| longs(&digest[..8]));
            each_that_may_repeat(repeats.as_ref(), count, numbers, |at| {
                let mut record = [0; 16 + PAGE];
                record[..16].copy_from_slice(&digests[at]);
                record[16..].copy_from_slice(&page_bytes(page + at as u64));
                texts.push(&record)
            })
        })?;
        let mut edges = Sorter::new(Edge::WIDTH, self.budget.bytes / 4, work.path(), "edges");
        let mut first = None;
        drop(repeats);
        let mut texts = texts.finish()?;
        while let Some(record) = texts.next()? {
            let (mut digest, page) = ([0; 16], page_of(&record[16..]));
            digest.copy_from_slice(&record[..16]);
            match first {
                Some((text, first)) if text == digest => {
                    edges.push(&Edge::copy(page, first).bytes())?;
                }
                _ => first = Some((digest, page)),
            }
        }
        drop(texts);
        self.write_edges(path, None, Met::default(), edges.finish()?)
    }

    fn header(&self, band: Option<usize>, met: Met) -> EdgesHeader {
        EdgesHeader {
            sketches: self.folder.id.clone(),
            settings: self.folder.settings.clone(),
            pages: self.folder.pages(),
            band,
            met,
        }
    }

    pub(super) fn write_edges(
        &self,
        path: &Path,
        band: Option<usize>,
        met: Met,
        mut edges: Sorted,
    ) -> Result<()> {
        let header = self.header(band, met);
        let mut file = NewBinary::begin(path, EDGES, &header)?;
        while let Some(edge) = edges.next()? {
            file.write_all(edge).map_err(|error| Error::io(path, error))?;
        }
        file.finish()
    }

    /// A file of edges that is there already: how many they are, and what they took.
    fn edges_there(&self, path: &Path, band: Option<usize>) -> Result<Option<(u64, Met)>> {
        let Some((header, body)) = there::<EdgesHeader>(path, EDGES)? else { return Ok(None) };
        belongs_to(path, header == self.header(band, header.met))?;
        Ok(Some((edges_of(&body)?, header.met)))
    }

    /// Which pages are copies, and how many of them are new.
    fn read_copies(&self, path: &Path) -> Result<(Bits, u64)> {
        let (_, body): (EdgesHeader, Body) = format::open(path, EDGES)?;
        body.check()?;
        edges_of(&body)?;
        let (mut copies, mut number) = (Bits::new(self.folder.pages()), 0);
        let mut edges = Merge::of(Edge::WIDTH, vec![source(&body)?])?;
        while let Some(edge) = edges.next()? {
            let copy = in_range(path, Edge::of(edge).later, self.folder.pages())?;
            copies.set(copy);
            number += u64::from(copy >= self.folder.first_new());
        }
        Ok((copies, number))
    }

    /// The shape of records for a band.
    pub(super) fn shape(&self, band: usize) -> Shape {
        let layout = self.folder.files[0].layout;
        Shape { bands: layout.bands, words: layout.words, band }
    }

    /// Chooses bands that memory holds all sketches of together, the first of these and those that have most pages in
    /// common with it; none if not even those of the first.
    fn holdable(&self, bands: &[usize]) -> Result<Together> {
        let (pages, threads) = (self.folder.pages(), rayon::current_num_threads() as u64);
        let bits = bits_bytes(pages);
        let beside = bits + Held::read_bytes(pages, threads, self.shape(0));
        let room = self.budget.for_sketches().saturating_sub(beside);
        let (mut together, mut left, mut most) =
            (Together { bands: Vec::new(), pages: Bits::new(pages), at_once: 1 }, bands.to_vec(), 0);
        while !left.is_empty() {
            let with = |(at, &band): (usize, &usize)| {
                let [own, all] = self.count_company(band, &together.pages)?;
                Ok((all, at, own))
            };
            let asked = if together.bands.is_empty() { &left[..1] } else { &left[..] };
            let found = asked.par_iter().enumerate().map(with).collect::<Result<Vec<_>>>()?;
            let Some(&(all, at, own)) = found.iter().min() else { break };
            most = own.max(most);
            // What each band takes besides; an eighth of the room is for those at once.
            let each = Held::order_bytes(most) + bits;
            let at_once = (room / 8 / each.max(1)).clamp(1, threads);
            if all > Held::MOST || Held::bytes(all, self.shape(0)) + at_once * each > room {
                break;
            }
            let band = left.remove(at);
            together.pages.add(&self.read_company(band)?);
            together.bands.push(band);
            together.at_once = at_once as usize;
        }
        together.bands.sort_unstable();
        Ok(together)
    }

    /// Joins some of these bands, as many as can be joined together, and tells what each has come to.
    fn join_some(&self, bands: &[usize], crowded: &[Vec<u32>]) -> Result<Vec<(usize, (u64, Met))>> {
        let Together { bands: chosen, pages, at_once } = self.holdable(bands)?;
        if chosen.is_empty() {
            drop(pages);
            let band = bands[0];
            return self.step_of_bands("join", &bands[..1], |advance| {
                let work = workplace(&self.places.edges(band))?;
                let records = InOrder::Sorted(self.sorted_records(band, work.path(), advance)?);
                Ok(vec![(band, self.edges(band, crowded, records, work, self.budget.bytes / 4)?)])
            });
        }
        let held = self.step(&self.told("sketches", &chosen), |advance| {
            Held::read(self.folder, pages, self.shape(0), advance)
        })?;
        let mut made = Vec::new();
        for some in chosen.chunks(at_once) {
            let of_band = |advance: &(dyn Fn(u64) + Sync), band: usize| {
                let work = workplace(&self.places.edges(band))?;
                let records = InOrder::Held(held.of_band(band, &self.read_company(band)?));
                let made =
                    self.edges(band, crowded, records, work, self.budget.bytes / 16 / at_once as u64)?;
                advance(self.folder.pages());
                Ok((band, made))
            };
            made.extend(self.step_of_bands("join", some, |advance| {
                some.par_iter().map(|&band| of_band(advance, band)).collect::<Result<Vec<_>>>()
            })?);
        }
        Ok(made)
    }

    /// The records of the pages that have company in a band, sorted on disk as far as memory does not hold them.
    pub(super) fn sorted_records(&self, band: usize, work: &Path, advance: &dyn Fn(u64)) -> Result<Sorted> {
        let (company, shape) = (self.read_company(band)?, self.shape(band));
        let mut sketches =
            Sorter::new(shape.width(), self.budget.bytes / 2, work, "sketches").of_at_most(company.count());
        let mut gathered = Gathered::default();
        self.scan(advance, |columns, page, from, count| {
            let pages = page..page + count as u64;
            if !pages.clone().any(|page| company.get(page)) {
                return Ok(());
            }
            gathered.read(columns, from, count, shape)?;
            for (at, page) in pages.enumerate().filter(|&(_, page)| company.get(page)) {
                sketches.push(gathered.record(at, page, shape))?;
            }
            Ok(())
        })?;
        drop((company, gathered));
        sketches.finish()
    }

    /// Judges the groups of a band's records, and writes down what is near.
    fn edges(
        &self,
        band: usize,
        crowded: &[Vec<u32>],
        mut records: InOrder<'_>,
        work: Unfinished,
        memory: u64,
    ) -> Result<(u64, Met)> {
        let shape = self.shape(band);
        let mut near = Sorter::new(Edge::WIDTH, memory, work.path(), "edges");
        let (mut met, mut number) = (Met::default(), 0);
        let is_crowded = |band: usize, key: u32| crowded[band].binary_search(&key).is_ok();
        let mut batch = Batch::new(shape, memory / 2);
        let mut put = |found: &[u8], part: Met| {
            met = met.and(part);
            let is_asked = |edge: &&[u8]| page_of(edge) >= self.folder.first_compared();
            found.chunks_exact(Edge::WIDTH).filter(is_asked).try_for_each(|edge| {
                number += 1;
                near.push(edge)
            })
        };
        let judge = |batch: &mut Batch, put: &mut dyn FnMut(&[u8], Met) -> Result<()>| -> Result<()> {
            let judged = batch.judge(|group, met, found| {
                let add = |near| found.extend_from_slice(&Edge::from(near).bytes());
                self.company.meet(band, group, is_crowded, met, add);
            });
            judged.into_iter().try_for_each(|(found, part)| put(&found, part))?;
            batch.clear();
            Ok(())
        };
        let mut throng: Option<Throng> = None;
        while let Some(record) = records.next()? {
            if let Some(large) = throng.take_if(|large| !large.has_key_of(record)) {
                large.judge(self.company, is_crowded, &mut put)?;
            }
            if let Some(large) = &mut throng {
                large.push(record)?;
                continue;
            }
            match batch.room_for(record) {
                Room::Free => {}
                Room::Full => judge(&mut batch, &mut put)?,
                Room::GroupTooLarge => {
                    let mut large = Throng::create(work.path().join("throng"), shape)?;
                    batch
                        .take_last()
                        .chunks_exact(shape.width())
                        .try_for_each(|before| large.push(before))?;
                    large.push(record)?;
                    throng = Some(large);
                    continue;
                }
            }
            batch.add(record);
        }
        if let Some(large) = throng {
            large.judge(self.company, is_crowded, &mut put)?;
        }
        judge(&mut batch, &mut put)?;
        drop(records);
        // A band brings a pair up once.
        self.write_edges(&self.places.edges(band), Some(band), met, near.finish()?)?;
        Ok((number, met))
    }
}

/// Bands whose sketches memory holds together.
struct Together {
    bands: Vec<usize>,
    /// The pages with company in any of them.
    pages: Bits,
    /// How many of the bands may be joined at once.
    at_once: usize,
}

/// The records of a band, in order.
enum InOrder<'a> {
    /// Memory holds them for several bands.
    Held(OfBand<'a>),
    /// They were sorted for the band.
    Sorted(Sorted),
}

impl InOrder<'_> {
    fn next(&mut self) -> Result<Option<&[u8]>> {
        match self {
            Self::Held(records) => Ok(records.next()),
            Self::Sorted(records) => records.next(),
        }
    }
}

/// Which numbers may come again: for each remainder a bit that says that it came, and beside it one that says that it
/// came again.
#[derive(Default)]
pub(super) struct Repeats {
    words: Vec<u64>,
    mask: u64,
}

impl Repeats {
    /// For so many numbers, in so many bytes; none if nearly all would look as if they came again.
    fn new(numbers: u64, memory: u64) -> Option<Self> {
        let most = 1 << (memory * 4).checked_ilog2()?;
        let remainders = Self::remainders(numbers).min(most);
        let words = || untouched(remainders.div_ceil(Self::EACH) as usize);
        (remainders >= 2 * numbers).then(|| Self { words: words(), mask: remainders - 1 })
    }

    /// How many take nearly each of so many numbers to be what it is.
    fn remainders(numbers: u64) -> u64 {
        numbers.saturating_mul(16).next_power_of_two()
    }

    /// Begins anew for so many numbers, each below the limit, which is a power of two.
    pub(super) fn begin(&mut self, numbers: u64, limit: u64) {
        let remainders = Self::remainders(numbers).min(limit);
        self.words.clear();
        self.words.resize(remainders.div_ceil(Self::EACH) as usize, 0);
        self.mask = remainders - 1;
    }

    /// Remainders of a word.
    const EACH: u64 = u64::BITS as u64 / 2;

    /// The word of a number, and the first of its bits there.
    fn place(&self, number: u64) -> (usize, u64) {
        let at = number & self.mask;
        ((at / Self::EACH) as usize, at % Self::EACH * 2)
    }

    // Without a branch, so that several words are on their way from memory at a time.
    pub(super) fn note(&mut self, number: u64) {
        let (at, bit) = self.place(number);
        let came = self.words[at] >> bit & 1;
        self.words[at] |= (1 | came << 1) << bit;
    }

    pub(super) fn may_repeat(&self, number: u64) -> bool {
        let (at, bit) = self.place(number);
        self.words[at] >> bit & 2 != 0
    }
}

/// Hands over the places of the numbers that may come again, as far as is known, of so many; `numbers` gives those of
/// some places.
fn each_that_may_repeat<N: Iterator<Item = u64>>(
    repeats: Option<&Repeats>,
    count: usize,
    numbers: impl Fn(Range<usize>) -> N,
    mut each: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let Some(repeats) = repeats else { return (0..count).try_for_each(each) };
    for from in (0..count).step_by(u64::BITS as usize) {
        // All are asked before any is handed over: words on their way from memory do not wait for each other.
        let asked = numbers(from..count.min(from + u64::BITS as usize));
        let mut found =
            asked.zip(0..).fold(0, |found, (n, at)| found | u64::from(repeats.may_repeat(n)) << at);
        while found != 0 {
            each(from + found.trailing_zeros() as usize)?;
            found &= found - 1;
        }
    }
    Ok(())
}

/// Little-endian words.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// Little-endian words of eight bytes.
pub(super) fn longs(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word))
}

/// The one that some bytes begin with.
pub(super) fn long(bytes: &[u8]) -> u64 {
    longs(bytes).next().unwrap_or_default()
}

/// The number at a place of a column of numbers of `N` bytes, the highest byte first.
fn turned<const N: usize>(column: &[u8], at: usize) -> [u8; N] {
    let mut number = column.as_chunks::<N>().0[at];
    number.reverse();
    number
}

/// How a page's sketches are written to be sorted: first what they are sorted by, as
/// [`Companion`]s of a key are compared, then the rest.
///
/// The band's key; the keys behind it; the bits, the low half of each word first; the keys before it; digest;
/// page; number of features; hash.
#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    pub(super) bands: usize,
    pub(super) words: usize,
    pub(super) band: usize,
}

impl Shape {
    pub(super) fn width(self) -> usize {
        4 * self.bands + 8 * self.words + 16 + PAGE + 4 + 8
    }

    /// The bands in the order in which their keys stand, and where the bits stand among them.
    fn behind(self) -> usize {
        self.bands - self.band
    }

    /// Bytes of all that stands before the digest, which is the sketch.
    fn sketch(self) -> usize {
        4 * self.bands + 8 * self.words
    }

    /// The parts of a page's record for the first band, in the order in which they stand in that of this one.
    pub(super) fn turned(self, first: &[u8]) -> [&[u8]; 3] {
        let (sketch, rest) = first.split_at(self.sketch());
        let (before, behind) = sketch.split_at(4 * self.band);
        [behind, before, rest]
    }
}

/// The columns of some pages.
#[derive(Default)]
pub(super) struct Gathered {
    digests: Vec<u8>,
    features: Vec<u8>,
    hashes: Vec<u8>,
    bits: Vec<u8>,
    keys: Vec<Vec<u8>>,
    record: Vec<u8>,
}

impl Gathered {
    pub(super) fn read(
        &mut self,
        columns: &mut Columns,
        from: u64,
        count: usize,
        shape: Shape,
    ) -> Result<()> {
        columns.read(Column::Digests, from, count, &mut self.digests)?;
        columns.read(Column::Features, from, count, &mut self.features)?;
        columns.read(Column::Hashes, from, count, &mut self.hashes)?;
        columns.read(Column::Bits, from, count, &mut self.bits)?;
        self.keys.resize(shape.bands, Vec::new());
        for (band, keys) in self.keys.iter_mut().enumerate() {
            columns.read(Column::Keys(band), from, count, keys)?;
        }
        Ok(())
    }

    /// The number of features of a page.
    pub(super) fn features(&self, at: usize) -> u32 {
        words(&self.features[4 * at..]).next().unwrap_or(0)
    }

    pub(super) fn record(&mut self, at: usize, page: u64, shape: Shape) -> &[u8] {
        let mut record = std::mem::take(&mut self.record);
        record.resize(shape.width(), 0);
        self.write(at, page, shape, &mut record);
        self.record = record;
        &self.record
    }

    /// Writes a record over as many bytes.
    pub(super) fn write(&self, at: usize, page: u64, shape: Shape, record: &mut [u8]) {
        let Self { digests, features, hashes, bits, keys, .. } = self;
        let (halves, rest) = record.split_at_mut(shape.sketch());
        let halves = halves.as_chunks_mut().0;
        let (behind, others) = halves.split_at_mut(shape.behind());
        let (of_bits, before) = others.split_at_mut(2 * shape.words);
        for (half, keys) in
            behind.iter_mut().chain(before).zip(keys[shape.band..].iter().chain(&keys[..shape.band]))
        {
            *half = turned::<4>(keys, at);
        }
        let bits = &bits.as_chunks::<4>().0[2 * shape.words * at..];
        for (half, of_column) in of_bits.iter_mut().zip(bits) {
            *half = *of_column;
            half.reverse();
        }
        let (digest, rest) = rest.split_at_mut(16);
        let (number, rest) = rest.split_at_mut(PAGE);
        let (of_features, hash) = rest.split_at_mut(4);
        digest.copy_from_slice(&turned::<16>(digests, at));
        number.copy_from_slice(&page_bytes(page));
        of_features.copy_from_slice(&turned::<4>(features, at));
        hash.copy_from_slice(&turned::<8>(hashes, at));
    }
}

/// Some groups of a list of bytes, judged together: most have two or three pages.
pub(super) struct Portion<'a> {
    /// The number of the first group.
    pub(super) first: usize,
    /// Where each begins.
    pub(super) starts: &'a [usize],
    /// Where the last one ends.
    end: usize,
}

impl Portion<'_> {
    /// Where all of them stand.
    pub(super) fn whole(&self) -> Range<usize> {
        self.starts[0]..self.end
    }

    /// How long each is.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        let ends = self.starts[1..].iter().chain([&self.end]);
        self.starts.iter().zip(ends).map(|(start, end)| end - start)
    }
}

/// The groups that begin at these places of a list of so many bytes.
pub(super) fn portions(starts: &[usize], bytes: usize) -> impl IndexedParallelIterator<Item = Portion<'_>> {
    const GROUPS: usize = 128;
    starts.par_chunks(GROUPS).enumerate().map(move |(nth, of)| {
        let first = nth * GROUPS;
        Portion { first, starts: of, end: starts.get(first + GROUPS).map_or(bytes, |&start| start) }
    })
}

/// Groups of records, each of one key.
struct Batch {
    shape: Shape,
    records: Vec<u8>,
    /// Where each group begins.
    starts: Vec<usize>,
    /// Bytes of one group, at most.
    most: usize,
}

impl Batch {
    /// Bytes of records that are judged together, at least: groups enough for all threads, and what a cache still
    /// holds when they are.
    const FULL: usize = 1 << 22;

    fn new(shape: Shape, memory: u64) -> Self {
        // Companions take as much again.
        let most = (memory as usize / 2).clamp(1 << 16, 1 << 26);
        Self { shape, records: Vec::new(), starts: Vec::new(), most }
    }

    fn is_next_of_group(&self, record: &[u8]) -> bool {
        let width = self.shape.width();
        self.records.len() >= width && self.records[self.records.len() - width..][..4] == record[..4]
    }

    /// Whether there is room for a record.
    fn room_for(&self, record: &[u8]) -> Room {
        let last = self.starts.last().map_or(0, |&start| self.records.len() - start);
        match self.is_next_of_group(record) {
            true if last >= self.most => Room::GroupTooLarge,
            false if self.records.len() >= self.most.min(Self::FULL) => Room::Full,
            _ => Room::Free,
        }
    }

    /// Takes the last group out.
    fn take_last(&mut self) -> Vec<u8> {
        self.starts.pop().map_or_else(Vec::new, |start| self.records.split_off(start))
    }

    fn add(&mut self, record: &[u8]) {
        if !self.is_next_of_group(record) {
            self.starts.push(self.records.len());
        }
        self.records.extend_from_slice(record);
    }

    /// Judges each group: the edges that are found, in the order of groups, and what it took, of so many groups at a
    /// time.
    fn judge(
        &self,
        judge: impl Fn(&mut [Companion<'_>], &mut Met, &mut Vec<u8>) + Sync,
    ) -> Vec<(Vec<u8>, Met)> {
        let of_some = |groups: Portion<'_>| {
            let records = Records::of(&self.records[groups.whole()], self.shape);
            let mut pages = records.companions(self.shape);
            let (mut met, mut found, mut rest) = (Met::default(), Vec::new(), &mut pages[..]);
            for group in groups.lengths() {
                let (group, behind) = rest.split_at_mut(group / self.shape.width());
                judge(group, &mut met, &mut found);
                rest = behind;
            }
            (found, met)
        };
        portions(&self.starts, self.records.len()).map(of_some).collect()
    }

    fn clear(&mut self) {
        self.records.clear();
        self.starts.clear();
    }
}

/// Whether a batch has room.
enum Room {
    /// It has.
    Free,
    /// Not for one more group.
    Full,
    /// Not for one more page of its last group.
    GroupTooLarge,
}

/// A group that is too large for memory, on disk until its sketches are counted.
pub(super) struct Throng {
    path: PathBuf,
    file: BufWriter<fs::File>,
    shape: Shape,
    last: Vec<u8>,
    pages: u64,
    sketches: u64,
}

impl Throng {
    pub(super) fn create(path: PathBuf, shape: Shape) -> Result<Self> {
        let file = fs::File::create(&path).map_err(|error| Error::io(&path, error))?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { path, file, shape, last: Vec::new(), pages: 0, sketches: 0 })
    }

    /// Where its records are, in the order in which they came, also while they are judged.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn has_key_of(&self, record: &[u8]) -> bool {
        self.last.starts_with(&record[..4])
    }

    pub(super) fn push(&mut self, record: &[u8]) -> Result<()> {
        let sketch = &record[..self.shape.sketch()];
        self.sketches += u64::from(!self.last.starts_with(sketch));
        self.pages += 1;
        self.last.clear();
        self.last.extend_from_slice(record);
        self.file.write_all(record).map_err(|error| Error::io(&self.path, error))
    }

    pub(super) fn judge(
        mut self,
        company: Company,
        is_crowded: impl Fn(usize, u32) -> bool,
        put: &mut dyn FnMut(&[u8], Met) -> Result<()>,
    ) -> Result<()> {
        /// Bytes of pairs that are handed on at once.
        const MOST: usize = 1 << 18;
        let io = |error| Error::io(&self.path, error);
        self.file.flush().map_err(io)?;
        let file = fs::File::open(&self.path).map_err(io)?;
        let mut file = BufReader::with_capacity(1 << 18, file);
        let mut meeting = company.meeting(self.shape.band, self.sketches, is_crowded);
        let (mut record, mut found) = (vec![0; self.shape.width()], Vec::new());
        for _ in 0..self.pages {
            file.read_exact(&mut record).map_err(io)?;
            let records = Records::of(&record, self.shape);
            let page = &records.companions(self.shape)[0];
            meeting.add(page, |near| found.extend_from_slice(&Edge::from(near).bytes()));
            if found.len() > MOST {
                put(&found, Met::default())?;
                found.clear();
            }
        }
        let met = meeting.end(|near| found.extend_from_slice(&Edge::from(near).bytes()));
        put(&found, met)
    }
}

/// The records of a group, read.
pub(super) struct Records {
    pages: Vec<(u64, Facts, u64)>,
    keys: Vec<u32>,
    bits: Vec<u64>,
}

impl Records {
    pub(super) fn of(group: &[u8], shape: Shape) -> Self {
        let n = group.len() / shape.width();
        let mut records = Self {
            pages: Vec::with_capacity(n),
            keys: Vec::with_capacity(n * shape.bands),
            bits: Vec::with_capacity(n * shape.words),
        };
        for record in group.chunks_exact(shape.width()) {
            let (behind, rest) = record.split_at(4 * shape.behind());
            let (bits, rest) = rest.split_at(8 * shape.words);
            let (before, rest) = rest.split_at(4 * shape.band);
            let (digest, rest) = rest.split_at(16);
            let (page, rest) = rest.split_at(PAGE);
            let (features, hash) = rest.split_at(4);
            for keys in [before, behind] {
                records.keys.extend(keys.as_chunks().0.iter().map(|&key| u32::from_be_bytes(key)));
            }
            let words = bits.as_chunks().0.iter().map(|&word| u64::from_be_bytes(word).rotate_left(32));
            records.bits.extend(words);
            let digest = digest.first_chunk().map_or(0, |&digest| u128::from_be_bytes(digest));
            let features = features.first_chunk().map_or(0, |&features| u32::from_be_bytes(features));
            let hash = hash.first_chunk().map_or(0, |&hash| u64::from_be_bytes(hash));
            records.pages.push((page_of(page), Facts { digest, text_bytes: 0, features }, hash));
        }
        records
    }

    pub(super) fn companions(&self, shape: Shape) -> Vec<Companion<'_>> {
        let companion = |((at, &(page, facts, hash)), bits)| {
            let keys = &self.keys[at * shape.bands..][..shape.bands];
            Companion { page, facts, two: Two { hash, bits, keys } }
        };
        self.pages.iter().enumerate().zip(self.bits.chunks_exact(shape.words)).map(companion).collect()
    }
}

/// Opens a file of a kind, if there is one.
pub(super) fn there<H: serde::de::DeserializeOwned>(path: &Path, kind: Kind) -> Result<Option<(H, Body)>> {
    match fs::symlink_metadata(path) {
        Ok(_) => format::open(path, kind).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

pub(super) fn gone(path: &Path) -> Error {
    Error::io(path, std::io::ErrorKind::NotFound.into())
}

/// A page's number, if there is such a page.
pub fn in_range(path: &Path, page: u64, pages: u64) -> Result<u64> {
    if page < pages {
        return Ok(page);
    }
    let (expected, got) = (format!("below {pages}"), page.to_string());
    Err(wrong(path, "a page's number", expected, got, "the file is damaged; make it again"))
}

/// A body as a source of records.
pub fn source(body: &Body) -> Result<(PathBuf, Box<dyn Read + Send>)> {
    let reader = BufReader::with_capacity(1 << 16, body.reader()?);
    Ok((body.path().to_path_buf(), Box::new(reader)))
}

/// How many edges a body holds.
fn edges_of(body: &Body) -> Result<u64> {
    match body.len() % Edge::WIDTH as u64 {
        0 => Ok(body.len() / Edge::WIDTH as u64),
        _ => Err(odd_length(body.path(), EDGES, body.len())),
    }
}

/// All edges of a folder whose bands are joined, copies included, checked; and their number, pairs of several
/// bands several times.
///
/// # Errors
/// If a band is not joined yet, or a file is damaged.
pub fn all_edges(folder: &Folder) -> Result<(Vec<Body>, u64)> {
    let places = Places::of(folder);
    let bands = bands_of(folder);
    let paths = std::iter::once(places.copies()).chain((0..bands).map(|band| places.edges(band)));
    let (mut bodies, mut number) = (Vec::new(), 0);
    for (path, band) in paths.zip(std::iter::once(None).chain((0..bands).map(Some))) {
        let Some((header, body)) = there::<EdgesHeader>(&path, EDGES)? else {
            let told = format!(
                "{}: simflip join has not made it yet; it makes what is missing. What was joined with --against needs it here, too",
                path.display()
            );
            return Err(Error::Missing(told));
        };
        let is_of = header.sketches == folder.id && header.band == band && header.pages == folder.pages();
        belongs_to(&path, is_of)?;
        body.check()?;
        number += edges_of(&body)?;
        bodies.push(body);
    }
    Ok((bodies, number))
}

/// Whether all edges of a folder are there.
pub(super) fn is_joined(folder: &Folder) -> bool {
    let places = Places::of(folder);
    let mut paths =
        (0..bands_of(folder)).map(|band| places.edges(band)).chain(std::iter::once(places.copies()));
    paths.all(|path| fs::symlink_metadata(path).is_ok())
}

/// Begins a file of edges: those of a band, or with none copies.
pub(super) fn begin_edges(folder: &Folder, band: Option<usize>, met: Met) -> Result<(PathBuf, NewBinary)> {
    let places = Places::of(folder);
    fs::create_dir_all(&places.folder).map_err(|error| Error::io(&places.folder, error))?;
    let path = band.map_or_else(|| places.copies(), |band| places.edges(band));
    let header = EdgesHeader {
        sketches: folder.id.clone(),
        settings: folder.settings.clone(),
        pages: folder.pages(),
        band,
        met,
    };
    let file = NewBinary::begin(&path, EDGES, &header)?;
    Ok((path, file))
}

/// Two pages that belong together, each by its number among all pages: those of the first file, in order of the
/// files' paths, come first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagePair {
    /// The page that comes first.
    pub a: u64,
    /// The one that comes later.
    pub b: u64,
    /// Hamming distance of their hashes; none for copies of a text.
    pub distance: Option<u32>,
    /// Their similarity by the judge's measure; 1 for copies.
    pub similarity: f32,
}

/// Hands over every pair of a folder of sketches that was joined, each once, by its later page: copies with the
/// first page of their text, and first pages that are near.
///
/// # Errors
/// If a band is not joined yet, or a file is damaged.
pub fn pairs(sketches: &Path, mut each: impl FnMut(PagePair)) -> Result<()> {
    let (bodies, _) = all_edges(&Folder::open(sketches)?)?;
    let mut edges = Merge::of(Edge::WIDTH, bodies.iter().map(source).collect::<Result<Vec<_>>>()?)?;
    while let Some(edge) = edges.next()? {
        let Edge { later, earlier, distance, similarity, .. } = Edge::of(edge);
        each(PagePair { a: earlier, b: later, distance, similarity });
    }
    Ok(())
}

/// What [`inspect`](crate::inspect) tells of a file of edges.
pub fn check_edge_file(path: &Path) -> Result<Inspection> {
    let (header, body): (EdgesHeader, Body) = format::open(path, EDGES)?;
    body.check()?;
    let edges = edges_of(&body)?;
    let mut inspection = Inspection::of(EDGES.name);
    inspection.fact("of", header.band.map_or("copies".to_owned(), |band| format!("band {band}")));
    inspection.fact("sketches", &header.sketches);
    inspection.fact("pages", header.pages);
    inspection.fact("edges", edges);
    inspection.fact("groups", header.met.groups);
    inspection.fact("largest group", header.met.largest);
    inspection.fact("compared", header.met.compared);
    inspection.fact("not compared in crowds", header.met.crowded.saturating_add(header.met.skipped));
    if header.met.thinned > 0 {
        inspection.fact("hashes of crowds", header.met.thinned);
    }
    let mut reader = body.reader()?;
    let (mut before, mut record) = ([0; Edge::WIDTH], [0; Edge::WIDTH]);
    for at in 0..edges {
        reader.fill(&mut record)?;
        let edge = Edge::of(&record);
        let is_right = edge.earlier < edge.later
            && edge.later < header.pages
            && edge.distance.is_none() == header.band.is_none()
            && (0.0..=1.0).contains(&edge.similarity);
        if !is_right || at > 0 && record <= before {
            inspection.problem(format!("edge {at} is none, or stands in the wrong place"));
            break;
        }
        before = record;
    }
    Ok(inspection)
}

#[cfg(test)]
mod tests {
    use super::super::sketch::sketched;
    use super::*;
    use crate::pipeline::Silent;
    use simflip_core::hash::SplitMix64;

    #[test]
    fn a_join_comes_to_the_same_however_many_bands_memory_holds() {
        let mut rng = SplitMix64::new(7);
        let text = |at: usize| {
            let mut of_family = SplitMix64::new(at as u64 / 4);
            let mut words: Vec<String> = (0..50).map(|_| format!("w{}", of_family.below(9000))).collect();
            words[at % 50] = format!("w{}", rng.below(9000));
            words.join(" ")
        };
        let top = tempfile::tempdir().unwrap();
        let sketches = sketched(top.path(), "pages", (0..1000).map(text), Settings::default());
        let folder = Folder::open(&sketches).unwrap();
        let bands: Vec<usize> = (0..bands_of(&folder)).collect();
        let (mut results, mut held) = (Vec::new(), Vec::new());
        for bytes in [1 << 10, 500 << 10, 600 << 10, 2 << 20] {
            let mut joiner = Joiner::new(&folder, 1 << 30, &Silent).unwrap();
            joiner.budget.bytes = bytes;
            let joined = with_threads(2, || joiner.run(Shard::default())).unwrap().unwrap();
            assert!(joined.pairs > 200, "{joined:?}");
            let edges = bands.iter().map(|&band| fs::read(joiner.places.edges(band)).unwrap());
            results.push((joined, edges.collect::<Vec<_>>()));
            let Together { bands: together, pages, at_once } =
                with_threads(2, || joiner.holdable(&bands)).unwrap().unwrap();
            assert!(pages.count() <= 1000 && (1..=2).contains(&at_once));
            assert!(together.is_sorted() && (together.is_empty() || together[0] == 0), "{together:?}");
            held.push(together.len());
            fs::remove_dir_all(folder.joined()).unwrap();
        }
        assert!(results.windows(2).all(|two| two[0] == two[1]));
        // None, some and all of them.
        assert!(held[0] == 0 && held.is_sorted() && held[1] > 0 && held[1] < bands.len(), "{held:?}");
        assert_eq!(held[3], bands.len());
    }

    #[test]
    fn what_comes_again_is_never_taken_for_what_comes_once() {
        let mut rng = SplitMix64::new(2);
        let numbers: Vec<u64> = (0..3000).map(|_| rng.below(40_000)).collect();
        assert!(Repeats::new(3000, 1000).is_none() && Repeats::new(1, 0).is_none());
        let mut told = Vec::new();
        for memory in [3_000, 1 << 20] {
            let mut repeats = Repeats::new(3000, memory).unwrap();
            numbers.iter().for_each(|&number| repeats.note(number));
            let really = |number: &&u64| numbers.iter().filter(|other| other == number).count() > 1;
            assert!(numbers.iter().filter(really).all(|&number| repeats.may_repeat(number)));
            let mut places = Vec::new();
            let some = |at: Range<usize>| numbers[at].iter().copied();
            // Of a number of them that is no multiple of those asked at a time.
            let put = |at| {
                places.push(at);
                Ok(())
            };
            each_that_may_repeat(Some(&repeats), 2900, some, put).unwrap();
            assert!((0..2900).filter(|&at| repeats.may_repeat(numbers[at])).eq(places));
            told.push(numbers.iter().filter(|&&number| repeats.may_repeat(number)).count());
        }
        // With room enough, each number has a bit of its own.
        let really = numbers.iter().filter(|n| numbers.iter().filter(|other| other == n).count() > 1).count();
        assert!(told[1] == really && told[0] > really && told[0] < 3000, "{told:?} {really}");
        let mut all = Vec::new();
        let put = |at| {
            all.push(at);
            Ok(())
        };
        each_that_may_repeat(None, 70, |_| std::iter::empty(), put).unwrap();
        assert!(all.into_iter().eq(0..70));
    }
}
