//! Benchmarks in training data: which items stand in which documents, and the documents without them. A file of items
//! is a *benchmark*. An *item* is a text of it, such as a question; it is read as a document is. An item is found in a
//! document that has enough of its word n-grams ([`Rules`]).

use crate::corpus::{
    self, Compression, DiscoverOptions, Document, Input, JsonlFields, KeptFiles, Place, ReadOptions,
    discover_all, pack,
};
use crate::display::{counted, printable_path};
use crate::document::DocId;
use crate::error::{Error, Result};
use crate::hash::text_digest;
use crate::pipeline::dedup::first_messages;
use crate::pipeline::documents::check_stores;
use crate::pipeline::output::OutputFolder;
use crate::pipeline::{Progress, with_threads};
use crate::report::decontamination::{
    Benchmark, DecontaminationReport, FoundItem, Removal, SHOWN_ITEMS, SHOWN_PASSAGES,
};
use crate::report::model::{DocumentSample, Piece, Tool, write_json};
use crate::report::snippet::passage;
use crate::report::{html, messages};
use crate::tables::{self, TableRow, guard};
use serde::Serialize;
use simflip_core::contamination::{Finder, FoundPassage, Items, Rules};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A decontamination: its inputs, its rules and its output.
#[derive(Clone, Debug, Default)]
pub struct DecontaminateJob {
    /// Files and folders of documents.
    pub inputs: Vec<PathBuf>,
    /// Files and folders of items, each file a benchmark.
    pub against: Vec<PathBuf>,
    /// The options of reading documents and items.
    pub options: ReadOptions,
    /// The field or column of an item's text; `None` for that of documents.
    pub item_field: Option<String>,
    /// The folder to make.
    pub out: PathBuf,
    /// The rules by which an item counts as found in a document.
    pub rules: Rules,
    /// The treatment of documents that have items.
    pub removal: Removal,
    /// In how many files the kept documents are written.
    pub kept_files: KeptFiles,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// The command as typed, for the report.
    pub command_line: Vec<String>,
    /// When the run began, RFC 3339, for the report.
    pub created: String,
}

/// The names of a document or an item.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct DocumentNames {
    at: DocId,
    id: String,
    url: String,
}

impl DocumentNames {
    fn of(document: &Document<'_>) -> Self {
        let owned = |name: Option<&str>| name.unwrap_or_default().to_owned();
        Self { at: document.id, id: owned(document.record_id), url: owned(document.url) }
    }
}

/// An item in a document.
#[derive(Serialize)]
struct MatchRow<'a> {
    file: Cow<'a, str>,
    row: u32,
    id: Cow<'a, str>,
    url: Cow<'a, str>,
    item_file: Cow<'a, str>,
    item_row: u32,
    item_id: Cow<'a, str>,
    share: f64,
    begin: usize,
    end: usize,
}

impl TableRow for MatchRow<'_> {
    const COLUMNS: &'static [&'static str] =
        &["file", "row", "id", "url", "item_file", "item_row", "item_id", "share", "begin", "end"];

    fn guard(&mut self) {
        let ids = [&mut self.file, &mut self.id, &mut self.url, &mut self.item_file, &mut self.item_id];
        ids.into_iter().for_each(guard);
    }
}

/// An item, and in how many documents it stands.
#[derive(Serialize)]
struct ItemRow<'a> {
    file: Cow<'a, str>,
    row: u32,
    id: Cow<'a, str>,
    words: usize,
    looked_for: bool,
    documents: u64,
    share: Option<f64>,
}

impl TableRow for ItemRow<'_> {
    const COLUMNS: &'static [&'static str] =
        &["file", "row", "id", "words", "looked_for", "documents", "share"];

    fn guard(&mut self) {
        [&mut self.file, &mut self.id].into_iter().for_each(guard);
    }
}

/// The state of a thread.
struct ContaminationWorker<'a> {
    finder: Finder<'a>,
    documents: Vec<(DocId, Place, u128)>,
    found: Vec<(DocumentNames, FoundPassage)>,
    /// The passage of each item in the first document that may have it.
    excerpts: HashMap<u32, Excerpt>,
}

fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

/// Looks for the items of benchmarks in documents, and writes into a new folder which stand where, with a report. It
/// adds the documents without items, unless [`DecontaminateJob::removal`] is nothing.
///
/// The items are held in memory, and the documents read once; twice, if passages are removed. Kept ones are copied from
/// the input.
///
/// # Errors
/// If an input does not exist, no document or no item could be read, a rule has no meaning, or the results cannot be
/// written; then there is no folder.
pub fn decontaminate(job: &DecontaminateJob, progress: &dyn Progress) -> Result<DecontaminationReport> {
    job.rules.check()?;
    OutputFolder::must_be_new("out", &job.out)?;
    let folder = OutputFolder::begin(&job.out, false)?;
    let report = with_threads(job.threads, || in_pool(job, &folder, progress))??;
    folder.finish()?;
    Ok(report)
}

fn in_pool(
    job: &DecontaminateJob,
    folder: &OutputFolder,
    progress: &dyn Progress,
) -> Result<DecontaminationReport> {
    let read_options = |fields: &JsonlFields| ReadOptions {
        threads: rayon::current_num_threads(),
        fields: fields.clone(),
        ..job.options.clone()
    };
    let discovered = |paths: &[PathBuf], fields: &JsonlFields| {
        let options = DiscoverOptions { fields: fields.clone(), ..DiscoverOptions::default() };
        let found = discover_all(paths, &options)?;
        found.passed_over.message().iter().for_each(|message| progress.note(message));
        corpus::check_fields(&found.inputs, &read_options(fields), &[])?;
        Ok::<_, Error>(found.inputs)
    };
    let fields = &job.options.fields;
    let item_text = job.item_field.clone().unwrap_or_else(|| fields.text.clone());
    let item_fields = JsonlFields { text: item_text, ..fields.clone() };
    let of_items = |error| match error {
        Error::Core(simflip_core::Error::Parameter { parameter: "text-field", got, expected }) => {
            Error::parameter(
                "item-field",
                got,
                expected.replace("the texts of documents", "the texts of items"),
            )
        }
        other => other,
    };
    let item_files = discovered(&job.against, &item_fields).map_err(of_items)?;
    let inputs = discovered(&job.inputs, fields)?;
    let stored = |inputs: &[Input]| inputs.iter().map(Input::stored_bytes).sum::<u64>().max(1);
    let mut corrupt = 0;
    let mut report_corruption = |files: &[corpus::FileReading]| {
        files
            .iter()
            .flat_map(corpus::FileReading::corruption_messages)
            .chain(messages::odd_input_warnings(files))
            .for_each(|message| progress.note(&message));
        corrupt += files.iter().map(|file| file.corrupt).sum::<u64>();
    };

    let add = |items: &mut Vec<(DocumentNames, String)>, item: Document<'_>| {
        items.push((DocumentNames::of(&item), item.text.to_owned()))
    };
    let read = progress.during("read items", stored(&item_files), "bytes", |advance| {
        corpus::read(&item_files, &read_options(&item_fields), Vec::new, add, advance)
    });
    check_stores(&item_files)?;
    report_corruption(&read.files);
    let mut items: Vec<(DocumentNames, String)> = read.workers.into_iter().flatten().collect();
    items.sort_unstable();
    let (names, texts): (Vec<DocumentNames>, Vec<String>) = items.into_iter().unzip();
    if texts.is_empty() {
        let why = messages::why_none(&read.files);
        return Err(Error::NoDocuments(format!("no item could be read of {}: {why}", shown(&job.against))));
    }
    let items = Items::new(&texts, job.rules)?;
    drop(texts);

    let read_options = read_options(fields);
    let worker = || ContaminationWorker {
        finder: Finder::new(&items),
        documents: Vec::new(),
        found: Vec::new(),
        excerpts: HashMap::new(),
    };
    let each = |worker: &mut ContaminationWorker<'_>, document: Document<'_>| {
        worker.documents.push((document.id, document.place, text_digest(document.text)));
        let found = worker.finder.find(document.text);
        for found in &found {
            keep_first(&mut worker.excerpts, found.item, document.id, || {
                passage(document.text, found.bytes.clone())
            });
        }
        worker.found.extend(found.into_iter().map(|found| (DocumentNames::of(&document), found)));
    };
    let read = progress.during("read documents", stored(&inputs), "bytes", |advance| {
        corpus::read(&inputs, &read_options, worker, each, advance)
    });
    check_stores(&inputs)?;
    report_corruption(&read.files);
    let (mut documents, mut candidates, mut excerpts) = (Vec::new(), Vec::new(), HashMap::new());
    for worker in read.workers {
        documents.extend(worker.documents);
        candidates.extend(worker.found);
        for (item, (at, excerpt)) in worker.excerpts {
            keep_first(&mut excerpts, item, at, || excerpt);
        }
    }
    if documents.is_empty() {
        let why = messages::why_none(&read.files);
        return Err(Error::NoDocuments(format!(
            "no document could be read of {}: {why}",
            shown(&job.inputs)
        )));
    }
    documents.sort_unstable_by_key(|(id, ..)| *id);
    candidates.sort_unstable_by_key(|(named, found)| (named.at, found.item));
    let share = |(named, found): (DocumentNames, FoundPassage)| {
        let share = items.share(&found, documents.len() as u64)?;
        Some((named, found, share))
    };
    let found: Vec<(DocumentNames, FoundPassage, f64)> = candidates.into_iter().filter_map(share).collect();

    let mut benchmarks: Vec<Benchmark> = item_files
        .iter()
        .map(|file| Benchmark { file: file.path.display().to_string(), ..Benchmark::default() })
        .collect();
    let mut of_items: Vec<(u64, f64)> = vec![(0, 0.0); items.len()];
    let mut last: HashMap<u32, DocId> = HashMap::new();
    for (named, found, share) in &found {
        let (number, best) = &mut of_items[found.item as usize];
        (*number, *best) = (*number + 1, best.max(*share));
        let file = names[found.item as usize].at.shard;
        if last.insert(file, named.at) != Some(named.at) {
            benchmarks[file as usize].documents += 1;
        }
    }
    for (item, name) in names.iter().enumerate() {
        let benchmark = &mut benchmarks[name.at.shard as usize];
        benchmark.items += 1;
        benchmark.too_short += u64::from(!items.is_looked_for(item));
        benchmark.found += u64::from(of_items[item].0 > 0);
    }
    let file_of =
        |files: &[Input], at: DocId| Cow::Owned::<str>(files[at.shard as usize].path.display().to_string());
    let matches = found.iter().map(|(named, found, share)| {
        let item = &names[found.item as usize];
        Ok(MatchRow {
            file: file_of(&inputs, named.at),
            row: named.at.row,
            id: named.id.as_str().into(),
            url: named.url.as_str().into(),
            item_file: file_of(&item_files, item.at),
            item_row: item.at.row,
            item_id: item.id.as_str().into(),
            share: rounded(*share),
            begin: found.bytes.start,
            end: found.bytes.end,
        })
    });
    tables::write(&folder.path().join("matches.csv"), matches)?;
    let rows = names.iter().zip(&of_items).enumerate().map(|(item, (name, &(number, share)))| {
        Ok(ItemRow {
            file: file_of(&item_files, name.at),
            row: name.at.row,
            id: name.id.as_str().into(),
            words: items.words(item),
            looked_for: items.is_looked_for(item),
            documents: number,
            share: (number > 0).then(|| rounded(share)),
        })
    });
    tables::write(&folder.path().join("items.csv"), rows)?;

    let mut spans: BTreeMap<DocId, Vec<Range<usize>>> = BTreeMap::new();
    for (named, found, _) in &found {
        spans.entry(named.at).or_default().push(found.bytes.clone());
    }
    if job.removal != Removal::Nothing {
        let kept = documents.iter().filter(|(id, ..)| !spans.contains_key(id));
        let places: Vec<(DocId, Place)> = kept.map(|&(id, place, _)| (id, place)).collect();
        let is_same = |id: DocId, text: &str| {
            let at = documents.binary_search_by_key(&id, |(id, ..)| *id);
            at.is_ok_and(|at| documents[at].2 == text_digest(text))
        };
        let (files, inputs, options) = (job.kept_files, &inputs[..], &read_options);
        let writing = corpus::KeptJob { files, inputs, options, kept: &places, is_same: &is_same };
        let written = progress
            .during("write kept", places.len() as u64, "documents", |_| writing.write(folder.path()))?;
        first_messages(&written.lost).for_each(|line| progress.note(&line));
        if job.removal == Removal::Passages && !spans.is_empty() {
            let path = folder.path().join(corpus::CUT);
            progress.during("cut passages", stored(inputs), "bytes", |advance| {
                cut(&writing, &spans, &path, advance)
            })?;
        }
    }
    let items = FoundItems { names: &names, items: &items, counts: &of_items };
    items.add_examples(&mut benchmarks, &found, excerpts);
    let report = DecontaminationReport {
        tool: Tool::this(),
        created: job.created.clone(),
        command_line: job.command_line.clone(),
        rules: job.rules,
        removal: job.removal,
        documents: documents.len() as u64,
        with_items: spans.len() as u64,
        matches: found.len() as u64,
        corrupt,
        benchmarks,
    };
    write_json(&report, &folder.path().join("report.json"))?;
    html::write(&html::render_decontamination(&report)?, &folder.path().join("report.html"))?;
    Ok(report)
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| printable_path(path)).collect::<Vec<_>>().join(", ")
}

