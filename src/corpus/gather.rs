//! Files that are a document each, texts and HTML, made into lines of JSON.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use super::corruption::{Corruption, CorruptionCause, CorruptionKind, FileReading, unreadable};
use super::filetype::{HTML, TEXT, ends_with, is_document, looks_like_html, split_name};
use super::inputs::{DiscoverOptions, FoundFiles, PassedOver, is_stream};
use super::options::{ReadOptions, pool};
use super::write::pack;
use crate::atomic_write::{NewFile, check_file, is_address};
use crate::{Error, Result};

/// The files to gather, and the file of lines to make.
#[derive(Clone, Debug)]
pub struct GatherJob {
    /// Files that are a document each, and folders. In a folder every file with the name of a text or of HTML is one.
    pub inputs: Vec<PathBuf>,
    /// The file to make: its name ends in `.jsonl`, `.jsonl.gz` or `.jsonl.zst`.
    pub out: PathBuf,
    /// The start of URLs, which the path of a document below its folder follows; without it, documents have none.
    pub url: Option<String>,
    /// The longest file that is read, in bytes; `None` for the default of [`ReadOptions`].
    pub longest_document: Option<usize>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
}

/// The outcome of gathering.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The outcome of reading all files, as if they were one, with the path of the first input. It counts documents,
    /// their text and corruption; bytes read and records stay 0.
    pub reading: FileReading,
    /// Entries of the folders that are no documents, or were not read.
    pub passed_over: PassedOver,
}

#[derive(Serialize)]
struct GatheredLine<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    text: &'a str,
}

/// Writes a line of JSON for each file that is a document: its path as its id, its text, and its URL if
/// [`GatherJob::url`] says how that begins. Documents come in the order of their paths.
///
/// HTML is known by the name of its file, or by its first bytes where the name says nothing. Its text is taken like
/// that of a server's response. A build without the feature `html` reads texts in UTF-8 alone, and refuses HTML. A file
/// that cannot be read is passed over and reported.
///
/// `progress` first gets the number of files and 0, and then `None` and the number of files that are done since.
///
/// # Errors
/// If `out` is there already, has another ending or cannot be written. If an input is a stream or an address, or if no
/// file was found.
pub fn gather(job: &GatherJob, progress: &(dyn Fn(Option<u64>, u64) + Sync)) -> Result<Gathered> {
    /// Files that are read side by side.
    const AT_ONCE: usize = 512;
    /// Bytes that are packed at once.
    const PACKED: usize = 1 << 20;
    let (name, compression) = split_name(&job.out);
    if !name.ends_with(".jsonl") {
        let expected = "a name that ends in .jsonl, .jsonl.gz or .jsonl.zst";
        return Err(Error::parameter("out", job.out.display(), expected));
    }
    if fs::symlink_metadata(&job.out).is_ok() {
        let expected = "a new file, but something is there already";
        return Err(Error::parameter("out", job.out.display(), expected));
    }
    check_file("out", &job.out, "an earlier one", |_| false)?;
    if let Some(other) = job.inputs.iter().find(|path| is_address(path) || is_stream(path)) {
        let expected = "files and folders of this machine; this is a stream or an address";
        return Err(Error::parameter("inputs", other.display(), expected));
    }
    let options = DiscoverOptions::default();
    let FoundFiles { files, broken, passed_over, .. } =
        FoundFiles::of(&job.inputs, &options, Some(is_document))?;
    let mut files: Vec<_> = files.into_iter().map(|(real, (shown, _))| (real, shown)).collect();
    files.sort_by(|(_, a), (_, b)| a.cmp(b));
    if files.is_empty() && broken.is_empty() {
        let names = TEXT.into_iter().chain(HTML).collect::<Vec<_>>().join(", ");
        let skipped = passed_over.message().map(|message| format!(". {message}"));
        return Err(Error::NoDocuments(format!("no file called {names}{}", skipped.unwrap_or_default())));
    }
    progress(Some(files.len() as u64), 0);
    let cap = job.longest_document.unwrap_or(ReadOptions::default().record_cap);
    let pool = pool(job.threads)?;
    let mut reading = FileReading { path: job.inputs[0].clone(), ..FileReading::default() };
    let mut corruption: Vec<Corruption> =
        broken.into_iter().map(|(path, (kind, error))| Corruption::of_file(&path, 0, kind, error)).collect();
    let mut out = NewFile::begin(&job.out)?;
    let io = |error| Error::io(&job.out, error);
    let mut lines = Vec::new();
    for files in files.chunks(AT_ONCE) {
        let document = |(real, shown): &'_ (PathBuf, PathBuf)| read(job, real, shown, cap);
        let documents: Vec<_> = pool.install(|| files.par_iter().map(document).collect());
        for ((_, shown), document) in files.iter().zip(documents) {
            match document {
                Ok((line, part)) => {
                    reading.merge(part);
                    lines.extend(line);
                }
                Err((kind, detail)) => corruption.push(Corruption::of_file(shown, 0, kind, detail)),
            }
            if lines.len() > PACKED {
                out.file().write_all(&pack(&lines, compression)?).map_err(io)?;
                lines.clear();
            }
        }
        progress(None, files.len() as u64);
    }
    out.file().write_all(&pack(&lines, compression)?).map_err(io)?;
    let lost = corruption.into_iter().map(|corruption| Corruption { documents: Some(1), ..corruption });
    lost.for_each(|corruption| reading.add(corruption));
    out.finish()?;
    Ok(Gathered { reading, passed_over })
}

