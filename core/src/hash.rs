//! The hashes of features. Each has a name with a version, and the tests hold golden values of it. A feature is a
//! shingle of words or characters, or a single word.
//!
//! MurmurHash3 x64_128 (Appleby), low 64 bits, seed 0: a version for slices without a loop over the tail; the
//! `murmur3` crate is the oracle in the tests. It also hashes texts, names and other bytes that are not features.
//!
//! The folded product, ours after wyhash (Wang Yi): two words of eight bytes are multiplied to 128 bits, whose
//! halves are put together by exclusive or. One multiplication a word and one a feature, where MurmurHash3 takes
//! eight and two.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Name of MurmurHash3 with its version, written into every file that depends on it. A reader of such a file checks it.
pub const MURMUR3: &str = "murmur3-x64-128-low64-v1";

/// The hash that stands for a feature. Features of different hashes cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureHash {
    /// MurmurHash3. [`Settings::simhash`](crate::Settings::simhash) has it; other settings may choose it.
    #[default]
    Murmur3,
    /// The folded product of 64 by 64 bits. [`Settings::minhash`](crate::Settings::minhash) and
    /// [`Settings::both`](crate::Settings::both) have it; other settings may choose it.
    Product,
}

#[doc(hidden)]
impl FeatureHash {
    /// All hashes.
    pub const ALL: [Self; 2] = [Self::Murmur3, Self::Product];

    /// The command line's spelling.
    pub fn word(self) -> &'static str {
        match self {
            Self::Murmur3 => "murmur3",
            Self::Product => "product",
        }
    }

    /// The name with its version, written into every file that depends on the hash.
    pub fn name(self) -> &'static str {
        match self {
            Self::Murmur3 => MURMUR3,
            Self::Product => "folded-product-v1",
        }
    }
}

impl fmt::Display for FeatureHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for FeatureHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|hash| hash.word() == text);
        found.ok_or_else(|| Error::parameter("feature-hash", text, "murmur3 or product"))
    }
}

/// A [`FeatureHash`] as a type: its operations for loops over words. Each loop is compiled for each hash, so that it
/// does not ask at every word which hash it is. A word is one of a text.
pub(crate) trait WordHash {
    /// The hash that the type stands for.
    const HASH: FeatureHash;

    /// The hash of a word of at most [`ShortKey::MAX`] bytes.
    fn short(word: ShortKey) -> u64;

    /// The hash of a word of more bytes.
    fn long(word: &[u8]) -> u64;

    /// The feature that is one word, from the word's hash.
    fn feature(word: u64) -> u64;

    /// The feature that is a shingle, from the polynomial at [`BASE`] over the hashes of its words or characters. The
    /// polynomial is taken modulo 2⁶⁴.
    fn shingle(rolling: u64) -> u64;

    /// The hash of a word of any length.
    #[inline]
    fn word(word: &[u8]) -> u64 {
        if word.len() > ShortKey::MAX {
            return Self::long(word);
        }
        let mut window = [0; ShortKey::MAX];
        window[..word.len()].copy_from_slice(word);
        Self::short(ShortKey::new(&window, word.len()))
    }
}

/// [`FeatureHash::Murmur3`].
pub(crate) struct Murmur3;

impl WordHash for Murmur3 {
    const HASH: FeatureHash = FeatureHash::Murmur3;

    #[inline]
    fn short(word: ShortKey) -> u64 {
        word.feature()
    }

    #[inline]
    fn long(word: &[u8]) -> u64 {
        feature(word)
    }

    #[inline]
    fn feature(word: u64) -> u64 {
        word
    }

    #[inline]
    fn shingle(rolling: u64) -> u64 {
        fmix64(rolling ^ SHINGLE_START)
    }
}

/// [`FeatureHash::Product`].
pub(crate) struct Product;

/// The constants of [`Product`]: 64-bit pieces of the digits of π, made odd where they are not. `PI[3]` is a factor,
/// which must be odd. The others need not be. The vector version of the hash (`kernel::words`) has them, too.
pub(crate) const PI: [u64; 5] = [
    0x243f_6a88_85a3_08d3,
    0xa409_3822_299f_31d1,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6d,
    0xc0ac_29b7_c97c_50dd,
];

/// Multiplies two numbers to 128 bits, and gives the exclusive or of both halves.
#[inline(always)]
pub(crate) fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl WordHash for Product {
    const HASH: FeatureHash = FeatureHash::Product;

    /// The tokenizer makes no word with a zero byte. So a short word and the zeros behind it are no other word, and the
    /// length is not hashed.
    #[inline(always)]
    fn short(word: ShortKey) -> u64 {
        folded(word.low ^ PI[0], word.high ^ PI[1])
    }

    /// Blocks of sixteen bytes are hashed one by one. The last block ends with the word, so it may overlap the one
    /// before. The length, which the first state has, says by how many bytes.
    #[inline]
    fn long(word: &[u8]) -> u64 {
        let (blocks, rest) = word.as_chunks::<16>();
        let last = if rest.is_empty() { None } else { word.last_chunk::<16>() };
        blocks.iter().chain(last).fold(PI[4] ^ word.len() as u64, |state, block| {
            let block = u128::from_le_bytes(*block);
            folded(block as u64 ^ state, (block >> 64) as u64 ^ PI[1])
        })
    }

    #[inline(always)]
    fn feature(word: u64) -> u64 {
        Self::shingle(word)
    }

    /// A product alone would leave words that differ in a bit with hashes that differ in much the same bits.
    #[inline(always)]
    fn shingle(rolling: u64) -> u64 {
        folded(rolling ^ PI[2], PI[3])
    }
}

