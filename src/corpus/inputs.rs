//! Makes a sorted list of inputs out of the paths that a user names: files, folders, streams, and addresses in stores.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::asked::names_there;
use super::corruption::{CorruptionCause, CorruptionKind, unreadable};
use super::csv::CsvHeader;
use super::cut::{End, Step};
use super::data_set::{self, DataSet};
use super::filetype::{
    Compression, FileType, Format, by_name, foreign, guess, is_called, is_document, skip_blank, utf16_of,
};
use super::guard::caught;
use super::gzip_header::{HEADER_CAP, behind_header};
use super::input::Input;
use super::jsonl::{self, JsonlFields, LISTED};
use super::kept::is_kept_of;
use super::object::{self, Object};
use super::options::{ReadOptions, pool};
use super::parquet;
use super::source::find_at_start;
use super::storage::Storage;
use super::zst::{dictionary_length, dictionary_of, window_bits};
use crate::atomic_write::{Unfinished, is_address, is_being_made, is_unfinished};
use crate::display::{counted, first_of, printable_path};
use crate::format::Results;
use crate::{Error, Result, format};

/// Why a file is not read of which nobody knows the format, or what it is instead.
fn unknown(foreign: Option<&str>) -> CorruptionCause {
    let detail = match foreign {
        Some(foreign) => format!("this is {foreign}"),
        None => "neither WET nor JSONL nor CSV nor Parquet nor Arrow".to_owned(),
    };
    (CorruptionKind::UnknownFormat, detail)
}

/// Options of [`discover`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoverOptions {
    /// The format of every file, whatever it looks like; `None`: by content, then by name.
    pub format: Option<Format>,
    /// The fields of documents. A file called `.json`, `.csv` or `.tsv` in a folder is read only if it has their text.
    pub fields: JsonlFields,
}

/// Why something that a folder holds is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// A file whose name says nothing of a format.
    OtherName,
    /// A file called `.json`, `.csv` or `.tsv` that holds something else than documents.
    NoDocuments,
    /// A file called `.json` that holds an array.
    JsonArray,
    /// A file of Hugging Face beside the shards of a data set.
    BesideShards,
    /// A folder of earlier results.
    EarlierResult,
    /// A file of an earlier result that was named, beside the kept documents.
    OfResult,
    /// A leftover of a run that was killed, or the unfinished result of another one.
    Unfinished,
    /// A file or folder whose name begins with `.` or `_`: what Spark and Hive leave of attempts that failed, copies of
    /// editors and notebooks. Partitions such as `_lang=en` are read.
    Hidden,
    /// Neither a file nor a folder: a pipe, a socket, a device.
    NoFile,
    /// An entry of which nothing can be found out, such as a link that leads nowhere. If its name says a format other
    /// than CSV, it is an input that cannot be opened instead.
    CannotLook,
}

impl Reason {
    /// Why an entry of a folder is not read, by its name alone; a named folder of results has documents that it kept.
    fn by_name(name: &OsStr, of_result: Option<Results>) -> Option<Self> {
        let text = name.to_str().unwrap_or_default();
        // A partition such as `_lang=en` is no hidden one.
        let is_hidden = text.starts_with('.') || text.starts_with('_') && !text.contains('=');
        match of_result {
            Some(results) if !is_kept_of(results, text) => Some(Self::OfResult),
            _ if is_unfinished(name) => Some(Self::Unfinished),
            _ => is_hidden.then_some(Self::Hidden),
        }
    }

    /// A noun phrase for one such entry, for messages.
    pub fn one(self) -> &'static str {
        self.words()[0]
    }

    /// One and many of such, in words.
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::OtherName => ["file of another format", "files of other formats"],
            Self::NoDocuments => [".json or .csv file without texts", ".json and .csv files without texts"],
            Self::JsonArray => [
                "JSON array, of which jq -c '.[]' makes lines",
                "JSON arrays, of which jq -c '.[]' makes lines",
            ],
            Self::BesideShards => {
                ["file of a data set beside its shards", "files of a data set beside its shards"]
            }
            Self::EarlierResult => ["folder of earlier results", "folders of earlier results"],
            Self::OfResult => {
                ["file of a result beside its documents", "files of a result beside its documents"]
            }
            Self::Unfinished => ["unfinished result", "unfinished results"],
            Self::Hidden => ["hidden entry", "hidden entries"],
            Self::NoFile => ["pipe or device", "pipes and devices"],
            Self::CannotLook => ["unreadable entry", "unreadable entries"],
        }
    }
}

/// Something that a folder holds and that is not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NotRead {
    /// Its path, as messages show it.
    pub path: PathBuf,
    /// Why it is not read.
    pub reason: Reason,
    /// The ending of its name in small letters, compression included, as `.tar.gz`; empty without one.
    pub kind: String,
}

/// The ending of a file's name; what stands before the last point of it may belong to it, if a compression
/// comes last.
fn ending(path: &Path) -> String {
    /// The longest word that is taken for an ending.
    const LONGEST: usize = 10;
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let split = |name: &str| {
        let (stem, last) = name.rsplit_once('.')?;
        let is_word = (1..=LONGEST).contains(&last.len()) && last.bytes().all(|b| b.is_ascii_alphanumeric());
        (is_word && !stem.is_empty()).then(|| (stem.to_owned(), format!(".{last}")))
    };
    match split(&name) {
        Some((stem, last)) if matches!(&*last, ".gz" | ".zst" | ".bz2" | ".xz") => {
            split(&stem).map_or(String::new(), |(_, inner)| inner) + &last
        }
        Some((_, last)) => last,
        None => String::new(),
    }
}

