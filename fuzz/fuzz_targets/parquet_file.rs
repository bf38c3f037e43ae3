//! Any bytes as a Parquet file, and as an Arrow file or stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| simflip_fuzz::parquet_file(bytes));
