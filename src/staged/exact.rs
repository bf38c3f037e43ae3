//! The second stage where the search is an exact join: every two pages whose SimHashes lie within a distance.
//!
//! First a list of the distinct hashes, ascending, each with its pages; pages of one hash are the pairs of pass 0.
//! Then the passes of the join ([`Parted`]): all of them over the hashes in memory, if it holds them; otherwise the
//! list is read once for every few passes and dealt out on disk ([`Dealing`]) to loads, each some of the bins of these
//! passes, as many as memory holds at a time. At last the pairs of all passes are judged, in order of their pages, by
//! the sketches. Pages of one hash stand for each other as they do in memory ([`Company::WITHIN`],
//! [`Company::BETWEEN`]).
//!
//! Where that makes more pairs than are listed ([`most_pairs`](simflip_core::search::crowds::most_pairs)), crowds
//! are thinned, as in memory: a sparse list is made of the hashes that are of none, its passes are joined instead,
//! and hashes of crowds are paired with what is nearest to them of a sample.

use super::join::{Gathered, Joiner, Portion, Records, Shape, in_range, long, portions, source, there};
use super::record::{Edge, PAGE, page_bytes, page_of};
use super::sketch::Shard;
use super::sketches::Column;
use super::sorter::{Merge, Sorted, Sorter};
use super::{belongs_to, odd_length, workplace};
use crate::error::{Error, Result};
use crate::format::{self, Body, BodyReader, HASHES, NewBinary, PAIRS, wrong};
use crate::inspection::Inspection;
use crate::making::Unfinished;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use simflip_core::company::{Company, Met, StandIns};
use simflip_core::id::{Id, Slot};
use simflip_core::search::crowds::{Beside, CROWDED, Draw, Order, Shown};
use simflip_core::search::join::{Parted, Room};
use simflip_core::settings::{Net, Settings, Sketches};
use simflip_core::streamed::Bits;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
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
    /// What the passes follow from, as [`Parted::parts`] says; none in files of earlier versions, which are made again.
    #[serde(default)]
    parts: Option<u32>,
    /// Of a sparse list, the neighbours from which on a hash is not in it ([`CROWDED`]). The rest of its header is that
    /// of the list of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crowded: Option<u32>,
}

/// What stands in front of the pairs of a pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PairsHeader {
    /// The sketches.
    sketches: String,
    settings: Settings,
    pages: u64,
    /// That of the list.
    #[serde(default)]
    parts: Option<u32>,
    /// 0 for pages of one hash; of a sparse list, for crowds.
    pass: usize,
    /// What the pass took, and what it left out. Judging is not in it.
    met: Met,
    /// How many pairs of hashes were found; more than may be listed in all where the pass was given up, and then there
    /// are no pairs. None in files of earlier versions, which are made again.
    #[serde(default)]
    found: Option<u64>,
    /// That of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crowded: Option<u32>,
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

/// Memory for each hash that is joined: hash 8, where its pages are 8, and a parted copy with slots 12.
pub(super) const HELD: u64 = 28;

/// Passes in groups for which hashes that take more than `memory` are dealt out together.
fn groups(parted: &Parted, passes: &[usize], held: u64, memory: u64) -> Vec<Vec<usize>> {
    // Bins of which about two, and rarely less than one, fill the memory.
    parted.together(passes, held.div_ceil(memory.max(1)).ilog2() + 2)
}

/// How often an exact join reads so many hashes if it has so much memory for them.
pub(super) fn readings(hashes: u64, distance: u32, memory: u64) -> u64 {
    if hashes.saturating_mul(HELD) <= memory {
        return 1;
    }
    let parted = Parted::new(hashes, u64::MAX, distance);
    let passes: Vec<usize> = (0..parted.passes()).collect();
    let groups = groups(&parted, &passes, hashes.saturating_mul(HELD), memory).len();
    // To count them, to deal them out, and dealt.
    (1 + groups.div_ceil(DEALT_AT_ONCE) + groups) as u64
}

/// Bytes of a hash in the list, if it has one page.
pub(super) const LISTED: f64 = 14.0;

