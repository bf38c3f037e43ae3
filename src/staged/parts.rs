//! The documents of input files while they are sketched. Each thread holds those that it reads, column by column; where
//! they outgrow its memory, it puts them on disk as a part. At last all parts are read in order of the file, a
//! column at a time.

use super::estimate::Rooms;
use super::names::{Named, Names};
use super::printed_bytes;
use super::sketches::{BodyLayout, Column};
use crate::corpus::{
    self, Document, FileReading, Format, IN_MEMORY, Input, Languages, ReadOptions, TextSum, TooLong,
};
use crate::document::DocId;
use crate::error::{Error, Result};
use crate::making::Unfinished;
use crate::wording::printable_path;
use simflip_core::settings::Settings;
use simflip_core::sketch::{Hashed, Sketch, SketchValue, Sketcher, TwoSketches};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A folder for what does not fit in memory, which is made when something does not.
pub struct Scratch {
    place: PathBuf,
    folder: Mutex<Option<Unfinished>>,
    made: AtomicUsize,
}

impl Scratch {
    /// One beside what is made at `place`.
    pub fn beside(place: &Path) -> Self {
        Self { place: place.to_path_buf(), folder: Mutex::default(), made: AtomicUsize::new(0) }
    }

    /// The place beside which it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// A new file in it, to write and to read.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn file(&self) -> Result<ScratchFile> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match &mut *folder {
            Some(folder) => folder,
            none => none.insert(super::workplace(&self.place)?),
        };
        let path = folder.path().join(format!("{}.part", self.made.fetch_add(1, Ordering::Relaxed)));
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| Error::io(&path, error))?;
        Ok(ScratchFile { path, file, length: 0 })
    }
}

/// A file of a [`Scratch`].
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl ScratchFile {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Puts bytes at the end.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let done = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| self.file.write_all(bytes));
        self.length += bytes.len() as u64;
        done.map_err(|error| Error::io(&self.path, error))
    }

    /// Puts so many bytes from a place on behind others.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read(&mut self, from: u64, length: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let before = bytes.len();
        bytes.resize(before + length, 0);
        let to = SeekFrom::Start(from);
        let done = self.file.seek(to).and_then(|_| self.file.read_exact(&mut bytes[before..]));
        done.map_err(|error| Error::io(&self.path, error))
    }
}

/// The columns of documents, and the bytes that a document has in each: first its input and its row there, then what a
/// file of sketches has.
struct Shape {
    columns: Vec<Column>,
    widths: Vec<usize>,
}

/// Bytes of the place of an input among those that are read together, and of a row there.
const ROW: usize = 8;

/// A row as a number that ascends through all inputs.
fn row_of(DocId { shard, row }: DocId) -> u64 {
    u64::from(shard) << 32 | u64::from(row)
}

/// The number of the first row of the input of such a number.
fn first_row(row: u64) -> u64 {
    row >> 32 << 32
}

impl Shape {
    fn of(layout: &BodyLayout) -> Self {
        let columns: Vec<Column> = layout.columns().collect();
        let widths = [ROW].into_iter().chain(columns.iter().map(|&column| layout.width_of(column))).collect();
        Self { columns, widths }
    }

    /// Where a column of so many documents begins.
    fn start(&self, column: usize, documents: u64) -> u64 {
        documents * self.widths[..column].iter().sum::<usize>() as u64
    }
}

/// Documents that were put on disk together: columns, then names, then hashes of features.
#[derive(Clone, Copy, Debug)]
struct SpilledPart {
    start: u64,
    documents: u64,
    /// Bytes of names, and of hashes.
    rest: [u64; 2],
}

/// The documents that a thread has read, in order of the files.
#[derive(Default)]
struct ThreadDocuments {
    parts: Vec<SpilledPart>,
    file: Option<ScratchFile>,
    /// Documents in memory, behind those of all parts.
    held: u64,
    columns: Vec<Vec<u8>>,
    /// Names, and hashes of features: what has other lengths in each document.
    rest: [Vec<u8>; 2],
}

/// Places of names and of hashes.
const NAMES: usize = 0;
const HASHES: usize = 1;

