//! Writing the documents that are kept.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::csv::Header;
use super::damage::{Damage, DamageKind};
use super::fetch::{fetch, header_at};
use super::filetype::{Compression, Format, StreamFormat, stem};
use super::inputs::Input;
use super::kept::{Kept, KeptFile, KeptFiles, KeptPages};
use super::options::{ReadOptions, pool};
use super::reader::{Block, Reader};
use super::records::{Span, copyable};
use super::storage::StoredFile;
use super::{parquet, wet};
use crate::document::{DocId, Place};
use crate::hash::murmur3_x64_128;
use crate::{Error, Result};

/// A file that is to be written: its place, how it is stored, and the inputs whose pages go there.
struct Target {
    path: PathBuf,
    format: StreamFormat,
    compression: Compression,
    shards: Vec<u32>,
    /// What names the columns (CSV).
    header: Option<Arc<Header>>,
}

/// A file that has its name only once it is whole, or a part of one that has none.
struct Output {
    writer: BufWriter<File>,
    partial: PathBuf,
    format: StreamFormat,
    compression: Compression,
    /// The name that the first record gives the file; none for a part, whose first record is another's.
    name: Option<String>,
    /// The date of the first document (WET).
    date: Option<String>,
    /// What stands before all records (CSV); none for a part.
    header: Option<Vec<u8>>,
    documents: u64,
    stored_bytes: u64,
    lost: Vec<Damage>,
}

/// Where an output stood.
#[derive(Clone, Copy)]
struct Mark {
    documents: u64,
    stored_bytes: u64,
}

impl Output {
    fn create(target: &Target) -> Result<Self> {
        let name = target.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let partial = target.path.with_file_name(format!("{name}.partial"));
        let file = File::create(&partial).map_err(|e| Error::io(&partial, e))?;
        Ok(Self::new(target, file, partial, Some(name)))
    }

    /// A part of the target in a file without a name, to be appended.
    fn part(target: &Target) -> Result<Self> {
        let dir = target.path.parent().unwrap_or(Path::new("."));
        let file = tempfile::tempfile_in(dir).map_err(|e| Error::io(dir, e))?;
        Ok(Self::new(target, file, dir.to_path_buf(), None))
    }

    fn new(target: &Target, file: File, partial: PathBuf, name: Option<String>) -> Self {
        Self {
            writer: BufWriter::with_capacity(1 << 20, file),
            partial,
            format: target.format,
            compression: target.compression,
            header: target
                .header
                .as_ref()
                .filter(|_| name.is_some())
                .map(|header| [&header.bytes[..], b"\n"].concat()),
            name,
            date: None,
            documents: 0,
            stored_bytes: 0,
            lost: Vec::new(),
        }
    }

    /// Begins with the first document: `date` is its own.
    fn begin(&mut self, date: impl FnOnce() -> io::Result<String>) -> Result<(), Broken> {
        if self.format == StreamFormat::Wet && self.documents == 0 && self.date.is_none() {
            let date = date().map_err(|error| Broken::Input(error.to_string()))?;
            if let Some(name) = &self.name {
                let first = pack(&warcinfo(&date, name), self.compression)?;
                self.write(&first)?;
            }
            self.date = Some(date);
        }
        self.head()?;
        Ok(())
    }

    /// Writes the header, unless something stands there.
    fn head(&mut self) -> Result<()> {
        match &self.header {
            Some(header) if self.stored_bytes == 0 => {
                let header = pack(header, self.compression)?;
                self.write(&header)
            }
            _ => Ok(()),
        }
    }

    /// Puts a part behind what is there.
    fn append(&mut self, part: Self) -> Result<()> {
        let Self { mut writer, date, documents, lost, partial, .. } = part;
        self.lost.extend(lost);
        if documents == 0 {
            return Ok(());
        }
        match self.begin(|| Ok(date.unwrap_or_default())) {
            Err(Broken::Output(error)) => return Err(error),
            Ok(()) | Err(Broken::Input(_)) => {}
        }
        let read = writer.flush().and_then(|()| {
            let file = writer.get_mut();
            file.seek(SeekFrom::Start(0))?;
            io::copy(file, &mut self.writer)
        });
        self.stored_bytes += read.map_err(|e| Error::io(&partial, e))?;
        self.documents += documents;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stored_bytes += bytes.len() as u64;
        self.writer.write_all(bytes).map_err(|e| Error::io(&self.partial, e))
    }