/// Entries of folders that are not read, in order of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// The entries, sorted and each once.
    pub list: Vec<NotRead>,
}

impl PassedOver {
    fn push(&mut self, path: PathBuf, reason: Reason) {
        let kind = ending(&path);
        self.list.push(NotRead { path, reason, kind });
    }

    /// Adds the entries of another list.
    pub fn add(&mut self, other: Self) {
        self.list.extend(other.list);
        self.sort();
    }

    /// Puts the list in order, so that it does not depend on the order of naming.
    fn sort(&mut self) {
        self.list.sort();
        self.list.dedup();
    }

    /// A sentence on the entries that were not read: their number for each reason, the commonest endings of names, and
    /// the first paths; none if there are none.
    pub fn message(&self) -> Option<String> {
        /// Paths and endings that are reported.
        const NAMED: usize = 5;
        let mut of_reasons: BTreeMap<Reason, Vec<&NotRead>> = BTreeMap::new();
        self.list.iter().for_each(|it| of_reasons.entry(it.reason).or_default().push(it));
        let part = |(reason, entries): (Reason, Vec<&NotRead>)| {
            let mut kinds = String::new();
            if reason == Reason::OtherName && entries.len() > NAMED {
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                entries.iter().for_each(|it| *counts.entry(&it.kind).or_default() += 1);
                let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
                counts.sort_by_key(|&(_, n)| Reverse(n));
                let kinds_there = counts.into_iter().map(|(kind, n)| match kind {
                    "" => format!("{n} without an ending"),
                    kind => format!("{n} {kind}"),
                });
                kinds = format!("{}: ", first_of(kinds_there, NAMED));
            }
            let [one, many] = reason.words();
            let number = counted(entries.len() as u64, one, many);
            let first = first_of(entries.iter().map(|it| printable_path(&it.path)), NAMED);
            format!("{number} ({kinds}{first})")
        };
        let parts: Vec<String> = of_reasons.into_iter().map(part).collect();
        (!parts.is_empty()).then(|| format!("Skipped in folders: {}.", parts.join("; ")))
    }
}

/// The outcome of discovery.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The files to read.
    pub inputs: Vec<Input>,
    /// Entries of folders that are not read.
    pub passed_over: PassedOver,
}

impl Input {
    /// A file whose content cannot be had.
    fn broken(path: &Path, storage: &Storage, options: &DiscoverOptions, why: CorruptionCause) -> Self {
        let mut input = Self::new(path, storage, guess(path, options.format), Compression::None);
        input.problem = Some(why);
        input
    }

    /// Looks at the content of a regular file or an object.
    fn look(path: &Path, storage: &Storage, options: &DiscoverOptions) -> Self {
        Self::of_content(path, storage, options)
            .unwrap_or_else(|error| Self::broken(path, storage, options, unreadable(&error)))
    }

    fn of_content(path: &Path, storage: &Storage, options: &DiscoverOptions) -> io::Result<Self> {
        let head = head(storage)?;
        if let Some(unit) = utf16_of(&head) {
            return in_utf8(path, storage, unit, options);
        }
        let FileType { mut format, compression, is_read } = FileType::of(path, &head, options.format);
        let mut header = Ok(None);
        if matches!(format, None | Some(Format::Csv)) {
            header = CsvHeader::read(path, storage, compression);
        }
        // Standard input has no name that says so: it is CSV if its first line names a column of texts.
        if format.is_none() && matches!(&header, Ok(Some(header)) if header.has_text(&options.fields)) {
            format = Some(Format::Csv);
        }
        // What a file is called does not make it readable; a table may begin with anything.
        let foreign = match format {
            Some(Format::Csv | Format::Parquet | Format::Arrow) => None,
            _ if is_read => None,
            _ => foreign(&head, compression, format.is_some()),
        };
        let is_unknown = format.is_none() || foreign.is_some();
        let format = format.unwrap_or_else(|| guess(path, None));
        let mut input = Self::new(path, storage, format, compression);
        input.problem = is_unknown.then(|| unknown(foreign));
        input.has_short_members = input.compression.has_short_members(&head);
        input.decoding = held_to_decode(&input, &head);
        if input.compression == Compression::Zstd {
            input.dictionary = dictionary_of(|length| storage.head(length))?.into();
            input.decoding += 2 * input.dictionary.len() as u64;
        }
        if input.format == Format::Csv {
            input.header = header?.map(Arc::new);
            // An empty file is one without documents.
            if input.header.is_none() && !head.is_empty() {
                input.problem.get_or_insert_with(|| unknown(None));
            }
        }
        Ok(input)
    }
}

/// Bytes that decompressing a file holds, which begins like this.
fn held_to_decode(input: &Input, head: &[u8]) -> u64 {
    let window = input.stored_bytes().min(1 << 20);
    match input.compression {
        // Documents of its columns count with what is read of them.
        _ if input.format.is_columnar() => parquet::held(input),
        Compression::None => 0,
        Compression::Gzip if input.has_short_members => window + (2 << 20),
        // What is decoded comes in large pieces where a member is corrupt.
        Compression::Gzip => window + (14 << 20),
        Compression::Zstd => window + (2 << 20) + (1 << window_bits(head).unwrap_or(23).min(31)),
    }
}

