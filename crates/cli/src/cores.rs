//! Caps the cores that this process uses.
//! Does not choose the number.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::exit::Failure;

/// Restricts the process to the first `threads` of the cores that it may use; 0 leaves them all.
pub(crate) fn cap(threads: u32) -> Result<(), Failure> {
    if threads == 0 {
        return Ok(());
    }
    let failed = |error: rustix::io::Errno| {
        Failure::failed(format!(
            "--threads {threads}: the cores cannot be restricted: {error}"
        ))
    };
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let mut kept = CpuSet::new();
    let chosen = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .take(threads as usize);
    for core in chosen {
        kept.set(core);
    }
    sched_setaffinity(None, &kept).map_err(failed)
}
