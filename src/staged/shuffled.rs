//! The second stage where another program sorts: an engine that runs on many machines and can bring records
//! together by a key and put them in order, and that judges by what stands here.
//!
//! It reads the keys of pages ([`SketchedFile::keys`]), finds which keys several pages have, gets the records of
//! those pages ([`SketchedFile::records`]), brings them together by band and key, sorted by their bytes, hands them
//! to [`Groups`], and writes what is near where the third stage looks for it ([`SketchFolder::write_edges`]).
//! Which pages meet and what is near is decided as [`join`](super::join()) decides it.

use super::join::{Gathered, Records, Shape, Throng, begin_edges, is_joined};
use super::record::{Edge, PAGE, page_bytes};
use super::sketches::{Column, Columns, Folder, SketchFile};
use crate::error::{Error, Result};
use crate::making::Unfinished;
use simflip_core::collection::Two;
use simflip_core::company::{Company, Met};
use simflip_core::settings::{Settings, Sketches};
use simflip_core::sketch::Facts;
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How the records of pages look, and who of them is compared with whom.
#[derive(Clone, Copy, Debug)]
pub struct RecordForm {
    bands: usize,
    words: usize,
    least: usize,
    company: Company,
}

impl RecordForm {
    /// That of some settings.
    ///
    /// # Errors
    /// For settings under which near pairs do not show in the sketches of pages that share a key.
    pub fn new(settings: &Settings) -> Result<Self> {
        let company = Company::new(settings)?;
        let Sketches::Both { bits, banding } = settings.sketches else {
            return Err(Error::parameter("sketches", "others", "both"));
        };
        Ok(Self { bands: banding.bands, words: bits / 64, least: settings.min_features.max(1), company })
    }

    /// Bands of keys.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// Bytes of a record.
    pub fn width(&self) -> usize {
        self.shape(0).width()
    }

    /// Pages of one key from which on it may be that not all of them are compared with each other.
    pub fn crowd(&self) -> usize {
        self.company.crowd()
    }

    /// Whether pages of so many features are compared with others.
    pub fn is_compared(&self, features: u32) -> bool {
        features as usize >= self.least
    }

    /// Appends the record of a page for the first band.
    pub fn write(&self, page: u64, facts: &Facts, two: Two<'_>, record: &mut Vec<u8>) {
        two.keys.iter().for_each(|key| record.extend(key.to_be_bytes()));
        // As stages sort bits: the low half of a word comes first.
        two.bits.iter().for_each(|word| record.extend(word.rotate_left(32).to_be_bytes()));
        record.extend(facts.digest.to_be_bytes());
        record.extend(page_bytes(page));
        record.extend(facts.features.to_be_bytes());
        record.extend(two.hash.to_be_bytes());
    }

    /// Appends the record for a band of the page that has this one for the first band.
    ///
    /// # Errors
    /// If it is no record of this form, or there is no such band.
    pub fn turn(&self, first: &[u8], band: usize, record: &mut Vec<u8>) -> Result<()> {
        self.check(band, first)?;
        self.shape(band).turned(first).iter().for_each(|part| record.extend_from_slice(part));
        Ok(())
    }

    fn shape(&self, band: usize) -> Shape {
        Shape { bands: self.bands, words: self.words, band }
    }

    fn check(&self, band: usize, record: &[u8]) -> Result<()> {
        if record.len() != self.width() {
            let expected = format!("{} bytes under these settings", self.width());
            return Err(Error::parameter("record", format!("{} bytes", record.len()), expected));
        }
        self.check_band(band)
    }

    fn check_band(&self, band: usize) -> Result<()> {
        match band < self.bands {
            true => Ok(()),
            false => Err(Error::parameter("band", band, format!("below {}", self.bands))),
        }
    }
}