/// A document, and a passage of it.
type Excerpt = (DocId, Vec<Piece>);

/// Keeps the excerpt of the first document.
fn keep_first(
    excerpts: &mut HashMap<u32, Excerpt>,
    item: u32,
    at: DocId,
    excerpt: impl FnOnce() -> Vec<Piece>,
) {
    if excerpts.get(&item).is_none_or(|(first, _)| at < *first) {
        excerpts.insert(item, (at, excerpt()));
    }
}

/// The items of all benchmarks, and what was found of them.
struct FoundItems<'a> {
    names: &'a [DocumentNames],
    items: &'a Items,
    /// Of each item, the number of documents that have it, and the largest share that one has.
    counts: &'a [(u64, f64)],
}

impl FoundItems<'_> {
    /// Lists the items that most documents have, some with the passage of the first document.
    fn add_examples(
        &self,
        benchmarks: &mut [Benchmark],
        found: &[(DocumentNames, FoundPassage, f64)],
        mut excerpts: HashMap<u32, Excerpt>,
    ) {
        let Self { names, items, counts } = *self;
        let mut order: Vec<usize> = (0..names.len()).filter(|&item| counts[item].0 > 0).collect();
        order.sort_by_key(|&item| (names[item].at.shard, Reverse(counts[item].0)));
        let by_benchmark = order.chunk_by(|&a, &b| names[a].at.shard == names[b].at.shard);
        let listed: Vec<usize> =
            by_benchmark.flat_map(|items| items.iter().take(SHOWN_ITEMS)).copied().collect();
        let is_shown: BTreeSet<usize> = listed.iter().take(SHOWN_PASSAGES).copied().collect();
        let mut firsts: BTreeMap<usize, &DocumentNames> = BTreeMap::new();
        for (named, found, _) in
            found.iter().filter(|(_, found, _)| is_shown.contains(&(found.item as usize)))
        {
            firsts.entry(found.item as usize).or_insert(named);
        }
        let called = |named: &DocumentNames| {
            if named.id.is_empty() { format!("row {}", named.at.row) } else { named.id.clone() }
        };
        for item in listed {
            let example = firsts.get(&item).map(|named| DocumentSample {
                id: called(named),
                url: named.url.clone(),
                // Empty if the first document that may have had the item has nothing but set phrases of it.
                excerpt: match excerpts.remove(&(item as u32)) {
                    Some((at, excerpt)) if at == named.at => excerpt,
                    _ => Vec::new(),
                },
                ..DocumentSample::default()
            });
            let (documents, share) = counts[item];
            benchmarks[names[item].at.shard as usize].most.push(FoundItem {
                item: called(&names[item]),
                words: items.words(item) as u64,
                documents,
                share: rounded(share),
                example,
            });
        }
    }
}

