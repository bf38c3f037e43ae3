//! The third stage: clusters from all edges, in order of their later pages.
//!
//! Pages are told by numbers in whose order they are kept ([`Graph`]): the page that stays is the first of its cluster,
//! and of copies the first stands for all, so that one pass over the edges is enough: for stars with a bit a page, for
//! connected clusters with four bytes for each page that is near another. Copies then follow their first one.

use super::join::{all_edges, bits_bytes, in_range};
use super::ranking::{Graph, OfFiles, list, unscored};
use super::record::{Edge, Fate, PAGE, page_bytes, page_of, similarity_bytes, similarity_of};
use super::renumber::by_first_page;
use super::sketches::Folder;
use super::sorter::{Merge, Sorted, Sorter};
use super::{Budget, belongs_to, odd_length, workplace};
use crate::error::{Error, Result};
use crate::format::{self, Body, BodyReader, FATES, NewBinary};
use crate::hash::text_digest;
use crate::inspection::Inspection;
use crate::making::{is_address, sweep};
use crate::pipeline::{Progress, with_threads};
use crate::resources::memory_share;
use serde::{Deserialize, Serialize};
use simflip_core::clusters::{Keep, Linkage, Quota, SAME};
use simflip_core::settings::{Judge, Settings};
use simflip_core::streamed::{Bits, Chains, Place, Star};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};

/// What is to be clustered.
#[derive(Clone, Debug)]
pub struct ClusterJob {
    /// The folder of sketches that were joined.
    pub sketches: PathBuf,
    /// The folders that they were joined against.
    pub against: Vec<PathBuf>,
    /// How pairs form clusters, and who stays.
    pub grouping: Grouping,
    /// Bytes of memory that are not exceeded; `None` for a share of what the machine has.
    pub memory: Option<u64>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
}

/// How pairs form clusters, and which pages of a cluster stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grouping {
    /// How pairs form clusters: star or connected.
    pub linkage: Linkage,
    /// Which page of a cluster stays.
    #[serde(default, skip_serializing_if = "is_first")]
    pub keep: Keep,
    /// How many of them do.
    #[serde(default, skip_serializing_if = "Quota::is_one")]
    pub quota: Quota,
    /// With [`Keep::InputOrder`], the input files and folders whose pages stay first, as [`priority_of`] has them; the
    /// pages of others come last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priority: Vec<String>,
}

/// Paths of input files and folders as sketches tell them: real ones, or as far real as they are there.
pub fn priority_of(paths: &[PathBuf]) -> Vec<String> {
    let real = |path: &PathBuf| {
        if is_address(path) {
            return path.clone();
        }
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        absolute.components().fold(PathBuf::new(), |mut real, part| {
            match part {
                Component::ParentDir => drop(real.pop()),
                _ => real.push(part),
            }
            fs::canonicalize(&real).unwrap_or(real)
        })
    };
    paths.iter().map(|path| real(path).to_string_lossy().into_owned()).collect()
}

/// Whether the first page of a cluster stays, as usual.
fn is_first(keep: &Keep) -> bool {
    *keep == Keep::First
}

impl Grouping {
    /// Clusters of which the first page stays.
    pub fn of(linkage: Linkage) -> Self {
        Self { linkage, ..Self::default() }
    }

    /// That of a run's settings.
    pub fn of_settings(settings: &Settings) -> Self {
        Self {
            linkage: settings.linkage,
            keep: settings.keep.clone(),
            quota: settings.quota,
            priority: Vec::new(),
        }
    }

    /// True if the order of pages says all that decides, of pages that were judged so.
    pub(super) fn goes_by_number(&self, judge: Judge) -> bool {
        is_first(&self.keep) && self.quota.each.is_none() && judge.ones_are_same()
    }

    /// What a file of such clusters is called.
    fn name(&self) -> String {
        let linkage = self.linkage.name();
        match is_first(&self.keep) && self.quota.is_one() {
            true => linkage.to_owned(),
            // A field of scores may be called anything.
            false => format!("{linkage}-{:016x}", text_digest(&self.stays()) as u64),
        }
    }

    /// Who stays, in words.
    fn stays(&self) -> String {
        let priority: String = self.priority.iter().map(|path| format!("\0{path}")).collect();
        format!("{}, {}{priority}", self.quota, self.keep)
    }
}

/// What the stage came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clustered {
    /// Pages of all sketches, old ones left out.
    pub pages: u64,
    /// Old pages.
    #[serde(default)]
    pub old: u64,
    /// Clusters of two pages or more, one of them new.
    pub clusters: u64,
    /// Pages in them, old ones among them.
    pub in_clusters: u64,
    /// Pages of the largest one.
    pub largest: u64,
    /// Pages that can go.
    pub removed: u64,
}

