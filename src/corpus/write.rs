//! Writes the documents that are kept to files of the inputs' formats, as stored bytes where these can be copied.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::mem;
use std::path::Path;
use std::thread;

use libdeflater::{CompressionLvl, Compressor};
use rayon::prelude::*;

use super::corruption::{Corruption, CorruptionCause, CorruptionKind};
use super::fetch::{fetch, header_at};
use super::filetype::{Compression, Format, is_called, stem};
use super::input::{Input, ReadInput};
use super::kept::{EachKept, Kept, KeptColumns, KeptDocuments, KeptFiles, NumberedFiles, Target};
use super::options::{ReadOptions, pool};
use super::reader::{Block, Reader};
use super::records::{Span, copyable};
use super::storage::StoredFile;
use super::{parquet, wet};
use crate::document::{DocId, Place};
use crate::hash::murmur3_x64_128;
use crate::{Error, Result};

/// A file, or a part of one that has no name. Where a size is set, it is the last of several.
struct Output<'a> {
    files: NumberedFiles<'a>,
    writer: BufWriter<File>,
    /// Its first record is another's, and so are the files that it goes to.
    is_part: bool,
    /// The date of the first document (WET).
    date: Option<String>,
    stored_bytes: u64,
    lost: Vec<Corruption>,
    /// The input that is written.
    shard: u32,
    /// Of a part, where a size is set: the input, stored bytes and documents of each piece that one file is to hold.
    pieces: Vec<(u32, u64, u64)>,
    /// Room for what is read.
    block: Block,
    /// Written bytes that are not on their way to the disk yet.
    unsynced: u64,
    /// Sends what was written to the disk.
    syncing: Option<thread::JoinHandle<io::Result<()>>>,
}

impl<'a> Output<'a> {
    /// A file of the target, or a part of it in a file without a name, to be appended.
    fn new(target: &'a Target, size: Option<u64>, is_part: bool) -> Result<Self> {
        let files = NumberedFiles::new(target, size);
        let dir = target.path.parent().unwrap_or(Path::new("."));
        let writer = match is_part {
            true => tempfile::tempfile_in(dir).map(|file| BufWriter::with_capacity(1 << 20, file)),
            false => files.create(),
        };
        Ok(Self {
            writer: writer.map_err(|error| Error::io(files.path(), error))?,
            files,
            is_part,
            date: None,
            stored_bytes: 0,
            lost: Vec::new(),
            shard: 0,
            pieces: Vec::new(),
            block: Block::default(),
            unsynced: 0,
            syncing: None,
        })
    }

    /// Bytes of lines that are compressed as one. Where files are to be small they are few, so that files come
    /// near their size, and no two lines together exceed it.
    fn lines_at_once(&self) -> usize {
        let header = self.files.target.header().map_or(0, |header| header.bytes.len() as u64);
        let few = |size: u64| usize::try_from(size.saturating_sub(header) / 16).unwrap_or(usize::MAX);
        self.files.size.map_or(usize::MAX, few)
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(self.files.path(), error)
    }

    /// Begins with the first document: `date` is its own.
    fn begin(&mut self, date: impl FnOnce() -> io::Result<String>) -> Result<(), Broken> {
        if self.files.target.format == Format::Wet && self.date.is_none() {
            self.date = Some(date()?);
        }
        Ok(self.head()?)
    }

    /// Writes what stands before all records, unless something stands there.
    fn head(&mut self) -> Result<()> {
        if self.is_part || self.stored_bytes > 0 {
            return Ok(());
        }
        let head = match (&self.date, self.files.target.header()) {
            (Some(date), _) => {
                warcinfo(date, &self.files.path().file_name().unwrap_or_default().to_string_lossy())
            }
            (None, Some(header)) => [&header.bytes[..], b"\n"].concat(),
            (None, None) => return Ok(()),
        };
        let head = pack(&head, self.files.target.compression)?;
        self.write(&head)
    }