/// Writes documents of a job's inputs without some passages, as lines of JSON. `spans` has the passages of each
/// document as ranges of its bytes.
///
/// # Errors
/// If a document with passages is not there any more, or has another text.
fn cut(
    &corpus::KeptJob { inputs, options, is_same, .. }: &corpus::KeptJob<'_>,
    spans: &BTreeMap<DocId, Vec<Range<usize>>>,
    path: &Path,
    advance: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    #[derive(Serialize)]
    struct ItemLine<'a> {
        id: Option<&'a str>,
        url: Option<&'a str>,
        text: String,
    }
    let each = |lines: &mut Vec<(DocId, Vec<u8>)>, document: Document<'_>| {
        let Some(spans) = spans.get(&document.id) else { return };
        if !is_same(document.id, document.text) {
            return;
        }
        let mut spans = spans.clone();
        spans.sort_unstable_by_key(|span| (span.start, span.end));
        let (mut text, mut from) = (String::new(), 0);
        for span in spans {
            // Passages may overlap.
            text += document.text.get(from..span.start.max(from)).unwrap_or_default();
            from = from.max(span.end);
        }
        text += document.text.get(from..).unwrap_or_default();
        let line = ItemLine { id: document.record_id, url: document.url, text };
        lines.extend(serde_json::to_vec(&line).ok().map(|line| (document.id, line)));
    };
    let read = corpus::read(inputs, options, Vec::new, each, advance);
    let mut lines: Vec<(DocId, Vec<u8>)> = read.workers.into_iter().flatten().collect();
    check_stores(inputs)?;
    if lines.len() != spans.len() {
        let changed = spans.len() - lines.len();
        let expected = "files that stay as they are while they are read twice";
        let got = format!("{} that changed meanwhile", counted(changed as u64, "document", "documents"));
        return Err(Error::parameter("input", got, expected));
    }
    lines.sort_unstable_by_key(|(id, _)| *id);
    let io = |error| Error::io(path, error);
    let mut file = File::create(path).map_err(io)?;
    for some in lines.chunks(1 << 8) {
        let bytes: Vec<u8> = some.iter().flat_map(|(_, line)| line.iter().copied().chain([b'\n'])).collect();
        file.write_all(&pack(&bytes, Compression::Gzip)?).map_err(io)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{DiscoverOptions, discover};

    #[test]
    fn documents_that_changed_between_two_readings_are_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "{\"text\":\"one passage here\"}\n").unwrap();
        let inputs = discover(&[path], &DiscoverOptions::default()).unwrap();
        let (id, out) = (DocId::new(0, 0), folder.path().join("cut.jsonl.gz"));
        let mut spans: BTreeMap<DocId, Vec<Range<usize>>> = BTreeMap::new();
        spans.entry(id).or_default().push(4..12);
        let options = ReadOptions::default();
        let cut = |read: &str| {
            let (files, kept, is_same) = (KeptFiles::One, Vec::new(), |_, text: &str| text == read);
            let job =
                corpus::KeptJob { files, inputs: &inputs, options: &options, kept: &kept, is_same: &is_same };
            cut(&job, &spans, &out, &|_| ())
        };
        assert!(cut("one passage here").is_ok());
        let error = cut("it had another text").unwrap_err().to_string();
        assert!(error.contains("1 document that changed meanwhile"), "{error}");
    }
}
