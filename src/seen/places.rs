//! Names stay on disk. Memory holds the place of each page's record, from which a name is read when it is needed. A
//! record stands in a *frame*, behind its length and checksum.

use super::log::{Part, whole_at};
use super::record::{self, HEAD, frame_of};
use crate::error::{Error, Result};
use crate::format::wrong;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The place where the frame of a record begins: its file in 16 bits, the byte in 48.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPlace(u64);

/// Bits of a byte's number.
const OFFSET_BITS: u32 = 48;

impl LogPlace {
    pub(super) fn new(part: Part, offset: u64) -> Self {
        Self(u64::from(key(part)) << OFFSET_BITS | offset & ((1 << OFFSET_BITS) - 1))
    }

    /// True if the record is in a file.
    pub(super) fn is_in(self, part: Part) -> bool {
        self.key() == key(part)
    }

    /// The byte of the file at which the frame begins.
    pub(super) fn offset(self) -> u64 {
        self.0 & ((1 << OFFSET_BITS) - 1)
    }

    fn key(self) -> u16 {
        (self.0 >> OFFSET_BITS) as u16
    }
}

/// A file of an index in 16 bits. Of an index's files two or three are in use at a time, with numbers next to each
/// other.
fn key(part: Part) -> u16 {
    let snapshot = matches!(part, Part::Snapshot(_));
    (part.number() as u16) << 1 | u16::from(snapshot)
}

/// The files of an index that names are read from. They are open: a name can be read from one that has been taken
/// away as well.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenFiles(Vec<OpenFile>);

#[derive(Clone, Debug)]
struct OpenFile {
    part: Part,
    path: PathBuf,
    file: Arc<File>,
}

impl OpenFiles {
    /// Opens a file to read names from. One that is open already by the same number is opened anew.
    pub(super) fn open(&mut self, part: Part, path: &Path) -> Result<()> {
        let file = File::open(path).map_err(|error| Error::io(path, error))?;
        self.0.retain(|open| open.part != part);
        self.0.push(OpenFile { part, path: path.to_path_buf(), file: Arc::new(file) });
        Ok(())
    }

    /// Closes all files but those for which `wanted` is true.
    pub(super) fn keep(&mut self, wanted: impl Fn(Part) -> bool) {
        self.0.retain(|open| wanted(open.part));
    }

    /// Reads the name of the page whose record begins at a place. Other bytes there than those of the page whose text
    /// has this digest are an error.
    pub(super) fn name(&self, place: LogPlace, digest: u128) -> Result<Arc<str>> {
        self.find(place, digest, |frame| record::name_of(frame).map(Arc::from))
    }

    /// Passes the bytes of the record of the page at a place to `take`, and gives its result. `None` of it is an error,
    /// as are bytes of another page or with a wrong checksum.
    pub(super) fn page<T>(
        &self,
        place: LogPlace,
        digest: u128,
        take: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T> {
        self.find(place, digest, |frame| take(&frame[HEAD..whole_at(frame, 0)?]))
    }

    /// Passes the frame of a page to `take`. The first read has the bytes of a usual frame; a longer one is read again,
    /// whole.
    fn find<T>(&self, place: LogPlace, digest: u128, take: impl FnOnce(&[u8]) -> Option<T>) -> Result<T> {
        let Some(open) = self.0.iter().find(|open| key(open.part) == place.key()) else {
            return Err(not_there(Path::new("the index"), place));
        };
        let (mut short, mut long) = ([0; 512], Vec::new());
        let mut bytes = open.read(&mut short, place.offset())?;
        if let Some((length, _)) = bytes.get(..HEAD).and_then(frame_of)
            && HEAD + length > bytes.len()
        {
            long.resize(HEAD + length, 0);
            bytes = open.read(&mut long, place.offset())?;
        }
        record::page_in(bytes, digest).and_then(take).ok_or_else(|| not_there(&open.path, place))
    }
}

impl OpenFile {
    /// Fills a buffer from byte `offset` on, and gives the filled part, which is shorter at the end of the file.
    fn read<'a>(&self, buffer: &'a mut [u8], offset: u64) -> Result<&'a [u8]> {
        let mut filled = 0;
        while filled < buffer.len() {
            match read_at(self, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&self.path, error)),
            }
        }
        Ok(&buffer[..filled])
    }
}

#[cfg(unix)]
fn read_at(open: &OpenFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(&*open.file, buffer, offset)
}

#[cfg(windows)]
fn read_at(open: &OpenFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(&*open.file, buffer, offset)
}

#[cfg(not(any(unix, windows)))]
fn read_at(open: &OpenFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(&open.path)?;
    file.seek(SeekFrom::Start(offset))?;
    file.read(buffer)
}

fn not_there(path: &Path, place: LogPlace) -> Error {
    let advice = "the file was changed while it was in use; open the index again";
    wrong(path, "the record of a page", format!("at byte {}", place.offset()), "other bytes", advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::record::Record;
    use crate::settings::Settings;
    use simflip_core::sketch::Facts;

    #[test]
    fn names_of_any_length_are_read_and_other_records_are_refused() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("log");
        let (mut bytes, mut places) = (vec![7; 13], Vec::new());
        for (digest, length) in [(1, 0), (2, 5), (3, 280), (4, 281), (5, 70_000), (6, 1)] {
            places.push((digest, "é".repeat(length), LogPlace::new(Part::Log(65_537), bytes.len() as u64)));
            let name = places.last().unwrap().1.as_str().into();
            let facts = Facts { digest, ..Facts::default() };
            Record::Page { facts, value: None, name, seen: 4, asked: None }.frame(&mut bytes);
        }
        std::fs::write(&path, &bytes).unwrap();
        let mut files = OpenFiles::default();
        assert!(files.name(places[0].2, 1).is_err(), "not open");
        files.open(Part::Log(65_537), &path).unwrap();
        for (digest, name, place) in &places {
            assert!(place.is_in(Part::Log(65_537)) && !place.is_in(Part::Snapshot(65_537)));
            assert_eq!(&*files.name(*place, *digest).unwrap(), name);
            assert!(files.name(*place, 9).is_err());
            let record = files.page(*place, *digest, |record| Some(record.to_vec())).unwrap();
            assert!(
                matches!(Record::read(&record, Settings::default().sketches), Some(Record::Page { name: same, .. }) if *same == **name)
            );
            assert!(files.page(*place, 9, |_| Some(())).is_err());
            assert!(files.page(*place, *digest, |_| None::<()>).is_err());
            let beside = LogPlace::new(Part::Log(65_537), place.offset() + 1);
            assert!(files.name(beside, *digest).is_err());
        }
        // A byte of the last record is another one: its name is still there, the record is not whole.
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let (digest, _, place) = &places[5];
        assert!(files.name(*place, *digest).is_ok() && files.page(*place, *digest, |_| Some(())).is_err());
        std::fs::remove_file(&path).unwrap();
        #[cfg(unix)]
        assert_eq!(&*files.name(places[1].2, 2).unwrap(), "ééééé");
        files.keep(|_| false);
        assert!(files.name(places[1].2, 2).is_err());
    }
}
