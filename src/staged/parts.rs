//! The documents of input files while they are sketched. Each thread puts those that it reads one behind the other;
//! where they outgrow its memory, they go to disk. At last the documents of all threads are merged in order of the
//! files, and parted into columns.

use super::estimate::Rooms;
use super::layout::{BodyLayout, share_bytes};
use super::names::{Named, Names};
use super::printed_bytes;
use super::sorter::{Merge, length_of};
use super::spilled::{Scratch, SpilledBytes, SpilledColumns};
use crate::boilerplate::{Boilerplate, Lines};
use crate::corpus::{
    self, Document, FileReading, Format, IN_MEMORY, Input, Languages, ReadOptions, TextSum, TooLong,
};
use crate::display::printable_path;
use crate::document::DocId;
use crate::error::{Error, Result};
use crate::pipeline::documents::check_stores;
use simflip_core::settings::Settings;
use simflip_core::sketch::{Hashed, Sketch, SketchValue, Sketcher, TwoSketches};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes with which a document's record begins: its input among those that are read together, and its row there. As a
/// number they ascend through all inputs.
const ROW: usize = 8;

/// A document's id as a number, which ascends through all inputs that are read together.
fn row_of(DocId { shard, row }: DocId) -> u64 {
    u64::from(shard) << 32 | u64::from(row)
}

/// The number of row 0 of the input that the row of this number is in.
fn first_row(row: u64) -> u64 {
    row >> 32 << 32
}

/// The state of a thread.
struct SketchWorker<'a> {
    sketcher: Sketcher,
    boilerplate: Option<&'a Boilerplate>,
    lines: Lines,
    /// Its documents in order of the files, each behind its length: row, columns, names, and hashes of features.
    stream: SpilledBytes<'a>,
    record: Vec<u8>,
    documents: u64,
    /// Of each input.
    sums: Vec<TextSum>,
    text_bytes: u64,
    longest: u64,
    keeps_hashes: bool,
    hashes: u64,
    languages: Languages,
}

/// Reads input files and sketches their documents: the rules for it, the memory, and the disk beyond it.
pub struct InputReading<'a> {
    /// The settings of the sketches.
    pub settings: &'a Settings,
    /// True if a field of scores is read, for the column of scores.
    pub scored: bool,
    /// Lines that are left out of documents before they are sketched.
    pub boilerplate: Option<&'a Boilerplate>,
    /// The memory of each thread for documents.
    pub rooms: &'a Rooms,
    /// The folder for documents that do not fit into memory.
    pub scratch: &'a Scratch,
}

