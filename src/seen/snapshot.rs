//! A snapshot that is written while the index goes on.
//!
//! First a new log is begun ([`Seen::begin_snapshot`]), so that what changes from then on is in it. Then the pages
//! are copied some at a time ([`Snapshot::copy`]), each as it is by then. A change since the beginning stands in
//! the new log as well, and a page that is stored, seen again or removed twice is as if it were once. Of a page,
//! its record in the files before it is copied, with the time at which it was last seen. Behind the pages come the
//! tables that pages are found by, so that a reader of the snapshot need not make them. Should a page be removed
//! meanwhile, some tables are left out, and the reader makes all of them. At the end names are read from the new file
//! ([`Seen::end_snapshot`]), and the files before it are removed. If the process dies before, the files before the
//! snapshot and both logs are read.

use super::Seen;
use super::log::Part;
use super::places::{LogPlace, OpenFiles};
use super::record::{self, Record};
use super::remembered::RememberedAnswer;
use crate::atomic_write::NewFile;
use crate::error::{Error, Result};
use crate::settings::Sketches;
use simflip_core::id::{Document, Id};
use simflip_core::index::table_part;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Pages whose numbers are looked at in one go.
const LISTED: usize = 1 << 16;

/// Pages that are copied in one go: less than a millisecond of work.
const COPIED: usize = 512;

/// Entries of a table that are copied in one go: as much work.
const ENTRIES: usize = 1 << 15;

/// A snapshot in the making, or an export. [`copy`](Self::copy) and [`write`](Self::write) are called in turn until
/// there is nothing to copy, then [`finish`](Self::finish).
#[derive(Debug)]
pub struct Snapshot {
    number: u64,
    /// The log in front of which it is written: what stands there is not copied.
    log: Option<Part>,
    path: PathBuf,
    new: NewFile,
    length: u64,
    /// The documents to be written, and how many were stored before each; sorted by that when all are known.
    documents: Vec<Document>,
    born: Vec<u64>,
    /// The number of a document at which the listing of documents goes on; `None` if all are listed.
    listed: Option<usize>,
    /// For each of them where its record begins; [`NOWHERE`] for those that are gone.
    offsets: Vec<u64>,
    /// Pages that have been copied and are not written yet; none in place of those that are gone.
    copied: Vec<Option<Copied>>,
    sketches: Sketches,
    requests: Vec<RememberedAnswer>,
    files: OpenFiles,
    /// Removals before it was begun, and answers that were left behind by then.
    removals: u64,
    left_behind: u64,
    pages: u64,
    tables: TableCopies,
}

/// The tables of a snapshot, which are copied when all pages are written.
#[derive(Debug, Default)]
struct TableCopies {
    /// The number of tables to write.
    wanted: usize,
    /// The bytes at which the written tables begin, and the one that is being written.
    offsets: Vec<u64>,
    /// The mixed key with which that one goes on; `None` if it is whole.
    from: Option<u32>,
    /// Entries that have been copied and are not written yet, and the mixed key to go on with.
    copied: Option<(Vec<u64>, Option<u32>)>,
    /// By document, how many pages were written before it; [`NOBODY`] for those that were not.
    places: Vec<u32>,
}

/// The place of a document that was not written.
const NOBODY: u32 = u32::MAX;

/// The copied parts of a record: the digest of the page's text, the place of its record, and when it was last seen.
#[derive(Clone, Copy, Debug)]
struct Copied {
    digest: u128,
    place: LogPlace,
    seen: u64,
}

/// The offset of a record that was not written.
const NOWHERE: u64 = u64::MAX;

impl Snapshot {
    /// Begins the snapshot of this number, when the log of the same number has been begun.
    pub(super) fn begin(seen: &Seen, number: u64) -> Result<Self> {
        let part = Part::Snapshot(number);
        let mut snapshot = Self::of_pages(seen, part, seen.folder.join(part.name()))?;
        snapshot.requests = seen.requests.in_order();
        (snapshot.removals, snapshot.left_behind) = (seen.removals(), seen.requests.left_behind());
        snapshot.tables.wanted = seen.index.tables();
        snapshot.log = Some(Part::Log(number));
        Ok(snapshot)
    }