/// The first 64 KiB of a file, or as many behind a long gzip header or a dictionary.
fn head(storage: &Storage) -> io::Result<Vec<u8>> {
    const LENGTH: u64 = 64 << 10;
    let head = storage.head(LENGTH)?;
    if Compression::by_magic(&head) == Compression::Gzip && behind_header(&head).is_none() {
        return storage.head(HEADER_CAP as u64 + 2 * LENGTH);
    }
    match dictionary_length(&head)? {
        0 => Ok(head),
        dictionary => storage.head(8 + dictionary + LENGTH),
    }
}

/// The name of the files that streams are copied to.
const SPOOLED: &str = "simflip-input";

/// Copies text in UTF-16, whose pairs of bytes `unit` decodes, to a temporary file in UTF-8. U+FFFD stands for halves
/// of surrogate pairs.
fn in_utf8(
    name: &Path,
    original: &Storage,
    unit: fn([u8; 2]) -> u16,
    options: &DiscoverOptions,
) -> io::Result<Input> {
    let (stored, file) = Unfinished::private_file(&std::env::temp_dir().join(SPOOLED))?;
    let (from, mut to) = (BufReader::new(original.open()?), BufWriter::new(file));
    let mut failed = None;
    let mut bytes = from.bytes().map_while(|byte| byte.map_err(|error| failed = Some(error)).ok());
    let units = std::iter::from_fn(|| Some(unit([bytes.next()?, bytes.next()?])));
    // The first is the mark of the byte order.
    for character in char::decode_utf16(units).skip(1) {
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        to.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())?;
    }
    to.flush()?;
    failed.map_or(Ok(()), Err)?;
    let mut input = Input::look(name, &Storage::File(stored.path().to_path_buf()), options);
    input.spool = Some(Arc::new(stored));
    input.original = Some(original.path().to_path_buf());
    Ok(input)
}

/// Copies a stream to a temporary file, so that it can be read more than once.
fn spool(name: &Path, stream: &mut dyn Read, options: &DiscoverOptions) -> Result<Input> {
    let folder = std::env::temp_dir();
    let io = |error: io::Error| {
        let message =
            format!("{error}, where the documents of a stream are copied to; TMPDIR names another folder");
        Error::io(&folder, io::Error::new(error.kind(), message))
    };
    let (stored, mut file) = Unfinished::private_file(&folder.join(SPOOLED)).map_err(io)?;
    // A stream that breaks off is corrupt; a folder that is full is not.
    let mut buffer = vec![0; 1 << 16];
    let failed = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break None,
            Ok(n) => file.write_all(&buffer[..n]).map_err(io)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Some(unreadable(&error)),
        }
    };
    let mut input = Input::look(name, &Storage::File(stored.path().to_path_buf()), options);
    input.problem = failed.or(input.problem);
    // What is in UTF-16 was copied once more.
    input.spool.get_or_insert_with(|| Arc::new(stored));
    input.original = None;
    Ok(input)
}

/// Why a file that is called `.json`, `.csv` or `.tsv` is not read; none if it has a column of texts, or its first
/// object has a text.
fn reason_by_content(
    path: &Path,
    storage: &Storage,
    options: &DiscoverOptions,
) -> io::Result<Option<Reason>> {
    /// The longest first line of JSON that is looked at.
    const LONGEST: usize = 128_000_000;
    let (head, fields) = (head(storage)?, &options.fields);
    if let Some(unit) = utf16_of(&head) {
        return reason_by_content(path, &in_utf8(path, storage, unit, options)?.storage, options);
    }
    let compression = Compression::by_magic(&head);
    if by_name(path).0 == Some(Format::Csv) {
        let header = CsvHeader::read(path, storage, compression)?;
        return Ok((!header.is_some_and(|it| it.has_text(fields))).then_some(Reason::NoDocuments));
    }
    let mut scanned = 0;
    let reason = |bytes: &[u8], is_all: bool| {
        let bytes = skip_blank(bytes);
        let end = if is_all { End::File } else { End::Unknown };
        match (bytes.first(), jsonl::step(bytes, end, &mut scanned, LONGEST)) {
            (Some(b'['), _) => Some(Some(Reason::JsonArray)),
            (None | Some(b'{'), Step::Need(_)) => None,
            (Some(b'{'), Step::Record { content_end, .. })
                if matches!(jsonl::parse(&bytes[..content_end], fields, false), Ok(Some(_))) =>
            {
                Some(None)
            }
            _ => Some(Some(Reason::NoDocuments)),
        }
    };
    let found = find_at_start(storage, compression, Format::Jsonl, reason)?;
    Ok(found.unwrap_or(Some(Reason::NoDocuments)))
}

/// True for a file called `.csv` or `.tsv`, also compressed, that has no column `text`, and so holds no kept documents.
/// False if it cannot be read.
pub(crate) fn is_other_table(path: &Path) -> bool {
    let (storage, options) = (Storage::File(path.to_path_buf()), DiscoverOptions::default());
    by_name(path).0 == Some(Format::Csv)
        && reason_by_content(path, &storage, &options).is_ok_and(|reason| reason.is_some())
}

/// An entry of a folder.
#[derive(Debug)]
enum Entry {
    /// A file by its real path, or an object.
    File(Storage),
    Folder,
    /// Neither: a pipe, a socket, a device.
    Other,
    /// Nothing can be found out about it.
    Unknown(io::Error),
}

