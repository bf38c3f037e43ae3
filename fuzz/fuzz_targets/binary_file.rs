//! Any header and body as a file of frequencies, or an index of seen pages.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| simflip_fuzz::binary_file(bytes));
