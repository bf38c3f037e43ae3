//! Large lists that are read at random places: in pages of 2 MiB, where the operating system has such, a read does not miss
//! the address cache as well.

/// An empty list with room. A large one asks for huge pages before they are touched.
pub fn with_capacity<T>(len: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(len);
    advise(list.spare_capacity_mut());
    list
}

/// A list of zeros; see [`with_capacity`].
pub fn zeroed<T: bytemuck::Zeroable + Clone>(len: usize) -> Vec<T> {
    let mut list = with_capacity(len);
    list.resize(len, T::zeroed());
    list
}

/// Asks for huge pages under memory that has not been written yet. A wish: whether it is granted changes no result.
#[cfg(target_os = "linux")]
fn advise<T>(memory: &mut [std::mem::MaybeUninit<T>]) {
    /// Huge pages of x86-64 and of most ARM systems.
    const HUGE: usize = 1 << 21;
    let range = memory.as_mut_ptr_range();
    let (from, to) = ((range.start as usize).next_multiple_of(HUGE), range.end as usize / HUGE * HUGE);
    if from < to {
        let from = range.start.wrapping_byte_add(from - range.start as usize);
        let bytes = to - from as usize;
        // SAFETY: the whole pages between the ends of memory that we hold exclusively. The advice changes neither their
        // contents nor what may be done with them.
        let granted = unsafe { rustix::mm::madvise(from.cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
        // Without huge pages it is only slower.
        let _ = granted;
    }
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &mut [std::mem::MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    #[test]
    fn small_and_large_lists() {
        for len in [0, 1, 1000, 1 << 20] {
            let list = super::zeroed::<u64>(len);
            assert!(list.len() == len && list.iter().all(|&x| x == 0));
        }
    }
}