/// Where a document stands in a stream: a part, and a place in it.
#[derive(Clone, Copy, Debug, Default)]
struct StreamPlace {
    part: usize,
    document: u64,
}

impl ThreadDocuments {
    fn bytes(&self) -> usize {
        self.columns.iter().chain(&self.rest).map(Vec::len).sum()
    }

    fn documents(&self) -> u64 {
        self.parts.iter().map(|part| part.documents).sum::<u64>() + self.held
    }

    /// Puts on disk what is in memory.
    fn spill(&mut self, scratch: &Scratch) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(scratch.file()?),
        };
        let rest = self.rest.each_ref().map(|bytes| bytes.len() as u64);
        self.parts.push(SpilledPart { start: file.len(), documents: self.held, rest });
        for bytes in self.columns.iter_mut().chain(&mut self.rest) {
            file.append(bytes)?;
            bytes.clear();
        }
        self.held = 0;
        Ok(())
    }

    /// Where there are parts, puts the rest on disk as well: names are read in its memory.
    fn end(&mut self, scratch: &Scratch) -> Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        if self.held > 0 {
            self.spill(scratch)?;
        }
        self.columns.iter_mut().chain(&mut self.rest).for_each(|bytes| *bytes = Vec::new());
        Ok(())
    }

    /// Puts what a column has of the next documents, `count` at most and all of one part, behind `bytes`; tells how
    /// many they are.
    fn read(
        &mut self,
        shape: &Shape,
        column: usize,
        at: &mut StreamPlace,
        count: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<u64> {
        let width = shape.widths[column] as u64;
        while self.parts.get(at.part).is_some_and(|part| part.documents == at.document) {
            *at = StreamPlace { part: at.part + 1, document: 0 };
        }
        let (part, from) = (self.parts.get(at.part), at.document * width);
        let documents = part.map_or(self.held, |part| part.documents);
        let count = count.min(documents - at.document);
        let length = (count * width) as usize;
        match (part, &mut self.file) {
            (Some(part), Some(file)) => {
                file.read(part.start + shape.start(column, documents) + from, length, bytes)?;
            }
            _ => bytes.extend_from_slice(&self.columns[column][from as usize..][..length]),
        }
        at.document += count;
        Ok(count)
    }

    /// The names or the hashes of a part.
    fn rest_of(&mut self, shape: &Shape, part: usize, which: usize, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.clear();
        match (self.parts.get(part), &mut self.file) {
            (Some(part), Some(file)) => {
                let before = part.rest[..which].iter().sum::<u64>();
                let from = part.start + shape.start(shape.widths.len(), part.documents) + before;
                file.read(from, part.rest[which] as usize, bytes)
            }
            _ => {
                *bytes = std::mem::take(&mut self.rest[which]);
                Ok(())
            }
        }
    }
}

/// The state of a thread.
struct SketchWorker {
    sketcher: Sketcher,
    stream: ThreadDocuments,
    /// Of each input.
    sums: Vec<TextSum>,
    text_bytes: u64,
    longest: u64,
    keeps_hashes: bool,
    hashes: u64,
    languages: Languages,
}

/// The rules by which input files are sketched, and the memory for them.
pub struct InputReading<'a> {
    /// The settings of the sketches.
    pub settings: &'a Settings,
    /// True if documents have scores.
    pub scored: bool,
    /// Room for documents.
    pub rooms: &'a Rooms,
    /// Where the rest goes.
    pub scratch: &'a Scratch,
}

