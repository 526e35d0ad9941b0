//! Reads this process's peak memory and CPU time from the kernel. Cannot distinguish transfers of one process.

use std::fs::File;
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

/// File through which the kernel resets the peak; `None` if it cannot be opened.
static PEAK: OnceLock<Option<File>> = OnceLock::new();

/// Largest resident memory of the process so far, in bytes.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Opens the file that [`reset_peak_rss`] writes to. A process that makes itself undumpable must call this before:
/// afterwards the file belongs to root.
pub fn keep_peak() {
    peak();
}

/// Resets the peak to the current memory use. Best effort: some systems do not permit it.
pub fn reset_peak_rss() {
    if let Some(mut file) = peak() {
        // "5" resets the peak (proc(5), clear_refs).
        let _ = file.write_all(b"5");
    }
}

fn peak() -> Option<&'static File> {
    let open = || File::options().write(true).open("/proc/self/clear_refs");
    PEAK.get_or_init(|| open().ok()).as_ref()
}

/// CPU time of all threads of the process, including ended ones.
pub fn process_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
