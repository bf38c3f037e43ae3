//! The assignment of every document of a run: its cluster, and the kept document that it is removed for. From it, and
//! from the pairs, the tables of a result are written, of a run in memory or on disk.

use super::Job;
use super::documents::{NamedDocument, ReadDocuments};
use crate::error::{Error, Result};
use crate::report::messages;
use crate::tables::{self, At, ClusterRow, DOCUMENTS, DOCUMENTS_JSONL, DocumentRow, PairRow, REMOVED};
use hashbrown::HashMap;
use simflip_core::clusters::Partition;
use simflip_core::dedup::{Outcome, Pair, PairKind};
use simflip_core::id::{Cluster, Document, Id};
use simflip_core::settings::Settings;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::Path;

/// The assignment of each document of a run in memory.
#[derive(Debug)]
pub struct Assignments<'a> {
    outcome: &'a Outcome,
    /// The cluster of each document that is in one.
    cluster: Vec<Option<Cluster>>,
    /// The first of each document's copies; itself where it has none.
    first: Vec<Document>,
    /// The similarities of pairs of different texts of which one is kept, each text by its first document.
    near: HashMap<(Document, Document), f32>,
}

/// The assignment of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DocumentAssignment {
    /// Its cluster; none if it is in no cluster of two documents or more.
    pub cluster: Option<Cluster>,
    /// Number of documents in that cluster, itself included; 1 without a cluster.
    pub size: u32,
    /// The kept document that it is removed for; itself, if it is kept.
    pub representative: Document,
    /// Similarity to that document, 0 to 1; none if it is itself, and if the two were not compared.
    pub similarity: Option<f32>,
}

impl<'a> Assignments<'a> {
    /// Gathers the assignments of all documents from the pairs and clusters of an outcome.
    pub fn new(outcome: &'a Outcome) -> Self {
        let mut cluster = vec![None; outcome.documents];
        for (number, members) in (0..).zip(outcome.clusters.iter()) {
            members.iter().for_each(|member| cluster[member.index()] = Some(Cluster(number)));
        }
        // Each exact duplicate is paired with the kept one, and with others too if all pairs are listed.
        let mut copies = Partition::singletons(outcome.documents);
        for pair in outcome.pairs.iter().filter(|pair| pair.kind == PairKind::Exact) {
            copies.join(pair.a, pair.b);
        }
        let first: Vec<Document> =
            Document::all(outcome.documents).map(|document| copies.find(document)).collect();
        let mut is_representative = vec![false; outcome.documents];
        outcome.representatives.iter().for_each(|kept| is_representative[first[kept.index()].index()] = true);
        let mut near = HashMap::new();
        for pair in outcome.pairs.iter().filter(|pair| pair.kind != PairKind::Exact) {
            let [a, b] = pair.documents().map(|document| first[document.index()]);
            if is_representative[a.index()] || is_representative[b.index()] {
                near.insert((a.min(b), a.max(b)), pair.similarity);
            }
        }
        Self { outcome, cluster, first, near }
    }

    /// The assignment of a document.
    pub fn of(&self, document: Document) -> DocumentAssignment {
        let outcome = self.outcome;
        let cluster = self.cluster[document.index()];
        let representative = cluster.map_or(document, |cluster| outcome.representative_of(cluster, document));
        let similarity =
            (representative != document).then(|| self.similarity(document, representative)).flatten();
        let size = cluster.map_or(1, |cluster| outcome.clusters.get(cluster).len()) as u32;
        DocumentAssignment { cluster, size, representative, similarity }
    }

    /// The similarity of two documents, 0 to 1; none if the run lists no pair of their texts.
    fn similarity(&self, a: Document, b: Document) -> Option<f32> {
        let [a, b] = [a, b].map(|document| self.first[document.index()]);
        if a == b { Some(1.0) } else { self.near.get(&(a.min(b), a.max(b))).copied() }
    }
}

/// The pairs, clusters and documents of a run, in memory or on disk, as tables list them.
pub(crate) trait Listing {
    /// All pairs that are listed, ascending by their first and second document.
    fn pairs(&self) -> Result<impl Iterator<Item = Result<Pair>>>;

    /// The documents of all clusters, those of the reference set among them, in order of clusters. Their similarities
    /// need not be filled in, as no table of clusters has them.
    fn members(&self) -> Result<impl Iterator<Item = Result<(Document, DocumentAssignment)>>>;

    /// All new documents, by number.
    fn documents(&self) -> Result<impl Iterator<Item = Result<(Document, DocumentAssignment)>>>;

    /// The id, URL and place of a document, as tables write them.
    fn named(&self, document: Document) -> Result<NamedDocument<'_>>;
}

/// A run in memory.
pub(super) struct HeldListing<'a> {
    /// The names and places of the documents.
    pub read: &'a ReadDocuments,
    /// The pairs, clusters and removals that are listed.
    pub outcome: &'a Outcome,
    /// Empty until documents are listed.
    pub assignments: OnceCell<Assignments<'a>>,
}