    fn mark(&self) -> Mark {
        Mark { documents: self.documents, stored_bytes: self.stored_bytes }
    }

    /// Takes back what was written since.
    fn back_to(&mut self, mark: Mark) -> Result<()> {
        let back = |writer: &mut BufWriter<File>| {
            writer.flush()?;
            writer.get_ref().set_len(mark.stored_bytes)?;
            writer.seek(SeekFrom::Start(mark.stored_bytes)).map(drop)
        };
        back(&mut self.writer).map_err(|e| Error::io(&self.partial, e))?;
        Mark { documents: self.documents, stored_bytes: self.stored_bytes } = mark;
        if mark.stored_bytes == 0 {
            self.date = None;
        }
        Ok(())
    }

    fn finish(mut self, target: &Target) -> Result<(KeptFile, Vec<Damage>)> {
        // A gzip file of no member would be none, nor is an empty file one of WARC.
        self.head()?;
        if self.stored_bytes == 0 && self.documents == 0 {
            let empty = match self.format {
                StreamFormat::Wet => warcinfo(&date(b""), self.name.as_deref().unwrap_or_default()),
                StreamFormat::Jsonl | StreamFormat::Csv => Vec::new(),
            };
            let empty = pack(&empty, self.compression)?;
            self.write(&empty)?;
        }
        let flushed = self.writer.flush().and_then(|()| self.writer.get_ref().sync_all());
        flushed.map_err(|e| Error::io(&self.partial, e))?;
        let path = target.path.clone();
        fs::rename(&self.partial, &path).map_err(|e| Error::io(&path, e))?;
        let Self { format, documents, stored_bytes, lost, .. } = self;
        let shards = target.shards.clone();
        Ok((KeptFile { path, format: format.format(), documents, stored_bytes, shards }, lost))
    }
}

/// Why kept pages of a file were not written.
enum Broken {
    /// The file is not what it was; the run goes on without them.
    Input(String),
    /// They cannot be written; the run does not.
    Output(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Output(error)
    }
}

/// Says whether a document, read again, is the one that was read before.
pub type IsSame<'a> = &'a (dyn Fn(DocId, &str) -> bool + Sync);

/// Bytes as they are stored: one gzip member, one Zstandard frame, or as they are.
pub(crate) fn pack(bytes: &[u8], compression: Compression) -> Result<Vec<u8>> {
    /// Half the time of the library's usual level, for a few bytes more.
    const GZIP_LEVEL: i32 = 2;
    let failed = |error| Error::io("kept pages", error);
    match compression {
        Compression::None => Ok(bytes.to_vec()),
        Compression::Zstd => zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(failed),
        Compression::Gzip => {
            let level = libdeflater::CompressionLvl::new(GZIP_LEVEL).unwrap_or_default();
            let mut compressor = libdeflater::Compressor::new(level);
            let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
            let n = compressor
                .gzip_compress(bytes, &mut out)
                .map_err(|e| failed(io::Error::other(e.to_string())))?;
            out.truncate(n);
            Ok(out)
        }
    }
}

/// A record as WARC wants it: header lines ended by CRLF, the right length, two line ends behind.
fn canonical(header: &[u8], content: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(header.len() + content.len() + 64);
    let (mut counted, mut replaced) = (false, false);
    for line in header.split_inclusive(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // A length may go on over lines; it is written on one.
        if replaced && line.starts_with(b" ") | line.starts_with(b"\t") {
            continue;
        }
        replaced = wet::length_line(line).is_some();
        match wet::length_line(line) {
            Some(written) if written == content.len().to_string().as_bytes() && !counted => {
                record.extend_from_slice(line);
            }
            Some(_) if !counted => {
                record.extend_from_slice(format!("Content-Length: {}", content.len()).as_bytes());
            }
            Some(_) => continue,
            None => {
                record.extend_from_slice(line);
                record.extend_from_slice(b"\r\n");
                continue;
            }
        }
        record.extend_from_slice(b"\r\n");
        counted = true;
    }
    record.extend_from_slice(content);
    record.extend_from_slice(b"\r\n\r\n");
    record
}