impl<'a> InputReading<'a> {
    /// Reads files and makes the sketches of their documents. `progress` is called with numbers of stored bytes as they
    /// are read.
    ///
    /// # Errors
    /// For settings whose sketches no file can have, or if a record is too long for the memory. If a file on disk
    /// cannot be written, or a store has not given all bytes of an object.
    pub fn read(
        &self,
        inputs: &[Input],
        options: &ReadOptions,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Parts<'a>> {
        let Self { settings, scored, boilerplate, rooms, scratch } = *self;
        let others = || Error::parameter("sketches", "others", "both, or simhash");
        let layout = BodyLayout::new(settings, 0, scored).ok_or_else(others)?;
        let layout = BodyLayout { parted: boilerplate.is_some(), ..layout };
        let sketcher = || Sketcher::new(settings, None);
        // What cannot be made is reported before anything is read.
        sketcher()?;
        let worker = || -> Result<SketchWorker<'_>> {
            Ok(SketchWorker {
                sketcher: sketcher()?,
                boilerplate,
                lines: Lines::default(),
                stream: SpilledBytes::new(scratch),
                record: Vec::new(),
                documents: 0,
                sums: vec![TextSum::default(); inputs.len()],
                text_bytes: 0,
                longest: 0,
                keeps_hashes: settings.keeps_feature_hashes(),
                hashes: 0,
                languages: Languages::default(),
            })
        };
        let has_failed = AtomicBool::new(false);
        let each = |worker: &mut Result<SketchWorker<'_>>, document: Document<'_>| {
            let Ok(working) = worker else { return };
            let heard = rooms.hear(document.bytes()).map_err(|needed| {
                let takes = printed_bytes(document.bytes() * IN_MEMORY);
                let input = &inputs[document.id.shard as usize];
                let least = format!("at least {}", printed_bytes(needed));
                too_long(rooms, input, document.id.row.into(), (least, takes))
            });
            let input = &*inputs[document.id.shard as usize].path;
            let done = heard.and_then(|()| working.add(&layout, input, &document, rooms.bytes()));
            if let Err(error) = done {
                *worker = Err(error);
                has_failed.store(true, Ordering::Relaxed);
            }
        };
        let most = || if has_failed.load(Ordering::Relaxed) { 0 } else { rooms.most() };
        let reading = corpus::ReadJob { inputs, options, most: &most, progress }.read(worker, each);
        check_stores(inputs)?;
        if let Some((at, record)) = reading.too_long {
            return Err(not_read(rooms, &inputs[at], record));
        }
        let mut streams = Vec::new();
        let mut sums = vec![TextSum::default(); inputs.len()];
        let (mut documents, mut text_bytes, mut longest, mut hashes) = (0, 0, 0, 0);
        let mut languages = Languages::default();
        for worker in reading.workers {
            let mut worker = worker?;
            worker.stream.end()?;
            streams.push(worker.stream);
            documents += worker.documents;
            sums.iter_mut().zip(worker.sums).for_each(|(sum, part)| sum.merge(part));
            text_bytes += worker.text_bytes;
            longest = longest.max(worker.longest);
            hashes += worker.hashes;
            languages.merge(worker.languages);
        }
        let files = reading.files.into_iter().zip(sums);
        let files = files.map(|(file, sum)| FileReading { texts: Some(sum), ..file }).collect();
        let layout = BodyLayout { documents, ..layout };
        Ok(Parts { layout, scratch, streams, text_bytes, longest, hashes, files, languages })
    }
}

/// The error of a record for which there is too little memory: how much there must be, and how much a thread takes.
fn too_long(rooms: &Rooms, input: &Input, record: u64, (least, takes): (String, String)) -> Error {
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
}

/// The error of a record that is too long for the memory, and was not read to its end.
pub fn not_read(rooms: &Rooms, input: &Input, TooLong { record, bytes }: TooLong) -> Error {
    let takes = format!("more than {}", printed_bytes(bytes * IN_MEMORY));
    too_long(rooms, input, record, ("more".to_owned(), takes))
}

impl SketchWorker<'_> {
    fn add(&mut self, layout: &BodyLayout, input: &Path, document: &Document<'_>, room: u64) -> Result<()> {
        let (part, share) = match self.boilerplate {
            Some(boilerplate) => boilerplate.part(&mut self.lines, input, document),
            None => (document.text, None),
        };
        let Sketch { facts, value } = self.sketcher.sketch_part(document.text, part);
        let two = match value {
            SketchValue::Both(two) => two,
            SketchValue::SimHash(Hashed { hash, weights }) => {
                let words = weights.bytes().as_chunks::<8>().0.iter();
                let bits = words.map(|word| u64::from_le_bytes(word.map(i8::cast_unsigned))).collect();
                TwoSketches { hash, bits, ..TwoSketches::default() }
            }
            // No layout is made for other sketches.
            _ => return Ok(()),
        };
        let (record, row) = (&mut self.record, row_of(document.id));
        let length = u32::try_from(facts.text_bytes).unwrap_or(u32::MAX);
        record.clear();
        record.extend(row.to_be_bytes());
        record.extend(facts.digest.to_le_bytes());
        record.extend(facts.features.to_le_bytes());
        record.extend(length.to_le_bytes());
        record.extend(two.hash.to_le_bytes());
        two.bits.iter().for_each(|word| record.extend(word.to_le_bytes()));
        two.keys.iter().take(layout.bands).for_each(|key| record.extend(key.to_le_bytes()));
        if layout.scored {
            record.extend(document.score.unwrap_or(f64::NEG_INFINITY).to_le_bytes());
        }
        if layout.parted {
            record.extend(share_bytes(share.map(|(_, share)| share)));
        }
        let (id, url, group) = (document.record_id, document.url, document.group);
        Named { row: document.id.row, place: document.place, id, url, group }.put(record);
        if self.keeps_hashes {
            two.extra.iter().for_each(|hash| record.extend(hash.to_le_bytes()));
            self.hashes += two.extra.len() as u64;
        }
        self.documents += 1;
        self.sums[document.id.shard as usize].add(document.id.row, facts.digest);
        self.text_bytes += facts.text_bytes;
        self.longest = self.longest.max(document.bytes());
        self.languages.add(document.first_language(), 1);
        // A length goes to disk with what it is the length of.
        self.stream.push(&length_of(record)?.to_le_bytes(), u64::MAX)?;
        self.stream.push(record, room)
    }
}