/// What stands in front of a file of clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The sketches.
    pub sketches: String,
    settings: Settings,
    #[serde(flatten)]
    grouping: Grouping,
    /// What it came to.
    pub counts: Clustered,
}

/// Where the clusters of some sketches are.
pub fn place(folder: &Folder, grouping: &Grouping) -> PathBuf {
    folder.joined().join(format!("{}.fates", grouping.name()))
}

/// Clusters the pages whose edges are in a folder of sketches, unless that was done.
///
/// # Errors
/// If a band is not joined yet, a file is damaged, the memory is too little, or the linkage needs all pairs of
/// a cluster at once.
pub fn cluster(job: &ClusterJob, progress: &dyn Progress) -> Result<Clustered> {
    let folder = Folder::open_against(&job.sketches, &job.against)?;
    check_keep(&folder, &job.grouping)?;
    unscored(&folder, &job.grouping.keep)?.iter().for_each(|told| progress.note(told));
    let memory = job.memory.unwrap_or_else(memory_share);
    let files = OfFiles::of(&folder, &job.grouping);
    with_threads(job.threads, || cluster_folder(&folder, &job.grouping, &files, memory, progress))?
}

/// Refuses what sketches alone do not tell.
///
/// # Errors
/// If pages are to stay by the order of inputs, or by a score that was not read; or as [`Settings::check`] for how they
/// form clusters.
pub(super) fn check_keep(folder: &Folder, grouping: &Grouping) -> Result<()> {
    folder.settings.clone().with(|settings| settings.linkage = grouping.linkage).check()?;
    let refuse = |expected: String| Err(Error::parameter("keep", &grouping.keep, expected));
    match &grouping.keep {
        Keep::InputOrder if grouping.priority.is_empty() => {
            refuse("--priority with it: sketches have no order of inputs".to_owned())
        }
        keep if *keep != Keep::InputOrder && !grouping.priority.is_empty() => {
            refuse("input-order, where --priority says which inputs come first".to_owned())
        }
        Keep::Score(field) => {
            let new = &folder.files[folder.old_files..];
            match new.iter().find(|file| file.header.reading.fields.score.as_ref() != Some(field)) {
                None => Ok(()),
                Some(file) => refuse(format!(
                    "a field that was read: {} has no scores of it; simflip sketch --score {field} reads them",
                    file.path().display()
                )),
            }
        }
        Keep::InputOrder => {
            let is_of = |first: &String| {
                folder.files.iter().any(|file| Path::new(&file.header.input.path).starts_with(first))
            };
            match grouping.priority.iter().find(|first| !is_of(first)) {
                None => Ok(()),
                Some(none) => {
                    Err(Error::parameter("priority", none, "an input file or folder that was sketched"))
                }
            }
        }
        Keep::First | Keep::Fullest | Keep::Longest | Keep::ShortestUrl => Ok(()),
    }
}

/// The same of a folder that is open, on the threads of the pool that it is called in.
///
/// # Errors
/// As [`cluster`].
pub(super) fn cluster_folder(
    folder: &Folder,
    grouping: &Grouping,
    files: &OfFiles,
    memory: u64,
    progress: &dyn Progress,
) -> Result<Clustered> {
    if grouping.linkage == Linkage::Complete {
        let expected = "star or connected: complete clusters need all pairs at hand";
        return Err(Error::parameter("clusters", grouping.linkage.name(), expected));
    }
    let path = place(folder, grouping);
    sweep(&folder.joined());
    if fs::symlink_metadata(&path).is_ok() {
        return open(folder, grouping).map(|(header, _)| header.counts);
    }
    let (bodies, edges) = all_edges(folder)?;
    let (work, bits) = (workplace(&path)?, bits_bytes(folder.pages()));
    progress.begin("cluster", edges, "pairs");
    let done = Budget::beside(memory, bits + folder.files_bytes())
        .and_then(|budget| Graph::new(folder, bodies, grouping, files, work.path(), &budget))
        .and_then(|graph| {
            let clusterer = Clusterer { folder, grouping, graph, memory, work: work.path(), path: &path };
            clusterer.run(&|pairs| progress.advance(pairs))
        });
    progress.end();
    done
}

/// The clusters of some sketches, checked.
///
/// # Errors
/// If there are none yet, or they are damaged or of other sketches.
pub fn open(folder: &Folder, grouping: &Grouping) -> Result<(Header, Body)> {
    let path = place(folder, grouping);
    let (header, body): (Header, Body) = format::open(&path, FATES)?;
    belongs_to(&path, header.sketches == folder.id && header.grouping == *grouping)?;
    check_length(&header, &body)?;
    body.check()?;
    Ok((header, body))
}

fn check_length(header: &Header, body: &Body) -> Result<()> {
    match header.counts.in_clusters.checked_mul(Fate::WIDTH as u64) == Some(body.len()) {
        true => Ok(()),
        false => Err(odd_length(body.path(), FATES, body.len())),
    }
}

