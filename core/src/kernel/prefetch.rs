//! Asking for memory before it is needed.

/// Hints that `slice[index]` will be read soon, also for an index outside of the slice, where nothing will
/// be. Does nothing on processors other than x86-64 and aarch64.
///
/// On x86-64 the line is brought into the second cache only. The first has room for two dozen lines under
/// way, the second for twice as many, and with many lines asked for it is their number that bounds the speed.
/// A search of the dial index takes up to a fifth less time than with lines brought all the way.
#[inline(always)]
pub fn read<T>(slice: &[T], index: usize) {
    let at = slice.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and does not fault, whatever the address is, and SSE is part of
        // every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction is a hint for any address, which changes no register, flag or memory.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
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
