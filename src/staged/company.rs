//! Which pages have company in a band: others that share the band's key.
//!
//! Pages are dealt out by the first bits of their keys, into parts of which a cache holds what tells keys that come
//! once from those that come again; only the latter are sorted. Where memory does not hold all of a band, its keys
//! are read again for each range of parts that it does hold.

use super::join::{Joiner, Repeats, bands_of, bits_bytes, gone, longs, there, words};
use super::record::MOST_PAGES;
use super::sketches::Column;
use super::sorter::Sorter;
use super::{belongs_to, odd_length, workplace};
use crate::error::{Error, Result};
use crate::format::{self, Body, COMPANY, NewBinary};
use crate::inspection::Inspection;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use simflip_core::internal::memory::untouched;
use simflip_core::settings::Settings;
use simflip_core::streamed::Bits;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

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

/// Bits of a page's number.
const PAGE_BITS: u32 = MOST_PAGES.trailing_zeros();

/// How pages are dealt out by their keys. A page is written as what its part leaves of its key, and behind that its
/// number, counted from the last page, which so comes first.
#[derive(Clone, Copy)]
struct Dealing {
    /// Bits of a key that tell its part.
    bits: u32,
    last: u64,
}

impl Dealing {
    fn of(pages: u64) -> Self {
        /// Pages of a part: what tells which of their keys come again takes four bytes of each.
        const PART: u64 = 1 << 14;
        /// What a part leaves of a key has room beside a page's number.
        const LEAST: u32 = u32::BITS + PAGE_BITS - u64::BITS;
        /// The ends of more parts would be too many for a cache.
        const MOST: u32 = 14;
        let bits = (pages / PART).max(1).ilog2() + 1;
        Self { bits: bits.clamp(LEAST, MOST), last: pages.saturating_sub(1) }
    }

    fn parts(self) -> usize {
        1 << self.bits
    }

    fn part(self, key: u32) -> usize {
        (key >> (u32::BITS - self.bits)) as usize
    }

    fn written(self, key: u32, page: u64) -> u64 {
        let rest = u64::from(key << self.bits >> self.bits);
        rest << PAGE_BITS | (self.last - page)
    }

    /// How many rests of keys there are in a part.
    fn rests(self) -> u64 {
        1 << (u32::BITS - self.bits)
    }

    /// The rest of a key.
    fn rest(written: u64) -> u64 {
        written >> PAGE_BITS
    }

    fn key(self, part: usize, written: u64) -> u32 {
        (part as u32) << (u32::BITS - self.bits) | Self::rest(written) as u32
    }

    fn page(self, written: u64) -> u64 {
        self.last - (written & (MOST_PAGES - 1))
    }
}

/// A band, and the pages whose keys are looked at.
#[derive(Clone, Copy)]
struct Keyed<'a> {
    band: usize,
    dealing: Dealing,
    /// Pages that are not.
    copies: &'a Bits,
}

/// What a part of the pages comes to.
#[derive(Default)]
struct Found {
    /// Pages with company.
    pages: Vec<u64>,
    /// Keys of crowds, ascending.
    crowded: Vec<u32>,
}

/// The groups of a part's pages, which come one by one, in order as they are written.
struct Groups {
    dealing: Dealing,
    part: usize,
    /// Among pages before this one nobody asks for company.
    first_compared: u64,
    crowd: usize,
    /// Key, first page and size of the last group.
    last: Option<(u32, u64, usize)>,
}

impl Groups {
    fn add(&mut self, written: u64, found: &mut Found) {
        let (key, page) = (self.dealing.key(self.part, written), self.dealing.page(written));
        match &mut self.last {
            Some((of, first, size)) if *of == key => {
                *size += 1;
                // The first is the last of all.
                if *first >= self.first_compared {
                    if *size == 2 {
                        found.pages.push(*first);
                    }
                    found.pages.push(page);
                }
                if *size == self.crowd {
                    found.crowded.push(key);
                }
            }
            last => *last = Some((key, page, 1)),
        }
    }
}

/// What one band comes to.
struct Sharing {
    company: Bits,
    crowded: Vec<u32>,
}

impl Sharing {
    fn add(&mut self, found: &Found) {
        found.pages.iter().for_each(|&page| self.company.set(page));
        self.crowded.extend_from_slice(&found.crowded);
    }
}

