//! Owns what a thread knows of its own processor time.
//! Adds nothing up; who reports it does.

use std::time::Duration;

/// Processor time that the calling thread has used so far.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