struct Clusterer<'a> {
    folder: &'a Folder,
    grouping: &'a Grouping,
    graph: Graph,
    memory: u64,
    work: &'a Path,
    path: &'a Path,
}

/// The distance of pages that are the same as another, and were not compared with each other: no hashes have it.
const UNCOMPARED: Option<u32> = Some(u64::BITS + 1);

/// A page and the one that it follows: page 5, leader 5, similarity 4.
const FOLLOWER: usize = 2 * PAGE + 4;
/// The same by the leader: leader 5, page 5, similarity 4.
const MEMBER: usize = FOLLOWER;

pub(super) fn follower(page: u64, leader: u64, similarity: Option<f32>) -> [u8; FOLLOWER] {
    let mut record = [0; FOLLOWER];
    record[..PAGE].copy_from_slice(&page_bytes(page));
    record[PAGE..2 * PAGE].copy_from_slice(&page_bytes(leader));
    record[2 * PAGE..].copy_from_slice(&similarity_bytes(similarity));
    record
}

impl Clusterer<'_> {
    /// What there is beside so many bytes.
    fn budget(&self, held: u64) -> Result<Budget> {
        Budget::beside(self.memory, held + self.folder.files_bytes())
    }

    fn run(&self, advance: &dyn Fn(u64)) -> Result<Clustered> {
        let bits = bits_bytes(self.graph.numbers());
        let (followers, copies, budget) = match self.grouping.linkage {
            Linkage::Star => {
                let budget = self.budget(bits)?;
                let (followers, copies) = self.star(&budget, advance)?;
                (followers, copies, budget)
            }
            _ => self.connected(bits, advance)?,
        };
        self.fates(&followers, copies, &budget)
    }

    /// The edges of all bands and copies, by their later pages, each once.
    fn edges(&self) -> Result<Edges> {
        self.edges_and(None)
    }

    /// The same with those of another list.
    fn edges_and(&self, more: Option<&Path>) -> Result<Edges> {
        let (pages, first_new) = (self.graph.numbers(), self.graph.first_new());
        Ok(Edges { merge: self.graph.edges_and(more)?, next: None, pages, first_new })
    }

    /// Of pages that are the same as others, each with the first of those that are the same as one of them, where it
    /// was not compared with one as early: a list of edges, if there are any.
    fn same_pairs(&self, budget: &Budget) -> Result<Option<PathBuf>> {
        let mut same = Sorter::new(2 * PAGE, budget.bytes / 4, self.work, "same");
        let mut edges = self.edges()?;
        while let Some(edge) = edges.take()? {
            if edge.distance.is_some() && edge.similarity == SAME {
                same.push(&pair(edge.later, edge.earlier))?;
                same.push(&pair(edge.earlier, edge.later))?;
            }
        }
        // The earliest that each page knows of: itself, or one that it was compared with. That is told to those.
        let mut firsts = self.list("first of the same")?;
        let mut heard = Sorter::new(2 * PAGE, budget.bytes / 4, self.work, "with first");
        let (mut same, mut last) = (same.finish()?, None);
        while let Some(record) = same.next()? {
            let (page, other) = (page_of(record), page_of(&record[PAGE..]));
            let first = match last {
                Some((of, first)) if of == page => first,
                _ => {
                    let first = page.min(other);
                    firsts.put(&follower(page, first, None))?;
                    first
                }
            };
            last = Some((page, first));
            if first < page && first < other {
                heard.push(&pair(other, first))?;
            }
        }
        let mut firsts = Follow::open(&firsts.finish()?)?;
        let (mut heard, mut pairs) = (heard.finish()?, self.list("same.edges")?);
        let (mut last, mut any) = (None, false);
        while let Some(record) = heard.next()? {
            let (page, earliest) = (page_of(record), page_of(&record[PAGE..]));
            // The first that it hears of is the earliest.
            if last.replace(page) == Some(page) {
                continue;
            }
            if firsts.of(page)?.is_some_and(|(first, _)| earliest < first) {
                any = true;
                let (distance, similarity) = (UNCOMPARED, SAME);
                let edge = Edge { later: page, earlier: earliest, distance, similarity, may_replace: true };
                pairs.put(&edge.bytes())?;
            }
        }
        let pairs = pairs.finish()?;
        Ok(any.then_some(pairs))
    }

    /// Copies by the first one of each text.
    fn copies(&self, budget: &Budget) -> Sorter {
        Sorter::new(2 * PAGE, budget.bytes / 4, self.work, "copies")
    }

    fn star(&self, budget: &Budget, advance: &dyn Fn(u64)) -> Result<(PathBuf, Sorted)> {
        let ones_are_same = self.folder.settings.judge.ones_are_same();
        let mut star = Star::new(self.graph.numbers(), ones_are_same);
        let mut copies = self.copies(budget);
        // Pages that went along, and the one with which they did.
        let (mut along, mut any_along) = (self.list("along")?, false);
        let mut followers = self.list("followers")?;
        let same = if ones_are_same { self.same_pairs(budget)? } else { None };
        let (mut edges, mut group) = (self.edges_and(same.as_deref())?, Vec::new());
        while let Some(page) = edges.next_group(&mut group)? {
            advance(group.len() as u64);
            if let Some(first) = copy_of(&group) {
                copies.push(&pair(first, page))?;
                continue;
            }
            match star.place(page, group.iter().map(|e| (e.earlier, e.similarity))) {
                Place::Leads => (),
                Place::Follows(leader, similarity) => {
                    let of_leader = |edge: &&Edge| edge.earlier == leader;
                    let were_compared =
                        group.iter().filter(of_leader).any(|edge| edge.distance != UNCOMPARED);
                    let similarity = were_compared.then_some(similarity);
                    followers.put(&follower(page, leader, similarity))?;
                }
                Place::SameAs(other) => {
                    any_along = true;
                    along.put(&follower(page, other, None))?;
                }
            }
        }
        let (mut followers, along) = (followers.finish()?, along.finish()?);
        if any_along {
            followers = with_those_along(followers, along, self.work, budget)?;
        }
        Ok((followers, copies.finish()?))
    }

    fn connected(&self, bits: u64, advance: &dyn Fn(u64)) -> Result<(PathBuf, Sorted, Budget)> {
        let mut paired = Bits::new(self.graph.numbers());
        // What it takes is known once the pages with pairs are counted; so much is needed anyway.
        self.budget(2 * bits)?;
        let (mut edges, mut group) = (self.edges()?, Vec::new());
        while edges.next_group(&mut group)?.is_some() {
            for edge in group.iter().filter(|edge| edge.distance.is_some()) {
                paired.set(edge.later);
                paired.set(edge.earlier);
            }
        }
        let with_pairs = paired.count();
        let budget = self.budget(bits + bits / 8 + 4 * with_pairs)?;
        let Some(mut chains) = Chains::new(paired.clone()) else {
            return Err(Error::parameter(
                "clusters",
                "connected",
                "star: more than 2^32 pages are near others",
            ));
        };
        let mut edges = self.edges()?;
        while edges.next_group(&mut group)?.is_some() {
            let near = group.iter().filter(|edge| edge.distance.is_some());
            near.for_each(|edge| chains.join(edge.later, edge.earlier));
        }
        let mut copies = self.copies(&budget);
        let mut followers = self.list("followers")?;
        let mut edges = self.edges()?;
        let mut next = edges.next_group(&mut group)?;
        for (at, &word) in (0u64..).zip(paired.words()) {
            let mut left = word;
            // Copies have no bit: what they are is told by their edge.
            let end = (at + 1) * 64;
            while let Some(page) = next.filter(|&page| page < end) {
                advance(group.len() as u64);
                if let Some(first) = copy_of(&group) {
                    copies.push(&pair(first, page))?;
                } else {
                    left = self.follow_until(at * 64, left, page, &mut chains, &mut followers)?;
                    let first = chains.first(page);
                    let with = group.iter().find(|edge| edge.earlier == first);
                    followers.put(&follower(page, first, with.map(|edge| edge.similarity)))?;
                    left &= !(1 << (page - at * 64));
                }
                next = edges.next_group(&mut group)?;
            }
            self.follow_until(at * 64, left, end, &mut chains, &mut followers)?;
        }
        Ok((followers.finish()?, copies.finish()?, budget))
    }

    /// Writes down the pages of a word below `end` that are near later pages alone, and follow a page that is
    /// near by a chain; gives the bits that are left.
    fn follow_until(
        &self,
        start: u64,
        mut left: u64,
        end: u64,
        chains: &mut Chains,
        followers: &mut List,
    ) -> Result<u64> {
        while left != 0 && start + u64::from(left.trailing_zeros()) < end {
            let page = start + u64::from(left.trailing_zeros());
            let first = chains.first(page);
            if first != page {
                followers.put(&follower(page, first, None))?;
            }
            left &= left - 1;
        }
        Ok(left)
    }

    fn list(&self, name: &str) -> Result<List> {
        List::create(self.work.join(name))
    }

    /// From the pages that follow others, ascending, and the copies of each text, by the first one, to what
    /// becomes of every page of a cluster.
    fn fates(&self, followers: &Path, mut copies: Sorted, budget: &Budget) -> Result<Clustered> {
        // Every page by the one that leads it.
        let mut members = Sorter::new(MEMBER, budget.bytes / 4, self.work, "members");
        let mut near = Follow::open(followers)?;
        while let Some(record) = copies.next()? {
            let (first, page) = (page_of(record), page_of(&record[PAGE..]));
            let (leader, similarity) = near.of(first)?.unwrap_or((first, Some(1.0)));
            members.push(&follower(leader, page, similarity))?;
        }
        drop(copies);
        let mut near = Follow::open(followers)?;
        while let Some((page, leader, similarity)) = near.take()? {
            members.push(&follower(leader, page, similarity))?;
        }
        // One list to count and one to number by: a cluster may be larger than memory.
        let list = List::of(self.work.join("clusters"), members.finish()?)?;
        let mut beside = self.beside(&list, budget)?;
        let (mut ahead, mut behind) = (Follow::open(&list)?, Follow::open(&list)?);
        let sorter = |name| Sorter::new(Fate::WIDTH, budget.bytes / 4, self.work, name);
        let mut fates = sorter("fates");
        let (pages, first_new) = (self.folder.pages(), self.folder.first_new());
        let mut counts = Clustered { pages: pages - first_new, old: first_new, ..Clustered::default() };
        let first_new = self.graph.first_new();
        while let Some((leader, ..)) = ahead.next {
            let (mut size, mut has_new) = (1, leader >= first_new);
            while let Some((_, page, _)) = ahead.next.filter(|&(of, ..)| of == leader) {
                ahead.take()?;
                size += 1;
                has_new |= page >= first_new;
            }
            if !has_new {
                // Old copies of an old text are nobody's business.
                (1..size).try_for_each(|_| behind.take().map(|_| ()))?;
                continue;
            }
            let (cluster, similarity) = (counts.clusters, None);
            let leads = Fate { page: leader, stays: leader, cluster, size, similarity, beside: false };
            fates.push(&leads.bytes())?;
            for place in 1..size {
                if let Some((_, page, similarity)) = behind.take()? {
                    // Members come in the order in which they are kept.
                    let fate = match page < first_new || beside.has(leader, page, place)? {
                        true => Fate { page, stays: page, similarity: None, beside: true, ..leads },
                        false => Fate { page, similarity, ..leads },
                    };
                    counts.removed += u64::from(fate.stays != page);
                    fates.push(&fate.bytes())?;
                }
            }
            counts.clusters += 1;
            counts.in_clusters += size;
            counts.largest = counts.largest.max(size);
        }
        let sketches = self.folder.id.clone();
        let (settings, grouping) = (self.folder.settings.clone(), self.grouping.clone());
        let header = Header { sketches, settings, grouping, counts };
        let mut fates = fates.finish()?;
        if !self.graph.is_by_number() {
            // From numbers back to pages: of the page, then of the one that stays.
            for name in ["fates by who stays", "fates of pages"] {
                let (mut pages, mut turned) = (self.graph.pages()?, sorter(name));
                while let Some(fate) = fates.next()? {
                    let page = pages.of(page_of(fate))?;
                    turned.push(&[&fate[PAGE..2 * PAGE], &page_bytes(page), &fate[2 * PAGE..]].concat())?;
                }
                fates = turned.finish()?;
            }
            fates = by_first_page(|| Ok(fates.next()?.map(Fate::of)), self.work, budget)?;
        }
        let mut file = NewBinary::begin(self.path, FATES, &header)?;
        while let Some(fate) = fates.next()? {
            file.write_all(fate).map_err(|error| Error::io(self.path, error))?;
        }
        file.finish()?;
        Ok(counts)
    }
}