    /// Puts a part behind what is there.
    fn append(&mut self, part: Self) -> Result<()> {
        let (mut writer, documents) = (part.writer, part.files.documents);
        self.lost.extend(part.lost);
        if documents == 0 {
            return Ok(());
        }
        self.date = self.date.take().or(part.date);
        self.head()?;
        let pieces = match self.files.size {
            Some(_) => part.pieces,
            None => vec![(part.shard, part.stored_bytes, documents)],
        };
        writer.seek(SeekFrom::Start(0)).map_err(|error| self.failed(error))?;
        // Pieces may be short: as `dyn` they pass through the buffers.
        let mut file: Box<dyn Read + '_> = Box::new(BufReader::with_capacity(1 << 20, writer.get_mut()));
        for (shard, bytes, documents) in pieces {
            self.shard = shard;
            self.make_room(bytes, documents)?;
            let copied = io::copy(&mut file.by_ref().take(bytes), &mut self.writer);
            self.stored_bytes += copied.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Counts documents that one file is to hold. The next file is begun, if they are too much for this.
    fn make_room(&mut self, stored: u64, documents: u64) -> Result<()> {
        if let Some(size) = self.files.size {
            if self.is_part {
                self.pieces.push((self.shard, stored, documents));
            } else if self.files.documents > 0 && self.stored_bytes + stored > size {
                self.next_file()?;
            }
        }
        self.files.add(self.shard, documents);
        Ok(())
    }

    /// Writes documents that one file is to hold.
    fn put(&mut self, bytes: &[u8], documents: u64) -> Result<()> {
        self.make_room(bytes.len() as u64, documents)?;
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stored_bytes += bytes.len() as u64;
        let written = self.writer.write_all(bytes).and_then(|()| self.sync_meanwhile(bytes.len() as u64));
        written.map_err(|error| self.failed(error))
    }

    /// Has what is written go to the disk now and then while more is written, so that the end need not wait for all.
    fn sync_meanwhile(&mut self, bytes: u64) -> io::Result<()> {
        /// Bytes that are worth it.
        const ENOUGH: u64 = 16 << 20;
        self.unsynced += bytes;
        let is_busy = self.syncing.as_ref().is_some_and(|sync| !sync.is_finished());
        if self.is_part || is_busy || self.unsynced < ENOUGH {
            return Ok(());
        }
        self.synced()?;
        self.writer.flush()?;
        let file = self.writer.get_ref().try_clone()?;
        // Where no thread is to be had, the end waits for all.
        self.syncing = thread::Builder::new().spawn(move || file.sync_data()).ok();
        self.unsynced = 0;
        Ok(())
    }

    /// Waits for what is on its way to the disk.
    fn synced(&mut self) -> io::Result<()> {
        let ended = self.syncing.take().map(thread::JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err(io::Error::other("a thread ended")))
    }

    /// Ends the file and begins the next one.
    fn next_file(&mut self) -> Result<()> {
        self.end_file()?;
        self.writer = self.files.create().map_err(|error| self.failed(error))?;
        self.head()
    }

    fn end_file(&mut self) -> Result<()> {
        let ended = self.synced().and_then(|()| self.files.end(&mut self.writer));
        ended.map_err(|error| self.failed(error))?;
        (self.unsynced, self.stored_bytes) = (0, 0);
        Ok(())
    }

    /// A mark of where it stands: the files that are whole, and documents and stored bytes of the one behind them.
    fn mark(&self) -> (usize, u64, u64) {
        (self.files.whole.len(), self.files.documents, self.stored_bytes)
    }

    /// Takes back what was written since, all of it of one input.
    fn back_to(&mut self, (whole, documents, stored_bytes): (usize, u64, u64)) -> Result<()> {
        let last = self.files.path();
        let later = self.files.whole.split_off(whole);
        if let [began, between @ ..] = &later[..] {
            let file = File::options().write(true).open(&began.path).map_err(|error| self.failed(error))?;
            self.writer = BufWriter::with_capacity(1 << 20, file);
            self.files.of_shards = began.shards.clone();
            for path in between.iter().map(|file| &file.path).chain([&last]) {
                fs::remove_file(path).map_err(|error| Error::io(path, error))?;
            }
        }
        let back = |writer: &mut BufWriter<File>| {
            writer.flush()?;
            writer.get_ref().set_len(stored_bytes)?;
            writer.seek(SeekFrom::Start(stored_bytes)).map(drop)
        };
        back(&mut self.writer).map_err(|error| self.failed(error))?;
        let shard = self.shard;
        self.files.of_shards.retain(|&of| of != shard);
        self.pieces.retain(|&(of, ..)| of != shard);
        (self.files.documents, self.stored_bytes) = (documents, stored_bytes);
        if whole == 0 && stored_bytes == 0 {
            self.date = None;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Kept> {
        // A gzip file of no member would be none, nor is an empty file one of WARC.
        if self.files.target.format == Format::Wet {
            self.date.get_or_insert_with(|| date(b""));
        }
        self.head()?;
        if self.stored_bytes == 0 {
            let empty = pack(&[], self.files.target.compression)?;
            self.write(&empty)?;
        }
        self.end_file()?;
        Ok(Kept { files: self.files.whole, lost: self.lost })
    }
}

/// Why kept documents of a file were not written.
enum Broken {
    /// The file is not what it was; the run goes on without them.
    Input(String),
    /// The documents cannot be written, which ends the run.
    Output(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Output(error)
    }
}

/// An error of the input: one of the output has its path.
impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Input(error.to_string())
    }
}

/// Returns true if the text, which was read again under this id, is that of the document that was read before.
pub type IsSame<'a> = &'a (dyn Fn(DocId, &str) -> bool + Sync);

/// Compresses bytes to one gzip member or one Zstandard frame; without a compression they stay as they are.
pub(crate) fn pack(bytes: &[u8], compression: Compression) -> Result<Cow<'_, [u8]>> {
    /// Less than half the time of the library's usual level, for one byte in ten more.
    const GZIP_LEVEL: i32 = 1;
    thread_local! {
        // To make one takes as long as to compress a short document.
        static COMPRESSOR: RefCell<Compressor> =
            RefCell::new(Compressor::new(CompressionLvl::new(GZIP_LEVEL).unwrap_or_default()));
    }
    let failed = |error| Error::io("kept documents", error);
    match compression {
        Compression::None => Ok(Cow::Borrowed(bytes)),
        Compression::Zstd => {
            zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL).map(Cow::Owned).map_err(failed)
        }
        Compression::Gzip => COMPRESSOR.with_borrow_mut(|compressor| {
            let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
            let compressed = compressor.gzip_compress(bytes, &mut out);
            out.truncate(compressed.map_err(|e| failed(io::Error::other(e.to_string())))?);
            Ok(Cow::Owned(out))
        }),
    }
}