/// Bits of a feature's hash, and so of a SimHash.
pub const BITS: usize = 64;

/// The base of the polynomial over the word hashes of a shingle: odd, so that multiplying by it loses nothing.
pub(crate) const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The factors of MurmurHash3's blocks: this one and the next. The vector version of the hash (`kernel::words`) has
/// them, too.
pub(crate) const C1: u64 = 0x87c3_7b91_1142_53d5;
pub(crate) const C2: u64 = 0x4cf5_ad43_2745_937f;
/// The factors of [`fmix64`].
pub(crate) const FMIX: [u64; 2] = [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53];

/// MurmurHash3's 64-bit finaliser: a bijection in which every input bit reaches every output bit.
#[inline]
pub const fn fmix64(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(FMIX[0]);
    k ^= k >> 33;
    k = k.wrapping_mul(FMIX[1]);
    k ^ (k >> 33)
}

/// Reads up to 8 bytes as a little-endian number; missing bytes are zero.
#[inline]
fn read_tail(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let word =
        |at: usize| u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    match n {
        0 => 0,
        // Three reads that may fall on the same byte: right for 1, 2 and 3 bytes without a branch.
        1..=3 => {
            u64::from(bytes[0])
                | u64::from(bytes[n / 2]) << (8 * (n / 2))
                | u64::from(bytes[n - 1]) << (8 * (n - 1))
        }
        // Two reads that overlap: the shared bytes are equal, so "or" joins them.
        4..=8 => word(0) | word(n - 4) << (8 * (n - 4)),
        _ => u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")),
    }
}

/// MurmurHash3 x64_128 of `bytes`: both halves, the low one first.
#[inline]
pub fn murmur3_x64_128(bytes: &[u8], seed: u32) -> (u64, u64) {
    let (mut h1, mut h2) = (u64::from(seed), u64::from(seed));
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        let k1 = u64::from_le_bytes(block[..8].try_into().expect("8 bytes"));
        let k2 = u64::from_le_bytes(block[8..].try_into().expect("8 bytes"));
        h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let tail = blocks.remainder();
    let (low, high) = tail.split_at(tail.len().min(8));
    finish(h1, h2, read_tail(low), read_tail(high), bytes.len() as u64)
}

/// The end of MurmurHash3 x64_128: up to 15 last bytes, the length, and the final mixing.
#[inline]
fn finish(mut h1: u64, mut h2: u64, low: u64, high: u64, length: u64) -> (u64, u64) {
    // A zero word hashes to zero, so an empty half changes nothing.
    h2 ^= high.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    h1 ^= low.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = fmix64(h1);
    h2 = fmix64(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2)
}

/// The hash of the bytes of a word or feature by [`FeatureHash::Murmur3`]: the low 64 bits, with seed 0.
#[inline]
pub fn feature(bytes: &[u8]) -> u64 {
    murmur3_x64_128(bytes, 0).0
}

/// Appends a 64-bit number to the hash of a sequence of numbers. Order matters, and every number reaches every bit.
/// Positions of a MinHash signature are hashed by it. Features of shingles are not: [`WordHash::shingle`] makes them.
#[inline]
pub(crate) const fn extend_shingle(shingle: u64, word: u64) -> u64 {
    fmix64(shingle.wrapping_mul(BASE).wrapping_add(word))
}

/// The hash of an empty sequence, which [`extend_shingle`] extends. [`Murmur3`] also combines the polynomial of a
/// shingle with it, by exclusive or.
pub(crate) const SHINGLE_START: u64 = 0x5348_494e_474c_4521;

/// A word of at most [`ShortKey::MAX`] bytes, held in two numbers: most words of most languages. Hashing it takes no
/// branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortKey {
    low: u64,
    high: u64,
    length: u32,
}

impl ShortKey {
    /// The most bytes of a word that fits.
    pub const MAX: usize = 15;

    /// The word that is the first `length` bytes of `window`; the bytes behind them are ignored.
    ///
    /// # Panics
    /// In debug builds, if `length` is above [`MAX`](Self::MAX).
    #[inline]
    pub fn new(window: &[u8; Self::MAX], length: usize) -> Self {
        debug_assert!(length <= Self::MAX);
        /// Read from byte `16 − length` on, ones for as many bytes as the key has.
        const ONES: [[u8; 16]; 2] = [[u8::MAX; 16], [0; 16]];
        let low = u64::from_le_bytes(*window.first_chunk().expect("15 bytes"));
        let high = u64::from_le_bytes(*window.last_chunk().expect("15 bytes")) >> 8;
        let ones = ONES.as_flattened()[16 - length.min(16)..].first_chunk::<16>().expect("32 bytes");
        let ones = u128::from_le_bytes(*ones);
        Self { low: low & ones as u64, high: high & (ones >> 64) as u64, length: length as u32 }
    }

