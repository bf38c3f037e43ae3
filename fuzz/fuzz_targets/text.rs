//! The tokeniser and features on any text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| simflip_fuzz::text(bytes));