/// A record as WARC wants it: header lines ended by CRLF, the right length, two line ends behind.
fn canonical(header: &[u8], content: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(header.len() + content.len() + 64);
    let length = format!("Content-Length: {}", content.len());
    let (mut counted, mut replaced) = (false, false);
    for line in header.split_inclusive(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // A length may go on over lines; it is written on one.
        if replaced && line.starts_with(b" ") | line.starts_with(b"\t") {
            continue;
        }
        let written = wet::length_line(line);
        replaced = written.is_some();
        let line = match written {
            Some(_) if counted => continue,
            Some(written) if written != content.len().to_string().as_bytes() => length.as_bytes(),
            _ => line,
        };
        counted |= replaced;
        record.extend_from_slice(line);
        record.extend_from_slice(b"\r\n");
    }
    record.extend_from_slice(content);
    record.extend_from_slice(b"\r\n\r\n");
    record
}

/// The first record of a WET file. Its date is that of the first document kept and its id is made from its
/// content and the file's name, so the same input always gives the same file.
fn warcinfo(date: &str, name: &str) -> Vec<u8> {
    let content = concat!(
        "software: simflip/",
        env!("CARGO_PKG_VERSION"),
        "\r\nformat: WARC File Format 1.0\r\ndescription: documents kept after near-duplicates were removed\r\n"
    );
    let (a, b) = murmur3_x64_128(format!("{date}\n{name}\n{content}").as_bytes(), 0);
    // The shape of a version 8 UUID (RFC 9562): any bits, but version and variant.
    let bits = (u128::from(a >> 16) << 80) | (u128::from(a & 0xfff) << 64) | u128::from(b & (u64::MAX >> 2));
    let id = hyphenated(bits | (8 << 76) | (2 << 62));
    let header = format!(
        "WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Date: {date}\r\nWARC-Filename: {name}\r\n\
         WARC-Record-ID: <urn:uuid:{id}>\r\nContent-Type: application/warc-fields\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    canonical(header.as_bytes(), content.as_bytes())
}

/// A UUID as it is written (RFC 9562, 4).
pub(crate) fn hyphenated(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}

/// The date of a record, for the warcinfo record; the start of time if it has none that can be used.
fn date(header: &[u8]) -> String {
    let plain = |d: &&str| d.len() <= 32 && d.bytes().all(|b| b.is_ascii_graphic());
    wet::fields(header).date.as_deref().filter(plain).unwrap_or("1970-01-01T00:00:00Z").to_owned()
}

/// The documents to write, and the number of files that they go to.
#[derive(Clone, Copy)]
pub struct KeptJob<'a> {
    /// The number of files that documents go to.
    pub files: KeptFiles,
    /// The inputs that hold the documents.
    pub inputs: &'a [Input],
    /// The options by which the inputs were read.
    pub options: &'a ReadOptions,
    /// The documents that are kept of each input.
    pub kept: &'a dyn KeptDocuments,
    /// Recognises the documents whose text is still the one that was read.
    pub is_same: IsSame<'a>,
}

