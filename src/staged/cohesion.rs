//! Clusters as a report counts and shows them, and how alike their documents are. It takes the sketches of a join that
//! is still open.

use super::cluster::assignments_of;
use super::join::{Joining, in_range};
use super::record::Assignment;
use crate::error::Result;
use crate::format::Body;
use crate::pipeline::dedup::ClusterFindings;
use rayon::prelude::*;
use simflip_core::bits::Bits;
use simflip_core::buckets::{SketchSource, Store};
use simflip_core::dedup::{Cohesion, Lost};
use simflip_core::id::{Cluster, Document, Id, Rank};
use simflip_core::settings::Measure;
use simflip_core::similarity::{Anchor, ComparedDocument};

/// The effect of reference documents in clusters.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceCounts {
    /// Clusters with a reference document.
    pub clusters: u64,
    /// Reference documents in them.
    pub members: u64,
    /// New documents that are removed for a reference document.
    pub removed: u64,
}

/// A document of a cluster.
struct MeasuredDocument {
    cluster: u32,
    document: u32,
    /// False for the document that others are removed for.
    is_other: bool,
    is_removed: bool,
    /// The similarity with the document that others are removed for.
    similarity: f32,
    /// Its features, if it is removed and the best of its exact duplicates, and those that the kept document lacks.
    lost: Lost,
}

/// Goes through all clusters of the documents of a join: their sizes and cohesion for the report, and the numbers of
/// reference documents. `assignments` is the body of their file of assignments.
pub fn findings(joining: &Joining<'_>, assignments: &Body) -> Result<(ClusterFindings, ReferenceCounts)> {
    let settings = &joining.folder.settings;
    let (measure, floor) = settings.cohesion();
    let (mut found, mut references) = (ClusterFindings::new((measure, floor)), ReferenceCounts::default());
    let mut members = Vec::with_capacity((assignments.len() / Assignment::WIDTH as u64) as usize);
    for assignment in assignments_of(assignments, 0..u64::MAX)? {
        let Assignment { document, representative, cluster, similarity, also_kept, .. } = assignment?;
        in_range(assignments.path(), document.max(representative), joining.folder.documents())?;
        let (is_removed, is_reference) = (document != representative, joining.folder.is_reference(document));
        references.clusters += u64::from(is_reference && !is_removed && !also_kept);
        references.members += u64::from(is_reference);
        references.removed += u64::from(is_removed && joining.folder.is_reference(representative));
        members.push(MeasuredDocument {
            cluster: cluster as u32,
            document: document as u32,
            is_other: is_removed || also_kept,
            is_removed,
            similarity: similarity.unwrap_or(1.0),
            lost: Lost::default(),
        });
    }
    members.par_sort_unstable_by_key(|member| (member.cluster, member.is_other, member.document));
    // Where containment decides, what documents are removed for was measured, and others were not.
    let was_measured = settings.keeps_feature_hashes();
    compare(joining, (!was_measured).then_some(measure), &mut members)?;
    for cluster in members.chunk_by(|a, b| a.cluster == b.cluster) {
        let document = |member: &MeasuredDocument| Document::new(member.document);
        let others: Vec<Document> = cluster[1..].iter().map(document).collect();
        let compared = cluster[1..].iter().filter(|member| member.is_removed || !was_measured);
        let similarities = compared.map(|member| (member.similarity, document(member))).collect();
        let mut cohesion = Cohesion::of(similarities, floor as f32);
        cohesion.lost = cluster.iter().map(|member| member.lost).fold(Lost::default(), Lost::with);
        found.add(Cluster::new(cluster[0].cluster), document(&cluster[0]), &others, cohesion);
    }
    Ok((found, references))
}

/// Compares the documents of each cluster with its first one, by a measure if there is one, as many at a time as there
/// is room for.
fn compare(joining: &Joining<'_>, measure: Option<Measure>, members: &mut [MeasuredDocument]) -> Result<()> {
    let of_lost =
        joining.folder.settings.verification.measure().filter(|&measure| Lost::is_measured_by(measure));
    let store = joining.store()?;
    // Of the copies of a text one has been compared with others.
    let text = |document: u32| {
        let rank = joining.order.rank(document.into());
        joining.exact_duplicates.best(rank).unwrap_or(rank)
    };
    let mut first = Rank::default();
    for some in members.chunks_mut(store.room().max(1)) {
        let mut ranks = Bits::new(joining.folder.documents());
        let of_some = some.iter().map(|member| text(member.document));
        of_some.chain([first]).for_each(|rank| ranks.set(rank.number().into()));
        let loaded = store.load(&ranks)?;
        for member in some {
            let rank = text(member.document);
            match member.is_other {
                true => {
                    let (kept, own) = (loaded.compared(first), loaded.compared(rank));
                    let sizes = [own.size(), kept.size()];
                    if let Some(measure) = measure {
                        member.similarity = Anchor::new(measure, kept).with(&own);
                    }
                    let is_near = rank != first && rank == joining.order.rank(member.document.into());
                    if let Some(measure) = of_lost.filter(|_| member.is_removed && is_near) {
                        member.lost = Lost::of(measure, member.similarity, sizes);
                    }
                }
                false => first = rank,
            }
        }
    }
    Ok(())
}