/// The keys of some pages.
#[derive(Clone, Debug, Default)]
pub struct PageKeys {
    /// Digests of their texts.
    pub digests: Vec<u128>,
    /// Whether they have features enough to be compared.
    pub compared: Vec<bool>,
    /// A key for each band, page by page.
    pub keys: Vec<u32>,
}

/// A file of sketches that is read in pieces.
pub struct SketchedFile {
    form: RecordForm,
    pages: u64,
    columns: Columns,
    gathered: Gathered,
}

impl SketchedFile {
    /// Opens a file; `check` compares its checksum, which takes reading all of it.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn open(path: &Path, check: bool) -> Result<Self> {
        let file = SketchFile::open(path)?;
        if check {
            file.check()?;
        }
        let form = RecordForm::new(&file.header.settings)?;
        let (pages, columns) = (file.header.pages, file.reader()?);
        Ok(Self { form, pages, columns, gathered: Gathered::default() })
    }

    /// Pages of the file.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Bands of keys.
    pub fn bands(&self) -> usize {
        self.form.bands
    }

    /// The keys of `count` pages of the file from its page `from` on.
    ///
    /// # Errors
    /// If the file cannot be read, or has not so many pages.
    pub fn keys(&mut self, from: u64, count: usize) -> Result<PageKeys> {
        self.check(from, count)?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
        let Self { form, columns, .. } = self;
        let mut bytes = Vec::new();
        let mut keys = PageKeys { keys: vec![0; count * form.bands], ..PageKeys::default() };
        columns.read(Column::Digests, from, count, &mut bytes)?;
        keys.digests = bytes.chunks_exact(16).map(number).collect();
        columns.read(Column::Features, from, count, &mut bytes)?;
        keys.compared =
            bytes.chunks_exact(4).map(|features| form.is_compared(number(features) as u32)).collect();
        for band in 0..form.bands {
            columns.read(Column::Keys(band), from, count, &mut bytes)?;
            for (key, bytes) in keys.keys[band..].iter_mut().step_by(form.bands).zip(bytes.chunks_exact(4)) {
                *key = number(bytes) as u32;
            }
        }
        Ok(keys)
    }

    /// Hands over records of pages: for each page its place in the file, the number that it gets, and the bands for
    /// which it is asked. Places ascend.
    ///
    /// # Errors
    /// If the file cannot be read, or there is no such page or band.
    pub fn records<'a>(
        &mut self,
        pages: impl IntoIterator<Item = (u64, u64, &'a [u32])>,
        mut each: impl FnMut(u32, &[u8]),
    ) -> Result<()> {
        /// Pages whose columns are read together.
        const PIECE: u64 = 1 << 12;
        let mut piece = 0..0;
        for (place, page, bands) in pages {
            if !piece.contains(&place) {
                let from = place / PIECE * PIECE;
                piece = from..self.pages.min(from + PIECE);
                let count = piece.end.saturating_sub(piece.start) as usize;
                self.check(place, 1)?;
                self.gathered.read(&mut self.columns, from, count, self.form.shape(0))?;
            }
            for &band in bands {
                self.form.check_band(band as usize)?;
                let shape = self.form.shape(band as usize);
                each(band, self.gathered.record((place - piece.start) as usize, page, shape));
            }
        }
        Ok(())
    }

    fn check(&self, from: u64, count: usize) -> Result<()> {
        match from.checked_add(count as u64).is_some_and(|end| end <= self.pages) {
            true => Ok(()),
            false => Err(Error::parameter("page", from, format!("one of {}", self.pages))),
        }
    }
}

/// A folder of sketches, all of them.
#[derive(Debug)]
pub struct SketchFolder(Folder);

impl SketchFolder {
    /// Opens the sketches of a folder.
    ///
    /// # Errors
    /// As [`join`](super::join()), before it reads them.
    pub fn open(folder: &Path) -> Result<Self> {
        let folder = Folder::open(folder)?;
        RecordForm::new(&folder.settings)?;
        Ok(Self(folder))
    }

