//! The second stage: near pairs and copies, band by band of keys, each band sorted on disk.
//!
//! First the digests of all texts: a page whose text stands in an earlier page is a copy, and only first copies
//! are compared. Then for each band which pages have company: others that share the key. At last, for each band,
//! the sketches of these pages, sorted so that those of a key lie together, and within a key as a crowd is
//! compared: what is near is written down by its later page.

use super::record::{Edge, PAGE, page_bytes, page_of};
use super::sketch::Shard;
use super::sketches::{Column, Columns, Folder};
use super::sorter::{Merge, Sorted, Sorter};
use super::{Budget, belongs_to, exact, odd_length, workplace};
use crate::error::{Error, Result};
use crate::format::{self, Body, COMPANY, EDGES, Kind, NewBinary, wrong};
use crate::inspection::Inspection;
use crate::making::sweep;
use crate::pipeline::{Progress, with_threads};
use crate::resources::memory_share;
use flipside_core::audit::Audit;
use flipside_core::collection::Two;
use flipside_core::company::{Companion, Company, Met};
use flipside_core::internal::memory::untouched;
use flipside_core::settings::{Judge, Settings};
use flipside_core::sketch::Facts;
use flipside_core::streamed::Bits;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
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

/// What stands in front of a file of company.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CompanyHeader {
    /// The sketches.
    sketches: String,
    settings: Settings,
    pages: u64,
    band: usize,
    /// Pages that share their key.
    with_company: u64,
    /// Keys of so many pages that not all of them may be compared with each other.
    crowded: u64,
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

    fn company(&self, band: usize) -> PathBuf {
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
    /// Of which the budget is what is left.
    pub(super) memory: u64,
    places: Places,
    progress: &'a dyn Progress,
}

