//! Reads the input of a run in memory. If boilerplate is to be counted, a first pass counts the lines of all documents.
//! A second pass reads every document, and keeps what the run needs of it, but not its text. Boilerplate is counted by
//! groups of documents ([`GroupBy`]), such as those with the same value in a field that groups documents.

use super::stages::Stages;
use crate::boilerplate::{Boilerplate, BoilerplateShare, Counting, GroupBy, Lines};
use crate::corpus::{
    self, Document as Record, FileReading, Input, Languages, PassedOver, ReadJob, ReadOptions, TextSum,
    TooLong,
};
use crate::document::{DocId, DocumentTable, Place};
use crate::error::{Error, Result};
use crate::hash::text_digest;
use crate::report::model::BoilerplateReport;
use crate::tables::{At, Side};
use crate::weight::frequencies::Frequencies;
use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;
use simflip_core::buckets::Repeats;
use simflip_core::collection::{Collection, Keeping};
use simflip_core::id::{Document, Id};
use simflip_core::text::Extraction;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The documents that a run has read, without their texts: their names and places, and their sketches or features.
pub struct ReadDocuments {
    /// The files, in the order that numbers them: new ones, then those of the reference set.
    pub inputs: Vec<Input>,
    /// Number of files that are new.
    pub new_files: usize,
    /// The outcome of reading each file.
    pub files: Vec<FileReading>,
    /// All documents, in order of files and rows, so that those of the reference set come last.
    pub documents: DocumentTable,
    /// The sketches or features, and the facts, of each document, in the same order.
    pub collection: Collection,
    /// The score of each document, if scores were asked for; negative infinity where there is no number.
    pub scores: Option<Vec<f64>>,
    /// The value of each document in the field that groups documents, if one does.
    pub values: Option<Vec<Option<Arc<str>>>>,
    /// Number of new documents by language: the first that their record names.
    pub languages: Languages,
    /// Documents whose record id an earlier document has already. Results name them by file and number.
    pub repeated_ids: HashSet<Document>,
    /// Files that were named as both new and reference files; they are reference files.
    pub both: u64,
    /// Entries of the folders that were not read.
    pub not_read: PassedOver,
    /// The boilerplate that was left out, if some was.
    pub left_out: Option<BoilerplateReport>,
}

/// Counts, for each line of the inputs, the different contents of its group that have it, and gives the lines that are
/// boilerplate. A document of more than `most` bytes ends the reading; it is given with the place of its input in
/// `inputs`, and the boilerplate is then incomplete.
///
/// # Errors
/// If a store has not given all bytes of an object.
pub(crate) fn count_boilerplate(
    inputs: &[Input],
    by: GroupBy,
    options: &ReadOptions,
    most: u64,
    stages: &Stages<'_>,
) -> Result<(Boilerplate, Option<(usize, TooLong)>)> {
    let counting = Counting::new(by);
    let add = |lines: &mut Lines, record: Record<'_>| {
        counting.add(lines, &inputs[record.id.shard as usize].path, (&record).into(), record.text);
    };
    let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
    let reading = stages.run("boilerplate", 0, "documents", stored.max(1), |progress| {
        ReadJob { inputs, options, most: &|| most, progress }.read(Lines::default, add)
    });
    check_stores(inputs)?;
    Ok((counting.finish(), reading.too_long))
}

/// Checks that stores have given all bytes of those inputs that are objects.
///
/// # Errors
/// If one has not: the failure of the first such input.
pub(crate) fn check_stores(inputs: &[Input]) -> Result<()> {
    match inputs.iter().find_map(|input| Some((input, input.failure()?))) {
        Some((input, failure)) => Err(Error::io(&input.path, failure)),
        None => Ok(()),
    }
}

/// The documents that one thread has read, and what it needs for reading more.
struct DocumentWorker<'a> {
    inputs: &'a [Input],
    boilerplate: Option<&'a Boilerplate>,
    lines: Lines,
    /// The share of boilerplate in each group.
    shares: HashMap<String, BoilerplateShare>,
    collection: Collection,
    documents: DocumentTable,
    languages: Languages,
    new_files: usize,
    /// The score of each document, if scores are asked for.
    scores: Option<Vec<f64>>,
    /// The value of each document in the field that groups documents, if one does; then each distinct value once.
    values: Option<Vec<Option<Arc<str>>>>,
    distinct_values: HashSet<Arc<str>>,
}

