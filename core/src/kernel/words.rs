//! The hashes of words where they stand in a text, and of runs of consecutive words, the shingles. They are made eight
//! at a time where a processor multiplies eight numbers of 64 bits.

use super::cpu::{Isa, Level};
use crate::hash::{BASE, ShortKey, WordHash};

impl Level {
    /// Appends to `hashes`, in order, the hash of each word: word i is `text[starts[i]..ends[i]]`. The text must have
    /// 16 bytes from each start on; the bytes behind the word have no effect.
    ///
    /// # Panics
    /// If the numbers of starts and of ends differ, or if a word does not lie in the text.
    #[inline]
    pub(crate) fn hash_words<H: WordHash>(
        self,
        text: &[u8],
        starts: &[u32],
        ends: &[u32],
        hashes: &mut Vec<u64>,
    ) {
        assert_eq!(starts.len(), ends.len(), "an end for each start");
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::words::<H>(text, starts, ends, hashes) },
            _ => words::<H>(text, starts, ends, hashes),
        }
    }

    /// Appends to `features`, in order, the hash of each run of `width` words, whose hashes are `words`; none if there
    /// are fewer words. A run is hashed by the polynomial at [`BASE`] whose coefficients are the hashes of its words.
    ///
    /// # Panics
    /// If the width is 0.
    #[inline]
    pub(crate) fn hash_runs<H: WordHash>(self, words: &[u64], width: usize, features: &mut Vec<u64>) {
        assert!(width > 0, "runs of no words");
        if words.len() < width {
            return;
        }
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi if width <= x86::WIDEST => unsafe { x86::runs::<H>(words, width, features) },
            _ => runs::<H>(words, width, features),
        }
    }
}

/// One word after the other.
fn words<H: WordHash>(text: &[u8], starts: &[u32], ends: &[u32], hashes: &mut Vec<u64>) {
    hashes.extend(starts.iter().zip(ends).map(|(&from, &to)| {
        let (from, to) = (from as usize, to as usize);
        if to - from > ShortKey::MAX {
            return H::long(&text[from..to]);
        }
        let window = text[from..].first_chunk().expect("16 bytes behind each start");
        H::short(ShortKey::new(window, to - from))
    }));
}

/// A rolling sum: what a word adds, less what the one that leaves has come to.
fn runs<H: WordHash>(words: &[u64], width: usize, features: &mut Vec<u64>) {
    let oldest = (0..width).fold(1u64, |power, _| power.wrapping_mul(BASE));
    let mut sum = polynomial(&words[..width]);
    features.push(H::shingle(sum));
    features.extend(words.iter().zip(&words[width..]).map(|(&leaving, &word)| {
        let change = word.wrapping_sub(leaving.wrapping_mul(oldest));
        sum = sum.wrapping_mul(BASE).wrapping_add(change);
        H::shingle(sum)
    }));
}

