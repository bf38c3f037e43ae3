//! The facts about a run that programs take from its report.

use super::model::Report;
use crate::clusters::Linkage;
use simflip_core::dedup::{Capped, Ran};

/// The settings of a run that checks and reviews of its results need.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// The linkage of pairs into clusters, if the report names it.
    pub clusters: Option<Linkage>,
    /// True if pairs had to pass a check of their similarity.
    pub checked: bool,
    /// The similarity from which a pair passed it.
    pub threshold: Option<f64>,
    /// Which of the pairs within the threshold the search finds by its design.
    pub reach: Reach,
}

/// Which of the pairs within the threshold a search finds by its design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All of them.
    All,
    /// All but those of dense groups of documents of one template, which were sub-sampled.
    AllButDense,
    /// As many as were measured.
    Measured,
}

impl RunFacts {
    /// The facts of a run by its report; nothing is certain where it has no settings.
    pub fn of(report: &Report) -> Self {
        let (Some(settings), Some(searched)) = (&report.settings, &report.searched) else {
            return Self { clusters: None, checked: false, threshold: None, reach: Reach::Measured };
        };
        Self {
            clusters: Some(settings.linkage),
            checked: settings.verification.measure().is_some(),
            threshold: settings.verification.threshold(),
            reach: match (searched.ran, &searched.capped) {
                (Ran::Join { .. }, Some(Capped::Sampled { .. }))
                | (Ran::Bphs { .. }, Some(Capped::Bands { .. })) => Reach::AllButDense,
                (Ran::Join { .. } | Ran::Bphs { .. } | Ran::Probing { probes: None, .. }, _) => Reach::All,
                (Ran::HashBands { distance, banding }, _) if (distance as usize) < banding.bands => {
                    Reach::All
                }
                _ => Reach::Measured,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_says_nothing_promises_nothing() {
        let nothing = RunFacts { clusters: None, checked: false, threshold: None, reach: Reach::Measured };
        assert_eq!(RunFacts::of(&Report::default()), nothing);
    }
}
