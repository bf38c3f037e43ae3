//! Pages in the order in which they are kept. Where that is not the order of their numbers, pages that are near
//! others have ranks, and pairs are told by ranks: the page that stays comes first, as it does where pages are told
//! by numbers.

use super::Budget;
use super::cluster::{Grouping, List, Numbers, Records, pair};
use super::join::{in_range, source, words};
use super::record::{Edge, PAGE, page_bytes, page_of};
use super::sketches::{CHUNK, Column, Folder};
use super::sorter::{LongSorter, Merge, Sorter, Source};
use crate::error::{Error, Result};
use crate::format::Body;
use crate::pipeline::sources::{folder_name, no_score, number_of_host, score_of_place, unscored_warning};
use simflip_core::clusters::{Keep, Source as SourceKind};
use simflip_core::streamed::Bits;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// What is known of files of sketches beside what is in them, in their order.
#[derive(Clone, Debug, Default)]
pub struct OfFiles {
    /// The number of the folder that each is in.
    folders: Vec<u64>,
    /// The score of each file's pages, where the order in which inputs were named decides.
    scores: Vec<f64>,
}

impl OfFiles {
    /// Of files of these paths, all of them with these scores, if there are any.
    pub fn new<'a>(paths: impl Iterator<Item = &'a Path>, scores: Vec<f64>) -> Self {
        let mut numbers = hashbrown::HashMap::new();
        let number = |path| {
            let next = numbers.len() as u64;
            *numbers.entry(folder_name(path)).or_insert(next)
        };
        Self { folders: paths.map(number).collect(), scores }
    }

    /// By the paths that sketches tell.
    pub fn of(folder: &Folder, grouping: &Grouping) -> Self {
        let paths = || folder.files.iter().map(|file| Path::new(&file.header.input.path));
        let place = |path: &Path| grouping.priority.iter().position(|first| path.starts_with(first));
        let scores = match grouping.priority.is_empty() {
            true => Vec::new(),
            false => paths().map(|path| score_of_place(place(path))).collect(),
        };
        Self::new(paths(), scores)
    }
}

/// What the user should know of new pages without a score, where scores decide who stays.
///
/// # Errors
/// If no page has a score, or a file cannot be read.
pub fn unscored(folder: &Folder, keep: &Keep) -> Result<Option<String>> {
    if keep.score_field().is_none() {
        return Ok(None);
    }
    let ([mut none, mut scored], mut scores) = ([0; 2], Vec::new());
    for (at, file) in folder.files.iter().enumerate() {
        let is_new = at >= folder.old_files;
        if file.header.reading.fields.score.as_deref() != keep.score_field() {
            none += if is_new { file.header.pages } else { 0 };
            continue;
        }
        let mut columns = file.reader()?;
        for from in (0..file.header.pages).step_by(CHUNK as usize) {
            columns.read(
                Column::Scores,
                from,
                (file.header.pages - from).min(CHUNK) as usize,
                &mut scores,
            )?;
            let without =
                scores.as_chunks().0.iter().filter(|&&score| f64::from_le_bytes(score).is_infinite());
            let without = without.count() as u64;
            scored += scores.len() as u64 / 8 - without;
            none += if is_new { without } else { 0 };
        }
    }
    if scored == 0 { Err(no_score(keep)) } else { Ok(unscored_warning(keep, none)) }
}

/// All pairs of a folder of sketches that was joined, by numbers in whose order pages are kept. Copies come with the
/// one of them that stays for all; only such ones are near others.
pub struct Graph {
    pairs: Pairs,
    /// How many numbers there are.
    numbers: u64,
    first_new: u64,
}

enum Pairs {
    /// By the numbers of pages.
    ByNumber(Vec<Body>),
    /// By ranks.
    ByRank { copies: PathBuf, near: PathBuf, ranked: PathBuf },
}

/// A page of a rank, and the number of its source.
const RANKED: usize = PAGE + 8;

/// Numbers of a page in a list by pages: itself, a rank, and how many features it has.
const OF_PAGE: usize = 3;

impl Graph {
    /// The pairs of a folder, which are [`all_edges`](super::join::all_edges), as somebody is to stay of each
    /// cluster. What is sorted for it is in `work`.
    ///
    /// # Errors
    /// If a file is damaged, or the disk is full.
    pub fn new(
        folder: &Folder,
        bodies: Vec<Body>,
        grouping: &Grouping,
        files: &OfFiles,
        work: &Path,
        budget: &Budget,
    ) -> Result<Self> {
        if grouping.goes_by_number(folder.settings.judge) {
            let (numbers, first_new) = (folder.pages(), folder.first_new());
            return Ok(Self { pairs: Pairs::ByNumber(bodies), numbers, first_new });
        }
        Ranking { folder, grouping, files, work, budget }.graph(&bodies)
    }