impl DocumentWorker<'_> {
    fn add(&mut self, record: &Record<'_>) {
        if let Some(scores) = &mut self.scores {
            scores.push(record.score.unwrap_or(f64::NEG_INFINITY));
        }
        if let Some(values) = &mut self.values {
            let value = |value: &str| {
                Arc::clone(self.distinct_values.get_or_insert_with(value, |new: &str| Arc::from(new)))
            };
            values.push(record.group.map(value));
        }
        self.documents.push(record.id, record.place, record.record_id, record.url);
        let input = &*self.inputs[record.id.shard as usize].path;
        let (part, share) = match self.boilerplate {
            Some(boilerplate) => boilerplate.part(&mut self.lines, input, record),
            None => (record.text, None),
        };
        self.collection.push_part(record.text, part);
        if let Some((group, share)) = share {
            self.shares.entry(group.into_owned()).or_default().add(&share);
        }
        if record.id.shard as usize >= self.new_files {
            return;
        }
        self.languages.add(record.first_language(), 1);
    }
}

/// The parts of documents that reading keeps.
pub struct Wanted<'a> {
    /// The kind of features that texts are cut into, and their hash.
    pub extraction: Extraction,
    /// Sketches that are made at once, or features.
    pub keeping: Keeping,
    /// Document frequencies by which features weigh in sketches; none if they are still to be counted, or not needed.
    pub frequencies: Option<Arc<Frequencies>>,
    /// Lines that are left out; none if documents are compared whole.
    pub boilerplate: Option<&'a Boilerplate>,
}

impl Wanted<'_> {
    /// Keeps parts of whole documents, boilerplate included, without document frequencies of a file.
    pub fn new(extraction: impl Into<Extraction>, keeping: Keeping) -> Self {
        Self { extraction: extraction.into(), keeping, frequencies: None, boilerplate: None }
    }
}

impl ReadDocuments {
    /// Reads all documents of the inputs, of which the first `new_files` are new, on the threads of `options`.
    /// `progress` gets the number of stored bytes as they are read. [`both`](Self::both) and
    /// [`not_read`](Self::not_read) are left empty for the caller to fill.
    ///
    /// # Errors
    /// If sketches are to be kept that have no meaning; or if a store has not given all bytes of an object, though
    /// the object is not corrupt.
    pub fn read(
        inputs: Vec<Input>,
        new_files: usize,
        options: &ReadOptions,
        wanted: &Wanted<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self> {
        let &Wanted { extraction, keeping, ref frequencies, boilerplate } = wanted;
        let collection = || Collection::new(extraction, keeping, frequencies.clone());
        // What cannot be kept is reported before anything is read.
        collection()?;
        let has_values = boilerplate.is_some_and(|boilerplate| boilerplate.by.field().is_some());
        let worker = || {
            Ok(DocumentWorker {
                inputs: &inputs,
                boilerplate,
                lines: Lines::default(),
                shares: HashMap::new(),
                collection: collection()?,
                documents: DocumentTable::default(),
                languages: Languages::default(),
                new_files,
                scores: options.fields.score.as_ref().map(|_| Vec::new()),
                values: has_values.then(Vec::new),
                distinct_values: HashSet::new(),
            })
        };
        let add = |worker: &mut Result<DocumentWorker<'_>>, record: Record<'_>| {
            if let Ok(worker) = worker {
                worker.add(&record);
            }
        };
        let reading = corpus::read(&inputs, options, worker, add, progress);
        check_stores(&inputs)?;
        let mut languages = Languages::default();
        let (mut tables, mut collections) = (Vec::new(), Vec::new());
        let (mut scores, mut values) = (Vec::new(), Vec::new());
        let mut shares: HashMap<String, BoilerplateShare> = HashMap::new();
        for worker in reading.workers {
            let worker = worker?;
            languages.merge(worker.languages);
            for (group, share) in worker.shares {
                shares.entry(group).or_default().add(&share);
            }
            tables.push(worker.documents);
            collections.push(worker.collection);
            scores.extend(worker.scores);
            values.extend(worker.values);
        }
        let (documents, order) = DocumentTable::merge(tables);
        let scores = options.fields.score.as_ref().map(|_| in_order(&order, &scores));
        let values = has_values.then(|| in_order(&order, &values));
        let collection = collection()?.gather(collections, &order)?;
        let repeated_ids = repeated_ids(&documents);
        let mut files = reading.files;
        let mut sums = vec![TextSum::default(); files.len()];
        for (id, facts) in documents.ids().zip(collection.all_facts()) {
            sums[id.shard as usize].add(id.row, facts.digest);
        }
        files.iter_mut().zip(sums).for_each(|(file, sum)| file.texts = Some(sum));
        Ok(Self {
            inputs,
            new_files,
            files,
            documents,
            collection,
            scores,
            values,
            languages,
            repeated_ids,
            both: 0,
            not_read: PassedOver::default(),
            left_out: boilerplate.map(|boilerplate| {
                let mut left_out = BoilerplateReport::of(boilerplate);
                shares.into_iter().for_each(|(group, share)| left_out.add(group, share));
                left_out.settled()
            }),
        })
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Number of new documents, which come before those of the reference set.
    pub fn new_documents(&self) -> usize {
        self.documents.before(self.new_files as u32)
    }

    /// The place of a document's file in [`inputs`](Self::inputs).
    pub fn shard_of(&self, document: Document) -> usize {
        self.documents.id(document).shard as usize
    }

    /// True if a document is of the reference set.
    pub fn is_reference(&self, document: Document) -> bool {
        self.shard_of(document) >= self.new_files
    }

    /// True if there is no document.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Number of corrupt sections in all files.
    pub fn corrupt(&self) -> u64 {
        self.files.iter().map(|file| file.corrupt).sum()
    }

    /// True if `text` is the text that the document `id` had when it was read. It is asked of kept documents whose file
    /// has changed.
    pub fn is_same(&self, id: DocId, text: &str) -> bool {
        let digest = |document| self.collection.facts(document).digest;
        self.documents.find(id).is_some_and(|document| digest(document) == text_digest(text))
    }

    /// The URL of a document, if it has one.
    pub fn url(&self, document: Document) -> Option<&str> {
        self.documents.url(document)
    }

    /// A document's id in results, see [`NamedDocument::id`].
    pub fn id_of(&self, document: Document) -> Cow<'_, str> {
        self.named(document).id
    }

    /// The id, URL and place of a document, as results have them.
    pub fn named(&self, document: Document) -> NamedDocument<'_> {
        let at = self.documents.id(document);
        let input = &self.inputs[at.shard as usize];
        NamedDocument {
            id: match self.documents.record_id(document) {
                Some(id) if !self.repeated_ids.contains(&document) => Cow::Borrowed(id),
                _ => Cow::Owned(input.name_of(at.row)),
            },
            url: self.url(document).map(Cow::Borrowed),
            file: &input.path,
            at,
            place: self.documents.place(document),
            is_reference: self.is_reference(document),
        }
    }
}

