//! Files of sketches, and all those of a folder together. A file has the documents of one input, or of several small
//! ones, in *columns* ([`BodyLayout`]): the values of all documents one behind the other, for each kind of value.

use super::estimate::{is_long, sketched_bytes};
use super::grouping::Grouping;
use super::layout::{BodyLayout, Column};
use super::names::{self, Named};
use super::odd_length;
use super::parts::{InOrder, Parts};
use super::record::MOST_DOCUMENTS;
use crate::atomic_write::is_unfinished;
use crate::corpus::{InputMark, JsonlFields, ReadRules};
use crate::error::{Error, Result};
use crate::format::{self, Body, BodyReader, SKETCHES, wrong};
use crate::hash::text_digest;
use crate::inspection::Inspection;
use crate::text::TOKENIZER;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use simflip_core::settings::Settings;
use std::fs;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The ending of files of sketches.
pub const EXTENSION: &str = "sketches";

/// The hash that tells texts apart.
const DIGEST: &str = "murmur3_x64_128";

/// The header of a file of sketches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SketchHeader {
    /// The hash of texts.
    digest: String,
    /// The hash of features.
    feature_hash: String,
    tokenizer: String,
    /// The settings that decide which documents are near.
    pub settings: Settings,
    /// The rules by which the file was read.
    pub reading: ReadingRules,
    /// The files that were read, in order: one, or small ones together.
    pub inputs: Vec<SketchedInput>,
    /// Number of documents of all inputs.
    pub documents: u64,
    /// Bytes of their texts, boilerplate included.
    pub text_bytes: u64,
    /// Bytes of the longest record, by which the last stage reckons its memory. `None` unless it is so long that
    /// threads need more memory for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<u64>,
    /// Number of corrupt sections in the inputs.
    pub corrupt: u64,
    /// Number of gaps: places in the inputs where records come that turned out to be no documents. Behind the columns,
    /// the body has for each of them the place of the next document (8 bytes) and the number of records (4).
    gaps: u64,
    /// Number of hashes of features, 4 bytes each, at the end of the body. Each document has as many as it has
    /// features. 0 unless containment decides.
    #[serde(default, skip_serializing_if = "is_zero")]
    hashes: u64,
}

impl SketchHeader {
    /// The paths of its inputs.
    pub fn paths(&self) -> Vec<String> {
        self.inputs.iter().map(|input| input.mark.path.clone()).collect()
    }

    /// The path of its first input, by which it stands in order among others.
    fn first_path(&self) -> &Path {
        Path::new(&self.inputs[0].mark.path)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Bytes of a gap.
const GAP: u64 = 12;

/// The rules of reading that decide which documents a file of sketches has, and their texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingRules {
    /// Names of the fields or columns that are read.
    pub fields: JsonlFields,
    /// The longest document that is read, in bytes. A longer one counts as corrupt.
    pub longest_document: usize,
    /// The rules for odd input.
    pub rules: ReadRules,
    /// The name of the boilerplate that was left out, if some was
    /// ([`fingerprint`](crate::boilerplate::Boilerplate::fingerprint)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boilerplate: Option<String>,
}

/// An input file in a file of sketches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SketchedInput {
    /// The real path of the file, its length, and a hash that shows if it has changed.
    #[serde(flatten)]
    pub mark: InputMark,
    /// Number of its documents.
    pub documents: u64,
}

/// The name of the files that stages make for an input file, without an ending: the input's name without its endings,
/// and a hash of `path`, its real path.
pub fn stem_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    // Names of files have at most 255 bytes.
    let name: String = name.chars().take(120).map(plain).collect();
    let name = name.split_once('.').map_or(&name[..], |(name, _)| name);
    format!("{name}-{:016x}", text_digest(&path.to_string_lossy()) as u64)
}

