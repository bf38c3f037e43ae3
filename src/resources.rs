//! Resources that a run has used, and those that it may use: processor time, memory and open files, as the operating
//! system reports them.

/// Processor time of this process over all threads, in seconds; `None` where the system does not say.
pub fn cpu_seconds() -> Option<f64> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
    }
    #[cfg(not(unix))]
    None
}

/// Processor time of this thread in seconds; where the system does not say, time on the clock. Only
/// differences have a meaning.
pub fn thread_seconds() -> f64 {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
    }
}

/// The most memory that this process has held at once, in bytes; `None` where the system does not say.
pub fn peak_memory_bytes() -> Option<u64> {
    bytes_in("/proc/self/status", "VmHWM:")
}

/// The bytes on the line of a file of the system that begins with `name`, such as `VmHWM:  1024 kB`.
fn bytes_in(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Raises the number of files that this process may have open to the most that the system allows, and gives the number
/// that it may have now. `None` where there is no limit, or the system does not say.
pub fn allowed_descriptors() -> Option<usize> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        let allowed = if raised.is_ok() { maximum } else { current };
        allowed.map(|allowed| usize::try_from(allowed).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    None
}

/// Bytes of memory that a run may take where the user names none: half of what the machine or the container has, or
/// what is free, if that is less. They are 4 GiB where the system does not say.
pub fn memory_share() -> u64 {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let line = |name: &str| bytes_in("/proc/meminfo", name);
    let container = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = container.into_iter().filter_map(number).chain(line("MemTotal:")).map(|all| all / 2);
    limits.chain(line("MemAvailable:")).min().unwrap_or(4 << 30)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_share_of_memory_is_less_than_all() {
        let share = super::memory_share();
        assert!(share > 1 << 20 && share < 1 << 50, "{share}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn work_costs_time_and_memory() {
        let before = super::cpu_seconds().unwrap();
        let block = std::hint::black_box(vec![1u8; 20_000_000]);
        let sum: u64 = block.iter().map(|&b| u64::from(b)).sum();
        assert_eq!(std::hint::black_box(sum), 20_000_000);
        assert!(super::cpu_seconds().unwrap() > before);
        assert!(super::peak_memory_bytes().unwrap() > 20_000_000);
        assert!(super::thread_seconds() > 0.0);
    }
}
