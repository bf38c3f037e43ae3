//! Memory that was freed and that the allocator keeps.

/// Gives memory that was freed back to the system, where the allocator says how; otherwise it stays with the process,
/// for what is allocated later. From now on what is large goes back as soon as it is freed: glibc, once it has seen
/// large pieces go, puts later ones among the small ones, where they leave gaps.
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
