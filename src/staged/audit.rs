//! How much a join missed: some pages drawn, and compared with all others by the bits that judge.

use super::join::{Gathered, Joiner, Records, all_edges, source, there, words};
use super::record::{Edge, PAGE, page_bytes, page_of};
use super::sketches::{CHUNK, Column};
use super::sorter::{Merge, Sorted, Sorter};
use super::{belongs_to, workplace};
use crate::error::Result;
use crate::format::{self, AUDIT, Body};
use crate::inspection::Inspection;
use serde::{Deserialize, Serialize};
use simflip_core::audit::{Audit, Tally};
use simflip_core::company::Drawn;
use simflip_core::settings::Settings;
use simflip_core::streamed::Bits;
use std::collections::BinaryHeap;
use std::path::Path;

/// The steps of an audit, as progress has them.
pub(super) const DRAW: &str = "draw";
pub(super) const COMPARE: &str = "audit";

/// What stands in front of a file of an audit, which has no body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    /// The sketches.
    sketches: String,
    settings: Settings,
    audit: Audit,
}

/// A pair: later page 5, earlier page 5, whether the later one is drawn 1.
const NEAR: usize = 2 * PAGE + 1;

/// Where a page was drawn from: what it is drawn by, and its number.
type Draw = ((u64, u128), u64);

