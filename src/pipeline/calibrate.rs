//! Measures, on a corpus, the number of probes for each recall that is asked for. A probe is a look-up in a table of an
//! index of SimHashes; recall is the share of near pairs that the probes find.

use super::stages::{Progress, Stages};
use super::{Job, read_files};
use crate::calibrate::Calibration;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use simflip_core::dedup::Prepared;
use simflip_core::internal::{Hashes, Probed};

/// The number of probes of a query for each recall on a corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeTable {
    /// Documents read.
    pub documents: u64,
    /// Corrupt sections of the input.
    pub corrupt: u64,
    /// Probes of a query in an exhaustive search.
    pub all_probes: u64,
    /// Each recall that was asked for, 0 to 1, with the number of probes for it and the recall that these reached.
    pub rows: Vec<(f64, Calibration)>,
}

/// Measures the number of probes for each of `recalls` on the job's corpus, with the index of the job's settings.
/// [`super::dedup`] does so for the one recall that it is to reach. Nothing is written.
///
/// # Errors
/// If no document could be read, a recall is not above 0 and at most 1, a setting has no meaning, or the settings'
/// generator makes no probes.
pub fn calibrate(job: &Job, recalls: &[f64], progress: &dyn Progress) -> Result<ProbeTable> {
    if let Some(recall) = recalls.iter().find(|&&recall| !(recall > 0.0 && recall <= 1.0)) {
        return Err(Error::parameter("recalls", recall, "shares above 0 and at most 1"));
    }
    // A generator that makes no probes is reported before anything is read.
    Probed::new(&[], &job.settings.generator)?;
    job.with_threads(|| {
        let stages = Stages::new(progress);
        let (read, frequencies, _) = read_files(job, &job.settings, None, None, &stages)?;
        let prepared = Prepared::new(&read.collection, &job.settings, frequencies, &stages);
        let evidence = prepared.evidence(&job.settings);
        let hashes = Hashes::new(&evidence, &stages);
        let index = Probed::new(hashes.hashes(), &job.settings.generator)?;
        let sample = index.sample(&hashes, job.settings.seed, &stages);
        Ok(ProbeTable {
            documents: read.len() as u64,
            corrupt: read.corrupt(),
            all_probes: index.all_probes(),
            rows: recalls.iter().map(|&recall| (recall, sample.budget(recall))).collect(),
        })
    })?
}