impl Joiner<'_> {
    /// Finds which pages have company in the bands of which that is not known yet.
    pub(super) fn all_company(&self, copies: &Bits) -> Result<()> {
        let mut missing = Vec::new();
        for band in 0..bands_of(self.folder) {
            if self.company_there(band)?.is_none() {
                missing.push(band);
            }
        }
        // Each with its part of the memory, which should hold what is dealt out at once.
        let of_all = 3 * size_of::<u64>() as u64 * self.folder.pages().max(1);
        let at_once = (self.budget.bytes / of_all).clamp(1, rayon::current_num_threads() as u64);
        for some in missing.chunks(at_once as usize) {
            self.step_of_bands("company", some, |advance| {
                let memory = self.budget.bytes / some.len() as u64;
                some.par_iter().try_for_each(|&band| self.write_company(band, copies, memory, advance))
            })?;
        }
        Ok(())
    }

    fn write_company(
        &self,
        band: usize,
        copies: &Bits,
        memory: u64,
        advance: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let path = self.places.company(band);
        let work = workplace(&path)?;
        let dealing = Dealing::of(self.folder.pages());
        let keyed = Keyed { band, dealing, copies };
        let mut sizes = vec![0usize; dealing.parts()];
        self.each_keys(keyed, &|_| (), |_, keys| {
            for &(_, key) in keys {
                sizes[dealing.part(key)] += 1;
            }
            Ok(())
        })?;
        let mut sharing = Sharing { company: Bits::new(self.folder.pages()), crowded: Vec::new() };
        // As much again for those that are found at a time, and for what tells which keys come again.
        let room = memory as usize / 3 / size_of::<u64>();
        let mut from = 0;
        while from < sizes.len() {
            let mut held = 0;
            let fits = |&size: &&usize| {
                held += size;
                held <= room
            };
            let parts = from..from + sizes[from..].iter().take_while(fits).count();
            // A part that does not fit is taken alone.
            from = parts.end.max(from + 1);
            // All is told of the last reading.
            let is_last = from == sizes.len();
            let advance = |pages| {
                if is_last {
                    advance(pages);
                }
            };
            if parts.is_empty() {
                let part = parts.start;
                let mut sorter = Sorter::new(size_of::<u64>(), memory / 2, work.path(), "keys");
                self.each_keys(keyed, &advance, |first, keys| {
                    let mut of_part = keys.iter().filter(|(_, key)| dealing.part(*key) == part);
                    of_part.try_for_each(|&(at, key)| {
                        sorter.push(&dealing.written(key, first + u64::from(at)).to_be_bytes())
                    })
                })?;
                let (mut sorted, mut groups) = (sorter.finish()?, self.groups(dealing, part));
                let mut found = Found::default();
                while let Some(written) = sorted.next()? {
                    let written = written.first_chunk().map_or(0, |&bytes| u64::from_be_bytes(bytes));
                    groups.add(written, &mut found);
                    sharing.add(&found);
                    found.pages.clear();
                    found.crowded.clear();
                }
            } else {
                self.share(keyed, parts.clone(), &sizes[parts], &mut sharing, &advance)?;
            }
        }
        let Sharing { company, crowded } = sharing;
        let header = CompanyHeader {
            with_company: company.count(),
            crowded: crowded.len() as u64,
            ..self.company_header(band)
        };
        let mut file = NewBinary::begin(&path, COMPANY, &header)?;
        let bits = company.words().iter().try_for_each(|word| file.write_all(&word.to_le_bytes()));
        bits.and_then(|()| crowded.iter().try_for_each(|key| file.write_all(&key.to_le_bytes())))
            .map_err(|error| Error::io(&path, error))?;
        file.finish()
    }

    /// Hands over the keys of a band of all pages that are compared, some at a time: the first page, and how far behind
    /// it each page with a key is.
    fn each_keys(
        &self,
        Keyed { band, copies, .. }: Keyed<'_>,
        advance: &dyn Fn(u64),
        mut each: impl FnMut(u64, &[(u32, u32)]) -> Result<()>,
    ) -> Result<()> {
        let least = self.folder.settings.min_features.max(1);
        let (mut features, mut keys, mut compared) = (Vec::new(), Vec::new(), Vec::new());
        self.scan(advance, |columns, page, from, count| {
            columns.read(Column::Features, from, count, &mut features)?;
            columns.read(Column::Keys(band), from, count, &mut keys)?;
            let [features, keys] = [&features, &keys].map(|column| column.as_chunks::<4>().0);
            compared.resize(count, (0, 0));
            let mut end = 0;
            for at in 0..count {
                compared[end] = (at as u32, u32::from_le_bytes(keys[at]));
                let is_compared = u32::from_le_bytes(features[at]) as usize >= least;
                end += usize::from(is_compared & !copies.get(page + at as u64));
            }
            each(page, &compared[..end])
        })
    }

    fn groups(&self, dealing: Dealing, part: usize) -> Groups {
        let (first_compared, crowd) = (self.folder.first_compared(), self.company.crowd());
        Groups { dealing, part, first_compared, crowd, last: None }
    }

    /// Deals out the pages of some parts, which have these sizes, and finds who shares a key.
    fn share(
        &self,
        keyed: Keyed<'_>,
        parts: Range<usize>,
        sizes: &[usize],
        sharing: &mut Sharing,
        advance: &dyn Fn(u64),
    ) -> Result<()> {
        let (mut ends, mut all) = (Vec::with_capacity(sizes.len()), 0);
        for size in sizes {
            ends.push(all);
            all += size;
        }
        let (mut dealt, dealing) = (untouched::<u64>(all), keyed.dealing);
        self.each_keys(keyed, advance, |first, keys| {
            for &(at, key) in keys {
                // Parts before those of the range have numbers beyond all.
                if let Some(end) = ends.get_mut(dealing.part(key).wrapping_sub(parts.start)) {
                    dealt[*end] = dealing.written(key, first + u64::from(at));
                    *end += 1;
                }
            }
            Ok(())
        })?;
        let (mut of_parts, mut rest) = (Vec::with_capacity(sizes.len()), &mut dealt[..]);
        for (part, &size) in parts.zip(sizes) {
            let (pages, behind) = rest.split_at_mut(size);
            of_parts.push((part, pages));
            rest = behind;
        }
        let of_part = |repeats: &mut Repeats, (part, pages): &mut (usize, &mut [u64])| {
            repeats.begin(pages.len() as u64, dealing.rests());
            for &written in &**pages {
                repeats.note(Dealing::rest(written));
            }
            let mut end = 0;
            for at in 0..pages.len() {
                let written = pages[at];
                pages[end] = written;
                end += usize::from(repeats.may_repeat(Dealing::rest(written)));
            }
            let again = &mut pages[..end];
            again.sort_unstable();
            let (mut found, mut groups) = (Found::default(), self.groups(dealing, *part));
            for &written in &*again {
                groups.add(written, &mut found);
            }
            found
        };
        /// Parts whose pages with company are held at a time.
        const AT_A_TIME: usize = 64;
        for some in of_parts.chunks_mut(AT_A_TIME) {
            let found: Vec<Found> = some.par_iter_mut().map_init(Repeats::default, of_part).collect();
            found.iter().for_each(|found| sharing.add(found));
        }
        Ok(())
    }

    /// What stands in front of the company of a band, before that is known.
    fn company_header(&self, band: usize) -> CompanyHeader {
        CompanyHeader {
            sketches: self.folder.id.clone(),
            settings: self.folder.settings.clone(),
            pages: self.folder.pages(),
            band,
            with_company: 0,
            crowded: 0,
        }
    }

    fn company_there(&self, band: usize) -> Result<Option<(CompanyHeader, Body)>> {
        let path = self.places.company(band);
        let Some((header, body)) = there::<CompanyHeader>(&path, COMPANY)? else { return Ok(None) };
        let CompanyHeader { with_company, crowded, .. } = header;
        belongs_to(&path, header == CompanyHeader { with_company, crowded, ..self.company_header(band) })?;
        check_company(&header, &body)?;
        Ok(Some((header, body)))
    }

    /// The keys of a band of which not all pages may be compared with each other, ascending.
    pub(super) fn read_crowded(&self, band: usize) -> Result<Vec<u32>> {
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

    /// Which pages have company in a band.
    pub(super) fn read_company(&self, band: usize) -> Result<Bits> {
        let mut bits = Vec::with_capacity((bits_bytes(self.folder.pages()) / 8) as usize);
        self.each_of_company(band, |word| bits.push(word))?;
        Ok(Bits::from_words(bits))
    }

    /// How many pages have company in a band, and how many have or are among these.
    pub(super) fn count_company(&self, band: usize, among: &Bits) -> Result<[u64; 2]> {
        let (mut others, mut counts) = (among.words().iter(), [0, 0]);
        self.each_of_company(band, |word| {
            let all = word | others.next().copied().unwrap_or(0);
            counts[0] += u64::from(word.count_ones());
            counts[1] += u64::from(all.count_ones());
        })?;
        Ok(counts)
    }

    /// Hands over the words of the bits that say which pages have company in a band.
    fn each_of_company(&self, band: usize, mut each: impl FnMut(u64)) -> Result<()> {
        let Some((header, body)) = self.company_there(band)? else {
            return Err(gone(&self.places.company(band)));
        };
        let mut reader = body.reader()?;
        let mut piece = [0; 1 << 13];
        let mut left = bits_bytes(header.pages) as usize;
        while left > 0 {
            let n = left.min(piece.len());
            reader.fill(&mut piece[..n])?;
            longs(&piece[..n]).for_each(&mut each);
            left -= n;
        }
        Ok(())
    }
}

