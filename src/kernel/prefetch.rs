//! Asking for memory before it is needed.

/// Hints that `slice[index]` will be read soon. Does nothing for an index outside of the slice, and on processors other than
/// x86-64 and aarch64.
///
/// On x86-64 the line is brought into the second cache only. The first has room for two dozen lines under way, the second for
/// twice as many, and with many lines asked for it is their number that bounds the speed: a search of the dial index takes up
/// to a fifth less time than with lines brought all the way.
#[inline(always)]
pub fn read<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if index < slice.len() {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: the index is inside of the slice; a prefetch reads nothing, and SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(slice.as_ptr().add(index).cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    if index < slice.len() {
        // SAFETY: the index is inside of the slice; the instruction is a hint, which changes no register, flag or memory.
        unsafe {
            let at = slice.as_ptr().add(index);
            std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (slice, index);
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_index_is_allowed() {
        for index in [0, 2, 3, usize::MAX] {
            super::read(&[1u64, 2, 3], index);
            super::read::<u64>(&[], index);
        }
    }
}