impl Joiner<'_> {
    /// Draws pages and compares them with all others, unless that was done; none where no page has a sketch. All
    /// bands are joined.
    pub(super) fn audit(&self, copies: &Bits) -> Result<Option<Audit>> {
        let path = self.folder.joined().join("join.audit");
        if let Some((header, _)) = there::<Header>(&path, AUDIT)? {
            belongs_to(&path, header.sketches == self.folder.id)?;
            return Ok(Some(header.audit));
        }
        let (drawn, [all, others]) = self.step(DRAW, |advance| self.draw(copies, advance))?;
        if drawn.is_empty() {
            return Ok(None);
        }
        let work = workplace(&path)?;
        let mut near = Sorter::new(NEAR, self.budget.bytes / 2, work.path(), "near");
        let (mut pages, mut pairs) = (Vec::new(), 0);
        for ranks in Drawn::steps(drawn.len()) {
            pages.extend(drawn[ranks.clone()].iter().map(|&(_, page)| page));
            let step = Drawn::new(self.company, &self.fetch(&drawn[ranks])?.companions(self.shape(0)));
            pairs += self.step(COMPARE, |advance| self.compare(&step, copies, &mut near, advance))?;
            if Drawn::is_enough(pairs) {
                break;
            }
        }
        let mut audit = self.count(Tally::new(pages, all), near.finish()?)?;
        // Pairs of a new page are asked for, and such a page may be near an old one.
        audit.compared = others.saturating_sub(1);
        let (sketches, settings) = (self.folder.id.clone(), self.folder.settings.clone());
        format::write(&path, AUDIT, &Header { sketches, settings, audit }, &[])?;
        Ok(Some(audit))
    }

    /// Pages whose pairs are asked for by what they are drawn by, the least of all; how many there are to draw from,
    /// and with how many they are compared.
    fn draw(&self, copies: &Bits, advance: &dyn Fn(u64)) -> Result<(Vec<Draw>, [u64; 2])> {
        let least = self.folder.settings.min_features.max(1);
        let seed = self.folder.settings.seed;
        let (mut digests, mut features, mut all, mut others) = (Vec::new(), Vec::new(), 0, 0);
        // The greatest of the least leaves first.
        let mut drawn: BinaryHeap<Draw> = BinaryHeap::new();
        self.scan(advance, |columns, page, from, count| {
            columns.read(Column::Digests, from, count, &mut digests)?;
            columns.read(Column::Features, from, count, &mut features)?;
            for ((page, digest), features) in (page..).zip(digests.chunks_exact(16)).zip(words(&features)) {
                let is_compared = features as usize >= least && !copies.get(page);
                others += u64::from(is_compared);
                if is_compared && page >= self.folder.first_compared() {
                    all += 1;
                    let digest = digest.iter().rev().fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
                    let draw = (Drawn::key(digest, seed), page);
                    if drawn.len() < Drawn::MOST {
                        drawn.push(draw);
                    } else if let Some(mut greatest) = drawn.peek_mut()
                        && draw < *greatest
                    {
                        *greatest = draw;
                    }
                }
            }
            Ok(())
        })?;
        let mut drawn = drawn.into_sorted_vec();
        drawn.truncate(Drawn::number(others));
        Ok((drawn, [all, others]))
    }

    /// The sketches of some pages.
    fn fetch(&self, drawn: &[Draw]) -> Result<Records> {
        let mut pages: Vec<u64> = drawn.iter().map(|&(_, page)| page).collect();
        pages.sort_unstable();
        let (mut gathered, mut group, shape) = (Gathered::default(), Vec::new(), self.shape(0));
        let mut open: Option<(usize, super::sketches::Columns)> = None;
        for page in pages {
            let (file, row) = self.folder.place(page);
            let columns = match &mut open {
                Some((at, columns)) if *at == file => columns,
                _ => &mut open.insert((file, self.folder.files[file].reader()?)).1,
            };
            gathered.read(columns, row, 1, shape)?;
            group.extend_from_slice(gathered.record(0, page, shape));
        }
        Ok(Records::of(&group, shape))
    }

    /// The pairs of a drawn page and another that are near, and how many they are.
    fn compare(&self, drawn: &Drawn, copies: &Bits, near: &mut Sorter, advance: &dyn Fn(u64)) -> Result<u64> {
        let mut pairs = 0;
        let least = self.folder.settings.min_features.max(1);
        let (mut gathered, mut group, shape) = (Gathered::default(), Vec::new(), self.shape(0));
        // However many of them are near, they take no more than this.
        let most = self.budget.bytes as usize / 8 / size_of::<(u64, u64)>() / drawn.len().max(1);
        let block = most.clamp(64, CHUNK as usize) * shape.width();
        self.scan(advance, |columns, page, from, count| {
            gathered.read(columns, from, count, shape)?;
            group.clear();
            for (at, page) in (page..).enumerate().take(count) {
                if gathered.features(at) as usize >= least && !copies.get(page) {
                    group.extend_from_slice(gathered.record(at, page, shape));
                }
            }
            for block in group.chunks(block) {
                for (page, other) in drawn.near(&mut Records::of(block, shape).companions(shape)) {
                    pairs += 1;
                    let edge = [page_bytes(page.max(other)), page_bytes(page.min(other))].concat();
                    near.push(&[&edge[..], &[u8::from(page > other)]].concat())?;
                }
            }
            Ok(())
        })?;
        Ok(pairs)
    }

    /// Counts these pairs, and which of them the join has found.
    fn count(&self, mut tally: Tally, mut near: Sorted) -> Result<Audit> {
        let (bodies, _) = all_edges(self.folder)?;
        let mut edges = Merge::of(Edge::WIDTH, bodies.iter().map(source).collect::<Result<Vec<_>>>()?)?;
        let mut edge = edges.next()?.map(Edge::of);
        while let Some(pair) = near.next()? {
            let (later, earlier) = (page_of(pair), page_of(&pair[PAGE..]));
            while edge.is_some_and(|edge| (edge.later, edge.earlier) < (later, earlier)) {
                edge = edges.next()?.map(Edge::of);
            }
            let is_found = edge.is_some_and(|edge| (edge.later, edge.earlier) == (later, earlier));
            let (page, other) = if pair[2 * PAGE] == 1 { (later, earlier) } else { (earlier, later) };
            tally.add(page, other, is_found);
        }
        Ok(tally.audit())
    }
}

/// What [`inspect`](crate::inspect) tells of a file of an audit.
pub fn check(path: &Path) -> Result<Inspection> {
    let (header, body): (Header, Body) = format::open(path, AUDIT)?;
    body.check()?;
    let audit = header.audit;
    let mut inspection = Inspection::of(AUDIT.name);
    inspection.fact("sketches", &header.sketches);
    inspection.fact("drawn", audit.drawn);
    inspection.fact("compared with", audit.compared);
    inspection.fact("near pairs", audit.pairs);
    inspection.fact("found", audit.found);
    if let Some(recall) = audit.recall {
        inspection.fact("recall", format!("{:.4} ({:.4} to {:.4})", recall.share, recall.low, recall.high));
    }
    if audit.found > audit.pairs {
        inspection.problem("more pairs were found than there are".to_owned());
    }
    Ok(inspection)
}
