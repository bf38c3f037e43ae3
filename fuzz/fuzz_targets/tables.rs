//! Any bytes as a truth, as judgements, and as our own tables.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| simflip_fuzz::tables(bytes));
