//! The tables of pairs, clusters and pages from the records of stages: in the same order and with the same names as
//! those of a run in memory, and with a bounded part in memory.

use super::Budget;
use super::cluster::{AssignmentReader, List, RecordReader};
use super::join::bits_bytes;
use super::lookup::Lookup;
use super::record::{Assignment, Edge, PAGE, page_bytes, page_of};
use super::renumber::ResultOrder;
use super::sketches::{Column, Folder, weights_of};
use super::sorter::Sorter;
use crate::boilerplate::host_of;
use crate::error::{Error, Result};
use crate::format::Body;
use crate::pipeline::dedup::{Large, SHOWN_CLUSTERS, SHOWN_MEMBERS};
use crate::report::model::{ClusterSizes, SourceRow, Sources};
use crate::report::tell;
use crate::tables::{self, ClusterRow, PageRow, PairRow};
use simflip_core::dedup::{Cohesion, Pair, PairKind};
use simflip_core::id::{Cluster, Document, Id};
use simflip_core::resemblance::SetBits;
use simflip_core::settings::{Settings, Sketches};
use simflip_core::similarity::{Anchor, Page};
use simflip_core::sketch::Hashed;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;

/// A folder of sketches whose pages are clustered, with all that results call them. Pages have the numbers that results
/// give them, where nothing else is said.
pub struct Tables<'a> {
    /// With the files of new pages first.
    pub folder: &'a Folder,
    pub order: ResultOrder,
    pub settings: &'a Settings,
    /// All pairs that are listed, as stages number pages.
    pub pairs: &'a Body,
    /// As results number pages and clusters.
    pub assignments: &'a Body,
    pub lookup: RefCell<Lookup<'a>>,
    pub budget: Budget,
    /// Where what does not fit into memory goes.
    pub work: &'a Path,
}

/// The number of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// The pairs of the table.
    pub written: u64,
}

/// The counts of clusters.
#[derive(Clone, Debug, Default)]
pub struct ClusterCounts {
    pub sizes: Vec<ClusterSizes>,
    pub clusters: u64,
    pub pages: u64,
    pub largest: Vec<Large>,
    pub old: OldCounts,
}

/// The effect of old pages in clusters.
#[derive(Clone, Copy, Debug, Default)]
pub struct OldCounts {
    /// Clusters with an old page.
    pub clusters: u64,
    /// Old pages in them.
    pub members: u64,
    /// New pages that go for an old one.
    pub gone: u64,
}

/// The counts of all pages.
#[derive(Clone, Debug, Default)]
pub struct PageCounts {
    /// Of each file of sketches, the pages that stay.
    pub kept: Vec<u64>,
    /// Pages with too few features.
    pub few: u64,
    /// Bytes of the texts that go.
    pub removed_text_bytes: u64,
    /// The losses of hosts; none where no page has one.
    pub hosts: Option<Sources>,
}

/// The page of a number, as results in memory have it; there are at most 2³² of them.
pub fn document(page: u64) -> Document {
    Document::new(page as u32)
}