    /// How many numbers there are: of pages, or ranks.
    pub fn numbers(&self) -> u64 {
        self.numbers
    }

    /// The first number of a new page.
    pub fn first_new(&self) -> u64 {
        self.first_new
    }

    /// All pairs, by their later pages, each once.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn edges(&self) -> Result<Merge> {
        self.edges_and(None)
    }

    /// All pairs, by their later pages, each once, and those of another list in that order.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn edges_and(&self, more: Option<&Path>) -> Result<Merge> {
        let mut sources = match &self.pairs {
            Pairs::ByNumber(bodies) => bodies.iter().map(source).collect::<Result<Vec<_>>>()?,
            Pairs::ByRank { copies, near, .. } => vec![list(copies)?, list(near)?],
        };
        if let Some(more) = more {
            sources.push(list(more)?);
        }
        Merge::of(Edge::WIDTH, sources)
    }

    /// Copies alone.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn copies(&self) -> Result<Merge> {
        let copies = match &self.pairs {
            Pairs::ByNumber(bodies) => source(&bodies[0])?,
            Pairs::ByRank { copies, .. } => list(copies)?,
        };
        Merge::of(Edge::WIDTH, vec![copies])
    }

    /// What turns ascending numbers back into pages.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn pages(&self) -> Result<PagesOf> {
        match &self.pairs {
            Pairs::ByNumber(_) => Ok(PagesOf { ranked: None, next: 0, last: (0, 0) }),
            Pairs::ByRank { ranked, .. } => {
                Ok(PagesOf { ranked: Some(Records::open(ranked, RANKED)?), next: 0, last: (0, 0) })
            }
        }
    }

    /// Whether numbers are those of pages.
    pub fn is_by_number(&self) -> bool {
        matches!(self.pairs, Pairs::ByNumber(_))
    }
}

pub(super) fn list(path: &Path) -> Result<Source> {
    let file = File::open(path).map_err(|error| Error::io(path, error))?;
    Ok((path.to_path_buf(), Box::new(BufReader::with_capacity(1 << 16, file))))
}

/// Pages by their numbers in a [`Graph`], which are asked for in ascending order.
pub struct PagesOf {
    ranked: Option<Records>,
    /// The rank that is read next.
    next: u64,
    last: (u64, u64),
}

impl PagesOf {
    /// The page of a number.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(&mut self, number: u64) -> Result<u64> {
        Ok(self.with_source(number)?.0)
    }

    /// The page of a number, and the number of its source; 0 where nobody asked for sources.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn with_source(&mut self, number: u64) -> Result<(u64, u64)> {
        let Some(ranked) = &mut self.ranked else { return Ok((number, 0)) };
        while self.next <= number {
            let Some(record) = ranked.next()? else {
                return Err(Error::io(ranked.path(), std::io::ErrorKind::UnexpectedEof.into()));
            };
            let source = record[PAGE..].first_chunk().map_or(0, |&source| u64::from_be_bytes(source));
            self.last = (page_of(record), source);
            self.next += 1;
        }
        Ok(self.last)
    }
}

/// Rank and number of features of a page, in a list of all that are asked for.
fn must(list: &mut Numbers<OF_PAGE>, page: u64) -> Result<(u64, u32)> {
    let of = list.of(page)?.map(|[_, rank, features]| (rank, features as u32));
    of.ok_or_else(|| Error::io(list.path(), std::io::ErrorKind::InvalidData.into()))
}

fn two(record: &[u8]) -> (u64, u64) {
    (page_of(record), page_of(&record[PAGE..]))
}

struct Ranking<'a> {
    folder: &'a Folder,
    grouping: &'a Grouping,
    files: &'a OfFiles,
    work: &'a Path,
    budget: &'a Budget,
}

