//! Every page of a run in a table: where it stands, whether it stays, and which page stays for it.

use super::pages::Pages;
use crate::tables::{At, PageRow};
use hashbrown::HashMap;
use simflip_core::clusters::Partition;
use simflip_core::dedup::{Kind, Outcome};
use simflip_core::id::{Cluster, Document, Id};
use std::borrow::Cow;

/// What becomes of each page.
pub struct Fates<'a> {
    pages: &'a Pages,
    outcome: &'a Outcome,
    /// The cluster of each page that is in one.
    cluster: Vec<Option<Cluster>>,
    /// The first of each page's copies; itself where it has none.
    first: Vec<Document>,
    /// The similarity of a text with one that stays, by the first copies of both.
    near: HashMap<(Document, Document), f32>,
}

impl<'a> Fates<'a> {
    /// Gathers what the pairs and clusters of a run say of each page.
    pub fn new(pages: &'a Pages, outcome: &'a Outcome) -> Self {
        let mut cluster = vec![None; outcome.documents];
        for (number, members) in (0..).zip(outcome.clusters.iter()) {
            members.iter().for_each(|member| cluster[member.index()] = Some(Cluster(number)));
        }
        // Each copy is paired with the one that leads, and with others too if all pairs are listed.
        let mut copies = Partition::singletons(outcome.documents);
        for pair in outcome.pairs.iter().filter(|pair| pair.kind == Kind::Exact) {
            copies.join(pair.a, pair.b);
        }
        let first: Vec<Document> = Document::all(outcome.documents).map(|page| copies.find(page)).collect();
        let mut stays = vec![false; outcome.documents];
        outcome.representatives.iter().for_each(|kept| stays[first[kept.index()].index()] = true);
        let mut near = HashMap::new();
        for pair in outcome.pairs.iter().filter(|pair| pair.kind != Kind::Exact) {
            let [a, b] = pair.documents().map(|document| first[document.index()]);
            if stays[a.index()] || stays[b.index()] {
                near.insert((a.min(b), a.max(b)), pair.similarity);
            }
        }
        Self { pages, outcome, cluster, first, near }
    }

    /// The row of a page.
    pub fn row(&self, page: Document) -> PageRow<'a> {
        let Self { pages, outcome, .. } = self;
        let At { file, row, .. } = pages.standing(page);
        let cluster = self.cluster[page.index()];
        let kept = cluster.map_or(page, |cluster| outcome.stays_for(cluster, page));
        let similarity = (kept != page).then(|| self.similarity(page, kept)).flatten();
        PageRow {
            file,
            row,
            id: pages.id_of(page),
            url: Cow::Borrowed(pages.url(page).unwrap_or_default()),
            cluster: cluster.map(Id::number),
            size: cluster.map_or(1, |cluster| outcome.clusters.get(cluster).len()) as u64,
            kept: kept == page,
            stays: pages.id_of(kept),
            similarity: similarity.map(f64::from),
        }
    }

    /// The similarity of two pages, where they were compared.
    fn similarity(&self, a: Document, b: Document) -> Option<f32> {
        let [a, b] = [a, b].map(|document| self.first[document.index()]);
        if a == b { Some(1.0) } else { self.near.get(&(a.min(b), a.max(b))).copied() }
    }
}