fn check_company(header: &CompanyHeader, body: &Body) -> Result<()> {
    let crowded = header.crowded.checked_mul(4);
    match crowded.and_then(|crowded| crowded.checked_add(bits_bytes(header.pages))) == Some(body.len()) {
        true => Ok(()),
        false => Err(odd_length(body.path(), COMPANY, body.len())),
    }
}

/// What [`inspect`](crate::inspect) tells of a file of company.
pub fn check_file(path: &Path) -> Result<Inspection> {
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
    use super::super::sketch::sketched;
    use super::super::sketches::Folder;
    use super::*;
    use crate::pipeline::Silent;
    use crate::settings::Settings;
    use simflip_core::hash::SplitMix64;
    use std::collections::BTreeMap;
    use std::fs;

    /// What a file of company holds.
    fn read(joiner: &Joiner<'_>, band: usize) -> (Vec<u64>, Vec<u32>) {
        let company = joiner.read_company(band).unwrap();
        let pages: Vec<u64> = (0..joiner.folder.pages()).filter(|&page| company.get(page)).collect();
        assert_eq!(joiner.company_there(band).unwrap().unwrap().0.with_company, pages.len() as u64);
        (pages, joiner.read_crowded(band).unwrap())
    }

    #[test]
    fn company_is_what_its_definition_says_however_little_is_held() {
        let mut rng = SplitMix64::new(5);
        let mut text = |at: usize| {
            // Of a crowd, of a family of three, alone, or too short.
            let (family, words) = match at % 8 {
                0..4 => (0, 200),
                4..6 => (1 + at / 16, 60),
                6 => (10_000 + at, 60),
                _ => (20_000 + at % 3, 2),
            };
            let mut of_family = SplitMix64::new(family as u64);
            let mut words: Vec<String> = (0..words).map(|_| format!("w{}", of_family.below(9000))).collect();
            *words.last_mut().unwrap() = format!("w{}", rng.below(9000));
            words.join(" ")
        };
        let top = tempfile::tempdir().unwrap();
        let settings = Settings::default().with(|settings| settings.min_features = 5);
        let old = sketched(top.path(), "old", (0..500).map(&mut text), settings.clone());
        let new = sketched(top.path(), "new", (500..1500).map(&mut text), settings);
        for against in [vec![], vec![old]] {
            let folder = Folder::open_against(&new, &against).unwrap();
            let joiner = Joiner::new(&folder, 1 << 30, &Silent).unwrap();
            fs::create_dir_all(folder.joined()).unwrap();
            let mut copies = Bits::new(folder.pages());
            (0..folder.pages()).step_by(10).for_each(|page| copies.set(page));
            for band in [0, 9, bands_of(&folder) - 1] {
                let mut of_keys = BTreeMap::<u32, Vec<u64>>::new();
                joiner
                    .scan(&|_| (), |columns, page, from, count| {
                        let (mut keys, mut features) = (Vec::new(), Vec::new());
                        columns.read(Column::Keys(band), from, count, &mut keys)?;
                        columns.read(Column::Features, from, count, &mut features)?;
                        for ((page, key), features) in (page..).zip(words(&keys)).zip(words(&features)) {
                            if features >= 5 && !copies.get(page) {
                                of_keys.entry(key).or_default().push(page);
                            }
                        }
                        Ok(())
                    })
                    .unwrap();
                let with_new = |pages: &&Vec<u64>| pages.last() >= Some(&folder.first_compared());
                let mut pages: Vec<u64> = of_keys
                    .values()
                    .filter(with_new)
                    .filter(|pages| pages.len() > 1)
                    .flatten()
                    .copied()
                    .collect();
                pages.sort_unstable();
                let is_crowd = |(_, pages): &(&u32, &Vec<u64>)| pages.len() >= joiner.company.crowd();
                let crowded: Vec<u32> = of_keys.iter().filter(is_crowd).map(|(&key, _)| key).collect();
                assert!(pages.len() > 400 && pages.len() < 1100, "{}", pages.len());
                assert!(crowded.len() == 1, "{crowded:?}");
                // So many pages are dealt out at a time; parts of more are sorted.
                for held in [0, 1, 40, 250, 10_000] {
                    let memory = held * 3 * size_of::<u64>() as u64;
                    joiner.write_company(band, &copies, memory, &|_| ()).unwrap();
                    assert_eq!(read(&joiner, band), (pages.clone(), crowded.clone()), "{held} {band}");
                    fs::remove_file(joiner.places.company(band)).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_page_and_its_key_are_what_is_written_of_them() {
        for pages in [1, 20_000, 1 << 20, 1 << 27, MOST_PAGES] {
            let dealing = Dealing::of(pages);
            for (key, page) in [(0, 0), (u32::MAX, pages - 1), (0x8000_0001, pages / 2), (77, pages / 3)] {
                let (part, written) = (dealing.part(key), dealing.written(key, page));
                assert!(part < dealing.parts() && Dealing::rest(written) < dealing.rests());
                assert_eq!((dealing.key(part, written), dealing.page(written)), (key, page));
            }
        }
    }
}
