//! Any bytes as the decoded records of a compressed file: the fuzzer cannot make checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (u8, Vec<Vec<u8>>)| simflip_fuzz::packed_pieces(input.0, &input.1));