/// Followers of a leader, and those that went along with another page: they follow its leader, with which they were
/// not compared. That page may have gone along, too: each round goes twice as far back as the one before.
fn with_those_along(
    mut followers: PathBuf,
    mut along: PathBuf,
    work: &Path,
    budget: &Budget,
) -> Result<PathBuf> {
    let sorter = |width, name| Sorter::new(width, budget.bytes / 4, work, name);
    for round in 0.. {
        let (mut by_other, mut all) = (sorter(2 * PAGE, "by other"), Follow::open(&along)?);
        while let Some((page, other, _)) = all.take()? {
            by_other.push(&pair(other, page))?;
        }
        let (mut near, mut others) = (Follow::open(&followers)?, Follow::open(&along)?);
        let (mut went, mut left) = (sorter(FOLLOWER, "went along"), sorter(FOLLOWER, "left"));
        let (mut by_other, mut any_left) = (by_other.finish()?, false);
        while let Some(record) = by_other.next()? {
            let (other, page) = (page_of(record), page_of(&record[PAGE..]));
            if let Some((leader, _)) = near.of(other)? {
                went.push(&follower(page, leader, None))?;
            } else if let Some((further, _)) = others.of(other)? {
                any_left = true;
                left.push(&follower(page, further, None))?;
            }
        }
        let went = List::of(work.join("went"), went.finish()?)?;
        let mut merged = List::create(work.join(format!("followers {round}")))?;
        let mut both = Merge::of(FOLLOWER, vec![list(&followers)?, list(&went)?])?;
        while let Some(record) = both.next()? {
            merged.put(record)?;
        }
        followers = merged.finish()?;
        if !any_left {
            break;
        }
        along = List::of(work.join(format!("along {round}")), left.finish()?)?;
    }
    Ok(followers)
}