impl Tables<'_> {
    fn sorter(&self, width: usize, name: &'static str) -> Sorter {
        Sorter::new(width, self.budget.bytes / 4, self.work, name)
    }

    /// Goes through all pairs, ascending, and writes them to a table, if one is named. Pairs of old pages are none.
    ///
    /// # Errors
    /// If what is there cannot be read, or the table cannot be written.
    pub fn pairs(&self, path: Option<&Path>, mut each: impl FnMut(&Pair)) -> Result<PairCounts> {
        let (mut listed, mut edges) = (self.sorter(Edge::WIDTH, "pairs"), self.pairs.reader()?);
        let (mut record, mut counts) = ([0; Edge::WIDTH], PairCounts::default());
        for _ in 0..self.pairs.len() / Edge::WIDTH as u64 {
            edges.fill(&mut record)?;
            let edge = Edge::of(&record);
            let [a, b] = [edge.earlier, edge.later].map(|page| self.order.in_results(page));
            listed.push(&Edge { later: a.min(b), earlier: a.max(b), ..edge }.bytes())?;
        }
        let mut listed = listed.finish()?;
        let mut next = || -> Result<Option<Pair>> {
            let Some(record) = listed.next()? else { return Ok(None) };
            let Edge { later: a, earlier: b, distance, similarity } = Edge::of(record);
            counts.written += 1;
            let kind = if distance.is_some() { PairKind::Near } else { PairKind::Exact };
            let (a, b, distance) = (document(a), document(b), distance.unwrap_or(0));
            let pair = Pair { a, b, distance, similarity, kind };
            each(&pair);
            Ok(Some(pair))
        };
        match path {
            Some(path) => {
                let row = |pair: Pair| self.pair_row(&pair);
                let rows = std::iter::from_fn(|| next().transpose());
                tables::write(path, rows.map(|pair| pair.and_then(row)))?;
            }
            None => while next()?.is_some() {},
        }
        Ok(counts)
    }

    fn pair_row(&self, pair: &Pair) -> Result<PairRow<'_>> {
        let mut lookup = self.lookup.borrow_mut();
        let [a, b] = pair.documents().map(|document| u64::from(document.number()));
        let (first, second) = (lookup.page(a)?, lookup.page(b)?);
        let has_distance = self.settings.sketches.has_hash();
        Ok(PairRow {
            a_id: first.id(),
            b_id: second.id(),
            a_url: first.url(),
            b_url: second.url(),
            distance: has_distance.then_some(pair.distance),
            similarity: f64::from(pair.similarity),
            kind: pair.kind,
            measure: tell::measure_name(self.settings, pair.kind),
            a_at: lookup.standing(a, &first),
            b_at: lookup.standing(b, &second),
        })
    }

    /// Goes through all clusters in their order, and writes their pages to a table, if one is named.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn clusters(&self, path: Option<&Path>) -> Result<ClusterCounts> {
        const WIDTH: usize = 4 * PAGE + 1;
        let mut by_cluster = self.sorter(WIDTH, "clusters");
        let mut assignments = AssignmentReader::open(self.assignments)?;
        while let Some(Assignment { page, stays, cluster, size, beside, .. }) = assignments.take()? {
            by_cluster.push(
                &[&[cluster, page, stays, size].map(page_bytes).concat()[..], &[u8::from(beside)]].concat(),
            )?;
        }
        let mut by_cluster = by_cluster.finish()?;
        let (mut sizes, mut counts): (BTreeMap<u64, u64>, _) = (BTreeMap::new(), ClusterCounts::default());
        // Of its cluster, how many pages other than the one that stays are still to come, once that one was there.
        let (mut last, mut others) = (None, 0);
        let (largest, old) = (&mut counts.largest, &mut counts.old);
        let mut next = || -> Result<Option<[u64; 4]>> {
            let Some(record) = by_cluster.next()? else { return Ok(None) };
            let member = [0, 1, 2, 3].map(|at| page_of(&record[at * PAGE..]));
            let ([cluster, page, stays, size], beside) = (member, record[4 * PAGE] == 1);
            if last.replace(cluster) != Some(cluster) {
                others = size - 1;
                *sizes.entry(size).or_default() += 1;
                counts.clusters += 1;
                counts.pages += size;
                let place = largest.partition_point(|other: &Large| other.size >= size);
                let of = Cluster::new(cluster as u32);
                largest.insert(place, Large { cluster: of, size, shown: Vec::new(), cohesion: None });
                largest.truncate(SHOWN_CLUSTERS);
            }
            let is_kept = page == stays && !beside;
            old.members += u64::from(self.order.is_old(page));
            old.clusters += u64::from(is_kept && self.order.is_old(page));
            old.gone += u64::from(page != stays && self.order.is_old(stays));
            others -= u64::from(!is_kept);
            // Of the others, evenly from the last one on.
            let step = (size as usize - 1).div_ceil(SHOWN_MEMBERS).max(1) as u64;
            if let Some(large) = largest.iter_mut().find(|large| u64::from(large.cluster.number()) == cluster)
            {
                if is_kept {
                    large.shown.insert(0, document(page));
                } else if others.is_multiple_of(step) {
                    large.shown.push(document(page));
                }
            }
            Ok(Some(member))
        };
        match path {
            Some(path) => {
                let row = |[cluster, page, stays, size]: [u64; 4]| {
                    let mut lookup = self.lookup.borrow_mut();
                    let found = lookup.page(page)?;
                    Ok(ClusterRow {
                        id: found.id(),
                        url: found.url(),
                        cluster: Cow::Owned(cluster.to_string()),
                        size,
                        kept: page == stays,
                        at: lookup.standing(page, &found),
                    })
                };
                let rows = std::iter::from_fn(|| next().transpose());
                tables::write(path, rows.map(|member| member.and_then(row)))?;
            }
            None => while next()?.is_some() {},
        }
        // The others of a cluster are shown from the last one on.
        largest.iter_mut().for_each(|large| large.shown[1..].reverse());
        counts.sizes = sizes.into_iter().map(|(size, clusters)| ClusterSizes { size, clusters }).collect();
        Ok(counts)
    }

    /// Tells the similarities of each cluster's pages to the one that stays, in the order of clusters.
    ///
    /// # Errors
    /// If what is there cannot be read.
    pub fn cohesion(&self, each: impl FnMut(Cluster, Cohesion, Document)) -> Result<()> {
        let (measure, floor) = self.settings.cohesion();
        let words = self.folder.files.first().map_or(0, |file| file.layout.words);
        let width = 2 * PAGE + 1 + 16 + 4 + 8 * words;
        // Cluster, similarity with the page that stays, page, the page that stays.
        let mut by_similarity = self.sorter(3 * PAGE + 4, "similarities");
        let mut put = |cluster, similarity, page, stays| {
            let record = [
                &page_bytes(cluster)[..],
                &ordered(similarity),
                &page_bytes(self.order.in_results(page)),
                &page_bytes(self.order.in_results(stays)),
            ];
            by_similarity.push(&record.concat())
        };
        if self.settings.keeps_feature_hashes() {
            // Where containment decides, what pages are removed for was measured.
            let mut assignments = AssignmentReader::open(self.assignments)?;
            while let Some(assignment) = assignments.take()? {
                if assignment.stays != assignment.page {
                    let [page, stays] =
                        [assignment.page, assignment.stays].map(|page| self.order.in_stages(page));
                    put(assignment.cluster, assignment.similarity.unwrap_or(1.0), page, stays)?;
                }
            }
            return self.tell_cohesion(by_similarity, floor as f32, each);
        }
        let mut by_cluster = self.sorter(width, "cohesion");
        let mut assignments = AssignmentReader::open(self.assignments)?;
        let mut next = assignments.take()?;
        let (mut digests, mut features, mut bits, mut record) = (vec![], vec![], vec![], vec![]);
        self.folder.scan(&|_| (), |columns, start, from, count| {
            let end = start + count as u64;
            if next.is_none_or(|assignment| assignment.page >= end) {
                return Ok(());
            }
            columns.read(Column::Digests, from, count, &mut digests)?;
            columns.read(Column::Features, from, count, &mut features)?;
            columns.read(Column::Bits, from, count, &mut bits)?;
            while let Some(assignment) = next.filter(|assignment| assignment.page < end) {
                let at = (assignment.page - start) as usize;
                record.clear();
                // The page that others are removed for comes first.
                let page = self.order.in_stages(assignment.page);
                record.extend(page_bytes(assignment.cluster));
                record.push(u8::from(assignment.stays != assignment.page || assignment.beside));
                record.extend(page_bytes(page));
                record.extend_from_slice(&digests[16 * at..][..16]);
                record.extend_from_slice(&features[4 * at..][..4]);
                record.extend_from_slice(&bits[8 * words * at..][..8 * words]);
                by_cluster.push(&record)?;
                next = assignments.take()?;
            }
            Ok(())
        })?;
        let (mut by_cluster, mut kept): (_, Option<(u64, u64, Owned)>) = (by_cluster.finish()?, None);
        while let Some(record) = by_cluster.next()? {
            let (cluster, page) = (page_of(record), page_of(&record[PAGE + 1..]));
            let sketch = Owned::of(&record[2 * PAGE + 1..], self.settings.sketches);
            match &kept {
                Some((of, stays, first)) if *of == cluster => {
                    put(cluster, Anchor::new(measure, first).with(&&sketch), page, *stays)?;
                }
                _ => kept = Some((cluster, page, sketch)),
            }
        }
        drop(by_cluster);
        self.tell_cohesion(by_similarity, floor as f32, each)
    }

    /// Tells how alike the pages of each cluster are, from records of similarities.
    fn tell_cohesion(
        &self,
        by_similarity: Sorter,
        floor: f32,
        mut each: impl FnMut(Cluster, Cohesion, Document),
    ) -> Result<()> {
        // One list to count and one to tell by: a cluster may be larger than memory.
        let list = List::of(self.work.join("alike"), by_similarity.finish()?)?;
        let (mut ahead, mut behind) = (Similar::open(&list)?, Similar::open(&list)?);
        while let Some((cluster, ..)) = ahead.next {
            let mut number = 0;
            while ahead.next.is_some_and(|(of, ..)| of == cluster) {
                ahead.take()?;
                number += 1;
            }
            let (mut cohesion, mut kept) = (Cohesion::default(), document(0));
            for at in 0..number {
                let Some((_, similarity, page, stays)) = behind.take()? else { break };
                if at == 0 {
                    (cohesion.lowest, cohesion.farthest, kept) =
                        (similarity, document(page), document(stays));
                }
                if at == number / 2 {
                    cohesion.median = similarity;
                }
                cohesion.unlike += u64::from(similarity < floor);
            }
            each(Cluster::new(cluster as u32), cohesion, kept);
        }
        Ok(())
    }

    /// Every new page with what becomes of it, in order.
    fn rows(&self) -> Result<impl Iterator<Item = Result<PageRow<'_>>>> {
        let (mut assignments, pages) = (AssignmentReader::open(self.assignments)?, self.order.new_pages());
        let mut next = assignments.take()?;
        let row = move |page: u64| {
            let assignment = next.filter(|assignment| assignment.page == page);
            if assignment.is_some() {
                next = assignments.take()?;
            }
            let mut lookup = self.lookup.borrow_mut();
            let found = lookup.page(page)?;
            let at = lookup.standing(page, &found);
            let stays = assignment.map_or(page, |assignment| assignment.stays);
            Ok(PageRow {
                file: at.file,
                row: at.row,
                id: found.id(),
                url: found.url(),
                cluster: assignment.and_then(|assignment| u32::try_from(assignment.cluster).ok()),
                size: assignment.map_or(1, |assignment| assignment.size),
                kept: stays == page,
                stays: if stays == page { found.id() } else { lookup.page(stays)?.id() },
                similarity: assignment.and_then(|assignment| assignment.similarity).map(f64::from),
            })
        };
        Ok((0..pages).map(row))
    }

    /// Writes every new page to a table.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn pages(&self, path: &Path) -> Result<u64> {
        tables::write(path, self.rows()?)
    }

    /// Writes the pages that go to a table.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn removed(&self, path: &Path) -> Result<u64> {
        tables::write(path, self.rows()?.filter(|row| row.as_ref().map_or(true, |row| !row.kept)))
    }

    /// Hands every new page to a table that takes no errors.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn pages_by(
        &self,
        write: impl FnOnce(&mut dyn Iterator<Item = PageRow<'_>>) -> Result<u64>,
    ) -> Result<u64> {
        let failed = Cell::new(None);
        let mut rows = self.rows()?.map_while(|row| row.map_err(|error| failed.set(Some(error))).ok());
        let written = write(&mut rows);
        match failed.take() {
            Some(error) => Err(error),
            None => written,
        }
    }

    /// Counts all new pages.
    ///
    /// # Errors
    /// If what is there cannot be read.
    pub fn counts(&self) -> Result<PageCounts> {
        let inputs = &self.folder.inputs;
        let mut counts = PageCounts { kept: vec![0; inputs.len()], ..PageCounts::default() };
        let mut input = 0;
        let least = self.settings.min_features.max(1);
        let mut hosts = self.sorter(16 + PAGE + 1, "hosts");
        let mut assignments = AssignmentReader::open(self.assignments)?;
        let mut next = assignments.take()?;
        let (mut lengths, mut features) = (Vec::new(), Vec::new());
        let words = super::join::words;
        self.folder.scan(&|_| (), |columns, page, from, count| {
            if self.order.is_old(page) {
                return Ok(());
            }
            columns.read(Column::Lengths, from, count, &mut lengths)?;
            columns.read(Column::Features, from, count, &mut features)?;
            for (page, (length, features)) in (page..).zip(words(&lengths).zip(words(&features))) {
                let assignment = next.filter(|assignment| assignment.page == page);
                if assignment.is_some() {
                    next = assignments.take()?;
                }
                let stays = assignment.is_none_or(|assignment| assignment.stays == page);
                while inputs[input].pages.end <= page {
                    input += 1;
                }
                counts.kept[input] += u64::from(stays);
                counts.few += u64::from((features as usize) < least);
                if !stays {
                    counts.removed_text_bytes += u64::from(length);
                }
                if let Some(host) = host_of(&self.lookup.borrow_mut().page(page)?.url) {
                    let mut record = [0; 16 + PAGE + 1];
                    record[..16].copy_from_slice(&crate::hash::text_digest(&host).to_be_bytes());
                    record[16..16 + PAGE].copy_from_slice(&page_bytes(page));
                    record[16 + PAGE] = u8::from(stays);
                    hosts.push(&record)?;
                }
            }
            Ok(())
        })?;
        let (mut hosts, mut all) = (hosts.finish()?, Sources::of("host"));
        let mut row: Option<([u8; 16], u64, SourceRow)> = None;
        loop {
            let record = hosts.next()?;
            let host = record.map(|record| {
                let mut host = [0; 16];
                host.copy_from_slice(&record[..16]);
                (host, page_of(&record[16..]), record[16 + PAGE] == 1)
            });
            if let Some((_, page, counted)) = row.take_if(|row| host.is_none_or(|(host, ..)| host != row.0)) {
                let source = host_of(&self.lookup.borrow_mut().page(page)?.url).unwrap_or_default();
                all.add(SourceRow { source, ..counted });
            }
            let Some((host, page, stays)) = host else { break };
            row.get_or_insert_with(|| (host, page, SourceRow::default())).2.count(stays);
        }
        counts.hosts = (all.number > 0).then(|| all.settled());
        Ok(counts)
    }
}

