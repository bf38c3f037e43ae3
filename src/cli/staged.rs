//! `simflip sketch`, `join`, `cluster` and `apply`: a run in stages, for more documents than memory holds.

use super::arguments::{
    CheckArgs, FeatureArgs, Given, InputArgs, MethodName, QuotaArgs, SearchArgs, WorkArgs, bytes, kept_files,
    named, parsed,
};
use super::progress::Bars;
use super::{Done, print_text};
use simflip::boilerplate;
use simflip::clusters::{Keep, Linkage};
use simflip::corpus::{KeptFiles, expand_patterns};
use simflip::display::counted;
use simflip::report::messages::recall_sentence;
use simflip::resources::peak_memory_bytes;
use simflip::staged::{self, Grouping, Outputs, Shard};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stage 1 of a large job: sketch each input file.
///
/// Stages are sketch, join, cluster and apply. Each passes over what is there already, so that a run that was
/// ended goes on with the same command. What comes of them is what dedup makes of the same pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip sketch crawl/*.warc.wet.gz --out sketches
  simflip join sketches --memory 8GiB
  simflip cluster sketches
  simflip apply sketches crawl/*.warc.wet.gz --out kept

Exit code: 0 done; 1 done, but corrupt input was skipped; 2 failed.")]
pub(crate) struct SketchArgs {
    #[command(flatten)]
    input: InputArgs,

    /// Folder for the files of sketches; it may hold others of the same settings
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Make sketches again that are there and do not fit: of other settings, of a file that has changed, or corrupt
    #[arg(long)]
    force: bool,

    /// The part of the input files to sketch, such as 17/1000, counted from 1: for many machines
    #[arg(long, value_name = "PART", default_value_t, value_parser = parsed::<Shard>)]
    shard: Shard,

    #[command(flatten)]
    machine: MachineArgs,

    /// Which sketch a document gets: both; minhash; or bphs, SimHashes that differ in --distance bits, 3 at most
    #[arg(long, value_enum, default_value_t = MethodName::Both)]
    method: MethodName,

    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    check: CheckArgs,

    #[command(flatten)]
    features: FeatureArgs,

    /// Keep the numbers of this JSONL field or CSV or Parquet column with the sketches, for cluster --keep score:FIELD
    #[arg(long, value_name = "FIELD")]
    score: Option<String>,

    /// Ignore the boilerplate of a file that dedup --save-boilerplate wrote; give all parts of a job the same file
    #[arg(long, value_name = "FILE")]
    boilerplate: Option<PathBuf>,
}

impl SketchArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let method = self.method;
        let given = Given { check: Some(&self.check), ..Given::new(&self.search, &self.features) };
        let settings = given.settings(method, &self.search.said(method))?;
        let mut options = self.input.names.options();
        options.fields.score = self.score;
        let job = staged::SketchJob {
            inputs: expand_patterns(&self.input.inputs)?,
            options,
            out: self.out,
            force: self.force,
            memory: self.machine.memory,
            threads: self.machine.work.threads,
            shard: self.shard,
            settings,
            boilerplate: self.boilerplate.map(|path| boilerplate::load(&path)).transpose()?.map(Arc::new),
        };
        let sketched = staged::sketch(&job, &Bars::new(self.machine.work.quiet))?;
        let documents = counted(sketched.documents, "document", "documents");
        let mut text = format!("{documents} of {} are sketched", counted(sketched.files, "file", "files"));
        if sketched.there > 0 {
            text += &format!(", {} of them before", counted(sketched.there, "file", "files"));
        }
        if sketched.corrupt > 0 {
            text += &format!("; {}", counted(sketched.corrupt, "corrupt section", "corrupt sections"));
        }
        print_text(&(text + "." + &peak() + "\n"))?;
        Ok(if sketched.corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }
}

/// The threads and the memory of a stage.
#[derive(Debug, clap::Args)]
struct MachineArgs {
    /// Memory that is not exceeded, such as 512MiB or 4GiB; what does not fit goes to disk, beside the sketches
    /// [default: half of what the machine or container has, or what is free]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,

    #[command(flatten)]
    work: WorkArgs,
}

/// The sketches of reference documents.
#[derive(Debug, clap::Args)]
struct AgainstArgs {
    /// Folder of the sketches of reference documents, made with the same settings, and the same for join, cluster and
    /// apply; repeatable
    #[arg(long, value_name = "DIR")]
    against: Vec<PathBuf>,
}

/// The peak of memory, as the last sentence of a summary.
fn peak() -> String {
    let megabytes = peak_memory_bytes().map(|bytes| bytes.div_ceil(1 << 20));
    megabytes.map_or_else(String::new, |mb| format!(" Peak memory {mb} MiB."))
}

/// Stage 2: compare documents that share a band hash.
///
/// Documents are compared by their sketches; no text is read again. Bands come one after the other, each into a file of
/// its own; those that are there already are passed over. --clusters, --keep, --priority and --all-pairs decide which
/// documents are compared: give the same ones to cluster and apply.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip join sketches --memory 8GiB
  simflip join november --against october --keep longest")]
pub(crate) struct JoinArgs {
    /// Folder that simflip sketch wrote
    sketches: PathBuf,

    #[command(flatten)]
    reference: AgainstArgs,

    #[command(flatten)]
    order: OrderArgs,

    #[command(flatten)]
    machine: MachineArgs,

    /// The part of the bands to join, such as 2/3, counted from 1: for several machines that share the folder
    #[arg(long, value_name = "PART", default_value_t, value_parser = parsed::<Shard>)]
    shard: Shard,
}

impl JoinArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let MachineArgs { memory, work: WorkArgs { threads, quiet } } = self.machine;
        let (sketches, against) = (self.sketches, self.reference.against);
        let grouping = self.order.grouping(&sketches)?;
        let job = staged::ClusterJob { sketches, against, grouping, memory, threads };
        let joined = staged::join(&job, self.shard, &Bars::new(quiet))?;
        let reference = match joined.reference_documents {
            0 => String::new(),
            number => format!(" against {}", counted(number, "reference document", "reference documents")),
        };
        let documents = counted(joined.documents, "document", "documents");
        let copies = counted(joined.exact_duplicates, "is an exact duplicate", "are exact duplicates");
        let bands = counted(joined.bands, "band", "bands");
        let compared = counted(joined.statistics.compared, "pair", "pairs");
        let found = counted(joined.pairs, "near pair", "near pairs");
        let mut text = format!("{documents}{reference}, of which {copies}. {bands} joined: ");
        text += &format!("{compared} compared, {found} found.");
        if joined.statistics.left_out > 0 {
            let pairs = counted(joined.statistics.left_out, "pair", "pairs");
            let documents = counted(joined.statistics.largest, "document", "documents");
            text += &format!(" In large buckets {pairs} were not compared; the largest has {documents}.");
        }
        print_text(&format!("{text}{}\n", peak()))
    }
}

/// The values of --clusters: linkages that do not need all pairs at once.
const LINKAGES: [(&str, &str, Linkage); 2] = [
    ("star", "Every document is near the one that stays", Linkage::Star),
    ("connected", "All documents linked by any chain of compared pairs", Linkage::Connected),
];

/// The rules for clusters, and the order in which documents are kept.
#[derive(Debug, clap::Args)]
struct OrderArgs {
    /// How pairs form clusters
    #[arg(long, value_parser = named(&LINKAGES), default_value = "star")]
    clusters: Linkage,

    /// Document to keep: first, longest, fullest (of features), shortest-url, score:FIELD (of sketch --score) or
    /// input-order (by --priority) [default: first; with containment fullest, and no other]
    #[arg(long, value_name = "RULE", value_parser = parsed::<Keep>)]
    keep: Option<Keep>,

    /// With --keep input-order: an input file or folder whose documents are kept before others; repeatable, the most
    /// important first
    #[arg(long, value_name = "PATH")]
    priority: Vec<PathBuf>,

    /// List every pair of near documents, not only those by which documents are removed
    #[arg(long)]
    all_pairs: bool,
}

impl OrderArgs {
    /// The grouping of these sketches, by which one document of each cluster is kept.
    fn grouping(self, sketches: &Path) -> anyhow::Result<Grouping> {
        let keep = match self.keep {
            Some(keep) => keep,
            None => staged::settings_of(sketches)?.verification.usual_keep(),
        };
        let priority = staged::priority_of(&self.priority);
        let (linkage, all_pairs) = (self.clusters, self.all_pairs);
        Ok(Grouping { linkage, keep, priority, all_pairs, ..Grouping::default() })
    }
}

/// The rules for clusters, and the number of documents that are kept of each.
#[derive(Debug, clap::Args)]
struct GroupingArgs {
    #[command(flatten)]
    order: OrderArgs,

    #[command(flatten)]
    quota: QuotaArgs,
}

impl GroupingArgs {
    fn grouping(self, sketches: &Path) -> anyhow::Result<Grouping> {
        let Self { order, quota } = self;
        Ok(Grouping { quota: quota.quota(), ..order.grouping(sketches)? })
    }
}

/// Stage 3: form clusters of the pairs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip cluster sketches --clusters star
  simflip cluster sketches --tables result")]
pub(crate) struct ClusterArgs {
    /// Folder of sketches that simflip join has worked on
    sketches: PathBuf,

    #[command(flatten)]
    reference: AgainstArgs,

    #[command(flatten)]
    groups: GroupingArgs,

    /// Write pairs.csv and clusters.csv, as dedup does, into this new folder, with input files by their real paths
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,

    #[command(flatten)]
    machine: MachineArgs,
}

impl ClusterArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let MachineArgs { memory, work: WorkArgs { threads, quiet } } = self.machine;
        let (sketches, against) = (self.sketches, self.reference.against);
        let grouping = self.groups.grouping(&sketches)?;
        let verification = staged::settings_of(&sketches)?.verification;
        let job = staged::ClusterJob { sketches, against, grouping, memory, threads };
        let bars = Bars::new(quiet);
        let (done, listed) = match &self.tables {
            Some(folder) => {
                let (done, listed) = staged::cluster_with_tables(&job, folder, &bars)?;
                let rows = counted(listed.pairs, "pair", "pairs");
                (done, format!(" {rows} and {} listed.", counted(listed.documents, "document", "documents")))
            }
            None => (staged::cluster(&job, &bars)?, String::new()),
        };
        let estimate = done.recall_estimate.as_ref().map_or_else(String::new, |recall_estimate| {
            format!(" {}", recall_sentence(recall_estimate, verification).trim_end())
        });
        print_text(&format!(
            "{} of {} are duplicates, in {}; the largest has {}.{estimate}{listed}{}\n",
            done.removed,
            counted(done.documents, "document", "documents"),
            counted(done.clusters, "cluster", "clusters"),
            counted(done.largest, "document", "documents"),
            peak()
        ))
    }
}

/// Stage 4: write the kept documents of each input file, and the removals.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: simflip apply sketches crawl/*.warc.wet.gz --out kept")]
pub(crate) struct ApplyArgs {
    /// Folder of sketches whose documents simflip cluster has clustered
    sketches: PathBuf,

    #[command(flatten)]
    reference: AgainstArgs,

    /// The input files that were sketched, or some of them
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// Folder to write to; it may hold what this command has written before
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    groups: GroupingArgs,

    /// What to write of each input file, as a list
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT", default_value = "kept,removed")]
    write: Vec<OutputName>,

    /// In how many files the documents that stay are written: one for each input; one for all inputs of a format; or as
    /// many as it takes for none to be larger than a size, as stored, such as 256MiB
    #[arg(long, value_name = "one|each|BYTES", value_parser = kept_files, default_value = "each")]
    kept_files: KeptFiles,

    /// The part of the input files to write, such as 17/1000, counted from 1: for many machines
    #[arg(long, value_name = "PART", default_value_t, value_parser = parsed::<Shard>)]
    shard: Shard,

    /// Memory that is not exceeded, such as 64MiB: fewer threads write where it is too little for all [default: no
    /// limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,

    #[command(flatten)]
    work: WorkArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OutputName {
    /// The documents that stay, in the format of the input
    Kept,
    /// A table of the documents that can go, each with the document that stays for it
    Removed,
}

impl ApplyArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let asks = |name| self.write.contains(&name);
        let grouping = self.groups.grouping(&self.sketches)?;
        let job = staged::ApplyJob {
            sketches: self.sketches,
            against: self.reference.against,
            inputs: expand_patterns(&self.inputs)?,
            out: self.out,
            grouping,
            writes: Outputs { kept: asks(OutputName::Kept), removed: asks(OutputName::Removed) },
            kept_files: self.kept_files,
            memory: self.memory,
            threads: self.work.threads,
            shard: self.shard,
        };
        let applied = staged::apply(&job, &Bars::new(self.work.quiet))?;
        let (kept, removed) = (applied.kept, applied.removed);
        let documents = counted(kept + removed + applied.lost, "document", "documents");
        let mut text = format!("Kept {kept} of {documents}. Removed {removed}.");
        if applied.there > 0 {
            text += &format!(" {} had been written before.", counted(applied.there, "file", "files"));
        }
        if applied.lost > 0 {
            let lost = counted(applied.lost, "kept document", "kept documents");
            text += &format!(" {lost} could not be read any more.");
        }
        print_text(&(text + &peak() + "\n"))?;
        Ok(if applied.lost > 0 { Done::WithCorruption } else { Done::Well })
    }
}
