//! Large lists that are read at random places: in memory pages of 2 MiB, where the operating system has such, a read
//! does not miss the address cache as well.

/// Huge pages of x86-64 and of most ARM systems.
const HUGE: usize = 1 << 21;

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

/// A list of `len` zeros, in memory that comes when it is first written to.
pub fn untouched<T: Clone + Default>(len: usize) -> Vec<T> {
    let mut list = vec![T::default(); len];
    advise_within(list.as_mut_ptr(), len);
    list
}

/// An empty list with room for `capacity` elements.
pub fn with_room<T>(capacity: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(capacity);
    advise_within(list.as_mut_ptr(), capacity);
    list
}

/// A list of `len` times the same value.
pub fn filled<T: Clone>(len: usize, value: T) -> Vec<T> {
    let mut list = with_room(len);
    list.resize(len, value);
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

    #[test]
    fn small_and_large_lists() {
        for len in [0, 1, 1000, 1 << 18, (1 << 20) + 7] {
            let mut list: Vec<u64> = untouched(len);
            assert!(list.len() == len && list.iter().all(|&number| number == 0));
            list.iter_mut().zip(1..).for_each(|(number, place)| *number = place);
            list.push(0);
            assert!(list.into_iter().take(len).eq(1..=len as u64));
            let mut list = with_room(len);
            assert!(list.is_empty() && list.capacity() >= len);
            list.extend(0..=len as u64);
            assert!(list.into_iter().eq(0..=len as u64));
            let list = filled(len, 7u64);
            assert!(list.len() == len && list.iter().all(|&number| number == 7));
        }
    }
}