/// The first record of a WET file. Its date is that of the first document kept and its id is made from its
/// content, so the same input always gives the same file.
fn warcinfo(date: &str, name: &str) -> Vec<u8> {
    let content = concat!(
        "software: flipside/",
        env!("CARGO_PKG_VERSION"),
        "\r\nformat: WARC File Format 1.0\r\ndescription: documents kept after near-duplicates were removed\r\n"
    );
    let (a, b) = murmur3_x64_128(format!("{date}\n{content}").as_bytes(), 0);
    // The shape of a version 8 UUID (RFC 9562): any bits, but version and variant.
    let id = format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        0x8000 | (b >> 48 & 0x3fff),
        b & 0xffff_ffff_ffff
    );
    let header = format!(
        "WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Date: {date}\r\nWARC-Filename: {name}\r\n\
         WARC-Record-ID: <urn:uuid:{id}>\r\nContent-Type: application/warc-fields\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    canonical(header.as_bytes(), content.as_bytes())
}

/// The date of a record, for the warcinfo record; the start of time if it has none that can be used.
fn date(header: &[u8]) -> String {
    let plain = |d: &&str| d.len() <= 32 && d.bytes().all(|b| b.is_ascii_graphic());
    wet::fields(header).date.as_deref().filter(plain).unwrap_or("1970-01-01T00:00:00Z").to_owned()
}

/// [`write_kept_as`] with one file for all inputs of a format.
///
/// # Errors
/// As [`write_kept_as`].
pub fn write_kept(
    inputs: &[Input],
    options: &ReadOptions,
    kept: &dyn KeptPages,
    is_same: IsSame<'_>,
    dir: &Path,
) -> Result<Kept> {
    write_kept_as(KeptFiles::One, inputs, options, kept, is_same, dir)
}

/// Writes the documents that are to be kept into `dir`; `kept` names them file by file, and says what reading said
/// of each.
///
/// WET documents go to `kept.warc.wet.gz`: a new warcinfo record, then one gzip member per record. A member that
/// holds just the record, well formed, is copied as it is; any other record is compressed anew, with its header
/// lines ended by CRLF and its `Content-Length` set right. Lines of JSON go to `kept.jsonl.gz`, and records of CSV
/// to `kept.csv.gz` behind their header, each as it was; tables with another header than the first go to
/// `kept-2.csv.gz` and so on. If all inputs of the format are Zstandard, these files are, too, and end in `.zst`.
/// Rows of Parquet go to `kept.parquet`, with all columns, compressed as they were; inputs with other columns than
/// the first go to `kept-2.parquet` and so on. A file is written for each format among the inputs, also if nothing
/// of it is kept.
///
/// With [`KeptFiles::Each`] every input has a file of its own, stored as the input is, whatever is kept of it:
/// `kept.NAME`, where the name is that of the input with the usual ending.
///
/// What is written does not depend on the number of threads.
///
/// Where an input is gone or has changed since it was found, the pages that can still be read there and that
/// `is_same` knows are written, and each of the others is named in [`Kept::lost`].
///
/// # Errors
/// [`Error::Io`] if `dir` cannot be written to.
pub fn write_kept_as(
    files: KeptFiles,
    inputs: &[Input],
    options: &ReadOptions,
    kept: &dyn KeptPages,
    is_same: IsSame<'_>,
    dir: &Path,
) -> Result<Kept> {
    fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
    let pool = pool(options.threads.max(1))?;
    let names = names(inputs);
    let mut targets: Vec<Target> = Vec::new();
    for format in StreamFormat::ALL {
        let of_format = |input: &&Input| input.format == format.format() && input.problem.is_none();
        let shards = || (0..).zip(inputs).filter(|(_, input)| input.format == format.format());
        match files {
            KeptFiles::One => {
                // Tables with other columns go to files of their own; an empty one has none at all.
                let mut headers: Vec<Option<&Arc<Header>>> = Vec::new();
                for header in inputs.iter().filter(of_format).map(|input| input.header.as_ref()) {
                    if !headers.contains(&header) && (header.is_some() || headers.is_empty()) {
                        headers.retain(Option::is_some);
                        headers.push(header);
                    }
                }
                for (number, header) in (1..).zip(headers) {
                    let is_of = |input: &Input| match &input.header {
                        Some(own) => header == Some(own),
                        None => number == 1,
                    };
                    let of_file = inputs.iter().filter(|input| of_format(input) && is_of(input));
                    let all_zstd = of_file.clone().all(|input| input.compression == Compression::Zstd);
                    let compression = if all_zstd { Compression::Zstd } else { Compression::Gzip };
                    let number = if number == 1 { String::new() } else { format!("-{number}") };
                    targets.push(Target {
                        path: dir.join(format!("kept{number}{}", ending(format.format(), compression))),
                        format,
                        compression,
                        shards: shards().filter(|(_, input)| is_of(input)).map(|(shard, _)| shard).collect(),
                        header: header.cloned(),
                    });
                }
            }
            KeptFiles::Each => {
                let shards = shards().filter(|(_, input)| of_format(input));
                targets.extend(shards.map(|(shard, input)| Target {
                    path: dir.join(&names[shard as usize]),
                    format,
                    compression: input.compression,
                    shards: vec![shard],
                    header: input.header.clone(),
                }));
            }
        }
    }
    let write = |target: &Target| write_target(target, inputs, options, kept, is_same, &pool);
    let written: Vec<Result<(KeptFile, Vec<Damage>)>> = match files {
        KeptFiles::One => targets.iter().map(write).collect(),
        KeptFiles::Each => pool.install(|| targets.par_iter().map(write).collect()),
    };
    let mut kept_in = Kept::default();
    for written in written {
        let (file, lost) = written?;
        kept_in.files.push(file);
        kept_in.lost.extend(lost);
    }
    let own = (files == KeptFiles::Each).then_some(&names[..]);
    let rows = parquet::write_kept(inputs, options, kept, is_same, (dir, own), &pool)?;
    kept_in.files.extend(rows.files);
    kept_in.lost.extend(rows.lost);
    Ok(kept_in)
}