impl<'a> Joiner<'a> {
    pub(super) fn new(folder: &'a Folder, memory: u64, progress: &'a dyn Progress) -> Result<Self> {
        let company = exact::company_of(&folder.settings)?;
        let budget = Budget::beside(memory, 2 * bits_bytes(folder.pages()))?;
        Ok(Self { folder, company, budget, memory, places: Places::of(folder), progress })
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
        for band in 0..bands {
            if self.company_there(band)?.is_none() {
                self.step(&format!("company {}/{bands}", band + 1), |advance| {
                    self.company(band, &copies, advance)
                })?;
            }
        }
        let mut joined = self.begun(number);
        let crowded = (0..bands).map(|band| self.read_crowded(band)).collect::<Result<Vec<_>>>()?;
        for band in (0..bands).filter(|&band| shard.has(band)) {
            let path = self.places.edges(band);
            let (edges, met) = match self.edges_there(&path, Some(band))? {
                Some(there) => {
                    joined.there += 1;
                    there
                }
                None => self.step(&format!("join {}/{bands}", band + 1), |advance| {
                    self.edges(band, &crowded, &path, advance)
                })?,
            };
            joined.bands += 1;
            joined.pairs += edges;
            joined.met = joined.met.and(met);
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
        self.progress.begin(name, self.folder.pages(), "pages");
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
        let (mut digests, mut repeats) = (Vec::new(), self.repeats());
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

    /// What tells most of what comes once from what comes again, before anything is sorted; none where the
    /// memory is too little for it.
    fn repeats(&self) -> Option<Repeats> {
        Repeats::new(self.folder.pages(), self.budget.bytes / 4)
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

    fn company_there(&self, band: usize) -> Result<Option<(CompanyHeader, Body)>> {
        let path = self.places.company(band);
        let Some((header, body)) = there::<CompanyHeader>(&path, COMPANY)? else { return Ok(None) };
        let CompanyHeader { with_company, crowded, .. } = header;
        let expected = CompanyHeader {
            sketches: self.folder.id.clone(),
            settings: self.folder.settings.clone(),
            pages: self.folder.pages(),
            band,
            with_company,
            crowded,
        };
        belongs_to(&path, header == expected)?;
        check_company(&header, &body)?;
        Ok(Some((header, body)))
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

    fn company(&self, band: usize, copies: &Bits, advance: &dyn Fn(u64)) -> Result<()> {
        let path = self.places.company(band);
        let work = workplace(&path)?;
        let least = self.folder.settings.min_features.max(1);
        let pages = self.folder.pages();
        let mut keyed = Sorter::new(4 + PAGE, self.budget.bytes / 2, work.path(), "keys").of_at_most(pages);
        let (mut features, mut keys, mut repeats) = (Vec::new(), Vec::new(), self.repeats());
        // New pages of a key come before its old ones, among which alone nobody asks for company.
        let last = self.folder.pages().saturating_sub(1);
        if let Some(repeats) = &mut repeats {
            // Pages that are not compared may make others look as if they had company: they are told apart below.
            self.scan(&|_| (), |columns, _, from, count| {
                columns.read(Column::Keys(band), from, count, &mut keys)?;
                words(&keys).for_each(|key| repeats.note(u64::from(key)));
                Ok(())
            })?;
        }
        self.scan(advance, |columns, page, from, count| {
            columns.read(Column::Features, from, count, &mut features)?;
            columns.read(Column::Keys(band), from, count, &mut keys)?;
            let [features, keys] = [&features, &keys].map(|column| column.as_chunks::<4>().0);
            let numbers = |at: Range<usize>| keys[at].iter().map(|&key| u64::from(u32::from_le_bytes(key)));
            each_that_may_repeat(repeats.as_ref(), count, numbers, |at| {
                let page = page + at as u64;
                if (u32::from_le_bytes(features[at]) as usize) < least || copies.get(page) {
                    return Ok(());
                }
                let mut record = [0; 4 + PAGE];
                record[..4].copy_from_slice(&u32::from_le_bytes(keys[at]).to_be_bytes());
                record[4..].copy_from_slice(&page_bytes(last - page));
                keyed.push(&record)
            })
        })?;
        drop(repeats);
        let mut keyed = keyed.finish()?;
        let mut company = Bits::new(self.folder.pages());
        let (mut with_company, mut crowded) = (0u64, Vec::new());
        let (mut at, mut first, mut size) = (None, 0, 0usize);
        while let Some(record) = keyed.next()? {
            let key = u32::from_be_bytes([record[0], record[1], record[2], record[3]]);
            let page = last - page_of(&record[4..]);
            if at == Some(key) {
                size += 1;
                if first >= self.folder.first_compared() {
                    company.set(page);
                    with_company += 1;
                    if size == 2 {
                        company.set(first);
                        with_company += 1;
                    }
                }
                if size == self.company.crowd() {
                    crowded.extend_from_slice(&key.to_le_bytes());
                }
            } else {
                (at, first, size) = (Some(key), page, 1);
            }
        }
        let header = CompanyHeader {
            sketches: self.folder.id.clone(),
            settings: self.folder.settings.clone(),
            pages: self.folder.pages(),
            band,
            with_company,
            crowded: crowded.len() as u64 / 4,
        };
        let mut file = NewBinary::begin(&path, COMPANY, &header)?;
        let written = company.words().iter().try_for_each(|word| file.write_all(&word.to_le_bytes()));
        written.and_then(|()| file.write_all(&crowded)).map_err(|error| Error::io(&path, error))?;
        file.finish()
    }

    /// The keys of a band of which not all pages may be compared with each other, ascending.
    fn read_crowded(&self, band: usize) -> Result<Vec<u32>> {
        let Some((header, body)) = self.company_there(band)? else {
            return Err(gone(&self.places.company(band)));
        };
        body.check()?;
        let mut reader = body.reader()?;
        reader.seek(bits_bytes(header.pages))?;
        let mut keys = vec![0; header.crowded as usize * 4];
        reader.fill(&mut keys)?;
        Ok(words(&keys).collect())
    }

    fn read_company(&self, band: usize) -> Result<Bits> {
        let Some((header, body)) = self.company_there(band)? else {
            return Err(gone(&self.places.company(band)));
        };
        let mut reader = body.reader()?;
        let mut bits = Vec::with_capacity((bits_bytes(header.pages) / 8) as usize);
        let mut piece = [0; 1 << 13];
        let mut left = bits_bytes(header.pages) as usize;
        while left > 0 {
            let n = left.min(piece.len());
            reader.fill(&mut piece[..n])?;
            bits.extend(longs(&piece[..n]));
            left -= n;
        }
        Ok(Bits::from_words(bits))
    }

    fn edges(
        &self,
        band: usize,
        crowded: &[Vec<u32>],
        path: &Path,
        advance: &dyn Fn(u64),
    ) -> Result<(u64, Met)> {
        let company = self.read_company(band)?;
        let work = workplace(path)?;
        let shape = Shape { bands: bands_of(self.folder), words: self.folder.files[0].layout.words, band };
        let mut sketches = Sorter::new(shape.width(), self.budget.bytes / 2, work.path(), "sketches")
            .of_at_most(company.count());
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
        let mut sorted = sketches.finish()?;
        let mut near = Sorter::new(Edge::WIDTH, self.budget.bytes / 4, work.path(), "edges");
        let (mut met, mut number) = (Met::default(), 0);
        let is_crowded = |band: usize, key: u32| crowded[band].binary_search(&key).is_ok();
        let mut batch = Batch::new(shape, self.budget.bytes / 8);
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
        while let Some(record) = sorted.next()? {
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
        drop(sorted);
        // A band brings a pair up once.
        self.write_edges(path, Some(band), met, near.finish()?)?;
        Ok((number, met))
    }
}

/// Which numbers may come again: for each remainder a bit that says that it came, and beside it one that says that it
/// came again.
struct Repeats {
    words: Vec<u64>,
    mask: u64,
}

impl Repeats {
    /// For so many numbers, in so many bytes; none if nearly all would look as if they came again.
    fn new(numbers: u64, memory: u64) -> Option<Self> {
        let most = 1 << (memory * 4).checked_ilog2()?;
        let remainders = numbers.saturating_mul(16).next_power_of_two().min(most);
        let words = || untouched(remainders.div_ceil(Self::EACH) as usize);
        (remainders >= 2 * numbers).then(|| Self { words: words(), mask: remainders - 1 })
    }

    /// Remainders of a word.
    const EACH: u64 = u64::BITS as u64 / 2;

    /// The word of a number, and the first of its bits there.
    fn place(&self, number: u64) -> (usize, u64) {
        let at = number & self.mask;
        ((at / Self::EACH) as usize, at % Self::EACH * 2)
    }

    // Without a branch, so that several words are on their way from memory at a time.
    fn note(&mut self, number: u64) {
        let (at, bit) = self.place(number);
        let came = self.words[at] >> bit & 1;
        self.words[at] |= (1 | came << 1) << bit;
    }

    fn may_repeat(&self, number: u64) -> bool {
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
        let Self { digests, features, hashes, bits, keys, record } = self;
        record.resize(shape.width(), 0);
        let (halves, rest) = record.split_at_mut(4 * shape.bands + 8 * shape.words);
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
        record
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
    most: usize,
}

impl Batch {
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
            false if self.records.len() >= self.most => Room::Full,
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
        // All that stands before the digest is the sketch.
        let sketch = &record[..4 * self.shape.bands + 8 * self.shape.words];
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

fn gone(path: &Path) -> Error {
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

fn check_company(header: &CompanyHeader, body: &Body) -> Result<()> {
    let crowded = header.crowded.checked_mul(4);
    match crowded.and_then(|crowded| crowded.checked_add(bits_bytes(header.pages))) == Some(body.len()) {
        true => Ok(()),
        false => Err(odd_length(body.path(), COMPANY, body.len())),
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
                "{}: flipside join has not made it yet; it makes what is missing. What was joined with --against needs it here, too",
                path.display()
            );
            return Err(Error::NoDocuments(told));
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
        let Edge { later, earlier, distance, similarity } = Edge::of(edge);
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

/// What [`inspect`](crate::inspect) tells of a file of company.
pub fn check_company_file(path: &Path) -> Result<Inspection> {
    let (header, body): (CompanyHeader, Body) = format::open(path, COMPANY)?;
    body.check()?;
    check_company(&header, &body)?;
    let mut inspection = Inspection::of(COMPANY.name);
    inspection.fact("band", header.band);
    inspection.fact("sketches", &header.sketches);
    inspection.fact("pages", header.pages);
    inspection.fact("with company", header.with_company);
    inspection.fact("crowded keys", header.crowded);
    let mut reader = body.reader()?;
    let (mut set, mut word) = (0, [0; 8]);
    for _ in 0..bits_bytes(header.pages) / 8 {
        reader.fill(&mut word)?;
        set += u64::from(u64::from_le_bytes(word).count_ones());
    }
    if set != header.with_company {
        inspection.problem(format!("{set} pages have company, but {} are counted", header.with_company));
    }
    Ok(inspection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipside_core::hash::SplitMix64;

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
