//! The assignment of every document of a run: kept or not, and the document that stays for it.

use super::documents::ReadDocuments;
use crate::tables::{At, DocumentRow};
use hashbrown::HashMap;
use simflip_core::clusters::Partition;
use simflip_core::dedup::{Outcome, PairKind};
use simflip_core::id::{Cluster, Document, Id};
use std::borrow::Cow;

/// The assignment of each document of a run in memory.
#[derive(Debug)]
pub struct Assignments<'a> {
    outcome: &'a Outcome,
    /// The cluster of each document that is in one.
    cluster: Vec<Option<Cluster>>,
    /// The first of each document's copies; itself where it has none.
    first: Vec<Document>,
    /// The similarity of a text with one that stays, by the first copies of both.
    near: HashMap<(Document, Document), f32>,
}

/// The assignment of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DocumentAssignment {
    /// Its cluster; none where nothing is near it.
    pub cluster: Option<Cluster>,
    /// Documents in that cluster, itself included.
    pub size: u32,
    /// The document that stays for it; itself, if it stays.
    pub stays: Document,
    /// Similarity to that document in 0..=1; none for itself, and where the two were not compared.
    pub similarity: Option<f32>,
}

impl<'a> Assignments<'a> {
    /// Gathers what the pairs and clusters of a run say of each document.
    pub fn new(outcome: &'a Outcome) -> Self {
        let mut cluster = vec![None; outcome.documents];
        for (number, members) in (0..).zip(outcome.clusters.iter()) {
            members.iter().for_each(|member| cluster[member.index()] = Some(Cluster(number)));
        }
        // Each copy is paired with the one that leads, and with others too if all pairs are listed.
        let mut copies = Partition::singletons(outcome.documents);
        for pair in outcome.pairs.iter().filter(|pair| pair.kind == PairKind::Exact) {
            copies.join(pair.a, pair.b);
        }
        let first: Vec<Document> =
            Document::all(outcome.documents).map(|document| copies.find(document)).collect();
        let mut stays = vec![false; outcome.documents];
        outcome.representatives.iter().for_each(|kept| stays[first[kept.index()].index()] = true);
        let mut near = HashMap::new();
        for pair in outcome.pairs.iter().filter(|pair| pair.kind != PairKind::Exact) {
            let [a, b] = pair.documents().map(|document| first[document.index()]);
            if stays[a.index()] || stays[b.index()] {
                near.insert((a.min(b), a.max(b)), pair.similarity);
            }
        }
        Self { outcome, cluster, first, near }
    }

    /// The assignment of a document.
    pub fn of(&self, document: Document) -> DocumentAssignment {
        let outcome = self.outcome;
        let cluster = self.cluster[document.index()];
        let stays = cluster.map_or(document, |cluster| outcome.stays_for(cluster, document));
        let similarity = (stays != document).then(|| self.similarity(document, stays)).flatten();
        let size = cluster.map_or(1, |cluster| outcome.clusters.get(cluster).len()) as u32;
        DocumentAssignment { cluster, size, stays, similarity }
    }

    /// The similarity of two documents, where they were compared.
    fn similarity(&self, a: Document, b: Document) -> Option<f32> {
        let [a, b] = [a, b].map(|document| self.first[document.index()]);
        if a == b { Some(1.0) } else { self.near.get(&(a.min(b), a.max(b))).copied() }
    }

    /// The row of a document in a table.
    pub(super) fn row<'p>(&self, read: &'p ReadDocuments, document: Document) -> DocumentRow<'p> {
        let At { file, row, .. } = read.standing(document);
        let DocumentAssignment { cluster, size, stays, similarity } = self.of(document);
        DocumentRow {
            file,
            row,
            id: read.id_of(document),
            url: Cow::Borrowed(read.url(document).unwrap_or_default()),
            cluster: cluster.map(Id::number),
            size: u64::from(size),
            kept: stays == document,
            stays: read.id_of(stays),
            similarity: similarity.map(f64::from),
        }
    }
}