/// Whether the stored bytes of all of them can be copied.
fn are_copies(kept: &[(DocId, Place)]) -> bool {
    kept.iter().all(|(_, place)| place.member > 0)
}

/// Writes a file. Of several inputs those that must be compressed anew are worked on side by side.
fn write_target(
    target: &Target,
    inputs: &[Input],
    options: &ReadOptions,
    kept: &dyn KeptPages,
    is_same: IsSame<'_>,
    pool: &rayon::ThreadPool,
) -> Result<(KeptFile, Vec<Damage>)> {
    let mut output = Output::create(target)?;
    let mut shards = Vec::new();
    for &shard in &target.shards {
        if kept.number(shard)? > 0 {
            shards.push(shard);
        }
    }
    let one = |shard: u32, kept: &[(DocId, Place)], output: &mut Output| {
        write_file(inputs, shard, options, kept, is_same, output, pool)
    };
    for shards in shards.chunks(pool.current_num_threads().max(1)) {
        let part = |&shard: &u32| -> Result<Option<Output>> {
            let kept = kept.of_file(shard)?;
            // Bytes that are copied come from the file, and one input needs no part.
            if shards.len() == 1 || are_copies(&kept) {
                return Ok(None);
            }
            let mut part = Output::part(target)?;
            one(shard, &kept, &mut part)?;
            Ok(Some(part))
        };
        let parts: Vec<Result<Option<Output>>> = pool.install(|| shards.par_iter().map(part).collect());
        for (&shard, part) in shards.iter().zip(parts) {
            match part? {
                Some(part) => output.append(part)?,
                None => one(shard, &kept.of_file(shard)?, &mut output)?,
            }
        }
    }
    output.finish(target)
}