    /// Number of all pages.
    pub fn pages(&self) -> u64 {
        self.0.pages()
    }

    /// The settings of all of them.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The files, each with the number of its first page and how many it has.
    pub fn files(&self) -> impl Iterator<Item = (PathBuf, u64, u64)> {
        let files = self.0.files.iter().zip(&self.0.starts);
        files.map(|(file, &start)| (file.path().to_path_buf(), start, file.header.pages))
    }

    /// Whether all files of edges are there, so that the third stage can begin.
    pub fn is_joined(&self) -> bool {
        is_joined(&self.0)
    }

    /// Writes the near pairs that a band brought up, or with none copies, each with the first page of its text, for
    /// the third stage: each pair once, in order of their later pages, and for each in order of the earlier ones.
    ///
    /// # Errors
    /// If they are in another order, there is no such page or band, or the file cannot be written.
    pub fn write_edges(
        &self,
        band: Option<usize>,
        met: Met,
        pairs: impl IntoIterator<Item = super::PagePair>,
    ) -> Result<()> {
        RecordForm::new(&self.0.settings)?.check_band(band.unwrap_or(0))?;
        let (path, mut file) = begin_edges(&self.0, band, met)?;
        let mut last = None;
        for super::PagePair { a, b, distance, similarity } in pairs {
            if a >= b || b >= self.pages() || last.is_some_and(|last| last >= (b, a)) {
                let expected = "pairs of two pages, by the later one and then by the earlier one";
                return Err(Error::parameter("edges", format!("{a}, {b}"), expected));
            }
            last = Some((b, a));
            let edge = Edge { later: b, earlier: a, distance, similarity, may_replace: true };
            file.write_all(&edge.bytes()).map_err(|error| Error::io(&path, error))?;
        }
        file.finish()
    }
}

/// Two pages of a group that are near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupPair {
    /// The band of their key.
    pub band: usize,
    /// Their numbers, or the digests of their texts, the lesser first.
    pub ends: [u128; 2],
    /// Hamming distance of their hashes.
    pub distance: u32,
    /// What the judge measured.
    pub similarity: f32,
}

/// Judges groups of records that share a key.
pub struct Groups {
    form: RecordForm,
    crowded: Vec<HashSet<u32>>,
    by_digest: bool,
    band: usize,
    /// The records of the key at hand, how many came of it, and from how many bytes on they go to disk.
    group: Vec<u8>,
    pages: u64,
    large: usize,
    /// The last record, as it came and as it was taken.
    last: Vec<u8>,
    numbered: Vec<u8>,
    throng: Option<(Unfinished, Throng)>,
    met: Vec<(usize, Met)>,
}

/// Bytes of a group beyond which it goes to disk.
const LARGE_GROUP: usize = 1 << 26;

impl Groups {
    /// Judges groups under these settings. `crowded` names the bands and keys that have [`RecordForm::crowd`] pages or
    /// more, of all pages of all groups; pairs are told `by_digest` or by the numbers of pages.
    ///
    /// # Errors
    /// As [`RecordForm::new`], or if there is no such band.
    pub fn new(
        settings: &Settings,
        crowded: impl IntoIterator<Item = (usize, u32)>,
        by_digest: bool,
    ) -> Result<Self> {
        let form = RecordForm::new(settings)?;
        let mut keys = vec![HashSet::new(); form.bands];
        for (band, key) in crowded {
            form.check_band(band)?;
            keys[band].insert(key);
        }
        Ok(Self {
            form,
            crowded: keys,
            by_digest,
            band: 0,
            group: Vec::new(),
            pages: 0,
            large: LARGE_GROUP,
            last: Vec::new(),
            numbered: Vec::new(),
            throng: None,
            met: Vec::new(),
        })
    }

    /// Where digest and number of the page stand in a record.
    fn facts_at(&self) -> usize {
        4 * self.form.bands + 8 * self.form.words
    }

