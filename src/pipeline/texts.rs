//! The path from texts in memory to an outcome and its report, for programs that have texts and no files. No file is
//! read or written, except that a file of document frequencies is read where one is named.

use super::dedup::{Findings, against};
use super::samples::{Shown, ShownDocument};
use super::sources::{lost_by_host, number_of_host};
use super::stages::{Progress, Stages};
use super::{Job, with_threads};
use crate::error::{Error, Result};
use crate::frequencies;
use crate::report::model::{Corpus, Report, Stage};
use crate::resources::cpu_seconds;
use crate::weight::frequencies::Frequencies;
use rayon::prelude::*;
use simflip_core::clusters::Source;
use simflip_core::collection::{Collection, Keeping};
use simflip_core::dedup::{Context, Outcome, Prepared};
use simflip_core::id::{Document, Id};
use simflip_core::settings::Settings;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Texts in memory, and the way in which they are compared and reported.
#[non_exhaustive]
pub struct TextJob<'a, T> {
    /// The texts; a document's number is its place here. For [`TextCollector::finish`], whose texts came in batches, it
    /// is enough to have the first ones: the report shows all others as empty.
    pub texts: &'a [T],
    /// Texts from this number on are the reference set: new ones are compared with them, and all of them are kept, see
    /// [`Context::against`]. `usize::MAX` if there are none.
    pub first_reference: usize,
    /// The URL of each text, for `keep = shortest-url`, `keep-each = host` and the report. Texts beyond the end of the
    /// list have none.
    pub urls: &'a [Option<&'a str>],
    /// Gives the name of a document in the report.
    pub name: &'a (dyn Fn(Document) -> String + Sync),
    /// The settings that decide the result.
    pub settings: Settings,
    /// A file of document frequencies to use instead of the texts' own.
    pub frequencies: Option<PathBuf>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// When the run began, RFC 3339, for the report.
    pub created: String,
}

impl<'a, T> TextJob<'a, T> {
    /// Makes a job without a reference set, URLs or frequencies, which names documents by their numbers.
    pub fn new(texts: &'a [T], settings: Settings) -> Self {
        Self {
            texts,
            first_reference: usize::MAX,
            urls: &[],
            name: &|document| document.to_string(),
            settings,
            frequencies: None,
            threads: 0,
            created: String::new(),
        }
    }

    fn url(&self, document: Document) -> Option<&'a str> {
        self.urls.get(document.index()).copied().flatten()
    }
}