/// The members of clusters that stay beside the first one.
struct Beside {
    /// So many of each cluster, the first one among them; none where sources count.
    count: Option<u64>,
    /// Those that stay of their source, by the leader.
    of_sources: Option<(Sorted, Option<(u64, u64)>)>,
}

impl Beside {
    /// Whether a member stays that stands at a place of its cluster; members are asked for in order.
    fn has(&mut self, leader: u64, page: u64, place: u64) -> Result<bool> {
        let Some((sorted, next)) = &mut self.of_sources else {
            return Ok(self.count.is_some_and(|count| place < count));
        };
        while next.is_some_and(|next| next < (leader, page)) {
            *next = sorted.next()?.map(|record| (page_of(record), page_of(&record[PAGE..])));
        }
        Ok(*next == Some((leader, page)))
    }
}

impl Clusterer<'_> {
    /// Which members of clusters stay beside the first one, of a list of all others.
    fn beside(&self, list: &Path, budget: &Budget) -> Result<Beside> {
        let Quota { count, each } = self.grouping.quota;
        if each.is_none() {
            return Ok(Beside { count: Some(u64::from(count)), of_sources: None });
        }
        let sorter = |width, name| Sorter::new(width, budget.bytes / 4, self.work, name);
        // Page, leader.
        let (mut by_page, mut last) = (sorter(2 * PAGE, "sources by page"), None);
        let mut members = Follow::open(list)?;
        while let Some((leader, page, _)) = members.take()? {
            if last.replace(leader) != Some(leader) {
                by_page.push(&pair(leader, leader))?;
            }
            by_page.push(&pair(page, leader))?;
        }
        // Leader, source, page.
        let (mut by_page, mut pages) = (by_page.finish()?, self.graph.pages()?);
        let mut by_source = sorter(2 * PAGE + 8, "sources");
        while let Some(record) = by_page.next()? {
            let (_, source) = pages.with_source(page_of(record))?;
            by_source.push(&[&record[PAGE..], &source.to_be_bytes(), &record[..PAGE]].concat())?;
        }
        drop(by_page);
        let (mut by_source, mut stay) = (by_source.finish()?, sorter(2 * PAGE, "sources that stay"));
        let (mut last, mut number) = ([0; PAGE + 8], 0);
        while let Some(record) = by_source.next()? {
            let (source, page) = record.split_at(PAGE + 8);
            if source != last {
                last.copy_from_slice(source);
                number = 0;
            }
            number += 1;
            if number <= count {
                stay.push(&[&record[..PAGE], page].concat())?;
            }
        }
        drop(by_source);
        let mut stay = stay.finish()?;
        let next = stay.next()?.map(|record| (page_of(record), page_of(&record[PAGE..])));
        Ok(Beside { count: None, of_sources: Some((stay, next)) })
    }
}