impl Parts<'_> {
    /// Writes the sketches of these documents to a file at `path`. `in_order` is what [`in_order`](Self::in_order)
    /// gave, and `marks` are those of the inputs in their order.
    pub fn write_sketches(
        &self,
        in_order: InOrder<'_>,
        path: &Path,
        settings: &Settings,
        reading: ReadingRules,
        marks: Vec<InputMark>,
    ) -> Result<()> {
        let InOrder { columns, gaps, hashes, of_inputs, .. } = in_order;
        let inputs = marks.into_iter().zip(of_inputs);
        let header = SketchHeader {
            digest: DIGEST.to_owned(),
            feature_hash: settings.feature_hash.name().to_owned(),
            tokenizer: TOKENIZER.to_owned(),
            settings: settings.clone(),
            reading,
            inputs: inputs.map(|(mark, documents)| SketchedInput { mark, documents }).collect(),
            documents: self.layout.documents,
            text_bytes: self.text_bytes,
            longest: Some(self.longest).filter(|&longest| is_long(longest)),
            corrupt: self.files.iter().map(|file| file.corrupt).sum(),
            gaps: gaps.len() / GAP,
            hashes: self.hashes,
        };
        let mut file = format::NewBinary::begin(path, SKETCHES, &header)?;
        let mut all = columns.reader()?.chain(gaps.reader()?).chain(hashes.reader()?);
        io::copy(&mut all, &mut file).map_err(|error| Error::io(path, error))?;
        file.finish()
    }
}

/// A file of sketches that is opened: its header is read, and its columns stay on disk.
#[derive(Clone, Debug)]
pub struct SketchFile {
    /// The header.
    pub header: SketchHeader,
    /// The layout of its columns.
    pub layout: BodyLayout,
    body: Body,
}

impl SketchFile {
    /// Opens a file and checks all but its body's checksum. The file of names is not looked at.
    ///
    /// # Errors
    /// If it cannot be read, is cut, or was made with hashes that this program does not have.
    pub fn open(path: &Path) -> Result<Self> {
        let (header, body): (SketchHeader, Body) = format::open(path, SKETCHES)?;
        let must = |field, expected: &str, got: &str| match expected == got {
            true => Ok(()),
            false => {
                let advice = "sketch the input again with this simflip";
                Err(wrong(path, field, expected.to_owned(), got.to_owned(), advice))
            }
        };
        must("the hash of texts", DIGEST, &header.digest)?;
        must("the feature hash", header.settings.feature_hash.name(), &header.feature_hash)?;
        must("the tokenizer", TOKENIZER, &header.tokenizer)?;
        header.settings.check()?;
        let scored = header.reading.fields.score.is_some();
        let layout = BodyLayout::new(&header.settings, header.documents, scored);
        let layout =
            layout.map(|layout| BodyLayout { parted: header.reading.boilerplate.is_some(), ..layout });
        let fits = |layout: &BodyLayout| {
            let columns = layout.documents.checked_mul(layout.width());
            let gaps = columns.and_then(|columns| columns.checked_add(header.gaps.checked_mul(GAP)?));
            gaps.and_then(|gaps| gaps.checked_add(header.hashes.checked_mul(4)?)) == Some(body.len())
        };
        let layout = layout.filter(fits).ok_or_else(|| odd_length(path, SKETCHES, body.len()))?;
        let sum = header.inputs.iter().try_fold(0, |sum: u64, input| sum.checked_add(input.documents));
        if sum != Some(header.documents) || header.inputs.is_empty() {
            let (expected, got) = (header.documents.to_string(), "others in its inputs".to_owned());
            return Err(wrong(
                path,
                "the number of documents",
                expected,
                got,
                "the file is corrupt; make it again",
            ));
        }
        Ok(Self { header, layout, body })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.body.path()
    }

    /// The path of the file of names beside it.
    pub fn names_path(&self) -> PathBuf {
        self.path().with_extension("names")
    }

    /// The names and places of its documents in order, as [`each_name`](Self::each_name) reads them.
    pub fn names(&self) -> Result<Vec<Named>> {
        self.each_name()?.collect()
    }

    /// The names, rows and places of its documents one after the other, with a few in memory at a time. The file of
    /// names is checked before.
    pub fn each_name(&self) -> Result<impl Iterator<Item = Result<Named>>> {
        let names = names::each(&self.names_path(), &self.header.paths(), self.header.documents)?;
        let (mut run, mut runs) = (RowRun::default(), self.each_run()?.peekable());
        Ok((0u64..).zip(names).map(move |(document, named)| {
            while let Some(next) =
                runs.next_if(|run| run.as_ref().map_or(true, |run| run.document <= document))
            {
                run = next?;
            }
            named.map(|named| Named { row: run.row_of(document) as u32, ..named })
        }))
    }