/// A similarity as bytes that ascend with it.
fn ordered(similarity: f32) -> [u8; 4] {
    let bits = similarity.to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 };
    ordered.to_be_bytes()
}

/// Reads such similarities.
struct Similar {
    list: RecordReader,
    next: Option<(u64, f32, u64, u64)>,
}

impl Similar {
    fn open(path: &Path) -> Result<Self> {
        let mut similar = Self { list: RecordReader::open(path, 3 * PAGE + 4)?, next: None };
        similar.take()?;
        Ok(similar)
    }

    /// Takes the next one: cluster, similarity, page, and the page that stays.
    fn take(&mut self) -> Result<Option<(u64, f32, u64, u64)>> {
        let next = self.list.next()?.map(|record| {
            let ordered = u32::from_be_bytes([record[5], record[6], record[7], record[8]]);
            let bits = if ordered >> 31 == 1 { ordered ^ 1 << 31 } else { !ordered };
            (page_of(record), f32::from_bits(bits), page_of(&record[9..]), page_of(&record[14..]))
        });
        Ok(std::mem::replace(&mut self.next, next))
    }
}

/// The parts of a page by which similarity is measured.
struct Owned {
    digest: u128,
    features: u32,
    bits: Vec<u64>,
    hashed: Option<Hashed>,
}