/// Reads a document: its line, and the outcome of reading it.
fn read(
    job: &GatherJob,
    real: &Path,
    shown: &Path,
    cap: usize,
) -> Result<(Vec<u8>, FileReading), CorruptionCause> {
    let mut bytes = Vec::new();
    let read = File::open(real).and_then(|file| file.take(cap as u64 + 1).read_to_end(&mut bytes));
    read.map_err(unreadable)?;
    if bytes.len() > cap {
        let length = fs::metadata(real).map_or(bytes.len() as u64, |found| found.len());
        let detail = format!("{length} bytes, above the {cap} of --longest-document");
        return Err((CorruptionKind::TooLarge, detail));
    }
    let is_html = ends_with(shown, &HTML) || !is_document(shown) && looks_like_html(&bytes);
    let (text, repaired) = text_of(&bytes, is_html)?;
    let id = shown.to_string_lossy();
    let url = job.url.as_ref().map(|start| {
        let folder = job.inputs.iter().filter_map(|input| shown.strip_prefix(input).ok());
        let below = folder.min_by_key(|below| below.as_os_str().len()).unwrap_or(shown);
        let below = if below.as_os_str().is_empty() { shown } else { below };
        let slash = if start.ends_with('/') { "" } else { "/" };
        let parts: Vec<_> = below.iter().map(|part| encoded(&part.to_string_lossy())).collect();
        format!("{start}{slash}{}", parts.join("/").trim_start_matches('/'))
    });
    let line = GatheredLine { id: &id, url: url.as_deref(), text: &text };
    let mut line = serde_json::to_vec(&line).map_err(unreadable)?;
    line.push(b'\n');
    let (repaired, extracted, text_bytes) = (repaired.into(), is_html.into(), text.len() as u64);
    let reading = FileReading { documents: 1, repaired, extracted, text_bytes, ..FileReading::default() };
    Ok((line, reading))
}

/// A part of a path as one of a URL has it. What is encoded stays as it is, and so does a question mark: programs that
/// mirror sites write both into names.
fn encoded(name: &str) -> String {
    let mut url = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let stays = match byte {
            b'%' => {
                let digits = name.as_bytes().get(at + 1..at + 3);
                digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            }
            _ => byte.is_ascii_graphic() && !br##"#"<>\^`{|}"##.contains(&byte),
        };
        match stays {
            true => url.push(char::from(byte)),
            false => url += &format!("%{byte:02X}"),
        }
    }
    url
}

/// The text of a document, and whether something in it was none of its charset.
#[cfg(feature = "html")]
fn text_of(bytes: &[u8], is_html: bool) -> Result<(Cow<'_, str>, bool), CorruptionCause> {
    let room = super::corruption::DocumentRoom::new(usize::MAX, u64::MAX);
    let text = super::html::text_of(bytes.into(), None, is_html, &room)?;
    Ok((text.text, text.repaired))
}

#[cfg(not(feature = "html"))]
fn text_of(bytes: &[u8], is_html: bool) -> Result<(Cow<'_, str>, bool), CorruptionCause> {
    if is_html {
        let detail = "HTML, which a build of simflip with the feature `html` reads";
        return Err((CorruptionKind::UnknownFormat, detail.to_owned()));
    }
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let repaired = matches!(text, Cow::Owned(_));
    Ok((text, repaired))
}
