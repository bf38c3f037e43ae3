//! Pages of a column, none of which can ask for more memory than its stored bytes can fill.

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length, SerializedPageReader};
use parquet::schema::types::ColumnDescriptor;

use super::claims::{self, PageSizes};
use crate::corpus::damage::IN_MEMORY;
use crate::corpus::storage::StoredFile;

/// Bytes of pages that one batch of values may stand in, beyond the page in which it begins.
const BATCH_BYTES: u64 = 16 << 20;
/// The longest page header that is read; they hold the least and the greatest value of the page.
const HEADER_CAP: u64 = 1 << 20;
/// The largest page that is read, decoded. A page is in memory whole; the format ends at twice this.
const PAGE_CAP: u64 = 1 << 30;
/// Most values in a page. Writers stop at thousands; a page of equal values may hold more.
const PAGE_VALUES: u64 = 1 << 26;
/// The same where the reader makes room for the lengths of all strings of a page at once.
const PAGE_LENGTHS: u64 = 1 << 24;

/// Some decoders do not stop at the size that a page claims, but only at a thousand times its bytes. Pages
/// above this many are decoded for their size first, and those of Brotli all.
const UNWATCHED: usize = 1 << 20;

fn refuse(what: impl Into<String>) -> ParquetError {
    ParquetError::General(what.into())
}

/// Bytes that the reader keeps of an entry of a dictionary, beside those of its page.
const ENTRY: u64 = 32;

/// How large the pages of a row group may be that are in memory at once.
#[derive(Debug)]
pub(super) struct Limit {
    /// Bytes of a record at most.
    most: AtomicU64,
    /// Bytes of the pages of all columns that are being read.
    held: AtomicU64,
    /// Bytes that a record would have to have to be as large as pages of which one is not read; 0 where there is none.
    exceeded: AtomicU64,
}

impl Default for Limit {
    fn default() -> Self {
        Self { most: AtomicU64::new(u64::MAX), held: AtomicU64::new(0), exceeded: AtomicU64::new(0) }
    }
}

impl Limit {
    /// From now on a record may have so many bytes.
    pub fn set(&self, most: u64) {
        self.most.store(most, Relaxed);
    }

    /// Whether so many bytes may be held instead of others.
    fn allows(&self, bytes: u64, instead: u64) -> bool {
        let held = self.held.load(Relaxed).saturating_sub(instead).saturating_add(bytes);
        let record = held.div_ceil(IN_MEMORY);
        let is_allowed = record <= self.most.load(Relaxed);
        if is_allowed {
            self.held.store(held, Relaxed);
        } else {
            self.exceeded.fetch_max(record, Relaxed);
        }
        is_allowed
    }

    /// So many bytes are held no more.
    fn let_go(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
    }

    /// Bytes of the pages that are held.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Bytes of pages of one batch.
    fn batch(&self) -> u64 {
        self.most.load(Relaxed).saturating_mul(2).min(BATCH_BYTES)
    }

    /// Bytes of the records that a page which was not read stands for.
    pub fn exceeded(&self) -> Option<u64> {
        Some(self.exceeded.load(Relaxed)).filter(|&bytes| bytes > 0)
    }
}

/// A stored file, read by one thread at a time.
pub(super) struct Stored {
    file: Mutex<StoredFile>,
    length: u64,
    limit: Arc<Limit>,
}

impl Stored {
    pub fn new(file: StoredFile) -> io::Result<Self> {
        Self::within_limit(file, &Arc::default())
    }

    /// One of which no page is read that is too large.
    pub fn within_limit(file: StoredFile, limit: &Arc<Limit>) -> io::Result<Self> {
        let length = file.length()?;
        Ok(Self { file: Mutex::new(file), length, limit: limit.clone() })
    }

    /// The same for someone who is going to read these bytes of it: of an object they are read ahead.
    pub fn within(self: &Arc<Self>, from: u64, end: u64) -> io::Result<Arc<Self>> {
        let file = match &*self.file.lock().unwrap_or_else(PoisonError::into_inner) {
            StoredFile::File(_) => return Ok(self.clone()),
            StoredFile::Object(reader) => Mutex::new(StoredFile::Object(reader.within(from, end))),
        };
        Ok(Arc::new(Self { file, length: self.length, limit: self.limit.clone() }))
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes from an offset on, `None` if there are not as many.
    pub fn bytes(&self, start: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        if start.checked_add(length).is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(length as usize);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(start))?;
        (&mut *file).take(length).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 == length).then_some(bytes))
    }
}

