//! What must hold of any file.
//!
//! `ASAN_OPTIONS=detect_odr_violation=0 cargo +nightly fuzz run stored_file` with the specimens of
//! `tests/` as a first corpus; libdeflate includes its tables twice, which the sanitizer would
//! take for a fault of ours.

use std::path::Path;

use flipside::corpus::{
    Damage, DiscoverOptions, Format, Place, ReadOptions, discover, fetch, read, write_kept,
};
use flipside::document::DocId;

type Documents = Vec<(DocId, Place, String)>;

fn read_all(path: &Path, format: Format, threads: usize, block_bytes: usize) -> (Documents, Vec<Damage>, [u64; 4]) {
    let options = ReadOptions { threads, block_bytes, ..ReadOptions::default() };
    let Ok(inputs) = discover(&[path.into()], &DiscoverOptions { format: Some(format), ..DiscoverOptions::default() }) else {
        return Default::default();
    };
    let reading =
        read(&inputs, &options, Vec::new, |all, d| all.push((d.id, d.place, d.text.to_owned())), &|_| {});
    let mut documents: Documents = reading.workers.concat();
    documents.sort();
    let Some(file) = reading.files.into_iter().next() else { return Default::default() };
    let counts = [file.records, file.documents, file.stored_bytes, file.damaged];
    (documents, file.damage, counts)
}

/// Any threads and blocks read the same; every document can be fetched; what is kept reads back as it was.
pub fn check(bytes: &[u8], format: Format) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("input");
    std::fs::write(&path, bytes).expect("a file");
    let first = read_all(&path, format, 1, 1 << 20);
    assert_eq!(first, read_all(&path, format, 1, 1));
    assert_eq!(first, read_all(&path, format, 2, 100));
    let inputs = discover(&[path], &DiscoverOptions { format: Some(format), ..DiscoverOptions::default() }).expect("the file is there");
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let wanted: Vec<(DocId, Place)> = first.0.iter().map(|d| (d.0, d.1)).collect();
    let mut fetched: Documents = Vec::new();
    fetch(&inputs, &options, &wanted, |d| fetched.push((d.id, d.place, d.text.to_owned()))).expect("all there");
    assert_eq!(first.0, fetched);
    let kept = write_kept(&inputs, &options, &wanted, &dir.path().join("kept")).expect("writes");
    // Of Parquet whole rows are kept, and columns that had not been read may be damaged.
    if kept.iter().all(|file| file.lost.is_empty()) {
        let back: Documents = kept.iter().flat_map(|file| read_all(&file.path, format, 1, 1000).0).collect();
        assert!(first.0.iter().map(|d| &d.2).eq(back.iter().map(|d| &d.2)));
    }
}