impl InputReading<'_> {
    /// Reads files and makes the sketches of their documents. `progress` hears of stored bytes as they are read.
    ///
    /// # Errors
    /// For settings whose sketches no file can have, if what does not fit in memory cannot be put on disk, or if a
    /// store has not given all bytes of an object.
    pub fn read(
        &self,
        inputs: &[Input],
        options: &ReadOptions,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Parts> {
        let Self { settings, scored, rooms, scratch } = *self;
        let others = || Error::parameter("sketches", "others", "both, or simhash");
        let layout = BodyLayout::new(settings, 0, scored).ok_or_else(others)?;
        let shape = Shape::of(&layout);
        let sketcher = || Sketcher::new(settings, None);
        // What cannot be made is reported before anything is read.
        sketcher()?;
        let worker = || -> Result<SketchWorker> {
            let columns = vec![Vec::new(); shape.widths.len()];
            Ok(SketchWorker {
                sketcher: sketcher()?,
                stream: ThreadDocuments { columns, ..ThreadDocuments::default() },
                sums: vec![TextSum::default(); inputs.len()],
                text_bytes: 0,
                longest: 0,
                keeps_hashes: settings.keeps_feature_hashes(),
                hashes: 0,
                languages: Languages::default(),
            })
        };
        // Of one that is not read to its end it is not known how much it takes.
        let too_long = |input: &Input, record: u64, (least, takes): (String, String)| {
            let shown = printable_path(&input.path);
            let expected = match input.format {
                // A document is in memory whole, whatever is left out of it.
                Format::Parquet | Format::Arrow => {
                    format!(
                        "{least}, or fewer threads: row {record} of {shown}, with the documents it is in, takes {takes} in a thread"
                    )
                }
                _ => format!(
                    "{least}, fewer threads, or --longest-document, which leaves such records out: record {record} of {shown} takes \
                     {takes} in a thread"
                ),
            };
            Error::parameter("memory", printed_bytes(rooms.memory()), expected)
        };
        let has_failed = AtomicBool::new(false);
        let each = |worker: &mut Result<SketchWorker>, document: Document<'_>| {
            let Ok(working) = worker else { return };
            let heard = rooms.hear(document.bytes()).map_err(|needed| {
                let takes = printed_bytes(document.bytes() * IN_MEMORY);
                let input = &inputs[document.id.shard as usize];
                too_long(
                    input,
                    document.id.row.into(),
                    (format!("at least {}", printed_bytes(needed)), takes),
                )
            });
            let done = heard.and_then(|()| {
                working.add(&shape, &document);
                let is_full = working.stream.bytes() as u64 >= rooms.bytes();
                if is_full { working.stream.spill(scratch) } else { Ok(()) }
            });
            if let Err(error) = done {
                *worker = Err(error);
                has_failed.store(true, Ordering::Relaxed);
            }
        };
        let most = || if has_failed.load(Ordering::Relaxed) { 0 } else { rooms.most() };
        let reading = corpus::ReadJob { inputs, options, most: &most, progress }.read(worker, each);
        if let Some((input, failure)) = inputs.iter().find_map(|input| Some((input, input.failure()?))) {
            return Err(Error::io(&input.path, failure));
        }
        // What it has in all is not known yet.
        if let Some((at, TooLong { record, bytes })) = reading.too_long {
            return Err(too_long(
                &inputs[at],
                record,
                ("more".to_owned(), format!("more than {}", printed_bytes(bytes * IN_MEMORY))),
            ));
        }
        let mut streams = Vec::new();
        let mut sums = vec![TextSum::default(); inputs.len()];
        let (mut text_bytes, mut longest, mut hashes, mut languages) = (0, 0, 0, Languages::default());
        for worker in reading.workers {
            let mut worker = worker?;
            worker.stream.end(scratch)?;
            streams.push(worker.stream);
            sums.iter_mut().zip(worker.sums).for_each(|(sum, part)| sum.merge(part));
            text_bytes += worker.text_bytes;
            longest = longest.max(worker.longest);
            hashes += worker.hashes;
            languages.merge(worker.languages);
        }
        let files = reading.files.into_iter().zip(sums);
        let files = files.map(|(file, sum)| FileReading { texts: Some(sum), ..file }).collect();
        let documents = streams.iter().map(ThreadDocuments::documents).sum();
        Ok(Parts { shape, streams, documents, text_bytes, longest, hashes, files, languages })
    }
}

