//! What this process uses: peak memory and CPU time, as the kernel counts them.
//! Cannot tell transfers of one process apart.

use std::time::Duration;

/// Largest resident memory of the process so far, in bytes.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Lets the peak begin anew from the memory in use now. Best effort: some systems do not permit it.
pub fn reset_peak_rss() {
    // "5" resets the peak (proc(5), clear_refs).
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

/// CPU time of all threads of the process, ended ones included.
pub fn process_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