impl Ranking<'_> {
    fn sorter(&self, width: usize, name: &'static str) -> Sorter {
        Sorter::new(width, self.budget.bytes / 4, self.work, name)
    }

    fn list(&self, name: &str) -> Result<List> {
        List::create(self.work.join(name))
    }

    fn graph(&self, bodies: &[Body]) -> Result<Graph> {
        let mut keyed = self.keyed(&self.paired(bodies)?)?;
        let (mut list, mut by_page) = (self.list("ranked")?, self.sorter(OF_PAGE * PAGE, "ranks"));
        let (mut numbers, mut first_new) = (0, 0);
        while let Some(record) = keyed.next()? {
            // Page, source and features stand behind the key.
            let (ranked, features) = record[record.len() - RANKED - PAGE..].split_at(RANKED);
            list.put(ranked)?;
            by_page.push(&[&ranked[..PAGE], &page_bytes(numbers), features].concat())?;
            numbers += 1;
            first_new += u64::from(page_of(ranked) < self.folder.first_new());
        }
        let ranked = list.finish()?;
        drop(keyed);
        let ranks = List::of(self.work.join("ranks.by-page"), by_page.finish()?)?;
        let (copies, leaders) = self.copies(&bodies[0], &ranks)?;
        let near = self.near(&bodies[1..], &leaders)?;
        Ok(Graph { pairs: Pairs::ByRank { copies, near, ranked }, numbers, first_new })
    }

    /// The pages that have pairs.
    fn paired(&self, bodies: &[Body]) -> Result<Bits> {
        let pages = self.folder.pages();
        let mut paired = Bits::new(pages);
        for body in bodies {
            let mut edges = Merge::of(Edge::WIDTH, vec![source(body)?])?;
            while let Some(edge) = edges.next()? {
                let (later, earlier) = two(edge);
                paired.set(in_range(body.path(), later, pages)?);
                paired.set(in_range(body.path(), earlier, later)?);
            }
        }
        Ok(paired)
    }

    /// These pages in order, each as bytes that end with its number, the number of its source, and how many features it
    /// has.
    fn keyed(&self, pages: &Bits) -> Result<Merge> {
        let Grouping { keep, quota, .. } = self.grouping;
        let mut keyed = LongSorter::new(self.budget.bytes / 4, self.work, "keys");
        let needs_names =
            !matches!(keep, Keep::First | Keep::InputOrder) || quota.each == Some(SourceKind::Host);
        let (mut digests, mut lengths, mut features) = (vec![], vec![], vec![]);
        let (mut scores, mut record) = (vec![], vec![]);
        for (at, file) in self.folder.files.iter().enumerate() {
            let (start, end) = (self.folder.starts[at], self.folder.starts[at + 1]);
            if !(start..end).any(|page| pages.get(page)) {
                continue;
            }
            // What was damaged since the join must not decide who stays.
            file.check()?;
            let mut names = if needs_names { Some(file.each_name()?) } else { None };
            let (mut columns, is_new) = (file.reader()?, at >= self.folder.old_files);
            for from in (0..file.header.pages).step_by(CHUNK as usize) {
                let count = (file.header.pages - from).min(CHUNK) as usize;
                columns.read(Column::Digests, from, count, &mut digests)?;
                columns.read(Column::Lengths, from, count, &mut lengths)?;
                columns.read(Column::Features, from, count, &mut features)?;
                scores.clear();
                if keep.score_field().is_some()
                    && file.header.reading.fields.score.as_deref() == keep.score_field()
                {
                    columns.read(Column::Scores, from, count, &mut scores)?;
                }
                for (place, (length, features)) in words(&lengths).zip(words(&features)).enumerate() {
                    let page = start + from + place as u64;
                    let named = names.as_mut().and_then(Iterator::next).transpose()?;
                    if !pages.get(page) {
                        continue;
                    }
                    let url = named.as_ref().and_then(|named| named.url.as_deref());
                    record.clear();
                    record.push(u8::from(is_new));
                    match keep {
                        Keep::First => {}
                        Keep::InputOrder => put_score(self.files.scores.get(at).copied(), &mut record),
                        Keep::Score(_) => put_score(score_at(&scores, place), &mut record),
                        Keep::Fullest => {
                            record.extend([features, length].map(|most| (!most).to_be_bytes()).concat());
                        }
                        Keep::Longest => record.extend_from_slice(&(!length).to_be_bytes()),
                        Keep::ShortestUrl => {
                            let url = url.filter(|url| !url.is_empty());
                            record.extend(url.map_or(u64::MAX, |url| url.len() as u64).to_be_bytes());
                            put_text(url, &mut record);
                        }
                    }
                    if !matches!(keep, Keep::First | Keep::InputOrder) {
                        record.extend(digests[16 * place..][..16].iter().rev());
                        put_text(url, &mut record);
                    }
                    record.extend_from_slice(&page_bytes(page));
                    let source = match quota.each {
                        None => 0,
                        Some(SourceKind::File) => at as u64,
                        Some(SourceKind::Folder) => self.files.folders.get(at).copied().unwrap_or_default(),
                        Some(SourceKind::Host) => number_of_host(url),
                    };
                    record.extend_from_slice(&source.to_be_bytes());
                    record.extend_from_slice(&page_bytes(u64::from(features)));
                    keyed.push(&record)?;
                }
            }
        }
        keyed.finish()
    }

    /// Copies by rank, each with the one that stays for all, and of every page that has a pair the rank of the page
    /// that stays for its text, by page, with its features.
    fn copies(&self, body: &Body, ranks: &Path) -> Result<(PathBuf, PathBuf)> {
        // First page of the text, rank.
        let mut texts = self.sorter(2 * PAGE, "texts");
        let (mut edges, mut rank) = (Merge::of(Edge::WIDTH, vec![source(body)?])?, Numbers::open(ranks)?);
        while let Some(edge) = edges.next()? {
            let (page, first) = two(edge);
            let (rank, _) = must(&mut rank, page)?;
            texts.push(&pair(first, rank))?;
        }
        drop(edges);
        let (mut texts, mut rank) = (texts.finish()?, Numbers::open(ranks)?);
        let (mut copies, mut leaders) =
            (self.sorter(Edge::WIDTH, "copies by rank"), self.list("leaders.copied")?);
        let mut last = None;
        while let Some((first, copy)) = texts.next()?.map(two) {
            let leader = match last {
                Some((of, leader)) if of == first => leader,
                _ => {
                    // The copies of a text ascend.
                    let (of_first, _) = must(&mut rank, first)?;
                    let leader = copy.min(of_first);
                    if of_first != leader {
                        copies.push(&Edge::copy(of_first, leader).bytes())?;
                    }
                    leaders.put(&pair(first, leader))?;
                    last = Some((first, leader));
                    leader
                }
            };
            if copy != leader {
                copies.push(&Edge::copy(copy, leader).bytes())?;
            }
        }
        drop(texts);
        let copied = leaders.finish()?;
        let (mut copied, mut ranks) = (Numbers::<2>::open(&copied)?, Numbers::<OF_PAGE>::open(ranks)?);
        let mut leaders = self.list("leaders")?;
        while let Some([page, rank, features]) = ranks.take()? {
            let leader = copied.of(page)?.map_or(rank, |[_, leader]| leader);
            // Copies have the same features.
            leaders.put(&[page, leader, features].map(page_bytes).concat())?;
        }
        Ok((List::of(self.work.join("copies.edges"), copies.finish()?)?, leaders.finish()?))
    }

    /// Near pairs, each by the ranks of the pages that stay for the two texts. Each says if the later one may be
    /// removed in favour of the earlier one.
    fn near(&self, bodies: &[Body], leaders: &Path) -> Result<PathBuf> {
        let (mut edges, mut leader) = (
            Merge::of(Edge::WIDTH, bodies.iter().map(source).collect::<Result<Vec<_>>>()?)?,
            Numbers::open(leaders)?,
        );
        let mut by_earlier = self.sorter(Edge::WIDTH + PAGE, "near by earlier");
        while let Some(edge) = edges.next()? {
            let (later, earlier) = two(edge);
            let (rank, features) = must(&mut leader, later)?;
            let features = page_bytes(u64::from(features));
            by_earlier.push(
                &[&page_bytes(earlier)[..], &page_bytes(rank), &edge[2 * PAGE..], &features].concat(),
            )?;
        }
        drop(edges);
        let (mut by_earlier, mut leader) = (by_earlier.finish()?, Numbers::open(leaders)?);
        let mut near = self.sorter(Edge::WIDTH, "near by rank");
        while let Some(record) = by_earlier.next()? {
            let (edge, features) = record.split_at(Edge::WIDTH);
            // By the number of one page and the rank of the other.
            let edge = Edge::of(edge);
            let one = (edge.earlier, page_of(features) as u32);
            let other = must(&mut leader, edge.later)?;
            let [(earlier, kept), (later, removed)] = [one.min(other), one.max(other)];
            let may_replace = self.folder.settings.judge.may_replace(edge.similarity, kept, removed);
            near.push(&Edge { later, earlier, may_replace, ..edge }.bytes())?;
        }
        drop(by_earlier);
        List::of(self.work.join("near.edges"), near.finish()?)
    }
}

/// Bytes that ascend as numbers fall; those that are none come last.
fn put_score(score: Option<f64>, record: &mut Vec<u8>) {
    // Of zeros there is one.
    let score = score.filter(|score| !score.is_nan()).unwrap_or(f64::NEG_INFINITY) + 0.0;
    let bits = score.to_bits();
    let ascending = if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 };
    record.extend_from_slice(&(!ascending).to_be_bytes());
}

/// Bytes in the order of texts, of which none begins another; no text comes before all.
fn put_text(text: Option<&str>, record: &mut Vec<u8>) {
    let Some(text) = text else { return record.push(0) };
    record.push(1);
    for &byte in text.as_bytes() {
        record.push(byte);
        if byte == 0 {
            record.push(1);
        }
    }
    record.extend_from_slice(&[0, 0]);
}

fn score_at(scores: &[u8], place: usize) -> Option<f64> {
    scores.as_chunks::<8>().0.get(place).map(|&score| f64::from_le_bytes(score))
}
