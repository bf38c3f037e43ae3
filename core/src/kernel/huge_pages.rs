//! Large lists that are read at random places. They lie in memory pages of 2 MiB, where the operating system has such.
//! A read then seldom misses the cache of addresses as well.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of a huge page of x86-64 and of most ARM systems.
const HUGE: usize = 1 << 21;

/// A list of fixed length. One of 2 MiB or more fills whole huge pages, if the operating system grants them. The
/// first and last numbers of a `Vec` stand outside of huge pages. With it, searches of block-permuted tables took 12 %
/// more time at 4 million hashes, and those of PSM 5 %.
pub struct HugeList<T: Copy> {
    /// The start of memory of `layout(len)`, all of whose `len` numbers are written.
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the list owns its numbers, as a `Vec` does.
unsafe impl<T: Copy + Send> Send for HugeList<T> {}
// SAFETY: as above; a shared list gives out shared references only.
unsafe impl<T: Copy + Sync> Sync for HugeList<T> {}

impl<T: Copy> HugeList<T> {
    /// A list of `len` times `value`.
    ///
    /// # Panics
    /// If the list would have more bytes than a process can address.
    pub fn filled(len: usize, value: T) -> Self {
        Self::of_places(len, |_| value)
    }

    /// A copy of `numbers`.
    pub fn of(numbers: &[T]) -> Self {
        Self::of_places(numbers.len(), |place| numbers[place])
    }

    /// A list of `len` numbers, each made from its place by `number`.
    fn of_places(len: usize, number: impl Fn(usize) -> T) -> Self {
        const { assert!(size_of::<T>() > 0, "numbers take memory") };
        let Some(layout) = Self::layout(len) else { return Self::default() };
        // SAFETY: the layout's size is not 0.
        let memory = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(layout) };
        if layout.align() == HUGE {
            advise(memory, layout.size());
        }
        for place in 0..len {
            // SAFETY: the memory is of `len` numbers at the least.
            unsafe { start.add(place).write(number(place)) };
        }
        Self { start, len }
    }

    /// The layout of memory for `len` numbers; `None` if they take no memory.
    fn layout(len: usize) -> Option<Layout> {
        let numbers = Layout::array::<T>(len).expect("fewer numbers than memory has bytes");
        let whole_pages =
            || Layout::from_size_align(numbers.size().checked_next_multiple_of(HUGE)?, HUGE).ok();
        match numbers.size() {
            0 => None,
            1..HUGE => Some(numbers),
            _ => Some(whole_pages().expect("fewer numbers than memory has bytes")),
        }
    }
}

impl<T: Copy> Drop for HugeList<T> {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: the memory was allocated with this layout.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

impl<T: Copy> Deref for HugeList<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: there are `len` written numbers, which nobody changes while the list is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for HugeList<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the list is borrowed by one only.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy> Default for HugeList<T> {
    fn default() -> Self {
        Self { start: NonNull::dangling(), len: 0 }
    }
}

impl<T: Copy> Clone for HugeList<T> {
    fn clone(&self) -> Self {
        Self::of(self)
    }
}

impl<T: Copy + fmt::Debug> fmt::Debug for HugeList<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

/// Asks for huge pages under memory that has not been written yet. A wish: whether it is granted changes no
/// result.
#[cfg(target_os = "linux")]
fn advise(memory: *mut u8, bytes: usize) {
    // SAFETY: whole pages of memory that we hold exclusively. The advice changes neither their contents nor
    // what may be done with them.
    let granted = unsafe { rustix::mm::madvise(memory.cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
    // Without huge pages it is only slower.
    let _ = granted;
}

#[cfg(not(target_os = "linux"))]
fn advise(_: *mut u8, _: usize) {}

/// Makes a list of `len` times the default, which should be zero. The operating system then gives the memory
/// page by page as it is written to, in huge pages if it has such.
pub fn untouched<T: Clone + Default>(len: usize) -> Vec<T> {
    let mut list = vec![T::default(); len];
    advise_within(list.as_mut_ptr(), len);
    list
}

/// Makes an empty list with room for `most` values, in memory as that of [`untouched`] lists.
pub fn with_room<T>(most: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(most);
    advise_within(list.as_mut_ptr(), most);
    list
}

/// Asks for huge pages under as much of a list of our own as fills whole ones.
fn advise_within<T>(start: *mut T, len: usize) {
    let (start, bytes) = (start.cast::<u8>(), len * size_of::<T>());
    let before = start.align_offset(HUGE);
    if before < bytes && bytes - before >= HUGE {
        advise(start.wrapping_add(before), (bytes - before) / HUGE * HUGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of lists. Miri takes the small ones alone: it is slow, and knows no advice on memory.
    fn lengths<const N: usize>(all: [usize; N]) -> impl Iterator<Item = usize> {
        all.into_iter().filter(|&len| !cfg!(miri) || len <= 1000)
    }

    #[test]
    fn untouched_lists_are_zeros() {
        for len in lengths([0, 1, 1000, 1 << 18, (1 << 20) + 7]) {
            let mut list: Vec<u64> = untouched(len);
            assert!(list.len() == len && list.iter().all(|&number| number == 0));
            list.iter_mut().zip(1..).for_each(|(number, place)| *number = place);
            list.push(0);
            assert!(list.into_iter().take(len).eq(1..=len as u64));
            let mut list = with_room(len);
            assert!(list.is_empty() && list.capacity() >= len);
            list.extend(0..=len as u64);
            assert!(list.into_iter().eq(0..=len as u64));
        }
    }

    #[test]
    fn small_and_large_lists() {
        for len in lengths([0, 1, 1000, 1 << 18, (1 << 18) + 1, 1 << 20]) {
            let mut list = HugeList::filled(len, 7u64);
            assert!(list.len() == len && list.iter().all(|&x| x == 7));
            for (place, number) in (0..).zip(list.iter_mut()) {
                *number = place;
            }
            let copy = list.clone();
            assert!(copy[..] == list[..] && HugeList::of(&list)[..] == list[..]);
            assert!(copy.iter().copied().eq(0..len as u64));
            if size_of_val(&list[..]) >= HUGE {
                assert_eq!(list.as_ptr().addr() % HUGE, 0);
            }
        }
        assert!(HugeList::<u64>::default().is_empty() && HugeList::<u64>::of(&[]).is_empty());
    }
}