impl Owned {
    /// From digest, number of features and bits.
    fn of(record: &[u8], sketches: Sketches) -> Self {
        let digest = record[..16].iter().rev().fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
        let features = u32::from_le_bytes([record[16], record[17], record[18], record[19]]);
        match sketches {
            // Measures of SimHashes look at the weights alone.
            Sketches::SimHash { .. } => {
                let hashed = Some(Hashed { hash: 0, weights: weights_of(&record[20..]) });
                Self { digest, features, bits: Vec::new(), hashed }
            }
            _ => {
                let bits = super::join::longs(&record[20..]).collect();
                Self { digest, features, bits, hashed: None }
            }
        }
    }
}

impl Page for &Owned {
    fn digest(&self) -> u128 {
        self.digest
    }

    fn hashed(&self) -> Option<&Hashed> {
        self.hashed.as_ref()
    }

    fn signature(&self) -> Option<&[u32]> {
        None
    }

    fn bits(&self) -> Option<SetBits<'_>> {
        self.hashed.is_none().then(|| SetBits::by_size(&self.bits, self.features))
    }

    fn size(&self) -> u32 {
        self.features
    }

    fn features(&self, _: impl FnMut(u64, i64)) {}
}

/// The memory that stages and tables take for so many pages, beside what is known of files.
pub fn held_of(pages: u64) -> u64 {
    3 * bits_bytes(pages)
}

/// An error where a run has more pages than results can number.
pub fn check_number(pages: u64) -> Result<()> {
    match u32::try_from(pages) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::parameter("pages", pages, "at most 2^32 - 1 pages in one run with tables")),
    }
}