/// [`KeptJob::write`] with one file for all inputs of a format.
///
/// # Errors
/// As [`KeptJob::write`].
pub fn write_kept(
    inputs: &[Input],
    options: &ReadOptions,
    kept: &dyn KeptDocuments,
    is_same: IsSame<'_>,
    dir: &Path,
) -> Result<Kept> {
    KeptJob { files: KeptFiles::One, inputs, options, kept, is_same }.write(dir)
}

impl KeptJob<'_> {
    /// Writes the documents that are to be kept into the folder `dir`, which is created if it is missing.
    /// [`kept`](Self::kept) names them input by input, with their places.
    ///
    /// WET documents go to `kept.warc.wet.gz`: a new warcinfo record, then one gzip member per record. A member that
    /// holds just the record, well formed, is copied as it is. Any other record is compressed anew, with its header
    /// lines ended by CRLF and its `Content-Length` set right. Lines of JSON go to `kept.jsonl.gz`, and records of CSV
    /// to `kept.csv.gz` behind their header, each as it was. Tables with another header than the first go to
    /// `kept-2.csv.gz` and so on. If no input of the file is compressed, neither is the file, as compressing would cost
    /// more than all else: it is called `kept.jsonl`. If all are Zstandard, so is the file, and its name ends in
    /// `.zst`. Rows of Parquet go to `kept.parquet`, with all columns, compressed as they were; inputs with other
    /// columns than the first go to `kept-2.parquet` and so on. Rows of Arrow go to `kept.arrow` likewise, which is a
    /// stream whether the inputs are streams or files. A file is written for each format among the inputs, also if
    /// nothing of it is kept.
    ///
    /// With [`KeptFiles::Each`] every input has a file of its own, stored as the input is, whatever is kept of it:
    /// `kept.NAME`, where the name is that of the input with the usual ending.
    ///
    /// With [`KeptFiles::OfSize`] each of these files is several, which end where the next document would be too much:
    /// `kept-00001.jsonl.gz`, `kept-2-00001.csv.gz` and so on. Each begins as a file does, with a warcinfo record or a
    /// header, and one is there even if nothing is kept.
    ///
    /// What is written does not depend on the number of threads.
    ///
    /// Where an input is gone or has changed since it was found, the documents are written that can still be read there
    /// and that [`is_same`](Self::is_same) knows. Each of the others is named in [`Kept::lost`].
    ///
    /// # Errors
    /// [`Error::Io`] if `dir` cannot be written to.
    pub fn write(&self, dir: &Path) -> Result<Kept> {
        fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        let pool = pool(self.options.threads.max(1))?;
        let mut kept = Kept::default();
        let (targets, writer) = (self.targets(dir, &mut kept.lost)?, KeptWriter { job: self, pool: &pool });
        let write = |target: &Target| match &target.columns {
            KeptColumns::None | KeptColumns::Csv(_) => writer.write_target(target),
            KeptColumns::Parquet(schema) => parquet::write_parquet(self, target, schema, &pool),
            KeptColumns::Arrow(_) => parquet::write_arrow(self, target),
        };
        let written: Vec<Result<Kept>> = match self.files {
            KeptFiles::One | KeptFiles::OfSize(_) => targets.iter().map(write).collect(),
            KeptFiles::Each => pool.install(|| targets.par_iter().map(write).collect()),
        };
        for written in written {
            let written = written?;
            kept.files.extend(written.files);
            kept.lost.extend(written.lost);
        }
        Ok(kept)
    }

    /// The files to write: of each format one for all inputs with the same columns, or else one for each input. Kept
    /// documents of a table that cannot be read any more are noted as gone.
    fn targets(&self, dir: &Path, gone: &mut Vec<Corruption>) -> Result<Vec<Target>> {
        let (names, is_each) = (names(self.inputs), self.files == KeptFiles::Each);
        let mut targets = Vec::new();
        for format in [Format::Wet, Format::Jsonl, Format::Csv, Format::Parquet, Format::Arrow] {
            let (mut of_format, mut unread): (Vec<Target>, Vec<u32>) = (Vec::new(), Vec::new());
            for (shard, input) in (0u32..).zip(self.inputs).filter(|(_, input)| input.format == format) {
                let (columns, rows, largest) = match self.columns_of(input) {
                    Ok(found) => found,
                    Err((_, why)) if format.is_columnar() => {
                        gone.extend(lost(input, &self.kept.of_file(shard)?, &[], &why));
                        continue;
                    }
                    Err(_) => {
                        unread.push(shard);
                        continue;
                    }
                };
                // An empty table has no columns, and goes with any.
                let is_of = |target: &&mut Target| {
                    let either = [&target.columns, &columns];
                    !is_each && (target.columns == columns || either.contains(&&KeptColumns::None))
                };
                let Some(target) = of_format.iter_mut().find(is_of) else {
                    let (path, compression) = (dir.join(&names[shard as usize]), input.compression);
                    let shards = vec![shard];
                    of_format.push(Target { path, format, compression, shards, columns, rows, largest });
                    continue;
                };
                target.shards.push(shard);
                target.rows += rows;
                target.largest = target.largest.max(largest);
                if target.columns == KeptColumns::None {
                    target.columns = columns;
                }
                if target.compression != input.compression {
                    target.compression = Compression::Gzip;
                }
            }
            if !is_each {
                if format.is_columnar() {
                    // Even if nothing is kept there is a file, as with the other formats.
                    let kept = of_format.iter().map(|target| self.number_of(target));
                    let kept = kept.collect::<Result<Vec<u64>>>()?;
                    if kept.iter().all(|&number| number == 0) {
                        of_format.truncate(1);
                    } else {
                        let mut kept = kept.into_iter();
                        of_format.retain(|_| kept.next() > Some(0));
                    }
                }
                for (number, target) in (1..).zip(&mut of_format) {
                    let number = if number == 1 { String::new() } else { format!("-{number}") };
                    let ending = ending(format, false, target.compression);
                    target.path = dir.join(format!("kept{number}{ending}"));
                }
                // Files that could not be read have a place, too.
                if let Some(first) = of_format.first_mut() {
                    first.shards.extend(unread);
                    first.shards.sort_unstable();
                }
            }
            targets.extend(of_format);
        }
        Ok(targets)
    }

    /// The columns of an input, its rows, and those of its largest row group.
    fn columns_of(&self, input: &Input) -> Result<(KeptColumns, u64, u64), CorruptionCause> {
        match &input.problem {
            Some(problem) => Err(problem.clone()),
            None if input.format.is_columnar() => parquet::columns_of(input, self.options),
            None => Ok((input.header.clone().map_or(KeptColumns::None, KeptColumns::Csv), 0, 0)),
        }
    }

    /// The number of documents that are kept of the inputs of a target.
    pub(crate) fn number_of(&self, target: &Target) -> Result<u64> {
        target.shards.iter().map(|&shard| self.kept.number(shard)).sum()
    }

    /// Reads the kept documents of one input again. Returns those that are still as they were, in the same order, and
    /// the reason, in words, why the first of the others is not. After 100 that cannot be read the rest is given up.
    pub(crate) fn still_there(&self, kept: &[(DocId, Place)]) -> (Vec<(DocId, Place)>, Option<String>) {
        /// Documents that do not read any more, after which the others are given up: each costs a new beginning.
        const GIVEN_UP: usize = 100;
        let (mut there, mut why) = (Vec::new(), None);
        let mut rest = kept;
        for _ in 0..GIVEN_UP {
            let mut handed = 0;
            let done = fetch(self.inputs, self.options, rest, |document| {
                let (id, place) = rest[handed];
                handed += 1;
                if (self.is_same)(id, document.text) {
                    there.push((id, place));
                } else {
                    why.get_or_insert_with(|| "another text stands in its place".to_owned());
                }
            });
            let Err(error) = done else { break };
            why.get_or_insert_with(|| match error {
                Error::Io { source, .. } => source.to_string(),
                Error::Format { got, .. } => got,
                other => other.to_string(),
            });
            rest = rest.get(handed + 1..).unwrap_or_default();
        }
        (there, why)
    }
}