    /// The runs of documents whose rows follow one another: each begins with an input, or behind records that are no
    /// documents.
    fn each_run(&self) -> Result<impl Iterator<Item = Result<RowRun>>> {
        let mut reader = self.body.reader()?;
        reader.seek(self.layout.documents * self.layout.width())?;
        let (path, mut reader) = (self.path().to_path_buf(), BufReader::with_capacity(1 << 14, reader));
        let gaps = (0..self.header.gaps).map(move |_| {
            let mut gap = [0; GAP as usize];
            reader.read_exact(&mut gap).map_err(|error| Error::io(&path, error))?;
            let [a, b, c, d, e, f, g, h, records @ ..] = gap;
            Ok::<_, Error>((u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes(records)))
        });
        let mut next = 0;
        let starts = self.header.inputs.iter().map(|input| {
            next += input.documents;
            next - input.documents
        });
        let (mut starts, mut gaps) = (starts.collect::<Vec<_>>().into_iter().peekable(), gaps.peekable());
        let mut run = RowRun::default();
        Ok(std::iter::from_fn(move || {
            let gap = gaps.peek().map(|gap| gap.as_ref().map_or(0, |&(document, _)| document));
            if let Some(document) = starts.next_if(|&start| gap.is_none_or(|document| start <= document)) {
                run = RowRun { document, row: 0 };
                return Some(Ok(run));
            }
            Some(gaps.next()?.map(|(document, records)| {
                run = RowRun { document, row: run.row_of(document).saturating_add(records.into()) };
                run
            }))
        }))
    }

    /// The rows of its documents, without their names. A list of removed documents names the kept ones by them.
    pub fn rows(&self) -> Result<DocumentRows> {
        Ok(DocumentRows { runs: self.each_run()?.collect::<Result<_>>()? })
    }

    /// Reads all of the file and compares its checksum. The file of names has one of its own.
    pub fn check(&self) -> Result<()> {
        self.body.check()
    }

    /// Opens the file for reading columns.
    pub fn reader(&self) -> Result<Columns> {
        let hashes = self.layout.documents * self.layout.width() + self.header.gaps * GAP;
        Ok(Columns { layout: self.layout, hashes, reader: self.body.reader()?, bytes: Vec::new() })
    }
}

/// Documents whose rows follow one another.
#[derive(Clone, Copy, Debug, Default)]
struct RowRun {
    /// The first document.
    document: u64,
    /// The row of it in its input.
    row: u64,
}

impl RowRun {
    /// The row of a document behind the first one.
    fn row_of(self, document: u64) -> u64 {
        self.row.saturating_add(document.saturating_sub(self.document))
    }
}

/// The rows of the documents of a file of sketches: their places among the records of their inputs that may be
/// documents.
#[derive(Clone, Debug)]
pub struct DocumentRows {
    runs: Vec<RowRun>,
}

impl DocumentRows {
    /// The row of the document at this place in the file of sketches; both count from 0.
    pub fn of(&self, document: u64) -> u64 {
        let behind = self.runs.partition_point(|run| run.document <= document);
        behind.checked_sub(1).map_or(document, |last| self.runs[last].row_of(document))
    }
}

/// A reader of the columns of a file of sketches.
pub struct Columns {
    layout: BodyLayout,
    /// Where hashes of features begin.
    hashes: u64,
    reader: BodyReader,
    bytes: Vec<u8>,
}

impl Columns {
    /// Reads the bytes of a column for `count` documents, and puts them in place of those in `bytes`. `from` is the
    /// place of the first document in the file.
    pub fn read(&mut self, column: Column, from: u64, count: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let (start, width) = self.layout.place(column);
        bytes.resize(count * width, 0);
        self.reader.seek(start + from * width as u64)?;
        self.reader.fill(bytes)
    }