/// The values of documents, put together from `lists`. Each run of `order` names a list and a range in it.
fn in_order<T: Clone>(order: &[(u32, Range<u32>)], lists: &[Vec<T>]) -> Vec<T> {
    let run = |(list, run): &(u32, Range<u32>)| &lists[*list as usize][run.start as usize..run.end as usize];
    order.iter().flat_map(run).cloned().collect()
}

/// A document as results call it.
pub struct NamedDocument<'a> {
    /// Its id: the record's own; if it has none, or an earlier document has that already, `file:number`.
    pub id: Cow<'a, str>,
    /// Its URL, if it has one.
    pub url: Option<Cow<'a, str>>,
    /// Its file, as it was found.
    pub file: &'a Path,
    /// The number of its file, and its number among the records of that file that may be documents, both from 0.
    /// Corrupt records count.
    pub at: DocId,
    /// The place in its file from which it can be read again.
    pub place: Place,
    /// True if it is of the reference set.
    pub is_reference: bool,
}

impl<'a> NamedDocument<'a> {
    /// The file, row and side of the document, for tables.
    pub fn standing(&self) -> At<'a> {
        let side = if self.is_reference { Side::Reference } else { Side::New };
        At { file: self.file.to_string_lossy(), row: self.at.row, side }
    }

    /// The name of the document in warnings: its URL, or its file and number. Of a longer one, 100 characters stay.
    pub fn shown_name(&self) -> String {
        let place = || format!("{}:{}", self.file.display(), self.at.row);
        cut(self.url.as_ref().map_or_else(place, ToString::to_string), 100)
    }
}

/// The first `chars` characters of a name, with an ellipsis if there are more.
pub(super) fn cut(name: String, chars: usize) -> String {
    match name.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// Documents whose record id an earlier document has already.
fn repeated_ids(documents: &DocumentTable) -> HashSet<Document> {
    /// Documents whose ids are hashed at once, by all threads.
    const AT_ONCE: usize = 1 << 16;
    let each = |each: &mut dyn FnMut(Document, u128)| {
        let digest = |row| documents.record_id(Document::at(row)).map(text_digest);
        let mut digests = Vec::new();
        for from in (0..documents.len()).step_by(AT_ONCE) {
            let rows = from..documents.len().min(from + AT_ONCE);
            rows.clone().into_par_iter().map(digest).collect_into_vec(&mut digests);
            let of_rows = rows.zip(&digests).filter_map(|(row, digest)| Some((row, (*digest)?)));
            of_rows.for_each(|(row, digest)| each(Document::at(row), digest));
        }
    };
    // A set of all would take more memory than what is held of many documents.
    let mut repeats = Repeats::new(documents.len());
    each(&mut |_, digest| repeats.note(digest as u64));
    let (mut seen, mut repeated) = (HashSet::new(), HashSet::new());
    each(&mut |document, digest| {
        if repeats.may_repeat(digest as u64) && !seen.insert(digest) {
            repeated.insert(document);
        }
    });
    repeated
}
