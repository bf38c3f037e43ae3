//! What a report tells programs about how its run was made. Reports of schema 1 tell it in words only; this
//! is the one place that reads them.

use super::model::{Method, Report};
use crate::clusters::Linkage;
use simflip_core::dedup::{Crowds, Ran, Searched};
use simflip_core::settings::Settings;

/// How a run was made, as far as checks and reviews of its results need it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// How pairs were joined into clusters, if the report says so.
    pub clusters: Option<Linkage>,
    /// Whether pairs had to pass a check of their similarity.
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
    /// All but those of crowds of pages of one template, which were thinned.
    AllButCrowds,
    /// As many as were measured.
    Measured,
}

impl RunFacts {
    /// The facts of a run by its report.
    pub fn of(report: &Report) -> Self {
        match (&report.settings, &report.searched) {
            (Some(settings), Some(searched)) => Self::of_data(settings, searched),
            _ => Self::of_words(&report.method),
        }
    }

    fn of_data(settings: &Settings, searched: &Searched) -> Self {
        Self {
            clusters: Some(settings.linkage),
            checked: settings.judge.measure().is_some(),
            threshold: settings.judge.threshold(),
            reach: match (searched.ran, &searched.crowds) {
                (Ran::Join { .. }, Some(Crowds::Sampled { .. })) => Reach::AllButCrowds,
                (Ran::Join { .. } | Ran::Bphs { .. } | Ran::Probing { probes: None, .. }, _) => Reach::All,
                (Ran::HashBands { distance, banding }, _) if (distance as usize) < banding.bands => {
                    Reach::All
                }
                _ => Reach::Measured,
            },
        }
    }

    /// The facts by the words of schema 1, as `simflip` 0.1.0 writes them.
    fn of_words(method: &Method) -> Self {
        let value = |name: &str| method.parameters.iter().find(|p| p.name == name).map(|p| &*p.value);
        let is = |name: &str, wanted: &str| value(name) == Some(wanted);
        let linkages = [Linkage::Connected, Linkage::Star];
        Self {
            clusters: linkages.into_iter().find(|linkage| is("clusters", linkage.name())),
            checked: value("verify").is_some_and(|by| by != "none"),
            threshold: value("verify threshold").and_then(|least| least.parse().ok()),
            reach: if method.name == "bphs" || is("search", "exact join of all hashes") {
                Reach::All
            } else if is("search", "exact join of all hashes but those of crowds") {
                Reach::AllButCrowds
            } else {
                Reach::Measured
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