    /// Reads hashes of features, and puts them in place of those in `hashes`. `places` counts all hashes of the file,
    /// those of one document behind those of the other.
    pub fn read_hashes(&mut self, places: Range<u64>, hashes: &mut Vec<u32>) -> Result<()> {
        self.bytes.resize((places.end - places.start) as usize * 4, 0);
        self.reader.seek(self.hashes + places.start * 4)?;
        self.reader.fill(&mut self.bytes)?;
        hashes.clear();
        hashes.extend(self.bytes.as_chunks().0.iter().map(|&hash| u32::from_le_bytes(hash)));
        Ok(())
    }
}

/// The number of documents whose columns are read at once.
pub const CHUNK: u64 = 1 << 12;

/// All files of sketches of a folder, in order of the paths of their first inputs. Behind them are those of a
/// reference set, if new documents are compared with one. Documents are numbered from 0 through all files.
#[derive(Debug)]
pub struct Folder {
    /// The folder of the files of new documents.
    pub path: PathBuf,
    /// The files.
    pub files: Vec<SketchFile>,
    /// The number of files of new documents, which come first.
    pub new_files: usize,
    /// The number of each file's first document, and the number of all documents.
    pub starts: Vec<u64>,
    /// The inputs of all files, in order.
    pub inputs: Vec<FolderInput>,
    /// The settings, which are the same in all files.
    pub settings: Settings,
    /// A hash of the inputs and the checksums of all files. Files that follow from these sketches have it in their
    /// headers.
    pub id: String,
}

/// An input of a file of sketches in a [`Folder`].
#[derive(Clone, Debug)]
pub struct FolderInput {
    /// The input file.
    pub mark: InputMark,
    /// The place in [`Folder::files`] of the file that has its sketches.
    pub file: usize,
    /// The numbers of its documents in the folder.
    pub documents: Range<u64>,
}