impl Joiner<'_> {
    fn list_path(&self, crowded: Option<u32>) -> PathBuf {
        self.folder.joined().join(match crowded {
            None => "distinct.hashes".to_owned(),
            Some(least) => format!("sparse-{least}.hashes"),
        })
    }

    fn pairs_path(&self, crowded: Option<u32>, pass: usize) -> PathBuf {
        self.folder.joined().join(match crowded {
            None => format!("block-{pass:03}.pairs"),
            Some(least) => format!("sparse-{least}-{pass:03}.pairs"),
        })
    }

    /// Makes the pairs of a part of the passes; how many there are in the part, and how many were there before.
    pub(super) fn passes(&self, distance: u32, copies: &Bits, shard: Shard) -> Result<[u64; 2]> {
        let list = self.list_or_make(None, || {
            self.step("hashes", |advance| self.make_list(distance, copies, advance))
        })?;
        let own = (0..=list.parted(distance).passes()).filter(|&pass| shard.has(pass)).collect::<Vec<_>>();
        let made = self.make_passes(&list, distance, own.iter().copied(), self.most_of(&list)?)?;
        // Pairs of equal hashes come with the list.
        let of_list = u64::from(shard.has(0));
        let own = own.len() as u64;
        Ok([own, own - of_list - made])
    }

    /// A list, which is made unless it and the pairs that come with it are there.
    fn list_or_make(&self, crowded: Option<u32>, make: impl FnOnce() -> Result<()>) -> Result<List> {
        if let Some(list) = self.list(crowded)?
            && self.pairs_there(&list, 0)?.is_some()
        {
            return Ok(list);
        }
        make()?;
        self.list(crowded)?.ok_or_else(|| super::join::gone(&self.list_path(crowded)))
    }

    /// Makes those of some passes that are not there; how many.
    fn make_passes(
        &self,
        list: &List,
        distance: u32,
        passes: impl Iterator<Item = usize>,
        most: u64,
    ) -> Result<u64> {
        let mut missing = Vec::new();
        for pass in passes {
            if self.pairs_there(list, pass)?.is_none() {
                missing.push(pass);
            }
        }
        let mut found = 0u64;
        for pass in 1..=list.parted(distance).passes() {
            found = found.saturating_add(self.pairs_there(list, pass)?.map_or(0, |there| there.found));
        }
        self.join_passes(list, distance, &missing, self.budget.bytes / 2, &mut Left { most, found })?;
        Ok(missing.len() as u64)
    }

    /// How many pairs of a list's hashes may be listed.
    fn most_of(&self, list: &List) -> Result<u64> {
        let repeats = self.pairs_there(list, 0)?.map_or(0, |there| there.met.repeats);
        Ok((self.most_pairs)(list.header.compared.saturating_sub(repeats)))
    }

    /// What [`passes`](Self::passes) says where edges have been made of all pairs, by whichever version.
    pub(super) fn passes_there(&self, shard: Shard) -> [u64; 2] {
        let is_there = |&pass: &usize| fs::symlink_metadata(self.pairs_path(None, pass)).is_ok();
        let own = (0..).take_while(is_there).filter(|&pass| shard.has(pass)).count() as u64;
        [own, own.saturating_sub(u64::from(shard.has(0)))]
    }

    /// The pairs of all passes, once they are all there. Where those are too many, crowds are thinned.
    pub(super) fn all_passes(&self, distance: u32) -> Result<Option<Vec<(Body, Met)>>> {
        let Some(list) = self.list(None)? else { return Ok(None) };
        let Some(mut passes) = self.passes_of(&list, distance)? else { return Ok(None) };
        let most = self.most_of(&list)?;
        let are_too_many = |passes: &[There]| {
            passes.iter().fold(0, |sum: u64, there| sum.saturating_add(there.found)) > most
        };
        for least in CROWDED {
            if !are_too_many(&passes) {
                break;
            }
            let sparse = self.list_or_make(Some(least), || {
                self.step_of("thin crowds", list.header.compared, |advance| {
                    self.make_sparse(&list, distance, least, advance)
                })
            })?;
            self.make_passes(&sparse, distance, 1..=sparse.parted(distance).passes(), most)?;
            // Pages of one hash are those of all.
            passes.truncate(1);
            passes.extend(self.passes_of(&sparse, distance)?.into_iter().flatten());
        }
        Ok(Some(passes.into_iter().map(|There { body, met, .. }| (body, met)).collect()))
    }

    /// What the passes of a list have found, if they are all there.
    fn passes_of(&self, list: &List, distance: u32) -> Result<Option<Vec<There>>> {
        (0..=list.parted(distance).passes()).map(|pass| self.pairs_there(list, pass)).collect()
    }

    fn list(&self, crowded: Option<u32>) -> Result<Option<List>> {
        let path = self.list_path(crowded);
        let Some((header, body)) = there::<HashesHeader>(&path, HASHES)? else { return Ok(None) };
        let is_own = header.sketches == self.folder.id
            && header.pages == self.folder.pages()
            && header.crowded == crowded;
        belongs_to(&path, is_own)?;
        Ok(header.parts.map(|parts| List { header, parts, body }))
    }

    fn pairs_there(&self, list: &List, pass: usize) -> Result<Option<There>> {
        let path = self.pairs_path(list.header.crowded, pass);
        let Some((header, body)) = there::<PairsHeader>(&path, PAIRS)? else { return Ok(None) };
        let (Some(_), Some(found)) = (header.parts, header.found) else { return Ok(None) };
        belongs_to(&path, header == self.pairs_header(list.key(), pass, header.met, found))?;
        pairs_of(&body)?;
        Ok(Some(There { body, met: header.met, found }))
    }

    fn pairs_header(
        &self,
        (parts, crowded): (u32, Option<u32>),
        pass: usize,
        met: Met,
        found: u64,
    ) -> PairsHeader {
        PairsHeader {
            sketches: self.folder.id.clone(),
            settings: self.folder.settings.clone(),
            pages: self.folder.pages(),
            parts: Some(parts),
            pass,
            met,
            found: Some(found),
            crowded,
        }
    }

    fn write_pairs(&self, header: &PairsHeader, pairs: Option<Sorter>) -> Result<()> {
        let path = self.pairs_path(header.crowded, header.pass);
        let mut file = NewBinary::begin(&path, PAIRS, header)?;
        if let Some(pairs) = pairs {
            let mut pairs = pairs.finish()?;
            while let Some(pair) = pairs.next()? {
                file.write_all(pair).map_err(|error| Error::io(&path, error))?;
            }
        }
        file.finish()
    }

    /// Whether a pair is asked for: one of its pages is new, or old ones are compared with each other.
    fn is_asked(&self, a: u64, b: u64) -> bool {
        a.max(b) >= self.folder.first_compared()
    }

    /// Lists the distinct hashes with their pages, those with the least digests first, and the pairs of pages of one
    /// hash.
    fn make_list(&self, distance: u32, copies: &Bits, advance: &dyn Fn(u64)) -> Result<()> {
        let path = self.list_path(None);
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
        let parts = Parted::new(compared, varying, distance).parts();
        let pages = self.folder.pages();
        let header =
            HashesHeader { sketches, settings, pages, compared, varying, parts: Some(parts), crowded: None };
        let list = (parts, header.crowded);
        let mut sorted = sorter.finish()?;
        let mut pairs = Sorter::new(PAIR, self.budget.bytes / 4, work.path(), "pairs");
        let mut file = NewBinary::begin(&path, HASHES, &header)?;
        let (mut hash, mut pages, mut number) = ([0; 8], StandIns::default(), Number::default());
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
                put(&mut file, hash, pages.first(), number)?;
                pages.clear();
                number = Number::default();
                hash.copy_from_slice(&record[..8]);
            }
            for &other in pages.iter().filter(|&&other| self.is_asked(page, other)) {
                found += 1;
                pairs.push(&pair_bytes(page, other))?;
            }
            pages.push(page);
            number.add(page < self.folder.first_compared());
        }
        put(&mut file, hash, pages.first(), number)?;
        met.skipped = met.distances.iter().map(|(_, pairs)| pairs).sum::<u64>() - found;
        self.write_pairs(&self.pairs_header(list, 0, met, 0), Some(pairs))?;
        file.finish()
    }

    /// Lists the hashes that are of no crowd, and the pairs of those that are with what is nearest to them of a sample.
    fn make_sparse(&self, list: &List, distance: u32, least: u32, advance: &dyn Fn(u64)) -> Result<()> {
        /// Hashes that are compared with the sample at a time.
        const AT_ONCE: usize = 1 << 10;
        list.body.check()?;
        let mut draw = Draw::new();
        self.each_block(list, |hashes, places| {
            hashes.iter().zip(places).for_each(|(&hash, &place)| draw.add(hash, place));
            Ok(())
        })?;
        let sample = draw.finish();
        let is_crowded = |shown: &Shown<u64>| shown.neighbours >= least;
        let crowded: HashSet<u64> = sample
            .members()
            .par_bridge()
            .filter(|&(hash, _)| is_crowded(&sample.of(hash, distance)))
            .map(|(_, place)| place)
            .collect();

        let path = self.list_path(Some(least));
        let header = HashesHeader { crowded: Some(least), ..list.header.clone() };
        let mut file = NewBinary::begin(&path, HASHES, &header)?;
        let work = workplace(&path)?;
        // Of pairs that come more than once, one is kept.
        let mut near = Sorter::new(PLACES, self.budget.bytes / 4, work.path(), "crowds");
        let mut orders = Sorter::new(ORDERED, self.budget.bytes / 4, work.path(), "orders");
        let mut met = Met { sampled: sample.hashes().len() as u64, ..Met::default() };
        let mut pages = ListedPages::open(&list.body, self.folder.pages(), self.folder.first_compared())?;
        let mut of_hash = Vec::new();
        self.each_block(list, |hashes, places| {
            for (hashes, places) in hashes.chunks(AT_ONCE).zip(places.chunks(AT_ONCE)) {
                let shown: Vec<_> = hashes.par_iter().map(|&hash| sample.of(hash, distance)).collect();
                for ((&hash, &place), shown) in hashes.iter().zip(places).zip(&shown) {
                    let is_crowded = is_crowded(shown);
                    met.thinned += u64::from(is_crowded);
                    for &(distance, other) in &shown.nearest {
                        if is_crowded || crowded.contains(&other) {
                            near.push(&places_bytes(place, other, distance))?;
                        }
                    }
                    if is_crowded {
                        for (order, at) in Order::ALL.iter().zip(0..) {
                            let mut record = [at; ORDERED];
                            record[1..9].copy_from_slice(&order.key(hash).to_be_bytes());
                            record[9..].copy_from_slice(&place.to_be_bytes()[2..]);
                            orders.push(&record)?;
                        }
                    } else {
                        let number = pages.at(place, &mut of_hash)?;
                        if let Some(record) = listed(hash, &of_hash, number) {
                            file.write_all(&record).map_err(|error| Error::io(&path, error))?;
                        }
                    }
                }
                advance(hashes.len() as u64);
            }
            Ok(())
        })?;
        let (mut orders, mut last, mut beside) = (orders.finish()?, None, Beside::new(distance));
        while let Some(record) = orders.next()? {
            if last.replace(record[0]) != Some(record[0]) {
                beside = Beside::new(distance);
            }
            let order = Order::ALL[usize::from(record[0])];
            let (hash, place) = (order.hash(number(&record[1..9])), number(&record[9..]));
            for (distance, other) in beside.next(hash, place) {
                near.push(&places_bytes(place, other, distance))?;
            }
        }
        let mut found = Found { met, ..self.found(list, 0, self.budget.bytes / 4)? };
        let mut near = near.finish()?;
        while let Some(record) = near.next()? {
            let places = [&record[..6], &record[6..12]].map(number);
            found.add(places, u32::from(record[12]), |a, b| self.is_asked(a, b))?;
        }
        // These are bounded, and do not count.
        self.write_pairs(&self.pairs_header((list.parts, Some(least)), 0, found.met, 0), Some(found.pairs))?;
        file.finish()
    }

    /// Joins the hashes of a list in some passes, as many at a time as so much memory holds. Where more pairs are found
    /// than are left, these passes are given up.
    fn join_passes(
        &self,
        list: &List,
        distance: u32,
        passes: &[usize],
        memory: u64,
        left: &mut Left,
    ) -> Result<()> {
        if passes.is_empty() {
            return Ok(());
        }
        list.body.check()?;
        let parted = list.parted(distance);
        let done = match list.header.compared.saturating_mul(HELD) <= memory {
            true => self.join_held(list, &parted, passes, memory, left)?,
            false => self.join_dealt(list, &parted, passes, memory, left)?,
        };
        for &pass in passes.iter().filter(|pass| !done.contains(pass)) {
            let header = self.pairs_header(list.key(), pass, Met::default(), left.most.saturating_add(1));
            self.write_pairs(&header, None)?;
        }
        Ok(())
    }

    /// The same with all hashes in memory: the passes that were not given up.
    fn join_held(
        &self,
        list: &List,
        parted: &Parted,
        passes: &[usize],
        memory: u64,
        left: &mut Left,
    ) -> Result<Vec<usize>> {
        let most = list.header.compared as usize;
        let (mut load, mut room, mut joined) = (Load::of(most), Room::of(most), Vec::new());
        self.each_block(list, |hashes, places| {
            load.hashes.extend_from_slice(hashes);
            load.places.extend_from_slice(places);
            Ok(())
        })?;
        for (done, &pass) in (1..).zip(passes) {
            let is_whole = self.step(&step_name(done, passes), |advance| {
                let mut found = self.found(list, pass, self.budget.bytes / 4)?;
                let is_whole =
                    self.join_load(&load, parted, (&mut room, memory), &mut found, left, &|_, _| true)?;
                advance(self.folder.pages());
                if is_whole {
                    self.write_found(list, found)?;
                }
                Ok(is_whole)
            })?;
            if !is_whole {
                break;
            }
            joined.push(pass);
        }
        Ok(joined)
    }

    /// The same with hashes dealt out on disk.
    fn join_dealt(
        &self,
        list: &List,
        parted: &Parted,
        passes: &[usize],
        memory: u64,
        left: &mut Left,
    ) -> Result<Vec<usize>> {
        let of_join: Vec<usize> = passes.iter().map(|pass| pass - 1).collect();
        let mut groups = groups(parted, &of_join, list.header.compared.saturating_mul(HELD), memory);
        let mut sizes = self.sizes(list, parted, &groups)?;
        if sizes.iter().flatten().any(|&size| size > memory) {
            groups = of_join.iter().map(|&pass| vec![pass]).collect();
            sizes = self.sizes(list, parted, &groups)?;
        }
        let dealings: Vec<Dealing> =
            groups.into_iter().zip(&sizes).map(|(group, sizes)| Dealing::new(group, sizes, memory)).collect();
        let most = dealings.iter().flat_map(|dealing| &dealing.hashes).max().copied().unwrap_or(0);
        let most = most.min((memory / HELD) as usize);
        let (mut load, mut room, mut done) = (Load::of(most), Room::of(most), 0);
        let mut all_joined = Vec::new();
        for dealings in dealings.chunks(DEALT_AT_ONCE) {
            done += dealings.iter().map(|dealing| dealing.passes.len()).sum::<usize>();
            let is_whole = self.step(&step_name(done, passes), |advance| {
                let work = workplace(&self.list_path(list.header.crowded))?;
                let loads = self.deal(list, parted, dealings, work.path())?;
                let (all, mut joined) = (loads.iter().map(Vec::len).sum::<usize>() as u64, 0);
                for (dealing, loads) in dealings.iter().zip(loads) {
                    let room_for_pairs = self.budget.bytes / 4 / dealing.passes.len() as u64;
                    let begin = |&pass: &usize| self.found(list, pass + 1, room_for_pairs);
                    let mut found = dealing.passes.iter().map(begin).collect::<Result<Vec<_>>>()?;
                    for dealt in loads {
                        let at_once = (&mut load, &mut room, memory);
                        if !self.join_dealt_load(dealt, parted, at_once, &mut found, left)? {
                            return Ok(false);
                        }
                        let share = |part: u64| self.folder.pages() * part / all;
                        advance(share(joined + 1) - share(joined));
                        joined += 1;
                    }
                    all_joined.extend(found.iter().map(|found| found.pass));
                    found.into_iter().try_for_each(|found| self.write_found(list, found))?;
                }
                Ok(true)
            })?;
            if !is_whole {
                break;
            }
        }
        Ok(all_joined)
    }

    /// Joins a load in some passes; whether no more pairs were found than were left.
    fn join_dealt_load(
        &self,
        dealt: Dealt,
        parted: &Parted,
        (load, room, memory): (&mut Load, &mut Room, u64),
        found: &mut [Found],
        left: &mut Left,
    ) -> Result<bool> {
        let mut join = |load: &Load, counts: &dyn Fn(Slot, Slot) -> bool| {
            for found in &mut *found {
                if !self.join_load(load, parted, (room, memory), found, left, counts)? {
                    return Ok(false);
                }
            }
            Ok::<bool, Error>(true)
        };
        if dealt.hashes <= (memory / HELD) as usize {
            dealt.read(0..dealt.hashes, load.clear())?;
            return Ok(join(load, &|_, _| true)? && dealt.remove().map(|()| true)?);
        }
        // One bin alone is more than memory holds, and is joined two pieces of it at a time.
        let each = (memory / 2 / HELD).max(1) as usize;
        let pieces: Vec<Range<usize>> =
            (0..dealt.hashes).step_by(each).map(|from| from..dealt.hashes.min(from + each)).collect();
        for (later, piece) in pieces.iter().enumerate() {
            for (earlier, before) in pieces[..later].iter().enumerate() {
                dealt.read(before.clone(), load.clear())?;
                dealt.read(piece.clone(), load)?;
                // Pairs within a piece count once.
                let (is_next, is_last) = (earlier + 1 == later, later + 1 == pieces.len());
                let counts = |a: Slot, b: Slot| match [a, b].map(|slot| slot.index() < before.len()) {
                    [true, true] => is_next,
                    [false, false] => is_next && is_last,
                    _ => true,
                };
                if !join(load, &counts)? {
                    return Ok(false);
                }
            }
        }
        dealt.remove().map(|()| true)
    }

    /// What a pass of a list is to find, of whose pairs so much memory holds the last.
    fn found(&self, list: &List, pass: usize, memory: u64) -> Result<Found> {
        let work = workplace(&self.pairs_path(list.header.crowded, pass))?;
        let pages = ListedPages::open(&list.body, self.folder.pages(), self.folder.first_compared())?;
        let pairs = Sorter::new(PAIR, memory, work.path(), "pairs");
        Ok(Found {
            pass,
            pages,
            first: Vec::new(),
            second: Vec::new(),
            pairs,
            of_hashes: 0,
            met: Met::default(),
            _work: work,
        })
    }

    fn write_found(&self, list: &List, found: Found) -> Result<()> {
        let Found { pass, pairs, met, of_hashes, _work, .. } = found;
        self.write_pairs(&self.pairs_header(list.key(), pass, met, of_hashes), Some(pairs))
    }

    /// Joins hashes, whole bins of a pass or pieces of one, where so much memory is for loads, and takes those pairs of
    /// slots that count; whether no more were found than were left.
    fn join_load(
        &self,
        load: &Load,
        parted: &Parted,
        (room, memory): (&mut Room, u64),
        found: &mut Found,
        left: &mut Left,
        counts: &dyn Fn(Slot, Slot) -> bool,
    ) -> Result<bool> {
        let mut put: Result<()> = Ok(());
        let pass = found.pass - 1;
        // Those that do not count are among all, too, of which there may be no more.
        let joined = parted.join(room, pass, &load.hashes, left.most, memory / 32, |near| {
            for pair in near.iter().filter(|pair| counts(pair.a, pair.b)) {
                left.found += 1;
                if put.is_ok() && left.found <= left.most {
                    found.of_hashes += 1;
                    let places = [pair.a, pair.b].map(|slot| load.places[slot.index()]);
                    put = found.add(places, pair.distance, |a, b| self.is_asked(a, b));
                }
            }
        });
        put?;
        Ok(joined.is_some() && left.found <= left.most)
    }

    /// What the hashes of each bin take, of each group of passes.
    fn sizes(&self, list: &List, parted: &Parted, groups: &[Vec<usize>]) -> Result<Vec<Vec<u64>>> {
        let mut sizes: Vec<Vec<u64>> = groups.iter().map(|group| vec![0; parted.bins(group)]).collect();
        self.step("bins", |advance| {
            self.each_block(list, |hashes, _| {
                sizes.par_iter_mut().zip(groups).for_each_init(Vec::new, |bins, (sizes, group)| {
                    parted.bins_of(group, hashes, bins);
                    bins.iter().for_each(|&bin| sizes[usize::from(bin)] += HELD);
                });
                advance(hashes.len() as u64);
                Ok(())
            })
        })?;
        Ok(sizes)
    }

    /// Deals the list out: the loads of each dealing.
    fn deal(
        &self,
        list: &List,
        parted: &Parted,
        dealings: &[Dealing],
        folder: &Path,
    ) -> Result<Vec<Vec<Dealt>>> {
        // The loads themselves, which take more, come later.
        let loads = dealings.iter().map(|dealing| dealing.hashes.len()).sum::<usize>().max(1);
        let room = (self.budget.bytes as usize / 4 / loads).clamp(1 << 12, 1 << 18);
        let mut hands: Vec<Hand> = dealings.iter().map(|dealing| Hand::new(dealing, room, folder)).collect();
        self.each_block(list, |hashes, places| {
            hands.par_iter_mut().try_for_each(|hand| hand.deal(parted, hashes, places))
        })?;
        hands.into_iter().map(Hand::finish).collect()
    }

    /// Goes through a list block by block: hashes, and where the pages of each are.
    fn each_block(&self, list: &List, mut each: impl FnMut(&[u64], &[u64]) -> Result<()>) -> Result<()> {
        let mut records = ListReader::open(&list.body, self.folder.pages())?;
        let [mut hashes, mut places] = [Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK)];
        loop {
            let next = records.next()?;
            if next.is_none() || hashes.len() == BLOCK {
                each(&hashes, &places)?;
                hashes.clear();
                places.clear();
            }
            let Some((hash, place)) = next else { return Ok(()) };
            hashes.push(hash);
            places.push(place);
        }
    }

    /// Judges the pairs of all passes: how many are near, and what it took.
    pub(super) fn judge(
        &self,
        path: &Path,
        passes: Vec<(Body, Met)>,
        advance: &dyn Fn(u64),
    ) -> Result<(u64, Met)> {
        let work = workplace(path)?;
        let (mut sources, mut of_passes) = (Vec::new(), Met::default());
        for (body, met) in passes {
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
        let of =
            |pair: &[u8]| in_range(path, page_of(pair), pages).map(|page| (page, page_of(&pair[PAGE..])));
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

/// Of a hash of a crowd in an order: that order 1, its key 8, the place in the list 6.
const ORDERED: usize = 15;

/// Two places in the list and their distance: the lesser place 6, the greater one 6, the distance 1.
const PLACES: usize = 13;

fn places_bytes(a: u64, b: u64, distance: u32) -> [u8; PLACES] {
    let mut bytes = [0; PLACES];
    bytes[..6].copy_from_slice(&a.min(b).to_be_bytes()[2..]);
    bytes[6..12].copy_from_slice(&a.max(b).to_be_bytes()[2..]);
    bytes[12] = distance as u8;
    bytes
}

/// The number that some bytes are, the highest first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// What the step is called that ends with so many of some passes.
fn step_name(done: usize, passes: &[usize]) -> String {
    format!("join {done}/{}", passes.len())
}

/// Takes the next record, if there is one.
fn taken(sorted: &mut Sorted, record: &mut Vec<u8>) -> Result<bool> {
    let Some(next) = sorted.next()? else { return Ok(false) };
    record.clear();
    record.extend_from_slice(next);
    Ok(true)
}

/// How many pairs of hashes the passes of a list may find together, and have found.
struct Left {
    most: u64,
    found: u64,
}

/// What a pass has found.
struct There {
    body: Body,
    met: Met,
    /// Pairs of hashes.
    found: u64,
}

/// Which bins are joined at a time, in so much memory; one that takes more, by itself.
fn loads(sizes: &[u64], memory: u64) -> Vec<Range<usize>> {
    let mut loads: Vec<Range<usize>> = Vec::new();
    let mut held = 0;
    for (bin, &size) in sizes.iter().enumerate() {
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
    loads
}

/// The list is dealt out for so many groups of passes while it is read once; each takes as much disk as the list.
pub(super) const DEALT_AT_ONCE: usize = 4;

/// Hashes of a list that are taken at a time.
const BLOCK: usize = 1 << 14;

/// A hash that is dealt out: 8 bytes, and where its pages are 6.
const DEALT: usize = 14;

/// How hashes are dealt out to loads for a group of passes.
struct Dealing {
    passes: Vec<usize>,
    /// Of each bin, which load it is in.
    load_of: Vec<u32>,
    /// How many hashes each load has.
    hashes: Vec<usize>,
}

impl Dealing {
    /// From what the hashes of each bin take, so that each load of more than one takes so much memory at most.
    fn new(passes: Vec<usize>, sizes: &[u64], memory: u64) -> Self {
        let (mut load_of, mut hashes) = (vec![0; sizes.len()], Vec::new());
        for (load, bins) in (0..).zip(loads(sizes, memory)) {
            load_of[bins.clone()].fill(load);
            hashes.push((sizes[bins].iter().sum::<u64>() / HELD) as usize);
        }
        Self { passes, load_of, hashes }
    }
}

/// Deals hashes out. Files are open while they are written to alone, for there may be many.
struct Hand<'a> {
    dealing: &'a Dealing,
    /// Of each load what has been written, and what has not.
    loads: Vec<(Dealt, Waiting)>,
    bins: Vec<u16>,
}

impl<'a> Hand<'a> {
    /// For files in a folder; of each, so many bytes are held until they are written.
    fn new(dealing: &'a Dealing, room: usize, folder: &Path) -> Self {
        let of = |(load, &hashes): (usize, &usize)| {
            let path = folder.join(format!("load-{}-{load}", dealing.passes[0]));
            (Dealt { path, hashes }, Waiting { bytes: vec![0; room], used: 0 })
        };
        Self { dealing, loads: dealing.hashes.iter().enumerate().map(of).collect(), bins: Vec::new() }
    }

    fn deal(&mut self, parted: &Parted, hashes: &[u64], places: &[u64]) -> Result<()> {
        parted.bins_of(&self.dealing.passes, hashes, &mut self.bins);
        for ((&bin, &hash), &place) in self.bins.iter().zip(hashes).zip(places) {
            let (dealt, waiting) = &mut self.loads[self.dealing.load_of[usize::from(bin)] as usize];
            if waiting.push(hash, place) {
                dealt.append(waiting)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<Dealt>> {
        let finish = |(dealt, mut waiting): (Dealt, Waiting)| dealt.append(&mut waiting).map(|()| dealt);
        self.loads.into_iter().map(finish).collect()
    }
}

/// Hashes of a load that have not been written yet.
struct Waiting {
    bytes: Vec<u8>,
    used: usize,
}

impl Waiting {
    /// Adds a hash; whether there is no room for another.
    fn push(&mut self, hash: u64, place: u64) -> bool {
        // More than a record, for that is quicker to copy.
        let record = u128::from(hash) | u128::from(place) << 64;
        if let Some(to) = self.bytes[self.used..].first_chunk_mut() {
            *to = record.to_le_bytes();
            self.used += DEALT;
        }
        self.used + size_of::<u128>() > self.bytes.len()
    }
}

/// A file of the hashes of a load, and how many it has in the end.
struct Dealt {
    path: PathBuf,
    hashes: usize,
}

impl Dealt {
    /// Puts hashes behind those that are there, and takes them away.
    fn append(&self, waiting: &mut Waiting) -> Result<()> {
        let file = File::options().create(true).append(true).open(&self.path);
        let put = file.and_then(|mut file| file.write_all(&waiting.bytes[..waiting.used]));
        waiting.used = 0;
        put.map_err(|error| Error::io(&self.path, error))
    }

    /// Reads some of the hashes behind others.
    fn read(&self, mut some: Range<usize>, load: &mut Load) -> Result<()> {
        let io = |error| Error::io(&self.path, error);
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start((DEALT * some.start) as u64)).map_err(io)?;
        let mut piece = vec![0; DEALT * some.len().min(BLOCK)];
        while !some.is_empty() {
            let piece = &mut piece[..DEALT * some.len().min(BLOCK)];
            file.read_exact(piece).map_err(io)?;
            let records = piece.as_chunks::<DEALT>().0;
            load.hashes.extend(records.iter().map(|record| long(record)));
            // The last eight bytes of a record are two of its hash, then the place.
            load.places.extend(records.iter().map(|record| long(&record[DEALT - 8..]) >> 16));
            some.start += records.len();
        }
        Ok(())
    }

    /// Takes the file away.
    fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|error| Error::io(&self.path, error))
    }
}

/// Hashes that are joined at a time, and where the pages of each are.
struct Load {
    hashes: Vec<u64>,
    places: Vec<u64>,
}

impl Load {
    fn of(hashes: usize) -> Self {
        Self { hashes: Vec::with_capacity(hashes), places: Vec::with_capacity(hashes) }
    }

    /// The same without any.
    fn clear(&mut self) -> &mut Self {
        self.hashes.clear();
        self.places.clear();
        self
    }
}

/// What a pass finds.
struct Found {
    /// One more than that of the join, which has none for equal hashes.
    pass: usize,
    pages: ListedPages,
    first: Vec<u64>,
    second: Vec<u64>,
    pairs: Sorter,
    /// Pairs of hashes.
    of_hashes: u64,
    met: Met,
    /// The sorter's folder, which goes with this.
    _work: Unfinished,
}

impl Found {
    /// Adds those pairs of the pages of two hashes, by where these are, that are asked for.
    fn add(
        &mut self,
        [first, second]: [u64; 2],
        distance: u32,
        is_asked: impl Fn(u64, u64) -> bool,
    ) -> Result<()> {
        let number_first = self.pages.at(first, &mut self.first)?;
        let number_second = self.pages.at(second, &mut self.second)?;
        let [most_first, most_second] = Company::shares(self.first.len(), self.second.len());
        let mut taken = 0;
        for &a in &self.first[..most_first] {
            for &b in self.second[..most_second].iter().filter(|&&b| is_asked(a, b)) {
                taken += 1;
                self.pairs.push(&pair_bytes(a, b))?;
            }
        }
        let asked = number_first.pairs_with(number_second);
        self.met.distances.count(distance, asked);
        self.met.skipped += asked.saturating_sub(taken);
        Ok(())
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

/// The list of hashes.
struct List {
    header: HashesHeader,
    /// What its header says, of a version that says it.
    parts: u32,
    body: Body,
}

impl List {
    /// What its passes are told by.
    fn key(&self) -> (u32, Option<u32>) {
        (self.parts, self.header.crowded)
    }

    /// How its hashes are joined.
    fn parted(&self, distance: u32) -> Parted {
        Parted::in_parts(self.header.varying, self.parts, distance)
    }
}

/// A record of the list.
struct Listed<'a> {
    hash: u64,
    /// The first pages, [`PAGE`] bytes each.
    pages: &'a [u8],
    /// How many it has, if those are not all.
    number: Option<Number>,
    /// Bytes of the record.
    length: usize,
}

impl<'a> Listed<'a> {
    /// Most bytes of a record.
    const MOST: usize = 9 + 8 + PAGE * Company::BETWEEN;

    /// The record that some bytes begin with.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<9>()?;
        let (count, number, rest, length) = match head[8] {
            MANY => {
                let (numbers, rest) = rest.split_first_chunk::<8>()?;
                let [all, old] =
                    [0, 4].map(|at| u32::from_le_bytes([at, at + 1, at + 2, at + 3].map(|at| numbers[at])));
                if all as usize <= Company::BETWEEN || old > all {
                    return None;
                }
                (Company::BETWEEN, Some(Number { all, old }), rest, 17)
            }
            count => (usize::from(count), None, rest, 9),
        };
        let pages = rest.get(..PAGE * count).filter(|_| (1..=Company::BETWEEN).contains(&count))?;
        Some(Self { hash: long(head), pages, number, length: length + PAGE * count })
    }
}

/// Stands in the number of a hash's page for the place of its record in the list, for it has several pages.
const IN_LIST: u64 = 1 << 47;

/// Reads the list of hashes.
struct ListReader {
    reader: BodyReader,
    /// Bytes of the body that are not in the buffer yet.
    left: u64,
    buffer: Vec<u8>,
    /// What has been read of the buffer, and of the body.
    at: usize,
    place: u64,
    all_pages: u64,
    last: Option<u64>,
}

impl ListReader {
    fn open(body: &Body, all_pages: u64) -> Result<Self> {
        let (reader, left) = (body.reader()?, body.len());
        Ok(Self { reader, left, buffer: Vec::new(), at: 0, place: 0, all_pages, last: None })
    }

    /// The next hash, and its page, or what [`ListedPages`] finds its pages by.
    fn next(&mut self) -> Result<Option<(u64, u64)>> {
        if self.buffer.len() - self.at < Listed::MOST && self.left > 0 {
            self.fill()?;
        }
        let rest = &self.buffer[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let is_next = |listed: &Listed<'_>| {
            self.last.is_none_or(|last| last < listed.hash)
                && listed.pages.chunks_exact(PAGE).all(|page| page_of(page) < self.all_pages)
        };
        let Some(listed) = Listed::of(rest).filter(is_next) else { return Err(damaged(self.reader.body())) };
        let place = match listed.pages.len() {
            PAGE => page_of(listed.pages),
            _ => IN_LIST | self.place,
        };
        let (hash, length) = (listed.hash, listed.length);
        self.last = Some(hash);
        self.at += length;
        self.place += length as u64;
        Ok(Some((hash, place)))
    }

    /// Reads more behind what is left of the buffer.
    fn fill(&mut self) -> Result<()> {
        const PIECE: u64 = 1 << 18;
        self.buffer.drain(..self.at);
        let (from, more) = (self.buffer.len(), self.left.min(PIECE));
        self.buffer.resize(from + more as usize, 0);
        self.reader.fill(&mut self.buffer[from..])?;
        (self.at, self.left) = (0, self.left - more);
        Ok(())
    }
}

fn damaged(list: &Body) -> Error {
    let (expected, got) = ("hashes with their pages, ascending", "something else".to_owned());
    wrong(list.path(), "the body", expected.to_owned(), got, "the file is damaged; make it again")
}

/// Finds the pages of hashes in the list.
struct ListedPages {
    reader: BodyReader,
    all_pages: u64,
    /// Pages before this one are old.
    first_compared: u64,
}

impl ListedPages {
    fn open(body: &Body, all_pages: u64, first_compared: u64) -> Result<Self> {
        Ok(Self { reader: body.reader()?, all_pages, first_compared })
    }

    /// The pages that [`ListReader`] told the place of, and how many there are.
    fn at(&mut self, place: u64, pages: &mut Vec<u64>) -> Result<Number> {
        pages.clear();
        let mut number = None;
        if place & IN_LIST == 0 {
            pages.push(place);
        } else {
            let (place, mut bytes) = (place & !IN_LIST, [0; Listed::MOST]);
            let left = self.reader.body().len().saturating_sub(place);
            let bytes = &mut bytes[..left.min(Listed::MOST as u64) as usize];
            self.reader.seek(place)?;
            self.reader.fill(bytes)?;
            let list = self.reader.body();
            let listed = Listed::of(bytes).ok_or_else(|| damaged(list))?;
            for page in listed.pages.chunks_exact(PAGE) {
                pages.push(in_range(list.path(), page_of(page), self.all_pages)?);
            }
            number = listed.number;
        }
        let count = || {
            let mut number = Number::default();
            pages.iter().for_each(|&page| number.add(page < self.first_compared));
            number
        };
        Ok(number.unwrap_or_else(count))
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
        let width = self.shape.width();
        let of_some = |groups: Portion<'_>| {
            let firsts = &self.firsts[groups.first * width..][..groups.starts.len() * width];
            let [firsts, others] =
                [firsts, &self.others[groups.whole()]].map(|records| Records::of(records, self.shape));
            let [firsts, others] = [&firsts, &others].map(|records| records.companions(self.shape));
            let (mut found, mut met, mut rest) = (Vec::new(), Met::default(), &others[..]);
            for (first, length) in firsts.iter().zip(groups.lengths()) {
                let (own, behind) = rest.split_at(length / width);
                company.compare(first, own, &mut met, |near| found.push(Edge::from(near)));
                rest = behind;
            }
            (found, met)
        };
        portions(&self.starts, self.others.len()).map(of_some).collect()
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
    let mut list = ListReader::open(&body, header.pages)?;
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
    if let Some(least) = header.crowded {
        inspection.fact("hashes of crowds", format!("left out, from {least} neighbours in a sample on"));
    }
    // A sparse list has its header of the list of all.
    let is_other = match header.crowded {
        None => varying != header.varying,
        Some(_) => varying & !header.varying != 0,
    };
    if is_other || hashes > header.compared {
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
    use super::super::sketch::sketched;
    use super::super::sketches::Folder;
    use super::*;
    use crate::pipeline::Silent;
    use simflip_core::hash::SplitMix64;

    fn body(there: &There) -> Vec<u8> {
        let mut pairs = vec![0; there.body.len() as usize];
        there.body.reader().unwrap().fill(&mut pairs).unwrap();
        pairs
    }

    /// The pairs that each pass finds when bits are cut into so many parts, and so much is joined at a time.
    fn passes(joiner: &Joiner<'_>, (distance, parts): (u32, u32), memory: u64) -> Vec<Vec<u8>> {
        let list = List { parts, ..joiner.list(None).unwrap().unwrap() };
        let passes: Vec<usize> = (1..=list.parted(distance).passes()).collect();
        assert!(passes.len() > DEALT_AT_ONCE, "{}", passes.len());
        let mut left = Left { most: u64::MAX, found: 0 };
        joiner.join_passes(&list, distance, &passes, memory, &mut left).unwrap();
        let found = passes.iter().map(|&pass| joiner.pairs_there(&list, pass).unwrap().unwrap());
        let found: Vec<There> = found.collect();
        assert_eq!(found.iter().map(|there| there.found).sum::<u64>(), left.found);
        found.iter().map(body).collect()
    }

    #[test]
    fn a_list_that_memory_does_not_hold_is_joined_piece_by_piece() {
        let top = tempfile::tempdir().unwrap();
        let mut rng = SplitMix64::new(3);
        let mut word = |n: u64| format!("w{}", rng.below(n));
        let families: Vec<Vec<String>> = (0..900).map(|_| (0..40).map(|_| word(5000)).collect()).collect();
        let text = |at: usize| {
            let mut words = families[at % families.len()].clone();
            if !(at % families.len()).is_multiple_of(7) {
                let changed = at % words.len();
                words[changed] = word(5000);
            }
            words.join(" ")
        };
        let distance = 9;
        let settings = Settings::default().with(|settings| settings.net = Net::Join { distance });
        let sketches = sketched(top.path(), "pages", (0..4000).map(text), settings);
        let folder = Folder::open(&sketches).unwrap();
        let joiner = Joiner::new(&folder, 1 << 30, &Silent).unwrap();
        fs::create_dir_all(folder.joined()).unwrap();
        joiner.make_list(distance, &Bits::new(folder.pages()), &|_| ()).unwrap();
        let list = joiner.list(None).unwrap().unwrap();

        // By its definition, from the list.
        let mut pages = Vec::new();
        let (mut reader, mut listed, mut of_hash) = (
            ListReader::open(&list.body, folder.pages()).unwrap(),
            ListedPages::open(&list.body, folder.pages(), 0).unwrap(),
            Vec::new(),
        );
        let mut of_several = 0;
        while let Some((hash, place)) = reader.next().unwrap() {
            let number = listed.at(place, &mut of_hash).unwrap();
            assert_eq!(number.all as usize, of_hash.len());
            of_several += usize::from(of_hash.len() > 1);
            pages.extend(of_hash.iter().map(|&page| (hash, page)));
        }
        assert!(of_several > 50, "{of_several}");
        let mut expected = std::collections::BTreeSet::new();
        for (at, &(hash, page)) in pages.iter().enumerate() {
            let near = |&&(other, _): &&(u64, u64)| (1..=distance).contains(&(hash ^ other).count_ones());
            expected.extend(pages[..at].iter().filter(near).map(|&(_, other)| pair_bytes(page, other)));
        }
        assert!(expected.len() > 1000, "{}", expected.len());

        for parts in [2, 3, distance + 1] {
            let at_once = passes(&joiner, (distance, parts), 1 << 30);
            let pairs = at_once.concat();
            let found: std::collections::BTreeSet<[u8; PAIR]> = pairs.as_chunks().0.iter().copied().collect();
            assert!(found == expected && pairs.len() == PAIR * found.len(), "{parts}: {}", found.len());
            // With little, one bin is more than is held at a time.
            for memory in [64 << 10, 8 << 10, 2 << 10] {
                assert!(passes(&joiner, (distance, parts), memory) == at_once, "{parts} {memory}");
            }
        }
    }

    #[test]
    #[ignore = "takes half a minute: .ci/nightly"]
    fn crowds_are_thinned_as_by_definition() {
        let top = tempfile::tempdir().unwrap();
        let mut rng = SplitMix64::new(7);
        let mut word = |n: u64| format!("w{}", rng.below(n));
        // A template of 30 words and two of their own, some of which come twice, and pages of many, in pairs.
        let mut some = || (0..30).map(|_| word(5000)).collect::<Vec<_>>().join(" ");
        let (template, others): (String, Vec<String>) = (some(), (0..350).map(|_| some()).collect());
        let texts = (0..2100).map(|at| match at % 3 {
            0 => format!("{} {}", others[at / 3 % others.len()], at / 1050),
            _ => format!("{template} {} {}", word(40), word(40)),
        });
        let texts: Vec<String> = texts.collect();
        let distance = 10;
        let settings = Settings::default().with(|settings| settings.net = Net::Join { distance });
        let sketches = sketched(top.path(), "pages", texts.into_iter(), settings);
        let folder = Folder::open(&sketches).unwrap();
        let found = |most_pairs: fn(u64) -> u64, memory: u64| {
            drop(fs::remove_dir_all(folder.joined()));
            fs::create_dir_all(folder.joined()).unwrap();
            let mut joiner = Joiner::new(&folder, 1 << 30, &Silent).unwrap();
            (joiner.most_pairs, joiner.budget.bytes) = (most_pairs, memory);
            let copies = Bits::new(folder.pages());
            // One part after the other, and what is there is not made again.
            for part in [1, 2] {
                joiner.passes(distance, &copies, format!("{part}/2").parse().unwrap()).unwrap();
            }
            let all = joiner.all_passes(distance).unwrap().unwrap();
            let [own, there] = joiner.passes(distance, &copies, Shard::default()).unwrap();
            assert_eq!(own, there + 1);
            let met = all.iter().fold(Met::default(), |sum, (_, met)| sum.and(*met));
            let there = |(file, met)| body(&There { body: file, met, found: 0 });
            let mut pairs: Vec<[u8; PAIR]> =
                all.into_iter().flat_map(|found| there(found).as_chunks().0.to_vec()).collect();
            pairs.sort_unstable();
            assert!(pairs.is_sorted_by(|a, b| a < b), "none comes twice");
            for file in fs::read_dir(folder.joined()).unwrap() {
                let told = crate::inspect::inspect(&file.unwrap().path()).unwrap();
                assert!(told.problems.is_empty(), "{:?}", told.problems);
            }
            (pairs, [met.thinned, met.sampled])
        };
        let (whole, thinned) = found(|_| u64::MAX, 1 << 30);
        assert_eq!(thinned, [0, 0]);

        // By its definition, from the list.
        let joiner = Joiner::new(&folder, 1 << 30, &Silent).unwrap();
        let list = joiner.list(None).unwrap().unwrap();
        let mut reader = ListReader::open(&list.body, folder.pages()).unwrap();
        let mut listed = ListedPages::open(&list.body, folder.pages(), 0).unwrap();
        let (mut hashes, mut of_hash) = (Vec::new(), Vec::new());
        while let Some((hash, place)) = reader.next().unwrap() {
            listed.at(place, &mut of_hash).unwrap();
            hashes.push((hash, of_hash.clone()));
        }
        assert!(hashes.iter().any(|(_, pages)| pages.len() > 4));
        let mut draw = Draw::new();
        hashes.iter().enumerate().for_each(|(at, &(hash, _))| draw.add(hash, at));
        let sample = draw.finish();
        assert!(sample.hashes().len() < hashes.len());
        let of_least = |least: u32| {
            let shown: Vec<Shown<usize>> =
                hashes.iter().map(|&(hash, _)| sample.of(hash, distance)).collect();
            let is_crowded = |at: usize| shown[at].neighbours >= least;
            let mut beside: Vec<Vec<usize>> = vec![Vec::new(); hashes.len()];
            for order in Order::ALL {
                let mut keys: Vec<(u64, usize)> = (0..hashes.len())
                    .filter(|&at| is_crowded(at))
                    .map(|at| (order.key(hashes[at].0), at))
                    .collect();
                keys.sort_unstable();
                for (rank, &(key, at)) in keys.iter().enumerate() {
                    assert_eq!(order.hash(key), hashes[at].0);
                    let before = keys[..rank].iter().rev().take(16).map(|&(_, other)| other);
                    let near =
                        before.filter(|&other| (hashes[at].0 ^ hashes[other].0).count_ones() <= distance);
                    beside[at].extend(near);
                }
            }
            let mut pairs = Vec::new();
            for (a, (hash, pages)) in hashes.iter().enumerate() {
                let own = pages.iter().flat_map(|page| pages.iter().map(move |other| (page, other)));
                pairs.extend(own.filter(|(a, b)| a > b).map(|(&a, &b)| pair_bytes(a, b)));
                let is_near = |&b: &usize| b != a && (hash ^ hashes[b].0).count_ones() <= distance;
                let others = (0..hashes.len()).filter(|&b| !is_crowded(a) && !is_crowded(b)).filter(is_near);
                let shown = shown[a].nearest.iter().map(|&(_, b)| b);
                for b in others
                    .chain(shown.filter(|&b| is_crowded(a) || is_crowded(b)))
                    .chain(beside[a].iter().copied())
                {
                    let [most, most_others] = Company::shares(pages.len(), hashes[b].1.len());
                    let others = &hashes[b].1[..most_others];
                    pairs.extend(
                        pages[..most].iter().flat_map(|&a| others.iter().map(move |&b| pair_bytes(a, b))),
                    );
                }
            }
            pairs.sort_unstable();
            pairs.dedup();
            let crowded = (0..hashes.len()).filter(|&at| is_crowded(at)).count() as u64;
            (pairs, [crowded, sample.hashes().len() as u64])
        };
        assert!(whole == of_least(u32::MAX).0 && whole.len() > 300_000, "{}", whole.len());
        let of_others = of_least(33);
        assert!(
            2 * of_others.0.len() < whole.len() && (600..900).contains(&of_others.1[0]),
            "{:?}",
            of_others.1
        );
        // Hashes in memory, and dealt out on disk, where few pairs may wait.
        for memory in [1 << 30, 40 << 10] {
            assert!(found(|_| u64::MAX, memory).0 == whole, "{memory}");
            assert!(found(|_| 50_000, memory) == of_others, "{memory}");
            // Not one pair of others may be.
            assert!(found(|_| 0, memory) == of_least(0), "{memory}");
        }
    }

    #[test]
    fn bins_are_taken_together_while_they_fit() {
        assert_eq!(loads(&[3, 4, 5, 0, 9, 0], 9), [0..2, 2..4, 4..6]);
        assert_eq!(loads(&[0, 0, 0], 9), [] as [Range<usize>; 0]);
        assert_eq!(loads(&[3, 10, 2, 10, 0, 1], 9), [0..1, 1..2, 2..3, 3..4, 4..6]);
    }
}
