//! The tokeniser's inner loop: 64 bytes folded and classed at once, as far as a level can. To fold a character is to
//! replace it by its normal form without case; its class is its effect on words. Both stand in a table, in the *entry*
//! of its code point, which `text::fold` makes.

use super::cpu::{Isa, Level};

/// Bytes that are folded at once.
pub const BLOCK: usize = 64;

/// Bytes of text that are read for a block: a character of three bytes that begins in it may end behind it.
pub const WINDOW: usize = BLOCK + 2;

/// The number of entries of a table, one for each code point of the first two planes of Unicode.
pub const TABLE: usize = 1 << 17;

/// The layout of an entry: `CLASS` and `ORDER` are shifts, `SPECIAL`, `FIRST`, `SECOND` and `FORM` are masks.
pub mod entry {
    /// The shift of the class, which has two bits.
    pub const CLASS: u32 = 30;
    /// The class of a character that parts words.
    pub const SEPARATOR: u32 = 0;
    /// The class of a letter or digit, which starts or continues a word.
    pub const LETTER: u32 = 1;
    /// The class of a mark, which continues the word or unit before it, and starts nothing.
    pub const MARK: u32 = 2;
    /// The class of a character of a script without spaces, which is a unit of its own.
    pub const UNSPACED: u32 = 3;
    /// The flag of a character that no kernel folds. It is left out, folds to several characters, to one of another
    /// length or class, or changes an ASCII character before it.
    pub const SPECIAL: u32 = 1 << 29;
    /// The flag of a character that composes with some character behind it.
    pub const FIRST: u32 = 1 << 28;
    /// The flag of a character that composes with some character before it.
    pub const SECOND: u32 = 1 << 27;
    /// The shift of the combining class, which has eight bits. A letter has the class of the last mark in it.
    pub const ORDER: u32 = 19;
    /// The mask of the code point that the character folds to, unless it is special.
    pub const FORM: u32 = (1 << ORDER) - 1;
}

/// True if the second of two neighbours may change behind the first. `first` and `second` are their entries. Either the
/// two compose, or they are marks out of order, or the second mark may compose with the character before the first.
#[inline(always)]
pub fn interact(first: u32, second: u32) -> bool {
    let order = |entry: u32| entry >> entry::ORDER & 0xff;
    let composes = second & entry::SECOND != 0;
    let is_mark = second >> entry::CLASS == entry::MARK && order(second) > 0;
    first & entry::FIRST != 0 && composes
        || is_mark && order(first) > 0 && (order(first) > order(second) || composes)
}

/// Masks of a block's bytes by class; bit `i` stands for byte `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteClasses {
    /// ASCII letters and digits.
    pub alphanumeric: u64,
    /// Bytes that are not ASCII.
    pub other: u64,
}

/// Masks of a block's characters by class; bit `i` stands for byte `i`. All bytes of a character are set in the mask of
/// its class; a separator is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Characters {
    /// The number of bytes that were classed: up to the character that the block's end cuts, or to one that is special
    /// or changes behind the one before.
    pub length: usize,
    /// True if a special or changing character stands at `length`. The caller folds it.
    pub is_special: bool,
    /// Letters and digits, ASCII ones too.
    pub letters: u64,
    /// Marks, whichever character they stand behind.
    pub marks: u64,
    /// Characters of scripts without spaces.
    pub units: u64,
    /// The first byte of each character in `units`.
    pub unit_starts: u64,
    /// True if there is a character of three bytes or more. Without one there are no `units`.
    pub wide: bool,
}

impl Level {
    /// Copies 64 bytes to `folded`, where ASCII capital letters become small ones. Returns the classes of the bytes.
    #[inline]
    pub(crate) fn fold_ascii(self, bytes: &[u8; BLOCK], folded: &mut [u8; BLOCK]) -> ByteClasses {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { x86::avx2(bytes, folded) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::avx512(bytes, folded) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { aarch64::neon(bytes, folded) },
            _ => portable(bytes, folded),
        }
    }

    /// Folds the characters of a block that are not ASCII, and returns the classes of all its characters. `bytes` and
    /// `folded` are the results of [`fold_ascii`](Self::fold_ascii) for the block, with which `text` begins, in UTF-8.
    /// `before` is the entry of the character in front of the block, 0 for an ASCII one. Returns `None`, and leaves
    /// `folded` as it was, where this level cannot fold the block. It may take two characters with ASCII in between for
    /// neighbours.
    #[inline]
    pub(crate) fn fold_others(
        self,
        table: &[u32; TABLE],
        text: &[u8; WINDOW],
        bytes: ByteClasses,
        before: u32,
        folded: &mut [u8; BLOCK],
    ) -> Option<Characters> {
        match self.isa() {
            // SAFETY: the level is the proof that this processor has the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => unsafe { x86::others(table, text, bytes, before, folded) },
            _ => None,
        }
    }
}

