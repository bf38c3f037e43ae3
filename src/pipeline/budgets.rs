//! The dial of a corpus: how many probes each recall takes.

use super::settings::Method;
use super::stages::{Progress, Stages};
use super::{Job, find, keeping, prepare, simhashes};
use crate::calibrate::Calibration;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// What the probes of psm buy on a corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetTable {
    /// Documents read.
    pub documents: u64,
    /// Pieces of damage met.
    pub damaged: u64,
    /// Probes of an exhaustive search.
    pub all_probes: u64,
    /// For each recall asked for, its budget and what that reached.
    pub rows: Vec<(f64, Calibration)>,
}

/// Measures the budget of each recall on a corpus, as [`super::dedup`] does for one. Nothing is written.
///
/// # Errors
/// If no document could be read, if a setting has no meaning, or if the method has no budget.
pub fn budgets(job: &Job, recalls: &[f64], progress: &dyn Progress) -> Result<BudgetTable> {
    if job.settings.method != Method::Psm {
        return Err(Error::parameter("method", job.settings.method.name(), "psm; the others have no budget"));
    }
    if let Some(recall) = recalls.iter().find(|&&recall| !(recall > 0.0 && recall <= 1.0)) {
        return Err(Error::parameter("recalls", recall, "shares above 0 and at most 1"));
    }
    job.with_threads(|| {
        let mut stages = Stages::new(progress);
        let prepared = prepare(job, true, keeping(job, true), &mut stages)?;
        let sketches = simhashes(&prepared, &job.settings, &mut stages);
        let (sample, all_probes) = find::traced_sample(&sketches, &job.settings, &mut stages)?;
        Ok(BudgetTable {
            documents: prepared.collection.documents.len() as u64,
            damaged: prepared.collection.files.iter().map(|file| file.damaged).sum(),
            all_probes,
            rows: recalls.iter().map(|&recall| (recall, sample.budget(recall))).collect(),
        })
    })?
}
