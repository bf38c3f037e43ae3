//! Makes the page on which a person judges a sample of the pairs of a result. Pairs are sampled by *bands*: ranges of
//! distance or similarity, of which each has its share of the sample.

use super::documents::count_boilerplate;
use super::grouped;
use super::samples::LONGEST;
use super::stages::{Progress, Stages};
use crate::atomic_write::{self, check_file};
use crate::boilerplate::{self, OwnText};
use crate::corpus::{self, DiscoverOptions, Input, ReadOptions, discover};
use crate::display::counted;
use crate::document::DocId;
use crate::error::{Error, Result};
use crate::evaluate::found::{FoundPair, ListedPairs};
use crate::evaluate::judged::{Bands, ReviewSample};
use crate::report::html::title_of;
use crate::report::model::{BoilerplateReport, FileRow, Report, Tool};
use crate::report::review::{ReviewHead, ReviewPage, TITLE, render};
use hashbrown::HashMap;
use simflip_core::id::{Document, Id};
use std::path::PathBuf;

/// The description of a review: the result, the sample, and the page to write.
#[derive(Clone, Debug, Default)]
pub struct ReviewJob {
    /// The folder that [`super::dedup`] wrote.
    pub result: PathBuf,
    /// Files and folders of the corpus as it is now; empty if it is where the report of the result says.
    pub corpus: Vec<PathBuf>,
    /// The options of reading, which must be those of the result.
    pub options: ReadOptions,
    /// Number of pairs to sample, at least one for each band that has pairs. If there are fewer pairs, all are
    /// sampled.
    pub size: usize,
    /// Seed of the sample.
    pub seed: u64,
    /// The bands that the sample is drawn from. `None` chooses bands of distance if the run verified nothing and all
    /// pairs have a distance, and otherwise bands of similarity at [`SIMILARITY_CUTS`].
    pub bands: Option<Bands>,
    /// The HTML file to write.
    pub page: PathBuf,
    /// The time of writing, RFC 3339.
    pub created: String,
}

/// The numbers of pairs and bands of a review that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewSummary {
    /// Sampled pairs, which are to be judged.
    pub sampled: u64,
    /// Listed pairs of different texts that they were drawn from.
    pub pairs: u64,
    /// Bands that have pairs.
    pub bands: u64,
}

/// The similarities, 0 to 1, at which bands of similarity are cut.
pub const SIMILARITY_CUTS: [f64; 8] = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98];

/// Draws a sample of the pairs of different texts that a result lists, reads their texts again, and writes the page to
/// judge them on.
///
/// # Errors
/// If the folder is not a result with a whole pairs.csv, or lists no pair of different texts. Also if there are more
/// bands than pairs to sample, if the corpus is not where it was, or has changed since, or if the page cannot be
/// written.
pub fn review(job: &ReviewJob, progress: &dyn Progress) -> Result<ReviewSummary> {
    let mut stages = Stages::new(progress);
    let report = Report::of_result(&job.result)?;
    check_file("page", &job.page, "an earlier page of this kind", |page| {
        title_of(page).is_some_and(|title| title == TITLE)
    })?;
    let mut job = job.clone();
    job.options.fields = report.fields(job.options.fields);
    let job = &job;
    let listed = stages.run("pairs", 0, "pairs", 0, |_| ListedPairs::read(&job.result))?;
    let (lists, wrote) = ((listed.near.len() + listed.copies.len()) as u64, report.outcome.pairs_written);
    if lists != wrote {
        let expected = format!(
            "a result whose pairs.csv is whole: it lists {}, and {wrote} were written",
            counted(lists, "pair", "pairs")
        );
        return Err(Error::parameter("result", job.result.display(), expected));
    }
    if listed.near.is_empty() {
        let got = job.result.display().to_string();
        let expected = format!(
            "a result that lists pairs of different texts; this one lists none, and {} of copies",
            counted(listed.copies.len() as u64, "pair", "pairs")
        );
        return Err(Error::parameter("result", got, expected));
    }
    if job.bands == Some(Bands::Distance) && listed.near.iter().all(|pair| pair.distance.is_none()) {
        return Err(Error::parameter(
            "by",
            "distance",
            "similarity, as pairs of this result have no distance",
        ));
    }
    let bands = job.bands.clone().unwrap_or_else(|| usual_bands(&report, &listed.near));
    let sample = ReviewSample::draw(&listed.near, &listed.ids, &bands, job.size, job.seed)?;
    let sides = texts(job, &report, &listed.ids, &sample, &mut stages)?;
    let head = ReviewHead {
        tool: Tool::this(),
        created: job.created.clone(),
        result: job.result.display().to_string(),
        similarity: report.method.similarity.clone(),
        pairs: listed.near.len() as u64,
        copies: listed.copies.len() as u64,
        found: report.outcome.pairs_found,
        seed: job.seed,
    };
    stages.run("document", sample.pairs.len() as u64, "pairs", 0, |_| {
        atomic_write::write(&job.page, render(&head, &sample, &listed.ids, &sides)?.as_bytes())
    })?;
    Ok(ReviewSummary {
        sampled: sample.pairs.len() as u64,
        pairs: listed.near.len() as u64,
        bands: sample.strata.len() as u64,
    })
}

