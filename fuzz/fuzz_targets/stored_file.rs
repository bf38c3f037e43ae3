//! Any bytes as a stored file, of either format.
#![no_main]

mod check;

use flipside::corpus::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check::check(bytes, Format::Wet);
    check::check(bytes, Format::Jsonl);
});