/// The first page of a text, of the edges of one of its copies.
fn copy_of(group: &[Edge]) -> Option<u64> {
    group.iter().find(|edge| edge.distance.is_none()).map(|edge| edge.earlier)
}

pub(super) fn pair(first: u64, second: u64) -> [u8; 2 * PAGE] {
    let mut record = [0; 2 * PAGE];
    record[..PAGE].copy_from_slice(&page_bytes(first));
    record[PAGE..].copy_from_slice(&page_bytes(second));
    record
}

/// Edges in groups of one later page.
struct Edges {
    merge: Merge,
    next: Option<Edge>,
    pages: u64,
    /// Near pairs of old pages are passed over, for old ones stay; and those of which the later page may not be removed
    /// in favour of the earlier one.
    first_new: u64,
}

impl Edges {
    fn take(&mut self) -> Result<Option<Edge>> {
        let edge = loop {
            match self.merge.next()?.map(Edge::of) {
                Some(edge) if edge.later < self.first_new && edge.distance.is_some() || !edge.may_replace => {
                }
                Some(edge) => break edge,
                None => return Ok(None),
            }
        };
        let path = Path::new("edges");
        in_range(path, edge.later, self.pages)?;
        in_range(path, edge.earlier, edge.later)?;
        Ok(Some(edge))
    }

    /// The edges of the next page that is a later one, and which that is.
    fn next_group(&mut self, group: &mut Vec<Edge>) -> Result<Option<u64>> {
        group.clear();
        let first = match self.next.take() {
            Some(edge) => Some(edge),
            None => self.take()?,
        };
        let Some(first) = first else { return Ok(None) };
        group.push(first);
        while let Some(edge) = self.take()? {
            if edge.later != first.later {
                self.next = Some(edge);
                break;
            }
            group.push(edge);
        }
        Ok(Some(first.later))
    }
}