impl SketchWorker {
    fn add(&mut self, shape: &Shape, document: &Document<'_>) {
        let Sketch { facts, value } = self.sketcher.sketch_part(document.text, document.text);
        let two = match value {
            SketchValue::Both(two) => two,
            SketchValue::SimHash(Hashed { hash, weights }) => {
                let words = weights.bytes().as_chunks::<8>().0.iter();
                let bits = words.map(|word| u64::from_le_bytes(word.map(i8::cast_unsigned))).collect();
                TwoSketches { hash, bits, ..TwoSketches::default() }
            }
            // The settings are of neither.
            _ => return,
        };
        let ThreadDocuments { columns, rest: [names, hashes], held, .. } = &mut self.stream;
        *held += 1;
        let (rows, columns) = columns.split_at_mut(1);
        rows[0].extend_from_slice(&row_of(document.id).to_le_bytes());
        for (bytes, column) in columns.iter_mut().zip(&shape.columns) {
            match *column {
                Column::Digests => bytes.extend_from_slice(&facts.digest.to_le_bytes()),
                Column::Features => bytes.extend_from_slice(&facts.features.to_le_bytes()),
                Column::Lengths => {
                    let length = u32::try_from(facts.text_bytes).unwrap_or(u32::MAX);
                    bytes.extend_from_slice(&length.to_le_bytes());
                }
                Column::Hashes => bytes.extend_from_slice(&two.hash.to_le_bytes()),
                Column::Bits => two.bits.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes())),
                Column::Keys(band) => bytes.extend_from_slice(&two.keys[band].to_le_bytes()),
                Column::Scores => {
                    bytes.extend_from_slice(&document.score.unwrap_or(f64::NEG_INFINITY).to_le_bytes());
                }
            }
        }
        Named { row: document.id.row, place: document.place, id: document.record_id, url: document.url }
            .put(names);
        if self.keeps_hashes {
            hashes.extend_from_slice(&(two.extra.len() as u32).to_le_bytes());
            two.extra.iter().for_each(|hash| hashes.extend_from_slice(&hash.to_le_bytes()));
            self.hashes += two.extra.len() as u64;
        }
        self.sums[document.id.shard as usize].add(document.id.row, facts.digest);
        self.text_bytes += facts.text_bytes;
        self.longest = self.longest.max(document.bytes());
        self.languages.add(document.first_language(), 1);
    }
}

/// The documents of input files, as threads have read them.
pub struct Parts {
    shape: Shape,
    streams: Vec<ThreadDocuments>,
    /// The number of documents.
    pub documents: u64,
    /// Bytes of their texts.
    pub text_bytes: u64,
    /// Bytes of the longest record.
    pub longest: u64,
    /// Hashes of their features, where these are kept.
    pub hashes: u64,
    /// The outcome of reading each file.
    pub files: Vec<FileReading>,
    /// Documents by the first language that their record names.
    pub languages: Languages,
}

/// Documents that stand together in the files and in a stream.
#[derive(Clone, Copy, Debug)]
struct DocumentStretch {
    stream: u32,
    documents: u32,
}

/// The rows of a stream, some at a time.
#[derive(Default)]
struct StreamRows {
    at: StreamPlace,
    bytes: Vec<u8>,
    taken: usize,
}

impl StreamRows {
    const AT_ONCE: u64 = 1 << 12;

    /// The next row, which stays the next one.
    fn peek(&mut self, shape: &Shape, stream: &mut ThreadDocuments) -> Result<Option<u64>> {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
            stream.read(shape, 0, &mut self.at, Self::AT_ONCE, &mut self.bytes)?;
        }
        Ok(self.bytes.get(self.taken..).and_then(<[u8]>::first_chunk).map(|&row| u64::from_le_bytes(row)))
    }
}