/// Writes what is kept of a file, or of it what can still be had.
fn write_file(
    inputs: &[Input],
    shard: u32,
    options: &ReadOptions,
    kept: &[(DocId, Place)],
    is_same: IsSame<'_>,
    output: &mut Output,
    pool: &rayon::ThreadPool,
) -> Result<()> {
    let input = &inputs[shard as usize];
    let mark = output.mark();
    let write = |kept: &[(DocId, Place)], output: &mut Output| -> Result<Option<String>> {
        let now = input.stamp();
        let wrote = if are_copies(kept) {
            copy_members(input, options, kept, output)
        } else {
            write_anew(input, shard, options, kept, output, pool)
        };
        let why = match wrote {
            Ok(()) if now == input.stamp() => return Ok(None),
            Ok(()) => "the file changed while its kept pages were copied".to_owned(),
            Err(Broken::Input(why)) => why,
            Err(Broken::Output(error)) => return Err(error),
        };
        output.back_to(mark)?;
        Ok(Some(why))
    };
    let mut why = String::new();
    if input.is_as_found() {
        match write(kept, output)? {
            None => return Ok(()),
            Some(failure) => why = failure,
        }
    }
    let still = still_there(inputs, options, kept, is_same);
    let mut there = still.there;
    if !there.is_empty()
        && let Some(failure) = write(&there, output)?
    {
        (why, there) = (failure, Vec::new());
    }
    let why = still.why.unwrap_or(why);
    output.lost.extend(lost(input, kept, &there, &why));
    Ok(())
}

/// What of a file is still as it was read.
pub(crate) struct Still {
    pub there: Vec<(DocId, Place)>,
    /// Why a page is not.
    pub why: Option<String>,
}

