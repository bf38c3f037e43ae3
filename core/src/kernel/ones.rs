//! Lists the places of the ones in a row of bits: the tokenizer finds so where tokens begin and end.

use super::cpu::{Isa, Level};

impl Level {
    /// Replaces `places` by the numbers of the bits that are set, ascending; bit `i` of word `w` is number
    /// `64·w + i`.
    ///
    /// # Panics
    /// If a number does not fit in 32 bits.
    #[inline]
    pub fn ones(self, words: &[u64], places: &mut Vec<u32>) {
        assert!(words.len() <= 1 << 26, "places of 32 bits");
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt => unsafe { x86::popcnt(words, places) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::avx2(words, places) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::avx512(words, places) },
            // NEON has nothing for it.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => portable(words, places),
            Isa::Portable => portable(words, places),
        }
    }
}

/// Writes sixteen places at a time, even where there are fewer. One word of text has about as many as the next, so the
/// processor foresees the number of steps. Inlined where the processor counts zeros fast, it does.
#[inline(always)]
fn portable(words: &[u64], places: &mut Vec<u32>) {
    const STEP: usize = 16;
    let total: usize = words.iter().map(|word| word.count_ones() as usize).sum();
    places.resize(total + STEP, 0);
    let mut written = 0;
    for (&word, first) in words.iter().zip((0u32..).step_by(64)) {
        let (mut bits, count) = (word, word.count_ones() as usize);
        for step in (0..count).step_by(STEP) {
            let Some(places) = places[written + step..].first_chunk_mut::<STEP>() else { break };
            for place in places {
                *place = first.wrapping_add(bits.trailing_zeros());
                bits &= bits.wrapping_sub(1);
            }
        }
        written += count;
    }
    places.truncate(total);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "popcnt")]
    pub(super) fn popcnt(words: &[u64], places: &mut Vec<u32>) {
        super::portable(words, places);
    }

    /// The places of the ones of each byte, and behind them zeros, which do not count.
    static PLACES: [[u8; 8]; 256] = {
        let mut places = [[0; 8]; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut bit, mut known) = (0, 0);
            while bit < 8 {
                if byte >> bit & 1 == 1 {
                    places[byte][known] = bit as u8;
                    known += 1;
                }
                bit += 1;
            }
            byte += 1;
        }
        places
    };

    /// Eight bits at a time, by a table: no step depends on how many are set.
    #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
    pub(super) fn avx2(words: &[u64], places: &mut Vec<u32>) {
        let total: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        // A step writes eight places, however many it knows.
        places.resize(total + 8, 0);
        let mut written = 0;
        let mut first = _mm256_setzero_si256();
        let eight = _mm256_set1_epi32(8);
        for word in words {
            for byte in word.to_le_bytes() {
                let known = u64::from_le_bytes(PLACES[usize::from(byte)]);
                let wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(known as i64));
                if let Some(places) = places[written..].first_chunk_mut::<8>() {
                    // SAFETY: there are eight places, and the store may be unaligned.
                    unsafe { _mm256_storeu_si256(places.as_mut_ptr().cast(), _mm256_add_epi32(wide, first)) };
                }
                first = _mm256_add_epi32(first, eight);
                written += byte.count_ones() as usize;
            }
        }
        places.truncate(total);
    }

    /// A word at a time: the numbers from 0 to 63 are pressed together, and sixteen of them written at once. Words of
    /// text seldom have more.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    pub(super) fn avx512(words: &[u64], places: &mut Vec<u32>) {
        const STEP: usize = 16;
        static NUMBERS: [u8; 64] = {
            let mut numbers = [0; 64];
            let mut at = 0;
            while at < 64 {
                numbers[at] = at as u8;
                at += 1;
            }
            numbers
        };
        let total: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        // A step writes sixteen places, however many it knows.
        places.clear();
        places.reserve(total + STEP);
        let room = places.spare_capacity_mut();
        // SAFETY: there are 64 bytes, and the load may be unaligned.
        let numbers = unsafe { _mm512_loadu_si512(NUMBERS.as_ptr().cast()) };
        let mut first = _mm512_setzero_si512();
        let mut written = 0;
        for &word in words {
            let mut known = _mm512_maskz_compress_epi8(word, numbers);
            let end = written + word.count_ones() as usize;
            for written in (written..end).step_by(STEP) {
                let wide = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(known));
                let room = room[written..].first_chunk_mut::<STEP>().expect("places for a step more");
                // SAFETY: there are sixteen places, and the store may be unaligned.
                unsafe { _mm512_storeu_si512(room.as_mut_ptr().cast(), _mm512_add_epi32(wide, first)) };
                known = _mm512_alignr_epi64::<2>(known, known);
            }
            written = end;
            first = _mm512_add_epi32(first, _mm512_set1_epi32(64));
        }
        // SAFETY: as many have been written, as the words have ones.
        unsafe { places.set_len(total) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_level_finds_the_places(
            words in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), (0u32..64).prop_map(|i| 1 << i)], 0..30),
        ) {
            let set = |&place: &u32| words[place as usize / 64] >> (place % 64) & 1 == 1;
            let naive: Vec<u32> = (0..64 * words.len() as u32).filter(set).collect();
            for level in Level::available() {
                let mut places = vec![7; 3];
                level.ones(&words, &mut places);
                prop_assert_eq!(&places, &naive, "{}", level.name());
            }
        }
    }
}