/// What is in memory of a column chunk.
struct Held {
    limit: Arc<Limit>,
    /// What the page header read last says of its page.
    page: Mutex<PageSizes>,
    /// Bytes of the dictionary, and of the page.
    bytes: [AtomicU64; 2],
}

impl Held {
    fn new(limit: Arc<Limit>) -> Self {
        Self { limit, page: Mutex::default(), bytes: Default::default() }
    }

    /// The page whose header was read last.
    fn page(&self) -> PageSizes {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a page may be read, which is in memory as it is stored and as it is decoded; then it is the last one.
    fn allows(&self, page: PageSizes) -> bool {
        let bytes =
            page.decoded.saturating_add(page.stored).saturating_add(ENTRY.saturating_mul(page.entries));
        let held = &self.bytes[usize::from(page.entries == 0)];
        let is_allowed = self.limit.allows(bytes, held.load(Relaxed));
        if is_allowed {
            held.store(bytes, Relaxed);
            *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
        }
        is_allowed
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bytes.iter().for_each(|bytes| self.limit.let_go(bytes.load(Relaxed)));
    }
}

/// A column chunk in a stored file.
struct Chunk {
    stored: Arc<Stored>,
    compression: Compression,
    held: Arc<Held>,
}

/// How much longer a page can get when it is decoded: what the format of its compression allows.
fn growth(compression: Compression) -> u64 {
    match compression {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 32,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1040,
        // What is repeated costs next to nothing; pages are decoded for their size before.
        Compression::BROTLI(_) => 1 << 20,
        // A frame of repeated bytes; the decoder makes room only as it fills it.
        _ => 1 << 16,
    }
}

/// A page header, read and checked when it is asked for: the reader also opens one where it has read it
/// already.
struct Header {
    stored: Arc<Stored>,
    growth: u64,
    held: Arc<Held>,
    start: u64,
    bytes: Option<Cursor<Vec<u8>>>,
}

impl Header {
    fn load(&self) -> io::Result<Vec<u8>> {
        let rest = self.stored.length.saturating_sub(self.start);
        let mut length = rest.min(512);
        loop {
            let bytes = self.stored.bytes(self.start, length)?;
            let bytes = bytes.ok_or_else(|| io::Error::other("a page lies behind the end of the file"))?;
            match claims::page_sizes(&bytes) {
                Ok(sizes) if sizes.decoded > (sizes.stored + 64).saturating_mul(self.growth) => {
                    let PageSizes { stored, decoded, .. } = sizes;
                    let what = format!("a page of {stored} bytes that claims to hold {decoded}");
                    return Err(io::Error::other(what));
                }
                Ok(sizes) if sizes.decoded.max(sizes.stored) > PAGE_CAP => {
                    let what = format!("a page of {} bytes; the most is {PAGE_CAP}", sizes.decoded);
                    return Err(io::Error::other(what));
                }
                Ok(sizes) if !self.held.allows(sizes) => {
                    return Err(io::Error::other("a page above what there is memory for"));
                }
                Ok(_) => return Ok(bytes),
                Err(refusal) if claims::is_cut(refusal) && length < rest.min(HEADER_CAP) => {
                    length = (length * 8).min(rest).min(HEADER_CAP);
                }
                Err(refusal) => return Err(io::Error::other(format!("no page header: {refusal}"))),
            }
        }
    }
}

impl Read for Header {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = match &mut self.bytes {
            Some(bytes) => bytes,
            None => {
                let loaded = self.load()?;
                self.bytes.insert(Cursor::new(loaded))
            }
        };
        bytes.read(into)
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.stored.length
    }
}

impl ChunkReader for Chunk {
    type T = Header;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let (stored, held) = (self.stored.clone(), self.held.clone());
        Ok(Header { stored, growth: growth(self.compression), held, start, bytes: None })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.stored.bytes(start, length as u64)?;
        let bytes = bytes.ok_or_else(|| refuse("a page goes beyond the end of the file"))?;
        let is_brotli = matches!(self.compression, Compression::BROTLI(_));
        let page = self.held.page();
        if (length > UNWATCHED || is_brotli) && !page.is_plain {
            let packed = bytes.get(page.levels as usize..).unwrap_or_default();
            let room = page.decoded.saturating_sub(page.levels);
            // What is no stream of its compression does not outgrow its size either: the reader refuses it.
            let decoded = match self.compression {
                Compression::GZIP(_) => {
                    let mut decoder = flate2::read::MultiGzDecoder::new(packed).take(room + 1);
                    io::copy(&mut decoder, &mut io::sink()).unwrap_or(0)
                }
                // It may grow a million times.
                Compression::BROTLI(_) => {
                    let mut decoder = brotli::Decompressor::new(packed, 1 << 16).take(room + 1);
                    io::copy(&mut decoder, &mut io::sink()).unwrap_or(0)
                }
                // A frame, which the format does not have, but the decoder tries.
                Compression::LZ4 if packed.starts_with(&[0x04, 0x22, 0x4d, 0x18]) => u64::MAX,
                _ => 0,
            };
            if decoded > room {
                return Err(refuse(format!("a page of more than the {room} bytes that it claims to hold")));
            }
        }
        Ok(bytes.into())
    }
}