impl Entry {
    /// An entry of a folder whose real path is this.
    fn of(entry: &fs::DirEntry, folder: &Path) -> Self {
        // Of a plain file nothing more need be asked; a link leads somewhere else.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            return Self::File(Storage::File(folder.join(entry.file_name())));
        }
        match fs::metadata(entry.path()) {
            Ok(m) if m.is_dir() => Self::Folder,
            Ok(m) if !m.is_file() => Self::Other,
            Ok(_) => fs::canonicalize(entry.path())
                .map_or_else(Self::Unknown, |real| Self::File(Storage::File(real))),
            Err(error) => Self::Unknown(error),
        }
    }
}

/// The files and streams that paths name, each once by its real path, before their content is looked at.
pub(crate) struct FoundFiles<'a> {
    options: &'a DiscoverOptions,
    /// Returns true for the files of folders that are taken. `None` takes those whose name or content is of a format.
    wanted: Option<fn(&Path) -> bool>,
    /// By real path or address: the path that messages show, and where the bytes are.
    pub files: BTreeMap<PathBuf, (PathBuf, Storage)>,
    folders: HashSet<PathBuf>,
    /// The objects below an address: a store lists them all at once.
    listed: BTreeMap<PathBuf, Arc<Object>>,
    /// Entries that cannot be opened, with the reason.
    pub broken: BTreeMap<PathBuf, CorruptionCause>,
    streams: Vec<Input>,
    /// Entries of folders that are not taken.
    pub passed_over: PassedOver,
}

impl<'a> FoundFiles<'a> {
    /// Finds the files that the paths name, and those below folders. No result depends on the order of the paths.
    /// Nothing found is no error; a path at which nothing is, or an address that gives nothing, is one.
    pub fn of(
        paths: &[PathBuf],
        options: &'a DiscoverOptions,
        wanted: Option<fn(&Path) -> bool>,
    ) -> Result<Self> {
        check_exist(paths)?;
        let mut found = Self {
            options,
            wanted,
            files: BTreeMap::new(),
            folders: HashSet::new(),
            listed: BTreeMap::new(),
            broken: BTreeMap::new(),
            streams: Vec::new(),
            passed_over: PassedOver::default(),
        };
        // Folders below one another would otherwise show files under the spelling that came first. And a stream can be
        // read only once.
        let mut paths: Vec<&PathBuf> = paths.iter().collect();
        paths.sort();
        paths.dedup();
        paths.into_iter().try_for_each(|path| found.named(path))?;
        found.passed_over.sort();
        Ok(found)
    }

    fn take(&mut self, storage: Storage, path: &Path) {
        let real = storage.path().to_path_buf();
        let (shown, _) = self.files.entry(real).or_insert_with(|| (path.to_path_buf(), storage));
        // The order of naming must not show: of several spellings the smallest is shown.
        if path < shown.as_path() {
            *shown = path.to_path_buf();
        }
    }

    fn cannot_open(&mut self, path: &Path, error: &io::Error) {
        self.broken.insert(path.to_path_buf(), unreadable(error));
    }

    /// An object, or whatever is below an address.
    ///
    /// # Errors
    /// If there is nothing, or the store does not answer: what is to be read is not known then.
    fn address(&mut self, address: &Path) -> Result<()> {
        let failed = |error| Error::io(address, error);
        if !object::is_folder(address) {
            let object = Object::find(address).map_err(failed)?;
            let address = object.address().to_path_buf();
            self.take(Storage::Object(object), &address);
            return Ok(());
        }
        let objects = object::list(address).map_err(failed)?.into_iter();
        self.listed = objects.map(|object| (object.address().to_path_buf(), object)).collect();
        if self.listed.is_empty() {
            let error = io::Error::new(io::ErrorKind::NotFound, "there is no object below this address");
            return Err(failed(error));
        }
        self.folder(address, true)
    }

    /// The first bytes of a file of a folder; none if there is none, or if it cannot be read.
    ///
    /// # Errors
    /// If a store does not answer.
    fn head_in(&self, folder: &Path, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let path = folder.join(name);
        if !is_address(folder) {
            return Ok(Storage::File(path).head(most).ok());
        }
        let head = self.listed.get(&path).map(|object| object.head(most));
        head.transpose().map_err(|error| Error::io(&path, error))
    }

    /// The data set of a folder.
    fn data_set(&self, folder: &Path) -> Result<Option<DataSet>> {
        let read = |name| self.head_in(folder, name, data_set::LONGEST);
        let (mut state, mut info) = (read(data_set::STATE)?, read(data_set::INFO)?);
        DataSet::of(folder, |name| if name == data_set::STATE { state.take() } else { info.take() })
    }

    /// The entries of a folder in a store, in order. There may be an object and a folder of one name.
    fn listed_in(&self, folder: &Path) -> Vec<(PathBuf, Entry)> {
        let mut entries: Vec<(PathBuf, Entry)> = Vec::new();
        let below =
            self.listed.range(folder.to_path_buf()..).take_while(|(path, _)| path.starts_with(folder));
        for (path, object) in below {
            let Some(at) = path.ancestors().find(|at| at.parent() == Some(folder)) else { continue };
            if at == path {
                entries.push((at.to_path_buf(), Entry::File(Storage::Object(object.clone()))));
            } else if !matches!(entries.last(), Some((last, Entry::Folder)) if last == at) {
                entries.push((at.to_path_buf(), Entry::Folder));
            }
        }
        entries
    }