/// True if the stored bytes of all documents that are kept of a file can be copied.
fn are_copies(kept: &dyn KeptDocuments, shard: u32) -> Result<bool> {
    let is_none = |kept: &Result<(DocId, Place)>| kept.as_ref().map_or(true, |kept| kept.1.member == 0);
    Ok(kept.each_of(shard)?.find(is_none).transpose()?.is_none())
}

/// Writes the documents of a job, with the threads of a pool.
struct KeptWriter<'a> {
    job: &'a KeptJob<'a>,
    pool: &'a rayon::ThreadPool,
}

impl KeptWriter<'_> {
    /// Writes a file, or those of a size. Of several inputs those that must be compressed anew are worked on side by
    /// side.
    fn write_target(&self, target: &Target) -> Result<Kept> {
        let pool = self.pool;
        let mut output = Output::new(target, self.job.files.size(), false)?;
        let parts = self.parts_of(&target.shards)?;
        let write = |part: &PartOf, output: &mut Output<'_>| {
            part.shards.iter().try_for_each(|&shard| {
                output.shard = shard;
                self.write_file(shard, part.copies, output)
            })
        };
        for at_once in parts.chunks(pool.current_num_threads().max(1)) {
            let aside = |part: &PartOf| -> Result<Option<Output<'_>>> {
                // Bytes that are copied come from the file, and one part needs no other place.
                if parts.len() == 1 || part.copies {
                    return Ok(None);
                }
                let mut output = Output::new(target, self.job.files.size(), true)?;
                write(part, &mut output)?;
                Ok(Some(output))
            };
            let written: Vec<Result<Option<Output<'_>>>> =
                pool.install(|| at_once.par_iter().map(aside).collect());
            for (part, written) in at_once.iter().zip(written) {
                match written? {
                    Some(written) => output.append(written)?,
                    None => write(part, &mut output)?,
                }
            }
        }
        output.finish()
    }

    /// The inputs of which something is kept, in parts of some bytes at least: each part is a file for a while, and
    /// there may be many small inputs.
    fn parts_of(&self, shards: &[u32]) -> Result<Vec<PartOf>> {
        const LEAST: u64 = 1 << 20;
        let KeptJob { inputs, kept, .. } = *self.job;
        let mut parts: Vec<PartOf> = Vec::new();
        for &shard in shards {
            if kept.number(shard)? == 0 {
                continue;
            }
            let (copies, bytes) = (are_copies(kept, shard)?, inputs[shard as usize].stored_bytes());
            match parts.last_mut() {
                Some(part) if part.copies == copies && part.bytes < LEAST => {
                    part.shards.push(shard);
                    part.bytes += bytes;
                }
                _ => parts.push(PartOf { shards: vec![shard], copies, bytes }),
            }
        }
        Ok(parts)
    }

    /// Writes what is kept of a file, whose stored bytes can be copied or not, or of it what can still be had.
    fn write_file(&self, shard: u32, copies: bool, output: &mut Output<'_>) -> Result<()> {
        let KeptJob { inputs, kept, .. } = *self.job;
        let input = &inputs[shard as usize];
        let mark = output.mark();
        let write =
            |kept: &dyn KeptDocuments, copies: bool, output: &mut Output<'_>| -> Result<Option<String>> {
                let now = input.storage.stamp();
                let each = kept.each_of(shard)?;
                let wrote = if copies {
                    self.copy_members(input, each, output)
                } else {
                    self.write_anew(shard, each, kept.number(shard)?, output)
                };
                let why = match wrote {
                    Ok(()) if now == input.storage.stamp() => return Ok(None),
                    Ok(()) => "the file changed while its kept documents were copied".to_owned(),
                    Err(Broken::Input(why)) => why,
                    Err(Broken::Output(error)) => return Err(error),
                };
                output.back_to(mark)?;
                Ok(Some(why))
            };
        let failure = if input.is_as_found() { write(kept, copies, output)? } else { Some(String::new()) };
        let Some(mut why) = failure else { return Ok(()) };
        let kept = kept.of_file(shard)?;
        let (mut there, changed) = self.job.still_there(&kept);
        if !there.is_empty()
            && let Some(failure) = write(&there, are_copies(&there, shard)?, output)?
        {
            (why, there) = (failure, Vec::new());
        }
        let why = changed.unwrap_or(why);
        output.lost.extend(lost(input, &kept, &there, &why));
        Ok(())
    }

    /// Copies members without a look inside, but for the date of the first.
    fn copy_members(
        &self,
        input: &Input,
        mut kept: EachKept<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), Broken> {
        // Neighbours are copied in one piece, of bounded size.
        const PIECE: u64 = 1 << 20;
        let mut file = input.storage.open()?;
        let Some(first) = kept.next().transpose()? else { return Ok(()) };
        // By the decoder that read it: another may refuse what this one takes.
        output.begin(|| header_at(input, self.job.options, first.1).map(|header| date(&header)))?;
        let mut piece = vec![first.1.offset];
        for kept in std::iter::once(Ok(first)).chain(kept) {
            let (_, place) = kept?;
            let (start, end) = (piece[0], piece[piece.len() - 1]);
            if place.offset != end || end - start > PIECE {
                copy_piece(&mut file, &piece, output)?;
                piece.clear();
                piece.push(place.offset);
            }
            piece.push(place.offset + place.member);
        }
        copy_piece(&mut file, &piece, output)
    }

    /// Reads a file again and writes what is kept of it, so many documents, record by record.
    fn write_anew(
        &self,
        shard: u32,
        each: EachKept<'_>,
        number: u64,
        output: &mut Output<'_>,
    ) -> Result<(), Broken> {
        let (KeptJob { inputs, options, .. }, pool) = (*self.job, self.pool);
        let input = &inputs[shard as usize];
        let mut block = mem::take(&mut output.block);
        let mut reader = Reader::open(ReadInput { shard, input, options });
        let mut stored: Option<StoredFile> = None;
        let mut found = 0;
        // Lines of as many blocks as there are threads to pack them.
        let mut waiting: Vec<(Vec<u8>, u64)> = Vec::new();
        let (mut each, mut kept) = (each.peekable(), Vec::new());
        while reader.next_block(&mut block) {
            let Some(last) = block.records.spans.last() else { continue };
            // What is kept of the block; of those before it none is there.
            kept.clear();
            while let Some(next) = each.next_if(|next| next.as_ref().map_or(true, |&(id, _)| id <= last.id)) {
                kept.push(next?);
            }
            let is_kept = |span: &&Span| {
                let at = kept.binary_search_by_key(&span.id, |&(id, _)| id);
                at.is_ok_and(|at| Place { member: kept[at].1.member, ..span.place } == kept[at].1)
            };
            let chosen: Vec<&Span> = block.records.spans.iter().filter(is_kept).collect();
            let Some(first) = chosen.first() else { continue };
            found += chosen.len();
            let bytes = &block.records.bytes;
            if output.files.target.format != Format::Wet {
                waiting.extend(lines(bytes, &chosen, output.lines_at_once()));
                if waiting.len() >= pool.current_num_threads() {
                    write_lines(&mut waiting, output, pool)?;
                }
                continue;
            }
            output.begin(|| Ok(date(&bytes[first.start..first.content_start])))?;
            let compression = output.files.target.compression;
            for part in pool.install(|| records(bytes, &chosen, compression)) {
                match part? {
                    OutputPart::New(bytes) => output.put(&bytes, 1)?,
                    OutputPart::Stored(from, to) => {
                        let file = match &mut stored {
                            Some(file) => file,
                            None => stored.insert(input.storage.open()?),
                        };
                        copy_piece(file, &[from, to], output)?;
                    }
                }
            }
        }
        write_lines(&mut waiting, output, pool)?;
        output.block = block;
        match found as u64 == number {
            true => Ok(()),
            false => Err(Broken::Input(format!("{found} of {number} documents stand where they stood"))),
        }
    }
}