/// The value at [`BASE`] of the polynomial whose coefficients these are, that of the highest power first.
pub(crate) fn polynomial(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, &word| sum.wrapping_mul(BASE).wrapping_add(word))
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use crate::hash::{BASE, C1, C2, FMIX, FeatureHash, PI, SHINGLE_START, ShortKey, WordHash};
    use std::arch::x86_64::*;

    /// The widest runs that are summed anew for each; of wider ones a rolling sum takes less.
    pub(super) const WIDEST: usize = 8;

    const LANES: usize = 8;

    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi")]
    pub(super) fn words<H: WordHash>(text: &[u8], starts: &[u32], ends: &[u32], hashes: &mut Vec<u64>) {
        let Some(last) = text.len().checked_sub(16) else {
            return super::words::<H>(text, starts, ends, hashes);
        };
        hashes.reserve(starts.len());
        let (starts, last_starts) = starts.as_chunks::<LANES>();
        let (ends, last_ends) = ends.as_chunks::<LANES>();
        let last = _mm256_set1_epi32(u32::try_from(last).unwrap_or(u32::MAX) as i32);
        // The place of each byte in its word, and where the lengths of every other word stand.
        let places = _mm512_set4_epi32(0x0f0e_0d0c, 0x0b0a_0908, 0x0706_0504, 0x0302_0100);
        let lengths = |first: i64| {
            let [a, b, c, d] = [0, 16, 32, 48].map(|at| (at + first) * 0x0101_0101_0101_0101);
            _mm512_set_epi64(d, d, c, c, b, b, a, a)
        };
        let (even_lengths, odd_lengths) = (lengths(0), lengths(8));
        let room = hashes.spare_capacity_mut().as_chunks_mut::<LANES>().0;
        for ((starts, ends), hashes) in starts.iter().zip(ends).zip(room) {
            // SAFETY: both have 32 bytes, and the loads may be unaligned.
            let [from, to] =
                [starts, ends].map(|places| unsafe { _mm256_loadu_si256(places.as_ptr().cast()) });
            assert!(_mm256_cmpgt_epu32_mask(from, last) == 0, "16 bytes behind each start");
            let word = |at: usize| {
                // SAFETY: sixteen bytes from there on are in the text, as has just been seen of all eight. The start is
                // read by itself: taken out of the register it would take two instructions more.
                unsafe {
                    let start = std::ptr::from_ref(&starts[at]).read_volatile();
                    _mm_loadu_si128(text.as_ptr().add(start as usize).cast())
                }
            };
            let length = _mm512_cvtepu32_epi64(_mm256_sub_epi32(to, from));
            // What stands behind a word becomes zeros.
            let four = |first: usize, lengths| {
                let words = _mm512_zextsi128_si512(word(first));
                let words = _mm512_inserti64x2::<1>(words, word(first + 2));
                let words = _mm512_inserti64x2::<2>(words, word(first + 4));
                let words = _mm512_inserti64x2::<3>(words, word(first + 6));
                let within = _mm512_cmplt_epu8_mask(places, _mm512_permutexvar_epi8(lengths, length));
                _mm512_maskz_mov_epi8(within, words)
            };
            let (even, odd) = (four(0, even_lengths), four(1, odd_lengths));
            let (low, high) = (_mm512_unpacklo_epi64(even, odd), _mm512_unpackhi_epi64(even, odd));
            let hash = match H::HASH {
                FeatureHash::Product => folded(
                    _mm512_xor_si512(low, _mm512_set1_epi64(PI[0] as i64)),
                    _mm512_xor_si512(high, _mm512_set1_epi64(PI[1] as i64)),
                ),
                FeatureHash::Murmur3 => murmur3(low, high, length),
            };
            // SAFETY: there are 64 bytes, and the store may be unaligned.
            unsafe { _mm512_storeu_si512(hashes.as_mut_ptr().cast(), hash) };
            let mut long = _mm512_cmpgt_epu64_mask(length, _mm512_set1_epi64(ShortKey::MAX as i64));
            while long != 0 {
                let at = long.trailing_zeros() as usize;
                hashes[at].write(H::long(&text[starts[at] as usize..ends[at] as usize]));
                long &= long - 1;
            }
        }
        // SAFETY: as many have been written behind those that were there.
        unsafe { hashes.set_len(hashes.len() + LANES * starts.len()) };
        super::words::<H>(text, last_starts, last_ends, hashes);
    }

    /// Each run by itself: no run waits for the one before.
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn runs<H: WordHash>(words: &[u64], width: usize, features: &mut Vec<u64>) {
        let count = words.len() + 1 - width;
        features.reserve(count);
        let room = &mut features.spare_capacity_mut().as_chunks_mut::<LANES>().0[..count / LANES];
        let base = _mm512_set1_epi64(BASE as i64);
        for (at, features) in (0..).step_by(LANES).zip(room) {
            let mut sum = _mm512_setzero_si512();
            for words in words[at..at + LANES + width - 1].windows(LANES) {
                // SAFETY: a window has 64 bytes, and the load may be unaligned.
                let words = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
                sum = _mm512_add_epi64(_mm512_mullo_epi64(sum, base), words);
            }
            let hash = match H::HASH {
                FeatureHash::Product => folded(
                    _mm512_xor_si512(sum, _mm512_set1_epi64(PI[2] as i64)),
                    _mm512_set1_epi64(PI[3] as i64),
                ),
                FeatureHash::Murmur3 => {
                    fmix64(_mm512_xor_si512(sum, _mm512_set1_epi64(SHINGLE_START as i64)))
                }
            };
            // SAFETY: there are 64 bytes, and the store may be unaligned.
            unsafe { _mm512_storeu_si512(features.as_mut_ptr().cast(), hash) };
        }
        // SAFETY: as many have been written behind those that were there.
        unsafe { features.set_len(features.len() + count / LANES * LANES) };
        if !count.is_multiple_of(LANES) {
            super::runs::<H>(&words[count / LANES * LANES..], width, features);
        }
    }

    /// Both halves of the products of 64 by 64 bits, put together: schoolbook multiplication by halves.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(in crate::kernel) fn folded(a: __m512i, b: __m512i) -> __m512i {
        let low = _mm512_set1_epi64(u32::MAX.into());
        let (a_high, b_high) = (_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
        let lowest = _mm512_mul_epu32(a, b);
        // Neither sum has more than 64 bits: a product of 32 by 32 bits leaves room for twice 32 more.
        let upper = _mm512_add_epi64(_mm512_mul_epu32(a_high, b), _mm512_srli_epi64::<32>(lowest));
        let middle = _mm512_add_epi64(_mm512_mul_epu32(a, b_high), _mm512_and_si512(upper, low));
        let high = _mm512_add_epi64(_mm512_mul_epu32(a_high, b_high), _mm512_srli_epi64::<32>(upper));
        let high = _mm512_add_epi64(high, _mm512_srli_epi64::<32>(middle));
        // The low half is the middle's low half above that of the lowest.
        const CHOOSE: i32 = 0xca;
        let half = _mm512_ternarylogic_epi64::<CHOOSE>(low, lowest, _mm512_slli_epi64::<32>(middle));
        _mm512_xor_si512(high, half)
    }

    /// The low half of MurmurHash3 of up to 15 bytes.
    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    fn murmur3(low: __m512i, high: __m512i, length: __m512i) -> __m512i {
        let (c1, c2) = (_mm512_set1_epi64(C1 as i64), _mm512_set1_epi64(C2 as i64));
        let k1 = _mm512_mullo_epi64(_mm512_rol_epi64::<31>(_mm512_mullo_epi64(low, c1)), c2);
        let k2 = _mm512_mullo_epi64(_mm512_rol_epi64::<33>(_mm512_mullo_epi64(high, c2)), c1);
        let (h1, h2) = (_mm512_xor_si512(k1, length), _mm512_xor_si512(k2, length));
        let h1 = _mm512_add_epi64(h1, h2);
        let h2 = _mm512_add_epi64(h2, h1);
        _mm512_add_epi64(fmix64(h1), fmix64(h2))
    }

    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    fn fmix64(hash: __m512i) -> __m512i {
        FMIX.into_iter().fold(shifted(hash), |hash, factor| {
            shifted(_mm512_mullo_epi64(hash, _mm512_set1_epi64(factor as i64)))
        })
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn shifted(hash: __m512i) -> __m512i {
        _mm512_xor_si512(hash, _mm512_srli_epi64::<33>(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Murmur3, Product};
    use proptest::prelude::*;

    fn check<H: WordHash>(text: &[u8], words: &[(u32, u32)], width: usize) {
        let (starts, ends): (Vec<u32>, Vec<u32>) =
            words.iter().map(|&(from, length)| (from, from + length)).unzip();
        let naive: Vec<u64> =
            starts.iter().zip(&ends).map(|(&from, &to)| H::word(&text[from as usize..to as usize])).collect();
        let runs: Vec<u64> = naive.windows(width).map(|words| H::shingle(polynomial(words))).collect();
        for level in Level::available() {
            let mut hashes = vec![7];
            level.hash_words::<H>(text, &starts, &ends, &mut hashes);
            assert_eq!(hashes[1..], naive, "{}", level.name());
            let mut features = vec![7];
            level.hash_runs::<H>(&naive, width, &mut features);
            assert_eq!(features[1..], runs, "{}", level.name());
        }
    }

    proptest! {
        #[test]
        fn every_level_hashes_words_and_runs_of_them(
            text in prop::collection::vec(1u8.., 60..200),
            words in prop::collection::vec((0u32..40, prop_oneof![1u32..17, 1u32..20]), 0..70),
            width in 1usize..20,
        ) {
            check::<Product>(&text, &words, width);
            check::<Murmur3>(&text, &words, width);
        }
    }

    #[test]
    fn words_at_the_end_of_a_text_are_hashed_or_refused() {
        for level in Level::available() {
            for words in [1, 8, 9] {
                let mut hashes = Vec::new();
                let text = [b'a'; 20];
                level.hash_words::<Product>(&text, &vec![4; words], &vec![9; words], &mut hashes);
                assert_eq!(hashes, vec![Product::word(b"aaaaa"); words]);
                let short = std::panic::catch_unwind(|| {
                    level.hash_words::<Product>(
                        &text[..10],
                        &vec![4; words],
                        &vec![11; words],
                        &mut Vec::new(),
                    );
                });
                assert!(short.is_err(), "{}", level.name());
            }
        }
    }
}
