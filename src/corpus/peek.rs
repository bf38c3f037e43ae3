//! How many pages files hold, by their sizes and the first pages of some of them.

use super::damage::FileReading;
use super::inputs::Input;
use super::options::ReadOptions;
use super::reader::{Block, Reader};

/// What some pages came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peeked {
    /// Pages.
    pub pages: u64,
    /// Bytes of the stored files that they took.
    pub stored_bytes: u64,
    /// Bytes of their ids and URLs.
    pub name_bytes: u64,
    /// The same compressed.
    pub packed_name_bytes: u64,
    /// Bytes of their texts.
    pub text_bytes: u64,
}

/// Reads the first pages of some files, evenly from the whole list: little of each, of Parquet what the footer says,
/// and nothing at all of what can be read but once.
pub fn peek(inputs: &[Input], options: &ReadOptions) -> Peeked {
    /// Files that are looked into.
    const FILES: usize = 8;
    /// Decoded bytes of each, about.
    const BYTES: usize = 1 << 18;
    /// Blocks of so many bytes in which a page is looked for.
    const BLOCKS: usize = 64;
    /// Blocks with pages that are enough.
    const ENOUGH: usize = 3;
    /// Bytes of the names of a row, of which the footer says nothing.
    const NAMES: [u64; 2] = [100, 40];
    let options = ReadOptions { threads: 1, block_bytes: BYTES, ..options.clone() };
    let files: Vec<&Input> = inputs.iter().filter(|input| !input.is_stream()).collect();
    let step = files.len().div_ceil(FILES).max(1);
    let mut sum = Peeked::default();
    for input in files.into_iter().step_by(step) {
        let (mut reader, mut block) = (Reader::open(input, 0, &options), Block::default());
        if let Some((rows, text_bytes)) = reader.rows() {
            sum.pages += rows;
            sum.stored_bytes += input.stored_bytes();
            sum.name_bytes += rows * NAMES[0];
            sum.packed_name_bytes += rows * NAMES[1];
            sum.text_bytes += text_bytes;
            continue;
        }
        // What comes first may be a header, or damage; and with the first block more is read than is cut.
        let (before_file, mut with_pages) = (sum, 0);
        for _ in 0..BLOCKS {
            if !reader.next_block(&mut block) {
                break;
            }
            if with_pages == 1 {
                sum = before_file;
            }
            sum.stored_bytes += block.tally.stored;
            let (before, mut names) = (sum.pages, Vec::new());
            block.process(0, input, &options, &mut FileReading::default(), |page| {
                sum.pages += 1;
                sum.text_bytes += page.text.len() as u64;
                page.record_id
                    .into_iter()
                    .chain(page.url)
                    .for_each(|name| names.extend_from_slice(name.as_bytes()));
            });
            sum.name_bytes += names.len() as u64;
            sum.packed_name_bytes +=
                zstd::bulk::compress(&names, 3).map_or(names.len(), |packed| packed.len()) as u64;
            with_pages += usize::from(sum.pages > before);
            if with_pages == ENOUGH {
                break;
            }
        }
    }
    sum
}
