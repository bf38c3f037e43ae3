//! A look at the first documents of some files, by which the number and size of all documents are estimated.

use super::corruption::TooLong;
use super::input::{Input, ReadInput};
use super::options::ReadOptions;
use super::reader::{Block, Reader};

/// The sums over the documents that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peeked {
    /// Documents.
    pub documents: u64,
    /// Bytes of the stored files that they take.
    pub stored_bytes: u64,
    /// Bytes of their ids and URLs; of Parquet and Arrow, 100 a row are assumed.
    pub name_bytes: u64,
    /// Bytes of their ids and URLs when compressed; of Parquet and Arrow, 40 a row are assumed.
    pub packed_name_bytes: u64,
    /// Bytes of their texts.
    pub text_bytes: u64,
}

/// Reads the first documents of up to eight files, evenly from the whole list: some hundred kilobytes of each. Of
/// Parquet and Arrow it takes all rows, by what the file states of them. A very long record ends the look into its
/// file, and counts with the bytes that are known of it.
pub fn peek(inputs: &[Input], options: &ReadOptions) -> Peeked {
    /// Files that are looked into.
    const FILES: usize = 8;
    /// Decoded bytes of each, about.
    const BYTES: usize = 1 << 18;
    /// Blocks of so many bytes in which a document is looked for.
    const BLOCKS: usize = 64;
    /// Blocks with documents that are enough.
    const ENOUGH: usize = 3;
    /// Bytes of a record at most: a longer one ends the look.
    const RECORD: u64 = 2 << 20;
    /// Bytes of the names of a row, of which the footer says nothing.
    const NAMES: [u64; 2] = [100, 40];
    let options = ReadOptions { threads: 1, block_bytes: BYTES, ..options.clone() };
    let step = inputs.len().div_ceil(FILES).max(1);
    let mut sum = Peeked::default();
    for input in inputs.iter().step_by(step) {
        let read = ReadInput { shard: 0, input, options: &options };
        let (mut reader, mut block) = (Reader::open(read), Block::default());
        if let Some((rows, text_bytes)) = reader.rows() {
            sum.documents += rows;
            sum.stored_bytes += input.stored_bytes();
            sum.name_bytes += rows * NAMES[0];
            sum.packed_name_bytes += rows * NAMES[1];
            sum.text_bytes += text_bytes;
            continue;
        }
        let (mut with_documents, mut stored, mut decoded) = (0, 0u64, 0u64);
        let (mut first, mut has_long) = (None, false);
        for _ in 0..BLOCKS {
            if !reader.next_block_of(None, RECORD, &mut block) {
                break;
            }
            stored += block.part.stored_bytes;
            decoded += block.part.decoded_bytes;
            let (before, mut names) = (sum.documents, Vec::new());
            let too_long = block.process(read, RECORD, |document| {
                sum.documents += 1;
                sum.text_bytes += document.text.len() as u64;
                for name in document.record_id.into_iter().chain(document.url) {
                    names.extend_from_slice(name.as_bytes());
                }
            });
            sum.name_bytes += names.len() as u64;
            sum.packed_name_bytes +=
                zstd::bulk::compress(&names, 3).map_or(names.len(), |packed| packed.len()) as u64;
            // What is known of the longer one counts as a document.
            if let Some(TooLong { bytes, .. }) = too_long {
                sum.documents += 1;
                sum.text_bytes += bytes;
                decoded += reader.decoded_ahead();
                has_long = true;
                break;
            }
            with_documents += usize::from(sum.documents > before);
            first.get_or_insert((stored, decoded + reader.decoded_ahead()));
            if with_documents == ENOUGH {
                break;
            }
        }
        // More may have been decoded at a time than was cut: of a large gzip member, 8 MiB with the first block. And
        // with the first block more may have been read than was decoded; what came later tells the ratio better.
        let ahead = if has_long { 0 } else { reader.decoded_ahead() };
        let all = (stored, decoded + ahead);
        let later = first.map(|(stored, decoded)| (all.0 - stored, all.1 - decoded));
        let (stored, from) = later.filter(|later| later.1 > BYTES as u64).unwrap_or(all);
        sum.stored_bytes += (stored as f64 * decoded as f64 / from.max(1) as f64).ceil() as u64;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{DiscoverOptions, discover};
    use crate::hash::SplitMix64;
    use std::io::Write;

    /// Documents of a file, by its size and what a look at it said.
    fn estimated(name: &str, bytes: &[u8]) -> f64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let inputs = discover(&[path], &DiscoverOptions::default()).unwrap();
        let found = peek(&inputs, &ReadOptions::default());
        found.documents as f64 / found.stored_bytes as f64 * bytes.len() as f64
    }

    #[test]
    fn documents_are_reported_of_files_of_any_size_and_compression() {
        let mut rng = SplitMix64::new(1);
        let mut line = |document: u64| {
            let words: Vec<String> = (0..40).map(|_| format!("{:x}", rng.below(1 << 24))).collect();
            format!("{{\"id\":\"{document}\",\"text\":\"{}\"}}\n", words.join(" "))
        };
        for documents in [1, 30, 1_500, 60_000] {
            let lines: String = (0..documents).map(&mut line).collect();
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(lines.as_bytes()).unwrap();
            let zstd = zstd::bulk::compress(lines.as_bytes(), 1).unwrap();
            for (name, bytes) in [
                ("documents.jsonl", lines.as_bytes()),
                ("documents.jsonl.gz", &gzip.finish().unwrap()),
                ("documents.jsonl.zst", &zstd),
            ] {
                let estimated = estimated(name, bytes);
                assert!(
                    (0.8..1.25).contains(&(estimated / documents as f64)),
                    "{name}: {estimated} instead of {documents}"
                );
            }
        }
    }
}
