//! The tables of pairs and clusters of a folder of sketches, as `dedup` writes them, for the cluster stage.

use super::cluster::{self, Clustered, cluster_folder};
use super::join::ClusterJob;
use super::lookup::{InputName, Lookup};
use super::sketches::Folder;
use super::tables::{Tables, held_of};
use super::{Budget, workplace};
use crate::error::Result;
use crate::pipeline::listing::{write_clusters, write_pairs};
use crate::pipeline::output::OutputFolder;
use crate::pipeline::{Progress, with_threads};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// The number of rows in the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Pairs.
    pub pairs: u64,
    /// Documents in clusters, reference documents among them.
    pub documents: u64,
}

/// Clusters documents as [`cluster`](super::cluster()) does, and writes `pairs.csv` and `clusters.csv` into a new
/// folder `out`. [`dedup`](super::dedup()) writes the same tables of the same documents, but for the paths of inputs,
/// which are real ones here.
///
/// # Errors
/// As [`cluster`](super::cluster()); or if something is in the folder's place already, or it cannot be written.
pub fn cluster_with_tables(
    job: &ClusterJob,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(Clustered, Listed)> {
    OutputFolder::must_be_new("tables", out)?;
    OutputFolder::may_be(out, false)?;
    let (folder, files, memory) = job.open(progress)?;
    let budget = Budget::beside(memory, held_of(folder.documents()) + folder.files_bytes())?;
    with_threads(job.threads, || {
        let clustered = cluster_folder(&folder, &job.grouping, &files, memory, progress)?;
        let making = OutputFolder::begin(out, false)?;
        let listed = write(&folder, job, budget, making.path(), progress)?;
        making.finish()?;
        Ok((clustered, listed))
    })?
}

fn write(
    folder: &Folder,
    job: &ClusterJob,
    budget: Budget,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Listed> {
    let work = workplace(&folder.joined(&job.grouping).join("tables"))?;
    let assignments = cluster::open(folder, &job.grouping)?.1;
    let pairs = cluster::pairs(folder, &job.grouping)?;
    let called = (0..).zip(&folder.inputs);
    let called = called.map(|(shard, input)| InputName { name: PathBuf::from(&input.mark.path), shard });
    let called: Vec<InputName> = called.collect();
    let lookup = progress.during("names", folder.documents(), "documents", |_| {
        Lookup::new(folder, &called, work.path(), budget.bytes / 2)
    })?;
    let tables = Tables {
        folder,
        settings: &folder.settings,
        pairs: &pairs,
        assignments: &assignments,
        lookup: RefCell::new(lookup),
        budget,
        work: work.path(),
    };
    progress.during("write tables", 0, "pairs", |_| {
        let pairs = write_pairs(&tables, &folder.settings, &out.join("pairs.csv"))?;
        Ok(Listed { pairs, documents: write_clusters(&tables, &out.join("clusters.csv"))? })
    })
}