/// A list on disk while it is written.
pub(super) struct List {
    path: PathBuf,
    file: BufWriter<File>,
}

impl List {
    pub fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(|error| Error::io(&path, error))?;
        Ok(Self { file: BufWriter::with_capacity(1 << 18, file), path })
    }

    /// All of these records.
    pub fn of(path: PathBuf, mut sorted: Sorted) -> Result<PathBuf> {
        let mut list = Self::create(path)?;
        while let Some(record) = sorted.next()? {
            list.put(record)?;
        }
        list.finish()
    }

    pub fn put(&mut self, record: &[u8]) -> Result<()> {
        self.file.write_all(record).map_err(|error| Error::io(&self.path, error))
    }

    pub fn finish(mut self) -> Result<PathBuf> {
        self.file.flush().map_err(|error| Error::io(&self.path, error))?;
        Ok(self.path)
    }
}

type Following = (u64, u64, Option<f32>);

/// A list on disk while it is read from its beginning.
pub(super) struct Records {
    path: PathBuf,
    file: BufReader<File>,
    record: Vec<u8>,
}

impl Records {
    /// Of so many bytes each.
    pub fn open(path: &Path, width: usize) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::io(path, error))?;
        let file = BufReader::with_capacity(1 << 18, file);
        Ok(Self { path: path.to_path_buf(), file, record: vec![0; width] })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next one.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        match self.file.read_exact(&mut self.record) {
            Ok(()) => Ok(Some(&self.record)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(Error::io(&self.path, error)),
        }
    }
}

/// A list of `N` pages or numbers each, ascending by the first of them, read from its beginning.
pub(super) struct Numbers<const N: usize> {
    list: Records,
    next: Option<[u64; N]>,
}

impl<const N: usize> Numbers<N> {
    pub fn open(path: &Path) -> Result<Self> {
        let mut numbers = Self { list: Records::open(path, N * PAGE)?, next: None };
        numbers.take()?;
        Ok(numbers)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.list.path()
    }

    /// Takes the next one.
    pub fn take(&mut self) -> Result<Option<[u64; N]>> {
        let numbers = |record: &[u8]| std::array::from_fn(|at| page_of(&record[at * PAGE..]));
        let next = self.list.next()?.map(numbers);
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// The one of a page; pages are asked for in ascending order.
    pub fn of(&mut self, page: u64) -> Result<Option<[u64; N]>> {
        while self.next.is_some_and(|next| next[0] < page) {
            self.take()?;
        }
        Ok(self.next.filter(|next| next[0] == page))
    }
}

/// A list of two pages and a similarity each, read from its beginning.
pub(super) struct Follow {
    list: Records,
    next: Option<Following>,
}

impl Follow {
    pub fn open(path: &Path) -> Result<Self> {
        let mut follow = Self { list: Records::open(path, FOLLOWER)?, next: None };
        follow.take()?;
        Ok(follow)
    }

    /// Takes the next one.
    pub fn take(&mut self) -> Result<Option<Following>> {
        let following =
            |record: &[u8]| (page_of(record), page_of(&record[PAGE..]), similarity_of(&record[2 * PAGE..]));
        let next = self.list.next()?.map(following);
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// What a page follows; pages are asked for in ascending order.
    pub fn of(&mut self, page: u64) -> Result<Option<(u64, Option<f32>)>> {
        while self.next.is_some_and(|(at, ..)| at < page) {
            self.take()?;
        }
        Ok(self.next.filter(|&(at, ..)| at == page).map(|(_, leader, similarity)| (leader, similarity)))
    }
}

/// What becomes of all pages that are in clusters, in their order.
pub struct Fates {
    reader: BufReader<BodyReader>,
    path: PathBuf,
    left: u64,
}

impl Fates {
    /// Those of a file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(body: &Body) -> Result<Self> {
        let reader = BufReader::with_capacity(1 << 16, body.reader()?);
        Ok(Self { reader, path: body.path().to_path_buf(), left: body.len() / Fate::WIDTH as u64 })
    }

    /// Takes the next one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn take(&mut self) -> Result<Option<Fate>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut record = [0; Fate::WIDTH];
        self.reader.read_exact(&mut record).map_err(|error| Error::io(&self.path, error))?;
        Ok(Some(Fate::of(&record)))
    }
}