/// What a column's reader and its pages tell one another.
pub(super) struct Turn {
    limit: Arc<Limit>,
    /// Bytes of pages that may still be added to the batch.
    left: AtomicU64,
    /// Each value may be as long as this because it repeats the one before, without sharing its memory.
    widest: AtomicU64,
    ended: AtomicBool,
}

impl Turn {
    fn new(limit: Arc<Limit>) -> Self {
        Self { limit, left: AtomicU64::new(0), widest: AtomicU64::new(0), ended: AtomicBool::new(false) }
    }

    /// A new batch; returns how many values it may hold.
    pub fn begin(&self, wanted: usize) -> usize {
        let most = self.limit.batch();
        self.left.store(most, Relaxed);
        match self.widest.load(Relaxed) {
            0 => wanted,
            widest => wanted.min((most / widest).max(1) as usize),
        }
    }

    /// No page is left.
    pub fn ended(&self) -> bool {
        self.ended.load(Relaxed)
    }
}

/// The pages of a column chunk.
pub(super) struct Pages {
    reader: SerializedPageReader<Chunk>,
    column: Arc<ColumnDescriptor>,
    turn: Arc<Turn>,
    held: Arc<Held>,
    /// A page that must wait for the next batch.
    waiting: Option<Page>,
}

impl Pages {
    /// # Errors
    /// If the chunk's place or compression is none.
    pub fn open(
        stored: &Arc<Stored>,
        chunk: &ColumnChunkMetaData,
        column: Arc<ColumnDescriptor>,
        rows: usize,
    ) -> Result<(Self, Arc<Turn>)> {
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let begun = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        let range = begun.and_then(|(start, length)| Some((start, start.checked_add(length)?)));
        let Some((from, end)) = range.filter(|&(_, end)| end <= stored.length) else {
            return Err(refuse(format!(
                "its pages would be {} bytes at offset {start} of a file of {}",
                chunk.compressed_size(),
                stored.length
            )));
        };
        let (stored, compression) = (stored.within(from, end)?, chunk.compression());
        let turn = Arc::new(Turn::new(stored.limit.clone()));
        let held = Arc::new(Held::new(stored.limit.clone()));
        let file = Arc::new(Chunk { stored, compression, held: held.clone() });
        let reader = SerializedPageReader::new(file, chunk, rows, None)?;
        Ok((Self { reader, column, turn: turn.clone(), held, waiting: None }, turn))
    }

    /// Bytes of the largest page that is left, decoded, or of its values, of which each has so many: no page is read.
    pub fn largest(&mut self, value: u64) -> Result<u64> {
        let mut largest = 0;
        while let Some(page) = self.reader.peek_next_page()? {
            let values = value * page.num_levels.unwrap_or(0) as u64;
            largest = largest.max(self.held.page().decoded).max(values);
            self.reader.skip_next_page()?;
        }
        Ok(largest)
    }