    /// The entries of a folder, in order.
    fn entries(&mut self, folder: &Path) -> io::Result<Vec<(PathBuf, Entry)>> {
        if is_address(folder) {
            return Ok(self.listed_in(folder));
        }
        let real = fs::canonicalize(folder)?;
        // A link to a folder above would go round for ever.
        if !self.folders.insert(real.clone()) {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            match entry {
                Ok(entry) => entries.push((entry.path(), Entry::of(&entry, &real))),
                // Nobody knows what else the folder holds.
                Err(error) => self.cannot_open(folder, &error),
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }

    /// Whatever is below a folder, which a user named or another one holds.
    fn folder(&mut self, folder: &Path, is_named: bool) -> Result<()> {
        let of_result = format::results_by(|name| self.head_in(folder, name, u64::MAX))?;
        // The documents that an earlier run kept are copies of documents that are here anyway.
        if of_result.is_some() && !is_named {
            self.passed_over.push(folder.to_path_buf(), Reason::EarlierResult);
            return Ok(());
        }
        // Whether an earlier run was ended changes nothing.
        if format::is_working_by(folder, || self.head_in(folder, format::WORKING_MARK, 64))? {
            return Ok(());
        }
        let set = if self.wanted.is_none() { self.data_set(folder)? } else { None };
        let entries = match self.entries(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.cannot_open(folder, &error);
                return Ok(());
            }
        };
        for (path, entry) in entries {
            let name = path.file_name().unwrap_or_default();
            let reason = match (Reason::by_name(name, of_result), entry) {
                // That this very run makes its result here is no news.
                (Some(Reason::Unfinished), _) if is_being_made(name) => None,
                (Some(reason), _) => Some(reason),
                (None, Entry::Folder) => {
                    self.folder(&path, false)?;
                    None
                }
                _ if set.as_ref().is_some_and(|set| set.is_beside(&name.to_string_lossy())) => {
                    Some(Reason::BesideShards)
                }
                (None, Entry::File(storage)) => self.file_of_folder(&path, storage)?,
                (None, Entry::Other) => Some(Reason::NoFile),
                (None, Entry::Unknown(error))
                    if by_name(&path).0.is_some_and(|format| format != Format::Csv) =>
                {
                    self.cannot_open(&path, &error);
                    None
                }
                (None, Entry::Unknown(_)) => Some(Reason::CannotLook),
            };
            if let Some(reason) = reason {
                self.passed_over.push(path, reason);
            }
        }
        Ok(())
    }

    /// Takes a folder's file if it is one of documents, as its name says, or else its content; says why it is not read
    /// otherwise.
    fn file_of_folder(&mut self, path: &Path, storage: Storage) -> Result<Option<Reason>> {
        let reason = match (self.wanted, by_name(path).0) {
            (Some(is_wanted), _) if !is_wanted(path) => return Ok(Some(Reason::OtherName)),
            (None, None) if !is_called(path, ".json") => return Ok(Some(Reason::OtherName)),
            // Tables hold documents at times, and other things more often; and so does JSON.
            (None, None | Some(Format::Csv)) => reason_by_content(path, &storage, self.options),
            (Some(_), _) | (None, Some(_)) => Ok(None),
        };
        match reason {
            Ok(None) => self.take(storage, path),
            Ok(reason) => return Ok(reason),
            Err(error) if is_address(path) => return Err(Error::io(path, error)),
            Err(error) => self.cannot_open(path, &error),
        }
        Ok(None)
    }

    fn named(&mut self, path: &Path) -> Result<()> {
        if path == Path::new("-") {
            self.streams.push(spool(path, &mut io::stdin().lock(), self.options)?);
            return Ok(());
        }
        if is_address(path) {
            return self.address(path);
        }
        match fs::metadata(path) {
            // A pattern of names may well have brought it.
            Ok(m) if m.is_dir() && path.file_name().is_some_and(is_unfinished) => {
                self.passed_over.push(path.to_path_buf(), Reason::Unfinished);
            }
            Ok(m) if m.is_dir() => self.folder(path, true)?,
            Ok(m) if m.is_file() => {
                // A shard that is named by itself is as much of a data set as in its folder.
                if path.extension().is_some_and(|ending| ending == "arrow") {
                    self.data_set(path.parent().unwrap_or(Path::new("")))?;
                }
                match fs::canonicalize(path) {
                    Ok(real) => self.take(Storage::File(real), path),
                    Err(error) => self.cannot_open(path, &error),
                }
            }
            // A pipe or the like.
            Ok(_) => match File::open(path) {
                Ok(mut stream) => self.streams.push(spool(path, &mut stream, self.options)?),
                Err(error) => self.cannot_open(path, &error),
            },
            Err(error) => self.cannot_open(path, &error),
        }
        Ok(())
    }
}

/// Checks that all paths exist that a user named. `-` and addresses in stores count as existing.
///
/// # Errors
/// [`Error::NoSuchInput`] with all that do not exist.
pub(crate) fn check_exist<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let is_missing = |path: &PathBuf| {
        let is_file = path != Path::new("-") && !is_address(path);
        let error = if is_file { fs::metadata(path).err() } else { None };
        error.is_some_and(|error| matches!(error.kind(), NotFound | NotADirectory))
    };
    let missing: Vec<PathBuf> = paths.into_iter().filter(|path| is_missing(path)).cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::NoSuchInput(missing)) }
}

