//! Owns a node's files of a job beside the state: log, samples with the figures of the host, and the report made of them.
//! Knows no running job, and asks no other node.

mod host;
mod read;
mod recorder;
mod report;

use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::rest::Timestamp;

pub use host::{Energy, Host, HostTotals, Interface, Tcp, host_totals, is_host_figure};
pub use read::{
    NO_LINES, NO_SAMPLES, Unreadable, bytes, each_line, job_ids, manifest_path, open_manifest,
    read_past, read_samples, remove, size,
};
pub use recorder::{Recorder, make_directory};
pub use report::{Known, TimeLine, make, render};

/// The time by the clock of this machine.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