/// Eight bytes at a time in a general register.
fn portable(bytes: &[u8; 64], folded: &mut [u8; 64]) -> ByteClasses {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // A byte b < 0x80 plus (0x80 − low) has its high bit set iff b ≥ low, and does not reach the next byte.
    let at_least = |bytes: u64, low: u8| bytes + (0x80 - u64::from(low)) * ONES;
    let between = |bytes: u64, low: u8, high: u8| at_least(bytes, low) & !at_least(bytes, high + 1) & HIGH;
    // Gathers the high bits of eight bytes in one byte, the first byte's lowest.
    let gather = |high: u64| (high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let mut what = ByteClasses { alphanumeric: 0, other: 0 };
    for (at, (from, to)) in bytes.as_chunks::<8>().0.iter().zip(folded.as_chunks_mut::<8>().0).enumerate() {
        let word = u64::from_le_bytes(*from);
        let (other, low) = (word & HIGH, word & !HIGH);
        let letters = between(low | (0x20 * ONES), b'a', b'z') & !other;
        let digits = between(low, b'0', b'9') & !other;
        *to = (word | letters >> 2).to_le_bytes();
        what.alphanumeric |= gather(letters | digits) << (8 * at);
        what.other |= gather(other) << (8 * at);
    }
    what
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BLOCK, ByteClasses, Characters, TABLE, WINDOW, entry};
    use std::arch::x86_64::*;

    /// Two registers of 32 bytes. Bytes are compared as signed numbers: those beyond ASCII are negative, and
    /// so in no range.
    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(bytes: &[u8; 64], folded: &mut [u8; 64]) -> ByteClasses {
        let mut what = ByteClasses { alphanumeric: 0, other: 0 };
        for (at, (from, to)) in
            bytes.as_chunks::<32>().0.iter().zip(folded.as_chunks_mut::<32>().0).enumerate()
        {
            // SAFETY: the chunk has 32 bytes, and the load may be unaligned.
            let word = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
            let above = |word, low: u8| _mm256_cmpgt_epi8(word, _mm256_set1_epi8(low as i8 - 1));
            let between = |word, low, high: u8| _mm256_andnot_si256(above(word, high + 1), above(word, low));
            let space = _mm256_set1_epi8(0x20);
            let letters = between(_mm256_or_si256(word, space), b'a', b'z');
            let digits = between(word, b'0', b'9');
            let small = _mm256_or_si256(word, _mm256_and_si256(letters, space));
            // SAFETY: as above, for the store.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), small) };
            let mask = |bytes| u64::from(_mm256_movemask_epi8(bytes) as u32) << (32 * at);
            what.alphanumeric |= mask(_mm256_or_si256(letters, digits));
            what.other |= mask(word);
        }
        what
    }

    /// One register.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn avx512(bytes: &[u8; BLOCK], folded: &mut [u8; BLOCK]) -> ByteClasses {
        let each = |byte: u8| _mm512_set1_epi8(byte as i8);
        // SAFETY: there are 64 bytes, and the load may be unaligned.
        let bytes = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
        let between = |bytes, low: u8, high: u8| {
            _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes, each(low)), each(high - low))
        };
        let space = each(0x20);
        let letters = between(_mm512_or_si512(bytes, space), b'a', b'z');
        let small = _mm512_mask_blend_epi8(letters, bytes, _mm512_or_si512(bytes, space));
        // SAFETY: as above, for the store.
        unsafe { _mm512_storeu_si512(folded.as_mut_ptr().cast(), small) };
        ByteClasses { alphanumeric: letters | between(bytes, b'0', b'9'), other: _mm512_movepi8_mask(bytes) }
    }

    /// The place before each; before the first is the last.
    const PLACES_BEFORE: [u16; 32] = {
        let mut places = [31; 32];
        let mut at = 1;
        while at < places.len() {
            places[at] = at as u16 - 1;
            at += 1;
        }
        places
    };

    /// The characters of two and three bytes, 32 at most, side by side in a register of words. A block with one of four
    /// bytes is left to the caller.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
    pub(super) fn others(
        table: &[u32; TABLE],
        text: &[u8; WINDOW],
        ascii: ByteClasses,
        before: u32,
        folded: &mut [u8; BLOCK],
    ) -> Option<Characters> {
        // SAFETY: 64 bytes from there on are in the window, and the load may be unaligned.
        let bytes = |at: usize| unsafe { _mm512_loadu_si512(text[at..].as_ptr().cast()) };
        let first = bytes(0);
        let at_least = |byte: u8| _mm512_cmpge_epu8_mask(first, _mm512_set1_epi8(byte as i8));
        let (leads, long, longest) = (at_least(0xc0), at_least(0xe0), at_least(0xf0));
        if longest != 0 {
            return None;
        }
        let mut length = match () {
            () if long >> (BLOCK - 2) & 1 == 1 => BLOCK - 2,
            () if leads >> (BLOCK - 1) == 1 => BLOCK - 1,
            () => BLOCK,
        };
        let mut leads = _bzhi_u64(leads, length as u32);
        let wide =
            |bytes| _mm512_cvtepu8_epi16(_mm512_castsi512_si256(_mm512_maskz_compress_epi8(leads, bytes)));
        let [a, b, c] = [first, bytes(1), bytes(2)].map(wide);
        let word = |word: u16| _mm512_set1_epi16(word as i16);
        let low = |bytes| _mm512_and_si512(bytes, word(0x3f));
        let is_long = _mm512_cmpge_epu16_mask(a, word(0xe0));
        let two = _mm512_or_si512(_mm512_slli_epi16::<6>(_mm512_and_si512(a, word(0x1f))), low(b));
        // The upper half of the first byte falls out of the word.
        let three = _mm512_or_si512(
            _mm512_slli_epi16::<12>(a),
            _mm512_or_si512(_mm512_slli_epi16::<6>(low(b)), low(c)),
        );
        let codes = _mm512_mask_mov_epi16(two, is_long, three);
        let count = leads.count_ones();
        let mut known = _bzhi_u32(u32::MAX, count);
        let entries = |codes, known: u32| {
            // SAFETY: a code of 16 bits is one of the table's places.
            unsafe {
                _mm512_mask_i32gather_epi32::<4>(
                    _mm512_setzero_si512(),
                    known as u16,
                    _mm512_cvtepu16_epi32(codes),
                    table.as_ptr().cast(),
                )
            }
        };
        let head = entries(_mm512_castsi512_si256(codes), known);
        let tail = match count {
            0..=16 => _mm512_setzero_si512(),
            _ => entries(_mm512_extracti64x4_epi64::<1>(codes), known >> 16),
        };
        let words = |entries| _mm512_cvtepi32_epi16(entries);
        let both = |head, tail| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(words(head)), words(tail));
        let forms = both(head, tail);
        let upper_half = |entries| _mm512_srli_epi32::<16>(entries);
        let what = both(upper_half(head), upper_half(tail));
        let has = |what, bits: u32| _mm512_test_epi16_mask(what, word((bits >> 16) as u16));
        const ORDER: u32 = 0xff << entry::ORDER;
        let (upper, lower) = (_mm512_movepi16_mask(what), has(what, 1 << entry::CLASS));
        let (seconds, marks) = (has(what, entry::SECOND), upper & !lower & has(what, ORDER));
        let mut special = has(what, entry::SPECIAL);
        if seconds | marks != 0 {
            // SAFETY: there are 64 bytes, and the load may be unaligned.
            let places = unsafe { _mm512_loadu_si512(PLACES_BEFORE.as_ptr().cast()) };
            let first =
                _mm512_mask_mov_epi16(_mm512_permutexvar_epi16(places, what), 1, word((before >> 16) as u16));
            let order = |what| _mm512_and_si512(what, word((ORDER >> 16) as u16));
            let wrong = _mm512_cmpgt_epu16_mask(order(first), order(what));
            special |= has(first, entry::FIRST) & seconds | has(first, ORDER) & marks & (wrong | seconds);
        }
        let special = special & known;
        if special != 0 {
            known &= _blsmsk_u32(special) >> 1;
            length = _tzcnt_u64(_pdep_u64(u64::from(known) + 1, leads)) as usize;
            leads = _bzhi_u64(leads, length as u32);
        }
        if _mm512_cmpneq_epi16_mask(forms, codes) & known != 0 {
            let narrow = |words| _mm512_cvtepi16_epi8(words);
            let six = |words| _mm512_or_si512(low(words), word(0x80));
            let [last, middle] = [six(forms), six(_mm512_srli_epi16::<6>(forms))];
            let two = _mm512_or_si512(_mm512_srli_epi16::<6>(forms), word(0xc0));
            let three = _mm512_or_si512(_mm512_srli_epi16::<12>(forms), word(0xe0));
            let first = narrow(_mm512_mask_mov_epi16(two, is_long, three));
            let second = narrow(_mm512_mask_mov_epi16(last, is_long, middle));
            let third = _mm256_maskz_compress_epi8(is_long, narrow(last));
            let put =
                |bytes, places, what| _mm512_mask_expand_epi8(bytes, places, _mm512_castsi256_si512(what));
            // SAFETY: there are 64 bytes, and the load may be unaligned.
            let ascii = unsafe { _mm512_loadu_si512(folded.as_ptr().cast()) };
            let all = put(put(put(ascii, leads, first), leads << 1, second), (leads & long) << 2, third);
            // SAFETY: as above, for the store.
            unsafe { _mm512_storeu_si512(folded.as_mut_ptr().cast(), all) };
        }
        let long = long & leads;
        let bytes_of = |characters: u32| {
            let starts = _pdep_u64(characters.into(), leads);
            (starts, starts | starts << 1 | (starts & long) << 2)
        };
        const { assert!(entry::LETTER == 1 && entry::MARK == 2 && entry::UNSPACED == 3) };
        let (unit_starts, units) = bytes_of(upper & lower & known);
        Some(Characters {
            length,
            is_special: special != 0,
            letters: _bzhi_u64(ascii.alphanumeric, length as u32) | bytes_of(!upper & lower & known).1,
            marks: bytes_of(upper & !lower & known).1,
            units,
            unit_starts,
            wide: long != 0,
        })
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::ByteClasses;
    use crate::kernel::neon;
    use std::arch::aarch64::*;

    /// Four registers of 16 bytes.
    #[target_feature(enable = "neon")]
    pub(super) fn neon(bytes: &[u8; 64], folded: &mut [u8; 64]) -> ByteClasses {
        let (mut alphanumeric, mut other) = ([vdupq_n_u8(0); 4], [vdupq_n_u8(0); 4]);
        let chunks = bytes.as_chunks::<16>().0.iter().zip(folded.as_chunks_mut::<16>().0);
        for (at, (from, to)) in chunks.enumerate() {
            // SAFETY: the chunk has 16 bytes, and the load may be unaligned.
            let word = unsafe { vld1q_u8(from.as_ptr()) };
            // What is below `low` wraps to a great number.
            let between =
                |word, low: u8, high: u8| vcleq_u8(vsubq_u8(word, vdupq_n_u8(low)), vdupq_n_u8(high - low));
            let space = vdupq_n_u8(0x20);
            let small = vorrq_u8(word, space);
            let letters = between(small, b'a', b'z');
            // SAFETY: as above, for the store.
            unsafe { vst1q_u8(to.as_mut_ptr(), vbslq_u8(letters, small, word)) };
            alphanumeric[at] = vorrq_u8(letters, between(word, b'0', b'9'));
            other[at] = vcltzq_s8(vreinterpretq_s8_u8(word));
        }
        ByteClasses { alphanumeric: neon::mask(alphanumeric), other: neon::mask(other) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::fmix64;
    use proptest::prelude::*;

    /// A table of every class, where one letter in four folds to another, and some characters are special or change
    /// beside others.
    fn table() -> Box<[u32; TABLE]> {
        let entries: Vec<u32> = (0..TABLE as u32)
            .map(|code| {
                let drawn = fmix64(code.into());
                let one_in =
                    |of: u64, bits: u32, at: u32| if (drawn >> at).is_multiple_of(of) { bits } else { 0 };
                let folds = code >= 0x80 && drawn & 3 == u64::from(entry::LETTER);
                let folded = code ^ if folds { one_in(4, 1, 8) } else { 0 };
                let order = one_in(4, ((drawn >> 40) as u32 % 3) << entry::ORDER, 24);
                let beside = one_in(8, entry::FIRST, 16) | one_in(8, entry::SECOND, 20);
                (drawn as u32 & 3) << entry::CLASS | one_in(64, entry::SPECIAL, 12) | beside | order | folded
            })
            .collect();
        entries.try_into().unwrap()
    }

    /// The twin: one character after the other. `None` for a block that a kernel may leave to its caller.
    fn naive(table: &[u32; TABLE], text: &str, mut before: u32) -> Option<(Characters, Vec<u8>)> {
        let mut found = Characters { length: BLOCK, ..Characters::default() };
        let mut folded = Vec::new();
        for (at, c) in text.char_indices().take_while(|&(at, _)| at < BLOCK) {
            let bytes = c.len_utf8();
            let mask = (((1u128 << bytes) - 1) << at) as u64;
            if bytes == 4 {
                return None;
            }
            if found.length < BLOCK {
                continue;
            }
            if c.is_ascii() {
                folded.push(c.to_ascii_lowercase() as u8);
                found.letters |= if c.is_ascii_alphanumeric() { mask } else { 0 };
                continue;
            }
            let entry = table[c as usize];
            found.is_special =
                at + bytes <= BLOCK && (entry & entry::SPECIAL != 0 || interact(before, entry));
            if at + bytes > BLOCK || found.is_special {
                found.length = at;
                continue;
            }
            before = entry;
            found.wide |= bytes > 2;
            match entry >> entry::CLASS {
                entry::LETTER => found.letters |= mask,
                entry::MARK => found.marks |= mask,
                entry::UNSPACED => {
                    found.units |= mask;
                    found.unit_starts |= 1 << at;
                }
                _ => {}
            }
            let form = char::from_u32(entry & entry::FORM).filter(|form| form.len_utf8() == bytes);
            folded.extend_from_slice(form.unwrap().encode_utf8(&mut [0; 4]).as_bytes());
        }
        Some((found, folded))
    }

    fn check(table: &[u32; TABLE], text: &str) {
        let mut window = [b' '; WINDOW];
        let known = text.len().min(WINDOW);
        window[..known].copy_from_slice(&text.as_bytes()[..known]);
        let mask = |is: fn(&u8) -> bool| {
            (0..).zip(&window[..BLOCK]).map(|(at, byte)| u64::from(is(byte)) << at).sum()
        };
        let bytes = ByteClasses {
            alphanumeric: mask(u8::is_ascii_alphanumeric),
            other: mask(|byte| !byte.is_ascii()),
        };
        let padded = format!("{text}{}", " ".repeat(BLOCK));
        let expected =
            [0, entry::FIRST, 1 << entry::ORDER].map(|before| (before, naive(table, &padded, before)));
        let small = window[..BLOCK].to_ascii_lowercase();
        for level in Level::available() {
            let mut ascii = [0; BLOCK];
            let found = level.fold_ascii(window.first_chunk().unwrap(), &mut ascii);
            assert_eq!(found, bytes, "{level:?} {text:?}");
            assert_eq!(ascii[..], small[..], "{level:?} {text:?}");
            for (before, expected) in &expected {
                let mut folded = ascii;
                if let Some(found) = level.fold_others(table, &window, bytes, *before, &mut folded) {
                    let (expected, bytes) = expected.as_ref().expect("a block for kernels");
                    assert_eq!(found, *expected, "{level:?} {text:?}");
                    assert_eq!(folded[..found.length], bytes[..found.length], "{level:?} {text:?}");
                } else {
                    assert_eq!(folded, ascii, "{level:?} {text:?}");
                    assert!(level.name() != "avx512-vbmi" || expected.is_none(), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn every_ascii_character_at_every_place() {
        let table = table();
        for byte in 0..128u8 {
            for place in 0..BLOCK {
                let mut bytes = [b' '; BLOCK];
                bytes[place] = byte;
                check(&table, std::str::from_utf8(&bytes).unwrap());
            }
        }
    }

    #[test]
    fn every_character_of_the_table_at_some_places() {
        let table = table();
        for c in ('\u{80}'..=char::MAX).filter(|c| (*c as u32) < 0x10000 || (*c as u32).is_multiple_of(997)) {
            // One of the first places, which are alike, and one of the last, where the block may cut a character.
            for place in [c as usize % 2, 61 + c as usize % 3] {
                check(&table, &format!("{}{c}Zé", "B".repeat(place)));
            }
        }
    }

    proptest! {
        #[test]
        fn mixed_characters_are_those_of_the_twin(
            characters in prop::collection::vec(
                prop_oneof![
                    4 => prop::char::range(' ', '~'),
                    4 => prop::char::range('\u{80}', '\u{7ff}'),
                    4 => prop::char::range('\u{800}', '\u{ffff}'),
                    1 => prop::char::range('\u{10000}', '\u{10200}'),
                ],
                0..70,
            ),
            narrow in any::<bool>(),
        ) {
            let text: String = characters.into_iter().filter(|c| !narrow || *c < '\u{800}').collect();
            check(&table(), &text);
        }

        #[test]
        fn what_is_no_text_harms_nobody(window in prop::collection::vec(any::<u8>(), WINDOW)) {
            for level in Level::available() {
                let bytes = level.fold_ascii(window.first_chunk().unwrap(), &mut [0; BLOCK]);
                level.fold_others(
                    &table(),
                    window[..].try_into().unwrap(),
                    bytes,
                    u32::MAX,
                    &mut [0; BLOCK],
                );
            }
        }
    }
}
