//! Owns the measurement of the calling thread's processor time.
//! Adds nothing up; callers report the sums.

use std::time::Duration;

/// Processor time that the calling thread has used so far.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// How long the calling thread was ready to run without a processor; `None` if the kernel has no figure. Costs a microsecond or two.
pub fn thread_cpu_waiting() -> Option<Duration> {
    let reported = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let waited = reported.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(waited))
}