    /// Takes the next record: they come in the order of bands, and of a band in the order of their bytes.
    ///
    /// # Errors
    /// If it is no record of these settings, or not the next one; or if a group that is too large for memory cannot be
    /// written to the folder for temporary files.
    pub fn push(&mut self, band: usize, record: &[u8], found: &mut dyn FnMut(GroupPair)) -> Result<()> {
        self.form.check(band, record)?;
        if self.pages > 0 {
            let sorted = self.facts_at();
            if (self.band, &self.last[..sorted]) > (band, &record[..sorted]) {
                let expected = "records in the order of bands and of their bytes";
                return Err(Error::parameter("records", "others", expected));
            }
            if self.band != band || self.last[..4] != record[..4] {
                self.end(found)?;
            }
        }
        self.band = band;
        self.last.clear();
        self.last.extend_from_slice(record);
        let mut numbered = std::mem::take(&mut self.numbered);
        numbered.clear();
        numbered.extend_from_slice(record);
        if self.by_digest {
            // Their places in the group tell them apart.
            numbered[self.facts_at() + 16..][..PAGE].copy_from_slice(&page_bytes(self.pages));
        }
        self.pages += 1;
        let added = self.add(&numbered);
        self.numbered = numbered;
        added
    }

    fn add(&mut self, record: &[u8]) -> Result<()> {
        if let Some((_, throng)) = &mut self.throng {
            return throng.push(record);
        }
        self.group.extend_from_slice(record);
        if self.group.len() >= self.large {
            let place = std::env::temp_dir().join("simflip-throng");
            let folder = Unfinished::folder(&place).map_err(|error| Error::io(&place, error))?;
            let mut throng = Throng::create(folder.path().join("records"), self.form.shape(self.band))?;
            self.group.chunks_exact(record.len()).try_for_each(|record| throng.push(record))?;
            self.group.clear();
            self.throng = Some((folder, throng));
        }
        Ok(())
    }

