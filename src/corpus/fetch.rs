//! Reading single documents again, by their places.

use super::corruption::DocumentRoom;
use super::document::Document;
use super::feed::{Feed, STEP};
use super::filetype::{Compression, Format};
use super::input::{Input, ReadInput};
use super::options::{ReadOptions, ReadRules};
use super::reader::{Block, Reader};
use super::records::Span;
use super::source::Source;
use super::{parquet, wet};
use crate::document::{DocId, Place};
use crate::{Error, Result};

/// Hands each record of a file that may be a document to `each`: its row, and its content as it stands there, a line or
/// the bytes behind a header. `simflip mark` makes an entry of each line of JSON, even without a text. Files of Parquet
/// and Arrow hand over nothing.
///
/// # Errors
/// The first error of `each`. Corruption is passed over.
pub(crate) fn each_record(
    input: &Input,
    options: &ReadOptions,
    mut each: impl FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let read = ReadInput { shard: 0, input, options };
    let (mut reader, mut block) = (Reader::open(read), Block::default());
    while reader.next_block(&mut block) {
        for span in &block.records.spans {
            each(span.id.row, &block.records.bytes[span.content_start..span.content_end])?;
        }
    }
    Ok(())
}

/// Decoded bytes from some place of a stored file on, decoded just as [`super::read`] does, corruption and all.
struct FetchStream {
    source: Source,
    feed: Feed,
    /// Stored offset of the place.
    offset: u64,
}

impl FetchStream {
    fn open(input: &Input, rules: &ReadRules, offset: u64) -> std::io::Result<Self> {
        let mut file = input.storage.open()?;
        file.move_to(offset)?;
        let source = Source::new(file, input.compression, input.format, &input.dictionary, rules)?;
        Ok(Self { source, feed: Feed::new(input.compression == Compression::None), offset })
    }

    /// The decoded bytes of one record; `None` if there are not as many.
    fn record(&mut self, place: Place) -> Option<&[u8]> {
        let end = place.within.checked_add(place.length)?;
        while self.feed.decoded() < end {
            // What lies before the record is dropped from time to time.
            let dead = (place.within - self.feed.base).min(self.feed.filled as u64) as usize;
            if dead >= STEP {
                self.feed.bytes.copy_within(dead..self.feed.filled, 0);
                self.feed.filled -= dead;
                self.feed.base += dead as u64;
                self.feed.starts.clear();
                self.feed.breaks.clear();
            }
            if !self.source.fill(&mut self.feed) {
                return None;
            }
        }
        let from = (place.within - self.feed.base) as usize;
        self.feed.bytes.get(from..from + place.length as usize)
    }
}

/// The record that fills `bytes`.
fn span(bytes: &[u8], format: Format, id: DocId, place: Place) -> Option<Span> {
    let (content_start, raw) = match format {
        // The length it names is not looked at again: what was read as its text is what the place says.
        Format::Wet => wet::content_of_document(bytes)?,
        _ => (0, false),
    };
    let end = bytes.len();
    Some(Span { start: 0, content_start, content_end: end, end, id, record: 0, raw, place, member: None })
}

/// The header block of the WARC record at a place.
///
/// # Errors
/// If the file cannot be read, or there is no such record.
pub(crate) fn header_at(input: &Input, options: &ReadOptions, place: Place) -> std::io::Result<Vec<u8>> {
    let mut stream = FetchStream::open(input, &options.rules, place.offset)?;
    let record = stream.record(place).unwrap_or_default();
    let (end, _) = wet::content_of_document(record).ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok(record[..end].to_vec())
}

/// The error for a file that no longer holds what was read before: `field` was `expected`, and is `got`.
pub(crate) fn read_otherwise(input: &Input, field: &'static str, expected: String, got: String) -> Error {
    let path = input.path.clone();
    Error::Format { path, field, expected, got, advice: "was the file changed during the run?" }
}

/// Reads chosen documents again and hands them to `each`, in the order of `wanted`.
///
/// `wanted` holds ids and places as [`super::read`] gave them; sorted by id is fastest, since documents of
/// one compressed stream are then reached in one pass.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read, [`Error::Format`] if a place does not hold a document, as when the
/// file was changed since. The documents before it were handed out.
pub fn fetch(
    inputs: &[Input],
    options: &ReadOptions,
    wanted: &[(DocId, Place)],
    mut each: impl FnMut(Document<'_>),
) -> Result<()> {
    for of_file in wanted.chunk_by(|before, next| before.0.shard == next.0.shard) {
        let shard = of_file[0].0.shard;
        let (got, files) = (format!("file {shard}"), inputs.len());
        let unknown = || Error::parameter("document", got, format!("one of the {files} files"));
        let input = inputs.get(shard as usize).ok_or_else(unknown)?;
        let changed = |place: Place, got| {
            let Place { offset, within, length, .. } = place;
            let expected = format!("a record of {length} bytes at offset {offset} (+{within})");
            read_otherwise(input, "a document read before", expected, got)
        };
        if input.format.is_columnar() {
            parquet::fetch(input, options, of_file, &mut each, changed)?;
            continue;
        }
        let (read, room) =
            (ReadInput { shard, input, options }, DocumentRoom::new(options.record_cap, u64::MAX));
        let mut open: Option<FetchStream> = None;
        for &(id, place) in of_file {
            let stream = match &mut open {
                Some(stream) if stream.offset == place.offset && stream.feed.base <= place.within => stream,
                _ => {
                    let stream = FetchStream::open(input, &options.rules, place.offset);
                    open.insert(stream.map_err(|e| Error::io(&input.path, e))?)
                }
            };
            let bytes = stream.record(place).unwrap_or_default();
            let content = span(bytes, input.format, id, place).map(|span| read.content(&span, bytes, &room));
            let why = match content {
                Some(Ok(Some((content, _)))) => {
                    each(content.document(id, place));
                    continue;
                }
                Some(Err((_, why))) => why,
                _ => "no whole record".to_owned(),
            };
            return Err(changed(place, why));
        }
    }
    Ok(())
}
