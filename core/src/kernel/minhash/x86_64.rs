//! The kernels of MinHash in AVX2 and AVX-512. A function gives the result of the method of
//! [`Level`](crate::kernel::Level) that has its name.

use super::{Affine, BLOCK, EMPTY, Throw, VALUE_BITS, put};

pub(super) mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    const LANES_32: usize = 8;

    /// [`Level::minimum32`](crate::kernel::Level::minimum32); the compiler finds the vectors.
    #[target_feature(enable = "avx2")]
    pub fn minimum32(a: u32, b: u32, features: &[u64]) -> u32 {
        super::super::minimum32(a, b, features)
    }

    /// Loads consecutive vectors, as many as `N`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load<T: bytemuck::Pod, const N: usize>(from: &[T]) -> [__m256i; N] {
        let bytes: &[u8] = bytemuck::cast_slice(from);
        std::array::from_fn(|i| {
            let vector: &[u8; 32] = bytes[32 * i..32 * (i + 1)].try_into().expect("32 bytes");
            // SAFETY: the array has the 32 bytes that are read, and the load needs no alignment.
            unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) }
        })
    }

    #[target_feature(enable = "avx2")]
    pub(in super::super) fn minima32(functions: &[Affine], features: &[u64], minima: &mut [u32]) {
        const N: usize = BLOCK / LANES_32;
        for (function, out) in functions.iter().zip(minima.chunks_mut(BLOCK)) {
            let (a, b): ([_; N], [_; N]) = (load(&function.a), load(&function.b));
            let mut least = [_mm256_set1_epi32(-1); N];
            for &x in features {
                let x = _mm256_set1_epi32(x as i32);
                for i in 0..N {
                    let value = _mm256_add_epi32(_mm256_mullo_epi32(a[i], x), b[i]);
                    least[i] = _mm256_min_epu32(least[i], value);
                }
            }
            // SAFETY: both types are plain numbers of the same size, for which every bit pattern is valid.
            let least: [u32; BLOCK] = unsafe { std::mem::transmute(least) };
            out.copy_from_slice(&least[..out.len()]);
        }
    }

    #[target_feature(enable = "avx2")]
    pub(in super::super) fn matches(a: &[u32], b: &[u32]) -> usize {
        let n = a.len().min(b.len());
        let (a, b) = (a[..n].chunks_exact(LANES_32), b[..n].chunks_exact(LANES_32));
        let rest = a.remainder().iter().zip(b.remainder()).filter(|(x, y)| x == y).count();
        // Equal lanes are −1; subtracting counts them.
        let mut counts = _mm256_setzero_si256();
        for (a, b) in a.zip(b) {
            let ([a], [b]) = (load::<u32, 1>(a), load::<u32, 1>(b));
            counts = _mm256_sub_epi32(counts, _mm256_cmpeq_epi32(a, b));
        }
        let halves = _mm_add_epi32(_mm256_castsi256_si128(counts), _mm256_extracti128_si256(counts, 1));
        let pairs = _mm_add_epi32(halves, _mm_shuffle_epi32(halves, 0b01_00_11_10));
        let sum = _mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0b10_11_00_01));
        _mm_cvtsi128_si32(sum) as u32 as usize + rest
    }
}

pub(super) mod avx512 {
    use super::*;
    use crate::kernel::words::x86::folded;
    use std::arch::x86_64::*;

    const LANES_32: usize = 16;
    const LANES_64: usize = 8;
    /// Blocks that are evaluated together in 32 bits: 8 vectors each of minima, factors and summands of 32
    /// registers.
    const WIDE: usize = 4;

