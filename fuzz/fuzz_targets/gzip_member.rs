//! Our two decoders of gzip on any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| simflip_fuzz::gzip_member(bytes));