    /// The bytes of the word with zeros behind them, and their number.
    #[inline]
    pub fn bytes(self) -> ([u8; 16], usize) {
        ((u128::from(self.high) << 64 | u128::from(self.low)).to_le_bytes(), self.length as usize)
    }

    /// The value that [`feature`] gives for the word's bytes.
    #[inline]
    pub fn feature(&self) -> u64 {
        finish(0, 0, self.low, self.high, u64::from(self.length)).0
    }
}

/// A 128-bit digest of a text. Texts with the same digest count as the same, byte for byte: exact duplicates are found
/// by it.
#[inline]
pub fn text_digest(text: &str) -> u128 {
    let (low, high) = murmur3_x64_128(text.as_bytes(), 0);
    u128::from(high) << 64 | u128::from(low)
}

/// A generator of random numbers, SplitMix64 (Steele, Lea & Flood 2014). Its numbers for a seed never change, so it
/// draws the parameters that stored sketches depend on, such as MinHash's functions. Tests and made-up documents draw
/// with it, too.
///
/// Calibrations and measurements of a machine draw with `rand`'s `Xoshiro256PlusPlus`, as nothing stored depends on
/// them. Items that have hashes are sampled without a generator. Each hash is combined with the seed and mixed by
/// [`fmix64`]. The items with the least results are the sample, which does not depend on the items' order.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound` − 1 (Lemire's multiplication; the bias is below 2⁻³² for bounds below 2³²).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOLDEN: [(&str, u64); 8] = [
        ("", 11_614_897_685_280_666_924),
        ("the", 8_004_215_016_180_940_054),
        ("straße", 10_021_745_798_311_893_564),
        ("fifteen-letters", 8_285_382_253_534_187_409),
        ("sixteen-letters!", 15_997_381_783_493_545_426),
        ("near-duplicate pages", 1_601_556_822_564_615_199),
        ("thirty-two bytes are two blocks.", 8_142_394_513_900_245_828),
        ("donaudampfschifffahrtsgesellschaft", 12_105_349_013_134_938_126),
    ];

    #[test]
    fn golden_values() {
        // From two independent implementations (the murmur3 crate and Python's mmh3);
        // stored files depend on them.
        assert_eq!(feature(b""), 0);
        assert_eq!(feature(b"the"), 7_678_624_745_143_340_572);
        assert_eq!(feature("straße".as_bytes()), 12_381_567_729_567_032_470);
        assert_eq!(feature(b"near-duplicate pages"), 7_359_682_064_049_699_151);
    }

    #[test]
    fn every_length_agrees_with_the_murmur3_crate() {
        let bytes: Vec<u8> = (0..100u8).map(|i| i.wrapping_mul(37).wrapping_add(11)).collect();
        for n in 0..=bytes.len() {
            for seed in [0, 1, 0xdead_beef] {
                let oracle = murmur3::murmur3_x64_128(&mut &bytes[..n], seed).expect("reads a slice");
                assert_eq!(
                    murmur3_x64_128(&bytes[..n], seed),
                    (oracle as u64, (oracle >> 64) as u64),
                    "{n} {seed}"
                );
            }
        }
    }

    #[test]
    fn golden_values_of_the_product() {
        // From the definition in Python's whole numbers; stored files depend on them.
        let product = |word: &str| Product::feature(Product::word(word.as_bytes()));
        assert_eq!(GOLDEN.map(|(word, _)| product(word)), GOLDEN.map(|(_, hash)| hash));
        assert_eq!(Murmur3::feature(Murmur3::word(b"the")), feature(b"the"));
        for hash in FeatureHash::ALL {
            assert_eq!(hash.word().parse::<FeatureHash>().unwrap(), hash);
            assert_eq!(serde_json::to_value(hash).unwrap(), hash.word());
        }
        assert!("fnv".parse::<FeatureHash>().is_err());
    }

    #[test]
    fn splitmix_is_the_published_sequence() {
        // First outputs for seed 1234567, as published with the reference implementation.
        let mut rng = SplitMix64::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    proptest! {
        #[test]
        fn any_bytes_agree_with_the_murmur3_crate(bytes: Vec<u8>, seed: u32) {
            let oracle = murmur3::murmur3_x64_128(&mut &bytes[..], seed).unwrap();
            prop_assert_eq!(murmur3_x64_128(&bytes, seed), (oracle as u64, (oracle >> 64) as u64));
        }

        #[test]
        fn short_keys_hash_like_their_bytes(window: [u8; ShortKey::MAX], length in 0..=ShortKey::MAX) {
            let key = ShortKey::new(&window, length);
            let (bytes, number) = key.bytes();
            prop_assert_eq!(&bytes[..number], &window[..length]);
            prop_assert_eq!(key.feature(), feature(&window[..length]));
            prop_assert_eq!(Murmur3::word(&window[..length]), feature(&window[..length]));
        }
    }
}