    /// Loads consecutive vectors, as many as `N`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load<T: bytemuck::Pod, const N: usize>(from: &[T]) -> [__m512i; N] {
        let bytes: &[u8] = bytemuck::cast_slice(from);
        std::array::from_fn(|i| {
            let vector: &[u8; 64] = bytes[64 * i..64 * (i + 1)].try_into().expect("64 bytes");
            // SAFETY: the array has the 64 bytes that are read, and the load needs no alignment.
            unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) }
        })
    }

    /// The most bins, for each of which two registers have a bit.
    const BINS: usize = 1024;

    /// The number of hashes that are gathered before they are put into their bins.
    const FOUND: usize = 256;

    /// Where most bins have a value, most features need not be put anywhere: eight at a time are hashed, and the hashes
    /// of those for empty bins gathered. To put all of them costs twice as much as to hash them.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(in super::super) fn throw(throw: Throw, round: u32, features: &[u64], signature: &mut [u32]) {
        if signature.len() > BINS {
            return super::super::portable::throw(throw, round, features, signature);
        }
        let mut empty = [0u64; BINS / 64];
        for (word, bins) in empty.iter_mut().zip(signature.chunks(64)) {
            for (at, bins) in bins.chunks(LANES_32).enumerate() {
                // SAFETY: as many lanes are read as there are bins.
                let bins = unsafe {
                    _mm512_maskz_loadu_epi32(((1u32 << bins.len()) - 1) as u16, bins.as_ptr().cast())
                };
                let mask = _mm512_cmpeq_epi32_mask(bins, _mm512_set1_epi32(EMPTY as i32));
                *word |= u64::from(mask) << (LANES_32 * at);
            }
        }
        let count: u32 = empty.iter().map(|word| word.count_ones()).sum();
        if count as usize == signature.len() {
            return super::super::portable::throw(throw, round, features, signature);
        }
        let [first, second] = load(&empty);
        let each = |number: u64| _mm512_set1_epi64(number as i64);
        let (key, factor, bins) = (each(throw.key), each(throw.factor), each(signature.len() as u64));
        let upper = |numbers| _mm512_srli_epi64::<32>(numbers);
        let mut found = [0u64; FOUND + LANES_64];
        let mut count = 0;
        let (eights, rest) = features.as_chunks::<LANES_64>();
        for eight in eights {
            let [features] = load(eight);
            let hashes = folded(_mm512_xor_si512(features, key), factor);
            let bin = upper(_mm512_mul_epu32(upper(hashes), bins));
            let words = _mm512_permutex2var_epi64(first, _mm512_srli_epi64::<6>(bin), second);
            let bits = _mm512_srlv_epi64(words, _mm512_and_si512(bin, each(63)));
            let wanted = _mm512_test_epi64_mask(bits, each(1));
            let room: &mut [u64; LANES_64] = found[count..].first_chunk_mut().expect("room for eight");
            // SAFETY: the eight numbers are written.
            unsafe {
                _mm512_storeu_si512(room.as_mut_ptr().cast(), _mm512_maskz_compress_epi64(wanted, hashes));
            }
            count += wanted.count_ones() as usize;
            if count > FOUND {
                put(found[..count].iter().copied(), round << VALUE_BITS, signature);
                count = 0;
            }
        }
        put(found[..count].iter().copied(), round << VALUE_BITS, signature);
        super::super::portable::throw(throw, round, rest, signature);
    }

    #[target_feature(enable = "avx512f")]
    pub(in super::super) fn minima32(functions: &[Affine], features: &[u64], minima: &mut [u32]) {
        let mut functions = functions.chunks_exact(WIDE);
        let mut minima = minima.chunks_mut(WIDE * BLOCK);
        for (functions, out) in functions.by_ref().zip(minima.by_ref()) {
            blocks32::<WIDE>(functions, features, out);
        }
        let rest = functions.remainder().chunks_exact(1);
        if let Some(minima) = minima.next() {
            for (function, out) in rest.zip(minima.chunks_mut(BLOCK)) {
                blocks32::<1>(function, features, out);
            }
        }
    }

    /// The minima of `B` blocks of functions at once.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn blocks32<const B: usize>(functions: &[Affine], features: &[u64], out: &mut [u32]) {
        const N: usize = BLOCK / LANES_32;
        let a: [[_; N]; B] = std::array::from_fn(|k| load(&functions[k].a));
        let b: [[_; N]; B] = std::array::from_fn(|k| load(&functions[k].b));
        let mut least = [[_mm512_set1_epi32(-1); N]; B];
        for &x in features {
            let x = _mm512_set1_epi32(x as i32);
            for k in 0..B {
                for i in 0..N {
                    let value = _mm512_add_epi32(_mm512_mullo_epi32(a[k][i], x), b[k][i]);
                    least[k][i] = _mm512_min_epu32(least[k][i], value);
                }
            }
        }
        for (least, out) in least.into_iter().zip(out.chunks_mut(BLOCK)) {
            // SAFETY: both types are plain numbers of the same size, for which every bit pattern is valid.
            let least: [u32; BLOCK] = unsafe { std::mem::transmute(least) };
            out.copy_from_slice(&least[..out.len()]);
        }
    }
}
