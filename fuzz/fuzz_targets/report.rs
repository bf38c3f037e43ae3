//! Any bytes as a report.json that is read back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| simflip_fuzz::report(bytes));
