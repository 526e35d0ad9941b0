//! Owns the values that the node running a job sets over those typed by the job's owner.
//! Reads no text: each value has its type.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use crate::settings::{CpSettings, Judge, VerifySettings};

/// Values that a node sets for one run of a job, each over the setting of its name. They are neither sent nor stored.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Imposed {
    /// Bytes per second; 0 is no limit.
    pub limit: Option<u64>,
    /// How long to retry after the loss of all streams.
    pub retry_for: Option<Duration>,
    /// Limit without a byte moving.
    pub stall_deadline: Option<Duration>,
    /// File for the manifest. A verification reads its manifest there, outside of all exports.
    pub manifest: Option<PathBuf>,
    /// Whether a copy compares existing files by their contents, whatever else its settings say.
    pub checksum: bool,
    /// Whether a verification makes durable what it finds as expected.
    pub durable: bool,
}

impl Imposed {
    pub(super) fn on_copy(&self, settings: &mut CpSettings) {
        if let Some(limit) = self.limit {
            settings.limit_bytes_per_second = NonZeroU64::new(limit);
        }
        set(&mut settings.retry_for, self.retry_for);
        set(&mut settings.stall_deadline, self.stall_deadline);
        if self.manifest.is_some() {
            settings.reports.manifest.clone_from(&self.manifest);
        }
        if self.checksum {
            settings.comparison.judge = Judge::Checksum;
        }
    }

    /// A verification has neither a limit nor a manifest to write, and compares nothing else.
    pub(super) fn on_verify(&self, settings: &mut VerifySettings) {
        set(&mut settings.retry_for, self.retry_for);
        set(&mut settings.stall_deadline, self.stall_deadline);
    }
}

fn set(typed: &mut Duration, imposed: Option<Duration>) {
    *typed = imposed.unwrap_or(*typed);
}
