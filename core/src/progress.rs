//! The steps of a run, and the trait by which a caller hears of its progress.

/// A step of a run. The comment of each names, behind the colon, the items that [`Progress`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Documents are grouped by text: documents.
    ExactDuplicates,
    /// Document frequencies are summed: documents.
    Frequencies,
    /// SimHashes are made of counted features: texts.
    SimHash,
    /// MinHash signatures, or both sketches, are made of counted features; kept signatures are copied: texts.
    MinHash,
    /// Texts are grouped by sketch: texts.
    Group,
    /// The index is built: distinct sketches.
    Index,
    /// The number of probes for the recall is measured: distinct sketches.
    Calibrate,
    /// Pairs of sketches are looked for: distinct sketches, or texts where keys are joined.
    Join,
    /// Pairs are counted by score: pairs of sketches.
    Histograms,
    /// Verification decides about pairs of sketches. Where keys are joined, the join has decided, and near pairs of
    /// texts assign documents: pairs.
    Verify,
    /// Documents that fuller ones contain are looked for: texts.
    Containment,
    /// A sample is compared with all, to measure what was missed: texts.
    RecallEstimate,
    /// Pairs are listed: pairs of groups.
    Pairs,
    /// Clusters are made: documents.
    Clusters,
    /// The members of clusters are compared with the kept document: documents.
    Cohesion,
}

/// A receiver of a run's progress. The thread that runs calls [`begin`](Self::begin) and [`end`](Self::end) in turn,
/// and any thread calls [`advance`](Self::advance). `()` ignores the calls.
pub trait Progress: Sync {
    /// Notes that a step begins, which works through `items` items.
    fn begin(&self, step: Step, items: u64);
    /// Notes that `items` more are done. A step may end before it has noted all, and most steps note none.
    fn advance(&self, items: u64);
    /// Notes that the step is over.
    fn end(&self, step: Step);
}

impl Progress for () {
    fn begin(&self, _: Step, _: u64) {}
    fn advance(&self, _: u64) {}
    fn end(&self, _: Step) {}
}

/// Runs `work` as a step of `items` items, and reports its beginning and its end. `work` gets a function by which it
/// reports how many more items are done.
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