/// Inputs in a row that a thread writes.
struct PartOf {
    shards: Vec<u32>,
    /// Their stored bytes are copied.
    copies: bool,
    bytes: u64,
}

/// A corruption for each kept document of an input that is not in `there`, which is sorted by id. `why` is the reason,
/// in words.
pub(crate) fn lost(
    input: &Input,
    kept: &[(DocId, Place)],
    there: &[(DocId, Place)],
    why: &str,
) -> Vec<Corruption> {
    let is_lost = |(id, _): &&(DocId, Place)| there.binary_search_by_key(id, |&(id, _)| id).is_err();
    let corruption = |&(id, place): &(DocId, Place)| {
        let detail = format!("{} was to be kept, and cannot be read any more: {why}", input.name_of(id.row));
        let corruption = Corruption::at(&input.path, None, place, CorruptionKind::Changed, detail);
        Corruption { documents: Some(1), ..corruption }
    };
    kept.iter().filter(is_lost).map(corruption).collect()
}

/// Copies stored bytes from the first of these offsets to the last, from each to the next a document.
fn copy_piece(file: &mut StoredFile, bounds: &[u64], output: &mut Output<'_>) -> Result<(), Broken> {
    let (start, end) = (bounds[0], bounds[bounds.len() - 1]);
    let mut bytes = Vec::new();
    file.move_to(start)?;
    file.append(&mut bytes, end - start)?;
    if (bytes.len() as u64) < end - start {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let mut documents = bounds.windows(2).map(|pair| (pair[0] - start) as usize..(pair[1] - start) as usize);
    Ok(documents.try_for_each(|document| output.put(&bytes[document], 1))?)
}

/// Lines, verbatim, and how many they are: as one, or several of so many bytes at most, unless a line has more.
fn lines(bytes: &[u8], chosen: &[&Span], at_once: usize) -> Vec<(Vec<u8>, u64)> {
    let mut texts: Vec<(Vec<u8>, u64)> = Vec::new();
    for span in chosen {
        let line = &bytes[span.content_start..span.content_end];
        if texts.last().is_none_or(|(text, _)| text.len() + line.len() >= at_once) {
            texts.push((Vec::new(), 0));
        }
        let Some((text, lines)) = texts.last_mut() else { continue };
        text.extend_from_slice(line);
        text.push(b'\n');
        *lines += 1;
    }
    texts
}

/// Writes the lines that wait, and how many each has, packed block by block.
fn write_lines(
    waiting: &mut Vec<(Vec<u8>, u64)>,
    output: &mut Output<'_>,
    pool: &rayon::ThreadPool,
) -> Result<()> {
    let compression = output.files.target.compression;
    if !waiting.is_empty() {
        output.head()?;
    }
    let packed: Vec<Result<Cow<'_, [u8]>>> =
        pool.install(|| waiting.par_iter().map(|(lines, _)| pack(lines, compression)).collect());
    for (packed, &(_, documents)) in packed.into_iter().zip(&*waiting) {
        output.put(&packed?, documents)?;
    }
    waiting.clear();
    Ok(())
}

/// The ending of the name of a file of kept documents; of CSV, `tsv` tells whether a tab parts its values.
pub(crate) fn ending(format: Format, tsv: bool, compression: Compression) -> String {
    let of_format = match format {
        Format::Wet => ".warc.wet",
        Format::Jsonl => ".jsonl",
        Format::Csv if tsv => ".tsv",
        Format::Csv => ".csv",
        Format::Parquet => return ".parquet".to_owned(),
        Format::Arrow => return ".arrow".to_owned(),
    };
    let packed = match compression {
        Compression::None => "",
        Compression::Gzip => ".gz",
        Compression::Zstd => ".zst",
    };
    format!("{of_format}{packed}")
}

/// For each input the name of the file of its own for what is kept of it. Where inputs are called the same, the
/// later ones have a number.
fn names(inputs: &[Input]) -> Vec<String> {
    /// Bytes of an input's name that are taken over: a name may have 255, some of which are ours.
    const LONGEST: usize = 180;
    let mut taken = HashSet::new();
    let name = |input: &Input| {
        let called = input.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = stem(if called == "-" { "stdin" } else { &called });
        let stem = &stem[..stem.floor_char_boundary(LONGEST)];
        let ending = ending(input.format, is_called(&input.path, ".tsv"), input.compression);
        let numbered = (2u64..).map(|n| format!("kept.{stem}-{n}{ending}"));
        let mut names = std::iter::once(format!("kept.{stem}{ending}")).chain(numbered);
        // Some file systems do not tell small letters from large ones.
        names.find(|name| taken.insert(name.to_lowercase())).unwrap_or_default()
    };
    inputs.iter().map(name).collect()
}

/// A record of the output.
enum OutputPart {
    New(Vec<u8>),
    /// To be copied from the stored file, from one offset to another.
    Stored(u64, u64),
}

/// One gzip member or frame per record.
fn records(bytes: &[u8], chosen: &[&Span], compression: Compression) -> Vec<Result<OutputPart>> {
    let part = |span: &&Span| match span.member {
        Some((from, to)) if copyable(span, bytes) > 0 => Ok(OutputPart::Stored(from, to)),
        _ => {
            let (header, content) = (span.start..span.content_start, span.content_start..span.content_end);
            let record = canonical(&bytes[header], &bytes[content]);
            pack(&record, compression).map(|packed| OutputPart::New(packed.into_owned()))
        }
    };
    chosen.par_iter().map(part).collect()
}
