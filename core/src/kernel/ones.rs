//! The places of the ones in a row of bits: where tokens begin and end.

use super::cpu::{Isa, Level};

impl Level {
    /// Sets `places` to the numbers of the bits that are set, ascending; bit `i` of word `w` is number
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
            Isa::Avx2 | Isa::Avx512 | Isa::Avx512Popcnt | Isa::Avx512Vbmi => unsafe {
                x86::bmi(words, places)
            },
            // NEON has nothing for it.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => portable(words, places),
            Isa::Portable => portable(words, places),
        }
    }
}

/// Eight places at a time, whether there are so many or not: a word of text has as many as the next one, so
/// that the number of steps is foreseen. Inlined where the processor counts zeros fast, it does.
#[inline(always)]
fn portable(words: &[u64], places: &mut Vec<u32>) {
    const STEP: usize = 8;
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
    #[target_feature(enable = "popcnt")]
    pub(super) fn popcnt(words: &[u64], places: &mut Vec<u32>) {
        super::portable(words, places);
    }

    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    pub(super) fn bmi(words: &[u64], places: &mut Vec<u32>) {
        super::portable(words, places);
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
