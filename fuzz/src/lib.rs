//! What must hold of any bytes that we read: one function for each target.
//!
//! `fuzz/weekly.sh` runs all of them under cargo-fuzz, with coverage to guide it, where that can be had.
//! `cargo test -p simflip-fuzz` runs them under any compiler, on mutations of the specimens of `tests/`.

use std::path::Path;
use std::sync::Once;

use flate2::{Decompress, FlushDecompress, Status};
use simflip::corpus::{
    Corruption, DiscoverOptions, Format, JsonlFields, Place, ReadOptions, discover, fetch, read, write_kept,
};
use simflip::document::DocId;
use simflip::evaluate::found::RecordNames;
use simflip::evaluate::judged::read_judgements;
use simflip::evaluate::truth::{TruthFile, TruthParams};
use simflip::format::{KINDS, Kind};
use simflip::frequencies;
use simflip::inspect::inspect;
use simflip::kernel::inflate::{InflateError, Inflater};
use simflip::report::model::{read_json, write_json};
use simflip::report::{Report, html};
use simflip::seen::{Access, Request, Seen, SeenParams};
use simflip::settings::Settings;
use simflip::sketch::Sketcher;
use simflip::tables::{ClustersReader, PairsReader};
use simflip::text::{FeatureExtractor, FeatureKind, Tokenizer};

type Documents = Vec<(DocId, Place, String)>;

/// The magic of a skippable Zstandard frame that holds a dictionary.
const DICTIONARY: &[u8] = b"]*M\x18";

/// Names of fields to read some bytes by: the usual ones, fields of objects, and several for one text.
fn fields_for(bytes: &[u8]) -> JsonlFields {
    let (text, id, url) = match bytes.len() % 3 {
        0 => ("text", "id", "url"),
        1 => ("text,id,tags", "page.id", "page.url"),
        _ => ("tags", "/page/url", "text"),
    };
    JsonlFields { text: text.into(), id: id.into(), url: url.into(), ..JsonlFields::default() }
}

fn read_all(
    path: &Path,
    (format, fields): (Format, &JsonlFields),
    threads: usize,
    block_bytes: usize,
) -> (Documents, Vec<Corruption>, [u64; 8]) {
    let options = ReadOptions { threads, block_bytes, fields: fields.clone(), ..ReadOptions::default() };
    let discovery = DiscoverOptions { format: Some(format), fields: fields.clone() };
    let Ok(inputs) = discover(&[path.into()], &discovery) else {
        return Default::default();
    };
    let reading =
        read(&inputs, &options, Vec::new, |all, d| all.push((d.id, d.place, d.text.to_owned())), &|_| {});
    let mut documents: Documents = reading.workers.concat();
    documents.sort();
    let Some(file) = reading.files.into_iter().next() else { return Default::default() };
    let counts = [
        file.records,
        file.documents,
        file.stored_bytes,
        file.corrupt,
        file.documents_lost,
        file.unknown_losses,
        file.repaired,
        file.without_text,
    ];
    (documents, file.corruption, counts)
}

/// Any threads and blocks read the same; every document can be fetched; what is kept reads back as it was.
fn stored(bytes: &[u8], format: Format) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("input");
    std::fs::write(&path, bytes).expect("a file");
    let fields = fields_for(bytes);
    let how = (format, &fields);
    let first = read_all(&path, how, 1, 1 << 20);
    assert_eq!(first, read_all(&path, how, 1, 1));
    assert_eq!(first, read_all(&path, how, 2, 100));
    let discovery = DiscoverOptions { format: Some(format), fields: fields.clone() };
    let inputs = match discover(&[path], &discovery) {
        // A file is refused as a whole if its header has no end, or if its Zstandard dictionary does not decode.
        Err(_) if format == Format::Csv || bytes.starts_with(DICTIONARY) => return,
        found => found.expect("the file is there"),
    };
    let options = ReadOptions { threads: 1, fields: fields.clone(), ..ReadOptions::default() };
    let wanted: Vec<(DocId, Place)> = first.0.iter().map(|d| (d.0, d.1)).collect();
    let mut fetched: Documents = Vec::new();
    fetch(&inputs, &options, &wanted, |d| fetched.push((d.id, d.place, d.text.to_owned())))
        .expect("all there");
    assert_eq!(first.0, fetched);
    let is_same = |id, text: &str| first.0.iter().any(|d| d.0 == id && d.2 == text);
    let kept = write_kept(&inputs, &options, &wanted, &is_same, &dir.path().join("kept")).expect("writes");
    // Of these whole rows are kept, and columns that had not been read may be corrupt.
    assert!(matches!(format, Format::Parquet | Format::Arrow) || kept.lost.is_empty(), "{:?}", kept.lost);
    if kept.lost.is_empty() {
        let back: Documents =
            kept.files.iter().flat_map(|file| read_all(&file.path, how, 1, 1000).0).collect();
        assert!(first.0.iter().map(|d| &d.2).eq(back.iter().map(|d| &d.2)));
    }
}

/// Any bytes as a stored file, of each format of a stream.
pub fn stored_file(bytes: &[u8]) {
    stored(bytes, Format::Wet);
    stored(bytes, Format::Jsonl);
    stored(bytes, Format::Csv);
}

