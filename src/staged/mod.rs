//! A run in stages, for more documents than memory holds: sketch, join, cluster, apply.
//!
//! ```text
//! input files ─sketch──► sketches/NAME.sketches, NAME.names   one of each for an input file
//!             ─join────► sketches/joined-ID/…                 edges, by bands
//!             ─cluster─► sketches/joined-ID/NAME.assignments, NAME.pairs   one of each
//!             ─apply───► kept/…                               for an input file, kept documents and a list of others
//! ```
//!
//! Each file is made under a temporary name, appears when it is whole, and is named by what it depends on; there
//! is no state besides. So the same command resumes a run that was interrupted: what is there is passed over.
//!
//! A document is known by its *number*: new documents are numbered through all inputs in order of their paths, and
//! reference documents behind them. Its *rank* is its place in keep order, where reference documents come first. Its
//! *row* is its place among the records of its input that may be documents. All three count from 0. Each document has
//! one band hash for each *band*. An *edge* leads from a document to a leader of its bucket that is near it.
//!
//! The outcome is that of [`pipeline::dedup`](crate::pipeline::dedup) for the same documents and settings, with any
//! memory, any number of threads and any split of the work.

mod apply;
mod check;
mod cluster;
mod cohesion;
mod dedup;
mod documents;
mod estimate;
mod grouping;
mod join;
mod keep_order;
mod kept;
mod layout;
mod listing;
mod lookup;
mod names;
mod parts;
mod plan;
mod reading;
mod record;
mod sketch;
mod sketches;
mod sorter;
mod spilled;
mod store;
mod tables;
mod working;

pub use apply::{Applied, ApplyJob, Outputs, apply};
pub use check::check;
pub use cluster::{Clustered, cluster};
pub use dedup::{dedup, dedup_on_disk, rethreshold};
pub use documents::{SketchedDocument, documents_of, settings_of};
pub use estimate::Disk;
pub use grouping::{Grouping, priority_of};
pub use join::{ClusterJob, Joined, join};
pub use listing::{Listed, cluster_with_tables};
pub use plan::{JobPlan, PlanJob, Rates, StagePlan, plan};
pub use sketch::{Shard, SketchJob, Sketched, sketch};
pub use sketches::sketched_files;
pub use store::can_be_joined;

use crate::atomic_write::{Unfinished, folder_of};
use crate::display::counted;
use crate::error::{Error, Result};
use crate::format::{Kind, wrong};
use crate::pipeline::Progress;
use std::io::ErrorKind;
use std::path::Path;

/// Bytes that a stage may use beside what it holds in any case: to sort in, and for sketches that it compares.
struct Budget {
    bytes: u64,
}

/// Bytes of memory that the program takes for any job: code, stacks, buffers of files.
const FIXED: u64 = 24 << 20;

/// The least bytes of a [`Budget`].
const LEAST: u64 = 4 * sorter::LEAST_MEMORY;

impl Budget {
    /// The budget that `memory` bytes leave a stage that holds `held` bytes in any case, and merges two lists of runs.
    /// The error says how much memory it takes at least.
    fn beside(memory: u64, held: u64) -> Result<Self> {
        match memory.checked_sub(FIXED + held + 2 * sorter::MERGE_MEMORY) {
            Some(bytes) if bytes >= LEAST => Ok(Self { bytes }),
            _ => {
                let expected = format!("at least {} for so many documents", printed_bytes(Self::least(held)));
                Err(Error::parameter("memory", printed_bytes(memory), expected))
            }
        }
    }

    /// The least bytes of memory for a stage that holds `held` bytes in any case.
    fn least(held: u64) -> u64 {
        FIXED + held + 2 * sorter::MERGE_MEMORY + LEAST
    }
}

/// A number of bytes with its unit, rounded up: `24MiB`.
fn printed_bytes(bytes: u64) -> String {
    match bytes {
        0..1_024 => counted(bytes, "byte", "bytes"),
        1_024..1_048_576 => format!("{}KiB", bytes.div_ceil(1 << 10)),
        1_048_576..10_737_418_240 => format!("{}MiB", bytes.div_ceil(1 << 20)),
        _ => format!("{}GiB", bytes.div_ceil(1 << 30)),
    }
}

/// A new folder beside `place` for what does not fit into memory while the file at `place` is made. Dropping it
/// removes it.
fn workplace(place: &Path) -> Result<Unfinished> {
    Unfinished::folder(&place.with_extension("work")).map_err(|error| Error::io(folder_of(place), error))
}

/// The error for a body of `got` bytes, which is not as long as its header says.
fn odd_length(path: &Path, kind: Kind, got: u64) -> Error {
    let expected = format!("that of whole {}", kind.name);
    wrong(path, "the body's length", expected, format!("{got} bytes"), "the file is corrupt; make it again")
}

/// Refuses the file at `path` unless `does`: unless its header names the sketches in whose folder it is.
fn belongs_to(path: &Path, does: bool) -> Result<()> {
    if does {
        return Ok(());
    }
    let (expected, got) = ("the ones beside it".to_owned(), "others".to_owned());
    Err(wrong(path, "the sketches", expected, got, "remove the file, and give the command again"))
}

/// The outcome of reading a file; `None` if it is missing or corrupt, so that its stage makes it again. Corruption is
/// reported.
fn unless_corrupt<T>(read: Result<T>, progress: &dyn Progress) -> Result<Option<T>> {
    match read {
        Err(error @ Error::Format { .. }) => {
            progress.note(&format!("{error}. It counts as missing"));
            Ok(None)
        }
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