impl Folder {
    /// Opens the sketches of a folder.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::open_against(folder, &[])
    }

    /// Opens the sketches of a folder, and those of reference documents in the folders `old`. An input may be in both.
    ///
    /// # Errors
    /// If a folder has none, a file cannot be read, or `old` has the folder of the new documents. If files are of
    /// different settings or boilerplate, or those of new documents of different rules of reading. If an input was
    /// sketched twice among the new ones, or among those of the reference set.
    pub fn open_against(folder: &Path, old: &[PathBuf]) -> Result<Self> {
        let mut of_reference = Vec::new();
        for old in old {
            if fs::canonicalize(old).ok() == fs::canonicalize(folder).ok() {
                let expected = "another folder than that of the new documents";
                return Err(Error::parameter("against", old.display(), expected));
            }
            of_reference.extend(files_of(old)?);
        }
        let mut files = files_of(folder)?;
        let new_files = files.len();
        // As a run in memory sorts its files.
        for files in [&mut files, &mut of_reference] {
            files.sort_by(|a, b| a.header.first_path().cmp(b.header.first_path()));
        }
        files.append(&mut of_reference);
        let first = &files[0];
        let (settings, reading) = (first.header.settings.clone(), first.header.reading.clone());
        let (mut names, mut starts, mut inputs, mut next) = (String::new(), Vec::new(), Vec::new(), 0u64);
        for (at, file) in files.iter().enumerate() {
            let header = &file.header;
            starts.push(next);
            for SketchedInput { mark, documents } in &header.inputs {
                let end = next.saturating_add(*documents);
                inputs.push(FolderInput { mark: mark.clone(), file: at, documents: next..end });
                next = end;
            }
            if at == new_files {
                names.push_str("against these\n");
            }
            // Reference documents may have been read in another way.
            let fits = header.settings == settings
                && header.reading.boilerplate == reading.boilerplate
                && (at >= new_files || header.reading == reading);
            if !fits {
                let expected = format!("those of {}", first.path().display());
                let advice = "sketch both with the same settings, or take one of them out of the folder";
                return Err(wrong(file.path(), "the settings", expected, "others".to_owned(), advice));
            }
            let sum = format::checksum(file.path())?;
            names.push_str(&format!("{}\n{sum}\n", header.paths().join("\n")));
        }
        starts.push(next);
        if next > MOST_DOCUMENTS {
            return Err(Error::parameter("documents", next, "at most 2^40 documents"));
        }
        let id = format!("{:016x}", text_digest(&names) as u64);
        let folder = Self { path: folder.to_path_buf(), files, new_files, starts, inputs, settings, id };
        folder.check_inputs()?;
        Ok(folder)
    }

    /// These sketches with the threshold of verification that a join is to use. Another one than that of the files
    /// gives them another id, so that what is joined by it has a folder of its own.
    pub fn with_threshold(mut self, threshold: f64) -> Self {
        let verification = self.settings.verification.with_threshold(threshold);
        if verification != self.settings.verification {
            self.settings.verification = verification;
            self.id = format!("{:016x}", text_digest(&format!("{}\n{threshold}", self.id)) as u64);
        }
        self
    }

    /// Checks that no input was sketched twice.
    fn check_inputs(&self) -> Result<()> {
        let mut known = HashMap::new();
        for FolderInput { mark, file, .. } in &self.inputs {
            let is_reference = *file >= self.new_files;
            if let Some(other) = known.insert((is_reference, &mark.path), *file) {
                let expected = "sketches of another input".to_owned();
                let got = format!("of {}, as {}", mark.path, self.files[other].path().display());
                return Err(wrong(
                    self.files[*file].path(),
                    "the input",
                    expected,
                    got,
                    "take one of them away",
                ));
            }
        }
        Ok(())
    }

    /// Bytes of memory that the headers of all files take, as they are estimated.
    pub fn files_bytes(&self) -> u64 {
        sketched_bytes(self.files.len(), self.inputs.len())
    }

    /// Number of all documents, reference documents among them.
    pub fn documents(&self) -> u64 {
        self.starts[self.files.len()]
    }

    /// Number of new documents, which is the number of the first reference document.
    pub fn new_documents(&self) -> u64 {
        self.starts[self.new_files]
    }

    /// Number of reference documents.
    pub fn reference_documents(&self) -> u64 {
        self.documents() - self.new_documents()
    }

    /// True if a document is of the reference set.
    pub fn is_reference(&self, document: u64) -> bool {
        document >= self.new_documents()
    }

    /// Goes through all documents in pieces of up to [`CHUNK`], each of one file. `each` gets a reader of its columns,
    /// the number of the first document, its place in the file, and how many documents there are.
    pub fn scan(&self, each: impl FnMut(&mut Columns, u64, u64, usize) -> Result<()>) -> Result<()> {
        self.scan_of(0..self.documents(), each)
    }

    /// Scans as [`scan`](Self::scan) does, but only the pieces that have some of these documents. Pieces at the ends
    /// may have others, too.
    pub fn scan_of(
        &self,
        documents: Range<u64>,
        mut each: impl FnMut(&mut Columns, u64, u64, usize) -> Result<()>,
    ) -> Result<()> {
        for (file, &start) in self.files.iter().zip(&self.starts) {
            let wanted = documents.start.saturating_sub(start)
                ..documents.end.saturating_sub(start).min(file.header.documents);
            if wanted.is_empty() {
                continue;
            }
            let mut columns = file.reader()?;
            for from in (wanted.start / CHUNK * CHUNK..wanted.end).step_by(CHUNK as usize) {
                let count = (file.header.documents - from).min(CHUNK);
                each(&mut columns, start + from, from, count as usize)?;
            }
        }
        Ok(())
    }

    /// The place in [`files`](Self::files) of the file that a document is in, and the document's place in that file.
    pub fn place(&self, document: u64) -> (usize, u64) {
        let file = self.starts.partition_point(|&start| start <= document) - 1;
        (file, document - self.starts[file])
    }

    /// The place in [`inputs`](Self::inputs) of the input that a document is of.
    pub fn input_of(&self, document: u64) -> usize {
        self.inputs.partition_point(|input| input.documents.start <= document) - 1
    }

    /// The inputs of new documents, each with its place in [`inputs`](Self::inputs).
    pub fn new_inputs(&self) -> impl Iterator<Item = (usize, &FolderInput)> {
        self.inputs.iter().enumerate().filter(|(_, input)| input.file < self.new_files)
    }

    /// The folder for all that follows from joining these sketches by a grouping.
    pub fn joined(&self, grouping: &Grouping) -> PathBuf {
        self.path.join(format!("joined-{}", grouping.of_joined(&self.id)))
    }
}