/// Finds the near-duplicates of the job's texts. The outcome is that of [`super::dedup`] for a file of the same texts
/// in the same order; the report lacks what only files have. `progress` hears of bytes, then of the core's steps.
///
/// # Errors
/// If a setting has no meaning, the file of frequencies does not fit, or too many pairs are to be listed.
pub fn dedup_texts<T>(job: &TextJob<'_, T>, progress: &dyn Progress) -> Result<(Outcome, Report)>
where
    T: AsRef<str> + Sync,
{
    let mut collector = TextCollector::new(&job.settings, job.frequencies.as_deref(), job.threads)?;
    progress.during("read", bytes(job.texts), "bytes", |_| collector.extend(job.texts, progress))?;
    collector.finish(job, progress)
}

fn bytes<T: AsRef<str>>(texts: &[T]) -> u64 {
    texts.iter().map(|text| text.as_ref().len() as u64).sum()
}

/// Takes texts batch by batch, and holds of each what a run needs: sketches or features, but not the text.
pub struct TextCollector {
    settings: Settings,
    /// The document frequencies of the named file; none without, or if the settings do not weigh features.
    loaded: Option<Arc<Frequencies>>,
    threads: usize,
    collection: Collection,
    /// Time and amount of all calls of `extend`.
    read: Stage,
}

impl TextCollector {
    /// A collector without texts. `frequencies` is a file of document frequencies, and `threads` is 0 for as many as
    /// the machine has.
    ///
    /// # Errors
    /// If a setting has no meaning for texts in memory, or the file of frequencies does not fit.
    pub fn new(settings: &Settings, frequencies: Option<&Path>, threads: usize) -> Result<Self> {
        settings.check()?;
        if settings.keep.by_score() {
            let expected =
                "first, fullest, longest or shortest-url; texts in memory have no scores and no inputs";
            return Err(Error::parameter("keep", &settings.keep, expected));
        }
        if let Some(source @ (Source::File | Source::Folder)) = settings.quota.each {
            let expected = "host; texts in memory come from no files";
            return Err(Error::parameter("keep-each", source.name(), expected));
        }
        let loaded = match frequencies {
            Some(path) if settings.needs_frequencies() => {
                Some(Arc::new(frequencies::load(path, settings.extraction())?))
            }
            _ => None,
        };
        let collection = Collection::new(settings.extraction(), Keeping::of(settings), loaded.clone())?;
        let read = Stage { name: "read".to_owned(), item_unit: "documents".to_owned(), ..Stage::default() };
        Ok(Self { settings: settings.clone(), loaded, threads, collection, read })
    }

    /// Adds texts behind those that were added before. `progress` hears of their bytes.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn extend<T: AsRef<str> + Sync>(&mut self, texts: &[T], progress: &dyn Progress) -> Result<()> {
        /// Texts after which progress is reported.
        const BATCH: usize = 64;
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        let keeping = Keeping::of(&self.settings);
        let new = || Collection::new(self.settings.extraction(), keeping, self.loaded.clone());
        let parts = with_threads(self.threads, || {
            // A part of counted features numbers them anew, which costs memory; sketches can be cut finely, so that no
            // thread is left with the long texts.
            let parts = match keeping {
                Keeping::Features => rayon::current_num_threads(),
                _ => 4 * rayon::current_num_threads(),
            };
            let part = |texts: &[T]| -> Result<Collection> {
                let mut part = new()?;
                for batch in texts.chunks(BATCH) {
                    for text in batch {
                        part.push(text.as_ref());
                    }
                    progress.advance(bytes(batch));
                }
                Ok(part)
            };
            texts.par_chunks(texts.len().div_ceil(parts).max(1)).map(part).collect::<Result<Vec<_>>>()
        })??;
        for part in parts {
            self.collection.merge(part)?;
        }
        self.read.wall_seconds += wall.elapsed().as_secs_f64();
        self.read.cpu_seconds += cpu_seconds().zip(cpu).map_or(0.0, |(now, then)| now - then);
        self.read.items += texts.len() as u64;
        self.read.bytes += bytes(texts);
        Ok(())
    }

    /// Finds the near-duplicates of the texts that were added. The job gives their names and URLs, and the texts that
    /// the report may show. Its settings must be those that the collector was made with; its threads are ignored.
    ///
    /// # Errors
    /// If too many pairs are to be listed.
    pub fn finish<T>(self, job: &TextJob<'_, T>, progress: &dyn Progress) -> Result<(Outcome, Report)>
    where
        T: AsRef<str> + Sync,
    {
        with_threads(self.threads, || {
            let (settings, collection) = (&self.settings, &self.collection);
            let stages = Stages::new(progress);
            stages.push(self.read);
            let prepared = Prepared::new(collection, settings, self.loaded, &stages);
            let url = |document| job.url(document);
            let source = |document| number_of_host(job.url(document));
            let context = Context::new(&url, &stages).from_sources(&source).against(job.first_reference);
            let outcome = prepared.find(settings, &context)?.outcome()?;
            let report = report(job, collection, &outcome, &stages);
            Ok((outcome, report))
        })?
    }
}

fn report<T: AsRef<str>>(
    job: &TextJob<'_, T>,
    collection: &Collection,
    outcome: &Outcome,
    stages: &Stages<'_>,
) -> Report {
    let is_kept = outcome.kept_mask();
    let bytes = |document: Document| collection.facts(document).text_bytes;
    let new = || Document::all(outcome.new);
    let removed_text_bytes = new().filter(|document| !is_kept[document.index()]).map(bytes).sum();
    let mut findings = Findings::of(outcome, removed_text_bytes, job.settings.seed);
    findings.files.lost_by_source =
        lost_by_host(new().map(|document| (job.url(document), is_kept[document.index()])))
            .into_iter()
            .collect();
    findings.files.against = (job.first_reference <= collection.len()).then(|| against(collection, outcome));
    let shown = |document: Document| {
        let text = job.texts.get(document.index()).map_or("", AsRef::as_ref);
        let (name, url) = ((job.name)(document), job.url(document).unwrap_or_default());
        (document, ShownDocument::of_text(name, url, text, outcome.is_reference(document)))
    };
    let shown = Shown(findings.shown().into_iter().map(shown).collect());
    let samples = findings.samples(&shown);
    let (settings, frequencies, created) =
        (job.settings.clone(), job.frequencies.clone(), job.created.clone());
    let as_job = Job { settings, frequencies, created, ..Job::default() };
    let report = findings.report(&as_job, &shown, samples, stages);
    let (text_bytes, records) = (new().map(bytes).sum(), outcome.new as u64);
    Report { corpus: Corpus { text_bytes, records, ..report.corpus }, ..report }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Silent;
    use simflip_core::dedup::Deduper;

    #[test]
    fn the_outcome_is_the_core_s_for_any_number_of_threads() {
        let texts: Vec<String> = (0..300)
            .map(|n| {
                (0..40)
                    .map(|word| format!("w{}", if word == 7 { n } else { n % 60 * 100 + word }))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        for settings in [Settings::default(), Settings::paper(), Settings::minhash(0.8)] {
            let mut deduper = Deduper::new(settings.clone()).unwrap();
            deduper.extend(&texts);
            let expected = deduper.run().unwrap();
            assert!(!expected.pairs.is_empty(), "{settings:?}");
            for threads in [1, 3] {
                let job = TextJob { threads, ..TextJob::new(&texts, settings.clone()) };
                let (outcome, report) = dedup_texts(&job, &Silent).unwrap();
                assert_eq!(outcome, expected);
                assert_eq!(report.outcome.kept as usize, expected.kept().count());
                assert_eq!(report.settings.as_ref(), Some(&settings));
                assert!(!report.sample_pairs.is_empty());
            }
        }
    }

    #[test]
    fn no_text_is_no_pair() {
        let (outcome, report) =
            dedup_texts(&TextJob::<&str>::new(&[], Settings::default()), &Silent).unwrap();
        assert_eq!((outcome.pairs.len(), report.corpus.documents), (0, 0));
    }
}