/// Replaces each pattern among the paths (`crawl/*.jsonl`, `**` for folders of any depth) by the files and folders that
/// fit it, in order. A path that exists, or that nothing fits, stays, and so does an address. Wildcards fit no point at
/// the start of a name.
///
/// # Errors
/// [`Error::Core`] for a pattern that is malformed.
pub fn expand_patterns(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut expanded = Vec::with_capacity(paths.len());
    for path in paths {
        let before = expanded.len();
        let pattern = path.to_str().filter(|path| path.contains(['*', '?', '[']));
        if let Some(pattern) = pattern.filter(|_| !is_address(path) && fs::symlink_metadata(path).is_err()) {
            let options =
                glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
            // It panics where a name is not UTF-8.
            let fits = caught(|| {
                let fits = glob::glob_with(pattern, options).map_err(|error| error.to_string())?;
                Ok(fits.map(|fit| fit.unwrap_or_else(|error| error.path().to_path_buf())).collect::<Vec<_>>())
            });
            let fits = fits.unwrap_or_else(|_| Err("a name there is not UTF-8; name the folder".to_owned()));
            expanded.extend(fits.map_err(|error| {
                Error::parameter("input", pattern, format!("a file, a folder or a pattern; {error}"))
            })?);
        }
        if expanded.len() == before {
            // That nothing fits is reported as for any other path.
            expanded.push(path.clone());
        }
    }
    Ok(expanded)
}

/// The fields of a file of a folder that was passed over as it has no text, in a sentence; none if there is no such
/// file.
fn without_field(passed_over: &PassedOver, options: &DiscoverOptions) -> Option<String> {
    let mut without = passed_over.list.iter().filter(|it| it.reason == Reason::NoDocuments);
    without.find_map(|NotRead { path, .. }| {
        let input = Input::look(path, &Storage::File(path.clone()), options);
        let names = names_there(&[input], &ReadOptions::default());
        let (path, text) = (printable_path(path), &options.fields.text);
        // One whose text is null has the field.
        (!names.is_empty() && !names.contains(text)).then(|| {
            let names = first_of(names, LISTED);
            let others = passed_over.message().map(|message| format!(". {message}")).unwrap_or_default();
            format!("{path} has no field {text:?}; --text-field names another one of {names}{others}")
        })
    })
}

/// Finds the files to read.
///
/// A folder stands for the files below it with a known name: `.wet`, `.warc`, `.warc.txt`, `.jsonl`, `.ndjson`, `.jl`,
/// `.parquet`, `.arrow` or `.feather`. It stands as well for `.json` whose first object has a text, and for
/// `.csv` or `.tsv` whose header has a column of texts. `.gz` or `.zst` may follow all but `.parquet`, `.arrow` and
/// `.feather`. Of a data set that Hugging Face saved, the shards alone are read. A file that is named itself may be
/// called anything; its content says what it is, and of CSV its name. Below a folder, folders of earlier results are
/// passed over, and whatever a run left unfinished or works in. So are names that begin with `.` or `_`, but for
/// partitions such as `_lang=en`. `-` is standard input; it and other streams are copied to a file in the system's
/// temporary folder first. A file that is named twice, or through a link, is there once.
///
/// With the feature `stores`, `s3://bucket/key`, `gs://bucket/key`, `az://container/key` and `https://server/path`
/// are files, and an address in a store that ends in `/` is a folder. An address at which nothing is, or whose
/// store does not answer, is an error.
///
/// The list is sorted by real path; streams come behind the files, and what cannot be opened behind the
/// streams. It does not depend on the order of `paths`. A file that cannot be read stays in the list, and reading it
/// yields corruption: a bad file does not end a run.
///
/// # Errors
/// [`Error::NoSuchInput`] if one of `paths` does not exist. [`Error::NoDocuments`] if nothing was found or nothing of
/// it can be read. [`Error::Io`] if a stream cannot be copied, or an address gives nothing.
pub fn discover(paths: &[PathBuf], options: &DiscoverOptions) -> Result<Vec<Input>> {
    discover_all(paths, options).map(|found| found.inputs)
}

/// Lists inputs as [`discover`] does, and what is not read.
///
/// # Errors
/// As [`discover`].
pub fn discover_all(paths: &[PathBuf], options: &DiscoverOptions) -> Result<Discovered> {
    /// Objects that are looked at together.
    const QUESTIONS: usize = 32;
    let found = FoundFiles::of(paths, options, None)?;
    let look = |(_, (shown, storage)): (&PathBuf, &(PathBuf, Storage))| Input::look(shown, storage, options);
    // Stores answer late, and many questions at once.
    let mut inputs: Vec<Input> = match found.files.keys().any(|real| is_address(real)) {
        false => found.files.iter().map(look).collect(),
        true => pool(QUESTIONS)?.install(|| found.files.par_iter().map(look).collect()),
    };
    inputs.extend(found.streams);
    let broken = found.broken.into_iter();
    inputs.extend(broken.map(|(path, why)| Input::broken(&path, &Storage::File(path.clone()), options, why)));
    if inputs.iter().all(|i| i.problem.is_some()) {
        let why = match inputs.first() {
            Some(Input { path, problem: Some((_, message)), .. }) => format!("{}: {message}", path.display()),
            _ => without_field(&found.passed_over, options).unwrap_or_else(|| {
                let names = ".wet, .warc, .jsonl, .ndjson, .jl, .csv, .tsv; also .gz, .zst; .parquet, .arrow, .feather";
                let passed_over = found.passed_over.message().map(|message| format!(". {message}"));
                let advice = match found.passed_over.list.iter().any(|file| is_document(&file.path)) {
                    true => " simflip gather makes lines of JSON of texts and HTML.",
                    false => "",
                };
                format!("no file with a known name ({names}){}{advice}", passed_over.unwrap_or_default())
            }),
        };
        return Err(Error::NoDocuments(why));
    }
    if u32::try_from(inputs.len()).is_err() {
        return Err(Error::parameter("inputs", inputs.len(), "at most 2^32 - 1 files in one run"));
    }
    Ok(Discovered { inputs, passed_over: found.passed_over })
}