/// Reads the pages of one file again that were read before.
pub(crate) fn still_there(
    inputs: &[Input],
    options: &ReadOptions,
    kept: &[(DocId, Place)],
    is_same: IsSame<'_>,
) -> Still {
    /// Pages that do not read any more, after which the others are given up: each costs a new beginning.
    const GIVEN_UP: usize = 100;
    let (mut there, mut why) = (Vec::new(), None);
    let mut rest = kept;
    for _ in 0..GIVEN_UP {
        let mut handed = 0;
        let done = fetch(inputs, options, rest, |document| {
            let (id, place) = rest[handed];
            handed += 1;
            if is_same(id, document.text) {
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
    Still { there, why }
}

/// The pages of a file that are not among those that are there.
pub(crate) fn lost(
    input: &Input,
    kept: &[(DocId, Place)],
    there: &[(DocId, Place)],
    why: &str,
) -> Vec<Damage> {
    let is_lost = |(id, _): &&(DocId, Place)| there.binary_search_by_key(id, |&(id, _)| id).is_err();
    let damage = |&(id, place): &(DocId, Place)| {
        let detail = format!("{} was to be kept, and cannot be read any more: {why}", input.name_of(id.row));
        let damage =
            Damage::new(&input.path, None, (place.offset, place.within), DamageKind::Changed, detail);
        Damage { pages: Some(1), ..damage }
    };
    kept.iter().filter(is_lost).map(damage).collect()
}

/// Copies members without a look inside, but for the date of the first.
fn copy_members(
    input: &Input,
    options: &ReadOptions,
    kept: &[(DocId, Place)],
    output: &mut Output,
) -> Result<(), Broken> {
    let io = |e: io::Error| Broken::Input(e.to_string());
    let mut file = input.open().map_err(io)?;
    // By the decoder that read it: another may refuse what this one takes.
    output.begin(|| header_at(input, options, kept[0].1).map(|header| date(&header)))?;
    output.documents += kept.len() as u64;
    // Neighbours are copied in one piece, of bounded size.
    const PIECE: u64 = 8 << 20;
    let mut piece = kept[0].1.offset..kept[0].1.offset;
    for (_, place) in kept {
        if place.offset != piece.end || piece.end - piece.start > PIECE {
            output.write(&copy(&mut file, piece.start, piece.end).map_err(io)?)?;
            piece = place.offset..place.offset;
        }
        piece.end += place.member;
    }
    output.write(&copy(&mut file, piece.start, piece.end).map_err(io)?)?;
    Ok(())
}

/// Reads a file again and writes what is kept of it, record by record.
fn write_anew(
    input: &Input,
    shard: u32,
    options: &ReadOptions,
    kept: &[(DocId, Place)],
    output: &mut Output,
    pool: &rayon::ThreadPool,
) -> Result<(), Broken> {
    let io = |e: io::Error| Broken::Input(e.to_string());
    let mut block = Block::default();
    let mut reader = Reader::open(input, shard, options);
    let mut stored: Option<StoredFile> = None;
    let mut found = 0;
    // Lines of as many blocks as there are threads to pack them.
    let mut waiting: Vec<(Vec<u8>, u64)> = Vec::new();
    while reader.next_block(&mut block) {
        let is_kept = |span: &&Span| {
            let at = kept.binary_search_by_key(&span.id, |&(id, _)| id);
            at.is_ok_and(|at| Place { member: kept[at].1.member, ..span.place } == kept[at].1)
        };
        let chosen: Vec<&Span> = block.records.spans.iter().filter(is_kept).collect();
        let Some(first) = chosen.first() else { continue };
        found += chosen.len();
        let bytes = &block.records.bytes;
        if output.format != StreamFormat::Wet {
            waiting.push((lines(bytes, &chosen), chosen.len() as u64));
            if waiting.len() >= pool.current_num_threads() {
                write_lines(&mut waiting, output, pool)?;
            }
            continue;
        }
        output.begin(|| Ok(date(&bytes[first.start..first.content_start])))?;
        output.documents += chosen.len() as u64;
        let compression = output.compression;
        for part in pool.install(|| records(bytes, &chosen, compression)) {
            match part? {
                Part::New(bytes) => output.write(&bytes)?,
                Part::Stored(from, to) => {
                    let file = match &mut stored {
                        Some(file) => file,
                        None => stored.insert(input.open().map_err(io)?),
                    };
                    output.write(&copy(file, from, to).map_err(io)?)?;
                }
            }
        }
    }
    write_lines(&mut waiting, output, pool)?;
    match found == kept.len() {
        true => Ok(()),
        false => Err(Broken::Input(format!("{found} of {} pages stand where they stood", kept.len()))),
    }
}

/// Lines, verbatim.
fn lines(bytes: &[u8], chosen: &[&Span]) -> Vec<u8> {
    let mut text = Vec::new();
    for span in chosen {
        text.extend_from_slice(&bytes[span.content_start..span.content_end]);
        text.push(b'\n');
    }
    text
}

/// Writes the lines that wait, and how many each has, packed block by block.
fn write_lines(
    waiting: &mut Vec<(Vec<u8>, u64)>,
    output: &mut Output,
    pool: &rayon::ThreadPool,
) -> Result<()> {
    let compression = output.compression;
    if !waiting.is_empty() {
        output.head()?;
    }
    let packed: Vec<Result<Vec<u8>>> =
        pool.install(|| waiting.par_iter().map(|(lines, _)| pack(lines, compression)).collect());
    for (packed, (_, documents)) in packed.into_iter().zip(waiting.drain(..)) {
        output.write(&packed?)?;
        output.documents += documents;
    }
    Ok(())
}

/// The ending of the name of a file of kept pages.
fn ending(format: Format, compression: Compression) -> String {
    let of_format = match format {
        Format::Wet => ".warc.wet",
        Format::Jsonl => ".jsonl",
        Format::Csv => ".csv",
        Format::Parquet => return ".parquet".to_owned(),
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
        let ending = ending(input.format, input.compression);
        let numbered = (2u64..).map(|n| format!("kept.{stem}-{n}{ending}"));
        let mut names = std::iter::once(format!("kept.{stem}{ending}")).chain(numbered);
        // Some file systems do not tell small letters from large ones.
        names.find(|name| taken.insert(name.to_lowercase())).unwrap_or_default()
    };
    inputs.iter().map(name).collect()
}

/// A piece of the output.
enum Part {
    New(Vec<u8>),
    /// To be copied from the stored file, from and to these offsets.
    Stored(u64, u64),
}

/// One gzip member or frame per record; neighbours that are copied are one piece.
fn records(bytes: &[u8], chosen: &[&Span], compression: Compression) -> Vec<Result<Part>> {
    let parts: Vec<Result<Part>> = chosen
        .par_iter()
        .map(|span| {
            let (header, content) = (span.start..span.content_start, span.content_start..span.content_end);
            match span.member {
                Some((from, to)) if copyable(span, bytes) > 0 => Ok(Part::Stored(from, to)),
                _ => pack(&canonical(&bytes[header], &bytes[content]), compression).map(Part::New),
            }
        })
        .collect();
    let mut joined: Vec<Result<Part>> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(Ok(Part::Stored(_, end))), Ok(Part::Stored(from, to))) if *end == from => *end = to,
            (_, part) => joined.push(part),
        }
    }
    joined
}

/// Stored bytes from one offset to another.
fn copy(file: &mut StoredFile, from: u64, to: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(to - from).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < to - from {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}