/// The fates of some pages, in their order, of which few are in memory at a time.
///
/// # Errors
/// If the file cannot be read.
pub fn fates_of(
    body: &Body,
    pages: std::ops::Range<u64>,
) -> Result<impl Iterator<Item = Result<Fate>> + use<>> {
    let number = body.len() / Fate::WIDTH as u64;
    let mut reader = body.reader()?;
    let mut record = [0; Fate::WIDTH];
    let (mut low, mut high) = (0, number);
    while low < high {
        let middle = low + (high - low) / 2;
        reader.seek(middle * Fate::WIDTH as u64)?;
        reader.fill(&mut record)?;
        if Fate::of(&record).page < pages.start { low = middle + 1 } else { high = middle }
    }
    reader.seek(low * Fate::WIDTH as u64)?;
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let path = body.path().to_path_buf();
    let fates = (low..number).map(move |_| {
        let read = reader.read_exact(&mut record);
        read.map(|()| Fate::of(&record)).map_err(|error| Error::io(&path, error))
    });
    Ok(fates.take_while(move |fate| fate.as_ref().map_or(true, |fate| fate.page < pages.end)))
}

/// Of [`fates_of`] some pages, those of pages that go.
///
/// # Errors
/// As [`fates_of`].
pub fn goes_of(
    body: &Body,
    pages: std::ops::Range<u64>,
) -> Result<impl Iterator<Item = Result<Fate>> + use<>> {
    let goes = |fate: &Result<Fate>| fate.as_ref().map_or(true, |fate| fate.stays != fate.page);
    Ok(fates_of(body, pages)?.filter(goes))
}

/// What [`inspect`](crate::inspect) tells of a file of clusters.
pub fn check(path: &Path) -> Result<Inspection> {
    let (header, body): (Header, Body) = format::open(path, FATES)?;
    body.check()?;
    check_length(&header, &body)?;
    let counts = header.counts;
    let mut inspection = Inspection::of(FATES.name);
    inspection.fact("clusters", header.grouping.linkage.name());
    inspection.fact("who stays", header.grouping.stays());
    inspection.fact("sketches", &header.sketches);
    inspection.fact("pages", counts.pages);
    if counts.old > 0 {
        inspection.fact("old pages", counts.old);
    }
    inspection.fact("clusters of two pages or more", counts.clusters);
    inspection.fact("pages in clusters", counts.in_clusters);
    inspection.fact("largest cluster", counts.largest);
    inspection.fact("pages that can go", counts.removed);
    let mut reader = BufReader::with_capacity(1 << 16, body.reader()?);
    let (mut before, mut record, mut removed) = (None, [0; Fate::WIDTH], 0);
    for at in 0..counts.in_clusters {
        reader.read_exact(&mut record).map_err(|error| Error::io(path, error))?;
        let fate = Fate::of(&record);
        removed += u64::from(fate.stays != fate.page);
        let pages = counts.old.saturating_add(counts.pages);
        let is_right = (fate.stays <= fate.page || !is_first(&header.grouping.keep))
            && fate.page.max(fate.stays) < pages
            && (!fate.beside || fate.stays == fate.page)
            && (fate.page >= counts.old || fate.stays == fate.page)
            && fate.cluster < counts.clusters
            && (2..=counts.largest).contains(&fate.size)
            && before.is_none_or(|before| before < fate.page);
        if !is_right {
            inspection.problem(format!("row {at} is none, or stands in the wrong place"));
            break;
        }
        before = Some(fate.page);
    }
    if inspection.problems.is_empty() && removed != counts.removed {
        inspection.problem(format!("{removed} pages go, but {} are counted", counts.removed));
    }
    Ok(inspection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The twin walks from page to page.
        #[test]
        fn who_went_along_follows_the_leader_at_the_end_of_the_way(
            steps in prop::collection::vec((0u8..12, 1usize..4), 1..400),
        ) {
            let folder = tempfile::tempdir().unwrap();
            // One page in a dozen follows a leader of its own; the others go with one of the three before them.
            let (mut followers, mut along) = (List::create(folder.path().join("followers")).unwrap(),
                List::create(folder.path().join("along")).unwrap());
            let mut leaders = vec![0];
            for (page, &(kind, back)) in (1usize..).zip(&steps) {
                let follows = kind == 0 || back >= page;
                if follows {
                    leaders.push(page as u64 + 1000);
                    followers.put(&follower(page as u64, page as u64 + 1000, Some(0.9))).unwrap();
                } else {
                    leaders.push(leaders[page - back]);
                    along.put(&follower(page as u64, (page - back) as u64, None)).unwrap();
                }
            }
            let budget = Budget { bytes: 1 << 20 };
            let (followers, along) = (followers.finish().unwrap(), along.finish().unwrap());
            let mut all = Follow::open(&with_those_along(followers, along, folder.path(), &budget).unwrap()).unwrap();
            for (page, leader) in leaders.iter().enumerate().skip(1) {
                let (at, found, similarity) = all.take().unwrap().unwrap();
                prop_assert_eq!((at, found), (page as u64, *leader));
                prop_assert_eq!(similarity.is_some(), leader - 1000 == page as u64);
            }
            prop_assert_eq!(all.take().unwrap(), None);
        }
    }
}