impl Parts {
    /// Finds in which order the streams have the documents of the files.
    ///
    /// # Errors
    /// If what is on disk cannot be read.
    pub fn in_order(mut self, inputs: &[Input]) -> Result<InOrder> {
        let Self { shape, streams, .. } = &mut self;
        let broken = || Error::io(&inputs[0].path, io::ErrorKind::InvalidData.into());
        let mut rows: Vec<StreamRows> = streams.iter().map(|_| StreamRows::default()).collect();
        let mut heads = Vec::with_capacity(streams.len());
        for (rows, stream) in rows.iter_mut().zip(&mut *streams) {
            heads.push(rows.peek(shape, stream)?);
        }
        let (mut order, mut gaps, mut next) = (Vec::new(), 0, 0u64);
        let mut of_inputs = vec![0; inputs.len()];
        loop {
            let least = |but: Option<usize>| {
                let heads = heads.iter().enumerate().filter(|&(at, _)| Some(at) != but);
                heads.filter_map(|(at, head)| Some(((*head)?, at))).min()
            };
            let Some((_, at)) = least(None) else { break };
            let end = least(Some(at)).map(|(row, _)| row);
            let mut documents = 0;
            while let Some(row) = heads[at]
                && documents < u32::MAX
                && end.is_none_or(|end| row < end)
            {
                if row < next {
                    return Err(broken());
                }
                *of_inputs.get_mut((row >> 32) as usize).ok_or_else(broken)? += 1;
                next = next.max(first_row(row));
                gaps += u64::from(row > next);
                next = row.saturating_add(1);
                documents += 1;
                rows[at].taken += ROW;
                heads[at] = rows[at].peek(shape, &mut streams[at])?;
            }
            // Two that have the same row would have none after the other.
            if documents == 0 {
                return Err(broken());
            }
            order.push(DocumentStretch { stream: at as u32, documents });
        }
        Ok(InOrder { parts: self, order, gaps, of_inputs })
    }
}

/// The documents of input files, in their order.
pub struct InOrder {
    /// The documents.
    pub parts: Parts,
    order: Vec<DocumentStretch>,
    /// Places in the files where records that are no documents come before one that is.
    pub gaps: u64,
    /// The number of documents of each input.
    pub of_inputs: Vec<u64>,
}

impl InOrder {
    /// Hands over a column in pieces.
    fn column(&mut self, column: usize, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Parts { shape, streams, .. } = &mut self.parts;
        let mut at = vec![StreamPlace::default(); streams.len()];
        let mut bytes = Vec::new();
        for &DocumentStretch { stream, documents } in &self.order {
            let (stream, at) = (&mut streams[stream as usize], &mut at[stream as usize]);
            let mut left = u64::from(documents);
            while left > 0 {
                bytes.clear();
                let read = stream.read(shape, column, at, left.min(1 << 14), &mut bytes)?;
                each(&bytes)?;
                left -= read;
            }
        }
        Ok(())
    }

    /// Hands over all columns of a file of sketches, one after the other, in pieces.
    ///
    /// # Errors
    /// If what is on disk cannot be read, or what is done with a piece fails.
    pub fn columns(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        (1..self.parts.shape.widths.len()).try_for_each(|column| self.column(column, &mut each))
    }

    /// Hands over [`gaps`](Self::gaps): the place among the documents of the one behind, and how many records are no
    /// documents.
    ///
    /// # Errors
    /// If what is on disk cannot be read, or what is done with a gap fails.
    pub fn each_gap(&mut self, mut each: impl FnMut(u64, u32) -> Result<()>) -> Result<()> {
        let (mut document, mut next) = (0, 0u64);
        self.column(0, |bytes| {
            let (rows, _) = bytes.as_chunks();
            for row in rows.iter().map(|&row| u64::from_le_bytes(row)) {
                next = next.max(first_row(row));
                if row > next {
                    each(document, (row - next) as u32)?;
                }
                (document, next) = (document + 1, row.saturating_add(1));
            }
            Ok(())
        })
    }