/// The documents of input files with their sketches, as threads have read them: not in order yet.
pub struct Parts<'a> {
    /// The layout of their columns.
    pub layout: BodyLayout,
    scratch: &'a Scratch,
    streams: Vec<SpilledBytes<'a>>,
    /// Bytes of their texts.
    pub text_bytes: u64,
    /// Bytes of the longest record, reckoned by the memory that it takes.
    pub longest: u64,
    /// Number of the hashes of their features; 0 unless containment decides.
    pub hashes: u64,
    /// The outcome of reading each input, in their order.
    pub files: Vec<FileReading>,
    /// Documents by the first language that their record names.
    pub languages: Languages,
}

/// The documents of input files, in their order and parted into columns.
pub struct InOrder<'a> {
    /// The columns of a file of sketches.
    pub columns: SpilledColumns<'a>,
    /// For each gap, where records that are no documents come before a document: the place of that document among all
    /// (8 bytes), and the number of the records (4 bytes).
    pub gaps: SpilledBytes<'a>,
    /// The hashes of the features of one document after the other, 4 bytes each.
    pub hashes: SpilledBytes<'a>,
    /// The number of documents of each input.
    pub of_inputs: Vec<u64>,
}

impl<'a> Parts<'a> {
    /// Puts the documents in the order of the files, and parts them into columns and names. It takes them, so it is
    /// called once.
    pub fn in_order(&mut self) -> Result<(InOrder<'a>, Names<'a>)> {
        /// Bytes of gaps and of hashes that are held.
        const HELD: u64 = 1 << 16;
        let (scratch, layout) = (self.scratch, self.layout);
        let broken = || Error::io(scratch.place(), io::ErrorKind::InvalidData.into());
        let none = || SpilledBytes::new(scratch);
        let mut in_order = InOrder {
            columns: SpilledColumns::new(&layout, scratch),
            gaps: none(),
            hashes: none(),
            of_inputs: vec![0; self.files.len()],
        };
        let streams = std::mem::take(&mut self.streams).into_iter();
        let streams = streams.map(|stream| Ok((scratch.place().to_path_buf(), stream.reader()?)));
        let mut merge = Merge::of_any_length(streams.collect::<Result<_>>()?)?;
        let (mut names, mut document, mut next) = (Names::new(scratch), 0u64, 0u64);
        while let Some(record) = merge.next()? {
            let (row, rest) = record.split_first_chunk::<ROW>().ok_or_else(broken)?;
            let row = u64::from_be_bytes(*row);
            // Rows ascend, and no two are the same.
            if row < next {
                return Err(broken());
            }
            *in_order.of_inputs.get_mut((row >> 32) as usize).ok_or_else(broken)? += 1;
            next = next.max(first_row(row));
            if row > next {
                in_order.gaps.push(&document.to_le_bytes(), HELD)?;
                in_order.gaps.push(&((row - next) as u32).to_le_bytes(), HELD)?;
            }
            (document, next) = (document + 1, row.saturating_add(1));
            let mut rest = in_order.columns.push(rest)?.ok_or_else(broken)?;
            names.push(&Named::take(&mut rest).ok_or_else(broken)?)?;
            in_order.hashes.push(rest, HELD)?;
        }
        if document != layout.documents || in_order.hashes.len() != self.hashes * 4 {
            return Err(broken());
        }
        Ok((in_order, names))
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
    use std::io::Read;
    use std::sync::atomic::AtomicUsize;

    /// Columns, gaps, names and what else is known, of documents sketched in so much room.
    fn sketched(input: &Input, options: &ReadOptions, settings: &Settings, room: u64) -> [Vec<u8>; 4] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("documents");
        let scratch = Scratch::beside(&place);
        let rooms = &Rooms::of(room);
        let sketching = InputReading { settings, scored: true, boilerplate: None, rooms, scratch: &scratch };
        let inputs = std::slice::from_ref(input);
        let mut parts = sketching.read(inputs, options, &|_| ()).unwrap();
        let known = format!(
            "{} {} {:?} {:?}",
            parts.layout.documents, parts.text_bytes, parts.files[0].texts, parts.languages
        );
        let (documents, names) = parts.in_order().unwrap();
        let [mut columns, mut gaps] = [Vec::new(), Vec::new()];
        documents.columns.reader().unwrap().read_to_end(&mut columns).unwrap();
        documents.gaps.reader().unwrap().read_to_end(&mut gaps).unwrap();
        names.write(&place, vec!["input".to_owned()]).unwrap();
        [columns, gaps, std::fs::read(&place).unwrap(), known.into_bytes()]
    }