/// Any bytes as a Parquet file, and as an Arrow file or stream.
pub fn parquet_file(bytes: &[u8]) {
    static QUIET: Once = Once::new();
    // The crates panic on some files, and report such a panic as corruption. The fuzzer's hook would end the process
    // there; other panics still end it.
    QUIET.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !simflip::corpus::panic_is_corruption() {
                usual(panic);
            }
        }));
    });
    stored(bytes, Format::Parquet);
    stored(bytes, Format::Arrow);
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Pieces of a file, each a member, a frame, or, as it is, something between the two.
pub fn packed_pieces(how: u8, pieces: &[Vec<u8>]) {
    let format = match (how & 1, how >> 3 & 1) {
        (0, _) => Format::Wet,
        (_, 0) => Format::Jsonl,
        _ => Format::Csv,
    };
    let packed = pieces.iter().enumerate().flat_map(|(i, piece)| match how >> 1 & 3 {
        0 => zstd::encode_all(&piece[..], 1).expect("memory"),
        1 if i % 4 == 3 => piece.clone(),
        _ => gz(piece),
    });
    stored(&packed.collect::<Vec<u8>>(), format);
}

/// The same of plain bytes: the first says how, and each of these begins a piece.
pub fn packed_records(bytes: &[u8]) {
    let (&how, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let pieces: Vec<Vec<u8>> = rest.split(|&byte| byte == 0xfe).map(<[u8]>::to_vec).collect();
    packed_pieces(how, &pieces);
}

/// Where the deflate stream of a member begins, by RFC 1952; the checksum of the header is not looked at.
fn behind_header(bytes: &[u8]) -> Option<usize> {
    let &flags = bytes.get(3).filter(|_| bytes.starts_with(&[0x1f, 0x8b, 8]))?;
    if flags & 0xe0 != 0 || bytes.len() < 10 {
        return None;
    }
    let mut at = 10;
    if flags & 4 != 0 {
        let length = bytes.get(at..at + 2)?;
        at += 2 + usize::from(length[0]) + (usize::from(length[1]) << 8);
    }
    for flag in [8, 16] {
        if flags & flag != 0 {
            at += bytes.get(at..)?.iter().position(|&byte| byte == 0)? + 1;
        }
    }
    at += if flags & 2 != 0 { 2 } else { 0 };
    (at <= bytes.len()).then_some(at)
}

/// A member by the other decoder, which reads what the first refuses: stored bytes, and the content; none if it
/// is corrupt.
fn by_the_other(bytes: &[u8], room: usize) -> Option<(usize, Vec<u8>)> {
    let start = behind_header(bytes)?;
    let mut raw = Decompress::new(false);
    let mut content = vec![0; room];
    let status = raw.decompress(&bytes[start..], &mut content, FlushDecompress::Finish).ok()?;
    let end = start + raw.total_in() as usize;
    content.truncate(raw.total_out() as usize);
    let trailer = bytes.get(end..end + 8)?;
    (status == Status::StreamEnd && is_trailer_of(trailer, &content)).then_some((end + 8, content))
}

/// Whether these are the checksum and the length that end a member.
fn is_trailer_of(trailer: &[u8], content: &[u8]) -> bool {
    let sums = [crc32fast::hash(content), content.len() as u32];
    trailer.iter().copied().eq(sums.into_iter().flat_map(u32::to_le_bytes))
}

/// libdeflate, through our call, against zlib behind our header: what zlib takes libdeflate takes, and they decode
/// it alike.
///
/// libdeflate takes a little more, as it says where it builds its tables: codes of lengths with one word, and the
/// two symbols that a fixed code has and no encoder writes. What it takes alone has the checksum and the length
/// that the member says.
pub fn gzip_member(bytes: &[u8]) {
    const ROOM: usize = 1 << 16;
    let mut output = vec![0; ROOM];
    let other = by_the_other(bytes, ROOM + 1);
    match Inflater::new().gzip_member(bytes, &mut output) {
        Ok(done) => {
            let decoded = &output[..done.produced];
            match other {
                Some((end, content)) => assert_eq!((done.consumed, decoded), (end, &content[..])),
                None => {
                    let start = behind_header(bytes).expect("a header that is whole");
                    assert!(start + 8 <= done.consumed && done.consumed <= bytes.len());
                    assert!(is_trailer_of(&bytes[done.consumed - 8..done.consumed], decoded));
                }
            }
        }
        Err(InflateError::InsufficientSpace) => {
            assert!(other.is_none_or(|(_, content)| content.len() > ROOM))
        }
        Err(InflateError::BadData) => assert!(other.is_none(), "libdeflate takes what zlib takes"),
    }
}

/// Any header and body in an envelope that is right, since the fuzzer cannot make checksums; and any bytes.
pub fn binary_file(bytes: &[u8]) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("file");
    let try_all = || {
        let _ = inspect(&path);
        let _ = frequencies::load(&path, FeatureKind::Shingles(3));
        let _ = frequencies::load(&path, FeatureKind::Words);
        use_index(&path);
    };
    std::fs::write(&path, bytes).expect("a file");
    try_all();
    log_of_an_index(dir.path(), bytes);
    let Some((&[kind, low, high], rest)) = bytes.split_first_chunk() else { return };
    let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (header, body) = rest.split_at(length);
    let Ok(header) = serde_json::from_slice::<serde_json::Value>(header) else { return };
    let kind = KINDS[usize::from(kind) % KINDS.len()];
    let version = kind.version;
    std::fs::remove_file(&path).expect("the file");
    simflip::format::write(&path, Kind { version, ..kind }, &header, &[body]).expect("a file");
    try_all();
}