impl Listing for HeldListing<'_> {
    fn pairs(&self) -> Result<impl Iterator<Item = Result<Pair>>> {
        Ok(self.outcome.pairs.iter().copied().map(Ok))
    }

    fn members(&self) -> Result<impl Iterator<Item = Result<(Document, DocumentAssignment)>>> {
        let outcome = self.outcome;
        let members = Cluster::all(outcome.clusters.len()).flat_map(move |cluster| {
            let members = outcome.clusters.get(cluster);
            members.iter().map(move |&member| {
                let representative = if outcome.is_reference(member) {
                    member
                } else {
                    outcome.representative_of(cluster, member)
                };
                let (cluster, size) = (Some(cluster), members.len() as u32);
                Ok((member, DocumentAssignment { cluster, size, representative, similarity: None }))
            })
        });
        Ok(members)
    }

    fn documents(&self) -> Result<impl Iterator<Item = Result<(Document, DocumentAssignment)>>> {
        let assignments = self.assignments.get_or_init(|| Assignments::new(self.outcome));
        Ok(Document::all(self.outcome.new).map(move |document| Ok((document, assignments.of(document)))))
    }

    fn named(&self, document: Document) -> Result<NamedDocument<'_>> {
        Ok(self.read.named(document))
    }
}

/// Writes the tables that the job asks for into `folder`: pairs and clusters, documents, and removed documents.
pub(crate) fn write_tables(job: &Job, listing: &impl Listing, folder: &Path) -> Result<()> {
    let Job { writes, settings, .. } = job;
    if writes.pairs {
        write_pairs(listing, settings, &folder.join("pairs.csv"))?;
        write_clusters(listing, &folder.join("clusters.csv"))?;
    }
    if writes.documents {
        tables::write(&folder.join(DOCUMENTS), document_rows(listing, WantedRows::All)?)?;
    }
    if writes.documents_jsonl {
        tables::write_documents_jsonl(
            &folder.join(DOCUMENTS_JSONL),
            document_rows(listing, WantedRows::All)?,
        )?;
    }
    if writes.documents_parquet {
        let path = folder.join(tables::DOCUMENTS_PARQUET);
        let settings = serde_json::to_string(settings).map_err(|error| Error::io(&path, error.into()))?;
        tables::write_documents_parquet(&path, &settings, document_rows(listing, WantedRows::All)?)?;
    }
    if writes.removed {
        tables::write(&folder.join(REMOVED), document_rows(listing, WantedRows::Removed)?)?;
    }
    Ok(())
}

/// Writes the table of pairs to `path`, and gives the number of its rows.
pub(crate) fn write_pairs(listing: &impl Listing, settings: &Settings, path: &Path) -> Result<u64> {
    let rows = listing.pairs()?.map(|pair| {
        let pair = pair?;
        let [a, b] = [listing.named(pair.a)?, listing.named(pair.b)?];
        Ok(PairRow {
            a_at: a.standing(),
            b_at: b.standing(),
            a_id: a.id,
            b_id: b.id,
            a_url: a.url.unwrap_or_default(),
            b_url: b.url.unwrap_or_default(),
            distance: Some(pair.distance),
            similarity: f64::from(pair.similarity),
            kind: pair.kind,
            measure: messages::measure_name(settings, pair.kind),
        })
    });
    tables::write(path, rows)
}

/// Writes the table of clusters to `path`, and gives the number of its rows: one for each document in a cluster.
pub(crate) fn write_clusters(listing: &impl Listing, path: &Path) -> Result<u64> {
    let rows = listing.members()?.map(|member| {
        let (document, DocumentAssignment { cluster, size, representative, .. }) = member?;
        let named = listing.named(document)?;
        Ok(ClusterRow {
            at: named.standing(),
            id: named.id,
            url: named.url.unwrap_or_default(),
            cluster: Cow::Owned(cluster.unwrap_or_default().to_string()),
            size: size.into(),
            kept: representative == document,
        })
    });
    tables::write(path, rows)
}

/// The new documents that a table of documents has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedRows {
    All,
    Removed,
}

/// The rows of a table of documents, by number: all new documents, or the removed ones.
fn document_rows<L: Listing>(
    listing: &L,
    wanted: WantedRows,
) -> Result<impl Iterator<Item = Result<DocumentRow<'_>>>> {
    let goes = |of: &Result<(Document, DocumentAssignment)>| {
        of.as_ref().map_or(true, |(document, assignment)| assignment.representative != *document)
    };
    let documents = listing.documents()?.filter(move |of| wanted == WantedRows::All || goes(of));
    let rows = documents.map(|of| {
        let (document, DocumentAssignment { cluster, size, representative, similarity }) = of?;
        let named = listing.named(document)?;
        let At { file, row, .. } = named.standing();
        Ok(DocumentRow {
            file,
            row,
            representative: if representative == document {
                named.id.clone()
            } else {
                listing.named(representative)?.id
            },
            id: named.id,
            url: named.url.unwrap_or_default(),
            cluster: cluster.map(Id::number),
            size: size.into(),
            kept: representative == document,
            similarity: similarity.map(f64::from),
        })
    });
    Ok(rows)
}