/// The bands for a review that names none: see [`ReviewJob::bands`].
fn usual_bands(report: &Report, pairs: &[FoundPair]) -> Bands {
    let is_checked = report.searched().is_some_and(|(settings, _)| settings.verification.measure().is_some());
    if !is_checked && pairs.iter().all(|pair| pair.distance.is_some()) {
        Bands::Distance
    } else {
        Bands::Similarity(SIMILARITY_CUTS.to_vec())
    }
}

/// A document that the sample names, as it was found in the corpus.
struct FoundDocument {
    /// Of several documents that an id may mean, the one with the least rank has it. Documents with the id as their own
    /// come before the one whose file and number it names.
    rank: (bool, DocId),
    side: ReviewPage,
}

/// The two documents of every sampled pair, in the order of the sample, with their texts. `ids` has the id of each
/// document number of the sample.
fn texts(
    job: &ReviewJob,
    report: &Report,
    ids: &[String],
    sample: &ReviewSample,
    stages: &mut Stages<'_>,
) -> Result<Vec<[ReviewPage; 2]>> {
    let files = report.all_files();
    let (inputs, called) = inputs(job, &files)?;
    let mut wanted: HashMap<&str, Document> = HashMap::new();
    for sampled in &sample.pairs {
        for document in [sampled.pair.a, sampled.pair.b] {
            wanted.insert(&ids[document.index()], document);
        }
    }
    // Documents without an id of their own are named by file and row.
    let mut by_place: HashMap<DocId, Document> = HashMap::new();
    for (&id, &document) in &wanted {
        let place = id.rsplit_once(':').and_then(|(file, row)| Some((file, row.parse::<u32>().ok()?)));
        if let Some((file, row)) = place {
            let shards = (0..).zip(&called).filter(|(_, name)| *name == file);
            by_place.extend(shards.map(|(shard, _)| (DocId::new(shard, row), document)));
        }
    }
    let options =
        grouped(job.options.clone(), report.boilerplate.as_ref().map(|boilerplate| &boilerplate.by));
    let boilerplate = match &report.boilerplate {
        Some(BoilerplateReport { from: Some(path), .. }) => Some(boilerplate::load(path)?),
        Some(BoilerplateReport { by, .. }) => {
            Some(count_boilerplate(&inputs, by.clone(), &options, u64::MAX, stages)?.0)
        }
        None => None,
    };
    let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
    let reading = stages.run("read", 0, "documents", stored.max(1), |progress| {
        corpus::read_and_sum(
            &inputs,
            &options,
            HashMap::<Document, FoundDocument>::new,
            |found, document| {
                let own = document.record_id.and_then(|id| wanted.get(id)).map(|&number| (number, false));
                let place = by_place.get(&document.id).map(|&number| (number, true));
                for (number, by_place) in own.into_iter().chain(place) {
                    let rank = (by_place, document.id);
                    if found.get(&number).is_none_or(|earlier| rank < earlier.rank) {
                        let end = document.text.floor_char_boundary(LONGEST);
                        let side = ReviewPage {
                            id: ids[number.index()].clone(),
                            url: document.url.unwrap_or_default().to_owned(),
                            text: OwnText::new(
                                boilerplate.as_ref(),
                                &inputs[document.id.shard as usize].path,
                                (&document).into(),
                                &document.text[..end],
                            ),
                            text_bytes: document.text.len() as u64,
                        };
                        found.insert(number, FoundDocument { rank, side });
                    }
                }
            },
            progress,
        )
    });
    let mut found: HashMap<Document, FoundDocument> = HashMap::new();
    for (number, earlier) in reading.workers.into_iter().flatten() {
        if found.get(&number).is_none_or(|known| earlier.rank < known.rank) {
            found.insert(number, earlier);
        }
    }
    unchanged(&files, &reading.files, &called, job)?;
    let side = |document: Document| match found.get(&document) {
        Some(earlier) => Ok(earlier.side.clone()),
        None => Err(Error::parameter(
            "corpus",
            format!("no document {:?}", ids[document.index()]),
            "the corpus that the result was made from; --corpus says where it is now, --id-field what its ids are called",
        )),
    };
    sample.pairs.iter().map(|sampled| Ok([side(sampled.pair.a)?, side(sampled.pair.b)?])).collect()
}

