//! One gzip member at a time with libdeflate, and how many stored bytes it took.
//!
//! The safe wrapper of libdeflate does not say where a member ends in the input, so a file of many members
//! cannot be walked with it. This is the one call it lacks.

use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_alloc_decompressor, libdeflate_decompressor, libdeflate_free_decompressor,
    libdeflate_gzip_decompress_ex, libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE,
    libdeflate_result_LIBDEFLATE_SUCCESS,
};

/// The state that libdeflate needs to inflate. It is made once and used for any number of members, one at a time.
#[derive(Debug)]
pub struct Inflater(NonNull<libdeflate_decompressor>);

/// The number of bytes that went in and came out of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inflated {
    /// Stored bytes of the member: header, deflate stream and trailer.
    pub consumed: usize,
    /// Bytes written to the output.
    pub produced: usize,
}

/// The reason why a member was not inflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// No member, a corrupt one, or one that goes on after the end of the input.
    /// libdeflate cannot tell them apart.
    #[error("the gzip member is corrupt or cut off")]
    BadData,
    /// The output is too small. The bytes that were written to it must not be used.
    #[error("the output is too small for the gzip member")]
    InsufficientSpace,
}

// SAFETY: the decompressor is plain memory owned by this value alone. Libdeflate keeps no thread-local state
// and asks only that one decompressor is not used by two threads at the same time, which `&mut self` ensures.
unsafe impl Send for Inflater {}

impl Inflater {
    /// Allocates the state, about 12 KiB.
    ///
    /// # Panics
    /// If memory is exhausted.
    pub fn new() -> Self {
        // SAFETY: the call has no preconditions; null, its sign of failure, is refused below.
        let state = unsafe { libdeflate_alloc_decompressor() };
        Self(NonNull::new(state).expect("memory for the inflate state"))
    }

    /// Inflates the gzip member at the start of `input` to the start of `output` and
    /// checks its CRC and length.
    ///
    /// Bytes of `input` behind the member are ignored, and `output` may be longer than the result.
    pub fn gzip_member(&mut self, input: &[u8], output: &mut [u8]) -> Result<Inflated, InflateError> {
        let (mut consumed, mut produced) = (0usize, 0usize);
        // SAFETY: the state is alive and used by nobody else. Both slices are valid for the
        // lengths given, the output for writing. The two counters outlive the call. libdeflate
        // stays within the given lengths.
        let result = unsafe {
            libdeflate_gzip_decompress_ex(
                self.0.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                output.as_mut_ptr().cast(),
                output.len(),
                &mut consumed,
                &mut produced,
            )
        };
        match result {
            r if r == libdeflate_result_LIBDEFLATE_SUCCESS => Ok(Inflated { consumed, produced }),
            r if r == libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Err(InflateError::InsufficientSpace),
            _ => Err(InflateError::BadData),
        }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: the pointer came from libdeflate_alloc_decompressor and is freed once.
        unsafe { libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};

    fn member(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("writes to memory");
        encoder.finish().expect("writes to memory")
    }

    #[test]
    fn walks_members() {
        let texts: [&[u8]; 3] = [b"first", b"", b"third third third"];
        let file: Vec<u8> = texts.iter().flat_map(|t| member(t)).collect();
        let (mut at, mut inflater, mut output) = (0, Inflater::new(), [0; 64]);
        for text in texts {
            let done = inflater.gzip_member(&file[at..], &mut output).expect("whole member");
            assert_eq!(&output[..done.produced], text);
            at += done.consumed;
        }
        assert_eq!(at, file.len());
    }

    #[test]
    fn tells_small_output_from_bad_input() {
        let file = member(&[b'a'; 1000]);
        let mut inflater = Inflater::new();
        assert_eq!(inflater.gzip_member(&file, &mut [0; 999]), Err(InflateError::InsufficientSpace));
        assert_eq!(inflater.gzip_member(&[], &mut [0; 9]), Err(InflateError::BadData));
        assert_eq!(inflater.gzip_member(&file, &mut []), Err(InflateError::InsufficientSpace));
        for cut in 0..file.len() {
            assert!(inflater.gzip_member(&file[..cut], &mut [0; 1000]).is_err(), "cut at {cut}");
        }
        let mut wrong = file.clone();
        let crc = wrong.len() - 8;
        wrong[crc] ^= 1;
        assert_eq!(inflater.gzip_member(&wrong, &mut [0; 1000]), Err(InflateError::BadData));
    }

    #[test]
    fn takes_a_symbol_that_no_encoder_writes_for_what_it_would_mean() {
        let text = [b'a'; 1000];
        let file = member(&text);
        let mut odd = 0;
        for bit in 8 * 10..8 * (file.len() - 8) {
            let mut changed = file.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let mut output = [0; 2000];
            if let Ok(done) = Inflater::new().gzip_member(&changed, &mut output) {
                assert_eq!(&output[..done.produced], &text, "bit {bit}");
                let mut slow = Vec::new();
                odd += u32::from(flate2::read::GzDecoder::new(&changed[..]).read_to_end(&mut slow).is_err());
            }
        }
        assert!(odd > 0, "the symbol 287 reads as 285 does");
    }

    proptest! {
        #[test]
        fn agrees_with_zlib(bytes: Vec<u8>, corruption in proptest::option::of((any::<prop::sample::Index>(), 1u8..))) {
            let mut file = member(&bytes);
            if let Some((index, flip)) = corruption {
                let at = index.index(file.len());
                file[at] ^= flip;
            }
            let mut slow = Vec::new();
            let ok = flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut slow).is_ok();
            let mut output = vec![0; bytes.len() + 1000];
            if let Ok(done) = Inflater::new().gzip_member(&file, &mut output) {
                // libdeflate refuses reserved bits, does not check the header's own CRC, and takes a few codes
                // that zlib refuses; but never other content.
                prop_assert_eq!(&output[..done.produced], &bytes[..]);
                prop_assert!(!ok || slow == bytes);
            } else if ok {
                prop_assert!(corruption.is_some());
            }
        }
    }
}
