//! Owns the figures of how much of each running job is done, and of the time left.
//! Measures nothing, and keeps nothing of jobs that have ended.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use godwit_api::rest::ProgressView;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::jobs::JobLabel;

/// The figures, one set of time series for each running job.
#[derive(Default)]
pub(super) struct DoneMetrics {
    bytes: Family<JobLabel, Gauge>,
    bytes_total: Family<JobLabel, Gauge>,
    files: Family<JobLabel, Gauge>,
    files_total: Family<JobLabel, Gauge>,
    left: Family<JobLabel, Gauge<f64, AtomicU64>>,
}

impl DoneMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "job_done",
            "Finished bytes of each running job",
            Unit::Bytes,
            self.bytes.clone(),
        );
        registry.register_with_unit(
            "job_size",
            "Bytes of all files of each running job, once its scan has ended",
            Unit::Bytes,
            self.bytes_total.clone(),
        );
        registry.register(
            "job_done_files",
            "Complete files of each running job",
            self.files.clone(),
        );
        registry.register(
            "job_files",
            "Files of each running job that are known so far",
            self.files_total.clone(),
        );
        registry.register_with_unit(
            "job_left",
            "Likely time until the end of each running job, once its scan has ended",
            Unit::Seconds,
            self.left.clone(),
        );
    }

    /// Forgets all jobs.
    pub(super) fn clear(&self) {
        self.bytes.clear();
        self.bytes_total.clear();
        self.files.clear();
        self.files_total.clear();
        self.left.clear();
    }

    /// Takes the progress of a running job.
    pub(super) fn set(&self, label: &JobLabel, progress: &ProgressView) {
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.bytes.get_or_create(label).set(whole(progress.bytes));
        if let Some(total) = progress.bytes_total {
            self.bytes_total.get_or_create(label).set(whole(total));
        }
        self.files.get_or_create(label).set(whole(progress.files));
        let known = progress.files_total.max(progress.files);
        self.files_total.get_or_create(label).set(whole(known));
        if let Some(forecast) = &progress.forecast {
            let left = forecast.likely.0.saturating_sub(progress.at.0).max(0);
            let left = Duration::from_millis(left.unsigned_abs()).as_secs_f64();
            self.left.get_or_create(label).set(left);
        }
    }
}