    /// Judges the group at hand.
    fn end(&mut self, found: &mut dyn FnMut(GroupPair)) -> Result<()> {
        self.pages = 0;
        let Self { form, crowded, by_digest, band, .. } = self;
        let (band, by_digest, shape) = (*band, *by_digest, form.shape(*band));
        let is_crowded = |band: usize, key: u32| crowded[band].contains(&key);
        let digest_at = 4 * form.bands + 8 * form.words;
        let digest = |bytes: &[u8]| bytes.iter().fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
        let pair = |edge: Edge, mut ends: [u128; 2]| {
            ends.sort_unstable();
            let distance = edge.distance.unwrap_or_default();
            GroupPair { band, ends, distance, similarity: edge.similarity }
        };
        let met = match self.throng.take() {
            None => {
                let records = Records::of(&self.group, shape);
                let mut pages = records.companions(shape);
                let group = &self.group;
                let mut met = Met::default();
                form.company.meet(band, &mut pages, is_crowded, &mut met, |near| {
                    let edge = Edge::from(near);
                    found(pair(
                        edge,
                        [edge.later, edge.earlier].map(|page| match by_digest {
                            true => digest(&group[page as usize * shape.width() + digest_at..][..16]),
                            false => u128::from(page),
                        }),
                    ));
                });
                self.group.clear();
                met
            }
            Some((_folder, throng)) => {
                let path = throng.path().to_path_buf();
                let io = |error| Error::io(&path, error);
                let mut file = File::open(&path).map_err(io)?;
                let mut end = |page: u64| -> Result<u128> {
                    if !by_digest {
                        return Ok(u128::from(page));
                    }
                    let mut bytes = [0; 16];
                    let at = page * shape.width() as u64 + digest_at as u64;
                    file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut bytes)).map_err(io)?;
                    Ok(digest(&bytes))
                };
                let mut sum = Met::default();
                throng.judge(form.company, is_crowded, &mut |edges, met| {
                    sum = sum.and(met);
                    for edge in edges.chunks_exact(Edge::WIDTH).map(Edge::of) {
                        found(pair(edge, [end(edge.later)?, end(edge.earlier)?]));
                    }
                    Ok(())
                })?;
                sum
            }
        };
        match self.met.iter_mut().find(|(of, _)| *of == band) {
            Some((_, sum)) => *sum = sum.and(met),
            None => self.met.push((band, met)),
        }
        Ok(())
    }

    /// No record is left. Gives what each band took.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn finish(mut self, found: &mut dyn FnMut(GroupPair)) -> Result<Vec<(usize, Met)>> {
        if self.pages > 0 {
            self.end(found)?;
        }
        Ok(self.met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip_core::hash::SplitMix64;

    /// Records of one key: few sketches, some of several texts.
    fn records(form: &RecordForm, n: u64, sketches: u64) -> Vec<Vec<u8>> {
        let mut rng = SplitMix64::new(5);
        let mut records: Vec<Vec<u8>> = (0..n)
            .map(|page| {
                let sketch = rng.below(sketches);
                let mut draws = SplitMix64::new(7);
                let mut bits: Vec<u64> = (0..form.words).map(|_| draws.next_u64()).collect();
                bits[sketch as usize % form.words] ^= sketch << 20;
                let keys: Vec<u32> =
                    (0..form.bands as u32).map(|band| if band < 2 { band } else { sketch as u32 }).collect();
                let facts = Facts { digest: u128::from(page) << 70 | 5, text_bytes: 0, features: 100 };
                let mut record = Vec::new();
                form.write(page, &facts, Two { hash: sketch, bits: &bits, keys: &keys }, &mut record);
                record
            })
            .collect();
        records.sort();
        records
    }

    #[test]
    fn a_group_on_disk_is_judged_as_one_in_memory() {
        let settings = Settings::default();
        let form = RecordForm::new(&settings).unwrap();
        for sketches in [40, 900] {
            let first = records(&form, 1500, sketches);
            for band in [0, 1] {
                let mut turned: Vec<Vec<u8>> = Vec::new();
                for record in &first {
                    let mut other = Vec::new();
                    form.turn(record, band, &mut other).unwrap();
                    turned.push(other);
                }
                turned.sort();
                for by_digest in [false, true] {
                    let judged = |large| {
                        let crowded = [(0, 0), (1, 1)];
                        let mut groups = Groups::new(&settings, crowded, by_digest).unwrap();
                        groups.large = large;
                        let mut pairs = Vec::new();
                        let mut found = |pair: GroupPair| pairs.push((pair.ends, pair.distance));
                        turned.iter().for_each(|record| groups.push(band, record, &mut found).unwrap());
                        let met = groups.finish(&mut found).unwrap();
                        pairs.sort_unstable();
                        (pairs, met)
                    };
                    let (pairs, met) = judged(LARGE_GROUP);
                    assert!(pairs.len() > 1000, "{}", pairs.len());
                    assert_eq!(met[0].1.crowded > 0, sketches > 256);
                    assert_eq!(judged(10_000), (pairs, met));
                }
            }
        }
    }

    #[test]
    fn what_is_no_next_record_is_refused() {
        let form = RecordForm::new(&Settings::default()).unwrap();
        let records = records(&form, 60, 40);
        let mut groups = Groups::new(&Settings::default(), [], true).unwrap();
        let mut push = |band, record: &[u8]| groups.push(band, record, &mut |_| ()).is_ok();
        assert!(push(0, &records[30]) && push(0, &records[59]) && !push(0, &records[0]));
        assert!(push(1, &records[0]) && !push(15, &records[0]) && !push(1, &records[0][1..]));
        assert!(Groups::new(&Settings::default(), [(15, 0)], true).is_err());
        assert!(form.turn(&records[0][1..], 0, &mut Vec::new()).is_err());
    }
}
