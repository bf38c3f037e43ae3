//! Any bytes as the decoded records of a compressed file: the fuzzer cannot make checksums.
#![no_main]

mod check;

use std::io::Write;

use flipside::corpus::Format;
use libfuzzer_sys::fuzz_target;

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fuzz_target!(|input: (u8, Vec<Vec<u8>>)| {
    let (how, pieces) = input;
    let format = if how & 1 == 0 { Format::Wet } else { Format::Jsonl };
    // Every piece is a member, a frame, or, as it is, something between the two.
    let packed = pieces.iter().enumerate().flat_map(|(i, piece)| match how >> 1 & 3 {
        0 => zstd::encode_all(&piece[..], 1).expect("memory"),
        1 if i % 4 == 3 => piece.clone(),
        _ => gz(piece),
    });
    check::check(&packed.collect::<Vec<u8>>(), format);
});
