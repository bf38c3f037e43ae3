//! The steps of a run, and the trait of those who show its progress.

/// A step of a run. What it works through is said in its comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Documents are grouped by text: documents.
    ExactDuplicates,
    /// Document frequencies are summed: documents.
    Frequencies,
    /// SimHashes are made of counted features: texts.
    SimHash,
    /// MinHash signatures are made of counted features: texts.
    MinHash,
    /// Texts are grouped by sketch: texts.
    Group,
    /// The index is built: distinct sketches.
    Index,
    /// The number of probes for the recall is measured: texts.
    Calibrate,
    /// Pairs of sketches are looked for: distinct sketches.
    Join,
    /// Pairs are counted by score: pairs of sketches.
    Histograms,
    /// Verification decides: pairs of sketches.
    Verify,
    /// Documents that fuller ones contain are looked for: texts.
    Containment,
    /// A sample is compared with all, to measure what was missed: texts.
    RecallEstimate,
    /// Pairs are listed: pairs of groups.
    Pairs,
    /// Clusters are made: documents.
    Clusters,
    /// The members of clusters are compared with the document that stays: documents.
    Cohesion,
}

/// Hears how a run goes on. [`begin`](Self::begin) and [`end`](Self::end) come from the thread that runs, in
/// turn; [`advance`](Self::advance) from any thread. `()` hears nothing.
pub trait Progress: Sync {
    /// A step begins that works through so many items.
    fn begin(&self, step: Step, items: u64);
    /// Notes that `items` more are done.
    fn advance(&self, items: u64);
    /// The step is over.
    fn end(&self, step: Step);
}

impl Progress for () {
    fn begin(&self, _: Step, _: u64) {}
    fn advance(&self, _: u64) {}
    fn end(&self, _: Step) {}
}

/// Runs a step. The work gets a function that tells how many more items are done.
pub(crate) fn run<R>(
    progress: &dyn Progress,
    step: Step,
    items: usize,
    work: impl FnOnce(&(dyn Fn(u64) + Sync)) -> R,
) -> R {
    progress.begin(step, items as u64);
    let result = work(&|items| progress.advance(items));
    progress.end(step);
    result
}
