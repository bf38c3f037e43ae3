//! Memory that the program freed and that the allocator keeps.

/// Gives freed memory back to the operating system, if the allocator is glibc's; others keep it for later allocations.
/// Runs call it before a part for which memory counts, so that what earlier parts freed does not add to it.
/// Pieces of 1 MiB or more that are allocated after the call go back as soon as they are freed. Without that, glibc
/// puts large pieces among the small ones once it has seen large ones go, and they leave gaps there.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        const M_MMAP_THRESHOLD: c_int = -3;
        const LARGE: c_int = 1 << 20;
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> c_int;
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        // SAFETY: glibc has both functions, which any thread may call at any time; neither frees what is in use.
        let _ = unsafe { (mallopt(M_MMAP_THRESHOLD, LARGE), malloc_trim(0)) };
    }
}