/// The files to read, and the name that ids in the result have for each. `files` are those of the report.
fn inputs(job: &ReviewJob, files: &[FileRow]) -> Result<(Vec<Input>, Vec<String>)> {
    let moved = |why: &str| {
        let expected = format!(
            "a result whose input files are there as they were, for a review shows their texts; {why}: --corpus FILES says \
             where they are now"
        );
        Error::parameter("result", job.result.display(), expected)
    };
    let paths: Vec<PathBuf> = match &job.corpus[..] {
        [] => {
            // A file that gave no document is not missed.
            let needed = files.iter().filter(|file| file.documents > 0);
            let paths: Vec<PathBuf> = needed.map(|file| PathBuf::from(&file.path)).collect();
            if let Some(why) = paths.iter().find_map(|path| corpus::gone(path)) {
                return Err(moved(&why));
            }
            paths
        }
        corpus => corpus.to_vec(),
    };
    let options = DiscoverOptions { fields: job.options.fields.clone(), ..DiscoverOptions::default() };
    let inputs = discover(&paths, &options)?;
    let same_number = inputs.len() == files.len() && !job.corpus.is_empty();
    let called = match same_number {
        // Files that moved keep their order, since that is the order of their paths.
        true => files.iter().map(|file| file.path.clone()).collect(),
        false => inputs.iter().map(|input| input.path.display().to_string()).collect(),
    };
    Ok((inputs, called))
}

/// Checks that the files that were read `now`, by the names that the result has for them, hold the documents that they
/// held `before`, when the result was made. Fails if they do not.
fn unchanged(
    before: &[FileRow],
    now: &[corpus::FileReading],
    called: &[String],
    job: &ReviewJob,
) -> Result<()> {
    let was = before.iter().fold((0, 0), |sum, file| (sum.0 + file.documents, sum.1 + file.text_bytes));
    let is = now.iter().fold((0, 0), |sum, file| (sum.0 + file.documents, sum.1 + file.text_bytes));
    let named = called.iter().zip(now);
    let changed = FileRow::changed(before, named);
    if was == is && changed.is_none() {
        return Ok(());
    }
    let other_texts = if was == is { ", but other texts or in another order" } else { "" };
    let where_ = changed.map_or_else(String::new, |file| format!(", {} among them", file.path.display()));
    Err(Error::parameter(
        "corpus",
        format!(
            "{} with {} of text{other_texts}{where_}",
            counted(is.0, "document", "documents"),
            counted(is.1, "byte", "bytes")
        ),
        format!(
            "the {} with {} that {} was made from; if the input has changed since, run dedup again, and if it \
             was read with --text-field or --longest-document, give them",
            counted(was.0, "document", "documents"),
            counted(was.1, "byte", "bytes"),
            job.result.display()
        ),
    ))
}