    /// Holds the numbers of a page against its bytes.
    fn check(&self, page: &Page) -> Result<()> {
        let (values, length) = (u64::from(page.num_values()), page.buffer().len() as u64);
        let room = match page {
            Page::DictionaryPage { .. } => match self.column.physical_type() {
                Type::BOOLEAN => length.saturating_mul(8),
                Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => length / 4,
                Type::INT64 | Type::DOUBLE => length / 8,
                Type::INT96 => length / 12,
                Type::FIXED_LEN_BYTE_ARRAY => length / self.column.type_length().max(1) as u64,
            },
            _ => PAGE_VALUES,
        };
        if values > room {
            return Err(refuse(format!("a page of {length} bytes that claims to hold {values} values")));
        }
        let too_many = |(count, end): (u64, usize)| {
            if count > values.min(PAGE_LENGTHS) {
                return Err(refuse(format!("lengths of {count} strings in a page of {values}")));
            }
            Ok(end)
        };
        let cut = |refusal| refuse(format!("lengths of strings: {refusal}"));
        let strings = |page: &Page| -> Result<Option<Bytes>> {
            let start = self.start_of_values(page)?;
            let bytes = page.buffer();
            if start > bytes.len() {
                return Err(refuse("levels beyond the end of their page"));
            }
            Ok(Some(bytes.slice(start..)))
        };
        match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                if let Some(bytes) = strings(page)? {
                    claims::delta_run(&bytes).map_err(cut).and_then(too_many)?;
                }
            }
            Encoding::DELTA_BYTE_ARRAY => {
                if let Some(bytes) = strings(page)? {
                    let end = claims::delta_run(&bytes).map_err(cut).and_then(too_many)?;
                    claims::delta_run(&bytes[end..]).map_err(cut).and_then(too_many)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the values of a data page begin, behind the levels.
    fn start_of_values(&self, page: &Page) -> Result<usize> {
        match page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                Ok(*def_levels_byte_len as usize + *rep_levels_byte_len as usize)
            }
            Page::DataPage { buf, num_values, def_level_encoding, rep_level_encoding, .. } => {
                let mut start = 0;
                for (level, encoding) in [
                    (self.column.max_rep_level(), rep_level_encoding),
                    (self.column.max_def_level(), def_level_encoding),
                ] {
                    if level == 0 {
                        continue;
                    }
                    if *encoding == Encoding::RLE {
                        let length = buf.get(start..).and_then(|rest| rest.first_chunk::<4>());
                        let length = length.ok_or_else(|| refuse("levels beyond the end of their page"))?;
                        start += 4 + u32::from_le_bytes(*length) as usize;
                    } else {
                        let width = usize::try_from(level.ilog2() + 1).unwrap_or(16);
                        start += (*num_values as usize * width).div_ceil(8);
                    }
                }
                Ok(start)
            }
            Page::DictionaryPage { .. } => Ok(0),
        }
    }
}