    /// The names of all documents, as a file of names has them, and no more than once.
    ///
    /// # Errors
    /// If what is on disk cannot be read, or a block cannot be compressed or put on disk.
    pub fn names<'s>(&mut self, scratch: &'s Scratch) -> Result<Names<'s>> {
        let mut names = Names::new(scratch);
        self.rest(NAMES, |rest| {
            let broken = || Error::io(&scratch.place, io::ErrorKind::InvalidData.into());
            let named = Named::take(rest).ok_or_else(broken)?;
            names.push(named.place, named.id, named.url)
        })?;
        Ok(names)
    }

    /// Hands over the hashes of the features of all documents, as a file of sketches has them, and no more than once.
    ///
    /// # Errors
    /// If what is on disk cannot be read, or what is done with a piece fails.
    pub fn hashes(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.parts.hashes == 0 {
            return Ok(());
        }
        self.rest(HASHES, |rest| {
            let broken = || Error::io(Path::new("hashes of features"), io::ErrorKind::InvalidData.into());
            let (length, behind) = rest.split_first_chunk().ok_or_else(broken)?;
            let bytes = u32::from_le_bytes(*length) as usize * 4;
            let (hashes, behind) = behind.split_at_checked(bytes).ok_or_else(broken)?;
            *rest = behind;
            each(hashes)
        })
    }

    /// Hands over the names or the hashes of one document after the other, which `each` takes from the beginning.
    fn rest(&mut self, which: usize, mut each: impl FnMut(&mut &[u8]) -> Result<()>) -> Result<()> {
        let Parts { shape, streams, .. } = &mut self.parts;
        // Of each stream, the part that is read next, what the one before has, and where its next document begins.
        let mut reading: Vec<(usize, Vec<u8>, usize)> = streams.iter().map(|_| Default::default()).collect();
        for &DocumentStretch { stream, documents } in &self.order {
            let (at, stream) = (stream as usize, &mut streams[stream as usize]);
            let (part, bytes, from) = &mut reading[at];
            for _ in 0..documents {
                while *from == bytes.len() && *part <= stream.parts.len() {
                    stream.rest_of(shape, *part, which, bytes)?;
                    (*part, *from) = (*part + 1, 0);
                }
                let mut rest = &bytes[*from..];
                each(&mut rest)?;
                *from = bytes.len() - rest.len();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{DiscoverOptions, JsonlFields, discover};
    use crate::pipeline::documents::{ReadDocuments, Wanted};
    use proptest::prelude::*;
    use simflip_core::collection::Keeping;
    use simflip_core::id::{Document as ComparedDocument, Id};

    /// Columns, gaps, names and what else is known, of documents sketched in so much room.
    fn sketched(input: &Input, options: &ReadOptions, settings: &Settings, room: u64) -> [Vec<u8>; 4] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("documents");
        let scratch = Scratch::beside(&place);
        let sketching = InputReading { settings, scored: true, rooms: &Rooms::of(room), scratch: &scratch };
        let inputs = std::slice::from_ref(input);
        let parts = sketching.read(inputs, options, &|_| ()).unwrap();
        let known = format!(
            "{} {} {:?} {:?}",
            parts.documents, parts.text_bytes, parts.files[0].texts, parts.languages
        );
        let mut documents = parts.in_order(inputs).unwrap();
        let [mut columns, mut gaps] = [Vec::new(), Vec::new()];
        documents
            .columns(|bytes| {
                columns.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        let mut number = 0;
        documents
            .each_gap(|document, records| {
                number += 1;
                gaps.extend_from_slice(format!("{document} {records}\n").as_bytes());
                Ok(())
            })
            .unwrap();
        assert_eq!(number, documents.gaps);
        documents.names(&scratch).unwrap().write(&place, vec!["input".to_owned()]).unwrap();
        [columns, gaps, std::fs::read(&place).unwrap(), known.into_bytes()]
    }

    /// The columns of documents that are all in memory.
    fn held(input: &Input, options: &ReadOptions, settings: &Settings) -> [Vec<u8>; 4] {
        let wanted = Wanted::new(settings.extraction(), Keeping::of(settings));
        let read = ReadDocuments::read(vec![input.clone()], 1, options, &wanted, &|_| ()).unwrap();
        let (collection, all) = (&read.collection, || ComparedDocument::all(read.len()));
        let facts = collection.all_facts();
        let two = |document| collection.two(document).unwrap();
        let mut columns = Vec::new();
        facts.iter().for_each(|facts| columns.extend(facts.digest.to_le_bytes()));
        facts.iter().for_each(|facts| columns.extend(facts.features.to_le_bytes()));
        facts.iter().for_each(|facts| columns.extend((facts.text_bytes as u32).to_le_bytes()));
        all().for_each(|document| columns.extend(two(document).hash.to_le_bytes()));
        all().for_each(|document| {
            columns.extend(two(document).bits.iter().flat_map(|word| word.to_le_bytes()))
        });
        let bands = all().next().map_or(0, |document| two(document).keys.len());
        (0..bands).for_each(|band| {
            all().for_each(|document| columns.extend(two(document).keys[band].to_le_bytes()))
        });
        read.scores.iter().flatten().for_each(|score| columns.extend(score.to_le_bytes()));
        let (mut gaps, mut next) = (String::new(), 0);
        for (document, row) in read.documents.rows().iter().enumerate() {
            if row.id.row > next {
                gaps += &format!("{document} {}\n", row.id.row - next);
            }
            next = row.id.row + 1;
        }
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("documents");
        let scratch = Scratch::beside(&place);
        let mut names = Names::new(&scratch);
        for document in all() {
            let documents = &read.documents;
            let (id, url) = (documents.record_id(document), documents.url(document));
            names.push(documents.row(document).place, id, url).unwrap();
        }
        names.write(&place, vec!["input".to_owned()]).unwrap();
        let known = format!(
            "{} {} {:?} {:?}",
            read.len(),
            collection.text_bytes(),
            read.files[0].texts,
            read.languages
        );
        [columns, gaps.into_bytes(), std::fs::read(&place).unwrap(), known.into_bytes()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn in_whatever_room_documents_are_those_of_a_run_that_holds_them_all(
            lines in prop::collection::vec((0u8..8, 0usize..30), 0..400), threads in 1usize..5,
            block_bytes in prop::sample::select(vec![64usize, 1000, 1 << 20]),
            room in prop::sample::select(vec![0u64, 300, 2000, 20_000, 1 << 30]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("documents.jsonl");
            let line = |(at, &(kind, words)): (usize, &(u8, usize))| match kind {
                0 => "{\"text\": 7}\n".to_owned(),
                1 => "no document\n".to_owned(),
                2 => format!("{{\"text\": \"{}\"}}\n", "same ".repeat(words)),
                _ => {
                    let text: String = (0..words).map(|word| format!("w{} ", at * word % 97)).collect();
                    let (url, score) = (format!("https://a.example/{at}"), at as f64 / 3.0);
                    let document = serde_json::json!({
                        "id": at, "url": url, "text": text, "score": score, "language": format!("l{}", at % 3)
                    });
                    document.to_string() + "\n"
                }
            };
            std::fs::write(&path, lines.iter().enumerate().map(line).collect::<String>()).unwrap();
            let fields = JsonlFields { score: Some("score".to_owned()), ..JsonlFields::default() };
            let discovery = DiscoverOptions { fields: fields.clone(), ..DiscoverOptions::default() };
            let input = discover(&[path], &discovery).unwrap().remove(0);
            let settings = Settings::default();
            let options = ReadOptions { fields, threads: 1, ..ReadOptions::default() };
            let expected = held(&input, &options, &settings);
            let options = ReadOptions { threads, block_bytes, ..options };
            prop_assert!(sketched(&input, &options, &settings, room) == expected);
        }
    }

    #[test]
    fn a_disk_that_takes_nothing_ends_the_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.jsonl");
        std::fs::write(&path, "{\"text\": \"some words\"}\n".repeat(100_000)).unwrap();
        let input = discover(&[path], &DiscoverOptions::default()).unwrap().remove(0);
        let scratch = Scratch::beside(&folder.path().join("none/at all"));
        let settings = Settings::default();
        let sketching =
            InputReading { settings: &settings, scored: false, rooms: &Rooms::of(1000), scratch: &scratch };
        for threads in [1, 3] {
            let options = ReadOptions { threads, block_bytes: 1000, ..ReadOptions::default() };
            let read = AtomicUsize::new(0);
            let progress = |bytes| {
                read.fetch_add(bytes as usize, Ordering::Relaxed);
            };
            assert!(matches!(
                sketching.read(std::slice::from_ref(&input), &options, &progress),
                Err(Error::Io { .. })
            ));
            assert!(read.into_inner() < 1_000_000, "{threads} threads");
        }
    }
}