    /// Begins a file of the pages of an index, without answers and tables, at any path.
    pub(super) fn export(seen: &Seen, path: &Path) -> Result<Self> {
        Self::of_pages(seen, Part::Snapshot(0), path.to_path_buf())
    }

    fn of_pages(seen: &Seen, part: Part, path: PathBuf) -> Result<Self> {
        let mut snapshot = Self {
            number: part.number(),
            log: None,
            new: NewFile::begin(&path)?,
            path,
            length: 0,
            documents: Vec::new(),
            born: Vec::new(),
            listed: Some(0),
            offsets: Vec::new(),
            copied: Vec::new(),
            sketches: seen.params.settings.sketches,
            requests: Vec::new(),
            files: seen.files.clone(),
            removals: 0,
            left_behind: 0,
            pages: 0,
            tables: TableCopies::default(),
        };
        snapshot.put(&part.head(&seen.params))?;
        Ok(snapshot)
    }

    /// Copies some more of the index into memory, for [`write`](Self::write). Gives false when nothing is left. The
    /// index may be changed between one call and the next.
    pub fn copy(&mut self, seen: &Seen) -> bool {
        if let Some(from) = self.listed {
            let end = from + LISTED;
            for (document, born) in seen.index.births(from..end) {
                self.documents.push(document);
                self.born.push(born);
            }
            self.listed = (end < seen.index.numbers()).then_some(end);
            return true;
        }
        let from = self.offsets.len();
        let batch = &self.documents[from..self.documents.len().min(from + COPIED)];
        let copied = batch.iter().map(|&document| {
            let at = document.index();
            let place =
                seen.places.get(at).copied().filter(|place| !self.log.is_some_and(|log| place.is_in(log)))?;
            Some(Copied { digest: seen.index.digest(document)?, place, seen: seen.seen[at] })
        });
        self.copied.extend(copied);
        let is_more = !batch.is_empty() || self.tables.copy(seen, self.removals);
        if !is_more && seen.removals() != self.removals {
            self.forget_answers(seen);
        }
        is_more
    }

    /// Forgets answers that name pages which were removed meanwhile. A page that was removed before it was copied is
    /// not in the file. Who reads its removal in the log finds no page then whose name answers may have.
    fn forget_answers(&mut self, seen: &Seen) {
        self.requests.retain_mut(|RememberedAnswer { key, answer }| {
            let Some(now) = seen.requests.get(key).filter(|now| now.digest == answer.digest) else {
                return false;
            };
            if now.reply.earlier != answer.reply.earlier {
                answer.reply.earlier = None;
            }
            true
        });
    }

    /// Writes what was copied. The index is not looked at, and may be changed meanwhile.
    ///
    /// # Errors
    /// If it cannot be written, or the record of a page not be read.
    pub fn write(&mut self) -> Result<()> {
        if self.listed.is_none() && !self.born.is_empty() {
            // A number that was given again is that of a page stored late.
            if !self.born.is_sorted() {
                let born = std::mem::take(&mut self.born);
                let mut order: Vec<(u64, Document)> =
                    born.into_iter().zip(std::mem::take(&mut self.documents)).collect();
                order.sort_unstable_by_key(|&(born, _)| born);
                self.documents = order.into_iter().map(|(_, document)| document).collect();
            }
            self.born = Vec::new();
        }
        let mut frames = Vec::new();
        for copied in std::mem::take(&mut self.copied) {
            let Some(Copied { digest, place, seen }) = copied else {
                self.offsets.push(NOWHERE);
                continue;
            };
            self.offsets.push(self.length + frames.len() as u64);
            let again = |page: &[u8]| record::frame_again(page, seen, self.sketches, &mut frames);
            self.files.page(place, digest, again)?;
            self.pages += 1;
        }
        if let Some((entries, next)) = self.tables.copied.take() {
            let tables = &mut self.tables;
            if tables.from.is_none() {
                tables.offsets.push(self.length);
            }
            tables.from = next;
            tables.frame(&entries, self.pages, &self.offsets, &self.documents, &mut frames);
        }
        self.put(&frames)
    }

