//! Any bytes as a Parquet file.
#![no_main]

mod check;

use std::sync::Once;

use flipside::corpus::Format;
use libfuzzer_sys::fuzz_target;

static QUIET: Once = Once::new();

fuzz_target!(|bytes: &[u8]| {
    // The parquet crate panics on some files, which we catch and tell as damage. The fuzzer's hook would end
    // the process there; what is not caught still ends it.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    check::check(bytes, Format::Parquet);
});