    /// The columns of documents that are all in memory.
    fn held(input: &Input, options: &ReadOptions, settings: &Settings) -> [Vec<u8>; 4] {
        let wanted = Wanted::new(settings.extraction(), Keeping::of(settings));
        let read = ReadDocuments::read(vec![input.clone()], 1, options, &wanted, &|_| ()).unwrap();
        let (collection, all) = (&read.collection, || ComparedDocument::all(read.len()));
        let facts = || collection.all_facts();
        let two = |document| collection.two(document).unwrap();
        let mut columns = Vec::new();
        facts().for_each(|facts| columns.extend(facts.digest.to_le_bytes()));
        facts().for_each(|facts| columns.extend(facts.features.to_le_bytes()));
        facts().for_each(|facts| columns.extend((facts.text_bytes as u32).to_le_bytes()));
        all().for_each(|document| columns.extend(two(document).hash.to_le_bytes()));
        all().for_each(|document| {
            columns.extend(two(document).bits.iter().flat_map(|word| word.to_le_bytes()))
        });
        let bands = all().next().map_or(0, |document| two(document).keys.len());
        (0..bands).for_each(|band| {
            all().for_each(|document| columns.extend(two(document).keys[band].to_le_bytes()))
        });
        read.scores.iter().flatten().for_each(|score| columns.extend(score.to_le_bytes()));
        let (mut gaps, mut next) = (Vec::new(), 0);
        for (document, id) in (0u64..).zip(read.documents.ids()) {
            if id.row > next {
                gaps.extend(document.to_le_bytes());
                gaps.extend((id.row - next).to_le_bytes());
            }
            next = id.row + 1;
        }
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("documents");
        let scratch = Scratch::beside(&place);
        let mut names = Names::new(&scratch);
        for document in all() {
            let documents = &read.documents;
            let (id, url) = (documents.record_id(document), documents.url(document));
            names.push(&Named { place: documents.place(document), id, url, ..Named::default() }).unwrap();
        }
        names.write(&place, vec!["input".to_owned()]).unwrap();
        let known = format!(
            "{} {} {:?} {:?}",
            read.len(),
            collection.text_bytes(),
            read.files[0].texts,
            read.languages
        );
        [columns, gaps, std::fs::read(&place).unwrap(), known.into_bytes()]
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
        let (settings, rooms, scratch) = (&settings, &Rooms::of(1000), &scratch);
        let sketching = InputReading { settings, scored: false, boilerplate: None, rooms, scratch };
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