impl PageReader for Pages {
    /// The next page; none also when the batch is full, see [`Turn`].
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        // Values of repeated fields go over the ends of pages, so their batches are not stopped.
        let flat = self.column.max_rep_level() == 0;
        let left = self.turn.left.load(Relaxed);
        if flat && left == 0 && !self.turn.ended() {
            return Ok(None);
        }
        let page = match self.waiting.take() {
            Some(page) => page,
            None => match self.reader.get_next_page()? {
                Some(page) => page,
                None => {
                    self.turn.ended.store(true, Relaxed);
                    return Ok(None);
                }
            },
        };
        self.check(&page)?;
        let length = page.buffer().len() as u64;
        if flat && page.encoding() == Encoding::DELTA_BYTE_ARRAY && self.turn.widest.load(Relaxed) < length {
            self.turn.widest.store(length, Relaxed);
            self.turn.left.store(0, Relaxed);
            self.waiting = Some(page);
            return Ok(None);
        }
        self.turn.left.store(left.saturating_sub(length), Relaxed);
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        match &self.waiting {
            Some(page) => {
                let levels = Some(page.num_values() as usize);
                Ok(Some(PageMetadata { num_rows: levels, num_levels: levels, is_dict: false }))
            }
            None => {
                let next = self.reader.peek_next_page()?;
                // Who passes over values asks here only.
                if next.is_none() {
                    self.turn.ended.store(true, Relaxed);
                }
                Ok(next)
            }
        }
    }

    fn skip_next_page(&mut self) -> Result<()> {
        match self.waiting.take() {
            Some(_) => Ok(()),
            None => self.reader.skip_next_page(),
        }
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn chunk(bytes: &[u8], compression: Compression) -> Chunk {
        let mut file = tempfile::tempfile().expect("temp file");
        file.write_all(bytes).expect("writes");
        let stored = Arc::new(Stored::new(StoredFile::File(file)).expect("a size"));
        Chunk { stored, compression, held: Arc::new(Held::new(Arc::default())) }
    }

    /// A page header that claims these sizes.
    fn header(stored: usize, decoded: usize) -> Vec<u8> {
        let mut bytes = vec![0x15, 0];
        for size in [decoded, stored] {
            bytes.push(0x15);
            let mut zigzag = size << 1;
            while zigzag >= 0x80 {
                bytes.push(zigzag as u8 | 0x80);
                zigzag >>= 7;
            }
            bytes.push(zigzag as u8);
        }
        bytes.push(0);
        bytes
    }

    fn read_header(chunk: &Chunk) -> io::Result<usize> {
        chunk.get_read(0).expect("nothing is read yet").read(&mut [0; 4])
    }

    #[test]
    fn no_page_claims_more_than_its_bytes_can_hold() {
        let gzip = Compression::GZIP(Default::default());
        for (compression, stored, decoded, fits) in [
            (Compression::UNCOMPRESSED, 1000, 1000, true),
            (Compression::UNCOMPRESSED, 1000, 2000, false),
            (Compression::SNAPPY, 1000, 20_000, true),
            (Compression::SNAPPY, 1000, 2_000_000, false),
            (gzip, 1000, 1_000_000, true),
            (gzip, 1000, 2_000_000_000, false),
            (Compression::LZ4_RAW, 1000, 2_000_000, false),
            (Compression::ZSTD(Default::default()), 1_000_000, 1_000_000_000, true),
            (Compression::ZSTD(Default::default()), 1_000_000, 2_000_000_000, false),
        ] {
            let chunk = chunk(&header(stored, decoded), compression);
            assert_eq!(read_header(&chunk).is_ok(), fits, "{compression}: {decoded} from {stored}");
        }
        let cut = header(100_000, 100_000);
        assert!(read_header(&chunk(&cut[..cut.len() - 2], gzip)).is_err());
        assert!(chunk(&[0; 10], gzip).get_bytes(5, usize::MAX).is_err());
    }

    #[test]
    fn pages_of_all_columns_count_as_long_as_they_are_held() {
        const MB: u64 = 1 << 20;
        let limit = Arc::new(Limit::default());
        limit.set((20 * MB).div_ceil(IN_MEMORY));
        let (ids, texts) = (Held::new(limit.clone()), Held::new(limit.clone()));
        let page = |decoded, entries| PageSizes { stored: MB, decoded, entries, ..PageSizes::default() };
        assert!(ids.allows(page(MB, MB / 8)), "a dictionary");
        assert_eq!(limit.held(), 2 * MB + 4 * MB);
        assert!(ids.allows(page(5 * MB, 0)) && texts.allows(page(6 * MB, 0)));
        assert_eq!(limit.held(), 19 * MB);
        assert!(!texts.allows(page(8 * MB, 0)), "beside those of the other column");
        assert_eq!(limit.exceeded(), Some((21 * MB).div_ceil(IN_MEMORY)));
        assert!(ids.allows(page(2 * MB, 0)) && texts.allows(page(8 * MB, 0)), "instead of larger ones");
        drop(ids);
        assert_eq!(limit.held(), 9 * MB);
        assert!(texts.allows(page(19 * MB, 0)));
    }

    #[test]
    fn a_page_of_brotli_holds_no_more_than_it_claims() {
        let mut packed = Vec::new();
        brotli::CompressorWriter::new(&mut packed, 4096, 5, 22).write_all(&vec![0; 9 << 20]).expect("memory");
        assert!(packed.len() < 4096);
        for (claim, fits) in [(9 << 20, true), (1 << 16, false)] {
            let start = header(packed.len(), claim);
            let bytes = [start.clone(), packed.clone()].concat();
            let chunk = chunk(&bytes, Compression::BROTLI(Default::default()));
            read_header(&chunk).expect("a header");
            assert_eq!(chunk.get_bytes(start.len() as u64, packed.len()).is_ok(), fits);
        }
    }

    #[test]
    fn a_page_stored_as_it_is_is_not_decoded() {
        let mut packed = Vec::new();
        brotli::CompressorWriter::new(&mut packed, 4096, 5, 22).write_all(&[0; 4096]).expect("memory");
        for (is_compressed, fits) in [(1, false), (2, true)] {
            // Its own bytes happen to be a stream of Brotli that holds more than they are.
            let mut start = header(packed.len(), packed.len());
            start.pop();
            start.extend([0x5c, 0x70 | is_compressed, 0, 0]);
            let chunk = chunk(&[&start[..], &packed].concat(), Compression::BROTLI(Default::default()));
            read_header(&chunk).expect("a header");
            assert_eq!(chunk.get_bytes(start.len() as u64, packed.len()).is_ok(), fits);
        }
    }

    #[test]
    fn large_pages_hold_no_more_than_they_claim() {
        let noise: Vec<u8> =
            (0..UNWATCHED as u64 / 4).flat_map(|i| crate::hash::fmix64(i).to_le_bytes()).collect();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&noise).expect("memory");
        let packed = encoder.finish().expect("memory");
        assert!(packed.len() > UNWATCHED);
        for (claim, fits) in [(noise.len(), true), (noise.len() - 1, false)] {
            let start = header(packed.len(), claim);
            let chunk =
                chunk(&[start.clone(), packed.clone()].concat(), Compression::GZIP(Default::default()));
            read_header(&chunk).expect("a header");
            assert_eq!(chunk.get_bytes(start.len() as u64, packed.len()).is_ok(), fits);
        }
    }
}
