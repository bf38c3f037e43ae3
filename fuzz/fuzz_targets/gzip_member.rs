//! libdeflate, through our call, against zlib: what both accept they decode alike.
#![no_main]

use std::io::Read;

use flipside::kernel::inflate::{InflateError, Inflater};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut output = vec![0; 1 << 16];
    let mut slow = Vec::new();
    let mut decoder = flate2::bufread::GzDecoder::new(bytes);
    let accepted = (&mut decoder).take(1 << 20).read_to_end(&mut slow).is_ok();
    match Inflater::new().gzip_member(bytes, &mut output) {
        Ok(done) => {
            assert!(done.consumed <= bytes.len());
            if accepted {
                assert_eq!(output[..done.produced], slow[..]);
                assert_eq!(done.consumed, bytes.len() - decoder.into_inner().len());
            }
        }
        Err(InflateError::InsufficientSpace) => assert!(!accepted || slow.len() > output.len()),
        Err(InflateError::BadData) => {}
    }
});