    /// Writes remembered answers and the end, and names the file. [`Seen::end_snapshot`] takes a snapshot then.
    ///
    /// # Errors
    /// If it cannot be written; then nothing of it remains.
    pub fn finish(mut self) -> Result<Finished> {
        let mut tables = std::mem::take(&mut self.tables);
        if tables.whole() == tables.wanted && tables.wanted > 0 {
            tables.offsets.push(self.length);
        } else {
            tables.offsets.clear();
        }
        let mut frames = Vec::new();
        std::mem::take(&mut self.requests)
            .into_iter()
            .for_each(|asked| Record::Request(asked).frame(&mut frames));
        Record::End { pages: self.pages, tables: tables.offsets }.frame(&mut frames);
        self.put(&frames)?;
        let Self { number, path, new, length, documents, offsets, removals, left_behind, .. } = self;
        new.finish()?;
        Ok(Finished { number, path, length, documents, offsets, removals, left_behind, moved: 0 })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.length += bytes.len() as u64;
        self.new.file().write_all(bytes).map_err(|error| Error::io(&self.path, error))
    }
}

impl TableCopies {
    /// The number of tables that are wholly written.
    fn whole(&self) -> usize {
        self.offsets.len() - usize::from(self.from.is_some())
    }

    /// Copies some more entries; gives false when none are left. If a page was removed since there were `removals`, it
    /// may stand in some tables and not in others; no more are copied then.
    fn copy(&mut self, seen: &Seen, removals: u64) -> bool {
        if self.whole() == self.wanted || seen.removals() != removals {
            return false;
        }
        let mut entries = Vec::with_capacity(ENTRIES);
        let next = seen.index.entries(self.whole(), self.from.unwrap_or(0), ENTRIES, &mut entries);
        self.copied = Some((entries, next));
        true
    }

    /// Appends the frames of entries of the table that is being written. A place replaces the document of each entry:
    /// its number among the `pages` written ones. `offsets` says where the record of each of `documents` was written.
    fn frame(
        &mut self,
        entries: &[u64],
        pages: u64,
        offsets: &[u64],
        documents: &[Document],
        out: &mut Vec<u8>,
    ) {
        if self.places.is_empty() {
            let numbers = documents.iter().map(|document| document.index() + 1).max().unwrap_or(0);
            self.places = vec![NOBODY; numbers];
            let written = documents.iter().zip(offsets).filter(|(_, offset)| **offset != NOWHERE);
            (0..).zip(written).for_each(|(place, (document, _))| self.places[document.index()] = place);
        }
        let place = |entry: u64| match self.places.get(entry as u32 as usize) {
            // Whoever came later stands in the log.
            None | Some(&NOBODY) => None,
            Some(&place) => Some(entry >> 32 << 32 | u64::from(place)),
        };
        let table = self.offsets.len() - 1;
        let entries: Vec<u64> = entries.iter().filter_map(|&entry| place(entry)).collect();
        for entries in entries.chunks(ENTRIES) {
            let part = Record::Table { table: table as u32, bytes: table_part(entries, pages as usize) };
            part.frame(out);
        }
    }
}

/// A snapshot whose file is whole, for [`Seen::end_snapshot`].
#[derive(Debug)]
pub struct Finished {
    /// The number of the snapshot, and of the log behind it.
    pub(super) number: u64,
    pub(super) path: PathBuf,
    /// Bytes of the file.
    pub(super) length: u64,
    documents: Vec<Document>,
    offsets: Vec<u64>,
    /// Removals before the snapshot was begun, of which no earlier file is left when it has ended.
    pub(super) removals: u64,
    /// Answers that were [left behind](super::remembered::Remembered::left_behind) before it was begun.
    pub(super) left_behind: u64,
    moved: usize,
}

impl Finished {
    /// The next `most` documents, whose names are to be read from the file, with the places of their records there.
    /// Those that were not written are left out.
    pub(super) fn next(&mut self, most: usize) -> impl Iterator<Item = (Document, LogPlace)> + '_ {
        let from = self.moved;
        self.moved = self.documents.len().min(from.saturating_add(most));
        let part = Part::Snapshot(self.number);
        let both = self.documents[from..self.moved].iter().zip(&self.offsets[from..self.moved]);
        both.filter(|(_, offset)| **offset != NOWHERE)
            .map(move |(&document, &offset)| (document, LogPlace::new(part, offset)))
    }

    /// True if [`next`](Self::next) has no more documents.
    pub(super) fn is_moved(&self) -> bool {
        self.moved == self.documents.len()
    }
}
