//! Any bytes as a stored file, of either format.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| simflip_fuzz::stored_file(bytes));