/// Opens an index, adds a page, and opens it again.
fn use_index(path: &std::path::Path) {
    let Ok(mut seen) = Seen::open(path, Access::Write { fsync: false }, None) else { return };
    let Ok(mut sketcher) = Sketcher::new(&seen.params().settings, None) else { return };
    let before = seen.len();
    let request = Request { name: "page", seen: 7, ..Request::default() };
    seen.ask_and_add(&request, &sketcher.sketch("a page of a few words")).expect("there is room");
    seen.commit().expect("a log");
    seen.delivered().expect("a log");
    let pages = seen.len();
    seen.snapshot().expect("a snapshot");
    drop(seen);
    let again = Seen::open(path, Access::Read, None).expect("what was saved");
    assert!(again.len() == pages && pages <= before + 1 && again.notes().is_empty());
}

/// The bytes behind the header of a log that is right.
fn log_of_an_index(folder: &std::path::Path, bytes: &[u8]) {
    let index = folder.join("index");
    let params = SeenParams { settings: Settings::default(), frequencies: None };
    drop(Seen::open(&index, Access::Write { fsync: false }, Some(&params)).expect("an index"));
    let log = index.join("log-00000001");
    let mut whole = std::fs::read(&log).expect("a log");
    whole.extend_from_slice(bytes);
    std::fs::write(&log, whole).expect("a log");
    let _ = inspect(&index);
    use_index(&index);
}

/// Any bytes as a truth, as judgements, and as our own tables.
pub fn tables(bytes: &[u8]) {
    let dir = tempfile::tempdir().expect("a folder");
    let ids: Vec<String> = ["a", "b", "=c", "0", "1"].map(str::to_owned).to_vec();
    let records = RecordNames::new(&ids).expect("different ids");
    for name in ["truth.csv", "pairs.csv", "clusters.csv"] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        let _ = inspect(&path);
    }
    let path = dir.path().join("truth.csv");
    let _ = TruthFile::read(&path, &records, &TruthParams::default());
    let _ = read_judgements(&path, 0.5, None);
    if let Ok(mut pairs) = PairsReader::open(&path) {
        while let Ok(Some(pair)) = pairs.next_row() {
            let _ =
                (pair.a_id(), pair.b_id(), pair.distance(), pair.similarity(), pair.kind(), pair.measure());
        }
    }
    if let Ok(mut clusters) = ClustersReader::open(&path) {
        while let Ok(Some(row)) = clusters.next_row() {
            let _ = (row.id(), row.cluster(), row.size(), row.kept());
        }
    }
}

/// Any bytes as a report.json that is read back: by itself, in a folder, as a page.
pub fn report(bytes: &[u8]) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("report.json");
    std::fs::write(&path, bytes).expect("a file");
    let _ = inspect(&path);
    if let Ok(report) = Report::read_json(&path) {
        if let Ok(page) = html::render(&report) {
            std::fs::write(dir.path().join("report.html"), page).expect("a file");
            let _ = inspect(dir.path());
        }
        write_json(&report, &path).expect("writes");
        let again = Report::read_json(&path).expect("what was written");
        assert_eq!(again.files, report.files);
    }
    if let Ok(report) = read_json(&path) {
        let _ = html::render_compare(&report);
    }
}

/// The tokeniser and features on any text: nothing depends on what the buffers held, and texts that a line end
/// parts have the words of both.
pub fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut used = Tokenizer::default();
    used.words("Zuerst etwas anderes: 東京 e\u{301} \u{1f600}");
    let words = used.words(&text);
    assert_eq!(words, Tokenizer::default().words(&text));
    assert!(words.iter().all(|word| !word.is_empty()));
    let at = text.floor_char_boundary(text.len() / 2);
    let (left, right) = text.split_at(at);
    let apart = [used.words(left), used.words(right)].concat();
    // A mark that nothing stands before belongs to nothing, on either side.
    assert_eq!(used.words(&format!("{left}\n{right}")), apart);
    for kind in [FeatureKind::Words, FeatureKind::Shingles(1), FeatureKind::Shingles(3)] {
        let mut extractor = FeatureExtractor::new(kind);
        let features = |extractor: &mut FeatureExtractor| {
            let mut features = Vec::new();
            extractor.extract(&text, |feature| features.push(feature));
            features
        };
        let first = features(&mut extractor);
        assert_eq!(first, features(&mut extractor));
        let counted: u64 = extractor.counts(&text).iter().map(|&(_, n)| u64::from(n)).sum();
        assert_eq!(counted, first.len() as u64);
    }
}