/// The files of sketches of a folder, of which there is at least one.
fn files_of(folder: &Path) -> Result<Vec<SketchFile>> {
    let paths = paths_in(folder)?;
    if paths.is_empty() {
        let message = format!("{}: no file of sketches; simflip sketch makes them", folder.display());
        return Err(Error::Missing(message));
    }
    paths.iter().map(|path| SketchFile::open(path)).collect()
}

/// The paths of all files of sketches in a folder, ascending.
pub fn paths_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |error| Error::io(folder, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|end| end == EXTENSION)
            && !path.file_name().is_some_and(is_unfinished)
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The files of sketches of a folder, in order of the paths of their first inputs, each with its number of documents.
///
/// # Errors
/// If there are none, or if they are of different settings, or one cannot be read; then it is named.
pub fn sketched_files(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let Folder { files, .. } = Folder::open(folder)?;
    Ok(files.iter().map(|file| (file.path().to_path_buf(), file.header.documents)).collect())
}

/// Checks a file of sketches for [`inspect`](crate::inspect).
pub fn check(path: &Path) -> Result<Inspection> {
    let file = SketchFile::open(path)?;
    file.check()?;
    let header = &file.header;
    let mut inspection = Inspection::of(SKETCHES.name);
    names::show_inputs(&mut inspection, &header.paths());
    inspection.fact("input bytes", header.inputs.iter().map(|input| input.mark.bytes).sum::<u64>());
    inspection.fact("documents", header.documents);
    inspection.fact("text bytes", header.text_bytes);
    inspection.fact("corrupt sections", header.corrupt);
    inspection.fact("bytes a document", file.layout.width());
    inspection.fact("seed", header.settings.seed);
    inspection.fact("hash of texts", &header.digest);
    inspection.fact("feature hash", &header.feature_hash);
    let settings = serde_json::to_value(&header.settings).unwrap_or_default();
    inspection.header_field("settings".to_owned(), &settings);
    if let Some(field) = &header.reading.fields.score {
        inspection.fact("scores", field);
    }
    if let Some(boilerplate) = &header.reading.boilerplate {
        inspection.fact("boilerplate", boilerplate);
    }
    if let Err(error) = file.names() {
        inspection.problem(error.to_string());
    }
    Ok(inspection)
}

#[cfg(test)]
mod tests {
    use super::super::sketch::sketched_file;
    use super::*;

    #[test]
    fn gaps_give_documents_their_rows() {
        let top = tempfile::tempdir().unwrap();
        let (input, out) = (top.path().join("documents.jsonl"), top.path().join("sketches"));
        // Lines that are no documents: none, two or three before a document, and one behind the last.
        let gap = |document: usize| [0, 2, 0, 3, 0][document % 5];
        let line = |document: usize| {
            "no document\n".repeat(gap(document)) + &format!("{{\"text\": \"document {document}\"}}\n")
        };
        fs::write(&input, (0..50).map(line).collect::<String>() + "no document\n").unwrap();
        sketched_file(&input, &out, Settings::default());
        let expected: Vec<u32> =
            (0..50).map(|document| (document + (0..=document).map(gap).sum::<usize>()) as u32).collect();
        let file = Folder::open(&out).unwrap().files.remove(0);
        assert_eq!(file.header.gaps, 20);
        let rows: Vec<u32> = file.each_name().unwrap().map(|named| named.unwrap().row).collect();
        assert_eq!(rows, expected);
        let rows = file.rows().unwrap();
        assert!((0u64..).zip(&expected).all(|(document, &row)| rows.of(document) == u64::from(row)));
        assert!(check(file.path()).unwrap().problems.is_empty());
        let mut columns = vec![0; (file.layout.documents * file.layout.width()) as usize];
        file.body.reader().unwrap().fill(&mut columns).unwrap();
        let mut header = serde_json::to_value(&file.header).unwrap();
        // A number of gaps that the body has not.
        for gaps in [1u64, u64::MAX] {
            header["gaps"] = gaps.into();
            format::write(file.path(), SKETCHES, &header, &[&columns]).unwrap();
            assert!(SketchFile::open(file.path()).unwrap_err().to_string().contains("the body's length"));
        }
    }
}