/// The reason, in words, why an input of an earlier run cannot be read again. `None` if something is at its path, and
/// for an address in a store, which is not asked.
pub(crate) fn gone(path: &Path) -> Option<String> {
    if path == Path::new("-") {
        return Some("the documents came by standard input, which is gone".to_owned());
    }
    if is_address(path) {
        return None;
    }
    let error = fs::metadata(path).err()?;
    let called = printable_path(path);
    Some(match error.kind() {
        io::ErrorKind::NotFound if path.is_absolute() => format!("{called} is not there"),
        io::ErrorKind::NotFound => {
            format!("{called} is not there (it counts from the folder in which the run was started)")
        }
        _ => format!("{called}: {error}"),
    })
}

/// True if the bytes at a path can be read only once: standard input, a pipe, a device.
pub(crate) fn is_stream(path: &Path) -> bool {
    path == Path::new("-") || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
        fs::write(path, bytes).expect("file");
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[cfg(unix)]
    #[test]
    fn folders_give_known_names_sorted_and_once() {
        let dir = tempfile::tempdir().expect("temp dir");
        let at = |name: &str| dir.path().join(name);
        write(&at("b/x.warc.wet.gz"), &gz(b"WARC/1.0\r\n"));
        write(&at("b/notes.txt"), b"{");
        write(&at("b/stats.json"), b"{}");
        write(&at("a.jsonl.zst"), &zstd::encode_all(&b"{}\n"[..], 1).expect("memory"));
        write(&at("c.ndjson"), b"{}");
        write(&at("c.WET"), b"WARC/1.0");
        write(&at("result/report.json"), br#"{"tool": {"name": "simflip"}}"#);
        write(&at("result/kept.jsonl.gz"), &gz(b"{}\n"));
        // A partition is read, and what failed attempts, notebooks and other systems leave is not.
        write(&at("_lang=en/part.jl"), b"{}\n");
        let hidden =
            ["_temporary/0/part.jsonl", ".ipynb_checkpoints/a.jsonl", "b/._x.warc.wet.gz", "_SUCCESS"];
        hidden.iter().for_each(|name| write(&at(name), b"{}\n"));
        std::os::unix::fs::symlink(dir.path(), at("b/loop")).expect("link");
        std::os::unix::fs::symlink(at("c.ndjson"), at("b/again.ndjson")).expect("link");
        let options = DiscoverOptions::default();
        let Discovered { inputs, passed_over } = discover_all(&[dir.path().into()], &options).expect("files");
        let skipped = passed_over.list.iter().filter(|it| it.reason == Reason::Hidden);
        let skipped: Vec<_> = skipped.map(|it| it.path.strip_prefix(dir.path()).expect("below")).collect();
        let folders = [".ipynb_checkpoints", "_SUCCESS", "_temporary", "b/._x.warc.wet.gz"].map(Path::new);
        assert_eq!(skipped, folders);
        let shown: Vec<_> = inputs
            .iter()
            .map(|i| (i.path.strip_prefix(dir.path()).expect("below").to_owned(), i.format, i.compression))
            .collect();
        assert_eq!(
            shown,
            [
                ("_lang=en/part.jl".into(), Format::Jsonl, Compression::None),
                ("a.jsonl.zst".into(), Format::Jsonl, Compression::Zstd),
                ("b/x.warc.wet.gz".into(), Format::Wet, Compression::Gzip),
                ("c.WET".into(), Format::Wet, Compression::None),
                ("b/again.ndjson".into(), Format::Jsonl, Compression::None),
            ]
        );
        let twice =
            discover(&[at("c.ndjson"), dir.path().into(), at("a.jsonl.zst")], &options).expect("files");
        assert_eq!(twice.len(), inputs.len());
        let order: Vec<_> = twice.iter().map(|i| i.stored().to_owned()).collect();
        assert_eq!(order, inputs.iter().map(|i| i.stored().to_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn content_goes_before_name() {
        let dir = tempfile::tempdir().expect("temp dir");
        let at = |name: &str| dir.path().join(name);
        let look = |name: &str, bytes: &[u8]| {
            write(&at(name), bytes);
            Input::look(&at(name), &Storage::File(at(name)), &DiscoverOptions::default())
        };
        let plain = look("a.warc.wet.gz", b"WARC/1.0\r\n");
        assert!(plain.compression == Compression::None && plain.format == Format::Wet);
        let packed = look("b.jsonl", &gz(b"\xef\xbb\xbf {}"));
        assert!(packed.compression == Compression::Gzip && packed.format == Format::Jsonl);
        let lying = look("c.jsonl", b"WARC/1.0\n");
        assert_eq!(lying.format, Format::Wet);
        let hurt = look("d.warc.wet.gz", b"\0\x01\x02\x03");
        assert!(hurt.compression == Compression::Gzip && hurt.problem.is_none());
        assert!(matches!(look("e.txt", b"hello").problem, Some((CorruptionKind::UnknownFormat, _))));
        assert!(look("f.txt", b"").problem.is_none());
    }

    #[cfg(unix)]
    #[test]
    fn named_files_must_exist_and_those_of_folders_need_not_open() {
        let dir = tempfile::tempdir().expect("temp dir");
        let good = dir.path().join("a.jsonl");
        write(&good, b"{}");
        let named = [dir.path().join("0-missing.jsonl"), good.clone(), good.join("below-a-file.jsonl")];
        let missing = [named[0].clone(), named[2].clone()];
        let options = DiscoverOptions::default();
        let error = discover(&named, &options).expect_err("two are missing");
        assert!(matches!(&error, Error::NoSuchInput(named) if named[..] == missing), "{error}");
        assert!(matches!(discover(&[], &options), Err(Error::NoDocuments(_))));
        let link = dir.path().join("link.jsonl");
        std::os::unix::fs::symlink("nowhere", &link).expect("link");
        let inputs = discover(&[dir.path().into()], &options).expect("one can be opened");
        assert_eq!(inputs.iter().map(|i| &i.path).collect::<Vec<_>>(), [&good, &link]);
        assert!(matches!(discover(&[link], &options), Err(Error::NoSuchInput(_))));
    }

    #[test]
    fn patterns_stand_for_what_they_fit() {
        let dir = tempfile::tempdir().expect("temp dir");
        let at = |name: &str| dir.path().join(name);
        ["b.jsonl", "a.jsonl", "c.csv", ".d.jsonl", "sub/deep/e.jsonl", "[x].jsonl"]
            .into_iter()
            .for_each(|name| write(&at(name), b"{}"));
        let expand = |name: &str| {
            let paths = expand_patterns(&[at(name)]).expect("a pattern");
            let shown =
                paths.iter().map(|it| it.strip_prefix(dir.path()).expect("below").display().to_string());
            shown.collect::<Vec<_>>()
        };
        assert_eq!(expand("[ab].jsonl"), ["a.jsonl", "b.jsonl"]);
        assert_eq!(expand("*.csv"), ["c.csv"]);
        assert_eq!(expand("**/e.*"), ["sub/deep/e.jsonl"]);
        // What exists is itself, and what fits nothing stays.
        assert_eq!(
            (expand("[x].jsonl"), expand("*.wet")),
            (vec!["[x].jsonl".into()], vec!["*.wet".to_owned()])
        );
        assert!(expand_patterns(&["a***".into()]).is_err());
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            fs::create_dir(at("odd")).expect("a folder");
            fs::write(at("odd").join(OsStr::from_bytes(b"\xff.jsonl")), "").expect("a file");
            assert!(expand_patterns(&[at("odd/*.jsonl")]).is_err());
        }
    }

    #[test]
    fn text_in_utf_16_is_read() {
        let dir = tempfile::tempdir().expect("temp dir");
        let text = "{\"text\": \"é 😀\"}\r\n";
        let bytes = |mark: [u8; 2], of: fn(u16) -> [u8; 2]| {
            let units = text.encode_utf16().chain([0xd800]).flat_map(of);
            mark.into_iter().chain(units).collect::<Vec<u8>>()
        };
        let [little, big] = [bytes([0xff, 0xfe], u16::to_le_bytes), bytes([0xfe, 0xff], u16::to_be_bytes)];
        for (name, bytes) in [("a.jsonl", little), ("b.txt", big)] {
            let path = dir.path().join(name);
            write(&path, &bytes);
            let input =
                &discover(std::slice::from_ref(&path), &DiscoverOptions::default()).expect("an input")[0];
            assert_eq!((input.format, input.problem.is_some()), (Format::Jsonl, false));
            let read = io::read_to_string(input.storage.open().expect("a copy")).expect("UTF-8");
            assert_eq!(read, format!("{text}\u{fffd}"));
            // It is known as the file that it is, and is none that later stages cannot read again.
            assert_eq!(input.stored(), fs::canonicalize(path).expect("is there"));
            assert!(!input.is_stream());
        }
        let bytes = *b"\xff\xfe{\0}\0";
        let mut stream = &bytes[..];
        let input = spool(Path::new("-"), &mut stream, &DiscoverOptions::default()).expect("copied");
        assert!(input.is_stream());
    }

    #[cfg(not(feature = "stores"))]
    #[test]
    fn an_address_asks_for_a_build_that_reads_it() {
        let dir = tempfile::tempdir().expect("temp dir");
        let good = dir.path().join("a.jsonl");
        write(&good, b"{}");
        for address in ["s3://bucket/key.jsonl", "s3://bucket/crawl/", "https://server/a.jsonl"] {
            let error = discover(&[good.clone(), address.into()], &DiscoverOptions::default()).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(address) && message.contains("the feature `stores`"), "{message}");
        }
    }

    #[test]
    fn a_stream_is_kept_while_its_input_lives() {
        let input =
            spool(Path::new("-"), &mut &b"WARC/1.0\r\n"[..], &DiscoverOptions::default()).expect("copied");
        assert!(input.is_stream() && input.format == Format::Wet && input.stored_bytes() == 10);
        let (copy, stored) = (input.clone(), input.stored().to_owned());
        drop(input);
        assert!(copy.storage.open().is_ok());
        drop(copy);
        assert!(!stored.exists());
    }
}
